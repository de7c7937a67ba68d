// Columns of the table of requests: what they show, sort by and export. No DOM.

import { clock, count, digits, percent, seconds } from '../../core/format';
import { metricOf, RequestSort } from '../../core/heat';
import { Request } from '../../core/types';

export interface RequestColumn {
    id: string;
    title: string;
    term: string;                       // in the glossary
    number: boolean;
    width: number;                      // pixels
    grow: number;
    drop: number;                       // the higher, the sooner it goes where there is no room; 0 = never
    key(r: Request): number | string | null; // null comes last
    text(r: Request): string;
    server?: RequestSort;               // the agent can sort so, largest first
}

export const requestName = (r: { id: string; own_id: string | null }): string => r.own_id || r.id;

export function outcomeText(r: Request): string {
    if (r.state === 'running') return r.tokens_out > 0 ? 'running' : (r.phases['prefill'] || r.phases['queue']) ? 'prefill' : 'waiting';
    return r.error ? `${r.outcome ?? 'error'}: ${r.error}` : r.outcome ?? '';
}

const tokensPerSecond = (r: Request): number | null => r.tokens_out > 0 ? r.tokens_per_s : null;
const queueOf = (r: Request): number | null => r.phases['queue'] ? r.phases['queue'].seconds : null;

export const COLUMNS: readonly RequestColumn[] = [
    { id: 'when', title: 'Arrived', term: 'arrived', number: true, width: 78, grow: 0, drop: 1, server: 'newest',
        key: (r) => r.arrived, text: (r) => clock(r.arrived) },
    { id: 'id', title: 'Request', term: 'request_id', number: false, width: 96, grow: 1.2, drop: 0,
        key: (r) => requestName(r), text: (r) => requestName(r) },
    { id: 'model', title: 'Model', term: 'model', number: false, width: 84, grow: 1, drop: 5,
        key: (r) => r.model, text: (r) => r.model },
    { id: 'route', title: 'Route', term: 'route', number: false, width: 96, grow: 1.2, drop: 6,
        key: (r) => r.route, text: (r) => r.route },
    { id: 'outcome', title: 'Outcome', term: 'outcome', number: false, width: 76, grow: 0.5, drop: 1,
        key: (r) => outcomeText(r), text: outcomeText },
    { id: 'total', title: 'Duration', term: 'total', number: true, width: 74, grow: 0, drop: 0, server: 'slowest',
        key: (r) => r.total_s, text: (r) => seconds(r.total_s) },
    { id: 'ttft', title: 'First token', term: 'ttft', number: true, width: 100, grow: 0, drop: 2, server: 'ttft',
        key: (r) => r.ttft_s, text: (r) => seconds(r.ttft_s) },
    { id: 'queue', title: 'Queue', term: 'queue', number: true, width: 70, grow: 0, drop: 3, server: 'queue',
        key: queueOf, text: (r) => seconds(queueOf(r)) },
    { id: 'itl', title: 'Between', term: 'itl_mean', number: true, width: 72, grow: 0, drop: 4, server: 'itl',
        key: (r) => r.itl?.mean_s ?? null, text: (r) => seconds(r.itl?.mean_s) },
    { id: 'itl_p99', title: 'p99', term: 'itl_p99', number: true, width: 70, grow: 0, drop: 8,
        key: (r) => r.itl?.p99_s ?? null, text: (r) => seconds(r.itl?.p99_s) },
    { id: 'in', title: 'In', term: 'tokens_in', number: true, width: 54, grow: 0, drop: 5,
        key: (r) => r.tokens_in, text: (r) => count(r.tokens_in) },
    { id: 'reused', title: 'Reused', term: 'tokens_reused', number: true, width: 64, grow: 0, drop: 9,
        key: (r) => r.tokens_in > 0 ? r.tokens_reused / r.tokens_in : null,
        text: (r) => r.tokens_in > 0 ? percent(r.tokens_reused / r.tokens_in, 2) : '–' },
    { id: 'out', title: 'Out', term: 'tokens_out', number: true, width: 50, grow: 0, drop: 5, server: 'tokens',
        key: (r) => r.tokens_out, text: (r) => count(r.tokens_out) },
    { id: 'rate', title: 'Tokens/s', term: 'tokens_per_s', number: true, width: 70, grow: 0, drop: 7,
        key: tokensPerSecond, text: (r) => { const v = tokensPerSecond(r); return v === null ? '–' : digits(v); } },
];

export function columnOf(id: string): RequestColumn | null {
    return COLUMNS.find((c) => c.id === id) ?? null;
}

// What fits, beside bars of at least so many pixels; the column that is sorted by stays. What has no
// column of its own is shown below the name (belowName).
export function columnsIn(width: number, bar: number, keep = ''): RequestColumn[] {
    let shown = [...COLUMNS];
    const need = () => shown.reduce((sum, c) => sum + c.width, bar);
    const drop = (c: RequestColumn) => c.id === keep ? 0 : c.drop;
    while (need() > width) {
        const most = Math.max(...shown.map(drop));
        if (most === 0) break;
        shown = shown.filter((c) => drop(c) < most);
    }
    return shown;
}

export function belowName(r: Request, shown: readonly RequestColumn[]): string {
    const has = (id: string) => shown.some((c) => c.id === id);
    return ['when', 'outcome', 'model', 'route'].filter((id) => !has(id)).map((id) => columnOf(id)!.text(r)).filter(Boolean).join(' · ');
}

// ---- order ----------------------------------------------------------------------------------------

export interface Order { column: string; up: boolean }

// "ttft": largest first; "ttft-up": smallest first.
export function parseOrder(text: string | null, otherwise: Order): Order {
    const m = /^([a-z_0-9]+?)(-up)?$/.exec(text ?? '');
    return m && columnOf(m[1]) ? { column: m[1], up: m[2] !== undefined } : otherwise;
}

export function formatOrder(o: Order): string {
    return o.up ? `${o.column}-up` : o.column;
}

// The question to the agent whose first rows are those of this order; null: it has none such.
export function serverSort(o: Order): RequestSort | null {
    if (o.column === 'when') return o.up ? 'oldest' : 'newest';
    return o.up ? null : columnOf(o.column)?.server ?? null;
}

// Running ones first, newest first; then by the column, what is unknown last.
export function inOrder(list: readonly Request[], o: Order): Request[] {
    const c = columnOf(o.column) ?? COLUMNS[0];
    const sign = o.up ? 1 : -1;
    const keys = new Map(list.map((r) => [r, c.key(r)]));
    return [...list].sort((a, b) => {
        const running = Number(b.state === 'running') - Number(a.state === 'running');
        if (running) return running;
        const x = keys.get(a)!;
        const y = keys.get(b)!;
        if (a.state !== 'running' && x !== y) {
            if (x === null || y === null) return x === null ? 1 : -1;
            return (x < y ? -1 : 1) * sign;
        }
        return b.arrived - a.arrived || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
    });
}

// ---- lists that grow ------------------------------------------------------------------------------

// Newer knowledge of the same requests wins; what left the range goes.
export function merged(old: readonly Request[], fresh: readonly Request[], from: number): Request[] {
    const byId = new Map<string, Request>();
    for (const r of old) if (r.arrived >= from && r.state !== 'running') byId.set(r.id, r);
    for (const r of fresh) {
        const before = byId.get(r.id);
        if (!before || r.state !== 'running') byId.set(r.id, r);
    }
    return [...byId.values()];
}

// ---- export ---------------------------------------------------------------------------------------

const CSV: readonly [string, (r: Request) => string | number | null | undefined][] = [
    ['id', (r) => r.id], ['own_id', (r) => r.own_id], ['arrived', (r) => r.arrived], ['program', (r) => r.program],
    ['pid', (r) => r.pid], ['model', (r) => r.model], ['route', (r) => r.route], ['state', (r) => r.state],
    ['outcome', (r) => r.outcome], ['error', (r) => r.error], ['total_s', (r) => r.total_s], ['ttft_s', (r) => r.ttft_s],
    ['itl_mean_s', (r) => r.itl?.mean_s], ['itl_p99_s', (r) => r.itl?.p99_s], ['queue_s', (r) => metricOf(r, 'queue')],
    ['tokens_in', (r) => r.tokens_in], ['tokens_reused', (r) => r.tokens_reused], ['tokens_out', (r) => r.tokens_out],
    ['tokens_per_s', (r) => r.tokens_per_s], ['batches', (r) => r.batches], ['trace_id', (r) => r.trace_id],
];

// A cell that a spreadsheet would take for a formula is text.
function csvCell(v: string | number | null | undefined): string {
    if (v === null || v === undefined) return '';
    if (typeof v === 'number') return String(v);
    const text = /^[=+\-@\t\r]/.test(v) ? `'${v}` : v;
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

export function csvOf(list: readonly Request[]): string {
    const lines = [CSV.map(([name]) => name).join(',')];
    for (const r of list) lines.push(CSV.map(([, f]) => csvCell(f(r))).join(','));
    return `${lines.join('\r\n')}\r\n`;
}
