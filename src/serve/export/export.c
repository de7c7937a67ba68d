/* export.c - the table of formats. */
#include "serve/export/export.h"

#include <string.h>

#define SONDE_EXPORT(id) extern const struct sonde_export_ops sonde_export_##id;
#include "serve/export/export_list.h"
#undef SONDE_EXPORT

const struct sonde_export_ops *const sonde_exports[] = {
#define SONDE_EXPORT(id) &sonde_export_##id,
#include "serve/export/export_list.h"
#undef SONDE_EXPORT
    NULL,
};

const struct sonde_export_ops *sonde_export_find(const char *name)
{
    for (size_t i = 0; sonde_exports[i]; i++) {
        if (strcmp(sonde_exports[i]->name, name) == 0) return sonde_exports[i];
    }
    return NULL;
}
