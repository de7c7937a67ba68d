/* kv.c - see kv.h.
 *
 * A page holds all layers, not one: a sequence needs the same positions of every layer, so a page
 * for each would be a table as many times as long and nothing else. Pages belong to one slot.
 * Sharing them between slots (as vLLM does) would save memory where many prompts begin alike; it
 * needs counts of users and copies on write, and a slot whose beginning fits is found without
 * that. */
#include "model/kv.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct kv_slot {
    int32_t *tokens;             /* at positions 0 … length − 1 */
    uint16_t **pages;
    uint32_t length, pages_count;
    int busy;
    uint64_t used;               /* the clock when it was last taken or released */
};

struct kv {
    struct buddy *pool;
    uint32_t slots, context, layers, heads, head_dim;
    size_t head_stride, layer_stride; /* in numbers */
    uint64_t page_bytes, clock;
    _Atomic uint64_t cells_used;
    uint64_t cells_total;
    _Atomic uint64_t evictions;
    struct kv_slot *slot;
};

static uint32_t kv_pages_for(uint32_t length) { return (length + KV_PAGE - 1) / KV_PAGE; }

uint64_t kv_page_bytes_of(const struct model *m)
{
    return (uint64_t)m->layers * 2 * m->heads_kv * KV_PAGE * m->head_dim * sizeof(uint16_t);
}

uint64_t kv_pool_bytes_of(const struct model *m, uint64_t pages)
{
    uint64_t block = KV_POOL_UNIT;
    while (block < kv_page_bytes_of(m)) block *= 2;
    return block * pages;
}

int kv_create(const struct model *m, uint32_t slots, uint32_t context, struct buddy *pool,
              struct kv **out, struct fail *why)
{
    assert(slots > 0);
    assert(context > 0);
    struct kv *kv = calloc(1, sizeof(*kv));
    if (!kv) return fail_set(why, "out of memory");
    kv->pool = pool;
    kv->slots = slots;
    kv->context = context;
    kv->layers = m->layers;
    kv->heads = m->heads_kv;
    kv->head_dim = m->head_dim;
    kv->head_stride = (size_t)KV_PAGE * m->head_dim;
    kv->layer_stride = kv->head_stride * m->heads_kv * 2;
    kv->page_bytes = kv_page_bytes_of(m);

    struct buddy_stats stats;
    buddy_stats(pool, &stats);
    const uint64_t fits = stats.capacity_bytes / kv_pool_bytes_of(m, 1) * KV_PAGE;
    const uint64_t wanted = (uint64_t)slots * context;
    kv->cells_total = fits < wanted ? fits : wanted;

    kv->slot = calloc(slots, sizeof(*kv->slot));
    int failed = !kv->slot;
    for (uint32_t i = 0; !failed && i < slots; i++) {
        kv->slot[i].tokens = malloc(context * sizeof(*kv->slot[i].tokens));
        kv->slot[i].pages = calloc(kv_pages_for(context), sizeof(*kv->slot[i].pages));
        failed = !kv->slot[i].tokens || !kv->slot[i].pages;
    }
    if (failed) {
        kv_destroy(kv);
        return fail_set(why, "out of memory for %u slots of %u positions", slots, context);
    }
    *out = kv;
    return 0;
}

void kv_destroy(struct kv *kv)
{
    if (!kv) return;
    for (uint32_t i = 0; kv->slot && i < kv->slots; i++) {
        struct kv_slot *s = &kv->slot[i];
        for (uint32_t k = 0; k < s->pages_count; k++) buddy_free(kv->pool, s->pages[k]);
        free(s->tokens);
        free(s->pages);
    }
    free(kv->slot);
    free(kv);
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static struct kv_slot *slot_busy(const struct kv *kv, uint32_t slot)
{
    assert(slot < kv->slots);
    assert(kv->slot[slot].busy);
    return &kv->slot[slot];
}

static void slot_set_length(struct kv *kv, struct kv_slot *s, uint32_t length)
{
    atomic_store_explicit(&kv->cells_used, kv->cells_used - s->length + length,
                          memory_order_relaxed);
    s->length = length;
}

static void slot_cut(struct kv *kv, struct kv_slot *s, uint32_t length)
{
    while (s->pages_count > kv_pages_for(length)) buddy_free(kv->pool, s->pages[--s->pages_count]);
    if (length < s->length) slot_set_length(kv, s, length);
}

static uint32_t slot_shared(const struct kv_slot *s, const int32_t *tokens, uint32_t max)
{
    uint32_t n = 0;
    if (max > s->length) max = s->length;
    while (n < max && s->tokens[n] == tokens[n]) n++;
    return n;
}

int32_t kv_slot_take(struct kv *kv, const int32_t *tokens, uint32_t count, uint32_t *reused)
{
    int32_t best = -1;
    uint32_t best_shared = 0;
    for (uint32_t i = 0; i < kv->slots; i++) {
        const struct kv_slot *s = &kv->slot[i];
        if (s->busy) continue;
        const uint32_t shared = slot_shared(s, tokens, count ? count - 1 : 0);
        if (best >= 0 && (shared < best_shared ||
                          (shared == best_shared && s->used >= kv->slot[best].used))) continue;
        best = (int32_t)i;
        best_shared = shared;
    }
    if (best < 0) return -1;
    struct kv_slot *s = &kv->slot[best];
    s->busy = 1;
    s->used = ++kv->clock;
    slot_cut(kv, s, best_shared);
    *reused = best_shared;
    return best;
}

void kv_slot_release(struct kv *kv, uint32_t slot)
{
    struct kv_slot *s = slot_busy(kv, slot);
    slot_cut(kv, s, s->length); /* room that was reserved and is not used */
    s->busy = 0;
    s->used = ++kv->clock;
}

/* The last page of the idle slot that was used longest ago goes; 0 if there is none. */
static int page_evict(struct kv *kv)
{
    struct kv_slot *victim = NULL;
    for (uint32_t i = 0; i < kv->slots; i++) {
        struct kv_slot *s = &kv->slot[i];
        if (s->busy || !s->pages_count || (victim && s->used >= victim->used)) continue;
        victim = s;
    }
    if (!victim) return 0;
    slot_cut(kv, victim, (victim->length - 1) / KV_PAGE * KV_PAGE);
    return 1;
}

int kv_slot_reserve(struct kv *kv, uint32_t slot, uint32_t length)
{
    struct kv_slot *s = slot_busy(kv, slot);
    if (length > kv->context) return -1;
    while (s->pages_count < kv_pages_for(length)) {
        void *page = buddy_alloc(kv->pool, kv->page_bytes);
        if (page) {
            s->pages[s->pages_count++] = page;
        } else if (!page_evict(kv)) {
            return -1;
        } else {
            atomic_fetch_add_explicit(&kv->evictions, 1, memory_order_relaxed);
        }
    }
    return 0;
}

void kv_slot_cut(struct kv *kv, uint32_t slot, uint32_t length)
{
    slot_cut(kv, slot_busy(kv, slot), length);
}

void kv_slot_append(struct kv *kv, uint32_t slot, const int32_t *tokens, uint32_t count)
{
    struct kv_slot *s = slot_busy(kv, slot);
    assert(kv_pages_for(s->length + count) <= s->pages_count);
    memcpy(s->tokens + s->length, tokens, count * sizeof(*tokens));
    slot_set_length(kv, s, s->length + count);
}

uint32_t kv_slot_length(const struct kv *kv, uint32_t slot)
{
    assert(slot < kv->slots);
    return kv->slot[slot].length;
}

/* ---- Cells ----------------------------------------------------------------------------------- */

static uint16_t *kv_cell(struct kv *kv, uint32_t slot, uint32_t layer, uint32_t row,
                         uint32_t position)
{
    assert(slot < kv->slots && layer < kv->layers);
    assert(position / KV_PAGE < kv->slot[slot].pages_count);
    return kv->slot[slot].pages[position / KV_PAGE] + layer * kv->layer_stride +
           row * kv->head_stride + (size_t)(position % KV_PAGE) * kv->head_dim;
}

uint16_t *kv_key(struct kv *kv, uint32_t slot, uint32_t layer, uint32_t head, uint32_t position)
{
    return kv_cell(kv, slot, layer, head, position);
}

uint16_t *kv_value(struct kv *kv, uint32_t slot, uint32_t layer, uint32_t head, uint32_t position)
{
    return kv_cell(kv, slot, layer, kv->heads + head, position);
}

uint64_t kv_page_bytes(const struct kv *kv) { return kv->page_bytes; }
uint32_t kv_slots(const struct kv *kv) { return kv->slots; }
uint32_t kv_context(const struct kv *kv) { return kv->context; }

void kv_cells(const struct kv *kv, uint64_t *used, uint64_t *total)
{
    *used = atomic_load_explicit(&kv->cells_used, memory_order_relaxed);
    *total = kv->cells_total;
}

uint64_t kv_evictions(const struct kv *kv)
{
    return atomic_load_explicit(&kv->evictions, memory_order_relaxed);
}
