/* own_cost_control.c - see own_cost_control.h: the thread that switches, and how ticks come to
 * it. */
#include "agent/own_cost_control.h"

#include <assert.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/own_cost_private.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "sonde/sonde.h"

#define DIRECT_S 10.0  /* between looks at what a sample takes */
#define EARLY_S 0.02   /* what the plan thinks is early is no matter, as long as it is asked */

/* ---- The profiler as a switch ---------------------------------------------------------------- */

/* For tests of the whole: a program that is told whether it is sampled can lose a known share of
 * its time to that. The first byte of the file, which must exist, is '0' while sampling is off. */
static void own_cost_flag(int off)
{
    const char *path = getenv("SONDE_OWN_COST_FLAG");
    const int fd = path && *path ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    const ssize_t n = pwrite(fd, off ? "0" : "1", 1, 0);
    (void)n; /* then the test fails */
    close(fd);
}

static int own_cost_turn(void *arg, int off, struct sonde_err *err)
{
    const int rc = sonde_profiler_switch(arg, off, err);
    if (!rc) own_cost_flag(off);
    return rc;
}

static void own_cost_look(void *arg, struct sonde_sampling *out)
{
    sonde_profiler_sampling(arg, out);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* The estimate that needs no comparison. */
static void own_cost_direct(struct sonde_own_cost_control *c)
{
    struct own_cost_direct d = { .ratio = NAN, .sample_s = NAN };
    if (c->o.continuous) {
        sonde_continuous_cost(c->o.continuous, &d.ratio, &d.sample_s, d.why, sizeof(d.why));
    }
    sonde_lock(&c->lock);
    c->direct = d;
    sonde_unlock(&c->lock);
}

static void own_cost_publish(struct sonde_own_cost_control *c)
{
    sonde_lock(&c->lock);
    c->shown = c->plan;
    c->shown.cost.pairs = NULL;
    c->shown.cost.scratch = NULL;
    c->due_s = c->plan.until_s;
    sonde_unlock(&c->lock);
}

static void *own_cost_work(void *arg)
{
    struct sonde_own_cost_control *c = arg;
    struct own_cost_reading *r = &c->plan.next;
    double direct_s = 0;
    sonde_lock(&c->lock);
    while (!c->worker.stopping) {
        if (!c->is_new) {
            sonde_cond_wait(&c->wake, &c->lock);
            continue;
        }
        *r = c->reading;
        c->is_new = 0;
        sonde_unlock(&c->lock);
        const int added = own_cost_plan_step(&c->plan, r);
        const int due = r->time_s >= direct_s + DIRECT_S;
        if (due) {
            own_cost_direct(c);
            direct_s = r->time_s;
        }
        own_cost_publish(c);
        if (added || due) own_cost_show(c);
        sonde_lock(&c->lock);
    }
    sonde_unlock(&c->lock);
    own_cost_plan_stop(&c->plan, sonde_clock_s(CLOCK_MONOTONIC));
    own_cost_publish(c);
    return NULL;
}

void sonde_own_cost_tick(struct sonde_model *m, struct sonde_own_cost_control *c)
{
    if (!c) return;
    sonde_assert_held_write(&m->lock);
    const double now_s = sonde_clock_s(CLOCK_MONOTONIC);
    sonde_lock(&c->lock);
    /* Once in a while in any case: the thread has other things to look at. */
    const int due = now_s >= c->due_s - EARLY_S || now_s >= c->reading.time_s + DIRECT_S;
    if (!c->worker.stopping && due) {
        own_cost_read(m, c->o.settings.work, &c->reading);
        c->is_new = 1;
        sonde_cond_broadcast(&c->wake);
    }
    sonde_unlock(&c->lock);
}

/* ---- Life ------------------------------------------------------------------------------------ */

int sonde_own_cost_create(const struct sonde_own_cost_options *o,
                          struct sonde_own_cost_control **out, struct sonde_err *err)
{
    assert(o->collector && o->profiler && out);
    struct sonde_own_cost_control *c = sonde__calloc(1, sizeof(*c));
    if (!c) return sonde_err_set(err, SONDE_ENOMEM, "no memory to measure what sonde costs");
    c->o = *o;
    struct sonde_own_cost_settings *s = &c->o.settings;
    if (!s->seed && getrandom(&s->seed, sizeof(s->seed), GRND_NONBLOCK) != sizeof(s->seed)) {
        s->seed = sonde_clock_ns(CLOCK_REALTIME) ^ (uint64_t)getpid();
    }
    const struct own_cost_switch to = { own_cost_turn, own_cost_look, o->profiler };
    sonde_lock_init(&c->lock, SONDE_RANK_OWN_COST);
    sonde_cond_init(&c->wake);
    c->direct = (struct own_cost_direct){ .ratio = NAN, .sample_s = NAN };
    int rc = own_cost_plan_init(&c->plan, s, &to);
    if (!rc) {
        own_cost_publish(c);
        c->due_s = 0;
        sonde_lock(&c->lock);
        rc = sonde_worker_start(&c->worker, "sonde-cost", own_cost_work, c);
        sonde_unlock(&c->lock);
    }
    if (rc) {
        sonde_own_cost_destroy(c);
        return sonde_err_set(err, rc, "no memory to measure what sonde costs");
    }
    sonde_profiler_annotate(o->profiler, sonde_own_cost_annotate, c);
    *out = c;
    return 0;
}

void sonde_own_cost_stop(struct sonde_own_cost_control *c)
{
    if (c) sonde_worker_stop(&c->worker, &c->lock, &c->wake);
}

void sonde_own_cost_destroy(struct sonde_own_cost_control *c)
{
    if (!c) return;
    sonde_own_cost_stop(c);
    sonde_profiler_annotate(c->o.profiler, NULL, NULL);
    own_cost_plan_release(&c->plan);
    own_cost_series_free(c->series);
    sonde_cond_destroy(&c->wake);
    sonde_lock_destroy(&c->lock);
    sonde__free(c);
}
