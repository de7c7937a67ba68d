// What the time of one request consisted of: its critical path, as /api/requests/ID/why has it, as a bar
// and a table. Where the agent, or a saved file, does not have it the panel is not shown.

import { can } from '../../core/abilities';
import { Api, aborted, sentence } from '../../core/api';
import { Child, clear, make } from '../../core/dom';
import { count, percent, seconds } from '../../core/format';
import { isFrozen } from '../../core/frozen';
import { explain } from '../../core/tip';
import { Why, WhyPart } from '../../core/types';
import { PathRow, codePieces, lookOf, pathRows, placeText, waitText } from './path';

const LISTED = 3; // functions, waits, requests of a part

export interface PathLinks {
    functionHref: (name: string) => string;
    other: (o: { id: string; own_id: string | null }) => HTMLElement;
}

function key(kind: string): HTMLElement {
    const k = make('span', { class: 'key' });
    paint(k, kind);
    return k;
}

function paint(e: HTMLElement, kind: string): void {
    const { color, pale } = lookOf(kind);
    if (color === null) e.classList.add('unexplained');
    else e.style.background = `var(--sonde-${color})`;
    if (pale) e.classList.add('pale');
}

function withCode(text: string): Child[] {
    return codePieces(text).map((t, i) => i % 2 ? make('code', {}, t) : t);
}

function stackOf(frames: string[]): HTMLElement {
    return make('ol', { class: 'frames mono' }, ...frames.map((f) => make('li', { dir: 'auto' }, f)));
}

export class PathPanel {
    readonly element = make('section', { hidden: true, class: 'path' });

    constructor(private readonly links: PathLinks) {}

    reset(): void {
        this.element.hidden = true;
        clear(this.element);
    }

    async load(api: Api, path: string, signal: AbortSignal): Promise<void> {
        if (!isFrozen() && !(await can(api, '/api/requests/*/why'))) return;
        if (signal.aborted) return;
        if (!isFrozen()) this.frame(make('p', { class: 'soft', role: 'status' }, 'Working it out from what was sampled …'));
        try {
            const why = await api.get<Why>(`${path}/why`, {}, signal);
            if (!signal.aborted) this.show(why);
        } catch (e: unknown) {
            if (signal.aborted || aborted(e)) return;
            if (isFrozen()) this.reset(); // the file does not have it
            else this.frame(make('p', { class: 'soft' }, `It cannot be told: ${sentence(e)}`));
        }
    }

    private frame(...children: Child[]): void {
        const title = make('h4', { tabindex: '0' }, 'What its time consisted of');
        explain(title, 'request_path');
        clear(this.element, make('div', { class: 'line' }, title), ...children);
        this.element.hidden = false;
    }

    private show(why: Why): void {
        const rows = pathRows(why);
        if (!rows.length) {
            this.frame(make('p', { class: 'soft' }, 'It took no time that could be divided.'), ...this.notes(why));
            return;
        }
        const bar = make('div', { class: 'stack cut', 'aria-hidden': 'true' });
        for (const r of rows) {
            const i = make('i', { title: `${r.title}: ${seconds(r.seconds)}` });
            i.style.width = `${100 * r.share}%`;
            paint(i, r.kind);
            bar.append(i);
        }
        const body = make('tbody', {}, ...rows.map((r) => this.row(r)),
            make('tr', {}, make('td', {}, make('b', {}, 'Duration')), make('td', { class: 'num' }, make('b', {}, seconds(why.seconds))), make('td', { class: 'num' }, '100 %')));
        const head = make('tr', {}, make('th', { scope: 'col' }, 'Part'), make('th', { scope: 'col', class: 'num' }, 'Time'), make('th', { scope: 'col', class: 'num' }, 'Share'));
        const facts = [
            why.thread ? `Mostly on thread ${why.thread}.` : '',
            why.batch_mates ? `${count(why.batch_mates)} other request${why.batch_mates === 1 ? '' : 's'} (${count(why.batch_mate_tokens)} tokens) shared its batches.` : '',
        ].filter(Boolean).join(' ');
        this.frame(bar, make('table', { class: 'whys' }, make('thead', {}, head), body),
            facts ? make('p', { class: 'soft', dir: 'auto' }, facts) : null, ...this.notes(why));
    }

    private notes(why: Why): HTMLElement[] {
        return why.notes.map((n) => make('p', { class: 'soft hint' }, ...withCode(n.slice(0, 1).toUpperCase() + n.slice(1)), '.'));
    }

    private row(r: PathRow): HTMLElement {
        return make('tr', {},
            make('td', {}, key(r.kind), r.title, r.part ? this.details(r.part) : null),
            make('td', { class: 'num' }, seconds(r.seconds)), make('td', { class: 'num' }, percent(r.share)));
    }

    // What a part is made of, the most of it first.
    private details(p: WhyPart): HTMLElement | null {
        const item = (time: number, ...children: Child[]) => make('li', {}, ...children, make('span', { class: 'soft' }, ` ${seconds(time)}`));
        const place = (f: { file: string | null; line: number | null; function: string | null; seconds: number; count: number }) =>
            f.file ? make('span', { class: 'soft', title: f.file }, ` ${placeText(f)}`) : null;
        const items = [
            ...p.waits.map((w) => {
                const text = waitText(w);
                const li = item(w.seconds, make('bdi', {}, text), place(w));
                if (w.stack.length > 1) li.append(make('details', {}, make('summary', {}, 'stack'), stackOf(w.stack)));
                return { seconds: w.seconds, li };
            }),
            ...p.functions.filter((f) => f.function).map((f) => ({
                seconds: f.seconds,
                li: item(f.seconds, make('a', { href: this.links.functionHref(f.function!), dir: 'auto' }, f.function), place(f)),
            })),
            ...p.requests.map((o) => ({ seconds: o.seconds, li: item(o.seconds, this.links.other({ id: o.id, own_id: o.name })) })),
            ...p.spans.map((s) => ({ seconds: s.seconds, li: item(s.seconds, 'around ', make('bdi', {}, s.name)) })),
        ].sort((a, b) => b.seconds - a.seconds).map((i) => i.li);
        if (!items.length) return null;
        const list = make('ul', { class: 'of' }, ...items.slice(0, LISTED));
        if (items.length > LISTED) {
            list.append(make('li', {}, make('details', {}, make('summary', {}, `${items.length - LISTED} more`), make('ul', { class: 'of' }, ...items.slice(LISTED)))));
        }
        return list;
    }
}
