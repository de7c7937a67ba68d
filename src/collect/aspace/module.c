/* module.c - modules and their tables, each once for all processes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cmp.h"
#include "collect/aspace/private.h"
#include "profile/profile.h"
#include "unwind/eh_frame.h"

#define ROWS_MAX ((size_t)16 << 20) /* 256 MiB; the largest programs have a quarter of it */
#define IDLE_MAX 256u /* modules that no process has mapped: for programs started again and again */

static size_t table_bytes(const struct sonde_aspace_module *m)
{
    return m->row_count * sizeof(m->rows[0]) + m->function_count * sizeof(m->functions[0]);
}

static void drop_table(struct sonde_modules *all, struct sonde_aspace_module *m)
{
    if (!m->rows) return;
    sonde__free(m->rows);
    sonde__free(m->functions);
    all->table_bytes -= table_bytes(m);
    m->rows = NULL;
    m->functions = NULL;
    m->row_count = m->function_count = 0;
}

static void destroy_module(struct sonde_modules *all, struct sonde_aspace_module *m)
{
    struct sonde_aspace_module **link = &all->list;
    while (*link != m) link = &(*link)->next;
    *link = m->next;
    drop_table(all, m);
    sonde__free(m);
}

void sonde_modules_destroy(struct sonde_modules *m)
{
    if (!m) return;
    while (m->list) destroy_module(m, m->list);
    sonde__free(m);
}

void sonde_aspace_module_release(struct sonde_modules *all, struct sonde_aspace_module *m)
{
    assert(m->refs > 0);
    if (--m->refs) return;
    if (m->in_memory) {
        destroy_module(all, m); /* nothing could find it again for sure */
        return;
    }
    struct sonde_aspace_module *oldest = NULL;
    uint32_t idle = 0;
    for (struct sonde_aspace_module *i = all->list; i; i = i->next) {
        if (i->refs) continue;
        idle++;
        if (!oldest || i->used < oldest->used) oldest = i;
    }
    if (idle > IDLE_MAX) destroy_module(all, oldest);
}

/* ---- Opening ------------------------------------------------------------------------------ */

static int same_module(const struct sonde_aspace_module *a, const struct sonde_aspace_module *b)
{
    return !a->in_memory && !b->in_memory && a->dev == b->dev && a->inode == b->inode &&
           a->size == b->size && a->changed_ns == b->changed_ns &&
           a->elf.build_id_len == b->elf.build_id_len &&
           !memcmp(a->elf.build_id, b->elf.build_id, a->elf.build_id_len);
}

/* The module of bytes, as it is or a new one; NULL: no ELF file, or no memory. */
static struct sonde_aspace_module *find_module(struct sonde_modules *all,
                                               struct sonde_module_bytes *bytes)
{
    struct sonde_aspace_module key = { .in_memory = bytes->memory, .used = ++all->tick };
    const struct sonde__elf_reader r = { sonde_module_bytes_read, bytes, bytes->memory };
    struct stat st;
    if (sonde__elf_find(&r, &key.elf)) return NULL;
    if (!bytes->memory) {
        if (fstat(bytes->fd, &st)) return NULL;
        key.dev = st.st_dev;
        key.inode = st.st_ino;
        key.size = (uint64_t)st.st_size;
        key.changed_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
    }
    for (struct sonde_aspace_module *m = all->list; m; m = m->next) {
        if (!same_module(m, &key)) continue;
        m->refs++;
        return m;
    }
    struct sonde_aspace_module *m = sonde__alloc(sizeof(*m));
    if (!m) return NULL;
    *m = key;
    m->refs = 1;
    m->next = all->list;
    all->list = m;
    return m;
}

void sonde_aspace_mapping_open(struct sonde_modules *all, struct sonde_aspace_mapping *m,
                               uint32_t pid)
{
    struct sonde_module_bytes bytes;
    if (m->state != MAPPING_NEW) return;
    m->state = MAPPING_NONE;
    if (sonde_module_bytes_open(&m->map, pid, &bytes)) return;
    m->from = bytes.from;
    if (!(m->flags & SONDE_MODULE_VDSO) && bytes.from >= FROM_MAP_FILES) {
        m->flags |= SONDE_MODULE_DELETED;
    }
    struct sonde_aspace_module *module = find_module(all, &bytes);
    close(bytes.fd);
    if (!module) return;
    if (sonde__elf_first_byte(&module->elf, m->map.start, m->map.offset, &m->first)) {
        sonde_aspace_module_release(all, module);
        return;
    }
    m->module = module;
    m->state = MAPPING_OPEN;
}

/* ---- Tables ------------------------------------------------------------------------------- */

/* Until they fit, but for one. */
static void drop_oldest(struct sonde_modules *all, const struct sonde_aspace_module *keep)
{
    while (all->table_bytes > all->table_bytes_max) {
        struct sonde_aspace_module *oldest = NULL;
        for (struct sonde_aspace_module *m = all->list; m; m = m->next) {
            if (m->rows && m != keep && (!oldest || m->used < oldest->used)) oldest = m;
        }
        if (!oldest) return;
        drop_table(all, oldest);
        oldest->tried = 0;
        all->stats.tables_dropped++;
    }
}

static struct sonde__unwind_row *aspace_module_compile(const struct sonde__unwind_source *source,
                                                       uint32_t *count, uint32_t *bad)
{
    const size_t room = sonde__unwind_compile(source, NULL, 0, bad);
    if (!room || room > ROWS_MAX) return NULL;
    struct sonde__unwind_row *rows = sonde__alloc(room * sizeof(*rows));
    if (!rows) return NULL;
    const size_t n = sonde__unwind_compile(source, rows, room, bad);
    /* Gives back what sorting needed. */
    struct sonde__unwind_row *fit = sonde__realloc(rows, n * sizeof(*rows));
    *count = (uint32_t)n;
    return fit ? fit : rows;
}

/* Where functions begin. Without memory for it there is none, and nothing is known of calls. */
static void list_functions(const struct sonde__unwind_source *source, struct sonde_aspace_module *m)
{
    uint32_t *starts = NULL;
    for (size_t room = 0, n = 0;; room = n, n = 0) {
        struct sonde__cie cie = { 0 };
        struct sonde__fde fde;
        uint64_t cie_at = UINT64_MAX;
        enum sonde__entry kind;
        for (size_t at = 0;
             (kind = sonde__eh_entry(source, &at, &cie, &cie_at, &fde)) != SONDE__ENTRY_LAST;) {
            if (kind != SONDE__ENTRY_FDE || fde.start > UINT32_MAX) continue;
            if (starts && n < room) starts[n] = (uint32_t)fde.start;
            n++;
        }
        if (starts || !n) {
            m->functions = starts;
            m->function_count = (uint32_t)n;
            break;
        }
        starts = sonde__alloc(n * sizeof(*starts));
        if (!starts) return;
    }
    if (m->function_count) {
        qsort(starts, m->function_count, sizeof(*starts), sonde_cmp_u32);
    }
}

static void build_table(struct sonde_modules *all, const struct sonde_aspace_mapping *mapping,
                        struct sonde_module_bytes *bytes)
{
    struct sonde_aspace_module *m = mapping->module;
    const uint64_t len = m->elf.eh_frame_len;
    uint32_t bad = 0;
    uint8_t *eh_frame = sonde__alloc(len);
    if (!eh_frame) return;
    if (!sonde_module_bytes_read(bytes, m->elf.eh_frame_at, eh_frame, len)) {
        const struct sonde__unwind_source source = {
            .eh_frame = eh_frame,
            .eh_frame_len = len,
            .eh_frame_addr = m->elf.eh_frame_addr,
            .data_addr = m->elf.data_addr,
            .first_addr = m->in_memory ? mapping->first : m->elf.first_addr,
        };
        m->rows = aspace_module_compile(&source, &m->row_count, &bad);
        if (m->rows) list_functions(&source, m);
    }
    sonde__free(eh_frame);
    all->stats.entries_bad += bad;
    if (!m->rows) return;
    all->stats.tables_built++;
    all->table_bytes += table_bytes(m);
    drop_oldest(all, m);
}

struct sonde__unwind_table sonde_aspace_mapping_table(struct sonde_modules *all,
                                                      struct sonde_aspace_mapping *m, uint32_t pid)
{
    assert(m->module);
    struct sonde_aspace_module *module = m->module;
    module->used = ++all->tick;
    if (!module->rows && !module->tried) {
        struct sonde_module_bytes bytes;
        const uint64_t start = sonde_clock_ns(CLOCK_MONOTONIC);
        module->tried = 1;
        /* memory where there was a file, or the other way round, is not what was opened */
        if (module->elf.eh_frame_len && !sonde_module_bytes_open(&m->map, pid, &bytes)) {
            if (bytes.memory == module->in_memory) build_table(all, m, &bytes);
            close(bytes.fd);
        }
        all->stats.build_ns += sonde_clock_ns(CLOCK_MONOTONIC) - start;
    }
    return (struct sonde__unwind_table){ module->rows, module->row_count };
}
