/* history.c - see history.h. */
#include "store/history.h"

#include <assert.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/log.h"
#include "profile/compact.h"
#include "sonde/sonde.h"
#include "store/run/run.h"

#define KIND "continuous"
#define KIND_HEAP "continuous-heap"
#define PART_BYTES_MAX ((size_t)256 << 20)  /* of one in memory, and of a file */
#define MERGED_BYTES_MAX ((size_t)512 << 20)
#define BYTES_DEFAULT ((uint64_t)256 << 20)
#define MINUTES_DEFAULT_S 7200
#define HOURS_DEFAULT_S (48 * 3600)
#define AGAIN_S 3600
enum { PARTS_MAX = 100000 /* that are looked at */, TRIES = 5 };

const char *const sonde_history_tier_names[SONDE_HISTORY_TIERS] = { "minute", "hour", "day",
                                                                    "heap" };

static const struct {
    const char *name;
    double part_s, step_s;
} tiers[SONDE_HISTORY_TIERS] = {
    [SONDE_HISTORY_MINUTE] = { "continuous-minute", 60, 0 },
    [SONDE_HISTORY_HOUR] = { "continuous-hour", 3600, 300 },
    [SONDE_HISTORY_DAY] = { "continuous-day", 86400, 3600 },
    [SONDE_HISTORY_HEAP] = { KIND_HEAP, 0, 0 },
};

double sonde_history_step_s(enum sonde_history_tier tier) { return tiers[tier].step_s; }

/* ---- Which parts there are ------------------------------------------------------------------- */

struct history_parts {
    struct sonde_history_part *at;   /* programs are owned */
    size_t count, cap;
    const struct sonde_history_query *q; /* NULL = all of every kind */
    int error;
};

static void parts_release(struct history_parts *all)
{
    for (size_t i = 0; i < all->count; i++) sonde__free((char *)(uintptr_t)all->at[i].program);
    sonde__free(all->at);
}

static int tier_of(const struct sonde_store_profile *p)
{
    if (strcmp(p->kind, KIND) != 0 && strcmp(p->kind, KIND_HEAP) != 0) return -1;
    for (int t = 0; t < SONDE_HISTORY_TIERS; t++) {
        if (!strcmp(p->name, tiers[t].name)) return t;
    }
    return -1;
}

static int is_asked_for(const struct sonde_history_query *q, const struct sonde_store_profile *p,
                        int tier)
{
    if (!q) return 1;
    if (q->heap != (tier == SONDE_HISTORY_HEAP)) return 0;
    if (p->end_s <= q->from_s && p->start_s < q->from_s) return 0;
    if (q->to_s > 0 && p->start_s >= q->to_s) return 0;
    return !q->program || fnmatch(q->program, p->program, 0) == 0;
}

static void add_part(const struct sonde_store_profile *p, void *arg)
{
    struct history_parts *all = arg;
    const int tier = tier_of(p);
    if (tier < 0 || all->error || !is_asked_for(all->q, p, tier)) return;
    const int full = SONDE_ARRAY_ROOM_MAX(all->at, all->count, all->cap, PARTS_MAX);
    char *program = full ? NULL : sonde__strdup(p->program);
    if (!program) {
        all->error = SONDE_ENOMEM;
        return;
    }
    all->at[all->count++] = (struct sonde_history_part){
        .id = p->id, .tier = (enum sonde_history_tier)tier, .program = program,
        .start_s = p->start_s, .end_s = p->end_s, .samples = p->samples, .bytes = p->bytes };
}

static int history_by_start(const void *a, const void *b)
{
    const struct sonde_history_part *x = a, *y = b;
    if (x->start_s != y->start_s) return SONDE_CMP(x->start_s, y->start_s);
    const int programs = strcmp(x->program, y->program);
    return programs ? programs : SONDE_CMP(x->id, y->id);
}

static int history_find_parts(const struct sonde_store_ops *ops, struct sonde_store *s,
                              const struct sonde_history_query *q, struct history_parts *out,
                              struct sonde_err *err)
{
    *out = (struct history_parts){ .q = q };
    int rc = ops->profiles(s, NULL, add_part, out, err);
    if (!rc && out->error) rc = sonde_err_set(err, out->error, "no memory to list profiles");
    if (rc) parts_release(out);
    else if (out->count) qsort(out->at, out->count, sizeof(out->at[0]), history_by_start);
    return rc;
}

int sonde_history_each(const struct sonde_store_ops *ops, struct sonde_store *s,
                       const struct sonde_history_query *q,
                       void (*row)(const struct sonde_history_part *part, void *arg), void *arg,
                       struct sonde_err *err)
{
    struct history_parts all;
    const int rc = history_find_parts(ops, s, q, &all, err);
    if (rc) return rc;
    for (size_t i = 0; i < all.count; i++) row(&all.at[i], arg);
    parts_release(&all);
    return 0;
}

/* ---- In and out ------------------------------------------------------------------------------ */

static uint64_t events_of(const struct sonde_profile *p)
{
    uint64_t events = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) events += p->samples[i].count;
    return events;
}

static int history_replace(struct sonde_history *h, enum sonde_history_tier tier,
                           const struct sonde_profile *p, const uint64_t *old, size_t count,
                           uint64_t *id, struct sonde_err *err)
{
    assert((size_t)tier < SONDE_COUNT(tiers));
    const struct sonde_store_profile row = {
        .name = tiers[tier].name,
        .kind = tier == SONDE_HISTORY_HEAP ? KIND_HEAP : KIND,
        .program = sonde_profile_str(p, p->program),
        .start_s = (double)p->start_ns * 1e-9,
        .end_s = (double)p->end_ns * 1e-9,
        .samples = events_of(p),
    };
    struct sonde_buf data;
    sonde_buf_init(&data, PART_BYTES_MAX);
    int rc = sonde_run_save_bytes(p, &data, err);
    if (!rc) rc = h->ops->profile_replace(h->store, &row, data.data, data.len, old, count, id, err);
    sonde_buf_release(&data);
    return rc;
}

int sonde_history_put(struct sonde_history *h, enum sonde_history_tier tier,
                      const struct sonde_profile *p, uint64_t *id, struct sonde_err *err)
{
    const uint64_t old = *id;
    return history_replace(h, tier, p, &old, old != 0, id, err);
}

int sonde_history_get(const struct sonde_store_ops *ops, struct sonde_store *s, uint64_t id,
                      struct sonde_profile **out, struct sonde_err *err)
{
    struct sonde_buf data;
    sonde_buf_init(&data, PART_BYTES_MAX);
    int rc = ops->profile_get(s, id, &data, err);
    if (!rc) rc = sonde_run_load_bytes(data.data ? data.data : "", data.len, "a part", out, err);
    sonde_buf_release(&data);
    return rc;
}

/* ---- Merging what is old --------------------------------------------------------------------- */

/* Parts of one tier and program that become one. */
struct history_group {
    enum sonde_history_tier from, to;
    double start_s;
    const char *program;
};

static double history_bucket_of(double time_s, enum sonde_history_tier tier)
{
    return floor(time_s / tiers[tier].part_s) * tiers[tier].part_s;
}

static int history_is_in(const struct sonde_history_part *part, const struct history_group *g)
{
    return part->tier == g->from && history_bucket_of(part->start_s, g->to) == g->start_s &&
           !strcmp(part->program, g->program);
}

/* The first that is due: parts are in order, so it is the oldest. */
static int find_group(const struct sonde_history *h, const struct history_parts *all, double now_s,
                      struct history_group *out)
{
    const double keep_s[] = {
        [SONDE_HISTORY_MINUTE] = h->minutes_s > 0 ? h->minutes_s : MINUTES_DEFAULT_S,
        [SONDE_HISTORY_HOUR] = h->hours_s > 0 ? h->hours_s : HOURS_DEFAULT_S,
    };
    for (size_t i = 0; i < all->count; i++) {
        const struct sonde_history_part *part = &all->at[i];
        if (part->tier > SONDE_HISTORY_HOUR) continue;
        const enum sonde_history_tier to = part->tier + 1;
        const double start_s = history_bucket_of(part->start_s, to);
        if (start_s + tiers[to].part_s > now_s - keep_s[part->tier]) continue;
        if (start_s == h->failed_start_s && now_s < h->failed_until_s) continue;
        *out = (struct history_group){ part->tier, to, start_s, part->program };
        return 1;
    }
    return 0;
}

static uint64_t history_ns_of(double seconds) { return (uint64_t)(seconds * 1e9 + 0.5); }

/* One more into the whole, which is folded at once so that it stays small. */
static int merge_part(const struct sonde_history *h, const struct history_group *g, uint64_t id,
                      struct sonde_profile *whole, struct sonde_err *err)
{
    struct sonde_profile *p = NULL;
    int rc = sonde_history_get(h->ops, h->store, id, &p, err);
    if (rc) return rc;
    rc = sonde_compact_add(whole, p, &(struct sonde_compact_part){ .rebase = 1 });
    if (!rc) {
        rc = sonde_compact_steps(whole, history_ns_of(tiers[g->to].step_s),
                                 g->to == SONDE_HISTORY_DAY ? SONDE_COMPACT_THREADS_ALL
                                                            : SONDE_COMPACT_THREADS_NAME);
    }
    sonde_profile_destroy(p);
    return rc ? sonde_err_set(err, rc, "no memory to merge profiles") : 0;
}

/* A part that cannot be read will never be: it is of no use, and would keep the others back. */
static int drop_damaged(struct sonde_history *h, uint64_t id, const struct sonde_err *why)
{
    struct sonde_err err;
    sonde_log(SONDE_LOG_WARN, "profile %llu of the history is deleted: %s", (unsigned long long)id,
              why->text);
    const int rc = h->ops->profile_delete(h->store, id, &err);
    h->deleted += rc == 0;
    return rc == SONDE_ENOENT ? 0 : rc;
}

/* What the whole needs and no more: folding leaves names of threads behind. */
static int history_put_whole(struct sonde_history *h, const struct history_group *g,
                             const struct sonde_profile *whole, const uint64_t *ids, size_t count,
                             struct sonde_err *err)
{
    struct sonde_profile *p = NULL;
    uint64_t id = 0;
    int rc = sonde_profile_create(PART_BYTES_MAX, &p);
    if (!rc) rc = sonde_compact_add(p, whole, &(struct sonde_compact_part){ 0 });
    if (rc) {
        sonde_profile_destroy(p);
        return sonde_err_set(err, rc, "no memory to merge profiles");
    }
    rc = history_replace(h, g->to, p, ids, count, &id, err);
    sonde_profile_destroy(p);
    return rc;
}

static int merge_group(struct sonde_history *h, const struct history_parts *all,
                       const struct history_group *g, struct sonde_err *err)
{
    struct sonde_profile *whole = NULL;
    uint64_t *ids = sonde__calloc(all->count, sizeof(*ids));
    size_t count = 0;
    int rc = ids ? sonde_profile_create(PART_BYTES_MAX, &whole) : SONDE_ENOMEM;
    if (rc) sonde_err_set(err, rc, "no memory to merge profiles");
    for (size_t i = 0; i < all->count && !rc; i++) {
        if (!history_is_in(&all->at[i], g)) continue;
        rc = merge_part(h, g, all->at[i].id, whole, err);
        if (!rc) ids[count++] = all->at[i].id;
        else if (rc == SONDE_EFORMAT) rc = drop_damaged(h, all->at[i].id, err);
    }
    if (!rc && count) rc = history_put_whole(h, g, whole, ids, count, err);
    h->merges += !rc && count;
    sonde_profile_destroy(whole);
    sonde__free(ids);
    return rc;
}

/* ---- Heaps, and what is too much ------------------------------------------------------------- */

static int delete_part(struct sonde_history *h, uint64_t id, struct sonde_err *err)
{
    const int rc = h->ops->profile_delete(h->store, id, err);
    if (rc && rc != SONDE_ENOENT) return rc;
    h->deleted++;
    return 1;
}

/* Of those of an hour that is over for long the last one stays, later of a day. */
static int thin_heaps(struct sonde_history *h, const struct history_parts *all, double now_s,
                      struct sonde_err *err)
{
    const double minutes_s = h->minutes_s > 0 ? h->minutes_s : MINUTES_DEFAULT_S;
    const double hours_s = h->hours_s > 0 ? h->hours_s : HOURS_DEFAULT_S;
    for (size_t i = 0; i < all->count; i++) {
        const struct sonde_history_part *part = &all->at[i];
        if (part->tier != SONDE_HISTORY_HEAP) continue;
        enum sonde_history_tier of = SONDE_HISTORY_HOUR;
        if (history_bucket_of(part->end_s, SONDE_HISTORY_DAY) + 86400 <= now_s - hours_s) {
            of = SONDE_HISTORY_DAY;
        }
        const double bucket = history_bucket_of(part->end_s, of);
        if (bucket + tiers[of].part_s > now_s - minutes_s) continue;
        for (size_t k = i + 1; k < all->count; k++) {
            const struct sonde_history_part *next = &all->at[k];
            if (next->tier == SONDE_HISTORY_HEAP && !strcmp(next->program, part->program) &&
                history_bucket_of(next->end_s, of) == bucket) {
                return delete_part(h, part->id, err);
            }
        }
    }
    return 0;
}

static int too_large(struct sonde_history *h, const struct history_parts *all,
                     struct sonde_err *err)
{
    const uint64_t bytes_max = h->bytes_max ? h->bytes_max : BYTES_DEFAULT;
    uint64_t bytes = 0;
    for (size_t i = 0; i < all->count; i++) bytes += all->at[i].bytes;
    if (bytes <= bytes_max || all->count < 2) return 0;
    return delete_part(h, all->at[0].id, err);
}

int sonde_history_step(struct sonde_history *h, double now_s, struct sonde_err *err)
{
    struct history_parts all;
    struct history_group g;
    int rc = history_find_parts(h->ops, h->store, NULL, &all, err);
    if (rc) return rc;
    if (find_group(h, &all, now_s, &g)) {
        rc = merge_group(h, &all, &g, err);
        if (rc) {
            h->failed_start_s = g.start_s;
            h->failed_until_s = now_s + AGAIN_S;
        } else {
            rc = 1;
        }
    } else {
        rc = too_large(h, &all, err);
        if (!rc) rc = thin_heaps(h, &all, now_s, err);
    }
    parts_release(&all);
    return rc;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static void history_count_part(const struct sonde_history_part *part, void *arg)
{
    (void)part;
    ++*(size_t *)arg;
}

int sonde_history_is_empty(const struct sonde_store_ops *ops, struct sonde_store *s, int heap)
{
    const struct sonde_history_query any = { .heap = heap };
    size_t count = 0;
    return sonde_history_each(ops, s, &any, history_count_part, &count, NULL) == 0 && !count;
}

static int history_nothing(const struct sonde_store_ops *ops, struct sonde_store *s,
                           const struct sonde_history_query *q, struct sonde_err *err)
{
    struct history_parts all;
    struct sonde_history_query any = { .heap = q->heap };
    int rc = history_find_parts(ops, s, &any, &all, err);
    if (rc) return rc;
    if (!all.count) {
        rc = sonde_err_set(err, SONDE_ENOENT, "there is no history of %s: continuous profiling was "
                           "not on, or nothing was sampled so far",
                           q->heap ? "heaps" : "profiles");
    } else {
        double first_s = all.at[0].start_s, last_s = 0;
        for (size_t i = 0; i < all.count; i++) last_s = fmax(last_s, all.at[i].end_s);
        rc = sonde_err_set(err, SONDE_ENOENT, "nothing was sampled%s%s%s in that time; there is a "
                           "history from %.0f to %.0f", q->program ? " of '" : "",
                           q->program ? q->program : "", q->program ? "'" : "", first_s, last_s);
    }
    parts_release(&all);
    return rc;
}

/* Whether a later one says how that program's heap stood. */
static int is_superseded(const struct history_parts *all, size_t i)
{
    for (size_t k = i + 1; k < all->count; k++) {
        if (!strcmp(all->at[k].program, all->at[i].program)) return 1;
    }
    return 0;
}

/* SONDE_ENOENT: one was merged or deleted since it was listed. */
static int merge_all(const struct sonde_store_ops *ops, struct sonde_store *s,
                     const struct sonde_history_query *q, const struct history_parts *all,
                     struct sonde_profile *out, struct sonde_err *err)
{
    const struct sonde_compact_part part = {
        .from_ns = q->from_s > 0 && !q->heap ? history_ns_of(q->from_s) : 0,
        .to_ns = q->to_s > 0 && !q->heap ? history_ns_of(q->to_s) : 0, .pid = q->pid, .spans = 1,
        .others_max = UINT32_MAX };
    int rc = 0, several = 0;
    for (size_t i = 0; i < all->count && !rc; i++) {
        struct sonde_profile *p = NULL;
        if (q->heap && is_superseded(all, i)) continue;
        rc = sonde_history_get(ops, s, all->at[i].id, &p, err);
        if (rc) break;
        several |= strcmp(all->at[i].program, all->at[0].program) != 0;
        if (q->heap && !q->pid) rc = sonde_profile_merge(out, p);
        else rc = sonde_compact_add(out, p, &part);
        sonde_profile_destroy(p);
        if (rc) {
            rc = sonde_err_set(err, rc, "that time has more than there is memory for: ask for "
                               "less, or for one program");
        }
    }
    if (several) out->program = out->command = 0; /* that of one would be wrong of all */
    return rc;
}

static int try_merge(const struct sonde_store_ops *ops, struct sonde_store *s,
                     const struct sonde_history_query *q, struct sonde_profile **out,
                     struct sonde_err *err)
{
    struct history_parts all;
    struct sonde_profile *p = NULL;
    int rc = history_find_parts(ops, s, q, &all, err);
    if (rc) return rc;
    rc = sonde_profile_create(MERGED_BYTES_MAX, &p);
    if (rc) sonde_err_set(err, rc, "no memory for a profile");
    else rc = merge_all(ops, s, q, &all, p, err);
    parts_release(&all);
    if (rc) sonde_profile_destroy(p);
    else *out = p;
    return rc;
}

int sonde_history_merge(const struct sonde_store_ops *ops, struct sonde_store *s,
                        const struct sonde_history_query *q, struct sonde_profile **out,
                        struct sonde_err *err)
{
    struct sonde_profile *p = NULL;
    int rc = SONDE_ENOENT;
    for (int i = 0; i < TRIES && rc == SONDE_ENOENT; i++) rc = try_merge(ops, s, q, &p, err);
    if (!rc && !p->samples_count) {
        sonde_profile_destroy(p);
        return history_nothing(ops, s, q, err);
    }
    if (!rc) *out = p;
    return rc;
}
