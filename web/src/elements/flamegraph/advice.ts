// What to do when a profile has no samples: the reason, as the agent knows it, and the next step.

import { ApiError } from '../../core/api';
import { make } from '../../core/dom';
import { empty } from '../../core/states';
import { Profile } from '../../flame/data';
import { Source } from './source';

const MEMORY = ['live', 'peak', 'leaked', 'alloc', 'temporary'];

export async function advice(p: Profile, source: Source): Promise<HTMLElement> {
    const memory = MEMORY.includes(p.kind);
    const notes = (p.about?.notes ?? []).map((n) => make('p', {}, n));
    const state = await source.state();
    const title = p.kind === 'leaked' ? 'Nothing leaks' : memory ? 'No allocations were sampled' : 'No samples in this selection';
    if (!source.remote) return empty(title, 'The file has no samples of this kind.');
    if (p.kind === 'off-cpu') {
        return empty(title, 'Time off the CPU is recorded on request, not all the time.',
            'sonde record --off-cpu -- COMMAND', ...notes);
    }
    if (state && !state.enabled) {
        return empty(title, 'Continuous profiling is off. Turn it on here, or start the agent with it:',
            'sonde run --continuous -- COMMAND\nsonde serve --continuous', ...notes);
    }
    const part = memory ? state?.memory : state?.cpu;
    if (part && !part.active && part.reason) {
        return empty(title, part.reason, memory ? 'sonde run -- COMMAND' : 'sonde doctor', ...notes);
    }
    return empty(title, memory
        ? 'Small programs may not reach the 512 KiB between two samples. Sample more often, or choose a longer time.'
        : 'Nothing that is watched used the CPU then, or the filters leave nothing. Choose a longer time, or remove a filter.',
    memory ? 'sonde run --heap=64K -- COMMAND' : '', ...notes);
}

// The agent has no profile to answer from, which is how every agent begins.
export async function nothingKept(error: ApiError, source: Source): Promise<HTMLElement> {
    const text = `${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}.`;
    if (/no heap/.test(error.message)) return empty('No heap is profiled', text, 'sonde run -- COMMAND');
    if (!/no history/.test(error.message)) return empty('Nothing to show', text);
    const state = await source.state();
    return empty('No samples yet', text, state?.enabled ? '' : 'sonde run --continuous -- COMMAND\nsonde serve --continuous');
}
