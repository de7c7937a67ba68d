// Calls to the agent. Pages talk to the agent that served them; an embedded element to the one
// named by the nearest `agent` attribute, else to the one that its script came from.

import { frozenAnswer, isFrozen } from './frozen';
import { noteTime } from './now';
import { Params, queryString } from './params';

export type { Params } from './params';

export class ApiError extends Error {
    constructor(readonly status: number, message: string) {
        super(message);
        this.name = 'ApiError';
    }
}

export interface Api {
    readonly base: string;
    get<T>(path: string, params?: Params, signal?: AbortSignal): Promise<T>;
    post<T>(path: string, body?: unknown, params?: Params): Promise<T>;
    del(path: string): Promise<void>;
    url(path: string, params?: Params): string;
}

// ---- tokens -------------------------------------------------------------------------------------

const STORED = 'sonde-token:';
const tokens = new Map<string, string>();
const waiting: { base: string; go: (got: boolean) => void }[] = [];

export function tokenOf(base: string): string | null {
    let t = tokens.get(base) ?? null;
    if (t === null) {
        try {
            t = sessionStorage.getItem(STORED + base);
        } catch { /* storage is forbidden in sandboxed frames: the token lives in memory */ }
    }
    return t;
}

// Calls that were refused are made again with it. null: the person gave up.
export function setToken(token: string | null, base = ''): void {
    if (token !== null) {
        tokens.set(base, token);
        try {
            sessionStorage.setItem(STORED + base, token);
        } catch { /* as above */ }
    }
    for (const w of waiting.splice(0)) w.go(token !== null && w.base === base);
}

// True once there is a new token. The shell answers the event with preventDefault() and asks;
// where nobody does, as on a page of somebody else, the call fails and says so.
export function askToken(base: string, used: string | null): Promise<boolean> {
    const now = tokenOf(base);
    if (now !== null && now !== used) return Promise.resolve(true); // came meanwhile
    const event = new CustomEvent('sonde-token', { cancelable: true, detail: { base, wrong: used !== null } });
    const promise = new Promise<boolean>((go) => waiting.push({ base, go }));
    window.dispatchEvent(event);
    if (!event.defaultPrevented) setToken(null, base);
    return promise;
}

// ---- calls --------------------------------------------------------------------------------------

async function errorOf(answer: Response): Promise<ApiError> {
    let text = '';
    try {
        const body = await answer.text();
        const parsed: unknown = JSON.parse(body);
        if (parsed && typeof parsed === 'object' && 'error' in parsed) text = String((parsed as { error: unknown }).error);
    } catch { /* not JSON: a proxy's page, or nothing */ }
    if (!text) text = `the agent answered with status ${answer.status}`;
    return new ApiError(answer.status, text);
}

function unreachable(e: unknown): ApiError {
    if (e instanceof ApiError) return e;
    return new ApiError(0, 'the agent cannot be reached: it may have ended, or the network is down');
}

let pending = 0;
// Calls that are under way; "save this page" waits until there are none.
export function callsPending(): number {
    return pending;
}

const listeners = new Set<(path: string, key: string, answer: unknown) => void>();
// Told of every answer to a GET; "save this page" collects them.
export function onAnswer(f: (path: string, key: string, answer: unknown) => void): () => void {
    listeners.add(f);
    return () => listeners.delete(f);
}

export async function send(
    base: string, path: string, init: RequestInit & { headers?: Record<string, string> },
): Promise<Response> {
    for (;;) {
        const token = tokenOf(base);
        const headers: Record<string, string> = { ...init.headers };
        if (token !== null) headers['Authorization'] = `Bearer ${token}`;
        const answer = await fetch(base + path, { ...init, headers, cache: 'no-store' });
        if (answer.status !== 401) return answer;
        if (!(await askToken(base, token))) return answer;
    }
}

class AgentApi implements Api {
    constructor(readonly base: string) {}

    url(path: string, params?: Params): string {
        return this.base + path + queryString(params);
    }

    async get<T>(path: string, params?: Params, signal?: AbortSignal): Promise<T> {
        const key = path + queryString(params);
        if (isFrozen()) {
            const found = frozenAnswer(path, params ?? {});
            if (found === undefined) throw new ApiError(404, 'this is not in the saved file');
            return found as T;
        }
        const answer = await this.call(key, { headers: { Accept: 'application/json' }, signal });
        const body = await answer.json() as T & { time?: unknown };
        if (body && typeof body === 'object' && typeof body.time === 'number') noteTime(body.time);
        for (const f of listeners) f(path, key, body);
        return body;
    }

    async post<T>(path: string, body?: unknown, params?: Params): Promise<T> {
        if (isFrozen()) throw new ApiError(405, 'a saved file cannot do that: open the live dashboard');
        const init: RequestInit & { headers: Record<string, string> } = {
            method: 'POST', headers: { Accept: 'application/json' },
        };
        if (body !== undefined) {
            init.body = JSON.stringify(body);
            init.headers['Content-Type'] = 'application/json';
        }
        const answer = await this.call(path + queryString(params), init);
        const text = await answer.text();
        return (text ? JSON.parse(text) : null) as T;
    }

    async del(path: string): Promise<void> {
        if (isFrozen()) throw new ApiError(405, 'a saved file cannot do that: open the live dashboard');
        await this.call(path, { method: 'DELETE', headers: {} });
    }

    private async call(path: string, init: RequestInit & { headers?: Record<string, string> }): Promise<Response> {
        let answer: Response;
        pending++;
        try {
            answer = await send(this.base, path, init);
        } catch (e) {
            if (e instanceof DOMException && e.name === 'AbortError') throw e;
            throw unreachable(e);
        } finally {
            pending--;
        }
        if (!answer.ok) throw await errorOf(answer);
        return answer;
    }
}

const apis = new Map<string, Api>();

export function apiAt(base: string): Api {
    let a = apis.get(base);
    if (!a) apis.set(base, a = new AgentApi(base));
    return a;
}

// Known only while the script runs for the first time.
const scriptOrigin = (() => {
    if (typeof document === 'undefined') return ''; // unit tests
    const s = document.currentScript;
    if (!(s instanceof HTMLScriptElement) || !s.src) return '';
    const origin = new URL(s.src).origin;
    return origin === location.origin ? '' : origin;
})();

export function apiOf(element: Element): Api {
    let e: Element | null = element;
    while (e) {
        const named = e.getAttribute('agent');
        if (named !== null) return apiAt(named.replace(/\/+$/, ''));
        const root: Node = e.getRootNode();
        e = e.parentElement ?? (root instanceof ShadowRoot ? root.host : null);
    }
    return apiAt(scriptOrigin);
}

// The sentence for a person, of anything that was thrown.
export function sentence(e: unknown): string {
    return e instanceof Error ? e.message : String(e);
}

export function aborted(e: unknown): boolean {
    return e instanceof DOMException && e.name === 'AbortError';
}
