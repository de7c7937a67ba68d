/* test_parts.c - the symbolizer's parts: ranges of addresses, messages, the child. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "profile/symbol/symbol.h"
#include "profile/symbol/child.h"
#include "profile/symbol/wire.h"
#include "sonde/sonde.h"

/* ---- Ranges ---------------------------------------------------------------------------------- */

static void ranges(void **state)
{
    static const struct sonde_symbol_range rows[] = {
        { .start = 100, .end = 200, .value = 1, .rank = 5 },
        { .start = 100, .end = 150, .value = 2, .rank = 4 },                  /* a lesser alias */
        { .start = 120, .end = 130, .value = 3, .rank = 5 },                  /* nested */
        { .start = 140, .end = 900, .value = 4, .rank = 5, .unsized = 1 },    /* a label in 1 */
        { .start = 200, .end = 900, .value = 5, .rank = 5, .unsized = 1 },    /* up to the next */
        { .start = 300, .end = 310, .value = 6, .rank = 5 },
        { .start = 400, .end = 400, .value = 7, .rank = 5 },                  /* empty */
        { .start = 500, .end = 600, .value = 8, .rank = 5, .unsized = 1 },    /* up to its bound */
        { .start = UINT64_MAX - 1, .end = UINT64_MAX, .value = 9, .rank = 5 },
    };
    static const struct { uint64_t addr, value; } expected[] = {
        { 0, 0 }, { 99, 0 }, { 100, 1 }, { 119, 1 }, { 120, 3 }, { 129, 3 }, { 130, 1 },
        { 140, 1 }, { 160, 1 }, { 199, 1 }, { 200, 5 }, { 299, 5 }, { 300, 6 }, { 309, 6 },
        { 310, 0 }, { 400, 0 }, { 500, 8 }, { 599, 8 }, { 600, 0 }, { UINT64_MAX - 1, 9 },
        { UINT64_MAX, 0 },
    };
    struct sonde_symbol_table t = { 0 };
    (void)state;
    assert_null(sonde_symbol_table_find(&t, 5));
    for (size_t i = sizeof(rows) / sizeof(rows[0]); i-- > 0;) {
        assert_int_equal(sonde_symbol_table_add(&t, &rows[i]), 0);
    }
    sonde_symbol_table_seal(&t);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        const struct sonde_symbol_range *r = sonde_symbol_table_find(&t, expected[i].addr);
        assert_int_equal(r ? r->value : 0, expected[i].value);
    }
    sonde_symbol_table_release(&t);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* What a writer sends, through a pipe's worth of memory. */
static size_t sent(char *out, size_t max)
{
    static struct sonde_symbol_wire_writer w;
    static char long_name[SONDE_SYMBOL_TEXT_MAX + 100];
    int ends[2];
    memset(long_name, 'x', sizeof(long_name) - 1);
    const struct sonde_symbol_frame frames[] = { { "f", "a.c", 1, 2 }, { "", "", 0, 0 },
                                                 { long_name, long_name, UINT32_MAX, 7 } };
    assert_int_equal(pipe(ends), 0);
    w.fd = ends[1];
    w.len = 0;
    assert_int_equal(sonde_symbol_wire_send(&w, SONDE_SYMBOL_WIRE_START, 3, 0), 0);
    assert_int_equal(sonde_symbol_wire_frames(&w, 17, frames, 3), 0);
    assert_int_equal(sonde_symbol_wire_send(&w, SONDE_SYMBOL_WIRE_END, 3, 99), 0);
    assert_int_equal(sonde_symbol_wire_send(&w, SONDE_SYMBOL_WIRE_DONE, 0, 0), 0);
    close(ends[1]);
    size_t len = 0;
    for (ssize_t n = 1; n > 0; len += (size_t)n) {
        n = read(ends[0], out + len, max - len);
        assert_true(n >= 0);
    }
    close(ends[0]);
    return len;
}

static void messages(void **state)
{
    static char data[1u << 16];
    static const size_t pieces[] = { 1, 2, 7, 15, 16, 17, 1000, 65536 };
    static struct sonde_symbol_wire_reader r;
    const size_t len = sent(data, sizeof(data));
    (void)state;
    for (size_t k = 0; k < sizeof(pieces) / sizeof(pieces[0]); k++) {
        struct sonde_symbol_wire_message m;
        unsigned seen = 0;
        r = (struct sonde_symbol_wire_reader){ 0 };
        sonde_symbol_wire_reader_init(&r);
        for (size_t at = 0; at < len; at += pieces[k]) {
            const size_t n = len - at < pieces[k] ? len - at : pieces[k];
            int more;
            assert_int_equal(sonde_symbol_wire_feed(&r, data + at, n), 0);
            while ((more = sonde_symbol_wire_next(&r, &m)) == 1) {
                assert_int_equal(m.type, ++seen);
                if (m.type == SONDE_SYMBOL_WIRE_START) assert_int_equal(m.a, 3);
                if (m.type == SONDE_SYMBOL_WIRE_END) assert_int_equal(m.b, 99);
                if (m.type != SONDE_SYMBOL_WIRE_FRAMES) continue;
                assert_int_equal(m.a, 17);
                assert_int_equal(m.b, 3);
                assert_string_equal(m.frames[0].name, "f");
                assert_string_equal(m.frames[0].file, "a.c");
                assert_int_equal(m.frames[0].start_line, 2);
                assert_string_equal(m.frames[1].name, "");
                assert_int_equal(strlen(m.frames[2].name), SONDE_SYMBOL_TEXT_MAX);
                assert_int_equal(m.frames[2].line, UINT32_MAX);
            }
            assert_int_equal(more, 0);
        }
        assert_int_equal(seen, SONDE_SYMBOL_WIRE_DONE);
        sonde_symbol_wire_reader_release(&r);
    }
}

/* Any byte changed: a message, or a refusal; never more than is there. */
static void damaged_messages(void **state)
{
    static char data[1u << 16];
    static struct sonde_symbol_wire_reader r;
    const size_t len = sent(data, sizeof(data));
    (void)state;
    for (size_t at = 0; at < 100; at++) {
        for (int bit = 0; bit < 8; bit++) {
            struct sonde_symbol_wire_message m;
            int more;
            data[at] = (char)(data[at] ^ (1 << bit));
            r = (struct sonde_symbol_wire_reader){ 0 };
            sonde_symbol_wire_reader_init(&r);
            assert_int_equal(sonde_symbol_wire_feed(&r, data, len), 0);
            while ((more = sonde_symbol_wire_next(&r, &m)) == 1) {
                for (uint32_t i = 0; m.type == SONDE_SYMBOL_WIRE_FRAMES && i < m.b; i++) {
                    assert_true(strlen(m.frames[i].name) <= SONDE_SYMBOL_TEXT_MAX);
                }
            }
            assert_true(more == 0 || more == SONDE_EFORMAT);
            sonde_symbol_wire_reader_release(&r);
            data[at] = (char)(data[at] ^ (1 << bit));
        }
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- The child ------------------------------------------------------------------------------- */

struct talk {
    char text[64];
    size_t len;
    int stop;
};

static int listen_to(void *arg, const void *data, size_t len)
{
    struct talk *t = arg;
    if (t->len + len > sizeof(t->text)) return SONDE_EFULL;
    memcpy(t->text + t->len, data, len);
    t->len += len;
    return t->stop;
}

static void say(int fd) { (void)!write(fd, "hello", 5); }

static void ends_well(void *arg, int fd) { (void)arg; say(fd); }
static void aborts(void *arg, int fd) { (void)arg; say(fd); abort(); }
static void exits(void *arg, int fd) { (void)arg; say(fd); _exit(7); }

static void crashes(void *arg, int fd)
{
    (void)arg;
    say(fd);
    raise(SIGSEGV);
}

static void hangs(void *arg, int fd)
{
    (void)arg;
    say(fd);
    for (;;) pause();
}

static void burns(void *arg, int fd)
{
    (void)arg;
    say(fd);
    sonde_symbol_child_cpu_limit(1);
    for (volatile int i = 0;; i = i + 1) {
    }
}

static void grabs(void *arg, int fd)
{
    (void)arg;
    say(fd);
    for (int i = 0; i < 64; i++) {
        char *p = malloc(16u << 20);
        if (!p) return;
        memset(p, 1, 16u << 20);
    }
    say(fd); /* a gigabyte: more than was allowed */
}

static void looks_around(void *arg, int fd)
{
    (void)arg;
    for (int i = 3; i < 64; i++) {
        if (i != fd && fcntl(i, F_GETFD) >= 0) _exit(1);
    }
    raise(SIGTERM); /* blocked */
    say(fd);
}

static void children(void **state)
{
    static const struct { const char *what; void (*work)(void *, int); } works[] = {
        { "ends well", ends_well }, { "aborts", aborts },  { "exits", exits },
        { "crashes", crashes },     { "burns", burns },    { "grabs memory", grabs },
        { "looks around", looks_around },
    };
    static const struct sonde_symbol_child_limits limits = { 256u << 20, 60000 };
    static const struct sonde_symbol_child_limits impatient = { 256u << 20, 500 };
    (void)state;
    for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++) {
        struct talk t = { .len = 0 };
        const int rc = sonde_symbol_child_run(&limits, works[i].work, listen_to, &t);
        if (rc != 0 || t.len != 5 || memcmp(t.text, "hello", 5) != 0) {
            fail_msg("a child that %s: %d, %zu bytes", works[i].what, rc, t.len);
        }
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* it was reaped */
    }
    struct talk silent = { .len = 0 };
    assert_int_equal(sonde_symbol_child_run(&impatient, hangs, listen_to, &silent), 0);
    struct talk t = { .stop = SONDE_EFORMAT };
    assert_int_equal(sonde_symbol_child_run(&limits, hangs, listen_to, &t), SONDE_EFORMAT);
    sigset_t mask;
    assert_int_equal(sigprocmask(SIG_SETMASK, NULL, &mask), 0);
    assert_false(sigismember(&mask, SIGTERM));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges), cmocka_unit_test(messages), cmocka_unit_test(damaged_messages),
        cmocka_unit_test(children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
