// The flame graph, the functions, the callers and callees of one of them (the sandwich), and the
// stacks over time: of one profile, wherever it comes from.

import { ApiError, aborted } from '../../core/api';
import { button, clear, make } from '../../core/dom';
import { color, isDark } from '../../core/theme';
import { empty, failed, loading } from '../../core/states';
import { ChartColors, FlameChart, Spot, Wheel } from '../../flame/chart';
import { FunctionRow, LEVELS, Profile, Tree, codeKinds } from '../../flame/data';
import { Order, callees, callers, foldRecursion, invert, outermost } from '../../flame/merge';
import { packageColors, parts } from '../../flame/package';
import { findPath, mergeFrames, splice } from '../../flame/splice';
import { FunctionTable } from '../../flame/table';
import {
    Matcher, count, describe, label, matchFrames, matchedHint, matchedText, matchedWeight, matcher, percent,
    samples, value,
} from '../../flame/text';
import { advice, nothingKept } from './advice';
import { Finer, Pane } from './pane';
import { Shape, Source } from './source';
import { KINDS, Look, VIEWS, View } from './state';
import { overTime } from './time';

const LEAST = 1 / 4000; // derived trees leave out what is narrower, until it is zoomed into
const NODES_MOST = 100000; // the agent's limit
const ROOT_ONLY = 1; // rows of a graph that has nothing in it

export interface ViewEvents {
    changed(): void;            // the look is another
    kind(kind: string): void;   // asks for another kind of samples
    focused(names: string[]): void;
}

export interface ViewOptions { wheel: Wheel; rootOnTop: boolean | null; fill: boolean; level: number }

export class FlameView {
    readonly element = make('div', { class: 'viewer' });
    look: Look = { view: 'flame', invert: false, fold: false, order: 'name', search: '', regex: false, colors: '', focus: [] };
    private p: Profile | null = null; // callers first, as the agent or the file has it
    private leafFirst: Profile | null = null; // the agent's, if it was asked for
    private source: Source | null = null;
    private loads = new AbortController();
    private working = 0;
    private more = false; // as much as the agent gives was asked for
    private match: Matcher | null = null;
    private chosen: FunctionRow | null = null;
    private unseen = true; // callers and callees of it are not made yet
    private table: FunctionTable | null = null;

    private readonly heading: HTMLElement;
    private readonly summary = make('p');
    private readonly input = make('input', {
        type: 'search', placeholder: 'Search ( / )', 'aria-label': 'Search function names',
        spellcheck: 'false', autocomplete: 'off',
    });
    private readonly matched = make('span', { class: 'matched', 'aria-live': 'polite' });
    private readonly crumbs = make('nav', { class: 'crumbs', tabindex: '0', 'aria-label': 'Callers of the zoomed frame' });
    private readonly legend = make('div', { class: 'legend' });
    private readonly notes = make('ul', { class: 'notes' });
    private readonly card = make('div', { class: 'card', hidden: true, 'aria-hidden': 'true' });
    private readonly said = make('div', { class: 'sr', role: 'status' });
    private readonly detail = make('div', { class: 'detail' });
    private readonly about = make('div', { class: 'about' });
    private readonly nothing = make('p', { class: 'empty' });
    private readonly missing = make('p', { class: 'missing' });
    private readonly state = make('div', { class: 'state' });
    private readonly busy = make('div', { class: 'busy', role: 'status', 'aria-label': 'Loading', hidden: true });
    private readonly body = make('div', { class: 'main' });
    private readonly timeNote = make('div', { class: 'missing' });
    private readonly main: Pane;
    private readonly above: Pane;
    private readonly below: Pane;
    private readonly time: Pane;
    private timeShown = false;
    private readonly tabs = new Map<View, HTMLButtonElement>();
    private readonly kinds = make('div', { class: 'kinds', role: 'group', 'aria-label': 'What is counted' });
    private readonly colors = make('select', { 'aria-label': 'Colours', title: 'Colours' });
    private readonly regex: HTMLButtonElement;
    private readonly reset: HTMLButtonElement;
    private readonly heavy: HTMLButtonElement;
    private readonly inverted: HTMLButtonElement;
    private readonly folded: HTMLButtonElement;
    private readonly onTop: HTMLButtonElement;

    constructor(private readonly events: ViewEvents, private readonly options: ViewOptions) {
        this.heading = make('div', { class: 'title', role: 'heading', 'aria-level': options.level });
        this.regex = button('.*', 'Regular expression', () => {
            this.look.regex = !this.look.regex;
            this.search();
        }, { class: 'regex', 'aria-pressed': 'false', 'aria-label': 'Regular expression' });
        this.reset = button('Reset', 'Show everything (Esc)', () => this.resetAll(), { class: 'reset' });
        this.heavy = button('Left heavy', 'Order callees by weight, not by name',
            () => this.set({ order: this.look.order === 'name' ? 'weight' : 'name' }), { class: 'heavy' });
        this.inverted = button('Inverted', 'Leaf first: which functions are called, and by whom',
            () => this.set({ invert: !this.look.invert }), { class: 'inverted' });
        this.folded = button('Fold recursion', 'Show a function that calls itself, directly or not, once in a stack',
            () => this.set({ fold: !this.look.fold }), { class: 'folded' });
        this.onTop = button('Root on top', 'Draw callees below their callers', () => {
            this.main.chart.setRootOnTop(!this.main.chart.rootOnTop);
            this.showState();
        }, { class: 'ontop' });
        this.main = this.pane('flame', 'Flame graph; arrows move, Enter zooms', options.rootOnTop ?? false);
        this.above = this.pane('callers', 'Callers; arrows move, Enter zooms', false);
        this.below = this.pane('callees', 'Callees; arrows move, Enter zooms', true);
        this.time = this.pane('time', 'Stacks over time; arrows move, Enter zooms', true);
        this.build();
        this.setView('flame', false);
    }

    private pane(name: string, title: string, rootOnTop: boolean): Pane {
        const pane: Pane = new Pane(name, title, rootOnTop, {
            zoomed: () => this.zoomed(pane),
            hovered: (at, x, y) => (at ? this.showCard(pane.chart, at, x, y) : this.hideCard()),
            selected: (n) => this.showDetail(pane.chart, n),
            opened: (n) => this.openNode(pane.p, pane.tree, n),
            moved: () => this.showState(),
        });
        pane.chart.wheelDoes = this.options.wheel;
        pane.canvas.addEventListener('keydown', (e) => {
            if (e.key !== 'c' || e.ctrlKey || e.metaKey || pane.chart.cursor < 0) return;
            e.preventDefault();
            void this.copy(pane.p.frames[pane.tree.frame[pane.chart.cursor]].name);
        });
        return pane;
    }

    private get panes(): Pane[] {
        return [this.main, this.above, this.below, this.time];
    }

    private build(): void {
        const tabs = make('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Views' });
        for (const [view, title] of VIEWS) {
            const b = button(title, '', () => this.setView(view),
                { role: 'tab', 'data-view': view, id: `tab-${view}`, 'aria-controls': `panel-${view === 'sandwich' ? 'sandwich' : view}` });
            b.addEventListener('keydown', (e) => this.tabKey(e, view));
            this.tabs.set(view, b);
            tabs.append(b);
        }
        this.colors.addEventListener('change', () => this.set({ colors: this.colors.value }));
        const panel = (view: View, ...children: Node[]) => make('section', {
            class: view, id: `panel-${view}`, role: 'tabpanel', 'aria-labelledby': `tab-${view}`,
        }, ...children);
        this.body.append(
            panel('flame', this.crumbs, this.legend, this.main.canvas),
            panel('sandwich', this.above.canvas, this.about, this.missing, this.below.canvas, this.nothing),
            panel('time', this.timeNote, this.time.canvas));
        this.element.append(this.busy,
            make('header', {},
                make('div', { class: 'what' }, this.heading, this.summary),
                make('div', { class: 'find', role: 'search' }, this.matched, this.input, this.regex, this.reset)),
            make('div', { class: 'bar' }, tabs,
                make('div', { class: 'options' }, this.kinds, this.heavy, this.inverted, this.folded, this.onTop,
                    this.colors, make('slot', { name: 'tools' }))),
            this.notes, this.state, this.body, this.detail, this.card, this.said);
        this.input.addEventListener('input', () => {
            this.look.search = this.input.value;
            this.search();
        });
        this.element.addEventListener('keydown', (e) => this.key(e));
    }

    // ---- Loading ------------------------------------------------------------------------------

    /** Another profile. keep: what was zoomed and chosen is looked for in it. */
    setSource(source: Source, keep: boolean): void {
        this.loads.abort();
        this.loads = new AbortController();
        this.source = source;
        this.more = false;
        this.timeShown = false;
        void this.load(keep && this.p !== null);
    }

    private get shape(): Shape {
        return { invert: false, fold: this.look.fold };
    }

    /** Runs something that may take a while; false: it was given up, or failed. */
    private async work(what: () => Promise<void>, fatal: boolean): Promise<boolean> {
        const { signal } = this.loads;
        this.working++;
        this.busy.hidden = false;
        try {
            await what();
            return true;
        } catch (e) {
            if (!aborted(e) && !signal.aborted) {
                if (fatal) {
                    const none = this.source!.remote && e instanceof ApiError && e.status === 404 ? await nothingKept(e, this.source!) : null;
                    if (!signal.aborted) this.showTrouble(none ?? failed(e, () => void this.load(false)));
                } else this.said.textContent = e instanceof Error ? e.message : String(e);
            }
            return false;
        } finally {
            this.working--;
            this.busy.hidden = this.working > 0 ? false : true;
        }
    }

    private showTrouble(what: HTMLElement | null): void {
        clear(this.state, what);
        this.state.hidden = what === null;
        this.element.classList.toggle('none', what !== null);
    }

    private async load(keep: boolean): Promise<void> {
        const { signal } = this.loads;
        const source = this.source!;
        if (!keep) this.showTrouble(loading('Loading the profile'));
        await this.work(async () => {
            const p = await source.load(source.remote ? this.shape : { invert: false, fold: false }, signal);
            if (signal.aborted) return;
            if (!source.remote && p.tree.leafFirst) { // a file that was made leaf first
                p.tree = invert(p, p.tree, 'name');
                this.look.invert = true;
            }
            await this.show(p, keep);
        }, true);
    }

    private async show(p: Profile, keep: boolean): Promise<void> {
        const focus = keep && this.p ? this.main.focus() : this.look.focus;
        const chosen = this.chosen?.name;
        this.p = p;
        this.leafFirst = null;
        this.showHead(p);
        if (!(p.total > 0) && !(p.baseTotal > 0)) {
            this.showTrouble(await advice(p, this.source!));
            this.showState();
            return;
        }
        this.showTrouble(null);
        if (!keep && this.options.rootOnTop === null) this.main.chart.rootOnTop = p.icicle;
        const table = new FunctionTable(p, (r, open) => this.openFunction(r, open),
            this.source!.remote ? 'were sent' : 'are in this file');
        table.element.id = 'panel-functions';
        table.element.setAttribute('role', 'tabpanel');
        this.table?.element.remove();
        this.table = table;
        this.body.insertBefore(table.element, this.body.children[1]);
        this.search(false);
        await this.showTree(focus);
        this.openFunction(table.find(chosen ?? '') ?? table.first, false);
        this.applyColors();
        this.setView(this.look.view, false);
    }

    private showHead(p: Profile): void {
        this.heading.textContent = p.title;
        this.summary.textContent = this.summaryOf(p);
        this.summary.title = this.summary.textContent;
        const have = new Set([p.kind, ...(p.about?.kinds ?? [])]);
        const kinds = KINDS.filter(([k]) => have.has(k));
        clear(this.kinds, ...(kinds.length < 2 ? [] : kinds.map(([k, name, hint]) =>
            button(name, hint, () => this.events.kind(k), { 'aria-pressed': String(k === p.kind), 'data-kind': k }))));
        clear(this.notes, ...(p.about?.notes ?? []).map((n) => make('li', {}, n)));
        const schemes = Object.keys(p.palettes).filter((n) => n !== 'diff' || p.baseTotal > 0);
        if (p.palettes['module']) schemes.push('package');
        clear(this.colors, ...schemes.map((n) => make('option', { value: n }, n)));
        const overTimeTab = this.tabs.get('time')!;
        overTimeTab.hidden = !this.source!.remote || p.baseTotal > 0 || p.unit === 'bytes';
        if (overTimeTab.hidden && this.look.view === 'time') this.look.view = 'flame';
    }

    private summaryOf(p: Profile): string {
        const list = [];
        if (p.subtitle) list.push(p.subtitle);
        list.push(p.unit === 'count' ? samples(p.total) : value(p.total, p.unit));
        if (p.unit !== 'count' && p.tree.samples[0]) list.push(samples(p.tree.samples[0]));
        if (p.baseTotal) list.push(`before: ${value(p.baseTotal, p.unit)}`);
        const a = p.about;
        if (a?.requests !== null && a?.requests !== undefined) {
            list.push(`${count(a.requests)}${a.requests_all ? ` of ${count(a.requests_all)}` : ''} requests`);
        }
        if (a?.truncated_share) list.push(`${percent(a.truncated_share, 1)} of stacks are cut off`);
        if (p.dropped && !this.source!.remote) {
            const least = Number((100 * p.minWidth).toPrecision(2));
            list.push(`frames below ${least} % are left out of the graph`);
        }
        return list.join(' · ');
    }

    // ---- What is shown ------------------------------------------------------------------------

    setView(view: View, tell = true): void {
        this.look.view = view;
        this.element.dataset['view'] = view;
        for (const [v, b] of this.tabs) {
            b.setAttribute('aria-selected', String(v === view));
            b.tabIndex = v === view ? 0 : -1;
        }
        this.hideCard();
        if (view === 'time' && this.p) void this.showTime();
        if (view === 'sandwich' && this.p && this.table && (this.unseen || tell)) this.openFunction(this.chosen, false);
        this.showState();
        if (tell) this.events.changed();
    }

    private tabKey(e: KeyboardEvent, view: View): void {
        const by = e.key === 'ArrowRight' ? 1 : e.key === 'ArrowLeft' ? -1 : 0;
        if (!by) return;
        e.preventDefault();
        const shown = VIEWS.map(([v]) => v).filter((v) => !this.tabs.get(v)!.hidden);
        const next = shown[(shown.indexOf(view) + by + shown.length) % shown.length];
        this.setView(next);
        this.tabs.get(next)!.focus();
    }

    /** Changes the look; what follows from it is drawn. */
    set(to: Partial<Look>): void {
        const before = { ...this.look };
        Object.assign(this.look, to);
        if (!this.p) return;
        const l = this.look;
        if (l.view !== before.view) this.setView(l.view, false);
        if (l.search !== before.search || l.regex !== before.regex) this.search(false);
        if (l.colors !== before.colors) this.applyColors();
        if (l.fold !== before.fold && this.source?.remote) void this.load(true);
        else if (l.fold !== before.fold || l.invert !== before.invert || l.order !== before.order) {
            void this.showTree([]);
            if (l.order !== before.order) this.openFunction(this.chosen, false);
        }
        if (to.focus && to.focus.join('\0') !== this.main.focus().join('\0')) this.goTo(to.focus);
        this.showState();
        this.events.changed();
    }

    private async showTree(focus: string[]): Promise<void> {
        const p = this.p!;
        const { order } = this.look;
        if (this.look.invert && this.source!.remote) {
            const shape = { invert: true, fold: this.look.fold };
            const { signal } = this.loads;
            if (!this.leafFirst) {
                const came = await this.work(async () => {
                    const q = await this.source!.load(shape, signal);
                    if (this.p === p) this.leafFirst = q;
                }, false);
                if (!came || this.p !== p || !this.look.invert) return;
            }
            const q = this.leafFirst!;
            this.main.show(q, this.ordered(q, q.tree, order), this.remoteFiner(() => this.leafFirst!, shape));
        } else if (this.look.invert) {
            const base = this.foldedTree(p);
            const make_ = (names: string[]) => invert(p, base, order, { least: LEAST, path: this.fnsOf(p, names) });
            this.main.show(p, make_([]), this.localFiner(this.main, make_));
        } else {
            const tree = this.ordered(p, this.foldedTree(p), order);
            this.main.show(p, tree, this.source!.remote ? this.remoteFiner(() => this.p!, this.shape) : null);
        }
        this.applyHits();
        if (focus.length) this.goTo(focus);
        else this.showCrumbs();
        this.fit();
        this.showMatched();
        this.showState();
        this.showDetail(this.main.chart, this.main.chart.zoom);
    }

    private goTo(names: string[]): void {
        const n = findPath(this.main.p, this.main.tree, names);
        this.main.chart.jumpTo(n);
        this.showCrumbs();
    }

    private foldedTree(p: Profile): Tree {
        // The agent folds by itself, before it cuts.
        return this.look.fold && !this.source!.remote ? foldRecursion(p, p.tree, 'name') : p.tree;
    }

    private ordered(p: Profile, t: Tree, order: Order): Tree {
        return order === 'weight' ? callees(p, t, [0], 'weight') : t;
    }

    private fnsOf(p: Profile, names: string[]): number[] {
        const fns = new Map(p.frames.map((f) => [f.name, f.fn]));
        return names.map((n) => fns.get(n) ?? -1);
    }

    /** Asks the agent for one part, and puts it where the coarse one is. */
    private remoteFiner(profile: () => Profile, shape: Shape): Finer {
        const { signal } = this.loads;
        return async (names) => this.work(async () => {
            const q = await this.source!.part(shape, names, signal);
            const p = profile();
            const from = findPath(q, q.tree, names, true);
            const to = findPath(p, p.tree, names, true);
            if (signal.aborted || from < 0 || to < 0) return;
            p.tree = splice(p.tree, to, q.tree, from, mergeFrames(p, q));
            if (p === this.main.p) {
                this.applyHits();
                this.main.replace(p, this.ordered(p, p.tree, this.look.order));
                this.applyColors();
                this.fit();
            }
        }, false);
    }

    /** Makes one part of a derived tree in full. */
    private localFiner(pane: Pane, derive: (names: string[]) => Tree): Finer {
        return async (names) => {
            const part = derive(names);
            const at = findPath(pane.p, pane.tree, names, true);
            if (!part.count || at < 0) return false;
            pane.replace(pane.p, splice(pane.tree, at, part, 0));
            this.fit();
            return true;
        };
    }

    /** The graph is as high as it has to be, up to most of the window. */
    private fit(): void {
        if (this.options.fill) return;
        for (const pane of [this.main, this.time]) {
            const rows = Math.max(pane.chart.needed, ROOT_ONLY * 18);
            const height = Math.min(rows + 2, Math.max(240, Math.round(window.innerHeight * 0.7)));
            pane.canvas.style.height = `${height}px`;
        }
    }

    private zoomed(pane: Pane): void {
        this.hideCard();
        if (pane === this.main) {
            this.look.focus = pane.focus();
            this.showCrumbs();
            this.events.focused(this.look.focus);
        }
        this.showState();
    }

    private showState(): void {
        const { look } = this;
        this.heavy.setAttribute('aria-pressed', String(look.order === 'weight'));
        this.inverted.setAttribute('aria-pressed', String(look.invert));
        this.folded.setAttribute('aria-pressed', String(look.fold));
        this.regex.setAttribute('aria-pressed', String(look.regex));
        this.onTop.setAttribute('aria-pressed', String(this.main.chart.rootOnTop));
        const { chart } = this.main;
        this.reset.disabled = !chart.zoom && !look.search && (!chart.tree || chart.whole);
    }

    private openNode(p: Profile, t: Tree, n: number): void {
        const row = this.table?.find(p.frames[t.frame[n]].name);
        if (row) this.openFunction(row, true);
    }

    private openFunction(r: FunctionRow | null, go: boolean): void {
        const p = this.p!;
        this.chosen = r;
        this.table?.select(r);
        if (r && go && this.look.view !== 'sandwich') {
            this.setView('sandwich'); // comes back here
            return;
        }
        // Of a large profile this takes longer than all else: only where it is seen.
        this.unseen = this.look.view !== 'sandwich';
        if (this.unseen) return;
        const { order } = this.look;
        const nodes = r ? outermost(p, p.tree, r.name) : [];
        const found = nodes.length > 0;
        this.nothing.hidden = found;
        this.nothing.textContent = r
            ? `All calls of ${r.name} are narrower than the frames that ${this.source!.remote ? 'the agent sent' : 'are kept in this file'}.`
            : 'Choose a function.';
        for (const e of [this.above.canvas, this.below.canvas, this.about]) e.hidden = !found;
        let seen = 0;
        for (const n of nodes) seen += p.tree.total[n];
        const lost = r ? r.total - seen : 0;
        const cut = r !== null && lost > 0.001 * r.total;
        this.missing.hidden = !cut || !found;
        if (r && found) {
            const up = (names: string[]) => callers(p, p.tree, nodes, order, { least: LEAST, path: this.fnsOf(p, names) });
            const down = (names: string[]) => callees(p, p.tree, nodes, order, { least: LEAST, path: this.fnsOf(p, names) });
            this.above.show(p, up([]), this.localFiner(this.above, up));
            this.below.show(p, down([]), this.localFiner(this.below, down));
            clear(this.about,
                make('span', { class: 'hint' }, '▲ callers'), make('b', { title: r.name }, r.name),
                make('span', {}, `self ${percent(r.self, p.total)}`),
                make('span', {}, `total ${percent(r.total, p.total)}`),
                make('span', { class: 'hint' }, 'callees ▼'));
            this.missing.textContent = cut ? `${percent(lost, r.total)} of it is in calls too narrow to be `
                + `${this.source!.remote ? 'sent' : 'kept in this file'}, and not drawn here.` : '';
            this.above.canvas.style.height = `min(50%, ${this.above.chart.layout.rows * 18}px)`;
        }
        if (cut && this.look.view === 'sandwich' && this.source!.remote && !this.more) void this.loadMore();
    }

    /** Callers and callees are put together here, so they need all that the agent will give. */
    private async loadMore(): Promise<void> {
        this.more = true;
        const { signal } = this.loads;
        await this.work(async () => {
            const p = await this.source!.load(this.shape, signal, NODES_MOST);
            if (!signal.aborted && p.tree.count > this.p!.tree.count) await this.show(p, true);
        }, false);
    }

    resetAll(): void {
        this.input.value = '';
        this.look.search = '';
        this.search();
        if (this.main.tree) this.main.chart.zoomTo(0);
        this.showState();
    }

    private showCrumbs(): void {
        const { chart, tree, p } = this.main;
        const chain: number[] = [];
        for (let n = chart.zoom; n >= 0; n = tree.parent[n]) chain.unshift(n);
        this.crumbs.replaceChildren();
        chain.forEach((n, i) => {
            if (i) this.crumbs.append(make('span', { class: 'sep', 'aria-hidden': 'true' }, '›'));
            const b = button(p.frames[tree.frame[n]].name, '', () => chart.zoomTo(n));
            if (n === chart.zoom) b.setAttribute('aria-current', 'true');
            this.crumbs.append(b);
        });
        if (chain.length === 1) {
            const wheel = this.options.wheel === 'zoom' ? 'wheel zooms' : 'Ctrl and wheel zoom';
            this.crumbs.append(make('span', { class: 'sep' },
                `· click zooms, ${wheel}, dragging pans, Alt-click shows callers and callees`));
        }
        this.crumbs.scrollLeft = this.crumbs.scrollWidth;
        this.showMatched();
    }

    private async showTime(): Promise<void> {
        if (this.timeShown) return;
        this.timeShown = true;
        const { signal } = this.loads;
        const p = this.p!;
        this.time.canvas.hidden = true;
        this.timeNote.textContent = 'Loading the samples in the order they came.';
        const ok = await this.work(async () => {
            const got = await this.source!.samples(signal);
            const chart = got ? overTime(p, got) : null;
            if (signal.aborted) return;
            if (!chart) {
                this.timeNote.replaceChildren(empty('No samples with times', 'Nothing of this profile says when it was seen.'));
                return;
            }
            this.time.canvas.hidden = false;
            this.timeNote.textContent = chart.note;
            this.time.chart.axis = chart.axis;
            this.time.show(chart.profile, chart.profile.tree, null);
            this.applyHits();
            this.applyColors();
            this.fit();
        }, false);
        if (!ok && !signal.aborted) {
            this.timeShown = false;
            this.timeNote.textContent = this.said.textContent;
        }
    }

    // ---- Search -------------------------------------------------------------------------------

    focusSearch(): void {
        this.input.focus();
        this.input.select();
    }

    private search(tell = true): void {
        const { look } = this;
        if (this.input.value !== look.search) this.input.value = look.search;
        const m = matcher(look.search, look.regex);
        this.input.setAttribute('aria-invalid', String(m === 'error'));
        this.match = typeof m === 'function' ? m : null;
        this.applyHits();
        this.table?.filter(this.match);
        if (this.main.tree) this.showMatched();
        this.showState();
        if (tell) this.events.changed();
    }

    private applyHits(): void {
        const hits = new Map<Profile, Uint8Array>();
        for (const pane of this.panes) {
            if (!pane.tree) continue;
            let hit: Uint8Array | null = null;
            if (this.match) {
                hit = hits.get(pane.p) ?? matchFrames(pane.p, this.match);
                hits.set(pane.p, hit);
            }
            pane.chart.setHits(hit);
        }
    }

    private showMatched(): void {
        this.matched.textContent = '';
        this.matched.title = '';
        const p = this.p;
        if (!this.match || !p) return;
        const hit = matchFrames(p, this.match);
        // Counted where callers come first: there a stack with two matches is one subtree.
        const all = matchedWeight(p.tree, 0, hit);
        let text = matchedText(all, p.total);
        const { chart, tree } = this.main;
        if (chart.zoom && !this.look.invert) {
            const part = matchedWeight(tree, chart.zoom, hit);
            text += `, ${matchedText(part, tree.total[chart.zoom]).slice(8)} of the zoomed`;
        }
        this.matched.textContent = text;
        this.matched.title = matchedHint(all, p.total);
    }

    // ---- About one frame ----------------------------------------------------------------------

    private lines(chart: FlameChart, n: number): HTMLElement[] {
        const whole = chart === this.main.chart ? chart.zoom : 0;
        return describe(chart.p, chart.tree, n, whole).map(([name, text]) =>
            make('div', {}, make('span', {}, name), text));
    }

    private runLines(chart: FlameChart, at: Spot): HTMLElement[] {
        const { p } = chart;
        const line = (name: string, text: string) => make('div', {}, make('span', {}, name), text);
        const lines = [line('total', `${value(at.weight, p.unit)}, ${percent(at.weight, p.total)} of all`),
            line('below', p.frames[chart.tree.frame[at.node]].name)];
        if (at.cut > 0 && !this.source!.remote && chart === this.main.chart && !this.look.invert) {
            lines.push(line('', 'left out of this file'));
        } else {
            lines.push(line('', 'click to zoom in'));
        }
        return lines;
    }

    private showCard(chart: FlameChart, at: Spot, x: number, y: number): void {
        if (at.run) this.card.replaceChildren(make('b', {}, chart.runText(at)), ...this.runLines(chart, at));
        else this.card.replaceChildren(make('b', {}, chart.p.frames[chart.tree.frame[at.node]].name), ...this.lines(chart, at.node));
        this.card.hidden = false;
        const r = this.card.getBoundingClientRect();
        const left = Math.max(8, Math.min(x + 14, innerWidth - r.width - 8));
        const top = y + 18 + r.height > innerHeight - 8 ? Math.max(8, y - r.height - 10) : y + 18;
        this.card.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
    }

    private hideCard(): void {
        this.card.hidden = true;
    }

    /** The same below the graph, for what was chosen: there is no hovering on a phone. */
    private showDetail(chart: FlameChart, n: number): void {
        const name = chart.p.frames[chart.tree.frame[n]].name;
        this.detail.replaceChildren(make('b', { title: name }, name), ...this.lines(chart, n));
        this.said.textContent = label(chart.p, chart.tree, n);
        if (n <= 0) return;
        this.detail.append(make('div', { class: 'acts' },
            this.table?.find(name) ? button('Callers and callees', 'Show it in the sandwich (s)',
                () => this.openNode(chart.p, chart.tree, n), { class: 'both' }) : null,
            button('Copy name', 'Copy the name of the function (c)', () => void this.copy(name), { class: 'copy' })));
    }

    private async copy(name: string): Promise<void> {
        let done = true;
        try {
            await navigator.clipboard.writeText(name);
        } catch { // only pages of this machine or over TLS may; there is an older way
            const area = make('textarea', { class: 'sr', 'aria-hidden': 'true' });
            area.value = name;
            this.element.append(area);
            area.select();
            done = document.execCommand('copy');
            area.remove();
        }
        this.said.textContent = done ? `Copied ${name}` : 'The browser does not let this page copy';
        const b = this.detail.querySelector('.copy');
        if (!b) return;
        b.textContent = done ? 'Copied' : 'Cannot copy';
        setTimeout(() => { b.textContent = 'Copy name'; }, 1200);
    }

    // ---- Colours ------------------------------------------------------------------------------

    applyColors(): void {
        const p = this.p;
        if (!p) return;
        const known = [...this.colors.options].some((o) => o.value === this.look.colors);
        const scheme = known ? this.look.colors : p.baseTotal > 0 ? 'diff' : p.colors;
        this.colors.value = scheme;
        const dark = isDark() ? 'dark' : 'light';
        const of = (name: string) => color(name, this.element);
        const colors: Omit<ChartColors, 'palette' | 'scheme'> = {
            page: of('card'), ink: of('frame-ink'), soft: of('ink-soft'), line: of('line-strong'), rest: of('raised'),
            hit: of('hit'), mark: of('ink'),
        };
        for (const pane of this.panes) {
            if (!pane.tree) continue;
            const palette = pane.p.palettes[scheme === 'package' ? 'module' : scheme] ?? p.palettes[p.colors];
            pane.chart.setColors({ ...colors, scheme, palette: palette[dark],
                package: scheme === 'package' ? packageColors(pane.p) : undefined });
        }
        this.showLegend(p, scheme, dark);
    }

    private showLegend(p: Profile, scheme: string, dark: 'light' | 'dark'): void {
        this.legend.replaceChildren();
        if (scheme === 'diff') {
            const ramp = make('span', { class: 'ramp', 'aria-hidden': 'true' });
            for (let level = -LEVELS; level <= LEVELS; level += 4) {
                const i = make('i');
                i.style.background = p.palettes['diff'][dark][level + LEVELS];
                ramp.append(i);
            }
            this.legend.append('blue: a smaller share than before', ramp, 'red: a larger one');
        } else if (scheme === 'module' || scheme === 'package') {
            for (const part of parts(p, scheme, 8)) {
                const i = make('i', { 'aria-hidden': 'true' });
                i.style.background = p.palettes['module'][dark][part.color];
                this.legend.append(make('span', { class: 'part' }, i, make('span', { title: part.name }, part.name), percent(part.self, p.total)));
            }
        } else {
            for (const kind of codeKinds(p, scheme)) {
                const i = make('i', { 'aria-hidden': 'true' });
                i.style.background = p.palettes[scheme][dark][kind.color];
                this.legend.append(make('span', { class: 'part' }, i, kind.name));
            }
        }
    }

    // ---- Input --------------------------------------------------------------------------------

    key(e: KeyboardEvent): void {
        if (e.defaultPrevented) return;
        const typing = e.composedPath()[0] === this.input;
        if ((e.key === '/' && !typing) || (e.key === 'f' && (e.ctrlKey || e.metaKey))) {
            e.preventDefault();
            this.focusSearch();
        } else if (e.key === 'Escape' && (this.look.search || this.main.chart.zoom || typing)) {
            e.preventDefault();
            if (this.look.search) {
                this.look.search = '';
                this.search();
            } else if (this.main.tree) {
                this.main.chart.zoomTo(0);
            }
            if (typing) this.main.canvas.focus();
        }
    }

    end(): void {
        this.loads.abort();
    }
}
