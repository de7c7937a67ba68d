// A flame graph on a canvas: draws only what can be seen, so its cost follows the window and not
// the profile, and the canvas is never higher than the window, however deep the stacks are. Zoom by
// click, wheel, pinch or keys; pan by dragging.

import { Profile, Tree, colorIndex, levels } from './data';
import { Layout } from './layout';
import { Slivers } from './slivers';
import { count, label } from './text';

export const ROW = 18;
const FRAME = 17;
const INSET = 4;
const GAP = 0.75;
const THIN = 3;      // pixels; boxes narrower than that have no gap
const THIN_RUN = 12; // and runs no pattern
const AXIS = 22;
const TWO_CLICKS_PX = 4; // a press that moves farther is a drag
const REST_MS = 160; // after the last movement the view is at rest
const FONT = '12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';

/** What is at a place: a frame, or a run of boxes that are narrower than a pixel or were left out. */
export interface Spot {
    node: number;   // the frame; of a run, the frame that it is below of
    run: boolean;
    frames: number; // of a run: how many are known
    weight: number;
    left: number;
    right: number;
    cut: number;    // of a run: weight that was left out
}

export interface ChartEvents {
    zoomed(n: number): void;
    hovered(at: Spot | null, x: number, y: number): void;
    selected(n: number): void;
    opened(n: number): void; // asks for callers and callees
    moved(): void;           // the part in sight changes
    rested(): void;          // and has come to rest
}

export interface ChartColors {
    palette: string[];
    scheme: string;
    package?: Uint8Array; // by frame, for the scheme of that name
    page: string;
    ink: string;
    soft: string;
    line: string;
    rest: string;
    hit: string;
    mark: string;
}

export type Wheel = 'zoom' | 'scroll';
export interface Axis { ticks(from: number, to: number, most: number): { at: number; text: string }[] }

export class FlameChart {
    p!: Profile;
    tree!: Tree;
    zoom = 0;
    cursor = -1;
    wheelDoes: Wheel = 'zoom';
    axis: Axis | null = null;
    layout!: Layout;
    private level!: Int8Array;
    private from = 0; // the part in sight, as shares of the whole
    private to = 1;
    private goal: [number, number] = [0, 1]; // what will be in sight
    private scroll = 0;
    private width = 0;
    private height = 0;
    private hover: Spot | null = null;
    private hit: Uint8Array | null = null;
    private hits: Int32Array | null = null; // matches left of each box
    private colors!: ChartColors;
    private hatch: CanvasPattern | null = null;
    private readonly slivers = new Slivers();
    private character = 7.2;
    private frame = 0;
    private moving = 0;
    private resting = 0;
    private readonly context: CanvasRenderingContext2D;
    private readonly pointers = new Map<number, { x: number; y: number }>();
    private dragged = false;
    private pressed = { x: 0, y: 0 };

    /** rootOnTop: else at the bottom. */
    constructor(
        readonly canvas: HTMLCanvasElement,
        private readonly events: ChartEvents,
        public rootOnTop: boolean,
    ) {
        this.context = canvas.getContext('2d')!;
        canvas.tabIndex = 0;
        this.listen();
        new ResizeObserver(() => this.resize()).observe(canvas);
    }

    /** keep: the same stacks in more detail, so the part in sight stays. */
    setTree(p: Profile, tree: Tree, keep: { zoom: number; cursor: number } | null = null): void {
        cancelAnimationFrame(this.moving);
        this.p = p;
        this.tree = tree;
        this.layout = new Layout(tree);
        this.level = levels(p, tree);
        this.hover = null;
        this.zoom = keep?.zoom ?? 0;
        this.cursor = keep?.cursor ?? -1;
        if (keep) {
            [this.from, this.to] = this.goal;
        } else {
            this.goal = [0, 1];
            this.from = 0;
            this.to = 1;
            this.scroll = 0;
        }
        this.countHits();
        this.resize();
    }

    setColors(colors: ChartColors): void {
        this.colors = colors;
        this.hatch = null;
        this.redraw();
    }

    setHits(hit: Uint8Array | null): void {
        this.hit = hit;
        this.countHits();
        this.redraw();
    }

    setRootOnTop(on: boolean): void {
        this.rootOnTop = on;
        this.scroll = 0;
        this.redraw();
    }

    /** Everything is in sight, or will be when the view comes to rest. */
    get whole(): boolean {
        return this.goal[1] - this.goal[0] === 1;
    }

    /** The part in sight, in weights. */
    get view(): [number, number] {
        return [this.goal[0] * this.layout.whole, this.goal[1] * this.layout.whole];
    }

    get pixel(): number {
        return ((this.goal[1] - this.goal[0]) * this.layout.whole) / (this.width || 1);
    }

    /** Pixels that all rows take. */
    get needed(): number {
        return (this.layout ? this.layout.rows * ROW : 0) + (this.axis ? AXIS : 0);
    }

    private countHits(): void {
        this.hits = null;
        if (!this.hit || !this.layout) return;
        const { node } = this.layout;
        const sums = new Int32Array(node.length + 1);
        for (let i = 0; i < node.length; i++) {
            sums[i + 1] = sums[i] + (node[i] >= 0 && this.hit[this.tree.frame[node[i]]] === 1 ? 1 : 0);
        }
        this.hits = sums;
    }

    /** Where a box is on the canvas. */
    private place(left: number, right: number): { x: number; width: number } {
        const scale = this.width / ((this.to - this.from) * this.layout.whole);
        return { x: (left - this.from * this.layout.whole) * scale, width: (right - left) * scale };
    }

    // ---- Drawing --------------------------------------------------------------------------

    private resize(): void {
        const r = this.canvas.getBoundingClientRect();
        if (!r.width || !this.tree) return;
        const ratio = window.devicePixelRatio || 1;
        this.width = r.width;
        this.height = r.height;
        this.canvas.width = Math.round(r.width * ratio);
        this.canvas.height = Math.round(r.height * ratio);
        this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
        this.context.font = FONT;
        this.character = this.context.measureText('m'.repeat(40)).width / 40;
        this.hatch = null;
        this.clampScroll();
        this.paint();
    }

    redraw(): void {
        if (this.frame) return;
        this.frame = requestAnimationFrame(() => {
            this.frame = 0;
            this.paint();
        });
    }

    private get top(): number {
        return this.axis ? AXIS : 0;
    }

    private y(depth: number): number {
        return this.rootOnTop
            ? this.top + depth * ROW - this.scroll
            : this.height - (depth + 1) * ROW + this.scroll;
    }

    private get mostScroll(): number {
        return Math.max(0, this.needed - this.height);
    }

    private clampScroll(): void {
        this.scroll = Math.min(this.mostScroll, Math.max(0, this.scroll));
    }

    private paint(): void {
        if (!this.width || !this.colors || !this.tree) return;
        const c = this.context;
        c.fillStyle = this.colors.page;
        c.fillRect(0, 0, this.width, this.height);
        c.font = FONT;
        c.textBaseline = 'middle';
        c.textAlign = 'left';
        c.direction = 'ltr';
        const [a, b] = this.rootOnTop
            ? [(this.scroll - this.top) / ROW, (this.scroll + this.height - this.top) / ROW]
            : [this.scroll / ROW, (this.scroll + this.height) / ROW];
        const first = Math.max(0, Math.floor(a));
        const last = Math.min(this.layout.rows - 1, Math.floor(b));
        this.slivers.begin(this.canvas, this.canvas.width / this.width, Math.max(1, last - first + 1));
        for (let row = first; row <= last; row++) {
            this.slivers.beginRow(row - first);
            this.paintRow(row, this.y(row));
        }
        this.slivers.draw(c, this.width, FRAME, (row) => this.y(first + row), (row) => this.visible(first + row));
        if (this.hover) this.outline(this.hover.left, this.hover.right, this.rowOf(this.hover), 1);
        if (this.cursor >= 0) {
            const box = this.layout.boxOf[this.cursor];
            this.outline(this.layout.left[box], this.layout.right[box], this.tree.depth[this.cursor], 2);
        }
        if (this.axis) this.paintAxis(this.axis);
    }

    /** Rows above what is zoomed into are paler. */
    private visible(row: number): number {
        return row < this.tree.depth[this.zoom] ? 0.5 : 1;
    }

    private rowOf(at: Spot): number {
        return this.tree.depth[at.node] + (at.run ? 1 : 0);
    }

    private makeHatch(): CanvasPattern | null {
        const size = 6;
        const tile = document.createElement('canvas');
        tile.width = tile.height = size;
        const c = tile.getContext('2d')!;
        c.fillStyle = this.colors.rest;
        c.fillRect(0, 0, size, size);
        c.strokeStyle = this.colors.line;
        c.lineWidth = 1.2;
        c.beginPath();
        for (const d of [-size, 0, size]) {
            c.moveTo(d - 1, size + 1);
            c.lineTo(d + size + 1, -1);
        }
        c.stroke();
        return this.context.createPattern(tile, 'repeat');
    }

    private paintRow(row: number, y: number): void {
        const l = this.layout;
        const end = l.first[row + 1];
        const offset = this.from * l.whole;
        const pixel = ((this.to - this.from) * l.whole) / this.width;
        let painted = -1; // right edge of what is drawn, so that slivers are not piled up
        let i = l.firstAfter(l.first[row], end, offset);
        while (i < end) {
            const x0 = (l.left[i] - offset) / pixel;
            if (x0 >= this.width) break;
            const small = l.isSmall(i, pixel);
            const next = small ? l.runEnd(i, end, pixel) : i + 1;
            const x1 = (l.right[next - 1] - offset) / pixel;
            if (x1 >= painted + 0.5) {
                const left = Math.max(x0, painted, -1);
                const right = Math.min(Math.max(x1, left + 0.5), this.width + 1);
                if (small) this.paintRun(i, next, left, right, y);
                else this.paintFrame(l.node[i], left, right, y);
                painted = right;
            }
            i = next;
        }
    }

    private paintRun(first: number, end: number, x0: number, x1: number, y: number): void {
        const c = this.context;
        const width = x1 - x0;
        const n = this.layout.node[first];
        const hit = this.hits !== null && this.hits[end] > this.hits[first];
        if (width < THIN_RUN) {
            const right = width < THIN ? x1 : x1 - GAP;
            if (hit) this.slivers.add(x0, right, this.colors.hit);
            else if (n >= 0 && end === first + 1) this.slivers.add(x0, right, this.fillOf(n));
            else this.slivers.add(x0, right, this.colors.rest, this.colors.line);
            return;
        }
        this.hatch ??= this.makeHatch();
        c.globalAlpha = this.visible(this.layout.rowOf(first));
        c.fillStyle = hit ? this.colors.hit : this.hatch ?? this.colors.rest;
        c.fillRect(x0, y, width - GAP, FRAME);
        if (width >= 40) {
            const spot = this.spotOf(first, end);
            const text = this.runText(spot);
            const room = Math.floor((width - 2 * INSET) / this.character);
            if (text.length <= room) {
                c.fillStyle = this.colors.soft;
                c.fillText(text, Math.max(0, x0) + INSET, y + FRAME / 2 + 0.5);
            } else if (room >= 1) {
                c.fillStyle = this.colors.soft;
                c.fillText('…', Math.max(0, x0) + INSET, y + FRAME / 2 + 0.5);
            }
        }
        c.globalAlpha = 1;
    }

    /** How many are in a run; where some were left out it is not known. */
    runText(spot: Spot): string {
        if (!spot.frames) return 'frames below 1 px';
        return `${count(spot.frames)}${spot.cut > 0 ? ' and more' : ''} frame${spot.frames === 1 && !spot.cut ? '' : 's'} below 1 px`;
    }

    private fillOf(n: number): string {
        const frame = this.tree.frame[n];
        const { scheme, palette } = this.colors;
        if (scheme === 'package') return palette[this.colors.package?.[frame] ?? 0];
        return palette[colorIndex(this.p, scheme, frame, this.level[n])];
    }

    private paintFrame(n: number, x0: number, x1: number, y: number): void {
        const c = this.context;
        const frame = this.tree.frame[n];
        const width = x1 - x0;
        const fill = this.hit?.[frame] === 1 ? this.colors.hit : this.fillOf(n);
        if (width < THIN) {
            this.slivers.add(x0, x1, fill);
            return;
        }
        c.globalAlpha = this.visible(this.tree.depth[n]);
        c.fillStyle = fill;
        c.fillRect(x0, y, width - GAP, FRAME);
        const room = Math.floor((width - 2 * INSET) / this.character);
        if (room >= 3) {
            const name = this.p.frames[frame].name;
            const letters = Array.from(name.length > 4 * room ? name.slice(0, 4 * room) : name);
            const text = letters.length > room ? letters.slice(0, room - 1).join('') + '…' : name;
            c.fillStyle = this.colors.ink;
            c.fillText(text, Math.max(0, x0) + INSET, y + FRAME / 2 + 0.5);
        }
        c.globalAlpha = 1;
    }

    private outline(left: number, right: number, row: number, thick: number): void {
        const b = this.place(left, right);
        const y = this.y(row);
        const x0 = Math.max(-2, b.x);
        const x1 = Math.min(this.width + 2, b.x + b.width);
        if (x1 < x0) return;
        this.context.strokeStyle = this.colors.mark;
        this.context.lineWidth = thick;
        this.context.strokeRect(x0 + 0.5, y + 0.5, Math.max(1, x1 - x0 - 1.5), FRAME - 1);
    }

    private paintAxis(axis: Axis): void {
        const c = this.context;
        c.fillStyle = this.colors.page;
        c.fillRect(0, 0, this.width, AXIS - 2);
        c.fillStyle = this.colors.soft;
        c.strokeStyle = this.colors.line;
        c.lineWidth = 1;
        c.font = '11px system-ui, sans-serif';
        const { whole } = this.layout;
        for (const tick of axis.ticks(this.from * whole, this.to * whole, Math.max(2, this.width / 110))) {
            const { x } = this.place(tick.at, tick.at);
            c.beginPath();
            c.moveTo(Math.round(x) + 0.5, AXIS - 8);
            c.lineTo(Math.round(x) + 0.5, AXIS - 2);
            c.stroke();
            c.fillText(tick.text, x + 4, AXIS / 2 - 1);
        }
    }

    // ---- Moving ---------------------------------------------------------------------------

    zoomTo(n: number): void {
        const l = this.layout;
        const box = l.boxOf[n];
        this.zoom = n;
        const wide = l.right[box] > l.left[box];
        this.glide(wide ? l.left[box] / l.whole : 0, wide ? l.right[box] / l.whole : 1);
        this.show(n);
        this.events.zoomed(n);
    }

    /** Without a glide: when it is opened. */
    jumpTo(n: number): void {
        const l = this.layout;
        const box = l.boxOf[n];
        if (!(l.right[box] > l.left[box])) return;
        this.zoom = n;
        this.goal = [l.left[box] / l.whole, l.right[box] / l.whole];
        [this.from, this.to] = this.goal;
        this.show(n);
        this.redraw();
        this.events.zoomed(n);
        this.rest();
    }

    private zoomToRun(at: Spot): void {
        const { whole } = this.layout;
        this.zoom = this.layout.covering(at.left, at.right);
        this.glide(at.left / whole, at.right / whole);
        this.show(at.node);
        this.events.zoomed(this.zoom);
    }

    /** Scroll so that a node's row is in sight. */
    private show(n: number): void {
        const row = this.tree.depth[n] * ROW;
        const room = this.height - this.top;
        if (row < this.scroll) this.scroll = row;
        if (row + 3 * ROW > this.scroll + room) this.scroll = row + 3 * ROW - room;
        this.clampScroll();
    }

    private rest(): void {
        clearTimeout(this.resting);
        this.resting = window.setTimeout(() => this.events.rested(), REST_MS);
    }

    private glide(from: number, to: number): void {
        cancelAnimationFrame(this.moving);
        this.goal = [from, to];
        const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
        const [from0, to0] = [this.from, this.to];
        const began = performance.now();
        const step = (now: number) => {
            const t = still ? 1 : Math.max(0, Math.min(1, (now - began) / 160));
            const eased = 1 - (1 - t) ** 3;
            this.from = t === 1 ? from : from0 + (from - from0) * eased;
            this.to = t === 1 ? to : to0 + (to - to0) * eased;
            this.paint();
            if (t < 1) this.moving = requestAnimationFrame(step);
            else this.rest();
        };
        this.moving = requestAnimationFrame(step);
    }

    private setView(from: number, to: number): void {
        cancelAnimationFrame(this.moving);
        const least = 1e-9;
        let size = Math.min(1, Math.max(least, to - from));
        if (to - from < least) from = (from + to - least) / 2;
        if (size > 0.999999) size = 1;
        this.from = Math.min(1 - size, Math.max(0, from));
        this.to = this.from + size;
        this.goal = [this.from, this.to];
        if (size === 1 && this.zoom) {
            this.zoom = 0;
            this.events.zoomed(0);
        }
        this.events.moved();
        this.redraw();
        this.rest();
    }

    /** factor < 1: closer; x stays where it is. */
    private zoomAround(x: number, factor: number): void {
        const size = this.to - this.from;
        const at = this.from + (x / this.width) * size;
        const grown = Math.min(1, size * factor);
        this.setView(at - (x / this.width) * grown, at + (1 - x / this.width) * grown);
    }

    private pan(dx: number, dy: number): void {
        const by = (dx / this.width) * (this.to - this.from);
        this.scroll += this.rootOnTop ? dy : -dy;
        this.clampScroll();
        this.setView(this.from + by, this.to + by);
    }

    // ---- Input ----------------------------------------------------------------------------

    private spotOf(first: number, end: number): Spot {
        const l = this.layout;
        const up = l.node[first] < 0 ? ~l.node[first] : Math.max(0, this.tree.parent[l.node[first]]);
        const spot: Spot = { node: up, run: true, frames: 0, weight: 0, cut: 0,
            left: l.left[first], right: l.right[end - 1] };
        for (let i = first; i < end; i++) {
            const weight = l.right[i] - l.left[i];
            spot.weight += weight;
            if (l.node[i] < 0) spot.cut += weight;
            else spot.frames++;
        }
        return spot;
    }

    private spotAt(x: number, y: number): Spot | null {
        if (this.axis && y < AXIS) return null;
        const row = this.rootOnTop
            ? Math.floor((y - this.top + this.scroll) / ROW)
            : Math.floor((this.height - y + this.scroll) / ROW);
        const l = this.layout;
        if (row < 0 || row >= l.rows) return null;
        const pixel = ((this.to - this.from) * l.whole) / this.width;
        const weight = this.from * l.whole + x * pixel;
        const [low, high] = [l.first[row], l.first[row + 1]];
        const box = l.firstAfter(low, high, weight);
        if (box >= high || l.left[box] > weight) return null;
        if (l.isSmall(box, pixel)) {
            const first = l.runBegin(box, low, pixel);
            const end = l.runEnd(box, high, pixel);
            if (l.node[first] < 0 || end - first > 1) return this.spotOf(first, end);
        }
        const n = l.node[box];
        return { node: n, run: false, frames: 1, weight: this.tree.total[n], cut: 0,
            left: l.left[box], right: l.right[box] };
    }

    private point(e: MouseEvent): { x: number; y: number } {
        const r = this.canvas.getBoundingClientRect();
        return { x: e.clientX - r.left, y: e.clientY - r.top };
    }

    private listen(): void {
        const { canvas } = this;
        canvas.addEventListener('pointerdown', (e) => this.down(e));
        canvas.addEventListener('pointermove', (e) => this.move(e));
        canvas.addEventListener('pointerup', (e) => this.up(e));
        canvas.addEventListener('pointercancel', (e) => this.pointers.delete(e.pointerId));
        canvas.addEventListener('pointerleave', () => this.setHover(null, 0, 0));
        canvas.addEventListener('wheel', (e) => this.wheel(e), { passive: false });
        canvas.addEventListener('keydown', (e) => this.key(e));
        canvas.addEventListener('blur', () => this.events.hovered(null, 0, 0));
    }

    private down(e: PointerEvent): void {
        if (e.button > 0 || !this.tree) return;
        this.canvas.setPointerCapture(e.pointerId);
        this.pressed = this.point(e);
        this.pointers.set(e.pointerId, this.pressed);
        this.dragged = this.pointers.size > 1;
    }

    private move(e: PointerEvent): void {
        if (!this.tree) return;
        const at = this.point(e);
        const before = this.pointers.get(e.pointerId);
        if (!before) {
            this.setHover(this.spotAt(at.x, at.y), e.clientX, e.clientY);
            return;
        }
        if (Math.hypot(at.x - this.pressed.x, at.y - this.pressed.y) > TWO_CLICKS_PX) {
            this.dragged = true;
        }
        if (this.pointers.size === 2) {
            const other = [...this.pointers].find(([id]) => id !== e.pointerId)![1];
            const apart = Math.max(20, Math.abs(before.x - other.x));
            const now = Math.max(20, Math.abs(at.x - other.x));
            this.zoomAround((at.x + other.x) / 2, apart / now);
        } else if (this.dragged) {
            this.setHover(null, 0, 0);
            this.pan(before.x - at.x, before.y - at.y);
        }
        this.pointers.set(e.pointerId, at);
    }

    private up(e: PointerEvent): void {
        const was = this.pointers.delete(e.pointerId);
        if (!was || this.dragged) return;
        const at = this.point(e);
        const spot = this.spotAt(at.x, at.y);
        if (!spot) return;
        if (spot.run) {
            this.zoomToRun(spot);
            return;
        }
        this.cursor = spot.node;
        this.events.selected(spot.node);
        if (e.altKey) this.events.opened(spot.node);
        else this.zoomTo(spot.node);
    }

    private wheel(e: WheelEvent): void {
        if (!this.tree) return;
        const unit = e.deltaMode === 1 ? 16 : e.deltaMode === 2 ? this.height : 1;
        const dx = (e.shiftKey ? e.deltaX || e.deltaY : e.deltaX) * unit;
        const dy = (e.shiftKey ? 0 : e.deltaY) * unit;
        const zooms = this.wheelDoes === 'zoom' || e.ctrlKey || e.metaKey;
        if (!zooms && Math.abs(dx) <= Math.abs(dy)) {
            // The page scrolls once there is nothing left to scroll here.
            const by = this.rootOnTop ? dy : -dy;
            if (this.scroll + by <= 0 && this.scroll <= 0) return;
            if (this.scroll + by >= this.mostScroll && this.scroll >= this.mostScroll) return;
            e.preventDefault();
            this.pan(0, dy);
            return;
        }
        if (!zooms && this.whole) return;
        e.preventDefault();
        if (Math.abs(dx) > Math.abs(dy)) this.pan(dx, 0);
        else this.zoomAround(this.point(e).x, Math.exp(Math.max(-300, Math.min(300, dy)) * 0.002));
    }

    private setHover(at: Spot | null, x: number, y: number): void {
        if (at?.left !== this.hover?.left || at?.node !== this.hover?.node || at?.run !== this.hover?.run) {
            this.hover = at;
            this.canvas.style.cursor = at ? 'pointer' : 'default';
            this.redraw();
        }
        this.events.hovered(at, x, y);
    }

    private key(e: KeyboardEvent): void {
        if (e.ctrlKey || e.metaKey || e.altKey || !this.tree) return;
        const n = this.cursor >= 0 ? this.cursor : this.zoom;
        const out = this.rootOnTop ? 'ArrowUp' : 'ArrowDown';
        const into = this.rootOnTop ? 'ArrowDown' : 'ArrowUp';
        const page = Math.max(ROW, this.height - 2 * ROW);
        if (e.key === 'Enter' || e.key === ' ') this.zoomTo(n);
        else if (e.key === 'Backspace') this.zoomTo(Math.max(0, this.tree.parent[this.zoom]));
        else if (e.key === out) this.moveCursor(this.cursor < 0 ? n : this.tree.parent[n]);
        else if (e.key === into) this.moveCursor(this.cursor < 0 ? n : this.heaviest(n));
        else if (e.key === 'ArrowLeft') this.moveCursor(this.beside(n, -1));
        else if (e.key === 'ArrowRight') this.moveCursor(this.beside(n, 1));
        else if (e.key === 'Home') this.moveCursor(this.zoom);
        else if (e.key === 'PageUp') this.pan(0, -page);
        else if (e.key === 'PageDown') this.pan(0, page);
        else if (e.key === '+' || e.key === '=') this.zoomAround(this.width / 2, 0.7);
        else if (e.key === '-') this.zoomAround(this.width / 2, 1 / 0.7);
        else if (e.key === 's' && this.cursor >= 0) this.events.opened(n);
        else return;
        e.preventDefault();
    }

    private heaviest(n: number): number {
        const t = this.tree;
        for (let z = this.zoom; z > n; z = t.parent[z]) if (t.parent[z] === n) return z;
        let best = -1;
        for (let c = n + 1; c < t.end[n]; c = t.end[c]) {
            if (best < 0 || t.total[c] > t.total[best]) best = c;
        }
        return best;
    }

    /** The next frame in the row that is wide enough to be seen. */
    private beside(n: number, by: number): number {
        const l = this.layout;
        const row = this.tree.depth[n];
        for (let i = l.boxOf[n] + by; i >= l.first[row] && i < l.first[row + 1]; i += by) {
            const b = this.place(l.left[i], l.right[i]);
            if (l.node[i] >= 0 && b.width >= 1) {
                return b.x + b.width > 0 && b.x < this.width ? l.node[i] : -1;
            }
        }
        return -1;
    }

    private moveCursor(n: number): void {
        if (n < 0) return;
        this.cursor = n;
        this.show(n);
        this.paint();
        this.canvas.setAttribute('aria-label', label(this.p, this.tree, n));
        this.events.selected(n);
        const l = this.layout;
        const box = l.boxOf[n];
        const r = this.canvas.getBoundingClientRect();
        const b = this.place(l.left[box], l.right[box]);
        this.events.hovered({ node: n, run: false, frames: 1, weight: this.tree.total[n], cut: 0,
            left: l.left[box], right: l.right[box] },
        r.left + Math.max(0, b.x), r.top + this.y(this.tree.depth[n]) + FRAME);
    }
}
