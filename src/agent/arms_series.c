/* arms_series.c - figures of two servers as series of the model, with the label arm (a, b); see
 * arms.h. */
#include <assert.h>
#include <math.h>

#include "agent/arms_private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

enum { ARM_OUTCOMES = 3, ARM_TIMES = SONDE_ARM_E2E + 1 };

struct arms_series {
    struct sonde_model_series *requests[ARMS][ARM_OUTCOMES];
    struct sonde_model_series *errors[ARMS][ARM_ERRORS + 1];
    struct sonde_model_series *tokens[ARMS];
    struct sonde_model_series *times[ARMS][ARM_TIMES];
    struct sonde_model_series *mirrored, *in_flight, *dropped[SONDE_FRONT_DROPS];
};

static const struct sonde_model_family_spec arm_times[ARM_TIMES] = {
    [SONDE_ARM_TTFT] = { .name = "sonde_front_arm_time_to_first_token_seconds", .unit = "seconds",
                         .help = "Of two servers that the front compares: from the request to the "
                                 "first token.",
                         .type = SONDE_HISTOGRAM, .kind = SONDE_KIND_TIME, .scale = 1e-9 },
    [SONDE_ARM_ITL] = { .name = "sonde_front_arm_time_per_output_token_seconds",
                        .unit = "seconds",
                        .help = "Of two servers that the front compares: mean time between tokens "
                                "of a request.",
                        .type = SONDE_HISTOGRAM, .kind = SONDE_KIND_TIME, .scale = 1e-9 },
    [SONDE_ARM_E2E] = { .name = "sonde_front_arm_request_duration_seconds", .unit = "seconds",
                        .help = "Of two servers that the front compares: from the request to the "
                                "end of its answer.",
                        .type = SONDE_HISTOGRAM, .kind = SONDE_KIND_TIME, .scale = 1e-9 },
};

static const struct sonde_model_family_spec arm_requests = {
    .name = "sonde_front_arm_requests_total", .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER,
    .help = "Requests of two servers that the front compares, by how they ended; a mirror's "
            "are copies." };
static const struct sonde_model_family_spec arm_errors = {
    .name = "sonde_front_arm_errors_total", .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER,
    .help = "Those that failed, by how." };
static const struct sonde_model_family_spec arm_tokens = {
    .name = "sonde_front_arm_output_tokens_total", .type = SONDE_COUNTER,
    .kind = SONDE_KIND_THROUGHPUT, .help = "Tokens that the answers of those held." };
static const struct sonde_model_family_spec arm_mirrored = {
    .name = "sonde_front_mirrored_total", .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER,
    .help = "Copies of requests that were sent to the mirror." };
static const struct sonde_model_family_spec arm_mirroring = {
    .name = "sonde_front_mirror_in_flight", .type = SONDE_GAUGE, .kind = SONDE_KIND_COUNTER,
    .help = "Copies of requests that have not ended." };
static const struct sonde_model_family_spec arm_dropped = {
    .name = "sonde_front_mirror_dropped_total", .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER,
    .help = "Requests that should have been mirrored and were not, by why." };

struct arms_series *arms_series_create(void)
{
    return sonde__calloc(1, sizeof(struct arms_series));
}

void arms_series_destroy(struct arms_series *s) { sonde__free(s); }

/* The series at *at, made when it is needed; NULL = no memory. */
static struct sonde_model_series *arm_series(struct sonde_model *m, struct sonde_model_series **at,
                                             const struct sonde_model_family_spec *spec,
                                             const struct sonde_label *labels, size_t count)
{
    struct sonde_model_family_spec ours = *spec;
    ours.source = "sonde";
    if (!*at) *at = sonde_model_own_series(m, &ours, NULL, labels, count);
    return *at;
}

static const char *arm_name(int arm) { return arm ? "b" : "a"; }

static void arms_put_times(struct sonde_arms *arms)
{
    for (size_t i = 0; i < arms->waiting_count; i++) {
        const struct arm_ended *e = &arms->waiting[i];
        const struct sonde_label label = { "arm", arm_name(e->arm) };
        for (int m = 0; m < ARM_TIMES; m++) {
            if (isnan(e->value[m])) continue;
            struct sonde_model_series *s = arm_series(
                arms->model, &arms->series->times[e->arm][m], &arm_times[m], &label, 1);
            if (s) sonde_model_record(s, (uint64_t)(e->value[m] * 1e9 + 0.5), 1);
        }
    }
}

static void arms_put_totals(struct sonde_arms *arms, int arm)
{
    static const char *const outcomes[ARM_OUTCOMES] = { "ok", "error", "cancelled" };
    const struct arm_figures *f = &arms->figures[arm];
    const uint64_t counts[ARM_OUTCOMES] = { f->ok, f->failed, f->cancelled };
    struct sonde_model_series *s;
    for (int i = 0; i < ARM_OUTCOMES; i++) {
        const struct sonde_label labels[] = { { "arm", arm_name(arm) },
                                              { "outcome", outcomes[i] } };
        s = arm_series(arms->model, &arms->series->requests[arm][i], &arm_requests, labels, 2);
        if (s) s->counter = counts[i];
    }
    for (size_t i = 0; i < ARM_ERRORS + 1; i++) {
        if (!f->errors[i].count) continue;
        const struct sonde_label labels[] = { { "arm", arm_name(arm) },
                                              { "error", f->errors[i].name } };
        s = arm_series(arms->model, &arms->series->errors[arm][i], &arm_errors, labels, 2);
        if (s) s->counter = f->errors[i].count;
    }
    const struct sonde_label label = { "arm", arm_name(arm) };
    s = arm_series(arms->model, &arms->series->tokens[arm], &arm_tokens, &label, 1);
    if (s) s->counter = f->tokens_out;
}

void arms_series_put(struct sonde_arms *arms, const struct sonde_front_state *state)
{
    sonde_assert_held_write(&arms->model->lock);
    arms_put_times(arms);
    for (int arm = 0; arm < ARMS; arm++) arms_put_totals(arms, arm);
    if (arms->mode != SONDE_FRONT_MIRROR) return;
    struct arms_series *at = arms->series;
    struct sonde_model_series *s =
        arm_series(arms->model, &at->mirrored, &arm_mirrored, NULL, 0);
    if (s) s->counter = state->copies_total;
    s = arm_series(arms->model, &at->in_flight, &arm_mirroring, NULL, 0);
    if (s) s->gauge = (double)state->copies;
    for (int i = 0; i < SONDE_FRONT_DROPS; i++) {
        const struct sonde_label label = { "reason",
                                           sonde_front_drop_name((enum sonde_front_drop)i) };
        s = arm_series(arms->model, &at->dropped[i], &arm_dropped, &label, 1);
        if (s) s->counter = state->dropped_total[i];
    }
}
