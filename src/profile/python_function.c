#include "profile/python_function.h"

#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "profile/module.h"

#define NAME_BYTES 8192u

static int python_ends(const char *s, size_t len, const char *with)
{
    const size_t n = strlen(with);
    return len > n && !memcmp(s + len - n, with, n);
}

/* The module's name in its file's: where it begins, and its length. */
static const char *python_module_of(const char *file, size_t *len)
{
    static const char frozen[] = "<frozen ";
    const char *base = sonde_path_base(file);
    *len = strlen(base);
    if (!strncmp(base, frozen, sizeof(frozen) - 1) && base[*len - 1] == '>') {
        base += sizeof(frozen) - 1;
        *len = strlen(base) - 1;
    } else if (python_ends(base, *len, ".py")) {
        *len -= 3;
    } else if (python_ends(base, *len, ".pyc")) {
        *len -= 4;
    }
    if (*len != 8 || memcmp(base, "__init__", 8) != 0 || base < file + 2) return base;
    const char *end = base - 1; /* at the slash behind its folder */
    const char *begin = end;
    while (begin > file && begin[-1] != '/') begin--;
    if (begin == end) return base;
    *len = (size_t)(end - begin);
    return begin;
}

static uint32_t python_name(struct sonde_profile *p, const char *name, const char *file)
{
    char text[NAME_BYTES];
    size_t len;
    const char *module = python_module_of(file, &len);
    if (!name[0]) return sonde_profile_cstring(p, SONDE_PYTHON_UNNAMED);
    if (!len) return sonde_profile_cstring(p, name);
    snprintf(text, sizeof(text), "%.*s.%s", (int)(len < NAME_BYTES / 2 ? len : NAME_BYTES / 2),
             module, name);
    return sonde_profile_cstring(p, text);
}

uint32_t sonde_profile_python(struct sonde_profile *p, const char *name, const char *file,
                              uint32_t first_line, uint32_t line)
{
    const struct sonde_module module = { .path = SONDE_PYTHON_MODULE, .build_id = "",
                                         .open_path = "", .flags = SONDE_MODULE_PYTHON };
    const uint32_t row = sonde_profile_add_module(p, &module);
    const struct sonde_profile_function function = {
        .name = python_name(p, name, file),
        .file = sonde_profile_cstring(p, file),
        .start_line = first_line,
        .module = row,
    };
    if (!row || !function.name) return 0;
    const struct sonde_profile_line at = { sonde_profile_function(p, &function), line };
    return at.function ? sonde_profile_lines_location(p, row, 0, &at, 1) : 0;
}
