/* trace_id.h - the 128 bits by which what belongs together is found again: a trace id, 32
 * hexadecimal digits, or the same as a UUID, 8-4-4-4-12. */
#ifndef SONDE_BASE_TRACE_ID_H
#define SONDE_BASE_TRACE_ID_H

#include <stdint.h>

/* 1 if all of text is one, in either case of letters, and not all zero. */
int sonde_trace_id_parse(const char *text, uint64_t *hi, uint64_t *lo);

#endif
