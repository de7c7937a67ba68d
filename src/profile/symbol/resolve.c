/* resolve.c - one job: the file, its symbols, its debug information; what the last does not
 * know comes from the symbols, then from the PLT, then from where functions start. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/profile.h"
#include "profile/symbol/elf.h"
#include "sonde/sonde.h"

#define VDSO_MAX (256u << 10)

/* Our own vDSO, as a file: the kernel gives every process the same. */
static int vdso_file(void)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return -1;
    const uint64_t size = header->e_shoff + (uint64_t)header->e_shnum * header->e_shentsize;
    if (size < sizeof(*header) || size > VDSO_MAX) return -1;
    const int fd = memfd_create("vdso", MFD_CLOEXEC);
    if (fd < 0) return -1;
    if (write(fd, header, size) != (ssize_t)size) {
        close(fd);
        return -1;
    }
    return fd;
}

static int open_elf(const struct sonde_symbol_job *job, struct sonde_symbol_demangler *demangler,
                    struct sonde_symbol_elf *e, uint32_t *flags)
{
    struct sonde_symbol_file file = { .fd = -1 };
    if (job->kind == SONDE_SYMBOL_VDSO) {
        const int fd = vdso_file();
        if (fd < 0) return SONDE_ENOENT;
        return sonde_symbol_elf_open(job, fd, "[vdso]", "[vdso]", demangler, e);
    }
    int rc = sonde_symbol_open(job, &file, flags);
    if (rc) return rc;
    return sonde_symbol_elf_open(job, file.fd, file.name, file.place->path, demangler, e);
}

static int by_vaddr(const void *a, const void *b)
{
    const struct sonde_symbol_addr *x = a, *y = b;
    return SONDE_CMP(x->vaddr, y->vaddr);
}

/* The job's addresses as linked, ascending. */
static size_t to_vaddrs(const struct sonde_symbol_job *job, const struct sonde_symbol_elf *e,
                        struct sonde_symbol_addr *out)
{
    size_t count = 0;
    for (size_t i = 0; i < job->at_count; i++) {
        uint64_t vaddr = job->at[i];
        if (job->kind == SONDE_SYMBOL_VADDR || sonde_symbol_elf_vaddr(e, job->at[i], &vaddr)) {
            out[count++] = (struct sonde_symbol_addr){ vaddr, i };
        }
    }
    if (count) qsort(out, count, sizeof(*out), by_vaddr);
    return count;
}

static int emit_symbol(struct sonde_symbol_elf *e, const struct sonde_symbol_addr *a,
                       sonde_symbol_emit *emit, void *arg)
{
    struct sonde_symbol_frame frame = { .file = "" };
    const char *name = sonde_symbol_elf_find(e, a->vaddr);
    frame.name = name ? sonde_symbol_demangle_versioned(e->demangler, name)
                      : sonde_symbol_plt_find(e, a->vaddr);
    if (!frame.name) frame.name = sonde_symbol_fde_find(e, a->vaddr);
    return frame.name ? emit(arg, a->index, &frame, 1) : 0;
}

static int symbol_resolve_in(const struct sonde_symbol_job *job, struct sonde_symbol_elf *e,
                             sonde_symbol_emit *emit, void *arg, uint32_t *flags)
{
    GElf_Addr bias = 0;
    struct sonde_symbol_addr *addrs = sonde__calloc(job->at_count, sizeof(*addrs));
    unsigned char *done = sonde__calloc(job->at_count, 1);
    int rc = addrs && done ? 0 : SONDE_ENOMEM;
    const size_t count = rc ? 0 : to_vaddrs(job, e, addrs);
    Dwarf *dwarf = rc || job->symbols_only ? NULL : dwfl_module_getdwarf(e->module, &bias);
    if (!rc && dwarf && count) {
        rc = sonde_symbol_dwarf(e, dwarf, bias, addrs, count, done, emit, arg);
    }
    for (size_t i = 0; !rc && i < count; i++) {
        if (!done[i]) rc = emit_symbol(e, &addrs[i], emit, arg);
    }
    if (!dwarf) *flags |= e->has_symtab ? SONDE_MODULE_NO_LINES : SONDE_MODULE_STRIPPED;
    sonde__free(addrs);
    sonde__free(done);
    return rc;
}

int sonde_symbol_resolve(const struct sonde_symbol_job *job, sonde_symbol_emit *emit, void *arg,
                         uint32_t *flags)
{
    struct sonde_symbol_elf e;
    *flags = 0;
    if (job->kind == SONDE_SYMBOL_JIT || job->kind == SONDE_SYMBOL_KERNEL) {
        return sonde_symbol_text(job, emit, arg, flags);
    }
    struct sonde_symbol_demangler *demangler = sonde__calloc(1, sizeof(*demangler));
    if (!demangler) return SONDE_ENOMEM;
    elf_version(EV_CURRENT);
    int rc = open_elf(job, demangler, &e, flags);
    if (rc == 0) {
        rc = symbol_resolve_in(job, &e, emit, arg, flags);
        sonde_symbol_elf_close(&e);
    } else if (rc == SONDE_ENOENT || rc == SONDE_EFORMAT) {
        *flags |= SONDE_MODULE_STRIPPED;
        rc = 0;
    }
    sonde__free(demangler);
    return rc;
}
