/* Which programs run Python, by their names and first lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "collect/python/program.h"

static const struct {
    const char *name, *text;
    int python;
} rows[] = {
    { "python3", "\x7f" "ELF", 1 },
    { "python3.11", "#!/bin/bash\n", 1 }, /* a shim */
    { "python", "", 1 },
    { "pytho", "", 0 },
    { "train", "#!/usr/bin/python3\nimport sys\n", 1 },
    { "train", "#! /usr/bin/python3.11 -u\n", 1 },
    { "train", "#!/usr/bin/env python3\n", 1 },
    { "train", "#!/usr/bin/env -S FOO=1 python3 -X dev\n", 1 },
    { "train", "#!python3", 1 },
    { "start.sh", "#!/bin/sh\nexec python3 train.py\n", 0 },
    { "start", "#!/usr/bin/env bash\n", 0 },
    { "start", "#!/usr/bin/env", 0 },
    { "start", "#!", 0 },
    { "start", "#", 0 },
    { "start", "", 0 },
    { "server", "\x7f" "ELF python3", 0 },
};

static void by_name_and_first_line(void **state)
{
    char dir[] = "/tmp/sonde-test-XXXXXX", path[128];
    (void)state;
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < SONDE_COUNT(rows); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, rows[i].name);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(rows[i].text, f);
        fclose(f);
        if (sonde_python_program(path) != rows[i].python) {
            fail_msg("row %zu: %s", i, rows[i].text);
        }
        unlink(path);
    }
    assert_int_equal(sonde_python_program("/nowhere/train"), 0);
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(by_name_and_first_line) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
