/* node_hot.c - stacks as nodes in the segment, and which of them are sites.
 *
 * A node is found by (parent, address) through an index of our own: open addressing, entries of
 * hash and number, read without a lock. Whoever adds takes the lock. A larger index is filled and
 * then put in place; smaller ones are kept, since others may be looking into them. */
#include <dlfcn.h>
#include <string.h>

#include "preload/heap/heap.h"
#include "record/state.h"
#include "segment/python.h"

#include "base/hot_banned.h"

#define INDEX_FIRST 4096u
#define INDEX_MAX (2u * SONDE__HEAP_NODES * SONDE__HEAP_NODE_CHUNKS)
#define SITES_MAX (SONDE__HEAP_ROWS * SONDE__HEAP_ROW_CHUNKS)
#define MODULES_MAX SONDE__PYTHON_TAG
_Static_assert(MODULES_MAX <= SONDE__HEAP_MODULES * SONDE__HEAP_MODULE_CHUNKS, "they fit");
#define PAGES 1024u         /* whose module is remembered */
#define ADDRESS_BITS 48

struct index {
    uint32_t mask;
    uint32_t pad;
    uint64_t slot[];        /* hash << 32 | node; 0 = empty */
};

static struct index *index_now;
static uint32_t *site_nodes;        /* node of each site */
static uint64_t page_module[PAGES]; /* page << 28 | unloads' low bits << 16 | module */

static struct sonde__heap *heap_node_area(void) { return sonde__heap_state.area; }

static struct sonde__heap_node *heap_node_at(uint32_t i)
{
    const uint64_t chunk = __atomic_load_n(&heap_node_area()->node_chunk[i / SONDE__HEAP_NODES],
                                           __ATOMIC_ACQUIRE);
    return (struct sonde__heap_node *)(void *)sonde__at(chunk) + i % SONDE__HEAP_NODES;
}

/* ---- Modules --------------------------------------------------------------------------------- */

struct text { uint64_t pc, start, end, offset; const char *path; uint32_t path_len; uint32_t id; };

static struct sonde__heap_module *heap_node_module_at(uint32_t i)
{
    const uint64_t chunk = heap_node_area()->module_chunk[i / SONDE__HEAP_MODULES];
    return (struct sonde__heap_module *)(void *)sonde__at(chunk) + i % SONDE__HEAP_MODULES;
}

static uint64_t path_store(const char *path, uint32_t len)
{
    const uint64_t at = sonde__block_take(sizeof(struct sonde__heap_path) + len);
    if (!at) return 0;
    struct sonde__heap_path *p = (struct sonde__heap_path *)(void *)sonde__at(at);
    memcpy(p->text, path, len);
    p->len = len;
    return at;
}

static uint32_t module_add(const struct text *t)
{
    SONDE_MUST(SONDE__HEAP_HOLDS(SONDE__HEAP_RANK_NODE));
    struct sonde__heap *m = heap_node_area();
    const uint32_t id = m->module_count;
    if (id >= MODULES_MAX) return 0;
    uint64_t *chunk = &m->module_chunk[id / SONDE__HEAP_MODULES];
    if (!*chunk) {
        const uint64_t at =
            sonde__block_take(SONDE__HEAP_MODULES * sizeof(struct sonde__heap_module));
        __atomic_store_n(chunk, at, __ATOMIC_RELEASE);
        if (!at) return 0;
    }
    const uint64_t path = path_store(t->path, t->path_len);
    if (!path) return 0;
    *heap_node_module_at(id) = (struct sonde__heap_module){ t->start, t->end, t->offset, path };
    __atomic_store_n(&m->module_count, id + 1, __ATOMIC_RELEASE);
    return id;
}

static int same_path(const struct sonde__heap_module *m, const struct text *t)
{
    const struct sonde__heap_path *p = (const struct sonde__heap_path *)(void *)sonde__at(m->path);
    return p->len == t->path_len && !memcmp(p->text, t->path, p->len);
}

/* One that is back where it was is the same. */
static int module_find(void *arg, uint64_t start, uint64_t end, uint64_t offset, const char *path,
                       uint32_t path_len)
{
    struct text *t = arg;
    if (t->pc < start || t->pc >= end) return 0;
    *t = (struct text){ t->pc, start, end, offset, path, path_len, 0 };
    if (sonde__heap_lock(&sonde__heap_gate.node_lock, SONDE__HEAP_RANK_NODE)) return 1;
    for (uint32_t i = heap_node_area()->module_count - 1; i >= 1 && !t->id; i--) {
        const struct sonde__heap_module *m = heap_node_module_at(i);
        if (m->start == start && m->end == end && same_path(m, t)) t->id = i;
    }
    if (!t->id) t->id = module_add(t);
    sonde__heap_unlock(&sonde__heap_gate.node_lock, SONDE__HEAP_RANK_NODE);
    return 1;
}

__attribute__((noinline)) static uint32_t module_look(uint64_t pc)
{
    struct dl_find_object o;
    struct text t = { .pc = pc };
    if (!sonde__module_find(pc, &o)) sonde__module_texts(&o, module_find, &t);
    return t.id;
}

uint64_t sonde__heap_tag(uint64_t ip)
{
    if (sonde__python_is(ip)) return ip;
    const uint64_t page = ip >> 12, key = page << 12 | (sonde__unloads() & 0xfff);
    uint64_t *slot = &page_module[(page ^ page >> 10) % PAGES];
    const uint64_t known = __atomic_load_n(slot, __ATOMIC_RELAXED);
    uint64_t module = known & 0xffff;
    if (known >> 16 != key) {
        module = module_look(ip);
        __atomic_store_n(slot, key << 16 | module, __ATOMIC_RELAXED);
    }
    return ip | module << ADDRESS_BITS;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static uint32_t heap_node_hash(uint32_t parent, uint64_t ip)
{
    uint64_t h = (ip ^ (uint64_t)parent << 32 ^ parent) * 0x9e3779b97f4a7c15ull;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93ull;
    return (uint32_t)(h >> 32) | 1; /* an entry is not 0 */
}

static struct index *index_make(uint32_t slots)
{
    struct index *x = sonde__heap_pages(sizeof(*x) + slots * sizeof(x->slot[0]));
    if (x) x->mask = slots - 1;
    return x;
}

/* 0: not there; *at is where it would go. */
static uint32_t look_up(const struct index *x, uint32_t parent, uint64_t ip, uint32_t h,
                        uint32_t *at)
{
    uint32_t i = h >> 1 & x->mask;
    for (;; i = (i + 1) & x->mask) {
        const uint64_t slot = __atomic_load_n(&x->slot[i], __ATOMIC_ACQUIRE);
        if (!slot) break;
        if (slot >> 32 != h) continue;
        const struct sonde__heap_node *n = heap_node_at((uint32_t)slot);
        if (n->ip == ip && n->parent == parent) return (uint32_t)slot;
    }
    *at = i;
    return 0;
}

static int index_grow(void)
{
    SONDE_MUST(SONDE__HEAP_HOLDS(SONDE__HEAP_RANK_NODE));
    const struct index *old = index_now;
    const uint32_t slots = (old->mask + 1) * 2;
    if (slots > INDEX_MAX) return 0; /* as many as nodes: it gets fuller, never full */
    struct index *x = index_make(slots);
    if (!x) return -1;
    for (uint32_t i = 0; i <= old->mask; i++) {
        if (!old->slot[i]) continue;
        uint32_t at = (uint32_t)(old->slot[i] >> 33) & x->mask;
        while (x->slot[at]) at = (at + 1) & x->mask;
        x->slot[at] = old->slot[i];
    }
    __atomic_store_n(&index_now, x, __ATOMIC_RELEASE);
    return 0;
}

static uint32_t node_add(uint32_t parent, uint64_t ip, uint32_t h)
{
    SONDE_MUST(SONDE__HEAP_HOLDS(SONDE__HEAP_RANK_NODE));
    SONDE_MUST(parent < heap_node_area()->node_count);
    struct sonde__heap *m = heap_node_area();
    uint32_t at;
    const uint32_t id = m->node_count;
    const uint32_t known = look_up(index_now, parent, ip, h, &at);
    if (known) return known;
    if (id >= SONDE__HEAP_NODES * SONDE__HEAP_NODE_CHUNKS) return 0;
    if (id * 3ull > index_now->mask * 2ull) {
        if (index_grow()) return 0;
        look_up(index_now, parent, ip, h, &at);
    }
    uint64_t *chunk = &m->node_chunk[id / SONDE__HEAP_NODES];
    if (!*chunk) {
        const uint64_t bytes = SONDE__HEAP_NODES * sizeof(struct sonde__heap_node);
        __atomic_store_n(chunk, sonde__block_take(bytes), __ATOMIC_RELEASE);
        if (!*chunk) return 0;
    }
    *heap_node_at(id) = (struct sonde__heap_node){ ip, parent, 0 };
    __atomic_store_n(&m->node_count, id + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&index_now->slot[at], (uint64_t)h << 32 | id, __ATOMIC_RELEASE);
    return id;
}

uint32_t sonde__heap_node(uint32_t parent, uint64_t ip)
{
    const uint32_t h = heap_node_hash(parent, ip);
    uint32_t at;
    uint32_t id = look_up(__atomic_load_n(&index_now, __ATOMIC_ACQUIRE), parent, ip, h, &at);
    if (id || sonde__heap_lock(&sonde__heap_gate.node_lock, SONDE__HEAP_RANK_NODE)) return id;
    id = node_add(parent, ip, h);
    sonde__heap_unlock(&sonde__heap_gate.node_lock, SONDE__HEAP_RANK_NODE);
    return id;
}

/* ---- Sites ----------------------------------------------------------------------------------- */

/* Its row in lane 0 is there from the start: what finds no room elsewhere goes
 * there. */
static uint32_t site_add(uint32_t node)
{
    SONDE_MUST(SONDE__HEAP_HOLDS(SONDE__HEAP_RANK_NODE));
    struct sonde__heap *m = heap_node_area();
    struct sonde__heap_node *n = heap_node_at(node);
    const uint32_t site = m->site_count;
    if (n->site) return n->site;
    if (site >= SITES_MAX || !sonde__heap_row(0, site)) return SONDE__HEAP_SITE_REST;
    site_nodes[site] = node;
    __atomic_store_n(&m->site_count, site + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&n->site, site, __ATOMIC_RELEASE);
    return site;
}

uint32_t sonde__heap_site(uint32_t node)
{
    SONDE_MUST(node && node < heap_node_area()->node_count);
    uint32_t site = __atomic_load_n(&heap_node_at(node)->site, __ATOMIC_ACQUIRE);
    if (site) return site;
    if (sonde__heap_lock(&sonde__heap_gate.node_lock, SONDE__HEAP_RANK_NODE)) {
        return SONDE__HEAP_SITE_REST;
    }
    site = site_add(node);
    sonde__heap_unlock(&sonde__heap_gate.node_lock, SONDE__HEAP_RANK_NODE);
    return site;
}

uint32_t sonde__heap_site_node(uint32_t site) { return site_nodes[site]; }

int sonde__heap_nodes_init(void)
{
    struct sonde__heap *m = heap_node_area();
    index_now = index_make(INDEX_FIRST);
    site_nodes = sonde__heap_pages(SITES_MAX * sizeof(*site_nodes));
    memset(page_module, 0, sizeof(page_module));
    m->node_count = m->site_count = m->module_count = 1;
    if (!index_now || !site_nodes) return -1;
    if (sonde__heap_lock(&sonde__heap_gate.node_lock, SONDE__HEAP_RANK_NODE)) return -1;
    const uint32_t node = node_add(0, 0, heap_node_hash(0, 0));
    const uint32_t site = node ? site_add(node) : 0;
    sonde__heap_unlock(&sonde__heap_gate.node_lock, SONDE__HEAP_RANK_NODE);
    return node == SONDE__HEAP_NODE_TRUNCATED && site == SONDE__HEAP_SITE_REST ? 0 : -1;
}
