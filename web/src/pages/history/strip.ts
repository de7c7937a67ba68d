// The strip above the charts: everything that the store has, and the part of it that is looked at.
// The window is dragged, its edges too; a drag beside it chooses another part.

import { make } from '../../core/dom';
import { clock, date, span } from '../../core/format';
import { color, onTheme } from '../../core/theme';
import { timeTicks } from '../../core/timeaxis';
import { hideTip, showTip } from '../../core/tip';
import { AgentEvent, Run } from '../../core/types';
import { Cluster, Span, clampSpan, clusters, laneOf, panSpan, zoomSpan } from './model';

const LANES = 3;
const LANE = 7;
const MARKS = 16;
const AXIS = 20;
const HEIGHT = MARKS + LANES * LANE + 10 + AXIS;
const EDGE = 7;
const NARROWEST = 8; // pixels of the window, however short it is

type Hold = 'from' | 'to' | 'all' | 'new';

export class Strip {
    readonly element = make('div', { class: 'strip' });
    private readonly canvas = make('canvas', { tabindex: '0', role: 'application', 'aria-roledescription': 'time range' });
    private readonly spoken = make('div', { class: 'sr', 'aria-live': 'polite' });
    private extent: Span = { from: 0, to: 1 };
    private window: Span = { from: 0, to: 1 };
    private runs: readonly Run[] = [];
    private events: readonly AgentEvent[] = [];
    private hold: { what: Hold; at: number; window: Span } | null = null;
    private moved: Span | null = null;
    private width = 0;
    private frame = 0;
    private readonly ends: (() => void)[] = [];

    constructor(private readonly changed: (s: Span) => void) {
        this.element.append(this.canvas, this.spoken);
        this.canvas.style.height = `${HEIGHT}px`;
        this.canvas.addEventListener('pointerdown', (e) => this.down(e));
        this.canvas.addEventListener('pointermove', (e) => this.move(e));
        this.canvas.addEventListener('pointerup', () => this.up());
        this.canvas.addEventListener('pointercancel', () => { this.hold = this.moved = null; this.plan(); });
        this.canvas.addEventListener('pointerleave', () => hideTip(this.canvas));
        this.canvas.addEventListener('wheel', (e) => this.wheel(e), { passive: false });
        this.canvas.addEventListener('keydown', (e) => this.key(e));
        const resized = new ResizeObserver(() => {
            this.width = this.canvas.clientWidth;
            this.plan();
        });
        resized.observe(this.element);
        this.ends.push(() => resized.disconnect(), onTheme(() => this.plan()), () => hideTip(this.canvas));
    }

    end(): void {
        for (const f of this.ends) f();
        cancelAnimationFrame(this.frame);
    }

    show(extent: Span, window: Span, runs: readonly Run[], events: readonly AgentEvent[]): void {
        this.extent = extent;
        this.window = window;
        this.runs = runs;
        this.events = events;
        this.canvas.setAttribute('aria-label', `Shown is ${clock(window.from, true)} to ${clock(window.to, true)}, of ${span(extent.to - extent.from)} that are kept. Left and right move, plus and minus zoom, Home goes to the beginning, End to now.`);
        this.plan();
    }

    private x(t: number): number {
        return ((t - this.extent.from) / (this.extent.to - this.extent.from)) * this.width;
    }

    private time(x: number): number {
        return this.extent.from + (x / Math.max(1, this.width)) * (this.extent.to - this.extent.from);
    }

    private box(w: Span): { left: number; right: number } {
        const a = this.x(w.from);
        const b = this.x(w.to);
        const more = Math.max(0, NARROWEST - (b - a)) / 2;
        const left = Math.max(0, Math.min(this.width - NARROWEST, a - more));
        return { left, right: Math.min(this.width, Math.max(b + more, left + NARROWEST)) };
    }

    // ---- drawing --------------------------------------------------------------------------------

    private plan(): void {
        if (this.frame) return;
        this.frame = requestAnimationFrame(() => {
            this.frame = 0;
            this.draw();
        });
    }

    private marks(): Cluster[] {
        return clusters(this.events.filter((e) => e.time >= this.extent.from && e.time <= this.extent.to), (t) => this.x(t), 9);
    }

    private draw(): void {
        if (!this.width) return;
        const ratio = devicePixelRatio || 1;
        this.canvas.width = Math.round(this.width * ratio);
        this.canvas.height = Math.round(HEIGHT * ratio);
        const g = this.canvas.getContext('2d')!;
        g.setTransform(ratio, 0, 0, ratio, 0, 0);
        const of = (name: string) => color(name, this.element);
        const bottom = HEIGHT - AXIS;
        g.font = `11px ${getComputedStyle(this.element).fontFamily}`;
        g.textAlign = 'center';
        g.textBaseline = 'top';
        for (const t of timeTicks(this.extent.from, this.extent.to, Math.max(2, Math.floor(this.width / 90)))) {
            const x = Math.round(this.x(t.time)) + 0.5;
            g.strokeStyle = of('line');
            g.beginPath();
            g.moveTo(x, 0);
            g.lineTo(x, bottom + 4);
            g.stroke();
            const half = g.measureText(t.text).width / 2;
            g.fillStyle = of('ink-faint');
            g.fillText(t.text, Math.min(this.width - half, Math.max(half, x)), bottom + 6);
        }
        const lanes = laneOf(this.runs, LANES);
        for (const r of this.runs) {
            const x = this.x(r.start);
            g.fillStyle = of(r.live ? 'accent' : 'line-strong');
            g.fillRect(x, MARKS + 4 + (lanes.get(r.id) ?? 0) * LANE, Math.max(2, this.x(r.end) - x), LANE - 2);
        }
        for (const c of this.marks()) this.drawMark(g, c, of);
        this.drawWindow(g, of, bottom);
    }

    private drawMark(g: CanvasRenderingContext2D, c: Cluster, of: (name: string) => string): void {
        const kind = (k: string) => c.events.some((e) => e.kind === k);
        const style = kind('finding') ? of('warn') : kind('mark') ? of('accent') : of('ink-soft');
        g.fillStyle = style;
        g.beginPath();
        if (kind('finding')) {
            g.moveTo(c.x, 2);
            g.lineTo(c.x + 6, 12);
            g.lineTo(c.x - 6, 12);
        } else if (kind('mark')) {
            g.moveTo(c.x, 1);
            g.lineTo(c.x + 5, 7);
            g.lineTo(c.x, 13);
            g.lineTo(c.x - 5, 7);
        } else {
            g.arc(c.x, 7, c.events.length > 1 ? 4.5 : 3, 0, 7);
        }
        g.fill();
    }

    private drawWindow(g: CanvasRenderingContext2D, of: (name: string) => string, bottom: number): void {
        const { left, right } = this.box(this.moved ?? this.window);
        g.fillStyle = of('accent');
        g.globalAlpha = 0.14;
        g.fillRect(left, 0, right - left, bottom);
        g.globalAlpha = 1;
        g.strokeStyle = of('accent');
        g.lineWidth = 2;
        g.strokeRect(left + 1, 1, right - left - 2, bottom - 2);
    }

    // ---- moving ---------------------------------------------------------------------------------

    private at(e: MouseEvent): number {
        return e.clientX - this.canvas.getBoundingClientRect().left;
    }

    private grip(x: number): Hold {
        const { left, right } = this.box(this.window);
        const wide = right - left > 3 * EDGE;
        if (wide && Math.abs(x - left) <= EDGE) return 'from';
        if (wide && Math.abs(x - right) <= EDGE) return 'to';
        return x >= left - EDGE && x <= right + EDGE ? 'all' : 'new';
    }

    private down(e: PointerEvent): void {
        if (e.button !== 0) return;
        this.canvas.setPointerCapture(e.pointerId);
        const x = this.at(e);
        this.hold = { what: this.grip(x), at: this.time(x), window: this.window };
        hideTip(this.canvas);
    }

    private move(e: PointerEvent): void {
        const x = this.at(e);
        if (!this.hold) {
            const what = this.grip(x);
            this.canvas.style.cursor = what === 'all' ? 'grab' : what === 'new' ? 'crosshair' : 'ew-resize';
            this.hover(x, e.clientY);
            return;
        }
        const { what, at, window } = this.hold;
        const t = this.time(x);
        if (what === 'all') this.moved = panSpan(window, t - at, this.extent);
        else if (what === 'from') this.moved = clampSpan({ from: Math.min(t, window.to), to: window.to }, this.extent);
        else if (what === 'to') this.moved = clampSpan({ from: window.from, to: Math.max(t, window.from) }, this.extent);
        else this.moved = clampSpan({ from: Math.min(at, t), to: Math.max(at, t) }, this.extent);
        this.plan();
        showTip({ x: e.clientX, y: e.clientY + 12 }, this.canvas, make('b', {}, span(this.moved.to - this.moved.from)), make('p', {}, this.words(this.moved)));
    }

    private up(): void {
        const { hold, moved } = this;
        this.hold = this.moved = null;
        hideTip(this.canvas);
        if (!hold) return;
        const length = this.window.to - this.window.from;
        const px = moved ? ((moved.to - moved.from) / (this.extent.to - this.extent.from)) * this.width : 0;
        // A click beside the window brings it there.
        if (hold.what === 'new' && (!moved || px < 4)) this.changed(clampSpan({ from: hold.at - length / 2, to: hold.at + length / 2 }, this.extent));
        else if (moved) this.changed(moved);
        this.plan();
    }

    private hover(x: number, y: number): void {
        const near = this.marks().find((c) => Math.abs(c.x - x) <= 7);
        if (!near) {
            hideTip(this.canvas);
            return;
        }
        const r = this.canvas.getBoundingClientRect();
        showTip({ x: r.left + near.x, y: y + 10 }, this.canvas, ...near.events.slice(0, 6).map((e) => make('p', {}, `${clock(e.time)} ${e.text}`)),
            ...(near.events.length > 6 ? [make('p', {}, `and ${near.events.length - 6} more`)] : []));
    }

    private wheel(e: WheelEvent): void {
        if (!e.ctrlKey && !e.metaKey && Math.abs(e.deltaX) <= Math.abs(e.deltaY)) return;
        e.preventDefault();
        const length = this.window.to - this.window.from;
        const s = e.ctrlKey || e.metaKey
            ? zoomSpan(this.window, e.deltaY > 0 ? 1.5 : 1 / 1.5, (this.window.from + this.window.to) / 2, this.extent)
            : panSpan(this.window, Math.sign(e.deltaX) * length * 0.1, this.extent);
        this.changed(s);
    }

    private key(e: KeyboardEvent): void {
        if (e.ctrlKey || e.metaKey || e.altKey) return;
        const w = this.window;
        const length = w.to - w.from;
        const middle = (w.from + w.to) / 2;
        const to: Record<string, () => Span> = {
            ArrowLeft: () => panSpan(w, -length / 4, this.extent), ArrowRight: () => panSpan(w, length / 4, this.extent),
            PageUp: () => panSpan(w, -length, this.extent), PageDown: () => panSpan(w, length, this.extent),
            '+': () => zoomSpan(w, 0.5, middle, this.extent), '=': () => zoomSpan(w, 0.5, middle, this.extent), '-': () => zoomSpan(w, 2, middle, this.extent),
            Home: () => panSpan(w, -Infinity, this.extent), End: () => panSpan(w, Infinity, this.extent),
        };
        const f = (to as Record<string, (() => Span) | undefined>)[e.key];
        if (!f) return;
        e.preventDefault();
        e.stopPropagation();
        const s = e.key === 'Home' ? clampSpan({ from: this.extent.from, to: this.extent.from + length }, this.extent)
            : e.key === 'End' ? clampSpan({ from: this.extent.to - length, to: this.extent.to }, this.extent) : f();
        this.spoken.textContent = this.words(s);
        this.changed(s);
    }

    private words(s: Span): string {
        const same = date(s.from) === date(s.to);
        return `${clock(s.from, true)} – ${clock(s.to, !same)}`;
    }
}
