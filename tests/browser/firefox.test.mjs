// Every page in Debian's Firefox, with data of a live agent: a second engine for scripts and styles.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { runEngine, until, workFolder } from './agent.mjs';
import { Firefox } from './firefox.mjs';
import { PAGES, isLoading } from './pages.mjs';

const where = workFolder();
let live, firefox;

before(async () => {
    [live, firefox] = await Promise.all([runEngine(where, ['--continuous=99']), Firefox.launch()]);
    await live.tell('burst 6 800');
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
