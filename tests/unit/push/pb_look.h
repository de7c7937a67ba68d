/* pb_look.h - fields of encoded messages, for tests: found by number, shown as text. */
#ifndef SONDE_TESTS_PB_LOOK_H
#define SONDE_TESTS_PB_LOOK_H

#include <stdio.h>
#include <string.h>

#include "base/pb_read.h"

struct pb_part { const unsigned char *data; size_t len; };

/* How many fields of that number there are; the message is well-formed to its end. */
static inline size_t pb_count(struct pb_part m, uint32_t number)
{
    struct sonde_pb_reader r = sonde_pb_reader(m.data, m.len);
    struct sonde_pb_field f;
    size_t n = 0;
    int more;
    while ((more = sonde_pb_next(&r, &f)) > 0) n += f.number == number;
    assert_int_equal(more, 0);
    return n;
}

static inline struct sonde_pb_field pb_nth(struct pb_part m, uint32_t number, size_t nth)
{
    struct sonde_pb_reader r = sonde_pb_reader(m.data, m.len);
    struct sonde_pb_field f;
    while (sonde_pb_next(&r, &f) > 0) {
        if (f.number == number && !nth--) return f;
    }
    fail_msg("no field %u", number);
    return (struct sonde_pb_field){ 0 };
}

/* The nth message or text of that number. */
static inline struct pb_part pb_inner(struct pb_part m, uint32_t number, size_t nth)
{
    const struct sonde_pb_field f = pb_nth(m, number, nth);
    assert_int_equal(f.wire, SONDE_PB_BYTES);
    return (struct pb_part){ f.data, f.len };
}

static inline uint64_t pb_value(struct pb_part m, uint32_t number)
{
    return pb_nth(m, number, 0).value;
}

static inline double pb_double(struct pb_part m, uint32_t number)
{
    const struct sonde_pb_field f = pb_nth(m, number, 0);
    double d;
    assert_int_equal(f.wire, SONDE_PB_FIXED64);
    memcpy(&d, &f.value, sizeof(d));
    return d;
}

static inline int64_t pb_zigzag(uint64_t v) { return (int64_t)(v >> 1) ^ -(int64_t)(v & 1); }

static inline void pb_expect_text(struct pb_part m, uint32_t number, const char *text)
{
    const struct pb_part p = pb_inner(m, number, 0);
    if (p.len != strlen(text) || memcmp(p.data, text, p.len)) {
        fail_msg("field %u is '%.*s', not '%s'", number, (int)p.len, (const char *)p.data, text);
    }
}

/* All KeyValues of that number as "key=text key=#7 key=~0.5 …", in their order. */
static inline void pb_attributes(struct pb_part m, uint32_t number, char *out, size_t size)
{
    const size_t count = pb_count(m, number);
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        const struct pb_part pair = pb_inner(m, number, i), key = pb_inner(pair, 1, 0);
        const struct pb_part any = pb_inner(pair, 2, 0);
        at += (size_t)snprintf(out + at, size - at, "%s%.*s=", i ? " " : "", (int)key.len,
                               (const char *)key.data);
        if (pb_count(any, 1)) {
            const struct pb_part text = pb_inner(any, 1, 0);
            at += (size_t)snprintf(out + at, size - at, "%.*s", (int)text.len,
                                   (const char *)text.data);
        } else if (pb_count(any, 3)) {
            at += (size_t)snprintf(out + at, size - at, "#%lld", (long long)pb_value(any, 3));
        } else {
            at += (size_t)snprintf(out + at, size - at, "~%g", pb_double(any, 4));
        }
        assert_true(at < size);
    }
}

#endif
