/* history_summary.c - see history_summary.h. */
#include "store/history_summary.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"

enum { REMEMBERED = 1024 };

struct sonde_history_summaries {
    struct sonde_lock lock;
    struct sonde_history_summary of[REMEMBERED]; /* by id, the newest of those that share a place */
};

int sonde_history_summaries_create(struct sonde_history_summaries **out)
{
    struct sonde_history_summaries *s = sonde__calloc(1, sizeof(*s));
    if (!s) return SONDE_ENOMEM;
    sonde_lock_init(&s->lock, SONDE_RANK_SUMMARIES);
    *out = s;
    return 0;
}

void sonde_history_summaries_destroy(struct sonde_history_summaries *s)
{
    if (!s) return;
    sonde_lock_destroy(&s->lock);
    sonde__free(s);
}

static void summary_find_top(const struct sonde_profile *p, int kind,
                             struct sonde_history_summary *out)
{
    const struct sonde_profile_filter f = { .kind = kind };
    const struct sonde_tree_options o = { .functions = 1, .by_module = 1 };
    struct sonde_tree *tree = NULL;
    struct sonde_flat *flat = NULL;
    size_t count = 0;
    if (sonde_tree_build(p, &f, &o, &tree, NULL) != 0) return;
    if (sonde_tree_flat(tree, &flat, &count) == 0 && count && p->weights[kind]) {
        snprintf(out->top, sizeof(out->top), "%.119s", flat[0].name);
        out->ratio = (double)flat[0].self / (double)p->weights[kind];
    }
    sonde__free(flat);
    sonde_tree_destroy(tree);
}

static int summary_read(const struct sonde_store_ops *ops, struct sonde_store *store,
                        struct sonde_history_summary *out)
{
    struct sonde_profile *p = NULL;
    const int rc = sonde_history_get(ops, store, out->id, &p, NULL);
    if (rc) return rc;
    out->cpu_ns = p->weights[SONDE_SAMPLE_CPU];
    out->alloc_bytes = p->weights[SONDE_SAMPLE_ALLOC];
    out->live_bytes = p->weights[SONDE_SAMPLE_LIVE];
    if (out->live_bytes) summary_find_top(p, SONDE_SAMPLE_LIVE, out);
    else if (out->cpu_ns) summary_find_top(p, SONDE_SAMPLE_CPU, out);
    sonde_profile_destroy(p);
    return 0;
}

int sonde_history_summary(struct sonde_history_summaries *s, const struct sonde_store_ops *ops,
                          struct sonde_store *store, const struct sonde_history_part *part,
                          struct sonde_history_summary *out)
{
    assert(ops && store && part);
    struct sonde_history_summary *at = s ? &s->of[part->id % REMEMBERED] : NULL;
    if (at) {
        sonde_lock(&s->lock);
        *out = *at;
        sonde_unlock(&s->lock);
        if (out->id == part->id && out->end_s == part->end_s && out->bytes == part->bytes) return 0;
    }
    *out = (struct sonde_history_summary){ .id = part->id, .end_s = part->end_s,
                                           .bytes = part->bytes };
    const int rc = summary_read(ops, store, out);
    if (rc || !at) return rc;
    sonde_lock(&s->lock);
    *at = *out;
    sonde_unlock(&s->lock);
    return 0;
}
