/* dwarf.c - lines and inlined frames of many addresses in a file's debug information.
 *
 *   1 one table of all units' ranges, from the units themselves: .debug_aranges is missing in what
 *     clang compiles, or partial. Reading only the first DIE of a unit, that is quick;
 *   2 the addresses sorted by unit;
 *   3 each unit once: its tree (die.c) and its line table.
 *
 * libdw keeps every tree and line table it has read until the handle is closed. That is
 * gigabytes for a large C++ program, so a handle is used for UNITS_AT_ONCE units only; the sections
 * themselves are shared by all. */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/symbol/die.h"
#include "profile/symbol/elf.h"
#include "sonde/sonde.h"

#define UNITS_AT_ONCE 64

struct task {               /* one address */
    uint64_t unit;          /* offset of its unit's DIE */
    uint32_t addr;          /* in addrs */
};

struct context {
    struct sonde_symbol_elf *elf;
    Dwarf *dwarf;           /* for the next few units */
    uint64_t bias;
    const struct sonde_symbol_addr *addrs;
    struct sonde_symbol_table units;
    struct sonde_symbol_die_walk walk;
    struct sonde_symbol_die_names names;
    struct sonde_symbol_paths paths;          /* of one unit */
    struct sonde_symbol_addr *in_unit; /* scratch: addresses of one unit */
    unsigned char *done;
    sonde_symbol_emit *emit;
    void *arg;
};

/* ---- Which unit ---------------------------------------------------------------------------- */

static int add_unit(struct context *c, uint64_t low, uint64_t high, Dwarf_Off die)
{
    const struct sonde_symbol_range r = { .start = low, .end = high, .value = die };
    return sonde_symbol_table_add(&c->units, &r);
}

static int add_aranges(struct context *c, Dwarf *dwarf)
{
    Dwarf_Aranges *aranges;
    size_t count;
    int rc = 0;
    if (dwarf_getaranges(dwarf, &aranges, &count) != 0 || !aranges) return 0;
    for (size_t i = 0; !rc && i < count; i++) {
        Dwarf_Addr start;
        Dwarf_Word length;
        Dwarf_Off off;
        if (dwarf_getarangeinfo(dwarf_onearange(aranges, i), &start, &length, &off) != 0) continue;
        if (length <= UINT64_MAX - start) rc = add_unit(c, start, start + length, off);
    }
    return rc;
}

static int index_units(struct context *c, Dwarf *dwarf)
{
    Dwarf_CU *unit = NULL;
    Dwarf_Die die;
    uint8_t type;
    int rc = 0, silent = 0;
    while (!rc && dwarf_get_units(dwarf, unit, &unit, NULL, &type, &die, NULL) == 0) {
        Dwarf_Addr base, low, high;
        ptrdiff_t at = 0;
        int ranges = 0;
        if (type != DW_UT_compile && type != DW_UT_skeleton && type != DW_UT_partial) continue;
        while (!rc && (at = dwarf_ranges(&die, at, &base, &low, &high)) > 0) {
            ranges++;
            if (low < high) rc = add_unit(c, low, high, dwarf_dieoffset(&die));
        }
        if (ranges == 0) silent = 1;
    }
    /* Units that do not say where their code is. */
    if (!rc && silent) rc = add_aranges(c, dwarf);
    sonde_symbol_table_seal(&c->units);
    return rc;
}

/* ---- Frames of one address ----------------------------------------------------------------- */

static const char *call_file(Dwarf_Die *die, Dwarf_Files *files, size_t file_count)
{
    Dwarf_Attribute attr;
    Dwarf_Word index;
    if (!files || dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attr), &index) != 0 ||
        index >= file_count) {
        return "";
    }
    const char *name = dwarf_filesrc(files, index, NULL, NULL);
    return name ? name : "";
}

static uint32_t call_line(Dwarf_Die *die)
{
    Dwarf_Attribute attr;
    Dwarf_Word line;
    if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attr), &line) != 0) return 0;
    return line <= INT32_MAX ? (uint32_t)line : 0;
}

/* The name of the function itself (not inlined): as the debug information says, unless only the
 * symbol around the address tells foo from foo.cold and foo.constprop.0; and where the debug
 * information has no linkage name (gcc: all that depends on a lambda), the symbol has. */
static const char *symbol_dwarf_own_name(struct context *c,
                                         const struct sonde_symbol_die_name *name,
                                         const char *symbol)
{
    if (!symbol) return name->text;
    const size_t len = name->raw ? strlen(name->raw) : 0;
    const int clone = len > 0 && strncmp(symbol, name->raw, len) == 0 && symbol[len] == '.';
    const int only_here = !name->mangled && symbol[0] == '_' &&
                          (symbol[1] == 'Z' || symbol[1] == 'R');
    if (len > 0 && !clone && !only_here) return name->text;
    return sonde_symbol_demangle_versioned(c->elf->demangler, symbol);
}

struct unit {
    Dwarf_Die lines;        /* the unit that has the line table */
    Dwarf_Die tree;         /* the one that has the functions: another with split debug files */
    Dwarf_Files *files;     /* of tree */
    size_t file_count;
    const char *folder;     /* where it was compiled; NULL = unknown */
};

static void set_position(struct sonde_symbol_frame *f, const char *file, uint32_t line,
                         const struct sonde_symbol_die_name *name)
{
    f->line = line;
    f->file = file && file[0] ? file : name ? name->file : "";
    f->start_line = name && strcmp(name->file, f->file) == 0 ? name->line : 0;
}

static int emit_address(struct context *c, struct unit *u, uint32_t addr, uint32_t node)
{
    struct sonde_symbol_frame frames[SONDE_SYMBOL_FRAMES_MAX];
    const struct sonde_symbol_addr *a = &c->addrs[addr];
    const char *symbol = sonde_symbol_elf_find(c->elf, a->vaddr);
    const char *file = NULL;
    uint32_t count = 0, line = 0;
    int number = 0;
    Dwarf_Line *row = dwarf_getsrc_die(&u->lines, a->vaddr - c->bias);
    if (row && dwarf_lineno(row, &number) == 0 && number > 0) line = (uint32_t)number;
    if (row) file = dwarf_linesrc(row, NULL, NULL);
    while (node != SONDE_SYMBOL_DIE_NONE && count < SONDE_SYMBOL_FRAMES_MAX) {
        struct sonde_symbol_die_node *n = &c->walk.nodes[node];
        const struct sonde_symbol_die_name *name =
            sonde_symbol_die_name(&c->names, &n->die, c->elf->demangler);
        if (!name) return SONDE_ENOMEM;
        const int inlined = dwarf_tag(&n->die) == DW_TAG_inlined_subroutine;
        struct sonde_symbol_frame *f = &frames[count];
        f->name = inlined ? name->text : symbol_dwarf_own_name(c, name, symbol);
        set_position(f, file, line, name);
        /* Nameless when its origin is in a file that is missing: its caller stands for it. */
        if (f->name[0] != '\0') count++;
        file = call_file(&n->die, u->files, u->file_count);
        line = call_line(&n->die);
        node = inlined ? n->parent : SONDE_SYMBOL_DIE_NONE;
    }
    if (count == 0) { /* assembly: lines, but no functions */
        if (!symbol) return 0;
        frames[0].name = sonde_symbol_demangle_versioned(c->elf->demangler, symbol);
        set_position(&frames[0], file, line, NULL);
        count = 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        frames[i].file = sonde_symbol_path_whole(&c->paths, u->folder, frames[i].file);
    }
    c->done[addr] = 1;
    return c->emit(c->arg, a->index, frames, count);
}

/* ---- All of them --------------------------------------------------------------------------- */

static int by_unit(const void *a, const void *b)
{
    const struct task *x = a, *y = b;
    if (x->unit != y->unit) return SONDE_CMP(x->unit, y->unit);
    return SONDE_CMP(x->addr, y->addr);
}

static int find_unit(struct context *c, Dwarf_Off off, struct unit *u)
{
    Dwarf_Die split;
    uint8_t type;
    if (!dwarf_offdie(c->dwarf, off, &u->lines)) return 0;
    u->tree = u->lines;
    if (dwarf_cu_info(u->lines.cu, NULL, &type, NULL, &split, NULL, NULL, NULL) == 0 &&
        type == DW_UT_skeleton && split.addr) {
        u->tree = split;
    }
    Dwarf_Attribute attr;
    u->folder = dwarf_formstring(dwarf_attr(&u->lines, DW_AT_comp_dir, &attr));
    if (dwarf_getsrcfiles(&u->tree, &u->files, &u->file_count) != 0) u->files = NULL;
    return 1;
}

static int do_unit(struct context *c, const struct task *tasks, uint32_t count)
{
    struct unit u = { 0 };
    int rc = 0;
    if (!find_unit(c, tasks[0].unit, &u)) return 0;
    for (uint32_t i = 0; i < count; i++) c->in_unit[i] = c->addrs[tasks[i].addr];
    rc = sonde_symbol_die_find(&c->walk, &u.tree, c->in_unit, count, c->bias);
    for (uint32_t i = 0; !rc && i < count; i++) {
        rc = emit_address(c, &u, tasks[i].addr, c->walk.at[i]);
    }
    sonde_symbol_paths_release(&c->paths);
    return rc;
}

static int do_units(struct context *c, Dwarf *dwarf, const struct task *tasks, uint32_t count)
{
    int rc = 0;
    uint32_t i = 0;
    while (!rc && i < count) {
        c->dwarf = dwarf_begin_elf(dwarf_getelf(dwarf), DWARF_C_READ, NULL);
        if (!c->dwarf) return 0;
        dwarf_setalt(c->dwarf, dwarf_getalt(dwarf));
        for (int units = 0; !rc && i < count && units < UNITS_AT_ONCE; units++) {
            uint32_t n = 1;
            while (i + n < count && tasks[i + n].unit == tasks[i].unit) n++;
            rc = do_unit(c, tasks + i, n);
            i += n;
        }
        sonde_symbol_die_names_release(&c->names);
        dwarf_end(c->dwarf);
    }
    return rc;
}

int sonde_symbol_dwarf(struct sonde_symbol_elf *e, Dwarf *dwarf, uint64_t bias,
                       const struct sonde_symbol_addr *addrs, size_t count,
                       unsigned char *done, sonde_symbol_emit *emit, void *arg)
{
    struct context c = { .elf = e, .bias = bias, .addrs = addrs, .done = done, .emit = emit,
                         .arg = arg };
    uint32_t task_count = 0;
    if (count > UINT32_MAX / 4) return SONDE_EFULL;
    struct task *tasks = sonde__calloc(count, sizeof(*tasks));
    c.in_unit = sonde__calloc(count, sizeof(*c.in_unit));
    int rc = tasks && c.in_unit ? index_units(&c, dwarf) : SONDE_ENOMEM;
    for (uint32_t i = 0; !rc && i < count; i++) {
        const struct sonde_symbol_range *r =
            sonde_symbol_table_find(&c.units, addrs[i].vaddr - bias);
        if (r) tasks[task_count++] = (struct task){ r->value, i };
    }
    if (!rc && task_count > 0) {
        qsort(tasks, task_count, sizeof(*tasks), by_unit);
        rc = do_units(&c, dwarf, tasks, task_count);
    }
    sonde_symbol_die_release(&c.walk);
    sonde_symbol_table_release(&c.units);
    sonde__free(c.in_unit);
    sonde__free(tasks);
    return rc;
}
