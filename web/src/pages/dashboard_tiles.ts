// The tiles of the overview, one row each: what it is called, which series its curve needs, and what
// it says.

import { bytes, count, digits, percent, rate, seconds } from '../core/format';
import { Tile } from '../elements/tile';
import { Figures, goodputStatus, groupsOf, modelsOf, slowest, sumOf } from './figures';

export interface TileSpec {
    label: string;
    metric: string;
    page: string;
    for: 'inference' | 'program' | 'all' | 'sonde';
    values: readonly string[];       // series whose value is needed
    percentiles?: readonly string[]; // histograms
    wide?: boolean;
    show(tile: Tile, f: Figures): void;
}

const TTFT = 'gen_ai_server_time_to_first_token_seconds';
const ITL = 'sonde_infer_inter_token_seconds';

function tokens(tile: Tile, f: Figures, kind: 'prefill' | 'decode'): void {
    const labels = [['type', kind]] as const;
    const live = f.board.isLive && f.inference
        ? sumOf(modelsOf(f.inference, f.filters), (m) => kind === 'prefill' ? m.prefill_tokens_per_s : m.decode_tokens_per_s)
        : f.mean('sonde_infer_tokens_per_second', { labels });
    tile.value = rate(live, 'tokens');
    tile.spark = [{ values: f.spark('sonde_infer_tokens_per_second', { labels }), color: `q-${kind}` }];
    if (!f.board.isLive) tile.note = 'mean of the range';
    else if (kind === 'decode') {
        const slow = f.inference ? slowestUser(f) : null;
        tile.note = slow === null ? '' : `each user ${rate(slow)} (p50)`;
    } else {
        const hit = f.inference ? f.inference.totals.hit_ratio : null;
        tile.note = hit === null ? '' : `${percent(hit)} of prompts reused`;
    }
}

function slowestUser(f: Figures): number | null {
    let least: number | null = null;
    for (const g of groupsOf(f.inference!, f.filters)) {
        const p = g.user_tokens_per_s;
        const v = p?.count ? p.p50 : null;
        if (v !== null && (least === null || v < least)) least = v;
    }
    return least;
}

function latency(tile: Tile, f: Figures, name: string, which: 'ttft' | 'itl'): void {
    let p: { p50: number | null; p95?: number | null; p99?: number | null } | null;
    let note: string;
    if (f.board.isLive && f.inference) {
        const groups = groupsOf(f.inference, f.filters);
        const s = slowest(groups, (g) => g[which]);
        p = s?.p ?? null;
        const busy = groups.filter((g) => g[which]?.count).length;
        note = !s ? 'no request in the last minute'
            : busy > 1 ? `last ${f.inference.window_s} s, the slowest of ${busy}: ${s.of.model} ${s.of.route}`
                : `last ${f.inference.window_s} s, ${count(s.p.count)} ${which === 'ttft' ? 'requests' : 'tokens'}`;
    } else {
        const r = f.range(name);
        p = r;
        note = r ? `${r.series > 1 ? `slowest of ${r.series} series` : 'in this range'}, ${count(r.count)} ${which === 'ttft' ? 'requests' : 'tokens'}`
            : 'none in this range';
    }
    tile.parts = [
        { name: 'p50', text: seconds(p?.p50) }, { name: 'p95', text: seconds(p?.p95) }, { name: 'p99', text: seconds(p?.p99) },
    ];
    tile.note = note;
    tile.spark = [
        { values: f.spark(name, { stat: 'p95', aggregate: 'max' }), color: 'p95' },
        { values: f.spark(name, { stat: 'p50', aggregate: 'max' }), color: 'p50' },
    ];
}

function objectives(f: Figures): string {
    const slo = f.inference?.slo;
    if (!slo) return '';
    const parts: string[] = [];
    if (slo.ttft_s !== null) parts.push(`first token ≤ ${seconds(slo.ttft_s)}`);
    if (slo.itl_s !== null) parts.push(`between ≤ ${seconds(slo.itl_s)}`);
    if (slo.total_s !== null) parts.push(`all ≤ ${seconds(slo.total_s)}`);
    return parts.join(', ');
}

function goodputCurve(f: Figures): (number | null)[] {
    const met = f.curve('sonde_infer_slo_requests_total', { labels: [['result', 'met']] });
    const missed = f.curve('sonde_infer_slo_requests_total', { labels: [['result', 'missed']] });
    return met.map((m, i) => {
        const all = (m ?? 0) + (missed[i] ?? 0);
        return all > 0 ? (m ?? 0) / all : null;
    });
}

// Values of tiles are means of a fixed range; what a note lists is what there was at the end.
function endText(f: Figures, text: string): string {
    return text && !f.board.isLive ? `at the end: ${text}` : text;
}

function kvCells(f: Figures): string {
    const [used, all] = ['used', 'all'].map((is) => sumOf(f.atEnd('sonde_infer_kv_cells', [['state', is]]), (s) => s.value));
    return used === null || all === null ? '' : `${count(Math.round(used))} of ${count(Math.round(all))} cells`;
}

function processCount(f: Figures): string {
    const { size } = new Set(f.atEnd('sonde_process_resident_memory_bytes').map((s) => s.pid));
    return size === 1 ? 'one process' : `${size} processes`;
}

function memoryKinds(f: Figures): string {
    const kinds = new Map<string, number>();
    for (const { labels, value } of f.atEnd('sonde_infer_memory_bytes')) kinds.set(labels['kind'], (kinds.get(labels['kind']) ?? 0) + value);
    return [...kinds].sort((a, b) => b[1] - a[1]).map(([kind, v]) => `${kind} ${bytes(v)}`).join(' · ');
}

export const TILES: readonly TileSpec[] = [
    {
        label: 'Decode', metric: 'decode_rate', page: 'inference', for: 'inference', values: ['sonde_infer_tokens_per_second'],
        show: (t, f) => tokens(t, f, 'decode'),
    },
    {
        label: 'Prefill', metric: 'prefill_rate', page: 'inference', for: 'inference', values: ['sonde_infer_tokens_per_second'],
        show: (t, f) => tokens(t, f, 'prefill'),
    },
    {
        label: 'Time to first token', metric: 'ttft', page: 'requests', for: 'inference', wide: true, values: [], percentiles: [TTFT],
        show: (t, f) => latency(t, f, TTFT, 'ttft'),
    },
    {
        label: 'Time between tokens', metric: 'itl', page: 'requests', for: 'inference', wide: true, values: [], percentiles: [ITL],
        show: (t, f) => latency(t, f, ITL, 'itl'),
    },
    {
        label: 'Requests', metric: 'concurrency', page: 'requests', for: 'inference',
        values: ['sonde_infer_requests_running', 'sonde_infer_requests_waiting', 'sonde_infer_requests_total'],
        show(t, f) {
            const models = f.inference ? modelsOf(f.inference, f.filters) : [];
            const live = f.board.isLive;
            const running = live ? sumOf(models, (m) => m.running) : f.mean('sonde_infer_requests_running');
            const waiting = live ? sumOf(models, (m) => m.waiting) : f.mean('sonde_infer_requests_waiting');
            t.parts = [{ name: 'running', text: count(running) }, { name: 'waiting', text: count(waiting) }];
            t.note = `${rate(f.recent('sonde_infer_requests_total'))} ended`;
            t.spark = [
                { values: f.spark('sonde_infer_requests_running'), color: 's1' },
                { values: f.spark('sonde_infer_requests_waiting'), color: 's2' },
            ];
        },
    },
    {
        label: 'Goodput', metric: 'goodput', page: 'inference', for: 'inference', values: ['sonde_infer_slo_requests_total'],
        show(t, f) {
            const set = objectives(f);
            const curve = goodputCurve(f);
            const value = f.goodput();
            if (!set && value === null) {
                t.value = '–';
                t.note = 'no objectives: --set inference.slo_ttft_ms=500';
                t.spark = [];
                return;
            }
            t.value = percent(value);
            t.status = goodputStatus(value);
            t.note = set;
            t.spark = [{ values: curve, color: 's3' }];
        },
    },
    {
        label: 'KV cache', metric: 'kv', page: 'inference', for: 'inference',
        values: ['sonde_infer_kv_used_ratio', 'sonde_infer_kv_cells', 'sonde_infer_prefix_hit_ratio'],
        show(t, f) {
            const used = f.now('sonde_infer_kv_used_ratio', { aggregate: 'max' });
            const hit = f.now('sonde_infer_prefix_hit_ratio', { aggregate: 'avg' });
            t.parts = [{ name: 'in use', text: percent(used) }, { name: 'prefix hits', text: percent(hit) }];
            t.note = endText(f, kvCells(f));
            t.status = used !== null && used > 0.95 ? 'bad' : used !== null && used > 0.85 ? 'warn' : '';
            t.spark = [{ values: f.spark('sonde_infer_kv_used_ratio', { aggregate: 'max' }), color: 's7' }];
        },
    },
    {
        label: 'Failed requests', metric: 'errors', page: 'requests', for: 'inference', values: ['sonde_infer_requests_total'],
        show(t, f) {
            const bad = [['outcome', 'error|timeout|lost']] as const;
            const failed = f.recent('sonde_infer_requests_total', { labels: bad });
            const all = f.recent('sonde_infer_requests_total');
            const ratio = failed !== null && all ? failed / all : all === null ? null : 0;
            t.value = percent(ratio);
            const cancelled = f.recent('sonde_infer_requests_total', { labels: [['outcome', 'cancelled']] });
            t.note = `${rate(failed ?? 0)} failed, ${rate(cancelled ?? 0)} cancelled`;
            t.status = ratio ? ratio > 0.05 ? 'bad' : 'warn' : 'good';
            t.spark = [{ values: f.spark('sonde_infer_requests_total', { labels: bad }), color: 's8' }];
        },
    },
    {
        label: 'Memory', metric: 'rss', page: 'memory', for: 'all',
        values: ['sonde_process_resident_memory_bytes', 'sonde_infer_memory_bytes'],
        show(t, f) {
            t.value = bytes(f.now('sonde_process_resident_memory_bytes'));
            t.note = endText(f, memoryKinds(f) || processCount(f));
            t.spark = [{ values: f.spark('sonde_process_resident_memory_bytes'), color: 's7' }];
        },
    },
    {
        label: 'CPU', metric: 'cpu', page: 'cpu', for: 'all', values: ['sonde_process_cpu_utilization_ratio', 'sonde_host_cpu_utilization_ratio', 'sonde_host_cpus'],
        show(t, f) {
            const used = f.now('sonde_process_cpu_utilization_ratio');
            t.value = used === null ? '–' : `${digits(used)} cores`;
            const cpus = f.newest('sonde_host_cpus');
            t.note = `machine ${percent(f.now('sonde_host_cpu_utilization_ratio'))}${cpus ? ` of ${cpus}` : ''}`;
            t.spark = [{ values: f.spark('sonde_process_cpu_utilization_ratio'), color: 's1' }];
        },
    },
    {
        label: 'Heap', metric: 'heap', page: 'memory', for: 'program', values: ['sonde_heap_live_bytes', 'sonde_heap_allocated_bytes_total'],
        show(t, f) {
            t.value = bytes(f.now('sonde_heap_live_bytes'));
            t.note = `${rate(f.now('sonde_heap_allocated_bytes_total'), 'bytes')} allocated`;
            t.spark = [{ values: f.spark('sonde_heap_live_bytes'), color: 's3' }];
        },
    },
    {
        label: 'Threads', metric: 'threads', page: 'system', for: 'program', values: ['sonde_process_threads', 'sonde_process_context_switches_total'],
        show(t, f) {
            t.value = count(f.now('sonde_process_threads'));
            t.note = `${rate(f.now('sonde_process_context_switches_total'))} switches`;
            t.spark = [{ values: f.spark('sonde_process_threads'), color: 's2' }];
        },
    },
    {
        label: 'Agent CPU', metric: 'sonde_cpu', page: 'system', for: 'sonde', values: ['sonde_agent_cpu_seconds_total'],
        show(t, f) {
            t.value = percent(f.mean('sonde_agent_cpu_seconds_total'));
            t.note = 'of one core, mean of the range';
            t.spark = [{ values: f.spark('sonde_agent_cpu_seconds_total'), color: 'ink-faint' }];
        },
    },
    {
        label: 'Agent memory', metric: 'sonde_memory', page: 'system', for: 'sonde', values: ['sonde_agent_memory_bytes', 'sonde_agent_series'],
        show(t, f) {
            t.value = bytes(f.now('sonde_agent_memory_bytes'));
            t.note = `${count(f.newest('sonde_agent_series'))} series`;
            t.spark = [{ values: f.spark('sonde_agent_memory_bytes'), color: 'ink-faint' }];
        },
    },
    {
        label: 'Profiling, in the program', metric: 'sonde_target', page: 'cpu', for: 'sonde', values: ['sonde_continuous_target_cpu_ratio', 'sonde_continuous_enabled'],
        show(t, f) {
            const on = f.newest('sonde_continuous_enabled');
            t.value = on ? percent(f.now('sonde_continuous_target_cpu_ratio')) : 'off';
            t.note = on ? 'of the CPU time of what is sampled' : 'continuous profiling is off';
            t.spark = [{ values: f.spark('sonde_continuous_target_cpu_ratio'), color: 'ink-faint' }];
        },
    },
    {
        label: 'A reading takes', metric: 'sonde_tick', page: 'system', for: 'sonde', values: ['sonde_agent_tick_seconds'],
        show(t, f) {
            t.value = seconds(f.now('sonde_agent_tick_seconds'));
            t.note = 'once a second';
            t.spark = [{ values: f.spark('sonde_agent_tick_seconds'), color: 'ink-faint' }];
        },
    },
];
