/* Connections that keep quiet or are slow: who has to go, and who is left alone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "serve/http/connections.h"

struct pair { int ours, theirs; struct sonde_conn *one; };

static struct pair join(struct sonde_conns *q)
{
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
    return (struct pair){ fd[0], fd[1], sonde_conns_add(q, fd[0]) };
}

static void part(struct sonde_conns *q, struct pair *p)
{
    sonde_conns_remove(q, p->one);
    close(p->ours);
    close(p->theirs);
}

/* 1 if it was sent away, within so many milliseconds. */
static int is_gone(const struct pair *p, int ms)
{
    struct pollfd f = { p->theirs, POLLIN, 0 };
    char byte;
    return poll(&f, 1, ms) == 1 && recv(p->theirs, &byte, 1, 0) == 0;
}

static void the_quietest_makes_room(void **state)
{
    (void)state;
    struct sonde_conns *q = sonde_conns_create(3, 1e6, 1e6);
    struct pair p[6];
    assert_non_null(q);
    for (int i = 0; i < 3; i++) p[i] = join(q);
    sonde_conns_busy(q, p[0].one);
    sonde_conns_idle(q, p[1].one); /* it asked after p[2] did */
    p[3] = join(q);
    assert_true(is_gone(&p[2], 0));
    assert_false(is_gone(&p[0], 0));
    assert_false(is_gone(&p[1], 0));
    /* One that reads its answer is not quiet; neither is one that goes on asking. */
    sonde_conns_sending(q, p[1].one);
    p[4] = join(q);
    assert_true(is_gone(&p[3], 0));
    assert_false(is_gone(&p[1], 0));
    sonde_conns_idle(q, p[1].one);
    p[5] = join(q);
    assert_true(is_gone(&p[4], 0));
    for (int i = 0; i < 6; i++) part(q, &p[i]);
    sonde_conns_destroy(q);
}

/* Alone, and busy for longer than either may take. */
static void slow_ones_go(void **state)
{
    (void)state;
    struct sonde_conns *q = sonde_conns_create(100, 0.2, 0.4);
    struct pair asks = join(q), reads = join(q), works = join(q);
    sonde_conns_busy(q, reads.one);
    sonde_conns_sending(q, reads.one);
    sonde_conns_busy(q, works.one);
    assert_true(is_gone(&asks, 60000));
    assert_true(is_gone(&reads, 60000));
    assert_false(is_gone(&works, 0));
    sonde_conns_sending(q, works.one);
    assert_true(is_gone(&works, 60000));
    /* And one that comes after all were gone. */
    struct pair late = join(q);
    assert_true(is_gone(&late, 60000));
    part(q, &asks);
    part(q, &reads);
    part(q, &works);
    part(q, &late);
    sonde_conns_destroy(q);
}

/* With none that keeps quiet nobody is sent away, however many there are. */
static void busy_ones_stay(void **state)
{
    (void)state;
    enum { N = 20 };
    struct sonde_conns *q = sonde_conns_create(2, 1e6, 1e6);
    struct pair p[N];
    for (int i = 0; i < N; i++) {
        p[i] = join(q);
        if (i % 2) sonde_conns_busy(q, p[i].one);
        else sonde_conns_sending(q, p[i].one);
    }
    for (int i = 0; i < N; i++) assert_false(is_gone(&p[i], 0));
    /* Back to asking, the next that come send them away one by one, the quietest first. */
    struct pair more[N];
    for (int i = N - 1; i >= 0; i--) sonde_conns_idle(q, p[i].one);
    for (int i = 0; i < N; i++) {
        more[i] = join(q);
        assert_true(is_gone(&p[N - 1 - i], 0));
        if (i + 1 < N) assert_false(is_gone(&p[N - 2 - i], 0));
    }
    for (int i = 0; i < N; i++) part(q, &p[i]), part(q, &more[i]);
    sonde_conns_destroy(q);
}

/* One that was sent away and is not closed yet may be told anything. */
static void after_it_was_sent_away(void **state)
{
    (void)state;
    struct sonde_conns *q = sonde_conns_create(1, 1e6, 1e6);
    struct pair first = join(q), second = join(q);
    assert_true(is_gone(&first, 0));
    sonde_conns_busy(q, first.one);
    sonde_conns_sending(q, first.one);
    sonde_conns_idle(q, first.one);
    sonde_conns_idle(q, first.one); /* twice */
    part(q, &first);
    assert_false(is_gone(&second, 0));
    struct pair third = join(q);
    assert_true(is_gone(&second, 0));
    part(q, &third);
    part(q, &second);
    struct pair fourth = join(q); /* all that was is forgotten: there is room */
    assert_false(is_gone(&fourth, 0));
    part(q, &fourth);
    sonde_conns_destroy(q);
}

static void no_memory(void **state)
{
    (void)state;
    struct sonde_conns *q = sonde_conns_create(1, 1e6, 1e6);
    struct pair first = join(q);
    sonde__alloc_fail_nth(1);
    struct pair second = join(q); /* is not followed, and sends nobody away */
    sonde__alloc_fail_nth(0);
    assert_null(second.one);
    assert_false(is_gone(&first, 0));
    part(q, &second);
    part(q, &first);
    sonde_conns_destroy(q);
    sonde__alloc_fail_nth(1);
    assert_null(sonde_conns_create(1, 1, 1));
    sonde__alloc_fail_nth(0);
}

static void nothing_is_fine(void **state)
{
    (void)state;
    struct sonde_conns *q = sonde_conns_create(1, 1, 1);
    sonde_conns_busy(q, NULL);
    sonde_conns_sending(q, NULL);
    sonde_conns_idle(q, NULL);
    sonde_conns_remove(q, NULL);
    sonde_conns_destroy(q);
    sonde_conns_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_quietest_makes_room),
        cmocka_unit_test(slow_ones_go),
        cmocka_unit_test(busy_ones_stay),
        cmocka_unit_test(after_it_was_sent_away),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(nothing_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
