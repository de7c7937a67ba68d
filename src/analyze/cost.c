/* cost.c - see cost.h: the table of functions and bins. cost_judge.c has what follows from it. */
#include "analyze/cost.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "analyze/cost_private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "profile/tree/frame.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"

#define COST_BIN_S 900.0
#define COST_BINS 192u
#define COST_FUNCTIONS 4000u
#define COST_SHARE 0.001
#define COST_RELATIVE 0.05
#define COST_LEVEL 0.005

const char *sonde_cost_kind_name(enum sonde_cost_kind kind)
{
    static const char *const names[] = {
#define SONDE__X(id, name) name,
        SONDE_COST_KINDS(SONDE__X)
#undef SONDE__X
    };
    return (size_t)kind < SONDE_COUNT(names) ? names[kind] : "unknown";
}

int sonde_cost_create(const struct sonde_cost_options *o, struct sonde_cost **out)
{
    assert(out);
    struct sonde_cost *c = sonde__calloc(1, sizeof(*c));
    if (!c) return SONDE_ENOMEM;
    if (o) c->o = *o;
    if (!(c->o.bin_s > 0)) c->o.bin_s = COST_BIN_S;
    if (!c->o.bins) c->o.bins = COST_BINS;
    if (!c->o.functions_max) c->o.functions_max = COST_FUNCTIONS;
    if (!(c->o.share_min > 0)) c->o.share_min = COST_SHARE;
    if (!(c->o.min_relative > 0)) c->o.min_relative = COST_RELATIVE;
    if (!(c->o.level > 0)) c->o.level = COST_LEVEL;
    c->budget = (struct sonde_budget){ &c->used, SONDE_COST_MEMORY };
    c->last = -1;
    c->whole = sonde__calloc(c->o.bins, sizeof(*c->whole));
    if (!c->whole || sonde_strings_init(&c->pool, &c->budget) != 0) {
        sonde__free(c->whole);
        sonde__free(c);
        return SONDE_ENOMEM;
    }
    *out = c;
    return 0;
}

void sonde_cost_destroy(struct sonde_cost *c)
{
    if (!c) return;
    for (uint32_t i = 0; i < c->count; i++) sonde__free(c->functions[i].self);
    sonde__free(c->functions);
    sonde__free(c->by_name);
    sonde__free(c->whole);
    sonde_strings_release(&c->pool);
    sonde__free(c);
}

/* ---- Functions ------------------------------------------------------------------------------- */

static int cost_names_grow(struct sonde_cost *c)
{
    const uint32_t count = c->pool.count;
    if (count <= c->by_name_count) return 0;
    uint32_t *rows = sonde__realloc(c->by_name, (size_t)count * sizeof(*rows));
    if (!rows) return SONDE_ENOMEM;
    memset(rows + c->by_name_count, 0, (size_t)(count - c->by_name_count) * sizeof(*rows));
    c->by_name = rows;
    c->by_name_count = count;
    return 0;
}

/* The function's number + 1; 0 = the table is full, or there is no memory (*rc). */
static uint32_t cost_function_find(struct sonde_cost *c, const struct sonde_frame *frame, int *rc)
{
    uint32_t *at = &c->by_name[frame->name];
    const size_t bytes = 2 * (size_t)c->o.bins * sizeof(float);
    if (*at || c->count >= c->o.functions_max || c->used + bytes > SONDE_COST_MEMORY) return *at;
    struct cost_function *f = SONDE_ARRAY_ADD(c->functions, c->count, c->cap);
    if (!f) {
        *rc = SONDE_ENOMEM;
        return 0;
    }
    *f = (struct cost_function){ .name = frame->name, .module = frame->module };
    f->self = sonde__calloc(2 * (size_t)c->o.bins, sizeof(float));
    if (!f->self) {
        c->count--;
        *rc = SONDE_ENOMEM;
        return 0;
    }
    f->total = f->self + c->o.bins;
    c->used += bytes;
    *at = c->count;
    return *at;
}

/* The callers that are seen most, in little memory: a new one replaces the rarest, and takes over
 * its count (Metwally, Agrawal and El Abbadi 2005). */
static void cost_caller_count(struct cost_function *f, uint32_t caller, uint32_t events)
{
    int rarest = 0;
    for (int i = 0; i < COST_CALLERS; i++) {
        if (f->callers[i] == caller || !f->callers[i]) {
            f->callers[i] = caller;
            f->calls[i] += events;
            return;
        }
        if (f->calls[i] < f->calls[rarest]) rarest = i;
    }
    f->callers[rarest] = caller;
    f->calls[rarest] += events;
}

/* ---- Bins ------------------------------------------------------------------------------------ */

/* Room for bin: the oldest go. 0 = it is too old itself. */
static int cost_bin_open(struct sonde_cost *c, int64_t bin)
{
    const int64_t bins = c->o.bins;
    if (c->last < c->first || bin - c->last >= bins) {
        c->first = bin;
        c->last = bin - 1;
        memset(c->whole, 0, c->o.bins * sizeof(*c->whole));
        for (uint32_t i = 0; i < c->count; i++) {
            memset(c->functions[i].self, 0, 2 * c->o.bins * sizeof(float));
        }
    }
    if (bin <= c->last - bins) return 0;
    if (bin < c->first) c->first = bin;
    for (; c->last < bin; c->last++) {
        const size_t slot = cost_slot(c, c->last + 1);
        c->whole[slot] = 0;
        for (uint32_t i = 0; i < c->count; i++) {
            c->functions[i].self[slot] = c->functions[i].total[slot] = 0;
        }
    }
    if (c->last - c->first >= bins) c->first = c->last - bins + 1;
    return 1;
}

static int cost_add_sample(struct sonde_cost *c, const struct sonde_profile_sample *s,
                           const struct sonde_frames *frames, const struct sonde_frame_path *path)
{
    const double time_s = (double)s->time_ns * 1e-9;
    const int64_t bin = (int64_t)floor(time_s / c->o.bin_s);
    if (!cost_bin_open(c, bin)) return 0;
    const size_t slot = cost_slot(c, bin);
    const float weight = (float)s->weight;
    uint32_t caller = 0;
    int rc = 0;
    c->whole[slot] += weight;
    c->weight += (double)s->weight;
    c->events += s->count;
    c->stamp++;
    for (uint32_t i = 0; i < path->count && !rc; i++) {
        const struct sonde_frame *frame = &frames->rows[path->rows[i]];
        if (frame->flags & SONDE_NODE_TRUNCATED) continue;
        const uint32_t row = cost_function_find(c, frame, &rc);
        if (!row) continue;
        struct cost_function *f = &c->functions[row - 1];
        if (caller && caller != row) cost_caller_count(f, caller, s->count);
        caller = row;
        if (i + 1 == path->count) {
            f->self[slot] += weight;
            f->samples += s->count;
        }
        if (f->stamp == c->stamp) continue; /* it called itself */
        f->stamp = c->stamp;
        f->total[slot] += weight;
    }
    return rc;
}

int sonde_cost_add(struct sonde_cost *c, const struct sonde_profile *p)
{
    struct sonde_frames frames = { 0 };
    struct sonde_frame_path path = { 0 };
    int rc = sonde_frames_create(&frames, p, &c->pool, &c->budget);
    if (rc) return rc;
    rc = cost_names_grow(c);
    for (uint32_t i = 0; i < p->samples_count && !rc; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (s->kind != SONDE_SAMPLE_CPU || !s->time_ns || !s->weight || !s->count) continue;
        rc = sonde_frame_path_set(&path, &frames, p, s);
        if (!rc) rc = cost_add_sample(c, s, &frames, &path);
    }
    sonde_frame_path_release(&path);
    sonde_frames_release(&frames);
    return rc;
}
