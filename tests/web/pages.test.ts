// Figures of pages: sums, orders and rows, each by hand.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Board } from '../../web/src/core/board';
import { Grid, Track, statOf } from '../../web/src/core/series';
import { Family, Process } from '../../web/src/core/types';
import { Figures, verdictOf } from '../../web/src/pages/figures';
import { Engine, Pool, Times, isChosen, lengthsOf, operationsOf, ownerOf, poolsOf } from '../../web/src/pages/engine_figures';
import { Gpu, absentOf, deviceLabel, figureOf, gpuFamilies, gpuName, throttledBy, whyNone } from '../../web/src/pages/gpu_figures';
import { endedOf, failedOf, goodputOf, sharedNames } from '../../web/src/pages/inference_figures';
import { formatSort, parseSort, sortRows } from '../../web/src/pages/sort';
import { Reading, processesOf, threadsOf } from '../../web/src/pages/system_figures';

test('outcomes: cancelled requests ended, but did not fail', () => {
    const o = { ok: 10, error: 1, cancelled: 2, timeout: 3, lost: 4 };
    assert.equal(endedOf(o), 20);
    assert.equal(failedOf(o), 8);
    assert.equal(goodputOf(3, 1), 0.75);
    assert.equal(goodputOf(0, 0), null);
});

// Series of ten steps of a second; values by step.
function figures(series: readonly { name: string; labels: Record<string, string>; values: Record<number, number> }[]): Figures {
    const grid = new Grid(1, 100, 110);
    const tracks = series.map(({ name, labels, values }, i) => {
        const t = new Track(String(i), name, labels, 'p', 7, 'gauge', '', grid);
        t.want('value');
        for (const [step, value] of Object.entries(values)) t.put({ time: 100 + Number(step), value, count: 1 });
        return t;
    });
    const board = { grid, step: 1, isLive: false } as Board;
    return new Figures(board, () => tracks, { process: null, pid: null, model: null, route: null });
}

test('the end of a range is its newest step that has a value, of all series the same', () => {
    const kinds = (f: Figures) => f.atEnd('m').map((s) => [s.labels['kind'], s.value]);
    const kv = { name: 'm', labels: { kind: 'kv' }, values: { 1: 5, 7: 6, 8: 7 } };
    assert.deepEqual(kinds(figures([kv, { name: 'm', labels: { kind: 'weights' }, values: { 8: 40 } }])), [['kv', 7], ['weights', 40]]);
    assert.deepEqual(kinds(figures([kv, { name: 'm', labels: { kind: 'gone' }, values: { 7: 40 } }])), [['kv', 7]]);
    assert.deepEqual(kinds(figures([])), []);
});

test('goodput counts a step without a miss as none, not as unknown', () => {
    const slo = (result: string, values: Record<number, number>) => ({ name: 'sonde_infer_slo_requests_total', labels: { result }, values });
    assert.equal(figures([slo('met', { 0: 4, 1: 4, 2: 4, 3: 3 }), slo('missed', { 3: 5 })]).goodput(), 0.75);
    assert.equal(figures([slo('met', { 0: 0, 1: 0 })]).goodput(), null);
    assert.equal(figures([]).goodput(), null);
});

test('missed objectives degrade what is well, and change nothing else', () => {
    const missed = '85.3 % of requests meet the objectives';
    assert.deepEqual(verdictOf({ status: 'ok', reasons: [] }, 0.853), { status: 'degraded', reasons: [missed] });
    assert.deepEqual(verdictOf({ status: 'failing', reasons: ['x'] }, 0.853), { status: 'failing', reasons: ['x', missed] });
    for (const goodput of [null, 0.995, 1]) assert.deepEqual(verdictOf({ status: 'ok', reasons: [] }, goodput), { status: 'ok', reasons: [] });
});

test('a name of several processes is shared, one of several models is not', () => {
    const rows = [{ process: 'a', pid: 1 }, { process: 'a', pid: 1 }, { process: 'b', pid: 2 }, { process: 'b', pid: 3 }];
    assert.deepEqual([...sharedNames(rows)], ['b']);
});

test('sum of a histogram is values per second times their mean', () => {
    assert.equal(statOf({ time: 0, value: 4, count: 8, avg: 0.5 }, 'sum'), 2);
    assert.equal(statOf({ time: 0, value: 4, count: 8 }, 'sum'), null);
    assert.equal(statOf({ time: 0, value: 4, count: 8, p95: null }, 'p95'), null);
    assert.equal(statOf({ time: 0, value: 4, count: 8 }, 'value'), 4);
});

test('rows sort both ways, what is unknown comes last', () => {
    const by = (values: (number | string | null)[], descending: boolean) => sortRows(values, (v) => v, descending);
    const cases: [(number | string | null)[], boolean, (number | string | null)[]][] = [
        [[3, null, 1, 2], false, [1, 2, 3, null]],
        [[3, null, 1, 2], true, [3, 2, 1, null]],
        [['cpu10', 'cpu2', null], false, ['cpu2', 'cpu10', null]],
        [[NaN, 1], true, [1, NaN]],
        [[], true, []],
    ];
    for (const [rows, descending, sorted] of cases) assert.deepEqual(by(rows, descending), sorted);
});

test('a sort order in the address, and one that is not a column', () => {
    const otherwise = { column: 'cpu', descending: true };
    assert.deepEqual(parseSort('-rss', ['cpu', 'rss'], otherwise), { column: 'rss', descending: true });
    assert.deepEqual(parseSort('rss', ['cpu', 'rss'], otherwise), { column: 'rss', descending: false });
    assert.deepEqual(parseSort('nope', ['cpu', 'rss'], otherwise), otherwise);
    assert.deepEqual(parseSort(null, ['cpu', 'rss'], otherwise), otherwise);
    assert.equal(formatSort({ column: 'rss', descending: true }), '-rss');
});

const reading = (name: string, labels: Record<string, string>, value: number, last = NaN, pid = 7): Reading => ({ name, labels, pid, value, last });

test('threads: modes add up, states have names, other processes are left out', () => {
    const rows = threadsOf([
        reading('sonde_thread_cpu_seconds_total', { tid: '8', name: 'worker', mode: 'user' }, 0.5),
        reading('sonde_thread_cpu_seconds_total', { tid: '8', name: 'worker', mode: 'system' }, 0.25),
        reading('sonde_thread_state', { tid: '8', name: 'worker' }, 1.5, 2),
        reading('sonde_thread_last_cpu', { tid: '8', name: 'worker' }, 0.5, 1),
        reading('sonde_thread_context_switches_total', { tid: '8', name: 'worker', type: 'voluntary' }, 12),
        reading('sonde_thread_context_switches_total', { tid: '8', name: 'worker', type: 'involuntary' }, NaN),
        reading('sonde_thread_cpu_seconds_total', { tid: '9', name: 'x', mode: 'user' }, 1, NaN, 6),
    ], 7);
    assert.deepEqual(rows, [{
        tid: '8', name: 'worker', state: 'waiting for a disk', cpu: 0.75, user: 0.5, system: 0.25, voluntary: 12, involuntary: null, lastCpu: 1,
    }]);
});

test('processes: drops of all reasons and lost spans, started as the series says', () => {
    const p: Process = {
        pid: 7, program: 'engine', state: 'running', ended: null, segment_bytes: 1, lanes: 1, threads: 1, cpu_ratio: 0, rss_bytes: 0, heap_bytes: null,
        drops: { memory: 1, range: 2 }, spans_seen: 9, spans_lost: 4, series: 3,
    };
    const [row] = processesOf([p], [reading('sonde_process_start_time_seconds', {}, 100, 100), reading('sonde_process_open_fds', {}, 5, NaN)]);
    assert.equal(row.dropped, 7);
    assert.equal(row.started, 100);
    assert.equal(row.fds, 5);
    assert.equal(processesOf([p], [])[0].started, null);
});

test('series of GPUs are those of known exporters, utilisation first', () => {
    const family = (name: string, labels: Record<string, string> = {}): Family => ({
        name, type: 'gauge', kind: '', unit: '', help: '', source: 'scrape', series: [{ labels }],
    });
    const names = gpuFamilies([
        family('DCGM_FI_DEV_POWER_USAGE'), family('sonde_host_load1'), family('vllm:gpu_cache_usage_perc'),
        family('DCGM_FI_DEV_GPU_UTIL', { gpu: '0', UUID: 'x' }), family('sonde_gpu_memory_bytes', { device: '0' }),
    ]);
    assert.deepEqual(names.map((f) => f.name), ['DCGM_FI_DEV_GPU_UTIL', 'sonde_gpu_memory_bytes', 'DCGM_FI_DEV_POWER_USAGE']);
    assert.deepEqual(names.map((f) => deviceLabel(f)), ['gpu', 'device', '']);
});

const TIMES: Times = { count: 0, seconds: 0, mean_s: null, p50_s: null, p99_s: null, max_s: null };
const FIGURES = {
    used_bytes: 0, capacity_bytes: null, requested_bytes: null, allocations: TIMES, frees: TIMES, failures: 0,
    fragmentation_external: null, fragmentation_internal: null,
};

test('pools: the sum is of all of them, so it is shown with all of them', () => {
    const pool = (name: string, pid: number): Pool => ({ ...FIGURES, program: 'engine', pid, pool: name });
    const e: Engine = { devices: null, tokenizers: null, pools: { all: { ...FIGURES, used_bytes: 7 }, list: [pool('kv', 1), pool('weights', 1), pool('kv', 2)] } };
    const names = (pid: string | null) => poolsOf(e, { process: null, pid }).map((p) => p.pool);
    assert.deepEqual(names(null), ['kv', 'weights', 'kv', null]);
    assert.deepEqual(names('1'), ['kv', 'weights']);
    assert.deepEqual(names('3'), []);
    assert.deepEqual(poolsOf({ ...e, pools: { all: FIGURES, list: [pool('kv', 1)] } }, { process: null, pid: null }).length, 1);
    assert.deepEqual(poolsOf({ ...e, pools: null }, { process: null, pid: null }), []);
    assert.equal(ownerOf(pool('kv', 1), e.pools!.list), 'engine 1');
    assert.equal(ownerOf(pool('kv', 1), [pool('weights', 1)]), '');
    assert.ok(isChosen(pool('kv', 1), { process: 'engine', pid: null }));
    assert.ok(!isChosen(pool('kv', 1), { process: 'other', pid: null }));
});

test('operations of all devices are in the order of their time', () => {
    const op = (operation: string, seconds: number) => ({ ...TIMES, operation, seconds, share: null });
    const device = (name: string, ...operations: ReturnType<typeof op>[]) => ({
        program: 'engine', pid: 1, device: name, kind: 'cpu', count: 0, seconds: 0, share: null, memory_used_bytes: null, memory_total_bytes: null,
        memory_efficiency: null, operations, fallbacks: 0, fallback_reasons: {},
    });
    const rows = operationsOf([device('cpu', op('matmul', 3), op('norm', 1)), device('cuda0', op('matmul', 2))]);
    assert.deepEqual(rows.map((o) => [o.device.device, o.operation]), [['cpu', 'matmul'], ['cuda0', 'matmul'], ['cpu', 'norm']]);
    assert.deepEqual(lengthsOf([]), []);
});

test('what a GPU is called, what slows it, and why there is none', () => {
    const g: Gpu = { gpu: 0, mig: 2, name: 'A', uuid: null, pci: 'p', driver: null, driver_version: null, by: 'nvml', state: 'ok',
        figures: { 'throttled_ratio.power': 1, 'throttled_ratio.thermal': 0.5, power_watts: null }, absent: { fan_ratio: 'not permitted' } };
    assert.equal(gpuName(g), '0.2');
    assert.equal(gpuName({ gpu: 3, mig: null }), '3');
    assert.equal(throttledBy(g), 'lowered by thermal, power');
    assert.equal(throttledBy({ ...g, figures: {} }), 'ok');
    assert.equal(throttledBy({ ...g, state: 'lost' }), 'lost');
    assert.equal(figureOf(g, 'power_watts'), null);
    assert.equal(absentOf(g), 'fan_ratio: not permitted');
    const none = { enabled: true, sources: [{ name: 'nvml', looked_for: '/dev/x', state: 'absent', note: null }], devices: [], processes: [] };
    assert.match(whyNone(none), /looked for \/dev\/x/);
    assert.match(whyNone({ ...none, sources: [{ ...none.sources[0], state: 'broken', note: 'it crashed' }] }), /nvml: it crashed/);
    assert.match(whyNone({ ...none, enabled: false }), /gpu\.enabled/);
    assert.match(whyNone(null), /does not tell/);
});
