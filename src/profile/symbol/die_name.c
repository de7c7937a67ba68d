/* die_name.c - what a function of the debug information is called, once per function. */
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "profile/symbol/die.h"
#include "sonde/sonde.h"

#define ORIGINS_MAX 16

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

static int symbol_die_name_fill(struct sonde__die_name *n, Dwarf_Die *die,
                                struct sonde__demangler *demangler)
{
    int line = 0;
    const char *linkage = string_attr(die, DW_AT_linkage_name);
    if (!linkage) linkage = string_attr(die, DW_AT_MIPS_linkage_name);
    const char *plain = string_attr(die, DW_AT_name);
    const char *text = linkage ? sonde__demangle(demangler, linkage) : NULL;
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

static struct sonde__die_name *symbol_die_name_slot_of(struct sonde__die_names *n, const void *key)
{
    size_t i = (size_t)(((uintptr_t)key * 0x9e3779b97f4a7c15ull) >> 32) & (n->cap - 1);
    while (n->slots[i].key && n->slots[i].key != key) i = (i + 1) & (n->cap - 1);
    return &n->slots[i];
}

static int symbol_die_name_make_room(struct sonde__die_names *n)
{
    if (n->cap && n->count < n->cap / 2) return 0;
    struct sonde__die_names bigger = { .cap = n->cap ? n->cap * 2 : 1024, .count = n->count };
    bigger.slots = sonde__calloc(bigger.cap, sizeof(*bigger.slots));
    if (!bigger.slots) return SONDE_ENOMEM;
    for (size_t i = 0; i < n->cap; i++) {
        if (n->slots[i].key) *symbol_die_name_slot_of(&bigger, n->slots[i].key) = n->slots[i];
    }
    sonde__free(n->slots);
    *n = bigger;
    return 0;
}

const struct sonde__die_name *sonde__die_name(struct sonde__die_names *n, Dwarf_Die *die,
                                              struct sonde__demangler *demangler)
{
    Dwarf_Die origin = origin_of(die);
    if (symbol_die_name_make_room(n) != 0) return NULL;
    struct sonde__die_name *slot = symbol_die_name_slot_of(n, origin.addr);
    if (slot->key) return slot;
    /* By way of the DIE itself, not its origin: a definition may know more (its linkage name). */
    if (symbol_die_name_fill(slot, die, demangler) != 0) return NULL;
    slot->key = origin.addr;
    n->count++;
    return slot;
}

void sonde__die_names_release(struct sonde__die_names *n)
{
    for (size_t i = 0; i < n->cap; i++) sonde__free(n->slots[i].text);
    sonde__free(n->slots);
    *n = (struct sonde__die_names){ 0 };
}
