/* symbol_fde.c - functions without names. A stripped file still has the tables that exceptions are
 * unwound by, and .eh_frame_hdr lists where each function starts: enough to tell functions apart,
 * where single addresses would make a hundred rows of one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "profile/symbol_elf.h"
#include "sonde/sonde.h"

enum { HEADER_BYTES = 12, ENTRY_BYTES = 8, FDE_BYTES = 16 };

/* As every linker writes it: version 1, pointers and counts of 32 bits, entries from the header. */
static const uint8_t usual[4] = { 1, 0x1b, 0x03, 0x3b };

struct part {               /* a section in the file */
    uint64_t addr;
    const uint8_t *bytes;
    size_t len;
};

static struct part find_part(Elf *elf, const char *name)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names) != 0) return (struct part){ 0 };
    for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s)) {
        GElf_Shdr header;
        if (!gelf_getshdr(s, &header) || header.sh_type == SHT_NOBITS) continue;
        const char *found = elf_strptr(elf, names, header.sh_name);
        if (!found || strcmp(found, name) != 0) continue;
        const Elf_Data *data = elf_rawdata(s, NULL);
        if (data && data->d_buf) {
            return (struct part){ header.sh_addr, data->d_buf, data->d_size };
        }
    }
    return (struct part){ 0 };
}

static int32_t read_i32(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

/* How long the function of the FDE at addr is; 0 = it is not there, or of another function. */
static uint64_t fde_len(const struct part *frames, uint64_t addr, uint64_t start)
{
    const uint64_t at = addr - frames->addr;
    if (addr < frames->addr || frames->len < FDE_BYTES || at > frames->len - FDE_BYTES) return 0;
    const uint8_t *p = frames->bytes + at;
    const uint64_t begins = addr + 8 + (uint64_t)(int64_t)read_i32(p + 8);
    return begins == start ? (uint32_t)read_i32(p + 12) : 0;
}

static int read_table(struct sonde__symbol_elf *e)
{
    const struct part header = find_part(e->elf, ".eh_frame_hdr");
    const struct part frames = find_part(e->elf, ".eh_frame");
    if (header.len < HEADER_BYTES || memcmp(header.bytes, usual, sizeof(usual)) != 0) return 0;
    const size_t room = (header.len - HEADER_BYTES) / ENTRY_BYTES;
    const size_t told = (uint32_t)read_i32(header.bytes + 8);
    for (size_t i = 0; i < room && i < told; i++) {
        const uint8_t *p = header.bytes + HEADER_BYTES + i * ENTRY_BYTES;
        const uint64_t start = header.addr + (uint64_t)(int64_t)read_i32(p);
        const uint64_t fde = header.addr + (uint64_t)(int64_t)read_i32(p + 4);
        const uint64_t len = fde_len(&frames, fde, start);
        if (len == 0 || len > UINT64_MAX - start) continue;
        const struct sonde__symbol_range r = { .start = start, .end = start + len, .value = start };
        const int rc = sonde__symbol_table_add(&e->nameless.functions, &r);
        if (rc) return rc;
    }
    sonde__symbol_table_seal(&e->nameless.functions);
    return 0;
}

const char *sonde__symbol_fde_find(struct sonde__symbol_elf *e, uint64_t vaddr)
{
    struct sonde__symbol_nameless *n = &e->nameless;
    if (!n->made) {
        n->made = 1;
        if (read_table(e) != 0) sonde__symbol_table_release(&n->functions);
    }
    const struct sonde__symbol_range *r = sonde__symbol_table_find(&n->functions, vaddr);
    if (!r) return NULL;
    const char *slash = strrchr(e->name, '/');
    snprintf(n->text, sizeof(n->text), "%s+0x%" PRIx64, slash ? slash + 1 : e->name, r->value);
    return n->text;
}
