// What the figures of single requests mean.

import { addTerms, term } from '../core/glossary';

const TERMS = {
    tokens_per_s: {
        title: 'Tokens per second',
        what: 'Tokens that came out, by the time from arrival to end: as fast as its user saw it.',
        how: 'Of each request alone; waiting for the first token counts.',
    },
    arrived: {
        title: 'Arrived',
        what: 'When the request came, in local time.',
        how: 'By the clock of the machine that the engine runs on.',
    },
    request_id: {
        title: 'Request',
        what: "The engine's own name for the request, or else its number.",
        how: 'The same name works with `sonde requests ID` and in a trace.',
    },
    model: { title: 'Model', what: 'The model that answered.' },
    route: { title: 'Route', what: 'Where the request came in, as the engine names it.' },
    outcome: {
        title: 'Outcome',
        what: 'ok, error, cancelled (its client went away), timeout, or lost (its end was never reported).',
    },
    itl_mean: {
        title: 'Mean time between tokens',
        what: 'From the first token to the last, divided by the gaps between them.',
        how: 'Of this request alone.',
    },
    itl_p99: {
        title: 'Time between tokens, 99th percentile',
        what: 'One gap of a hundred was longer: where an answer stuttered.',
        how: 'Of the gaps of this request alone.',
    },
    itl_max: { title: 'Longest pause', what: 'The longest time between two tokens of this request.' },
    tokens_in: { title: 'Tokens in', what: 'Tokens of the prompt, those in the cache included.' },
    tokens_reused: {
        title: 'Reused tokens',
        what: 'How much of the prompt was in the prefix cache and was not computed again.',
    },
    tokens_out: { title: 'Tokens out', what: 'Tokens of the answer.' },
    batches: { title: 'Forward passes', what: 'Forward passes that this request was part of, alone or with others.' },
    request_phases: {
        title: 'Phases',
        what: 'Where the time went. A longer bar took longer (by the square root, so that short ones can be seen).',
        how: "Full colours are the request's own share; pale ones are the rest of that time: others in the same forward passes, and gaps.",
    },
    request_memory: { title: 'Memory', what: 'Of its model, all kinds together, when the request ended.' },
    slo: { title: 'Objectives', what: 'Whether it met the latency objectives that are set (inference.slo_…).' },
    trace: { title: 'Trace', what: 'The id that its spans share, here and in other tools.' },
    request_parts: {
        title: 'Its phases',
        what: 'Every moment from arrival to end, once: the parts add up to the duration.',
        how: 'From the phases that the engine reported. Unexplained: between them, where the engine was busy with something else or does not say.',
    },
    request_path: {
        title: 'What its time consisted of',
        what: 'Its critical path: at every moment the one thing that its end waited for. The parts add up to the duration.',
        how: 'From phases, batches, spans and samples, across threads and processes. Waits for locks, files or a CPU are known where off-CPU time is recorded.',
    },
    shared: {
        title: 'Shared its batches',
        what: 'Other requests in the same forward passes: all of them wait until the pass is over.',
        how: 'Passes of the same process with the same beginning and end. Time of a pass is divided by tokens.',
    },
    waited_for: {
        title: 'Waited for',
        what: 'Whose work ran between its arrival and the first work on it.',
    },
};

// Where the pages have a term already, theirs stays.
addTerms(Object.fromEntries(Object.entries(TERMS).filter(([key]) => term(key) === null)));
