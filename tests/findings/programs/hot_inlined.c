/* hot_inlined.c - renders frames of a picture: noise, blur, tone curve, histogram. The tone
 * curve is an inline function in the loop over pixels, so there is no symbol of its own where
 * the time goes. */
#include <math.h>

#include "bench.h"

enum { WIDTH = 512, HEIGHT_MAX = 256 };

static float picture[HEIGHT_MAX][WIDTH], blurred[HEIGHT_MAX][WIDTH];
static unsigned height, steps, histogram[64];

static inline __attribute__((always_inline)) float tone_curve(float x)
{
    float y = x; /* PLANTED: Newton's method for a root, pixel by pixel */
    for (unsigned i = 0; i < steps; i++) y -= (y * y * y + y - x) / (3 * y * y + 1);
    return y;
}

BENCH_NOINLINE static void frame_noise(uint64_t *random)
{
    for (unsigned r = 0; r < height; r++) {
        for (unsigned c = 0; c < WIDTH; c++) {
            picture[r][c] = (float)(bench_random(random) >> 40) * 0x1p-24f;
        }
    }
}

BENCH_NOINLINE static void frame_blur(void)
{
    for (unsigned r = 0; r < height; r++) {
        for (unsigned c = 1; c + 1 < WIDTH; c++) {
            blurred[r][c] = (picture[r][c - 1] + 2 * picture[r][c] + picture[r][c + 1]) / 4;
        }
    }
}

BENCH_NOINLINE static void frame_tone(void)
{
    for (unsigned r = 0; r < height; r++) { /* PLANTED: where it is inlined */
        for (unsigned c = 0; c < WIDTH; c++) picture[r][c] = tone_curve(blurred[r][c]);
    }
}

BENCH_NOINLINE static void frame_histogram(void)
{
    for (unsigned r = 0; r < height; r++) {
        for (unsigned c = 0; c < WIDTH; c++) {
            histogram[(unsigned)(fabsf(picture[r][c]) * 64) % 64]++;
        }
    }
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    height = bench_between(&b.random, 64, HEIGHT_MAX);
    steps = bench_between(&b.random, 4, 9);
    while (bench_running(&b)) {
        frame_noise(&b.random);
        frame_blur();
        frame_tone();
        frame_histogram();
    }
    return histogram[0] == 1;
}
