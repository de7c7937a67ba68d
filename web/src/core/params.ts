// Parameters of a question to the agent, as text.

export type Params = Record<string, string | number | boolean | string[] | null | undefined>;

// Parameters in order of their names, so that the same question is always the same text: frozen
// files find answers by it, and the agent shares live streams by it.
export function queryString(params: Params = {}): string {
    const parts: string[] = [];
    for (const name of Object.keys(params).sort()) {
        const value = params[name];
        if (value === null || value === undefined || value === false || value === '') continue;
        for (const v of Array.isArray(value) ? value : [value === true ? '1' : String(value)]) {
            parts.push(`${encodeURIComponent(name)}=${encodeURIComponent(v)}`);
        }
    }
    return parts.length ? `?${parts.join('&')}` : '';
}
