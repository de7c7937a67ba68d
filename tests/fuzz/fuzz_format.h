/* fuzz_format.h - what the fuzz targets of profile formats share: whatever the bytes are, a reader
 * refuses them with a reason, or makes a profile that can be folded and written again.
 *
 * A target defines FUZZ_FORMAT, the name of a format, and fuzz_seeds, inputs that are right. Run
 * by libFuzzer, or with SONDE_FUZZ_MAIN by the main below, which mutates the seeds a given number
 * of times from a fixed seed of its own, or with `seeds DIR` writes them for libFuzzer. */
#ifndef SONDE_TESTS_FUZZ_FORMAT_H
#define SONDE_TESTS_FUZZ_FORMAT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/format.h"
#include "profile/tree.h"
#include "sonde/sonde.h"

#define CHECK(x)                                                                               \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x);              \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ids of rows lead to rows that come before them, or are there. */
static void check_tables(const struct sonde_profile *p)
{
    for (uint32_t i = 1; i < p->stacks_count; i++) {
        CHECK(p->stacks[i].parent < i && p->stacks[i].location < p->locations_count);
    }
    for (uint32_t i = 1; i < p->locations_count; i++) {
        const struct sonde_profile_location *l = &p->locations[i];
        CHECK(l->module < p->modules_count);
        CHECK((uint64_t)l->line + l->line_count <= p->lines_count);
    }
    for (uint32_t i = 0; i < p->lines_count; i++) CHECK(p->lines[i].function < p->functions_count);
    for (uint32_t i = 0; i < p->samples_count; i++) {
        CHECK(p->samples[i].stack && p->samples[i].stack < p->stacks_count);
    }
}

static void check_profile(const struct sonde_profile *p)
{
    const struct sonde_profile_filter any = { .kind = -1 };
    const struct sonde_tree_options o = { .by_thread = 1 };
    struct sonde_tree *t;
    check_tables(p);
    CHECK(!sonde_tree_build(p, &any, &o, &t, NULL));
    sonde_tree_destroy(t);
    for (size_t i = 0; sonde_formats[i]; i++) {
        struct sonde_buf b;
        struct sonde_err err = { "" };
        if (!sonde_formats[i]->write) continue;
        sonde_buf_init(&b, (size_t)1 << 28);
        const int rc = sonde_formats[i]->write(p, &any, &b, &err);
        CHECK(!rc || ((rc == SONDE_ENOENT || rc == SONDE_EFULL) && err.text[0]));
        sonde_buf_release(&b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    const struct sonde_format_ops *format = sonde_format_find(FUZZ_FORMAT);
    CHECK(!sonde_profile_create((size_t)4 << 20, &p));
    format->probe((const char *)data, size);
    const int rc = format->read((const char *)data, size, p, &err);
    CHECK(!rc || err.text[0]);
    CHECK(p->bytes <= p->bytes_max);
    if (!rc) check_profile(p);
    sonde_profile_destroy(p);
    CHECK(sonde__alloc_live() == 0);
    return 0;
}

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
