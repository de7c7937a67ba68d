/* Words beyond the copy of a stack: what is believed, what is remembered, and what waits. The
 * memory that is read is our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/cpu/perf_outer.h"
#include "collect/cpu/perf_parked.h"
#include "sonde/sonde.h"

#define PC 0x4000u
#define LEFT 0x5001u
#define RIGHT 0x6001u
#define MS 1000000u

enum { NOT = SONDE_ASPACE_CALL_NOT, OTHER = SONDE_ASPACE_CALL_OTHER,
       UNKNOWN = SONDE_ASPACE_CALL_UNKNOWN, FITS = SONDE_ASPACE_CALL_FITS };

static struct sonde_perf_outer *outer;
static struct sonde_perf_words *words;
static volatile uint64_t place;   /* of a return address */
static uint64_t time_ns;

static int set_up(void **state)
{
    (void)state;
    words = NULL;
    time_ns = 1000 * MS;
    return sonde_perf_outer_create(NULL, &outer);
}

static int tear_down(void **state)
{
    (void)state;
    sonde_perf_words_free(words);
    sonde_perf_outer_destroy(outer);
    return sonde__alloc_live() != 0;
}

/* One sample, 10 ms after the last, of thread tid: the frame's caller as it is told, 0 = it is
 * not. */
static uint64_t ask(uint32_t tid, int final, int call)
{
    uint64_t word;
    const uint64_t at = (uint64_t)(uintptr_t)&place;
    time_ns += 10 * MS;
    const struct sonde_aspace_outer *o =
        sonde_perf_outer_begin(outer, NULL, (uint32_t)getpid(), tid, time_ns, final, &words);
    for (int again = 0; again < 2; again++) {
        o->frame(o->arg, PC, again);
        if (o->word(o->arg, at, &word)) continue;
        if (o->believe(o->arg, word, (enum sonde_aspace_call)call)) return word;
    }
    return 0;
}

static uint64_t ask_live(int call) { return ask((uint32_t)gettid(), 0, call); }

static enum sonde_perf_outer_why why(void) { return sonde_perf_outer_why(outer); }

static void believed_when_seen_often(void **state)
{
    (void)state;
    place = LEFT;
    for (int i = 0; i < 7; i++) {
        assert_int_equal(ask_live(FITS), 0);
        assert_int_equal(why(), SONDE_PERF_OUTER_EARLY);
    }
    assert_int_equal(ask_live(FITS), LEFT);
    assert_int_equal(ask_live(UNKNOWN), LEFT);
}

static void at_once_when_final(void **state)
{
    (void)state;
    place = LEFT;
    assert_int_equal(ask((uint32_t)gettid(), 1, FITS), LEFT);
    place = RIGHT; /* returned since: what is there is of no use, what was there is known */
    assert_int_equal(ask((uint32_t)gettid(), 1, NOT), LEFT);
    assert_int_equal(ask((uint32_t)gettid(), 1, OTHER), LEFT);
}

static void looks_at_one_time_are_one(void **state)
{
    (void)state;
    place = LEFT;
    for (int i = 0; i < 100; i++) {
        time_ns -= 10 * MS;
        assert_int_equal(ask_live(FITS), 0);
    }
}

static void what_changes_is_not_believed(void **state)
{
    (void)state;
    place = LEFT;
    for (int i = 0; i < 8; i++) ask_live(FITS);
    assert_int_equal(ask_live(FITS), LEFT);
    place = RIGHT;
    assert_int_equal(ask_live(FITS), 0);
    assert_int_equal(why(), SONDE_PERF_OUTER_CHANGED);
    place = LEFT;
    assert_int_equal(ask((uint32_t)gettid(), 1, FITS), 0); /* nor when there is no later */
    assert_int_equal(why(), SONDE_PERF_OUTER_CHANGED);
    int n = 1;
    while (n < 1000 && !ask_live(FITS)) n++;
    assert_in_range(n, 32, 128);
}

/* Behind the call of another function: only when it has been nothing else for long, and not a
 * change when the right one comes. */
static void other_functions(void **state)
{
    (void)state;
    int n = 1;
    place = LEFT;
    while (n < 1000 && !ask_live(OTHER)) n++;
    assert_in_range(n, 9, 64);
    place = RIGHT;
    for (int i = 0; i < 7; i++) assert_int_equal(ask_live(FITS), 0);
    assert_int_equal(ask_live(FITS), RIGHT);
    assert_int_equal(why(), SONDE_PERF_OUTER_NOTHING);
}

/* Of a thread that is gone nothing is read, but what is known of it stands. */
static void remembered(void **state)
{
    (void)state;
    const uint32_t gone = 4194303;
    place = LEFT;
    assert_int_equal(ask(gone, 1, FITS), 0);
    assert_int_equal(why(), SONDE_PERF_OUTER_GONE);
    assert_int_equal(ask((uint32_t)gettid(), 1, FITS), LEFT);
    place = RIGHT;
    assert_int_equal(ask(gone, 1, FITS), LEFT);
    struct sonde_perf_words *copy = sonde_perf_words_copy(words);
    assert_non_null(copy);
    sonde_perf_words_free(words);
    words = copy;
    assert_int_equal(ask(gone, 1, FITS), LEFT);
    assert_null(sonde_perf_words_copy(NULL));
}

static void unreadable(void **state)
{
    (void)state;
    uint64_t word;
    const struct sonde_aspace_outer *o = sonde_perf_outer_begin(
        outer, NULL, (uint32_t)getpid(), (uint32_t)gettid(), time_ns, 1, &words);
    o->frame(o->arg, PC, 0);
    assert_int_equal(o->word(o->arg, 8, &word), -1);
    assert_int_equal(o->word(o->arg, (uint64_t)(uintptr_t)&place + 1, &word), -1);
    assert_int_equal(o->word(o->arg, UINT64_MAX - 7, &word), -1);
}

/* ---- Samples that wait ---------------------------------------------------------------------- */

static void parked(void **state)
{
    (void)state;
    struct sonde_perf_lot lot = { 0 };
    struct { struct perf_event_header header; uint64_t body; } record = { .body = 1 };
    int final = 0;
    record.header.size = sizeof(record);
    assert_null(sonde_perf_lot_take(&lot, UINT64_MAX, 0, &final));
    for (record.body = 0; record.body < 3; record.body++) {
        assert_int_equal(sonde_perf_lot_put(&lot, &record.header, 10 + (uint32_t)record.body,
                                            1000 * MS, NULL), 0);
    }
    assert_null(sonde_perf_lot_take(&lot, 1099 * (uint64_t)MS, 0, &final));
    struct sonde_perf_parked *p = sonde_perf_lot_take(&lot, 1100 * (uint64_t)MS, 12, &final);
    assert_non_null(p); /* the last one: what comes next is put behind the others */
    assert_int_equal(final, 0);
    assert_memory_equal((char *)&p->header + sizeof(p->header), &(uint64_t){ 2 }, 8);
    sonde_perf_lot_back(&lot, p);
    assert_null(sonde_perf_lot_take(&lot, 1299 * (uint64_t)MS, 12, &final));
    p = sonde_perf_lot_take(&lot, 1300 * (uint64_t)MS, 12, &final);
    assert_int_equal(final, 0);
    sonde_perf_lot_back(&lot, p);
    p = sonde_perf_lot_take(&lot, 2000 * (uint64_t)MS, 12, &final);
    assert_int_equal(final, 1);
    sonde_perf_lot_free(p);
    p = sonde_perf_lot_take(&lot, UINT64_MAX, 0, &final);
    assert_int_equal(p->pid, 10);
    assert_int_equal(final, 1);
    sonde_perf_lot_free(p);
    assert_int_equal(sonde_perf_lot_put(&lot, &record.header, 13, 1000 * MS, NULL), 0);
    sonde_perf_lot_release(&lot);
    assert_int_equal(lot.bytes, 0);

    /* With frames of Python that came with it. */
    struct sonde_python_bpf_frame frames[2] = { { 4096, 7, 1 }, { 0, 9, 0 } };
    const struct sonde_perf_python_sample python = { .pid = 13, .tid = 14, .count = 2,
                                                     .frames = frames };
    assert_int_equal(sonde_perf_lot_put(&lot, &record.header, 13, 1000 * MS, &python), 0);
    assert_int_equal(lot.bytes, sizeof(record) + sizeof(frames));
    memset(frames, 0, sizeof(frames)); /* it has its own */
    p = sonde_perf_lot_take(&lot, UINT64_MAX, 0, &final);
    assert_int_equal(lot.bytes, 0);
    assert_int_equal(p->python.count, 2);
    assert_int_equal(p->python.frames[0].code, 4096);
    assert_int_equal(p->python.frames[1].key, 9);
    sonde_perf_lot_free(p);

    record.header.size = sizeof(record);
    uint32_t n = 0;
    while (n < (1u << 20) && !sonde_perf_lot_put(&lot, &record.header, 1, 0, NULL)) n++;
    assert_int_equal(n, SONDE_PERF_PARKED_BYTES / sizeof(record)); /* its cap */
    sonde_perf_lot_release(&lot);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(believed_when_seen_often), TEST(at_once_when_final), TEST(looks_at_one_time_are_one),
        TEST(what_changes_is_not_believed), TEST(other_functions), TEST(remembered),
        TEST(unreadable), cmocka_unit_test(parked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
