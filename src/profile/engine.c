/* engine.c - see engine.h. */
#include "profile/engine.h"

#include <string.h>

#include "base/alloc.h"
#include "base/intern.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

void sonde_engine_run_destroy(struct sonde_engine_run *r)
{
    if (!r) return;
    for (uint32_t i = 0; i < r->count; i++) sonde__free(r->series[i].buckets);
    sonde__free(r->series);
    sonde__free(r);
}

static int engine_run_is_same(const struct sonde_engine_series *a,
                              const struct sonde_engine_series *b)
{
    return a->pid == b->pid && !strcmp(a->family, b->family) && !strcmp(a->program, b->program) &&
           !strcmp(a->subject, b->subject) && !strcmp(a->detail, b->detail);
}

/* p's copy of a text; *failed is set when there is no memory for it. */
static const char *engine_run_text_keep(struct sonde_profile *p, const char *text, int *failed)
{
    const uint32_t id = *text ? sonde_profile_cstring(p, text) : 0;
    if (*text && !id) *failed = 1;
    return sonde_profile_str(p, id);
}

static int series_copy(struct sonde_profile *p, const struct sonde_engine_series *from,
                       struct sonde_engine_series *to)
{
    const size_t bytes = from->bucket_count * sizeof(*from->buckets);
    int failed = p->bytes + bytes > p->bytes_max;
    *to = *from;
    to->family = engine_run_text_keep(p, from->family, &failed);
    to->program = engine_run_text_keep(p, from->program, &failed);
    to->subject = engine_run_text_keep(p, from->subject, &failed);
    to->detail = engine_run_text_keep(p, from->detail, &failed);
    to->buckets = bytes && !failed ? sonde__alloc(bytes) : NULL;
    if (failed || (bytes && !to->buckets)) return SONDE_ENOMEM;
    if (bytes) memcpy(to->buckets, from->buckets, bytes);
    p->bytes += bytes;
    return 0;
}

/* Room for one more. */
static struct sonde_engine_run *run_with_room(struct sonde_profile *p)
{
    if (!p->engine_run) p->engine_run = sonde__calloc(1, sizeof(*p->engine_run));
    struct sonde_engine_run *run = p->engine_run;
    if (!run || run->count == SONDE_ENGINE_SERIES_MAX) return NULL;
    const struct sonde_budget budget = { &p->bytes, p->bytes_max };
    struct sonde_engine_series *grown =
        sonde_table_grow(run->series, run->count, &run->cap, sizeof(*grown), &budget);
    if (!grown) return NULL;
    run->series = grown;
    return run;
}

int sonde_engine_run_add(struct sonde_profile *p, const struct sonde_engine_series *s)
{
    struct sonde_engine_series kept;
    struct sonde_engine_run *run = p->engine_run;
    uint32_t at = 0;
    while (run && at < run->count && !engine_run_is_same(&run->series[at], s)) at++;
    const int known = run && at < run->count;
    if (!known && !(run = run_with_room(p))) return SONDE_ENOMEM;
    if (series_copy(p, s, &kept)) return SONDE_ENOMEM;
    if (known) sonde__free(run->series[at].buckets);
    else run->count++;
    run->series[at] = kept;
    return 0;
}

int sonde_engine_run_merge(struct sonde_profile *p, const struct sonde_profile *from)
{
    int rc = 0;
    for (uint32_t i = 0; from->engine_run && !rc && i < from->engine_run->count; i++) {
        rc = sonde_engine_run_add(p, &from->engine_run->series[i]);
    }
    return rc;
}
