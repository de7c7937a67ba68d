// How far back pages look until somebody chooses.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rangeFor } from '../../web/src/shell/since';

test('as far as there is anything to see, and the next range is due when this one overflows', () => {
    assert.deepEqual(rangeFor(0), { seconds: 60, next: 72 });
    assert.deepEqual(rangeFor(70), { seconds: 60, next: 2 });
    assert.equal(rangeFor(72).seconds, 120);
    assert.equal(rangeFor(144).seconds, 300);
    assert.equal(rangeFor(359).seconds, 300);
    assert.equal(rangeFor(360).seconds, 600);
    assert.deepEqual(rangeFor(720), { seconds: 900, next: null });
    assert.deepEqual(rangeFor(1e6), { seconds: 900, next: null });
    for (let up = 0, rounds = 0; ; rounds++) { // it ends
        const { next } = rangeFor(up);
        if (next === null) break;
        assert.ok(next > 0 && rounds < 10);
        up += next;
    }
});
