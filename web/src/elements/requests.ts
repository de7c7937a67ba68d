// <sonde-requests>: requests as a table, those that run on top. Only the rows in sight are in the
// document, so ten thousand are no more work than thirty.
//
//   range         seconds until now (live), or FROM..TO; or from and to
//   metric, min, max   those whose figure is in [min, max), as a cell of <sonde-heatmap>
//   model, route, process (globs), pid, outcome, source   which requests
//   sort          a column, "ttft", or "ttft-up" for the smallest first
//   limit         how many are asked for; 1000 unless given
//   height        of the table in pixels; 420 unless given, "fill" takes what its box has
//   request       id of the one that is open elsewhere: its row is marked
//
// Events: sonde-request {id}, sonde-sort {sort}, sonde-filter {key, value}.

import { aborted } from '../core/api';
import { button, clear, make } from '../core/dom';
import { SondeElement, define } from '../core/element';
import { clock, count, seconds } from '../core/format';
import { isFailed } from '../core/heat';
import { now } from '../core/now';
import { PHASE_LIST, phaseTitle, segmentsOf } from '../core/phases';
import { empty, failed, loading } from '../core/states';
import { phaseColor } from '../core/theme';
import { explain, hideTip, showTip } from '../core/tip';
import { Request, Requests } from '../core/types';
import css from '../styles/requests.css';
import {
    Order, RequestColumn, belowName, columnsIn, csvOf, formatOrder, inOrder, merged, outcomeText, parseOrder, requestName, serverSort,
} from './requests/columns';
import './terms';

const FILTERS = ['model', 'route', 'process', 'pid', 'outcome', 'source'];
const QUESTION = ['range', 'from', 'to', 'metric', 'min', 'max', ...FILTERS];
const LIMIT = 1000;
const LIMIT_MOST = 10000;
const BAR_PX = 150;
const NARROW_BAR_PX = 100;
const OUTCOMES = ['ok', 'error', 'cancelled', 'timeout', 'lost'];
const POLL_MS = 2000;
const POLL_SECONDS = 60;    // of arrival that a poll asks for again
const POLL_LIMIT = 200;
const RELOAD_MS = 30000;    // what ended late is found by then
const PATIENCE = 40;        // an answer that took long is asked for so much less often

interface Answer extends Requests { kept?: number; seen?: number; truncated?: boolean }

function save(name: string, type: string, text: string): void {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const a = make('a', { href: url, download: name });
    document.body.append(a);
    a.click();
    a.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}

class RequestsElement extends SondeElement {
    static observedAttributes = [...QUESTION, 'sort', 'limit', 'height', 'request'];

    private readonly sum = make('span', { class: 'sum', role: 'status' });
    private readonly chips = make('span', { class: 'chips' });
    private readonly fresh: HTMLButtonElement;
    private readonly find = make('input', {
        type: 'search', placeholder: 'Find id or trace', 'aria-label': 'Find a request by id or trace', spellcheck: 'false', autocomplete: 'off',
    });
    private readonly stateBox = make('div', { class: 'state' });
    private readonly grid = make('div', { class: 'grid', role: 'grid', tabindex: '0', 'aria-label': 'Requests' });
    private readonly head = make('div', { class: 'head', role: 'row' });
    private readonly spacer = make('div', { class: 'spacer', role: 'rowgroup' });
    private readonly legend = make('div', { class: 'legend' });
    private readonly exports: HTMLElement;

    private loaded: Request[] = [];   // as they came
    private runs: Request[] = [];
    private shown: Request[] = [];    // in order, as drawn
    private pending: Request[] | null = null; // newer ones, while somebody reads
    private total = 0;
    private kept: { kept: number; seen: number } | null = null;
    private hasAnswer = false;
    private question = '';
    private limit = LIMIT;
    private abort: AbortController | null = null;
    private timer = 0;
    private loadedAt = 0;
    private at = -1;                  // row of the keyboard
    private atId = '';
    private columns: RequestColumn[] = [];
    private two = false;              // names have two lines
    private width = 0;
    private longest = 1;
    private pointerInside = false;
    private visible = true;
    private drawn = '';
    private readonly made = new Map<number, { of: Request; look: string; element: HTMLElement }>();

    constructor() {
        super(css);
        this.fresh = button('', 'Show them', () => this.takePending(), { class: 'chip new', hidden: true });
        this.exports = make('span', { class: 'tools' }, this.find,
            button('CSV', 'Save these requests as CSV', () => save('requests.csv', 'text/csv', csvOf(this.shown))),
            button('JSON', 'Save these requests as JSON', () => save('requests.json', 'application/json',
                JSON.stringify({ time: now(), total: this.shown.length, requests: this.shown }, null, 1))));
        this.grid.append(make('div', { role: 'rowgroup' }, this.head), this.spacer);
        this.root.append(make('div', { class: 'bar' }, this.sum, this.chips, this.fresh, this.exports), this.stateBox, this.grid, this.legend);
        this.grid.addEventListener('scroll', () => { hideTip(this.grid); this.paint(); }, { passive: true });
        this.grid.addEventListener('keydown', (e) => this.key(e));
        this.grid.addEventListener('focus', () => {
            if (this.at < 0 && this.shown.length && this.grid.matches(':focus-visible')) this.moveTo(0, false);
        });
        this.grid.addEventListener('pointerdown', (e) => { this.pressed = this.shown[this.rowAt(e)]?.id ?? ''; });
        this.grid.addEventListener('pointerenter', () => { this.pointerInside = true; });
        this.grid.addEventListener('pointerleave', () => { this.pointerInside = false; hideTip(this.grid); });
        this.grid.addEventListener('pointerover', (e) => this.hovered(e));
        this.grid.addEventListener('click', (e) => this.clicked(e));
        this.find.addEventListener('input', () => this.arrange());
        this.find.addEventListener('keydown', (e) => this.findKey(e));
    }

    override connectedCallback(): void {
        super.connectedCallback();
        const resized = new ResizeObserver(() => this.resize());
        resized.observe(this.grid);
        const seen = new IntersectionObserver((entries) => {
            this.visible = entries[entries.length - 1]?.isIntersecting ?? true;
            if (this.visible) this.wake();
        });
        seen.observe(this);
        const shown = () => this.wake();
        document.addEventListener('visibilitychange', shown);
        this.onEnd(() => {
            resized.disconnect();
            seen.disconnect();
            document.removeEventListener('visibilitychange', shown);
            this.stop();
            this.question = '';
            hideTip(this.grid);
        });
    }

    protected update(): void {
        const height = this.text('height', '420');
        if (height === 'fill') {
            this.style.height = '100%';
            this.grid.style.height = '';
        } else {
            this.grid.style.height = `${Number(height) || 420}px`;
            this.grid.style.flex = 'none';
        }
        const question = JSON.stringify([this.api.base, ...QUESTION.map((q) => this.text(q))]);
        const order = this.order();
        if (question !== this.question) {
            this.question = question;
            this.limit = this.number('limit') ?? LIMIT;
            this.hasAnswer = false;
            this.pending = null;
            this.runs = [];
            this.at = -1;
            this.grid.scrollTop = 0;
            this.reload();
        } else if (this.hasAnswer && this.total > this.loaded.length && serverSort(order) && serverSort(order) !== this.sortAsked) {
            this.reload(); // other ones come first
        }
        this.showChips();
        this.arrange();
    }

    // ---- data -----------------------------------------------------------------------------------

    private sortAsked = '';

    private order(): Order {
        // A choice in a heat map is looked at from its worst, a live list from its newest.
        const otherwise = this.getAttribute('metric')
            ? { column: { ttft: 'ttft', itl: 'itl', queue: 'queue', tokens_per_s: 'rate', total: 'total' }[this.text('metric')] ?? 'total', up: this.text('metric') === 'tokens_per_s' }
            : { column: 'when', up: false };
        return parseOrder(this.getAttribute('sort'), otherwise);
    }

    private span(): { from: number; to: number | null; live: boolean } {
        const from = this.number('from');
        const to = this.number('to');
        if (from !== null && to !== null) return { from, to, live: false };
        const fixed = /^([\d.]+)\.\.([\d.]+)$/.exec(this.text('range'));
        if (fixed) return { from: Number(fixed[1]), to: Number(fixed[2]), live: false };
        const length = Number(this.text('range', '900'));
        return { from: now() - (length > 0 ? length : 900), to: null, live: true };
    }

    private filters(): Record<string, string | null> {
        return Object.fromEntries(FILTERS.map((f) => [f, this.getAttribute(f)]));
    }

    private stop(): void {
        clearTimeout(this.timer);
        this.timer = 0;
        this.abort?.abort();
        this.abort = null;
    }

    private wake(): void {
        if (this.question && this.span().live && !this.timer && !this.abort && !document.hidden && this.visible) void this.poll();
    }

    private reload(): void {
        this.stop();
        if (!this.hasAnswer) this.showState(loading('Loading requests'));
        void this.ask(true);
    }

    private poll(): Promise<void> {
        return this.ask(performance.now() - this.loadedAt > RELOAD_MS || this.total > this.loaded.length);
    }

    // whole: all of the range; else what changed lately.
    private async ask(whole: boolean): Promise<void> {
        const { from, to, live } = this.span();
        const abort = this.abort = new AbortController();
        const started = performance.now();
        const order = this.order();
        const sort = serverSort(order) ?? 'newest';
        const metric = this.getAttribute('metric');
        const bounds = metric ? { metric, min: this.number('min'), max: this.number('max') } : {};
        const common = { ...this.filters(), ...bounds, timeline: 0 };
        const since = whole ? from : Math.max(from, now() - POLL_SECONDS);
        try {
            const [done, runs] = await Promise.all([
                this.api.get<Answer>('/api/requests', {
                    ...common, state: 'done', from: Math.round(since * 1000) / 1000, to,
                    sort: whole ? sort : 'newest', limit: whole ? this.limit : POLL_LIMIT,
                }, abort.signal),
                live && !metric && !this.getAttribute('outcome')
                    ? this.api.get<Answer>('/api/requests', { ...common, state: 'running', sort: 'newest', limit: POLL_LIMIT }, abort.signal)
                    : Promise.resolve(null),
            ]);
            if (abort.signal.aborted) return;
            const gap = !whole && done.requests.length >= POLL_LIMIT;
            const list = whole ? done.requests : merged(this.pending ?? this.loaded, done.requests, from);
            if (whole) {
                this.total = done.total;
                this.sortAsked = sort;
                this.loadedAt = gap ? 0 : performance.now();
                this.kept = done.seen !== undefined && done.kept !== undefined ? { kept: done.kept, seen: done.seen } : null;
            } else {
                this.total = Math.max(list.length, this.total + list.length - (this.pending ?? this.loaded).length);
                if (gap) this.loadedAt = 0;
            }
            this.runs = runs?.requests ?? [];
            this.offer(list);
        } catch (e: unknown) {
            if (abort.signal.aborted || aborted(e)) return;
            if (!this.hasAnswer) this.showState(failed(e, () => this.reload()));
        }
        if (this.abort !== abort) return;
        this.abort = null;
        if (!live) return;
        this.timer = window.setTimeout(() => { this.timer = 0; this.wake(); }, Math.max(POLL_MS, (performance.now() - started) * PATIENCE));
    }

    // Rows do not move under a hand or an eye: they wait until asked for.
    private offer(list: Request[]): void {
        const reading = this.hasAnswer && (this.pointerInside || this.grid.scrollTop > 2 || this.root.activeElement === this.grid);
        const known = new Set(this.loaded.map((r) => r.id));
        const news = reading ? list.filter((r) => !known.has(r.id)).length : 0;
        if (reading && news) {
            this.pending = list;
            this.fresh.textContent = `${count(news)} new`;
            this.fresh.hidden = false;
            this.arrange(); // those that run go on
            return;
        }
        this.pending = null;
        this.fresh.hidden = true;
        this.loaded = list;
        this.hasAnswer = true;
        this.arrange();
    }

    private takePending(): void {
        if (this.pending) this.loaded = this.pending;
        this.pending = null;
        this.fresh.hidden = true;
        this.grid.scrollTop = 0;
        this.at = -1;
        this.arrange();
    }

    // ---- what is shown --------------------------------------------------------------------------

    private arrange(): void {
        if (!this.hasAnswer) return;
        const text = this.find.value.trim().toLowerCase();
        const done = new Set(this.loaded.map((r) => r.id));
        let list = [...this.runs.filter((r) => !done.has(r.id)), ...this.loaded];
        if (text) {
            list = list.filter((r) => r.id.includes(text) || (r.own_id ?? '').toLowerCase().includes(text)
                || (r.trace_id ?? '').toLowerCase().includes(text.replace(/-/g, '')));
        }
        this.shown = inOrder(list, this.order());
        this.longest = Math.max(1e-9, ...this.shown.map((r) => r.total_s ?? 0));
        this.at = this.atId ? this.shown.findIndex((r) => r.id === this.atId) : this.at;
        this.showState(this.shown.length ? null : this.nothing(text));
        this.showSum();
        this.showChips();
        this.showLegend();
        this.showHead();
        this.drawn = '';
        this.paint();
    }

    private nothing(text: string): HTMLElement {
        if (text) {
            return empty('No such request in this list', 'Look for it in everything that is kept:', '',
                button(`Open ${text}`, '', () => this.emit('sonde-request', { id: this.find.value.trim() })));
        }
        if (this.getAttribute('metric') && this.number('min') !== null) return empty('No requests in these cells', 'Choose others in the heat map, or clear the choice.');
        if (FILTERS.some((f) => this.getAttribute(f))) return empty('No request here matches the filters', 'Remove a filter, or choose a longer time.');
        return empty('No requests in this time', 'Choose a longer time, or send the inference server a request. An engine that is not seen yet is started like this:',
            'sonde run -- ./llama-server -m model.gguf');
    }

    private showState(e: HTMLElement | null): void {
        clear(this.stateBox, e);
        this.stateBox.hidden = e === null;
        this.grid.hidden = e !== null;
        this.legend.hidden = e !== null;
    }

    private showSum(): void {
        const running = this.runs.length;
        const all = Math.max(this.total, this.loaded.length);
        clear(this.sum, `${count(all)} request${all === 1 ? '' : 's'}`,
            make('small', {}, running ? `, ${count(running)} running` : ''));
    }

    private showChips(): void {
        const list: HTMLElement[] = [];
        const outcome = this.getAttribute('outcome');
        const counts = new Map<string, number>();
        for (const r of this.loaded) if (r.outcome) counts.set(r.outcome, (counts.get(r.outcome) ?? 0) + 1);
        const complete = this.loaded.length >= this.total;
        for (const o of OUTCOMES) {
            const n = counts.get(o) ?? 0;
            if (!n && o !== outcome) continue;
            if (counts.size < 2 && o !== outcome) continue; // no choice
            const on = o === outcome;
            list.push(button(complete || on ? `${o} ${count(on ? this.total : n)}` : o, on ? 'Show all outcomes' : `Show only ${o}`,
                () => this.setFilter('outcome', on ? null : o), { class: 'chip', 'aria-pressed': String(on) }));
        }
        for (const f of FILTERS) {
            const v = this.getAttribute(f);
            if (!v || f === 'outcome') continue;
            const b = button('', `Remove the filter ${f} = ${v}`, () => this.setFilter(f, null), { class: 'chip', 'aria-pressed': 'true' });
            b.append(make('span', {}, `${f}: `, make('b', {}, v)), '×');
            list.push(b);
        }
        const key = list.map((e) => `${e.textContent ?? ''}${e.getAttribute('aria-pressed') ?? ''}`).join('\n');
        if (key === this.chips.dataset['key']) return;
        this.chips.dataset['key'] = key;
        clear(this.chips, ...list);
    }

    private setFilter(key: string, value: string | null): void {
        if (value === null) this.removeAttribute(key);
        else this.setAttribute(key, value);
        this.emit('sonde-filter', { key, value });
    }

    private showLegend(): void {
        const parts: (Node | null)[] = [];
        const used = new Set<string>();
        for (const r of this.shown.slice(0, 500)) for (const name of Object.keys(r.phases)) used.add(name === 'detokenize' ? 'text' : name);
        for (const p of PHASE_LIST) {
            if (!used.has(p.id)) continue;
            const i = make('i');
            i.style.background = `var(--sonde-${phaseColor(p.id)})`;
            parts.push(make('span', { title: p.what }, i, p.title));
        }
        if (used.size) {
            const i = make('i');
            i.style.background = `var(--sonde-${phaseColor('decode')})`;
            i.style.opacity = '.32';
            parts.push(make('span', { title: 'The rest of that time: others in the same forward passes, and gaps' }, i, 'shared or waiting'));
        }
        if (this.kept && this.kept.kept < this.kept.seen) {
            parts.push(make('span', { class: 'note', title: 'Of busy seconds the store keeps failed and slow requests first, then a sample.' },
                `${count(this.kept.kept)} of ${count(this.kept.seen)} requests of this time are kept`));
        }
        if (this.total > this.loaded.length) {
            parts.push(make('span', { class: 'more' }, `${count(this.loaded.length)} of ${count(this.total)} are loaded`,
                this.limit < LIMIT_MOST ? button('Load more', `Up to ${count(LIMIT_MOST)}`, () => { this.limit = LIMIT_MOST; this.reload(); }) : null));
        }
        clear(this.legend, ...parts);
    }

    private resize(): void {
        const width = this.grid.clientWidth;
        if (!width || width === this.width) {
            this.drawn = '';
            this.paint();
            return;
        }
        this.width = width;
        this.showHead();
        this.drawn = '';
        this.paint();
    }

    private chooseColumns(): void {
        this.columns = this.width ? columnsIn(this.width - 18, this.width < 640 ? NARROW_BAR_PX : BAR_PX, this.width < 440 && this.order().column === 'when' ? '' : this.order().column) : [];
        this.two = !this.columns.some((c) => c.id === 'model') || !this.columns.some((c) => c.id === 'route');
    }

    private get rowHeight(): number {
        return this.two ? 44 : 31;
    }

    private sized(e: HTMLElement, c: RequestColumn): HTMLElement {
        e.style.width = `${c.width}px`;
        if (c.grow) e.style.flex = `${c.grow} 1 ${c.width}px`;
        return e;
    }

    private headKey = '';

    private showHead(): void {
        const o = this.order();
        this.chooseColumns();
        const key = JSON.stringify([o, this.columns.map((c) => c.id)]);
        if (key === this.headKey) return;
        const focused = this.root.activeElement instanceof HTMLElement ? this.root.activeElement.dataset['column'] : undefined;
        this.headKey = key;
        this.head.replaceChildren();
        for (const c of this.columns) {
            const b = button(c.title, '', () => this.sortBy(c), { 'data-column': c.id, tabindex: '0' });
            explain(b, c.term);
            const sorted = o.column === c.id ? (o.up ? 'ascending' : 'descending') : 'none';
            this.head.append(this.sized(make('div', { class: `cell ${c.number ? 'number' : ''}`, role: 'columnheader', 'aria-sort': sorted }, b), c));
        }
        const bars = button('Phases', '', () => this.sortBy({ id: 'total', number: true }));
        explain(bars, 'request_phases');
        this.head.append(make('div', { class: 'cell bars', role: 'columnheader' }, bars));
        if (focused) this.head.querySelector<HTMLElement>(`[data-column=${focused}]`)?.focus();
    }

    private sortBy(c: { id: string; number: boolean }): void {
        const o = this.order();
        const next = { column: c.id, up: o.column === c.id ? !o.up : !c.number };
        this.setAttribute('sort', formatOrder(next));
        this.grid.scrollTop = 0;
        this.emit('sonde-sort', { sort: formatOrder(next) });
    }

    private paint(): void {
        if (!this.columns.length || this.grid.hidden) return;
        const h = this.rowHeight;
        const top = this.grid.scrollTop;
        const first = Math.max(0, Math.floor(top / h) - 6);
        const last = Math.min(this.shown.length, Math.ceil((top + this.grid.clientHeight) / h) + 6);
        const key = `${first} ${last} ${this.at} ${this.text('request')}`;
        if (key === this.drawn) return;
        this.drawn = key;
        this.spacer.style.height = `${this.shown.length * h}px`;
        this.grid.setAttribute('aria-rowcount', String(this.shown.length + 1));
        // Rows that stay in sight stay: scrolling makes the few that come.
        for (const [i, row] of this.made) {
            if (i >= first && i < last && row.of === this.shown[i] && row.look === this.lookOf(i)) continue;
            row.element.remove();
            this.made.delete(i);
        }
        for (let i = first; i < last; i++) {
            if (this.made.has(i)) continue;
            const element = this.rowOf(this.shown[i], i);
            this.made.set(i, { of: this.shown[i], look: this.lookOf(i), element });
            this.spacer.append(element);
        }
        if (this.at >= first && this.at < last) this.grid.setAttribute('aria-activedescendant', `r${this.at}`);
        else this.grid.removeAttribute('aria-activedescendant');
    }

    // What of a row does not come from its request.
    private lookOf(i: number): string {
        return `${i === this.at} ${this.text('request')} ${this.headKey} ${this.longest}`;
    }

    private rowOf(r: Request, i: number): HTMLElement {
        const kind = r.state === 'running' ? 'running' : isFailed(r.outcome) ? 'bad' : r.outcome === 'cancelled' ? 'cancelled' : 'ok';
        const open = this.text('request') !== '' && (this.text('request') === r.id || this.text('request') === r.own_id);
        const row = make('div', {
            class: `row ${kind}${i === this.at ? ' at' : ''}`, role: 'row', id: `r${i}`, 'aria-rowindex': i + 2, 'aria-selected': String(open), 'data-row': i,
        });
        row.style.top = `${i * this.rowHeight}px`;
        row.style.height = `${this.rowHeight}px`;
        for (const c of this.columns) {
            const cell = make('div', { class: `cell ${c.id}${c.number ? ' number' : ''}`, role: 'gridcell' });
            const text = c.text(r);
            if (c.id === 'id') {
                cell.append(make('b', { title: text, dir: 'auto' }, text));
                if (this.two) {
                    const below = belowName(r, this.columns);
                    cell.append(make('small', { title: below, dir: 'auto' }, below));
                }
            } else {
                cell.textContent = text;
                if (!c.number) {
                    cell.title = text;
                    cell.dir = 'auto';
                }
            }
            row.append(this.sized(cell, c));
        }
        row.append(make('div', { class: 'cell bars', role: 'gridcell', 'aria-label': this.barText(r) }, this.barOf(r)));
        return row;
    }

    private barOf(r: Request): HTMLElement {
        const bar = make('div', { class: 'phases' });
        const total = r.total_s ?? 0;
        bar.style.width = `${Math.max(2, 100 * Math.sqrt(total / this.longest))}%`;
        for (const s of segmentsOf(r)) {
            const i = make('i', { class: s.pale ? 'pale' : null });
            i.style.width = `${(100 * s.seconds) / total}%`;
            i.style.background = `var(--sonde-${phaseColor(s.id)})`;
            bar.append(i);
        }
        return bar;
    }

    private barText(r: Request): string {
        return segmentsOf(r).filter((s) => !s.pale).map((s) => `${phaseTitle(s.id)} ${seconds(s.seconds)}`).join(', ');
    }

    // ---- pointer and keyboard -------------------------------------------------------------------

    private pressed = ''; // id of the row that the pointer went down on

    // By its place: rows are made anew all the time, also between the two halves of a click.
    private rowAt(e: MouseEvent): number {
        const y = e.clientY - this.spacer.getBoundingClientRect().top;
        const inHead = e.clientY < this.head.getBoundingClientRect().bottom;
        const i = Math.floor(y / this.rowHeight);
        return inHead || i < 0 || i >= this.shown.length ? -1 : i;
    }

    private hovered(e: PointerEvent): void {
        const bars = e.target instanceof Element ? e.target.closest('.row .bars') : null;
        const r = this.shown[this.rowAt(e)] as Request | undefined;
        if (!bars || !r) {
            hideTip(this.grid);
            return;
        }
        const lines = segmentsOf(r).map((s) => make('p', {}, `${phaseTitle(s.id)}${
            s.pale && s.id !== 'unexplained' ? ' (shared or waiting)' : ''}: ${seconds(s.seconds)}`));
        showTip(bars.getBoundingClientRect(), this.grid, make('b', {}, `${requestName(r)}: ${seconds(r.total_s)}`), ...lines);
    }

    private clicked(e: MouseEvent): void {
        const i = this.pressed ? this.shown.findIndex((r) => r.id === this.pressed) : this.rowAt(e);
        this.pressed = '';
        if (i < 0) return;
        this.moveTo(i, false);
        this.open(i);
    }

    private open(i: number): void {
        const r = this.shown[i] as Request | undefined;
        if (r) this.emit('sonde-request', { id: r.id });
    }

    private moveTo(i: number, scroll = true): void {
        const at = Math.min(this.shown.length - 1, Math.max(0, i));
        this.at = at;
        this.atId = this.shown[at]?.id ?? '';
        if (scroll) {
            const top = at * this.rowHeight;
            const room = this.grid.clientHeight - this.head.offsetHeight;
            if (top < this.grid.scrollTop) this.grid.scrollTop = top;
            if (top + this.rowHeight > this.grid.scrollTop + room) this.grid.scrollTop = top + this.rowHeight - room;
        }
        this.paint();
        const r = this.shown[at] as Request | undefined;
        if (r) this.grid.setAttribute('aria-description', `${requestName(r)}, ${outcomeText(r)}, ${seconds(r.total_s)}, arrived ${clock(r.arrived)}`);
    }

    private key(e: KeyboardEvent): void {
        if (e.target !== this.grid || e.ctrlKey || e.metaKey || e.altKey) return;
        const page = Math.max(1, Math.floor(this.grid.clientHeight / this.rowHeight) - 2);
        const to: Record<string, number> = {
            ArrowDown: this.at + 1, ArrowUp: this.at - 1, PageDown: this.at + page, PageUp: this.at - page, Home: 0, End: this.shown.length - 1,
        };
        if (e.key === 'Enter' || e.key === ' ') this.open(this.at);
        else if (e.key in to) this.moveTo(to[e.key]);
        else return;
        e.preventDefault();
        e.stopPropagation();
    }

    private findKey(e: KeyboardEvent): void {
        if (e.key === 'Enter' && this.find.value.trim()) {
            e.preventDefault();
            const one = this.shown.length === 1 ? this.shown[0].id : this.shown.length === 0 ? this.find.value.trim() : null;
            if (one) this.emit('sonde-request', { id: one });
            else this.grid.focus();
        } else if (e.key === 'Escape' && this.find.value) {
            e.stopPropagation();
            this.find.value = '';
            this.arrange();
        }
    }
}

define('sonde-requests', RequestsElement);
