/* Flame graphs read back: the data is decoded and compared with the tree it came from, the edges
 * of the drawn frames with each other, and every allocation is made to fail once. */
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <jansson.h>

#include "base/alloc.h"
#include "base/array.h"
#include "present/flamegraph/private.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct stack { const char *folded; uint64_t weight; };

static struct sonde_tree *fold(const struct stack *stacks, size_t count)
{
    struct sonde_profile *p;
    struct sonde_tree *t;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(build_sample(p, stacks[i].folded, stacks[i].weight, 0, 0), 0);
    }
    assert_int_equal(sonde_tree_build(p, &(struct sonde_profile_filter){ .kind = -1 },
                                      &(struct sonde_tree_options){ 0 }, &t, NULL), 0);
    sonde_profile_destroy(p);
    return t;
}

/* Primes, so that nothing divides evenly; b and e have weight of their own. */
static const struct stack primes[] = {
    { "main;a", 7 },  { "main;b", 3 },    { "main;b;c", 11 }, { "main;b;d", 13 },
    { "main;e", 17 }, { "main;e;f", 19 }, { "main;e;f;a", 23 }, { "other;g", 2 },
};

/* A tree with many nodes of many widths. */
static struct sonde_tree *fold_many(void)
{
    static char text[3000][40];
    static struct stack stacks[3000];
    uint64_t seed = 7;
    for (size_t i = 0; i < COUNT(stacks); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const unsigned r = (unsigned)(seed >> 40);
        snprintf(text[i], sizeof(text[i]), "m%u;f%u;g%u;h%u", r % 3, r / 3 % 7, r / 21 % 31,
                 r / 651 % 101);
        stacks[i] = (struct stack){ text[i], 1 + (seed >> 33) % 9973 };
    }
    return fold(stacks, COUNT(stacks));
}

static void render(struct sonde_buf *b, const struct sonde_tree *t, int html,
                   const struct sonde_flamegraph_options *o)
{
    sonde_buf_init(b, (size_t)64 << 20);
    assert_int_equal(html ? sonde_flamegraph_html(t, o, b) : sonde_flamegraph_svg(t, o, b), 0);
}

/* The text between two marks; the caller frees it. */
static char *between(const char *s, const char *from, const char *to)
{
    const char *start = strstr(s, from);
    assert_non_null(start);
    start += strlen(from);
    const char *end = strstr(start, to);
    assert_non_null(end);
    return strndup(start, (size_t)(end - start));
}

static json_t *data_of(const struct sonde_buf *b, int html)
{
    char *text = html ? between(b->data, "id=\"sonde-data\">", "</script>")
                      : between(b->data, "<metadata class=\"sonde-data\">", "</metadata>");
    assert_null(strpbrk(text, "<>&")); /* nothing that XML or HTML could take for markup */
    json_error_t error;
    json_t *j = json_loads(text, 0, &error);
    assert_non_null(j);
    free(text);
    return j;
}

static const char *text_of(const json_t *j, const char *key)
{
    return json_string_value(json_object_get(j, key));
}

static uint64_t next_int(const char **s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 5, (*s)++) {
        const char *at = strchr(digits, **s);
        assert_true(**s && at && shift < 64);
        const uint64_t digit = (uint64_t)(at - digits);
        v |= (digit & 31) << shift;
        if (digit < 32) break;
    }
    (*s)++;
    return v;
}

struct node {
    uint32_t parent;
    const char *name;
    uint64_t self, dropped, samples, total, base_self, base_dropped;
};

/* Decode as web/src/data.ts does. Returns how many; the caller frees *out. */
static uint32_t read_nodes(const json_t *j, struct node **out)
{
    const char *frames = text_of(j, "frames");
    const char *names[256];
    size_t frame_count = 0;
    while (*frames) {
        assert_true(frame_count < COUNT(names));
        names[frame_count++] = json_string_value(
            json_array_get(json_object_get(j, "strings"), next_int(&frames)));
        for (int i = 0; i < 6; i++) next_int(&frames);
    }
    const uint64_t scale = (uint64_t)json_integer_value(json_object_get(j, "scale"));
    const int diff = json_integer_value(json_object_get(j, "baseTotal")) > 0;
    const char *s = text_of(j, "nodes");
    struct node *nodes = calloc(strlen(s), sizeof(*nodes));
    uint32_t count = 0;
    for (; *s; count++) {
        struct node *n = &nodes[count];
        uint32_t parent = count - 1;
        for (uint64_t up = next_int(&s); up; up--) parent = nodes[parent].parent;
        const uint64_t frame = next_int(&s);
        assert_true(frame < frame_count);
        *n = (struct node){ .parent = parent, .name = names[frame], .self = next_int(&s) * scale };
        n->dropped = next_int(&s) * scale;
        n->samples = next_int(&s);
        n->total = n->self + n->dropped;
        if (diff) n->base_self = next_int(&s) * scale;
        if (diff) n->base_dropped = next_int(&s) * scale;
    }
    for (uint32_t i = count - 1; i; i--) {
        nodes[nodes[i].parent].total += nodes[i].total;
        nodes[nodes[i].parent].samples += nodes[i].samples;
    }
    *out = nodes;
    return count;
}

/* Every node of the tree, or what was kept of it, is in the data with its weights. */
static void check_against_tree(const struct sonde_tree *t, const struct node *nodes,
                               uint32_t count, double min_width)
{
    uint32_t expected = 0;
    for (uint32_t i = 0; i < t->node_count; i++) {
        expected += (double)t->nodes[i].total >= min_width * (double)t->nodes[0].total;
    }
    assert_int_equal(count, expected);
    uint32_t *map = calloc(count, sizeof(*map)); /* data -> tree */
    for (uint32_t i = 1; i < count; i++) {
        uint32_t c = t->nodes[map[nodes[i].parent]].first_child;
        while (c && strcmp(t->nodes[c].name, nodes[i].name) != 0) c = t->nodes[c].next;
        assert_true(c != 0);
        map[i] = c;
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(nodes[i].total, t->nodes[map[i]].total);
        assert_int_equal(nodes[i].self, t->nodes[map[i]].self);
        assert_int_equal(nodes[i].samples, t->nodes[map[i]].samples);
    }
    free(map);
}

static void data_is_the_tree(void **state)
{
    (void)state;
    static const double widths[] = { -1, 0.001, 0.01, 0.2, 0.999 };
    struct sonde_tree *trees[] = { fold(primes, COUNT(primes)), fold_many() };
    for (size_t i = 0; i < COUNT(trees); i++) {
        for (size_t w = 0; w < COUNT(widths); w++) {
            for (int html = 0; html < 2; html++) {
                struct sonde_buf b;
                struct node *nodes;
                render(&b, trees[i], html,
                       &(struct sonde_flamegraph_options){ .min_width = widths[w] });
                json_t *j = data_of(&b, html);
                const uint32_t count = read_nodes(j, &nodes);
                check_against_tree(trees[i], nodes, count, widths[w]);
                free(nodes);
                json_decref(j);
                sonde_buf_release(&b);
            }
        }
        sonde_tree_destroy(trees[i]);
    }
}

/* Default widths: 0.1 % in an SVG, everything in a small HTML. */
static void default_widths(void **state)
{
    (void)state;
    struct sonde_tree *t = fold_many();
    for (int html = 0; html < 2; html++) {
        struct sonde_buf b;
        struct node *nodes;
        render(&b, t, html, NULL);
        json_t *j = data_of(&b, html);
        const uint32_t count = read_nodes(j, &nodes);
        check_against_tree(t, nodes, count, html ? 0 : 0.001);
        assert_true(html ? count == t->node_count : count < t->node_count);
        free(nodes);
        json_decref(j);
        sonde_buf_release(&b);
    }
    sonde_tree_destroy(t);
}

/* When there are too many frames for a file, the widest are kept. */
static void widest_frames(void **state)
{
    (void)state;
    struct sonde_tree *t = fold_many();
    static const uint32_t most[] = { 1, 2, 5, 50, 500, 2000, 100000 };
    for (size_t i = 0; i < COUNT(most); i++) {
        struct sonde_flame f;
        assert_int_equal(sonde_flame_init(&f, t, 0, most[i]), 0);
        assert_true(f.node_count >= 1 && f.node_count <= most[i]);
        assert_true(f.node_count * 2 > most[i] || most[i] < 5 || f.node_count == t->node_count);
        uint32_t wide = 0;
        for (uint32_t n = 0; n < t->node_count; n++) {
            wide += (double)t->nodes[n].total >= f.min_width * (double)t->nodes[0].total;
        }
        assert_int_equal(f.node_count, wide);
        sonde_flame_release(&f);
    }
    sonde_tree_destroy(t);
}

/* What is below a node, as wide as it is in the whole, with callers that have nothing else. */
static void part_of_a_tree(void **state)
{
    (void)state;
    struct sonde_tree *t = fold_many();
    static const uint32_t most[] = { 1, 5, 50, 100000 };
    for (uint32_t under = 0; under < t->node_count; under += 97) {
        for (size_t i = 0; i < COUNT(most); i++) {
            struct sonde_flame f;
            const uint32_t depth = t->nodes[under].depth;
            assert_int_equal(sonde_flame_init_under(&f, t, 0, most[i], under), 0);
            assert_true(f.node_count > depth && f.node_count <= depth + most[i]);
            assert_int_equal(f.nodes[depth].node, under);
            for (uint32_t n = 0; n < f.node_count; n++) {
                const struct sonde_tree_node *of = &t->nodes[f.nodes[n].node];
                uint64_t below = 0;
                for (uint32_t c = n + 1; c < f.node_count; c++) {
                    if (f.nodes[c].parent == n) below += f.nodes[c].total;
                }
                assert_int_equal(f.nodes[n].total, of->total);
                assert_int_equal(f.nodes[n].self, of->self);
                assert_int_equal(f.nodes[n].self + f.nodes[n].dropped + below, of->total);
            }
            sonde_flame_release(&f);
        }
    }
    sonde_tree_destroy(t);
}

/* ---- The drawn frames ------------------------------------------------------------------------ */

struct rect { long x0, x1, y; }; /* hundredths of a pixel */

static long hundredths(char **s)
{
    const double v = strtod(*s, s);
    return (long)(v * 100 + 0.5);
}

static int by_row(const void *a, const void *b)
{
    const struct rect *x = a, *y = b;
    if (x->y != y->y) return x->y < y->y ? 1 : -1; /* the root's row first */
    if (x->x0 != y->x0) return x->x0 < y->x0 ? -1 : 1;
    return x->x1 < y->x1 ? -1 : x->x1 > y->x1; /* some are narrower than a hundredth */
}

static size_t read_rects(const char *svg, struct rect **out)
{
    struct rect *rects = calloc(strlen(svg) / 8, sizeof(*rects));
    size_t count = 0;
    for (const char *path = svg; (path = strstr(path, " d=\"M")) != NULL;) {
        char *s = (char *)path + 4;
        while (*s == 'M') {
            struct rect *r = &rects[count++];
            s++;
            r->x0 = hundredths(&s);
            r->y = hundredths(&s);
            assert_int_equal(*s++, 'H');
            r->x1 = hundredths(&s);
            assert_memory_equal(s, "v17H", 4);
            s += 4;
            assert_int_equal(hundredths(&s), r->x0);
            assert_int_equal(*s++, 'z');
        }
        path = s;
    }
    qsort(rects, count, sizeof(*rects), by_row);
    *out = rects;
    return count;
}

/* Frames of a row do not overlap, each is within a frame of the row below, and the picture is as
 * wide as it says. */
static void edges_meet(void **state)
{
    (void)state;
    struct sonde_tree *t = fold_many();
    struct sonde_buf b;
    struct rect *rects;
    render(&b, t, 0, &(struct sonde_flamegraph_options){ .min_width = -1 });
    const size_t count = read_rects(b.data, &rects);
    assert_int_equal(count, t->node_count);
    assert_int_equal(rects[0].x0, 0);
    assert_int_equal(rects[0].x1, 117600);
    for (size_t i = 1; i < count; i++) {
        const struct rect *r = &rects[i];
        if (rects[i - 1].y == r->y) assert_true(rects[i - 1].x1 <= r->x0);
        size_t under = 0;
        while (under < i && !(rects[under].y == r->y + 1800 && rects[under].x0 <= r->x0 &&
                              rects[under].x1 >= r->x1)) {
            under++;
        }
        assert_true(under < i);
    }
    free(rects);
    sonde_buf_release(&b);
    sonde_tree_destroy(t);
}

/* No caller has weight of its own here: each row is filled from edge to edge, without a gap. */
static void rows_are_full(void **state)
{
    (void)state;
    static const struct stack even[] = {
        { "a;b;c", 1 }, { "a;b;d", 1 }, { "a;e;f", 1 }, { "g;h;i", 1 }, { "g;j;k", 1 },
        { "g;j;l", 2 }, { "m;n;o", 3 },
    };
    struct sonde_tree *t = fold(even, COUNT(even));
    for (int icicle = 0; icicle < 2; icicle++) {
        struct sonde_buf b;
        struct rect *rects;
        render(&b, t, 0, &(struct sonde_flamegraph_options){ .icicle = icicle });
        const size_t count = read_rects(b.data, &rects);
        assert_int_equal(count, t->node_count);
        for (size_t i = 0; i < count; i++) {
            const int first = i == 0 || rects[i - 1].y != rects[i].y;
            assert_int_equal(rects[i].x0, first ? 0 : rects[i - 1].x1);
            if (i + 1 == count || rects[i + 1].y != rects[i].y) {
                assert_int_equal(rects[i].x1, 117600);
            }
        }
        /* The root is alone in its row: at the bottom, or on top. */
        assert_int_equal(rects[icicle ? count - 1 : 0].x1, 117600);
        free(rects);
        sonde_buf_release(&b);
    }
    sonde_tree_destroy(t);
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void names_are_text(void **state)
{
    (void)state;
    static const struct { const char *name, *xml, *json; } cases[] = {
        { "operator<<", "operator&lt;&lt;", "operator<<" },
        { "a&b\"c", "a&amp;b&quot;c", "a&b\"c" },
        { "it's", "it&#39;s", "it's" },
        { "</script>", "&lt;/script&gt;", "</script>" },
        { "</metadata>", "&lt;/metadata&gt;", "</metadata>" },
        { "]]>", "]]&gt;", "]]>" },
        { "back\\slash", "back\\slash", "back\\slash" },
        { "bell\a", "bell␇", "bell␇" },
        { "line\nend\r", "line␊end␍", "line␊end␍" },
        { "bad\xff\xc3", "bad��", "bad��" },
        { "\xef\xbf\xbf", "�", "�" },         /* U+FFFF: not allowed in XML */
        { "\xe2\x80\xae" "rtl", "�rtl", "�rtl" }, /* would turn the line around */
        { "日本語", "日本語", "日本語" },
        { "%s%n", "%s%n", "%s%n" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct stack one = { cases[i].name, 5 };
        struct sonde_tree *t = fold(&one, 1);
        for (int html = 0; html < 2; html++) {
            struct sonde_buf b;
            const struct sonde_flamegraph_options o = { .title = cases[i].name,
                                                        .subtitle = cases[i].name };
            char wanted[200];
            render(&b, t, html, &o);
            snprintf(wanted, sizeof(wanted), "<title>%s</title>", cases[i].xml);
            assert_non_null(strstr(b.data, wanted));
            if (!html) {
                snprintf(wanted, sizeof(wanted), ">%s</text>", cases[i].xml);
                const char *title = strstr(b.data, wanted), *subtitle, *frame;
                assert_non_null(title);
                subtitle = strstr(title + 1, wanted);
                assert_non_null(subtitle);
                frame = strstr(subtitle + 1, wanted);
                assert_non_null(frame);
            }
            json_t *j = data_of(&b, html);
            struct node *nodes;
            assert_int_equal(read_nodes(j, &nodes), 2);
            assert_string_equal(nodes[1].name, cases[i].json);
            assert_string_equal(text_of(j, "title"), cases[i].json);
            assert_string_equal(text_of(j, "subtitle"), cases[i].json);
            free(nodes);
            json_decref(j);
            sonde_buf_release(&b);
        }
        sonde_tree_destroy(t);
    }
}

/* A label that does not fit ends with an ellipsis; one that has no room is not there. */
static void labels_are_cut(void **state)
{
    (void)state;
    char name[601];
    memset(name, 'x', 600);
    name[600] = 0;
    const struct stack stacks[] = { { name, 1000 }, { "tiny", 2 } };
    struct sonde_tree *t = fold(stacks, COUNT(stacks));
    struct sonde_buf b;
    render(&b, t, 0, NULL);
    assert_null(strstr(b.data, ">tiny</text>"));
    char *label = between(b.data, ">xxx", "</text>");
    assert_true(strlen(label) > 100 && strlen(label) < 200);
    assert_non_null(strstr(label, "x…"));
    free(label);
    sonde_buf_release(&b);
    sonde_tree_destroy(t);
}

/* ---- Colours --------------------------------------------------------------------------------- */

/* Pinned: pictures of two versions can be compared side by side. */
static void colors_are_stable(void **state)
{
    (void)state;
    static const struct { const char *name; uint32_t flags; uint8_t color; } cases[] = {
        { "main", 0, 29 },
        { "malloc", 0, 4 },
        { "malloc", SONDE_NODE_INLINED, 4 },
        { "tcp_sendmsg_[k]", SONDE_NODE_KERNEL, SONDE_FLAME_KERNEL + 3 },
        { "libc.so.6+0x1234", SONDE_NODE_UNKNOWN, SONDE_FLAME_UNKNOWN },
        { "[truncated]", SONDE_NODE_TRUNCATED, SONDE_FLAME_UNKNOWN },
        { "", 0, SONDE_FLAME_UNKNOWN },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const uint8_t color = sonde_flame_color_index(cases[i].name, cases[i].flags);
        assert_int_equal(color, cases[i].color);
    }
    assert_int_equal(sonde_flame_color(SONDE_FLAMEGRAPH_HOT, 0, 0), 0xfa8f81);
}

static double luminance(uint32_t rgb)
{
    double sum = 0;
    static const double weights[] = { 0.0722, 0.7152, 0.2126 };
    for (int i = 0; i < 3; i++, rgb >>= 8) {
        const double c = (rgb & 255) / 255.0;
        sum += weights[i] * (c <= 0.04045 ? c / 12.92 : __builtin_pow((c + 0.055) / 1.055, 2.4));
    }
    return sum;
}

static double contrast(uint32_t a, uint32_t b)
{
    const double x = luminance(a), y = luminance(b);
    return x > y ? (x + 0.05) / (y + 0.05) : (y + 0.05) / (x + 0.05);
}

/* Text on every colour has the contrast that WCAG asks of small text. */
static void text_is_readable(void **state)
{
    (void)state;
    for (int dark = 0; dark < 2; dark++) {
        const uint32_t ink = dark ? 0xf0f3f6 : 0x1f2328;
        for (int s = 0; s < SONDE_FLAMEGRAPH_COLORS_COUNT; s++) {
            for (int i = 0; i < SONDE_FLAME_PALETTE; i++) {
                const uint32_t c = sonde_flame_color((enum sonde_flamegraph_colors)s, i, dark);
                assert_true(contrast(c, ink) >= 4.5);
            }
        }
        for (int l = -SONDE_FLAME_LEVELS; l <= SONDE_FLAME_LEVELS; l++) {
            assert_true(contrast(sonde_flame_diff_color(l, dark), ink) >= 4.5);
        }
    }
}

/* ---- Kinds of code, also for who sees fewer hues --------------------------------------------- */

struct lab { double v[3]; };

/* What is seen with one kind of cones missing (Machado, Oliveira and Fernandes, 2009), in OKLab. */
static struct lab seen_as(uint32_t rgb, const double sight[3][3])
{
    double linear[3], seen[3];
    for (int i = 0; i < 3; i++) {
        const double c = (rgb >> (16 - 8 * i) & 255) / 255.0;
        linear[i] = c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
    }
    for (int i = 0; i < 3; i++) {
        seen[i] = sight[i][0] * linear[0] + sight[i][1] * linear[1] + sight[i][2] * linear[2];
        seen[i] = fmin(fmax(seen[i], 0), 1);
    }
    const double l = cbrt(0.4122214708 * seen[0] + 0.5363325363 * seen[1] + 0.0514459929 * seen[2]);
    const double m = cbrt(0.2119034982 * seen[0] + 0.6806995451 * seen[1] + 0.1073969566 * seen[2]);
    const double s = cbrt(0.0883024619 * seen[0] + 0.2817188376 * seen[1] + 0.6299787005 * seen[2]);
    return (struct lab){ { 0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
                           1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
                           0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s } };
}

/* The least distance of any colour from a to any from b. */
static double least_distance(int a, int a_count, int b, int b_count, int dark,
                             const double sight[3][3])
{
    double least = 1;
    for (int i = a; i < a + a_count; i++) {
        const struct lab x = seen_as(sonde_flame_color(SONDE_FLAMEGRAPH_HOT, i, dark), sight);
        for (int k = b; k < b + b_count; k++) {
            const struct lab y = seen_as(sonde_flame_color(SONDE_FLAMEGRAPH_HOT, k, dark), sight);
            least = fmin(least, sqrt(pow(x.v[0] - y.v[0], 2) + pow(x.v[1] - y.v[1], 2) +
                                     pow(x.v[2] - y.v[2], 2)));
        }
    }
    return least;
}

static void kinds_differ_for_all_eyes(void **state)
{
    (void)state;
    static const double sights[][3][3] = {
        { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } },
        { { 0.152286, 1.052583, -0.204868 }, { 0.114503, 0.786281, 0.099216 },
          { -0.003882, -0.048116, 1.051998 } },
        { { 0.367322, 0.860646, -0.227968 }, { 0.280085, 0.672501, 0.047413 },
          { -0.011820, 0.042940, 0.968881 } },
        { { 1.255528, -0.076749, -0.178779 }, { -0.078411, 0.930809, 0.147602 },
          { 0.004733, 0.691367, 0.303900 } },
    };
    enum { NATIVE = 0, KERNEL = SONDE_FLAME_KERNEL, PYTHON = SONDE_FLAME_PYTHON };
    for (size_t i = 0; i < SONDE_COUNT(sights); i++) {
        for (int dark = 0; dark < 2; dark++) {
            assert_true(least_distance(NATIVE, SONDE_FLAME_HUES, PYTHON, SONDE_FLAME_PYTHON_HUES,
                                       dark, sights[i]) > 0.05);
            assert_true(least_distance(KERNEL, SONDE_FLAME_KERNEL_HUES, PYTHON,
                                       SONDE_FLAME_PYTHON_HUES, dark, sights[i]) > 0.04);
            assert_true(least_distance(NATIVE, SONDE_FLAME_HUES, KERNEL, SONDE_FLAME_KERNEL_HUES,
                                       dark, sights[i]) > 0.05);
        }
    }
}

static void kinds_have_colors_of_their_own(void **state)
{
    (void)state;
    static const char *const names[] = { "main", "work", "PyEval_EvalFrame", "a.py" };
    for (size_t i = 0; i < SONDE_COUNT(names); i++) {
        const int native = sonde_flame_color_index(names[i], 0);
        const int kernel = sonde_flame_color_index(names[i], SONDE_NODE_KERNEL);
        const int python = sonde_flame_color_index(names[i], SONDE_NODE_PYTHON);
        assert_true(native < SONDE_FLAME_HUES);
        assert_true(kernel >= SONDE_FLAME_KERNEL && kernel < SONDE_FLAME_UNKNOWN);
        assert_true(python >= SONDE_FLAME_PYTHON && python < SONDE_FLAME_PALETTE);
    }
}

static void schemes_by_name(void **state)
{
    (void)state;
    for (int i = 0; i < SONDE_FLAMEGRAPH_COLORS_COUNT; i++) {
        const char *name = sonde_flamegraph_colors_name((enum sonde_flamegraph_colors)i);
        assert_int_equal(sonde_flamegraph_colors_find(name), i);
    }
    assert_int_equal(sonde_flamegraph_colors_find("pink"), -1);
    assert_int_equal(sonde_flamegraph_colors_find(""), -1);
}

/* ---- Differences ----------------------------------------------------------------------------- */

/* Twice as many samples in all: a has the same share, b a larger, c a smaller one, d is new and e
 * is gone. */
static void differences(void **state)
{
    (void)state;
    static const struct stack before_stacks[] = {
        { "a", 100 }, { "b", 100 }, { "c", 100 }, { "e", 100 },
    };
    static const struct stack after_stacks[] = {
        { "a", 200 }, { "b", 300 }, { "c", 150 }, { "d", 150 },
    };
    static const struct { const char *name; int sign; } cases[] = {
        { "a", 0 }, { "b", 1 }, { "c", -1 }, { "d", 1 }, { "e", -1 }, { "all", 0 },
    };
    struct sonde_tree *before = fold(before_stacks, COUNT(before_stacks));
    struct sonde_tree *after = fold(after_stacks, COUNT(after_stacks)), *t;
    struct sonde_flame f;
    assert_int_equal(sonde_tree_diff(before, after, &t), 0);
    assert_int_equal(sonde_flame_init(&f, t, 0.001, 0), 0);
    assert_int_equal(f.node_count, COUNT(cases));
    for (uint32_t i = 0; i < f.node_count; i++) {
        const char *name = sonde_flame_text(&f, f.frames[f.nodes[i].frame].name);
        size_t c = 0;
        while (strcmp(cases[c].name, name) != 0) c++;
        const int level = f.nodes[i].level;
        assert_int_equal((level > 0) - (level < 0), cases[c].sign);
    }
    sonde_flame_release(&f);

    for (int html = 0; html < 2; html++) {
        struct sonde_buf b;
        struct node *nodes;
        render(&b, t, html, NULL);
        json_t *j = data_of(&b, html);
        assert_int_equal(json_integer_value(json_object_get(j, "baseTotal")), 400);
        assert_string_equal(text_of(j, "colors"), "diff");
        const uint32_t count = read_nodes(j, &nodes);
        uint64_t base = 0;
        for (uint32_t i = 0; i < count; i++) base += nodes[i].base_self + nodes[i].base_dropped;
        assert_int_equal(base, 400);
        free(nodes);
        json_decref(j);
        sonde_buf_release(&b);
    }
    sonde_tree_destroy(t);
    sonde_tree_destroy(before);
    sonde_tree_destroy(after);
}

static void diff_levels(void **state)
{
    (void)state;
    /* Red has more red than blue, blue the other way round, and none is grey. */
    for (int dark = 0; dark < 2; dark++) {
        const uint32_t same = sonde_flame_diff_color(0, dark);
        assert_int_equal(same >> 16, same & 255);
        for (int l = 1; l <= SONDE_FLAME_LEVELS; l++) {
            const uint32_t red = sonde_flame_diff_color(l, dark);
            const uint32_t blue = sonde_flame_diff_color(-l, dark);
            assert_true(red >> 16 > (red & 255));
            assert_true(blue >> 16 < (blue & 255));
        }
    }
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void functions_of_all_frames(void **state)
{
    (void)state;
    struct sonde_tree *t = fold(primes, COUNT(primes));
    struct sonde_buf b;
    render(&b, t, 1, &(struct sonde_flamegraph_options){ .min_width = 0.5 });
    json_t *j = data_of(&b, 1);
    const uint64_t scale = (uint64_t)json_integer_value(json_object_get(j, "scale"));
    const char *s = text_of(j, "functions");
    uint64_t self = 0, rows = 0, largest = UINT64_MAX;
    for (; *s; rows++) {
        const uint64_t name = next_int(&s);
        for (int i = 0; i < 3; i++) next_int(&s);
        const uint64_t own = next_int(&s) * scale, total = next_int(&s) * scale;
        assert_true(total <= largest);
        largest = total;
        self += own;
        const char *text =
            json_string_value(json_array_get(json_object_get(j, "strings"), name));
        if (strcmp(text, "a") == 0) assert_int_equal(total, 30); /* in two places */
    }
    assert_int_equal(rows, 9);
    assert_int_equal(json_integer_value(json_object_get(j, "functionCount")), 9);
    assert_int_equal(self, t->nodes[0].total);
    json_decref(j);
    sonde_buf_release(&b);
    sonde_tree_destroy(t);
}

static void deep_stacks_end(void **state)
{
    (void)state;
    enum { DEEP = SONDE_FLAME_DEPTH_MAX + 10 };
    char *folded = malloc(2 * DEEP + 1);
    for (size_t i = 0; i < DEEP; i++) memcpy(folded + 2 * i, "r;", 2);
    folded[2 * DEEP - 1] = 0;
    const struct stack one = { folded, 3 };
    struct sonde_tree *t = fold(&one, 1);
    struct sonde_flame f;
    assert_int_equal(sonde_flame_init(&f, t, 0.001, 0), 0);
    assert_int_equal(f.node_count, SONDE_FLAME_DEPTH_MAX + 1);
    assert_int_equal(f.dropped, 3);
    sonde_flame_release(&f);
    sonde_tree_destroy(t);
    free(folded);
}

static void full_buffer(void **state)
{
    (void)state;
    struct sonde_tree *t = fold(primes, COUNT(primes));
    struct sonde_buf b;
    sonde_buf_init(&b, 2000);
    assert_int_equal(sonde_flamegraph_svg(t, NULL, &b), SONDE_EFULL);
    sonde_buf_release(&b);
    sonde_buf_init(&b, 2000);
    assert_int_equal(sonde_flamegraph_html(t, NULL, &b), SONDE_EFULL);
    sonde_buf_release(&b);
    sonde_tree_destroy(t);
}

static void out_of_memory(void **state)
{
    (void)state;
    struct sonde_tree *t = fold(primes, COUNT(primes));
    const int64_t live = sonde__alloc_live();
    for (int html = 0; html < 2; html++) {
        int rc = SONDE_ENOMEM;
        for (uint64_t nth = 1; rc && nth < 200; nth++) {
            struct sonde_buf b;
            sonde_buf_init(&b, (size_t)1 << 20);
            sonde__alloc_fail_nth(nth);
            rc = html ? sonde_flamegraph_html(t, NULL, &b) : sonde_flamegraph_svg(t, NULL, &b);
            sonde__alloc_fail_nth(0);
            assert_true(rc == 0 || rc == SONDE_ENOMEM);
            sonde_buf_release(&b);
            assert_int_equal(sonde__alloc_live(), live);
        }
        assert_int_equal(rc, 0);
    }
    sonde_tree_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_the_tree),
        cmocka_unit_test(default_widths),
        cmocka_unit_test(part_of_a_tree),
        cmocka_unit_test(widest_frames),
        cmocka_unit_test(edges_meet),
        cmocka_unit_test(rows_are_full),
        cmocka_unit_test(names_are_text),
        cmocka_unit_test(labels_are_cut),
        cmocka_unit_test(colors_are_stable),
        cmocka_unit_test(text_is_readable),
        cmocka_unit_test(kinds_differ_for_all_eyes),
        cmocka_unit_test(kinds_have_colors_of_their_own),
        cmocka_unit_test(schemes_by_name),
        cmocka_unit_test(differences),
        cmocka_unit_test(diff_levels),
        cmocka_unit_test(functions_of_all_frames),
        cmocka_unit_test(deep_stacks_end),
        cmocka_unit_test(full_buffer),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
