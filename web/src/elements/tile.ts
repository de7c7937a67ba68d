// <sonde-tile label metric href>: one figure, or a few, with a small curve below. The page sets
// `value`, `parts`, `note`, `status` and `spark`.

import { clear, make, svg } from '../core/dom';
import { SondeElement, define } from '../core/element';
import { explain } from '../core/tip';
import css from '../styles/tile.css';

export interface TilePart { name: string; text: string; color?: string }
export interface Spark {
    values: readonly (number | null | undefined)[]; // null cuts the curve, undefined is passed over
    color: string;                                  // a theme variable
}

const WIDTH = 200;
const HEIGHT = 34;

// Path data of values in a box; all sparks of a tile have one scale.
export function sparkPath(values: Spark['values'], most: number): { line: string; area: string } {
    let line = '';
    let area = '';
    let begin = -1;
    const n = values.length;
    const x = (i: number) => Math.round(i / Math.max(1, n - 1) * WIDTH * 10) / 10;
    const y = (v: number) => Math.round((HEIGHT - 1 - (most > 0 ? v / most : 0) * (HEIGHT - 4)) * 10) / 10;
    const close = (end: number) => {
        if (begin >= 0) area += `L${x(end)} ${HEIGHT}L${x(begin)} ${HEIGHT}Z`;
        begin = -1;
    };
    for (let i = 0; i < n; i++) {
        const v = values[i];
        if (v === undefined) continue;
        if (v === null) {
            close(i - 1);
            continue;
        }
        const at = `${x(i)} ${y(v)}`;
        if (begin < 0) {
            // One value alone is a short line, or nobody would see it.
            line += `M${at}${i + 1 >= n || values[i + 1] === null ? `h1` : ''}`;
            area += `M${at}`;
            begin = i;
        } else {
            line += `L${at}`;
            area += `L${at}`;
        }
    }
    close(n - 1);
    return { line, area };
}

// "12.4 ms" → number large, unit small.
function figure(text: string): (Node | string)[] {
    const at = text.lastIndexOf(' ');
    const unit = at > 0 ? text.slice(at + 1) : '';
    return unit && /^[^\d]/.test(unit) ? [text.slice(0, at), make('small', {}, unit)] : [text];
}

function painted(path: SVGPathElement, what: 'fill' | 'stroke', c: string): SVGPathElement {
    path.style[what] = c;
    return path;
}

export class Tile extends SondeElement {
    static observedAttributes = ['label', 'metric', 'href'];
    private box: HTMLElement = make('div');
    private readonly labelText = make('span');
    private readonly dot = make('i', { class: 'dot', hidden: true });
    private readonly valueBox = make('div', { class: 'value' }, make('div', { class: 'skeleton' }));
    private readonly noteBox = make('div', { class: 'note' });
    private readonly sparkBox = svg('svg', {
        class: 'spark', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', 'aria-hidden': 'true',
    });
    private shownValue = '';
    private shownSpark = '';

    constructor() {
        super(css);
    }

    protected update(): void {
        const href = this.getAttribute('href');
        const tag = href ? 'a' : 'div';
        if (this.box.tagName.toLowerCase() !== tag || !this.box.isConnected) {
            this.box = make(tag, { class: 'tile' },
                make('div', { class: 'label' }, this.dot, this.labelText), this.valueBox, this.noteBox, this.sparkBox);
            const metric = this.text('metric');
            if (metric) {
                if (tag === 'div') this.box.tabIndex = 0;
                explain(this.box, metric);
            }
            clear(this.root as unknown as Element, this.box);
        }
        if (href) this.box.setAttribute('href', href);
        this.labelText.textContent = this.text('label');
        if (tag === 'div') { // a link's name is what it shows
            this.box.setAttribute('role', 'group');
            this.box.setAttribute('aria-label', this.text('label'));
        }
    }

    set value(text: string) {
        if (text === this.shownValue) return;
        this.shownValue = text;
        this.valueBox.className = 'value';
        this.valueBox.replaceChildren(...figure(text));
    }

    // Several figures side by side.
    set parts(parts: readonly TilePart[]) {
        const key = JSON.stringify(parts);
        if (key === this.shownValue) return;
        this.shownValue = key;
        this.valueBox.className = 'parts';
        this.valueBox.replaceChildren(...parts.map((p) => make('div', {}, make('em', {}, p.name), make('b', {}, ...figure(p.text)))));
    }

    set note(text: string) {
        if (this.noteBox.textContent !== text) this.noteBox.textContent = text;
        this.noteBox.title = text;
    }

    // '' : none.
    set status(s: '' | 'good' | 'warn' | 'bad') {
        this.dot.hidden = !s;
        this.box.classList.remove('good', 'warn', 'bad');
        if (s) this.box.classList.add(s);
    }

    set spark(sparks: readonly Spark[]) {
        let most = 0;
        for (const s of sparks) for (const v of s.values) if (v != null && v > most) most = v;
        const parts = sparks.map((s) => ({ ...sparkPath(s.values, most), color: `var(--sonde-${s.color})` }));
        const key = JSON.stringify(parts);
        if (key === this.shownSpark) return;
        this.shownSpark = key;
        this.sparkBox.replaceChildren(...parts.flatMap((p, i) => [
            ...(i === 0 ? [painted(svg('path', { class: 'area', d: p.area }), 'fill', p.color)] : []),
            painted(svg('path', { d: p.line }), 'stroke', p.color),
        ]));
    }
}

define('sonde-tile', Tile);
