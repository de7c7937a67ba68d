/* Label values that never end: capped, counted, and the total is exact. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "unit/record/child.h"
#include "unit/record/readback.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define VALUES 100000u
#else
#define VALUES 1000000u
#endif
#define THREADS 4u

static struct sonde_family family;

static void define_family(uint32_t series_max)
{
    const struct sonde_metric m = { .size = sizeof(m),
                                    .name = "many_total",
                                    .labels = (const char *const[]){ "user", "path", NULL },
                                    .series_max = series_max };
    NEED(!sonde_define(SONDE_COUNTER, &m, &family));
}

static uint64_t family_total(uint64_t *overflow, uint32_t *series)
{
    uint64_t total = 0;
    *overflow = *series = 0;
    for (uint32_t id = 1; id < sonde__g.h->series_count; id++) {
        const struct sonde__series *s = sonde__series_at(id);
        if (s->family != family.id) continue;
        const uint64_t n = readback_counter((struct sonde_counter){ 8ull * id });
        total += n;
        if (s->flags & SONDE__SERIES_OVERFLOW) *overflow = n;
        else ++*series;
    }
    return total;
}

static void *many(void *arg)
{
    const unsigned first = *(const unsigned *)arg;
    char user[32];
    for (unsigned i = 0; i < VALUES / THREADS; i++) {
        snprintf(user, sizeof(user), "user-%u", first + i);
        sonde_counter_add(sonde_counter_bind(family, (const char *const[]){ user, "/" }), 1);
    }
    return NULL;
}

static void many_in_threads(void)
{
    pthread_t t[THREADS];
    unsigned first[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        first[i] = i * (VALUES / THREADS);
        NEED(!pthread_create(&t[i], NULL, many, &first[i]));
    }
    for (unsigned i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
}

CHILD_TEST(a_million_values_are_capped)
{
    uint64_t overflow;
    uint32_t series;
    define_family(0);
    many_in_threads();
    NEED_EQ(family_total(&overflow, &series), VALUES);
    NEED_EQ(series, 2000);
    NEED_EQ(overflow, VALUES - 2000);
    NEED_EQ(sonde__family_at(family.id)->overflowed, VALUES - 2000);
    for (int i = 0; i < SONDE__DROP_COUNT; i++) NEED_EQ(sonde__g.h->drops[i], 0);
    NEED(sonde__g.h->populated_bytes < 4u << 20);

    /* Those that have a series keep it. */
    for (uint32_t id = 1; id < sonde__g.h->series_count; id++) {
        const struct sonde__series *s = sonde__series_at(id);
        if (s->family != family.id || s->flags & SONDE__SERIES_OVERFLOW) continue;
        char user[64] = "";
        uint16_t len;
        memcpy(&len, sonde__str_at(s->values), sizeof(len));
        memcpy(user, sonde__str_at(s->values) + 2, len);
        NEED_EQ(sonde_counter_bind(family, (const char *const[]){ user, "/" }).off, 8ull * id);
    }
}

/* A family without a cap to speak of fills the table of series; others can still count. */
CHILD_TEST(the_table_is_full)
{
    const struct sonde_config c = { .size = sizeof(c), .series_max = 5000 };
    uint64_t overflow;
    uint32_t series;
    NEED(!sonde_open(&c));
    const struct sonde_counter before = sonde_counter("before_total", "x");
    define_family(10 * VALUES);
    many_in_threads();
    sonde_counter_add(before, 7);
    NEED_EQ(readback_counter(before), 7);
    NEED_EQ(sonde__g.h->series_count, 5000);
    const uint64_t kept = family_total(&overflow, &series);
    NEED_EQ(kept, 4998);
    NEED_EQ(series, 4998);
    NEED_EQ(sonde__g.h->drops[SONDE__DROP_series_table], VALUES - kept);
    NEED_EQ(readback_counter((struct sonde_counter){ 0 }), VALUES - kept); /* the sink */
}

/* Names of spans made up at run time. */
CHILD_TEST(the_table_of_names_is_full)
{
    char name[32];
    uint32_t refused = 0;
    const struct sonde_counter before = sonde_counter("before_total", "x");
    for (unsigned i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "span %u", i);
        struct sonde_span s;
        const uint32_t id = sonde_name(name);
        refused += id == 0;
        sonde_span_begin(&s, id);
        sonde_span_end(&s, SONDE_OK);
    }
    NEED_EQ(refused, 20000 - (sonde__g.h->family_max - 2));
    NEED_EQ(sonde__g.h->drops[SONDE__DROP_family_table], refused);
    NEED_EQ(sonde_counter("too_late_total", "x").off, 0);
    sonde_counter_add(before, 1);
    NEED_EQ(readback_counter(before), 1);
    NEED_EQ(sonde_name("span 5"), sonde_name("span 5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_million_values_are_capped),
        cmocka_unit_test(the_table_is_full),
        cmocka_unit_test(the_table_of_names_is_full),
    };
    readback_private_dir();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
