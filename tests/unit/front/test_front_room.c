/* Clients that hold a connection to the front and do nothing with it: without a request they make
 * room for others, in the midst of one they have only so much time. */
#include "front_peer.h"

#define CLOSES "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
#define GET "GET / HTTP/1.1\r\nHost: h\r\n\r\n"

/* A request that the upstream answers. The connection is kept. */
static int serve_one(void)
{
    const int c = dial();
    put(c, GET);
    const int u = up_accept();
    get_head(u);
    put(u, CLOSES);
    close(u);
    has(get_head(c), "HTTP/1.1 200");
    expect(c, "ok");
    return c;
}

/* Whoever is without a request, or in the midst of its head, makes room, the quietest first. */
static void test_quiet_ones_go(void **state)
{
    (void)state;
    restart_front(&(struct sonde_front_options){ .connections_max = 3 }, "");
    const int busy = dial();
    put(busy, GET);
    const int u = up_accept();
    get_head(u);
    const int idle = dial();
    until_clients(2);
    const int half = dial();
    put(half, "GET / HT");
    const int first = serve_one();
    expect_end(idle);
    const int second = serve_one();
    expect_end(half);
    const int third = serve_one();
    expect_end(first);
    /* Who has sent a request does not go. */
    put(u, CLOSES);
    has(get_head(busy), "HTTP/1.1 200");
    const int all[] = { busy, idle, half, first, second, third, u };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) close(all[i]);
}

/* A request whose body does not come is given up, and its connection to the upstream with it. */
static void test_rest_of_a_request(void **state)
{
    (void)state;
    restart_front(&(struct sonde_front_options){ .stall_timeout_ms = 300 }, "");
    const int c = dial();
    put(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    const int u = up_accept();
    get_head(u);
    const char *answer = get_all(c);
    has(answer, "HTTP/1.1 408");
    has(answer, "\"type\":\"client_stalled\"");
    has(answer, "connection: close");
    const struct sonde_front_request r = ended(0);
    assert_int_equal(r.outcome, SONDE_FRONT_CANCELLED);
    assert_string_equal(r.error, "client_stalled");
    assert_int_equal(r.status, 408);
    expect(u, "ab");
    expect_end(u);
    close(c);
    close(u);
}

/* While it waits for the answer, for more of it or for "100 Continue", the time is the
 * upstream's. */
static void test_time_of_others(void **state)
{
    (void)state;
    restart_front(&(struct sonde_front_options){ .stall_timeout_ms = 300 }, "");
    const struct timespec long_enough = { 1, 0 };
    const int c = dial();
    put(c, GET);
    int u = up_accept();
    get_head(u);
    nanosleep(&long_enough, NULL);
    put(u, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n");
    has(get_head(c), "HTTP/1.1 200");
    nanosleep(&long_enough, NULL);
    put(u, "ok");
    expect(c, "ok");
    assert_int_equal(ended(0).outcome, SONDE_FRONT_OK);
    close(u);
    put(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    u = up_accept();
    get_head(u);
    nanosleep(&long_enough, NULL);
    put(u, "HTTP/1.1 413 Too Much\r\nContent-Length: 0\r\n\r\n");
    has(get_head(c), "HTTP/1.1 413");
    assert_int_equal(ended(1).outcome, SONDE_FRONT_ERROR);
    close(c);
    close(u);
}

/* An answer that is not taken holds the upstream up: it is cut off. */
static void test_answer_not_taken(void **state)
{
    (void)state;
    static char data[1 << 16];
    restart_front(&(struct sonde_front_options){ .stall_timeout_ms = 300 }, "");
    const int c = dial();
    put(c, GET);
    const int u = up_accept();
    get_head(u);
    put(u, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n");
    size_t sent = 0;
    while (sent < 1000000000) {
        const ssize_t n = send(u, data, sizeof(data), MSG_NOSIGNAL);
        if (n <= 0) break;
        sent += (size_t)n;
    }
    assert_true(sent < 1000000000);
    const struct sonde_front_request r = ended(0);
    assert_int_equal(r.outcome, SONDE_FRONT_CANCELLED);
    assert_string_equal(r.error, "client_stalled");
    close(c);
    close(u);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_front, teardown_front)
    const struct CMUnitTest tests[] = {
        TEST(test_quiet_ones_go),
        TEST(test_rest_of_a_request),
        TEST(test_time_of_others),
        TEST(test_answer_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
