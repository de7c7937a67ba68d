/* fuzz_chunk.c - columns of a store are read without a step outside, and what was read is written
 * and read again as the same. The first byte says what is read, the second how many numbers. */
static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("\x00\x20\x18\x54"),
    SEED("\x00\x08\x08\xd0\x0f\xc8\x01\x01\x10\x52\xa4\x13\x77\x80"),
    SEED("\x01\x08\x11\x01\x02\x64\x03\x12\x34\x56\x78\x9a\xbc"),
    SEED("\x01\x04\x02\x40\x09\x21\xfb\x54\x44\x2d\x18\x5f\x34\x12\x99\xa0\x11"),
    SEED("\x02\x02\x18\x00\x18\x02\x18\x04\x18\x80\x1e\x18\x04\x18\x02"),
    SEED("\x03\x02\x00\x04\x02\x64\x01\x02\x03\x01\x01\x00"),
};

#include "fuzz/fuzz_seeds.h"

#include "sonde/sonde.h"
#include "store/chunk_hist.h"

static void numbers(struct sonde_chunk_in *in, enum sonde_chunk_type type, uint32_t n)
{
    static uint64_t v[SONDE_CHUNK_MAX], again[SONDE_CHUNK_MAX];
    sonde_chunk_get(in, type, v, n);
    CHECK(in->at <= in->end);
    if (in->bad) {
        for (uint32_t i = 0; i < n; i++) CHECK(v[i] == 0);
        return;
    }
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    sonde_chunk_put(&b, type, v, n);
    CHECK(!b.error);
    const unsigned char *data = (const unsigned char *)b.data;
    struct sonde_chunk_in second = { data, data + b.len, 0 };
    sonde_chunk_get(&second, type, again, n);
    CHECK(!second.bad && second.at == second.end && !memcmp(v, again, n * sizeof(*v)));
    sonde_buf_release(&b);
}

static void check_column(const struct sonde_hist_column *c)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < c->n; before = c->end[i++]) {
        CHECK(c->end[i] >= before && c->end[i] <= c->buckets);
        for (uint32_t b = before; b < c->end[i]; b++) {
            CHECK(c->p[b] < SONDE__HIST_BUCKETS && (b == before || c->p[b] > c->p[b - 1]));
        }
    }
}

static void histograms(struct sonde_chunk_in *in, int entries, uint32_t n)
{
    struct sonde_hist_column c = { 0 };
    int rc = 0;
    if (entries) {
        for (uint32_t i = 0; i < n && !rc; i++) rc = sonde_hist_column_add(&c, in);
    } else {
        rc = sonde_chunk_get_hist(in, n, &c);
    }
    CHECK(in->at <= in->end && (!rc || rc == SONDE_EFORMAT));
    if (!rc) {
        CHECK(c.n == n);
        check_column(&c);
    }
    sonde_hist_column_release(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    struct sonde_chunk_in in = { data + 2, data + size, 0 };
    const uint32_t n = 1 + data[1] * 8u % SONDE_CHUNK_MAX;
    switch (data[0] % 4) {
    case 0: numbers(&in, SONDE_CHUNK_INTEGERS, n); break;
    case 1: numbers(&in, SONDE_CHUNK_DOUBLES, n); break;
    case 2: histograms(&in, 0, n); break;
    default: histograms(&in, 1, n); break;
    }
    return 0;
}
