// Server-sent events, in whatever pieces they come.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventParser, ServerEvent } from '../../web/src/core/sse';

const TEXT = ': hello\nretry: 2000\n\nevent: points\ndata: {"a":\ndata: 1}\n\nevent: store\r\ndata: x\r\nid: 7-1\r\n\r\nid: 8\n\ndata: cut';
const WANT: ServerEvent[] = [
    { event: 'points', data: '{"a":\n1}', id: null },
    { event: 'store', data: 'x', id: '7-1' },
    { event: 'message', data: '', id: '8' },
];

test('events are whole, whatever pieces they come in', () => {
    for (let size = 1; size <= TEXT.length; size++) {
        const got: ServerEvent[] = [];
        const p = new EventParser((e) => got.push(e));
        for (let i = 0; i < TEXT.length; i += size) p.feed(TEXT.slice(i, i + size));
        assert.deepEqual(got, WANT, `pieces of ${size}`);
        assert.equal(p.retryMs, 2000);
    }
});
