// One request: its rows, what is in sight of them, its spans, and what is said about it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Typical } from '../../web/src/core/phases';
import { Request, Span, TimelineEntry } from '../../web/src/core/types';
import { axisTicks, batchSteps, clampView, flatten, panView, spanTree, timelineRows, zoomView } from '../../web/src/elements/timeline/layout';
import { whyOf } from '../../web/src/elements/timeline/why';

const entry = (name: string, start_s: number, end_s: number, more: Partial<TimelineEntry> = {}): TimelineEntry =>
    ({ name, start_s, end_s, ...more });

test('rows are in the order of the phases, and waiting is one of them', () => {
    const rows = timelineRows([entry('decode', 0.5, 0.6), entry('tokens', 0.6, 0.6), entry('prefill', 0.2, 0.5), entry('detokenize', 0.6, 0.7), entry('rerank', 0.7, 0.8)], 1);
    assert.deepEqual(rows.map((r) => r.id), ['queue', 'prefill', 'decode', 'text', 'rerank', 'unexplained']);
    assert.deepEqual(rows[5].entries, [{ name: 'unexplained', start_s: 0.8, end_s: 1 }]);
    assert.deepEqual(rows[0].entries, [{ name: 'queue', start_s: 0, end_s: 0.2 }]);
    assert.deepEqual(timelineRows([entry('queue', 0, 0.1), entry('decode', 0.1, 0.3)], 0.3).map((r) => r.entries.length), [1, 1]);
    assert.deepEqual(timelineRows([], 1), []);
    assert.deepEqual(batchSteps([entry('decode', 1, 2, { batch: 3 }), entry('sample', 2, 3), entry('prefill', 0, 1, { batch: 1 })]),
        [{ start: 0, end: 1, size: 1 }, { start: 1, end: 2, size: 3 }]);
});

test('zoom and pan stay inside', () => {
    assert.deepEqual(zoomView({ from: 0, to: 1 }, 0.5, 0.25, 1), { from: 0.125, to: 0.625 });
    assert.deepEqual(zoomView({ from: 0.4, to: 0.6 }, 100, 0.5, 1), { from: 0, to: 1 });
    assert.deepEqual(panView({ from: 0.5, to: 0.75 }, 1, 1), { from: 0.75, to: 1 });
    assert.deepEqual(panView({ from: 0.5, to: 0.75 }, -1, 1), { from: 0, to: 0.25 });
    const tiny = clampView({ from: 0.5, to: 0.5 }, 1);
    assert.ok(tiny.to > tiny.from);
    assert.deepEqual(clampView({ from: -5, to: 5 }, 2), { from: 0, to: 2 });
});

test('an axis has round times', () => {
    assert.deepEqual(axisTicks({ from: 0, to: 1 }, 5), [0, 0.2, 0.4, 0.6000000000000001, 0.8, 1]);
    assert.deepEqual(axisTicks({ from: 0.13, to: 0.32 }, 4).map((t) => t.toFixed(2)), ['0.15', '0.20', '0.25', '0.30']);
    assert.deepEqual(axisTicks({ from: 1, to: 1 }, 5), []);
});

const span = (id: string, parent: string | null, name: string, start: number, duration_s: number): Span =>
    ({ span_id: id, parent_id: parent, name, start, duration_s, program: 'p', pid: 1, tid: 1, trace_id: 't', outcome: 'ok', attributes: {} });

test('spans become a tree, alike ones a line', () => {
    const tree = spanTree([
        span('c', 'a', 'decode', 3, 1), span('b', 'a', 'decode', 2, 1), span('a', null, 'request', 1, 5), span('d', 'zz', 'orphan', 9, 1),
        span('e', 'c', 'sample', 3.5, 0.1),
    ]);
    assert.deepEqual(flatten(tree).map((n) => [n.name, n.depth, n.spans.length, n.seconds]),
        [['request', 0, 1, 5], ['decode', 1, 2, 2], ['sample', 2, 1, 0.1], ['orphan', 0, 1, 1]]);
    // What points to itself or in circles does not hang.
    assert.equal(flatten(spanTree([span('x', 'x', 'self', 0, 1)])).length, 1);
    assert.deepEqual(spanTree([span('x', 'y', 'a', 0, 1), span('y', 'x', 'b', 0, 1)]), []);
});

function request(more: Partial<Request> = {}): Request {
    return {
        id: 'a', own_id: null, state: 'done', outcome: 'ok', error: null, invalid: null, source: 'api', pid: 7,
        program: 'engine', model: 'm', route: '/', backend: null, trace_id: null, arrived: 1e9, total_s: 1,
        ttft_s: 0.5, tokens_max: null, tokens_in: 100, tokens_reused: 0, tokens_out: 10, tokens_per_s: 10,
        hit_ratio: null, efficiency: null, memory_bytes: null, batches: 0, slo: null, profile: false, phases: {},
        itl: null, attributes: {}, ...more,
    };
}
const typical: Typical = { count: 100, total: 1, ttft: 0.5, itl: 0.01, queue: 0.001, tokens_per_s: 10, computed: 100, tokens_out: 10 };

test('what stands out is said, and nothing else', () => {
    const cases: [string, Request, RegExp[]][] = [
        ['nothing', request(), [/nothing stands out/]],
        ['a long prompt', request({ tokens_in: 4000 }), [/4000 tokens to compute, 40 times the median of 100/]],
        ['waited', request({ phases: { queue: { seconds: 0.3, count: 1 } } }), [/waited 300 ms in the queue, 300 times/]],
        ['waited, but that is nothing', request({ phases: { queue: { seconds: 0.01, count: 1 } } }), [/nothing stands out/]],
        ['failed', request({ outcome: 'error', error: 'context_full' }), [/failed with “context_full”/]],
        ['runs', request({ state: 'running', outcome: null }), [/still running/]],
    ];
    for (const [name, r, want] of cases) {
        const got = whyOf(r, null, typical, null);
        assert.equal(got.length, want.length, `${name}: ${got.join(' | ')}`);
        want.forEach((w, i) => assert.match(got[i], w, name));
    }
    assert.match(whyOf(request(), [{ id: 'decode', seconds: 0.9, own: 0.3 }, { id: 'queue', seconds: 0.1, own: 0 }], null, null)[0],
        /^Decode took 90 % of its time \(900 ms\), of which 300 ms was for itself and 600 ms for others/);
    assert.match(whyOf(request(), [{ id: 'unexplained', seconds: 0.9, own: 0 }], null, null)[0], /in no phase/);
    // A few are no measure.
    assert.deepEqual(whyOf(request({ tokens_in: 4000 }), null, { ...typical, count: 3 }, null), []);
});
