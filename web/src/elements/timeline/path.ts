// The critical path of a request as rows of a table: parts that add up to its latency. No DOM.

import { Why, WhyFunction, WhyPart, WhyWait } from '../../core/types';

// The theme variable of a kind of part; pale: computing, but for other requests.
interface Look { color: string | null; pale?: boolean }

const LOOKS = new Map<string, Look>(Object.entries({
    queue: { color: 'q-queue' },
    encode: { color: 'q-encode' },
    prefill: { color: 'q-prefill' },
    decode: { color: 'q-decode' },
    sample: { color: 'q-sample' },
    detokenize: { color: 'q-text' },
    compute: { color: 's6' },
    overhead: { color: 'ink-faint' },
    batch_mates: { color: 'q-decode', pale: true },
    lock: { color: 's2' },
    gil: { color: 's2' },
    thread: { color: 's8' },
    io: { color: 's5' },
    page_fault: { color: 's5', pale: true },
    sleep: { color: 'line-strong' },
    network: { color: 's7' },
    process: { color: 's8', pale: true },
    blocked: { color: 's2', pale: true },
    runnable: { color: 's4' },
    unexplained: { color: null },
}));

// A kind that a newer agent has is shown in a colour of its own kind: none that means something.
export function lookOf(kind: string): Look {
    return LOOKS.get(kind) ?? { color: 'ink-soft' };
}

export interface PathRow {
    kind: string;
    title: string;
    seconds: number;
    share: number;
    part: WhyPart | null; // null: no part of the answer, only what is missing to the whole
}

const SLACK = 1e-6; // of the latency: what rounding may leave

function capital(text: string): string {
    return text.slice(0, 1).toUpperCase() + text.slice(1);
}

// In the agent's order, which is that of a request's life; what is unexplained comes last. Whatever the
// parts lack of the latency is unexplained too, so rows always add up to it.
export function pathRows(w: Why): PathRow[] {
    if (!(w.seconds > 0)) return [];
    const rows = w.parts.filter((p) => p.seconds > 0)
        .map((p): PathRow => ({ kind: p.kind, title: capital(p.title || p.kind), seconds: p.seconds, share: p.seconds / w.seconds, part: p }));
    const missing = w.seconds - rows.reduce((sum, r) => sum + r.seconds, 0);
    let rest = rows.find((r) => r.kind === 'unexplained');
    if (missing > w.seconds * SLACK) {
        if (!rest) rows.push(rest = { kind: 'unexplained', title: 'Unexplained', seconds: 0, share: 0, part: null });
        rest.seconds += missing;
        rest.share = rest.seconds / w.seconds;
    }
    return [...rows.filter((r) => r !== rest), ...(rest ? [rest] : [])];
}

export function placeText(f: WhyFunction): string {
    if (!f.file) return '';
    return `${f.file.slice(f.file.lastIndexOf('/') + 1)}${f.line ? `:${f.line}` : ''}`;
}

// "locked in pthread_mutex_lock": who waited, and in which call.
export function waitText(w: WhyWait): string {
    if (w.function && w.call && w.function !== w.call) return `${w.function} in ${w.call}`;
    return w.function ?? w.call ?? w.stack[0] ?? 'a stack without names';
}

// Text with `commands` in it: every second piece is one.
export function codePieces(text: string): string[] {
    const pieces = text.split('`');
    if (pieces.length % 2 === 1) return pieces;
    const last = pieces.pop()!; // a backtick that nothing closes is only a character
    pieces.push(`${pieces.pop() ?? ''}\`${last}`);
    return pieces;
}
