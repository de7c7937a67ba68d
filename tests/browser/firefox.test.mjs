// Debian's Firefox, a second engine for scripts and styles: every page with data of a live agent, and the
// path from a burst to its cause.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { until, workFolder } from './agent.mjs';
import { SLOW, startBurst } from './burst.mjs';
import { Firefox } from './firefox.mjs';
import { PAGES, isLoading } from './pages.mjs';

const where = workFolder();
let live, burst, firefox;

before(async () => {
    [{ live, burst }, firefox] = await Promise.all([startBurst(where), Firefox.launch()]);
});
after(async () => {
    await firefox?.close();
    await live?.stop();
    where.remove();
});

for (const id of PAGES) {
    test(`${id} renders`, () => firefox.withPage(live.url, `/profiling/${id}`, {}, async (page) => {
        await until('the page is there', () => page.evaluate((want) =>
            document.querySelector('#main')?.dataset.page === want, id));
        await until('nothing is loading', async () => !(await page.evaluate(isLoading)));
        assert.equal(await page.evaluate(() => document.querySelectorAll('.sonde-state.bad').length), 0);
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'wider than the window');
        await page.screenshot(join(process.env.SONDE_OUT, 'shots', `firefox-${id}.png`));
    }));
}

/** Press it. */
async function click(page, selector, text) {
    const { x, y, width, height } = await page.box(selector, text);
    await page.drag({ x: Math.round(x + width / 2), y: Math.round(y + height / 2) });
}

test('a brush on a curve sets the range', () => firefox.withPage(live.url, '/profiling/inference?range=300', {}, async (page) => {
    await until('nothing is loading', async () => !(await page.evaluate(isLoading)));
    const { x, y, width, height } = await page.box('.u-over');
    const at = (share) => ({ x: Math.round(x + width * share), y: Math.round(y + height / 2) });
    await page.drag(at(0.5), at(0.6), at(0.8));
    const { from, to } = await until('the address has it', () => page.evaluate(() => {
        const q = new URLSearchParams(location.search);
        return q.has('from') && { from: Number(q.get('from')), to: Number(q.get('to')) };
    }));
    assert.ok(to - from > 60 && to - from < 120, `${to - from} of 300 s`);
}));

test('from slow cells of the heat map to their requests, to one of them, to what made it slow', () =>
    firefox.withPage(live.url, `/profiling/requests?from=${burst.from - 5}&to=${burst.to}`, {}, async (page) => {
        const address = () => page.evaluate(() => location.search);
        await until('nothing is loading', async () => !(await page.evaluate(isLoading)));
        const { x, y, width, height } = await page.box('canvas[aria-roledescription="heat map"]');
        const at = (right, down) => ({ x: Math.round(x + right), y: Math.round(y + down) });
        await page.drag(at(width - 4, 4), at(width / 2, height / 5), at(60, height / 3));
        await until('cells are chosen', async () => /cells=/.test(await address()));
        await click(page, '[role=rowgroup] [role=row]', 'burst-1-');
        await until('one is chosen', async () => /request=/.test(await address()));
        await click(page, '.chosen a[href*="base=rest"]', '');
        await until('the page of flame graphs', () => page.evaluate(() => document.querySelector('#main')?.dataset.page === 'cpu'));
        await click(page, '.tabs [data-view=functions]', '');
        await until('the slow function is the first of the table', async () =>
            (await page.evaluate(firstFunction)) === SLOW);
    }));

/** In the page. */
function firstFunction() {
    const view = document.querySelector('sonde-flamegraph')?.shadowRoot;
    return view?.querySelector('.functions .rows .name')?.textContent ?? null;
}
