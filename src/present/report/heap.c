/* heap.c - the figures of a report on the heap that the facts do not have as such. */
#include "present/report/heap.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

/* Who is first: leaks, the fastest first; then what is in use. */
static int by_need(const void *a, const void *b, void *sites)
{
    const struct sonde_heap_site *x = (const struct sonde_heap_site *)sites + *(const uint32_t *)a;
    const struct sonde_heap_site *y = (const struct sonde_heap_site *)sites + *(const uint32_t *)b;
    const int leak_x = x->verdict == SONDE_HEAP_LEAK, leak_y = y->verdict == SONDE_HEAP_LEAK;
    if (leak_x != leak_y) return leak_y - leak_x;
    const double v = leak_x ? x->slope : x->live_bytes.value;
    const double w = leak_x ? y->slope : y->live_bytes.value;
    if (v > w || v < w) return v > w ? -1 : 1;
    return SONDE_CMP(x, y);
}

static double seconds_of(const struct sonde_profile *p)
{
    const struct sonde_heap *h = p->heap;
    if (h->point_count > 1) {
        const uint64_t first = h->points[0].time_ns, last = h->points[h->point_count - 1].time_ns;
        if (last > first) return (double)(last - first) / 1e9;
    }
    return p->end_ns > p->start_ns ? (double)(p->end_ns - p->start_ns) / 1e9 : 0;
}

/* Of the time that was watched: all that was allocated, less what the process had allocated
 * before. */
static void set_rates(struct heap_report *r)
{
    const struct sonde_heap *h = r->h;
    r->alloc_rate = r->count_rate = NAN;
    if (h->point_count < 2 || !(r->seconds > 0)) return;
    const struct sonde_heap_point *first = &h->points[0];
    const double bytes = h->alloc_bytes.value - (double)first->alloc_bytes;
    const double count = h->alloc_count.value - (double)first->alloc_count;
    if (bytes < 0 || count < 0) return;
    r->alloc_rate = bytes / r->seconds;
    r->count_rate = count / r->seconds;
}

int heap_report_init(struct heap_report *r, const struct sonde_profile *p,
                     const struct sonde_report_options *o, size_t limit)
{
    assert(p->heap);
    const struct sonde_heap *h = p->heap;
    *r = (struct heap_report){ .p = p, .o = o, .h = h, .limit = limit, .seconds = seconds_of(p) };
    set_rates(r);
    if (!h->site_count) return 0;
    r->order = sonde__calloc(h->site_count, sizeof(*r->order));
    if (!r->order) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < h->site_count; i++) {
        const struct sonde_heap_site *s = &h->sites[i];
        r->order[i] = i;
        r->temp_bytes += s->temp_bytes;
        r->temp_count += s->temp_count;
        if (h->scanned && s->lost_bytes > 0) {
            r->lost_bytes += s->lost_bytes;
            r->lost_count += s->lost_count;
        }
        if (s->verdict != SONDE_HEAP_LEAK) continue;
        r->leak_count++;
        r->leak_slope += s->slope;
    }
    qsort_r(r->order, h->site_count, sizeof(*r->order), by_need, h->sites);
    return 0;
}

void heap_report_release(struct heap_report *r)
{
    sonde__free(r->order);
    r->order = NULL;
}

/* ---- Classes --------------------------------------------------------------------------------- */

/* Leaves out empty classes at either end. */
static size_t heap_report_trim(struct heap_class *c, size_t count)
{
    size_t first = 0;
    while (count && !(c[count - 1].count > 0)) count--;
    while (first < count && !(c[first].count > 0)) first++;
    for (size_t i = first; i < count; i++) c[i - first] = c[i];
    return count - first;
}

size_t heap_size_classes(const struct sonde_heap *h, struct heap_class out[HEAP_CLASSES_MAX])
{
    enum { PER = 4, COUNT = SONDE_HEAP_SIZES / PER };
    _Static_assert(COUNT <= HEAP_CLASSES_MAX, "room");
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t low, high, unused;
        sonde_heap_size_bounds(PER * i, &low, &unused);
        sonde_heap_size_bounds(PER * i + PER - 1, &unused, &high);
        out[i] = (struct heap_class){ .from = (double)low,
                                      .to = high == UINT64_MAX ? INFINITY : (double)high };
        for (uint32_t k = 0; k < PER; k++) out[i].count += h->size_class[PER * i + k];
    }
    return heap_report_trim(out, COUNT);
}

/* Class 0 is below a microsecond, class c from 2^(c-1) on: two make one, the first has three. */
size_t heap_lifetime_classes(const struct sonde_heap *h, struct heap_class out[HEAP_CLASSES_MAX])
{
    enum { COUNT = SONDE_HEAP_LIFETIMES / 2 };
    _Static_assert(COUNT <= HEAP_CLASSES_MAX, "room");
    for (uint32_t i = 0; i < COUNT; i++) {
        out[i] = (struct heap_class){ i ? ldexp(1e-6, 2 * (int)i) : 0,
                                      i + 1 < COUNT ? ldexp(1e-6, 2 * (int)i + 2) : INFINITY,
                                      h->lifetime[2 * i + 1] };
        if (!i) out[i].count += h->lifetime[0];
        if (2 * i + 2 < SONDE_HEAP_LIFETIMES) out[i].count += h->lifetime[2 * i + 2];
    }
    return heap_report_trim(out, COUNT);
}
