// What is looked at. The address is the whole state: page, time range, filters; so every view can
// be linked to, and the browser's back button goes back.
//
// In a file that was saved (frozen.ts) the address is in the fragment, since a page from disk may
// not have another path.

import { now } from './now';

export interface Range { from: number; to: number; live: boolean; seconds: number }

// Where the address is kept; tests bring their own.
export interface Place {
    read(): { page: string; query: string };
    write(page: string, query: string, replace: boolean): void;
    href(page: string, query: string): string;
}

export const DEFAULT_SECONDS = 900;
const SHORTEST = 5;
const LONGEST = 366 * 86400;
const RANGE_KEYS = ['range', 'from', 'to'];
// What links to other pages keep.
const KEPT = [...RANGE_KEYS, 'model', 'route', 'process', 'pid'];
// A link that says itself what is looked at does not compare that with the second range.
const LOOKED_AT = [...RANGE_KEYS, 'profile'];
const TIMES = /^[\d.]+\.\.[\d.]+$/;

function number(text: string | null): number | null {
    if (text === null || text.trim() === '') return null;
    const v = Number(text);
    return Number.isFinite(v) ? v : null;
}

function round(t: number): string {
    return String(Math.round(t * 1000) / 1000);
}

export class State {
    private values = new URLSearchParams();
    private current = '';
    private readonly listeners: { keys: string[] | '*'; f: () => void }[] = [];
    private pageListener: ((page: string) => void) | null = null;
    private otherwise = DEFAULT_SECONDS;

    constructor(private readonly place: Place) {
        this.load();
    }

    // The address changed by itself: back, forward, or at the start.
    reload(): void {
        const before = this.values;
        const page = this.current;
        this.load();
        if (this.current !== page) {
            this.pageListener?.(this.current);
            return;
        }
        this.tell(before);
    }

    private load(): void {
        const { page, query } = this.place.read();
        this.current = page;
        this.values = new URLSearchParams(query);
    }

    page(): string {
        return this.current;
    }

    onPage(f: (page: string) => void): void {
        this.pageListener = f;
    }

    // To another page; `href` is one that link() made.
    go(page: string, query: string): void {
        const before = this.values;
        const same = page === this.current;
        this.current = page;
        this.values = new URLSearchParams(query);
        this.place.write(page, this.values.toString(), false);
        if (same) this.tell(before);
        else this.pageListener?.(page);
    }

    get(key: string): string | null {
        return this.values.get(key);
    }

    set(values: Record<string, string | null>, replace = false): void {
        const before = new URLSearchParams(this.values);
        for (const [k, v] of Object.entries(values)) {
            if (v === null || v === '') this.values.delete(k);
            else this.values.set(k, v);
        }
        if (before.toString() === this.values.toString()) return;
        this.place.write(this.current, this.values.toString(), replace);
        this.tell(before);
    }

    range(): Range {
        const from = number(this.values.get('from'));
        const to = number(this.values.get('to'));
        if (from !== null && to !== null && to > from) {
            return { from, to, live: false, seconds: to - from };
        }
        const asked = number(this.values.get('range'));
        const seconds = asked === null ? this.otherwise : Math.min(LONGEST, Math.max(SHORTEST, asked));
        const end = now();
        return { from: end - seconds, to: end, live: true, seconds };
    }

    hasRange(): boolean {
        return RANGE_KEYS.some((k) => this.values.has(k));
    }

    // How far back to look where the address does not say.
    setDefault(seconds: number): void {
        if (seconds === this.otherwise) return;
        this.otherwise = seconds;
        if (!this.hasRange()) this.call(new Set(['range']));
    }

    setRange(r: { seconds: number } | { from: number; to: number }): void {
        if ('seconds' in r) {
            this.set({ range: round(Math.min(LONGEST, Math.max(SHORTEST, r.seconds))), from: null, to: null });
        } else if (r.to > r.from) {
            this.set({ from: round(r.from), to: round(r.to), range: null });
        }
    }

    on(keys: string[] | '*', f: () => void): () => void {
        const entry = { keys, f };
        this.listeners.push(entry);
        return () => {
            const i = this.listeners.indexOf(entry);
            if (i >= 0) this.listeners.splice(i, 1);
        };
    }

    link(page: string, values: Record<string, string | null> = {}): string {
        return this.place.href(page, this.queryFor(values));
    }

    queryFor(values: Record<string, string | null> = {}): string {
        const next = new URLSearchParams();
        for (const k of KEPT) {
            const v = this.values.get(k);
            if (v !== null) next.set(k, v);
        }
        // A second range is one of all pages; a session, or the rest of some requests, of the page that chose it.
        const base = this.values.get('base');
        if (base && TIMES.test(base) && !LOOKED_AT.some((k) => k in values)) next.set('base', base);
        for (const [k, v] of Object.entries(values)) {
            if (v === null) next.delete(k);
            else next.set(k, v);
        }
        return next.toString();
    }

    query(): string {
        return this.values.toString();
    }

    private tell(before: URLSearchParams): void {
        const changed = new Set<string>();
        for (const k of new Set([...before.keys(), ...this.values.keys()])) {
            if (before.get(k) !== this.values.get(k)) changed.add(k);
        }
        if (RANGE_KEYS.some((k) => changed.has(k))) changed.add('range');
        if (changed.size) this.call(changed);
    }

    private call(changed: ReadonlySet<string>): void {
        for (const { keys, f } of [...this.listeners]) {
            if (keys === '*' || keys.some((k) => changed.has(k))) f();
        }
    }
}

// ---- the browser's address ----------------------------------------------------------------------

function inPath(): Place {
    return {
        read() {
            const parts = location.pathname.split('/');
            return { page: parts[parts.length - 1] || 'dashboard', query: location.search.slice(1) };
        },
        write(page, query, replace) {
            const href = this.href(page, query);
            if (replace) history.replaceState(null, '', href);
            else history.pushState(null, '', href);
        },
        href(page, query) {
            const folder = location.pathname.replace(/[^/]*$/, '');
            return folder + page + (query ? `?${query}` : '');
        },
    };
}

function inFragment(first: () => { page: string; query: string }): Place {
    return {
        read() {
            const text = location.hash.replace(/^#\/?/, '');
            if (!text) return first();
            const at = text.indexOf('?');
            return at < 0 ? { page: text, query: '' } : { page: text.slice(0, at), query: text.slice(at + 1) };
        },
        write(page, query, replace) {
            const href = this.href(page, query);
            if (replace) history.replaceState(null, '', href);
            else history.pushState(null, '', href);
        },
        href(page, query) {
            return `#/${page}${query ? `?${query}` : ''}`;
        },
    };
}

let first: { page: string; query: string } | null = null;
const browser = typeof document !== 'undefined';

export function useFragment(page: string, query: string): void {
    first = { page, query };
    Object.assign(place, inFragment(() => first ?? { page: 'dashboard', query: '' }));
    state.reload();
}

const place: Place = browser
    ? inPath()
    : { read: () => ({ page: '', query: '' }), write: () => {}, href: (p, q) => `${p}?${q}` };

export const state = new State(place);
