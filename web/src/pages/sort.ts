// Rows in the order of a column. No DOM.

import { order } from '../core/series';

export type Sortable = number | string | null | undefined;
export interface Sort { column: string; descending: boolean }

// "cpu", or "-cpu" for the largest first.
export function parseSort(text: string | null, columns: readonly string[], otherwise: Sort): Sort {
    if (!text) return otherwise;
    const descending = text.startsWith('-');
    const column = descending ? text.slice(1) : text;
    return columns.includes(column) ? { column, descending } : otherwise;
}

export function formatSort(s: Sort): string {
    return `${s.descending ? '-' : ''}${s.column}`;
}

// What is not known comes last, whichever way; rows that are equal keep their order.
export function sortRows<T>(rows: readonly T[], value: (row: T) => Sortable, descending: boolean): T[] {
    const known = (v: Sortable): v is number | string => v !== null && v !== undefined && !Number.isNaN(v);
    return [...rows].sort((a, b) => {
        const va = value(a);
        const vb = value(b);
        if (!known(va) || !known(vb)) return Number(known(vb)) - Number(known(va));
        const c = typeof va === 'number' && typeof vb === 'number' ? va - vb : order(String(va), String(vb));
        return descending ? -c : c;
    });
}
