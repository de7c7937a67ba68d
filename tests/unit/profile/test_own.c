/* Frames of libsonde_preload: left out in the middle of a stack, one frame where the time is. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "profile/own.h"
#include "sonde/sonde.h"

static uint32_t location_of(struct sonde_profile *p, const char *module, const char *function)
{
    char path[80];
    snprintf(path, sizeof(path), "/lib/%s", module);
    const struct sonde_profile_module m = { .path = sonde_profile_cstring(p, path) };
    const struct sonde_profile_function f = { .name = sonde_profile_cstring(p, function),
                                              .module = sonde_profile_module(p, &m) };
    const struct sonde_profile_line line = { .function = sonde_profile_function(p, &f) };
    return sonde_profile_lines_location(p, f.module, 0, &line, 1);
}

/* "module:function", the outermost first. */
static uint32_t stack_of(struct sonde_profile *p, const char *const *frames)
{
    uint32_t stack = 0;
    for (; *frames; frames++) {
        char module[64];
        const char *colon = strchr(*frames, ':');
        snprintf(module, sizeof(module), "%.*s", (int)(colon - *frames), *frames);
        stack = sonde_profile_stack(p, stack, location_of(p, module, colon + 1));
    }
    return stack;
}

static void text_of(const struct sonde_profile *p, uint32_t stack, char *out, size_t size)
{
    uint32_t chain[16], n = 0;
    size_t len = 0;
    for (; stack; stack = p->stacks[stack].parent) chain[n++] = stack;
    out[0] = '\0';
    while (n--) {
        const struct sonde_profile_location *l = &p->locations[p->stacks[chain[n]].location];
        const uint32_t name = p->functions[p->lines[l->line].function].name;
        len += (size_t)snprintf(out + len, size - len, "%s%s", len ? ";" : "",
                                sonde_profile_str(p, name));
    }
}

#define OWN "libsonde_preload.so:"

static const struct {
    const char *name;
    const char *frames[8];
    const char *wanted;
} cases[] = {
    { "nothing of ours", { "app:main", "libc.so.6:malloc" }, "main;malloc" },
    { "the leaf", { "app:main", OWN "free" }, "main;[sonde]" },
    { "between", { "app:main", OWN "slow_malloc", "libc.so.6:malloc" }, "main;malloc" },
    { "our own work", { "app:main", OWN "slow_malloc", OWN "sonde__heap_sampled_alloc",
                        OWN "sonde__walk" }, "main;[sonde]" },
    { "in libc for us", { "app:main", OWN "slow_malloc", OWN "sonde__heap_sampled_alloc",
                          "libc.so.6:memcpy" }, "main;[sonde]" },
    { "a thread's start", { "libc.so.6:clone", OWN "sonde__thread_run", "app:worker",
                            "libc.so.6:read" }, "clone;worker;read" },
    { "both", { "libc.so.6:clone", OWN "run_posix", "app:worker", OWN "free" },
      "clone;worker;[sonde]" },
    { "nothing else", { OWN "sonde__start" }, "[sonde]" },
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static struct sonde_profile *make(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    for (size_t i = 0; i < CASES; i++) {
        const struct sonde_profile_sample s = { .weight = 1 + i, .count = 1,
                                                .stack = stack_of(p, cases[i].frames) };
        assert_int_equal(sonde_profile_add_sample(p, &s), 0);
    }
    return p;
}

static void test_fold(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    for (int again = 0; again < 2; again++) {
        assert_int_equal(sonde_profile_fold_own(p), 0);
        for (uint32_t i = 0; i < CASES; i++) {
            char text[256];
            text_of(p, p->samples[i].stack, text, sizeof(text));
            assert_string_equal(text, cases[i].wanted);
            assert_int_equal(p->samples[i].weight, 1 + i);
        }
    }
    sonde_profile_destroy(p);
}

static void test_memory_is_left_alone(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    p->samples[1].kind = SONDE_SAMPLE_ALLOC;
    assert_int_equal(sonde_profile_fold_own(p), 0);
    char text[256];
    text_of(p, p->samples[1].stack, text, sizeof(text));
    assert_string_equal(text, "main;free");
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_memory_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
