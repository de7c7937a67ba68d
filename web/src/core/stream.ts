// Live data: server-sent events over fetch, so that a token and Last-Event-ID can be sent.
//
// All who subscribe share one connection for each step: it asks for the union of what they want and
// is opened anew when that changes. While a tab is hidden for long the connection is closed; what was
// missed is reported as a gap, and subscribers ask /api/query for it.
//
// Steps of more than a minute are not streamed: they are polled here, behind the same calls.

import { can } from './abilities';
import { Api, ApiError, send, sentence } from './api';
import { isFrozen } from './frozen';
import { noteTime, now } from './now';
import { queryString } from './params';
import { EventParser, ServerEvent } from './sse';
import { Inference, PointsEvent, PointsSeries, Processes, QueryAnswer, StoreState } from './types';

export interface Subscription { close(): void }
export type EventName = 'points' | 'inference' | 'processes' | 'store' | 'series';

export interface LiveState {
    status: 'live' | 'connecting' | 'stale' | 'paused' | 'frozen';
    lastTime: number; // of the newest reading, 0 = none yet
    error?: string;
}
export interface Want { names?: string[]; step?: number; events?: EventName[] }
export interface Handlers {
    points?(e: PointsEvent): void;
    inference?(e: Inference): void;
    processes?(e: Processes): void;
    store?(e: StoreState): void;
    series?(e: QueryAnswer): void;
    state?(s: LiveState): void;
    gap?(from: number, to: number): void;
}

export const STREAM_STEPS = [1, 2, 5, 10, 15, 30, 60];
const BACKOFF_MIN_MS = 500;
const BACKOFF_MAX_MS = 15000;
const HIDDEN_MS = 30000; // a tab hidden for longer gives its connection back
const SETTLE_MS = 50;    // subscriptions of one page come together

// ---- one connection -----------------------------------------------------------------------------

interface Entry { want: Required<Want>; on: Handlers }

class Channel {
    private readonly entries = new Set<Entry>();
    private asked = '';           // the query of the open connection
    private abort: AbortController | null = null;
    private lastId: string | null = null;
    private lastTime = 0;         // of a reading, by the agent's clock
    private lastHeard = 0;        // of anything, by the browser's, ms
    private failures = 0;
    private timer = 0;            // settle, or retry
    private watch = 0;
    private hidden = 0;
    private status: LiveState['status'] = 'connecting';
    private error: string | undefined;
    private readonly seen: () => void;

    constructor(private readonly api: Api, private readonly step: number, private readonly ended: () => void) {
        this.seen = () => this.visibility();
        document.addEventListener('visibilitychange', this.seen);
        this.watch = window.setInterval(() => this.look(), 1000);
    }

    add(entry: Entry): void {
        this.entries.add(entry);
        if (this.lastTime) entry.on.state?.(this.state());
        this.settle();
    }

    remove(entry: Entry): void {
        this.entries.delete(entry);
        if (!this.entries.size) {
            this.close();
            document.removeEventListener('visibilitychange', this.seen);
            window.clearInterval(this.watch);
            window.clearTimeout(this.timer);
            window.clearTimeout(this.hidden);
            this.ended();
            return;
        }
        this.settle();
    }

    // Somebody other than these is on it.
    busy(floats: ReadonlyMap<Entry, unknown>): boolean {
        return [...this.entries].some((e) => !floats.has(e));
    }

    private state(): LiveState {
        return { status: this.status, lastTime: this.lastTime, error: this.error };
    }

    private setState(status: LiveState['status'], error?: string): void {
        if (status === this.status && error === this.error) return;
        this.status = status;
        this.error = error;
        for (const e of [...this.entries]) e.on.state?.(this.state());
    }

    private events(): EventName[] {
        const all = new Set<EventName>();
        for (const e of this.entries) for (const name of e.want.events) all.add(name);
        return [...all].sort();
    }

    private names(): string[] {
        const all = new Set<string>();
        for (const e of this.entries) for (const name of e.want.names) all.add(name);
        return [...all].sort();
    }

    private query(): string {
        const events = this.events();
        const streamed = events.filter((e) => e !== 'points' || this.streams());
        const points = streamed.includes('points');
        return queryString({
            events: streamed.join(','),
            step: points ? this.step : null,
            name: points || streamed.includes('series') ? this.names().join('|') : null,
        });
    }

    private streams(): boolean {
        return STREAM_STEPS.includes(this.step) && !pollOnly.has(this.api.base);
    }

    // Wait until all of a page have said what they want.
    private settle(): void {
        window.clearTimeout(this.timer);
        this.timer = window.setTimeout(() => {
            if (this.status === 'paused') return;
            const query = this.query();
            if (query === this.asked && this.abort) return;
            this.open(query);
        }, SETTLE_MS);
    }

    private close(): void {
        this.abort?.abort();
        this.abort = null;
    }

    private open(query: string): void {
        this.close();
        // Another question is another stream: its ids mean nothing there.
        if (query !== this.asked) this.lastId = null;
        this.asked = query;
        const abort = new AbortController();
        this.abort = abort;
        const wantsPoints = this.events().includes('points');
        if (wantsPoints && !this.streams()) void this.poll(abort);
        if (new URLSearchParams(query).get('events')) void this.read(query, abort);
    }

    private async read(query: string, abort: AbortController): Promise<void> {
        const from = this.lastTime;
        let resumed = false;
        try {
            if (query.includes('points') && !await can(this.api, '/api/stream', 'points')) {
                // An agent that does not stream points: ask for them instead.
                pollOnly.add(this.api.base);
                if (!abort.signal.aborted) this.open(this.query());
                return;
            }
            const headers: Record<string, string> = { Accept: 'text/event-stream' };
            if (this.lastId !== null) {
                headers['Last-Event-ID'] = this.lastId;
                resumed = true;
            }
            const answer = await send(this.api.base, `/api/stream${query}`, { headers, signal: abort.signal });
            if (!answer.ok || !answer.body) {
                const said = await answer.json().catch(() => null) as { error?: string } | null;
                throw new ApiError(answer.status, said?.error ?? `the agent answered with status ${answer.status}`);
            }
            let begun = false;
            const parser = new EventParser((e) => {
                if (!begun) {
                    begun = true;
                    this.failures = 0;
                    if (!resumed && from > 0) this.gap(from, now());
                }
                this.take(e);
            });
            const reader = answer.body.getReader();
            const decoder = new TextDecoder();
            for (;;) {
                const { done, value } = await reader.read();
                if (done) break;
                this.lastHeard = Date.now();
                parser.feed(decoder.decode(value, { stream: true }));
            }
            throw new Error('the agent closed the live stream');
        } catch (e) {
            if (abort.signal.aborted) return;
            this.failed(e instanceof ApiError || e instanceof Error && e.message.startsWith('the agent')
                ? sentence(e) : 'the agent cannot be reached');
        }
    }

    private failed(error: string): void {
        this.close();
        this.failures++;
        const wait = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** (this.failures - 1));
        this.setState(this.lastTime ? 'stale' : 'connecting', error);
        window.clearTimeout(this.timer);
        // Not all tabs at the same instant.
        this.timer = window.setTimeout(() => {
            if (this.status !== 'paused') this.open(this.query());
        }, wait * (0.75 + Math.random() / 2));
    }

    // The agent was restarted, or is slow, and says nothing: the connection may look alive.
    private look(): void {
        if (this.status !== 'live') return;
        const quiet = (Date.now() - this.lastHeard) / 1000;
        if (quiet > 12) {
            this.failed('nothing was heard from the agent');
            return;
        }
        const behind = now() - this.lastTime;
        if (behind > this.step * 2 + 5) this.setState('stale', 'the agent sends no readings');
    }

    private heard(time: number): void {
        noteTime(time);
        this.lastTime = Math.max(this.lastTime, time);
        this.lastHeard = Date.now();
        if (this.status === 'live') {
            // Whoever shows how old data is wants every reading.
            for (const e of [...this.entries]) e.on.state?.(this.state());
        }
        this.setState('live');
    }

    private take(e: ServerEvent): void {
        if (e.id !== null) this.lastId = e.id;
        if (!e.data) return;
        let body: unknown;
        try {
            body = JSON.parse(e.data);
        } catch {
            return; // cut by a proxy; the next one is whole
        }
        switch (e.event) {
            case 'points': this.spread('points', body as PointsEvent); break;
            case 'inference': this.spread('inference', body as Inference); break;
            case 'processes': this.spread('processes', body as Processes); break;
            case 'series': this.spread('series', body as QueryAnswer); break;
            case 'store': for (const s of [...this.entries]) s.on.store?.(body as StoreState); break;
            case 'gap': {
                const g = body as { from?: number; to?: number };
                this.gap(g.from ?? this.lastTime, g.to ?? now());
                break;
            }
            default: break;
        }
    }

    private spread(name: 'points' | 'inference' | 'processes' | 'series', body: { time: number }): void {
        const time = name === 'points' ? body.time + (body as PointsEvent).step_s : body.time;
        for (const e of [...this.entries]) {
            if (!e.want.events.includes(name)) continue;
            if (name === 'points') e.on.points?.(body as PointsEvent);
            else if (name === 'inference') e.on.inference?.(body as Inference);
            else if (name === 'processes') e.on.processes?.(body as Processes);
            else e.on.series?.(body as QueryAnswer);
        }
        this.heard(time);
    }

    private gap(from: number, to: number): void {
        if (to - from < this.step) return;
        for (const e of [...this.entries]) e.on.gap?.(from, to);
    }

    private visibility(): void {
        window.clearTimeout(this.hidden);
        if (document.hidden) {
            this.hidden = window.setTimeout(() => {
                this.close();
                this.setState('paused');
            }, HIDDEN_MS);
        } else if (this.status === 'paused') {
            this.setState('connecting');
            this.open(this.query());
        }
    }

    // Steps that end while nobody streams them. A step is asked for once it must have ended and the
    // reading after it is in.
    private async poll(abort: AbortController): Promise<void> {
        let next = Math.floor(now() / this.step) * this.step;
        while (!abort.signal.aborted) {
            const wait = Math.max(0.2, next + this.step + 1.2 - now());
            await new Promise((go) => window.setTimeout(go, wait * 1000));
            if (abort.signal.aborted) return;
            try {
                const answer = await this.api.get<QueryAnswer>('/api/query', {
                    name: this.names().join('|'), from: next, to: next + this.step, step: this.step, limit: 2000,
                }, abort.signal);
                const series: PointsSeries[] = [];
                const time = next;
                for (const s of answer.series) {
                    const point = s.points?.find((p) => p.time === time);
                    if (point) {
                        series.push({
                            name: s.name, labels: s.labels, process: s.process, pid: s.pid, type: s.type, unit: s.unit, point,
                        });
                    }
                }
                this.spread('points', { time: next, step_s: this.step, series } as PointsEvent);
                this.failures = 0;
            } catch (e) {
                if (abort.signal.aborted) return;
                this.failed(sentence(e));
                return;
            }
            const late = Math.floor(now() / this.step) * this.step - this.step;
            if (late > next + this.step) this.gap(next + this.step, late);
            next = Math.max(next + this.step, late);
        }
    }
}

const pollOnly = new Set<string>(); // agents that know no event `points`

// All connections to one agent. Who wants no points rides on a connection that is there for others.
class Hub {
    private readonly channels = new Map<number, Channel>();
    private readonly floats = new Map<Entry, Channel>();

    constructor(private readonly api: Api) {}

    add(entry: Entry): void {
        if (entry.want.events.includes('points')) this.channel(entry.want.step).add(entry);
        else this.floats.set(entry, this.ride(entry));
        this.place();
    }

    remove(entry: Entry): void {
        const channel = this.floats.get(entry) ?? this.channels.get(entry.want.step);
        this.floats.delete(entry);
        channel?.remove(entry);
        this.place();
    }

    private channel(step: number): Channel {
        let c = this.channels.get(step);
        if (!c) {
            c = new Channel(this.api, step, () => this.channels.delete(step));
            this.channels.set(step, c);
        }
        return c;
    }

    private best(): Channel {
        const steps = [...this.channels.keys()].filter((s) => s > 0).sort((a, b) => a - b);
        return this.channel(steps[0] ?? 0);
    }

    private ride(entry: Entry): Channel {
        const c = this.best();
        c.add(entry);
        return c;
    }

    // A page was left or opened: the connection that floats ride on may be another one now.
    private place(): void {
        if (!this.floats.size) return;
        const busy = [...this.channels].find(([step, c]) => step > 0 && c.busy(this.floats))?.[1];
        const to = busy ?? this.channel(0);
        for (const [entry, from] of [...this.floats]) {
            if (from === to) continue;
            this.floats.set(entry, to);
            to.add(entry);
            from.remove(entry);
        }
    }
}

const hubs = new Map<string, Hub>();

export function live(api: Api, want: Want, on: Handlers): Subscription {
    if (isFrozen()) {
        on.state?.({ status: 'frozen', lastTime: now() });
        return { close() {} };
    }
    const entry: Entry = {
        want: { names: want.names ?? [], step: want.step ?? 1, events: want.events ?? ['points'] }, on,
    };
    let hub = hubs.get(api.base);
    if (!hub) hubs.set(api.base, hub = new Hub(api));
    const used = hub;
    used.add(entry);
    let open = true;
    return {
        close() {
            if (!open) return;
            open = false;
            used.remove(entry);
        },
    };
}
