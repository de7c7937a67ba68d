// Values, searches and shares of flame graphs, as people read and write them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Profile, codeKinds } from '../../web/src/flame/data';
import { matcher, percent, points, value } from '../../web/src/flame/text';

test('values have units that people read', () => {
    const cases: [number, string, string][] = [
        [0, 'nanoseconds', '0 ns'],
        [999, 'nanoseconds', '999 ns'],
        [1500, 'nanoseconds', '1.50 µs'],
        [12_345_678, 'nanoseconds', '12.3 ms'],
        [119.4e9, 'nanoseconds', '119 s'],
        [120e9, 'nanoseconds', '2.00 min'],
        [7200e9, 'nanoseconds', '2.00 h'],
        [1023, 'bytes', '1023 B'],
        [1024, 'bytes', '1.00 KiB'],
        [5 * 1024 ** 4, 'bytes', '5.00 TiB'],
        [1234567, 'count', '1,234,567'],
    ];
    for (const [v, unit, want] of cases) assert.equal(value(v, unit), want, `${v} ${unit}`);
});

test('a share of nothing is not a number', () => {
    assert.equal(percent(1, 3), '33.33 %');
    assert.equal(percent(0, 0), '–');
    assert.equal(points(0.0123), '+1.23 points');
    assert.equal(points(-0.0123), '−1.23 points');
    assert.equal(points(0), '±0.00 points');
});

test('a legend tells native code, Python and the kernel apart, where there is more than one', () => {
    const of = (...flags: number[]) => ({ baseTotal: 0, frames: [{ flags: 0 }, ...flags.map((f) => ({ flags: f }))],
        tree: { count: flags.length + 1, frame: [0, ...flags.map((_, i) => i + 1)] } }) as unknown as Profile;
    const names = (p: Profile, scheme = 'hot') => codeKinds(p, scheme).map((k) => k.name).join(' ');
    assert.equal(names(of(0, 32, 1)), 'native Python kernel');
    assert.equal(names(of(2, 34)), 'native Python'); // inlined ones too
    assert.equal(names(of(0, 2)), '');
    assert.equal(names(of(32, 4, 16, 8)), ''); // no names, threads, stacks that were cut
    assert.equal(names(of(0, 1), 'module'), '');
    assert.equal(names({ ...of(0, 1), baseTotal: 1 }), '');
});

test('searches ignore case until there is a capital', () => {
    const cases: [string, boolean, string, boolean][] = [
        ['matmul', false, 'prefill_MatMul', true],
        ['MatMul', false, 'prefill_matmul', false],
        ['^pre.*mul$', true, 'prefill_matmul', true],
        ['a.b', false, 'axb', false],
        ['a.b', true, 'axb', true],
        ['<script>', false, 'f<script>', true],
    ];
    for (const [text, regex, name, want] of cases) {
        const m = matcher(text, regex);
        assert.ok(typeof m === 'function', text);
        assert.equal(m(name), want, `${text} in ${name}`);
    }
    assert.equal(matcher('', true), null);
    assert.equal(matcher('(', true), 'error');
});
