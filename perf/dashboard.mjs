// dashboard.mjs MODULES COMMAND ARGUMENTS…: figures of pages as the browser itself has them, one JSON
// object on stdout. MODULES is the node_modules folder of tests/browser.
//
//   paint URL ROUNDS             first contentful paint, and when the first figure was there, in ms
//   drawn URL ROUNDS             when a canvas first had something on it, in ms since the navigation
//   interact URL sonde|speedscope COUNT   how long clicks and keys took to be painted, in ms
//   series URL CHARTS SECONDS    charts of bench_writer_total, by the last digits of their ids (seven of ten
//                                are counters): memory and CPU time of the browser
//   open URL COUNT SECONDS       so many pages, for that long
import { createRequire } from 'node:module';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const [modules, command, url, ...rest] = process.argv.slice(2);
const { chromium } = createRequire(resolve(modules, 'any.js'))('playwright-core');
const profile = mkdtempSync(join(tmpdir(), 'sonde-bench-browser-'));
const server = await chromium.launchServer({ executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking',
        '--disable-component-update', '--disable-sync', '--enable-precise-memory-info', `--disk-cache-dir=${join(profile, 'cache')}`] });
const browser = await chromium.connect(server.wsEndpoint());
const PATIENCE_MS = 300_000;
// Whoever started this gave up: the browser must not stay.
process.on('SIGTERM', () => { server.process().kill('SIGKILL'); process.exit(1); });

async function open(init) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    if (init) await page.addInitScript(init);
    await page.goto(url);
    return { context, page };
}

/** CPU seconds of the browser's processes, all of them. */
function browserCpu() {
    const parents = new Map();
    for (const pid of readdirSync('/proc').filter((n) => /^\d+$/.test(n))) {
        try {
            const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /, '').split(' ');
            parents.set(Number(pid), { parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) });
        } catch { /* it has ended */ }
    }
    const root = server.process().pid;
    const ours = (pid) => pid === root || (parents.has(pid) && parents.get(pid).parent > 1 && ours(parents.get(pid).parent));
    return [...parents].filter(([pid]) => ours(pid)).reduce((sum, [, p]) => sum + p.ticks, 0) / 100;
}

// ---- In the page --------------------------------------------------------------------------------

/** Notes when a canvas that the page draws on first has two colours on it. */
function watchCanvas() {
    const drawnOn = new Set(); // asking a canvas for a context of another kind would spoil it
    const { getContext } = HTMLCanvasElement.prototype;
    HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
        const context = getContext.call(this, kind, ...more);
        if (kind === '2d' && context) drawnOn.add(context);
        return context;
    };
    const hasPicture = (context) => {
        const { width, height, isConnected } = context.canvas;
        if (!width || !height || !isConnected) return false;
        const data = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
        return data.some((v) => v !== data[0]);
    };
    const look = () => {
        if ([...drawnOn].some(hasPicture)) globalThis.benchDrawn = performance.now();
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}

function watchFigures() {
    const look = () => {
        const tile = [...document.querySelectorAll('sonde-tile')].find((t) => /\d/.test(t.shadowRoot?.textContent ?? ''));
        if (tile) globalThis.benchFigures = performance.now();
        else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
}

function watchEvents() {
    globalThis.benchEvents = [];
    new PerformanceObserver((list) => {
        for (const e of list.getEntries()) if (e.interactionId) globalThis.benchEvents.push([e.interactionId, e.duration]);
    }).observe({ type: 'event', durationThreshold: 16, buffered: true });
}

// ---- Commands -----------------------------------------------------------------------------------

const commands = {
    async paint(rounds) {
        const out = { first_paint: [], figures: [] };
        for (let i = 0; i < Number(rounds); i++) {
            const { context, page } = await open(watchFigures);
            out.figures.push(await (await page.waitForFunction(() => globalThis.benchFigures)).jsonValue());
            out.first_paint.push(await page.evaluate(() =>
                performance.getEntriesByName('first-contentful-paint')[0].startTime));
            await context.close();
        }
        return out;
    },

    async drawn(rounds) {
        const out = { drawn: [] };
        for (let i = 0; i < Number(rounds); i++) {
            const { context, page } = await open(watchCanvas);
            out.drawn.push(await (await page.waitForFunction(() => globalThis.benchDrawn)).jsonValue());
            await context.close();
        }
        return out;
    },

    /** Zooms into frames here and there and out again, by mouse and keys. Interactions that took less
     *  than 16 ms are not reported by the browser, and count as that. */
    async interact(whose, count) {
        const { page } = await open(`(${watchCanvas})(); (${watchEvents})();`);
        await page.waitForFunction(() => globalThis.benchDrawn);
        await page.evaluate(() => { globalThis.benchEvents.length = 0; });
        let seed = 7;
        const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
        let made = 0;
        while (made < Number(count)) {
            const x = 100 + 1000 * random(), y = 300 + 400 * random();
            if (whose === 'speedscope') await page.mouse.dblclick(x, y);
            else await page.mouse.click(x, y);
            await page.evaluate(() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go))));
            await page.keyboard.press(whose === 'speedscope' ? '0' : 'Escape');
            await page.evaluate(() => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go))));
            made += 2;
        }
        await sleep(500);
        const worst = new Map();
        for (const [id, ms] of await page.evaluate(() => globalThis.benchEvents)) worst.set(id, Math.max(ms, worst.get(id) ?? 0));
        const durations = [...worst.values()];
        while (durations.length < made) durations.push(16);
        return { durations };
    },

    async series(charts, seconds) {
        const { page } = await open();
        await page.waitForFunction(() => customElements.get('sonde-timeseries'));
        await page.evaluate((n) => {
            const box = document.createElement('div');
            box.style.cssText = 'display:grid;grid-template-columns:repeat(4,1fr)';
            for (let i = 0; i < n; i++) {
                const e = document.createElement('sonde-timeseries');
                const attributes = { name: 'bench_writer_total', label: `id:*${Math.floor(i / 7)}${i % 7}`, each: '', most: '100', range: '60', height: '120' };
                for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
                box.append(e);
            }
            document.querySelector('main').replaceChildren(box);
        }, Number(charts));
        const cdp = await page.context().newCDPSession(page);
        const heap = async () => {
            await cdp.send('HeapProfiler.collectGarbage');
            return (await page.evaluate(() => performance.memory.usedJSHeapSize)) / 1e6;
        };
        await sleep(Math.min(60_000, 1000 * Number(seconds) / 4)); // the range fills
        const lines = await page.evaluate(() => [...document.querySelectorAll('sonde-timeseries')]
            .reduce((sum, e) => sum + e.shadowRoot.querySelectorAll('.legend li').length, 0));
        const before = browserCpu(), began = Date.now(), heaps = [await heap()];
        while (Date.now() - began < 1000 * Number(seconds)) {
            await sleep(Math.min(30_000, 1000 * Number(seconds) / 4));
            heaps.push(await heap());
        }
        return { heap_mb: heaps, cpu_percent: 100 * (browserCpu() - before) / ((Date.now() - began) / 1000), lines };
    },

    async open(count, seconds) {
        const pages = await Promise.all(Array.from({ length: Number(count) }, () => open()));
        for (const { page } of pages) await page.waitForFunction(() => document.querySelector('button.live')?.dataset.status === 'live');
        console.error('open');
        await sleep(1000 * Number(seconds));
        return { pages: pages.length };
    },
};

try {
    console.log(JSON.stringify(await commands[command](...rest)));
} finally {
    await browser.close();
    await server.close();
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
