/* event_known.c - what an earlier run has of spans and requests.
 *
 * A program's ring outlives the agent, so that nothing is lost when that is started anew: the new
 * one reads what is still in it, and most of that is in the store already. The ids of the newest
 * that the store has are held in memory; what began before this run and is among them, or is older
 * than all of them, is not added again. */
#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

enum { KNOWN_MAX = 16384 };

static uint64_t store_event_known_key_of(uint32_t pid, uint64_t id)
{
    return id ^ (uint64_t)pid * 0x9e3779b97f4a7c15ull;
}

static int store_event_known_note(struct store_known *k, uint32_t pid, uint64_t id,
                                  uint64_t time_ns)
{
    const int64_t time_ms = (int64_t)(time_ns / 1000000);
    if (!k->count || time_ms < k->oldest_ms) k->oldest_ms = time_ms;
    k->keys[k->count++] = store_event_known_key_of(pid, id);
    return k->count == KNOWN_MAX;
}

static int store_event_known_note_span(const struct sonde_model_span *span, void *arg)
{
    return store_event_known_note(arg, span->pid, span->id, span->start_ns);
}

static int note_request(const struct sonde_infer_request *r, void *arg)
{
    return store_event_known_note(arg, r->pid, r->id, r->arrived_ns);
}

void store_known_load(struct sonde_store *s)
{
    assert(!s->thread.started);
    const struct sonde_store_range newest = { .limit = KNOWN_MAX };
    struct sonde_err err;
    for (int i = 0; i < STORE_EVENTS; i++) {
        struct store_known *k = &s->events[i].known;
        *k = (struct store_known){ .since_ms = store_now_ms(),
                                   .keys = sonde__calloc(KNOWN_MAX, sizeof(*k->keys)) };
        if (!k->keys) return; /* some may be there twice */
        /* A batch that cannot be read is told when somebody asks for it. */
        if (i == STORE_SPANS) store_spans(s, &newest, store_event_known_note_span, k, NULL, &err);
        else store_requests(s, &newest, note_request, k, NULL, &err);
        if (k->count < KNOWN_MAX) k->oldest_ms = INT64_MIN; /* that is all there is */
        qsort(k->keys, k->count, sizeof(*k->keys), sonde_cmp_u64);
    }
}

void store_known_release(struct sonde_store *s)
{
    for (int i = 0; i < STORE_EVENTS; i++) {
        sonde__free(s->events[i].known.keys);
        s->events[i].known = (struct store_known){ 0 };
    }
}

int store_is_known(const struct store_known *k, uint32_t pid, uint64_t id, uint64_t time_ns)
{
    const int64_t time_ms = (int64_t)(time_ns / 1000000);
    if (!k->count || time_ms >= k->since_ms) return 0;
    assert(k->keys[0] <= k->keys[k->count - 1]);
    const uint64_t key = store_event_known_key_of(pid, id);
    return time_ms < k->oldest_ms ||
           bsearch(&key, k->keys, k->count, sizeof(key), sonde_cmp_u64) != NULL;
}
