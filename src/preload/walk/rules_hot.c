/* rules_hot.c - the rule for an address: remembered, or from the module it is in.
 *
 * Remembered rules are shared by all threads without a lock. An entry is four words and the last
 * one is a hash of the others: a mixture of two writers' words does not match and is no rule. */
#include <dlfcn.h>
#include <string.h>

#include "preload/timer/timer.h"
#include "preload/walk/python_walk.h"
#include "preload/walk/walk.h"
#include "unwind/arch_call.h"

#include "base/hot_banned.h"

#define RULES 4096u
#define CODE_BEFORE 24u
#define CODE_LEN 56u
#define CODE_FAR 16384u    /* of code before an address, to find out whether it keeps a frame
                            * pointer */
#define CODE_NEAR (1ull << 27) /* code that is compiled as it runs lies this close together */
#define HIDES_MAX 4096u    /* bytes of a frame that are searched for another one */
#define CALL_LEN 7u        /* of the longest call without a prefix */
#define PAGE 4096u

static struct walk_rules_entry { uint64_t key, row[2], check; } rules[RULES];
struct sonde__fast_rule sonde__fast_rules[SONDE__FAST_RULES];

/* 0: it takes more than a word. What is saved lies below the CFA. */
static uint64_t fast_rule(const struct sonde__unwind_row *row)
{
    const uint32_t bp = row->saved & 15u, bx = (row->saved & ~SONDE__SAVED_JUMPS) >> 4;
    uint64_t rule = (uint64_t)(uint32_t)row->cfa_off << 32 |
                    (uint64_t)(uint16_t)row->bp_off << 16 | (uint64_t)(uint8_t)row->bx_off << 8;
    if (row->cfa == SONDE__CFA_END) return SONDE__FAST_END;
    if (row->ra_off != -8 || row->saved & SONDE__SAVED_JUMPS) return 0;
    if (row->cfa == SONDE__CFA_SP) rule |= SONDE__FAST_SP;
    else if (row->cfa == SONDE__CFA_BP) rule |= SONDE__FAST_BP;
    else return 0;
    if (bp == SONDE__SAVED_AT_CFA && row->bp_off <= -8) rule |= SONDE__FAST_BP_SAVED;
    else if (bp != SONDE__SAVED_SAME) return 0;
    if (bx == SONDE__SAVED_AT_CFA && row->bx_off < 0) rule |= SONDE__FAST_BX_SAVED;
    else if (bx == SONDE__SAVED_LOST) rule |= SONDE__FAST_BX_LOST;
    else if (bx != SONDE__SAVED_SAME) return 0;
    return rule;
}

static void fast_put(uint64_t pc, const struct sonde__unwind_row *row)
{
    struct sonde__fast_rule *e = sonde__fast_at(pc);
    const uint64_t rule = fast_rule(row);
    if (!rule) return;
    __atomic_store_n(&e->rule, rule, __ATOMIC_RELAXED);
    __atomic_store_n(&e->key, sonde__fast_key(sonde__fast_salt(), pc, rule), __ATOMIC_RELAXED);
}

static uint64_t check_of(uint64_t key, const uint64_t row[2])
{
    return sonde__mix(sonde__mix(sonde__mix(sonde__unloads() + 1ull, key), row[0]), row[1]);
}

/* Where there is no rule the code may show one. Within a page: the next may not be there. */
static int walk_rules_guess(uint64_t ip, int exact, struct sonde__unwind_row *row)
{
    const uint64_t in_page = ip % PAGE;
    const uint64_t before = in_page < CODE_BEFORE ? in_page : CODE_BEFORE;
    const uint64_t after = PAGE - in_page < CODE_LEN - before ? PAGE - in_page : CODE_LEN - before;
    if (!sonde__readable(ip & ~7ull)) return 0;
    return sonde__unwind_guess((const uint8_t *)(uintptr_t)(ip - before), before + after, before,
                               exact, row);
}

/* Code before ip that no table describes, from `from` on, as far as it can be read. */
static enum sonde__rule by_fp(uint64_t from, uint64_t ip)
{
    uint64_t begin = ip;
    if (ip - from > CODE_FAR) from = ip - CODE_FAR;
    while (begin > from) {
        const uint64_t page = (begin - 1) & ~(uint64_t)(PAGE - 1);
        if (!sonde__readable(page)) break;
        begin = page > from ? page : from;
    }
    const uint8_t *code = (const uint8_t *)(uintptr_t)begin;
    return sonde__unwind_keeps_fp(code, ip - begin, begin) ? SONDE__RULE_FP : SONDE__RULE_FP_DOUBT;
}

static struct sonde__unwind_object object_of(const struct dl_find_object *o)
{
    return (struct sonde__unwind_object){ (uint64_t)(uintptr_t)o->dlfo_map_start,
                                          (uint64_t)(uintptr_t)o->dlfo_map_end,
                                          (uint64_t)(uintptr_t)o->dlfo_eh_frame };
}

/* A function that a table describes, and that does not just jump on, as those of a PLT do. */
static int is_described(uint64_t pc)
{
    struct dl_find_object o;
    struct sonde__unwind_row row = { 0 };
    uint8_t code[8];
    if (sonde__module_find(pc, &o) || !o.dlfo_eh_frame) return 0;
    const struct sonde__unwind_object object = object_of(&o);
    if (sonde__unwind_find(&object, pc, &row) || !sonde__readable(pc & ~7ull) ||
        !sonde__readable((pc + 7) & ~7ull)) {
        return 0;
    }
    memcpy(code, (const void *)(uintptr_t)pc, sizeof(code));
    const size_t skip = sonde__arch_bytes(code, sizeof(code), 0, "\xf3\x0f\x1e\xfa", 4) ? 4 : 0;
    return !sonde__arch_bytes(code, sizeof(code), skip, "\xff\x25", 2) &&
           !sonde__arch_bytes(code, sizeof(code), skip, "\xf2\xff\x25", 3);
}

/* Can code without tables at pc have been called from what returns to word? */
static int may_return_to(uint64_t word, uint64_t pc, int in_module)
{
    struct dl_find_object o;
    uint64_t to = 0, got;
    const uint64_t far = word > pc ? word - pc : pc - word, code = word - CALL_LEN;
    if (word < PAGE || word >> 63 || sonde__on_stack(word)) return 0;
    if (sonde__module_find(word - 1, &o) && (in_module || far > CODE_NEAR)) return 0;
    /* What cannot be read may be a call. */
    if (!sonde__readable(code & ~7ull) || !sonde__readable((word - 1) & ~7ull)) return 1;
    switch (sonde__arch_call_before((const uint8_t *)(uintptr_t)code, CALL_LEN, word, &to)) {
    case SONDE__CALL_NONE: return 0;
    case SONDE__CALL_INDIRECT: return 1;
    case SONDE__CALL_DIRECT: break;
    case SONDE__CALL_GOT:
        if (to % 8 || !sonde__readable(to)) return 1;
        memcpy(&got, (const void *)(uintptr_t)to, sizeof(got));
        to = got;
        break;
    }
    return !is_described(to);
}

int sonde__rule_hides_call(struct sonde__memory *m, uint64_t pc, uint64_t sp, uint64_t fp)
{
    struct dl_find_object o;
    const int in_module = !sonde__module_find(pc, &o);
    if (fp < sp || fp - sp > HIDES_MAX) return 1;
    for (uint64_t at = (sp + 7) & ~7ull; at + 8 <= fp; at += 8) {
        uint64_t word;
        if (sonde__walk_word(m, at, &word) || may_return_to(word, pc, in_module)) return 1;
    }
    return 0;
}

int sonde__rule_is_leaf(struct sonde__memory *m, uint64_t pc, uint64_t sp)
{
    struct dl_find_object o;
    uint64_t word;
    return !sonde__walk_word(m, sp, &word) &&
           may_return_to(word, pc, !sonde__module_find(pc, &o));
}

static enum sonde__rule walk_rules_look(uint64_t pc, int exact, struct sonde__unwind_row *row)
{
    struct dl_find_object o;
    const uint64_t ip = exact ? pc : pc + 1;
    if (sonde__module_find(pc, &o)) {
        return sonde__readable(pc & ~7ull) ? by_fp(0, ip) : SONDE__RULE_NOWHERE;
    }
    if (sonde__timer.area) sonde__timer_announce(&o);
    sonde__python_look(&o);
    const struct sonde__unwind_object object = object_of(&o);
    const int found = o.dlfo_eh_frame ? sonde__unwind_find(&object, pc, row) : 1;
    if (!found) return SONDE__RULE_ROW;
    const uint64_t from = found > 0 ? object.start + row->pc : ip;
    return walk_rules_guess(ip, exact, row) ? SONDE__RULE_ROW : by_fp(from, ip);
}

enum sonde__rule sonde__rule_find(uint64_t pc, int exact, int known_only,
                                  struct sonde__unwind_row *row)
{
    const uint64_t key = pc << 1 | (uint64_t)exact;
    struct walk_rules_entry *e = &rules[sonde__mix(0, key) >> 52];
    _Static_assert(RULES == 1u << 12, "the hash has as many bits");
    _Static_assert(sizeof(*row) == sizeof(e->row), "a row is two words");
    uint64_t words[2] = { __atomic_load_n(&e->row[0], __ATOMIC_RELAXED),
                          __atomic_load_n(&e->row[1], __ATOMIC_RELAXED) };
    if (__atomic_load_n(&e->key, __ATOMIC_RELAXED) == key &&
        __atomic_load_n(&e->check, __ATOMIC_RELAXED) == check_of(key, words)) {
        memcpy(row, words, sizeof(*row));
        if (!exact && row->pc == SONDE__RULE_ROW) fast_put(pc, row);
        return (enum sonde__rule)row->pc;
    }
    if (known_only) return SONDE__RULE_UNKNOWN;

    memset(row, 0, sizeof(*row));
    const enum sonde__rule rule = walk_rules_look(pc, exact, row);
    row->pc = rule; /* nobody needs where the row began */
    if (rule == SONDE__RULE_NOWHERE) return rule;
    if (!exact && rule == SONDE__RULE_ROW) fast_put(pc, row);
    memcpy(words, row, sizeof(words));
    __atomic_store_n(&e->key, key, __ATOMIC_RELAXED);
    __atomic_store_n(&e->row[0], words[0], __ATOMIC_RELAXED);
    __atomic_store_n(&e->row[1], words[1], __ATOMIC_RELAXED);
    __atomic_store_n(&e->check, check_of(key, words), __ATOMIC_RELAXED);
    return rule;
}
