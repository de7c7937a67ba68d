// <sonde-findings from to range limit severity active>: what the analysis concluded, with what to do
// about it and links to the data behind it. active: what goes on now comes first, then what the store
// keeps. Property `list`: findings that were worked out just now.

import { ApiError, aborted } from '../core/api';
import { keepFocus, make } from '../core/dom';
import { SondeElement, define } from '../core/element';
import { clock, since } from '../core/format';
import { isFrozen } from '../core/frozen';
import { now } from '../core/now';
import { parseRange } from '../core/series';
import { state } from '../core/state';
import { empty, failed, loading } from '../core/states';
import { Evidence, Finding, Findings } from '../core/types';
import css from '../styles/findings.css';

const EVERY_MS = 15000;
const BEFORE_S = 60; // of the profile that it is from, at least the end
const LEVELS = ['info', 'warning', 'critical'];

interface Place { page: string; text: string; values: Record<string, string | null> }

// Where the data behind a finding is.
function placeOf(type: string, subject: string): Place | null {
    switch (type) {
        case 'function': case 'cpu_hot_spot': return { page: 'cpu', text: 'Flame graph', values: { search: subject } };
        case 'site': case 'leak': case 'cache_growth': case 'growth': case 'memory':
            return { page: 'memory', text: 'Memory', values: { search: subject } };
        case 'span': return { page: 'cpu', text: 'Flame graph', values: { span: subject } };
        case 'request': return { page: 'requests', text: 'Request', values: { request: subject } };
        default: return null;
    }
}

function beganAt(f: Finding): number | null {
    return f.since ?? f.time ?? null;
}

function within(f: Finding): Record<string, string | null> {
    const began = beganAt(f);
    if (began === null) return {};
    const until = f.until ?? (f.since ? now() : began);
    return { range: null, from: String(Math.floor(Math.min(began, until - BEFORE_S))), to: String(Math.ceil(until)) };
}

function link(place: Place, f: Finding, text: string): HTMLElement {
    return make('a', { href: state.link(place.page, { ...place.values, ...within(f) }) }, text);
}

function amount(e: Evidence): string {
    if (e.value === null) return '';
    const short = (v: number) => Number(v.toPrecision(3)).toLocaleString('en-US');
    switch (e.unit) {
        case 'seconds': return e.value < 1 ? `${short(e.value * 1000)} ms` : `${short(e.value)} s`;
        case 'ratio': return `${short(e.value * 100)} %`;
        case 'bytes': return `${short(e.value / 1048576)} MiB`;
        case 'bytes per second': return `${short(e.value / 1024)} KiB/s`;
        default: return `${short(e.value)}${e.unit ? ` ${e.unit}` : ''}`;
    }
}

function proof(f: Finding, e: Evidence, own: boolean): HTMLElement {
    const place = own ? placeOf(e.type, e.subject) : null;
    const name = `${e.subject}${e.labels ? `{${e.labels}}` : ''}`;
    const what = [e.what, amount(e)].filter((t) => t).join(' ');
    return make('li', {},
        place ? link(place, f, name) : make('span', { class: 'name' }, name),
        what ? `: ${what}` : '',
        e.file ? make('span', { class: 'where' }, ` ${e.file}${e.line ? `:${e.line}` : ''}`) : null);
}

// What there is to say beyond the sentence.
function details(f: Finding, own: boolean): HTMLElement | null {
    const proofs = f.evidence ?? [];
    const symptoms = f.symptoms ?? [];
    if (!proofs.length && !symptoms.length) return null;
    const words = [proofs.length ? 'evidence' : '', symptoms.length ? `${symptoms.length} symptom${symptoms.length > 1 ? 's' : ''}` : ''];
    return make('details', {},
        make('summary', {}, words.filter((w) => w).join(', ')),
        proofs.length ? make('ul', { class: 'proofs' }, ...proofs.map((e) => proof(f, e, own))) : null,
        symptoms.length ? make('ul', { class: 'symptoms' },
            ...symptoms.map((s) => make('li', {}, make('b', {}, `${s.title ?? s.kind}: `), s.text))) : null);
}

function body(f: Finding, own: boolean): HTMLElement {
    const place = own && !f.evidence ? placeOf(f.kind, f.subject) : null;
    const gain = f.gain !== null && f.gain !== undefined && f.gain_of
        ? ` Gain: up to ${Math.ceil(f.gain * 100)} % of the ${f.gain_of}.` : '';
    return make('div', { class: 'text' },
        f.title ? make('b', {}, `${f.title}. `) : null, f.text,
        f.file ? make('span', { class: 'where' }, ` ${f.file}${f.line ? `:${f.line}` : ''}`) : null,
        place ? make('span', { class: 'links' }, link(place, f, place.text)) : null,
        f.advice ? make('p', { class: 'advice' }, f.advice, '.', gain ? make('span', { class: 'gain' }, gain) : null) : null,
        details(f, own));
}

function when(f: Finding): HTMLElement | null {
    const began = beganAt(f);
    if (began === null) return null;
    const goesOn = f.time === undefined && f.until === null;
    return make('time', { class: 'when', datetime: new Date(began * 1000).toISOString(), title: clock(began, true) },
        goesOn ? `for ${since(began, now()).replace(/ ago$/, '')}` : since(began, now()));
}

export class FindingsElement extends SondeElement {
    static observedAttributes = ['from', 'to', 'range', 'limit', 'severity', 'active'];
    private readonly box = make('div', { class: 'state' }, loading('Loading findings'));
    private given: Finding[] | null = null;
    private abort: AbortController | null = null;
    private timer = 0;
    private shown = '';

    constructor() {
        super(css);
        this.root.append(this.box);
    }

    set list(findings: Finding[]) {
        this.given = findings;
        this.show(findings);
    }

    protected update(): void {
        this.onEnd(() => {
            this.abort?.abort();
            window.clearTimeout(this.timer);
        });
        if (this.given) this.show(this.given);
        else void this.load();
    }

    private async load(): Promise<void> {
        window.clearTimeout(this.timer);
        this.abort?.abort();
        const abort = new AbortController();
        this.abort = abort;
        const spec = this.hasAttribute('range') ? parseRange(this.getAttribute('range')) : null;
        try {
            const answer = await this.api.get<Findings>('/api/findings', {
                from: this.number('from') ?? (spec ? spec.from ?? Math.floor(now() - spec.seconds) : null),
                to: this.number('to') ?? spec?.to ?? null,
                limit: this.number('limit') ?? 100,
                severity: this.getAttribute('severity'),
            }, abort.signal);
            this.show(this.hasAttribute('active') ? this.withActive(answer) : answer.findings);
        } catch (e) {
            if (aborted(e)) return;
            this.shown = '';
            if (e instanceof ApiError && e.status === 404 || e instanceof ApiError && /store/.test(e.message)) {
                this.box.replaceChildren(empty('No findings are kept', e.message));
            } else {
                this.box.replaceChildren(failed(e, () => void this.load()));
            }
        }
        if (!isFrozen() && this.isConnected) this.timer = window.setTimeout(() => void this.load(), EVERY_MS);
    }

    // What goes on is not told again as something that began.
    private withActive(answer: Findings): Finding[] {
        const least = LEVELS.indexOf(this.getAttribute('severity') ?? 'info');
        const active = (answer.active ?? []).filter((f) => LEVELS.indexOf(f.severity) >= least);
        const known = new Set(active.map((f) => `${f.kind} ${f.subject}`));
        const limit = this.number('limit') ?? 100;
        return [...active, ...answer.findings.filter((f) => !known.has(`${f.kind} ${f.subject}`))].slice(0, limit);
    }

    private show(findings: readonly Finding[]): void {
        const key = JSON.stringify([findings.map((f) => [f.id, f.time, f.text, f.advice]), Math.floor(now() / 60)]);
        if (key === this.shown) return;
        this.shown = key;
        this.emit('sonde-findings', { count: findings.length });
        if (!findings.length) {
            this.box.replaceChildren(empty('Nothing found',
                'Nothing that was sampled or recorded lately calls for action. "Analyse now" on the page Findings looks closer.'));
            return;
        }
        const own = document.querySelector('main[data-page]') !== null; // links make sense on our pages only
        const open = new Set([...this.box.querySelectorAll('details[open]')].map((d) => (d.closest('li') as HTMLElement).dataset['key']));
        const list = make('ul', { class: 'findings' }, ...findings.map((f) => {
            const item = make('li', { 'data-key': `${f.kind} ${f.subject}` },
                make('span', { class: `severity ${f.severity}` }, f.severity), body(f, own), when(f));
            if (open.has(item.dataset['key'])) item.querySelector('details')?.setAttribute('open', '');
            return item;
        }));
        keepFocus(this.box, () => this.box.replaceChildren(list));
    }
}

define('sonde-findings', FindingsElement);
