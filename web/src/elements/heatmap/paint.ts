// Draws a heat map on a canvas. Positions are CSS pixels; colours come in as they are.

import { seconds, count as countText } from '../../core/format';
import { Cells, ColumnStats, axisValues, heatLevel, place } from '../../core/heat';
import { timeTicks } from '../../core/timeaxis';
import { Heatmap } from '../../core/types';

export interface Box { left: number; top: number; width: number; height: number }

export interface Colors {
    heat: string[];
    card: string;
    ink: string;
    soft: string;
    faint: string;
    line: string;
    accent: string;
    focus: string;
    bad: string;
    warn: string;
    font: string;
}

export interface Picture {
    map: Heatmap;
    most: number;             // of one cell
    box: Box;                 // where cells are
    colors: Colors;
    columns: ColumnStats[] | null; // with percentiles drawn
    slo: number | null;
    chosen: Cells | null;
    hover: { column: number; row: number } | null;
    cursor: { column: number; row: number } | null;
}

export function valueText(v: number, unit: string): string {
    return unit === 's' ? seconds(v, 3) : countText(v, 3);
}

export function cellBox(p: Picture, column: number, row: number): Box {
    const { map, box } = p;
    const x0 = Math.round(box.left + (column * box.width) / map.columns);
    const x1 = Math.round(box.left + ((column + 1) * box.width) / map.columns);
    const y0 = Math.round(box.top + box.height - ((row + 1) * box.height) / map.rows);
    const y1 = Math.round(box.top + box.height - (row * box.height) / map.rows);
    return { left: x0, top: y0, width: x1 - x0, height: y1 - y0 };
}

const timeX = (p: Picture, t: number) => p.box.left + ((t - p.map.from) / (p.map.to - p.map.from)) * p.box.width;
const valueY = (p: Picture, v: number) => p.box.top + p.box.height * (1 - place(p.map.edges, v));

// Of what is chosen, cut to the picture; null = nothing of it is in sight.
export function chosenBox(p: Picture, c: Cells): Box | null {
    const x0 = Math.max(p.box.left, Math.round(timeX(p, c.from)));
    const x1 = Math.min(p.box.left + p.box.width, Math.round(timeX(p, c.to)));
    const y0 = Math.round(valueY(p, c.max));
    const y1 = Math.round(valueY(p, c.min));
    return x1 > x0 && y1 > y0 ? { left: x0, top: y0, width: x1 - x0, height: y1 - y0 } : null;
}

function drawAxes(g: CanvasRenderingContext2D, p: Picture): void {
    const { box, map, colors } = p;
    g.font = colors.font;
    g.textBaseline = 'middle';
    g.textAlign = 'right';
    for (const v of axisValues(map.edges, Math.max(2, Math.floor(box.height / 26)))) {
        const y = Math.round(valueY(p, v)) + 0.5;
        g.strokeStyle = colors.line;
        g.lineWidth = 1;
        g.beginPath();
        g.moveTo(box.left, y);
        g.lineTo(box.left + box.width, y);
        g.stroke();
        g.fillStyle = colors.faint;
        g.fillText(valueText(v, map.unit), box.left - 6, Math.min(box.top + box.height - 4, Math.max(box.top + 5, y)));
    }
    g.textBaseline = 'top';
    g.textAlign = 'center';
    const y = box.top + box.height;
    for (const t of timeTicks(map.from, map.to, Math.max(2, Math.floor(box.width / 68)))) {
        const x = Math.round(timeX(p, t.time)) + 0.5;
        g.strokeStyle = colors.line;
        g.beginPath();
        g.moveTo(x, box.top);
        g.lineTo(x, y + 4);
        g.stroke();
        const half = g.measureText(t.text).width / 2;
        if (x + half > box.left + box.width + 8) continue;
        g.fillStyle = t.strong ? colors.soft : colors.faint;
        g.fillText(t.text, Math.max(x, half), y + 7);
    }
}

function drawCells(g: CanvasRenderingContext2D, p: Picture): void {
    const { map, colors } = p;
    const gapX = p.box.width / map.columns >= 4 ? 1 : 0;
    const gapY = p.box.height / map.rows >= 4 ? 1 : 0;
    for (const [column, row, n] of map.cells) {
        const b = cellBox(p, column, row);
        g.fillStyle = colors.heat[heatLevel(n, p.most)];
        g.fillRect(b.left, b.top, Math.max(1, b.width - gapX), Math.max(1, b.height - gapY));
    }
    // Marks come last, so that no neighbour covers them.
    for (const [column, row, n, failed] of map.cells) {
        if (!failed) continue;
        const b = cellBox(p, column, row);
        // Its area is the share that failed, down to what can be seen.
        const r = Math.max(1.5, Math.min(4, b.width / 3, b.height / 3) * Math.sqrt(failed / n));
        g.beginPath();
        g.arc(b.left + b.width / 2 - gapX / 2, b.top + b.height / 2 - gapY / 2, r + 1, 0, 7);
        g.fillStyle = colors.card;
        g.fill();
        g.beginPath();
        g.arc(b.left + b.width / 2 - gapX / 2, b.top + b.height / 2 - gapY / 2, r, 0, 7);
        g.fillStyle = colors.bad;
        g.fill();
    }
}

function drawPercentiles(g: CanvasRenderingContext2D, p: Picture): void {
    if (!p.columns) return;
    for (const [name, dash] of [['p50', []], ['p95', [6, 3]], ['p99', [2, 3]]] as const) {
        for (const [style, width] of [[p.colors.card, 4], [p.colors.ink, 1.5]] as const) {
            g.strokeStyle = style;
            g.lineWidth = width;
            g.setLineDash(style === p.colors.card ? [] : [...dash]);
            g.beginPath();
            let pen = false;
            p.columns.forEach((s, c) => {
                const v = s[name];
                if (v === null) {
                    pen = false;
                    return;
                }
                const x = p.box.left + ((c + 0.5) * p.box.width) / p.map.columns;
                if (pen) g.lineTo(x, valueY(p, v));
                else g.moveTo(x, valueY(p, v));
                pen = true;
            });
            g.stroke();
        }
    }
    g.setLineDash([]);
}

function drawObjective(g: CanvasRenderingContext2D, p: Picture): void {
    const { box, colors, map, slo } = p;
    if (slo === null || !map.rows || slo <= map.edges[0] || slo >= map.edges[map.rows]) return;
    const y = Math.round(valueY(p, slo)) + 0.5;
    g.strokeStyle = colors.warn;
    g.lineWidth = 1.5;
    g.setLineDash([5, 4]);
    g.beginPath();
    g.moveTo(box.left, y);
    g.lineTo(box.left + box.width, y);
    g.stroke();
    g.setLineDash([]);
    const text = `objective ${valueText(slo, map.unit)}`;
    g.font = colors.font;
    g.textAlign = 'right';
    g.textBaseline = 'bottom';
    const width = g.measureText(text).width;
    g.fillStyle = colors.card;
    g.fillRect(box.left + box.width - width - 10, y - 16, width + 8, 14);
    g.fillStyle = colors.warn;
    g.fillText(text, box.left + box.width - 6, y - 2);
}

function drawChosen(g: CanvasRenderingContext2D, p: Picture): void {
    const b = p.chosen ? chosenBox(p, p.chosen) : null;
    if (!b) return;
    const { box, colors } = p;
    // What is not chosen steps back.
    g.globalAlpha = 0.62;
    g.fillStyle = colors.card;
    g.fillRect(box.left, box.top, box.width, b.top - box.top);
    g.fillRect(box.left, b.top + b.height, box.width, box.top + box.height - b.top - b.height);
    g.fillRect(box.left, b.top, b.left - box.left, b.height);
    g.fillRect(b.left + b.width, b.top, box.left + box.width - b.left - b.width, b.height);
    g.globalAlpha = 1;
    g.strokeStyle = colors.accent;
    g.lineWidth = 2;
    g.strokeRect(b.left - 1, b.top - 1, b.width + 1, b.height + 1);
}

function outline(g: CanvasRenderingContext2D, p: Picture, at: { column: number; row: number } | null, style: string, width: number): void {
    if (!at || at.column >= p.map.columns || at.row >= p.map.rows) return;
    const b = cellBox(p, at.column, at.row);
    g.strokeStyle = style;
    g.lineWidth = width;
    g.strokeRect(b.left - 0.5, b.top - 0.5, b.width, b.height);
}

export function paint(g: CanvasRenderingContext2D, p: Picture): void {
    drawAxes(g, p);
    drawCells(g, p);
    drawPercentiles(g, p);
    drawChosen(g, p);
    drawObjective(g, p);
    outline(g, p, p.hover, p.colors.ink, 1);
    outline(g, p, p.cursor, p.colors.focus, 2);
}
