// Finer parts of a tree that come later: a profile is cut to what a window can show, and what was
// left out of a frame is asked for when it is zoomed into.

import { Frame, Profile, Tree, findEnds, newTree } from './data';

const COLUMNS = ['total', 'self', 'dropped', 'samples', 'base', 'baseSelf'] as const;

/** A node's frames from the outermost on, without the root. */
export function pathOf(t: Tree, n: number): number[] {
    const path: number[] = [];
    for (let i = n; i > 0; i = t.parent[i]) path.unshift(t.frame[i]);
    return path;
}

export function namesOf(p: Profile, t: Tree, n: number): string[] {
    return pathOf(t, n).map((f) => p.frames[f].name);
}

/** The node that a path of names leads to, as far as there is one; -1 when not even its first is
 *  there and `whole` is asked for. */
export function findPath(p: Profile, t: Tree, names: readonly string[], whole = false): number {
    let n = 0;
    for (const name of names) {
        let found = -1;
        for (let c = n + 1; c < t.end[n] && found < 0; c = t.end[c]) {
            if (p.frames[t.frame[c]].name === name) found = c;
        }
        if (found < 0) return whole ? -1 : n;
        n = found;
    }
    return n;
}

/** For `focus=`: names with a separator that cannot be in them. */
export function encodePath(names: readonly string[]): string {
    return names.map((n) => n.replace(/%/g, '%25').replace(/;/g, '%3B')).join(';');
}

export function decodePath(text: string): string[] {
    if (!text) return [];
    return text.split(';').map((n) => n.replace(/%3B/gi, ';').replace(/%25/g, '%'));
}

/** Adds what another profile knows of frames, and says which index each of its frames has here. */
export function mergeFrames(p: Profile, from: Profile): Int32Array {
    const key = (f: Frame) => `${f.name}\0${f.module}\0${f.file}\0${f.line}\0${f.flags}`;
    const known = new Map<string, number>();
    const fns = new Map<string, number>();
    p.frames.forEach((f, i) => {
        known.set(key(f), i);
        fns.set(f.name, f.fn);
    });
    const map = new Int32Array(from.frames.length);
    from.frames.forEach((f, i) => {
        const k = key(f);
        let at = known.get(k);
        if (at === undefined) {
            let fn = fns.get(f.name);
            if (fn === undefined) fns.set(f.name, fn = p.fnCount++);
            known.set(k, at = p.frames.length);
            p.frames.push({ ...f, fn });
        }
        map[i] = at;
    });
    return map;
}

/** t with node n and all below it replaced by node `root` of `part` and all below that. Weights of
 *  the callers follow, should the part have another one than what it replaces. */
export function splice(t: Tree, n: number, part: Tree, root: number, frames?: Int32Array): Tree {
    const size = part.end[root] - root;
    const grown = size - (t.end[n] - n);
    const out = newTree(t.count + grown, t.leafFirst);
    const copy = (from: Tree, low: number, high: number, to: number) => {
        out.frame.set(from.frame.subarray(low, high), to);
        out.parent.set(from.parent.subarray(low, high), to);
        out.depth.set(from.depth.subarray(low, high), to);
        for (const c of COLUMNS) out[c].set(from[c].subarray(low, high), to);
    };
    copy(t, 0, n, 0);
    copy(part, root, root + size, n);
    copy(t, t.end[n], t.count, n + size);
    const deeper = t.depth[n] - part.depth[root];
    for (let i = n; i < n + size; i++) {
        out.depth[i] += deeper;
        out.parent[i] += n - root;
        if (frames) out.frame[i] = frames[out.frame[i]];
    }
    out.parent[n] = n ? t.parent[n] : -1;
    // Callers of what comes behind are before n, or behind the part themselves.
    for (let i = n + size; i < out.count; i++) if (out.parent[i] >= n) out.parent[i] += grown;
    for (let up = out.parent[n]; up >= 0; up = out.parent[up]) {
        out.total[up] += part.total[root] - t.total[n];
        out.samples[up] += part.samples[root] - t.samples[n];
        out.base[up] += part.base[root] - t.base[n];
    }
    findEnds(out);
    return out;
}
