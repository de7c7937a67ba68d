/* report.c - from rounds to rows, and to a result: see report.h. text.c writes them for people. */
#include "bench/cmd/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "base/json.h"
#include "base/strip.h"
#include "sonde/sonde.h"

/* Name, unit and which is better of a metric. */
static const struct {
    const char *name, *unit;
    int better;
} report_metrics[SONDE_TIMING_METRICS] = {
    [SONDE_TIMING_WALL] = { "wall_s", "s", -1 },
    [SONDE_TIMING_USER] = { "user_s", "s", -1 },
    [SONDE_TIMING_SYSTEM] = { "system_s", "s", -1 },
    [SONDE_TIMING_RSS] = { "rss_bytes", "bytes", -1 },
    [SONDE_TIMING_FAULTS_MAJOR] = { "faults_major", "", -1 },
    [SONDE_TIMING_FAULTS_MINOR] = { "faults_minor", "", -1 },
    [SONDE_TIMING_VOLUNTARY] = { "switches_voluntary", "", 0 },
    [SONDE_TIMING_INVOLUNTARY] = { "switches_involuntary", "", 0 },
    [SONDE_TIMING_READ] = { "read_bytes", "bytes", 0 },
    [SONDE_TIMING_WAITED] = { "waited_s", "s", 0 },
    [SONDE_TIMING_INSTRUCTIONS] = { "instructions", "", -1 },
    [SONDE_TIMING_CYCLES] = { "cycles", "", -1 },
};

/* ---- Rows ------------------------------------------------------------------------------------ */

/* What the shell's own time may be off by. */
static double report_shell_half(const struct sonde_timing_bench *b, int shell)
{
    if (!shell || b->shell_count < 2) return 0;
    const struct sonde_estimate e = sonde_timing_mean(b->shell_s[0], b->shell_count);
    const double half = sonde_timing_half(&e);
    return isfinite(half) ? half : 0;
}

static int report_row(struct sonde_timing_report *r, size_t which, double *work)
{
    struct sonde_timing_row *row = &r->rows[which];
    const size_t n = r->b->rounds;
    row->of = &r->b->cases[which];
    row->walls = sonde__calloc(n, sizeof(*row->walls));
    if (!row->walls) return SONDE_ENOMEM;
    sonde_timing_values(r->o, r->b, row->of, SONDE_TIMING_WALL, row->walls);
    row->mean = sonde_timing_mean(row->walls, n);
    row->half = hypot(sonde_timing_half(&row->mean),
                      report_shell_half(r->b, r->o->commands[row->of->command].shell));
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        squares += (row->walls[i] - row->mean.value) * (row->walls[i] - row->mean.value);
        row->rss_floor += row->of->runs[i].rss_floor;
    }
    row->rss_floor = (size_t)row->rss_floor * 2 > n;
    row->deviation = n > 1 ? sqrt(squares / (double)(n - 1)) : NAN;
    for (int m = 0; m < SONDE_TIMING_METRICS; m++) {
        sonde_timing_values(r->o, r->b, row->of, (enum sonde_timing_metric)m, work);
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += work[i];
        row->metric[m] = sum / (double)n;
    }
    memcpy(work, row->walls, n * sizeof(*work));
    qsort(work, n, sizeof(*work), sonde_cmp_double);
    row->least = work[0];
    row->most = work[n - 1];
    row->median = n % 2 ? work[n / 2] : (work[n / 2 - 1] + work[n / 2]) / 2;
    return sonde_timing_outliers(row->of->runs, row->walls, n, &row->outliers, &row->outlier_count);
}

/* Each beside the fastest with as many copies. */
static void report_compare(struct sonde_timing_report *r)
{
    const size_t commands = r->o->command_count, step = r->o->parallel_count;
    for (size_t p = 0; p < step; p++) {
        size_t fastest = p;
        for (size_t c = 1; c < commands; c++) {
            if (r->rows[c * step + p].mean.value < r->rows[fastest].mean.value) {
                fastest = c * step + p;
            }
        }
        for (size_t c = 0; c < commands; c++) {
            struct sonde_timing_row *row = &r->rows[c * step + p];
            row->reference = fastest;
            /* The fastest was not chosen beforehand: it might have been any pair. */
            row->ratio = sonde_timing_compare(r->rows[fastest].walls, row->walls, r->b->rounds,
                                              commands * (commands - 1) / 2);
        }
    }
}

static int report_scaling(struct sonde_timing_report *r)
{
    const size_t step = r->o->parallel_count;
    for (size_t c = 0; c < r->o->command_count; c++) {
        struct sonde_usl_point points[SONDE_TIMING_PARALLEL_MAX];
        for (size_t p = 0; p < step; p++) {
            const struct sonde_timing_row *row = &r->rows[c * step + p];
            const double copies = (double)row->of->copies, mean = row->mean.value;
            points[p] = (struct sonde_usl_point){ .n = copies, .throughput = copies / mean,
                                                  .se = copies / mean * row->mean.se_high / mean,
                                                  .df = row->mean.df };
        }
        const int rc = sonde_usl_fit(points, step, r->o->seed, &r->scaling[c].usl);
        if (rc == SONDE_ENOMEM) return rc;
        r->scaling[c].known = rc == 0;
    }
    return 0;
}

int sonde_timing_report_init(struct sonde_timing_report *r, const struct sonde_timing_options *o,
                             const struct sonde_timing_bench *b)
{
    memset(r, 0, sizeof(*r));
    r->o = o;
    r->b = b;
    if (!b->rounds) return 0;
    double *work = sonde__calloc(b->rounds, sizeof(*work));
    r->rows = sonde__calloc(b->case_count, sizeof(*r->rows));
    r->scaling = sonde__calloc(o->command_count, sizeof(*r->scaling));
    int rc = work && r->rows && r->scaling ? 0 : SONDE_ENOMEM;
    for (size_t i = 0; i < b->case_count && !rc; i++) rc = report_row(r, i, work);
    if (!rc) report_compare(r);
    if (!rc) rc = report_scaling(r);
    sonde__free(work);
    return rc;
}

void sonde_timing_report_release(struct sonde_timing_report *r)
{
    for (size_t i = 0; r->rows && i < r->b->case_count; i++) {
        sonde__free(r->rows[i].walls);
        sonde__free(r->rows[i].outliers);
    }
    sonde__free(r->rows);
    sonde__free(r->scaling);
    memset(r, 0, sizeof(*r));
}

enum sonde_timing_verdict sonde_timing_verdict(const struct sonde_timing_report *r, size_t row)
{
    const struct sonde_timing_row *w = &r->rows[row];
    if (w->reference == row) return SONDE_TIMING_FASTEST;
    if (isnan(w->ratio.p)) return SONDE_TIMING_NOT_KNOWN;
    return w->ratio.p <= 0.05 ? SONDE_TIMING_SLOWER : SONDE_TIMING_NO_DIFFERENCE;
}

/* ---- Figures --------------------------------------------------------------------------------- */

/* "NAME.wall_s", or with several numbers of copies "NAME.parallel_4.wall_s". */
static struct sonde_bench_figure *report_case_figure(const struct sonde_timing_report *r,
                                                     size_t row, const char *what,
                                                     const char *unit, int better,
                                                     struct sonde_bench_result *out)
{
    const struct sonde_timing_case *c = r->rows[row].of;
    char name[SONDE_TIMING_NAME_MAX + 64], copies[32] = "";
    if (r->o->parallel_count > 1) snprintf(copies, sizeof(copies), "parallel_%u.", c->copies);
    snprintf(name, sizeof(name), "%s.%s%s", r->o->commands[c->command].name, copies, what);
    return sonde_bench_figure_add(out, name, unit, better);
}

static int report_figures_of(const struct sonde_timing_report *r, size_t which, double *work,
                             struct sonde_bench_result *out)
{
    const struct sonde_timing_row *row = &r->rows[which];
    for (int m = 0; m < SONDE_TIMING_METRICS; m++) {
        /* A bound is no figure: it would be compared with others. */
        if (isnan(row->metric[m]) || (m == SONDE_TIMING_RSS && row->rss_floor)) continue;
        struct sonde_bench_figure *f = report_case_figure(r, which, report_metrics[m].name,
                                                          report_metrics[m].unit,
                                                          report_metrics[m].better, out);
        sonde_timing_values(r->o, r->b, row->of, (enum sonde_timing_metric)m, work);
        if (!f || sonde_bench_figure_parts(f, work, r->b->rounds)) return SONDE_ENOMEM;
        const struct sonde_estimate e = sonde_timing_mean(work, r->b->rounds);
        const double half = m == SONDE_TIMING_WALL ? row->half : sonde_timing_half(&e);
        f->value = e.value;
        f->samples = r->b->rounds;
        if (isfinite(half)) {
            f->low = fmax(e.value - half, 0);
            f->high = e.value + half;
        }
    }
    if (r->o->parallel_count == 1) return 0;
    struct sonde_bench_figure *f = report_case_figure(r, which, "throughput_per_s", "1/s", 1, out);
    if (!f) return SONDE_ENOMEM;
    const double copies = (double)row->of->copies;
    f->value = copies / row->mean.value;
    f->samples = r->b->rounds;
    if (isfinite(row->half) && row->half < row->mean.value) {
        f->low = copies / (row->mean.value + row->half);
        f->high = copies / (row->mean.value - row->half);
    }
    return 0;
}

static int report_doubts(const struct sonde_timing_report *r, struct sonde_bench_result *out)
{
    int rc = 0;
    if (r->b->interrupted) rc = sonde_bench_result_doubt(out, "interrupted after %zu rounds",
                                                         r->b->rounds);
    for (size_t i = 0; i < r->b->case_count && !rc; i++) {
        const struct sonde_timing_case *c = &r->b->cases[i];
        const char *name = r->o->commands[c->command].name;
        if (c->failures) {
            rc = sonde_bench_result_doubt(out, "'%s' failed in %llu runs", name,
                                          (unsigned long long)c->failures);
        }
    }
    if (!rc && r->o->until > 0 && !r->b->narrow && r->b->rounds && !r->b->interrupted) {
        rc = sonde_bench_result_doubt(out, "not every mean is known to ±%g %% after %zu rounds: "
                                      "give it more time (--duration, --max-runs) or a wider "
                                      "--until",
                                      100 * r->o->until, r->b->rounds);
    }
    return rc;
}

/* ---- Members --------------------------------------------------------------------------------- */

static void report_json_row(const struct sonde_timing_row *row, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_u64(out, "copies", row->of->copies);
    sonde_json_key_open(out, "wall_s", '{');
    sonde_json_num(out, "mean", row->mean.value);
    sonde_json_num(out, "low", isfinite(row->half) ? fmax(row->mean.value - row->half, 0) : NAN);
    sonde_json_num(out, "high", isfinite(row->half) ? row->mean.value + row->half : NAN);
    sonde_json_num(out, "stddev", row->deviation);
    sonde_json_num(out, "median", row->median);
    sonde_json_num(out, "min", row->least);
    sonde_json_num(out, "max", row->most);
    sonde_json_close(out, '}');
    sonde_json_num(out, "throughput_per_s", (double)row->of->copies / row->mean.value);
    sonde_json_bool(out, "rss_is_upper_bound", row->rss_floor);
    sonde_json_u64(out, "failures", row->of->failures);
    sonde_json_key_open(out, "outliers", '[');
    for (size_t i = 0; i < row->outlier_count; i++) {
        sonde_json_open(out, '{');
        sonde_json_u64(out, "run", row->outliers[i].run + 1);
        sonde_json_num(out, "wall_s", row->outliers[i].wall_s);
        sonde_json_num(out, "relative", row->outliers[i].relative);
        sonde_json_str(out, "reason", row->outliers[i].reason);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

static void report_json_range(struct sonde_buf *out, const char *key,
                              const struct sonde_usl_range *v)
{
    sonde_json_key_open(out, key, '{');
    sonde_json_num(out, "value", v->value);
    sonde_json_num(out, "low", v->low);
    sonde_json_num(out, "high", v->high);
    sonde_json_close(out, '}');
}

static void report_json_scaling(const struct sonde_usl *u, struct sonde_buf *out)
{
    sonde_json_key_open(out, "scaling", '{');
    report_json_range(out, "single_per_s", &u->single);
    report_json_range(out, "contention", &u->contention);
    report_json_range(out, "coherence", &u->coherence);
    report_json_range(out, "best_parallel", &u->best_n);
    sonde_json_num(out, "best_throughput_per_s", u->best_throughput);
    sonde_json_num(out, "r2", u->r2);
    sonde_json_close(out, '}');
}

static void report_json_commands(const struct sonde_timing_report *r, struct sonde_buf *out)
{
    sonde_json_key_open(out, "commands", '[');
    for (size_t c = 0; c < r->o->command_count; c++) {
        const struct sonde_timing_command *command = &r->o->commands[c];
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", command->name);
        sonde_json_str(out, "command", sonde_strip_on() ? NULL : command->text);
        sonde_json_bool(out, "shell", command->shell);
        sonde_json_u64(out, "rounds", r->b->rounds);
        sonde_json_key_open(out, "parallel", '[');
        for (size_t p = 0; p < r->o->parallel_count; p++) {
            report_json_row(&r->rows[c * r->o->parallel_count + p], out);
        }
        sonde_json_close(out, ']');
        if (r->scaling[c].known) report_json_scaling(&r->scaling[c].usl, out);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void report_json_comparison(const struct sonde_timing_report *r, struct sonde_buf *out)
{
    static const char *const words[] = { "fastest", "slower", "no difference seen", "not known" };
    sonde_json_key_open(out, "comparison", '[');
    for (size_t i = 0; i < r->b->case_count && r->o->command_count > 1; i++) {
        const struct sonde_timing_row *row = &r->rows[i];
        if (row->reference == i) continue;
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", r->o->commands[row->of->command].name);
        sonde_json_str(out, "reference",
                       r->o->commands[r->rows[row->reference].of->command].name);
        sonde_json_u64(out, "parallel", row->of->copies);
        sonde_json_num(out, "ratio", row->ratio.value);
        sonde_json_num(out, "low", row->ratio.low);
        sonde_json_num(out, "high", row->ratio.high);
        sonde_json_num(out, "p", row->ratio.p);
        sonde_json_str(out, "verdict", words[sonde_timing_verdict(r, i)]);
        sonde_json_num(out, "smallest", row->ratio.smallest);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

int sonde_timing_report_result(const struct sonde_timing_report *r, struct sonde_bench_result *out)
{
    out->seed = r->o->seed;
    int rc = report_doubts(r, out);
    if (rc || !r->b->rounds) return rc;
    double *work = sonde__calloc(r->b->rounds, sizeof(*work));
    if (!work) return SONDE_ENOMEM;
    for (size_t i = 0; i < r->b->case_count && !rc; i++) rc = report_figures_of(r, i, work, out);
    sonde__free(work);
    if (rc) return rc;
    struct sonde_buf *extra = &out->extra;
    report_json_commands(r, extra);
    report_json_comparison(r, extra);
    const double shell = sonde_timing_shell_mean(r->b, SONDE_TIMING_WALL);
    sonde_json_num(extra, "shell_s", shell > 0 ? shell : NAN);
    sonde_json_key_open(extra, "counters", '{');
    sonde_json_bool(extra, "available", r->b->counters.available);
    sonde_json_bool(extra, "user_only", r->b->counters.user_only);
    sonde_json_str(extra, "why_not", r->b->counters.available ? NULL : r->b->counters.why_not);
    sonde_json_close(extra, '}');
    return extra->error;
}
