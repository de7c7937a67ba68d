/* Folding: known small profiles drawn as text, diffs, flat tables, sums that are exact. */
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

static const struct sonde_profile_filter any = { .kind = -1 };

static struct sonde_profile *create(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    return p;
}

static struct sonde_tree *fold(const struct sonde_profile *p, int invert, int by_thread)
{
    struct sonde_tree *t;
    const struct sonde_tree_options o = { .invert = invert, .by_thread = by_thread };
    assert_int_equal(sonde_tree_build(p, &any, &o, &t, NULL), 0);
    return t;
}

/* "name total/self(children)" */
static void draw(struct sonde_buf *b, const struct sonde_tree *t, uint32_t node)
{
    const struct sonde_tree_node *n = &t->nodes[node];
    sonde_buf_printf(b, "%s %d/%d", n->name, (int)n->total, (int)n->self);
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

static void check_drawing(const struct sonde_tree *t, const char *expected)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    draw(&b, t, 0);
    assert_string_equal(b.data, expected);
    sonde_buf_release(&b);
}

static void check_flat(const struct sonde_tree *t, const char *expected)
{
    struct sonde_flat *rows;
    size_t count;
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    assert_int_equal(sonde_tree_flat(t, &rows, &count), 0);
    for (size_t i = 0; i < count; i++) {
        sonde_buf_printf(&b, "%s%s %d/%d", i ? ", " : "", rows[i].name, (int)rows[i].self,
                         (int)rows[i].total);
    }
    assert_string_equal(b.data, expected);
    sonde_buf_release(&b);
    sonde__free(rows);
}

/* Samples as "stack weight thread-number", a '~' in front for truncated. */
static const struct {
    const char *name;
    const char *samples[6];
    const char *tree, *inverted, *by_thread, *flat;
} cases[] = {
    { "one", { "main 5" }, "all 5/0(main 5/5)", "all 5/0(main 5/5)",
      "all 5/0([unknown thread] 5/0(main 5/5))", "main 5/5" },
    { "sorted by name, self between",
      { "main;z 1", "main;b 2", "main 4", "main;b;c 8" },
      "all 15/0(main 15/4(b 10/2(c 8/8) z 1/1))",
      "all 15/0(b 2/0(main 2/2) c 8/0(b 8/0(main 8/8)) main 4/4 z 1/0(main 1/1))",
      "all 15/0([unknown thread] 15/0(main 15/4(b 10/2(c 8/8) z 1/1)))",
      "c 8/8, main 4/15, b 2/10, z 1/1" },
    { "recursion counts once",
      { "main;f;f;f 3", "main;f;g;f 4" },
      "all 7/0(main 7/0(f 7/0(f 3/0(f 3/3) g 4/0(f 4/4))))",
      "all 7/0(f 7/0(f 3/0(f 3/0(main 3/3)) g 4/0(f 4/0(main 4/4))))",
      "all 7/0([unknown thread] 7/0(main 7/0(f 7/0(f 3/0(f 3/3) g 4/0(f 4/4)))))",
      "f 7/7, main 0/7, g 0/4" },
    { "threads, by name and where names repeat",
      { "main;f 1 1", "main;f 2 2", "main;f 4 3" },
      "all 7/0(main 7/0(f 7/7))", "all 7/0(f 7/0(main 7/7))",
      "all 7/0(one 1/0(main 1/0(f 1/1)) two/102 2/0(main 2/0(f 2/2)) "
      "two/103 4/0(main 4/0(f 4/4)))",
      "f 7/7, main 0/7" },
    { "truncated stacks are apart",
      { "main;f 1", "~f;g 2", "~f 4" },
      "all 7/0([truncated] 6/0(f 6/4(g 2/2)) main 1/0(f 1/1))",
      "all 7/0(f 5/0([truncated] 4/4 main 1/1) g 2/0(f 2/0([truncated] 2/2)))",
      "all 7/0([unknown thread] 7/0([truncated] 6/0(f 6/4(g 2/2)) main 1/0(f 1/1)))",
      "f 5/7, g 2/2, main 0/1" },
};

static void fill(struct sonde_profile *p, const char *const *samples, size_t max)
{
    sonde_profile_thread(p, 100, 101, "one");
    sonde_profile_thread(p, 100, 102, "two");
    sonde_profile_thread(p, 100, 103, "two");
    for (size_t i = 0; i < max && samples[i]; i++) {
        char stack[100];
        unsigned weight, thread = 0;
        assert_true(sscanf(samples[i], "%99s %u %u", stack, &weight, &thread) >= 2);
        const char *from = stack + (*stack == '~');
        assert_int_equal(build_sample(p, from, weight, thread, 0), 0);
        if (*stack == '~') p->samples[p->samples_count - 1].flags = SONDE_SAMPLE_TRUNCATED;
    }
}

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_profile *p = create();
        fill(p, cases[i].samples, 6);
        struct sonde_tree *t = fold(p, 0, 0), *inverted = fold(p, 1, 0), *by = fold(p, 0, 1);
        sonde_profile_destroy(p); /* trees own their names */
        check_drawing(t, cases[i].tree);
        check_drawing(inverted, cases[i].inverted);
        check_drawing(by, cases[i].by_thread);
        check_flat(t, cases[i].flat);
        check_flat(inverted, cases[i].flat);
        check_flat(by, cases[i].flat);
        sonde_tree_destroy(t);
        sonde_tree_destroy(inverted);
        sonde_tree_destroy(by);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

static uint32_t symbol(struct sonde_profile *p, const char *name, uint32_t start_line)
{
    return sonde_profile_function(
        p, &(struct sonde_profile_function){ .name = sonde_profile_cstring(p, name),
                                             .file = sonde_profile_cstring(p, "a.c"),
                                             .start_line = start_line });
}

static const struct sonde_tree_node *find(const struct sonde_tree *t, const char *name)
{
    for (uint32_t i = 0; i < t->node_count; i++) {
        if (!strcmp(t->nodes[i].name, name)) return &t->nodes[i];
    }
    print_error("no node %s\n", name);
    return NULL;
}

static void test_names(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    const uint32_t lib = sonde_profile_module(
        p, &(struct sonde_profile_module){ .path = sonde_profile_cstring(p, "/usr/lib/libx.so.1"),
                                           .start = 0x7000, .end = 0x9000, .offset = 0x1000 });
    const uint32_t kernel = sonde_profile_module(
        p, &(struct sonde_profile_module){ .path = sonde_profile_cstring(p, "[kernel]"),
                                           .flags = SONDE_MODULE_KERNEL });
    const uint32_t known = sonde_profile_location(p, lib, 0x7010);
    const struct sonde_profile_line lines[] = {
        { symbol(p, "inner", 0), 12 }, { symbol(p, "middle", 5), 6 }, { symbol(p, "outer", 50), 60 }
    };
    assert_int_equal(sonde_profile_set_lines(p, known, lines, 3), 0);
    const uint32_t sys = sonde_profile_location(p, kernel, 0xffff1000);
    const struct sonde_profile_line sys_line = { symbol(p, "do_syscall", 0), 0 };
    assert_int_equal(sonde_profile_set_lines(p, sys, &sys_line, 1), 0);

    uint32_t s = sonde_profile_stack(p, 0, sonde_profile_location(p, lib, 0x7ff0));
    s = sonde_profile_stack(p, s, known);
    s = sonde_profile_stack(p, s, sonde_profile_location(p, 0, 0xabc));
    s = sonde_profile_stack(p, s, sys);
    s = sonde_profile_stack(p, s, sonde_profile_location(p, kernel, 0xffff2000));
    sonde_profile_add_sample(p, &(struct sonde_profile_sample){ .stack = s, .weight = 1,
                                                                .count = 1 });
    struct sonde_tree *t = fold(p, 0, 0);
    check_drawing(t, "all 1/0(libx.so.1+0x1ff0 1/0(outer 1/0(middle 1/0(inner 1/0(0xabc 1/0("
                     "do_syscall_[k] 1/0([kernel]+0xffff2000_[k] 1/1)))))))");
    assert_int_equal(find(t, "outer")->flags, 0);
    assert_int_equal(find(t, "outer")->line, 50);
    assert_string_equal(find(t, "outer")->module, "libx.so.1");
    assert_string_equal(find(t, "outer")->file, "a.c");
    assert_int_equal(find(t, "middle")->flags, SONDE_NODE_INLINED);
    assert_int_equal(find(t, "inner")->line, 12);
    assert_int_equal(find(t, "do_syscall_[k]")->flags, SONDE_NODE_KERNEL);
    assert_int_equal(find(t, "[kernel]+0xffff2000_[k]")->flags,
                     SONDE_NODE_KERNEL | SONDE_NODE_UNKNOWN);
    assert_int_equal(find(t, "0xabc")->flags, SONDE_NODE_UNKNOWN);
    assert_int_equal(t->depth_max, 7);
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

/* Two addresses of one function are one node, and so are their callees. */
static void test_addresses_merge(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    uint32_t leaf[2];
    for (uint64_t i = 0; i < 2; i++) {
        const uint32_t at = sonde_profile_location(p, 0, 0x100 + i);
        const struct sonde_profile_line line = { symbol(p, "f", 1), (uint32_t)i };
        assert_int_equal(sonde_profile_set_lines(p, at, &line, 1), 0);
        leaf[i] = sonde_profile_stack(p, build_stack(p, "main"), at);
        leaf[i] = sonde_profile_stack(p, leaf[i], sonde_profile_named_location(p, "g", 1));
        sonde_profile_add_sample(p, &(struct sonde_profile_sample){ .stack = leaf[i],
                                                                    .weight = 3, .count = 1 });
    }
    assert_int_not_equal(leaf[0], leaf[1]);
    struct sonde_tree *t = fold(p, 0, 0);
    check_drawing(t, "all 6/0(main 6/0(f 6/0(g 6/6)))");
    assert_int_equal(t->nodes[0].samples, 2);
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

static void test_diff(void **state)
{
    (void)state;
    struct sonde_profile *p = create(), *q = create();
    fill(p, (const char *const[]){ "main;a;x 10", "main;b 5", "old 2", NULL }, 4);
    fill(q, (const char *const[]){ "main;b 7", "main;c 1", "main;a 4", NULL }, 4);
    struct sonde_tree *before = fold(p, 0, 0), *after = fold(q, 0, 0), *d;
    assert_int_equal(sonde_tree_diff(before, after, &d), 0);
    sonde_tree_destroy(before);
    sonde_tree_destroy(after);
    assert_int_equal(d->base_total, 17);
    check_drawing(d, "all 12/0<17/0(main 12/0<15/0(a 4/4<10/0(x 0/0<10/10) b 7/7<5/5 "
                     "c 1/1<0/0) old 0/0<2/2)");
    struct sonde_flat *rows;
    size_t count;
    assert_int_equal(sonde_tree_flat(d, &rows, &count), 0);
    assert_int_equal(count, 6);
    assert_string_equal(rows[0].name, "b");
    assert_int_equal(rows[0].base_self, 5);
    assert_string_equal(rows[1].name, "a");
    assert_int_equal(rows[1].base_total, 10);
    sonde__free(rows);
    sonde_tree_destroy(d);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

/* What is too small has no node; its weight stays where it was called from. */
static void test_min_share(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    struct sonde_tree *t;
    fill(p, (const char *const[]){ "main;a;x 60", "main;a;y;z 5", "main;b 4", "main 31", NULL }, 5);
    const struct sonde_tree_options o = { .min_share = 0.05 };
    assert_int_equal(sonde_tree_build(p, &any, &o, &t, NULL), 0);
    check_drawing(t, "all 100/0(main 100/31(a 65/0(x 60/60 y 5/0(z 5/5))))");
    assert_int_equal(t->nodes[0].samples, 4);
    sonde_tree_destroy(t);
    const struct sonde_tree_options more = { .min_share = 0.06, .by_thread = 1 };
    assert_int_equal(sonde_tree_build(p, &any, &more, &t, NULL), 0);
    check_drawing(t, "all 100/0([unknown thread] 100/0(main 100/31(a 65/0(x 60/60))))");
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

/* With functions the flat table knows what has no node: nested in kept and in left out callers,
 * recursive, and that a caller's own samples are its own. */
static void test_pruned_functions(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    struct sonde_tree *t;
    struct sonde_flat *rows;
    size_t count;
    fill(p, (const char *const[]){ "main;a 80", "main;b;c;b 3", "main;b;a 2", "main;b;c 1",
                                   "main 14", NULL }, 6);
    const struct sonde_tree_options o = { .min_share = 0.1, .functions = 1 };
    assert_int_equal(sonde_tree_build(p, &any, &o, &t, NULL), 0);
    check_drawing(t, "all 100/0(main 100/14(a 80/80))");
    check_flat(t, "a 82/82, main 14/100, b 3/6, c 1/4");
    assert_int_equal(sonde_tree_flat(t, &rows, &count), 0);
    for (size_t i = 0; i < count; i++) {
        const uint64_t self_samples[] = { 2, 1, 1, 1 }, samples[] = { 2, 5, 3, 2 };
        assert_int_equal(rows[i].self_samples, self_samples[i]);
        assert_int_equal(rows[i].samples, samples[i]);
    }
    sonde__free(rows);
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

/* Inlined functions below what is pruned count too, each once a stack. */
static void test_pruned_inlined(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    struct sonde_tree *t;
    build_sample(p, "main;big", 95, 0, 0);
    struct sonde_profile_line lines[3] = { 0 };
    const char *const names[] = { "inner", "outer", "inner" };
    for (int i = 0; i < 3; i++) {
        const struct sonde_profile_function f = { .name = sonde_profile_cstring(p, names[i]) };
        lines[i].function = sonde_profile_function(p, &f);
    }
    const uint32_t three = sonde_profile_lines_location(p, 0, 0, lines, 3);
    const uint32_t stack = sonde_profile_stack(p, build_stack(p, "main;small"), three);
    const struct sonde_profile_sample s = { .stack = stack, .weight = 5, .count = 2 };
    assert_int_equal(sonde_profile_add_sample(p, &s), 0);
    const struct sonde_tree_options o = { .min_share = 0.1, .functions = 1 };
    assert_int_equal(sonde_tree_build(p, &any, &o, &t, NULL), 0);
    check_drawing(t, "all 100/0(main 100/0(big 95/95))");
    check_flat(t, "big 95/95, inner 5/5, main 0/100, outer 0/5, small 0/5");
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
}

/* As many of the widest as asked for; small whole numbers are told apart exactly. */
static void test_nodes_max(void **state)
{
    (void)state;
    static const struct {
        uint32_t nodes_max;
        int by_thread;
        double min_share;
        const char *tree;
    } wanted[] = {
        { 7, 0, 0, "all 21/0(main 21/0(a 6/6 b 5/5 c 4/4 d 3/3 e 2/2 f 1/1))" },
        { 4, 0, 4.0 / 21, "all 21/0(main 21/0(a 6/6 b 5/5 c 4/4))" },
        { 2, 0, 6.0 / 21, "all 21/0(main 21/0(a 6/6))" },
        { 1, 0, 7.0 / 21, "all 21/0(main 21/0)" },
        { 5, 1, 4.0 / 21, "all 21/0([unknown thread] 6/0(main 6/0(a 6/6)) one 15/0(main 15/0(b 5/5 "
                          "c 4/4)))" },
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        struct sonde_profile *p = create();
        struct sonde_tree *t;
        char samples[6][16];
        const char *all[7] = { 0 };
        for (int k = 0; k < 6; k++) {
            snprintf(samples[k], sizeof(samples[k]), "main;%c %d %d", 'a' + k, 6 - k,
                     wanted[i].by_thread && k > 0);
            all[k] = samples[k];
        }
        fill(p, all, 7);
        const struct sonde_tree_options o = { .nodes_max = wanted[i].nodes_max,
                                              .by_thread = wanted[i].by_thread };
        assert_int_equal(sonde_tree_build(p, &any, &o, &t, NULL), 0);
        check_drawing(t, wanted[i].tree);
        assert_float_equal(t->min_share, wanted[i].min_share, 1e-9);
        sonde_tree_destroy(t);
        sonde_profile_destroy(p);
    }
}

static void test_share_for(void **state)
{
    (void)state;
    struct sonde_profile *p = create(), *q = create();
    fill(p, (const char *const[]){ "a 50", "b 30", "c 16", "d 4", NULL }, 5);
    fill(q, (const char *const[]){ "a 1", "d 99", NULL }, 3);
    struct sonde_tree *t = fold(p, 0, 0), *before = fold(q, 0, 0), *d;
    assert_true(sonde_tree_share_for(t, 5) == 0);
    const double three = sonde_tree_share_for(t, 3); /* all, a and b */
    assert_true(three > 0.16 && three <= 0.30);
    assert_int_equal(sonde_tree_diff(before, t, &d), 0);
    const double other = sonde_tree_share_for(d, 3); /* all, d as it was, a */
    assert_true(other > 0.30 && other <= 0.50);
    sonde_tree_destroy(d);
    sonde_tree_destroy(before);
    sonde_tree_destroy(t);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

static void test_nothing(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    struct sonde_tree *t = NULL;
    struct sonde_err err;
    const struct sonde_tree_options o = { 0 };
    assert_int_equal(sonde_tree_build(p, &any, &o, &t, &err), SONDE_ENOENT);
    assert_string_equal(err.text, "the profile has no samples");
    assert_null(t);
    sonde_profile_destroy(p);
}

/* Random profiles against sums made the slow way: nothing is lost or counted twice. */
static void test_sums_are_exact(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 50; round++) {
        struct sonde_profile *p = create();
        uint64_t sum = 0, totals[5] = { 0 }, selfs[5] = { 0 };
        for (int i = 0; i < 300; i++) {
            char text[64] = "";
            const int depth = 1 + rand() % 10;
            unsigned seen = 0;
            int name = 0;
            for (int d = 0; d < depth; d++) {
                name = rand() % 5;
                seen |= 1u << name;
                snprintf(text + 2 * d, sizeof(text) - 2 * (size_t)d, "%c;", 'a' + name);
            }
            text[2 * depth - 1] = '\0';
            const uint64_t weight = (uint64_t)rand();
            sum += weight;
            selfs[name] += weight;
            for (int n = 0; n < 5; n++) totals[n] += seen >> n & 1 ? weight : 0;
            assert_int_equal(build_sample(p, text, weight, 0, 0), 0);
        }
        for (int way = 0; way < 3; way++) { /* as it is, inverted, without small ones */
            const struct sonde_tree_options o = { .invert = way == 1, .functions = 1,
                                                  .min_share = way == 2 ? 0.01 : 0 };
            struct sonde_tree *t;
            assert_int_equal(sonde_tree_build(p, &any, &o, &t, NULL), 0);
            struct sonde_flat *rows;
            size_t count;
            assert_true(t->nodes[0].total == sum);
            assert_int_equal(t->nodes[0].samples, 300);
            assert_int_equal(sonde_tree_flat(t, &rows, &count), 0);
            assert_int_equal(count, 5);
            uint64_t self_samples = 0;
            for (size_t i = 0; i < count; i++) {
                const int n = rows[i].name[0] - 'a';
                assert_true(rows[i].total == totals[n]);
                assert_true(rows[i].self == selfs[n]);
                self_samples += rows[i].self_samples;
            }
            assert_int_equal(self_samples, 300);
            sonde__free(rows);
            sonde_tree_destroy(t);
        }
        sonde_profile_destroy(p);
    }
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    fill(p, cases[4].samples, 6);
    const int64_t live = sonde__alloc_live();
    const struct sonde_tree_options o = { .by_thread = 1, .min_share = 0.5, .functions = 1 };
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 200; nth++) {
        struct sonde_tree *t = NULL, *d = NULL;
        struct sonde_flat *rows = NULL;
        size_t count;
        sonde__alloc_fail_nth(nth);
        rc = sonde_tree_build(p, &any, &o, &t, NULL);
        if (!rc) rc = sonde_tree_diff(t, t, &d);
        if (!rc) rc = sonde_tree_flat(d, &rows, &count);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        sonde__free(rows);
        sonde_tree_destroy(d);
        sonde_tree_destroy(t);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_addresses_merge),
        cmocka_unit_test(test_diff),
        cmocka_unit_test(test_min_share),
        cmocka_unit_test(test_pruned_functions),
        cmocka_unit_test(test_pruned_inlined),
        cmocka_unit_test(test_nodes_max),
        cmocka_unit_test(test_share_for),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_sums_are_exact),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
