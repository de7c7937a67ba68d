/* load_answer.c - see load_answer.h. */
#include "bench/http/load_answer.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

enum answer_stage { HEAD, BODY, OVER };

void load_answer_init(struct load_answer *a) { *a = (struct load_answer){ .stage = OVER }; }

static void answer_stash_free(struct load_answer *a)
{
    if (a->stashes) *a->stashes -= a->stash_cap;
    sonde__free(a->stash);
    a->stash = NULL;
    a->stash_len = a->stash_cap = 0;
}

void load_answer_release(struct load_answer *a)
{
    answer_stash_free(a);
    sonde__free(a->event.shape.bytes);
    sonde_buf_release(&a->text);
    load_answer_init(a);
}

void load_answer_begin(struct load_answer *a, struct sonde_load_record *record,
                       struct sonde_load_gaps *gaps, uint64_t answer_max, int keep_text)
{
    a->record = record;
    a->gaps = gaps;
    a->answer_max = answer_max;
    a->stage = HEAD;
    a->format = LOAD_PLAIN;
    a->stash_len = a->line_at = a->seek_at = a->data_at = a->data_len = a->bad = 0;
    a->has_data = a->after_cr = a->lines_begun = a->ended = a->failed = a->unread = 0;
    a->keep_alive = a->any = 0;
    if (a->text.cap > 65536) sonde_buf_release(&a->text);
    if (!a->text.max) sonde_buf_init(&a->text, LOAD_TEXT_MAX);
    sonde_buf_reset(&a->text);
    a->event.record = record;
    a->event.text = keep_text ? &a->text : NULL;
    a->event.processed_tokens = SONDE_LOAD_UNKNOWN;
    a->event.shape.says = 0;
}

static int answer_set_over(struct load_answer *a, enum sonde_load_outcome outcome, uint64_t now_ns)
{
    a->stage = OVER;
    a->record->outcome = (uint8_t)outcome;
    a->record->end_ns = now_ns;
    if (outcome != SONDE_LOAD_OK && outcome != SONDE_LOAD_STATUS && outcome != SONDE_LOAD_ERROR) {
        a->keep_alive = 0;
    }
    return 1;
}

/* ---- The stash ------------------------------------------------------------------------------- */

static int answer_stash(struct load_answer *a, const char *data, size_t len, size_t max)
{
    const uint32_t cap = a->stash_cap;
    if (a->stash_len + len > max) return SONDE_EFULL;
    if (a->stashes && a->stash_len + len > cap && *a->stashes + len > LOAD_STASHES_MAX) {
        return SONDE_EFULL;
    }
    if (SONDE_ARRAY_RESERVE(a->stash, a->stash_cap, a->stash_len + len)) return SONDE_ENOMEM;
    if (a->stashes) *a->stashes += a->stash_cap - cap;
    memcpy(a->stash + a->stash_len, data, len);
    a->stash_len += (uint32_t)len;
    return 0;
}

/* Of what is in it only the end is still needed. A long one is not kept for the next. */
static void answer_stash_drop(struct load_answer *a, size_t len)
{
    memmove(a->stash, a->stash + len, a->stash_len - len);
    a->stash_len -= (uint32_t)len;
    if (a->stash_len == 0 && a->stash_cap > 16384) answer_stash_free(a);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void answer_token(struct load_answer *a, unsigned says, uint64_t now_ns)
{
    struct sonde_load_record *r = a->record;
    if (!r->first_ns) r->first_ns = now_ns;
    else if (a->gaps) load_gaps_add(a->gaps, now_ns, now_ns - r->last_ns);
    if (!r->content_ns && (says & (LOAD_SAYS_TEXT | LOAD_SAYS_TOOL))) r->content_ns = now_ns;
    r->last_ns = now_ns;
    r->events++;
}

static void answer_event(struct load_answer *a, const char *data, size_t len, uint64_t now_ns)
{
    static const char done[] = "[DONE]";
    if (len == sizeof(done) - 1 && !memcmp(data, done, len)) {
        a->ended = 1;
        return;
    }
    const unsigned says = load_event_read(&a->event, data, len);
    if (says & LOAD_SAYS_TOKEN) answer_token(a, says, now_ns);
    if (says & LOAD_SAYS_END) a->ended = 1;
    if (says & LOAD_SAYS_ERROR) a->failed = 1;
    if (says & LOAD_SAYS_BAD) a->bad++;
}

/* A line that is not empty, at event + line. Data of several lines is joined where it stands: what
 * comes off the second, its name and its end, is more than the line's end that is put between. */
static void answer_line(struct load_answer *a, char *event, size_t line, size_t len)
{
    char *at = event + line;
    if (!a->lines_begun && len >= 3 && !memcmp(at, "\xef\xbb\xbf", 3)) at += 3, len -= 3;
    a->lines_begun = 1;
    if (len < 4 || memcmp(at, "data", 4) != 0 || (len > 4 && at[4] != ':')) {
        /* llama.cpp before 2025 told errors in a field of their own. */
        if (len > 6 && !memcmp(at, "error:", 6)) a->failed = 1;
        return;
    }
    const size_t skip = len == 4 ? 4 : len > 5 && at[5] == ' ' ? 6 : 5;
    at += skip;
    len -= skip;
    if (a->has_data) {
        event[a->data_at + a->data_len++] = '\n';
        memmove(event + a->data_at + a->data_len, at, len);
        a->data_len += (uint32_t)len;
    } else {
        a->has_data = 1;
        a->data_at = (uint32_t)(at - event);
        a->data_len = (uint32_t)len;
    }
}

/* Server-sent events in data; returns where the one begins that is not complete. Lines end in LF,
 * CR LF or CR; an empty one ends the event. */
static size_t answer_sse(struct load_answer *a, char *data, size_t len, uint64_t now_ns)
{
    size_t event = 0, line = a->line_at, seek = a->seek_at;
    while (seek < len) {
        const char *lf = memchr(data + seek, '\n', len - seek);
        const size_t limit = lf ? (size_t)(lf - data) : len;
        const char *cr = memchr(data + seek, '\r', limit - seek);
        if (!lf && !cr) break;
        const size_t end = cr ? (size_t)(cr - data) : limit;
        size_t next = end + 1;
        if (cr && next < len) next += data[next] == '\n';
        else if (cr) a->after_cr = 1;
        if (end > line) answer_line(a, data + event, line - event, end - line);
        else if (a->has_data) {
            answer_event(a, data + event + a->data_at, a->data_len, now_ns);
            a->has_data = 0;
        }
        line = seek = next;
        if (!a->has_data) event = next;
    }
    a->line_at = (uint32_t)(line - event);
    a->seek_at = (uint32_t)(len - event);
    return event;
}

static size_t answer_lines(struct load_answer *a, char *data, size_t len, uint64_t now_ns)
{
    size_t line = 0, seek = a->seek_at;
    const char *lf;
    while (seek < len && (lf = memchr(data + seek, '\n', len - seek))) {
        size_t end = (size_t)(lf - data);
        seek = end + 1;
        while (end > line && (data[end - 1] == '\r' || data[end - 1] == ' ')) end--;
        if (end > line) answer_event(a, data + line, end - line, now_ns);
        line = seek;
    }
    a->seek_at = (uint32_t)(len - line);
    return line;
}

/* Content of the body. 0, or what is wrong: SONDE_EFULL, SONDE_ENOMEM. */
static int answer_content(struct load_answer *a, char *data, size_t len, uint64_t now_ns)
{
    a->record->bytes += len;
    if (a->record->bytes > a->answer_max) return SONDE_EFULL;
    if (a->format == LOAD_PLAIN || a->unread) return 0;
    if (a->format == LOAD_JSON) {
        if (answer_stash(a, data, len, LOAD_STASH_MAX)) {
            a->unread = 1;
            a->stash_len = 0;
        }
        return 0;
    }
    if (a->after_cr) {
        a->after_cr = 0;
        if (*data == '\n') data++, len--;
    }
    const int stashed = a->stash_len != 0;
    if (stashed && answer_stash(a, data, len, SIZE_MAX)) return SONDE_ENOMEM;
    char *from = stashed ? a->stash : data;
    const size_t all = stashed ? a->stash_len : len;
    const size_t used = a->format == LOAD_SSE ? answer_sse(a, from, all, now_ns)
                                              : answer_lines(a, from, all, now_ns);
    if (all - used > LOAD_STASH_MAX) return SONDE_EFULL;
    if (stashed) answer_stash_drop(a, used);
    else if (all > used) return answer_stash(a, from + used, all - used, LOAD_STASH_MAX);
    return 0;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* What is not ended by an empty line counts too; and a document can be read now. */
static void answer_rest(struct load_answer *a, uint64_t now_ns)
{
    if (a->format == LOAD_SSE) {
        if (a->stash_len > a->line_at) {
            answer_line(a, a->stash, a->line_at, a->stash_len - a->line_at);
        }
        if (a->has_data) answer_event(a, a->stash + a->data_at, a->data_len, now_ns);
        a->has_data = 0;
    } else if (a->format == LOAD_LINES) {
        if (a->stash_len) answer_event(a, a->stash, a->stash_len, now_ns);
    } else if (a->format == LOAD_JSON && !a->unread && a->stash_len) {
        const unsigned says = load_event_read(&a->event, a->stash, a->stash_len);
        if (says & LOAD_SAYS_ERROR) a->failed = 1;
        if (says & LOAD_SAYS_BAD) a->bad++;
    }
    if (a->stash) answer_stash_drop(a, a->stash_len);
}

static int answer_finish(struct load_answer *a, uint64_t now_ns)
{
    struct sonde_load_record *r = a->record;
    answer_rest(a, now_ns);
    if (r->prompt_tokens == SONDE_LOAD_UNKNOWN &&
        a->event.processed_tokens != SONDE_LOAD_UNKNOWN) {
        r->prompt_tokens = a->event.processed_tokens;
        if (r->cached_tokens != SONDE_LOAD_UNKNOWN) r->prompt_tokens += r->cached_tokens;
    }
    enum sonde_load_outcome outcome = SONDE_LOAD_OK;
    if (r->status < 200 || r->status > 299) outcome = SONDE_LOAD_STATUS;
    else if (a->failed) outcome = SONDE_LOAD_ERROR;
    else if (a->bad) outcome = SONDE_LOAD_PROTOCOL;
    else if (r->streamed && !a->ended) outcome = SONDE_LOAD_TRUNCATED;
    return answer_set_over(a, outcome, now_ns);
}

/* ---- Heads ----------------------------------------------------------------------------------- */

static enum load_format answer_format(const struct sonde_http_head *h, const char *data)
{
    static const struct { const char *type; enum load_format format; } types[] = {
        { "text/event-stream", LOAD_SSE },     { "application/x-ndjson", LOAD_LINES },
        { "application/jsonl", LOAD_LINES },   { "application/json-lines", LOAD_LINES },
        { "application/json", LOAD_JSON },     { "application/problem+json", LOAD_JSON },
    };
    const struct sonde_http_field *coding = sonde_http_field(h, SONDE_HTTP_CONTENT_ENCODING);
    if (coding && coding->value.len) return LOAD_PLAIN; /* compressed, though nobody asked for it */
    const struct sonde_http_field *f = sonde_http_field(h, SONDE_HTTP_CONTENT_TYPE);
    size_t n = 0;
    if (!f) return LOAD_PLAIN;
    const char *value = data + f->value.at;
    while (n < f->value.len && value[n] != ';' && value[n] != ' ') n++;
    for (size_t i = 0; i < SONDE_COUNT(types); i++) {
        if (strlen(types[i].type) == n && !strncasecmp(types[i].type, value, n)) {
            return types[i].format;
        }
    }
    return LOAD_PLAIN;
}

/* Where the head ends, or 0: behind an empty line. Seeking it first means that a head that comes in
 * many pieces is parsed once. */
static size_t answer_head_end(const char *data, size_t len, size_t from)
{
    from = from > 3 ? from - 3 : 0;
    const char *end = data + len, *lf;
    for (const char *at = data + from; (lf = memchr(at, '\n', (size_t)(end - at))); at = lf + 1) {
        const char *next = lf + 1;
        if (next < end && *next == '\r') next++;
        if (next < end && *next == '\n') return (size_t)(next + 1 - data);
    }
    return 0;
}

/* The head is whole. 0 = go on; else it is over. */
static int answer_head(struct load_answer *a, struct sonde_http_head *h, const char *data,
                       size_t len, uint64_t now_ns)
{
    sonde_http_head_init(h, 1);
    if (sonde_http_head_feed(h, data, len) != SONDE_HTTP_DONE || h->len != len ||
        h->status == 101) {
        return answer_set_over(a, SONDE_LOAD_PROTOCOL, now_ns);
    }
    if (h->status < 200) return 0; /* one of those that come before the answer */
    struct sonde_load_record *r = a->record;
    r->status = (uint16_t)h->status;
    r->head_ns = now_ns;
    a->format = (uint8_t)answer_format(h, data);
    r->streamed = a->format == LOAD_SSE || a->format == LOAD_LINES;
    sonde_http_body_of_response(&a->body, h, 0);
    a->keep_alive = sonde_http_keeps_alive(h) && a->body.framing != SONDE_HTTP_CLOSE;
    a->stage = BODY;
    return 0;
}

/* Part of a head, from data on; returns how much of it belongs to it, and in *over whether that was
 * all of the answer. */
static size_t answer_head_part(struct load_answer *a, struct sonde_http_head *h, const char *data,
                               size_t len, uint64_t now_ns, int *over)
{
    static const char begin[] = "HTTP/1.";
    const size_t before = a->stash_len;
    const size_t n = len < SONDE_HTTP_HEAD_MAX ? len : SONDE_HTTP_HEAD_MAX;
    if (before && answer_stash(a, data, n, 2 * SONDE_HTTP_HEAD_MAX)) {
        *over = answer_set_over(a, SONDE_LOAD_TOO_LONG, now_ns);
        return len;
    }
    const char *head = before ? a->stash : data;
    const size_t all = before + n, end = answer_head_end(head, all, before);
    const size_t known = all < sizeof(begin) - 1 ? all : sizeof(begin) - 1;
    if (memcmp(head, begin, known) != 0) {
        *over = answer_set_over(a, SONDE_LOAD_PROTOCOL, now_ns); /* not HTTP; TLS, say */
    } else if (end > SONDE_HTTP_HEAD_MAX || (!end && all >= SONDE_HTTP_HEAD_MAX)) {
        *over = answer_set_over(a, SONDE_LOAD_TOO_LONG, now_ns);
    } else if (end) {
        *over = answer_head(a, h, head, end, now_ns);
        a->stash_len = 0;
        return end - before;
    } else if (!before && answer_stash(a, data, n, SONDE_HTTP_HEAD_MAX)) {
        *over = answer_set_over(a, SONDE_LOAD_TOO_LONG, now_ns);
    }
    return len;
}

/* ---- The whole ------------------------------------------------------------------------------- */

int load_answer_feed(struct load_answer *a, struct sonde_http_head *head, char *data, size_t len,
                     uint64_t now_ns)
{
    size_t at = 0;
    int over = a->stage == OVER;
    if (len) a->any = 1;
    while (!over) {
        if (a->stage == HEAD) {
            if (at == len) return 0;
            at += answer_head_part(a, head, data + at, len - at, now_ns, &over);
            continue;
        }
        struct sonde_http_span content = { 0, 0 };
        const size_t n = sonde_http_body_feed(&a->body, data + at, len - at, &content);
        if (content.len) {
            const int rc = answer_content(a, data + at + content.at, content.len, now_ns);
            if (rc) over = answer_set_over(a, SONDE_LOAD_TOO_LONG, now_ns);
        }
        at += n;
        if (over) break;
        if (a->body.progress == SONDE_HTTP_DONE) over = answer_finish(a, now_ns);
        else if (a->body.progress == SONDE_HTTP_BAD)
            over = answer_set_over(a, SONDE_LOAD_PROTOCOL, now_ns);
        else if (at == len) return 0;
    }
    if (at < len) a->keep_alive = 0; /* more came than the answer: what follows cannot be trusted */
    return 1;
}

void load_answer_close(struct load_answer *a, uint64_t now_ns)
{
    if (a->stage == OVER) return;
    a->keep_alive = 0;
    if (a->stage == BODY && sonde_http_body_end(&a->body) == SONDE_HTTP_DONE) {
        answer_finish(a, now_ns);
    } else {
        answer_set_over(a, SONDE_LOAD_TRUNCATED, now_ns);
    }
}

void load_answer_cut(struct load_answer *a, uint64_t now_ns)
{
    if (a->stage == OVER) return;
    a->keep_alive = 0;
    answer_set_over(a, SONDE_LOAD_TRUNCATED, now_ns);
}
