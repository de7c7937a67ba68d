// Stacks over time: a lane for each thread, in which frames stand where they were seen. Samples of
// one thread that follow each other are one frame as far as their stacks are the same.
//
// It is a tree like the others, so a chart draws it, but for two things: nodes say where they begin,
// and the depth of a node is its row, of all lanes below each other.

import { Profile, Tree, newTree } from './data';

export interface TimeFrame { name: string; frame: number } // frame: index into Profile.frames

export interface TimeSamples {
    frames: readonly string[];
    stacks: readonly (readonly number[])[]; // frames, the outermost first
    samples: readonly (readonly [number, number, number, number])[]; // seconds, stack, weight, thread
    threads: readonly string[];
}

interface Box { frame: number; parent: number; row: number; from: number; to: number; weight: number; samples: number }

/** rootFrame and threadFrames: indexes that stand for "all" and for each thread; frames: by index of
 *  s.frames. Weights are nanoseconds; a sample stands for the time before it. */
export function timeTree(s: TimeSamples, rootFrame: number, threadFrames: readonly number[], frames: readonly number[]): Tree {
    const begin = s.samples.reduce((a, x) => Math.min(a, x[0] - x[2] / 1e9), Infinity);
    const end = s.samples.reduce((a, x) => Math.max(a, x[0]), -Infinity);
    const boxes: Box[] = [{ frame: rootFrame, parent: -1, row: 0, from: begin, to: end, weight: 0, samples: 0 }];
    let row = 1;
    threadFrames.forEach((threadFrame, thread) => {
        const own = s.samples.filter((x) => x[3] === thread);
        if (!own.length) return;
        row += laneOf(s, own, boxes, { frame: threadFrame, parent: 0, row, from: begin, to: end, weight: 0, samples: 0 }, frames);
    });
    return treeOf(boxes, begin);
}

/** Adds one thread's boxes; how many rows it takes. */
function laneOf(
    s: TimeSamples, own: TimeSamples['samples'][number][], boxes: Box[], head: Box, frames: readonly number[],
): number {
    const lane = boxes.push(head) - 1;
    let deepest = 0;
    let open: number[] = []; // boxes of the sample before, the outermost first
    let before = -Infinity;
    own.sort((a, b) => a[0] - b[0]);
    for (const [time, stack, weight] of own) {
        // A thread is sampled by its CPU time: the sample stands for that, or for what is left since
        // the one before.
        const from = Math.max(time - weight / 1e9, before);
        const touches = from - before < 0.5 * (weight / 1e9);
        const names = s.stacks[stack];
        const next: number[] = [];
        for (let depth = 0; depth < names.length; depth++) {
            const frame = frames[names[depth]];
            const at = open[depth];
            const same = touches && at !== undefined && next.length === depth && boxes[at].frame === frame
                && (depth === 0 || next[depth - 1] === open[depth - 1]);
            if (same) {
                boxes[at].to = time;
                boxes[at].weight += weight;
                boxes[at].samples++;
                next.push(at);
            } else {
                const parent = depth ? next[depth - 1] : lane;
                next.push(boxes.push({ frame, parent, row: head.row + 1 + depth, from, to: time, weight, samples: 1 }) - 1);
            }
        }
        head.weight += weight;
        head.samples++;
        boxes[0].weight += weight;
        boxes[0].samples++;
        deepest = Math.max(deepest, names.length);
        open = next;
        before = time;
    }
    return deepest + 2; // the head, and a row between lanes
}

/** Boxes as a tree: each callee behind its caller's earlier ones. */
function treeOf(boxes: Box[], begin: number): Tree {
    const t = newTree(boxes.length, false);
    const start = new Float64Array(boxes.length);
    const below: number[][] = boxes.map(() => []);
    boxes.forEach((b, i) => { if (b.parent >= 0) below[b.parent].push(i); });
    const todo: [number, number][] = [[0, -1]];
    let n = 0;
    for (let next = todo.pop(); next; next = todo.pop()) {
        const [i, parent] = next;
        const b = boxes[i];
        t.frame[n] = b.frame;
        t.parent[n] = parent;
        t.depth[n] = b.row;
        t.total[n] = (b.to - b.from) * 1e9;
        t.self[n] = 0;
        t.samples[n] = b.samples;
        start[n] = (b.from - begin) * 1e9;
        for (let k = below[i].length - 1; k >= 0; k--) todo.push([below[i][k], n]);
        n++;
    }
    for (let i = n - 1; i >= 0; i--) {
        t.end[i] = Math.max(t.end[i], i + 1);
        if (i) t.end[t.parent[i]] = Math.max(t.end[t.parent[i]], t.end[i]);
    }
    t.start = start;
    return t;
}

/** A profile that has this tree: p's frames and those that only samples have. */
export function timeProfile(p: Profile, s: TimeSamples): Profile {
    const frames = [...p.frames];
    const byName = new Map<string, number>();
    let { fnCount } = p;
    frames.forEach((f, i) => { if (!byName.has(f.name)) byName.set(f.name, i); });
    const indexOf = (name: string) => {
        let i = byName.get(name);
        if (i === undefined) {
            byName.set(name, i = frames.length);
            frames.push({ name, module: '', file: '', line: 0, flags: 0, color: 0, moduleColor: 0, fn: fnCount++ });
        }
        return i;
    };
    const root = p.tree.frame[0];
    const lanes = s.threads.map((name) => {
        frames.push({ ...p.frames[root], name, fn: fnCount++ });
        return frames.length - 1;
    });
    const tree = timeTree(s, root, lanes, s.frames.map(indexOf));
    return { ...p, frames, fnCount, tree, total: tree.total[0], baseTotal: 0, dropped: 0 };
}

/** Times at which a clock that shows from … to has ticks: seconds since the start, round. */
export function ticks(from: number, to: number, most: number): { at: number; step: number }[] {
    const least = (to - from) / most;
    let step = 10 ** Math.ceil(Math.log10(Math.max(least, 1e-9)));
    for (const finer of [5, 2]) if (step / finer >= least) { step /= finer; break; }
    const out: { at: number; step: number }[] = [];
    for (let k = Math.ceil(from / step); k * step <= to; k++) out.push({ at: k * step, step });
    return out;
}
