// What an element or a page shows when it has no data to show: it loads, there is none, it failed.
// Each says what to do next.

import { ApiError, sentence } from './api';
import { button, make } from './dom';
import { isFrozen } from './frozen';

export const STATES_CSS = `
.sonde-state { display: flex; flex-direction: column; align-items: center; justify-content: center; gap: 8px;
    padding: 24px 16px; text-align: center; color: var(--sonde-ink-soft); min-height: 120px; overflow-wrap: anywhere; }
.sonde-state b { color: var(--sonde-ink); font-weight: 600; font-size: 14px; }
.sonde-state p { margin: 0; max-width: 62ch; }
.sonde-state code { font: 12px/1.5 var(--sonde-mono); background: var(--sonde-raised); border: 1px solid var(--sonde-line);
    border-radius: 6px; padding: 6px 10px; text-align: left; white-space: pre-wrap; max-width: 100%; user-select: all; color: var(--sonde-ink); }
.sonde-state.bad b { color: var(--sonde-bad); }
.sonde-state button { font: inherit; color: var(--sonde-ink); background: var(--sonde-card); border: 1px solid var(--sonde-line);
    border-radius: 6px; padding: 4px 12px; cursor: pointer; min-height: 30px; }
.sonde-state button:hover { background: var(--sonde-raised); }
.sonde-state button:focus-visible { outline: 2px solid var(--sonde-focus); outline-offset: 1px; }
.sonde-skeleton { display: grid; gap: 8px; padding: 12px; min-height: 120px; align-content: end; }
.sonde-skeleton i { display: block; height: 10px; border-radius: 5px; background: var(--sonde-raised); animation: sonde-breathe 1.6s ease-in-out infinite; }
@keyframes sonde-breathe { 50% { opacity: .45; } }
@media (prefers-reduced-motion: reduce) { .sonde-skeleton i { animation: none; } }
`;

export function loading(text = 'Loading'): HTMLElement {
    const e = make('div', { class: 'sonde-skeleton', role: 'status', 'aria-label': text });
    for (const width of [92, 74, 86, 58]) {
        const bar = make('i');
        bar.style.width = `${width}%`;
        e.append(bar);
    }
    return e;
}

// command: what to type next, as it is.
export function empty(title: string, text = '', command = '', ...more: Node[]): HTMLElement {
    return make('div', { class: 'sonde-state', role: 'status' },
        make('b', {}, title), text ? make('p', {}, text) : null, command ? make('code', {}, command) : null, ...more);
}

export function failed(error: unknown, retry?: () => void): HTMLElement {
    const status = error instanceof ApiError ? error.status : -1;
    if (isFrozen() && status === 404) return empty('Not in this file', sentence(error)); // trying again is of no use
    const title = status === 401 ? 'A token is needed'
        : status === 403 ? 'Not permitted'
            : status === 0 ? 'No connection'
                : status === 404 ? 'Not found' : 'That did not work';
    return make('div', { class: 'sonde-state bad', role: 'alert' },
        make('b', {}, title), make('p', {}, sentence(error)),
        retry ? button('Try again', '', retry) : null);
}
