/* pb_read.h - read protobuf by hand: one field after the other out of bytes that may be anything.
 *
 *   struct sonde_pb_reader r = sonde_pb_reader(data, len);
 *   struct sonde_pb_field f;
 *   int more;
 *   while ((more = sonde_pb_next(&r, &f)) > 0) { … f.number … }
 *   if (more < 0) damaged
 *
 * A reader never looks outside what it was given; nested messages and packed numbers are read by
 * another reader over f.data. Nothing is copied or allocated. */
#ifndef SONDE_BASE_PB_READ_H
#define SONDE_BASE_PB_READ_H

#include <stddef.h>
#include <stdint.h>

struct sonde_pb_reader {
    const unsigned char *at, *end;
};

enum sonde_pb_wire { SONDE_PB_VARINT = 0, SONDE_PB_FIXED64 = 1, SONDE_PB_BYTES = 2,
                     SONDE_PB_FIXED32 = 5 };

struct sonde_pb_field {
    uint32_t number;            /* 1 … 2^29 - 1 */
    uint32_t wire;              /* enum sonde_pb_wire */
    uint64_t value;             /* of VARINT and FIXED… */
    const unsigned char *data;  /* of BYTES; else NULL */
    size_t len;
};

static inline struct sonde_pb_reader sonde_pb_reader(const void *data, size_t len)
{
    const unsigned char *d = data;
    return (struct sonde_pb_reader){ .at = d, .end = d ? d + len : d };
}

/* 1: *f is the next field. 0: the end. -1: damaged (cut short, groups, a number that is none). */
int sonde_pb_next(struct sonde_pb_reader *r, struct sonde_pb_field *f);

/* The next number of a packed field: 1, 0 at the end, -1 damaged. */
int sonde_pb_next_varint(struct sonde_pb_reader *r, uint64_t *v);

#endif
