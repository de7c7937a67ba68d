/* buf.h - a growing byte buffer with a stated cap.
 * Adding after a failure does nothing, so a writer checks b->error once, at the end. */
#ifndef SONDE_BASE_BUF_H
#define SONDE_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct sonde_buf {
    char *data;   /* owned; NUL-terminated after any add, the NUL is not counted */
    size_t len;
    size_t cap;
    size_t max;   /* len never passes this */
    int error;    /* 0, SONDE_ENOMEM or SONDE_EFULL */
};

void sonde_buf_init(struct sonde_buf *b, size_t max);
void sonde_buf_release(struct sonde_buf *b);
void sonde_buf_reset(struct sonde_buf *b);                /* empty, keep the memory */
char *sonde_buf_take(struct sonde_buf *b);                /* caller frees; b is empty again. NULL
                                                           * after a failure, which it clears */

/* Room for n more bytes at data + len (the caller then raises len), or NULL. */
char *sonde_buf_reserve(struct sonde_buf *b, size_t n);

void sonde_buf_add(struct sonde_buf *b, const void *data, size_t len);
void sonde_buf_puts(struct sonde_buf *b, const char *s);
void sonde_buf_putc(struct sonde_buf *b, char c);
void sonde_buf_printf(struct sonde_buf *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sonde_buf_u64(struct sonde_buf *b, uint64_t v);
/* Shortest text that reads back as the same double; NaN, +Inf, -Inf as Prometheus writes them. */
void sonde_buf_double(struct sonde_buf *b, double v);
/* As part of a query: everything but letters, digits and -_.!~*'() as %XX, as encodeURIComponent
 * does it. */
void sonde_buf_url(struct sonde_buf *b, const char *s);
/* A JSON string with its quotes; invalid UTF-8 and NUL become U+FFFD. */
void sonde_buf_json_str(struct sonde_buf *b, const char *s, size_t len);
/* A JSON number; NaN and infinities become null. */
void sonde_buf_json_double(struct sonde_buf *b, double v);

#endif
