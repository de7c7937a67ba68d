// Answers of the agent, as its routes give them (docs/http.md, /api/openapi.json). Times are Unix
// seconds, durations seconds; null is unknown.

export type SeriesType = 'counter' | 'gauge' | 'histogram';
export type Labels = Record<string, string>;

export interface Family {
    name: string;
    type: SeriesType;
    kind: string;
    unit: string;
    help: string;
    source: string;
    series: { labels: Labels }[];
}
export interface SeriesAnswer { time: number; families: Family[] }

// Of a step that begins at `time`. value: a gauge's average, a counter's increase per second, how
// many values a histogram got per second.
export interface Point {
    time: number;
    value: number;
    count: number;
    avg?: number;
    min?: number | null;
    max?: number | null;
    last?: number | null;
    p50?: number | null;
    p90?: number | null;
    p95?: number | null;
    p99?: number | null;
}

export interface Series {
    name: string;
    type: SeriesType;
    kind: string;
    unit: string;
    source: string;
    labels: Labels;
    process: string | null;
    pid: number | null;
    value: number | null;
    count: number;
    total: number | null;
    avg: number | null;
    min: number | null;
    max: number | null;
    stddev?: number | null;
    last: number | null;
    median: number | null;
    p50: number | null;
    p90: number | null;
    p95: number | null;
    p99: number | null;
    rate: number | null;
    trend?: string;
    trend_per_s?: number | null;
    history?: [number, number][]; // newest first
    points?: Point[];             // with step
}

export interface QueryAnswer {
    time: number;
    interval_s?: number;
    window_s?: number;
    from?: number;
    to?: number | null;
    step_s?: number;
    series: Series[];
    total: number;
    truncated: boolean;
    gaps?: { from: number; to: number }[] | [number, number][];
}

export interface PointsSeries {
    name: string;
    labels: Labels;
    process: string | null;
    pid: number | null;
    type: SeriesType;
    unit: string;
    point: Point;
}
export interface PointsEvent { time: number; step_s: number; series: PointsSeries[] }

export interface Process {
    pid: number;
    program: string;
    state: string;
    ended: number | null;
    segment_bytes: number;
    lanes: number;
    threads: number | null;
    cpu_ratio: number | null;
    rss_bytes: number | null;
    heap_bytes: number | null; // null: the heap is not profiled
    drops: Record<string, number>;
    spans_seen: number;
    spans_lost: number;
    series: number;
}
export interface Processes { time: number; processes: Process[] }

export interface Outcomes { ok: number; error: number; cancelled: number; timeout: number; lost: number }
export interface Percentiles {
    count: number;
    total?: number;
    avg: number | null;
    p5?: number | null;
    p50: number | null;
    p95?: number | null;
    p99?: number | null;
    max?: number | null;
}
export interface InferenceModel {
    process: string;
    pid: number;
    source: string;
    model: string;
    backend: string | null;
    running: number;
    waiting: number;
    prefill_tokens_per_s: number | null;
    decode_tokens_per_s: number | null;
    output_tokens_per_s: number | null;
    hit_ratio: number | null;
    kv: { used: number; total: number; peak: number } | null;
    memory: Record<string, { bytes: number; peak: number }>;
    memory_peak_bytes: number | null;
    load_s: number | null;
    batches: number;
    batch_requests_mean: number | null;
    batch_tokens_mean: number | null;
}
export interface InferenceGroup {
    process: string;
    pid: number;
    source: string;
    model: string;
    route: string;
    requests: Outcomes;
    requests_per_s: number | null;
    tokens_in: number;
    tokens_reused: number;
    tokens_out: number;
    output_tokens_per_s: number | null;
    slo_met: number;
    slo_missed: number;
    user_tokens_per_s: Percentiles | null;
    duration: Percentiles | null;
    ttft: Percentiles | null;
    tpot: Percentiles | null;
    itl: Percentiles | null;
    phases: Record<string, Percentiles>;
}
export interface Inference {
    time: number;
    window_s: number;
    totals: {
        since: number;
        uptime_s: number;
        requests: Outcomes;
        tokens_in: number;
        tokens_reused: number;
        tokens_out: number;
        tokens_per_s: number | null;
        requests_per_s: number | null;
        hit_ratio: number | null;
        memory_bytes: number | null;
        memory_peak_bytes: number | null;
        slo_met: number;
        slo_missed: number;
    };
    slo: { ttft_s: number | null; itl_s: number | null; total_s: number | null };
    invalid_events: Record<string, number>;
    models: InferenceModel[];
    groups: InferenceGroup[];
}

// One entry of a request's timeline; from the request's arrival.
export interface TimelineEntry {
    name: string; // a phase, or "tokens": when tokens came out
    start_s: number;
    end_s: number;
    busy_s?: number;
    tokens?: number;
    count?: number; // entries it was joined of, where there would be too many
    batch?: number; // how many requests shared the forward pass
}
export interface Request {
    id: string;
    own_id: string | null;
    state: string;
    outcome: string | null;
    error: string | null;
    invalid: string | null;
    source: string;
    pid: number;
    program: string;
    model: string;
    route: string;
    backend: string | null;
    trace_id: string | null;
    arrived: number;
    total_s: number | null;
    ttft_s: number | null;
    tokens_max: number | null;
    tokens_in: number;
    tokens_reused: number;
    tokens_out: number;
    tokens_per_s: number | null;
    hit_ratio: number | null;
    efficiency: number | null;
    memory_bytes: number | null;
    batches: number;
    slo: string | boolean | null;
    profile: boolean;
    phases: Record<string, { seconds: number; count: number; derived?: boolean }>;
    itl: {
        count: number; mean_s: number | null; min_s: number | null; p50_s: number | null;
        p95_s: number | null; p99_s: number | null; max_s: number | null;
    } | null;
    attributes: Record<string, string>;
    timeline?: TimelineEntry[];
    timeline_truncated?: boolean;
}
export interface Requests { time: number; total: number; requests: Request[] }

export interface Shared {
    id: string;
    shared: {
        id: string; own_id: string | null; model: string; route: string;
        batches: number; tokens: number; seconds: number; share: number;
    }[];
    waited_for: { id: string; own_id: string | null; phase: string; seconds: number }[];
    queue: { seconds: number | null };
    complete: boolean;
    note: string | null;
}

// What the latency of a request consisted of: parts that add up to it.
export interface WhyFunction { function: string | null; file: string | null; line: number | null; seconds: number; count: number }
export interface WhyWait extends WhyFunction { call: string | null; stack: string[] }
export interface WhyPart {
    kind: string;
    title: string;
    seconds: number;
    share: number | null;
    count: number;
    functions: WhyFunction[]; // that computed, from samples
    waits: WhyWait[];         // where it waited
    requests: { id: string; name: string | null; seconds: number; count: number }[];
    spans: { name: string; seconds: number; count: number }[];
}
export interface Why {
    kind: string;
    id: string | null;
    name: string | null;
    seconds: number;
    thread: string | null;
    batch_mates: number;
    batch_mate_tokens: number;
    parts: WhyPart[];
    notes: string[];
}

export type Metric = 'ttft' | 'itl' | 'total' | 'queue' | 'tokens_per_s';
export interface Heatmap {
    time: number;
    metric: Metric;
    unit: string;
    from: number;
    to: number;
    step_s: number;
    edges: number[];
    columns: number;
    rows: number;
    cells: [number, number, number, number][]; // column, row, count, failed
    counted: number;
    kept: number;
    seen: number;
    truncated: boolean;
}

export interface AgentEvent {
    time: number;
    end: number | null;
    kind: 'start' | 'end' | 'load' | 'session' | 'finding' | 'mark';
    severity: string | null;
    text: string;
    process: string | null;
    pid: number | null;
    id: string | number | null;
}
export interface Events { events: AgentEvent[] }

// What proves a finding: a function, a series, a request, a span, a thread or a place that allocates.
export interface Evidence {
    type: string;
    subject: string;
    labels?: string;
    file?: string;
    line?: number;
    value: number | null;
    unit: string;
    what: string;
    link: string | null;
}

export interface Finding {
    id?: number;            // of one that the store keeps
    run?: number | null;
    time?: number;          // when it began, of one that the store keeps
    kind: string;
    title?: string;
    subject: string;
    severity: string; // info, warning, critical
    text: string;
    value?: number | null;
    unit?: string;
    advice?: string | null;
    gain?: number | null;
    gain_of?: string | null;
    since?: number | null;
    until?: number | null;
    file?: string;
    line?: number;
    evidence?: Evidence[];
    symptoms?: Finding[];
}
export interface Findings { time: number; findings: Finding[]; active?: Finding[]; looked?: number | null }
export interface FindingsNow { findings: Finding[]; notes: string[]; muted: number }

// What sampling costs the program: shares, 0.01 is 1 %. Where there is no interval, reason says why.
export interface Cost {
    enabled: boolean;
    covers: string;
    state: string; // measuring, waiting, off
    text: string | null;
    method: string | null; // comparison, estimate
    measure: string | null;
    work: string | null;
    ratio: number | null;
    low: number | null;
    high: number | null;
    pairs: number;
    confidence: number;
    pairs_more: number;
    window_seconds: number | null;
    off_ratio: number | null;
    reason: string | null;
}

export interface Alert {
    id: string;
    kind: string;
    state: string; // firing, pending, resolved
    severity: string;
    summary: string;
    labels: Labels;
    since: number | null; // when the state began
    started: number | null;
    muted: boolean;
    held: string | null;  // why it is not sent: muted, severity
    notifications: { receiver: string; state: string; outcome: string; time: number | null; error: string | null }[];
}
export interface Alerts {
    time: number;
    firing: number;
    firing_muted: number;
    pending: number;
    alerts: Alert[];
    receivers: {
        name: string; kind: string; to: string; queued: number; sent: number; failed: number; refused: number; dropped: number;
        last_sent: number | null; last_failed: number | null; last_error: string | null;
    }[];
    rules: { name: string }[];
    mutes: { id: number; active: boolean; comment: string | null }[];
}

// A change of a series, or of what a function costs. relative: 0.1 is 10 % more than before.
export interface Regression {
    id: number;
    kind: string;    // series, function
    verdict: string; // worse, better, changed, shift
    severity: string;
    state: string;   // open, went_away
    subject: string;
    program: string | null;
    unit: string | null;
    since: number | null;
    until: number | null;
    absolute: number | null;
    relative: number | null;
    relative_low: number | null;
    relative_high: number | null;
    text: string;
    what_changed: { time: number | null; kind: string; text: string }[];
}
export interface Regressions {
    time: number;
    series_watched: number;
    series_learning: number;
    programs_profiled: number;
    regressions: Regression[];
}

export interface Health {
    status: string; // ok, degraded, failing
    reasons: string[];
    window_s: number;
    latency: { source: string | null; p50_s: number | null; p95_s: number | null };
    errors: { requests: number | null; failed: number | null; ratio: number | null };
    memory: {
        total_bytes: number | null; available_bytes: number | null; used_ratio: number | null;
        processes_bytes: number | null;
    };
    gpu: { utilization_ratio: number | null; reason?: string | null };
    components: Record<string, { status: string; [more: string]: unknown }>;
}

export interface Continuous {
    enabled: boolean;
    rate_hz: number;
    interval_seconds: number;
    duration_seconds: number;
    duty: number;
    flush_seconds: number;
    cpu: { wanted: boolean; active: boolean; reason: string | null; processes: number; rate_hz: number; note: string | null };
    memory: { wanted: boolean; active: boolean; reason: string | null; processes: number; snapshots: number };
    gpu: { wanted: boolean; active: boolean; reason: string | null };
    burst: { active: boolean; rate_hz: number | null; until: number | null };
    history: {
        kept_in: string; from: number | null; to: number | null; minutes: number; hours: number; days: number;
        heaps: number; bytes: number; max_bytes: number; samples: number; lost_samples: number; writes: number;
        last_write: number | null; merges: number; deleted: number; dropped: number;
    };
    overhead: {
        agent_cpu_seconds: number | null; agent_cpu_ratio: number | null; sample_cost_seconds: number | null;
        target_cpu_ratio: number | null; reason: string | null;
    };
    problem: string | null;
}

export interface Session {
    name: string;
    since: number;
    seconds: number;
    duration_seconds: number | null;
    cpu: boolean;
    memory: boolean;
    rate_hz: number;
    processes: number;
    samples: number;
    spans: number;
    requests: number;
    dropped: { samples: number; spans: number; requests: number };
    bytes: number;
}
export interface SessionStatus { status: string; sessions: Session[]; last_id: number | null; kept_in: string }

export interface StoredProfile {
    id: number;
    name: string;
    kind: string;
    program: string;
    start: number;
    end: number;
    samples: number;
    bytes: number;
    run: number | null;
}
export interface StoredProfiles { profiles: StoredProfile[]; total: number; kept_in: string }

export interface Run {
    id: number;
    name: string;
    tags: string;
    host: string;
    version: string;
    start: number;
    end: number;
    ticks: number;
    profiles: number;
    spans: number;
    requests: number;
    findings: number;
    live: boolean;
}
export interface StoreState {
    failing_since: number | null;
    problem: string | null;
    ticks: number;
    dropped_ticks: number;
    dropped_series: number;
    [more: string]: unknown;
}
export interface Runs { runs: Run[]; store: StoreState | null }

export interface Span {
    name: string;
    program: string;
    pid: number;
    tid: number;
    start: number;
    duration_s: number;
    trace_id: string;
    span_id: string;
    parent_id: string | null;
    outcome: string;
    attributes: Record<string, string>;
}
export interface Spans { time: number; spans: Span[] }

// /api/flamegraph: the format of src/present/flamegraph/private.h, read by flame/data.ts, and this.
export interface FlameAbout {
    samples: number;
    seconds: number;
    base_samples: number | null;
    base_seconds: number | null;
    notes: string[];
    requests: number | null;
    requests_all: number | null;
    truncated_share: number | null;
    kinds: string[];
}
export interface FlameAnswer { version: number; about: FlameAbout; [more: string]: unknown }
export interface FlameTime { from: number; to: number; step_s: number; total: number[]; kinds?: Record<string, number[]> }
export interface FlameSamples {
    frames: string[];
    stacks: number[][];
    samples: [number, number, number, number][]; // time, stack, weight, thread
    threads: (string | { tid: number; name: string })[];
}
