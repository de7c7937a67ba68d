// Figures as they are shown, read back without the page's own formatter, and what the API says they
// should be.
import assert from 'node:assert/strict';

const SIZES = {
    s: 1, ms: 1e-3, 'µs': 1e-6, ns: 1e-9, min: 60, h: 3600, d: 86400,
    B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
    k: 1e3, M: 1e6, G: 1e9, T: 1e12, '%': 0.01, cores: 1, core: 1, tokens: 1,
};
const DIGITS = 3; // significant ones that are shown, trailing zeros left out

/** "363 ms" → {value: 0.363, within: 0.0005}; null for "–", which stands for unknown. */
export function readFigure(text) {
    const plain = text.replace(/\/s$/, '').trim();
    if (plain === '–') return null;
    const least = /^< ([\d.]+) %$/.exec(plain);
    if (least) return { value: Number(least[1]) / 200, within: Number(least[1]) / 200 };
    const words = plain.split(/\s+/);
    const shown = Number(words[0]);
    assert.ok(words[0] !== '' && Number.isFinite(shown), `"${text}" is not a figure`);
    const size = words.slice(1).reduce((product, word) => {
        assert.ok(word in SIZES, `"${text}" has the unknown unit ${word}`);
        return product * SIZES[word];
    }, 1);
    const decimals = shown === 0 ? DIGITS : Math.max(0, DIGITS - 1 - Math.floor(Math.log10(Math.abs(shown))));
    return { value: shown * size, within: 0.5 * 10 ** -decimals * size };
}

/** The text shows that value, to the digits it has. */
export function assertFigure(text, value, what) {
    const read = readFigure(text);
    if (value === null || value === undefined) assert.equal(read, null, `${what}: "${text}" is shown, the agent knows nothing`);
    else {
        assert.ok(read !== null && Math.abs(read.value - value) <= read.within * (1 + 1e-6) + 1e-12,
            `${what}: "${text}" is shown, the agent says ${value}`);
    }
}

/** {label: {value}} or {label: {part: text, …}} of all tiles below an element of the page. */
export const tilesOf = (page, within = '#main') => page.locator(`${within} sonde-tile`).evaluateAll((tiles) =>
    Object.fromEntries(tiles.map((tile) => {
        const spaced = (e) => [...e.childNodes].map((n) => n.textContent.trim()).join(' ');
        const value = tile.shadowRoot.querySelector('.value');
        const parts = [...tile.shadowRoot.querySelectorAll('.parts > div')];
        return [tile.getAttribute('label'), value ? { value: spaced(value) }
            : Object.fromEntries(parts.map((p) => [p.querySelector('em').textContent, spaced(p.querySelector('b'))]))];
    })));

/** {heads: […], rows: [[…]]} of a table by its name. */
export const tableOf = (page, name) => page.locator(`table[aria-label="${name}"]`).first().evaluate((table) => ({
    heads: [...table.tHead.rows[table.tHead.rows.length - 1].cells].map((c) => c.textContent),
    rows: [...table.tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent)),
}));

// ---- what the page has heard --------------------------------------------------------------------

/** In the page, before its scripts: events of the live stream and points of series that it is given are
 *  noted in globalThis.heard, and the stream goes quiet when globalThis.held is set. */
export function listenIn() {
    const heard = globalThis.heard = { inference: null, processes: null, series: {}, events: 0 };
    const note = (s, points) => {
        const key = JSON.stringify([s.name, s.labels, s.pid]);
        const of = heard.series[key] ??= { name: s.name, labels: s.labels, points: {} };
        for (const p of points) of.points[p.time] = p;
    };
    const take = (text) => {
        const field = (name) => text.split('\n').filter((l) => l.startsWith(`${name}:`)).map((l) => l.slice(name.length + 1).trim()).join('\n');
        if (!field('data')) return;
        const body = JSON.parse(field('data'));
        if (field('event') === 'points') for (const s of body.series) note(s, [s.point]);
        if (['inference', 'processes'].includes(field('event'))) heard[field('event')] = body;
        if (field('event') === 'points') heard.events++;
    };
    const through = () => {
        const decoder = new TextDecoder();
        let rest = '';
        return new TransformStream({
            transform(chunk, controller) {
                if (globalThis.held) return;
                const events = (rest + decoder.decode(chunk, { stream: true })).split('\n\n');
                rest = events.pop();
                events.forEach(take);
                controller.enqueue(chunk);
            },
        });
    };
    const fetched = globalThis.fetch;
    globalThis.fetch = async (what, init) => {
        const answer = await fetched(what, init);
        if (String(what).includes('/api/query') && answer.ok) {
            const body = await answer.clone().json();
            for (const s of body.series) note(s, (s.points ?? []).filter((p) => p.time + body.step_s <= body.time + 0.001));
        }
        if (!String(what).includes('/api/stream') || !answer.body) return answer;
        return new Response(answer.body.pipeThrough(through()), { status: answer.status, headers: answer.headers });
    };
}

/** Stops the stream and says what the page has heard until then. */
export async function hold(page) {
    await page.waitForFunction(() => globalThis.heard.events >= 3 && globalThis.heard.inference && globalThis.heard.processes);
    return page.evaluate(() => {
        globalThis.held = true;
        return globalThis.heard;
    });
}

/** The newest step of series of a name, put together: "sum", "max" or "avg"; null if there is none. */
export function newestOf(heard, name, aggregate = 'sum') {
    const series = Object.values(heard.series).filter((s) => s.name === name);
    const newest = Math.max(...series.flatMap((s) => Object.keys(s.points).map(Number)));
    const values = series.map((s) => s.points[newest]?.value).filter((v) => v !== undefined && v !== null);
    return together(values, aggregate);
}

export function together(values, aggregate) {
    if (!values.length) return null;
    const sum = values.reduce((a, b) => a + b, 0);
    return aggregate === 'max' ? Math.max(...values) : aggregate === 'avg' ? sum / values.length : sum;
}

/** The mean over the steps of an answer of /api/query of what series that pass add up to. */
function meanOf(answer, name, { passes = () => true, aggregate = 'sum' } = {}) {
    const steps = new Map();
    for (const s of answer.series.filter((x) => x.name === name && passes(x.labels))) {
        for (const p of s.points) steps.set(p.time, [...steps.get(p.time) ?? [], p.value]);
    }
    return together([...steps.values()].map((values) => together(values, aggregate)), 'avg');
}

/** Of several with percentiles: the one whose p95 is the largest. */
export function slowestOf(all) {
    return all.filter((p) => p?.count).reduce((worst, p) => (worst === null || p.p95 > worst.p95 ? p : worst), null);
}

/** Tiles of the overview of a time that is over against the answer of /api/query for it. */
export function assertOverview(tiles, api) {
    const is = (type) => ({ passes: (labels) => labels.type === type });
    assertFigure(tiles['Decode'].value, meanOf(api, 'sonde_infer_tokens_per_second', is('decode')), 'decode');
    assertFigure(tiles['Prefill'].value, meanOf(api, 'sonde_infer_tokens_per_second', is('prefill')), 'prefill');
    for (const [label, name] of [['Time to first token', 'gen_ai_server_time_to_first_token_seconds'],
        ['Time between tokens', 'sonde_infer_inter_token_seconds']]) {
        const slowest = slowestOf(api.series.filter((s) => s.name === name));
        for (const p of ['p50', 'p95', 'p99']) assertFigure(tiles[label][p], slowest[p], `${label} ${p}`);
    }
    assertFigure(tiles['Requests'].running, meanOf(api, 'sonde_infer_requests_running'), 'running');
    assertFigure(tiles['Requests'].waiting, meanOf(api, 'sonde_infer_requests_waiting'), 'waiting');
    assertFigure(tiles['Memory'].value, meanOf(api, 'sonde_process_resident_memory_bytes'), 'resident memory');
    assertFigure(tiles['CPU'].value, meanOf(api, 'sonde_process_cpu_utilization_ratio'), 'CPU');
    assertFigure(tiles['KV cache']['in use'], meanOf(api, 'sonde_infer_kv_used_ratio', { aggregate: 'max' }), 'KV cells in use');
}
