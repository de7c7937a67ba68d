/* Address spaces: mappings that come, are covered and split; modules shared, dropped, found
 * after their file was deleted or replaced; and stacks of this very process, by two methods. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "base/alloc.h"
#include "collect/aspace/aspace.h"
#include "profile/profile.h"
#include "sonde/sonde.h"
#include "unwind/arch_x86_64.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define FRAMES 512

static struct sonde_modules *modules;

static int setup(void **state)
{
    (void)state;
    return sonde_modules_create(0, &modules);
}

static int teardown(void **state)
{
    (void)state;
    sonde_modules_destroy(modules);
    return sonde__alloc_live() ? -1 : 0;
}

/* ---- Mappings ----------------------------------------------------------------------------- */

static int map(struct sonde_aspace *as, uint64_t start, uint64_t len, uint64_t offset,
               const char *path, int executable)
{
    return sonde_aspace_map(as, &(struct sonde_mapping){ .start = start, .end = start + len,
                                                         .offset = offset, .path = path,
                                                         .executable = executable });
}

static void assert_mapped(struct sonde_aspace *as, uint64_t addr, const char *path, uint64_t start,
                          uint64_t end, uint64_t offset)
{
    struct sonde_aspace_texts texts;
    struct sonde_module m;
    if (!path) {
        assert_int_equal(sonde_aspace_module(as, addr, &texts, &m), SONDE_ENOENT);
        assert_int_equal(sonde_aspace_mapping(as, addr), 0);
        return;
    }
    assert_int_equal(sonde_aspace_module(as, addr, &texts, &m), 0);
    assert_string_equal(m.path, path);
    assert_int_equal(m.start, start);
    assert_int_equal(m.end, end);
    assert_int_equal(m.offset, offset);
}

static void newest_mapping_holds(void **state)
{
    (void)state;
    struct sonde_aspace *as, *child;
    assert_int_equal(sonde_aspace_create(modules, UINT32_MAX, &as), 0);
    assert_int_equal(map(as, 0x10000, 0x8000, 0x1000, "/no/a", 1), 0);
    assert_int_equal(map(as, 0x20000, 0x1000, 0, "/no/b", 1), 0);
    assert_mapped(as, 0xffff, NULL, 0, 0, 0);
    assert_mapped(as, 0x10000, "/no/a", 0x10000, 0x18000, 0x1000);
    assert_mapped(as, 0x17fff, "/no/a", 0x10000, 0x18000, 0x1000);
    assert_mapped(as, 0x18000, NULL, 0, 0, 0);

    /* In the middle: three pieces. */
    const uint64_t before = sonde_aspace_mapping(as, 0x10000);
    assert_int_equal(map(as, 0x12000, 0x2000, 0, "/no/c (deleted)", 1), 0);
    assert_mapped(as, 0x11fff, "/no/a", 0x10000, 0x12000, 0x1000);
    assert_mapped(as, 0x12000, "/no/c", 0x12000, 0x14000, 0);
    assert_mapped(as, 0x14000, "/no/a", 0x14000, 0x18000, 0x5000);
    assert_int_not_equal(before, sonde_aspace_mapping(as, 0x10000));

    /* A child shares them until one of both changes. */
    assert_int_equal(sonde_aspace_fork(as, UINT32_MAX, &child), 0);
    assert_int_equal(sonde_aspace_mapping(as, 0x12000), sonde_aspace_mapping(child, 0x12000));
    /* Data covers code; over all of them and beyond. */
    assert_int_equal(map(as, 0x11000, 0x1000, 0, "/no/d", 0), 0);
    assert_mapped(as, 0x11000, NULL, 0, 0, 0);
    assert_mapped(child, 0x11000, "/no/a", 0x10000, 0x12000, 0x1000);
    assert_int_equal(map(as, 0xf000, 0x12000, 0x3000, "//anon", 1), 0);
    assert_mapped(as, 0x20fff, "[anon]", 0xf000, 0x21000, 0);
    assert_mapped(as, 0x21000, NULL, 0, 0, 0);
    sonde_aspace_exec(child);
    assert_mapped(child, 0x10000, NULL, 0, 0, 0);

    assert_int_equal(map(as, 0x1000, 0, 0, "/no/e", 1), SONDE_EINVAL);
    assert_int_equal(map(as, UINT64_MAX - 10, 11, 0, "/no/e", 1), SONDE_EINVAL);
    sonde_aspace_destroy(child);
    sonde_aspace_destroy(as);
}

/* Random events against an array of bytes that says for each page what is mapped there. */
static void mappings_against_a_model(void **state)
{
    (void)state;
    enum { PAGES = 64 };
    struct sonde_aspace *as;
    uint8_t owner[PAGES] = { 0 };
    uint32_t random = 1;
    assert_int_equal(sonde_aspace_create(modules, UINT32_MAX, &as), 0);
    for (uint32_t round = 0; round < 2000; round++) {
        random = random * 1664525u + 1013904223u;
        const uint32_t start = random >> 8 & 63, len = 1 + (random >> 16 & 15),
                       code = random >> 24 & 3;
        const uint8_t name = (uint8_t)(1 + round % 200);
        char path[16];
        snprintf(path, sizeof(path), "/no/%u", name);
        assert_int_equal(map(as, start * 0x1000, len * 0x1000, 0, path, code != 0), 0);
        for (uint32_t i = start; i < start + len && i < PAGES; i++) owner[i] = code ? name : 0;
        for (uint32_t i = 0; i < PAGES; i++) {
            struct sonde_aspace_texts texts;
            struct sonde_module m = { .path = "/no/0" };
            sonde_aspace_module(as, i * 0x1000 + 7, &texts, &m);
            assert_int_equal(atoi(m.path + 4), owner[i]);
        }
    }
    sonde_aspace_destroy(as);
}

static void out_of_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 12; nth++) {
        struct sonde_aspace *as, *child = NULL;
        assert_int_equal(sonde_aspace_create(modules, UINT32_MAX, &as), 0);
        assert_int_equal(map(as, 0x10000, 0x8000, 0, "/no/a", 1), 0);
        sonde__alloc_fail_nth(nth);
        const int rc = map(as, 0x12000, 0x2000, 0, "/no/b", 1);
        const int forked = sonde_aspace_fork(as, 1, &child);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        assert_true(forked == 0 || forked == SONDE_ENOMEM);
        assert_mapped(as, 0x12000, rc ? "/no/a" : "/no/b", rc ? 0x10000 : 0x12000,
                      rc ? 0x18000 : 0x14000, 0);
        sonde_aspace_destroy(child);
        sonde_aspace_destroy(as);
    }
}

static void no_such_process(void **state)
{
    (void)state;
    struct sonde_aspace *as;
    assert_int_equal(sonde_aspace_create(modules, 0x7ffffff0, &as), 0);
    assert_int_equal(sonde_aspace_scan(as), SONDE_ENOENT);
    sonde_aspace_destroy(as);
}

/* ---- Stacks of this process --------------------------------------------------------------- */

struct both {
    struct sonde_aspace *as;
    uint64_t theirs[FRAMES], ours[FRAMES];
    size_t their_count, our_count;
    int truncated;
};

static _Unwind_Reason_Code their_frame(struct _Unwind_Context *c, void *arg)
{
    struct both *b = arg;
    int exact = 0;
    const uint64_t ip = _Unwind_GetIPInfo(c, &exact);
    if (!ip) return _URC_NO_REASON; /* it is called once more behind the last */
    if (b->their_count < FRAMES) b->theirs[b->their_count++] = exact ? ip : ip - 1;
    return _URC_NO_REASON;
}

/* The stack from sp up to where this thread's mapping ends. */
static size_t stack_left(uint64_t sp)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned long start, end;
    size_t n = 0;
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && sp >= start && sp < end) n = end - sp;
    }
    fclose(f);
    return n;
}

static void from_context(const ucontext_t *c, struct sonde__regs *r)
{
    static const int gregs[SONDE__REG_COUNT] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX,
                                                 REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                                                 REG_R8,  REG_R9,  REG_R10, REG_R11,
                                                 REG_R12, REG_R13, REG_R14, REG_R15 };
    for (uint32_t i = 0; i < SONDE__REG_COUNT; i++) {
        r->other[i] = (uint64_t)c->uc_mcontext.gregs[gregs[i]];
    }
    r->ip = (uint64_t)c->uc_mcontext.gregs[REG_RIP];
    r->sp = r->other[SONDE__ARCH_SP];
    r->bp = r->other[SONDE__ARCH_BP];
    r->known = 0xffff;
    r->bp_lost = 0;
}

/* Not instrumented: it copies other functions' frames. */
__attribute__((noinline, no_sanitize("address", "thread"))) static void unwind_both(struct both *b)
{
    ucontext_t c;
    struct sonde__regs r;
    getcontext(&c);
    from_context(&c, &r);
    const size_t len = stack_left(r.sp);
    uint8_t *copy = malloc(len);
    assert_non_null(copy);
    for (size_t i = 0; i < len; i += 8) {
        *(uint64_t *)(void *)(copy + i) = *(volatile uint64_t *)(r.sp + i);
    }
    b->our_count = sonde_aspace_unwind(b->as, &r, copy, r.sp, len, b->ours, FRAMES, &b->truncated,
                                       NULL);
    b->their_count = 0;
    _Unwind_Backtrace(their_frame, b);
    free(copy);
}

/* Frame 0 differs in the place within unwind_both; from its caller on all must be equal, but for
 * the trampoline of a handler: we give its first instruction, libgcc the byte before. */
static void assert_agree(const struct both *b, size_t trampolines)
{
    assert_false(b->truncated);
    assert_true(b->their_count > 3);
    if (b->our_count != b->their_count) {
        fail_msg("%zu frames, libgcc has %zu", b->our_count, b->their_count);
    }
    for (size_t i = 1; i < b->our_count; i++) {
        if (trampolines && b->ours[i] == b->theirs[i] + 1) {
            trampolines--;
        } else if (b->ours[i] != b->theirs[i]) {
            fail_msg("frame %zu: %#lx, libgcc has %#lx", i, b->ours[i], b->theirs[i]);
        }
    }
    assert_int_equal(trampolines, 0);
}

static struct both both;

static int compare(const void *a, const void *b)
{
    if (!both.our_count) unwind_both(&both);
    return *(const int *)a - *(const int *)b;
}

static void through_qsort(void **state)
{
    (void)state;
    int v[] = { 3, 1, 2, 9, 4 };
    both = (struct both){ 0 };
    assert_int_equal(sonde_aspace_create(modules, (uint32_t)getpid(), &both.as), 0);
    assert_int_equal(sonde_aspace_scan(both.as), 0);
    qsort(v, COUNT(v), sizeof(v[0]), compare);
    assert_agree(&both, 0);
    sonde_aspace_destroy(both.as);
}

__attribute__((noinline, optimize("omit-frame-pointer"))) static int deep(int n)
{
    volatile char room[40];
    room[0] = (char)n;
    if (!n) unwind_both(&both);
    return n ? deep(n - 1) + room[0] : room[0];
}

static void *thread(void *arg)
{
    deep(*(int *)arg);
    return NULL;
}

static void deep_in_a_thread(void **state)
{
    (void)state;
    pthread_t t;
    int depth = 300;
    both = (struct both){ 0 };
    assert_int_equal(sonde_aspace_create(modules, (uint32_t)getpid(), &both.as), 0);
    assert_int_equal(sonde_aspace_scan(both.as), 0);
    assert_int_equal(pthread_create(&t, NULL, thread, &depth), 0);
    pthread_join(t, NULL);
    assert_agree(&both, 0);
    assert_true(both.our_count > 300);
    sonde_aspace_destroy(both.as);
}

static void handler(int sig)
{
    (void)sig;
    unwind_both(&both);
}

static void in_a_signal_handler(void **state)
{
    (void)state;
    struct sigaction old, new = { .sa_handler = handler };
    both = (struct both){ 0 };
    assert_int_equal(sonde_aspace_create(modules, (uint32_t)getpid(), &both.as), 0);
    assert_int_equal(sonde_aspace_scan(both.as), 0);
    sigaction(SIGUSR1, &new, &old);
    raise(SIGUSR1);
    sigaction(SIGUSR1, &old, NULL);
    assert_agree(&both, 1);
    sonde_aspace_destroy(both.as);
}

static void too_deep_is_truncated(void **state)
{
    (void)state;
    both = (struct both){ 0 };
    assert_int_equal(sonde_aspace_create(modules, (uint32_t)getpid(), &both.as), 0);
    assert_int_equal(sonde_aspace_scan(both.as), 0);
    deep(600);
    assert_true(both.truncated);
    assert_int_equal(both.our_count, FRAMES);

    /* And what cannot be read: no stack at all. */
    const struct sonde__regs r = { .ip = (uint64_t)(uintptr_t)deep, .sp = 0x1000 };
    uint64_t ips[4];
    int truncated = 0;
    assert_int_equal(sonde_aspace_unwind(both.as, &r, "", 0x1000, 0, ips, 4, &truncated, NULL), 1);
    assert_int_equal(ips[0], r.ip);
    assert_true(truncated);
    /* An address where there is no code. */
    const struct sonde__regs wild = { .ip = UINT64_MAX, .sp = 0x1000 };
    assert_int_equal(sonde_aspace_unwind(both.as, &wild, "", 0x1000, 0, ips, 4, &truncated,
                                         NULL), 1);
    assert_true(truncated);
    sonde_aspace_destroy(both.as);
}

/* ---- Files that change -------------------------------------------------------------------- */

static void tables_are_dropped(void **state)
{
    (void)state;
    struct sonde_modules *small;
    struct sonde_modules_stats s;
    assert_int_equal(sonde_modules_create(1, &small), 0);
    both = (struct both){ 0 };
    assert_int_equal(sonde_aspace_create(small, (uint32_t)getpid(), &both.as), 0);
    assert_int_equal(sonde_aspace_scan(both.as), 0);
    for (int i = 0; i < 3; i++) {
        deep(3);
        assert_agree(&both, 0);
        sonde_aspace_scan(both.as); /* forgets the rules */
    }
    sonde_modules_stats(small, &s);
    assert_int_equal(s.tables, 1);
    assert_true(s.tables_dropped >= 2);
    assert_int_equal(s.tables_built, s.tables_dropped + s.tables);
    sonde_aspace_destroy(both.as);
    sonde_modules_destroy(small);
}

static void modules_are_shared(void **state)
{
    (void)state;
    struct sonde_aspace *a, *b;
    struct sonde_aspace_texts ta, tb;
    struct sonde_module ma, mb;
    struct sonde_modules_stats s1, s2;
    assert_int_equal(sonde_aspace_create(modules, (uint32_t)getpid(), &a), 0);
    assert_int_equal(sonde_aspace_create(modules, (uint32_t)getpid(), &b), 0);
    assert_int_equal(sonde_aspace_scan(a), 0);
    assert_int_equal(sonde_aspace_scan(b), 0);
    const uint64_t at = (uint64_t)(uintptr_t)deep;
    assert_int_equal(sonde_aspace_module(a, at, &ta, &ma), 0);
    sonde_modules_stats(modules, &s1);
    assert_int_equal(sonde_aspace_module(b, at, &tb, &mb), 0);
    sonde_modules_stats(modules, &s2);
    assert_int_equal(s1.modules, s2.modules);
    assert_string_equal(ma.build_id, mb.build_id);
    assert_string_equal(ma.open_path, "");
    assert_int_equal(ma.flags, 0);
    sonde_aspace_destroy(a);
    sonde_aspace_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_mapping_holds),
        cmocka_unit_test(mappings_against_a_model),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(no_such_process),
        cmocka_unit_test(through_qsort),
        cmocka_unit_test(deep_in_a_thread),
        cmocka_unit_test(in_a_signal_handler),
        cmocka_unit_test(too_deep_is_truncated),
        cmocka_unit_test(tables_are_dropped),
        cmocka_unit_test(modules_are_shared),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
