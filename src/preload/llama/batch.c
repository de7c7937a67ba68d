/* batch.c - what is in a batch: tokens of which sequences, at which positions.
 *
 * A batch may have thousands of tokens; neighbours of one sequence become one part. Positions,
 * sequences and flags may each be missing, and mean then what llama.cpp takes them to mean: the
 * sequence goes on, it is number 0, and the last token is to give logits.
 *
 * Newer libraries have batches that nobody can look into (llama_batch_ext): their tokens are added
 * by calls, which are followed here, part by part as they are told. A batch is one thread's at a
 * time; so many are followed as a server has at one time, and one that there is no room for has no
 * parts. */
#include "preload/llama/llama.h"
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

struct llama_hook_batch_parts {
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

static void llama_hook_batch_flush(struct llama_hook_batch_parts *p)
{
    if (!p->waiting) return;
    p->rec.start = p->key;
    sonde__ring_put(&p->rec, SONDE__REC_LLAMA_PART);
    p->rec = (struct sonde__span_rec){ 0 };
    p->waiting = 0;
}

static void llama_hook_batch_put(struct llama_hook_batch_parts *p, uint64_t where, uint64_t what,
                                 uint64_t tail)
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
        llama_hook_batch_flush(p);
    }
}

/* Tokens from .. to of the same sequences. */
static void llama_hook_batch_put_run(struct llama_hook_batch_parts *p, const struct batch *b,
                                     int32_t from, int32_t to, uint32_t outputs)
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
        llama_hook_batch_put(p, flags | (uint64_t)seq << 32 | (uint32_t)pos, what, tail);
    }
}

int32_t sonde__llama_batch_tokens(const void *batch)
{
    return ((const struct batch *)batch)->n_tokens;
}

uint32_t sonde__llama_parts(const void *batch, uint64_t key, uint32_t *dropped)
{
    const struct batch *b = batch;
    struct llama_hook_batch_parts p = { .key = key };
    uint32_t outputs = 0;
    int32_t from = 0;
    for (int32_t i = 0; i < b->n_tokens; i++) {
        const int goes_on = i > from && same_sequences(b, i - 1, i) &&
                            (!b->pos || b->pos[i] == b->pos[i - 1] + 1) &&
                            (uint32_t)(i - from) < TOKENS_MAX;
        if (i > from && !goes_on) {
            llama_hook_batch_put_run(&p, b, from, i, outputs);
            from = i;
            outputs = 0;
        }
        outputs += b->logits ? b->logits[i] != 0 : i == b->n_tokens - 1;
    }
    if (b->n_tokens > 0) llama_hook_batch_put_run(&p, b, from, b->n_tokens, outputs);
    llama_hook_batch_flush(&p);
    *dropped = p.dropped;
    return p.count;
}

/* ---- Batches that are made by calls ---------------------------------------------------------- */

#define MADE_MAX 32u

struct made_part {
    int32_t seq, pos;        /* pos -1 = not set so far */
    uint32_t row, tokens, outputs, shared;
    int32_t before, last;    /* tokens; -1 = not known */
};

static struct made {
    uint64_t batch;          /* 0 = free */
    uint32_t tokens;
    uint32_t lost;           /* it was not followed from its beginning: nothing is known of it */
    uint32_t count, dropped;
    struct made_part part[PARTS_MAX];
} made[MADE_MAX];

static struct made *made_find(uint64_t batch)
{
    for (uint32_t i = 0; i < MADE_MAX && batch; i++) {
        if (__atomic_load_n(&made[i].batch, __ATOMIC_ACQUIRE) == batch) return &made[i];
    }
    return NULL;
}

static struct made *made_get(uint64_t batch)
{
    struct made *m = made_find(batch);
    for (uint32_t i = 0; i < MADE_MAX && batch && !m; i++) {
        uint64_t none = 0;
        if (!__atomic_compare_exchange_n(&made[i].batch, &none, batch, 0, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED)) {
            continue;
        }
        m = &made[i];
        m->tokens = m->lost = m->count = m->dropped = 0;
    }
    return m;
}

static struct made_part *made_part_add(struct made *m, int32_t seq, uint32_t row)
{
    if (m->count == PARTS_MAX) {
        m->dropped++;
        return NULL;
    }
    struct made_part *p = &m->part[m->count++];
    *p = (struct made_part){ .seq = seq, .pos = -1, .row = row, .tokens = 1, .before = -1,
                             .last = -1 };
    return p;
}

/* The part, of a sequence or (seq -1) any that is not shared, whose last row is this. */
static struct made_part *made_ends(struct made *m, int64_t row, int32_t seq, uint32_t shared)
{
    for (uint32_t i = m->count; i-- > 0;) {
        struct made_part *p = &m->part[i];
        if (p->row + (int64_t)p->tokens - 1 < row) {
            if (!p->shared) break; /* rows are added in order */
            continue;
        }
        if (p->row + (int64_t)p->tokens - 1 == row && p->shared == shared &&
            (seq < 0 || p->seq == seq)) {
            return p;
        }
    }
    return NULL;
}

static void made_add(struct made *m, int32_t seq, int32_t token, int32_t row)
{
    struct made_part *p;
    if (row < 0) return;
    if ((uint32_t)row + 1 == m->tokens) { /* by another function that this one calls */
        p = made_ends(m, row, seq, 0);
        if (p) p->last = token;
        return;
    }
    if ((uint32_t)row != m->tokens) m->lost = 1;
    m->tokens = (uint32_t)row + 1;
    p = row > 0 ? made_ends(m, (int64_t)row - 1, seq, 0) : NULL;
    if (p && p->tokens < TOKENS_MAX) p->tokens++;
    else p = made_part_add(m, seq, (uint32_t)row);
    if (!p) return;
    p->before = p->last;
    p->last = token;
}

/* Of the row that was added last: what was taken to go on may not. */
static void made_pos(struct made *m, int32_t row, int32_t pos)
{
    struct made_part *p = row >= 0 ? made_ends(m, row, -1, 0) : NULL;
    if (!p) return;
    if (p->tokens == 1) {
        p->pos = pos;
    } else if (p->pos < 0 || pos != p->pos + (int32_t)p->tokens - 1) {
        const int32_t seq = p->seq, last = p->last;
        p->tokens--;
        p->last = p->before;
        p->before = -1;
        p = made_part_add(m, seq, (uint32_t)row);
        if (!p) return;
        p->pos = pos;
        p->last = last;
    }
}

static void made_seq(struct made *m, int32_t row, int32_t seq)
{
    const struct made_part *own = row >= 0 ? made_ends(m, row, -1, 0) : NULL;
    if (!own) return;
    const int32_t before = own->before, last = own->last;
    const int32_t pos = own->pos < 0 ? -1 : own->pos + (int32_t)own->tokens - 1;
    struct made_part *p = row > 0 ? made_ends(m, (int64_t)row - 1, seq, 1) : NULL;
    if (p && p->pos + (int32_t)p->tokens == pos) {
        p->tokens++;
    } else {
        p = made_part_add(m, seq, (uint32_t)row);
        if (!p) return;
        p->shared = 1;
        p->pos = pos;
    }
    p->before = before;
    p->last = last;
}

static void made_output(struct made *m, int32_t row)
{
    for (uint32_t i = m->count; i-- > 0 && row >= 0;) {
        struct made_part *p = &m->part[i];
        if ((uint32_t)row >= p->row && (uint32_t)row - p->row < p->tokens) {
            if (p->outputs < p->tokens) p->outputs++;
            if (!p->shared) return;
        }
    }
}

void sonde__llama_made_call(const struct sonde__thunk *c)
{
    const uint64_t batch = sonde__thunk_arg(c, 0);
    const int32_t a = sonde__thunk_int(c, 1), result = (int32_t)c->result[0];
    const int ok = (c->result[0] & 0xff) != 0; /* of those that return a bool */
    struct made *m = c->fn == SONDE__LLAMA_BATCH_FREE ? made_find(batch) : made_get(batch);
    if (!m) return;
    switch (c->fn) {
    case SONDE__LLAMA_BATCH_FREE: __atomic_store_n(&m->batch, 0, __ATOMIC_RELEASE); break;
    case SONDE__LLAMA_BATCH_CLEAR: m->tokens = m->lost = m->count = m->dropped = 0; break;
    case SONDE__LLAMA_BATCH_TOKEN: made_add(m, a, sonde__thunk_int(c, 2), result); break;
    case SONDE__LLAMA_BATCH_ADD:
    case SONDE__LLAMA_BATCH_EMBD: made_add(m, a, -1, result); break;
    case SONDE__LLAMA_BATCH_SEQ:
        if (ok) made_seq(m, a, sonde__thunk_int(c, 2));
        break;
    case SONDE__LLAMA_BATCH_POS: /* the library has read it */
        if (ok) made_pos(m, a, *(const int32_t *)(uintptr_t)sonde__thunk_arg(c, 2));
        break;
    default:
        if (ok && sonde__thunk_arg(c, 2) & 0xff) made_output(m, a);
        break;
    }
}

int32_t sonde__llama_made_tokens(uint64_t batch)
{
    const struct made *m = made_find(batch);
    return m && !m->lost ? (int32_t)m->tokens : -1;
}

uint32_t sonde__llama_made_parts(uint64_t batch, uint64_t key, uint32_t *dropped)
{
    const struct made *m = made_find(batch);
    struct llama_hook_batch_parts out = { .key = key };
    *dropped = 0;
    if (!m || m->lost) return 0;
    for (uint32_t i = 0; i < m->count; i++) {
        const struct made_part *p = &m->part[i];
        const uint64_t flags = p->shared ? 1ull << 63 : 0;
        llama_hook_batch_put(
            &out, flags | (uint64_t)((uint32_t)p->seq & 0x3fffffffu) << 32 | (uint32_t)p->pos,
            (uint64_t)(p->row & 0xffffffu) << 40 | (uint64_t)p->tokens << 20 | p->outputs,
            SONDE__LLAMA_TAIL(p->before, p->last));
    }
    llama_hook_batch_flush(&out);
    *dropped = m->dropped;
    return out.count;
}
