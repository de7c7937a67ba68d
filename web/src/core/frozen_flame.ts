// Flame graphs of a saved file: which of those in it answers a question. No DOM: tested by itself.

import { Params } from './params';

// How many frames, and how they are looked at: a file has one form, and the rest is done here.
const LOOKS = new Set(['nodes', 'functions', 'focus', 'invert', 'fold', 'limit', 'profile', 'live', 'empty']);
const PARTS = ['focus', 'invert']; // an answer to these is not the whole graph, callers first
const NEAR_S = 1.5; // a range that was moved by less than this is the same
// Profiles of other tools call their samples so, and have no CPU time beside them.
const INSTEAD: Record<string, string[]> = { cpu: ['samples', 'wall'] };

function asked(params: Params): Map<string, string> {
    const out = new Map<string, string>();
    for (const [name, value] of Object.entries(params)) {
        if (value === null || value === undefined || value === '' || value === false || LOOKS.has(name)) continue;
        out.set(name, value === true ? '1' : String(value));
    }
    return out;
}

// As the agent takes a question that does not say: pages ask so, reports name it.
function typeOf(have: URLSearchParams): string {
    return have.get('type') ?? 'cpu';
}

function same(want: Map<string, string>, have: URLSearchParams, type: string): boolean {
    const from = want.get('from');
    const to = want.get('to');
    if (from !== undefined && Number(from) > Number(have.get('from')) + NEAR_S) return false;
    if (to !== undefined && Number(to) < Number(have.get('to')) - NEAR_S) return false;
    if (typeOf(have) !== type || PARTS.some((name) => have.has(name))) return false;
    const names = new Set([...want.keys(), ...have.keys()]);
    for (const name of ['from', 'to', 'type', ...LOOKS]) names.delete(name);
    for (const name of names) {
        if ((want.get(name) ?? null) !== have.get(name)) return false;
    }
    return true;
}

// undefined: there is none of exactly that choice. A range must have all of the file's in it: a part
// of the time has other samples, which are not there.
export function savedGraph(answers: Record<string, unknown>, params: Params): unknown {
    const want = asked(params);
    const type = want.get('type') ?? 'cpu';
    for (const t of [type, ...(INSTEAD[type] ?? [])]) {
        for (const [key, answer] of Object.entries(answers)) {
            const [path, query] = key.split('?');
            if (path === '/api/flamegraph' && same(want, new URLSearchParams(query), t)) return answer;
        }
    }
    return undefined;
}

// Kinds of samples that there are graphs of.
export function savedTypes(answers: Record<string, unknown>): string[] {
    const types = new Set<string>();
    for (const key of Object.keys(answers)) {
        const [path, query] = key.split('?');
        if (path === '/api/flamegraph') types.add(typeOf(new URLSearchParams(query)));
    }
    return [...types];
}
