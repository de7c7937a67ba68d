/* fuzz_uprobe.c - what probes get from outside, edited: a file's headers and symbols, a batch and
 * the memory it points to, and hits in any order. Whatever they say, everything ends, stays within
 * its bytes, and nothing is kept.
 *
 * Input: the first byte says which. ELF: edits of 2 bytes offset and 1 byte value, and with
 * FLAG_CUT the file ends at the first one's offset. MEMORY: the bytes of a batch, then memory.
 * HITS: 8 bytes each.
 *
 * Run by libFuzzer, or with SONDE_FUZZ_MAIN by its own main: a given number of inputs from a fixed
 * seed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "collect/uprobe/pair.h"
#include "collect/uprobe/symbols.h"
#include "fuzz/fuzz_check.h"
#include "unit/collect/uprobe/uprobe_elf.h"

enum { ELF, MEMORY, HITS, KINDS };
#define FLAG_CUT 0x80u
#define BASE UINT64_C(0x10000)

struct bytes {
    const uint8_t *data;
    size_t len;
};

static void run_elf(const uint8_t *data, size_t size, int cut)
{
    struct sonde_uprobe_symbols s;
    uint8_t whole[ELF_SIZE];
    size_t len = ELF_SIZE;
    elf_make(whole);
    for (size_t i = 0; i + 3 <= size; i += 3) {
        const size_t at = (size_t)(data[i] << 8 | data[i + 1]) % ELF_SIZE;
        if (!i && cut) len = at;
        whole[at] = data[i + 2];
    }
    uint8_t *exact = malloc(len ? len : 1); /* so that reading on shows */
    CHECK(exact);
    memcpy(exact, whole, len);
    if (!sonde_uprobe_symbols_find(exact, len, &s)) {
        for (uint32_t fn = 0; fn < SONDE__LLAMA_COUNT; fn++) CHECK(s.at[fn] <= len + 16);
        CHECK(s.buffer_size_at >= -1 && s.buffer_size_at < 4096);
        CHECK(s.tensor_name_at >= -1 && s.tensor_name_at < 4096);
    }
    free(exact);
}

static int read_bytes(void *arg, const struct iovec *pieces, size_t count, void *out, size_t len)
{
    const struct bytes *b = arg;
    char *to = out;
    for (size_t i = 0; i < count; i++) {
        const uint64_t at = (uint64_t)(uintptr_t)pieces[i].iov_base - BASE;
        const size_t n = pieces[i].iov_len;
        CHECK(n <= len);
        if (at > b->len || n > b->len - at) return -1;
        memcpy(to, b->data + at, n);
        to += n;
        len -= n;
    }
    return 0;
}

static void run_memory(const uint8_t *data, size_t size)
{
    struct sonde_uprobe_reader r;
    struct sonde_uprobe_batch b;
    if (size < SONDE_UPROBE_BATCH_STACK) return;
    struct bytes bytes = { data + SONDE_UPROBE_BATCH_STACK, size - SONDE_UPROBE_BATCH_STACK };
    CHECK(!sonde_uprobe_batch(data, SONDE_UPROBE_BATCH_STACK, &b));
    CHECK(!sonde_uprobe_reader_init(&r, 1));
    r.read = read_bytes;
    r.arg = &bytes;
    struct sonde_uprobe_memory *m = sonde_uprobe_read_batch(&r, &b);
    for (uint32_t i = 0; m && i < m->part_count; i++) {
        CHECK(m->parts[i].tokens && m->parts[i].outputs <= m->parts[i].tokens);
        CHECK((uint64_t)m->parts[i].row + m->parts[i].tokens <= (uint64_t)b.tokens);
    }
    sonde__free(m);
    const struct sonde_uprobe_symbols s = { .buffer_size_at = data[0], .tensor_name_at = data[1] };
    sonde__free(sonde_uprobe_read_path(&r, b.token));
    sonde__free(sonde_uprobe_read_tail(&r, b.token, b.tokens));
    sonde__free(sonde_uprobe_read_size(&r, &s, b.pos));
    sonde__free(sonde_uprobe_read_tensor(&r, &s, b.logits));
    sonde_uprobe_reader_release(&r);
}

static void on_call(void *arg, const struct sonde_llama_call *c)
{
    (void)arg;
    CHECK(c->fn < SONDE__LLAMA_COUNT && c->end_ns >= c->begin_ns && c->text);
    CHECK(!c->part_count || c->parts);
}

static void run_hits(const uint8_t *data, size_t size)
{
    struct sonde_uprobe_pairs p;
    CHECK(!sonde_uprobe_pairs_init(&p, on_call, NULL));
    for (size_t i = 0; i + 8 <= size; i += 8) {
        const uint8_t *d = data + i;
        struct sonde_uprobe_hit h = { .time_ns = d[0] | (uint64_t)i << 3, .sp = d[1] * 8u,
                                      .back = d[2], .tid = d[3] % 4, .fn = d[4],
                                      .is_return = d[5] & 1, .batch_tokens = (int8_t)d[6] };
        for (size_t n = 0; n < SONDE__ARCH_ARGS; n++) h.arg[n] = ~(uint64_t)d[7] + n;
        if (d[5] & 2) {
            h.memory = sonde__calloc(1, sizeof(*h.memory) + 4 * sizeof(h.memory->parts[0]));
            CHECK(h.memory);
            h.memory->part_count = d[6] % 5;
            h.memory->read_ns = d[7];
        }
        sonde_uprobe_pairs_take(&p, &h);
    }
    sonde_uprobe_pairs_release(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    switch ((data[0] & ~FLAG_CUT) % KINDS) {
    case ELF: run_elf(data + 1, size - 1, (data[0] & FLAG_CUT) != 0); break;
    case MEMORY: run_memory(data + 1, size - 1); break;
    default: run_hits(data + 1, size - 1); break;
    }
    CHECK(sonde__alloc_live() == 0);
    return 0;
}

#ifdef SONDE_FUZZ_MAIN
static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Batches are made of what may be: few tokens, pointers into the memory. */
static void make_batch(uint8_t *out)
{
    const uint64_t tokens = next() % 64;
    memcpy(out + 8, &tokens, 4);
    for (size_t i = 2; i < 8; i++) {
        const uint64_t at = next() % 4 ? BASE + next() % 2048 : 0;
        memcpy(out + i * 8, &at, 8);
    }
    for (size_t i = 64; i + 8 < 1024; i += 8) {
        const uint64_t word = next() % 3 ? BASE + next() % 900 : next() % 3;
        memcpy(out + i, &word, 8);
    }
}

int main(int argc, char **argv)
{
    static uint8_t input[3000];
    const long count = argc > 1 ? strtol(argv[1], NULL, 10) : 1000;
    for (long n = 0; n < count; n++) {
        size_t size = 1 + next() % (sizeof(input) - 1);
        for (size_t i = 0; i < size; i++) input[i] = (uint8_t)next();
        input[0] = (uint8_t)((uint64_t)n % KINDS | (next() & FLAG_CUT));
        if (n % KINDS == ELF) size = 1 + next() % 40;
        if (n % KINDS == MEMORY && size > 1100) make_batch(input + 1);
        LLVMFuzzerTestOneInput(input, size);
    }
    printf("%ld inputs\n", count);
    return 0;
}
#endif
