/* symbols.c - see symbols.h. Every number of the file is copied before it is checked,
 * and used as it was copied: the file is mapped, and whoever owns it may write to it. */
#include "collect/uprobe/symbols.h"

#include <elf.h>
#include <string.h>
#include <sys/stat.h>

#include "base/guarded_map.h"
#include "sonde/sonde.h"
#include "unwind/arch_call.h"

enum {
    TEXTS_MAX = 16,        /* executable parts of a file */
    PROGRAM_HEADERS_MAX = 1024,
    SECTIONS_MAX = 1 << 20,
    SYMBOLS_MAX = 1 << 27, /* in one table */
    CODE_MAX = 64,         /* bytes of a function that are looked at */
    NAME_MAX_LEN = 64      /* longest name there is, with its NUL */
};

static const char *const names[SONDE__LLAMA_COUNT] = {
#define SONDE__X(id, symbol, a, b, c, absent) symbol,
    SONDE__LLAMA_FUNCTIONS(SONDE__X)
#undef SONDE__X
};

struct uprobe_symbols_image {
    const unsigned char *bytes;
    size_t len;
    Elf64_Phdr texts[TEXTS_MAX];
    uint32_t text_count;
};

static int uprobe_symbols_copy(const struct uprobe_symbols_image *i, uint64_t at, void *out,
                               size_t len)
{
    if (at > i->len || len > i->len - at) return -1;
    memcpy(out, i->bytes + at, len);
    return 0;
}

static int uprobe_symbols_read_header(struct uprobe_symbols_image *i, Elf64_Ehdr *h)
{
    if (uprobe_symbols_copy(i, 0, h, sizeof(*h)) || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0) {
        return -1;
    }
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB) return -1;
    if (h->e_machine != SONDE__ARCH_ELF_MACHINE) return -1;
    if (h->e_type != ET_EXEC && h->e_type != ET_DYN) return -1;
    if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum > PROGRAM_HEADERS_MAX) return -1;
    for (uint32_t n = 0; n < h->e_phnum && i->text_count < TEXTS_MAX; n++) {
        Elf64_Phdr p;
        uint64_t at;
        if (__builtin_add_overflow(h->e_phoff, (uint64_t)n * sizeof(p), &at)) return -1;
        if (uprobe_symbols_copy(i, at, &p, sizeof(p))) return -1;
        if (p.p_type == PT_LOAD && (p.p_flags & PF_X)) i->texts[i->text_count++] = p;
    }
    return i->text_count ? 0 : -1;
}

/* Offset in the file of an address as linked; 0 = no code is there. */
static uint64_t file_offset(const struct uprobe_symbols_image *i, uint64_t addr)
{
    for (uint32_t n = 0; n < i->text_count; n++) {
        const Elf64_Phdr *p = &i->texts[n];
        if (addr < p->p_vaddr || addr - p->p_vaddr >= p->p_filesz) continue;
        const uint64_t at = p->p_offset + (addr - p->p_vaddr);
        return at >= p->p_offset && at < i->len ? at : 0;
    }
    return 0;
}

/* The first bytes of a function, at most as many as it has. */
static size_t code_of(const struct uprobe_symbols_image *i, uint64_t at, uint64_t size,
                      uint8_t out[CODE_MAX])
{
    size_t n = i->len - at < CODE_MAX ? (size_t)(i->len - at) : CODE_MAX;
    if (size && size < n) n = (size_t)size;
    return uprobe_symbols_copy(i, at, out, n) ? 0 : n;
}

static void uprobe_symbols_found(const struct uprobe_symbols_image *i, const char *name,
                                 const Elf64_Sym *sym, struct sonde_uprobe_symbols *out)
{
    uint8_t code[CODE_MAX];
    const uint64_t at = file_offset(i, sym->st_value);
    if (!at) return;
    const size_t len = code_of(i, at, sym->st_size, code);
    if (!strcmp(name, "ggml_backend_buffer_get_size")) {
        out->buffer_size_at = sonde__arch_getter(code, len, 0);
    } else if (!strcmp(name, "ggml_get_name")) {
        out->tensor_name_at = sonde__arch_getter(code, len, 1);
    }
    for (uint32_t fn = 0; fn < SONDE__LLAMA_COUNT; fn++) {
        if (strcmp(name, names[fn]) != 0) continue;
        out->count += !out->at[fn];
        out->at[fn] = at + sonde__arch_probe_skip(code, len);
    }
}

static void uprobe_symbols_look_at(const struct uprobe_symbols_image *i, const Elf64_Shdr *strings,
                                   const Elf64_Sym *sym, struct sonde_uprobe_symbols *out)
{
    char name[NAME_MAX_LEN];
    if (ELF64_ST_TYPE(sym->st_info) != STT_FUNC || sym->st_shndx == SHN_UNDEF) return;
    if (sym->st_name >= strings->sh_size) return;
    const uint64_t left = strings->sh_size - sym->st_name;
    const uint64_t at = strings->sh_offset + sym->st_name;
    size_t n = left < sizeof(name) ? (size_t)left : sizeof(name);
    if (uprobe_symbols_copy(i, at, name, 5 < n ? 5 : n)) return;
    if (n < 5 || (memcmp(name, "llama", 5) != 0 && memcmp(name, "ggml_", 5) != 0)) return;
    if (uprobe_symbols_copy(i, at, name, n) || !memchr(name, '\0', n)) return;
    uprobe_symbols_found(i, name, sym, out);
}

static void look_through(const struct uprobe_symbols_image *i, const Elf64_Shdr *table,
                         const Elf64_Shdr *strings, struct sonde_uprobe_symbols *out)
{
    const uint64_t count = table->sh_size / sizeof(Elf64_Sym);
    if (table->sh_entsize != sizeof(Elf64_Sym) || count > SYMBOLS_MAX) return;
    if (strings->sh_type != SHT_STRTAB || strings->sh_offset > i->len ||
        strings->sh_size > i->len - strings->sh_offset) return;
    if (table->sh_offset > i->len || table->sh_size > i->len - table->sh_offset) return;
    for (uint64_t n = 0; n < count; n++) {
        Elf64_Sym sym;
        memcpy(&sym, i->bytes + table->sh_offset + n * sizeof(sym), sizeof(sym));
        uprobe_symbols_look_at(i, strings, &sym, out);
    }
}

int sonde_uprobe_symbols_find(const void *elf, size_t len, struct sonde_uprobe_symbols *out)
{
    struct uprobe_symbols_image i = { .bytes = elf, .len = len };
    Elf64_Ehdr h;
    Elf64_Shdr section, strings;
    memset(out, 0, sizeof(*out));
    out->buffer_size_at = out->tensor_name_at = -1;
    if (uprobe_symbols_read_header(&i, &h)) return SONDE_EFORMAT;
    out->entry_at = file_offset(&i, h.e_entry);
    if (!h.e_shoff || h.e_shentsize != sizeof(section)) return 0; /* it has no names left */
    if (uprobe_symbols_copy(&i, h.e_shoff, &section, sizeof(section))) return SONDE_EFORMAT;
    const uint64_t count = h.e_shnum ? h.e_shnum : section.sh_size; /* too many for the header */
    if (count > SECTIONS_MAX) return SONDE_EFORMAT;
    for (uint64_t n = 1; n < count; n++) {
        if (uprobe_symbols_copy(&i, h.e_shoff + n * sizeof(section), &section, sizeof(section))) {
            break;
        }
        if (section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) continue;
        if (section.sh_link >= count ||
            uprobe_symbols_copy(&i, h.e_shoff + section.sh_link * sizeof(section), &strings,
                                sizeof(strings))) {
            continue;
        }
        look_through(&i, &section, &strings, out);
    }
    return 0;
}

int sonde_uprobe_symbols_read(int fd, struct sonde_uprobe_symbols *out)
{
    struct stat st;
    struct sonde_guarded_map g = { 0 };
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) return SONDE_EIO;
    if (st.st_size < (off_t)sizeof(Elf64_Ehdr)) return SONDE_EFORMAT;
    if (sonde_guarded_map_open(fd, (size_t)st.st_size, &g, NULL)) return SONDE_EIO;
    int rc = sonde_uprobe_symbols_find(g.base, g.bytes, out);
    if (sonde_guarded_map_damaged(&g)) rc = SONDE_EIO;
    sonde_guarded_map_close(&g);
    return rc;
}
