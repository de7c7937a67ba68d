// The page of `sonde flamegraph -o FILE.html`: the flame graph, the functions, and the callers
// and callees of one of them (the sandwich), on the data that is in the page.

import { FlameChart } from './chart';
import { FunctionRow, Profile, Tree, readProfile } from './data';
import { Order, callees, callers, invert, outermost } from './merge';
import { FunctionTable } from './table';
import {
    describe, matchFrames, matchedHint, matchedText, matchedWeight, matcher, percent, samples, value,
} from './text';

type View = 'flame' | 'sandwich' | 'functions';
const VIEWS: [View, string][] = [
    ['flame', 'Flame graph'], ['sandwich', 'Sandwich'], ['functions', 'Functions'],
];
const THEMES = ['auto', 'light', 'dark'] as const;

function make<K extends keyof HTMLElementTagNameMap>(
    name: K, attributes: Record<string, string> = {}, ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
    const e = document.createElement(name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    e.append(...children);
    return e;
}

function button(text: string, title: string, clicked: () => void, extra: Record<string, string> = {}) {
    const b = make('button', { type: 'button', title, ...extra }, text);
    b.addEventListener('click', clicked);
    return b;
}

class Viewer {
    private readonly p: Profile;
    private view: View = 'flame';
    private order: Order = 'name';
    private inverted: boolean;
    private scheme: string;
    private theme: (typeof THEMES)[number] = 'auto';
    private hit: Uint8Array | null = null;
    private chosen: FunctionRow | null = null;

    private readonly input = make('input', {
        type: 'search', placeholder: 'Search ( / )', 'aria-label': 'Search function names',
        spellcheck: 'false', autocomplete: 'off',
    });
    private readonly matched = make('span', { class: 'matched', 'aria-live': 'polite' });
    private readonly crumbs = make('nav', { class: 'crumbs', 'aria-label': 'Callers of the zoomed frame' });
    private readonly card = make('div', { class: 'card', role: 'tooltip', hidden: '' });
    private readonly detail = make('footer', { class: 'detail' });
    private readonly about = make('div', { class: 'about' });
    private readonly empty = make('p', { class: 'empty' });
    private readonly main: FlameChart;
    private readonly above: FlameChart;
    private readonly below: FlameChart;
    private readonly table: FunctionTable;
    private readonly tabs = new Map<View, HTMLButtonElement>();
    private readonly regex: HTMLButtonElement;
    private readonly reset: HTMLButtonElement;
    private readonly heavy: HTMLButtonElement;
    private readonly leafFirst: HTMLButtonElement;
    private readonly onTop: HTMLButtonElement;
    private readonly themeButton: HTMLButtonElement;

    constructor(text: string) {
        this.p = readProfile(text);
        this.inverted = this.p.tree.leafFirst;
        if (this.inverted) this.p.tree = invert(this.p, this.p.tree, 'name');
        this.scheme = this.p.colors;

        this.regex = button('.*', 'Regular expression', () => this.toggleRegex(),
            { class: 'regex', 'aria-pressed': 'false', 'aria-label': 'Regular expression' });
        this.reset = button('Reset', 'Show everything (Esc)', () => this.resetAll(), { class: 'reset' });
        this.heavy = button('Left heavy', 'Order callees by weight, not by name',
            () => this.setOrder(this.order === 'name' ? 'weight' : 'name'), { class: 'heavy' });
        this.leafFirst = button('Inverted', 'Leaf first: which functions are called, and by whom',
            () => this.setInverted(!this.inverted), { class: 'inverted' });
        this.onTop = button('Root on top', 'Draw callees below their callers', () => {
            this.main.setRootOnTop(!this.main.rootOnTop);
            this.showState();
        }, { class: 'ontop' });
        this.themeButton = button('', 'Light or dark', () => {
            this.theme = THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length];
            this.applyColors();
        }, { class: 'theme' });

        this.table = new FunctionTable(this.p, (r) => this.openFunction(r));
        this.main = this.chart('flame', this.p.icicle);
        this.above = this.chart('callers', false);
        this.below = this.chart('callees', true);
        this.build();
        this.listen();
        this.showTree();
        this.openFunction(this.p.functions[0] ?? null, false);
        this.setView('flame');
        this.applyColors();
    }

    private chart(name: string, rootOnTop: boolean): FlameChart {
        const canvas = make('canvas', { class: name, role: 'application',
            'aria-label': `${name} of ${this.p.title}; arrows move, Enter zooms` });
        const chart: FlameChart = new FlameChart(canvas, this.p, {
            zoomed: () => {
                this.hideCard();
                if (chart === this.main) this.showCrumbs();
                this.showState();
            },
            hovered: (n, x, y) => (n < 0 ? this.hideCard() : this.showCard(chart, n, x, y)),
            selected: (n) => this.showDetail(chart, n),
            opened: (n) => this.openNode(chart.tree, n),
        }, rootOnTop);
        return chart;
    }

    private build(): void {
        const { p } = this;
        const colors = make('select', { 'aria-label': 'Colours', title: 'Colours' });
        const names = Object.keys(p.palettes).filter((n) => n !== 'diff' || p.baseTotal > 0);
        for (const n of names) colors.append(make('option', { value: n }, n));
        colors.value = this.scheme;
        colors.addEventListener('change', () => {
            this.scheme = colors.value;
            this.applyColors();
        });
        const tabs = make('div', { class: 'tabs', role: 'tablist' });
        for (const [view, title] of VIEWS) {
            const b = button(title, '', () => this.setView(view), { role: 'tab', 'data-view': view });
            b.removeAttribute('title');
            this.tabs.set(view, b);
            tabs.append(b);
        }
        const head = make('header', {},
            make('div', { class: 'what' }, make('h1', {}, p.title), make('p', {}, this.summary())),
            make('div', { class: 'find', role: 'search' }, this.matched, this.input, this.regex,
                this.reset));
        const bar = make('div', { class: 'bar' }, tabs,
            make('div', { class: 'options' }, this.heavy, this.leafFirst, this.onTop, colors,
                this.themeButton));
        const flame = make('section', { class: 'flame', 'aria-label': 'Flame graph' }, this.crumbs,
            this.main.canvas);
        const sandwich = make('section', { class: 'sandwich', 'aria-label': 'Callers and callees' },
            this.above.canvas, this.about, this.below.canvas, this.empty);
        document.body.append(head, bar,
            make('main', {}, flame, this.table.element, sandwich), this.detail, this.card);
    }

    private summary(): string {
        const { p } = this;
        const parts = [];
        if (p.subtitle) parts.push(p.subtitle);
        parts.push(p.unit === 'count' ? samples(p.total) : value(p.total, p.unit));
        if (p.unit !== 'count' && p.tree.samples[0]) parts.push(samples(p.tree.samples[0]));
        if (p.baseTotal) {
            parts.push(`before: ${value(p.baseTotal, p.unit)}`);
            parts.push('red: a larger share than before, blue: a smaller one');
        }
        if (p.dropped) {
            const least = Number((100 * p.minWidth).toPrecision(2));
            parts.push(`frames below ${least} % are left out of the graph`);
        }
        return parts.join(' · ');
    }

    // ---- What is shown --------------------------------------------------------------------

    private setView(view: View): void {
        this.view = view;
        document.body.dataset.view = view;
        for (const [v, b] of this.tabs) b.setAttribute('aria-selected', String(v === view));
        this.hideCard();
        this.showState();
    }

    private showTree(): void {
        const { p } = this;
        this.main.setTree(this.inverted ? invert(p, p.tree, this.order)
            : this.order === 'weight' ? callees(p, p.tree, [0], 'weight') : p.tree);
        this.showCrumbs();
        this.showMatched();
        this.showState();
        this.showDetail(this.main, 0);
    }

    private setOrder(order: Order): void {
        this.order = order;
        this.showTree();
        this.openFunction(this.chosen, false);
    }

    private setInverted(on: boolean): void {
        this.inverted = on;
        this.showTree();
    }

    private showState(): void {
        this.heavy.setAttribute('aria-pressed', String(this.order === 'weight'));
        this.leafFirst.setAttribute('aria-pressed', String(this.inverted));
        this.onTop.setAttribute('aria-pressed', String(this.main.rootOnTop));
        this.reset.disabled = !this.main.zoom && !this.input.value && this.main.whole;
    }

    private openNode(t: Tree, n: number): void {
        const f = this.p.frames[t.frame[n]];
        const row = this.table.find(f.name);
        if (row) this.openFunction(row);
    }

    private openFunction(r: FunctionRow | null, go = true): void {
        this.chosen = r;
        this.table.select(r);
        const { p } = this;
        const nodes = r ? outermost(p, p.tree, r.name) : [];
        const found = nodes.length > 0;
        this.empty.hidden = found;
        this.empty.textContent = r
            ? `All calls of ${r.name} are narrower than the frames kept in this file.`
            : 'Choose a function.';
        for (const e of [this.above.canvas, this.below.canvas, this.about]) e.hidden = !found;
        if (r && found) {
            this.above.setTree(callers(p, p.tree, nodes, this.order));
            this.below.setTree(callees(p, p.tree, nodes, this.order));
            this.about.replaceChildren(
                make('span', { class: 'hint' }, '▲ callers'), make('b', { title: r.name }, r.name),
                make('span', {}, `self ${percent(r.self, p.total)}`),
                make('span', {}, `total ${percent(r.total, p.total)}`),
                make('span', { class: 'hint' }, 'callees ▼'));
            this.showCallers();
        }
        if (r && go && this.view !== 'sandwich') this.setView('sandwich');
    }

    /** Callers take the room they need, up to half. */
    private showCallers(): void {
        const rows = this.above.tree.depth.reduce((a, d) => Math.max(a, d), 0) + 1;
        this.above.canvas.style.height = `min(50%, ${rows * 18}px)`;
    }

    private resetAll(): void {
        this.input.value = '';
        this.search();
        this.main.zoomTo(0);
        this.showState();
    }

    private showCrumbs(): void {
        const t = this.main.tree;
        const chain: number[] = [];
        for (let n = this.main.zoom; n >= 0; n = t.parent[n]) chain.unshift(n);
        this.crumbs.replaceChildren();
        chain.forEach((n, i) => {
            if (i) this.crumbs.append(make('span', { class: 'sep', 'aria-hidden': 'true' }, '›'));
            const b = button(this.p.frames[t.frame[n]].name, '', () => this.main.zoomTo(n));
            b.disabled = n === this.main.zoom;
            this.crumbs.append(b);
        });
        if (chain.length === 1) {
            this.crumbs.append(make('span', { class: 'sep' },
                '· click zooms, wheel zooms, dragging pans, Alt-click shows callers and callees'));
        }
        this.crumbs.scrollLeft = this.crumbs.scrollWidth;
        this.showMatched();
    }

    // ---- Search ---------------------------------------------------------------------------

    private toggleRegex(): void {
        const on = this.regex.getAttribute('aria-pressed') === 'true';
        this.regex.setAttribute('aria-pressed', String(!on));
        this.search();
    }

    private search(): void {
        const m = matcher(this.input.value, this.regex.getAttribute('aria-pressed') === 'true');
        this.input.setAttribute('aria-invalid', String(m === 'error'));
        const match = typeof m === 'function' ? m : null;
        this.hit = match ? matchFrames(this.p, match) : null;
        for (const c of [this.main, this.above, this.below]) c.setHits(this.hit);
        this.table.filter(match);
        this.showMatched();
        this.showState();
    }

    private showMatched(): void {
        this.matched.textContent = '';
        this.matched.title = '';
        if (!this.hit) return;
        // Counted where callers come first: there a stack with two matches is one subtree.
        const all = matchedWeight(this.p.tree, 0, this.hit);
        let text = matchedText(all, this.p.total);
        const { zoom, tree } = this.main;
        if (zoom && !this.inverted) {
            const part = matchedWeight(tree, zoom, this.hit);
            text += `, ${matchedText(part, tree.total[zoom]).slice(8)} of the zoomed`;
        }
        this.matched.textContent = text;
        this.matched.title = matchedHint(all, this.p.total);
    }

    // ---- About one frame ------------------------------------------------------------------

    private lines(chart: FlameChart, n: number): HTMLElement[] {
        const whole = chart === this.main ? chart.zoom : 0;
        return describe(this.p, chart.tree, n, whole).map(([name, text]) =>
            make('div', {}, make('span', {}, name), text));
    }

    private showCard(chart: FlameChart, n: number, x: number, y: number): void {
        const name = this.p.frames[chart.tree.frame[n]].name;
        this.card.replaceChildren(make('b', {}, name), ...this.lines(chart, n));
        this.card.hidden = false;
        const r = this.card.getBoundingClientRect();
        const left = Math.max(8, Math.min(x + 14, innerWidth - r.width - 8));
        const top = y + 18 + r.height > innerHeight - 8 ? Math.max(8, y - r.height - 10) : y + 18;
        this.card.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
    }

    private hideCard(): void {
        this.card.hidden = true;
    }

    /** The same at the bottom of the page, for what was chosen: there is no hovering on a phone. */
    private showDetail(chart: FlameChart, n: number): void {
        const name = this.p.frames[chart.tree.frame[n]].name;
        this.detail.replaceChildren(make('b', { title: name }, name), ...this.lines(chart, n));
        if (n > 0) {
            this.detail.append(button('Callers and callees', 'Show it in the sandwich (s)',
                () => this.openNode(chart.tree, n)));
        }
    }

    // ---- Colours --------------------------------------------------------------------------

    private applyColors(): void {
        const root = document.documentElement;
        if (this.theme === 'auto') root.removeAttribute('data-theme');
        else root.dataset.theme = this.theme;
        this.themeButton.textContent = { auto: '◐ auto', light: '☀ light', dark: '☾ dark' }[this.theme];
        const dark = this.theme === 'dark' ||
            (this.theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
        const style = getComputedStyle(root);
        const color = (name: string) => style.getPropertyValue(name).trim();
        for (const c of [this.main, this.above, this.below]) {
            c.setColors({
                palette: this.p.palettes[this.scheme][dark ? 'dark' : 'light'],
                scheme: this.scheme,
                page: color('--page'),
                ink: color('--frame-ink'),
                hit: color('--hit'),
                mark: color('--mark'),
            });
        }
    }

    // ---- Input ----------------------------------------------------------------------------

    private listen(): void {
        this.input.addEventListener('input', () => this.search());
        matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.applyColors());
        window.addEventListener('keydown', (e) => this.key(e));
        this.main.canvas.addEventListener('wheel', () => this.showState());
    }

    private key(e: KeyboardEvent): void {
        const typing = e.target === this.input;
        if ((e.key === '/' && !typing) || (e.key === 'f' && (e.ctrlKey || e.metaKey))) {
            e.preventDefault();
            this.input.focus();
            this.input.select();
        } else if (e.key === 'Escape') {
            if (this.input.value) {
                this.input.value = '';
                this.search();
            } else {
                this.main.zoomTo(0);
            }
            if (typing) this.main.canvas.focus();
        }
    }
}

new Viewer(document.getElementById('sonde-data')!.textContent!);
