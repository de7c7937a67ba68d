#include "collect/cpu/stack.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/intern.h"
#include "profile/module.h"
#include "segment/python.h"
#include "sonde/sonde.h"

#define PLACES 8192u /* a power of two */
#define KERNEL_LAYOUT 1u
#define KNOWN_MAX 65536u /* a program that loads and unloads code makes ever new ones */

/* What an address was found to be. */
struct cpu_stack_place {
    uint64_t ip;
    uint32_t layout;   /* 0 = free */
    uint32_t location;
};

/* What was made of a mapping. */
struct cpu_stack_known {
    uint64_t mapping;
    uint32_t module;
};

struct sonde_cpu_stacks {
    struct sonde_profile *p;
    uint32_t depth_max;
    uint32_t layout;          /* last number given out */
    uint32_t left_out;        /* location of that name */
    uint32_t kernel;          /* module */
    struct cpu_stack_known *known;      /* by known_index */
    uint32_t known_count, known_cap;
    struct sonde_map known_index;
    size_t bytes;
    sonde_cpu_python *python;
    void *python_arg;
    struct cpu_stack_place places[PLACES];
};

int sonde_cpu_stacks_create(struct sonde_profile *p, uint32_t depth_max,
                            struct sonde_cpu_stacks **out)
{
    assert(p && out);
    struct sonde_cpu_stacks *s = sonde__calloc(1, sizeof(*s));
    if (!s) return SONDE_ENOMEM;
    s->p = p;
    s->depth_max = depth_max < 4 ? 4 : depth_max;
    s->layout = KERNEL_LAYOUT;
    if (sonde_cpu_stacks_forget(s)) {
        sonde__free(s);
        return SONDE_ENOMEM;
    }
    *out = s;
    return 0;
}

int sonde_cpu_stacks_forget(struct sonde_cpu_stacks *s)
{
    static const char left_out[] = "[frames left out]";
    memset(s->places, 0, sizeof(s->places));
    sonde_map_clear(&s->known_index);
    s->known_count = 0;
    s->kernel = 0;
    s->left_out = sonde_profile_named_location(s->p, left_out, sizeof(left_out) - 1);
    return s->left_out ? 0 : SONDE_ENOMEM;
}

void sonde_cpu_stacks_destroy(struct sonde_cpu_stacks *s)
{
    if (!s) return;
    sonde_map_release(&s->known_index);
    sonde__free(s->known);
    sonde__free(s);
}

uint32_t sonde_cpu_stacks_layout_new(struct sonde_cpu_stacks *s)
{
    if (++s->layout <= KERNEL_LAYOUT) { /* wrapped: numbers that are remembered come again */
        memset(s->places, 0, sizeof(s->places));
        s->layout = KERNEL_LAYOUT + 1;
    }
    return s->layout;
}

/* ---- Modules --------------------------------------------------------------------------------- */

static uint32_t kernel_module(struct sonde_cpu_stacks *s)
{
    if (s->kernel) return s->kernel;
    const struct sonde_module m = { .path = "[kernel]", .build_id = "", .open_path = "",
                                    .flags = SONDE_MODULE_KERNEL };
    return s->kernel = sonde_profile_add_module(s->p, &m);
}

static uint32_t make_module(struct sonde_cpu_stacks *s, struct sonde_aspace *as, uint64_t ip)
{
    struct sonde_aspace_texts texts;
    struct sonde_module m;
    return sonde_aspace_module(as, ip, &texts, &m) ? 0 : sonde_profile_add_module(s->p, &m);
}

static void cpu_stack_remember(struct sonde_cpu_stacks *s, uint32_t hash, struct cpu_stack_known k)
{
    const struct sonde_budget b = { .used = &s->bytes, .max = SIZE_MAX };
    if (s->known_count == KNOWN_MAX) {
        sonde_map_release(&s->known_index);
        s->known_count = 0;
    }
    struct cpu_stack_known *grown =
        sonde_table_grow(s->known, s->known_count, &s->known_cap, sizeof(*grown), &b);
    if (!grown) return;
    s->known = grown;
    if (sonde_intern_reserve(&s->known_index, &b)) return;
    s->known[s->known_count++] = k;
    sonde_map_put(&s->known_index, hash, s->known_count);
}

/* The profile's module of the mapping at ip; 0 = none. */
static uint32_t cpu_stack_module_at(struct sonde_cpu_stacks *s, struct sonde_aspace *as,
                                    uint64_t ip)
{
    if (!as) return kernel_module(s);
    const uint64_t mapping = sonde_aspace_mapping(as, ip);
    if (!mapping) return 0;
    const uint32_t hash = sonde_hash_end(mapping);
    uint32_t at = hash, i;
    while ((i = sonde_map_next(&s->known_index, hash, &at))) {
        if (s->known[i - 1].mapping == mapping) return s->known[i - 1].module;
    }
    const uint32_t module = make_module(s, as, ip);
    if (module) cpu_stack_remember(s, hash, (struct cpu_stack_known){ mapping, module });
    return module;
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static uint32_t location_at(struct sonde_cpu_stacks *s, struct sonde_aspace *as, uint32_t layout,
                            uint64_t ip)
{
    const uint64_t hash = (ip ^ (uint64_t)layout << 40) * SONDE_HASH_MUL;
    struct cpu_stack_place *place = &s->places[hash >> 51];
    _Static_assert(PLACES == 1u << 13, "the hash has as many bits");
    if (place->ip == ip && place->layout == layout) return place->location;
    uint32_t location;
    int final = 1;
    if (sonde__python_is(ip) && s->python) {
        location = s->python(s->python_arg, ip, &final);
    } else {
        location = sonde_profile_location(s->p, cpu_stack_module_at(s, as, ip), ip);
    }
    if (location && final) *place = (struct cpu_stack_place){ ip, layout, location };
    return location;
}

uint32_t sonde_cpu_stacks_add(struct sonde_cpu_stacks *s, struct sonde_aspace *as, uint32_t layout,
                              uint32_t parent, const uint64_t *ips, size_t count)
{
    assert(ips || !count);
    size_t gap_from = count, gap_to = count; /* frames that are left out, by index */
    if (count > s->depth_max) {
        gap_to = count - s->depth_max / 4;
        gap_from = gap_to - (count - s->depth_max);
    }
    if (!as) layout = KERNEL_LAYOUT;
    for (size_t i = count; i-- > 0;) {
        if (i < gap_to && i >= gap_from) {
            parent = sonde_profile_stack(s->p, parent, s->left_out);
            i = gap_from;
        } else {
            parent = sonde_profile_stack(s->p, parent, location_at(s, as, layout, ips[i]));
        }
        if (!parent) return 0;
    }
    return parent;
}

void sonde_cpu_stacks_python(struct sonde_cpu_stacks *s, sonde_cpu_python *location, void *arg)
{
    s->python = location;
    s->python_arg = arg;
}

uint32_t sonde_cpu_stacks_named(struct sonde_cpu_stacks *s, const char *name)
{
    return sonde_profile_stack(s->p, 0, sonde_profile_named_location(s->p, name, strlen(name)));
}
