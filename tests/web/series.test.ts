// Series on a grid, and how they become lines.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
    Grid, LineSpec, Track, anyGlob, bridged, csv, isolated, linesOf, parseRange, selects, stacked, stepFor, valuesOf,
} from '../../web/src/core/series';
import { Labels, SeriesType } from '../../web/src/core/types';

const SPEC: LineSpec = { stats: ['value'], group: [], each: false, aggregate: 'sum', most: 12, scale: 1 };

function track(grid: Grid, name: string, labels: Labels, values: (number | null)[], type: SeriesType = 'gauge'): Track {
    const t = new Track(`${name}${JSON.stringify(labels)}`, name, labels, labels['process'] ?? null, null, type, '', grid);
    for (const s of ['value', 'p50', 'p95', 'p99'] as const) t.want(s);
    values.forEach((v, i) => {
        if (v !== null) t.put({ time: grid.time(i), value: v, count: 1, p50: v, p95: v * 2, p99: v * 3 });
    });
    return t;
}

test('steps have no more points than a chart shows', () => {
    const cases: [number, number][] = [[60, 1], [300, 1], [900, 2], [3600, 10], [21600, 60], [86400, 300], [604800, 1800]];
    for (const [range, step] of cases) assert.equal(stepFor(range), step, String(range));
});

test('ranges of elements', () => {
    assert.deepEqual(parseRange('300'), { seconds: 300, from: null, to: null });
    assert.deepEqual(parseRange('100.5..200'), { seconds: 99.5, from: 100.5, to: 200 });
    assert.deepEqual(parseRange('200..100'), { seconds: 900, from: null, to: null });
    assert.deepEqual(parseRange(null), { seconds: 900, from: null, to: null });
});

test('a grid moves on, forgets what leaves, and leaves gaps', () => {
    const grid = new Grid(2, 100, 110);
    const t = track(grid, 'a', {}, [1, 2, 3, 4, 5]);
    for (let step = 0; step < 20; step++) {
        grid.advance(110 + step * 2);
        if (step % 3 !== 0) t.put({ time: 110 + step * 2, value: step, count: 1 });
    }
    assert.equal(grid.begin, 140);
    assert.deepEqual([0, 1, 2, 3, 4].map((i) => t.at('value', i)), [NaN, 16, 17, NaN, 19]);
    assert.equal(t.newest('value'), 19);
    assert.equal(grid.index(138), -1);
    grid.advance(1000);
    assert.ok(t.empty());
});

test('patterns and selectors', () => {
    const cases: [string, string, boolean][] = [
        ['a*', 'abc', true], ['a*|b?', 'bx', true], ['a|b', 'ab', false], ['a.b', 'axb', false], ['sonde_*_total', 'sonde_x_total', true],
    ];
    for (const [glob, name, want] of cases) assert.equal(anyGlob(glob, name), want, `${glob} ${name}`);
    const id = { name: 's', labels: { gen_ai_request_model: 'm1', mode: 'user' }, process: 'p', pid: 7 };
    assert.ok(selects({ names: ['s'], labels: [['model', 'm1'], ['mode', 'user|system']] }, id));
    assert.ok(!selects({ names: ['s'], labels: [['model', 'm2']] }, id));
    assert.ok(!selects({ names: ['s'], labels: [['state', '*']] }, id));
    assert.ok(selects({ names: ['s'], labels: [['route', '/x']] }, id), 'a filter that the series has no label for');
    assert.ok(!selects({ names: ['s'], process: 'q' }, id));
    assert.ok(selects({ names: ['s'], process: 'q' }, { ...id, process: null }), 'the machine has no process');
});

test('lines add what can be added', () => {
    const grid = new Grid(1, 0, 3);
    const tracks = [
        track(grid, 's', { mode: 'user', cpu: '0' }, [1, 2, null]), track(grid, 's', { mode: 'user', cpu: '1' }, [10, null, null]),
        track(grid, 's', { mode: 'system', cpu: '0' }, [5, 5, 5]),
    ];
    const { lines, aggregate } = linesOf(tracks, { ...SPEC, group: ['mode'] });
    assert.deepEqual(lines.map((l) => l.label), ['user', 'system']);
    assert.deepEqual(lines.map((l) => valuesOf(l, grid, aggregate)), [[11, 2, null], [5, 5, 5]]);
    assert.equal(linesOf(tracks, SPEC).lines.length, 1);
    assert.equal(linesOf(tracks, { ...SPEC, each: true }).lines.length, 3);
});

test('percentiles are never added: one line goes on, of several the slowest', () => {
    const grid = new Grid(1, 0, 4);
    const before = track(grid, 'h', { model: 'm', pid: '1' }, [1, 1, null, null], 'histogram');
    const after = track(grid, 'h', { model: 'm', pid: '2' }, [null, 3, 2, null], 'histogram');
    const { lines, aggregate } = linesOf([before, after], { ...SPEC, stats: ['p50', 'p95'] });
    assert.equal(aggregate, 'max');
    assert.deepEqual(lines.map((l) => l.stat), ['p50', 'p95']);
    assert.deepEqual(valuesOf(lines[0], grid, aggregate), [1, 3, 2, null]);
    assert.deepEqual(valuesOf(lines[1], grid, aggregate), [2, 6, 4, null]);
    const other = track(grid, 'h', { model: 'n', pid: '2' }, [1, 1, 1, 1], 'histogram');
    assert.deepEqual(linesOf([before, other], { ...SPEC, stats: ['p50', 'p95', 'p99'] }).lines.map((l) => [l.label, l.stat]),
        [['m', 'p95'], ['n', 'p95']]);
});

test('too many lines: the largest stay, the rest is one', () => {
    const grid = new Grid(1, 0, 2);
    const tracks = Array.from({ length: 10 }, (_, i) => track(grid, 's', { cpu: String(i) }, [i, i]));
    const { lines, left } = linesOf(tracks, { ...SPEC, group: ['cpu'], most: 4 });
    assert.deepEqual(lines.map((l) => l.label), ['7', '8', '9', '7 more']);
    assert.deepEqual(valuesOf(lines[3], grid, 'sum'), [21, 21]);
    assert.equal(left, 0);
    assert.equal(linesOf(tracks, { ...SPEC, group: ['cpu'], most: 4, aggregate: 'max' }).left, 7);
});

test('stacks count nothing as 0 unless there is nothing', () => {
    assert.deepEqual(stacked([[1, null, null], [2, 3, null]]), [[1, 0, null], [3, 3, null]]);
    assert.deepEqual(isolated([1, null, 2, 3, null, 4], 0, 5), [0, 5]);
});

test('a line goes on over readings that are late, and is cut where there are none', () => {
    const values = [null, 1, null, 2, null, null, 3, null, null, null, 4, null];
    assert.deepEqual(bridged(values, 1), [null, 1, undefined, 2, undefined, undefined, 3, null, null, null, 4, null]);
    assert.deepEqual(bridged(values, 2), [null, 1, undefined, 2, null, null, 3, null, null, null, 4, null]);
    assert.deepEqual(bridged(values, 5), values);
    assert.deepEqual(isolated(bridged(values, 1), 0, 11), [10]);
});

test('CSV that no spreadsheet runs', () => {
    assert.equal(csv(['time', '=cmd()'], [['a,b', null], ['"x"', -1.5]]), "time,'=cmd()\r\n\"a,b\",\r\n\"\"\"x\"\"\",-1.5\r\n");
});
