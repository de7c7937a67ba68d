/* folded.c - one line a stack: `main;f;g 42`, the thread's start first. What flamegraph.pl and
 * most other tools read.
 *
 * Reading is made for files of 100 MB and more: lines are compared with the line before, and what
 * they share, which in a sorted file is most, is not looked up again. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/format.h"
#include "profile/frame.h"
#include "profile/profile_private.h"
#include "profile/tree.h"
#include "sonde/sonde.h"

#define KERNEL_SUFFIX "_[k]"

/* ---- Writing --------------------------------------------------------------------------------- */

/* Append one frame. The format has no escapes: what separates frames and lines is replaced. */
static void put_frame(struct sonde_buf *line, const char *name)
{
    const size_t begin = line->len;
    sonde_buf_puts(line, name);
    for (size_t i = begin; i < line->len; i++) {
        char *c = &line->data[i];
        if (*c == ';') *c = ':';
        else if (*c == '\n' || *c == '\r') *c = ' ';
    }
}

/* CPU and imported: what others count in samples. Else the weight: nanoseconds, bytes. */
static uint64_t line_weight(const struct sonde_tree *t, const struct sonde_tree_node *n)
{
    if (t->kind != SONDE_SAMPLE_CPU) return n->self;
    uint64_t below = 0;
    for (uint32_t c = n->first_child; c; c = t->nodes[c].next) below += t->nodes[c].samples;
    return n->samples - below;
}

/* ends[depth]: how long the line is with the frames down to that depth. */
static void put_tree(const struct sonde_tree *t, struct sonde_buf *line, size_t *ends,
                     struct sonde_buf *out)
{
    uint32_t at = t->nodes[0].first_child;
    while (at && !line->error && !out->error) {
        const struct sonde_tree_node *n = &t->nodes[at];
        line->len = ends[n->depth - 1];
        if (n->depth > 1) sonde_buf_putc(line, ';');
        put_frame(line, n->name);
        ends[n->depth] = line->len;
        const uint64_t weight = line_weight(t, n);
        if (weight) {
            sonde_buf_add(out, line->data, line->len);
            sonde_buf_putc(out, ' ');
            sonde_buf_u64(out, weight);
            sonde_buf_putc(out, '\n');
        }
        if (n->first_child) {
            at = n->first_child;
            continue;
        }
        while (at && !t->nodes[at].next) at = t->nodes[at].parent;
        if (at) at = t->nodes[at].next;
    }
    if (line->error && !out->error) out->error = line->error;
}

static int folded_write(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                        struct sonde_buf *out, struct sonde_err *err)
{
    struct sonde_tree *t;
    const struct sonde_tree_options o = { 0 };
    int rc = sonde_tree_build(p, f, &o, &t, err);
    if (rc) return rc;
    struct sonde_buf line;
    sonde_buf_init(&line, out->max);
    size_t *ends = sonde__calloc((size_t)t->depth_max + 1, sizeof(*ends));
    if (ends) put_tree(t, &line, ends, out);
    else out->error = SONDE_ENOMEM;
    sonde__free(ends);
    sonde_buf_release(&line);
    sonde_tree_destroy(t);
    if (out->error) return sonde_err_set(err, out->error, "no memory for the folded text");
    return 0;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Where a frame of the line before ended, and the stack down to it. */
struct mark {
    size_t end;       /* offset of what follows its name */
    uint32_t stack;
    uint32_t truncated;
};

struct reader {
    struct sonde_profile *p;
    struct sonde_err *err;
    const char *before;   /* frames of the line before */
    size_t before_len;
    struct mark *marks;   /* one a frame of it */
    uint32_t count, cap;
    uint32_t kernel;      /* module of names with the suffix; 0 = none seen */
    size_t number;        /* of the line */
};

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

static uint32_t kernel_location(struct reader *r, const char *name, size_t len)
{
    struct sonde_profile *p = r->p;
    if (!r->kernel) {
        const struct sonde_profile_module m = { .path = sonde_profile_cstring(p, "[kernel]"),
                                                .flags = SONDE_MODULE_KERNEL };
        r->kernel = sonde_profile_module(p, &m);
        if (!r->kernel) return 0;
    }
    const struct sonde_profile_function f = { .name = sonde_profile_string(p, name, len),
                                              .module = r->kernel };
    const struct sonde_profile_line line = { .function = sonde_profile_function(p, &f) };
    return f.name && line.function ? sonde_profile_lines_location(p, r->kernel, 0, &line, 1) : 0;
}

static uint32_t location_of(struct reader *r, const char *name, size_t len, uint32_t hash)
{
    const size_t suffix = strlen(KERNEL_SUFFIX);
    if (len > suffix && !memcmp(name + len - suffix, KERNEL_SUFFIX, suffix)) {
        return kernel_location(r, name, len - suffix);
    }
    return sonde_profile_hashed_location(r->p, name, len, hash);
}

static int push_mark(struct reader *r, struct mark mark)
{
    if (r->count == r->cap) {
        const uint32_t cap = r->cap ? r->cap * 2 : 256;
        struct mark *grown = sonde__realloc(r->marks, cap * sizeof(*grown));
        if (!grown) return SONDE_ENOMEM;
        r->marks = grown;
        r->cap = cap;
    }
    r->marks[r->count++] = mark;
    return 0;
}

/* The stack of `a;b;c`; what it shares with the line before is taken from there. */
static int read_stack(struct reader *r, const char *frames, size_t len)
{
    const size_t max = len < r->before_len ? len : r->before_len;
    const size_t common = common_prefix(frames, r->before, max);
    /* A frame is shared if the ';' behind it is. */
    while (r->count && r->marks[r->count - 1].end >= common) r->count--;
    size_t at = r->count ? r->marks[r->count - 1].end + 1 : 0;
    struct mark top = r->count ? r->marks[r->count - 1] : (struct mark){ 0 };
    r->before = frames;
    r->before_len = len;
    while (at < len) {
        size_t name_len;
        const uint32_t hash = sonde_hash_until(frames + at, len - at, ';', &name_len);
        const size_t end = at + name_len;
        if (!r->count && name_len == strlen(SONDE_TRUNCATED_NAME) &&
            !memcmp(frames, SONDE_TRUNCATED_NAME, name_len)) {
            top.truncated = 1;
        } else if (name_len) {
            const uint32_t location = location_of(r, frames + at, name_len, hash);
            top.stack = sonde_profile_stack(r->p, top.stack, location);
            if (!top.stack) return SONDE_ENOMEM;
        }
        top.end = end;
        if (push_mark(r, top)) return SONDE_ENOMEM;
        at = end + 1;
    }
    return 0;
}

/* The number at the end of a line: where the frames end in *frames_len. 0 if there is none. */
static int read_weight(const char *line, size_t len, size_t *frames_len, uint64_t *weight)
{
    while (len && (line[len - 1] == ' ' || line[len - 1] == '\t' || line[len - 1] == '\r')) len--;
    size_t digit = len;
    while (digit && line[digit - 1] >= '0' && line[digit - 1] <= '9') digit--;
    if (digit == len || !digit || (line[digit - 1] != ' ' && line[digit - 1] != '\t')) return 0;
    uint64_t value = 0;
    for (size_t i = digit; i < len; i++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(line[i] - '0'), &value)) {
            return 0;
        }
    }
    while (digit && (line[digit - 1] == ' ' || line[digit - 1] == '\t')) digit--;
    *frames_len = digit;
    *weight = value;
    return 1;
}

static int blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') return 0;
    }
    return 1;
}

static int no_room(const struct reader *r)
{
    return sonde_err_set(r->err, SONDE_ENOMEM,
                         "line %zu: the profile needs more than its %zu MB of memory", r->number,
                         r->p->bytes_max >> 20);
}

static int read_line(struct reader *r, const char *line, size_t len)
{
    size_t frames_len;
    uint64_t weight;
    if (blank(line, len)) return 0;
    if (!read_weight(line, len, &frames_len, &weight)) {
        return sonde_err_set(r->err, SONDE_EFORMAT,
                             "line %zu: does not end in a space and a whole number below 2^64: "
                             "'%.*s'", r->number, (int)(len < 60 ? len : 60), line);
    }
    if (read_stack(r, line, frames_len)) return no_room(r);
    const struct mark top = r->count ? r->marks[r->count - 1] : (struct mark){ 0 };
    if (!top.stack) {
        return sonde_err_set(r->err, SONDE_EFORMAT, "line %zu: no frames before the weight",
                             r->number);
    }
    const struct sonde_profile_sample s = {
        .stack = top.stack,
        .weight = weight,
        .count = weight < UINT32_MAX ? (uint32_t)weight : UINT32_MAX,
        .kind = SONDE_SAMPLE_OTHER,
        .flags = top.truncated ? SONDE_SAMPLE_TRUNCATED : 0,
    };
    return sonde_profile_add_sample(r->p, &s) ? no_room(r) : 0;
}

/* The line at data, its end in *len. */
static const char *next_line(const char *data, const char *end, size_t *len)
{
    const char *newline = memchr(data, '\n', (size_t)(end - data));
    *len = (size_t)((newline ? newline : end) - data);
    return newline ? newline + 1 : end;
}

static int folded_read(const char *data, size_t len, struct sonde_profile *p,
                       struct sonde_err *err)
{
    struct reader r = { .p = p, .err = err, .before = data, .number = 1 };
    const char *nul = memchr(data, '\0', len);
    if (nul) {
        return sonde_err_set(err, SONDE_EFORMAT, "a NUL byte at offset %zu: this is not text",
                             (size_t)(nul - data));
    }
    int rc = 0;
    for (const char *at = data, *end = data + len; at < end && !rc; r.number++) {
        const char *line = at;
        size_t line_len;
        at = next_line(line, end, &line_len);
        rc = read_line(&r, line, line_len);
    }
    sonde__free(r.marks);
    if (rc) return rc;
    if (!p->samples_count) return sonde_err_set(err, SONDE_EFORMAT, "no stacks in the file");
    p->engine = sonde_profile_cstring(p, "import");
    return 0;
}

static int folded_probe(const char *data, size_t len)
{
    for (const char *at = data, *end = data + len; at < end;) {
        const char *line = at;
        size_t line_len, frames_len;
        uint64_t weight;
        at = next_line(line, end, &line_len);
        if (blank(line, line_len)) continue;
        return !memchr(line, '\0', line_len) &&
               read_weight(line, line_len, &frames_len, &weight) && frames_len;
    }
    return 0;
}

extern const struct sonde_format_ops sonde_format_folded;
const struct sonde_format_ops sonde_format_folded = {
    .name = "folded",
    .summary = "one line a stack, for flamegraph.pl and others: main;f;g 42",
    .content_type = "text/plain; charset=utf-8",
    .suffix = ".folded",
    .write = folded_write,
    .probe = folded_probe,
    .read = folded_read,
};
