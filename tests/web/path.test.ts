// The critical path of a request: rows add up to its latency, whatever the agent says.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Why, WhyPart } from '../../web/src/core/types';
import { codePieces, lookOf, pathRows, placeText, waitText } from '../../web/src/elements/timeline/path';

function part(kind: string, seconds: number, more: Partial<WhyPart> = {}): WhyPart {
    return { kind, title: kind, seconds, share: null, count: 1, functions: [], waits: [], requests: [], spans: [], ...more };
}

function why(seconds: number, ...parts: WhyPart[]): Why {
    return { kind: 'request', id: '1', name: null, seconds, thread: null, batch_mates: 0, batch_mate_tokens: 0, parts, notes: [] };
}

test('rows are the parts, in their order, with shares of the latency', () => {
    const rows = pathRows(why(2, part('queue', 0.5, { title: 'waiting for a slot' }), part('decode', 1), part('lock', 0.5), part('io', 0)));
    assert.deepEqual(rows.map((r) => [r.kind, r.seconds, r.share]), [['queue', 0.5, 0.25], ['decode', 1, 0.5], ['lock', 0.5, 0.25]]);
    assert.equal(rows[0].title, 'Waiting for a slot');
});

test('what parts lack of the latency is unexplained, and last', () => {
    const cases: [Why, number | null][] = [
        [why(1, part('decode', 1)), null],
        [why(1, part('decode', 1 - 1e-9)), null],             // rounding
        [why(1, part('decode', 0.75)), 0.25],                 // a part this page does not know of
        [why(1, part('unexplained', 0.2), part('decode', 0.8)), 0.2],
        [why(1, part('unexplained', 0.2), part('decode', 0.5)), 0.5],
    ];
    for (const [w, unexplained] of cases) {
        const rows = pathRows(w);
        const last = rows[rows.length - 1];
        assert.ok(Math.abs(rows.reduce((s, r) => s + r.seconds, 0) - w.seconds) < 1e-6);
        assert.ok(Math.abs(rows.reduce((s, r) => s + r.share, 0) - 1) < 1e-6);
        assert.equal(rows.filter((r) => r.kind === 'unexplained').length, unexplained === null ? 0 : 1);
        if (unexplained !== null) {
            assert.equal(last.kind, 'unexplained');
            assert.ok(Math.abs(last.seconds - unexplained) < 1e-9);
        }
    }
});

test('a request without a duration has no rows', () => {
    assert.deepEqual(pathRows(why(0)), []);
    assert.deepEqual(pathRows(why(NaN, part('decode', 1))), []);
});

test('a kind that is not known has a look, and so has one with a name of every object', () => {
    assert.equal(lookOf('lock').color, 's2');
    assert.equal(lookOf('unexplained').color, null);
    assert.equal(lookOf('quantum').color, 'ink-soft');
    assert.equal(lookOf('constructor').color, 'ink-soft');
});

test('places and waits in words', () => {
    const f = { function: 'locked', file: '/src/a/why.c', line: 12, seconds: 1, count: 1 };
    assert.equal(placeText(f), 'why.c:12');
    assert.equal(placeText({ ...f, line: null }), 'why.c');
    assert.equal(placeText({ ...f, file: null }), '');
    const w = { ...f, call: 'pthread_mutex_lock', stack: ['futex'] };
    assert.equal(waitText(w), 'locked in pthread_mutex_lock');
    assert.equal(waitText({ ...w, function: null }), 'pthread_mutex_lock');
    assert.equal(waitText({ ...w, function: null, call: null }), 'futex');
    assert.equal(waitText({ ...w, function: null, call: null, stack: [] }), 'a stack without names');
});

test('commands in a note', () => {
    assert.deepEqual(codePieces('record with `sonde record --off-cpu` to see'), ['record with ', 'sonde record --off-cpu', ' to see']);
    assert.deepEqual(codePieces('plain'), ['plain']);
    assert.deepEqual(codePieces('one ` alone'), ['one ` alone']);
    assert.deepEqual(codePieces('`a` and ` alone'), ['', 'a', ' and ` alone']);
});
