/* fuzz_segment.c - a valid segment, edited: whatever is in the file, the reader refuses it with a
 * reason or reads it, and what it puts in the model is fit to be shown.
 *
 * Input: one byte of flags, then edits of 4 bytes offset, 1 byte length (1 to 8, low bits; 0x80:
 * make it after the first reading) and that many bytes. FLAG_SEAL recomputes the header's check
 * sum after the edits, FLAG_SEAL_TABLES those of families and series, FLAG_RAW takes the rest
 * of the input as the file.
 *
 * Run by libFuzzer, or with SONDE_FUZZ_MAIN by its own main, which makes a given number of
 * inputs from a fixed seed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "collect/segment_read.h"
#include "unit/collect/segment_build.h"

#define NAME "4242.777"

enum { FLAG_SEAL = 1, FLAG_SEAL_TABLES = 2, FLAG_RAW = 4 };

static struct build seed;   /* as it should be */
static struct build work;   /* the file, mapped */
static int dirfd = -1;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(x)                                                                               \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x);              \
            abort();                                                                           \
        }                                                                                      \
    } while (0)

static void start(void)
{
    char dir[] = "/dev/shm/sonde-fuzz-XXXXXX";
    build_init(&seed, 4242, 777, "prog");
    build_sample(&seed);
    struct sonde__sampler *sampler = build_sampler(&seed, 256);
    build_map(sampler, 0x1000, 0x9000, "/usr/lib/some/library/with/a/long/name.so");
    build_stack(sampler, 4243, 3, 0x1100);
    build_stack(sampler, 4243, 60, 0x1200);
    build_thread(sampler, 4243, "worker");
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
    memcpy(work.base, seed.base, seed.h->heap_off);
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

static void check_series(const struct sonde_model_series *s)
{
    CHECK(sonde__utf8_valid(s->label_text, s->label_text_len));
    CHECK(!memchr(s->label_text, '\n', s->label_text_len));
    for (size_t i = 0; i < s->label_count; i++) {
        CHECK(s->labels[i].name[strspn(s->labels[i].name, "abcdefghijklmnopqrstuvwxyz"
              "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")] == '\0');
        CHECK(sonde__utf8_valid(s->labels[i].value, strlen(s->labels[i].value)));
    }
    if (!s->hist) return;
    uint64_t count = s->hist->zero;
    for (int o = 0; o < SONDE__HIST_OCTAVES; o++) {
        for (int i = 0; s->hist->octave[o] && i < 64; i++) count += s->hist->octave[o][i];
    }
    CHECK(count == s->hist->count);
}

static void check_model(const struct sonde_model *m)
{
    for (size_t i = 0; i < m->family_count; i++) {
        const struct sonde_model_family *f = m->families[i];
        CHECK(f->name[0] && sonde__utf8_valid(f->help, strlen(f->help)));
        CHECK(i == 0 || strcmp(m->families[i - 1]->name, f->name) < 0);
        for (size_t k = 0; k < f->series_count; k++) check_series(f->series[k]);
    }
    for (uint64_t i = 0; i < m->span_next && i < m->spans_max; i++) {
        CHECK(m->spans[i].outcome <= SONDE_TIMEOUT);
        CHECK(m->spans[i].attr_count <= SONDE_SPAN_ATTRS_MAX);
    }
}

static void check_sample(void *arg, const struct sonde_segment_sample *s)
{
    uint64_t *sum = arg;
    CHECK(s->depth <= SONDE__DEPTH_MAX);
    for (uint32_t i = 0; i < s->depth; i++) *sum += s->ips[i];
}

static void check_map(void *arg, const struct sonde_segment_map *m)
{
    (void)arg;
    CHECK(m->end > m->start && strlen(m->path) > 0 && strlen(m->path) <= SONDE__MAP_PATH_MAX);
}

static void check_thread(void *arg, const struct sonde_segment_thread *t)
{
    (void)arg;
    CHECK(strnlen(t->name, sizeof(t->name)) < sizeof(t->name));
}

static int read_samples(struct sonde_segment *s, int last, struct sonde_err *err)
{
    struct sonde_sampler_info info;
    uint64_t sum = 0, lost;
    const struct sonde_segment_sink sink = { check_sample, check_map, check_thread, &sum };
    int rc = sonde_segment_sampler(s, &info, err);
    if (rc == 0) rc = sonde_segment_samples(s, &sink, last, &lost, err);
    return rc == SONDE_ENOENT ? 0 : rc;
}

/* Read the file as an agent would, with the late edits between two readings. */
static void read_it(const uint8_t *edits, size_t size)
{
    struct sonde_model_limits limits = { .series_max = 100, .history_series_max = 50,
                                         .spans_max = 64 };
    struct sonde_model *m;
    struct sonde_segment *s = NULL;
    struct sonde_err err = { "" };
    struct sonde_tick_clock clock = { .now_tsc = 1u << 20, .now_mono_ns = 1u << 20,
                                      .unix_ns = 1u << 30, .tsc_ns = 0.5 };
    CHECK(sonde_model_create(&limits, &m) == 0);
    struct sonde_model_process *p = sonde_model_process(m, 4242, 777, "prog");
    int rc = sonde_segment_open(dirfd, NAME, 0, &s, &err);
    for (int pass = 0; rc == 0 && pass < 3; pass++) {
        rc = sonde_segment_drain(s, m, p, &clock, pass == 2, &err);
        if (rc == 0) rc = sonde_segment_read(s, m, p, pass == 2, &err);
        if (rc == 0) rc = read_samples(s, pass == 2, &err);
        sonde_model_tick(m, 1000 + pass);
        check_model(m);
        if (pass == 0) edit(edits, size, 1);
    }
    CHECK(rc == 0 || err.text[0]);
    CHECK(rc != SONDE_ENOMEM);
    sonde_segment_close(s);
    sonde_model_destroy(m);
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

#ifdef SONDE_FUZZ_MAIN

static uint64_t rng = 1;

static uint64_t draw(void)
{
    uint64_t x = (rng += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

/* Somewhere that is in use, each part of the file as likely as the others. */
static uint32_t draw_offset(void)
{
    const struct sonde__header *h = seed.h;
    switch (draw() % 9) {
    case 0: return (uint32_t)(draw() % SONDE__HEADER_FIXED);
    case 1: return (uint32_t)(SONDE__HEADER_FIXED + draw() % (sizeof(*h) - SONDE__HEADER_FIXED));
    case 2: return (uint32_t)(h->family_off + draw() % (128ull * h->family_count));
    case 3: return (uint32_t)(h->series_off + draw() % (64ull * h->series_count));
    case 4: return (uint32_t)(h->string_off + draw() % h->string_used);
    case 5: return (uint32_t)(h->lane_off + h->lane_stride * (draw() % BUILD_LANES) +
                              draw() % (64 + 8ull * h->series_count));
    case 6: return (uint32_t)(h->heap_off + draw() % 8192);
    case 7: return (uint32_t)(h->sampler + draw() % 1024); /* with its first records */
    default: { /* the ring and its first records */
        uint64_t ring = ((const struct sonde__lane *)(const void *)(
            seed.base + sonde__lane_at(h, 2)))->ring;
        return (uint32_t)(ring + draw() % 512);
    }
    }
}

static uint64_t draw_value(void)
{
    const uint64_t known[] = { 0, 1, 2, 63, 64, 255, 4096, UINT64_MAX, UINT32_MAX, 1ull << 32,
                               1ull << 63, seed.bytes, seed.bytes - 64, seed.h->heap_off,
                               seed.h->heap_off / 64, seed.h->string_max, SONDE__RING_RECS };
    if (draw() % 2) return draw();
    return known[draw() % (sizeof(known) / sizeof(known[0]))];
}

static size_t draw_input(uint8_t *out)
{
    size_t n = 0, edits = 1 + draw() % 6;
    out[n++] = (uint8_t)(draw() % 4 ? FLAG_SEAL | FLAG_SEAL_TABLES : draw() % 4);
    for (size_t i = 0; i < edits; i++) {
        uint32_t off = draw_offset();
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
