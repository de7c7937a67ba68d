/* real.c - the functions behind the ones that stand in front of llama.cpp's.
 *
 * Which one a call means depends on who calls: what is in the scope of the whole program comes
 * first (after us), and then what the caller's own library depends on, which is how plugins that
 * bring a libllama find theirs. So what was found is remembered by function and by the part of
 * memory that the caller is in. Code may be unloaded, and its place taken by other code: everything
 * remembered is void from then on (walk.h counts that). */
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/llama/llama.h"
#include "preload/preload.h"
#include "preload/walk/walk.h"

#define SLOTS 4u

struct llama_real_slot {
    uint32_t seq;            /* odd: being written */
    uint32_t unloads;
    uint64_t low, high;      /* where the caller is */
    void *real;
};

static struct llama_real_slot slots[SONDE__LLAMA_COUNT][SLOTS];
static struct llama_real_slot used_slots[SONDE__LLAMA_USED_COUNT][SLOTS];
static uint32_t writing;

static const char *const names[] = {
#define SONDE__X(id, symbol, a, b, c, absent) symbol,
    SONDE__LLAMA_FUNCTIONS(SONDE__X)
#undef SONDE__X
};

static const char *const used_names[] = {
#define SONDE__X(id, symbol) symbol,
    SONDE__LLAMA_USED(SONDE__X)
#undef SONDE__X
};

/* ---- What is remembered ---------------------------------------------------------------------- */

static int llama_real_recall(const struct llama_real_slot *s, uint64_t caller, void **real)
{
    for (uint32_t i = 0; i < SLOTS; i++, s++) {
        const uint32_t seq = __atomic_load_n(&s->seq, __ATOMIC_ACQUIRE);
        const uint64_t low = __atomic_load_n(&s->low, __ATOMIC_RELAXED);
        const uint64_t high = __atomic_load_n(&s->high, __ATOMIC_RELAXED);
        const uint32_t unloads = __atomic_load_n(&s->unloads, __ATOMIC_RELAXED);
        void *found = __atomic_load_n(&s->real, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if ((seq & 1) || !seq || __atomic_load_n(&s->seq, __ATOMIC_RELAXED) != seq) continue;
        if (caller - low >= high - low || unloads != sonde__unloads()) continue;
        *real = found;
        return 1;
    }
    return 0;
}

/* The place of one that is void, or of any. If somebody else writes, it is not remembered. */
static void llama_real_remember(struct llama_real_slot *s, uint64_t low, uint64_t high,
                                uint32_t unloads, void *real)
{
    static uint32_t turn;
    uint32_t free = 0;
    if (__atomic_exchange_n(&writing, 1, __ATOMIC_ACQUIRE)) return;
    /* From now on it matters when code is unloaded. */
    __atomic_store_n(&sonde__walks.wanted, 1, __ATOMIC_SEQ_CST);
    struct llama_real_slot *to = &s[turn++ % SLOTS];
    for (; free < SLOTS; free++) {
        if (!s[free].seq || s[free].unloads != sonde__unloads()) {
            to = &s[free];
            break;
        }
    }
    const uint32_t seq = to->seq;
    __atomic_store_n(&to->seq, seq + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&to->low, low, __ATOMIC_RELAXED);
    __atomic_store_n(&to->high, high, __ATOMIC_RELAXED);
    __atomic_store_n(&to->unloads, unloads, __ATOMIC_RELAXED);
    __atomic_store_n(&to->real, real, __ATOMIC_RELAXED);
    __atomic_store_n(&to->seq, seq + 2, __ATOMIC_RELEASE);
    __atomic_store_n(&writing, 0, __ATOMIC_RELEASE);
}

/* ---- Finding --------------------------------------------------------------------------------- */

static int llama_real_is_ours(const void *f)
{
    struct dl_find_object here, there;
    return !_dl_find_object((void *)(uintptr_t)llama_real_is_ours, &here) &&
           !_dl_find_object((void *)(uintptr_t)f, &there) &&
           here.dlfo_link_map == there.dlfo_link_map;
}

/* As the library that holds this address would find it, not counting what the whole program shares.
 * Its link map is a handle only if it was opened by itself, so it is opened again. */
static void *find_from(const struct dl_find_object *o, const char *name)
{
    const char *path = o->dlfo_link_map->l_name;
    void *handle = path[0] ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
    void *real = handle ? dlsym(handle, name) : NULL;
    if (handle) SONDE__REAL(dlclose)(handle);
    return real && !llama_real_is_ours(real) ? real : NULL;
}

static void *llama_real_find(struct llama_real_slot *s, const char *name, uint64_t caller)
{
    struct dl_find_object o;
    const uint32_t unloads = sonde__unloads();
    void *real = dlsym(RTLD_NEXT, name);
    if (real) {
        llama_real_remember(s, 0, UINT64_MAX, unloads, real);
        return real;
    }
    if (_dl_find_object((void *)(uintptr_t)caller, &o)) return NULL;
    real = find_from(&o, name);
    if (real) {
        llama_real_remember(s, (uint64_t)(uintptr_t)o.dlfo_map_start,
                            (uint64_t)(uintptr_t)o.dlfo_map_end, unloads, real);
    }
    return real;
}

/* As the loader does. */
static void llama_real_give_up(const char *name)
{
    static const char text[] = "symbol lookup error: undefined symbol: ";
    char line[128];
    const size_t len = strlen(name);
    memcpy(line, text, sizeof(text) - 1);
    memcpy(line + sizeof(text) - 1, name, len);
    line[sizeof(text) - 1 + len] = '\n';
    syscall(SYS_write, 2, line, sizeof(text) + len);
    for (;;) syscall(SYS_exit_group, 127);
}

void *sonde__llama_real(uint32_t fn, uint64_t caller)
{
    void *real;
    if (llama_real_recall(slots[fn], caller, &real)) return real;
    real = llama_real_find(slots[fn], names[fn], caller);
    if (!real) llama_real_give_up(names[fn]);
    return real;
}

void *sonde__llama_use(enum sonde__llama_used id, uint32_t fn, uint64_t caller)
{
    void *real;
    if (llama_real_recall(used_slots[id], caller, &real)) return real;
    real = llama_real_find(used_slots[id], used_names[id], caller);
    if (real) return real;

    /* A plugin's library has it, or nobody: remember that too. */
    struct dl_find_object o;
    const uint32_t unloads = sonde__unloads();
    void *beside = sonde__llama_real(fn, caller);
    if (!_dl_find_object(beside, &o)) real = find_from(&o, used_names[id]);
    if (!_dl_find_object((void *)(uintptr_t)caller, &o)) {
        llama_real_remember(used_slots[id], (uint64_t)(uintptr_t)o.dlfo_map_start,
                            (uint64_t)(uintptr_t)o.dlfo_map_end, unloads, real);
    }
    return real;
}
