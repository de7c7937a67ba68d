/* io_read.c - a database without a cache: reads pages of a large file at random, past the page
 * cache. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

static unsigned char *page;
static size_t page_bytes;

BENCH_NOINLINE static void page_load(int file, uint64_t number)
{
    const off_t at = (off_t)(number * page_bytes);
    if (pread(file, page, page_bytes, at) != (ssize_t)page_bytes) bench_fail("pread"); /* PLANTED */
}

BENCH_NOINLINE static uint64_t page_search(uint64_t key)
{
    uint64_t found = 0;
    for (size_t i = 0; i + 8 <= page_bytes; i += 64) found += page[i] == (key & 255);
    return found;
}

int main(int argc, char **argv)
{
    struct bench b;
    struct stat status;
    bench_options(&b, argc, argv);
    if (!b.data) errno = EINVAL, bench_fail("--data FILE is needed");
    page_bytes = 4096u << bench_between(&b.random, 0, 4);
    if (posix_memalign((void **)&page, 4096, page_bytes)) bench_fail("posix_memalign");
    const int file = open(b.data, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (file < 0 || fstat(file, &status)) bench_fail(b.data);
    const uint64_t pages = (uint64_t)status.st_size / page_bytes;
    uint64_t found = 0;
    while (bench_running(&b)) {
        const uint64_t key = bench_random(&b.random);
        page_load(file, key % pages);
        found += page_search(key);
    }
    return found == 1;
}
