// The series of one time range, shared by all charts and tiles that show it: asked for together,
// kept once, moved on by the live stream.

import { can } from './abilities';
import { Api, ApiError, aborted } from './api';
import { isFrozen, savedStep } from './frozen';
import { now } from './now';
import { Grid, RangeSpec, Selector, Stat, Track, parseRange, selects, seriesKey, stepFor } from './series';
import { LiveState, Subscription, live } from './stream';
import { AgentEvent, Events, PointsEvent, QueryAnswer, Series } from './types';

const SETTLE_MS = 15;
const SERIES_MAX = 5000;
const EVENTS_EVERY_MS = 15000;

export interface Handle {
    readonly board: Board;
    tracks(): Track[];
    loaded(): boolean;
    error(): unknown;
    close(): void;
}

interface User {
    selector: Selector;
    stats: readonly Stat[];
    changed: () => void;
    found: Track[] | null; // until series come or go
    ready: boolean;
    error: unknown;
}

export class Board {
    readonly spec: RangeSpec;
    readonly grid: Grid;
    events: AgentEvent[] = [];
    liveState: LiveState | null = null;
    truncated = false;
    private readonly tracks = new Map<string, Track>();
    private readonly users = new Set<User>();
    private readonly wanted = new Map<string, Set<Stat>>(); // name → statistics that are kept
    private stream: Subscription | null = null;
    private streamNames = '';
    private timer = 0;
    private eventsTimer = 0;
    private readonly abort = new AbortController();
    private newest = 0; // begin of the newest step that is known
    private filling = false;

    constructor(readonly api: Api, text: string, private readonly ended: () => void) {
        this.spec = parseRange(text);
        const to = this.spec.to ?? now();
        const from = this.spec.from ?? to - this.spec.seconds;
        this.grid = new Grid(savedStep() ?? stepFor(this.spec.seconds), from, to);
        void this.loadEvents();
    }

    get step(): number {
        return this.grid.step;
    }

    get isLive(): boolean {
        return this.spec.from === null && !isFrozen();
    }

    // What an axis shows: exactly the range, whatever steps cover it.
    window(): { from: number; to: number } {
        if (this.spec.from !== null) return { from: this.spec.from, to: this.spec.to! };
        return { from: this.grid.end - this.spec.seconds, to: this.grid.end };
    }

    use(selector: Selector, stats: readonly Stat[], changed: () => void): Handle {
        const user: User = { selector, stats, changed, found: null, ready: false, error: null };
        this.users.add(user);
        this.settle();
        return {
            board: this,
            tracks: () => user.found ??= [...this.tracks.values()].filter((t) => selects(user.selector, t)),
            loaded: () => user.ready,
            error: () => user.error,
            close: () => {
                this.users.delete(user);
                if (this.users.size) return;
                window.clearTimeout(this.timer);
                window.clearTimeout(this.eventsTimer);
                this.abort.abort();
                this.stream?.close();
                this.ended();
            },
        };
    }

    retry(): void {
        for (const u of this.users) if (u.error) u.error = null;
        this.settle();
    }

    private settle(): void {
        window.clearTimeout(this.timer);
        this.timer = window.setTimeout(() => void this.load(), SETTLE_MS);
    }

    private async load(): Promise<void> {
        const users = [...this.users].filter((u) => !u.ready && !u.error);
        if (!users.length) return;
        const names = new Set<string>();
        for (const u of users) {
            for (const n of u.selector.names) {
                const stats = this.wanted.get(n) ?? new Set<Stat>();
                const before = stats.size;
                for (const s of u.stats) stats.add(s);
                if (stats.size > before) names.add(n);
                this.wanted.set(n, stats);
            }
        }
        try {
            if (names.size) await this.fetch([...names], this.grid.begin, this.spec.to ?? this.grid.end + this.step);
            for (const u of users) u.ready = true;
        } catch (e) {
            if (aborted(e)) return;
            for (const n of names) this.wanted.delete(n);
            for (const u of users) u.error = e;
        }
        this.tell();
        if (this.isLive) this.follow();
    }

    private async fetch(names: string[], from: number, to: number): Promise<void> {
        const answer = await this.api.get<QueryAnswer>('/api/query', {
            name: names.sort().join('|'), from: round(from), to: this.isLive ? null : round(to), step: this.step, limit: SERIES_MAX,
        }, this.abort.signal);
        if (answer.truncated) this.truncated = true;
        // The step that is under way comes whole by the stream.
        const whole = this.isLive ? answer.time : Infinity;
        for (const s of answer.series) {
            const track = this.track(s);
            if (whole === Infinity || !track.summary) track.summary = s;
            for (const p of s.points ?? []) {
                if (p.time + this.step > whole + 0.001) continue;
                if (this.isLive && this.grid.advance(p.time)) this.forget();
                track.put(p);
                if (p.time > this.newest) this.newest = p.time;
            }
        }
    }

    private track(s: Pick<Series, 'name' | 'labels' | 'process' | 'pid' | 'type' | 'unit'>): Track {
        const key = seriesKey(s);
        let t = this.tracks.get(key);
        if (!t) {
            t = new Track(key, s.name, s.labels, s.process, s.pid, s.type, s.unit, this.grid);
            this.tracks.set(key, t);
            for (const u of this.users) u.found = null;
        }
        for (const [n, stats] of this.wanted) {
            if (selects({ names: [n] }, t)) for (const stat of stats) t.want(stat);
        }
        return t;
    }

    // Series of programs that have ended leave when their last point does.
    private forget(): void {
        let gone = false;
        for (const [key, t] of this.tracks) {
            if (!t.empty()) continue;
            t.end();
            this.tracks.delete(key);
            gone = true;
        }
        if (gone) for (const u of this.users) u.found = null;
    }

    private follow(): void {
        const names = [...this.wanted.keys()].sort();
        if (this.stream && names.join('|') === this.streamNames) return;
        this.streamNames = names.join('|');
        this.stream?.close();
        // No names would be all series: nothing could be loaded yet, and only the connection matters.
        this.stream = live(this.api, { names, step: this.step, events: [names.length ? 'points' : 'processes'] }, {
            points: (e) => this.append(e),
            gap: (from, to) => void this.fill(from, to),
            state: (s) => {
                const back = s.status === 'live' && this.liveState?.status !== 'live';
                this.liveState = s;
                // The agent is there again: what could not be loaded without it can be now.
                if (back && [...this.users].some((u) => u.error)) this.retry();
            },
        });
    }

    private append(e: PointsEvent): void {
        if (e.step_s !== this.step) return;
        if (this.newest && e.time > this.newest + this.step * 1.5) void this.fill(this.newest, e.time);
        const moved = this.grid.advance(e.time);
        for (const s of e.series) this.track(s).put(s.point);
        if (e.time > this.newest) this.newest = e.time;
        if (moved && Math.round(e.time / this.step) % 30 === 0) this.forget();
        this.tell();
    }

    // Steps that were missed: a pause, a hidden tab, or between history and the first event.
    private async fill(from: number, to: number): Promise<void> {
        if (this.filling) return;
        this.filling = true;
        try {
            await this.fetch([...this.wanted.keys()], Math.max(from, this.grid.begin), to);
            this.tell();
        } catch { /* the gap stays, and is seen as one */ } finally {
            this.filling = false;
        }
    }

    private async loadEvents(): Promise<void> {
        if (document.hidden && this.isLive) {
            this.eventsTimer = window.setTimeout(() => void this.loadEvents(), EVENTS_EVERY_MS);
            return;
        }
        if (!isFrozen() && !await can(this.api, '/api/events')) return;
        const { from, to } = this.window();
        try {
            const answer = await this.api.get<Events>('/api/events', {
                from: round(from), to: this.isLive ? null : round(to), limit: 500,
            }, this.abort.signal);
            this.events = answer.events;
            this.tell();
        } catch (e) {
            if (e instanceof ApiError && e.status === 404) return; // an agent without events
            if (aborted(e)) return;
        }
        if (this.isLive) this.eventsTimer = window.setTimeout(() => void this.loadEvents(), EVENTS_EVERY_MS);
    }

    private tell(): void {
        for (const u of [...this.users]) u.changed();
    }
}

function round(t: number): number {
    return Math.round(t * 1000) / 1000;
}

const boards = new Map<string, Board>();

// The board of that agent and range. Whoever uses it closes the handle; the last one ends it.
export function boardOf(api: Api, range: string): Board {
    const key = `${api.base} ${range}`;
    let b = boards.get(key);
    if (!b) {
        b = new Board(api, range, () => boards.delete(key));
        boards.set(key, b);
    }
    return b;
}
