/* What sampling costs: the plan that switches it off and on, driven by a program that is made up,
 * whose figures behave as real ones do, and that loses a planted share of its time while sampling
 * is on. How often the interval holds the truth is counted; all of it is the same in every run. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/own_cost_private.h"
#include "sonde/sonde.h"
#include "unit/analyze/random.h"

enum { PAIRS = 40, TICKS_MAX = 20000 };

static int runs = 200; /* SONDE_COST_RUNS */

/* ---- A program ------------------------------------------------------------------------------- */

struct program {
    double planted;            /* share of its time that is gone while sampling is on */
    double rate, phi, noise;   /* of work per second; likeness and size of what it varies by */
    double spikes;             /* share of seconds in which it hardly works */
    double load;               /* share of a CPU that it wants; 1 = it is never done */
    int heartbeat;             /* it also counts the time */
    double level;              /* what it varies by, now */
    double time_s;
    int off;                   /* sampling is */
    int turns;
    uint64_t changes;
    int wanted;                /* somebody wants every sample */
    int rc;                    /* of switching it off */
    double rate_hz;
    struct own_cost_reading now;
};

static int turn(void *arg, int off, struct sonde_err *err)
{
    struct program *p = arg;
    if (off && p->rc) return sonde_err_set(err, p->rc, "this engine cannot be switched");
    p->turns += p->off != off;
    p->off = off;
    return 0;
}

static void look(void *arg, struct sonde_sampling *out)
{
    const struct program *p = arg;
    *out = (struct sonde_sampling){ .processes = 1, .rate_hz = p->rate_hz, .off = p->off,
                                    .wanted = p->wanted, .changes = p->changes };
}

static void work_add(struct program *p, const char *name, enum sonde_own_cost_rank rank,
                     double count, double sum_s)
{
    struct own_cost_reading *r = &p->now;
    size_t i = 0;
    while (i < r->work_count && strcmp(r->works[i].name, name) != 0) i++;
    if (i == r->work_count) {
        r->work_count++;
        snprintf(r->works[i].name, sizeof(r->works[i].name), "%s", name);
        r->works[i].rank = rank;
    }
    r->done[i].count += count;
    r->done[i].sum_s += sum_s;
}

/* About a second passes. Its speed is like that of the second before, follows a rhythm of its own
 * and breaks down at times; others take CPU from it. */
static void tick(struct program *p)
{
    const double seconds = 1 + 0.003 * random_normal();
    p->level = p->phi * p->level + sqrt(1 - p->phi * p->phi) * p->noise * random_normal();
    double speed = exp(p->level + 0.05 * sin(p->time_s / 37));
    if (random_uniform() < p->spikes) speed *= 0.3;
    const double stolen = 0.02 * random_uniform();
    const double lost = p->off ? 0 : p->planted;
    double cpu_s = seconds * (1 - stolen), done = p->rate * cpu_s * speed * (1 - lost);
    if (p->load < 1) { /* what comes is done, and takes so much longer */
        done = p->rate * p->load * seconds * (1 + 0.2 * random_normal());
        cpu_s = done / (p->rate * speed * (1 - lost));
    }
    p->time_s += seconds;
    p->now.time_s = p->time_s;
    p->now.cpu_s += cpu_s;
    work_add(p, "jobs", SONDE_OWN_COST_COUNTED, done, 0);
    if (p->heartbeat) {
        work_add(p, "heartbeat", SONDE_OWN_COST_COUNTED,
                 floor(100 * p->time_s) - floor(100 * (p->time_s - seconds)), 0);
    }
}

static struct program program_make(double planted, uint64_t seed)
{
    random_state = seed * 7919;
    return (struct program){ .planted = planted, .rate = 20000, .phi = 0.9, .noise = 0.03,
                             .spikes = 0.01, .load = 1, .time_s = 1000, .rate_hz = 99 };
}

static void plan_make(struct own_cost_plan *plan, struct program *p, uint64_t seed)
{
    const struct sonde_own_cost_settings s = { .window_s = 2, .off_ratio_max = 0.1, .seed = seed };
    const struct own_cost_switch to = { turn, look, p };
    assert_int_equal(own_cost_plan_init(plan, &s, &to), 0);
}

/* Until there are so many pairs; 1 = there are. */
static int plan_run(struct own_cost_plan *plan, struct program *p, uint64_t pairs)
{
    for (int i = 0; i < TICKS_MAX && plan->cost.pair_count < pairs; i++) {
        tick(p);
        own_cost_plan_step(plan, &p->now);
    }
    return plan->cost.pair_count >= pairs;
}

/* ---- Is the truth in the interval? ----------------------------------------------------------- */

struct coverage { int held, runs; double width, mean; };

static struct coverage cover(struct program like, double planted)
{
    struct coverage c = { .runs = runs };
    for (int i = 0; i < runs; i++) {
        struct own_cost_plan plan;
        struct program p = program_make(planted, (uint64_t)i + 1);
        p.phi = like.phi;
        p.noise = like.noise;
        p.spikes = like.spikes;
        p.load = like.load;
        p.heartbeat = like.heartbeat;
        plan_make(&plan, &p, (uint64_t)i * 104729 + 17);
        /* At any number of pairs, as users look at any time. */
        assert_true(plan_run(&plan, &p, SONDE_OWN_COST_PAIRS_MIN + (uint64_t)i % PAIRS));
        assert_true(plan.has_headline);
        const struct sonde_own_cost_figure *f = &plan.figures[0];
        assert_string_equal(plan.cost.works[f->work].name, "jobs");
        c.held += f->estimate.low <= planted && planted <= f->estimate.high;
        c.width += (f->estimate.high - f->estimate.low) / 2 / runs;
        c.mean += f->estimate.ratio / runs;
        own_cost_plan_release(&plan);
    }
    return c;
}

static void test_interval_holds_truth(void **state)
{
    (void)state;
    static const struct { const char *name; struct program like; } programs[] = {
        { "busy, neighbours alike", { .phi = 0.9, .noise = 0.03, .spikes = 0.01, .load = 1 } },
        { "drifting", { .phi = 0.999, .noise = 0.2, .load = 1 } },
        { "with many outliers", { .phi = 0.5, .noise = 0.02, .spikes = 0.1, .load = 1 } },
        { "waits for requests", { .phi = 0.9, .noise = 0.03, .load = 0.4 } },
        { "with a heartbeat", { .phi = 0.9, .noise = 0.03, .load = 1, .heartbeat = 1 } },
    };
    static const double planted[] = { 0, 0.01, 0.05 };
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        for (size_t k = 0; k < sizeof(planted) / sizeof(planted[0]); k++) {
            const struct coverage c = cover(programs[i].like, planted[k]);
            printf("%-24s %g %%: %d of %d, %.3f ± %.3f %%\n", programs[i].name, 100 * planted[k],
                   c.held, c.runs, 100 * c.mean, 100 * c.width);
            assert_true(c.held * 100 >= c.runs * 93);
            assert_true(fabs(c.mean - planted[k]) < 0.2 * c.width);
        }
    }
}

/* ---- The plan -------------------------------------------------------------------------------- */

/* Time without samples: a third until there is something to say, then as the settings have it, and
 * a fifth of that when it is narrow. */
static void test_off_share(void **state)
{
    (void)state;
    struct own_cost_plan plan;
    struct program p = program_make(0, 3);
    p.noise = 0.001;
    p.spikes = 0;
    plan_make(&plan, &p, 5);
    assert_true(plan_run(&plan, &p, SONDE_OWN_COST_PAIRS_MIN));
    const double first = plan.off_s / (p.time_s - plan.began_s);
    assert_true(first > 0.25 && first < 0.45);
    const double had_s = plan.off_s, at_s = p.time_s;
    assert_true(plan_run(&plan, &p, SONDE_OWN_COST_PAIRS_MIN + 40));
    const double later = (plan.off_s - had_s) / (p.time_s - at_s);
    assert_true(later < 0.03); /* 2 %, and a pair of ticks is longer than it was asked for */
    assert_true(plan.figures[0].estimate.high - plan.figures[0].estimate.low < 0.01);
    assert_int_equal(plan.dropped, 0);
    own_cost_plan_stop(&plan, p.time_s);
    assert_int_equal(p.off, 0);
    own_cost_plan_release(&plan);
}

static void test_drops(void **state)
{
    (void)state;
    struct own_cost_plan plan;
    struct program p = program_make(0.05, 11);
    plan_make(&plan, &p, 7);
    assert_true(plan_run(&plan, &p, 3));
    /* Engines change, processes come, in the middle of a pair. */
    for (int i = 0; i < 2; i++) {
        while (plan.phase != OWN_COST_SECOND) {
            tick(&p);
            own_cost_plan_step(&plan, &p.now);
        }
        if (i) p.now.processes++;
        else p.changes++;
        while (plan.phase != OWN_COST_GAP) {
            tick(&p);
            own_cost_plan_step(&plan, &p.now);
        }
        assert_int_equal(p.off, 0);
        assert_int_equal(plan.dropped, i + 1);
    }
    assert_int_equal(plan.cost.pair_count, 3);
    /* Every sample is wanted: sampling stays on. */
    p.wanted = 1;
    p.turns = 0;
    for (int i = 0; i < 100; i++) {
        tick(&p);
        own_cost_plan_step(&plan, &p.now);
    }
    assert_int_equal(p.turns, 0);
    assert_int_equal(plan.cost.pair_count, 3);
    assert_non_null(strstr(plan.reason, "every sample"));
    p.wanted = 0;
    assert_true(plan_run(&plan, &p, 4));
    assert_string_equal(plan.reason, "");
    own_cost_plan_release(&plan);
}

static void test_refused(void **state)
{
    (void)state;
    struct own_cost_plan plan;
    struct program p = program_make(0, 13);
    p.rc = SONDE_EOFF;
    plan_make(&plan, &p, 7);
    for (int i = 0; i < 200; i++) {
        tick(&p);
        own_cost_plan_step(&plan, &p.now);
    }
    assert_int_equal(p.turns, 0);
    assert_int_equal(plan.cost.pair_count, 0);
    assert_non_null(strstr(plan.reason, "cannot be switched"));
    own_cost_plan_release(&plan);
}

/* A burst is passed over; a rate that stays is a new beginning. */
static void test_rate(void **state)
{
    (void)state;
    struct own_cost_plan plan;
    struct program p = program_make(0, 17);
    plan_make(&plan, &p, 9);
    assert_true(plan_run(&plan, &p, 5));
    p.rate_hz = 999;
    for (int i = 0; i < 30; i++) {
        tick(&p);
        own_cost_plan_step(&plan, &p.now);
    }
    assert_int_equal(plan.cost.pair_count, 5);
    p.rate_hz = 99;
    assert_true(plan_run(&plan, &p, 7));
    p.rate_hz = 999;
    for (int i = 0; i < 150; i++) {
        tick(&p);
        own_cost_plan_step(&plan, &p.now);
    }
    assert_true(plan.cost.pair_count < 5);
    assert_true(plan.rate_hz == 999);
    own_cost_plan_release(&plan);
}

/* Only a heartbeat: nothing is said, rather than 0 %. */
static void test_heartbeat_alone(void **state)
{
    (void)state;
    struct own_cost_plan plan;
    struct program p = program_make(0.05, 19);
    p.rate = 0;
    p.heartbeat = 1;
    plan_make(&plan, &p, 9);
    assert_true(plan_run(&plan, &p, 30));
    assert_false(plan.has_headline);
    own_cost_plan_release(&plan);
}

/* ---- What the program has got done ----------------------------------------------------------- */

static struct sonde_model_series *series_add(struct sonde_model *m, struct sonde_model_process *p,
                                             const char *name, enum sonde_type type,
                                             const char *unit, const char *label,
                                             const char *value)
{
    const struct sonde_model_family_spec spec = { .name = name, .type = type, .unit = unit,
                                                  .scale = type == SONDE_HISTOGRAM ? 1e-9 : 1 };
    const struct sonde_label labels[] = { { label, value } };
    struct sonde_model_series *s = sonde_model_own_series(m, &spec, p, labels, label ? 1 : 0);
    assert_non_null(s);
    return s;
}

static const struct sonde_own_cost_done *done_of(const struct own_cost_reading *r, const char *name,
                                                 int rank)
{
    for (size_t i = 0; i < r->work_count; i++) {
        if (strcmp(r->works[i].name, name) != 0) continue;
        assert_int_equal(r->works[i].rank, rank);
        return &r->done[i];
    }
    return NULL;
}

static void test_reading(void **state)
{
    (void)state;
    struct sonde_model *m;
    struct own_cost_reading r;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    struct sonde_model_process *us = sonde_model_process(m, (uint32_t)getpid(), 1, "us");
    struct sonde_model_process *ended = sonde_model_process(m, 999999, 1, "ended");
    assert_true(us && ended);
    ended->state = SONDE_PROCESS_EXITED;
    own_cost_read(m, "", &r);
    assert_int_equal(r.work_count, 0);
    assert_true(r.cpu_s > 0 && r.time_s > 0);
    const uint64_t processes = r.processes;

    series_add(m, us, "sonde_infer_tokens_total", SONDE_COUNTER, "", "type", "output")->counter = 7;
    series_add(m, us, "sonde_infer_tokens_total", SONDE_COUNTER, "", "type", "input")->counter = 90;
    series_add(m, us, "app_jobs_total", SONDE_COUNTER, "", "kind", "a")->counter = 3;
    series_add(m, us, "app_jobs_total", SONDE_COUNTER, "", "kind", "b")->counter = 4;
    series_add(m, ended, "app_jobs_total", SONDE_COUNTER, "", "kind", "a")->counter = 1000;
    series_add(m, us, "app_busy_seconds_total", SONDE_COUNTER, "seconds", NULL, NULL)->counter = 9;
    series_add(m, us, "app_level", SONDE_GAUGE, "", NULL, NULL)->gauge = 5;
    series_add(m, us, "sonde_page_faults_total", SONDE_COUNTER, "", NULL, NULL)->counter = 5;
    sonde_model_record(series_add(m, us, "gen_ai_server_request_duration_seconds", SONDE_HISTOGRAM,
                                  "seconds", NULL, NULL), 2000000000, 3);
    sonde_model_record(series_add(m, us, "sonde_span_duration_seconds", SONDE_HISTOGRAM, "seconds",
                                  "span", "parse"), 1000000, 5);
    own_cost_read(m, "", &r);
    assert_int_equal(r.work_count, 4);
    assert_true(r.processes == processes);
    const struct sonde_own_cost_done *d = done_of(&r, "output token", SONDE_OWN_COST_TOKENS);
    assert_true(d && d->count == 7 && d->sum_s == 0);
    d = done_of(&r, "request", SONDE_OWN_COST_REQUESTS);
    assert_true(d && d->count == 3 && fabs(d->sum_s - 6) < 1e-9);
    d = done_of(&r, "span parse", SONDE_OWN_COST_TIMED);
    assert_true(d && d->count == 5 && fabs(d->sum_s - 0.005) < 1e-12);
    d = done_of(&r, "app_jobs_total", SONDE_OWN_COST_COUNTED);
    assert_true(d && d->count == 7); /* of the process that runs */
    own_cost_read(m, "app_busy_seconds_total", &r); /* who names it knows */
    assert_int_equal(r.work_count, 1);
    assert_non_null(done_of(&r, "app_busy_seconds_total", SONDE_OWN_COST_NAMED));
    /* What the front counts is of no process: only who names it knows whose it is. */
    struct sonde_model_series *front =
        series_add(m, NULL, "sonde_infer_tokens_total", SONDE_COUNTER, "", "type", "output");
    front->counter = 5;
    own_cost_read(m, "", &r);
    d = done_of(&r, "output token", SONDE_OWN_COST_TOKENS);
    assert_true(d && d->count == 7);
    own_cost_read(m, "sonde_infer_tokens_total", &r);
    d = done_of(&r, "output token", SONDE_OWN_COST_NAMED);
    assert_true(d && d->count == 12);
    ended->state = SONDE_PROCESS_RUNNING; /* which nobody can ask for its CPU time */
    own_cost_read(m, "", &r);
    assert_true(isnan(r.cpu_s) && r.processes != processes);
    sonde_model_destroy(m);
}

int main(void)
{
    const char *more = getenv("SONDE_COST_RUNS");
    if (more && atoi(more) > 0) runs = atoi(more);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval_holds_truth),
        cmocka_unit_test(test_off_share),
        cmocka_unit_test(test_drops),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_heartbeat_alone),
        cmocka_unit_test(test_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
