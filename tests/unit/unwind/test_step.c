/* One frame at a time: every kind of rule on stacks made by hand, and code that tells its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unwind/arch_call.h"
#include "unwind/arch_x86_64.h"
#include "unwind/unwind.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define BASE 0x7000u
#define SAVED(bp, bx) (uint8_t)((bp) | (bx) << 4)

static uint64_t stack[64]; /* at BASE */

static int word(void *arg, uint64_t addr, uint64_t *out)
{
    (void)arg;
    if (addr < BASE || addr % 8 || addr - BASE >= sizeof(stack)) return -1;
    *out = stack[(addr - BASE) / 8];
    return 0;
}

static void fill(void)
{
    for (size_t i = 0; i < COUNT(stack); i++) stack[i] = 0x1000 + i;
}

static void rules(void **state)
{
    (void)state;
    enum { OK = SONDE__STEP_OK, END = SONDE__STEP_END, FAIL = SONDE__STEP_FAIL };
    enum { SAME = SONDE__SAVED_SAME, AT_CFA = SONDE__SAVED_AT_CFA, AT_BP = SONDE__SAVED_AT_BP,
           IN_REG = SONDE__SAVED_IN_REG, LOST = SONDE__SAVED_LOST };
    /* sp = 7010 (word 2), bp = 7040 (word 8), bx = 7100, r10 = 7060; ip as given. Word n of the
     * stack holds 1000 + n, but word 6 7080 and word 7 7088. */
    static const struct {
        const char *name;
        struct sonde__unwind_row row;
        uint64_t ip;
        int step;
        uint64_t sp, ra, bp, bx; /* afterwards; bp, bx 0 = lost */
    } cases[] = {
        { "none", { .cfa = SONDE__CFA_NONE }, 0, FAIL, 0, 0, 0, 0 },
        { "end", { .cfa = SONDE__CFA_END }, 0, END, 0, 0, 0, 0 },
        { "sp",
          { .cfa = SONDE__CFA_SP, .cfa_off = 8, .ra_off = -8 },
          0, OK, 0x7018, 0x1002, 0x7040, 0x7100 },
        { "sp, bp and bx saved",
          { .cfa = SONDE__CFA_SP, .cfa_off = 32, .ra_off = -8, .bp_off = -16, .bx_off = -3,
            .saved = SAVED(AT_CFA, AT_CFA) },
          0, OK, 0x7030, 0x1005, 0x1004, 0x1003 },
        { "bp",
          { .cfa = SONDE__CFA_BP, .cfa_off = 16, .ra_off = -8, .bp_off = -16,
            .saved = SAVED(AT_CFA, LOST) },
          0, OK, 0x7050, 0x1009, 0x1008, 0 },
        { "saved where the stack is not yet",
          { .cfa = SONDE__CFA_SP, .cfa_off = 8, .ra_off = -8, .bp_off = -24, .bx_off = -4,
            .saved = SAVED(AT_CFA, AT_CFA) },
          0, OK, 0x7018, 0x1002, 0x7040, 0x7100 },
        { "PLT, first half",
          { .cfa = SONDE__CFA_PLT, .cfa_off = 11, .ra_off = -8 },
          0x40a, OK, 0x7018, 0x1002, 0x7040, 0x7100 },
        { "PLT, second half",
          { .cfa = SONDE__CFA_PLT, .cfa_off = 11, .ra_off = -8 },
          0x40b, OK, 0x7020, 0x1003, 0x7040, 0x7100 },
        { "*(sp + 32) + 8",
          { .cfa = SONDE__CFA_SP_DEREF, .cfa_off = 32, .cfa_off2 = 8, .ra_off = -8 },
          0, OK, 0x7088, 0x1010, 0x7040, 0x7100 },
        { "*(bp - 8), bp at bp",
          { .cfa = SONDE__CFA_BP_DEREF, .cfa_off = -8, .ra_off = -8, .saved = SAVED(AT_BP, SAME) },
          0, OK, 0x7088, 0x1010, 0x1008, 0x7100 },
        { "r10 + 8",
          { .cfa = SONDE__CFA_REG, .cfa_off2 = 10, .cfa_off = 8, .ra_off = -8 },
          0, OK, 0x7068, 0x100c, 0x7040, 0x7100 },
        { "a register that is not known",
          { .cfa = SONDE__CFA_REG, .cfa_off2 = 11, .ra_off = -8 }, 0, FAIL, 0, 0, 0, 0 },
        { "return address in r10",
          { .cfa = SONDE__CFA_SP, .ra_off = SONDE__RA_IN_REG + 10 },
          0, OK, 0x7010, 0x7060, 0x7040, 0x7100 },
        { "return address in one not known",
          { .cfa = SONDE__CFA_SP, .ra_off = SONDE__RA_IN_REG + 1 }, 0, FAIL, 0, 0, 0, 0 },
        { "bp in r10",
          { .cfa = SONDE__CFA_SP, .cfa_off = 8, .ra_off = -8, .bp_off = 10,
            .saved = SAVED(IN_REG, SAME) },
          0, OK, 0x7018, 0x1002, 0x7060, 0x7100 },
        { "bp in one not known",
          { .cfa = SONDE__CFA_SP, .cfa_off = 8, .ra_off = -8, .bp_off = 12,
            .saved = SAVED(IN_REG, SAME) },
          0, OK, 0x7018, 0x1002, 0, 0x7100 },
        { "bp lost",
          { .cfa = SONDE__CFA_SP, .cfa_off = 8, .ra_off = -8, .saved = SAVED(LOST, SAME) },
          0, OK, 0x7018, 0x1002, 0, 0x7100 },
        { "no progress",
          { .cfa = SONDE__CFA_SP, .cfa_off = 0, .ra_off = -8 }, 0, FAIL, 0, 0, 0, 0 },
        { "downwards",
          { .cfa = SONDE__CFA_SP, .cfa_off = -16, .ra_off = -8 }, 0, FAIL, 0, 0, 0, 0 },
        { "out of the stack",
          { .cfa = SONDE__CFA_SP, .cfa_off = 100000, .ra_off = -8 }, 0, FAIL, 0, 0, 0, 0 },
        { "out of the address space",
          { .cfa = SONDE__CFA_SP, .cfa_off = INT32_MIN, .ra_off = -8 }, 0, FAIL, 0, 0, 0, 0 },
        { "no such rule", { .cfa = 99 }, 0, FAIL, 0, 0, 0, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde__regs r = { .ip = cases[i].ip, .sp = 0x7010, .bp = 0x7040 };
        r.known = 1u << 3 | 1u << 10;
        r.other[3] = 0x7100;
        r.other[10] = 0x7060;
        int signal = 7;
        fill();
        stack[6] = 0x7080;
        stack[7] = 0x7088;
        const int step = sonde__unwind_apply(&cases[i].row, &r, word, NULL, &signal);
        int good = step == cases[i].step && signal == 0;
        if (good && step == OK) {
            good = r.sp == cases[i].sp && r.ip == cases[i].ra && r.bp_lost == !cases[i].bp &&
                   (r.bp_lost || r.bp == cases[i].bp) && r.known == (cases[i].bx ? 1u << 3 : 0) &&
                   (!r.known || r.other[3] == cases[i].bx);
        }
        if (!good) {
            fail_msg("%s: step %d sp %#lx ip %#lx bp %#lx (%u) bx %#lx (%#x)", cases[i].name, step,
                     r.sp, r.ip, r.bp, r.bp_lost, r.other[3], r.known);
        }
    }
}

static void lost_bp_is_not_used(void **state)
{
    (void)state;
    const struct sonde__unwind_row rows[] = {
        { .cfa = SONDE__CFA_BP, .cfa_off = 16, .ra_off = -8 },
        { .cfa = SONDE__CFA_BP_DEREF, .cfa_off = -8, .ra_off = -8 },
    };
    int signal;
    fill();
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct sonde__regs r = { .sp = 0x7010, .bp = 0x7040, .bp_lost = 1 };
        assert_int_equal(sonde__unwind_apply(&rows[i], &r, word, NULL, &signal), SONDE__STEP_FAIL);
    }
    struct sonde__regs r = { .sp = 0x7010, .bp = 0x7040, .bp_lost = 1 };
    assert_int_equal(sonde__unwind_fp(&r, word, NULL), SONDE__STEP_FAIL);
}

static void return_address_0_ends(void **state)
{
    (void)state;
    const struct sonde__unwind_row row = { .cfa = SONDE__CFA_SP, .cfa_off = 8, .ra_off = -8 };
    struct sonde__regs r = { .sp = 0x7010, .bp = 0x7040 };
    int signal;
    fill();
    stack[2] = 0;
    assert_int_equal(sonde__unwind_apply(&row, &r, word, NULL, &signal), SONDE__STEP_END);
}

static void signal_frame(void **state)
{
    (void)state;
    const struct sonde__unwind_row row = { .cfa = SONDE__CFA_SIGNAL };
    struct sonde__regs r = { .sp = 0x7010, .bp = 1, .bp_lost = 1 };
    int signal = 0;
    fill();
    assert_int_equal(sonde__unwind_apply(&row, &r, word, NULL, &signal), SONDE__STEP_OK);
    assert_int_equal(signal, 1);
    assert_int_equal(r.sp, 0x1002 + 160 / 8);
    assert_int_equal(r.ip, 0x1002 + 168 / 8);
    assert_int_equal(r.bp, 0x1002 + 120 / 8);
    assert_int_equal(r.other[3], 0x1002 + 128 / 8); /* rbx */
    assert_int_equal(r.other[8], 0x1002 + 40 / 8);  /* r8 */
    assert_int_equal(r.known, 0xffff);
    assert_int_equal(r.bp_lost, 0);
    /* Half of it is not there. */
    r = (struct sonde__regs){ .sp = BASE + sizeof(stack) - 100 / 8 * 8 };
    assert_int_equal(sonde__unwind_apply(&row, &r, word, NULL, &signal), SONDE__STEP_FAIL);
}

static void frame_pointers(void **state)
{
    (void)state;
    static const struct { uint64_t sp, bp, saved, ra; int step; } cases[] = {
        { 0x7010, 0x7040, 0x7080, 0x1234, SONDE__STEP_OK },
        { 0x7040, 0x7040, 0x7080, 0x1234, SONDE__STEP_OK },   /* pushed just now */
        { 0x7010, 0x7040, 0x1111, 0x1234, SONDE__STEP_OK },   /* a caller that keeps none */
        { 0x7048, 0x7040, 0x7080, 0x1234, SONDE__STEP_FAIL }, /* below sp */
        { 0x7010, 0x7044, 0x7080, 0x1234, SONDE__STEP_FAIL }, /* not aligned */
        { 0x7010, 0x9000, 0x7080, 0x1234, SONDE__STEP_FAIL }, /* not there */
        { 0x7010, 0x7040, 0x7080, 0, SONDE__STEP_END },
        { 0x7010, 0, 0, 0, SONDE__STEP_END },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde__regs r = { .sp = cases[i].sp, .bp = cases[i].bp, .known = 0xffff };
        fill();
        stack[8] = cases[i].saved;
        stack[9] = cases[i].ra;
        assert_int_equal(sonde__unwind_fp(&r, word, NULL), cases[i].step);
        if (cases[i].step != SONDE__STEP_OK) continue;
        assert_int_equal(r.ip, cases[i].ra);
        assert_int_equal(r.bp, cases[i].saved);
        assert_int_equal(r.sp, 0x7050);
        assert_int_equal(r.known, 0);
    }
}

static void lookup(void **state)
{
    (void)state;
    struct sonde__unwind_row rows[70];
    for (uint32_t n = 0; n <= COUNT(rows); n++) {
        for (uint32_t i = 0; i < n; i++) rows[i] = (struct sonde__unwind_row){ .pc = 10 + i * 3 };
        const struct sonde__unwind_table t = { rows, n };
        for (uint32_t pc = 0; pc < 240; pc++) {
            const struct sonde__unwind_row *want = NULL;
            for (uint32_t i = 0; i < n; i++) {
                if (rows[i].pc <= pc) want = &rows[i];
            }
            assert_ptr_equal(sonde__unwind_lookup(&t, pc), want);
        }
    }
    /* Before the first row there is no rule. */
    const struct sonde__unwind_table t = { rows, 1 };
    assert_null(sonde__unwind_lookup(&t, 9));
}

/* Out of a function that an exception has rewritten. */
static void landings(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum sonde__landing landing;
        uint64_t ip, rcx; /* 0 = not known */
        int rc, exact;
        uint64_t new_ip, sp;
    } cases[] = {
        { "a caller", SONDE__LANDING_CALLER, 0x1003, 0, 0, 0, 0x1003, BASE },
        { "a jump", SONDE__LANDING_JUMP, 0x1003, 0, 0, 1, 0x1003, BASE },
        { "moved", SONDE__LANDING_MOVED, 0x1003, 0, 0, 0, 0x1003, BASE + 32 },
        { "nowhere to be found", SONDE__LANDING_MOVED, 0x2000, 0, -1, 0, 0, 0 },
        { "put there", SONDE__LANDING_PUT, 0x1003, BASE + 40, 0, 1, 0x1005, BASE + 48 },
        { "so far up", SONDE__LANDING_PUT, 0x1003, 48, 0, 1, 0x1005, BASE + 48 },
        { "put nowhere", SONDE__LANDING_PUT, 0x1003, BASE * 2, -1, 1, 0, 0 },
        { "put between words", SONDE__LANDING_PUT, 0x1003, BASE + 41, -1, 1, 0, 0 },
        { "put who knows where", SONDE__LANDING_PUT, 0x1003, 0, -1, 1, 0, 0 },
    };
    fill(); /* word n holds 1000 + n */
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde__regs r = { .ip = cases[i].ip, .sp = BASE }, inner = { 0 };
        int exact = 77;
        inner.other[SONDE__ARCH_EH_ADJUST] = cases[i].rcx;
        inner.known = cases[i].rcx ? 1u << SONDE__ARCH_EH_ADJUST : 0;
        const int rc = sonde__unwind_land(cases[i].landing, &inner, &r, word, NULL, &exact);
        if (rc != cases[i].rc || exact != cases[i].exact ||
            (!rc && (r.sp != cases[i].sp || r.ip != cases[i].new_ip))) {
            fail_msg("%s: %d, exact %d, sp %#lx", cases[i].name, rc, exact, r.sp);
        }
    }
}

static void rules_from_code(void **state)
{
    (void)state;
    static const struct {
        const char *name, *code;
        size_t len, ip;
        int exact, cfa, off;
    } cases[] = {
#define CODE(s) s, sizeof(s) - 1
#define INIT                                                                                   \
    "\x48\x83\xec\x08\x48\x8b\x05....\x48\x85\xc0\x74\x02\xff\xd0\x48\x83\xc4\x08\xc3"
#define DTORS                                                                                  \
    "\xf3\x0f\x1e\xfa\x80\x3d....\0\x75\x2b\x55\x48\x83\x3d....\0\x48\x89\xe5\x74\x0c"
        { "sigreturn", CODE("\x48\xc7\xc0\x0f\0\0\0\x0f\x05"), 0, 0, SONDE__CFA_SIGNAL, 0 },
        { "sigreturn, short", CODE("\xb8\x0f\0\0\0\x0f\x05"), 0, 0, SONDE__CFA_SIGNAL, 0 },
        { "another system call", CODE("\xb8\x10\0\0\0\x0f\x05"), 0, 0, -1, 0 },
        { "cut", CODE("\xb8\x0f\0\0\0\x0f"), 0, 0, -1, 0 },
        { "PLT entry", CODE("\xff\x25....\x68....\xe9...."), 0, 1, SONDE__CFA_SP, 8 },
        { "PLT entry, push", CODE("\xff\x25....\x68....\xe9...."), 6, 1, SONDE__CFA_SP, 8 },
        { "PLT entry, jmp", CODE("\xff\x25....\x68....\xe9...."), 11, 1, SONDE__CFA_SP, 16 },
        { "PLT 0", CODE("\xff\x35....\xff\x25...."), 0, 1, SONDE__CFA_SP, 16 },
        { "PLT 0, jmp", CODE("\xff\x35....\xff\x25...."), 6, 1, SONDE__CFA_SP, 24 },
        { "push rbp", CODE("\x55\x48\x89\xe5"), 0, 1, SONDE__CFA_SP, 8 },
        { "mov", CODE("\x55\x48\x89\xe5"), 1, 1, SONDE__CFA_SP, 16 },
        { "a jmp that is none of the PLT", CODE(".....\xe9...."), 5, 1, -1, 0 },
        { "endbr64", CODE("\xf3\x0f\x1e\xfa\x48"), 0, 1, SONDE__CFA_SP, 8 },
        { "behind endbr64", CODE("\xf3\x0f\x1e\xfa\x48"), 4, 1, SONDE__CFA_SP, 8 },
        { "ret", CODE("\xc3"), 0, 1, SONDE__CFA_SP, 8 },
        { "add, pop, pop, ret", CODE("\x48\x83\xc4\x18\x5b\x41\x5c\xc3"), 0, 1, SONDE__CFA_SP, 48 },
        { "add of 32 bits", CODE("\x48\x81\xc4\x00\x10\x00\x00\xc3"), 0, 1, SONDE__CFA_SP, 4104 },
        { "add of less than nothing", CODE("\x48\x83\xc4\x80\xc3"), 0, 1, -1, 0 },
        { "vzeroupper, pop, ret", CODE("\xc5\xf8\x77\x5b\xc3"), 0, 1, SONDE__CFA_SP, 16 },
        { "pops without end", CODE("\x5b\x5b\x5b\x5b"), 0, 1, -1, 0 },
        { "_init", CODE(INIT), 0, 1, SONDE__CFA_SP, 8 },
        { "_init, mov", CODE(INIT), 4, 1, SONDE__CFA_SP, 16 },
        { "_init, test", CODE(INIT), 11, 1, SONDE__CFA_SP, 16 },
        { "_init, je", CODE(INIT), 14, 1, SONDE__CFA_SP, 16 },
        { "_init, call", CODE(INIT), 16, 1, SONDE__CFA_SP, 16 },
        { "_init, behind the call", CODE(INIT), 18, 0, SONDE__CFA_SP, 16 },
        { "_init, add", CODE(INIT), 18, 1, SONDE__CFA_SP, 16 },
        { "_init, ret", CODE(INIT), 22, 1, SONDE__CFA_SP, 8 },
        { "_init behind a call", CODE(INIT), 0, 0, -1, 0 },
        { "_init, cut", INIT, 22, 0, 1, -1, 0 },
        { "_fini", CODE("\x48\x83\xec\x08\x48\x83\xc4\x08\xc3"), 0, 1, SONDE__CFA_SP, 8 },
        { "_fini, add", CODE("\x48\x83\xec\x08\x48\x83\xc4\x08\xc3"), 4, 1, SONDE__CFA_SP, 16 },
        { "a sub of another", CODE("\x48\x83\xec\x08\x90"), 0, 1, -1, 0 },
        { "destructors, jne", CODE(DTORS), 11, 1, SONDE__CFA_SP, 8 },
        { "destructors, push", CODE(DTORS), 13, 1, SONDE__CFA_SP, 8 },
        { "destructors, cmpq", CODE(DTORS), 14, 1, SONDE__CFA_SP, 16 },
        { "destructors, mov", CODE(DTORS), 22, 1, SONDE__CFA_SP, 16 },
        { "a caller", CODE("\x5b\xc3"), 0, 0, -1, 0 },
        { "something else", CODE("\x90\x90"), 0, 1, -1, 0 },
#undef CODE
#undef INIT
#undef DTORS
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde__unwind_row r = { .cfa = 77 };
        const int found = sonde__unwind_guess((const uint8_t *)cases[i].code, cases[i].len,
                                              cases[i].ip, cases[i].exact, &r);
        const int same = r.cfa == cases[i].cfa && r.cfa_off == cases[i].off;
        if (found ? !same : cases[i].cfa >= 0) {
            fail_msg("%s: %d, cfa %u %d", cases[i].name, found, r.cfa, r.cfa_off);
        }
    }
    assert_true(sonde__unwind_keeps_fp((const uint8_t *)"\x55\x90\x48\x89\xe5", 5, 0));
    assert_true(sonde__unwind_is_entry((const uint8_t *)"\x48\x89\xe7\xe8", 4));
    assert_false(sonde__unwind_is_entry((const uint8_t *)"\x48\x89\xe7\xe8", 3));
    assert_false(sonde__unwind_is_entry((const uint8_t *)"\x48\x89\xe5\xe8", 4));
    assert_false(sonde__unwind_keeps_fp((const uint8_t *)"\x55\x90\x48\x89\xe5", 4, 0));
    /* Another function's. */
    assert_false(sonde__unwind_keeps_fp((const uint8_t *)"\x55\x48\x89\xe5\x5d\xc3\x66\x90\x48", 9,
                                        0));
    assert_false(sonde__unwind_keeps_fp((const uint8_t *)"\x48\x89\xe5\x5d\xc3\x48", 6, 11));
    assert_false(sonde__unwind_keeps_fp((const uint8_t *)"\x48\x89\xe5\xc2\x08\x00\xcc\xcc\x48", 9,
                                        8));
    assert_true(sonde__unwind_keeps_fp((const uint8_t *)"\x48\x89\xe5\xe8\x08\x00\xcc\xcc\x48", 9,
                                       0));
    assert_true(sonde__unwind_keeps_fp((const uint8_t *)"\x48\x89\xe5\x74\x02\x5d\xc3\x48", 8, 0));
    /* mov %rbx,%rax is no ret, though the next instruction is aligned. */
    assert_true(sonde__unwind_keeps_fp((const uint8_t *)"\x48\x89\xe5\x48\x8b\xc3\x48", 7, 10));
    assert_false(sonde__unwind_keeps_fp((const uint8_t *)"\x48\x89\xe5\x48\x8b\x47\x10\xc3\x48", 9,
                                        8));
    /* movzbl 1(%rdi),%eax; ret; nop looks like it, but is filled up. */
    assert_false(sonde__unwind_keeps_fp((const uint8_t *)"\x48\x89\xe5\x0f\xb6\x47\x01\xc3\x90\x48",
                                        10, 0));
}

static void perf_registers(void **state)
{
    (void)state;
    /* In perf's order: ax bx cx dx si di bp sp ip r8 … r15; DWARF has dx and cx before bx. */
    uint64_t v[SONDE__ARCH_PERF_REG_COUNT];
    static const uint64_t want[] = { 0, 3, 2, 1, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16 };
    struct sonde__regs r;
    for (size_t i = 0; i < COUNT(v); i++) v[i] = i;
    sonde__arch_from_perf(v, &r);
    for (size_t i = 0; i < COUNT(want); i++) assert_int_equal(r.other[i], want[i]);
    assert_int_equal(r.ip, 8);
    assert_int_equal(r.sp, 7);
    assert_int_equal(r.bp, 6);
    assert_int_equal(__builtin_popcountll(SONDE__ARCH_PERF_REGS), SONDE__ARCH_PERF_REG_COUNT);
}

/* What ends where a return address points to, and jumps that a function ends with. */
static void calls_and_jumps(void **state)
{
    (void)state;
    enum { NONE = SONDE__CALL_NONE, DIRECT = SONDE__CALL_DIRECT, GOT = SONDE__CALL_GOT,
           INDIRECT = SONDE__CALL_INDIRECT };
    static const struct {
        const char *name, *code;
        size_t len;
        int call;
        uint64_t to; /* the code ends at 0x1000 */
    } cases[] = {
#define CODE(text) text, sizeof(text) - 1
        { "call rel32", CODE("\xe8\x10\x00\x00\x00"), DIRECT, 0x1010 },
        { "backwards", CODE("\x90\xe8\xf0\xff\xff\xff"), DIRECT, 0xff0 },
        { "call *x(%rip)", CODE("\xff\x15\x20\x00\x00\x00"), GOT, 0x1020 },
        { "call *%rax", CODE("\xff\xd0"), INDIRECT, 0 },
        { "call *%r12", CODE("\x41\xff\xd4"), INDIRECT, 0 },
        { "call *(%rbx)", CODE("\xff\x13"), INDIRECT, 0 },
        { "call *8(%rax)", CODE("\xff\x50\x08"), INDIRECT, 0 },
        { "call *8(%rsp)", CODE("\xff\x54\x24\x08"), INDIRECT, 0 },
        { "call *0x100(%rax)", CODE("\xff\x90\x00\x01\x00\x00"), INDIRECT, 0 },
        { "call *0x100(,%rax,8)", CODE("\xff\x14\xc5\x00\x01\x00\x00"), INDIRECT, 0 },
        { "call *(%rax,%rbx,8)", CODE("\xff\x14\xd8"), INDIRECT, 0 },
        { "jmp *%rax", CODE("\xff\xe0"), NONE, 0 },
        { "nops", CODE("\x90\x90\x90\x90\x90\x90\x90\x90"), NONE, 0 },
        { "ret", CODE("\xc3"), NONE, 0 },
        { "nothing", CODE(""), NONE, 0 },
    }, jumps[] = {
        { "jmp rel32", CODE("\xe9\x10\x00\x00\x00"), DIRECT, 0x1015 },
        { "jne rel32", CODE("\x0f\x85\x10\x00\x00\x00"), DIRECT, 0x1016 },
        { "jmp *%rax", CODE("\xff\xe0"), INDIRECT, 0 },
        { "jmp *x(%rip)", CODE("\xff\x25\x00\x00\x00\x00"), INDIRECT, 0 },
        { "cut off", CODE("\xe9\x10\x00"), NONE, 0 },
        { "movzbl", CODE("\x0f\xb6\xc0\x90\x90\x90"), NONE, 0 },
        { "nothing", CODE(""), NONE, 0 },
#undef CODE
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t to = 0;
        const int call = (int)sonde__arch_call_before((const uint8_t *)cases[i].code, cases[i].len,
                                                      0x1000, &to);
        if (call != cases[i].call || to != cases[i].to) fail_msg("%s", cases[i].name);
    }
    for (size_t i = 0; i < COUNT(jumps); i++) {
        uint64_t to = 0;
        const int jump = (int)sonde__arch_jump_at((const uint8_t *)jumps[i].code, jumps[i].len,
                                                  0x1000, &to);
        if (jump != jumps[i].call || to != jumps[i].to) fail_msg("%s", jumps[i].name);
    }
    static const uint8_t plt[] = "\xf3\x0f\x1e\xfa\xf2\xff\x25\x05\x00\x00\x00";
    assert_int_equal(sonde__arch_plt_word(plt, sizeof(plt) - 1, 0x1000), 0x1010);
    assert_int_equal(sonde__arch_plt_word(plt + 5, 6, 0x1000), 0x100b);
    assert_int_equal(sonde__arch_plt_word(plt, 8, 0x1000), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules),          cmocka_unit_test(lost_bp_is_not_used),
        cmocka_unit_test(return_address_0_ends), cmocka_unit_test(signal_frame),
        cmocka_unit_test(frame_pointers), cmocka_unit_test(lookup),
        cmocka_unit_test(landings), cmocka_unit_test(calls_and_jumps),
        cmocka_unit_test(rules_from_code), cmocka_unit_test(perf_registers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
