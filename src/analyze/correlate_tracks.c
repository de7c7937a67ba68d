/* correlate_tracks.c - see correlate_tracks.h. */
#include "analyze/correlate_tracks.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "model/model.h"
#include "sonde/sonde.h"

enum { NAME_MAX_TEXT = 2048 };

/* What counts as throughput; the first of which there is something is the target. */
static const char *const throughputs[] = {
    "sonde_infer_tokens_total{*\"output\"*",
    "*generation_tokens_total",
    "sonde_infer_requests_total",
    "sonde_front_requests_total",
    "*_requests_total",
    "sonde_throughput_items_total",
    "sonde_operation_duration_seconds_count",
    "sonde_span_duration_seconds_count",
};

/* What throughput may depend on. Single CPUs and threads are left out: there are many of them, and
 * the more pairs are looked at, the surer each must be. */
static const char resources[] =
    "sonde_process_cpu_*|sonde_process_resident_memory_bytes|sonde_process_swap_memory_bytes|"
    "sonde_process_page_faults_total|sonde_process_context_switches_total|sonde_process_io_*|"
    "sonde_process_storage_*|sonde_process_threads|sonde_process_thread_states|"
    "sonde_host_cpu_all_*|sonde_host_cpu_utilization_ratio|sonde_host_memory_available_bytes|"
    "sonde_host_memory_cached_bytes|sonde_host_memory_swap_free_bytes|sonde_host_disk_*|"
    "sonde_host_network_*_bytes_total|sonde_host_pressure_*|sonde_host_procs_*|"
    "sonde_infer_requests_waiting|sonde_infer_requests_running|sonde_infer_kv_*|"
    "sonde_infer_batch_*|sonde_infer_prefix_hit_ratio|sonde_infer_memory_bytes|"
    "sonde_front_in_flight|sonde_front_connections|sonde_memory_pool_*|sonde_device_*|"
    "sonde_gpu_*|sonde_heap_live_bytes|sonde_heap_allocated_bytes_total|sonde_cache_*|"
    "sonde_bandwidth_*|*queue*|*in_flight*";

static const char count_suffix[] = "_count", sum_suffix[] = "_sum";

static size_t tracks_stem(const char *name, const char *suffix)
{
    const size_t len = strlen(name), cut = strlen(suffix);
    return len > cut && !strcmp(name + len - cut, suffix) ? len - cut : 0;
}

/* ---- Which series ---------------------------------------------------------------------------- */

/* 1 = a glob matches its name, or name{labels} if it has a brace. */
static int tracks_matches(const char *globs, const struct sonde_track *t)
{
    char full[NAME_MAX_TEXT];
    if (!strchr(globs, '{')) return sonde_filter_glob(globs, t->family);
    snprintf(full, sizeof(full), "%s{%s}", t->family, t->labels);
    return sonde_filter_glob(globs, full) || sonde_filter_glob(globs, t->family);
}

static int tracks_moves(const struct sonde_track *t, uint32_t first, uint32_t points)
{
    for (uint32_t i = first; i < first + points; i++) {
        if (fabsf(t->values[i]) > 0) return 1;
    }
    return 0;
}

static const char *tracks_throughput(const struct sonde_tracks *t, uint32_t first, uint32_t points)
{
    for (size_t i = 0; i < SONDE_COUNT(throughputs); i++) {
        for (uint32_t k = 0; k < t->count; k++) {
            if (!t->rows[k].gauge && tracks_matches(throughputs[i], &t->rows[k]) &&
                tracks_moves(&t->rows[k], first, points)) {
                return throughputs[i];
            }
        }
    }
    return NULL;
}

/* The names in globs to out, without what is said of labels, and those of histograms. */
static void tracks_names_put(const char *globs, struct sonde_buf *out)
{
    for (const char *at = globs; *at;) {
        const size_t len = strcspn(at, "|");
        size_t name = strcspn(at, "{|");
        char one[NAME_MAX_TEXT];
        if (name > len) name = len;
        snprintf(one, sizeof(one), "%.*s", (int)name, at);
        sonde_buf_printf(out, "%s%s", out->len ? "|" : "", one);
        const char *const suffixes[] = { count_suffix, sum_suffix };
        for (size_t i = 0; i < SONDE_COUNT(suffixes); i++) {
            const size_t stem = tracks_stem(one, suffixes[i]);
            if (stem) sonde_buf_printf(out, "|%.*s", (int)stem, one);
        }
        at += len + (at[len] == '|');
    }
}

void sonde_correlate_names(const struct sonde_correlate_query *q, struct sonde_buf *out)
{
    if (q->target) tracks_names_put(q->target, out);
    for (size_t i = 0; !q->target && i < SONDE_COUNT(throughputs); i++) {
        tracks_names_put(throughputs[i], out);
    }
    tracks_names_put(q->with ? q->with : resources, out);
}

/* ---- Targets --------------------------------------------------------------------------------- */

struct tracks_build {
    const struct sonde_tracks *tracks;
    const char *target, *with;
    uint32_t first, points;
    struct sonde_correlate_series *targets, *others;
    size_t target_count, target_cap, other_count, other_cap;
};

static double *tracks_series_add(struct sonde_correlate_series **rows, size_t *count, size_t *cap,
                                 const struct sonde_track *t, const char *figure, uint32_t points)
{
    double *values = sonde__alloc((points + 1) * sizeof(*values));
    if (!values || SONDE_ARRAY_ROOM(*rows, *count, *cap)) {
        sonde__free(values);
        return NULL;
    }
    (*rows)[(*count)++] = (struct sonde_correlate_series){
        .name = t->family, .labels = t->labels, .program = t->program, .pid = t->pid,
        .figure = figure, .values = values,
    };
    for (uint32_t i = 0; i < points; i++) values[i] = NAN;
    return values;
}

/* A part that is not there yet, or not any more, has added nothing. */
static void tracks_add_up(double *values, const struct sonde_track *t, uint32_t first,
                          uint32_t points)
{
    for (uint32_t i = 0; i < points; i++) {
        const double v = t->values[first + i];
        if (!isnan(v)) values[i] = isnan(values[i]) ? v : values[i] + v;
    }
}

/* The target to which t is added; NULL = it is one of its own. */
static struct sonde_correlate_series *tracks_target_find(const struct tracks_build *b,
                                                         const struct sonde_track *t)
{
    if (t->gauge || strchr(b->target, '{')) return NULL;
    for (size_t i = 0; i < b->target_count; i++) {
        if (!strcmp(b->targets[i].name, t->family) && !strcmp(b->targets[i].program, t->program)) {
            return &b->targets[i];
        }
    }
    return NULL;
}

static int tracks_target_add(struct tracks_build *b, const struct sonde_track *t)
{
    struct sonde_correlate_series *known = tracks_target_find(b, t);
    /* They are ours: values are const for who correlates. */
    double *values = known ? (double *)(uintptr_t)known->values
                           : tracks_series_add(&b->targets, &b->target_count, &b->target_cap, t,
                                               t->gauge ? "value" : "rate", b->points);
    if (!values) return SONDE_ENOMEM;
    if (!t->gauge && !strchr(b->target, '{')) {
        struct sonde_correlate_series *s = known ? known : &b->targets[b->target_count - 1];
        if (known && s->pid != t->pid) s->pid = 0; /* of several processes */
        s->labels = "";
    }
    tracks_add_up(values, t, b->first, b->points);
    return 0;
}

/* ---- What they are held against -------------------------------------------------------------- */

static const struct sonde_track *tracks_count_of(const struct tracks_build *b,
                                                 const struct sonde_track *sum, size_t stem)
{
    for (uint32_t i = 0; i < b->tracks->count; i++) {
        const struct sonde_track *t = &b->tracks->rows[i];
        if (t->pid == sum->pid && !strncmp(t->family, sum->family, stem) &&
            !strcmp(t->family + stem, count_suffix) && !strcmp(t->labels, sum->labels) &&
            !strcmp(t->program, sum->program)) {
            return t;
        }
    }
    return NULL;
}

/* The sum of a histogram by its count is the mean of each step; a step without a value has none. */
static int tracks_other_add(struct tracks_build *b, const struct sonde_track *t)
{
    const size_t stem = t->gauge ? 0 : tracks_stem(t->family, sum_suffix);
    const struct sonde_track *count = stem ? tracks_count_of(b, t, stem) : NULL;
    double *values = tracks_series_add(&b->others, &b->other_count, &b->other_cap, t,
                                       count ? "mean" : t->gauge ? "value" : "rate", b->points);
    if (!values) return SONDE_ENOMEM;
    tracks_add_up(values, t, b->first, b->points);
    for (uint32_t i = 0; count && i < b->points; i++) {
        const double n = count->values[b->first + i];
        values[i] = n > 0 ? values[i] / n : NAN;
    }
    return 0;
}

static int tracks_is_target(const struct tracks_build *b, const struct sonde_track *t)
{
    return tracks_matches(b->target, t);
}

/* By default the count of a histogram is not a resource, but its mean is. */
static int tracks_is_other(const struct tracks_build *b, const struct sonde_track *t)
{
    if (tracks_is_target(b, t)) return 0;
    if (b->with) return tracks_matches(b->with, t);
    return (t->gauge || !tracks_stem(t->family, count_suffix)) && tracks_matches(resources, t);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void tracks_series_free(struct sonde_correlate_series *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) sonde__free((double *)(uintptr_t)rows[i].values);
    sonde__free(rows);
}

struct tracks_busy { double variation; size_t at; };

static int tracks_by_variation(const void *a, const void *b)
{
    const struct tracks_busy *x = a, *y = b;
    if (x->variation != y->variation) return SONDE_CMP(y->variation, x->variation);
    return SONDE_CMP(x->at, y->at);
}

/* Of too many targets those that change most, relative to what they are. */
static int tracks_targets_cut(struct tracks_build *b, size_t *left_out)
{
    *left_out = 0;
    if (b->target_count <= SONDE_CORRELATE_TARGETS_MAX) return 0;
    struct tracks_busy *busy = sonde__calloc(b->target_count, sizeof(*busy));
    struct sonde_correlate_series *kept = sonde__calloc(b->target_count, sizeof(*kept));
    if (!busy || !kept) {
        sonde__free(busy);
        sonde__free(kept);
        return SONDE_ENOMEM;
    }
    for (size_t i = 0; i < b->target_count; i++) {
        const double *v = b->targets[i].values;
        double moved = 0, size = 0;
        for (uint32_t k = 1; k < b->points; k++) {
            if (isnan(v[k]) || isnan(v[k - 1])) continue;
            moved += fabs(v[k] - v[k - 1]);
            size += fabs(v[k]);
        }
        busy[i] = (struct tracks_busy){ size > 0 ? moved / size : 0, i };
    }
    qsort(busy, b->target_count, sizeof(*busy), tracks_by_variation);
    for (size_t i = 0; i < b->target_count; i++) kept[i] = b->targets[busy[i].at];
    *left_out = b->target_count - SONDE_CORRELATE_TARGETS_MAX;
    for (size_t i = SONDE_CORRELATE_TARGETS_MAX; i < b->target_count; i++) {
        sonde__free((double *)(uintptr_t)kept[i].values);
    }
    sonde__free(b->targets);
    sonde__free(busy);
    b->targets = kept;
    b->target_count = SONDE_CORRELATE_TARGETS_MAX;
    return 0;
}

static int tracks_choose(struct tracks_build *b)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < b->tracks->count; i++) {
        const struct sonde_track *t = &b->tracks->rows[i];
        if (tracks_is_target(b, t)) rc = tracks_target_add(b, t);
        else if (tracks_is_other(b, t)) rc = tracks_other_add(b, t);
    }
    return rc;
}

static void tracks_range(const struct sonde_tracks *t, const struct sonde_correlate_query *q,
                         struct tracks_build *b)
{
    uint32_t end = t ? t->tick_count : 0;
    while (b->first < end && t->ticks[b->first].end_s < q->from_s) b->first++;
    while (end > b->first && q->to_s > 0 && t->ticks[end - 1].end_s > q->to_s) end--;
    b->points = end - b->first;
}

static int tracks_missing(const struct tracks_build *b, const struct sonde_correlate_query *q,
                          struct sonde_err *err)
{
    if (!b->points) return sonde_err_set(err, SONDE_ENOENT, "no series were recorded in that time");
    if (!b->target) {
        return sonde_err_set(err, SONDE_ENOENT, "nothing that counts tokens, requests or items was "
                             "recorded in that time: name the series to explain as target");
    }
    if (!b->target_count) {
        return sonde_err_set(err, SONDE_ENOENT, "no series of that time matches the target "
                             "'%.200s'", b->target);
    }
    return sonde_err_set(err, SONDE_ENOENT, "no series of that time is there to compare the target "
                         "with%s%.200s%s", q->with ? ": none matches '" : "",
                         q->with ? q->with : "", q->with ? "'" : "");
}

static int tracks_correlate(struct tracks_build *b, const struct sonde_correlate_query *q,
                            struct sonde_correlate_answer *a)
{
    const struct sonde_track_tick *ticks = b->tracks->ticks + b->first;
    a->from_s = ticks[0].end_s - ticks[0].length_s;
    a->to_s = ticks[b->points - 1].end_s;
    a->step_s = (a->to_s - a->from_s) / b->points;
    const double lag = a->step_s > 0 ? q->lag_s / a->step_s : 0;
    const struct sonde_correlate_options o = {
        .rows_max = q->limit,
        .lag_max = q->lag_s > 0 ? lag < 1 ? 1 : lag < 4096 ? (uint32_t)lag : 4096 : 0,
    };
    a->targets = b->targets;
    a->others = b->others;
    a->target_count = b->target_count;
    a->other_count = b->other_count;
    return sonde_correlate(b->targets, b->target_count, b->others, b->other_count, b->points, &o,
                           &a->found);
}

int sonde_correlate_tracks(const struct sonde_tracks *tracks, const struct sonde_correlate_query *q,
                           struct sonde_correlate_answer *out, struct sonde_err *err)
{
    struct tracks_build b = { .tracks = tracks, .target = q->target, .with = q->with };
    struct sonde_correlate_answer a = { .targets = NULL };
    tracks_range(tracks, q, &b);
    if (b.points && !b.target) b.target = tracks_throughput(tracks, b.first, b.points);
    if (!b.points || !b.target) return tracks_missing(&b, q, err);
    int rc = tracks_choose(&b);
    if (!rc && (!b.target_count || !b.other_count)) rc = tracks_missing(&b, q, err);
    else if (!rc) rc = tracks_targets_cut(&b, &a.targets_left_out);
    if (!rc) rc = tracks_correlate(&b, q, &a);
    if (rc) {
        tracks_series_free(b.targets, b.target_count);
        tracks_series_free(b.others, b.other_count);
        return rc == SONDE_ENOENT ? rc : sonde_err_set(err, rc, "no memory to correlate series");
    }
    *out = a;
    return 0;
}

void sonde_correlate_answer_release(struct sonde_correlate_answer *a)
{
    tracks_series_free(a->targets, a->target_count);
    tracks_series_free(a->others, a->other_count);
    sonde_correlations_release(&a->found);
    *a = (struct sonde_correlate_answer){ .targets = NULL };
}
