/* Formats that are written: what is in the files, and that what was read is written the same. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <jansson.h>
#include <math.h>

#include "base/alloc.h"
#include "base/gz.h"
#include "profile/format.h"
#include "profile/heap.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"
#include "unit/profile/format_sample.h"
#include "unit/profile/infer_build.h"

static const struct sonde_profile_filter any = { .kind = -1 };

static struct sonde_buf write_as(const char *format, const struct sonde_profile *p,
                                 const struct sonde_profile_filter *f)
{
    struct sonde_buf b;
    struct sonde_err err;
    sonde_buf_init(&b, 1 << 24);
    const int rc = sonde_format_find(format)->write(p, f, &b, &err);
    if (rc) print_error("%s: %s\n", format, err.text);
    assert_int_equal(rc, 0);
    return b;
}

static struct sonde_profile *read_as(const char *format, const char *data, size_t len)
{
    struct sonde_profile *p;
    struct sonde_err err;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_ptr_equal(sonde_format_guess(data, len), sonde_format_find(format));
    const int rc = sonde_format_find(format)->read(data, len, NULL, p, &err);
    if (rc) print_error("%s: %s\n", format, err.text);
    assert_int_equal(rc, 0);
    return p;
}

static void test_table(void **state)
{
    (void)state;
    assert_null(sonde_format_find("nothing"));
    assert_null(sonde_format_guess("", 0));
    assert_null(sonde_format_guess("neither this nor that\n", 22));
    for (size_t i = 0; sonde_formats[i]; i++) {
        assert_ptr_equal(sonde_format_find(sonde_formats[i]->name), sonde_formats[i]);
        assert_true(sonde_formats[i]->write || sonde_formats[i]->read);
        assert_int_equal(!sonde_formats[i]->read, !sonde_formats[i]->probe);
        assert_true(sonde_formats[i]->summary && sonde_formats[i]->suffix[0] == '.');
    }
}

/* ---- pprof ----------------------------------------------------------------------------------- */

static void test_pprof_round_trip(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_create();
    struct sonde_buf first = write_as("pprof", p, &any);
    struct sonde_profile *q = read_as("pprof", first.data, first.len);
    struct sonde_buf second = write_as("pprof", q, &any);
    assert_int_equal(second.len, first.len);
    assert_memory_equal(second.data, first.data, first.len);

    assert_int_equal(q->samples_count, 4); /* two of one stack and thread are one */
    assert_int_equal(q->start_ns, p->start_ns);
    assert_int_equal(q->end_ns, p->end_ns);
    assert_true(q->rate_hz == 1000 && q->achieved_hz == 998.5);
    assert_int_equal(q->lost_records, 2);
    assert_string_equal(sonde_profile_str(q, q->program), "/usr/bin/prog");
    assert_string_equal(sonde_profile_str(q, q->engine), "import");
    assert_string_equal(sonde_profile_str(q, q->modules[1].path), "/usr/bin/prog");

    struct sonde_tree *a, *b;
    const struct sonde_tree_options o = { .by_thread = 1 };
    assert_int_equal(sonde_tree_build(p, &any, &o, &a, NULL), 0);
    assert_int_equal(sonde_tree_build(q, &any, &o, &b, NULL), 0);
    assert_int_equal(a->node_count, b->node_count);
    for (uint32_t i = 0; i < a->node_count; i++) {
        assert_string_equal(a->nodes[i].name, b->nodes[i].name);
        assert_string_equal(a->nodes[i].module, b->nodes[i].module);
        assert_string_equal(a->nodes[i].file, b->nodes[i].file);
        assert_int_equal(a->nodes[i].line, b->nodes[i].line);
        assert_int_equal(a->nodes[i].flags, b->nodes[i].flags);
        assert_int_equal(a->nodes[i].total, b->nodes[i].total);
        assert_int_equal(a->nodes[i].samples, b->nodes[i].samples);
    }
    sonde_tree_destroy(a);
    sonde_tree_destroy(b);
    sonde_buf_release(&first);
    sonde_buf_release(&second);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_pprof_kinds_and_plain(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_create();
    const struct sonde_profile_filter off = { .kind = SONDE_SAMPLE_OFFCPU };
    struct sonde_buf packed = write_as("pprof", p, &off), plain;
    sonde_buf_init(&plain, 1 << 20);
    assert_int_equal(sonde_gz_unpack(packed.data, packed.len, &plain), 0);
    struct sonde_profile *q = read_as("pprof", plain.data, plain.len);
    assert_int_equal(q->samples_count, 1);
    assert_int_equal(q->samples[0].kind, SONDE_SAMPLE_OFFCPU);
    assert_int_equal(q->samples[0].weight, 1000000);
    sonde_buf_release(&packed);
    sonde_buf_release(&plain);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

/* Sums of a kind: weight and count. */
static void sums(const struct sonde_profile *p, enum sonde_sample_kind kind, uint64_t out[2])
{
    out[0] = out[1] = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (p->samples[i].kind != kind) continue;
        out[0] += p->samples[i].weight;
        out[1] += p->samples[i].count;
    }
}

static void test_pprof_heap(void **state)
{
    static const enum sonde_sample_kind kinds[] = { SONDE_SAMPLE_LIVE, SONDE_SAMPLE_ALLOC,
                                                    SONDE_SAMPLE_PEAK, SONDE_SAMPLE_LEAKED,
                                                    SONDE_SAMPLE_TEMPORARY };
    (void)state;
    struct sonde_profile *p = sample_create();
    sample_add_spans(p);
    for (uint32_t i = 0; i < 40; i++) {
        struct sonde_profile_sample s = p->samples[i % 4];
        s.kind = (uint16_t)kinds[i % 4]; /* none is temporary */
        s.weight = 100 + i;
        s.count = i;
        assert_int_equal(sonde_profile_add_sample(p, &s), 0);
    }
    struct sonde_buf packed = write_as("pprof-heap", p, &any), plain;
    sonde_buf_init(&plain, 1 << 20);
    assert_int_equal(sonde_gz_unpack(packed.data, packed.len, &plain), 0);
    assert_non_null(memmem(plain.data, plain.len, "alloc_space", 11));
    assert_null(memmem(plain.data, plain.len, "temporary_space", 15));
    struct sonde_profile *q = read_as("pprof", packed.data, packed.len);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint64_t before[2], after[2];
        sums(p, kinds[i], before);
        sums(q, kinds[i], after);
        assert_memory_equal(before, after, sizeof(before));
    }
    uint64_t cpu[2];
    sums(q, SONDE_SAMPLE_CPU, cpu);
    assert_int_equal(cpu[0], 0);
    sonde_buf_release(&packed);
    sonde_buf_release(&plain);
    sonde_profile_destroy(q);
    sonde_profile_destroy(p);

    /* Without such samples there is nothing to write, unless the heap was watched. */
    p = sample_create();
    struct sonde_err err = { "" };
    sonde_buf_init(&packed, 1 << 20);
    const struct sonde_format_ops *format = sonde_format_find("pprof-heap");
    assert_int_equal(format->write(p, &any, &packed, &err), SONDE_ENOENT);
    p->heap = sonde__calloc(1, sizeof(*p->heap));
    assert_non_null(p->heap);
    assert_int_equal(format->write(p, &any, &packed, &err), 0);
    const struct sonde_profile_filter backwards = { .kind = -1, .from_ns = 9, .to_ns = 3 };
    assert_int_equal(format->write(p, &backwards, &packed, &err), SONDE_EINVAL);
    sonde_buf_release(&packed);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_pprof_spans_are_labels(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_create();
    sample_add_spans(p);
    struct sonde_buf packed = write_as("pprof", p, &any), plain;
    sonde_buf_init(&plain, 1 << 20);
    assert_int_equal(sonde_gz_unpack(packed.data, packed.len, &plain), 0);
    assert_non_null(memmem(plain.data, plain.len, "decode", 6));
    assert_non_null(memmem(plain.data, plain.len, "crossing", 8));
    sonde_buf_release(&packed);
    sonde_buf_release(&plain);
    sonde_profile_destroy(p);
}

/* A profile as Go writes its heap: four types, ids that are not 1, 2, 3, numbers not packed. */
static void test_pprof_foreign(void **state)
{
    (void)state;
    static const char file[] =
        "\x0a\x04\x08\x01\x10\x02" "\x0a\x04\x08\x03\x10\x04"  /* alloc_objects, alloc_space */
        "\x0a\x04\x08\x05\x10\x02" "\x0a\x04\x08\x06\x10\x04"  /* inuse_objects, inuse_space */
        "\x12\x0b\x08\x63\x10\x02\x10\x80\x01\x10\x00\x10\x00" /* location 99; 2 128 0 0 */
        "\x12\x0b\x08\x63\x10\x04\x10\x80\x02\x10\x01\x10\x40" /* location 99; 4 256 1 64 */
        "\x22\x06\x08\x63\x22\x02\x08\x4d"                     /* location 99: function 77 */
        "\x2a\x04\x08\x4d\x10\x07"                             /* function 77: "f" */
        "\x32\x00" "\x32\x0d" "alloc_objects" "\x32\x05" "count" "\x32\x0b" "alloc_space"
        "\x32\x05" "bytes" "\x32\x0d" "inuse_objects" "\x32\x0b" "inuse_space" "\x32\x01" "f";
    struct sonde_profile *p = read_as("pprof", file, sizeof(file) - 1);
    assert_int_equal(p->samples_count, 3);
    static const struct { int kind; uint64_t weight; uint32_t count; } expected[] = {
        { SONDE_SAMPLE_ALLOC, 128, 2 }, { SONDE_SAMPLE_LIVE, 64, 1 }, { SONDE_SAMPLE_ALLOC, 256, 4 }
    };
    for (size_t i = 0; i < 3; i++) {
        int found = 0;
        for (uint32_t k = 0; k < 3; k++) {
            const struct sonde_profile_sample *s = &p->samples[k];
            found |= s->kind == expected[i].kind && s->weight == expected[i].weight &&
                     s->count == expected[i].count;
        }
        assert_true(found);
    }
    sonde_profile_destroy(p);
}

static const struct {
    const char *name;
    const char *bytes;
    size_t len;
    const char *says;
} damaged[] = {
#define BYTES(s) s, sizeof(s) - 1
#define TYPE "\x0a\x04\x08\x01\x10\x01"
#define STRINGS "\x32\x00\x32\x01x"
    { "empty", BYTES(""), "not a pprof file" },
    { "gzip cut", BYTES("\x1f\x8b\x08"), "gzip data is damaged" },
    { "text", BYTES("hello"), "not a pprof file" },
    { "no types", BYTES(STRINGS), "no sample types" },
    { "no samples", BYTES(TYPE STRINGS), "no samples" },
    { "string out of range", BYTES("\x0a\x04\x08\x09\x10\x01" STRINGS),
      "string with the number 9" },
    { "first string", BYTES(TYPE "\x32\x01x\x32\x01x"), "first string is not empty" },
    { "no location", BYTES(TYPE STRINGS "\x12\x04\x08\x05\x10\x01"),
      "sample 1: there is no location 5" },
    { "no function", BYTES(TYPE STRINGS "\x22\x06\x08\x01\x22\x02\x08\x09"), "no function 9" },
    { "no mapping", BYTES(TYPE STRINGS "\x22\x04\x08\x01\x10\x09"), "no mapping 9" },
    { "id 0", BYTES(TYPE STRINGS "\x22\x02\x18\x01"), "location 1 has no id" },
    { "id twice", BYTES(TYPE STRINGS "\x22\x02\x08\x05\x22\x02\x08\x05"), "two locations" },
    { "too few values", BYTES(TYPE STRINGS "\x12\x00"), "0 values for 1" },
    { "too many values", BYTES(TYPE STRINGS "\x12\x04\x10\x01\x10\x01"), "more values" },
    { "negative", BYTES(TYPE STRINGS "\x12\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
      "negative" },
    { "message cut", BYTES(TYPE STRINGS "\x12\x02\x10\x80"), "sample 1 is damaged" },
};

static void test_pprof_damaged(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        struct sonde_profile *p;
        struct sonde_err err = { "" };
        assert_int_equal(sonde_profile_create(0, &p), 0);
        const int rc =
            sonde_format_find("pprof")->read(damaged[i].bytes, damaged[i].len, NULL, p, &err);
        if (rc != SONDE_EFORMAT || !strstr(err.text, damaged[i].says)) {
            print_error("case %s: %d %s\n", damaged[i].name, rc, err.text);
        }
        assert_int_equal(rc, SONDE_EFORMAT);
        assert_non_null(strstr(err.text, damaged[i].says));
        sonde_profile_destroy(p);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- folded ---------------------------------------------------------------------------------- */

static const struct {
    const char *name, *in, *out;
} folded_cases[] = {
    { "plain", "main;f;g 3\n", "main;f;g 3\n" },
    { "no newline at the end", "main 1", "main 1\n" },
    { "sums equal lines", "a;b 1\na;b 2\na 5\n", "a 5\na;b 3\n" },
    { "spaces and numbers in names", "main loop;operator new [] 12;x 1 7\n",
      "main loop;operator new [] 12;x 1 7\n" },
    { "blank lines, carriage returns, tabs", "\r\n a;b 1\r\n\na;b\t2\n", " a;b 1\na;b 2\n" },
    { "empty frames are left out", ";a;;b; 4\n", "a;b 4\n" },
    { "prefixes of names are no prefixes of stacks", "ab;c 1\na;c 2\nab;cd 4\n",
      "a;c 2\nab;c 1\nab;cd 4\n" },
    { "kernel frames", "main;read_[k];_[k] 2\n", "main;read_[k];_[k] 2\n" },
    { "truncated", "[truncated];f 1\n[truncated];f;[truncated] 2\nf 4\n",
      "[truncated];f 1\n[truncated];f;[truncated] 2\nf 4\n" },
    { "largest weight", "a 18446744073709551615\n", "a 18446744073709551615\n" },
    { "bytes that are no UTF-8", "a\xff;b 1\n", "a\xff;b 1\n" },
};

static void test_folded(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(folded_cases) / sizeof(folded_cases[0]); i++) {
        const char *in = folded_cases[i].in;
        struct sonde_profile *p = read_as("folded", in, strlen(in));
        struct sonde_buf b = write_as("folded", p, &any);
        if (strcmp(b.data, folded_cases[i].out)) print_error("case %s\n", folded_cases[i].name);
        assert_string_equal(b.data, folded_cases[i].out);
        sonde_buf_release(&b);
        sonde_profile_destroy(p);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_folded_weights_and_names(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_create();
    build_sample(p, "a;b\nc;d", 7, 0, 0);
    p->samples[p->samples_count - 1].stack =
        sonde_profile_stack(p, 0, sonde_profile_named_location(p, "x;y\nz", 5));
    struct sonde_buf b = write_as("folded", p, &any);
    assert_string_equal(
        b.data, "[truncated];main;run loop;std::map<int, char>::find(int const&);libx.so+0x1010 1\n"
                "main;run loop;std::map<int, char>::find(int const&) 2\n"
                "main;run loop;std::map<int, char>::find(int const&);libx.so+0x1010;"
                "do_syscall_64_[k] 2\n"
                "x:y z 1\n");
    sonde_buf_release(&b);
    const struct sonde_profile_filter off = { .kind = SONDE_SAMPLE_OFFCPU };
    b = write_as("folded", p, &off);
    assert_non_null(strstr(b.data, " 1000000\n"));
    sonde_buf_release(&b);
    const struct sonde_profile_filter none = { .kind = SONDE_SAMPLE_LIVE };
    struct sonde_err err;
    sonde_buf_init(&b, 1000);
    assert_int_equal(sonde_format_find("folded")->write(p, &none, &b, &err), SONDE_ENOENT);
    sonde_buf_release(&b);
    sonde_profile_destroy(p);
}

static void test_folded_damaged(void **state)
{
    (void)state;
    static const struct { const char *in; size_t len; const char *says; } cases[] = {
        { BYTES("a;b 1\na;b\n"), "line 2: does not end in" },
        { BYTES("a;b 1\n\n  77\n"), "line 3: no frames" },
        { BYTES("a 1\n;; 5\n"), "line 2: no frames" },
        { BYTES("[truncated] 5\n"), "line 1: no frames" },
        { BYTES("a 1\nb\nc\n"), "line 2: does not end in" },
        { BYTES("a -5\n"), "line 1: does not end in" },
        { BYTES("a .5\n"), "line 1: does not end in" },
        { BYTES("a 18446744073709551616\n"), "below 2^64" },
        { BYTES("a\0b 5\n"), "line 1: a NUL byte" },
        { BYTES("a 18446744073709551615\nb 1\n"), "add up to more than 2^64" },
        { BYTES("\n\n"), "no stacks" },
        { BYTES(""), "no stacks" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_profile *p;
        struct sonde_err err = { "" };
        assert_int_equal(sonde_profile_create(0, &p), 0);
        assert_int_equal(sonde_format_find("folded")->read(cases[i].in, cases[i].len, NULL, p,
                                                           &err), SONDE_EFORMAT);
        if (!strstr(err.text, cases[i].says)) print_error("got: %s\n", err.text);
        assert_non_null(strstr(err.text, cases[i].says));
        sonde_profile_destroy(p);
    }
    struct sonde_profile *p;
    struct sonde_err err;
    struct sonde_buf b;
    assert_int_equal(sonde_profile_create(1 << 16, &p), 0);
    sonde_buf_init(&b, 1 << 20);
    for (int i = 0; i < 3000; i++) sonde_buf_printf(&b, "a;f%d 1\n", i);
    assert_int_equal(sonde_format_find("folded")->read(b.data, b.len, NULL, p, &err), SONDE_ENOMEM);
    assert_non_null(strstr(err.text, "needs more than"));
    sonde_buf_release(&b);
    sonde_profile_destroy(p);
}

/* Text that takes several batches and the second thread: many names, a line longer than a batch,
 * blank lines, shared and cut stacks. */
static struct sonde_buf many_stacks(void)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 24);
    for (int i = 0; i < 60000; i++) {
        if (i % 7 == 0) sonde_buf_puts(&b, "[truncated];");
        sonde_buf_printf(&b, "main;a_function_with_a_long_name_%d;g;h%d;it::calls<this>(%d,%d);;x",
                         i % 9, i / 16 % 50, i % 13, i / 3 % 20000);
        for (int deep = 0; i == 30000 && deep < 40000; deep++) {
            sonde_buf_printf(&b, ";%d", deep % 99);
        }
        sonde_buf_printf(&b, " %d\n%s", i % 50 + 1, i % 1000 ? "" : " \n\n");
    }
    return b;
}

static void test_folded_large(void **state)
{
    (void)state;
    struct sonde_buf text = many_stacks(), whole, apart;
    assert_true(text.len > (size_t)4 << 20);
    struct sonde_profile *p = read_as("folded", text.data, text.len), *q;
    assert_int_equal(sonde_profile_create(0, &q), 0);
    for (char *line = text.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        if (end - line > 1) {
            const size_t len = (size_t)(end - line);
            assert_int_equal(sonde_format_find("folded")->read(line, len, NULL, q, NULL), 0);
        }
    }
    assert_int_equal(p->samples_count, 60000);
    assert_int_equal(p->stacks_count, q->stacks_count);
    whole = write_as("folded", p, &any);
    apart = write_as("folded", q, &any);
    assert_int_equal(whole.len, apart.len);
    assert_memory_equal(whole.data, apart.data, whole.len);
    sonde_buf_release(&whole);
    sonde_buf_release(&apart);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
    sonde_buf_release(&text);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_folded_large_damaged(void **state)
{
    (void)state;
    struct sonde_buf text = many_stacks();
    struct sonde_profile *p;
    struct sonde_err err;
    for (size_t limit = (size_t)1 << 15; limit <= (size_t)1 << 20; limit *= 2) {
        assert_int_equal(sonde_profile_create(limit, &p), 0);
        assert_int_equal(sonde_format_find("folded")->read(text.data, text.len, NULL, p, &err),
                         SONDE_ENOMEM);
        assert_true(p->bytes <= limit);
        sonde_profile_destroy(p);
    }
    struct sonde_import how = { 0 };
    sonde_buf_puts(&text, "main;f\n");
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_format_find("folded")->read(text.data, text.len, &how, p, &err), 0);
    assert_non_null(strstr(how.note.text, "1 of 60001 lines"));
    assert_non_null(strstr(how.note.text, "line 60121: does not end in"));
    assert_int_equal(p->samples_count, 60000);
    sonde_profile_destroy(p);
    sonde_buf_release(&text);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_folded_allocations_may_fail(void **state)
{
    (void)state;
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 200; nth++) {
        struct sonde_profile *p;
        struct sonde_err err = { "" };
        assert_int_equal(sonde_profile_create(0, &p), 0);
        sonde__alloc_fail_nth(nth);
        rc = sonde_format_find("folded")->read(BYTES("a;b;c_[k] 1\n[truncated];d 2\n"), NULL, p,
                                               &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || (rc == SONDE_ENOMEM && err.text[0]));
        sonde_profile_destroy(p);
        assert_int_equal(sonde__alloc_live(), 0);
    }
    assert_int_equal(rc, 0);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *write_json(const char *format, const struct sonde_profile *p)
{
    struct sonde_buf b = write_as(format, p, &any);
    json_error_t error;
    json_t *root = json_loadb(b.data, b.len, 0, &error);
    if (!root) print_error("%s: %s at %d\n%s\n", format, error.text, error.position, b.data);
    assert_non_null(root);
    sonde_buf_release(&b);
    return root;
}

static void test_speedscope(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_create();
    json_t *root = write_json("speedscope", p);
    json_t *frames = json_object_get(json_object_get(root, "shared"), "frames");
    json_t *profiles = json_object_get(root, "profiles");
    assert_int_equal(json_array_size(frames), 6);
    assert_int_equal(json_array_size(profiles), 2);
    json_t *one = json_array_get(profiles, 0), *two = json_array_get(profiles, 1), *value;
    assert_string_equal(json_string_value(json_object_get(two, "name")), "worker \"1\"");
    assert_string_equal(json_string_value(json_object_get(one, "unit")), "nanoseconds");
    assert_int_equal(json_integer_value(json_object_get(one, "endValue")), 3000000);
    assert_int_equal(json_array_size(json_object_get(one, "samples")), 2); /* two of the same */
    assert_int_equal(json_integer_value(json_array_get(json_object_get(one, "weights"), 1)),
                     2000000);
    size_t i, k;
    json_t *stack;
    json_array_foreach(profiles, i, one) {
        json_array_foreach(json_object_get(one, "samples"), k, stack) {
            size_t n;
            json_array_foreach(stack, n, value) {
                assert_in_range(json_integer_value(value), 0, 5);
            }
        }
    }
    /* The thread's start first. */
    stack = json_array_get(json_object_get(json_array_get(profiles, 0), "samples"), 0);
    value = json_array_get(frames, (size_t)json_integer_value(json_array_get(stack, 0)));
    assert_string_equal(json_string_value(json_object_get(value, "name")), "main");
    json_decref(root);
    sonde_profile_destroy(p);
}

static json_t *find_event(json_t *events, const char *phase, const char *name)
{
    size_t i;
    json_t *e;
    json_array_foreach(events, i, e) {
        if (!strcmp(json_string_value(json_object_get(e, "ph")), phase) &&
            !strcmp(json_string_value(json_object_get(e, "name")), name)) {
            return e;
        }
    }
    return NULL;
}

static double number_in(json_t *e, const char *key)
{
    return json_number_value(json_object_get(e, key));
}

static void test_chrome(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_create();
    sample_add_spans(p);
    json_t *root = write_json("chrome", p), *events = json_object_get(root, "traceEvents");
    json_t *request = find_event(events, "X", "request");
    assert_true(number_in(request, "ts") == 0 && number_in(request, "dur") == 4000);
    json_t *args = json_object_get(request, "args");
    assert_string_equal(json_string_value(json_object_get(args, "trace_id")),
                        "0000000000000abc0000000000000def");
    assert_string_equal(json_string_value(json_object_get(args, "outcome")), "ok");
    assert_non_null(find_event(events, "b", "crossing")); /* it does not nest */
    assert_non_null(find_event(events, "e", "crossing"));
    /* Three samples of 1 ms in a row: one slice; the two deep ones: one slice from 1 to 3 ms. */
    json_t *main = find_event(events, "X", "main");
    assert_true(number_in(main, "ts") == 0 && number_in(main, "dur") == 3000);
    json_t *sys = find_event(events, "X", "do_syscall_64_[k]");
    assert_true(number_in(sys, "ts") == 1000 && number_in(sys, "dur") == 2000);
    assert_true(number_in(sys, "pid") > number_in(request, "pid"));
    json_t *cut = find_event(events, "X", "[truncated]"); /* after a gap */
    assert_true(number_in(cut, "ts") == 8000 && number_in(cut, "dur") == 1000);
    assert_non_null(find_event(events, "M", "thread_name"));
    json_decref(root);

    for (uint32_t i = 0; i < p->samples_count; i++) p->samples[i].time_ns = 0;
    p->spans_count = 0;
    struct sonde_buf b;
    struct sonde_err err;
    sonde_buf_init(&b, 1 << 20);
    assert_int_equal(sonde_format_find("chrome")->write(p, &any, &b, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "no times"));
    sonde_buf_release(&b);
    sonde_profile_destroy(p);
}

static void test_chrome_instants(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_create();
    p->samples_count = 1;
    p->samples[0].kind = SONDE_SAMPLE_ALLOC;
    json_t *root = write_json("chrome", p);
    json_t *e = find_event(json_object_get(root, "traceEvents"), "i",
                           "std::map<int, char>::find(int const&)");
    json_t *args = json_object_get(e, "args");
    assert_int_equal(json_integer_value(json_object_get(args, "bytes")), 1000000);
    assert_int_equal(json_array_size(json_object_get(args, "stack")), 3);
    json_decref(root);
    sonde_profile_destroy(p);
}

/* Begins and ends of a track are a stack; instants lie inside. Returns how many begin. */
static size_t check_track(json_t *events, const char *id)
{
    const char *open[300];
    size_t depth = 0, begun = 0, i;
    double before = 0;
    json_t *e;
    json_array_foreach(events, i, e) {
        const char *track = json_string_value(json_object_get(e, "id"));
        if (!track || strcmp(track, id) != 0) continue;
        const char *name = json_string_value(json_object_get(e, "name"));
        const char phase = json_string_value(json_object_get(e, "ph"))[0];
        assert_true(number_in(e, "ts") >= before);
        before = number_in(e, "ts");
        if (phase == 'b') {
            open[depth++] = name;
            begun++;
        } else if (phase == 'e') {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else {
            assert_int_equal(phase, 'n');
            assert_true(depth > 0);
        }
    }
    assert_int_equal(depth, 0);
    return begun;
}

static void test_chrome_requests(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_create();
    infer_build(p, 5);
    /* Its own span is not shown twice. */
    const uint32_t nobody = sonde_profile_thread(p, 42, 0, "requests");
    assert_int_equal(sonde_profile_add_span(p, &(struct sonde_profile_span){
        .start_ns = INFER_T0, .end_ns = INFER_T0 + 1000, .thread = nobody, .id = 0x1002,
        .name = sonde_profile_cstring(p, "/v1/chat") }), 0);
    /* One that crosses another. */
    struct sonde_infer_request *r = &p->infer->requests[2];
    r->items[0].end_ns += 1 * INFER_MS;
    json_t *root = write_json("chrome", p), *events = json_object_get(root, "traceEvents");
    assert_null(find_event(events, "X", "/v1/chat"));
    assert_int_equal(check_track(events, "0x1004"), 6); /* itself, prefill, 4 times decode */
    assert_int_equal(check_track(events, "0x1003"), 1); /* without a timeline */
    assert_int_equal(check_track(events, "0x1002"), 3); /* one decode crosses prefill … */
    assert_int_equal(check_track(events, "0x1002-3"), 1); /* … and is beside it */
    json_t *begin = find_event(events, "b", "job-2"), *args = json_object_get(begin, "args");
    assert_string_equal(json_string_value(json_object_get(args, "outcome")), "error");
    assert_string_equal(json_string_value(json_object_get(args, "error")), "context_full");
    assert_int_equal(json_integer_value(json_object_get(args, "tokens_out")), 3);
    assert_string_equal(json_string_value(json_object_get(json_object_get(args, "attributes"),
                                                          "temperature")), "0.7");
    json_t *end = find_event(events, "e", "job-4");
    begin = find_event(events, "b", "job-4");
    assert_true(fabs(number_in(end, "ts") - number_in(begin, "ts") - 49000) < 0.01);
    json_t *first = find_event(events, "n", "first token"); /* of the one without a timeline */
    begin = find_event(events, "b", "job-3");
    assert_true(fabs(number_in(first, "ts") - number_in(begin, "ts") - 23000) < 0.01);
    json_decref(root);

    /* Of one trace; of threads and spans there are none. */
    struct sonde_buf b;
    struct sonde_err err;
    const struct sonde_profile_filter trace = { .kind = -1, .trace_hi = 1, .trace_lo = 0x103 };
    sonde_buf_init(&b, 1 << 20);
    assert_int_equal(sonde_format_find("chrome")->write(p, &trace, &b, &err), 0);
    assert_non_null(strstr(b.data, "job-3"));
    assert_null(strstr(b.data, "job-2"));
    sonde_buf_reset(&b);
    const struct sonde_profile_filter thread = { .kind = -1, .thread = "*" };
    assert_int_equal(sonde_format_find("chrome")->write(p, &thread, &b, &err), 0);
    assert_null(strstr(b.data, "job-"));
    sonde_buf_release(&b);
    sonde_profile_destroy(p);

    /* Without a sample. */
    assert_int_equal(sonde_profile_create(0, &p), 0);
    infer_build(p, 2);
    root = write_json("chrome", p);
    assert_int_equal(check_track(json_object_get(root, "traceEvents"), "0x1001"), 3);
    json_decref(root);
    sonde_profile_destroy(p);
}

static void test_report(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_create();
    sample_add(p, p->samples[0].stack, 1, 4, 0, SONDE_SAMPLE_PEAK);
    json_t *root = write_json("report-json", p);
    assert_string_equal(json_string_value(json_object_get(root, "profile_id")),
                        "prof_20231114_221320");
    assert_true(number_in(root, "duration_seconds") == 0.01);
    json_t *cpu = json_object_get(root, "cpu");
    assert_int_equal(json_integer_value(json_object_get(cpu, "total_samples")), 5);
    json_t *top = json_array_get(json_object_get(cpu, "top_functions"), 0);
    assert_int_equal(json_integer_value(json_object_get(top, "samples")), 2);
    assert_true(number_in(top, "percent") == 40);
    assert_true(number_in(top, "total_percent") == 100);
    assert_string_equal(json_string_value(json_object_get(top, "file")), "src/a.cc");
    assert_int_equal(json_integer_value(json_object_get(top, "line")), 10);
    assert_non_null(json_object_get(root, "off_cpu"));
    assert_true(number_in(json_object_get(root, "memory"), "peak_mb") > 0.9);
    assert_null(json_object_get(json_object_get(root, "memory"), "leaked_mb"));
    assert_null(json_object_get(root, "bottlenecks"));
    json_decref(root);
    sonde_profile_destroy(p);
}

/* ---- All ------------------------------------------------------------------------------------- */

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_create();
    sample_add_spans(p);
    sample_add(p, p->samples[0].stack, 1, 5, 0, SONDE_SAMPLE_LIVE);
    for (size_t i = 0; sonde_formats[i]; i++) {
        if (!sonde_formats[i]->write) continue;
        const int64_t live = sonde__alloc_live();
        int rc = SONDE_ENOMEM;
        for (uint64_t nth = 1; rc && nth < 2000; nth++) {
            struct sonde_buf b;
            sonde_buf_init(&b, 1 << 20);
            sonde__alloc_fail_nth(nth);
            rc = sonde_formats[i]->write(p, &any, &b, NULL);
            sonde__alloc_fail_nth(0);
            assert_true(rc == 0 || rc == SONDE_ENOMEM);
            sonde_buf_release(&b);
            assert_int_equal(sonde__alloc_live(), live);
        }
        assert_int_equal(rc, 0);
    }
    struct sonde_buf file = write_as("pprof", p, &any);
    const int64_t live = sonde__alloc_live();
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 2000; nth++) {
        struct sonde_profile *q;
        assert_int_equal(sonde_profile_create(0, &q), 0);
        sonde__alloc_fail_nth(nth);
        rc = sonde_format_find("pprof")->read(file.data, file.len, NULL, q, NULL);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        sonde_profile_destroy(q);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
    sonde_buf_release(&file);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_pprof_round_trip),
        cmocka_unit_test(test_pprof_kinds_and_plain),
        cmocka_unit_test(test_pprof_heap),
        cmocka_unit_test(test_pprof_spans_are_labels),
        cmocka_unit_test(test_pprof_foreign),
        cmocka_unit_test(test_pprof_damaged),
        cmocka_unit_test(test_folded),
        cmocka_unit_test(test_folded_weights_and_names),
        cmocka_unit_test(test_folded_damaged),
        cmocka_unit_test(test_folded_large),
        cmocka_unit_test(test_folded_large_damaged),
        cmocka_unit_test(test_folded_allocations_may_fail),
        cmocka_unit_test(test_speedscope),
        cmocka_unit_test(test_chrome),
        cmocka_unit_test(test_chrome_instants),
        cmocka_unit_test(test_chrome_requests),
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
