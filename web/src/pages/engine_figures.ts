// What engines tell of their insides: which rows tables have of it.

export interface Who { program: string; pid: number }
export interface Times { count: number; seconds: number; mean_s: number | null; p50_s: number | null; p99_s: number | null; max_s: number | null }
export interface Operation extends Times { operation: string; share: number | null }
export interface Device extends Who {
    device: string;
    kind: string;
    count: number;
    seconds: number;
    share: number | null;
    memory_used_bytes: number | null;
    memory_total_bytes: number | null;
    memory_efficiency: number | null;
    operations: Operation[];
    fallbacks: number;
    fallback_reasons: Record<string, number>;
}
export interface PoolFigures {
    used_bytes: number;
    peak_bytes?: number | null;
    capacity_bytes: number | null;
    requested_bytes: number | null;
    allocations: Times;
    frees: Times;
    failures: number;
    fragmentation_external: number | null;
    fragmentation_internal: number | null;
}
export interface Pool extends Who, PoolFigures { pool: string }
export interface Length extends Times { bytes: string; share: number | null; slowest: boolean }
export interface Tokenizer extends Who {
    tokenizer: string;
    encodes: Times;
    decodes: Times;
    bytes: number;
    tokens: number;
    tokens_per_s: number | null;
    lookups_per_token: number | null;
    merges_per_token: number | null;
    cache_hit_ratio: number | null;
    lengths: Length[];
    advice: { kind: string; text: string }[];
}
export interface Engine {
    devices: { cpu_operations: number; gpu_operations: number; fallbacks: number; seconds: number; list: Device[] } | null;
    pools: { all: PoolFigures; list: Pool[] } | null;
    tokenizers: Tokenizer[] | null;
}

export interface Chosen { process: string | null; pid: string | null }

export function isChosen(w: Who, c: Chosen): boolean {
    return (!c.process || w.program === c.process) && (!c.pid || String(w.pid) === c.pid);
}

/** Whose it is, where there are several programs. */
export function ownerOf(w: Who, all: readonly Who[]): string {
    return all.some((o) => o.program !== w.program || o.pid !== w.pid) ? `${w.program} ${w.pid}` : '';
}

export interface OperationRow extends Operation { device: Device }

/** Operations of all devices, most time first. */
export function operationsOf(devices: readonly Device[]): OperationRow[] {
    return devices.flatMap((device) => device.operations.map((o) => ({ ...o, device }))).sort((a, b) => b.seconds - a.seconds);
}

export interface LengthRow extends Length { tokenizer: Tokenizer }

export function lengthsOf(tokenizers: readonly Tokenizer[]): LengthRow[] {
    return tokenizers.flatMap((tokenizer) => tokenizer.lengths.map((l) => ({ ...l, tokenizer })));
}

export type PoolRow = Pool | (PoolFigures & Who & { pool: null });

/** Pools, and the sum of all where all are shown. */
export function poolsOf(e: Engine, c: Chosen): PoolRow[] {
    const all = e.pools?.list ?? [];
    const shown = all.filter((p) => isChosen(p, c));
    if (shown.length < 2 || shown.length < all.length) return shown;
    return [...shown, { ...e.pools!.all, pool: null, program: '', pid: 0 }];
}
