/* rss_watch.c - see rss_watch.h.
 *
 * The list of mappings is read at the start and at the end only: for that the kernel walks all page
 * tables of the process while it can map nothing. What is resident is one line of a small file. */
#include "agent/rss_watch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"

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

static int rss_watch_by_bytes(const void *a, const void *b)
{
    const struct sonde_rss_grown *x = a, *y = b;
    const int order = SONDE_CMP(y->bytes, x->bytes);
    return order ? order : strcmp(x->name, y->name);
}

static uint64_t resident_before(const struct sonde_smaps *s, const char *name)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (!strcmp(s->rows[i].name, name)) return s->rows[i].rss_bytes;
    }
    return 0;
}

static void rss_watch_find_grown(const struct sonde_rss_watch *o, struct sonde_rss_verdict *out)
{
    if (!o->first.count || !o->last.count) return;
    struct sonde_rss_grown *grown = sonde__calloc(o->last.count, sizeof(*grown));
    size_t count = 0;
    if (!grown) return;
    for (uint32_t i = 0; i < o->last.count; i++) {
        const struct sonde_smaps_row *r = &o->last.rows[i];
        const uint64_t before = resident_before(&o->first, r->name);
        if (r->rss_bytes < before + GROWN_LEAST) continue;
        grown[count++] = (struct sonde_rss_grown){ r->name, r->rss_bytes - before };
    }
    qsort(grown, count, sizeof(*grown), rss_watch_by_bytes);
    out->grown_count = count < SONDE_RSS_GROWN_MAX ? count : SONDE_RSS_GROWN_MAX;
    memcpy(out->grown, grown, out->grown_count * sizeof(*grown));
    sonde__free(grown);
}

void sonde_rss_watch_end(struct sonde_rss_watch *o, double now_s, struct sonde_rss_verdict *out)
{
    assert(o->pid);
    *out = (struct sonde_rss_verdict){ .seconds = now_s - o->start_s };
    sonde_rss_watch_look(o, now_s);
    look_closely(o, &o->last);
    sonde_growth_judge(&o->rss, SONDE_OUTSIDE_TICK_S, 0, 0, &out->growth);
    rss_watch_find_grown(o, out);
}

void sonde_rss_watch_release(struct sonde_rss_watch *o)
{
    sonde_smaps_release(&o->first);
    sonde_smaps_release(&o->last);
}
