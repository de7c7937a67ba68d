/* http_head.c - start lines and fields; see http.h.
 *
 * A head is parsed a line at a time as lines become complete, so that nonsense is refused at its
 * first line and no byte is looked at twice, however small the pieces are. */
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "front/http.h"

/* ---- Characters --------------------------------------------------------------------------- */

/* Bytes of a method or field name: RFC 9110, "token". */
static int is_token(unsigned char c)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr(marks, c));
}

static int http_head_is_blank(char c) { return c == ' ' || c == '\t'; }

/* Bytes of a field's value: no control characters. */
static int http_head_is_text(unsigned char c) { return (c >= ' ' && c != 0x7f) || c == '\t'; }

static int http_head_same(const char *data, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(data, word, len) == 0;
}

static enum sonde_http_progress http_head_bad(struct sonde_http_head *h, unsigned status,
                                              const char *problem)
{
    h->problem = problem;
    h->problem_status = status;
    return h->progress = SONDE_HTTP_BAD;
}

/* ---- Start lines -------------------------------------------------------------------------- */

/* "HTTP/1.0" or "HTTP/1.1" at s, which has 8 bytes. */
static int http_head_version(struct sonde_http_head *h, const char *s)
{
    if (memcmp(s, "HTTP/", 5) != 0 || s[6] != '.') {
        http_head_bad(h, 400, "the start line names no HTTP version");
        return -1;
    }
    if (s[5] != '1' || s[7] < '0' || s[7] > '9') {
        http_head_bad(h, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
        return -1;
    }
    h->minor = s[7] != '0';
    return 0;
}

static int request_line(struct sonde_http_head *h, const char *data, uint32_t at, uint32_t len)
{
    const char *s = data + at;
    uint32_t m = 0;
    while (m < len && is_token((unsigned char)s[m])) m++;
    if (m == 0 || m > 32 || m == len || s[m] != ' ') {
        http_head_bad(h, 400, "the request line does not begin with a method");
        return -1;
    }
    uint32_t t = m + 1;
    while (t < len && (unsigned char)s[t] > ' ' && s[t] != 0x7f) t++;
    if (t == m + 1 || t + 9 != len || s[t] != ' ') {
        http_head_bad(h, 400, "the request line is not METHOD TARGET HTTP/1.1");
        return -1;
    }
    h->method = (struct sonde_http_span){ at, m };
    h->target = (struct sonde_http_span){ at + m + 1, t - m - 1 };
    return http_head_version(h, s + t + 1);
}

static int status_line(struct sonde_http_head *h, const char *data, uint32_t at, uint32_t len)
{
    const char *s = data + at;
    if (len < 12 || s[8] != ' ' || (len > 12 && s[12] != ' ')) {
        http_head_bad(h, 502, "the status line is not HTTP/1.1 STATUS REASON");
        return -1;
    }
    for (uint32_t i = 9; i < 12; i++) {
        if (s[i] < '0' || s[i] > '9') {
            http_head_bad(h, 502, "the status is not a number");
            return -1;
        }
        h->status = h->status * 10 + (unsigned)(s[i] - '0');
    }
    for (uint32_t i = 12; i < len; i++) {
        if (!http_head_is_text((unsigned char)s[i])) {
            http_head_bad(h, 502, "the reason holds control characters");
            return -1;
        }
    }
    if (h->status < 100) {
        http_head_bad(h, 502, "the status is below 100");
        return -1;
    }
    if (len > 13) h->reason = (struct sonde_http_span){ at + 13, len - 13 };
    return http_head_version(h, s);
}

/* ---- Fields ------------------------------------------------------------------------------- */

static enum sonde_http_field_id http_head_identify(const char *name, uint32_t len)
{
    static const struct { const char *name; uint32_t len; enum sonde_http_field_id id; } known[] = {
#define SONDE__X(id, name) { name, sizeof(name) - 1, SONDE_HTTP_##id },
        SONDE_HTTP_FIELDS(SONDE__X)
#undef SONDE__X
    };
    for (size_t i = 0; i < SONDE_COUNT(known); i++) {
        if (known[i].len == len && strncasecmp(known[i].name, name, len) == 0) return known[i].id;
    }
    return SONDE_HTTP_OTHER;
}

/* The next element of a list from *at on, without blanks around it; 0 at the end. */
static int list_next(const char *list, size_t len, size_t *at, const char **word, size_t *word_len)
{
    while (*at < len && (http_head_is_blank(list[*at]) || list[*at] == ',')) (*at)++;
    if (*at == len) return 0;
    *word = list + *at;
    while (*at < len && list[*at] != ',') (*at)++;
    *word_len = (size_t)(list + *at - *word);
    while (*word_len && http_head_is_blank((*word)[*word_len - 1])) (*word_len)--;
    return 1;
}

int sonde_http_list_has(const char *list, size_t len, const char *token)
{
    const char *word;
    size_t word_len;
    for (size_t at = 0; list_next(list, len, &at, &word, &word_len);) {
        if (http_head_same(word, word_len, token)) return 1;
    }
    return 0;
}

static int content_length(struct sonde_http_head *h, const char *s, uint32_t len)
{
    if (h->has_length) {
        http_head_bad(h, 400, "Content-Length is there twice");
        return -1;
    }
    if (len == 0 || len > 18) {
        http_head_bad(h, 400, "Content-Length is not a whole number");
        return -1;
    }
    for (uint32_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9') {
            http_head_bad(h, 400, "Content-Length is not a whole number");
            return -1;
        }
        h->length = h->length * 10 + (uint64_t)(s[i] - '0');
    }
    h->has_length = 1;
    return 0;
}

static int transfer_encoding(struct sonde_http_head *h, const char *s, uint32_t len)
{
    if (h->chunked) {
        http_head_bad(h, 400, "Transfer-Encoding is there twice");
        return -1;
    }
    if (!http_head_same(s, len, "chunked")) {
        http_head_bad(h, 501, "the only Transfer-Encoding known here is chunked");
        return -1;
    }
    h->chunked = 1;
    return 0;
}

/* What a field means for the message as a whole. 0, or -1 and it is BAD. */
static int http_head_understand(struct sonde_http_head *h, const struct sonde_http_field *f,
                                const char *value)
{
    const uint32_t len = f->value.len;
    switch (f->id) {
    case SONDE_HTTP_CONTENT_LENGTH: return content_length(h, value, len);
    case SONDE_HTTP_TRANSFER_ENCODING: return transfer_encoding(h, value, len);
    case SONDE_HTTP_CONNECTION:
        h->says_close |= sonde_http_list_has(value, len, "close");
        h->says_keep_alive |= sonde_http_list_has(value, len, "keep-alive");
        h->says_upgrade |= sonde_http_list_has(value, len, "upgrade");
        return 0;
    case SONDE_HTTP_HOST:
        if (h->first[SONDE_HTTP_HOST] && !h->response) {
            http_head_bad(h, 400, "Host is there twice");
            return -1;
        }
        return 0;
    case SONDE_HTTP_EXPECT:
        if (h->response || http_head_same(value, len, "100-continue")) return 0;
        http_head_bad(h, 417, "the only Expect known here is 100-continue");
        return -1;
    default: return 0;
    }
}

static int field_line(struct sonde_http_head *h, const char *data, uint32_t at, uint32_t len)
{
    const char *s = data + at;
    uint32_t n = 0;
    if (http_head_is_blank(s[0])) {
        http_head_bad(h, 400, "a field is folded over several lines");
        return -1;
    }
    while (n < len && is_token((unsigned char)s[n])) n++;
    if (n == 0 || n == len || s[n] != ':') {
        http_head_bad(h, 400, "a field is not NAME: VALUE");
        return -1;
    }
    uint32_t from = n + 1, to = len;
    while (from < to && http_head_is_blank(s[from])) from++;
    while (to > from && http_head_is_blank(s[to - 1])) to--;
    for (uint32_t i = from; i < to; i++) {
        if (!http_head_is_text((unsigned char)s[i])) {
            http_head_bad(h, 400, "a field's value holds control characters");
            return -1;
        }
    }
    if (h->field_count == SONDE_HTTP_FIELDS_MAX) {
        http_head_bad(h, 431, "there are more than 128 fields");
        return -1;
    }
    struct sonde_http_field *f = &h->field[h->field_count];
    *f = (struct sonde_http_field){ { at, n }, { at + from, to - from }, http_head_identify(s, n) };
    if (http_head_understand(h, f, s + from) != 0) return -1;
    h->field_count++;
    if (!h->first[f->id]) h->first[f->id] = (uint16_t)h->field_count;
    return 0;
}

/* ---- The whole ---------------------------------------------------------------------------- */

void sonde_http_head_init(struct sonde_http_head *h, int response)
{
    const size_t table = offsetof(struct sonde_http_head, field);
    memset(h, 0, table);
    memset((char *)h + table + sizeof(h->field), 0, sizeof(*h) - table - sizeof(h->field));
    h->response = response;
}

static enum sonde_http_progress http_head_finish(struct sonde_http_head *h)
{
    if (h->chunked && h->has_length) {
        return http_head_bad(h, 400, "Transfer-Encoding and Content-Length contradict each other");
    }
    if (h->chunked && h->minor == 0) {
        return http_head_bad(h, 400, "HTTP/1.0 knows no Transfer-Encoding");
    }
    if (!h->response && h->minor > 0 && !h->first[SONDE_HTTP_HOST]) {
        return http_head_bad(h, 400, "the request has no Host");
    }
    return h->progress = SONDE_HTTP_DONE;
}

/* One line without its end, in data at h->line. */
static void take_line(struct sonde_http_head *h, const char *data, uint32_t len)
{
    const uint32_t at = h->line;
    if (!h->started) {
        if (len == 0 && !h->response) return; /* empty lines before a request are passed over */
        const int failed = h->response ? status_line(h, data, at, len)
                                       : request_line(h, data, at, len);
        h->started = failed == 0;
    } else if (len == 0) {
        h->len = at + 2;
        http_head_finish(h);
    } else {
        field_line(h, data, at, len);
    }
}

enum sonde_http_progress sonde_http_head_feed(struct sonde_http_head *h, const char *data,
                                              size_t len)
{
    const size_t limit = len < SONDE_HTTP_HEAD_MAX ? len : SONDE_HTTP_HEAD_MAX;
    while (h->progress == SONDE_HTTP_MORE) {
        /* So that TLS, say, is refused at once and not after a line's end that never comes. */
        if (!h->started && h->line < limit && !is_token((unsigned char)data[h->line]) &&
            data[h->line] != '\r') {
            return http_head_bad(h, 400,
                                 "this is not HTTP; the front speaks plain HTTP, without TLS");
        }
        const char *end =
            h->scanned < limit ? memchr(data + h->scanned, '\n', limit - h->scanned) : NULL;
        if (!end) {
            h->scanned = (uint32_t)limit;
            break;
        }
        const uint32_t at = (uint32_t)(end - data);
        if (at == h->line || data[at - 1] != '\r') {
            return http_head_bad(h, 400, "a line ends without CR");
        }
        take_line(h, data, at - 1 - h->line);
        h->line = h->scanned = at + 1;
    }
    if (h->progress == SONDE_HTTP_MORE && len >= SONDE_HTTP_HEAD_MAX) {
        return h->started ? http_head_bad(h, 431, "the fields are longer than 32 KiB")
                          : http_head_bad(h, 414, "the start line is longer than 32 KiB");
    }
    return h->progress;
}

const struct sonde_http_field *sonde_http_field(const struct sonde_http_head *h,
                                                enum sonde_http_field_id id)
{
    return h->first[id] ? &h->field[h->first[id] - 1] : NULL;
}

int sonde_http_keeps_alive(const struct sonde_http_head *h)
{
    return !h->says_close && (h->minor > 0 || h->says_keep_alive);
}
