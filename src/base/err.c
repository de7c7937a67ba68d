#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "base/visible.h"
#include "sonde/sonde.h"

int sonde_err_set(struct sonde_err *e, int code, const char *format, ...)
{
    if (!e) return code;

    /* A temporary, since an argument may be e->text itself: "FILE: <the inner sentence>". */
    char text[sizeof(e->text)];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n < 0) memcpy(text, "error", sizeof("error"));

    /* Sentences quote bytes from files and other processes, and the cut at the end may split a
     * character: what is shown must be UTF-8 and not move a terminal's cursor all the same. */
    text[sonde_visible(text, strlen(text))] = '\0';
    const int cut = n >= (int)sizeof(text);
    const size_t room = sizeof(e->text) - (cut ? sizeof("...") : 1);
    int changed = 0;
    const size_t len = sonde__utf8_copy(e->text, room, text, strlen(text), &changed);
    memcpy(e->text + len, cut ? "..." : "", cut ? 4 : 1);
    return code;
}

int sonde_err_memory(struct sonde_err *e)
{
    return sonde_err_set(e, SONDE_ENOMEM, "out of memory");
}
