// What a saved file answers, by the agent's rules.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Frozen, embedded, frozenHtml, readFrozen } from '../../web/src/core/frozen';
import { answerFrom, frozenStep } from '../../web/src/core/frozen_answer';
import { Events, Findings, Heatmap, QueryAnswer, Request, Requests, SeriesAnswer } from '../../web/src/core/types';

function series(name: string, labels: Record<string, string>, times: number[]) {
    return {
        name, labels, type: 'gauge', kind: 'custom', unit: '', source: 'x', process: labels['process'] ?? null, pid: null,
        points: times.map((time) => ({ time, value: time, count: 1 })),
    };
}

function request(id: string, arrived: number, ttft: number, timeline = false): Request {
    return {
        id, own_id: `own-${id}`, state: 'done', outcome: 'ok', arrived, ttft_s: ttft, total_s: ttft * 2, phases: {}, itl: null,
        tokens_out: 1, tokens_per_s: 1, source: 'api', pid: 1, program: 'p', model: 'm', route: '/r', trace_id: null, invalid: null,
        ...(timeline ? { timeline: [] } : {}),
    } as unknown as Request;
}

const ANSWERS: Record<string, unknown> = {
    '/api/query?from=100&step=5&to=200': {
        time: 200, from: 100, to: 200, step_s: 5, total: 2, truncated: false,
        series: [series('a_total', { process: 'p' }, [100, 105, 110]), series('b', {}, [100, 195])],
    },
    '/api/requests?from=100&limit=9&to=200': { time: 200, total: 3, requests: [request('1', 110, 0.1), request('2', 120, 0.4), request('3', 130, 0.2)] },
    '/api/requests/2': request('2', 120, 0.4, true),
    '/api/events?from=100&to=200': { events: [{ time: 110, kind: 'mark', id: 1 }, { time: 150, kind: 'start', id: 2 }] },
    '/api/findings?limit=5': { time: 200, findings: [{ id: 1, time: 120, severity: 'info' }, { id: 2, time: 130, severity: 'critical' }] },
    '/api/inference': { models: [] },
    '/api/flamegraph?from=100&to=200&type=cpu': { version: 1 },
};
const ask = <T>(path: string, params = {}) => answerFrom(ANSWERS, path, params) as T;

test('series are found by pattern and cut to the range', () => {
    assert.equal(frozenStep(ANSWERS), 5);
    const a = ask<QueryAnswer>('/api/query', { name: 'a_*|c', from: 105, to: 110, step: 1 });
    assert.equal(a.step_s, 5);
    assert.deepEqual(a.series.map((s) => [s.name, s.points!.map((p) => p.time)]), [['a_total', [100, 105]]]);
    assert.equal(ask<QueryAnswer>('/api/query', { name: 'nope' }).series.length, 0);
    assert.equal(ask<QueryAnswer>('/api/query', { name: '*', process: 'q' }).series.length, 0);
    assert.deepEqual(ask<SeriesAnswer>('/api/series').families.map((f) => f.name), ['a_total', 'b']);
});

test('requests are filtered, sorted and counted as the agent does', () => {
    const list = ask<Requests>('/api/requests', { from: 115, to: 200, sort: 'ttft', limit: 1 });
    assert.deepEqual([list.total, list.requests.map((r) => r.id)], [2, ['2']]);
    assert.deepEqual(ask<Requests>('/api/requests', { metric: 'ttft', min: 0.15, max: 0.4 }).requests.map((r) => r.id), ['3']);
    assert.ok(ask<Request>('/api/requests/own-2').timeline);
    assert.equal(ask('/api/requests/9'), undefined);
    const map = ask<Heatmap>('/api/heatmap', { metric: 'ttft', from: 100, to: 200 });
    assert.equal(map.cells.reduce((n, c) => n + c[2], 0), 3);
});

test('what has a time is cut by it, the rest is found by its path', () => {
    assert.deepEqual(ask<Events>('/api/events', { from: 120, to: 200 }).events.map((e) => e.id), [2]);
    assert.deepEqual(ask<Findings>('/api/findings', { severity: 'warning' }).findings.map((f) => f.id), [2]);
    assert.deepEqual(ask('/api/inference', { window: 60 }), { models: [] });
    assert.deepEqual(ask('/api/flamegraph', { type: 'cpu', from: 100.4, to: 199.8 }), { version: 1 });
    assert.equal(ask('/api/flamegraph', { type: 'cpu', from: 120, to: 199.8 }), undefined);
    assert.equal(ask('/api/flamegraph', { type: 'alloc', from: 100, to: 200 }), undefined);
});

test('no name ends the script that it is in', () => {
    const f: Frozen = {
        version: 1, title: '<b>"x"&', made: 1, source: 's', pages: ['cpu'], answers: { '/api/x': '</script><!--\u2028' },
    };
    assert.ok(!embedded(f).includes('<'));
    assert.deepEqual(readFrozen(embedded(f)), f);
    const html = frozenHtml(f, '1"2', 'code()', 'p{}');
    assert.equal(html.match(/<\/script>/g)!.length, 2);
    assert.ok(html.includes('<title>&#60;b&#62;&#34;x&#34;&#38;</title>'));
    assert.throws(() => readFrozen('{"version":2,"answers":{}}'), /version 2/);
});
