/* pools.c - the pools of a process (sonde_pool in sonde.h) out of its segment, without a
 * model: a gauge by one label, looked for by its name. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "collect/segment/private.h"

#define POOLS_NAME "sonde_memory_pool_bytes"

static int segment_pools_str_inside(struct sonde__str s, const struct segment_counts *c)
{
    return s.off <= c->strings && s.len <= c->strings - s.off;
}

/* Its id; 0 = there is none. */
static uint32_t segment_pools_find_family(const struct sonde_segment *s,
                                          const struct segment_counts *c)
{
    const char *strings = s->map.base + s->h.string_off;
    for (uint32_t id = 1; id < c->families; id++) {
        struct sonde__family f;
        memcpy(&f, s->map.base + s->h.family_off + (uint64_t)id * sizeof(f), sizeof(f));
        if (f.type == SONDE_GAUGE && f.label_count == 1 && f.name.len == sizeof(POOLS_NAME) - 1 &&
            segment_pools_str_inside(f.name, c) &&
            !memcmp(strings + f.name.off, POOLS_NAME, f.name.len)) {
            return id;
        }
    }
    return 0;
}

/* Its only label's value, as valid UTF-8. */
static int segment_pools_pool_name(const struct sonde_segment *s, const struct segment_counts *c,
                                   const struct sonde__series *series,
                                   char out[SONDE_LABEL_VALUE_MAX + 1])
{
    const char *packed = s->map.base + s->h.string_off + series->values.off;
    char text[SONDE_LABEL_VALUE_MAX];
    uint16_t len;
    int changed = 0;
    if (!segment_pools_str_inside(series->values, c) || series->values.len < sizeof(len)) return -1;
    memcpy(&len, packed, sizeof(len));
    if (len > SONDE_LABEL_VALUE_MAX || len != series->values.len - sizeof(len)) return -1;
    memcpy(text, packed + sizeof(len), len);
    out[sonde__utf8_copy(out, SONDE_LABEL_VALUE_MAX, text, len, &changed)] = '\0';
    return out[0] ? 0 : -1;
}

void sonde_segment_pools(struct sonde_segment *s,
                         void (*pool)(void *arg, const char *name, double bytes), void *arg)
{
    assert(pool);
    struct segment_counts c;
    char name[SONDE_LABEL_VALUE_MAX + 1];
    if (segment_counts_load(s, &c, NULL) != 0 || c.lanes == 0) return;
    const uint32_t family = segment_pools_find_family(s, &c);
    for (uint32_t id = 1; family && id < c.series && id < c.cells; id++) {
        struct sonde__series series;
        double value;
        memcpy(&series, s->map.base + s->h.series_off + (uint64_t)id * sizeof(series),
               sizeof(series));
        if (series.family != family || series.flags & SONDE__SERIES_OVERFLOW) continue;
        const uint64_t bits =
            segment_load(s->map.base + s->h.lane_off + SONDE__CELLS_OFF + 8ull * id);
        memcpy(&value, &bits, sizeof(value));
        if (isfinite(value) && segment_pools_pool_name(s, &c, &series, name) == 0) {
            pool(arg, name, value);
        }
    }
}
