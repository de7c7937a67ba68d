#include "unwind/eh_frame.h"

#include <string.h>

/* DW_EH_PE_…: how a pointer is written (low four bits), what it is relative to (next three). */
enum {
    PE_ABSPTR = 0x00, PE_ULEB = 0x01, PE_UDATA2 = 0x02, PE_UDATA4 = 0x03, PE_UDATA8 = 0x04,
    PE_SLEB = 0x09, PE_SDATA2 = 0x0a, PE_SDATA4 = 0x0b, PE_SDATA8 = 0x0c,
    PE_PCREL = 0x10, PE_TEXTREL = 0x20, PE_DATAREL = 0x30, PE_ALIGNED = 0x50,
    PE_INDIRECT = 0x80, PE_OMIT = 0xff
};

#define NO_CIE UINT64_MAX

/* ---- Bytes -------------------------------------------------------------------------------- */

static void eh_frame_spoil(struct sonde__cursor *c)
{
    c->p = c->end;
    c->bad = 1;
}

static size_t eh_frame_left(const struct sonde__cursor *c) { return (size_t)(c->end - c->p); }

uint64_t sonde__cursor_fixed(struct sonde__cursor *c, size_t bytes)
{
    uint64_t v = 0;
    if (eh_frame_left(c) < bytes) {
        eh_frame_spoil(c);
        return 0;
    }
    for (size_t i = 0; i < bytes; i++) v |= (uint64_t)c->p[i] << (8 * i);
    c->p += bytes;
    return v;
}

uint64_t sonde__cursor_uleb(struct sonde__cursor *c)
{
    uint64_t v = 0;
    for (uint32_t shift = 0; c->p < c->end; shift += 7) {
        const uint8_t byte = *c->p++;
        if (shift < 64) v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return v;
    }
    eh_frame_spoil(c);
    return 0;
}

int64_t sonde__cursor_sleb(struct sonde__cursor *c)
{
    uint64_t v = 0;
    uint32_t shift = 0;
    while (c->p < c->end) {
        const uint8_t byte = *c->p++;
        if (shift < 64) v |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (byte & 0x80) continue;
        if (shift < 64 && (byte & 0x40)) v |= UINT64_MAX << shift;
        return (int64_t)v;
    }
    eh_frame_spoil(c);
    return 0;
}

struct sonde__cursor sonde__cursor_block(struct sonde__cursor *c, uint64_t len)
{
    if (eh_frame_left(c) < len) eh_frame_spoil(c);
    const struct sonde__cursor block = { c->p, c->bad ? c->p : c->p + len, c->bad };
    c->p = block.end;
    return block;
}

/* ---- Pointers ----------------------------------------------------------------------------- */

static uint64_t plain_value(struct sonde__cursor *c, uint8_t format)
{
    switch (format & 0x0f) {
    case PE_ABSPTR:
    case PE_UDATA8:
    case PE_SDATA8:
        return sonde__cursor_fixed(c, 8);
    case PE_ULEB:
        return sonde__cursor_uleb(c);
    case PE_SLEB:
        return (uint64_t)sonde__cursor_sleb(c);
    case PE_UDATA2:
        return sonde__cursor_fixed(c, 2);
    case PE_UDATA4:
        return sonde__cursor_fixed(c, 4);
    case PE_SDATA2:
        return (uint64_t)(int64_t)(int16_t)sonde__cursor_fixed(c, 2);
    case PE_SDATA4:
        return (uint64_t)(int64_t)(int32_t)sonde__cursor_fixed(c, 4);
    default:
        eh_frame_spoil(c);
        return 0;
    }
}

static uint64_t eh_frame_address_of(const struct sonde__unwind_source *s, const uint8_t *p)
{
    return s->eh_frame_addr + (uint64_t)(p - s->eh_frame);
}

uint64_t sonde__eh_pointer(const struct sonde__unwind_source *s, struct sonde__cursor *c,
                           uint8_t encoding)
{
    if (encoding == PE_ALIGNED) {
        const uint64_t pad = -(s->first_addr + eh_frame_address_of(s, c->p)) & 7;
        sonde__cursor_block(c, pad);
        return sonde__cursor_fixed(c, 8) - s->first_addr;
    }
    const uint64_t at = eh_frame_address_of(s, c->p);
    const uint64_t v = plain_value(c, encoding);
    switch (encoding & 0xf0) {
    case PE_ABSPTR:
        return v - s->first_addr;
    case PE_PCREL:
        return v + at;
    case PE_TEXTREL:
        return v + s->text_addr;
    case PE_DATAREL:
        return v + s->data_addr;
    default: /* function-relative, or through memory: no function's start is written so */
        eh_frame_spoil(c);
        return 0;
    }
}

/* ---- Entries ------------------------------------------------------------------------------ */

struct eh_frame_entry {
    struct sonde__cursor body; /* behind the id */
    uint64_t id_at;            /* offset of the id in .eh_frame */
    uint32_t id;               /* 0: a CIE; else how far back from id_at the CIE is */
    size_t next;               /* offset of what follows */
};

/* 0, 1 for a zero word (a terminator; linkers leave some in the middle), -1 when the rest of the
 * section cannot be followed. */
static int read_entry(const struct sonde__unwind_source *s, size_t at, struct eh_frame_entry *e)
{
    struct sonde__cursor c = { s->eh_frame + at, s->eh_frame + s->eh_frame_len, 0 };
    uint64_t len = sonde__cursor_fixed(&c, 4);
    if (c.bad) return -1;
    if (!len) {
        e->next = at + 4;
        return 1;
    }
    if (len == UINT32_MAX) len = sonde__cursor_fixed(&c, 8);
    e->body = sonde__cursor_block(&c, len);
    if (c.bad) return -1;
    e->next = (size_t)(c.p - s->eh_frame);
    e->id_at = (uint64_t)(e->body.p - s->eh_frame);
    e->id = (uint32_t)sonde__cursor_fixed(&e->body, 4); /* also after a 64-bit length */
    return 0;
}

/* What the letters of the augmentation string stand for. 0, or -1: not known how to go on. */
static int read_augmentation(const struct sonde__unwind_source *s, const char *text,
                             struct sonde__cursor *c, struct sonde__cie *cie)
{
    struct sonde__cursor data = *c;
    for (; *text; text++) {
        switch (*text) {
        case 'z':
            cie->sized = 1;
            data = sonde__cursor_block(c, sonde__cursor_uleb(c));
            break;
        case 'R':
            cie->encoding = (uint8_t)sonde__cursor_fixed(&data, 1);
            break;
        case 'P': {
            const uint8_t encoding = (uint8_t)sonde__cursor_fixed(&data, 1);
            if (encoding == PE_OMIT) break;
            sonde__eh_pointer(s, &data, encoding & (uint8_t)~PE_INDIRECT);
            break;
        }
        case 'L':
            sonde__cursor_fixed(&data, 1);
            break;
        case 'S': /* a signal frame: its rules say so too */
            break;
        default:
            /* With a length the data of unknown letters can be passed over. */
            return cie->sized && !c->bad && !data.bad ? 0 : -1;
        }
    }
    if (!cie->sized) *c = data;
    return c->bad || data.bad ? -1 : 0;
}

/* The programs of real CIEs have some ten bytes. One of megabytes would be run again for every
 * FDE that follows another CIE's. */
#define CIE_PROGRAM_MAX 512

static int read_cie(const struct sonde__unwind_source *s, uint64_t at, struct sonde__cie *cie)
{
    struct eh_frame_entry e;
    if (at >= s->eh_frame_len || read_entry(s, (size_t)at, &e) || e.id) return -1;
    struct sonde__cursor c = e.body;
    *cie = (struct sonde__cie){ .encoding = PE_ABSPTR };

    const uint64_t version = sonde__cursor_fixed(&c, 1);
    const char *text = (const char *)c.p;
    const uint8_t *nul = memchr(c.p, 0, eh_frame_left(&c));
    if ((version != 1 && version != 3 && version != 4) || !nul) return -1;
    c.p = nul + 1;
    if (!strncmp(text, "eh", 2)) { /* ancient GCC: a pointer */
        sonde__cursor_fixed(&c, 8);
        text += 2;
    }
    /* Size of an address, then of a segment selector. */
    if (version == 4 && sonde__cursor_fixed(&c, 2) != 8) return -1;
    cie->code_align = sonde__cursor_uleb(&c);
    cie->data_align = sonde__cursor_sleb(&c);
    cie->ra_reg = version == 1 ? sonde__cursor_fixed(&c, 1) : sonde__cursor_uleb(&c);
    if (c.bad || read_augmentation(s, text, &c, cie)) return -1;
    cie->program = c;
    return eh_frame_left(&c) > CIE_PROGRAM_MAX ? -1 : 0;
}

static int read_fde(const struct sonde__unwind_source *s, const struct eh_frame_entry *e,
                    const struct sonde__cie *cie, struct sonde__fde *fde)
{
    struct sonde__cursor c = e->body;
    fde->start = sonde__eh_pointer(s, &c, cie->encoding);
    const uint64_t len = plain_value(&c, cie->encoding == PE_ALIGNED ? PE_ABSPTR : cie->encoding);
    if (cie->sized) sonde__cursor_block(&c, sonde__cursor_uleb(&c));
    if (c.bad || !len || fde->start > UINT32_MAX || len > UINT32_MAX - fde->start) return -1;
    fde->end = fde->start + len;
    fde->program = c;
    return 0;
}

enum sonde__entry sonde__eh_entry(const struct sonde__unwind_source *s, size_t *at,
                                  struct sonde__cie *cie, uint64_t *cie_at,
                                  struct sonde__fde *fde)
{
    struct eh_frame_entry e;
    int rc;
    do {
        if (*at >= s->eh_frame_len) return SONDE__ENTRY_LAST;
        rc = read_entry(s, *at, &e);
        /* Behind damage nothing can be found: no mark says where an entry begins. */
        *at = rc < 0 ? s->eh_frame_len : e.next;
    } while (rc == 1);
    if (rc || e.body.bad) return SONDE__ENTRY_BAD;
    if (!e.id) return SONDE__ENTRY_CIE;

    if (e.id > e.id_at) return SONDE__ENTRY_BAD;
    fde->cie_at = e.id_at - e.id;
    if (*cie_at != fde->cie_at) {
        *cie_at = NO_CIE;
        if (read_cie(s, fde->cie_at, cie)) return SONDE__ENTRY_BAD;
        *cie_at = fde->cie_at;
    }
    return read_fde(s, &e, cie, fde) ? SONDE__ENTRY_BAD : SONDE__ENTRY_FDE;
}
