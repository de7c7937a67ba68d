// The table of functions: sorted, filtered, and only the rows in sight are in the document.

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

export class FunctionTable {
    readonly element: HTMLElement;
    private readonly body: HTMLElement;
    private readonly spacer: HTMLElement;
    private readonly note: HTMLElement;
    private readonly heads = new Map<string, HTMLButtonElement>();
    private readonly columns: Column[];
    private sort = 'self';
    private down = true;
    private rows: FunctionRow[] = [];
    private match: Matcher | null = null;
    private chosen: FunctionRow | null = null;

    constructor(private readonly p: Profile, private readonly chose: (r: FunctionRow) => void) {
        this.columns = this.columnsOf();
        this.element = document.createElement('section');
        this.element.className = 'functions';
        this.element.setAttribute('aria-label', 'Functions');
        const head = document.createElement('div');
        head.className = 'row head';
        for (const c of this.columns) head.append(this.headOf(c));
        this.body = document.createElement('div');
        this.body.className = 'body';
        this.body.tabIndex = 0;
        this.body.setAttribute('role', 'listbox');
        this.body.setAttribute('aria-label', 'Functions; arrows choose one');
        this.spacer = document.createElement('div');
        this.spacer.className = 'spacer';
        this.body.append(this.spacer);
        this.note = document.createElement('div');
        this.note.className = 'note';
        this.element.append(head, this.body, this.note);
        if (p.baseTotal) this.element.classList.add('diff');
        this.body.addEventListener('scroll', () => this.paint());
        this.body.addEventListener('keydown', (e) => this.key(e));
        new ResizeObserver(() => this.paint()).observe(this.body);
        this.arrange();
    }

    private columnsOf(): Column[] {
        const { p } = this;
        const columns: Column[] = [
            { id: 'self', title: 'Self', hint: 'in the function itself', number: true,
                key: (r) => r.self },
            { id: 'total', title: 'Total', hint: 'with everything it calls', number: true,
                key: (r) => r.total },
        ];
        if (p.baseTotal) {
            columns.push(
                { id: 'dself', title: 'Δ self', hint: 'change of share since before', number: true,
                    key: (r) => change(p, r.self, r.baseSelf) },
                { id: 'dtotal', title: 'Δ total', hint: 'change of share since before', number: true,
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

    private headOf(c: Column): HTMLButtonElement {
        const b = document.createElement('button');
        b.type = 'button';
        b.className = `cell ${c.id}${c.number ? ' number' : ''}`;
        b.textContent = c.title;
        if (c.hint) b.title = c.hint;
        b.addEventListener('click', () => {
            this.down = this.sort === c.id ? !this.down : c.number;
            this.sort = c.id;
            this.arrange();
        });
        this.heads.set(c.id, b);
        return b;
    }

    filter(match: Matcher | null): void {
        this.match = match;
        this.arrange();
    }

    select(r: FunctionRow | null): void {
        this.chosen = r;
        this.paint();
    }

    find(name: string): FunctionRow | null {
        return this.p.functions.find((r) => r.name === name) ?? null;
    }

    private arrange(): void {
        const c = this.columns.find((column) => column.id === this.sort)!;
        const sign = this.down ? -1 : 1;
        this.rows = this.p.functions.filter((r) => !this.match || this.match(r.name));
        this.rows.sort((a, b) => {
            const x = c.key(a);
            const y = c.key(b);
            return (x < y ? -sign : x > y ? sign : 0) || (a.name < b.name ? -1 : 1);
        });
        for (const [id, b] of this.heads) {
            b.dataset.sort = id === this.sort ? (this.down ? 'down' : 'up') : '';
            b.setAttribute('aria-label',
                `${b.textContent}${id === this.sort ? `, sorted ${this.down ? 'down' : 'up'}` : ''}`);
        }
        const all = this.p.functionCount;
        const cut = all > this.p.functions.length
            ? `; the ${this.p.functions.length} with the largest total of ${all} are in this file` : '';
        this.note.textContent = `${this.rows.length} functions${cut}`;
        this.body.scrollTop = 0;
        this.paint();
    }

    private paint(): void {
        this.spacer.style.height = `${this.rows.length * ROW}px`;
        const height = this.body.clientHeight;
        const first = Math.max(0, Math.floor(this.body.scrollTop / ROW) - 4);
        const last = Math.min(this.rows.length, Math.ceil((this.body.scrollTop + height) / ROW) + 4);
        const shown = document.createDocumentFragment();
        for (let i = first; i < last; i++) shown.append(this.rowOf(this.rows[i], i));
        this.spacer.replaceChildren(shown);
    }

    private rowOf(r: FunctionRow, i: number): HTMLElement {
        const row = document.createElement('div');
        row.className = 'row';
        row.style.top = `${i * ROW}px`;
        row.setAttribute('role', 'option');
        row.setAttribute('aria-selected', String(r === this.chosen));
        for (const c of this.columns) row.append(this.cellOf(r, c));
        row.addEventListener('click', () => this.choose(r));
        return row;
    }

    private cellOf(r: FunctionRow, c: Column): HTMLElement {
        const { p } = this;
        const cell = document.createElement('div');
        cell.className = `cell ${c.id}${c.number ? ' number' : ''}`;
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
            cell.textContent = points(by).replace(' points', ' pp');
            cell.classList.add(by > 0 ? 'more' : by < 0 ? 'less' : 'same');
        } else {
            const text = String(c.key(r));
            cell.textContent = text;
            cell.title = c.id === 'name' ? r.name : [place(r), r.module].filter(Boolean).join('\n');
        }
        return cell;
    }

    private choose(r: FunctionRow): void {
        this.select(r);
        this.chose(r);
    }

    private key(e: KeyboardEvent): void {
        const at = this.chosen ? this.rows.indexOf(this.chosen) : -1;
        const to = e.key === 'ArrowDown' ? at + 1 : e.key === 'ArrowUp' ? at - 1 : NaN;
        if (Number.isNaN(to)) return;
        e.preventDefault();
        const r = this.rows[Math.min(this.rows.length - 1, Math.max(0, to))];
        if (!r) return;
        const top = this.rows.indexOf(r) * ROW;
        if (top < this.body.scrollTop) this.body.scrollTop = top;
        const bottom = top + ROW - this.body.clientHeight;
        if (bottom > this.body.scrollTop) this.body.scrollTop = bottom;
        this.choose(r);
    }
}
