// A flame graph on a page: its element, the filters above it, and the address that says both.

import { Api, apiAt, send, sentence } from '../core/api';
import { Attributes, button, clear, keepFocus, make, makeCustom } from '../core/dom';
import { clock } from '../core/format';
import { isFrozen } from '../core/frozen';
import { Params, queryString } from '../core/params';
import { state } from '../core/state';
import { isViewing } from '../core/viewing';
import type { SondeFlamegraph } from '../elements/flamegraph';
import type { Look } from '../elements/flamegraph/state';
import { encodePath } from '../flame/splice';

const REFRESH_MS = 20000;
const KEYS = ['type', 'phase', 'thread', 'span', 'request', 'slowest', 'profile', 'view', 'focus', 'search', 'invert',
    'order', 'fold', 'regex', 'colors'];
const SHAPES = ['range', 'process', 'pid', 'model', 'route', 'base', 'cells', 'metric', ...KEYS];

/** cells=FROM..TO:MIN..MAX, as the heat map writes it. */
export function cellsOf(text: string | null): { from: number; to: number; min: number; max: number } | null {
    const m = /^([\d.]+)\.\.([\d.]+):([\d.e+-]+)\.\.([\d.e+-]+|inf)$/i.exec(text ?? '');
    if (!m) return null;
    return { from: Number(m[1]), to: Number(m[2]), min: Number(m[3]), max: m[4] === 'inf' ? Infinity : Number(m[4]) };
}

export function rangeOf(text: string | null): { from: number; to: number } | null {
    const m = /^(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)$/.exec(text ?? '');
    return m ? { from: Number(m[1]), to: Number(m[2]) } : null;
}

export class FlamePanel {
    readonly graph: SondeFlamegraph;
    readonly element: HTMLElement;
    private readonly ends: (() => void)[] = [];
    private over = false;

    /** extra: attributes that this page sets itself; they win. */
    constructor(private readonly extra: () => Attributes, attrs: Attributes = {}) {
        this.graph = makeCustom('sonde-flamegraph', { icicle: true, level: 2, ...attrs }) as SondeFlamegraph;
        this.element = make('section', { class: 'card flush', 'aria-label': 'Flame graph' }, this.graph);
        this.graph.addEventListener('sonde-look', (e) => this.looked((e as CustomEvent<Look>).detail));
        this.graph.addEventListener('sonde-type', (e) =>
            state.set({ type: (e as CustomEvent<{ type: string }>).detail.type, focus: null }));
        this.graph.addEventListener('pointerenter', () => { this.over = true; });
        this.graph.addEventListener('pointerleave', () => { this.over = false; });
        this.ends.push(state.on(SHAPES, () => this.apply()));
        this.apply();
        // Of a range that moves, new samples come in by themselves unless somebody is looking closely.
        const timer = setInterval(() => {
            const closely = this.over || document.hidden || state.get('focus') || this.graph.matches(':focus-within');
            if (state.range().live && !isFrozen() && !closely && !state.get('profile')) this.graph.refresh();
        }, REFRESH_MS);
        this.ends.push(() => clearInterval(timer));
    }

    apply(): void {
        const r = state.range();
        const cells = cellsOf(state.get('cells'));
        const values: Attributes = {};
        for (const k of KEYS) values[k] = state.get(k);
        for (const k of ['process', 'pid', 'model', 'route', 'base']) values[k] = state.get(k);
        for (const k of ['invert', 'fold', 'regex']) if (values[k] !== null) values[k] = '';
        values['range'] = r.live ? String(r.seconds) : `${r.from}..${r.to}`;
        values['metric'] = values['min'] = values['max'] = null;
        if (cells) {
            values['range'] = `${cells.from}..${cells.to}`;
            values['metric'] = state.get('metric') ?? 'ttft';
            values['min'] = cells.min;
            values['max'] = Number.isFinite(cells.max) ? cells.max : null;
        }
        Object.assign(values, this.extra());
        if (values['profile']) values['range'] = null;
        for (const [k, v] of Object.entries(values)) {
            if (v === null || v === undefined || v === false) this.graph.removeAttribute(k);
            else if (this.graph.getAttribute(k) !== String(v === true ? '' : v)) this.graph.setAttribute(k, v === true ? '' : String(v));
        }
    }

    private looked(look: Look): void {
        state.set({
            view: look.view === 'flame' ? null : look.view, focus: encodePath(look.focus) || null,
            search: look.search || null, invert: look.invert ? '1' : null, fold: look.fold ? '1' : null,
            order: look.order === 'name' ? null : look.order, regex: look.regex ? '1' : null, colors: look.colors || null,
        }, true);
    }

    end(): void {
        for (const f of this.ends.splice(0)) f();
    }
}

// ---- filters ------------------------------------------------------------------------------------

export interface Option { value: string; text: string }

/** A select that is one key of the address. */
export function choice(key: string, title: string, options: readonly Option[], ends: (() => void)[]): HTMLElement {
    const select = make('select', { 'aria-label': title });
    const show = () => {
        const now = state.get(key) ?? '';
        const all = options.some((o) => o.value === now) ? options : [...options, { value: now, text: now }];
        clear(select, ...all.map((o) => make('option', { value: o.value }, o.text)));
        select.value = now;
    };
    select.addEventListener('change', () => state.set({ [key]: select.value || null }));
    ends.push(state.on([key], show));
    show();
    return make('label', { class: 'field' }, make('span', {}, title), select);
}

/** A text that is one key of the address, with what may be typed. */
export function typed(key: string, title: string, hint: string, suggestions: HTMLDataListElement | null, ends: (() => void)[]): HTMLElement {
    const input = make('input', { type: 'search', placeholder: hint, 'aria-label': title, size: 14, list: suggestions?.id ?? null,
        spellcheck: 'false', autocomplete: 'off' });
    const show = () => { input.value = state.get(key) ?? ''; };
    input.addEventListener('change', () => state.set({ [key]: input.value.trim() || null }));
    ends.push(state.on([key], show));
    show();
    return make('label', { class: 'field' }, make('span', {}, title), input, suggestions);
}

/** What was chosen elsewhere, each with a way to drop it. */
export function chips(ends: (() => void)[]): HTMLElement {
    const box = make('div', { class: 'chips', role: 'group', 'aria-label': 'Chosen elsewhere' });
    const show = () => {
        const list: HTMLElement[] = [];
        const add = (text: string, ...keys: string[]) => list.push(make('span', { class: 'chip' }, text,
            button('×', 'Remove', () => state.set(Object.fromEntries(keys.map((k) => [k, null]))), { 'aria-label': `Remove: ${text}` })));
        const request = state.get('request');
        const cells = cellsOf(state.get('cells'));
        const base = rangeOf(state.get('base'));
        if (request) add(`request ${request}`, 'request');
        if (cells) add(`${state.get('metric') ?? 'ttft'} cells, ${clock(cells.from)} – ${clock(cells.to)}`, 'cells', 'metric');
        const kind = isViewing() ? 'file' : 'session';
        if (state.get('profile')) add(`${kind} ${state.get('profile')}`, 'profile');
        if (base) add(`compared with ${clock(base.from)} – ${clock(base.to)}`, 'base');
        else if (state.get('base') === 'rest') add('compared with the rest', 'base');
        else if (state.get('base')) add(`compared with ${kind} ${state.get('base')}`, 'base');
        keepFocus(box, () => box.replaceChildren(...list));
        box.hidden = !list.length;
    };
    ends.push(state.on(['request', 'cells', 'metric', 'profile', 'base'], show));
    show();
    return box;
}

// ---- files --------------------------------------------------------------------------------------

/** By a call and not by a link: a link cannot carry a token. */
export async function download(api: Api, path: string, params: Params, name: string): Promise<void> {
    const answer = await send(api.base, path + queryString(params), { headers: {} });
    if (!answer.ok) throw new Error(`the agent answered with status ${answer.status}`);
    const url = URL.createObjectURL(await answer.blob());
    make('a', { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}

const FORMATS: readonly (readonly [string, string, string])[] = [
    ['svg', 'SVG', 'svg'], ['html', 'HTML', 'html'], ['pprof', 'pprof', 'pb.gz'], ['folded', 'folded', 'folded'],
    ['speedscope', 'speedscope', 'speedscope.json'], ['chrome', 'Chrome trace', 'trace.json'], ['run', 'sonde run', 'run'],
];

/** A menu that saves the profile for other tools. */
export function exporter(ask: () => { path: string; params: Params; name: string }): HTMLElement {
    const said = make('span', { class: 'soft', role: 'status' });
    const select = make('select', { 'aria-label': 'Save for other tools', title: 'The whole range, without the filters for phases and requests' },
        make('option', { value: '' }, 'Export…'), ...FORMATS.map(([f, text]) => make('option', { value: f }, text)));
    select.addEventListener('change', () => {
        const format = FORMATS.find(([f]) => f === select.value);
        select.value = '';
        if (!format) return;
        const { path, params, name } = ask();
        said.textContent = 'Saving…';
        download(apiAt(''), path, { ...params, format: format[0] }, `${name}.${format[2]}`)
            .then(() => { said.textContent = ''; }, (e: unknown) => { said.textContent = sentence(e); });
    });
    return make('span', { class: 'export' }, select, said);
}
