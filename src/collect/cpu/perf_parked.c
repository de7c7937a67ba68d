#include "collect/cpu/perf_parked.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

/* Looked at again so long after the sample; the last time for good. */
static const uint64_t waits_ns[] = { 100000000u, 300000000u, 1000000000u };
#define WAITS SONDE_COUNT(waits_ns)

static size_t perf_parked_bytes(const struct sonde_perf_parked *p)
{
    return p->header.size + p->python.count * sizeof(*p->python.frames);
}

int sonde_perf_lot_put(struct sonde_perf_lot *l, const struct perf_event_header *h, uint32_t pid,
                       uint64_t time_ns, const struct sonde_perf_python_sample *python)
{
    assert(l->bytes <= SONDE_PERF_PARKED_BYTES);
    assert(h->size % sizeof(uint64_t) == 0); /* frames are aligned behind it */
    const size_t frames = python ? python->count * sizeof(*python->frames) : 0;
    if (l->bytes + h->size + frames > SONDE_PERF_PARKED_BYTES) return SONDE_EFULL;
    struct sonde_perf_parked *p = sonde__alloc(sizeof(*p) + h->size + frames);
    if (!p) return SONDE_ENOMEM;
    *p = (struct sonde_perf_parked){ .time_ns = time_ns, .due_ns = time_ns + waits_ns[0],
                                     .pid = pid };
    memcpy(&p->header, h, h->size);
    if (python) {
        p->python = *python;
        p->python.frames = (void *)((char *)&p->header + h->size);
        memcpy(p->python.frames, python->frames, frames);
    }
    sonde_perf_lot_back(l, p);
    return 0;
}

void sonde_perf_lot_back(struct sonde_perf_lot *l, struct sonde_perf_parked *p)
{
    assert(p->tries < WAITS); /* after the last it is final */
    if (!l->last) l->last = &l->first;
    p->next = NULL;
    *l->last = p;
    l->last = &p->next;
    l->bytes += perf_parked_bytes(p);
}

struct sonde_perf_parked *sonde_perf_lot_take(struct sonde_perf_lot *l, uint64_t now_ns,
                                              uint32_t pid, int *final)
{
    struct sonde_perf_parked **at = &l->first;
    while (*at && (now_ns < (*at)->due_ns || (pid && (*at)->pid != pid))) at = &(*at)->next;
    struct sonde_perf_parked *p = *at;
    if (!p) return NULL;
    *at = p->next;
    if (l->last == &p->next) l->last = at;
    assert(l->bytes >= perf_parked_bytes(p));
    l->bytes -= perf_parked_bytes(p);
    *final = ++p->tries == WAITS || now_ns == UINT64_MAX;
    if (p->tries < WAITS) p->due_ns = p->time_ns + waits_ns[p->tries];
    return p;
}

void sonde_perf_lot_free(struct sonde_perf_parked *p) { sonde__free(p); }

void sonde_perf_lot_release(struct sonde_perf_lot *l)
{
    while (l->first) {
        struct sonde_perf_parked *p = l->first;
        l->first = p->next;
        sonde__free(p);
    }
    l->last = NULL;
    l->bytes = 0;
}
