/* fuzz_segment_heap.c - damaged heap profiles in segments: ids that the reader gives lead
 * somewhere, stacks have an end, texts are whole. */
#include "base/utf8.h"
#include "fuzz/fuzz_segment.h"

static void fuzz_build(struct build *b)
{
    struct sonde__heap *m = build_mem(b, SONDE__HEAP_SAMPLED, 64);
    uint32_t node = SONDE__HEAP_NODE_TRUNCATED;
    build_module(b, 0x1000, 0x9000, 0, "/usr/bin/prog");
    build_module(b, 0x10000, 0x20000, 0x1000, "/usr/lib/some/library.so");
    for (uint32_t i = 0; i < 40; i++) {
        node = build_node(b, i % 10 ? node : i ? 0 : node, i % 3, 0x1000 + i);
        if (i % 2) build_allocs(b, i % 3, build_site(b, node), 10 * i, i, 64);
        *build_peak(b, i % 2, i) = (struct sonde__heap_peak){ i, 64 * i, i, i };
    }
    m->peak_seq = 3;
    m->arena = (struct sonde__heap_arena){ .ticks = 1, .arenas = 2, .seq = 4 };
    for (uint32_t i = 0; i < 70; i++) {
        build_event(b, i % 2 ? SONDE__HEAP_FREE : SONDE__HEAP_ALLOC, 1000 + i, 4243, 64,
                    2 + i % 40);
    }
    build_mem_thread(b, 4243, 6400, 100, "worker");
}

static void check_event(void *arg, const struct sonde_segment_heap_event *e)
{
    uint64_t *sum = arg;
    CHECK(e->node != 0);
    *sum += e->size + e->ticks + e->alloc_ticks + e->address;
}

static void check_thread(void *arg, const struct sonde_segment_heap_thread *t)
{
    (void)arg;
    CHECK(strnlen(t->name, sizeof(t->name)) < sizeof(t->name));
}

static int read_nodes(struct sonde_segment *s, const struct sonde_segment_heap_info *i,
                      struct sonde_err *err)
{
    int rc = 0;
    for (uint32_t id = 1; rc == 0 && id < i->nodes && id < 5000; id++) {
        struct sonde__heap_node n;
        rc = sonde_segment_heap_node(s, id, &n, err);
        if (rc != 0) break;
        CHECK(n.parent < id && (n.site == 0 || n.site < i->sites));
        CHECK(n.ip >> 48 == 0 || n.ip >> 48 < i->modules || sonde__python_is(n.ip));
    }
    for (uint32_t id = 1; rc == 0 && id < i->modules && id < 100; id++) {
        struct sonde_mapping m;
        char path[SONDE_HEAP_PATH_MAX + 1];
        rc = sonde_segment_heap_module(s, id, &m, path, err);
        if (rc == 0) CHECK(m.start < m.end && strlen(m.path) <= SONDE_HEAP_PATH_MAX);
    }
    return rc;
}

static int read_rows(struct sonde_segment *s, const struct sonde_segment_heap_info *i,
                     struct sonde_err *err)
{
    static struct sonde__heap_row rows[SONDE__HEAP_ROWS];
    static struct sonde__heap_peak peak[SONDE__HEAP_ROWS * SONDE__HEAP_ROW_CHUNKS];
    struct sonde_segment_heap_totals totals;
    struct sonde__heap_lane lane;
    int rc = 0;
    for (uint32_t first = 0; rc == 0 && first < i->sites; first += SONDE__HEAP_ROWS) {
        rc = sonde_segment_heap_rows(s, first / SONDE__HEAP_ROWS, rows, err);
    }
    sonde_segment_heap_totals(s, &totals);
    for (uint32_t n = 0; n <= i->lanes; n++) sonde_segment_heap_lane(s, n, &lane);
    if (rc == 0) rc = sonde_segment_heap_peak(s, peak, i->sites, err);
    return rc == SONDE_ENOENT ? 0 : rc;
}

static int fuzz_read(struct sonde_segment *s, const struct edits *late, struct sonde_err *err)
{
    int rc = 0;
    for (int pass = 0; rc == 0 && pass < PASSES; pass++) {
        struct sonde_segment_heap_info info;
        uint64_t sum = 0, lost;
        const struct sonde_segment_heap_sink sink = { check_event, check_thread, &sum };
        rc = sonde_segment_heap(s, &info, err);
        if (rc == SONDE_ENOENT) return 0;
        if (rc == 0) CHECK(sonde__utf8_valid(info.allocator, strlen(info.allocator)));
        if (rc == 0) rc = read_nodes(s, &info, err);
        if (rc == 0) rc = read_rows(s, &info, err);
        if (rc == 0) rc = sonde_segment_heap_events(s, &sink, pass == PASSES - 1, &lost, err);
        if (pass == 0) fuzz_late(late);
    }
    return rc;
}

#ifdef SONDE_FUZZ_MAIN

static uint32_t offset_in(uint64_t block, uint64_t bytes)
{
    return (uint32_t)(block + draw() % bytes);
}

static uint32_t fuzz_offset(void)
{
    const struct sonde__header *h = seed.h;
    const struct sonde__heap *m = build_mem_at(&seed);
    switch (draw() % 10) {
    case 0: return offset_in(SONDE__HEADER_FIXED, sizeof(*h) - SONDE__HEADER_FIXED);
    case 1: return offset_in(h->heap, offsetof(struct sonde__heap, lane));
    case 2: return offset_in(h->heap + offsetof(struct sonde__heap, lane), 3 * sizeof(m->lane[0]));
    case 3: return offset_in(h->heap + offsetof(struct sonde__heap, node_chunk), 32);
    case 4: return offset_in(h->heap + offsetof(struct sonde__heap, module_chunk), 32);
    case 5: return offset_in(m->node_chunk[0], 42 * sizeof(struct sonde__heap_node));
    case 6: return offset_in(m->module_chunk[0], 3 * sizeof(struct sonde__heap_module));
    case 7: return offset_in(m->lane[draw() % 3].rows, 64);
    case 8: return offset_in(m->peak[draw() % 2], 64);
    default: return offset_in(m->ring, 64ull * m->chunk_count);
    }
}

#endif
