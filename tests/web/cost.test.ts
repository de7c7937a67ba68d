// What sonde costs, in one line: the figure, or what is missing until there is one.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { costDetails, costLine } from '../../web/src/core/cost';
import { Cost } from '../../web/src/core/types';

const OFF: Cost = {
    enabled: false, covers: 'cpu_sampling', state: 'off', text: null, method: null, measure: null, work: null, ratio: null, low: null, high: null,
    pairs: 0, confidence: 0.95, pairs_more: 0, window_seconds: null, off_ratio: null, reason: 'cost.enabled is false',
};
const KNOWN: Cost = {
    ...OFF, enabled: true, state: 'measuring', text: 'sonde costs this program 0.3 ± 0.2 % (CPU time per output token; 24 pairs of windows)', method: 'comparison',
    measure: 'cpu_per_work', work: 'output token', ratio: 0.003, low: 0.001, high: 0.005, pairs: 24, window_seconds: 2, off_ratio: 0.08, reason: null,
};

test('one line, whatever is known', () => {
    assert.equal(costLine(KNOWN), 'sonde costs this program 0.3 ± 0.2 % (CPU time per output token; 24 pairs of windows).');
    assert.equal(costLine({ ...KNOWN, text: 'what sonde costs this program is not known yet: 8 pairs of windows more' }),
        'What sonde costs this program is not known yet: 8 pairs of windows more.');
    assert.equal(costLine(OFF), 'What sonde costs this program is not measured: cost.enabled is false.');
    assert.equal(costLine({ ...OFF, reason: null }), 'What sonde costs this program is not measured.');
});

test('how it is known', () => {
    const [how, off] = costDetails(KNOWN);
    assert.match(how, /CPU time per output token.*95 % confidence it is between 0\.1 % and 0\.5 %/);
    assert.match(off, /off for 8 % of the time/);
    assert.match(costDetails({ ...KNOWN, low: -0.001 })[1], /at most 0\.5 %/);
    assert.match(costDetails({ ...KNOWN, low: null, high: null, method: 'estimate', measure: null })[0], /estimate/);
    assert.match(costDetails({ ...KNOWN, measure: 'of a newer agent' })[0], /of a newer agent/);
    assert.match(costDetails({ ...KNOWN, low: null, high: null, method: null, measure: null })[0], /random short windows/);
    assert.deepEqual(costDetails(OFF), []);
});
