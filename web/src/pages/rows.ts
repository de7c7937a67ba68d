// The rows of a table, known by a key and updated in place: every second new figures come, and a link
// that has the focus, or text that is selected, must stay.

import { Child, keepFocus, make } from '../core/dom';

export interface RowsColumn<T> { number?: boolean; cell: (row: T) => Child }

interface Made { tr: HTMLTableRowElement; data: string }

function sameNode(cell: Child, old: ChildNode | null): boolean {
    if (cell === null || cell === undefined) return old === null;
    if (typeof cell === 'string') return old !== null && old.nodeType === Node.TEXT_NODE && old.nodeValue === cell;
    return old !== null && cell.isEqualNode(old);
}

export class Rows<T> {
    readonly body = make('tbody');
    private readonly made = new Map<string, Made>();

    // text: the class of cells that are not numbers; created: a row is there for the first time.
    constructor(private readonly columns: readonly RowsColumn<T>[], private readonly key: (row: T) => string,
        private readonly text: string | null = null, private readonly created: (tr: HTMLTableRowElement, key: string) => void = () => {}) {}

    // dress: what of a row is not in its cells.
    show(rows: readonly T[], dress: (tr: HTMLTableRowElement, row: T) => void = () => {}): void {
        const wanted = new Map<string, HTMLTableRowElement>();
        for (const row of rows) {
            let key = this.key(row);
            while (wanted.has(key)) key += '+'; // nothing that the agent lists is left out
            const tr = this.row(key, row);
            dress(tr, row);
            wanted.set(key, tr);
        }
        // A row that is moved loses the focus, so only those at the wrong place are.
        keepFocus(this.body, () => {
            for (const [key, { tr }] of this.made) {
                if (wanted.has(key)) continue;
                tr.remove();
                this.made.delete(key);
            }
            let i = 0;
            for (const tr of wanted.values()) {
                const there = this.body.children[i++] ?? null;
                if (there !== tr) this.body.insertBefore(tr, there);
            }
        });
    }

    private row(key: string, row: T): HTMLTableRowElement {
        let made = this.made.get(key);
        if (!made) {
            made = { tr: make('tr', {}, ...this.columns.map((c) => make('td', { class: c.number ? 'num' : this.text }))), data: '' };
            this.made.set(key, made);
            this.created(made.tr, key);
        }
        const { tr } = made;
        const data = JSON.stringify(row);
        const changed = data !== made.data;
        made.data = data;
        this.columns.forEach((c, i) => {
            const td = tr.cells[i];
            const cell = c.cell(row);
            // A button may look the same and still act on what the row was before.
            const acts = changed && td.querySelector('button') !== null;
            if (!acts && sameNode(cell, td.firstChild)) return;
            keepFocus(td, () => td.replaceChildren(...(cell === null || cell === undefined ? [] : [cell])));
        });
        return tr;
    }
}
