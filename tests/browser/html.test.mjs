// The HTML viewer in a browser. What is on the canvas is found out as a person would: by pointing
// at it and reading the card, and by looking at its colours.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { join } from 'node:path';
import { close, out, shot, withPage } from './browser.mjs';
import { ROW, byWeight, fold, functions, matching, percent, readStacks } from './truth.mjs';

after(close);

const stacks = readStacks(join(out, 'server.folded'));
const tree = fold(stacks);
const whole = tree.total;

const crumbs = (page) => page.$$eval('.crumbs button', (all) => all.map((b) => b.textContent));
const matched = (page) => page.locator('.matched').textContent();
const card = (page) => page.locator('.card b').textContent();
const shown = (page) => page.locator('.viewer').getAttribute('data-view');
const rows = (page) => page.$$eval('.functions .rows .name', (all) => all.map((c) => c.textContent));

/** The middle of a node on a canvas that shows from … to of the tree. */
async function spot(page, node, { canvas = 'canvas.flame', from = 0, to = 1, onTop = false } = {}) {
    const box = await page.locator(canvas).boundingBox();
    const left = Math.max(from, node.start);
    const right = Math.min(to, node.start + node.width);
    const x = box.x + (((left + right) / 2 - from) / (to - from)) * box.width;
    const row = node.depth * ROW + ROW / 2;
    return { x, y: onTop ? box.y + row : box.y + box.height - row };
}

async function pointed(page, node, view) {
    const at = await spot(page, node, view);
    await page.mouse.move(at.x, at.y);
    return card(page);
}

async function click(page, node, view) {
    const at = await spot(page, node, view);
    await page.mouse.click(at.x, at.y);
    await settled(page);
}

/** Until the glide of a zoom has ended: two pictures are the same. */
async function settled(page) {
    await page.waitForFunction(async () => {
        const canvas = document.querySelector('sonde-flamegraph').shadowRoot.querySelector('canvas.flame');
        const before = canvas.toDataURL();
        await new Promise((r) => setTimeout(r, 60));
        return before === canvas.toDataURL();
    });
}

async function pixel(page, at) {
    return page.evaluate(({ x, y }) => {
        const canvas = document.querySelector('sonde-flamegraph').shadowRoot.elementFromPoint(x, y);
        const r = canvas.getBoundingClientRect();
        const data = canvas.getContext('2d').getImageData(x - r.left, y - r.top, 1, 1).data;
        return [...data.slice(0, 3)];
    }, at);
}

const wide = (root, pixels = 4, width = 1150) => [...root.walk()].filter((n) => n.width * width >= pixels);
const named = (root, name) => [...root.walk()].find((n) => n.name === name);

test('every frame is where its weight puts it', () => withPage('server.html', {}, async (page) => {
    for (const n of wide(tree)) assert.equal(await pointed(page, n), n.name);
    await pointed(page, named(tree, 'ggml_vec_dot_q4_K_q8_K'));
    const text = await page.locator('.card').innerText();
    for (const wanted of [/2\.79 s, 2,790 samples/, /% of all/, /quants\.c:1222/, /libggml-cpu\.so/]) {
        assert.match(text, wanted);
    }
    await shot(page, 'html-light');
}));

test('a click zooms, crumbs lead back, reset restores', () => withPage('server.html', {}, async (page) => {
    const node = named(tree, 'llama_decode');
    await click(page, node);
    assert.deepEqual(await crumbs(page), node.path().map((n) => n.name));
    const view = { from: node.start, to: node.start + node.width };
    for (const n of wide(node, 4, 1150 / node.width)) assert.equal(await pointed(page, n, view), n.name);
    assert.match(await page.locator('.detail').innerText(), /llama_decode/);
    await shot(page, 'html-zoomed');
    await page.locator('.crumbs button', { hasText: /^main$/ }).click();
    assert.equal((await crumbs(page)).at(-1), 'main');
    await page.locator('.reset').click();
    await settled(page);
    assert.deepEqual(await crumbs(page), ['all']);
    assert.ok(await page.locator('.reset').isDisabled());
    for (const n of wide(tree)) assert.equal(await pointed(page, n), n.name);
}));

test('the wheel zooms at the pointer, dragging pans', () => withPage('server.html', {}, async (page) => {
    const node = named(tree, 'ggml_vec_dot_q6_K_q8_K');
    const at = await spot(page, node);
    await page.mouse.move(at.x, at.y);
    for (let i = 0; i < 5; i++) await page.mouse.wheel(0, -200);
    await page.mouse.move(at.x + 1, at.y);
    await settled(page);
    assert.equal(await card(page), node.name);
    assert.ok(await page.locator('.reset').isEnabled());
    // Seven times as wide now: some way off it is still the same frame.
    await page.mouse.move(at.x + 100, at.y);
    assert.equal(await card(page), node.name);
    await page.mouse.down();
    await page.mouse.move(at.x - 300, at.y, { steps: 5 });
    await page.mouse.up();
    await page.mouse.move(at.x - 299, at.y);
    await settled(page);
    assert.equal(await card(page), node.name);
    assert.deepEqual(await crumbs(page), ['all']);
    await page.locator('.reset').click();
    await settled(page);
    assert.equal(await pointed(page, node), node.name);
}));

test('search marks and shows the share, each stack once', async () => {
    await withPage('server.html', {}, async (page) => {
        const node = named(tree, 'ggml_vec_dot_q4_K_q8_K');
        const at = await spot(page, node);
        at.y += 6; // beside the text
        const before = await pixel(page, at);
        await page.keyboard.press('/');
        await page.keyboard.type('vec_dot');
        await settled(page);
        assert.equal(await matched(page), `matched ${percent(matching(stacks, (n) => n.includes('vec_dot')), whole)}`);
        assert.deepEqual(await pixel(page, at), [232, 121, 249]);
        await shot(page, 'html-search');
        await page.locator('.reset').click();
        await settled(page);
        assert.equal(await matched(page), '');
        assert.deepEqual(await pixel(page, at), before);
    });
    await withPage('recursive.html', {}, async (page) => {
        await page.locator('.regex').click();
        await page.locator('input').fill('^f$');
        assert.equal(await matched(page), 'matched 80.00 %');
        await page.locator('input').fill('^(f');
        assert.equal(await page.locator('input').getAttribute('aria-invalid'), 'true');
    });
});

test('keys do all of it', () => withPage('server.html', {}, async (page) => {
    const detail = () => page.locator('.detail b').textContent();
    await page.locator('canvas.flame').focus();
    await page.keyboard.press('ArrowUp');
    assert.equal(await detail(), 'all');
    await page.keyboard.press('ArrowUp');
    assert.equal(await detail(), 'clone3');
    await page.keyboard.press('ArrowLeft');
    assert.equal(await detail(), '_start');
    await page.keyboard.press('ArrowRight');
    assert.match(await page.locator('canvas.flame').getAttribute('aria-label'), /^clone3, [0-9.]+ %$/);
    await page.keyboard.press('Enter');
    assert.deepEqual(await crumbs(page), ['all', 'clone3']);
    await page.keyboard.press('Backspace');
    assert.deepEqual(await crumbs(page), ['all']);
    await page.keyboard.press('Enter');
    await page.keyboard.press('Control+f');
    await page.keyboard.type('barrier');
    assert.notEqual(await matched(page), '');
    await page.keyboard.press('Escape');
    assert.equal(await matched(page), '');
    await page.keyboard.press('Escape');
    assert.deepEqual(await crumbs(page), ['all']);
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('s');
    assert.equal(await shown(page), 'sandwich');
}));

test('left heavy and inverted', () => withPage('server.html', {}, async (page) => {
    await page.locator('.heavy').click();
    const heavy = fold(stacks, { order: byWeight });
    for (const n of wide(heavy, 8)) assert.equal(await pointed(page, n), n.name);
    await page.locator('.inverted').click();
    const inverted = fold(stacks, { names: (s) => [...s.names].reverse(), order: byWeight });
    for (const n of wide(inverted, 8)) assert.equal(await pointed(page, n), n.name);
    await page.mouse.move(2, 2);
    await shot(page, 'html-inverted');
    await page.locator('.ontop').click();
    await settled(page);
    for (const n of wide(inverted, 30)) assert.equal(await pointed(page, n, { onTop: true }), n.name);
    await page.locator('.inverted').click();
    await page.locator('.heavy').click();
    await settled(page);
    for (const n of wide(tree, 30)) assert.equal(await pointed(page, n, { onTop: true }), n.name);
}));

test('a tree that was built inverted can be turned around', () => withPage('inverted.html', {}, async (page) => {
    assert.equal(await page.locator('.inverted').getAttribute('aria-pressed'), 'true');
    const inverted = fold(stacks, { names: (s) => [...s.names].reverse() });
    for (const n of wide(inverted, 20)) assert.equal(await pointed(page, n), n.name);
    await page.locator('.inverted').click();
    for (const n of wide(tree, 20)) assert.equal(await pointed(page, n), n.name);
}));

test('functions: sorted and filtered', () => withPage('server.html', { viewport: { width: 1200, height: 1600 } }, async (page) => {
    await page.locator('.tabs [data-view=functions]').click();
    const truth = functions(stacks);
    const by = (key) => [...truth].sort((a, b) => b[key] - a[key] || (a.name < b.name ? -1 : 1)).map((r) => r.name);
    assert.deepEqual(await rows(page), by('self'));
    await page.locator('.head .total button').click();
    assert.deepEqual(await rows(page), by('total'));
    await page.locator('.head .total button').click();
    assert.notDeepEqual(await rows(page), by('total'));
    const cells = await page.$$eval('.functions .rows .row', (all) => all.map((r) =>
        [r.querySelector('.name').textContent, r.querySelector('.self span').textContent, r.querySelector('.total span').textContent]));
    for (const [name, self, total] of cells) {
        const t = truth.find((r) => r.name === name);
        assert.deepEqual([self, total], [percent(t.self, whole), percent(t.total, whole)], name);
    }
    await page.locator('input').fill('sampler');
    assert.ok((await rows(page)).every((n) => n.includes('sampler')));
    assert.equal((await rows(page)).length, truth.filter((r) => r.name.includes('sampler')).length);
    await page.locator('input').fill('');
    await shot(page, 'html-functions');
    await page.locator('.functions .rows .row').nth(3).click();
    assert.equal(await shown(page), 'sandwich');
}));

test('sandwich: callers and callees of one function', () => withPage('server.html', { colorScheme: 'dark' }, async (page) => {
    await page.locator('.tabs [data-view=sandwich]').click();
    await page.locator('input').fill('graph_compute_thread');
    const name = 'ggml_graph_compute_thread';
    await page.locator('.functions .rows .name', { hasText: name }).click();
    await page.locator('input').fill('');
    const row = functions(stacks).find((r) => r.name === name);
    assert.match(await page.locator('.about').innerText(), new RegExp(`${name}[\\s\\S]*total ${percent(row.total, whole)}`));
    const with_it = stacks.filter((s) => s.names.includes(name));
    const below = fold(with_it, { names: (s) => s.names.slice(s.names.indexOf(name) + 1) });
    below.name = name;
    for (const n of wide(below, 8, 600)) {
        assert.equal(await pointed(page, n, { canvas: 'canvas.callees', onTop: true }), n.name);
    }
    const above = fold(with_it, { names: (s) => s.names.slice(0, s.names.indexOf(name)).reverse() });
    above.name = name;
    for (const n of wide(above, 8, 600)) {
        assert.equal(await pointed(page, n, { canvas: 'canvas.callers' }), n.name);
    }
    await page.mouse.move(2, 2);
    await shot(page, 'html-sandwich-dark');
}));

test('a recursive function counts once', () => withPage('recursive.html', {}, async (page) => {
    await page.locator('.tabs [data-view=functions]').click();
    const share = await page.locator('.functions .rows .row', { has: page.locator('.name', { hasText: /^f$/ }) }).locator('.total span').textContent();
    assert.equal(share, '80.00 %');
    await page.locator('.functions .rows .name', { hasText: /^f$/ }).click();
    assert.match(await page.locator('.about').innerText(), /total 80\.00 %/);
}));

test('names are text, whatever is in them', () => withPage('odd.html', {}, async (page) => {
    const odd = readStacks(join(out, 'odd.folded'));
    const shown = (name) => name.replace('\u0001', '␁').replace('\u0007', '␇');
    const root = fold(odd);
    for (const n of root.children[0].children) assert.equal(await pointed(page, n), shown(n.name));
    await page.locator('.tabs [data-view=functions]').click();
    let names = [];
    for (let tries = 0; tries < 100 && names.length < odd.length; tries++) { // rows come with a frame
        if (tries) await page.waitForTimeout(50);
        names = await rows(page);
    }
    for (const s of odd) assert.ok(names.includes(shown(s.names[1])), s.names[1]);
    for (const s of odd.slice(0, 6)) {
        await page.locator('.functions .rows .name').getByText(shown(s.names[1]), { exact: true }).click();
        assert.equal(await page.locator('.about b').textContent(), shown(s.names[1]));
        await page.locator('.tabs [data-view=functions]').click();
    }
    await shot(page, 'html-odd');
    assert.equal(await page.evaluate(() => window.injected), undefined);
    assert.equal(await page.locator('img').count(), 0);
    assert.equal(await page.title(), 'odd & <names>');
}));

test('a difference is red and blue, in the graph and in the table', () => withPage('diff.html', {}, async (page) => {
    const stacks_now = readStacks(join(out, 'after.folded'));
    const now = fold(stacks_now);
    const color = async (name) => {
        const at = await spot(page, named(now, name));
        return pixel(page, { x: at.x, y: at.y + 6 });
    };
    const red = await color('ggml_vec_dot_q6_K_q8_K');
    assert.ok(red[0] > red[2]);
    const blue = await color('ggml_vec_dot_q4_K_q8_K');
    assert.ok(blue[0] < blue[2]);
    const same = await color('all');
    assert.equal(same[0], same[2]);
    await pointed(page, named(now, 'ggml_vec_dot_q6_K_q8_K'));
    assert.match(await page.locator('.card').innerText(), /before[\s\S]*now \+[0-9.]+ points/);
    await shot(page, 'html-diff');
    await page.locator('.tabs [data-view=functions]').click();
    assert.equal(await page.locator('.head .dself').getAttribute('aria-sort'), 'descending');
    assert.equal((await rows(page))[0], 'ggml_vec_dot_q6_K_q8_K');
    const before = functions(stacks).find((r) => r.name === 'ggml_vec_dot_q6_K_q8_K');
    const after = functions(stacks_now).find((r) => r.name === 'ggml_vec_dot_q6_K_q8_K');
    const points = 100 * (after.self / now.total - before.self / whole);
    assert.equal(await page.locator('.rows .dself').first().textContent(), `+${points.toFixed(2)} pp`);
    await shot(page, 'html-diff-functions');
}));

test('light and dark, by the system and by the button', () => withPage('server.html', { colorScheme: 'dark' }, async (page) => {
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(await background(), 'rgb(23, 27, 34)');
    await shot(page, 'html-dark');
    await page.locator('.theme').click();
    assert.equal(await background(), 'rgb(255, 255, 255)');
    await page.locator('.theme').click();
    assert.equal(await background(), 'rgb(23, 27, 34)');
    await page.emulateMedia({ colorScheme: 'light' });
    assert.equal(await background(), 'rgb(23, 27, 34)');
    await page.locator('.theme').click();
    assert.equal(await background(), 'rgb(255, 255, 255)');
    const corner = await pixel(page, await page.locator('canvas.flame').boundingBox().then((b) => ({ x: b.x + 3, y: b.y + 3 })));
    assert.deepEqual(corner, [255, 255, 255]);
}));

test('on a phone', () => withPage('server.html', { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 }, async (page) => {
    const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(await overflow() <= 0);
    const at = await spot(page, named(tree, 'llama_decode'));
    await page.touchscreen.tap(at.x, at.y);
    await settled(page);
    assert.equal((await crumbs(page)).at(-1), 'llama_decode');
    assert.match(await page.locator('.detail').innerText(), /llama_decode/);
    await shot(page, 'html-phone');
    await page.locator('.detail .both').tap();
    assert.equal(await shown(page), 'sandwich');
    assert.ok(await overflow() <= 0);
    await shot(page, 'html-phone-sandwich');
    await page.locator('.tabs [data-view=functions]').tap();
    assert.ok(await overflow() <= 0);
    await shot(page, 'html-phone-functions');
}));

test('200,000 stacks', () => withPage('big.html', {}, async (page) => {
    const started = Date.now();
    const step = (what) => console.log(`big.html: ${what} after ${Date.now() - started} ms`);
    assert.equal(await pointed(page, fold([{ names: ['main'], weight: 1 }]).children[0]), 'main');
    step('drawn');
    await page.locator('input').fill('Layer3');
    assert.match(await matched(page), /^matched ≥ [0-9.]+ %$/);
    step('searched');
    await shot(page, 'html-big');
    await page.locator('.heavy').click();
    await settled(page);
    step('left heavy');
    await page.locator('.inverted').click();
    await settled(page);
    step('inverted');
    await page.locator('.tabs [data-view=functions]').click();
    assert.match(await page.locator('.note').textContent(), /functions/);
    await page.locator('input').fill('');
    await page.locator('.functions .rows .row').first().click();
    assert.equal(await shown(page), 'sandwich');
    step('sandwich');
    await shot(page, 'html-big-sandwich');
}));
