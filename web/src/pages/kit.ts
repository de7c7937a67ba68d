// What pages are put together with: charts that follow the range and the filters, cards, sections.

import { Attributes, Child, make, makeCustom } from '../core/dom';
import { state } from '../core/state';
import { Rows, RowsColumn } from './rows';

export interface ChartSpec {
    heading: string;
    name: string;      // globs, by space
    names?: string;    // what to call them, "series=name;…"
    metric?: string;   // glossary
    stat?: string;
    group?: string;
    stack?: boolean;
    unit?: string;
    color?: string;    // theme variable, of a single line
    label?: string;
    agg?: string;
    each?: boolean;
    most?: number;
    scale?: number;
    zero?: 'no';
    max?: number;
    whole?: boolean;
    height?: number;
    empty?: string;
    full?: boolean;
}

// As elements take it: "900", or "FROM..TO".
export function rangeText(): string {
    const r = state.range();
    return r.live ? String(r.seconds) : `${r.from}..${r.to}`;
}

const FILTERS = ['process', 'pid', 'model', 'route'];

function apply(e: Element): void {
    e.setAttribute('range', rangeText());
    for (const key of FILTERS) {
        const v = state.get(key);
        if (v) e.setAttribute(key, v);
        else e.removeAttribute(key);
    }
    const base = state.get('base');
    if (base) e.setAttribute('base', base);
    else e.removeAttribute('base');
}

type LinkValues = Record<string, string | null>;

// A link to a page, with the range and the filters that follow() keeps up to date in it.
export function pageLink(text: string, page: string, values: LinkValues = {}): HTMLAnchorElement {
    return make('a', { href: state.link(page, values), 'data-page': page, 'data-values': JSON.stringify(values) }, text);
}

// All elements inside with data-follow get the range and the filters, now and when they change.
// Elements that come later: follows.apply(element).
export interface Following { apply: (root: Element) => void; end: () => void }

export function follow(root: Element): Following {
    const all = (of: Element) => {
        if (of instanceof HTMLElement && 'follow' in of.dataset) apply(of);
        for (const e of of.querySelectorAll('[data-follow]')) apply(e);
        for (const a of of.querySelectorAll<HTMLAnchorElement>('a[data-page]')) {
            a.href = state.link(a.dataset['page']!, JSON.parse(a.dataset['values']!) as LinkValues);
        }
    };
    const off = state.on(['range', 'base', ...FILTERS], () => all(root));
    all(root);
    return { apply: all, end: off };
}

export function chart(s: ChartSpec): HTMLElement {
    const attrs: Attributes = { ...s, class: s.full ? 'full' : null, full: null, 'data-follow': true };
    return makeCustom('sonde-timeseries', attrs);
}

export function card(title: string, attrs: Attributes, ...children: Child[]): HTMLElement {
    return make('section', { ...attrs, class: `card ${String(attrs['class'] ?? '')}`.trim() },
        make('header', {}, make('h2', {}, title)), ...children);
}

export function heading(title: string, ...more: Child[]): HTMLElement {
    return make('div', { class: 'head' }, make('h2', {}, title), ...more);
}

export function grid(...children: Child[]): HTMLElement {
    return make('div', { class: 'grid' }, ...children);
}

// A table whose rows are updated in place.
export interface Column<T> extends RowsColumn<T> { title: string; hint?: string }

export class List<T> {
    readonly element: HTMLElement;
    private readonly rows: Rows<T>;

    // key: what tells a row from the others, whatever its figures are.
    constructor(name: string, key: (row: T) => string, columns: readonly Column<T>[]) {
        this.rows = new Rows(columns, key);
        this.element = make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': name },
            make('table', { class: 'list', 'aria-label': name },
                make('thead', {}, make('tr', {}, ...columns.map((c) =>
                    make('th', { scope: 'col', class: c.number ? 'num' : null, title: c.hint ?? null }, c.title)))),
                this.rows.body));
    }

    show(rows: readonly T[]): void {
        this.rows.show(rows);
    }
}

// A share as a bar with its text.
export function share(ratio: number | null, text: string, color = 's1'): HTMLElement {
    const fill = make('i');
    fill.style.width = `${Math.round(Math.max(0, Math.min(1, ratio ?? 0)) * 1000) / 10}%`;
    fill.style.background = `var(--sonde-${color})`;
    return make('span', {}, text, make('span', { class: 'bar', 'aria-hidden': 'true' }, fill));
}
