// Ticks and labels of axes. No DOM.

import * as format from '../../core/format';

const KIB = 1024;

// Distances between ticks that read well in a unit; uPlot chooses the first that has room.
export function increments(unit: string): number[] {
    const out: number[] = [];
    if (unit.startsWith('bytes')) {
        for (let size = 1; size <= KIB ** 5; size *= KIB) {
            for (const n of [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]) out.push(size * n);
        }
        return out;
    }
    for (let e = -12; e <= 15; e++) for (const n of [1, 2, 5]) out.push(Number(`${n}e${e}`));
    return out;
}

// Whole numbers of things have no ticks between them.
export function wholeIncrements(unit: string): number[] {
    return increments(unit).filter((v) => v >= 1);
}

// Units that are part of every number; others are said once, beside the title.
const PREFIXED = ['seconds', 's', 'bytes', 'B', 'bytes/s', 'seconds/s', 'ratio', 'percent'];

export function tickLabel(v: number, unit: string): string {
    if (v === 0) return '0';
    return PREFIXED.includes(unit) ? format.inUnit(v, unit) : format.count(v);
}

export function unitName(unit: string): string {
    return PREFIXED.includes(unit) ? '' : unit === '/s' ? 'per second' : unit;
}

const two = (n: number) => String(n).padStart(2, '0');

// Local time, as short as the distance of ticks permits; the date where the day changes.
export function timeLabels(splits: readonly number[], increment: number): string[] {
    let day = '';
    return splits.map((t, i) => {
        const d = new Date(t * 1000);
        const time = increment >= 60
            ? `${two(d.getHours())}:${two(d.getMinutes())}`
            : `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
        const date = `${two(d.getMonth() + 1)}-${two(d.getDate())}`;
        const changed = date !== day;
        day = date;
        if (increment >= 86400) return date;
        // Several days: each says which. The first of a single day need not.
        return changed && i > 0 ? `${date} ${time}` : time;
    });
}

// From 0 to a little above the largest; from near the smallest where 0 is far away and not wanted.
export function valueRange(min: number | null, max: number | null, fromZero: boolean, most: number | null): [number, number] {
    if (min === null || max === null || !Number.isFinite(min) || !Number.isFinite(max)) return [0, most ?? 1];
    let low = Math.min(0, min);
    let high = Math.max(0, max);
    if (!fromZero && min > 0 && (max - min) < 0.5 * max) {
        const pad = (max - min) * 0.2 || max * 0.05;
        low = Math.max(0, min - pad);
        high = max + pad;
    } else {
        high = high === 0 && low === 0 ? 1 : high + (high - low) * 0.06;
        if (low < 0) low -= (high - low) * 0.06;
    }
    if (most !== null && high > most && max <= most) high = most;
    return [low, high];
}
