/* Heap profiles in segments made by hand: whole, growing, torn, damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/segment/read.h"
#include "unit/collect/segment/segment_fixture.h"

#define CHUNKS 64u

struct fixture {
    char dir[64];
    int dirfd;
    struct build b;
    struct sonde__heap *m;         /* in b */
    uint32_t module, main_node, malloc_node, other_node, site, other_site;
    struct sonde_segment *s;
    struct sonde_err err;
    struct sonde_segment_heap_info info;
    uint64_t lost;
    char seen[4096];              /* a word for each event */
};

static void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->dirfd = fixture_dir(f->dir);
    build_init(&f->b, 4242, 777, "prog");
    f->m = build_mem(&f->b, SONDE__HEAP_FULL, CHUNKS);
    f->module = build_module(&f->b, 0x1000, 0x9000, 0x400, "/usr/bin/prog");
    f->main_node = build_node(&f->b, 0, f->module, 0x1100);
    f->malloc_node = build_node(&f->b, f->main_node, f->module, 0x1200);
    f->other_node = build_node(&f->b, SONDE__HEAP_NODE_TRUNCATED, 0, 0x777777);
    f->site = build_site(&f->b, f->malloc_node);
    f->other_site = build_site(&f->b, f->other_node);
    build_allocs(&f->b, 0, f->site, 10, 4, 100);
    build_allocs(&f->b, 0, f->other_site, 1, 0, 7);
}

/* As it is now, through the reader. */
static int fixture_read(struct fixture *f)
{
    fixture_write(&f->b, f->dirfd, &f->s);
    return sonde_segment_heap(f->s, &f->info, &f->err);
}

static void fixture_release(struct fixture *f)
{
    fixture_end(&f->b, f->dir, f->dirfd, f->s);
}

/* ---- What is there --------------------------------------------------------------------------- */

static void reads_figures(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f);
    f.m->live_bytes = 607;
    f.m->peak_bytes = 1007;
    f.m->scanned = 1;
    f.m->reentrant = 1;
    f.m->refused = 2;
    f.m->truncated = 3;
    f.m->unmatched = 4;
    f.m->failed = 5;
    f.m->arena = (struct sonde__heap_arena){ 9, 1, 2, 3, 4, 5, 6, 2 };
    memcpy(f.m->allocator, "/lib/\xff\xfe", 8);
    assert_int_equal(fixture_read(&f), 0);
    assert_int_equal(f.info.session, 0xabc);
    assert_int_equal(f.info.mode, SONDE__HEAP_FULL);
    assert_int_equal(f.info.mean, 512 << 10);
    assert_int_equal(f.info.nodes, 5);
    assert_int_equal(f.info.sites, 3);
    assert_int_equal(f.info.modules, 2);
    assert_int_equal(f.info.lanes, 1);
    assert_int_equal(f.info.live_bytes, 607);
    assert_int_equal(f.info.peak_bytes, 1007);
    assert_int_equal(f.info.scanned, 1);
    assert_int_equal(f.info.reentrant * 10000 + f.info.refused * 1000 + f.info.truncated * 100 +
                     f.info.unmatched * 10 + f.info.failed, 12345);
    assert_int_equal(f.info.arena.trim_bytes, 6);
    assert_string_equal(f.info.allocator, "/lib/\xef\xbf\xbd\xef\xbf\xbd");
    f.m->arena.seq = 3; /* being written, for ever */
    assert_int_equal(fixture_read(&f), 0);
    assert_int_equal(f.info.arena.ticks, 0);
    fixture_release(&f);
}

static void reads_nodes_and_modules(void **state)
{
    struct fixture f;
    struct sonde__heap_node n;
    struct sonde_mapping m;
    char path[SONDE_HEAP_PATH_MAX + 1];
    (void)state;
    fixture_init(&f);
    assert_int_equal(fixture_read(&f), 0);
    assert_int_equal(sonde_segment_heap_node(f.s, f.malloc_node, &n, &f.err), 0);
    assert_int_equal(n.ip, 0x1200 | 1ull << 48);
    assert_int_equal(n.parent, f.main_node);
    assert_int_equal(n.site, f.site);
    assert_int_equal(sonde_segment_heap_node(f.s, f.main_node, &n, &f.err), 0);
    assert_int_equal(n.site, 0);
    assert_int_equal(sonde_segment_heap_node(f.s, SONDE__HEAP_NODE_TRUNCATED, &n, &f.err), 0);
    assert_int_equal(sonde_segment_heap_node(f.s, 5, &n, &f.err), SONDE_EFORMAT);
    assert_int_equal(sonde_segment_heap_node(f.s, 0, &n, &f.err), SONDE_EFORMAT);
    assert_int_equal(sonde_segment_heap_module(f.s, f.module, &m, path, &f.err), 0);
    assert_int_equal(m.start, 0x1000);
    assert_int_equal(m.end, 0x9000);
    assert_int_equal(m.offset, 0x400);
    assert_string_equal(m.path, "/usr/bin/prog");
    assert_int_equal(sonde_segment_heap_module(f.s, 2, &m, path, &f.err), SONDE_EFORMAT);

    /* More, in further chunks; a node that allocates later; a site that is not counted yet. */
    for (uint32_t i = 0; i < SONDE__HEAP_MODULES; i++) {
        build_module(&f.b, 0x10000 * (i + 1), 0x10000 * (i + 2), 0, "");
    }
    for (uint32_t i = 0; i < SONDE__HEAP_NODES; i++) build_node(&f.b, f.main_node, 0, i);
    build_site(&f.b, f.main_node);
    build_node_at(&f.b, 4100)->site = 99;
    assert_int_equal(fixture_read(&f), 0);
    assert_int_equal(sonde_segment_heap_module(f.s, 17, &m, path, &f.err), 0);
    assert_string_equal(m.path, "");
    assert_int_equal(sonde_segment_heap_node(f.s, f.main_node, &n, &f.err), 0);
    assert_int_equal(n.site, 3);
    assert_int_equal(sonde_segment_heap_node(f.s, 4100, &n, &f.err), 0);
    assert_int_equal(n.ip, 4095);
    assert_int_equal(n.site, 0);
    fixture_release(&f);
}

static void sums_rows_over_lanes(void **state)
{
    struct fixture f;
    struct sonde__heap_row rows[SONDE__HEAP_ROWS];
    struct sonde_segment_heap_totals totals;
    struct sonde__heap_lane lane;
    (void)state;
    fixture_init(&f);
    build_allocs(&f.b, 3, f.site, 5, 5, 1000); /* lanes 1 and 2 have no rows at all */
    f.m->lane[3].tid = 4243;
    f.m->lane[3].claims = 2;
    struct sonde__heap_row *r = build_row(&f.b, 3, f.site);
    uint64_t *words = (uint64_t *)r;
    for (int i = 4; i < 16; i++) words[i] = (uint64_t)i; /* all that is not counted above */
    *build_row(&f.b, 1, 40) = (struct sonde__heap_row){ .allocs = 1, .alloc_bytes = 2 };
    assert_int_equal(fixture_read(&f), 0);
    assert_int_equal(sonde_segment_heap_rows(f.s, 0, rows, &f.err), 0);
    assert_int_equal(rows[f.site].allocs, 15);
    assert_int_equal(rows[f.site].alloc_bytes, 6000);
    assert_int_equal(rows[f.site].frees, 9);
    assert_int_equal(rows[f.site].free_bytes, 5400);
    words = (uint64_t *)&rows[f.site];
    for (int i = 4; i < 16; i++) assert_int_equal(words[i], i);
    assert_int_equal(rows[f.other_site].alloc_bytes, 7);
    assert_int_equal(rows[0].allocs, 0);
    assert_int_equal(sonde_segment_heap_rows(f.s, 1, rows, &f.err), 0);
    assert_int_equal(rows[8].alloc_bytes, 2);
    assert_int_equal(sonde_segment_heap_rows(f.s, 2, rows, &f.err), 0); /* nothing there */
    assert_int_equal(rows[0].allocs, 0);
    assert_int_equal(sonde_segment_heap_rows(f.s, SONDE__HEAP_ROW_CHUNKS, rows, &f.err),
                     SONDE_EFORMAT);

    sonde_segment_heap_totals(f.s, &totals);
    assert_int_equal(totals.allocs, 16);
    assert_int_equal(totals.alloc_bytes, 6007);
    assert_int_equal(totals.frees, 9);
    assert_int_equal(totals.free_bytes, 5400);
    sonde_segment_heap_lane(f.s, 3, &lane);
    assert_int_equal(lane.tid, 4243);
    assert_int_equal(lane.claims, 2);
    assert_int_equal(lane.size_class[sonde__heap_size_class(1000)], 5);
    sonde_segment_heap_lane(f.s, 4, &lane);
    assert_int_equal(lane.allocs, 0);
    sonde_segment_forget(f.s);
    sonde_segment_heap_totals(f.s, &totals);
    assert_int_equal(totals.allocs, 16);
    fixture_release(&f);
}

static void reads_the_peak_that_holds(void **state)
{
    struct fixture f;
    struct sonde__heap_peak peak[64];
    (void)state;
    fixture_init(&f);
    assert_int_equal(fixture_read(&f), 0);
    assert_int_equal(sonde_segment_heap_peak(f.s, peak, 3, &f.err), SONDE_ENOENT);
    *build_peak(&f.b, 1, f.site) = (struct sonde__heap_peak){ 1, 100, 3, 4 };
    f.m->peak_seq = 1;
    assert_int_equal(fixture_read(&f), 0);
    assert_int_equal(sonde_segment_heap_peak(f.s, peak, 3, &f.err), 0);
    assert_int_equal(peak[f.site].bytes, 100);
    assert_int_equal(peak[f.site].count_var, 4);
    assert_int_equal(peak[f.other_site].bytes, 0);
    *build_peak(&f.b, 0, 40) = (struct sonde__heap_peak){ 2, 200, 0, 0 };
    assert_int_equal(fixture_read(&f), 0); /* being written: the old one holds */
    assert_int_equal(sonde_segment_heap_peak(f.s, peak, 64, &f.err), 0);
    assert_int_equal(peak[40].bytes, 0);
    f.m->peak_seq = 2;
    assert_int_equal(fixture_read(&f), 0);
    assert_int_equal(sonde_segment_heap_peak(f.s, peak, 64, &f.err), 0);
    assert_int_equal(peak[40].bytes, 200);
    assert_int_equal(peak[f.site].bytes, 0);
    /* Freed, and not seen to have been allocated, while the table was written. */
    *build_peak(&f.b, 0, 40) = (struct sonde__heap_peak){ (uint64_t)-1, (uint64_t)-16, 0, 0 };
    assert_int_equal(fixture_read(&f), 0);
    assert_int_equal(sonde_segment_heap_peak(f.s, peak, 64, &f.err), 0);
    assert_int_equal(peak[40].bytes, 0);
    assert_int_equal(peak[40].count, 0);
    fixture_release(&f);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void say(struct fixture *f, const char *format, uint64_t a, const char *b)
{
    const size_t len = strlen(f->seen);
    snprintf(f->seen + len, sizeof(f->seen) - len, format, (unsigned long long)a, b);
}

static void on_event(void *arg, const struct sonde_segment_heap_event *e)
{
    assert_int_equal(e->address, 0x7000);
    assert_int_equal(e->alloc_ticks, e->freed ? e->ticks - 100 : e->ticks);
    assert_int_equal(e->tid, 99);
    say(arg, "%llu%s ", e->size, e->freed ? "f" : "a");
}

static void on_thread(void *arg, const struct sonde_segment_heap_thread *t)
{
    assert_int_equal(t->allocs, 5);
    say(arg, "t%llu:%s ", t->bytes, t->name);
}

static int events(struct fixture *f, int last)
{
    const struct sonde_segment_heap_sink sink = { on_event, on_thread, f };
    f->seen[0] = '\0';
    if (fixture_read(f) != 0) return SONDE_EFORMAT;
    return sonde_segment_heap_events(f->s, &sink, last, &f->lost, &f->err);
}

static void reads_events(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f);
    assert_int_equal(events(&f, 0), 0);
    assert_string_equal(f.seen, "");
    build_event(&f.b, SONDE__HEAP_ALLOC, 5000, 99, 64, f.malloc_node);
    build_event(&f.b, SONDE__HEAP_FREE, 6000, 99, 64, f.malloc_node);
    build_mem_thread(&f.b, 99, 640, 5, "a name of 16 let");
    build_event(&f.b, SONDE__HEAP_ALLOC, 5000, 99, 1, 0);           /* of no node */
    build_mem_chunk(&f.b, 77);                                     /* of no kind */
    assert_int_equal(events(&f, 0), 0);
    assert_string_equal(f.seen, "64a 64f t640:a name of 16 let ");
    assert_int_equal(f.lost, 1);
    for (uint32_t i = 0; i < CHUNKS + 10; i++) {
        build_event(&f.b, SONDE__HEAP_ALLOC, 5000, 99, i, f.malloc_node);
    }
    assert_int_equal(events(&f, 0), 0);
    assert_int_equal(strncmp(f.seen, "10a 11a ", 8), 0);
    assert_int_equal(f.lost, 11);
    fixture_release(&f);
}

static void waits_for_an_unfinished_event(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f);
    struct sonde__chunk *c = build_mem_chunk(&f.b, SONDE__HEAP_ALLOC);
    c->seq_type = 0;
    build_event(&f.b, SONDE__HEAP_ALLOC, 5000, 99, 7, f.malloc_node);
    assert_int_equal(events(&f, 0), 0);
    assert_string_equal(f.seen, "");
    assert_int_equal(events(&f, 1), 0); /* nobody will finish it */
    assert_string_equal(f.seen, "7a ");
    assert_int_equal(f.lost, 1);
    fixture_release(&f);
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static void there_is_none(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f);
    f.b.h->heap = 0;
    assert_int_equal(fixture_read(&f), SONDE_ENOENT);
    fixture_release(&f);
}

static void bad_place(struct fixture *f) { f->b.h->heap = f->b.bytes - 64; }
static void bad_offset(struct fixture *f) { f->b.h->heap += 8; }
static void bad_table(struct fixture *f) { f->b.h->heap = f->b.h->family_off; }
static void bad_mode(struct fixture *f) { f->m->mode = 3; }
static void bad_shift(struct fixture *f) { f->m->count_shift = 63; }
static void bad_mean(struct fixture *f) { f->m->mean = 0; }
static void bad_mean_large(struct fixture *f) { f->m->mean = UINT64_MAX; }
static void bad_ring(struct fixture *f) { f->m->ring = f->b.bytes - 64; }
static void bad_chunks(struct fixture *f) { f->m->chunk_count = 63; }
static void bad_chunks_large(struct fixture *f) { f->m->chunk_count = 1u << 31; }
static void bad_nodes(struct fixture *f) { f->m->node_count = (4u << 20) + 1; }
static void bad_sites(struct fixture *f) { f->m->site_count = (128u << 10) + 1; }
static void bad_modules(struct fixture *f) { f->m->module_count = 65537; }
static void bad_lanes(struct fixture *f) { f->m->lane_count = 129; }

static void refuses_what_cannot_be(void **state)
{
    static void (*const damages[])(struct fixture *) = {
        bad_place,  bad_offset,       bad_table, bad_mode,  bad_shift,   bad_mean,  bad_mean_large,
        bad_ring,   bad_chunks,       bad_chunks_large,     bad_nodes,   bad_sites, bad_modules,
        bad_lanes,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct fixture f;
        fixture_init(&f);
        damages[i](&f);
        assert_int_equal(fixture_read(&f), SONDE_EFORMAT);
        assert_non_null(strstr(f.err.text, "damaged"));
        fixture_release(&f);
    }
}

static void fewer_nodes(struct fixture *f) { f->m->node_count--; }
static void fewer_sites(struct fixture *f) { f->m->site_count--; }
static void moved(struct fixture *f) { f->b.h->heap += 64; }
static void gone(struct fixture *f) { f->b.h->heap = 0; }

static void refuses_what_goes_back(void **state)
{
    static void (*const damages[])(struct fixture *) = { fewer_nodes, fewer_sites, moved, gone };
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct fixture f;
        fixture_init(&f);
        assert_int_equal(fixture_read(&f), 0);
        damages[i](&f);
        assert_int_equal(fixture_read(&f), SONDE_EFORMAT);
        fixture_release(&f);
    }
}

static void node_parent(struct fixture *f) { build_node_at(&f->b, 3)->parent = 3; }
static void node_module(struct fixture *f) { build_node_at(&f->b, 3)->ip |= 7ull << 48; }
static void node_chunk(struct fixture *f) { f->m->node_chunk[0] = f->b.bytes - 4096; }
static void node_none(struct fixture *f) { f->m->node_chunk[0] = 0; }

static void refuses_bad_nodes(void **state)
{
    static void (*const damages[])(struct fixture *) = { node_parent, node_module, node_chunk,
                                                         node_none };
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct fixture f;
        struct sonde__heap_node n;
        fixture_init(&f);
        damages[i](&f);
        assert_int_equal(fixture_read(&f), 0);
        assert_int_equal(sonde_segment_heap_node(f.s, 3, &n, &f.err), SONDE_EFORMAT);
        assert_non_null(strstr(f.err.text, "node 3"));
        fixture_release(&f);
    }
}

static struct sonde__heap_path *path_of(struct fixture *f)
{
    return (struct sonde__heap_path *)(void *)(f->b.base + build_module_at(&f->b, 1)->path);
}

static void module_end(struct fixture *f) { build_module_at(&f->b, 1)->end = 0x1000; }
static void module_high(struct fixture *f) { build_module_at(&f->b, 1)->end = 1ull << 50; }
static void module_path(struct fixture *f) { build_module_at(&f->b, 1)->path = f->b.bytes; }
static void module_odd(struct fixture *f) { build_module_at(&f->b, 1)->path += 1; }
static void module_no_path(struct fixture *f) { build_module_at(&f->b, 1)->path = 0; }
static void module_last(struct fixture *f) { build_module_at(&f->b, 1)->path = f->b.bytes - 4; }
static void module_long(struct fixture *f) { path_of(f)->len = SONDE_HEAP_PATH_MAX + 1; }
static void module_nul(struct fixture *f) { path_of(f)->text[2] = '\0'; }
static void module_chunk(struct fixture *f) { f->m->module_chunk[0] = 64; }

static void refuses_bad_modules(void **state)
{
    static void (*const damages[])(struct fixture *) = {
        module_end,  module_high, module_path, module_odd,  module_no_path,
        module_last, module_long, module_nul,  module_chunk,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct fixture f;
        struct sonde_mapping m;
        char path[SONDE_HEAP_PATH_MAX + 1];
        fixture_init(&f);
        damages[i](&f);
        assert_int_equal(fixture_read(&f), 0);
        if (i == 5) { /* a path of no length that ends with the heap */
            const int rc = sonde_segment_heap_module(f.s, 1, &m, path, &f.err);
            assert_true(rc == SONDE_EFORMAT || m.path[0] == '\0');
        } else {
            assert_int_equal(sonde_segment_heap_module(f.s, 1, &m, path, &f.err), SONDE_EFORMAT);
            assert_non_null(strstr(f.err.text, "module 1"));
        }
        fixture_release(&f);
    }
}

static void rows_directory(struct fixture *f) { f->m->lane[0].rows = 1 << 30; }
static void rows_odd(struct fixture *f) { f->m->lane[0].rows += 8; }
static void rows_chunk(struct fixture *f)
{
    *(uint64_t *)(void *)(f->b.base + f->m->lane[0].rows) = f->b.bytes - 64;
}

static void refuses_bad_rows(void **state)
{
    static void (*const damages[])(struct fixture *) = { rows_directory, rows_odd, rows_chunk };
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct fixture f;
        struct sonde__heap_row rows[SONDE__HEAP_ROWS];
        struct sonde__heap_peak peak[3];
        fixture_init(&f);
        f.m->peak_seq = 2;
        damages[i](&f);
        f.m->peak[0] = f.m->lane[0].rows;
        assert_int_equal(fixture_read(&f), 0);
        assert_int_equal(sonde_segment_heap_rows(f.s, 0, rows, &f.err), SONDE_EFORMAT);
        assert_non_null(strstr(f.err.text, "damaged"));
        assert_int_equal(sonde_segment_heap_peak(f.s, peak, 3, &f.err), SONDE_EFORMAT);
        fixture_release(&f);
    }
}

static void notices_that_it_is_cut_short(void **state)
{
    struct fixture f;
    struct sonde__heap_row rows[SONDE__HEAP_ROWS];
    (void)state;
    fixture_init(&f);
    assert_int_equal(fixture_read(&f), 0);
    assert_int_equal(sonde_segment_heap_rows(f.s, 0, rows, &f.err), 0);
    const int fd = openat(f.dirfd, NAME, O_RDWR | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)f.b.h->heap), 0);
    close(fd);
    assert_int_equal(sonde_segment_heap(f.s, &f.info, &f.err), SONDE_EFORMAT);
    assert_non_null(strstr(f.err.text, "cut short"));
    fixture_release(&f);
}

static void survives_a_failed_allocation(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f);
    build_write(&f.b, f.dirfd, NAME, f.b.bytes);
    assert_int_equal(sonde_segment_open(f.dirfd, NAME, 1, &f.s, &f.err), 0);
    sonde__alloc_fail_nth(1);
    assert_int_equal(sonde_segment_heap(f.s, &f.info, &f.err), SONDE_ENOMEM);
    sonde__alloc_fail_nth(0);
    assert_int_equal(sonde_segment_heap(f.s, &f.info, &f.err), 0);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_figures),
        cmocka_unit_test(reads_nodes_and_modules),
        cmocka_unit_test(sums_rows_over_lanes),
        cmocka_unit_test(reads_the_peak_that_holds),
        cmocka_unit_test(reads_events),
        cmocka_unit_test(waits_for_an_unfinished_event),
        cmocka_unit_test(there_is_none),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(refuses_what_goes_back),
        cmocka_unit_test(refuses_bad_nodes),
        cmocka_unit_test(refuses_bad_modules),
        cmocka_unit_test(refuses_bad_rows),
        cmocka_unit_test(notices_that_it_is_cut_short),
        cmocka_unit_test(survives_a_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
