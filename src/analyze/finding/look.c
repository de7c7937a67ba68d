/* look.c - what several rules need, worked out once: see rule.h. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "analyze/finding/rule.h"
#include "analyze/finding/waits.h"
#include "base/alloc.h"
#include "profile/track.h"
#include "sonde/sonde.h"

#define Z95 1.96

double finding_share_low(double k, double n)
{
    if (!(n > 0)) return 0;
    const double share = k / n, middle = share + Z95 * Z95 / (2 * n);
    const double half = Z95 * sqrt(share * (1 - share) / n + Z95 * Z95 / (4 * n * n));
    return fmax(0, (middle - half) / (1 + Z95 * Z95 / n));
}

double finding_share_high(double k, double n)
{
    return n > 0 ? 1 - finding_share_low(n - k, n) : 1;
}

/* ---- Functions ------------------------------------------------------------------------------- */

static int functions_init(const struct sonde_profile *p, enum sonde_sample_kind kind,
                          struct finding_functions *out)
{
    const struct sonde_profile_filter filter = { .kind = (int)kind };
    const struct sonde_tree_options whole_tree = { .by_module = 1 };
    if (!p->weights[kind]) return 0;
    int rc = sonde_tree_build(p, &filter, &whole_tree, &out->tree, NULL);
    if (rc) {
        out->tree = NULL;
        return rc == SONDE_ENOENT ? 0 : rc;
    }
    out->seconds = (double)out->tree->nodes[0].total * 1e-9;
    out->samples = out->tree->nodes[0].samples;
    return sonde_tree_flat(out->tree, &out->rows, &out->count);
}

static void functions_release(struct finding_functions *f)
{
    sonde__free(f->rows);
    sonde_tree_destroy(f->tree);
}

int finding_look_init(struct finding_look *l)
{
    const struct finding_series cpus = { .family = "sonde_host_cpus", .host = 1 };
    const struct sonde_profile *p = l->p;
    l->seconds = p->end_ns > p->start_ns ? (double)(p->end_ns - p->start_ns) * 1e-9 : 0;
    l->cpus = finding_series_last(l, &cpus);
    const int rc = functions_init(p, SONDE_SAMPLE_CPU, &l->cpu);
    return rc ? rc : functions_init(p, SONDE_SAMPLE_OFFCPU, &l->off_cpu);
}

void finding_look_release(struct finding_look *l)
{
    functions_release(&l->cpu);
    functions_release(&l->off_cpu);
    finding_waits_destroy(l->waits);
}

/* ---- Series ---------------------------------------------------------------------------------- */

static int series_matches(const struct finding_series *s, const struct sonde_track *t)
{
    if (strcmp(t->family, s->family) != 0 || (s->host ? t->pid != 0 : t->pid == 0)) return 0;
    if (!s->host && s->pid && s->pid != t->pid) return 0;
    return !s->label || strstr(t->labels, s->label) != NULL;
}

/* The sum of those that match in a tick; NaN = none is known then. */
static double series_at(const struct sonde_tracks *t, const struct finding_series *s, uint32_t tick)
{
    double sum = NAN;
    for (uint32_t i = 0; i < t->count; i++) {
        const double v = series_matches(s, &t->rows[i]) ? t->rows[i].values[tick] : NAN;
        if (!isnan(v)) sum = isnan(sum) ? v : sum + v;
    }
    return sum;
}

double finding_series_mean(const struct finding_look *l, const struct finding_series *s,
                           double *known_s)
{
    const struct sonde_tracks *t = l->p->tracks;
    double sum = 0, length = 0;
    for (uint32_t k = 0; t && k < t->tick_count; k++) {
        const double v = series_at(t, s, k);
        if (isnan(v)) continue;
        sum += v * t->ticks[k].length_s;
        length += t->ticks[k].length_s;
    }
    if (known_s) *known_s = length;
    return length > 0 ? sum / length : NAN;
}

double finding_series_max(const struct finding_look *l, const struct finding_series *s)
{
    const struct sonde_tracks *t = l->p->tracks;
    double most = NAN;
    for (uint32_t k = 0; t && k < t->tick_count; k++) most = fmax(most, series_at(t, s, k));
    return most;
}

double finding_series_last(const struct finding_look *l, const struct finding_series *s)
{
    const struct sonde_tracks *t = l->p->tracks;
    double last = NAN;
    for (uint32_t k = 0; t && k < t->tick_count; k++) {
        const double v = series_at(t, s, k);
        if (!isnan(v)) last = v;
    }
    return last;
}

void finding_prove_series(struct finding_look *l, struct sonde_finding *f,
                          const struct finding_series *s, const char *unit, const char *what)
{
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_SERIES, .subject = (char *)(uintptr_t)s->family,
        .labels = (char *)(uintptr_t)s->label, .value = finding_series_mean(l, s, NULL),
        .unit = unit, .what = what });
}
