/* faults_weights.c - weights of a mixture of experts, mapped from a file that is not in the
 * page cache: each token needs some experts, whose pages are read from the disk by page faults.
 * What was read is evicted again, as on a machine with less memory than the model has. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

enum { INPUTS = 4096 };

static float input[INPUTS];

BENCH_NOINLINE static float expert_apply(const float *weights, size_t count)
{
    float sum = 0;
    /* PLANTED: pages are not there */
    for (size_t i = 0; i < count; i++) sum += weights[i] * input[i % INPUTS];
    return sum;
}

BENCH_NOINLINE static void expert_evict(int file, void *weights, size_t bytes, off_t at)
{
    madvise(weights, bytes, MADV_DONTNEED);
    posix_fadvise(file, at, (off_t)bytes, POSIX_FADV_DONTNEED);
}

int main(int argc, char **argv)
{
    struct bench b;
    struct stat status;
    bench_options(&b, argc, argv);
    if (!b.data) errno = EINVAL, bench_fail("--data FILE is needed");
    const size_t expert_bytes = (size_t)bench_between(&b.random, 1, 8) << 18;
    const int file = open(b.data, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status)) bench_fail(b.data);
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    unsigned char *map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) bench_fail("mmap");
    const uint64_t experts = (uint64_t)status.st_size / expert_bytes;
    for (unsigned i = 0; i < INPUTS; i++) input[i] = (float)bench_uniform(&b.random);
    float sum = 0;
    while (bench_running(&b)) {
        const size_t at = (size_t)(bench_random(&b.random) % experts) * expert_bytes;
        sum += expert_apply((const float *)(void *)(map + at), expert_bytes / sizeof(float));
        expert_evict(file, map + at, expert_bytes, (off_t)at);
    }
    return sum == 1;
}
