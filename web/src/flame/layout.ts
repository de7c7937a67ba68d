// Where frames are: rows of boxes, each row in order from left to right, in flat arrays, so that
// drawing looks at what can be seen and at nothing else.
//
// A box is a frame, or what was left out below one. Boxes narrower than a pixel are not drawn one
// by one: those that touch each other are one box, a run, that says how many it stands for.

import { Tree } from './data';

export class Layout {
    readonly rows: number;
    readonly first: Int32Array; // of each row: its first box; one more at the end
    readonly node: Int32Array;  // of each box: its node, or ~node for what was left out below that
    readonly left: Float64Array;
    readonly right: Float64Array;
    readonly boxOf: Int32Array; // of each node: its box
    readonly whole: number;
    readonly cut: number[] = []; // boxes of what was left out

    constructor(readonly tree: Tree) {
        const t = tree;
        let deepest = 0;
        let boxes = t.count;
        for (let n = 0; n < t.count; n++) {
            const hasRest = t.dropped[n] > 0;
            if (hasRest) boxes++;
            deepest = Math.max(deepest, t.depth[n] + (hasRest ? 1 : 0));
        }
        this.rows = t.count ? deepest + 1 : 0;
        this.whole = t.count && t.total[0] > 0 ? t.total[0] : 1;
        this.first = new Int32Array(this.rows + 1);
        for (let n = 0; n < t.count; n++) {
            this.first[t.depth[n] + 1]++;
            if (t.dropped[n] > 0) this.first[t.depth[n] + 2]++;
        }
        for (let r = 1; r <= this.rows; r++) this.first[r] += this.first[r - 1];
        this.node = new Int32Array(boxes);
        this.left = new Float64Array(boxes);
        this.right = new Float64Array(boxes);
        this.boxOf = new Int32Array(t.count);
        this.place();
    }

    private place(): void {
        const t = this.tree;
        const next = this.first.slice();
        const start = new Float64Array(t.count);
        const used = new Float64Array(t.count);
        const open = new Int32Array(this.rows + 1).fill(-1); // by row: a node whose rest is to come
        const closeFrom = (row: number, down: number) => {
            for (let r = down; r >= row; r--) {
                const n = open[r];
                if (n < 0) continue;
                open[r] = -1;
                const box = next[r + 1]++;
                this.node[box] = ~n;
                this.left[box] = start[n] + used[n];
                this.right[box] = this.left[box] + t.dropped[n];
                this.cut.push(box);
            }
        };
        let row = 0;
        for (let n = 0; n < t.count; n++) {
            const up = t.parent[n];
            closeFrom(t.depth[n], row);
            row = t.depth[n];
            if (t.start) {
                start[n] = t.start[n];
            } else if (n) {
                start[n] = start[up] + used[up];
                used[up] += t.total[n];
            }
            const box = next[row]++;
            this.boxOf[n] = box;
            this.node[box] = n;
            this.left[box] = start[n];
            this.right[box] = start[n] + t.total[n];
            if (t.dropped[n] > 0) open[row] = n;
        }
        closeFrom(0, row);
    }

    /** The first box of a row that ends right of a place; the row's end if there is none. */
    firstAfter(low: number, high: number, weight: number): number {
        while (low < high) {
            const middle = (low + high) >> 1;
            if (this.right[middle] <= weight) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    /** Is it drawn together with others at this scale (weight per pixel)? */
    isSmall(box: number, pixel: number): boolean {
        return this.node[box] < 0 || this.right[box] - this.left[box] < pixel;
    }

    /** The end of the run that begins at a box: boxes that are small and touch. Jumps a pixel at a
     *  time, so a row costs what its width in pixels does. */
    runEnd(box: number, high: number, pixel: number): number {
        let i = box;
        while (i < high && this.isSmall(i, pixel)) {
            const end = this.right[i];
            i = this.node[i] < 0 ? i + 1 : this.firstAfter(i + 1, high, Math.max(end, this.left[i] + pixel));
            if (i < high && this.left[i] > this.right[i - 1] + 0.75 * pixel) return i;
        }
        return Math.max(i, box + 1);
    }

    runBegin(box: number, low: number, pixel: number): number {
        let i = box;
        while (i > low && this.isSmall(i - 1, pixel) && this.left[i] <= this.right[i - 1] + 0.75 * pixel) i--;
        return i;
    }

    rowOf(box: number): number {
        const n = this.node[box];
        return n < 0 ? this.tree.depth[~n] + 1 : this.tree.depth[n];
    }

    /** The deepest node that covers a part of the width. */
    covering(from: number, to: number): number {
        const t = this.tree;
        const slack = (to - from) * 1e-9;
        let n = 0;
        for (let row = 1; row < this.rows; row++) {
            const high = this.first[row + 1];
            const box = this.firstAfter(this.first[row], high, from + slack);
            if (box >= high || this.node[box] < 0) break;
            const c = this.node[box];
            if (t.parent[c] !== n || this.left[box] > from + slack || this.right[box] < to - slack) break;
            n = c;
        }
        return n;
    }

    /** Weight that was left out, in sight. */
    cutBetween(from: number, to: number): number {
        let sum = 0;
        for (const box of this.cut) {
            const part = Math.min(to, this.right[box]) - Math.max(from, this.left[box]);
            if (part > 0) sum += part;
        }
        return sum;
    }
}
