// Where boxes are, which of them are drawn together, and stacks over time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callees } from '../../web/src/flame/merge';
import { Layout } from '../../web/src/flame/layout';
import { packageOf } from '../../web/src/flame/package';
import { TimeSamples, ticks, timeProfile } from '../../web/src/flame/time';
import { profileOf, randomStacks } from './flame_stacks';

test('boxes of a row stand side by side, what was left out behind them', () => {
    const p = profileOf(randomStacks(600, 5, 9, 8));
    for (const least of [0, 0.004, 0.05]) {
        const t = callees(p, p.tree, [0], 'name', { least });
        const l = new Layout(t);
        let boxes = 0;
        for (let row = 0; row < l.rows; row++) {
            let right = 0;
            for (let i = l.first[row]; i < l.first[row + 1]; i++) {
                boxes++;
                assert.equal(l.rowOf(i), row);
                assert.ok(l.left[i] >= right, `box ${i} of row ${row} overlaps`);
                right = l.right[i];
                const n = l.node[i];
                const up = n < 0 ? ~n : t.parent[n];
                if (up >= 0) assert.ok(l.left[i] >= l.left[l.boxOf[up]] && right <= l.right[l.boxOf[up]] + 1e-9);
                assert.equal(right - l.left[i], n < 0 ? t.dropped[~n] : t.total[n]);
            }
        }
        const cut = [...t.dropped].filter((d) => d > 0);
        assert.equal(boxes, t.count + cut.length);
        assert.equal(l.cutBetween(0, l.whole), cut.reduce((a, b) => a + b, 0));
    }
});

test('runs: what is narrower than a pixel and touches is one box', () => {
    // Weights 1 1 1 40 1 1 then a gap (self of the parent), pixel = 5.
    const leaf = (name: string, weight: number) => ({ names: ['p', name], weight });
    const p = profileOf([leaf('a', 1), leaf('b', 1), leaf('c', 1), leaf('d', 40), leaf('e', 1), leaf('f', 1),
        { names: ['p'], weight: 20 }, { names: ['q', 'r'], weight: 2 }, { names: ['q'], weight: 30 }]);
    const l = new Layout(p.tree);
    const [low, high] = [l.first[2], l.first[3]];
    const runs: string[] = [];
    for (let i = low; i < high;) {
        const end = l.isSmall(i, 5) ? l.runEnd(i, high, 5) : i + 1;
        runs.push(Array.from({ length: end - i }, (_, k) => p.frames[p.tree.frame[l.node[i + k]]].name).join(''));
        for (let k = i; k < end; k++) if (l.isSmall(k, 5)) assert.equal(l.runBegin(k, low, 5), i);
        i = end;
    }
    assert.deepEqual(runs, ['abc', 'd', 'ef', 'r']);
});

test('runs cover what walking box by box does', () => {
    const p = profileOf(randomStacks(3000, 17, 40, 5));
    const l = new Layout(p.tree);
    for (const pixel of [1, 30, 200]) {
        for (let row = 0; row < l.rows; row++) {
            const high = l.first[row + 1];
            for (let i = l.first[row]; i < high;) {
                const end = l.isSmall(i, pixel) ? l.runEnd(i, high, pixel) : i + 1;
                for (let k = i + 1; k < end; k++) {
                    assert.ok(l.isSmall(k, pixel));
                    assert.ok(l.left[k] - l.right[k - 1] <= pixel, 'a gap of a pixel ends a run');
                }
                i = end;
            }
        }
    }
});

test('the frame that covers what is in sight', () => {
    const p = profileOf([{ names: ['a', 'b', 'c'], weight: 60 }, { names: ['a', 'd'], weight: 30 }, { names: ['e'], weight: 10 }]);
    const l = new Layout(p.tree);
    const cases: [number, number, string][] = [[0, 100, 'all'], [0, 90, 'a'], [0, 60, 'c'], [10, 20, 'c'], [50, 70, 'a'],
        [60, 90, 'd'], [85, 95, 'all'], [90, 100, 'e']];
    for (const [from, to, name] of cases) assert.equal(p.frames[p.tree.frame[l.covering(from, to)]].name, name, `${from}…${to}`);
});

test('packages, by what names say', () => {
    const cases: [string, string, string][] = [
        ['std::vector<int>::push_back(int&&)', 'libx.so', 'std'],
        ['void std::__introsort_loop<llama_token_data*>', 'libllama.so', 'std'],
        ['tokio::runtime::task::poll', 'server', 'tokio'],
        ['net/http.(*conn).serve', 'server', 'net/http'],
        ['runtime.mallocgc', 'server', 'runtime'],
        ['ggml_vec_dot_q4_K_q8_K', '/usr/lib/libggml-cpu.so', 'libggml-cpu.so'],
        ['0x7f12', '', ''],
    ];
    for (const [name, module, want] of cases) {
        const f = { name, module, file: '', line: 0, flags: 0, color: 0, moduleColor: 0, fn: 0 };
        assert.equal(packageOf(f), want, name);
    }
    assert.equal(packageOf({ name: 'x', module: '', file: '', line: 0, flags: 1, color: 0, moduleColor: 0, fn: 0 }), 'kernel');
});

test('over time: samples that follow each other are one frame while their stacks agree', () => {
    const s: TimeSamples = {
        frames: ['main', 'f', 'g'],
        stacks: [[0, 1], [0, 2], [0]],
        threads: ['worker', 'other', 'idle'],
        samples: [[10.01, 0, 10e6, 0], [10.02, 0, 10e6, 0], [10.03, 1, 10e6, 0], [10.05, 2, 10e6, 1], [10.53, 1, 10e6, 0]],
    };
    const p = timeProfile(profileOf([{ names: ['main', 'f'], weight: 1 }, { names: ['main', 'new'], weight: 1 }]), s);
    const t = p.tree;
    const at = (n: number) => [p.frames[t.frame[n]].name, t.depth[n], Math.round(t.start![n] / 1e6), Math.round(t.total[n] / 1e6), t.samples[n]];
    assert.deepEqual(Array.from({ length: t.count }, (_, n) => at(n)), [
        ['all', 0, 0, 530, 5],
        ['worker', 1, 0, 530, 4],
        ['main', 2, 0, 30, 3],
        ['f', 3, 0, 20, 2],
        ['g', 3, 20, 10, 1],
        ['main', 2, 520, 10, 1],
        ['g', 3, 520, 10, 1],
        ['other', 5, 0, 530, 1],
        ['main', 6, 40, 10, 1],
    ]);
    const l = new Layout(t);
    assert.equal(l.rows, 7);
    assert.equal(l.first[5] - l.first[4], 0, 'a row between lanes');
});

test('ticks are round, and no more than fit', () => {
    const cases: [number, number, number, number[]][] = [
        [0, 10, 5, [0, 2, 4, 6, 8, 10]],
        [1.3, 2.1, 4, [1.4, 1.6, 1.8, 2]],
        [0, 0.0009, 3, [0, 0.0005]],
    ];
    for (const [from, to, most, want] of cases) {
        assert.deepEqual(ticks(from, to, most).map((x) => Number(x.at.toPrecision(6))), want, `${from}…${to}`);
    }
});
