/* timer_rules_hot.c - the rule for an address: remembered, or from the module it is in.
 *
 * Remembered rules are shared by all threads without a lock. An entry is four words and the last
 * one is a hash of the others: a mixture of two writers' words does not match and is no rule. */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "preload/timer.h"

#include "base/hot_banned.h"

#define RULES 4096u
#define OBJECTS 256u
#define CODE_BEFORE 8u
#define CODE_LEN 32u
#define PAGE 4096u

static struct entry { uint64_t key, row[2], check; } rules[RULES];
static uint64_t announced[OBJECTS]; /* what was last told about the module at a place */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

static uint64_t check_of(uint64_t key, const uint64_t row[2])
{
    const uint64_t unloads = __atomic_load_n(&sonde__timer.unloads, __ATOMIC_RELAXED);
    return mix(mix(mix(unloads + 1, key), row[0]), row[1]);
}

/* ---- Telling the agent where code is ------------------------------------------------------- */

struct program {                /* of the module */
    const ElfW(Phdr) *phdr;
    uint32_t count;
    uint64_t first;             /* lowest address, as linked */
};

/* The loader maps the headers with the first bytes of the module. */
static int headers(const struct dl_find_object *o, struct program *out)
{
    const uint64_t start = (uint64_t)(uintptr_t)o->dlfo_map_start;
    const uint64_t bytes = (uint64_t)(uintptr_t)o->dlfo_map_end - start;
    ElfW(Ehdr) h;
    if (bytes < sizeof(h) || start % 8 || !sonde__readable(start)) return -1;
    memcpy(&h, (const void *)(uintptr_t)start, sizeof(h));
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_phentsize != sizeof(ElfW(Phdr)) ||
        h.e_phoff > PAGE || h.e_phoff % 8 ||
        h.e_phoff + (uint64_t)h.e_phnum * sizeof(ElfW(Phdr)) > PAGE) {
        return -1;
    }
    out->phdr = (const ElfW(Phdr) *)(uintptr_t)(start + h.e_phoff);
    out->count = h.e_phnum;
    out->first = UINT64_MAX;
    for (uint32_t i = 0; i < out->count; i++) {
        const ElfW(Phdr) *p = &out->phdr[i];
        if (p->p_type == PT_LOAD && p->p_vaddr < out->first) out->first = p->p_vaddr;
    }
    out->first &= ~(uint64_t)(PAGE - 1);
    return 0;
}

/* The path as the agent can use it: in out, or where it is. */
static const char *path_of(const char *name, char *out, size_t out_size, uint32_t *len)
{
    if (!name[0]) name = sonde__timer.exe;
    if (!strncmp(name, "linux-vdso", 10) || !strncmp(name, "linux-gate", 10)) name = "[vdso]";
    size_t n = strnlen(name, SONDE__MAP_PATH_MAX + 1);
    const size_t dir = strlen(sonde__timer.cwd);
    if (name[0] != '/' && name[0] != '[' && dir && dir + 1 + n <= out_size) {
        memcpy(out, sonde__timer.cwd, dir);
        out[dir] = '/';
        memcpy(out + dir + 1, name, n);
        name = out;
        n += dir + 1;
    }
    *len = (uint32_t)n;
    return name;
}

__attribute__((noinline)) static void announce(const struct dl_find_object *o)
{
    char absolute[512];
    uint32_t len;
    struct program program;
    const char *path = path_of(o->dlfo_link_map->l_name, absolute, sizeof(absolute), &len);
    if (len > SONDE__MAP_PATH_MAX || headers(o, &program)) return;
    const uint64_t start = (uint64_t)(uintptr_t)o->dlfo_map_start;
    for (uint32_t i = 0; i < program.count; i++) {
        const ElfW(Phdr) *p = &program.phdr[i];
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X)) continue;
        const uint64_t at = start + p->p_vaddr - program.first;
        const uint64_t skew = at % PAGE;
        const uint64_t end = (at + p->p_filesz + PAGE - 1) & ~(uint64_t)(PAGE - 1);
        sonde__ring_map(at - skew, end, p->p_offset - skew, path, len);
    }
}

/* Once, and again when something was unloaded since: another module may have been there. Marked
 * when done, so that nobody's sample gets ahead of it. */
static void announce_once(const struct dl_find_object *o)
{
    const uint64_t start = (uint64_t)(uintptr_t)o->dlfo_map_start;
    const uint64_t what = mix(mix(__atomic_load_n(&sonde__timer.unloads, __ATOMIC_RELAXED), start),
                              (uint64_t)(uintptr_t)o->dlfo_map_end) | 1;
    uint64_t *slot = &announced[mix(0, start) % OBJECTS];
    if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) == what) return;
    announce(o);
    __atomic_store_n(slot, what, __ATOMIC_RELEASE);
}

/* ---- Finding -------------------------------------------------------------------------------- */

/* Where there is no rule the code may show one. Within a page: the next may not be there. */
static int guess(uint64_t ip, int exact, struct sonde__unwind_row *row)
{
    const uint64_t in_page = ip % PAGE;
    const uint64_t before = in_page < CODE_BEFORE ? in_page : CODE_BEFORE;
    const uint64_t after = PAGE - in_page < CODE_LEN - before ? PAGE - in_page : CODE_LEN - before;
    if (!sonde__readable(ip & ~7ull)) return 0;
    return sonde__unwind_guess((const uint8_t *)(uintptr_t)(ip - before), before + after, before,
                               exact, row);
}

static enum sonde__rule look(uint64_t pc, int exact, struct sonde__unwind_row *row)
{
    struct dl_find_object o;
    if (_dl_find_object((void *)(uintptr_t)pc, &o)) {
        return sonde__readable(pc & ~7ull) ? SONDE__RULE_FP : SONDE__RULE_NOWHERE;
    }
    announce_once(&o);
    const struct sonde__unwind_object object = { (uint64_t)(uintptr_t)o.dlfo_map_start,
                                                 (uint64_t)(uintptr_t)o.dlfo_map_end,
                                                 (uint64_t)(uintptr_t)o.dlfo_eh_frame };
    if (o.dlfo_eh_frame && !sonde__unwind_find(&object, pc, row)) return SONDE__RULE_ROW;
    return guess(exact ? pc : pc + 1, exact, row) ? SONDE__RULE_ROW : SONDE__RULE_FP;
}

enum sonde__rule sonde__rule_find(uint64_t pc, int exact, int known_only,
                                  struct sonde__unwind_row *row)
{
    const uint64_t key = pc << 1 | (uint64_t)exact;
    struct entry *e = &rules[mix(0, key) >> 52];
    _Static_assert(RULES == 1u << 12, "the hash has as many bits");
    _Static_assert(sizeof(*row) == sizeof(e->row), "a row is two words");
    uint64_t words[2] = { __atomic_load_n(&e->row[0], __ATOMIC_RELAXED),
                          __atomic_load_n(&e->row[1], __ATOMIC_RELAXED) };
    if (__atomic_load_n(&e->key, __ATOMIC_RELAXED) == key &&
        __atomic_load_n(&e->check, __ATOMIC_RELAXED) == check_of(key, words)) {
        memcpy(row, words, sizeof(*row));
        return (enum sonde__rule)row->pc;
    }
    if (known_only) return SONDE__RULE_UNKNOWN;

    memset(row, 0, sizeof(*row));
    const enum sonde__rule rule = look(pc, exact, row);
    row->pc = rule; /* nobody needs where the row began */
    if (rule == SONDE__RULE_NOWHERE) return rule;
    memcpy(words, row, sizeof(words));
    __atomic_store_n(&e->key, key, __ATOMIC_RELAXED);
    __atomic_store_n(&e->row[0], words[0], __ATOMIC_RELAXED);
    __atomic_store_n(&e->row[1], words[1], __ATOMIC_RELAXED);
    __atomic_store_n(&e->check, check_of(key, words), __ATOMIC_RELAXED);
    return rule;
}
