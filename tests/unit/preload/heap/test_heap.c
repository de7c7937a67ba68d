/* The heap profiler in the process, on programs that know what they allocate: in full mode every
 * byte and every call must be there, whatever the program does; in sampled mode the truth must be
 * in the intervals that the estimates come with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/preload/heap/heap_run.h"

#define FULL "session=12ab,mode=full,mean=65536,depth=128,children=0,scan=0,seed=1"

static const char *const places[] = { "one", "two", "three", "four", "early", "deep", "tls", "map",
                                      "remap" };
enum { PLACES = sizeof(places) / sizeof(places[0]) };

/* ---- What must hold in any profile ----------------------------------------------------------- */

static void check_nodes(const struct view *v)
{
    for (uint32_t i = 1; i < v->m->node_count; i++) {
        const struct sonde__heap_node *n = view_node(v, i);
        assert_true(n->parent < i);
        assert_true(n->site < v->m->site_count);
        assert_true(n->ip >> 48 < v->m->module_count);
        if (n->ip >> 48) {
            const struct sonde__heap_module *m = view_module(v, (uint32_t)(n->ip >> 48));
            assert_true(view_ip(v, i) >= m->start && view_ip(v, i) < m->end);
        }
    }
}

static void check_sums(const struct view *v)
{
    struct sonde__heap_row rows;
    uint64_t sum[6] = { 0 };
    memset(&rows, 0, sizeof(rows));
    for (uint32_t i = 1; i < v->m->site_count; i++) {
        const struct sonde__heap_row r = view_row(v, i);
        for (size_t k = 0; k < VIEW_WORDS; k++) {
            ((uint64_t *)&rows)[k] += ((const uint64_t *)&r)[k];
        }
        assert_true(r.frees <= r.allocs && r.free_bytes <= r.alloc_bytes && r.temps <= r.frees);
    }
    for (uint32_t i = 0; i < v->m->lane_count; i++) {
        const struct sonde__heap_lane *l = &v->m->lane[i];
        sum[0] += l->allocs;
        sum[1] += l->alloc_bytes;
        sum[2] += l->frees;
        sum[3] += l->free_bytes;
        for (uint32_t k = 0; k < SONDE__HEAP_SIZES; k++) sum[4] += l->size_class[k];
        for (uint32_t k = 0; k < SONDE__HEAP_LIFETIMES; k++) sum[5] += l->lifetime[k];
    }
    assert_int_equal(sum[0], rows.allocs);
    assert_int_equal(sum[1], rows.alloc_bytes);
    assert_int_equal(sum[2], rows.frees);
    assert_int_equal(sum[3], rows.free_bytes);
    assert_int_equal(sum[4], rows.allocs);
    assert_int_equal(sum[5], rows.frees);
}

static void check_place(const struct run *r, const char *name)
{
    const struct truth t = truth_of(r, name);
    const struct sonde__heap_row row = row_of(r, name);
    if (row.allocs != t.allocs || row.alloc_bytes != t.bytes || row.frees != t.frees ||
        row.free_bytes != t.freed) {
        fail_msg("%s: %lu allocations, %lu bytes, %lu frees, %lu bytes; wanted %lu, %lu, %lu, %lu",
                 name, row.allocs, row.alloc_bytes, row.frees, row.free_bytes, t.allocs, t.bytes,
                 t.frees, t.freed);
    }
}

static void check_exact(const struct run *r)
{
    assert_int_equal(r->v.m->mode, SONDE__HEAP_FULL);
    assert_int_equal(r->v.m->count_shift, 0);
    assert_int_equal(r->v.m->refused, 0);
    check_nodes(&r->v);
    check_sums(&r->v);
    for (int i = 0; i < PLACES; i++) check_place(r, places[i]);
}

/* ---- Full mode ------------------------------------------------------------------------------- */

static void test_all_functions(void **state)
{
    struct run r;
    (void)state;
    NEED_LIBRARY();
    run_program(&r, FULL, NULL, (const char *[]){ "mem_host", "basic", "5000", NULL });
    check_exact(&r);
    assert_int_equal(r.v.m->session, 0x12ab);
    assert_int_equal(r.v.m->failed, 2); /* of realloc and malloc; reallocarray's is not asked for */
    assert_int_equal(r.v.m->bypassed, 0);
    assert_int_equal(r.v.m->truncated, 0);
    assert_int_equal(r.v.m->reentrant, 0);
    assert_non_null(strstr(r.v.m->allocator, "libc"));
    assert_true(r.v.m->arena.ticks != 0 && r.v.m->arena.system_bytes > 100000);
    /* Freed at once a thousand times, and what else happened to be. */
    assert_in_range(row_of(&r, "one").temps, 1000, 1010);
    assert_true(strstr(r.text, "heap not asked for") != NULL);
    run_done(&r);
}

static void test_image_after_exec(void **state)
{
    struct run r;
    (void)state;
    NEED_LIBRARY();
    run_program(&r, FULL, NULL, (const char *[]){ "mem_host", "exec", "100", NULL });
    check_exact(&r);
    run_done(&r);
}

static void test_threads(void **state)
{
    struct run r;
    (void)state;
    NEED_LIBRARY();
    run_program(&r, FULL, NULL, (const char *[]){ "mem_host", "threads", "3000", NULL });
    check_exact(&r);
    assert_int_equal(truth_of(&r, "tls").allocs, 3 * 16 * 4);
    assert_in_range(r.v.m->lane_count, 2, 18); /* the second and third wave go on in the first's */
    run_done(&r);
}

static void test_more_threads_than_lanes(void **state)
{
    struct run r;
    (void)state;
    NEED_LIBRARY();
    run_program(&r, FULL, NULL, (const char *[]){ "mem_host", "crowd", "20", NULL });
    check_exact(&r);
    assert_int_equal(r.v.m->lane_count, SONDE__HEAP_LANES);
    assert_true(r.v.m->lane[0].allocs > 0);
    run_done(&r);
}

static void test_forks(void **state)
{
    struct run r;
    (void)state;
    NEED_LIBRARY();
    run_program(&r, FULL, NULL, (const char *[]){ "mem_host", "fork", "100", NULL });
    check_exact(&r);
    assert_non_null(strstr(r.text, "children 100\n"));
    run_done(&r);
}

/* Segments of children are there, and theirs: each says what a child does. */
static void test_children_too(void **state)
{
    struct run r;
    int children = 0;
    (void)state;
    NEED_LIBRARY();
    run_program(&r, "session=1,mode=full,mean=65536,depth=64,children=1,scan=0,seed=1", NULL,
                (const char *[]){ "mem_host", "fork", "12", NULL });
    check_exact(&r);
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        struct view v;
        const int pid = atoi(e->d_name);
        if (pid <= 0 || pid == r.pid || view_open(&v, dir, pid)) continue;
        check_nodes(&v);
        check_sums(&v);
        uint64_t allocs = 0;
        for (int i = 0; i < PLACES; i++) {
            const struct truth t = truth_of(&r, places[i]);
            allocs += view_range(&v, t.start, t.stop).allocs;
        }
        if (allocs) assert_int_equal(allocs, 301); /* others are /bin/true's */
        children += allocs != 0;
        view_close(&v);
    }
    closedir(d);
    assert_int_equal(children, 12);
    run_done(&r);
}

static void test_mappings(void **state)
{
    struct run r;
    (void)state;
    NEED_LIBRARY();
    run_program(&r, FULL, NULL, (const char *[]){ "mem_host", "maps", "2000", NULL });
    check_exact(&r);
    assert_int_equal(r.v.m->failed, 1);
    static const char *const mapped[] = { "map", "remap" };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(row_of(&r, mapped[i]).mapped_bytes, truth_of(&r, mapped[i]).bytes);
    }
    assert_true(truth_of(&r, "map").bytes > truth_of(&r, "map").freed);
    run_done(&r);
}

/* ---- C++, other allocators ------------------------------------------------------------------- */

static void check_new(const char *allocator, const char *heap)
{
    struct run r;
    const int throws = !allocator || !strstr(allocator, "mimalloc"); /* that one aborts */
    run_program(&r, heap, allocator,
                (const char *[]){ "mem_new", "20000", throws ? NULL : "quietly", NULL });
    check_nodes(&r.v);
    check_sums(&r.v);
    assert_non_null(strstr(r.text, "1001 1\n"));
    const struct truth t = truth_of(&r, "made");
    if (r.v.m->mode == SONDE__HEAP_FULL) {
        /* Stacks begin in the operator, or in what calls it: the library's calls malloc. */
        struct sonde__heap_row sum;
        memset(&sum, 0, sizeof(sum));
        for (uint32_t i = 2; i < r.v.m->node_count; i++) {
            const struct sonde__heap_node *n = view_node(&r.v, i);
            if (!n->site) continue;
            int in = 0;
            uint32_t up = i;
            for (int k = 0; k < 3 && up > 1 && !in; k++, up = view_node(&r.v, up)->parent) {
                in = view_ip(&r.v, up) >= t.start && view_ip(&r.v, up) < t.stop;
            }
            if (!in) continue;
            const struct sonde__heap_row row = view_row(&r.v, n->site);
            for (size_t k = 0; k < VIEW_WORDS; k++) {
                ((uint64_t *)&sum)[k] += ((const uint64_t *)&row)[k];
            }
        }
        /* Also there, with its exception: what operator new throws. */
        assert_in_range(sum.allocs, t.allocs, t.allocs + 1);
        assert_int_equal(sum.frees - t.frees, sum.allocs - t.allocs);
        /* Of nothing the C++ library asks for a byte. */
        assert_in_range(sum.alloc_bytes, t.bytes, t.bytes + t.allocs * 64);
        assert_int_equal(r.v.m->refused, 0);
        assert_true(r.v.m->reentrant <= 2);
    }
    run_done(&r);
}

static const char *const allocators[] = {
    "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
    "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
    "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0",
};

#define SAMPLED "session=1,mode=sampled,mean=4096,depth=64,children=0,scan=0,seed=7"

static void test_operators(void **state)
{
    (void)state;
    NEED_LIBRARY();
    check_new(NULL, FULL);
    check_new(NULL, SAMPLED);
}

static void test_other_allocators(void **state)
{
    (void)state;
    NEED_LIBRARY();
    for (size_t i = 0; i < sizeof(allocators) / sizeof(allocators[0]); i++) {
        struct run r;
        const char *name = strrchr(allocators[i], '/') + 1;
        if (access(allocators[i], R_OK)) {
            print_message("%s is not there\n", name);
            continue;
        }
        check_new(allocators[i], FULL);
        check_new(allocators[i], SAMPLED);
        run_program(&r, FULL, allocators[i],
                    (const char *[]){ "mem_host", "threads", "2000", NULL });
        check_exact(&r);
        assert_int_equal(r.v.m->arena.ticks, 0);
        assert_int_equal(strncmp(r.v.m->allocator, name, 8), 0);
        run_done(&r);
    }
}

/* C++ code in a program that is not: our operators are found before the library's. */
static void test_private_cpp(void **state)
{
    static const char *const heaps[] = { FULL, SAMPLED, NULL };
    char plugin[4352];
    (void)state;
    NEED_LIBRARY();
    snprintf(plugin, sizeof(plugin), "%s/programs/burn_new.so", build);
    for (int i = 0; i < 3; i++) {
        struct run r;
        run_program(&r, heaps[i], NULL,
                    (const char *[]){ "mem_host", "plugin", "3", plugin, NULL });
        if (!i) check_exact(&r);
        if (heaps[i]) run_done(&r);
    }
}

static void test_signal_handlers(void **state)
{
    struct run r;
    char bump[4352];
    uint64_t wanted = 0, got = 0;
    (void)state;
    NEED_LIBRARY();
    snprintf(bump, sizeof(bump), "%s/programs/burn_bump.so", build);
    run_program(&r, FULL, bump, (const char *[]){ "mem_host", "signal", "300000", NULL });
    check_nodes(&r.v);
    check_sums(&r.v);
    assert_string_equal(r.v.m->allocator, "burn_bump.so");
    static const char *const all[] = { "one", "two", "four", "deep", "handler" };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const struct truth t = truth_of(&r, all[i]);
        const struct sonde__heap_row row = row_of(&r, all[i]);
        wanted += t.allocs + t.frees;
        got += row.allocs + row.frees;
    }
    /* Every call is either in the rows or counted as one that could not be. Some frees were of
     * what was there before us. */
    assert_in_range(got + r.v.m->reentrant + r.v.m->unmatched, wanted, wanted + 20);
    run_done(&r);
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

/* How many frames there are, how many from the innermost on are in the place, and whether there
 * were more. */
static uint32_t depth_of(const struct view *v, uint32_t node, const struct truth *t,
                         uint32_t *inside, int *cut)
{
    uint32_t n = 0;
    *inside = 0;
    for (; node > SONDE__HEAP_NODE_TRUNCATED; node = view_node(v, node)->parent, n++) {
        if (*inside == n && view_ip(v, node) >= t->start && view_ip(v, node) < t->stop) ++*inside;
    }
    *cut = node == SONDE__HEAP_NODE_TRUNCATED;
    return n;
}

static void check_deep(const char *heap, uint32_t limit)
{
    struct run r;
    uint64_t all = 0;
    run_program(&r, heap, NULL, (const char *[]){ "mem_host", "deep", "200", NULL });
    check_exact(&r);
    const struct truth t = truth_of(&r, "deep");
    for (uint32_t i = 2; i < r.v.m->node_count; i++) {
        const struct sonde__heap_node *n = view_node(&r.v, i);
        uint32_t inside;
        int cut;
        if (!n->site || view_ip(&r.v, i) < t.start || view_ip(&r.v, i) >= t.stop) continue;
        const uint32_t depth = depth_of(&r.v, i, &t, &inside, &cut);
        const uint64_t allocs = view_row(&r.v, n->site).allocs;
        all += allocs;
        if (cut) {
            assert_int_equal(depth, limit);
            continue;
        }
        assert_in_range(inside, 1, 201);
        assert_in_range(depth, inside + 2, limit); /* run_deep, main, what calls it */
        assert_int_equal(allocs, inside <= 200 ? 10 : 1);
    }
    assert_int_equal(all, t.allocs);
    if (limit > 210) assert_int_equal(r.v.m->truncated, 0);
    else assert_true(r.v.m->truncated > 0);
    run_done(&r);
}

static void test_deep_stacks(void **state)
{
    (void)state;
    NEED_LIBRARY();
    check_deep("session=1,mode=full,mean=65536,depth=1024,children=0,scan=0,seed=1", 1024);
    check_deep("session=1,mode=full,mean=65536,depth=64,children=0,scan=0,seed=1", 64);
}

static void test_plugins(void **state)
{
    struct run r;
    char plugin[4352];
    struct sonde__heap_row sum;
    (void)state;
    NEED_LIBRARY();
    snprintf(plugin, sizeof(plugin), "%s/programs/burn_mem.so", build);
    run_program(&r, FULL, NULL, (const char *[]){ "mem_host", "plugin", "20", plugin, NULL });
    check_exact(&r);
    memset(&sum, 0, sizeof(sum));
    for (uint32_t i = 2; i < r.v.m->node_count; i++) {
        const struct sonde__heap_node *n = view_node(&r.v, i);
        uint32_t len;
        if (!n->site || !(n->ip >> 48)) continue;
        const char *path = view_module_path(&r.v, (uint32_t)(n->ip >> 48), &len);
        if (len != strlen(plugin) || memcmp(path, plugin, len)) continue;
        const struct sonde__heap_row row = view_row(&r.v, n->site);
        sum.allocs += row.allocs;
        sum.alloc_bytes += row.alloc_bytes;
        sum.frees += row.frees;
    }
    assert_int_equal(sum.allocs, 40);
    assert_int_equal(sum.alloc_bytes, 20 * (77 + 333));
    assert_int_equal(sum.frees, 30);
    run_done(&r);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void test_events(void **state)
{
    struct run r;
    uint64_t allocs = 0, frees = 0, threads = 0, thread_bytes = 0, bytes = 0;
    (void)state;
    NEED_LIBRARY();
    run_program(&r, FULL, NULL, (const char *[]){ "mem_host", "threads", "200", NULL });
    const struct sonde__heap *m = r.v.m;
    const struct sonde__chunk *ring = (const struct sonde__chunk *)(void *)(r.v.base + m->ring);
    assert_in_range(m->reserve, 1, m->chunk_count);
    for (uint64_t i = 0; i < m->reserve; i++) {
        const struct sonde__chunk *c = &ring[i];
        assert_int_equal(c->seq_type >> 8, i + 1);
        switch (c->seq_type & 0xff) {
        case SONDE__HEAP_FREE:
            frees++;
            assert_true(c->word[5] && c->word[5] <= c->word[0]);
            /* fallthrough */
        case SONDE__HEAP_ALLOC:
            allocs += (c->seq_type & 0xff) == SONDE__HEAP_ALLOC;
            assert_true(c->word[0] >= m->start_ticks && c->word[1] && c->word[4]);
            assert_in_range(c->word[3], 1, m->node_count - 1);
            assert_true(view_node(&r.v, (uint32_t)c->word[3])->site);
            break;
        case SONDE__HEAP_THREAD:
            threads++;
            thread_bytes += c->word[1];
            assert_memory_equal(&c->word[3], "mem_host", 9);
            break;
        default: fail_msg("chunk %lu is of no kind", (unsigned long)i);
        }
    }
    for (uint32_t i = 0; i < m->lane_count; i++) bytes += m->lane[i].alloc_bytes;
    /* One in 64 KiB: some hundred of them, give or take. */
    assert_in_range(allocs, bytes / 65536 / 2, bytes / 65536 * 2 + 1);
    assert_in_range(frees, 1, allocs);
    assert_int_equal(threads, 3 * 16 + 1);
    assert_in_range(thread_bytes, bytes - bytes / 50, bytes); /* but for the very end */
    run_done(&r);
}

/* ---- Peak ------------------------------------------------------------------------------------ */

/* Bytes at the peak of all places in this section of the program. */
static uint64_t peak_of(const struct run *r, const char *site)
{
    uint64_t bytes = 0;
    const struct sonde__heap *m = r->v.m;
    const uint64_t *directory = (const uint64_t *)(void *)(r->v.base + m->peak[m->peak_seq & 1]);
    const struct truth t = truth_of(r, site);
    for (uint32_t i = 2; i < m->node_count; i++) {
        const struct sonde__heap_node *n = view_node(&r->v, i);
        if (!n->site || view_ip(&r->v, i) < t.start || view_ip(&r->v, i) >= t.stop) continue;
        const uint64_t chunk = directory[n->site / SONDE__HEAP_ROWS];
        if (chunk) {
            bytes += ((const struct sonde__heap_peak *)(void *)(r->v.base + chunk))
                         [n->site % SONDE__HEAP_ROWS].bytes;
        }
    }
    return bytes;
}

static void test_peak(void **state)
{
    struct run r;
    (void)state;
    NEED_LIBRARY();
    run_program(&r, FULL, NULL, (const char *[]){ "mem_host", "hill", "400", NULL });
    check_exact(&r);
    assert_true(r.v.m->peak_seq > 10);
    /* Up to 400 pieces of 10,000 bytes, and down again. */
    assert_in_range(r.v.m->peak_bytes, 3900000, 4200000);
    assert_in_range(peak_of(&r, "one"), 3900000, 4000000);
    run_done(&r);
}

/* It is seen also right after other peaks, and when it is over at once. */
static void test_peak_short(void **state)
{
    struct run r;
    (void)state;
    NEED_LIBRARY();
    run_program(&r, FULL, NULL, (const char *[]){ "mem_host", "spike", "100", NULL });
    check_exact(&r);
    assert_in_range(r.v.m->peak_bytes, (64 << 20) + 950000, (64 << 20) + 1200000);
    assert_int_equal(peak_of(&r, "one"), 64 << 20);
    run_done(&r);
}

/* ---- Lost memory ----------------------------------------------------------------------------- */

#define SCAN "mean=1,depth=64,children=0,scan=1,seed=1"

/* shift: of counts. Words that happen to be left somewhere may keep a few. */
static void check_lost(const char *heap, uint32_t shift)
{
    static const char *const kept[] = { "four", "deep", "tls", "handler", "remap" };
    struct run r;
    run_program(&r, heap, NULL, (const char *[]){ "mem_host", "lost", "200", NULL });
    assert_int_equal(r.v.m->scanned, 1);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(row_of(&r, kept[i]).lost, 0);
        assert_int_equal(row_of(&r, kept[i]).lost_bytes, 0);
    }
    assert_in_range(row_of(&r, "one").lost >> shift, 190, 200);
    assert_int_equal(row_of(&r, "one").lost_bytes, (row_of(&r, "one").lost >> shift) * 40);
    assert_in_range(row_of(&r, "two").lost >> shift, 950, 1000);
    /* What points behind the end of a neighbour points to one, and how many words do that differs
     * between machines. */
    assert_in_range(row_of(&r, "map").lost >> shift, 85, 100);
    assert_int_equal(row_of(&r, "map").lost_bytes, (row_of(&r, "map").lost >> shift) * 3 * 4096);
    run_done(&r);
}

static void test_lost(void **state)
{
    struct run r;
    (void)state;
    NEED_LIBRARY();
    check_lost("session=1,mode=full," SCAN, 0);
    check_lost("session=1,mode=sampled," SCAN, 16); /* with a mean of 1 nearly all are sampled */
    run_program(&r, FULL, NULL, (const char *[]){ "mem_host", "lost", "1", NULL });
    assert_int_equal(r.v.m->scanned, 0);
    run_done(&r);
}

/* ---- Sampled mode ---------------------------------------------------------------------------- */

static int within(double estimate, double var, double wanted)
{
    const double off = estimate - wanted;
    return off * off <= 1.96 * 1.96 * var;
}

struct tally { int live_bytes, live_count, alloc_bytes, alloc_count; };

static void tally_add(struct tally *t, const struct sonde__heap_row *r, const struct truth *w)
{
    const double bytes = (double)r->alloc_bytes, freed = (double)r->free_bytes;
    const double count = (double)r->allocs / 65536, frees = (double)r->frees / 65536;
    const double bytes_var = (double)r->alloc_bytes_var * 4096;
    const double free_var = (double)r->free_bytes_var * 4096;
    t->alloc_bytes += within(bytes, bytes_var, (double)w->bytes);
    t->alloc_count += within(count, (double)r->alloc_count_var, (double)w->allocs);
    t->live_bytes += within(bytes - freed, bytes_var - free_var, (double)(w->bytes - w->freed));
    t->live_count += within(count - frees, (double)(r->alloc_count_var - r->free_count_var),
                            (double)(w->allocs - w->frees));
}

static void sum_rows(struct sonde__heap_row *to, const struct sonde__heap_row *r)
{
    for (size_t k = 0; k < VIEW_WORDS; k++) ((uint64_t *)to)[k] += ((const uint64_t *)r)[k];
}

enum { SEEDS = 200, ENOUGH = 176 }; /* 190 ± 3; four and a half times that is allowed for */

static void check_tally(const char *what, const struct tally *t)
{
    if (t->live_bytes < ENOUGH || t->live_count < ENOUGH || t->alloc_bytes < ENOUGH ||
        t->alloc_count < ENOUGH) {
        fail_msg("%s: of %d runs the truth was in the interval of live bytes in %d, of live blocks "
                 "in %d, of bytes in %d, of allocations in %d", what, SEEDS, t->live_bytes,
                 t->live_count, t->alloc_bytes, t->alloc_count);
    }
}

static void test_estimates(void **state)
{
    static const char *const known[] = { "one", "two", "deep" };
    struct tally tally[4] = { { 0, 0, 0, 0 } };
    struct run r;
    (void)state;
    NEED_LIBRARY();
    for (int seed = 1; seed <= SEEDS; seed++) {
        char heap[256];
        struct sonde__heap_row all;
        struct truth all_truth = { 0, 0, 0, 0, 0, 0 };
        memset(&all, 0, sizeof(all));
        snprintf(heap, sizeof(heap),
                 "session=1,mode=sampled,mean=4096,depth=32,children=0,scan=0,seed=%d", seed);
        run_program(&r, heap, NULL, (const char *[]){ "mem_host", "known", "10000", NULL });
        assert_int_equal(r.v.m->mode, SONDE__HEAP_SAMPLED);
        assert_int_equal(r.v.m->refused, 0);
        if (seed == 1) check_nodes(&r.v);
        if (seed == 1) check_sums(&r.v);
        for (int i = 0; i < 3; i++) {
            const struct sonde__heap_row row = row_of(&r, known[i]);
            const struct truth t = truth_of(&r, known[i]);
            tally_add(&tally[i], &row, &t);
            sum_rows(&all, &row);
            all_truth.allocs += t.allocs;
            all_truth.bytes += t.bytes;
            all_truth.frees += t.frees;
            all_truth.freed += t.freed;
        }
        tally_add(&tally[3], &all, &all_truth);
        run_done(&r);
    }
    for (int i = 0; i < 3; i++) check_tally(known[i], &tally[i]);
    check_tally("all", &tally[3]);
}

static void test_sampled_threads(void **state)
{
    struct run r;
    (void)state;
    NEED_LIBRARY();
    run_program(&r, "session=1,mode=sampled,mean=2048,depth=64,children=0,scan=0,seed=3", NULL,
                (const char *[]){ "mem_host", "threads", "2000", NULL });
    check_nodes(&r.v);
    check_sums(&r.v);
    for (int i = 0; i < PLACES; i++) {
        const struct truth t = truth_of(&r, places[i]);
        const struct sonde__heap_row row = row_of(&r, places[i]);
        const double off = (double)row.alloc_bytes - (double)t.bytes;
        /* Six standard deviations. */
        assert_true(off * off <= 36 * ((double)row.alloc_bytes_var * 4096 + 2048.0 * 2048));
    }
    run_done(&r);
}

/* Of thousands that come and go, while the filter grows, no end is missed. */
static void test_sampled_ends(void **state)
{
    (void)state;
    NEED_LIBRARY();
    for (int i = 0; i < 2; i++) {
        struct run r;
        run_program(&r, "session=1,mode=sampled,mean=1,depth=64,children=0,scan=0,seed=3", NULL,
                    (const char *[]){ "mem_host", i ? "known" : "threads", "3000", NULL });
        assert_int_equal(r.v.m->refused, 0);
        for (int k = 0; k < PLACES; k++) {
            const struct truth t = truth_of(&r, places[k]);
            const struct sonde__heap_row row = row_of(&r, places[k]);
            /* With a mean of a byte hardly one is not sampled. */
            assert_in_range(row.samples, t.allocs - t.allocs / 20, t.allocs);
            assert_in_range(row.samples - row.samples_freed, 0, t.allocs - t.frees);
        }
        run_done(&r);
    }
}

/* ---- Nothing asked for ----------------------------------------------------------------------- */

static void test_off(void **state)
{
    struct run r;
    struct view v;
    (void)state;
    NEED_LIBRARY();
    run_program(&r, NULL, NULL, (const char *[]){ "mem_host", "threads", "500", NULL });
    assert_int_equal(view_open(&v, dir, r.pid), -1);
    static const char *const bad[] = { "", "mode=full", "session=1,mode=some,mean=1,depth=64,"
                                       "children=0,scan=0,seed=0",
                                       "session=1,mode=full,mean=0,depth=64,children=0,scan=0,"
                                       "seed=0",
                                       "session=1,mode=full,mean=1,depth=64,children=2,scan=0,"
                                       "seed=0" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        setenv("SONDE_HEAP", bad[i], 1);
        run_program(&r, NULL, NULL, (const char *[]){ "mem_host", "environment", NULL });
        assert_int_equal(view_open(&v, dir, r.pid), -1);
    }
    unsetenv("SONDE_HEAP");
    segments_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_functions),
        cmocka_unit_test(test_image_after_exec),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_more_threads_than_lanes),
        cmocka_unit_test(test_forks),
        cmocka_unit_test(test_children_too),
        cmocka_unit_test(test_mappings),
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_other_allocators),
        cmocka_unit_test(test_private_cpp),
        cmocka_unit_test(test_signal_handlers),
        cmocka_unit_test(test_deep_stacks),
        cmocka_unit_test(test_plugins),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_peak),
        cmocka_unit_test(test_peak_short),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_estimates),
        cmocka_unit_test(test_sampled_threads),
        cmocka_unit_test(test_sampled_ends),
        cmocka_unit_test(test_off),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
