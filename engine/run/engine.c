/* engine.c - making an engine and taking it down: see engine.h. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/opencl.h"
#include "run/engine_private.h"

enum { THREADS_DEFAULT_MAX = 64, SLOTS = 4, CONTEXT = 4096, BATCH = 256, QUEUE = 256 };
#define SEED_DEFAULT 42u         /* of the deterministic mode */

static uint32_t cpus_available(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set)) return 1;
    const int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > THREADS_DEFAULT_MAX ? THREADS_DEFAULT_MAX : (uint32_t)n;
}

static int option_check(const char *what, uint32_t value, uint32_t min, uint32_t max,
                        struct fail *why)
{
    if (value >= min && value <= max) return 0;
    return fail_set(why, "%s: %u, and has to be %u to %u", what, value, min, max);
}

/* Defaults for what is 0; the context's is the model's. */
static int options_fill(struct engine_options *o, struct fail *why)
{
    if (!o->model_path) return fail_set(why, "there is no model: name a GGUF file");
    if (!o->threads) o->threads = cpus_available();
    if (!o->slots) o->slots = SLOTS;
    if (!o->batch_tokens) o->batch_tokens = BATCH;
    if (!o->queue_max) o->queue_max = QUEUE;
    if (o->deterministic && !o->seed_set) o->seed = SEED_DEFAULT;
    if (option_check("threads", o->threads, 1, ENGINE_THREADS_MAX, why) ||
        option_check("slots", o->slots, 1, ENGINE_SLOTS_MAX, why) ||
        option_check("tokens of a pass", o->batch_tokens, 1, ENGINE_BATCH_MAX, why) ||
        option_check("requests that may wait", o->queue_max, 1, ENGINE_QUEUE_MAX, why)) {
        return -1;
    }
    /* Every answer needs its token of a pass. */
    if (o->batch_tokens < o->slots) o->batch_tokens = o->slots;
    return o->context
               ? option_check("context", o->context, ENGINE_CONTEXT_MIN, ENGINE_CONTEXT_MAX, why)
               : 0;
}

static int model_open(struct engine *e, struct fail *why)
{
    struct gguf *g = NULL;
    struct sonde_model_load load;
    const char *file = strrchr(e->o.model_path, '/');
    /* By its file's name, until it is loaded and its own is known. */
    sonde_model_load_begin(&load, sonde_name(file ? file + 1 : e->o.model_path));
    if (gguf_open(e->o.model_path, &g, why) || tokenizer_load(g, &e->tokenizer, why) ||
        engine_weights_create(e, g, why) || model_load(g, e->pools.weights, &e->model, why)) {
        sonde_model_load_end(&load, 0, SONDE_ERROR);
        gguf_close(g);
        return -1;
    }
    e->name = load.model = sonde_name(e->model->name);
    sonde_model_load_end(&load, e->model->weight_bytes, SONDE_OK);
    sonde_model_backend(e->name, e->accelerator ? "opencl" : "cpu");
    if (tokenizer_size(e->tokenizer) > e->model->vocab) {
        return fail_set(why, "%s: its tokenizer has %u tokens, and its embedding %u",
                        e->o.model_path, tokenizer_size(e->tokenizer), e->model->vocab);
    }
    e->context = e->o.context                  ? e->o.context
                 : e->model->context < CONTEXT ? e->model->context
                                               : CONTEXT;
    if (e->context > e->model->context) e->context = e->model->context;
    return 0;
}

/* sonde_engine_operation_seconds{layer,operation}: one record a pass. */
static int operations_create(struct engine *e, struct fail *why)
{
    static const char *const labels[] = { "layer", "operation", NULL };
    const struct sonde_metric metric = {
        .size = sizeof(metric), .name = "sonde_engine_operation_seconds", .unit = "seconds",
        .help = "Time of a forward pass by layer and operation.", .labels = labels, .scale = 1e-9,
        .kind = SONDE_KIND_TIME, .series_max = (e->model->layers + 1) * FORWARD_OPS };
    struct sonde_family family;
    sonde_define(SONDE_HISTOGRAM, &metric, &family);
    e->op_seconds = calloc((size_t)(e->model->layers + 1) * FORWARD_OPS, sizeof(*e->op_seconds));
    if (!e->op_seconds) return fail_set(why, "out of memory");
    for (uint32_t layer = 0; layer <= e->model->layers; layer++) {
        for (uint32_t op = 0; op < FORWARD_OPS; op++) {
            const int outside = layer == e->model->layers; /* of layers: embedding and logits */
            char text[16] = "-";
            if (op != FORWARD_NORM && outside != (op == FORWARD_EMBED || op == FORWARD_LOGITS)) {
                continue;
            }
            if (!outside) snprintf(text, sizeof(text), "%u", layer);
            const char *const values[] = { text, forward_op_name((enum forward_op)op) };
            e->op_seconds[layer * FORWARD_OPS + op] = sonde_hist_bind(family, values);
        }
    }
    return 0;
}

static int accelerator_open(struct engine *e, struct fail *why)
{
    struct opencl_wish wish;
    if (opencl_wish_parse(e->o.device, &wish, why)) return -1;
    return opencl_open(&wish, e->o.device_memory, &e->accelerator, why);
}

static int engine_open(struct engine *e, struct fail *why)
{
    if (options_fill(&e->o, why)) return -1;
    e->kernels = kernel_choose();
    if (!e->kernels) return kernel_refuse(why);
    if (e->o.event_log && event_log_create(e->o.event_log, &e->log, why)) return -1;
    if (accelerator_open(e, why) || model_open(e, why) ||
        team_create(e->o.threads, &e->team, why) || engine_memory_create(e, why) ||
        (e->accelerator &&
         model_place(e->model, e->forward, e->accelerator, &e->placement, why)) ||
        (e->o.operations && operations_create(e, why))) {
        return -1;
    }
    e->scratch = sampler_scratch_create(e->model->vocab);
    e->running = calloc(e->o.slots, sizeof(*e->running));
    e->batch = calloc(e->o.batch_tokens, sizeof(*e->batch));
    e->events = calloc(e->o.slots + 1, sizeof(*e->events));
    if (!e->scratch || !e->running || !e->batch || !e->events)
        return fail_set(why, "out of memory");
    e->device = sonde_device("cpu");
    engine_resources_tell(e, sonde_ticks());
    if (pthread_create(&e->thread, NULL, engine_thread, e)) {
        return fail_set(why, "cannot start the engine's thread");
    }
    e->started = 1;
    return 0;
}

int engine_create(const struct engine_options *options, struct engine **out, struct fail *why)
{
    pthread_condattr_t clock;
    struct engine *e = calloc(1, sizeof(*e));
    if (!e) return fail_set(why, "out of memory");
    /* Before the first reading of its clock. Without a segment all goes on, unseen. */
    sonde_open(
        &(struct sonde_config){ .size = sizeof(struct sonde_config), .name = "sonde-engine" });
    e->o = *options;
    pthread_mutex_init(&e->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&e->work, &clock);
    pthread_cond_init(&e->idle, &clock);
    pthread_condattr_destroy(&clock);
    if (engine_open(e, why)) {
        engine_destroy(e);
        return -1;
    }
    *out = e;
    return 0;
}

void engine_destroy(struct engine *e)
{
    if (!e) return;
    if (e->started) {
        pthread_mutex_lock(&e->lock);
        e->stopping = e->ending = 1;
        __atomic_store_n(&e->cancel_all, 1, __ATOMIC_RELAXED);
        pthread_cond_signal(&e->work);
        pthread_mutex_unlock(&e->lock);
        pthread_join(e->thread, NULL);
    }
    forward_destroy(e->forward);
    device_destroy(e->accelerator);
    kv_destroy(e->kv);
    team_destroy(e->team);
    model_destroy(e->model);
    tokenizer_destroy(e->tokenizer);
    buddy_destroy(e->pools.kv);
    buddy_destroy(e->pools.activations);
    buddy_destroy(e->pools.weights);
    sampler_scratch_destroy(e->scratch);
    event_log_destroy(e->log);
    pthread_cond_destroy(&e->work);
    pthread_cond_destroy(&e->idle);
    pthread_mutex_destroy(&e->lock);
    free(e->op_seconds);
    free(e->running);
    free(e->batch);
    free(e->events);
    free(e);
}

const struct model *engine_model(const struct engine *e) { return e->model; }
const struct tokenizer *engine_tokenizer(const struct engine *e) { return e->tokenizer; }
const char *engine_notice(const struct engine *e) { return e->notice; }
const char *engine_device_name(const struct engine *e)
{
    return e->accelerator ? e->accelerator->name : "cpu";
}
const char *engine_device(const struct engine *e) { return e->placement.text; }
uint32_t engine_context(const struct engine *e) { return e->context; }
uint32_t engine_slots(const struct engine *e) { return e->o.slots; }
uint32_t engine_threads(const struct engine *e) { return e->o.threads; }
uint32_t engine_name(const struct engine *e) { return e->name; }
struct event_log *engine_event_log(const struct engine *e) { return e->log; }
