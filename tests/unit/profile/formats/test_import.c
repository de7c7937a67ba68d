/* Profiles of other tools, small ones whose stacks and sums are known: what is in them is what
 * comes out, and what is damaged is refused with the place. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/gz.h"
#include "profile/format.h"
#include "sonde/sonde.h"

#define BYTES(s) s, sizeof(s) - 1

/* ---- What is right --------------------------------------------------------------------------- */

#define CALLGRIND                                                                                  \
    "# callgrind format\nversion: 1\ncmd: ./bin/prog -x\npositions: line\nevents: Ir Dr\n\n"       \
    "ob=(1) /bin/prog\nfl=(1) main.c\nfn=(1) main\n10 4 1\ncfn=(2) f\ncalls=2 20\n+2 60 9\n"       \
    "cfi=(2) g.c\ncfn=(3) g\ncalls=1 30\n* 30 5\n\nfn=(2)\n20 10 3\ncfi=(2)\ncfn=(3)\ncalls=5 "    \
    "30\n"                                                                                         \
    "+1 50 6\ncfn=(2)\ncalls=1 20\n* 25 1\n\nfl=(2)\nfn=(3)\n30 80 11\ntotals: 94 15\n"

#define CPUPROFILE                                                                                 \
    "{\"nodes\":[{\"id\":1,\"callFrame\":{\"functionName\":\"(root)\",\"url\":\"\","               \
    "\"lineNumber\":-1},"                                                                          \
    "\"hitCount\":0,\"children\":[7,3]},"                                                          \
    "{\"id\":3,\"callFrame\":{\"functionName\":\"(idle)\",\"url\":\"\"},\"hitCount\":1},"          \
    "{\"id\":9,\"callFrame\":{\"functionName\":\"\",\"url\":\"a.js\",\"lineNumber\":4},"           \
    "\"hitCount\":2},"                                                                             \
    "{\"id\":7,\"callFrame\":{\"functionName\":\"go\",\"url\":\"a.js\",\"lineNumber\":0},"         \
    "\"hitCount\":1,\"children\":[9]}],\"startTime\":1000,\"endTime\":2000,"                       \
    "\"samples\":[7,9,3,9],\"timeDeltas\":[100,200,300,50]}"

#define SPEEDSCOPE(unit, profile)                                                                  \
    "{\"profiles\":[{\"name\":\"main\",\"unit\":\"" unit "\",\"startValue\":0,\"endValue\":9,"     \
    profile                                                                                        \
    "}],\"shared\":{\"frames\":[{\"name\":\"main\"},{\"name\":\"f\\u00e9\",\"file\":\"f.c\","      \
    "\"line\":3}]},"                                                                               \
    "\"$schema\":\"https://www.speedscope.app/file-format-schema.json\"}"

#define MAPS                                                                                   \
    "\nMAPPED_LIBRARIES:\n00400000-00402000 r-xp 00000000 08:01 1234 /bin/prog\n"               \
    "7f0000000000-7f0000001000 r--p 00000000 08:01 99 /lib/libx.so\n"                          \
    "7f0000001000-7f0000003000 r-xp 00001000 08:01 99 /lib/libx.so (deleted)\n"

static const struct {
    const char *name, *format;
    const char *data;
    size_t len;
    int kind;
    const char *folded;
    uint64_t total, count;  /* weight and samples of that kind */
    const char *note;
} cases[] = {
    { "UTF-16, little end first",
      "folded", BYTES("\xff\xfe" "a\0;\0\xe9\0 \0" "3\0\r\0\n\0b\0 \0" "4\0\n\0"),
      SONDE_SAMPLE_OTHER, "a;é 3\nb 4\n", 7, 7, "" },
    { "UTF-16, big end first", "folded", BYTES("\xfe\xff\0a\0;\xd8\x3d\xde\0\0 \0" "3\0\n"),
      SONDE_SAMPLE_OTHER, "a;😀 3\n", 3, 3, "" },
    { "a mark of UTF-8, CRLF", "folded", BYTES("\xef\xbb\xbf" "a;b 3\r\n\r\nc 2\r\n"),
      SONDE_SAMPLE_OTHER, "a;b 3\nc 2\n", 5, 5, "" },
    { "perf script, comments first, CRLF", "perf-script",
      BYTES("# ========\r\n# captured on : today\r\n#\r\nx 1/2 3.25: 1 cycles:\r\n"
            "\t1 g+0x1 (/b)\r\n"
            "\t2 main (/b)\r\n\r\n"), SONDE_SAMPLE_OTHER, "main;g 1\n", 1, 1, "" },
    { "perf script without stacks", "perf-script",
      BYTES("x  12  1.5:          1 cycles:  ffffffff81234 do_it+0x1 ([kernel.kallsyms])\n"
            "x  12  1.6:          1 cycles:  401234 main+0x1 (/b)\n"), SONDE_SAMPLE_OTHER,
      "do_it_[k] 1\nmain 1\n", 2, 2, "" },
    { "perf script, UTF-16", "perf-script",
      BYTES("\xff\xfe" "x\0 \0" "1\0 \0" "2\0.\0" "5\0:\0 \0c\0y\0c\0l\0e\0s\0:\0\n\0\t\0"
            "1\0 \0m\0 \0" "(\0/\0b\0)\0\n\0\n\0"), SONDE_SAMPLE_OTHER, "m 1\n", 1, 1, "" },
    { "some bad lines", "folded", BYTES("Warning: no map\na;b 3\nc 2\na;b\nd 1\n"),
      SONDE_SAMPLE_OTHER, "a;b 3\nc 2\nd 1\n", 6, 6, "2 of 5 lines are no stacks" },
    { "callgrind", "callgrind", BYTES(CALLGRIND), SONDE_SAMPLE_OTHER,
      "main 4\nmain;g 30\nmain;f 10\nmain;f;g 50\n", 94, 4, "shared out in proportion" },
    { "cpuprofile", "cpuprofile", BYTES(CPUPROFILE), SONDE_SAMPLE_CPU, "go 1\ngo;(anonymous) 2\n",
      850000, 3, "" },
    { "cpuprofile, idle", "cpuprofile", BYTES(CPUPROFILE), SONDE_SAMPLE_OFFCPU, "(idle) 50000\n",
      50000, 1, "" },
    { "cpuprofile of hits", "cpuprofile",
      BYTES("{\"nodes\":[{\"id\":2,\"callFrame\":{\"functionName\":\"g\"},\"hitCount\":5,"
            "\"children\":[1]},{\"id\":1,\"callFrame\":{\"functionName\":\"f\"},\"hitCount\":4}]}"),
      SONDE_SAMPLE_OTHER, "g 5\ng;f 4\n", 9, 9, "" },
    { "speedscope, sampled", "speedscope",
      BYTES(SPEEDSCOPE("milliseconds", "\"weights\":[2,0.5,1],\"type\":\"sampled\","
                       "\"samples\":[[0,1],[0],[]]")),
      SONDE_SAMPLE_CPU, "main 1\nmain;fé 1\n", 2500000, 2, "" },
    { "speedscope, counted", "speedscope",
      BYTES(SPEEDSCOPE("none", "\"type\":\"sampled\",\"samples\":[[0,1],[0,1]],\"weights\":[2,7]")),
      SONDE_SAMPLE_OTHER, "main;fé 9\n", 9, 2, "" },
    { "speedscope, evented", "speedscope",
      BYTES(SPEEDSCOPE("microseconds",
                       "\"type\":\"evented\",\"events\":[{\"type\":\"O\",\"frame\":0,\"at\":1},"
                       "{\"type\":\"O\",\"frame\":1,\"at\":3},{\"type\":\"C\",\"frame\":1,"
                       "\"at\":6},{\"type\":\"C\",\"frame\":0,\"at\":6.5}]")),
      SONDE_SAMPLE_WALL, "main 2500\nmain;fé 3000\n", 5500, 3, "" },
    { "trace events", "chrome",
      BYTES("{\"traceEvents\":[{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,"
            "\"args\":{\"name\":\"ui\"}},"
            "{\"ph\":\"X\",\"name\":\"inner\",\"ts\":12,\"dur\":3.5,\"pid\":1,\"tid\":2},"
            "{\"ph\":\"X\",\"name\":\"outer\",\"ts\":10,\"dur\":10,\"pid\":1,\"tid\":2},"
            "{\"ph\":\"B\",\"name\":\"b\",\"ts\":100,\"pid\":1,\"tid\":3},"
            "{\"ph\":\"B\",\"name\":\"c\",\"ts\":101,\"pid\":1,\"tid\":3},"
            "{\"ph\":\"E\","
            "\"ts\":103,\"pid\":1,\"tid\":3},{\"ph\":\"E\",\"ts\":104,\"pid\":1,\"tid\":3},"
            "{\"ph\":\"C\",\"name\":\"n\",\"ts\":5,\"pid\":1,\"args\":{\"v\":1}}],\"other\":{}}"),
      SONDE_SAMPLE_WALL, "outer 6500\nouter;inner 3500\nb 2000\nb;c 2000\n", 14000, 4,
      "1 events without a length" },
    { "trace events, no end", "chrome",
      BYTES("[{\"ph\":\"B\",\"name\":\"a\",\"ts\":1,\"pid\":1,\"tid\":\"x\"},\n"
            "{\"ph\":\"X\",\"name\":\"b\",\"ts\":2,\"dur\":3,\"pid\":1,\"tid\":\"x\"},\n"),
      SONDE_SAMPLE_WALL, "a 1000\na;b 3000\n", 4000, 2, "1 events have no beginning or no end" },
    { "gperftools' heap", "heap-text",
      BYTES("heap profile:      3:     3000 [     5:     4000] @ heapprofile\n"
            "     2:     2000 [     4:     3000] @ 0x00401001 0x00401101\n"
            "     1:     1000 [     1:     1000] @ 0x7f0000002001 0x00401101\n" MAPS),
      SONDE_SAMPLE_LIVE, "prog+0x1100;libx.so+0x2000 1000\nprog+0x1100;prog+0x1000 2000\n", 3000,
      3, "" },
    { "gperftools' heap, sampled", "heap-text",
      BYTES("heap profile: 1: 1000 [ 4: 4000] @ heap_v2/1000\n 1: 1000 [ 4: 4000] @ 0x00401001\n"
            MAPS), SONDE_SAMPLE_ALLOC, "prog+0x1000 6328\n", 6328, 6, "" },
    { "jemalloc's heap", "heap-text",
      BYTES("heap_v2/1\n  t*: 3: 3000 [0: 0]\n  t0: 3: 3000 [0: 0]\n@ 0x401001 0x401101\n"
            "  t*: 2: 2000 [0: 0]\n  t0: 2: 2000 [0: 0]\n@ 0x401101\n  t*: 1: 1000 [0: 0]\n" MAPS),
      SONDE_SAMPLE_LIVE, "prog+0x1100 1000\nprog+0x1100;prog+0x1000 2000\n", 3000, 3, "" },
    { "Go's heap", "heap-text",
      BYTES("heap profile: 1: 4096 [2: 8192] @ heap/2\n1: 4096 [2: 8192] @ 0x10 0x20\n"
            "#\t0x4d96de\tmain.leak+0x5e\t\t/src/m.go:5\n#\t0x4d97b0\tmain.main+0x30\t/src/m.go:6\n"
            "\n"
            "# runtime.MemStats\n# Alloc = 12\n"),
      SONDE_SAMPLE_LIVE, "main.main;main.leak 4096\n", 4096, 1, "" },
};

static void check_folded(const char *name, const struct sonde_profile *p, int kind,
                         const char *want)
{
    const struct sonde_profile_filter f = { .kind = kind };
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 16);
    assert_int_equal(sonde_format_find("folded")->write(p, &f, &b, NULL), 0);
    size_t lines = 0;
    for (const char *line = want, *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        if (!memmem(b.data, b.len, line, (size_t)(end - line) + 1)) {
            print_error("%s: %s\n", name, b.data);
        }
        assert_non_null(memmem(b.data, b.len, line, (size_t)(end - line) + 1));
    }
    for (size_t i = 0; i < b.len; i++) lines -= b.data[i] == '\n';
    assert_int_equal(lines, 0);
    sonde_buf_release(&b);
}

static void test_known(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_buf packed;
        sonde_buf_init(&packed, 1 << 16);
        assert_int_equal(sonde_gz_pack(cases[i].data, cases[i].len, 6, &packed), 0);
        for (int gz = 0; gz < 2; gz++) {
            struct sonde_profile *p;
            struct sonde_err err = { "" };
            struct sonde_import how = { 0 };
            assert_int_equal(sonde_profile_create(0, &p), 0);
            const int rc = sonde_format_read(gz ? packed.data : cases[i].data,
                                             gz ? packed.len : cases[i].len, "file", &how, p, &err);
            if (rc) print_error("%s: %s\n", cases[i].name, err.text);
            assert_int_equal(rc, 0);
            check_folded(cases[i].name, p, cases[i].kind, cases[i].folded);
            uint64_t count = 0;
            for (uint32_t k = 0; k < p->samples_count; k++) {
                if (p->samples[k].kind == cases[i].kind) count += p->samples[k].count;
            }
            if (p->weights[cases[i].kind] != cases[i].total) print_error("%s\n", cases[i].name);
            assert_int_equal(p->weights[cases[i].kind], cases[i].total);
            assert_int_equal(count, cases[i].count);
            assert_true(cases[i].note[0] ? strstr(how.note.text, cases[i].note) != NULL
                                         : !how.note.text[0]);
            sonde_profile_destroy(p);
        }
        sonde_buf_release(&packed);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A CPU profile of gperftools in all four forms of its words. */
static void test_gperftools(void **state)
{
    (void)state;
    static const uint64_t words[] = {
        0, 3, 0, 10000, 0, 5, 3, 0x401000, 0x401000, 0x401101, 2, 1, 0x401101, 0, 1, 0
    };
    for (int form = 0; form < 4; form++) {
        struct sonde_buf b;
        struct sonde_profile *p;
        struct sonde_err err = { "" };
        struct sonde_import how = { 0 };
        sonde_buf_init(&b, 1 << 16);
        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
            const uint64_t w = form & 2 ? __builtin_bswap64(words[i]) : words[i];
            const uint32_t h = (uint32_t)words[i], half = form & 2 ? __builtin_bswap32(h) : h;
            sonde_buf_add(&b, form & 1 ? (const void *)&half : (const void *)&w, form & 1 ? 4 : 8);
        }
        const size_t words_len = b.len;
        sonde_buf_puts(&b, &MAPS[1]);
        assert_int_equal(sonde_profile_create(0, &p), 0);
        assert_int_equal(sonde_format_read(b.data, b.len, "file", &how, p, &err), 0);
        check_folded("gperftools", p, SONDE_SAMPLE_CPU,
                     "prog+0x1100;prog+0x1000 5\nprog+0x1101 2\n");
        assert_int_equal(p->weights[SONDE_SAMPLE_CPU], 70000000);
        assert_true(how.addresses && p->rate_hz > 99.9 && p->rate_hz < 100.1);
        assert_string_equal(sonde_profile_str(p, p->program), "prog");
        sonde_profile_destroy(p);
        const size_t size = form & 1 ? 4 : 8;
        for (size_t len = 6 * size; len < words_len; len++) { /* cut anywhere */
            assert_int_equal(sonde_profile_create(0, &p), 0);
            assert_int_equal(sonde_format_find("gperftools")->read(b.data, len, NULL, p, &err),
                             SONDE_EFORMAT);
            assert_non_null(strstr(err.text, "byte "));
            sonde_profile_destroy(p);
        }
        sonde_buf_release(&b);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Our own file, read again. */
static void test_speedscope_again(void **state)
{
    (void)state;
    struct sonde_profile *p, *q;
    struct sonde_err err = { "" };
    struct sonde_buf b;
    const struct sonde_profile_filter any = { .kind = -1 };
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_profile_create(0, &q), 0);
    static const char text[] = "a 1/1 1.0: 10 cpu-clock:\n\t1 f (/b)\n\t2 main (/b)\n\n"
                               "a 1/1 2.0: 30 cpu-clock:\n\t2 main (/b)\n";
    assert_int_equal(sonde_format_read(BYTES(text), "x", NULL, p, &err), 0);
    sonde_buf_init(&b, 1 << 16);
    assert_int_equal(sonde_format_find("speedscope")->write(p, &any, &b, &err), 0);
    assert_int_equal(sonde_format_read(b.data, b.len, "x", NULL, q, &err), 0);
    assert_int_equal(q->weights[SONDE_SAMPLE_CPU], 40);
    check_folded("speedscope", q, SONDE_SAMPLE_CPU, "main 1\nmain;f 1\n");
    sonde_buf_release(&b);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

/* ---- What is damaged ------------------------------------------------------------------------- */

static void test_damaged(void **state)
{
    (void)state;
    static const struct { const char *format, *data, *says; } damaged[] = {
        { "callgrind", "events: Ir\nfn=(1)\n", "line 2: a name's number that was not" },
        { "callgrind", "events: Ir\n1 2\n", "line 2: costs before the first function" },
        { "callgrind", "events: Ir\nfn=f\n1 x\n", "line 3: a cost is not a number" },
        { "callgrind", "events: Ir\nfn=f\n1 99999999999999999999\n",
          "line 3: a cost is too large" },
        { "callgrind", "events: Ir\nfn=f\ncalls=1 2\n", "line 3: calls= without" },
        { "callgrind", "events: Ir\nfn=f\n1 0\n", "no costs" },
        { "callgrind", "events: Ir\nfn=f\n?\n", "line 3: neither" },
        { "cpuprofile", "{\"nodes\":[]}", "line 1: no nodes" },
        { "cpuprofile", "{\"nodes\":[{\"callFrame\":{}}]}", "a node without an id" },
        { "cpuprofile", "{\"nodes\":[{\"id\":1},{\"id\":1}]}", "two nodes have the id 1" },
        { "cpuprofile", "{\"nodes\":[{\"id\":1,\"children\":[2]}]}", "the child 2 of node 1" },
        { "cpuprofile", "{\"nodes\":[{\"id\":1,\"hitCount\":1,\"children\":[2]},{\"id\":2,"
                        "\"children\":[1],\"hitCount\":3}]}", "is its own caller" },
        { "cpuprofile", "{\"nodes\":[{\"id\":1}],\n\"samples\":[5],\"timeDeltas\":[1]}",
          "line 2: a sample of a node that is not there" },
        { "speedscope", "{}", "no \"shared\"" },
        { "speedscope", SPEEDSCOPE("none", "\"samples\":[[5]],\"weights\":[1]"),
          "not in the list" },
        { "speedscope", SPEEDSCOPE("none", "\"samples\":[[0],[0]],\"weights\":[1]"), "no weight" },
        { "speedscope", SPEEDSCOPE("none", "\"events\":[{\"type\":\"O\",\"frame\":0,\"at\":5},"
                                   "{\"type\":\"C\",\"frame\":0,\"at\":4}]"), "earlier than" },
        { "speedscope", SPEEDSCOPE("none", "\"events\":[{\"type\":\"O\",\"frame\":0}]"),
          "without a type" },
        { "chrome", "[]", "no events in it" },
        { "chrome", "{\"traceEvents\":[\n{\"ph\":\"X\",\"ts\":-5}]}",
          "line 2: an event without a time" },
        { "chrome", "{\"traceEvents\":[\n{\"ph\":\"X\" \"ts\":5}]}", "line 2: a comma" },
        { "heap-text", "heap profile: x\n", "line 1: a heap profile's first line" },
        { "heap-text", "heap profile: 1: 2 [3: 4] @ x\n1: 2\n", "line 2: not 'count: bytes" },
        { "heap-text", "heap profile: 1: 2 [3: 4] @ x\n1: 2 [3: 4] @ zz\n", "line 2: an address" },
        { "heap-text", "heap profile: 1: 2 [3: 4] @ x\n", "no allocations" },
        { "heap-text", "heap_v2/1\n@ 0x1\n  what\n", "line 3: neither" },
        { "gperftools", "not such a file, but long enough for a header of it", "byte 0" },
    };
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        struct sonde_profile *p;
        struct sonde_err err = { "" };
        assert_int_equal(sonde_profile_create(0, &p), 0);
        const int rc = sonde_format_find(damaged[i].format)->read(
            damaged[i].data, strlen(damaged[i].data), NULL, p, &err);
        if (!strstr(err.text, damaged[i].says)) print_error("%s: %s\n", damaged[i].data, err.text);
        assert_int_equal(rc, SONDE_EFORMAT);
        assert_non_null(strstr(err.text, damaged[i].says));
        sonde_profile_destroy(p);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* What is too long or too deep is shortened, visibly, and that is said. */
static void test_limits(void **state)
{
    (void)state;
    struct sonde_buf b;
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    struct sonde_import how = { 0 };
    sonde_buf_init(&b, 1 << 24);
    for (int i = 0; i < 70000; i++) sonde_buf_printf(&b, "f%d;", i % 100);
    sonde_buf_puts(&b, "leaf 3\na;");
    for (int i = 0; i < 100000; i++) sonde_buf_puts(&b, "é");
    sonde_buf_puts(&b, " 4\n");
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_format_read(b.data, b.len, "x", &how, p, &err), 0);
    assert_non_null(strstr(how.note.text,
                           "2 names longer than 65536 bytes or stacks deeper than 65535"));
    assert_int_equal(p->weights[SONDE_SAMPLE_OTHER], 7);
    uint32_t depth = 0;
    for (uint32_t s = p->samples[0].stack; s; s = p->stacks[s].parent) depth++;
    assert_int_equal(depth, SONDE_PROFILE_DEPTH_MAX);
    const uint32_t leaf = p->stacks[p->samples[0].stack].location;
    const uint32_t function = p->lines[p->locations[leaf].line].function;
    assert_string_equal(sonde_profile_str(p, p->functions[function].name), SONDE_PROFILE_CUT_NAME);
    for (uint32_t i = 0; i < p->strings_count; i++) {
        assert_true(strlen(p->strings[i]) <= SONDE_PROFILE_TEXT_MAX);
    }
    sonde_profile_destroy(p);
    sonde_buf_release(&b);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_chosen(void **state)
{
    (void)state;
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    struct sonde_import how = { .format = "folded" };
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_format_read(BYTES("heap profile: 1: 2 [3: 4] @ x 5\n"), "x", &how, p,
                                       &err), 0);
    sonde_profile_destroy(p);
    how.format = "nothing";
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_format_read(BYTES("a 1\n"), "x", &how, p, &err), SONDE_EINVAL);
    how = (struct sonde_import){ .event = "Dr" };
    assert_int_equal(sonde_format_read(BYTES(CALLGRIND), "x", &how, p, &err), 0);
    assert_int_equal(p->weights[SONDE_SAMPLE_OTHER], 15);
    sonde_profile_destroy(p);
    assert_int_equal(sonde_profile_create(0, &p), 0);
    how.event = "Dw";
    assert_int_equal(sonde_format_read(BYTES(CALLGRIND), "x", &how, p, &err), SONDE_EINVAL);
    assert_int_equal(sonde_format_read(BYTES("\x1f\x8bgarbage"), "x", &how, p, &err),
                     SONDE_EFORMAT);
    assert_int_equal(sonde_format_read(BYTES("nothing at all"), "x", NULL, p, &err), SONDE_EFORMAT);
    assert_non_null(strstr(err.text, "callgrind"));
    sonde_profile_destroy(p);
}

/* The own cost of each function is callgrind's, also with recursion, which no stack can show, and a
 * callee without a file of its own is in the file at hand, which fi= and fe= change. */
static void test_callgrind_self(void **state)
{
    (void)state;
    static const char text[] =
        "# callgrind format\nevents: Ir\nfl=m.c\nfn=even\n1 62400\ncfn=odd\ncalls=200 2\n1 707200\n"
        "fn=odd\n1 8400\ncfn=even'2\ncalls=200 1\n1 698800\n"
        "fn=even'2\n1 623200\ncfn=odd'2\ncalls=1800 1\n1 621200\n"
        "fn=odd'2\n1 75600\ncfn=even'2\ncalls=1800 1\n1 621133\n"
        "fn=main\n1 4221\ncfn=even\ncalls=200 1\n1 769600\nfi=h.h\n2 400\ncfn=helper\n"
        "calls=200 3\n2 830320\nfe=m.c\n3 7\ncfn=tiny\ncalls=1 1\n3 4\n"
        "fn=tiny\n1 1\ncfn=tinier\ncalls=1 1\n1 3\nfn=tinier\n1 3\n"
        "fl=h.h\nfn=helper\n3 84692\ncfn=deep\ncalls=200 1\n3 745628\nfn=deep\n1 745628\n";
    static const struct { const char *name, *file; uint64_t self; } functions[] = {
        { "even", "m.c", 62400 }, { "odd", "m.c", 8400 }, { "even'2", "m.c", 623200 },
        { "odd'2", "m.c", 75600 }, { "main", "m.c", 4628 }, { "helper", "h.h", 84692 },
        { "deep", "h.h", 745628 }, { "tiny", "m.c", 1 }, { "tinier", "m.c", 3 },
    };
    enum { FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    uint64_t self[FUNCTIONS] = { 0 }, total = 0;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_format_read(text, sizeof(text) - 1, "x", NULL, p, &err), 0);
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const uint32_t location = p->stacks[p->samples[i].stack].location;
        const uint32_t line = p->locations[location].line;
        const struct sonde_profile_function *f = &p->functions[p->lines[line].function];
        for (int k = 0; k < FUNCTIONS; k++) {
            if (strcmp(sonde_profile_str(p, f->name), functions[k].name)) continue;
            assert_string_equal(sonde_profile_str(p, f->file), functions[k].file);
            self[k] += p->samples[i].weight;
        }
    }
    for (int k = 0; k < FUNCTIONS; k++) {
        if (self[k] != functions[k].self) print_error("%s\n", functions[k].name);
        assert_int_equal(self[k], functions[k].self);
        total += self[k];
    }
    assert_int_equal(p->weights[SONDE_SAMPLE_OTHER], total);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* CPU samples in a trace, beside events with a length: they are in pieces, and nodes name their
 * parents. The last sample is as long as the one before. */
static void test_trace_samples(void **state)
{
    (void)state;
#define CHUNK(nodes, samples, deltas)                                                          \
    "{\"name\":\"ProfileChunk\",\"ph\":\"P\",\"id\":\"0x1\",\"pid\":1,\"tid\":9,\"ts\":2,"     \
    "\"args\":{\"data\":{\"cpuProfile\":{\"nodes\":[" nodes "],\"samples\":[" samples "]},"    \
    "\"timeDeltas\":[" deltas "]}}}"
    static const char text[] =
        "{\"traceEvents\":[{\"name\":\"Profile\",\"ph\":\"P\",\"id\":\"0x1\",\"pid\":1,\"tid\":7,"
        "\"ts\":1000,\"args\":{\"data\":{\"startTime\":1000}}},"
        CHUNK("{\"id\":1,\"callFrame\":{\"functionName\":\"(root)\"}},"
              "{\"id\":2,\"parent\":1,\"callFrame\":{\"functionName\":\"main\"}}", "2,2", "100,100")
        "," CHUNK("{\"id\":3,\"parent\":2,\"callFrame\":{\"functionName\":\"work\"}}", "3,3,2",
                  "100,100,100")
        ",{\"name\":\"RunTask\",\"ph\":\"X\",\"ts\":1000,\"dur\":600,\"pid\":1,\"tid\":7}]}";
    const struct sonde_profile_filter cpu = { .kind = SONDE_SAMPLE_CPU };
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    struct sonde_import how = { .format = NULL };
    struct sonde_buf b;
    assert_ptr_equal(sonde_format_guess(text, sizeof(text) - 1), sonde_format_find("chrome"));
    assert_int_equal(sonde_profile_create(0, &p), 0);
    const int rc = sonde_format_read(text, sizeof(text) - 1, "x", &how, p, &err);
    if (rc) print_error("%s\n", err.text);
    assert_int_equal(rc, 0);
    assert_string_equal(how.note.text, "");
    assert_int_equal(p->weights[SONDE_SAMPLE_CPU], 500000);
    assert_int_equal(p->weights[SONDE_SAMPLE_WALL], 600000);
    for (uint32_t i = 0; i < p->samples_count; i++) {
        assert_int_equal(p->threads[p->samples[i].thread].tid, 7);
    }
    sonde_buf_init(&b, 1 << 16);
    assert_int_equal(sonde_format_find("folded")->write(p, &cpu, &b, NULL), 0);
    sonde_buf_printf(&b, "%c", 0);
    assert_non_null(strstr(b.data, "main;work "));
    sonde_buf_release(&b);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_folded_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text, *format;
        int rc;
        uint64_t weight;
        const char *says;
    } lines[] = {
        { "main;a 1.5\nmain;b 2\n", NULL, 0, 35, "one sample stands for 1/10" },
        { "main;a 0.0004\nmain;b 0.0125\nmain;c 3.25\n", NULL, 0, 3263, "for 1/1000" },
        { "main;a 3 5\nmain;b 0 7\n", NULL, SONDE_EFORMAT, 0, "sonde diff" },
        { "main;a 3 5\nmain;b 0 7\n", "folded", 0, 12, "" },
        { "main;worker 1 5\nmain;b 7\n", NULL, 0, 12, "" },
        { "main;a .5\nmain;b 7\nmain;c 1\n", NULL, 0, 8, "the first is line 1: does not end in" },
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct sonde_profile *p;
        struct sonde_err err = { "" };
        struct sonde_import how = { .format = lines[i].format };
        assert_int_equal(sonde_profile_create(0, &p), 0);
        const int rc = sonde_format_read(lines[i].text, strlen(lines[i].text), "x", &how, p, &err);
        const char *said = rc ? err.text : how.note.text;
        if (rc != lines[i].rc || !strstr(said, lines[i].says)) print_error("%zu: %s\n", i, said);
        assert_int_equal(rc, lines[i].rc);
        assert_non_null(strstr(said, lines[i].says));
        if (!rc) assert_int_equal(p->weights[SONDE_SAMPLE_OTHER], lines[i].weight);
        sonde_profile_destroy(p);
    }
}

/* A frame that is open at the end has its time until the profile's end. */
static void test_speedscope_open(void **state)
{
    (void)state;
    static const char text[] =
        "{\"shared\":{\"frames\":[{\"name\":\"a\"}]},\"profiles\":[{\"type\":\"evented\","
        "\"unit\":\"milliseconds\",\"name\":\"t\",\"startValue\":0,\"endValue\":10,"
        "\"events\":[{\"type\":\"O\",\"frame\":0,\"at\":4}]}]}";
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_format_read(text, sizeof(text) - 1, "x", NULL, p, &err), 0);
    assert_int_equal(p->weights[SONDE_SAMPLE_WALL], 6000000);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folded_numbers), cmocka_unit_test(test_speedscope_open),
        cmocka_unit_test(test_callgrind_self), cmocka_unit_test(test_trace_samples),
        cmocka_unit_test(test_known),   cmocka_unit_test(test_gperftools),
        cmocka_unit_test(test_speedscope_again), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
