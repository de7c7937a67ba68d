/* llama_batch.c - what is in a batch: tokens of which sequences, at which positions.
 *
 * A batch may have thousands of tokens; neighbours of one sequence become one part. Positions,
 * sequences and flags may each be missing, and mean then what llama.cpp takes them to mean: the
 * sequence goes on, it is number 0, and the last token is to give logits. */
#include "preload/llama.h"
#include "record/state.h"

#define PARTS_MAX 256u
#define TOKENS_MAX 0xfffffu

/* As llama.h has had it since batches exist. */
struct batch {
    int32_t n_tokens;
    const int32_t *token;
    const float *embd;
    const int32_t *pos;
    const int32_t *n_seq_id;
    int32_t *const *seq_id;
    const int8_t *logits;
};
_Static_assert(sizeof(struct batch) == 56, "as in llama.h");

struct parts {
    struct sonde__span_rec rec;
    uint64_t key;
    uint32_t waiting, count, dropped;
};

static int32_t seq_count(const struct batch *b, int32_t i)
{
    if (!b->seq_id || !b->seq_id[i]) return 1;
    return b->n_seq_id && b->n_seq_id[i] > 0 ? b->n_seq_id[i] : 1;
}

static int32_t seq_at(const struct batch *b, int32_t i, int32_t k)
{
    return b->seq_id && b->seq_id[i] ? b->seq_id[i][k] : 0;
}

static int same_sequences(const struct batch *b, int32_t i, int32_t j)
{
    const int32_t n = seq_count(b, i);
    if (n != seq_count(b, j)) return 0;
    for (int32_t k = 0; k < n; k++) {
        if (seq_at(b, i, k) != seq_at(b, j, k)) return 0;
    }
    return 1;
}

static void flush(struct parts *p)
{
    if (!p->waiting) return;
    p->rec.start = p->key;
    sonde__ring_put(&p->rec, SONDE__REC_LLAMA_PART);
    p->rec = (struct sonde__span_rec){ 0 };
    p->waiting = 0;
}

static void put(struct parts *p, uint64_t where, uint64_t what, uint64_t tail)
{
    if (p->count == PARTS_MAX) {
        p->dropped++;
        return;
    }
    p->count++;
    if (!p->waiting++) {
        p->rec.end = where;
        p->rec.trace_hi = what;
        p->rec.trace_lo = tail;
    } else {
        p->rec.id = where;
        p->rec.parent = what;
        p->rec.name_tid = tail;
        flush(p);
    }
}

/* Tokens from .. to of the same sequences. */
static void put_run(struct parts *p, const struct batch *b, int32_t from, int32_t to,
                    uint32_t outputs)
{
    const uint32_t tokens = (uint32_t)(to - from);
    const int32_t pos = b->pos ? b->pos[from] : -1;
    const uint64_t tail =
        b->token ? SONDE__LLAMA_TAIL(tokens > 1 ? b->token[to - 2] : -1, b->token[to - 1])
                 : SONDE__LLAMA_TAIL_NONE;
    const uint64_t what = (uint64_t)((uint32_t)from & 0xffffffu) << 40 | (uint64_t)tokens << 20 |
                          outputs;
    for (int32_t k = 0; k < seq_count(b, from); k++) {
        const uint32_t seq = (uint32_t)seq_at(b, from, k) & 0x3fffffffu;
        const uint64_t flags = (k ? 1ull << 63 : 0) | (b->logits ? 0 : 1ull << 62);
        put(p, flags | (uint64_t)seq << 32 | (uint32_t)pos, what, tail);
    }
}

int32_t sonde__llama_batch_tokens(const void *batch) { return ((const struct batch *)batch)->n_tokens; }

uint32_t sonde__llama_parts(const void *batch, uint64_t key, uint32_t *dropped)
{
    const struct batch *b = batch;
    struct parts p = { .key = key };
    uint32_t outputs = 0;
    int32_t from = 0;
    for (int32_t i = 0; i < b->n_tokens; i++) {
        const int goes_on = i > from && same_sequences(b, i - 1, i) &&
                            (!b->pos || b->pos[i] == b->pos[i - 1] + 1) &&
                            (uint32_t)(i - from) < TOKENS_MAX;
        if (i > from && !goes_on) {
            put_run(&p, b, from, i, outputs);
            from = i;
            outputs = 0;
        }
        outputs += b->logits ? b->logits[i] != 0 : i == b->n_tokens - 1;
    }
    if (b->n_tokens > 0) put_run(&p, b, from, b->n_tokens, outputs);
    flush(&p);
    *dropped = p.dropped;
    return p.count;
}
