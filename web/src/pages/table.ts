// A table that sorts by a click on a column and is updated in place.

import { make } from '../core/dom';
import { state } from '../core/state';
import { explain } from '../core/tip';
import { Rows, RowsColumn } from './rows';
import { Sort, Sortable, formatSort, parseSort, sortRows } from './sort';

export interface TableColumn<T> extends RowsColumn<T> {
    id: string;
    title: string;
    group?: string;  // a heading over neighbours that have the same
    metric?: string; // glossary
    value?: (row: T) => Sortable; // none: it does not sort
}

export interface TableOptions<T> {
    key: (row: T) => string;
    sort: Sort;
    stateKey?: string;              // the sort order is in the address
    current?: (row: T) => boolean;
    open?: (row: T) => string | null; // where a click on the row leads; the first link in it leads there too
}

export class Table<T> {
    readonly element: HTMLElement;
    private readonly heads = new Map<string, HTMLElement>();
    private readonly rows: Rows<T>;
    private given: readonly T[] = [];
    private sort: Sort;

    constructor(name: string, private readonly columns: readonly TableColumn<T>[], private readonly options: TableOptions<T>) {
        this.sort = this.wanted();
        this.rows = new Rows(columns, options.key, 'text', (tr, key) => tr.addEventListener('click', (e) => this.clicked(e, key)));
        this.element = make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': name },
            make('table', { class: 'list sorted', 'aria-label': name }, this.head(), this.rows.body));
        this.mark();
    }

    private wanted(): Sort {
        const { stateKey, sort } = this.options;
        return parseSort(stateKey ? state.get(stateKey) : null, this.columns.filter((c) => c.value).map((c) => c.id), sort);
    }

    private head(): HTMLElement {
        const head = make('thead');
        if (this.columns.some((c) => c.group)) {
            const row = make('tr');
            for (let i = 0; i < this.columns.length;) {
                const group = this.columns[i].group ?? '';
                let n = 1;
                while (i + n < this.columns.length && (this.columns[i + n].group ?? '') === group) n++;
                row.append(group ? make('th', { scope: 'colgroup', colspan: n }, make('span', {}, group)) : make('td', { colspan: n }));
                i += n;
            }
            head.append(row);
        }
        head.append(make('tr', {}, ...this.columns.map((c) => this.headCell(c))));
        return head;
    }

    private headCell(c: TableColumn<T>): HTMLElement {
        const th = make('th', { scope: 'col', class: c.number ? 'num' : null });
        const full = c.group ? `${c.group} ${c.title}` : c.title;
        const inner = c.value ? make('button', { type: 'button', 'aria-label': c.group ? full : null }, c.title) : make('span', {}, c.title);
        if (c.value) inner.addEventListener('click', () => this.by(c));
        if (c.metric) explain(inner, c.metric);
        this.heads.set(c.id, th);
        th.append(inner);
        return th;
    }

    private by(c: TableColumn<T>): void {
        const again = this.sort.column === c.id;
        this.sort = { column: c.id, descending: again ? !this.sort.descending : c.number === true };
        if (this.options.stateKey) state.set({ [this.options.stateKey]: formatSort(this.sort) }, true);
        this.mark();
        this.show(this.given);
    }

    private mark(): void {
        for (const [id, th] of this.heads) {
            if (id === this.sort.column) th.setAttribute('aria-sort', this.sort.descending ? 'descending' : 'ascending');
            else th.removeAttribute('aria-sort');
        }
    }

    show(rows: readonly T[]): void {
        this.given = rows;
        const by = this.columns.find((c) => c.id === this.sort.column);
        const sorted = by?.value ? sortRows(rows, by.value, this.sort.descending) : rows;
        this.rows.show(sorted, (tr, row) => {
            tr.classList.toggle('opens', !!this.options.open?.(row));
            if (this.options.current?.(row)) tr.setAttribute('aria-current', 'true');
            else tr.removeAttribute('aria-current');
        });
    }

    private clicked(e: MouseEvent, key: string): void {
        if (!this.options.open || (e.target as Element).closest('a, button')) return;
        if (String(getSelection() ?? '') !== '') return; // somebody copies a name
        const row = this.given.find((r) => this.options.key(r) === key);
        const query = row && this.options.open(row);
        if (query !== null && query !== undefined) state.go(state.page(), query);
    }
}

// Names and values, with what they mean.
export interface Fact { name: string; value: string; note?: string; metric?: string }

export class Facts {
    readonly element = make('dl', { class: 'facts-list' });
    private readonly shown = new Map<string, { value: HTMLElement; key: string }>();
    private names = '';

    show(facts: readonly Fact[]): void {
        const names = JSON.stringify(facts.map((f) => f.name));
        if (names !== this.names) {
            this.names = names;
            this.shown.clear();
            this.element.replaceChildren(...facts.map((f) => {
                const name = make('dt', f.metric ? { tabindex: '0' } : {}, f.name);
                const value = make('dd');
                if (f.metric) explain(name, f.metric);
                this.shown.set(f.name, { value, key: '' });
                return make('div', {}, name, value);
            }));
        }
        for (const f of facts) {
            const s = this.shown.get(f.name);
            const key = `${f.value}\n${f.note ?? ''}`;
            if (!s || s.key === key) continue;
            s.key = key;
            s.value.replaceChildren(f.value, ...(f.note ? [make('small', {}, f.note)] : []));
        }
    }
}
