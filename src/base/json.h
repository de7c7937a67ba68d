/* json.h - JSON written straight into a buffer: keys and values put their own commas, by looking
 * at what stands before them. A key that is NULL is none: the value is an element of an array. */
#ifndef SONDE_BASE_JSON_H
#define SONDE_BASE_JSON_H

#include "base/buf.h"

void sonde_json_open(struct sonde_buf *out, char bracket);   /* '{' or '[' as an element */
void sonde_json_close(struct sonde_buf *out, char bracket);  /* '}' or ']' */
void sonde_json_key(struct sonde_buf *out, const char *key);
void sonde_json_key_open(struct sonde_buf *out, const char *key, char bracket);
void sonde_json_str(struct sonde_buf *out, const char *key, const char *value); /* NULL = null */
void sonde_json_num(struct sonde_buf *out, const char *key, double value);      /* NaN = null */
void sonde_json_u64(struct sonde_buf *out, const char *key, uint64_t value);
void sonde_json_u64_or_null(struct sonde_buf *out, const char *key, uint64_t value); /* 0 = null */
void sonde_json_bool(struct sonde_buf *out, const char *key, int value);
/* Unix time in seconds, to the millisecond; 0 = null. And nanoseconds as seconds, exactly. */
void sonde_json_time(struct sonde_buf *out, const char *key, double time_s);
void sonde_json_ns(struct sonde_buf *out, const char *key, uint64_t ns);
void sonde_json_id(struct sonde_buf *out, const char *key, const uint64_t *words, size_t count);

#endif
