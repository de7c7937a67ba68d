/* final.c - see final.h. */
#include "profile/final.h"

#include <string.h>

#include "base/alloc.h"
#include "base/intern.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

void sonde_final_destroy(struct sonde_final *r)
{
    if (!r) return;
    for (uint32_t i = 0; i < r->count; i++) sonde__free(r->series[i].buckets);
    sonde__free(r->series);
    sonde__free(r);
}

static int final_is_same(const struct sonde_final_series *a,
                              const struct sonde_final_series *b)
{
    return a->pid == b->pid && !strcmp(a->family, b->family) && !strcmp(a->program, b->program) &&
           !strcmp(a->subject, b->subject) && !strcmp(a->detail, b->detail) &&
           !strcmp(a->extra ? a->extra : "", b->extra ? b->extra : "");
}

/* p's copy of a text; *failed is set when there is no memory for it. */
static const char *final_text_keep(struct sonde_profile *p, const char *text, int *failed)
{
    const uint32_t id = *text ? sonde_profile_cstring(p, text) : 0;
    if (*text && !id) *failed = 1;
    return sonde_profile_str(p, id);
}

static int final_series_copy(struct sonde_profile *p, const struct sonde_final_series *from,
                       struct sonde_final_series *to)
{
    const size_t bytes = from->bucket_count * sizeof(*from->buckets);
    int failed = p->bytes + bytes > p->bytes_max;
    *to = *from;
    to->family = final_text_keep(p, from->family, &failed);
    to->program = final_text_keep(p, from->program, &failed);
    to->subject = final_text_keep(p, from->subject, &failed);
    to->detail = final_text_keep(p, from->detail, &failed);
    to->extra = final_text_keep(p, from->extra ? from->extra : "", &failed);
    to->buckets = bytes && !failed ? sonde__alloc(bytes) : NULL;
    if (failed || (bytes && !to->buckets)) return SONDE_ENOMEM;
    if (bytes) memcpy(to->buckets, from->buckets, bytes);
    p->bytes += bytes;
    return 0;
}

/* Room for one more. */
static struct sonde_final *final_with_room(struct sonde_profile *p)
{
    if (!p->final) p->final = sonde__calloc(1, sizeof(*p->final));
    struct sonde_final *run = p->final;
    if (!run || run->count == SONDE_FINAL_MAX) return NULL;
    const struct sonde_budget budget = { &p->bytes, p->bytes_max };
    struct sonde_final_series *grown =
        sonde_table_grow(run->series, run->count, &run->cap, sizeof(*grown), &budget);
    if (!grown) return NULL;
    run->series = grown;
    return run;
}

int sonde_final_add(struct sonde_profile *p, const struct sonde_final_series *s)
{
    struct sonde_final_series kept;
    struct sonde_final *run = p->final;
    uint32_t at = 0;
    while (run && at < run->count && !final_is_same(&run->series[at], s)) at++;
    const int known = run && at < run->count;
    if (!known && !(run = final_with_room(p))) return SONDE_ENOMEM;
    if (final_series_copy(p, s, &kept)) return SONDE_ENOMEM;
    if (known) sonde__free(run->series[at].buckets);
    else run->count++;
    run->series[at] = kept;
    return 0;
}

int sonde_final_merge(struct sonde_profile *p, const struct sonde_profile *from)
{
    int rc = 0;
    for (uint32_t i = 0; from->final && !rc && i < from->final->count; i++) {
        rc = sonde_final_add(p, &from->final->series[i]);
    }
    return rc;
}
