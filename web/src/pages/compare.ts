// Two of anything beside each other: times, sessions, slow requests and the rest. What has changed and
// whether that is noise, the differential flame graph, and the sessions that can be compared.

import { aborted, apiAt, sentence } from '../core/api';
import { button, clear, keepFocus, make } from '../core/dom';
import { bytes, clock, count, inUnit, percent, span } from '../core/format';
import { isFrozen } from '../core/frozen';
import { Page } from '../core/page';
import { empty, failed, loading } from '../core/states';
import { state } from '../core/state';
import { Session, SessionStatus, StoredProfile, StoredProfiles } from '../core/types';
import { FLAME_KEYS } from '../elements/flamegraph/state';
import { FlamePanel, choice, chips, rangeOf } from './flame_panel';
import { List, card } from './kit';

const SESSIONS_MS = 5000;

interface Figure {
    group: string;
    measure: string;
    subject: string | null;
    title: string;
    unit: string;
    before: number | null;
    after: number | null;
    relative: number | null;
    relative_low: number | null;
    relative_high: number | null;
    better: string | null;
    verdict: string;
}
interface Comparison { verdict: string; summary: string; before: string; after: string; figures: Figure[]; requests: number[] }

// ---- sessions -----------------------------------------------------------------------------------

class Sessions {
    readonly element = card('Sessions', {});
    kept: StoredProfile[] = [];
    private readonly running = make('div', { class: 'fields' });
    private readonly chips = new Map<string, HTMLElement>(); // by the session's name
    private readonly name = make('input', { placeholder: 'name, as baseline', 'aria-label': 'Name of the session', size: 18, spellcheck: 'false', autocomplete: 'off' });
    private readonly said = make('p', { class: 'problem', role: 'status' });
    private readonly none = make('div');
    private readonly list: List<StoredProfile>;
    private readonly timer: ReturnType<typeof setInterval>;
    private sure = 0; // the profile whose deletion was asked for once

    constructor(private readonly changed: () => void) {
        this.list = new List<StoredProfile>('Kept profiles', (p) => String(p.id), [
            { title: 'Name', cell: (p) => make('a', { href: state.link('cpu', { profile: String(p.id) }) }, p.name) },
            { title: 'Kind', cell: (p) => p.kind },
            { title: 'Program', cell: (p) => p.program },
            { title: 'Began', cell: (p) => clock(p.start) },
            { title: 'Length', number: true, cell: (p) => span(p.end - p.start) },
            { title: 'Samples', number: true, cell: (p) => count(p.samples) },
            { title: 'Size', number: true, cell: (p) => bytes(p.bytes) },
            { title: 'Compare', cell: (p) => this.pick(p) },
            { title: '', cell: (p) => isFrozen() ? null : button(this.sure === p.id ? 'Really delete' : 'Delete', 'Delete this profile', () => void this.remove(p)) },
        ]);
        const form = make('form', { class: 'fields' }, this.name, make('button', { type: 'submit', class: 'primary' }, 'Start a session'),
            make('span', { class: 'soft' }, 'CPU, heap, spans and requests of all that is watched, until it is stopped.'));
        form.addEventListener('submit', (e) => {
            e.preventDefault();
            void this.act(() => apiAt('').post('/admin/profile/start', this.name.value.trim() ? { name: this.name.value.trim() } : {}));
            this.name.value = '';
        });
        if (!isFrozen()) this.element.append(form);
        this.element.append(this.running, this.said, this.none, this.list.element);
        this.timer = setInterval(() => { if (!document.hidden) void this.load(); }, SESSIONS_MS);
        void this.load();
    }

    private pick(p: StoredProfile): HTMLElement {
        const id = String(p.id);
        const [before, after] = [state.get('base') === id, state.get('profile') === id];
        return make('span', { class: 'pair' },
            button(before ? 'Before ✓' : 'Before', 'Compare with this one', () => state.set({ base: before ? null : id }), { 'aria-pressed': String(before) }),
            button(after ? 'After ✓' : 'After', 'This one is compared', () => state.set({ profile: after ? null : id }), { 'aria-pressed': String(after) }));
    }

    private async remove(p: StoredProfile): Promise<void> {
        if (this.sure !== p.id) {
            this.sure = p.id;
            this.show();
            return;
        }
        this.sure = 0;
        if (state.get('base') === String(p.id)) state.set({ base: null });
        if (state.get('profile') === String(p.id)) state.set({ profile: null });
        await this.act(() => apiAt('').del(`/admin/profiles/${p.id}`));
    }

    private async act(what: () => Promise<unknown>): Promise<void> {
        this.said.textContent = '';
        try {
            await what();
        } catch (e) {
            this.said.textContent = sentence(e);
        }
        await this.load();
    }

    private async load(): Promise<void> {
        try {
            const [status, kept] = await Promise.all([
                apiAt('').get<SessionStatus>('/admin/profile/status'), apiAt('').get<StoredProfiles>('/admin/profiles', { limit: 100 })]);
            const before = this.kept.map((p) => p.id).join();
            this.kept = kept.profiles;
            this.showRunning(status.sessions);
            this.show();
            if (before !== this.kept.map((p) => p.id).join()) this.changed();
        } catch (e) {
            clear(this.none, failed(e, () => void this.load()));
        }
    }

    // A chip stays as long as its session runs: a button that is pressed or has the focus must not
    // become another.
    private showRunning(all: Session[]): void {
        for (const [name, chip] of this.chips) {
            if (all.some((s) => s.name === name)) continue;
            chip.remove();
            this.chips.delete(name);
        }
        for (const s of all) {
            let chip = this.chips.get(s.name);
            if (!chip) {
                chip = make('span', { class: 'chip' }, make('span'),
                    button('Stop', 'End the session and keep its profile', () => void this.act(() => apiAt('').post('/admin/profile/stop', { name: s.name }))));
                this.chips.set(s.name, chip);
                this.running.append(chip);
            }
            chip.firstElementChild!.textContent = `${s.name} runs for ${span(s.seconds)}: ${count(s.samples)} samples, ${count(s.requests)} requests`;
        }
        this.running.hidden = !all.length;
    }

    show(): void {
        this.list.element.hidden = !this.kept.length;
        clear(this.none, this.kept.length ? null : empty('No profiles are kept yet',
            'Start a session before what you want to see, stop it after; then do the same once more, and compare.',
            "curl -X POST localhost:6060/admin/profile/start --data '{\"name\": \"baseline\"}'"));
        this.list.show(this.kept);
    }

    end(): void {
        clearInterval(this.timer);
    }
}

// ---- the verdict --------------------------------------------------------------------------------

const TONE: Record<string, string> = { faster: 'good', less: 'good', slower: 'bad', more: 'bad' };

function interval(f: Figure): string {
    if (f.relative_low === null || f.relative_high === null) return 'not known';
    const p = (v: number) => `${v > 0 ? '+' : v < 0 ? '−' : ''}${percent(Math.abs(v))}`;
    return `${p(f.relative_low)} … ${p(f.relative_high)}`;
}

function unitText(v: number | null, unit: string): string {
    if (unit === 'per second') return inUnit(v, '/s');
    if (unit === 'bytes per second') return inUnit(v, 'bytes/s');
    if (unit === 'cpus') return inUnit(v, 'cores');
    return inUnit(v, unit);
}

class Verdict {
    readonly element = card('What has changed', {});
    private readonly body = make('div');
    private readonly list: List<Figure>;
    private call = new AbortController();
    private all = false;
    private last: Comparison | null = null;

    constructor() {
        this.list = new List<Figure>('Figures', (f) => `${f.group} ${f.measure} ${f.subject}`, [
            { title: 'Figure', cell: (f) => f.subject ? `${f.subject}: ${f.title}` : f.title },
            { title: 'Before', number: true, cell: (f) => unitText(f.before, f.unit) },
            { title: 'After', number: true, cell: (f) => unitText(f.after, f.unit) },
            { title: 'Change', number: true, cell: (f) => f.relative === null ? '–' : `${f.relative > 0 ? '+' : f.relative < 0 ? '−' : ''}${percent(Math.abs(f.relative))}` },
            { title: '95 % interval', number: true, cell: (f) => interval(f), hint: 'what the change is between, in 95 of 100 such comparisons' },
            { title: 'Verdict', cell: (f) => make('span', { class: `badge ${TONE[f.verdict] ?? ''}` }, f.verdict) },
        ]);
        this.element.append(this.body);
    }

    async load(before: string, after: string, type: string | null): Promise<void> {
        this.call.abort();
        this.call = new AbortController();
        const { signal } = this.call;
        clear(this.body, loading('Comparing'));
        try {
            const c = await apiAt('').get<Comparison>('/admin/profile/compare', { a: before, b: after, type }, signal);
            this.last = c;
            this.show();
        } catch (e) {
            if (!aborted(e)) clear(this.body, failed(e, () => void this.load(before, after, type)));
        }
    }

    none(text: string): void {
        this.call.abort();
        clear(this.body, make('p', { class: 'soft' }, text));
    }

    private show(): void {
        const c = this.last!;
        const changed = c.figures.filter((f) => !/^not /.test(f.verdict));
        const shown = this.all ? c.figures : changed.length ? changed : c.figures.filter((f) => f.group === 'requests' || f.group === 'run');
        this.list.show(shown);
        keepFocus(this.body, () => clear(this.body, make('p', { class: 'verdict', 'data-verdict': c.verdict }, make('b', {}, c.summary)),
            shown.length ? this.list.element : null,
            make('p', {}, button(this.all ? 'Show fewer figures' : `Show all ${count(c.figures.length)} figures`, '', () => {
                this.all = !this.all;
                this.show();
            }, { class: 'quiet' }))));
    }
}

// ---- the page -----------------------------------------------------------------------------------

const near = (t: number) => String(Math.round(t * 1000) / 1000);

class Compare {
    private readonly ends: (() => void)[] = [];
    private readonly verdict = new Verdict();
    private readonly sessions: Sessions;
    private readonly panel: FlamePanel;
    private readonly before = make('select', { 'aria-label': 'Before' });
    private readonly after = make('select', { 'aria-label': 'After' });
    private readonly nothing = make('div', { class: 'card' });
    private asked = '';

    constructor(root: HTMLElement) {
        this.panel = new FlamePanel(() => ({ hidden: !state.get('base') }));
        this.sessions = new Sessions(() => this.choices());
        const kinds = choice('type', 'Of', [{ value: '', text: 'CPU time' }, { value: 'off-cpu', text: 'Time off the CPU' }, { value: 'alloc', text: 'Memory allocated' },
            { value: 'live', text: 'Memory in use' }], this.ends);
        const slow = choice('slowest', 'Requests', [{ value: '', text: 'All samples' }, { value: '1%', text: 'Slowest 1 %' }, { value: '5%', text: 'Slowest 5 %' }], this.ends);
        const pick = make('section', { class: 'card fields', 'aria-label': 'What is compared' },
            make('label', { class: 'field' }, make('span', {}, 'After'), this.after),
            make('label', { class: 'field' }, make('span', {}, 'with before'), this.before),
            button('Swap', 'Exchange before and after', () => this.swap()), kinds, slow, chips(this.ends));
        this.before.addEventListener('change', () => this.chose());
        this.after.addEventListener('change', () => state.set({ profile: this.after.value || null }));
        clear(this.nothing, empty('Choose two', 'What is compared: the range at the top of the page, or a session. What with: the time just before, a second range '
            + '(drag on any curve with Shift), a session, or, of slow requests, all others.'));
        root.append(make('div', { class: 'stack' }, pick, this.nothing, this.verdict.element, this.panel.element, this.sessions.element));
        this.ends.push(state.on(['range', 'base', 'profile', 'type', 'slowest', 'request', 'cells'], () => this.show()));
        this.show();
    }

    private choices(): void {
        const base = state.get('base') ?? '';
        const range = rangeOf(base);
        const profile = state.get('profile') ?? '';
        const kept = this.sessions.kept.map((p) => make('option', { value: String(p.id) }, `${p.name}, ${clock(p.start)}`));
        const known = (id: string) => !id || this.sessions.kept.some((p) => String(p.id) === id);
        const chosen = ['request', 'slowest', 'cells'].some((k) => state.get(k));
        clear(this.before, make('option', { value: '' }, 'choose…'), make('option', { value: 'before' }, 'the time just before'),
            chosen || base === 'rest' ? make('option', { value: 'rest' }, 'the other requests') : null,
            range ? make('option', { value: base }, `${clock(range.from)} – ${clock(range.to)}`) : null,
            ...kept, !range && base !== 'rest' && !known(base) ? make('option', { value: base }, base) : null);
        this.before.value = base;
        const r = state.range();
        clear(this.after, make('option', { value: '' }, r.live ? `the last ${span(r.seconds)}` : `${clock(r.from)} – ${clock(r.to)}`),
            ...kept.map((o) => o.cloneNode(true)), known(profile) ? null : make('option', { value: profile }, profile));
        this.after.value = profile;
    }

    private chose(): void {
        const { value } = this.before;
        if (value !== 'before') {
            state.set({ base: value || null });
            return;
        }
        const r = state.range();
        state.set({ base: `${near(r.from - r.seconds)}..${near(r.from)}`, profile: null, from: near(r.from), to: near(r.to), range: null });
    }

    private swap(): void {
        const base = state.get('base');
        const range = rangeOf(base);
        const r = state.range();
        const here = state.get('profile') ?? `${near(r.from)}..${near(r.to)}`;
        if (!base || base === 'rest') return;
        if (range) state.set({ base: here, profile: null, from: near(range.from), to: near(range.to), range: null });
        else state.set({ base: here, profile: base });
    }

    private show(): void {
        this.choices();
        this.sessions.show();
        const base = state.get('base');
        this.nothing.hidden = base !== null;
        this.verdict.element.hidden = base === null;
        this.panel.element.hidden = base === null;
        const r = state.range();
        const after = state.get('profile') ?? `${near(r.from)}..${near(r.to)}`;
        const key = `${base}|${state.get('profile') ?? (r.live ? r.seconds : after)}|${state.get('type')}`;
        if (key === this.asked) return;
        this.asked = key;
        if (base === 'rest') this.verdict.none('Intervals are computed for times and sessions. Of some requests and the rest, the flame graph below shows the difference.');
        else if (base) void this.verdict.load(base, after, state.get('type'));
    }

    end(): void {
        this.panel.end();
        this.sessions.end();
        for (const f of this.ends) f();
    }
}

export const page: Page = {
    id: 'compare',
    title: 'Compare',
    icon: 'M12 4v16M4 8h5v9H4zM15 5h5v12h-5z',
    keys: FLAME_KEYS,
    render(root) {
        const c = new Compare(root);
        return () => c.end();
    },
};
