#include "profile/module.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

uint32_t sonde_profile_add_module(struct sonde_profile *p, const struct sonde_module *m)
{
    assert(m->path && m->build_id && m->open_path);
    const struct sonde_profile_module row = {
        .path = sonde_profile_cstring(p, m->path),
        .build_id = sonde_profile_cstring(p, m->build_id),
        .start = m->start,
        .end = m->end,
        .offset = m->offset,
        .flags = m->flags,
        .open_path = sonde_profile_cstring(p, m->open_path),
    };
    return sonde_profile_module(p, &row);
}

struct sonde_module sonde_profile_get_module(const struct sonde_profile *p, uint32_t row)
{
    assert(row < p->modules_count);
    const struct sonde_profile_module *m = &p->modules[row];
    return (struct sonde_module){
        .path = sonde_profile_str(p, m->path),
        .build_id = sonde_profile_str(p, m->build_id),
        .open_path = sonde_profile_str(p, m->open_path),
        .start = m->start,
        .end = m->end,
        .offset = m->offset,
        .flags = m->flags,
    };
}

int sonde_module_copy(const struct sonde_module *from, struct sonde_module *out)
{
    const size_t path = strlen(from->path) + 1, id = strlen(from->build_id) + 1;
    const size_t open = strlen(from->open_path) + 1;
    char *text = sonde__alloc(path + id + open);
    if (!text) return SONDE_ENOMEM;
    memcpy(text, from->path, path);
    memcpy(text + path, from->build_id, id);
    memcpy(text + path + id, from->open_path, open);
    *out = *from;
    out->path = text;
    out->build_id = text + path;
    out->open_path = text + path + id;
    return 0;
}

void sonde_module_release(struct sonde_module *m)
{
    sonde__free((void *)(uintptr_t)m->path); /* the block of all three */
    *m = (struct sonde_module){ 0 };
}
