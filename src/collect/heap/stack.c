/* stack.c - nodes of a segment into stacks of a profile, as far as they are asked for. A stack
 * is walked outwards to the first node that is known already, and made from there: each node is
 * translated once, whatever number of stacks it is part of. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "collect/heap/private.h"
#include "collect/python/location.h"
#include "sonde/sonde.h"

#define ADDRESS_BITS 48
#define TRUNCATED (1u << 31)  /* beside a stack's id */

int heap_stacks_init(struct heap_stacks *k, struct heap_target *t, struct sonde_profile *p)
{
    *k = (struct heap_stacks){ .t = t, .p = p };
    k->stack_of = sonde__calloc(t->info.nodes + 1, sizeof(*k->stack_of));
    k->module_of = sonde__calloc(t->module_count + 1, sizeof(*k->module_of));
    return k->stack_of && k->module_of ? 0 : SONDE_ENOMEM;
}

void heap_stacks_release(struct heap_stacks *k)
{
    sonde__free(k->stack_of);
    sonde__free(k->module_of);
}

/* ---- Locations ------------------------------------------------------------------------------- */

/* Of code that is in no module: what was found in /proc/PID/maps. The last one is remembered, since
 * a JIT has few. */
static uint32_t other_module(struct heap_stacks *k, uint64_t ip)
{
    struct sonde_aspace_texts texts;
    struct sonde_module m;
    const uint64_t mapping = sonde_aspace_mapping(k->t->as, ip);
    if (!mapping) return 0;
    if (mapping == k->mapping) return k->mapping_module;
    if (sonde_aspace_module(k->t->as, ip, &texts, &m) != 0) return 0;
    k->mapping = mapping;
    return k->mapping_module = sonde_profile_add_module(k->p, &m);
}

static uint32_t location_of(struct heap_stacks *k, uint64_t ip)
{
    static const char left_out[] = "[frames left out]";
    const uint32_t number = (uint32_t)(ip >> ADDRESS_BITS);
    const uint64_t address = ip & ((1ull << ADDRESS_BITS) - 1);
    uint32_t module;
    int final;
    if (sonde__python_is(ip)) {
        return sonde_python_location(k->p, k->t->base.segment, ip, &final);
    }
    if (!address) return sonde_profile_named_location(k->p, left_out, sizeof(left_out) - 1);
    if (!number || number >= k->t->module_count) {
        module = other_module(k, address);
    } else {
        uint32_t *known = &k->module_of[number];
        if (!*known) *known = sonde_profile_add_module(k->p, &k->t->modules[number]);
        module = *known;
    }
    return sonde_profile_location(k->p, module, address);
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static uint32_t unknown_stack(struct heap_stacks *k)
{
    static const char name[] = "[callers unknown]";
    return sonde_profile_stack(k->p, 0,
                               sonde_profile_named_location(k->p, name, sizeof(name) - 1));
}

int heap_stacks_get(struct heap_stacks *k, uint32_t node, uint32_t *stack, int *truncated,
                    struct sonde_err *err)
{
    assert(node == SONDE__HEAP_NODE_TRUNCATED || node < k->t->info.nodes);
    uint32_t path[SONDE__DEPTH_MAX + 1];
    uint64_t ips[SONDE__DEPTH_MAX + 1];
    uint32_t count = 0, at = node, cut = 0;
    *stack = 0;
    *truncated = 1;
    if (node == SONDE__HEAP_NODE_TRUNCATED) {
        *stack = unknown_stack(k);
        return 0;
    }
    while (at > SONDE__HEAP_NODE_TRUNCATED && !k->stack_of[at] && count <= SONDE__DEPTH_MAX) {
        struct sonde__heap_node n;
        const int rc = sonde_segment_heap_node(k->t->base.segment, at, &n, err);
        if (rc != 0) return rc;
        path[count] = at;
        ips[count++] = n.ip;
        at = n.parent;
    }
    const uint32_t known = at > SONDE__HEAP_NODE_TRUNCATED ? k->stack_of[at] : 0;
    if (at == SONDE__HEAP_NODE_TRUNCATED || (at && !known)) cut = TRUNCATED; /* or too deep */
    uint32_t id = known & ~TRUNCATED;
    cut |= known & TRUNCATED;
    while (count-- > 0) {
        id = sonde_profile_stack(k->p, id, location_of(k, ips[count]));
        if (!id) return 0; /* no memory: what is known stays right */
        k->stack_of[path[count]] = id | cut;
    }
    *stack = id;
    *truncated = cut != 0;
    return 0;
}
