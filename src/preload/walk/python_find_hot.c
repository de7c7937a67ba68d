/* python_find_hot.c - is a module a Python interpreter, which one, and where are its fields?
 *
 * Its dynamic symbols tell, read as the dynamic linker does, from tables that are in memory: dlsym
 * takes a lock, and what dlopen brings in for itself alone it does not find. So an interpreter that
 * is linked statically (Debian's python3), that is a library, or that a program loads late is found
 * when the first stack leads through it. */
#include <elf.h>
#include <link.h>
#include <string.h>

#include "preload/walk/python_walk.h"
#include "preload/walk/walk.h"

#include "base/hot_banned.h"

#define LOOKED 256u
#define CHAIN_MAX 65536u    /* symbols that share a hash, at most */
#define SYMBOL_MAX 64u

/* ---- Symbols --------------------------------------------------------------------------------- */

struct python_find_tables {
    uint64_t low, high;         /* of the module */
    uint64_t bias;
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *hash;       /* DT_GNU_HASH */
};

static int python_find_within(const struct python_find_tables *t, const void *p, uint64_t bytes)
{
    const uint64_t at = (uint64_t)(uintptr_t)p;
    return at >= t->low && at < t->high && bytes <= t->high - at;
}

/* The dynamic linker has added the module's place to most pointers in its table, not to all. */
static const void *python_find_pointer(const struct python_find_tables *t, uint64_t value)
{
    return (const void *)(uintptr_t)(value < t->low ? value + t->bias : value);
}

static int python_find_open(const struct dl_find_object *o, struct python_find_tables *t)
{
    const struct link_map *m = o->dlfo_link_map;
    memset(t, 0, sizeof(*t));
    t->low = (uint64_t)(uintptr_t)o->dlfo_map_start;
    t->high = (uint64_t)(uintptr_t)o->dlfo_map_end;
    t->bias = m->l_addr;
    for (const ElfW(Dyn) *d = m->l_ld; d && python_find_within(t, d, sizeof(*d)) && d->d_tag; d++) {
        const void *p = python_find_pointer(t, d->d_un.d_ptr);
        if (d->d_tag == DT_SYMTAB) t->symbols = p;
        else if (d->d_tag == DT_STRTAB) t->strings = p;
        else if (d->d_tag == DT_GNU_HASH) t->hash = p;
    }
    return python_find_within(t, t->symbols, sizeof(*t->symbols)) &&
           python_find_within(t, t->strings, SYMBOL_MAX) && python_find_within(t, t->hash, 16)
               ? 0 : -1;
}

static int python_find_is(const struct python_find_tables *t, uint32_t index, const char *name,
                          size_t len)
{
    const ElfW(Sym) *s = &t->symbols[index];
    if (!python_find_within(t, s, sizeof(*s)) || s->st_shndx == SHN_UNDEF) return 0;
    const char *text = t->strings + s->st_name;
    return python_find_within(t, text, len + 1) && !memcmp(text, name, len + 1);
}

/* Where it is; 0 = the module does not define it. */
static uint64_t python_find_symbol(const struct python_find_tables *t, const char *name)
{
    uint32_t h = 5381;
    const size_t len = strlen(name);
    for (size_t i = 0; i < len; i++) h = h * 33 + (unsigned char)name[i];
    const uint32_t buckets = t->hash[0], first = t->hash[1], words = t->hash[2];
    const uint64_t *bloom = (const uint64_t *)(const void *)(t->hash + 4);
    if (!buckets || !words || !python_find_within(t, bloom, words * 8ull)) return 0;
    const uint64_t bits = 1ull << h % 64 | 1ull << (h >> t->hash[3] % 32) % 64;
    if ((bloom[h / 64 % words] & bits) != bits) return 0;
    const uint32_t *bucket = (const uint32_t *)(bloom + words);
    const uint32_t *chain = bucket + buckets;
    if (!python_find_within(t, bucket, buckets * 4ull) || bucket[h % buckets] < first) return 0;
    uint32_t i = bucket[h % buckets];
    for (uint32_t n = 0; n < CHAIN_MAX; n++, i++) {
        const uint32_t *c = chain + (i - first);
        if (!python_find_within(t, c, sizeof(*c))) return 0;
        if ((*c | 1) == (h | 1) && python_find_is(t, i, name, len)) {
            return t->symbols[i].st_value + t->bias;
        }
        if (*c & 1) return 0;
    }
    return 0;
}

/* ---- Modules --------------------------------------------------------------------------------- */

static struct sonde__python_found python_find_it;
static uint32_t python_find_stage;   /* 0 none, 1 somebody fills it in, 2 it is there */
static uint64_t python_find_looked[LOOKED];

/* A program may have a copy of a library's variable, which the library then uses as well. */
static uint64_t python_find_data(const struct python_find_tables *module, const char *name)
{
    struct dl_find_object o;
    struct python_find_tables program;
    uint64_t at = 0;
    if (sonde__program.start && !sonde__module_find(sonde__program.start, &o) &&
        !python_find_open(&o, &program)) {
        at = python_find_symbol(&program, name);
    }
    return at ? at : python_find_symbol(module, name);
}

static void python_find_fill(const struct python_find_tables *t, struct sonde__python_found *f)
{
    const uint64_t version = python_find_symbol(t, "Py_Version");
    const uint64_t state = python_find_symbol(t, "PyGILState_GetThisThreadState");
    const uint64_t runtime = python_find_symbol(t, "_PyRuntime");
    uint64_t holds = python_find_symbol(t, "_PyThreadState_UncheckedGet");
    if (!holds) holds = python_find_symbol(t, "PyThreadState_GetUnchecked");
    const size_t room = runtime >= t->low && runtime < t->high ? (size_t)(t->high - runtime) : 0;
    memset(f, 0, sizeof(*f));
    f->unloads = sonde__unloads();
    f->state = SONDE__PYTHON_OLD; /* 3.11 is the first that has it */
    if (version < t->low || version >= t->high - sizeof(f->version)) return;
    memcpy(&f->version, (const void *)(uintptr_t)version, sizeof(f->version));
    f->state = sonde__python_layout_of(f->version, (const void *)(uintptr_t)runtime, room,
                                       &f->layout);
    f->type_code = python_find_data(t, "PyCode_Type");
    f->type_text = python_find_data(t, "PyUnicode_Type");
    f->type_bytes = python_find_data(t, "PyBytes_Type");
    memcpy(&f->thread_state, &state, sizeof(state));
    memcpy(&f->thread_holds, &holds, sizeof(holds));
    if (f->state == SONDE__PYTHON_READS &&
        (!state || !f->type_code || !f->type_text || !f->type_bytes)) {
        f->state = SONDE__PYTHON_STRIPPED;
    }
}

/* Of several the first counts. It is found again after something was unloaded: whether that was it
 * is not known otherwise. */
static void python_find_keep(const struct sonde__python_found *f)
{
    struct sonde__python_found *it = &python_find_it;
    uint32_t none = 0;
    if (__atomic_load_n(&python_find_stage, __ATOMIC_ACQUIRE) == 2) {
        if (it->thread_state == f->thread_state && it->type_code == f->type_code) {
            __atomic_store_n(&it->unloads, f->unloads, __ATOMIC_RELEASE);
        }
    } else if (__atomic_compare_exchange_n(&python_find_stage, &none, 1, 0, __ATOMIC_ACQUIRE,
                                           __ATOMIC_RELAXED)) {
        *it = *f;
        __atomic_store_n(&python_find_stage, 2, __ATOMIC_RELEASE);
    }
}

__attribute__((noinline)) void sonde__python_look(const struct dl_find_object *o)
{
    struct python_find_tables t;
    struct sonde__python_found f;
    const uint64_t start = (uint64_t)(uintptr_t)o->dlfo_map_start;
    const uint64_t what = sonde__mix(sonde__mix(sonde__unloads(), start),
                                     (uint64_t)(uintptr_t)o->dlfo_map_end) | 1;
    uint64_t *slot = &python_find_looked[sonde__mix(0, start) % LOOKED];
    if (__atomic_load_n(slot, __ATOMIC_RELAXED) == what) return;
    __atomic_store_n(slot, what, __ATOMIC_RELAXED);
    if (python_find_open(o, &t) || !python_find_symbol(&t, "_PyEval_EvalFrameDefault")) return;
    python_find_fill(&t, &f);
    python_find_keep(&f);
}

const struct sonde__python_found *sonde__python_found(void)
{
    const struct sonde__python_found *f = &python_find_it;
    if (__atomic_load_n(&python_find_stage, __ATOMIC_ACQUIRE) != 2) return NULL;
    if (f->state != SONDE__PYTHON_READS) return NULL;
    return __atomic_load_n(&f->unloads, __ATOMIC_ACQUIRE) == sonde__unloads() ? f : NULL;
}

uint32_t sonde__python_met(uint32_t *version)
{
    *version = 0;
    if (__atomic_load_n(&python_find_stage, __ATOMIC_ACQUIRE) != 2) return SONDE__PYTHON_NONE;
    *version = python_find_it.version;
    return python_find_it.state;
}
