/* set.c - the paths of many: see set.h. */
#include "analyze/path/set.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>

#include "analyze/path/private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"

enum { USES_MAX = 1 << 22 };

#define SHARE_DEFAULT 0.01

struct path_set_row { uint64_t from, total; uint32_t index; };

static int path_set_slowest_first(const void *a, const void *b)
{
    const struct path_set_row *x = a, *y = b;
    if (x->total != y->total) return SONDE_CMP(y->total, x->total);
    return SONDE_CMP(x->index, y->index);
}

static int path_set_by_begin(const void *a, const void *b)
{
    const struct sonde_path_item *x = a, *y = b;
    if (x->from_ns != y->from_ns) return SONDE_CMP(x->from_ns, y->from_ns);
    return SONDE_CMP(x->index, y->index);
}

static int path_set_begin_first(const void *a, const void *b)
{
    const struct path_set_row *x = a, *y = b;
    if (x->from != y->from) return SONDE_CMP(x->from, y->from);
    return SONDE_CMP(x->index, y->index);
}

/* What an engine behind it saw is part of the one that the front saw. */
static int path_set_is_inner(const struct sonde_path_index *x, uint32_t request)
{
    const struct sonde_infer_request *all = x->p->infer->requests, *r = &all[request];
    if (!(r->trace_hi | r->trace_lo)) return 0;
    for (uint32_t i = path_id_first(x->requests, x->request_count, r->parent);
         r->parent && i < x->request_count && x->requests[i].id == r->parent; i++) {
        if (x->requests[i].index != request) return 1;
    }
    uint32_t low = 0, high = x->by_trace_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const struct sonde_infer_request *m = &all[x->by_trace[middle]];
        const int less = m->trace_hi != r->trace_hi ? m->trace_hi < r->trace_hi
                                                    : m->trace_lo < r->trace_lo;
        if (less) low = middle + 1;
        else high = middle;
    }
    for (; low < x->by_trace_count; low++) {
        const struct sonde_infer_request *o = &all[x->by_trace[low]];
        if (o->trace_hi != r->trace_hi || o->trace_lo != r->trace_lo) return 0;
        if (o->source != r->source && o->arrived_ns <= r->arrived_ns && o->total_s > r->total_s) {
            return 1;
        }
    }
    return 0;
}

static int path_set_rows(const struct sonde_path_index *x, const struct sonde_path_query *q,
                         struct path_set_row **out, uint32_t *count)
{
    const struct sonde_profile *p = x->p;
    const uint32_t all = q->span ? p->spans_count : x->request_count;
    struct path_set_row *rows = sonde__alloc(((size_t)all + 1) * sizeof(*rows));
    uint32_t n = 0;
    if (!rows) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < all; i++) {
        if (q->span) {
            const struct sonde_profile_span *s = &p->spans[i];
            if (fnmatch(q->span, sonde_profile_str(p, s->name), 0) != 0) continue;
            if (s->end_ns <= s->start_ns) continue;
            rows[n++] = (struct path_set_row){ s->start_ns, s->end_ns - s->start_ns, i };
        } else {
            const struct sonde_infer_request *r = &p->infer->requests[i];
            if (r->invalid[0] || (r->flags & SONDE_INFER_RUNNING) || !(r->total_s > 0)) continue;
            if (path_set_is_inner(x, i)) continue;
            rows[n++] = (struct path_set_row){ r->arrived_ns,
                                               sonde_path_request_end(p, i) - r->arrived_ns, i };
        }
    }
    *out = rows;
    *count = n;
    return 0;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

static int path_set_add_details(struct sonde_path *to, const struct sonde_path *from)
{
    struct path_work w = { .out = to };
    for (int k = 0; k < SONDE_PATH_KIND_COUNT; k++) {
        to->ns[k] += from->ns[k];
        to->count[k] += from->count[k];
    }
    to->mates += from->mates;
    to->mate_tokens += from->mate_tokens;
    to->no_off_cpu |= from->no_off_cpu;
    for (uint32_t i = 0; i < from->detail_count; i++) {
        const struct sonde_path_detail *d = &from->details[i];
        path_detail(&w, d->kind, d->type, d->key, d->ns, d->count);
    }
    return w.rc;
}

static int path_set_add_uses(struct sonde_path_set *set, const struct sonde_path_index *x,
                             uint32_t item, const struct sonde_path *path)
{
    for (uint32_t i = 0; i < path->detail_count && set->use_count < USES_MAX; i++) {
        const struct sonde_path_detail *d = &path->details[i];
        struct sonde_path_use u = { .item = item, .kind = SONDE_PATH_COMPUTE, .ns = d->ns };
        if (d->type == SONDE_PATH_FUNCTION) {
            u.function = (uint32_t)d->key;
        } else if (d->type == SONDE_PATH_STACK) {
            const struct sonde_wait wait = sonde_path_wait(x, (uint32_t)d->key);
            u.kind = d->kind;
            u.function = wait.caller ? wait.caller : wait.call;
            u.line = wait.caller_line;
        }
        if (!u.function) continue;
        struct sonde_path_use *row = SONDE_ARRAY_ADD(set->uses, set->use_count, set->use_cap);
        if (!row) return SONDE_ENOMEM;
        *row = u;
    }
    return 0;
}

static int path_set_look(struct sonde_path_set *set, const struct sonde_path_index *x, uint32_t i)
{
    struct sonde_path_item *item = &set->items[i];
    struct sonde_path path;
    int rc = set->of_spans ? sonde_path_of_span(x, item->index, &path)
                           : sonde_path_of_request(x, item->index, &path);
    if (rc) return rc;
    for (int k = 0; k < SONDE_PATH_KIND_COUNT; k++) item->ns[k] = path.ns[k];
    item->mates = path.mates;
    item->mate_tokens = path.mate_tokens;
    item->thread = path.thread;
    *(item->slow ? &set->slow_ns : &set->rest_ns) += item->total_ns;
    rc = path_set_add_details(item->slow ? &set->slow : &set->rest, &path);
    if (!rc) rc = path_set_add_uses(set, x, i, &path);
    sonde_path_release(&path);
    return rc;
}

/* ---- All ------------------------------------------------------------------------------------- */

static int path_set_choose(struct sonde_path_set *set, const struct sonde_path_query *q,
                           struct path_set_row *rows, uint32_t count)
{
    const double share = q->slowest_share > 0 ? q->slowest_share : SHARE_DEFAULT;
    uint64_t slow = q->slowest ? q->slowest : (uint64_t)ceil((double)count * share - 1e-9);
    if (!slow) slow = 1;
    if (slow > count) slow = count;
    set->slow_asked = slow;
    if (slow < SONDE_PATH_SLOW_MIN && count >= SONDE_PATH_SET_MIN) slow = SONDE_PATH_SLOW_MIN;
    if (slow > SONDE_PATH_SLOW_MAX) slow = SONDE_PATH_SLOW_MAX;
    const uint32_t rest = count - (uint32_t)slow;
    const uint32_t step = rest / SONDE_PATH_REST_MAX + 1;
    set->items = sonde__calloc((size_t)count + 1, sizeof(*set->items));
    if (!set->items) return SONDE_ENOMEM;
    qsort(rows, count, sizeof(*rows), path_set_slowest_first);
    if (rest) qsort(rows + slow, rest, sizeof(*rows), path_set_begin_first);
    for (uint32_t i = 0; i < count; i += i < slow ? 1 : step) {
        set->items[set->count++] = (struct sonde_path_item){
            .index = rows[i].index, .from_ns = rows[i].from, .total_ns = rows[i].total,
            .slow = i < slow };
    }
    set->slow_count = (uint32_t)slow;
    qsort(set->items, set->count, sizeof(*set->items), path_set_by_begin);
    return 0;
}

int sonde_path_set_create(const struct sonde_path_index *x, const struct sonde_path_query *q,
                          struct sonde_path_set *out, struct sonde_err *err)
{
    struct sonde_path_set set = { .of_spans = q->span != NULL };
    struct path_set_row *rows = NULL;
    uint32_t count = 0;
    int rc = path_set_rows(x, q, &rows, &count);
    if (!rc && !count) {
        sonde__free(rows);
        if (q->span) {
            return sonde_err_set(err, SONDE_ENOENT, "no span is named '%.80s'", q->span);
        }
        return sonde_err_set(err, SONDE_ENOENT, "no inference request has ended in it; for other "
                             "programs name spans (--span, ?span=)");
    }
    set.all = count;
    if (!rc) rc = path_set_choose(&set, q, rows, count);
    sonde__free(rows);
    for (uint32_t i = 0; i < set.count && !rc; i++) rc = path_set_look(&set, x, i);
    if (rc) {
        sonde_path_set_release(&set);
        return sonde_err_set(err, rc, "not enough memory to look at %u paths", count);
    }
    struct path_work slow = { .rc = SONDE_ENOMEM, .out = &set.slow },
                     rest = { .rc = SONDE_ENOMEM, .out = &set.rest };
    const uint64_t slow_mates = set.slow.mates, rest_mates = set.rest.mates;
    path_finish(&slow); /* rc: there is no one latency that they would add up to */
    path_finish(&rest);
    set.slow.mates = slow_mates;
    set.rest.mates = rest_mates;
    *out = set;
    return 0;
}

void sonde_path_set_release(struct sonde_path_set *set)
{
    sonde__free(set->items);
    sonde__free(set->uses);
    sonde_path_release(&set->slow);
    sonde_path_release(&set->rest);
    *set = (struct sonde_path_set){ 0 };
}
