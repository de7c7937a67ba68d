// stream.mjs URL: the live stream as a page has it, by EventSource in Chromium.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

const [url] = process.argv.slice(2);
const profile = mkdtempSync(join(tmpdir(), 'sonde-chromium-'));
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
        '--disable-background-networking', '--disable-component-update', '--disable-sync',
        `--disk-cache-dir=${join(profile, 'cache')}`] });
try {
    const page = await browser.newPage();
    await page.goto(`${url}/`);
    const seen = await page.evaluate(() => new Promise((done, fail) => {
        const events = [];
        const source = new EventSource('/api/stream?events=series,processes&name=sonde_agent_*&limit=5');
        const take = (e) => {
            events.push({ type: e.type, id: e.lastEventId, data: JSON.parse(e.data) });
            if (events.length < 8) return;
            source.close();
            done(events);
        };
        source.addEventListener('series', take);
        source.addEventListener('processes', take);
        source.onerror = () => fail(new Error('the stream broke'));
    }));
    // Series and processes in turn, each pair of one tick, ticks ascending.
    seen.forEach((e, i) => assert.equal(e.type, i % 2 ? 'processes' : 'series'));
    const ticks = seen.filter((e) => e.type === 'processes').map((e) => Number(e.id.split('-')[1]));
    ticks.forEach((t, i) => assert.ok(i === 0 || t > ticks[i - 1], `${ticks}`));
    for (const e of seen) {
        if (e.type === 'series') assert.ok(Array.isArray(e.data.series) && e.data.series.length <= 5);
        else assert.ok(Array.isArray(e.data.processes));
    }
    console.log(`${seen.length} events, ticks ${ticks.join(' ')}`);
} finally {
    await browser.close();
    rmSync(profile, { recursive: true, force: true });
}
