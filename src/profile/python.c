#include "profile/python.h"

#include "profile/module.h"

uint32_t sonde_profile_python(struct sonde_profile *p, const char *name, const char *file,
                              uint32_t first_line, uint32_t line)
{
    const struct sonde_module module = { .path = SONDE_PYTHON_MODULE, .build_id = "",
                                         .open_path = "", .flags = SONDE_MODULE_PYTHON };
    const uint32_t row = sonde_profile_add_module(p, &module);
    const struct sonde_profile_function function = {
        .name = sonde_profile_cstring(p, name[0] ? name : SONDE_PYTHON_UNNAMED),
        .file = sonde_profile_cstring(p, file),
        .start_line = first_line,
        .module = row,
    };
    if (!row || !function.name) return 0;
    const struct sonde_profile_line at = { sonde_profile_function(p, &function), line };
    return at.function ? sonde_profile_lines_location(p, row, 0, &at, 1) : 0;
}
