// Other trees from the same stacks: leaf first, callees and callers of one function, recursion
// folded, and the order of callees by weight.
//
// All of them group stacks by function, level by level, with two passes over a range of an array
// (count, then put in place), so no object is made for a stack or a node. A leaf-first tree can
// have many more nodes than the one it is made of, so parts that nobody could see are left out,
// as the agent does, and are made when they are zoomed into (`path`).

import { Profile, Tree } from './data';
import { Children, Growing, Order, arrange, sibling } from './grow';

export type { Order } from './grow';

export interface Cut {
    least: number;    // share of the part's weight below which callees are left out
    path?: number[];  // functions that lead to the part that is wanted; it becomes the root
}
const ALL: Cut = { least: 0 };

/** The callees of the node that is being expanded, by function. */
class Groups {
    private readonly round: Int32Array; // by function: when it was seen last
    private readonly index: Int32Array; // by function: its group
    private now = 0;
    count = 0;
    frame: number[] = [];
    size: number[] = [];
    total: number[] = [];
    base: number[] = [];
    at: number[] = []; // where its next member goes; -1 = left out

    constructor(private readonly p: Profile) {
        this.round = new Int32Array(p.fnCount);
        this.index = new Int32Array(p.fnCount);
    }

    begin(): void {
        this.now++;
        this.count = 0;
    }

    add(frame: number, total: number, base: number): void {
        const { fn } = this.p.frames[frame];
        if (this.round[fn] !== this.now) {
            this.round[fn] = this.now;
            this.index[fn] = this.count;
            this.frame[this.count] = frame;
            this.size[this.count] = 0;
            this.total[this.count] = 0;
            this.base[this.count] = 0;
            this.at[this.count] = -1;
            this.count++;
        }
        const g = this.index[fn];
        this.size[g]++;
        this.total[g] += total;
        this.base[g] += base;
    }

    of(frame: number): number {
        return this.index[this.p.frames[frame].fn];
    }

    /** Those that are wide enough, in order. */
    kept(order: Order, least: number, leastBase: number): number[] {
        const out: number[] = [];
        for (let g = 0; g < this.count; g++) {
            if (this.total[g] >= least || (leastBase > 0 && this.base[g] >= leastBase)) out.push(g);
        }
        return out.sort((a, b) =>
            sibling(this.p, order, this.frame[a], this.frame[b], this.total[a], this.total[b]));
    }
}

// ---- towards the leaves -----------------------------------------------------------------------

function addNodes(out: Growing, here: number, t: Tree, list: Int32Array, low: number, high: number): void {
    for (let i = low; i < high; i++) {
        const n = list[i];
        out.total[here] += t.total[n];
        out.self[here] += t.self[n];
        out.dropped[here] += t.dropped[n];
        out.samples[here] += t.samples[n];
        out.base[here] += t.base[n];
        out.baseSelf[here] += t.baseSelf[n];
    }
}

/** Callees of some nodes that are of one function. */
function follow(p: Profile, t: Tree, nodes: number[], fn: number): number[] {
    const found: number[] = [];
    for (const n of nodes) {
        for (let c = n + 1; c < t.end[n]; c = t.end[c]) if (p.frames[t.frame[c]].fn === fn) found.push(c);
    }
    return found;
}

/** The subtrees of some nodes of one function as one tree. */
export function callees(p: Profile, t: Tree, nodes: number[], order: Order, cut = ALL): Tree {
    let start = nodes;
    for (const fn of cut.path ?? []) start = follow(p, t, start, fn);
    const out = new Growing();
    const groups = new Groups(p);
    const list = new Int32Array(t.count); // each node is in one group: ranges are handed out once
    list.set(start);
    let used = start.length;
    let [least, leastBase] = [0, 0];
    const todo = start.length ? [0, start.length, -1] : []; // range of list, caller
    while (todo.length) {
        const parent = todo.pop()!;
        const high = todo.pop()!;
        const low = todo.pop()!;
        const here = out.add(parent, t.frame[list[low]]);
        addNodes(out, here, t, list, low, high);
        if (here === 0) [least, leastBase] = [cut.least * out.total[0], cut.least * out.base[0]];
        groups.begin();
        for (let i = low; i < high; i++) {
            const n = list[i];
            for (let c = n + 1; c < t.end[n]; c = t.end[c]) groups.add(t.frame[c], t.total[c], t.base[c]);
        }
        const kept = groups.kept(order, least, leastBase);
        let rest = 0;
        for (let g = 0; g < groups.count; g++) rest += groups.total[g];
        const from = used;
        for (const g of kept) {
            groups.at[g] = used;
            used += groups.size[g];
            rest -= groups.total[g];
        }
        if (kept.length < groups.count) out.dropped[here] += rest;
        if (kept.length) {
            for (let i = low; i < high; i++) {
                const n = list[i];
                for (let c = n + 1; c < t.end[n]; c = t.end[c]) {
                    const g = groups.of(t.frame[c]);
                    if (groups.at[g] >= 0) list[groups.at[g]++] = c;
                }
            }
        }
        let end = used;
        for (let i = kept.length - 1; i >= 0; i--) {
            const begin = end - groups.size[kept[i]];
            todo.push(begin, end, here);
            end = begin;
        }
        if (end !== from) throw new Error('groups of callees do not add up');
    }
    return out.tree(t.leafFirst);
}

// ---- towards the thread's start -----------------------------------------------------------------

/** Stacks that go on at `at` towards the thread's start. */
interface Stacks {
    count: number;
    at: Int32Array;
    total: Float64Array;
    samples: Float64Array;
    base: Float64Array;
}

function newStacks(count: number): Stacks {
    return { count, at: new Int32Array(count), total: new Float64Array(count),
        samples: new Float64Array(count), base: new Float64Array(count) };
}

function towardsStart(p: Profile, t: Tree, stacks: Stacks, firstFrame: number, order: Order, cut: Cut): Tree {
    const out = new Growing();
    const groups = new Groups(p);
    let list = Int32Array.from({ length: stacks.count }, (_, i) => i);
    let frame = firstFrame;
    for (const fn of cut.path ?? []) {
        list = list.filter((s) => stacks.at[s] > 0 && p.frames[t.frame[stacks.at[s]]].fn === fn);
        for (const s of list) {
            frame = t.frame[stacks.at[s]];
            stacks.at[s] = t.parent[stacks.at[s]];
        }
    }
    const placed = new Int32Array(list.length);
    let [least, leastBase] = [0, 0];
    const todo = list.length ? [0, list.length, -1, frame] : []; // range of list, caller, frame
    while (todo.length) {
        const ofFrame = todo.pop()!;
        const parent = todo.pop()!;
        const high = todo.pop()!;
        const low = todo.pop()!;
        const here = out.add(parent, ofFrame);
        groups.begin();
        for (let i = low; i < high; i++) {
            const s = list[i];
            const n = stacks.at[s];
            out.total[here] += stacks.total[s];
            out.samples[here] += stacks.samples[s];
            out.base[here] += stacks.base[s];
            if (n > 0) {
                groups.add(t.frame[n], stacks.total[s], stacks.base[s]);
            } else { // the stack ends here: the root is not a frame of it
                out.self[here] += stacks.total[s];
                out.baseSelf[here] += stacks.base[s];
            }
        }
        if (here === 0) [least, leastBase] = [cut.least * out.total[0], cut.least * out.base[0]];
        const kept = groups.kept(order, least, leastBase);
        let rest = 0;
        for (let g = 0; g < groups.count; g++) rest += groups.total[g];
        let used = low;
        for (const g of kept) {
            groups.at[g] = used;
            used += groups.size[g];
            rest -= groups.total[g];
        }
        if (kept.length < groups.count) out.dropped[here] += rest;
        for (let i = low; i < high && kept.length; i++) {
            const s = list[i];
            const n = stacks.at[s];
            if (n <= 0) continue;
            const g = groups.of(t.frame[n]);
            if (groups.at[g] < 0) continue;
            placed[groups.at[g]++] = s;
            stacks.at[s] = t.parent[n];
        }
        list.set(placed.subarray(low, used), low);
        for (let i = kept.length - 1; i >= 0; i--) {
            const begin = used - groups.size[kept[i]];
            todo.push(begin, used, here, groups.frame[kept[i]]);
            used = begin;
        }
    }
    return out.tree(!t.leafFirst);
}

/** Who calls these nodes of one function, and whom that is called by. */
export function callers(p: Profile, t: Tree, nodes: number[], order: Order, cut = ALL): Tree {
    const stacks = newStacks(nodes.length);
    nodes.forEach((n, i) => {
        stacks.at[i] = t.parent[n];
        stacks.total[i] = t.total[n];
        stacks.samples[i] = t.samples[n];
        stacks.base[i] = t.base[n];
    });
    return towardsStart(p, t, stacks, t.frame[nodes[0]], order, cut);
}

/** The whole profile leaf first. What was left out of it has no leaf: it is left of all as weight
 *  that no frame has. */
export function invert(p: Profile, t: Tree, order: Order, cut = ALL): Tree {
    const own = ownSamples(t);
    const stacks = newStacks(t.count);
    let i = 0;
    for (let n = 0; n < t.count; n++) {
        if (!t.self[n] && !t.baseSelf[n]) continue;
        stacks.at[i] = n;
        stacks.total[i] = t.self[n];
        // Samples of callees that were left out cannot be told from the function's own.
        stacks.samples[i] = t.dropped[n] ? NaN : own[n];
        stacks.base[i++] = t.baseSelf[n];
    }
    stacks.count = i;
    const result = towardsStart(p, t, stacks, t.frame[0], order, cut);
    if (cut.path?.length || !result.count) return result;
    result.total[0] = t.total[0];
    result.samples[0] = t.samples[0];
    result.base[0] = t.base[0];
    for (let n = 0; n < t.count; n++) result.dropped[0] += t.dropped[n];
    return result;
}

/** Samples of each node that are in none of its callees. */
function ownSamples(t: Tree): Float64Array {
    const own = t.samples.slice(0, t.count);
    for (let n = 1; n < t.count; n++) own[t.parent[n]] -= t.samples[n];
    return own;
}

// ---- recursion ----------------------------------------------------------------------------------

/** Direct and mutual recursion folded: a function that is on the stack already is that call of it,
 *  so what it calls is beside what the outer call does, and main;f;g;f;h is main;f;h. */
export function foldRecursion(p: Profile, t: Tree, order: Order): Tree {
    const children = new Children((frame) => p.frames[frame].fn);
    const { out } = children;
    const own = ownSamples(t);
    const ownBase = t.base.slice(0, t.count);
    for (let n = 1; n < t.count; n++) ownBase[t.parent[n]] -= t.base[n];
    const at = new Int32Array(t.count);
    out.add(-1, t.frame[0]);
    for (let n = 0; n < t.count; n++) {
        let here = 0;
        if (n) {
            const { fn } = p.frames[t.frame[n]];
            const up = at[t.parent[n]];
            here = up;
            while (here > 0 && p.frames[out.frame[here]].fn !== fn) here = out.parent[here];
            if (here <= 0) here = children.find(up, t.frame[n]);
        }
        at[n] = here;
        out.total[here] += t.self[n] + t.dropped[n];
        out.self[here] += t.self[n];
        out.dropped[here] += t.dropped[n];
        out.samples[here] += own[n];
        out.base[here] += ownBase[n];
        out.baseSelf[here] += t.baseSelf[n];
    }
    return arrange(p, out, order, t.leafFirst);
}

// ---- finding ------------------------------------------------------------------------------------

/** Nodes of one function that are not below another of it: each stack is in one of them. */
export function outermost(p: Profile, t: Tree, name: string): number[] {
    const wanted = p.frames.map((f) => f.name === name);
    const found: number[] = [];
    for (let n = 1; n < t.count;) {
        if (wanted[t.frame[n]]) {
            found.push(n);
            n = t.end[n];
        } else {
            n++;
        }
    }
    return found;
}
