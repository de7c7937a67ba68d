// A page of another origin, made with OpenUI5, that hosts our elements by one script tag
// (tests/openui5/host.mjs): they live there and show what the agent has.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { runEngine, until, workFolder } from './agent.mjs';
import { close, shot, withAgent } from './browser.mjs';
import { isLoading } from './pages.mjs';

const folder = process.env.SONDE_OPENUI5;
const { startHost } = await import(pathToFileURL(join(folder, 'host.mjs')));
const where = workFolder();
const TAGS = ['tile', 'timeseries', 'heatmap', 'flamegraph', 'findings'];
let host, live, request;

before(async () => {
    host = await startHost(folder);
    live = await runEngine(where, ['--set', `server.hosts=${new URL(host.origin).host}`, '--continuous=99']);
    await live.tell('burst 4 400');
    request = await until('the burst is known', async () =>
        (await live.ask('/api/requests?limit=1&sort=slowest')).requests[0]?.id);
    await until('it was sampled', async () => (await live.ask('/api/flamegraph?nodes=100')).about.samples > 0);
});
after(async () => {
    await live?.stop();
    host?.close();
    await close();
    where.remove();
});

/** Texts that a person sees in an element of that tag, its shadow root included. */
const textOf = (page, tag) => page.evaluate((t) => {
    const all = (n) => n.nodeType === 3 ? n.data : [...(n.shadowRoot ?? n).childNodes].map(all).join(' ');
    return all(document.querySelector(t));
}, tag);

/** Whether a canvas inside has anything drawn on it. */
const drawn = (page, tag) => page.evaluate((t) => {
    const canvases = (root) => [...root.querySelectorAll('*')].flatMap((e) =>
        e instanceof HTMLCanvasElement ? [e] : e.shadowRoot ? canvases(e.shadowRoot) : []);
    return canvases(document.querySelector(t).shadowRoot).some((c) => {
        if (!c.width || !c.height) return false;
        const data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return data.some((v) => v !== data[0] && v !== 0);
    });
}, tag);

test('elements in an OpenUI5 page', () => withAgent(host.origin,
    `/?agent=${encodeURIComponent(live.url)}&request=${request}`, { also: [live.url] }, async (page) => {
        await page.locator('sonde-timeseries').waitFor();
        assert.deepEqual(await page.evaluate((tags) => tags.filter((t) => !customElements.get(`sonde-${t}`)), TAGS), []);
        const ready = () => until('all have their data', async () => !(await page.evaluate(isLoading)));
        await ready();
        assert.equal(await page.locator('.sonde-state.bad').count(), 0);
        for (const tag of ['timeseries', 'heatmap', 'flamegraph']) {
            await until(`${tag} is drawn`, () => drawn(page, `sonde-${tag}`));
        }
        await until('the curve has a value', async () => /MiB/.test(await textOf(page, 'sonde-timeseries')));
        await until('the heat map counts', async () => /[1-9]\d* requests/.test(await textOf(page, 'sonde-heatmap')));
        await shot(page, 'page-openui5', { fullPage: true });

        // What the framework does to its content: taken out and put back, they go on.
        await page.evaluate(() => globalThis.rerender('timeseries'));
        await ready();
        await until('it is drawn again', () => drawn(page, 'sonde-timeseries'));
    }));

test('a page whose host is not in server.hosts gets nothing', () => withAgent(host.origin.replace('localhost', '127.0.0.1'),
    `/?agent=${encodeURIComponent(live.url)}&request=${request}`, { also: [live.url], fine: /./ }, async (page) => {
        await page.locator('sonde-timeseries').waitFor();
        await until('it says so', async () => (await page.locator('sonde-timeseries .sonde-state.bad').count()) > 0);
        assert.ok(!/MiB/.test(await textOf(page, 'sonde-timeseries')));
    }));
