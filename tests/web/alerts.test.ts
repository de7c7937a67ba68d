// Alerts and regressions in words.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { alertFacts, alertState, beforeAndAfter, effectOf, receiverTrouble, regressionState, toldOf, unchangedText, watchedText } from '../../web/src/core/alerts';
import { Alert, Alerts, Regression } from '../../web/src/core/types';

const ALERT: Alert = {
    id: 'a', kind: 'memory', state: 'firing', severity: 'critical', summary: 'memory is 93.2', labels: {}, since: 100, started: 90, muted: false, held: null,
    notifications: [],
};
const told = (outcome: string, error: string | null = null, receiver = 'webhook') => ({ receiver, state: 'firing', outcome, time: 100, error });

test('the state of an alert, and who was told', () => {
    assert.equal(alertState(ALERT), 'firing');
    assert.equal(alertState({ ...ALERT, muted: true }), 'firing, muted');
    assert.deepEqual(toldOf(ALERT), { text: '', bad: false });
    assert.deepEqual(toldOf({ ...ALERT, notifications: [told('sent', null, 'log'), told('sent')] }), { text: 'told log, webhook', bad: false });
    assert.deepEqual(toldOf({ ...ALERT, notifications: [told('sent', null, 'log'), told('queued')] }), { text: 'webhook: waits to be sent', bad: false });
    assert.deepEqual(toldOf({ ...ALERT, notifications: [told('sent', null, 'log'), told('queued', 'refused')] }), { text: 'webhook: refused; tried again', bad: true });
    assert.deepEqual(toldOf({ ...ALERT, notifications: [told('refused', '404 Not Found')] }), { text: 'webhook: 404 Not Found', bad: true });
    assert.equal(toldOf({ ...ALERT, held: 'muted' }).text, 'not sent: muted');
    assert.match(toldOf({ ...ALERT, held: 'severity' }).text, /min_severity/);
});

const RECEIVER: Alerts['receivers'][number] = {
    name: 'webhook', kind: 'webhook', to: 'http://host', queued: 0, sent: 0, failed: 0, refused: 0, dropped: 0, last_sent: null, last_failed: null, last_error: null,
};
const ALERTS: Alerts = { time: 0, firing: 0, firing_muted: 0, pending: 0, alerts: [], receivers: [], rules: [], mutes: [] };

test('what is watched, and receivers that cannot be reached', () => {
    assert.deepEqual(alertFacts(ALERTS), ['no rule is set']);
    assert.deepEqual(alertFacts({ ...ALERTS, firing: 2, firing_muted: 1, pending: 1, rules: [{ name: 'cpu' }], mutes: [{ id: 1, active: true, comment: null }, { id: 2, active: false, comment: null }] }),
        ['2 firing, 1 firing, but muted, 1 pending', '1 rule is watched', '1 mute in force']);
    const trouble = (more: Partial<typeof RECEIVER>) =>
        receiverTrouble({ ...ALERTS, receivers: [{ ...RECEIVER, ...more }] });
    assert.deepEqual(trouble({}), []);
    assert.deepEqual(trouble({ queued: 1 }), []); // on its way
    assert.deepEqual(trouble({ queued: 2, last_failed: 5, last_error: 'no route' }), ['webhook (http://host): no route; 2 notifications wait']);
    assert.deepEqual(trouble({ last_failed: 5, last_sent: 6, last_error: 'no route' }), []); // it got through since
    assert.deepEqual(trouble({ last_failed: 7, last_sent: 6, last_error: '404' }), ['webhook (http://host): 404']);
    // A row of an alert says it already.
    const one = { ...ALERT, notifications: [told('queued', 'no route')] };
    assert.deepEqual(receiverTrouble({ ...ALERTS, alerts: [one], receivers: [{ ...RECEIVER, queued: 2, last_failed: 5, last_error: 'no route' }] }), []);
});

const CHANGE: Regression = {
    id: 1, kind: 'function', verdict: 'worse', severity: 'warning', state: 'open', subject: 'dequantize', program: 'engine', unit: null, since: 10000, until: null,
    absolute: 0.5, relative: 0.12, relative_low: 0.08, relative_high: 0.16, text: '', what_changed: [],
};

test('a regression: effect, state, and the flame graph before and after', () => {
    assert.equal(effectOf(CHANGE), '+12 % (+8 % to +16 %)');
    assert.equal(effectOf({ ...CHANGE, relative: -0.05, relative_low: null }), '-5 %');
    assert.equal(effectOf({ ...CHANGE, relative: null, unit: 's' }), '+0.5 s');
    assert.equal(effectOf({ ...CHANGE, relative: null, absolute: null }), '');
    assert.equal(regressionState(CHANGE), 'worse');
    assert.equal(regressionState({ ...CHANGE, state: 'went_away', until: 10090 }), 'worse, went away after 1 min 30 s');
    assert.equal(regressionState({ ...CHANGE, state: 'went_away' }), 'worse, went away');
    assert.deepEqual(beforeAndAfter(CHANGE, 10600), { search: 'dequantize', process: 'engine', range: null, from: '10000', to: '10600', base: '9400..10000' });
    assert.equal(beforeAndAfter(CHANGE, 90000)?.['to'], '13600');
    assert.equal(beforeAndAfter({ ...CHANGE, kind: 'series' }, 10600), null);
    assert.equal(watchedText({ time: 0, series_watched: 1, series_learning: 0, programs_profiled: 0, regressions: [] }), '1 series is watched.');
    assert.equal(watchedText({ time: 0, series_watched: 9, series_learning: 2, programs_profiled: 1, regressions: [] }),
        '9 series are watched, 2 of them not long enough yet to judge, and the functions of 1 program.');
    assert.match(unchangedText({ time: 0, series_watched: 9, series_learning: 2, programs_profiled: 1, regressions: [] }), /nothing changed/);
    assert.match(unchangedText({ time: 0, series_watched: 2, series_learning: 2, programs_profiled: 0, regressions: [] }), /Nothing can be judged yet/);
});
