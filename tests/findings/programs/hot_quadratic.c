/* hot_quadratic.c - counts the distinct users of an event log, and looks for each in a list of
 * those that it has seen: work grows with the square of the users. */
#include "bench.h"

struct user { char name[24]; unsigned events; };

static struct user *users;
static size_t users_count, users_max;

BENCH_NOINLINE static struct user *user_find(const char *name)
{
    for (size_t i = 0; i < users_count; i++) { /* PLANTED: a list, not a hash table */
        const char *known = users[i].name;
        size_t k = 0;
        while (known[k] && known[k] == name[k]) k++;
        if (known[k] == name[k]) return &users[i];
    }
    return NULL;
}

BENCH_NOINLINE static void event_read(char *name, size_t size, uint64_t *random)
{
    snprintf(name, size, "user-%06u", bench_between(random, 0, (unsigned)users_max * 2));
}

BENCH_NOINLINE static void event_count(const char *name)
{
    struct user *u = user_find(name);
    if (!u && users_count < users_max) {
        u = &users[users_count++];
        snprintf(u->name, sizeof(u->name), "%s", name);
        u->events = 0;
    }
    if (u) u->events++;
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    users_max = bench_between(&b.random, 3000, 20000);
    users = bench_alloc(users_max * sizeof(*users));
    char name[24];
    while (bench_running(&b)) {
        event_read(name, sizeof(name), &b.random);
        event_count(name);
    }
    free(users);
    return 0;
}
