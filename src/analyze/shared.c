/* shared.c - see shared.h. */
#include "analyze/shared.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"

static uint64_t request_end_ns(const struct sonde_infer_request *r)
{
    return r->arrived_ns + (uint64_t)(r->total_s * 1e9);
}

/* A part in which something was computed: neither waiting nor tokens that came out. */
static int is_work(const struct sonde_infer_item *i)
{
    return i->kind != SONDE_PHASE_NONE && i->kind != SONDE_PHASE_QUEUE && i->end_ns > i->start_ns;
}

static int is_batch(const struct sonde_infer_item *i)
{
    return is_work(i) && i->batch > 0;
}

/* When it was first worked for, or its end if it never was. */
static uint64_t first_work_ns(const struct sonde_infer_request *r)
{
    uint64_t first = request_end_ns(r);
    for (uint32_t i = 0; i < r->item_count; i++) {
        if (is_work(&r->items[i]) && r->items[i].start_ns < first) first = r->items[i].start_ns;
    }
    return first > r->arrived_ns ? first : r->arrived_ns;
}

/* ---- The same batches ------------------------------------------------------------------------ */

/* Timelines are in order of time: *at goes on from where the batch before was looked for. */
static const struct sonde_infer_item *batch_find(const struct sonde_infer_request *o, uint32_t *at,
                                                 const struct sonde_infer_item *batch)
{
    while (*at < o->item_count && o->items[*at].start_ns < batch->start_ns) ++*at;
    for (uint32_t i = *at; i < o->item_count && o->items[i].start_ns == batch->start_ns; i++) {
        const struct sonde_infer_item *other = &o->items[i];
        if (other->end_ns == batch->end_ns && is_batch(other) && other->count == 1) return other;
    }
    return NULL;
}

static void batches_match(const struct sonde_infer_request *r, const struct sonde_infer_request *o,
                          struct sonde_shared *out)
{
    struct sonde_shared_request s = { .request = o };
    uint32_t at = 0;
    for (uint32_t i = 0; i < r->item_count; i++) {
        const struct sonde_infer_item *batch = &r->items[i];
        if (!is_batch(batch) || batch->count != 1) continue;
        const struct sonde_infer_item *other = batch_find(o, &at, batch);
        if (!other) continue;
        s.batches++;
        s.tokens += other->tokens;
        s.seconds += (double)(batch->end_ns - batch->start_ns) * 1e-9;
    }
    if (s.batches) out->requests[out->request_count++] = s;
}

/* ---- What it waited for ---------------------------------------------------------------------- */

static struct sonde_shared_wait *wait_of(struct sonde_shared *out, size_t from,
                                         const struct sonde_infer_request *o,
                                         const struct sonde_infer_item *item)
{
    for (size_t i = from; i < out->wait_count; i++) {
        if (out->waits[i].kind == item->kind && !strcmp(out->waits[i].phase, item->name)) {
            return &out->waits[i];
        }
    }
    out->waits[out->wait_count] = (struct sonde_shared_wait){ o, item->kind, item->name, 0 };
    return &out->waits[out->wait_count++];
}

/* Room for one more phase of o each time; 0 or SONDE_ENOMEM. */
static int waits_grow(struct sonde_shared *out, size_t *cap)
{
    return SONDE_ARRAY_ROOM(out->waits, out->wait_count, *cap);
}

static int waits_add(const struct sonde_infer_request *r, uint64_t until_ns,
                     const struct sonde_infer_request *o, struct sonde_shared *out, size_t *cap)
{
    const size_t from = out->wait_count;
    for (uint32_t i = 0; i < o->item_count; i++) {
        const struct sonde_infer_item *item = &o->items[i];
        const uint64_t start = item->start_ns > r->arrived_ns ? item->start_ns : r->arrived_ns;
        const uint64_t end = item->end_ns < until_ns ? item->end_ns : until_ns;
        if (!is_work(item) || end <= start) continue;
        const int rc = waits_grow(out, cap);
        if (rc) return rc;
        const double share = (double)item->busy_ns / (double)(item->end_ns - item->start_ns);
        wait_of(out, from, o, item)->seconds +=
            (double)(end - start) * 1e-9 * (share < 1 ? share : 1);
    }
    return 0;
}

/* ---- All ------------------------------------------------------------------------------------- */

static int longest_shared_first(const void *a, const void *b)
{
    const struct sonde_shared_request *x = a, *y = b;
    return SONDE_CMP(y->seconds, x->seconds);
}

static int longest_wait_first(const void *a, const void *b)
{
    const struct sonde_shared_wait *x = a, *y = b;
    return SONDE_CMP(y->seconds, x->seconds);
}

static void own_batches(const struct sonde_infer_request *r, struct sonde_shared *out)
{
    for (uint32_t i = 0; i < r->item_count; i++) {
        const struct sonde_infer_item *batch = &r->items[i];
        if (!is_batch(batch)) continue;
        out->joined |= batch->count != 1;
        if (batch->count != 1) continue;
        out->batches++;
        out->batch_s += (double)(batch->end_ns - batch->start_ns) * 1e-9;
    }
}

int sonde_shared_find(const struct sonde_infer_request *r,
                      const struct sonde_infer_request *const *all, size_t count,
                      struct sonde_shared *out)
{
    *out = (struct sonde_shared){ .no_timeline = !r->item_count };
    if (out->no_timeline) return 0;
    size_t cap = 0;
    int rc = 0;
    const uint64_t until_ns = first_work_ns(r), end_ns = request_end_ns(r);
    out->wait_s = (double)(until_ns - r->arrived_ns) * 1e-9;
    out->requests = sonde__calloc(count + 1, sizeof(*out->requests));
    if (!out->requests) return SONDE_ENOMEM;
    own_batches(r, out);
    for (size_t i = 0; i < count && !rc; i++) {
        const struct sonde_infer_request *o = all[i];
        if (o->id == r->id || o->pid != r->pid || o->source != r->source ||
            o->arrived_ns >= end_ns || request_end_ns(o) <= r->arrived_ns) {
            continue;
        }
        if (!o->item_count) {
            out->others_unknown++;
            continue;
        }
        batches_match(r, o, out);
        rc = waits_add(r, until_ns, o, out, &cap);
    }
    if (out->request_count) {
        qsort(out->requests, out->request_count, sizeof(*out->requests), longest_shared_first);
    }
    if (out->wait_count) {
        qsort(out->waits, out->wait_count, sizeof(*out->waits), longest_wait_first);
    }
    return rc;
}

void sonde_shared_release(struct sonde_shared *s)
{
    sonde__free(s->requests);
    sonde__free(s->waits);
    *s = (struct sonde_shared){ 0 };
}
