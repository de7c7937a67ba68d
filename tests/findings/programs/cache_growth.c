/* cache_growth.c - a cache of rendered pages without a limit: it grows with every page that is
 * asked for the first time, ever more slowly, as there are only so many pages. */
#include "bench.h"

struct page { char *text; };

static struct page *pages;
static unsigned pages_count, page_bytes;

BENCH_NOINLINE static char *page_render(unsigned number)
{
    char *text = malloc(page_bytes); /* PLANTED: kept for ever */
    if (!text) bench_fail("malloc");
    memset(text, 'a' + (int)(number % 26), page_bytes);
    return text;
}

BENCH_NOINLINE static const char *page_get(unsigned number)
{
    if (!pages[number].text) pages[number].text = page_render(number);
    return pages[number].text;
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    pages_count = bench_between(&b.random, 8000, 30000);
    page_bytes = bench_between(&b.random, 2000, 6000);
    pages = calloc(pages_count, sizeof(*pages));
    if (!pages) bench_fail("calloc");
    /* As many requests per second as there are pages, or somewhat fewer: after three seconds 80 to
     * 95 % of the pages have been asked for. */
    const double per_s = pages_count * (0.6 + 0.4 * bench_uniform(&b.random));
    volatile unsigned sum = 0;
    for (uint64_t n = 0; bench_running(&b); n++) {
        const char *text = page_get(bench_between(&b.random, 0, pages_count - 1));
        for (unsigned i = 0; i < page_bytes; i += 64) sum += (unsigned)text[i];
        const uint64_t at = b.begin_ns + (uint64_t)((double)n * 1e9 / per_s);
        if (at > bench_now_ns() + 2000000) bench_sleep_until(at);
    }
    return 0;
}
