/* Other looks at a tree: recursion folded, the leaf first, a part of it. What comes out is compared
 * with what sonde_tree_build makes of the same samples, and sums with each other. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct sonde_profile_filter any = { .kind = -1 };
static const struct sonde_tree_path nowhere = { NULL, 0 };

static struct sonde_profile *create(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    return p;
}

/* "stack weight", a '~' in front for truncated. */
static void add(struct sonde_profile *p, const char *sample)
{
    char stack[200];
    unsigned weight;
    assert_int_equal(sscanf(sample, "%199s %u", stack, &weight), 2);
    assert_int_equal(build_sample(p, stack + (*stack == '~'), weight, 0, 0), 0);
    if (*stack == '~') p->samples[p->samples_count - 1].flags = SONDE_SAMPLE_TRUNCATED;
}

static struct sonde_tree *build(const struct sonde_profile *p, int invert, uint32_t nodes_max)
{
    struct sonde_tree *t;
    const struct sonde_tree_options o = { .invert = invert, .nodes_max = nodes_max };
    assert_int_equal(sonde_tree_build(p, &any, &o, &t, NULL), 0);
    return t;
}

/* "name total/self#samples(children)", in a difference with "<base total/self". */
static void draw(struct sonde_buf *b, const struct sonde_tree *t, uint32_t node)
{
    const struct sonde_tree_node *n = &t->nodes[node];
    sonde_buf_printf(b, "%s %d/%d#%d", n->name, (int)n->total, (int)n->self, (int)n->samples);
    if (t->base_total) sonde_buf_printf(b, "<%d/%d", (int)n->base_total, (int)n->base_self);
    if (!n->first_child) return;
    sonde_buf_putc(b, '(');
    for (uint32_t c = n->first_child; c; c = t->nodes[c].next) {
        assert_int_equal(t->nodes[c].parent, node);
        assert_int_equal(t->nodes[c].depth, n->depth + 1);
        assert_true(c > node);
        if (c != n->first_child) sonde_buf_putc(b, ' ');
        draw(b, t, c);
    }
    sonde_buf_putc(b, ')');
}

static char *drawing(const struct sonde_tree *t)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 64 << 20);
    draw(&b, t, 0);
    char *text = sonde_buf_take(&b);
    assert_non_null(text);
    return text;
}

static void check_drawing(const char *name, const struct sonde_tree *t, const char *expected)
{
    char *text = drawing(t);
    if (strcmp(text, expected) != 0) fail_msg("%s: %s\nexpected %s", name, text, expected);
    sonde__free(text);
}

static void check_same(const struct sonde_tree *a, const struct sonde_tree *b)
{
    char *expected = drawing(b);
    check_drawing("trees differ", a, expected);
    sonde__free(expected);
    assert_int_equal(a->inverted, b->inverted);
    assert_int_equal(a->truncated, b->truncated);
    assert_int_equal(a->base_total, b->base_total);
}

/* Many stacks of many widths, some of them truncated, with functions that repeat on a stack. */
static struct sonde_profile *create_many(uint64_t seed)
{
    struct sonde_profile *p = create();
    for (int i = 0; i < 2000; i++) {
        char text[80];
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const unsigned r = (unsigned)(seed >> 36);
        int n = snprintf(text, sizeof(text), "%sm%u", r % 29 ? "" : "~", r % 3);
        for (unsigned k = 0, rest = r / 3; k < 2 + r % 6; k++, rest /= 5) {
            n += snprintf(text + n, sizeof(text) - (size_t)n, ";f%u", rest % (3 + 2 * k));
        }
        snprintf(text + n, sizeof(text) - (size_t)n, " %u", 1 + (unsigned)(seed >> 33) % 997);
        add(p, text);
    }
    return p;
}

/* ---- Recursion ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    const char *samples[5];
    const char *folded;
} folds[] = {
    { "nothing to fold", { "main;f;g 3", "main;h 2" },
      "all 5/0#2(main 5/0#2(f 3/0#1(g 3/3#1) h 2/2#1))" },
    { "direct", { "main;f;f;f 3", "main;f 2", "main;f;f;g 4" },
      "all 9/0#3(main 9/0#3(f 9/5#3(g 4/4#1)))" },
    { "mutual: what is between is left out, but for what ends there",
      { "main;f;g;f;h 3", "main;f;g 2", "main;f;g;f 1" },
      "all 6/0#3(main 6/0#3(f 6/1#3(g 2/2#1 h 3/3#1)))" },
    { "the outermost stands for all", { "a;b;c;a;b;c;d 7" },
      "all 7/0#1(a 7/0#1(b 7/0#1(c 7/0#1(d 7/7#1))))" },
    { "not what was not called by itself", { "main;f;g 1", "main;g;f 2" },
      "all 3/0#2(main 3/0#2(f 1/0#1(g 1/1#1) g 2/0#1(f 2/2#1)))" },
    { "truncated stays in front", { "~f;g;f;h 2" },
      "all 2/0#1([truncated] 2/0#1(f 2/0#1(h 2/2#1)))" },
};

static void recursion_is_folded(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(folds); i++) {
        struct sonde_profile *p = create();
        for (size_t k = 0; k < COUNT(folds[i].samples) && folds[i].samples[k]; k++) {
            add(p, folds[i].samples[k]);
        }
        struct sonde_tree *t = build(p, 0, 0), *folded, *again;
        assert_int_equal(sonde_tree_fold(t, &folded), 0);
        check_drawing(folds[i].name, folded, folds[i].folded);
        assert_int_equal(sonde_tree_fold(folded, &again), 0);
        check_same(again, folded);
        sonde_tree_destroy(again);
        sonde_tree_destroy(folded);
        sonde_tree_destroy(t);
        sonde_profile_destroy(p);
    }
}

/* A function under a thread of the same name was not called by itself. */
static void threads_are_not_folded(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    const struct sonde_tree_options o = { .by_thread = 1 };
    struct sonde_tree *t, *folded;
    assert_int_equal(build_sample(p, "f;g;f", 3, sonde_profile_thread(p, 1, 1, "f"), 0), 0);
    assert_int_equal(sonde_tree_build(p, &any, &o, &t, NULL), 0);
    assert_int_equal(sonde_tree_fold(t, &folded), 0);
    check_drawing("thread", folded, "all 3/0#1(f 3/0#1(f 3/3#1))");
    sonde_tree_destroy(folded);
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

/* Work is that of the nodes, not of their depth squared: then this would not end within a test's
 * time. The deepest stack that a profile takes, of inlined functions, each another one; then the
 * first again. */
static void deep_stacks_are_folded(void **state)
{
    (void)state;
    enum { LOCATIONS = SONDE_PROFILE_DEPTH_MAX - 3, INLINED = 8 };
    struct sonde_profile *p = create();
    struct sonde_profile_line lines[INLINED];
    struct sonde_tree *t, *folded;
    uint32_t stack = 0, first = 0;
    for (uint32_t i = 0; i < LOCATIONS; i++) {
        for (uint32_t k = 0; k < INLINED; k++) {
            char name[32];
            snprintf(name, sizeof(name), "f%u", i * INLINED + INLINED - k - 1);
            lines[k] = (struct sonde_profile_line){
                sonde_profile_function(p, &(struct sonde_profile_function){
                                              .name = sonde_profile_cstring(p, name) }), 0 };
        }
        stack = sonde_profile_stack(p, stack,
                                    sonde_profile_lines_location(p, 0, i + 1, lines, INLINED));
        if (!i) first = lines[INLINED - 1].function;
    }
    struct sonde_profile_sample s = { .stack = stack, .weight = 1, .count = 1 };
    assert_int_equal(sonde_profile_add_sample(p, &s), 0);
    const struct sonde_profile_line again = { first, 0 };
    s.stack = sonde_profile_stack(p, stack, sonde_profile_lines_location(p, 0, 0, &again, 1));
    s.stack = sonde_profile_stack(p, s.stack, sonde_profile_named_location(p, "leaf", 4));
    assert_int_equal(sonde_profile_add_sample(p, &s), 0);
    t = build(p, 0, 0);
    assert_int_equal(t->depth_max, LOCATIONS * INLINED + 2);
    assert_int_equal(sonde_tree_fold(t, &folded), 0);
    assert_int_equal(folded->node_count, 1 + LOCATIONS * INLINED + 1);
    assert_int_equal(folded->depth_max, LOCATIONS * INLINED);
    const struct sonde_tree_path way = { (const char *const[]){ "f0", "leaf" }, 2 };
    size_t found;
    const uint32_t leaf = sonde_tree_find(folded, &way, &found);
    assert_int_equal(found, 2);
    assert_int_equal(folded->nodes[leaf].self, 1);
    sonde_tree_destroy(folded);
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

/* The difference of folded trees is the folded difference. */
static void differences_fold_alike(void **state)
{
    (void)state;
    struct sonde_profile *p[2] = { create_many(3), create_many(4) };
    struct sonde_tree *t[2], *folded[2], *diff, *of_folded, *of_diff;
    for (int i = 0; i < 2; i++) {
        t[i] = build(p[i], 0, 0);
        assert_int_equal(sonde_tree_fold(t[i], &folded[i]), 0);
        assert_int_equal(folded[i]->nodes[0].total, t[i]->nodes[0].total);
        assert_true(folded[i]->node_count < t[i]->node_count);
    }
    assert_int_equal(sonde_tree_diff(t[0], t[1], &diff), 0);
    assert_int_equal(sonde_tree_diff(folded[0], folded[1], &of_folded), 0);
    assert_int_equal(sonde_tree_fold(diff, &of_diff), 0);
    check_same(of_diff, of_folded);
    sonde_tree_destroy(of_diff);
    sonde_tree_destroy(of_folded);
    sonde_tree_destroy(diff);
    for (int i = 0; i < 2; i++) {
        sonde_tree_destroy(folded[i]);
        sonde_tree_destroy(t[i]);
        sonde_profile_destroy(p[i]);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- The leaf first -------------------------------------------------------------------------- */

static void inverting_is_building_inverted(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 6; seed++) {
        struct sonde_profile *p = create_many(seed);
        struct sonde_tree *t = build(p, 0, 0), *expected = build(p, 1, 0), *inverted;
        assert_int_equal(sonde_tree_invert(t, 0, &nowhere, &inverted), 0);
        check_same(inverted, expected);
        sonde_tree_destroy(inverted);
        sonde_tree_destroy(expected);
        sonde_tree_destroy(t);
        sonde_profile_destroy(p);
    }
}

static void differences_invert_alike(void **state)
{
    (void)state;
    struct sonde_profile *p[2] = { create_many(5), create_many(6) };
    struct sonde_tree *t[2], *back[2], *diff, *expected, *inverted;
    for (int i = 0; i < 2; i++) {
        t[i] = build(p[i], 0, 0);
        back[i] = build(p[i], 1, 0);
    }
    assert_int_equal(sonde_tree_diff(t[0], t[1], &diff), 0);
    assert_int_equal(sonde_tree_diff(back[0], back[1], &expected), 0);
    assert_int_equal(sonde_tree_invert(diff, 0, &nowhere, &inverted), 0);
    check_same(inverted, expected);
    sonde_tree_destroy(inverted);
    sonde_tree_destroy(expected);
    sonde_tree_destroy(diff);
    for (int i = 0; i < 2; i++) {
        sonde_tree_destroy(t[i]);
        sonde_tree_destroy(back[i]);
        sonde_profile_destroy(p[i]);
    }
}

/* Every node of a has the same figures in b, where its way is there too; or it may have fewer
 * children. */
static void check_part(const struct sonde_tree *a, uint32_t x, const struct sonde_tree *b,
                       uint32_t y)
{
    const struct sonde_tree_node *m = &a->nodes[x], *n = &b->nodes[y];
    uint64_t below = 0;
    assert_string_equal(m->name, n->name);
    assert_int_equal(m->total, n->total);
    assert_int_equal(m->samples, n->samples);
    for (uint32_t c = m->first_child; c; c = a->nodes[c].next) {
        const struct sonde_tree_path name = { &a->nodes[c].name, 1 };
        uint32_t d = n->first_child;
        while (d && strcmp(b->nodes[d].name, name.names[0]) != 0) d = b->nodes[d].next;
        assert_true(d != 0);
        check_part(a, c, b, d);
        below += a->nodes[c].total;
    }
    assert_true(m->self + below <= m->total);
    if (m->first_child) assert_int_equal(m->self, n->self);
}

/* All that are at least so wide, in a tree that was cut. */
static uint32_t count_wide(const struct sonde_tree *t, double share)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->node_count; i++) {
        count += (double)t->nodes[i].total > share * (double)t->nodes[0].total;
    }
    return count;
}

static void the_widest_are_inverted(void **state)
{
    (void)state;
    static const uint32_t most[] = { 1, 2, 10, 100, 1000, 1000000 };
    struct sonde_profile *p = create_many(9);
    struct sonde_tree *t = build(p, 0, 0), *whole = build(p, 1, 0), *cut;
    for (size_t i = 0; i < COUNT(most); i++) {
        assert_int_equal(sonde_tree_invert(t, most[i], &nowhere, &cut), 0);
        check_part(cut, 0, whole, 0);
        assert_int_equal(count_wide(cut, cut->min_share), count_wide(whole, cut->min_share));
        assert_true(cut->node_count >= most[i] || cut->node_count == whole->node_count);
        sonde_tree_destroy(cut);
    }
    sonde_tree_destroy(t);
    sonde_tree_destroy(whole);
    sonde_profile_destroy(p);
}

/* ---- A part ---------------------------------------------------------------------------------- */

/* The way to a node of t. */
static struct sonde_tree_path way_to(const struct sonde_tree *t, uint32_t node, const char **names)
{
    const uint32_t depth = t->nodes[node].depth;
    for (uint32_t at = node; at; at = t->nodes[at].parent) {
        names[t->nodes[at].depth - 1] = t->nodes[at].name;
    }
    return (struct sonde_tree_path){ names, depth };
}

/* What is below node x of a is that below y of b, completely. */
static void check_below(const struct sonde_tree *a, uint32_t x, const struct sonde_tree *b,
                        uint32_t y)
{
    struct sonde_buf drawn[2];
    sonde_buf_init(&drawn[0], 1 << 20);
    sonde_buf_init(&drawn[1], 1 << 20);
    draw(&drawn[0], a, x);
    draw(&drawn[1], b, y);
    assert_string_equal(drawn[0].data, drawn[1].data);
    sonde_buf_release(&drawn[0]);
    sonde_buf_release(&drawn[1]);
}

static void a_part_has_the_figures_of_the_whole(void **state)
{
    (void)state;
    struct sonde_profile *p = create_many(11);
    struct sonde_tree *whole = build(p, 0, 0), *back = build(p, 1, 0), *part;
    const char *names[32];
    size_t found;
    for (uint32_t node = 0; node < whole->node_count; node += 7) {
        const struct sonde_tree_options o = { .nodes_max = node % 2 ? 5 : 0 };
        const struct sonde_tree_path way = way_to(whole, node, names);
        assert_int_equal(sonde_tree_build_under(p, &any, &o, &way, &found, &part, NULL), 0);
        assert_int_equal(found, way.count);
        check_part(part, 0, whole, 0);
        const uint32_t at = sonde_tree_find(part, &way, &found);
        assert_int_equal(found, way.count);
        if (!o.nodes_max) check_below(part, at, whole, node);
        assert_int_equal(part->nodes[0].total, whole->nodes[0].total);
        assert_int_equal(part->truncated, whole->truncated);
        sonde_tree_destroy(part);
    }
    for (uint32_t node = 0; node < back->node_count; node += 5) {
        const struct sonde_tree_path way = way_to(back, node, names);
        assert_int_equal(sonde_tree_invert(whole, node % 2 ? 5 : 0, &way, &part), 0);
        check_part(part, 0, back, 0);
        const uint32_t at = sonde_tree_find(part, &way, &found);
        assert_int_equal(found, way.count);
        if (node % 2 == 0) check_below(part, at, back, node);
        sonde_tree_destroy(part);
    }
    sonde_tree_destroy(whole);
    sonde_tree_destroy(back);
    sonde_profile_destroy(p);
}

/* A way that ends early is followed as far as it goes. */
static void ways_that_end(void **state)
{
    (void)state;
    static const struct {
        const char *names[4];
        size_t count, found;
        const char *part, *inverted;
    } cases[] = {
        { { "main", "b", "nobody" }, 3, 2, "all 15/0#3(main 14/4#2(b 10/10#1))", NULL },
        { { "nobody" }, 1, 0,
          "all 15/0#3([truncated] 1/0#1(b 1/1#1) main 14/4#2(b 10/10#1))", NULL },
        { { "[truncated]", "nobody" }, 2, 1, "all 15/0#3([truncated] 1/0#1(b 1/1#1))", NULL },
        { { "[truncated]", "b" }, 2, 2, "all 15/0#3([truncated] 1/0#1(b 1/1#1))", NULL },
        { { "b", "nobody" }, 2, 1, NULL, "all 15/0#3(b 11/0#2([truncated] 1/1#1 main 10/10#1))" },
    };
    struct sonde_profile *p = create();
    add(p, "main;b 10");
    add(p, "main 4");
    add(p, "~b 1");
    struct sonde_tree *t = build(p, 0, 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct sonde_tree_path way = { cases[i].names, cases[i].count };
        struct sonde_tree *part;
        size_t found = 99;
        if (cases[i].part) {
            assert_int_equal(sonde_tree_build_under(p, &any, &(struct sonde_tree_options){ 0 },
                                                    &way, &found, &part, NULL), 0);
        } else {
            assert_int_equal(sonde_tree_invert(t, 0, &way, &part), 0);
            sonde_tree_find(part, &way, &found);
        }
        assert_int_equal(found, cases[i].found);
        check_drawing(cases[i].names[0], part, cases[i].part ? cases[i].part : cases[i].inverted);
        sonde_tree_destroy(part);
    }
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

/* Inlined functions are frames of one location: a way may end between two. */
static void ways_into_inlined_functions(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    struct sonde_profile_line lines[3];
    static const char *const texts[] = { "inner", "middle", "outer" };
    for (int i = 0; i < 3; i++) {
        lines[i] = (struct sonde_profile_line){
            sonde_profile_function(p, &(struct sonde_profile_function){
                                          .name = sonde_profile_cstring(p, texts[i]) }), 0 };
    }
    const uint32_t at = sonde_profile_lines_location(p, 0, 0x10, lines, 3);
    const uint32_t leaf = sonde_profile_stack(p, sonde_profile_stack(p, 0, at),
                                              sonde_profile_named_location(p, "leaf", 4));
    sonde_profile_add_sample(p, &(struct sonde_profile_sample){ .stack = leaf, .weight = 3,
                                                                .count = 1 });
    add(p, "outer;other 5");
    const struct sonde_tree_path way = { (const char *const[]){ "outer", "middle" }, 2 };
    struct sonde_tree *part;
    size_t found;
    assert_int_equal(sonde_tree_build_under(p, &any, &(struct sonde_tree_options){ 0 }, &way,
                                            &found, &part, NULL), 0);
    assert_int_equal(found, 2);
    check_drawing("part", part, "all 8/0#2(outer 8/0#2(middle 3/0#1(inner 3/0#1(leaf 3/3#1))))");
    sonde_tree_destroy(part);
    sonde_profile_destroy(p);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    struct sonde_profile *p = create_many(13);
    struct sonde_tree *t = build(p, 0, 0);
    const int64_t live = sonde__alloc_live();
    const struct sonde_tree_path way = { (const char *const[]){ "m1", "f1" }, 2 };
    const struct sonde_tree_path back = { (const char *const[]){ "f1" }, 1 };
    for (int what = 0; what < 3; what++) {
        int rc = SONDE_ENOMEM;
        for (uint64_t nth = 1; rc && nth < 500; nth++) {
            struct sonde_tree *out = NULL;
            size_t found = 0;
            sonde__alloc_fail_nth(nth);
            if (what == 0) {
                rc = sonde_tree_fold(t, &out);
            } else if (what == 1) {
                rc = sonde_tree_invert(t, 100, &back, &out);
            } else {
                rc = sonde_tree_build_under(p, &any,
                                            &(struct sonde_tree_options){ .nodes_max = 50 },
                                            &way, &found, &out, NULL);
            }
            sonde__alloc_fail_nth(0);
            assert_true(rc == 0 || rc == SONDE_ENOMEM);
            assert_int_equal(out != NULL, rc == 0);
            sonde_tree_destroy(out);
            assert_int_equal(sonde__alloc_live(), live);
        }
        assert_int_equal(rc, 0);
    }
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recursion_is_folded),
        cmocka_unit_test(threads_are_not_folded),
        cmocka_unit_test(deep_stacks_are_folded),
        cmocka_unit_test(differences_fold_alike),
        cmocka_unit_test(inverting_is_building_inverted),
        cmocka_unit_test(differences_invert_alike),
        cmocka_unit_test(the_widest_are_inverted),
        cmocka_unit_test(a_part_has_the_figures_of_the_whole),
        cmocka_unit_test(ways_that_end),
        cmocka_unit_test(ways_into_inlined_functions),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
