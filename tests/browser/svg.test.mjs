// The SVG in a browser, as a person would use it.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { close, out, shot, withPage } from './browser.mjs';
import { PAD, ROW, fold, matching, percent, readStacks } from './truth.mjs';

after(close);

const stacks = readStacks(join(out, 'server.folded'));
const tree = fold(stacks);
const whole = tree.total;

/** All frames that are drawn: name, x, width, row and classes. */
const frames = (page) => page.$$eval('.fr', (all) => all.map((g) => {
    const r = g.querySelector('rect');
    const at = (name) => Number(r.getAttribute(name));
    return { label: g.getAttribute('aria-label'), x: at('x'), y: at('y'), width: at('width'),
        color: r.getAttribute('class'), classes: g.getAttribute('class') };
}));

const frame = (page, name) => page.locator(`.fr[aria-label^=${JSON.stringify(name + ',')}]`).first();
const crumbs = (page) => page.$$eval('.crumbs button', (all) => all.map((b) => b.textContent));
const matched = (page) => page.locator('.matched').textContent();

function close_to(got, expected, what, by = 0.01) {
    assert.ok(Math.abs(got - expected) <= by, `${what}: ${got}, not ${expected}`);
}

test('every frame is where its weight puts it', () => withPage('server.svg', {}, async (page) => {
    const drawn = await frames(page);
    const nodes = [...tree.walk()].filter((n) => n.width >= 0.001);
    assert.equal(drawn.length, nodes.length);
    const bottom = Math.max(...drawn.map((f) => f.y));
    nodes.forEach((n, i) => {
        assert.equal(drawn[i].label, `${n.name}, ${percent(n.total, whole)}`);
        close_to(drawn[i].x, PAD + n.start * 1176, `x of ${n.name}`);
        close_to(drawn[i].width, n.width * 1176, `width of ${n.name}`);
        assert.equal(drawn[i].y, bottom - n.depth * ROW);
    });
    await shot(page, 'svg-light');
}));

test('root on top', () => withPage('icicle.svg', {}, async (page) => {
    const drawn = await frames(page);
    assert.equal(drawn[0].y, Math.min(...drawn.map((f) => f.y)));
    await shot(page, 'svg-icicle');
}));

test('without scripts there is a picture', async () => {
    await withPage('server.svg', { javaScriptEnabled: false }, async (page) => {
        assert.equal(await page.locator('.still text', { hasText: 'llama_decode' }).count(), 1);
        const background = await page.locator('.still .bg').evaluate((e) => getComputedStyle(e).fill);
        assert.equal(background, 'rgb(255, 255, 255)');
        await shot(page, 'svg-no-script');
    });
    writeFileSync(join(out, 'img.html'), '<!DOCTYPE html><link rel=icon href="data:,"><img src="server.svg">');
    await withPage('img.html', { colorScheme: 'dark' }, async (page) => {
        const size = await page.locator('img').evaluate((i) => [i.naturalWidth, i.naturalHeight]);
        assert.equal(size[0], 1200);
        assert.ok(size[1] > 200);
        await shot(page, 'svg-in-img-dark');
    });
});

test('a click zooms, callers are dimmed, crumbs lead back', () => withPage('server.svg', {}, async (page) => {
    const before = await frames(page);
    await frame(page, 'llama_decode').click();
    const node = [...tree.walk()].find((n) => n.name === 'llama_decode');
    const path = node.path();
    assert.deepEqual(await crumbs(page), path.map((n) => n.name));
    const drawn = await frames(page);
    for (const n of path) {
        const f = drawn.find((d) => d.label.startsWith(`${n.name},`));
        close_to(f.width, 1176, n.name);
        assert.equal(f.classes.includes('dim'), n !== node);
    }
    const part = [...node.walk()].filter((n) => n.width >= 0.001);
    assert.equal(drawn.length, part.length + path.length - 1);
    for (const n of part) {
        const x = PAD + ((n.start - node.start) / node.width) * 1176;
        assert.ok(drawn.some((d) => d.label.startsWith(`${n.name},`) && Math.abs(d.x - x) < 0.01 &&
            Math.abs(d.width - (n.width / node.width) * 1176) < 0.01), n.name);
    }
    await frame(page, 'ggml_compute_forward_mul_mat').hover();
    assert.match(await page.locator('.tip').textContent(), /of the zoomed frame/);
    await shot(page, 'svg-zoomed');
    await page.locator('.crumbs button', { hasText: /^main$/ }).click();
    assert.equal((await crumbs(page)).at(-1), 'main');
    await page.locator('.reset').click();
    assert.deepEqual(await frames(page), before);
    assert.ok(await page.locator('.reset').isDisabled());
}));

test('the tooltip says what is known', () => withPage('server.svg', {}, async (page) => {
    await frame(page, 'ggml_vec_dot_q4_K_q8_K').hover();
    const text = await page.locator('.tip').innerText();
    for (const wanted of [/^ggml_vec_dot_q4_K_q8_K/, /2\.79 s, 2,790 samples/, /% of all/,
        /quants\.c:1222/, /libggml-cpu\.so/]) assert.match(text, wanted);
    await page.mouse.move(600, 700);
    assert.equal(await page.locator('.sonde-flame > foreignObject').last().getAttribute('visibility'), 'hidden');
    await frame(page, 'tcp_sendmsg_[k]').hover();
    assert.match(await page.locator('.tip').innerText(), /kernel/);
}));

test('search marks and shows the share, each stack once', async () => {
    await withPage('server.svg', {}, async (page) => {
        await page.keyboard.press('/');
        await page.keyboard.type('vec_dot');
        const share = percent(matching(stacks, (n) => n.includes('vec_dot')), whole);
        assert.equal(await matched(page), `matched ${share}`);
        for (const f of await frames(page)) {
            assert.equal(f.classes.includes('hit'), f.label.includes('vec_dot'), f.label);
        }
        const fill = await frame(page, 'ggml_vec_dot_f16').locator('rect').evaluate((r) => getComputedStyle(r).fill);
        assert.equal(fill, 'rgb(232, 121, 249)');
        await shot(page, 'svg-search');
        await frame(page, 'llama_decode').click();
        assert.match(await matched(page), new RegExp(`^matched ${share}, [0-9.]+ % of the zoomed$`));
        await page.locator('.reset').click();
        assert.equal(await matched(page), '');
        assert.equal(await page.locator('.hit').count(), 0);
    });
    await withPage('recursive.svg', {}, async (page) => {
        await page.locator('.regex').click();
        await page.locator('input').fill('^f$');
        assert.equal(await matched(page), 'matched 80.00 %');
        await page.locator('input').fill('^(f');
        assert.equal(await page.locator('input').getAttribute('aria-invalid'), 'true');
        assert.equal(await matched(page), '');
        await page.locator('.regex').click();
        await page.locator('input').fill('f');
        assert.equal(await matched(page), 'matched 80.00 %');
    });
});

test('frames that were left out make it "at least"', () => withPage('narrow.svg', {}, async (page) => {
    await page.locator('input').fill('all'); // the root is in every stack: nothing is unknown
    assert.equal(await matched(page), 'matched 100.00 %');
    await page.locator('input').fill('vec_dot');
    assert.match(await matched(page), /^matched ≥ [0-9.]+ %$/);
    assert.match(await page.locator('.s').textContent(), /frames below 5 % are left out/);
}));

test('keys do all of it', () => withPage('server.svg', {}, async (page) => {
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? '');
    for (let i = 0; i < 8 && !(await focused()).startsWith('all,'); i++) await page.keyboard.press('Tab');
    assert.match(await focused(), /^all,/);
    await page.keyboard.press('ArrowUp');
    const first = [...tree.children].sort((a, b) => b.total - a.total)[0];
    assert.match(await focused(), new RegExp(`^${first.name},`));
    await page.keyboard.press('ArrowLeft');
    assert.match(await focused(), /^_start,/);
    await page.keyboard.press('ArrowRight');
    assert.match(await focused(), /^clone3,/);
    await page.keyboard.press('Enter');
    assert.deepEqual(await crumbs(page), ['all', 'clone3']);
    assert.match(await page.locator('.tip').innerText(), /^clone3/);
    await page.keyboard.press('ArrowDown');
    assert.match(await focused(), /^all,/);
    await page.keyboard.press('Backspace');
    assert.deepEqual(await crumbs(page), ['all']);
    await page.keyboard.press('Control+f');
    await page.keyboard.type('ggml_barrier');
    await page.keyboard.press('Enter');
    assert.match(await focused(), /^ggml_barrier,/);
    await page.keyboard.press('Enter');
    assert.equal((await crumbs(page)).at(-1), 'ggml_barrier');
    await page.keyboard.press('Escape');
    assert.equal(await matched(page), '');
    await page.keyboard.press('Escape');
    assert.deepEqual(await crumbs(page), ['all']);
}));

test('names are text, whatever is in them', () => withPage('odd.svg', {}, async (page) => {
    const names = readStacks(join(out, 'odd.folded')).map((s) => s.names[1]);
    for (const name of names) {
        const shown = name.replace('\u0001', '␁').replace('\u0007', '␇');
        const found = await page.$$eval('.fr', (all, wanted) =>
            all.filter((g) => g.getAttribute('aria-label').startsWith(wanted + ', ')).length, shown);
        assert.equal(found, 1, shown);
        await page.locator('input').fill(shown);
        assert.equal(await page.locator('.hit').count(), names.filter((n) => n.includes(name)).length, shown);
    }
    await page.locator('input').fill('');
    const x = page.locator('.fr').nth(5);
    await x.hover();
    await shot(page, 'svg-odd');
    assert.equal(await page.evaluate(() => window.injected), undefined);
    assert.equal(await page.locator('img, x').count(), 0);
    assert.equal(await page.title(), 'odd & <names>');
}));

test('it fits the window, in light and dark', () => withPage('server.svg', { colorScheme: 'dark' }, async (page) => {
    const background = () => page.locator('.bg').evaluate((e) => getComputedStyle(e).fill);
    assert.equal(await background(), 'rgb(13, 17, 23)');
    await shot(page, 'svg-dark');
    for (const width of [360, 700, 1900]) {
        await page.setViewportSize({ width, height: 700 });
        await page.waitForFunction((w) => Math.abs(Number(document.querySelector('.fr rect')
            .getAttribute('width')) - (w - 24)) < 20, width);
        await shot(page, `svg-dark-${width}`);
    }
    await page.emulateMedia({ colorScheme: 'light' });
    assert.equal(await background(), 'rgb(255, 255, 255)');
}));

test('a difference is red and blue', () => withPage('diff.svg', {}, async (page) => {
    const color = async (name) => Number((await frame(page, name).locator('rect').getAttribute('class')).slice(1));
    assert.ok(await color('ggml_vec_dot_q6_K_q8_K') > 16);
    assert.ok(await color('log_request(std::string const&)') > 16);
    assert.ok(await color('ggml_barrier') < 16);
    assert.equal(await color('all'), 16);
    await frame(page, 'ggml_vec_dot_q6_K_q8_K').hover();
    assert.match(await page.locator('.tip').innerText(), /before\s+.*%, now \+[0-9.]+ points/);
    await shot(page, 'svg-diff');
    await page.emulateMedia({ colorScheme: 'dark' });
    await shot(page, 'svg-diff-dark');
}));

test('a tall picture begins at its root, with the head in sight', () => withPage('deep.svg', {}, async (page) => {
    const root = await frame(page, 'all').boundingBox();
    assert.ok(root.y > 400 && root.y < 800, `root at ${root.y}`);
    const input = await page.locator('input').boundingBox();
    assert.ok(input.y >= 0 && input.y < 60, `search at ${input.y}`);
    await shot(page, 'svg-deep');
    await page.keyboard.press('/');
    await page.keyboard.type('f150');
    await page.keyboard.press('Enter');
    const leaf = await frame(page, 'f150').boundingBox();
    assert.ok(leaf.y > 0 && leaf.y < 800, `leaf at ${leaf.y}`);
}));

test('colour schemes', async () => {
    const fills = new Set();
    for (const scheme of ['hot', 'cold', 'rainbow', 'monochrome', 'module']) {
        await withPage(`colors-${scheme}.svg`, { viewport: { width: 1200, height: 340 } }, async (page) => {
            const fill = (name) => frame(page, name).locator('rect').evaluate((r) => getComputedStyle(r).fill);
            fills.add(await fill('main'));
            assert.notEqual(await fill('tcp_sendmsg_[k]'), await fill('main'));
            if (scheme === 'module') {
                assert.equal(await fill('llama_decode'), await fill('llama_context::process_ubatch(llama_ubatch const&)'));
            }
            await shot(page, `svg-${scheme}`);
        });
    }
    assert.equal(fills.size, 5);
});

test('200,000 stacks', () => withPage('big.svg', {}, async (page) => {
    const drawn = await frames(page);
    assert.ok(drawn.length > 300, `${drawn.length} frames`);
    await page.locator('.fr').nth(2).click();
    assert.equal((await crumbs(page)).length, 3);
    await page.locator('input').fill('Layer3');
    assert.match(await matched(page), /^matched ≥ [0-9.]+ %, ≥ [0-9.]+ % of the zoomed$/);
    await shot(page, 'svg-big');
    await page.locator('.reset').click();
    assert.equal((await frames(page)).length, drawn.length);
}));
