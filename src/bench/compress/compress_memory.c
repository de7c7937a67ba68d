/* compress_memory.c - the memory of a library that cannot be asked: a child process packs one
 * block, and the pages that it touched for the first time meanwhile are those that it needed.
 *
 * The child's malloc() takes every larger piece from the kernel (M_MMAP_THRESHOLD) and gives it
 * back at once, so that nothing is served from pages that were touched before. A first block of
 * one byte brings in code and stack. What is packed and unpacked is shared memory that is touched
 * before.
 *
 * Rejected: VmHWM, which kernels count in batches of some hundred KiB, more than Snappy needs. */
#include "bench/compress/compress.h"

#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct memory_found { int64_t pack, unpack; };

struct memory_child {
    const struct sonde_codec *codec;
    int level;
    const void *data;
    size_t bytes;
    char *packed, *back;         /* shared with the parent */
    size_t packed_bytes;
    struct memory_found *found;  /* alike */
};

static int64_t memory_faults(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) ? -1 : (int64_t)u.ru_minflt;
}

/* Pages that one direction takes, in bytes; -1: it failed. */
static int64_t memory_child_measure(struct memory_child *c, int unpack, size_t *made)
{
    struct sonde_codec_memory memory = { 0 };
    const struct sonde_codec_how how = { .level = c->level, .unpack = unpack, .workers = 1,
                                         .memory = &memory };
    size_t small = 0, n = 0;
    char tiny[256], one = 0;
    void *state = c->codec->open(&how);
    if (!state) return -1;
    /* One byte there, and for unpacking back again. */
    int rc = c->codec->pack(state, &one, 1, tiny, sizeof(tiny), &small);
    if (!rc && unpack) rc = c->codec->unpack(state, tiny, small, &one, 1, &n);
    const int64_t before = memory_faults();
    if (!rc && !unpack) {
        rc = c->codec->pack(state, c->data, c->bytes, c->packed, c->packed_bytes, made);
    } else if (!rc) {
        rc = c->codec->unpack(state, c->packed, *made, c->back, c->bytes, &n);
    }
    const int64_t after = memory_faults();
    c->codec->close(state);
    if (rc || before < 0 || after < before) return -1;
    return (after - before) * sysconf(_SC_PAGESIZE);
}

static void memory_child_run(struct memory_child *c)
{
    volatile const char *data = c->data;
    size_t made = 0;
    char sum = 0;
    mallopt(M_MMAP_THRESHOLD, 4096);
    mallopt(M_TRIM_THRESHOLD, 0);
    malloc_trim(0);
    memset(c->packed, 1, c->packed_bytes);
    memset(c->back, 1, c->bytes);
    for (size_t i = 0; i < c->bytes; i += 512) sum = (char)(sum + data[i]);
    c->found->pack = memory_child_measure(c, 0, &made);
    if (c->found->pack >= 0) c->found->unpack = memory_child_measure(c, 1, &made);
}

void sonde_compress_memory(const struct sonde_codec *codec, int level, const void *data,
                           size_t bytes, int64_t *pack, int64_t *unpack)
{
    struct memory_child c = { .codec = codec, .level = level, .data = data, .bytes = bytes };
    *pack = *unpack = -1;
    if (!bytes || bytes > codec->block_max) return;
    c.packed_bytes = codec->bound(bytes);
    const size_t all = sizeof(*c.found) + c.packed_bytes + bytes;
    char *shared = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return;
    c.found = (struct memory_found *)(void *)shared;
    c.packed = shared + sizeof(*c.found);
    c.back = c.packed + c.packed_bytes;
    *c.found = (struct memory_found){ .pack = -1, .unpack = -1 };
    const pid_t pid = fork();
    if (!pid) {
        memory_child_run(&c);
        _exit(0);
    }
    int status = 0;
    if (pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status)) {
        *pack = c.found->pack;
        *unpack = c.found->unpack;
    }
    munmap(shared, all);
}
