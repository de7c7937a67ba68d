/* segment_sample.c - samples out of the ring of libsonde_preload; see "The sampler" in segment.h.
 *
 * A record is one or more chunks, each with its own sequence number, so that a reader that has
 * lost the thread finds the next record by itself. What a record says is checked before it is
 * used; one that makes no sense counts as lost. */
#include <string.h>

#include "base/alloc.h"
#include "collect/segment_private.h"

#define WAIT_DRAINS 3u
#define CHUNK_COUNT_MAX (1u << 24)
#define RECORD_CHUNKS_MAX 256u  /* more than the largest record has */
#define RECORD_WORDS_MAX (7u * RECORD_CHUNKS_MAX)

static const struct sonde__sampler *sampler_at(const struct sonde_segment *s)
{
    return (const struct sonde__sampler *)(const void *)(s->map.base + s->sampler.off);
}

/* Find it, and check that all its chunks are there. */
static int sampler_find(struct sonde_segment *s, struct sonde_err *err)
{
    struct segment_counts c;
    struct segment_sampler *k = &s->sampler;
    const uint64_t off = __atomic_load_n(&s->live->sampler, __ATOMIC_ACQUIRE);
    if (off == k->off) return off ? 0 : SONDE_ENOENT;
    int rc = segment_counts_load(s, &c, err);
    if (rc != 0) return rc;
    if (k->off != 0 || !segment_in_heap(s, &c, off, sizeof(struct sonde__sampler))) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: its sampler lies outside the heap or "
                             "has moved");
    }
    const struct sonde__sampler *at =
        (const struct sonde__sampler *)(const void *)(s->map.base + off);
    const uint32_t chunks = __atomic_load_n(&at->chunk_count, __ATOMIC_RELAXED);
    if (chunks < RECORD_CHUNKS_MAX || chunks > CHUNK_COUNT_MAX || chunks & (chunks - 1) ||
        !segment_in_heap(s, &c, off, sizeof(*at) + (uint64_t)chunks * sizeof(at->chunk[0]))) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: its sampler's ring does not fit in the "
                             "heap");
    }
    k->words = sonde__alloc(RECORD_WORDS_MAX * sizeof(uint64_t));
    if (!k->words) return sonde_err_set(err, SONDE_ENOMEM, "no memory to read samples");
    k->off = off;
    k->chunk_count = chunks;
    return 0;
}

int sonde_segment_sampler(struct sonde_segment *s, struct sonde_sampler_info *out,
                          struct sonde_err *err)
{
    const int rc = sampler_find(s, err);
    if (rc != 0) return rc;
    const struct sonde__sampler *at = sampler_at(s);
    struct sonde_sampler_info i = {
        .session = segment_load(&at->session),
        .period_ns = segment_load(&at->period_ns),
        .depth_max = __atomic_load_n(&at->depth_max, __ATOMIC_RELAXED),
        .signal = __atomic_load_n(&at->signal, __ATOMIC_RELAXED),
        .state = __atomic_load_n(&at->state, __ATOMIC_ACQUIRE),
        .cpu_start_ns = segment_load(&at->cpu_start_ns),
        .cpu_end_ns = segment_load(&at->cpu_end_ns),
        .threads_refused = segment_load(&at->threads_refused),
        .threads_skipped = segment_load(&at->threads_skipped),
        .late = segment_load(&at->late),
        .cut = segment_load(&at->cut),
    };
    if (i.period_ns == 0 || i.period_ns > 1000000000u || i.depth_max < SONDE__DEPTH_MIN ||
        i.depth_max > SONDE__DEPTH_MAX || i.state >= SONDE__SAMPLER_STATE_COUNT) {
        return segment_verdict(s, sonde_err_set(err, SONDE_EFORMAT, "damaged: its sampler makes no "
                                                "sense"), err);
    }
    *out = i;
    return segment_verdict(s, 0, err);
}

/* ---- Records -------------------------------------------------------------------------------- */

enum found { FOUND_RECORD, FOUND_LOST, FOUND_UNFINISHED };

static uint64_t chunk_copy(const struct sonde_segment *s, uint64_t index, uint64_t words[7])
{
    const struct sonde__chunk *c = &sampler_at(s)->chunk[index & (s->sampler.chunk_count - 1)];
    const uint64_t seq = __atomic_load_n(&c->seq_type, __ATOMIC_ACQUIRE);
    for (int i = 0; i < 7; i++) words[i] = segment_load(&c->word[i]);
    return seq;
}

/* How many chunks a record of that type has which begins with these words; 0 = none can. */
static uint32_t record_chunks(uint32_t type, const uint64_t *w)
{
    const uint32_t depth = (uint32_t)(w[2] & 0xffff);
    switch (type) {
    case SONDE__CHUNK_SAMPLE: return depth <= SONDE__DEPTH_MAX ? sonde__sample_chunks(depth) : 0;
    case SONDE__CHUNK_MAP:
        return w[3] && w[3] <= SONDE__MAP_PATH_MAX ? sonde__map_chunks((uint32_t)w[3]) : 0;
    case SONDE__CHUNK_THREAD: return 1;
    default: return 0;
    }
}

/* The record at index into words; *type and *chunks. */
static enum found record_copy(struct sonde_segment *s, uint64_t index, uint64_t reserve,
                              uint32_t *type, uint32_t *chunks)
{
    uint64_t *w = s->sampler.words;
    const uint64_t seq = chunk_copy(s, index, w);
    if (seq >> 8 < index + 1) return FOUND_UNFINISHED;
    *type = (uint32_t)(seq & 0xff);
    *chunks = seq >> 8 == index + 1 ? record_chunks(*type, w) : 0;
    if (*chunks == 0 || *chunks > reserve - index) return FOUND_LOST;
    for (uint32_t i = 1; i < *chunks; i++) {
        const uint64_t more = chunk_copy(s, index + i, w + 7ull * i);
        if (more != ((index + i + 1) << 8 | SONDE__CHUNK_MORE)) return FOUND_LOST;
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&sampler_at(s)->reserve, __ATOMIC_RELAXED) >
        index + s->sampler.chunk_count) {
        return FOUND_LOST;
    }
    return FOUND_RECORD;
}

static void give_sample(const uint64_t *w, const struct sonde_segment_sink *sink)
{
    const struct sonde_segment_sample sample = {
        .ticks = w[0],
        .tid = (uint32_t)(w[1] >> 32),
        .overrun = (uint32_t)w[1],
        .depth = (uint32_t)(w[2] & 0xffff),
        .flags = (uint32_t)(w[2] >> 16 & 0xffff),
        .left_out = (uint32_t)(w[2] >> 32),
        .ips = w + 3, /* those of the chunks that follow come right behind */
    };
    sink->sample(sink->arg, &sample);
}

static void give_map(const uint64_t *w, const struct sonde_segment_sink *sink)
{
    char path[SONDE__MAP_PATH_MAX + 1];
    memcpy(path, w + 4, (size_t)w[3]);
    path[w[3]] = '\0';
    if (strlen(path) != w[3] || w[1] <= w[0]) return;
    const struct sonde_segment_map map = { w[0], w[1], w[2], path };
    sink->map(sink->arg, &map);
}

static void give_thread(const uint64_t *w, const struct sonde_segment_sink *sink)
{
    struct sonde_segment_thread thread = { .tid = (uint32_t)w[0], .cpu_ns = w[1] };
    memcpy(thread.name, w + 2, sizeof(thread.name) - 1);
    sink->thread(sink->arg, &thread);
}

static void give(uint32_t type, const uint64_t *w, const struct sonde_segment_sink *sink)
{
    if (type == SONDE__CHUNK_SAMPLE) give_sample(w, sink);
    else if (type == SONDE__CHUNK_MAP) give_map(w, sink);
    else give_thread(w, sink);
}

/* ---- The ring -------------------------------------------------------------------------------- */

/* The ring counts chunks, people count samples. */
static uint64_t lost_records(const struct segment_sampler *k)
{
    if (k->lost == 0 || k->records == 0) return k->lost;
    const double share = (double)k->records / (double)k->chunks;
    return (uint64_t)((double)k->lost * share) + 1;
}

static int ring_drain(struct sonde_segment *s, const struct sonde_segment_sink *sink, int last,
                      struct sonde_err *err)
{
    struct segment_sampler *k = &s->sampler;
    const uint64_t reserve = __atomic_load_n(&sampler_at(s)->reserve, __ATOMIC_ACQUIRE);
    if (reserve < k->next || reserve >> 55) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: the ring of samples went backwards");
    }
    if (reserve - k->next > k->chunk_count) {
        /* What was written before anybody read is not lost. */
        if (k->records || s->fresh) k->lost += reserve - k->chunk_count - k->next;
        k->next = reserve - k->chunk_count;
        k->waited = 0;
    }
    while (k->next < reserve) {
        uint32_t type = 0, chunks = 0;
        const enum found found = record_copy(s, k->next, reserve, &type, &chunks);
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
        give(type, k->words, sink);
    }
    return 0;
}

int sonde_segment_samples(struct sonde_segment *s, const struct sonde_segment_sink *sink, int last,
                          uint64_t *lost, struct sonde_err *err)
{
    int rc = sampler_find(s, err);
    if (rc == 0) rc = ring_drain(s, sink, last, err);
    *lost = lost_records(&s->sampler);
    return rc == SONDE_ENOENT ? rc : segment_verdict(s, rc, err);
}
