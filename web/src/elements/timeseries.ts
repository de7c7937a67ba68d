// <sonde-timeseries>: series over time, drawn by uPlot. See docs/dashboard.md for its attributes.
//
// A drag selects a range (event sonde-range), with Shift a second one (sonde-base), a double click
// zooms out. The keyboard does the same: arrows move the cursor, Enter begins and ends a selection.

import uPlot from 'uplot';
import uplotCss from 'uplot/dist/uPlot.min.css';
import { Board, Handle, boardOf } from '../core/board';
import { keepFocus, make } from '../core/dom';
import { SondeElement, define } from '../core/element';
import { clock, inUnit } from '../core/format';
import { now } from '../core/now';
import {
    Aggregate, Line, LineSpec, STATS, Selector, Stat, bridged, csv, isolated, linesOf, stacked, valuesOf,
} from '../core/series';
import { empty, failed, loading } from '../core/states';
import { color, onTheme, phaseColor } from '../core/theme';
import { explain, hideTip, showTip } from '../core/tip';
import { AgentEvent } from '../core/types';
import css from '../styles/timeseries.css';
import { increments, tickLabel, timeLabels, unitName, valueRange, wholeIncrements } from './timeseries/axis';

const COLORS = 8;
const TABLE_ROWS = 240;
const NEAR_PX = 5;
const HOLD_MS = 350;

// Words that have their colour everywhere.
const MEANING: Record<string, string> = {
    ...Object.fromEntries(['queue', 'encode', 'prefill', 'decode', 'sample', 'detokenize', 'text'].map((p) => [p, phaseColor(p)])),
    ok: 's3', met: 's3', cancelled: 'q-queue', timeout: 's4', error: 's8', missed: 's8', lost: 's7',
    weights: 's1', kv: 's7', compute: 's4', activations: 's4', output: 's4',
    user: 's1', system: 's2', nice: 's3', iowait: 's8', irq: 's5', softirq: 's4', steal: 's7',
};

interface Shown { line: Line; raw: (number | null)[]; name: string; color: string; hidden: boolean }

function words(text: string): string[] {
    return text.split(/\s+/).filter((w) => w !== '');
}

class Timeseries extends SondeElement {
    static observedAttributes = [
        'name', 'stat', 'group', 'stack', 'unit', 'range', 'height', 'title', 'heading', 'label', 'process', 'pid',
        'model', 'route', 'agg', 'each', 'most', 'scale', 'zero', 'max', 'base', 'metric', 'empty', 'whole', 'names', 'color',
    ];

    private readonly heading = make('h2');
    private readonly unitBox = make('small');
    private readonly at = make('span', { class: 'at' });
    private readonly legend = make('ul', { class: 'legend' });
    private readonly plotBox = make('div', { class: 'plot', tabindex: '0', role: 'img' });
    private readonly tableBox = make('div', { class: 'table', hidden: true, tabindex: '0' });
    private readonly stateBox = make('div', { class: 'state' });
    private readonly spoken = make('div', { class: 'sr', 'aria-live': 'polite' });
    private readonly tableButton = make('button', { type: 'button', 'aria-pressed': 'false', title: 'Show as a table' }, 'Table');
    private readonly saveButton = make('button', { type: 'button', title: 'Save what is shown as CSV' }, 'CSV');
    private plot: uPlot | null = null;
    private plotKey = '';
    private handle: Handle | null = null;
    private handleKey = '';
    private shown: Shown[] = [];
    private readonly muted = new Set<string>();
    private readonly colors = new Map<string, number>();
    private unit = '';
    private size = { width: 0, height: 0 };
    private visible = true;
    private dirty = false;
    private shift = false;      // the drag that is under way is for a second range
    private chosen = -1;        // where a selection by keyboard began
    private cursor = -1;
    private explained = '';
    private stateKind = '';

    constructor() {
        super(`${uplotCss}\n${css}`);
        const tools = make('span', { class: 'tools' }, this.tableButton, this.saveButton);
        this.tableButton.addEventListener('click', () => this.showTable(this.tableBox.hidden));
        this.saveButton.addEventListener('click', () => this.save());
        this.root.append(make('figure', {},
            make('figcaption', {}, this.heading, this.unitBox, this.at, tools),
            this.legend, this.stateBox, this.plotBox, this.tableBox, this.spoken));
        this.plotBox.addEventListener('keydown', (e) => this.key(e));
        this.plotBox.addEventListener('blur', () => { this.spoken.textContent = ''; });
        this.tableBox.addEventListener('keydown', (e) => {
            if (e.key !== 't' || e.ctrlKey || e.metaKey || e.altKey) return;
            e.preventDefault();
            e.stopPropagation();
            this.showTable(false);
        });
        this.touch();
    }

    override connectedCallback(): void {
        super.connectedCallback();
        const resized = new ResizeObserver(() => this.resize());
        resized.observe(this.plotBox);
        const seen = new IntersectionObserver((entries) => {
            this.visible = entries[entries.length - 1]?.isIntersecting ?? true;
            if (this.visible && this.dirty) this.draw();
        }, { rootMargin: '100px' });
        seen.observe(this);
        this.onEnd(() => { resized.disconnect(); seen.disconnect(); });
        this.onEnd(onTheme(() => { this.plotKey = ''; this.draw(); }));
        this.onEnd(() => {
            this.handle?.close();
            this.handle = null;
            this.handleKey = '';
            this.drop();
            hideTip(this.plotBox);
        });
    }

    protected update(): void {
        // A title attribute would be a tooltip over the whole chart.
        const title = this.getAttribute('title');
        if (title !== null) {
            this.setAttribute('heading', title);
            this.removeAttribute('title');
        }
        this.heading.textContent = this.text('heading');
        const metric = this.text('metric');
        if (metric && metric !== this.explained) {
            this.explained = metric;
            this.heading.tabIndex = 0;
            explain(this.heading, metric);
        }
        const height = this.number('height') ?? 150;
        this.plotBox.style.height = `${height}px`;
        this.tableBox.style.height = `${height}px`;
        this.stateBox.style.minHeight = `${height}px`;

        const selector = this.selector();
        const range = this.text('range', '900');
        const key = JSON.stringify([this.api.base, range, selector, this.stats()]);
        if (key !== this.handleKey) {
            const before = this.handle;
            this.handleKey = key;
            this.handle = boardOf(this.api, range).use(selector, this.stats(), () => this.changed());
            before?.close(); // after: a board that both use goes on
        }
        this.plotKey = '';
        this.changed();
    }

    private selector(): Selector {
        const labels: [string, string][] = [];
        for (const part of this.text('label').split(';')) {
            const at = part.indexOf(':');
            if (at > 0) labels.push([part.slice(0, at).trim(), part.slice(at + 1)]);
        }
        for (const filter of ['model', 'route']) {
            const v = this.getAttribute(filter);
            if (v) labels.push([filter, v]);
        }
        return { names: words(this.text('name')), labels, process: this.getAttribute('process'), pid: this.getAttribute('pid') };
    }

    private stats(): Stat[] {
        const asked = words(this.text('stat')).filter((s): s is Stat => (STATS as readonly string[]).includes(s));
        return asked.length ? asked : ['value'];
    }

    // names="series=what to call it;…"
    private names(): Map<string, string> {
        return new Map(this.text('names').split(';').filter((p) => p.includes('=')).map((p) => {
            const at = p.indexOf('=');
            return [p.slice(0, at).trim(), p.slice(at + 1)];
        }));
    }

    private spec(): LineSpec {
        const agg = this.text('agg', 'sum');
        return {
            stats: this.stats(),
            group: words(this.text('group')),
            each: this.hasAttribute('each'),
            aggregate: (['sum', 'avg', 'max', 'min'].includes(agg) ? agg : 'sum') as Aggregate,
            most: this.number('most') ?? 12,
            scale: this.number('scale') ?? 1,
        };
    }

    private get board(): Board | null {
        return this.handle?.board ?? null;
    }

    // ---- data → lines ---------------------------------------------------------------------------

    private changed(): void {
        if (!this.visible && this.plot) {
            this.dirty = true;
            return;
        }
        this.draw();
    }

    private lineColor(line: Line, key: string, group: readonly string[]): string {
        if (line.other) return color('ink-faint', this);
        const known = MEANING[line.label];
        if (known && group.length) return color(known, this);
        const asked = this.getAttribute('color');
        if (asked && !line.label) return color(asked, this);
        if (/^p\d\d$/.test(line.stat) && !line.label) return color(line.stat, this);
        let n = this.colors.get(key);
        if (n === undefined) {
            n = this.colors.size % COLORS;
            this.colors.set(key, n);
        }
        return color(`s${n + 1}`, this);
    }

    private draw(): void {
        this.dirty = false;
        const handle = this.handle;
        if (!handle || !this.isConnected) return;
        if (handle.error()) {
            this.showState('error', () => failed(handle.error(), () => { this.showState('', null); handle.board.retry(); }));
            return;
        }
        if (!handle.loaded()) {
            if (!this.plot) this.showState('loading', () => loading(`Loading ${this.text('heading')}`));
            return;
        }
        const tracks = handle.tracks();
        const spec = this.spec();
        const { lines, left, aggregate } = linesOf(tracks, spec, this.names());
        if (!lines.length) {
            this.shown = [];
            this.showState('empty', () => empty('No data in this range', this.text('empty')));
            return;
        }
        this.showState('', null);
        this.unit = this.getAttribute('unit') ?? this.unitOf(lines[0]);
        this.unitBox.textContent = unitName(this.unit);
        const grid = handle.board.grid;
        this.shown = lines.map((line) => {
            const name = line.label && spec.stats.length > 1 && lines.some((l) => l.label === line.label && l.stat !== line.stat)
                ? `${line.label} ${line.stat}` : line.label || (line.stat === 'value' ? this.text('heading') : line.stat);
            return {
                line, name, raw: valuesOf(line, grid, aggregate, spec.scale),
                color: this.lineColor(line, line.key, spec.group), hidden: this.muted.has(line.key),
            };
        });
        const notes: string[] = [];
        if (left) notes.push(`${left} smaller are not shown`);
        if (spec.stats.length > 1 && lines.every((l) => l.stat === lines[0].stat)) notes.push(`${lines[0].stat} of each`);
        if (handle.board.truncated) notes.push('not all series were sent');
        this.drawLegend(notes);
        this.drawPlot();
        if (!this.tableBox.hidden) this.drawTable();
        this.drawValues();
        this.plotBox.classList.toggle('stale', handle.board.liveState?.status === 'stale');
    }

    private unitOf(line: Line): string {
        const t = line.tracks[0];
        if (!t) return '';
        if (t.type === 'counter' || (t.type === 'histogram' && line.stat === 'value')) {
            if (t.type === 'counter' && t.unit === 'seconds') return /cpu/.test(t.name) ? 'cores' : 'ratio';
            return t.type === 'counter' && t.unit ? `${t.unit}/s` : '/s';
        }
        return t.unit;
    }

    private get stack(): boolean {
        return this.hasAttribute('stack') && this.shown.length > 1;
    }

    private drawnData(): uPlot.AlignedData {
        const grid = this.board!.grid;
        const times = new Array<number>(grid.count);
        // In the middle of its step a value is where it was measured, and brushes catch it.
        for (let i = 0; i < grid.count; i++) times[i] = grid.time(i) + grid.step / 2;
        const values = this.shown.map((s) => s.hidden ? s.raw.map(() => null) : s.raw);
        const drawn = this.stack ? stacked(values) : values;
        return [times, ...drawn.map((v) => bridged(v, grid.step))] as uPlot.AlignedData;
    }

    // ---- the drawing ----------------------------------------------------------------------------

    private drop(): void {
        this.plot?.destroy();
        this.plot = null;
        this.plotKey = '';
    }

    private resize(): void {
        const { clientWidth: width, clientHeight: height } = this.plotBox;
        if (width === this.size.width && height === this.size.height) return;
        this.size = { width, height };
        if (!width || !height) return;
        if (this.plot) this.plot.setSize({ width, height });
        else this.changed();
    }

    private drawPlot(): void {
        if (!this.size.width) {
            this.size = { width: this.plotBox.clientWidth, height: this.plotBox.clientHeight };
            if (!this.size.width) return;
        }
        const key = JSON.stringify([this.unit, this.stack, this.shown.map((s) => [s.line.key, s.color, s.hidden])]);
        if (this.plot && key === this.plotKey) {
            this.plot.setData(this.drawnData(), true);
            return;
        }
        this.drop();
        this.plotKey = key;
        this.plot = new uPlot(this.options(), this.drawnData(), this.plotBox);
        const over = this.plot.over;
        over.addEventListener('mousedown', (e) => {
            this.shift = e.shiftKey;
            this.plotBox.classList.toggle('base', e.shiftKey);
        });
        over.addEventListener('dblclick', () => this.zoom(2));
        over.addEventListener('mouseleave', () => hideTip(this.plotBox));
    }

    private options(): uPlot.Options {
        const ink = color('ink-faint', this);
        const line = color('line', this);
        const font = `11px ${getComputedStyle(this).fontFamily}`;
        const stack = this.stack;
        const unit = this.unit;
        const fill = this.shown.filter((s) => !s.hidden).length === 1 && !this.hasAttribute('stack');
        const axis = { stroke: ink, font, ticks: { show: false }, grid: { stroke: line, width: 1 } };
        return {
            ...this.size,
            padding: [6, 8, 0, 0],
            legend: { show: false },
            cursor: {
                y: false,
                drag: { x: true, y: false, setScale: false, dist: 4 },
                points: { size: 7, width: 2, fill: () => color('card', this) },
                sync: {
                    key: `sonde ${this.text('range', '900')}`,
                    scales: ['x', null],
                    // Others follow the cursor; a selection is this chart's alone.
                    filters: { pub: (type) => type === 'mousemove' || type === 'mouseleave', sub: () => true },
                } as uPlot.Cursor.Sync,
            },
            scales: {
                x: { time: true, range: () => { const w = this.board!.window(); return [w.from, w.to]; } },
                y: {
                    range: (_u, min, max) => valueRange(min, max, this.text('zero') !== 'no', this.number('max')),
                },
            },
            axes: [
                { ...axis, size: 20, gap: 4, values: (u, splits, _a, _s, incr) => this.timeTexts(u, splits, incr), space: 76 },
                {
                    ...axis, gap: 4, space: 28, incrs: this.hasAttribute('whole') ? wholeIncrements(unit) : increments(unit),
                    values: (_u, splits) => splits.map((v) => tickLabel(v, unit)),
                    size: (u, values) => this.labelWidth(u, values, font),
                },
            ],
            series: [{}, ...this.shown.map((s): uPlot.Series => ({
                show: !s.hidden,
                stroke: s.color,
                width: stack ? 0 : 1.6,
                fill: stack || fill ? alpha(s.color, stack ? 0.72 : 0.1) : undefined,
                points: {
                    show: true, size: 4, fill: s.color, stroke: s.color,
                    filter: (u, i, show) => show ? isolated(u.data[i], ...u.series[0].idxs!) : null,
                },
            }))],
            bands: stack ? this.stackBands() : undefined,
            hooks: {
                setCursor: [(u) => this.cursorMoved(u)],
                setSelect: [(u) => this.selected(u)],
                draw: [(u) => this.drawMarks(u)],
            },
        };
    }

    // One that would be cut off at the edge is left out.
    private timeTexts(u: uPlot, splits: number[], increment: number): string[] {
        const { from, to } = this.board!.window();
        const texts = timeLabels(splits, increment);
        const perSecond = u.bbox.width / uPlot.pxRatio / (to - from);
        return texts.map((text, i) => (to - splits[i]) * perSecond + 14 < text.length * 3.2 ? '' : text);
    }

    // Each area reaches down to the next one below that is shown.
    private stackBands(): uPlot.Band[] {
        const bands: uPlot.Band[] = [];
        let below = 0;
        this.shown.forEach((s, i) => {
            if (s.hidden) return;
            if (below) bands.push({ series: [i + 1, below], fill: alpha(s.color, 0.72) });
            below = i + 1;
        });
        return bands;
    }

    private labelWidth(u: uPlot, values: string[] | null, font: string): number {
        if (!values) return 40;
        u.ctx.save();
        u.ctx.font = font;
        const width = Math.max(...values.map((v) => u.ctx.measureText(v ?? '').width));
        u.ctx.restore();
        return Math.ceil(Math.max(28, width + 10));
    }

    private drawMarks(u: uPlot): void {
        const board = this.board;
        if (!board) return;
        const { ctx, bbox } = u;
        ctx.save();
        const base = /^([\d.]+)\.\.([\d.]+)$/.exec(this.text('base'));
        if (base) {
            const a = u.valToPos(Number(base[1]), 'x', true);
            const b = u.valToPos(Number(base[2]), 'x', true);
            ctx.fillStyle = alpha(color('s2', this), 0.16);
            const left = Math.max(a, bbox.left);
            const right = Math.min(b, bbox.left + bbox.width);
            if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
        }
        ctx.lineWidth = Math.max(1, Math.round(uPlot.pxRatio));
        ctx.setLineDash([3 * uPlot.pxRatio, 3 * uPlot.pxRatio]);
        const { from, to } = board.window();
        for (const e of board.events) {
            if (e.time < from || e.time > to) continue;
            const x = Math.round(u.valToPos(e.time, 'x', true)) + 0.5;
            ctx.strokeStyle = eventColor(e, this);
            ctx.beginPath();
            ctx.moveTo(x, bbox.top);
            ctx.lineTo(x, bbox.top + bbox.height);
            ctx.stroke();
        }
        ctx.restore();
    }

    // ---- the cursor -----------------------------------------------------------------------------

    private cursorMoved(u: uPlot): void {
        const i = u.cursor.idx ?? null;
        this.cursor = i !== null && u.cursor.left !== undefined && u.cursor.left >= 0 ? i : -1;
        this.drawValues();
        const event = u.cursor.event;
        if (event && this.cursor >= 0) this.eventTip(u);
        else hideTip(this.plotBox);
    }

    private eventTip(u: uPlot): void {
        const left = u.cursor.left ?? -1;
        let best: AgentEvent | null = null;
        let distance = NEAR_PX + 1;
        for (const e of this.board?.events ?? []) {
            const d = Math.abs(u.valToPos(e.time, 'x') - left);
            if (d < distance) {
                best = e;
                distance = d;
            }
        }
        if (!best) {
            hideTip(this.plotBox);
            return;
        }
        const rect = u.over.getBoundingClientRect();
        showTip({ x: rect.left + u.valToPos(best.time, 'x'), y: rect.top + rect.height * 0.6 }, this.plotBox,
            make('b', {}, best.text), make('p', {}, `${clock(best.time)}${best.process ? ` · ${best.process}` : ''}`));
    }

    private valueAt(s: Shown, i: number): number | null {
        if (i >= 0) return s.raw[i] ?? null;
        for (let k = s.raw.length - 1; k >= 0; k--) if (s.raw[k] !== null) return s.raw[k]!;
        return null;
    }

    private drawValues(): void {
        const grid = this.board?.grid;
        if (!grid) return;
        const at = this.cursor;
        const time = at >= 0 ? clock(grid.time(at), false, now()) : '';
        if (this.at.textContent !== time) this.at.textContent = time;
        const values = this.legend.querySelectorAll('b');
        this.shown.forEach((s, i) => {
            const b = values[i];
            const text = inUnit(this.valueAt(s, at), this.unit);
            if (b && b.textContent !== text) b.textContent = text;
        });
    }

    private drawLegend(notes: string[]): void {
        const key = JSON.stringify([this.shown.map((s) => [s.name, s.color, s.hidden]), notes, this.stack]);
        if (this.legend.dataset['key'] === key) return;
        this.legend.dataset['key'] = key;
        this.legend.classList.toggle('areas', this.stack);
        const items = this.shown.map((s) => {
            const swatch = make('i');
            swatch.style.background = s.color;
            const b = make('button', {
                type: 'button', 'aria-pressed': String(!s.hidden), title: `${s.name}: click to hide or show, with Shift only this`,
            }, swatch, make('span', { class: s.name === this.text('heading') ? 'sr' : null }, s.name), make('b'));
            b.addEventListener('click', (e) => this.toggle(s, e.shiftKey));
            return make('li', {}, b);
        });
        keepFocus(this.legend, () => this.legend.replaceChildren(...items, ...notes.map((n) => make('li', { class: 'note' }, n))));
        this.plotBox.setAttribute('aria-label',
            `Chart: ${this.text('heading')}. ${this.shown.map((s) => s.name).join(', ')}. Arrow keys move the cursor, Enter begins a selection.`);
    }

    private toggle(s: Shown, only: boolean): void {
        const key = s.line.key;
        if (only) {
            const alone = this.shown.every((o) => (o.line.key === key) !== o.hidden);
            this.muted.clear();
            if (!alone) for (const o of this.shown) if (o.line.key !== key) this.muted.add(o.line.key);
        } else if (!this.muted.delete(key)) {
            this.muted.add(key);
        }
        this.draw();
    }

    // ---- selections -----------------------------------------------------------------------------

    private selected(u: uPlot): void {
        const { left, width } = u.select;
        if (width <= 0) return;
        const from = u.posToVal(left, 'x');
        const to = u.posToVal(left + width, 'x');
        u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        this.plotBox.classList.remove('base');
        this.select(from, to, this.shift);
        this.shift = false;
    }

    private select(from: number, to: number, second: boolean): void {
        if (!(to > from)) return;
        this.emit(second ? 'sonde-base' : 'sonde-range', { from, to });
    }

    private zoom(factor: number): void {
        const { from, to } = this.board!.window();
        const middle = this.cursor >= 0 && factor < 1 ? this.board!.grid.time(this.cursor) : (from + to) / 2;
        const half = (to - from) * factor / 2;
        this.emit('sonde-range', { from: middle - half, to: middle + half, zoom: factor });
    }

    private key(e: KeyboardEvent): void {
        const u = this.plot;
        const grid = this.board?.grid;
        if (!u || !grid || e.ctrlKey || e.metaKey || e.altKey) return;
        const last = grid.count - 1;
        const at = this.cursor >= 0 ? this.cursor : last;
        let next = -1;
        switch (e.key) {
            case 'ArrowLeft': next = Math.max(0, at - (e.shiftKey ? 10 : 1)); break;
            case 'ArrowRight': next = Math.min(last, at + (e.shiftKey ? 10 : 1)); break;
            case 'Home': next = 0; break;
            case 'End': next = last; break;
            case '+': case '=': this.zoom(0.5); break;
            case '-': case '_': this.zoom(2); break;
            case 't': this.showTable(this.tableBox.hidden); break;
            case 'Enter':
                if (this.cursor < 0) break;
                if (this.chosen < 0) {
                    this.chosen = this.cursor;
                    this.spoken.textContent = 'Selection begins. Move with the arrows, Enter ends it, Shift and Enter make it the second range.';
                } else {
                    const a = Math.min(this.chosen, this.cursor);
                    const b = Math.max(this.chosen, this.cursor);
                    this.chosen = -1;
                    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
                    this.select(grid.time(a), grid.time(b) + grid.step, e.shiftKey);
                }
                break;
            case 'Escape':
                if (this.chosen < 0) return;
                this.chosen = -1;
                u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
                break;
            default: return;
        }
        e.preventDefault();
        e.stopPropagation();
        if (next < 0) return;
        const left = u.valToPos(grid.time(next) + grid.step / 2, 'x');
        u.setCursor({ left, top: u.over.clientHeight / 2 });
        if (this.chosen >= 0) {
            const a = u.valToPos(grid.time(Math.min(this.chosen, next)), 'x');
            const b = u.valToPos(grid.time(Math.max(this.chosen, next)) + grid.step, 'x');
            u.setSelect({ left: a, top: 0, width: b - a, height: u.over.clientHeight }, false);
        }
        this.spoken.textContent = `${clock(grid.time(next))}: ${this.shown.filter((s) => !s.hidden)
            .map((s) => `${s.name} ${inUnit(this.valueAt(s, next), this.unit)}`).join(', ')}`;
    }

    // A finger moves the cursor; held down first, it selects.
    private touch(): void {
        let timer = 0;
        let from = -1;
        const left = (e: PointerEvent) => {
            const rect = this.plot!.over.getBoundingClientRect();
            return Math.min(rect.width, Math.max(0, e.clientX - rect.left));
        };
        this.plotBox.addEventListener('pointerdown', (e) => {
            if (e.pointerType !== 'touch' || !this.plot) return;
            this.plot.setCursor({ left: left(e), top: 10 });
            timer = window.setTimeout(() => { from = left(e); navigator.vibrate?.(10); }, HOLD_MS);
        });
        this.plotBox.addEventListener('pointermove', (e) => {
            if (e.pointerType !== 'touch' || !this.plot) return;
            window.clearTimeout(timer);
            const x = left(e);
            this.plot.setCursor({ left: x, top: 10 });
            if (from >= 0) {
                this.plot.setSelect({
                    left: Math.min(from, x), top: 0, width: Math.abs(x - from), height: this.plot.over.clientHeight,
                }, false);
            }
        });
        const end = (e: PointerEvent) => {
            window.clearTimeout(timer);
            if (e.pointerType !== 'touch' || !this.plot || from < 0) return;
            from = -1;
            if (e.type === 'pointerup') this.selected(this.plot);
        };
        this.plotBox.addEventListener('pointerup', end);
        this.plotBox.addEventListener('pointercancel', end);
    }

    // ---- as a table, as a file ------------------------------------------------------------------

    private showTable(on: boolean): void {
        const focused = this.root.activeElement === (on ? this.plotBox : this.tableBox);
        this.tableButton.setAttribute('aria-pressed', String(on));
        this.tableBox.hidden = !on;
        this.plotBox.hidden = on;
        if (on) this.drawTable();
        else this.draw();
        // What had the focus is gone: the same key leads back from what is there instead.
        if (focused) (on ? this.tableBox : this.plotBox).focus();
    }

    private drawTable(): void {
        const grid = this.board!.grid;
        const top = this.tableBox.scrollTop;
        const body = make('tbody');
        let rows = 0;
        for (let i = grid.count - 1; i >= 0 && rows < TABLE_ROWS; i--) {
            if (this.shown.every((s) => s.raw[i] === null)) continue;
            rows++;
            body.append(make('tr', {}, make('td', {}, clock(grid.time(i))),
                ...this.shown.map((s) => make('td', {}, inUnit(s.raw[i], this.unit)))));
        }
        this.tableBox.replaceChildren(make('table', { 'aria-label': this.text('heading') },
            make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'Time'),
                ...this.shown.map((s) => make('th', { scope: 'col' }, s.name)))),
            body));
        this.tableBox.scrollTop = top;
    }

    private save(): void {
        const grid = this.board?.grid;
        if (!grid) return;
        const rows: (string | number | null)[][] = [];
        for (let i = 0; i < grid.count; i++) {
            if (this.shown.every((s) => s.raw[i] === null)) continue;
            rows.push([new Date(grid.time(i) * 1000).toISOString(), ...this.shown.map((s) => s.raw[i]!)]);
        }
        const text = csv(['time', ...this.shown.map((s) => this.unit ? `${s.name} (${this.unit})` : s.name)], rows);
        const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
        const a = make('a', { href: url, download: `${(this.text('heading') || 'series').replace(/[^\w-]+/g, '_')}.csv` });
        a.click();
        window.setTimeout(() => URL.revokeObjectURL(url), 10000);
    }

    private showState(kind: string, content: (() => HTMLElement) | null): void {
        const table = !this.tableBox.hidden;
        if (kind) {
            this.drop();
            this.plotBox.hidden = true;
            this.tableBox.hidden = true;
            this.legend.replaceChildren();
            this.unitBox.textContent = '';
            delete this.legend.dataset['key'];
            this.at.textContent = '';
            if (kind !== this.stateKind || kind === 'error') this.stateBox.replaceChildren(content!());
        } else if (this.stateKind) {
            this.stateBox.replaceChildren();
            this.plotBox.hidden = table;
        }
        this.stateBox.hidden = !kind;
        this.stateKind = kind;
    }
}

function alpha(hex: string, a: number): string {
    const h = Math.round(a * 255).toString(16).padStart(2, '0');
    return /^#[0-9a-f]{6}$/i.test(hex) ? hex + h : hex;
}

function eventColor(e: AgentEvent, of: Element): string {
    switch (e.kind) {
        case 'finding': return color(e.severity === 'critical' || e.severity === 'error' ? 'bad' : 'warn', of);
        case 'mark': return color('accent', of);
        case 'end': return color('bad', of);
        default: return color('line-strong', of);
    }
}

define('sonde-timeseries', Timeseries);
