/* The event log: lines as event_log.h promises them, none lost when many threads write at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "run/event_log.h"
#include "sonde/sonde.h"

enum { THREADS = 4, ROUNDS = 1500 };

static char path[] = "/tmp/sonde-events-XXXXXX";

/* The whole file; malloc'd. */
static char *text_of_file(void)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    const size_t bytes = (size_t)ftell(f);
    char *text = calloc(1, bytes + 1);
    rewind(f);
    assert_int_equal(fread(text, 1, bytes, f), bytes);
    fclose(f);
    return text;
}

static void test_lines(void **state)
{
    struct event_log *l = NULL;
    struct fail why;
    (void)state;
    sonde_open(NULL);
    assert_int_equal(event_log_create(path, &l, &why), 0);
    const struct engine_event events[] = {
        { .kind = EVENT_ARRIVAL, .at = 1, .text = "/v1/completions", .request = "a" },
        { .kind = EVENT_PROMPT, .at = 1, .a = 7, .b = 3, .request = "a" },
        { .kind = EVENT_BATCH, .begin = 1, .at = 1, .a = 5 },
        { .kind = EVENT_MEMBER, .a = 4, .request = "a" },
        { .kind = EVENT_MEMBER, .b = 1, .request = "b" },
        { .kind = EVENT_END, .at = 1, .a = 2, .text = "error", .error = "oom", .request = "a" },
        { .kind = EVENT_END, .at = 1, .a = 9, .text = "ok", .request = "b" },
    };
    event_log_put(l, events, sizeof(events) / sizeof(events[0]));
    event_log_put(NULL, events, 1);
    event_log_destroy(l);
    event_log_destroy(NULL);
    char *text = text_of_file();
    static const char *const wanted =
        "{\"event\":\"arrival\",\"ns\":0,\"request\":\"a\",\"route\":\"/v1/completions\"}\n"
        "{\"event\":\"prompt\",\"ns\":0,\"request\":\"a\",\"tokens\":7,\"reused\":3}\n"
        "{\"event\":\"batch\",\"begin\":0,\"ns\":0,\"batch\":5,\"members\":["
        "{\"request\":\"a\",\"prompt\":4,\"output\":0},"
        "{\"request\":\"b\",\"prompt\":0,\"output\":1}]}\n"
        "{\"event\":\"end\",\"ns\":0,\"request\":\"a\",\"tokens\":2,\"outcome\":\"error\","
        "\"error\":\"oom\"}\n"
        "{\"event\":\"end\",\"ns\":0,\"request\":\"b\",\"tokens\":9,\"outcome\":\"ok\","
        "\"error\":null}\n";
    assert_memory_equal(text, "{\"event\":\"start\",\"ticks\":", 25);
    assert_string_equal(strchr(text, '\n') + 1, wanted);
    free(text);
}

struct writer { struct event_log *log; int number; };

static void *writer_thread(void *arg)
{
    const struct writer *w = arg;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        struct engine_event pair[] = { { .kind = EVENT_BATCH, .at = sonde_ticks(), .a = i },
                                       { .kind = EVENT_MEMBER, .a = i } };
        snprintf(pair[1].request, sizeof(pair[1].request), "%d", w->number);
        event_log_put(w->log, pair, 2);
    }
    return NULL;
}

static void test_none_lost(void **state)
{
    struct event_log *l = NULL;
    struct writer writers[THREADS];
    pthread_t threads[THREADS];
    uint64_t next[THREADS] = { 0 };
    struct fail why;
    (void)state;
    assert_int_equal(event_log_create(path, &l, &why), 0);
    for (int i = 0; i < THREADS; i++) {
        writers[i] = (struct writer){ l, i };
        assert_int_equal(pthread_create(&threads[i], NULL, writer_thread, &writers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    event_log_destroy(l);
    char *text = text_of_file();
    for (const char *at = text; (at = strstr(at, "\"batch\":"));) {
        unsigned long long batch, prompt;
        int number;
        const int found = sscanf(
            at, "\"batch\":%llu,\"members\":[{\"request\":\"%d\",\"prompt\":%llu", &batch, &number,
            &prompt);
        assert_int_equal(found, 3);
        assert_true(number >= 0 && number < THREADS);
        assert_true(batch == prompt && batch == next[number]++);
        at++;
    }
    for (int i = 0; i < THREADS; i++) assert_true(next[i] == ROUNDS);
    free(text);
}

static void test_cannot_write(void **state)
{
    struct event_log *l = NULL;
    struct fail why = { "" };
    (void)state;
    assert_int_equal(event_log_create("/no/such/folder/log", &l, &why), -1);
    assert_non_null(strstr(why.text, "/no/such/folder/log"));
    assert_null(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines),
                                        cmocka_unit_test(test_none_lost),
                                        cmocka_unit_test(test_cannot_write) };
    close(mkstemp(path));
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
