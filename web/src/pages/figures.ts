// Figures for tiles, out of the agent's answers and the series of a range. No DOM.

import { Board } from '../core/board';
import { percent } from '../core/format';
import { Aggregate, Selector, Stat, Track, bridged, selects } from '../core/series';
import { Health, Inference, InferenceGroup, InferenceModel, Labels, Percentiles, Series } from '../core/types';
import { Spark } from '../elements/tile';
import { goodputOf } from './inference_figures';

export interface Filters { process: string | null; pid: string | null; model: string | null; route: string | null }

function passes(filter: string | null, value: string): boolean {
    return !filter || filter === value;
}

export function modelsOf(i: Inference, f: Filters): InferenceModel[] {
    return i.models.filter((m) => passes(f.model, m.model) && passes(f.process, m.process) && passes(f.pid, String(m.pid)));
}

export function groupsOf(i: Inference, f: Filters): InferenceGroup[] {
    return i.groups.filter((g) => passes(f.model, g.model) && passes(f.route, g.route) && passes(f.process, g.process)
        && passes(f.pid, String(g.pid)));
}

export function sumOf<T>(rows: readonly T[], of: (row: T) => number | null): number | null {
    let sum = 0;
    let any = false;
    for (const r of rows) {
        const v = of(r);
        if (v === null) continue;
        sum += v;
        any = true;
    }
    return any ? sum : null;
}

// Percentiles of several groups cannot be put together. The slowest group is an honest answer: no
// group is worse than that.
export function slowest(groups: readonly InferenceGroup[], of: (g: InferenceGroup) => Percentiles | null): { p: Percentiles; of: InferenceGroup } | null {
    let best: { p: Percentiles; of: InferenceGroup } | null = null;
    for (const g of groups) {
        const p = of(g);
        if (!p?.count) continue; // null: none of its requests got that far
        if (!best || (p.p95 ?? 0) > (best.p.p95 ?? 0)) best = { p, of: g };
    }
    return best;
}

export function goodputStatus(share: number | null): '' | 'good' | 'warn' | 'bad' {
    return share === null ? '' : share >= 0.99 ? 'good' : share >= 0.9 ? 'warn' : 'bad';
}

// /health with what a person should know besides. Objectives that are missed are no reason for a probe to
// act: a restart makes no server faster.
export function verdictOf(h: Pick<Health, 'status' | 'reasons'>, goodput: number | null): { status: string; reasons: string[] } {
    if (goodput === null || goodputStatus(goodput) === 'good') return { status: h.status, reasons: h.reasons };
    return { status: h.status === 'ok' ? 'degraded' : h.status, reasons: [...h.reasons, `${percent(goodput)} of requests meet the objectives`] };
}

const END_STEPS = 30; // older than so many steps is not the end of a range
const LATELY_S = 60;  // as long as /health looks back

// Series of a board, as tiles want them.
export class Figures {
    inference: Inference | null = null;

    constructor(readonly board: Board, private readonly all: () => Track[], readonly filters: Filters) {}

    private selector(name: string, labels: readonly (readonly [string, string])[]): Selector {
        const page: [string, string][] = [];
        if (this.filters.model) page.push(['model', this.filters.model]);
        if (this.filters.route) page.push(['route', this.filters.route]);
        return { names: [name], labels: [...labels, ...page], process: this.filters.process, pid: this.filters.pid };
    }

    tracks(name: string, labels: readonly (readonly [string, string])[] = []): Track[] {
        const s = this.selector(name, labels);
        return this.all().filter((t) => selects(s, t));
    }

    // One curve of all that match.
    curve(name: string, options: { labels?: readonly (readonly [string, string])[]; stat?: Stat; aggregate?: Aggregate; scale?: number } = {}): (number | null)[] {
        const tracks = this.tracks(name, options.labels);
        const stat = options.stat ?? 'value';
        const aggregate = options.aggregate ?? 'sum';
        const grid = this.board.grid;
        const out = new Array<number | null>(grid.count).fill(null);
        for (let i = 0; i < grid.count; i++) {
            let sum = 0;
            let n = 0;
            let most = -Infinity;
            for (const t of tracks) {
                const v = t.at(stat, i);
                if (Number.isNaN(v)) continue;
                sum += v;
                n++;
                if (v > most) most = v;
            }
            if (n) out[i] = (options.scale ?? 1) * (aggregate === 'max' ? most : aggregate === 'avg' ? sum / n : sum);
        }
        return out;
    }

    // Of all steps of the range.
    // A curve to draw.
    spark(name: string, options: Parameters<Figures['curve']>[1] = {}): Spark['values'] {
        return bridged(this.curve(name, options), this.board.grid.step);
    }

    mean(name: string, options: Parameters<Figures['curve']>[1] = {}): number | null {
        const values = this.curve(name, options).filter((v): v is number => v !== null);
        return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
    }

    newest(name: string, options: Parameters<Figures['curve']>[1] = {}): number | null {
        const values = this.curve(name, options);
        for (let i = values.length - 1; i >= Math.max(0, values.length - END_STEPS); i--) if (values[i] !== null) return values[i];
        return null;
    }

    // What each series has at the end of the range: in the newest step that has any.
    atEnd(name: string, labels: readonly (readonly [string, string])[] = []): { labels: Labels; pid: number | null; value: number }[] {
        const tracks = this.tracks(name, labels);
        const { count } = this.board.grid;
        for (let i = count - 1; i >= Math.max(0, count - END_STEPS); i--) {
            const found = tracks.map((t) => ({ labels: t.labels, pid: t.pid, value: t.at('value', i) })).filter((t) => !Number.isNaN(t.value));
            if (found.length) return found;
        }
        return [];
    }

    // Steps of the last minute of a live range, else of all of it, that have a value.
    private lately(name: string, options: Parameters<Figures['curve']>[1] = {}): number[] {
        const values = this.curve(name, options);
        const steps = this.board.isLive ? Math.max(1, Math.round(LATELY_S / this.board.step)) : values.length;
        return values.slice(-steps).filter((v): v is number => v !== null);
    }

    // The mean of those steps.
    recent(name: string, options: Parameters<Figures['curve']>[1] = {}): number | null {
        const some = this.lately(name, options);
        return some.length ? some.reduce((a, b) => a + b, 0) / some.length : null;
    }

    // Share of requests that met the objectives in that time; null: none was held against one.
    goodput(): number | null {
        const [met, missed] = ['met', 'missed'].map((result) =>
            this.lately('sonde_infer_slo_requests_total', { labels: [['result', result]] }).reduce((a, b) => a + b, 0));
        return goodputOf(met, missed);
    }

    // The newest of a live range, the mean of a fixed one.
    now(name: string, options: Parameters<Figures['curve']>[1] = {}): number | null {
        return this.board.isLive ? this.newest(name, options) : this.mean(name, options);
    }

    // Percentiles of the whole range: exact, as the agent counted them; of the slowest series.
    range(name: string): { p50: number | null; p95: number | null; p99: number | null; count: number; series: number } | null {
        const all = this.tracks(name).map((t) => t.summary).filter((s): s is Series => s !== null && s.count > 0);
        if (!all.length) return null;
        const worst = all.reduce((a, b) => ((b.p95 ?? 0) > (a.p95 ?? 0) ? b : a));
        return { p50: worst.p50, p95: worst.p95, p99: worst.p99, count: all.reduce((n, s) => n + s.count, 0), series: all.length };
    }
}
