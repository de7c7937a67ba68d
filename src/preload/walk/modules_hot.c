/* modules_hot.c - what a module's own headers, in memory, say about where its code is. */
#include <elf.h>
#include <link.h>
#include <string.h>

#include "preload/walk/walk.h"
#include "segment/segment.h"

#include "base/hot_banned.h"

#define PAGE 4096u

struct sonde__paths sonde__paths;
struct sonde__program sonde__program;

int sonde__module_find(uint64_t pc, struct dl_find_object *out)
{
    const struct sonde__program *p = &sonde__program;
    if (_dl_find_object((void *)(uintptr_t)pc, out)) return -1;
    if ((uint64_t)(uintptr_t)out->dlfo_map_start > p->start &&
        (uint64_t)(uintptr_t)out->dlfo_map_end <= p->end) {
        out->dlfo_map_start = (void *)(uintptr_t)p->start;
        out->dlfo_map_end = (void *)(uintptr_t)p->end;
    }
    return 0;
}

struct modules_program {                /* of the module */
    const ElfW(Phdr) *phdr;
    uint32_t count;
    uint64_t first;             /* lowest address, as linked */
};

/* The loader maps the headers with the first bytes of the module. */
static int modules_headers(const struct dl_find_object *o, struct modules_program *out)
{
    const uint64_t start = (uint64_t)(uintptr_t)o->dlfo_map_start;
    const uint64_t bytes = (uint64_t)(uintptr_t)o->dlfo_map_end - start;
    ElfW(Ehdr) h;
    if (bytes < sizeof(h) || start % 8 || !sonde__readable(start)) return -1;
    memcpy(&h, (const void *)(uintptr_t)start, sizeof(h));
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_phentsize != sizeof(ElfW(Phdr)) ||
        h.e_phoff > PAGE || h.e_phoff % 8 ||
        h.e_phoff + (uint64_t)h.e_phnum * sizeof(ElfW(Phdr)) > PAGE) {
        return -1;
    }
    out->phdr = (const ElfW(Phdr) *)(uintptr_t)(start + h.e_phoff);
    out->count = h.e_phnum;
    out->first = UINT64_MAX;
    for (uint32_t i = 0; i < out->count; i++) {
        const ElfW(Phdr) *p = &out->phdr[i];
        if (p->p_type == PT_LOAD && p->p_vaddr < out->first) out->first = p->p_vaddr;
    }
    out->first &= ~(uint64_t)(PAGE - 1);
    return 0;
}

/* The path as the agent can use it: in out, or where it is. */
static const char *modules_path_of(const char *name, char *out, size_t out_size, uint32_t *len)
{
    if (!name[0]) name = sonde__paths.exe;
    if (!strncmp(name, "linux-vdso", 10) || !strncmp(name, "linux-gate", 10)) name = "[vdso]";
    size_t n = strnlen(name, SONDE__MAP_PATH_MAX + 1);
    const size_t dir = strlen(sonde__paths.cwd);
    if (name[0] != '/' && name[0] != '[' && dir && dir + 1 + n <= out_size) {
        memcpy(out, sonde__paths.cwd, dir);
        out[dir] = '/';
        memcpy(out + dir + 1, name, n);
        name = out;
        n += dir + 1;
    }
    *len = (uint32_t)n;
    return name;
}

__attribute__((noinline)) void sonde__module_texts(const struct dl_find_object *o,
                                                   sonde__text_fn *call, void *arg)
{
    char absolute[512];
    uint32_t len;
    struct modules_program program;
    const char *path = modules_path_of(o->dlfo_link_map->l_name, absolute, sizeof(absolute), &len);
    if (len > SONDE__MAP_PATH_MAX || modules_headers(o, &program)) return;
    const uint64_t start = (uint64_t)(uintptr_t)o->dlfo_map_start;
    for (uint32_t i = 0; i < program.count; i++) {
        const ElfW(Phdr) *p = &program.phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        const uint64_t at = start + p->p_vaddr - program.first;
        const uint64_t skew = at % PAGE;
        const uint64_t end = (at + p->p_filesz + PAGE - 1) & ~(uint64_t)(PAGE - 1);
        if (call(arg, at - skew, end, p->p_offset - skew, path, len)) return;
    }
}
