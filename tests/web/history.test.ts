// The history page: moving in time, and what happened in it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Run } from '../../web/src/core/types';
import { around, clampSpan, clusters, endsNow, eventsFrom, extentOf, laneOf, panSpan, zoomSpan } from '../../web/src/pages/history/model';

const within = { from: 0, to: 1000 };

function run(id: number, start: number, end: number, more: Partial<Run> = {}): Run {
    return { id, name: `r${id}`, tags: '', host: '', version: '', start, end, ticks: 0, profiles: 0, spans: 0, requests: 0, findings: 0, live: false, ...more };
}

test('moving stays in what is kept', () => {
    assert.deepEqual(panSpan({ from: 100, to: 200 }, 50, within), { from: 150, to: 250 });
    assert.deepEqual(panSpan({ from: 100, to: 200 }, -500, within), { from: 0, to: 100 });
    assert.deepEqual(panSpan({ from: 100, to: 200 }, 5000, within), { from: 900, to: 1000 });
    assert.deepEqual(zoomSpan({ from: 400, to: 600 }, 0.5, 500, within), { from: 450, to: 550 });
    assert.deepEqual(zoomSpan({ from: 400, to: 600 }, 100, 500, within), within);
    assert.deepEqual(clampSpan({ from: 500, to: 500 }, within), { from: 500, to: 505 });
    assert.deepEqual(clampSpan({ from: -50, to: 2000 }, { from: 0, to: 2 }), { from: 0, to: 2 });
    assert.ok(endsNow({ from: 900, to: 1000 }, within) && !endsNow({ from: 800, to: 900 }, within));
});

test('a young store has an hour of room', () => {
    assert.deepEqual(extentOf([], 10000), { from: 6400, to: 10000 });
    assert.deepEqual(extentOf([run(1, 9000, 9500)], 10000), { from: 6400, to: 10000 });
    assert.deepEqual(extentOf([run(1, 100, 9500)], 10000), { from: 100, to: 10000 });
});

test('runs that overlap are below each other', () => {
    const lanes = laneOf([run(1, 0, 10), run(2, 5, 15), run(3, 10, 20), run(4, 6, 30), run(5, 7, 30)], 3);
    assert.deepEqual([1, 2, 3, 4, 5].map((id) => lanes.get(id)), [0, 1, 0, 2, 2]);
});

test('what happened is known without a list of it', () => {
    const events = eventsFrom([run(1, 100, 200), run(2, 500, 900, { live: true })],
        [{ id: 7, run: 1, time: 150, kind: 'slow', severity: 'warning', text: '<b>slow</b>', subject: '', value: null, unit: '' }],
        [{ id: 3, name: 'base', kind: 'session', program: 'p', start: 50, end: 120, samples: 1, bytes: 1, run: 1 }], { from: 100, to: 600 });
    assert.deepEqual(events.map((e) => [e.time, e.kind, e.text]), [
        [500, 'start', 'r2 started'], [200, 'end', 'r1 ended'], [150, 'finding', '<b>slow</b>'], [100, 'start', 'r1 started'], [50, 'session', 'base'],
    ]);
    assert.deepEqual(eventsFrom([run(1, 100, 200)], [], [], { from: 300, to: 400 }), []);
});

test('marks that are close are one', () => {
    const events = eventsFrom([run(1, 100, 104), run(2, 300, 900)], [], [], within);
    assert.deepEqual(clusters(events, (t) => t, 6).map((c) => [c.x, c.events.length]), [[100, 2], [300, 1], [900, 1]]);
});

test('an event is shown with what was around it', () => {
    assert.deepEqual(around({ time: 1000, end: null }), { from: 970, to: 1030 });
    assert.deepEqual(around({ time: 1000, end: 1200 }), { from: 900, to: 1300 });
});
