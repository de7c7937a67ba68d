/* arms.c - see arms.h: requests of two servers become figures and blocks. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agent/arms_private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "segment/segment.h"
#include "sonde/sonde.h"

static const struct { const char *key, *title; int better; } arm_measures[] = {
#define SONDE__X(id, key, title, better) { key, title, better },
    SONDE_ARM_MEASURES(SONDE__X)
#undef SONDE__X
};

const char *arm_measure_key(enum sonde_arm_measure m) { return arm_measures[m].key; }
const char *arm_measure_title(enum sonde_arm_measure m) { return arm_measures[m].title; }
int arm_measure_better(enum sonde_arm_measure m) { return arm_measures[m].better; }

/* ---- Requests ------------------------------------------------------------------------------- */

static double arm_seconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e9 : 0;
}

/* Of a request that ended well. */
static void arm_values(const struct sonde_front_request *r, struct arm_ended *e)
{
    const uint64_t begin = r->whole_ns ? r->whole_ns : r->arrived_ns;
    const double e2e = arm_seconds(begin, r->ended_ns);
    /* What the server says it made, else pieces of text; all come at once if it does not stream. */
    const int64_t said = r->usage.completion_tokens;
    const uint64_t tokens = said > 0 ? (uint64_t)said : r->chunks;
    const uint64_t first = r->chunks ? r->first_token_ns : tokens ? r->first_byte_ns : 0;
    e->tokens_out = tokens;
    e->value[SONDE_ARM_E2E] = e2e;
    if (first) e->value[SONDE_ARM_TTFT] = arm_seconds(begin, first);
    if (r->chunks > 1 && tokens > 1 && r->last_token_ns > r->first_token_ns) {
        e->value[SONDE_ARM_ITL] =
            arm_seconds(r->first_token_ns, r->last_token_ns) / (double)(tokens - 1);
    }
    if (tokens && e2e > 0) e->value[SONDE_ARM_SPEED] = (double)tokens / e2e;
}

static void arm_set_error(struct arm_ended *e, const char *error)
{
    int changed = 0;
    if (!*error) error = "unknown";
    e->error[sonde__utf8_copy(e->error, sizeof(e->error) - 1, error, strlen(error), &changed)] = 0;
}

/* ---- Figures -------------------------------------------------------------------------------- */

static void arm_count_error(struct arm_figures *f, const char *name)
{
    for (size_t i = 0; i < f->error_count; i++) {
        if (strcmp(f->errors[i].name, name) == 0) {
            f->errors[i].count++;
            return;
        }
    }
    struct arm_error *e = &f->errors[f->error_count];
    if (f->error_count < ARM_ERRORS) {
        f->error_count++;
        memcpy(e->name, name, strlen(name) + 1);
    } else {
        strcpy(e->name, "other");
    }
    e->count++;
}

static void arm_add(struct sonde_arms *arms, const struct arm_ended *e)
{
    struct arm_figures *f = &arms->figures[e->arm];
    if (e->outcome == ARM_CANCELLED) {
        f->cancelled++;
        return;
    }
    sonde_sequential_arms_add(&arms->measure[SONDE_ARM_ERRORS], e->arm,
                              e->outcome == ARM_FAILED, e->time_s);
    if (e->outcome == ARM_FAILED) {
        f->failed++;
        f->fell_back += e->fell_back != 0;
        arm_count_error(f, e->error);
        return;
    }
    f->ok++;
    f->tokens_out += e->tokens_out;
    for (int m = 0; m < SONDE_ARM_ERRORS; m++) {
        if (isnan(e->value[m])) continue;
        sonde_sequential_arms_add(&arms->measure[m], e->arm, e->value[m], e->time_s);
        /* Without memory for a bucket a percentile lacks a value; means do not. */
        const uint64_t p = sonde__hist_bucket(e->value[m]);
        if (p < SONDE__HIST_BUCKETS) sonde_hist_value_add(&f->hist[m], (uint32_t)p, 1);
    }
}

/* All that wait, into the model and the figures; state NULL = as it was. Who reads figures may be
 * about to draw up an answer of them: 0 = later, unless it must be now. */
static int arms_apply(struct sonde_arms *arms, const struct sonde_front_state *state, int must)
{
    sonde_assert_held_write(&arms->model->lock);
    if (must) sonde_lock(&arms->lock);
    else if (sonde_trylock(&arms->lock) != 0) return 0;
    for (size_t i = 0; i < arms->waiting_count; i++) arm_add(arms, &arms->waiting[i]);
    if (state) arms->state = *state;
    sonde_unlock(&arms->lock);
    arms_series_put(arms, &arms->state);
    arms->waiting_count = 0;
    return 1;
}

void sonde_arms_ended(struct sonde_arms *arms, const struct sonde_front_request *r)
{
    assert(r->arm == SONDE_FRONT_A || r->arm == SONDE_FRONT_B);
    if (arms->waiting_count == ARM_WAITING) {
        sonde_wrlock(&arms->model->lock);
        arms_apply(arms, NULL, 1);
        sonde_rwunlock(&arms->model->lock);
    }
    struct arm_ended *e = &arms->waiting[arms->waiting_count++];
    *e = (struct arm_ended){ .arm = r->arm == SONDE_FRONT_B, .time_s = (double)r->ended_ns / 1e9 };
    for (int m = 0; m < SONDE_ARM_ERRORS; m++) e->value[m] = NAN;
    if (r->fell_back[0]) {
        /* It was to be b's, and b failed; what a made of it says nothing about either. */
        e->outcome = ARM_FAILED;
        e->fell_back = 1;
        arm_set_error(e, r->fell_back);
    } else if (r->outcome == SONDE_FRONT_CANCELLED) {
        e->outcome = ARM_CANCELLED;
    } else if (r->outcome != SONDE_FRONT_OK) {
        e->outcome = ARM_FAILED;
        arm_set_error(e, r->error);
    } else {
        e->outcome = ARM_OK;
        arm_values(r, e);
    }
}

void sonde_arms_tick(struct sonde_arms *arms, const struct sonde_front_state *state)
{
    /* The next tick is soon enough, unless there is none or too many wait. */
    const int must =
        arms->waiting_count >= ARM_WAITING / 2 || !(state->in_flight || state->copies);
    if (must) sonde_wrlock(&arms->model->lock);
    else if (sonde_trywrlock(&arms->model->lock) != 0) return;
    arms_apply(arms, state, must);
    sonde_rwunlock(&arms->model->lock);
}

/* ---- The whole ------------------------------------------------------------------------------ */

int sonde_arms_create(const struct sonde_arms_settings *settings,
                      const struct sonde_front_options *front, struct sonde_model *model,
                      struct sonde_arms **out)
{
    assert(front->ab.mode != SONDE_FRONT_ONE);
    const struct sonde_front_upstream *const servers[ARMS] = { &front->upstream,
                                                               &front->ab.upstream };
    struct sonde_arms *arms = sonde__calloc(1, sizeof(*arms));
    if (!arms) return SONDE_ENOMEM;
    arms->series = arms_series_create();
    if (!arms->series) {
        sonde__free(arms);
        return SONDE_ENOMEM;
    }
    arms->settings = *settings;
    arms->mode = front->ab.mode;
    arms->share = (double)front->ab.share_ppm / SONDE_FRONT_SHARE_ALL;
    arms->model = model;
    arms->started_s = sonde_clock_s(CLOCK_REALTIME);
    memcpy(arms->session, front->ab.session, sizeof(arms->session));
    for (int i = 0; i < ARMS; i++) {
        snprintf(arms->url[i], sizeof(arms->url[i]), "http://%s%s", servers[i]->authority,
                 servers[i]->prefix);
    }
    for (int m = 0; m < SONDE_ARM_MEASURE_COUNT; m++) {
        sonde_sequential_arms_init(&arms->measure[m], &(struct sonde_sequential_options){
            .level = SONDE_SEQUENTIAL_LEVEL / SONDE_ARM_MEASURE_COUNT, .detect = settings->detect,
            .better = arm_measures[m].better });
        if (settings->block_s > 0) arms->measure[m].block_s = settings->block_s;
        if (settings->block_values) arms->measure[m].block_values = settings->block_values;
    }
    sonde_lock_init(&arms->lock, SONDE_RANK_ARMS);
    *out = arms;
    return 0;
}

void sonde_arms_destroy(struct sonde_arms *arms)
{
    if (!arms) return;
    for (int i = 0; i < ARMS; i++) {
        for (int m = 0; m < SONDE_ARM_ERRORS; m++) {
            struct sonde_hist_value *h = &arms->figures[i].hist[m];
            for (size_t o = 0; o < SONDE_COUNT(h->octave); o++) sonde__free(h->octave[o]);
        }
    }
    sonde_lock_destroy(&arms->lock);
    arms_series_destroy(arms->series);
    sonde__free(arms);
}
