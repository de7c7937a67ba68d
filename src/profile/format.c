#include "profile/format.h"

#include <string.h>

#define SONDE_FORMAT(id) extern const struct sonde_format_ops sonde_format_##id;
#include "profile/format_list.h"
#undef SONDE_FORMAT

const struct sonde_format_ops *const sonde_formats[] = {
#define SONDE_FORMAT(id) &sonde_format_##id,
#include "profile/format_list.h"
#undef SONDE_FORMAT
    NULL
};

const struct sonde_format_ops *sonde_format_find(const char *name)
{
    for (size_t i = 0; sonde_formats[i]; i++) {
        if (!strcmp(sonde_formats[i]->name, name)) return sonde_formats[i];
    }
    return NULL;
}

const struct sonde_format_ops *sonde_format_guess(const char *data, size_t len)
{
    for (size_t i = 0; sonde_formats[i]; i++) {
        if (sonde_formats[i]->probe && sonde_formats[i]->probe(data, len)) return sonde_formats[i];
    }
    return NULL;
}
