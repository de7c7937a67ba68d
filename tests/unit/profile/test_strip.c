/* A profile without what names a person, a machine or a folder. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "profile/infer.h"
#include "profile/strip.h"

static struct sonde_profile *make(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    const struct sonde_profile_module module = {
        .path = sonde_profile_cstring(p, "/home/secret/bin/app"),
        .build_id = sonde_profile_cstring(p, "abcdef"),
        .open_path = sonde_profile_cstring(p, "/proc/1/root/home/secret/bin/app"),
        .start = 0x1000, .end = 0x2000,
    };
    const uint32_t m = sonde_profile_module(p, &module);
    const struct sonde_profile_function function = {
        .name = sonde_profile_cstring(p, "py::f:/home/secret/f.py"),
        .file = sonde_profile_cstring(p, "/home/secret/src/f.c"), .module = m,
    };
    const struct sonde_profile_line line = { sonde_profile_function(p, &function), 3 };
    const uint32_t location = sonde_profile_location(p, m, 0x1500);
    assert_int_equal(sonde_profile_set_lines(p, location, &line, 1), 0);
    const uint32_t thread = sonde_profile_thread(p, 1, 1, "worker");
    const struct sonde_profile_sample sample = { .weight = 1, .count = 1, .thread = thread,
        .stack = sonde_profile_stack(p, 0, location) };
    assert_int_equal(sonde_profile_add_sample(p, &sample), 0);
    const struct sonde_profile_span span = { .name = sonde_profile_cstring(p, "/v1/chat"),
        .thread = thread, .start_ns = 1, .end_ns = 2 };
    assert_int_equal(sonde_profile_add_span(p, &span), 0);
    const char *const said[][2] = { { "file", "/home/secret/rows" }, { "user", "secret" },
                                    { "route", "/v1/train" } };
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        const struct sonde_profile_attr attr = { .key = sonde_profile_cstring(p, said[i][0]),
            .type = SONDE_PROFILE_ATTR_TEXT, .text = sonde_profile_cstring(p, said[i][1]) };
        assert_int_equal(sonde_profile_add_attr(p, &attr), 0);
    }
    p->program = sonde_profile_cstring(p, "app");
    p->command = sonde_profile_cstring(p, "/home/secret/bin/app --password secret");
    p->host = sonde_profile_cstring(p, "secret-host, Linux 6.1 x86_64, 2 CPUs");
    p->engine = sonde_profile_cstring(p, "perf");
    sonde_profile_cstring(p, "an older command with a secret"); /* nobody refers to it */
    struct sonde_infer_attr attrs[] = { { "file", "/home/secret/data" }, { "user", "secret" } };
    const struct sonde_infer_request request = {
        .id = 1, .program = "app", .model = "/models/secret/llama.gguf", .route = "/v1/chat",
        .backend = "cpu", .error = "", .invalid = "", .attrs = attrs, .attr_count = 2,
        .arrived_ns = 1, .total_s = 1,
    };
    assert_int_equal(sonde_infer_run_add(p, &request), 0);
    return p;
}

static void check(const struct sonde_profile *p)
{
    for (uint32_t i = 1; i < p->strings_count; i++) {
        if (strstr(p->strings[i], "secret")) fail_msg("\"%s\" is still there", p->strings[i]);
        assert_true(p->strings[i][0]); /* files have no empty texts */
    }
    const struct sonde_profile_function *f = &p->functions[1];
    assert_string_equal(sonde_profile_str(p, p->modules[1].path), "app");
    assert_string_equal(sonde_profile_str(p, p->modules[1].build_id), "abcdef");
    assert_int_equal(p->modules[1].open_path, 0);
    assert_string_equal(sonde_profile_str(p, f->name), "py::f:f.py");
    assert_string_equal(sonde_profile_str(p, f->file), "f.c");
    assert_string_equal(sonde_profile_str(p, p->threads[1].name), "worker");
    assert_string_equal(sonde_profile_str(p, p->spans[0].name), "/v1/chat");
    assert_string_equal(sonde_profile_str(p, p->attrs[0].text), "rows");
    assert_string_equal(sonde_profile_str(p, p->attrs[1].text), "");
    assert_string_equal(sonde_profile_str(p, p->attrs[1].key), "user");
    assert_string_equal(sonde_profile_str(p, p->attrs[2].text), "/v1/train");
    assert_string_equal(sonde_profile_str(p, p->program), "app");
    assert_string_equal(sonde_profile_str(p, p->command), "");
    assert_string_equal(sonde_profile_str(p, p->host), "Linux 6.1 x86_64, 2 CPUs");
    assert_string_equal(sonde_profile_str(p, p->engine), "perf");
    const struct sonde_infer_request *r = &p->infer->requests[0];
    assert_string_equal(r->model, "llama.gguf");
    assert_string_equal(r->route, "/v1/chat");
    assert_string_equal(r->attrs[0].value, "data");
    assert_string_equal(r->attrs[1].value, "-");
}

static void all_of_it_is_stripped(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    assert_int_equal(sonde_profile_strip(p), 0);
    check(p);
    assert_int_equal(sonde_profile_strip(p), 0); /* again: nothing changes */
    check(p);
    sonde_profile_destroy(p);
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_profile_strip(p), 0);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_of_it_is_stripped) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
