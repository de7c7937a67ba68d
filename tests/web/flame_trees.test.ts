// Trees that are made of other trees, against the stacks themselves.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callees, callers, foldRecursion, invert, outermost } from '../../web/src/flame/merge';
import { decodePath, encodePath, findPath, mergeFrames, namesOf, splice } from '../../web/src/flame/splice';
import { Stack, check, prefixes, profileOf, randomStacks, sorted, totals } from './flame_stacks';

const SETS: [string, Stack[]][] = [
    ['one stack', [{ names: ['a'], weight: 3 }]],
    ['recursion', [{ names: ['main', 'f', 'g', 'f', 'h'], weight: 50 }, { names: ['main', 'f', 'x'], weight: 30 },
        { names: ['main', 'y'], weight: 20 }]],
    ['random', randomStacks(400, 7)],
    ['deep and alike', randomStacks(300, 11, 3, 40)],
];

/** A function that is on the stack already is the outer call of it. */
function foldStack(names: string[]): string[] {
    const out: string[] = [];
    for (const n of names) {
        const at = out.indexOf(n);
        if (at >= 0) out.length = at + 1;
        else out.push(n);
    }
    return out;
}

test('leaf first has the stacks turned around', () => {
    for (const [name, stacks] of SETS) {
        const p = profileOf(stacks);
        const turned = stacks.map((s) => ({ ...s, names: [...s.names].reverse() }));
        const t = invert(p, p.tree, 'name');
        assert.equal(check(t), '', name);
        assert.deepEqual(sorted(totals(p, t)), sorted(prefixes(turned)), name);
        assert.deepEqual(sorted(totals(p, t, 'base')), sorted(prefixes(turned, 'base')), `${name}, base`);
        assert.equal(t.leafFirst, true);
        assert.deepEqual(sorted(totals(p, invert(p, t, 'name'))), sorted(prefixes(stacks)), `${name}, twice`);
    }
});

test('left heavy changes the order and nothing else', () => {
    for (const [name, stacks] of SETS) {
        const p = profileOf(stacks);
        const t = callees(p, p.tree, [0], 'weight');
        assert.equal(check(t), '', name);
        assert.deepEqual(sorted(totals(p, t)), sorted(prefixes(stacks)), name);
        for (let n = 0; n < t.count; n++) {
            let before = Infinity;
            for (let c = n + 1; c < t.end[n]; c = t.end[c]) {
                assert.ok(t.total[c] <= before, `${name}: node ${c} is heavier than the one before`);
                before = t.total[c];
            }
        }
    }
});

test('callers and callees are of the outermost calls', () => {
    for (const [name, stacks] of SETS) {
        const p = profileOf(stacks);
        for (const f of new Set(stacks.flatMap((s) => s.names))) {
            const withIt = stacks.filter((s) => s.names.includes(f));
            const nodes = outermost(p, p.tree, f);
            const down = callees(p, p.tree, nodes, 'name');
            const up = callers(p, p.tree, nodes, 'name');
            const below = withIt.map((s) => ({ ...s, names: s.names.slice(s.names.indexOf(f) + 1) }));
            const above = withIt.map((s) => ({ ...s, names: s.names.slice(0, s.names.indexOf(f)).reverse() }));
            assert.deepEqual(sorted(totals(p, down)), sorted(prefixes(below)), `${name}: below ${f}`);
            assert.deepEqual(sorted(totals(p, up)), sorted(prefixes(above)), `${name}: above ${f}`);
            assert.equal(p.frames[down.frame[0]].name, f);
        }
    }
});

test('recursion folded: a function is once in a stack', () => {
    for (const [name, stacks] of SETS) {
        const p = profileOf(stacks);
        const t = foldRecursion(p, p.tree, 'name');
        assert.equal(check(t), '', name);
        const folded = stacks.map((s) => ({ ...s, names: foldStack(s.names) }));
        assert.deepEqual(sorted(totals(p, t)), sorted(prefixes(folded)), name);
        assert.equal(t.samples[0], stacks.length);
    }
});

test('what is left out is counted, and made when it is asked for', () => {
    for (const [name, stacks] of SETS) {
        const p = profileOf(stacks);
        const whole = invert(p, p.tree, 'name');
        const least = 0.02;
        let t = invert(p, p.tree, 'name', { least });
        assert.equal(check(t), '', name);
        for (let n = 1; n < t.count; n++) {
            assert.ok(t.total[n] >= least * t.total[0] || t.base[n] >= least * t.base[0], name);
        }
        // Every part in turn, as zooming does, gives the whole in the end.
        for (let n = 0; n < t.count; n++) {
            if (!t.dropped[n]) continue;
            const names = namesOf(p, t, n);
            const path = names.map((f) => p.frames.find((x) => x.name === f)!.fn);
            const part = invert(p, p.tree, 'name', { least: 0, path });
            assert.equal(part.total[0], t.total[n], name);
            t = splice(t, n, part, 0);
            assert.equal(check(t), '', `${name}, after ${names.join(';')}`);
        }
        assert.deepEqual(sorted(totals(p, t)), sorted(totals(p, whole)), name);
    }
});

test('a part of another profile is put where the coarse one is', () => {
    const stacks = randomStacks(500, 3, 8, 7);
    const p = profileOf(stacks);
    const fine = profileOf([...stacks].reverse()); // the same, with other frame numbers
    for (const names of [['f1'], ['f2', 'f3'], []]) {
        const coarse = callees(p, p.tree, [0], 'name', { least: 0.01 });
        const q = { ...p, frames: p.frames.slice(), tree: coarse };
        const at = findPath(q, coarse, names, true);
        const from = findPath(fine, fine.tree, names, true);
        assert.ok(at >= 0 && from >= 0);
        const t = splice(coarse, at, fine.tree, from, mergeFrames(q, fine));
        assert.equal(check(t), '', names.join(';'));
        assert.equal(t.total[0], p.total);
        const want = prefixes(stacks);
        const prefix = names.join(';');
        const got = totals(q, t);
        for (const [path, weight] of want) {
            if (prefix === '' || path === prefix || path.startsWith(`${prefix};`)) assert.equal(got.get(path), weight, path);
        }
        assert.equal(q.frames.length, p.frames.length, 'no frame is there twice');
    }
});

test('frames that are new get their function', () => {
    const p = profileOf([{ names: ['a', 'b'], weight: 1 }]);
    const q = profileOf([{ names: ['a', 'c', 'b'], weight: 1 }]);
    const before = p.fnCount;
    const map = mergeFrames(p, q);
    assert.equal(p.fnCount, before + 1);
    for (let i = 0; i < q.frames.length; i++) assert.equal(p.frames[map[i]].name, q.frames[i].name);
    assert.equal(p.frames[map[2]].fn, before, 'c is a function of its own');
});

test('a part that weighs more or less than before is what its callers have', () => {
    const p = profileOf([{ names: ['a', 'b'], weight: 5 }, { names: ['c'], weight: 1 }]);
    const q = profileOf([{ names: ['a', 'b'], weight: 7 }, { names: ['a', 'd'], weight: 1 }]);
    const t = splice(p.tree, findPath(p, p.tree, ['a']), q.tree, findPath(q, q.tree, ['a']), mergeFrames(p, q));
    assert.equal(check(t), '');
    assert.deepEqual(sorted(totals(p, t)), [['', 9], ['a', 8], ['a;b', 7], ['a;d', 1], ['c', 1]]);
});

test('paths keep every name', () => {
    const cases = [[], ['main'], ['operator;', '100%', '%3B', 'a%25b'], ['std::map<a, b>', 'naïve_日本語_🔥']];
    for (const names of cases) assert.deepEqual(decodePath(encodePath(names)), names);
    assert.equal(encodePath(['a;b', '%']), 'a%3Bb;%25');
});
