// The table of functions: sorted, filtered, and only the rows in sight are in the document. It says
// in text what the graph draws, so it is what screen readers read.

import { FunctionRow, Profile, change } from './data';
import { Matcher, percent, place, points, value } from './text';

const ROW = 26;

interface Column {
    id: string;
    title: string;
    hint: string;
    number: boolean;
    key(r: FunctionRow): number | string;
}

function make<K extends keyof HTMLElementTagNameMap>(tag: K, className: string, role = ''): HTMLElementTagNameMap[K] {
    const e = document.createElement(tag);
    if (className) e.className = className;
    if (role) e.setAttribute('role', role);
    return e;
}

let tables = 0;

export class FunctionTable {
    readonly element: HTMLElement;
    private readonly body: HTMLElement;
    private readonly rows: HTMLElement;
    private readonly note: HTMLElement;
    private readonly heads = new Map<string, HTMLButtonElement>();
    private readonly columns: Column[];
    private readonly id = `sonde-row-${++tables}-`;
    private sort: string;
    private down = true;
    private ordered: FunctionRow[] = []; // all, in order
    private shown: FunctionRow[] = [];   // those that match
    private match: Matcher | null = null;
    private chosen: FunctionRow | null = null;

    /** cutText: where the rest of the functions is, should there be more than these. */
    constructor(
        private readonly p: Profile,
        private readonly chose: (r: FunctionRow, open: boolean) => void,
        private readonly cutText = 'are in this file',
    ) {
        this.columns = this.columnsOf();
        this.sort = p.baseTotal ? 'dself' : 'self';
        this.element = make('section', 'functions');
        this.element.setAttribute('aria-label', 'Functions');
        const head = make('div', 'row head', 'row');
        head.setAttribute('aria-rowindex', '1');
        for (const c of this.columns) head.append(this.headOf(c));
        this.body = make('div', 'body', 'grid');
        this.body.tabIndex = 0;
        this.body.setAttribute('aria-label', 'Functions; arrows choose one');
        this.rows = make('div', 'rows', 'rowgroup');
        const top = make('div', 'top', 'rowgroup');
        top.append(head);
        this.body.append(top, this.rows);
        this.note = make('div', 'note');
        this.element.append(this.body, this.note);
        if (p.baseTotal) this.element.classList.add('diff');
        this.body.addEventListener('scroll', () => this.paint(), { passive: true });
        this.body.addEventListener('keydown', (e) => this.key(e));
        new ResizeObserver(() => this.paint()).observe(this.body);
        this.arrange();
    }

    private columnsOf(): Column[] {
        const { p } = this;
        const columns: Column[] = [
            { id: 'self', title: 'Self', hint: 'In the function itself', number: true,
                key: (r) => r.self },
            { id: 'total', title: 'Total', hint: 'With everything it calls', number: true,
                key: (r) => r.total },
        ];
        if (p.baseTotal) {
            const hint = 'By how much its share has changed, in percentage points';
            columns.push(
                { id: 'dself', title: 'Δ self', hint, number: true,
                    key: (r) => change(p, r.self, r.baseSelf) },
                { id: 'dtotal', title: 'Δ total', hint, number: true,
                    key: (r) => change(p, r.total, r.base) },
            );
        }
        columns.push(
            { id: 'name', title: 'Function', hint: '', number: false, key: (r) => r.name },
            { id: 'place', title: 'Source or module', hint: '', number: false,
                key: (r) => place(r) || r.module },
        );
        return columns;
    }

    private headOf(c: Column): HTMLElement {
        const cell = make('div', `cell ${c.id}${c.number ? ' number' : ''}`, 'columnheader');
        const b = make('button', '');
        b.type = 'button';
        b.textContent = c.title;
        if (c.hint) b.title = c.hint;
        b.addEventListener('click', () => {
            this.down = this.sort === c.id ? !this.down : c.number;
            this.sort = c.id;
            this.arrange();
        });
        this.heads.set(c.id, b);
        cell.append(b);
        return cell;
    }

    filter(match: Matcher | null): void {
        this.match = match;
        this.choose();
    }

    select(r: FunctionRow | null): void {
        this.chosen = r;
        this.paint();
    }

    find(name: string): FunctionRow | null {
        return this.p.functions.find((r) => r.name === name) ?? null;
    }

    get first(): FunctionRow | null {
        return this.ordered[0] ?? null;
    }

    private arrange(): void {
        const c = this.columns.find((column) => column.id === this.sort)!;
        const sign = this.down ? -1 : 1;
        const keyed = this.p.functions.map((r) => ({ r, key: c.key(r) }));
        keyed.sort((a, b) =>
            (a.key < b.key ? -sign : a.key > b.key ? sign : 0) || (a.r.name < b.r.name ? -1 : 1));
        this.ordered = keyed.map((k) => k.r);
        for (const [id, b] of this.heads) {
            const on = id === this.sort;
            b.dataset['sort'] = on ? (this.down ? 'down' : 'up') : '';
            b.parentElement!.setAttribute('aria-sort', on ? (this.down ? 'descending' : 'ascending') : 'none');
        }
        this.choose();
    }

    private choose(): void {
        const { match } = this;
        this.shown = match ? this.ordered.filter((r) => match(r.name)) : this.ordered;
        const all = this.p.functionCount;
        const cut = all > this.p.functions.length
            ? `; the ${this.p.functions.length} with the largest total of ${all} ${this.cutText}` : '';
        this.note.textContent = `${this.shown.length} functions${cut}`;
        this.body.setAttribute('aria-rowcount', String(this.shown.length + 1));
        this.body.scrollTop = 0;
        this.paint();
    }

    private paint(): void {
        this.rows.style.height = `${this.shown.length * ROW}px`;
        const height = this.body.clientHeight;
        const first = Math.max(0, Math.floor(this.body.scrollTop / ROW) - 4);
        const last = Math.min(this.shown.length, Math.ceil((this.body.scrollTop + height) / ROW) + 4);
        const rows = document.createDocumentFragment();
        for (let i = first; i < last; i++) rows.append(this.rowOf(this.shown[i], i));
        this.rows.replaceChildren(rows);
        const at = this.chosen ? this.shown.indexOf(this.chosen) : -1;
        if (at >= first && at < last) this.body.setAttribute('aria-activedescendant', this.id + at);
        else this.body.removeAttribute('aria-activedescendant');
    }

    private rowOf(r: FunctionRow, i: number): HTMLElement {
        const row = make('div', 'row', 'row');
        row.id = this.id + i;
        row.style.top = `${i * ROW}px`;
        row.setAttribute('aria-rowindex', String(i + 2));
        row.setAttribute('aria-selected', String(r === this.chosen));
        for (const c of this.columns) row.append(this.cellOf(r, c));
        row.addEventListener('click', () => this.open(r, true));
        return row;
    }

    private cellOf(r: FunctionRow, c: Column): HTMLElement {
        const { p } = this;
        const cell = make('div', `cell ${c.id}${c.number ? ' number' : ''}`, 'gridcell');
        if (c.id === 'self' || c.id === 'total') {
            const weight = c.key(r) as number;
            const share = document.createElement('span');
            share.textContent = percent(weight, p.total);
            const bar = document.createElement('i');
            bar.style.width = `${p.total ? (100 * weight) / p.total : 0}%`;
            const absolute = document.createElement('em');
            absolute.textContent = value(weight, p.unit);
            cell.append(bar, absolute, share);
        } else if (c.number) {
            const by = c.key(r) as number;
            const before = c.id === 'dself' ? r.baseSelf : r.base;
            cell.textContent = points(by).replace(' points', ' pp');
            cell.title = `before ${value(before, p.unit)}, ${percent(before, p.baseTotal)}`;
            cell.classList.add(by > 0 ? 'more' : by < 0 ? 'less' : 'same');
        } else {
            const text = String(c.key(r));
            cell.textContent = text;
            cell.title = c.id === 'name' ? r.name : [place(r), r.module].filter(Boolean).join('\n');
        }
        return cell;
    }

    private open(r: FunctionRow, open: boolean): void {
        this.select(r);
        this.chose(r, open);
    }

    private key(e: KeyboardEvent): void {
        if (e.ctrlKey || e.metaKey || e.altKey) return;
        const at = this.chosen ? this.shown.indexOf(this.chosen) : -1;
        if (e.key === 'Enter' && this.chosen && e.target === this.body) {
            e.preventDefault();
            this.open(this.chosen, true);
            return;
        }
        const page = Math.max(1, Math.floor(this.body.clientHeight / ROW) - 2);
        const to = e.key === 'ArrowDown' ? at + 1 : e.key === 'ArrowUp' ? at - 1
            : e.key === 'PageDown' ? at + page : e.key === 'PageUp' ? at - page
                : e.key === 'Home' ? 0 : e.key === 'End' ? this.shown.length - 1 : NaN;
        if (Number.isNaN(to) || e.target !== this.body) return;
        e.preventDefault();
        const row = Math.min(this.shown.length - 1, Math.max(0, to));
        const r = this.shown[row];
        if (!r) return;
        const top = row * ROW;
        if (top < this.body.scrollTop) this.body.scrollTop = top;
        const bottom = top + 2 * ROW - this.body.clientHeight; // the head takes a row
        if (bottom > this.body.scrollTop) this.body.scrollTop = bottom;
        this.open(r, false);
    }
}
