// Profiles made of stacks, and the same stacks folded by hand: what trees are compared with.
import { Frame, Profile, Tree } from '../../web/src/flame/data';
import { Children, arrange } from '../../web/src/flame/grow';

export interface Stack { names: string[]; weight: number; base?: number }

export function profileOf(stacks: Stack[]): Profile {
    const frames: Frame[] = [];
    const byName = new Map<string, number>();
    const frameOf = (name: string) => {
        let i = byName.get(name);
        if (i === undefined) {
            byName.set(name, i = frames.length);
            frames.push({ name, module: 'm', file: '', line: 0, flags: 0, color: 0, moduleColor: 0, fn: i });
        }
        return i;
    };
    const children = new Children((f) => f);
    const { out } = children;
    out.add(-1, frameOf('all'));
    for (const s of stacks) {
        let n = 0;
        for (const name of s.names) n = children.find(n, frameOf(name));
        out.self[n] += s.weight;
        out.total[n] += s.weight;
        out.samples[n]++;
        out.base[n] += s.base ?? 0;
        out.baseSelf[n] += s.base ?? 0;
    }
    const p: Profile = {
        title: '', subtitle: '', kind: 'cpu', unit: 'nanoseconds', colors: 'hot', icicle: false, minWidth: 0,
        total: 0, baseTotal: 0, dropped: 0, frames, tree: null as unknown as Tree, palettes: {}, functions: [],
        functionCount: 0, fnCount: frames.length, about: null,
    };
    p.tree = arrange(p, out, 'name', false);
    p.total = p.tree.total[0];
    p.baseTotal = p.tree.base[0];
    return p;
}

/** "a;b;c" → weight of all stacks that begin so. */
export function prefixes(stacks: Stack[], key: 'weight' | 'base' = 'weight'): Map<string, number> {
    const out = new Map<string, number>();
    for (const s of stacks) {
        for (let i = 0; i <= s.names.length; i++) {
            const path = s.names.slice(0, i).join(';');
            out.set(path, (out.get(path) ?? 0) + (s[key] ?? 0));
        }
    }
    return out;
}

/** The same of a tree. A tree whose root is a function has it as its first name. */
export function totals(p: Profile, t: Tree, column: 'total' | 'base' = 'total'): Map<string, number> {
    const out = new Map<string, number>();
    const paths: string[] = [];
    for (let n = 0; n < t.count; n++) {
        const name = p.frames[t.frame[n]].name;
        paths[n] = n === 0 ? '' : paths[t.parent[n]] ? `${paths[t.parent[n]]};${name}` : name;
        out.set(paths[n], t[column][n]);
    }
    return out;
}

export const sorted = (m: Map<string, number>) => [...m].filter(([, v]) => v !== 0).sort((a, b) => (a[0] < b[0] ? -1 : 1));

/** Always the same. */
export function randomStacks(count: number, seed: number, names = 12, depth = 9): Stack[] {
    let s = seed;
    const random = (n: number) => {
        s = (Math.imul(s, 1103515245) + 12345) & 0x7fffffff;
        return Math.floor((s / 0x7fffffff) * n * 0.999999);
    };
    return Array.from({ length: count }, () => ({
        names: Array.from({ length: 1 + random(depth) }, () => `f${random(names)}`),
        weight: 1 + random(50),
        base: random(50),
    }));
}

/** What every tree must be: in order, with sums that add up. */
export function check(t: Tree): string {
    const below = new Float64Array(t.count);
    for (let n = 1; n < t.count; n++) {
        const up = t.parent[n];
        if (up >= n || t.end[up] < t.end[n]) return `node ${n} is not inside of its caller`;
        if (t.depth[n] !== t.depth[up] + 1) return `node ${n} has depth ${t.depth[n]}`;
        below[up] += t.total[n];
    }
    for (let n = 0; n < t.count; n++) {
        if (Math.abs(t.total[n] - t.self[n] - t.dropped[n] - below[n]) > 1e-6) return `node ${n} does not add up`;
    }
    return '';
}
