// <sonde-heatmap>: requests by time and latency. Where a curve has one value, this has all of them:
// a second mode, a few stragglers and a slow minute look different.
//
//   metric      ttft | itl | total | queue | tokens_per_s
//   range       seconds until now, or FROM..TO in Unix seconds; 900 unless given
//   model, route, process (globs), pid, outcome, source   which requests
//   cells       what is chosen, FROM..TO:MIN..MAX
//   height      of the picture in pixels; 260 unless given
//   percentiles present: p50, p95 and p99 of each column as lines
//
// Events: sonde-cells {from, to, min, max, metric}, null when nothing is chosen any more;
// sonde-metric {metric} when another one was chosen here.

import { aborted } from '../core/api';
import { button, clear, make, svg } from '../core/dom';
import { SondeElement, define } from '../core/element';
import { clock, count, zone } from '../core/format';
import {
    Cells, METRICS, MetricAbout, Rect, cellsOfRect, columnStats, countIn, formatCells, heatSteps, metricAbout, parseCells,
    rectOf, rectOfCells, worstRect,
} from '../core/heat';
import { now } from '../core/now';
import { empty, failed, loading } from '../core/states';
import { color, onTheme } from '../core/theme';
import { explain, hideTip, showTip } from '../core/tip';
import { Heatmap, Inference } from '../core/types';
import css from '../styles/heatmap.css';
import { Box, Colors, Picture, cellBox, paint, valueText } from './heatmap/paint';
import './terms';

const LEFT = 52;
const BOTTOM = 24;
const TOP = 4;
const RIGHT = 10;
const FILTERS = ['model', 'route', 'process', 'pid', 'outcome', 'source'];
const SHORTEST_MS = 2000;   // between two questions
const PATIENCE = 40;        // an answer that took long is asked for so much less often

type At = { column: number; row: number };

class HeatmapElement extends SondeElement {
    static observedAttributes = ['metric', 'range', 'cells', 'height', 'percentiles', ...FILTERS];

    private readonly metrics = make('div', { class: 'metrics', role: 'radiogroup', 'aria-label': 'What is measured' });
    private readonly sum = make('span', { class: 'sum' });
    private readonly worst: HTMLButtonElement;
    private readonly lines: HTMLButtonElement;
    private readonly tableButton: HTMLButtonElement;
    private readonly plot = make('div', { class: 'plot' });
    private readonly canvas = make('canvas', { tabindex: '0', role: 'application', 'aria-roledescription': 'heat map' });
    private readonly stateBox = make('div', { class: 'state' });
    private readonly tableBox = make('div', { class: 'table', tabindex: '0', hidden: true, role: 'region', 'aria-label': 'Heat map as a table' });
    private readonly foot = make('div', { class: 'foot' });
    private readonly spoken = make('div', { class: 'sr', 'aria-live': 'polite' });

    private map: Heatmap | null = null;
    private most = 0;
    private objectives: Inference['slo'] | null = null;
    private key = '';               // of the question that map answers
    private abort: AbortController | null = null;
    private timer = 0;
    private visible = true;
    private width = 0;
    private colors: Colors | null = null;
    private hover: At | null = null;
    private cursor: At | null = null;
    private anchor: At | null = null; // of a selection that is being made
    private moving: At | null = null; // its other corner
    private pointer = -1;
    private wholeColumns = false;     // it began below the picture: all values
    private frame = 0;

    constructor() {
        super(css);
        for (const m of METRICS) {
            const b = button(m.short, '', () => this.chooseMetric(m), { role: 'radio', 'data-metric': m.id });
            explain(b, m.id);
            b.addEventListener('keydown', (e) => this.metricKey(e));
            this.metrics.append(b);
        }
        this.worst = button('Slowest 1 %', 'Choose the worst one per cent of what is shown', () => this.chooseWorst());
        this.lines = button('Percentiles', 'p50, p95 and p99 of each column as lines', () => this.toggleAttribute('percentiles'),
            { 'aria-pressed': 'false' });
        this.tableButton = button('Table', 'Show as a table', () => this.showTable(this.tableBox.hidden), { 'aria-pressed': 'false' });
        this.plot.append(this.canvas);
        this.root.append(make('figure', {},
            make('figcaption', {}, this.metrics, this.sum, make('span', { class: 'tools' }, this.worst, this.lines, this.tableButton)),
            this.stateBox, this.plot, this.tableBox, this.foot, this.spoken));
        this.canvas.addEventListener('pointerdown', (e) => this.pointerDown(e));
        this.canvas.addEventListener('pointermove', (e) => this.pointerMove(e));
        this.canvas.addEventListener('pointerup', (e) => this.pointerUp(e));
        this.canvas.addEventListener('pointercancel', () => this.endDrag());
        this.canvas.addEventListener('pointerleave', () => this.setHover(null));
        this.canvas.addEventListener('keydown', (e) => this.keyDown(e));
        this.canvas.addEventListener('blur', () => { this.cursor = null; this.planDraw(); });
    }

    override connectedCallback(): void {
        super.connectedCallback();
        const resized = new ResizeObserver(() => this.resize());
        resized.observe(this.plot);
        resized.observe(this);
        const seen = new IntersectionObserver((entries) => {
            this.visible = entries[entries.length - 1]?.isIntersecting ?? true;
            if (this.visible && !this.timer && !this.abort) this.refresh();
        });
        seen.observe(this);
        const shown = () => { if (!document.hidden && !this.timer && !this.abort) this.refresh(); };
        document.addEventListener('visibilitychange', shown);
        this.onEnd(onTheme(() => { this.colors = null; this.showFoot(); this.planDraw(); }));
        this.onEnd(() => {
            resized.disconnect();
            seen.disconnect();
            document.removeEventListener('visibilitychange', shown);
            this.stop();
            this.key = '';
            hideTip(this.canvas);
        });
    }

    private get about(): MetricAbout {
        return metricAbout(this.getAttribute('metric'));
    }

    private get chosen(): Cells | null {
        return parseCells(this.getAttribute('cells'));
    }

    protected update(): void {
        this.metrics.querySelectorAll('button').forEach((b) => {
            const on = b.dataset['metric'] === this.about.id;
            b.setAttribute('aria-checked', String(on));
            b.tabIndex = on ? 0 : -1;
        });
        this.lines.setAttribute('aria-pressed', String(this.hasAttribute('percentiles')));
        this.worst.textContent = this.about.worse === 'high' ? 'Slowest 1 %' : 'Lowest 1 %';
        const height = `${this.number('height') ?? 260}px`;
        for (const e of [this.plot, this.tableBox]) e.style.height = height;
        this.stateBox.style.minHeight = height;
        this.resize();
        const key = JSON.stringify([this.api.base, this.about.id, this.text('range'), ...FILTERS.map((f) => this.text(f))]);
        if (key !== this.key) {
            const metricChanged = this.map && this.map.metric !== this.about.id;
            this.key = key;
            this.stop();
            if (metricChanged) this.map = null;
            this.refresh();
        }
        this.describe();
        this.planDraw();
    }

    // ---- data -----------------------------------------------------------------------------------

    private range(): { from: number; to: number; live: boolean } {
        const fixed = /^([\d.]+)\.\.([\d.]+)$/.exec(this.text('range'));
        if (fixed) return { from: Number(fixed[1]), to: Number(fixed[2]), live: false };
        const seconds = Number(this.text('range', '900'));
        const to = now();
        return { from: to - (seconds > 0 ? seconds : 900), to, live: true };
    }

    private stop(): void {
        clearTimeout(this.timer);
        this.timer = 0;
        this.abort?.abort();
        this.abort = null;
    }

    private refresh(): void {
        this.stop();
        if (!this.isConnected || !this.width) return;
        if (!this.map && !this.plotHidden()) this.showState(loading('Loading the heat map'));
        const { from, to, live } = this.range();
        const started = performance.now();
        const abort = this.abort = new AbortController();
        const params: Record<string, string | number> = {
            metric: this.about.id, from: Math.round(from * 1000) / 1000, to: Math.round(to * 1000) / 1000,
            columns: this.columnsMax(), rows: this.rowsMax(),
        };
        for (const f of FILTERS) params[f] = this.text(f);
        void Promise.all([
            this.api.get<Heatmap>('/api/heatmap', params, abort.signal),
            this.objectives ? null : this.api.get<Inference>('/api/inference', {}, abort.signal).then((i) => i.slo, () => null),
        ]).then(([map, slo]) => {
            if (abort.signal.aborted) return;
            if (slo) this.objectives = slo;
            this.show(map);
        }).catch((e: unknown) => {
            if (abort.signal.aborted || aborted(e)) return;
            if (!this.map) this.showState(failed(e, () => this.refresh()));
            else this.plot.classList.add('stale');
        }).finally(() => {
            if (this.abort !== abort) return;
            this.abort = null;
            if (live) this.planRefresh(performance.now() - started);
        });
    }

    // As often as a column fills a little, and rarely where an answer is dear.
    private planRefresh(tookMs: number): void {
        const step = (this.map?.step_s ?? 10) * 1000;
        const wait = Math.max(SHORTEST_MS, Math.min(step / 2, 30000), tookMs * PATIENCE);
        this.timer = window.setTimeout(() => {
            this.timer = 0;
            if (this.visible && !document.hidden && this.pointer < 0) this.refresh();
            else if (this.pointer >= 0) this.planRefresh(0);
        }, wait);
    }

    private show(map: Heatmap): void {
        this.map = map;
        this.most = map.cells.reduce((most, c) => Math.max(most, c[2]), 0);
        this.plot.classList.remove('stale');
        this.showState(map.cells.length ? null : this.nothing());
        this.showSum();
        this.showFoot();
        if (!this.tableBox.hidden) this.fillTable();
        this.describe();
        this.planDraw();
    }

    private nothing(): HTMLElement {
        const filtered = FILTERS.some((f) => this.text(f));
        if (filtered) return empty('No request here matches the filters', 'Remove a filter, or choose a longer time.');
        return empty('No requests that ended in this time',
            'Choose a longer time, or send the inference server a request. An engine that is not seen yet is started like this:',
            'sonde run -- ./llama-server -m model.gguf');
    }

    private showState(e: HTMLElement | null): void {
        clear(this.stateBox, e);
        this.stateBox.hidden = e === null;
        const table = this.tableButton.getAttribute('aria-pressed') === 'true';
        this.plot.hidden = e !== null || table;
        this.tableBox.hidden = e !== null || !table;
        this.foot.hidden = e !== null;
        this.worst.disabled = this.lines.disabled = this.tableButton.disabled = e !== null;
        if (e) this.sum.textContent = '';
    }

    private plotHidden(): boolean {
        return this.stateBox.childElementCount > 0 && !this.stateBox.hidden;
    }

    private showSum(): void {
        const map = this.map!;
        const failedOnes = map.cells.reduce((sum, c) => sum + c[3], 0);
        this.sum.textContent = `${count(map.counted)} request${map.counted === 1 ? '' : 's'}${failedOnes ? `, ${count(failedOnes)} failed` : ''}`;
    }

    private showFoot(): void {
        const { map } = this;
        if (!map) return;
        const ramp = make('span', { class: 'ramp', 'aria-hidden': 'true' });
        for (const { level, from } of heatSteps(this.most)) {
            const i = make('i', { title: `${from} or more` });
            i.style.background = color(`heat-${level}`, this);
            ramp.append(i);
        }
        const parts: (Node | null)[] = [
            make('span', { class: 'legend' }, '1', ramp, `${count(this.most)} request${this.most === 1 ? '' : 's'} in a cell`),
            map.cells.some((c) => c[3]) ? make('span', { class: 'legend' }, make('i', { class: 'dot' }), 'failed') : null,
        ];
        if (this.hasAttribute('percentiles')) {
            for (const [name, dash] of [['p50', ''], ['p95', '6 3'], ['p99', '2 3']] as const) {
                parts.push(make('span', { class: 'legend' }, svg('svg', { width: 22, height: 8, 'aria-hidden': 'true' },
                    svg('line', { x1: 0, y1: 4, x2: 22, y2: 4, stroke: 'currentColor', 'stroke-width': 1.5, 'stroke-dasharray': dash || null })), name));
            }
        }
        if (map.truncated) parts.push(make('span', { class: 'note' }, 'Not all of this time is kept: the oldest requests are missing.'));
        else if (map.kept < map.seen) {
            parts.push(make('span', { class: 'note', title: 'Of busy seconds the store keeps failed and slow requests first, then a sample.' },
                `${count(map.kept)} of ${count(map.seen)} requests of this time are kept.`));
        }
        parts.push(make('span', { class: 'hint' }, `Drag to choose requests · local time, ${zone(map.to)}`));
        clear(this.foot, ...parts);
    }

    // ---- drawing --------------------------------------------------------------------------------

    private coarse(): boolean {
        return matchMedia('(pointer: coarse)').matches;
    }

    private columnsMax(): number {
        return Math.max(10, Math.min(240, Math.floor((this.width - LEFT - RIGHT) / (this.coarse() ? 8 : 7))));
    }

    private rowsMax(): number {
        const height = (this.number('height') ?? 260) - TOP - BOTTOM;
        return Math.max(8, Math.min(60, Math.floor(height / (this.coarse() ? 11 : 7))));
    }

    private resize(): void {
        const width = this.clientWidth;
        if (!width || width === this.width) return;
        const first = !this.width;
        const before = this.columnsMax();
        this.width = width;
        if (first || this.columnsMax() !== before) this.refresh();
        this.planDraw();
    }

    private planDraw(): void {
        if (this.frame) return;
        this.frame = requestAnimationFrame(() => {
            this.frame = 0;
            this.draw();
        });
    }

    private box(): Box {
        const height = this.number('height') ?? 260;
        return { left: LEFT, top: TOP, width: Math.max(1, this.width - LEFT - RIGHT), height: height - TOP - BOTTOM };
    }

    private themeColors(): Colors {
        const names = ['card', 'ink', 'ink-soft', 'ink-faint', 'line', 'accent', 'focus', 'bad', 'warn'] as const;
        const [card, ink, soft, faint, line, accent, focus, bad, warn] = names.map((n) => color(n, this));
        return this.colors ??= {
            heat: Array.from({ length: 10 }, (_, i) => color(`heat-${i}`, this)),
            card, ink, soft, faint, line, accent, focus, bad, warn,
            font: `11px ${getComputedStyle(this).fontFamily}`,
        };
    }

    private picture(): Picture | null {
        const { map } = this;
        if (!map || !map.rows || !this.width) return null;
        const slo = this.objectives
            ? { ttft: this.objectives.ttft_s, itl: this.objectives.itl_s, total: this.objectives.total_s, queue: null, tokens_per_s: null }[map.metric]
            : null;
        const drag = this.dragged();
        return {
            map, most: this.most, box: this.box(), colors: this.themeColors(), slo,
            columns: this.hasAttribute('percentiles') ? columnStats(map) : null,
            chosen: drag ? cellsOfRect(map, drag) : this.chosen,
            hover: this.pointer < 0 ? this.hover : null, cursor: this.cursor,
        };
    }

    private draw(): void {
        const p = this.picture();
        if (!p || this.plot.hidden) return;
        const ratio = devicePixelRatio || 1;
        const width = this.width;
        const height = this.number('height') ?? 260;
        if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
            this.canvas.width = Math.round(width * ratio);
            this.canvas.height = Math.round(height * ratio);
        }
        const g = this.canvas.getContext('2d')!;
        g.setTransform(ratio, 0, 0, ratio, 0, 0);
        g.clearRect(0, 0, width, height);
        paint(g, p);
    }

    // ---- choosing -------------------------------------------------------------------------------

    private at(e: PointerEvent): { at: At; below: boolean; inside: boolean } | null {
        const { map } = this;
        if (!map || !map.rows) return null;
        const r = this.canvas.getBoundingClientRect();
        const b = this.box();
        const x = e.clientX - r.left - b.left;
        const y = e.clientY - r.top - b.top;
        const clamp = (v: number, most: number) => Math.min(most - 1, Math.max(0, Math.floor(v)));
        return {
            at: { column: clamp((x / b.width) * map.columns, map.columns), row: clamp((1 - y / b.height) * map.rows, map.rows) },
            below: y > b.height,
            inside: x >= 0 && x <= b.width && y >= 0 && y <= b.height,
        };
    }

    private dragged(): Rect | null {
        if (!this.anchor || !this.moving || !this.map) return null;
        const r = rectOf(this.anchor, this.moving);
        return this.wholeColumns ? { ...r, r0: 0, r1: this.map.rows - 1 } : r;
    }

    private pointerDown(e: PointerEvent): void {
        const found = this.at(e);
        if (!found || e.button !== 0) return;
        this.cursor = null;
        this.canvas.setPointerCapture(e.pointerId);
        this.pointer = e.pointerId;
        this.wholeColumns = found.below;
        this.anchor = this.moving = found.at;
        if (e.shiftKey && this.chosen) {
            // Shift: what is chosen grows to here.
            const r = rectOfCells(this.map!, this.chosen);
            if (r) this.anchor = { column: found.at.column > r.c0 ? r.c0 : r.c1, row: found.at.row > r.r0 ? r.r0 : r.r1 };
        }
        this.planDraw();
    }

    private pointerMove(e: PointerEvent): void {
        const found = this.at(e);
        if (!found) return;
        if (this.pointer === e.pointerId && this.anchor) {
            this.moving = found.at;
            this.showSelectionTip(e.clientX, e.clientY);
            this.planDraw();
        } else {
            this.setHover(found.inside ? found.at : null);
        }
    }

    private pointerUp(e: PointerEvent): void {
        if (this.pointer !== e.pointerId) return;
        const rect = this.dragged();
        this.endDrag();
        if (!rect || !this.map) return;
        const single = rect.c0 === rect.c1 && rect.r0 === rect.r1;
        // A click beside all cells takes the choice back.
        if (single && countIn(this.map, rect).count === 0) {
            const near = this.nearest(rect);
            if (near) this.choose(near);
            else this.clear();
        } else {
            this.choose(rect);
        }
    }

    // Fingers are wider than cells: one beside where they touched will do.
    private nearest(rect: Rect): Rect | null {
        if (!this.coarse()) return null;
        const wide = { c0: rect.c0 - 1, c1: rect.c1 + 1, r0: rect.r0 - 1, r1: rect.r1 + 1 };
        const found = this.map!.cells.find(([c, r]) => c >= wide.c0 && c <= wide.c1 && r >= wide.r0 && r <= wide.r1);
        return found ? { c0: found[0], c1: found[0], r0: found[1], r1: found[1] } : null;
    }

    private endDrag(): void {
        this.pointer = -1;
        this.anchor = this.moving = null;
        this.wholeColumns = false;
        hideTip(this.canvas);
        this.planDraw();
    }

    private choose(rect: Rect): void {
        const cells = cellsOfRect(this.map!, rect);
        this.setAttribute('cells', formatCells(cells));
        this.emit('sonde-cells', { ...cells, metric: this.about.id });
        const { count: n } = countIn(this.map!, rect);
        this.spoken.textContent = `${n} request${n === 1 ? '' : 's'} chosen`;
    }

    private clear(): void {
        if (!this.hasAttribute('cells')) return;
        this.removeAttribute('cells');
        this.emit('sonde-cells', null);
        this.spoken.textContent = 'Nothing is chosen';
    }

    private chooseWorst(): void {
        const rect = this.map ? worstRect(this.map, 0.01, this.about.worse) : null;
        if (rect) this.choose(rect);
    }

    private chooseMetric(m: MetricAbout): void {
        if (m.id === this.about.id) return;
        this.setAttribute('metric', m.id);
        this.removeAttribute('cells');
        this.emit('sonde-metric', { metric: m.id });
    }

    private metricKey(e: KeyboardEvent): void {
        const by = e.key === 'ArrowRight' || e.key === 'ArrowDown' ? 1 : e.key === 'ArrowLeft' || e.key === 'ArrowUp' ? -1 : 0;
        if (!by) return;
        e.preventDefault();
        e.stopPropagation();
        const i = METRICS.indexOf(this.about);
        const next = METRICS[(i + by + METRICS.length) % METRICS.length];
        this.chooseMetric(next);
        this.metrics.querySelector<HTMLButtonElement>(`[data-metric=${next.id}]`)?.focus();
    }

    // ---- keyboard -------------------------------------------------------------------------------

    private startCursor(): At {
        const map = this.map!;
        const chosen = this.chosen ? rectOfCells(map, this.chosen) : null;
        if (chosen) return { column: chosen.c1, row: chosen.r1 };
        // The newest column that has something, at its worst.
        const last = map.cells.reduce((a, b) => (b[0] > a[0] || (b[0] === a[0] && b[1] > a[1]) ? b : a), map.cells[0]);
        return { column: last[0], row: last[1] };
    }

    private keyDown(e: KeyboardEvent): void {
        const { map } = this;
        if (e.key === 'Escape') {
            if (this.anchor) this.endDrag();
            else if (this.hasAttribute('cells')) this.clear();
            else return;
            e.preventDefault();
            e.stopPropagation();
            return;
        }
        if (!map || !map.rows || e.ctrlKey || e.metaKey || e.altKey) return;
        const far = e.key.startsWith('Page') ? 5 : 1;
        const by: Record<string, [number, number]> = {
            ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], PageUp: [0, far], PageDown: [0, -far],
            Home: [-map.columns, 0], End: [map.columns, 0],
        };
        if (e.key === 'Enter' || e.key === ' ') {
            const rect = this.dragged() ?? (this.cursor ? rectOf(this.cursor, this.cursor) : null);
            this.anchor = this.moving = null;
            if (rect) this.choose(rect);
        } else if (by[e.key]) {
            const from = this.cursor;
            const at = from ?? this.startCursor();
            const next = from ? {
                column: Math.min(map.columns - 1, Math.max(0, at.column + by[e.key][0])),
                row: Math.min(map.rows - 1, Math.max(0, at.row + by[e.key][1])),
            } : at;
            this.anchor = e.shiftKey ? this.anchor ?? at : null;
            this.moving = e.shiftKey ? next : null;
            this.cursor = next;
            this.speak();
        } else {
            return;
        }
        e.preventDefault();
        e.stopPropagation();
        this.planDraw();
    }

    private speak(): void {
        const rect = this.dragged() ?? rectOf(this.cursor!, this.cursor!);
        this.spoken.textContent = this.lineOf(rect).join(', ');
        const p = this.picture();
        if (!p) return;
        const b = cellBox(p, this.cursor!.column, this.cursor!.row);
        const r = this.canvas.getBoundingClientRect();
        this.showCard(rect, r.left + b.left + b.width / 2, r.top + b.top + b.height, 'Enter chooses, Shift and arrows widen');
    }

    // ---- words ----------------------------------------------------------------------------------

    private lineOf(rect: Rect): [string, string, string] {
        const map = this.map!;
        const c = cellsOfRect(map, rect);
        const sum = countIn(map, rect);
        return [
            `${clock(c.from)} – ${clock(c.to)}`,
            `${this.about.title}: ${valueText(c.min, map.unit)} – ${valueText(c.max, map.unit)}`,
            `${count(sum.count)} request${sum.count === 1 ? '' : 's'}${sum.failed ? `, ${count(sum.failed)} failed` : ''}`,
        ];
    }

    private showCard(rect: Rect, x: number, y: number, hint: string): void {
        const [time, range, sum] = this.lineOf(rect);
        showTip({ x, y: y + 6 }, this.canvas, make('b', {}, sum), make('p', {}, range), make('p', {}, time), ...(hint ? [make('p', {}, hint)] : []));
    }

    private setHover(at: At | null): void {
        if (at?.column === this.hover?.column && at?.row === this.hover?.row) return;
        this.hover = at;
        this.planDraw();
        const p = at ? this.picture() : null;
        const rect = at ? rectOf(at, at) : null;
        if (!p || !rect || !at || countIn(p.map, rect).count === 0) {
            hideTip(this.canvas);
            return;
        }
        const b = cellBox(p, at.column, at.row);
        const r = this.canvas.getBoundingClientRect();
        this.showCard(rect, r.left + b.left + b.width / 2, r.top + b.top + b.height, '');
    }

    private showSelectionTip(x: number, y: number): void {
        const rect = this.dragged();
        if (rect) this.showCard(rect, x, y + 10, '');
    }

    private describe(): void {
        const { map } = this;
        const what = map ? `${this.about.title} of ${map.counted} requests over time.` : this.about.title;
        this.canvas.setAttribute('aria-label', `${what} Arrow keys move, Shift and arrows widen, Enter chooses, Escape clears. The button Table shows the same as a table.`);
    }

    // ---- table ----------------------------------------------------------------------------------

    private showTable(on: boolean): void {
        this.tableButton.setAttribute('aria-pressed', String(on));
        this.tableBox.hidden = !on;
        this.plot.hidden = on;
        if (on) this.fillTable();
        else this.planDraw();
    }

    private fillTable(): void {
        const map = this.map!;
        const head = make('tr');
        for (const t of ['Arrived', 'Requests', 'Failed', 'p50', 'p95', 'p99', 'Lowest', 'Highest']) head.append(make('th', { scope: 'col' }, t));
        const body = make('tbody');
        const stats = columnStats(map);
        for (let c = map.columns - 1; c >= 0; c--) {
            const s = stats[c];
            if (!s.count) continue;
            const from = map.from + c * map.step_s;
            const value = (v: number | null) => make('td', {}, v === null ? '–' : valueText(v, map.unit));
            body.append(make('tr', {},
                make('th', { scope: 'row' }, button(`${clock(from)} – ${clock(from + map.step_s)}`, 'Choose the requests of this time',
                    () => this.choose({ c0: c, c1: c, r0: 0, r1: map.rows - 1 }))),
                make('td', {}, count(s.count)), make('td', { class: s.failed ? 'failed' : null }, count(s.failed)),
                value(s.p50), value(s.p95), value(s.p99), value(s.low), value(s.high)));
        }
        clear(this.tableBox, make('table', {},
            make('caption', { class: 'sr' }, `${this.about.title} by time of arrival`), make('thead', {}, head), body));
    }
}

define('sonde-heatmap', HeatmapElement);
