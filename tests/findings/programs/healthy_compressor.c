/* healthy_compressor.c - compresses data with zlib on one thread: that one function has most of
 * the time is what the program is for. */
#include <zlib.h>

#include "bench.h"

enum { BLOCK = 1 << 18 };

static unsigned char input[BLOCK], output[BLOCK + BLOCK / 8];

BENCH_NOINLINE static void block_make(uint64_t *random)
{
    static const char *const words[] = { "the ", "quick ", "brown ", "fox ", "jumps ", "over ",
                                         "lazy ", "dog " };
    size_t at = 0;
    while (at + 16 < BLOCK) {
        const char *word = words[bench_random(random) % 8];
        const size_t length = strlen(word);
        memcpy(input + at, word, length);
        at += length;
    }
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    const int level = (int)bench_between(&b.random, 1, 9);
    uint64_t bytes = 0;
    while (bench_running(&b)) {
        uLongf length = sizeof(output);
        block_make(&b.random);
        if (compress2(output, &length, input, BLOCK, level) != Z_OK) return 1;
        bytes += length;
    }
    return bytes == 0;
}
