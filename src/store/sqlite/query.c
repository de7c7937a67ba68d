/* query.c - series over a time range.
 *
 * Of each run the tier whose points are just shorter than a step is read; where that has not been
 * made yet (the newest time) a finer one, where it was deleted already (the oldest) a coarser one.
 * What is not packed is read from memory.
 *
 * Memory is looked at before the disk: a block that is packed in between is then found in both,
 * which can be seen by its run and first tick, instead of in neither. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cmp.h"
#include "model/window.h"
#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

enum { SERIES_MAX = 1000, POINTS_MAX = 1000000 };

struct asking {
    struct sonde_store *s;
    const struct sonde_store_query *q;
    const struct sonde_store_sink *sink;
    struct sonde_err *err;
    int64_t from_ms, to_ms, step_ms;
    struct store_sources sources;
    struct store_reader *reader;
    const struct sonde_store_series *series; /* at hand */
    struct sonde_store_point *points;
    size_t count, cap, total;      /* total: of all series so far */
    size_t points_max;
    int64_t bucket;                /* of the last point */
    int any;                       /* of the series is in the range */
    struct sonde_store_point all;
    double scale, divisor;         /* of the series */
    struct store_query_merged { /* histograms of the last point, and of everything */
        uint64_t n[SONDE__HIST_BUCKETS];
        uint64_t zero, count;
        uint64_t octaves[2];       /* bits: which have anything */
    } step, whole;
    int error;
};

/* ---- Adding up ------------------------------------------------------------------------------- */

/* As sonde_family_value: dividing by 1e9 is right to the last bit. */
static void note_scale(struct asking *k, double scale)
{
    const double whole = scale > 0 ? nearbyint(1 / scale) : 0;
    k->scale = scale;
    k->divisor = scale < 1 && whole > 1 && fabs(whole * scale - 1) < 1e-12 ? whole : 0;
}

static double raw_value(const struct asking *k, double raw)
{
    return k->divisor > 0 ? raw / k->divisor : raw * k->scale;
}

static void store_query_quantiles(const struct store_query_merged *m, double scale,
                                  struct sonde_store_point *p)
{
    const uint64_t *octave[SONDE__HIST_OCTAVES] = { NULL };
    uint32_t first = UINT32_MAX, last = 0;
    p->min = p->max = p->p50 = p->p90 = p->p95 = p->p99 = NAN;
    if (!m->count) return;
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) {
        if (!(m->octaves[o / 64] >> o % 64 & 1)) continue;
        octave[o] = m->n + o * 64;
        for (uint32_t i = 0; i < 64; i++) {
            if (!octave[o][i]) continue;
            if (first == UINT32_MAX) first = o * 64 + i;
            last = o * 64 + i;
        }
    }
    p->min = m->zero ? 0 : sonde__hist_middle(first, scale);
    p->max = first == UINT32_MAX ? 0 : sonde__hist_middle(last, scale);
    p->p50 = sonde_quantile(0.50, m->zero, octave, scale);
    p->p90 = sonde_quantile(0.90, m->zero, octave, scale);
    p->p95 = sonde_quantile(0.95, m->zero, octave, scale);
    p->p99 = sonde_quantile(0.99, m->zero, octave, scale);
}

static void merged_reset(struct store_query_merged *m)
{
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) {
        if (m->octaves[o / 64] >> o % 64 & 1) memset(m->n + o * 64, 0, 64 * sizeof(m->n[0]));
    }
    m->octaves[0] = m->octaves[1] = m->zero = m->count = 0;
}

static void merged_add(struct store_query_merged *m, const struct store_in *p)
{
    const struct sonde_hist_column *h = p->hist;
    m->zero += h->zero[p->entry];
    m->count += h->zero[p->entry];
    for (uint32_t b = p->entry ? h->end[p->entry - 1] : 0; b < h->end[p->entry]; b++) {
        m->n[h->p[b]] += h->count[b];
        m->count += h->count[b];
        m->octaves[h->p[b] / 64 / 64] |= 1ull << h->p[b] / 64 % 64;
    }
}

static void point_begin(struct sonde_store_point *p, double time_s)
{
    *p = (struct sonde_store_point){ .time_s = time_s, .min = NAN, .max = NAN, .last = NAN,
                                     .p50 = NAN, .p90 = NAN, .p95 = NAN, .p99 = NAN };
}

/* NaN at first. */
static void least_and_greatest(struct sonde_store_point *p, double least, double greatest)
{
    if (!(p->min <= least)) p->min = least;
    if (!(p->max >= greatest)) p->max = greatest;
}

static void point_add(const struct asking *k, struct sonde_store_point *p,
                      const struct store_in *in)
{
    const struct sonde_store_series *s = k->series;
    p->seconds += in->seconds;
    if (s->type == SONDE_HISTOGRAM) {
        p->sum += raw_value(k, (double)(int64_t)in->hist->sum_raw[in->entry]);
        return;
    }
    if (isnan(in->sum)) return;
    p->count += in->count;
    if (s->type == SONDE_GAUGE) {
        p->sum += in->sum;
        least_and_greatest(p, in->min, in->max);
        p->last = in->last;
        return;
    }
    const double tick_s = in->count > 0 && in->seconds > 0 ? in->seconds / in->count : 1;
    p->sum += raw_value(k, in->sum);
    least_and_greatest(p, raw_value(k, in->min) / tick_s, raw_value(k, in->max) / tick_s);
    p->last = raw_value(k, in->last);
}

static void finish_point(struct asking *k)
{
    if (!k->count || k->series->type != SONDE_HISTOGRAM) return;
    k->points[k->count - 1].count = (double)k->step.count;
    store_query_quantiles(&k->step, k->scale, &k->points[k->count - 1]);
    merged_reset(&k->step);
}

static int new_point(struct asking *k, double time_s)
{
    if (k->total + k->count >= k->points_max) {
        return sonde_err_set(k->err, SONDE_EFULL, "more than %zu points: ask for a shorter time, "
                             "a longer step or fewer series", k->points_max);
    }
    if (SONDE_ARRAY_ROOM(k->points, k->count, k->cap)) {
        return sonde_err_set(k->err, SONDE_ENOMEM, "no memory for the answer");
    }
    finish_point(k);
    point_begin(&k->points[k->count++], time_s);
    return 0;
}

static void give_raw(struct asking *k, const struct store_in *in)
{
    struct sonde_store_raw p = { .time_ms = in->time_ms, .value = in->raw,
                                 .increase = in->increase };
    if (!in->is_tick) return;
    if (k->series->type == SONDE_HISTOGRAM) {
        const struct sonde_hist_column *h = in->hist;
        const uint32_t first = in->entry ? h->end[in->entry - 1] : 0;
        p.zero = h->zero[in->entry];
        p.sum_raw = h->sum_raw[in->entry];
        p.bucket_count = h->end[in->entry] - first;
        p.p = h->p + first;
        p.n = h->count + first;
    }
    if (k->sink->raw(k->series, &p, k->sink->arg) != 0) {
        k->error = sonde_err_set(k->err, SONDE_EFULL, "more than there is room for: ask for a "
                                 "shorter time or fewer series");
    }
}

/* A tick is of the time before it, and what is rolled up of the time after it. */
static int store_query_is_inside(const struct asking *k, const struct store_in *in)
{
    return in->is_tick ? in->time_ms > k->from_ms : in->time_ms < k->to_ms;
}

static void store_query_add_whole(struct asking *k, const struct store_in *in)
{
    if (!store_query_is_inside(k, in)) return;
    k->any = 1;
    point_add(k, &k->all, in);
    if (k->series->type == SONDE_HISTOGRAM) merged_add(&k->whole, in);
}

static void store_query_add_point(const struct store_in *in, void *arg)
{
    struct asking *k = arg;
    if (k->error) return;
    if (k->sink->raw) {
        give_raw(k, in);
        return;
    }
    if (k->q->whole) {
        store_query_add_whole(k, in);
        return;
    }
    const int64_t bucket = k->step_ms ? (in->time_ms - k->from_ms) / k->step_ms : in->time_ms;
    if (!k->count || bucket != k->bucket) {
        k->bucket = bucket;
        const int64_t time_ms = k->step_ms ? k->from_ms + bucket * k->step_ms : in->time_ms;
        k->error = new_point(k, (double)time_ms * 1e-3);
        if (k->error) return;
    }
    point_add(k, &k->points[k->count - 1], in);
    point_add(k, &k->all, in);
    if (k->series->type == SONDE_HISTOGRAM) {
        merged_add(&k->step, in);
        merged_add(&k->whole, in);
    }
}

/* ---- Which blocks ---------------------------------------------------------------------------- */

/* Blocks that are in memory are noted as they are now. */
static int note_block(struct asking *k, struct block *b)
{
    if (!b || !b->ticks) return 0;
    const int64_t from = b->time_ms[0], to = b->time_ms[b->ticks - 1];
    if (to < k->from_ms || from > k->to_ms) return 0;
    const struct store_source one = {
        .block = b, .run = b->run, .from_ms = from, .to_ms = to, .ticks = b->ticks,
        .interval_ms = block_interval_ms(b),
        .use_from_ms = k->from_ms, .use_to_ms = k->to_ms + 1,
    };
    if (!store_sources_add(&k->sources, &one)) return SONDE_ENOMEM;
    b->refs++;
    return 0;
}

static int note_memory(struct asking *k)
{
    struct sonde_store *s = k->s;
    int rc = 0;
    sonde_lock(&s->lock);
    for (struct block *b = s->sealing; b && !rc; b = b->next) rc = note_block(k, b);
    if (!rc) rc = note_block(k, s->open);
    sonde_unlock(&s->lock);
    return rc ? sonde_err_set(k->err, rc, "no memory to read the store") : 0;
}

/* From `from` on, those on disk: without those that were noted in memory. */
static void drop_doubles(struct asking *k, size_t from)
{
    size_t kept = from;
    for (size_t i = from; i < k->sources.count; i++) {
        int twice = 0;
        for (size_t m = 0; m < from && !k->sources.at[i].tier; m++) {
            twice |= k->sources.at[m].run == k->sources.at[i].run &&
                     k->sources.at[m].from_ms == k->sources.at[i].from_ms;
        }
        if (!twice) k->sources.at[kept++] = k->sources.at[i];
    }
    k->sources.count = kept;
}

/* Time of a run that tiers cover. */
struct cover { int64_t lo, hi; };

static void use_tier(struct asking *k, uint32_t run, uint32_t tier, int64_t from, int64_t to,
                     struct cover *cover)
{
    for (size_t i = 0; i < k->sources.count; i++) {
        struct store_source *b = &k->sources.at[i];
        if (b->run != run || b->tier != tier) continue;
        if (b->use_from_ms < from) b->use_from_ms = from;
        if (b->use_to_ms > to) b->use_to_ms = to;
        if (b->to_ms < from || b->from_ms >= to) continue;
        const int64_t lo = b->from_ms > from ? b->from_ms : from;
        const int64_t hi = b->to_ms + 1 < to ? b->to_ms + 1 : to;
        if (cover->lo >= cover->hi) {
            *cover = (struct cover){ lo, hi };
        } else {
            if (lo < cover->lo) cover->lo = lo;
            if (hi > cover->hi) cover->hi = hi;
        }
    }
}

static void choose_tiers(struct asking *k, uint32_t run)
{
    struct cover cover = { 0, 0 };
    uint32_t best = 0;
    while (best + 1 < STORE_TIERS && k->step_ms >= store_tier_ms[best + 1] &&
           k->step_ms % store_tier_ms[best + 1] == 0) {
        best++;
    }
    use_tier(k, run, best, INT64_MIN, INT64_MAX, &cover);
    for (uint32_t t = best; t-- > 0;) {
        const int64_t from = cover.lo < cover.hi ? cover.hi : INT64_MIN;
        use_tier(k, run, t, from, INT64_MAX, &cover);
    }
    for (uint32_t t = best + 1; t < STORE_TIERS; t++) {
        /* A bucket that reaches into what is covered would count twice. */
        const int64_t to = cover.lo < cover.hi ? cover.lo - store_tier_ms[t] + 1 : INT64_MAX;
        use_tier(k, run, t, INT64_MIN, to, &cover);
    }
}

static int store_query_by_time(const void *a, const void *b)
{
    const struct store_source *x = a, *y = b;
    const int64_t p = x->use_from_ms > x->from_ms ? x->use_from_ms : x->from_ms;
    const int64_t q = y->use_from_ms > y->from_ms ? y->use_from_ms : y->from_ms;
    return SONDE_CMP(p, q);
}

static int find_sources(struct asking *k)
{
    int rc = note_memory(k);
    const size_t memory = k->sources.count;
    if (!rc) {
        rc = store_sources_find(k->s, k->s->read, 0, -1, k->from_ms, k->to_ms, &k->sources, k->err);
    }
    if (rc) return rc;
    drop_doubles(k, memory);
    /* Each run once; a run's blocks need not be beside each other. */
    for (size_t i = 0; i < k->sources.count; i++) {
        size_t first = 0;
        while (k->sources.at[first].run != k->sources.at[i].run) first++;
        if (first == i) choose_tiers(k, k->sources.at[i].run);
    }
    size_t kept = 0;
    for (size_t i = 0; i < k->sources.count; i++) {
        struct store_source *b = &k->sources.at[i];
        const int used = b->use_from_ms < b->use_to_ms && b->to_ms >= b->use_from_ms &&
                         b->from_ms < b->use_to_ms;
        if (used || b->block) k->sources.at[kept++] = *b;
    }
    k->sources.count = kept;
    if (kept) qsort(k->sources.at, kept, sizeof(*k->sources.at), store_query_by_time);
    return 0;
}

static void release_sources(struct asking *k)
{
    sonde_lock(&k->s->lock);
    for (size_t i = 0; i < k->sources.count; i++) {
        if (k->sources.at[i].block) store_block_put(k->sources.at[i].block);
    }
    sonde_unlock(&k->s->lock);
    store_sources_release(&k->sources);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static int ask_series(struct asking *k, const struct sonde_store_series *series)
{
    k->series = series;
    note_scale(k, series->scale);
    k->count = 0;
    k->error = k->any = 0;
    point_begin(&k->all, (double)k->from_ms * 1e-3);
    merged_reset(&k->step);
    merged_reset(&k->whole);
    int rc = 0;
    for (size_t i = 0; i < k->sources.count && !rc && !k->error; i++) {
        rc = store_each(k->reader, &k->sources.at[i], series->id, series->type,
                        store_query_add_point, k);
    }
    if (!rc) rc = k->error;
    if (rc || !(k->count || k->any)) return rc;
    finish_point(k);
    if (series->type == SONDE_HISTOGRAM) {
        k->all.count = (double)k->whole.count;
        store_query_quantiles(&k->whole, k->scale, &k->all);
        if (k->sink->buckets) k->sink->buckets(k->whole.zero, k->whole.n, k->sink->arg);
    }
    k->total += k->count;
    k->sink->series(series, &k->all, k->points, k->count, k->sink->arg);
    return 1;
}

static int ask_all(struct asking *k)
{
    const size_t max = k->q->series_max ? k->q->series_max : SERIES_MAX;
    sqlite3_stmt *st = NULL;
    size_t shown = 0;
    if (!k->sources.count) return 0;
    if (sqlite3_prepare_v2(k->s->read, "SELECT " STORE_SERIES_COLUMNS " FROM series"
                           " ORDER BY name, labels, type, scale", -1, &st, NULL) != SQLITE_OK) {
        return store_failed(k->s, k->s->read, k->err);
    }
    int rc = 0, got = SQLITE_DONE;
    while (rc >= 0 && shown < max && (got = sqlite3_step(st)) == SQLITE_ROW) {
        struct sonde_store_series series;
        if (store_series_row(st, &series) || !store_series_passes(&series, k->q)) continue;
        rc = ask_series(k, &series);
        shown += rc == 1;
    }
    if (rc >= 0 && got != SQLITE_ROW && got != SQLITE_DONE) {
        rc = store_failed(k->s, k->s->read, k->err);
    }
    sqlite3_finalize(st);
    return rc < 0 ? rc : 0;
}

static int ask_gaps(struct asking *k)
{
    if (!k->sink->gap) return 0;
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(k->s->read, "SELECT from_ms, to_ms, reason FROM gaps WHERE to_ms >= ?1"
                           " AND from_ms <= ?2 ORDER BY from_ms", -1, &st, NULL) != SQLITE_OK) {
        return store_failed(k->s, k->s->read, k->err);
    }
    sqlite3_bind_int64(st, 1, k->from_ms);
    sqlite3_bind_int64(st, 2, k->to_ms);
    int got;
    while ((got = sqlite3_step(st)) == SQLITE_ROW) {
        const char *reason = (const char *)sqlite3_column_text(st, 2);
        k->sink->gap((double)sqlite3_column_int64(st, 0) * 1e-3,
                     (double)sqlite3_column_int64(st, 1) * 1e-3, reason ? reason : "",
                     k->sink->arg);
    }
    sqlite3_finalize(st);
    return got == SQLITE_DONE ? 0 : store_failed(k->s, k->s->read, k->err);
}

/* Another process may write it: what it has not packed is read anew, as of the same moment. */
static int store_query_read_head(struct asking *k)
{
    struct sonde_store *s = k->s;
    if (s->thread.started || s->db) return 0;
    sonde_lock(&s->lock);
    while (s->sealing) {
        struct block *b = s->sealing;
        s->sealing = b->next;
        store_block_put(b);
    }
    sonde_unlock(&s->lock);
    return store_recover(s, s->read, k->err);
}

int64_t store_milliseconds(double s)
{
    if (s < -9e12) return INT64_MIN / 4;
    return s < 9e12 ? (int64_t)floor(s * 1e3) : INT64_MAX / 4;
}

int store_query(struct sonde_store *s, const struct sonde_store_query *q,
                const struct sonde_store_sink *sink, struct sonde_err *err)
{
    struct asking *k = sonde__calloc(1, sizeof(*k));
    if (!k) return sonde_err_set(err, SONDE_ENOMEM, "no memory to read the store");
    k->s = s;
    k->q = q;
    k->sink = sink;
    k->err = err;
    k->from_ms = store_milliseconds(q->from_s);
    k->to_ms = q->to_s > 0 ? store_milliseconds(q->to_s) : store_now_ms() + 60000;
    k->step_ms = q->step_s > 0 ? store_milliseconds(q->step_s) : 0;
    if (q->step_s > 0 && !k->step_ms) k->step_ms = 1;
    if (k->step_ms && !q->whole) k->from_ms -= k->from_ms % k->step_ms;
    k->points_max = q->points_max ? q->points_max : POINTS_MAX;
    sonde_lock(&s->read_lock);
    int rc = s->read ? 0 : sonde_err_set(err, SONDE_EIO, "store '%s' is being replaced", s->path);
    if (!rc && sqlite3_exec(s->read, "BEGIN", NULL, NULL, NULL)) rc = store_failed(s, s->read, err);
    if (!rc) rc = store_query_read_head(k);
    if (!rc) rc = find_sources(k);
    if (!rc) rc = store_reader_create(s, s->read, err, &k->reader);
    if (!rc) rc = ask_all(k);
    if (!rc) rc = ask_gaps(k);
    store_reader_destroy(k->reader);
    if (s->read && !sqlite3_get_autocommit(s->read)) {
        sqlite3_exec(s->read, "COMMIT", NULL, NULL, NULL);
    }
    sonde_unlock(&s->read_lock);
    release_sources(k);
    sonde__free(k->points);
    sonde__free(k);
    return rc;
}
