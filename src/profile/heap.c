#include "profile/heap.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

static const struct {
    const char *name, *text;
} verdicts[] = {
#define SONDE__X(id, name, text) { name, text },
    SONDE_HEAP_VERDICTS(SONDE__X)
#undef SONDE__X
};

const char *sonde_heap_verdict_name(enum sonde_heap_verdict v) { return verdicts[v].name; }
const char *sonde_heap_verdict_text(enum sonde_heap_verdict v) { return verdicts[v].text; }

int sonde_heap_verdict_find(const char *name)
{
    for (int v = 0; v < SONDE_HEAP_VERDICT_COUNT; v++) {
        if (!strcmp(verdicts[v].name, name)) return v;
    }
    return -1;
}

/* ---- Amounts --------------------------------------------------------------------------------- */

/* The quantile of a gamma distribution at z of the normal one (Wilson and Hilferty, 1931). */
static double gamma_quantile(double shape, double z)
{
    const double root = 1 - 1 / (9 * shape) + z / (3 * sqrt(shape));
    return root > 0 ? shape * root * root * root : 0;
}

struct sonde_heap_amount sonde_heap_amount(double value, double variance, double one)
{
    static const double z = 1.959964;
    struct sonde_heap_amount a = { value, value, value };
    if (!(variance > 0) && !(one > 0)) return a;
    if (variance < 0) variance = 0;
    a.low = 0;
    if (value > 0) {
        const double shape = variance > 0 ? value * value / variance : INFINITY;
        a.low = shape < 1e12 ? variance / value * gamma_quantile(shape, -z) : value;
    }
    const double wide = variance + one * one, far = value + one;
    if (far > 0) a.high = wide / far * gamma_quantile(far * far / wide, z);
    if (a.low > value) a.low = value;
    if (a.high < value) a.high = value;
    return a;
}

/* ---- Life ------------------------------------------------------------------------------------ */

void sonde_heap_destroy(struct sonde_heap *h)
{
    if (!h) return;
    sonde__free(h->sites);
    sonde__free(h->points);
    sonde__free(h->threads);
    sonde__free(h->pools);
    sonde__free(h);
}

/* 1 if *rows, which is another's, has become a copy of its own; NULL for none. */
static int heap_profile_copy_rows(void **rows, uint32_t count, size_t size)
{
    const void *from = *rows;
    *rows = NULL;
    if (!count) return 1;
    *rows = sonde__alloc(count * size);
    if (*rows) memcpy(*rows, from, count * size);
    return *rows != NULL;
}

struct sonde_heap *sonde_heap_copy(const struct sonde_heap *h)
{
    assert(h);
    struct sonde_heap *copy = sonde__alloc(sizeof(*copy));
    if (!copy) return NULL;
    *copy = *h;
    void *rows[] = { h->sites, h->points, h->threads, h->pools };
    const int ok[] = {
        heap_profile_copy_rows(&rows[0], h->site_count, sizeof(*h->sites)),
        heap_profile_copy_rows(&rows[1], h->point_count, sizeof(*h->points)),
        heap_profile_copy_rows(&rows[2], h->thread_count, sizeof(*h->threads)),
        heap_profile_copy_rows(&rows[3], h->pool_count, sizeof(*h->pools)),
    };
    copy->sites = rows[0];
    copy->points = rows[1];
    copy->threads = rows[2];
    copy->pools = rows[3];
    if (ok[0] && ok[1] && ok[2] && ok[3]) return copy;
    sonde_heap_destroy(copy);
    return NULL;
}

size_t sonde_heap_bytes(const struct sonde_heap *h)
{
    return sizeof(*h) + h->site_count * sizeof(*h->sites) + h->point_count * sizeof(*h->points) +
           h->thread_count * sizeof(*h->threads) + h->pool_count * sizeof(*h->pools);
}

void sonde_heap_size_bounds(uint32_t i, uint64_t *low, uint64_t *high)
{
    if (i < 4) {
        *low = 4 * i;
        *high = *low + 4;
        return;
    }
    const uint32_t quarter = (i / 4) + 3 - 2; /* its logarithm */
    *low = (uint64_t)(4 + i % 4) << quarter;
    *high = i + 1 < SONDE_HEAP_SIZES ? *low + (1ull << quarter) : UINT64_MAX;
}
