#include "base/pb_read.h"

#include <string.h>

#include "base/varint.h"

enum { FIELD_BITS = 29 };

int sonde_pb_next_varint(struct sonde_pb_reader *r, uint64_t *v)
{
    if (r->at == r->end) return 0;
    return sonde_varint_get(&r->at, r->end, v) == 0 ? 1 : -1;
}

static int pb_read_fixed(struct sonde_pb_reader *r, size_t bytes, uint64_t *v)
{
    if ((size_t)(r->end - r->at) < bytes) return -1;
    *v = 0;
    memcpy(v, r->at, bytes); /* little endian, as pb.c asserts */
    r->at += bytes;
    return 1;
}

int sonde_pb_next(struct sonde_pb_reader *r, struct sonde_pb_field *f)
{
    uint64_t tag, len;
    const int more = sonde_pb_next_varint(r, &tag);
    if (more <= 0) return more;
    if (tag >> (FIELD_BITS + 3) || !(tag >> 3)) return -1;
    *f = (struct sonde_pb_field){ .number = (uint32_t)(tag >> 3), .wire = tag & 7 };
    switch (f->wire) {
    case SONDE_PB_VARINT: return sonde_pb_next_varint(r, &f->value) == 1 ? 1 : -1;
    case SONDE_PB_FIXED64: return pb_read_fixed(r, 8, &f->value);
    case SONDE_PB_FIXED32: return pb_read_fixed(r, 4, &f->value);
    case SONDE_PB_BYTES:
        if (sonde_pb_next_varint(r, &len) != 1 || len > (size_t)(r->end - r->at)) return -1;
        f->data = r->at;
        f->len = (size_t)len;
        r->at += len;
        return 1;
    default: return -1; /* groups are not in any schema since 2008 */
    }
}
