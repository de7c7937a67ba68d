/* sandbox.c - may the program have given up system calls, by a seccomp filter that kills for ours?
 *
 * At the end of the process the segment's file is removed, which takes calls that a filter may not
 * know. Whether there is one cannot be asked: prctl(PR_GET_SECCOMP) is a call itself, and so is
 * reading /proc. What can be told without any is who could have installed one: something that is
 * loaded refers to prctl, to syscall or to libseccomp. Then no call is made, and the file stays for
 * the next program or agent to sweep (SWEEP_KEEP in file.c bounds how many lie around). The C and
 * C++ run-times refer to them for other reasons and are passed by; so is libsonde, see call.h.
 *
 * In a static program nothing can be told, so it is taken for one that may. Under libsonde_preload
 * filters are seen as they are installed, and this is not asked. */
#include <elf.h>
#include <link.h>
#include <string.h>

#include "record/state.h"

struct seen {
    uint32_t libraries;      /* that were looked at */
    int suspect;
};

static const char *const passed_by[] = {
    "libc.so", "libc-", "libc.musl", "ld-", "libpthread", "libstdc++", "libc++", "libgcc_s",
    "libgomp", "libsonde", "linux-vdso", "libasan", "libtsan", "libubsan", "liblsan",
};
static const char *const wanted[] = { "prctl", "syscall", "seccomp_load" };

static int is_passed_by(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    for (size_t i = 0; i < sizeof(passed_by) / sizeof(passed_by[0]); i++) {
        if (!strncmp(name, passed_by[i], strlen(passed_by[i]))) return 1;
    }
    return 0;
}

/* Addresses in the dynamic section: glibc has them relocated, musl has not. */
static const void *record_sandbox_address_in(const struct dl_phdr_info *info, ElfW(Addr) at)
{
    return (const void *)(at < info->dlpi_addr ? info->dlpi_addr + at : at); // NOLINT
}

struct tables {
    const ElfW(Sym) *symbols;
    const char *strings;
    size_t strings_bytes;
    uint32_t count;          /* of symbols: the undefined ones are among them */
};

static void tables_read(const struct dl_phdr_info *info, const ElfW(Dyn) *d, struct tables *t)
{
    for (; d->d_tag != DT_NULL; d++) {
        switch (d->d_tag) {
        case DT_SYMTAB: t->symbols = record_sandbox_address_in(info, d->d_un.d_ptr); break;
        case DT_STRTAB: t->strings = record_sandbox_address_in(info, d->d_un.d_ptr); break;
        case DT_STRSZ: t->strings_bytes = (size_t)d->d_un.d_val; break;
        /* The second word of both: where the defined ones begin, or how many there are. */
        case DT_GNU_HASH:
            t->count = ((const uint32_t *)record_sandbox_address_in(info, d->d_un.d_ptr))[1];
            break;
        case DT_HASH:
            if (!t->count) {
                t->count = ((const uint32_t *)record_sandbox_address_in(info, d->d_un.d_ptr))[1];
            }
            break;
        default: break;
        }
    }
}

static int record_sandbox_refers(const struct tables *t)
{
    if (!t->symbols || !t->strings) return 0;
    for (uint32_t i = 1; i < t->count; i++) {
        const ElfW(Sym) *s = &t->symbols[i];
        if (s->st_shndx != SHN_UNDEF || s->st_name >= t->strings_bytes) continue;
        for (size_t k = 0; k < sizeof(wanted) / sizeof(wanted[0]); k++) {
            if (!strcmp(t->strings + s->st_name, wanted[k])) return 1;
        }
    }
    return 0;
}

static int record_sandbox_look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct seen *seen = arg;
    (void)size;
    const char *name = info->dlpi_name ? info->dlpi_name : "";
    seen->libraries += strchr(name, '/') != NULL; /* not the program, nor the kernel's pages */
    if (is_passed_by(name)) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        struct tables t = { NULL, NULL, 0, 0 };
        if (info->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
        /* NOLI. */
        tables_read(info, (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr), &t);
        seen->suspect |= record_sandbox_refers(&t);
    }
    return seen->suspect;
}

int sonde__maybe_sandboxed(void)
{
    struct seen seen = { 0, 0 };
    if (sonde__g.filters_seen) return 0;
    dl_iterate_phdr(record_sandbox_look_at, &seen);
    return seen.suspect || !seen.libraries;
}
