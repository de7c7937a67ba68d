// From a report to the tables of its page.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { advice, factsOf, sectionsOf } from '../../web/src/pages/report_figures';

const REPORT = {
    duration_seconds: 5, program: '</script>', summary: { duration_seconds: 5, operations: 28, error_ratio: 0.25, cache_efficiency: null,
        slowest_operation: { operation: 'load', p95_s: 0.002 }, top_function: { name: 'f', share: 0.5 } },
    operations: [{ program: 'a', operation: '<b>', count: 28, errors: 7, error_ratio: 0.25, p95_s: null }],
    caches: [{ program: 'a', tier: 'l1', hits: 3, misses: 1, hit_ratio: 0.75 }, { program: 'b', tier: 'l1', hits: 1, misses: 1, hit_ratio: 0.5 }],
    ml: { training: [{ model: 'm', epochs: [{ epoch: 0, duration_s: 1, values: { train_loss: 0.5 } }, { epoch: 1, duration_s: 2, values: { train_loss: 0.25, val_loss: 1 } }], phases: [] }],
        inference: [{ model: 'm', program: 'a', batches: [{ batch_size: '8', count: 2 }] }], models: [], datasets: [], preprocessing: [], tasks: [], communication: [], workers: [] },
    system: { processes: [{ program: 'a', pid: 7, cpu_ratio: { min: 0, mean: 0.5, max: 1 }, resident_bytes: null }] },
    recommendations: [{ severity: 'info', message: 'x', details: 'y' }, { severity: 'warning', message: 'm', details: 'd' }],
};

test('sections are those that there are, and names are as they are', () => {
    const all = sectionsOf(REPORT);
    assert.deepEqual(all.map((s) => s.title), ['Operations', 'Caches', 'Training of m', 'Inference by batch size', 'Processes']);
    assert.deepEqual(all[0].rows[0].names, ['<b>']);
    assert.equal(all[0].rows[0].figures[0], 28);
    assert.equal(all[0].rows[0].figures[6], null);
    assert.deepEqual(all[1].names, ['Cache', 'Program'], 'of two programs it is said whose each is');
    assert.deepEqual(all[1].rows.map((r) => r.names), [['l1', 'a'], ['l1', 'b']]);
});

test('values of epochs are columns, of whatever name', () => {
    const training = sectionsOf(REPORT).find((s) => s.title === 'Training of m')!;
    assert.deepEqual(training.columns.slice(2).map((c) => c.title), ['train_loss', 'val_loss']);
    assert.deepEqual(training.rows.map((r) => r.figures.slice(2)), [[0.5, null], [0.25, 1]]);
});

test('processes have their mean and most', () => {
    const [processes] = sectionsOf(REPORT).slice(-1);
    assert.deepEqual(processes.rows[0].names, ['a', '7']);
    assert.deepEqual(processes.rows[0].figures.slice(0, 3), [0.5, 1, null]);
    assert.equal(processes.recorded, false);
});

test('the summary has what is known', () => {
    const facts = factsOf(REPORT);
    assert.deepEqual(facts.map((f) => f.name), ['Program', 'Time', 'Operations', 'Failed', 'Slowest operation', 'Hot spot']);
    assert.equal(facts[0].value, '</script>');
    assert.equal(advice(REPORT).length, 1);
    assert.deepEqual(sectionsOf({ duration_seconds: null }), []);
});
