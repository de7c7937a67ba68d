#include "base/pb.h"

#include <assert.h>
#include <string.h>

#include "base/varint.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, FIELD_BITS = 29 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "fixed64 is copied as it is");

static void add_varint(struct sonde_buf *b, uint64_t v)
{
    unsigned char bytes[SONDE_VARINT_MAX];
    sonde_buf_add(b, bytes, (size_t)(sonde_varint_put(bytes, v) - bytes));
}

static void add_tag(struct sonde_buf *b, uint32_t field, uint32_t wire)
{
    assert(field > 0 && field < 1u << FIELD_BITS);
    add_varint(b, (uint64_t)field << 3 | wire);
}

void sonde_pb_uint(struct sonde_buf *b, uint32_t field, uint64_t v)
{
    add_tag(b, field, WIRE_VARINT);
    add_varint(b, v);
}

void sonde_pb_sint(struct sonde_buf *b, uint32_t field, int64_t v)
{
    sonde_pb_uint(b, field, sonde_zigzag((uint64_t)v));
}

void sonde_pb_fixed64(struct sonde_buf *b, uint32_t field, uint64_t v)
{
    add_tag(b, field, WIRE_FIXED64);
    sonde_buf_add(b, &v, sizeof(v));
}

void sonde_pb_double(struct sonde_buf *b, uint32_t field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    sonde_pb_fixed64(b, field, bits);
}

void sonde_pb_bytes(struct sonde_buf *b, uint32_t field, const void *data, size_t len)
{
    add_tag(b, field, WIRE_BYTES);
    add_varint(b, len);
    sonde_buf_add(b, data, len);
}

void sonde_pb_str(struct sonde_buf *b, uint32_t field, const char *s, size_t len)
{
    sonde_pb_bytes(b, field, s, len);
}

/* The bytes of a part that failed are not the part: the whole must fail with it. */
static int inherit_error(struct sonde_buf *b, const struct sonde_buf *part)
{
    if (!b->error) b->error = part->error;
    return b->error;
}

void sonde_pb_message(struct sonde_buf *b, uint32_t field, const struct sonde_buf *nested)
{
    if (inherit_error(b, nested)) return;
    sonde_pb_bytes(b, field, nested->data, nested->len);
}

void sonde_pb_delimited(struct sonde_buf *b, const struct sonde_buf *message)
{
    if (inherit_error(b, message)) return;
    add_varint(b, message->len);
    sonde_buf_add(b, message->data, message->len);
}

void sonde_pb_packed_uint(struct sonde_buf *b, uint32_t field, const uint64_t *v, size_t count)
{
    if (!count) return;
    size_t len = 0;
    for (size_t i = 0; i < count; i++) len += sonde_varint_size(v[i]);
    add_tag(b, field, WIRE_BYTES);
    add_varint(b, len);
    for (size_t i = 0; i < count; i++) add_varint(b, v[i]);
}

void sonde_pb_packed_sint(struct sonde_buf *b, uint32_t field, const int64_t *v, size_t count)
{
    if (!count) return;
    size_t len = 0;
    for (size_t i = 0; i < count; i++) len += sonde_varint_size(sonde_zigzag((uint64_t)v[i]));
    add_tag(b, field, WIRE_BYTES);
    add_varint(b, len);
    for (size_t i = 0; i < count; i++) add_varint(b, sonde_zigzag((uint64_t)v[i]));
}
