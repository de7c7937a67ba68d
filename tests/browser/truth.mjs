// The tree of a folded file, folded here once more, so that what a page shows has something to be
// compared with that did not come out of the program under test.
import { readFileSync } from 'node:fs';

export const ROW = 18;
export const PAD = 12; // of the SVG

class Node {
    constructor(name, parent) {
        Object.assign(this, { name, parent, depth: parent ? parent.depth + 1 : 0, total: 0, self: 0 });
        this.children = [];
    }
    child(name) {
        let c = this.children.find((n) => n.name === name);
        if (!c) this.children.push((c = new Node(name, this)));
        return c;
    }
    *walk() {
        yield this;
        for (const c of this.children) yield* c.walk();
    }
    path() {
        return this.parent ? [...this.parent.path(), this] : [this];
    }
}

function display(frame) {
    const [name, module] = frame.split('\t');
    return module === '[kernel]' ? `${name}_[k]` : name;
}

export function readStacks(path) {
    return readFileSync(path, 'utf8').trimEnd().split('\n').map((line) => {
        const cut = line.lastIndexOf(' ');
        return { names: line.slice(0, cut).split(';').map(display), weight: Number(line.slice(cut + 1)) };
    });
}

const bytes = (a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name));

/** names(stack) may turn stacks around. order: of siblings. */
export function fold(stacks, { names = (s) => s.names, order = bytes } = {}) {
    const root = new Node('all', null);
    for (const s of stacks) {
        let n = root;
        n.total += s.weight;
        for (const name of names(s)) {
            n = n.child(name);
            n.total += s.weight;
        }
        n.self += s.weight;
    }
    for (const n of root.walk()) n.children.sort(order);
    layOut(root);
    return root;
}

/** start and width of each node as shares of the root. */
export function layOut(root) {
    root.start = 0;
    for (const n of root.walk()) {
        n.width = n.total / root.total;
        let at = n.start;
        for (const c of n.children) {
            c.start = at;
            at += c.total / root.total;
        }
    }
}

export const byWeight = (a, b) => b.total - a.total || bytes(a, b);

/** Weight of the stacks in which a name matches, each once. */
export function matching(stacks, test) {
    return stacks.filter((s) => s.names.some(test)).reduce((sum, s) => sum + s.weight, 0);
}

/** Self and total by function, a recursive function once a stack. */
export function functions(stacks) {
    const rows = new Map();
    const row = (name) => rows.get(name) ?? rows.set(name, { name, self: 0, total: 0 }).get(name);
    for (const s of stacks) {
        for (const name of new Set(s.names)) row(name).total += s.weight;
        row(s.names.at(-1)).self += s.weight;
    }
    return [...rows.values()];
}

export const percent = (part, whole) => `${((100 * part) / whole).toFixed(2)} %`;
