// The address is the whole state.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DEFAULT_SECONDS, Place, State } from '../../web/src/core/state';

class Address implements Place {
    writes: string[] = [];
    constructor(public page: string, public query: string) {}
    read() { return { page: this.page, query: this.query }; }
    write(page: string, query: string, replace: boolean) {
        this.page = page;
        this.query = query;
        this.writes.push(`${replace ? 'replace' : 'push'} ${page}?${query}`);
    }
    href(page: string, query: string) { return `/profiling/${page}${query ? `?${query}` : ''}`; }
}

test('ranges: live, fixed, and what makes no sense', () => {
    const cases: [string, boolean, number][] = [
        ['', true, DEFAULT_SECONDS], ['range=300', true, 300], ['range=0', true, 5], ['range=x', true, DEFAULT_SECONDS],
        ['from=1000&to=1600', false, 600], ['from=1600&to=1000', true, DEFAULT_SECONDS], ['from=1000', true, DEFAULT_SECONDS],
        ['range=300&from=1000&to=1600', false, 600],
    ];
    for (const [query, live, seconds] of cases) {
        const r = new State(new Address('dashboard', query)).range();
        assert.equal(r.live, live, query);
        assert.equal(r.seconds, seconds, query);
        assert.ok(Math.abs(r.to - r.from - seconds) < 1e-6, query);
    }
});

test('a new range is a step back in the history, and told to those who listen', () => {
    const a = new Address('dashboard', 'range=300&model=m');
    const s = new State(a);
    let ranges = 0;
    let models = 0;
    s.on(['range'], () => ranges++);
    const off = s.on(['model'], () => models++);
    s.setRange({ from: 100.00049, to: 200 });
    assert.equal(a.query, 'model=m&from=100&to=200');
    s.setRange({ from: 100, to: 200 });
    assert.deepEqual(a.writes, ['push dashboard?model=m&from=100&to=200']);
    s.setRange({ seconds: 60 });
    assert.equal(a.query, 'model=m&range=60');
    s.set({ model: null }, true);
    off();
    s.set({ model: 'x' });
    assert.equal(ranges, 2);
    assert.equal(models, 1);
});

test('what is shown where nobody chose may change, and what was chosen stays', () => {
    const s = new State(new Address('dashboard', ''));
    let told = 0;
    s.on(['range'], () => told++);
    s.setDefault(60);
    s.setDefault(60);
    assert.equal(s.range().seconds, 60);
    assert.equal(told, 1);
    s.setRange({ seconds: 300 });
    s.setDefault(900);
    assert.equal(s.range().seconds, 300);
    assert.equal(told, 2);
    s.set({ range: null });
    assert.equal(s.range().seconds, 900);
});

test('links keep range and filters, nothing else', () => {
    const s = new State(new Address('requests', 'range=60&model=a%26b&request=7&route=%2Fv1'));
    assert.equal(s.link('cpu'), '/profiling/cpu?range=60&model=a%26b&route=%2Fv1');
    assert.equal(s.link('cpu', { model: null, search: 'f<x>' }), '/profiling/cpu?range=60&route=%2Fv1&search=f%3Cx%3E');
});

test('links keep a second range, unless they say what is looked at', () => {
    const of = (base: string) => new State(new Address('cpu', `range=60&base=${base}`));
    const s = of('100..160.5');
    assert.equal(s.link('requests'), '/profiling/requests?range=60&base=100..160.5');
    assert.equal(s.link('cpu', { pid: '7' }), '/profiling/cpu?range=60&base=100..160.5&pid=7');
    assert.equal(s.link('cpu', { base: 'rest' }), '/profiling/cpu?range=60&base=rest');
    assert.equal(s.link('cpu', { from: '1', to: '2', range: null }), '/profiling/cpu?from=1&to=2');
    assert.equal(s.link('cpu', { profile: '3' }), '/profiling/cpu?range=60&profile=3');
    for (const base of ['rest', '12']) assert.equal(of(base).link('cpu'), '/profiling/cpu?range=60', base);
});

test('back and forward change page or values', () => {
    const a = new Address('dashboard', 'range=60');
    const s = new State(a);
    const seen: string[] = [];
    s.onPage((p) => seen.push(p));
    s.on('*', () => seen.push('values'));
    s.go('cpu', 'range=60');
    a.query = 'range=300';
    s.reload();
    a.page = 'dashboard';
    s.reload();
    assert.deepEqual(seen, ['cpu', 'values', 'dashboard']);
});
