// Values and searches, as people read and write them.

import { INLINED, KERNEL, PYTHON, Profile, Tree, change } from './data';

function three(v: number): string {
    return v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2);
}

function scaled(v: number, units: string[], step: number): string {
    let i = 0;
    while (v >= step && i < units.length - 1) {
        v /= step;
        i++;
    }
    return `${i === 0 && Number.isInteger(v) ? v : three(v)} ${units[i]}`;
}

export function count(v: number): string {
    return v.toLocaleString('en-US');
}

export function samples(n: number): string {
    return `${count(n)} sample${n === 1 ? '' : 's'}`;
}

export function value(v: number, unit: string): string {
    if (unit === 'bytes') return scaled(v, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
    if (unit !== 'nanoseconds') return count(v);
    if (v < 1e9) return scaled(v, ['ns', 'µs', 'ms'], 1000);
    const s = v / 1e9;
    if (s < 120) return `${three(s)} s`;
    return s < 7200 ? `${three(s / 60)} min` : `${three(s / 3600)} h`;
}

export function percent(part: number, whole: number): string {
    return whole > 0 ? `${((100 * part) / whole).toFixed(2)} %` : '–';
}

export function points(share: number): string {
    const text = (100 * share).toFixed(2);
    return `${share > 0 ? '+' : share < 0 ? '−' : '±'}${text.replace('-', '')} points`;
}

export function place(f: { file: string; line: number }): string {
    return f.file ? (f.line ? `${f.file}:${f.line}` : f.file) : '';
}

/** Lines about a node: label and text. */
export function describe(p: Profile, t: Tree, n: number, zoom: number): [string, string][] {
    const f = p.frames[t.frame[n]];
    const lines: [string, string][] = [];
    const what = p.unit === 'count' ? '' : value(t.total[n], p.unit);
    const number = t.samples[n] ? samples(t.samples[n]) : '';
    lines.push(['total', [what, number].filter(Boolean).join(', ') || count(t.total[n])]);
    if (t.self[n] && !t.leafFirst) lines.push(['self', `${value(t.self[n], p.unit)}, ${percent(t.self[n], p.total)}`]);
    lines.push(['share', `${percent(t.total[n], p.total)} of all`]);
    if (zoom > 0 && t.total[zoom] > 0 && n >= zoom && n < t.end[zoom]) {
        lines[lines.length - 1][1] += `, ${percent(t.total[n], t.total[zoom])} of the zoomed frame`;
    }
    if (p.baseTotal) {
        lines.push([
            'before',
            `${value(t.base[n], p.unit)}, ${percent(t.base[n], p.baseTotal)}, now ` +
                points(change(p, t.total[n], t.base[n])),
        ]);
    }
    const where = place(f);
    if (where) lines.push(['source', where]);
    const kind = f.flags & KERNEL ? 'kernel' : f.flags & PYTHON ? 'Python' : f.flags & INLINED ? 'inlined' : '';
    // All of Python is in one module, which says no more than its kind.
    const module = f.flags & PYTHON ? '' : f.module;
    if (module || kind) lines.push(['module', [module, kind].filter(Boolean).join(', ')]);
    return lines;
}

/** One line for screen readers. */
export function label(p: Profile, t: Tree, n: number): string {
    return `${p.frames[t.frame[n]].name}, ${percent(t.total[n], p.total)}`;
}

export type Matcher = (name: string) => boolean;

/** null = nothing to search for; 'error' = not a regular expression. Both ignore case unless
 *  there is a capital. */
export function matcher(text: string, regex: boolean): Matcher | null | 'error' {
    if (!text) return null;
    const exact = /[A-Z]/.test(text);
    if (regex) {
        try {
            const r = new RegExp(text, exact ? 'u' : 'iu');
            return (name) => r.test(name);
        } catch {
            return 'error';
        }
    }
    if (exact) return (name) => name.includes(text);
    const lower = text.toLowerCase();
    return (name) => name.toLowerCase().includes(lower);
}

/** Which frames match. */
export function matchFrames(p: Profile, m: Matcher): Uint8Array {
    const out = new Uint8Array(p.frames.length);
    const seen = new Map<string, boolean>();
    p.frames.forEach((f, i) => {
        let hit = seen.get(f.name);
        if (hit === undefined) seen.set(f.name, (hit = m(f.name)));
        if (hit) out[i] = 1;
    });
    return out;
}

export interface Matched {
    weight: number; // of stacks with a match in them, each once
    unknown: number; // weight of frames left out, which may match too
    nodes: number;
}

/** What of the subtree of `from` matches. */
export function matchedWeight(t: Tree, from: number, hit: Uint8Array): Matched {
    const result = { weight: 0, unknown: 0, nodes: 0 };
    // A match takes its whole subtree, so that a stack counts once.
    let inside = 0;
    for (let n = from; n < t.end[from]; n++) {
        const match = hit[t.frame[n]] === 1;
        if (match) result.nodes++;
        if (n < inside) continue;
        if (match) {
            result.weight += t.total[n];
            inside = t.end[n];
        } else {
            result.unknown += t.dropped[n];
        }
    }
    return result;
}

/** "matched 12.34 %"; "≥" when frames that were left out may match as well. */
export function matchedText(m: Matched, whole: number): string {
    return `matched ${m.unknown > 0 ? '≥ ' : ''}${percent(m.weight, whole)}`;
}

export function matchedHint(m: Matched, whole: number): string {
    const more = `; up to ${percent(m.weight + m.unknown, whole)} with those left out of this file`;
    return `${count(m.nodes)} frames, each stack counted once${m.unknown > 0 ? more : ''}`;
}
