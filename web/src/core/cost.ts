// What sonde costs the programs that it samples, in words. No DOM.

import { percent } from './format';
import { Cost } from './types';

// One line: the figure with its interval, or what is missing until there is one.
export function costLine(c: Cost): string {
    const text = c.text ?? `what sonde costs this program is not measured${c.reason ? `: ${c.reason}` : ''}`;
    const start = text.startsWith('sonde') ? 's' : text.slice(0, 1).toUpperCase(); // a name that is never written otherwise
    return `${start}${text.slice(1)}.`;
}

const MEASURES: Record<string, string | undefined> = {
    cpu_per_work: 'CPU time per', latency: 'time of each', throughput: 'rate of',
};

// How it is known, as sentences.
export function costDetails(c: Cost): string[] {
    const list: string[] = [];
    if (c.low !== null && c.high !== null && c.measure !== null) {
        list.push(`Sampling is switched off and on in random windows of ${c.window_seconds ?? '?'} s; compared is the ${MEASURES[c.measure] ?? c.measure} ${c.work ?? 'unit of work'}. `
            + `With ${percent(c.confidence, 3)} confidence it is between ${percent(c.low, 2)} and ${percent(c.high, 2)}.`);
        if (c.low <= 0 && c.high >= 0) list.push(`0 is in that interval: no cost can be seen yet, and it is at most ${percent(c.high, 2)}.`);
    } else if (c.method === 'estimate') {
        list.push('An estimate, without an interval: what one sample costs, tried out on this machine, times how many there are.');
    } else if (c.enabled) {
        list.push('Sampling is switched off and on in random short windows, and what the program gets done in both is compared.');
    }
    if (c.off_ratio !== null && c.off_ratio > 0) list.push(`Sampling was off for ${percent(c.off_ratio, 2)} of the time to find out.`);
    return list;
}
