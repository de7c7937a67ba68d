/* Frames of `sonde top` from recorded answers, at many sizes; keys; hostile text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "present/text.h"
#include "present/top/view.h"
#include "sonde/sonde.h"
#include "unit/present/top/top_sample.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void load(struct sonde_top_data *d)
{
    struct sonde_err err;
    sonde_top_data_init(d);
#define READ(what, text) \
    assert_int_equal(sonde_top_read_##what(d, text, strlen(text), &err), 0)
    READ(processes, SAMPLE_PROCESSES);
    READ(host, SAMPLE_HOST);
    READ(series, SAMPLE_SERIES);
    READ(spans, SAMPLE_SPANS);
    READ(trace, SAMPLE_TRACE);
#undef READ
}

static struct sonde_top_state fresh(enum sonde_top_page page)
{
    struct sonde_top_state s;
    sonde_top_state_init(&s);
    s.page = page;
    s.origin = "http://127.0.0.1:6060";
    return s;
}

static void load_memory(struct sonde_top_data *d)
{
    struct sonde_err err;
    sonde_top_data_init(d);
    assert_int_equal(sonde_top_read_series(d, SAMPLE_MEMORY, strlen(SAMPLE_MEMORY), &err), 0);
}

static void load_inference(struct sonde_top_data *d)
{
    struct sonde_err err;
    assert_int_equal(sonde_top_read_infer(d, SAMPLE_INFERENCE, strlen(SAMPLE_INFERENCE), &err),
                     0);
    assert_int_equal(sonde_top_read_requests(d, SAMPLE_REQUESTS, strlen(SAMPLE_REQUESTS), &err),
                     0);
}

static void load_findings(struct sonde_top_data *d)
{
    struct sonde_err err;
    assert_int_equal(sonde_top_read_findings(d, SAMPLE_FINDINGS, strlen(SAMPLE_FINDINGS), &err),
                     0);
}

/* All there is to see: pages, and of the spans all views; the last are the pages on memory, on
 * inference, on findings and on GPUs. */
enum { VIEWS = SONDE_TOP_PAGES + SONDE_TOP_TRACE };
static struct sonde_top_state fresh_nth(int nth)
{
    struct sonde_top_state s = fresh(nth < SONDE_TOP_SPANS ? (enum sonde_top_page)nth
                                     : nth == VIEWS - 1    ? SONDE_TOP_GPU
                                     : nth == VIEWS - 2    ? SONDE_TOP_FINDINGS
                                     : nth == VIEWS - 3    ? SONDE_TOP_INFERENCE
                                     : nth == VIEWS - 4    ? SONDE_TOP_MEMORY
                                                           : SONDE_TOP_SPANS);
    if (s.page == SONDE_TOP_SPANS) s.view = (enum sonde_top_spans_view)(nth - SONDE_TOP_SPANS);
    return s;
}

/* The frame as text; the caller frees it. Checks that it is within its size and clean. */
static char *frame(struct sonde_top_state *s, const struct sonde_top_data *d, int width,
                   int height, int ascii)
{
    struct sonde_grid g;
    struct sonde_buf b;
    assert_int_equal(sonde_grid_init(&g, width, height, ascii), 0);
    assert_int_equal(sonde_top_draw(s, d, &g), 0);
    sonde_buf_init(&b, 1 << 22);
    sonde_grid_print(&g, &b);
    sonde_buf_puts(&b, "");
    sonde_grid_release(&g);

    assert_true(sonde__utf8_valid(b.data, b.len));
    int rows = 0;
    for (const char *line = b.data, *end; *line; line = end + 1, rows++) {
        end = strchr(line, '\n');
        char text[8192];
        snprintf(text, sizeof(text), "%.*s", (int)(end - line), line);
        assert_true(sonde_text_cells(text, ascii) <= width);
        for (const char *c = text; *c; c++) {
            assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
            if (ascii) assert_true((unsigned char)*c < 0x80);
        }
    }
    assert_true(rows <= height);
    return sonde_buf_take(&b);
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("no '%s' in:\n%s", part, text);
}

static void has_not(const char *text, const char *part)
{
    if (strstr(text, part)) fail_msg("'%s' in:\n%s", part, text);
}

static void overview(void **state)
{
    (void)state;
    struct sonde_top_data d;
    struct sonde_top_state s = fresh(SONDE_TOP_OVERVIEW);
    load(&d);
    char *text = frame(&s, &d, 130, 20, 0);
    has(text, "http://127.0.0.1:6060  every 1 s");
    sonde__free(text);
    text = frame(&s, &d, 120, 20, 0);
    has(text, "sonde [1 overview] 2 series  3 spans");
    has(text, "every 1 s");
    has_not(text, "http://127.0.0.1:6060"); /* only where all of it fits */
    has(text, "CPU 42.5 %");
    has(text, "memory 4.00 GiB of 8.00 GiB, 50.0 %");
    has(text, "load 0.50 1.00 1.50");
    has(text, "↓ 2.00 KiB/s ↑ 512 B/s");
    has(text, "   4242  example_shop      running   87.3 %   7.00 MiB        6      31");
    has(text, "     77  batch             killed");
    has(text, "q quit");
    has(text, "? help");
    assert_int_equal(s.row_pid, 4242);
    sonde__free(text);

    text = frame(&s, &d, 40, 10, 1); /* narrow and without UTF-8: still the essentials */
    has(text, "[1 overview]");
    has(text, "example_s");
    has(text, "87.3 %");
    sonde__free(text);
    sonde_top_data_release(&d);
}

static void memory_page(void **state)
{
    (void)state;
    struct sonde_top_data d;
    struct sonde_top_state s = fresh(SONDE_TOP_MEMORY);
    load_memory(&d);
    char *text = frame(&s, &d, 180, 20, 0);
    has(text, " 3 spans [4 memory]");
    has(text, "2 processes · the heap of 1 is profiled · by in use");
    has(text, "     71  server            100 MiB  ↑    110 MiB   2.00 MiB    1.50k  4.20k    "
              "150 MiB   8.00 MiB");
    has(text, "▁▅█");
    has(text, "▁█\n");
    has(text, "      9  server                  –  ↓          –          –        –      –   "
              "1.00 MiB          –");
    has(text, "POOL                        BYTES");
    has(text, "kv                       32.0 MiB                              ▁█");
    has(text, "Enter its series");
    assert_int_equal(s.row_pid, 71);
    sonde__free(text);

    /* The one with the smaller heap has no pools; a key leads to its series. */
    sonde_top_key(&s, SONDE_KEY_DOWN);
    text = frame(&s, &d, 100, 12, 1);
    has_not(text, "POOL");
    assert_int_equal(s.row_pid, 9);
    sonde__free(text);
    sonde_top_key(&s, 's');
    sonde_top_key(&s, 's');
    text = frame(&s, &d, 100, 12, 1);
    has(text, "by rss");
    sonde__free(text);
    assert_true(sonde_top_key(&s, SONDE_KEY_ENTER) & SONDE_TOP_REFETCH);
    assert_int_equal(s.page, SONDE_TOP_SERIES);
    assert_int_equal(s.pid, 9);
    sonde_top_key(&s, '4');
    assert_int_equal(s.page, SONDE_TOP_MEMORY);
    sonde_top_data_release(&d);

    sonde_top_data_init(&d);
    d.time_s = 1;
    text = frame(&s, &d, 80, 12, 1);
    has(text, "No process is being watched.");
    sonde__free(text);
}

static void inference_page(void **state)
{
    (void)state;
    struct sonde_top_data d;
    struct sonde_top_state s = fresh(SONDE_TOP_INFERENCE);
    sonde_top_data_init(&d);
    load_inference(&d);
    char *text = frame(&s, &d, 120, 24, 0);
    has(text, " 4 memory [5 inference]");
    has(text, "15.4 requests/s · 4 running · 2 waiting · 4 failed, 5 cancelled · goodput 90.0 % · "
              "3 events not used");
    has(text,
        "tokens/s: 266 out in all · 55.1 as a user sees · computed 252 decode, 1.41k prefill");
    has(text, "phases ······██████────────────  queue 25.0 % · prefill 25.0 % · decode 50.0 %");
    has(text, "tiny on cpu · KV 65.5 % of 1.00k cells · prefix hits 32.9 % · weights 512 MiB, kv "
              "64.0 MiB");
    has(text, "tiny /v1/chat          15.4   50.0 ms   213 ms   218 ms  13.6 ms  32.1 ms  43.9 ms");
    has(text, "2 of 77 requests, slowest first · percentiles of the last 60 s");
    has(text, "job-1 ");
    has(text, "00000000000000a2");
    has(text, "running");
    has(text, "··████");
    has(text, "─────\n");
    has(text, "Enter its trace");
    assert_string_equal(s.row_trace, TRACE1);
    sonde__free(text);

    /* Memory has a line of its own where it must; one process only. */
    text = frame(&s, &d, 80, 24, 0);
    has(text, "\n  weights 512 MiB, kv 64.0 MiB\n");
    sonde__free(text);
    s.pid = 43;
    text = frame(&s, &d, 80, 24, 1);
    has_not(text, "job-1");
    has(text, "00000000000000a2");
    has(text, "process 43");
    assert_string_equal(s.row_trace, "");
    sonde__free(text);
    s.pid = 0;

    /* Sorting asks anew; Enter shows the trace, and Esc leads back. */
    assert_true(sonde_top_key(&s, 's') & SONDE_TOP_REFETCH);
    text = frame(&s, &d, 80, 24, 1);
    has(text, "newest first");
    sonde__free(text);
    assert_true(sonde_top_key(&s, SONDE_KEY_ENTER) & SONDE_TOP_REFETCH);
    assert_int_equal(s.page, SONDE_TOP_SPANS);
    assert_int_equal(s.view, SONDE_TOP_TRACE);
    assert_string_equal(s.trace_id, TRACE1);
    sonde_top_key(&s, SONDE_KEY_ESC);
    assert_int_equal(s.page, SONDE_TOP_INFERENCE);
    assert_int_equal(s.view, SONDE_TOP_NAMES);
    sonde_top_data_release(&d);

    sonde_top_data_init(&d);
    d.time_s = 1;
    text = frame(&s, &d, 80, 12, 1);
    has(text, "No inference has been seen.");
    sonde__free(text);
}

static void findings_page(void **state)
{
    (void)state;
    struct sonde_top_data d;
    struct sonde_top_state s = fresh(SONDE_TOP_FINDINGS);
    load(&d);
    load_findings(&d);
    char *text = frame(&s, &d, 120, 20, 0);
    has(text, " 5 inference [6 findings]");
    has(text, "critical  Memory leak     document_read  document.c:12   90.0 %");
    has(text, "warning   Requests queue  requests");
    has(text, "2.00 min\n");
    has(text, "\ndocument_read allocated 82.4 MiB that are still in use\n"
              "→ free what document_read allocates for document_serve\n");
    has_not(text, "gain");
    sonde__free(text);
    /* The other one, wrapped. */
    sonde_top_key(&s, SONDE_KEY_DOWN);
    text = frame(&s, &d, 30, 20, 1);
    has(text, "60 requests waited\n");
    has(text, "\ngain: up to 32 % of the\nlatency\nexplains 1 other finding\n");
    sonde__free(text);
    /* The overview says that there are some, and where. */
    assert_true(sonde_top_key(&s, '1') & SONDE_TOP_REFETCH);
    text = frame(&s, &d, 100, 20, 0);
    has(text, "\ncritical: Memory leak · 2 findings on page 6\n");
    sonde__free(text);
    assert_true(sonde_top_key(&s, '6') & SONDE_TOP_REFETCH);
    assert_int_equal(s.page, SONDE_TOP_FINDINGS);
    assert_int_equal(sonde_top_key(&s, 's'), 0);
    sonde_top_data_release(&d);

    static const struct { const char *answer, *part; } none[] = {
        { NULL, "Nobody looks for findings here." },
        { "{\"time\":1,\"active\":[],\"looked\":0}", "has not looked yet" },
        { "{\"time\":1,\"active\":[],\"looked\":1}", "Nothing found." },
    };
    for (size_t i = 0; i < COUNT(none); i++) {
        struct sonde_err err;
        const char *answer = none[i].answer;
        sonde_top_data_init(&d);
        d.time_s = 1;
        if (answer) {
            assert_int_equal(sonde_top_read_findings(&d, answer, strlen(answer), &err), 0);
        }
        text = frame(&s, &d, 100, 12, 1);
        has(text, none[i].part);
        sonde__free(text);
        sonde_top_data_release(&d);
    }
}

static void series_page(void **state)
{
    (void)state;
    struct sonde_top_data d;
    struct sonde_top_state s = fresh(SONDE_TOP_SERIES);
    load(&d);
    snprintf(s.filter, sizeof(s.filter), "shop_*");
    char *text = frame(&s, &d, 200, 20, 0);
    has(text, "3 of 1234 series; filter with /");
    has(text, "filter shop_*");
    has(text, "shop_requests_total{route=\"/pay\"}");
    has(text, "123k");
    has(text, "12.1 ms");
    has(text, "↑");
    has(text, "▁▃▅▇█");
    sonde__free(text);

    /* By name: latency, queue, requests; by rate: requests first. */
    assert_int_equal(sonde_top_key(&s, 's'), SONDE_TOP_REDRAW);
    text = frame(&s, &d, 100, 20, 0);
    assert_true(strstr(text, "shop_requests") < strstr(text, "shop_latency"));
    assert_true(strstr(text, "shop_latency") < strstr(text, "shop_queue"));
    sonde__free(text);
    sonde_top_key(&s, 'r');
    text = frame(&s, &d, 100, 20, 0);
    assert_true(strstr(text, "shop_requests") > strstr(text, "shop_latency"));
    assert_true(strstr(text, "shop_latency") < strstr(text, "shop_queue")); /* unknown stays last */
    sonde__free(text);
    sonde_top_data_release(&d);
}

static void spans_page(void **state)
{
    (void)state;
    struct sonde_top_data d;
    struct sonde_top_state s = fresh(SONDE_TOP_SPANS);
    load(&d);
    char *text = frame(&s, &d, 140, 30, 0);
    has(text, "by name");
    has(text, "request");
    has(text, "slowest request");
    has(text, "route=/pay");
    has(text, TRACE1);
    sonde__free(text);

    /* Down to the name, into its latest, into the trace, and back out. */
    sonde_top_key(&s, SONDE_KEY_DOWN);
    sonde__free(frame(&s, &d, 140, 30, 0));
    assert_string_equal(s.row_span, "charge");
    sonde_top_key(&s, SONDE_KEY_ENTER);
    assert_int_equal(s.view, SONDE_TOP_LATEST);
    text = frame(&s, &d, 140, 30, 0);
    has(text, "card=visa retries=2 score=0.5");
    has_not(text, "parse");
    sonde__free(text);
    assert_int_equal(sonde_top_key(&s, SONDE_KEY_ENTER), SONDE_TOP_REDRAW | SONDE_TOP_REFETCH);
    assert_string_equal(s.trace_id, TRACE1);
    text = frame(&s, &d, 140, 30, 0);
    has(text, "trace " TRACE1 " · 3 spans, 20.0 ms");
    has(text, "└ parse");
    has(text, "█");
    sonde__free(text);
    sonde_top_key(&s, SONDE_KEY_ESC);
    assert_int_equal(s.view, SONDE_TOP_LATEST);
    sonde_top_key(&s, SONDE_KEY_ESC);
    assert_int_equal(s.view, SONDE_TOP_NAMES);

    s.view = SONDE_TOP_PAIRS;
    text = frame(&s, &d, 140, 30, 0);
    has(text, "request → charge");
    sonde__free(text);
    sonde_top_data_release(&d);
}

static void nothing_and_lost(void **state)
{
    (void)state;
    struct sonde_top_data d;
    struct sonde_top_state s = fresh(SONDE_TOP_OVERVIEW);
    struct sonde_err err;
    static const char none[] = "{\"time\":1,\"processes\":[]}";
    sonde_top_data_init(&d);
    char *text = frame(&s, &d, 80, 24, 0);
    has(text, "Reading …");
    sonde__free(text);
    assert_int_equal(sonde_top_read_processes(&d, none, strlen(none), &err), 0);
    text = frame(&s, &d, 80, 24, 0);
    has(text, "No process is being recorded.");
    has(text, "sonde run -- CMD");
    sonde__free(text);
    s.lost = "Connection refused";
    text = frame(&s, &d, 80, 24, 0);
    has(text, "lost http://127.0.0.1:6060, retrying: Connection refused");
    sonde__free(text);
    sonde_top_data_release(&d);
}

/* Every page and view at every size up to 100 x 12 and some large ones. */
static void sizes(void **state)
{
    (void)state;
    struct sonde_top_data d, memory;
    load(&d);
    load_inference(&d);
    load_findings(&d);
    load_memory(&memory);
    static const struct { int width, height; } large[] = {
        { 20, 5 }, { 80, 24 }, { 132, 43 }, { 300, 100 }, { 2000, 2 }, { 1, 2000 } };
    for (int width = 1; width <= 100; width++) {
        for (int height = 1; height <= 12; height++) {
            for (int nth = 0; nth < VIEWS; nth++) {
                struct sonde_top_state s = fresh_nth(nth);
                strcpy(s.trace_id, TRACE1);
                s.help = width % 7 == 0;
                s.editing = width % 5 == 0;
                snprintf(s.edit, sizeof(s.edit), "日本語 something long that is typed");
                s.lost = height % 3 == 0 ? "gone" : NULL;
                sonde__free(frame(&s, nth == VIEWS - 3 ? &memory : &d, width, height, width & 1));
            }
        }
    }
    for (size_t i = 0; i < COUNT(large); i++) {
        for (int page = 0; page < SONDE_TOP_PAGES; page++) {
            struct sonde_top_state s = fresh((enum sonde_top_page)page);
            s.once = (int)i & 1;
            sonde__free(frame(&s, page == SONDE_TOP_MEMORY ? &memory : &d, large[i].width,
                              large[i].height, 0));
        }
    }
    sonde_top_data_release(&memory);
    sonde_top_data_release(&d);
}

/* Names, labels and attributes with control characters, escapes, right-to-left marks and 10 KB.
 * frame() checks that none of it comes through. */
static void hostile(void **state)
{
    (void)state;
    static const char evil[] = "\\u001b]0;title\\u0007\\u001b[2J\\n\\r\\t\\u009b31m\\u202eabc"
                               "\\u200b"
                               "日本\\ud83d\\ude42e\\u0301\\u0301\\u0301\\u0301\\u007f";
    struct sonde_buf b;
    struct sonde_top_data d;
    struct sonde_err err;
    char text[16384], *big = text;
    for (size_t i = 0; i < 100; i++) big += snprintf(big, 200, "%s", evil);

    sonde_top_data_init(&d);
    sonde_buf_init(&b, 1 << 20);
    sonde_buf_printf(&b, "{\"time\":5,\"processes\":[{\"pid\":1,\"program\":\"%s\","
                         "\"state\":\"%s\"}]}", text, evil);
    assert_int_equal(sonde_top_read_processes(&d, b.data, b.len, &err), 0);
    sonde_buf_reset(&b);
    sonde_buf_printf(&b, "{\"time\":5,\"series\":[{\"name\":\"%s\",\"type\":\"%s\",\"labels\":"
                         "{\"%s\":\"%s\"},\"process\":\"%s\",\"pid\":1,\"trend\":\"%s\"},"
                         "{\"name\":\"sonde_memory_pool_bytes\",\"labels\":{\"pool\":\"%s\"},"
                         "\"process\":\"%s\",\"pid\":1,\"value\":1e308}]}",
                     text, evil, evil, text, text, evil, text, evil);
    assert_int_equal(sonde_top_read_series(&d, b.data, b.len, &err), 0);
    sonde_buf_reset(&b);
    sonde_buf_printf(&b, "{\"time\":5,\"spans\":[{\"name\":\"%s\",\"program\":\"%s\",\"trace_id\":"
                         "\"\\n%.6s\",\"span_id\":\"%s\",\"parent_id\":\"%s\",\"outcome\":\"%s\","
                         "\"start\":1e308,\"duration_s\":1e308,"
                         "\"attributes\":{\"%s\":\"%s\"}}]}",
                     text, evil, text, evil, evil, text, evil, text);
    assert_int_equal(sonde_top_read_spans(&d, b.data, b.len, &err), 0);
    assert_int_equal(sonde_top_read_trace(&d, b.data, b.len, &err), 0);
    sonde_buf_reset(&b);
    sonde_buf_printf(&b, "{\"time\":5,\"window_s\":1e308,\"groups\":[{\"model\":\"%s\",\"route\":"
                         "\"%s\",\"requests_per_s\":1e308}],\"models\":[{\"model\":\"%s\","
                         "\"backend\":\"%s\",\"memory\":{\"%s\":{\"bytes\":1e308}},\"kv\":"
                         "{\"used\":1e308,\"total\":1}}]}", text, evil, text, evil, text);
    assert_int_equal(sonde_top_read_infer(&d, b.data, b.len, &err), 0);
    sonde_buf_reset(&b);
    sonde_buf_printf(&b, "{\"time\":5,\"requests\":[{\"id\":\"%s\",\"own_id\":\"%s\",\"model\":"
                         "\"%s\",\"route\":\"%s\",\"error\":\"%s\",\"total_s\":1e308,"
                         "\"timeline\":[{\"name\":\"%s\",\"start_s\":1e308}]}]}",
                     evil, text, text, evil, evil, text);
    assert_int_equal(sonde_top_read_requests(&d, b.data, b.len, &err), 0);
    sonde_buf_reset(&b);
    sonde_buf_printf(&b, "{\"time\":5,\"looked\":1e308,\"active\":[{\"title\":\"%s\",\"severity\":"
                         "\"%s\",\"subject\":\"%s\",\"file\":\"%s\",\"line\":-1,\"text\":\"%s\","
                         "\"advice\":\"%s\",\"gain_of\":\"%s\",\"impact\":1e308,\"gain\":1e308,"
                         "\"since\":-1e308,\"symptoms\":7}]}",
                     text, evil, text, text, text, text, evil);
    assert_int_equal(sonde_top_read_findings(&d, b.data, b.len, &err), 0);
    sonde_buf_release(&b);

    for (int width = 10; width < 300; width += 29) {
        for (int nth = 0; nth < VIEWS; nth++) {
            struct sonde_top_state s = fresh_nth(nth);
            s.lost = "\x1b[31mlost\n";
            snprintf(s.trace_id, sizeof(s.trace_id), "%s", d.trace[0].trace_id);
            snprintf(s.filter, sizeof(s.filter), "*\x1b[2J");
            s.filter[1] = 0;
            sonde__free(frame(&s, &d, width, 24, width & 1));
        }
    }
    sonde_top_data_release(&d);
}

static void keys(void **state)
{
    (void)state;
    struct sonde_top_state s = fresh(SONDE_TOP_OVERVIEW);
    assert_int_equal(sonde_top_key(&s, SONDE_KEY_TAB), SONDE_TOP_REDRAW | SONDE_TOP_REFETCH);
    assert_int_equal(s.page, SONDE_TOP_SERIES);
    sonde_top_key(&s, SONDE_KEY_BACK_TAB);
    assert_int_equal(s.page, SONDE_TOP_OVERVIEW);
    sonde_top_key(&s, '3');
    assert_int_equal(s.page, SONDE_TOP_SPANS);
    for (int i = 0; i < 4; i++) sonde_top_key(&s, 'v');
    assert_int_equal(s.view, SONDE_TOP_NAMES);
    assert_int_equal(sonde_top_key(&s, SONDE_KEY_ENTER), 0); /* nothing chosen */

    /* Typing a filter; q is a letter there. */
    sonde_top_key(&s, '2');
    sonde_top_key(&s, '/');
    for (const char *c = "q?x"; *c; c++) sonde_top_key(&s, *c);
    sonde_top_key(&s, 0x65e5);
    assert_string_equal(s.edit, "q?x日");
    sonde_top_key(&s, SONDE_KEY_BACKSPACE);
    sonde_top_key(&s, SONDE_KEY_BACKSPACE);
    assert_int_equal(sonde_top_key(&s, SONDE_KEY_ENTER), SONDE_TOP_REDRAW | SONDE_TOP_REFETCH);
    assert_string_equal(s.filter, "q?");
    sonde_top_key(&s, '/');
    for (int i = 0; i < 1000; i++) sonde_top_key(&s, 0x1f642);
    sonde_top_key(&s, SONDE_KEY_ESC);
    assert_string_equal(s.filter, "q?");
    sonde_top_key(&s, SONDE_KEY_ESC);
    assert_string_equal(s.filter, "");

    sonde_top_key(&s, 't');
    assert_string_equal(sonde_top_type(&s), "counter");
    sonde_top_key(&s, '-');
    assert_true(s.interval_s == 2);
    for (int i = 0; i < 20; i++) sonde_top_key(&s, '+');
    assert_true(s.interval_s == 0.1);
    sonde_top_key(&s, 'p');
    assert_true(s.paused);
    sonde_top_key(&s, '?');
    assert_true(s.help);
    sonde_top_key(&s, SONDE_KEY_DOWN);
    assert_true(s.help);
    assert_int_equal(sonde_top_key(&s, 'q'), SONDE_TOP_REDRAW); /* closes help */
    assert_int_equal(sonde_top_key(&s, 'q'), SONDE_TOP_QUIT);
    srand(11);
    for (int i = 0; i < 50000; i++) {
        sonde_top_key(&s, rand() % 2 ? rand() % 128 : SONDE_KEY_UP + rand() % 14);
    }
}

/* The cursor stays on its process when the order changes. */
static void cursor(void **state)
{
    (void)state;
    struct sonde_top_data d;
    struct sonde_top_state s = fresh(SONDE_TOP_OVERVIEW);
    load(&d);
    sonde__free(frame(&s, &d, 80, 24, 0));
    assert_int_equal(s.row_pid, 4242);
    sonde_top_key(&s, SONDE_KEY_DOWN);
    sonde__free(frame(&s, &d, 80, 24, 0));
    assert_int_equal(s.row_pid, 77);
    sonde_top_key(&s, 's'); /* by pid: 77 is first now */
    sonde__free(frame(&s, &d, 80, 24, 0));
    assert_int_equal(s.row_pid, 77);
    assert_int_equal(s.cursor[SONDE_TOP_OVERVIEW].index, 0);
    sonde_top_key(&s, SONDE_KEY_END);
    sonde__free(frame(&s, &d, 80, 24, 0));
    assert_int_equal(s.row_pid, 4242);
    sonde_top_key(&s, SONDE_KEY_ENTER);
    assert_int_equal(s.page, SONDE_TOP_SERIES);
    assert_int_equal(s.pid, 4242);
    sonde_top_data_release(&d);
}

static void filter_words(void **state)
{
    (void)state;
    struct sonde_top_words w;
    sonde_top_split_filter("  http_* route=/pay*  queue user=7 = a b c d e", &w);
    assert_int_equal(w.name_count, SONDE_TOP_WORDS);
    assert_string_equal(w.name[0], "http_*");
    assert_string_equal(w.name[1], "*queue*");
    assert_string_equal(w.name[2], "*=*");
    assert_int_equal(w.label_count, 2);
    assert_string_equal(w.label[0], "route");
    assert_string_equal(w.value[0], "/pay*");
    assert_string_equal(w.value[1], "*7*");

    sonde_top_split_filter("a|b*|c shop", &w);
    assert_string_equal(w.name[0], "*a*|b*|*c*");
    assert_true(sonde_top_name_passes(&w, "shop_abc"));
    assert_true(sonde_top_name_passes(&w, "b_shop"));
    assert_false(sonde_top_name_passes(&w, "shop_b"));
    assert_false(sonde_top_name_passes(&w, "abc"));
    char bars[SONDE_TOP_FILTER_MAX];
    memset(bars, '|', sizeof(bars) - 1);
    bars[sizeof(bars) - 1] = 0;
    sonde_top_split_filter(bars, &w);
    assert_true(sonde_top_name_passes(&w, "anything"));
}

static void gpu_page(void **state)
{
    (void)state;
    static const char sample[] =
        "{\"time\":1,\"enabled\":true,\"sources\":[],\"devices\":["
        "{\"gpu\":0,\"mig\":null,\"name\":\"Card A\",\"state\":\"ok\",\"figures\":{"
        "\"utilization_ratio\":0.5,\"memory_used_bytes\":1073741824,"
        "\"memory_total_bytes\":2147483648,\"temperature_celsius.core\":61,\"power_watts\":300.5,"
        "\"power_limit_watts\":700,\"clock_hertz.graphics\":1980000000,"
        "\"throttled_ratio.thermal\":0.5}},"
        "{\"gpu\":0,\"mig\":2,\"name\":\"Part\",\"state\":\"ok\",\"figures\":{}},"
        "{\"gpu\":1,\"mig\":null,\"name\":\"Card B\",\"state\":\"lost\",\"figures\":{}},"
        "{\"gpu\":\"x\",\"name\":7,\"figures\":[]},7],\"processes\":["
        "{\"gpu\":0,\"mig\":2,\"pid\":42,\"program\":\"server\",\"memory_bytes\":1048576,"
        "\"utilization_ratio\":0.25},{}]}";
    static const struct { const char *answer, *part; } none[] = {
        { "{\"time\":1,\"devices\":[],\"enabled\":true}", "No GPU found." },
        { "{\"time\":1,\"devices\":[],\"enabled\":false}", "gpu.enabled is false" },
        { "{\"time\":1,\"devices\":[],\"enabled\":true,\"sources\":[{\"state\":\"broken\",\"note\":"
          "\"it crashed\"}]}", "it crashed" },
    };
    struct sonde_top_state s = fresh(SONDE_TOP_GPU);
    struct sonde_top_data d;
    struct sonde_err err;
    sonde_top_data_init(&d);
    assert_int_equal(sonde_top_read_gpu(&d, sample, sizeof(sample) - 1, &err), 0);
    char *text = frame(&s, &d, 120, 20, 0);
    has(text, "[7 gpu]");
    has(text, "0     Card A");
    has(text, "50.0 %   1.00 GiB   2.00 GiB     50.0 %    61     300     700    1980");
    has(text, "thermal");
    has(text, "0.2   Part");
    has(text, "lost");
    has(text, "     42  server   0.2    1.00 MiB     25.0 %");
    sonde__free(text);
    assert_true(sonde_top_key(&s, '1') & SONDE_TOP_REFETCH);
    assert_true(sonde_top_key(&s, '7') & SONDE_TOP_REFETCH);
    assert_int_equal(s.page, SONDE_TOP_GPU);
    sonde_top_data_release(&d);
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        sonde_top_data_init(&d);
        assert_int_equal(sonde_top_read_gpu(&d, none[i].answer, strlen(none[i].answer), &err), 0);
        text = frame(&s, &d, 80, 20, 0);
        has(text, none[i].part);
        sonde__free(text);
        sonde_top_data_release(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overview),         cmocka_unit_test(series_page),
        cmocka_unit_test(memory_page),      cmocka_unit_test(inference_page),
        cmocka_unit_test(findings_page),    cmocka_unit_test(gpu_page),
        cmocka_unit_test(spans_page),       cmocka_unit_test(nothing_and_lost),
        cmocka_unit_test(sizes),            cmocka_unit_test(hostile),
        cmocka_unit_test(keys),             cmocka_unit_test(cursor),
        cmocka_unit_test(filter_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
