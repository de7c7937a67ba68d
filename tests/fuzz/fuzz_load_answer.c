/* fuzz_load_answer.c - answers that the load generator reads: the same whether they come at once or in
 * pieces, within bounds, and the times are in order.
 *
 * Input: a byte that says whether the text is kept, then what the server sends until it closes. */
static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
#define STREAM "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    SEED("\1" STREAM "1d\r\ndata: {\"content\":\"a\\u00e9\"}\n\n\r\n1b\r\ndata: {\"content\":\"\xe2\x82\"}\r\n\r\n"
         "\r\n0\r\n\r\n"),
    SEED("\0HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
         "\xef\xbb\xbf: x\rdata: {\"choices\":[{\"delta\":\rdata:{\"reasoning\":\"a\",\"tool_calls\":[{}]}}]}\r\r"
         "data: {\"choices\":[{\"text\":\"a\"}],\"usage\":{\"prompt_tokens\":1,\"prompt_tokens_details\":"
         "{\"cached_tokens\":1}}}\n\ndata: [DONE]\n\nerror: x\n\n"),
    SEED("\1HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n{\"message\":{\"content\":\"a\"}}\n"
         "{\"response\":\"b\",\"done\":true,\"eval_count\":5,\"prompt_eval_count\":-2}\r\n"),
    SEED("\1HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 66\r\n\r\n"
         "[{\"choices\":[{\"message\":{\"content\":[{\"text\":\"a\"}]}}],\"error\":null}]"),
    SEED("\0HTTP/1.1 503 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}more"),
    SEED("\1HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
         "data:{\"token\":{\"text\":\"a\"},\"generated_text\":null}\n\n"
         "data:{\"token\":{\"text\":\"b\"},\"generated_text\":\"ab\",\"details\":{\"generated_tokens\":2}}\n\n"
         "data: {\"content\":\"\",\"stop\":true,\"timings\":{\"cache_n\":1,\"prompt_n\":2}}\n\n"),
};

#include "base/alloc.h"
#include "bench/http/load_answer.h"
#include "fuzz/fuzz_seeds.h"

static uint64_t cut_state;
static size_t cut_piece(size_t max)
{
    cut_state = cut_state * 6364136223846793005u + 1442695040888963407u;
    const size_t n = 1 + (size_t)(cut_state >> 33) % (cut_state >> 20 & 1 ? 3 : 64);
    return n < max ? n : max;
}

struct outcome {
    struct sonde_load_record record;
    struct load_answer answer;
};

static void answer_run(struct outcome *o, const uint8_t *data, size_t len, int keep, int cut)
{
    static struct sonde_http_head head;
    memset(o, 0, sizeof(*o));
    o->record.prompt_tokens = o->record.output_tokens = SONDE_LOAD_UNKNOWN;
    o->record.cached_tokens = o->record.reasoning_tokens = SONDE_LOAD_UNKNOWN;
    load_answer_init(&o->answer);
    load_answer_begin(&o->answer, &o->record, NULL, UINT64_MAX, keep);
    uint64_t now = 1;
    int over = 0;
    for (size_t at = 0, n; at < len && !over; at += n, now++) {
        n = cut ? cut_piece(len - at) : len;
        char *piece = malloc(n);
        CHECK(piece);
        memcpy(piece, data + at, n);
        over = load_answer_feed(&o->answer, &head, piece, n, now);
        free(piece);
    }
    if (!over) load_answer_close(&o->answer, now);
    const struct sonde_load_record *r = &o->record;
    CHECK(r->end_ns && r->outcome < SONDE_LOAD_OUTCOME_COUNT);
    CHECK((r->first_ns != 0) == (r->events != 0));
    CHECK(!r->events || (r->head_ns && r->head_ns <= r->first_ns && r->first_ns <= r->last_ns &&
                         r->last_ns <= r->end_ns));
    CHECK(!r->content_ns || (r->content_ns >= r->first_ns && r->content_ns <= r->last_ns));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct outcome whole, cut;
    if (!len) return 0;
    cut_state = len;
    answer_run(&whole, data + 1, len - 1, data[0] & 1, 0);
    answer_run(&cut, data + 1, len - 1, data[0] & 1, 1);
    const struct sonde_load_record *a = &whole.record, *b = &cut.record;
    CHECK(a->outcome == b->outcome && a->status == b->status && a->events == b->events);
    CHECK(a->streamed == b->streamed && a->bytes == b->bytes);
    CHECK(a->prompt_tokens == b->prompt_tokens && a->output_tokens == b->output_tokens);
    CHECK(a->cached_tokens == b->cached_tokens && a->reasoning_tokens == b->reasoning_tokens);
    CHECK(whole.answer.text.len == cut.answer.text.len);
    CHECK(!a->events || !memcmp(whole.answer.text.data ? whole.answer.text.data : "",
                                cut.answer.text.data ? cut.answer.text.data : "",
                                whole.answer.text.len));
    load_answer_release(&whole.answer);
    load_answer_release(&cut.answer);
    return 0;
}
