/* hot_recursive.c - filters file names by patterns with stars, by a matcher that backtracks: on
 * a*a*a*b it tries every way to cut the name. */
#include "bench.h"

enum { NAMES = 256, LENGTH_MAX = 40 };

static char names[NAMES][LENGTH_MAX + 1], pattern[32];

BENCH_NOINLINE static int glob_match(const char *p, const char *s)
{
    if (!*p) return !*s; /* PLANTED: exponential in the number of stars */
    if (*p == '*') {
        for (;; s++) {
            if (glob_match(p + 1, s)) return 1;
            if (!*s) return 0;
        }
    }
    return *s && (*p == '?' || *p == *s) && glob_match(p + 1, s + 1);
}

BENCH_NOINLINE static void name_make(char *name, uint64_t *random)
{
    const unsigned length = bench_between(random, LENGTH_MAX / 2, LENGTH_MAX);
    for (unsigned i = 0; i < length; i++) name[i] = bench_between(random, 0, 9) ? 'a' : 'c';
    name[length] = 0;
}

BENCH_NOINLINE static unsigned names_filter(void)
{
    unsigned matched = 0;
    for (unsigned i = 0; i < NAMES; i++) matched += (unsigned)glob_match(pattern, names[i]);
    return matched;
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    const unsigned stars = bench_between(&b.random, 3, 4);
    for (unsigned i = 0; i < stars; i++) strcat(pattern, "a*");
    strcat(pattern, "b");
    unsigned matched = 0;
    while (bench_running(&b)) {
        for (unsigned i = 0; i < NAMES; i++) name_make(names[i], &b.random);
        matched += names_filter();
    }
    return matched == 1;
}
