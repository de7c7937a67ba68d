/* The loop of a server: requests arrive, wait for a sequence, and share forward passes. A pass
 * takes one token of every sequence that generates and fills up with prompts, in pieces if need be.
 * A sequence keeps its cache, so the next request that begins alike starts where they differ. */
#include "drive.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    int seq;
    struct drive_request *request; /* NULL: free */
    struct llama_sampler *sampler;
    llama_token *cache; /* tokens whose keys and values are in the library's cache */
    int cached;
    llama_token next; /* sampled, not yet decoded */
    int row;          /* of its output in the batch; -1: none in this pass */
    long used;        /* the pass in which it was last given a request */
};

struct engine {
    struct drive *d;
    struct slot *slots;
    struct llama_batch batch;
    struct llama_token_data *candidates;
    const char **words; /* of the vocabulary, with the mark of a space before them */
    int words_count;
    int words_room;
    long steps;  /* passes, and those that were skipped because nothing was to be done */
    int arrived; /* requests that have */
    int started; /* of these have a sequence; they get one in order */
    int ended;
};

/* ---- Requests -------------------------------------------------------------------------------- */

static uint64_t random_next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int random_below(uint64_t *state, int limit)
{
    return (int)(random_next(state) % (uint64_t)limit);
}

static int spread(uint64_t *state, int value, int percent)
{
    const int most = value * percent / 100;
    return value - most + random_below(state, 2 * most + 1);
}

/* Words that are one token with the space before them: U+2581 in the vocabulary. */
static void find_words(struct engine *e)
{
    static const char space[] = "\xe2\x96\x81";
    const struct llama_vocab *vocab = e->d->vocab;
    const int count = llama_vocab_n_tokens(vocab);
    e->words = drive_calloc((size_t)count, sizeof(*e->words));
    for (llama_token id = 0; id < count; id++) {
        const char *text = llama_vocab_get_text(vocab, id);
        const size_t length = strlen(text);
        if (strncmp(text, space, 3) || length < 5) continue;
        e->words[e->words_count++] = text + 3;
        if ((int)length - 2 > e->words_room) e->words_room = (int)length - 2;
    }
    if (!e->words_count) drive_die("the vocabulary of %s has no words", e->d->options.model);
}

static void make_text(const struct engine *e, struct drive_request *r, uint64_t *state)
{
    const struct drive_options *o = &e->d->options;
    uint64_t common = (uint64_t)o->seed;
    const int varied = spread(state, o->prompt_tokens - o->shared_prefix, o->spread);
    const int words = o->shared_prefix + (varied > 1 ? varied : 1) - 1; /* one is the beginning */
    char *to = r->text = drive_calloc((size_t)words + 1, (size_t)e->words_room + 1);
    for (int i = 0; i < words; i++) {
        const int pick = random_below(i + 1 < o->shared_prefix ? &common : state, e->words_count);
        if (i) *to++ = ' ';
        to = stpcpy(to, e->words[pick]);
    }
}

static void make_requests(struct engine *e)
{
    struct drive *d = e->d;
    const struct drive_options *o = &d->options;
    d->requests = drive_calloc((size_t)(o->requests * o->repeat), sizeof(*d->requests));
    for (int i = 0; i < o->requests * o->repeat; i++) {
        struct drive_request *r = &d->requests[i];
        uint64_t state = (uint64_t)o->seed << 32 | (uint64_t)(i + 1);
        make_text(e, r, &state);
        r->id = i;
        r->limit = spread(&state, o->max_tokens, o->spread);
        if (r->limit < 1) r->limit = 1;
        if (o->cancel && (i + 1) % o->cancel == 0) r->give_up_at = (r->limit + 1) / 2;
        r->tokens = drive_calloc((size_t)r->limit, sizeof(*r->tokens));
    }
}

struct tokenize {
    const struct llama_vocab *vocab;
    struct drive_request *request;
};

/* As common_tokenize() does it: a guess at the room first, and again if it was too small. */
static void *tokenize(void *arg)
{
    const struct tokenize *t = arg;
    struct drive_request *r = t->request;
    const int length = (int)strlen(r->text);
    int room = length / 8 + 2;
    r->arrival_ns = drive_now_ns();
    r->prompt = drive_calloc((size_t)room, sizeof(*r->prompt));
    int got = llama_tokenize(t->vocab, r->text, length, r->prompt, room, true, true);
    if (got < 0) {
        room = -got;
        free(r->prompt);
        r->prompt = drive_calloc((size_t)room, sizeof(*r->prompt));
        got = llama_tokenize(t->vocab, r->text, length, r->prompt, room, true, true);
    }
    if (got < 1) drive_die("cannot tokenize the prompt of request %d", r->id);
    r->prompt_count = got;
    r->tokenized_ns = drive_now_ns();
    return NULL;
}

static void arrive(struct engine *e, struct drive_request *r)
{
    struct tokenize t = { e->d->vocab, r };
    pthread_t thread;
    if (!e->d->options.tokenize_thread) {
        tokenize(&t);
    } else if (pthread_create(&thread, NULL, tokenize, &t) || pthread_join(thread, NULL)) {
        drive_die("cannot start a thread");
    }
    if (r->prompt_count + r->limit > e->d->options.ctx_seq)
        drive_die("request %d needs more than %d positions: give more --ctx", r->id,
                  e->d->options.ctx_seq);
    e->arrived++;
}

/* ---- Sequences ------------------------------------------------------------------------------- */

static int common_prefix(const struct slot *s, const struct drive_request *r)
{
    int n = 0;
    while (n < s->cached && n < r->prompt_count && s->cache[n] == r->prompt[n]) n++;
    return n;
}

/* The free one that has most of the prompt already; of these the one that was not used longest. */
static struct slot *slot_for(struct engine *e, const struct drive_request *r)
{
    struct slot *best = NULL;
    int best_prefix = -1;
    for (int i = 0; i < e->d->options.seqs; i++) {
        struct slot *s = &e->slots[i];
        if (s->request) continue;
        const int prefix = common_prefix(s, r);
        if (prefix < best_prefix || (prefix == best_prefix && s->used >= best->used)) continue;
        best = s;
        best_prefix = prefix;
    }
    return best;
}

static struct llama_sampler *make_sampler(const struct drive *d, const struct drive_request *r)
{
    struct llama_sampler *chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    if (d->options.sampler == DRIVE_GREEDY) {
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
        return chain;
    }
    const int vocab = llama_vocab_n_tokens(d->vocab);
    const struct llama_logit_bias bias = { llama_vocab_eos(d->vocab), (float)d->options.end_bias };
    llama_sampler_chain_add(chain, llama_sampler_init_logit_bias(vocab, 1, &bias));
    llama_sampler_chain_add(chain, llama_sampler_init_penalties(vocab, 64, 1.1f, 0, 0));
    llama_sampler_chain_add(chain, llama_sampler_init_top_k(40));
    llama_sampler_chain_add(chain, llama_sampler_init_top_p(0.95f, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_min_p(0.05f, 1));
    llama_sampler_chain_add(chain, llama_sampler_init_temp(0.8f));
    llama_sampler_chain_add(chain, llama_sampler_init_dist((uint32_t)(d->options.seed + r->id)));
    return chain;
}

static void start(struct engine *e, struct slot *s, struct drive_request *r)
{
    r->started_ns = drive_now_ns();
    r->seq = s->seq;
    r->reused = e->d->options.no_reuse ? 0 : common_prefix(s, r);
    if (r->reused == r->prompt_count) r->reused--; /* the last one has to be computed: its output */
    if (!llama_memory_seq_rm(llama_get_memory(e->d->ctx), s->seq, r->reused, -1))
        drive_die("cannot cut sequence %d at %d", s->seq, r->reused);
    s->request = r;
    s->cached = r->reused;
    s->used = e->steps;
    s->sampler = make_sampler(e->d, r);
    for (int i = 0; i < r->prompt_count; i++) llama_sampler_accept(s->sampler, r->prompt[i]);
    e->started++;
}

static void end(struct engine *e, struct slot *s, const char *outcome)
{
    s->request->outcome = outcome;
    s->request->end_ns = drive_now_ns();
    llama_sampler_free(s->sampler);
    s->request = NULL;
    e->ended++;
}

/* ---- A pass ---------------------------------------------------------------------------------- */

static void add(struct engine *e, struct slot *s, llama_token token, bool output)
{
    struct llama_batch *b = &e->batch;
    const int i = b->n_tokens++;
    b->token[i] = token;
    b->pos[i] = s->cached;
    b->n_seq_id[i] = 1;
    b->seq_id[i][0] = s->seq;
    b->logits[i] = output;
    if (output) s->row = i;
    s->cache[s->cached++] = token;
}

/* What a sequence adds: a token, or as much of its prompt as there is room for. */
static void fill(struct engine *e, bool prompts, struct drive_pass *pass)
{
    for (int i = 0; i < e->d->options.seqs; i++) {
        struct slot *s = &e->slots[i];
        struct drive_request *r = s->request;
        if (!r || (s->cached < r->prompt_count) != prompts || s->row >= 0) continue;
        const int before = e->batch.n_tokens;
        if (!prompts) add(e, s, s->next, true);
        while (prompts && s->cached < r->prompt_count && e->batch.n_tokens < e->d->options.batch)
            add(e, s, r->prompt[s->cached], s->cached + 1 == r->prompt_count);
        const int added = e->batch.n_tokens - before;
        *(prompts ? &pass->prompt_tokens : &pass->decode_tokens) += added;
        pass->sequences += added > 0;
        pass->outputs += s->row >= 0;
        if (!prompts || !added) continue;
        r->prompt_passes++;
        if (!r->first_pass_ns) r->first_pass_ns = -1; /* this one: the time is not known yet */
    }
}

static struct drive_pass *new_pass(struct drive *d)
{
    if ((d->passes_count & (d->passes_count - 1)) == 0) { /* the room is a power of two */
        const size_t room = d->passes_count ? (size_t)d->passes_count * 2 : 1;
        struct drive_pass *more = realloc(d->passes, room * sizeof(*more));
        if (!more) drive_die("out of memory");
        d->passes = more;
    }
    struct drive_pass *pass = &d->passes[d->passes_count++];
    *pass = (struct drive_pass){ 0 };
    return pass;
}

static void decode(struct engine *e, struct drive_pass *pass)
{
    struct llama_batch batch = e->batch;
    if (e->d->options.get_one) batch = llama_batch_get_one(e->batch.token, e->batch.n_tokens);
    pass->start_ns = drive_now_ns();
    const int rc = llama_decode(e->d->ctx, batch);
    pass->end_ns = drive_now_ns();
    if (rc) drive_die("llama_decode says %d", rc);
}

static llama_token sample(struct engine *e, struct slot *s)
{
    struct llama_context *ctx = e->d->ctx;
    if (e->d->options.sampler != DRIVE_APPLY) return llama_sampler_sample(s->sampler, ctx, s->row);
    llama_synchronize(ctx);
    const float *logits = llama_get_logits_ith(ctx, s->row);
    if (!logits) drive_die("no logits of row %d", s->row);
    const int count = llama_vocab_n_tokens(e->d->vocab);
    for (llama_token id = 0; id < count; id++)
        e->candidates[id] = (struct llama_token_data){ .id = id, .logit = logits[id] };
    struct llama_token_data_array all = { .data = e->candidates, .size = (size_t)count,
                                          .selected = -1 };
    llama_sampler_apply(s->sampler, &all);
    if (all.selected < 0) drive_die("no token was selected");
    const llama_token token = all.data[all.selected].id;
    llama_sampler_accept(s->sampler, token);
    return token;
}

static void send_text(struct engine *e, struct drive_request *r, llama_token token)
{
    char piece[64];
    const int64_t before_ns = drive_now_ns();
    const int length = llama_token_to_piece(e->d->vocab, token, piece, sizeof(piece), 0, true);
    r->text_ns += drive_now_ns() - before_ns;
    if (length < 0) drive_die("token %d is longer than any of this vocabulary", token);
    r->text_bytes += length;
    if (e->d->options.text) fwrite(piece, 1, (size_t)length, stdout);
}

static void take_output(struct engine *e, struct slot *s, const struct drive_pass *pass)
{
    struct drive_request *r = s->request;
    if (!r->count) r->prompt_done_ns = pass->end_ns;
    const int64_t before_ns = drive_now_ns();
    s->next = sample(e, s);
    const int64_t now_ns = drive_now_ns();
    r->sampling_ns += now_ns - before_ns;
    r->tokens[r->count++] = (struct drive_token){ s->next, now_ns };
    send_text(e, r, s->next);
    if (llama_vocab_is_eog(e->d->vocab, s->next)) end(e, s, "stop");
    else if (r->count == r->give_up_at) end(e, s, "cancelled");
    else if (r->count == r->limit) end(e, s, "length");
}

static void step(struct engine *e)
{
    struct drive *d = e->d;
    struct drive_pass *pass = new_pass(d);
    pass->waiting = e->arrived - e->started;
    e->batch.n_tokens = 0;
    for (int i = 0; i < d->options.seqs; i++) e->slots[i].row = -1;
    fill(e, false, pass);
    fill(e, true, pass);
    drive_sleep_ms(d->options.step_delay_ms);
    decode(e, pass);
    for (int i = 0; i < d->options.seqs; i++) {
        struct slot *s = &e->slots[i];
        pass->kv_cells += s->cached;
        if (s->request && s->request->first_pass_ns < 0) s->request->first_pass_ns = pass->start_ns;
    }
    for (int i = 0; i < d->options.seqs; i++) {
        if (e->slots[i].row >= 0) take_output(e, &e->slots[i], pass);
    }
    e->steps++;
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static void serve_round(struct engine *e, int round)
{
    const struct drive_options *o = &e->d->options;
    const int last = (round + 1) * o->requests;
    const long base = e->steps;
    while (e->ended < last) {
        for (long due = 0; e->arrived < last; arrive(e, &e->d->requests[e->arrived])) {
            due = base + (long)(e->arrived - round * o->requests) * o->arrive;
            if (e->steps >= due) continue;
            if (e->started > e->ended || e->arrived > e->started) break;
            e->steps = due; /* nothing else to do: it comes now */
        }
        while (e->started < e->arrived) {
            struct slot *s = slot_for(e, &e->d->requests[e->started]);
            if (!s) break;
            start(e, s, &e->d->requests[e->started]);
        }
        step(e);
    }
}

void drive_serve(struct drive *d)
{
    const struct drive_options *o = &d->options;
    struct engine e = { .d = d, .batch = llama_batch_init(o->batch, 0, 1) };
    e.slots = drive_calloc((size_t)o->seqs, sizeof(*e.slots));
    e.candidates = drive_calloc((size_t)llama_vocab_n_tokens(d->vocab), sizeof(*e.candidates));
    for (int i = 0; i < o->seqs; i++) {
        e.slots[i].seq = i;
        e.slots[i].used = -1;
        e.slots[i].cache = drive_calloc((size_t)o->ctx_seq, sizeof(*e.slots[i].cache));
    }
    find_words(&e);
    make_requests(&e);
    for (int round = 0; round < o->repeat && (!round || !drive_stopping()); round++) {
        if (round) drive_sleep_ms(o->delay_ms);
        serve_round(&e, round);
    }
    for (int i = e.ended; i < o->requests * o->repeat; i++) {
        free(d->requests[i].text);
        free(d->requests[i].tokens);
    }
    d->requests_count = e.ended;
    for (int i = 0; i < o->seqs; i++) free(e.slots[i].cache);
    free(e.slots);
    free(e.candidates);
    free(e.words);
    llama_batch_free(e.batch);
}
