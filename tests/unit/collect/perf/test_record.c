/* Records of perf events, whole and damaged, and rings of them in the order of time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/cpu/perf_blocked.h"
#include "collect/perf/limits.h"
#include "collect/perf/record.h"
#include "collect/perf/ring.h"
#include "sonde/sonde.h"
#include "unwind/arch_x86_64.h"

#define WORDS 256

/* A record that is put together word by word. */
struct made {
    union {
        struct perf_event_header header;
        uint64_t words[WORDS];
    } u;
    uint32_t count;
};

static void put(struct made *m, uint64_t word)
{
    assert_true(m->count < WORDS);
    m->u.words[m->count++] = word;
}

static void begin(struct made *m, uint32_t type, uint16_t misc)
{
    memset(m, 0, sizeof(*m));
    m->u.header.type = type;
    m->u.header.misc = misc;
    m->count = 1;
}

static const struct perf_event_header *end(struct made *m)
{
    m->u.header.size = (uint16_t)(m->count * 8);
    return &m->u.header;
}

static uint64_t two(uint32_t low, uint32_t high) { return (uint64_t)high << 32 | low; }

static const struct perf_event_header *end_with_trailer(struct made *m, uint64_t time)
{
    put(m, two(70, 71));
    put(m, time);
    put(m, 5);
    return end(m);
}

static void put_text(struct made *m, const char *s)
{
    char text[64] = { 0 };
    const size_t words = strlen(s) / 8 + 1;
    strcpy(text, s);
    for (size_t i = 0; i < words; i++) {
        uint64_t w;
        memcpy(&w, text + i * 8, 8);
        put(m, w);
    }
}

/* ---- Records --------------------------------------------------------------------------------- */

enum { STACK_WORDS = 4 };

static const struct perf_event_header *make_sample(struct made *m, uint64_t abi, uint64_t stack,
                                                   uint64_t filled, uint64_t chain)
{
    begin(m, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
    put(m, 5);
    put(m, 0x1000);
    put(m, two(10, 11));
    put(m, 12345);
    put(m, 1000000);
    if (chain != UINT64_MAX) {
        put(m, chain);
        for (uint64_t i = 0; i < chain && i < 8; i++) put(m, 0x100 + i);
    }
    put(m, abi);
    for (uint64_t i = 0; abi && i < SONDE__ARCH_PERF_REG_COUNT; i++) put(m, 0x2000 + i);
    put(m, stack);
    for (uint64_t i = 0; i < stack / 8 && i < STACK_WORDS; i++) put(m, 0x3000 + i);
    if (stack) put(m, filled);
    return end(m);
}

static void test_sample(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t abi, stack, filled, chain;
        int rc, has_user;
    } cases[] = {
        { "whole", PERF_SAMPLE_REGS_ABI_64, 32, 32, UINT64_MAX, 0, 1 },
        { "with kernel frames", PERF_SAMPLE_REGS_ABI_64, 32, 16, 3, 0, 1 },
        { "no user part", PERF_SAMPLE_REGS_ABI_NONE, 0, 0, 2, 0, 0 },
        { "a 32-bit process", PERF_SAMPLE_REGS_ABI_32, 32, 32, UINT64_MAX, 0, 0 },
        { "unknown abi", 3, 32, 32, UINT64_MAX, SONDE_EFORMAT, 0 },
        { "filled past the copy", PERF_SAMPLE_REGS_ABI_64, 32, 33, UINT64_MAX, SONDE_EFORMAT, 0 },
        { "stack past the end", PERF_SAMPLE_REGS_ABI_64, 64, 8, UINT64_MAX, SONDE_EFORMAT, 0 },
        { "huge stack", PERF_SAMPLE_REGS_ABI_64, UINT64_MAX - 7, 8, UINT64_MAX, SONDE_EFORMAT, 0 },
        { "stack of odd size", PERF_SAMPLE_REGS_ABI_64, 31, 8, UINT64_MAX, SONDE_EFORMAT, 0 },
        { "chain past the end", PERF_SAMPLE_REGS_ABI_64, 32, 32, 1000, SONDE_EFORMAT, 0 },
        { "huge chain", PERF_SAMPLE_REGS_ABI_64, 32, 32, UINT64_MAX - 1, SONDE_EFORMAT, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct made m;
        struct sonde_perf_record r;
        const int chain = cases[i].chain != UINT64_MAX;
        const struct perf_event_header *h =
            make_sample(&m, cases[i].abi, cases[i].stack, cases[i].filled, cases[i].chain);
        const int rc = sonde_perf_record_parse(h, chain, &r);
        if (rc != cases[i].rc) fail_msg("%s: %d", cases[i].name, rc);
        if (rc) continue;
        assert_int_equal(r.pid, 10);
        assert_int_equal(r.tid, 11);
        assert_int_equal(r.id, 5);
        assert_int_equal(r.time_ns, 12345);
        assert_int_equal(r.u.sample.period, 1000000);
        assert_int_equal(r.u.sample.has_user, cases[i].has_user);
        assert_int_equal(r.u.sample.stack_len, cases[i].filled);
        if (chain) assert_int_equal(r.u.sample.chain_count, cases[i].chain);
        if (!r.u.sample.has_user) continue;
        assert_int_equal(r.u.sample.regs.bp, 0x2006);
        assert_int_equal(r.u.sample.regs.sp, 0x2007);
        assert_int_equal(r.u.sample.regs.ip, 0x2008);
        assert_int_equal(*(const uint64_t *)r.u.sample.stack, 0x3000);
    }
}

/* What a BPF program has put out: a size of 32 bits, and so many bytes. */
static void test_output(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t size;
        uint32_t words;          /* there are, the size's own among them */
        int rc;
    } cases[] = {
        { "fills it", 12, 2, 0 },
        { "empty", 0, 1, 0 },
        { "past the end", 13, 2, SONDE_EFORMAT },
        { "huge", UINT32_MAX, 2, SONDE_EFORMAT },
        { "no size", 0, 0, SONDE_EFORMAT },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct made m;
        struct sonde_perf_record r;
        begin(&m, PERF_RECORD_SAMPLE, 0);
        put(&m, 5);                       /* id */
        put(&m, 0x4000);                  /* ip */
        put(&m, 11ull << 32 | 10);        /* tid, pid */
        put(&m, 12345);
        put(&m, 1);                       /* period */
        for (uint32_t w = 0; w < cases[i].words; w++) put(&m, w ? 0x77 : cases[i].size);
        const struct perf_event_header *h = end(&m);
        assert_int_equal(sonde_perf_record_event(h), 5);
        const int rc = sonde_perf_record_parse_output(h, &r);
        if (rc != cases[i].rc) fail_msg("%s: %d", cases[i].name, rc);
        if (rc) continue;
        assert_int_equal(r.pid, 10);
        assert_int_equal(r.tid, 11);
        assert_int_equal(r.id, 5);
        assert_int_equal(r.time_ns, 12345);
        assert_int_equal(r.u.output.size, cases[i].size);
        if (cases[i].words > 1) assert_int_equal(((const char *)r.u.output.data)[4], 0x77);
    }
}

static void test_others(void **state)
{
    (void)state;
    struct made m;
    struct sonde_perf_record r;

    begin(&m, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
    put(&m, two(10, 11));
    put_text(&m, "a name of 15 chr");
    assert_int_equal(sonde_perf_record_parse(end_with_trailer(&m, 99), 0, &r), 0);
    assert_int_equal(r.pid, 10);
    assert_int_equal(r.tid, 11);
    assert_int_equal(r.time_ns, 99);
    assert_string_equal(r.u.comm.name, "a name of 15 ch");

    begin(&m, PERF_RECORD_MMAP2, 0);
    put(&m, two(10, 11));
    put(&m, 0x7000);
    put(&m, 0x2000);
    put(&m, 0x1000);
    put(&m, two(8, 1));
    put(&m, 1234);
    put(&m, 0);
    put(&m, two(5, 2)); /* PROT_READ | PROT_EXEC */
    put_text(&m, "/usr/bin/thing");
    assert_int_equal(sonde_perf_record_parse(end_with_trailer(&m, 99), 0, &r), 0);
    assert_int_equal(r.u.map.start, 0x7000);
    assert_int_equal(r.u.map.end - r.u.map.start, 0x2000);
    assert_int_equal(r.u.map.offset, 0x1000);
    assert_int_equal(r.u.map.inode, 1234);
    assert_int_equal(r.u.map.executable, 1);
    assert_string_equal(r.u.map.path, "/usr/bin/thing");

    begin(&m, PERF_RECORD_FORK, 0);
    put(&m, two(20, 10));
    put(&m, two(21, 11));
    put(&m, 99);
    assert_int_equal(sonde_perf_record_parse(end_with_trailer(&m, 99), 0, &r), 0);
    assert_int_equal(r.pid, 20);
    assert_int_equal(r.tid, 21);
    assert_int_equal(r.u.task.parent_pid, 10);
    assert_int_equal(r.u.task.parent_tid, 11);

    begin(&m, PERF_RECORD_LOST, 0);
    put(&m, 5);
    put(&m, 17);
    assert_int_equal(sonde_perf_record_parse(end_with_trailer(&m, 99), 0, &r), 0);
    assert_int_equal(r.u.lost, 17);

    begin(&m, PERF_RECORD_SWITCH, PERF_RECORD_MISC_SWITCH_OUT);
    assert_int_equal(sonde_perf_record_parse(end_with_trailer(&m, 99), 0, &r), 0);
    assert_int_equal(r.pid, 70);
    assert_int_equal(r.tid, 71);
}

static void test_damaged(void **state)
{
    (void)state;
    struct made m;
    struct sonde_perf_record r;

    begin(&m, PERF_RECORD_COMM, 0); /* a name without an end */
    put(&m, two(10, 11));
    put(&m, 0x4141414141414141u);
    assert_int_equal(sonde_perf_record_parse(end_with_trailer(&m, 9), 0, &r), SONDE_EFORMAT);
    static const uint32_t types[] = { PERF_RECORD_COMM, PERF_RECORD_MMAP2, PERF_RECORD_FORK,
                                      PERF_RECORD_EXIT, PERF_RECORD_LOST,
                                      PERF_RECORD_LOST_SAMPLES };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) { /* nothing but the trailer */
        begin(&m, types[i], 0);
        assert_int_equal(sonde_perf_record_parse(end_with_trailer(&m, 9), 0, &r), SONDE_EFORMAT);
    }
    begin(&m, PERF_RECORD_SWITCH, 0);
    for (uint16_t size = 0; size < SONDE_PERF_RECORD_MIN; size++) {
        m.u.header.size = size;
        assert_int_equal(sonde_perf_record_parse(&m.u.header, 0, &r), SONDE_EFORMAT);
    }

    /* Anything at all is taken or refused without reading behind its end. */
    srand(1);
    for (int n = 0; n < 200000; n++) {
        const size_t words = 4 + (size_t)rand() % 60;
        uint64_t *copy = malloc(words * 8); /* of just the size, for the sanitizer */
        assert_non_null(copy);
        make_sample(&m, PERF_SAMPLE_REGS_ABI_64, 32, 32, 3);
        for (size_t i = 0; i < words; i++) {
            copy[i] = rand() % 4 ? m.u.words[i] : (uint64_t)rand() % 70;
        }
        struct perf_event_header *h = (struct perf_event_header *)(void *)copy;
        h->type = (uint32_t)rand() % 20;
        h->size = (uint16_t)(words * 8);
        if (!sonde_perf_record_parse(h, rand() % 2, &r) && h->type == PERF_RECORD_SAMPLE) {
            assert_true(r.u.sample.stack_len <= r.u.sample.stack_max);
            assert_true(r.u.sample.stack_max <= words * 8);
        }
        free(copy);
    }
}

/* ---- Rings ----------------------------------------------------------------------------------- */

enum { RING = 4096 };

struct fake {
    struct perf_event_mmap_page page;
    char data[RING] __attribute__((aligned(8)));
};

static void write_record(struct fake *f, const struct perf_event_header *h)
{
    for (uint16_t i = 0; i < h->size; i++) {
        f->data[(f->page.data_head + i) % RING] = ((const char *)h)[i];
    }
    f->page.data_head += h->size;
}

static struct sonde_perf_ring ring_of(struct fake *f)
{
    return (struct sonde_perf_ring){ .page = &f->page, .data = f->data, .size = RING, .fd = -1 };
}

static void test_order(void **state)
{
    (void)state;
    static struct fake fakes[3];
    struct sonde_perf_ring rings[3];
    struct sonde_perf_rings s;
    struct made m;
    uint64_t written[3] = { 0 }, given[3] = { 0 }, last = 0, time = 1000;
    uint32_t ring;
    const struct perf_event_header *h;
    memset(fakes, 0, sizeof(fakes));
    for (int i = 0; i < 3; i++) {
        /* Records begin near the end, so that they wrap. */
        fakes[i].page.data_head = fakes[i].page.data_tail = RING * 7u - 8u * (unsigned)(i + 1);
        rings[i] = ring_of(&fakes[i]);
        rings[i].tail = fakes[i].page.data_tail;
    }
    assert_int_equal(sonde_perf_rings_init(&s, rings, 3), 0);
    srand(2);
    for (int round = 0; round < 500; round++) {
        for (int n = 0; n < 10; n++) {
            const int i = rand() % 3;
            time += (uint64_t)rand() % 3;
            if (rand() % 2) {
                make_sample(&m, PERF_SAMPLE_REGS_ABI_64, 32, 32, UINT64_MAX);
                m.u.words[4] = time;
            } else {
                begin(&m, PERF_RECORD_SWITCH, 0);
                end_with_trailer(&m, time);
            }
            const uint64_t used = fakes[i].page.data_head - fakes[i].page.data_tail;
            if (used + m.u.header.size > RING) continue;
            write_record(&fakes[i], &m.u.header);
            written[i]++;
        }
        const uint64_t limit = round == 499 ? UINT64_MAX : time - 5;
        sonde_perf_rings_begin(&s, limit);
        while ((h = sonde_perf_rings_next(&s, &ring))) {
            struct sonde_perf_record r;
            assert_int_equal(sonde_perf_record_parse(h, 0, &r), 0);
            assert_true(r.time_ns >= last && r.time_ns < limit);
            last = r.time_ns;
            given[ring]++;
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_true(written[i] > 100);
        assert_int_equal(given[i], written[i]);
        assert_int_equal(fakes[i].page.data_tail, fakes[i].page.data_head);
    }
    assert_int_equal(sonde_perf_rings_damaged(&s), 0);
    sonde_perf_rings_release(&s);
}

/* A ring that makes no sense is left alone; the others go on. */
static void test_ring_damaged(void **state)
{
    (void)state;
    static const uint16_t sizes[] = { 0, 8, 24, 33, 4000 };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        static struct fake fakes[2];
        struct sonde_perf_ring rings[2];
        struct sonde_perf_rings s;
        struct made m;
        uint32_t ring, count = 0;
        memset(fakes, 0, sizeof(fakes));
        for (int k = 0; k < 2; k++) {
            rings[k] = ring_of(&fakes[k]);
            begin(&m, PERF_RECORD_SWITCH, 0);
            write_record(&fakes[k], end_with_trailer(&m, 7));
        }
        memcpy(fakes[0].data + 6, &sizes[i], 2); /* header.size */
        assert_int_equal(sonde_perf_rings_init(&s, rings, 2), 0);
        sonde_perf_rings_begin(&s, UINT64_MAX);
        while (sonde_perf_rings_next(&s, &ring)) count += ring;
        assert_int_equal(count, 1);
        assert_int_equal(sonde_perf_rings_damaged(&s), 1);
        sonde_perf_rings_release(&s);
    }
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void test_cpu_list(void **state)
{
    (void)state;
    static const struct { const char *text; uint32_t count; int last; } cases[] = {
        { "0\n", 1, 0 },       { "0-3\n", 4, 3 },   { "0-1,4,6-7\n", 5, 7 }, { "", 0, 0 },
        { "3-1\n", 0, 0 },     { "x\n", 0, 0 },     { "0-\n", 0, 0 },        { "1,,2\n", 0, 0 },
        { "99999999999\n", 0, 0 }, { "0 1\n", 0, 0 }, { "0-63\n", 16, 15 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int cpus[16] = { 0 };
        const uint32_t n = sonde_perf_cpu_list(cases[i].text, strlen(cases[i].text), cpus, 16);
        if (n != cases[i].count || (n && cpus[n - 1] != cases[i].last)) {
            fail_msg("%s: %u", cases[i].text, n);
        }
    }
}

static void test_explain(void **state)
{
    (void)state;
    static const struct { int error, rc; const char *says; } cases[] = {
        { ESRCH, SONDE_ENOENT, "no process 42" }, { EMFILE, SONDE_EFULL, "ulimit -n" },
        { EACCES, SONDE_EACCES, "timer engine" }, { ENOSYS, SONDE_EACCES, "no perf events" },
        { ENOMEM, SONDE_ENOMEM, "memory" },       { EBUSY, SONDE_EIO, "busy" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_err err = { "" };
        assert_int_equal(sonde_perf_explain(cases[i].error, 42, &err), cases[i].rc);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s", err.text);
    }
}

static void test_blocked(void **state)
{
    (void)state;
    static const struct { const char *text; int rc; uint64_t sp, ip; } cases[] = {
        { "7 0x7ffd 0x1 0x1388 0x0 0x0 0x0 0x7ffd10 0x7f20\n", 0, 0x7ffd10, 0x7f20 },
        { "-1 0x7ffd10 0x7f20\n", 0, 0x7ffd10, 0x7f20 },
        { "running\n", SONDE_EBUSY, 0, 0 },
        { "", SONDE_EFORMAT, 0, 0 },
        { "7\n", SONDE_EFORMAT, 0, 0 },
        { "7 0x1 0x2 0x3\n", SONDE_EFORMAT, 0, 0 },
        { "7 x y\n", SONDE_EFORMAT, 0, 0 },
        { "-1 0x1ffffffffffffffff 0x1\n", SONDE_EFORMAT, 0, 0 },
        { "7 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8 0x9 0x10\n", SONDE_EFORMAT, 0, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t sp = 0, ip = 0;
        const int rc = sonde_perf_blocked_parse(cases[i].text, &sp, &ip);
        if (rc != cases[i].rc || sp != cases[i].sp || ip != cases[i].ip) {
            fail_msg("%s: %d", cases[i].text, rc);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample),       cmocka_unit_test(test_output),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_damaged),      cmocka_unit_test(test_order),
        cmocka_unit_test(test_ring_damaged), cmocka_unit_test(test_cpu_list),
        cmocka_unit_test(test_explain),      cmocka_unit_test(test_blocked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
