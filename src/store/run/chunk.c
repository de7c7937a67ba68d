/* chunk.c - samples as a chunk of a run file; the layout is in private.h. */
#include <assert.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/varint.h"
#include "sonde/sonde.h"
#include "store/run/private.h"

/* ---- Packing --------------------------------------------------------------------------------- */

/* Small for small differences of either sign; differences wrap, so every pair of values works. */
static unsigned char *put_delta(unsigned char *at, uint64_t v, uint64_t before)
{
    return sonde_varint_put(at, sonde_zigzag(v - before));
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
    for (uint32_t i = 0; i < count; i++) at = sonde_varint_put(at, s[i].flags);
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
    if (sonde_varint_get(&c->at, c->end, &v)) c->bad = 1;
    return v;
}

static uint64_t get_delta(struct run_chunk_column *c, uint64_t before)
{
    return before + sonde_unzigzag(run_chunk_get_varint(c));
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
