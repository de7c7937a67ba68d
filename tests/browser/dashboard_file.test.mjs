// The dashboard as files: pages that are saved, reports of an agent and of a recording, series for other
// tools. Files are opened from disk where nothing can be asked for, and show what was there.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { engine, runEngine, sonde, until, workFolder } from './agent.mjs';
import { close, shot, withAgent, withPage } from './browser.mjs';
import { assertFigure, assertOverview, tilesOf } from './figures.mjs';
import { functionsOf } from './flame.mjs';
import { ODD_FUNCTION, ODD_NAMES, strays, wholeText } from './odd.mjs';
import { press, settled } from './pages.mjs';

const VIEWPORT = { width: 1500, height: 1000 };
const REQUESTS = 60;

const where = workFolder(), elsewhere = workFolder();
let live, from, to;

const run = async (...args) => (await promisify(execFile)(sonde, args, {
    cwd: where.folder, maxBuffer: 1 << 28, env: { ...process.env, SONDE_DIR: join(elsewhere.folder, 'segments'), SONDE_CONFIG: '' } })).stdout;
const file = (name) => join(where.folder, name);

before(async () => {
    live = await runEngine(where, ['--store', file('store.db'), '--continuous=99'], ['--rate', '20']);
    // Not from the very beginning: counters that begin with the agent have no reading before their first.
    from = Math.ceil(Date.now() / 1000) + 2;
    await until('the agent has begun to read', () => Date.now() / 1000 > from + 1);
    await live.tell('odd 4');
    await until('requests are known', async () => (await live.ask(`/api/requests?state=done&from=${from}&limit=1`)).total > REQUESTS);
    await until('the function was sampled', async () => (await live.ask('/api/flamegraph?type=cpu')).strings.includes(ODD_FUNCTION));
    to = Math.floor(Date.now() / 1000);
    await live.tell('rate 0');
    await live.tell('settle');
    // Of a time that is over, what the agent says does not change any more.
    await until('that time is over', () => Date.now() / 1000 > to + 3);
});
after(async () => {
    await live?.stop();
    await close();
    where.remove();
    elsewhere.remove();
});

const range = () => `from=${from}&to=${to}`;

/** Open a file where there is no network. */
const opened = (path, hash, body) => withPage(path, { viewport: VIEWPORT, offline: true, hash }, async (page) => {
    await settled(page);
    await body(page);
    assert.equal(await page.locator('.sonde-state.bad').count(), 0);
    assert.deepEqual(await page.evaluate(strays), []);
});

// ---- Saved pages --------------------------------------------------------------------------------

const texts = (locator) => locator.evaluateAll((all) => all.map((e) => e.textContent.trim()));

/** What of a page is compared. */
const FIGURES = {
    dashboard: async (page) => ({
        tiles: await tilesOf(page),
        // What a curve ends with is beside its name.
        curves: await texts(page.locator('sonde-timeseries .legend li')),
        requests: await page.locator('sonde-heatmap .sum').textContent(),
    }),
    requests: async (page) => ({
        count: await page.locator('sonde-requests .sum').textContent(),
        rows: await texts(page.locator('sonde-requests [role=row][data-row]')),
        cells: await page.locator('sonde-heatmap .sum').textContent(),
    }),
    cpu: async (page) => ({
        rows: await texts(page.locator('sonde-flamegraph .functions .rows .row')),
        samples: /[\d,]+ samples/.exec(await page.locator('sonde-flamegraph header p').textContent())?.[0],
    }),
};
const isThere = {
    dashboard: (f) => Object.keys(f.tiles).length > 8 && f.curves.length > 8,
    requests: (f) => f.rows.length > 10,
    cpu: (f) => f.rows.length > 5 && f.samples,
};

/** The same figures twice in a row: all that was asked for is drawn. */
async function figuresOf(page, id) {
    let last = '';
    return until('figures are there', async () => {
        const figures = await FIGURES[id](page);
        const now = JSON.stringify(figures);
        if (isThere[id](figures) && now === last) return figures;
        last = now;
        return null;
    });
}

/** What the page hands out while body runs, as a file. */
async function downloaded(page, body) {
    const [download] = await Promise.all([page.waitForEvent('download'), body()]);
    const path = file(download.suggestedFilename());
    await download.saveAs(path);
    return path;
}

/** The same by an entry of the menu. */
async function chosen(page, entry) {
    const button = page.getByRole('button', { name: entry });
    await press(page.getByRole('button', { name: 'More actions' }), 'the menu is open', () => button.isVisible());
    return downloaded(page, () => button.click());
}

for (const [id, query] of [['dashboard', ''], ['requests', '&sort=total'], ['cpu', '&view=functions']]) {
    test(`${id} is saved by a key, and opens from disk with the same figures`, () =>
        // As a brush leaves it: no whole seconds.
        withAgent(live.url, `/profiling/${id}?from=${from + 0.75}&to=${to - 0.625}${query}`, { viewport: VIEWPORT }, async (page) => {
            await settled(page);
            const before = await figuresOf(page, id);
            const path = await downloaded(page, () => page.keyboard.press('S'));
            await page.locator('.toast', { hasText: 'Saved as' }).waitFor();
            assert.deepEqual(await figuresOf(page, id), before, 'the page is what it was');
            await opened(path, '', async (saved) => {
                assert.equal(await saved.locator('#main').getAttribute('data-page'), id);
                assert.deepEqual(await figuresOf(saved, id), before);
                assert.match(await saved.locator('button.live').innerText(), /^Saved /);
                if (id === 'requests') {
                    const text = await saved.evaluate(wholeText);
                    for (const name of ODD_NAMES) assert.ok(text.includes(name), `${name} is shown`);
                }
                await shot(saved, `page-${id}-saved`);
            });
        }));
}

test('a live page is saved from the menu with what it shows then, and goes on', () =>
    withAgent(live.url, '/profiling/inference?range=300', { viewport: VIEWPORT }, async (page) => {
        await settled(page);
        const path = await chosen(page, 'Save this page as a file');
        await until('it is live again', () => page.url().includes('range=300') && !page.url().includes('from='));
        await opened(path, '', async (saved) => {
            const text = await until('models are there', async () => {
                const all = await saved.evaluate(wholeText);
                return all.includes('large-8b') && all;
            });
            for (const name of ODD_NAMES) assert.ok(text.includes(name), `${name} is shown`);
        });
    }));

for (const format of ['json', 'csv']) {
    test(`all series are exported as ${format.toUpperCase()}, as the API has them`, () =>
        withAgent(live.url, `/profiling/dashboard?${range()}`, {}, async (page) => {
            await settled(page);
            const path = await chosen(page, `Export all series, ${format.toUpperCase()}`);
            const mine = readFileSync(path, 'utf8');
            const answer = await fetch(`${live.url}/api/export?format=${format}&${range()}`);
            assert.equal(mine, await answer.text());
            assert.ok(mine.includes('sonde_infer_requests_total') && mine.length > 10000);
        }));
}

// ---- Reports ------------------------------------------------------------------------------------

/** Rows of a file's list of requests against requests as JSON. */
async function sameRequests(page, requests) {
    await until('all are counted', async () => (await page.locator('sonde-requests .sum').textContent()) === `${requests.length} requests`);
    const rows = await page.locator('sonde-requests [role=row][data-row]').evaluateAll((all) => all.map((row) =>
        Object.fromEntries([...row.querySelectorAll('.cell')].map((c) => [c.classList[1], (c.querySelector('b') ?? c).textContent]))));
    assert.ok(rows.length > 10);
    for (const row of rows) {
        const r = requests.find((x) => (x.own_id || x.id) === row.id);
        assert.ok(r, `${row.id} is one of them`);
        assertFigure(row.total, r.total_s, `${row.id}: duration`);
        assertFigure(row.ttft, r.ttft_s, `${row.id}: first token`);
        assertFigure(row.in, r.tokens_in, `${row.id}: tokens in`);
        assertFigure(row.out, r.tokens_out, `${row.id}: tokens out`);
    }
}

/** Shares of functions in a file against [{name, self}]. */
async function sameFunctions(page, functions) {
    const rows = await until('functions are there', async () => {
        const all = await page.locator('sonde-flamegraph .functions .rows .row').evaluateAll((list) => list.map((r) =>
            [r.querySelector('.name').textContent, r.querySelector('.self span').textContent]));
        return all.length > 3 && all;
    });
    const whole = functions.reduce((sum, f) => sum + f.self, 0);
    for (const [name, share] of rows) {
        const shares = functions.filter((f) => f.name === name).map((f) => `${((100 * f.self) / whole).toFixed(2)} %`);
        assert.ok(shares.includes(share), `${name}: ${share} is shown, it has ${shares}`);
    }
}

test('a report of an agent has the figures of its API', async () => {
    await run('report', '--format', 'html', '-o', file('agent.html'), '--from', String(from), '--to', String(to), live.url);
    const api = await live.ask(`/api/query?${range()}&step=1&limit=5000`);
    await opened(file('agent.html'), '#/dashboard', async (page) => {
        await until('the tiles are there', async () => {
            assertOverview(await tilesOf(page), api);
            return true;
        });
        const pages = await page.locator('nav.rail li a').evaluateAll((all) => all.map((a) => a.getAttribute('href')));
        assert.ok(pages.length >= 5);
        for (const href of pages) {
            await page.locator(`nav.rail li a[href="${href}"]`).click();
            await settled(page);
            assert.equal(await page.locator('.sonde-state.bad').count(), 0, href);
            assert.deepEqual(await page.evaluate(strays), [], href);
        }
    });
    const known = JSON.parse(await run('requests', '--json', '--limit', '1000', live.url)).requests
        .filter((r) => r.arrived >= from && r.arrived < to);
    await opened(file('agent.html'), '#/requests?sort=total', (page) => sameRequests(page, known));
    // One that is open has its steps, and those who shared its batches, if any did.
    const [slowest] = (await live.ask(`/api/requests?${range()}&state=done&limit=1`)).requests;
    const { shared } = await live.ask(`/api/shared/${slowest.id}`);
    await opened(file('agent.html'), `#/requests?request=${slowest.id}`, async (page) => {
        const one = page.locator('aside sonde-timeline');
        await one.getByRole('heading', { name: 'Shared its batches' }).waitFor();
        for (const other of shared.sort((a, b) => b.seconds - a.seconds).slice(0, 3)) await one.locator(`a[data-request="${other.id}"]`).first().waitFor();
        await one.locator('canvas').waitFor();
    });
    const graph = functionsOf(await live.ask(`/api/flamegraph?type=cpu&${range()}`));
    await opened(file('agent.html'), '#/cpu?view=functions', (page) => sameFunctions(page, graph));
});

test('a report of a recording has the figures of the recording', async () => {
    await run('record', '-o', file('engine.run'), '-d', '3', '--stop', '--', engine, '--rate', '20');
    await run('report', '--format', 'html', '-o', file('run.html'), file('engine.run'));
    const { requests } = JSON.parse(await run('requests', '--json', '--limit', '1000', file('engine.run')));
    assert.ok(requests.length > 20);
    await opened(file('run.html'), '#/requests?sort=total', (page) => sameRequests(page, requests));
    await opened(file('run.html'), '#/inference', async (page) => {
        const facts = await page.locator('.facts-list > div').evaluateAll((all) => Object.fromEntries(all.map((e) =>
            [e.querySelector('dt').textContent, e.querySelector('dd').firstChild.textContent])));
        assertFigure(facts['Tokens out'], requests.reduce((sum, r) => sum + r.tokens_out, 0), 'tokens out');
        assertFigure(facts['Tokens in'], requests.reduce((sum, r) => sum + r.tokens_in, 0), 'tokens in');
    });
    const { functions } = JSON.parse(await run('report', '--json', '--limit', '1000', file('engine.run')));
    await opened(file('run.html'), '#/cpu?view=functions', (page) => sameFunctions(page, functions));
});

test('the page of a report has its sections, and their names are text', async () => {
    await run('record', '-q', '-o', file('names.run'), '--', join(process.env.SONDE_BUILD, 'programs', 'report_names'));
    await run('report', '-o', file('names.html'), file('names.run'));
    const { operations } = JSON.parse(await run('report', '--json', file('names.run')));
    await opened(file('names.html'), '#/report', async (page) => {
        for (const title of ['Operations', 'Errors by type', 'Caches', 'Bandwidth', 'Scopes', 'Throughput', 'Processes']) {
            assert.equal(await page.getByRole('heading', { name: title, exact: true }).count(), 1, title);
        }
        const rows = await page.locator('table[aria-label=Operations] tbody tr').evaluateAll((all) => all.map((tr) =>
            [...tr.cells].map((cell) => cell.textContent)));
        assert.deepEqual(rows.map((r) => r[0]).sort(), operations.map((o) => o.operation).sort());
        for (const row of rows) assert.deepEqual([row[1], row[3]], ['3', '1'], row[0]);
        await shot(page, 'page-report-names', { fullPage: true });
    });
});
