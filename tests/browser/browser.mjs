// Debian's Chromium, offline, with a profile of its own, and pages that must not complain.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
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

const PATIENCE_MS = 120_000; // nothing takes that long unless it is broken

/** A context whose pages note what they complain about: errors, violations of their policy, dialogs,
 *  and requests to others than `allowed` (file:, data: and blob: URLs are always). */
async function openContext(options, allowed) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
    context.setDefaultTimeout(PATIENCE_MS);
    const trouble = [];
    await context.exposeBinding('sondeViolation', (_source, text) => trouble.push(`policy: ${text}`));
    await context.addInitScript(() => {
        addEventListener('securitypolicyviolation', (e) =>
            globalThis.sondeViolation(`${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));
    });
    context.on('page', (page) => {
        page.on('pageerror', (e) => trouble.push(`error: ${e.stack ?? e.message}`));
        page.on('console', (m) => m.type() === 'error' &&
            trouble.push(`console: ${m.text()} ${m.location().url}`));
        page.on('dialog', (d) => { trouble.push(`dialog: ${d.message()}`); void d.dismiss(); });
    });
    context.on('request', (r) => /^(file|data|blob):/.test(r.url()) || allowed.includes(new URL(r.url()).origin) ||
        trouble.push(`asked for ${r.url()}`));
    return { context, trouble };
}

/** Run body with a page on a file, of `out` unless its path is absolute; anything the page asks the
 *  network for, any error and any dialog fails the test. */
export async function withPage(file, options, body) {
    const { hash = '', ...rest } = options;
    const { context, trouble } = await openContext({ viewport: { width: 1200, height: 800 }, ...rest }, []);
    try {
        const page = await context.newPage();
        await page.goto(pathToFileURL(resolve(out, file)).href + hash);
        await body(page);
        assert.deepEqual(trouble, []);
    } finally {
        await context.close();
    }
}

/** Run body with a page of an agent's. Options are those of a context and
 *  also:    other origins that it may ask
 *  fine:    a regular expression of complaints that the test causes itself
 *  script:  a function that runs in pages before their own scripts */
export async function withAgent(url, path, options, body) {
    const { also = [], fine = null, script = null, ...rest } = options;
    const { context, trouble } = await openContext(rest, [url, ...also]);
    try {
        if (script) await context.addInitScript(script);
        const page = await context.newPage();
        await page.goto(url + path);
        await body(page, context);
        assert.deepEqual(trouble.filter((t) => !fine?.test(t)), []);
    } catch (e) {
        for (const [i, page] of context.pages().entries()) {
            await shot(page, `failed-${Date.now()}-${i}`).catch(() => {});
            e.message += `\non ${page.url()}`;
        }
        if (trouble.length) e.message += `\ncomplaints: ${trouble.join('\n')}`;
        throw e;
    } finally {
        await context.close();
    }
}

export const shot = (page, name, options = {}) =>
    page.screenshot({ path: join(out, 'shots', `${name}.png`), ...options });
