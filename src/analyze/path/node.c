/* node.c - requests, spans and traces: whose time counts when. See path.h for the rules.
 *
 * A node has children: spans that name it as their parent, batches it is a part of, requests that
 * were made for it. Backwards from its end, the child that goes on at a moment counts up to where
 * it began; of several the one that began first, which encloses the others. */
#include <assert.h>
#include <stdlib.h>

#include "analyze/path/private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"

enum path_child_type { PATH_GAP, PATH_SPAN, PATH_REQUEST, PATH_ITEM };

struct path_child {
    enum path_child_type type;
    uint32_t index;           /* in spans, requests, or items of the request */
    uint64_t start, end;
    uint32_t thread;          /* 0 = of none */
    uint32_t pid;
};

struct path_children {
    struct path_child *rows;
    uint32_t count, cap;
};

/* ---- Children -------------------------------------------------------------------------------- */

/* It is one of those that wait. */
static int path_node_waits(const struct path_work *w, uint32_t thread)
{
    for (uint32_t i = 0; i < w->thread_count; i++) {
        if (w->threads[i] == thread) return 1;
    }
    return 0;
}

static void path_node_put(struct path_work *w, struct path_children *c, struct path_child child,
                          uint64_t from, uint64_t to)
{
    if (child.start < from) child.start = from;
    if (child.end > to) child.end = to;
    if (child.end <= child.start || w->rc) return;
    if (child.thread && path_node_waits(w, child.thread)) return;
    struct path_child *row = SONDE_ARRAY_ADD(c->rows, c->count, c->cap);
    if (row) *row = child;
    else w->rc = SONDE_ENOMEM;
}

static void path_node_put_span(struct path_work *w, struct path_children *c, uint32_t span,
                               uint64_t from, uint64_t to)
{
    const struct sonde_profile_span *s = &w->x->p->spans[span];
    path_node_put(w, c, (struct path_child){ .type = PATH_SPAN, .index = span,
                      .start = s->start_ns, .end = s->end_ns,
                      .thread = path_tid(w->x, s->thread) ? s->thread : 0,
                      .pid = path_pid(w->x, s->thread) }, from, to);
}

/* Spans that name it, and batches that it is in. */
static void path_node_of_id(struct path_work *w, struct path_children *c, uint64_t id, uint32_t pid,
                            const struct sonde_profile_span *self, uint64_t from, uint64_t to)
{
    const struct sonde_path_index *x = w->x;
    const struct sonde_profile *p = x->p;
    for (uint32_t i = path_id_first(x->by_parent, x->by_parent_count, id);
         i < x->by_parent_count && x->by_parent[i].id == id; i++) {
        const struct sonde_profile_span *s = &p->spans[x->by_parent[i].index];
        if (s == self || (self && !path_same_trace(s->trace_hi, s->trace_lo, self->trace_hi,
                                                   self->trace_lo))) {
            continue;
        }
        path_node_put_span(w, c, x->by_parent[i].index, from, to);
    }
    for (uint32_t i = path_id_first(x->by_request, x->by_request_count, id);
         i < x->by_request_count && x->by_request[i].id == id; i++) {
        const uint32_t span = p->parts[x->by_request[i].index].span;
        if (path_pid(x, p->spans[span].thread) == pid) path_node_put_span(w, c, span, from, to);
    }
}

/* What an engine behind it saw of the same request: in its trace, from another source. */
static void path_node_twins(struct path_work *w, struct path_children *c, uint32_t request,
                            uint64_t from, uint64_t to)
{
    const struct sonde_path_index *x = w->x;
    const struct sonde_infer_request *all = x->p->infer->requests, *r = &all[request];
    if (!(r->trace_hi | r->trace_lo)) return;
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
        const uint32_t other = x->by_trace[low];
        const struct sonde_infer_request *o = &all[other];
        if (o->trace_hi != r->trace_hi || o->trace_lo != r->trace_lo) break;
        if (other == request || path_is_own(w, o->pid, o->id)) continue;
        const uint64_t end = sonde_path_request_end(x->p, other);
        const int inside = o->arrived_ns >= r->arrived_ns &&
                           end - o->arrived_ns <= to - r->arrived_ns;
        if (o->parent != r->id && (o->source == r->source || !inside)) continue;
        path_node_put(w, c, (struct path_child){ .type = PATH_REQUEST, .index = other,
                          .start = o->arrived_ns, .end = end, .pid = o->pid }, from, to);
    }
}

/* ---- Backwards ------------------------------------------------------------------------------- */

static int path_node_by_end(const void *a, const void *b)
{
    const struct path_child *x = a, *y = b;
    if (x->end != y->end) return SONDE_CMP(y->end, x->end);
    return SONDE_CMP(x->start, y->start);
}

static int path_node_by_start(const void *a, const void *b)
{
    return SONDE_CMP(((const struct path_child *)a)->start, ((const struct path_child *)b)->start);
}

/* Those that count, with the gaps between them: from … to without a hole, in order of time. */
static void path_node_line(struct path_work *w, struct path_children *c, uint64_t from, uint64_t to,
                           struct path_children *out)
{
    uint64_t t = to;
    uint32_t i = 0;
    if (c->count) qsort(c->rows, c->count, sizeof(*c->rows), path_node_by_end);
    while (t > from && !w->rc) {
        const struct path_child *best = NULL;
        for (; i < c->count && c->rows[i].end >= t; i++) {
            const struct path_child *row = &c->rows[i];
            if (row->start < t && (!best || row->start < best->start)) best = row;
        }
        struct path_child next = { .type = PATH_GAP, .start = from, .end = t };
        if (best) next = *best;
        else if (i < c->count) next.start = c->rows[i].end;
        next.end = t;
        t = next.start;
        struct path_child *row = SONDE_ARRAY_ADD(out->rows, out->count, out->cap);
        if (row) *row = next;
        else w->rc = SONDE_ENOMEM;
    }
    if (out->count) qsort(out->rows, out->count, sizeof(*out->rows), path_node_by_start);
}

static void path_node_request(struct path_work *w, uint32_t request, uint64_t from, uint64_t to);

/* A span that may be of another thread, or of none. */
static void path_node_span(struct path_work *w, uint32_t span, const struct path_label *inherit,
                           uint64_t from, uint64_t to)
{
    const struct sonde_path_index *x = w->x;
    const struct sonde_profile_span *s = &x->p->spans[span];
    if (!path_tid(x, s->thread)) {
        const uint32_t request = path_request_find(x, path_pid(x, s->thread), s->id);
        if (request != UINT32_MAX) {
            path_node_request(w, request, from, to);
            return;
        }
        const struct path_label label = path_label_of(w, span, inherit);
        path_add_label(w, &label, from, to, 0, span + 1);
        return;
    }
    if (w->thread_count == PATH_DEPTH_MAX) {
        path_add(w, SONDE_PATH_UNEXPLAINED, from, to, s->thread, span + 1);
        return;
    }
    w->threads[w->thread_count++] = s->thread;
    path_span(w, span, inherit, from, to);
    w->thread_count--;
}

/* Deeper than anything that is meant to be, or in a circle: no further. 1 if so. */
static int path_node_too_deep(struct path_work *w, uint64_t from, uint64_t to)
{
    if (w->depth < PATH_DEPTH_MAX && w->chain_count < PATH_DEPTH_MAX) return 0;
    path_add(w, SONDE_PATH_UNEXPLAINED, from, to, 0, 0);
    return 1;
}

static void path_node_child(struct path_work *w, const struct path_child *c,
                            const struct path_label *inherit)
{
    if (path_node_too_deep(w, c->start, c->end)) return;
    w->depth++;
    if (c->type == PATH_SPAN) path_node_span(w, c->index, inherit, c->start, c->end);
    else path_node_request(w, c->index, c->start, c->end);
    w->depth--;
}

/* ---- Spans ----------------------------------------------------------------------------------- */

static const struct path_label path_node_plain = { .kind = SONDE_PATH_COMPUTE };

/* Threads of children, looked at once: a request may have thousands, and be in as many waits. */
static void path_node_push(struct path_work *w, uint64_t id, uint32_t pid)
{
    const struct sonde_path_index *x = w->x;
    const struct sonde_profile *p = x->p;
    struct path_link link = { .id = id, .pid = pid, .childless = 1 };
    for (int parts = 0; parts < 2; parts++) {
        const struct path_id *table = parts ? x->by_request : x->by_parent;
        const uint32_t count = parts ? x->by_request_count : x->by_parent_count;
        for (uint32_t i = id ? path_id_first(table, count, id) : count;
             i < count && table[i].id == id; i++) {
            const uint32_t span = parts ? p->parts[table[i].index].span : table[i].index;
            const uint32_t of = p->spans[span].thread, thread = path_tid(x, of) ? of : 0;
            if (link.childless) link.thread = thread;
            else if (link.thread != thread) link.thread = 0;
            link.childless = 0;
        }
    }
    w->chain[w->chain_count++] = link;
}

/* All that whoever waits may wait for. */
static void path_node_awaited(struct path_work *w, struct path_children *c, uint64_t from,
                              uint64_t to)
{
    for (uint32_t i = 0; i < w->chain_count; i++) {
        const struct path_link *link = &w->chain[i];
        if (link->childless || (link->thread && path_node_waits(w, link->thread))) continue;
        path_node_of_id(w, c, link->id, link->pid, NULL, from, to);
    }
}

void path_wait(struct path_work *w, const struct path_off *off, uint64_t from, uint64_t to,
               uint32_t span, const struct path_label *label)
{
    const enum sonde_wait_kind wait = w->x->waits[off->stack].kind;
    const enum sonde_path_kind kind = path_kind_of_wait(wait);
    const int follows = wait != SONDE_WAIT_SLEEP && wait != SONDE_WAIT_PAGE_FAULT;
    struct path_children c = { 0 }, line = { 0 };
    if (follows && w->depth < PATH_DEPTH_MAX) path_node_awaited(w, &c, from, to);
    path_node_line(w, &c, from, to, &line);
    for (uint32_t i = 0; i < line.count && !w->rc; i++) {
        const struct path_child *row = &line.rows[i];
        if (row->type != PATH_GAP) {
            path_node_child(w, row, label);
            continue;
        }
        path_add(w, kind, row->start, row->end, off->thread, span);
        path_detail(w, kind, SONDE_PATH_STACK, off->stack, row->end - row->start, 1);
    }
    sonde__free(c.rows);
    sonde__free(line.rows);
}

/* Before or after a child in another process: it computed as far as it was sampled, and otherwise
 * sent, or waited for what was sent. */
static void path_node_between(struct path_work *w, uint32_t span, const struct path_label *label,
                              const struct path_child *gap, const struct path_child *child)
{
    const uint32_t thread = w->x->p->spans[span].thread;
    const uint64_t ran = path_cpu_ns(w->x, thread, gap->start, gap->end);
    w->out->no_off_cpu = 1;
    path_add_label(w, label, gap->start, gap->start + ran, thread, span + 1);
    path_add(w, SONDE_PATH_NETWORK, gap->start + ran, gap->end, thread, span + 1);
    if (child->type == PATH_SPAN && gap->end - gap->start > ran) {
        path_detail(w, SONDE_PATH_NETWORK, SONDE_PATH_SPAN, w->x->p->spans[child->index].name,
                    gap->end - gap->start - ran, 1);
    }
}

/* Where nothing says when the thread waited, its children count, and it itself in between. */
static void path_node_blind(struct path_work *w, uint32_t span, const struct path_label *label,
                            uint64_t from, uint64_t to)
{
    const struct sonde_profile_span *s = &w->x->p->spans[span];
    const uint32_t pid = path_pid(w->x, s->thread);
    struct path_children c = { 0 }, line = { 0 };
    if (s->id) path_node_of_id(w, &c, s->id, pid, s, from, to);
    path_node_line(w, &c, from, to, &line);
    for (uint32_t i = 0; i < line.count && !w->rc; i++) {
        const struct path_child *row = &line.rows[i];
        const struct path_child *near = i + 1 < line.count ? row + 1 : i ? row - 1 : NULL;
        if (row->type != PATH_GAP) path_node_child(w, row, label);
        else if (near && near->pid != pid) path_node_between(w, span, label, row, near);
        else path_inside(w, s->thread, span + 1, label, row->start, row->end);
    }
    sonde__free(c.rows);
    sonde__free(line.rows);
}

void path_span(struct path_work *w, uint32_t span, const struct path_label *inherit, uint64_t from,
               uint64_t to)
{
    const struct sonde_profile_span *s = &w->x->p->spans[span];
    const struct path_label label = path_label_of(w, span, inherit);
    if (path_node_too_deep(w, from, to)) return;
    w->depth++;
    path_node_push(w, s->id, path_pid(w->x, s->thread));
    if (w->x->known[s->thread]) path_inside(w, s->thread, span + 1, &label, from, to);
    else path_node_blind(w, span, &label, from, to);
    w->chain_count--;
    w->depth--;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* What the thread that began with it later did meanwhile. */
static void path_node_queue_details(struct path_work *w, uint32_t thread, uint64_t from,
                                    uint64_t to)
{
    const struct sonde_path_index *x = w->x;
    const uint32_t pid = path_pid(x, thread);
    uint32_t low = x->span_first[thread], high = x->span_first[thread + 1];
    const uint32_t end = high;
    while (low < high) { /* that began in it: one that was under way is the exception */
        const uint32_t middle = low + (high - low) / 2;
        if (x->p->spans[x->spans[middle]].start_ns < from) low = middle + 1;
        else high = middle;
    }
    if (low > x->span_first[thread]) low--;
    for (; low < end; low++) {
        const uint32_t span = x->spans[low];
        const struct sonde_profile_span *s = &x->p->spans[span];
        const uint64_t a = s->start_ns > from ? s->start_ns : from;
        const uint64_t b = s->end_ns < to ? s->end_ns : to;
        if (s->start_ns >= to) return;
        if (b <= a) continue;
        if (x->part_first[span] < x->part_first[span + 1]) {
            path_add_mates(w, SONDE_PATH_QUEUE, span, b - a);
        } else if (path_request_find(x, pid, s->parent) != UINT32_MAX &&
                   !path_is_own(w, pid, s->parent)) {
            path_detail(w, SONDE_PATH_QUEUE, SONDE_PATH_REQUEST, s->parent, b - a, 1);
        }
    }
}

/* Between what was done for it. next and before may be NULL. */
static void path_node_gap(struct path_work *w, const struct path_child *gap, uint32_t pid,
                          const struct path_child *before, const struct path_child *next)
{
    static const struct path_label overhead = { .kind = SONDE_PATH_OVERHEAD };
    const struct path_child *near = next ? next : before;
    if (!near) {
        path_add(w, SONDE_PATH_UNEXPLAINED, gap->start, gap->end, 0, 0);
    } else if (pid && near->pid && near->pid != pid) {
        path_add(w, SONDE_PATH_NETWORK, gap->start, gap->end, 0, 0);
        if (near->type == PATH_SPAN) {
            path_detail(w, SONDE_PATH_NETWORK, SONDE_PATH_SPAN, w->x->p->spans[near->index].name,
                        gap->end - gap->start, 1);
        }
    } else if (!before) {
        path_add(w, SONDE_PATH_QUEUE, gap->start, gap->end, 0, 0);
        if (near->thread) path_node_queue_details(w, near->thread, gap->start, gap->end);
    } else {
        if (!near->thread && before->thread) near = before;
        if (!near->thread || w->thread_count == PATH_DEPTH_MAX) {
            path_add(w, SONDE_PATH_UNEXPLAINED, gap->start, gap->end, 0, 0);
            return;
        }
        w->threads[w->thread_count++] = near->thread;
        path_inside(w, near->thread, 0, &overhead, gap->start, gap->end);
        w->thread_count--;
    }
}

/* Of a timeline, where no spans were kept. Joined items are busy for a part of their time. */
static void path_node_item(struct path_work *w, const struct sonde_infer_item *item, uint64_t from,
                           uint64_t to)
{
    const unsigned phase = item->kind < SONDE_PHASE_COUNT ? item->kind : SONDE_PHASE_NONE;
    static const enum sonde_path_kind kinds[SONDE_PHASE_COUNT] = {
        SONDE_PATH_COMPUTE, SONDE_PATH_QUEUE, SONDE_PATH_ENCODE, SONDE_PATH_PREFILL,
        SONDE_PATH_DECODE, SONDE_PATH_SAMPLE, SONDE_PATH_DETOKENIZE };
    const uint64_t all = item->end_ns - item->start_ns;
    const double share = all ? (double)item->busy_ns / (double)all : 1;
    uint64_t busy = item->busy_ns >= all ? to - from : (uint64_t)((double)(to - from) * share);
    if (busy > to - from) busy = to - from;
    path_add(w, kinds[phase], from, from + busy, 0, 0);
    path_add(w, item->batch ? SONDE_PATH_BATCH_MATES : SONDE_PATH_UNEXPLAINED, from + busy, to, 0,
             0);
}

static void path_node_put_items(struct path_work *w, struct path_children *c, uint32_t request,
                                uint64_t from, uint64_t to)
{
    const struct sonde_infer_request *r = &w->x->p->infer->requests[request];
    for (uint32_t i = 0; i < r->item_count; i++) {
        if (r->items[i].kind == SONDE_PHASE_NONE) continue; /* tokens */
        path_node_put(w, c, (struct path_child){ .type = PATH_ITEM, .index = i, .pid = r->pid,
                          .start = r->items[i].start_ns, .end = r->items[i].end_ns }, from, to);
    }
}

/* The first thread that works for it from a place on. */
static uint32_t path_node_thread_after(const struct path_children *line, uint32_t at)
{
    while (at < line->count && !line->rows[at].thread) at++;
    return at < line->count ? line->rows[at].thread : 0;
}

static void path_node_request_line(struct path_work *w, const struct path_children *line,
                                   const struct sonde_infer_request *r)
{
    const struct sonde_path_index *x = w->x;
    for (uint32_t i = 0; i < line->count && !w->rc; i++) {
        const struct path_child *row = &line->rows[i];
        if (row->type == PATH_GAP) {
            path_node_gap(w, row, r->pid, i ? row - 1 : NULL, i + 1 < line->count ? row + 1 : NULL);
        } else if (row->type == PATH_ITEM) {
            path_node_item(w, &r->items[row->index], row->start, row->end);
        } else {
            path_node_child(w, row, &path_node_plain);
        }
        if (row->type == PATH_SPAN && !row->thread &&
            x->phase[x->p->spans[row->index].name] == SONDE_PHASE_QUEUE) {
            const uint32_t thread = path_node_thread_after(line, i + 1);
            if (thread) path_node_queue_details(w, thread, row->start, row->end);
        }
    }
}

static void path_node_request(struct path_work *w, uint32_t request, uint64_t from, uint64_t to)
{
    const struct sonde_infer_request *r = &w->x->p->infer->requests[request];
    struct path_children c = { 0 }, line = { 0 };
    if (path_node_too_deep(w, from, to)) return;
    const int known = path_is_own(w, r->pid, r->id);
    if (!known && w->own_count < PATH_OWN_MAX) {
        w->own[w->own_count++] = (struct path_own){ r->id, r->pid };
    }
    path_node_of_id(w, &c, r->id, r->pid, NULL, from, to);
    path_node_twins(w, &c, request, from, to);
    /* Its own span, if it has one, is the request. */
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c.count; i++) {
        const int self = c.rows[i].type == PATH_SPAN && c.rows[i].pid == r->pid &&
                         w->x->p->spans[c.rows[i].index].id == r->id;
        if (!self) c.rows[kept++] = c.rows[i];
    }
    c.count = kept;
    if (!c.count) path_node_put_items(w, &c, request, from, to);
    path_node_line(w, &c, from, to, &line);
    w->depth++;
    path_node_push(w, r->id, r->pid);
    path_node_request_line(w, &line, r);
    w->chain_count--;
    w->depth--;
    sonde__free(c.rows);
    sonde__free(line.rows);
}

/* ---- From outside ---------------------------------------------------------------------------- */

static struct path_work path_node_work(const struct sonde_path_index *x, struct sonde_path *out,
                                       uint64_t from, uint64_t to)
{
    *out = (struct sonde_path){ .from_ns = from, .to_ns = to > from ? to : from };
    return (struct path_work){ .x = x, .out = out };
}

static int path_node_done(struct path_work *w)
{
    path_finish(w);
    if (w->rc) sonde_path_release(w->out);
    return w->rc;
}

int sonde_path_of_request(const struct sonde_path_index *x, uint32_t request,
                          struct sonde_path *out)
{
    assert(request < x->request_count);
    const uint64_t from = x->p->infer->requests[request].arrived_ns;
    struct path_work w = path_node_work(x, out, from, sonde_path_request_end(x->p, request));
    path_node_request(&w, request, out->from_ns, out->to_ns);
    return path_node_done(&w);
}

int sonde_path_of_span(const struct sonde_path_index *x, uint32_t span, struct sonde_path *out)
{
    assert(span < x->p->spans_count);
    const struct sonde_profile_span *s = &x->p->spans[span];
    struct path_work w = path_node_work(x, out, s->start_ns, s->end_ns);
    /* A phase is its request's. */
    const uint32_t pid = path_pid(x, s->thread);
    if (path_request_find(x, pid, s->parent) != UINT32_MAX) {
        w.own[w.own_count++] = (struct path_own){ s->parent, pid };
    }
    path_node_span(&w, span, &path_node_plain, out->from_ns, out->to_ns);
    return path_node_done(&w);
}

/* 1 if the span that s names as its parent is known, in its trace. */
static int path_node_has_parent(const struct sonde_path_index *x,
                                const struct sonde_profile_span *s)
{
    for (uint32_t i = path_id_first(x->by_id, x->by_id_count, s->parent);
         s->parent && i < x->by_id_count && x->by_id[i].id == s->parent; i++) {
        const struct sonde_profile_span *o = &x->p->spans[x->by_id[i].index];
        if (o != s && o->trace_hi == s->trace_hi && o->trace_lo == s->trace_lo) return 1;
    }
    return 0;
}

int sonde_path_of_trace(const struct sonde_path_index *x, uint64_t hi, uint64_t lo,
                        struct sonde_path *out)
{
    uint64_t from = UINT64_MAX, to = 0;
    for (uint32_t i = 0; i < x->p->spans_count; i++) {
        const struct sonde_profile_span *s = &x->p->spans[i];
        if (s->trace_hi != hi || s->trace_lo != lo) continue;
        if (s->start_ns < from) from = s->start_ns;
        if (s->end_ns > to) to = s->end_ns;
    }
    if (to < from) return SONDE_ENOENT;
    struct path_work w = path_node_work(x, out, from, to);
    struct path_children c = { 0 }, line = { 0 };
    for (uint32_t i = 0; i < x->p->spans_count; i++) {
        const struct sonde_profile_span *s = &x->p->spans[i];
        if (s->trace_hi != hi || s->trace_lo != lo || path_node_has_parent(x, s)) continue;
        path_node_put_span(&w, &c, i, from, to);
    }
    path_node_line(&w, &c, from, to, &line);
    for (uint32_t i = 0; i < line.count && !w.rc; i++) {
        const struct path_child *row = &line.rows[i];
        if (row->type != PATH_GAP) {
            path_node_child(&w, row, &path_node_plain);
            continue;
        }
        const int between = i && i + 1 < line.count && row[-1].pid != row[1].pid;
        path_add(&w, between ? SONDE_PATH_NETWORK : SONDE_PATH_UNEXPLAINED, row->start, row->end, 0,
                 0);
    }
    sonde__free(c.rows);
    sonde__free(line.rows);
    return path_node_done(&w);
}
