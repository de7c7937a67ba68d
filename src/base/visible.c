/* visible.c - see visible.h. */
#include "base/visible.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/utf8.h"

static int is_control(const char *s, size_t len)
{
    const unsigned char c = (unsigned char)s[0];
    if (c == '\n') return 0;
    if (c < 0x20 || c == 0x7f) return 1;
    return c == 0xc2 && len > 1 && ((unsigned char)s[1] & 0xe0) == 0x80 ? 2 : 0;
}

size_t sonde_visible(char *s, size_t len)
{
    size_t from = 0, to = 0;
    for (int bytes; from < len; from += bytes ? (size_t)bytes : 1) {
        bytes = is_control(s + from, len - from);
        s[to++] = bytes ? '?' : s[from];
    }
    return to;
}

static void visible_write_all(int fd, const char *s, size_t len)
{
    while (len) {
        const ssize_t n = write(fd, s, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return; /* nobody could be told */
        s += n;
        len -= (size_t)n;
    }
}

static void __attribute__((format(printf, 2, 0)))
visible_vprintf(int fd, const char *format, va_list ap)
{
    char small[2048], *text = small;
    const int saved = errno;
    va_list again;
    va_copy(again, ap);
    const int n = vsnprintf(small, sizeof(small), format, ap);
    size_t len = n > 0 ? (size_t)n : 0;
    if (len >= sizeof(small)) {
        text = sonde__alloc(len + 1);
        if (text) vsnprintf(text, len + 1, format, again);
        else text = small, len = sizeof(small) - 1;
    }
    va_end(again);
    /* A byte that is not UTF-8 becomes three. */
    char *out = sonde__alloc(3 * len + 1);
    int changed = 0;
    if (out) {
        const size_t valid = sonde__utf8_copy(out, 3 * len, text, len, &changed);
        visible_write_all(fd, out, sonde_visible(out, valid));
    } else {
        visible_write_all(fd, text, sonde_visible(text, len));
    }
    sonde__free(out);
    if (text != small) sonde__free(text);
    errno = saved;
}

void sonde_visible_printf(int fd, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    visible_vprintf(fd, format, ap);
    va_end(ap);
}
