#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/utf8.h"
#include "sonde/sonde.h"

static char dir[] = "/tmp/sonde-test-log-XXXXXX";
static char path[64];
static char text[1 << 20];

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof(path), "%s/log", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sonde_log_open(SONDE_LOG_WARN, NULL);
    unlink(path);
    return rmdir(dir);
}

static size_t read_log(void)
{
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[n] = 0;
    return n;
}

static void test_lines_and_levels(void **state)
{
    (void)state;
    assert_int_equal(sonde_log_open(SONDE_LOG_INFO, path), 0);
    sonde_log(SONDE_LOG_ERROR, "first %d", 1);
    sonde_log(SONDE_LOG_INFO, "second");
    sonde_log(SONDE_LOG_DEBUG, "not this one");
    read_log();
    regex_t re;
    assert_int_equal(
        regcomp(&re,
                "^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z error first 1\n"
                "20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{3}Z info  second\n$",
                REG_EXTENDED),
        0);
    assert_int_equal(regexec(&re, text, 0, NULL, 0), 0);
    regfree(&re);
}

/* Whatever is quoted, an event is one line of UTF-8; and errno survives. */
static void test_hostile_text(void **state)
{
    (void)state;
    char big[5000];
    memset(big, 'b', sizeof(big) - 1);
    big[sizeof(big) - 1] = 0;
    unlink(path);
    assert_int_equal(sonde_log_open(SONDE_LOG_DEBUG, path), 0);
    errno = 1234;
    sonde_log(SONDE_LOG_DEBUG, "a\nfake line \033[2J \xff");
    sonde_log(SONDE_LOG_DEBUG, "%s", big);
    assert_int_equal(errno, 1234);
    const size_t n = read_log();
    assert_true(sonde__utf8_valid(text, n));
    size_t lines = 0;
    for (size_t i = 0; i < n; i++) {
        lines += text[i] == '\n';
        assert_true(text[i] == '\n' || (unsigned char)text[i] >= 0x20);
    }
    assert_int_equal(lines, 2);
    assert_non_null(strstr(text, "debug a fake line ?[2J \xef\xbf\xbd\n"));
    assert_true(n < 3000);
}

static void test_appends(void **state)
{
    (void)state;
    unlink(path);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sonde_log_open(SONDE_LOG_WARN, path), 0);
        sonde_log(SONDE_LOG_WARN, "again");
    }
    read_log();
    size_t lines = 0;
    for (const char *p = text; (p = strstr(p, "again\n")); p++) lines++;
    assert_int_equal(lines, 3);
}

static void test_open_errors(void **state)
{
    (void)state;
    char missing[128];
    snprintf(missing, sizeof(missing), "%s/no/such/dir", dir);
    unlink(path);
    assert_int_equal(sonde_log_open(SONDE_LOG_WARN, path), 0);
    assert_int_equal(sonde_log_open(SONDE_LOG_DEBUG, missing), SONDE_ENOENT);
    assert_int_equal(sonde_log_open(SONDE_LOG_DEBUG, dir), SONDE_EINVAL);
    /* After a failure the log goes on as it was. */
    sonde_log(SONDE_LOG_INFO, "below the level");
    sonde_log(SONDE_LOG_WARN, "still here");
    read_log();
    assert_non_null(strstr(text, "still here\n"));
    assert_null(strstr(text, "below"));
}

enum { THREADS = 4, LINES = 500 };

static void *writer(void *arg)
{
    for (int i = 0; i < LINES; i++) sonde_log(SONDE_LOG_WARN, "%s %d end", (const char *)arg, i);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    static char names[THREADS][2] = { "a", "b", "c", "d" };
    pthread_t threads[THREADS];
    unlink(path);
    assert_int_equal(sonde_log_open(SONDE_LOG_WARN, path), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, writer, names[i]), 0);
    }
    /* Reopened meanwhile, as after a rotation: no line may be lost or go astray. */
    for (int i = 0; i < 50; i++) assert_int_equal(sonde_log_open(SONDE_LOG_WARN, path), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    read_log();
    size_t lines = 0;
    for (char *p = text; *p; lines++) {
        char *end = strchr(p, '\n');
        assert_non_null(end);
        assert_memory_equal(end - 4, " end", 4);
        assert_memory_equal(p + 24, " warn  ", 7);
        p = end + 1;
    }
    assert_int_equal(lines, THREADS * LINES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_and_levels), cmocka_unit_test(test_hostile_text),
        cmocka_unit_test(test_appends),          cmocka_unit_test(test_open_errors),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
