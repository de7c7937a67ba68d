/* put_pb.h - protobuf into memory that is already reserved, for labels and attributes, which are
 * most of what is sent: lengths are computed first, so nothing is written twice. Fields below 16
 * only. */
#ifndef SONDE_PUSH_PUT_PB_H
#define SONDE_PUSH_PUT_PB_H

#include <stddef.h>
#include <stdint.h>

#include "base/put.h"
#include "base/varint.h"

/* A tag, a length, and so many bytes. */
static inline size_t push_bytes_size(size_t len) { return 1 + sonde_varint_size(len) + len; }

static inline char *push_put_varint(char *at, uint64_t v)
{
    return (char *)sonde_varint_put((unsigned char *)at, v);
}

/* What comes before the bytes of a string or message. */
static inline char *push_put_head(char *at, uint32_t field, size_t len)
{
    *at++ = (char)(field << 3 | 2);
    return push_put_varint(at, len);
}

static inline char *push_put_bytes(char *at, uint32_t field, const void *data, size_t len)
{
    return sonde_put(push_put_head(at, field, len), data, len);
}

#endif
