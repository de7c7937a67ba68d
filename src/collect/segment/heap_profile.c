/* heap_profile.c - the heap profile in a segment; see segment/heap.h.
 *
 * Counts are loaded first, then what they count; all of it only grows, so it must be there. An
 * offset is looked at only when what it leads to lies in the populated block area, and every word
 * is loaded once, checked, and used from the copy: the process may write whatever it likes in
 * between. Sums may wrap around in a damaged file; they are numbers all the same. */
#include <assert.h>
#include <string.h>

#include "base/utf8.h"
#include "collect/segment/private.h"

#define NODES_MAX (SONDE__HEAP_NODES * SONDE__HEAP_NODE_CHUNKS)
#define SITES_MAX (SONDE__HEAP_ROWS * SONDE__HEAP_ROW_CHUNKS)
#define MODULES_MAX (SONDE__HEAP_MODULES * SONDE__HEAP_MODULE_CHUNKS)
#define CHUNK_COUNT_MAX (1u << 24)
#define MEAN_MAX (1ull << 40)
#define SHIFT_MAX 32u
#define ADDRESS_BITS 48
#define PEAK_TRIES 8

static const struct sonde__heap *heap_at(const struct sonde_segment *s)
{
    return (const struct sonde__heap *)(const void *)(s->map.base + s->heap.off);
}

static uint32_t segment_heap_profile_load32(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

/* ---- Finding it ------------------------------------------------------------------------------ */

static int ring_find(struct sonde_segment *s, struct segment_counts *c,
                     const struct sonde__heap *at, struct sonde_err *err)
{
    const uint32_t chunks = segment_heap_profile_load32(&at->chunk_count);
    const uint64_t ring = segment_load(&at->ring);
    if (chunks < 2 || chunks > CHUNK_COUNT_MAX || chunks & (chunks - 1) ||
        !segment_in_blocks(s, c, ring, (uint64_t)chunks * sizeof(struct sonde__chunk))) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: the ring of its heap profile does not "
                             "fit in the block area");
    }
    const struct sonde__chunk *chunk =
        (const struct sonde__chunk *)(const void *)(s->map.base + ring);
    if (segment_chunks_init(&s->heap.ring, chunk, chunks, &at->reserve, 1) != 0) {
        return sonde_err_set(err, SONDE_ENOMEM, "no memory to read its heap profile");
    }
    return 0;
}

/* With the counts of the segment, which everything else is checked against. */
static int heap_find(struct sonde_segment *s, struct segment_counts *c, struct sonde_err *err)
{
    const uint64_t off = __atomic_load_n(&s->live->heap, __ATOMIC_ACQUIRE);
    if (off == 0 && s->heap.off == 0) return SONDE_ENOENT;
    int rc = segment_counts_load(s, c, err);
    if (rc != 0) return rc;
    if (off == s->heap.off) return 0;
    if (s->heap.off != 0 || !segment_in_blocks(s, c, off, sizeof(struct sonde__heap))) {
        return sonde_err_set(err, SONDE_EFORMAT,
                             "damaged: its heap profile lies outside the block area or has moved");
    }
    rc = ring_find(s, c, (const struct sonde__heap *)(const void *)(s->map.base + off), err);
    if (rc == 0) s->heap.off = off;
    return rc;
}

/* One count: it does not pass max and never becomes less. */
static int count_load(const uint32_t *from, uint32_t max, const char *what, uint32_t *known,
                      struct sonde_err *err)
{
    const uint32_t n = __atomic_load_n(from, __ATOMIC_ACQUIRE);
    if (n > max || n < *known) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: its heap profile counts %u %s where "
                             "from %u to %u are possible", n, what, *known, max);
    }
    *known = n;
    return 0;
}

/* Nodes first: what they refer to was counted before them. */
static int counts_update(struct sonde_segment *s, struct sonde_err *err)
{
    const struct sonde__heap *at = heap_at(s);
    struct segment_heap *k = &s->heap;
    int rc = count_load(&at->node_count, NODES_MAX, "nodes", &k->nodes, err);
    if (rc == 0) rc = count_load(&at->site_count, SITES_MAX, "sites", &k->sites, err);
    if (rc == 0) rc = count_load(&at->module_count, MODULES_MAX, "modules", &k->modules, err);
    if (rc == 0) rc = count_load(&at->lane_count, SONDE__HEAP_LANES, "lanes", &k->lanes, err);
    return rc;
}

/* ---- Figures --------------------------------------------------------------------------------- */

/* All zero when it is never still, or was never taken. */
static void arena_copy(const struct sonde__heap_arena *from, struct sonde__heap_arena *out)
{
    for (int i = 0; i < PEAK_TRIES; i++) {
        const uint64_t seq = __atomic_load_n(&from->seq, __ATOMIC_ACQUIRE);
        *out = (struct sonde__heap_arena){
            .ticks = segment_load(&from->ticks),
            .arenas = segment_load(&from->arenas),
            .system_bytes = segment_load(&from->system_bytes),
            .used_bytes = segment_load(&from->used_bytes),
            .free_bytes = segment_load(&from->free_bytes),
            .mapped_bytes = segment_load(&from->mapped_bytes),
            .trim_bytes = segment_load(&from->trim_bytes),
            .seq = seq,
        };
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (seq % 2 == 0 && segment_load(&from->seq) == seq) return;
    }
    *out = (struct sonde__heap_arena){ 0 };
}

static void allocator_copy(const struct sonde__heap *at, char *out, size_t out_size)
{
    char raw[sizeof(at->allocator)];
    int changed = 0;
    memcpy(raw, at->allocator, sizeof(raw));
    const size_t n = sonde__utf8_copy(out, out_size - 1, raw, strnlen(raw, sizeof(raw)), &changed);
    out[n] = '\0';
}

int sonde_segment_heap(struct sonde_segment *s, struct sonde_segment_heap_info *out,
                       struct sonde_err *err)
{
    struct segment_counts c;
    int rc = heap_find(s, &c, err);
    if (rc == 0) rc = counts_update(s, err);
    if (rc != 0) return rc == SONDE_ENOENT ? rc : segment_verdict(s, rc, err);
    const struct sonde__heap *at = heap_at(s);
    struct sonde_segment_heap_info i = {
        .session = segment_load(&at->session),
        .mode = segment_heap_profile_load32(&at->mode),
        .count_shift = segment_heap_profile_load32(&at->count_shift),
        .mean = segment_load(&at->mean),
        .depth_max = segment_heap_profile_load32(&at->depth_max),
        .start_ticks = segment_load(&at->start_ticks),
        .nodes = s->heap.nodes,
        .sites = s->heap.sites,
        .modules = s->heap.modules,
        .lanes = s->heap.lanes,
        .live_bytes = segment_load(&at->live_bytes),
        .peak_bytes = segment_load(&at->peak_bytes),
        .peak_ticks = segment_load(&at->peak_ticks),
        .scanned = segment_load(&at->scanned),
        .reentrant = segment_load(&at->reentrant),
        .refused = segment_load(&at->refused),
        .truncated = segment_load(&at->truncated),
        .unmatched = segment_load(&at->unmatched),
        .failed = segment_load(&at->failed),
    };
    if ((i.mode != SONDE__HEAP_SAMPLED && i.mode != SONDE__HEAP_FULL) ||
        i.count_shift > SHIFT_MAX || i.mean == 0 || i.mean > MEAN_MAX) {
        return segment_verdict(s, sonde_err_set(err, SONDE_EFORMAT, "damaged: its heap profile "
                                                "makes no sense"), err);
    }
    allocator_copy(at, i.allocator, sizeof(i.allocator));
    arena_copy(&at->arena, &i.arena);
    *out = i;
    return segment_verdict(s, 0, err);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* The block of bytes that an offset leads to; NULL: nowhere. */
static const void *segment_heap_profile_block_at(const struct sonde_segment *s,
                                                 struct segment_counts *c, uint64_t off,
                                                 uint64_t bytes)
{
    return segment_in_blocks(s, c, off, bytes) ? s->map.base + off : NULL;
}

/* For looking at single entries: what is populated is loaded when it is needed. */
static const void *block_now(const struct sonde_segment *s, uint64_t off, uint64_t bytes)
{
    struct segment_counts c = { .block_end = 0 };
    return segment_heap_profile_block_at(s, &c, off, bytes);
}

int sonde_segment_heap_node(struct sonde_segment *s, uint32_t id, struct sonde__heap_node *out,
                            struct sonde_err *err)
{
    if (id == 0 || id >= s->heap.nodes) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: its heap profile has no node %u", id);
    }
    const uint64_t off =
        __atomic_load_n(&heap_at(s)->node_chunk[id / SONDE__HEAP_NODES], __ATOMIC_ACQUIRE);
    const struct sonde__heap_node *chunk =
        block_now(s, off, SONDE__HEAP_NODES * sizeof(struct sonde__heap_node));
    if (!chunk) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: node %u of its heap profile lies "
                             "outside the block area", id);
    }
    const struct sonde__heap_node *n = &chunk[id % SONDE__HEAP_NODES];
    *out = (struct sonde__heap_node){
        .ip = segment_load(&n->ip),
        .parent = segment_heap_profile_load32(&n->parent),
        .site = __atomic_load_n(&n->site, __ATOMIC_ACQUIRE),
    };
    const uint64_t modules = s->heap.modules ? s->heap.modules : 1;
    if (out->parent >= id ||
        (out->ip >> ADDRESS_BITS >= modules && !sonde__python_is(out->ip))) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: node %u of its heap profile has the "
                             "parent %u and the module %u", id, out->parent,
                             (uint32_t)(out->ip >> ADDRESS_BITS));
    }
    if (out->site >= s->heap.sites) out->site = 0; /* since the sites were counted */
    return 0;
}

int sonde_segment_heap_module(struct sonde_segment *s, uint32_t id, struct sonde_mapping *out,
                              char path[SONDE_HEAP_PATH_MAX + 1], struct sonde_err *err)
{
    if (id == 0 || id >= s->heap.modules) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: its heap profile has no module %u", id);
    }
    const uint64_t off =
        __atomic_load_n(&heap_at(s)->module_chunk[id / SONDE__HEAP_MODULES], __ATOMIC_ACQUIRE);
    const struct sonde__heap_module *chunk =
        block_now(s, off, SONDE__HEAP_MODULES * sizeof(struct sonde__heap_module));
    const struct sonde__heap_module *m = chunk ? &chunk[id % SONDE__HEAP_MODULES] : NULL;
    const uint64_t text = m ? segment_load(&m->path) : 0;
    /* Texts need not begin at a multiple of 64. */
    const uint64_t before = text % 64;
    const struct sonde__heap_path *p = NULL;
    uint32_t len = 0;
    if (m && text % 4 == 0 && block_now(s, text - before, before + sizeof(*p))) {
        p = (const struct sonde__heap_path *)(const void *)(s->map.base + text);
        len = segment_heap_profile_load32(&p->len);
    }
    if (!p || len > SONDE_HEAP_PATH_MAX ||
        !block_now(s, text - before, before + sizeof(*p) + len)) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: module %u of its heap profile lies "
                             "outside the block area", id);
    }
    memcpy(path, p->text, len);
    path[len] = '\0';
    *out = (struct sonde_mapping){ .start = segment_load(&m->start), .end = segment_load(&m->end),
                                   .offset = segment_load(&m->offset), .path = path,
                                   .executable = 1 };
    if (out->start >= out->end || out->end >> ADDRESS_BITS || strlen(path) != len) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: module %u of its heap profile makes no "
                             "sense", id);
    }
    return 0;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static int chunk_error(struct sonde_err *err, const char *what)
{
    return sonde_err_set(err, SONDE_EFORMAT, "damaged: %s of its heap profile lies outside the "
                         "block area", what);
}

/* A chunk of a directory: NULL in *out = it is not there (yet). */
static int chunk_find(const struct sonde_segment *s, struct segment_counts *c, uint64_t directory,
                      uint32_t chunk, uint64_t bytes, const void **out, struct sonde_err *err)
{
    *out = NULL;
    if (directory == 0) return 0;
    const uint64_t *entries =
        segment_heap_profile_block_at(s, c, directory, SONDE__HEAP_ROW_CHUNKS * sizeof(uint64_t));
    if (!entries) return chunk_error(err, "a directory");
    const uint64_t off = __atomic_load_n(&entries[chunk], __ATOMIC_ACQUIRE);
    if (off == 0) return 0;
    *out = segment_heap_profile_block_at(s, c, off, bytes);
    return *out ? 0 : chunk_error(err, "a table");
}

#define SUM(field) to->field += segment_load(&from->field)

/* Frees of all lanes before allocations of any: so what is in use is never less than nothing. */
static void add_frees(struct sonde__heap_row *to, const struct sonde__heap_row *from)
{
    SUM(frees);
    SUM(free_bytes);
    SUM(temps);
    SUM(temp_bytes);
    SUM(lifetime_us);
    SUM(free_bytes_var);
    SUM(free_count_var);
    SUM(samples_freed);
}

static void segment_heap_profile_add_allocs(struct sonde__heap_row *to,
                                            const struct sonde__heap_row *from)
{
    SUM(allocs);
    SUM(alloc_bytes);
    SUM(mapped_bytes);
    SUM(alloc_bytes_var);
    SUM(alloc_count_var);
    SUM(samples);
    SUM(lost);
    SUM(lost_bytes);
}

/* count rows from first on, which are in one chunk, summed over lanes. */
static int rows_sum(struct sonde_segment *s, uint32_t first, uint32_t count,
                    struct sonde__heap_row *out, struct sonde_err *err)
{
    struct segment_counts c;
    const struct sonde__heap_row *rows[SONDE__HEAP_LANES];
    uint32_t n = 0;
    memset(out, 0, count * sizeof(*out));
    if (first >= SITES_MAX) return chunk_error(err, "a site");
    int rc = segment_counts_load(s, &c, err);
    for (uint32_t i = 0; rc == 0 && i < s->heap.lanes; i++) {
        const uint64_t directory = __atomic_load_n(&heap_at(s)->lane[i].rows, __ATOMIC_ACQUIRE);
        const void *found = NULL;
        rc = chunk_find(s, &c, directory, first / SONDE__HEAP_ROWS, SONDE__HEAP_ROWS * sizeof(*out),
                        &found, err);
        if (found) rows[n++] = (const struct sonde__heap_row *)found + first % SONDE__HEAP_ROWS;
    }
    if (rc != 0) return segment_verdict(s, rc, err);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < count; k++) add_frees(&out[k], &rows[i][k]);
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < count; k++) segment_heap_profile_add_allocs(&out[k], &rows[i][k]);
    }
    return segment_verdict(s, 0, err);
}

int sonde_segment_heap_rows(struct sonde_segment *s, uint32_t chunk,
                            struct sonde__heap_row out[SONDE__HEAP_ROWS], struct sonde_err *err)
{
    const uint32_t first = chunk < SONDE__HEAP_ROW_CHUNKS ? chunk * SONDE__HEAP_ROWS : SITES_MAX;
    return rows_sum(s, first, SONDE__HEAP_ROWS, out, err);
}

int sonde_segment_heap_row(struct sonde_segment *s, uint32_t site, struct sonde__heap_row *out,
                           struct sonde_err *err)
{
    assert(out);
    return rows_sum(s, site, 1, out, err);
}

/* ---- Lanes ----------------------------------------------------------------------------------- */

void sonde_segment_heap_lane(struct sonde_segment *s, uint32_t i, struct sonde__heap_lane *out)
{
    assert(s->heap.off); /* sonde_segment_heap() was before */
    *out = (struct sonde__heap_lane){ 0 };
    if (i >= s->heap.lanes) return;
    const struct sonde__heap_lane *from = &heap_at(s)->lane[i];
    struct sonde__heap_lane *to = out;
    to->claims = segment_heap_profile_load32(&from->claims);
    SUM(frees);
    SUM(free_bytes);
    for (uint32_t k = 0; k < SONDE__HEAP_LIFETIMES; k++) SUM(lifetime[k]);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    SUM(allocs);
    SUM(alloc_bytes);
    for (uint32_t k = 0; k < SONDE__HEAP_SIZES; k++) SUM(size_class[k]);
    to->tid = segment_heap_profile_load32(&from->tid);
}

void sonde_segment_heap_totals(struct sonde_segment *s, struct sonde_segment_heap_totals *out)
{
    assert(s->heap.off); /* sonde_segment_heap() was before */
    struct sonde_segment_heap_totals *to = out;
    const struct sonde__heap_lane *lanes = heap_at(s)->lane, *from;
    *out = (struct sonde_segment_heap_totals){ 0 };
    for (uint32_t i = 0; i < s->heap.lanes; i++) {
        from = &lanes[i];
        SUM(frees);
        SUM(free_bytes);
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < s->heap.lanes; i++) {
        from = &lanes[i];
        SUM(allocs);
        SUM(alloc_bytes);
    }
}

/* ---- Peak ------------------------------------------------------------------------------------ */

static int peak_copy(struct sonde_segment *s, struct segment_counts *c, uint64_t directory,
                     struct sonde__heap_peak *out, uint32_t count, struct sonde_err *err)
{
    memset(out, 0, count * sizeof(*out));
    for (uint32_t first = 0; first < count; first += SONDE__HEAP_ROWS) {
        const void *found = NULL;
        const int rc = chunk_find(s, c, directory, first / SONDE__HEAP_ROWS,
                                  SONDE__HEAP_ROWS * sizeof(*out), &found, err);
        if (rc != 0) return rc;
        const struct sonde__heap_peak *rows = found;
        for (uint32_t i = 0; rows && i < SONDE__HEAP_ROWS && first + i < count; i++) {
            const struct sonde__heap_peak *from = &rows[i];
            struct sonde__heap_peak *to = &out[first + i];
            SUM(count);
            SUM(bytes);
            SUM(bytes_var);
            SUM(count_var);
            /* Rows are read while threads go on, so a block may be seen to be freed and not to have
             * been allocated. */
            if ((int64_t)to->bytes < 0) to->bytes = 0;
            if ((int64_t)to->count < 0) to->count = 0;
        }
    }
    return 0;
}

int sonde_segment_heap_peak(struct sonde_segment *s, struct sonde__heap_peak *out, uint32_t count,
                            struct sonde_err *err)
{
    struct segment_counts c;
    const struct sonde__heap *at = heap_at(s);
    if (s->heap.off == 0) return SONDE_ENOENT;
    int rc = segment_counts_load(s, &c, err);
    if (rc == 0 && count > SITES_MAX) rc = chunk_error(err, "a site");
    /* The table that holds is written over only after another one has come to hold. A process that
     * grows all the time may be faster each time: then parts are of a peak a hundredth higher. */
    for (int i = 0; rc == 0 && i < PEAK_TRIES; i++) {
        const uint64_t seq = __atomic_load_n(&at->peak_seq, __ATOMIC_ACQUIRE);
        if (seq == 0) return SONDE_ENOENT;
        const uint64_t directory = __atomic_load_n(&at->peak[seq & 1], __ATOMIC_ACQUIRE);
        rc = peak_copy(s, &c, directory, out, count, err);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&at->peak_seq, __ATOMIC_RELAXED) == seq) break;
    }
    return segment_verdict(s, rc, err);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static uint32_t event_chunks(uint32_t type, const uint64_t *words)
{
    (void)words;
    return type >= SONDE__HEAP_ALLOC && type <= SONDE__HEAP_THREAD;
}

static void give_event(uint32_t type, const uint64_t *w, void *arg)
{
    const struct sonde_segment_heap_sink *sink = arg;
    if (type == SONDE__HEAP_THREAD) {
        struct sonde_segment_heap_thread thread = { .tid = (uint32_t)w[0], .bytes = w[1],
                                                    .allocs = w[2] };
        memcpy(thread.name, w + 3, sizeof(thread.name) - 1);
        sink->thread(sink->arg, &thread);
        return;
    }
    const struct sonde_segment_heap_event event = {
        .freed = type == SONDE__HEAP_FREE,
        .ticks = w[0],
        .tid = (uint32_t)w[1],
        .size = w[2],
        .node = (uint32_t)w[3],
        .address = w[4],
        .alloc_ticks = type == SONDE__HEAP_FREE ? w[5] : w[0],
    };
    if (w[1] >> 32 || w[3] >> 32 || !event.node) return;
    sink->event(sink->arg, &event);
}

static const struct segment_records records = { "allocations", event_chunks, give_event };

int sonde_segment_heap_events(struct sonde_segment *s, const struct sonde_segment_heap_sink *sink,
                              int last, uint64_t *lost, struct sonde_err *err)
{
    assert(sink && sink->event && sink->thread && lost);
    struct segment_counts c;
    int rc = heap_find(s, &c, err);
    if (rc == 0) {
        rc = segment_chunks_drain(&s->heap.ring, &records, (void *)(uintptr_t)sink, s->fresh, last,
                                  err);
    }
    *lost = segment_chunks_lost(&s->heap.ring);
    return rc == SONDE_ENOENT ? rc : segment_verdict(s, rc, err);
}
