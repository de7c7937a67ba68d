// A tree that is being built, in typed arrays that grow: some trees have a million nodes, and an
// object for each would take seconds to make and to collect.

import { Profile, Tree, findEnds, newTree } from './data';

const COLUMNS = ['total', 'self', 'dropped', 'samples', 'base', 'baseSelf'] as const;

export class Growing {
    count = 0;
    private cap = 1024;
    frame = new Int32Array(this.cap);
    parent = new Int32Array(this.cap);
    total = new Float64Array(this.cap);
    self = new Float64Array(this.cap);
    dropped = new Float64Array(this.cap);
    samples = new Float64Array(this.cap);
    base = new Float64Array(this.cap);
    baseSelf = new Float64Array(this.cap);

    /** Returns the new node's index; callers must come before their callees. */
    add(parent: number, frame: number): number {
        if (this.count === this.cap) this.widen();
        this.parent[this.count] = parent;
        this.frame[this.count] = frame;
        return this.count++;
    }

    private widen(): void {
        this.cap *= 2;
        const wider = <T extends Int32Array | Float64Array>(from: T, to: T): T => (to.set(from), to);
        this.frame = wider(this.frame, new Int32Array(this.cap));
        this.parent = wider(this.parent, new Int32Array(this.cap));
        for (const c of COLUMNS) this[c] = wider(this[c], new Float64Array(this.cap));
    }

    /** As a tree. Nodes were added in its order: each right behind its caller's earlier callees. */
    tree(leafFirst: boolean): Tree {
        const t = newTree(this.count, leafFirst);
        t.frame.set(this.frame.subarray(0, this.count));
        t.parent.set(this.parent.subarray(0, this.count));
        for (const c of COLUMNS) t[c].set(this[c].subarray(0, this.count));
        for (let n = 1; n < t.count; n++) t.depth[n] = t.depth[t.parent[n]] + 1;
        findEnds(t);
        return t;
    }
}

/** Finds the callee of a node by its function, and adds it if there is none: a hash table with open
 *  addressing, over nodes that come in any order. */
export class Children {
    readonly out = new Growing();
    private slots = new Int32Array(4096).fill(-1);
    constructor(private readonly fnOf: (frame: number) => number) {}

    private place(parent: number, fn: number): number {
        const mask = this.slots.length - 1;
        let at = (Math.imul(parent, 0x9e3779b1) ^ Math.imul(fn, 0x85ebca6b)) >>> 7;
        for (;; at++) {
            const n = this.slots[at & mask];
            if (n < 0) return at & mask;
            if (this.out.parent[n] === parent && this.fnOf(this.out.frame[n]) === fn) return at & mask;
        }
    }

    find(parent: number, frame: number): number {
        if (2 * this.out.count >= this.slots.length) this.rehash();
        const at = this.place(parent, this.fnOf(frame));
        if (this.slots[at] < 0) this.slots[at] = this.out.add(parent, frame);
        return this.slots[at];
    }

    private rehash(): void {
        this.slots = new Int32Array(2 * this.slots.length).fill(-1);
        for (let n = 0; n < this.out.count; n++) {
            this.slots[this.place(this.out.parent[n], this.fnOf(this.out.frame[n]))] = n;
        }
    }
}

export type Order = 'name' | 'weight';

/** Which of two siblings comes first. */
export function sibling(p: Profile, order: Order, frameA: number, frameB: number, a: number, b: number): number {
    if (order === 'weight' && a !== b) return b - a;
    const x = p.frames[frameA].name;
    const y = p.frames[frameB].name;
    return x < y ? -1 : x > y ? 1 : 0;
}

/** Nodes that were added in any order, with own weights only, as a tree in order. */
export function arrange(p: Profile, g: Growing, order: Order, leafFirst: boolean): Tree {
    const { count } = g;
    const first = new Int32Array(count).fill(-1);
    const next = new Int32Array(count).fill(-1);
    for (let n = count - 1; n > 0; n--) {
        const up = g.parent[n];
        g.total[up] += g.total[n];
        g.samples[up] += g.samples[n];
        g.base[up] += g.base[n];
        next[n] = first[up];
        first[up] = n;
    }
    const out = new Growing();
    const todo = [0];
    const above = [-1];
    while (todo.length) {
        const n = todo.pop()!;
        const here = out.add(above.pop()!, g.frame[n]);
        for (const c of COLUMNS) out[c][here] = g[c][n];
        const below: number[] = [];
        for (let c = first[n]; c >= 0; c = next[c]) below.push(c);
        below.sort((a, b) => sibling(p, order, g.frame[b], g.frame[a], g.total[b], g.total[a]));
        for (const c of below) {
            todo.push(c);
            above.push(here);
        }
    }
    return out.tree(leafFirst);
}
