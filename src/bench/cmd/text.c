/* text.c - what `sonde bench cmd` found, for people: a table, who is faster, how it scales, which
 * runs fell out of the rest. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/cmd/report.h"
#include "base/percent.h"
#include "present/table.h"
#include "present/units.h"

enum { TEXT_OUTLIERS = 8 }; /* of a case; JSON has all */

static const char *text_seconds(char out[SONDE_VALUE_BYTES], double s, int ascii)
{
    return sonde_value_format(out, s, SONDE_UNIT_SECONDS, ascii);
}

static const char *text_name(const struct sonde_timing_report *r, size_t row)
{
    return r->o->commands[r->rows[row].of->command].name;
}

/* ---- The table ------------------------------------------------------------------------------- */

static void text_case_counts(const struct sonde_timing_row *row, struct sonde_table *t, int ascii)
{
    char a[SONDE_VALUE_BYTES];
    static const struct { size_t column; enum sonde_timing_metric metric; } counts[] = {
        { 8, SONDE_TIMING_FAULTS_MAJOR }, { 9, SONDE_TIMING_FAULTS_MINOR },
        { 10, SONDE_TIMING_VOLUNTARY }, { 11, SONDE_TIMING_INVOLUNTARY },
        { 12, SONDE_TIMING_INSTRUCTIONS }, { 13, SONDE_TIMING_CYCLES },
    };
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        const double v = row->metric[counts[i].metric];
        if (isnan(v)) continue;
        sonde_table_cell(t, counts[i].column, "%s",
                         sonde_value_format(a, v, SONDE_UNIT_COUNT, ascii));
    }
}

/* Of a command in a shell, that its mean cannot be told from the time of the shell alone. */
static int text_hidden(const struct sonde_timing_report *r, size_t i)
{
    const struct sonde_timing_row *row = &r->rows[i];
    return r->o->commands[row->of->command].shell && row->of->copies == 1 &&
           row->mean.value <= (isfinite(row->half) ? row->half : 0);
}

/* Runs that took no longer than the shell alone have a time of 0, which nothing has. */
static void text_wall(const struct sonde_timing_report *r, size_t i, struct sonde_table *t,
                      int ascii)
{
    char a[SONDE_VALUE_BYTES];
    const struct sonde_timing_row *row = &r->rows[i];
    if (text_hidden(r, i)) {
        const double most = row->mean.value + (isfinite(row->half) ? row->half : 0);
        if (most > 0) sonde_table_cell(t, 2, "below %s", text_seconds(a, most, ascii));
        else sonde_table_cell(t, 2, "too short");
    } else {
        sonde_table_cell(t, 2, "%s", text_seconds(a, row->mean.value, ascii));
        if (isfinite(row->half)) {
            sonde_table_cell(t, 3, "%s (%.1f %%)", text_seconds(a, row->half, ascii),
                             100 * row->half / row->mean.value);
        }
    }
    const char *to = ascii ? "..." : "…";
    if (row->least > 0) {
        char b[SONDE_VALUE_BYTES];
        sonde_table_cell(t, 4, "%s %s %s", text_seconds(a, row->least, ascii), to,
                         text_seconds(b, row->most, ascii));
    } else if (row->most > 0) {
        sonde_table_cell(t, 4, "too short %s %s", to, text_seconds(a, row->most, ascii));
    } else {
        sonde_table_cell(t, 4, "too short");
    }
}

static void text_table(const struct sonde_timing_report *r, int width, int ascii,
                       struct sonde_buf *out)
{
    const int counted = r->b->counters.available, parallel = r->o->parallel_count > 1;
    const struct sonde_column columns[] = {
        { .title = "command", .min = 12, .max = 60 },
        { .title = parallel ? "copies" : "", .align = SONDE_RIGHT },
        { .title = "mean", .align = SONDE_RIGHT },
        { .title = ascii ? "+- 95 %" : "± 95 %" },
        { .title = ascii ? "min ... max" : "min … max", .drop = 4 },
        { .title = "user", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "system", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "RSS", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "major", .align = SONDE_RIGHT, .drop = 6 },
        { .title = "minor", .align = SONDE_RIGHT, .drop = 6 },
        { .title = "vol", .align = SONDE_RIGHT, .drop = 7 },
        { .title = "invol", .align = SONDE_RIGHT, .drop = 7 },
        { .title = counted ? "instr" : "", .align = SONDE_RIGHT, .drop = 3 },
        { .title = counted ? "cycles" : "", .align = SONDE_RIGHT, .drop = 3 },
        { .title = parallel ? "runs/s" : "", .align = SONDE_RIGHT },
    };
    char a[SONDE_VALUE_BYTES];
    struct sonde_table t;
    sonde_table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < r->b->case_count; i++) {
        const struct sonde_timing_row *row = &r->rows[i];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", text_name(r, i));
        if (parallel) sonde_table_cell(&t, 1, "%u", row->of->copies);
        text_wall(r, i, &t, ascii);
        sonde_table_cell(&t, 5, "%s", text_seconds(a, row->metric[SONDE_TIMING_USER], ascii));
        sonde_table_cell(&t, 6, "%s", text_seconds(a, row->metric[SONDE_TIMING_SYSTEM], ascii));
        sonde_value_format(a, row->metric[SONDE_TIMING_RSS], SONDE_UNIT_BYTES, ascii);
        sonde_table_cell(&t, 7, "%s%s", row->rss_floor ? (ascii ? "<=" : "≤") : "", a);
        text_case_counts(row, &t, ascii);
        if (parallel) {
            sonde_table_cell(&t, 14, "%s", sonde_value_format(a, row->of->copies / row->mean.value,
                                                              SONDE_UNIT_COUNT, ascii));
        }
    }
    sonde_table_render(&t, width, ascii, out);
    sonde_table_release(&t);
}

/* ---- Sentences ------------------------------------------------------------------------------- */

static void text_range(const struct sonde_timing_row *row, const char *to, struct sonde_buf *out)
{
    if (isnan(row->ratio.low)) return;
    sonde_buf_printf(out, " (%.4g %s %.4g)", row->ratio.low, to, row->ratio.high);
}

static void text_compare(const struct sonde_timing_report *r, size_t i, int ascii,
                         struct sonde_buf *out)
{
    const struct sonde_timing_row *row = &r->rows[i];
    const char *to = ascii ? "..." : "…";
    sonde_buf_puts(out, "  ");
    if (r->o->parallel_count > 1) sonde_buf_printf(out, "%u copies: ", row->of->copies);
    switch (sonde_timing_verdict(r, i)) {
    case SONDE_TIMING_SLOWER:
        sonde_buf_printf(out, "%s takes %.3g times as long as %s", text_name(r, i),
                         row->ratio.value, text_name(r, row->reference));
        text_range(row, to, out);
        sonde_buf_putc(out, '\n');
        return;
    case SONDE_TIMING_NO_DIFFERENCE:
        sonde_buf_printf(out, "%s and %s: no difference seen, %.4g times", text_name(r, i),
                         text_name(r, row->reference), row->ratio.value);
        text_range(row, to, out);
        char smallest[SONDE_PERCENT_BYTES];
        sonde_buf_printf(out, "; one of %s would have been\n",
                         sonde_percent_text(smallest, row->ratio.smallest));
        return;
    case SONDE_TIMING_FASTEST:
    case SONDE_TIMING_NOT_KNOWN: break;
    }
    sonde_buf_printf(out, "%s and %s: too few runs to compare them\n", text_name(r, i),
                     text_name(r, row->reference));
}

static void text_scaling(const struct sonde_timing_report *r, size_t c, int ascii,
                         struct sonde_buf *out)
{
    const struct sonde_usl *u = &r->scaling[c].usl;
    const char *to = ascii ? "..." : "…";
    char a[SONDE_VALUE_BYTES];
    sonde_buf_printf(out, "  %s: contention %.3g (%.3g %s %.3g), coherence %.3g (%.3g %s %.3g)",
                     r->o->commands[c].name, u->contention.value, u->contention.low, to,
                     u->contention.high, u->coherence.value, u->coherence.low, to,
                     u->coherence.high);
    sonde_value_format(a, u->best_throughput, SONDE_UNIT_COUNT, ascii);
    if (isinf(u->best_n.value) && isinf(u->best_throughput)) {
        sonde_buf_puts(out, "; more copies always do more\n");
    } else if (isinf(u->best_n.value)) {
        sonde_buf_printf(out, "; no best point, the limit is %s runs per second\n", a);
    } else {
        sonde_buf_printf(out, "; best with %.1f copies (%.1f %s ", u->best_n.value, u->best_n.low,
                         to);
        if (isinf(u->best_n.high)) sonde_buf_puts(out, "no end)");
        else sonde_buf_printf(out, "%.1f)", u->best_n.high);
        sonde_buf_printf(out, ", %s runs per second%s\n", a,
                         u->best_n.value > u->seen_n ? ": a guess, beyond what was tried" : "");
    }
    if (u->r2 < 0.9) {
        sonde_buf_printf(out, "    the curve has only %.0f %% of the points' variation: it is not "
                         "how this scales\n", 100 * fmax(u->r2, 0));
    }
}

static void text_outliers(const struct sonde_timing_report *r, int ascii, struct sonde_buf *out)
{
    char a[SONDE_VALUE_BYTES];
    int head = 0;
    for (size_t i = 0; i < r->b->case_count; i++) {
        const struct sonde_timing_row *row = &r->rows[i];
        if (row->outlier_count && !head++) {
            sonde_buf_puts(out, "\noutliers, which count all the same:\n");
        }
        for (size_t k = 0; k < row->outlier_count && k < TEXT_OUTLIERS; k++) {
            const struct sonde_timing_outlier *o = &row->outliers[k];
            sonde_buf_printf(out, "  %s, run %zu: %s", text_name(r, i), o->run + 1,
                             text_seconds(a, o->wall_s, ascii));
            /* Not known where the shell takes all of the median: of nothing there is no share. */
            if (isfinite(o->relative)) sonde_buf_printf(out, " (%+.0f %%)", 100 * o->relative);
            sonde_buf_printf(out, ": %s\n", o->reason);
        }
        if (row->outlier_count > TEXT_OUTLIERS) {
            sonde_buf_printf(out, "  %s: %zu more; --format json has all\n", text_name(r, i),
                             row->outlier_count - TEXT_OUTLIERS);
        }
    }
}

static void text_notes(const struct sonde_timing_report *r, int ascii, struct sonde_buf *out)
{
    char a[SONDE_VALUE_BYTES];
    const double shell = sonde_timing_shell_mean(r->b, SONDE_TIMING_WALL);
    int fast = 0, shells = 0, short_ones = 0;
    for (size_t i = 0; i < r->b->case_count; i++) {
        const int in_shell = r->o->commands[r->rows[i].of->command].shell;
        shells |= in_shell;
        fast |= in_shell && r->rows[i].mean.value < 0.005;
        short_ones |= text_hidden(r, i) || !(r->rows[i].least > 0);
    }
    sonde_buf_putc(out, '\n');
    if (shell > 0) {
        sonde_buf_printf(out, "The start of the shell, %s, is subtracted.%s\n",
                         text_seconds(a, shell, ascii),
                         fast ? " A command is so short that --shell none is better." : "");
        if (short_ones) {
            sonde_buf_puts(out, "Below, too short: cannot be told from the time that the shell "
                           "alone takes, which differs from run to run.\n");
        }
    } else if (shells) {
        sonde_buf_puts(out, "The start of the shell is in these times; --shell none leaves it "
                       "out.\n");
    }
    if (!r->b->counters.available) {
        sonde_buf_printf(out, "Instructions and cycles: %s.\n", r->b->counters.why_not);
    } else if (r->b->counters.user_only) {
        sonde_buf_puts(out, "Instructions and cycles are those outside of the kernel.\n");
    }
    if (r->b->interrupted) {
        sonde_buf_printf(out, "Interrupted after %zu rounds.\n", r->b->rounds);
    } else if (r->o->until > 0 && !r->b->narrow) {
        sonde_buf_printf(out, "Not every mean is known to %s%g %%: give it more time (--duration, "
                         "--max-runs) or a wider --until.\n", ascii ? "+-" : "±",
                         100 * r->o->until);
    }
}

void sonde_timing_report_text(const struct sonde_timing_report *r, int width, int ascii,
                              struct sonde_buf *out)
{
    int head = 0;
    if (!r->b->rounds) return;
    sonde_buf_printf(out, "%zu %s, %zu rounds in random order (seed %llu), %.1f s\n\n",
                     r->o->command_count, r->o->command_count == 1 ? "command" : "commands",
                     r->b->rounds, (unsigned long long)r->o->seed, r->b->elapsed_s);
    text_table(r, width, ascii, out);
    for (size_t i = 0; i < r->b->case_count; i++) {
        if (r->rows[i].reference == i) continue;
        if (!head++) sonde_buf_puts(out, "\ncompared round by round:\n");
        text_compare(r, i, ascii, out);
    }
    head = 0;
    for (size_t c = 0; c < r->o->command_count; c++) {
        if (!r->scaling[c].known) continue;
        if (!head++) sonde_buf_puts(out, "\nscaling (universal scalability law):\n");
        text_scaling(r, c, ascii, out);
    }
    text_outliers(r, ascii, out);
    text_notes(r, ascii, out);
}

/* ---- Markdown -------------------------------------------------------------------------------- */

/* A name between backquotes, in a cell. */
static void text_code(struct sonde_buf *out, const char *name)
{
    sonde_buf_putc(out, '`');
    for (; *name; name++) {
        if (*name == '|') sonde_buf_puts(out, "\\|");
        else sonde_buf_putc(out, (unsigned char)*name < ' ' || *name == '`' ? ' ' : *name);
    }
    sonde_buf_putc(out, '`');
}

void sonde_timing_report_markdown(const struct sonde_timing_report *r, struct sonde_buf *out)
{
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES], c[SONDE_VALUE_BYTES], d[SONDE_VALUE_BYTES];
    const int parallel = r->o->parallel_count > 1;
    if (!r->b->rounds) return;
    sonde_buf_printf(out, "| Command |%s Mean ± 95 %% | Min | Max | RSS | Relative |\n"
                     "|:---|%s---:|---:|---:|---:|---:|\n", parallel ? " Copies |" : "",
                     parallel ? "---:|" : "");
    for (size_t i = 0; i < r->b->case_count; i++) {
        const struct sonde_timing_row *row = &r->rows[i];
        sonde_buf_puts(out, "| ");
        text_code(out, text_name(r, i));
        sonde_buf_puts(out, " |");
        if (parallel) sonde_buf_printf(out, " %u |", row->of->copies);
        sonde_buf_printf(out, " %s ± %s | %s | %s |", text_seconds(a, row->mean.value, 0),
                         text_seconds(b, row->half, 0), text_seconds(c, row->least, 0),
                         text_seconds(d, row->most, 0));
        sonde_value_format(a, row->metric[SONDE_TIMING_RSS], SONDE_UNIT_BYTES, 0);
        sonde_buf_printf(out, " %s%s |", row->rss_floor ? "≤" : "", a);
        switch (sonde_timing_verdict(r, i)) {
        case SONDE_TIMING_FASTEST: sonde_buf_puts(out, " 1.00 |\n"); break;
        case SONDE_TIMING_SLOWER:
        case SONDE_TIMING_NO_DIFFERENCE:
            sonde_buf_printf(out, " %.2f", row->ratio.value);
            text_range(row, "…", out);
            sonde_buf_printf(out, "%s |\n", sonde_timing_verdict(r, i) == SONDE_TIMING_SLOWER
                                                ? "" : ", no difference seen");
            break;
        case SONDE_TIMING_NOT_KNOWN: sonde_buf_puts(out, " – |\n"); break;
        }
    }
}
