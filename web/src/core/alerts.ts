// Alerts and regressions in words, for the lists of the page Findings. No DOM.

import { digits, percent, span } from './format';
import { Alert, Alerts, Regression, Regressions } from './types';

// "firing", "firing, muted", "resolved".
export function alertState(a: Alert): string {
    return a.muted ? `${a.state}, muted` : a.state;
}

export interface Told { text: string; bad: boolean }

// What receivers know of it: what went wrong first.
export function toldOf(a: Alert): Told {
    const bad = a.notifications.find((n) => n.error !== null);
    if (bad) return { text: `${bad.receiver}: ${bad.error ?? ''}${bad.outcome === 'queued' ? '; tried again' : ''}`, bad: true };
    if (a.held === 'muted') return { text: 'not sent: muted', bad: false };
    if (a.held === 'severity') return { text: 'not sent: less severe than alerts.min_severity', bad: false };
    const waiting = a.notifications.filter((n) => n.outcome === 'queued').map((n) => n.receiver);
    if (waiting.length) return { text: `${waiting.join(', ')}: waits to be sent`, bad: false };
    const sent = a.notifications.filter((n) => n.outcome === 'sent').map((n) => n.receiver);
    return { text: sent.length ? `told ${sent.join(', ')}` : '', bad: false };
}

const plural = (n: number, what: string, more = `${what}s`) => `${n} ${n === 1 ? what : more}`;

// What the card says below its heading: how many, what is watched, who cannot be reached.
export function alertFacts(a: Alerts): string[] {
    const list: string[] = [];
    const states = [
        a.firing ? `${a.firing} firing` : '', a.firing_muted ? `${a.firing_muted} firing, but muted` : '', a.pending ? `${a.pending} pending` : '',
    ].filter(Boolean).join(', ');
    if (states) list.push(states);
    list.push(a.rules.length ? `${plural(a.rules.length, 'rule is', 'rules are')} watched` : 'no rule is set');
    const active = a.mutes.filter((m) => m.active).length;
    if (active) list.push(`${plural(active, 'mute')} in force`);
    return list;
}

// Receivers with notifications that did not get through, but for what the rows of alerts say already.
export function receiverTrouble(a: Alerts): string[] {
    return a.receivers.filter((r) => r.queued > 0 || (r.last_error !== null && (r.last_failed ?? 0) > (r.last_sent ?? 0)))
        .filter((r) => r.last_error !== null && !a.alerts.some((x) => toldOf(x).text.startsWith(`${r.name}: ${r.last_error ?? ''}`)))
        .map((r) => `${r.name} (${r.to}): ${r.last_error ?? ''}${r.queued ? `; ${plural(r.queued, 'notification waits', 'notifications wait')}` : ''}`);
}

const signed = (v: number) => `${v > 0 ? '+' : ''}${percent(v, 2)}`;

// "+12 % (8 % to 16 %)".
export function effectOf(r: Regression): string {
    if (r.relative !== null) {
        const interval = r.relative_low !== null && r.relative_high !== null ? ` (${signed(r.relative_low)} to ${signed(r.relative_high)})` : '';
        return `${signed(r.relative)}${interval}`;
    }
    if (r.absolute === null) return '';
    return `${r.absolute > 0 ? '+' : ''}${digits(r.absolute)}${r.unit ? ` ${r.unit}` : ''}`;
}

export function regressionState(r: Regression): string {
    if (r.state !== 'went_away') return r.verdict;
    return r.until !== null && r.since !== null && r.until > r.since ? `${r.verdict}, went away after ${span(r.until - r.since)}` : `${r.verdict}, went away`;
}

// The flame graph of after, against as long before: an hour at most.
export function beforeAndAfter(r: Regression, now: number): Record<string, string | null> | null {
    if (r.kind !== 'function' || r.since === null) return null;
    const length = Math.min(3600, Math.max(60, (r.until ?? now) - r.since));
    const whole = (t: number) => String(Math.round(t));
    return {
        search: r.subject, process: r.program, range: null, from: whole(r.since), to: whole(r.since + length),
        base: `${whole(r.since - length)}..${whole(r.since)}`,
    };
}

// Where no change is listed: none is there, or none could be seen.
export function unchangedText(r: Regressions): string {
    return r.series_watched > r.series_learning ? 'Of what can be judged nothing changed for good.'
        : 'Nothing can be judged yet: it takes a history in the store.';
}

export function watchedText(r: Regressions): string {
    const learning = r.series_learning ? `, ${r.series_learning} of them not long enough yet to judge` : '';
    const programs = r.programs_profiled ? `, and the functions of ${plural(r.programs_profiled, 'program')}` : '';
    return `${plural(r.series_watched, 'series is', 'series are')} watched${learning}${programs}.`;
}
