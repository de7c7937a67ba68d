// What the store has of time, and which part of it is looked at. No DOM.

import { AgentEvent, Finding, Run, StoredProfile } from '../../core/types';

export interface Span { from: number; to: number }

const SHORTEST = 5;

// From the first run to now; at least an hour, so that a store that was just begun is not a bar.
export function extentOf(runs: readonly Run[], now: number): Span {
    const from = runs.reduce((least, r) => Math.min(least, r.start), now - 3600);
    return { from, to: now };
}

// Shifted or resized to lie inside, not shorter than a chart can show.
export function clampSpan(s: Span, within: Span): Span {
    const most = within.to - within.from;
    const length = Math.min(most, Math.max(Math.min(SHORTEST, most), s.to - s.from));
    const from = Math.min(within.to - length, Math.max(within.from, s.from));
    return { from, to: from + length };
}

export function panSpan(s: Span, by: number, within: Span): Span {
    return clampSpan({ from: s.from + by, to: s.to + by }, within);
}

// At `at` nothing moves.
export function zoomSpan(s: Span, by: number, at: number, within: Span): Span {
    return clampSpan({ from: at - (at - s.from) * by, to: at + (s.to - at) * by }, within);
}

// A range that ends now goes on with the time.
export function endsNow(s: Span, within: Span): boolean {
    return within.to - s.to < Math.max(1, (s.to - s.from) * 0.02);
}

// ---- runs -------------------------------------------------------------------------------------------

// Runs that overlap are drawn below each other; at most so many rows, the last takes what is left.
export function laneOf(runs: readonly Run[], most: number): Map<number, number> {
    const ends: number[] = [];
    const lanes = new Map<number, number>();
    for (const r of [...runs].sort((a, b) => a.start - b.start || a.id - b.id)) {
        let lane = ends.findIndex((end) => end <= r.start);
        if (lane < 0) lane = ends.length < most ? ends.length : most - 1;
        ends[lane] = Math.max(ends[lane] ?? 0, r.end);
        lanes.set(r.id, lane);
    }
    return lanes;
}

// ---- events -----------------------------------------------------------------------------------------

// What happened, from what else is known, where the agent has no list of it.
export function eventsFrom(runs: readonly Run[], findings: readonly Finding[], profiles: readonly StoredProfile[], within: Span): AgentEvent[] {
    const list: AgentEvent[] = [];
    const add = (e: Partial<AgentEvent> & { time: number; kind: AgentEvent['kind']; text: string }) =>
        list.push({ end: null, severity: null, process: null, pid: null, id: null, ...e });
    for (const r of runs) {
        add({ time: r.start, kind: 'start', text: `${r.name || `run ${r.id}`} started`, id: r.id });
        if (!r.live) add({ time: r.end, kind: 'end', text: `${r.name || `run ${r.id}`} ended`, id: r.id });
    }
    for (const f of findings) add({ time: f.time ?? 0, kind: 'finding', severity: f.severity, text: f.text, id: f.id ?? null });
    for (const p of profiles) add({ time: p.start, end: p.end, kind: 'session', text: p.name || `${p.kind} ${p.id}`, id: p.id });
    return list.filter((e) => e.time < within.to && (e.end ?? e.time) >= within.from).sort((a, b) => b.time - a.time);
}

export interface Cluster { x: number; events: AgentEvent[] }

// Those that would be drawn over each other are one.
export function clusters(events: readonly AgentEvent[], x: (t: number) => number, near: number): Cluster[] {
    const list: Cluster[] = [];
    for (const e of [...events].sort((a, b) => a.time - b.time)) {
        const at = x(e.time);
        const last = list[list.length - 1] as Cluster | undefined;
        if (last && at - last.x < near) last.events.push(e);
        else list.push({ x: at, events: [e] });
    }
    return list;
}

// The range that shows an event with what was before and after.
export function around(e: { time: number; end: number | null }): Span {
    const length = Math.max(60, (e.end ?? e.time) - e.time);
    return { from: e.time - length * 0.5, to: (e.end ?? e.time) + length * 0.5 };
}
