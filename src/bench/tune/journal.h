/* journal.h - trials as they come, one line of JSON each, so that a search that was interrupted
 * goes on where it was:
 *
 *   {"sonde_tune":1,"key":"9f…","command":[…],"knobs":{"threads":["1","2"],…}}
 *   {"trial":0,"phase":"begin","setting":{"threads":"1",…},"outcome":"ok","value":12.3,…}
 *
 * key is a hash of what makes trials comparable: command, knobs, load, objective, constraints. A
 * journal with another one is not continued. A last line that was cut off is left out. */
#ifndef SONDE_BENCH_TUNE_JOURNAL_H
#define SONDE_BENCH_TUNE_JOURNAL_H

#include "analyze/tune/race.h"
#include "base/buf.h"
#include "base/err.h"
#include "bench/tune/trial.h"

#define SONDE_TUNE_JOURNAL_MAX ((size_t)16 << 20)

struct sonde_tune_past {         /* a trial with its figures */
    struct sonde_tune_step step;
    enum sonde_tune_outcome outcome;
    struct sonde_tune_figures figures;
};

struct sonde_tune_history {
    struct sonde_tune_past *trials; /* owned */
    size_t count, cap;
};

uint64_t sonde_tune_key(const struct sonde_tune_knobs *k, const struct sonde_tune_knobs_options *c,
                        const struct sonde_tune_plan *p);

/* One trial as members of a JSON object, without braces. */
void sonde_tune_past_json(const struct sonde_tune_space *s, const struct sonde_tune_past *t,
                          size_t number, struct sonde_buf *out);

/* What a journal holds. 0 also if there is none; *other: it is there, with another key.
 * SONDE_EINVAL: it is not a journal, with the line; SONDE_EIO, SONDE_ENOMEM. */
int sonde_tune_journal_read(const char *path, uint64_t key, const struct sonde_tune_space *s,
                            struct sonde_tune_history *out, int *other, struct sonde_err *err);
/* Written anew, with the trials of history, and open to add to: a descriptor, or a negative
 * SONDE_E…. */
int sonde_tune_journal_begin(const char *path, uint64_t key, const struct sonde_tune_knobs *k,
                             const struct sonde_tune_knobs_options *c,
                             const struct sonde_tune_history *history, struct sonde_err *err);
int sonde_tune_journal_add(int fd, const struct sonde_tune_space *s,
                           const struct sonde_tune_past *t, size_t number, struct sonde_err *err);

int sonde_tune_history_add(struct sonde_tune_history *h, const struct sonde_tune_past *t);
void sonde_tune_history_release(struct sonde_tune_history *h);

#endif
