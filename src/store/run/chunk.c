/* chunk.c - samples as a chunk of a run file; the layout is in private.h. */
#include <assert.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/run/private.h"

/* ---- Packing --------------------------------------------------------------------------------- */

static unsigned char *run_chunk_put_varint(unsigned char *at, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) *at++ = (unsigned char)(v | 0x80);
    *at++ = (unsigned char)v;
    return at;
}

/* Small for small differences of either sign; differences wrap, so every pair of values works. */
static unsigned char *put_delta(unsigned char *at, uint64_t v, uint64_t before)
{
    const uint64_t d = v - before;
    return run_chunk_put_varint(at, d << 1 ^ (d >> 63 ? UINT64_MAX : 0));
}

static size_t put_columns(const struct sonde_profile_sample *s, uint32_t count,
                          unsigned char *plain)
{
    unsigned char *at = plain;
    uint64_t before = s[0].time_ns;
    for (uint32_t i = 0; i < count; before = s[i++].time_ns) {
        at = put_delta(at, s[i].time_ns, before);
    }
    before = 0;
    for (uint32_t i = 0; i < count; before = s[i++].stack) at = put_delta(at, s[i].stack, before);
    before = 0;
    for (uint32_t i = 0; i < count; before = s[i++].weight) {
        at = put_delta(at, s[i].weight, before);
    }
    before = 0;
    for (uint32_t i = 0; i < count; before = s[i++].count) at = put_delta(at, s[i].count, before);
    for (uint32_t i = 0; i < count; i++) at = run_chunk_put_varint(at, s[i].flags);
    return (size_t)(at - plain);
}

void sonde_run_pack(const struct sonde_profile_sample *s, uint32_t count, struct sonde_buf *out)
{
    assert(count && count <= SONDE_RUN_CHUNK);
    unsigned char *plain = sonde__alloc((size_t)count * SONDE_RUN_SAMPLE_MAX);
    if (!plain) {
        out->error = SONDE_ENOMEM;
        return;
    }
    const size_t plain_len = put_columns(s, count, plain);
    uLongf len = compressBound((uLong)plain_len);
    char *room = sonde_buf_reserve(out, len);
    if (room) {
        if (compress2((Bytef *)room, &len, plain, (uLong)plain_len, Z_DEFAULT_COMPRESSION)) {
            out->error = SONDE_ENOMEM; /* the only failure with enough room */
        } else {
            out->len += len;
        }
    }
    sonde__free(plain);
}

/* ---- Unpacking ------------------------------------------------------------------------------- */

struct run_chunk_column {
    const unsigned char *at, *end;
    int bad; /* ended early, or a number is too long */
};

static uint64_t run_chunk_get_varint(struct run_chunk_column *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; c->at < c->end && shift < 64; shift += 7) {
        const uint64_t byte = *c->at++;
        if (shift == 63 && byte > 1) break;
        v |= (byte & 0x7f) << shift;
        if (byte < 0x80) return v;
    }
    c->bad = 1;
    return 0;
}

static uint64_t get_delta(struct run_chunk_column *c, uint64_t before)
{
    const uint64_t z = run_chunk_get_varint(c);
    return before + (z >> 1 ^ (z & 1 ? UINT64_MAX : 0));
}

/* A column of numbers up to max. */
#define GET_DELTAS(c, out, count, field, first, max, type)                                     \
    do {                                                                                       \
        uint64_t v = (first);                                                                  \
        for (uint32_t i = 0; i < (count); i++) {                                               \
            v = get_delta(c, v);                                                               \
            if (v > (max)) (c)->bad = 1;                                                       \
            (out)[i].field = (type)v;                                                          \
        }                                                                                      \
    } while (0)

int sonde_run_unpack(const void *data, size_t len, uint64_t first_ns, uint32_t count,
                     struct sonde_profile_sample *out, struct sonde_err *err)
{
    if (!count || count > SONDE_RUN_CHUNK) {
        return sonde_err_set(err, SONDE_EFORMAT, "%u samples, not 1 to %d", count,
                             SONDE_RUN_CHUNK);
    }
    uLongf plain_len = (uLongf)count * SONDE_RUN_SAMPLE_MAX;
    unsigned char *plain = sonde__alloc(plain_len);
    if (!plain) return sonde_err_set(err, SONDE_ENOMEM, "no memory for its samples");
    const int rc = uncompress(plain, &plain_len, data, (uLong)len);
    if (rc != Z_OK) {
        sonde__free(plain);
        if (rc == Z_MEM_ERROR) return sonde_err_set(err, SONDE_ENOMEM, "no memory to unpack it");
        return sonde_err_set(err, SONDE_EFORMAT, "its data cannot be unpacked");
    }
    struct run_chunk_column c = { .at = plain, .end = plain + plain_len };
    GET_DELTAS(&c, out, count, time_ns, first_ns, UINT64_MAX, uint64_t);
    GET_DELTAS(&c, out, count, stack, 0, UINT32_MAX, uint32_t);
    GET_DELTAS(&c, out, count, weight, 0, UINT64_MAX, uint64_t);
    GET_DELTAS(&c, out, count, count, 0, UINT32_MAX, uint32_t);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t flags = run_chunk_get_varint(&c);
        if (flags > UINT16_MAX) c.bad = 1;
        out[i].flags = (uint16_t)flags;
    }
    const int whole = !c.bad && c.at == c.end;
    sonde__free(plain);
    if (whole) return 0;
    return sonde_err_set(err, SONDE_EFORMAT, "its data does not hold %u samples", count);
}
