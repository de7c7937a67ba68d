// Series on a grid of steps, and the arithmetic of charts: which step a range needs, which series a
// pattern means, how series become lines. No DOM.

import { globMatches } from './glob';
import { Labels, Point, Series, SeriesType } from './types';

// sum: of a histogram's values, per second; seconds of a phase per second, for instance.
export type Stat = 'value' | 'avg' | 'min' | 'max' | 'last' | 'count' | 'sum' | 'p50' | 'p90' | 'p95' | 'p99';
export const STATS: readonly Stat[] = ['value', 'avg', 'min', 'max', 'last', 'count', 'sum', 'p50', 'p90', 'p95', 'p99'];

// Of a point; null: it has none.
export function statOf(p: Point, stat: Stat): number | null {
    if (stat === 'sum') return p.avg === undefined ? null : p.value * p.avg;
    return p[stat] ?? null;
}

// ---- ranges -------------------------------------------------------------------------------------

export interface RangeSpec { seconds: number; from: number | null; to: number | null } // from null: live

// "900": the last 900 seconds, moving; "FROM..TO": those times.
export function parseRange(text: string | null): RangeSpec {
    const fixed = /^([\d.]+)\.\.([\d.]+)$/.exec(text ?? '');
    if (fixed) {
        const from = Number(fixed[1]);
        const to = Number(fixed[2]);
        if (Number.isFinite(from) && Number.isFinite(to) && to > from) return { seconds: to - from, from, to };
    }
    const seconds = Number(text ?? NaN);
    return { seconds: Number.isFinite(seconds) && seconds > 0 ? seconds : 900, from: null, to: null };
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 604800];
export const POINTS_MAX = 450;

// The shortest step with which a range has no more points than a chart can show.
export function stepFor(seconds: number, most = POINTS_MAX): number {
    return STEPS.find((s) => seconds / s <= most) ?? STEPS[STEPS.length - 1];
}

// ---- patterns -----------------------------------------------------------------------------------

// a|b: any of both.
export function anyGlob(patterns: string, text: string): boolean {
    return patterns.includes('|') ? patterns.split('|').some((p) => globMatches(p, text)) : globMatches(patterns, text);
}

export interface Selector {
    names: readonly string[]; // globs
    labels?: readonly (readonly [string, string])[]; // label, glob
    process?: string | null;
    pid?: string | null;
}

export interface SeriesId { name: string; labels: Labels; process: string | null; pid: number | null }

// Filters of a page (model, route) hold for series that have such a label; others pass.
const SAME: Record<string, readonly string[]> = {
    model: ['model', 'gen_ai_request_model'],
    route: ['route', 'http_route'],
};

export function labelOf(labels: Labels, name: string): string | null {
    for (const n of SAME[name] ?? [name]) {
        const v = labels[n];
        if (v !== undefined) return v;
    }
    return null;
}

export function selects(s: Selector, id: SeriesId): boolean {
    if (!s.names.some((n) => anyGlob(n, id.name))) return false;
    // A filter by process keeps series that are of none: the machine's.
    if (s.process && id.process !== null && !anyGlob(s.process, id.process)) return false;
    if (s.pid && id.pid !== null && String(id.pid) !== s.pid) return false;
    for (const [label, glob] of s.labels ?? []) {
        const v = labelOf(id.labels, label);
        if (v === null ? !(label in SAME) : !anyGlob(glob, v)) return false;
    }
    return true;
}

export function seriesKey(id: SeriesId): string {
    const labels = Object.keys(id.labels).sort().map((k) => `${k}=${JSON.stringify(id.labels[k])}`);
    return `${id.name}{${labels.join(',')}}${id.pid ?? ''}`;
}

// ---- the grid -----------------------------------------------------------------------------------

// Times that are multiples of the step, from `begin`, `count` of them. As time goes on the window
// moves: columns have room for twice as much, and are moved back when that is used up.
export class Grid {
    begin: number;
    readonly count: number;
    offset = 0; // of the window in all columns
    readonly room: number;
    private readonly columns = new Set<Float64Array>();

    constructor(readonly step: number, from: number, to: number) {
        this.begin = Math.floor(from / step) * step;
        this.count = Math.max(2, Math.ceil(to / step - 1e-9) - Math.floor(from / step));
        this.room = this.count * 2;
    }

    get end(): number {
        return this.begin + this.count * this.step;
    }

    column(): Float64Array {
        const c = new Float64Array(this.room).fill(NaN);
        this.columns.add(c);
        return c;
    }

    drop(c: Float64Array): void {
        this.columns.delete(c);
    }

    // -1: not in the window.
    index(time: number): number {
        const i = Math.round((time - this.begin) / this.step);
        return i >= 0 && i < this.count ? i : -1;
    }

    time(i: number): number {
        return this.begin + i * this.step;
    }

    // Let the window end with the step that begins at `time`. How many steps it moved.
    advance(time: number): number {
        const steps = Math.round((time - this.begin) / this.step) - (this.count - 1);
        if (steps <= 0) return 0;
        this.begin += steps * this.step;
        if (steps >= this.count) {
            this.offset = 0;
            for (const c of this.columns) c.fill(NaN);
            return steps;
        }
        if (this.offset + steps + this.count > this.room) {
            for (const c of this.columns) {
                c.copyWithin(0, this.offset + steps, this.offset + this.count);
                c.fill(NaN, this.count - steps);
            }
            this.offset = 0;
        } else {
            this.offset += steps;
            for (const c of this.columns) c.fill(NaN, this.offset + this.count - steps, this.offset + this.count);
        }
        return steps;
    }
}

export class Track implements SeriesId {
    readonly columns = new Map<Stat, Float64Array>();
    summary: Series | null = null; // of the whole range, as the agent counted it

    constructor(
        readonly key: string, readonly name: string, readonly labels: Labels, readonly process: string | null,
        readonly pid: number | null, readonly type: SeriesType, readonly unit: string, private readonly grid: Grid,
    ) {}

    want(stat: Stat): void {
        if (!this.columns.has(stat)) this.columns.set(stat, this.grid.column());
    }

    put(p: Point): void {
        const i = this.grid.index(p.time);
        if (i < 0) return;
        const at = this.grid.offset + i;
        for (const [stat, column] of this.columns) {
            column[at] = statOf(p, stat) ?? NaN;
        }
    }

    // NaN: nothing at that step.
    at(stat: Stat, i: number): number {
        const c = this.columns.get(stat);
        return c ? c[this.grid.offset + i] : NaN;
    }

    // The newest value, but no older than so many steps; NaN if none.
    newest(stat: Stat, steps = this.grid.count): number {
        for (let i = this.grid.count - 1; i >= Math.max(0, this.grid.count - steps); i--) {
            const v = this.at(stat, i);
            if (!Number.isNaN(v)) return v;
        }
        return NaN;
    }

    empty(): boolean {
        for (const stat of this.columns.keys()) if (!Number.isNaN(this.newest(stat))) return false;
        return true;
    }

    end(): void {
        for (const c of this.columns.values()) this.grid.drop(c);
        this.columns.clear();
    }
}

// ---- lines --------------------------------------------------------------------------------------

export type Aggregate = 'sum' | 'avg' | 'max' | 'min';

export interface LineSpec {
    stats: readonly Stat[];
    group: readonly string[]; // labels to split by; none: all in one, or each series where adding is wrong
    each: boolean;            // split by all labels in which series differ, but for who recorded them
    aggregate: Aggregate;     // of series that share a line; percentiles cannot be added: the largest
    most: number;             // lines; the smallest are added up as "other", or left out
    scale: number;            // factor for all values
}

export interface Line {
    key: string;
    label: string;      // of the group
    stat: Stat;
    tracks: Track[];
    other: number;      // so many groups are in it; 0: it is one
}

export interface Lines { lines: Line[]; left: number; aggregate: Aggregate }

// Labels that say who measured, not what.
const WHO = ['process', 'pid', 'tid', 'source', 'gen_ai_provider_name', 'gen_ai_operation_name'];

function isPercentile(stat: Stat): boolean {
    return stat[0] === 'p' || stat === 'avg' || stat === 'min' || stat === 'max' || stat === 'last';
}

// Labels in which the tracks differ, for names of lines.
export function differing(tracks: readonly SeriesId[]): string[] {
    const values = new Map<string, Set<string>>();
    for (const t of tracks) for (const k of Object.keys(t.labels)) values.set(k, new Set());
    for (const t of tracks) for (const [k, set] of values) set.add(t.labels[k] ?? '');
    return [...values].filter(([, set]) => set.size > 1).map(([k]) => k);
}

// Two labels may tell the same story (process and pid): the first that says it is enough.
function essential(tracks: readonly SeriesId[], labels: string[]): string[] {
    const ranked = [...labels].sort((a, b) => weight(a) - weight(b));
    const chosen: string[] = [];
    let parts = 1;
    for (const l of ranked) {
        const next = new Set(tracks.map((t) => [...chosen, l].map((k) => t.labels[k] ?? '').join('\0'))).size;
        if (next > parts) {
            chosen.push(l);
            parts = next;
        }
    }
    return chosen;
}
function weight(label: string): number {
    return label === 'pid' ? 9 : label === 'tid' ? 8 : label === 'source' ? 7 : label === 'process' ? 2 : 1;
}

function nameOf(t: SeriesId, labels: readonly string[], manyNames: boolean, names: ReadonlyMap<string, string>): string {
    const parts = labels.map((l) => labelOf(t.labels, l) ?? '').filter((v) => v !== '');
    const name = names.get(t.name) ?? t.name;
    if (manyNames) parts.unshift(name);
    return parts.join(' · ') || name;
}

// names: what lines of several series are called instead of the series' names.
export function linesOf(tracks: readonly Track[], spec: LineSpec, names: ReadonlyMap<string, string> = new Map()): Lines {
    const manyNames = new Set(tracks.map((t) => t.name)).size > 1;
    const groups = new Map<string, Track[]>();
    const percentiles = spec.stats.some((x) => isPercentile(x)) && tracks.some((t) => t.type === 'histogram');
    // A program that was started again has other series of the same: they go on in one line. Where
    // several run at once, the line is that of the slowest.
    const apart = spec.each || (percentiles && !spec.group.length);
    const labels = apart ? essential(tracks, differing(tracks).filter((l) => !WHO.includes(l))) : [...spec.group];
    for (const t of tracks) {
        const key = nameOf(t, labels, manyNames, names);
        const g = groups.get(key);
        if (g) g.push(t);
        else groups.set(key, [t]);
    }
    const aggregate = percentiles ? 'max' : spec.aggregate;
    const named = [...groups].map(([key, g]) => ({
        key, label: groups.size === 1 && !labels.length ? '' : nameOf(g[0], labels, manyNames, names), tracks: g,
    }));
    // Several series and several statistics are too many lines: only the first group of stats stays
    // where there is one series, else one statistic.
    const stats = named.length > 1 && spec.stats.length > 1 ? [spec.stats[spec.stats.length - 2] ?? spec.stats[0]] : spec.stats;
    named.sort((a, b) => rank(a.label) - rank(b.label) || order(a.label, b.label));
    let shown = named;
    let rest: typeof named = [];
    if (named.length > spec.most) {
        const size = (n: { tracks: Track[] }) => n.tracks.reduce((s, t) => s + meanOf(t, stats[0]), 0);
        const ranked = [...named].map((n) => ({ n, size: size(n) })).sort((a, b) => b.size - a.size);
        const keep = new Set(ranked.slice(0, spec.most - 1).map((r) => r.n));
        shown = named.filter((n) => keep.has(n));
        rest = named.filter((n) => !keep.has(n));
    }
    const lines: Line[] = [];
    for (const n of shown) for (const stat of stats) lines.push({ key: `${n.key} ${stat}`, label: n.label, stat, tracks: n.tracks, other: 0 });
    const canAdd = aggregate === 'sum';
    if (rest.length && canAdd) {
        for (const stat of stats) {
            lines.push({
                key: `\uffff ${stat}`, label: `${rest.length} more`, stat, tracks: rest.flatMap((n) => n.tracks), other: rest.length,
            });
        }
    }
    return { lines, left: canAdd ? 0 : rest.length, aggregate };
}

// Words whose order everybody knows: as time goes on, or the good one first.
const KNOWN = [
    'queue', 'encode', 'prefill', 'decode', 'output', 'sample', 'detokenize', 'text', 'ok', 'cancelled', 'timeout', 'error', 'lost', 'met', 'missed',
    'weights', 'kv', 'compute', 'activations', 'user', 'nice', 'system', 'iowait', 'irq', 'softirq', 'steal', 'running', 'waiting',
];
function rank(label: string): number {
    const i = KNOWN.indexOf(label);
    return i < 0 ? KNOWN.length : i;
}

// cpu2 before cpu10.
export function order(a: string, b: string): number {
    return a.localeCompare(b, 'en', { numeric: true });
}

function meanOf(t: Track, stat: Stat): number {
    const c = t.columns.get(stat);
    if (!c) return 0;
    let sum = 0;
    let n = 0;
    for (const v of c) if (!Number.isNaN(v)) { sum += v; n++; }
    return n ? sum / n : 0;
}

// The values of a line, null where there is nothing.
export function valuesOf(line: Line, grid: Grid, aggregate: Aggregate, scale = 1): (number | null)[] {
    const out = new Array<number | null>(grid.count);
    const columns = line.tracks.map((t) => t.columns.get(line.stat)).filter((c): c is Float64Array => c !== undefined);
    for (let i = 0; i < grid.count; i++) {
        let sum = 0;
        let n = 0;
        let most = -Infinity;
        let least = Infinity;
        for (const c of columns) {
            const v = c[grid.offset + i];
            if (Number.isNaN(v)) continue;
            sum += v;
            n++;
            if (v > most) most = v;
            if (v < least) least = v;
        }
        out[i] = n === 0 ? null
            : scale * (aggregate === 'sum' ? sum : aggregate === 'avg' ? sum / n : aggregate === 'max' ? most : least);
    }
    return out;
}

// Each on top of those before it. A step in which one has nothing counts it as 0, unless none has.
export function stacked(values: readonly (readonly (number | null)[])[]): (number | null)[][] {
    if (!values.length) return [];
    const n = values[0].length;
    const out = values.map(() => new Array<number | null>(n));
    for (let i = 0; i < n; i++) {
        const any = values.some((v) => v[i] !== null);
        let sum = 0;
        for (let k = 0; k < values.length; k++) {
            sum += values[k][i] ?? 0;
            out[k][i] = any ? sum : null;
        }
    }
    return out;
}

// A reading that comes late leaves a step without a value: a line goes on over that, where a longer
// gap cuts it. undefined is how the charts' library is told so; null cuts.
const LATE_S = 2.5;
export function bridged(values: readonly (number | null)[], step: number): (number | null | undefined)[] {
    const most = Math.floor(LATE_S / step);
    const out: (number | null | undefined)[] = [...values];
    let last = -1; // value before
    for (let i = 0; i < out.length; i++) {
        if (values[i] === null) continue;
        if (last >= 0 && i - last - 1 <= most) out.fill(undefined, last + 1, i);
        last = i;
    }
    return out;
}

// Values with nothing on both sides, which a line would not show.
export function isolated(values: ArrayLike<number | null | undefined>, from: number, to: number): number[] {
    const out: number[] = [];
    for (let i = from; i <= to; i++) {
        if (values[i] == null) continue;
        if ((i === 0 || values[i - 1] === null) && (i === values.length - 1 || values[i + 1] === null)) out.push(i);
    }
    return out;
}

// ---- as text ------------------------------------------------------------------------------------

export function csv(header: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string {
    const field = (v: string | number | null) => {
        if (v === null) return '';
        const t = String(v);
        // A spreadsheet would run what begins like a formula.
        const safe = typeof v === 'string' && /^[=+\-@\t\r]/.test(t) ? `'${t}` : t;
        return /[",\n\r]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
    };
    return [header, ...rows].map((r) => r.map(field).join(',')).join('\r\n') + '\r\n';
}
