// A flame graph on a canvas: draws only what can be seen, so its cost follows the window and not
// the profile. Zoom by click, wheel, pinch or keys; pan by dragging.

import { Profile, Tree, colorIndex, levels, starts } from './data';
import { label } from './text';

export const ROW = 18;
const FRAME = 17;
const INSET = 4;
const TWO_CLICKS_PX = 4; // a press that moves farther is a drag
const FONT = '12px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';

export interface ChartEvents {
    zoomed(n: number): void;
    hovered(n: number, x: number, y: number): void; // n < 0: nothing
    selected(n: number): void;
    opened(n: number): void; // asks for callers and callees
}

export interface ChartColors {
    palette: string[];
    scheme: string;
    page: string;
    ink: string;
    hit: string;
    mark: string;
}

export class FlameChart {
    tree!: Tree;
    zoom = 0;
    cursor = -1;
    private start!: Float64Array;
    private level!: Int8Array;
    private rows: number[][] = [];
    private from = 0; // the part in sight, as shares of the whole
    private to = 1;
    private goal = 1; // how much will be in sight
    private scroll = 0;
    private width = 0;
    private height = 0;
    private hover = -1;
    private hit: Uint8Array | null = null;
    private colors!: ChartColors;
    private character = 7.2;
    private frame = 0;
    private moving = 0;
    private readonly context: CanvasRenderingContext2D;
    private readonly pointers = new Map<number, { x: number; y: number }>();
    private dragged = false;
    private pressed = { x: 0, y: 0 };

    /** rootOnTop: else at the bottom. */
    constructor(
        readonly canvas: HTMLCanvasElement,
        private readonly p: Profile,
        private readonly events: ChartEvents,
        public rootOnTop: boolean,
    ) {
        this.context = canvas.getContext('2d')!;
        canvas.tabIndex = 0;
        this.listen();
        new ResizeObserver(() => this.resize()).observe(canvas);
    }

    setTree(tree: Tree): void {
        this.tree = tree;
        this.start = starts(tree);
        this.level = levels(this.p, tree);
        this.rows = [];
        for (let n = 0; n < tree.count; n++) (this.rows[tree.depth[n]] ??= []).push(n);
        this.zoom = 0;
        this.cursor = -1;
        this.hover = -1;
        this.from = 0;
        this.to = 1;
        this.goal = 1;
        this.scroll = 0;
        this.resize();
    }

    setColors(colors: ChartColors): void {
        this.colors = colors;
        this.redraw();
    }

    setHits(hit: Uint8Array | null): void {
        this.hit = hit;
        this.redraw();
    }

    setRootOnTop(on: boolean): void {
        this.rootOnTop = on;
        this.scroll = 0;
        this.redraw();
    }

    /** Everything is in sight, or will be when the view comes to rest. */
    get whole(): boolean {
        return this.goal === 1;
    }

    /** Where a node is on the canvas. */
    private box(n: number): { x: number; y: number; width: number; height: number } {
        const whole = this.tree.total[0] || 1;
        const scale = this.width / (this.to - this.from);
        const x = (this.start[n] / whole - this.from) * scale;
        return { x, y: this.y(this.tree.depth[n]), width: (this.tree.total[n] / whole) * scale,
            height: FRAME };
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

    private y(depth: number): number {
        return this.rootOnTop
            ? depth * ROW - this.scroll
            : this.height - (depth + 1) * ROW + this.scroll;
    }

    private clampScroll(): void {
        const most = Math.max(0, this.rows.length * ROW - this.height);
        this.scroll = Math.min(most, Math.max(0, this.scroll));
    }

    /** Index in row of the first node that ends right of a place. */
    private firstAfter(row: number[], weight: number): number {
        let low = 0;
        let high = row.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            const n = row[middle];
            if (this.start[n] + this.tree.total[n] <= weight) low = middle + 1;
            else high = middle;
        }
        return low;
    }

    private paint(): void {
        if (!this.width || !this.colors) return;
        const c = this.context;
        c.fillStyle = this.colors.page;
        c.fillRect(0, 0, this.width, this.height);
        c.font = FONT;
        c.textBaseline = 'middle';
        for (let depth = 0; depth < this.rows.length; depth++) {
            const y = this.y(depth);
            if (y + ROW >= 0 && y <= this.height) this.paintRow(this.rows[depth], y);
        }
        for (const n of [this.hover, this.cursor]) if (n >= 0) this.outline(n);
    }

    private paintRow(row: number[], y: number): void {
        const whole = this.tree.total[0] || 1;
        const scale = this.width / (this.to - this.from);
        let painted = -1; // right edge of what is drawn, so that slivers are not piled up
        for (let i = this.firstAfter(row, this.from * whole); i < row.length; i++) {
            const n = row[i];
            const x0 = (this.start[n] / whole - this.from) * scale;
            if (x0 >= this.width) break;
            const x1 = ((this.start[n] + this.tree.total[n]) / whole - this.from) * scale;
            if (x1 < painted + 0.5) continue;
            const left = Math.max(x0, painted, -1);
            const right = Math.min(Math.max(x1, left + 0.5), this.width + 1);
            this.paintFrame(n, left, right, y);
            painted = right;
        }
    }

    private paintFrame(n: number, x0: number, x1: number, y: number): void {
        const c = this.context;
        const frame = this.tree.frame[n];
        const width = x1 - x0;
        const dim = this.tree.depth[n] < this.tree.depth[this.zoom];
        c.globalAlpha = dim ? 0.5 : 1;
        c.fillStyle = this.hit?.[frame] === 1
            ? this.colors.hit
            : this.colors.palette[colorIndex(this.p, this.colors.scheme, frame, this.level[n])];
        c.fillRect(x0, y, width > 3 ? width - 0.75 : width, FRAME);
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

    private outline(n: number): void {
        const b = this.box(n);
        const x0 = Math.max(-2, b.x);
        const x1 = Math.min(this.width + 2, b.x + b.width);
        if (x1 < x0) return;
        this.context.strokeStyle = this.colors.mark;
        this.context.lineWidth = n === this.cursor ? 2 : 1;
        this.context.strokeRect(x0 + 0.5, b.y + 0.5, Math.max(1, x1 - x0 - 1.5), FRAME - 1);
    }

    // ---- Moving ---------------------------------------------------------------------------

    zoomTo(n: number): void {
        const whole = this.tree.total[0] || 1;
        this.zoom = n;
        const from = this.start[n] / whole;
        const to = this.tree.total[n] > 0 ? (this.start[n] + this.tree.total[n]) / whole : 1;
        this.glide(from, to);
        this.show(n);
        this.events.zoomed(n);
    }

    /** Scroll so that a node's row is in sight. */
    private show(n: number): void {
        const top = this.tree.depth[n] * ROW;
        if (top < this.scroll) this.scroll = top;
        if (top + 3 * ROW > this.scroll + this.height) this.scroll = top + 3 * ROW - this.height;
        this.clampScroll();
    }

    private glide(from: number, to: number): void {
        cancelAnimationFrame(this.moving);
        this.goal = to - from;
        const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
        const [from0, to0] = [this.from, this.to];
        const began = performance.now();
        const step = (now: number) => {
            const t = still ? 1 : Math.min(1, (now - began) / 160);
            const eased = 1 - (1 - t) ** 3;
            this.from = t === 1 ? from : from0 + (from - from0) * eased;
            this.to = t === 1 ? to : to0 + (to - to0) * eased;
            this.paint();
            if (t < 1) this.moving = requestAnimationFrame(step);
        };
        step(began);
    }

    private setView(from: number, to: number): void {
        cancelAnimationFrame(this.moving);
        const least = 1e-7;
        let size = Math.min(1, Math.max(least, to - from));
        if (to - from < least) from = (from + to - least) / 2;
        if (size > 0.999999) size = 1;
        this.from = Math.min(1 - size, Math.max(0, from));
        this.to = this.from + size;
        this.goal = size;
        if (size === 1 && this.zoom) {
            this.zoom = 0;
            this.events.zoomed(0);
        }
        this.redraw();
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

    private nodeAt(x: number, y: number): number {
        const depth = this.rootOnTop
            ? Math.floor((y + this.scroll) / ROW)
            : Math.floor((this.height - y + this.scroll) / ROW);
        const row = this.rows[depth];
        if (!row) return -1;
        const whole = this.tree.total[0] || 1;
        const weight = (this.from + (x / this.width) * (this.to - this.from)) * whole;
        const n = row[this.firstAfter(row, weight)];
        return n !== undefined && this.start[n] <= weight ? n : -1;
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
        canvas.addEventListener('pointerleave', () => this.setHover(-1, 0, 0));
        canvas.addEventListener('wheel', (e) => this.wheel(e), { passive: false });
        canvas.addEventListener('keydown', (e) => this.key(e));
        canvas.addEventListener('blur', () => this.events.hovered(-1, 0, 0));
    }

    private down(e: PointerEvent): void {
        this.canvas.setPointerCapture(e.pointerId);
        this.pressed = this.point(e);
        this.pointers.set(e.pointerId, this.pressed);
        this.dragged = this.pointers.size > 1;
    }

    private move(e: PointerEvent): void {
        const at = this.point(e);
        const before = this.pointers.get(e.pointerId);
        if (!before) {
            this.setHover(this.nodeAt(at.x, at.y), e.clientX, e.clientY);
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
            this.setHover(-1, 0, 0);
            this.pan(before.x - at.x, before.y - at.y);
        }
        this.pointers.set(e.pointerId, at);
    }

    private up(e: PointerEvent): void {
        const was = this.pointers.delete(e.pointerId);
        if (!was || this.dragged) return;
        const at = this.point(e);
        const n = this.nodeAt(at.x, at.y);
        if (n < 0) return;
        this.cursor = n;
        this.events.selected(n);
        if (e.altKey) this.events.opened(n);
        else this.zoomTo(n);
    }

    private wheel(e: WheelEvent): void {
        e.preventDefault();
        const unit = e.deltaMode === 1 ? 16 : e.deltaMode === 2 ? this.height : 1;
        const dx = (e.shiftKey ? e.deltaX || e.deltaY : e.deltaX) * unit;
        const dy = (e.shiftKey ? 0 : e.deltaY) * unit;
        if (Math.abs(dx) > Math.abs(dy)) this.pan(dx, 0);
        else this.zoomAround(this.point(e).x, Math.exp(Math.max(-300, Math.min(300, dy)) * 0.002));
    }

    private setHover(n: number, x: number, y: number): void {
        if (n !== this.hover) {
            this.hover = n;
            this.canvas.style.cursor = n >= 0 ? 'pointer' : 'default';
            this.redraw();
        }
        this.events.hovered(n, x, y);
    }

    private key(e: KeyboardEvent): void {
        if (e.ctrlKey || e.metaKey || e.altKey) return;
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
        const row = this.rows[this.tree.depth[n]];
        for (let i = row.indexOf(n) + by; i >= 0 && i < row.length; i += by) {
            const b = this.box(row[i]);
            if (b.width >= 1) return b.x + b.width > 0 && b.x < this.width ? row[i] : -1;
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
        const r = this.canvas.getBoundingClientRect();
        const b = this.box(n);
        this.events.hovered(n, r.left + Math.max(0, b.x), r.top + b.y + FRAME);
    }
}
