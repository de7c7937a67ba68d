// What only some agents answer: asked for now and then, and silently left out by an agent that is older,
// by one that has it switched off, and by a saved file without it.

import { can } from '../core/abilities';
import { ApiError, aborted, apiAt } from '../core/api';
import { isFrozen } from '../core/frozen';
import { Params } from '../core/params';

export interface Optional<T> {
    route: string;
    params?: Params;
    everyMs: number;
    wanted?: () => Promise<boolean>; // false: this agent would answer 404, which is an error on the console
    show: (answer: T) => void;
    failed: (e: unknown) => void;
}

// Returns what ends it.
export function askOptional<T>(o: Optional<T>): () => void {
    const abort = new AbortController();
    const api = apiAt('');
    let timer = 0;
    const round = async () => {
        try {
            if (!document.hidden || isFrozen()) {
                const answer = await api.get<T>(o.route, o.params, abort.signal);
                if (abort.signal.aborted) return;
                o.show(answer);
            }
        } catch (e) {
            if (abort.signal.aborted || aborted(e)) return;
            if (e instanceof ApiError && e.status === 404) return;
            o.failed(e);
        }
        if (!isFrozen()) timer = window.setTimeout(() => void round(), o.everyMs);
    };
    const start = async () => {
        try {
            if (!isFrozen() && (!(await can(api, o.route)) || (o.wanted && !(await o.wanted())))) return;
        } catch { /* not known: try */ }
        if (!abort.signal.aborted) await round();
    };
    void start();
    return () => {
        abort.abort();
        window.clearTimeout(timer);
    };
}
