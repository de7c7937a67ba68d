/* fuzz_segment.h - the driver of fuzz targets for readers of segments: a valid segment, edited.
 * Whatever is in the file, the reader refuses it with a reason or reads it.
 *
 * Input: one byte of flags, then edits of 4 bytes offset, 1 byte length (1 to 8, low bits; 0x80:
 * make it after the first reading) and that many bytes. FLAG_SEAL recomputes the header's check
 * sum after the edits, FLAG_SEAL_TABLES those of families and series, FLAG_RAW takes the rest
 * of the input as the file.
 *
 * Run by libFuzzer, or with SONDE_FUZZ_MAIN by the main below, which makes a given number of
 * inputs from a fixed seed. A target defines fuzz_build, fuzz_read and fuzz_offset. */
#ifndef SONDE_TESTS_FUZZ_SEGMENT_H
#define SONDE_TESTS_FUZZ_SEGMENT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "collect/segment/read.h"
#include "fuzz/fuzz_check.h"
#include "unit/collect/segment/segment_build.h"

#define NAME "4242.777"
#define PASSES 3

enum { FLAG_SEAL = 1, FLAG_SEAL_TABLES = 2, FLAG_RAW = 4 };

static struct build seed;   /* as it should be */
static struct build work;   /* the file, mapped */
static int dirfd = -1;

/* ---- What a target is ------------------------------------------------------------------------ */

static void fuzz_build(struct build *b);  /* what is in the segment */
/* Read it as an agent would, calling fuzz_late after the first of PASSES readings; what the one
 * that failed returned, with err. */
struct edits { const uint8_t *data; size_t size; };
static int fuzz_read(struct sonde_segment *s, const struct edits *late, struct sonde_err *err);
#ifdef SONDE_FUZZ_MAIN
static uint32_t fuzz_offset(void);        /* somewhere that is in use */
#endif

/* ---- The file -------------------------------------------------------------------------------- */

static void start(void)
{
    char dir[] = "/dev/shm/sonde-fuzz-XXXXXX";
    build_init(&seed, 4242, 777, "prog");
    fuzz_build(&seed);
    CHECK(mkdtemp(dir));
    dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    build_write(&seed, dirfd, NAME, seed.bytes);
    int fd = openat(dirfd, NAME, O_RDWR | O_CLOEXEC);
    work.base = mmap(NULL, seed.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(work.base != MAP_FAILED);
    work.h = (struct sonde__header *)(void *)work.base;
    work.bytes = seed.bytes;
    close(fd);
}

static void stop(void)
{
    char path[64], dir[256];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", dirfd);
    ssize_t n = readlink(path, dir, sizeof(dir) - 1);
    unlinkat(dirfd, NAME, 0);
    if (n > 0) {
        dir[n] = '\0';
        rmdir(dir);
    }
    close(dirfd);
}

/* Make the edits of this pass; offsets of all are remembered by the caller's input. */
static void edit(const uint8_t *data, size_t size, int late)
{
    while (size >= 5) {
        uint32_t off;
        size_t len = (data[4] & 7) + 1u;
        memcpy(&off, data, 4);
        if (size < 5 + len) return;
        if ((data[4] >> 7) == late) memcpy(work.base + off % (work.bytes - 8), data + 5, len);
        data += 5 + len;
        size -= 5 + len;
    }
}

static void restore(const uint8_t *data, size_t size)
{
    memcpy(work.base, seed.base, seed.h->block_off);
    while (size >= 5) {
        uint32_t off;
        size_t len = (data[4] & 7) + 1u;
        memcpy(&off, data, 4);
        off = (uint32_t)(off % (work.bytes - 8));
        memcpy(work.base + off, seed.base + off, 8);
        if (size < 5 + len) return;
        data += 5 + len;
        size -= 5 + len;
    }
}

static int inside(struct sonde__str s)
{
    return (uint64_t)s.off + s.len <= BUILD_STRINGS;
}

static void seal(uint8_t flags)
{
    if (flags & FLAG_SEAL) work.h->check = sonde__header_check(work.h);
    if (!(flags & FLAG_SEAL_TABLES)) return;
    const char *strings = work.base + seed.h->string_off;
    for (uint32_t i = 1; i < BUILD_FAMILIES; i++) {
        struct sonde__family *f =
            (struct sonde__family *)(void *)(work.base + seed.h->family_off) + i;
        if (inside(f->name) && inside(f->help) && inside(f->unit) && inside(f->source) &&
            inside(f->labels) && inside(f->tags)) {
            f->check = sonde__family_check(f, strings);
        }
    }
    for (uint32_t i = 1; i < BUILD_SERIES; i++) {
        struct sonde__series *s =
            (struct sonde__series *)(void *)(work.base + seed.h->series_off) + i;
        if (inside(s->values)) s->check = sonde__series_check(s, strings);
    }
}

static void fuzz_late(const struct edits *late) { edit(late->data, late->size, 1); }

static void read_it(const uint8_t *edits, size_t size)
{
    struct sonde_segment *s = NULL;
    struct sonde_err err = { "" };
    const struct edits late = { edits, size };
    int rc = sonde_segment_open(dirfd, NAME, 0, &s, &err);
    if (rc == 0) rc = fuzz_read(s, &late, &err);
    CHECK(rc == 0 || err.text[0]);
    CHECK(rc != SONDE_ENOMEM);
    sonde_segment_close(s);
    CHECK(sonde__alloc_live() == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (dirfd < 0) {
        start();
        atexit(stop);
    }
    if (size < 1) return 0;
    uint8_t flags = data[0];
    data++;
    size--;
    if (flags & FLAG_RAW) {
        size_t n = size < work.bytes ? size : work.bytes;
        memcpy(work.base, data, n);
        if (flags & FLAG_SEAL) work.h->check = sonde__header_check(work.h);
        read_it(NULL, 0);
        memcpy(work.base, seed.base, n);
        return 0;
    }
    edit(data, size, 0);
    seal(flags);
    read_it(data, size);
    restore(data, size);
    return 0;
}

/* ---- Inputs from a fixed seed ---------------------------------------------------------------- */

#ifdef SONDE_FUZZ_MAIN

static uint64_t rng = 1;

static uint64_t draw(void)
{
    uint64_t x = (rng += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static uint64_t draw_value(void)
{
    const uint64_t known[] = { 0, 1, 2, 63, 64, 255, 4096, UINT64_MAX, UINT32_MAX, 1ull << 32,
                               1ull << 63, seed.bytes, seed.bytes - 64, seed.h->block_off,
                               seed.h->block_off / 64, seed.h->string_max, SONDE__RING_RECS };
    if (draw() % 2) return draw();
    return known[draw() % (sizeof(known) / sizeof(known[0]))];
}

static size_t draw_input(uint8_t *out)
{
    size_t n = 0, edits = 1 + draw() % 6;
    out[n++] = (uint8_t)(draw() % 4 ? FLAG_SEAL | FLAG_SEAL_TABLES : draw() % 4);
    for (size_t i = 0; i < edits; i++) {
        uint32_t off = fuzz_offset();
        uint8_t len = (uint8_t)(draw() % 8);
        uint64_t value = draw_value();
        if (draw() % 2) { /* whole fields more often than not */
            off &= ~7u;
            len = draw() % 2 ? 7 : 3;
        }
        if (draw() % 4 == 0) { /* one bit */
            len = 0;
            value = (uint8_t)seed.base[off] ^ (1u << draw() % 8);
        }
        memcpy(out + n, &off, 4);
        out[n + 4] = (uint8_t)(len | (draw() % 4 == 0 ? 0x80 : 0));
        memcpy(out + n + 5, &value, 8);
        n += 5 + len + 1u;
    }
    return n;
}

int main(int argc, char **argv)
{
    uint8_t input[128];
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
    LLVMFuzzerTestOneInput((const uint8_t *)"\0", 1); /* undamaged */
    for (unsigned long i = 0; i < count; i++) LLVMFuzzerTestOneInput(input, draw_input(input));
    printf("%lu damaged segments refused or survived\n", count);
    return 0;
}

#endif

#endif
