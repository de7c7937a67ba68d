/* segment_build.h - makes a small valid segment in memory, word by word from segment.h and not
 * by the recorder, so that the reader is tested against the format. */
#ifndef SONDE_TEST_COLLECT_SEGMENT_SEGMENT_BUILD_H
#define SONDE_TEST_COLLECT_SEGMENT_SEGMENT_BUILD_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment/life.h"
#include "segment/heap.h"
#include "segment/segment.h"

enum {
    BUILD_FAMILIES = 32,
    BUILD_SERIES = 64,
    BUILD_STRINGS = 4096,
    BUILD_LANES = 4,
    BUILD_LANE_STRIDE = 4096,
    BUILD_BLOCKS = 1 << 20,
};

struct build {
    char *base;
    struct sonde__header *h;
    uint64_t bytes;
};

static inline void build_seal(struct build *b) { b->h->check = sonde__header_check(b->h); }

static inline void build_init(struct build *b, uint32_t pid, uint64_t start, const char *program)
{
    uint64_t family_off = SONDE__PAGE, series_off = family_off + SONDE__PAGE;
    uint64_t string_off = series_off + SONDE__PAGE, lane_off = string_off + BUILD_STRINGS;
    uint64_t block_off = lane_off + BUILD_LANES * BUILD_LANE_STRIDE;
    b->bytes = block_off + BUILD_BLOCKS;
    b->base = aligned_alloc(SONDE__PAGE, b->bytes);
    if (!b->base) abort();
    memset(b->base, 0, b->bytes);
    struct sonde__header *h = b->h = (struct sonde__header *)(void *)b->base;
    h->magic = SONDE__MAGIC;
    h->abi = SONDE__ABI;
    h->file_bytes = b->bytes;
    h->start_time = start;
    h->pid = pid;
    h->uid = getuid();
    struct sonde__here here;
    sonde__here(&here);
    memcpy(h->boot_id, here.boot_id, sizeof(h->boot_id));
    h->pid_ns = here.pid_ns;
    h->time_ns = here.time_ns;
    snprintf(h->program, sizeof(h->program), "%s", program);
    h->family_off = family_off;
    h->series_off = series_off;
    h->string_off = string_off;
    h->string_max = BUILD_STRINGS;
    h->lane_off = lane_off;
    h->lane_stride = BUILD_LANE_STRIDE;
    h->block_off = block_off;
    h->block_max = BUILD_BLOCKS;
    h->family_max = BUILD_FAMILIES;
    h->series_max = BUILD_SERIES;
    h->lane_max = BUILD_LANES;
    h->lanes_shared = 1;
    h->bytes_max = b->bytes;
    h->family_count = h->series_count = 1;
    h->string_used = 1;
    h->lane_count = BUILD_LANES;
    h->cells_ready = (BUILD_LANE_STRIDE - SONDE__CELLS_OFF) / 8;
    h->string_ready = BUILD_STRINGS;
    h->family_ready = BUILD_FAMILIES * sizeof(struct sonde__family);
    h->series_ready = BUILD_SERIES * sizeof(struct sonde__series);
    h->block_ready = BUILD_BLOCKS;
    h->populated_bytes = b->bytes;
    build_seal(b);
}

static inline void build_free(struct build *b)
{
    free(b->base);
    b->base = NULL;
}

static inline struct sonde__str build_text(struct build *b, const char *text, size_t len)
{
    struct sonde__str s = { (uint32_t)b->h->string_used, (uint32_t)len };
    if (len == 0) return (struct sonde__str){ 0, 0 };
    if (b->h->string_used + len + 1 > b->h->string_max) abort();
    memcpy(b->base + b->h->string_off + s.off, text, len);
    b->h->string_used += len + 1;
    return s;
}

/* NULL-terminated list. */
static inline struct sonde__str build_packed(struct build *b, const char *const *list)
{
    char packed[2048];
    size_t len = 0;
    for (; list && *list; list++) {
        uint16_t n = (uint16_t)strlen(*list);
        memcpy(packed + len, &n, 2);
        memcpy(packed + len + 2, *list, n);
        len += 2u + n;
    }
    return build_text(b, packed, len);
}

static inline uint32_t build_count(const char *const *list)
{
    uint32_t n = 0;
    while (list && list[n]) n++;
    return n;
}

static inline struct sonde__family *build_family_at(struct build *b, uint32_t id)
{
    return (struct sonde__family *)(void *)(b->base + b->h->family_off) + id;
}

static inline struct sonde__series *build_series_at(struct build *b, uint32_t id)
{
    return (struct sonde__series *)(void *)(b->base + b->h->series_off) + id;
}

static inline void build_family_seal(struct build *b, uint32_t id)
{
    struct sonde__family *f = build_family_at(b, id);
    f->check = sonde__family_check(f, b->base + b->h->string_off);
}

static inline void build_series_seal(struct build *b, uint32_t id)
{
    struct sonde__series *s = build_series_at(b, id);
    s->check = sonde__series_check(s, b->base + b->h->string_off);
}

static inline uint32_t build_family(struct build *b, uint32_t type, const char *name,
                                    double scale, const char *const *labels,
                                    const char *const *tags)
{
    uint32_t id = b->h->family_count;
    struct sonde__family *f = build_family_at(b, id);
    memset(f, 0, sizeof(*f));
    f->name = build_text(b, name, strlen(name));
    f->help = build_text(b, "Help.", 5);
    f->labels = build_packed(b, labels);
    f->tags = build_packed(b, tags);
    f->label_count = build_count(labels);
    f->tag_count = build_count(tags) / 2;
    f->type = type;
    f->scale = scale;
    f->series_max = 2000;
    build_family_seal(b, id);
    b->h->family_count++;
    return id;
}

static inline uint32_t build_series(struct build *b, uint32_t family, const char *const *values)
{
    uint32_t id = b->h->series_count;
    struct sonde__series *s = build_series_at(b, id);
    memset(s, 0, sizeof(*s));
    s->family = family;
    s->values = build_packed(b, values);
    s->created_ns = 1000000000ull * 1600000000ull;
    build_series_seal(b, id);
    b->h->series_count++;
    return id;
}

static inline struct sonde__lane *build_lane(struct build *b, uint32_t lane)
{
    return (struct sonde__lane *)(void *)(b->base + sonde__lane_at(b->h, lane));
}

static inline uint64_t *build_cell(struct build *b, uint32_t lane, uint32_t series)
{
    return (uint64_t *)(void *)((char *)build_lane(b, lane) + SONDE__CELLS_OFF) + series;
}

static inline uint64_t build_heap(struct build *b, uint64_t bytes)
{
    uint64_t at = b->h->block_off + b->h->block_used;
    b->h->block_used += (bytes + 63) & ~63ull;
    if (b->h->block_used > b->h->block_max) abort();
    return at;
}

static inline void build_gauge(struct build *b, uint32_t series, double value)
{
    memcpy(build_cell(b, 0, series), &value, sizeof(value));
}

static inline struct sonde__hist *build_hist(struct build *b, uint32_t lane, uint32_t series)
{
    uint64_t *cell = build_cell(b, lane, series);
    if (!*cell) *cell = build_heap(b, sizeof(struct sonde__hist)) - SONDE__HIST_NONE;
    return (struct sonde__hist *)(void *)(b->base + *cell + SONDE__HIST_NONE);
}

static inline void build_record(struct build *b, uint32_t lane, uint32_t series, uint64_t raw)
{
    struct sonde__hist *h = build_hist(b, lane, series);
    double scale = build_family_at(b, build_series_at(b, series)->family)->scale;
    uint64_t p = sonde__hist_bucket((double)raw * scale);
    h->scale = scale;
    if (p >= SONDE__HIST_BUCKETS) {
        h->zero++;
    } else {
        if (!h->octave[p / 64]) h->octave[p / 64] = (uint32_t)(build_heap(b, 512) / 64);
        ((uint64_t *)(void *)(b->base + (uint64_t)h->octave[p / 64] * 64))[p % 64]++;
    }
    h->sum += raw;
    h->last = raw;
}

static inline struct sonde__ring *build_ring(struct build *b, uint32_t lane)
{
    struct sonde__lane *l = build_lane(b, lane);
    if (!l->ring) l->ring = build_heap(b, sizeof(struct sonde__ring));
    return (struct sonde__ring *)(void *)(b->base + l->ring);
}

static inline struct sonde__span_rec *build_span(struct build *b, uint32_t lane, uint32_t name,
                                                 uint64_t id, uint64_t start, uint64_t end,
                                                 uint32_t outcome)
{
    struct sonde__ring *ring = build_ring(b, lane);
    uint64_t index = ring->reserve++;
    struct sonde__span_rec *r = &ring->rec[index % SONDE__RING_RECS];
    *r = (struct sonde__span_rec){
        .seq_type = (index + 1) << 8 | SONDE__REC_SPAN, .start = start, .end = end,
        .trace_hi = 0x11, .trace_lo = 0x22, .id = id, .parent = 7,
        .name_tid = 99ull << 32 | (uint64_t)outcome << 24 | name,
    };
    return r;
}

static inline void build_attr(struct build *b, uint32_t lane, uint64_t span, uint32_t key,
                              uint32_t type, const void *value, uint32_t len)
{
    struct sonde__ring *ring = build_ring(b, lane);
    uint64_t index = ring->reserve++, words[8] = { (index + 1) << 8 | SONDE__REC_ATTR, span,
                                                   (uint64_t)len << 32 | type << 24 | key };
    memcpy(&words[3], value, len > 40 ? 40 : len);
    memcpy(&ring->rec[index % SONDE__RING_RECS], words, sizeof(words));
}

/* ---- The sampler: chunks as libsonde_preload writes them ---------------------------------- */

static inline struct sonde__sampler *build_sampler(struct build *b, uint32_t chunks)
{
    b->h->sampler =
        build_heap(b, sizeof(struct sonde__sampler) + chunks * sizeof(struct sonde__chunk));
    struct sonde__sampler *s = (struct sonde__sampler *)(void *)(b->base + b->h->sampler);
    s->session = 0xabc;
    s->period_ns = 1000000;
    s->chunk_count = chunks;
    s->depth_max = 128;
    s->signal = 16;
    return s;
}

static inline struct sonde__chunk *build_chunk(struct sonde__sampler *s, uint64_t index,
                                               uint32_t type)
{
    struct sonde__chunk *c = &s->chunk[index % s->chunk_count];
    memset(c, 0, sizeof(*c));
    c->seq_type = (index + 1) << 8 | type;
    return c;
}

/* A stack of depth addresses first, first + 1, …; returns the index of its first chunk. */
static inline uint64_t build_stack(struct sonde__sampler *s, uint32_t tid, uint32_t depth,
                                   uint64_t first)
{
    const uint64_t at = s->reserve;
    struct sonde__chunk *c = build_chunk(s, s->reserve++, SONDE__CHUNK_SAMPLE);
    c->word[0] = 5000;
    c->word[1] = (uint64_t)tid << 32 | 3;
    c->word[2] = depth;
    for (uint32_t i = 0; i < depth; i++) {
        if (i >= 4 && (i - 4) % 7 == 0) c = build_chunk(s, s->reserve++, SONDE__CHUNK_MORE);
        c->word[i < 4 ? 3 + i : (i - 4) % 7] = first + i;
    }
    return at;
}

static inline uint64_t build_map(struct sonde__sampler *s, uint64_t start, uint64_t end,
                                 const char *path)
{
    const uint64_t at = s->reserve;
    const size_t len = strlen(path);
    struct sonde__chunk *c = build_chunk(s, s->reserve++, SONDE__CHUNK_MAP);
    c->word[0] = start;
    c->word[1] = end;
    c->word[2] = 0x1000;
    c->word[3] = len;
    memcpy(&c->word[4], path, len < 24 ? len : 24);
    for (size_t done = 24; done < len; done += 56) {
        c = build_chunk(s, s->reserve++, SONDE__CHUNK_MORE);
        memcpy(c->word, path + done, len - done < 56 ? len - done : 56);
    }
    return at;
}

static inline void build_thread(struct sonde__sampler *s, uint32_t tid, const char *name)
{
    struct sonde__chunk *c = build_chunk(s, s->reserve++, SONDE__CHUNK_THREAD);
    c->word[0] = tid;
    c->word[1] = 123456;
    memcpy(&c->word[2], name, strnlen(name, 16));
}

/* ---- The heap profile, as libsonde_preload keeps it --------------------------------------- */

static inline struct sonde__heap *build_mem_at(struct build *b)
{
    return (struct sonde__heap *)(void *)(b->base + b->h->heap);
}

static inline struct sonde__heap *build_mem(struct build *b, uint32_t mode, uint32_t chunks)
{
    b->h->heap = build_heap(b, sizeof(struct sonde__heap));
    struct sonde__heap *m = build_mem_at(b);
    m->session = 0xabc;
    m->mode = mode;
    m->count_shift = mode == SONDE__HEAP_SAMPLED ? 16 : 0;
    m->mean = 512u << 10;
    m->depth_max = 128;
    m->chunk_count = chunks;
    m->ring = build_heap(b, chunks * sizeof(struct sonde__chunk));
    strcpy(m->allocator, "libc.so.6");
    m->node_count = 2; /* none, and "callers unknown" */
    m->site_count = m->module_count = m->lane_count = 1;
    m->node_chunk[0] = build_heap(b, SONDE__HEAP_NODES * sizeof(struct sonde__heap_node));
    return m;
}

static inline struct sonde__heap_node *build_node_at(struct build *b, uint32_t id)
{
    return (struct sonde__heap_node *)(void *)(b->base +
                                               build_mem_at(b)->node_chunk[id /
                                                                           SONDE__HEAP_NODES]) +
           id % SONDE__HEAP_NODES;
}

static inline uint32_t build_node(struct build *b, uint32_t parent, uint32_t module, uint64_t ip)
{
    struct sonde__heap *m = build_mem_at(b);
    const uint32_t id = m->node_count;
    uint64_t *chunk = &m->node_chunk[id / SONDE__HEAP_NODES];
    if (!*chunk) *chunk = build_heap(b, SONDE__HEAP_NODES * sizeof(struct sonde__heap_node));
    *build_node_at(b, id) = (struct sonde__heap_node){ ip | (uint64_t)module << 48, parent, 0 };
    m->node_count++;
    return id;
}

static inline uint32_t build_site(struct build *b, uint32_t node)
{
    return build_node_at(b, node)->site = build_mem_at(b)->site_count++;
}

static inline struct sonde__heap_module *build_module_at(struct build *b, uint32_t id)
{
    return (struct sonde__heap_module *)(void *)(
               b->base + build_mem_at(b)->module_chunk[id / SONDE__HEAP_MODULES]) +
           id % SONDE__HEAP_MODULES;
}

static inline uint32_t build_module(struct build *b, uint64_t start, uint64_t end, uint64_t offset,
                                    const char *path)
{
    struct sonde__heap *m = build_mem_at(b);
    const uint32_t id = m->module_count++, len = (uint32_t)strlen(path);
    uint64_t *chunk = &m->module_chunk[id / SONDE__HEAP_MODULES];
    if (!*chunk) *chunk = build_heap(b, SONDE__HEAP_MODULES * sizeof(struct sonde__heap_module));
    const uint64_t text = build_heap(b, sizeof(struct sonde__heap_path) + len);
    struct sonde__heap_path *p = (struct sonde__heap_path *)(void *)(b->base + text);
    p->len = len;
    memcpy(p->text, path, len);
    *build_module_at(b, id) = (struct sonde__heap_module){ start, end, offset, text };
    return id;
}

/* An entry of a directory of rows of so many bytes; both are made when they are missing. */
static inline void *build_row_in(struct build *b, uint64_t *directory, uint32_t site, size_t bytes)
{
    if (!*directory) *directory = build_heap(b, SONDE__HEAP_ROW_CHUNKS * sizeof(uint64_t));
    uint64_t *chunk = (uint64_t *)(void *)(b->base + *directory) + site / SONDE__HEAP_ROWS;
    if (!*chunk) *chunk = build_heap(b, SONDE__HEAP_ROWS * bytes);
    return b->base + *chunk + site % SONDE__HEAP_ROWS * bytes;
}

static inline struct sonde__heap_row *build_row(struct build *b, uint32_t lane, uint32_t site)
{
    struct sonde__heap *m = build_mem_at(b);
    if (lane >= m->lane_count) m->lane_count = lane + 1;
    return build_row_in(b, &m->lane[lane].rows, site, sizeof(struct sonde__heap_row));
}

static inline struct sonde__heap_peak *build_peak(struct build *b, uint32_t table, uint32_t site)
{
    return build_row_in(b, &build_mem_at(b)->peak[table], site, sizeof(struct sonde__heap_peak));
}

/* count allocations of size bytes at a site, and as many frees as told; exact. */
static inline void build_allocs(struct build *b, uint32_t lane, uint32_t site, uint64_t count,
                                uint64_t freed, uint64_t size)
{
    struct sonde__heap_row *r = build_row(b, lane, site);
    struct sonde__heap_lane *l = &build_mem_at(b)->lane[lane];
    r->allocs += count;
    r->alloc_bytes += count * size;
    r->frees += freed;
    r->free_bytes += freed * size;
    l->allocs += count;
    l->alloc_bytes += count * size;
    l->frees += freed;
    l->free_bytes += freed * size;
    l->size_class[sonde__heap_size_class(size)] += count;
}

static inline struct sonde__chunk *build_mem_chunk(struct build *b, uint32_t type)
{
    struct sonde__heap *m = build_mem_at(b);
    const uint64_t index = m->reserve++;
    struct sonde__chunk *c =
        (struct sonde__chunk *)(void *)(b->base + m->ring) + index % m->chunk_count;
    memset(c, 0, sizeof(*c));
    c->seq_type = (index + 1) << 8 | type;
    return c;
}

static inline void build_event(struct build *b, uint32_t type, uint64_t ticks, uint32_t tid,
                               uint64_t size, uint32_t node)
{
    struct sonde__chunk *c = build_mem_chunk(b, type);
    c->word[0] = ticks;
    c->word[1] = tid;
    c->word[2] = size;
    c->word[3] = node;
    c->word[4] = 0x7000;
    if (type == SONDE__HEAP_FREE) c->word[5] = ticks - 100;
}

static inline void build_mem_thread(struct build *b, uint32_t tid, uint64_t bytes, uint64_t allocs,
                                    const char *name)
{
    struct sonde__chunk *c = build_mem_chunk(b, SONDE__HEAP_THREAD);
    c->word[0] = tid;
    c->word[1] = bytes;
    c->word[2] = allocs;
    memcpy(&c->word[3], name, strnlen(name, 16));
}

/* The whole file, or the first bytes of it. */
static inline void build_write(const struct build *b, int dirfd, const char *name, uint64_t bytes)
{
    int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, 0) != 0 ||
        pwrite(fd, b->base, bytes, 0) != (ssize_t)bytes || close(fd) != 0) {
        abort();
    }
}

/* Write what changed since, in place: a reader may have it mapped. */
static inline void build_update(const struct build *b, int dirfd, const char *name)
{
    int fd = openat(dirfd, name, O_RDWR | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, b->base, b->bytes, 0) != (ssize_t)b->bytes || close(fd) != 0) abort();
}

/* A segment with some of everything, for tests that damage it. */
struct build_sample { uint32_t counter, gauge, hist, plain, overflow; uint32_t span_name, key; };

static inline struct build_sample build_sample(struct build *b)
{
    static const char *const labels[] = { "path", "code", NULL };
    static const char *const tags[] = { "zone", "a\"b", NULL };
    static const char *const values[] = { "/x", "200", NULL };
    struct build_sample s;
    uint32_t f = build_family(b, SONDE_COUNTER, "app_requests_total", 1, labels, tags);
    s.counter = build_series(b, f, values);
    s.overflow = build_series(b, f, NULL);
    build_series_at(b, s.overflow)->flags = SONDE__SERIES_OVERFLOW;
    build_series_seal(b, s.overflow);
    build_family_at(b, f)->overflow_series = s.overflow;
    build_family_at(b, f)->overflowed = 3;
    s.gauge = build_series(b, build_family(b, SONDE_GAUGE, "app_depth", 1, NULL, NULL), NULL);
    s.hist = build_series(b, build_family(b, SONDE_HISTOGRAM, "app_seconds", 1e-9, NULL, NULL),
                          NULL);
    s.plain = build_series(b, build_family(b, SONDE_COUNTER, "app_done_total", 1, NULL, NULL),
                           NULL);
    s.span_name = build_family(b, SONDE__TYPE_NAME, "load model", 0, NULL, NULL);
    s.key = build_family(b, SONDE__TYPE_NAME, "size", 0, NULL, NULL);
    for (uint32_t lane = 0; lane < BUILD_LANES; lane++) {
        *build_cell(b, lane, s.counter) = 10 + lane;
        *build_cell(b, lane, s.plain) = 100;
    }
    *build_cell(b, 1, s.overflow) = 5;
    build_gauge(b, s.gauge, -2.5);
    for (uint64_t i = 0; i < 100; i++) build_record(b, 1 + i % 2, s.hist, i * 1000000);
    struct sonde__hist *h = build_hist(b, 2, s.hist);
    h->ex_seq = 2;
    h->ex_value = 99000000;
    h->ex_trace_hi = 5;
    h->ex_trace_lo = 6;
    int64_t size = 77;
    build_attr(b, 2, 41, s.key, SONDE__ATTR_INT, &size, sizeof(size));
    build_attr(b, 2, 41, s.key, SONDE__ATTR_STR, "text", 4);
    build_span(b, 2, s.span_name, 41, 1000, 6000, SONDE_OK);
    build_span(b, 2, s.span_name, 42, 2000, 4000, SONDE_ERROR);
    build_lane(b, 2)->claims = 1;
    build_seal(b);
    return s;
}

#endif
