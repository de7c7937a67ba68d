#include "collect/aspace/aspace.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/path.h"
#include "base/proc_maps.h"
#include "collect/aspace/private.h"
#include "profile/profile.h"
#include "sonde/sonde.h"

#define MAPS_MAX 65536u /* vm.max_map_count is 65530 where nobody changed it */
#define TABLE_BYTES_DEFAULT ((size_t)64 << 20)

/* ---- What all processes share ------------------------------------------------------------- */

int sonde_modules_create(size_t table_bytes_max, struct sonde_modules **out)
{
    assert(out);
    struct sonde_modules *m = sonde__calloc(1, sizeof(*m));
    if (!m) return SONDE_ENOMEM;
    m->table_bytes_max = table_bytes_max ? table_bytes_max : TABLE_BYTES_DEFAULT;
    *out = m;
    return 0;
}

void sonde_modules_stats(const struct sonde_modules *m, struct sonde_modules_stats *out)
{
    *out = m->stats;
    out->table_bytes = m->table_bytes;
    out->modules = out->tables = 0;
    for (const struct sonde_aspace_module *i = m->list; i; i = i->next) {
        out->modules++;
        out->tables += i->rows != NULL;
    }
}

/* ---- Mappings ----------------------------------------------------------------------------- */

static void release_mapping(struct sonde_modules *all, struct sonde_aspace_mapping *m)
{
    if (--m->refs) return;
    if (m->module) sonde_aspace_module_release(all, m->module);
    sonde__free(m);
}

static struct sonde_aspace_mapping *new_mapping(struct sonde_modules *all, const char *path,
                                                size_t len)
{
    struct sonde_aspace_mapping *m = sonde__calloc(1, sizeof(*m) + len + 1);
    if (!m) return NULL;
    m->refs = 1;
    m->id = ++all->mapping_id;
    memcpy(m->text, path, len);
    m->map.path = m->text;
    return m;
}

/* A part of m. */
static struct sonde_aspace_mapping *cut_mapping(struct sonde_modules *all,
                                                const struct sonde_aspace_mapping *m,
                                                uint64_t start, uint64_t end)
{
    struct sonde_aspace_mapping *part = new_mapping(all, m->text, strlen(m->text));
    if (!part) return NULL;
    const uint64_t id = part->id;
    memcpy(part, m, sizeof(*m));
    part->refs = 1;
    part->id = id;
    part->map.path = part->text;
    part->map.start = start;
    part->map.end = end;
    part->map.offset += start - m->map.start;
    if (part->module) part->module->refs++;
    return part;
}

static struct sonde_aspace_mapping *make_mapping(struct sonde_modules *all,
                                                 const struct sonde_mapping *from)
{
    static const char deleted[] = " (deleted)";
    const char *path = from->path;
    size_t len = strlen(path);
    uint32_t flags = 0;
    if (sonde_has_suffix_len(path, len, deleted)) {
        len -= sizeof(deleted) - 1;
        flags = SONDE_MODULE_DELETED;
    }
    if (!strcmp(path, "[vdso]")) {
        flags = SONDE_MODULE_VDSO;
    } else if (path[0] != '/' || path[1] == '/') { /* perf's name for it is //anon */
        flags = SONDE_MODULE_JIT;
        if (path[0] != '[') path = "[anon]", len = strlen(path);
    }
    struct sonde_aspace_mapping *m = new_mapping(all, path, len);
    if (!m) return NULL;
    m->map = *from;
    m->map.path = m->text;
    /* The kernel counts pages of memory without a file by address. */
    if (flags & (SONDE_MODULE_VDSO | SONDE_MODULE_JIT)) m->map.offset = 0;
    m->flags = flags;
    if (flags & SONDE_MODULE_JIT) m->state = MAPPING_NONE;
    return m;
}

/* Index of the first mapping that ends above addr. */
static uint32_t aspace_lower_bound(const struct sonde_aspace *as, uint64_t addr)
{
    uint32_t low = 0, high = as->map_count;
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (as->maps[mid]->map.end <= addr) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

struct sonde_aspace_mapping *sonde_aspace_find(const struct sonde_aspace *as, uint64_t addr)
{
    const uint32_t i = aspace_lower_bound(as, addr);
    return i < as->map_count && as->maps[i]->map.start <= addr ? as->maps[i] : NULL;
}

int sonde_aspace_map(struct sonde_aspace *as, const struct sonde_mapping *map)
{
    assert(as && map && map->path);
    struct sonde_modules *all = as->modules;
    struct sonde_aspace_mapping *put[3]; /* what is left before it, itself, what is left behind */
    uint32_t n = 0;
    const uint64_t start = map->start, end = map->end;
    if (end <= start) return SONDE_EINVAL;

    const uint32_t from = aspace_lower_bound(as, start);
    uint32_t to = from;
    while (to < as->map_count && as->maps[to]->map.start < end) to++;
    if (from == to && !map->executable) return 0;
    int rc = SONDE_ARRAY_RESERVE_MAX(as->maps, as->map_cap, as->map_count + 2, MAPS_MAX);
    if (rc) return rc;

    rc = SONDE_ENOMEM;
    if (from < to && as->maps[from]->map.start < start) {
        put[n] = cut_mapping(all, as->maps[from], as->maps[from]->map.start, start);
        if (!put[n++]) goto fail;
    }
    if (map->executable) {
        put[n] = make_mapping(all, map);
        if (!put[n++]) goto fail;
    }
    if (from < to && as->maps[to - 1]->map.end > end) {
        put[n] = cut_mapping(all, as->maps[to - 1], end, as->maps[to - 1]->map.end);
        if (!put[n++]) goto fail;
    }
    for (uint32_t i = from; i < to; i++) release_mapping(all, as->maps[i]);
    memmove(as->maps + from + n, as->maps + to, (as->map_count - to) * sizeof(as->maps[0]));
    memcpy(as->maps + from, put, n * sizeof(put[0]));
    as->map_count = as->map_count - (to - from) + n;
    assert(as->map_count <= as->map_cap);
    assert(!from || as->maps[from - 1]->map.end <= start); /* in order, and none over another */
    assert(from + n == as->map_count || as->maps[from + n]->map.start >= end);
    as->layout = ++all->layout;
    return 0;

fail:
    for (uint32_t i = 0; i + 1 < n; i++) release_mapping(all, put[i]);
    return rc;
}

/* ---- Processes ---------------------------------------------------------------------------- */

int sonde_aspace_create(struct sonde_modules *m, uint32_t pid, struct sonde_aspace **out)
{
    assert(m && out);
    struct sonde_aspace *as = sonde__calloc(1, sizeof(*as));
    if (!as) return SONDE_ENOMEM;
    as->modules = m;
    as->pid = pid;
    as->layout = ++m->layout;
    *out = as;
    return 0;
}

void sonde_aspace_exec(struct sonde_aspace *as)
{
    for (uint32_t i = 0; i < as->map_count; i++) release_mapping(as->modules, as->maps[i]);
    as->map_count = 0;
    as->layout = ++as->modules->layout;
}

void sonde_aspace_destroy(struct sonde_aspace *as)
{
    if (!as) return;
    sonde_aspace_exec(as);
    sonde__free(as->maps);
    sonde__free(as);
}

static int scan_line(void *arg, const struct sonde_mapping *map)
{
    return map->executable ? sonde_aspace_map(arg, map) : 0;
}

int sonde_aspace_scan(struct sonde_aspace *as)
{
    sonde_aspace_exec(as);
    return sonde_proc_maps(as->pid, scan_line, as);
}

int sonde_aspace_fork(const struct sonde_aspace *parent, uint32_t pid, struct sonde_aspace **out)
{
    assert(parent && out);
    struct sonde_aspace *as;
    int rc = sonde_aspace_create(parent->modules, pid, &as);
    if (rc) return rc;
    rc = SONDE_ARRAY_RESERVE_MAX(as->maps, as->map_cap, parent->map_count, MAPS_MAX);
    if (rc) {
        sonde_aspace_destroy(as);
        return rc;
    }
    for (uint32_t i = 0; i < parent->map_count; i++) {
        as->maps[i] = parent->maps[i];
        as->maps[i]->refs++;
    }
    as->map_count = parent->map_count;
    as->layout = parent->layout;
    *out = as;
    return 0;
}

/* ---- Modules of addresses ----------------------------------------------------------------- */

uint64_t sonde_aspace_mapping(const struct sonde_aspace *as, uint64_t addr)
{
    const struct sonde_aspace_mapping *m = sonde_aspace_find(as, addr);
    return m ? m->id : 0;
}

uint64_t sonde_aspace_probes(const struct sonde_aspace *as, uint64_t addr)
{
    const struct sonde_aspace_mapping *m = sonde_aspace_find(as, addr);
    return m && !strcmp(m->text, "[uprobes]") ? m->map.start : 0;
}

int sonde_aspace_module(struct sonde_aspace *as, uint64_t addr, struct sonde_aspace_texts *texts,
                        struct sonde_module *out)
{
    assert(as && texts && out);
    static const char digits[] = "0123456789abcdef";
    struct sonde_aspace_mapping *m = sonde_aspace_find(as, addr);
    if (!m) return SONDE_ENOENT;
    if (m->state == MAPPING_NEW) sonde_aspace_mapping_open(as->modules, m, as->pid);
    size_t n = 0;
    for (uint32_t i = 0; m->module && i < m->module->elf.build_id_len; i++) {
        texts->build_id[n++] = digits[m->module->elf.build_id[i] >> 4];
        texts->build_id[n++] = digits[m->module->elf.build_id[i] & 15];
    }
    texts->build_id[n] = 0;
    sonde_module_open_path(m, as->pid, texts->open_path, sizeof(texts->open_path));
    *out = (struct sonde_module){
        .path = m->text, .build_id = texts->build_id, .open_path = texts->open_path,
        .start = m->map.start, .end = m->map.end, .offset = m->map.offset, .flags = m->flags,
        .pid = as->pid,
    };
    return 0;
}
