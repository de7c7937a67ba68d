/* Tables from .eh_frame made by hand: every encoding, every instruction, damage of every kind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unwind/unwind.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define B(...) (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })

/* ---- Writing .eh_frame -------------------------------------------------------------------- */

struct frames {
    uint8_t bytes[4096];
    size_t len;
    size_t cie; /* offset of the last one */
};

static void put(struct frames *f, const void *data, size_t len)
{
    assert_true(f->len + len <= sizeof(f->bytes));
    memcpy(f->bytes + f->len, data, len);
    f->len += len;
}

static void put_int(struct frames *f, uint64_t v, size_t len) { put(f, &v, len); }

/* Length and id, with the length to be set by end_entry. wide: a 64-bit length. */
static size_t begin_entry(struct frames *f, int wide, size_t cie)
{
    if (wide) put_int(f, UINT32_MAX, 4);
    const size_t at = f->len;
    put_int(f, 0, wide ? 8 : 4);
    put_int(f, cie == SIZE_MAX ? 0 : f->len - cie, 4);
    return at;
}

static void end_entry(struct frames *f, size_t at, int wide)
{
    while (f->len % 4) put_int(f, 0, 1); /* nops */
    const uint64_t len = f->len - at - (wide ? 8 : 4);
    memcpy(f->bytes + at, &len, wide ? 8 : 4);
}

/* code 1, data -8, ra 16; rules: CFA = sp + 8, ra at CFA - 8. aug: NULL = "zR" and encoding. */
static void put_cie(struct frames *f, uint8_t version, uint8_t encoding, int wide)
{
    f->cie = f->len;
    const size_t at = begin_entry(f, wide, SIZE_MAX);
    put_int(f, version, 1);
    put(f, "zR", 3);
    if (version == 4) put_int(f, 8, 2);
    put(f, B(1, 0x78, 16, 1, encoding));
    put(f, B(0x0c, 7, 8, 0x90, 1));
    end_entry(f, at, wide);
}

static void put_fde(struct frames *f, uint32_t start, uint32_t len, const uint8_t *program,
                    size_t program_len)
{
    const size_t at = begin_entry(f, 0, f->cie);
    put_int(f, start - (uint32_t)f->len, 4); /* pc-relative, .eh_frame at address 0 */
    put_int(f, len, 4);
    put_int(f, 0, 1);
    put(f, program, program_len);
    end_entry(f, at, 0);
}

struct table {
    struct sonde__unwind_row rows[512];
    struct sonde__unwind_table t;
    uint32_t bad;
};

static void compile_source(const struct sonde__unwind_source *s, struct table *out)
{
    const size_t room = sonde__unwind_compile(s, NULL, 0, &out->bad);
    assert_true(room <= COUNT(out->rows));
    out->t.rows = out->rows;
    out->t.count = (uint32_t)sonde__unwind_compile(s, out->rows, room, &out->bad);
    for (uint32_t i = 1; i < out->t.count; i++) {
        assert_true(out->rows[i - 1].pc < out->rows[i].pc);
    }
}

static void compile(const struct frames *f, struct table *out)
{
    const struct sonde__unwind_source s = { .eh_frame = f->bytes, .eh_frame_len = f->len };
    compile_source(&s, out);
}

static struct sonde__unwind_row row_at(const struct table *t, uint32_t pc)
{
    const struct sonde__unwind_row *r = sonde__unwind_lookup(&t->t, pc);
    return r ? *r : (struct sonde__unwind_row){ .cfa = 255 };
}

static void assert_row(const struct table *t, uint32_t pc, int cfa, int32_t cfa_off)
{
    const struct sonde__unwind_row r = row_at(t, pc);
    assert_int_equal(r.cfa, cfa);
    assert_int_equal(r.cfa_off, cfa_off);
}

/* ---- Programs ----------------------------------------------------------------------------- */

enum { SAME = SONDE__SAVED_SAME, AT_CFA = SONDE__SAVED_AT_CFA, AT_BP = SONDE__SAVED_AT_BP,
       IN_REG = SONDE__SAVED_IN_REG, LOST = SONDE__SAVED_LOST, JUMPS = SONDE__SAVED_JUMPS >> 4 };

static void instructions(void **state)
{
    (void)state;
    /* The rule that holds at byte 5 of a function of 16 bytes. */
    static const struct {
        const char *name;
        uint8_t program[40];
        size_t len;
        int bad, cfa;
        int32_t cfa_off;
        int cfa_off2, bp, bp_off, bx, bx_off, ra_off;
    } cases[] = {
#define P(...) { __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ })
        { "nothing", P(0), 0, SONDE__CFA_SP, 8, 0, SAME, 0, SAME, 0, -8 },
        { "push rbp", P(0x41, 0x0e, 16, 0x86, 2), 0, SONDE__CFA_SP, 16, 0, AT_CFA, -16, SAME, 0,
          -8 },
        { "rbp frame", P(0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6), 0, SONDE__CFA_BP, 16, 0, AT_CFA,
          -16, SAME, 0, -8 },
        { "later than 5", P(0x46, 0x0e, 16), 0, SONDE__CFA_SP, 8, 0, SAME, 0, SAME, 0, -8 },
        { "advance1", P(0x02, 5, 0x0e, 32), 0, SONDE__CFA_SP, 32, 0, SAME, 0, SAME, 0, -8 },
        { "advance2", P(0x03, 5, 0, 0x0e, 32), 0, SONDE__CFA_SP, 32, 0, SAME, 0, SAME, 0, -8 },
        { "advance4", P(0x04, 5, 0, 0, 0, 0x0e, 32), 0, SONDE__CFA_SP, 32, 0, SAME, 0, SAME, 0,
          -8 },
        { "advance8", P(0x1d, 5, 0, 0, 0, 0, 0, 0, 0, 0x0e, 32), 0, SONDE__CFA_SP, 32, 0, SAME, 0,
          SAME, 0, -8 },
        { "def_cfa_sf", P(0x12, 6, 0x7e), 0, SONDE__CFA_BP, 16, 0, SAME, 0, SAME, 0, -8 },
        { "def_cfa_offset_sf", P(0x13, 0x7c), 0, SONDE__CFA_SP, 32, 0, SAME, 0, SAME, 0, -8 },
        { "rbx", P(0x83, 3), 0, SONDE__CFA_SP, 8, 0, SAME, 0, AT_CFA, -3, -8 },
        { "rax", P(0x80, 3), 0, SONDE__CFA_SP, 8, 0, SAME, 0, SAME + JUMPS, 0, -8 },
        { "rax and rbx", P(0x80, 3, 0x83, 4), 0, SONDE__CFA_SP, 8, 0, SAME, 0, AT_CFA + JUMPS, -4,
          -8 },
        { "offset_extended", P(0x05, 6, 2), 0, SONDE__CFA_SP, 8, 0, AT_CFA, -16, SAME, 0, -8 },
        { "offset_extended_sf", P(0x11, 6, 2), 0, SONDE__CFA_SP, 8, 0, AT_CFA, -16, SAME, 0, -8 },
        { "negative_offset", P(0x2f, 6, 2), 0, SONDE__CFA_SP, 8, 0, AT_CFA, 16, SAME, 0, -8 },
        { "restore", P(0x86, 2, 0x41, 0xc6), 0, SONDE__CFA_SP, 8, 0, SAME, 0, SAME, 0, -8 },
        { "restore_extended", P(0x86, 2, 0x41, 0x06, 6), 0, SONDE__CFA_SP, 8, 0, SAME, 0, SAME, 0,
          -8 },
        { "undefined rbp", P(0x07, 6), 0, SONDE__CFA_SP, 8, 0, LOST, 0, SAME, 0, -8 },
        { "undefined ra", P(0x07, 16), 0, SONDE__CFA_END, 0, 0, SAME, 0, SAME, 0, 0 },
        { "same_value", P(0x86, 2, 0x08, 6), 0, SONDE__CFA_SP, 8, 0, SAME, 0, SAME, 0, -8 },
        { "rbp in r9", P(0x09, 6, 9), 0, SONDE__CFA_SP, 8, 0, IN_REG, 9, SAME, 0, -8 },
        { "ra in rdi", P(0x09, 16, 5), 0, SONDE__CFA_SP, 8, 0, SAME, 0, SAME, 0, -32768 + 5 },
        { "sp in r8", P(0x09, 7, 8), 0, SONDE__CFA_REG, 0, 8, SAME, 0, SAME, 0, -8 },
        { "remember, restore", P(0x0a, 0x41, 0x0e, 64, 0x86, 2, 0x42, 0x0b), 0, SONDE__CFA_SP, 8, 0,
          SAME, 0, SAME, 0, -8 },
        { "CFA in rbx", P(0x0d, 3), 0, SONDE__CFA_REG, 8, 3, SAME, 0, SAME, 0, -8 },
        { "CFA in r10", P(0x0c, 10, 0), 0, SONDE__CFA_REG, 0, 10, SAME, 0, SAME, 0, -8 },
        { "realigned", P(0x10, 6, 2, 0x76, 0, 0x0f, 3, 0x76, 0x78, 0x06), 0, SONDE__CFA_BP_DEREF,
          -8, 0, AT_BP, 0, SAME, 0, -8 },
        { "OpenSSL's", P(0x0f, 5, 0x77, 0x28, 0x06, 0x23, 8), 0, SONDE__CFA_SP_DEREF, 40, 8, SAME,
          0, SAME, 0, -8 },
        { "minus", P(0x0f, 4, 0x77, 40, 0x38, 0x1c), 0, SONDE__CFA_SP, 32, 0, SAME, 0, SAME, 0,
          -8 },
        { "constants", P(0x0f, 12, 0x77, 0, 0x08, 1, 0x22, 0x0a, 2, 0, 0x22, 0x10, 5, 0x22), 0,
          SONDE__CFA_SP, 8, 0, SAME, 0, SAME, 0, -8 },
        { "PLT", P(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22), 0,
          SONDE__CFA_PLT, 11, 0, SAME, 0, SAME, 0, -8 },
        { "PLT of bnd", P(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x35, 0x2a, 0x33, 0x24, 0x22), 0,
          SONDE__CFA_PLT, 5, 0, SAME, 0, SAME, 0, -8 },
        { "signal", P(0x0f, 4, 0x77, 0xa0, 1, 0x06, 0x10, 16, 3, 0x77, 0xa8, 1), 0,
          SONDE__CFA_SIGNAL, 0, 0, SAME, 0, SAME, 0, 0 },
        { "args_size", P(0x2e, 0x80, 1, 0x0e, 24), 0, SONDE__CFA_SP, 24, 0, SAME, 0, SAME, 0, -8 },
        { "other registers", P(0x8c, 2, 0x16, 12, 1, 0x96, 0x14, 13, 1), 0, SONDE__CFA_SP, 8, 0,
          SAME, 0, SAME, 0, -8 },
        { "set_loc", P(0x01, 0xff, 0xff, 0xff, 0xff), 1, SONDE__CFA_NONE, 0, 0, SAME, 0, SAME, 0,
          0 },
        /* Not expressible, or damaged: no rule from there on. */
        { "two loads", P(0x0f, 4, 0x77, 8, 0x06, 0x06), 1, SONDE__CFA_NONE, 0, 0, SAME, 0, SAME, 0,
          0 },
        { "two registers", P(0x0f, 5, 0x77, 8, 0x79, 0, 0x22), 1, SONDE__CFA_NONE, 0, 0, SAME, 0,
          SAME, 0, 0 },
        { "ra by a value", P(0x14, 16, 1), 1, SONDE__CFA_NONE, 0, 0, SAME, 0, SAME, 0, 0 },
        { "unknown instruction", P(0x41, 0x3f), 1, SONDE__CFA_NONE, 0, 0, SAME, 0, SAME, 0, 0 },
        { "restore without remember", P(0x0b), 1, SONDE__CFA_NONE, 0, 0, SAME, 0, SAME, 0, 0 },
        { "offset of an expression", P(0x0f, 1, 0x06, 0x0e, 8), 1, SONDE__CFA_NONE, 0, 0, SAME, 0,
          SAME, 0, 0 },
        { "huge frame", P(0x0e, 0xff, 0xff, 0xff, 0xff, 0x7f), 1, SONDE__CFA_NONE, 0, 0, SAME, 0,
          SAME, 0, 0 },
        { "far rbp", P(0x86, 0x80, 0x80, 4), 0, SONDE__CFA_SP, 8, 0, LOST, 0, SAME, 0, -8 },
        { "far rbx", P(0x83, 0x80, 4), 0, SONDE__CFA_SP, 8, 0, SAME, 0, LOST, 0, -8 },
#undef P
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct frames f = { 0 };
        struct table t;
        put_cie(&f, 1, 0x1b, 0);
        put_fde(&f, 0x1000, 16, cases[i].program, cases[i].len);
        compile(&f, &t);
        const struct sonde__unwind_row r = row_at(&t, 0x1005);
        const int same = (int)t.bad == cases[i].bad && r.cfa == cases[i].cfa &&
                         r.cfa_off == cases[i].cfa_off && r.cfa_off2 == cases[i].cfa_off2 &&
                         (r.saved & 15) == cases[i].bp && r.bp_off == cases[i].bp_off &&
                         r.saved >> 4 == cases[i].bx && r.bx_off == cases[i].bx_off &&
                         r.ra_off == cases[i].ra_off;
        if (!same) {
            fail_msg("%s: bad %u cfa %u %d %d bp %u %d bx %u %d ra %d", cases[i].name, t.bad, r.cfa,
                     r.cfa_off, r.cfa_off2, r.saved & 15u, r.bp_off, r.saved >> 4, r.bx_off,
                     r.ra_off);
        }
        assert_row(&t, 0x1010, SONDE__CFA_NONE, 0);
        assert_null(sonde__unwind_lookup(&t.t, 0xfff));
    }
}

static void deep_remember(void **state)
{
    (void)state;
    uint8_t program[64];
    struct frames f = { 0 };
    struct table t;
    memset(program, 0x0a, sizeof(program));
    put_cie(&f, 1, 0x1b, 0);
    put_fde(&f, 0x1000, 16, program, sizeof(program));
    put_fde(&f, 0x2000, 16, B(0x0e, 24));
    compile(&f, &t);
    assert_int_equal(t.bad, 1);
    assert_row(&t, 0x1000, SONDE__CFA_NONE, 0);
    assert_row(&t, 0x2000, SONDE__CFA_SP, 24);
}

/* ---- Order, gaps, overlaps ---------------------------------------------------------------- */

static void order_and_gaps(void **state)
{
    (void)state;
    struct frames f = { 0 };
    struct table t;
    put_cie(&f, 1, 0x1b, 0);
    put_fde(&f, 0x3000, 0x100, B(0x44, 0x0e, 24));
    put_fde(&f, 0x1000, 0x98, B(0x44, 0x0e, 24, 0x44, 0x0e, 8)); /* then 8 bytes of padding */
    put_fde(&f, 0x10a0, 0x58, B(0x44, 0x0e, 40)); /* then 8 bytes after a call that stays away */
    put_fde(&f, 0x1100, 0x10, B(0));
    compile(&f, &t);
    assert_int_equal(t.bad, 0);
    static const struct { uint32_t pc; int cfa; int32_t off;
    } expected[] = {
        { 0x1000, SONDE__CFA_SP, 8 },   { 0x1004, SONDE__CFA_SP, 24 },
        { 0x1008, SONDE__CFA_SP, 8 },   { 0x1098, SONDE__CFA_SP, 8 },
        { 0x10a0, SONDE__CFA_SP, 8 },   { 0x10a4, SONDE__CFA_SP, 40 },
        { 0x10f8, SONDE__CFA_NONE, 0 }, { 0x1100, SONDE__CFA_SP, 8 },
        { 0x1110, SONDE__CFA_NONE, 0 }, { 0x2fff, SONDE__CFA_NONE, 0 },
        { 0x3000, SONDE__CFA_SP, 8 },   { 0x30ff, SONDE__CFA_SP, 24 },
        { 0x3100, SONDE__CFA_NONE, 0 }, { UINT32_MAX, SONDE__CFA_NONE, 0 },
    };
    for (size_t i = 0; i < COUNT(expected); i++) {
        assert_row(&t, expected[i].pc, expected[i].cfa, expected[i].off);
    }
    /* Equal neighbours are one row: 1000, 1004, 1008 (up to 10a4), 10a4, 10f8, 1100, 1110, 3000,
     * 3004, 3100. */
    assert_int_equal(t.t.count, 10);
}

static void overlaps(void **state)
{
    (void)state;
    struct frames f = { 0 };
    struct table t;
    put_cie(&f, 1, 0x1b, 0);
    put_fde(&f, 0x1000, 0x100, B(0x0e, 16, 0x02, 0x50, 0x0e, 80, 0x02, 0x10, 0x0e, 96));
    put_fde(&f, 0x1040, 0x30, B(0x0e, 32));
    put_fde(&f, 0x1040, 0x20, B(0x0e, 48));
    put_fde(&f, 0x1000, 0x08, B(0x0e, 64)); /* the last of two with one start */
    compile(&f, &t);
    assert_row(&t, 0x1000, SONDE__CFA_SP, 64);
    assert_row(&t, 0x1008, SONDE__CFA_NONE, 0);
    assert_row(&t, 0x1040, SONDE__CFA_SP, 48);
    assert_row(&t, 0x1060, SONDE__CFA_NONE, 0);
    assert_row(&t, 0x10ff, SONDE__CFA_NONE, 0);
}

static void sorting_many(void **state)
{
    (void)state;
    struct frames f = { 0 };
    struct table t;
    put_cie(&f, 1, 0x1b, 0);
    for (uint32_t i = 0; i < 64; i++) {
        const uint32_t slot = i * 37 % 64;
        put_fde(&f, 0x1000 + slot * 0x40, 0x20, (uint8_t[]){ 0x0e, (uint8_t)(16 + slot) }, 2);
    }
    compile(&f, &t);
    for (uint32_t i = 0; i < 64; i++) {
        assert_row(&t, 0x1000 + i * 0x40 + 7, SONDE__CFA_SP, 16 + (int32_t)i);
        assert_row(&t, 0x1000 + i * 0x40 + 0x20, SONDE__CFA_NONE, 0);
    }
    assert_int_equal(t.t.count, 128);
}

/* ---- Entries ------------------------------------------------------------------------------ */

static void encodings(void **state)
{
    (void)state;
    static const struct { uint8_t encoding; size_t size; uint64_t base; int leb; } cases[] = {
        { 0x00, 8, 0x400000, 0 }, { 0x04, 8, 0x400000, 0 }, { 0x0c, 8, 0x400000, 0 },
        { 0x03, 4, 0x400000, 0 }, { 0x0b, 4, 0x400000, 0 }, { 0x01, 4, 0x400000, 1 },
        { 0x09, 4, 0x400000, 1 }, { 0x1b, 4, UINT64_MAX, 0 }, { 0x1c, 8, UINT64_MAX, 0 },
        { 0x12, 2, UINT64_MAX, 0 }, { 0x1a, 2, UINT64_MAX, 0 }, { 0x3b, 4, -0x800u, 0 },
        { 0x2b, 4, -0x300u, 0 }, { 0x50, 8, 0x400000, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct frames f = { 0 };
        struct table t;
        put_cie(&f, 1, cases[i].encoding, 0);
        const size_t at = begin_entry(&f, 0, f.cie);
        if (cases[i].encoding == 0x50) {
            while ((f.len + 0x200) % 8) put_int(&f, 0, 1);
        }
        /* pc-relative: to itself; others: to a base that the source names. */
        uint64_t v = 0x1000;
        if (cases[i].base == UINT64_MAX) v -= 0x200 + f.len;
        else if (cases[i].base >= 0x400000 && cases[i].base < UINT32_MAX / 2) v += cases[i].base;
        else v += (uint64_t)(int64_t)(int32_t)cases[i].base;
        if (cases[i].leb) {
            put(&f,
                (uint8_t[]){ (uint8_t)(v | 0x80), (uint8_t)(v >> 7 | 0x80),
                             (uint8_t)(v >> 14 | 0x80), (uint8_t)(v >> 21 & 0x3f) },
                4);
            put_int(&f, 16, 1);
        } else {
            put_int(&f, v, cases[i].size);
            put_int(&f, 16, cases[i].size);
        }
        put_int(&f, 0, 1);
        end_entry(&f, at, 0);
        const struct sonde__unwind_source s = {
            .eh_frame = f.bytes, .eh_frame_len = f.len, .eh_frame_addr = 0x200,
            .text_addr = 0x300, .data_addr = 0x800, .first_addr = 0x400000,
        };
        compile_source(&s, &t);
        if (t.bad || t.t.count != 2 || t.rows[0].pc != 0x1000 || t.rows[1].pc != 0x1010) {
            fail_msg("encoding %#x: %u rows, %u bad, first at %#x", cases[i].encoding, t.t.count,
                     t.bad, t.rows[0].pc);
        }
    }
}

static void versions_and_lengths(void **state)
{
    (void)state;
    static const struct { uint8_t version; int wide; int good; } cases[] = {
        { 1, 0, 1 }, { 3, 0, 1 }, { 4, 0, 1 }, { 1, 1, 1 }, { 2, 0, 0 }, { 5, 0, 0 }, { 0, 0, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct frames f = { 0 };
        struct table t;
        put_cie(&f, cases[i].version, 0x1b, cases[i].wide);
        put_fde(&f, 0x1000, 16, B(0x0e, 24));
        put_int(&f, 0, 4); /* a terminator in the middle */
        put_cie(&f, 1, 0x1b, 0);
        put_fde(&f, 0x2000, 16, B(0x0e, 32));
        compile(&f, &t);
        assert_int_equal(t.bad, !cases[i].good);
        assert_row(&t, 0x2000, SONDE__CFA_SP, 32);
        assert_int_equal(row_at(&t, 0x1000).cfa, cases[i].good ? SONDE__CFA_SP : 255);
    }
}

static void augmentations(void **state)
{
    (void)state;
    static const struct { const char *text; uint8_t data[24]; size_t len; int good; } cases[] = {
#define D(...) { __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ })
        { "zR", D(1, 0x1b), 1 },
        { "zPLR", D(7, 0x9b, 1, 2, 3, 4, 0x1b, 0x1b), 1 },
        { "zPLR", D(11, 0x00, 1, 2, 3, 4, 5, 6, 7, 8, 0x1b, 0x1b), 1 },
        { "zPLR", D(3, 0xff, 0x1b, 0x1b), 1 },
        { "zRS", D(1, 0x1b), 1 },
        { "zSR", D(1, 0x1b), 1 },
        { "zR?", D(3, 0x1b, 9, 9), 1 },
        { "zPLR", D(2, 0x9b, 1), 0 },   /* data too short */
        { "zR", D(100, 0x1b), 0 },      /* longer than the entry */
        { "zRP", D(2, 0x1b, 0x0e), 0 }, /* an encoding there is not */
        { "R?", D(0x1b), 0 },           /* unknown, and no length to pass over it */
#undef D
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct frames f = { 0 };
        struct table t;
        const size_t at = begin_entry(&f, 0, SIZE_MAX);
        put_int(&f, 1, 1);
        put(&f, cases[i].text, strlen(cases[i].text) + 1);
        put(&f, B(1, 0x78, 16));
        put(&f, cases[i].data, cases[i].len);
        put(&f, B(0x0c, 7, 8, 0x90, 1));
        end_entry(&f, at, 0);
        put_fde(&f, 0x1000, 16, B(0x0e, 24));
        compile(&f, &t);
        if ((int)t.bad != !cases[i].good) fail_msg("%s (%zu): %u bad", cases[i].text, i, t.bad);
        assert_int_equal(row_at(&t, 0x1000).cfa, cases[i].good ? SONDE__CFA_SP : 255);
    }
}

static void damage(void **state)
{
    (void)state;
    struct frames f = { 0 };
    struct table t;
    put_cie(&f, 1, 0x1b, 0);
    const size_t first = f.len;
    put_fde(&f, 0x1000, 16, B(0x0e, 24));
    const size_t second = f.len;
    put_fde(&f, 0x2000, 16, B(0x0e, 32));
    const struct { size_t at; uint32_t value; uint32_t bad; uint32_t rows; } cases[] = {
        { first + 4, 0xfffffff0, 1, 2 },  /* CIE before the section */
        { first + 4, 4, 1, 2 },           /* CIE at an FDE */
        { first + 12, 0, 1, 2 },          /* no length */
        { first + 12, UINT32_MAX, 1, 2 }, /* signed in this encoding: beyond everything */
        { second, 0x7fffffff, 1, 2 },     /* longer than the section */
        { second, UINT32_MAX, 1, 2 },     /* 64-bit length that is not one */
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct frames g = f;
        memcpy(g.bytes + cases[i].at, &cases[i].value, 4);
        compile(&g, &t);
        assert_int_equal(t.bad, cases[i].bad);
        assert_int_equal(t.t.count, cases[i].rows);
    }
    const struct sonde__unwind_source empty = { .eh_frame = f.bytes };
    compile_source(&empty, &t);
    assert_int_equal(t.t.count, 0);
    assert_null(sonde__unwind_lookup(&t.t, 0));
    /* With too little room nothing is written. */
    const struct sonde__unwind_source s = { .eh_frame = f.bytes, .eh_frame_len = f.len };
    memset(t.rows, 0xee, sizeof(t.rows));
    assert_int_equal(sonde__unwind_compile(&s, t.rows, 3, &t.bad), 0);
    assert_int_equal(t.rows[0].pc, 0xeeeeeeee);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions),   cmocka_unit_test(deep_remember),
        cmocka_unit_test(order_and_gaps), cmocka_unit_test(overlaps),
        cmocka_unit_test(sorting_many),   cmocka_unit_test(encodings),
        cmocka_unit_test(versions_and_lengths), cmocka_unit_test(augmentations),
        cmocka_unit_test(damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
