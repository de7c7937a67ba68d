// Values as people read them. Digits do not depend on the locale, so that what is on screen can be
// compared with what the agent answers; times are local and name their zone.

export const NONE = '–';

function given(v: number | null | undefined): v is number {
    return v !== null && v !== undefined && Number.isFinite(v);
}

// So many significant digits, without an exponent and without trailing zeros.
export function digits(v: number, significant = 3): string {
    if (v === 0) return '0';
    const a = Math.abs(v);
    if (a >= 10 ** (significant - 1)) return String(Math.round(v));
    const text = v.toPrecision(significant);
    // toPrecision switches to exponents below 1e-6
    return text.includes('e') ? String(Number(text)) : text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
}

function scaled(v: number, steps: readonly (readonly [number, string])[], significant: number): string {
    const a = Math.abs(v);
    for (let i = 0; i < steps.length; i++) {
        const [size, unit] = steps[i];
        const last = i === steps.length - 1;
        // 999.6 ms would be shown as "1000 ms": the unit above is better.
        if (last || Number((a / size).toPrecision(significant)) >= 1) return `${digits(v / size, significant)} ${unit}`;
    }
    return digits(v, significant);
}

const TIME: readonly (readonly [number, string])[] = [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']];

export function seconds(v: number | null | undefined, significant = 3): string {
    if (!given(v)) return NONE;
    if (v === 0) return '0 s';
    const a = Math.abs(v);
    if (a < 120) return scaled(v, TIME, significant);
    return span(v);
}

// A long duration: 2 min 5 s, 3 h 20 min, 4 d 6 h.
export function span(v: number | null | undefined): string {
    if (!given(v)) return NONE;
    const sign = v < 0 ? '-' : '';
    const s = Math.round(Math.abs(v));
    if (s < 60) return `${sign}${s} s`;
    const pair = (a: number, ua: string, b: number, ub: string) => `${sign}${a} ${ua}${b ? ` ${b} ${ub}` : ''}`;
    if (s < 3600) return pair(Math.floor(s / 60), 'min', s % 60, 's');
    const minutes = Math.round(s / 60);
    if (minutes < 1440) return pair(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
    const hours = Math.round(s / 3600);
    return pair(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

const BYTES: readonly (readonly [number, string])[] = [
    [2 ** 50, 'PiB'], [2 ** 40, 'TiB'], [2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B'],
];

export function bytes(v: number | null | undefined, significant = 3): string {
    if (!given(v)) return NONE;
    if (v === 0) return '0 B';
    return scaled(v, BYTES, significant);
}

const COUNT: readonly (readonly [number, string])[] = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

export function count(v: number | null | undefined, significant = 3): string {
    if (!given(v)) return NONE;
    const a = Math.abs(v);
    if (Number.isInteger(v) && a < 10000) return String(v);
    for (const [size, unit] of COUNT) {
        if (Number((a / size).toPrecision(significant)) >= 1 && a >= 1000) return `${digits(v / size, significant)} ${unit}`;
    }
    return digits(v, significant);
}

// "320 tokens/s"; bytes and seconds keep their own prefixes.
export function rate(v: number | null | undefined, unit = ''): string {
    if (!given(v)) return NONE;
    if (unit === 'bytes') return `${bytes(v)}/s`;
    return unit ? `${count(v)} ${unit}/s` : `${count(v)}/s`;
}

export function percent(share: number | null | undefined, significant = 3): string {
    if (!given(share)) return NONE;
    const v = share * 100;
    if (v !== 0 && Math.abs(v) < 0.01) return v < 0 ? '> -0.01 %' : '< 0.01 %';
    return `${digits(v, significant)} %`;
}

// A value of a series by the unit that the agent names.
export function inUnit(v: number | null | undefined, unit: string): string {
    if (!given(v)) return NONE;
    switch (unit) {
        case 'seconds': case 's': return seconds(v);
        case 'bytes': case 'B': return bytes(v);
        case 'ratio': return percent(v);
        case 'percent': return percent(v / 100);
        case 'cores': return `${digits(v)} ${v === 1 ? 'core' : 'cores'}`;
        case '': return count(v);
        default:
            if (unit === 'bytes/s') return rate(v, 'bytes');
            if (unit === 'seconds/s') return `${seconds(v)}/s`;
            return `${count(v)} ${unit}`;
    }
}

const two = (n: number) => String(n).padStart(2, '0');

export function date(t: number): string {
    const d = new Date(t * 1000);
    return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
}

// Local time; with its date if asked for, or if that is not today's.
export function clock(t: number, withDate = false, now = Date.now() / 1000): string {
    const d = new Date(t * 1000);
    const time = `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
    return withDate || date(t) !== date(now) ? `${date(t)} ${time}` : time;
}

export function zone(t = Date.now() / 1000): string {
    const minutes = -new Date(t * 1000).getTimezoneOffset();
    if (minutes === 0) return 'UTC';
    const a = Math.abs(minutes);
    return `UTC${minutes < 0 ? '-' : '+'}${Math.floor(a / 60)}${a % 60 ? `:${two(a % 60)}` : ''}`;
}

export function since(t: number, now = Date.now() / 1000): string {
    const s = now - t;
    if (s < 1.5) return 'now';
    return `${span(s)} ago`;
}
