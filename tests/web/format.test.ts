// Values as people read them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NONE, bytes, count, inUnit, percent, rate, seconds, since, span } from '../../web/src/core/format';

test('durations have the unit that fits', () => {
    const cases: [number | null, string][] = [
        [null, NONE], [0, '0 s'], [1.2399, '1.24 s'], [0.0124, '12.4 ms'], [0.00083, '830 µs'], [2.5e-8, '25 ns'],
        [0.9996, '1 s'], [0.0009999, '1 ms'], [119, '119 s'], [125, '2 min 5 s'], [3600, '1 h'], [90000, '1 d 1 h'],
        [-0.0124, '-12.4 ms'], [NaN, NONE],
    ];
    for (const [v, want] of cases) assert.equal(seconds(v), want, String(v));
});

test('sizes are binary and never show 1024 of a unit', () => {
    const cases: [number | null, string][] = [
        [null, NONE], [0, '0 B'], [1023, '1023 B'], [1024, '1 KiB'], [1536, '1.5 KiB'], [629145600, '600 MiB'], [2 ** 40, '1 TiB'],
    ];
    for (const [v, want] of cases) assert.equal(bytes(v), want, String(v));
});

test('counts are whole where they are small', () => {
    const cases: [number | null, string][] = [
        [null, NONE], [0, '0'], [7, '7'], [9999, '9999'], [65536, '65.5 k'], [1234567, '1.23 M'], [0.0633, '0.0633'], [2.69, '2.69'],
        [999999, '1 M'],
    ];
    for (const [v, want] of cases) assert.equal(count(v), want, String(v));
});

test('rates, shares and units of series', () => {
    assert.equal(rate(617.2, 'tokens'), '617 tokens/s');
    assert.equal(rate(2 * 1024 * 1024, 'bytes'), '2 MiB/s');
    assert.equal(rate(3), '3/s');
    assert.equal(rate(null, 'tokens'), NONE);
    assert.equal(percent(0.13641), '13.6 %');
    assert.equal(percent(1), '100 %');
    assert.equal(percent(0), '0 %');
    assert.equal(percent(0.00001), '< 0.01 %');
    assert.equal(inUnit(0.5, 'ratio'), '50 %');
    assert.equal(inUnit(12, 'percent'), '12 %');
    assert.equal(inUnit(1, 'cores'), '1 core');
    assert.equal(inUnit(2048, 'bytes'), '2 KiB');
    assert.equal(inUnit(5, 'widgets'), '5 widgets');
});

test('how long ago', () => {
    assert.equal(since(1000, 1000.5), 'now');
    assert.equal(since(1000, 1012), '12 s ago');
    assert.equal(span(59.6), '1 min');
    assert.equal(span(3599.9), '1 h');
});
