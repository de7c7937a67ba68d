// Working with the dashboard: ranges drawn on curves and what they lead to, sessions, continuous
// profiling, history and marks, and all of it by keyboard. What a page does is looked up at the API.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { until, workFolder } from './agent.mjs';
import { close, shot, withAgent } from './browser.mjs';
import { BURST_REQUESTS, SLOW, slowBurst, startBurst } from './burst.mjs';
import { tableOf } from './figures.mjs';
import { grownOf } from './flame.mjs';
import { ODD_MARK as ODD, strays } from './odd.mjs';
import { drag, functionTable, param, place, press, rangeOf, settled } from './pages.mjs';

const where = workFolder();
let live, burst, wide;

before(async () => {
    ({ live, burst } = await startBurst(where));
    // What is looked at is over, so nothing on the pages moves.
    wide = { from: burst.from - 8, to: burst.to + 1 };
    await until('the time around the burst is over', () => Date.now() / 1000 > wide.to + 2);
});
after(async () => {
    await live?.stop();
    await close();
    where.remove();
});

const around = () => `from=${wide.from}&to=${wide.to}`;
const share = (time) => (time - wide.from) / (wide.to - wide.from);
const near = (a, b, by, what) => assert.ok(Math.abs(a - b) <= by, `${what}: ${a}, not ${b} ± ${by}`);

/** Draw a range on a chart by its heading. */
const brush = (page, heading, from, to, options) =>
    drag(page, page.locator(`sonde-timeseries[heading="${heading}"] .u-over`), share(from), share(to), options);

// ---- Ranges -------------------------------------------------------------------------------------

test('a range drawn on a curve is the range of all pages: its requests, its flame graph', () =>
    withAgent(live.url, `/profiling/dashboard?${around()}`, {}, async (page) => {
        const asked = [];
        page.on('request', (r) => asked.push(new URL(r.url())));
        await settled(page);
        const box = await brush(page, 'Time to first token', burst.from - 0.2, burst.to + 0.2);
        const [from, to] = await until('the address has the range', () => rangeOf(page)[0] !== wide.from && rangeOf(page));
        const pixel = (wide.to - wide.from) / box.width;
        near(from, burst.from - 0.2, 2 * pixel, 'from');
        near(to, burst.to + 0.2, 2 * pixel, 'to');
        for (const range of await page.locator('#main [data-follow]').evaluateAll((all) => all.map((e) => e.getAttribute('range')))) {
            assert.equal(range, `${from}..${to}`);
        }

        await page.locator('nav.rail a[href*="/profiling/requests"]').click();
        await settled(page);
        assert.deepEqual(rangeOf(page), [from, to]);
        const { total } = await live.ask(`/api/requests?from=${from}&to=${to}&state=done&limit=1`);
        assert.equal(await page.locator('sonde-requests .sum').innerText(), `${total} requests`);
        await page.getByLabel('Find a request by id or trace').fill('burst-1-');
        await until('the burst is among them', async () => (await page.locator('sonde-requests [role=row][data-row]').count()) === BURST_REQUESTS);

        await page.locator('nav.rail a[href*="/profiling/cpu"]').click();
        await settled(page);
        assert.deepEqual(rangeOf(page), [from, to]);
        assert.ok((await functionTable(page)).includes(SLOW));
        const graphs = asked.filter((u) => u.pathname === '/api/flamegraph');
        assert.ok(graphs.length > 0);
        for (const u of graphs) assert.deepEqual([u.searchParams.get('from'), u.searchParams.get('to')], [String(from), String(to)]);
        const { about } = await live.ask(`/api/flamegraph?type=cpu&from=${from}&to=${to}`);
        const summary = await page.locator('sonde-flamegraph header p').textContent();
        assert.ok(summary.includes(`${about.samples.toLocaleString('en-US')} samples`), `${summary}; the API has ${about.samples}`);
    }));

/** A quiet time with Shift held, then the burst without; what both led to. */
async function drawTwo(page, heading) {
    await settled(page);
    await brush(page, heading, burst.from - 6, burst.from - 1, { shift: true });
    const base = await until('the address has the second range', () => param(page, 'base'));
    const [from, to] = base.split('..').map(Number);
    near(from, burst.from - 6, 0.2, 'the second range begins');
    near(to, burst.from - 1, 0.2, 'the second range ends');
    assert.deepEqual(rangeOf(page), [wide.from, wide.to], 'the first one stays');
    await brush(page, heading, burst.from - 0.2, burst.to + 0.2);
    const range = await until('the address has the first range', () => rangeOf(page)[0] !== wide.from && rangeOf(page));
    assert.equal(param(page, 'base'), base);
    return live.ask(`/api/flamegraph?type=cpu&from=${range[0]}&to=${range[1]}&base_from=${from}&base_to=${to}`);
}

test('two ranges drawn on a curve of the overview lead to what is different', () =>
    withAgent(live.url, `/profiling/dashboard?${around()}`, {}, async (page) => {
        const difference = await drawTwo(page, 'Time to first token');
        assert.equal(grownOf(difference)[0].name, SLOW);
        const bar = page.locator('.base-bar');
        assert.match(await bar.innerText(), /Second range/);
        const [base, range] = [param(page, 'base'), rangeOf(page)];
        for (const link of ['nav.rail a[href*="/profiling/history"]', 'nav.rail a.brand', 'sonde-tile[label=CPU] a', 'nav.rail a[href*="/profiling/dashboard"]']) {
            await page.locator(link).first().click();
            await settled(page);
            assert.deepEqual([param(page, 'base'), rangeOf(page)], [base, range], link);
        }
        await press(bar.getByText('Compare flame graphs'), 'the page Compare', () => page.locator('#main[data-page="compare"]').isVisible());
        await settled(page);
        assert.equal((await functionTable(page))[0], SLOW);
    }));

test('two ranges drawn on the CPU page are the differential flame graph', () =>
    withAgent(live.url, `/profiling/cpu?${around()}`, {}, async (page) => {
        const difference = await drawTwo(page, 'CPU by process');
        await until('the difference is there', async () => /before:/.test(await page.locator('sonde-flamegraph header p').textContent()));
        assert.equal((await functionTable(page))[0], SLOW);
        assert.equal(grownOf(difference)[0].name, SLOW);
        await shot(page, 'page-cpu-difference');
        await press(page.locator('.chip', { hasText: 'compared with' }).getByRole('button'), 'it can be taken back', () => param(page, 'base') === null);
    }));

// ---- Sessions -----------------------------------------------------------------------------------

const sessionOf = async (name) => (await live.ask('/admin/profile/status')).sessions.find((s) => s.name === name);
const kept = async (name) => (await live.ask('/admin/profiles?limit=1000')).profiles.find((p) => p.name === name);

/** Start a session by the form, let something happen, stop it by its button; the profile that is kept. */
async function record(page, name, what) {
    await page.getByLabel('Name of the session').fill(name);
    await page.keyboard.press('Enter');
    await until(`${name} runs`, () => sessionOf(name));
    await what();
    await press(page.locator('.chip', { hasText: name }).getByRole('button', { name: 'Stop' }), `${name} has ended`, async () => !(await sessionOf(name)));
    const profile = await until(`${name} is kept`, () => kept(name));
    await page.locator('table[aria-label="Kept profiles"] tr', { hasText: name }).waitFor();
    return profile;
}

test('sessions are started, stopped, compared and deleted', () =>
    withAgent(live.url, '/profiling/compare', { fine: /status of 40[04] .*\/admin\/profile\/(start|stop)/ }, async (page) => {
        await settled(page);
        const calm = await record(page, 'calm', () => until('it has samples', async () => (await sessionOf('calm')).samples > 20));
        const busy = await record(page, 'busy.2', () => slowBurst(live));
        const row = (name) => page.locator('table[aria-label="Kept profiles"] tr', { hasText: name });
        await press(row('calm').getByRole('button', { name: 'Before' }), 'calm is before', () => param(page, 'base') === String(calm.id));
        await page.getByRole('combobox', { name: 'After' }).selectOption(String(busy.id));
        await until('the other is after', () => param(page, 'profile') === String(busy.id));

        const api = await live.ask(`/admin/profile/compare?a=${calm.id}&b=${busy.id}`);
        const verdict = page.locator('p.verdict b');
        await until('the verdict is the agent\'s', async () => (await verdict.textContent()) === api.summary);
        const figures = await tableOf(page, 'Figures');
        const told = api.figures.filter((f) => !f.verdict.startsWith('not '));
        if (told.length) assert.deepEqual(figures.rows.map((r) => r.at(-1)), told.map((f) => f.verdict));
        assert.equal(grownOf(await live.ask(`/api/flamegraph?type=cpu&profile=${busy.id}&base_profile=${calm.id}`))[0].name, SLOW);
        assert.equal((await functionTable(page))[0], SLOW);
        await shot(page, 'page-compare-sessions');

        for (const name of ['<script>alert(3)</script>', 'a "quoted" name', '\u{1f525}']) {
            await page.getByLabel('Name of the session').fill(name);
            await page.keyboard.press('Enter');
            const said = page.locator('p.problem', { hasText: 'is no name' });
            await until('it is refused, in words', async () => (await said.textContent()).includes(name));
            assert.equal(await sessionOf(name), undefined);
        }

        const really = row('calm').getByRole('button', { name: 'Really delete' });
        await press(row('calm').getByRole('button', { name: 'Delete', exact: true }), 'it asks again', () => really.isVisible());
        assert.equal(await really.evaluate((e) => e.matches(':focus')), true, 'the button that has become another keeps the focus');
        assert.ok(await kept('calm'));
        await press(really, 'it is gone', async () => !(await row('calm').count()));
        assert.equal(await kept('calm'), undefined);
        assert.equal(param(page, 'base'), null, 'what is gone is not compared with');
        assert.equal((await kept('busy.2')).id, busy.id, 'the other one stays');
    }));

test('continuous profiling is turned off and on', () => withAgent(live.url, '/profiling/cpu?range=60', {}, async (page) => {
    const state = () => live.ask('/admin/profile/continuous');
    const bar = page.locator('.banner', { hasText: 'Continuous profiling' });
    await press(bar.getByRole('button', { name: 'Turn off' }), 'it is off', async () => !(await state()).enabled);
    await bar.getByText('Off: only sessions').waitFor();
    await press(bar.getByRole('button', { name: 'Turn on' }), 'it is on', async () => (await state()).enabled);
    await until('the engine is sampled again', async () => {
        const { cpu } = await state();
        return cpu.active && cpu.processes > 0;
    });
    await bar.getByRole('button', { name: 'Turn off' }).waitFor();
}));

// ---- History ------------------------------------------------------------------------------------

test('the strip of all that is kept: its window and its edge are dragged, keys move and zoom it', () =>
    withAgent(live.url, '/profiling/history?range=1200', {}, async (page) => {
        await settled(page);
        const strip = page.locator('.strip canvas');
        // An agent that was just started has an hour of room: the window is the right third of it.
        const second = (s) => s / 3600;
        const begin = Date.now() / 1000;
        await drag(page, strip, 1 - second(600), 1 - second(1500));
        const moved = await until('the window was moved', () => rangeOf(page));
        near(moved[1] - moved[0], 1200, 20, 'it is as long as before');
        near(moved[1], begin - 900, 60, 'it is earlier');
        const end = Date.now() / 1000;
        await drag(page, strip, 1 - second(end - moved[0]), 1 - second(end - moved[0] + 600));
        const wider = await until('its edge was moved', () => rangeOf(page)[0] !== moved[0] && rangeOf(page));
        near(wider[0], moved[0] - 600, 60, 'it begins earlier');
        near(wider[1], moved[1], 1, 'it ends as before');

        const step = async (key, what) => {
            const [from, to] = rangeOf(page);
            await page.keyboard.press(key);
            const now = await until(what, () => rangeOf(page)[0] !== from && rangeOf(page));
            return { from, to, half: (to - from) / 2, now };
        };
        const earlier = await step('[', 'earlier');
        near(earlier.now[0], earlier.from - earlier.half, 0.01, 'earlier by half');
        near(earlier.now[1], earlier.to - earlier.half, 0.01, 'earlier by half');
        const later = await step(']', 'later');
        near(later.now[0], earlier.from, 0.01, 'and back');
        near(later.now[1], earlier.to, 0.01, 'and back');
        const out = await step('z', 'zoomed out');
        near(out.now[0], out.from - out.half, 0.01, 'half as much before');
        assert.ok(out.now[1] > out.to, 'and more after');

        await strip.focus();
        const { from, half, now } = await step('+', 'zoomed in at the strip');
        near(now[1] - now[0], half, 1, 'half as long');
        assert.ok(now[0] > from);
        await press(page.getByRole('button', { name: 'All', exact: true }), 'everything that is kept, and live',
            () => rangeOf(page) === null && Number(param(page, 'range')) >= 3600);
    }));

test('a mark is kept by the agent, shown as text in the list and on curves, and deleted', () =>
    withAgent(live.url, '/profiling/history?range=3600', {}, async (page) => {
        await settled(page);
        const marks = async () => (await live.ask('/api/events?kind=mark')).events;
        await page.getByLabel('Text of the mark').fill(ODD);
        await page.getByRole('button', { name: 'Mark now' }).press('Enter');
        const mark = await until('the agent has it', async () => (await marks()).find((e) => e.text === ODD));
        const row = page.locator('.events tbody tr').filter({ hasText: '<b>"x"</b>' });
        await row.waitFor();
        assert.equal(await row.locator('td').nth(2).textContent(), ODD);
        assert.equal(await row.locator('td b').count(), 0, 'it is text');
        // On a curve, at its time.
        await page.goto(`${live.url}/profiling/history?from=${mark.time - 20}&to=${mark.time + 20}`);
        await settled(page);
        const box = await place(page.locator('sonde-timeseries[heading="CPU by process"] .u-over'));
        const tip = page.locator('.sonde-tip');
        await until('the curve says it', async () => {
            for (const by of [-3, 0]) await page.mouse.move(box.x + box.width / 2 + by, box.y + box.height / 2);
            return (await tip.locator('b').textContent({ timeout: 1000 })) === ODD;
        });
        assert.deepEqual(await page.evaluate(strays), []);
        await press(row.getByRole('button', { name: 'Delete' }), 'it is gone', async () => !(await row.count()));
        assert.deepEqual(await marks(), []);
    }));

test('another series is added by its name', () => withAgent(live.url, `/profiling/history?${around()}`, {}, async (page) => {
    await settled(page);
    const name = 'sonde_agent_series';
    await page.getByLabel('Add a chart of a series').fill(name);
    await page.keyboard.press('Enter');
    await until('the address has it', () => (param(page, 'series') ?? '').split(' ').includes(name));
    await settled(page);
    const chart = page.locator(`sonde-timeseries[name="${name}"]`);
    await chart.locator('.u-over').waitFor();
    await press(page.getByRole('button', { name, exact: true }), 'it is taken away', async () => !(await chart.count()));
}));

// ---- By keyboard --------------------------------------------------------------------------------

/** The element that has the focus, shadow roots included. */
const focused = (page) => page.evaluate(() => {
    let e = document.activeElement;
    while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
    const style = getComputedStyle(e);
    const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
    return {
        what: `${e.tagName.toLowerCase()}.${e.className}: ${(e.getAttribute('aria-label') ?? e.textContent).trim().slice(0, 60)}`,
        is: e.className, seen: outlined || style.boxShadow !== 'none', content: Boolean(e.getRootNode().host?.closest('#main') ?? e.closest('#main')),
    };
});

test('Tab leads through the page, past the navigation if one likes, and the focus is seen', () =>
    withAgent(live.url, `/profiling/dashboard?${around()}`, {}, async (page) => {
        await settled(page);
        await page.keyboard.press('Tab');
        assert.match((await focused(page)).what, /Skip to the page/);
        const unseen = [];
        let charts = 0;
        for (let i = 0; i < 300 && !charts; i++) {
            await page.keyboard.press('Tab');
            const at = await focused(page);
            if (!at.seen) unseen.push(at.what);
            if (at.content && /\bplot\b/.test(at.is)) charts++;
        }
        assert.equal(charts, 1, 'a chart has the focus');
        assert.deepEqual(unseen, []);

        await page.reload();
        await settled(page);
        await page.keyboard.press('Tab');
        await page.keyboard.press('Enter');
        await page.keyboard.press('Tab');
        assert.equal((await focused(page)).content, true, 'the link at the top skips the navigation');
    }));

test('what has the focus in a list keeps it when figures change', () =>
    withAgent(live.url, '/profiling/dashboard?range=60', {}, async (page) => {
        await settled(page);
        const row = page.locator('table[aria-label=Processes] tbody tr').filter({ hasText: 'infer_load' });
        await row.getByRole('link').focus();
        const text = await row.textContent();
        await until('the row has changed', async () => (await row.textContent()) !== text);
        assert.equal((await focused(page)).what, 'a.: infer_load');
    }));

test('a chart by keyboard: the cursor, a selection, a second range, the table behind it', () =>
    withAgent(live.url, `/profiling/dashboard?${around()}`, {}, async (page) => {
        await settled(page);
        const chart = page.locator('sonde-timeseries[heading="Time to first token"]');
        const keys = async (...all) => { for (const key of all) await page.keyboard.press(key); };
        await chart.locator('.plot').focus();
        await keys('Home', 'ArrowRight', 'ArrowRight', 'ArrowRight', 'Enter', 'ArrowRight', 'ArrowRight', 'Shift+Enter');
        await until('a second range', () => param(page, 'base') === `${wide.from + 3}..${wide.from + 6}`);
        assert.deepEqual(rangeOf(page), [wide.from, wide.to]);

        await chart.locator('.plot').focus();
        await keys('t');
        await until('the table has rows', async () => (await chart.locator('tbody tr').count()) > 0);
        assert.equal(await chart.locator('.plot').isVisible(), false);
        await keys('t');
        await until('the chart is back', () => chart.locator('.plot').isVisible());

        await chart.locator('.plot').focus();
        await keys('Home', 'ArrowRight', 'Enter', 'ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowRight', 'Enter');
        await until('the range', () => rangeOf(page)?.[0] === wide.from + 1);
        assert.deepEqual(rangeOf(page), [wide.from + 1, wide.from + 6]);
    }));

test('pages, help, the heat map and the table of requests by keyboard', () =>
    withAgent(live.url, `/profiling/dashboard?${around()}`, {}, async (page) => {
        await settled(page);
        const at = (id) => page.locator(`#main[data-page="${id}"]`).waitFor();
        const keys = async (...all) => { for (const key of all) await page.keyboard.press(key); };
        for (const [letter, id] of [['h', 'history'], ['c', 'cpu'], ['o', 'dashboard'], ['r', 'requests']]) {
            await keys('g', letter);
            await at(id);
            assert.deepEqual(rangeOf(page), [wide.from, wide.to], 'the range stays');
        }
        await keys('?');
        const help = page.locator('dialog.help');
        for (const text of ['Zoom out to twice the time', 'Show the chart as a table', 'Go to the heat map']) await help.getByText(text).first().waitFor();
        await keys('Escape');
        await help.waitFor({ state: 'detached' });

        await settled(page);
        await keys('h');
        assert.equal(await page.locator('sonde-heatmap canvas').first().evaluate((e) => e.matches(':focus')), true);
        await keys('ArrowLeft', 'Shift+ArrowLeft', 'Shift+ArrowUp', 'Enter');
        await until('cells are chosen', () => param(page, 'cells'));
        await keys('Escape');
        await until('nothing is chosen', () => !param(page, 'cells'));
        await settled(page);
        await keys('t', 'ArrowDown', 'Enter');
        await until('a request is open', () => param(page, 'request'));
        await page.locator('sonde-timeline').getByText('Duration', { exact: true }).first().waitFor();
        await keys('Escape');
        await until('it is closed', () => !param(page, 'request'));
    }));
