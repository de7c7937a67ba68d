/* Reading /proc: numbers that overflow, names that imitate the rest of the line, files that are
 * missing, endless or in the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/proc/procfs.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct sonde_procfs_text text_of(const char *s)
{
    return (struct sonde_procfs_text){ s, s + strlen(s) };
}

static void numbers(void **state)
{
    (void)state;
    static const struct { const char *text; int ok; uint64_t value; } cases[] = {
        { "0", 1, 0 },
        { "  42 rest", 1, 42 },
        { "\t7\n", 1, 7 },
        { "007", 1, 7 },
        { "18446744073709551615", 1, UINT64_MAX },
        { "18446744073709551616", 0, 0 },
        { "99999999999999999999999999", 0, 0 },
        { "-1", 0, 0 },
        { "+1", 0, 0 },
        { "12x", 0, 0 },
        { "0x10", 0, 0 },
        { "", 0, 0 },
        { "   ", 0, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_procfs_text t = text_of(cases[i].text);
        uint64_t v = 0;
        assert_int_equal(sonde_procfs_u64(&t, &v), cases[i].ok);
        assert_int_equal(v, cases[i].value);
    }
}

static void fractions(void **state)
{
    (void)state;
    static const struct { const char *text; int ok; double value; } cases[] = {
        { "0.07", 1, 0.07 },     { "3", 1, 3 },       { "1387347.29", 1, 1387347.29 },
        { "2.28", 1, 2.28 },     { "0.0", 1, 0 },     { "98765432.10", 1, 98765432.10 },
        { "1.", 0, 0 },          { ".5", 0, 0 },      { "1.5x", 0, 0 },
        { "nan", 0, 0 },         { "1e9", 0, 0 },     { "", 0, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_procfs_text t = text_of(cases[i].text);
        double v = 0;
        assert_int_equal(sonde_procfs_double(&t, &v), cases[i].ok);
        assert_memory_equal(&v, &cases[i].value, sizeof(v)); /* to the last bit */
    }
}

static void lines_and_words(void **state)
{
    (void)state;
    struct sonde_procfs_text t = text_of("one two\n\n three"), line, word;
    char copy[4];
    assert_true(sonde_procfs_line(&t, &line));
    assert_true(sonde_procfs_word(&line, &word));
    assert_true(sonde_procfs_is(word, "one"));
    assert_false(sonde_procfs_is(word, "on"));
    assert_false(sonde_procfs_is(word, "ones"));
    assert_true(sonde_procfs_word(&line, &word));
    assert_false(sonde_procfs_word(&line, &word));
    assert_true(sonde_procfs_line(&t, &line));
    assert_false(sonde_procfs_word(&line, &word));
    assert_true(sonde_procfs_line(&t, &line));
    assert_true(sonde_procfs_word(&line, &word));
    assert_int_equal(sonde_procfs_copy(word, copy, sizeof(copy)), 3);
    assert_string_equal(copy, "thr");
    assert_false(sonde_procfs_line(&t, &line));
}

static void keys(void **state)
{
    (void)state;
    static const char text[] = "Pss: 7 kB\nRss:\n Huge: 18446744073709551615 kB\nPlain:\t9\n"
                               "Bad: x kB\nLast: 3 kB";
    struct sonde_procfs_key k[] = {
        { "Last:", 0, 0 }, { "Pss:", 0, 0 },   { "Rss:", 0, 0 }, { "Huge:", 0, 0 },
        { "Bad:", 0, 0 },  { "Plain:", 0, 0 }, { "None:", 0, 1 },
    };
    sonde_procfs_keys(text_of(text), k, COUNT(k));
    assert_true(k[0].found && k[0].value == 3 * 1024);
    assert_true(k[1].found && k[1].value == 7 * 1024);
    assert_false(k[2].found);
    assert_false(k[3].found); /* times 1024 does not fit */
    assert_false(k[4].found);
    assert_true(k[5].found && k[5].value == 9);
    assert_false(k[6].found);
}

#define TAIL                                                                                   \
    " R 1 1 1 0 -1 4194304 101 0 5 0 11 22 0 0 20 -5 3 0 138106 3133440 386 18446744073709551615 " \
    "1 1 1 0 0 0 0 0 0 0 0 0 17 6 0 0 0 0 0\n"

static void stat_names(void **state)
{
    (void)state;
    static const struct { const char *text, *name; } cases[] = {
        { "5597 (cat)" TAIL, "cat" },
        { "5597 (a b)" TAIL, "a b" },
        { "5597 (a) R (b)" TAIL, "a) R (b" },
        { "5597 ())" TAIL, ")" },
        { "5597 ()" TAIL, "" },
        { "5597 (a\nb)" TAIL, "a\nb" },
        { "5597 (\xff(())" TAIL, "\xef\xbf\xbd(()" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_procfs_stat s;
        assert_int_equal(sonde_procfs_stat(text_of(cases[i].text), &s), 0);
        assert_string_equal(s.name, cases[i].name);
        assert_int_equal(s.state, 'R');
        assert_int_equal(s.faults_minor, 101);
        assert_int_equal(s.faults_major, 5);
        assert_int_equal(s.user, 11);
        assert_int_equal(s.system, 22);
        assert_int_equal(s.threads, 3);
        assert_int_equal(s.start_time, 138106);
        assert_int_equal(s.virtual_bytes, 3133440);
        assert_int_equal(s.resident_pages, 386);
        assert_int_equal(s.cpu, 6);
    }
}

static void stat_malformed(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "5597",
        "5597 cat" TAIL,
        "5597 )cat(" TAIL,
        "5597 (cat)",
        "5597 (cat) R",
        "5597 (cat) RR 1 1",
        "5597 (cat) R 1 1 1 0 -1 4194304 101 0 0 0 11 22 0 0 20 0 1 0 138106 3133440 386 1",
        "5597 (cat) R 1 1 1 0 -1 4194304 x 0 5 0 11 22 0 0 20 0 3 0 1 1 1 1 1 1 1 0 0 0 0 0 0 0 0 "
        "0 17 6",
        "5597 (cat) R 1 1 1 0 -1 4194304 99999999999999999999 0 5 0 11 22 0 0 20 0 3 0 1 1 1 1 1 "
        "1 1 0 0 0 0 0 0 0 0 0 17 6",
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_procfs_stat s;
        assert_int_equal(sonde_procfs_stat(text_of(cases[i]), &s), SONDE_EFORMAT);
    }
}

static void reading(void **state)
{
    (void)state;
    char root[] = "/tmp/sonde-test-XXXXXX", path[128];
    struct sonde_procfs_buf b;
    assert_non_null(mkdtemp(root));
    assert_int_equal(sonde_procfs_buf_init(&b), 0);

    static const struct { size_t size; int rc; } cases[] = {
        { 0, 0 },           { 1, 0 },
        { 16383, 0 },       { 16384, 0 },
        { 200000, 0 },      { SONDE_PROCFS_MAX, 0 },
        { SONDE_PROCFS_MAX + 1, SONDE_EFULL }, { 3 * SONDE_PROCFS_MAX, SONDE_EFULL },
        { 5, 0 },
    };
    snprintf(path, sizeof(path), "%s/file", root);
    for (size_t i = 0; i < COUNT(cases); i++) {
        FILE *f = fopen(path, "w");
        for (size_t k = 0; k < cases[i].size; k++) fputc('a' + (int)(k % 26), f);
        fclose(f);
        assert_int_equal(sonde_procfs_read(&b, -1, path), cases[i].rc);
        assert_int_equal(b.len, cases[i].rc ? 0 : cases[i].size);
        assert_int_equal(strlen(b.data), b.len);
        if (b.len) assert_int_equal(b.data[b.len - 1], 'a' + (int)((b.len - 1) % 26));
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(sonde_procfs_read(&b, -1, path), SONDE_ENOENT);
    assert_int_equal(b.len, 0);
    assert_int_equal(sonde_procfs_read(&b, -1, root), SONDE_EINVAL); /* a folder */
    assert_int_equal(mkfifo(path, 0600), 0);
    sonde_procfs_read(&b, -1, path); /* must come back */
    unlink(path);
    rmdir(root);
    sonde_procfs_buf_release(&b);
}

static void no_memory(void **state)
{
    (void)state;
    char path[] = "/tmp/sonde-test-XXXXXX";
    struct sonde_procfs_buf b;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 100000), 0);
    sonde__alloc_fail_nth(1);
    assert_int_equal(sonde_procfs_buf_init(&b), SONDE_ENOMEM);
    sonde__alloc_fail_nth(0);
    assert_int_equal(sonde_procfs_buf_init(&b), 0);
    sonde__alloc_fail_nth(2);
    assert_int_equal(sonde_procfs_read_fd(&b, fd), SONDE_ENOMEM);
    sonde__alloc_fail_nth(0);
    assert_int_equal(sonde_procfs_read_fd(&b, fd), 0);
    assert_int_equal(b.len, 100000);
    close(fd);
    unlink(path);
    sonde_procfs_buf_release(&b);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void folders(void **state)
{
    (void)state;
    static const char *const names[] = { "1", "4294967295", "4294967296", "x", "3x", "12" };
    char root[] = "/tmp/sonde-test-XXXXXX", path[128];
    uint64_t sum = 0;
    uint32_t n;
    struct sonde_procfs_dir d;
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, names[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    assert_int_equal(sonde_procfs_dir_open(&d, -1, root), 0);
    while (sonde_procfs_dir_next(&d, &n)) sum += n;
    sonde_procfs_dir_close(&d);
    assert_true(sum == (uint64_t)UINT32_MAX + 1 + 12);
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", root, names[i]);
        rmdir(path);
    }
    rmdir(root);
    assert_int_equal(sonde_procfs_dir_open(&d, -1, root), SONDE_ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),        cmocka_unit_test(fractions),
        cmocka_unit_test(lines_and_words), cmocka_unit_test(keys),
        cmocka_unit_test(stat_names),     cmocka_unit_test(stat_malformed),
        cmocka_unit_test(reading),        cmocka_unit_test(no_memory),
        cmocka_unit_test(folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
