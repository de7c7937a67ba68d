/* export.h - the model as text or bytes that other tools read. One format = one .c file in
 * export/ + one row in export_list.h. */
#ifndef SONDE_SERVE_EXPORT_EXPORT_H
#define SONDE_SERVE_EXPORT_EXPORT_H

#include "base/buf.h"
#include "model/model.h"

struct sonde_export_ops {
    const char *name;          /* --format NAME */
    const char *summary;       /* one line for help */
    const char *content_type;  /* as HTTP says it */
    /* Append all series that f lets through (NULL = all). Asserts the read lock. */
    void (*render)(const struct sonde_model *m, const struct sonde_filter *f,
                   struct sonde_buf *out);
};

/* NULL-terminated. */
extern const struct sonde_export_ops *const sonde_exports[];
const struct sonde_export_ops *sonde_export_find(const char *name);

#endif
