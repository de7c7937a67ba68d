// Speedscope itself, offline, opens a file that was written in its format.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { close, out, shot, withPage } from './browser.mjs';
import { functions, readStacks } from './truth.mjs';

after(close);

/** Open a file of ours in speedscope as its own command line does, and show its table. */
async function table(name, body) {
    const base64 = readFileSync(join(out, name)).toString('base64');
    const script = join(out, `${name}.js`);
    writeFileSync(script, `speedscope.loadFileFromBase64(${JSON.stringify(name)}, ${JSON.stringify(base64)})`);
    await withPage('node_modules/speedscope/dist/release/index.html',
        { hash: `#localProfilePath=${script}` }, async (page) => {
            await page.getByText('Sandwich').click();
            await page.locator('td').first().waitFor();
            await body(page);
        });
}

test('a speedscope file: the functions and their weights', () => table('server.speedscope.json', async (page) => {
    await shot(page, 'speedscope-sandwich');
    const rows = await page.$$eval('tr', (all) => all.map((r) => [...r.querySelectorAll('td')].map((c) => c.textContent)));
    const stacks = readStacks(join(out, 'server.folded'));
    const whole = stacks.reduce((sum, s) => sum + s.weight, 0);
    const truth = functions(stacks).sort((a, b) => b.self - a.self);
    const share = (text) => Number(/\(([0-9.]+)%\)/.exec(text)[1]) / 100;
    for (const f of truth.slice(0, 8)) {
        const row = rows.find((r) => r.some((c) => c.startsWith(f.name)));
        assert.ok(row, `${f.name} is in the table`);
        assert.ok(Math.abs(share(row[1]) - f.self / whole) < 0.011, `${f.name}: ${row[1]}`);
        assert.ok(Math.abs(share(row[0]) - f.total / whole) < 0.011, `${f.name}: ${row[0]}`);
    }
    await page.getByText('Left Heavy').click();
    await page.waitForTimeout(300);
    await shot(page, 'speedscope-left-heavy');
}));

test('a speedscope file with odd names', () => table('odd.speedscope.json', async (page) => {
    const text = await page.locator('table').last().innerText();
    for (const name of ['operator<<', 'a&b"c', '</script>']) assert.ok(text.includes(name), name);
    assert.equal(await page.evaluate(() => window.injected), undefined);
}));
