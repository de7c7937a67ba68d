// Cells of a heat map: every figure by hand, and the promise that a cell counts what its filters list.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { globMatches, globOf } from '../../web/src/core/glob';
import {
    axisValues, cellsOfRect, chooseEdges, chooseStepMs, columnStats, countIn, edgeAt, formatCells, heatLevel, heatSteps,
    heatmapOf, metricOf, parseCells, place, rectOf, rectOfCells, requestPasses, rowOf, sortRequests, worstRect,
} from '../../web/src/core/heat';
import { Metric, Request } from '../../web/src/core/types';

const START = 1794887640;

function request(arrived: number, total: number | null, more: Partial<Request> = {}): Request {
    return {
        id: `id-${arrived}-${total ?? 0}`, own_id: null, state: 'done', outcome: 'ok', error: null, invalid: null,
        source: 'api', pid: 7, program: 'engine', model: 'tiny', route: '/v1/x', backend: null, trace_id: null,
        arrived, total_s: total, ttft_s: null, tokens_max: null, tokens_in: 8, tokens_reused: 0, tokens_out: 0,
        tokens_per_s: null, hit_ratio: null, efficiency: null, memory_bytes: null, batches: 1, slo: null,
        profile: false, phases: {}, itl: null, attributes: {}, ...more,
    };
}

test('steps are lengths that people count in, the shortest that fits', () => {
    const cases: [number, number, number, number][] = [
        // from, to, columns, step: all ms
        [0, 120_000, 120, 1000],
        [500, 120_500, 120, 2000],   // would be 121 columns of a second
        [0, 900_000, 120, 10_000],
        [0, 3_600_000, 120, 30_000],
        [0, 86_400_000, 120, 900_000],
        [0, 100, 120, 1],
        [0, 365 * 86_400_000, 120, 4 * 86_400_000],
        [0, 10, 1, 10],
    ];
    for (const [from, to, columns, step] of cases) assert.equal(chooseStepMs(from, to, columns), step, `${from}..${to}/${columns}`);
});

test('edges are preferred numbers of three digits', () => {
    assert.deepEqual([-3, -2, -1, 0, 1, 2, 3].map((k) => edgeAt(3, k)), [0.1, 0.2, 0.5, 1, 2, 5, 10]);
    assert.deepEqual([0, 1, 2, 3, 4, 5].map((k) => edgeAt(5, k)), [1, 1.58, 2.51, 3.98, 6.31, 10]);
    assert.deepEqual([-1, 0, 1].map((k) => edgeAt(1, k)), [0.1, 1, 10]);
    assert.equal(edgeAt(10, -29), 0.00126);
    assert.equal(edgeAt(10, 31), 1260);
});

test('rows hold all values, and no more rows than asked for', () => {
    const cases: [string, number[], number][] = [
        ['none', [], 40],
        ['one', [0.012], 40],
        ['zero and one', [0, 0.5], 40],
        ['only zero', [0], 40],
        ['wide', [1e-6, 5e3], 40],
        ['very wide', [1e-9, 1e14], 8],
        ['very wide with zero', [0, 1e-9, 1e14], 8],
        ['one row', [0.1, 20], 1],
        ['at an edge', [0.01, 0.1, 1], 40],
    ];
    for (const [name, values, rows] of cases) {
        const edges = chooseEdges(values, rows);
        if (!values.length) {
            assert.deepEqual(edges, [], name);
            continue;
        }
        assert.ok(edges.length - 1 <= rows && edges.length > 1, `${name}: ${edges.length - 1} rows`);
        edges.forEach((e, i) => assert.ok(i === 0 || e > edges[i - 1], `${name}: edges ascend`));
        for (const v of values) {
            const r = rowOf(edges, v);
            assert.ok(edges[r] <= v && v < edges[r + 1], `${name}: ${v} in [${edges[r]}, ${edges[r + 1]})`);
        }
    }
});

test('what a request is measured by', () => {
    const r = request(START, 2, {
        ttft_s: 0.5, tokens_out: 4, tokens_per_s: 2, phases: { queue: { seconds: 0.1, count: 1 } },
        itl: { count: 3, mean_s: 0.4, min_s: null, p50_s: null, p95_s: null, p99_s: null, max_s: null },
    });
    const cases: [Metric, number][] = [['total', 2], ['ttft', 0.5], ['itl', 0.4], ['queue', 0.1], ['tokens_per_s', 2]];
    for (const [metric, want] of cases) {
        assert.equal(metricOf(r, metric), want, metric);
        assert.equal(metricOf({ ...r, state: 'running' }, metric), null, `${metric} of one that runs`);
        assert.equal(metricOf({ ...r, invalid: 'ttft_s' }, metric), null, `${metric} of one that cannot be`);
    }
    const bare = request(START, 2);
    for (const metric of ['ttft', 'itl', 'queue', 'tokens_per_s'] as const) assert.equal(metricOf(bare, metric), null, metric);
});

test('filters are half open and understand globs', () => {
    const r = request(START + 1, 0.2, { trace_id: '0af7651916cd43dd8448eb211c80319c' });
    const cases: [string, Parameters<typeof requestPasses>[1], boolean][] = [
        ['nothing', {}, true],
        ['from its arrival', { from: START + 1 }, true],
        ['from later', { from: START + 1.000001 }, false],
        ['to its arrival', { to: START + 1 }, false],
        ['to later', { to: START + 1.000001 }, true],
        ['min is in', { metric: 'total', min: 0.2 }, true],
        ['max is not', { metric: 'total', max: 0.2 }, false],
        ['a metric it does not have', { metric: 'ttft' }, false],
        ['model', { model: 't*y' }, true],
        ['another model', { model: 't' }, false],
        ['route with slashes', { route: '/v1/?' }, true],
        ['process', { process: 'eng*' }, true],
        ['pid', { pid: 8 }, false],
        ['outcome', { outcome: 'error' }, false],
        ['state', { state: 'running' }, false],
        ['trace as a UUID', { trace: '0AF76519-16cd-43dd-8448-eb211c80319c' }, true],
        ['took long', { minSeconds: 0.3 }, false],
    ];
    for (const [name, filter, want] of cases) assert.equal(requestPasses(r, filter), want, name);
    assert.ok(globMatches('a[0-9]', 'a7') && !globMatches('a[!0-9]', 'a7') && globMatches('\\*', '*'));
    for (const name of ['<script>', 'a*b', 'x[y]', 'נתיב', 'c:\\d', 'a.b']) assert.ok(globMatches(globOf(name), name), name);
    assert.ok(!globMatches(globOf('a*b'), 'axb'));
});

test('a map by hand', () => {
    const list = [
        request(START + 0.5, 0.010), request(START + 0.999, 0.0101), request(START + 1, 0.5, { outcome: 'error' }),
        request(START + 1.2, 0.5), request(START + 1.3, 0.5, { outcome: 'cancelled' }),
        request(START + 2, 0.5),                                   // outside
        request(START + 1.5, 3, { state: 'running' }), request(START + 1.6, 3, { model: 'other' }),
    ];
    const h = heatmapOf(list, { metric: 'total', from: START, to: START + 2, columns: 2, model: 'tiny' });
    assert.equal(h.columns, 2);
    assert.equal(h.step_s, 1);
    assert.equal(h.counted, 5);
    assert.equal(h.seen, 6);
    assert.equal(h.unit, 's');
    const low = rowOf(h.edges, 0.01);
    const high = rowOf(h.edges, 0.5);
    assert.deepEqual(h.cells, [[0, low, 2, 0], [1, high, 3, 1]]);
    assert.deepEqual(heatmapOf([], { metric: 'ttft', from: START, to: START + 2 }).cells, []);
});

test('a cell counts exactly what its filters list, whatever the values', () => {
    // A small generator, so that the test is the same every time.
    let seed = 12345;
    const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
    const list: Request[] = [];
    for (let i = 0; i < 3000; i++) {
        const value = i % 50 === 0 ? edgeAt(10, i % 37 - 30) : 10 ** (random() * 5 - 4);
        const arrived = i % 40 === 0 ? START + (i % 60) : START + random() * 60;
        list.push(request(arrived, value, { outcome: random() < 0.1 ? 'error' : 'ok' }));
    }
    const o = { metric: 'total' as const, from: START, to: START + 60, columns: 30, rows: 25 };
    const h = heatmapOf(list, o);
    assert.equal(h.counted, list.length);
    let sum = 0;
    for (const [c, r, count, failed] of h.cells) {
        const cells = cellsOfRect(h, { c0: c, c1: c, r0: r, r1: r });
        const listed = list.filter((x) => requestPasses(x, { metric: 'total', ...cells }));
        assert.equal(listed.length, count, `cell ${c},${r}`);
        assert.equal(listed.filter((x) => x.outcome === 'error').length, failed, `failed of ${c},${r}`);
        sum += count;
    }
    assert.equal(sum, list.length);
});

test('what is chosen survives the address, and finds its place again', () => {
    const list = [0.01, 0.02, 0.1, 0.4, 1].map((v, i) => request(START + i, v));
    const h = heatmapOf(list, { metric: 'total', from: START, to: START + 10, columns: 10 });
    for (const rect of [
        { c0: 0, c1: 0, r0: 0, r1: 0 }, { c0: 2, c1: 5, r0: 1, r1: 4 },
        { c0: 0, c1: h.columns - 1, r0: 0, r1: h.rows - 1 },
    ]) {
        const cells = cellsOfRect(h, rect);
        const again = parseCells(formatCells(cells));
        assert.deepEqual(again, cells);
        assert.deepEqual(rectOfCells(h, again!), rect);
    }
    const all = { c0: 0, c1: h.columns - 1, r0: 0, r1: h.rows - 1 };
    assert.deepEqual(countIn(h, all), { count: 5, failed: 0 });
    assert.equal(rectOfCells(h, { from: START + 20, to: START + 30, min: 0, max: 1 }), null);
    assert.equal(rectOfCells(h, { from: START, to: START + 3, min: 100, max: 200 }), null);
    // Of a map with other columns: what it covers.
    assert.deepEqual(rectOfCells(h, { from: START + 1.5, to: START + 3.5, min: 0, max: 1e9 }), { c0: 1, c1: 3, r0: 0, r1: h.rows - 1 });
    for (const bad of [null, '', 'x', '1..2', '2..1:0..1', '1..2:1..1', '1..2:-1..1', '1..2:a..b', '1..2:0..1e999']) {
        assert.equal(parseCells(bad), null, String(bad));
    }
    assert.deepEqual(rectOf({ column: 5, row: 1 }, { column: 2, row: 4 }), { c0: 2, c1: 5, r0: 1, r1: 4 });
});

test('the worst ones are at the end that is bad', () => {
    const list = Array.from({ length: 100 }, (_, i) => request(START + i / 100, i === 42 ? 9 : 0.01));
    const h = heatmapOf(list, { metric: 'total', from: START, to: START + 1 });
    const high = worstRect(h, 0.01, 'high')!;
    assert.deepEqual(countIn(h, high), { count: 1, failed: 0 });
    assert.equal(high.r1, h.rows - 1);
    assert.equal(worstRect(h, 0.01, 'low')!.r0, 0);
    assert.equal(countIn(h, worstRect(h, 0.01, 'low')!).count, 99);
    assert.equal(worstRect(heatmapOf([], { metric: 'total', from: 0, to: 1 }), 0.01, 'high'), null);
});

test('columns have percentiles', () => {
    const list = Array.from({ length: 100 }, (_, i) => request(START + 0.5, i < 95 ? 0.01 : 1));
    const h = heatmapOf(list, { metric: 'total', from: START, to: START + 2, columns: 2 });
    const [first, second] = columnStats(h);
    const ratio = h.edges[2] / h.edges[1];
    assert.equal(first.count, 100);
    assert.ok(first.p50! >= 0.01 / ratio && first.p50! <= 0.01 * ratio, `p50 ${first.p50}`);
    assert.ok(first.p99! >= 1 / ratio && first.p99! <= 1 * ratio, `p99 ${first.p99}`);
    assert.equal(second.p50, null);
});

test('one can be seen, and levels ascend', () => {
    for (const most of [1, 2, 10, 1000]) {
        let before = 0;
        for (let n = 1; n <= most; n++) {
            const level = heatLevel(n, most);
            assert.ok(level >= before && level <= 9, `${n} of ${most}`);
            before = level;
        }
        if (most > 1) assert.equal(before, 9);
        for (const { level, from } of heatSteps(most)) {
            assert.equal(heatLevel(from, most), level);
            if (from > 1) assert.ok(heatLevel(from - 1, most) < level, `${from - 1} of ${most} is below level ${level}`);
        }
    }
    assert.equal(heatLevel(0, 10), 0);
});

test('the axis has nice values in their place', () => {
    const edges = chooseEdges([0.001, 1], 40);
    assert.equal(place(edges, edges[0]), 0);
    assert.equal(place(edges, edges[edges.length - 1]), 1);
    edges.forEach((e, i) => assert.ok(Math.abs(place(edges, e) - i / (edges.length - 1)) < 1e-9, `edge ${i}`));
    assert.deepEqual(axisValues(edges, 20), [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1]);
    assert.deepEqual(axisValues(edges, 5), [0.001, 0.01, 0.1, 1]);
    assert.deepEqual(axisValues([], 5), []);
    assert.equal(axisValues(chooseEdges([0, 0.001, 1], 40), 20)[0], 0);
    assert.ok(axisValues(chooseEdges([0.012, 0.013], 40), 10).length >= 1);
});

test('lists are in the order of the agent', () => {
    const a = request(START, 1, { ttft_s: 0.1, id: 'a' });
    const b = request(START + 1, 1, { ttft_s: 0.3, id: 'b' });
    const c = request(START + 1, 2, { id: 'c' });
    const ids = (sort: Parameters<typeof sortRequests>[1]) => sortRequests([a, b, c], sort).map((r) => r.id).join('');
    assert.equal(ids('slowest'), 'cba');
    assert.equal(ids('newest'), 'bca');
    assert.equal(ids('oldest'), 'abc');
    assert.equal(ids('ttft'), 'bac');
});
