/* spin_flag.c - a thread decodes frames, another one shows them and spins on an atomic flag
 * until the next is there. */
#include <pthread.h>
#include <stdatomic.h>

#include "bench.h"

enum { SAMPLES = 1 << 14 };

static struct bench b;
static atomic_uint ready;
static uint64_t samples[SAMPLES];
static unsigned decode_rounds;
static volatile uint64_t shown;

BENCH_NOINLINE static void frame_decode(uint64_t *random)
{
    for (unsigned k = 0; k < decode_rounds; k++) {
        for (unsigned i = 0; i < SAMPLES; i++) samples[i] = samples[i] * 31 + bench_random(random);
    }
}

BENCH_NOINLINE static void frame_await(unsigned number)
{
    while (atomic_load_explicit(&ready, memory_order_acquire) < number) { /* PLANTED */
        __builtin_ia32_pause();
    }
}

BENCH_NOINLINE static void frame_show(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < SAMPLES; i++) sum ^= samples[i];
    shown += sum;
}

static void *decoder(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    while (bench_running(&b)) {
        frame_decode(&random);
        atomic_fetch_add_explicit(&ready, 1, memory_order_release);
    }
    atomic_store(&ready, ~0u);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    bench_options(&b, argc, argv);
    decode_rounds = bench_between(&b.random, 40, 400);
    if (pthread_create(&thread, NULL, decoder, (void *)(uintptr_t)bench_random(&b.random))) {
        return 1;
    }
    for (unsigned number = 1; bench_running(&b); number++) {
        frame_await(number);
        frame_show();
    }
    pthread_join(thread, NULL);
    return 0;
}
