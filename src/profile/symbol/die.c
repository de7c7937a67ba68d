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
#include "base/array.h"
#include "base/buf.h"
#include "base/cmp.h"
#include "base/hash.h"
#include "sonde/sonde.h"

#define DEPTH_MAX 200 /* of the tree; compilers reach about 40 */
#define NODES_MAX (1u << 30)
#define ORIGINS_MAX 16
#define FILES_MAX (1u << 19) /* in one unit; then paths stay as they are */

static uint32_t symbol_die_add_node(struct sonde_symbol_die_walk *w, const Dwarf_Die *die,
                                    uint32_t parent)
{
    w->rc = SONDE_ARRAY_RESERVE_MAX(w->nodes, w->node_cap, w->node_count + 1u, NODES_MAX);
    if (w->rc) return SONDE_SYMBOL_DIE_NONE;
    w->nodes[w->node_count] = (struct sonde_symbol_die_node){ *die, parent };
    return w->node_count++;
}

struct symbol_die_list { size_t from, count; }; /* in w->lists, ascending */

static uint64_t symbol_die_address_of(const struct sonde_symbol_die_walk *w, size_t at)
{
    return w->addrs[w->lists[at]].vaddr - w->bias;
}

/* Push those of list that lie in [low, high). */
static void push_range(struct sonde_symbol_die_walk *w, struct symbol_die_list list, uint64_t low,
                       uint64_t high)
{
    size_t from = list.from, to = list.from + list.count;
    const size_t end = to;
    while (from < to) {
        const size_t mid = from + (to - from) / 2;
        if (symbol_die_address_of(w, mid) < low) from = mid + 1;
        else to = mid;
    }
    for (; from < end && symbol_die_address_of(w, from) < high; from++) {
        w->rc = SONDE_ARRAY_ROOM(w->lists, w->list_top, w->list_cap);
        if (w->rc) return;
        w->lists[w->list_top++] = w->lists[from];
    }
}

/* Push those of list that lie in the DIE; *has_pc = 0 if it says nothing about addresses. */
static struct symbol_die_list push_inside(struct sonde_symbol_die_walk *w,
                                          struct symbol_die_list list, Dwarf_Die *die, int *has_pc)
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
    qsort(items, inside.count, sizeof(*items), sonde_cmp_u32);
    size_t kept = 1;
    for (size_t i = 1; i < inside.count; i++) {
        if (items[i] != items[kept - 1]) items[kept++] = items[i];
    }
    inside.count = kept;
    w->list_top = inside.from + kept;
    return inside;
}

static void walk_children(struct sonde_symbol_die_walk *w, Dwarf_Die *parent,
                          struct symbol_die_list list, uint32_t node, int depth);

static void walk_function(struct sonde_symbol_die_walk *w, Dwarf_Die *die,
                          struct symbol_die_list list, uint32_t node, int depth)
{
    int has_pc;
    const size_t top = w->list_top;
    const struct symbol_die_list inside = push_inside(w, list, die, &has_pc);
    if (!w->rc && inside.count > 0) {
        /* A function inside another one is not inlined in it. */
        const int inlined = dwarf_tag(die) == DW_TAG_inlined_subroutine;
        const uint32_t mine = symbol_die_add_node(w, die, inlined ? node : SONDE_SYMBOL_DIE_NONE);
        for (size_t i = 0; !w->rc && i < inside.count; i++) {
            w->at[w->lists[inside.from + i]] = mine;
        }
        if (!w->rc) walk_children(w, die, inside, mine, depth + 1);
    }
    w->list_top = top;
    if (w->deep && !w->rc && inside.count == 0) walk_children(w, die, list, node, depth + 1);
}

static void walk_block(struct sonde_symbol_die_walk *w, Dwarf_Die *die, struct symbol_die_list list,
                       uint32_t node, int depth)
{
    int has_pc;
    const size_t top = w->list_top;
    const struct symbol_die_list inside = push_inside(w, list, die, &has_pc);
    if (!w->rc && inside.count > 0) walk_children(w, die, inside, node, depth + 1);
    w->list_top = top;
    if (!w->rc && !has_pc) walk_children(w, die, list, node, depth + 1);
}

static void walk_children(struct sonde_symbol_die_walk *w, Dwarf_Die *parent,
                          struct symbol_die_list list, uint32_t node, int depth)
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
static struct symbol_die_list push_missing(struct sonde_symbol_die_walk *w)
{
    struct symbol_die_list list = { 0, 0 };
    w->list_top = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->at[i] == SONDE_SYMBOL_DIE_NONE) w->lists[w->list_top++] = i;
    }
    list.count = w->list_top;
    return list;
}

int sonde_symbol_die_find(struct sonde_symbol_die_walk *w, Dwarf_Die *unit,
                          const struct sonde_symbol_addr *addrs, uint32_t count, uint64_t bias)
{
    if (SONDE_ARRAY_RESERVE(w->at, w->at_cap, count) ||
        SONDE_ARRAY_RESERVE(w->lists, w->list_cap, count)) {
        return SONDE_ENOMEM;
    }
    w->addrs = addrs;
    w->count = count;
    w->bias = bias;
    w->node_count = 0;
    w->rc = 0;
    for (uint32_t i = 0; i < count; i++) w->at[i] = SONDE_SYMBOL_DIE_NONE;
    for (w->deep = 0; w->deep < 2 && !w->rc; w->deep++) {
        const struct symbol_die_list list = push_missing(w);
        if (list.count == 0) break;
        walk_children(w, unit, list, SONDE_SYMBOL_DIE_NONE, 0);
    }
    return w->rc;
}

void sonde_symbol_die_release(struct sonde_symbol_die_walk *w)
{
    sonde__free(w->nodes);
    sonde__free(w->at);
    sonde__free(w->lists);
    *w = (struct sonde_symbol_die_walk){ 0 };
}

/* ---- What a function is called, once per function -------------------------------------------- */

static const char *string_attr(Dwarf_Die *die, unsigned int name)
{
    Dwarf_Attribute attr;
    return dwarf_formstring(dwarf_attr_integrate(die, name, &attr));
}

/* The DIE that stands for the function wherever it was inlined or cloned: its declaration. */
static Dwarf_Die origin_of(const Dwarf_Die *die)
{
    Dwarf_Die at = *die;
    for (int i = 0; i < ORIGINS_MAX; i++) {
        Dwarf_Attribute attr;
        Dwarf_Die next;
        if (!dwarf_attr(&at, DW_AT_abstract_origin, &attr) &&
            !dwarf_attr(&at, DW_AT_specification, &attr)) {
            break;
        }
        if (!dwarf_formref_die(&attr, &next)) break;
        at = next;
    }
    return at;
}

static int has_scopes(Dwarf_Die *die)
{
    Dwarf_Die unit;
    if (!dwarf_diecu(die, &unit, NULL, NULL)) return 0;
    switch (dwarf_srclang(&unit)) {
    case DW_LANG_C_plus_plus:
    case DW_LANG_C_plus_plus_03:
    case DW_LANG_C_plus_plus_11:
    case DW_LANG_C_plus_plus_14:
    case DW_LANG_Rust:
    case DW_LANG_D:
    case 0x2b: /* DW_LANG_C_plus_plus_20 and _17 (0x2a), not in dwarf.h yet */
    case 0x2a:
        return 1;
    default:
        return 0;
    }
}

static void add_scope(struct sonde_buf *b, Dwarf_Die *scope)
{
    const char *name = dwarf_diename(scope);
    switch (dwarf_tag(scope)) {
    case DW_TAG_namespace:
        sonde_buf_puts(b, name ? name : "(anonymous namespace)");
        break;
    case DW_TAG_structure_type:
    case DW_TAG_class_type:
    case DW_TAG_union_type:
    case DW_TAG_interface_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_subprogram:
        if (!name) return;
        sonde_buf_puts(b, name);
        break;
    default:
        return;
    }
    sonde_buf_puts(b, "::");
}

/* "ns::type::name" from the tree, for functions without a linkage name (line tables only). */
static char *symbol_die_name_qualified(Dwarf_Die *die, const char *name)
{
    struct sonde_buf b;
    Dwarf_Die *scopes = NULL;
    Dwarf_Die origin = origin_of(die);
    /* The units that dwz makes of what others have in common have no language. */
    const int count = has_scopes(die) || has_scopes(&origin)
                          ? dwarf_getscopes_die(&origin, &scopes) : 0;
    sonde_buf_init(&b, SONDE_SYMBOL_TEXT_MAX);
    for (int i = count - 1; i > 0; i--) add_scope(&b, &scopes[i]);
    free(scopes);
    sonde_buf_puts(&b, name);
    char *text = sonde_buf_take(&b);
    sonde_buf_release(&b);
    return text ? text : sonde__strndup(name, SONDE_SYMBOL_TEXT_MAX);
}

static int symbol_die_name_fill(struct sonde_symbol_die_name *n, Dwarf_Die *die,
                                struct sonde_symbol_demangler *demangler)
{
    int line = 0;
    const char *linkage = string_attr(die, DW_AT_linkage_name);
    if (!linkage) linkage = string_attr(die, DW_AT_MIPS_linkage_name);
    const char *plain = string_attr(die, DW_AT_name);
    const char *text = linkage ? sonde_symbol_demangle(demangler, linkage) : NULL;
    n->raw = linkage ? linkage : plain;
    n->mangled = linkage != NULL;
    /* What the demangler refused (too long a template) the tree may say. */
    if (plain && (!text || text == linkage)) n->text = symbol_die_name_qualified(die, plain);
    else n->text = sonde__strdup(text ? text : "");
    if (!n->text) return SONDE_ENOMEM;
    const char *file = dwarf_decl_file(die);
    n->file = file ? file : "";
    n->line = dwarf_decl_line(die, &line) == 0 && line > 0 ? (uint32_t)line : 0;
    return 0;
}

const struct sonde_symbol_die_name *sonde_symbol_die_name(struct sonde_symbol_die_names *n,
                                                          Dwarf_Die *die,
                                                          struct sonde_symbol_demangler *demangler)
{
    Dwarf_Die origin = origin_of(die);
    const uint32_t hash = sonde_hash_pointer(origin.addr);
    uint32_t at = hash, row;
    while ((row = sonde_map_next(&n->map, hash, &at))) {
        if (n->rows[row - 1].key == origin.addr) return &n->rows[row - 1];
    }
    if (sonde_map_reserve(&n->map) || SONDE_ARRAY_ROOM(n->rows, n->count, n->cap)) return NULL;
    struct sonde_symbol_die_name *name = &n->rows[n->count];
    *name = (struct sonde_symbol_die_name){ .key = origin.addr };
    /* By way of the DIE itself, not its origin: a definition may know more (its linkage name). */
    if (symbol_die_name_fill(name, die, demangler) != 0) return NULL;
    sonde_map_put(&n->map, hash, ++n->count);
    return name;
}

void sonde_symbol_die_names_release(struct sonde_symbol_die_names *n)
{
    for (uint32_t i = 0; i < n->count; i++) sonde__free(n->rows[i].text);
    sonde__free(n->rows);
    sonde_map_release(&n->map);
    *n = (struct sonde_symbol_die_names){ 0 };
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Source files as whole paths: debug information often names them relative to the folder the
 * compiler ran in, and a unit's few files are named by thousands of frames. */
const char *sonde_symbol_path_whole(struct sonde_symbol_paths *p, const char *folder,
                                    const char *file)
{
    if (file[0] == '/' || file[0] == '\0' || !folder || folder[0] != '/') return file;
    const uint32_t hash = sonde_hash_pointer(file);
    uint32_t at = hash, row;
    while ((row = sonde_map_next(&p->map, hash, &at))) {
        if (p->rows[row - 1].key == file) return p->rows[row - 1].text;
    }
    if (sonde_map_reserve(&p->map) || SONDE_ARRAY_ROOM_MAX(p->rows, p->count, p->cap, FILES_MAX)) {
        return file;
    }
    const char *rest = strncmp(file, "./", 2) == 0 ? file + 2 : file;
    size_t len = strlen(folder);
    while (len > 0 && folder[len - 1] == '/') len--;
    const size_t size = len + 1 + strlen(rest) + 1;
    char *text = sonde__alloc(size);
    if (!text) return file;
    memcpy(text, folder, len);
    text[len] = '/';
    memcpy(text + len + 1, rest, size - len - 1);
    p->rows[p->count++] = (struct sonde_symbol_path){ file, text };
    sonde_map_put(&p->map, hash, p->count);
    return text;
}

void sonde_symbol_paths_release(struct sonde_symbol_paths *p)
{
    for (uint32_t i = 0; i < p->count; i++) sonde__free(p->rows[i].text);
    sonde__free(p->rows);
    sonde_map_release(&p->map);
    *p = (struct sonde_symbol_paths){ 0 };
}
