/* memory.c - who has how much: weights and activations what they need, the KV cache what a limit
 * leaves of it, at most what all slots can fill.
 *
 *   limit  ├─ weights ─┼─ activations ─┼─ KV cache: pages shared by all slots ─┤
 *
 * When little is left, passes get shorter first (fewer activations), so that at least one request
 * of MEMORY_POSITIONS_MIN positions has room. Less than that is refused: an engine that answers
 * every request with "no room" is no use to anybody. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "run/engine_private.h"

enum { MEMORY_POSITIONS_MIN = 256, MEMORY_BATCH_MIN = 16, MEMORY_UNIT = 4096 };

static double engine_memory_megabytes(uint64_t bytes) { return (double)bytes / (1 << 20); }

int engine_weights_create(struct engine *e, const struct gguf *g, struct fail *why)
{
    const uint64_t bytes = model_bytes_needed(g), limit = e->o.memory_limit;
    if (limit && bytes > limit) {
        return fail_set(why,
                        "the weights of %s take %.1f MB, and the memory limit is %.1f MB: raise "
                        "it, or quantize the model",
                        e->o.model_path, engine_memory_megabytes(bytes),
                        engine_memory_megabytes(limit));
    }
    return buddy_create("weights", model_pool_bytes(g), MEMORY_UNIT, &e->pools.weights, why);
}

struct memory_plan {
    uint64_t activations, activations_pool, kv;
    uint64_t pages;
    uint32_t batch, context;
};

static uint64_t engine_memory_pages_for(uint64_t positions)
{
    return (positions + KV_PAGE - 1) / KV_PAGE;
}

/* 0, or -1 when nothing of use fits. */
static int plan_make(const struct engine *e, struct memory_plan *p)
{
    const uint64_t page = kv_page_bytes_of(e->model);
    const uint64_t wanted = e->o.slots * engine_memory_pages_for(e->context);
    const uint32_t positions_min =
        e->context < MEMORY_POSITIONS_MIN ? e->context : MEMORY_POSITIONS_MIN;
    const uint32_t batch_min = e->o.slots > MEMORY_BATCH_MIN ? e->o.slots : MEMORY_BATCH_MIN;
    *p = (struct memory_plan){ .batch = e->o.batch_tokens, .pages = wanted, .context = e->context };
    for (;;) {
        const struct forward_bytes f = forward_bytes_needed(
            e->model, e->o.slots, e->context, team_threads(e->team), e->kernels, p->batch);
        const uint64_t taken = e->model->weight_bytes + f.used;
        p->activations = f.used;
        p->activations_pool = f.pool;
        if (!e->o.memory_limit) break;
        p->pages = e->o.memory_limit > taken ? (e->o.memory_limit - taken) / page : 0;
        if (p->pages > wanted) p->pages = wanted;
        if (p->pages >= engine_memory_pages_for(positions_min)) break;
        if (p->batch <= batch_min) return -1;
        p->batch = p->batch / 2 > batch_min ? p->batch / 2 : batch_min;
    }
    if (p->pages * KV_PAGE < p->context) p->context = (uint32_t)(p->pages * KV_PAGE);
    p->kv = p->pages * page;
    return 0;
}

/* In words: what the limit changed. */
static void plan_notice(struct engine *e, const struct memory_plan *p)
{
    const uint64_t wanted = e->o.slots * engine_memory_pages_for(e->context);
    char batch[64] = "";
    if (p->pages == wanted && p->batch == e->o.batch_tokens) return;
    if (p->batch != e->o.batch_tokens) {
        snprintf(batch, sizeof(batch), ", and passes %u tokens, not %u", p->batch,
                 e->o.batch_tokens);
    }
    snprintf(e->notice, sizeof(e->notice),
             "the memory limit of %.1f MB leaves %.1f MB for the KV cache (weights take %.1f MB, "
             "activations %.1f MB): it has %llu positions, not %llu, a request %u at most%s",
             engine_memory_megabytes(e->o.memory_limit), engine_memory_megabytes(p->kv),
             engine_memory_megabytes(e->model->weight_bytes),
             engine_memory_megabytes(p->activations), (unsigned long long)(p->pages * KV_PAGE),
             (unsigned long long)(wanted * KV_PAGE), p->context, batch);
}

int engine_memory_create(struct engine *e, struct fail *why)
{
    struct memory_plan p;
    if (plan_make(e, &p)) {
        return fail_set(why,
                        "the memory limit of %.1f MB is too small: weights take %.1f MB, "
                        "activations %.1f MB, and a KV cache of %u positions %.1f MB",
                        engine_memory_megabytes(e->o.memory_limit),
                        engine_memory_megabytes(e->model->weight_bytes),
                        engine_memory_megabytes(p.activations), MEMORY_POSITIONS_MIN,
                        engine_memory_megabytes(engine_memory_pages_for(MEMORY_POSITIONS_MIN) *
                                                kv_page_bytes_of(e->model)));
    }
    plan_notice(e, &p);
    e->o.batch_tokens = p.batch;
    e->context = p.context;
    if (buddy_create("kv", kv_pool_bytes_of(e->model, p.pages), KV_POOL_UNIT, &e->pools.kv, why) ||
        buddy_create("activations", p.activations_pool, MEMORY_UNIT, &e->pools.activations, why) ||
        kv_create(e->model, e->o.slots, e->context, e->pools.kv, &e->kv, why) ||
        forward_create(e->model, e->kv, e->team, e->kernels, e->pools.activations, p.batch,
                       &e->forward, why)) {
        return -1;
    }
    return 0;
}

void engine_memory_tell(struct engine *e)
{
    static const char *const kinds[] = { "weights", "kv", "compute" };
    struct buddy *const pools[] = { e->pools.weights, e->pools.kv, e->pools.activations };
    for (int i = 0; i < 3; i++) {
        struct buddy_stats s;
        buddy_stats(pools[i], &s);
        sonde_model_memory(e->name, kinds[i], s.asked_bytes);
    }
}

/* What the process has in memory, of what the machine has. */
static void host_tell(struct engine *e)
{
    const long page = sysconf(_SC_PAGESIZE), pages = sysconf(_SC_PHYS_PAGES);
    unsigned long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (!f) return;
    if (fscanf(f, "%lu %lu", &size, &resident) == 2 && page > 0 && pages > 0) {
        sonde_device_memory(e->device, (uint64_t)resident * (uint64_t)page,
                            (uint64_t)pages * (uint64_t)page);
    }
    fclose(f);
}

void engine_resources_tell(struct engine *e, uint64_t now)
{
    if (e->resources_at && sonde_ticks_ns(now - e->resources_at) < 1000000000) return;
    e->resources_at = now;
    engine_memory_tell(e);
    host_tell(e);
}
