// Answers worked out from those that a saved file has, by the rules of the agent. No DOM: tested by
// itself.

import { HeatOptions, RequestFilter, RequestSort, heatmapOf, requestPasses, sortRequests } from './heat';
import { Params, queryString } from './params';
import { anyGlob, seriesKey } from './series';
import { AgentEvent, Events, Family, Finding, Findings, Metric, QueryAnswer, Request, Requests, Series, SeriesAnswer } from './types';

export type Answers = Record<string, unknown>;

const SEVERITY = ['info', 'warning', 'critical'];
const NEAR_S = 1.5; // a range that was moved by less than a step is the same

function number(v: Params[string]): number | null {
    if (v === null || v === undefined || v === '') return null;
    const n = Number(v);
    return Number.isFinite(n) ? n : null;
}

function text(v: Params[string]): string | null {
    return v === null || v === undefined || v === '' ? null : Array.isArray(v) ? v.join('|') : String(v);
}

// All answers of a route, whatever was asked.
function* of<T>(answers: Answers, path: string): Generator<T> {
    for (const [key, value] of Object.entries(answers)) {
        if (key === path || key.startsWith(`${path}?`)) yield value as T;
    }
}

function within(t: number, from: number | null, to: number | null): boolean {
    return (from === null || t >= from) && (to === null || t < to);
}

// ---- series -------------------------------------------------------------------------------------

// The step of the series that are in the file.
export function frozenStep(answers: Answers): number | null {
    let step: number | null = null;
    for (const a of of<QueryAnswer>(answers, '/api/query')) {
        if (a.step_s && a.series.some((s) => s.points) && (step === null || a.step_s < step)) step = a.step_s;
    }
    return step;
}

function seriesPasses(s: Series, params: Params): boolean {
    const name = text(params['name']);
    if (name !== null && !anyGlob(name, s.name)) return false;
    const type = text(params['type']);
    if (type !== null && s.type !== type && s.kind !== type) return false;
    const process = text(params['process']);
    if (process !== null && !anyGlob(process, s.process ?? '')) return false;
    const pid = number(params['pid']);
    if (pid !== null && s.pid !== pid) return false;
    const labels = params['label'];
    for (const l of Array.isArray(labels) ? labels : typeof labels === 'string' ? [labels] : []) {
        const at = l.indexOf(':');
        if (!anyGlob(l.slice(at + 1), s.labels[l.slice(0, at)] ?? '')) return false;
    }
    return true;
}

function query(answers: Answers, params: Params): QueryAnswer | undefined {
    const found = new Map<string, Series>();
    let any: QueryAnswer | undefined;
    const step = frozenStep(answers);
    const from = number(params['from']);
    const to = number(params['to']);
    for (const a of of<QueryAnswer>(answers, '/api/query')) {
        if (a.step_s !== undefined && a.step_s !== step) continue;
        any ??= a;
        for (const s of a.series) {
            if (!seriesPasses(s, params)) continue;
            const key = seriesKey(s);
            const had = found.get(key);
            if (had && (had.points?.length ?? 0) >= (s.points?.length ?? 0)) continue;
            found.set(key, s.points ? { ...s, points: s.points.filter((p) => within(p.time, from === null ? null : from - (step ?? 0), to)) } : s);
        }
    }
    if (!any) return undefined;
    const series = [...found.values()];
    return { ...any, series, total: series.length, truncated: false };
}

function families(answers: Answers): SeriesAnswer | undefined {
    const found = new Map<string, Family>();
    let time = 0;
    for (const a of of<QueryAnswer>(answers, '/api/query')) {
        time = a.time;
        for (const s of a.series) {
            let f = found.get(s.name);
            if (!f) found.set(s.name, f = { name: s.name, type: s.type, kind: s.kind, unit: s.unit, help: '', source: s.source, series: [] });
            const key = JSON.stringify(s.labels);
            if (!f.series.some((x) => JSON.stringify(x.labels) === key)) f.series.push({ labels: s.labels });
        }
    }
    return found.size ? { time, families: [...found.values()].sort((a, b) => (a.name < b.name ? -1 : 1)) } : undefined;
}

// ---- requests -----------------------------------------------------------------------------------

function allRequests(answers: Answers): { time: number; requests: Request[] } | undefined {
    const found = new Map<string, Request>();
    let time = 0;
    let any = false;
    for (const a of of<Requests>(answers, '/api/requests')) {
        any = true;
        time = Math.max(time, a.time);
        for (const r of a.requests) {
            const had = found.get(r.id);
            if (!had || (r.timeline && !had.timeline)) found.set(r.id, r);
        }
    }
    for (const [key, a] of Object.entries(answers)) {
        if (!/^\/api\/requests\/[^/?]+$/.test(key)) continue;
        any = true;
        const r = a as Request;
        found.set(r.id, r);
    }
    return any ? { time, requests: [...found.values()] } : undefined;
}

function filterOf(params: Params): RequestFilter {
    const ms = number(params['min_ms']);
    return {
        from: number(params['from']), to: number(params['to']), metric: text(params['metric']) as Metric | null,
        min: number(params['min']), max: number(params['max']), model: text(params['model']), route: text(params['route']),
        process: text(params['process']), pid: number(params['pid']), outcome: text(params['outcome']),
        source: text(params['source']), state: text(params['state']), trace: text(params['trace']),
        minSeconds: ms === null ? null : ms / 1000,
    };
}

function requests(answers: Answers, params: Params): Requests | undefined {
    const all = allRequests(answers);
    if (!all) return undefined;
    const filter = filterOf(params);
    const list = sortRequests(all.requests.filter((r) => requestPasses(r, filter)), (text(params['sort']) ?? 'slowest') as RequestSort);
    return { time: all.time, total: list.length, requests: list.slice(0, number(params['limit']) ?? 20) };
}

function request(answers: Answers, path: string): Request | undefined {
    const id = decodeURIComponent(path.slice('/api/requests/'.length));
    return allRequests(answers)?.requests.find((r) => r.id === id || r.own_id === id || r.trace_id === id);
}

function heatmap(answers: Answers, params: Params): unknown {
    const all = allRequests(answers);
    const from = number(params['from']);
    const to = number(params['to']);
    if (!all || from === null || to === null) return undefined;
    const options: HeatOptions = {
        ...filterOf(params), from, to, metric: (text(params['metric']) ?? 'ttft') as Metric,
        columns: number(params['columns']) ?? 120, rows: number(params['rows']) ?? 40,
    };
    return heatmapOf(all.requests, options, all.time);
}

// ---- what has a time ----------------------------------------------------------------------------

function events(answers: Answers, params: Params): Events | undefined {
    const found = new Map<string, AgentEvent>();
    let any = false;
    const kinds = text(params['kind'])?.split(/[,|]/);
    for (const a of of<Events>(answers, '/api/events')) {
        any = true;
        for (const e of a.events) {
            if (within(e.time, number(params['from']), number(params['to'])) && (!kinds || kinds.includes(e.kind))) {
                found.set(`${e.kind} ${e.id ?? ''} ${e.time}`, e);
            }
        }
    }
    return any ? { events: [...found.values()].slice(0, number(params['limit']) ?? 1000) } : undefined;
}

function findings(answers: Answers, params: Params): Findings | undefined {
    const found = new Map<string, Finding>();
    let active: Finding[] = [];
    let time: number | null = null;
    const least = SEVERITY.indexOf(text(params['severity']) ?? 'info');
    for (const a of of<Findings>(answers, '/api/findings')) {
        time = Math.max(time ?? 0, a.time);
        for (const f of a.findings) {
            if (within(f.time ?? 0, number(params['from']), number(params['to'])) && SEVERITY.indexOf(f.severity) >= least) found.set(`${f.id} ${f.kind} ${f.subject}`, f);
        }
        if (a.active?.length) active = a.active;
    }
    if (time === null) return undefined;
    return { time, findings: [...found.values()].sort((a, b) => (b.time ?? 0) - (a.time ?? 0)).slice(0, number(params['limit']) ?? 100), active };
}

// The same question of nearly the same time.
function near(answers: Answers, path: string, params: Params): unknown {
    const want = new URLSearchParams(queryString(params));
    for (const [key, value] of Object.entries(answers)) {
        if (!key.startsWith(`${path}?`)) continue;
        const has = new URLSearchParams(key.slice(path.length + 1));
        const names = new Set([...want.keys(), ...has.keys()]);
        const same = [...names].every((n) => {
            const a = want.get(n);
            const b = has.get(n);
            if (a === b) return true;
            return /from$|to$/.test(n) && a !== null && b !== null && Math.abs(Number(a) - Number(b)) <= NEAR_S;
        });
        if (same) return value;
    }
    return undefined;
}

// undefined: it cannot be answered from this file.
export function answerFrom(answers: Answers, path: string, params: Params): unknown {
    const exact = answers[path + queryString(params)];
    if (exact !== undefined) return exact;
    switch (path) {
        case '/api/query': return query(answers, params);
        case '/api/series': return answers[path] ?? families(answers);
        case '/api/requests': return requests(answers, params);
        case '/api/heatmap': return near(answers, path, params) ?? heatmap(answers, params);
        case '/api/events': return events(answers, params) ?? { events: [] };
        case '/api/findings': return findings(answers, params);
        case '/api/inference': case '/api/engine': case '/api/processes': case '/health': case '/admin/profile/continuous': case '/admin/profiles':
            return answers[path] ?? of(answers, path).next().value;
        default: break;
    }
    if (/^\/api\/requests\/[^/]+$/.test(path)) return request(answers, path);
    return near(answers, path, params);
}
