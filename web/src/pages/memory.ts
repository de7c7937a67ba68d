// What memory is used for: by kind and pool beside what is resident, which places grow and whether
// that is a leak, and the flame graph of what is in use, was at the peak, leaks or was allocated.

import { apiAt, sentence } from '../core/api';
import { button, clear, keepFocus, make } from '../core/dom';
import { bytes, clock, count, rate, seconds, span } from '../core/format';
import { isFrozen, mayHave } from '../core/frozen';
import { addTerms } from '../core/glossary';
import { Page } from '../core/page';
import { empty, failed, loading } from '../core/states';
import { state } from '../core/state';
import { explain } from '../core/tip';
import { Processes } from '../core/types';
import { FLAME_KEYS } from '../elements/flamegraph/state';
import { EngineCards } from './engine';
import { FlamePanel, chips, exporter } from './flame_panel';
import { List, card, chart, follow, grid } from './kit';

interface Amount { value: number; low: number; high: number }
interface Place { function?: string; name?: string; file?: string; line?: number; module?: string }
export interface Site {
    verdict: string;
    bytes_per_second: Amount | null;
    in_use_bytes: Amount;
    in_use_count: Amount;
    allocated_bytes: Amount;
    grown_bytes: Amount | number | null;
    peak_bytes: number;
    lifetime_s: number | null;
    frames: (Place | string)[];
}
interface Pool { name: string; told_by: string; bytes: number; rss_bytes: number | null }
interface MemoryReport {
    program: string;
    memory: {
        mode: string;
        mean_bytes: number;
        seconds: number;
        in_use_bytes: Amount;
        allocated_bytes_per_second: number;
        peak_bytes: number;
        rss_bytes: number | null;
        mark_time: number | null;
        mark_automatic: boolean;
        leaks: number;
        leaks_bytes_per_second: number;
        sites_total: number;
        sites: Site[];
        pools: Pool[];
    } | null;
}

addTerms({
    heap_live: { title: 'Heap in use', what: 'Bytes that the program has allocated and not freed.',
        how: 'Counted in the program by the preloaded library; exact, not sampled.' },
    heap_pools: { title: 'Memory pools', what: 'Memory that the program hands out itself, by the names it gave its pools.',
        how: 'Reported by the program with sonde_pool().' },
    heap_allocator: { title: 'Allocator', what: 'What the allocator holds: used, free, mapped directly, and what it could give back.',
        how: 'Read from glibc; other allocators do not tell.' },
    heap_verdict: { title: 'Verdict', what: 'Leak: grows and does not slow down. Cache filling: grows ever more slowly. Stable: does not grow.',
        how: 'From the growth of each place over the second half of the time after warm-up, tested against what the curve does anyway.' },
});

const VERDICTS: Record<string, string> = { leak: 'bad', 'cache filling': 'warn', stable: 'good', shrinking: 'good' };
const STANDING = ['live', 'peak', 'leaked', 'temporary'];
const ALL_REQUESTS = { model: null, route: null, phase: null, thread: null, span: null, request: null, slowest: null, metric: null, min: null, max: null };

function placeOf(f: Place | string | undefined): { name: string; where: string } {
    if (f === undefined) return { name: 'unknown', where: '' };
    if (typeof f === 'string') return { name: f, where: '' };
    const where = f.file ? `${f.file.slice(f.file.lastIndexOf('/') + 1)}${f.line ? `:${f.line}` : ''}` : f.module ?? '';
    return { name: f.function ?? f.name ?? 'unknown', where };
}

/** A value with what the estimate leaves open. */
function estimate(a: Amount | null, text: (v: number) => string): HTMLElement {
    if (!a) return make('span', {}, '–');
    const exact = a.low === a.high;
    return make('span', { title: exact ? 'exact' : `between ${text(a.low)} and ${text(a.high)}, 95 % interval` }, exact ? text(a.value) : `≈ ${text(a.value)}`);
}

function siteList(): List<Site> {
    return new List<Site>('Growth by place', (s) => JSON.stringify(s.frames), [
        { title: 'Verdict', cell: (s) => make('span', { class: `badge ${VERDICTS[s.verdict] ?? ''}` }, s.verdict) },
        { title: 'Growth', number: true, hint: 'bytes per second', cell: (s) => estimate(s.bytes_per_second, (v) => rate(v, 'bytes')) },
        { title: 'In use', number: true, cell: (s) => estimate(s.in_use_bytes, bytes) },
        { title: 'Allocated', number: true, cell: (s) => estimate(s.allocated_bytes, bytes) },
        { title: 'Lives', number: true, hint: 'mean time until it is freed', cell: (s) => seconds(s.lifetime_s) },
        { title: 'Where', cell: (s) => {
            const first = placeOf(s.frames[0]);
            const by = s.frames.slice(1, 4).map((f) => placeOf(f).name);
            return make('div', { class: 'where' },
                make('a', { href: state.link('memory', { type: s.verdict === 'leak' ? 'leaked' : 'live', search: first.name }) }, make('b', { class: 'mono' }, first.name)),
                first.where ? make('span', { class: 'faint' }, first.where) : null,
                by.length ? make('div', { class: 'faint mono' }, `← ${by.join(' ← ')}`) : null);
        } },
    ]);
}

const NO_HEAP = () => empty('No heap is profiled',
    'Heaps are profiled in programs that `sonde run` starts; in what those start in turn, from the first allocations on that are enough for a sample.',
    'sonde run -- COMMAND');

class Growth {
    readonly element = card('Growth by place', {});
    private readonly body = make('div');
    private readonly list = siteList();
    private readonly pools = new List<Pool>('Pools', (p) => `${p.name} ${p.told_by}`, [
        { title: 'Pool', cell: (p) => make('span', { class: 'mono' }, p.name) },
        { title: 'Known from', cell: (p) => p.told_by },
        { title: 'Size', number: true, cell: (p) => bytes(p.bytes) },
        { title: 'Resident', number: true, cell: (p) => bytes(p.rss_bytes) },
    ]);
    private readonly said = make('span', { class: 'soft', role: 'status' });
    private readonly choice = make('select', { 'aria-label': 'Process whose heap is shown', hidden: true });

    constructor(private readonly changed: () => void) {
        const head = this.element.querySelector('header')!;
        const title = head.querySelector('h2')!;
        title.tabIndex = 0;
        explain(title, 'heap_verdict');
        if (!isFrozen()) {
            head.append(make('span', { class: 'right' }, this.said, this.choice,
                button('Look again', 'What the heap holds now', () => void this.load()),
                button('Mark', 'Warm-up is over: growth counts from now on', () => void this.mark())));
        }
        this.choice.addEventListener('change', () => void this.load());
        this.element.append(this.body);
        void this.load();
    }

    async load(): Promise<void> {
        if (!this.body.childElementCount) clear(this.body, loading('Looking at the heap'));
        try {
            const pid = await this.pid();
            if (pid === null) clear(this.body, NO_HEAP());
            else this.show(await apiAt('').post<MemoryReport>('/admin/profile/memory', undefined, { keep: '0', limit: 30, pid }));
        } catch (e) {
            clear(this.body, failed(e, () => void this.load()));
        }
    }

    /** A report is about one heap: of those of the processes that are shown the one that was chosen,
     *  else the largest; null: none is profiled. */
    private async pid(): Promise<string | null> {
        const { processes } = await apiAt('').get<Processes>('/api/processes');
        const heaps = processes.filter((p) => p.heap_bytes !== null
            && (!state.get('process') || p.program === state.get('process')) && (!state.get('pid') || String(p.pid) === state.get('pid')));
        heaps.sort((a, b) => b.heap_bytes! - a.heap_bytes! || (b.rss_bytes ?? 0) - (a.rss_bytes ?? 0));
        const chosen = heaps.find((p) => String(p.pid) === this.choice.value) ?? heaps[0];
        clear(this.choice, ...heaps.map((p) => make('option', { value: p.pid, selected: p === chosen }, `${p.program} (${p.pid})`)));
        this.choice.hidden = heaps.length < 2;
        return chosen ? String(chosen.pid) : null;
    }

    private show(r: MemoryReport): void {
        const m = r.memory;
        if (!m) {
            clear(this.body, NO_HEAP());
            return;
        }
        const verdict = m.leaks ? `${count(m.leaks)} place${m.leaks === 1 ? ' leaks' : 's leak'}, ${rate(m.leaks_bytes_per_second, 'bytes')} together.` : 'No place leaks.';
        const facts = [`${r.program}: ${bytes(m.in_use_bytes.value)} in use, ${bytes(m.peak_bytes)} at the peak, ${rate(m.allocated_bytes_per_second, 'bytes')} allocated`,
            m.mode === 'full' ? 'every allocation is counted' : `one allocation in ${bytes(m.mean_bytes)} is looked at`,
            `watched for ${span(m.seconds)}`,
            m.mark_time ? `growth counts from ${clock(m.mark_time)}${m.mark_automatic ? ', when warm-up seemed to be over' : ', the mark'}` : ''];
        this.list.show(m.sites);
        this.pools.show(m.pools.slice(0, 12));
        keepFocus(this.body, () => clear(this.body,
            make('p', { class: 'verdict', 'data-leaks': m.leaks }, make('b', {}, verdict), ' ', make('span', { class: 'soft' }, facts.filter(Boolean).join(' · '))),
            m.sites.length ? this.list.element
                : empty('No allocations were sampled yet', m.mode === 'full' ? 'The program has not allocated anything.'
                    : `The program has allocated too little for samples of one in ${bytes(m.mean_bytes)}.`, m.mode === 'full' ? '' : 'sonde run --heap=full -- COMMAND'),
            m.sites_total > m.sites.length ? make('p', { class: 'soft' }, `The first ${count(m.sites.length)} of ${count(m.sites_total)} places.`) : null,
            m.pools.length ? make('details', {}, make('summary', {}, `Mappings and pools, ${bytes(m.rss_bytes)} resident`), this.pools.element) : null));
    }

    private async mark(): Promise<void> {
        try {
            const a = await apiAt('').post<{ marked: number }>('/admin/profile/mark', undefined, { pid: await this.pid() });
            this.said.textContent = `Marked ${count(a.marked)} heap${a.marked === 1 ? '' : 's'}.`;
            await this.load();
            this.changed();
        } catch (e) {
            this.said.textContent = sentence(e);
        }
    }
}

function charts(): HTMLElement {
    return grid(
        chart({ heading: 'Memory by kind', name: 'sonde_infer_memory_bytes', group: 'kind', stack: true, unit: 'bytes', metric: 'memory_kinds',
            empty: 'Engines that report inference say what weights, KV cache and buffers take.' }),
        chart({ heading: 'Resident memory', name: 'sonde_process_resident_memory_bytes', group: 'process', unit: 'bytes', zero: 'no', metric: 'rss' }),
        chart({ heading: 'Heap in use', name: 'sonde_heap_live_bytes', group: 'process', unit: 'bytes', metric: 'heap_live',
            empty: 'Heaps are profiled in programs that `sonde run` starts.' }),
        chart({ heading: 'Allocation rate', name: 'sonde_heap_allocated_bytes_total', group: 'process', unit: 'bytes/s', metric: 'allocation_rate',
            empty: 'Heaps are profiled in programs that `sonde run` starts.' }),
        chart({ heading: 'Pools', name: 'sonde_memory_pool_bytes', group: 'pool', stack: true, unit: 'bytes', metric: 'heap_pools',
            empty: 'The program names no pools: see sonde_pool() in sonde.h.' }),
        chart({ heading: 'Allocator', name: 'sonde_heap_allocator_bytes', group: 'state', unit: 'bytes', metric: 'heap_allocator',
            empty: 'Heaps are profiled in programs that `sonde run` starts.' }));
}

export const page: Page = {
    id: 'memory',
    title: 'Memory',
    icon: 'M5 7h14v10H5zM9 17v3M15 17v3M9 4v3M15 4v3M9 11h2M13 11h2',
    keys: FLAME_KEYS,
    render(root) {
        const ends: (() => void)[] = [];
        const type = () => state.get('type') ?? 'live';
        // Of a range that moves: heaps as they are now, which no model or route has a part of its own in.
        // Of one that is past: as they were kept then.
        const panel = new FlamePanel(() => ({
            type: type(), ...(state.range().live && STANDING.includes(type()) && !state.get('profile') ? { live: '1', ...ALL_REQUESTS } : { live: null }),
        }));
        const growth = new Growth(() => panel.graph.refresh());
        const tools = make('div', { class: 'fields card' }, kinds(ends), make('div', { class: 'field right' }, exporter(() => {
            const r = state.range();
            return { path: '/api/profile', params: { from: r.from, to: r.to, process: state.get('process'), pid: state.get('pid'), type: type() }, name: type() };
        })), chips(ends));
        const curves = charts();
        const pools = new EngineCards('pools');
        curves.hidden = !mayHave('/api/query');
        growth.element.hidden = isFrozen(); // an agent looks at heaps for it
        root.append(make('div', { class: 'stack' }, curves, pools.element, growth.element, tools, panel.element));
        const follows = follow(root);
        ends.push(state.on(['process', 'pid'], () => void growth.load()));
        return () => {
            follows.end();
            panel.end();
            pools.end();
            for (const f of ends) f();
        };
    },
};

const KINDS: readonly (readonly [string, string, string])[] = [
    ['live', 'In use', 'allocated and not freed'], ['peak', 'Peak', 'in use when the most was'], ['leaked', 'Leaked', 'of places that leak, or grown since the mark'],
    ['alloc', 'Allocated', 'freed since or not, in this range'], ['temporary', 'Temporary', "freed before the thread's next allocation"],
];

function kinds(ends: (() => void)[]): HTMLElement {
    const all = KINDS.map(([kind, name, hint]) => button(name, hint, () => state.set({ type: kind === 'live' ? null : kind, focus: null }), { 'data-kind': kind }));
    const show = () => {
        for (const b of all) b.setAttribute('aria-pressed', String(b.dataset['kind'] === (state.get('type') ?? 'live')));
    };
    ends.push(state.on(['type'], show));
    show();
    return make('div', { class: 'field', role: 'group', 'aria-label': 'Memory that is shown' }, make('span', {}, 'Memory'), make('span', { class: 'pair' }, ...all));
}

