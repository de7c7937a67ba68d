/* flame.c - see flame.h: things that are kept by what makes them differ, and trees. */
#include "serve/api/flame.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "serve/api/flame_private.h"
#include "sonde/sonde.h"

#define NAME_MAX_BYTES ((size_t)256 << 10)
#define TREE_NODES_MAX 3000000u /* of a tree that is kept, if there are more stacks: some 300 MB */
#define FRESH_S 2.0             /* of what changes */
#define FRESH_OVER_S 3600.0     /* of what does not: as long as it is kept */
#define RECENT_S 120.0          /* what is so new may still change */

/* ---- Things ---------------------------------------------------------------------------------- */

int flame_is_standing(int kind)
{
    return kind == SONDE_SAMPLE_LIVE || kind == SONDE_SAMPLE_PEAK || kind == SONDE_SAMPLE_LEAKED ||
           kind == SONDE_SAMPLE_TEMPORARY;
}

int flame_asks_requests(const struct sonde_api_flame_side *side)
{
    return side->request || side->slowest || side->model || side->route ||
           side->metric != SONDE_METRIC_NONE;
}

int flame_asks_choice(const struct sonde_api_flame_side *side)
{
    return side->phase || flame_asks_requests(side);
}

void flame_note(struct sonde_api_flame_source *s, const char *format, ...)
{
    va_list args;
    if (s->note_count == SONDE_API_FLAME_NOTES) return;
    va_start(args, format);
    vsnprintf(s->notes[s->note_count++], sizeof(s->notes[0]), format, args);
    va_end(args);
}

static void api_flame_put_text(struct sonde_buf *out, const char *text)
{
    sonde_buf_putc(out, ' ');
    if (text) sonde_buf_json_str(out, text, strlen(text));
    else sonde_buf_putc(out, '-');
}

static void put_side(const struct sonde_api_flame_side *s, int heap, struct sonde_buf *out)
{
    const char *const texts[] = { s->profile, s->process, s->thread, s->span, s->phase,
                                  s->request, s->slowest, s->model, s->route };
    sonde_buf_printf(out, " %d %d %.6f %.6f %d %u %d %.17g %.17g %d %d", s->live, heap, s->from_s,
                     s->to_s, s->no_range && s->request, s->pid, (int)s->metric, s->min, s->max,
                     s->workers, s->rest);
    for (size_t i = 0; i < SONDE_COUNT(texts); i++) api_flame_put_text(out, texts[i]);
}

static int api_flame_goes_on(const struct sonde_http_request *r,
                             const struct sonde_api_flame_side *s)
{
    if (s->profile && sonde_http_file(r, s->profile)) return 0;
    return s->live || s->profile || s->to_s > sonde_clock_s(CLOCK_REALTIME) - RECENT_S;
}

/* What goes on is looked at anew, but not for somebody who looks closer at what was there. */
static double fresh_s(const struct flame_making *m, const struct sonde_api_flame_side *base)
{
    if (m->q->focus_count) return FRESH_OVER_S;
    return api_flame_goes_on(m->r, m->side) || (base && api_flame_goes_on(m->r, base))
               ? FRESH_S
               : FRESH_OVER_S;
}

int flame_take(const struct flame_making *m, const char *sort,
               const struct sonde_api_flame_side *base,
               int (*make)(void *making, void **thing, size_t *bytes, struct sonde_err *err),
               void (*destroy)(void *thing), struct sonde_recent_thing **out,
               struct sonde_err *err)
{
    struct flame_making making = *m;
    const struct sonde_recent_maker maker = { make, &making, destroy };
    const int heap = flame_is_standing(m->q->kind);
    struct sonde_buf name;
    sonde_buf_init(&name, NAME_MAX_BYTES);
    sonde_buf_puts(&name, sort);
    put_side(m->side, heap && !m->side->live && !m->side->profile, &name);
    if (base) put_side(base, heap && !base->live && !base->profile, &name);
    const int rc = name.error ? sonde_err_memory(err)
                              : sonde_recent_take(m->r->recent, name.data, fresh_s(m, base), &maker,
                                                  out, err);
    sonde_buf_release(&name);
    return rc;
}

/* ---- Trees ----------------------------------------------------------------------------------- */

static void destroy_tree(void *thing)
{
    struct sonde_api_flame_tree *t = thing;
    sonde_tree_destroy(t->tree); /* before what its texts may be of */
    sonde_recent_give(t->of);
    sonde_recent_give(t->base_of);
    sonde__free(t);
}

/* The end of every maker. */
static int api_flame_made(struct sonde_api_flame_tree *t, int rc, void **thing, size_t *bytes)
{
    if (rc) {
        destroy_tree(t);
        return rc;
    }
    *bytes = sonde_tree_bytes(t->tree);
    *thing = t;
    return 0;
}

struct sonde_profile_filter sonde_api_flame_filter(const struct sonde_api_flame_query *q,
                                                   const struct sonde_api_flame_side *side)
{
    const int by_time = side->profile && !flame_asks_choice(side);
    return (struct sonde_profile_filter){
        .kind = q->kind, .thread = side->thread, .span = side->span,
        .from_ns = by_time ? sonde_clock_ns_of(side->from_s) : 0,
        .to_ns = by_time ? sonde_clock_ns_of(side->to_s) : 0 };
}

/* In a difference functions are the same if their names are: a module may be called otherwise in
 * another version. */
static int make_tree(void *making, void **thing, size_t *bytes, struct sonde_err *err)
{
    const struct flame_making *m = making;
    const struct sonde_profile_filter f = sonde_api_flame_filter(m->q, m->side);
    struct sonde_api_flame_tree *t = sonde__calloc(1, sizeof(*t));
    if (!t) return sonde_err_memory(err);
    int rc = sonde_api_flame_source(m->r, m->q, m->side, &t->of, err);
    if (!rc) {
        t->source = sonde_recent_get(t->of);
        const struct sonde_profile *p = t->source->profile;
        const struct sonde_tree_options o = {
            .functions = 1, .by_module = !m->q->has_base,
            .nodes_max = p->stacks_count > TREE_NODES_MAX ? TREE_NODES_MAX : 0 };
        rc = sonde_tree_build(p, &f, &o, &t->tree, err);
    }
    return api_flame_made(t, rc, thing, bytes);
}

static int take_tree(const struct flame_making *m, struct sonde_recent_thing **out,
                     struct sonde_err *err)
{
    char sort[40];
    snprintf(sort, sizeof(sort), "tree %d %d", m->q->kind, m->q->has_base);
    return flame_take(m, sort, NULL, make_tree, destroy_tree, out, err);
}

/* The base is told apart from what is asked for: which of both has nothing is what people need to
 * know. */
static int take_base(const struct flame_making *m, int kind, struct sonde_recent_thing **out,
                     struct sonde_err *err)
{
    struct sonde_api_flame_query q = *m->q;
    struct sonde_err why = { "" };
    q.kind = kind;
    const struct flame_making base = { m->r, &q, &q.base };
    const int rc = take_tree(&base, out, &why);
    return rc ? sonde_err_set(err, rc, "what it is compared with: %s", why.text) : 0;
}

static int make_diff(void *making, void **thing, size_t *bytes, struct sonde_err *err)
{
    const struct flame_making *m = making;
    struct sonde_api_flame_tree *t = sonde__calloc(1, sizeof(*t));
    if (!t) return sonde_err_memory(err);
    int rc = take_tree(m, &t->of, err);
    const struct sonde_api_flame_tree *after = rc ? NULL : sonde_recent_get(t->of);
    if (!rc) rc = take_base(m, (int)after->tree->kind, &t->base_of, err);
    if (!rc) {
        const struct sonde_api_flame_tree *before = sonde_recent_get(t->base_of);
        t->source = after->source;
        t->base = before->source;
        t->base_samples = before->tree->nodes[0].samples;
        rc = sonde_tree_diff(before->tree, after->tree, &t->tree);
        if (rc) rc = sonde_err_memory(err);
    }
    return api_flame_made(t, rc, thing, bytes);
}

static int take_unfolded(const struct flame_making *m, struct sonde_recent_thing **out,
                         struct sonde_err *err)
{
    char sort[40];
    if (!m->q->has_base) return take_tree(m, out, err);
    snprintf(sort, sizeof(sort), "difference %d", m->q->kind);
    return flame_take(m, sort, &m->q->base, make_diff, destroy_tree, out, err);
}

static int make_folded(void *making, void **thing, size_t *bytes, struct sonde_err *err)
{
    const struct flame_making *m = making;
    struct sonde_api_flame_tree *t = sonde__calloc(1, sizeof(*t));
    if (!t) return sonde_err_memory(err);
    int rc = take_unfolded(m, &t->of, err);
    if (!rc) {
        const struct sonde_api_flame_tree *of = sonde_recent_get(t->of);
        t->source = of->source;
        t->base = of->base;
        t->base_samples = of->base_samples;
        rc = sonde_tree_fold(of->tree, &t->tree);
        if (rc) rc = sonde_err_memory(err);
    }
    return api_flame_made(t, rc, thing, bytes);
}

int sonde_api_flame_tree(const struct sonde_http_request *r, const struct sonde_api_flame_query *q,
                         struct sonde_recent_thing **out, struct sonde_err *err)
{
    const struct flame_making m = { r, q, &q->side };
    char sort[40];
    if (!q->fold) return take_unfolded(&m, out, err);
    snprintf(sort, sizeof(sort), "folded %d", q->kind);
    return flame_take(&m, sort, q->has_base ? &q->base : NULL, make_folded, destroy_tree, out, err);
}
