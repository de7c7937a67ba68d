// What figures mean and how they are measured, for tooltips. Keys are those of tiles, charts and
// columns. Pages add their own with addTerms().

export interface Term {
    title: string;
    what: string; // what it means
    how?: string; // how it was measured
}

const HISTOGRAM = 'Percentiles come from a histogram whose buckets are at most 3 % wide; no values are averaged.';

const TERMS: Record<string, Term> = {
    ttft: {
        title: 'Time to first token',
        what: 'From the arrival of a request to its first token: what a person waits before an answer begins.',
        how: `Every request counts. ${HISTOGRAM}`,
    },
    itl: {
        title: 'Time between tokens',
        what: 'Between one token of an answer and the next: how fluently it comes.',
        how: `Every gap of every request counts, not the mean of each request. ${HISTOGRAM}`,
    },
    tpot: {
        title: 'Time per output token',
        what: 'Mean time between the tokens of a request, after the first.',
        how: `One value per request. ${HISTOGRAM}`,
    },
    total: {
        title: 'Duration of requests',
        what: 'From the arrival of a request to its end.',
        how: HISTOGRAM,
    },
    queue: {
        title: 'Queue',
        what: 'Time before the engine began to work on a request.',
        how: 'From arrival to the first phase of work, where the engine does not report it itself.',
    },
    prefill_rate: {
        title: 'Prefill',
        what: 'Tokens of prompts computed per second, all requests together. Tokens reused from a cache are not computed and do not count.',
        how: 'Over the last interval of the agent, from the batches that the engine reports.',
    },
    decode_rate: {
        title: 'Decode',
        what: 'Tokens of answers computed per second, all requests together. Apart from prefill: a fall of one hides behind the other.',
        how: 'Over the last interval of the agent, from the batches that the engine reports.',
    },
    tokens: {
        title: 'Tokens per second',
        what: 'Computed for prompts (prefill) and for answers (decode), and given out to clients (output).',
    },
    concurrency: {
        title: 'Running and waiting',
        what: 'Requests that are being served, and requests that wait to be. A queue that does not empty means more arrives than is served.',
        how: 'Counted by the agent from arrivals, first work and ends.',
    },
    goodput: {
        title: 'Goodput',
        what: 'Share of requests that ended well and met every objective that is set: first token, mean time between tokens, duration.',
        how: 'Of the last minute, or of the range if it is fixed; on the page Inference, since the agent started. Requests that their client gave up do not count.',
    },
    kv: {
        title: 'KV cache',
        what: 'Share of the cells of the key-value cache that are in use. Near 100 % requests have to wait, or are evicted.',
        how: 'As the engine reports it.',
    },
    hit: {
        title: 'Prefix hits',
        what: 'Share of all tokens of prompts that were reused from a cache instead of being computed again.',
    },
    errors: {
        title: 'Errors',
        what: 'Requests of the last minute that did not end well: errors, timeouts and those whose end nobody saw. Cancelled ones are apart.',
    },
    rss: {
        title: 'Resident memory',
        what: 'Memory of the watched processes that is in RAM, files mapped into them included.',
        how: 'From /proc, every second.',
    },
    memory_kinds: {
        title: 'Memory by kind',
        what: 'What the engine says its memory is for: weights, key-value cache, compute buffers.',
        how: 'Reported by the engine. Memory on a GPU, and files that are mapped but not read yet, are in it but not in the resident memory.',
    },
    cpu: {
        title: 'CPU',
        what: 'CPU time that the watched processes use, as a number of cores: 1 is one core all the time.',
        how: 'From /proc, every second.',
    },
    host_cpu: {
        title: 'CPU of the machine',
        what: 'Share of all CPU time that was not idle.',
        how: 'From /proc/stat, every second.',
    },
    host_memory: {
        title: 'Memory of the machine',
        what: 'Share of memory that programs cannot get without swapping.',
        how: 'Total less available, from /proc/meminfo.',
    },
    load: {
        title: 'Load',
        what: 'Threads that ran or waited to run, averaged over a minute. More than there are CPUs: some wait.',
    },
    pressure: {
        title: 'Pressure',
        what: 'Share of time in which at least one task waited for this resource.',
        how: 'The kernel\'s pressure stall information, /proc/pressure.',
    },
    phases: {
        title: 'Phases',
        what: 'Where the time of requests goes: how many seconds of each phase there were per second, over all requests.',
        how: 'Sums of the histograms of phases. A forward pass that several requests share is counted for each.',
    },
    batch: {
        title: 'Batch',
        what: 'How many requests, and how many tokens, a forward pass computes. Small batches leave the machine idle; large ones make each wait.',
    },
    requests_rate: {
        title: 'Requests',
        what: 'Requests that ended per second, by outcome.',
    },
    sonde_cpu: {
        title: 'What sonde costs: CPU',
        what: 'CPU time of the agent as a share of one core.',
        how: 'From the agent\'s own account (getrusage), every second.',
    },
    sonde_memory: {
        title: 'What sonde costs: memory',
        what: 'Resident memory of the agent.',
    },
    sonde_target: {
        title: 'What sonde costs: in the program',
        what: 'Share of the CPU time of sampled processes that continuous profiling takes.',
        how: 'Samples times the measured cost of one.',
    },
    sonde_tick: {
        title: 'What sonde costs: a reading',
        what: 'How long the agent takes to read all segments and probes, once a second.',
    },
    heap: {
        title: 'Heap',
        what: 'Memory in use that the program allocated.',
        how: 'From the allocation hooks of `sonde run`, sampled and scaled.',
    },
    allocation_rate: {
        title: 'Allocation rate',
        what: 'Memory allocated per second, whether it was freed or not.',
    },
    threads: { title: 'Threads', what: 'Threads of the process.' },
    spans: {
        title: 'Spans',
        what: 'How long the named intervals of the program took.',
        how: HISTOGRAM,
    },
    network: {
        title: 'Network',
        what: 'Bytes received and sent by all interfaces but the loopback.',
    },
    disk: {
        title: 'Disk',
        what: 'Bytes read from and written to disks.',
    },
    disk_busy: {
        title: 'Disk busy',
        what: 'Share of time in which the disk had something to do. Disks that work in parallel are not full at 100 %.',
    },
    switches: {
        title: 'Context switches',
        what: 'How often threads left the CPU: by themselves, to wait (voluntary), or because others had to run (involuntary).',
    },
    faults: {
        title: 'Page faults',
        what: 'Pages that were not there when touched: minor ones were in memory, major ones had to be read from a disk.',
    },
    gpu: { title: 'GPU', what: 'Utilisation of the GPU.' },
};

export function term(key: string): Term | null {
    return TERMS[key] ?? null;
}

export function addTerms(terms: Record<string, Term>): void {
    Object.assign(TERMS, terms);
}
