// Alerts on the page Findings: what fires, since when, and who could not be told.

import { alertFacts, alertState, receiverTrouble, toldOf } from '../core/alerts';
import { sentence } from '../core/api';
import { clear, make } from '../core/dom';
import { clock, since } from '../core/format';
import { now } from '../core/now';
import { Alert, Alerts } from '../core/types';
import { List, card } from './kit';
import { askOptional } from './optional';

const EVERY_MS = 10000;

export function severityBadge(severity: string): HTMLElement {
    return make('span', { class: `severity ${severity}` }, severity);
}

// How long ago, with the time itself for who points at it.
export function whenText(t: number | null): HTMLElement | null {
    if (t === null) return null;
    return make('time', { datetime: new Date(t * 1000).toISOString(), title: clock(t, true) }, since(t, now()));
}

function alertList(): List<Alert> {
    return new List<Alert>('Alerts', (a) => a.id, [
        { title: 'Severity', cell: (a) => severityBadge(a.severity) },
        { title: 'What', cell: (a) => make('div', { class: 'wide', dir: 'auto' }, a.summary) },
        { title: 'State', cell: (a) => make('span', { class: a.state === 'firing' && !a.muted ? 'short' : 'short soft' }, alertState(a)) },
        { title: 'Since', cell: (a) => whenText(a.since) },
        {
            title: 'Notifications', hint: 'What receivers were told', cell: (a) => {
                const { text, bad } = toldOf(a);
                return make('div', { class: `wide ${bad ? 'problem' : 'soft'}` }, text);
            },
        },
    ]);
}

export class AlertsCard {
    readonly element: HTMLElement;
    private readonly facts = make('span', { class: 'soft' });
    private readonly list = alertList();
    private readonly none = make('p', { class: 'soft' });
    private readonly trouble = make('ul', { class: 'troubles', 'aria-label': 'Receivers that could not be reached' });
    private troubles = '';
    readonly end: () => void;

    constructor() {
        this.element = card('Alerts', { hidden: true }, this.list.element, this.none, this.trouble);
        this.element.querySelector('header')!.append(this.facts);
        this.end = askOptional<Alerts>({
            route: '/api/alerts', everyMs: EVERY_MS,
            show: (a) => this.show(a),
            failed: (e) => { this.facts.textContent = `not up to date: ${sentence(e)}`; },
        });
    }

    private show(a: Alerts): void {
        this.facts.textContent = alertFacts(a).join(' · ');
        this.list.show(a.alerts);
        this.list.element.hidden = !a.alerts.length;
        this.none.hidden = a.alerts.length > 0;
        this.none.textContent = a.rules.length ? 'None fires, and none did in the last day.'
            : 'None. Rules are set with alerts.rules, or all that are shipped with alerts.resources=true.';
        const troubles = receiverTrouble(a);
        const key = JSON.stringify(troubles);
        if (key !== this.troubles) clear(this.trouble, ...troubles.map((t) => make('li', { class: 'problem' }, t)));
        this.troubles = key;
        this.trouble.hidden = !troubles.length;
        this.element.hidden = false;
    }
}
