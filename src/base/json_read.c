/* json_read.c - see json_read.h. */
#include "base/json_read.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void sonde_json_reader_init(struct sonde_json_reader *r, const char *text, size_t len)
{
    *r = (struct sonde_json_reader){ .begin = text, .at = text, .end = text + len };
}

int sonde_json_fail(struct sonde_json_reader *r, const char *error)
{
    if (!r->error) r->error = error;
    return 0;
}

size_t sonde_json_line(const struct sonde_json_reader *r)
{
    size_t line = 1;
    for (const char *at = r->begin; (at = memchr(at, '\n', (size_t)(r->at - at))); at++) line++;
    return line;
}

int sonde_json_text_is(struct sonde_json_text t, const char *s)
{
    return t.len == strlen(s) && !memcmp(t.s, s, t.len);
}

static char next_char(struct sonde_json_reader *r)
{
    while (r->at < r->end &&
           (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) {
        r->at++;
    }
    return r->at < r->end ? *r->at : '\0';
}

int sonde_json_at_end(struct sonde_json_reader *r)
{
    next_char(r);
    return r->at == r->end;
}

char sonde_json_peek(struct sonde_json_reader *r)
{
    const char c = r->error ? '\0' : next_char(r);
    if (c == '-' || (c >= '0' && c <= '9')) return '0';
    return c && strchr("{[\"tfn", c) ? c : '\0';
}

/* ---- Objects and arrays ---------------------------------------------------------------------- */

int sonde_json_enter(struct sonde_json_reader *r, char bracket)
{
    if (sonde_json_peek(r) != bracket) {
        return sonde_json_fail(r, bracket == '{' ? "an object is expected here"
                                                 : "an array is expected here");
    }
    if (r->depth == SONDE_JSON_DEPTH_MAX) return sonde_json_fail(r, "nested too deeply");
    r->depth++;
    r->at++;
    return 1;
}

/* After a value or a bracket: 1 if another value comes, 0 if the closing one does. What follows an
 * opening bracket has no comma before it; the last character that is no blank tells. */
static int next_value(struct sonde_json_reader *r, char close)
{
    if (r->error) return 0;
    assert(r->depth); /* sonde_json_enter() was before */
    const char *before = r->at;
    while (before > r->begin && strchr(" \t\n\r", before[-1])) before--;
    const int first = before > r->begin && (before[-1] == '{' || before[-1] == '[');
    char c = next_char(r);
    if (c == ',' && !first) {
        r->at++;
        c = next_char(r);
    } else if (c != close && !first) {
        return sonde_json_fail(r, "a comma is expected here");
    }
    if (c != close) return c ? 1 : sonde_json_fail(r, "the text ends too early");
    r->at++;
    r->depth--;
    return 0;
}

int sonde_json_element(struct sonde_json_reader *r) { return next_value(r, ']'); }

/* The text between the quotes that come, as it stands; 0 = there is none. */
static int raw_string(struct sonde_json_reader *r, struct sonde_json_text *out)
{
    if (sonde_json_peek(r) != '"') return sonde_json_fail(r, "a string is expected here");
    const char *from = ++r->at;
    for (; r->at < r->end && *r->at != '"'; r->at++) {
        if (*r->at == '\\') r->at++;
    }
    if (r->at >= r->end) {
        r->at = from;
        return sonde_json_fail(r, "a string does not end");
    }
    *out = (struct sonde_json_text){ from, (size_t)(r->at++ - from) };
    return 1;
}

int sonde_json_member(struct sonde_json_reader *r, struct sonde_json_text *key)
{
    if (!next_value(r, '}') || !raw_string(r, key)) return 0;
    if (next_char(r) != ':') return sonde_json_fail(r, "a colon is expected here");
    r->at++;
    return 1;
}

/* ---- Values ---------------------------------------------------------------------------------- */

int sonde_json_number(struct sonde_json_reader *r, double *out)
{
    char text[64];
    size_t n = 0;
    if (sonde_json_peek(r) != '0') return sonde_json_fail(r, "a number is expected here");
    while (r->at + n < r->end && n < sizeof(text) - 1 && r->at[n] &&
           strchr("0123456789+-.eE", r->at[n])) {
        n++;
    }
    memcpy(text, r->at, n);
    text[n] = '\0';
    char *end;
    *out = strtod(text, &end);
    if (*end || !isfinite(*out)) return sonde_json_fail(r, "this is not a number");
    r->at += n;
    return 1;
}

int sonde_json_number_u64(struct sonde_json_reader *r, uint64_t *out)
{
    if (sonde_json_peek(r) != '0') return sonde_json_fail(r, "a number is expected here");
    const char *at = r->at;
    uint64_t v = 0;
    while (at < r->end && *at >= '0' && *at <= '9' && !__builtin_mul_overflow(v, 10, &v) &&
           !__builtin_add_overflow(v, (uint64_t)(*at - '0'), &v)) {
        at++;
    }
    if (at > r->at && (at == r->end || !strchr("0123456789+-.eE", *at))) {
        r->at = at;
        *out = v;
        return 1;
    }
    double d;
    const char *begin = r->at;
    if (!sonde_json_number(r, &d)) return 0;
    if (d > -0.5 && d < 18446744073709549568.0) {
        *out = d > 0 ? (uint64_t)(d + 0.5) : 0;
        return 1;
    }
    r->at = begin;
    return sonde_json_fail(r, "a number is negative or too large");
}

static int json_read_hex4(const char *s, const char *end, uint32_t *out)
{
    if (end - s < 4) return 0;
    *out = 0;
    for (int i = 0; i < 4; i++) {
        const char c = s[i] >= 'A' && s[i] <= 'F' ? (char)(s[i] + 32) : s[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return 0;
        *out = *out << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return 1;
}

static void put_code(struct sonde_buf *b, uint32_t code)
{
    char out[4];
    const size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(n == 1 ? code : (0xf00u >> n) | code);
    sonde_buf_add(b, out, n);
}

/* \uXXXX at s, or two of them that are one character; how long, 0 = damaged. */
static size_t put_escaped_code(struct sonde_buf *b, const char *s, const char *end)
{
    uint32_t code, low;
    if (!json_read_hex4(s + 2, end, &code)) return 0;
    if (code >= 0xd800 && code < 0xdc00 && end - s >= 12 && s[6] == '\\' && s[7] == 'u' &&
        json_read_hex4(s + 8, end, &low) && (low & 0xfc00) == 0xdc00) {
        put_code(b, 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff)));
        return 12;
    }
    put_code(b, (code & 0xf800) == 0xd800 ? 0xfffd : code);
    return 6;
}

static int json_read_unescape(struct sonde_json_reader *r, struct sonde_json_text raw,
                              struct sonde_buf *b)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *s = raw.s, *end = raw.s + raw.len;
    while (s < end) {
        const char *back = memchr(s, '\\', (size_t)(end - s));
        sonde_buf_add(b, s, (size_t)((back ? back : end) - s));
        if (!back) break;
        s = back;
        const char *which = end - s > 1 && s[1] ? strchr(from, s[1]) : NULL;
        size_t n = 2;
        if (which) sonde_buf_putc(b, to[which - from]);
        else n = end - s > 1 && s[1] == 'u' ? put_escaped_code(b, s, end) : 0;
        if (!n) return sonde_json_fail(r, "a string has an escape that there is not");
        s += n;
    }
    return 1;
}

int sonde_json_string(struct sonde_json_reader *r, struct sonde_buf *buf,
                      struct sonde_json_text *out)
{
    struct sonde_json_text raw;
    if (!raw_string(r, &raw)) return 0;
    if (!memchr(raw.s, '\\', raw.len)) {
        *out = raw;
        return 1;
    }
    sonde_buf_reset(buf);
    if (!json_read_unescape(r, raw, buf)) return 0;
    if (buf->error) return sonde_json_fail(r, "a string is too long");
    *out = (struct sonde_json_text){ buf->len ? buf->data : "", buf->len };
    return 1;
}

static int skip_word(struct sonde_json_reader *r)
{
    static const char *const words[] = { "true", "false", "null" };
    for (size_t i = 0; i < SONDE_COUNT(words); i++) {
        const size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->at) < n || memcmp(r->at, words[i], n)) continue;
        r->at += n;
        return 1;
    }
    return sonde_json_fail(r, "a value is expected here");
}

static void skip_scalar(struct sonde_json_reader *r)
{
    struct sonde_json_text text;
    double number;
    switch (sonde_json_peek(r)) {
    case '"': raw_string(r, &text); break;
    case '0': sonde_json_number(r, &number); break;
    default: skip_word(r); break;
    }
}

/* Not by calling itself: how deep it is, the text decides. */
void sonde_json_skip(struct sonde_json_reader *r)
{
    char open[SONDE_JSON_DEPTH_MAX];
    int depth = 0;
    do {
        const char c = sonde_json_peek(r);
        if (c == '{' || c == '[') {
            if (!sonde_json_enter(r, c)) return;
            open[depth++] = c;
        } else {
            skip_scalar(r);
        }
        for (int more = 0; depth && !more && !r->error;) {
            struct sonde_json_text key;
            more = open[depth - 1] == '{' ? sonde_json_member(r, &key) : sonde_json_element(r);
            if (!more) depth--;
        }
    } while (depth && !r->error);
}
