/* fuzz_seeds.h - what fuzz targets with seeds share. A target defines fuzz_seeds, inputs that are
 * right, and includes this. Run by libFuzzer, or with SONDE_FUZZ_MAIN by the main below, which
 * mutates the seeds a given number of times from a fixed seed of its own, or with `seeds DIR`
 * writes them for libFuzzer. */
#ifndef SONDE_TESTS_FUZZ_SEEDS_H
#define SONDE_TESTS_FUZZ_SEEDS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz_check.h"

#ifdef SONDE_FUZZ_MAIN
enum { INPUT_MAX = 4096 };

static uint64_t fuzz_random(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    return x ^= x << 17;
}

/* A byte changed, a piece removed, doubled or taken from elsewhere, the end cut off. */
static size_t fuzz_mutate(uint8_t *data, size_t len)
{
    if (!len) return 0;
    const size_t at = fuzz_random() % len, rest = len - at, n = fuzz_random() % 16 % rest + 1;
    switch (fuzz_random() % 6) {
    case 0: data[at] = (uint8_t)fuzz_random(); return len;
    case 1: data[at] ^= (uint8_t)(1u << fuzz_random() % 8); return len;
    case 2: memmove(data + at, data + at + n, rest - n); return len - n;
    case 3:
        if (len + n > INPUT_MAX) return len;
        memmove(data + at + n, data + at, rest);
        return len + n;
    case 4: memmove(data + at, data + fuzz_random() % (len - n + 1), n); return len;
    default: return fuzz_random() % 8 ? len : at;
    }
}

static void fuzz_write_seeds(const char *dir)
{
    for (size_t i = 0; i < sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]); i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/seed%zu", dir, i);
        FILE *f = fopen(path, "w");
        CHECK(f && fwrite(fuzz_seeds[i].data, fuzz_seeds[i].len, 1, f) == 1 && !fclose(f));
    }
}

int main(int argc, char **argv)
{
    if (argc > 2 && !strcmp(argv[1], "seeds")) {
        fuzz_write_seeds(argv[2]);
        return 0;
    }
    const long rounds = argc > 1 ? atol(argv[1]) : 10000;
    for (size_t i = 0; i < sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]); i++) {
        LLVMFuzzerTestOneInput((const uint8_t *)fuzz_seeds[i].data, fuzz_seeds[i].len);
    }
    for (long round = 0; round < rounds; round++) {
        const size_t i = fuzz_random() % (sizeof(fuzz_seeds) / sizeof(fuzz_seeds[0]));
        /* Exactly as long as it is, so that a sanitizer sees a read past the end. */
        uint8_t work[INPUT_MAX];
        size_t len = fuzz_seeds[i].len;
        CHECK(len <= INPUT_MAX);
        memcpy(work, fuzz_seeds[i].data, len);
        for (uint64_t n = fuzz_random() % 6; n-- > 0;) len = fuzz_mutate(work, len);
        uint8_t *exact = malloc(len ? len : 1);
        CHECK(exact);
        memcpy(exact, work, len);
        LLVMFuzzerTestOneInput(exact, len);
        free(exact);
    }
    printf("%ld inputs\n", rounds);
    return 0;
}
#endif
#endif
