// What tests of the dashboard share.
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from './agent.mjs';

export const PAGES = ['dashboard', 'inference', 'requests', 'cpu', 'memory', 'gpu', 'system', 'history', 'compare',
    'findings', 'report'];

/** In the page: whether something is still loading. */
export function isLoading() {
    const all = (root) => [...root.querySelectorAll('*')].flatMap((e) => e.shadowRoot ? [e, ...all(e.shadowRoot)] : [e]);
    return all(document).some((e) => e.classList.contains('sonde-skeleton') && e.checkVisibility());
}

/** Everything that is loading has come. */
export async function settled(page) {
    await page.locator('#main[data-page]').waitFor();
    await until('nothing is loading', async () => !(await page.evaluate(isLoading)));
}

/** Names of functions in the table of the flame graph. */
export const functionNames = (page) => page.locator('sonde-flamegraph .functions .rows .name').allTextContents();

/** Press a button until what it does is done: on a page that is still being laid out, or whose lists are
 *  made anew, a press may go astray. */
export async function press(button, what, done) {
    await until(what, async () => {
        if (await done()) return true;
        await button.press('Enter', { timeout: 2000 });
        for (let i = 0; i < 30; i++) {
            if (await done()) return true;
            await sleep(100);
        }
        return false;
    });
}

/** The table of functions of the flame graph that the page shows: names, first to last. */
export async function functionTable(page) {
    const tab = page.locator('sonde-flamegraph .tabs [data-view=functions]');
    await press(tab, 'the view of functions', async () => (await tab.getAttribute('aria-selected')) === 'true');
    return until('the table is there', async () => {
        const names = await functionNames(page);
        return names.length > 3 && names;
    });
}

/** Where an element is, once it stays there. */
export async function place(locator) {
    await locator.scrollIntoViewIfNeeded();
    let last = '';
    return until('it stays where it is', async () => {
        const box = await locator.boundingBox();
        const now = JSON.stringify(box);
        if (box && now === last) return box;
        last = now;
        return null;
    });
}

/** Drag from one point of an element to another; points are shares of its width. Shift may be held. */
export async function drag(page, locator, from, to, { shift = false } = {}) {
    const box = await place(locator);
    const x = (share) => box.x + share * box.width;
    const y = box.y + box.height / 2;
    if (shift) await page.keyboard.down('Shift');
    await page.mouse.move(x(from), y);
    await page.mouse.down();
    await page.mouse.move(x((from + to) / 2), y, { steps: 3 });
    await page.mouse.move(x(to), y, { steps: 3 });
    await page.mouse.up();
    if (shift) await page.keyboard.up('Shift');
    return box;
}

/** A parameter of the page's address. */
export const param = (page, name) => new URL(page.url().replace(/^([^#?]*)#[^?]*/, '$1')).searchParams.get(name);

/** [from, to] of the address, or null while there is no fixed range in it. */
export function rangeOf(page) {
    const [from, to] = [param(page, 'from'), param(page, 'to')];
    return from === null || to === null ? null : [Number(from), Number(to)];
}
