/* option.c - see option.h. A value that is not understood as a whole is refused, never cut short:
 * "--threads 2x" is not 2. */
#include "cmd/option.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/command.h"

static int option_number(const char *command, const struct option_row *row, const char *value)
{
    char *end;
    errno = 0;
    const double x = strtod(value, &end);
    const int whole = row->kind == OPTION_FLOAT ||
                      (isdigit((unsigned char)*value) && x == floor(x));
    if (end == value || *end || errno || !whole || !(x >= row->min && x <= row->max)) {
        return command_bad(command, "%s is '%s', but has to be %s from %.10g to %.10g", row->name,
                           value, row->kind == OPTION_FLOAT ? "a number" : "a whole number",
                           row->min, row->max);
    }
    if (row->kind == OPTION_FLOAT) *(float *)row->to = (float)x;
    else *(uint32_t *)row->to = (uint32_t)x;
    return 0;
}

static int option_u64(const char *command, const struct option_row *row, const char *value)
{
    char *end;
    errno = 0;
    const unsigned long long x = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end || errno) {
        return command_bad(command, "%s is '%s', but has to be a whole number from 0 to 2^64 - 1",
                           row->name, value);
    }
    *(uint64_t *)row->to = x;
    return 0;
}

/* "512MB": as sonde_inference_env() has them, powers of 1024. 0 = it is not one. */
static uint64_t option_bytes_parse(const char *text)
{
    static const char units[] = "KMGT";
    char *end;
    if (*text < '0' || *text > '9') return 0;
    const unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (unit) end++;
    if (unit && *end == 'i') end++;
    if (*end == 'B') end++;
    return *end || n > UINT64_MAX >> shift ? 0 : (uint64_t)n << shift;
}

static int option_bytes(const char *command, const struct option_row *row, const char *value)
{
    const uint64_t bytes = option_bytes_parse(value);
    if (!bytes) {
        return command_bad(command, "%s is '%s', but has to be a whole number of bytes, or one "
                           "with KB, MB, GB or TB, and more than 0", row->name, value);
    }
    *(uint64_t *)row->to = bytes;
    return 0;
}

static int option_list(const char *command, const struct option_row *row, const char *value)
{
    struct option_list *list = row->to;
    if (list->count == OPTION_LIST_MAX) {
        return command_bad(command, "%s is there more than %d times", row->name, OPTION_LIST_MAX);
    }
    list->items[list->count++] = value;
    return 0;
}

static int option_set(const char *command, const struct option_row *row, const char *value)
{
    if (row->given) *row->given = 1;
    switch (row->kind) {
    case OPTION_FLAG: *(int *)row->to = 1; return 0;
    case OPTION_TEXT: *(const char **)row->to = value; return 0;
    case OPTION_U64: return option_u64(command, row, value);
    case OPTION_BYTES: return option_bytes(command, row, value);
    case OPTION_LIST: return option_list(command, row, value);
    case OPTION_U32:
    case OPTION_FLOAT: break;
    }
    return option_number(command, row, value);
}

int option_read(int argc, char **argv, const struct option_row *rows, size_t count)
{
    for (int i = 1; i < argc; i++) {
        size_t n = 0;
        while (n < count && strcmp(argv[i], rows[n].name) &&
               (!rows[n].other || strcmp(argv[i], rows[n].other))) n++;
        if (n == count) return command_bad(argv[0], "there is no option '%s'", argv[i]);
        const int flag = rows[n].kind == OPTION_FLAG;
        if (!flag && i + 1 == argc) return command_bad(argv[0], "%s needs a value", argv[i]);
        const int bad = option_set(argv[0], &rows[n], flag ? NULL : argv[++i]);
        if (bad) return bad;
    }
    return 0;
}
