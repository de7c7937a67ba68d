// Draws the timeline of one request on a canvas. Positions are CSS pixels.

import { seconds } from '../../core/format';
import { Pause } from '../../core/phases';
import { TimelineEntry } from '../../core/types';
import { BatchStep, TimelineRow, View, axisTicks } from './layout';

export const ROW = 22;
export const TOKENS = 20;
export const BATCH = 40;
export const AXIS = 22;
export const LEFT = 72;
export const RIGHT = 10;

export interface TimelineColors {
    card: string;
    ink: string;
    soft: string;
    faint: string;
    line: string;
    raised: string;
    accent: string;
    warn: string;
    font: string;
    phase(id: string): string;
}

export interface TimelinePicture {
    width: number;
    rows: TimelineRow[];
    tokens: TimelineEntry[];
    batches: BatchStep[];
    pause: Pause | null;
    first: number | null;   // time to the first token
    view: View;
    drag: View | null;
    hover: TimelineEntry | null;
    colors: TimelineColors;
}

export function heightOf(p: { rows: unknown[]; tokens: unknown[]; batches: unknown[] }): number {
    return p.rows.length * ROW + (p.tokens.length ? TOKENS : 0) + (p.batches.length ? BATCH : 0) + AXIS;
}

export function xOf(p: { width: number; view: View }, t: number): number {
    return LEFT + ((t - p.view.from) / (p.view.to - p.view.from)) * (p.width - LEFT - RIGHT);
}

export function timeOf(p: { width: number; view: View }, x: number): number {
    return p.view.from + ((x - LEFT) / (p.width - LEFT - RIGHT)) * (p.view.to - p.view.from);
}

function drawAxis(g: CanvasRenderingContext2D, p: TimelinePicture, bottom: number): void {
    const { colors } = p;
    g.textAlign = 'center';
    g.textBaseline = 'top';
    for (const t of axisTicks(p.view, Math.max(2, Math.floor((p.width - LEFT) / 90)))) {
        const x = Math.round(xOf(p, t)) + 0.5;
        g.strokeStyle = colors.line;
        g.lineWidth = 1;
        g.beginPath();
        g.moveTo(x, 0);
        g.lineTo(x, bottom + 4);
        g.stroke();
        const text = t === 0 ? '0' : seconds(t, 4);
        const half = g.measureText(text).width / 2;
        g.fillStyle = colors.faint;
        g.fillText(text, Math.min(x, p.width - half - 1), bottom + 7);
    }
}

function drawHatch(g: CanvasRenderingContext2D, p: TimelinePicture, x: number, y: number, w: number, h: number): void {
    g.save();
    g.beginPath();
    g.rect(x, y, w, h);
    g.clip();
    g.strokeStyle = p.colors.faint;
    g.lineWidth = 1;
    g.beginPath();
    for (let i = -h; i < w; i += 5) {
        g.moveTo(x + i, y + h);
        g.lineTo(x + i + h, y);
    }
    g.stroke();
    g.restore();
}

function drawRows(g: CanvasRenderingContext2D, p: TimelinePicture): void {
    const right = p.width - RIGHT;
    p.rows.forEach((row, i) => {
        const top = i * ROW;
        const color = p.colors.phase(row.id);
        for (const e of row.entries) {
            const x0 = Math.max(LEFT, xOf(p, e.start_s));
            const x1 = Math.min(right, xOf(p, e.end_s));
            if (x1 < LEFT || x0 > right) continue;
            const w = Math.max(1, x1 - x0);
            const length = e.end_s - e.start_s;
            const own = (e.batch ?? 0) > 0 && length > 0 ? Math.min(1, (e.busy_s ?? length) / length) : 1;
            const h = ROW - 6;
            g.fillStyle = color;
            if (row.id === 'unexplained') {
                drawHatch(g, p, x0, top + 3, w, h);
            } else if (own < 0.999) {
                // Pale: the pass; full, from below: what of it was for this request.
                g.globalAlpha = 0.3;
                g.fillRect(x0, top + 3, w, h);
                g.globalAlpha = 1;
                const part = Math.max(2, h * own);
                g.fillRect(x0, top + 3 + h - part, w, part);
            } else {
                g.fillRect(x0, top + 3, w, h);
            }
            // Steps that touch can be told apart where there is room.
            if (w > 3) {
                g.fillStyle = p.colors.card;
                g.fillRect(x0 + w - 1, top + 3, 1, h);
            }
            if (e === p.hover) {
                g.strokeStyle = p.colors.ink;
                g.lineWidth = 1.5;
                g.strokeRect(x0 - 0.5, top + 2.5, w + 1, h + 1);
            }
        }
    });
}

function drawTokens(g: CanvasRenderingContext2D, p: TimelinePicture, top: number): void {
    const right = p.width - RIGHT;
    if (p.pause) {
        const x0 = Math.max(LEFT, xOf(p, p.pause.start));
        const x1 = Math.min(right, xOf(p, p.pause.end));
        if (x1 > LEFT && x0 < right && x1 - x0 > 3) {
            g.fillStyle = p.colors.warn;
            g.globalAlpha = 0.22;
            g.fillRect(x0, top + 3, x1 - x0, TOKENS - 6);
            g.globalAlpha = 1;
            const text = seconds(p.pause.end - p.pause.start);
            g.textAlign = 'center';
            g.textBaseline = 'middle';
            if (g.measureText(text).width + 8 < x1 - x0) {
                g.fillStyle = p.colors.soft;
                g.fillText(text, (x0 + x1) / 2, top + TOKENS / 2);
            }
        }
    }
    g.fillStyle = p.colors.ink;
    for (const e of p.tokens) {
        const x = Math.round(xOf(p, e.start_s));
        if (x < LEFT || x > right) continue;
        // Joined ones: a bar from the first to the last.
        const w = Math.max(1, Math.min(right, xOf(p, e.end_s)) - x);
        g.fillRect(x, top + 4, w, TOKENS - 8);
    }
}

function drawBatches(g: CanvasRenderingContext2D, p: TimelinePicture, top: number): void {
    const right = p.width - RIGHT;
    const most = Math.max(1, ...p.batches.map((b) => b.size));
    const base = top + BATCH - 6;
    const y = (n: number) => base - ((BATCH - 14) * n) / most;
    g.strokeStyle = p.colors.line;
    g.lineWidth = 1;
    g.beginPath();
    g.moveTo(LEFT, base + 0.5);
    g.lineTo(right, base + 0.5);
    g.stroke();
    g.save();
    g.beginPath();
    g.rect(LEFT, top, right - LEFT, BATCH);
    g.clip();
    g.strokeStyle = p.colors.accent;
    g.lineWidth = 1.5;
    g.beginPath();
    let end = -Infinity;
    for (const b of p.batches) {
        const x0 = xOf(p, b.start);
        const x1 = Math.max(x0 + 0.5, xOf(p, b.end));
        // A line through passes that follow each other, down to nothing where there was none.
        if (x0 - end > 3) {
            if (end > -Infinity) g.lineTo(end, base);
            g.moveTo(x0, base);
        }
        g.lineTo(x0, y(b.size));
        g.lineTo(x1, y(b.size));
        end = x1;
    }
    if (end > -Infinity) g.lineTo(end, base);
    g.stroke();
    g.restore();
    g.textAlign = 'right';
    g.textBaseline = 'middle';
    g.fillStyle = p.colors.faint;
    g.fillText(String(most), LEFT - 6, y(most));
}

export function paintTimeline(g: CanvasRenderingContext2D, p: TimelinePicture): void {
    const { colors } = p;
    const tokensTop = p.rows.length * ROW;
    const batchTop = tokensTop + (p.tokens.length ? TOKENS : 0);
    const bottom = batchTop + (p.batches.length ? BATCH : 0);
    g.font = colors.font;
    drawAxis(g, p, bottom);
    g.textBaseline = 'middle';
    g.textAlign = 'left';
    g.fillStyle = colors.soft;
    p.rows.forEach((row, i) => g.fillText(row.title, 0, i * ROW + ROW / 2, LEFT - 8));
    if (p.tokens.length) g.fillText('Tokens', 0, tokensTop + TOKENS / 2);
    if (p.batches.length) g.fillText('In batch', 0, batchTop + BATCH - 14, LEFT - 20);
    drawRows(g, p);
    if (p.tokens.length) drawTokens(g, p, tokensTop);
    if (p.batches.length) drawBatches(g, p, batchTop);
    if (p.first !== null && p.first >= p.view.from && p.first <= p.view.to) {
        const x = Math.round(xOf(p, p.first)) + 0.5;
        g.strokeStyle = colors.ink;
        g.lineWidth = 1;
        g.setLineDash([3, 3]);
        g.beginPath();
        g.moveTo(x, 0);
        g.lineTo(x, bottom);
        g.stroke();
        g.setLineDash([]);
    }
    if (p.drag) {
        const x0 = Math.max(LEFT, xOf(p, Math.min(p.drag.from, p.drag.to)));
        const x1 = Math.min(p.width - RIGHT, xOf(p, Math.max(p.drag.from, p.drag.to)));
        g.fillStyle = colors.accent;
        g.globalAlpha = 0.16;
        g.fillRect(x0, 0, x1 - x0, bottom);
        g.globalAlpha = 1;
    }
}
