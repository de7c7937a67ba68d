/* chunks.c - records out of a ring of chunks that a process writes.
 *
 * A record is one or more chunks, each with its own sequence number, so that a reader that has
 * lost the thread finds the next record by itself. One that makes no sense counts as lost. */
#include "base/alloc.h"
#include "collect/segment/private.h"

#include <assert.h>

#define WAIT_DRAINS 3u

enum segment_chunks_found { FOUND_RECORD, FOUND_LOST, FOUND_UNFINISHED };

int segment_chunks_init(struct segment_chunks *k, const struct sonde__chunk *chunk,
                        uint32_t chunk_count, const uint64_t *reserve, uint32_t record_chunks_max)
{
    assert(chunk_count && !(chunk_count & (chunk_count - 1)) && record_chunks_max);
    uint64_t *words = sonde__alloc(7u * record_chunks_max * sizeof(*words));
    if (!words) return SONDE_ENOMEM;
    *k = (struct segment_chunks){ .chunk = chunk, .reserve = reserve, .chunk_count = chunk_count,
                                  .words = words };
    return 0;
}

static uint64_t chunk_copy(const struct segment_chunks *k, uint64_t index, uint64_t words[7])
{
    const struct sonde__chunk *c = &k->chunk[index & (k->chunk_count - 1)];
    const uint64_t seq = __atomic_load_n(&c->seq_type, __ATOMIC_ACQUIRE);
    for (int i = 0; i < 7; i++) words[i] = segment_load(&c->word[i]);
    return seq;
}

/* The record at index into words; *type and *chunks. */
static enum segment_chunks_found segment_chunks_record_copy(
    const struct segment_chunks *k, const struct segment_records *r, uint64_t index,
    uint64_t reserve, uint32_t *type, uint32_t *chunks)
{
    uint64_t *w = k->words;
    const uint64_t seq = chunk_copy(k, index, w);
    if (seq >> 8 < index + 1) return FOUND_UNFINISHED;
    *type = (uint32_t)(seq & 0xff);
    *chunks = seq >> 8 == index + 1 ? r->chunks(*type, w) : 0;
    if (*chunks == 0 || *chunks > reserve - index) return FOUND_LOST;
    for (uint32_t i = 1; i < *chunks; i++) {
        const uint64_t more = chunk_copy(k, index + i, w + 7ull * i);
        if (more != ((index + i + 1) << 8 | SONDE__CHUNK_MORE)) return FOUND_LOST;
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(k->reserve, __ATOMIC_RELAXED) > index + k->chunk_count) return FOUND_LOST;
    return FOUND_RECORD;
}

/* The ring counts chunks, people count records. */
uint64_t segment_chunks_lost(const struct segment_chunks *k)
{
    assert(!k->records || k->chunks);
    if (k->lost == 0 || k->records == 0) return k->lost;
    const double share = (double)k->records / (double)k->chunks;
    return (uint64_t)((double)k->lost * share) + (k->records != k->chunks);
}

int segment_chunks_drain(struct segment_chunks *k, const struct segment_records *r, void *arg,
                         int fresh, int last, struct sonde_err *err)
{
    assert(k->words && r->chunks && r->give);
    const uint64_t reserve = __atomic_load_n(k->reserve, __ATOMIC_ACQUIRE);
    if (reserve < k->next || reserve >> 55) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: the ring of %s went backwards", r->name);
    }
    if (reserve - k->next > k->chunk_count) {
        /* What was written before anybody read is not lost. */
        if (k->records || fresh) k->lost += reserve - k->chunk_count - k->next;
        k->next = reserve - k->chunk_count;
        k->waited = 0;
    }
    while (k->next < reserve) {
        uint32_t type = 0, chunks = 0;
        const enum segment_chunks_found found =
            segment_chunks_record_copy(k, r, k->next, reserve, &type, &chunks);
        if (found == FOUND_UNFINISHED && !last && k->waited < WAIT_DRAINS &&
            reserve - k->next < k->chunk_count / 2) {
            k->waited++;
            return 0;
        }
        k->waited = 0;
        if (found != FOUND_RECORD) {
            k->lost++;
            k->next++;
            continue;
        }
        k->records++;
        k->chunks += chunks;
        k->next += chunks;
        r->give(type, k->words, arg);
    }
    return 0;
}
