// Times at an axis: round, in order, not too many.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { timeTicks } from '../../web/src/core/timeaxis';

const START = 1794887640; // a whole minute

test('times are at multiples of a step that people count in', () => {
    const cases: [number, number, number][] = [
        // seconds, most, step
        [60, 6, 10], [900, 8, 120], [3600, 6, 600], [86400, 12, 7200], [0.1, 5, 0.02], [7 * 86400, 8, 86400],
    ];
    for (const [seconds, most, step] of cases) {
        const ticks = timeTicks(START, START + seconds, most);
        assert.ok(ticks.length >= 1 && ticks.length <= most + 1, `${seconds}: ${ticks.length}`);
        ticks.forEach((t, i) => {
            assert.ok(t.time >= START - 1e-3 && t.time <= START + seconds + 1e-3, `${seconds}: ${t.time} is inside`);
            if (i) assert.ok(Math.abs(t.time - ticks[i - 1].time - step) < 1e-3, `${seconds}: step ${t.time - ticks[i - 1].time}`);
        });
    }
});

test('a label says as much as its step needs', () => {
    const d = new Date(START * 1000);
    const hour = String(d.getHours()).padStart(2, '0');
    const minute = String(d.getMinutes()).padStart(2, '0');
    assert.equal(timeTicks(START, START + 30, 6)[0].text, `${hour}:${minute}:00`);
    assert.equal(timeTicks(START, START + 600, 10)[0].text, `${hour}:${minute}`);
    assert.equal(timeTicks(START, START + 0.5, 5)[1].text, `${hour}:${minute}:00.1`);
    assert.match(timeTicks(START, START + 30 * 86400, 10)[0].text, /^\d\d-\d\d$/);
});

test('no time, no labels', () => {
    assert.deepEqual(timeTicks(5, 5, 10), []);
    assert.deepEqual(timeTicks(5, 4, 10), []);
    assert.deepEqual(timeTicks(0, 10, 0), []);
});
