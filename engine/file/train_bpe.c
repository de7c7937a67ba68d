/* train_bpe.c - the training of train_bpe.h.
 *
 * All distinct words lie behind each other in one array of cells, linked within their word. A pair
 * knows how often it is there and in which cells; merging it visits these cells only and changes
 * the counts of the neighbouring pairs. The most frequent pair comes from a heap whose entries may
 * be out of date: one that is, goes back with the count of today. (A pair whose count has risen is
 * entered again at once, so what is on top after that is right.) Recounting all pairs per merge,
 * which is simpler, takes minutes where this takes a tenth of a second. */
#include "file/train_bpe.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

struct bpe_cell { uint32_t symbol, previous, next, word; }; /* NONE at the ends of a word */

struct bpe_pair {
    uint64_t key;                /* left << 32 | right */
    int64_t times;
    uint32_t *cells;             /* where its left half was once */
    size_t cells_count, cells_room;
    int touched;                 /* counted up in the merge that is going on */
};

struct bpe_heap_entry { int64_t times; uint32_t pair; };

struct bpe_training {
    const struct bpe_word *words;
    struct bpe_cell *cells;
    struct bpe_pair *pairs;
    uint32_t pair_count;
    size_t pair_room;
    uint32_t *slots;             /* hash table of pairs, by key; NONE = free */
    uint32_t slots_mask;
    struct bpe_heap_entry *heap;
    size_t heap_count, heap_room;
    uint32_t *touched;
    size_t touched_count, touched_room;
    int out_of_memory;
};

/* The array with room for one more; NULL: out of memory, it is as it was. */
static void *array_room(struct bpe_training *t, void *array, size_t item, size_t count,
                        size_t *room)
{
    if (count < *room) return array;
    const size_t more = *room * 2 + 16;
    void *grown = reallocarray(array, more, item);
    if (!grown) t->out_of_memory = 1;
    else *room = more;
    return grown;
}

static uint64_t hash_u64(uint64_t x)
{
    x ^= x >> 32;
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}

/* ---- Pairs --------------------------------------------------------------------------------- */

static int bpe_train_slots_grow(struct bpe_training *t)
{
    const uint32_t size = t->slots ? (t->slots_mask + 1) * 2 : 1024;
    uint32_t *slots = malloc(size * sizeof(*slots));
    if (!slots) {
        t->out_of_memory = 1;
        return 0;
    }
    memset(slots, 0xff, size * sizeof(*slots));
    for (uint32_t i = 0; i < t->pair_count; i++) {
        uint64_t at = hash_u64(t->pairs[i].key) & (size - 1);
        while (slots[at] != NONE) at = (at + 1) & (size - 1);
        slots[at] = i;
    }
    free(t->slots);
    t->slots = slots;
    t->slots_mask = size - 1;
    return 1;
}

/* The pair of these two, made if it is not there; NULL: out of memory. */
static struct bpe_pair *pair_of(struct bpe_training *t, uint32_t left, uint32_t right)
{
    const uint64_t key = (uint64_t)left << 32 | right;
    if ((!t->slots || t->pair_count * 2 > t->slots_mask) && !bpe_train_slots_grow(t)) return NULL;
    uint64_t at = hash_u64(key) & t->slots_mask;
    for (; t->slots[at] != NONE; at = (at + 1) & t->slots_mask) {
        if (t->pairs[t->slots[at]].key == key) return &t->pairs[t->slots[at]];
    }
    struct bpe_pair *pairs = array_room(t, t->pairs, sizeof(*pairs), t->pair_count, &t->pair_room);
    if (!pairs) return NULL;
    t->pairs = pairs;
    t->slots[at] = t->pair_count;
    struct bpe_pair *p = &pairs[t->pair_count++];
    *p = (struct bpe_pair){ .key = key };
    return p;
}

static void pair_add(struct bpe_training *t, uint32_t cell)
{
    const struct bpe_cell *c = &t->cells[cell];
    if (c->next == NONE) return;
    const uint32_t right = t->cells[c->next].symbol;
    if (c->symbol == BPE_BARRIER || right == BPE_BARRIER) return;
    struct bpe_pair *p = pair_of(t, c->symbol, right);
    if (!p) return;
    uint32_t *cells = array_room(t, p->cells, sizeof(*cells), p->cells_count, &p->cells_room);
    if (!cells) return;
    p->cells = cells;
    cells[p->cells_count++] = cell;
    p->times += (int64_t)t->words[c->word].times;
    if (p->touched) return;
    uint32_t *touched = array_room(t, t->touched, sizeof(*touched), t->touched_count,
                                   &t->touched_room);
    if (!touched) return;
    t->touched = touched;
    p->touched = 1;
    touched[t->touched_count++] = (uint32_t)(p - t->pairs);
}

/* The cell and its neighbour are no longer these two: counted off, the place is left behind. */
static void pair_subtract(struct bpe_training *t, uint32_t cell)
{
    const struct bpe_cell *c = &t->cells[cell];
    if (c->next == NONE) return;
    const uint32_t right = t->cells[c->next].symbol;
    if (c->symbol == BPE_BARRIER || right == BPE_BARRIER) return;
    struct bpe_pair *p = pair_of(t, c->symbol, right);
    if (p) p->times -= (int64_t)t->words[c->word].times;
}

/* ---- The most frequent --------------------------------------------------------------------- */

static int heap_before(const struct bpe_training *t, struct bpe_heap_entry a,
                       struct bpe_heap_entry b)
{
    if (a.times != b.times) return a.times > b.times;
    return t->pairs[a.pair].key < t->pairs[b.pair].key;
}

static void bpe_train_heap_push(struct bpe_training *t, uint32_t pair)
{
    struct bpe_heap_entry *heap =
        array_room(t, t->heap, sizeof(*heap), t->heap_count, &t->heap_room);
    if (!heap) return;
    t->heap = heap;
    const struct bpe_heap_entry e = { t->pairs[pair].times, pair };
    size_t at = t->heap_count++;
    while (at && heap_before(t, e, t->heap[(at - 1) / 2])) {
        t->heap[at] = t->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    t->heap[at] = e;
}

static struct bpe_heap_entry bpe_train_heap_pop(struct bpe_training *t)
{
    const struct bpe_heap_entry top = t->heap[0], last = t->heap[--t->heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= t->heap_count) break;
        if (child + 1 < t->heap_count && heap_before(t, t->heap[child + 1], t->heap[child])) {
            child++;
        }
        if (!heap_before(t, t->heap[child], last)) break;
        t->heap[at] = t->heap[child];
        at = child;
    }
    t->heap[at] = last;
    return top;
}

static void touched_to_heap(struct bpe_training *t)
{
    for (size_t i = 0; i < t->touched_count; i++) {
        t->pairs[t->touched[i]].touched = 0;
        if (t->pairs[t->touched[i]].times > 1) bpe_train_heap_push(t, t->touched[i]);
    }
    t->touched_count = 0;
}

static uint32_t pair_best(struct bpe_training *t)
{
    while (t->heap_count) {
        const struct bpe_heap_entry e = bpe_train_heap_pop(t);
        const int64_t times = t->pairs[e.pair].times;
        if (e.times == times) return e.pair;
        if (times > 1) bpe_train_heap_push(t, e.pair);
    }
    return NONE;
}

/* ---- Training ------------------------------------------------------------------------------ */

static void cell_merge(struct bpe_training *t, uint32_t cell, uint32_t symbol)
{
    struct bpe_cell *left = &t->cells[cell], *right = &t->cells[left->next];
    if (left->previous != NONE) pair_subtract(t, left->previous);
    pair_subtract(t, left->next);
    left->symbol = symbol;
    left->next = right->next;
    if (right->next != NONE) t->cells[right->next].previous = cell;
    right->symbol = BPE_BARRIER; /* dead: no pair begins here any more */
    right->next = NONE;
    if (left->previous != NONE) pair_add(t, left->previous);
    pair_add(t, cell);
}

static void pair_merge(struct bpe_training *t, uint32_t pair, uint32_t symbol)
{
    const uint64_t key = t->pairs[pair].key;
    uint32_t *cells = t->pairs[pair].cells; /* t->pairs may move */
    const size_t count = t->pairs[pair].cells_count;
    t->pairs[pair].cells = NULL;
    t->pairs[pair].cells_count = t->pairs[pair].cells_room = 0;
    for (size_t i = 0; i < count && !t->out_of_memory; i++) {
        const struct bpe_cell *c = &t->cells[cells[i]];
        if (c->symbol != (uint32_t)(key >> 32) || c->next == NONE) continue;
        if (t->cells[c->next].symbol != (uint32_t)key) continue;
        cell_merge(t, cells[i], symbol);
    }
    t->pairs[pair].times = 0;
    free(cells);
}

static int cells_create(struct bpe_training *t, const struct bpe_word *words, size_t words_count)
{
    size_t total = 0;
    for (size_t i = 0; i < words_count; i++) total += words[i].count;
    if (total >= NONE || words_count >= NONE) return -1;
    t->words = words;
    t->cells = malloc((total + 1) * sizeof(*t->cells));
    if (!t->cells) return -1;
    uint32_t cell = 0;
    for (size_t i = 0; i < words_count; i++) {
        for (uint32_t k = 0; k < words[i].count; k++, cell++) {
            t->cells[cell] = (struct bpe_cell){
                .symbol = words[i].symbols[k], .word = (uint32_t)i,
                .previous = k ? cell - 1 : NONE, .next = k + 1 < words[i].count ? cell + 1 : NONE,
            };
        }
    }
    for (uint32_t i = 0; i < cell; i++) pair_add(t, i);
    touched_to_heap(t);
    return 0;
}

int bpe_train(const struct bpe_word *words, size_t words_count,
              uint32_t (*merged)(void *arg, uint32_t left, uint32_t right), void *arg)
{
    struct bpe_training t = { 0 };
    int rc = cells_create(&t, words, words_count);
    while (!rc && !t.out_of_memory) {
        const uint32_t pair = pair_best(&t);
        if (pair == NONE) break;
        const uint64_t key = t.pairs[pair].key;
        const uint32_t symbol = merged(arg, (uint32_t)(key >> 32), (uint32_t)key);
        if (symbol == BPE_BARRIER) break;
        if (symbol == BPE_SKIP) continue; /* off the heap now; more of it would bring it back */
        pair_merge(&t, pair, symbol);
        touched_to_heap(&t);
    }
    if (t.out_of_memory) rc = -1;
    for (uint32_t i = 0; i < t.pair_count; i++) free(t.pairs[i].cells);
    free(t.cells);
    free(t.pairs);
    free(t.slots);
    free(t.heap);
    free(t.touched);
    return rc;
}
