// The overview: is it healthy, how fast, where do time and memory go, since when. It adapts to what
// is watched: an inference engine, or any program with series of its own.

import { Api, apiAt } from '../core/api';
import { Handle, boardOf } from '../core/board';
import { clear, make, makeCustom } from '../core/dom';
import { bytes, count, percent, seconds, span } from '../core/format';
import { isFrozen } from '../core/frozen';
import { addTerms } from '../core/glossary';
import { now } from '../core/now';
import { Page } from '../core/page';
import { empty, failed } from '../core/states';
import { state } from '../core/state';
import { live } from '../core/stream';
import { Family, Health, Inference, Process, Processes, SeriesAnswer } from '../core/types';
import { Tile } from '../elements/tile';
import { CostLine } from './cost_line';
import { TILES, TileSpec } from './dashboard_tiles';
import { Figures, verdictOf } from './figures';
import { Following, List, card, chart, follow, grid, heading, pageLink, rangeText } from './kit';

const HEALTH_MS = 5000;
const FAMILIES_MS = 30000;
const OWN_MAX = 12;

// Series that the program itself defined, in the order in which a person wants them.
export function ownFamilies(families: readonly Family[]): Family[] {
    const theirs = families.filter((f) => !/^(sonde_|system_|gen_ai_|process_|llamacpp:)/.test(f.name)
        && !['host', 'process', 'inference', 'sonde'].includes(f.source));
    const rank = (f: Family) => f.type === 'histogram' ? 0 : f.type === 'counter' ? 1 : 2;
    return theirs.sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
}

function ownChart(f: Family): HTMLElement {
    const metric = `series:${f.name}`;
    addTerms({ [metric]: { title: f.name, what: f.help || 'Defined by the program, without a description.', how: `A ${f.type} of the program.` } });
    const unit = f.unit || (/_seconds$/.test(f.name) ? 'seconds' : /_bytes$/.test(f.name) ? 'bytes' : '');
    const many = f.series.length > 1;
    return chart({
        heading: f.name, name: f.name, metric, most: 8, each: many || undefined,
        stat: f.type === 'histogram' ? 'p50 p95 p99' : undefined,
        unit: f.type === 'histogram' || f.type === 'gauge' ? unit : undefined,
    });
}

class Dashboard {
    private readonly api: Api = apiAt('');
    private readonly banner = make('div', { class: 'banner', role: 'status' }, make('i'), make('b', {}, 'Loading'));
    private readonly tiles = make('div', { class: 'tiles' });
    private readonly charts = make('div', { class: 'stack' });
    private readonly costs = make('div', { class: 'tiles few' });
    private readonly list = processList();
    private readonly own = make('div', { class: 'stack' });
    private readonly made = new Map<TileSpec, Tile>();
    private readonly ends: (() => void)[] = [];
    private readonly following: Following;
    private handles: Handle[] = [];
    private figures: Figures | null = null;
    private inference: Inference | null = null;
    private processes: Processes | null = null;
    private health: Health | null = null;
    private healthShown = '';
    private kind: '' | 'inference' | 'program' = '';
    private ownShown = '';
    private drawing = 0;

    constructor(root: HTMLElement) {
        const cost = new CostLine();
        const findings = makeCustom('sonde-findings', { limit: 5, severity: 'warning', active: true });
        const stack = make('div', { class: 'stack' }, this.banner, this.tiles, this.charts, this.own,
            make('div', { class: 'grid' },
                withLink(card('Latest findings', {}, findings), 'findings', 'All findings'),
                withLink(card('Processes', {}, this.list.element), 'system', 'System')),
            heading('What sonde itself costs'), cost.element, this.costs);
        root.append(stack);
        this.following = follow(stack);
        this.ends.push(() => this.following.end(), cost.end);
        this.ends.push(state.on(['range', 'base', 'process', 'pid', 'model', 'route'], () => this.load()));
        void this.start();
    }

    end(): void {
        for (const f of this.ends) f();
        for (const h of this.handles) h.close();
        cancelAnimationFrame(this.drawing);
    }

    private every(ms: number, f: () => Promise<void>): void {
        let open = true;
        let timer = 0;
        const round = async () => {
            if (!document.hidden) await f();
            if (open && !isFrozen()) timer = window.setTimeout(() => void round(), ms);
        };
        void round();
        this.ends.push(() => {
            open = false;
            window.clearTimeout(timer);
        });
    }

    private async start(): Promise<void> {
        this.every(HEALTH_MS, () => this.loadHealth());
        try {
            const [inference, processes] = await Promise.all([
                this.api.get<Inference>('/api/inference'), this.api.get<Processes>('/api/processes'),
            ]);
            this.inference = inference;
            this.processes = processes;
        } catch (e) {
            clear(this.charts, failed(e, () => void this.start()));
            return;
        }
        this.build();
        const stream = live(this.api, { events: ['inference', 'processes'] }, {
            inference: (i) => {
                this.inference = i;
                this.build();
                this.draw();
            },
            processes: (p) => {
                this.processes = p;
                this.draw();
            },
        });
        this.ends.push(() => stream.close());
        this.every(FAMILIES_MS, () => this.loadOwn());
    }

    // What is watched decides what is shown.
    private build(): void {
        const kind = this.inference && (this.inference.models.length || this.inference.groups.length) ? 'inference' : 'program';
        if (kind === this.kind) return;
        this.kind = kind;
        this.made.clear();
        this.tiles.replaceChildren();
        this.tiles.classList.toggle('few', kind === 'program');
        this.costs.replaceChildren();
        for (const spec of TILES) {
            if (spec.for !== 'all' && spec.for !== kind && spec.for !== 'sonde') continue;
            const tile = makeCustom('sonde-tile', {
                label: spec.label, metric: spec.metric, class: spec.wide ? 'wide' : null, href: state.link(spec.page),
            }) as Tile;
            this.made.set(spec, tile);
            (spec.for === 'sonde' ? this.costs : this.tiles).append(tile);
        }
        clear(this.charts, ...(kind === 'inference' ? inferenceCharts() : programCharts()));
        this.following.apply(this.charts);
        const map = this.charts.querySelector('sonde-heatmap');
        map?.addEventListener('sonde-cells', (e) => this.cells((e as CustomEvent).detail as Cells | null));
        this.load();
    }

    // Cells of the heat map are requests: show those.
    private cells(c: Cells | null): void {
        if (!c) return;
        state.go('requests', state.queryFor({ metric: c.metric, cells: `${c.from}..${c.to}:${c.min}..${c.max}` }));
    }

    private load(): void {
        const before = this.handles;
        const specs = [...this.made.keys()];
        const names = (of: (s: TileSpec) => readonly string[]) => [...new Set(specs.flatMap((s) => [...of(s)]))];
        const board = boardOf(this.api, rangeText());
        const changed = () => this.draw();
        const values = board.use({ names: names((s) => s.values) }, ['value'], changed);
        this.handles = [values];
        const histograms = names((s) => s.percentiles ?? []);
        if (histograms.length) this.handles.push(board.use({ names: histograms }, ['p50', 'p95', 'p99'], changed));
        const handles = this.handles;
        this.figures = new Figures(board, () => handles.flatMap((h) => h.tracks()), {
            process: state.get('process'), pid: state.get('pid'), model: state.get('model'), route: state.get('route'),
        });
        for (const [spec, tile] of this.made) tile.setAttribute('href', state.link(spec.page));
        for (const h of before) h.close();
    }

    private draw(): void {
        if (this.drawing) return;
        this.drawing = requestAnimationFrame(() => {
            this.drawing = 0;
            const f = this.figures;
            if (!f || !this.handles.every((h) => h.loaded())) return;
            f.inference = this.inference;
            for (const [spec, tile] of this.made) spec.show(tile, f);
            this.list.show(shownProcesses(this.processes, state.get('process')));
            this.showHealth();
        });
    }

    private async loadHealth(): Promise<void> {
        try {
            this.health = await this.api.get<Health>('/health');
            this.showHealth();
        } catch (e) {
            this.health = null;
            this.healthShown = '';
            this.banner.dataset['status'] = 'unknown';
            clear(this.banner, make('i'), make('b', {}, 'Health unknown'), make('span', { class: 'soft' }, (e as Error).message));
        }
    }

    // Of now, whatever range is chosen.
    private showHealth(): void {
        const h = this.health;
        if (!h) return;
        const past = !isFrozen() && !state.range().live;
        const words: Record<string, string> = { ok: 'Healthy', degraded: 'Degraded', failing: 'Failing' };
        const { status, reasons } = verdictOf(h, past ? null : this.figures?.goodput() ?? null);
        const word = `${words[status] ?? status}${past ? ' now' : ''}`;
        const running = this.processes?.processes.filter((p) => p.state === 'running') ?? [];
        const facts: string[] = [];
        if (h.latency.p95_s !== null) facts.push(`p95 ${seconds(h.latency.p95_s)}`);
        if (h.memory.used_ratio !== null) facts.push(`machine memory ${percent(h.memory.used_ratio)}`);
        if (running.length) facts.push(running.length === 1 ? running[0].program : `${running.length} processes`);
        const since = this.inference?.totals.since;
        if (since && this.kind === 'inference') facts.push(`counting for ${span(now() - since)}`);
        const key = JSON.stringify([word, reasons, facts]);
        if (key === this.healthShown) return; // it would be read out again
        this.healthShown = key;
        this.banner.dataset['status'] = status;
        clear(this.banner, make('i'), make('b', {}, word),
            reasons.length ? make('ul', {}, ...reasons.map((r) => make('li', {}, r))) : null,
            make('span', { class: 'facts', title: `Figures of the last ${h.window_s} s` }, facts.join(' · ')));
    }

    private async loadOwn(): Promise<void> {
        let own: Family[];
        try {
            own = ownFamilies((await this.api.get<SeriesAnswer>('/api/series')).families);
        } catch {
            return; // the banner says what is wrong
        }
        const shown = own.slice(0, OWN_MAX);
        const watched = (this.processes?.processes.length ?? 0) > 0;
        const key = shown.map((f) => f.name + String(f.series.length > 1)).join() || `nothing ${watched}`;
        if (key === this.ownShown) return;
        this.ownShown = key;
        if (!shown.length) {
            clear(this.own, this.kind === 'program' ? watched ? noSeries() : noProgram() : null);
            return;
        }
        const more = own.length - shown.length;
        clear(this.own, heading(this.kind === 'inference' ? 'Other series of the program' : 'What the program reports',
            more > 0 ? make('span', { class: 'soft' }, `${more} more are on the page History`) : null),
        grid(...shown.map((f) => ownChart(f))));
        this.following.apply(this.own);
    }
}

const noSeries = () => empty('The program reports no series of its own',
    'Count, time and measure what matters to it with libsonde (docs: sonde.h), scrape its exporter, or send OTLP.',
    'sonde run --scrape http://127.0.0.1:9100 -- ./program');
const noProgram = () => empty('Nothing is watched yet', 'Start a program under sonde, or attach to one that runs.', 'sonde run -- ./program\nsonde attach PID');

interface Cells { from: number; to: number; min: number; max: number; metric: string }

function withLink(c: HTMLElement, page: string, text: string): HTMLElement {
    c.querySelector('header')!.append(pageLink(text, page));
    return c;
}

function inferenceCharts(): HTMLElement[] {
    return [
        make('h2', { class: 'sr' }, 'Latency'),
        make('div', { class: 'card' }, makeCustom('sonde-heatmap', { metric: 'ttft', 'data-follow': true, height: 190 })),
        grid(
            chart({ heading: 'Time to first token', name: 'gen_ai_server_time_to_first_token_seconds', stat: 'p50 p95 p99', metric: 'ttft' }),
            chart({ heading: 'Time between tokens', name: 'sonde_infer_inter_token_seconds', stat: 'p50 p95 p99', metric: 'itl' }),
            chart({ heading: 'Decode', name: 'sonde_infer_tokens_per_second', label: 'type:decode', color: 'q-decode', unit: 'tokens/s', metric: 'decode_rate' }),
            chart({ heading: 'Prefill', name: 'sonde_infer_tokens_per_second', label: 'type:prefill', color: 'q-prefill', unit: 'tokens/s', metric: 'prefill_rate' }),
            chart({
                heading: 'Running and waiting', name: 'sonde_infer_requests_running sonde_infer_requests_waiting', stack: true, whole: true,
                names: 'sonde_infer_requests_running=running;sonde_infer_requests_waiting=waiting', unit: '', metric: 'concurrency',
            }),
            chart({ heading: 'Requests ended', name: 'sonde_infer_requests_total', group: 'outcome', stack: true, unit: '/s', metric: 'requests_rate' }),
            chart({ heading: 'CPU by process', name: 'sonde_process_cpu_utilization_ratio', group: 'process', unit: 'cores', metric: 'cpu' }),
            chart({ heading: 'Resident memory', name: 'sonde_process_resident_memory_bytes', group: 'process', unit: 'bytes', zero: 'no', metric: 'rss' }),
            chart({ heading: 'Memory by kind', name: 'sonde_infer_memory_bytes', group: 'kind', stack: true, unit: 'bytes', metric: 'memory_kinds' }),
        ),
    ];
}

function programCharts(): HTMLElement[] {
    return [
        make('h2', { class: 'sr' }, 'Resources'),
        grid(
            chart({ heading: 'CPU by process', name: 'sonde_process_cpu_utilization_ratio', group: 'process', unit: 'cores', metric: 'cpu' }),
            chart({ heading: 'Resident memory', name: 'sonde_process_resident_memory_bytes', group: 'process', unit: 'bytes', zero: 'no', metric: 'rss' }),
            chart({ heading: 'Spans', name: 'sonde_span_duration_seconds', stat: 'p95', each: true, unit: 'seconds', metric: 'spans', empty: 'The program records no spans.' }),
            chart({ heading: 'Allocation rate', name: 'sonde_heap_allocated_bytes_total', group: 'process', unit: 'bytes/s', metric: 'allocation_rate', empty: 'Heaps are profiled in programs that `sonde run` starts.' }),
        ),
    ];
}

function processList(): List<Process> {
    return new List<Process>('Processes', (p) => `${p.pid} ${p.program}`, [
        { title: 'Program', cell: (p) => make('a', { href: state.link('system', { process: p.program }) }, p.program) },
        { title: 'PID', number: true, cell: (p) => String(p.pid) },
        { title: 'CPU', number: true, cell: (p) => p.state === 'running' ? percent(p.cpu_ratio) : p.state, hint: 'of one core' },
        { title: 'Memory', number: true, cell: (p) => bytes(p.rss_bytes) },
        { title: 'Threads', number: true, cell: (p) => count(p.threads) },
        { title: 'Series', number: true, cell: (p) => count(p.series) },
    ]);
}

function shownProcesses(p: Processes | null, filter: string | null): Process[] {
    return (p?.processes ?? []).filter((x) => !filter || x.program === filter)
        .sort((a, b) => (b.cpu_ratio ?? -1) - (a.cpu_ratio ?? -1)).slice(0, 12);
}

export const page: Page = {
    id: 'dashboard',
    title: 'Overview',
    icon: 'M4 13h6V4H4zM14 20h6V11h-6zM4 20h6v-3H4zM14 7h6V4h-6z',
    keys: [],
    render(root) {
        const d = new Dashboard(root);
        return () => d.end();
    },
};
