// Where CPU time goes: the use of CPUs over time, and the flame graph of what is selected there.

import { apiAt, sentence } from '../core/api';
import { button, clear, keepFocus, make } from '../core/dom';
import { bytes, count, percent, seconds, since } from '../core/format';
import { isFrozen, mayHave } from '../core/frozen';
import { now } from '../core/now';
import { Page } from '../core/page';
import { state } from '../core/state';
import { tip } from '../core/tip';
import { Continuous, SeriesAnswer } from '../core/types';
import { isViewing } from '../core/viewing';
import { FLAME_KEYS } from '../elements/flamegraph/state';
import { CostLine } from './cost_line';
import { FlamePanel, choice, chips, exporter, typed } from './flame_panel';
import { chart, follow } from './kit';

const STATE_MS = 15000;

/** Whether programs are sampled all the time, what it costs, and the switch. */
export class ContinuousBar {
    readonly element = make('div', { class: 'banner', role: 'status' });
    private readonly timer: ReturnType<typeof setInterval>;

    constructor(private readonly changed: () => void) {
        this.timer = setInterval(() => void this.load(), STATE_MS);
        void this.load();
    }

    private async load(): Promise<void> {
        if (document.hidden) return;
        try {
            this.show(await apiAt('').get<Continuous>('/admin/profile/continuous'));
        } catch (e) {
            clear(this.element, make('i'), make('span', {}, `Whether programs are sampled is not known: ${sentence(e)}`));
        }
    }

    private async turn(on: boolean): Promise<void> {
        try {
            this.show(await apiAt('').post<Continuous>('/admin/profile/continuous', { enabled: on }));
            this.changed();
        } catch (e) {
            clear(this.element, make('i'), make('span', {}, sentence(e)));
        }
    }

    private show(c: Continuous): void {
        const on = c.enabled && c.cpu.active;
        this.element.dataset['status'] = on ? 'ok' : 'degraded';
        const why = c.problem ?? c.cpu.reason;
        const what = on
            ? `${c.cpu.processes === 1 ? 'One process is' : `${count(c.cpu.processes)} processes are`} sampled ${count(c.cpu.rate_hz || c.rate_hz)} times per second of CPU time.`
            : c.enabled ? `On, but nothing is sampled${why ? `: ${why}` : '.'}`
                : 'Off: only sessions and profiles on demand have samples.';
        const facts = make('span', { class: 'facts', tabindex: '0' },
            c.history.from !== null ? `kept since ${since(c.history.from, now()).replace(' ago', '')}, ${bytes(c.history.bytes)}` : 'nothing kept yet',
            c.overhead.agent_cpu_ratio !== null ? ` · costs ${percent(c.overhead.agent_cpu_ratio)} of a core` : '');
        tip(facts, () => [make('p', {}, `${count(c.history.samples)} samples in the ${c.history.kept_in}. The agent's threads that sample, name and write use `
            + `${percent(c.overhead.agent_cpu_ratio)} of a core; taking samples slows what is sampled by ${percent(c.overhead.target_cpu_ratio)} `
            + `(${seconds(c.overhead.sample_cost_seconds)} each, measured).`)]);
        keepFocus(this.element, () => clear(this.element, make('i'), make('b', {}, 'Continuous profiling'), make('span', {}, what),
            c.enabled && !on ? make('code', {}, 'sonde doctor') : null, facts,
            isFrozen() ? null : button(c.enabled ? 'Turn off' : 'Turn on', '', () => void this.turn(!c.enabled), { class: c.enabled ? null : 'primary' })));
    }

    end(): void {
        clearInterval(this.timer);
    }
}

const PHASES = ['queue', 'encode', 'prefill', 'decode', 'sample', 'detokenize'];

function threadNames(): HTMLDataListElement {
    const list = make('datalist', { id: 'cpu-threads' });
    apiAt('').get<SeriesAnswer>('/api/series', { name: 'sonde_thread_cpu_seconds_total' }).then((a) => {
        const names = new Set(a.families.flatMap((f) => f.series.map((s) => s.labels['name'])).filter(Boolean));
        list.append(...[...names].sort().map((n) => make('option', { value: n })));
    }, () => { /* suggestions are a convenience */ });
    return list;
}

function compareButtons(ends: (() => void)[]): HTMLElement {
    const before = button('With before', 'Compare with the same time just before', () => {
        const r = state.range();
        const base = `${Math.round((r.from - r.seconds) * 1000) / 1000}..${Math.round(r.from * 1000) / 1000}`;
        if (state.get('base')) state.set({ base: null });
        else state.set({ base, ...(r.live ? { from: String(Math.round(r.from * 1000) / 1000), to: String(Math.round(r.to * 1000) / 1000), range: null } : {}) });
    });
    const rest = button('With the rest', 'Compare the chosen requests with all others of the same time', () =>
        state.set({ base: state.get('base') === 'rest' ? null : 'rest' }));
    const show = () => {
        const base = state.get('base');
        const chosen = ['request', 'slowest', 'cells'].some((k) => state.get(k));
        before.hidden = isViewing();
        before.setAttribute('aria-pressed', String(base !== null && base !== 'rest'));
        rest.setAttribute('aria-pressed', String(base === 'rest'));
        rest.disabled = !chosen && base !== 'rest';
        rest.title = rest.disabled ? 'Choose requests first: a request, the slowest, or cells of the heat map'
            : 'Compare the chosen requests with all others of the same time';
    };
    ends.push(state.on(['base', 'request', 'slowest', 'cells'], show));
    show();
    return make('div', { class: 'field', role: 'group', 'aria-label': 'Compare' }, make('span', {}, 'Compare'),
        make('span', { class: 'pair' }, before, rest));
}

export const page: Page = {
    id: 'cpu',
    title: 'CPU',
    icon: 'M12 21c4 0 6.5-2.6 6.5-6.2 0-3.4-2-5.3-3.4-7-.9 1.6-1.6 2-2.4 2.3C12.9 7 11.500 4.600 9.500 3c.2 3-4 6.300-4 11 0 4 2.700 7 6.500 7z',
    keys: FLAME_KEYS,
    render(root) {
        const ends: (() => void)[] = [];
        const panel = new FlamePanel(() => ({}));
        const continuous = isViewing() ? null : new ContinuousBar(() => panel.graph.refresh());
        const cost = isViewing() ? null : new CostLine();
        const strip = isViewing() ? null : make('div', {},
            chart({ heading: 'CPU by process', name: 'sonde_process_cpu_utilization_ratio', group: 'process', unit: 'cores', stack: true,
                metric: 'cpu', height: 96, empty: 'Nothing is watched that uses the CPU.' }),
            make('p', { class: 'hint' }, 'Drag to see the flame graph of a time; with Shift, drag a second time to compare with.'));
        if (strip) strip.hidden = !mayHave('/api/query');
        if (continuous) continuous.element.hidden = !mayHave('/admin/profile/continuous');
        const filters = make('section', { class: 'card fields', 'aria-label': 'Filters' },
            choice('phase', 'Phase', [{ value: '', text: 'All' }, ...PHASES.map((p) => ({ value: p, text: p }))], ends),
            choice('slowest', 'Requests', [{ value: '', text: 'All samples' }, { value: '1%', text: 'Slowest 1 %' },
                { value: '5%', text: 'Slowest 5 %' }, { value: '10', text: 'Slowest 10' }], ends),
            typed('thread', 'Thread', 'name or id', threadNames(), ends),
            compareButtons(ends),
            make('div', { class: 'field right' }, exporter(() => {
                const r = state.range();
                const session = state.get('profile');
                const type = state.get('type');
                return session ? { path: `/admin/profiles/${encodeURIComponent(session)}`, params: { type }, name: session }
                    : { path: '/api/profile', params: { from: r.from, to: r.to, process: state.get('process'), pid: state.get('pid'), type }, name: type ?? 'cpu' };
            })),
            chips(ends));
        root.append(make('div', { class: 'stack' }, continuous?.element ?? null, cost?.element ?? null, strip, filters, panel.element));
        const follows = follow(root);
        return () => {
            follows.end();
            panel.end();
            continuous?.end();
            cost?.end();
            for (const f of ends) f();
        };
    },
};
