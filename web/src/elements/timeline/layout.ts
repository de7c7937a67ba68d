// Rows of a request's timeline, and what part of it is in sight. No DOM.

import { PHASE_LIST, gapsOf, isWork, phaseId, phaseTitle, queueOf } from '../../core/phases';
import { Span, TimelineEntry } from '../../core/types';

export interface TimelineRow { id: string; title: string; entries: TimelineEntry[] }

// A row for each phase that occurs, in the order that a request goes through them, and one for longer
// gaps between them.
export function timelineRows(timeline: readonly TimelineEntry[], total: number): TimelineRow[] {
    const rows = new Map<string, TimelineEntry[]>();
    const queue = queueOf(timeline);
    if (queue.length) rows.set('queue', queue.map((q) => ({ name: 'queue', start_s: q.start, end_s: q.end })));
    for (const e of timeline.filter(isWork)) {
        const id = phaseId(e.name);
        const list = rows.get(id);
        if (list) list.push(e);
        else rows.set(id, [e]);
    }
    const gaps = rows.size ? gapsOf(timeline, total).filter((g) => g.end - g.start > total * 0.005) : [];
    if (gaps.length) rows.set('unexplained', gaps.map((g) => ({ name: 'unexplained', start_s: g.start, end_s: g.end })));
    const order = (id: string) => {
        const at = PHASE_LIST.findIndex((p) => p.id === id);
        return id === 'unexplained' ? 99 : at < 0 ? 50 : at;
    };
    return [...rows].sort((a, b) => order(a[0]) - order(b[0])).map(([id, entries]) => ({ id, title: phaseTitle(id), entries }));
}

export interface BatchStep { start: number; end: number; size: number }

// How many shared each forward pass.
export function batchSteps(timeline: readonly TimelineEntry[]): BatchStep[] {
    return timeline.filter((e) => (e.batch ?? 0) > 0).map((e) => ({ start: e.start_s, end: e.end_s, size: e.batch! }))
        .sort((a, b) => a.start - b.start);
}

// ---- what is in sight -------------------------------------------------------------------------------

export interface View { from: number; to: number }

export function clampView(v: View, total: number): View {
    const least = Math.min(total, Math.max(total * 1e-4, 2e-6));
    const length = Math.min(total, Math.max(least, v.to - v.from));
    const from = Math.min(total - length, Math.max(0, v.from));
    return { from, to: from + length };
}

// At `at` nothing moves.
export function zoomView(v: View, by: number, at: number, total: number): View {
    return clampView({ from: at - (at - v.from) * by, to: at + (v.to - at) * by }, total);
}

export function panView(v: View, by: number, total: number): View {
    return clampView({ from: v.from + by, to: v.to + by }, total);
}

// Round times of an axis from 0.
export function axisTicks(v: View, most: number): number[] {
    const length = v.to - v.from;
    if (!(length > 0) || most < 1) return [];
    const power = 10 ** Math.floor(Math.log10(length / most));
    const step = [1, 2, 5, 10].map((d) => d * power).find((s) => length / s <= most) ?? 10 * power;
    const ticks: number[] = [];
    for (let k = Math.max(0, Math.ceil(v.from / step - 1e-9)); k * step <= v.to + step * 1e-9; k++) ticks.push(k * step);
    return ticks;
}

// ---- spans ------------------------------------------------------------------------------------------

export interface SpanNode { name: string; spans: Span[]; seconds: number; start: number; end: number; children: SpanNode[]; depth: number }

// Parents above children; neighbours with the same name and parent are one line, since an answer of
// a thousand tokens has thousands of them.
export function spanTree(spans: readonly Span[]): SpanNode[] {
    const byParent = new Map<string, Span[]>();
    const ids = new Set(spans.map((s) => s.span_id));
    for (const s of spans) {
        const parent = s.parent_id && ids.has(s.parent_id) && s.parent_id !== s.span_id ? s.parent_id : '';
        const list = byParent.get(parent);
        if (list) list.push(s);
        else byParent.set(parent, [s]);
    }
    const seen = new Set<string>();
    const build = (list: readonly Span[], depth: number): SpanNode[] => {
        const groups = new Map<string, Span[]>();
        for (const s of [...list].sort((a, b) => a.start - b.start)) {
            if (seen.has(s.span_id)) continue; // a circle
            seen.add(s.span_id);
            const group = groups.get(s.name);
            if (group) group.push(s);
            else groups.set(s.name, [s]);
        }
        return [...groups.values()].map((group) => ({
            name: group[0].name, spans: group, depth,
            seconds: group.reduce((sum, s) => sum + s.duration_s, 0),
            start: group[0].start,
            end: group.reduce((end, s) => Math.max(end, s.start + s.duration_s), 0),
            children: depth > 40 ? [] : build(group.flatMap((s) => byParent.get(s.span_id) ?? []), depth + 1),
        }));
    };
    return build(byParent.get('') ?? [], 0);
}

export function flatten(nodes: readonly SpanNode[]): SpanNode[] {
    return nodes.flatMap((n) => [n, ...flatten(n.children)]);
}
