// Which package a function belongs to, for colours: what its name says in languages that have
// packages or namespaces, else the file that it is in.

import { Frame, KERNEL, Profile } from './data';

const HUES = 32; // as SONDE_FLAME_HUES: the palettes' part that is chosen by hash
const KERNEL_HUES = 8;
const UNKNOWN = HUES + KERNEL_HUES;

export function packageOf(f: Frame): string {
    if (f.flags & KERNEL) return 'kernel';
    const scoped = /([A-Za-z_]\w*)(?:<[^>]*>)?::/.exec(f.name); // C++, Rust
    if (scoped) return scoped[1];
    const go = /^([\w.~-]+(?:\/[\w.~-]+)*\/[\w~-]+)\./.exec(f.name); // Go: net/http.(*conn).serve
    if (go) return go[1];
    const dotted = /^([A-Za-z_][\w$]*(?:\.[a-z_][\w$]*)*)\.[\w$<(]+/.exec(f.name); // Java, Python, Go
    if (dotted) return dotted[1];
    return f.module.slice(f.module.lastIndexOf('/') + 1);
}

function hash(text: string): number {
    let h = 0x811c9dc5;
    for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
    return h >>> 0;
}

/** By frame: the index into a palette. */
export function packageColors(p: Profile): Uint8Array {
    const known = new Map<string, number>();
    return Uint8Array.from(p.frames, (f) => {
        const name = packageOf(f);
        let color = known.get(name);
        if (color === undefined) {
            color = name === '' ? UNKNOWN : name === 'kernel' ? HUES + (hash(f.name) % KERNEL_HUES) : hash(name) % HUES;
            if (name !== 'kernel') known.set(name, color);
        }
        return color;
    });
}

export interface Part { name: string; color: number; self: number }

/** The modules or packages that took the most, with their colours: what a legend lists. */
export function parts(p: Profile, scheme: 'module' | 'package', most: number): Part[] {
    const colors = scheme === 'package' ? packageColors(p) : null;
    const by = new Map<string, Part>();
    const t = p.tree;
    for (let n = 1; n < t.count; n++) {
        if (!t.self[n]) continue;
        const f = p.frames[t.frame[n]];
        const name = colors ? packageOf(f) : f.module.slice(f.module.lastIndexOf('/') + 1);
        if (!name) continue;
        const part = by.get(name);
        if (part) part.self += t.self[n];
        else by.set(name, { name, color: colors ? colors[t.frame[n]] : f.moduleColor, self: t.self[n] });
    }
    return [...by.values()].sort((a, b) => b.self - a.self).slice(0, most);
}
