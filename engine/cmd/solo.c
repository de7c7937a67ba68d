/* solo.c - see solo.h. */
#include "cmd/solo.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/command.h"
#include "opencl/opencl.h"
#include "sonde/inference.h"

enum { CONTEXT_DEFAULT = 4096, POOL_UNIT = 4096 };

int solo_env(const char *command, struct solo_env *out)
{
    struct sonde_inference_env env = { .size = sizeof(env) };
    char error[256];
    if (sonde_inference_env(&env, error, sizeof(error))) return command_bad(command, "%s", error);
    *out = (struct solo_env){ env.threads, env.batch_size, env.seed_set ? env.seed : 0,
                              env.memory_limit };
    return 0;
}

static uint32_t cpus_there_are(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set)) return 1;
    const int count = CPU_COUNT(&set);
    return count < 1 ? 1 : (uint32_t)count;
}

static uint64_t solo_bytes(const struct solo *s, uint32_t threads, uint32_t context)
{
    const uint64_t pages = (context + KV_PAGE - 1) / KV_PAGE;
    return s->model->weight_bytes + pages * kv_page_bytes_of(s->model) +
           forward_bytes_needed(s->model, 1, context, threads, s->ops, s->batch).used;
}

/* The context that a memory limit leaves: whole pages, as many as fit. */
static int solo_limit(struct solo *s, uint32_t threads, uint64_t limit, struct fail *why)
{
    if (!limit || solo_bytes(s, threads, s->context) <= limit) return 0;
    uint32_t pages = 0, too_many = (s->context + KV_PAGE - 1) / KV_PAGE;
    while (too_many - pages > 1) {
        const uint32_t between = pages + (too_many - pages) / 2;
        if (solo_bytes(s, threads, between * KV_PAGE) <= limit) pages = between;
        else too_many = between;
    }
    if (!pages) {
        return fail_set(why, "the memory limit of %llu bytes is less than the %llu that weights, "
                        "activations and %d positions of KV cache need", (unsigned long long)limit,
                        (unsigned long long)solo_bytes(s, threads, KV_PAGE), KV_PAGE);
    }
    s->context = pages * KV_PAGE;
    snprintf(s->notice, sizeof(s->notice),
             "the memory limit leaves room for %u positions of context", s->context);
    return 0;
}

static int solo_device_open(struct solo *s, const struct solo_options *o, struct fail *why)
{
    struct opencl_wish wish;
    s->device_refused = opencl_wish_parse(o->device, &wish, why) ||
                        opencl_open(&wish, o->device_memory, &s->device, why);
    return s->device_refused ? -1 : 0;
}

static int solo_device_place(struct solo *s, struct fail *why)
{
    if (!s->device) return 0;
    s->device_refused = model_place(s->model, s->forward, s->device, &s->placement, why) != 0;
    return s->device_refused ? -1 : 0;
}

static int solo_compute(struct solo *s, const struct solo_options *o, struct fail *why)
{
    const uint32_t threads = o->threads ? o->threads : cpus_there_are();
    const uint32_t most = s->model->context < CONTEXT_DEFAULT ? s->model->context : CONTEXT_DEFAULT;
    s->context = o->context ? o->context : most;
    s->batch = o->batch;
    s->ops = kernel_choose();
    if (!s->ops) return kernel_refuse(why);
    if (solo_limit(s, threads, o->memory_limit, why)) return -1;
    const struct forward_bytes scratch =
        forward_bytes_needed(s->model, 1, s->context, threads, s->ops, s->batch);
    const uint64_t pages = (s->context + KV_PAGE - 1) / KV_PAGE;
    uint32_t reused;
    if (buddy_create("kv", kv_pool_bytes_of(s->model, pages), KV_POOL_UNIT, &s->cells, why) ||
        buddy_create("activations", scratch.pool, POOL_UNIT, &s->activations, why) ||
        team_create(threads, &s->team, why) ||
        kv_create(s->model, 1, s->context, s->cells, &s->kv, why) ||
        forward_create(s->model, s->kv, s->team, s->ops, s->activations, s->batch,
                       &s->forward, why)) {
        return -1;
    }
    if (solo_device_place(s, why)) return -1;
    s->tokens = calloc(s->batch, sizeof(*s->tokens));
    if (!s->tokens) return fail_set(why, "out of memory");
    s->slot = (uint32_t)kv_slot_take(s->kv, NULL, 0, &reused);
    return 0;
}

int solo_open(struct solo *s, struct gguf *g, const struct solo_options *o, struct fail *why)
{
    *s = (struct solo){ 0 };
    if (solo_device_open(s, o, why) ||
        buddy_create("weights", model_pool_bytes(g), POOL_UNIT, &s->weights, why) ||
        model_load(g, s->weights, &s->model, why)) {
        gguf_close(g);
        solo_close(s);
        return -1;
    }
    if (!solo_compute(s, o, why)) return 0;
    solo_close(s);
    return -1;
}

void solo_close(struct solo *s)
{
    free(s->tokens);
    forward_destroy(s->forward);
    device_destroy(s->device);
    kv_destroy(s->kv);
    team_destroy(s->team);
    model_destroy(s->model);
    buddy_destroy(s->activations);
    buddy_destroy(s->cells);
    buddy_destroy(s->weights);
}

void solo_clear(struct solo *s)
{
    kv_slot_cut(s->kv, s->slot, 0);
    s->length = 0;
}

int solo_eval(struct solo *s, const int32_t *tokens, uint32_t count, const float **logits,
              void (*each)(void *context, const float *logits), void *context)
{
    if (count > s->context - s->length || kv_slot_reserve(s->kv, s->slot, s->length + count)) {
        return -1;
    }
    const uint32_t logits_max = forward_logits_max(s->forward);
    const uint32_t part_max = each && logits_max < s->batch ? logits_max : s->batch;
    for (uint32_t done = 0; done < count;) {
        const uint32_t part = count - done < part_max ? count - done : part_max;
        for (uint32_t i = 0; i < part; i++) {
            s->tokens[i] = (struct forward_token){ tokens[done + i], s->slot, s->length + i,
                                                   each || done + i + 1 == count };
        }
        forward_run(s->forward, s->tokens, part, logits);
        kv_slot_append(s->kv, s->slot, tokens + done, part);
        s->length += part;
        done += part;
        if (!each) continue;
        for (uint32_t i = 0; i < part; i++) each(context, *logits + (size_t)i * s->model->vocab);
        *logits += (size_t)(part - 1) * s->model->vocab;
    }
    return 0;
}
