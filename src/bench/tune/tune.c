/* tune.c - see tune.h. */
#include "bench/tune/tune.h"

#include <string.h>
#include <unistd.h>

#include "sonde/sonde.h"

void sonde_tune_found_release(struct sonde_tune_found *f)
{
    sonde_tune_history_release(&f->history);
    memset(f, 0, sizeof(*f));
}

/* What the journal has, into the race. */
static int tune_resume(const struct sonde_tune_options *o, uint64_t key,
                       struct sonde_tune_race *race,
                       struct sonde_tune_found *out, struct sonde_err *err)
{
    int other = 0, rc = 0;
    if (!o->fresh) {
        rc = sonde_tune_journal_read(o->journal, key, &o->knobs->space, &out->history, &other, err);
    }
    if (rc) return rc;
    if (other) {
        return sonde_err_set(err, SONDE_EINVAL, "'%s' holds trials of another command, other "
                             "knobs or "
                             "another load: --fresh begins anew, --journal names another file",
                             o->journal);
    }
    out->resumed = out->history.count;
    for (size_t i = 0; i < out->history.count && !rc; i++) {
        const struct sonde_tune_past *t = &out->history.trials[i];
        rc = sonde_tune_race_tell(race, t->step, t->outcome, t->figures.value);
    }
    return rc ? sonde_err_memory(err) : 0;
}

static int tune_trials(const struct sonde_tune_options *o, struct sonde_tune_race *race,
                       int journal,
                       struct sonde_tune_found *out, struct sonde_err *err)
{
    struct sonde_tune_trials trials = { .plan = o->plan, .knobs = o->knobs, .command = o->command };
    for (;;) {
        struct sonde_tune_past t = { .outcome = SONDE_TUNE_FAILED };
        const size_t number = out->history.count;
        int rc = sonde_tune_race_next(race, &t.step);
        if (rc) return sonde_err_memory(err);
        if (t.step.phase == SONDE_TUNE_DONE) return 0;
        if (o->progress) o->progress(o->arg, &t.step, number, out->trials_max, NULL);
        rc = sonde_tune_try(&trials, t.step.point, &t.outcome, &t.figures, err);
        if (rc == SONDE_EBUSY) {
            out->stopped = 1;
            return 0;
        }
        if (rc) return rc;
        if (sonde_tune_history_add(&out->history, &t) ||
            sonde_tune_race_tell(race, t.step, t.outcome, t.figures.value)) {
            return sonde_err_memory(err);
        }
        rc = sonde_tune_journal_add(journal, &o->knobs->space, &t, number, err);
        if (rc) return rc;
        if (o->progress) o->progress(o->arg, &t.step, number, out->trials_max, &t);
    }
}

int sonde_tune_run(const struct sonde_tune_options *o, struct sonde_tune_found *out,
                   struct sonde_err *err)
{
    const uint64_t key = sonde_tune_key(o->knobs, o->command, o->plan);
    struct sonde_tune_race *race;
    memset(out, 0, sizeof(*out));
    out->points = sonde_tune_points(&o->knobs->space);
    out->trials_max = o->trials_max ? o->trials_max : sonde_tune_trials_for(out->points);
    if (o->all) {
        if ((uint64_t)o->all * out->points > SONDE_TUNE_TRIALS_MAX) {
            return sonde_err_set(err, SONDE_EINVAL, "--all %u of %u settings are more than %u "
                                 "trials: "
                                 "name fewer knobs (--only) or levels (--knob)", o->all,
                                         out->points,
                                 SONDE_TUNE_TRIALS_MAX);
        }
        out->trials_max = o->all * out->points;
    }
    const struct sonde_tune_race_options ro = {
        .space = &o->knobs->space, .all = o->all, .trials_max = out->trials_max, .seed = o->seed,
        .less = o->plan->less, .min_gain = o->min_gain };
    int rc = sonde_tune_race_create(&ro, &race);
    if (rc) return sonde_err_set(err, rc, "cannot search: %s", sonde_strerror(rc));
    rc = tune_resume(o, key, race, out, err);
    if (!rc) {
        const int fd = sonde_tune_journal_begin(o->journal, key, o->knobs, o->command,
                                                &out->history, err);
        rc = fd < 0 ? fd : tune_trials(o, race, fd, out, err);
        if (fd >= 0) close(fd);
    }
    if (!rc && sonde_tune_race_answer(race, &out->answer)) rc = sonde_err_memory(err);
    sonde_tune_race_destroy(race);
    if (rc) sonde_tune_found_release(out);
    return rc;
}
