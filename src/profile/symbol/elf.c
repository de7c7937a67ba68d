/* elf.c - the ELF side: debug files are found by libdwfl (build id, .gnu_debuglink,
 * .gnu_debugaltlink, .gnu_debugdata, and debuginfod if the user set DEBUGINFOD_URLS), but symbols
 * are looked up in a table of our own, since dwfl_module_addrsym() reads all of them for each
 * address. */
#include "profile/symbol/elf.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

#define PAGE 4096u
#define UNSIZED_MAX 4096u /* bytes of a function of which nothing says where it ends */

/* ---- Finding debug files ------------------------------------------------------------------- */

/* libdwfl's search, first as the process names the file (so that /usr/lib/debug/usr/bin/x is found
 * for a file that we opened through /proc/PID/root), then as we named it (what lies beside it). */
static int find_debuginfo(Dwfl_Module *module, void **userdata, const char *module_name,
                          Dwarf_Addr base, const char *file_name, const char *link_file,
                          GElf_Word link_crc, char **out)
{
    const struct sonde_symbol_elf *e = *userdata;
    if (e && file_name && strcmp(e->name, file_name) != 0) {
        const int fd = dwfl_standard_find_debuginfo(module, userdata, module_name, base, e->name,
                                                    link_file, link_crc, out);
        if (fd >= 0) return fd;
    }
    return dwfl_standard_find_debuginfo(module, userdata, module_name, base, file_name, link_file,
                                        link_crc, out);
}

static int no_elf(Dwfl_Module *module, void **userdata, const char *module_name, Dwarf_Addr base,
                  char **file_name, Elf **elf)
{
    (void)module, (void)userdata, (void)module_name, (void)base, (void)file_name, (void)elf;
    return -1;
}

/* Beside the file, in .debug/ there, then the roots. */
static char *debug_path(const struct sonde_symbol_job *job)
{
    char container[64] = "";
    char *path = NULL;
    const uint32_t pid = sonde_symbol_pid(job->places[0].open_path);
    if (pid) snprintf(container, sizeof(container), ":/proc/%u/root/usr/lib/debug", pid);
    if (asprintf(&path, ":.debug%s%s%s:/usr/lib/debug", job->debug_root ? ":" : "",
                 job->debug_root ? job->debug_root : "", container) < 0) {
        return NULL;
    }
    return path;
}

/* ---- Symbols ------------------------------------------------------------------------------- */

/* Of several names for one address the one people know: a function, with a size, not local, with
 * few underscores in front (write, not __GI___libc_write), not weak. */
static uint32_t symbol_elf_rank_of(const GElf_Sym *sym, const char *name)
{
    uint32_t underscores = (uint32_t)strspn(name, "_");
    uint32_t rank = 0;
    if (GELF_ST_TYPE(sym->st_info) != STT_NOTYPE) rank |= 1u << 8;
    if (sym->st_size > 0) rank |= 1u << 7;
    if (GELF_ST_BIND(sym->st_info) != STB_LOCAL) rank |= 1u << 6;
    /* _Z and _R are a language, not modesty. */
    if (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R')) underscores = 0;
    rank |= (15u - (underscores > 15 ? 15 : underscores)) << 1;
    if (GELF_ST_BIND(sym->st_info) != STB_WEAK) rank |= 1u;
    return rank;
}

/* 1 with the end of the symbol's section; 0 if it holds no code. */
static int code_section_end(Elf *elf, GElf_Word shndx, GElf_Addr bias, uint64_t *end)
{
    GElf_Shdr header;
    Elf_Scn *section = elf ? elf_getscn(elf, shndx) : NULL;
    if (!section || !gelf_getshdr(section, &header)) return 0;
    if (!(header.sh_flags & SHF_EXECINSTR)) return 0;
    *end = header.sh_addr + header.sh_size + bias;
    return 1;
}

static int add_symbol(struct sonde_symbol_elf *e, int i)
{
    GElf_Sym sym;
    GElf_Addr addr, bias;
    GElf_Word shndx;
    Elf *elf;
    uint64_t section_end;
    const char *name = dwfl_module_getsym_info(e->module, i, &sym, &addr, &shndx, &elf, &bias);
    if (!name || name[0] == '\0' || name[0] == '$' || strncmp(name, ".L", 2) == 0) return 0;
    const int type = GELF_ST_TYPE(sym.st_info);
    if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) return 0;
    if (shndx == SHN_UNDEF || shndx == SHN_ABS || shndx == SHN_COMMON) return 0;
    if (!code_section_end(elf, shndx, bias, &section_end)) return 0;
    struct sonde_symbol_range r = { .start = addr,
                                    .end = section_end,
                                    .value = (uint64_t)(uintptr_t)name,
                                    .rank = symbol_elf_rank_of(&sym, name),
                                    .unsized = sym.st_size == 0 };
    if (sym.st_size > 0 && sym.st_size < section_end - addr) r.end = addr + sym.st_size;
    return sonde_symbol_table_add(&e->symbols, &r);
}

static int has_section(Elf *elf, GElf_Word type, const char *name)
{
    size_t names;
    if (!elf || elf_getshdrstrndx(elf, &names) != 0) return 0;
    for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s)) {
        GElf_Shdr header;
        if (!gelf_getshdr(s, &header) || header.sh_size == 0) continue;
        if (name) {
            const char *found = elf_strptr(elf, names, header.sh_name);
            if (found && strcmp(found, name) == 0) return 1;
        } else if (header.sh_type == type) {
            return 1;
        }
    }
    return 0;
}

/* A name holds to the end of its function. A symbol without a size ends with its function's entry
 * in the tables of exceptions, or where the next one begins. In code that has neither (assembly),
 * in a file whose other names were stripped, what comes after a while is somebody else's. */
static uint64_t unsized_limit(void *arg, uint64_t start)
{
    struct sonde_symbol_elf *e = arg;
    const uint64_t end = sonde_symbol_fde_end(e, start);
    const uint64_t most = e->has_symtab ? UINT64_MAX : start + UNSIZED_MAX;
    return end < most ? end : most;
}

static int read_symbols(struct sonde_symbol_elf *e)
{
    GElf_Addr bias;
    const int count = dwfl_module_getsymtab(e->module);
    for (int i = 0; i < count; i++) {
        const int rc = add_symbol(e, i);
        if (rc) return rc;
    }
    sonde_symbol_table_seal(&e->symbols);
    e->has_symtab = has_section(e->elf, SHT_SYMTAB, NULL) ||
                    has_section(e->elf, 0, ".gnu_debugdata");
    if (!e->has_symtab) {
        Dwarf *dwarf = dwfl_module_getdwarf(e->module, &bias);
        e->has_symtab = dwarf && has_section(dwarf_getelf(dwarf), SHT_SYMTAB, NULL);
    }
    sonde_symbol_table_limit(&e->symbols, unsized_limit, e);
    return 0;
}

/* ---- Opening ------------------------------------------------------------------------------- */

int sonde_symbol_elf_open(const struct sonde_symbol_job *job, int fd, const char *name,
                          const char *path, struct sonde_symbol_demangler *demangler,
                          struct sonde_symbol_elf *e)
{
    void **userdata;
    GElf_Ehdr header;
    GElf_Addr bias;
    *e = (struct sonde_symbol_elf){ .demangler = demangler, .debug_path = debug_path(job) };
    snprintf(e->name, sizeof(e->name), "%s", path);
    e->callbacks = (Dwfl_Callbacks){ .find_elf = no_elf, .find_debuginfo = find_debuginfo,
                                     .debuginfo_path = &e->debug_path };
    if (e->debug_path) e->dwfl = dwfl_begin(&e->callbacks);
    if (!e->dwfl) {
        close(fd);
        sonde_symbol_elf_close(e);
        return SONDE_ENOMEM;
    }
    dwfl_report_begin(e->dwfl);
    /* At base 0 with the segments' own addresses: addresses are then as linked. */
    e->module = dwfl_report_elf(e->dwfl, "module", name, fd, 0, true);
    if (!e->module) close(fd);
    dwfl_report_end(e->dwfl, NULL, NULL);
    e->elf = e->module ? dwfl_module_getelf(e->module, &bias) : NULL;
    if (!e->elf || bias != 0 || !gelf_getehdr(e->elf, &header)) {
        sonde_symbol_elf_close(e);
        return SONDE_EFORMAT;
    }
    e->machine = header.e_machine;
    dwfl_module_info(e->module, &userdata, NULL, NULL, NULL, NULL, NULL, NULL);
    *userdata = e;
    const int rc = read_symbols(e);
    if (rc) sonde_symbol_elf_close(e);
    return rc;
}

void sonde_symbol_elf_close(struct sonde_symbol_elf *e)
{
    sonde_symbol_plt_release(&e->plt);
    sonde_symbol_table_release(&e->symbols);
    sonde_symbol_table_release(&e->nameless.functions);
    if (e->dwfl) dwfl_end(e->dwfl);
    free(e->debug_path);
    e->dwfl = NULL;
    e->debug_path = NULL;
}

/* ---- Looking up ---------------------------------------------------------------------------- */

/* The kernel maps whole pages, so an offset may lie before a segment's first byte or past its last
 * one; and one page of the file may be mapped by two segments. Code first, exact first. */
int sonde_symbol_elf_vaddr(const struct sonde_symbol_elf *e, uint64_t offset, uint64_t *vaddr)
{
    size_t count;
    int best = 0;
    if (elf_getphdrnum(e->elf, &count) != 0 || count > INT32_MAX) return 0;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr p;
        if (!gelf_getphdr(e->elf, (int)i, &p)) break;
        if (p.p_type != PT_LOAD || p.p_filesz > UINT64_MAX - p.p_offset - PAGE) continue;
        const uint64_t low = p.p_offset & ~(uint64_t)(PAGE - 1);
        const uint64_t end = p.p_offset + p.p_filesz;
        if (offset < low || offset >= ((end + PAGE - 1) & ~(uint64_t)(PAGE - 1))) continue;
        const int exact = offset >= p.p_offset && offset < end;
        const int fit = 1 + (p.p_flags & PF_X ? 2 : 0) + exact;
        if (fit <= best) continue;
        best = fit;
        *vaddr = p.p_vaddr + (offset - p.p_offset);
    }
    return best > 0;
}

const char *sonde_symbol_elf_find(const struct sonde_symbol_elf *e, uint64_t vaddr)
{
    const struct sonde_symbol_range *r = sonde_symbol_table_find(&e->symbols, vaddr);
    return r ? (const char *)(uintptr_t)r->value : NULL;
}
