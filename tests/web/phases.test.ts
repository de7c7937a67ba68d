// What the time of a request went to: the parts add up to the whole, whatever the timeline.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Part, gapsOf, longestPause, median, partsOf, phaseId, queueOf, segmentsOf, times, typicalOf } from '../../web/src/core/phases';
import { Request, TimelineEntry } from '../../web/src/core/types';

function request(total: number | null, timeline: TimelineEntry[] | undefined, more: Partial<Request> = {}): Request {
    return {
        id: 'a', own_id: null, state: 'done', outcome: 'ok', error: null, invalid: null, source: 'api', pid: 7,
        program: 'engine', model: 'm', route: '/', backend: null, trace_id: null, arrived: 1e9, total_s: total,
        ttft_s: null, tokens_max: null, tokens_in: 0, tokens_reused: 0, tokens_out: 0, tokens_per_s: null,
        hit_ratio: null, efficiency: null, memory_bytes: null, batches: 0, slo: null, profile: false, phases: {},
        itl: null, attributes: {}, timeline, ...more,
    };
}

const entry = (name: string, start_s: number, end_s: number, more: Partial<TimelineEntry> = {}): TimelineEntry =>
    ({ name, start_s, end_s, ...more });
const sum = (parts: { seconds: number }[]) => parts.reduce((s, p) => s + p.seconds, 0);
const near = (a: number, b: number, what: string) => assert.ok(Math.abs(a - b) < 1e-9, `${what}: ${a}, not ${b}`);
const find = (parts: Part[], id: string) => parts.find((p) => p.id === id) ?? { id, seconds: 0, own: 0 };

test('a timeline by hand', () => {
    const parts = partsOf(request(1, [
        entry('encode', 0.1, 0.2),
        entry('prefill', 0.2, 0.5, { busy_s: 0.1, batch: 3 }),
        entry('sample', 0.5, 0.51),
        entry('detokenize', 0.51, 0.52),
        entry('tokens', 0.52, 0.52, { tokens: 1 }),
        entry('decode', 0.6, 0.9, { busy_s: 0.15, batch: 2 }),
    ]))!;
    near(find(parts, 'queue').seconds, 0.1, 'queue');
    near(find(parts, 'encode').seconds, 0.1, 'encode');
    near(find(parts, 'prefill').seconds, 0.3, 'prefill');
    near(find(parts, 'prefill').own, 0.1, 'own prefill');
    near(find(parts, 'decode').seconds, 0.3, 'decode');
    near(find(parts, 'decode').own, 0.15, 'own decode');
    near(find(parts, 'sample').seconds, 0.01, 'sample');
    near(find(parts, 'text').seconds, 0.01, 'text');
    near(find(parts, 'unexplained').seconds, 0.08 + 0.1, 'unexplained');
    near(sum(parts), 1, 'sum');
    assert.deepEqual(parts.map((p) => p.id), ['queue', 'encode', 'prefill', 'decode', 'sample', 'text', 'unexplained']);
});

test('waiting is all before the first work but encoding', () => {
    // As the agent counts it (infer/done.c): the first work less arrival less encoding.
    const timeline = [entry('encode', 0.002, 0.004), entry('prefill', 0.7, 0.8, { busy_s: 0.1, batch: 1 }), entry('decode', 0.85, 1, { busy_s: 0.1, batch: 1 })];
    const parts = partsOf(request(1, timeline))!;
    near(find(parts, 'queue').seconds, 0.7 - 0.002, 'queue');
    near(find(parts, 'unexplained').seconds, 0.05, 'unexplained');
    near(sum(parts), 1, 'sum');
    assert.deepEqual(queueOf(timeline), [{ start: 0, end: 0.002 }, { start: 0.004, end: 0.7 }]);
    assert.deepEqual(queueOf([entry('encode', 0.3, 0.4)]), [{ start: 0, end: 0.3 }]);
    assert.deepEqual(queueOf([entry('prefill', 0, 0.4)]), []);
    assert.deepEqual(queueOf([entry('queue', 0.1, 0.2), entry('prefill', 0.5, 0.6)]), [{ start: 0.1, end: 0.2 }]);
    assert.deepEqual(queueOf([]), []);
});

test('joined entries lie over each other, and no moment counts twice', () => {
    // Four steps of 0.2 s decode and 0.05 s sampling each, joined to one entry of either kind.
    const parts = partsOf(request(1, [
        entry('decode', 0, 0.95, { busy_s: 0.4, batch: 2, count: 4 }),
        entry('sample', 0.2, 1, { busy_s: 0.2, count: 4 }),
    ]))!;
    near(sum(parts), 1, 'sum');
    near(find(parts, 'sample').seconds, 0.2, 'sample');
    assert.ok(find(parts, 'decode').seconds > 0.7 && find(parts, 'decode').seconds < 0.8, 'decode');
});

test('parts add up to the total of any timeline', () => {
    let seed = 7;
    const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
    const names = ['queue', 'encode', 'prefill', 'decode', 'sample', 'detokenize', 'rerank', 'tokens'];
    for (let round = 0; round < 200; round++) {
        const total = 0.01 + random() * 3;
        const timeline: TimelineEntry[] = [];
        for (let i = 0; i < 20; i++) {
            const start = random() * total * 1.1 - 0.01;
            const end = start + random() * 0.4;
            const name = names[Math.floor(random() * names.length)];
            const batch = name === 'prefill' || name === 'decode' ? 1 + Math.floor(random() * 4) : undefined;
            timeline.push(entry(name, start, end, { busy_s: random() * (end - start), batch, count: random() < 0.3 ? 3 : undefined }));
        }
        const parts = partsOf(request(total, timeline))!;
        near(sum(parts), total, `round ${round}`);
        // Gaps are what is unexplained, but for what joined entries leave open inside.
        const gaps = gapsOf(timeline, total).reduce((s, g) => s + g.end - g.start, 0);
        assert.ok(find(parts, 'unexplained').seconds >= gaps - 1e-9, `gaps of round ${round}`);
        for (const p of parts) assert.ok(p.seconds > 0 && p.own <= p.seconds + 1e-12, `${p.id} of round ${round}`);
    }
});

test('without a timeline there are no parts', () => {
    assert.equal(partsOf(request(1, undefined)), null);
    assert.equal(partsOf(request(null, [])), null);
    // An empty one: nothing is known of its time.
    assert.deepEqual(partsOf(request(1, [])), [{ id: 'unexplained', seconds: 1, own: 0 }]);
});

test('bars of a list add up to the total', () => {
    const phases = (values: Record<string, number>) =>
        Object.fromEntries(Object.entries(values).map(([k, v]) => [k, { seconds: v, count: 1 }]));
    const cases: [string, Request, [string, number, boolean][]][] = [
        ['all known', request(1, undefined, { ttft_s: 0.4, phases: phases({ queue: 0.1, encode: 0.05, prefill: 0.15, decode: 0.3, sample: 0.1, detokenize: 0.1 }) }),
            [['queue', 0.1, false], ['encode', 0.05, false], ['prefill', 0.15, false], ['prefill', 0.1, true], ['decode', 0.3, false],
                ['sample', 0.1, false], ['text', 0.1, false], ['decode', 0.1, true]]],
        ['only times', request(1, undefined, { ttft_s: 0.25 }), [['prefill', 0.25, true], ['decode', 0.75, true]]],
        ['no token', request(1, undefined, { phases: phases({ queue: 0.5, encode: 0.25 }) }),
            [['queue', 0.5, false], ['encode', 0.25, false], ['unexplained', 0.25, true]]],
        ['more than fits', request(1, undefined, { ttft_s: 0.5, phases: phases({ queue: 0.25, prefill: 0.5 }) }),
            [['queue', 0.25, false], ['prefill', 0.25, false], ['decode', 0.5, true]]],
        ['nothing', request(0, undefined), []],
    ];
    for (const [name, r, want] of cases) {
        const got = segmentsOf(r);
        assert.deepEqual(got.map((s) => [s.id, s.pale]), want.map((w) => [w[0], w[2]]), name);
        got.forEach((s, i) => near(s.seconds, want[i][1], `${name}: ${s.id}`));
        near(sum(got), r.total_s ?? 0, `${name}: sum`);
    }
});

test('typical is the median of those that went well', () => {
    const list = [1, 2, 9].map((v) => request(v, undefined, { tokens_in: 10 * v, tokens_reused: v }));
    list.push(request(100, undefined, { outcome: 'error' }), request(100, undefined, { state: 'running', outcome: null }));
    const t = typicalOf(list);
    assert.equal(t.count, 3);
    assert.equal(t.total, 2);
    assert.equal(t.computed, 18);
    assert.equal(t.ttft, null);
    assert.equal(median([1, 3]), 2);
    assert.equal(median([]), null);
    assert.equal(times(6, 2), 3);
    assert.equal(times(6, 0), null);
    assert.equal(times(null, 2), null);
});

test('the longest pause is between two tokens', () => {
    const at = (t: number, more: Partial<TimelineEntry> = {}) => entry('tokens', t, t, { tokens: 1, ...more });
    assert.deepEqual(longestPause([at(0.1), entry('decode', 0.1, 0.6), at(0.2), at(0.6, { tokens: 2 }), at(0.7)]), { start: 0.2, end: 0.6, after: 2 });
    assert.equal(longestPause([at(0.1)]), null);
    assert.equal(longestPause([at(0.1), at(0.5, { count: 3 })]), null);
});

test('names of phases', () => {
    assert.equal(phaseId('detokenize'), 'text');
    assert.equal(phaseId('rerank'), 'rerank');
});
