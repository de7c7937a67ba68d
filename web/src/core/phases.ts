// What the time of a request went to. No DOM.
//
// In a forward pass all requests of a batch wait for each other. So of a pass a request has two
// times: how long it took (wall time, which its user waits for), and its own share (by tokens), which
// says who caused it. Both are kept apart here.

import { Request, TimelineEntry } from './types';

export interface PhaseAbout { id: string; title: string; what: string }

export const PHASE_LIST: readonly PhaseAbout[] = [
    { id: 'queue', title: 'Queue', what: 'before the engine began to work on it' },
    { id: 'encode', title: 'Encode', what: 'text to tokens' },
    { id: 'prefill', title: 'Prefill', what: 'forward passes over its prompt' },
    { id: 'decode', title: 'Decode', what: 'forward passes that made a token each' },
    { id: 'sample', title: 'Sampling', what: 'choosing tokens' },
    { id: 'text', title: 'Text', what: 'tokens to text' },
];

// The agent's names of phases, as they are shown: detokenize is text.
export function phaseId(name: string): string {
    return name === 'detokenize' ? 'text' : name;
}

export function phaseTitle(id: string): string {
    return id === 'unexplained' ? 'Unexplained' : PHASE_LIST.find((p) => p.id === id)?.title ?? id;
}

function inBatch(e: TimelineEntry): boolean {
    return (e.batch ?? 0) > 0;
}

// Known to take wall time; "tokens" are instants at which tokens came out.
export function isWork(e: TimelineEntry): boolean {
    return e.name !== 'tokens' && e.name !== 'queue';
}

// Where it waited for the engine: as the engine reports it, else all before the first work on it but
// encoding, which many do as soon as a request arrives.
export function queueOf(timeline: readonly TimelineEntry[]): { start: number; end: number }[] {
    const told = timeline.filter((e) => e.name === 'queue');
    if (told.length) return told.map((e) => ({ start: e.start_s, end: e.end_s }));
    const work = timeline.filter(isWork).sort((a, b) => a.start_s - b.start_s);
    const first = work.find((e) => e.name !== 'encode') ?? work[0] as TimelineEntry | undefined;
    if (!first) return [];
    const gaps: { start: number; end: number }[] = [];
    let at = 0;
    for (const e of work) {
        if (e.start_s > first.start_s) break;
        if (e.start_s > at) gaps.push({ start: at, end: e.start_s });
        at = Math.max(at, e.end_s);
        if (e === first) break;
    }
    return gaps;
}

// Moments that are in no phase: neither work nor the queue.
export function gapsOf(timeline: readonly TimelineEntry[], total: number): { start: number; end: number }[] {
    const known = [...queueOf(timeline), ...timeline.filter(isWork).map((e) => ({ start: e.start_s, end: e.end_s }))].sort((a, b) => a.start - b.start);
    const gaps: { start: number; end: number }[] = [];
    let at = 0;
    for (const k of known) {
        if (k.start > at) gaps.push({ start: at, end: Math.min(total, k.start) });
        at = Math.max(at, k.end);
    }
    if (total > at) gaps.push({ start: at, end: total });
    return gaps;
}

// ---- of one request, from its timeline ----------------------------------------------------------

export interface Part {
    id: string;     // a phase, or 'unexplained'
    seconds: number; // wall time
    own: number;    // of it, this request's share; the rest went to others of the same batches
}

interface Piece { start: number; end: number; id: string; batch: boolean; density: number; own: number }

function piecesOf(timeline: readonly TimelineEntry[], total: number): Piece[] {
    const pieces: Piece[] = [];
    for (const e of timeline) {
        const start = Math.max(0, e.start_s);
        const end = Math.min(total, e.end_s);
        if (!isWork(e) || !(end > start)) continue;
        const length = e.end_s - e.start_s;
        const busy = Math.min(length, e.busy_s ?? length);
        const joined = (e.count ?? 1) > 1;
        pieces.push({
            start, end, id: phaseId(e.name), batch: inBatch(e),
            // Entries that were joined are busy for a part of their time only.
            density: joined && !inBatch(e) ? busy / length : 1,
            own: inBatch(e) ? busy / length : 1,
        });
    }
    return pieces;
}

// The whole time of a request, each moment once: seconds add up to its total. Moments without work on
// it are its queue, or unexplained: engine overhead, or work on others.
export function partsOf(r: Request): Part[] | null {
    const total = r.total_s;
    if (!r.timeline || total === null || !(total > 0)) return null;
    const pieces = piecesOf(r.timeline, total);
    const cuts = [0, total];
    for (const p of pieces) cuts.push(p.start, p.end);
    const queued = queueOf(r.timeline);
    for (const q of queued) cuts.push(Math.min(total, Math.max(0, q.start)), Math.min(total, Math.max(0, q.end)));
    cuts.sort((a, b) => a - b);
    const parts = new Map<string, Part>();
    const add = (id: string, seconds: number, own: number) => {
        const p = parts.get(id) ?? { id, seconds: 0, own: 0 };
        p.seconds += seconds;
        p.own += own;
        parts.set(id, p);
    };
    pieces.sort((a, b) => a.start - b.start);
    let active: Piece[] = [];
    let next = 0;
    for (let i = 0; i + 1 < cuts.length; i++) {
        const from = cuts[i];
        const length = cuts[i + 1] - from;
        if (!(length > 0)) continue;
        while (next < pieces.length && pieces[next].start <= from) active.push(pieces[next++]);
        active = active.filter((p) => p.end > from);
        const alone = active.filter((p) => !p.batch);
        const passes = active.filter((p) => p.batch);
        // Work of its own first, as dense as it is; what is left is the pass that it happened beside.
        const dense = alone.reduce((sum, p) => sum + p.density, 0);
        const scale = dense > 1 ? 1 / dense : 1;
        for (const p of alone) add(p.id, length * p.density * scale, length * p.density * scale);
        const left = length * Math.max(0, 1 - dense);
        if (passes.length) {
            for (const p of passes) add(p.id, left / passes.length, (left / passes.length) * p.own);
        } else if (left > 0) {
            const waits = queued.some((q) => q.start <= from && q.end >= cuts[i + 1]);
            add(waits ? 'queue' : 'unexplained', left, 0);
        }
    }
    const order = (id: string) => {
        const at = PHASE_LIST.findIndex((p) => p.id === id);
        return id === 'unexplained' ? 99 : at < 0 ? 50 : at;
    };
    return [...parts.values()].filter((p) => p.seconds > total * 1e-9).sort((a, b) => order(a.id) - order(b.id));
}

// ---- of one request in a list, without its timeline -----------------------------------------------

export interface Segment { id: string; seconds: number; pale: boolean }

// A bar of its total: queue, up to the first token, and after it. Full colours are its own share of
// the phases, pale ones the rest of that time, which went to others or is not explained.
export function segmentsOf(r: Request): Segment[] {
    const total = r.total_s ?? 0;
    if (!(total > 0)) return [];
    const own = (name: string) => Math.max(0, r.phases[name]?.seconds ?? 0);
    const segments: Segment[] = [];
    const put = (id: string, seconds: number, pale: boolean) => { if (seconds > 0) segments.push({ id, seconds, pale }); };
    const block = (length: number, parts: [string, number][], rest: string) => {
        const sum = parts.reduce((s, p) => s + p[1], 0);
        const scale = sum > length ? length / sum : 1;
        for (const [id, seconds] of parts) put(id, seconds * scale, false);
        if (length - sum > total * 1e-9) put(rest, length - sum, true);
    };
    const first = r.ttft_s === null ? total : Math.min(total, r.ttft_s);
    const queue = Math.min(first, own('queue'));
    put('queue', queue, false);
    const hasTokens = r.ttft_s !== null;
    if (!hasTokens) {
        const known: [string, number][] = [['encode', own('encode')], ['prefill', own('prefill')], ['decode', own('decode')],
            ['sample', own('sample')], ['text', own('detokenize')]];
        block(total - queue, known, 'unexplained');
        return segments;
    }
    block(first - queue, [['encode', own('encode')], ['prefill', own('prefill')]], 'prefill');
    block(total - first, [['decode', own('decode')], ['sample', own('sample')], ['text', own('detokenize')]], 'decode');
    return segments;
}

// ---- beside others --------------------------------------------------------------------------------

export interface Typical {
    count: number;
    total: number | null;
    ttft: number | null;
    itl: number | null;
    queue: number | null;
    tokens_per_s: number | null;
    computed: number | null;   // tokens of the prompt that were not in the cache
    tokens_out: number | null;
}

export function median(values: number[]): number | null {
    if (!values.length) return null;
    const v = [...values].sort((a, b) => a - b);
    const m = v.length >> 1;
    return v.length % 2 ? v[m] : (v[m - 1] + v[m]) / 2;
}

export function typicalOf(requests: readonly Request[]): Typical {
    const done = requests.filter((r) => r.state !== 'running' && r.outcome === 'ok');
    const of = (f: (r: Request) => number | null | undefined) =>
        median(done.map(f).filter((v): v is number => v !== null && v !== undefined));
    return {
        count: done.length,
        total: of((r) => r.total_s),
        ttft: of((r) => r.ttft_s),
        itl: of((r) => r.itl?.mean_s),
        queue: of((r) => r.phases['queue']?.seconds),
        tokens_per_s: of((r) => r.tokens_per_s),
        computed: of((r) => r.tokens_in - r.tokens_reused),
        tokens_out: of((r) => r.tokens_out),
    };
}

// 12 for twelve times as much; null where that says nothing.
export function times(v: number | null, typical: number | null): number | null {
    if (v === null || typical === null || !(typical > 0) || !(v > 0)) return null;
    return v / typical;
}

// ---- pauses -----------------------------------------------------------------------------------------

export interface Pause { start: number; end: number; after: number } // after so many tokens

// The longest time between two moments at which tokens came out.
export function longestPause(timeline: readonly TimelineEntry[]): Pause | null {
    let longest: Pause | null = null;
    let last: number | null = null;
    let tokens = 0;
    for (const e of timeline) {
        if (e.name !== 'tokens') continue;
        if ((e.count ?? 1) > 1) return null; // joined: single moments are not known
        if (last !== null && (!longest || e.start_s - last > longest.end - longest.start)) {
            longest = { start: last, end: e.start_s, after: tokens };
        }
        last = e.start_s;
        tokens += e.tokens ?? 1;
    }
    return longest;
}
