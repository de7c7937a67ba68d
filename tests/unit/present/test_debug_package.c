/* Which package has a file, as lists of dpkg say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "present/debug_package.h"
#include "sonde/sonde.h"

static char dir[] = "/tmp/sonde-debug-package-XXXXXX";

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void packages(void **state)
{
    static const struct { const char *path, *package; } cases[] = {
        { "/usr/lib/libx.so.1.2", "libx1-dbgsym" },
        { "/usr/lib/libc.so.6", "libc6-dbg" },      /* listed as /lib/libc.so.6 */
        { "/usr/bin/tool", "tool-dbgsym" },         /* last line, without its end */
        { "/usr/lib/libx.so.1", NULL },             /* the beginning of another */
        { "/usr/lib", "libx1-dbgsym" },
        { "/opt/none", NULL },
        { "[vdso]", NULL },
        { "", NULL },
    };
    char out[SONDE_DEBUG_PACKAGE_MAX], command[128];
    (void)state;
    assert_non_null(mkdtemp(dir));
    put("libx1:amd64.list", "/.\n/usr\n/usr/lib\n/usr/lib/libx.so.1.2\n");
    put("libc6:amd64.list", "/lib/libc.so.6\n");
    put("tool.list", "/usr/bin/tool");
    put("tool.md5sums", "/opt/none\n");
    put(".list", "/opt/none\n");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int rc = sonde_debug_package(dir, cases[i].path, out);
        assert_int_equal(rc, cases[i].package ? 0 : SONDE_ENOENT);
        if (cases[i].package) assert_string_equal(out, cases[i].package);
    }
    assert_int_equal(sonde_debug_package("/nonexistent", "/usr/bin/tool", out), SONDE_ENOENT);
    snprintf(command, sizeof(command), "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(packages) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
