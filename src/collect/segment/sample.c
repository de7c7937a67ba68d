/* sample.c - samples out of the ring of libsonde_preload; see "The sampler" in segment.h.
 * What a record says is checked before it is used; one that makes no sense counts as lost. */
#include <assert.h>
#include <string.h>

#include "collect/segment/private.h"

#define CHUNK_COUNT_MAX (1u << 24)
#define RECORD_CHUNKS_MAX 256u  /* more than the largest record has */

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
    if (k->off != 0 || !segment_in_blocks(s, &c, off, sizeof(struct sonde__sampler))) {
        return sonde_err_set(err, SONDE_EFORMAT,
                             "damaged: its sampler lies outside the block area or has moved");
    }
    const struct sonde__sampler *at =
        (const struct sonde__sampler *)(const void *)(s->map.base + off);
    const uint32_t chunks = __atomic_load_n(&at->chunk_count, __ATOMIC_RELAXED);
    if (chunks < RECORD_CHUNKS_MAX || chunks > CHUNK_COUNT_MAX || chunks & (chunks - 1) ||
        !segment_in_blocks(s, &c, off, sizeof(*at) + (uint64_t)chunks * sizeof(at->chunk[0]))) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: its sampler's ring does not fit in the "
                             "block area");
    }
    if (segment_chunks_init(&k->ring, at->chunk, chunks, &at->reserve, RECORD_CHUNKS_MAX) != 0) {
        return sonde_err_set(err, SONDE_ENOMEM, "no memory to read samples");
    }
    k->off = off;
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
        .full = segment_load(&at->full),
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
    const struct sonde_mapping map = { .start = w[0], .end = w[1], .offset = w[2], .path = path,
                                       .executable = 1 };
    sink->map(sink->arg, &map);
}

static void give_thread(const uint64_t *w, const struct sonde_segment_sink *sink)
{
    struct sonde_segment_thread thread = { .tid = (uint32_t)w[0], .cpu_ns = w[1] };
    memcpy(thread.name, w + 2, sizeof(thread.name) - 1);
    sink->thread(sink->arg, &thread);
}

static void segment_sample_give(uint32_t type, const uint64_t *w, void *arg)
{
    const struct sonde_segment_sink *sink = arg;
    if (type == SONDE__CHUNK_SAMPLE) give_sample(w, sink);
    else if (type == SONDE__CHUNK_MAP) give_map(w, sink);
    else give_thread(w, sink);
}

static const struct segment_records records = { "samples", record_chunks, segment_sample_give };

int sonde_segment_samples(struct sonde_segment *s, const struct sonde_segment_sink *sink, int last,
                          uint64_t *lost, struct sonde_err *err)
{
    assert(sink && sink->sample && sink->map && sink->thread && lost);
    int rc = sampler_find(s, err);
    if (rc == 0) {
        rc = segment_chunks_drain(&s->sampler.ring, &records, (void *)(uintptr_t)sink, s->fresh,
                                  last, err);
    }
    *lost = segment_chunks_lost(&s->sampler.ring);
    return rc == SONDE_ENOENT ? rc : segment_verdict(s, rc, err);
}
