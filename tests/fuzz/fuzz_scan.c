/* fuzz_scan.c - what the front reads out of bodies: the same whether they come at once or in
 * pieces, and what jansson takes for JSON is JSON to us.
 *
 * Input: a byte that says what it is (0 a request, 1 … 3 the formats of answers), then the body. */
static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("\0{\"model\":\"m\\u00e9\",\"messages\":[{\"content\":\"x\\n\"}],\"stream\":true,"
         "\"options\":{\"num_predict\":5}}"),
    SEED("\1{\"choices\":[{\"text\":\"a\"}],\"usage\":{\"prompt_tokens\":1,"
         "\"completion_tokens\":2.0,\"prompt_tokens_details\":{\"cached_tokens\":1}}}"),
    SEED("\1{\"error\":{\"code\":\"c\",\"type\":null},\"timings\":{\"prompt_ms\":1e3,"
         "\"cache_n\":-0}}"),
    SEED("\2{\"message\":{\"content\":\"a\"},\"done\":false}\n{\"response\":\"\",\"done\":true,"
         "\"eval_count\":5}\r\n"),
    SEED("\3\xef\xbb\xbf: hi\n\n"
         "event: x\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"\xc3\xa9\","
         "\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]}}]}\r\n\r\ndata: [DONE]\n\n"),
    SEED("\3data: {\"type\":\"response.completed\",\rdata: "
         "\"response\":{\"usage\":{\"input_tokens\":4}}}\n\nerror: x\n\n"),
};

#include <jansson.h>

#include "front/scan.h"
#include "fuzz/fuzz_seeds.h"

static uint64_t cut_state;
static size_t piece(size_t max)
{
    cut_state = cut_state * 6364136223846793005u + 1442695040888963407u;
    return 1 + (size_t)(cut_state >> 33) % max;
}

static void check_request(const char *data, size_t len)
{
    struct sonde_scan_request whole, cut;
    sonde_scan_request_init(&whole);
    sonde_scan_request_init(&cut);
    sonde_scan_request_feed(&whole, data, len);
    for (size_t at = 0, n; at < len; at += n) {
        n = piece(len - at);
        sonde_scan_request_feed(&cut, data + at, n);
    }
    /* The first complete set counts, and pieces may end sooner after it than steps do. */
    if (whole.over && cut.over) return;
    CHECK(strcmp(whole.model, cut.model) == 0);
    CHECK(whole.stream == cut.stream && whole.max_tokens == cut.max_tokens);
    CHECK(whole.max_tokens >= -1);
}

/* 1 if it is certainly a document, and not too deep for us. */
static int jansson_takes(const char *data, size_t len)
{
    size_t deep = 0;
    if (memchr(data, 0, len)) return 0; /* which jansson loses behind numbers */
    for (size_t i = 0; i < len; i++) deep += data[i] == '{' || data[i] == '[';
    if (deep > 60) return 0;
    json_t *v = json_loadb(data, len, JSON_DECODE_ANY, NULL);
    json_decref(v);
    return v != NULL;
}

static void check_answer(enum sonde_scan_format format, const char *data, size_t len)
{
    struct sonde_scan_answer whole, cut;
    unsigned chunks[2] = { 0, 0 };
    sonde_scan_answer_init(&whole, format);
    sonde_scan_answer_init(&cut, format);
    chunks[0] += sonde_scan_answer_feed(&whole, data, len);
    for (size_t at = 0, n; at < len; at += n) {
        n = piece(len - at);
        chunks[1] += sonde_scan_answer_feed(&cut, data + at, n);
    }
    chunks[0] += sonde_scan_answer_end(&whole);
    chunks[1] += sonde_scan_answer_end(&cut);
    CHECK(chunks[0] == chunks[1] && whole.chunks == chunks[0] && cut.chunks == chunks[0]);
    CHECK(whole.bad == cut.bad && whole.complete == cut.complete && whole.failed == cut.failed);
    CHECK(strcmp(whole.error, cut.error) == 0 && strcmp(whole.model, cut.model) == 0);
    CHECK(memcmp(&whole.usage, &cut.usage, sizeof(whole.usage)) == 0);
    if (format == SONDE_SCAN_JSON && len && jansson_takes(data, len)) CHECK(!whole.bad);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (!size) return 0;
    const char *data = (const char *)input + 1;
    cut_state = size;
    for (size_t i = 0; i < size; i++) cut_state = cut_state * 31 + input[i];
    if (input[0] % 4 == 0) check_request(data, size - 1);
    else check_answer((enum sonde_scan_format)(input[0] % 4), data, size - 1);
    return 0;
}
