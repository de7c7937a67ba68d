// The data inside a flame graph, as written by src/present/flamegraph/data.c. Its format is
// described in src/present/flamegraph/private.h.

import { FlameAbout } from '../core/types';

export const KERNEL = 1;
export const INLINED = 2;
export const UNKNOWN = 4;
export const TRUNCATED = 8;
export const THREAD = 16;
export const PYTHON = 32;

export const LEVELS = 16; // of red and of blue in a difference

export interface Raw {
    version: number;
    title: string;
    subtitle: string;
    kind: string;
    unit: string;
    colors: string;
    icicle: boolean;
    inverted: boolean;
    minWidth: number;
    scale: number;
    baseTotal: number;
    strings: string[];
    frames: string;
    nodes: string;
    palettes?: Record<string, { light: string; dark: string }>;
    functions?: string;
    functionCount?: number;
    about?: FlameAbout; // of an agent's answer
}

export interface Frame {
    name: string;
    module: string;
    file: string;
    line: number;
    flags: number;
    color: number;
    moduleColor: number;
    fn: number; // the same for all frames of one name: that is what a function is here
}

/** Nodes in an order where callers come first and each subtree is a range. */
export interface Tree {
    count: number;
    frame: Int32Array; // index into Profile.frames
    parent: Int32Array; // -1 = none
    depth: Int32Array;
    end: Int32Array; // first node after the subtree
    total: Float64Array;
    self: Float64Array;
    dropped: Float64Array; // weight of callees that were left out
    samples: Float64Array;
    base: Float64Array; // total in the profile before; all 0 when it is no difference
    baseSelf: Float64Array;
    leafFirst: boolean; // callees come first; self is at the thread's start
    start?: Float64Array; // where each begins, if that is not beside its siblings: charts over time
}

export interface FunctionRow {
    name: string;
    module: string;
    file: string;
    line: number;
    self: number;
    total: number;
    baseSelf: number;
    base: number;
}

export interface Profile {
    title: string;
    subtitle: string;
    kind: string;
    unit: string;
    colors: string;
    icicle: boolean;
    minWidth: number;
    total: number;
    baseTotal: number; // 0 = not a difference
    dropped: number;
    frames: Frame[];
    tree: Tree;
    palettes: Record<string, { light: string[]; dark: string[] }>;
    functions: FunctionRow[];
    functionCount: number;
    fnCount: number; // Frame.fn is below this
    about: FlameAbout | null; // null: not from an agent
}

const DIGITS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** Reads variable-length integers. Not with shifts: weights pass 32 bits. */
class Reader {
    private static readonly value = (() => {
        const table = new Int8Array(128).fill(-1);
        for (let i = 0; i < 64; i++) table[DIGITS.charCodeAt(i)] = i;
        return table;
    })();
    private at = 0;
    constructor(private readonly text: string) {}
    get more(): boolean {
        return this.at < this.text.length;
    }
    next(): number {
        let result = 0;
        for (let factor = 1; ; factor *= 32) {
            const v = Reader.value[this.text.charCodeAt(this.at++)];
            if (v === undefined || v < 0) throw new Error('the data of this file is damaged');
            result += (v & 31) * factor;
            if (v < 32) return result;
        }
    }
}

export function newTree(count: number, leafFirst: boolean): Tree {
    return {
        count,
        frame: new Int32Array(count),
        parent: new Int32Array(count),
        depth: new Int32Array(count),
        end: new Int32Array(count),
        total: new Float64Array(count),
        self: new Float64Array(count),
        dropped: new Float64Array(count),
        samples: new Float64Array(count),
        base: new Float64Array(count),
        baseSelf: new Float64Array(count),
        leafFirst,
    };
}

function readFrames(raw: Raw): Frame[] {
    const frames: Frame[] = [];
    const fns = new Map<number, number>();
    const r = new Reader(raw.frames);
    while (r.more) {
        const name = r.next();
        const module = r.next();
        const file = r.next();
        const line = r.next();
        const flags = r.next();
        const color = r.next();
        const moduleColor = r.next();
        let fn = fns.get(name);
        if (fn === undefined) fns.set(name, (fn = fns.size));
        frames.push({
            name: raw.strings[name],
            module: raw.strings[module],
            file: raw.strings[file],
            line,
            flags,
            color,
            moduleColor,
            fn,
        });
    }
    return frames;
}

function readTree(raw: Raw): Tree {
    const r = new Reader(raw.nodes);
    const diff = raw.baseTotal > 0;
    // Each node has at least as many characters as numbers.
    const t = newTree(Math.floor(raw.nodes.length / (diff ? 7 : 5)), raw.inverted);
    let n = 0;
    for (; r.more; n++) {
        let parent = n - 1;
        for (let up = r.next(); up > 0; up--) parent = t.parent[parent];
        t.parent[n] = parent;
        t.depth[n] = n ? t.depth[parent] + 1 : 0;
        t.frame[n] = r.next();
        t.self[n] = r.next() * raw.scale;
        t.dropped[n] = r.next() * raw.scale;
        t.total[n] = t.self[n] + t.dropped[n];
        t.samples[n] = r.next();
        if (!diff) continue;
        t.baseSelf[n] = r.next() * raw.scale;
        t.base[n] = t.baseSelf[n] + r.next() * raw.scale;
    }
    t.count = n;
    sumUp(t);
    findEnds(t);
    return t;
}

/** From weights without callees to weights with them. */
function sumUp(t: Tree): void {
    for (let n = t.count - 1; n > 0; n--) {
        const p = t.parent[n];
        t.total[p] += t.total[n];
        t.samples[p] += t.samples[n];
        t.base[p] += t.base[n];
    }
}

export function findEnds(t: Tree): void {
    for (let n = 0; n < t.count; n++) t.end[n] = n + 1;
    for (let n = t.count - 1; n > 0; n--) {
        const p = t.parent[n];
        if (t.end[n] > t.end[p]) t.end[p] = t.end[n];
    }
}

/** The weight left of each node, when callees stand side by side from the left edge of their
 *  caller on. Sums of whole numbers: the edges of neighbours are exactly the same. */
export function starts(t: Tree): Float64Array {
    const start = new Float64Array(t.count);
    const used = new Float64Array(t.count);
    for (let n = 1; n < t.count; n++) {
        const p = t.parent[n];
        start[n] = start[p] + used[p];
        used[p] += t.total[n];
    }
    return start;
}

function readFunctions(raw: Raw): FunctionRow[] {
    const rows: FunctionRow[] = [];
    const r = new Reader(raw.functions ?? '');
    while (r.more) {
        const row: FunctionRow = {
            name: raw.strings[r.next()],
            module: raw.strings[r.next()],
            file: raw.strings[r.next()],
            line: r.next(),
            self: r.next() * raw.scale,
            total: r.next() * raw.scale,
            baseSelf: 0,
            base: 0,
        };
        if (raw.baseTotal) {
            row.baseSelf = r.next() * raw.scale;
            row.base = r.next() * raw.scale;
        }
        rows.push(row);
    }
    return rows;
}

function readPalettes(raw: Raw): Profile['palettes'] {
    const split = (s: string) => (s.match(/.{6}/g) ?? []).map((c) => '#' + c);
    const palettes: Profile['palettes'] = {};
    for (const [name, p] of Object.entries(raw.palettes ?? {})) {
        palettes[name] = { light: split(p.light), dark: split(p.dark) };
    }
    return palettes;
}

export function readProfile(text: string): Profile {
    return readRaw(JSON.parse(text) as Raw);
}

export function readRaw(raw: Raw): Profile {
    if (raw.version !== 1) throw new Error('the data of this file is of another version');
    const tree = readTree(raw);
    const frames = readFrames(raw);
    let dropped = 0;
    for (let n = 0; n < tree.count; n++) dropped += tree.dropped[n];
    return {
        title: raw.title,
        subtitle: raw.subtitle,
        kind: raw.kind,
        unit: raw.unit,
        colors: raw.colors,
        icicle: raw.icicle,
        minWidth: raw.minWidth,
        total: tree.total[0],
        baseTotal: raw.baseTotal,
        dropped,
        frames,
        tree,
        palettes: readPalettes(raw),
        functions: readFunctions(raw),
        functionCount: raw.functionCount ?? 0,
        fnCount: frames.reduce((most, f) => Math.max(most, f.fn + 1), 0),
        about: raw.about ?? null,
    };
}

/** Change of share of a node, -1 … 1. */
export function change(p: Profile, total: number, base: number): number {
    return (p.total ? total / p.total : 0) - base / p.baseTotal;
}

/** Per node -LEVELS … LEVELS: how much larger or smaller its share is than before. The same as
 *  sonde_flame_level(). The sign is exact: equal products round to equal numbers. */
export function levels(p: Profile, t: Tree): Int8Array {
    const out = new Int8Array(t.count);
    if (!p.baseTotal) return out;
    let largest = 0;
    for (let n = 1; n < t.count; n++) {
        largest = Math.max(largest, Math.abs(change(p, t.total[n], t.base[n])));
    }
    for (let n = 1; n < t.count; n++) {
        const now = t.total[n] * p.baseTotal;
        const before = t.base[n] * p.total;
        if (now === before) continue;
        const by = Math.sqrt(Math.abs(change(p, t.total[n], t.base[n])) / largest);
        const level = Math.min(LEVELS, Math.max(1, Math.ceil(by * LEVELS)));
        out[n] = now > before ? level : -level;
    }
    return out;
}

/** Index of a frame's colour in its palette. */
export function colorIndex(p: Profile, scheme: string, frame: number, level: number): number {
    if (scheme === 'diff') return level + LEVELS;
    const f = p.frames[frame];
    return scheme === 'module' ? f.moduleColor : f.color;
}

export interface Kind { name: string; color: number; of: number }

/** Native code, Python and the kernel, as far as there are frames of each, with a colour of each:
 *  what a legend lists. Nothing if all is of one kind, or the colours do not tell them apart. */
export function codeKinds(p: Profile, scheme: string): Kind[] {
    if (p.baseTotal || !['hot', 'cold', 'monochrome'].includes(scheme)) return [];
    // Colours as src/present/flamegraph/private.h numbers them: the middle of each kind's.
    const all = [
        { name: 'native', color: 16, of: 0 },
        { name: 'Python', color: 46, of: PYTHON },
        { name: 'kernel', color: 36, of: KERNEL },
    ];
    const seen = new Set<number>();
    for (let n = 1; n < p.tree.count; n++) {
        const { flags } = p.frames[p.tree.frame[n]];
        if (!(flags & (UNKNOWN | TRUNCATED | THREAD))) seen.add(flags & (PYTHON | KERNEL));
    }
    return seen.size > 1 ? all.filter((k) => seen.has(k.of)) : [];
}
