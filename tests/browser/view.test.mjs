// `sonde view FILE…` in the browser: the file, or the difference of two, and nothing that only an agent
// which watches something would have. That nothing is asked for in vain withAgent() sees to.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { sonde, until, workFolder } from './agent.mjs';
import { close, shot, withAgent } from './browser.mjs';
import { functionTable, settled } from './pages.mjs';

const where = workFolder();
after(async () => {
    await close();
    where.remove();
});

const path = (name, text) => {
    writeFileSync(join(where.folder, name), text);
    return join(where.folder, name);
};
const before = path('before.folded', 'main;parse 30\nmain;compute 60\nmain;<b>odd</b> 10\n');
const later = path('later.folded', 'main;parse 90\nmain;compute 60\nmain;<b>odd</b> 10\n');

/** The page that it says to open. */
async function view(files, look) {
    const child = spawn(sonde, ['view', '--listen', '127.0.0.1:0', ...files], { stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    child.stdout.on('data', (d) => { said += d; });
    const ended = new Promise((done) => child.on('close', done));
    try {
        const url = new URL(await until('it says where', () => /^http\S+/.exec(said)?.[0]));
        await withAgent(url.origin, url.pathname + url.search, {}, async (page) => {
            await settled(page);
            await look(page);
        });
    } finally {
        child.kill('SIGTERM');
        assert.equal(await ended, 0);
    }
}

test('a file', () => view([before], async (page) => {
    assert.equal(await page.locator('button.live').innerText(), 'File');
    assert.equal(await page.locator('.sonde-state.bad').count(), 0);
    assert.match(await page.locator('sonde-flamegraph header p').textContent(), /before\.folded · 100 samples/);
    assert.deepEqual((await functionTable(page)).slice(0, 3), ['compute', 'parse', '<b>odd</b>']);
    await shot(page, 'page-view');
    await page.locator('nav.rail a[href*="/profiling/requests"]').click();
    await settled(page);
    assert.equal(await page.locator('.sonde-state.bad').count(), 0);
}));

test('the difference of two', () => view([before, later], async (page) => {
    await until('the difference is there', async () => /before:/.test(await page.locator('sonde-flamegraph header p').textContent()));
    assert.equal((await functionTable(page))[0], 'parse');
}));
