/* Facts of a run: read off a profile, stripped ones too, and what differs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/run_facts.h"
#include "base/array.h"

static const struct {
    const char *host, *command, *name, *kernel, *cpu, *arguments;
} cases[] = {
    { "box, Linux 6.1 x86_64, 2 CPUs (AMD EPYC)", "/a/b/server -p 80", "box", "Linux 6.1 x86_64",
      "2 CPUs (AMD EPYC)", "-p 80" },
    { "Linux 6.1 x86_64, 2 CPUs", "server", "", "Linux 6.1 x86_64", "2 CPUs", "(none)" },
    { "", "", "", "", "", "" },
    { "box", "x", "", "", "", "(none)" },
};

static struct sonde_profile *facts_profile(const char *host, const char *command)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    p->host = sonde_profile_cstring(p, host);
    p->command = sonde_profile_cstring(p, command);
    p->program = sonde_profile_cstring(p, "server");
    p->engine = sonde_profile_cstring(p, "perf");
    sonde_profile_module(p, &(struct sonde_profile_module){
        .path = sonde_profile_cstring(p, "/lib/libc.so.6"),
        .build_id = sonde_profile_cstring(p, "11") });
    sonde_profile_module(p, &(struct sonde_profile_module){
        .path = sonde_profile_cstring(p, "/a/b/server"),
        .build_id = sonde_profile_cstring(p, "22") });
    return p;
}

static void test_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        struct sonde_profile *p = facts_profile(cases[i].host, cases[i].command);
        struct sonde_run_facts f;
        sonde_run_facts_of(p, &f);
        assert_string_equal(f.text[SONDE_FACT_HOST], cases[i].name);
        assert_string_equal(f.text[SONDE_FACT_KERNEL], cases[i].kernel);
        assert_string_equal(f.text[SONDE_FACT_CPU], cases[i].cpu);
        assert_string_equal(f.text[SONDE_FACT_ARGUMENTS], cases[i].arguments);
        assert_string_equal(f.text[SONDE_FACT_BUILD_ID], "22");
        assert_string_equal(f.text[SONDE_FACT_MODEL], "");
        sonde_profile_destroy(p);
    }
}

static void test_differs(void **state)
{
    (void)state;
    struct sonde_profile *p = facts_profile(cases[0].host, cases[0].command);
    struct sonde_profile *q = facts_profile(cases[1].host, cases[1].command);
    struct sonde_run_facts a, b;
    sonde_run_facts_of(p, &a);
    sonde_run_facts_of(q, &b);
    assert_false(sonde_run_fact_differs(&a, &b, SONDE_FACT_HOST)); /* not known of one */
    assert_false(sonde_run_fact_differs(&a, &b, SONDE_FACT_KERNEL));
    assert_true(sonde_run_fact_differs(&a, &b, SONDE_FACT_CPU));
    assert_true(sonde_run_fact_differs(&a, &b, SONDE_FACT_ARGUMENTS));
    assert_false(sonde_run_fact_suspect(SONDE_FACT_BUILD_ID)); /* that is what is compared */
    assert_true(sonde_run_fact_suspect(SONDE_FACT_CPU));
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_read),
                                        cmocka_unit_test(test_differs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
