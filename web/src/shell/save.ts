// "Save this page": the page as one HTML file that opens from disk, without an agent.
//
// The page is shown once more with its range fixed, so that all it asks for is asked for again and
// can be kept; then it goes back to what it was.

import { apiAt, callsPending, onAnswer, sentence } from '../core/api';
import { make } from '../core/dom';
import { clock, date } from '../core/format';
import { Frozen, frozenHtml } from '../core/frozen';
import { now } from '../core/now';
import { Page } from '../core/page';
import { state } from '../core/state';
import { Requests } from '../core/types';

const QUIET_MS = 700;   // nothing asked for so long: the page is complete
const LONGEST_MS = 20000;
const REQUESTS_MAX = 2000;

function sleep(ms: number): Promise<void> {
    return new Promise((go) => window.setTimeout(go, ms));
}

async function settled(touched: () => number): Promise<void> {
    const begun = Date.now();
    while (Date.now() - begun < LONGEST_MS) {
        await sleep(100);
        if (callsPending() === 0 && Date.now() - touched() > QUIET_MS) return;
    }
}

async function fileOf(name: string): Promise<string> {
    const answer = await fetch(name);
    if (!answer.ok) throw new Error(`${name} could not be read`);
    return answer.text();
}

export function download(text: string, type: string, name: string): void {
    const url = URL.createObjectURL(new Blob([text], { type }));
    make('a', { href: url, download: name }).click();
    window.setTimeout(() => URL.revokeObjectURL(url), 30000);
}

let busy = false;

export async function savePage(page: Page, rerender: () => void, say: (text: string) => void): Promise<void> {
    if (busy) return;
    busy = true;
    const before = state.query();
    const r = state.range();
    // One that is fixed stays exactly what it is: its figures are on the screen.
    const range = r.live ? { from: Math.round(r.from), to: Math.round(r.to) } : { from: r.from, to: r.to };
    const answers: Record<string, unknown> = {};
    let touched = Date.now();
    const off = onAnswer((_path, key, answer) => {
        answers[key] = answer;
        touched = Date.now();
    });
    say('Saving this page …');
    try {
        const api = apiAt('');
        state.set({ from: String(range.from), to: String(range.to), range: null }, true);
        const query = state.query();
        rerender();
        // What the frame needs, and requests to filter and count cells of.
        await Promise.all([
            api.get('/api/processes'), api.get('/api/inference'), api.get('/health'),
            api.get<Requests>('/api/requests', { ...range, limit: REQUESTS_MAX, timeline: 0 }).catch(() => null),
            api.get('/api/series').catch(() => null),
        ]);
        await settled(() => touched);
        const [script, style] = await Promise.all([fileOf('app.js'), fileOf('app.css')]);
        const made = now();
        const file: Frozen = {
            version: 1, title: `${page.title} · sonde · ${clock(made, true)}`, made, source: location.host, pages: [page.id], query, answers,
        };
        const name = `sonde-${page.id}-${date(made)}_${clock(made, false, made).replace(/:/g, '')}.html`;
        download(frozenHtml(file, document.documentElement.dataset['version'] ?? '', script, style), 'text/html', name);
        say(`Saved as ${name}`);
    } catch (e) {
        say(`The page could not be saved: ${sentence(e)}`);
    } finally {
        off();
        busy = false;
        const old = new URLSearchParams(before);
        state.set({ from: old.get('from'), to: old.get('to'), range: old.get('range') }, true);
        rerender();
    }
}
