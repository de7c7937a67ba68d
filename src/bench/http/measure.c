/* measure.c - see measure.h. */
#include "bench/http/measure.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/steady.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

#define STEADY_BINS 100u     /* of completions over time */
#define PART_LEAST 8u        /* requests of a sub-window, about */

static const struct { const char *name, *text; } measure_metrics[] = {
#define SONDE__X(id, name, text) { name, text },
    SONDE_LOAD_METRICS(SONDE__X)
#undef SONDE__X
};
static const char *const measure_rates[] = {
#define SONDE__X(id, name) name,
    SONDE_LOAD_RATES(SONDE__X)
#undef SONDE__X
};

const char *sonde_load_metric_name(enum sonde_load_metric_id id)
{
    return measure_metrics[id].name;
}
const char *sonde_load_metric_text(enum sonde_load_metric_id id)
{
    return measure_metrics[id].text;
}
const char *sonde_load_rate_name(enum sonde_load_rate_id id) { return measure_rates[id]; }

int sonde_load_slo_parse(const char *text, struct sonde_load_slo *out, struct sonde_err *err)
{
    struct sonde_load_slo s = { 0, 0, 0, 0 };
    const struct { const char *name; double *at; } rows[] = {
        { "ttft", &s.ttft_s }, { "itl", &s.itl_s }, { "tpot", &s.tpot_s }, { "e2e", &s.e2e_s },
    };
    for (const char *at = text; *at;) {
        const size_t len = strcspn(at, ","), name = strcspn(at, "<");
        const size_t begin = name + 1 + (name < len && at[name + 1] == '=');
        double *limit = NULL, v = 0;
        for (size_t i = 0; i < SONDE_COUNT(rows); i++) {
            if (name == strlen(rows[i].name) && !memcmp(at, rows[i].name, name)) limit = rows[i].at;
        }
        /* A number alone may be meant as milliseconds. */
        const int unit = len && at[len - 1] >= 'a' && at[len - 1] <= 'z';
        if (!limit || name >= len || !unit ||
            sonde_load_seconds_parse(at + begin, len - begin, &v) || !(v > 0)) {
            return sonde_err_set(err, SONDE_EINVAL, "'%.*s' is not an objective: say ttft, itl, "
                                 "tpot or e2e, < and a time with its unit, as in "
                                 "ttft<500ms,itl<50ms,e2e<5s", (int)(len < 60 ? len : 60), at);
        }
        *limit = v;
        at += len + (at[len] == ',');
    }
    if (!sonde_load_slo_any(&s)) return sonde_err_set(err, SONDE_EINVAL, "no objective was given");
    *out = s;
    return 0;
}

/* ---- Of one request -------------------------------------------------------------------------- */

static double measure_between(uint64_t from_ns, uint64_t to_ns)
{
    return from_ns && to_ns >= from_ns ? (double)(to_ns - from_ns) * 1e-9 : NAN;
}

/* Tokens of the answer: by usage, else events. NaN = not known. */
static double measure_output(const struct sonde_load_record *r)
{
    if (r->output_tokens != SONDE_LOAD_UNKNOWN) return r->output_tokens;
    return r->streamed ? (double)r->events : NAN;
}

static double measure_value(const struct sonde_load_record *r, enum sonde_load_metric_id id)
{
    const double tokens = measure_output(r);
    const int stream = r->streamed && r->first_ns;
    switch (id) {
    case SONDE_LOAD_METRIC_TTFT: return stream ? measure_between(r->sent_ns, r->first_ns) : NAN;
    case SONDE_LOAD_METRIC_TTFT_CONTENT:
        return stream && r->content_ns ? measure_between(r->sent_ns, r->content_ns) : NAN;
    case SONDE_LOAD_METRIC_TTFT_SCHEDULE:
        return stream ? measure_between(r->intended_ns, r->first_ns) : NAN;
    case SONDE_LOAD_METRIC_TPOT:
        return stream && tokens > 1 ? measure_between(r->first_ns, r->last_ns) / (tokens - 1) : NAN;
    case SONDE_LOAD_METRIC_E2E: return measure_between(r->sent_ns, r->end_ns);
    case SONDE_LOAD_METRIC_E2E_SCHEDULE: return measure_between(r->intended_ns, r->end_ns);
    case SONDE_LOAD_METRIC_ITL:
    case SONDE_LOAD_METRIC_ITL_CHUNK:
    case SONDE_LOAD_METRIC_COUNT: break;
    }
    return NAN;
}

/* From the schedule: what a user would have waited. A limit of what is not known is not met. */
static int measure_good(const struct sonde_load_record *r, const struct sonde_load_slo *s)
{
    const double ttft = measure_value(r, SONDE_LOAD_METRIC_TTFT_SCHEDULE),
                 tpot = measure_value(r, SONDE_LOAD_METRIC_TPOT),
                 e2e = measure_value(r, SONDE_LOAD_METRIC_E2E_SCHEDULE);
    const int one = measure_output(r) < 2; /* no gap that could be too long */
    if (s->ttft_s > 0 && !(ttft < s->ttft_s)) return 0;
    if (s->itl_s > 0 && !(tpot < s->itl_s) && !one) return 0;
    if (s->tpot_s > 0 && !(tpot < s->tpot_s) && !one) return 0;
    return !(s->e2e_s > 0) || e2e < s->e2e_s;
}

int sonde_load_measured(const struct sonde_load_measures *m, const struct sonde_load_record *r)
{
    return r->outcome == SONDE_LOAD_OK && r->intended_ns >= m->from_ns &&
           r->intended_ns <= m->to_ns;
}

/* ---- The window ------------------------------------------------------------------------------ */

static uint64_t measure_last_sent(const struct sonde_load_result *r, uint64_t *first_end)
{
    uint64_t last = r->begin_ns;
    *first_end = UINT64_MAX;
    for (size_t i = 0; i < r->record_count; i++) {
        if (r->records[i].sent_ns > last) last = r->records[i].sent_ns;
        if (r->records[i].end_ns && r->records[i].end_ns < *first_end) {
            *first_end = r->records[i].end_ns;
        }
    }
    return last;
}

/* From where on latencies are steady: values in order of what is due. 0 or SONDE_ENOMEM. */
static int measure_steady_latency(const struct sonde_load_result *r, struct sonde_load_measures *m,
                                  uint64_t *from_ns)
{
    double *v = sonde__calloc(r->record_count + 1, sizeof(*v));
    uint64_t *at = sonde__calloc(r->record_count + 1, sizeof(*at));
    size_t n = 0;
    for (size_t i = 0; v && at && i < r->record_count; i++) {
        const struct sonde_load_record *c = &r->records[i];
        if (c->outcome != SONDE_LOAD_OK || c->intended_ns > m->to_ns) continue;
        at[n] = c->intended_ns;
        v[n++] = measure_value(c, SONDE_LOAD_METRIC_E2E_SCHEDULE);
    }
    const int rc = v && at ? 0 : SONDE_ENOMEM;
    if (!rc) {
        const struct sonde_steady s = sonde_steady_find(v, n);
        m->steady_known = s.known;
        m->steady = s.known && s.steady;
        if (s.known && s.cut) *from_ns = at[s.cut];
    }
    sonde__free(v);
    sonde__free(at);
    return rc;
}

static void measure_steady_rate(const struct sonde_load_result *r, struct sonde_load_measures *m,
                                uint64_t *from_ns)
{
    double bins[STEADY_BINS] = { 0 };
    const double width = (double)(m->to_ns - r->begin_ns) / STEADY_BINS;
    size_t n = 0;
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *c = &r->records[i];
        if (c->outcome != SONDE_LOAD_OK) continue;
        if (c->end_ns < r->begin_ns || c->end_ns >= m->to_ns) continue;
        bins[(size_t)((double)(c->end_ns - r->begin_ns) / width) % STEADY_BINS]++;
        n++;
    }
    if (n < 3 * STEADY_BINS) return; /* bins of one or two say nothing of a rate */
    const struct sonde_steady s = sonde_steady_find(bins, STEADY_BINS);
    if (!s.steady) m->steady = 0;
    const uint64_t at = r->begin_ns + (uint64_t)(width * (double)s.cut);
    if (at > *from_ns) *from_ns = at;
}

static int measure_window(const struct sonde_load_result *r,
                          const struct sonde_load_measure_options *o, struct sonde_load_measures *m)
{
    uint64_t first_end;
    const uint64_t last = measure_last_sent(r, &first_end);
    m->from_ns = r->begin_ns;
    m->to_ns = o->open && o->planned_s > 0 ? r->begin_ns + (uint64_t)(o->planned_s * 1e9) : last;
    if (m->to_ns > r->end_ns) m->to_ns = r->end_ns;
    m->at_once = last <= first_end;
    if (m->at_once && !o->open) m->to_ns = r->end_ns;
    m->run_s = (double)(r->end_ns - r->begin_ns) * 1e-9;
    uint64_t from = r->begin_ns;
    int rc = 0;
    if (o->warmup_requests) {
        const size_t n = o->warmup_requests < r->record_count ? (size_t)o->warmup_requests
                                                              : r->record_count;
        if (n && n < r->record_count) from = r->records[n].intended_ns;
    } else if (o->warmup_s >= 0) {
        from += (uint64_t)(o->warmup_s * 1e9);
    }
    uint64_t found = from;
    if (!o->unlevel && !m->at_once && m->to_ns > r->begin_ns) {
        rc = measure_steady_latency(r, m, &found);
        measure_steady_rate(r, m, &found);
        m->warmup_found = !o->warmup_requests && o->warmup_s < 0;
        if (m->warmup_found && found > from) from = found;
        /* What was given is taken as it is, and what is left is judged by itself. */
        if (!m->warmup_found && found <= from) m->steady = m->steady_known;
    }
    m->from_ns = from < m->to_ns ? from : r->begin_ns;
    m->warmup_s = (double)(m->from_ns - r->begin_ns) * 1e-9;
    m->window_s = (double)(m->to_ns - m->from_ns) * 1e-9;
    return rc;
}

/* ---- Latencies ------------------------------------------------------------------------------- */

static size_t measure_part_of(const struct sonde_load_measures *m, uint64_t at_ns, size_t parts)
{
    const uint64_t all = m->to_ns - m->from_ns;
    if (!all || at_ns <= m->from_ns) return 0;
    const size_t p = (size_t)((__uint128_t)(at_ns - m->from_ns) * parts / all);
    return p < parts ? p : parts - 1;
}

static size_t measure_parts(uint64_t measured)
{
    const uint64_t n = measured / PART_LEAST;
    return n < 1 ? 1 : n > SONDE_LOAD_PARTS_MAX ? SONDE_LOAD_PARTS_MAX : (size_t)n;
}

static int measure_latencies(const struct sonde_load_result *r, struct sonde_load_measures *m,
                             struct sonde_observed *v)
{
    const size_t parts = measure_parts(m->measured);
    int rc = 0;
    for (int id = 0; id < SONDE_LOAD_METRIC_COUNT && !rc; id++) {
        size_t n = 0;
        for (size_t i = 0; i < r->record_count; i++) {
            const struct sonde_load_record *c = &r->records[i];
            if (!sonde_load_measured(m, c)) continue;
            const double x = measure_value(c, (enum sonde_load_metric_id)id);
            if (isnan(x)) continue;
            v[n++] = (struct sonde_observed){ x, (uint32_t)measure_part_of(m, c->intended_ns,
                                                                           parts) };
        }
        rc = sonde_load_metric_of(v, n, parts, &m->metrics[id]);
    }
    return rc;
}

static int measure_gaps(const struct sonde_load_result *r, struct sonde_load_measures *m)
{
    const struct sonde_load_gaps *g = &r->gaps;
    size_t first = 0, end = 0;
    /* Windows that lie in ours; if none does wholly, those that touch it. */
    for (int touch = 0; touch < 2 && first >= end; touch++) {
        first = end = 0;
        for (size_t w = 0; w < g->window_count; w++) {
            const uint64_t from = g->begin_ns + w * g->width_ns, to = from + g->width_ns;
            const int in = touch ? to > m->from_ns && from < m->to_ns
                                 : from >= m->from_ns && to <= m->to_ns;
            if (!in) continue;
            if (first >= end) first = w;
            end = w + 1;
        }
    }
    return sonde_load_metric_of_gaps(g, first, end, &m->metrics[SONDE_LOAD_METRIC_ITL_CHUNK]);
}

/* By token: the gaps themselves, or each answer's mean, counted once for each of its gaps. Those
 * are too many to list, so an answer is listed in proportion, at most a million in all. */
static int measure_itl(const struct sonde_load_result *r, struct sonde_load_measures *m)
{
    struct sonde_load_metric *itl = &m->metrics[SONDE_LOAD_METRIC_ITL];
    if (m->itl_of_gaps) {
        *itl = m->metrics[SONDE_LOAD_METRIC_ITL_CHUNK];
        return 0;
    }
    enum { LISTED_MAX = 1000000 };
    const size_t parts = measure_parts(m->measured);
    double all = 0;
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *c = &r->records[i];
        if (sonde_load_measured(m, c) && measure_output(c) > 1) all += measure_output(c) - 1;
    }
    const double share = all > LISTED_MAX ? LISTED_MAX / all : 1;
    struct sonde_observed *v = sonde__calloc((size_t)fmin(all, LISTED_MAX) + r->record_count + 1,
                                             sizeof(*v));
    if (!v) return SONDE_ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *c = &r->records[i];
        const double x = measure_value(c, SONDE_LOAD_METRIC_TPOT);
        if (!sonde_load_measured(m, c) || isnan(x)) continue;
        size_t times = (size_t)((measure_output(c) - 1) * share);
        for (times = times ? times : 1; times; times--) {
            v[n++] = (struct sonde_observed){ x, (uint32_t)measure_part_of(m, c->intended_ns,
                                                                           parts) };
        }
    }
    const int rc = sonde_load_metric_of(v, n, parts, itl);
    if (share < 1) itl->count = (uint64_t)all;
    sonde__free(v);
    return rc;
}

/* ---- Rates ----------------------------------------------------------------------------------- */

static double measure_weight(const struct sonde_load_record *c, enum sonde_load_rate_id id,
                             const struct sonde_load_slo *slo)
{
    const double output = measure_output(c);
    switch (id) {
    case SONDE_LOAD_RATE_REQUESTS: return 1;
    case SONDE_LOAD_RATE_OUTPUT: return output;
    case SONDE_LOAD_RATE_TOTAL:
        return c->prompt_tokens == SONDE_LOAD_UNKNOWN ? NAN : output + c->prompt_tokens;
    case SONDE_LOAD_RATE_GOODPUT:
        return sonde_load_slo_any(slo) ? (double)measure_good(c, slo) : NAN;
    case SONDE_LOAD_RATE_COUNT: break;
    }
    return NAN;
}

static void measure_rate(const struct sonde_load_result *r, const struct sonde_load_slo *slo,
                         enum sonde_load_rate_id id, struct sonde_load_measures *m)
{
    static const uint32_t run[SONDE_LOAD_PARTS_MAX];
    struct sonde_load_rate *out = &m->rates[id];
    double y[SONDE_LOAD_PARTS_MAX] = { 0 }, x[SONDE_LOAD_PARTS_MAX];
    const size_t parts = measure_parts(m->measured);
    size_t known = 0;
    *out = (struct sonde_load_rate){ NAN, NAN, NAN, { 0 }, parts };
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *c = &r->records[i];
        if (c->outcome != SONDE_LOAD_OK) continue;
        if (c->end_ns <= m->from_ns || c->end_ns > m->to_ns) continue;
        const double weight = measure_weight(c, id, slo);
        if (isnan(weight)) continue;
        y[measure_part_of(m, c->end_ns, parts)] += weight;
        known++;
    }
    const int always = id == SONDE_LOAD_RATE_REQUESTS ||
                       (id == SONDE_LOAD_RATE_GOODPUT && sonde_load_slo_any(slo));
    if (!(m->window_s > 0) || (!known && !always)) return;
    for (size_t p = 0; p < parts; p++) {
        x[p] = m->window_s / (double)parts;
        out->parts[p] = y[p] / x[p];
    }
    const struct sonde_estimate e = sonde_estimate_ratio(y, x, run, parts, 0);
    out->value = e.value;
    if (isinf(e.se_low)) return;
    const double arm = sonde_t_quantile(0.975, e.df) * e.se_low;
    out->low = fmax(e.value - arm, 0);
    out->high = e.value + arm;
}

/* ---- Counts, tokens -------------------------------------------------------------------------- */

static void measure_counts(const struct sonde_load_result *r, struct sonde_load_measures *m)
{
    m->due = r->record_count + r->unsent;
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *c = &r->records[i];
        if (c->outcome < SONDE_LOAD_OUTCOME_COUNT) m->outcomes[c->outcome]++;
        if (c->outcome == SONDE_LOAD_STATUS) {
            m->statuses[c->status >= 100 && c->status < 600 ? c->status / 100 : 0]++;
        }
        m->sent += c->sent_ns != 0;
        m->measured += sonde_load_measured(m, c) != 0;
    }
}

static void measure_tokens(const struct sonde_load_result *r, const struct sonde_load_slo *slo,
                           struct sonde_load_measures *m)
{
    double prompts = 0, prompt = 0, cached = 0, outputs = 0, output = 0, reasoning = 0, good = 0;
    double cached_of = 0, streamed_tokens = 0, events = 0;
    size_t by_usage = 0, by_events = 0;
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *c = &r->records[i];
        if (!sonde_load_measured(m, c)) continue;
        const int usage = c->output_tokens != SONDE_LOAD_UNKNOWN;
        if (usage) by_usage++;
        else if (c->streamed) by_events++;
        if (usage && c->streamed && c->events) {
            streamed_tokens += c->output_tokens;
            events += c->events;
        }
        if (!isnan(measure_output(c))) {
            outputs++;
            output += measure_output(c);
            if (c->reasoning_tokens != SONDE_LOAD_UNKNOWN) reasoning += c->reasoning_tokens;
        }
        if (c->prompt_tokens != SONDE_LOAD_UNKNOWN) {
            prompts++;
            prompt += c->prompt_tokens;
            if (c->cached_tokens != SONDE_LOAD_UNKNOWN) {
                cached += c->cached_tokens;
                cached_of += c->prompt_tokens;
            }
        }
        good += sonde_load_slo_any(slo) ? measure_good(c, slo) : 0;
    }
    m->token_basis = by_events ? SONDE_LOAD_TOKENS_EVENTS
                     : by_usage ? SONDE_LOAD_TOKENS_USAGE : SONDE_LOAD_TOKENS_NONE;
    m->tokens_per_chunk = events > 0 ? streamed_tokens / events : NAN;
    /* Half a character held back now and then, or a last event without text, is not batching. */
    m->itl_of_gaps = isnan(m->tokens_per_chunk) || fabs(m->tokens_per_chunk - 1) <= 0.02;
    m->prompt_tokens_mean = prompts > 0 ? prompt / prompts : NAN;
    m->output_tokens_mean = outputs > 0 ? output / outputs : NAN;
    m->cached_ratio = cached_of > 0 ? cached / cached_of : NAN;
    m->reasoning_ratio = output > 0 ? reasoning / output : NAN;
    m->good_ratio = sonde_load_slo_any(slo) && m->measured ? good / (double)m->measured : NAN;
}

/* The interval of the share that met the objectives. Where none or all did, neighbours say nothing
 * of how alike they are: what so many independent values leave open, 1 - 0.025^(1/n). */
static void measure_good_interval(const struct sonde_load_result *r,
                                  const struct sonde_load_slo *slo, struct sonde_load_measures *m,
                                  double *v)
{
    static const uint32_t run[SONDE_LOAD_PARTS_MAX];
    double y[SONDE_LOAD_PARTS_MAX] = { 0 }, x[SONDE_LOAD_PARTS_MAX] = { 0 };
    const size_t parts = measure_parts(m->measured);
    size_t count = 0;
    m->good_low = m->good_high = NAN;
    if (isnan(m->good_ratio)) return;
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *c = &r->records[i];
        if (!sonde_load_measured(m, c)) continue;
        const size_t p = measure_part_of(m, c->intended_ns, parts);
        x[p]++;
        v[count] = measure_good(c, slo);
        y[p] += v[count++];
    }
    const double n = fmax(sonde_steady_effective(v, count), 1), open = 1 - pow(0.025, 1 / n);
    const double q = m->good_ratio;
    const struct sonde_estimate e = sonde_estimate_ratio(y, x, run, parts, q * (1 - q) / n);
    const double arm = isinf(e.se_low) ? 1 : sonde_t_quantile(0.975, e.df) * e.se_low;
    m->good_low = fmax(fmin(q - arm, 1 - open), 0);
    m->good_high = fmin(fmax(q + arm, open), 1);
}

/* ---- Concurrency, schedule ------------------------------------------------------------------- */

/* Mean number of requests under way between two times. */
static double measure_under_way(const struct sonde_load_result *r, uint64_t from, uint64_t to)
{
    double sum = 0;
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *c = &r->records[i];
        if (!c->sent_ns || c->end_ns <= from || c->sent_ns >= to) continue;
        const uint64_t a = c->sent_ns > from ? c->sent_ns : from;
        const uint64_t b = c->end_ns < to ? c->end_ns : to;
        sum += (double)(b - a);
    }
    return to > from ? sum / (double)(to - from) : NAN;
}

static void measure_little(const struct sonde_load_result *r, struct sonde_load_measures *m)
{
    double waited = 0;
    uint64_t n = 0;
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *c = &r->records[i];
        if (!c->sent_ns || c->sent_ns < m->from_ns || c->sent_ns > m->to_ns) continue;
        waited += measure_between(c->sent_ns, c->end_ns);
        n++;
    }
    const uint64_t tenth = (m->to_ns - m->from_ns) / 10;
    m->sent_rate = m->window_s > 0 ? (double)n / m->window_s : NAN;
    m->little = m->window_s > 0 && n ? waited / m->window_s : NAN;
    m->in_flight = measure_under_way(r, m->from_ns, m->to_ns);
    m->in_flight_first = measure_under_way(r, m->from_ns, m->from_ns + tenth);
    m->in_flight_last = measure_under_way(r, m->to_ns - tenth, m->to_ns);
}

static void measure_delays(const struct sonde_load_result *r, struct sonde_load_measures *m,
                           double *v)
{
    size_t n = 0;
    for (size_t i = 0; i < r->record_count; i++) {
        const struct sonde_load_record *c = &r->records[i];
        if (!c->sent_ns || c->intended_ns < m->from_ns || c->intended_ns > m->to_ns) continue;
        v[n++] = c->sent_ns > c->intended_ns ? (double)(c->sent_ns - c->intended_ns) * 1e-9 : 0;
    }
    qsort(v, n, sizeof(*v), sonde_cmp_double);
    m->send_delay_p50_s = n ? v[n / 2] : NAN;
    m->send_delay_p99_s = n ? v[(size_t)ceil(0.99 * (double)n) - 1] : NAN;
}

/* How many independent values the latencies are, and whether they still move. */
static void measure_course(const struct sonde_load_result *r, struct sonde_load_measures *m,
                           double *v)
{
    size_t n = 0;
    for (size_t i = 0; i < r->record_count; i++) {
        if (!sonde_load_measured(m, &r->records[i])) continue;
        v[n++] = measure_value(&r->records[i], SONDE_LOAD_METRIC_E2E_SCHEDULE);
    }
    m->effective = sonde_steady_effective(v, n);
    const struct sonde_drift t = sonde_steady_trend(v, n);
    m->trend_first_s = t.first;
    m->trend_last_s = t.last;
    m->trend_p = t.p;
}

int sonde_load_measure(const struct sonde_load_result *r,
                       const struct sonde_load_measure_options *o, struct sonde_load_measures *out)
{
    memset(out, 0, sizeof(*out));
    struct sonde_observed *v = sonde__calloc(r->record_count + 1, sizeof(*v));
    double *w = sonde__calloc(r->record_count + 1, sizeof(*w));
    int rc = v && w ? measure_window(r, o, out) : SONDE_ENOMEM;
    if (!rc) {
        measure_counts(r, out);
        measure_tokens(r, &o->slo, out);
        rc = measure_latencies(r, out, v);
    }
    if (!rc) rc = measure_gaps(r, out);
    if (!rc) rc = measure_itl(r, out);
    for (int id = 0; id < SONDE_LOAD_RATE_COUNT && !rc; id++) {
        measure_rate(r, &o->slo, (enum sonde_load_rate_id)id, out);
    }
    if (!rc) {
        measure_little(r, out);
        measure_delays(r, out, w);
        measure_course(r, out, w);
        measure_good_interval(r, &o->slo, out, w);
        out->planned_rate = NAN;
        if (o->arrival && out->window_s > 0) {
            const double from = (double)(out->from_ns - r->begin_ns) * 1e-9;
            out->planned_rate = sonde_load_arrival_expected(o->arrival, from,
                                                            from + out->window_s) / out->window_s;
        }
    }
    sonde__free(v);
    sonde__free(w);
    return rc;
}
