// The dashboard as a person uses it, against a live agent. One engine, one agent and one browser for
// most of it; what stops an agent or needs a token brings its own.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { serve, startEngine, until, workFolder } from './agent.mjs';
import { audit } from './axe.mjs';
import { close, shot, withAgent } from './browser.mjs';
import { SLOW, startBurst } from './burst.mjs';
import { functionsOf, grownOf } from './flame.mjs';
import { PAGES, functionNames as names, settled } from './pages.mjs';

const WIDE = { width: 1280, height: 900 }, PHONE = { width: 390, height: 844 };
const LOOKS = [['light', 'light', WIDE], ['dark', 'dark', WIDE], ['phone', 'light', PHONE]];

const where = workFolder();
let live, burst, burstRequests;

before(async () => { ({ live, burst, requests: burstRequests } = await startBurst(where)); });
after(async () => {
    await live?.stop();
    await close();
    where.remove();
});

// ---- Looks --------------------------------------------------------------------------------------

for (const id of PAGES) {
    test(`${id} renders, light, dark and on a phone, and axe finds nothing serious`, () =>
        withAgent(live.url, `/profiling/${id}`, { viewport: WIDE }, async (page) => {
            for (const [look, colorScheme, viewport] of LOOKS) {
                await page.emulateMedia({ colorScheme });
                await page.setViewportSize(viewport);
                await settled(page);
                assert.equal(await page.locator('#main').getAttribute('data-page'), id);
                assert.equal(await page.locator('.sonde-state.bad').count(), 0);
                await shot(page, `page-${id}-${look}`, { fullPage: true });
                // Nothing is cut off at the right: a page scrolls down, never sideways.
                assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
                    `${look}: the page is wider than the window`);
                assert.deepEqual(await audit(page), [], look);
            }
        }));
}

test('a browser that asks for / comes to the dashboard, with what it asked for', () => withAgent(live.url, '/?range=300', {}, async (page) => {
    await settled(page);
    assert.equal(page.url(), `${live.url}/profiling/dashboard?range=300`);
    assert.match(await page.locator('header.top .range').innerText(), /Last 5 min/);
}));

test('pages are switched by links, keys and the back button, and nothing is loaded again', () =>
    withAgent(live.url, '/profiling/dashboard', {}, async (page) => {
        await settled(page);
        await page.evaluate(() => { globalThis.same = true; });
        for (const id of ['requests', 'cpu', 'system']) {
            await page.locator(`nav.rail a[href*="/profiling/${id}"]`).click();
            await page.locator(`#main[data-page="${id}"]`).waitFor();
        }
        await page.goBack();
        await page.locator('#main[data-page="cpu"]').waitFor();
        assert.equal(await page.evaluate(() => globalThis.same), true);
        await page.keyboard.press('?');
        await page.locator('dialog.help[open]').waitFor();
        await page.keyboard.press('Escape');
        await page.locator('dialog.help[open]').waitFor({ state: 'hidden' });
    }));

// ---- From a burst to its cause: what the agent says ---------------------------------------------

test('cells of the heat map count exactly the requests that the same bounds list', async () => {
    const range = `metric=ttft&from=${burst.from - 5}&to=${burst.to}`;
    const heat = await live.ask(`/api/heatmap?${range}&columns=20&rows=20`);
    assert.ok(heat.cells.length > 3);
    assert.equal(heat.cells.reduce((sum, c) => sum + c[2], 0), heat.counted);
    for (const [column, row, count, failed] of heat.cells) {
        const from = heat.from + column * heat.step_s;
        const listed = await live.ask(`/api/requests?metric=ttft&from=${from}&to=${from + heat.step_s}` +
            `&min=${heat.edges[row]}&max=${heat.edges[row + 1]}&limit=1000&timeline=0`);
        assert.equal(listed.requests.length, count, `column ${column}, row ${row}`);
        assert.equal(listed.requests.filter((r) => ['error', 'timeout', 'lost'].includes(r.outcome)).length, failed);
    }
});

test('the function that was made slow is on top of every difference', async () => {
    const slow = await burstRequests();
    const least = Math.min(...slow.map((r) => r.ttft_s));
    const range = `from=${burst.from - 5}&to=${burst.to}`;
    for (const parameters of [
        `${range}&metric=ttft&min=${least}&base=rest`,
        `${range}&slowest=8&base=rest`,
        `from=${burst.from}&to=${burst.to}&base_from=${burst.from - 5}&base_to=${burst.from}`,
    ]) {
        const answer = await live.ask(`/api/flamegraph?type=cpu&${parameters}`);
        assert.equal(grownOf(answer)[0].name, SLOW, `${parameters}: ${JSON.stringify(grownOf(answer).slice(0, 3))}`);
    }
});

// ---- The same on the page of flame graphs -------------------------------------------------------

const range = () => `from=${burst.from}&to=${burst.to}`;
const before5 = () => `base=${burst.from - 5}..${burst.from}`;

test('a difference of two times: the function that was made slow is the first of the table', () =>
    withAgent(live.url, `/profiling/cpu?${range()}&${before5()}&view=functions`, {}, async (page) => {
        await settled(page);
        await until('the table is there', async () => (await names(page)).length > 3);
        assert.equal((await names(page))[0], SLOW);
    }));

test('by hand: brush the slow cells of the heat map, their requests, one of them, its flame graph, the difference', () =>
    withAgent(live.url, `/profiling/requests?from=${burst.from - 5}&to=${burst.to}`, {}, async (page) => {
        await settled(page);
        const box = await page.locator('sonde-heatmap canvas').first().boundingBox();
        await page.mouse.move(box.x + box.width - 4, box.y + 4);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width / 2, box.y + box.height / 5, { steps: 4 });
        await page.mouse.move(box.x + 60, box.y + box.height / 3, { steps: 4 });
        await page.mouse.up();
        await until('cells are chosen', () => /cells=/.test(page.url()));
        const rows = page.locator('sonde-requests [role=grid] [role=rowgroup] [role=row]');
        const slow = rows.filter({ hasText: 'burst-1-' });
        await until('the burst is listed', async () => (await slow.count()) > 0);
        await slow.first().click();
        await until('one is chosen', () => /request=/.test(page.url()));
        await page.locator('sonde-timeline').getByText('Encode', { exact: true }).first().waitFor();
        await shot(page, 'page-requests-chosen');
        await page.locator('.chosen a[href*="base=rest"]').click();
        await page.locator('#main[data-page="cpu"]').waitFor();
        await page.locator('sonde-flamegraph .tabs [data-view=functions]').click();
        await until('the table is there', async () => (await names(page)).length > 3);
        assert.equal((await names(page))[0], SLOW);
    }));

test('shares in the table are those of the API', () =>
    withAgent(live.url, `/profiling/cpu?${range()}&view=functions`, {}, async (page) => {
        await settled(page);
        await until('the table is there', async () => (await names(page)).length > 3);
        const functions = functionsOf(await live.ask(`/api/flamegraph?type=cpu&${range()}`));
        const whole = functions.reduce((sum, f) => sum + f.self, 0);
        const rows = await page.locator('sonde-flamegraph .functions .rows .row').evaluateAll((all) => all.map((r) =>
            [r.querySelector('.name').textContent, r.querySelector('.self span').textContent]));
        for (const [name, share] of rows) {
            const self = functions.filter((f) => f.name === name).map((f) => `${((100 * f.self) / whole).toFixed(2)} %`);
            assert.ok(self.includes(share), `${name}: ${share}, the API has ${self}`);
        }
    }));

test('search, sandwich and inverting are in the address, and an address shows the same to others', () =>
    withAgent(live.url, `/profiling/cpu?${range()}`, {}, async (page, context) => {
        await settled(page);
        const flame = page.locator('sonde-flamegraph');
        await flame.locator('.find input').fill('tokenizer');
        await until('a share matches', async () => /[1-9]/.test(await flame.locator('.matched').textContent()));
        await flame.locator('.tabs [data-view=sandwich]').click();
        await until('the address says so', () => /view=sandwich/.test(page.url()) && /search=tokenizer/.test(page.url()));
        const other = await context.newPage();
        await other.goto(page.url());
        await settled(other);
        const theirs = other.locator('sonde-flamegraph');
        await until('the same matches', async () =>
            (await theirs.locator('.matched').textContent()) === (await flame.locator('.matched').textContent()));
        assert.equal(await theirs.locator('.find input').inputValue(), 'tokenizer');
        assert.equal(await theirs.locator('.tabs [data-view=sandwich]').getAttribute('aria-selected'), 'true');
    }));

test('names with markup are shown as text', () =>
    withAgent(live.url, `/profiling/cpu?range=900&view=functions&search=onerror`, {}, async (page) => {
        await settled(page);
        await until('the function is found', async () => (await names(page)).includes('<img src=x onerror=alert(2)>'));
        assert.equal(await page.locator('img').count(), 0);
    }));

// ---- An agent that goes away, and one that wants a token ----------------------------------------

test('the agent is restarted: the page says that its data is old, and goes on by itself', async () => {
    const own = workFolder();
    const engine = await startEngine(own);
    let agent = await serve(own);
    const { port, url } = agent;
    try {
        // What the browser itself says about an agent that is not there, or just ends or begins.
        await withAgent(url, '/profiling/dashboard', { fine: /ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY|ERR_SOCKET|status of 503/ }, async (page) => {
            const mark = page.locator('button.live');
            await page.locator('button.live[data-status="live"]').waitFor();
            await agent.stop();
            await page.locator('button.live[data-status="stale"]').waitFor();
            assert.match(await mark.innerText(), /No data|No connection/);
            agent = await serve(own, [], { port });
            await page.locator('button.live[data-status="live"]').waitFor();
            await until('nothing is missing any more', async () => (await page.locator('.sonde-state.bad').count()) === 0);
        });
    } finally {
        await agent.stop();
        await engine.stop();
        own.remove();
    }
});

test('a token is asked for, a wrong one is refused, the right one is kept for the tab', async () => {
    const own = workFolder();
    const token = 'correct-horse-battery';
    const agent = await serve(own, [], { env: { SONDE_TOKEN: token } });
    try {
        await withAgent(agent.url, '/profiling/dashboard', { fine: /status of 401/ }, async (page) => {
            const dialog = page.locator('dialog.token');
            const give = async (text) => {
                await dialog.locator('input').fill(text);
                await dialog.locator('button[type=submit]').click();
            };
            await dialog.waitFor();
            assert.deepEqual(await audit(page), []);
            await give('wrong-horse-battery-1');
            await dialog.getByText('was not accepted').waitFor();
            await give(token);
            await page.locator('button.live[data-status="live"]').waitFor();
            await page.reload();
            await page.locator('button.live[data-status="live"]').waitFor();
            assert.equal(await dialog.count(), 0);
            assert.ok(!page.url().includes(token), 'it is not in the address');
        });
    } finally {
        await agent.stop();
        own.remove();
    }
});

test('two tabs and a shared address show the same', () =>
    withAgent(live.url, `/profiling/system?from=${burst.from}&to=${burst.to}&model=large-8b`, {}, async (page, context) => {
        await settled(page);
        const other = await context.newPage();
        await other.goto(page.url());
        await settled(other);
        const seen = (p) => p.locator('header.top').innerText();
        assert.equal(await seen(other), await seen(page));
        assert.match(await seen(page), /Stopped/);
    }));
