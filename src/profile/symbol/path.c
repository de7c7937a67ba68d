/* path.c - source files as whole paths. Debug information often names them relative to the
 * folder the compiler ran in; a unit's few files are named by thousands of frames. */
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/symbol/die.h"
#include "sonde/sonde.h"

#define FILES_MAX (1u << 20) /* in one unit; then paths stay as they are */

static struct sonde_symbol_path *symbol_path_slot_of(const struct sonde_symbol_paths *p,
                                                     const char *key)
{
    size_t i = (size_t)(((uintptr_t)key * 0x9e3779b97f4a7c15ull) >> 32) & (p->cap - 1);
    while (p->slots[i].key && p->slots[i].key != key) i = (i + 1) & (p->cap - 1);
    return &p->slots[i];
}

static int symbol_path_make_room(struct sonde_symbol_paths *p)
{
    if (p->cap && p->count < p->cap / 2) return 0;
    struct sonde_symbol_paths bigger = { .cap = p->cap ? p->cap * 2 : 64, .count = p->count };
    if (bigger.cap > FILES_MAX) return SONDE_EFULL;
    bigger.slots = sonde__calloc(bigger.cap, sizeof(*bigger.slots));
    if (!bigger.slots) return SONDE_ENOMEM;
    for (size_t i = 0; i < p->cap; i++) {
        if (p->slots[i].key) *symbol_path_slot_of(&bigger, p->slots[i].key) = p->slots[i];
    }
    sonde__free(p->slots);
    *p = bigger;
    return 0;
}

const char *sonde_symbol_path_whole(struct sonde_symbol_paths *p, const char *folder, const char *file)
{
    if (file[0] == '/' || file[0] == '\0' || !folder || folder[0] != '/') return file;
    if (symbol_path_make_room(p) != 0) return file;
    struct sonde_symbol_path *slot = symbol_path_slot_of(p, file);
    if (slot->key) return slot->text;
    const char *rest = strncmp(file, "./", 2) == 0 ? file + 2 : file;
    size_t len = strlen(folder);
    while (len > 0 && folder[len - 1] == '/') len--;
    const size_t size = len + 1 + strlen(rest) + 1;
    char *text = sonde__alloc(size);
    if (!text) return file;
    memcpy(text, folder, len);
    text[len] = '/';
    memcpy(text + len + 1, rest, size - len - 1);
    *slot = (struct sonde_symbol_path){ file, text };
    p->count++;
    return text;
}

void sonde_symbol_paths_release(struct sonde_symbol_paths *p)
{
    for (size_t i = 0; i < p->cap; i++) sonde__free(p->slots[i].text);
    sonde__free(p->slots);
    *p = (struct sonde_symbol_paths){ 0 };
}
