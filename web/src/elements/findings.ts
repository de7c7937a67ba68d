// <sonde-findings from to range limit severity>: what the analysis concluded, newest first, with
// links to the data behind it. Property `list`: findings that were worked out just now.

import { ApiError, aborted } from '../core/api';
import { keepFocus, make } from '../core/dom';
import { SondeElement, define } from '../core/element';
import { clock, since } from '../core/format';
import { isFrozen } from '../core/frozen';
import { now } from '../core/now';
import { parseRange } from '../core/series';
import { state } from '../core/state';
import { empty, failed, loading } from '../core/states';
import { Finding, Findings } from '../core/types';
import css from '../styles/findings.css';

const EVERY_MS = 15000;
const BEFORE_S = 60; // of the profile that it is from, at least the end

// Where the data behind a finding is.
function evidence(f: Finding): { page: string; text: string; values: Record<string, string | null> } | null {
    switch (f.kind) {
        case 'function': return { page: 'cpu', text: 'Flame graph', values: { search: f.subject } };
        case 'leak': case 'growth': case 'memory': return { page: 'memory', text: 'Memory', values: { search: f.subject } };
        case 'span': case 'wait': case 'waiting': return { page: 'cpu', text: 'Flame graph', values: { span: f.subject } };
        default: return null;
    }
}

export class FindingsElement extends SondeElement {
    static observedAttributes = ['from', 'to', 'range', 'limit', 'severity'];
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
            this.show(answer.findings);
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

    private show(findings: readonly Finding[]): void {
        const key = JSON.stringify([findings.map((f) => [f.id, f.time, f.text]), Math.floor(now() / 60)]);
        if (key === this.shown) return;
        this.shown = key;
        this.emit('sonde-findings', { count: findings.length });
        if (!findings.length) {
            this.box.replaceChildren(empty('Nothing found',
                'Findings come from profiles: record a session, or choose "Analyse now" on the page Findings.'));
            return;
        }
        const own = document.querySelector('main[data-page]') !== null; // links make sense on our pages only
        const list = make('ul', {}, ...findings.map((f) => {
            const to = own ? evidence(f) : null;
            const when = make('time', { class: 'when', datetime: new Date(f.time * 1000).toISOString(), title: clock(f.time, true) },
                since(f.time, now()));
            return make('li', {},
                make('span', { class: `severity ${f.severity}` }, f.severity),
                make('span', { class: 'text' }, f.text,
                    to ? make('a', { class: 'links', href: state.link(to.page, { ...to.values, range: null, from: String(Math.floor(f.time - BEFORE_S)), to: String(Math.ceil(f.time)) }) }, to.text) : null),
                when);
        }));
        keepFocus(this.box, () => this.box.replaceChildren(list));
    }
}

define('sonde-findings', FindingsElement);
