/* object.c - models, contexts and what memory they have.
 *
 * Objects are known by their addresses, which come again: one that is made at the address of
 * another takes its place. A buffer is told before what it was made for (the call that loads a
 * model ends after those that make its buffers), so it waits until a call of the same thread that
 * began before it tells whose it is. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/path.h"
#include "base/utf8.h"
#include "infer/llama/private.h"

#define USAGE_WEIGHTS 1u
#define USAGE_COMPUTE 2u
#define BYTES_MAX (1ull << 50)

/* ---- Contexts -------------------------------------------------------------------------------- */

void llama_context_release(struct sonde_llama *llama, struct llama_context *k)
{
    assert(k >= llama->context && k < llama->context + LLAMA_CONTEXTS_MAX);
    llama_batch_tell(llama, k);
    llama_held_drop(llama, k);
    llama_seqs_clear(llama, k);
    llama_check_add(&llama->figures.check, &k->check);
    sonde__free(k->seq);
    sonde__free(k->rows);
    sonde__free(k->batch.parts);
    memset(k, 0, sizeof(*k));
}

struct llama_context *llama_context_find(struct sonde_llama *llama, uint64_t object)
{
    for (uint32_t i = 0; i < LLAMA_CONTEXTS_MAX && object; i++) {
        if (llama->context[i].object != object) continue;
        llama->context[i].used = llama->figures.calls;
        return &llama->context[i];
    }
    return NULL;
}

static struct llama_context *context_make(struct sonde_llama *llama, uint64_t object)
{
    struct llama_context *k = &llama->context[0];
    for (uint32_t i = 0; i < LLAMA_CONTEXTS_MAX; i++) {
        if (!llama->context[i].object) {
            k = &llama->context[i];
            break;
        }
        if (llama->context[i].used < k->used) k = &llama->context[i];
    }
    if (k->object) llama_context_release(llama, k);
    k->seq = sonde__calloc(LLAMA_SEQS_MAX, sizeof(*k->seq));
    k->rows = sonde__calloc(SONDE_LLAMA_PARTS_MAX, sizeof(*k->rows));
    k->batch.parts = sonde__calloc(SONDE_LLAMA_PARTS_MAX, sizeof(*k->batch.parts));
    if (!k->seq || !k->rows || !k->batch.parts) {
        llama_context_release(llama, k);
        return NULL;
    }
    k->object = object;
    k->serial = ++llama->serials;
    k->used = llama->figures.calls;
    return k;
}

struct llama_context *llama_context_get(struct sonde_llama *llama, uint64_t object)
{
    struct llama_context *k = llama_context_find(llama, object);
    return k || !object ? k : context_make(llama, object);
}

struct llama_context *llama_context_serial(struct sonde_llama *llama, uint64_t serial)
{
    for (uint32_t i = 0; i < LLAMA_CONTEXTS_MAX && serial; i++) {
        if (llama->context[i].serial == serial) return &llama->context[i];
    }
    return NULL;
}

struct llama_context *llama_context_memory(struct sonde_llama *llama, uint64_t memory)
{
    struct llama_context *only = NULL;
    uint32_t others = 0;
    for (uint32_t i = 0; i < LLAMA_CONTEXTS_MAX; i++) {
        struct llama_context *k = &llama->context[i];
        if (!k->object) continue;
        if (memory && k->memory == memory) return k;
        if (k->memory) continue;
        only = k;
        others++;
    }
    return others == 1 ? only : NULL;
}

static void on_context_new(struct sonde_llama *llama, const struct sonde_llama_call *c)
{
    const uint64_t object = (uint64_t)c->result;
    struct llama_context *k = llama_context_find(llama, object);
    if (k) llama_context_release(llama, k);
    k = llama_context_get(llama, object);
    if (!k) return;
    k->model = c->object;
    k->created_seen = c->end_ns > llama->known_ns;
    llama_texts_forget(llama); /* what was tried before anything could be computed */
    llama_buffers_claim(llama, c, k->model, k->serial);
}

/* ---- Models ---------------------------------------------------------------------------------- */

const char *llama_model_name(const struct sonde_llama *llama, uint64_t model)
{
    for (uint32_t i = 0; i < LLAMA_MODELS_MAX && model; i++) {
        if (llama->model[i].object == model) return llama->model[i].name;
    }
    return llama->only_model;
}

/* The file's name without its folder and .gguf. */
static void name_of_path(const char *path, char out[LLAMA_NAME_MAX])
{
    const char *base = sonde_path_base(path);
    size_t len = strnlen(base, LLAMA_NAME_MAX - 1);
    int changed = 0;
    if (len > 5 && !base[len] && !strcmp(base + len - 5, ".gguf")) len -= 5;
    out[sonde__utf8_copy(out, LLAMA_NAME_MAX - 1, base, len, &changed)] = '\0';
}

static struct llama_model *llama_object_model_slot(struct sonde_llama *llama, uint64_t object)
{
    struct llama_model *to = NULL;
    for (uint32_t i = 0; i < LLAMA_MODELS_MAX; i++) {
        if (llama->model[i].object == object) return &llama->model[i];
        if (!to && !llama->model[i].object) to = &llama->model[i];
    }
    return to ? to : &llama->model[llama_mix(object) % LLAMA_MODELS_MAX];
}

static void on_model_load(struct sonde_llama *llama, const struct sonde_llama_call *c)
{
    struct llama_model failed = { 0 };
    const uint64_t object = (uint64_t)c->result;
    struct llama_model *m = object ? llama_object_model_slot(llama, object) : &failed;
    m->object = object;
    name_of_path(c->text ? c->text : "", m->name);

    uint64_t bytes = 0;
    for (uint32_t i = 0; i < LLAMA_BUFFERS_MAX; i++) {
        const struct llama_buffer *b = &llama->buffer[i];
        if (b->object && !b->model && b->tid == c->tid && b->time_ns >= c->begin_ns) {
            bytes += b->bytes;
        }
    }
    struct sonde_infer_event e =
        llama_event(llama, SONDE_INFER_LOAD, c->tid, c->begin_ns, c->end_ns);
    e.model = m->name;
    e.load.bytes = bytes;
    e.load.outcome = object ? SONDE_OK : SONDE_ERROR;
    llama_tell(llama, &e);
    if (object) llama_buffers_claim(llama, c, object, 0);
}

void sonde_llama_known(struct sonde_llama *llama, uint64_t context, uint64_t memory, uint64_t model,
                       const char *path)
{
    struct llama_context *k = llama_context_get(llama, context);
    if (!k || !model) return;
    if (!k->model) k->model = model;
    if (!k->memory) k->memory = memory;
    struct llama_model *m = llama_object_model_slot(llama, model);
    if (m->object == model && m->name[0]) return;
    m->object = model;
    name_of_path(path, m->name);
}

void sonde_llama_only_model(struct sonde_llama *llama, const char *path)
{
    name_of_path(path, llama->only_model);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void memory_tell(struct sonde_llama *llama, uint64_t model, uint32_t kind, uint64_t time_ns,
                        uint32_t tid)
{
    static const char *const names[LLAMA_MEMORY_KINDS] = { "weights", "kv", "compute" };
    struct sonde_infer_event e = llama_event(llama, SONDE_INFER_MEMORY, tid, time_ns, time_ns);
    e.model = llama_model_name(llama, model);
    snprintf(e.memory.kind, sizeof(e.memory.kind), "%s", names[kind]);
    for (uint32_t i = 0; i < LLAMA_BUFFERS_MAX; i++) {
        const struct llama_buffer *b = &llama->buffer[i];
        if (b->object && b->model == model && b->kind == kind) e.memory.bytes += b->bytes;
    }
    llama_tell(llama, &e);
}

static void buffer_free(struct sonde_llama *llama, struct llama_buffer *b,
                        const struct sonde_llama_call *c)
{
    const struct llama_buffer was = *b;
    memset(b, 0, sizeof(*b));
    if (!was.model) llama->buffers_unknown--;
    else memory_tell(llama, was.model, was.kind, c->end_ns, c->tid);
}

static struct llama_buffer *buffer_find(struct sonde_llama *llama, uint64_t object)
{
    for (uint32_t i = 0; i < LLAMA_BUFFERS_MAX && object; i++) {
        if (llama->buffer[i].object == object) return &llama->buffer[i];
    }
    return NULL;
}

static void buffer_add(struct sonde_llama *llama, const struct sonde_llama_call *c, uint64_t object,
                       uint32_t kind)
{
    if (!object || !c->arg[1] || c->arg[1] > BYTES_MAX) return;
    struct llama_buffer *b = buffer_find(llama, object);
    if (b) buffer_free(llama, b, c);
    for (uint32_t i = 0; i < LLAMA_BUFFERS_MAX; i++) {
        if (llama->buffer[i].object) continue;
        llama->buffer[i] = (struct llama_buffer){ .object = object, .bytes = c->arg[1],
                                                  .time_ns = c->end_ns, .tid = c->tid,
                                                  .kind = kind };
        llama->buffers_unknown++;
        return;
    }
    llama->figures.dropped++;
}

void llama_buffers_claim(struct sonde_llama *llama, const struct sonde_llama_call *c,
                         uint64_t model, uint64_t context)
{
    int changed[LLAMA_MEMORY_KINDS] = { 0 };
    if (!llama->buffers_unknown || !model) return;
    for (uint32_t i = 0; i < LLAMA_BUFFERS_MAX; i++) {
        struct llama_buffer *b = &llama->buffer[i];
        if (!b->object || b->model || b->tid != c->tid || b->time_ns < c->begin_ns) continue;
        b->model = model;
        b->context = context;
        llama->buffers_unknown--;
        changed[b->kind] = 1;
    }
    for (uint32_t k = 0; k < LLAMA_MEMORY_KINDS; k++) {
        if (changed[k]) memory_tell(llama, model, k, c->end_ns, c->tid);
    }
}

/* What is left of a context's or model's memory goes with it: a library that does not export how
 * buffers are freed does so all the same. */
static void buffers_gone(struct sonde_llama *llama, const struct sonde_llama_call *c,
                         uint64_t model, uint64_t context)
{
    for (uint32_t i = 0; i < LLAMA_BUFFERS_MAX; i++) {
        struct llama_buffer *b = &llama->buffer[i];
        if (!b->object || !b->model) continue;
        if (context ? b->context == context : b->model == model) buffer_free(llama, b, c);
    }
}

static int is_cache(const char *tensor)
{
    return tensor && (!strncmp(tensor, "cache_", 6));
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void on_free(struct sonde_llama *llama, const struct sonde_llama_call *c)
{
    if (c->fn == SONDE__LLAMA_CONTEXT_FREE) {
        struct llama_context *k = llama_context_find(llama, c->object);
        if (!k) return;
        buffers_gone(llama, c, 0, k->serial);
        llama_context_release(llama, k);
        return;
    }
    buffers_gone(llama, c, c->object, 0);
    for (uint32_t i = 0; i < LLAMA_MODELS_MAX && c->object; i++) {
        if (llama->model[i].object == c->object) {
            memset(&llama->model[i], 0, sizeof(llama->model[i]));
        }
    }
}

static void on_context(struct sonde_llama *llama, struct llama_context *k,
                       const struct sonde_llama_call *c)
{
    if (!k) return;
    switch (c->fn) {
    case SONDE__LLAMA_GET_MEMORY: k->memory = (uint64_t)c->result; break;
    case SONDE__LLAMA_WARMUP:
        k->warming = c->arg[0] != 0;
        if (!k->warming) llama_held_drop(llama, k);
        break;
    case SONDE__LLAMA_PERF_RESET:
        llama_check_reset(k);
        llama_held_drop(llama, k);
        break;
    case SONDE__LLAMA_PERF: llama_check_compare(k, c); break;
    default: break;
    }
}

void llama_object_call(struct sonde_llama *llama, const struct sonde_llama_call *c)
{
    struct llama_buffer *b;
    switch (c->fn) {
    case SONDE__LLAMA_MODEL_LOAD: on_model_load(llama, c); break;
    case SONDE__LLAMA_CONTEXT_NEW: on_context_new(llama, c); break;
    case SONDE__LLAMA_CONTEXT_FREE:
    case SONDE__LLAMA_MODEL_FREE: on_free(llama, c); break;
    case SONDE__LLAMA_SET_USAGE:
        if (c->arg[0] == USAGE_WEIGHTS) buffer_add(llama, c, c->object, LLAMA_WEIGHTS);
        else if (c->arg[0] == USAGE_COMPUTE) buffer_add(llama, c, c->object, LLAMA_COMPUTE);
        break;
    case SONDE__LLAMA_ALLOC_CTX:
        if (is_cache(c->text)) buffer_add(llama, c, (uint64_t)c->result, LLAMA_KV);
        break;
    case SONDE__LLAMA_BUFFER_FREE:
        b = buffer_find(llama, c->object);
        if (b) buffer_free(llama, b, c);
        break;
    case SONDE__LLAMA_GET_MEMORY:
    case SONDE__LLAMA_PERF: on_context(llama, llama_context_find(llama, c->object), c); break;
    default: on_context(llama, llama_context_get(llama, c->object), c); break;
    }
}
