/* merges.c - see merges.h. */
#include "text/merges.h"

#include <stdlib.h>
#include <string.h>

#include "text/symbols.h"

static uint32_t pair_slot(const struct merges *m, uint32_t left, uint32_t right)
{
    const uint64_t key = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(key >> 32) & m->mask;
}

static int slots_make(struct merges *m, uint32_t slots)
{
    m->slots = malloc((size_t)slots * sizeof(*m->slots));
    if (!m->slots) return -1;
    m->mask = slots - 1;
    for (uint32_t i = 0; i < slots; i++) m->slots[i].left = SYMBOL_NONE;
    return 0;
}

int merges_init(struct merges *m, uint32_t expected)
{
    m->count = 0;
    uint32_t slots = 64;
    while (slots < expected + expected / 2 && slots < 1u << 30) slots *= 2;
    return slots_make(m, slots);
}

void merges_release(struct merges *m)
{
    free(m->slots);
    memset(m, 0, sizeof(*m));
}

static struct merge_pair *pair_find(const struct merges *m, uint32_t left, uint32_t right)
{
    uint32_t slot = pair_slot(m, left, right);
    for (; m->slots[slot].left != SYMBOL_NONE; slot = (slot + 1) & m->mask) {
        if (m->slots[slot].left == left && m->slots[slot].right == right) break;
    }
    return &m->slots[slot];
}

const struct merge_pair *merges_find(const struct merges *m, uint32_t left, uint32_t right)
{
    const struct merge_pair *pair = pair_find(m, left, right);
    return pair->left == SYMBOL_NONE ? NULL : pair;
}

int merges_add(struct merges *m, const struct merge_pair *pair)
{
    if (m->count >= (m->mask + 1) - (m->mask + 1) / 4) {
        if (m->mask >= 1u << 30) return -1;
        struct merges larger = { .count = m->count };
        if (slots_make(&larger, (m->mask + 1) * 2)) return -1;
        for (uint32_t i = 0; i <= m->mask; i++) {
            const struct merge_pair *p = &m->slots[i];
            if (p->left != SYMBOL_NONE) *pair_find(&larger, p->left, p->right) = *p;
        }
        free(m->slots);
        *m = larger;
    }
    struct merge_pair *slot = pair_find(m, pair->left, pair->right);
    if (slot->left != SYMBOL_NONE) return 0;
    *slot = *pair;
    m->count++;
    return 0;
}

int merge_work_reserve(struct merge_work *w, size_t nodes)
{
    if (nodes <= w->capacity) return 0;
    const size_t capacity = nodes < 64 ? 64 : nodes + nodes / 2;
    void *larger = realloc(w->nodes, capacity * sizeof(*w->nodes));
    if (!larger) return -1;
    w->nodes = larger;
    /* One candidate a neighbourhood at first, two more for each merge. */
    larger = realloc(w->heap, capacity * 3 * sizeof(*w->heap));
    if (!larger) return -1;
    w->heap = larger;
    w->capacity = capacity;
    return 0;
}

void merge_work_release(struct merge_work *w)
{
    free(w->nodes);
    free(w->heap);
    memset(w, 0, sizeof(*w));
}

static void merges_heap_push(struct merge_candidate *heap, size_t count, struct merge_candidate c)
{
    size_t at = count;
    while (at > 0 && heap[(at - 1) / 2].order > c.order) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = c;
}

/* The first of count; the heap is one shorter afterwards. */
static struct merge_candidate merges_heap_pop(struct merge_candidate *heap, size_t count)
{
    const struct merge_candidate first = heap[0], moved = heap[--count];
    size_t at = 0;
    for (size_t child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && heap[child + 1].order < heap[child].order) child++;
        if (moved.order <= heap[child].order) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
    return first;
}

/* Pushes what nodes left and right would become, if anything; returns the heap's new length. */
static size_t candidate_push(const struct merges *m, struct merge_work *w, size_t count,
                             int32_t left, int32_t right)
{
    if (left < 0 || right < 0) return count;
    const struct merge_node *l = &w->nodes[left], *r = &w->nodes[right];
    if (l->symbol == SYMBOL_NONE || r->symbol == SYMBOL_NONE) return count;
    w->lookups++;
    const struct merge_pair *pair = merges_find(m, l->symbol, r->symbol);
    if (!pair) return count;
    merges_heap_push(w->heap, count, (struct merge_candidate){
        .order = (uint64_t)pair->rank << 32 | (uint32_t)left,
        .right = (uint32_t)right, .bytes = l->bytes + r->bytes, .merged = pair->merged });
    return count + 1;
}

void merges_apply(const struct merges *m, struct merge_work *w)
{
    const int32_t nodes = (int32_t)w->count;
    size_t heap = 0;
    for (int32_t i = 0; i < nodes; i++) {
        w->nodes[i].prev = i - 1;
        w->nodes[i].next = i + 1 < nodes ? i + 1 : -1;
    }
    for (int32_t i = 1; i < nodes; i++) heap = candidate_push(m, w, heap, i - 1, i);
    while (heap > 0) {
        const struct merge_candidate c = merges_heap_pop(w->heap, heap--);
        const int32_t at = (int32_t)(uint32_t)c.order;
        struct merge_node *left = &w->nodes[at], *right = &w->nodes[c.right];
        /* A node only ever grows, so the same bytes are the same two symbols. */
        if (!left->bytes || !right->bytes || left->bytes + right->bytes != c.bytes) continue;
        w->merged++;
        left->symbol = c.merged;
        left->bytes = c.bytes;
        right->bytes = 0;
        left->next = right->next;
        if (right->next >= 0) w->nodes[right->next].prev = at;
        heap = candidate_push(m, w, heap, left->prev, at);
        heap = candidate_push(m, w, heap, at, left->next);
    }
}
