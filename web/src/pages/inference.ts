// Inference: how fast, how long, where the time goes, for each model and route.

import { Api, apiAt, sentence } from '../core/api';
import { button, clear, make } from '../core/dom';
import { bytes, clock, count, percent, rate, seconds, span } from '../core/format';
import { isFrozen, mayHave } from '../core/frozen';
import { addTerms } from '../core/glossary';
import { now } from '../core/now';
import { Page } from '../core/page';
import { failed, loading } from '../core/states';
import { state } from '../core/state';
import { live } from '../core/stream';
import { Inference, InferenceGroup, InferenceModel } from '../core/types';
import { Tile } from '../elements/tile';
import { TILES, TileSpec } from './dashboard_tiles';
import { Filters, Figures, groupsOf, modelsOf, slowest } from './figures';
import { confirmed } from './confirm';
import { EngineCards } from './engine';
import { Following, card, chart, follow, grid, heading } from './kit';
import { endedOf, failedOf, goodputOf, sharedNames } from './inference_figures';
import { Facts, Table, TableColumn } from './table';
import { TileSet } from './tileset';

addTerms({
    infer_requests: {
        title: 'Requests',
        what: 'Requests that ended, whatever the outcome, since the totals began.',
    },
    infer_failed: {
        title: 'Failed',
        what: 'Requests that ended with an error, ran into a timeout, or whose end was not seen, since the totals began. Cancelled ones do not count.',
    },
    infer_request_rate: { title: 'Requests per second', what: 'Requests that ended, divided by the time since the totals began.' },
    infer_output_rate: { title: 'Output tokens per second', what: 'Tokens given out to clients, divided by the time since the totals began.' },
    infer_user_rate: {
        title: 'Tokens per second of a user',
        what: 'How fast the tokens of one answer come, after the first. Half of the requests of the last minute are slower than this.',
    },
    infer_source: {
        title: 'Source',
        what: 'How the requests are seen: api (the engine reports them), hook or probe (calls of llama.cpp), front (the proxy before a server).',
    },
    infer_backend: { title: 'Backend', what: 'What the model runs on, as the engine reports it.' },
    infer_load: { title: 'Load time', what: 'How long it took to load the model, the last time.', how: 'From the events with which the engine reports loading.' },
    infer_batches: { title: 'Batches', what: 'Forward passes since the agent started watching.' },
    infer_kv_cells: { title: 'KV cells', what: 'Cells of the key-value cache in use, in all, and the most that were in use.', how: 'As the engine reports it.' },
    infer_memory: { title: 'Memory', what: 'What the engine says it holds for this model, by purpose, and the most it was.' },
    infer_queue: { title: 'Time in the queue', what: 'How long requests waited before the engine began to work on them.' },
    infer_batch_requests: { title: 'Requests per batch', what: 'How many requests share one forward pass. More is more efficient, up to what the machine can do.' },
    infer_batch_tokens: { title: 'Tokens per batch', what: 'How many tokens one forward pass computes, of prompts and answers together.' },
    infer_hits: { title: 'Prefix hits', what: 'Share of all tokens of prompts that were reused from a cache instead of being computed again, by model.' },
    infer_goodput: {
        title: 'Requests against objectives', what: 'Requests per second that met all objectives, and that missed one or more.',
        how: 'Requests that their client gave up do not count.',
    },
    infer_missed: { title: 'Objectives missed', what: 'Which objective was missed, per second. One request may miss several.' },
    infer_tokens_in: { title: 'Tokens in', what: 'Tokens of prompts since the totals began, those reused from a cache included.' },
    infer_tokens_out: { title: 'Tokens out', what: 'Tokens of answers since the totals began.' },
    infer_invalid: { title: 'Events not used', what: 'Events of the engine that contradict others, by reason. Figures leave them out.' },
});

const TTFT = 'gen_ai_server_time_to_first_token_seconds';
const DURATION = 'gen_ai_server_request_duration_seconds';

function filters(): Filters {
    return { process: state.get('process'), pid: state.get('pid'), model: state.get('model'), route: state.get('route') };
}

// ---- tiles --------------------------------------------------------------------------------------

const DURATION_TILE: TileSpec = {
    label: 'Duration', metric: 'total', page: 'requests', for: 'inference', wide: true, values: [], percentiles: [DURATION],
    show(t: Tile, f: Figures) {
        const s = f.board.isLive && f.inference ? slowest(groupsOf(f.inference, f.filters), (g) => g.duration) : null;
        const p = f.board.isLive ? s?.p ?? null : f.range(DURATION);
        t.parts = [{ name: 'p50', text: seconds(p?.p50) }, { name: 'p95', text: seconds(p?.p95) }, { name: 'p99', text: seconds(p?.p99) }];
        t.note = !p ? 'none ended' : f.board.isLive ? `last ${f.inference!.window_s} s, the slowest: ${s!.of.model} ${s!.of.route}`
            : `in this range, ${count(p.count)} requests`;
        t.spark = [
            { values: f.spark(DURATION, { stat: 'p95', aggregate: 'max' }), color: 'p95' },
            { values: f.spark(DURATION, { stat: 'p50', aggregate: 'max' }), color: 'p50' },
        ];
    },
};

function tiles(): TileSpec[] {
    const shown = TILES.filter((t) => t.for === 'inference');
    const itl = shown.findIndex((t) => t.metric === 'itl');
    return [...shown.slice(0, itl + 1), DURATION_TILE, ...shown.slice(itl + 1)];
}

// ---- charts -------------------------------------------------------------------------------------

function charts(objectives: boolean): HTMLElement[] {
    return [
        heading('Speed'),
        grid(
            chart({ heading: 'Decode', name: 'sonde_infer_tokens_per_second', label: 'type:decode', group: 'model', unit: 'tokens/s', color: 'q-decode', metric: 'decode_rate' }),
            chart({ heading: 'Prefill', name: 'sonde_infer_tokens_per_second', label: 'type:prefill', group: 'model', unit: 'tokens/s', color: 'q-prefill', metric: 'prefill_rate' }),
        ),
        heading('Latency'),
        grid(
            chart({ heading: 'Time to first token', name: TTFT, stat: 'p50 p95 p99', metric: 'ttft' }),
            chart({ heading: 'Time between tokens', name: 'sonde_infer_inter_token_seconds', stat: 'p50 p95 p99', metric: 'itl' }),
            chart({ heading: 'Duration of requests', name: DURATION, stat: 'p50 p95 p99', metric: 'total' }),
            chart({ heading: 'Time in the queue', name: 'sonde_infer_phase_seconds', label: 'phase:queue', stat: 'p50 p95 p99', metric: 'infer_queue' }),
        ),
        heading('Where the time goes'),
        grid(
            chart({ heading: 'Phases of all requests', name: 'sonde_infer_phase_seconds', stat: 'sum', group: 'phase', stack: true, unit: 'seconds/s', metric: 'phases', full: true, height: 170 }),
        ),
        heading('Load'),
        grid(
            chart({
                heading: 'Running and waiting', name: 'sonde_infer_requests_running sonde_infer_requests_waiting', stack: true, whole: true, unit: '',
                names: 'sonde_infer_requests_running=running;sonde_infer_requests_waiting=waiting', metric: 'concurrency',
            }),
            chart({ heading: 'Requests per batch', name: 'sonde_infer_batch_requests', stat: 'avg', group: 'model', unit: '', metric: 'infer_batch_requests', empty: 'The engine reports no batches.' }),
            chart({ heading: 'Tokens per batch', name: 'sonde_infer_batch_tokens', stat: 'avg', group: 'model', unit: '', metric: 'infer_batch_tokens', empty: 'The engine reports no batches.' }),
            chart({ heading: 'Requests ended', name: 'sonde_infer_requests_total', group: 'outcome', stack: true, unit: '/s', metric: 'requests_rate' }),
        ),
        heading('Objectives', objectives ? null : make('span', { class: 'soft' }, 'None is set: start the agent with --set inference.slo_ttft_ms=500 --set inference.slo_itl_ms=50')),
        objectives ? grid(
            chart({ heading: 'Met and missed', name: 'sonde_infer_slo_requests_total', group: 'result', stack: true, unit: '/s', metric: 'infer_goodput' }),
            chart({ heading: 'Missed, by objective', name: 'sonde_infer_slo_missed_total', group: 'objective', unit: '/s', metric: 'infer_missed', empty: 'No objective was missed.' }),
        ) : make('div', { hidden: true }),
        heading('Cache and memory'),
        grid(
            chart({ heading: 'KV cache in use', name: 'sonde_infer_kv_used_ratio', group: 'model', agg: 'max', unit: 'ratio', metric: 'kv', empty: 'The engine does not report its key-value cache.' }),
            chart({ heading: 'Prefix hits', name: 'sonde_infer_prefix_hit_ratio', group: 'model', agg: 'avg', unit: 'ratio', max: 1, metric: 'infer_hits' }),
            chart({ heading: 'Memory by kind', name: 'sonde_infer_memory_bytes', group: 'kind', stack: true, unit: 'bytes', metric: 'memory_kinds', empty: 'The engine does not report what its memory is for.' }),
        ),
    ];
}

// ---- tables -------------------------------------------------------------------------------------

function groupKey(g: InferenceGroup): string {
    return JSON.stringify([g.pid, g.process, g.source, g.model, g.route]);
}

function isChosen(g: InferenceGroup): boolean {
    return !!state.get('model') && state.get('model') === g.model && state.get('route') === g.route;
}

// A click on what is chosen shows all again.
function choose(g: InferenceGroup): Record<string, string | null> {
    return isChosen(g) ? { model: null, route: null } : { model: g.model || null, route: g.route || null };
}

function percentileColumns(group: string, id: 'ttft' | 'itl' | 'duration', metric: string): TableColumn<InferenceGroup>[] {
    return (['p50', 'p95', 'p99'] as const).map((p) => ({
        id: `${id}_${p}`, title: p, group, metric, number: true,
        value: (g: InferenceGroup) => g[id]?.count ? g[id][p] : null,
        cell: (g: InferenceGroup) => g[id]?.count ? seconds(g[id][p]) : '–',
    }));
}

// Programs of the same name are told apart by their PID.
let sameName = new Set<string>();

function processText(g: InferenceGroup): string {
    return sameName.has(g.process) ? `${g.process} (${g.pid})` : g.process || '–';
}

function groupTable(): Table<InferenceGroup> {
    return new Table<InferenceGroup>('Models and routes', [
        { id: 'model', title: 'Model', value: (g) => g.model, cell: (g) => make('a', { href: state.link('inference', choose(g)), 'aria-label': `${isChosen(g) ? 'Show all, not only' : 'Show only'} ${g.model} ${g.route}` }, g.model || 'not named') },
        { id: 'route', title: 'Route', value: (g) => g.route, cell: (g) => g.route || '–' },
        { id: 'requests', title: 'Requests', number: true, metric: 'infer_requests', value: (g) => endedOf(g.requests), cell: (g) => make('a', { href: state.link('requests', { model: g.model || null, route: g.route || null }), title: 'List them' }, count(endedOf(g.requests))) },
        { id: 'failed', title: 'Failed', number: true, metric: 'infer_failed', value: (g) => failedOf(g.requests), cell: (g) => count(failedOf(g.requests)) },
        ...percentileColumns('First token', 'ttft', 'ttft'),
        ...percentileColumns('Between tokens', 'itl', 'itl'),
        ...percentileColumns('Duration', 'duration', 'total'),
        { id: 'rate', title: 'Requests/s', number: true, metric: 'infer_request_rate', value: (g) => g.requests_per_s, cell: (g) => count(g.requests_per_s) },
        { id: 'output', title: 'Tokens/s', number: true, metric: 'infer_output_rate', value: (g) => g.output_tokens_per_s, cell: (g) => count(g.output_tokens_per_s) },
        { id: 'user', title: 'Each user', number: true, metric: 'infer_user_rate', value: (g) => g.user_tokens_per_s?.count ? g.user_tokens_per_s.p50 : null, cell: (g) => g.user_tokens_per_s?.count ? count(g.user_tokens_per_s.p50) : '–' },
        { id: 'process', title: 'Process', value: (g) => g.process, cell: (g) => processText(g) },
        { id: 'source', title: 'Source', metric: 'infer_source', value: (g) => g.source, cell: (g) => g.source },
    ], {
        key: groupKey, sort: { column: 'requests', descending: true }, stateKey: 'sort', current: isChosen,
        open: (g) => state.queryFor(choose(g)),
    });
}

function kvText(m: InferenceModel): string {
    return m.kv ? `${count(m.kv.used)} of ${count(m.kv.total)}` : '–';
}

function memoryOf(m: InferenceModel): number | null {
    const kinds = Object.values(m.memory);
    return kinds.length ? kinds.reduce((sum, k) => sum + k.bytes, 0) : null;
}

function memoryText(m: InferenceModel): string {
    return Object.entries(m.memory).sort((a, b) => b[1].bytes - a[1].bytes).map(([kind, v]) => `${kind} ${bytes(v.bytes)}`).join(' · ') || '–';
}

function modelTable(): Table<InferenceModel> {
    return new Table<InferenceModel>('Models', [
        { id: 'name', title: 'Model', value: (m) => m.model, cell: (m) => m.model || 'not named' },
        { id: 'backend', title: 'Backend', metric: 'infer_backend', value: (m) => m.backend, cell: (m) => m.backend ?? '–' },
        { id: 'running', title: 'Running', number: true, metric: 'concurrency', value: (m) => m.running, cell: (m) => count(m.running) },
        { id: 'waiting', title: 'Waiting', number: true, metric: 'concurrency', value: (m) => m.waiting, cell: (m) => count(m.waiting) },
        { id: 'prefill', title: 'Prefill', number: true, metric: 'prefill_rate', value: (m) => m.prefill_tokens_per_s, cell: (m) => rate(m.prefill_tokens_per_s) },
        { id: 'decode', title: 'Decode', number: true, metric: 'decode_rate', value: (m) => m.decode_tokens_per_s, cell: (m) => rate(m.decode_tokens_per_s) },
        { id: 'batches', title: 'Batches', number: true, metric: 'infer_batches', value: (m) => m.batches, cell: (m) => count(m.batches) },
        { id: 'batch_requests', title: 'requests', group: 'Mean batch', number: true, metric: 'infer_batch_requests', value: (m) => m.batch_requests_mean, cell: (m) => count(m.batch_requests_mean) },
        { id: 'batch_tokens', title: 'tokens', group: 'Mean batch', number: true, metric: 'infer_batch_tokens', value: (m) => m.batch_tokens_mean, cell: (m) => count(m.batch_tokens_mean) },
        { id: 'kv', title: 'KV cells', number: true, metric: 'infer_kv_cells', value: (m) => m.kv?.used, cell: (m) => kvText(m) },
        { id: 'hits', title: 'Prefix hits', number: true, metric: 'hit', value: (m) => m.hit_ratio, cell: (m) => percent(m.hit_ratio) },
        { id: 'memory', title: 'Memory', metric: 'infer_memory', value: (m) => memoryOf(m), cell: (m) => memoryText(m) },
        { id: 'peak', title: 'Peak', number: true, metric: 'infer_memory', value: (m) => m.memory_peak_bytes, cell: (m) => bytes(m.memory_peak_bytes) },
        { id: 'load', title: 'Load time', number: true, metric: 'infer_load', value: (m) => m.load_s, cell: (m) => seconds(m.load_s) },
    ], { key: (m) => JSON.stringify([m.pid, m.process, m.source, m.model]), sort: { column: 'name', descending: false } });
}

// ---- nothing there ------------------------------------------------------------------------------

function way(title: string, text: string, command: string): HTMLElement {
    return make('section', { class: 'card' }, make('header', {}, make('h2', {}, title)), make('p', { class: 'soft' }, text),
        make('pre', { class: 'command', tabindex: '0', 'aria-label': `Command: ${title}` }, command));
}

function nothing(): HTMLElement {
    return make('div', { class: 'stack' },
        make('div', { class: 'banner', role: 'status' }, make('i'), make('b', {}, 'No inference seen yet'),
            make('span', { class: 'soft' }, 'Requests show up here by themselves as soon as the agent sees one. There are three ways to get them:')),
        grid(
            way('llama.cpp, unchanged', 'Programs that use llama.cpp need no change: their calls are seen from inside.', 'sonde run -- llama-server -m model.gguf'),
            way('Any server with an OpenAI-compatible API', 'The front passes requests on and measures them. Point clients at its port.', 'sonde serve --upstream http://127.0.0.1:8000 \\\n    --listen 127.0.0.1:8080'),
            way('An engine of your own', 'A few calls of the C API report arrivals, phases, tokens and memory. See docs/inference.md.', '#include <sonde/inference.h>\n\nsonde_request_begin(&request, &info);\nsonde_request_tokens(&request, 1);\nsonde_request_end(&request, SONDE_OK, NULL);'),
        ));
}

// ---- the page -----------------------------------------------------------------------------------

class InferencePage {
    private readonly api: Api = apiAt('');
    private readonly stack = make('div', { class: 'stack' }, loading('Loading inference'));
    private readonly following: Following;
    private readonly ends: (() => void)[] = [];
    private readonly groups = groupTable();
    private readonly models = modelTable();
    private readonly facts = new Facts();
    private readonly since = make('span', { class: 'soft' });
    private readonly all = make('a', { href: '' }, 'Show all models and routes');
    private readonly note = make('p', { class: 'soft', role: 'status' });
    private readonly engine = new EngineCards('work', () => this.draw());
    private readonly nothing = nothing();
    private tiles: TileSet | null = null;
    private inference: Inference | null = null;
    private shown: '' | 'nothing' | 'inference' | 'objectives' = '';

    constructor(root: HTMLElement) {
        root.append(this.stack);
        this.following = follow(this.stack);
        this.ends.push(() => this.following.end(), () => this.tiles?.end(), () => this.engine.end());
        this.ends.push(state.on('*', () => this.draw()));
        void this.start();
    }

    end(): void {
        for (const f of this.ends) f();
    }

    private async start(): Promise<void> {
        if (!mayHave('/api/inference')) { // a recording of an engine that reports no requests
            clear(this.stack, this.engine.element);
            return;
        }
        try {
            this.take(await this.api.get<Inference>('/api/inference'));
        } catch (e) {
            clear(this.stack, failed(e, () => void this.start()));
            return;
        }
        if (isFrozen()) return;
        const stream = live(this.api, { events: ['inference'] }, { inference: (i) => this.take(i) });
        this.ends.push(() => stream.close());
    }

    private take(i: Inference): void {
        this.inference = i;
        const slo = i.slo;
        const objectives = slo.ttft_s !== null || slo.itl_s !== null || slo.total_s !== null;
        const kind = !i.models.length && !i.groups.length ? 'nothing' : objectives ? 'objectives' : 'inference';
        if (kind !== this.shown) this.build(kind);
        this.draw();
    }

    private build(kind: 'nothing' | 'inference' | 'objectives'): void {
        this.shown = kind;
        this.tiles?.end();
        this.tiles = null;
        if (kind === 'nothing') {
            clear(this.stack, this.engine.element, this.nothing);
            return;
        }
        const curves = mayHave('/api/query'); // a recording has requests, and no series
        if (curves) this.tiles = new TileSet(this.api, tiles());
        const groups = card('Models and routes', {}, this.groups.element);
        groups.querySelector('header')!.append(
            make('span', { class: 'soft' }, `Percentiles of the ${curves ? 'last minute' : 'whole recording'}. A row shows only its model and route.`), this.all);
        const totals = card('Totals', {}, this.facts.element, this.note);
        totals.querySelector('header')!.append(this.since);
        if (!isFrozen()) {
            totals.querySelector('header')!.append(button('Start totals anew', 'Set totals, counts and percentiles back to zero', () => void this.reset()));
        }
        clear(this.stack, this.tiles?.element ?? null, groups, ...(curves ? charts(kind === 'objectives') : []), this.engine.element,
            heading('Models and totals'), card('Models', {}, this.models.element), totals);
        this.following.apply(this.stack);
    }

    private draw(): void {
        const i = this.inference;
        this.nothing.hidden = !this.engine.isEmpty;
        if (!i || this.shown === 'nothing') return;
        if (this.tiles) {
            this.tiles.inference = i;
            this.tiles.draw();
        }
        const f = filters();
        sameName = sharedNames(i.groups);
        // The table is what chooses: it shows all models and routes of the processes.
        this.groups.show(groupsOf(i, { ...f, model: null, route: null }));
        this.models.show(modelsOf(i, f));
        this.all.hidden = !f.model && !f.route;
        this.all.setAttribute('href', state.link('inference', { model: null, route: null }));
        this.showTotals(i);
    }

    private showTotals(i: Inference): void {
        const t = i.totals;
        const good = goodputOf(t.slo_met, t.slo_missed);
        this.since.textContent = `of all models, since ${clock(t.since)} (${span((isFrozen() ? i.time : now()) - t.since)})`;
        const { ok, error, cancelled, timeout, lost } = t.requests;
        this.facts.show([
            { name: 'Requests ended', value: count(endedOf(t.requests)), note: `${rate(t.requests_per_s)}`, metric: 'infer_requests' },
            { name: 'Failed', value: count(failedOf(t.requests)), note: `error ${count(error)}, timeout ${count(timeout)}, lost ${count(lost)}`, metric: 'infer_failed' },
            { name: 'Ended well', value: count(ok), note: `cancelled ${count(cancelled)}`, metric: 'requests_rate' },
            { name: 'Tokens in', value: count(t.tokens_in), note: `${count(t.tokens_reused)} reused`, metric: 'infer_tokens_in' },
            { name: 'Tokens out', value: count(t.tokens_out), note: rate(t.tokens_per_s, 'tokens'), metric: 'infer_tokens_out' },
            { name: 'Prefix hits', value: percent(t.hit_ratio), metric: 'hit' },
            { name: 'Memory', value: bytes(t.memory_bytes), note: `at most ${bytes(t.memory_peak_bytes)}`, metric: 'infer_memory' },
            { name: 'Goodput', value: percent(good), note: good === null ? 'no objectives' : `${count(t.slo_met)} met, ${count(t.slo_missed)} missed`, metric: 'goodput' },
            ...Object.entries(i.invalid_events).filter(([, n]) => n > 0).map(([reason, n]) => (
                { name: `Not used: ${reason}`, value: count(n), metric: 'infer_invalid' })),
        ]);
    }

    private async reset(): Promise<void> {
        const yes = await confirmed('Start totals anew?',
            'Totals, counts and percentiles on this page begin at zero, for everybody who looks at this agent. Curves, requests and what is stored stay.',
            'Start anew');
        if (!yes) return;
        try {
            await this.api.post('/api/inference/reset');
            this.note.textContent = `Begun anew at ${clock(now())}.`;
            this.take(await this.api.get<Inference>('/api/inference'));
        } catch (e) {
            this.note.textContent = `Totals were not reset: ${sentence(e)}`;
        }
    }
}

export const page: Page = {
    id: 'inference',
    title: 'Inference',
    icon: 'M12 3v4M12 17v4M3 12h4M17 12h4M6 6l2.5 2.5M15.5 15.5 18 18M18 6l-2.5 2.5M8.5 15.5 6 18M12 9.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z',
    keys: [],
    render(root) {
        const p = new InferencePage(root);
        return () => p.end();
    },
};
