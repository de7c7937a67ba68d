// What the dashboard makes of data that it cannot choose: names that are not harmless, on every page,
// and nothing at all, of which every page says what to do next.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import { runEngine, runScript, serve, until, workFolder } from './agent.mjs';
import { audit } from './axe.mjs';
import { close, shot, withAgent } from './browser.mjs';
import { ODD_ERROR, ODD_FUNCTION, ODD_MARK, ODD_NAMES, ODD_USER, strays, wholeText } from './odd.mjs';
import { PAGES, functionNames, param, settled } from './pages.mjs';

const where = workFolder(), bare = workFolder();
let live, nothing;

before(async () => {
    [live, nothing] = await Promise.all([
        runEngine(where, ['--store', `${where.folder}/store.db`, '--continuous=99'], ['--rate', '0']), serve(bare)]);
    for (const command of ['odd 4', 'leak 5000000']) await live.tell(command);
    await live.ask('/api/marks', { method: 'POST', body: JSON.stringify({ text: ODD_MARK }), headers: { 'Content-Type': 'application/json' } });
    await until('all models are known', async () => {
        const models = (await live.ask('/api/requests?state=done&limit=1000&timeline=0')).requests.map((r) => r.model);
        return ODD_NAMES.every((name) => models.includes(name));
    });
    await until('the heap was sampled', () => live.ask('/api/flamegraph?live=1&type=live'));
    await until('the function was sampled', async () => (await live.ask('/api/flamegraph?type=cpu')).strings.includes(ODD_FUNCTION));
});
after(async () => {
    await live?.stop();
    await nothing?.stop();
    await close();
    where.remove();
    bare.remove();
});

// ---- Names --------------------------------------------------------------------------------------

/** Where names are shown beside the filters, which have the models and routes on every page. */
const SHOWN = {
    inference: ODD_NAMES,
    requests: [...ODD_NAMES, `error: ${ODD_ERROR}`],
    history: [ODD_MARK],
};

for (const id of PAGES) {
    test(`names are text on ${id}`, () => withAgent(live.url, `/profiling/${id}?range=900`, { viewport: { width: 1600, height: 1200 } }, async (page) => {
        await settled(page);
        for (const filter of ['Model', 'Route']) {
            const options = page.locator(`header.top select[aria-label=${filter}] option`);
            await until(`all are in the filter ${filter}`, async () => {
                const texts = await options.allTextContents();
                return ODD_NAMES.every((name) => texts.includes(name));
            });
        }
        for (const text of SHOWN[id] ?? []) await until(`${text} is shown`, async () => (await page.evaluate(wholeText)).includes(text));
        assert.deepEqual(await page.evaluate(strays), []);
        // As a filter they are in the address, in titles and chips.
        for (const name of ODD_NAMES.slice(0, 2)) {
            await page.locator('header.top select[aria-label=Model]').selectOption(name);
            await until('the address has it', () => param(page, 'model') === name);
        }
        await settled(page);
        assert.deepEqual(await page.evaluate(strays), []);
        assert.equal(await page.locator('.sonde-state.bad').count(), 0);
    }));
}

test('names are text in one request, its neighbours, and its flame graph', async () => {
    const { requests } = await live.ask('/api/requests?outcome=error&limit=100');
    const odd = requests.find((r) => r.error === ODD_ERROR);
    await withAgent(live.url, `/profiling/requests?range=900&request=${odd.id}`, {}, async (page) => {
        await settled(page);
        const one = page.locator('aside sonde-timeline');
        for (const text of [odd.own_id, odd.model, odd.route, ODD_ERROR, ODD_USER]) {
            await until(`${text} is shown`, async () => (await one.evaluate((e) => e.shadowRoot.textContent)).includes(text));
        }
        assert.deepEqual(await page.evaluate(strays), []);
        await shot(page, 'page-requests-odd');
        await page.goto(`${live.url}/profiling/cpu?range=900&view=functions&search=onerror`);
        await settled(page);
        await until('the function is found', async () => (await functionNames(page)).includes(ODD_FUNCTION));
        assert.deepEqual(await page.evaluate(strays), []);
    });
});

test('an address that holds markup is text, too', () => {
    const odd = encodeURIComponent('"><img src=x onerror=alert(4)>');
    const query = ['model', 'route', 'process', 'pid', 'search', 'thread', 'phase', 'request', 'cells', 'base', 'profile', 'series', 'type', 'sort']
        .map((key) => `${key}=${odd}`).join('&');
    // The agent refuses some of it, which the browser reports.
    return withAgent(live.url, `/profiling/dashboard?range=900&${query}`, { fine: /status of 40\d/ }, async (page) => {
        for (const id of PAGES) {
            await page.goto(`${live.url}/profiling/${id}?range=900&${query}`);
            await settled(page);
            assert.deepEqual(await page.evaluate(strays), [], id);
        }
    });
});

// ---- What only some agents answer -----------------------------------------------------------------

/** Answers that take the place of the agent's, with routes that its list has to have for them. */
async function answering(page, answers) {
    const routes = Object.keys(answers).map((path) => `${path} of this test\n`).join('');
    await page.route((url) => url.pathname === '/', async (route) => {
        const answer = await route.fetch();
        await route.fulfill({ response: answer, body: routes + await answer.text() });
    });
    for (const [path, { status = 200, body }] of Object.entries(answers)) {
        const matches = new RegExp(`^${path.replace('*', '[^/]+')}$`);
        await page.route((url) => matches.test(url.pathname), (route) => route.fulfill({ status, json: body }));
    }
}

const [SCRIPT_NAME] = ODD_NAMES;
const WHY = {
    kind: 'request', id: '1', name: SCRIPT_NAME, seconds: 2, thread: `${SCRIPT_NAME}/7`, batch_mates: 1, batch_mate_tokens: 3,
    parts: [
        { kind: 'queue', title: 'waiting for a slot', seconds: 0.5, share: 0.25, count: 1, functions: [], waits: [], spans: [],
            requests: [{ id: '00000000000000aa', name: ODD_NAMES[1], seconds: 0.25, count: 1 }] },
        { kind: 'decode', title: 'computing: decode', seconds: 0.5, share: 0.25, count: 1, waits: [], requests: [], spans: [],
            functions: [{ function: ODD_FUNCTION, file: '/src/<b>bold.c', line: 3, seconds: 0.4, count: 4 }] },
        { kind: 'lock', title: 'waiting for a lock', seconds: 0.5, share: 0.25, count: 1, functions: [], requests: [], spans: [{ name: ODD_USER, seconds: 0.1, count: 1 }],
            waits: [{ function: 'locked', file: null, line: null, call: 'pthread_mutex_lock', stack: ['futex', ODD_FUNCTION], seconds: 0.4, count: 1 }] },
    ],
    notes: ['waits may be missing: `sonde record --off-cpu` sees them'],
};

test('what the time of a request consisted of: parts and the rest add up, and all of it is text', async () => {
    const { requests } = await live.ask('/api/requests?state=done&limit=1');
    await withAgent(live.url, '/profiling/requests?range=900', {}, async (page) => {
        await answering(page, { '/api/requests/*/why': { body: WHY } });
        await page.goto(`${live.url}/profiling/requests?range=900&request=${requests[0].id}`);
        const table = page.locator('sonde-timeline table.whys');
        await table.waitFor();
        await settled(page);
        const rows = await table.locator('tbody tr').evaluateAll((list) => list.map((tr) => [...tr.cells].slice(1).map((td) => td.textContent).join(' ')));
        assert.deepEqual(rows, ['500 ms 25 %', '500 ms 25 %', '500 ms 25 %', '500 ms 25 %', '2 s 100 %']);
        const text = await page.locator('sonde-timeline section.path').innerText();
        for (const part of [ODD_FUNCTION, ODD_NAMES[1], ODD_USER, '<b>bold.c:3', 'locked in pthread_mutex_lock', 'Unexplained', 'sonde record --off-cpu']) {
            assert.ok(text.includes(part), `${part} is not in ${text}`);
        }
        await table.locator('summary', { hasText: 'stack' }).press('Enter');
        await table.locator('.frames', { hasText: 'futex' }).waitFor();
        assert.deepEqual(await page.evaluate(strays), []);
        assert.deepEqual(await audit(page), []);
        await page.setViewportSize({ width: 390, height: 800 });
        await until('it fits', () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    });
});

test('what the time of a request consisted of: an error is said in place, and the page goes on', async () => {
    const { requests } = await live.ask('/api/requests?state=done&limit=1');
    await withAgent(live.url, '/profiling/requests?range=900', { fine: /status of 409/ }, async (page) => {
        await answering(page, { '/api/requests/*/why': { status: 409, body: { error: 'it is not known for a reason' } } });
        await page.goto(`${live.url}/profiling/requests?range=900&request=${requests[0].id}`);
        await page.locator('sonde-timeline section.path', { hasText: 'it is not known for a reason' }).waitFor();
        await page.locator('sonde-timeline').getByText('Duration', { exact: true }).first().waitFor();
    });
});

const COST = {
    enabled: true, covers: 'cpu_sampling', state: 'measuring', text: 'sonde costs this program 0.3 ± 0.2 % (CPU time per output token; 24 pairs of windows)', method: 'comparison',
    measure: 'cpu_per_work', work: 'output token', ratio: 0.003, low: 0.001, high: 0.005, pairs: 24, confidence: 0.95, pairs_more: 0, window_seconds: 2, off_ratio: 0.08, reason: null,
};

for (const id of ['cpu', 'dashboard']) {
    test(`what sonde costs is on ${id}`, () => withAgent(live.url, `/profiling/${id}`, {}, async (page) => {
        await answering(page, { '/api/cost': { body: COST } });
        await page.goto(`${live.url}/profiling/${id}`);
        const line = page.locator('p.cost');
        await line.getByText(`${COST.text}.`).waitFor();
        await settled(page);
        const details = page.getByRole('tooltip').getByText('between 0.1 % and 0.5 %');
        // A page that is still being laid out scrolls, which hides it.
        await until('the tooltip is there', async () => {
            await line.locator('span').blur();
            await line.locator('span').focus();
            return details.isVisible();
        });
    }));
}

const ALERT = {
    id: 'a', kind: 'memory', state: 'firing', severity: 'critical', summary: `${SCRIPT_NAME} is 93.2 (limit: above 90)`, value: 93.2, labels: {}, source: 'rule',
    since: 1, started: 1, fired: 1, resolved: null, for_seconds: 5, muted: false, muted_by: null, held: null, link: null,
    notifications: [{ receiver: 'webhook', state: 'firing', outcome: 'queued', time: 1, error: ODD_ERROR }],
};
const ALERTS = {
    time: 2, firing: 1, firing_muted: 1, pending: 0, rules: [{ name: 'memory' }], mutes: [], receivers: [],
    alerts: [ALERT, { ...ALERT, id: 'b', summary: 'of the disk', severity: 'warning', muted: true, muted_by: 1, held: 'muted', notifications: [] }],
};
const REGRESSION = {
    id: 1, kind: 'function', verdict: 'worse', severity: 'warning', state: 'open', subject: ODD_FUNCTION, program: 'engine', figure: 'share', unit: null, caller: null,
    moved_with: null, since: 1794960000, since_low: null, since_high: null, found: 1794960600, until: null, before: 0.1, after: 0.12, absolute: 0.02, absolute_low: 0.01,
    absolute_high: 0.03, relative: 0.2, relative_low: 0.15, relative_high: 0.26, confidence: 0.99, n_eff: null, text: `${ODD_FUNCTION} costs 20 % more`,
    what_changed: [{ time: 1794960000, kind: 'build_id', text: ODD_MARK }],
};
const CHANGED = { time: 2, series_watched: 9, series_learning: 2, programs_profiled: 1, regressions: [REGRESSION] };

for (const colorScheme of ['light', 'dark']) {
    test(`alerts and regressions are on findings, ${colorScheme}`, () => withAgent(live.url, '/profiling/findings', { colorScheme }, async (page) => {
        await answering(page, { '/api/alerts': { body: ALERTS }, '/api/regressions': { body: CHANGED } });
        await page.goto(`${live.url}/profiling/findings`);
        const alerts = page.getByRole('table', { name: 'Alerts' }), changes = page.getByRole('table', { name: 'Regressions' });
        for (const text of [ALERT.summary, `webhook: ${ODD_ERROR}; tried again`, 'firing, muted', 'not sent: muted']) await alerts.getByText(text).waitFor();
        for (const text of [REGRESSION.text, ODD_MARK, '+20 % (+15 % to +26 %)']) await changes.getByText(text).waitFor();
        const compare = await changes.getByRole('link', { name: 'Before and after' }).getAttribute('href');
        assert.match(compare, /base=179495\d+\.\.1794960000/);
        await settled(page);
        assert.deepEqual(await page.evaluate(strays), []);
        assert.deepEqual(await audit(page), []);
        await shot(page, `page-findings-alerts-${colorScheme}`, { fullPage: true });
        await page.setViewportSize({ width: 390, height: 800 });
        await until('it fits', () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    }));
}

test('alerts and regressions: no card where there are none to ask for', () =>
    withAgent(live.url, '/profiling/findings', { fine: /status of 404/ }, async (page) => {
        const none = { status: 404, body: { error: 'there are no alerts here' } };
        await answering(page, { '/api/alerts': none, '/api/regressions': none });
        const asked = ['alerts', 'regressions'].map((what) => page.waitForResponse(`**/api/${what}*`));
        await page.goto(`${live.url}/profiling/findings`);
        await Promise.all(asked);
        await settled(page);
        for (const name of ['Alerts', 'Regressions']) assert.equal(await page.getByRole('heading', { name }).count(), 0);
    }));

// ---- Nothing ------------------------------------------------------------------------------------

/** What a page has to say where nothing is watched: what is missing, and what to do next. */
const NEXT = {
    dashboard: [/Nothing is watched yet/, /sonde run -- /],
    inference: [/No inference seen yet/, /sonde run -- llama-server/],
    requests: [/No requests in this time/, /sonde run -- /],
    cpu: [/No samples yet/, /sonde serve --continuous/],
    memory: [/No heap is profiled/, /sonde run -- /],
    gpu: [/No GPU metrics/, /sonde run --scrape/],
    system: [/No process is watched/, /sonde attach PID/],
    history: [/Nothing: no start, model load, session, finding or mark/, /Mark now/],
    compare: [/No profiles are kept yet/, /admin\/profile\/start/],
    findings: [/No findings are kept|Nothing found/, /Analyse now|--store/],
    report: [/No program has recorded anything/, /sonde run -- /],
};

for (const id of PAGES) {
    test(`nothing is watched: ${id} says what to do next`, () => withAgent(nothing.url, `/profiling/${id}`, {}, async (page) => {
        await settled(page);
        for (const text of NEXT[id]) await until(`${text} is there`, async () => text.test(await page.evaluate(wholeText)));
        assert.equal(await page.locator('.sonde-state.bad').count(), 0);
        assert.deepEqual(await audit(page), []);
        await shot(page, `page-${id}-nothing`, { fullPage: true });
    }));
}

// ---- Objectives ---------------------------------------------------------------------------------

// ---- Several programs, and no store: the demo ---------------------------------------------------------

test('several programs: pages have no errors, and one of their heaps can be chosen', async () => {
    const several = workFolder();
    const demo = await runScript(several, ['--continuous'],
        '$build/example_engine --clients 2 --requests 1000000 >/dev/null & e=$!; $build/example_shop >/dev/null & s=$!; '
        + 'trap "kill $e $s" TERM; wait');
    try {
        const heaps = await until('two heaps are profiled', async () => {
            const { processes } = await demo.ask('/api/processes');
            const found = processes.filter((p) => p.heap_bytes !== null);
            return processes.length >= 3 && found.length >= 2 && found;
        });
        for (const id of PAGES) {
            await withAgent(demo.url, `/profiling/${id}`, {}, async (page) => {
                await settled(page);
                assert.equal(await page.locator('.sonde-state.bad').count(), 0, id);
            });
        }
        await withAgent(demo.url, '/profiling/memory', {}, async (page) => {
            const choice = page.getByLabel('Process whose heap is shown');
            for (const heap of heaps) {
                await choice.selectOption(String(heap.pid));
                await until(`${heap.program} is shown`, async () =>
                    (await page.locator('p.verdict').innerText()).includes(heap.program) && (await choice.inputValue()) === String(heap.pid));
            }
        });
    } finally {
        await demo.stop();
        several.remove();
    }
});

test('objectives that are missed are in the line about health, and no business of probes', async () => {
    const own = workFolder();
    const strict = await runEngine(own, ['--set', 'inference.slo_total_ms=0.001'], ['--rate', '8']);
    try {
        await until('a request has missed it', async () => (await strict.ask('/api/inference')).totals.slo_missed > 0);
        await withAgent(strict.url, '/profiling/dashboard?range=60', {}, async (page) => {
            const line = page.locator('#main > .stack > .banner');
            await until('the line says so', async () => /^Degraded\s.*0 % of requests meet the objectives/s.test(await line.innerText()));
            assert.equal(await line.getAttribute('data-status'), 'degraded');
            assert.equal(await page.locator('sonde-tile[label=Goodput] .tile').evaluate((e) => e.classList.contains('bad')), true);
            assert.equal((await strict.ask('/health')).status, 'ok');
        });
    } finally {
        await strict.stop();
        own.remove();
    }
});

// ---- Not permitted ------------------------------------------------------------------------------

const NOBODY = 65534;
/** Passes connections on to a port, as whoever runs it. */
const PASS = `const { createServer, connect } = require('node:net');
createServer((c) => { const to = connect(+process.argv[1], '127.0.0.1'); c.on('error', () => to.destroy()); to.on('error', () => c.destroy()); c.pipe(to).pipe(c); })
    .listen(0, '127.0.0.1', function () { console.log(this.address().port); });`;

test('another user of the machine is told on every page that it is not permitted', { skip: process.getuid() !== 0 && 'only root can be somebody else' }, async () => {
    const pass = spawn(process.execPath, ['-e', PASS, String(nothing.port)], { uid: NOBODY, gid: NOBODY, cwd: '/', stdio: ['ignore', 'pipe', 'inherit'] });
    try {
        const url = `http://127.0.0.1:${Number(await once(pass.stdout, 'data'))}`;
        const refused = await fetch(`${url}/api/processes`);
        assert.equal(refused.status, 403);
        const why = /is for .*root, and this is .*: ask as one of them/;
        assert.match((await refused.json()).error, why);
        await withAgent(url, '/profiling/dashboard', { fine: /status of 403/ }, async (page) => {
            for (const id of PAGES) {
                await page.goto(`${url}/profiling/${id}`);
                await settled(page);
                await until(`${id} says why`, async () => why.test(await page.evaluate(wholeText)));
            }
        });
    } finally {
        pass.kill();
        await once(pass, 'close');
    }
});
