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
    return -1;
}
