/* Many clients at once, of which some go away: those who stay get what each would get alone,
 * those who go are cancelled, nothing is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/engine/http/client.h"
#include "unit/engine/small_model.h"

enum { CLIENTS = 32, ROUNDS = 3, PROMPTS = 5 };

static struct engine *engine;
static struct http_server *server;
static char *alone[PROMPTS];

static void question(char *out, size_t size, uint32_t prompt, uint32_t tokens)
{
    snprintf(out, size, "{\"messages\":[{\"role\":\"system\",\"content\":\"Answer in few words.\"},"
             "{\"role\":\"user\",\"content\":\"Question number %u, please\"}],\"max_tokens\":%u,"
             "\"ignore_eos\":true,\"stream\":true}", prompt * prompt, tokens);
}

static void server_start(uint32_t slots, uint32_t queue, uint32_t timeout)
{
    const struct engine_options o = { .model_path = small_model(), .threads = 2, .slots = slots,
                                      .queue_max = queue, .deterministic = 1 };
    const struct http_options h = { .listen = "127.0.0.1:0", .client_timeout_s = timeout };
    struct fail why;
    if (engine_create(&o, &engine, &why) || http_server_create(engine, &h, &server, &why)) {
        fail_msg("%s", why.text);
    }
}

static void server_stop(double seconds)
{
    http_server_stop(server, seconds);
    http_server_destroy(server);
    engine_destroy(engine);
}

static struct engine_counts counts(void)
{
    struct engine_counts n;
    engine_counts(engine, &n);
    return n;
}

static void until_ended(uint64_t cancelled)
{
    while (counts().running || counts().waiting || counts().cancelled < cancelled) usleep(2000);
}

struct client { uint32_t number; int wrong; uint32_t left; };

static void *client_thread(void *arg)
{
    struct client *c = arg;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const uint32_t prompt = (c->number + round) % PROMPTS;
        char body[512];
        question(body, sizeof(body), prompt, 10);
        const int fd = client_connect(http_server_url(server));
        client_send(fd, "POST", "/v1/chat/completions", "", body);
        /* A third goes away: at once, after the head, in the midst of it. */
        const int leaves = (c->number + round) % 3 == 0;
        const size_t enough =
            !leaves ? CLIENT_BYTES_MAX : (size_t)(c->number * 37 + round * 211) % 1500;
        char *answer = client_read(fd, enough);
        close(fd);
        c->left += (uint32_t)leaves;
        if (!leaves) {
            char *text = client_stream_text(answer);
            if (strcmp(text, alone[prompt]) != 0 || !strstr(answer, "data: [DONE]")) c->wrong++;
            free(text);
        }
        free(answer);
    }
    return NULL;
}

static void test_many(void **state)
{
    struct client clients[CLIENTS];
    pthread_t threads[CLIENTS];
    (void)state;
    server_start(4, 256, 30);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        char body[512];
        question(body, sizeof(body), i, 10);
        char *answer =
            client_ask(http_server_url(server), "POST", "/v1/chat/completions", "", body);
        assert_int_equal(client_status(answer), 200);
        alone[i] = client_stream_text(answer);
        free(answer);
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){ .number = i };
        assert_int_equal(pthread_create(&threads[i], NULL, client_thread, &clients[i]), 0);
    }
    uint32_t left = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        pthread_join(threads[i], NULL);
        if (clients[i].wrong) fail_msg("client %u: %d answers differ", i, clients[i].wrong);
        left += clients[i].left;
    }
    until_ended(0);
    const struct engine_counts n = counts();
    assert_int_equal(n.failed, 0);
    assert_true(n.cancelled <= left);
    assert_true(n.done >= PROMPTS + CLIENTS * ROUNDS - left);
    server_stop(10);
    for (uint32_t i = 0; i < PROMPTS; i++) free(alone[i]);
}

/* Gone while it waits in the queue, and while it waits for a whole answer. */
static void test_gone_while_suspended(void **state)
{
    static const char long_one[] = "{\"prompt\":\"a\",\"max_tokens\":500,\"ignore_eos\":true}";
    (void)state;
    server_start(1, 8, 30);
    const int runs = client_connect(http_server_url(server));
    client_send(runs, "POST", "/v1/completions", "", long_one);
    while (!counts().tokens_out) usleep(1000);
    const int waits = client_connect(http_server_url(server));
    client_send(waits, "POST", "/v1/completions", "", long_one);
    while (!counts().waiting && counts().running) usleep(1000);
    close(waits);
    while (counts().waiting) usleep(1000);
    close(runs);
    until_ended(0);
    const struct engine_counts n = counts();
    assert_int_equal(n.cancelled + n.done, 2);
    server_stop(10);
}

/* The engine stands still while two wait: all others are refused. */
static void test_queue_full(void **state)
{
    char body[512];
    int fds[12], refused = 0;
    struct waiter holds;
    int32_t prompt[8];
    struct fail why;
    (void)state;
    server_start(1, 2, 30);
    waiter_init(&holds);
    holds.hold = 1;
    const struct engine_request r = small_request(&holds, prompt, small_prompt(0, 8, prompt), 2);
    assert_int_equal(engine_submit(engine, &r, &holds.id, &why), 0);
    waiter_wait_tokens(&holds, 1);
    question(body, sizeof(body), 1, 20);
    for (int i = 0; i < 12; i++) {
        fds[i] = client_connect(http_server_url(server));
        client_send(fds[i], "POST", "/v1/chat/completions", "", body);
    }
    /* All have been looked at when there are heads for all: those that wait have theirs at once. */
    for (int i = 0; i < 12; i++) {
        char peek;
        assert_int_equal(recv(fds[i], &peek, 1, MSG_PEEK), 1);
    }
    waiter_go_on(&holds);
    for (int i = 0; i < 12; i++) {
        char *answer = client_read(fds[i], CLIENT_BYTES_MAX);
        const int status = client_status(answer);
        if (status == 429) {
            refused++;
            assert_non_null(strstr(answer, "Retry-After: "));
            assert_non_null(strstr(answer, "queue_full"));
        } else {
            assert_int_equal(status, 200);
            assert_non_null(strstr(answer, "data: [DONE]"));
        }
        free(answer);
        close(fds[i]);
    }
    assert_int_equal(refused, 10);
    waiter_wait(&holds);
    server_stop(10);
}

/* Stopping: what runs is answered as a whole; with no time it is cut, and the client told. */
static void test_stop(void **state)
{
    char body[512];
    (void)state;
    for (int cut = 0; cut < 2; cut++) {
        server_start(2, 8, 30);
        question(body, sizeof(body), 2, cut ? 400 : 30);
        const int fd = client_connect(http_server_url(server));
        client_send(fd, "POST", "/v1/chat/completions", "", body);
        while (!counts().tokens_out) usleep(500);
        http_server_stop(server, cut ? 0 : 60);
        char *answer = client_read(fd, CLIENT_BYTES_MAX);
        assert_int_equal(client_status(answer), 200);
        if (!cut) assert_non_null(strstr(answer, "data: [DONE]"));
        else assert_true(strstr(answer, "\"error\"") || strstr(answer, "[DONE]"));
        free(answer);
        close(fd);
        server_stop(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many), cmocka_unit_test(test_gone_while_suspended),
        cmocka_unit_test(test_queue_full), cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
