#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>

int fail_set(struct fail *why, const char *format, ...)
{
    if (!why) return -1;
    va_list args;
    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    /* What it names may come from a file of anybody's, and goes to a terminal or a log. */
    for (char *at = why->text; *at; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f) *at = '?';
    }
    return -1;
}
