// Makes the SVG of `sonde flamegraph` interactive. The file shows a finished picture; this script
// takes it away and draws the same from the data, for the window's width, the frame that is
// zoomed and the text that is searched for.

import { Profile, Tree, codeKinds, colorIndex, levels, readProfile, starts } from './flame/data';
import {
    describe, label, matchFrames, matchedHint, matchedText, matchedWeight, matcher,
} from './flame/text';
import css from './svg.css';

const SVG = 'http://www.w3.org/2000/svg';
const HTML = 'http://www.w3.org/1999/xhtml';
const PAD = 12;
const ROW = 18;
const FRAME = 17;
const FOOT = 32;
const INSET = 4;
const LEAST_PX = 0.2; // narrower frames are not drawn; they are again when zoomed

type Attributes = Record<string, string | number>;

function svgElement<K extends keyof SVGElementTagNameMap>(
    name: K, attributes: Attributes = {}, parent?: Element,
): SVGElementTagNameMap[K] {
    const e = document.createElementNS(SVG, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, String(v));
    parent?.append(e);
    return e;
}

function html<K extends keyof HTMLElementTagNameMap>(
    name: K, attributes: Attributes = {}, text = '', parent?: Element,
): HTMLElementTagNameMap[K] {
    const e = document.createElementNS(HTML, name) as HTMLElementTagNameMap[K];
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, String(v));
    if (text) e.textContent = text;
    parent?.append(e);
    return e;
}

class FlameGraph {
    private readonly p: Profile;
    private readonly t: Tree;
    private readonly start: Float64Array;
    private readonly level: Int8Array;
    private readonly alone: boolean; // the document is this SVG
    private zoom = 0;
    private focus = 0;
    private hit: Uint8Array | null = null;
    private width = 0;
    private top = 0;
    private rows = 0;
    private character = 7.3;
    private readonly drawn = new Map<number, SVGGElement>();

    private readonly back: SVGRectElement;
    private readonly live: SVGGElement;
    private readonly foot: SVGTextElement;
    private readonly head: SVGForeignObjectElement;
    private readonly ui: HTMLDivElement;
    private readonly tipBox: SVGForeignObjectElement;
    private readonly tip: HTMLDivElement;
    private readonly input: HTMLInputElement;
    private readonly regex: HTMLButtonElement;
    private readonly reset: HTMLButtonElement;
    private readonly matched: HTMLSpanElement;
    private readonly crumbs: HTMLElement;

    constructor(private readonly svg: SVGSVGElement) {
        this.p = readProfile(svg.querySelector('.sonde-data')!.textContent);
        this.t = this.p.tree;
        this.start = starts(this.t);
        this.level = levels(this.p, this.t);
        this.alone = document.documentElement === (svg as Element);

        const style = svgElement('style');
        style.textContent = css;
        svg.querySelector('style')!.after(style);
        const summary = svg.querySelector('desc')!.textContent;
        svg.querySelector('.still')!.remove();
        svg.removeAttribute('viewBox');
        svg.setAttribute('width', '100%');
        svg.setAttribute('role', 'group');

        this.back = svgElement('rect', { class: 'bg', width: '100%', height: '100%' }, svg);
        this.live = svgElement('g', { class: 'live t', role: 'tree', 'aria-label': this.p.title }, svg);
        this.foot = svgElement('text', { class: 's', x: PAD }, svg);
        this.foot.textContent = summary;
        codeKinds(this.p, this.p.colors).forEach((kind, i) => {
            const square = svgElement('tspan', { class: `c${kind.color}`, dx: i ? 10 : 20 }, this.foot);
            square.textContent = '■';
            this.foot.append(` ${kind.name}`);
        });
        this.head = svgElement('foreignObject', { x: 0, y: 0, width: '100%', height: 1 }, svg);
        this.ui = html('div', { class: 'ui' }, '', this.head);
        const bar = html('div', { class: 'bar' }, '', this.ui);
        const what = html('div', { class: 'what' }, '', bar);
        html('b', {}, this.p.title, what);
        if (this.p.subtitle) html('i', {}, this.p.subtitle, what);
        const find = html('div', { class: 'find', role: 'search' }, '', bar);
        this.matched = html('span', { class: 'matched', 'aria-live': 'polite' }, '', find);
        this.input = html('input', {
            type: 'search', placeholder: 'Search ( / )', 'aria-label': 'Search function names',
            spellcheck: 'false', autocomplete: 'off',
        }, '', find);
        this.regex = html('button', {
            type: 'button', 'aria-pressed': 'false', title: 'Regular expression',
            'aria-label': 'Regular expression', class: 'regex',
        }, '.*', find);
        this.reset = html('button', { type: 'button', title: 'Show everything (Esc)', class: 'reset' },
            'Reset', find);
        this.crumbs = html('nav', { class: 'crumbs', 'aria-label': 'Callers of the zoomed frame' }, '',
            this.ui);
        this.tipBox = svgElement('foreignObject', {
            width: 10, height: 10, 'pointer-events': 'none', visibility: 'hidden',
        }, svg);
        this.tip = html('div', { class: 'tip', role: 'tooltip' }, '', this.tipBox);

        this.measure();
        this.listen();
        this.showCrumbs();
        this.showMatched();
        this.draw();
        this.scrollToRoot();
        new ResizeObserver(() => {
            if (this.svg.getBoundingClientRect().width !== this.width) this.draw();
        }).observe(svg);
    }

    /** The width of a character: fonts differ. */
    private measure(): void {
        const probe = svgElement('text', { class: 't' }, this.live);
        probe.textContent = 'm'.repeat(40);
        const width = probe.getComputedTextLength() / 40;
        if (width > 1) this.character = width;
        probe.remove();
    }

    // ---- Drawing --------------------------------------------------------------------------

    private frameOf(n: number) {
        return this.p.frames[this.t.frame[n]];
    }

    private y(depth: number): number {
        return this.top + (this.p.icicle ? depth : this.rows - 1 - depth) * ROW;
    }

    private draw(): void {
        const { t } = this;
        this.width = this.svg.getBoundingClientRect().width;
        this.head.setAttribute('height', '1');
        const headHeight = Math.ceil(this.ui.getBoundingClientRect().height);
        this.head.setAttribute('height', String(headHeight));
        this.top = headHeight + 4;
        this.rows = 1;
        for (let n = this.zoom; n < t.end[this.zoom]; n++) {
            if (t.depth[n] >= this.rows) this.rows = t.depth[n] + 1;
        }
        const height = this.top + this.rows * ROW + FOOT;
        this.svg.setAttribute('height', String(this.alone ? Math.max(height, innerHeight) : height));
        this.foot.setAttribute('y', String(height - 12));

        this.drawn.clear();
        const all = document.createDocumentFragment();
        const inner = Math.max(1, this.width - 2 * PAD);
        for (let n = t.parent[this.zoom]; n >= 0; n = t.parent[n]) {
            all.prepend(this.box(n, PAD, PAD + inner, true));
        }
        const whole = t.total[this.zoom] || 1;
        const x = (weight: number) => PAD + ((weight - this.start[this.zoom]) / whole) * inner;
        for (let n = this.zoom; n < t.end[this.zoom];) {
            const x0 = x(this.start[n]);
            const x1 = x(this.start[n] + t.total[n]);
            const seen = x1 - x0 >= LEAST_PX || n === this.zoom;
            if (seen) all.append(this.box(n, x0, x1, false));
            n = seen ? n + 1 : t.end[n];
        }
        this.live.replaceChildren(all);
        if (!this.drawn.has(this.focus)) this.focus = this.zoom;
        this.drawn.get(this.focus)?.setAttribute('tabindex', '0');
        this.follow();
    }

    private box(n: number, x0: number, x1: number, dim: boolean): SVGGElement {
        const { p, t } = this;
        const f = this.frameOf(n);
        const hit = this.hit?.[t.frame[n]] === 1;
        const g = svgElement('g', {
            class: `fr${dim ? ' dim' : ''}${hit ? ' hit' : ''}`, role: 'treeitem', tabindex: -1,
            'aria-level': t.depth[n] + 1, 'aria-label': label(p, t, n), 'data-n': n,
        });
        const y = this.y(t.depth[n]);
        svgElement('rect', {
            class: 'c' + colorIndex(p, p.colors, t.frame[n], this.level[n]),
            x: x0, y, width: Math.max(0, x1 - x0), height: FRAME,
        }, g);
        const room = Math.floor((x1 - x0 - 2 * INSET) / this.character);
        if (room >= 3) {
            const text = svgElement('text', { x: x0 + INSET, y: y + 13 }, g);
            const letters = Array.from(f.name.length > 4 * room ? f.name.slice(0, 4 * room) : f.name);
            text.textContent =
                letters.length > room ? letters.slice(0, room - 1).join('') + '…' : letters.join('');
        }
        this.drawn.set(n, g);
        return g;
    }

    // ---- Zoom and search ------------------------------------------------------------------

    private zoomTo(n: number): void {
        this.zoom = n;
        this.focus = n;
        this.hideTip();
        this.showCrumbs();
        this.showMatched();
        this.draw();
        this.scrollToRoot();
    }

    /** What is wide is near the root: where that is at the bottom, begin there. */
    private scrollToRoot(): void {
        if (this.alone && !this.p.icicle) scrollTo(0, document.documentElement.scrollHeight);
    }

    private showCrumbs(): void {
        const chain: number[] = [];
        for (let n = this.zoom; n >= 0; n = this.t.parent[n]) chain.unshift(n);
        this.crumbs.replaceChildren();
        chain.forEach((n, i) => {
            if (i) html('span', { class: 'sep', 'aria-hidden': 'true' }, '›', this.crumbs);
            const b = html('button', { type: 'button' }, this.frameOf(n).name, this.crumbs);
            b.disabled = n === this.zoom;
            if (b.disabled) b.setAttribute('aria-current', 'true');
            b.addEventListener('click', () => this.zoomTo(n));
        });
        if (chain.length === 1) {
            html('span', { class: 'sep' }, '· click a frame to zoom', this.crumbs);
        }
        this.crumbs.scrollLeft = this.crumbs.scrollWidth;
    }

    private showMatched(): void {
        this.matched.textContent = '';
        this.matched.removeAttribute('title');
        if (this.hit) {
            const all = matchedWeight(this.t, 0, this.hit);
            let text = matchedText(all, this.p.total);
            if (this.zoom) {
                const part = matchedWeight(this.t, this.zoom, this.hit);
                text += `, ${matchedText(part, this.t.total[this.zoom]).slice(8)} of the zoomed`;
            }
            this.matched.textContent = text;
            this.matched.title = matchedHint(all, this.p.total);
        }
        this.reset.disabled = !this.zoom && !this.input.value;
    }

    private search(): void {
        const m = matcher(this.input.value, this.regex.getAttribute('aria-pressed') === 'true');
        this.input.classList.toggle('bad', m === 'error');
        this.input.setAttribute('aria-invalid', String(m === 'error'));
        this.hit = typeof m === 'function' ? matchFrames(this.p, m) : null;
        this.showMatched();
        for (const [n, g] of this.drawn) {
            g.classList.toggle('hit', this.hit?.[this.t.frame[n]] === 1);
        }
    }

    private resetAll(): void {
        this.input.value = '';
        this.search();
        this.zoomTo(0);
    }

    // ---- The tooltip ----------------------------------------------------------------------

    private showTip(n: number, x: number, y: number): void {
        this.tip.replaceChildren();
        html('b', {}, this.frameOf(n).name, this.tip);
        for (const [name, text] of describe(this.p, this.t, n, this.zoom)) {
            const row = html('div', {}, '', this.tip);
            html('span', {}, name, row);
            row.append(text);
        }
        const most = Math.min(460, this.width - 16);
        this.tipBox.setAttribute('width', String(most));
        this.tipBox.setAttribute('height', '1000');
        const r = this.tip.getBoundingClientRect();
        const scrolled = this.alone ? scrollY : 0;
        const bottom = this.alone ? scrolled + innerHeight : this.svg.getBoundingClientRect().height;
        let left = x + 14;
        if (left + r.width > this.width - 8) left = Math.max(8, this.width - 8 - r.width);
        let top = y + 18;
        if (top + r.height > bottom - 4) top = Math.max(scrolled + 4, y - r.height - 12);
        this.tipBox.setAttribute('x', String(left));
        this.tipBox.setAttribute('y', String(top));
        this.tipBox.setAttribute('width', String(r.width + 24));
        this.tipBox.setAttribute('height', String(r.height + 24));
        this.tipBox.setAttribute('visibility', 'visible');
    }

    private hideTip(): void {
        this.tipBox.setAttribute('visibility', 'hidden');
    }

    // ---- Input ----------------------------------------------------------------------------

    private nodeAt(e: Event): number {
        const g = (e.target as Element).closest?.('.fr');
        return g ? Number(g.getAttribute('data-n')) : -1;
    }

    private listen(): void {
        this.live.addEventListener('click', (e) => {
            const n = this.nodeAt(e);
            if (n >= 0) this.zoomTo(n);
        });
        this.live.addEventListener('mousemove', (e) => {
            const n = this.nodeAt(e);
            if (n < 0) return this.hideTip();
            const r = this.svg.getBoundingClientRect();
            this.showTip(n, e.clientX - r.left, e.clientY - r.top);
        });
        this.live.addEventListener('mouseleave', () => this.hideTip());
        this.live.addEventListener('focusout', () => this.hideTip());
        this.back.addEventListener('click', () => this.hideTip());
        this.input.addEventListener('input', () => this.search());
        this.regex.addEventListener('click', () => {
            const on = this.regex.getAttribute('aria-pressed') === 'true';
            this.regex.setAttribute('aria-pressed', String(!on));
            this.search();
        });
        this.reset.addEventListener('click', () => this.resetAll());
        const keys: EventTarget = this.alone ? window : this.svg;
        keys.addEventListener('keydown', (e) => this.key(e as KeyboardEvent));
        if (this.alone) window.addEventListener('scroll', () => this.follow());
    }

    /** The head stays in sight when the picture is taller than the window. */
    private follow(): void {
        if (this.alone) this.head.setAttribute('y', String(scrollY));
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
                this.zoomTo(0);
            }
            if (typing) this.focusOn(this.focus, false);
        } else if (typing) {
            if (e.key === 'Enter') this.focusMatch();
        } else {
            this.frameKey(e);
        }
    }

    private frameKey(e: KeyboardEvent): void {
        if (e.ctrlKey || e.metaKey || e.altKey || (e.target as Element).localName === 'button') return;
        const { t } = this;
        const n = this.focus;
        const out = this.p.icicle ? 'ArrowUp' : 'ArrowDown';
        const into = this.p.icicle ? 'ArrowDown' : 'ArrowUp';
        if (e.key === 'Enter' || e.key === ' ') {
            this.zoomTo(n);
            this.focusOn(n);
        } else if (e.key === 'Backspace') {
            this.zoomTo(Math.max(0, t.parent[this.zoom]));
            this.focusOn(this.focus);
        } else if (e.key === out) {
            this.focusOn(t.parent[n]);
        } else if (e.key === into) {
            this.focusOn(this.heaviest(n));
        } else if (e.key === 'ArrowLeft' || e.key === 'ArrowRight') {
            this.focusOn(this.beside(n, e.key === 'ArrowLeft' ? -1 : 1));
        } else if (e.key === 'Home') {
            this.focusOn(this.zoom);
        } else {
            return;
        }
        e.preventDefault();
    }

    private heaviest(n: number): number {
        const { t } = this;
        // From a caller of the zoomed frame the way leads to it.
        for (let z = this.zoom; z > n; z = t.parent[z]) if (t.parent[z] === n) return z;
        let best = -1;
        for (let c = n + 1; c < t.end[n]; c = t.end[c]) {
            if (this.drawn.has(c) && (best < 0 || t.total[c] > t.total[best])) best = c;
        }
        return best;
    }

    /** The frame drawn next to n in its row. */
    private beside(n: number, by: number): number {
        const row = [...this.drawn.keys()].filter((c) => this.t.depth[c] === this.t.depth[n]);
        row.sort((a, b) => a - b);
        return row[row.indexOf(n) + by] ?? -1;
    }

    private focusOn(n: number, tip = true): void {
        const g = this.drawn.get(n);
        if (!g) return;
        this.drawn.get(this.focus)?.setAttribute('tabindex', '-1');
        this.focus = n;
        g.setAttribute('tabindex', '0');
        g.focus();
        if (!tip) return;
        const r = g.getBoundingClientRect();
        const s = this.svg.getBoundingClientRect();
        this.showTip(n, Math.max(0, r.left) - s.left, r.bottom - s.top - 12);
    }

    private focusMatch(): void {
        let best = -1;
        for (const n of this.drawn.keys()) {
            if (this.hit?.[this.t.frame[n]] === 1 && (best < 0 || this.t.total[n] > this.t.total[best])) {
                best = n;
            }
        }
        this.focusOn(best);
    }
}

const script = document.currentScript as Element | null;
const svg = (script?.closest('svg') ?? document.querySelector('svg.sonde-flame')) as SVGSVGElement;
new FlameGraph(svg);
