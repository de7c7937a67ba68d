/* name.c - names, stacks, devices and queues: what records have a number for. Found through indexes
 * of our own, which hold hash << 32 | number and are read without a lock; whoever adds takes the
 * lock. They are never more than half full. */
#include <dlfcn.h>
#include <string.h>

#include "preload/kernels/recorder.h"
#include "preload/preload.h"
#include "preload/walk/walk.h"
#include "record/state.h"
#include "segment/python.h"

#define NAME_SLOTS (2u * SONDE__KERNEL_NAMES_MAX)
#define STACK_SLOTS (2u * SONDE__KERNEL_STACKS_MAX)

static uint64_t name_slot[NAME_SLOTS];
static uint64_t stack_slot[STACK_SLOTS];

/* ---- Where code is ----------------------------------------------------------------------- */

#define MODULES_KNOWN 256u

static uint64_t module_known[MODULES_KNOWN]; /* what was last told of the module at a place */

static uint64_t *module_known_slot(uint64_t start)
{
    return &module_known[sonde__mix(0, start) % MODULES_KNOWN];
}

static void kernels_modules_forget(void) { memset(module_known, 0, sizeof(module_known)); }

static int kernels_module_tell(void *arg, uint64_t start, uint64_t end, uint64_t offset,
                               const char *path, uint32_t path_len)
{
    sonde__kernels_put_map(arg, start, end, offset, path, path_len);
    return 0;
}

/* Once, and again when something was unloaded since. */
static void kernels_modules_announce(struct sonde__kernels *k, uint64_t ip)
{
    struct dl_find_object o;
    if (sonde__python_is(ip) || sonde__module_find(ip, &o)) return;
    const uint64_t start = (uint64_t)(uintptr_t)o.dlfo_map_start;
    const uint64_t what = sonde__mix(sonde__mix(sonde__unloads(), start),
                                     (uint64_t)(uintptr_t)o.dlfo_map_end) | 1;
    uint64_t *slot = module_known_slot(start);
    if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) == what) return;
    sonde__module_texts(&o, kernels_module_tell, k);
    __atomic_store_n(slot, what, __ATOMIC_RELEASE);
}

/* ---- Indexes ----------------------------------------------------------------------------- */

struct kernels_wanted {         /* what is looked for */
    const void *data;
    size_t bytes;
    uint32_t flags;
    uint64_t unloads;
};

static uint32_t kernels_number_of(uint64_t off) { return (uint32_t)(off >> 6); }

static int kernels_name_is(uint32_t number, const struct kernels_wanted *w)
{
    const struct sonde__kernel_name *n =
        (const struct sonde__kernel_name *)(void *)sonde__at(sonde__kernel_off(number));
    return n->bytes == w->bytes && !memcmp(n->text, w->data, w->bytes);
}

static int kernels_stack_is(uint32_t number, const struct kernels_wanted *w)
{
    const struct sonde__kernel_stack *s =
        (const struct sonde__kernel_stack *)(void *)sonde__at(sonde__kernel_off(number));
    return s->depth * 8u == w->bytes && s->flags == w->flags && s->unloads == w->unloads &&
           !memcmp(s->ip, w->data, w->bytes);
}

static uint64_t kernels_hash(const struct kernels_wanted *w)
{
    const char *at = w->data;
    uint64_t h = sonde__mix(w->bytes + 1, w->flags ^ w->unloads << 8);
    size_t left = w->bytes;
    for (; left >= 8; left -= 8, at += 8) {
        uint64_t v;
        memcpy(&v, at, 8);
        h = sonde__mix(h, v);
    }
    uint64_t last = 0;
    memcpy(&last, at, left);
    return sonde__mix(h, last) | 1; /* a slot of 0 is empty */
}

/* The number of what is wanted, or 0 and the slot that it would go to. */
static uint32_t kernels_find(uint64_t *slots, uint32_t count, uint64_t hash,
                             const struct kernels_wanted *w,
                             int (*is)(uint32_t, const struct kernels_wanted *), uint64_t **empty)
{
    for (uint32_t i = (uint32_t)(hash >> 32) & (count - 1);; i = (i + 1) & (count - 1)) {
        const uint64_t v = __atomic_load_n(&slots[i], __ATOMIC_ACQUIRE);
        *empty = &slots[i];
        if (!v) return 0;
        if (v >> 32 == (uint32_t)hash && is((uint32_t)v, w)) return (uint32_t)v;
    }
}

static void kernels_slot_put(uint64_t *slot, uint64_t hash, uint32_t number)
{
    __atomic_store_n(slot, (uint64_t)(uint32_t)hash << 32 | number, __ATOMIC_RELEASE);
}

void sonde__kernels_forget(void)
{
    memset(name_slot, 0, sizeof(name_slot));
    memset(stack_slot, 0, sizeof(stack_slot));
    kernels_modules_forget();
}

static int kernels_lock(void) { return sonde__spin_wait(&sonde__kernels_state.lock); }

static void kernels_unlock(void)
{
    __atomic_store_n(&sonde__kernels_state.lock, 0, __ATOMIC_RELEASE);
}

/* ---- Names ------------------------------------------------------------------------------- */

static uint32_t kernels_name_store(struct sonde__kernels *k, const char *text, size_t len)
{
    if (k->name_count >= SONDE__KERNEL_NAMES_MAX) return 0;
    const uint64_t off = sonde__block_take(sizeof(struct sonde__kernel_name) + len);
    if (!off || off >> 38) return 0;
    struct sonde__kernel_name *n = (struct sonde__kernel_name *)(void *)sonde__at(off);
    n->magic = SONDE__KERNEL_NAME_MAGIC;
    n->bytes = (uint32_t)len;
    memcpy(n->text, text, len);
    __atomic_store_n(&n->ready, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&k->name_count, k->name_count + 1, __ATOMIC_RELAXED);
    return kernels_number_of(off);
}

uint32_t sonde__kernels_name(struct sonde__kernels *k, const char *text, size_t len)
{
    if (len > SONDE__KERNEL_NAME_MAX) len = SONDE__KERNEL_NAME_MAX;
    const struct kernels_wanted w = { .data = text, .bytes = len };
    const uint64_t hash = kernels_hash(&w);
    uint64_t *slot;
    uint32_t number = kernels_find(name_slot, NAME_SLOTS, hash, &w, kernels_name_is, &slot);
    if (number || !len || kernels_lock()) return number;
    number = kernels_find(name_slot, NAME_SLOTS, hash, &w, kernels_name_is, &slot);
    if (!number) number = kernels_name_store(k, text, len);
    if (number) kernels_slot_put(slot, hash, number);
    kernels_unlock();
    return number;
}

/* ---- Devices and queues ------------------------------------------------------------------ */

uint32_t sonde__kernels_device(struct sonde__kernels *k, uint32_t name, uint32_t api)
{
    if (kernels_lock()) return 0;
    uint32_t number = 0;
    const uint32_t at = k->device_count;
    if (at < SONDE__KERNEL_DEVICES) {
        k->device[at] = (struct sonde__kernel_device){ .name = name, .api = api };
        __atomic_store_n(&k->device_count, at + 1, __ATOMIC_RELEASE);
        number = at + 1;
    }
    kernels_unlock();
    return number;
}

uint32_t sonde__kernels_queue(struct sonde__kernels *k, const struct sonde__kernel_queue *q)
{
    if (kernels_lock()) return 0;
    uint32_t number = 0;
    if (k->queue_count < SONDE__KERNEL_QUEUES) {
        number = k->queue_count;
        k->queue[number] = *q;
        __atomic_store_n(&k->queue_count, number + 1, __ATOMIC_RELEASE);
    }
    kernels_unlock();
    return number;
}

/* ---- Stacks ------------------------------------------------------------------------------ */

static uint32_t kernels_stack_store(struct sonde__kernels *k, const struct kernels_wanted *w)
{
    if (k->stack_count >= SONDE__KERNEL_STACKS_MAX) return 0;
    const uint64_t off = sonde__block_take(sizeof(struct sonde__kernel_stack) + w->bytes);
    if (!off || off >> 38) return 0;
    struct sonde__kernel_stack *s = (struct sonde__kernel_stack *)(void *)sonde__at(off);
    s->magic = SONDE__KERNEL_STACK_MAGIC;
    s->depth = (uint32_t)(w->bytes / 8);
    s->flags = w->flags;
    s->unloads = w->unloads;
    memcpy(s->ip, w->data, w->bytes);
    __atomic_store_n(&s->ready, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&k->stack_count, k->stack_count + 1, __ATOMIC_RELAXED);
    return kernels_number_of(off);
}

uint32_t sonde__kernels_stack_add(struct sonde__kernels *k, const uint64_t *ips, uint32_t depth,
                                  uint32_t flags, uint64_t unloads)
{
    const struct kernels_wanted w = { ips, depth * 8u, flags, unloads };
    const uint64_t hash = kernels_hash(&w);
    uint64_t *slot;
    uint32_t number = kernels_find(stack_slot, STACK_SLOTS, hash, &w, kernels_stack_is, &slot);
    if (number) return number;
    /* Before anybody can have its number: code that the stack is in has been told of. */
    for (uint32_t i = 0; i < depth; i++) kernels_modules_announce(k, ips[i]);
    if (kernels_lock()) return 0;
    number = kernels_find(stack_slot, STACK_SLOTS, hash, &w, kernels_stack_is, &slot);
    if (!number) number = kernels_stack_store(k, &w);
    if (number) kernels_slot_put(slot, hash, number);
    kernels_unlock();
    return number;
}
