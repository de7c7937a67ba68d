/* kv.h - keys and values of what was computed, by slot, in pages.
 *
 * A slot is one sequence. Its cells 0 … length−1 are in pages of KV_PAGE positions, each with keys
 * and values (f16) of all layers, from the pool "kv": memory follows use, and a pool that is
 * smaller than slots × context (SONDE_MEMORY_LIMIT) is shared by whoever needs it. What a slot
 * holds stays when its request ends, so that the next one with the same beginning need not compute
 * it again; when pages run out, those of the idle slot that was used longest ago are taken, the
 * last one first: its beginning is what others are likeliest to share.
 *
 *   page │ layer 0: keys of head 0 │ keys of head 1 │ … │ values of head 0 │ … │ layer 1: …
 *          each: KV_PAGE positions of head_dim numbers
 *
 * so what one head of one layer reads of a page is in one piece. One thread changes it (the one
 * that computes); kv_cells and kv_evictions may be read by any. */
#ifndef ENGINE_MODEL_KV_H
#define ENGINE_MODEL_KV_H

#include <stdint.h>

#include "base/buddy.h"
#include "model/model.h"

enum { KV_PAGE = 64 };

struct kv;

int kv_create(const struct model *m, uint32_t slots, uint32_t context, struct buddy *pool,
              struct kv **out, struct fail *why);
void kv_destroy(struct kv *kv);

/* Which idle slot shares the longest beginning with these tokens (and how long that is, at most
 * count − 1: the last one is always computed, for its logits), or the one used longest ago. Marks
 * it busy and cuts it to that length. -1: all are busy. */
int32_t kv_slot_take(struct kv *kv, const int32_t *tokens, uint32_t count, uint32_t *reused);
void kv_slot_release(struct kv *kv, uint32_t slot);

/* Room for positions up to before `length`; 0 or -1 when the pool is full and nobody is idle. */
int kv_slot_reserve(struct kv *kv, uint32_t slot, uint32_t length);
/* Cut to this length (a request whose prompt differs from here on). */
void kv_slot_cut(struct kv *kv, uint32_t slot, uint32_t length);
/* These tokens are at the positions from `length` on now: to compare later prompts with. */
void kv_slot_append(struct kv *kv, uint32_t slot, const int32_t *tokens, uint32_t count);
uint32_t kv_slot_length(const struct kv *kv, uint32_t slot);

/* head_dim numbers of a kv head at one position. */
uint16_t *kv_key(struct kv *kv, uint32_t slot, uint32_t layer, uint32_t head, uint32_t position);
uint16_t *kv_value(struct kv *kv, uint32_t slot, uint32_t layer, uint32_t head, uint32_t position);

uint32_t kv_slots(const struct kv *kv);
uint32_t kv_context(const struct kv *kv);
uint64_t kv_page_bytes(const struct kv *kv);

/* Before there is a cache, to size its pool: bytes of a page that are used, and of a pool that
 * holds this many. The pool rounds a page up to a power of two; what is behind its end takes no
 * memory. */
uint64_t kv_page_bytes_of(const struct model *m);
uint64_t kv_pool_bytes_of(const struct model *m, uint64_t pages);
enum { KV_POOL_UNIT = 4096 };

/* total: what fits into the pool, at most slots × context. */
void kv_cells(const struct kv *kv, uint64_t *used, uint64_t *total);
uint64_t kv_evictions(const struct kv *kv); /* pages that were taken from idle slots */

#endif
