/* heap_text.c - the heap's part of a report as text or Markdown. What is estimated has its
 * 95 % interval beside it; what is not known is said. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "present/report/heap.h"
#include "present/report/profile_private.h"
#include "present/sparkline.h"
#include "present/units.h"

enum { FRAMES_MAX = 8, BAR_CELLS = 32, CURVE_CELLS = 60 };
enum { AMOUNT_BYTES = 3 * SONDE_VALUE_BYTES + 16 };
enum { VAGUE = 4 }; /* an upper bound this many times the estimate: no range worth printing */

static const char *heap_report_text_bytes(char out[SONDE_VALUE_BYTES], double v, int ascii)
{
    return sonde_value_format(out, v, SONDE_UNIT_BYTES, ascii);
}

static const char *heap_report_text_count(char out[SONDE_VALUE_BYTES], double v, int ascii)
{
    return sonde_value_format(out, v, SONDE_UNIT_COUNT, ascii);
}

static const char *heap_report_text_seconds(char out[SONDE_VALUE_BYTES], double v, int ascii)
{
    return sonde_value_format(out, v, SONDE_UNIT_SECONDS, ascii);
}

/* "12.3 MiB", with "(11.5 MiB … 13.1 MiB)" where it is estimated. An estimate from a handful of
 * samples has no lower bound to speak of: then only "(at most 40 MiB)". There are whole allocations
 * only. */
static const char *amount_text(char out[AMOUNT_BYTES], const struct sonde_heap_amount *a,
                               enum sonde_unit unit, int ascii)
{
    const int whole = unit == SONDE_UNIT_COUNT;
    char v[SONDE_VALUE_BYTES], low[SONDE_VALUE_BYTES], high[SONDE_VALUE_BYTES];
    sonde_value_format(v, whole ? round(a->value) : a->value, unit, ascii);
    sonde_value_format(low, whole ? floor(a->low) : a->low, unit, ascii);
    sonde_value_format(high, whole ? ceil(a->high) : a->high, unit, ascii);
    if (!(a->high > a->low)) snprintf(out, AMOUNT_BYTES, "%s", v);
    else if (a->high > VAGUE * a->value) snprintf(out, AMOUNT_BYTES, "%s (at most %s)", v, high);
    else snprintf(out, AMOUNT_BYTES, "%s (%s%s%s)", v, low, ascii ? " to " : " … ", high);
    return out;
}

/* "±7 %", half of the interval; "" = exact. */
static void error_cell(struct sonde_table *t, size_t column, const struct sonde_heap_amount *a,
                       int ascii)
{
    if (!(a->high > a->low) || !(a->value > 0)) return;
    sonde_table_cell(t, column, "%s%.0f %%", ascii ? "+-" : "±",
                     50 * (a->high - a->low) / a->value);
}

/* Seconds since the start of the profile, or "" if that is unknown. */
static const char *since_start(const struct heap_report *r, uint64_t time_ns,
                               char out[SONDE_VALUE_BYTES])
{
    const uint64_t start = r->p->start_ns ? r->p->start_ns : r->h->tick0_ns;
    out[0] = '\0';
    if (!time_ns || !start) return out;
    return heap_report_text_seconds(out, time_ns > start ? (double)(time_ns - start) * 1e-9 : 0,
                                    r->o->ascii);
}

/* ---- Facts ----------------------------------------------------------------------------------- */

static void heap_report_text_put_totals(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_heap *h = r->h;
    const int ascii = r->o->ascii;
    char a[AMOUNT_BYTES], b[AMOUNT_BYTES], when[SONDE_VALUE_BYTES], rate[SONDE_VALUE_BYTES];
    report_put_fact(r->o, out, "in use", "%s in %s allocations, %s",
                    amount_text(a, &h->live_bytes, SONDE_UNIT_BYTES, ascii),
                    amount_text(b, &h->live_count, SONDE_UNIT_COUNT, ascii),
                    h->ended ? "when the process ended" : "when last seen");
    since_start(r, h->peak_ns, when);
    report_put_fact(r->o, out, "peak", "%s%s%s%s",
                    heap_report_text_bytes(a, (double)h->peak_bytes, ascii), when[0] ? ", " : "",
                    when, when[0] ? " after the start" : "");
    if (r->alloc_rate >= 0) {
        char counts[SONDE_VALUE_BYTES];
        report_put_fact(r->o, out, "allocated", "%s in %s calls: %s and %s calls a second",
                        amount_text(a, &h->alloc_bytes, SONDE_UNIT_BYTES, ascii),
                        amount_text(b, &h->alloc_count, SONDE_UNIT_COUNT, ascii),
                        heap_report_text_bytes(rate, r->alloc_rate, ascii),
                        heap_report_text_count(counts, r->count_rate, ascii));
    } else {
        report_put_fact(r->o, out, "allocated", "%s in %s calls",
                        amount_text(a, &h->alloc_bytes, SONDE_UNIT_BYTES, ascii),
                        amount_text(b, &h->alloc_count, SONDE_UNIT_COUNT, ascii));
    }
    if (h->alloc_count.value > 0 && h->alloc_bytes.value > 0) {
        report_put_fact(r->o, out, "temporary",
                        "%s%.1f %% of the calls, %.1f %% of the bytes: freed before the thread's "
                        "next allocation",
                        h->full ? "" : "about ", 100 * r->temp_count / h->alloc_count.value,
                        100 * r->temp_bytes / h->alloc_bytes.value);
    }
}

/* What the process has of the system's memory, against what the program uses. */
static void heap_report_text_put_process(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_heap *h = r->h;
    const int ascii = r->o->ascii;
    char rss[SONDE_VALUE_BYTES], peak[SONDE_VALUE_BYTES], pss[SONDE_VALUE_BYTES];
    char v[4][SONDE_VALUE_BYTES];
    if (!h->rss_bytes) {
        report_put_fact(r->o, out, "process", "its resident memory was not seen");
    } else {
        report_put_fact(
            r->o, out, "process", "%s resident%s%s%s%s%s; in use is %.0f %% of that",
            heap_report_text_bytes(rss, (double)h->rss_bytes, ascii), h->rss_peak_bytes ? ", " : "",
            h->rss_peak_bytes ? heap_report_text_bytes(peak, (double)h->rss_peak_bytes, ascii) : "",
            h->rss_peak_bytes ? " at its peak" : "", h->pss_bytes ? ", PSS " : "",
            h->pss_bytes ? heap_report_text_bytes(pss, (double)h->pss_bytes, ascii) : "",
            100 * h->live_bytes.value / (double)h->rss_bytes);
    }
    const char *allocator = sonde_profile_str(r->p, h->allocator);
    if (!h->arena_known) {
        report_put_fact(r->o, out, "allocator", "%.400s%sdoes not say what it holds", allocator,
                        *allocator ? ": " : "");
        return;
    }
    const double held = (double)(h->arena_system + h->arena_mapped);
    char arenas[48] = "";
    if (h->arenas) {
        snprintf(arenas, sizeof(arenas), "%llu arena%s, ", (unsigned long long)h->arenas,
                 h->arenas == 1 ? "" : "s");
    }
    report_put_fact(r->o, out, "allocator",
                    "%.400s%s%s%s from the system, %s of it free (%.0f %% fragmentation), %s in "
                    "large blocks; a trim would return %s",
                    allocator, *allocator ? ": " : "", arenas,
                    heap_report_text_bytes(v[0], held, ascii),
                    heap_report_text_bytes(v[1], (double)h->arena_free, ascii),
                    held > 0 ? 100 * (double)h->arena_free / held : 0,
                    heap_report_text_bytes(v[2], (double)h->arena_mapped, ascii),
                    heap_report_text_bytes(v[3], (double)h->arena_trim, ascii));
}

static void heap_report_text_put_method(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_heap *h = r->h;
    char mean[SONDE_VALUE_BYTES], when[SONDE_VALUE_BYTES];
    if (h->full) {
        report_put_fact(r->o, out, "method", "every allocation: figures are exact");
    } else {
        report_put_fact(r->o, out, "method",
                        "sampled, one allocation in %s: figures are estimates, with their 95 %% "
                        "intervals",
                        heap_report_text_bytes(mean, (double)h->mean, r->o->ascii));
    }
    since_start(r, h->mark_ns, when);
    if (!h->mark_ns) {
        report_put_fact(r->o, out, "growth",
                        "no mark, and no end of warm-up to be seen: growth is since the start");
    } else {
        report_put_fact(r->o, out, "growth", "since the %s%s%s%s",
                        h->mark_automatic ? "end of warm-up" : "mark", when[0] ? ", " : "", when,
                        when[0] ? " after the start" : "");
    }
}

static void put_unseen(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_heap *h = r->h;
    const struct { uint64_t count; const char *what; } rows[] = {
        { h->refused, "allocations for lack of memory for tables, or under seccomp" },
        { h->reentrant, "calls in signal handlers" },
        { h->unmatched, "frees of what was allocated before" },
        { h->lost_events, "events (spans and times of some allocations)" },
        { h->truncated, "ends of stacks" },
    };
    char text[REPORT_LINE_MAX] = "";
    size_t len = 0;
    for (size_t i = 0; i < SONDE_COUNT(rows); i++) {
        if (!rows[i].count) continue;
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%llu %s", len ? ", " : "",
                                (unsigned long long)rows[i].count, rows[i].what);
    }
    report_put_fact(r->o, out, "not seen", "%s", text[0] ? text : "nothing is missing");
    if (h->failed) {
        report_put_fact(r->o, out, "failed", "%llu allocations returned no memory",
                        (unsigned long long)h->failed);
    }
}

/* Bytes in use over the time, as a line. */
static void heap_report_text_put_curve(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_curve *s = &r->h->growth;
    double value[SONDE_CURVE_POINTS], most = 0;
    char line[SONDE_SPARKLINE_BYTES(CURVE_CELLS)];
    char text[SONDE_VALUE_BYTES], length[SONDE_VALUE_BYTES];
    if (s->count < 2) return;
    for (uint32_t i = 0; i < s->count; i++) {
        value[i] = (double)s->value[i];
        if (value[i] > most) most = value[i];
    }
    const int cells = s->count < CURVE_CELLS ? (int)s->count : CURVE_CELLS;
    sonde_sparkline(line, sizeof(line), value, s->count, cells, SONDE_SPARK_ZERO, r->o->ascii);
    const double ticks = (double)s->count * (s->per_point ? s->per_point : 1);
    report_put_fact(r->o, out, "curve", "%s  up to %s, %s", line,
                    heap_report_text_bytes(text, most, r->o->ascii),
                    heap_report_text_seconds(length, ticks * r->h->tick_s, r->o->ascii));
}

/* ---- Leaks ----------------------------------------------------------------------------------- */

static void heap_report_text_put_stack(const struct heap_report *r, uint32_t stack,
                                       struct sonde_buf *out)
{
    struct heap_frame frames[FRAMES_MAX + 1];
    const size_t count = heap_frames(r->p, stack, frames, FRAMES_MAX + 1);
    int widest = 0;
    for (size_t i = 0; i < count && i < FRAMES_MAX; i++) {
        const int cells = sonde_text_cells(heap_frame_name(&frames[i]), r->o->ascii);
        if (cells > widest) widest = cells;
    }
    if (widest > 40) widest = 40;
    for (size_t i = 0; i < count && i < FRAMES_MAX; i++) {
        const char *name = heap_frame_name(&frames[i]);
        const int cells = sonde_text_cells(name, r->o->ascii);
        sonde_buf_puts(out, "      ");
        report_put_clean(out, name, r->o->ascii);
        if (*frames[i].file || *frames[i].module) {
            sonde_buf_printf(out, "%*s", (cells < widest ? widest - cells : 0) + 2, "");
            report_put_clean(out, *frames[i].file ? frames[i].file : frames[i].module,
                             r->o->ascii);
            if (*frames[i].file && frames[i].line) sonde_buf_printf(out, ":%u", frames[i].line);
        }
        sonde_buf_putc(out, '\n');
    }
    if (count > FRAMES_MAX) sonde_buf_puts(out, r->o->ascii ? "      ...\n" : "      …\n");
}

static void heap_report_text_put_leak(const struct heap_report *r, const struct sonde_heap_site *s,
                                      struct sonde_buf *out)
{
    const int ascii = r->o->ascii;
    const struct sonde_heap_amount slope = { s->slope, s->slope_low, s->slope_high };
    char rate[AMOUNT_BYTES], grown[SONDE_VALUE_BYTES], bytes[AMOUNT_BYTES], count[AMOUNT_BYTES];
    sonde_buf_printf(out, "  grows by %s a second, by %s since the %s\n",
                     amount_text(rate, &slope, SONDE_UNIT_BYTES, ascii),
                     heap_report_text_bytes(grown, s->grown_bytes > 0 ? s->grown_bytes : 0, ascii),
                     !r->h->mark_ns ? "start" : r->h->mark_automatic ? "end of warm-up" : "mark");
    sonde_buf_printf(out, "  in use %s in %s allocations\n",
                     amount_text(bytes, &s->live_bytes, SONDE_UNIT_BYTES, ascii),
                     amount_text(count, &s->live_count, SONDE_UNIT_COUNT, ascii));
    heap_report_text_put_stack(r, s->stack, out);
}

/* Stacks are laid out by blanks: a block of code in Markdown. */
static void open_block(const struct heap_report *r, struct sonde_buf *out)
{
    if (r->o->style == SONDE_REPORT_MARKDOWN) sonde_buf_puts(out, "```\n");
}

static void put_leaks(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_heap *h = r->h;
    char rate[SONDE_VALUE_BYTES], title[160];
    if (!r->leak_count) return;
    snprintf(title, sizeof(title), "Leaks: %u place%s, %s a second in all", r->leak_count,
             r->leak_count == 1 ? "" : "s",
             heap_report_text_bytes(rate, r->leak_slope, r->o->ascii));
    report_put_heading(r->o, 3, title, out);
    open_block(r, out);
    for (uint32_t i = 0; i < r->leak_count && i < r->limit; i++) {
        if (i) sonde_buf_putc(out, '\n');
        heap_report_text_put_leak(r, &h->sites[r->order[i]], out);
    }
    if (r->leak_count > r->limit) {
        sonde_buf_printf(out, "  and %zu more\n", (size_t)r->leak_count - r->limit);
    }
    open_block(r, out);
}

/* Of sites by bytes that nothing points to, the most first: few, so the next is searched for. */
static void put_lost_sites(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_heap *h = r->h;
    double below = INFINITY;
    uint32_t after = 0; /* index of the last one shown, + 1 */
    for (size_t shown = 0; shown < r->limit; shown++) {
        const struct sonde_heap_site *best = NULL;
        for (uint32_t i = 0; i < h->site_count; i++) {
            const double lost = h->sites[i].lost_bytes;
            const int next = lost < below || (!(lost > below) && i + 1 > after);
            if (lost > 0 && next && (!best || lost > best->lost_bytes)) best = &h->sites[i];
        }
        if (!best) return;
        below = best->lost_bytes;
        after = (uint32_t)(best - h->sites) + 1;
        char bytes[SONDE_VALUE_BYTES], count[SONDE_VALUE_BYTES];
        sonde_buf_printf(out, "%s  %s in %s allocation%s\n", shown ? "\n" : "",
                         heap_report_text_bytes(bytes, best->lost_bytes, r->o->ascii),
                         heap_report_text_count(count, best->lost_count, r->o->ascii),
                         best->lost_count < 1.5 ? "" : "s");
        heap_report_text_put_stack(r, best->stack, out);
    }
}

static void put_lost(const struct heap_report *r, struct sonde_buf *out)
{
    char bytes[SONDE_VALUE_BYTES], count[SONDE_VALUE_BYTES], title[160];
    if (!r->h->scanned) return;
    if (!(r->lost_bytes > 0)) {
        report_put_heading(r->o, 3, "Lost: nothing", out);
        sonde_buf_puts(out, "  something still pointed to all that was in use at exit\n");
        return;
    }
    snprintf(title, sizeof(title), "Lost: %s in %s allocations that nothing pointed to at exit",
             heap_report_text_bytes(bytes, r->lost_bytes, r->o->ascii),
             heap_report_text_count(count, r->lost_count, r->o->ascii));
    report_put_heading(r->o, 3, title, out);
    open_block(r, out);
    put_lost_sites(r, out);
    open_block(r, out);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* The end of a long path, which tells more than its start. */
static const char *short_path(const char *path)
{
    enum { LONG = 32, PARTS = 2 };
    const char *from = path + strlen(path);
    if (from - path <= LONG) return path;
    for (int parts = 0; from > path; from--) {
        if (from[-1] == '/' && ++parts == PARTS) return from;
    }
    return path;
}

static void site_row(const struct heap_report *r, const struct sonde_heap_site *s,
                     struct sonde_table *t)
{
    const int ascii = r->o->ascii;
    const double all = r->h->live_bytes.value;
    char text[SONDE_VALUE_BYTES];
    struct heap_frame frames[2];
    const size_t count = heap_frames(r->p, s->stack, frames, 2);
    sonde_table_row(t);
    sonde_table_cell(t, 0, "%s", heap_report_text_bytes(text, s->live_bytes.value, ascii));
    error_cell(t, 1, &s->live_bytes, ascii);
    if (all > 0) report_percent_cell(t, 2, s->live_bytes.value / all);
    sonde_table_cell(t, 3, "%s", heap_report_text_count(text, s->live_count.value, ascii));
    sonde_table_cell(t, 4, "%s", sonde_heap_verdict_name((enum sonde_heap_verdict)s->verdict));
    if (s->verdict != SONDE_HEAP_UNKNOWN && s->verdict != SONDE_HEAP_STABLE) {
        sonde_table_cell(t, 5, "%s", heap_report_text_bytes(text, s->slope, ascii));
    }
    if (s->lifetime_s >= 0) {
        sonde_table_cell(t, 6, "%s", heap_report_text_seconds(text, s->lifetime_s, ascii));
    }
    sonde_table_cell(t, 7, "%s", heap_report_text_bytes(text, s->alloc_bytes.value, ascii));
    sonde_table_cell(t, 8, "%s", heap_report_text_count(text, s->alloc_count.value, ascii));
    if (!count) return;
    sonde_table_cell(t, 9, "%s", heap_frame_name(&frames[0]));
    report_where_cell(t, 10, short_path(frames[0].file), frames[0].line, frames[0].module);
    if (count > 1) sonde_table_cell(t, 11, "%s", heap_frame_name(&frames[1]));
}

static void heap_report_text_put_sites(const struct heap_report *r, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "IN USE", .align = SONDE_RIGHT },
        { .title = "", .align = SONDE_RIGHT },
        { .title = "%", .align = SONDE_RIGHT, .drop = 4 },
        { .title = "COUNT", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "VERDICT", .min = 13 },
        { .title = "GROWS/s", .align = SONDE_RIGHT },
        { .title = "LIFETIME", .align = SONDE_RIGHT, .drop = 7 },
        { .title = "ALLOCATED", .align = SONDE_RIGHT, .drop = 6 },
        { .title = "CALLS", .align = SONDE_RIGHT, .drop = 8 },
        { .title = "PLACE", .min = 16 },
        { .title = "WHERE", .min = 20, .drop = 1 },
        { .title = "CALLED BY", .min = 8, .drop = 5 },
    };
    const struct sonde_heap *h = r->h;
    struct sonde_table t;
    char title[80];
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < h->site_count && i < r->limit; i++) {
        site_row(r, &h->sites[r->order[i]], &t);
    }
    if (h->site_count > r->limit) {
        snprintf(title, sizeof(title), "Places that allocate, the first %zu of %u", r->limit,
                 h->site_count);
    } else {
        snprintf(title, sizeof(title), "Places that allocate");
    }
    report_put_heading(r->o, 3, title, out);
    report_put_rows(r->o, &t, out);
}

static void bar_cell(struct sonde_table *t, size_t column, double share, int ascii)
{
    static const char *const parts[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    char bar[3 * BAR_CELLS + 4];
    size_t len = 0;
    const int eighths = (int)(share * BAR_CELLS * 8 + 0.5);
    for (int i = 0; i < eighths / 8; i++) {
        len += (size_t)snprintf(bar + len, sizeof(bar) - len, "%s", ascii ? "#" : "█");
    }
    snprintf(bar + len, sizeof(bar) - len, "%s", ascii ? "" : parts[eighths % 8]);
    sonde_table_cell(t, column, "%s", bar);
}

static void heap_report_text_put_histogram(const struct heap_report *r, const char *title,
                                           enum sonde_unit unit, const struct heap_class *c,
                                           size_t count, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "FROM", .align = SONDE_RIGHT }, { .title = "BELOW", .align = SONDE_RIGHT },
        { .title = "COUNT", .align = SONDE_RIGHT }, { .title = "%", .align = SONDE_RIGHT },
        { .title = "", .drop = 1 },
    };
    double sum = 0, most = 0;
    if (!count) return;
    for (size_t i = 0; i < count; i++) {
        sum += c[i].count;
        if (c[i].count > most) most = c[i].count;
    }
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < count; i++) {
        char text[SONDE_VALUE_BYTES];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", sonde_value_format(text, c[i].from, unit, r->o->ascii));
        if (isfinite(c[i].to)) {
            sonde_table_cell(&t, 1, "%s", sonde_value_format(text, c[i].to, unit, r->o->ascii));
        }
        sonde_table_cell(&t, 2, "%s", heap_report_text_count(text, c[i].count, r->o->ascii));
        report_percent_cell(&t, 3, c[i].count / sum);
        bar_cell(&t, 4, c[i].count / most, r->o->ascii);
    }
    report_put_heading(r->o, 3, title, out);
    report_put_rows(r->o, &t, out);
}

static void heap_report_text_put_threads(const struct heap_report *r, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "THREAD", .min = 8 }, { .title = "TID", .align = SONDE_RIGHT },
        { .title = "ALLOCATED", .align = SONDE_RIGHT }, { .title = "%", .align = SONDE_RIGHT },
        { .title = "CALLS", .align = SONDE_RIGHT },
    };
    const struct sonde_heap *h = r->h;
    double all = 0;
    if (!h->thread_count) return;
    for (uint32_t i = 0; i < h->thread_count; i++) all += (double)h->threads[i].alloc_bytes;
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < h->thread_count && i < r->limit; i++) {
        const struct sonde_heap_thread *row = &h->threads[i];
        const struct sonde_profile_thread *thread = &r->p->threads[row->thread];
        char text[SONDE_VALUE_BYTES];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s",
                         row->thread ? sonde_profile_str(r->p, thread->name) : "others");
        if (thread->tid) sonde_table_cell(&t, 1, "%u", thread->tid);
        sonde_table_cell(&t, 2, "%s",
                         heap_report_text_bytes(text, (double)row->alloc_bytes, r->o->ascii));
        if (all > 0) report_percent_cell(&t, 3, (double)row->alloc_bytes / all);
        sonde_table_cell(&t, 4, "%s",
                         heap_report_text_count(text, (double)row->alloc_count, r->o->ascii));
    }
    report_put_heading(r->o, 3, "Threads that allocate", out);
    report_put_rows(r->o, &t, out);
}

/* What has a name that was given to it: by the program, or by it to a mapping. */
static int is_pool(const struct heap_report *r, const struct sonde_heap_pool *p)
{
    const char *name = sonde_profile_str(r->p, p->name);
    return !p->mapped || !strncmp(name, "[anon:", 6) || !strncmp(name, "[anon_shmem:", 12);
}

/* Other mappings, if a good part of what is resident is in them. */
static int is_large(const struct heap_report *r, const struct sonde_heap_pool *p)
{
    return !is_pool(r, p) && p->rss_bytes > r->h->rss_bytes / 100;
}

static void put_pools(const struct heap_report *r, const char *title, const char *column,
                      int (*shown)(const struct heap_report *, const struct sonde_heap_pool *),
                      struct sonde_buf *out)
{
    const struct sonde_column columns[] = {
        { .title = column, .min = 8 }, { .title = "BYTES", .align = SONDE_RIGHT },
        { .title = "RESIDENT", .align = SONDE_RIGHT },
    };
    const struct sonde_heap *h = r->h;
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < h->pool_count && t.row_count < r->limit; i++) {
        const struct sonde_heap_pool *pool = &h->pools[i];
        char text[SONDE_VALUE_BYTES];
        if (!shown(r, pool)) continue;
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", sonde_profile_str(r->p, pool->name));
        sonde_table_cell(&t, 1, "%s",
                         heap_report_text_bytes(text, (double)pool->bytes, r->o->ascii));
        if (pool->mapped) {
            sonde_table_cell(&t, 2, "%s",
                             heap_report_text_bytes(text, (double)pool->rss_bytes, r->o->ascii));
        }
    }
    if (t.row_count) {
        report_put_heading(r->o, 3, title, out);
        report_put_rows(r->o, &t, out);
    } else {
        sonde_table_release(&t);
    }
}

void heap_report_text(const struct heap_report *r, struct sonde_buf *out)
{
    struct heap_class classes[HEAP_CLASSES_MAX];
    if (!r->h) return;
    report_put_heading(r->o, 2, "Memory", out);
    heap_report_text_put_totals(r, out);
    heap_report_text_put_process(r, out);
    heap_report_text_put_method(r, out);
    put_unseen(r, out);
    heap_report_text_put_curve(r, out);
    put_leaks(r, out);
    put_lost(r, out);
    heap_report_text_put_sites(r, out);
    heap_report_text_put_histogram(r, "Sizes", SONDE_UNIT_BYTES, classes,
                                   heap_size_classes(r->h, classes), out);
    heap_report_text_put_histogram(r, "Lifetimes", SONDE_UNIT_SECONDS, classes,
                                   heap_lifetime_classes(r->h, classes), out);
    heap_report_text_put_threads(r, out);
    put_pools(r, "Pools", "POOL", is_pool, out);
    put_pools(r, "Mappings with a part of the resident memory", "MAPPING", is_large, out);
}
