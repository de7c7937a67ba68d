/* elf.c - where a module's .eh_frame, code and build id are, in its file or in memory.
 *
 * In a file the section headers say exactly where .eh_frame is. In memory, and in files that were
 * stripped of section headers, PT_GNU_EH_FRAME leads to .eh_frame_hdr, which says where it
 * begins; where it ends follows from the last entry that its search table names. Programs linked
 * with -static have section headers only. */
#include <elf.h>
#include <string.h>

#include "unwind/arch_x86_64.h"
#include "unwind/eh_frame.h"

#define PAGE 4096u
#define PHDRS_MAX 64u
#define SHDRS_MAX 4096u
#define NOTES_MAX 1024u

struct unwind_elf_image {
    const struct sonde__elf_reader *reader;
    Elf64_Ehdr ehdr;
    Elf64_Phdr phdrs[PHDRS_MAX];
    uint32_t phdr_count;
};

static int unwind_elf_read_at(const struct unwind_elf_image *i, uint64_t at, void *out, size_t len)
{
    return i->reader->read(i->reader->arg, at, out, len);
}

static int read_headers(struct unwind_elf_image *i)
{
    const Elf64_Ehdr *h = &i->ehdr;
    if (unwind_elf_read_at(i, 0, &i->ehdr, sizeof(i->ehdr))) return -1;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != SONDE__ARCH_ELF_MACHINE) return -1;
    if (h->e_type != ET_EXEC && h->e_type != ET_DYN) return -1;
    if (h->e_phentsize != sizeof(Elf64_Phdr) || !h->e_phnum || h->e_phnum > PHDRS_MAX) return -1;
    i->phdr_count = h->e_phnum;
    return unwind_elf_read_at(i, h->e_phoff, i->phdrs, h->e_phnum * sizeof(Elf64_Phdr));
}

static int read_loads(const struct unwind_elf_image *i, struct sonde__elf_info *out)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t n = 0; n < i->phdr_count; n++) {
        const Elf64_Phdr *p = &i->phdrs[n];
        if (p->p_type != PT_LOAD) continue;
        if (p->p_vaddr < first) first = p->p_vaddr;
        if (!(p->p_flags & PF_X) || out->text_count == SONDE__ELF_TEXTS) continue;
        out->texts[out->text_count++] =
            (struct sonde__elf_text){ p->p_offset, p->p_filesz, p->p_vaddr };
    }
    if (first == UINT64_MAX) return -1;
    out->first_addr = first & ~(uint64_t)(PAGE - 1);
    out->entry = i->ehdr.e_entry > out->first_addr ? i->ehdr.e_entry - out->first_addr : 0;
    return 0;
}

/* Where the reader finds an address as linked; *room is what is left of its segment. */
static int unwind_elf_locate(const struct unwind_elf_image *i, const struct sonde__elf_info *info,
                             uint64_t addr, uint64_t *at, uint64_t *room)
{
    for (uint32_t n = 0; n < i->phdr_count; n++) {
        const Elf64_Phdr *p = &i->phdrs[n];
        if (p->p_type != PT_LOAD || addr < p->p_vaddr || addr - p->p_vaddr >= p->p_filesz) continue;
        *at = i->reader->memory ? addr - info->first_addr : addr - p->p_vaddr + p->p_offset;
        *room = p->p_filesz - (addr - p->p_vaddr);
        return 0;
    }
    return -1;
}

/* ---- Build id ----------------------------------------------------------------------------- */

static void find_in_note(const uint8_t *data, size_t len, struct sonde__elf_info *out)
{
    Elf64_Nhdr n;
    size_t at = 0;
    while (!out->build_id_len && len - at >= sizeof(n)) {
        memcpy(&n, data + at, sizeof(n));
        at += sizeof(n);
        const uint64_t name = ((uint64_t)n.n_namesz + 3) & ~3ull;
        const uint64_t desc = ((uint64_t)n.n_descsz + 3) & ~3ull;
        if (name > len - at || n.n_descsz > len - at - name) return;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(data + at, "GNU", 4)) {
            out->build_id_len = n.n_descsz < SONDE__ELF_BUILD_ID ? n.n_descsz : SONDE__ELF_BUILD_ID;
            memcpy(out->build_id, data + at + name, out->build_id_len);
            return;
        }
        if (desc > len - at - name) return;
        at += (size_t)(name + desc);
    }
}

static void find_build_id(const struct unwind_elf_image *i, struct sonde__elf_info *out)
{
    for (uint32_t n = 0; n < i->phdr_count && !out->build_id_len; n++) {
        const Elf64_Phdr *p = &i->phdrs[n];
        uint8_t note[NOTES_MAX];
        uint64_t at, room;
        if (p->p_type != PT_NOTE || unwind_elf_locate(i, out, p->p_vaddr, &at, &room)) continue;
        size_t len = p->p_filesz < room ? (size_t)p->p_filesz : (size_t)room;
        if (len > sizeof(note)) len = sizeof(note);
        if (!unwind_elf_read_at(i, at, note, len)) find_in_note(note, len, out);
    }
}

/* ---- .eh_frame ---------------------------------------------------------------------------- */

static int find_section(const struct unwind_elf_image *i, struct sonde__elf_info *out)
{
    static const char name[] = ".eh_frame";
    const Elf64_Ehdr *h = &i->ehdr;
    Elf64_Shdr strings, s;
    if (i->reader->memory || h->e_shentsize != sizeof(s) || h->e_shnum > SHDRS_MAX ||
        h->e_shstrndx >= h->e_shnum) return -1;
    if (h->e_shoff > UINT64_MAX / 2) return -1;
    if (unwind_elf_read_at(i, h->e_shoff + h->e_shstrndx * sizeof(s), &strings, sizeof(strings))) {
        return -1;
    }
    for (uint32_t n = 1; n < h->e_shnum; n++) {
        char text[sizeof(name)];
        if (unwind_elf_read_at(i, h->e_shoff + n * sizeof(s), &s, sizeof(s))) return -1;
        if (!(s.sh_flags & SHF_ALLOC) || s.sh_type == SHT_NOBITS) continue;
        if (strings.sh_offset > UINT64_MAX / 2 || s.sh_name >= strings.sh_size) continue;
        if (unwind_elf_read_at(i, strings.sh_offset + s.sh_name, text, sizeof(text))) continue;
        if (memcmp(text, name, sizeof(name))) continue;
        out->eh_frame_at = s.sh_offset;
        out->eh_frame_len = s.sh_size;
        out->eh_frame_addr = s.sh_addr - out->first_addr;
        return 0;
    }
    return -1;
}

#define HDR_HEAD 32u          /* version, three encodings, two pointers of at most 8 bytes */
#define TABLE_ENCODING 0x3b   /* relative to the header, signed, four bytes: what linkers write */
#define TABLE_BLOCK 256u

/* The highest offset from the header that the search table has for an entry; -1: no table. */
static int last_entry(const struct unwind_elf_image *i, uint64_t table, uint64_t count,
                      int64_t *last)
{
    int32_t pairs[TABLE_BLOCK][2]; /* where a function begins, where its entry is */
    *last = INT64_MIN;
    for (uint64_t done = 0; done < count;) {
        const size_t n = count - done < TABLE_BLOCK ? (size_t)(count - done) : TABLE_BLOCK;
        if (unwind_elf_read_at(i, table + done * sizeof(pairs[0]), pairs, n * sizeof(pairs[0]))) {
            return -1;
        }
        for (size_t k = 0; k < n; k++) {
            if (pairs[k][1] > *last) *last = pairs[k][1];
        }
        done += n;
    }
    return count ? 0 : -1;
}

static int find_by_header(const struct unwind_elf_image *i, struct sonde__elf_info *out)
{
    const Elf64_Phdr *p = NULL;
    uint8_t head[HDR_HEAD];
    uint64_t at, room, start, frame_room, count;
    int64_t last;
    uint32_t len = 0;
    for (uint32_t n = 0; n < i->phdr_count; n++) {
        if (i->phdrs[n].p_type == PT_GNU_EH_FRAME) p = &i->phdrs[n];
    }
    if (!p || unwind_elf_locate(i, out, p->p_vaddr, &at, &room)) return -1;
    const size_t head_len = room < sizeof(head) ? (size_t)room : sizeof(head);
    if (head_len < 4 || unwind_elf_read_at(i, at, head, head_len) || head[0] != 1) return -1;

    const struct sonde__unwind_source s = { .eh_frame = head,
                                            .eh_frame_addr = p->p_vaddr - out->first_addr,
                                            .data_addr = p->p_vaddr - out->first_addr,
                                            .first_addr = out->first_addr };
    struct sonde__cursor c = { head + 4, head + head_len, 0 };
    start = sonde__eh_pointer(&s, &c, head[1]);
    if (c.bad || unwind_elf_locate(i, out, start + out->first_addr, &at, &frame_room)) return -1;
    out->eh_frame_at = at;
    out->eh_frame_addr = start;
    out->eh_frame_len = frame_room;
    out->data_addr = s.data_addr;

    /* Without a table the rest of the segment is taken, and what is not frames will be bad. */
    if (head[2] == 0xff || head[3] != TABLE_ENCODING) return 0;
    count = sonde__eh_pointer(&s, &c, head[2]) + (head[2] & 0x70 ? 0 : out->first_addr);
    const uint64_t table = s.data_addr + (uint64_t)(c.p - head);
    if (c.bad || count > room / 8) return 0;
    if (unwind_elf_locate(i, out, table + out->first_addr, &at, &room)) return 0;
    if (last_entry(i, at, count, &last)) return 0;
    const uint64_t from = s.data_addr + (uint64_t)last - start;
    if (from >= frame_room || frame_room - from < 8) return 0;
    if (unwind_elf_read_at(i, out->eh_frame_at + from, &len, sizeof(len))) return 0;
    if (len < UINT32_MAX && len <= frame_room - from - 4) out->eh_frame_len = from + 4 + len;
    return 0;
}

int sonde__elf_find(const struct sonde__elf_reader *r, struct sonde__elf_info *out)
{
    struct unwind_elf_image i = { .reader = r };
    *out = (struct sonde__elf_info){ 0 };
    if (read_headers(&i) || read_loads(&i, out)) return -1;
    find_build_id(&i, out);
    if (find_section(&i, out) && find_by_header(&i, out)) out->eh_frame_len = 0;
    if (out->eh_frame_len > SONDE__EH_FRAME_MAX) out->eh_frame_len = 0;
    return 0;
}

int sonde__elf_first_byte(const struct sonde__elf_info *e, uint64_t start, uint64_t offset,
                          uint64_t *first)
{
    const uint64_t page = PAGE - 1;
    for (int exact = 1; exact >= 0; exact--) {
        for (uint32_t n = 0; n < e->text_count; n++) {
            const struct sonde__elf_text *t = &e->texts[n];
            const uint64_t from = t->offset & ~page;
            if (exact ? offset != from : offset < from || offset - from >= t->len + page) continue;
            *first = start - (offset - t->offset + t->addr - e->first_addr);
            return 0;
        }
    }
    return -1;
}
