// Regressions on the page Findings: what changed for good, by how much, and what else changed then.

import { beforeAndAfter, effectOf, regressionState, unchangedText, watchedText } from '../core/alerts';
import { apiAt, sentence } from '../core/api';
import { make } from '../core/dom';
import { clock } from '../core/format';
import { now } from '../core/now';
import { state } from '../core/state';
import { Health, Regression, Regressions } from '../core/types';
import { severityBadge, whenText } from './alerts_card';
import { List, card } from './kit';
import { askOptional } from './optional';

const EVERY_MS = 30000;
const LIMIT = 50;

function whatCell(r: Regression): HTMLElement {
    const compare = beforeAndAfter(r, now());
    return make('div', { class: 'wide' }, make('bdi', {}, r.text),
        compare ? make('a', { class: 'beside', href: state.link('cpu', compare) }, 'Before and after') : null,
        r.what_changed.length ? make('ul', { class: 'changed' }, ...r.what_changed.map((f) => make('li', { class: 'soft' },
            f.time !== null ? make('time', { datetime: new Date(f.time * 1000).toISOString() }, `${clock(f.time)} `) : null, make('bdi', {}, f.text)))) : null);
}

function regressionList(): List<Regression> {
    return new List<Regression>('Regressions', (r) => String(r.id), [
        { title: 'Severity', cell: (r) => severityBadge(r.severity) },
        { title: 'What', cell: whatCell },
        { title: 'Verdict', cell: (r) => make('span', { class: r.state === 'open' ? null : 'soft' }, regressionState(r)) },
        { title: 'Effect', cell: (r) => make('span', { class: 'short' }, effectOf(r)), hint: 'Against before, with its 95 % interval' },
        { title: 'Since', cell: (r) => whenText(r.since) },
    ]);
}

// Without a store nothing is looked for, and the agent says so with a 404.
async function hasStore(): Promise<boolean> {
    const health = await apiAt('').get<Health>('/health');
    return health.components['store']?.status !== 'off';
}

export class RegressionsCard {
    readonly element: HTMLElement;
    private readonly facts = make('span', { class: 'soft' });
    private readonly list = regressionList();
    private readonly none = make('p', { class: 'soft' });
    readonly end: () => void;

    constructor() {
        this.element = card('Regressions', { hidden: true }, this.list.element, this.none);
        this.element.querySelector('header')!.append(this.facts);
        this.end = askOptional<Regressions>({
            route: '/api/regressions', params: { limit: LIMIT }, everyMs: EVERY_MS, wanted: hasStore,
            show: (r) => this.show(r),
            failed: (e) => { this.facts.textContent = `not up to date: ${sentence(e)}`; },
        });
    }

    private show(r: Regressions): void {
        this.facts.textContent = watchedText(r);
        this.list.show(r.regressions);
        this.list.element.hidden = !r.regressions.length;
        this.none.textContent = unchangedText(r);
        this.none.hidden = r.regressions.length > 0;
        this.element.hidden = false;
    }
}
