/* series.c - the growth of a site. Most sites allocate while the program starts and never
 * again: as long as the amount is the same, tick and amount say it all. */
#include "base/alloc.h"
#include "collect/heap/private.h"
#include "sonde/sonde.h"

#define REFUSED UINT32_MAX   /* as `first`: there was no memory for its growth */

void heap_site_growth(const struct heap_site *s, uint32_t tick, struct sonde_curve *out)
{
    if (s->series) {
        *out = *s->series;
        return;
    }
    *out = (struct sonde_curve){ 0 };
    if (!s->first || s->first == REFUSED) return;
    out->first = s->first - 1;
    for (uint32_t i = out->first; i < tick; i++) sonde_curve_add(out, (double)s->last);
}

int heap_site_add(struct heap_site *s, uint32_t tick, double value, const struct sonde_budget *b)
{
    if (s->series) {
        sonde_curve_add(s->series, value);
        return 0;
    }
    if (!s->first) {
        s->first = tick + 1;
        s->last = (float)value;
        return 0;
    }
    if ((float)value == s->last || s->first == REFUSED) return 0;
    struct sonde_curve *series =
        *b->used + sizeof(*series) <= b->max ? sonde__alloc(sizeof(*series)) : NULL;
    if (!series) {
        s->first = REFUSED;
        return SONDE_ENOMEM;
    }
    *b->used += sizeof(*series);
    heap_site_growth(s, tick, series);
    sonde_curve_add(series, value);
    s->series = series;
    return 0;
}

void heap_site_coarsen(struct heap_site *s)
{
    if (s->series) sonde_curve_coarsen(s->series);
    else if (s->first && s->first != REFUSED) s->first = (s->first - 1) / 2 + 1;
}

void heap_site_release(struct heap_site *s, const struct sonde_budget *b)
{
    if (!s->series) return;
    sonde__free(s->series);
    *b->used -= sizeof(*s->series);
    s->series = NULL;
}
