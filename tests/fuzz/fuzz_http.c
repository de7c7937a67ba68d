/* fuzz_http.c - the front's parser: whatever the bytes are, it makes the same of them whether they
 * come at once or in pieces, and never looks past what there is.
 *
 * Input: a byte that says what is expected (bit 0: a response; bit 1: to HEAD), then the
 * message. */
static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("\0GET / HTTP/1.1\r\nHost: h\r\nConnection: a, close\r\n\r\n"),
    SEED("\0POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET"),
    SEED("\0POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
         "5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\nrest"),
    SEED("\1HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
    SEED("\1HTTP/1.0 200\r\n\r\nuntil the end"),
    SEED("\3HTTP/1.1 204 No\r\nContent-Length: 3\r\nKeep-Alive: timeout=5\r\n\r\n"),
};

#include "front/http.h"
#include "fuzz/fuzz_seeds.h"

/* Pieces depend on the input, so that a finding can be had again. */
static uint64_t cut_state;
static size_t piece(size_t max)
{
    cut_state = cut_state * 6364136223846793005u + 1442695040888963407u;
    return 1 + (size_t)(cut_state >> 33) % max;
}

/* Where a body ends, and a sum over its content. */
struct result {
    size_t used;
    uint64_t sum;
    enum sonde_http_progress progress;
    const char *problem;
};

static struct result run_body(struct sonde_http_body b, const char *data, size_t len, int cut)
{
    struct result r = { 0, 1469598103934665603u, SONDE_HTTP_MORE, NULL };
    while (r.used < len && b.progress == SONDE_HTTP_MORE) {
        const size_t end = r.used + (cut ? piece(len - r.used) : len - r.used);
        while (r.used < end && b.progress == SONDE_HTTP_MORE) {
            struct sonde_http_span s;
            const size_t n = sonde_http_body_feed(&b, data + r.used, end - r.used, &s);
            CHECK(n <= end - r.used && s.at <= n && s.len <= n - s.at);
            CHECK(n > 0 || b.progress == SONDE_HTTP_BAD);
            for (uint32_t i = 0; i < s.len; i++) {
                r.sum = (r.sum ^ (unsigned char)data[r.used + s.at + i]) * 1099511628211u;
            }
            r.used += n;
        }
    }
    r.progress = sonde_http_body_end(&b);
    r.problem = b.problem;
    return r;
}

static void check_body(const struct sonde_http_head *h, const char *data, size_t len, int to_head)
{
    struct sonde_http_body b;
    if (h->response) sonde_http_body_of_response(&b, h, to_head);
    else sonde_http_body_of_request(&b, h);
    const struct result whole = run_body(b, data, len, 0), cut = run_body(b, data, len, 1);
    CHECK(whole.used == cut.used && whole.sum == cut.sum && whole.progress == cut.progress);
    CHECK(whole.problem == cut.problem);
    CHECK((whole.progress == SONDE_HTTP_BAD) == (whole.problem != NULL));
}

static void check_head(const struct sonde_http_head *h, const char *data, size_t len)
{
    CHECK(h->len <= len && h->field_count <= SONDE_HTTP_FIELDS_MAX);
    CHECK(!(h->chunked && h->has_length));
    for (uint32_t i = 0; i < h->field_count; i++) {
        const struct sonde_http_field *f = &h->field[i];
        CHECK(f->name.len && f->name.at + f->name.len < h->len);
        CHECK(f->value.at + f->value.len < h->len);
        CHECK(!memchr(data + f->value.at, '\n', f->value.len));
        CHECK(!memchr(data + f->value.at, '\0', f->value.len));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    if (!size) return 0;
    const char *data = (const char *)input + 1;
    const size_t len = size - 1;
    struct sonde_http_head whole, cut;
    cut_state = size;
    for (size_t i = 0; i < size; i++) cut_state = cut_state * 31 + input[i];
    sonde_http_head_init(&whole, input[0] & 1);
    sonde_http_head_init(&cut, input[0] & 1);
    sonde_http_head_feed(&whole, data, len);
    for (size_t n = 0; n < len && cut.progress == SONDE_HTTP_MORE;) {
        n += piece(len - n);
        sonde_http_head_feed(&cut, data, n);
    }
    CHECK(whole.progress == cut.progress && whole.problem == cut.problem);
    CHECK((whole.progress == SONDE_HTTP_BAD) == (whole.problem != NULL));
    if (whole.progress == SONDE_HTTP_DONE) {
        CHECK(whole.len == cut.len && whole.field_count == cut.field_count);
        check_head(&whole, data, len);
        check_body(&whole, data + whole.len, len - whole.len, input[0] & 2);
    }
    return 0;
}
