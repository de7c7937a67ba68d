// Where times are written at an axis: at round times of the place where it is read. No DOM.

import { date } from './format';

export interface TimeTick { time: number; text: string; strong: boolean } // strong: a day begins

const STEPS = [
    0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
    10800, 21600, 43200, 86400, 172800, 604800, 1209600, 2592000, 7776000, 31536000,
];

const two = (n: number) => String(n).padStart(2, '0');

function textOf(t: number, step: number): { text: string; strong: boolean } {
    const d = new Date(Math.round(t * 1000));
    const midnight = d.getHours() === 0 && d.getMinutes() === 0 && d.getSeconds() === 0 && d.getMilliseconds() === 0;
    if (step >= 86400 || midnight) return { text: date(t).slice(step >= 2592000 ? 0 : 5), strong: midnight };
    const time = `${two(d.getHours())}:${two(d.getMinutes())}`;
    if (step >= 60) return { text: time, strong: false };
    const whole = `${time}:${two(d.getSeconds())}`;
    if (step >= 1) return { text: whole, strong: false };
    const digits = step >= 0.1 ? 1 : step >= 0.01 ? 2 : 3;
    return { text: `${whole}.${String(d.getMilliseconds()).padStart(3, '0').slice(0, digits)}`, strong: false };
}

// At most so many; none where there is no time.
export function timeTicks(from: number, to: number, most: number): TimeTick[] {
    if (!(to > from) || most < 1) return [];
    const step = STEPS.find((s) => (to - from) / s <= most) ?? STEPS[STEPS.length - 1];
    // Round by local time: midnight is a multiple of six hours where people are.
    const shift = step >= 60 ? -new Date(from * 1000).getTimezoneOffset() * 60 : 0;
    const ticks: TimeTick[] = [];
    const first = Math.ceil((from + shift) / step - 1e-6);
    for (let k = first; ; k++) {
        let time = k * step - shift;
        if (step >= 21600) {
            // Where the clock was changed in between, midnight has moved.
            time += (new Date(time * 1000).getTimezoneOffset() - new Date(from * 1000).getTimezoneOffset()) * 60;
        }
        if (time > to + step * 1e-6 || ticks.length > most + 1) break;
        ticks.push({ time, ...textOf(time, step) });
    }
    return ticks;
}
