/* gpu_idle.c - an engine whose device is idle most of the time, since the host takes longer to
 * prepare a pass than the device to compute it. There is no GPU here: a thread that runs what
 * is launched stands in for one, and its operations are told to sonde as an engine would tell
 * those of cuda0. */
#include <pthread.h>

#include "bench.h"
#include "sonde/engine.h"
#include "sonde/inference.h"

static struct bench b;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int launched, stopping;
static unsigned kernel_us, prepare_us;
static struct sonde_device_op matmul;

static void *device_run(void *arg)
{
    pthread_mutex_lock(&lock);
    while (!stopping) {
        while (!launched && !stopping) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
        const uint64_t begin = bench_now_ns();
        bench_sleep_until(begin + kernel_us * 1000u); /* the host's CPU is not what computes */
        sonde_device_op_record(matmul, bench_now_ns() - begin);
        pthread_mutex_lock(&lock);
        launched = 0;
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return arg;
}

BENCH_NOINLINE static uint64_t batch_prepare(uint64_t random)
{
    /* PLANTED: the device waits for this */
    const uint64_t until = bench_now_ns() + prepare_us * 1000u;
    while (bench_now_ns() < until) {
        for (unsigned i = 0; i < 1000; i++) random = bench_random(&random);
    }
    return random;
}

static void batch_launch(void)
{
    pthread_mutex_lock(&lock);
    launched = 1;
    pthread_cond_broadcast(&changed);
    while (launched) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    bench_options(&b, argc, argv);
    kernel_us = bench_between(&b.random, 300, 1500);
    prepare_us = kernel_us * bench_between(&b.random, 5, 12);
    matmul = sonde_device_op("cuda0", "matmul");
    sonde_device_memory(sonde_device("cuda0"), 9ull << 30, 24ull << 30);
    const uint32_t model = sonde_name("stand-in"), route = sonde_name("/v1/completions");
    sonde_model_backend(model, "cuda");
    if (pthread_create(&thread, NULL, device_run, NULL)) return 1;
    uint64_t random = b.random;
    while (bench_running(&b)) {
        struct sonde_request request;
        sonde_request_begin(&request, &(struct sonde_request_info){
            .size = sizeof(struct sonde_request_info),
            .model = model, .route = route, .tokens_max = 16 });
        sonde_request_prompt(&request, 32, 0);
        for (unsigned token = 0; token < 16 && bench_running(&b); token++) {
            random = batch_prepare(random);
            struct sonde_batch batch;
            sonde_batch_begin(&batch);
            sonde_batch_add(&batch, &request, token ? 0 : 32, token > 0);
            batch_launch();
            sonde_batch_end(&batch);
            sonde_request_tokens(&request, 1);
        }
        sonde_request_end(&request, SONDE_OK, NULL);
    }
    pthread_mutex_lock(&lock);
    stopping = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
    return 0;
}
