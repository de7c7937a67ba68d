/* plt.c - PLT stubs have no symbols. What a stub jumps to is read from its code: the slot of
 * the global offset table it jumps through, and the relocation that fills that slot. Unlike
 * counting stubs this holds for .plt, .plt.sec and .plt.got of every linker. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "profile/symbol/elf.h"
#include "sonde/sonde.h"

#define SLOTS_MAX (4u << 20)

struct sonde_symbol_got {
    uint64_t slot;
    const char *name;  /* NULL: filled with the address target (an ifunc of the file itself) */
    uint64_t target;
};

static int by_slot(const void *a, const void *b)
{
    const struct sonde_symbol_got *x = a, *y = b;
    return SONDE_CMP(x->slot, y->slot);
}

static int add_slot(struct sonde_symbol_plt *p, const struct sonde_symbol_got *g)
{
    const int rc = SONDE_ARRAY_ROOM_MAX(p->slots, p->count, p->cap, SLOTS_MAX);
    if (rc) return rc;
    p->slots[p->count++] = *g;
    return 0;
}

static void read_relocations(struct sonde_symbol_elf *e, Elf_Scn *section,
                             const GElf_Shdr *header)
{
    GElf_Shdr symbol_header;
    Elf_Scn *symbol_section = elf_getscn(e->elf, header->sh_link);
    Elf_Data *data = elf_getdata(section, NULL);
    Elf_Data *symbols = symbol_section ? elf_getdata(symbol_section, NULL) : NULL;
    if (!data || header->sh_entsize == 0) return;
    const size_t count = data->d_size / header->sh_entsize;
    for (size_t i = 0; i < count && i < INT32_MAX; i++) {
        GElf_Rela rela;
        GElf_Sym sym;
        if (!gelf_getrela(data, (int)i, &rela)) return;
        struct sonde_symbol_got g = { .slot = rela.r_offset, .target = (uint64_t)rela.r_addend };
        const size_t index = GELF_R_SYM(rela.r_info);
        if (index != 0) {
            if (!symbols || index > INT32_MAX || !gelf_getsym(symbols, (int)index, &sym) ||
                !gelf_getshdr(symbol_section, &symbol_header)) {
                continue;
            }
            g.name = elf_strptr(e->elf, symbol_header.sh_link, sym.st_name);
        }
        if (add_slot(&e->plt, &g) != 0) return;
    }
}

static void symbol_plt_make(struct sonde_symbol_elf *e)
{
    e->plt.made = 1;
    for (Elf_Scn *s = elf_nextscn(e->elf, NULL); s; s = elf_nextscn(e->elf, s)) {
        GElf_Shdr header;
        if (gelf_getshdr(s, &header) && header.sh_type == SHT_RELA &&
            (header.sh_flags & SHF_ALLOC)) {
            read_relocations(e, s, &header);
        }
    }
    if (e->plt.count) qsort(e->plt.slots, e->plt.count, sizeof(*e->plt.slots), by_slot);
}

static const char *slot_name(struct sonde_symbol_elf *e, uint64_t slot)
{
    assert(e->plt.made);
    const struct sonde_symbol_got key = { .slot = slot };
    const struct sonde_symbol_got *g =
        e->plt.count ? bsearch(&key, e->plt.slots, e->plt.count, sizeof(key), by_slot) : NULL;
    if (!g) return NULL;
    return g->name && g->name[0] ? g->name : sonde_symbol_elf_find(e, g->target);
}

/* The section around vaddr if it is a PLT. */
static Elf_Scn *plt_section(const struct sonde_symbol_elf *e, uint64_t vaddr, GElf_Shdr *header)
{
    size_t names;
    if (elf_getshdrstrndx(e->elf, &names) != 0) return NULL;
    for (Elf_Scn *s = elf_nextscn(e->elf, NULL); s; s = elf_nextscn(e->elf, s)) {
        if (!gelf_getshdr(s, header) || header->sh_type != SHT_PROGBITS) continue;
        if (vaddr < header->sh_addr || vaddr - header->sh_addr >= header->sh_size) continue;
        const char *name = elf_strptr(e->elf, names, header->sh_name);
        if (name && (strncmp(name, ".plt", 4) == 0 || strcmp(name, ".iplt") == 0)) return s;
    }
    return NULL;
}

/* x86-64: `jmp *rel32(%rip)` is ff 25 and the distance, counted from the end of the instruction;
 * endbr64 and a bnd prefix may precede it. */
static int jump_slot(const unsigned char *code, size_t len, uint64_t addr, uint64_t *slot)
{
    for (size_t i = 0; i + 6 <= len; i++) {
        int32_t distance;
        if (code[i] != 0xff || code[i + 1] != 0x25) continue;
        memcpy(&distance, code + i + 2, sizeof(distance));
        *slot = addr + i + 6 + (uint64_t)(int64_t)distance;
        return 1;
    }
    return 0;
}

/* The lazy half of a stub that .plt.sec belongs to: `push $n`, n = its relocation in .rela.plt. */
static const char *lazy_name(struct sonde_symbol_elf *e, const unsigned char *code, size_t len)
{
    size_t names;
    uint32_t n;
    const size_t at = len >= 4 && memcmp(code, "\xf3\x0f\x1e\xfa", 4) == 0 ? 4 : 0;
    if (at + 5 > len || code[at] != 0x68 || elf_getshdrstrndx(e->elf, &names) != 0) return NULL;
    memcpy(&n, code + at + 1, sizeof(n));
    for (Elf_Scn *s = elf_nextscn(e->elf, NULL); s; s = elf_nextscn(e->elf, s)) {
        GElf_Shdr header;
        GElf_Rela rela;
        if (!gelf_getshdr(s, &header) || header.sh_type != SHT_RELA) continue;
        const char *name = elf_strptr(e->elf, names, header.sh_name);
        if (!name || strcmp(name, ".rela.plt") != 0) continue;
        Elf_Data *data = elf_getdata(s, NULL);
        if (!data || n > INT32_MAX || !gelf_getrela(data, (int)n, &rela)) return NULL;
        return slot_name(e, rela.r_offset);
    }
    return NULL;
}

const char *sonde_symbol_plt_find(struct sonde_symbol_elf *e, uint64_t vaddr)
{
    GElf_Shdr header;
    uint64_t slot;
    if (e->machine != EM_X86_64) return NULL;
    Elf_Scn *section = plt_section(e, vaddr, &header);
    Elf_Data *data = section ? elf_getdata(section, NULL) : NULL;
    if (!data || !data->d_buf) return NULL;
    if (!e->plt.made) symbol_plt_make(e);
    const uint64_t size = header.sh_entsize == 8 ? 8 : 16;
    const uint64_t from = (vaddr - header.sh_addr) / size * size;
    if (from >= data->d_size) return NULL;
    const unsigned char *code = (const unsigned char *)data->d_buf + from;
    const size_t len = data->d_size - from < size ? data->d_size - from : size;
    const char *name = jump_slot(code, len, header.sh_addr + from, &slot)
                           ? slot_name(e, slot) : lazy_name(e, code, len);
    if (!name) return NULL;
    /* The suffix goes behind the demangled name: std::terminate@plt. */
    struct sonde_symbol_demangler *d = e->demangler;
    const char *text = sonde_symbol_demangle_versioned(d, name);
    snprintf(e->plt.text, sizeof(e->plt.text), "%.*s@plt", (int)SONDE_SYMBOL_TEXT_MAX, text);
    return e->plt.text;
}

void sonde_symbol_plt_release(struct sonde_symbol_plt *p)
{
    sonde__free(p->slots);
    *p = (struct sonde_symbol_plt){ 0 };
}
