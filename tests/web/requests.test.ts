// The table of requests: its order, what it shows where there is little room, what it exports.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COLUMNS, belowName, columnsIn, csvOf, formatOrder, inOrder, merged, outcomeText, parseOrder, serverSort } from '../../web/src/elements/requests/columns';
import { Request } from '../../web/src/core/types';

function request(id: string, more: Partial<Request> = {}): Request {
    return {
        id, own_id: null, state: 'done', outcome: 'ok', error: null, invalid: null, source: 'api', pid: 7,
        program: 'engine', model: 'm', route: '/', backend: null, trace_id: null, arrived: 1e9, total_s: 1,
        ttft_s: null, tokens_max: null, tokens_in: 0, tokens_reused: 0, tokens_out: 0, tokens_per_s: null,
        hit_ratio: null, efficiency: null, memory_bytes: null, batches: 0, slo: null, profile: false, phases: {},
        itl: null, attributes: {}, ...more,
    };
}

const first = { column: 'when', up: false };

test('running first, unknown last, both ways', () => {
    const list = [
        request('a', { ttft_s: 0.2 }), request('b', { ttft_s: null }), request('c', { ttft_s: 0.5 }),
        request('r', { state: 'running', outcome: null, ttft_s: 0.1 }),
    ];
    const ids = (column: string, up: boolean) => inOrder(list, { column, up }).map((r) => r.id).join('');
    assert.equal(ids('ttft', false), 'rcab');
    assert.equal(ids('ttft', true), 'racb');
    assert.equal(ids('id', true), 'rabc');
    assert.equal(ids('id', false), 'rcba');
});

test('an order survives the address, and the agent is asked for it where it can', () => {
    for (const c of COLUMNS) {
        for (const up of [false, true]) {
            const o = { column: c.id, up };
            assert.deepEqual(parseOrder(formatOrder(o), first), o, c.id);
        }
    }
    assert.deepEqual(parseOrder(null, first), first);
    assert.deepEqual(parseOrder('<script>', first), first);
    assert.deepEqual(parseOrder('nothing', first), first);
    assert.equal(serverSort({ column: 'when', up: true }), 'oldest');
    assert.equal(serverSort({ column: 'total', up: false }), 'slowest');
    assert.equal(serverSort({ column: 'total', up: true }), null);
    assert.equal(serverSort({ column: 'model', up: false }), null);
});

test('columns go as room goes, and what matters stays', () => {
    const all = COLUMNS.reduce((sum, c) => sum + c.width, 150);
    assert.equal(columnsIn(all, 150).length, COLUMNS.length);
    assert.equal(columnsIn(all - 1, 150).length, COLUMNS.length - 1);
    assert.deepEqual(columnsIn(1, 150).map((c) => c.id), ['id', 'total']);
    assert.deepEqual(columnsIn(1, 150, 'itl').map((c) => c.id), ['id', 'total', 'itl']);
    for (let width = 300; width < 1600; width += 50) {
        const shown = columnsIn(width, 150);
        const need = shown.reduce((sum, c) => sum + c.width, 150);
        assert.ok(need <= width || shown.every((c) => c.drop === 0), `${width}: ${need}`);
    }
});

test('what has no column is below the name', () => {
    const r = request('a', { model: 'm<1>', route: '/r' });
    assert.equal(belowName(r, COLUMNS), '');
    assert.match(belowName(r, columnsIn(1, 150)), /^[\d: -]+ · ok · m<1> · \/r$/);
    assert.equal(belowName(r, COLUMNS.filter((c) => c.id !== 'route')), '/r');
});

test('newer knowledge wins, and what left the range goes', () => {
    const old = [request('a', { arrived: 10 }), request('b', { arrived: 20 }), request('c', { arrived: 30, state: 'running' })];
    const fresh = [request('b', { arrived: 20, total_s: 7 }), request('c', { arrived: 30 }), request('d', { arrived: 40, state: 'running' })];
    const list = merged(old, fresh, 15);
    assert.deepEqual(list.map((r) => `${r.id}${r.state[0]}`).sort(), ['bd', 'cd', 'dr']);
    assert.equal(list.find((r) => r.id === 'b')!.total_s, 7);
    // One that has ended does not run again because an older answer says so.
    assert.equal(merged([request('a')], [request('a', { state: 'running' })], 0)[0].state, 'done');
});

test('what runs says how far it is', () => {
    const running = { state: 'running', outcome: null };
    assert.equal(outcomeText(request('a', running)), 'waiting');
    // Engines that encode when a request comes have it wait after that.
    const encode = { seconds: 1, count: 1 };
    assert.equal(outcomeText(request('a', { ...running, phases: { encode } })), 'waiting');
    assert.equal(outcomeText(request('a', { ...running, phases: { encode, queue: encode } })), 'prefill');
    assert.equal(outcomeText(request('a', { ...running, tokens_out: 3 })), 'running');
    assert.equal(outcomeText(request('a', { outcome: 'error', error: 'context_full' })), 'error: context_full');
});

test('a spreadsheet gets text as text', () => {
    const csv = csvOf([request('x', { own_id: '=1+1', model: 'a "b", c', route: '<script>\n', arrived: 5.5, ttft_s: 0.25 })]);
    const [head, row] = csv.split('\r\n');
    assert.match(head, /^id,own_id,arrived,/);
    assert.match(row, /^x,'=1\+1,5\.5,engine,7,"a ""b"", c","<script>\n",done,ok,,1,0\.25,/);
    assert.equal(csv.split('\r\n').length, 3);
});
