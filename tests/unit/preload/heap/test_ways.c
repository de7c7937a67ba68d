/* Stacks that are remembered instead of walked, on a program that is hard to remember: hundreds of
 * ways to one place, on all kinds of stacks. Sizes say by which way a block was asked for, so that
 * a stack mistaken for another shows in its bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/preload/heap/heap_run.h"

#define FULL "session=1,mode=full,mean=65536,depth=256,children=0,scan=0,seed=1"
#define SAMPLED "session=1,mode=sampled,mean=4096,depth=256,children=0,scan=0,seed=7"
#define SIZE 1000u
#define LEVELS 8u

static int is_in(const struct view *v, uint32_t node, const struct truth *t)
{
    return node > SONDE__HEAP_NODE_TRUNCATED && view_ip(v, node) >= t->start &&
           view_ip(v, node) < t->stop;
}

/* The way that the frames above a block are; *above: how many more there are; *cut: the stack does
 * not end where a thread begins. */
static uint32_t way_of(const struct run *r, uint32_t node, uint32_t *above, int *cut)
{
    const struct truth left = truth_of(r, "way_left"), right = truth_of(r, "way_right");
    uint32_t way = 0, bit = 0;
    for (; bit < LEVELS; bit++, node = view_node(&r->v, node)->parent) {
        const int is_right = is_in(&r->v, node, &right);
        if (!is_right && !is_in(&r->v, node, &left)) fail_msg("frame %u is of no way", bit);
        way |= (uint32_t)is_right << bit;
    }
    if (is_in(&r->v, node, &left) || is_in(&r->v, node, &right)) fail_msg("too many frames");
    for (*above = 0; node > SONDE__HEAP_NODE_TRUNCATED; ++*above) {
        node = view_node(&r->v, node)->parent;
    }
    *cut = node == SONDE__HEAP_NODE_TRUNCATED;
    return way;
}

/* Blocks that were made, by all ways. *most: frames that a stack has above them, if they have as
 * many, else 0. */
static uint64_t check_ways(const struct run *r, int may_be_cut, uint32_t *most)
{
    const struct truth make = truth_of(r, "way_make");
    uint64_t allocs = 0;
    uint32_t above, least = UINT32_MAX;
    *most = 0;
    assert_int_equal(r->v.m->refused, 0);
    for (uint32_t i = 2; i < r->v.m->node_count; i++) {
        const struct sonde__heap_node *n = view_node(&r->v, i);
        int cut;
        if (!n->site || !is_in(&r->v, i, &make)) continue;
        const struct sonde__heap_row row = view_row(&r->v, n->site);
        const uint32_t way = way_of(r, n->parent, &above, &cut);
        if (cut && !may_be_cut) fail_msg("a stack is truncated");
        if (r->v.m->mode == SONDE__HEAP_FULL && row.alloc_bytes != row.allocs * (SIZE + way)) {
            fail_msg("way %#x: %lu bytes in %lu blocks, which ought to be %u each", way,
                     row.alloc_bytes, row.allocs, SIZE + way);
        }
        allocs += row.allocs;
        if (above > *most) *most = above;
        if (above < least) least = above;
    }
    if (least != *most) *most = 0;
    return allocs;
}

static const struct {
    const char *mode, *blocks;
    uint64_t at_least;
    int may_be_cut;         /* where a stack begins is up to who made it */
} modes[] = {
    { "plain", "40000", 40000, 0 },  { "deep", "20000", 20000, 0 },
    { "throw", "6000", 6000, 0 },    { "longjmp", "20000", 20000, 0 },
    { "small", "10000", 30000, 0 },  { "own", "10000", 30000, 0 },
    { "fibers", "4000", 4000, 1 },   { "alternate", "4000", 12000, 0 },
};

static void test_ways(void **state)
{
    (void)state;
    NEED_LIBRARY();
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        for (int sampled = 0; sampled < 2; sampled++) {
            struct run r;
            uint32_t most;
            run_program(&r, sampled ? SAMPLED : FULL, NULL,
                        (const char *[]){ "ways", modes[i].mode, modes[i].blocks, NULL });
            const uint64_t allocs = check_ways(&r, modes[i].may_be_cut, &most);
            if (!sampled && allocs < modes[i].at_least) {
                fail_msg("%s: %lu blocks", modes[i].mode, allocs);
            }
            if (!modes[i].may_be_cut) assert_int_equal(r.v.m->truncated, 0);
            run_done(&r);
        }
    }
}

/* Rules and stacks that were remembered are void when a module goes: another comes to its place. */
static void test_modules_that_go(void **state)
{
    struct run r;
    char small[4352], large[4352];
    uint32_t most;
    (void)state;
    NEED_LIBRARY();
    snprintf(small, sizeof(small), "%s/programs/burn_way_small.so", build);
    snprintf(large, sizeof(large), "%s/programs/burn_way_large.so", build);
    run_program(&r, FULL, NULL,
                (const char *[]){ "ways", "plugins", "4000", small, large, NULL });
    assert_true(check_ways(&r, 0, &most) >= 4000);
    assert_in_range(most, 5, 7); /* go, plugin_way, run_plugins, main, what calls it */
    assert_int_equal(r.v.m->truncated, 0);
    run_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ways),
        cmocka_unit_test(test_modules_that_go),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
