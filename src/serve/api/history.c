/* history.c - see history.h.
 *
 * A row of the store says when a part is of and how large it is; what took the time is in the profile
 * itself. So that is looked at once and kept in the summaries: parts do not change, they are
 * replaced. */
#include "serve/api/history.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/lock.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"

enum { REMEMBERED = 1024 };

struct summary {
    uint64_t id;
    double end_s;              /* with it, tells a part from a later one of the same number */
    size_t bytes;
    uint64_t cpu_ns, alloc_bytes, live_bytes;
    double ratio;              /* of the top function; 0 = there is none */
    char top[120];
};

struct sonde_summaries {
    struct sonde_lock lock;
    struct summary of[REMEMBERED]; /* by id, the newest of those that share a place */
};

int sonde_summaries_create(struct sonde_summaries **out)
{
    struct sonde_summaries *s = sonde__calloc(1, sizeof(*s));
    if (!s) return SONDE_ENOMEM;
    sonde_lock_init(&s->lock, SONDE_RANK_SUMMARIES);
    *out = s;
    return 0;
}

void sonde_summaries_destroy(struct sonde_summaries *s)
{
    if (!s) return;
    sonde_lock_destroy(&s->lock);
    sonde__free(s);
}

struct api_history_listing {
    const struct sonde_store_ops *ops;
    struct sonde_store *store;
    struct sonde_summaries *summaries;
    struct sonde_buf *out;
    size_t count, skip, shown; /* count: first pass */
};

static void find_top(const struct sonde_profile *p, int kind, struct summary *out)
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

static int api_history_look_at(const struct sonde_store_ops *ops, struct sonde_store *s,
                               struct summary *out, struct sonde_err *err)
{
    struct sonde_profile *p = NULL;
    const int rc = sonde_history_get(ops, s, out->id, &p, err);
    if (rc) return rc;
    out->cpu_ns = p->weights[SONDE_SAMPLE_CPU];
    out->alloc_bytes = p->weights[SONDE_SAMPLE_ALLOC];
    out->live_bytes = p->weights[SONDE_SAMPLE_LIVE];
    if (out->live_bytes) find_top(p, SONDE_SAMPLE_LIVE, out);
    else if (out->cpu_ns) find_top(p, SONDE_SAMPLE_CPU, out);
    sonde_profile_destroy(p);
    return 0;
}

static int summary_of(const struct api_history_listing *l, const struct sonde_history_part *part,
                      struct summary *out)
{
    struct sonde_summaries *s = l->summaries;
    struct summary *at = s ? &s->of[part->id % REMEMBERED] : NULL;
    if (at) {
        sonde_lock(&s->lock);
        *out = *at;
        sonde_unlock(&s->lock);
        if (out->id == part->id && out->end_s == part->end_s && out->bytes == part->bytes) return 0;
    }
    *out = (struct summary){ .id = part->id, .end_s = part->end_s, .bytes = part->bytes };
    const int rc = api_history_look_at(l->ops, l->store, out, NULL);
    if (rc || !at) return rc;
    sonde_lock(&s->lock);
    *at = *out;
    sonde_unlock(&s->lock);
    return 0;
}

static void api_history_put_part(const struct sonde_history_part *part, const struct summary *sum,
                                 struct sonde_buf *out)
{
    const int heap = part->tier == SONDE_HISTORY_HEAP;
    sonde_json_open(out, '{');
    sonde_json_u64(out, "id", part->id);
    sonde_json_str(out, "tier", sonde_history_tier_names[part->tier]);
    sonde_json_str(out, "process", part->program);
    sonde_json_time(out, "start", part->start_s);
    sonde_json_time(out, "end", part->end_s);
    sonde_json_num(out, "step_s", sonde_history_step_s(part->tier));
    sonde_json_u64(out, "samples", part->samples);
    if (!heap) sonde_json_ns(out, "cpu_seconds", sum->cpu_ns);
    sonde_json_u64(out, "allocated_bytes", sum->alloc_bytes);
    if (heap) sonde_json_u64(out, "in_use_bytes", sum->live_bytes);
    if (sum->ratio > 0) {
        sonde_json_key_open(out, "top", '{');
        sonde_json_str(out, "function", sum->top);
        sonde_json_num(out, "ratio", sum->ratio);
        sonde_json_close(out, '}');
    } else {
        sonde_json_str(out, "top", NULL);
    }
    sonde_json_u64(out, "bytes", part->bytes);
    sonde_json_close(out, '}');
}

static void api_history_count_part(const struct sonde_history_part *part, void *arg)
{
    (void)part;
    ((struct api_history_listing *)arg)->count++;
}

/* One that is gone meanwhile, or cannot be read, is passed over. */
static void list_part(const struct sonde_history_part *part, void *arg)
{
    struct api_history_listing *l = arg;
    struct summary sum;
    if (l->skip) {
        l->skip--;
        return;
    }
    if (l->out->error || summary_of(l, part, &sum) != 0) return;
    api_history_put_part(part, &sum, l->out);
    l->shown++;
}

int sonde_api_history(const struct sonde_store_ops *ops, struct sonde_store *s,
                      struct sonde_summaries *summaries, const struct sonde_history_query *q,
                      size_t limit, struct sonde_buf *out, struct sonde_err *err)
{
    assert(ops && s);
    struct api_history_listing l = { .ops = ops, .store = s, .summaries = summaries, .out = out };
    int rc = sonde_history_each(ops, s, q, api_history_count_part, &l, err);
    if (rc) return rc;
    l.skip = l.count > limit ? l.count - limit : 0;
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "from", q->from_s);
    sonde_json_time(out, "to", q->to_s);
    sonde_json_key_open(out, "parts", '[');
    rc = sonde_history_each(ops, s, q, list_part, &l, err);
    sonde_json_close(out, ']');
    sonde_json_u64(out, "total", l.count);
    sonde_json_bool(out, "truncated", l.count > limit);
    sonde_buf_puts(out, "}\n");
    return rc;
}
