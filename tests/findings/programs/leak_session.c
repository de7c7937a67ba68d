/* leak_session.c - a chat server: a session has a user, messages and a history; when it ends, the
 * history is forgotten. */
#include "bench.h"

enum { MESSAGES = 16 };

struct session { char *user, *messages[MESSAGES], *history; size_t history_bytes; };

BENCH_NOINLINE static struct session *session_open(uint64_t *random)
{
    struct session *s = calloc(1, sizeof(*s));
    if (!s) bench_fail("calloc");
    s->user = bench_alloc(32);
    snprintf(s->user, 32, "user-%u", bench_between(random, 1, 100000));
    return s;
}

BENCH_NOINLINE static void session_say(struct session *s, unsigned i, unsigned bytes)
{
    s->messages[i] = bench_alloc(bytes);
    memset(s->messages[i], 'a' + (int)i, bytes);
}

BENCH_NOINLINE static void session_remember(struct session *s, unsigned bytes)
{
    s->history = malloc(bytes); /* PLANTED: never freed */
    if (!s->history) bench_fail("malloc");
    memset(s->history, 'h', bytes);
    s->history_bytes = bytes;
}

BENCH_NOINLINE static void session_close(struct session *s)
{
    free(s->user);
    for (unsigned i = 0; i < MESSAGES; i++) free(s->messages[i]);
    free(s); /* and not its history */
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    const unsigned history_bytes = bench_between(&b.random, 1000, 6000);
    const double leaked_per_s = bench_between(&b.random, 8, 30) * 1e6;
    const uint64_t period_ns = (uint64_t)(1e9 * history_bytes / leaked_per_s);
    for (uint64_t at = b.begin_ns; bench_running(&b); at += period_ns) {
        struct session *s = session_open(&b.random);
        for (unsigned i = 0; i < MESSAGES; i++) {
            session_say(s, i, bench_between(&b.random, 40, 400));
        }
        session_remember(s, bench_between(&b.random, history_bytes / 2, history_bytes * 3 / 2));
        session_close(s);
        if (at > bench_now_ns() + 2000000) bench_sleep_until(at);
    }
    return 0;
}
