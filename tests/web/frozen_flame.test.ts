// Which flame graph of a saved file answers a question.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { savedGraph, savedTypes } from '../../web/src/core/frozen_flame';
import { Params } from '../../web/src/core/params';

const answers = {
    '/api/inference': 'no graph',
    '/api/flamegraph?from=100&to=200&type=cpu': 'cpu',
    '/api/flamegraph?from=100&phase=prefill&to=200&type=cpu': 'prefill',
    '/api/flamegraph?from=100&slowest=1%25&to=200&type=cpu': 'slowest',
    '/api/flamegraph?base=rest&from=100&slowest=1%25&to=200&type=cpu': 'slowest against the rest',
    '/api/flamegraph?from=100&to=200&type=live': 'live',
};

const cases: [Params, string | undefined][] = [
    [{}, 'cpu'],
    [{ type: 'cpu', from: 100, to: 200 }, 'cpu'],
    [{ type: 'cpu', from: '101', to: '199.5', nodes: 500, invert: true, fold: false }, 'cpu'],
    [{ type: 'cpu', from: 50, to: 300, functions: '0' }, 'cpu'],
    [{ type: 'cpu', from: 150, to: 200 }, undefined],
    [{ type: 'cpu', from: 100, to: 150 }, undefined],
    [{ type: 'cpu', phase: 'prefill' }, 'prefill'],
    [{ type: 'cpu', phase: 'decode' }, undefined],
    [{ type: 'cpu', slowest: '1%' }, 'slowest'],
    [{ type: 'cpu', slowest: '1%', base: 'rest' }, 'slowest against the rest'],
    [{ type: 'cpu', slowest: '2%' }, undefined],
    [{ type: 'live', live: '1' }, 'live'],
    [{ type: 'live', thread: 'main' }, undefined],
    [{ type: 'alloc' }, undefined],
];

test('a graph is of exactly the choice that is asked for', () => {
    for (const [params, want] of cases) {
        assert.equal(savedGraph(answers, params), want, JSON.stringify(params));
    }
});

test('samples of other tools stand in for CPU time, and only where there is none', () => {
    const folded = { '/api/flamegraph?from=1&to=2&type=samples': 'samples' };
    assert.equal(savedGraph(folded, { type: 'cpu' }), 'samples');
    assert.equal(savedGraph(folded, { type: 'live' }), undefined);
    assert.equal(savedGraph({ ...folded, ...answers }, { type: 'cpu' }), 'cpu');
});

test('a page that was saved has its own questions as keys', () => {
    const saved = {
        '/api/flamegraph?focus=a&fold=1&from=100.25&functions=0&to=200&type=live': 'a part',
        '/api/flamegraph?from=100.25&invert=1&to=200': 'leaf first',
        '/api/flamegraph?fold=1&from=100.25&to=200': 'cpu',
        '/api/flamegraph?base_profile=3&profile=4': 'a session against another',
    };
    assert.equal(savedGraph(saved, { from: '100.25', to: '200', invert: false, fold: true }), 'cpu');
    assert.equal(savedGraph(saved, { profile: '4', base_profile: '3' }), 'a session against another');
    assert.equal(savedGraph(saved, { type: 'live' }), undefined);
    assert.deepEqual(savedTypes(saved), ['live', 'cpu']);
});

test('what there is is named', () => {
    assert.deepEqual(savedTypes(answers), ['cpu', 'live']);
    assert.deepEqual(savedTypes({}), []);
});
