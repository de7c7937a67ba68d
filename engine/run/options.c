/* options.c - what the environment asks of the engine. sonde_inference_env() has the names and the
 * syntax; what is too much for this engine is refused here, in the same words. */
#include <stdio.h>
#include <stdlib.h>

#include "run/engine.h"

/* The name under which it is set, as sonde_inference_env() looks for it. */
static const char *variable_name(const char *suffix, char *out, size_t size)
{
    static const char *const prefixes[] = { "SONDE_", "BITNET_", "NLOCAL_" };
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        snprintf(out, size, "%s%s", prefixes[i], suffix);
        if (getenv(out)) break;
    }
    return out;
}

static int variable_check(const char *suffix, uint32_t value, uint32_t max, struct fail *why)
{
    char name[64];
    if (value <= max) return 0;
    return fail_set(why, "%s is \"%u\", and has to be a whole number of 1 to %u",
                    variable_name(suffix, name, sizeof(name)), value, max);
}

int engine_options_from_env(struct engine_options *o, struct fail *why)
{
    struct sonde_inference_env env = { .size = sizeof(env) };
    char text[sizeof(why->text)];
    if (sonde_inference_env(&env, text, sizeof(text))) return fail_set(why, "%s", text);
    if (variable_check("BATCH_SIZE", env.batch_size, ENGINE_SLOTS_MAX, why)) return -1;
    if (variable_check("NUM_THREADS", env.threads, ENGINE_THREADS_MAX, why)) return -1;
    if (env.deterministic) o->deterministic = 1;
    if (env.seed_set) {
        o->seed_set = 1;
        o->seed = env.seed;
    }
    if (env.batch_size) o->slots = env.batch_size;
    if (env.threads) o->threads = env.threads;
    if (env.memory_limit) o->memory_limit = env.memory_limit;
    return 0;
}
