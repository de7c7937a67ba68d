/* import.c - see import.h. */
#include "profile/formats/import.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/intern.h"
#include "base/path.h"
#include "sonde/sonde.h"

int sonde_import_no_room(const struct sonde_profile *p, struct sonde_err *err)
{
    return sonde_err_set(err, SONDE_ENOMEM, "the profile needs more than its %zu MB of memory",
                         p->bytes_max >> 20);
}

int sonde_import_json_error(const struct sonde_json_reader *r, struct sonde_err *err)
{
    if (!r->error) return 0;
    return sonde_err_set(err, SONDE_EFORMAT, "line %zu: %s", sonde_json_line(r), r->error);
}

int sonde_import_json_has(const char *data, size_t len, const char *const *words)
{
    enum { HEAD = 1 << 16 };
    size_t i = 0;
    while (i < len && isspace((unsigned char)data[i])) i++;
    if (i == len || (data[i] != '{' && data[i] != '[')) return 0;
    if (len > HEAD) len = HEAD;
    for (; *words; words++) {
        if (!memmem(data, len, *words, strlen(*words))) return 0;
    }
    return 1;
}

uint32_t sonde_import_frame(struct sonde_profile *p, struct sonde_json_text name,
                            struct sonde_json_text file, uint32_t line)
{
    if (!name.len || !*name.s) name = (struct sonde_json_text){ "(anonymous)", 11 };
    if (!file.len) return sonde_profile_named_location(p, name.s, name.len);
    const struct sonde_profile_function f = { .name = sonde_profile_string(p, name.s, name.len),
                                              .file = sonde_profile_string(p, file.s, file.len),
                                              .start_line = line };
    const struct sonde_profile_line at = { .function = sonde_profile_function(p, &f),
                                           .line = line };
    return f.name && at.function ? sonde_profile_lines_location(p, 0, 0, &at, 1) : 0;
}

int sonde_import_frame_read(struct sonde_json_reader *r, const struct sonde_import_frame_keys *keys,
                            struct sonde_buf *name, struct sonde_buf *file,
                            struct sonde_import_frame_text *out)
{
    assert(name != file); /* out points into both */
    struct sonde_json_text key;
    *out = (struct sonde_import_frame_text){ { "", 0 }, { "", 0 }, -1 };
    if (!sonde_json_enter(r, '{')) return 0;
    while (sonde_json_member(r, &key)) {
        const char comes = sonde_json_peek(r);
        if (comes == '"' && sonde_json_text_is(key, keys->name)) {
            sonde_json_string(r, name, &out->name);
        } else if (comes == '"' && sonde_json_text_is(key, keys->file)) {
            sonde_json_string(r, file, &out->file);
        } else if (comes == '0' && sonde_json_text_is(key, keys->line)) {
            sonde_json_number(r, &out->line);
        } else {
            sonde_json_skip(r);
        }
    }
    return !r->error;
}

int sonde_import_grow(const struct sonde_profile *p, size_t *bytes, void **table, uint32_t count,
                      uint32_t *cap, size_t size, struct sonde_err *err)
{
    assert(count <= *cap && size);
    const struct sonde_budget b = { .used = bytes, .max = p->bytes_max };
    void *grown = sonde_table_grow(*table, count, cap, size, &b);
    if (!grown) return sonde_import_no_room(p, err);
    *table = grown;
    return 0;
}

double sonde_import_unit_ns(struct sonde_json_text unit)
{
    static const struct { const char *name; double ns; } units[] = {
        { "nanoseconds", 1 }, { "microseconds", 1e3 }, { "milliseconds", 1e6 }, { "seconds", 1e9 },
    };
    for (size_t i = 0; i < SONDE_COUNT(units); i++) {
        if (sonde_json_text_is(unit, units[i].name)) return units[i].ns;
    }
    return 0;
}

int sonde_import_sample(struct sonde_profile *p, const struct sonde_profile_sample *s,
                        struct sonde_err *err)
{
    if (!s->weight) return 0;
    if (!s->stack) return sonde_import_no_room(p, err);
    const int rc = sonde_profile_add_sample(p, s);
    if (rc == SONDE_EFORMAT) return sonde_err_set(err, rc, "its weights add up to more than 2^64");
    return rc ? sonde_import_no_room(p, err) : 0;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static int import_by_start(const void *a, const void *b)
{
    const struct sonde_import_map *x = a, *y = b;
    return SONDE_CMP(x->start, y->start);
}

/* "start-end perms offset dev inode path"; gperftools may leave out dev and inode. */
static int read_map(struct sonde_import_maps *m, const char *line, struct sonde_profile *p)
{
    unsigned long long start, end, offset = 0;
    char perms[8], path[4096] = "";
    int at = 0;
    if (sscanf(line, " %llx-%llx %7s %llx %*s %*s %4095[^\n]", &start, &end, perms, &offset,
               path) < 4 || start >= end || !strchr(perms, 'x')) {
        return 0;
    }
    for (size_t n = strlen(path); n && isspace((unsigned char)path[n - 1]);) path[--n] = '\0';
    static const char deleted[] = " (deleted)";
    const size_t len = strlen(path), mark = sizeof(deleted) - 1;
    if (len > mark && !strcmp(path + len - mark, deleted)) path[len - mark] = '\0', at = 1;
    if (!path[0]) return 0;
    const struct sonde_profile_module module = {
        .path = sonde_profile_cstring(p, path),
        .start = start, .end = end, .offset = offset,
        .flags = (at ? SONDE_MODULE_DELETED : 0) | (strcmp(path, "[vdso]") ? 0 : SONDE_MODULE_VDSO),
    };
    const struct sonde_budget b = { .used = &m->bytes, .max = p->bytes_max };
    struct sonde_import_map *rows = sonde_table_grow(m->rows, m->count, &m->cap, sizeof(*rows), &b);
    const uint32_t id = rows && module.path ? sonde_profile_module(p, &module) : 0;
    if (rows) m->rows = rows;
    if (!id) return SONDE_ENOMEM;
    m->rows[m->count++] = (struct sonde_import_map){ start, end, id };
    if (!p->program && path[0] == '/') p->program = sonde_profile_cstring(p, sonde_path_base(path));
    return 0;
}

int sonde_import_maps_read(struct sonde_import_maps *m, const char *data, size_t len,
                           struct sonde_profile *p)
{
    char line[8192];
    for (const char *at = data, *end = data + len; at < end;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t n = (size_t)((newline ? newline : end) - at);
        if (n < sizeof(line)) {
            memcpy(line, at, n);
            line[n] = '\0';
            if (read_map(m, line, p)) return SONDE_ENOMEM;
        }
        at = newline ? newline + 1 : end;
    }
    if (m->count) qsort(m->rows, m->count, sizeof(*m->rows), import_by_start);
    return 0;
}

void sonde_import_maps_release(struct sonde_import_maps *m) { sonde__free(m->rows); }

uint32_t sonde_import_maps_find(const struct sonde_import_maps *m, uint64_t address)
{
    uint32_t low = 0, high = m->count;
    assert(!high || m->rows[0].start <= m->rows[high - 1].start);
    while (low < high) { /* the last that starts at or before it */
        const uint32_t mid = low + (high - low) / 2;
        if (m->rows[mid].start <= address) low = mid + 1;
        else high = mid;
    }
    return low && address < m->rows[low - 1].end ? m->rows[low - 1].module : 0;
}
