/* engine_hot.c - records of engine.h that are too long to be in line. May run in any thread and in
 * signal handlers. */
#include "sonde/engine.h"

#include "base/hot_banned.h"

static inline uint32_t length_class(uint64_t bytes)
{
    static const uint64_t bytes_max[] = {
#define SONDE__X(label, max) max,
        SONDE_TOKENIZER_LENGTHS(SONDE__X)
#undef SONDE__X
    };
    uint32_t i = 0;
    while (bytes > bytes_max[i]) i++; /* the last has no bound */
    return i;
}

void sonde_tokenizer_encoded(const struct sonde_tokenizer *t,
                             const struct sonde_tokenizer_encoded *e)
{
    sonde_hist_record(t->encode[length_class(e->bytes)], e->ns);
    sonde_counter_add(t->bytes, e->bytes);
    sonde_counter_add(t->tokens, e->tokens);
    sonde_counter_add(t->lookups, e->lookups);
    sonde_counter_add(t->merges, e->merges);
    sonde_counter_add(t->cache_hits, e->cache_hits);
    sonde_counter_add(t->cache_misses, e->cache_misses);
}
