/* folded_scan.c - see folded_scan.h. Lines are compared with the line before, and what they share,
 * which in a sorted file is most, is not looked at again. Names are looked up in a table of their
 * own, which is smaller than the profile's: with 8,000 names it stays in the cache. Their texts are
 * copied to be close together: where they stand in a file of 100 MB, each is on a page of its own,
 * and comparing them took as long as hashing.
 *
 * Rejected: guessing a name from the one before it, to compare instead of hash. Where lines are not
 * sorted, guesses are wrong too often, and a wrong guess costs as much as the hash. */
#include "profile/formats/folded_scan.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "profile/formats/folded.h"
#include "profile/tree/frame.h"
#include "sonde/sonde.h"

#define FRAMES_MAX (SONDE_FOLDED_END - 1)

void sonde_folded_scan_init(struct sonde_folded_scan *s, const char *data, size_t len,
                            size_t bytes_max)
{
    assert(data || !len);
    *s = (struct sonde_folded_scan){ .at = data, .end = data + len, .frames = data,
                                     .scale = 1, .bytes_max = bytes_max };
}

struct sonde_folded_block {
    struct sonde_folded_block *next;
    size_t used, size;
    char text[];
};

/* A copy that does not move; NULL = no memory. Long names stay where they are. */
static const char *keep_text(struct sonde_folded_scan *s, const char *text, size_t len)
{
    enum { BLOCK = 1 << 16, LONG = 1 << 10 };
    struct sonde_folded_block *b = s->blocks;
    if (len > LONG) return text;
    if (!b || b->size - b->used < len) {
        if (s->bytes_max < BLOCK || s->bytes > s->bytes_max - BLOCK) return text;
        b = sonde__alloc(sizeof(*b) + BLOCK);
        if (!b) return NULL;
        *b = (struct sonde_folded_block){ .next = s->blocks, .size = BLOCK };
        s->blocks = b;
        s->bytes += BLOCK;
    }
    char *copy = b->text + b->used;
    memcpy(copy, text, len);
    b->used += len;
    return copy;
}

void sonde_folded_scan_release(struct sonde_folded_scan *s)
{
    for (struct sonde_folded_block *b = s->blocks, *next; b; b = next) {
        next = b->next;
        sonde__free(b);
    }
    sonde__free(s->marks);
    sonde__free(s->names);
    sonde_map_release(&s->index);
}

static int folded_scan_no_memory(const struct sonde_folded_scan *s, struct sonde_folded_batch *b)
{
    return sonde_err_set(&b->err, SONDE_ENOMEM, "line %zu: no memory for its names and frames",
                         s->number);
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* The number of a name; 0 = no memory. */
static uint32_t folded_scan_find_name(struct sonde_folded_scan *s, struct sonde_folded_batch *b,
                                      const char *text, size_t len, uint32_t hash)
{
    uint32_t at = hash, id;
    while ((id = sonde_map_next(&s->index, hash, &at))) {
        const struct sonde_folded_name *n = &s->names[id - SONDE_FOLDED_NAMES];
        if (n->len == len && !memcmp(n->text, text, len)) return id;
    }
    const struct sonde_budget budget = { .used = &s->bytes, .max = s->bytes_max };
    struct sonde_folded_name *names =
        sonde_table_grow(s->names, s->name_count, &s->name_cap, sizeof(*names), &budget);
    if (names) s->names = names;
    if (!names || s->name_count >= FRAMES_MAX - SONDE_FOLDED_NAMES ||
        sonde_intern_reserve(&s->index, &budget)) {
        return 0;
    }
    text = keep_text(s, text, len);
    if (!text) return 0;
    id = SONDE_FOLDED_NAMES + s->name_count;
    names[s->name_count++] = (struct sonde_folded_name){ text, len };
    b->names[b->name_count++] = (struct sonde_folded_name){ text, len };
    sonde_map_put(&s->index, hash, id);
    return id;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static size_t common_prefix(const char *a, const char *b, size_t max)
{
    size_t n = 0;
    for (uint64_t x, y; n + 8 <= max; n += 8) {
        memcpy(&x, a + n, 8);
        memcpy(&y, b + n, 8);
        if (x != y) return n + (size_t)__builtin_ctzll(x ^ y) / 8;
    }
    while (n < max && a[n] == b[n]) n++;
    return n;
}

static int folded_scan_is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* A number at the end of a line, and where it begins; fraction: how many digits it has behind a
 * point. 0 if there is none, or nothing before it. */
static int find_number(const char *line, size_t len, size_t *begin, size_t *end, size_t *fraction)
{
    while (len && folded_scan_is_space(line[len - 1])) len--;
    size_t at = len;
    *fraction = 0;
    while (at && line[at - 1] >= '0' && line[at - 1] <= '9') at--;
    if (at == len) return 0;
    if (at > 1 && line[at - 1] == '.' && line[at - 2] >= '0' && line[at - 2] <= '9') {
        *fraction = len - at;
        at--;
        while (at && line[at - 1] >= '0' && line[at - 1] <= '9') at--;
    }
    *begin = at;
    *end = len;
    return at && folded_scan_is_space(line[at - 1]);
}

/* The weight at the end of a line, times scale: where the frames end in *frames_len. 0 if there is
 * none. What is finer than the scale is rounded. */
static int read_weight(const char *line, size_t len, uint32_t scale, size_t *frames_len,
                       uint64_t *weight)
{
    size_t begin, end, fraction;
    uint64_t value = 0, up = 0;
    if (!find_number(line, len, &begin, &end, &fraction)) return 0;
    const size_t point = fraction ? end - fraction - 1 : end;
    size_t i = begin;
    for (; i < point; i++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(line[i] - '0'), &value)) {
            return 0;
        }
    }
    for (i++; scale > 1; scale /= 10, i++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, i < end ? (uint64_t)(line[i] - '0') : 0, &value)) {
            return 0;
        }
    }
    if (i < end) up = line[i] >= '5';
    if (__builtin_add_overflow(value, up, &value)) return 0;
    while (begin && folded_scan_is_space(line[begin - 1])) begin--;
    *frames_len = begin;
    *weight = value;
    return 1;
}

static int folded_scan_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return 0;
    }
    return 1;
}

/* The line at data, its end in *len. */
static const char *folded_scan_next_line(const char *data, const char *end, size_t *len)
{
    const char *newline = memchr(data, '\n', (size_t)(end - data));
    *len = (size_t)((newline ? newline : end) - data);
    return newline ? newline + 1 : end;
}

/* 1 if there is a frame with a name before the weight; the mark of a cut stack is none. */
static int has_names(const char *frames, size_t len)
{
    const size_t mark = strlen(SONDE_TRUNCATED_NAME);
    if (len >= mark && !memcmp(frames, SONDE_TRUNCATED_NAME, mark) &&
        (len == mark || frames[mark] == ';')) {
        frames += mark;
        len -= mark;
    }
    while (len && *frames == ';') frames++, len--;
    return len > 0;
}

/* Why a line is no stack; NULL = it is one, of s->weight, its frames as long as *len. */
static const char *line_fault(struct sonde_folded_scan *s, const char *line, size_t line_len,
                              size_t *len)
{
    if (memchr(line, '\0', line_len)) return "a NUL byte: this is not text";
    if (!read_weight(line, line_len, s->scale, len, &s->weight)) {
        return "does not end in a space and a number below 2^64";
    }
    return has_names(line, *len) ? NULL : "no frames before the weight";
}

int sonde_folded_scan_survey(struct sonde_folded_scan *s)
{
    enum { DIGITS_MAX = 3 };
    size_t digits = 0, lines = 0, pairs = 0;
    for (const char *at = s->at; at < s->end;) {
        const char *line = at;
        size_t len, begin, end, fraction, before;
        at = folded_scan_next_line(line, s->end, &len);
        if (!find_number(line, len, &begin, &end, &fraction)) continue;
        lines++;
        if (fraction > digits) digits = fraction;
        pairs += find_number(line, begin, &begin, &end, &before) && has_names(line, begin);
    }
    for (size_t i = 0; i < digits && i < DIGITS_MAX; i++) s->scale *= 10;
    return pairs > 1 && pairs > lines / 10 * 9 + lines % 10 * 9 / 10;
}

/* The next line that is a stack, or none: then there is no line at hand. */
static void begin_line(struct sonde_folded_scan *s, struct sonde_folded_batch *b)
{
    assert(!s->in_line);
    const char *line = s->at;
    size_t line_len = 0, len = 0;
    for (int found = 0; !found;) {
        if (s->at == s->end) return;
        line = s->at;
        s->at = folded_scan_next_line(line, s->end, &line_len);
        s->number++;
        if (folded_scan_blank(line, line_len)) continue;
        const char *fault = line_fault(s, line, line_len, &len);
        found = !fault;
        if (fault && !s->bad++) {
            sonde_err_set(&s->first_bad, SONDE_EFORMAT, "line %zu: %s: '%.*s'", s->number, fault,
                          (int)(line_len < 60 ? line_len : 60), line);
        }
    }
    s->good++;
    const size_t common = common_prefix(line, s->frames, len < s->len ? len : s->len);
    /* A frame is shared if the ';' behind it is. */
    while (s->count && s->marks[s->count - 1].end >= common) s->count--;
    b->tokens[b->token_count++] = SONDE_FOLDED_LINE | s->count;
    s->next = s->count ? s->marks[s->count - 1].end + 1 : 0;
    s->frames = line;
    s->len = len;
    s->in_line = 1;
}

static void end_line(struct sonde_folded_scan *s, struct sonde_folded_batch *b)
{
    assert(s->in_line && s->next >= s->len);
    b->tokens[b->token_count++] = SONDE_FOLDED_END;
    b->tokens[b->token_count++] = (uint32_t)s->weight;
    b->tokens[b->token_count++] = (uint32_t)(s->weight >> 32);
    s->in_line = 0;
}

/* Out of line: inside the loop over names it would cost registers. */
__attribute__((noinline)) static int folded_scan_make_room(struct sonde_folded_scan *s)
{
    return SONDE_ARRAY_ROOM(s->marks, s->count, s->cap);
}

static int push_mark(struct sonde_folded_scan *s, struct sonde_folded_mark mark)
{
    if (s->count == s->cap && folded_scan_make_room(s)) return SONDE_ENOMEM;
    s->marks[s->count++] = mark;
    return 0;
}

/* The first frame may be the mark of a cut stack. */
static int folded_scan_is_truncated(const struct sonde_folded_scan *s, size_t len)
{
    return !s->count && len == strlen(SONDE_TRUNCATED_NAME) &&
           !memcmp(s->frames, SONDE_TRUNCATED_NAME, len);
}

static int has_room(const struct sonde_folded_batch *b)
{
    return b->token_count + 4 <= SONDE_FOLDED_TOKENS && b->name_count < SONDE_FOLDED_NAMES_NEW;
}

/* The frames of the line at hand, as many as there is room for. */
static int scan_frames(struct sonde_folded_scan *s, struct sonde_folded_batch *b)
{
    while (s->next < s->len && has_room(b)) {
        const char *text = s->frames + s->next;
        size_t len;
        const uint32_t hash = sonde_hash_until(text, s->len - s->next, ';', &len);
        const struct sonde_folded_mark mark = { .end = s->next + len };
        uint32_t word = SONDE_FOLDED_EMPTY;
        if (folded_scan_is_truncated(s, len)) {
            word = SONDE_FOLDED_TRUNCATED;
        } else if (len) {
            word = folded_scan_find_name(s, b, text, len, hash);
            if (!word) return folded_scan_no_memory(s, b);
        }
        if (s->count == FRAMES_MAX || push_mark(s, mark)) return folded_scan_no_memory(s, b);
        b->tokens[b->token_count++] = word;
        s->next = mark.end + 1;
    }
    return 0;
}

void sonde_folded_scan_fill(struct sonde_folded_scan *s, struct sonde_folded_batch *b)
{
    b->token_count = b->name_count = 0;
    b->last = b->rc = 0;
    while (has_room(b) && !b->last) {
        if (!s->in_line) begin_line(s, b);
        b->last = !s->in_line;
        if (!b->last) b->rc = scan_frames(s, b);
        if (!b->last && !b->rc && s->next >= s->len && has_room(b)) end_line(s, b);
        if (b->rc) b->last = 1;
    }
}

/* Of the first lines most are stacks. */
int sonde_folded_probe(const char *data, size_t len)
{
    enum { LINES = 64 };
    struct sonde_folded_scan s = { .scale = 1 };
    int good = 0, bad = 0;
    for (const char *at = data, *end = data + len; at < end && good + bad < LINES;) {
        const char *line = at;
        size_t line_len, frames_len;
        at = folded_scan_next_line(line, end, &line_len);
        if (folded_scan_blank(line, line_len)) continue;
        if (line_fault(&s, line, line_len, &frames_len)) bad++;
        else good++;
    }
    return good > bad;
}
