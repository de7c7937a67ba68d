/* What is sent: lengths against their distributions, texts of a wanted number of words, bodies of
 * every dialect read by another parser, files of prompts and traces, good and bad, chats that hold
 * what was answered, and the same bytes for the same seed. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "bench/http/workload.h"
#include "sonde/sonde.h"

static struct sonde_load_workload_options options_of(void)
{
    return (struct sonde_load_workload_options){
        .api = SONDE_LOAD_API_OPENAI_CHAT, .model = "m", .stream = 1,
        .prompt = { SONDE_LOAD_LENGTH_CONSTANT, 20, 0 },
        .output = { SONDE_LOAD_LENGTH_CONSTANT, 9, 0 }, .calibration = { 0, 1, 0 }, .seed = 3 };
}

static size_t words_in(const char *text)
{
    size_t n = 0;
    for (; *text; text++) n += *text == ' ';
    return n + 1;
}

static void test_lengths(void **state)
{
    (void)state;
    static const struct { const char *text; double mean, deviation; } cases[] = {
        { "128", 128, 0 },          { "64..512", 288, 129.6 }, { "uniform:10..10", 10, 0 },
        { "normal:300,40", 300, 40 }, { "lognormal:200,0.3", 209.2, 64.2 },
    };
    enum { N = 100000 };
    struct sonde_err err;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_load_length l;
        struct sonde_load_random r = sonde_load_random_of(1, i);
        double sum = 0, squares = 0;
        assert_int_equal(sonde_load_length_parse(cases[i].text, &l, &err), 0);
        for (size_t k = 0; k < N; k++) {
            const double v = sonde_load_length_draw(&l, &r);
            sum += v;
            squares += v * v;
        }
        const double mean = sum / N, deviation = sqrt(fmax(squares / N - mean * mean, 0));
        assert_true(fabs(mean - cases[i].mean) < 0.01 * cases[i].mean);
        assert_true(fabs(deviation - cases[i].deviation) <= 0.02 * cases[i].deviation + 0.01);
        assert_true(fabs(sonde_load_length_mean(&l) - cases[i].mean) < 0.01 * cases[i].mean);
    }
    static const char *const bad[] = { "", "0", "x", "5..", "9..3", "normal:5", "lognormal:5,9",
                                       "-3", "1e99", "normal:,", "1..2..3", "5 " };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sonde_load_length l;
        if (sonde_load_length_parse(bad[i], &l, &err) != SONDE_EINVAL) {
            fprintf(stderr, "'%s' was taken for a length\n", bad[i]);
            fail();
        }
    }
}

static void test_calibration(void **state)
{
    (void)state;
    struct sonde_load_calibration c = { 0, 1, 0 };
    assert_int_equal(sonde_load_words(&c, 50, 1), 50);
    /* 12 tokens of a template, 1.5 a word. */
    assert_int_equal(sonde_load_calibrate(&c, 20, 42, 200, 312), 0);
    assert_true(c.known && fabs(c.per_word - 1.5) < 1e-9 && fabs(c.fixed - 12) < 1e-9);
    assert_int_equal(sonde_load_words(&c, 162, 1), 100);
    assert_int_equal(sonde_load_words(&c, 150, 0), 100);
    assert_int_equal(sonde_load_words(&c, 3, 1), 1);
    assert_int_equal(sonde_load_calibrate(&c, 20, 42, 200, 42), SONDE_EINVAL);
    assert_int_equal(sonde_load_calibrate(&c, 200, 42, 20, 50), SONDE_EINVAL);
    assert_int_equal(sonde_load_calibrate(&c, 20, 1, 200, 90000), SONDE_EINVAL);
}

static void test_bodies(void **state)
{
    (void)state;
    const struct sonde_load_message m[2] = { { "user", "say \"hi\"\n", 9 }, { "user", "b", 1 } };
    for (int api = 0; api < SONDE_LOAD_API_COUNT; api++) {
        const char *name = sonde_load_api_name((enum sonde_load_api)api);
        assert_int_equal(sonde_load_api_find(name), api);
        for (int stream = 0; stream < 2; stream++) {
            const char *path = sonde_load_api_path((enum sonde_load_api)api, stream);
            assert_int_equal(sonde_load_api_of_path(path), api);
            for (size_t count = 1; count <= 2; count++) {
                struct sonde_buf b;
                const struct sonde_load_ask ask = {
                    .api = (enum sonde_load_api)api, .model = "m", .messages = m,
                    .message_count = count, .max_tokens = 7, .stream = stream, .ignore_eos = 1,
                    .seed = 5 };
                sonde_buf_init(&b, 1 << 16);
                sonde_load_api_body(&ask, &b);
                json_t *j = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
                assert_non_null(j);
                const json_t *messages = json_object_get(j, "messages");
                if (sonde_load_api_chats((enum sonde_load_api)api)) {
                    assert_int_equal(json_array_size(messages), count);
                    assert_string_equal(json_string_value(json_object_get(
                                            json_array_get(messages, 0), "content")), m[0].text);
                } else {
                    assert_null(messages);
                }
                json_decref(j);
                sonde_buf_release(&b);
            }
        }
    }
    assert_int_equal(sonde_load_api_of_path("/gateway/v2/chat/completions?x=1"),
                     SONDE_LOAD_API_OPENAI_CHAT);
    assert_int_equal(sonde_load_api_of_path("/"), -1);
    assert_int_equal(sonde_load_api_of_path("/v1"), -1);
    char why[100];
    static const char error[] = "{\"error\":{\"message\":\"no such\\nmodel\"}}";
    sonde_load_api_error(error, strlen(error), why, sizeof(why));
    assert_string_equal(why, "no such");
    assert_int_equal(sonde_load_api_prompt_tokens("{\"usage\":{\"prompt_tokens\":12}}", 30), 12);
    assert_int_equal(sonde_load_api_prompt_tokens("{\"tokens_evaluated\":4}", 22), 4);
    assert_int_equal(sonde_load_api_prompt_tokens("{\"usage\":{\"prompt_tokens\":-1}}", 30),
                     SONDE_LOAD_UNKNOWN);
    assert_int_equal(sonde_load_api_prompt_tokens("nothing", 7), SONDE_LOAD_UNKNOWN);
}

static char *prompt_of(const struct sonde_load_workload *w, uint32_t i)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    assert_int_equal(sonde_load_workload_body(w, i, &b), 0);
    json_t *j = json_loadb(b.data, b.len, 0, NULL);
    assert_non_null(j);
    const char *text = json_string_value(
        json_object_get(json_array_get(json_object_get(j, "messages"), 0), "content"));
    char *copy = sonde__strdup(text);
    json_decref(j);
    sonde_buf_release(&b);
    return copy;
}

static void test_prompts(void **state)
{
    (void)state;
    struct sonde_load_workload_options o = options_of();
    struct sonde_load_workload *w, *again;
    struct sonde_err err;
    o.prefix_tokens = 12;
    o.prefix_count = 3;
    assert_int_equal(sonde_load_workload_create(&o, &w, &err), 0);
    assert_int_equal(sonde_load_workload_create(&o, &again, &err), 0);
    int begins[200], kinds = 0;
    char *seen[200];
    for (uint32_t i = 0; i < 200; i++) {
        char *twin = prompt_of(again, 199 - i);
        seen[i] = prompt_of(w, i);
        assert_int_equal(words_in(seen[i]), 20);
        sonde__free(twin);
        twin = prompt_of(again, i);
        assert_string_equal(seen[i], twin); /* whatever was made before */
        sonde__free(twin);
        begins[i] = -1;
        for (uint32_t k = 0; k < i && begins[i] < 0; k++) {
            size_t at = 0, words = 0;
            while (seen[i][at] && seen[i][at] == seen[k][at]) words += seen[i][at++] == ' ';
            if (words >= 12) begins[i] = begins[k];
            assert_true(words < 19); /* the rest is its own */
        }
        if (begins[i] < 0) begins[i] = kinds++;
    }
    assert_int_equal(kinds, 3);
    for (size_t i = 0; i < 200; i++) sonde__free(seen[i]);
    sonde_load_workload_destroy(w);
    sonde_load_workload_destroy(again);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A sender that answers at once. */
static void test_source(void **state)
{
    (void)state;
    struct sonde_load_workload_options o = options_of();
    struct sonde_load_workload *w;
    struct sonde_err err;
    o.requests_max = 10;
    assert_int_equal(sonde_load_workload_create(&o, &w, &err), 0);
    assert_int_equal(sonde_load_workload_prepare(w, 6), 0);
    struct sonde_load_source *s = sonde_load_workload_source(w);
    struct sonde_load_request r[10], more;
    for (uint32_t i = 0; i < 10; i++) {
        struct sonde_buf b;
        assert_int_equal(s->next(s, &r[i]), 0);
        assert_int_equal(r[i].request, i);
        sonde_buf_init(&b, 1 << 20);
        sonde_load_workload_body(w, i, &b);
        assert_int_equal(b.len, r[i].body_len);
        assert_memory_equal(b.data, r[i].body, b.len);
        sonde_buf_release(&b);
    }
    assert_int_equal(s->next(s, &more), SONDE_ENOENT);
    const struct sonde_load_record record = { .outcome = SONDE_LOAD_OK };
    for (uint32_t i = 0; i < 10; i++) s->done(s, &r[i], &record, NULL, 0);
    sonde_load_workload_destroy(w);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_chats(void **state)
{
    (void)state;
    struct sonde_load_workload_options o = options_of();
    struct sonde_load_workload *w;
    struct sonde_err err;
    o.turns = 3;
    o.chats_max = 2;
    assert_int_equal(sonde_load_workload_create(&o, &w, &err), 0);
    struct sonde_load_source *s = sonde_load_workload_source(w);
    struct sonde_load_request a, b, c;
    const struct sonde_load_record ok = { .outcome = SONDE_LOAD_OK },
                                   bad = { .outcome = SONDE_LOAD_RESET };
    assert_int_equal(s->next(s, &a), 0);
    assert_int_equal(s->next(s, &b), 0);
    assert_int_equal(s->next(s, &c), SONDE_EBUSY); /* both wait for their answers */
    assert_true(a.keep_text);
    s->done(s, &a, &ok, "blue \"sky\"", 10);
    assert_int_equal(s->next(s, &a), 0);
    json_t *j = json_loadb(a.body, a.body_len, 0, NULL);
    const json_t *m = json_object_get(j, "messages");
    assert_int_equal(json_array_size(m), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(m, 1), "role")),
                        "assistant");
    assert_string_equal(json_string_value(json_object_get(json_array_get(m, 1), "content")),
                        "blue \"sky\"");
    json_decref(j);
    s->done(s, &b, &bad, NULL, 0); /* its two other turns are not sent */
    assert_int_equal(sonde_load_workload_broken(w), 2);
    s->done(s, &a, &ok, "x", 1);
    assert_int_equal(s->next(s, &a), 0);
    assert_false(a.keep_text); /* the last */
    assert_int_equal(s->next(s, &b), 0); /* a new chat for the broken one */
    s->done(s, &a, &ok, NULL, 0);
    s->done(s, &b, &ok, "y", 1);
    sonde_load_workload_destroy(w);
    assert_int_equal(sonde__alloc_live(), 0);
}

static int parse(const char *text, struct sonde_load_trace *t, struct sonde_err *err)
{
    return sonde_load_trace_parse(text, strlen(text), "file", t, err);
}

static void test_traces(void **state)
{
    (void)state;
    struct sonde_load_trace t;
    struct sonde_err err;
    assert_int_equal(parse("{\"timestamp\":3000,\"input_length\":700,\"output_length\":5,"
                           "\"hash_ids\":[1,2]}\n\n"
                           "{\"timestamp\":1000,\"input_length\":600,\"output_length\":6,"
                           "\"hash_ids\":[1,9]}\n", &t, &err), 0);
    assert_true(t.timed && t.count == 2);
    assert_true(t.items[0].at_s == 0 && t.items[1].at_s == 2); /* in order, from the first on */
    assert_int_equal(t.items[0].tokens_in, 600);
    struct sonde_load_workload_options o = options_of();
    struct sonde_load_workload *w;
    o.trace = &t;
    o.replay = 1;
    o.speed = 2;
    assert_int_equal(sonde_load_workload_create(&o, &w, &err), 0);
    char *a = prompt_of(w, 0), *b = prompt_of(w, 1);
    size_t at = 0, words = 0;
    while (a[at] && a[at] == b[at]) words += a[at++] == ' ';
    assert_true(words >= 512 && words < 520); /* a block of 512 tokens is shared */
    assert_int_equal(words_in(a), 600);
    sonde__free(a);
    sonde__free(b);
    struct sonde_load_source *s = sonde_load_workload_source(w);
    struct sonde_load_request r[2], more;
    assert_int_equal(s->next(s, &r[0]), 0);
    assert_int_equal(s->next(s, &r[1]), 0);
    assert_int_equal(s->next(s, &more), SONDE_ENOENT);
    assert_int_equal(r[1].at_ns, 1000000000); /* twice as fast */
    const struct sonde_load_record ok = { .outcome = SONDE_LOAD_OK };
    s->done(s, &r[0], &ok, NULL, 0);
    s->done(s, &r[1], &ok, NULL, 0);
    sonde_load_workload_destroy(w);
    sonde_load_trace_release(&t);

    assert_int_equal(parse("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
                           "5,ChatGPT,472,18,490,Conversation log\n"
                           "45,ChatGPT,1087,0,1087,Conversation log\n"
                           "118.5,GPT-4,417,276,693,Conversation log\n", &t, &err), 0);
    assert_true(t.timed && t.count == 2 && t.skipped == 1);
    assert_true(t.items[1].at_s == 113.5 && t.items[1].tokens_out == 276);
    sonde_load_trace_release(&t);

    assert_int_equal(parse("TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                           "2023-11-30 23:59:59.5,374,44\r\n2023-12-01 00:00:01.0,396,109\r\n",
                           &t, &err), 0);
    assert_true(fabs(t.items[1].at_s - 1.5) < 1e-6);
    sonde_load_trace_release(&t);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_files(void **state)
{
    (void)state;
    struct sonde_load_trace t;
    struct sonde_err err;
    assert_int_equal(parse("[{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},"
                           "{\"from\":\"gpt\",\"value\":\"b\"},{\"from\":\"human\",\"value\":\"c\"}]},"
                           "{\"conversations\":[{\"from\":\"gpt\",\"value\":\"b\"}]}]", &t, &err), 0);
    assert_true(t.count == 1 && t.skipped == 1 && t.items[0].turn_count == 2 && !t.timed);
    sonde_load_trace_release(&t);

    assert_int_equal(parse("{\"messages\":[{\"role\":\"user\",\"content\":\"é\"}],\"temperature\":0.5,"
                           "\"stream\":false,\"max_tokens\":3}\n{\"prompt\":\"p\"}\n", &t, &err), 0);
    struct sonde_load_workload_options o = options_of();
    struct sonde_load_workload *w;
    struct sonde_buf b;
    o.trace = &t;
    assert_int_equal(sonde_load_workload_create(&o, &w, &err), 0);
    sonde_buf_init(&b, 1 << 16);
    assert_int_equal(sonde_load_workload_body(w, 2, &b), 0); /* they come in turn */
    json_t *j = json_loadb(b.data, b.len, 0, NULL);
    assert_true(json_is_true(json_object_get(j, "stream")));
    assert_true(json_is_true(json_object_get(json_object_get(j, "stream_options"),
                                             "include_usage")));
    assert_int_equal(json_integer_value(json_object_get(j, "max_tokens")), 3);
    assert_string_equal(json_string_value(json_object_get(j, "model")), "m");
    assert_true(json_real_value(json_object_get(j, "temperature")) == 0.5);
    json_decref(j);
    sonde_buf_release(&b);
    sonde_load_workload_destroy(w);
    sonde_load_trace_release(&t);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_bad_files(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "", "\n\n", "{", "[1]", "nothing", "{}", "{\"input_length\":0}", "{\"input_length\":1e30}",
        "{\"timestamp\":-1,\"input_length\":5}", "{\"input_length\":5,\"hash_ids\":[\"x\"]}",
        "{\"prompt\":5}", "{\"conversations\":[{\"from\":\"human\"}]}", "{\"prompt\":\"a\"}\n{]",
        "Timestamp,Request tokens,Response tokens\nx,1,1\n", "a,b,c\n1,2,3\n",
        "Timestamp,Request tokens,Response tokens\n", "[{\"prompt\":\"a\"}, 7]", "[",
        "{\"prompt\":\"a\",\"prompt\":\"b\"}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sonde_load_trace t;
        struct sonde_err err = { "" };
        if (parse(bad[i], &t, &err) != SONDE_EINVAL || !strstr(err.text, "file")) {
            fprintf(stderr, "'%s': '%s'\n", bad[i], err.text);
            fail();
        }
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Files that were right, with bytes changed, removed and doubled: taken or refused with a sentence,
 * never more; and what was taken can be sent. */
static void test_mutated(void **state)
{
    (void)state;
    static const char *const seeds[] = {
        "{\"timestamp\":27482,\"input_length\":70,\"output_length\":5,\"hash_ids\":[46,47]}\n"
        "{\"timestamp\":30535,\"input_length\":60,\"output_length\":6,\"hash_ids\":[]}\n",
        "Timestamp,Model,Request tokens,Response tokens\n5,a,472,18\n2023-11-16 18:17:03.9,b,9,8\n",
        "[{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":\"b\"}]}]",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"\\u00e9\"}],\"max_tokens\":3}\n{\"prompt\":\"x\"}",
    };
    struct sonde_load_random r = sonde_load_random_of(4, 4);
    for (int round = 0; round < 8000; round++) {
        char text[512];
        struct sonde_load_trace t;
        struct sonde_err err = { "" };
        size_t len = strlen(seeds[round % 4]);
        memcpy(text, seeds[round % 4], len);
        for (uint32_t k = 1 + sonde_load_random_below(&r, 4); k; k--) {
            const size_t at = sonde_load_random_below(&r, (uint32_t)len), rest = len - at;
            const uint32_t kind = sonde_load_random_below(&r, 4);
            if (kind == 0) text[at] = (char)sonde_load_random_u64(&r);
            else if (kind == 1 && len > 20) memmove(text + at, text + at + 1, rest - 1), len--;
            else if (kind == 2 && len < 500) memmove(text + at + 1, text + at, rest), len++;
            else text[at] = "0-9{}[]\",:\n"[sonde_load_random_below(&r, 11)];
        }
        if (sonde_load_trace_parse(text, len, "file", &t, &err)) {
            assert_true(err.text[0]);
        } else {
            struct sonde_load_workload_options o = options_of();
            struct sonde_load_workload *w;
            struct sonde_buf b;
            o.trace = &t;
            /* What would be a million words is not made a thousand times. */
            for (size_t i = 0; i < t.count; i++) t.items[i].tokens_in %= 2000;
            assert_int_equal(sonde_load_workload_create(&o, &w, &err), 0);
            sonde_buf_init(&b, 1 << 20);
            assert_int_equal(sonde_load_workload_body(w, 0, &b), 0);
            sonde_buf_release(&b);
            sonde_load_workload_destroy(w);
            sonde_load_trace_release(&t);
        }
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Every allocation of making a source fails in turn. */
static void test_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 60; nth++) {
        struct sonde_load_workload_options o = options_of();
        struct sonde_load_workload *w = NULL;
        struct sonde_err err;
        o.turns = nth % 2 ? 2 : 0;
        sonde__alloc_fail_nth(nth);
        if (!sonde_load_workload_create(&o, &w, &err)) {
            struct sonde_load_source *s = sonde_load_workload_source(w);
            struct sonde_load_request r;
            const struct sonde_load_record ok = { .outcome = SONDE_LOAD_OK };
            sonde_load_workload_prepare(w, 3);
            for (int i = 0; i < 4; i++) {
                if (!s->next(s, &r)) s->done(s, &r, &ok, "text", 4);
            }
        }
        sonde__alloc_fail_nth(0);
        sonde_load_workload_destroy(w);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths), cmocka_unit_test(test_calibration),
        cmocka_unit_test(test_bodies),  cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_source),  cmocka_unit_test(test_chats),
        cmocka_unit_test(test_traces),  cmocka_unit_test(test_files),
        cmocka_unit_test(test_bad_files), cmocka_unit_test(test_mutated),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
