/* heap.h - what a report says of the heap beyond the samples: totals and how sure they are,
 * where memory is in use, what leaks, sizes, lifetimes, threads, pools, the curve. Private to
 * src/present/. */
#ifndef SONDE_PRESENT_REPORT_HEAP_H
#define SONDE_PRESENT_REPORT_HEAP_H

#include "analyze/heap_site.h"
#include "base/buf.h"
#include "present/report/profile.h"
#include "profile/heap.h"

struct heap_report {
    const struct sonde_profile *p;
    const struct sonde_report_options *o;
    const struct sonde_heap *h;     /* NULL = nothing is written */
    size_t limit;
    double seconds;                 /* that were watched; 0 = unknown */
    double alloc_rate, count_rate;  /* bytes and calls a second in that time; NaN = unknown */
    double temp_bytes, temp_count;  /* freed before the next allocation */
    uint32_t *order;                /* of sites: leaks first, the fastest first, then by bytes in
                                       use */
    uint32_t leak_count;
    double leak_slope;              /* of all leaks, bytes a second */
    double lost_bytes, lost_count;  /* after a scan */
};

/* o is borrowed. 0 or SONDE_ENOMEM. */
int heap_report_init(struct heap_report *r, const struct sonde_profile *p,
                     const struct sonde_report_options *o, size_t limit);
void heap_report_release(struct heap_report *r);

/* Both do nothing without facts. JSON: the member "memory" of an object that is open. */
void heap_report_text(const struct heap_report *r, struct sonde_buf *out);
void heap_report_json(const struct heap_report *r, struct sonde_buf *out);

/* ---- Classes -------------------------------------------------------------------------------- */

struct heap_class { double from, to, count; }; /* to: INFINITY = and more */

/* Sizes by powers of two (bytes), lifetimes by powers of four (seconds), from the first to the last
 * that has any. Returns how many. */
#define HEAP_CLASSES_MAX 32
size_t heap_size_classes(const struct sonde_heap *h, struct heap_class out[HEAP_CLASSES_MAX]);
size_t heap_lifetime_classes(const struct sonde_heap *h, struct heap_class out[HEAP_CLASSES_MAX]);

#endif
