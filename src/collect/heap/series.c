/* series.c - the growth of a site. Most sites allocate while the program starts and never
 * again: as long as the amount is the same, tick and amount say it all. */
#include "base/alloc.h"
#include "collect/heap/private.h"
#include "sonde/sonde.h"

#define REFUSED UINT32_MAX   /* as `first`: there was no memory for its growth */

void mem_site_growth(const struct mem_site *s, uint32_t tick, struct sonde_series *out)
{
    if (s->series) {
        *out = *s->series;
        return;
    }
    *out = (struct sonde_series){ 0 };
    if (!s->first || s->first == REFUSED) return;
    out->first = s->first - 1;
    for (uint32_t i = out->first; i < tick; i++) sonde_series_add(out, (double)s->last);
}

int mem_site_add(struct mem_site *s, uint32_t tick, double value, const struct sonde_budget *b)
{
    if (s->series) {
        sonde_series_add(s->series, value);
        return 0;
    }
    if (!s->first) {
        s->first = tick + 1;
        s->last = (float)value;
        return 0;
    }
    if ((float)value == s->last || s->first == REFUSED) return 0;
    struct sonde_series *series =
        *b->used + sizeof(*series) <= b->max ? sonde__alloc(sizeof(*series)) : NULL;
    if (!series) {
        s->first = REFUSED;
        return SONDE_ENOMEM;
    }
    *b->used += sizeof(*series);
    mem_site_growth(s, tick, series);
    sonde_series_add(series, value);
    s->series = series;
    return 0;
}

void mem_site_coarsen(struct mem_site *s)
{
    if (s->series) sonde_series_coarsen(s->series);
    else if (s->first && s->first != REFUSED) s->first = (s->first - 1) / 2 + 1;
}

void mem_site_release(struct mem_site *s, const struct sonde_budget *b)
{
    if (!s->series) return;
    sonde__free(s->series);
    *b->used -= sizeof(*s->series);
    s->series = NULL;
}
