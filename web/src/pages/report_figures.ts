// From a report (docs/report.schema.json) to tables: which sections there are, and their columns. No
// DOM: tested by itself.

import { bytes, count, percent, seconds } from '../core/format';
import { Fact } from './table';

type Row = Record<string, unknown>;

export interface Report {
    notes?: string[]; // what is not in it, and why
    duration_seconds: number | null;
    program?: string;
    command?: string;
    host?: string;
    summary?: Row;
    recommendations?: { severity: string; message: string; details: string }[];
    system?: Row & { processes: Row[] };
    gpus?: { list: Row[]; processes: Row[] };
    ml?: Record<string, Row[]>;
    [key: string]: unknown;
}

export type Unit = 'seconds' | 'bytes' | 'count' | 'percent' | 'plain';

export interface Section {
    title: string;
    names: string[];
    columns: { title: string; unit: Unit }[];
    rows: { names: string[]; figures: (number | null)[] }[];
    recorded: boolean; // by a program, not by looking at it from outside
}

type Wanted = readonly (readonly [string, string, Unit])[]; // key, title, unit

const TIMES: Wanted = [['count', 'Count', 'count'], ['seconds', 'Time', 'seconds'], ['mean_s', 'Mean', 'seconds'], ['p50_s', 'p50', 'seconds'],
    ['p95_s', 'p95', 'seconds'], ['max_s', 'Max', 'seconds']];

// Keys of a report's lists: title, names, figures.
const LISTS: readonly (readonly [string, string, readonly (readonly [string, string])[], Wanted])[] = [
    ['operations', 'Operations', [['operation', 'Operation']], [['count', 'Count', 'count'], ['rate_per_s', 'Per second', 'count'], ['errors', 'Errors', 'count'],
        ['error_ratio', 'Failed', 'percent'], ['mean_s', 'Mean', 'seconds'], ['p50_s', 'p50', 'seconds'], ['p95_s', 'p95', 'seconds'], ['p99_s', 'p99', 'seconds'], ['max_s', 'Max', 'seconds']]],
    ['operation_errors', 'Errors by type', [['operation', 'Operation'], ['type', 'Error']], [['count', 'Count', 'count'], ['rate_per_s', 'Per second', 'count'], ['share', 'Of the operation', 'percent']]],
    ['caches', 'Caches', [['tier', 'Cache']], [['hits', 'Hits', 'count'], ['misses', 'Misses', 'count'], ['hit_ratio', 'Hit ratio', 'percent'], ['rate_per_s', 'Look-ups per second', 'count']]],
    ['bandwidth', 'Bandwidth', [['source', 'Source']], [['in_bytes', 'In', 'bytes'], ['in_bytes_per_s', 'Per second', 'bytes'], ['out_bytes', 'Out', 'bytes'], ['out_bytes_per_s', 'Per second', 'bytes']]],
    ['scopes', 'Scopes', [['scope', 'Scope']], [['count', 'Count', 'count'], ['wall_seconds', 'Time', 'seconds'], ['cpu_seconds', 'CPU', 'seconds'], ['mean_s', 'Mean', 'seconds'],
        ['p95_s', 'p95', 'seconds'], ['memory_sum_bytes', 'Memory', 'bytes']]],
    ['throughput', 'Throughput', [['scope', 'Scope']], [['items', 'Items', 'count'], ['seconds', 'Time', 'seconds'], ['items_per_s', 'Items per second', 'count']]],
];

const ML_LISTS: typeof LISTS = [
    ['models', 'Models', [['model', 'Model']], [['bytes', 'Size', 'bytes']]],
    ['datasets', 'Datasets', [['dataset', 'Dataset'], ['format', 'Format']], [...TIMES, ['bytes', 'Size', 'bytes'], ['items_per_s', 'Items per second', 'count']]],
    ['preprocessing', 'Preprocessing', [['operation', 'Operation']], TIMES],
    ['tasks', 'Tasks', [['task', 'Task'], ['worker', 'Worker']], [...TIMES, ['failed', 'Failed', 'count']]],
    ['communication', 'Communication', [['operation', 'Operation'], ['worker', 'Worker']], [...TIMES, ['bytes', 'Moved', 'bytes']]],
    ['workers', 'Workers', [['worker', 'Worker']], [['tasks', 'Tasks', 'count'], ['failed', 'Failed', 'count'], ['task_seconds', 'Time', 'seconds'],
        ['utilization_ratio', 'Utilization', 'percent'], ['memory_bytes', 'Memory', 'bytes']]],
];

function numberOf(v: unknown): number | null {
    return typeof v === 'number' ? v : null;
}

function textOf(v: unknown): string {
    return typeof v === 'string' ? v : typeof v === 'number' ? String(v) : '';
}

function sectionOf(title: string, rows: readonly Row[], names: readonly (readonly [string, string])[], wanted: Wanted, recorded = true): Section {
    const several = new Set(rows.map((r) => r['program'])).size > 1;
    const shown = several ? [...names, ['program', 'Program'] as const] : names;
    return {
        title, recorded, names: shown.map(([, t]) => t), columns: wanted.map(([, t, unit]) => ({ title: t, unit })),
        rows: rows.map((r) => ({ names: shown.map(([key]) => textOf(r[key])), figures: wanted.map(([key]) => numberOf(r[key])) })),
    };
}

function rowsOf(v: unknown): Row[] {
    return Array.isArray(v) ? v as Row[] : [];
}

// A training has epochs with values of any name, and phases.
function trainingSections(t: Row): Section[] {
    const epochs = rowsOf(t['epochs']).map((e) => ({ ...e, ...e['values'] as Row }));
    const names = [...new Set(rowsOf(t['epochs']).flatMap((e) => Object.keys(e['values'] as Row)))];
    const model = textOf(t['model']);
    const out: Section[] = [];
    if (epochs.length) {
        out.push(sectionOf(`Training of ${model}`, epochs, [['epoch', 'Epoch']], [['duration_s', 'Time', 'seconds'], ['samples_per_s', 'Samples per second', 'count'],
            ...names.map((n) => [n, n, 'plain'] as const)]));
    }
    const phases = rowsOf(t['phases']);
    if (phases.length) out.push(sectionOf(`Phases of ${model}`, phases, [['phase', 'Phase']], [['share', 'Share', 'percent'], ...TIMES]));
    return out;
}

function mlSections(ml: Record<string, Row[]>): Section[] {
    const out = rowsOf(ml['training']).flatMap(trainingSections);
    const batches = rowsOf(ml['inference']).flatMap((m) => rowsOf(m['batches']).map((b): Row => ({ ...b, model: m['model'], program: m['program'] })));
    if (batches.length) out.push(sectionOf('Inference by batch size', batches, [['model', 'Model'], ['batch_size', 'Batch size']], [...TIMES, ['items_per_s', 'Items per second', 'count']]));
    for (const [key, title, names, wanted] of ML_LISTS) {
        const rows = rowsOf(ml[key]);
        if (rows.length) out.push(sectionOf(title, rows, names, wanted));
    }
    return out;
}

// min, mean and max of a process as columns of their own.
function systemSection(processes: readonly Row[]): Section {
    const flat = processes.map((p): Row => {
        const row: Row = { program: p['program'], pid: p['pid'] };
        for (const [key, v] of Object.entries(p)) {
            const f = v as { mean?: number; max?: number } | null;
            if (f && typeof f === 'object') {
                row[`${key}_mean`] = f.mean;
                row[`${key}_max`] = f.max;
            }
        }
        return row;
    });
    const wanted: Wanted = [['cpu_ratio_mean', 'CPU', 'percent'], ['cpu_ratio_max', 'Most', 'percent'], ['resident_bytes_mean', 'Memory', 'bytes'],
        ['resident_bytes_max', 'Most', 'bytes'], ['read_bytes_per_s_mean', 'Read per second', 'bytes'], ['written_bytes_per_s_mean', 'Written per second', 'bytes'], ['threads_max', 'Threads', 'count']];
    const s = sectionOf('Processes', flat, [['program', 'Program'], ['pid', 'PID']], wanted, false);
    return { ...s, names: ['Program', 'PID'], rows: flat.map((r, i) => ({ names: [textOf(r['program']), textOf(r['pid'])], figures: s.rows[i].figures })) };
}

function gpuSections(list: readonly Row[], processes: readonly Row[]): Section[] {
    const flat = list.map((g): Row => {
        const row: Row = { gpu: textOf(g['gpu']), name: g['name'] ?? '', energy: g['energy_joules'], total: g['memory_total_bytes'] };
        for (const [key, v] of Object.entries(g)) {
            const f = v as { mean?: number; max?: number } | null;
            if (f && typeof f === 'object') {
                row[`${key}_mean`] = f.mean;
                row[`${key}_max`] = f.max;
            }
        }
        return row;
    });
    const out = [sectionOf('GPUs', flat, [['gpu', 'GPU'], ['name', 'Name']], [['utilization_ratio_mean', 'Busy', 'percent'], ['utilization_ratio_max', 'Most', 'percent'],
        ['memory_used_bytes_max', 'Memory, most', 'bytes'], ['total', 'Of', 'bytes'], ['power_watts_mean', 'Watts', 'count'], ['energy', 'Joules', 'count'],
        ['temperature_celsius_max', '°C, most', 'count'], ['throttled_power_ratio_mean', 'Lowered by power', 'percent'], ['throttled_thermal_ratio_mean', 'By heat', 'percent']], false)];
    if (processes.length) {
        out.push(sectionOf('Processes on GPUs', processes.map((p): Row => ({ ...p, gpu: textOf(p['gpu']) })), [['program', 'Program'], ['gpu', 'GPU']],
            [['memory_max_bytes', 'Memory, most', 'bytes'], ['utilization_ratio', 'Busy', 'percent']], false));
    }
    return out;
}

export function sectionsOf(r: Report): Section[] {
    const out: Section[] = [];
    for (const [key, title, names, wanted] of LISTS) {
        const rows = rowsOf(r[key]);
        if (rows.length) out.push(sectionOf(title, rows, names, wanted));
    }
    if (r.ml) out.push(...mlSections(r.ml));
    if (r.system?.processes.length) out.push(systemSection(r.system.processes));
    if (r.gpus?.list.length) out.push(...gpuSections(r.gpus.list, r.gpus.processes));
    return out;
}

// The summary, as far as something is known.
export function factsOf(r: Report): Fact[] {
    const s = r.summary ?? {};
    const facts: Fact[] = [];
    const add = (name: string, v: unknown, show: (v: number) => string) => {
        if (typeof v === 'number') facts.push({ name, value: show(v) });
    };
    if (r.program) facts.push({ name: 'Program', value: r.program, note: r.host });
    add('Time', s['duration_seconds'], seconds);
    add('Operations', s['operations'], count);
    add('Operations per second', s['operations_per_second'], count);
    add('Failed', s['error_ratio'], percent);
    const slowest = s['slowest_operation'] as Row | null | undefined;
    if (slowest) facts.push({ name: 'Slowest operation', value: textOf(slowest['operation']), note: `p95 ${seconds(numberOf(slowest['p95_s']))}` });
    add('Cache hits', s['cache_efficiency'], percent);
    add('Bytes per second', s['bytes_per_second'], bytes);
    add('Requests', s['requests'], count);
    add('Tokens per second', s['tokens_per_second'], count);
    add('First token, p95', s['ttft_p95_s'], seconds);
    add('CPU of the machine', s['cpu_percent'], (v) => percent(v / 100));
    add('Memory of the machine', s['memory_percent'], (v) => percent(v / 100));
    const top = s['top_function'] as Row | null | undefined;
    if (top) facts.push({ name: 'Hot spot', value: textOf(top['name']), note: percent(numberOf(top['share'])) });
    return facts;
}

export function advice(r: Report): { severity: string; message: string; details: string }[] {
    return (r.recommendations ?? []).filter((a) => a.severity !== 'info');
}
