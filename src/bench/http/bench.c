/* bench.c - see bench.h.
 *
 * --until: latencies are looked at while they come. What decides is the half width of the 95 %
 * interval of the mean latency and of the rate, from means of sub-windows after the warm-up found
 * so far. It is looked at only each time that a tenth more has come in, and not before 10
 * sub-windows of 8: whoever looks all the time will at some moment see a narrow interval by
 * chance. */
#include "bench/http/bench.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/steady.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/lock.h"
#include "sonde/sonde.h"

#define DURATION_DEFAULT_S 30.0
#define DRAIN_DEFAULT_S 30.0
#define SEEN_MAX 4000000u     /* latencies that --until looks at */
enum { UNTIL_PARTS = 20, UNTIL_LEAST = 10 * 8 };

/* What stands between the workload and the sender, to look at what comes back. */
struct bench_watch {
    struct sonde_load_source source;      /* first */
    struct sonde_load_source *inner;
    const struct sonde_load_plan *plan;
    struct sonde_lock lock;               /* of seen */
    double *seen, *ended_s;               /* owned: latencies, and when they were known */
    size_t seen_count, seen_cap, ended_cap;
    size_t looked;                        /* so many when it was last looked */
    int narrow, open;
    double limit_s;
};

void sonde_load_plan_init(struct sonde_load_plan *p)
{
    *p = (struct sonde_load_plan){
        .stream = 1, .prompt = { SONDE_LOAD_LENGTH_CONSTANT, 128, 0 },
        .output = { SONDE_LOAD_LENGTH_CONSTANT, 128, 0 }, .warmup_s = -1, .seed = 1 };
}

/* ---- Until it is known well enough ----------------------------------------------------------- */

static int bench_watch_next(struct sonde_load_source *s, struct sonde_load_request *out)
{
    struct bench_watch *w = (struct bench_watch *)s;
    return w->inner->next(w->inner, out);
}

static void bench_watch_done(struct sonde_load_source *s, const struct sonde_load_request *r,
                             const struct sonde_load_record *record, const char *text, size_t len)
{
    struct bench_watch *w = (struct bench_watch *)s;
    if (record->outcome == SONDE_LOAD_OK && w->plan->until > 0) {
        const uint64_t from = w->open ? record->intended_ns : record->sent_ns;
        sonde_lock(&w->lock);
        if (w->seen_count < SEEN_MAX && !SONDE_ARRAY_ROOM(w->seen, w->seen_count, w->seen_cap) &&
            !SONDE_ARRAY_ROOM(w->ended_s, w->seen_count, w->ended_cap)) {
            w->ended_s[w->seen_count] = (double)record->end_ns * 1e-9;
            w->seen[w->seen_count++] = (double)(record->end_ns - from) * 1e-9;
        }
        sonde_unlock(&w->lock);
    }
    w->inner->done(w->inner, r, record, text, len);
}

/* Half the 95 % interval by the value, of means and rate of sub-windows; the larger. */
static double bench_watch_width(const struct bench_watch *w)
{
    static const uint32_t run[UNTIL_PARTS];
    double y[UNTIL_PARTS] = { 0 }, x[UNTIL_PARTS] = { 0 }, seconds[UNTIL_PARTS];
    const struct sonde_steady s = sonde_steady_find(w->seen, w->seen_count);
    const size_t n = w->seen_count - s.cut;
    if (n < UNTIL_LEAST) return INFINITY;
    const double *t = w->ended_s + s.cut, all = t[n - 1] - t[0];
    if (!(all > 0)) return INFINITY;
    for (size_t i = 0; i < n; i++) {
        const double at = (t[i] - t[0]) / all * UNTIL_PARTS;
        const size_t p = at < 0 ? 0 : at >= UNTIL_PARTS ? UNTIL_PARTS - 1 : (size_t)at;
        y[p] += w->seen[s.cut + i];
        x[p]++;
    }
    for (size_t p = 0; p < UNTIL_PARTS; p++) seconds[p] = all / UNTIL_PARTS;
    const struct sonde_estimate mean = sonde_estimate_ratio(y, x, run, UNTIL_PARTS, 0);
    const struct sonde_estimate rate = sonde_estimate_ratio(x, seconds, run, UNTIL_PARTS, 0);
    const double a = sonde_t_quantile(0.975, mean.df) * mean.se_high / mean.value;
    const double b = sonde_t_quantile(0.975, rate.df) * rate.se_high / rate.value;
    /* The rate of an open loop is given, not found. */
    return w->open || a > b ? a : b;
}

static double bench_watch_look(struct bench_watch *w)
{
    double width = NAN;
    sonde_lock(&w->lock);
    if (w->seen_count >= UNTIL_LEAST && w->seen_count >= w->looked + w->looked / 10) {
        w->looked = w->seen_count;
        width = bench_watch_width(w);
        if (width <= w->plan->until) w->narrow = 1;
    }
    sonde_unlock(&w->lock);
    return width;
}

static int bench_watch_progress(void *arg, uint64_t elapsed_ns, uint64_t sent, uint64_t done,
                                uint64_t failed)
{
    struct bench_watch *w = arg;
    const struct sonde_load_plan *p = w->plan;
    const double s = (double)elapsed_ns * 1e-9;
    double share = 0;
    char state[96];
    if (p->until > 0) bench_watch_look(w);
    if (p->requests) share = (double)done / (double)p->requests;
    if (w->limit_s > 0 && s / w->limit_s > share) share = s / w->limit_s;
    if (p->until > 0 && !p->requests && !(p->duration_s > 0)) share = 0;
    snprintf(state, sizeof(state), "%llu sent, %llu done, %llu failed", (unsigned long long)sent,
             (unsigned long long)done, (unsigned long long)failed);
    const int stop = p->progress ? p->progress(p->progress_arg, share < 1 ? share : 1, state) : 0;
    return stop || w->narrow;
}

/* ---- The run --------------------------------------------------------------------------------- */

static struct sonde_load_workload_options bench_workload(const struct sonde_load_plan *p,
                                                         const struct sonde_load_target *t,
                                                         struct sonde_load_arrival *arrival,
                                                         double seconds)
{
    return (struct sonde_load_workload_options){
        .api = t->api, .model = t->model[0] ? t->model : NULL, .stream = p->stream,
        .ignore_eos = t->ignore_eos, .plain = t->plain, .prompt = p->prompt, .output = p->output,
        .prefix_tokens = p->prefix_tokens, .prefix_count = p->prefix_count, .turns = p->turns,
        .chats_max = arrival ? 0 : p->concurrency ? p->concurrency : 1,
        .calibration = t->calibration, .trace = p->trace, .replay = p->replay, .speed = p->speed,
        .arrival = arrival,
        .requests_max = p->requests, .seed = p->seed,
        .duration_ns = arrival || p->replay ? (uint64_t)(seconds * 1e9) : 0,
    };
}

/* How long requests are sent; 0 = until the source ends. */
static double bench_seconds(const struct sonde_load_plan *p)
{
    const double stages = p->arrival.stage_count ? sonde_load_arrival_seconds(&p->arrival)
                                                 : INFINITY;
    if (p->duration_s > 0) return p->duration_s;
    if (p->replay) return 0;
    if (!isinf(stages)) return stages;
    if (p->until > 0) return SONDE_LOAD_UNTIL_MAX_S;
    return p->requests ? 0 : DURATION_DEFAULT_S;
}

/* Requests of which the bodies are worth making before the first is due. */
static uint64_t bench_ahead(const struct sonde_load_plan *p, double seconds)
{
    if (p->requests) return p->requests;
    if (p->replay) return p->trace->count;
    if (p->arrival.stage_count) {
        return (uint64_t)(1.2 * sonde_load_arrival_expected(&p->arrival, 0, seconds)) + 64;
    }
    return 4096; /* of a closed loop nobody knows; the rest is made as it goes */
}

static struct sonde_load_options bench_options(const struct sonde_load_plan *p,
                                               const struct sonde_load_target *t,
                                               struct bench_watch *watch, int open, double seconds)
{
    const double drain = p->drain_s > 0 ? p->drain_s : DRAIN_DEFAULT_S;
    return (struct sonde_load_options){
        .url = t->url, .trust = &p->trust, .headers = p->headers, .source = &watch->source,
        .open = open,
        .connections_max = open ? p->connections : p->concurrency ? p->concurrency : 1,
        .threads = p->threads, .duration_ns = (uint64_t)(seconds * 1e9),
        .drain_ns = (uint64_t)(drain * 1e9), .timeout_ns = (uint64_t)(p->timeout_s * 1e9),
        .first_timeout_ns = (uint64_t)(p->first_timeout_s * 1e9), .cancel_ratio = p->cancel_ratio,
        .seed = p->seed, .no_keep_alive = p->no_keep_alive, .spin = p->spin,
        .progress = bench_watch_progress, .progress_arg = watch,
    };
}

static int bench_figure(struct sonde_bench_result *r, const char *name, const char *quantile,
                        const char *unit, int better, const double v[3], const double *parts,
                        size_t part_count, uint64_t samples)
{
    char full[SONDE_BENCH_NAME_MAX + 1];
    snprintf(full, sizeof(full), "%s%s%s", name, quantile[0] ? "." : "", quantile);
    struct sonde_bench_figure *f = sonde_bench_figure_add(r, full, unit, better);
    if (!f) return SONDE_ENOMEM;
    f->value = v[0];
    f->low = v[1];
    f->high = v[2];
    f->samples = samples;
    for (size_t i = 0; i < part_count; i++) {
        if (isnan(parts[i])) return 0; /* not of all sub-windows: nothing to compare by */
    }
    return part_count > 1 ? sonde_bench_figure_parts(f, parts, part_count) : 0;
}

/* Percentiles of which there are too few values are figures too, without a value: a limit on one
 * is not kept (figure.h). */
static int bench_figures(const struct sonde_load_measures *m, struct sonde_bench_result *r)
{
    uint64_t all = 0;
    for (size_t i = 0; i < SONDE_LOAD_CANCELLED; i++) all += m->outcomes[i];
    const double bad = (double)(all - m->outcomes[SONDE_LOAD_OK]);
    const double errors[3] = { all ? bad / (double)all : NAN, NAN, NAN };
    int rc = bench_figure(r, "errors", "", "ratio", -1, errors, NULL, 0, all);
    for (int id = 0; id < SONDE_LOAD_RATE_COUNT && !rc; id++) {
        const struct sonde_load_rate *rate = &m->rates[id];
        const double v[3] = { rate->value, rate->low, rate->high };
        if (isnan(rate->value)) continue;
        rc = bench_figure(r, sonde_load_rate_name((enum sonde_load_rate_id)id), "", "1/s", 1, v,
                          rate->parts, rate->part_count, m->measured);
    }
    for (int id = 0; id < SONDE_LOAD_METRIC_COUNT && !rc; id++) {
        const struct sonde_load_metric *k = &m->metrics[id];
        const char *name = sonde_load_metric_name((enum sonde_load_metric_id)id);
        const double mean[3] = { k->mean, k->mean_low, k->mean_high };
        if (!k->count) continue;
        rc = bench_figure(r, name, "mean", "s", -1, mean, k->mean_parts, k->part_count, k->count);
        for (int q = 0; q < SONDE_LOAD_QUANTILE_COUNT && !rc; q++) {
            const double v[3] = { k->q[q].value, k->q[q].low, k->q[q].high };
            rc = bench_figure(r, name, sonde_load_quantile_name((enum sonde_load_quantile_id)q),
                              "s", -1, v, k->q[q].parts, k->part_count, k->count);
        }
    }
    return rc;
}

static int bench_measure(const struct sonde_load_plan *p, double seconds,
                         struct sonde_load_bench *b, struct sonde_bench_result *result)
{
    const struct sonde_load_measure_options o = {
        .open = b->open, .arrival = p->arrival.stage_count ? &p->arrival : NULL,
        .planned_s = b->open && !p->until && !p->requests && !p->replay ? seconds : 0,
        .warmup_s = p->warmup_s, .warmup_requests = p->warmup_requests,
        .unlevel = p->replay || (p->arrival.stage_count && !sonde_load_arrival_level(&p->arrival)),
        .slo = p->slo };
    int rc = sonde_load_measure(&b->load, &o, &b->measures);
    sonde_bench_result_end(result);
    if (!rc) rc = bench_figures(&b->measures, result);
    if (!rc) {
        rc = sonde_load_judge(&b->measures, &b->load, b->open, result, &b->remarks);
    }
    if (!rc && p->until > 0 && !b->narrow) {
        rc = sonde_bench_result_doubt(result, "intervals did not become as narrow as ±%g %%: run "
                                      "longer with --duration", 100 * p->until);
    }
    return rc;
}

int sonde_load_bench_run(const struct sonde_load_plan *p, const struct sonde_load_target *target,
                         struct sonde_load_bench *out, struct sonde_bench_result *result,
                         struct sonde_err *err)
{
    struct sonde_load_arrival arrival = p->arrival; /* stages are borrowed, its place is not */
    struct sonde_load_workload *workload = NULL;
    const int open = p->arrival.stage_count || p->replay;
    const double seconds = bench_seconds(p);
    struct bench_watch watch = { .source = { bench_watch_next, bench_watch_done }, .plan = p,
                                 .open = open, .limit_s = seconds };
    *out = (struct sonde_load_bench){ .target = *target, .open = open };
    result->seed = p->seed;
    const struct sonde_load_workload_options w =
        bench_workload(p, target, p->arrival.stage_count ? &arrival : NULL, seconds);
    int rc = sonde_load_workload_create(&w, &workload, err);
    if (rc) return rc;
    sonde_lock_init(&watch.lock, SONDE_RANK_WORKLOAD);
    watch.inner = sonde_load_workload_source(workload);
    rc = sonde_load_workload_prepare(workload, bench_ahead(p, seconds));
    if (rc) sonde_err_memory(err);
    if (!rc) {
        const struct sonde_load_options o = bench_options(p, target, &watch, open, seconds);
        rc = sonde_load_run(&o, &out->load, err);
        out->begin_unix_s = sonde_clock_s(CLOCK_REALTIME) -
                            (sonde_clock_s(CLOCK_MONOTONIC) - (double)out->load.begin_ns * 1e-9);
    }
    out->broken_turns = sonde_load_workload_broken(workload);
    out->narrow = watch.narrow;
    sonde_load_workload_destroy(workload);
    sonde_lock_destroy(&watch.lock);
    sonde__free(watch.seen);
    sonde__free(watch.ended_s);
    if (!rc && bench_measure(p, seconds, out, result)) rc = sonde_err_memory(err);
    if (rc) sonde_load_bench_release(out);
    return rc;
}

void sonde_load_bench_release(struct sonde_load_bench *b)
{
    sonde_load_result_release(&b->load);
}
