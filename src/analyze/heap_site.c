/* heap_site.c - a stack that allocates, as people name it: by the first function that is not part
 * of getting memory. */
#include "analyze/heap_site.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/path.h"

/* Gets memory for whoever calls it. */
static int passes_on(const char *name)
{
    static const char *const names[] = {
        "malloc", "calloc", "realloc", "reallocarray", "posix_memalign", "aligned_alloc",
        "memalign", "valloc", "pvalloc", "mmap", "mmap64", "strdup", "strndup", "__strdup",
        "__strndup", "xmalloc", "xcalloc", "xrealloc", "xstrdup", "g_malloc", "g_malloc0",
        "g_realloc", "PyMem_Malloc", "PyMem_RawMalloc", "PyObject_Malloc", "_PyMem_RawMalloc",
        "__rust_alloc", "__rdl_alloc", "__rust_alloc_zeroed", "__rust_realloc",
    };
    static const char *const prefixes[] = {
        "operator new", "std::", "__gnu_cxx::", "alloc::", "<alloc::", "core::", "<core::",
        "hashbrown::", "<hashbrown::", "<std::",
    };
    for (size_t i = 0; i < SONDE_COUNT(names); i++) {
        if (!strcmp(name, names[i])) return 1;
    }
    for (size_t i = 0; i < SONDE_COUNT(prefixes); i++) {
        if (sonde_has_prefix(name, prefixes[i])) return 1;
    }
    /* A template's name begins with what it returns. */
    const char *space = strchr(name, ' ');
    const size_t word = strcspn(name, "<(");
    return space && (size_t)(space - name) < word &&
           (sonde_has_prefix(space + 1, "std::") || sonde_has_prefix(space + 1, "__gnu_cxx::"));
}

static void unknown_frame(const struct sonde_profile *p, const struct sonde_profile_location *l,
                          struct heap_frame *f)
{
    const struct sonde_profile_module *m = &p->modules[l->module];
    if (!l->address) {
        snprintf(f->text, sizeof(f->text), "%.120s", *f->module ? f->module : "[unknown]");
    } else if (!*f->module) {
        snprintf(f->text, sizeof(f->text), "0x%" PRIx64, l->address);
    } else {
        snprintf(f->text, sizeof(f->text), "%.120s+0x%" PRIx64, f->module,
                 l->address - m->start + m->offset);
    }
    f->name = NULL;
}

/* Line i of a location; one without lines has one, with its address. */
static void set_frame(const struct sonde_profile *p, const struct sonde_profile_location *l,
                      uint32_t i, struct heap_frame *f)
{
    f->file = "";
    f->line = 0;
    f->module = sonde_path_base(sonde_profile_str(p, p->modules[l->module].path));
    if (!l->line_count) {
        unknown_frame(p, l, f);
        return;
    }
    const struct sonde_profile_line *line = &p->lines[l->line + i];
    const struct sonde_profile_function *function = &p->functions[line->function];
    f->name = sonde_profile_str(p, function->name);
    f->file = sonde_profile_str(p, function->file);
    f->line = line->line;
    if (!*f->name) unknown_frame(p, l, f);
}

const char *heap_frame_name(const struct heap_frame *f) { return f->name ? f->name : f->text; }

size_t heap_frames(const struct sonde_profile *p, uint32_t stack, struct heap_frame *out,
                   size_t max)
{
    assert(stack < p->stacks_count);
    size_t count = 0;
    struct heap_frame innermost;
    int any = 0;
    for (; stack && count < max; stack = p->stacks[stack].parent) {
        const struct sonde_profile_location *l = &p->locations[p->stacks[stack].location];
        for (uint32_t i = 0; i < (l->line_count ? l->line_count : 1) && count < max; i++) {
            struct heap_frame f;
            set_frame(p, l, i, &f);
            if (!any++) innermost = f;
            if (!count && f.name && passes_on(f.name)) continue;
            out[count++] = f;
        }
    }
    if (!count && any && max) out[count++] = innermost;
    return count;
}
