#include "profile/tree/frame.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/buf.h"
#include "base/path.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"

enum { NAME_MAX_TEXT = 4096 };

/* sonde_strings_add of text that is never empty; 0 or SONDE_ENOMEM. */
static int frame_add_name(struct sonde_strings *pool, const char *s, size_t len, uint32_t *out,
                          const struct sonde_budget *b)
{
    *out = len ? sonde_strings_add(pool, s, len, b) : 0;
    return len && !*out ? SONDE_ENOMEM : 0;
}

/* name, or name_[k]. A longer name than fits with the suffix is cut: it has no use in a picture. */
static int add_function_name(struct sonde_strings *pool, const char *name, int kernel,
                             uint32_t *out, const struct sonde_budget *b)
{
    if (!kernel) return frame_add_name(pool, name, strlen(name), out, b);
    char text[NAME_MAX_TEXT];
    const int n = snprintf(text, sizeof(text), "%.4000s_[k]", name);
    return frame_add_name(pool, text, (size_t)n, out, b);
}

static int add_unknown_name(const struct sonde_profile *p, const struct sonde_profile_location *l,
                            struct sonde_strings *pool, uint32_t *out, const struct sonde_budget *b)
{
    char text[NAME_MAX_TEXT];
    const struct sonde_profile_module *m = &p->modules[l->module];
    const char *module = sonde_path_base(sonde_profile_str(p, m->path));
    int n;
    if (!l->address) {
        n = snprintf(text, sizeof(text), "%.4000s", *module ? module : "[unknown]");
    } else if (!*module) {
        n = snprintf(text, sizeof(text), "0x%" PRIx64, l->address);
    } else {
        n = snprintf(text, sizeof(text), "%.4000s+0x%" PRIx64, module,
                     l->address - m->start + m->offset);
    }
    if (m->flags & SONDE_MODULE_KERNEL) {
        n += snprintf(text + n, sizeof(text) - (size_t)n, "_[k]");
    }
    return frame_add_name(pool, text, (size_t)n, out, b);
}

/* The rows of one location, innermost first. */
static int frame_add_location(const struct sonde_profile *p, const struct sonde_profile_location *l,
                              struct sonde_frame *rows, struct sonde_strings *pool,
                              const struct sonde_budget *b)
{
    const uint32_t count = l->line_count ? l->line_count : 1;
    for (uint32_t i = 0; i < count; i++) {
        const struct sonde_profile_line line =
            l->line_count ? p->lines[l->line + i] : (struct sonde_profile_line){ 0 };
        const struct sonde_profile_function *f = &p->functions[line.function];
        const struct sonde_profile_module *m = &p->modules[l->module ? l->module : f->module];
        const int kernel = (m->flags & SONDE_MODULE_KERNEL) != 0;
        const char *name = sonde_profile_str(p, f->name);
        const char *module = sonde_path_base(sonde_profile_str(p, m->path));
        const char *file = sonde_profile_str(p, f->file);
        struct sonde_frame *row = &rows[i];
        *row = (struct sonde_frame){ .line = f->start_line ? f->start_line : line.line };
        if (kernel) row->flags |= SONDE_NODE_KERNEL;
        if (!strcmp(module, SONDE_PYTHON_MODULE)) row->flags |= SONDE_NODE_PYTHON;
        if (i + 1 < count) row->flags |= SONDE_NODE_INLINED;
        if (!*name) row->flags |= SONDE_NODE_UNKNOWN;
        if ((*name ? add_function_name(pool, name, kernel, &row->name, b)
                   : add_unknown_name(p, l, pool, &row->name, b)) ||
            frame_add_name(pool, module, strlen(module), &row->module, b) ||
            frame_add_name(pool, file, strlen(file), &row->file, b)) {
            return SONDE_ENOMEM;
        }
    }
    return 0;
}

int sonde_frames_create(struct sonde_frames *f, const struct sonde_profile *p,
                        struct sonde_strings *pool, const struct sonde_budget *b)
{
    *f = (struct sonde_frames){ 0 };
    f->first = sonde__calloc((size_t)p->locations_count + 1, sizeof(*f->first));
    if (!f->first) return SONDE_ENOMEM;
    uint32_t count = 0;
    for (uint32_t i = 1; i < p->locations_count; i++) {
        const uint32_t lines = p->locations[i].line_count;
        f->first[i] = count;
        if (__builtin_add_overflow(count, lines ? lines : 1, &count)) goto fail;
    }
    f->first[p->locations_count] = count;
    f->rows = sonde__calloc((size_t)count + 1, sizeof(*f->rows));
    if (!f->rows) goto fail;
    f->truncated = count;
    f->rows[count].flags = SONDE_NODE_TRUNCATED;
    if (frame_add_name(pool, SONDE_TRUNCATED_NAME, strlen(SONDE_TRUNCATED_NAME),
                       &f->rows[count].name, b)) {
        goto fail;
    }
    for (uint32_t i = 1; i < p->locations_count; i++) {
        if (frame_add_location(p, &p->locations[i], f->rows + f->first[i], pool, b)) goto fail;
    }
    return 0;
fail:
    sonde_frames_release(f);
    return SONDE_ENOMEM;
}

/* The module stands behind the name's end, where nobody reads on. */
int sonde_frames_by_module(struct sonde_frames *f, struct sonde_strings *pool,
                           const struct sonde_budget *b)
{
    struct sonde_buf text;
    int rc = 0;
    sonde_buf_init(&text, (size_t)1 << 30);
    for (uint32_t i = 0; i < f->truncated && !rc; i++) {
        struct sonde_frame *row = &f->rows[i];
        const char *name = pool->strings[row->name], *module = pool->strings[row->module];
        if (!row->module) continue;
        text.len = 0;
        sonde_buf_add(&text, name, strlen(name) + 1);
        sonde_buf_puts(&text, module);
        rc = text.error ? text.error : frame_add_name(pool, text.data, text.len, &row->name, b);
    }
    sonde_buf_release(&text);
    return rc;
}

void sonde_frames_release(struct sonde_frames *f)
{
    sonde__free(f->rows);
    sonde__free(f->first);
    *f = (struct sonde_frames){ 0 };
}

static int path_push(struct sonde_frame_path *path, uint32_t row)
{
    if (SONDE_ARRAY_ROOM(path->rows, path->count, path->cap)) return SONDE_ENOMEM;
    path->rows[path->count++] = row;
    return 0;
}

int sonde_frame_path_set(struct sonde_frame_path *path, const struct sonde_frames *f,
                         const struct sonde_profile *p, const struct sonde_profile_sample *s)
{
    assert(s->stack < p->stacks_count);
    path->count = 0;
    for (uint32_t at = s->stack; at; at = p->stacks[at].parent) {
        const uint32_t location = p->stacks[at].location;
        for (uint32_t row = f->first[location]; row < f->first[location + 1]; row++) {
            if (path_push(path, row)) return SONDE_ENOMEM;
        }
    }
    if (s->flags & SONDE_SAMPLE_TRUNCATED && path_push(path, f->truncated)) return SONDE_ENOMEM;
    for (uint32_t i = 0, k = path->count; i + 1 < k; i++) {
        const uint32_t row = path->rows[i];
        path->rows[i] = path->rows[--k];
        path->rows[k] = row;
    }
    return 0;
}

void sonde_frame_path_release(struct sonde_frame_path *path)
{
    sonde__free(path->rows);
    *path = (struct sonde_frame_path){ 0 };
}

uint32_t sonde_thread_label(const struct sonde_profile *p, uint32_t thread,
                            struct sonde_strings *pool, const struct sonde_budget *b)
{
    assert(thread < p->threads_count);
    char text[NAME_MAX_TEXT];
    const struct sonde_profile_thread *t = &p->threads[thread];
    const char *name = sonde_profile_str(p, t->name);
    int repeats = 0, n;
    for (uint32_t i = 1; i < p->threads_count && !repeats; i++) {
        repeats = i != thread && p->threads[i].name == t->name;
    }
    if (!thread) n = snprintf(text, sizeof(text), "[unknown thread]");
    else if (!*name) n = snprintf(text, sizeof(text), "thread %u", t->tid);
    else if (repeats) n = snprintf(text, sizeof(text), "%.4000s/%u", name, t->tid);
    else n = snprintf(text, sizeof(text), "%.4000s", name);
    return sonde_strings_add(pool, text, (size_t)n, b);
}
