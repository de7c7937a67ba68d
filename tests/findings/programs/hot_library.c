/* hot_library.c - frames messages through a shared library, whose checksum is slow. */
#include "bench.h"
#include "hot_codec.h"

enum { FRAME_MAX = 4096 };

static unsigned char frame[FRAME_MAX], wire[2 * FRAME_MAX];

BENCH_NOINLINE static void frame_fill(uint64_t *random, size_t length)
{
    for (size_t i = 0; i < length; i++) frame[i] = (unsigned char)bench_random(random);
}

BENCH_NOINLINE static uint64_t frame_parse(size_t length)
{
    uint64_t sum = 0;
    for (size_t i = 0; i + 4 <= length; i += 4) {
        sum = sum * 31 + (uint64_t)(frame[i] | frame[i + 1] << 8);
    }
    return sum;
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    const unsigned least = bench_between(&b.random, 256, 2048);
    uint64_t sum = 0;
    while (bench_running(&b)) {
        const size_t length = bench_between(&b.random, least, FRAME_MAX);
        frame_fill(&b.random, length);
        const size_t n = codec_escape(frame, length, wire);
        sum += codec_crc(wire, n) + frame_parse(length);
    }
    return sum == 1;
}
