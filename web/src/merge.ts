// Other trees from the same stacks: leaf first, callees and callers of one function, and the
// order of callees by weight.

import { Profile, Tree, findEnds, newTree } from './data';

export type Order = 'name' | 'weight';

/** Parts of derived trees narrower than this share are left out: leaf first, a tree can have many
 *  more nodes than the one it is made of. */
const LEAST = 1e-5;

class Growing {
    private readonly nodes: [number, number, number][] = []; // parent, depth, frame
    private readonly weights: number[][] = [];
    /** Returns the new node's index. */
    add(parent: number, frame: number, weights: number[]): number {
        this.nodes.push([parent, parent < 0 ? 0 : this.nodes[parent][1] + 1, frame]);
        this.weights.push(weights);
        return this.nodes.length - 1;
    }
    drop(node: number, weight: number): void {
        this.weights[node][2] += weight;
    }
    tree(leafFirst: boolean): Tree {
        const t = newTree(this.nodes.length, leafFirst);
        this.nodes.forEach(([parent, depth, frame], n) => {
            t.parent[n] = parent;
            t.depth[n] = depth;
            t.frame[n] = frame;
            const w = this.weights[n];
            t.total[n] = w[0];
            t.self[n] = w[1];
            t.dropped[n] = w[2];
            t.samples[n] = w[3];
            t.base[n] = w[4];
            t.baseSelf[n] = w[5];
        });
        findEnds(t);
        return t;
    }
}

interface Part {
    frame: number;
    nodes: number[]; // callees: merged into one. callers: what comes next of each stack
    weights: number[]; // total, self, dropped, samples, base, base self
    stacks: number[][]; // callers only: weight, samples and base of each stack
}

function sorted(p: Profile, parts: Iterable<Part>, order: Order): Part[] {
    const list = [...parts];
    const name = (part: Part) => p.frames[part.frame].name;
    const byName = (a: Part, b: Part) => (name(a) < name(b) ? -1 : name(a) > name(b) ? 1 : 0);
    return list.sort(
        order === 'name' ? byName : (a, b) => b.weights[0] - a.weights[0] || byName(a, b),
    );
}

/** Build a tree from a first part on; expand gives the parts below one. */
function grow(
    p: Profile, first: Part, order: Order, leafFirst: boolean,
    expand: (part: Part) => Iterable<Part>,
): Tree {
    const out = new Growing();
    const least = p.total * LEAST;
    const leastBase = p.baseTotal * LEAST;
    const todo: [Part, number][] = [[first, -1]];
    for (let next = todo.pop(); next; next = todo.pop()) {
        const [part, parent] = next;
        const here = out.add(parent, part.frame, part.weights);
        const below = sorted(p, expand(part), order);
        for (let i = below.length - 1; i >= 0; i--) {
            const [total, , , , base] = below[i].weights;
            if (total >= least || (p.baseTotal > 0 && base >= leastBase)) todo.push([below[i], here]);
            else out.drop(here, total);
        }
    }
    return out.tree(leafFirst);
}

function mergeNodes(t: Tree, frame: number, nodes: number[]): Part {
    const w = [0, 0, 0, 0, 0, 0];
    for (const n of nodes) {
        w[0] += t.total[n];
        w[1] += t.self[n];
        w[2] += t.dropped[n];
        w[3] += t.samples[n];
        w[4] += t.base[n];
        w[5] += t.baseSelf[n];
    }
    return { frame, nodes, weights: w, stacks: [] };
}

/** The subtrees of some nodes of one function as one tree. */
export function callees(p: Profile, t: Tree, nodes: number[], order: Order): Tree {
    return grow(p, mergeNodes(t, t.frame[nodes[0]], nodes), order, t.leafFirst, (part) => {
        const groups = new Map<number, number[]>();
        for (const n of part.nodes) {
            for (let c = n + 1; c < t.end[n]; c = t.end[c]) {
                const fn = p.frames[t.frame[c]].fn;
                const group = groups.get(fn);
                if (group) group.push(c);
                else groups.set(fn, [c]);
            }
        }
        return [...groups.values()].map((group) => mergeNodes(t, t.frame[group[0]], group));
    });
}

/** Stacks that go on at `nodes` towards the thread's start, merged. */
function mergeStacks(frame: number, nodes: number[], stacks: number[][]): Part {
    const w = [0, 0, 0, 0, 0, 0];
    for (const [total, samples, base] of stacks) {
        w[0] += total;
        w[3] += samples;
        w[4] += base;
    }
    return { frame, nodes, weights: w, stacks };
}

function towardsStart(p: Profile, t: Tree, first: Part, order: Order): Tree {
    return grow(p, first, order, !t.leafFirst, (part) => {
        const groups = new Map<number, Part>();
        part.nodes.forEach((n, i) => {
            const [total, samples, base] = part.stacks[i];
            if (n <= 0) {
                // The stack ends here: the root is not a frame of it.
                part.weights[1] += total;
                part.weights[5] += base;
                return;
            }
            const fn = p.frames[t.frame[n]].fn;
            let group = groups.get(fn);
            if (!group) groups.set(fn, (group = mergeStacks(t.frame[n], [], [])));
            group.nodes.push(t.parent[n]);
            group.stacks.push(part.stacks[i]);
            group.weights[0] += total;
            group.weights[3] += samples;
            group.weights[4] += base;
        });
        return groups.values();
    });
}

/** Who calls these nodes of one function, and whom that is called by. */
export function callers(p: Profile, t: Tree, nodes: number[], order: Order): Tree {
    const stacks = nodes.map((n) => [t.total[n], t.samples[n], t.base[n]]);
    const first = mergeStacks(t.frame[nodes[0]], nodes.map((n) => t.parent[n]), stacks);
    return towardsStart(p, t, first, order);
}

/** The whole profile leaf first. What was left out of the file has no leaf: it is left of all as
 *  weight that no frame has. */
export function invert(p: Profile, t: Tree, order: Order): Tree {
    const nodes: number[] = [];
    const stacks: number[][] = [];
    for (let n = 0; n < t.count; n++) {
        if (!t.self[n] && !t.baseSelf[n]) continue;
        let samples = t.samples[n];
        for (let c = n + 1; c < t.end[n]; c = t.end[c]) samples -= t.samples[c];
        nodes.push(n);
        // Samples of callees that were left out cannot be told from the function's own.
        stacks.push([t.self[n], t.dropped[n] ? NaN : samples, t.baseSelf[n]]);
    }
    const result = towardsStart(p, t, mergeStacks(t.frame[0], nodes, stacks), order);
    result.total[0] = t.total[0];
    result.samples[0] = t.samples[0];
    result.base[0] = t.base[0];
    result.dropped[0] += p.dropped;
    return result;
}

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
