// Devices, memory pools and tokenizers, as engines tell of them (sonde/engine.h): cards for the pages
// Inference and Memory. Where no engine tells, there are none.

import { apiAt } from '../core/api';
import { clear, make } from '../core/dom';
import { bytes, count, percent, seconds } from '../core/format';
import { isFrozen, mayHave } from '../core/frozen';
import { addTerms } from '../core/glossary';
import { state } from '../core/state';
import { explain } from '../core/tip';
import { Chosen, Device, Engine, LengthRow, OperationRow, PoolRow, Tokenizer, isChosen, lengthsOf, operationsOf, ownerOf, poolsOf } from './engine_figures';
import { List, card, heading, share } from './kit';

const AGAIN_MS = 5000;

addTerms({
    engine_devices: { title: 'Devices', what: 'What each device of the engine did since it began: operations, their time, and its memory.',
        how: 'Counted by the engine\'s own kernels, with sonde_device_op_record().' },
    engine_pools: { title: 'Memory pools', what: 'What the engine\'s own allocators hold. External fragmentation: how much of what is free cannot be had in one piece. Internal: how much of what is used nobody asked for.',
        how: 'Reported by the engine with sonde_allocator().' },
    engine_tokenizer: { title: 'Tokenizer', what: 'Inputs encoded since the engine began, by their length in bytes; never their text.',
        how: 'Reported by the engine with sonde_tokenizer_encoded().' },
});

function named(name: string, owner: string): HTMLElement {
    return make('span', {}, make('span', { class: 'mono' }, name), owner ? make('span', { class: 'faint' }, ` ${owner}`) : null);
}

function titled(title: string, metric: string): { element: HTMLElement; body: HTMLElement; note: HTMLElement } {
    const element = card(title, { hidden: true });
    const head = element.querySelector('header')!;
    const h2 = head.querySelector('h2')!;
    const note = make('span', { class: 'soft' });
    const body = make('div', { class: 'stack' });
    h2.tabIndex = 0;
    explain(h2, metric);
    head.append(note);
    element.append(body);
    return { element, body, note };
}

class Devices {
    private readonly parts = titled('Devices', 'engine_devices');
    readonly element = this.parts.element;
    private shown: readonly Device[] = [];
    private readonly devices = new List<Device>('Devices', (d) => `${d.pid} ${d.device}`, [
        { title: 'Device', cell: (d) => named(d.device, ownerOf(d, this.shown)) },
        { title: 'Operations', number: true, cell: (d) => count(d.count) },
        { title: 'Time', number: true, cell: (d) => seconds(d.seconds) },
        { title: 'Memory', number: true, hint: 'used of all', cell: (d) => (d.memory_used_bytes === null ? '–' : `${bytes(d.memory_used_bytes)} of ${bytes(d.memory_total_bytes)}`) },
        { title: 'Memory %', number: true, hint: 'memory in use, of all that the device has', cell: (d) => share(d.memory_efficiency, percent(d.memory_efficiency)) },
        { title: 'Fallbacks', number: true, hint: 'operations that another device had to do', cell: (d) => make('span', {
            title: Object.entries(d.fallback_reasons).map(([reason, n]) => `${reason}: ${count(n)}`).join(', ') || null }, count(d.fallbacks)) },
    ]);
    private readonly operations = new List<OperationRow>('Operations by device and kind', (o) => `${o.device.pid} ${o.device.device} ${o.operation}`, [
        { title: 'Operation', cell: (o) => make('span', { class: 'mono' }, o.operation) },
        { title: 'Device', cell: (o) => named(o.device.device, ownerOf(o.device, this.shown)) },
        { title: 'Count', number: true, cell: (o) => count(o.count) },
        { title: 'Time', number: true, cell: (o) => seconds(o.seconds) },
        { title: 'Share', number: true, hint: 'of the time of all operations', cell: (o) => share(o.share, percent(o.share)) },
        { title: 'Mean', number: true, cell: (o) => seconds(o.mean_s) },
        { title: 'p99', number: true, cell: (o) => seconds(o.p99_s) },
        { title: 'Max', number: true, cell: (o) => seconds(o.max_s) },
    ]);

    constructor() {
        this.parts.body.append(this.devices.element, this.operations.element);
    }

    show(e: Engine, chosen: Chosen): void {
        this.shown = e.devices?.list.filter((d) => isChosen(d, chosen)) ?? [];
        this.element.hidden = !this.shown.length;
        const of = (kind: string) => this.shown.filter((d) => d.kind === kind).reduce((sum, d) => sum + d.count, 0);
        this.parts.note.textContent = `${count(of('cpu'))} operations on CPUs, ${count(of('gpu'))} on GPUs`;
        this.devices.show(this.shown);
        this.operations.show(operationsOf(this.shown));
    }
}

class Tokenizers {
    private readonly parts = titled('Tokenizer', 'engine_tokenizer');
    readonly element = this.parts.element;
    private shown: readonly Tokenizer[] = [];
    private readonly advice = make('div', { hidden: true });
    private readonly list = new List<Tokenizer>('Tokenizers', (t) => `${t.pid} ${t.tokenizer}`, [
        { title: 'Tokenizer', cell: (t) => named(t.tokenizer, ownerOf(t, this.shown)) },
        { title: 'Inputs', number: true, cell: (t) => count(t.encodes.count) },
        { title: 'Bytes', number: true, cell: (t) => bytes(t.bytes) },
        { title: 'Tokens', number: true, cell: (t) => count(t.tokens) },
        { title: 'Tokens/s', number: true, hint: 'by the time that encoding took', cell: (t) => count(t.tokens_per_s) },
        { title: 'Look-ups', number: true, hint: 'in the vocabulary, by token', cell: (t) => count(t.lookups_per_token) },
        { title: 'Merges', number: true, hint: 'by token', cell: (t) => count(t.merges_per_token) },
        { title: 'Cache hits', number: true, cell: (t) => share(t.cache_hit_ratio, percent(t.cache_hit_ratio)) },
    ]);
    private readonly lengths = new List<LengthRow>('Inputs by length', (l) => `${l.tokenizer.pid} ${l.tokenizer.tokenizer} ${l.bytes}`, [
        { title: 'Length in bytes', cell: (l) => make('span', {}, l.bytes, this.shown.length > 1 ? make('span', { class: 'faint' }, ` ${l.tokenizer.tokenizer}`) : null,
            l.slowest ? make('span', { class: 'faint' }, ' slowest') : null) },
        { title: 'Inputs', number: true, cell: (l) => count(l.count) },
        { title: 'Time', number: true, cell: (l) => seconds(l.seconds) },
        { title: 'Share', number: true, hint: 'of the time of all inputs', cell: (l) => share(l.share, percent(l.share)) },
        { title: 'Mean', number: true, cell: (l) => seconds(l.mean_s) },
        { title: 'p99', number: true, cell: (l) => seconds(l.p99_s) },
        { title: 'Max', number: true, cell: (l) => seconds(l.max_s) },
    ]);

    constructor() {
        this.parts.body.append(this.advice, this.list.element, this.lengths.element);
    }

    show(e: Engine, chosen: Chosen): void {
        this.shown = (e.tokenizers ?? []).filter((t) => isChosen(t, chosen));
        this.element.hidden = !this.shown.length;
        const texts = this.shown.flatMap((t) => t.advice.map((a) => `${t.tokenizer}: ${a.text}.`));
        this.advice.hidden = !texts.length;
        clear(this.advice, ...texts.map((text) => make('p', { class: 'verdict' }, make('span', { class: 'badge warn' }, 'advice'), ` ${text}`)));
        this.list.show(this.shown);
        this.lengths.show(lengthsOf(this.shown));
    }
}

class Pools {
    private readonly parts = titled('Pools of the engine', 'engine_pools');
    readonly element = this.parts.element;
    private shown: readonly PoolRow[] = [];
    private readonly list = new List<PoolRow>('Pools', (p) => `${p.pid} ${p.pool ?? ''}`, [
        { title: 'Pool', cell: (p) => (p.pool === null ? make('b', {}, 'All') : named(p.pool, ownerOf(p, this.shown.filter((o) => o.pool !== null)))) },
        { title: 'Used', number: true, cell: (p) => bytes(p.used_bytes) },
        { title: 'Peak', number: true, cell: (p) => bytes(p.peak_bytes) },
        { title: 'Capacity', number: true, cell: (p) => bytes(p.capacity_bytes) },
        { title: 'External', number: true, hint: 'fragmentation: of what is free, what cannot be had in one piece', cell: (p) => share(p.fragmentation_external, percent(p.fragmentation_external), 's2') },
        { title: 'Internal', number: true, hint: 'fragmentation: of what is used, what nobody asked for', cell: (p) => share(p.fragmentation_internal, percent(p.fragmentation_internal), 's2') },
        { title: 'Allocations', number: true, cell: (p) => count(p.allocations.count) },
        { title: 'Mean', number: true, hint: 'of an allocation', cell: (p) => seconds(p.allocations.mean_s) },
        { title: 'p99', number: true, hint: 'of an allocation', cell: (p) => seconds(p.allocations.p99_s) },
        { title: 'Frees', number: true, cell: (p) => count(p.frees.count) },
        { title: 'Mean', number: true, hint: 'of a free', cell: (p) => seconds(p.frees.mean_s) },
        { title: 'Failures', number: true, cell: (p) => make('span', { class: p.failures ? 'badge bad' : null }, count(p.failures)) },
    ]);

    constructor() {
        this.parts.body.append(this.list.element);
    }

    show(e: Engine, chosen: Chosen): void {
        this.shown = poolsOf(e, chosen);
        this.element.hidden = !this.shown.length;
        this.list.show(this.shown);
    }
}

// Cards that follow what engines tell, and the processes that are chosen. No card is shown before
// there is something in it, nor where an agent is too old to answer.
export class EngineCards {
    readonly element: HTMLElement;
    private readonly cards: { element: HTMLElement; show: (e: Engine, chosen: Chosen) => void }[];
    private readonly off: () => void;
    private engine: Engine | null = null;
    private timer = 0;
    private open = true;

    constructor(which: 'pools' | 'work', private readonly changed: () => void = () => undefined) {
        this.cards = which === 'pools' ? [new Pools()] : [new Devices(), new Tokenizers()];
        this.element = make('div', { class: 'stack', hidden: true }, which === 'work' ? heading('Devices and tokenizer') : null, ...this.cards.map((c) => c.element));
        this.off = state.on(['process', 'pid'], () => this.draw());
        if (mayHave('/api/engine')) void this.round();
    }

    get isEmpty(): boolean {
        return this.element.hidden;
    }

    end(): void {
        this.open = false;
        window.clearTimeout(this.timer);
        this.off();
    }

    private async round(): Promise<void> {
        if (!document.hidden || !this.engine) {
            this.engine = await apiAt('').get<Engine>('/api/engine').catch(() => this.engine);
            this.draw();
        }
        if (this.open && !isFrozen()) this.timer = window.setTimeout(() => void this.round(), AGAIN_MS);
    }

    private draw(): void {
        if (!this.engine) return;
        const chosen = { process: state.get('process'), pid: state.get('pid') };
        for (const c of this.cards) c.show(this.engine, chosen);
        const empty = this.cards.every((c) => c.element.hidden);
        if (this.element.hidden === empty) return;
        this.element.hidden = empty;
        this.changed();
    }
}
