// What stands out about a request, in sentences, the most telling first. No DOM.

import { count, digits, percent, seconds } from '../../core/format';
import { Part, Pause, Typical, phaseTitle, times } from '../../core/phases';
import { Request } from '../../core/types';

const MUCH = 2;       // times the median before it is worth a word
const ENOUGH = 8;     // requests that a median is believed of
const MOST = 4;

// "840 times", "more than 1000 times": beyond that the number says no more.
export function factorText(v: number): string {
    return v > 1000 ? 'more than 1000 times' : `${digits(v, v < 10 ? 2 : 3)} times`;
}

interface Sentence { weight: number; text: string }

function ending(r: Request): Sentence[] {
    if (r.state === 'running') return [{ weight: 1000, text: 'It is still running: figures are those so far.' }];
    switch (r.outcome) {
        case 'error': return [{ weight: 1000, text: `It failed${r.error ? ` with “${r.error}”` : ''}.` }];
        case 'timeout': return [{ weight: 1000, text: 'It ran into a time limit.' }];
        case 'lost': return [{ weight: 1000, text: 'Its end was never reported: the engine fell silent about it, or ended.' }];
        case 'cancelled': return [{ weight: 1000, text: `It was cancelled after ${seconds(r.total_s)}: its client went away.` }];
        default: return [];
    }
}

function beside(r: Request, t: Typical): Sentence[] {
    if (t.count < ENOUGH) return [];
    const list: Sentence[] = [];
    const total = r.total_s ?? 0;
    const say = (v: number | null | undefined, typical: number | null, text: (f: string) => string, least = 0) => {
        const f = times(v ?? null, typical);
        if (f !== null && f >= MUCH && (v ?? 0) >= least) list.push({ weight: f, text: text(factorText(f)) });
    };
    const queue = r.phases['queue']?.seconds ?? null;
    say(queue, t.queue, (f) => `It waited ${seconds(queue)} in the queue, ${f} the median of ${seconds(t.queue)}.`, total * 0.05);
    const computed = r.tokens_in - r.tokens_reused;
    say(computed, t.computed, (f) => `Its prompt had ${count(computed)} tokens to compute, ${f} the median of ${count(t.computed)}.`);
    say(r.itl?.mean_s, t.itl, (f) => `Its tokens came slowly: ${seconds(r.itl?.mean_s)} between two, ${f} the median.`);
    say(r.tokens_out, t.tokens_out, (f) => `Its answer had ${count(r.tokens_out)} tokens, ${f} the median of ${count(t.tokens_out)}.`);
    return list;
}

function largest(parts: readonly Part[], total: number): Sentence[] {
    const p = [...parts].sort((a, b) => b.seconds - a.seconds)[0] as Part | undefined;
    if (!p || !(total > 0)) return [];
    const share = p.seconds / total;
    if (share < 0.3) return [];
    if (p.id === 'unexplained') {
        return [{ weight: 100, text: `${percent(share, 2)} of its time (${seconds(p.seconds)}) is in no phase: the engine worked on others between its steps, or does not report what it did.` }];
    }
    let text = `${phaseTitle(p.id)} took ${percent(share, 2)} of its time (${seconds(p.seconds)})`;
    const others = p.seconds - p.own;
    if (p.id !== 'queue' && others > 0.3 * p.seconds) text += `, of which ${seconds(p.own)} was for itself and ${seconds(others)} for others in the same passes`;
    return [{ weight: 100, text: `${text}.` }];
}

export function whyOf(r: Request, parts: readonly Part[] | null, typical: Typical | null, pause: Pause | null): string[] {
    const total = r.total_s ?? 0;
    const list = [...ending(r), ...largest(parts ?? [], total), ...(typical ? beside(r, typical) : [])];
    const usual = r.itl?.p50_s ?? null;
    if (pause && usual && pause.end - pause.start > 5 * usual && pause.end - pause.start > 0.1 * total) {
        list.push({ weight: 3, text: `The longest pause between tokens was ${seconds(pause.end - pause.start)}, after ${count(pause.after)} token${pause.after === 1 ? '' : 's'}.` });
    }
    if (typical && typical.count >= ENOUGH && !list.some((s) => s.weight !== 100) ) {
        list.push({ weight: 0, text: `Beside the ${count(typical.count)} requests around it nothing stands out.` });
    }
    return list.sort((a, b) => b.weight - a.weight).slice(0, MOST).map((s) => s.text);
}
