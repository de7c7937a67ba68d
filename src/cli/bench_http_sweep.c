/* bench_http_sweep.c - `sonde bench http --sweep` and `--find max-rate`: several loads, a table of
 * them, and the point that matters. Each load has a seed of its own, made of the given one, so that
 * no prompt of one is in the server's cache for the next. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/visible.h"
#include "bench/http/sweep.h"
#include "cli/bench_http.h"
#include "cli/bench_http_both.h"
#include "present/table.h"
#include "present/units.h"
#include "sonde/sonde.h"

#define POINT_DURATION_S 15.0
#define FIND_POINT_MAX_S 600.0
#define FIND_LONGER 3          /* times that a point which is not decided is made longer */

struct sweep_state {
    struct bench_http *b;
    struct sonde_load_sweep sweep;
    struct sonde_load_find find;      /* of --find */
    const char *unit;                 /* "concurrency" or "requests/s" */
};

/* One load of so much; result: where its figures go. */
static int sweep_point(struct sweep_state *s, double load, double duration_s,
                       struct sonde_load_bench *bench, struct sonde_bench_result *result)
{
    struct bench_http *b = s->b;
    char what[64];
    const uint64_t seed = b->v->seed ? b->v->seed : 1;
    b->plan.seed = (sonde_hash_u64(seed + s->sweep.count * SONDE_HASH_MUL) >> 11) | 1;
    if (s->sweep.open) {
        b->plan.arrival.stages[0].begin_rate = b->plan.arrival.stages[0].end_rate = load;
    } else {
        b->plan.concurrency = (uint32_t)load;
    }
    b->plan.duration_s = duration_s;
    snprintf(what, sizeof(what), "%s %.4g to", s->unit, load);
    const int status = bench_http_once(b, what, bench, result);
    if (!status) sonde_load_sweep_add(&s->sweep, load, bench, result);
    return status;
}

static double sweep_duration(const struct bench_http *b)
{
    return b->plan.duration_s > 0 ? b->plan.duration_s : POINT_DURATION_S;
}

/* "1,2,4": the loads; 0 = none, it is told. */
static size_t sweep_list(const struct bench_http *b, const char *text, int open, double *out)
{
    size_t n = 0;
    for (const char *at = text; *at && n < SONDE_LOAD_SWEEP_MAX;) {
        char number[32];
        const size_t len = strcspn(at, ",");
        snprintf(number, sizeof(number), "%.*s", (int)(len < 31 ? len : 31), at);
        if (sonde_cli_number(number, &out[n]) || !(out[n] > 0) || out[n] > 1e6 ||
            (!open && out[n] != floor(out[n]))) {
            sonde_cli_usage(b->cli, "--sweep: '%s' is not a %s: say --sweep=1,2,4,8", number,
                            open ? "rate" : "concurrency");
            return 0;
        }
        n++;
        at += len + (at[len] == ',');
    }
    return n;
}

/* ---- Shown ----------------------------------------------------------------------------------- */

static void sweep_cell(struct sonde_table *t, size_t column, double v, enum sonde_unit u, int ascii)
{
    char text[SONDE_VALUE_BYTES];
    sonde_table_cell(t, column, "%s", sonde_value_format(text, v, u, ascii));
}

static void sweep_table(const struct sweep_state *s, int width, int ascii, struct sonde_buf *out)
{
    const int slo = sonde_load_slo_any(&s->b->plan.slo);
    const struct sonde_column columns[] = {
        { .title = s->unit, .align = SONDE_RIGHT }, { .title = "req/s", .align = SONDE_RIGHT },
        { .title = "tokens/s", .align = SONDE_RIGHT },
        { .title = "TTFT p50", .align = SONDE_RIGHT },
        { .title = "p95", .align = SONDE_RIGHT }, { .title = "ITL p50", .align = SONDE_RIGHT },
        { .title = "e2e p50", .align = SONDE_RIGHT }, { .title = "p95", .align = SONDE_RIGHT },
        { .title = slo ? "good" : "", .align = SONDE_RIGHT },
        { .title = "errors", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "", .align = SONDE_LEFT, .max = 60, .drop = 2 },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < s->sweep.count; i++) {
        const struct sonde_load_point *p = &s->sweep.points[i];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%.4g", p->load);
        sweep_cell(&t, 1, p->requests_per_s, SONDE_UNIT_COUNT, ascii);
        sweep_cell(&t, 2, p->output_per_s, SONDE_UNIT_COUNT, ascii);
        sweep_cell(&t, 3, p->ttft_p50_s, SONDE_UNIT_SECONDS, ascii);
        sweep_cell(&t, 4, p->ttft_p95_s, SONDE_UNIT_SECONDS, ascii);
        sweep_cell(&t, 5, p->itl_p50_s, SONDE_UNIT_SECONDS, ascii);
        sweep_cell(&t, 6, p->e2e_p50_s, SONDE_UNIT_SECONDS, ascii);
        sweep_cell(&t, 7, p->e2e_p95_s, SONDE_UNIT_SECONDS, ascii);
        if (slo) sweep_cell(&t, 8, p->good_ratio, SONDE_UNIT_RATIO, ascii);
        sweep_cell(&t, 9, p->failed_ratio, SONDE_UNIT_RATIO, ascii);
        sonde_table_cell(&t, 10, "%s", (int)i == s->sweep.knee ? "<- knee"
                                       : p->behind             ? "the server falls behind"
                                       : p->valid              ? "" : "not valid");
    }
    sonde_table_render(&t, width, ascii, out);
    sonde_table_release(&t);
}

static void sweep_text(const struct sonde_bench_result *r, const struct sonde_bench_view *v,
                       struct sonde_buf *out, void *arg)
{
    const struct sweep_state *s = arg;
    const struct bench_http *b = s->b;
    if (v->markdown) sonde_buf_puts(out, "```\n");
    sonde_buf_printf(out, "%s  %s%s%s\n\n", b->target.url, sonde_load_api_name(b->target.api),
                     b->target.model[0] ? ", model " : "", b->target.model);
    sweep_table(s, v->width ? v->width : 0, v->ascii, out);
    sonde_buf_putc(out, '\n');
    if (b->v->find && s->find.passed > 0) {
        sonde_buf_printf(out, "highest rate that meets %s for %.3g %% of requests: %.4g requests/s",
                         b->v->slo, 100 * b->share, s->find.passed);
        if (s->find.failed > 0) sonde_buf_printf(out, "; %.4g does not", s->find.failed);
        sonde_buf_putc(out, '\n');
    } else if (b->v->find) {
        sonde_buf_printf(out, "no rate was found that meets %s for %.3g %% of requests%s\n",
                         b->v->slo, 100 * b->share,
                         s->find.failed > 0 ? "; the lowest tried does not" : "");
    } else if (s->sweep.knee >= 0) {
        sonde_buf_printf(out, "knee: %s %.4g; %s\n", s->unit, s->sweep.points[s->sweep.knee].load,
                         s->sweep.saturated ? "behind it the server is saturated"
                                            : "the server was not saturated: go on with more");
    }
    sonde_buf_printf(out, "verdict: %s\n", r->reason_count ? "NOT VALID" : "valid");
    for (size_t i = 0; i < r->reason_count; i++) sonde_buf_printf(out, "  - %s\n", r->reasons[i]);
    if (v->markdown) sonde_buf_puts(out, "```\n");
}

static void sweep_json(const struct sweep_state *s, struct sonde_bench_result *r)
{
    struct sonde_buf *out = &r->extra;
    sonde_json_key_open(out, s->b->v->find ? "find" : "sweep", '{');
    sonde_json_str(out, "by", s->sweep.open ? "rate" : "concurrency");
    sonde_json_bool(out, "saturated", s->sweep.saturated);
    sonde_json_num(out, "knee", s->sweep.knee >= 0 ? s->sweep.points[s->sweep.knee].load : NAN);
    if (s->b->v->find) {
        sonde_json_num(out, "max_rate", s->find.passed > 0 ? s->find.passed : NAN);
        sonde_json_num(out, "failed_rate", s->find.failed > 0 ? s->find.failed : NAN);
        sonde_json_num(out, "share", s->b->share);
    }
    sonde_json_key_open(out, "points", '[');
    for (size_t i = 0; i < s->sweep.count; i++) {
        const struct sonde_load_point *p = &s->sweep.points[i];
        sonde_json_open(out, '{');
        sonde_json_num(out, "load", p->load);
        sonde_json_num(out, "requests_per_s", p->requests_per_s);
        sonde_json_num(out, "output_tokens_per_s", p->output_per_s);
        sonde_json_num(out, "sent_per_s", p->sent_per_s);
        sonde_json_num(out, "ttft_p50_s", p->ttft_p50_s);
        sonde_json_num(out, "ttft_p95_s", p->ttft_p95_s);
        sonde_json_num(out, "itl_p50_s", p->itl_p50_s);
        sonde_json_num(out, "e2e_p50_s", p->e2e_p50_s);
        sonde_json_num(out, "e2e_p95_s", p->e2e_p95_s);
        sonde_json_num(out, "good_ratio", p->good_ratio);
        sonde_json_num(out, "good_low", p->good_low);
        sonde_json_num(out, "good_high", p->good_high);
        sonde_json_num(out, "failed_ratio", p->failed_ratio);
        sonde_json_bool(out, "behind", p->behind);
        sonde_json_bool(out, "valid", p->valid);
        sonde_json_str(out, "reason", p->reason[0] ? p->reason : NULL);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

/* The figures of the whole are those of the point that matters, kept as it was measured. */
struct sweep_best {
    struct sonde_bench_result result;
    struct sonde_load_bench bench;
    int there;
};

static void sweep_keep(struct sweep_best *best, struct sonde_bench_result *r,
                       struct sonde_load_bench *b)
{
    if (best->there) {
        sonde_bench_result_release(&best->result);
        sonde_load_bench_release(&best->bench);
    }
    best->result = *r;
    best->bench = *b;
    best->there = 1;
}

static int sweep_finish(struct sweep_state *s, struct sweep_best *best, int status)
{
    struct bench_http *b = s->b;
    if (!status && !best->there) {
        status = sonde_cli_fail(b->cli, "no request succeeded: %s",
                                s->sweep.count ? s->sweep.points[0].reason : "none was sent");
    }
    if (!status) {
        if (b->interrupted) sonde_bench_result_doubt(&best->result, "it was interrupted");
        b->plan.seed = best->result.seed;
        bench_http_command(b, &best->result);
        sonde_load_bench_json(&b->plan, &best->bench, &best->result);
        sweep_json(s, &best->result);
        status = sonde_cli_bench_finish(b->cli, &b->out, &best->result, sweep_text, s);
    }
    if (best->there) {
        sonde_bench_result_release(&best->result);
        sonde_load_bench_release(&best->bench);
    }
    return status;
}

int bench_http_sweep(struct bench_http *b)
{
    struct sweep_state s = { .b = b };
    struct sweep_best best = { .there = 0 };
    double loads[SONDE_LOAD_SWEEP_MAX];
    const int automatic = !strcmp(b->v->sweep, "auto");
    s.sweep.open = b->plan.arrival.stage_count > 0;
    s.unit = s.sweep.open ? "requests/s" : "concurrency";
    if (b->plan.replay || b->v->stages || b->v->ramp) {
        return sonde_cli_usage(b->cli, "--sweep changes the load itself: leave out --replay, "
                               "--stages and --ramp");
    }
    const size_t count = automatic ? SONDE_LOAD_SWEEP_MAX
                                   : sweep_list(b, b->v->sweep, s.sweep.open, loads);
    if (!count) return SONDE_EXIT_USAGE;
    double load = s.sweep.open ? b->v->rate : b->plan.concurrency ? b->plan.concurrency : 1;
    const double duration_s = b->plan.requests && !(b->plan.duration_s > 0) ? 0 : sweep_duration(b);
    int status = SONDE_EXIT_OK;
    for (size_t i = 0; i < count && !status && !b->interrupted; i++) {
        struct sonde_load_bench bench;
        struct sonde_bench_result result;
        sonde_bench_result_init(&result, "http", NULL);
        status = sweep_point(&s, automatic ? load : loads[i], duration_s, &bench, &result);
        if (status) {
            sonde_bench_result_release(&result);
            break;
        }
        sonde_load_sweep_knee(&s.sweep);
        if (s.sweep.knee == (int)s.sweep.count - 1) {
            sweep_keep(&best, &result, &bench);
        } else {
            sonde_bench_result_release(&result);
            sonde_load_bench_release(&bench);
        }
        s.sweep.saturated = sonde_load_sweep_saturated(&s.sweep);
        const struct sonde_load_point *last = &s.sweep.points[s.sweep.count - 1];
        if (automatic && (s.sweep.saturated || !(last->requests_per_s > 0))) break;
        load *= 2;
        if (load > 100000) break;
    }
    return sweep_finish(&s, &best, status);
}

/* One rate, longer each time until it is decided. */
static int find_rate(struct sweep_state *s, struct sweep_best *best, enum sonde_load_answer *answer)
{
    struct bench_http *b = s->b;
    /* A share of 95 % needs 72 requests that are all good, to be sure of; some will not be. */
    const double needed = 3 * log(0.025) / log(b->share), given = sweep_duration(b);
    double duration_s = fmin(fmax(given, needed / s->find.next), FIND_POINT_MAX_S);
    int status = SONDE_EXIT_OK;
    *answer = SONDE_LOAD_UNDECIDED;
    for (int k = 0; k < FIND_LONGER && *answer == SONDE_LOAD_UNDECIDED && !status; k++) {
        struct sonde_load_bench bench;
        struct sonde_bench_result result;
        if (s->sweep.count >= SONDE_LOAD_SWEEP_MAX || b->interrupted) break;
        sonde_bench_result_init(&result, "http", NULL);
        status = sweep_point(s, s->find.next, duration_s, &bench, &result);
        b->plan.duration_s = given; /* for the next rate */
        if (status) {
            sonde_bench_result_release(&result);
            break;
        }
        *answer = sonde_load_find_judge(&s->sweep.points[s->sweep.count - 1], b->share);
        if (*answer == SONDE_LOAD_PASSED || !best->there) {
            sweep_keep(best, &result, &bench);
        } else {
            sonde_bench_result_release(&result);
            sonde_load_bench_release(&bench);
        }
        duration_s *= 2;
    }
    return status;
}

int bench_http_find(struct bench_http *b)
{
    struct sweep_state s = { .b = b, .unit = "requests/s" };
    struct sweep_best best = { .there = 0 };
    if (!sonde_load_slo_any(&b->plan.slo)) {
        return sonde_cli_usage(b->cli, "--find needs --slo: what has to be met, as ttft<500ms");
    }
    if (b->plan.replay || b->v->stages || b->v->ramp || b->v->concurrency || b->v->sweep) {
        return sonde_cli_usage(b->cli, "--find changes the rate itself: leave out --replay, "
                               "--stages, --ramp, --sweep and --concurrency");
    }
    if (!b->plan.arrival.stage_count &&
        sonde_load_arrival_stage(&b->plan.arrival, 1, 1, INFINITY)) {
        return sonde_cli_fail(b->cli, "out of memory");
    }
    s.sweep.open = 1;
    sonde_load_find_begin(&s.find, b->v->rate > 0 ? b->v->rate : 1);
    int status = SONDE_EXIT_OK;
    while (s.find.next > 0 && !status && !b->interrupted) {
        enum sonde_load_answer answer;
        status = find_rate(&s, &best, &answer);
        if (!status && !b->interrupted) sonde_load_find_told(&s.find, answer);
        if (s.sweep.count >= SONDE_LOAD_SWEEP_MAX) break;
    }
    sonde_load_sweep_knee(&s.sweep);
    s.sweep.saturated = s.find.failed > 0;
    if (!status && s.find.passed > 0 && best.there) {
        struct sonde_bench_figure *f = sonde_bench_figure_add(&best.result, "max_rate", "1/s", 1);
        if (f) {
            f->value = s.find.passed;
            f->low = s.find.passed;
            f->high = s.find.failed > 0 ? s.find.failed : NAN;
        }
    } else if (!status && best.there) {
        sonde_bench_result_doubt(&best.result, "no rate was found that meets the objectives");
    }
    return sweep_finish(&s, &best, status);
}
