/* health.c - see health.h. */
#include "analyze/health.h"

#include <math.h>
#include <string.h>

#include "model/window.h"
#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

#define REQUEST_SECONDS "gen_ai_server_request_duration_seconds"
#define REQUESTS "sonde_infer_requests_total"
#define SPAN_SECONDS "sonde_span_duration_seconds"
#define FRONT_REQUESTS "sonde_front_requests_total"
#define FRONT_ERRORS "sonde_front_errors_total"
#define FRONT_THERE "sonde_front_in_flight"
#define GPU_RATIO "sonde_gpu_utilization_ratio"

static const struct sonde_model_family *health_family_of(const struct sonde_model *m,
                                                         const char *name)
{
    for (size_t i = 0; i < m->family_count; i++) {
        if (strcmp(m->families[i]->name, name) == 0) return m->families[i];
    }
    return NULL;
}

/* Ticks that the window reaches back. */
static uint32_t health_ticks_of(const struct sonde_model *m, const struct sonde_model_series *s,
                                double window_s)
{
    uint32_t age = 0;
    while (age < s->history_count && age < m->tick &&
           sonde_model_tick_end(m, age) > m->now_s - window_s) {
        age++;
    }
    return age;
}

static const char *health_label_of(const struct sonde_model_series *s, const char *name)
{
    for (size_t i = 0; i < s->label_count; i++) {
        if (strcmp(s->labels[i].name, name) == 0) return s->labels[i].value;
    }
    return "";
}

static int has_failed(const struct sonde_model_series *s)
{
    const char *outcome = health_label_of(s, "outcome");
    return *outcome && strcmp(outcome, "ok") != 0 && strcmp(outcome, "cancelled") != 0;
}

static int has_any(const struct sonde_model_series *s)
{
    (void)s;
    return 1;
}

/* Not those that a client broke off. */
static int is_upstreams(const struct sonde_model_series *s)
{
    return strncmp(health_label_of(s, "error"), "client_", 7) != 0;
}

struct health_merged { uint64_t n[SONDE__HIST_OCTAVES][64], zero; double count, failed; };

static void health_merge(const struct sonde_model *m, const struct sonde_model_family *f,
                         double window_s, struct health_merged *to)
{
    for (size_t k = 0; k < f->series_count; k++) {
        const struct sonde_model_series *s = f->series[k];
        if (!s->history_hist) continue;
        const uint32_t ticks = health_ticks_of(m, s, window_s);
        for (uint32_t age = 0; age < ticks; age++) {
            const struct sonde_hist_delta *d =
                &s->history_hist[(m->tick - 1 - age) % SONDE_HISTORY];
            to->zero += d->zero;
            to->count += (double)d->count;
            if (has_failed(s)) to->failed += (double)d->count;
            for (uint32_t b = 0; b < d->bucket_count; b++) {
                to->n[d->bucket[b].p / 64][d->bucket[b].p % 64] += d->bucket[b].n;
            }
        }
    }
}

static void health_latencies(const struct health_merged *g, struct sonde_health *out)
{
    const uint64_t *octave[SONDE__HIST_OCTAVES];
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) octave[o] = g->n[o];
    out->count = g->count;
    out->failed = g->failed;
    out->p50_s = sonde_quantile(0.50, g->zero, octave, 1e-9);
    out->p95_s = sonde_quantile(0.95, g->zero, octave, 1e-9);
}

/* How much those series of a counter grew in the window. */
static double health_grown(const struct sonde_model *m, const char *name, double window_s,
                           int (*which)(const struct sonde_model_series *s))
{
    const struct sonde_model_family *f = health_family_of(m, name);
    double n = 0;
    for (size_t k = 0; f && f->type == SONDE_COUNTER && k < f->series_count; k++) {
        const struct sonde_model_series *s = f->series[k];
        if (!s->history || !which(s)) continue;
        const uint32_t ticks = health_ticks_of(m, s, window_s);
        for (uint32_t age = 0; age < ticks; age++) {
            n += s->history[(m->tick - 1 - age) % SONDE_HISTORY];
        }
    }
    return n;
}

/* Of inference the outcomes are counted apart. */
static void health_outcomes(const struct sonde_model *m, double window_s, struct sonde_health *out)
{
    if (!health_family_of(m, REQUESTS)) return;
    out->count = health_grown(m, REQUESTS, window_s, has_any);
    out->failed = health_grown(m, REQUESTS, window_s, has_failed);
}

/* All series of a gauge: their sum, or mean; NaN without any. */
static double health_gauge_of(const struct sonde_model *m, const char *name, int mean)
{
    const struct sonde_model_family *f = health_family_of(m, name);
    double sum = 0, n = 0;
    for (size_t k = 0; f && f->type == SONDE_GAUGE && k < f->series_count; k++) {
        const struct sonde_model_series *s = f->series[k];
        if (isnan(s->gauge) || (s->process && s->process->state != SONDE_PROCESS_RUNNING)) continue;
        sum += s->gauge;
        n++;
    }
    return n > 0 ? sum / (mean ? n : 1) : NAN;
}

int sonde_health_measure(const struct sonde_model *m, double window_s, struct sonde_health *out)
{
    if (m->shared) sonde_assert_held(&m->lock);
    static const struct { const char *family, *source; } sources[] = {
        { REQUEST_SECONDS, "inference" }, { SPAN_SECONDS, "spans" },
    };
    *out = (struct sonde_health){ .p50_s = NAN, .p95_s = NAN };
    struct health_merged *g = sonde__calloc(1, sizeof(*g));
    if (!g) return SONDE_ENOMEM;
    for (size_t i = 0; i < SONDE_COUNT(sources) && !(g->count > 0); i++) {
        const struct sonde_model_family *f = health_family_of(m, sources[i].family);
        if (!f || f->type != SONDE_HISTOGRAM) continue;
        health_merge(m, f, window_s, g);
        if (!(g->count > 0)) continue;
        out->source = sources[i].source;
        health_latencies(g, out);
        if (i == 0) health_outcomes(m, window_s, out);
    }
    sonde__free(g);
    out->front_count = out->front_failed = NAN;
    if (health_family_of(m, FRONT_THERE)) {
        out->front_count = health_grown(m, FRONT_REQUESTS, window_s, has_any);
        out->front_failed = health_grown(m, FRONT_ERRORS, window_s, is_upstreams);
    }
    out->memory_total = health_gauge_of(m, "sonde_host_memory_total_bytes", 0);
    out->memory_available = health_gauge_of(m, "sonde_host_memory_available_bytes", 0);
    out->resident = health_gauge_of(m, "sonde_process_resident_memory_bytes", 0);
    out->gpu_ratio = health_gauge_of(m, GPU_RATIO, 1);
    return 0;
}
