/* rss_watch.c - see rss_watch.h.
 *
 * The list of mappings is read at the start and at the end only: for that the kernel walks all page
 * tables of the process while it can map nothing. What is resident is one line of a small file. */
#include "agent/rss_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/growth.h"
#include "base/alloc.h"
#include "present/text.h"
#include "present/units.h"

enum { GROWN_MAX = 4 };
#define GROWN_LEAST (64u << 10) /* bytes; less is noise */

static int rss_watch_look(struct sonde_rss_watch *o)
{
    uint64_t rss, peak;
    if (sonde_smaps_resident(o->pid, &rss, &peak) != 0) return -1;
    o->rss_last = rss;
    if (peak > o->rss_peak) o->rss_peak = peak;
    return 0;
}

static void look_closely(struct sonde_rss_watch *o, struct sonde_smaps *into)
{
    struct sonde_smaps now;
    if (sonde_smaps_read(o->pid, &now, NULL) != 0) return;
    sonde_smaps_release(into);
    *into = now;
    o->pss_last = now.all.pss_bytes;
}

void sonde_rss_watch_start(struct sonde_rss_watch *o, uint32_t pid, double now_s)
{
    *o = (struct sonde_rss_watch){ .pid = pid, .start_s = now_s, .next_s = now_s };
    look_closely(o, &o->first);
    if (rss_watch_look(o) == 0) o->rss_first = o->rss_last;
}

void sonde_rss_watch_look(struct sonde_rss_watch *o, double now_s)
{
    if (now_s < o->next_s || rss_watch_look(o) != 0) return;
    /* Ticks that were missed had the value of now, as good as any. */
    for (; o->next_s <= now_s; o->next_s += SONDE_OUTSIDE_TICK_S) {
        sonde_curve_add(&o->rss, (double)o->rss_last);
    }
}

/* ---- The end --------------------------------------------------------------------------------- */

static void put_resident(const struct sonde_rss_watch *o, double seconds, int ascii,
                         struct sonde_buf *out)
{
    char now[SONDE_VALUE_BYTES], peak[SONDE_VALUE_BYTES], pss[SONDE_VALUE_BYTES];
    char change[SONDE_VALUE_BYTES], time[SONDE_VALUE_BYTES], slope[SONDE_VALUE_BYTES];
    struct sonde_growth g;
    const double grown = (double)o->rss_last - (double)o->rss_first;
    sonde_growth_judge(&o->rss, SONDE_OUTSIDE_TICK_S, 0, 0, &g);
    sonde_buf_printf(out, "memory: %s resident, %s at its peak%s%s; %s%s in %s",
                     sonde_value_format(now, (double)o->rss_last, SONDE_UNIT_BYTES, ascii),
                     sonde_value_format(peak, (double)o->rss_peak, SONDE_UNIT_BYTES, ascii),
                     o->pss_last ? ", PSS " : "",
                     o->pss_last ? sonde_value_format(pss, (double)o->pss_last, SONDE_UNIT_BYTES,
                                                      ascii) : "",
                     grown > 0 ? "+" : "",
                     sonde_value_format(change, grown, SONDE_UNIT_BYTES, ascii),
                     sonde_value_format(time, seconds, SONDE_UNIT_SECONDS, ascii));
    if (g.verdict == SONDE_HEAP_LEAK || g.verdict == SONDE_HEAP_CACHE) {
        sonde_buf_printf(out, ", by %s a second at the end",
                         sonde_value_format(slope, g.slope, SONDE_UNIT_BYTES, ascii));
    }
    sonde_buf_printf(out, ": %s\n", sonde_heap_verdict_text(g.verdict));
}

struct grown { const char *name; uint64_t bytes; };

static int rss_watch_by_bytes(const void *a, const void *b)
{
    const struct grown *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : strcmp(x->name, y->name);
}

static uint64_t resident_before(const struct sonde_smaps *s, const char *name)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (!strcmp(s->rows[i].name, name)) return s->rows[i].rss_bytes;
    }
    return 0;
}

static void put_grown(const struct sonde_rss_watch *o, int ascii, struct sonde_buf *out)
{
    if (!o->first.count || !o->last.count) return;
    struct grown *grown = sonde__calloc(o->last.count, sizeof(*grown));
    size_t count = 0;
    if (!grown) return;
    for (uint32_t i = 0; i < o->last.count; i++) {
        const struct sonde_smaps_row *r = &o->last.rows[i];
        const uint64_t before = resident_before(&o->first, r->name);
        if (r->rss_bytes < before + GROWN_LEAST) continue;
        grown[count++] = (struct grown){ r->name, r->rss_bytes - before };
    }
    qsort(grown, count, sizeof(*grown), rss_watch_by_bytes);
    for (size_t i = 0; i < count && i < GROWN_MAX; i++) {
        char value[SONDE_VALUE_BYTES], name[1024];
        sonde_text_fit(name, sizeof(name), grown[i].name, sonde_text_cells(grown[i].name, ascii),
                       SONDE_LEFT, ascii);
        sonde_buf_printf(out, "%s%s +%s", i ? ", " : "memory that grew: ", name,
                         sonde_value_format(value, (double)grown[i].bytes, SONDE_UNIT_BYTES,
                                            ascii));
    }
    if (count) sonde_buf_putc(out, '\n');
    sonde__free(grown);
}

void sonde_rss_watch_tell(struct sonde_rss_watch *o, double now_s, int ascii, struct sonde_buf *out)
{
    sonde_rss_watch_look(o, now_s);
    look_closely(o, &o->last);
    if (!o->rss_last) return;
    put_resident(o, now_s - o->start_s, ascii, out);
    put_grown(o, ascii, out);
}

void sonde_rss_watch_release(struct sonde_rss_watch *o)
{
    sonde_smaps_release(&o->first);
    sonde_smaps_release(&o->last);
}
