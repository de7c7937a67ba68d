// Requests by time and value: the cells of a latency heat map, by the rules of the agent's
// /api/heatmap (src/analyze/heatmap.h), and what can be chosen in one. Saved files have no agent:
// there the cells are counted here, from the requests in the file. No DOM.

import { globMatches } from './glob';
import { Heatmap, Metric, Request } from './types';

export interface MetricAbout {
    id: Metric;
    title: string;
    short: string;
    unit: 's' | 'tokens/s';
    worse: 'high' | 'low'; // which end of the axis is the bad one
}

export const METRICS: readonly MetricAbout[] = [
    { id: 'ttft', title: 'Time to first token', short: 'First token', unit: 's', worse: 'high' },
    { id: 'itl', title: 'Time between tokens', short: 'Between tokens', unit: 's', worse: 'high' },
    { id: 'total', title: 'Duration', short: 'Duration', unit: 's', worse: 'high' },
    { id: 'queue', title: 'Time in the queue', short: 'Queue', unit: 's', worse: 'high' },
    { id: 'tokens_per_s', title: 'Tokens per second', short: 'Tokens/s', unit: 'tokens/s', worse: 'low' },
];

export function metricAbout(id: string | null): MetricAbout {
    return METRICS.find((m) => m.id === id) ?? METRICS[0];
}

// ---- requests -----------------------------------------------------------------------------------

export function isFailed(outcome: string | null): boolean {
    return outcome === 'error' || outcome === 'timeout' || outcome === 'lost';
}

// Known only of those that ended and whose figures can be believed.
export function metricOf(r: Request, metric: Metric): number | null {
    if (r.state === 'running' || r.invalid) return null;
    switch (metric) {
        case 'ttft': return r.ttft_s;
        case 'itl': return r.itl && r.itl.count > 0 ? r.itl.mean_s : null;
        case 'queue': return r.phases['queue'] ? r.phases['queue'].seconds : null;
        case 'tokens_per_s': return r.tokens_out > 0 ? r.tokens_per_s : null;
        default: return r.total_s;
    }
}

export interface RequestFilter {
    from?: number | null;
    to?: number | null;
    metric?: Metric | null;
    min?: number | null;
    max?: number | null;
    model?: string | null;
    route?: string | null;
    process?: string | null;
    pid?: number | null;
    outcome?: string | null;
    source?: string | null;
    state?: string | null;
    trace?: string | null;
    minSeconds?: number | null;
}

// Doubles hold today's times to a quarter of a microsecond; a time that was written with six digits
// must not fall below itself.
const MICRO_SLACK = 0.25;
const bound = (t: number) => Math.round(t * 1e6);
const arrival = (r: Request) => Math.floor(r.arrived * 1e6 + MICRO_SLACK);

export function requestPasses(r: Request, f: RequestFilter): boolean {
    if (f.state && f.state !== r.state) return false;
    if (f.outcome && (r.state === 'running' || r.outcome !== f.outcome)) return false;
    if (f.source && r.source !== f.source) return false;
    if (f.pid && r.pid !== f.pid) return false;
    if (f.minSeconds && !((r.total_s ?? 0) >= f.minSeconds)) return false;
    if (f.from && arrival(r) < bound(f.from)) return false;
    if (f.to && arrival(r) >= bound(f.to)) return false;
    if (f.metric) {
        const v = metricOf(r, f.metric);
        if (v === null || v < (f.min ?? 0) || (f.max && v >= f.max)) return false;
    }
    if (f.trace && (r.trace_id ?? '').toLowerCase() !== f.trace.replace(/-/g, '').toLowerCase()) return false;
    if (f.process && !globMatches(f.process, r.program)) return false;
    if (f.model && !globMatches(f.model, r.model)) return false;
    return !f.route || globMatches(f.route, r.route);
}

export type RequestSort = 'slowest' | 'newest' | 'oldest' | 'ttft' | 'itl' | 'queue' | 'tokens';

function sortKey(r: Request, sort: RequestSort): number {
    switch (sort) {
        case 'newest': case 'oldest': return 0;
        case 'ttft': return r.ttft_s ?? -1;
        case 'itl': return r.itl?.mean_s ?? -1;
        case 'queue': return r.phases['queue']?.seconds ?? 0;
        case 'tokens': return r.tokens_out;
        default: return r.total_s ?? 0;
    }
}

// In the agent's order: the largest first, then the newest, then by id.
export function sortRequests(list: Request[], sort: RequestSort): Request[] {
    return list.sort((a, b) => {
        const x = sortKey(a, sort);
        const y = sortKey(b, sort);
        if (x !== y) return y - x;
        if (a.arrived !== b.arrived) return (b.arrived - a.arrived) * (sort === 'oldest' ? -1 : 1);
        return a.id < b.id ? -1 : a.id > b.id ? 1 : 0;
    });
}

// ---- columns and rows ---------------------------------------------------------------------------

const DAY_MS = 86400000;
const STEPS_MS = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000,
    300000, 600000, 900000, 1800000, 3600000, 7200000, 10800000, 21600000, 43200000,
];
const TINY = 1e-9;  // less counts as nothing: a nanosecond
const HUGE = 1e15;  // more does not occur
const ROWS_LEAST = 8;

// The shortest of the lengths that people count in with which the columns suffice.
export function chooseStepMs(fromMs: number, toMs: number, columns: number): number {
    for (const s of STEPS_MS) if (Math.ceil(toMs / s) - Math.floor(fromMs / s) <= columns) return s;
    let days = Math.floor((toMs - fromMs) / DAY_MS / columns) + 1;
    while (Math.ceil(toMs / (days * DAY_MS)) - Math.floor(fromMs / (days * DAY_MS)) > columns) days++;
    return days * DAY_MS;
}

function powerOfTen(n: number): number {
    let p = 1;
    for (; n > 0; n--) p *= 10; // exact up to 1e22
    return p;
}

// Bound k of those that cut a factor of ten into n: the number that its three digits mean.
export function edgeAt(n: number, k: number): number {
    const tens = Math.floor(k / n);
    const rest = k - tens * n;
    const digits = n === 3 ? [100, 200, 500][rest] : Math.round(100 * 10 ** (rest / n));
    return tens >= 2 ? digits * powerOfTen(tens - 2) : digits / powerOfTen(2 - tens);
}

// The last bound that is not above v.
function edgeBelow(n: number, v: number): number {
    let k = Math.floor(n * Math.log10(v));
    while (edgeAt(n, k) > v) k--;
    while (edgeAt(n, k + 1) <= v) k++;
    return k;
}

// The finest rows that hold everything from least to greatest; where even a factor of ten each is
// too many, what is least is in the row from 0.
export function chooseEdges(values: readonly number[], rowsMax: number): number[] {
    let least = Infinity;
    let greatest = 0;
    let fromZero = false;
    for (const v of values) {
        if (v < TINY) fromZero = true;
        else if (v < least) least = v;
        if (v > greatest) greatest = v;
    }
    if (!values.length) return [];
    if (greatest < TINY) least = greatest = 1e-3;
    if (rowsMax === 1) return [0, edgeAt(1, edgeBelow(1, greatest) + 1)];
    const max = rowsMax - (fromZero ? 1 : 0);
    let n = 1;
    let first = 0;
    let end = 1;
    let fits = false;
    for (const fineness of [40, 20, 10, 5, 3, 1]) {
        n = fineness;
        first = edgeBelow(n, least);
        end = edgeBelow(n, greatest) + 1;
        fits = end - first <= max;
        if (fits) break;
    }
    if (!fits) {
        fromZero = true;
        first = end - (rowsMax - 1);
    }
    // Values that are all alike are shown with some room around them.
    const wanted = fits ? Math.min(ROWS_LEAST, max) : 0;
    for (; end - first < wanted; end++) {
        if (end + 1 - first < max) first--;
    }
    const edges = fromZero ? [0] : [];
    for (let k = first; k <= end; k++) edges.push(edgeAt(n, k));
    return edges;
}

// The row that holds v, which is not below the first edge.
export function rowOf(edges: readonly number[], v: number): number {
    let low = 0;
    let high = edges.length - 1;
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (edges[middle] <= v) low = middle;
        else high = middle;
    }
    return low;
}

export interface HeatOptions extends RequestFilter {
    metric: Metric;
    from: number;
    to: number;
    columns?: number;
    rows?: number;
}

export function heatmapOf(requests: readonly Request[], o: HeatOptions, time = o.to): Heatmap {
    const fromMs = Math.floor(o.from * 1e3);
    const toMs = Math.ceil(o.to * 1e3);
    const stepMs = chooseStepMs(fromMs, toMs, o.columns || 120);
    const firstMs = Math.floor(fromMs / stepMs) * stepMs;
    const columns = Math.ceil((toMs - firstMs) / stepMs);
    const endMs = firstMs + columns * stepMs;
    const filter = { ...o, from: firstMs / 1e3, to: endMs / 1e3 };
    const points: { column: number; value: number; failed: boolean }[] = [];
    let seen = 0;
    for (const r of requests) {
        if (r.state !== 'running' && requestPasses(r, { from: filter.from, to: filter.to })) seen++;
        if (!requestPasses(r, filter)) continue;
        const value = metricOf(r, o.metric)!;
        const column = Math.floor((arrival(r) / 1e3 - firstMs) / stepMs);
        if (value >= 0 && value < HUGE) points.push({ column, value, failed: isFailed(r.outcome) });
    }
    const edges = chooseEdges(points.map((p) => p.value), o.rows || 40);
    const rows = Math.max(0, edges.length - 1);
    const counts = new Uint32Array(columns * rows);
    const failed = new Uint32Array(columns * rows);
    for (const p of points) {
        const at = p.column * rows + rowOf(edges, p.value);
        counts[at]++;
        if (p.failed) failed[at]++;
    }
    const cells: Heatmap['cells'] = [];
    counts.forEach((n, at) => {
        if (n) cells.push([Math.floor(at / rows), at % rows, n, failed[at]]);
    });
    return {
        time, metric: o.metric, unit: metricAbout(o.metric).unit, from: firstMs / 1e3, to: endMs / 1e3,
        step_s: stepMs / 1e3, edges, columns, rows, cells, counted: points.length, kept: seen, seen,
        truncated: false,
    };
}

// ---- what is chosen -----------------------------------------------------------------------------

// Half open: from <= arrival < to, min <= value < max.
export interface Cells { from: number; to: number; min: number; max: number }

// The address has them as FROM..TO:MIN..MAX.
export function parseCells(text: string | null): Cells | null {
    const m = /^([\d.]+)\.\.([\d.]+):([\d.e-]+)\.\.([\d.e+-]+)$/.exec(text ?? '');
    if (!m) return null;
    const [from, to, min, max] = m.slice(1).map(Number) as [number, number, number, number];
    if (![from, to, min, max].every(Number.isFinite) || !(to > from) || !(max > min) || min < 0) return null;
    return { from, to, min, max };
}

const short = (v: number) => String(Number(v.toPrecision(12)));

export function formatCells(c: Cells): string {
    const t = (v: number) => String(Math.round(v * 1e6) / 1e6);
    return `${t(c.from)}..${t(c.to)}:${short(c.min)}..${short(c.max)}`;
}

// Whole cells, both ends included.
export interface Rect { c0: number; r0: number; c1: number; r1: number }

export function rectOf(a: { column: number; row: number }, b: { column: number; row: number }): Rect {
    return {
        c0: Math.min(a.column, b.column), c1: Math.max(a.column, b.column),
        r0: Math.min(a.row, b.row), r1: Math.max(a.row, b.row),
    };
}

export function cellsOfRect(h: Heatmap, r: Rect): Cells {
    const at = (c: number) => Math.round((h.from + c * h.step_s) * 1e3) / 1e3;
    return { from: at(r.c0), to: at(r.c1 + 1), min: h.edges[r.r0], max: h.edges[r.r1 + 1] };
}

// Where cells are in a map, which may be another one than they were chosen in: null = nowhere.
export function rectOfCells(h: Heatmap, c: Cells): Rect | null {
    if (!h.rows || c.from >= h.to || c.to <= h.from) return null;
    const top = h.edges[h.rows];
    if (c.min >= top || c.max <= h.edges[0]) return null;
    const slack = 1e-6;
    const column = (t: number) => Math.min(h.columns - 1, Math.max(0, Math.floor((t - h.from) / h.step_s + slack)));
    const last = Math.ceil((c.to - h.from) / h.step_s - slack) - 1;
    let r1 = rowOf(h.edges, Math.min(c.max, top));
    if (r1 > 0 && h.edges[r1] >= c.max) r1--;
    return {
        c0: column(c.from), c1: Math.max(column(c.from), Math.min(h.columns - 1, last)),
        r0: rowOf(h.edges, Math.max(c.min, h.edges[0])), r1,
    };
}

export function countIn(h: Heatmap, r: Rect): { count: number; failed: number } {
    const sum = { count: 0, failed: 0 };
    for (const [c, row, n, failed] of h.cells) {
        if (c < r.c0 || c > r.c1 || row < r.r0 || row > r.r1) continue;
        sum.count += n;
        sum.failed += failed;
    }
    return sum;
}

// The rows at the bad end that hold the worst `share` of all, and not more rows than needed for it.
export function worstRect(h: Heatmap, share: number, worse: 'high' | 'low'): Rect | null {
    if (!h.counted) return null;
    const byRow = new Array<number>(h.rows).fill(0);
    for (const [, row, n] of h.cells) byRow[row] += n;
    let sum = 0;
    for (let i = 0; i < h.rows; i++) {
        const row = worse === 'high' ? h.rows - 1 - i : i;
        sum += byRow[row];
        if (sum < Math.max(1, Math.ceil(share * h.counted))) continue;
        return worse === 'high'
            ? { c0: 0, c1: h.columns - 1, r0: row, r1: h.rows - 1 }
            : { c0: 0, c1: h.columns - 1, r0: 0, r1: row };
    }
    return null;
}

// ---- what columns say ---------------------------------------------------------------------------

export interface ColumnStats { count: number; failed: number; p50: number | null; p95: number | null; p99: number | null; low: number; high: number }

function quantile(edges: readonly number[], counts: readonly number[], total: number, q: number): number | null {
    if (!total) return null;
    const rank = q * total;
    let below = 0;
    for (let r = 0; r < counts.length; r++) {
        const n = counts[r];
        if (n && below + n >= rank) {
            // Within a row values are taken to be spread evenly on the axis, which is logarithmic.
            const share = Math.min(1, Math.max(0, (rank - below) / n));
            const low = edges[r];
            const high = edges[r + 1];
            return low > 0 ? low * (high / low) ** share : high * share;
        }
        below += n;
    }
    return edges[edges.length - 1];
}

export function columnStats(h: Heatmap): ColumnStats[] {
    const counts = Array.from({ length: h.columns }, () => new Array<number>(h.rows).fill(0));
    const stats: ColumnStats[] = Array.from({ length: h.columns },
        () => ({ count: 0, failed: 0, p50: null, p95: null, p99: null, low: 0, high: 0 }));
    for (const [c, row, n, failed] of h.cells) {
        counts[c][row] = n;
        const s = stats[c];
        if (!s.count || h.edges[row] < s.low) s.low = h.edges[row]!;
        if (h.edges[row + 1] > s.high) s.high = h.edges[row + 1]!;
        s.count += n;
        s.failed += failed;
    }
    stats.forEach((s, c) => {
        s.p50 = quantile(h.edges, counts[c], s.count, 0.5);
        s.p95 = quantile(h.edges, counts[c], s.count, 0.95);
        s.p99 = quantile(h.edges, counts[c], s.count, 0.99);
    });
    return stats;
}

// ---- drawing ------------------------------------------------------------------------------------

export const HEAT_LEVELS = 10;

// 0 … 9 by the square root: one request can be told from none, and a hundred from ten.
export function heatLevel(count: number, most: number): number {
    if (count <= 0 || most <= 1) return count > 0 ? HEAT_LEVELS - 4 : 0;
    const share = (Math.sqrt(count) - 1) / (Math.sqrt(most) - 1);
    return Math.min(HEAT_LEVELS - 1, Math.max(0, Math.round(share * (HEAT_LEVELS - 1))));
}

// The least count of each level that occurs, for the legend.
export function heatSteps(most: number): { level: number; from: number }[] {
    const steps: { level: number; from: number }[] = [];
    for (let level = 0; level < HEAT_LEVELS; level++) {
        const middle = level === 0 ? 1 : (level - 0.5) / (HEAT_LEVELS - 1);
        let from = level === 0 ? 1 : Math.max(1, Math.ceil((1 + middle * (Math.sqrt(most) - 1)) ** 2 - 1e-9));
        while (from <= most && heatLevel(from, most) < level) from++;
        if (from <= most && heatLevel(from, most) === level) steps.push({ level, from });
    }
    return steps;
}

// Where a value is between the lowest edge (0) and the highest (1); rows are equally high. The row
// from 0 has no logarithm: within it values are placed evenly.
export function place(edges: readonly number[], v: number): number {
    const rows = edges.length - 1;
    if (rows < 1 || v <= edges[0]) return 0;
    if (v >= edges[rows]) return 1;
    const r = rowOf(edges, v);
    const low = edges[r];
    const high = edges[r + 1];
    return (r + (low > 0 ? Math.log(v / low) / Math.log(high / low) : v / high)) / rows;
}

// Values to write at the axis: powers of ten, then 1-2-5 where there is room for so many.
export function axisValues(edges: readonly number[], most: number): number[] {
    const first = edges.find((e) => e > 0);
    const last = edges[edges.length - 1];
    if (first === undefined || last === undefined) return [];
    const low = Math.floor(Math.log10(first));
    const high = Math.ceil(Math.log10(last));
    const within = (digits: number[]) => {
        const list: number[] = [];
        for (let k = low; k <= high; k++) {
            for (const d of digits) {
                const v = k >= 0 ? d * powerOfTen(k) : d / powerOfTen(-k);
                if (v >= first * (1 - 1e-9) && v <= last * (1 + 1e-9)) list.push(v);
            }
        }
        return list;
    };
    const fine = within([1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let chosen = within([1]);
    if (within([1, 2, 5]).length <= most) chosen = within([1, 2, 5]);
    if (chosen.length < 3 && fine.length <= most) chosen = fine;
    while (chosen.length > most) chosen = chosen.filter((_, i) => i % 2 === 0);
    return edges[0] === 0 ? [0, ...chosen] : chosen;
}
