/* strip.c - labels without paths and the like (base/strip.h). Two folders may have the same base
 * name, and their series must not become one: the second that is seen is shown as "name~2". */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/strip.h"
#include "model/private.h"

enum { STRIPPED_MAX = 4096 }; /* then they are all "other" */

struct sonde_model_stripped {
    char *full, *shown; /* in text */
    size_t len;         /* of shown, without what tells it from others */
    size_t same;        /* others of the same name that were alike before it */
    char text[];        /* name, full, shown */
};

/* value as it is without paths, into a new entry. */
static struct sonde_model_stripped *model_strip_make(const char *name, const char *value,
                                                     enum sonde_strip_kind kind)
{
    const size_t name_size = strlen(name) + 1, value_size = strlen(value) + 1;
    struct sonde_model_stripped *e =
        sonde__calloc(1, sizeof(*e) + name_size + 2 * value_size + 24);
    if (!e) return NULL;
    memcpy(e->text, name, name_size);
    e->full = e->text + name_size;
    memcpy(e->full, value, value_size);
    e->shown = e->full + value_size;
    memcpy(e->shown, value, value_size);
    if (kind == SONDE_STRIP_GONE) snprintf(e->shown, 24, "-");
    else sonde_strip_paths(e->shown);
    e->len = strlen(e->shown);
    return e;
}

static void tell_apart(const struct sonde_model_index *x, struct sonde_model_stripped *e)
{
    for (size_t i = 0; i < x->stripped_count; i++) {
        const struct sonde_model_stripped *other = x->stripped[i];
        e->same += other->len == e->len && strcmp(other->text, e->text) == 0 &&
                   strncmp(other->shown, e->shown, e->len) == 0;
    }
    if (e->same) snprintf(e->shown + e->len, 24, "~%zu", e->same + 1);
}

const char *sonde_model_strip(struct sonde_model *m, const char *name, const char *value)
{
    struct sonde_model_index *x = m->index;
    const enum sonde_strip_kind kind = sonde_strip_kind(name);
    if (!*value || kind == SONDE_STRIP_KEEP) return value;
    if (kind == SONDE_STRIP_PATHS && !strchr(value, '/')) return value;
    for (size_t i = 0; i < x->stripped_count; i++) {
        const struct sonde_model_stripped *e = x->stripped[i];
        if (strcmp(e->full, value) == 0 && strcmp(e->text, name) == 0) return e->shown;
    }
    if (x->stripped_count == STRIPPED_MAX) return "other";
    struct sonde_model_stripped *e = model_strip_make(name, value, kind);
    if (!e) return NULL;
    const int changed = strcmp(e->shown, value) != 0; /* "text/html" is not */
    if (!changed || SONDE_ARRAY_ROOM(x->stripped, x->stripped_count, x->stripped_cap)) {
        sonde__free(e);
        return changed ? NULL : value;
    }
    tell_apart(x, e);
    x->stripped[x->stripped_count++] = e;
    return e->shown;
}

void sonde_model_strip_free(struct sonde_model *m)
{
    for (size_t i = 0; i < m->index->stripped_count; i++) sonde__free(m->index->stripped[i]);
    sonde__free(m->index->stripped);
}
