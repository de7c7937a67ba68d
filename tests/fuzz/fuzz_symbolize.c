/* fuzz_symbolize.c - a valid ELF file with debug information, edited or cut: whatever is in it,
 * every address is answered at most once, with frames that can be shown, and nothing is leaked.
 *
 * Input: one byte of flags, then edits of 4 bytes offset, 1 byte length (1 to 8, low bits) and that
 * many bytes. FLAG_CUT: the first 4 bytes are the length the file is cut to. FLAG_RAW: the rest of
 * the input is the file. FLAG_TEXT: it is a JIT's map. FLAG_OFFSETS: addresses are offsets in the
 * file. The seed is compiled at the start.
 *
 * Run by libFuzzer, or with SONDE_FUZZ_MAIN by its own main, which makes a given number of inputs
 * from a fixed seed and every truncation. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fuzz/fuzz_check.h"
#include "profile/profile.h"
#include "profile/symbol/symbol.h"
#include "sonde/sonde.h"

enum { FLAG_CUT = 1, FLAG_RAW = 2, FLAG_TEXT = 4, FLAG_OFFSETS = 8 };

#define ADDRESSES 512

static uint8_t *seed;
static size_t seed_len;
static int file = -1;
static char dir[] = "/tmp/sonde-fuzz-XXXXXX", path[64];

static const char source[] =
    "extern int puts(const char *);\n"
    "namespace shop {\n"
    "template <class T> struct box { T v; T get() const { return v * 2; } };\n"
    "static inline __attribute__((always_inline)) int mix(int x) { return x * 31 ^ (x >> 3); }\n"
    "static inline __attribute__((always_inline)) int twice(int x) { return mix(x) + mix(~x); }\n"
    "__attribute__((noinline)) int burn(int n)\n"
    "{\n"
    "    int sum = 0;\n"
    "    for (int i = 0; i < n; i++) sum += twice(box<int>{i}.get());\n"
    "    if (sum == 42) puts(\"x\");\n"
    "    return sum;\n"
    "}\n"
    "}\n"
    "extern \"C\" int start(int n) { return shop::burn(n) + shop::mix(n); }\n";

static void stop(void)
{
    unlink(path);
    rmdir(dir);
}

static void start(void)
{
    char command[1024], name[64];
    CHECK(mkdtemp(dir));
    snprintf(name, sizeof(name), "%s/s.cpp", dir);
    FILE *f = fopen(name, "w");
    CHECK(f && fwrite(source, 1, sizeof(source) - 1, f) == sizeof(source) - 1);
    fclose(f);
    unsetenv("DEBUGINFOD_URLS");
    snprintf(command, sizeof(command),
             "g++ -w -O2 -g -fno-exceptions -fPIC -shared -nostdlib -fcf-protection=none "
             "-Wl,-z,noseparate-code -o %s/s.so %s", dir, name);
    CHECK(system(command) == 0);
    unlink(name);
    snprintf(name, sizeof(name), "%s/s.so", dir);
    f = fopen(name, "r");
    CHECK(f);
    seed = malloc(1 << 20);
    CHECK(seed);
    seed_len = fread(seed, 1, 1 << 20, f);
    CHECK(seed_len > 4096 && seed_len < (1 << 20));
    fclose(f);
    unlink(name);
    snprintf(path, sizeof(path), "%s/module.map", dir);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    atexit(stop);
}

static void put_file(const uint8_t *data, size_t len)
{
    CHECK(ftruncate(file, (off_t)len) == 0);
    CHECK(pwrite(file, data, len, 0) == (ssize_t)len);
}

struct seen { unsigned char once[ADDRESSES]; size_t count; };

static int look(void *arg, size_t index, const struct sonde_symbol_frame *frames, uint32_t count)
{
    struct seen *s = arg;
    CHECK(index < ADDRESSES && !s->once[index]);
    CHECK(count > 0 && count <= SONDE_SYMBOL_FRAMES_MAX);
    s->once[index] = 1;
    s->count++;
    for (uint32_t i = 0; i < count; i++) {
        CHECK(frames[i].name[0]);
        CHECK(strlen(frames[i].file) < 1u << 24);
    }
    return 0;
}

/* All of the code, which is in the first pages. */
static size_t resolve(enum sonde_symbol_kind kind)
{
    static uint64_t at[ADDRESSES];
    for (size_t i = 0; i < ADDRESSES; i++) at[i] = i * 2 + 0x200;
    const struct sonde_module place = { .path = path, .build_id = "", .open_path = "" };
    const struct sonde_symbol_job job = { .kind = kind, .build_id = "", .places = &place,
                                          .place_count = 1, .at = at, .at_count = ADDRESSES };
    struct seen seen = { .count = 0 };
    uint32_t flags;
    const int64_t live = sonde__alloc_live();
    const int rc = sonde_symbol_resolve(&job, look, &seen, &flags);
    CHECK(rc == 0 || rc == SONDE_ENOMEM || rc == SONDE_EFULL);
    CHECK(sonde__alloc_live() == live);
    return seen.count;
}

static void edit(uint8_t *to, size_t len, const uint8_t *data, size_t size)
{
    while (size >= 5) {
        uint32_t off;
        const size_t n = (data[4] & 7) + 1u;
        memcpy(&off, data, 4);
        if (size < 5 + n || len < 8) return;
        memcpy(to + off % (len - 7), data + 5, n);
        data += 5 + n;
        size -= 5 + n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (file < 0) start();
    if (size < 1) return 0;
    const uint8_t flags = data[0];
    const enum sonde_symbol_kind kind =
        flags & FLAG_TEXT      ? SONDE_SYMBOL_JIT
                               : flags & FLAG_OFFSETS ? SONDE_SYMBOL_FILE : SONDE_SYMBOL_VADDR;
    data++;
    size--;
    if (flags & (FLAG_RAW | FLAG_TEXT)) {
        put_file(data, size);
        resolve(kind);
        return 0;
    }
    uint8_t *copy = malloc(seed_len);
    CHECK(copy);
    memcpy(copy, seed, seed_len);
    size_t len = seed_len;
    if ((flags & FLAG_CUT) && size >= 4) {
        uint32_t cut;
        memcpy(&cut, data, 4);
        len = cut % (seed_len + 1);
        data += 4;
        size -= 4;
    }
    edit(copy, len, data, size);
    put_file(copy, len);
    free(copy);
    resolve(kind);
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

/* Lines of a JIT's map: hex numbers, blanks and letters, mostly where they belong. */
static size_t draw_text(uint8_t *out, size_t max)
{
    static const char letters[] = "0123456789abcdefx \n\t";
    size_t n = 0;
    out[n++] = FLAG_TEXT;
    while (n + 40 < max && draw() % 16) {
        n += (size_t)snprintf((char *)out + n, max - n, "%llx %llx f%u\n",
                              (unsigned long long)(draw() % 0x800),
                              (unsigned long long)(draw() % 0x100), (unsigned)(draw() % 100));
        const char letter = letters[draw() % (sizeof(letters) - 1)];
        if (draw() % 2) out[1 + draw() % (n - 1)] = (uint8_t)letter;
        if (draw() % 8 == 0) out[1 + draw() % (n - 1)] = (uint8_t)draw();
    }
    return n;
}

static size_t draw_input(uint8_t *out)
{
    static const uint64_t known[] = { 0, 1, 2, 0x7f, 0x80, 0xff, 4096, UINT32_MAX, UINT64_MAX,
                                      INT64_MAX, 1ull << 63, 1ull << 32, 0xffff, 0xff00 };
    size_t n = 0, edits = 1 + draw() % 6;
    out[n++] = (uint8_t)(draw() % 2 ? FLAG_OFFSETS : 0);
    for (size_t i = 0; i < edits; i++) {
        uint32_t off = (uint32_t)(draw() % seed_len);
        uint8_t len = (uint8_t)(draw() % 4 ? 0 : draw() % 8);
        uint64_t value = draw() % 2 ? draw() : known[draw() % (sizeof(known) / sizeof(known[0]))];
        if (draw() % 4 == 0) off %= 0x400;                                  /* headers */
        if (draw() % 4 == 0) off = (uint32_t)(seed_len - 1 - draw() % 0xa00); /* sections */
        if (draw() % 4 == 0) { /* one bit */
            len = 0;
            value = seed[off] ^ (1u << draw() % 8);
        }
        memcpy(out + n, &off, 4);
        out[n + 4] = len;
        memcpy(out + n + 5, &value, 8);
        n += 5 + len + 1u;
    }
    return n;
}

int main(int argc, char **argv)
{
    uint8_t input[1024] = { 0 };
    const unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 5000;
    LLVMFuzzerTestOneInput(input, 1); /* undamaged */
    CHECK(resolve(SONDE_SYMBOL_VADDR) > 50);
    for (uint32_t cut = 0; cut < seed_len; cut += cut < 1024 ? 1 : 13) {
        input[0] = FLAG_CUT;
        memcpy(input + 1, &cut, 4);
        LLVMFuzzerTestOneInput(input, 5);
    }
    for (unsigned long i = 0; i < count; i++) {
        const size_t n = draw() % 8 ? draw_input(input) : draw_text(input, sizeof(input));
        LLVMFuzzerTestOneInput(input, n);
    }
    printf("%lu damaged files refused or survived\n", count);
    return 0;
}

#endif
