/* leak_error.c - parses documents into trees that are freed again; of those that turn out to be
 * wrong the text is not freed: a leak in a rare path under a lot of other allocation. */
#include "bench.h"

struct element { struct element *next; char text[48]; };

static unsigned wrong_percent;

BENCH_NOINLINE static char *document_read(size_t bytes, uint64_t *random)
{
    /* PLANTED: whose text it is; bench_alloc is as xmalloc elsewhere */
    char *text = bench_alloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++) {
        text[i] = (char)('a' + (i * 7 + bench_between(random, 0, 3)) % 26);
    }
    text[bytes] = 0;
    return text;
}

BENCH_NOINLINE static struct element *document_parse(const char *text, size_t bytes)
{
    struct element *all = NULL;
    for (size_t i = 0; i + 64 <= bytes; i += 64) {
        struct element *e = bench_alloc(sizeof(*e));
        memcpy(e->text, text + i, sizeof(e->text));
        e->next = all;
        all = e;
    }
    return all;
}

BENCH_NOINLINE static void elements_free(struct element *e)
{
    while (e) {
        struct element *next = e->next;
        free(e);
        e = next;
    }
}

BENCH_NOINLINE static int document_serve(size_t bytes, uint64_t *random)
{
    char *text = document_read(bytes, random); /* PLANTED: not freed where it returns early */
    struct element *tree = document_parse(text, bytes);
    elements_free(tree);
    if (bench_between(random, 1, 100) <= wrong_percent) return -1;
    free(text);
    return 0;
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    const unsigned bytes = bench_between(&b.random, 8000, 40000);
    wrong_percent = bench_between(&b.random, 10, 30);
    const double leaked_per_s = bench_between(&b.random, 6, 16) * 1e6;
    const uint64_t period_ns = (uint64_t)(1e9 * bytes * wrong_percent / 100 / leaked_per_s);
    for (uint64_t at = b.begin_ns; bench_running(&b); at += period_ns) {
        document_serve(bytes, &b.random);
        if (at > bench_now_ns() + 1000000) bench_sleep_until(at);
    }
    return 0;
}
