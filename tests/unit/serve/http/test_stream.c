/* Live streams without HTTP: readers that pause and resume, channels they share, what a slow one
 * misses, and going on after a break. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "serve/http/route.h"
#include "serve/http/stream.h"
#include "unit/serve/serve_collector.h"
#include "sonde/sonde.h"

static _Atomic unsigned renders;
static _Atomic size_t size; /* of an event's data */
static _Atomic uint64_t step; /* something is to be told every so many ticks */

static int setup(void **state)
{
    (void)state;
    renders = 0;
    size = 10;
    step = 1;
    return collector_make(NULL);
}

static int teardown(void **state)
{
    (void)state;
    return collector_end();
}

static void tick(void)
{
    struct sonde_model *m = sonde_collector_model(collector);
    sonde_wrlock(&m->lock);
    sonde_model_tick(m, 1700000000.0 + (double)m->tick);
    sonde_rwunlock(&m->lock);
}

/* Two events: the parameter, and so many x. */
static void render(const struct sonde_http_request *r, struct sonde_buf *out)
{
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    sonde_rdlock(&m->lock);
    const uint64_t now = m->tick;
    sonde_rwunlock(&m->lock);
    renders++;
    if (now % step) return;
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, 'x', size);
    const char *name = sonde_http_param(r, "name");
    sonde_stream_event(out, "name", name ? name : "", name ? strlen(name) : 0);
    sonde_stream_event(out, "x", text, size);
    free(text);
}

/* A connection, as a server has it. */
struct connection {
    struct sonde_stream *stream;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int paused;
    char text[1 << 22];
    size_t len;
    int ended;
};

static void on_pause(void *arg)
{
    struct connection *c = arg;
    pthread_mutex_lock(&c->lock);
    assert_false(c->paused);
    c->paused = 1;
    pthread_mutex_unlock(&c->lock);
}

static void on_resume(void *arg)
{
    struct connection *c = arg;
    pthread_mutex_lock(&c->lock);
    assert_true(c->paused);
    c->paused = 0;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static struct sonde_http_request ask(const char *name)
{
    return (struct sonde_http_request){ .body = "", .agent = &agent, .param_count = 1,
                                        .params = { { "name", name } } };
}

static int open_stream(struct sonde_streams *s, const char *name, const char *last_id,
                       struct connection **out)
{
    struct sonde_err err = { "" };
    const struct sonde_http_request r = ask(name);
    struct connection *c = calloc(1, sizeof(*c));
    assert_non_null(c);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    const int rc = sonde_streams_open(s, &r, render, last_id, &c->stream, &err);
    if (rc) {
        free(c);
        return rc;
    }
    sonde_stream_bind(c->stream, c, on_pause, on_resume);
    *out = c;
    return 0;
}

static void close_stream(struct connection *c)
{
    sonde_stream_close(c->stream);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* One read, after waiting for it to be resumed; 0 at the end. */
static int read_once(struct connection *c, size_t max)
{
    pthread_mutex_lock(&c->lock);
    while (c->paused) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 60;
        assert_int_equal(pthread_cond_timedwait(&c->changed, &c->lock, &until), 0);
    }
    pthread_mutex_unlock(&c->lock);
    const size_t room = sizeof(c->text) - 1 - c->len;
    const ssize_t n = sonde_stream_read(c->stream, c->text + c->len, room < max ? room : max);
    if (n > 0) c->len += (size_t)n;
    c->text[c->len] = '\0';
    c->ended = n < 0;
    return n >= 0;
}

static void read_until(struct connection *c, const char *text)
{
    while (!strstr(c->text, text)) assert_true(read_once(c, 4096));
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    while ((text = strstr(text, what)) != NULL) n++, text++;
    return n;
}

/* The last whole id that came. */
static void last_id(const struct connection *c, char out[64])
{
    const char *at = NULL;
    for (const char *p = c->text; (p = strstr(p, "\nid: ")) && strchr(p + 1, '\n'); p++) at = p;
    assert_non_null(at);
    snprintf(out, 64, "%.*s", (int)strcspn(at + 5, "\n"), at + 5);
}

static struct sonde_streams *create(unsigned max)
{
    struct sonde_streams *s = NULL;
    assert_int_equal(sonde_streams_create(collector, max, &s), 0);
    return s;
}

static void events_as_they_are_written(void **state)
{
    (void)state;
    struct sonde_buf out;
    sonde_buf_init(&out, 1000);
    sonde_stream_event(&out, "a", "{}\n", 3);
    sonde_stream_event(&out, "b", "1\n2", 3);
    sonde_stream_event(&out, "c", "", 0);
    assert_string_equal(out.data, "event: a\ndata: {}\n\nevent: b\ndata: 1\ndata: 2\n\n"
                                  "event: c\ndata: \n\n");
    sonde_buf_release(&out);
}

static void a_tick_is_a_piece_with_an_id(void **state)
{
    (void)state;
    struct sonde_streams *s = create(10);
    struct connection *c;
    char id[64], wanted[128];
    assert_int_equal(open_stream(s, "n", NULL, &c), 0);
    tick();
    read_until(c, "\nid: ");
    read_until(c, "-1\n\n");
    assert_true(strncmp(c->text, "retry: 2000\n\nevent: name\ndata: n\n\nevent: x\n"
                                 "data: xxxxxxxxxx\nid: ", 63) == 0);
    assert_int_equal(count(c->text, "id: "), 1); /* with the last event only */
    tick();
    read_until(c, "-2\n\n");
    last_id(c, id);
    snprintf(wanted, sizeof(wanted), "id: %s\n\n", id);
    assert_non_null(strstr(c->text, wanted));
    close_stream(c);
    sonde_streams_destroy(s);
}

static void readers_of_the_same_share(void **state)
{
    (void)state;
    struct sonde_streams *s = create(100);
    struct connection *c[50], *other;
    for (int i = 0; i < 50; i++) assert_int_equal(open_stream(s, "n", NULL, &c[i]), 0);
    assert_int_equal(open_stream(s, "other", NULL, &other), 0);
    tick();
    for (int i = 0; i < 50; i++) read_until(c[i], "-1\n\n");
    read_until(other, "-1\n\n");
    assert_non_null(strstr(other->text, "data: other\n"));
    assert_int_equal(renders, 2);
    for (int i = 0; i < 50; i++) close_stream(c[i]);
    close_stream(other);
    sonde_streams_destroy(s);
}

static void too_many_are_refused(void **state)
{
    (void)state;
    struct sonde_streams *s = create(40);
    struct connection *c[40], *more;
    char name[16];
    /* By kind, and in all. */
    for (int i = 0; i < 32; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        assert_int_equal(open_stream(s, name, NULL, &c[i]), 0);
    }
    assert_int_equal(open_stream(s, "another", NULL, &more), SONDE_EFULL);
    for (int i = 32; i < 40; i++) assert_int_equal(open_stream(s, "n0", NULL, &c[i]), 0);
    assert_int_equal(open_stream(s, "n0", NULL, &more), SONDE_EFULL);
    /* A channel that nobody reads makes room. */
    close_stream(c[5]);
    assert_int_equal(open_stream(s, "another", NULL, &c[5]), 0);
    for (int i = 0; i < 40; i++) close_stream(c[i]);
    sonde_streams_destroy(s);
}

static void a_break_is_continued(void **state)
{
    (void)state;
    struct sonde_streams *s = create(10);
    struct connection *c, *witness;
    char id[64];
    assert_int_equal(open_stream(s, "n", NULL, &c), 0);
    tick();
    read_until(c, "-1\n\n");
    last_id(c, id);
    close_stream(c);
    /* The channel stays; somebody sees it go on. */
    assert_int_equal(open_stream(s, "n", NULL, &witness), 0);
    for (int i = 2; i <= 4; i++) {
        char wanted[16];
        tick();
        snprintf(wanted, sizeof(wanted), "-%d\n\n", i);
        read_until(witness, wanted);
    }
    assert_int_equal(open_stream(s, "n", id, &c), 0);
    read_until(c, "-4\n\n");
    assert_int_equal(count(c->text, "\nid: "), 3); /* 2, 3 and 4 */
    assert_null(strstr(c->text, "event: gap"));
    close_stream(c);
    /* Ids that mean nothing: from now on. */
    static const char *const odd[] = { "", "x", "-", "0-1", "zz-3", "1234567-2",
                                       "99999999999999999999999999999999999999999999999999" };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        assert_int_equal(open_stream(s, "n", odd[i], &c), 0);
        read_until(c, "-4\n\n");
        assert_int_equal(count(c->text, "\nid: "), 1);
        close_stream(c);
    }
    close_stream(witness);
    sonde_streams_destroy(s);
}

/* One stops reading in the midst of a piece; the other goes on. Then the first is told what it
 * missed. */
static void a_slow_reader_misses(void **state)
{
    (void)state;
    struct sonde_streams *s = create(10);
    struct connection *slow, *quick;
    char wanted[32];
    size = 100000; /* ten of them are in the ring */
    assert_int_equal(open_stream(s, "n", NULL, &slow), 0);
    assert_int_equal(open_stream(s, "n", NULL, &quick), 0);
    tick();
    while (slow->len < 200) assert_true(read_once(slow, 100));
    for (int i = 1; i <= 30; i++) {
        snprintf(wanted, sizeof(wanted), "-%d\n\n", i);
        read_until(quick, wanted);
        tick();
    }
    read_until(quick, "-31\n\n");
    assert_int_equal(count(quick->text, "\nid: "), 31);
    assert_null(strstr(quick->text, "event: gap"));
    read_until(slow, "-31\n\n");
    assert_int_equal(count(slow->text, "event: gap"), 1);
    assert_non_null(strstr(slow->text, "data: {\"after\":1,\"before\":"));
    const size_t pieces = count(slow->text, "\nid: ");
    assert_in_range(pieces, 2, 12);
    assert_non_null(strstr(slow->text, "-1\n\nevent: gap")); /* what it had begun is whole */
    close_stream(slow);
    close_stream(quick);
    sonde_streams_destroy(s);
}

/* Ticks that have nothing to tell, as those within a step of points, are not missed. What is gone
 * from the ring is. */
static void nothing_to_tell_is_not_a_gap(void **state)
{
    (void)state;
    struct sonde_streams *s = create(10);
    struct connection *quick, *slow;
    char wanted[32];
    step = 5;
    size = 100000;
    assert_int_equal(open_stream(s, "n", NULL, &quick), 0);
    assert_int_equal(open_stream(s, "n", NULL, &slow), 0);
    for (unsigned i = 1; i <= 100; i++) {
        const unsigned before = renders;
        tick();
        while (renders == before) usleep(1000);
        if (i % 5) continue;
        snprintf(wanted, sizeof(wanted), "-%u\n\n", i);
        read_until(quick, wanted);
        if (i == 5) read_until(slow, wanted);
    }
    assert_int_equal(count(quick->text, "\nid: "), 20);
    assert_null(strstr(quick->text, "event: gap"));
    read_until(slow, wanted);
    assert_int_equal(count(slow->text, "event: gap"), 1);
    close_stream(slow);
    close_stream(quick);
    sonde_streams_destroy(s);
}

/* Readers that stop in the midst of different pieces keep these, but only so many bytes in all. */
static void slow_readers_are_bounded(void **state)
{
    (void)state;
    enum { READERS = 40, PIECE = 3 << 20, HELD = 64 << 20 };
    struct sonde_streams *s = create(READERS + 1);
    struct connection *slow[READERS], *quick;
    char wanted[32];
    size_t live = 0;
    size = PIECE;
    assert_int_equal(open_stream(s, "n", NULL, &quick), 0);
    for (int i = 0; i <= READERS; i++) {
        tick();
        snprintf(wanted, sizeof(wanted), "-%d\n\n", i + 1);
        quick->len = 0;
        quick->text[0] = '\0';
        while (quick->len < 16 || !strstr(quick->text + quick->len - 16, wanted)) {
            assert_true(read_once(quick, 1 << 20));
        }
        if (i == READERS) break; /* the last piece of theirs has left the ring */
        assert_int_equal(open_stream(s, "n", NULL, &slow[i]), 0);
        while (slow[i]->len < 200) assert_true(read_once(slow[i], 100));
    }
    for (int i = 0; i < READERS; i++) {
        const int goes_on = read_once(slow[i], 100);
        live += (size_t)goes_on;
        assert_true(goes_on || !live); /* those that were silent for longest go first */
        close_stream(slow[i]);
    }
    assert_in_range(live * PIECE, HELD - 2 * PIECE, HELD);
    close_stream(quick);
    sonde_streams_destroy(s);
}

static void too_large_is_told(void **state)
{
    (void)state;
    struct sonde_streams *s = create(10);
    struct connection *c;
    size = 5 << 20;
    assert_int_equal(open_stream(s, "n", NULL, &c), 0);
    tick();
    read_until(c, "-1\n\n");
    assert_non_null(strstr(c->text, "event: error\ndata: {\"error\":"));
    close_stream(c);
    sonde_streams_destroy(s);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *follow(void *arg)
{
    struct connection *c = arg;
    while (read_once(c, 1000)) {
        if (c->len > sizeof(c->text) / 2) c->len = 0;
    }
    return NULL;
}

static void stopping_ends_all(void **state)
{
    (void)state;
    struct sonde_streams *s = create(100);
    struct connection *c[20], *late;
    pthread_t thread[20];
    for (int i = 0; i < 20; i++) {
        assert_int_equal(open_stream(s, i % 2 ? "odd" : "even", NULL, &c[i]), 0);
        assert_int_equal(pthread_create(&thread[i], NULL, follow, c[i]), 0);
    }
    for (int i = 0; i < 20; i++) {
        tick();
        nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    }
    sonde_streams_stop(s);
    assert_int_equal(open_stream(s, "odd", NULL, &late), SONDE_EFULL);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_true(c[i]->ended);
        close_stream(c[i]);
    }
    sonde_streams_destroy(s);
    sonde_streams_destroy(NULL);
    sonde_stream_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_as_they_are_written),
        cmocka_unit_test_setup_teardown(a_tick_is_a_piece_with_an_id, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_of_the_same_share, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_break_is_continued, setup, teardown),
        cmocka_unit_test_setup_teardown(a_slow_reader_misses, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_to_tell_is_not_a_gap, setup, teardown),
        cmocka_unit_test_setup_teardown(slow_readers_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(too_large_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(stopping_ends_all, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
