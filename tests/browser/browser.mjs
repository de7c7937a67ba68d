// Debian's Chromium, offline, with a profile of its own, and pages that must not complain.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

export const out = process.env.SONDE_OUT;
assert.ok(out, 'SONDE_OUT is the folder with the pictures');

const profile = mkdtempSync(join(tmpdir(), 'sonde-chromium-'));
const browser = await chromium.launch({
    executablePath: '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
        '--disable-background-networking', '--disable-component-update', '--disable-sync',
        `--disk-cache-dir=${join(profile, 'cache')}`],
});

export async function close() {
    await browser.close();
    rmSync(profile, { recursive: true, force: true });
}

/** Run body with a page on a file of `out`; anything the page asks the network for, any error and
 *  any dialog fails the test. */
export async function withPage(file, options, body) {
    const { hash = '', ...rest } = options;
    const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...rest });
    const page = await context.newPage();
    const trouble = [];
    page.on('pageerror', (e) => trouble.push(`error: ${e.message}`));
    page.on('console', (m) => m.type() === 'error' && trouble.push(`console: ${m.text()}`));
    page.on('dialog', (d) => { trouble.push(`dialog: ${d.message()}`); void d.dismiss(); });
    page.on('request', (r) => /^(file|data|blob):/.test(r.url()) || trouble.push(`asked for ${r.url()}`));
    try {
        await page.goto(pathToFileURL(join(out, file)).href + hash);
        await body(page);
        assert.deepEqual(trouble, []);
    } finally {
        await context.close();
    }
}

export const shot = (page, name) => page.screenshot({ path: join(out, 'shots', `${name}.png`) });
