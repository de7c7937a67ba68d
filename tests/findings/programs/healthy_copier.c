/* healthy_copier.c - copies a file at a rate that the disk does without trouble. */
#include <fcntl.h>
#include <unistd.h>

#include "bench.h"

enum { BLOCK = 1 << 18 };

static char block[BLOCK];

int main(int argc, char **argv)
{
    struct bench b;
    char path[4096];
    bench_options(&b, argc, argv);
    if (!b.data) errno = EINVAL, bench_fail("--data FILE is needed");
    snprintf(path, sizeof(path), "%s/copy", b.dir);
    const int from = open(b.data, O_RDONLY | O_CLOEXEC),
        to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (from < 0 || to < 0) bench_fail(path);
    const double per_s = bench_between(&b.random, 8, 24) * 1e6;
    double bytes = 0;
    while (bench_running(&b)) {
        const ssize_t n = read(from, block, BLOCK);
        if (n < 0 || write(to, block, (size_t)n) != n) bench_fail("copy");
        if (!n && (lseek(from, 0, SEEK_SET) || lseek(to, 0, SEEK_SET))) bench_fail("lseek");
        bytes += (double)n;
        bench_sleep_until(b.begin_ns + (uint64_t)(bytes / per_s * 1e9));
    }
    return 0;
}
