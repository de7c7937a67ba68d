/* io_fsync.c - a queue that syncs every message to the disk before it accepts the next. */
#include <fcntl.h>
#include <unistd.h>

#include "bench.h"

enum { MESSAGE_MAX = 16384 };

static char message[MESSAGE_MAX];

BENCH_NOINLINE static void message_make(size_t bytes, uint64_t *random)
{
    for (size_t i = 0; i < bytes; i++) message[i] = (char)bench_random(random);
}

BENCH_NOINLINE static void message_keep(int file, size_t bytes)
{
    if (write(file, message, bytes) != (ssize_t)bytes) bench_fail("write");
    if (fsync(file)) bench_fail("fsync"); /* PLANTED: once per message */
}

int main(int argc, char **argv)
{
    struct bench b;
    char path[4096];
    bench_options(&b, argc, argv);
    snprintf(path, sizeof(path), "%s/queue.log", b.dir);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0) bench_fail(path);
    const unsigned most = bench_between(&b.random, 512, MESSAGE_MAX);
    while (bench_running(&b)) {
        const size_t bytes = bench_between(&b.random, 64, most);
        message_make(bytes, &b.random);
        message_keep(file, bytes);
    }
    return 0;
}
