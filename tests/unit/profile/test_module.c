/* Modules in texts: to rows of a profile and back, and copies that outlive their source. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "profile/module.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct sonde_module cases[] = {
    { .path = "/lib/libm.so.6", .build_id = "abcd", .open_path = "/proc/7/root/lib/libm.so.6",
      .start = 0x10000, .end = 0x20000, .offset = 0x1000, .flags = SONDE_MODULE_DELETED, .pid = 7 },
    { .path = "[vdso]", .build_id = "", .open_path = "", .start = 1, .end = 2,
      .flags = SONDE_MODULE_VDSO },
    { .path = "[kernel]", .build_id = "", .open_path = "", .flags = SONDE_MODULE_KERNEL },
};

static void assert_same(const struct sonde_module *a, const struct sonde_module *b)
{
    assert_string_equal(a->path, b->path);
    assert_string_equal(a->build_id, b->build_id);
    assert_string_equal(a->open_path, b->open_path);
    assert_int_equal(a->start, b->start);
    assert_int_equal(a->end, b->end);
    assert_int_equal(a->offset, b->offset);
    assert_int_equal(a->flags, b->flags);
}

static void rows_and_back(void **state)
{
    (void)state;
    struct sonde_profile *p;
    uint32_t rows[COUNT(cases)];
    assert_int_equal(sonde_profile_create(0, &p), 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        rows[i] = sonde_profile_add_module(p, &cases[i]);
        assert_int_equal(rows[i], i + 1); /* row 0 is none */
    }
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(sonde_profile_add_module(p, &cases[i]), rows[i]);
        const struct sonde_module m = sonde_profile_get_module(p, rows[i]);
        assert_same(&m, &cases[i]);
        assert_int_equal(m.pid, 0);
        /* A text that is not there is string 0, as files of runs have it. */
        assert_int_equal(p->modules[rows[i]].build_id == 0, !cases[i].build_id[0]);
        assert_int_equal(p->modules[rows[i]].open_path == 0, !cases[i].open_path[0]);
    }
    sonde_profile_destroy(p);
}

static void copies_have_texts_of_their_own(void **state)
{
    (void)state;
    char path[] = "/bin/x";
    const struct sonde_module from = { .path = path, .build_id = "ef", .open_path = "/o",
                                       .pid = 3 };
    struct sonde_module copy = { 0 };
    const int64_t live = sonde__alloc_live();
    sonde__alloc_fail_nth(1);
    assert_int_equal(sonde_module_copy(&from, &copy), SONDE_ENOMEM);
    sonde__alloc_fail_nth(0);
    assert_null(copy.path);
    assert_int_equal(sonde_module_copy(&from, &copy), 0);
    path[1] = '?';
    assert_string_equal(copy.path, "/bin/x");
    assert_string_equal(copy.build_id, "ef");
    assert_string_equal(copy.open_path, "/o");
    assert_int_equal(copy.pid, 3);
    sonde_module_release(&copy);
    assert_int_equal(sonde__alloc_live(), live);
    sonde_module_release(&copy); /* nothing is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_back),
        cmocka_unit_test(copies_have_texts_of_their_own),
    };
    return cmocka_run_group_tests_name("module", tests, NULL, NULL);
}
