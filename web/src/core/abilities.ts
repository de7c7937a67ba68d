// What an agent can do, by its list of routes. Elements may be pointed at an agent of another version
// than their script is of; a question it does not know would be an error in the browser's console.

import { Api, send } from './api';

const lists = new Map<string, Promise<string>>();

async function listOf(api: Api): Promise<string> {
    try {
        const answer = await send(api.base, '/', { headers: { Accept: 'text/plain' } });
        if (answer.ok) return await answer.text();
    } catch { /* not reachable: whoever asks next finds out */ }
    lists.delete(api.base);
    return '';
}

// Does a line of the list that begins with `route` have all these words?
export function lineHas(list: string, route: string, word = ''): boolean {
    return list.split('\n').some((line) => line.split(/\s/, 1)[0] === route && line.includes(word));
}

export async function can(api: Api, route: string, word = ''): Promise<boolean> {
    let list = lists.get(api.base);
    if (!list) lists.set(api.base, list = listOf(api));
    const text = await list;
    return text === '' || lineHas(text, route, word); // unknown: try
}
