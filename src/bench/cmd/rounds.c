/* rounds.c - commands run in rounds: see timing.h. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/random.h"
#include "bench/cmd/timing.h"
#include "sonde/sonde.h"

/* What runs in a round: a case, or a shell that does nothing. */
#define ROUNDS_SHELL ((size_t)-1)

struct rounds_state {
    const struct sonde_timing_options *o;
    struct sonde_timing_bench *b;
    struct sonde_spawn spawn;
    struct sonde_timing_command shell; /* no argv = is not measured */
    size_t *order;           /* owned: of a round */
    size_t order_count;
    double *values;          /* owned: rounds_max of a case */
    uint64_t seed;
    double begin_s;
};

/* ---- One run --------------------------------------------------------------------------------- */

/* How it ended, if that is not what a command that is measured should do. */
static int rounds_failure(const char *what, const char *name, int status, struct sonde_err *err)
{
    if (WIFSIGNALED(status)) {
        return sonde_err_set(err, SONDE_EIO, "%s '%s' was ended by signal %d (%s); "
                             "--ignore-failure measures it all the same", what, name,
                             WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    const int code = WEXITSTATUS(status);
    return sonde_err_set(err, SONDE_EIO, "%s '%s' ended with exit status %d%s; --show-output shows "
                         "what it says, --ignore-failure measures it all the same", what, name,
                         code, code == 127 ? ", the shell's word for a command that it did not "
                                             "find" : "");
}

/* 0, 1 if it was interrupted, or an error. */
static int rounds_spawn(struct rounds_state *s, const struct sonde_timing_command *c,
                        uint32_t copies, const char *what, struct sonde_spawn_use *use,
                        struct sonde_err *err)
{
    const struct sonde_spawn_options so = {
        .path = c->path, .argv = c->argv, .input = s->o->input, .copies = copies,
        .timeout_s = s->o->timeout_s, .show_output = s->o->show_output };
    enum sonde_spawn_end end;
    const int rc = sonde_spawn_run(&s->spawn, &so, &end, use, err);
    if (rc) return rc;
    if (end == SONDE_SPAWN_INTERRUPTED) {
        s->b->interrupted = s->spawn.interrupted;
        return 1;
    }
    if (end == SONDE_SPAWN_TIMEOUT) {
        return sonde_err_set(err, SONDE_EIO, "%s '%s' ran longer than %g s and was ended; "
                             "--timeout gives it more", what, c->name, s->o->timeout_s);
    }
    return 0;
}

static int rounds_prepare(struct rounds_state *s, struct sonde_err *err)
{
    struct sonde_spawn_use use;
    if (!s->o->prepare) return 0;
    const int rc = rounds_spawn(s, s->o->prepare, 1, "the preparation", &use, err);
    if (rc || !use.status) return rc;
    return rounds_failure("the preparation", s->o->prepare->name, use.status, err);
}

static int rounds_run_case(struct rounds_state *s, struct sonde_timing_case *c, int counted,
                           struct sonde_err *err)
{
    const struct sonde_timing_command *command = &s->o->commands[c->command];
    struct sonde_spawn_use use;
    int rc = rounds_prepare(s, err);
    if (!rc) rc = rounds_spawn(s, command, c->copies, "the command", &use, err);
    if (rc) return rc;
    if (use.status) {
        c->failures++;
        if (!s->o->ignore_failure) {
            return rounds_failure("the command", command->name, use.status, err);
        }
    }
    if (!counted) {
        if (!c->first_us) c->first_us = (uint64_t)(use.wall_s * 1e6) + 1;
        return 0;
    }
    if (SONDE_ARRAY_ROOM_MAX(c->runs, c->run_count, c->run_cap, SONDE_TIMING_ROUNDS_MAX)) {
        return sonde_err_memory(err);
    }
    c->runs[c->run_count++] = use;
    return 0;
}

static int rounds_run_shell(struct rounds_state *s, struct sonde_err *err)
{
    struct sonde_timing_bench *b = s->b;
    struct sonde_spawn_use use;
    const int rc = rounds_spawn(s, &s->shell, 1, "the shell", &use, err);
    if (rc) return rc;
    if (use.status) return rounds_failure("the shell", s->shell.path, use.status, err);
    for (int i = 0; i < 3; i++) {
        if (SONDE_ARRAY_ROOM(b->shell_s[i], b->shell_count, b->shell_cap[i])) {
            return sonde_err_memory(err);
        }
    }
    b->shell_s[0][b->shell_count] = use.wall_s;
    b->shell_s[1][b->shell_count] = use.user_s;
    b->shell_s[2][b->shell_count] = use.system_s;
    b->shell_count++;
    return 0;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static int rounds_round(struct rounds_state *s, int counted, struct sonde_err *err)
{
    /* Fisher and Yates: every order is as likely. */
    for (size_t i = s->order_count; i > 1; i--) {
        const size_t k = (size_t)sonde_random_below(&s->seed, i);
        const size_t swap = s->order[i - 1];
        s->order[i - 1] = s->order[k];
        s->order[k] = swap;
    }
    for (size_t i = 0; i < s->order_count; i++) {
        const size_t which = s->order[i];
        int rc = 0;
        if (which != ROUNDS_SHELL) rc = rounds_run_case(s, &s->b->cases[which], counted, err);
        else if (counted) rc = rounds_run_shell(s, err);
        if (rc) return rc;
    }
    if (counted) s->b->rounds++;
    return 0;
}

int sonde_timing_looks(size_t rounds, size_t rounds_min)
{
    if (rounds < rounds_min || rounds < 3) return 0;
    /* Steps of a sixteenth: 16 … 32 one by one, 32 … 64 every other. */
    size_t step = 1;
    while (rounds / step >= 32) step *= 2;
    return rounds % step == 0;
}

int sonde_timing_enough(size_t rounds, double width, double until, size_t *stop_at)
{
    if (!(width <= until)) {
        *stop_at = 0;
        return 0;
    }
    if (!*stop_at) *stop_at = rounds + rounds / 4 + 1;
    return rounds >= *stop_at;
}

/* The largest half of an interval by its mean, of all cases. */
static double rounds_width(struct rounds_state *s)
{
    double widest = 0;
    for (size_t i = 0; i < s->b->case_count; i++) {
        sonde_timing_values(s->o, s->b, &s->b->cases[i], SONDE_TIMING_WALL, s->values);
        const struct sonde_estimate e = sonde_timing_mean(s->values, s->b->rounds);
        const double width = e.value > 0 ? sonde_timing_half(&e) / e.value : INFINITY;
        if (!(width <= widest)) widest = width;
    }
    return widest;
}

/* What is done of what will probably be needed: intervals shrink with the root of the rounds. */
static void rounds_tell(const struct rounds_state *s, double width)
{
    const struct sonde_timing_options *o = s->o;
    const double rounds = (double)s->b->rounds;
    char state[96];
    if (!o->progress) return;
    double needed = (double)o->rounds_min;
    if (o->until > 0 && isfinite(width)) {
        needed = fmax(needed, 1.25 * rounds * (width / o->until) * (width / o->until));
    } else if (o->until > 0) {
        needed = (double)o->rounds_max;
    }
    double share = rounds / fmin(needed, (double)o->rounds_max);
    const double passed_s = sonde_clock_s(CLOCK_MONOTONIC) - s->begin_s;
    const double spent = passed_s / o->duration_s;
    if (o->until > 0 && o->settle_s > 0) share = fmin(share, passed_s / o->settle_s);
    if (s->b->rounds >= o->rounds_min) share = fmax(share, spent);
    snprintf(state, sizeof(state), "round %zu", s->b->rounds);
    if (isfinite(width) && width > 0) {
        snprintf(state, sizeof(state), "round %zu, known to %.1f %%", s->b->rounds, 100 * width);
    }
    o->progress(o->progress_arg, fmin(share, 1), state);
}

static int rounds_all(struct rounds_state *s, struct sonde_err *err)
{
    const struct sonde_timing_options *o = s->o;
    double width = INFINITY;
    size_t stop_at = 0;
    int enough = 0;
    for (uint64_t i = 0; i < o->warmup; i++) {
        const int rc = rounds_round(s, 0, err);
        if (rc) return rc;
    }
    for (size_t i = 0; s->shell.argv && i < SONDE_TIMING_SHELL_RUNS; i++) {
        const int rc = rounds_run_shell(s, err);
        if (rc) return rc;
    }
    s->begin_s = sonde_clock_s(CLOCK_MONOTONIC);
    for (;;) {
        const int rc = rounds_round(s, 1, err);
        if (rc) return rc;
        if (sonde_timing_looks(s->b->rounds, o->rounds_min) && o->until > 0) {
            width = rounds_width(s);
            s->b->narrow = width <= o->until;
            enough = sonde_timing_enough(s->b->rounds, width, o->until, &stop_at);
        }
        rounds_tell(s, width);
        if (s->b->rounds >= o->rounds_max) return 0;
        if (s->b->rounds < o->rounds_min) continue;
        const double passed_s = sonde_clock_s(CLOCK_MONOTONIC) - s->begin_s;
        if (o->until <= 0 || passed_s >= o->duration_s) return 0;
        if (enough && passed_s >= o->settle_s) return 0;
    }
}

/* ---- All ------------------------------------------------------------------------------------- */

static int rounds_init(struct rounds_state *s, struct sonde_err *err)
{
    const struct sonde_timing_options *o = s->o;
    struct sonde_timing_bench *b = s->b;
    uint32_t most = 1;
    int shell = 0;
    for (size_t i = 0; i < o->parallel_count; i++) {
        if (o->parallel[i] > most) most = o->parallel[i];
    }
    for (size_t i = 0; i < o->command_count; i++) shell |= o->commands[i].shell;
    const size_t count = o->command_count * o->parallel_count;
    b->cases = sonde__calloc(count, sizeof(*b->cases));
    s->order = sonde__calloc(count + 1, sizeof(*s->order));
    s->values = sonde__calloc((size_t)o->rounds_max, sizeof(*s->values));
    if (!b->cases || !s->order || !s->values) return sonde_err_memory(err);
    b->case_count = count;
    for (size_t i = 0; i < count; i++) {
        b->cases[i].command = i / o->parallel_count;
        b->cases[i].copies = o->parallel[i % o->parallel_count];
        s->order[s->order_count++] = i;
    }
    /* Copies start their shells at the same time: what that takes of the whole is not known. */
    if (shell && most == 1) {
        s->order[s->order_count++] = ROUNDS_SHELL;
        char *const words[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char[]){ "" }, NULL };
        const int rc = sonde_timing_command_words(&s->shell, "sh", "", words, err);
        if (rc) return rc;
    }
    return sonde_spawn_init(&s->spawn, most, err);
}

int sonde_timing_run(const struct sonde_timing_options *o, struct sonde_timing_bench *b,
                     struct sonde_err *err)
{
    assert(o->command_count && o->parallel_count && o->rounds_max && o->duration_s > 0);
    assert(o->rounds_max <= SONDE_TIMING_ROUNDS_MAX);
    memset(b, 0, sizeof(*b));
    struct rounds_state s = { .o = o, .b = b, .seed = o->seed };
    const double begin_s = sonde_clock_s(CLOCK_MONOTONIC);
    int rc = rounds_init(&s, err);
    if (!rc) {
        b->counters = s.spawn.counters;
        rc = rounds_all(&s, err);
    }
    if (rc > 0) rc = 0; /* interrupted: the rounds that are complete count */
    for (size_t i = 0; i < b->case_count; i++) b->cases[i].run_count = b->rounds;
    b->elapsed_s = sonde_clock_s(CLOCK_MONOTONIC) - begin_s;
    sonde_spawn_release(&s.spawn);
    sonde_timing_command_release(&s.shell);
    sonde__free(s.order);
    sonde__free(s.values);
    return rc;
}

void sonde_timing_bench_release(struct sonde_timing_bench *b)
{
    for (size_t i = 0; i < b->case_count; i++) sonde__free(b->cases[i].runs);
    sonde__free(b->cases);
    for (int i = 0; i < 3; i++) sonde__free(b->shell_s[i]);
    memset(b, 0, sizeof(*b));
}
