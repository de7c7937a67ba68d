/* What writer and reader of a segment must agree on: the layout, check sums, the sizes of records,
 * and what /proc says about a process. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "segment/calls.h"
#include "segment/heap.h"
#include "segment/llama.h"
#include "segment/segment.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- Layout ---------------------------------------------------------------------------------- */

/* Programs that were linked years ago write these words: a new field goes where padding was, or
 * SONDE__ABI is raised and this table with it. */
static void layout_is_pinned(void **state)
{
    (void)state;
    static const struct { const char *what; size_t is, should; } cases[] = {
#define AT(s, field, off) { #s "." #field, offsetof(struct s, field), off }
        AT(sonde__header, magic, 0),        AT(sonde__header, abi, 8),
        AT(sonde__header, check, 12),       AT(sonde__header, file_bytes, 16),
        AT(sonde__header, start_time, 24),  AT(sonde__header, pid, 32),
        AT(sonde__header, uid, 36),         AT(sonde__header, boot_id, 40),
        AT(sonde__header, exec_id, 56),     AT(sonde__header, program, 72),
        AT(sonde__header, family_off, 136), AT(sonde__header, block_max, 192),
        AT(sonde__header, family_max, 200), AT(sonde__header, lanes_shared, 212),
        AT(sonde__header, tsc, 216),        AT(sonde__header, parent_pid, 220),
        AT(sonde__header, tick0, 224),      AT(sonde__header, bytes_max, 248),
        AT(sonde__header, group, 256),      AT(sonde__header, pid_ns, 264),
        AT(sonde__header, time_ns, 272),    AT(sonde__header, family_count, 320),
        AT(sonde__header, block_used, 384),  AT(sonde__header, heartbeat_ns, 448),
        AT(sonde__header, define_lock, 512), AT(sonde__header, drops, 640),
        AT(sonde__header, named, 704),      AT(sonde__header, name, 708),
        AT(sonde__family, scale, 48),       AT(sonde__family, check, 76),
        AT(sonde__family, index, 96),       AT(sonde__series, values, 8),
        AT(sonde__series, hash, 16),        AT(sonde__series, check, 32),
        AT(sonde__lane, ring, 16),          AT(sonde__lane, hist_none, 56),
        AT(sonde__sampler, reserve, 64),    AT(sonde__sampler, state, 128),
        AT(sonde__sampler, chunk, 192),     AT(sonde__heap_node, parent, 8),
        AT(sonde__heap_row, mapped_bytes, 56),
        { "fixed part of the header", SONDE__HEADER_FIXED, 320 },
        { "fixed part of a family", SONDE__FAMILY_FIXED, 76 },
        { "fixed part of a series", SONDE__SERIES_FIXED, 32 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (cases[i].is != cases[i].should) {
            fail_msg("%s is %zu, not %zu", cases[i].what, cases[i].is, cases[i].should);
        }
    }
    assert_int_equal(SONDE__ABI, 5);
    uint64_t magic = SONDE__MAGIC;
    assert_memory_equal(&magic, "\xffsonde1\n", 8);
}

static void lanes_are_evenly_spaced(void **state)
{
    (void)state;
    const struct sonde__header h = { .lane_off = 1 << 20, .lane_stride = 3 * 4096 };
    assert_int_equal(sonde__lane_at(&h, 0), 1 << 20);
    assert_int_equal(sonde__lane_at(&h, 7), (1 << 20) + 7 * 3 * 4096);
    const struct sonde__header far = { .lane_off = 4096, .lane_stride = UINT32_MAX };
    assert_true(sonde__lane_at(&far, UINT32_MAX) == 4096 + (uint64_t)UINT32_MAX * UINT32_MAX);
}

/* ---- Check sums ------------------------------------------------------------------------------ */

static void check_is_fnv(void **state)
{
    (void)state;
    static const struct { const char *text; uint32_t sum; } cases[] = {
        { "", 0x811c9dc5u }, { "a", 0xe40c292cu }, { "b", 0xe70c2de5u }, { "foobar", 0xbf9cf968u },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(sonde__check(SONDE__CHECK_SEED, cases[i].text, strlen(cases[i].text)),
                         cases[i].sum);
    }
    /* In parts it is the same. */
    const uint32_t foo = sonde__check(SONDE__CHECK_SEED, "foo", 3);
    assert_int_equal(sonde__check(foo, "bar", 3), 0xbf9cf968u);
    /* Bytes are unsigned. */
    const unsigned char high = 0xff;
    assert_int_equal(sonde__check(SONDE__CHECK_SEED, &high, 1), (0x811c9dc5u ^ 0xffu) * 16777619u);
}

/* Every bit of the fixed part counts, but for the sum's own; what changes later does not. */
static void header_check_covers_what_is_fixed(void **state)
{
    (void)state;
    static struct sonde__header h;
    unsigned char *bytes = (unsigned char *)&h;
    for (size_t i = 0; i < sizeof(h); i++) bytes[i] = (unsigned char)(i * 37 + 11);
    const uint32_t sum = sonde__header_check(&h);
    for (size_t i = 0; i < sizeof(h); i++) {
        const int own = i >= offsetof(struct sonde__header, check) &&
                        i < offsetof(struct sonde__header, check) + sizeof(h.check);
        const int counts = i < SONDE__HEADER_FIXED && !own;
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[i] ^= (unsigned char)(1u << bit);
            if ((sonde__header_check(&h) != sum) != counts) fail_msg("byte %zu, bit %u", i, bit);
            bytes[i] ^= (unsigned char)(1u << bit);
        }
    }
}

static void expect_flips(unsigned char *bytes, size_t len, size_t fixed,
                         uint32_t (*sum)(const char *strings), const char *strings)
{
    const uint32_t before = sum(strings);
    for (size_t i = 0; i < len; i++) {
        bytes[i] ^= 0x20;
        if ((sum(strings) != before) != (i < fixed)) fail_msg("byte %zu", i);
        bytes[i] ^= 0x20;
    }
}

static struct sonde__family family;
static struct sonde__series series;
static uint32_t family_sum(const char *strings) { return sonde__family_check(&family, strings); }
static uint32_t series_sum(const char *strings) { return sonde__series_check(&series, strings); }

/* Strings are flipped as the family's own bytes are: all that are referred to, no others. Offsets
 * are checked against the area before, so here they are kept in it. */
static void family_check_covers_its_texts(void **state)
{
    (void)state;
    char strings[64] = "name|help|unit|source|labels|tags|not ours";
    family = (struct sonde__family){ .name = { 0, 4 }, .help = { 5, 4 }, .unit = { 10, 4 },
                                     .source = { 15, 6 }, .labels = { 22, 6 }, .tags = { 29, 4 },
                                     .scale = 1e-9, .type = SONDE_HISTOGRAM, .label_count = 1,
                                     .series_max = 100 };
    const uint32_t sum = family_sum(strings);
    for (size_t i = 0; i < 42; i++) {
        const int ours = i < 33 && strings[i] != '|';
        strings[i] ^= 1;
        if ((family_sum(strings) != sum) != ours) fail_msg("string byte %zu", i);
        strings[i] ^= 1;
    }
    /* Behind the strings' places, so that flipping those does not lead out of the area. */
    const size_t from = offsetof(struct sonde__family, scale);
    expect_flips((unsigned char *)&family + from, sizeof(family) - from, SONDE__FAMILY_FIXED - from,
                 family_sum, strings);
    family.name = (struct sonde__str){ 1, 3 };
    assert_int_not_equal(family_sum(strings), sum);
}

static void series_check_covers_its_values(void **state)
{
    (void)state;
    char strings[16] = "x\2\0ab|";
    series = (struct sonde__series){ .family = 3, .flags = SONDE__SERIES_OVERFLOW,
                                     .values = { 1, 4 }, .hash = 0x1122334455667788ull,
                                     .created_ns = 99 };
    const uint32_t sum = series_sum(strings);
    for (size_t i = 0; i < 8; i++) {
        strings[i] ^= 1;
        if ((series_sum(strings) != sum) != (i >= 1 && i < 5)) fail_msg("string byte %zu", i);
        strings[i] ^= 1;
    }
    const size_t from = offsetof(struct sonde__series, hash);
    expect_flips((unsigned char *)&series + from, sizeof(series) - from, SONDE__SERIES_FIXED - from,
                 series_sum, strings);
}

/* ---- Records --------------------------------------------------------------------------------- */

/* A record of n chunks has room for what it holds, and one of n - 1 has not. */
static void chunks_hold_their_record(void **state)
{
    (void)state;
    for (uint32_t depth = 0; depth <= SONDE__DEPTH_MAX; depth++) {
        const uint32_t n = sonde__sample_chunks(depth);
        assert_true(SONDE__SAMPLE_FIRST + 7 * (n - 1) >= depth);
        if (n > 1) assert_true(SONDE__SAMPLE_FIRST + 7 * (n - 2) < depth);
    }
    for (uint32_t len = 0; len <= SONDE__MAP_PATH_MAX; len++) {
        const uint32_t n = sonde__map_chunks(len);
        assert_true(SONDE__MAP_FIRST + 56 * (n - 1) >= len);
        if (n > 1) assert_true(SONDE__MAP_FIRST + 56 * (n - 2) < len);
    }
    assert_int_equal(sonde__sample_chunks(0), 1);
    assert_int_equal(sonde__map_chunks(0), 1);
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Each argument tells spans apart, and none has the id 0, which is no span. Times a microsecond
 * apart, as those of one thread are. */
static void phase_ids_differ(void **state)
{
    (void)state;
    enum { N = 16 };
    static uint64_t ids[N * N * N * N];
    size_t n = 0;
    for (uint64_t begin = 0; begin < N; begin++) {
        for (uint64_t parent = 0; parent < N; parent++) {
            for (uint32_t tid = 0; tid < N; tid++) {
                for (uint32_t kind = 0; kind < N; kind++) {
                    ids[n] = sonde__phase_id((1 << 20) + (begin << 10), parent << 20, 4000 + tid,
                                             kind);
                    assert_true(ids[n] & 1);
                    n++;
                }
            }
        }
    }
    qsort(ids, n, sizeof(*ids), ascending);
    for (size_t i = 1; i < n; i++) assert_true(ids[i] != ids[i - 1]);
    assert_int_equal(sonde__phase_id(0, 0, 0, 0), 1);
    assert_true(sonde__phase_id(UINT64_MAX, UINT64_MAX, UINT32_MAX, SONDE__PHASE_BATCH) != 0);
}

static void size_classes(void **state)
{
    (void)state;
    static const struct { uint64_t bytes; uint32_t class; } cases[] = {
        { 0, 0 },   { 3, 0 },   { 4, 1 },   { 15, 3 },  { 16, 4 },  { 19, 4 },  { 20, 5 },
        { 31, 7 },  { 32, 8 },  { 40, 9 },  { 63, 11 }, { 64, 12 }, { 1024, 28 },
        { (1u << 18) - 1, 59 }, { 1u << 18, 60 }, { UINT64_MAX, 63 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const uint32_t got = sonde__heap_size_class(cases[i].bytes);
        if (got != cases[i].class) fail_msg("%llu: %u", (unsigned long long)cases[i].bytes, got);
    }
    uint32_t before = 0;
    for (uint64_t bytes = 0; bytes < 1 << 20; bytes++) { /* no class is left out, none comes back */
        const uint32_t c = sonde__heap_size_class(bytes);
        assert_true(c == before || c == before + 1);
        before = c;
    }
    assert_int_equal(before, SONDE__HEAP_SIZES - 1);
}

static void lifetime_classes(void **state)
{
    (void)state;
    assert_int_equal(sonde__heap_lifetime_class(0), 0);
    for (uint32_t log = 0; log < 64; log++) {
        const uint32_t last = SONDE__HEAP_LIFETIMES - 1, expected = log + 1 < last ? log + 1 : last;
        assert_int_equal(sonde__heap_lifetime_class(1ull << log), expected);
        assert_int_equal(sonde__heap_lifetime_class((1ull << log) + ((1ull << log) - 1)), expected);
    }
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Arguments of a call are at most six, and no call is asked about twice. */
static void calls_are_each_listed_once(void **state)
{
    (void)state;
    static const struct { const char *name; long nr; uint64_t arg[6]; } calls[] = {
#define CALL(name, ...) { #name, SYS_##name, { __VA_ARGS__ } },
        SONDE__CALLS(CALL)
    };
    for (size_t i = 0; i < COUNT(calls); i++) {
        assert_true(calls[i].nr >= 0);
        for (size_t j = 0; j < i; j++) {
            if (calls[i].nr == calls[j].nr) fail_msg("%s and %s", calls[i].name, calls[j].name);
        }
    }
    assert_true(COUNT(calls) > 15);
}

static void llama_functions_are_each_listed_once(void **state)
{
    (void)state;
    static const char *const names[] = {
#define FUNCTION(id, symbol, a, b, c, absent) [SONDE__LLAMA_##id] = symbol,
        SONDE__LLAMA_FUNCTIONS(FUNCTION)
    };
    assert_int_equal(COUNT(names), SONDE__LLAMA_COUNT);
    assert_true(SONDE__LLAMA_COUNT < 256); /* it has eight bits in a record */
    for (size_t i = 0; i < COUNT(names); i++) {
        if (strncmp(names[i], "llama_", 6) && strncmp(names[i], "ggml_", 5)) {
            fail_msg("%s", names[i]);
        }
        for (size_t j = 0; j < i; j++) assert_string_not_equal(names[i], names[j]);
    }
    assert_true(SONDE__LLAMA_TAIL(-1, -1) == SONDE__LLAMA_TAIL_NONE);
    assert_true(SONDE__LLAMA_TAIL(1, 2) == 0x100000002ull);
    assert_true(SONDE__LLAMA_TAIL(-1, 5) == 0xffffffff00000005ull);
}

/* ---- Processes ------------------------------------------------------------------------------- */

/* Field 22 in another way: from the end of the line, which has 52 fields. */
static uint64_t start_from_the_end(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    const int fd = open(path, O_RDONLY);
    const ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    assert_true(n > 0);
    size_t end = (size_t)n;
    for (int field = 52; field > 22; field--) {
        while (text[end - 1] != ' ') end--;
        end--;
    }
    text[end] = '\0';
    return strtoull(strrchr(text, ' ') + 1, NULL, 10);
}

/* A program may call itself anything. */
static void start_time_whatever_its_name(void **state)
{
    (void)state;
    static const char *const names[] = { "plain", "a b c", ")", "x) S 1 2 3", "((((", "1 (2) 3 )",
                                         "", "\n) 7 7 7 7 7 7", "0123456789abcdef" };
    char before[17] = "";
    assert_int_equal(prctl(PR_GET_NAME, before), 0);
    const uint64_t start = start_from_the_end(getpid());
    assert_true(start > 0);
    for (size_t i = 0; i < COUNT(names); i++) {
        assert_int_equal(prctl(PR_SET_NAME, names[i]), 0);
        if (sonde__start_time(0) != start) fail_msg("as '%s'", names[i]);
        if (sonde__start_time((uint32_t)getpid()) != start) fail_msg("as '%s', by pid", names[i]);
    }
    prctl(PR_SET_NAME, before);
}

static void start_time_of_others(void **state)
{
    (void)state;
    int hold[2];
    assert_int_equal(pipe(hold), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        char c;
        close(hold[1]);
        _exit(read(hold[0], &c, 1) != 0);
    }
    close(hold[0]);
    assert_int_equal(sonde__start_time((uint32_t)pid), start_from_the_end(pid));
    assert_true(sonde__start_time((uint32_t)pid) >= sonde__start_time(0));
    close(hold[1]);
    waitpid(pid, NULL, 0);
    assert_int_equal(sonde__start_time((uint32_t)pid), 0); /* gone, and waited for */
    assert_int_equal(sonde__start_time(INT32_MAX), 0);
    assert_int_equal(sonde__start_time(UINT32_MAX), 0);
}

static void boot_id_is_the_kernels(void **state)
{
    (void)state;
    uint8_t id[16];
    char text[40], expected[64] = "";
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY);
    if (fd < 0) skip();
    assert_int_equal(read(fd, expected, 36), 36);
    close(fd);
    memset(id, 0xee, sizeof(id));
    sonde__boot_id(id);
    size_t at = 0;
    for (size_t i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) text[at++] = '-';
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%02x", id[i]);
    }
    assert_string_equal(text, expected);
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(layout_is_pinned), T(lanes_are_evenly_spaced), T(check_is_fnv),
        T(header_check_covers_what_is_fixed), T(family_check_covers_its_texts),
        T(series_check_covers_its_values), T(chunks_hold_their_record), T(phase_ids_differ),
        T(size_classes), T(lifetime_classes), T(calls_are_each_listed_once),
        T(llama_functions_are_each_listed_once), T(start_time_whatever_its_name),
        T(start_time_of_others), T(boot_id_is_the_kernels),
    };
    return cmocka_run_group_tests_name("segment", tests, NULL, NULL);
}
