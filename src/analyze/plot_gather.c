/* plot_gather.c - see plot_gather.h: requests, spans, histograms and series over time. */
#include "analyze/plot_gather.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "profile/final.h"
#include "profile/infer.h"
#include "profile/profile.h"
#include "profile/track.h"
#include "segment/segment.h"

#define NANOSECONDS 1e-9

enum { GATHER_SPANS = 12 };   /* names of spans, those of most time */

struct plot_gather {
    const struct sonde_profile *p;
    const char *label;
    int several;              /* programs: groups say whose it is */
    struct sonde_plot_data *out;
};

static const char *gather_group(const struct plot_gather *g, const char *program)
{
    return g->label[0] ? g->label : g->several ? program : "";
}

/* More than one program has recorded something; the host and the agent are none. */
static int gather_several(const struct sonde_profile *p)
{
    const char *first = NULL;
    for (uint32_t i = 0; p->final && i < p->final->count; i++) {
        const char *program = p->final->series[i].program;
        if (first && strcmp(first, program) != 0) return 1;
        first = program;
    }
    for (uint32_t i = 0; p->tracks && i < p->tracks->count; i++) {
        const char *program = p->tracks->rows[i].program;
        if (!program[0]) continue;
        if (first && strcmp(first, program) != 0) return 1;
        first = program;
    }
    return 0;
}

/* The series of a role and name that this call has made, or a new one. first: where they begin. */
static struct sonde_plot_series *gather_series(struct sonde_plot_data *d, size_t first,
                                               enum sonde_plot_role role, const char *group,
                                               const char *name)
{
    for (size_t i = first; i < d->count; i++) {
        struct sonde_plot_series *s = &d->series[i];
        if (s->role == role && !strcmp(s->name, name) && !strcmp(s->group, group)) return s;
    }
    return sonde_plot_series_add(d, role, group, name);
}

/* ---- Requests -------------------------------------------------------------------------------- */

enum { GATHER_TTFT, GATHER_ITL, GATHER_TOTAL, GATHER_TIMES };

/* As reports count them (present/report/infer.c): NaN = it has none. */
static double gather_request_time(const struct sonde_infer_request *r, int which)
{
    const int well = r->outcome == SONDE_OK && !(r->flags & SONDE_INFER_INCOMPLETE);
    if (*r->invalid || r->outcome == SONDE_INFER_LOST) return NAN;
    if (which == GATHER_TTFT) return sonde_infer_has_ttft(r) ? r->ttft_s : NAN;
    if (which == GATHER_ITL) return r->itl_count ? r->itl_s : NAN;
    return well ? r->total_s : NAN;
}

static int gather_infer(const struct plot_gather *g)
{
    static const char *const names[GATHER_TIMES] = { "time to first token (TTFT)",
                                                     "time between tokens (ITL)",
                                                     "whole request (e2e)" };
    const struct sonde_infer_run *run = g->p->infer;
    int rc = 0;
    if (!run || !run->request_count) return 0;
    for (int which = 0; which < GATHER_TIMES && !rc; which++) {
        struct sonde_plot_series *s = sonde_plot_series_add(g->out, SONDE_ROLE_LATENCY, g->label,
                                                            names[which]);
        if (!s) return sonde_plot_data_full(g->out) ? 0 : SONDE_ENOMEM;
        for (uint32_t i = 0; i < run->request_count && !rc; i++) {
            const struct sonde_infer_request *r = &run->requests[i];
            const double y = gather_request_time(r, which);
            if (isnan(y)) continue;
            rc = sonde_plot_xy_add(g->out, s, (double)r->arrived_ns * NANOSECONDS, y);
        }
    }
    for (size_t k = 0; k < SONDE_PHASE_COUNT && !rc; k++) {
        double sum = 0;
        uint64_t count = 0;
        for (uint32_t i = 0; i < run->request_count; i++) {
            if (*run->requests[i].invalid) continue;
            sum += run->requests[i].phase_s[k];
            count += run->requests[i].phase_count[k];
        }
        if (!count) continue;
        char group[SONDE_PLOT_NAME_MAX];
        snprintf(group, sizeof(group), "requests%s%s", g->label[0] ? " of " : "", g->label);
        struct sonde_plot_series *s = sonde_plot_series_add(g->out, SONDE_ROLE_PHASE, group,
                                                            sonde_phase_title(k));
        if (!s) return sonde_plot_data_full(g->out) ? 0 : SONDE_ENOMEM;
        rc = sonde_plot_xy_add(g->out, s, NAN, sum);
    }
    return rc;
}

/* ---- Histograms and totals at the end -------------------------------------------------------- */

/* What a histogram is called where no name of its own is better: "tokenizer_encode llama
 * 65-256". */
static void gather_hist_name(const struct sonde_final_series *f, char out[SONDE_PLOT_NAME_MAX])
{
    const char *family = f->family;
    if (!strcmp(family, "sonde_operation_duration_seconds")) {
        snprintf(out, SONDE_PLOT_NAME_MAX, "%s", f->subject);
        return;
    }
    if (!strncmp(family, "sonde_", 6)) family += 6;
    size_t len = strlen(family);
    if (len > 8 && !strcmp(family + len - 8, "_seconds")) len -= 8;
    /* Batch sizes are told apart by a picture of their own. */
    const char *detail = strcmp(f->family, "sonde_ml_inference_seconds") ? f->detail : "";
    snprintf(out, SONDE_PLOT_NAME_MAX, "%.*s %.40s%s%.40s", (int)(len < 40 ? len : 40), family,
             f->subject, *detail ? " " : "", detail);
}

/* Values that were counted in buckets, as reports say them. x: of all of them; may be NaN. */
static int gather_buckets(const struct plot_gather *g, const struct sonde_final_series *f, double x,
                          struct sonde_plot_series *s)
{
    struct sonde_plot_value v = { .x = x, .y = 0, .low = NAN, .high = NAN,
                                  .weight = (double)f->zero };
    int rc = f->zero ? sonde_plot_value_add(g->out, s, &v) : 0;
    for (uint32_t i = 0; i < f->bucket_count && !rc; i++) {
        v.y = sonde__hist_middle(f->buckets[i].p, NANOSECONDS);
        v.weight = (double)f->buckets[i].n;
        rc = sonde_plot_value_add(g->out, s, &v);
    }
    s->sum = (isnan(s->sum) ? 0 : s->sum) + f->value;
    return rc;
}

static int gather_batch(const struct plot_gather *g, const struct sonde_final_series *f)
{
    char *end;
    const double size = strtod(f->detail, &end);
    if (*end || !(size > 0)) return 0; /* not a number: it has no place on the axis */
    struct sonde_plot_series *s = sonde_plot_series_add(g->out, SONDE_ROLE_BATCH,
                                                        gather_group(g, f->program), f->subject);
    if (!s) return sonde_plot_data_full(g->out) ? 0 : SONDE_ENOMEM;
    return gather_buckets(g, f, size, s);
}

static int gather_hist(const struct plot_gather *g, size_t first,
                       const struct sonde_final_series *f)
{
    char name[SONDE_PLOT_NAME_MAX];
    if (!strcmp(f->family, "sonde_ml_inference_seconds")) {
        const int rc = gather_batch(g, f);
        if (rc) return rc;
    }
    const char *group = gather_group(g, f->program);
    const int load = !strcmp(f->family, "sonde_ml_dataset_load_seconds");
    gather_hist_name(f, name);
    struct sonde_plot_series *s =
        load ? gather_series(g->out, first, SONDE_ROLE_LOAD, group, f->subject)
             : gather_series(g->out, first, SONDE_ROLE_LATENCY, group, name);
    if (!s) return sonde_plot_data_full(g->out) ? 0 : SONDE_ENOMEM;
    return gather_buckets(g, f, NAN, s);
}

static int gather_total(const struct plot_gather *g, size_t first,
                        const struct sonde_final_series *f)
{
    static const struct { const char *family, *detail, *before; enum sonde_plot_role role; }
        totals[] = {
            { "sonde_cache_accesses_total", "hit", "", SONDE_ROLE_HITS },
            { "sonde_cache_accesses_total", "miss", "", SONDE_ROLE_MISSES },
            { "sonde_tokenizer_cache_accesses_total", "hit", "tokenizer ", SONDE_ROLE_HITS },
            { "sonde_tokenizer_cache_accesses_total", "miss", "tokenizer ", SONDE_ROLE_MISSES },
            { "sonde_ml_dataset_bytes_total", "", "", SONDE_ROLE_BYTES },
        };
    for (size_t i = 0; i < SONDE_COUNT(totals); i++) {
        char name[SONDE_PLOT_NAME_MAX];
        if (strcmp(f->family, totals[i].family) != 0) continue;
        if (totals[i].detail[0] && strcmp(f->detail, totals[i].detail) != 0) continue;
        snprintf(name, sizeof(name), "%s%.100s", totals[i].before, f->subject);
        struct sonde_plot_series *s = gather_series(g->out, first, totals[i].role,
                                                    gather_group(g, f->program), name);
        if (!s) return sonde_plot_data_full(g->out) ? 0 : SONDE_ENOMEM;
        return sonde_plot_xy_add(g->out, s, NAN, f->value);
    }
    return 0;
}

/* Operations before others: they are what people have named. What happened once comes last. */
static int gather_final_order(const struct sonde_final_series *f)
{
    if (!strcmp(f->family, "sonde_operation_duration_seconds")) return 0;
    return f->count == 1 ? 2 : 1;
}

static int gather_final(const struct plot_gather *g)
{
    const struct sonde_final *final = g->p->final;
    const size_t first = g->out->count;
    int rc = 0;
    for (int order = 0; final && order < 3; order++) {
        for (uint32_t i = 0; i < final->count && !rc; i++) {
            const struct sonde_final_series *f = &final->series[i];
            if (gather_final_order(f) != order) continue;
            if (f->count) rc = gather_hist(g, first, f);
            else rc = gather_total(g, first, f);
        }
    }
    return rc;
}

/* ---- Spans ----------------------------------------------------------------------------------- */

struct gather_span { uint32_t name; uint64_t count; double seconds; };

static int gather_span_by_time(const void *a, const void *b)
{
    const struct gather_span *x = a, *y = b;
    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

static double gather_span_seconds(const struct sonde_profile_span *s)
{
    return s->end_ns > s->start_ns ? (double)(s->end_ns - s->start_ns) * NANOSECONDS : 0;
}

/* Sums by name, most time first. Names are strings of the profile: its number is their place. */
static struct gather_span *gather_span_names(const struct sonde_profile *p, size_t *count)
{
    struct gather_span *names = sonde__calloc(p->strings_count, sizeof(*names));
    *count = 0;
    if (!names) return NULL;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        if (s->name >= p->strings_count) continue;
        names[s->name].name = s->name;
        names[s->name].count++;
        names[s->name].seconds += gather_span_seconds(s);
    }
    for (uint32_t i = 0; i < p->strings_count; i++) {
        if (names[i].count) names[(*count)++] = names[i];
    }
    qsort(names, *count, sizeof(*names), gather_span_by_time);
    return names;
}

static int gather_spans(const struct plot_gather *g)
{
    const struct sonde_profile *p = g->p;
    size_t count;
    int rc = 0;
    if (!p->spans_count) return 0;
    struct gather_span *names = gather_span_names(p, &count);
    if (!names) return SONDE_ENOMEM;
    for (size_t k = 0; k < count && k < GATHER_SPANS && !rc; k++) {
        char name[SONDE_PLOT_NAME_MAX];
        snprintf(name, sizeof(name), "%.100s" SONDE_PLOT_SPANS,
                 sonde_profile_str(p, names[k].name));
        struct sonde_plot_series *s = sonde_plot_series_add(
            g->out, SONDE_ROLE_LATENCY, g->label, name);
        if (!s) rc = sonde_plot_data_full(g->out) ? 0 : SONDE_ENOMEM;
        if (!s) break;
        for (uint32_t i = 0; i < p->spans_count && !rc; i++) {
            const struct sonde_profile_span *span = &p->spans[i];
            if (span->name != names[k].name) continue;
            const struct sonde_plot_value v = {
                .x = (double)span->start_ns * NANOSECONDS, .y = gather_span_seconds(span),
                .low = NAN, .high = NAN, .weight = 1, .failed = span->outcome != SONDE_OK };
            rc = sonde_plot_value_add(g->out, s, &v);
        }
    }
    sonde__free(names);
    return rc;
}

/* ---- Series over time ------------------------------------------------------------------------ */

/* Which tracks are drawn, and as what. key: the label whose value is the name's end; NULL = the
 * family says it all. only: what that label, or `only_key`, has to be. */
static const struct gather_track {
    const char *family, *panel, *key;
    const char *only_key, *only;
    enum sonde_plot_role role;
    const char *unit;
} gather_tracks[] = {
    { "sonde_infer_tokens_total", "tokens: ", "type", NULL, NULL, SONDE_ROLE_RATE, "1/s" },
    { "sonde_infer_requests_total", "requests: ", "outcome", NULL, NULL, SONDE_ROLE_RATE, "1/s" },
    { "sonde_operation_duration_seconds_count", "operations: ", "operation", NULL, NULL,
      SONDE_ROLE_RATE, "1/s" },
    { "sonde_throughput_items_total", "items: ", "scope", NULL, NULL, SONDE_ROLE_RATE, "1/s" },
    { "sonde_ml_samples_total", "samples trained: ", "model", NULL, NULL, SONDE_ROLE_RATE, "1/s" },
    { "sonde_ml_steps_total", "steps: ", "model", NULL, NULL, SONDE_ROLE_RATE, "1/s" },
    { "sonde_ml_inference_items_total", "items inferred: ", "model", NULL, NULL, SONDE_ROLE_RATE,
      "1/s" },
    { "sonde_bandwidth_bytes_total", "bytes: ", "direction", NULL, NULL, SONDE_ROLE_RATE,
      "bytes/s" },
    { "sonde_span_duration_seconds_count", "spans: ", "span", NULL, NULL, SONDE_ROLE_RATE, "1/s" },
    { "sonde_infer_memory_bytes", "", "kind", NULL, NULL, SONDE_ROLE_MEMORY, "bytes" },
    { "sonde_memory_pool_bytes", "pool ", "pool", NULL, NULL, SONDE_ROLE_MEMORY, "bytes" },
    { "sonde_process_resident_memory_bytes", "process: resident", NULL, NULL, NULL,
      SONDE_ROLE_MEMORY, "bytes" },
    { "sonde_process_swap_memory_bytes", "process: swapped", NULL, NULL, NULL, SONDE_ROLE_MEMORY,
      "bytes" },
    { "sonde_heap_live_bytes", "process: heap in use", NULL, NULL, NULL, SONDE_ROLE_MEMORY,
      "bytes" },
    { "sonde_cache_accesses_total", "", "tier", "result", "hit", SONDE_ROLE_HITS, "" },
    { "sonde_cache_accesses_total", "", "tier", "result", "miss", SONDE_ROLE_MISSES, "" },
};

/* The value of a label in `a="b",c="d"`; 0 = it is not there. */
static int gather_label(const char *labels, const char *key, char out[SONDE_PLOT_NAME_MAX])
{
    const size_t len = strlen(key);
    for (const char *at = labels; *at;) {
        const int its = !strncmp(at, key, len) && at[len] == '=' && at[len + 1] == '"';
        size_t n = 0;
        at = strchr(at, '"');
        if (!at) return 0;
        for (at++; *at && *at != '"'; at++) {
            if (*at == '\\' && at[1]) at++;
            if (n + 1 < SONDE_PLOT_NAME_MAX) out[n++] = *at;
        }
        out[n] = '\0';
        if (its) return 1;
        if (*at) at++;
        if (*at == ',') at++;
    }
    return 0;
}

static int gather_track_is(const struct gather_track *r, const struct sonde_track *t,
                           char name[SONDE_PLOT_NAME_MAX])
{
    char value[SONDE_PLOT_NAME_MAX] = "";
    if (strcmp(r->family, t->family) != 0) return 0;
    if (r->only_key && (!gather_label(t->labels, r->only_key, value) ||
                        strcmp(value, r->only) != 0)) return 0;
    value[0] = '\0';
    if (r->key && !gather_label(t->labels, r->key, value)) return 0;
    snprintf(name, SONDE_PLOT_NAME_MAX, "%s%.90s", r->panel, value);
    return 1;
}

/* The last tick of a recording is as short as it happens to be: what is counted in it says little
 * of a second. */
static int gather_tick_short(const struct sonde_tracks *all, uint32_t i)
{
    double longest = 0;
    for (uint32_t k = 0; k < all->tick_count; k++) longest = fmax(longest, all->ticks[k].length_s);
    return all->ticks[i].length_s < longest / 4;
}

/* Adds the values of a track to a series, tick by tick: labels that are not told apart add up. */
static int gather_track_add(const struct plot_gather *g, const struct sonde_track *t,
                            const struct gather_track *r, struct sonde_plot_series *s)
{
    const struct sonde_tracks *all = g->p->tracks;
    const int counted = r->role == SONDE_ROLE_HITS || r->role == SONDE_ROLE_MISSES;
    int rc = 0;
    for (uint32_t i = s->count ? all->tick_count : 0; i < all->tick_count && !rc; i++) {
        rc = sonde_plot_xy_add(g->out, s, all->ticks[i].end_s, NAN);
    }
    for (uint32_t i = 0; i < all->tick_count && i < s->count; i++) {
        const double v = (double)t->values[i] * (counted ? all->ticks[i].length_s : 1);
        double *y = &s->values[i].y;
        if (!t->gauge && !counted && gather_tick_short(all, i)) continue;
        if (!isnan(v)) *y = isnan(*y) ? v : *y + v;
    }
    return rc;
}

/* A counter of the program's own. */
static int gather_own_counter(const struct sonde_track *t, char name[SONDE_PLOT_NAME_MAX])
{
    const size_t len = strlen(t->family);
    if (t->gauge || !t->program[0] || len < 7 || strcmp(t->family + len - 6, "_total") != 0)
        return 0;
    if (!strncmp(t->family, "sonde_", 6) || !strncmp(t->family, "gen_ai_", 7)) return 0;
    snprintf(name, SONDE_PLOT_NAME_MAX, "counters: %.*s", (int)(len - 6 < 100 ? len - 6 : 100),
             t->family);
    return 1;
}

/* Nothing ever happened: it would be a line at 0. */
static void gather_drop_idle(struct sonde_plot_data *d, size_t first)
{
    size_t kept = first;
    for (size_t i = first; i < d->count; i++) {
        struct sonde_plot_series *s = &d->series[i];
        double most = 0;
        for (size_t k = 0; k < s->count; k++) {
            if (isfinite(s->values[k].y)) most = fmax(most, fabs(s->values[k].y));
        }
        if (most > 0 || s->role == SONDE_ROLE_HITS || s->role == SONDE_ROLE_MISSES) {
            if (kept != i) d->series[kept] = *s;
            kept++;
        } else {
            d->values -= s->count;
            sonde__free(s->values);
        }
    }
    d->count = kept;
}

static int gather_over_time(const struct plot_gather *g)
{
    const struct sonde_tracks *all = g->p->tracks;
    const size_t first = g->out->count;
    int rc = 0;
    /* Row by row, so that panels come in the order of the table. */
    for (size_t k = 0; all && k <= SONDE_COUNT(gather_tracks) && !rc; k++) {
        static const struct gather_track own = { .role = SONDE_ROLE_RATE, .unit = "1/s" };
        const struct gather_track *r = k < SONDE_COUNT(gather_tracks) ? &gather_tracks[k] : &own;
        for (uint32_t i = 0; i < all->count && !rc; i++) {
            const struct sonde_track *t = &all->rows[i];
            char name[SONDE_PLOT_NAME_MAX];
            if (!(r == &own ? gather_own_counter(t, name) : gather_track_is(r, t, name))) continue;
            struct sonde_plot_series *s = gather_series(g->out, first, r->role,
                                                        gather_group(g, t->program), name);
            if (!s) return sonde_plot_data_full(g->out) ? 0 : SONDE_ENOMEM;
            s->unit = r->unit;
            rc = gather_track_add(g, t, r, s);
        }
    }
    gather_drop_idle(g->out, first);
    return rc;
}

/* ---- All of it ------------------------------------------------------------------------------- */

int sonde_plot_gather(const struct sonde_profile *p, const char *label, struct sonde_plot_data *out)
{
    const struct plot_gather g = {
        .p = p, .label = label, .several = gather_several(p), .out = out
    };
    int rc = gather_infer(&g);
    if (!rc) rc = gather_final(&g);
    if (!rc) rc = gather_spans(&g);
    if (!rc) rc = gather_over_time(&g);
    return rc ? rc : sonde_plot_gather_ml(p, label, out);
}
