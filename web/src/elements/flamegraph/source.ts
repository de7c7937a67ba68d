// Where the profile of a flame graph comes from: an agent, which is asked again for what is zoomed
// into, or data that is there already.

import { Api, ApiError } from '../../core/api';
import { frozenFile } from '../../core/frozen';
import { savedGraph, savedTypes } from '../../core/frozen_flame';
import { now } from '../../core/now';
import { Params } from '../../core/params';
import { Continuous, FlameAnswer, FlameSamples } from '../../core/types';
import { Profile, Raw, readProfile, readRaw } from '../../flame/data';
import { encodePath } from '../../flame/splice';

export interface Shape { invert: boolean; fold: boolean }

export interface Source {
    readonly remote: boolean; // shapes are made by the agent, and parts can be asked for
    load(shape: Shape, signal: AbortSignal, nodes?: number): Promise<Profile>;
    part(shape: Shape, path: string[], signal: AbortSignal): Promise<Profile>;
    samples(signal: AbortSignal): Promise<FlameSamples | null>;
    state(): Promise<Continuous | null>; // of sampling: why there may be nothing
}

/** Attributes that are parameters of the agent's answer as they are. */
export const SELECTING = [
    'type', 'profile', 'live', 'process', 'pid', 'thread', 'phase', 'request', 'slowest', 'model',
    'route', 'span', 'workers', 'metric', 'min', 'max', 'base_from', 'base_to', 'base_profile', 'nodes',
] as const;
export const ATTRIBUTES = [...SELECTING, 'from', 'to', 'range', 'base', 'agent'] as const;

/** From attributes to parameters. A range that moves is fixed here, so that parts that are asked
 *  for later are of the same time. */
export function paramsOf(e: Element): Params {
    const params: Params = {};
    for (const name of SELECTING) {
        const text = e.getAttribute(name) ?? e.getAttribute(name.replace('_', '-'));
        if (text !== null && text !== '') params[name] = text;
    }
    const base = e.getAttribute('base');
    const times = /^(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)$/.exec(base ?? '');
    if (times) [params['base_from'], params['base_to']] = [times[1], times[2]];
    else if (base === 'rest') params['base'] = base;
    else if (base) params['base_profile'] = base;
    const range = /^(\d+(?:\.\d+)?)\.\.(\d+(?:\.\d+)?)$/.exec(e.getAttribute('range') ?? '');
    const from = e.getAttribute('from') ?? range?.[1];
    const to = e.getAttribute('to') ?? range?.[2];
    if (from) params['from'] = from;
    if (to) params['to'] = to;
    if (!from && !to && !params['profile'] && !params['live']) {
        const end = Math.floor(now());
        params['from'] = end - (Number(e.getAttribute('range')) || 60);
        params['to'] = end;
    }
    return params;
}

/** Of an answer without frames its reason is thrown. */
function graphOf(answer: FlameAnswer): Profile {
    const raw = answer as unknown as Raw;
    if (!raw.nodes.length) throw new ApiError(404, raw.about?.notes[0] ?? 'There are no samples.');
    return readRaw(raw);
}

export class AgentSource implements Source {
    readonly remote = true;
    constructor(private readonly api: Api, private readonly params: Params) {}

    private shaped(shape: Shape): Params {
        return { ...this.params, invert: shape.invert, fold: shape.fold };
    }

    async load(shape: Shape, signal: AbortSignal, nodes?: number): Promise<Profile> {
        const params: Params = { ...this.shaped(shape), empty: true };
        if (nodes) params['nodes'] = nodes;
        return graphOf(await this.api.get<FlameAnswer>('/api/flamegraph', params, signal));
    }

    async part(shape: Shape, path: string[], signal: AbortSignal): Promise<Profile> {
        const params = { ...this.shaped(shape), focus: encodePath(path), functions: '0' };
        const answer = await this.api.get<FlameAnswer>('/api/flamegraph', params, signal);
        return readRaw(answer as unknown as Raw);
    }

    async samples(signal: AbortSignal): Promise<FlameSamples | null> {
        const params = { ...this.params, nodes: null, limit: 20000 };
        return this.api.get<FlameSamples>('/api/flamegraph/samples', params, signal);
    }

    state(): Promise<Continuous | null> {
        return this.api.get<Continuous>('/admin/profile/continuous').catch(() => null);
    }
}

export class DataSource implements Source {
    readonly remote = false;
    constructor(private readonly data: string | Raw) {}
    async load(): Promise<Profile> {
        return typeof this.data === 'string' ? readProfile(this.data) : readRaw(this.data);
    }
    part(): Promise<Profile> {
        return Promise.reject(new Error('there is no agent to ask'));
    }
    async samples(): Promise<null> {
        return null;
    }
    async state(): Promise<null> {
        return null;
    }
}

/** One of the graphs in a file that was saved. */
export class SavedSource extends DataSource {
    constructor(private readonly params: Params) {
        super('');
    }
    override async load(): Promise<Profile> {
        const answers = frozenFile()?.answers ?? {};
        const answer = savedGraph(answers, this.params);
        if (answer === undefined) {
            throw new ApiError(404, `This file has no flame graph of that choice. It has some of: ${savedTypes(answers).join(', ')}.`);
        }
        return graphOf(answer as FlameAnswer);
    }
}
