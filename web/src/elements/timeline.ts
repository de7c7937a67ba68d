// <sonde-timeline request="ID">: one request, from its figures to what its time went to: phases and
// steps, who shared its batches, what it waited for, its spans, and the ways to its flame graph.
//
// request is its number, the engine's own id or its trace id. Events: sonde-request {id} when another
// one, of its batches, is asked for. Property link: makes the address of a page of the dashboard.

import { ApiError, aborted } from '../core/api';
import { Child, button, clear, make } from '../core/dom';
import { SondeElement, define } from '../core/element';
import { bytes, clock, count, digits, percent, seconds, zone } from '../core/format';
import { globOf } from '../core/glob';
import { isFailed } from '../core/heat';
import { now } from '../core/now';
import { queryString } from '../core/params';
import { Part, Typical, longestPause, partsOf, phaseId, phaseTitle, times, typicalOf } from '../core/phases';
import { empty, failed, loading } from '../core/states';
import { color, onTheme, phaseColor } from '../core/theme';
import { explain, hideTip, showTip } from '../core/tip';
import { Request, Requests, Shared, Spans, TimelineEntry } from '../core/types';
import css from '../styles/timeline.css';
import { outcomeText, requestName } from './requests/columns';
import { View, batchSteps, clampView, flatten, panView, spanTree, timelineRows, zoomView } from './timeline/layout';
import { BATCH, LEFT, RIGHT, ROW, TOKENS, TimelinePicture, heightOf, paintTimeline, timeOf } from './timeline/paint';
import { PathPanel } from './timeline/path_panel';
import { whyOf } from './timeline/why';
import './terms';

const AROUND_S = 300;      // others that it is compared with arrived so much before and after
const AROUND_LIMIT = 300;
const RUNNING_MS = 1000;
const SPANS = 2000;
const LISTED = 12;

export type Link = (page: string, values: Record<string, string | null>) => string;

const round = (t: number) => String(Math.round(t * 1000) / 1000);

class TimelineElement extends SondeElement {
    static observedAttributes = ['request'];

    private readonly box = make('div');
    private readonly whyBox = make('ul', { class: 'why' });
    private readonly figures = make('dl', { class: 'figures' });
    private readonly sharedBox = make('section', { hidden: true });
    private readonly path = new PathPanel({
        functionHref: (search) => this.href('cpu', { ...this.around(), search }),
        other: (o) => this.other(o),
    });
    private readonly spansBox = make('div');
    private readonly canvas = make('canvas', { tabindex: '0', role: 'application', 'aria-roledescription': 'timeline' });
    private readonly spoken = make('div', { class: 'sr', 'aria-live': 'polite' });

    private request: Request | null = null;
    private parts: Part[] | null = null;
    private typical: Typical | null = null;
    private asked = '';
    private abort: AbortController | null = null;
    private timer = 0;
    private view: View = { from: 0, to: 1 };
    private drag: View | null = null;
    private pan: { x: number; view: View } | null = null;
    private hover: TimelineEntry | null = null;
    private focused = -1;
    private width = 0;
    private frame = 0;
    private reset: HTMLButtonElement | null = null;
    link: Link | null = null;

    constructor() {
        super(css);
        this.root.append(this.box, this.spoken);
        this.canvas.addEventListener('pointerdown', (e) => this.pointerDown(e));
        this.canvas.addEventListener('pointermove', (e) => this.pointerMove(e));
        this.canvas.addEventListener('pointerup', () => this.pointerUp());
        this.canvas.addEventListener('pointercancel', () => { this.drag = this.pan = null; this.planDraw(); });
        this.canvas.addEventListener('pointerleave', () => this.setHover(null, 0, 0));
        this.canvas.addEventListener('dblclick', () => this.setView({ from: 0, to: this.total }));
        this.canvas.addEventListener('wheel', (e) => this.wheel(e), { passive: false });
        this.canvas.addEventListener('keydown', (e) => this.key(e));
        this.root.addEventListener('click', (e) => this.clicked(e));
    }

    override connectedCallback(): void {
        super.connectedCallback();
        const resized = new ResizeObserver(() => {
            const width = this.canvas.clientWidth;
            if (width && width !== this.width) {
                this.width = width;
                this.planDraw();
            }
        });
        resized.observe(this.canvas);
        this.onEnd(onTheme(() => this.planDraw()));
        this.onEnd(() => {
            resized.disconnect();
            this.stop();
            this.asked = '';
            hideTip(this.canvas);
        });
    }

    protected update(): void {
        const id = this.text('request');
        if (id === this.asked) return;
        this.asked = id;
        this.request = null;
        this.typical = null;
        this.path.reset();
        this.stop();
        if (!id) {
            clear(this.box, empty('No request is chosen', 'Choose one in the table.'));
            return;
        }
        clear(this.box, loading('Loading the request'));
        void this.load();
    }

    private stop(): void {
        clearTimeout(this.timer);
        this.timer = 0;
        this.abort?.abort();
        this.abort = null;
    }

    private get total(): number {
        return Math.max(1e-9, this.request?.total_s ?? 0);
    }

    private async load(): Promise<void> {
        const abort = this.abort = new AbortController();
        const path = `/api/requests/${encodeURIComponent(this.asked)}`;
        try {
            const first = this.request === null;
            const r = await this.api.get<Request>(path, {}, abort.signal);
            if (abort.signal.aborted) return;
            const whole = first || this.view.to >= this.total * 0.999;
            this.request = r;
            this.parts = partsOf(r);
            if (whole) this.view = { from: 0, to: this.total };
            this.show();
            if (r.state === 'running') {
                this.timer = window.setTimeout(() => { void this.load(); }, RUNNING_MS);
                if (!first) return;
            } else {
                void this.path.load(this.api, path, abort.signal); // of one that runs it would be another every second
            }
            void this.loadTypical(r, abort.signal);
            void this.loadShared(path, abort.signal);
        } catch (e: unknown) {
            if (abort.signal.aborted || aborted(e)) return;
            if (this.request) return; // it stays as it was last seen
            clear(this.box, failed(e, () => { clear(this.box, loading()); void this.load(); }));
        }
    }

    private async loadTypical(r: Request, signal: AbortSignal): Promise<void> {
        try {
            const list = await this.api.get<Requests>('/api/requests', {
                from: round(r.arrived - AROUND_S), to: round(r.arrived + AROUND_S), model: globOf(r.model), route: globOf(r.route),
                state: 'done', sort: 'newest', limit: AROUND_LIMIT, timeline: 0,
            }, signal);
            if (signal.aborted || this.request?.id !== r.id) return;
            this.typical = typicalOf(list.requests.filter((o) => o.id !== r.id));
            this.showFigures();
            this.showWhy();
        } catch { /* without it there is nothing to compare with, which is all */ }
    }

    private async loadShared(path: string, signal: AbortSignal): Promise<void> {
        try {
            const shared = await this.api.get<Shared>(path.replace('/api/requests/', '/api/shared/'), {}, signal);
            if (!signal.aborted) this.showShared(shared);
        } catch (e: unknown) {
            if (signal.aborted || (e instanceof ApiError && e.status === 404)) return; // an agent that does not know
            clear(this.sharedBox, make('h4', {}, 'Shared its batches'), make('p', { class: 'soft' }, e instanceof Error ? e.message : String(e)));
            this.sharedBox.hidden = false;
        }
    }

    // ---- words and figures ----------------------------------------------------------------------

    private href(page: string, values: Record<string, string | null>): string {
        if (this.link) return this.link(page, values);
        const params = Object.fromEntries(Object.entries(values).filter(([, v]) => v !== null));
        return `${this.api.base}/profiling/${page}${queryString(params)}`;
    }

    // The time of the request, for pages that show a range.
    private around(): Record<string, string | null> {
        const r = this.request!;
        return { request: r.id, from: round(r.arrived - 1), to: round(r.arrived + this.total + 1), range: null };
    }

    private show(): void {
        const r = this.request!;
        const kind = r.state === 'running' ? 'running' : isFailed(r.outcome) ? 'bad' : r.outcome === 'cancelled' ? 'cancelled' : 'ok';
        // The rest is what else arrived around it.
        const rest = { request: r.id, base: 'rest', from: round(r.arrived - 60), to: round(Math.max(r.arrived + this.total, Math.min(now(), r.arrived + this.total + 60))), range: null };
        const about = [r.model, r.route, `${r.program} (pid ${r.pid})`, r.backend ?? ''].filter(Boolean);
        clear(this.box,
            make('div', { class: 'what' }, make('h3', { dir: 'auto' }, requestName(r)), make('span', { class: `badge ${kind}`, dir: 'auto' }, outcomeText(r))),
            make('p', { class: 'about' }, ...about.flatMap((t, i): Child[] => [i ? ' · ' : null, make('bdi', {}, t)])),
            make('p', { class: 'about' }, `Arrived ${clock(r.arrived, true)} ${zone(r.arrived)}`),
            make('div', { class: 'actions' },
                make('a', { class: 'go primary', href: this.href('cpu', this.around()) }, 'Flame graph of this request'),
                make('a', { class: 'go', href: this.href('cpu', rest), title: 'What it spent more and less CPU time on than the other requests around it' }, 'Difference to the rest')),
            this.whyBox, this.figures, this.partsSection(r), this.path.element, this.stepsSection(r), this.sharedBox, this.spansSection(r), this.attributesSection(r));
        this.figures.style.marginBottom = '12px';
        this.showFigures();
        this.showWhy();
        this.planDraw();
    }

    private showWhy(): void {
        const r = this.request!;
        const list = whyOf(r, this.parts, this.typical, r.timeline ? longestPause(r.timeline) : null);
        clear(this.whyBox, ...list.map((t) => make('li', { dir: 'auto' }, t)));
    }

    private showFigures(): void {
        const r = this.request!;
        const t = this.typical && this.typical.count >= 8 ? this.typical : null;
        const list: HTMLElement[] = [];
        const add = (key: string, title: string, text: string, v: number | null = null, typical: number | null = null, format?: (x: number) => string) => {
            const dt = make('dt', { tabindex: '0' }, title);
            explain(dt, key);
            const dd = make('dd', {}, text);
            const f = times(v, typical);
            if (f !== null && format) {
                const much = f >= 2 || f <= 0.5;
                dd.append(make('small', { class: much && (key === 'tokens_per_s' ? f <= 0.5 : f >= 2) ? 'much' : null, title: `The median of ${t?.count ?? 0} requests to this model and route that arrived within five minutes` },
                    `median ${format(typical!)}${f >= 2 ? `, ${f > 1000 ? '>1000' : digits(f, f < 10 ? 2 : 3)}×` : ''}`));
            }
            list.push(make('div', {}, dt, dd));
        };
        const itl = r.itl;
        const queue = r.phases['queue']?.seconds ?? null;
        add('total', 'Duration', seconds(r.total_s), r.total_s, t?.total, seconds);
        add('ttft', 'First token', seconds(r.ttft_s), r.ttft_s, t?.ttft, seconds);
        add('queue', 'Queue', seconds(queue), queue, t?.queue, seconds);
        if (itl) {
            add('itl_mean', 'Between tokens', seconds(itl.mean_s), itl.mean_s, t?.itl, seconds);
            add('itl_p99', 'p99 between', seconds(itl.p99_s));
            add('itl_max', 'Longest pause', seconds(itl.max_s));
        }
        add('tokens_in', 'Tokens in', count(r.tokens_in), r.tokens_in - r.tokens_reused, t?.computed, (v) => `${count(v)} to compute`);
        add('tokens_reused', 'Reused', r.tokens_in > 0 ? `${count(r.tokens_reused)} (${percent(r.tokens_reused / r.tokens_in, 2)})` : '–');
        add('tokens_out', 'Tokens out', r.tokens_max ? `${count(r.tokens_out)} of ${count(r.tokens_max)}` : count(r.tokens_out), r.tokens_out, t?.tokens_out, count);
        if (r.tokens_out) add('tokens_per_s', 'Tokens/s', digits(r.tokens_per_s ?? 0), r.tokens_per_s, t?.tokens_per_s, digits);
        if (r.batches) add('batches', 'Forward passes', count(r.batches));
        if (r.memory_bytes) add('request_memory', 'Memory of model', bytes(r.memory_bytes));
        if (r.slo !== null) add('slo', 'Objectives', r.slo === true || r.slo === 'met' ? 'met' : 'missed');
        clear(this.figures, ...list);
    }

    private partsSection(r: Request): HTMLElement {
        const title = make('h4', { tabindex: '0' }, 'Its phases');
        explain(title, 'request_parts');
        const { parts } = this;
        if (!parts) {
            return make('section', {}, title, make('p', { class: 'soft' },
                'Its timeline was not kept: of many requests those that were slow or failed have one. Figures above are exact.'));
        }
        const stack = make('div', { class: 'stack', 'aria-hidden': 'true' });
        const body = make('tbody');
        const piece = (id: string, length: number, pale: boolean) => {
            if (!(length > 0)) return;
            const i = make('i', { class: id === 'unexplained' ? 'unexplained' : pale ? 'pale' : null });
            i.style.width = `${(100 * length) / this.total}%`;
            if (id !== 'unexplained') i.style.background = `var(--sonde-${phaseColor(id)})`;
            stack.append(i);
        };
        for (const p of parts) {
            const alone = p.id === 'queue' || p.id === 'unexplained';
            piece(p.id, alone ? p.seconds : p.own, false);
            if (!alone) piece(p.id, p.seconds - p.own, true);
            const key = make('span', { class: `key ${p.id === 'unexplained' ? 'unexplained' : ''}` });
            if (p.id !== 'unexplained') key.style.background = `var(--sonde-${phaseColor(p.id)})`;
            const others = alone ? 0 : p.seconds - p.own;
            body.append(make('tr', {},
                make('td', {}, key, phaseTitle(p.id)),
                make('td', { class: 'num' }, seconds(p.seconds)), make('td', { class: 'num' }, percent(p.seconds / this.total)),
                make('td', { class: 'num soft' }, others > this.total * 1e-6 ? `${seconds(others)} for others` : '')));
        }
        body.append(make('tr', {}, make('td', {}, make('b', {}, 'Duration')), make('td', { class: 'num' }, make('b', {}, seconds(r.total_s))),
            make('td', { class: 'num' }, '100 %'), make('td')));
        return make('section', {}, make('div', { class: 'line' }, title), stack,
            make('table', { class: 'parts' }, make('thead', { class: 'sr' }, make('tr', {}, make('th', {}, 'Phase'), make('th', {}, 'Time'), make('th', {}, 'Share'), make('th', {}, 'Shared'))), body));
    }

    private stepsSection(r: Request): HTMLElement | null {
        if (!r.timeline?.length) return null;
        this.reset = button('Whole', 'Show all of it (0)', () => this.setView({ from: 0, to: this.total }));
        const tools = make('span', { class: 'tools' },
            button('+', 'Zoom in (+)', () => this.zoom(0.5), { 'aria-label': 'Zoom in' }),
            button('−', 'Zoom out (-)', () => this.zoom(2), { 'aria-label': 'Zoom out' }), this.reset);
        this.canvas.setAttribute('aria-label', `Timeline of ${requestName(r)}: ${r.timeline.length} steps in ${seconds(r.total_s)}. Arrow keys go from step to step, plus and minus zoom, 0 shows all. The same as a table is below.`);
        const joined = r.timeline.some((e) => (e.count ?? 1) > 1);
        const table = make('details', {}, make('summary', {}, 'Steps as a table'));
        table.addEventListener('toggle', () => { if (table.open && table.childElementCount === 1) table.append(this.stepsTable(r)); });
        return make('section', {},
            make('div', { class: 'line' }, make('h4', {}, 'Timeline'), make('span', { class: 'soft' }, 'drag to zoom, double click for all'), tools),
            make('div', { class: 'plot' }, this.canvas),
            joined ? make('p', { class: 'soft' }, 'Neighbouring steps of a kind were joined: there were too many to keep each.') : null,
            table);
    }

    private stepsTable(r: Request): HTMLElement {
        const body = make('tbody');
        for (const e of r.timeline!) {
            body.append(make('tr', {}, make('td', { class: 'num' }, seconds(e.start_s, 5)), make('td', {}, e.name === 'tokens' ? 'tokens came out' : phaseTitle(phaseId(e.name))),
                make('td', { class: 'num' }, e.name === 'tokens' ? '' : seconds(e.end_s - e.start_s)), make('td', { class: 'num' }, e.batch ? seconds(e.busy_s) : ''),
                make('td', { class: 'num' }, e.tokens === undefined ? '' : count(e.tokens)), make('td', { class: 'num' }, e.batch ? count(e.batch) : '')));
        }
        const head = make('tr');
        for (const t of ['After', 'Step', 'Took', 'Own share', 'Tokens', 'In batch']) head.append(make('th', { class: t === 'Step' ? null : 'num', scope: 'col' }, t));
        return make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Steps' }, make('table', {}, make('thead', {}, head), body));
    }

    private other(o: { id: string; own_id: string | null }): HTMLElement {
        return make('a', { href: this.href('requests', { request: o.id }), 'data-request': o.id, dir: 'auto' }, requestName(o));
    }

    private showShared(s: Shared): void {
        const bar = (v: number) => {
            const i = make('i');
            i.style.width = `${Math.min(100, 100 * v)}%`;
            return make('span', { class: 'share', 'aria-hidden': 'true' }, i);
        };
        const table = (heads: string[], rows: HTMLElement[]) => make('table', {},
            make('thead', {}, make('tr', {}, ...heads.map((h, i) => make('th', { scope: 'col', class: i ? 'num' : null }, h)))), make('tbody', {}, ...rows));
        const more = (all: number) => all > LISTED ? make('p', { class: 'soft' }, `and ${count(all - LISTED)} more`) : null;
        const sharedTitle = make('h4', { tabindex: '0' }, 'Shared its batches');
        explain(sharedTitle, 'shared');
        const waitedTitle = make('h4', { tabindex: '0' }, 'Waited for');
        explain(waitedTitle, 'waited_for');
        const mates = [...s.shared].sort((a, b) => b.seconds - a.seconds);
        const waits = [...s.waited_for].sort((a, b) => b.seconds - a.seconds);
        const most = Math.max(1e-12, ...waits.map((w) => w.seconds));
        clear(this.sharedBox, make('div', { class: 'two' },
            make('div', {}, sharedTitle, mates.length
                ? table(['Request', 'Passes', 'Tokens', 'Time of its passes'], mates.slice(0, LISTED).map((m) => make('tr', {},
                    make('td', {}, this.other(m)), make('td', { class: 'num' }, count(m.batches)), make('td', { class: 'num' }, count(m.tokens)),
                    make('td', { class: 'num' }, seconds(m.seconds), bar(m.share)))))
                : make('p', { class: 'soft' }, 'No other request was in its forward passes.'), more(mates.length)),
            make('div', {}, waitedTitle, waits.length
                ? table(['Request', 'Phase', 'Time'], waits.slice(0, LISTED).map((w) => make('tr', {},
                    make('td', {}, this.other(w)), make('td', { class: 'num' }, phaseTitle(phaseId(w.phase))),
                    make('td', { class: 'num' }, seconds(w.seconds), bar(w.seconds / most)))))
                : make('p', { class: 'soft' }, `Nothing else ran in the ${seconds(s.queue.seconds)} before its first work.`), more(waits.length))),
        s.complete ? null : make('p', { class: 'note' }, s.note ?? 'Not all timelines of others were kept, so this may not be all.'));
        this.sharedBox.hidden = false;
    }

    private spansSection(r: Request): HTMLElement | null {
        if (!r.trace_id) return null;
        const trace = r.trace_id;
        const title = make('summary', {}, 'Trace ', make('span', { class: 'mono soft' }, trace));
        const details = make('details', {}, title, this.spansBox);
        clear(this.spansBox);
        details.addEventListener('toggle', () => {
            if (details.open && !this.spansBox.childElementCount) {
                clear(this.spansBox, loading('Loading spans'));
                void this.loadSpans(trace, r);
            }
        });
        return make('section', {}, details);
    }

    private async loadSpans(trace: string, r: Request): Promise<void> {
        try {
            const answer = await this.api.get<Spans>('/api/spans', { trace, from: round(r.arrived - AROUND_S), limit: SPANS }, this.abort?.signal);
            const nodes = flatten(spanTree(answer.spans));
            if (!nodes.length) {
                clear(this.spansBox, make('p', { class: 'soft' }, 'No span of it is kept any more.'));
                return;
            }
            const start = nodes.reduce((least, n) => Math.min(least, n.start), Infinity);
            const end = nodes.reduce((most, n) => Math.max(most, n.end), 0);
            const body = make('tbody');
            for (const n of nodes) {
                const name = make('td', {}, make('b', { dir: 'auto' }, n.name), n.spans.length > 1 ? make('span', { class: 'soft' }, ` × ${count(n.spans.length)}`) : null);
                name.style.paddingLeft = `${n.depth * 16}px`;
                const i = make('i');
                i.style.marginLeft = `${(100 * (n.start - start)) / Math.max(1e-9, end - start)}%`;
                i.style.width = `${Math.max(1, (100 * (n.end - n.start)) / Math.max(1e-9, end - start))}%`;
                const where = make('span', { class: 'share', 'aria-hidden': 'true' }, i);
                where.style.width = '110px';
                body.append(make('tr', {}, name, make('td', { class: 'soft' }, n.spans[0].program), make('td', { class: 'num' }, seconds(n.seconds)), make('td', {}, where)));
            }
            clear(this.spansBox, make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Spans of its trace' },
                make('table', {}, make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'Span'), make('th', { scope: 'col' }, 'Program'), make('th', { class: 'num', scope: 'col' }, 'Time'), make('th', { scope: 'col' }, 'When'))), body)),
            answer.spans.length >= SPANS ? make('p', { class: 'soft' }, `The newest ${count(SPANS)} spans.`) : null);
        } catch (e: unknown) {
            if (!aborted(e)) clear(this.spansBox, failed(e, () => { void this.loadSpans(trace, r); }));
        }
    }

    private attributesSection(r: Request): HTMLElement | null {
        const names = Object.keys(r.attributes);
        if (!names.length) return null;
        return make('section', {}, make('h4', {}, 'Attributes'),
            make('table', {}, make('tbody', {}, ...names.map((n) => make('tr', {}, make('td', { class: 'soft', dir: 'auto' }, n), make('td', { dir: 'auto' }, r.attributes[n]))))));
    }

    private clicked(e: Event): void {
        const at = e.target instanceof Element ? e.target.closest<HTMLElement>('[data-request]') : null;
        const mouse = e as MouseEvent;
        if (!at || mouse.ctrlKey || mouse.metaKey || mouse.shiftKey || mouse.button !== 0) return;
        e.preventDefault();
        e.stopPropagation();
        this.emit('sonde-request', { id: at.dataset['request'] });
    }

    // ---- the drawing ----------------------------------------------------------------------------

    private planDraw(): void {
        if (this.frame) return;
        this.frame = requestAnimationFrame(() => {
            this.frame = 0;
            this.draw();
        });
    }

    private picture(): TimelinePicture | null {
        const timeline = this.request?.timeline;
        if (!timeline?.length) return null;
        const pause = longestPause(timeline);
        const usual = this.request?.itl?.p50_s ?? 0;
        return {
            width: this.width, rows: timelineRows(timeline, this.total), tokens: timeline.filter((e) => e.name === 'tokens'), batches: batchSteps(timeline),
            pause: pause && pause.end - pause.start > 2 * usual ? pause : null, first: this.request!.ttft_s,
            view: this.view, drag: this.drag, hover: this.hover,
            colors: {
                card: color('card', this), ink: color('ink', this), soft: color('ink-soft', this), faint: color('ink-faint', this), line: color('line', this),
                raised: color('raised', this), accent: color('accent', this), warn: color('warn', this), font: `12px ${getComputedStyle(this).fontFamily}`,
                phase: (id) => color(phaseColor(id), this),
            },
        };
    }

    private draw(): void {
        const p = this.picture();
        if (!p) return;
        if (!this.width) this.width = p.width = this.canvas.clientWidth;
        if (!p.width) return;
        const height = heightOf(p);
        const ratio = devicePixelRatio || 1;
        this.canvas.style.height = `${height}px`;
        if (this.canvas.width !== Math.round(p.width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
            this.canvas.width = Math.round(p.width * ratio);
            this.canvas.height = Math.round(height * ratio);
        }
        const g = this.canvas.getContext('2d')!;
        g.setTransform(ratio, 0, 0, ratio, 0, 0);
        g.clearRect(0, 0, p.width, height);
        paintTimeline(g, p);
        if (this.reset) this.reset.disabled = this.view.from <= 0 && this.view.to >= this.total;
    }

    private setView(v: View): void {
        this.view = clampView(v, this.total);
        this.planDraw();
    }

    private zoom(by: number): void {
        const chosen = this.stepAt(this.focused);
        const at = chosen ? (chosen.start_s + chosen.end_s) / 2 : (this.view.from + this.view.to) / 2;
        this.setView(zoomView(this.view, by, Math.min(this.view.to, Math.max(this.view.from, at)), this.total));
    }

    private where(e: MouseEvent): { t: number; y: number } {
        const r = this.canvas.getBoundingClientRect();
        return { t: timeOf({ width: this.width, view: this.view }, e.clientX - r.left), y: e.clientY - r.top };
    }

    private pointerDown(e: PointerEvent): void {
        if (e.button !== 0) return;
        this.canvas.setPointerCapture(e.pointerId);
        const zoomed = this.view.to - this.view.from < this.total * 0.999;
        if (e.shiftKey || (e.pointerType === 'touch' && zoomed)) {
            this.pan = { x: e.clientX, view: this.view };
        } else {
            const { t } = this.where(e);
            this.drag = { from: t, to: t };
        }
        hideTip(this.canvas);
    }

    private pointerMove(e: PointerEvent): void {
        const { t, y } = this.where(e);
        if (this.pan) {
            const by = ((this.pan.x - e.clientX) / (this.width - LEFT - RIGHT)) * (this.pan.view.to - this.pan.view.from);
            this.setView(panView(this.pan.view, by, this.total));
        } else if (this.drag) {
            this.drag = { from: this.drag.from, to: t };
            this.planDraw();
        } else {
            this.setHover(this.entryAt(t, y), e.clientX, e.clientY);
        }
    }

    private pointerUp(): void {
        const d = this.drag;
        this.drag = this.pan = null;
        if (d && Math.abs(d.to - d.from) > 0.01 * (this.view.to - this.view.from)) this.setView({ from: Math.min(d.from, d.to), to: Math.max(d.from, d.to) });
        this.planDraw();
    }

    private wheel(e: WheelEvent): void {
        if (e.ctrlKey || e.metaKey) {
            e.preventDefault();
            this.setView(zoomView(this.view, e.deltaY > 0 ? 1.25 : 0.8, this.where(e).t, this.total));
        } else if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
            e.preventDefault();
            this.setView(panView(this.view, (e.deltaX / this.width) * (this.view.to - this.view.from), this.total));
        }
    }

    private entryAt(t: number, y: number): TimelineEntry | null {
        const p = this.picture();
        if (!p) return null;
        const slack = (3 / this.width) * (this.view.to - this.view.from);
        const tokensTop = p.rows.length * ROW;
        if (p.tokens.length && y >= tokensTop && y < tokensTop + TOKENS) {
            return p.tokens.find((e) => Math.abs(e.start_s - t) <= slack) ?? null;
        }
        if (y >= tokensTop + (p.tokens.length ? TOKENS : 0) && y < tokensTop + (p.tokens.length ? TOKENS : 0) + BATCH) {
            return this.request!.timeline!.find((e) => (e.batch ?? 0) > 0 && e.start_s <= t && e.end_s >= t) ?? null;
        }
        const row = p.rows[Math.floor(y / ROW)] as TimelinePicture['rows'][number] | undefined;
        return row?.entries.find((e) => e.start_s <= t && e.end_s >= t) ?? row?.entries.find((e) => e.start_s - slack <= t && e.end_s + slack >= t) ?? null;
    }

    private lines(e: TimelineEntry): string[] {
        const list: string[] = [];
        if (e.name === 'tokens') {
            list.push(`${count(e.tokens ?? 1)} token${(e.tokens ?? 1) === 1 ? '' : 's'} came out`, `after ${seconds(e.start_s, 5)}`);
            return list;
        }
        list.push(`${phaseTitle(phaseId(e.name))}: ${seconds(e.end_s - e.start_s)}`, `from ${seconds(e.start_s, 5)} to ${seconds(e.end_s, 5)} after arrival`);
        if (e.batch && e.batch > 1) list.push(`shared with ${count(e.batch - 1)} other${e.batch === 2 ? '' : 's'}; own share ${seconds(e.busy_s)}`);
        if (e.tokens) list.push(`${count(e.tokens)} token${e.tokens === 1 ? '' : 's'}`);
        if ((e.count ?? 1) > 1) list.push(`${count(e.count)} steps, joined`);
        return list;
    }

    private setHover(e: TimelineEntry | null, x: number, y: number): void {
        if (e === this.hover && e !== null) return;
        if (e !== this.hover) this.planDraw();
        this.hover = e;
        if (!e) {
            hideTip(this.canvas);
            return;
        }
        const [first, ...rest] = this.lines(e);
        showTip({ x, y: y + 10 }, this.canvas, make('b', {}, first), ...rest.map((t) => make('p', {}, t)));
    }

    private stepAt(i: number): TimelineEntry | null {
        return this.request?.timeline?.[i] ?? null;
    }

    private key(e: KeyboardEvent): void {
        const steps = this.request?.timeline;
        if (!steps || e.ctrlKey || e.metaKey || e.altKey) return;
        if (e.key === '+' || e.key === '=') this.zoom(0.5);
        else if (e.key === '-') this.zoom(2);
        else if (e.key === '0' || e.key === 'Home') this.setView({ from: 0, to: this.total });
        else if (e.shiftKey && (e.key === 'ArrowLeft' || e.key === 'ArrowRight')) {
            this.setView(panView(this.view, (e.key === 'ArrowLeft' ? -0.25 : 0.25) * (this.view.to - this.view.from), this.total));
        } else if (e.key === 'ArrowLeft' || e.key === 'ArrowRight') {
            this.focused = Math.min(steps.length - 1, Math.max(0, this.focused + (e.key === 'ArrowLeft' ? -1 : 1)));
            const step = steps[this.focused];
            this.hover = step;
            if (step.start_s < this.view.from || step.end_s > this.view.to) {
                const length = this.view.to - this.view.from;
                this.setView({ from: step.start_s - length / 4, to: step.start_s + (3 * length) / 4 });
            }
            this.spoken.textContent = this.lines(step).join(', ');
            this.planDraw();
        } else {
            return;
        }
        e.preventDefault();
        e.stopPropagation();
    }
}

define('sonde-timeline', TimelineElement);
