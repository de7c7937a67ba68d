// An engine under steady load with one burst of slow prompts in its past, and the agent that watches
// it: what most tests of the dashboard look at.
import { runEngine, until } from './agent.mjs';
import { grownOf } from './flame.mjs';

/** The function that the burst makes slow. */
export const SLOW = 'tokenizer_slow_path';
export const BURST_REQUESTS = 8;

/** {live, burst: {from, to}, requests()}: the agent, whole seconds around the burst, its requests. */
export async function startBurst(where) {
    const live = await runEngine(where, ['--store', `${where.folder}/store.db`, '--continuous=99'], ['--rate', '8']);
    try {
        for (const command of ['odd 4', 'error 1', 'cancel 1', 'leak 5000000']) await live.tell(command);
        await until('steady requests are known', async () => (await live.ask('/api/requests?limit=1')).total > 40);
        const burst = await slowBurst(live);
        const requests = async () =>
            (await live.ask(`/api/requests?from=${burst.from}&to=${burst.to}&limit=1000&timeline=0`)).requests
                .filter((r) => r.own_id.startsWith('burst-') && r.state === 'done');
        await until('the burst is known', async () => (await requests()).length === BURST_REQUESTS);
        await until('the burst was sampled', async () =>
            grownOf(await live.ask(`/api/flamegraph?from=${burst.from}&to=${burst.to}&base_from=${burst.from - 5}&base_to=${burst.from}`))
                .some((f) => f.name === SLOW));
        return { live, burst, requests };
    } catch (e) {
        await live.stop();
        throw e;
    }
}

/** One more burst of prompts that are slow in SLOW; whole seconds around it. */
export async function slowBurst(live) {
    await live.tell(`slow ${SLOW} 60`);
    const [from, to] = (await live.tell(`burst ${BURST_REQUESTS} 1200`)).split(' ').map(Number);
    await live.tell(`slow ${SLOW} 0`);
    return { from: Math.floor(from), to: Math.ceil(to) };
}
