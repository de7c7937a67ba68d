// The one time range: presets that move with time, or fixed times; zoom out, earlier, later, live.

import { button, icon, make } from '../core/dom';
import { clock, date, span, zone } from '../core/format';
import { frozenFile } from '../core/frozen';
import { now } from '../core/now';
import { state } from '../core/state';
import { Popover, popover } from './popover';

const PRESETS: readonly (readonly [number, string])[] = [
    [60, '1 min'], [300, '5 min'], [900, '15 min'], [3600, '1 h'], [21600, '6 h'], [86400, '24 h'], [604800, '7 d'],
];

function lasting(seconds: number): string {
    return PRESETS.find(([s]) => s === seconds)?.[1] ?? span(seconds);
}

// For <input type=datetime-local>: local time without a zone.
export function localInput(t: number): string {
    return `${date(t)}T${clock(t, false, t)}`;
}

export function rangeText(): string {
    const r = state.range();
    if (r.live) return `Last ${lasting(r.seconds)}`;
    const sameDay = date(r.from) === date(r.to);
    const today = sameDay && date(r.to) === date(now());
    return `${today ? clock(r.from, false, r.from) : clock(r.from, true)} – ${sameDay ? clock(r.to, false, r.to) : clock(r.to, true)}`;
}

export class RangeControl {
    readonly element = make('div', { class: 'range', role: 'group', 'aria-label': 'Time range' });
    private readonly face = make('span');
    private readonly later: HTMLButtonElement;
    private readonly popover: Popover;

    constructor() {
        const anchor = button('', 'Choose a time range (r)', () => {}, { class: 'face' });
        anchor.append(icon('M12 7v5l3 2M12 3.500a8.500 8.500 0 1 0 0 17 8.500 8.500 0 0 0 0-17z', 15), this.face);
        this.popover = popover(anchor, 'Time range', (box, close) => this.fill(box, close));
        const symbol = (path: string, title: string, run: () => void) => {
            const b = button('', title, run, { class: 'icon', 'aria-label': title });
            b.append(icon(path, 16));
            return b;
        };
        this.later = symbol('M10 6l6 6-6 6', 'Later ( ] )', () => this.pan(0.5));
        this.element.append(
            symbol('M14 6l-6 6 6 6', 'Earlier ( [ )', () => this.pan(-0.5)),
            this.popover.element,
            this.later,
            symbol('M10.500 4a6.500 6.500 0 1 0 0 13 6.500 6.500 0 0 0 0-13zM15.500 15.500 20 20M7.500 10.500h6', 'Zoom out (z)', () => this.zoomOut()));
        state.on(['range'], () => this.show());
        this.show();
    }

    private show(): void {
        this.face.textContent = rangeText();
        this.later.disabled = state.range().live || frozenFile() !== null && state.range().to >= now();
    }

    open(): void {
        this.popover.open();
    }

    zoomOut(): void {
        const r = state.range();
        if (r.live) {
            state.setRange({ seconds: r.seconds * 2 });
            return;
        }
        const from = r.from - r.seconds / 2;
        const to = Math.min(r.to + r.seconds / 2, now());
        state.setRange({ from, to });
    }

    pan(share: number): void {
        const r = state.range();
        const by = r.seconds * share;
        if (r.live && share > 0) return;
        if (r.to + by >= now() && !frozenFile()) state.setRange({ seconds: r.seconds });
        else state.setRange({ from: r.from + by, to: r.to + by });
    }

    toggleLive(): void {
        const r = state.range();
        if (frozenFile()) return;
        if (r.live) state.setRange({ from: r.from, to: r.to });
        else state.setRange({ seconds: PRESETS.find(([s]) => s >= r.seconds)?.[0] ?? r.seconds });
    }

    private fill(box: HTMLElement, close: () => void): void {
        const r = state.range();
        if (!frozenFile()) {
            const presets = make('div', { class: 'presets' });
            for (const [seconds, text] of PRESETS) {
                presets.append(button(text, `The last ${text}, moving`, () => {
                    state.setRange({ seconds });
                    close();
                }, { 'aria-pressed': String(r.live && r.seconds === seconds) }));
            }
            box.append(make('b', {}, 'Live, the last'), presets);
        }
        const from = make('input', { type: 'datetime-local', step: '1', value: localInput(r.from) });
        const to = make('input', { type: 'datetime-local', step: '1', value: localInput(r.to) });
        const problem = make('p', { class: 'problem', role: 'alert' });
        const form = make('form', {},
            make('b', {}, `Fixed times, ${zone()}`),
            make('label', {}, make('span', {}, 'From'), from),
            make('label', {}, make('span', {}, 'To'), to),
            problem,
            make('button', { type: 'submit', class: 'primary' }, 'Show'));
        form.addEventListener('submit', (e) => {
            e.preventDefault();
            const a = new Date(from.value).getTime() / 1000;
            const b = new Date(to.value).getTime() / 1000;
            if (!(b > a)) {
                problem.textContent = 'The end must be after the beginning.';
                return;
            }
            state.setRange({ from: a, to: b });
            close();
        });
        box.append(form);
    }
}
