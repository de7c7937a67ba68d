// History: any series over any time that is kept, from seconds to weeks, with what happened in it.
// In the address: the range, base (a second range), series (which charts).

import { ApiError, aborted, apiAt, sentence } from '../core/api';
import { button, clear, keepFocus, make } from '../core/dom';
import { clock, count, span } from '../core/format';
import { isFrozen } from '../core/frozen';
import { now } from '../core/now';
import { Page } from '../core/page';
import { adopt } from '../core/sheet';
import { state } from '../core/state';
import { empty, failed, loading } from '../core/states';
import { AgentEvent, Events, Findings, Run, Runs, SeriesAnswer, StoredProfiles } from '../core/types';
import '../elements/timeseries';
import css from '../styles/history-page.css';
import { around, endsNow, eventsFrom, extentOf, Span } from './history/model';
import { Strip } from './history/strip';
import { ChartSpec, Following, List, card, chart, follow } from './kit';

const CHARTS: readonly { id: string; spec: ChartSpec }[] = [
    { id: 'ttft', spec: { heading: 'Time to first token', name: 'gen_ai_server_time_to_first_token_seconds', stat: 'p50 p95 p99', metric: 'ttft' } },
    { id: 'itl', spec: { heading: 'Time between tokens', name: 'sonde_infer_inter_token_seconds', stat: 'p50 p95 p99', metric: 'itl' } },
    { id: 'tokens', spec: { heading: 'Tokens per second', name: 'sonde_infer_tokens_per_second', group: 'type', unit: 'tokens/s' } },
    { id: 'requests', spec: { heading: 'Requests ended', name: 'sonde_infer_requests_total', group: 'outcome', stack: true, unit: '/s', metric: 'requests_rate' } },
    { id: 'load', spec: { heading: 'Running and waiting', name: 'sonde_infer_requests_running sonde_infer_requests_waiting', stack: true, whole: true, unit: '' } },
    { id: 'cpu', spec: { heading: 'CPU by process', name: 'sonde_process_cpu_utilization_ratio', group: 'process', unit: 'cores', metric: 'cpu' } },
    { id: 'rss', spec: { heading: 'Resident memory', name: 'sonde_process_resident_memory_bytes', group: 'process', unit: 'bytes', zero: 'no', metric: 'rss' } },
];
const FIRST = ['ttft', 'tokens', 'requests', 'cpu', 'rss'];
const KINDS: Record<AgentEvent['kind'], string> = { start: 'Start', end: 'End', load: 'Model load', session: 'Session', finding: 'Finding', mark: 'Mark' };
const EVERY_MS = 5000;
const EVENTS = 1000;

const round = (t: number) => String(Math.round(t * 1000) / 1000);
const eventKey = (e: AgentEvent) => `${e.kind} ${e.id} ${e.time} ${e.text}`;
const rangeText = (s: Span) => `${round(s.from)}..${round(s.to)}`;

class HistoryPage {
    private readonly api = apiAt('');
    private readonly abort = new AbortController();
    private readonly strip = new Strip((s) => this.go(s));
    private readonly stateBox = make('div');
    private readonly picks = make('div', { class: 'picks', role: 'group', 'aria-label': 'Charts' });
    private readonly charts = make('div', { class: 'grid' });
    private readonly eventList: List<AgentEvent>;
    private readonly eventNote = make('p', { class: 'soft' });
    private readonly runList: List<Run>;
    private readonly sessionList: List<AgentEvent>;
    private readonly markText = make('input', { placeholder: 'deploy 42', 'aria-label': 'Text of the mark', maxlength: 200 });
    private readonly problem = make('span', { class: 'problem', role: 'alert' });
    private runs: readonly Run[] = [];
    private events: readonly AgentEvent[] = [];
    private listed = true;    // the agent has a list of events
    private timer = 0;
    private following: Following | null = null;
    private shownCharts = '';

    constructor(root: HTMLElement) {
        adopt(css);
        this.eventList = new List<AgentEvent>('What happened', eventKey, [
            { title: 'When', cell: (e) => clock(e.time) },
            { title: 'Kind', cell: (e) => make('span', { class: `kind ${e.kind === 'mark' ? 'mark-kind' : e.kind}` }, make('i'), KINDS[e.kind]) },
            { title: 'What', cell: (e) => make('span', { dir: 'auto' }, e.text) },
            { title: '', cell: (e) => this.eventActions(e) },
        ]);
        this.runList = new List<Run>('Runs', (r) => String(r.id), [
            { title: 'Run', cell: (r) => make('span', { dir: 'auto' }, r.name || `run ${r.id}`) },
            { title: 'Started', cell: (r) => clock(r.start, true) },
            { title: 'Length', number: true, cell: (r) => r.live ? `${span(r.end - r.start)}, goes on` : span(r.end - r.start) },
            { title: 'Requests', number: true, cell: (r) => count(r.requests) },
            { title: 'Findings', number: true, cell: (r) => count(r.findings) },
            { title: '', cell: (r) => this.rangeActions({ from: r.start, to: r.end }) },
        ]);
        this.sessionList = new List<AgentEvent>('Named sessions', eventKey, [
            { title: 'Session', cell: (e) => make('span', { dir: 'auto' }, e.text) },
            { title: 'Started', cell: (e) => clock(e.time, true) },
            { title: 'Length', number: true, cell: (e) => span((e.end ?? e.time) - e.time) },
            { title: '', cell: (e) => this.rangeActions({ from: e.time, to: e.end ?? e.time }) },
        ]);
        root.append(make('div', { class: 'stack history' }, this.stripCard(), this.picks, this.charts, this.eventsCard(),
            make('div', { class: 'lists' }, card('Runs', {}, this.runList.element), card('Named sessions', { hidden: true, 'data-sessions': true }, this.sessionList.element))));
        this.following = follow(root);
        clear(this.stateBox, loading('Loading what is kept'));
        void this.loadNames();
        void this.load();
    }

    end(): void {
        this.abort.abort();
        window.clearTimeout(this.timer);
        this.strip.end();
        this.following?.end();
    }

    // ---- building -------------------------------------------------------------------------------

    private stripCard(): HTMLElement {
        const all = button('All', 'Everything that is kept', () => this.go(extentOf(this.runs, now())));
        return make('section', { class: 'card', 'aria-label': 'All that is kept' },
            make('header', {}, make('h2', {}, 'All that is kept'),
                make('span', { class: 'soft' }, 'Drag the window or its edges; drag beside it for another part.'), make('span', { class: 'tools' }, all)),
            this.stateBox, this.strip.element);
    }

    private eventsCard(): HTMLElement {
        const form = make('form', { class: 'mark' }, this.markText, make('button', { type: 'submit', title: 'Mark this moment in all charts' }, 'Mark now'), this.problem);
        form.addEventListener('submit', (e) => {
            e.preventDefault();
            void this.mark();
        });
        form.hidden = isFrozen();
        const box = card('What happened in this range', {}, form, this.eventNote, this.eventList.element);
        this.eventList.element.classList.add('events');
        return box;
    }

    private rangeActions(s: Span): HTMLElement {
        const base = state.get('base') === rangeText(s);
        return make('span', { class: 'acts' },
            button('Show', 'Make it the time range', () => this.go(s)),
            button(base ? 'Second ✓' : 'Second range', 'Compare with it: choose another range as well', () => state.set({ base: base ? null : rangeText(s) }), { 'aria-pressed': String(base) }));
    }

    private eventActions(e: AgentEvent): HTMLElement {
        return make('span', { class: 'acts' },
            button('Show', 'The time around it', () => this.go(around(e))),
            e.kind === 'mark' && e.id !== null && !isFrozen() ? button('Delete', 'Delete this mark', () => { void this.unmark(e.id!); }) : null);
    }

    // ---- data -----------------------------------------------------------------------------------

    private async load(): Promise<void> {
        const { signal } = this.abort;
        try {
            const answer = await this.api.get<Runs>('/api/runs', {}, signal);
            this.runs = answer.runs;
        } catch (e: unknown) {
            if (signal.aborted || aborted(e)) return;
            // A file that was saved may have none; the charts show what there is.
            if (e instanceof ApiError && (e.status === 404 || e.status === 409 || e.status === 503)) this.runs = [];
            else if (!this.runs.length) {
                clear(this.stateBox, failed(e, () => { void this.load(); }));
                return;
            }
        }
        await this.loadEvents(signal);
        if (signal.aborted) return;
        this.show();
        if (!isFrozen()) this.timer = window.setTimeout(() => { void this.load(); }, EVERY_MS);
    }

    private async loadEvents(signal: AbortSignal): Promise<void> {
        const extent = extentOf(this.runs, now());
        const bounds = { from: round(extent.from), limit: EVENTS };
        if (this.listed) {
            try {
                this.events = (await this.api.get<Events>('/api/events', bounds, signal)).events;
                return;
            } catch (e: unknown) {
                if (signal.aborted || aborted(e)) return;
                if (!(e instanceof ApiError) || e.status !== 404) return;
                this.listed = false;
            }
        }
        const [findings, profiles] = await Promise.all([
            this.api.get<Findings>('/api/findings', bounds, signal).then((a) => a.findings, () => []),
            this.api.get<StoredProfiles>('/admin/profiles', { kind: 'session', limit: EVENTS }, signal).then((a) => a.profiles, () => []),
        ]);
        this.events = eventsFrom(this.runs, findings, profiles, extent);
    }

    private async loadNames(): Promise<void> {
        const list = make('datalist', { id: 'history-series' });
        const input = make('input', { list: 'history-series', placeholder: 'Another series', 'aria-label': 'Add a chart of a series', spellcheck: 'false', autocomplete: 'off' });
        const add = () => {
            const name = input.value.trim();
            if (!/^[A-Za-z_:][\w:*?]*$/.test(name)) return;
            input.value = '';
            this.setCharts([...this.chosen().filter((c) => c !== name), name]);
        };
        input.addEventListener('change', add);
        this.picks.after(list);
        this.adder = input;
        this.showCharts();
        try {
            const answer = await this.api.get<SeriesAnswer>('/api/series', {}, this.abort.signal);
            for (const f of answer.families) list.append(make('option', { value: f.name }, f.help));
        } catch { /* names can still be typed */ }
    }

    private adder: HTMLElement | null = null;

    private async mark(): Promise<void> {
        const text = this.markText.value.trim();
        if (!text) {
            this.markText.focus();
            return;
        }
        this.problem.textContent = '';
        try {
            await this.api.post('/api/marks', { text });
            this.markText.value = '';
            await this.loadEvents(this.abort.signal);
            this.show();
        } catch (e: unknown) {
            this.problem.textContent = e instanceof ApiError && e.status === 404 ? 'This agent cannot keep marks.' : sentence(e);
        }
    }

    private async unmark(id: string | number): Promise<void> {
        try {
            await this.api.del(`/api/marks/${encodeURIComponent(String(id))}`);
            await this.loadEvents(this.abort.signal);
            this.show();
        } catch (e: unknown) {
            this.problem.textContent = sentence(e);
        }
    }

    // ---- what is shown --------------------------------------------------------------------------

    go(s: Span): void {
        const extent = extentOf(this.runs, now());
        if (!isFrozen() && endsNow(s, extent)) state.setRange({ seconds: Math.round(s.to - s.from) });
        else state.setRange(s);
    }

    private chosen(): string[] {
        const text = state.get('series');
        return text === null ? FIRST : text.split(' ').filter(Boolean);
    }

    private setCharts(ids: string[]): void {
        const same = ids.length === FIRST.length && ids.every((id, i) => id === FIRST[i]);
        state.set({ series: same ? null : ids.join(' ') || ' ' });
    }

    showCharts(): void {
        const chosen = this.chosen();
        const named = chosen.filter((id) => !CHARTS.some((c) => c.id === id));
        const pick = (id: string, title: string) => {
            const on = chosen.includes(id);
            return button(title, on ? 'Hide this chart' : 'Show this chart', () =>
                this.setCharts(on ? chosen.filter((c) => c !== id) : [...CHARTS.map((c) => c.id), ...named].filter((c) => c === id || chosen.includes(c))), { 'aria-pressed': String(on) });
        };
        keepFocus(this.picks, () => clear(this.picks, ...CHARTS.map((c) => pick(c.id, c.spec.heading)), ...named.map((n) => pick(n, n)), this.adder));
        const key = chosen.join(' ');
        if (key === this.shownCharts) return;
        this.shownCharts = key;
        const charts = chosen.map((id) => {
            const known = CHARTS.find((c) => c.id === id);
            if (!known) return chart({ heading: id, name: id, each: true, empty: 'No series of that name was recorded in this range.' });
            return chart(known.spec);
        });
        clear(this.charts, ...charts);
        if (!charts.length) this.charts.append(empty('No chart is chosen', 'Choose some above.'));
        this.following?.apply(this.charts);
    }

    show(): void {
        const range = state.range();
        const extent = extentOf(this.runs, now());
        const whole = { from: Math.min(extent.from, range.from), to: extent.to };
        clear(this.stateBox);
        this.strip.show(whole, { from: range.from, to: Math.min(range.to, whole.to) }, this.runs, this.events);
        const inside = this.events.filter((e) => e.time <= range.to && (e.end ?? e.time) >= range.from);
        this.eventList.element.hidden = inside.length === 0;
        this.eventNote.hidden = inside.length > 0;
        this.eventNote.textContent = 'Nothing: no start, model load, session, finding or mark in this range.';
        this.eventList.show(inside);
        this.runList.show([...this.runs].sort((a, b) => b.start - a.start));
        const sessions = this.events.filter((e) => e.kind === 'session');
        this.sessionList.show(sessions);
        const box = this.sessionList.element.closest<HTMLElement>('[data-sessions]');
        if (box) box.hidden = sessions.length === 0;
    }
}

export const page: Page = {
    id: 'history',
    title: 'History',
    icon: 'M4 12a8 8 0 1 0 2.500-5.800L4 8.500M4 4v4.500h4.500M12 8v4.500l3 2',
    keys: [
        { keys: 'ArrowLeft | ArrowRight', text: 'On the strip: move in time; Page up and down move further' },
        { keys: '+ | -', text: 'On the strip: zoom' },
    ],
    render(root) {
        const p = new HistoryPage(root);
        const offs = [state.on(['range', 'base'], () => p.show()), state.on(['series'], () => p.showCharts())];
        return () => {
            for (const off of offs) off();
            p.end();
        };
    },
};
