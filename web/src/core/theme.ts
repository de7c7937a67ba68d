// Light, dark, or as the system says. Kept in local storage; ?theme= in the address wins.

export type Theme = 'auto' | 'light' | 'dark';
const STORED = 'sonde-theme';

const listeners = new Set<() => void>();

export function theme(): Theme {
    const t = document.documentElement.dataset['theme'];
    return t === 'light' || t === 'dark' ? t : 'auto';
}

export function isDark(): boolean {
    const t = theme();
    return t === 'dark' || (t === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
}

export function setTheme(t: Theme, keep = true): void {
    if (t === 'auto') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = t;
    if (keep) {
        try {
            localStorage.setItem(STORED, t);
        } catch { /* storage may be forbidden: the switch holds for this page */ }
    }
    for (const f of [...listeners]) f();
}

export function startTheme(asked: string | null): void {
    let t = asked;
    if (t !== 'light' && t !== 'dark' && t !== 'auto') {
        try {
            t = localStorage.getItem(STORED);
        } catch {
            t = null;
        }
    }
    if (t === 'light' || t === 'dark') setTheme(t, false);
}

// Canvas drawings read colours when they draw, so they must draw again.
export function onTheme(f: () => void): () => void {
    listeners.add(f);
    return () => listeners.delete(f);
}

if (typeof matchMedia !== 'undefined') {
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
        for (const f of [...listeners]) f();
    });
}

// Asking for a style makes the browser compute it: once for a while is enough. A page that embeds
// elements may change variables without telling, so it is not for ever.
const KEEP_MS = 5000;
let known = new WeakMap<Element, { until: number; values: Map<string, string> }>();
onTheme(() => { known = new WeakMap(); });

// The value of a theme variable: color('s1'), color('heat-3').
export function color(name: string, of: Element = document.documentElement): string {
    const time = performance.now();
    let k = known.get(of);
    if (!k || k.until < time) known.set(of, k = { until: time + KEEP_MS, values: new Map() });
    let v = k.values.get(name);
    if (v === undefined) k.values.set(name, v = getComputedStyle(of).getPropertyValue(`--sonde-${name}`).trim());
    return v;
}

export const SERIES_COLORS = 8;
export const PHASES = ['queue', 'encode', 'prefill', 'decode', 'sample', 'text'] as const;

// The theme variable of an inference phase, as the agent names phases.
export function phaseColor(phase: string): string {
    switch (phase) {
        case 'queue': case 'encode': case 'prefill': case 'decode': case 'sample': return `q-${phase}`;
        case 'text': case 'detokenize': case 'tokenize': return 'q-text';
        default: return 'ink-faint';
    }
}
