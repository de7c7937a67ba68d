/* heap_summary.c - the heap in a few lines, for the end of a run. */
#include <stdio.h>
#include <string.h>

#include "present/report/heap.h"
#include "present/report/profile_private.h"
#include "present/units.h"

static const char *heap_summary_bytes_text(char out[SONDE_VALUE_BYTES], double v, int ascii)
{
    return sonde_value_format(out, v, SONDE_UNIT_BYTES, ascii);
}

/* " +-7 %", half of the interval; "" = exact. */
static const char *error_text(char out[SONDE_VALUE_BYTES], const struct sonde_heap_amount *a,
                              int ascii)
{
    out[0] = '\0';
    if (a->high > a->low && a->value > 0) {
        snprintf(out, SONDE_VALUE_BYTES, " %s%.0f %%", ascii ? "+-" : "±",
                 50 * (a->high - a->low) / a->value);
    }
    return out;
}

static void heap_summary_put_totals(const struct heap_report *r, struct sonde_buf *out)
{
    const struct sonde_heap *h = r->h;
    const int ascii = r->o->ascii;
    char live[SONDE_VALUE_BYTES], error[SONDE_VALUE_BYTES], peak[SONDE_VALUE_BYTES];
    char alloc[SONDE_VALUE_BYTES], count[SONDE_VALUE_BYTES], mean[SONDE_VALUE_BYTES];
    if (!h->full && !(h->alloc_count.value > 0)) {
        sonde_buf_printf(out, "heap: too little was allocated to be sampled (one in %s)\n",
                         heap_summary_bytes_text(mean, (double)h->mean, ascii));
        return;
    }
    sonde_buf_printf(out, "heap: %s%s in use%s, %s at the peak, %s allocated in %s calls",
                     heap_summary_bytes_text(live, h->live_bytes.value, ascii),
                     error_text(error, &h->live_bytes, ascii), h->ended ? " at exit" : "",
                     heap_summary_bytes_text(peak, (double)h->peak_bytes, ascii),
                     heap_summary_bytes_text(alloc, h->alloc_bytes.value, ascii),
                     sonde_value_format(count, h->alloc_count.value, SONDE_UNIT_COUNT, ascii));
    if (h->full) sonde_buf_puts(out, " (all of them)\n");
    else
        sonde_buf_printf(out, " (sampled, one in %s)\n",
                         heap_summary_bytes_text(mean, (double)h->mean, ascii));
}

/* "session_open  src/server.c:99" */
static void heap_summary_put_place(const struct heap_report *r, uint32_t stack,
                                   struct sonde_buf *out)
{
    struct heap_frame f;
    char text[1024];
    if (!heap_frames(r->p, stack, &f, 1)) {
        sonde_buf_puts(out, "[unknown]");
        return;
    }
    const int n = snprintf(text, sizeof(text), "%.400s  %.400s", heap_frame_name(&f),
                           *f.file ? f.file : f.module);
    if (*f.file && f.line && n > 0 && (size_t)n < sizeof(text)) {
        snprintf(text + n, sizeof(text) - (size_t)n, ":%u", f.line);
    }
    report_put_clean(out, text, r->o->ascii);
}

static void heap_summary_put_leak(const struct heap_report *r, const struct sonde_heap_site *s,
                                  struct sonde_buf *out)
{
    const int ascii = r->o->ascii;
    char slope[SONDE_VALUE_BYTES], grown[SONDE_VALUE_BYTES];
    sonde_buf_printf(out, "LEAK: %s a second, %s since the %s: ",
                     heap_summary_bytes_text(slope, s->slope, ascii),
                     heap_summary_bytes_text(grown, s->grown_bytes > 0 ? s->grown_bytes : 0, ascii),
                     !r->h->mark_ns ? "start" : r->h->mark_automatic ? "end of warm-up" : "mark");
    heap_summary_put_place(r, s->stack, out);
    sonde_buf_putc(out, '\n');
}

void sonde_heap_summary(const struct sonde_profile *p, size_t leaks, int ascii,
                        struct sonde_buf *out)
{
    const struct sonde_report_options o = { .ascii = ascii };
    struct heap_report r;
    if (!p->heap) return;
    const int rc = heap_report_init(&r, p, &o, leaks);
    if (rc) {
        out->error = rc;
        return;
    }
    heap_summary_put_totals(&r, out);
    if (r.h->scanned) {
        char bytes[SONDE_VALUE_BYTES], count[SONDE_VALUE_BYTES];
        sonde_buf_printf(out, "lost: %s in %s allocations that nothing points to\n",
                         heap_summary_bytes_text(bytes, r.lost_bytes, ascii),
                         sonde_value_format(count, r.lost_count, SONDE_UNIT_COUNT, ascii));
    }
    for (uint32_t i = 0; i < r.leak_count && i < leaks; i++) {
        heap_summary_put_leak(&r, &r.h->sites[r.order[i]], out);
    }
    if (r.leak_count > leaks) {
        sonde_buf_printf(out, "and %zu more leak%s\n", (size_t)r.leak_count - leaks,
                         r.leak_count - leaks == 1 ? "" : "s");
    }
    heap_report_release(&r);
}
