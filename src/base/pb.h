/* pb.h - write protobuf by hand into a buffer: enough for expositions with a fixed schema, where
 * generated code would cost a tree of allocations per message.
 *
 *   sonde_pb_str(&inner, 1, "le", 2);            a nested message is written to a buffer of its
 *   sonde_pb_message(&outer, 4, &inner);         own, then copied behind its length
 *   sonde_buf_reset(&inner);                     (one scratch buffer for each level of nesting)
 *
 * Fields are written as asked, zero or not: leaving defaults out is up to the caller. Errors stick
 * in the buffer, as in buf.h; a failed nested buffer makes the outer one fail too. field is in
 * 1 … 2^29 - 1. */
#ifndef SONDE_BASE_PB_H
#define SONDE_BASE_PB_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* uint32, uint64, bool, enum. int32 and int64: cast to uint64_t, sign extended. */
void sonde_pb_uint(struct sonde_buf *b, uint32_t field, uint64_t v);
void sonde_pb_sint(struct sonde_buf *b, uint32_t field, int64_t v); /* sint32, sint64 */
void sonde_pb_fixed64(struct sonde_buf *b, uint32_t field, uint64_t v);
void sonde_pb_double(struct sonde_buf *b, uint32_t field, double v);
void sonde_pb_bytes(struct sonde_buf *b, uint32_t field, const void *data, size_t len);
/* string: the caller vouches that it is valid UTF-8. */
void sonde_pb_str(struct sonde_buf *b, uint32_t field, const char *s, size_t len);
void sonde_pb_message(struct sonde_buf *b, uint32_t field, const struct sonde_buf *nested);

/* Packed repeated; nothing is written when count is 0. */
void sonde_pb_packed_uint(struct sonde_buf *b, uint32_t field, const uint64_t *v, size_t count);
void sonde_pb_packed_sint(struct sonde_buf *b, uint32_t field, const int64_t *v, size_t count);

/* One message of a delimited stream: its length, then itself. */
void sonde_pb_delimited(struct sonde_buf *b, const struct sonde_buf *message);

#endif
