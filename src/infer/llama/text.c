/* text.c - prompts that were turned into tokens, before a batch shows whose they are.
 *
 * A server does that on the thread of a connection, and the sequence is served by another one; only
 * the tokens are the same. So a prompt is found again by how many tokens it has and what the last
 * two are, oldest first; a long one whose first batch does not hold all of it by being long enough.
 * A prompt may have been made of several texts, one after the other on one thread: then it is their
 * sum. What nobody asks for (a route that only counts tokens, a client that went away) is forgotten
 * when nothing was computed for a second, since it would have been then, and written over in
 * time. */
#include "infer/llama/private.h"

#define AGE_NS 600000000000ull

void llama_text_add(struct sonde_llama *x, const struct sonde_llama_call *c)
{
    llama_span(x, SONDE_PHASE_ENCODE, c->tid, c->begin_ns, c->end_ns, NULL);
    const int64_t n = c->result < 0 ? -c->result : c->result;
    if (n <= 0 || n > LLAMA_TOKENS_MAX) return;

    /* There was no room for all: the same again follows, with more. */
    struct llama_text *last = &x->text[(x->text_next + LLAMA_TEXTS_MAX - 1) % LLAMA_TEXTS_MAX];
    const int again = last->tokens == (uint64_t)n && last->tid == c->tid &&
                      last->tail == SONDE__LLAMA_TAIL_NONE && !last->complete;
    const struct llama_text t = {
        .begin_ns = again ? last->begin_ns : c->begin_ns, .end_ns = c->end_ns, .tid = c->tid,
        .tokens = (uint32_t)n, .complete = c->result > 0,
        .tail = c->result > 0 ? c->arg[2] : SONDE__LLAMA_TAIL_NONE,
        .prefix = c->result > 0 ? c->prefix : 0,
    };
    if (again) *last = t;
    else x->text[x->text_next++ % LLAMA_TEXTS_MAX] = t;
}

void llama_texts_forget(struct sonde_llama *x)
{
    for (uint32_t i = 0; i < LLAMA_TEXTS_MAX; i++) x->text[i].tokens = 0;
}

void llama_texts_expire(struct sonde_llama *x, uint64_t since_ns)
{
    for (uint32_t i = 0; i < LLAMA_TEXTS_MAX; i++) {
        if (x->text[i].tokens && x->text[i].end_ns < since_ns) x->text[i].tokens = 0;
    }
}

static int id_agrees(uint64_t a, uint64_t b)
{
    const uint32_t x = (uint32_t)a, y = (uint32_t)b;
    return x == y || x == UINT32_MAX || y == UINT32_MAX;
}

static int tails_agree(uint64_t a, uint64_t b)
{
    return id_agrees(a, b) && id_agrees(a >> 32, b >> 32);
}

static struct llama_text *at_age(struct sonde_llama *x, uint32_t i)
{
    return &x->text[(x->text_next + i) % LLAMA_TEXTS_MAX];
}

static int llama_text_usable(const struct llama_text *t, uint64_t before_ns)
{
    return t->tokens && t->complete && t->end_ns <= before_ns && before_ns - t->end_ns < AGE_NS;
}

/* Texts from the ith on, of one thread, that are `tokens` together: the index behind the last; 0 =
 * they are not. The sum of one is the usual case. */
static uint32_t sum_from(struct sonde_llama *x, uint32_t i, uint64_t tokens, uint64_t tail,
                         uint64_t before_ns)
{
    const uint32_t tid = at_age(x, i)->tid;
    uint64_t sum = 0;
    for (; i < LLAMA_TEXTS_MAX && sum < tokens; i++) {
        const struct llama_text *t = at_age(x, i);
        if (!llama_text_usable(t, before_ns) || t->tid != tid) continue;
        sum += t->tokens;
        if (sum == tokens) return tails_agree(t->tail, tail) ? i + 1 : 0;
    }
    return 0;
}

static void take_range(struct sonde_llama *x, uint32_t from, uint32_t to, int take,
                       struct llama_text *out)
{
    const uint32_t tid = at_age(x, from)->tid;
    *out = *at_age(x, from);
    for (uint32_t i = from; i < to; i++) {
        struct llama_text *t = at_age(x, i);
        if (t->tid != tid || !t->tokens) continue;
        out->end_ns = t->end_ns;
        if (i > from) out->tokens += t->tokens;
        if (take) t->tokens = 0;
    }
}

static int llama_text_find_one(struct sonde_llama *x, uint64_t tokens, uint64_t tail, int complete,
                               uint64_t before_ns, int take, struct llama_text *out)
{
    for (uint32_t i = 0; i < LLAMA_TEXTS_MAX; i++) {
        const struct llama_text *t = at_age(x, i);
        if (!llama_text_usable(t, before_ns)) continue;
        if (complete ? t->tokens == tokens && tails_agree(t->tail, tail) : t->tokens > tokens) {
            take_range(x, i, i + 1, take, out);
            return 1;
        }
    }
    return 0;
}

int llama_text_find(struct sonde_llama *x, uint64_t tokens, uint64_t tail, int complete,
                    uint64_t before_ns, int take, struct llama_text *out)
{
    /* One text before sums of several, and both before one that is just longer. */
    if (complete && llama_text_find_one(x, tokens, tail, 1, before_ns, take, out)) return 1;
    for (uint32_t i = 0; complete && i < LLAMA_TEXTS_MAX; i++) {
        if (!llama_text_usable(at_age(x, i), before_ns)) continue;
        const uint32_t end = sum_from(x, i, tokens, tail, before_ns);
        if (!end) continue;
        take_range(x, i, end, take, out);
        return 1;
    }
    return complete <= 0 && llama_text_find_one(x, tokens, tail, 0, before_ns, take, out);
}
