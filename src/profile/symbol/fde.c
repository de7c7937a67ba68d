/* fde.c - functions without names. A stripped file still has the tables that exceptions are
 * unwound by, and .eh_frame_hdr lists where each function starts: enough to tell functions apart,
 * where single addresses would make a hundred rows of one. Programs that are linked statically have
 * no such list, and then .eh_frame itself is read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "profile/symbol/elf.h"
#include "sonde/sonde.h"

enum { HEADER_BYTES = 12, ENTRY_BYTES = 8, FDE_BYTES = 16 };

/* As every linker writes it: version 1, pointers and counts of 32 bits, entries from the header. */
static const uint8_t usual[4] = { 1, 0x1b, 0x03, 0x3b };

struct symbol_fde_part {               /* a section in the file */
    uint64_t addr;
    const uint8_t *bytes;
    size_t len;
};

static struct symbol_fde_part find_part(Elf *elf, const char *name)
{
    size_t names;
    if (elf_getshdrstrndx(elf, &names) != 0) return (struct symbol_fde_part){ 0 };
    for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s)) {
        GElf_Shdr header;
        if (!gelf_getshdr(s, &header) || header.sh_type == SHT_NOBITS) continue;
        const char *found = elf_strptr(elf, names, header.sh_name);
        if (!found || strcmp(found, name) != 0) continue;
        const Elf_Data *data = elf_rawdata(s, NULL);
        if (data && data->d_buf) {
            return (struct symbol_fde_part){ header.sh_addr, data->d_buf, data->d_size };
        }
    }
    return (struct symbol_fde_part){ 0 };
}

static int32_t read_i32(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

/* How long the function of the FDE at addr is; 0 = it is not there, or of another function. */
static uint64_t fde_len(const struct symbol_fde_part *frames, uint64_t addr, uint64_t start)
{
    const uint64_t at = addr - frames->addr;
    if (addr < frames->addr || frames->len < FDE_BYTES || at > frames->len - FDE_BYTES) return 0;
    const uint8_t *p = frames->bytes + at;
    const uint64_t begins = addr + 8 + (uint64_t)(int64_t)read_i32(p + 8);
    return begins == start ? (uint32_t)read_i32(p + 12) : 0;
}

static int symbol_fde_add_function(struct sonde_symbol_elf *e, uint64_t start, uint64_t len)
{
    if (len == 0 || len > UINT64_MAX - start) return 0;
    const struct sonde_symbol_range r = { .start = start, .end = start + len, .value = start };
    return sonde_symbol_table_add(&e->nameless.functions, &r);
}

/* ---- .eh_frame, entry by entry --------------------------------------------------------------- */

static size_t skip_leb(const uint8_t *p, size_t at, size_t end)
{
    while (at < end && p[at] & 0x80) at++;
    return at + 1;
}

/* Bytes of an encoded pointer; 0 = of a length that it says itself, or unknown. */
static size_t pointer_bytes(uint8_t encoding)
{
    switch (encoding & 0x0f) {
    case 0x00: case 0x04: case 0x0c: return 8;
    case 0x02: case 0x0a: return 2;
    case 0x03: case 0x0b: return 4;
    default: return 0;
    }
}

/* How a CIE (at its version, up to end) says that its FDEs write pointers; 0xff = not
 * understood. */
static uint8_t cie_encoding(const uint8_t *p, size_t at, size_t end)
{
    uint8_t encoding = 0;
    if (at >= end) return 0xff;
    const uint8_t version = p[at++];
    const char *augmentation = (const char *)p + at;
    const size_t len = strnlen(augmentation, end - at);
    if (len == end - at || (version != 1 && version != 3)) return 0xff;
    if (len && augmentation[0] != 'z') return 0xff;
    at = skip_leb(p, at + len + 1, end);      /* code alignment */
    at = skip_leb(p, at, end);                /* data alignment */
    at = version == 1 ? at + 1 : skip_leb(p, at, end); /* return address */
    if (len) at = skip_leb(p, at, end);       /* length of what follows */
    for (size_t i = 1; i < len; i++) {
        if (at >= end) return 0xff;
        if (augmentation[i] == 'R') encoding = p[at++];
        else if (augmentation[i] == 'L') at++;
        else if (augmentation[i] == 'P') at += 1 + pointer_bytes(p[at]);
        else if (augmentation[i] != 'S' && augmentation[i] != 'B') return 0xff;
    }
    return encoding;
}

/* The first pointer of an FDE, at this place and address, and behind it a length. */
static int fde_range(const uint8_t *p, size_t room, uint64_t addr, uint8_t encoding,
                     uint64_t *start, uint64_t *len)
{
    const size_t bytes = pointer_bytes(encoding);
    if (bytes < 4 || room < 2 * bytes || (encoding & 0x70) > 0x10) return -1;
    if (bytes == 8) {
        memcpy(start, p, 8);
        memcpy(len, p + 8, 8);
    } else {
        *start = encoding & 8 ? (uint64_t)(int64_t)read_i32(p) : (uint32_t)read_i32(p);
        *len = (uint32_t)read_i32(p + 4);
    }
    if (encoding & 0x10) *start += addr;
    return 0;
}

static int read_frames(struct sonde_symbol_elf *e, const struct symbol_fde_part *frames)
{
    const uint8_t *p = frames->bytes;
    size_t cie = SIZE_MAX;      /* whose encoding is known */
    uint8_t encoding = 0xff;
    for (size_t at = 0, next; frames->len - at >= 8; at = next) {
        const size_t len = (uint32_t)read_i32(p + at);
        const size_t id = (uint32_t)read_i32(p + at + 4);
        if (len < 4 || len > frames->len - at - 4) break;
        next = at + 4 + len;
        if (id == 0 || id > at + 4) continue;
        const size_t of = at + 4 - id;
        if (of != cie) {
            const size_t cie_len = (uint32_t)read_i32(p + of);
            if (cie_len < 4 || cie_len > frames->len - of - 4) continue;
            cie = of;
            encoding = cie_encoding(p, of + 8, of + 4 + cie_len);
        }
        uint64_t start, size;
        if (encoding == 0xff ||
            fde_range(p + at + 8, next - at - 8, frames->addr + at + 8, encoding, &start, &size)) {
            continue;
        }
        const int rc = symbol_fde_add_function(e, start, size);
        if (rc) return rc;
    }
    return 0;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int read_table(struct sonde_symbol_elf *e)
{
    const struct symbol_fde_part header = find_part(e->elf, ".eh_frame_hdr");
    const struct symbol_fde_part frames = find_part(e->elf, ".eh_frame");
    if (header.len < HEADER_BYTES || memcmp(header.bytes, usual, sizeof(usual)) != 0) {
        const int rc = frames.len ? read_frames(e, &frames) : 0;
        sonde_symbol_table_seal(&e->nameless.functions);
        return rc;
    }
    const size_t room = (header.len - HEADER_BYTES) / ENTRY_BYTES;
    const size_t told = (uint32_t)read_i32(header.bytes + 8);
    for (size_t i = 0; i < room && i < told; i++) {
        const uint8_t *p = header.bytes + HEADER_BYTES + i * ENTRY_BYTES;
        const uint64_t start = header.addr + (uint64_t)(int64_t)read_i32(p);
        const uint64_t fde = header.addr + (uint64_t)(int64_t)read_i32(p + 4);
        const int rc = symbol_fde_add_function(e, start, fde_len(&frames, fde, start));
        if (rc) return rc;
    }
    sonde_symbol_table_seal(&e->nameless.functions);
    return 0;
}

static const struct sonde_symbol_table *functions_of(struct sonde_symbol_elf *e)
{
    struct sonde_symbol_nameless *n = &e->nameless;
    if (!n->made) {
        n->made = 1;
        if (read_table(e) != 0) sonde_symbol_table_release(&n->functions);
    }
    return &n->functions;
}

uint64_t sonde_symbol_fde_end(struct sonde_symbol_elf *e, uint64_t start)
{
    const struct sonde_symbol_table *t = functions_of(e);
    const struct sonde_symbol_range *r = sonde_symbol_table_find(t, start);
    return r ? r->end : sonde_symbol_table_next(t, start);
}

/* Where the segment of code begins that vaddr is in; UINT64_MAX = it is in none. */
static uint64_t segment_start(const struct sonde_symbol_elf *e, uint64_t vaddr)
{
    size_t count;
    if (elf_getphdrnum(e->elf, &count) != 0 || count > INT32_MAX) return UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        GElf_Phdr p;
        if (!gelf_getphdr(e->elf, (int)i, &p)) break;
        if (p.p_type == PT_LOAD && p.p_flags & PF_X && vaddr >= p.p_vaddr &&
            vaddr - p.p_vaddr < p.p_memsz) {
            return p.p_vaddr;
        }
    }
    return UINT64_MAX;
}

static uint64_t max_of(uint64_t a, uint64_t b) { return a > b ? a : b; }

const char *sonde_symbol_fde_find(struct sonde_symbol_elf *e, uint64_t vaddr)
{
    struct sonde_symbol_nameless *n = &e->nameless;
    const struct sonde_symbol_table *t = functions_of(e);
    const struct sonde_symbol_range *r = sonde_symbol_table_find(t, vaddr);
    uint64_t start;
    if (r) {
        start = r->value;
    } else {
        start = segment_start(e, vaddr);
        if (start == UINT64_MAX) return NULL;
        start = max_of(start, max_of(sonde_symbol_table_reach(t, vaddr),
                                     sonde_symbol_table_reach(&e->symbols, vaddr)));
        if (start > vaddr) start = vaddr; /* ranges that overlap: alone, then */
    }
    snprintf(n->text, sizeof(n->text), "%s+0x%" PRIx64, sonde_path_base(e->name), start);
    return n->text;
}
