/* tune_guide.c - see tune_guide.h.
 *
 * Slots and batches change who is computed with whom, which is what the scheduler of
 * analyze/predict/ simulates; threads or flash attention change what a token costs, of which it
 * knows nothing. The recording has the most slots that may be tried, since the model does not
 * answer for more sequences in a pass than twice what it has seen.
 *
 * The load is a closed loop, so its throughput is that of a queue that is never empty: the knee, at
 * no more slots than there are requests at a time. */
#include "cli/tune_guide.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyze/predict/observe.h"
#include "analyze/predict/predict.h"
#include "base/alloc.h"
#include "cli/profile.h"
#include "sonde/sonde.h"

enum { GUIDE_REPLICATES = 40 }; /* the middle is wanted, not an interval */

/* ---- What there is to ask -------------------------------------------------------------------- */

static struct sonde_tune_knob *guide_knob(struct sonde_tune_knobs *k, const char *name)
{
    for (size_t i = 0; i < k->space.knob_count; i++) {
        struct sonde_tune_knob *knob = &k->space.knobs[i];
        if (!strcmp(knob->name, name) && knob->level_count > 1) return knob;
    }
    return NULL;
}

/* Latency too: in a closed loop it is the requests at a time by the throughput. */
static int guide_objective(enum sonde_tune_objective o)
{
    return o == SONDE_TUNE_OBJECTIVE_TOKENS || o == SONDE_TUNE_OBJECTIVE_REQUESTS ||
           o == SONDE_TUNE_OBJECTIVE_LATENCY;
}

/* As given, with the most slots. *slots: how many; 0 = not known. */
static uint32_t guide_point(struct sonde_tune_knobs *k, uint32_t *slots)
{
    uint32_t point = sonde_tune_start(&k->space);
    const struct sonde_tune_knob *knob = guide_knob(k, "slots");
    *slots = 0;
    for (uint8_t l = 0; knob && l < knob->level_count; l++) {
        const double v = sonde_tune_level_number(knob->levels[l]);
        if (!(v > *slots) || v > 65536) continue;
        *slots = (uint32_t)v;
        point = sonde_tune_moved(&k->space, point, (size_t)(knob - k->space.knobs), l);
    }
    return point;
}

/* ---- The recording --------------------------------------------------------------------------- */

static int guide_record(const struct sonde_tune_plan *plan, const struct sonde_tune_knobs *knobs,
                        const struct sonde_tune_knobs_options *command, uint32_t point, char *path,
                        struct sonde_tune_guide *out)
{
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n < 0) {
        snprintf(out->why, sizeof(out->why), "this program's own path is not known");
        return SONDE_EIO;
    }
    self[n] = '\0';
    char *const under[] = { self, (char[]){ "record" }, (char[]){ "-q" }, (char[]){ "-o" }, path,
                            (char[]){ "--" }, NULL };
    struct sonde_tune_trials trials = { .plan = plan, .knobs = knobs, .command = command,
                                        .under = under };
    struct sonde_tune_figures figures;
    enum sonde_tune_outcome outcome;
    struct sonde_err err = { "" };
    const int rc = sonde_tune_try(&trials, point, &outcome, &figures, &err);
    if (rc == SONDE_EBUSY) return rc;
    if (rc || outcome == SONDE_TUNE_FAILED) {
        snprintf(out->why, sizeof(out->why), "the load that was to be recorded failed: %.200s",
                 rc ? err.text : figures.reason);
        return SONDE_EIO;
    }
    return 0;
}

static int guide_fit(const struct sonde_profile *p, uint32_t slots, uint32_t concurrency,
                     struct sonde_tune_guide *out, struct sonde_predict_model **model)
{
    const struct sonde_predict_choice any = { .model = NULL };
    struct sonde_predict_recording r;
    struct sonde_err err = { "" };
    int rc = sonde_predict_observe(p, &any, &r, &err);
    if (!rc) {
        if (slots) r.observed.slots = slots;
        r.observed.concurrency = concurrency;
        rc = sonde_predict_fit(&r.observed, model, &err);
        sonde_predict_recording_release(&r);
    }
    if (rc) snprintf(out->why, sizeof(out->why), "%s", err.text);
    return rc;
}

/* ---- What is expected ------------------------------------------------------------------------ */

/* Of each level that is a number: the logarithm of what it holds, beside the mean of all such. One
 * that the model does not answer for is left at that mean. */
static int guide_expect(const struct sonde_predict_model *m, struct sonde_tune_knob *knob,
                        int is_slots, uint32_t slots, uint32_t concurrency,
                        struct sonde_tune_guide *out)
{
    double expected[SONDE_TUNE_LEVELS_MAX], sum = 0;
    uint32_t answered = 0;
    for (uint8_t l = 0; l < knob->level_count; l++) {
        const double v = sonde_tune_level_number(knob->levels[l]);
        struct sonde_predict_ask ask = { .knee_only = 1, .replicates = GUIDE_REPLICATES,
                                         .slots = slots < concurrency ? slots : concurrency };
        struct sonde_predict_answer answer;
        struct sonde_err err = { "" };
        expected[l] = NAN;
        if (!(v >= 1) || v > 1e6) continue;
        if (is_slots) ask.slots = v < concurrency ? (uint32_t)v : concurrency;
        else ask.batch_tokens = (uint32_t)v;
        if (sonde_predict_run(m, &ask, &answer, &err)) {
            snprintf(out->why, sizeof(out->why), "%s", err.text);
            return SONDE_EINVAL;
        }
        if (!(answer.knee.value > 0)) {
            snprintf(out->why, sizeof(out->why), "%.511s", answer.why);
            continue;
        }
        expected[l] = log(answer.knee.value);
        sum += expected[l];
        answered++;
    }
    if (answered < 2) return SONDE_ENOENT;
    for (uint8_t l = 0; l < knob->level_count; l++) {
        knob->expected[l] = isnan(expected[l]) ? 0 : expected[l] - sum / answered;
    }
    return 0;
}

static void guide_ask(const struct sonde_profile *p, uint32_t slots, uint32_t concurrency,
                      struct sonde_tune_knobs *knobs, struct sonde_tune_guide *out)
{
    struct sonde_predict_model *model = NULL;
    if (guide_fit(p, slots, concurrency, out, &model)) return;
    const struct sonde_predict_facts *f = sonde_predict_facts(model);
    struct sonde_tune_knob *by_slots = guide_knob(knobs, "slots");
    struct sonde_tune_knob *by_batch = guide_knob(knobs, "batch");
    int known = 0;
    if (by_slots) known |= !guide_expect(model, by_slots, 1, f->slots, concurrency, out);
    if (by_batch) known |= !guide_expect(model, by_batch, 0, f->slots, concurrency, out);
    if (known) {
        out->requests = f->requests;
        out->steps = f->steps;
    }
    sonde_predict_destroy(model);
}

int sonde_cli_tune_guide(struct sonde_cli *cli, const struct sonde_tune_plan *plan,
                         const struct sonde_tune_knobs_options *command, const char *journal,
                         int fresh, struct sonde_tune_knobs *knobs, struct sonde_tune_guide *out)
{
    char path[4096];
    uint32_t slots;
    struct sonde_profile *p;
    *out = (struct sonde_tune_guide){ .asked = 0 };
    if (!plan->server || !guide_objective(plan->objective) ||
        (!guide_knob(knobs, "slots") && !guide_knob(knobs, "batch")) ||
        snprintf(path, sizeof(path), "%s.run", journal) >= (int)sizeof(path)) {
        return SONDE_EXIT_OK;
    }
    out->asked = 1;
    const uint32_t point = guide_point(knobs, &slots);
    if (fresh || access(journal, F_OK) != 0) unlink(path);
    if (access(path, R_OK) != 0) {
        const int rc = guide_record(plan, knobs, command, point, path, out);
        if (rc == SONDE_EBUSY) return SONDE_EXIT_FAIL;
        if (rc) return SONDE_EXIT_OK;
    }
    if (access(path, R_OK) != 0) {
        snprintf(out->why, sizeof(out->why), "`sonde record` wrote nothing");
        return SONDE_EXIT_OK;
    }
    if (sonde_cli_profile(cli, path, 0, NULL, &p)) {
        snprintf(out->why, sizeof(out->why), "the recording cannot be read");
        return SONDE_EXIT_OK;
    }
    guide_ask(p, slots, plan->concurrency, knobs, out);
    sonde_profile_destroy(p);
    return SONDE_EXIT_OK;
}
