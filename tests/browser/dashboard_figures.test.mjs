// Numbers on the pages are those of the API: in the same tick of a live page, whose stream is stopped to
// compare, and of a time that is over. Figures are read back from their text, not by the page's scripts.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until, workFolder } from './agent.mjs';
import { close, withAgent } from './browser.mjs';
import { startBurst } from './burst.mjs';
import { assertFigure, assertOverview, hold, listenIn, newestOf, readFigure, slowestOf, tableOf, tilesOf, together } from './figures.mjs';
import { functionsOf } from './flame.mjs';
import { press, settled } from './pages.mjs';

const AFTER = 2; // seconds until what has happened is in a reading

const where = workFolder();
let live, burst;

before(async () => {
    ({ live, burst } = await startBurst(where));
    await until('the time around the burst is over', () => Date.now() / 1000 > burst.to + AFTER + 2);
});
after(async () => {
    await live?.stop();
    await close();
    where.remove();
});

test('figures are read as they are written', () => {
    const cases = [
        ['363 ms', 0.363, 0.0005], ['1.2 s', 1.2, 0.005], ['12/s', 12, 0.05], ['1.25 k tokens/s', 1250, 5], ['4.69 GiB', 4.69 * 2 ** 30, 0.005 * 2 ** 30],
        ['1234', 1234, 0.5], ['0.5 %', 0.005, 0.000005], ['0.42 cores', 0.42, 0.0005],
    ];
    for (const [text, value, within] of cases) {
        const read = readFigure(text);
        assert.ok(Math.abs(read.value - value) < 1e-9 * value && Math.abs(read.within - within) < 1e-6 * within, `${text}: ${JSON.stringify(read)}`);
    }
    assert.equal(readFigure('–'), null);
    assert.throws(() => readFigure('12 bananas'));
});

// ---- Live ---------------------------------------------------------------------------------------

/** A live page whose stream is stopped; check is tried until the last event is drawn. */
async function inOneTick(path, check) {
    await withAgent(live.url, path, { script: listenIn }, async (page) => {
        await settled(page);
        const heard = await hold(page);
        await until('the page shows what it has heard', async () => {
            await check(page, heard);
            return true;
        });
    });
}

const sum = (rows, of) => together(rows.map(of).filter((v) => v !== null), 'sum');

test('the overview, live', () => inOneTick('/profiling/dashboard?range=60', async (page, heard) => {
    const tiles = await tilesOf(page);
    const { models, groups } = heard.inference;
    assert.ok(models.length >= 2 && groups.length >= 4);
    assertFigure(tiles['Decode'].value, sum(models, (m) => m.decode_tokens_per_s), 'decode');
    assertFigure(tiles['Prefill'].value, sum(models, (m) => m.prefill_tokens_per_s), 'prefill');
    assertFigure(tiles['Requests'].running, sum(models, (m) => m.running), 'running');
    assertFigure(tiles['Requests'].waiting, sum(models, (m) => m.waiting), 'waiting');
    for (const [label, which] of [['Time to first token', 'ttft'], ['Time between tokens', 'itl']]) {
        const slowest = slowestOf(groups.map((g) => g[which]));
        for (const p of ['p50', 'p95', 'p99']) assertFigure(tiles[label][p], slowest[p], `${label} ${p}`);
    }
    assertFigure(tiles['Memory'].value, newestOf(heard, 'sonde_process_resident_memory_bytes'), 'resident memory');
    assertFigure(tiles['CPU'].value, newestOf(heard, 'sonde_process_cpu_utilization_ratio'), 'CPU');
    assertFigure(tiles['KV cache']['in use'], newestOf(heard, 'sonde_infer_kv_used_ratio', 'max'), 'KV cells in use');
    assertFigure(tiles['KV cache']['prefix hits'], newestOf(heard, 'sonde_infer_prefix_hit_ratio', 'avg'), 'prefix hits');
    assertFigure(tiles['Agent memory'].value, newestOf(heard, 'sonde_agent_memory_bytes'), 'memory of the agent');
    await checkProcesses(page, heard, { program: 'Program', pid: 'PID', cpu: 'CPU' });
}));

/** Rows of the table of processes against the event; columns by what they are called there. */
async function checkProcesses(page, heard, { program, pid, cpu }) {
    const { heads, rows } = await tableOf(page, 'Processes');
    const cell = (row, head) => row[heads.indexOf(head)];
    assert.equal(rows.length, heard.processes.processes.length);
    for (const p of heard.processes.processes) {
        const row = rows.find((r) => cell(r, pid) === String(p.pid));
        assert.ok(row, `process ${p.pid} is listed`);
        assert.equal(cell(row, program), p.program);
        assertFigure(cell(row, cpu), p.cpu_ratio, `CPU of ${p.program}`);
        assertFigure(cell(row, 'Memory'), p.rss_bytes, `memory of ${p.program}`);
        assertFigure(cell(row, 'Threads'), p.threads, `threads of ${p.program}`);
        assertFigure(cell(row, 'Series'), p.series, `series of ${p.program}`);
    }
}

test('models and routes of Inference, live', () => inOneTick('/profiling/inference?range=60', async (page, heard) => {
    const models = await tableOf(page, 'Models');
    const cell = (row, head) => row[models.heads.indexOf(head)];
    assert.equal(models.rows.length, heard.inference.models.length);
    for (const m of heard.inference.models) {
        const row = models.rows.find((r) => cell(r, 'Model') === m.model);
        assert.ok(row, `${m.model} is listed`);
        for (const [head, value] of [['Running', m.running], ['Waiting', m.waiting], ['Prefill', m.prefill_tokens_per_s],
            ['Decode', m.decode_tokens_per_s], ['Batches', m.batches], ['requests', m.batch_requests_mean], ['tokens', m.batch_tokens_mean],
            ['Prefix hits', m.hit_ratio], ['Peak', m.memory_peak_bytes], ['Load time', m.load_s]]) {
            assertFigure(cell(row, head), value, `${m.model}: ${head}`);
        }
        const [used, total] = m.kv ? cell(row, 'KV cells').split(' of ') : ['–', '–'];
        assertFigure(used, m.kv?.used, `${m.model}: KV cells`);
        assertFigure(total, m.kv?.total, `${m.model}: all KV cells`);
        for (const [kind, { bytes }] of Object.entries(m.memory)) {
            const part = cell(row, 'Memory').split(' · ').find((t) => t.startsWith(`${kind} `));
            assertFigure(part.slice(kind.length + 1), bytes, `${m.model}: ${kind}`);
        }
    }

    const groups = await tableOf(page, 'Models and routes');
    assert.equal(groups.rows.length, heard.inference.groups.length);
    const at = (head, nth = 0) => groups.heads.flatMap((h, i) => (h === head ? [i] : []))[nth];
    for (const g of heard.inference.groups) {
        const row = groups.rows.find((r) => r[at('Model')] === g.model && r[at('Route')] === g.route);
        assert.ok(row, `${g.model} ${g.route} is listed`);
        const { ok, error, cancelled, timeout, lost } = g.requests;
        assertFigure(row[at('Requests')], ok + error + cancelled + timeout + lost, 'requests');
        assertFigure(row[at('Failed')], error + timeout + lost, 'failed');
        ['ttft', 'itl', 'duration'].forEach((which, nth) => {
            for (const p of ['p50', 'p95', 'p99']) assertFigure(row[at(p, nth)], g[which]?.count ? g[which][p] : null, `${g.model}: ${which} ${p}`);
        });
        assertFigure(row[at('Requests/s')], g.requests_per_s, 'requests per second');
        assertFigure(row[at('Tokens/s')], g.output_tokens_per_s, 'tokens per second');
    }
}));

test('processes of System, live', () => inOneTick('/profiling/system?range=60', (page, heard) =>
    checkProcesses(page, heard, { program: 'Program', pid: 'PID', cpu: 'CPU' })));

// ---- A time that is over ------------------------------------------------------------------------

/** Series of a name with the value of the newest step that any of them has. */
function atEnd(api, name) {
    const series = api.series.filter((s) => s.name === name);
    const newest = Math.max(...series.flatMap((s) => s.points.map((p) => p.time)));
    return series.flatMap((s) => s.points.filter((p) => p.time === newest).map((p) => ({ labels: s.labels, value: p.value })));
}

const past = () => `from=${burst.from - 5}&to=${burst.to + AFTER}`;

test('the overview of a time that is over', () =>
    withAgent(live.url, `/profiling/dashboard?${past()}`, {}, async (page) => {
        await settled(page);
        const api = await live.ask(`/api/query?${past()}&step=1&limit=5000`);
        assert.equal(api.truncated, false);
        await until('the tiles show the range', async () => {
            assertOverview(await tilesOf(page), api);
            return true;
        });
        // Notes are of the end of the range, not of now.
        const note = (label) => page.locator(`sonde-tile[label="${label}"] .note`).textContent();
        const [, used, all] = /^at the end: (.+) of (.+) cells$/.exec(await note('KV cache'));
        const cells = (state) => atEnd(api, 'sonde_infer_kv_cells').filter((s) => s.labels.state === state).reduce((sum, s) => sum + s.value, 0);
        assertFigure(used, cells('used'), 'KV cells in use');
        assertFigure(all, cells('all'), 'KV cells');
        const kinds = (await note('Memory')).replace(/^at the end: /, '').split(' · ').map((t) => t.split(/ (.+)/));
        const memory = atEnd(api, 'sonde_infer_memory_bytes');
        assert.deepEqual(kinds.map(([kind]) => kind).sort(), [...new Set(memory.map((s) => s.labels.kind))].sort());
        for (const [kind, text] of kinds) assertFigure(text, memory.filter((s) => s.labels.kind === kind).reduce((sum, s) => sum + s.value, 0), kind);
        // The burst is what was slow then, and it is on the screen.
        const p95 = readFigure((await tilesOf(page))['Time to first token'].p95);
        assert.ok(p95.value > 0.06, `${p95.value} s`);
    }));

test('the table behind a curve has the points of the API', () =>
    withAgent(live.url, `/profiling/dashboard?${past()}`, {}, async (page) => {
        await settled(page);
        const chart = page.locator('sonde-timeseries[heading="Resident memory"]');
        await press(chart.getByRole('button', { name: 'Table' }), 'the table is shown', () => chart.locator('table').isVisible());
        const { points } = (await live.ask(`/api/query?name=sonde_process_resident_memory_bytes&${past()}&step=1`)).series
            .find((s) => s.process === 'infer_load');
        const rows = await until('the table is there', async () => {
            const { heads, rows } = await chart.locator('table').evaluate((t) => ({
                heads: [...t.tHead.rows[0].cells].map((c) => c.textContent), rows: [...t.tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent)) }));
            const column = heads.length === 2 ? 1 : heads.findIndex((h) => h.includes('infer_load'));
            return rows.length && rows.map((r) => [r[0].slice(-8), r[column]]);
        });
        assert.equal(rows.length, points.length);
        const texts = new Map(rows);
        for (const p of points) assertFigure(texts.get(new Date(p.time * 1000).toTimeString().slice(0, 8)), p.value, `at ${p.time}`);
    }));

test('the rows of Requests are those of the API', () =>
    withAgent(live.url, `/profiling/requests?${past()}&sort=total`, { viewport: { width: 1600, height: 1000 } }, async (page) => {
        await settled(page);
        const api = await live.ask(`/api/requests?${past()}&state=done&sort=slowest&limit=1000&timeline=0`);
        const list = page.locator('sonde-requests');
        assert.equal(await list.locator('.sum').innerText(), `${api.total} requests`);
        const rows = await list.locator('[role=row][data-row]').evaluateAll((all) => all.map((row) =>
            Object.fromEntries([...row.querySelectorAll('.cell')].map((c) => [c.classList[1], (c.querySelector('b') ?? c).textContent]))));
        assert.ok(rows.length > 8);
        for (const row of rows) {
            const r = api.requests.find((x) => (x.own_id || x.id) === row.id);
            assert.ok(r, `${row.id} is one of the API's`);
            assertFigure(row.total, r.total_s, `${row.id}: duration`);
            assertFigure(row.ttft, r.ttft_s, `${row.id}: first token`);
            assertFigure(row.queue, r.phases.queue?.seconds ?? null, `${row.id}: queue`);
            assertFigure(row.in, r.tokens_in, `${row.id}: tokens in`);
            assertFigure(row.out, r.tokens_out, `${row.id}: tokens out`);
        }
        assert.equal(rows[0].id, api.requests[0].own_id, 'the slowest is the first');
    }));

test('the flame graph is of as much time as the API says', () =>
    withAgent(live.url, `/profiling/cpu?${past()}&view=functions`, {}, async (page) => {
        await settled(page);
        const api = await live.ask(`/api/flamegraph?type=cpu&${past()}`);
        const summary = await until('it is there', async () =>
            /samples/.exec(await page.locator('sonde-flamegraph header p').textContent())?.input);
        const [, time, samples] = /([\d.]+ (?:ms|s)) · ([\d,]+) samples/.exec(summary);
        assert.equal(Number(samples.replace(/,/g, '')), api.about.samples);
        const whole = functionsOf(api).reduce((all, f) => all + f.self, 0);
        assertFigure(time, whole / 1e9, 'CPU time');
    }));
