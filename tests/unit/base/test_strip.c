/* Paths taken out of text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/strip.h"

static void check(void (*strip)(char *), const char *text, const char *wanted)
{
    char buffer[256];
    strcpy(buffer, text);
    strip(buffer);
    assert_string_equal(buffer, wanted);
    strip(buffer); /* nothing more the second time */
    assert_string_equal(buffer, wanted);
}

static void whole_paths(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "/a/b/c.so", "c.so" }, { "a/b.c", "b.c" }, { "../x/y", "y" }, { "/a/b/", "b" },
        { "/a b/c d", "c d" }, { "plain", "plain" }, { "", "" }, { "/", "/" }, { "//", "/" },
        { "[vdso]", "[vdso]" }, { "/x/libc.so.6 (deleted)", "libc.so.6 (deleted)" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check(sonde_strip_path, cases[i][0], cases[i][1]);
    }
}

static void models(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "/models/tiny.Q4.gguf", "tiny.Q4" }, { "tiny.gguf", "tiny" }, { "a/b.GGUF", "b" },
        { "meta-llama/Llama-3", "meta-llama/Llama-3" }, { ".gguf", ".gguf" }, { "", "" },
        { "/x/.gguf", "/x/.gguf" }, { "gpt-4", "gpt-4" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check(sonde_strip_gguf, cases[i][0], cases[i][1]);
    }
}

static void paths_in_text(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "/home/bob/x.c", "x.c" },
        { "at /home/bob/x.c:12", "at x.c:12" },
        { "py::main:/home/bob/app.py", "py::main:app.py" },
        { "{lambda at /src/a.cpp:3:5}", "{lambda at a.cpp:3:5}" },
        { "cannot open '/a/b', nor ~/c/d or ./e/f", "cannot open 'b', nor d or f" },
        { "f(\"/x/y\")=/z/w", "f(\"y\")=w" },
        /* What is no path. */
        { "operator/(A, B)", "operator/(A, B)" },
        { "text/html", "text/html" },
        { "github.com/x/y.F", "github.com/x/y.F" },
        { "12 / 3", "12 / 3" },
        { "http://a/b", "http://a/b" },
        { "", "" },
        { "/", "/" },
        { "/a/", "a/" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        check(sonde_strip_paths, cases[i][0], cases[i][1]);
    }
}

static void names_of_labels(void **state)
{
    (void)state;
    assert_int_equal(sonde_strip_kind("route"), SONDE_STRIP_KEEP);
    assert_int_equal(sonde_strip_kind("cmdline"), SONDE_STRIP_GONE);
    assert_int_equal(sonde_strip_kind("host"), SONDE_STRIP_GONE);
    assert_int_equal(sonde_strip_kind("mountpoint"), SONDE_STRIP_PATHS);
    assert_int_equal(sonde_strip_on(), 0);
    sonde_strip_set(1);
    assert_int_equal(sonde_strip_on(), 1);
    sonde_strip_set(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_paths), cmocka_unit_test(models),
        cmocka_unit_test(paths_in_text),
        cmocka_unit_test(names_of_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
