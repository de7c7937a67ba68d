/* die.c - the functions around many addresses in one walk over a unit's tree.
 *
 * dwarf_getscopes() walks a unit from its start for each address; here the sorted addresses go down
 * the tree together, each subtree gets those that lie in its ranges, and subtrees without any
 * are skipped. Most units hold their code in functions at the top or in namespaces, so types and
 * functions elsewhere (which may hold nested ones) are only searched for what was not found. */
#include "profile/symbol/die.h"

#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

#define DEPTH_MAX 200 /* of the tree; compilers reach about 40 */

static int symbol_die_grow(void **array, size_t *cap, size_t need, size_t item)
{
    size_t want = *cap ? *cap : 64;
    if (need <= *cap) return 0;
    while (want < need) want *= 2;
    void *p = sonde__realloc(*array, want * item);
    if (!p) return SONDE_ENOMEM;
    *array = p;
    *cap = want;
    return 0;
}

static uint32_t symbol_die_add_node(struct sonde__die_walk *w, const Dwarf_Die *die,
                                    uint32_t parent)
{
    void *nodes = w->nodes;
    size_t cap = w->node_cap;
    if (w->node_count >= UINT32_MAX / 4) w->rc = SONDE_EFULL;
    else if (symbol_die_grow(&nodes, &cap, w->node_count + 1u, sizeof(*w->nodes)) != 0)
        w->rc = SONDE_ENOMEM;
    if (w->rc) return SONDE__DIE_NONE;
    w->nodes = nodes;
    w->node_cap = (uint32_t)cap;
    w->nodes[w->node_count] = (struct sonde__die_node){ *die, parent };
    return w->node_count++;
}

struct symbol_die_list { size_t from, count; }; /* in w->lists, ascending */

static uint64_t symbol_die_address_of(const struct sonde__die_walk *w, size_t at)
{
    return w->addrs[w->lists[at]].vaddr - w->bias;
}

static int symbol_die_by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Push those of list that lie in [low, high). */
static void push_range(struct sonde__die_walk *w, struct symbol_die_list list, uint64_t low, uint64_t high)
{
    size_t from = list.from, to = list.from + list.count;
    const size_t end = to;
    void *lists = w->lists;
    while (from < to) {
        const size_t mid = from + (to - from) / 2;
        if (symbol_die_address_of(w, mid) < low) from = mid + 1;
        else to = mid;
    }
    for (; from < end && symbol_die_address_of(w, from) < high; from++) {
        if (symbol_die_grow(&lists, &w->list_cap, w->list_top + 1, sizeof(*w->lists)) != 0) {
            w->rc = SONDE_ENOMEM;
            return;
        }
        w->lists = lists;
        w->lists[w->list_top++] = w->lists[from];
    }
}

/* Push those of list that lie in the DIE; *has_pc = 0 if it says nothing about addresses. */
static struct symbol_die_list push_inside(struct sonde__die_walk *w, struct symbol_die_list list, Dwarf_Die *die,
                               int *has_pc)
{
    struct symbol_die_list inside = { w->list_top, 0 };
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    int ranges = 0;
    while (!w->rc && (at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
        ranges++;
        if (low < high) push_range(w, list, low, high);
        /* Ranges that overlap again and again could fill the memory. */
        if (w->list_top - inside.from > list.count) break;
    }
    *has_pc = ranges > 0;
    inside.count = w->list_top - inside.from;
    if (ranges < 2 || inside.count < 2) return inside;
    uint32_t *items = w->lists + inside.from;
    qsort(items, inside.count, sizeof(*items), symbol_die_by_number);
    size_t kept = 1;
    for (size_t i = 1; i < inside.count; i++) {
        if (items[i] != items[kept - 1]) items[kept++] = items[i];
    }
    inside.count = kept;
    w->list_top = inside.from + kept;
    return inside;
}

static void walk_children(struct sonde__die_walk *w, Dwarf_Die *parent, struct symbol_die_list list,
                          uint32_t node, int depth);

static void walk_function(struct sonde__die_walk *w, Dwarf_Die *die, struct symbol_die_list list,
                          uint32_t node, int depth)
{
    int has_pc;
    const size_t top = w->list_top;
    const struct symbol_die_list inside = push_inside(w, list, die, &has_pc);
    if (!w->rc && inside.count > 0) {
        /* A function inside another one is not inlined in it. */
        const int inlined = dwarf_tag(die) == DW_TAG_inlined_subroutine;
        const uint32_t mine = symbol_die_add_node(w, die, inlined ? node : SONDE__DIE_NONE);
        for (size_t i = 0; !w->rc && i < inside.count; i++) {
            w->at[w->lists[inside.from + i]] = mine;
        }
        if (!w->rc) walk_children(w, die, inside, mine, depth + 1);
    }
    w->list_top = top;
    if (w->deep && !w->rc && inside.count == 0) walk_children(w, die, list, node, depth + 1);
}

static void walk_block(struct sonde__die_walk *w, Dwarf_Die *die, struct symbol_die_list list, uint32_t node,
                       int depth)
{
    int has_pc;
    const size_t top = w->list_top;
    const struct symbol_die_list inside = push_inside(w, list, die, &has_pc);
    if (!w->rc && inside.count > 0) walk_children(w, die, inside, node, depth + 1);
    w->list_top = top;
    if (!w->rc && !has_pc) walk_children(w, die, list, node, depth + 1);
}

static void walk_children(struct sonde__die_walk *w, Dwarf_Die *parent, struct symbol_die_list list,
                          uint32_t node, int depth)
{
    Dwarf_Die die;
    if (depth > DEPTH_MAX || dwarf_child(parent, &die) != 0) return;
    Dwarf_Off before = 0;
    do {
        /* A damaged DW_AT_sibling may lead back. */
        const Dwarf_Off here = dwarf_dieoffset(&die);
        if (here <= before) return;
        before = here;
        switch (dwarf_tag(&die)) {
        case DW_TAG_subprogram:
        case DW_TAG_inlined_subroutine:
            walk_function(w, &die, list, node, depth);
            break;
        case DW_TAG_lexical_block:
        case DW_TAG_try_block:
        case DW_TAG_catch_block:
        case DW_TAG_with_stmt:
            walk_block(w, &die, list, node, depth);
            break;
        case DW_TAG_namespace:
        case DW_TAG_module:
            walk_children(w, &die, list, node, depth + 1);
            break;
        case DW_TAG_structure_type:
        case DW_TAG_class_type:
        case DW_TAG_union_type:
        case DW_TAG_interface_type:
        case DW_TAG_enumeration_type:
            if (w->deep) walk_children(w, &die, list, node, depth + 1);
            break;
        default:
            break;
        }
    } while (!w->rc && dwarf_siblingof(&die, &die) == 0);
}

/* Stack the indexes of the addresses that have no function yet (all of them at first). */
static struct symbol_die_list push_missing(struct sonde__die_walk *w)
{
    struct symbol_die_list list = { 0, 0 };
    w->list_top = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->at[i] == SONDE__DIE_NONE) w->lists[w->list_top++] = i;
    }
    list.count = w->list_top;
    return list;
}

int sonde__die_find(struct sonde__die_walk *w, Dwarf_Die *unit,
                    const struct sonde_symbol_addr *addrs, uint32_t count, uint64_t bias)
{
    void *at = w->at, *lists = w->lists;
    size_t cap = w->at_cap;
    if (symbol_die_grow(&at, &cap, count, sizeof(*w->at)) != 0) return SONDE_ENOMEM;
    w->at = at;
    w->at_cap = (uint32_t)cap;
    if (symbol_die_grow(&lists, &w->list_cap, count, sizeof(*w->lists)) != 0) return SONDE_ENOMEM;
    w->lists = lists;
    w->addrs = addrs;
    w->count = count;
    w->bias = bias;
    w->node_count = 0;
    w->rc = 0;
    for (uint32_t i = 0; i < count; i++) w->at[i] = SONDE__DIE_NONE;
    for (w->deep = 0; w->deep < 2 && !w->rc; w->deep++) {
        const struct symbol_die_list list = push_missing(w);
        if (list.count == 0) break;
        walk_children(w, unit, list, SONDE__DIE_NONE, 0);
    }
    return w->rc;
}

void sonde__die_release(struct sonde__die_walk *w)
{
    sonde__free(w->nodes);
    sonde__free(w->at);
    sonde__free(w->lists);
    *w = (struct sonde__die_walk){ 0 };
}
