/* Every allocation fails once: the 1st, then the 2nd, … until nothing is left to fail. Each time
 * the call reports SONDE_ENOMEM, changes nothing, and leaves no block behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/config.h"
#include "base/pb.h"
#include "sonde/sonde.h"

enum { NTH_MAX = 2000 };

/* Runs attempt with each allocation failing in turn; returns how many there were. */
static uint64_t each_failure(int (*attempt)(void))
{
    for (uint64_t nth = 1; nth < NTH_MAX; nth++) {
        sonde__alloc_fail_nth(nth);
        const int rc = attempt();
        sonde__alloc_fail_nth(0);
        if (sonde__alloc_live() != 0) fail_msg("%d blocks left", (int)sonde__alloc_live());
        if (rc == 0) return nth - 1;
        assert_int_equal(rc, SONDE_ENOMEM);
    }
    fail_msg("still failing after %d allocations", NTH_MAX);
    return 0;
}

/* All that can be added to a buffer. */
static void fill(struct sonde_buf *b)
{
    for (int i = 0; i < 200; i++) {
        sonde_buf_puts(b, "text");
        sonde_buf_putc(b, ' ');
        sonde_buf_u64(b, 18446744073709551615u);
        sonde_buf_double(b, 1.0 / 3);
        sonde_buf_double(b, 0.5);
        sonde_buf_printf(b, "%*d", 300, i);
        sonde_buf_json_str(b, "a\"\xff" "b", 4);
        sonde_buf_json_double(b, 2.5);
        char *to = sonde_buf_reserve(b, 10);
        if (to) {
            memset(to, 'r', 10);
            b->len += 10;
        }
    }
}

static int attempt_buf(void)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    fill(&b);
    const int error = b.error;
    if (error) {
        /* It sticks, what was there stays, and after a reset it works again. */
        const size_t len = b.len;
        sonde_buf_puts(&b, "more");
        assert_int_equal(b.len, len);
        assert_true(!b.data || b.len < b.cap);
        sonde_buf_reset(&b);
        sonde_buf_puts(&b, "fine");
        assert_string_equal(b.data, "fine");
    }
    sonde_buf_release(&b);
    return error;
}

static int attempt_take(void)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    sonde_buf_printf(&b, "%s", "some text");
    char *s = sonde_buf_take(&b);
    assert_int_equal(b.error, 0);
    assert_null(b.data);
    if (!s) return SONDE_ENOMEM;
    assert_string_equal(s, "some text");
    sonde__free(s);
    return 0;
}

static int attempt_pb(void)
{
    static const int64_t values[] = { 1, -2, 300 };
    struct sonde_buf inner, outer;
    sonde_buf_init(&inner, 1 << 20);
    sonde_buf_init(&outer, 1 << 20);
    for (uint32_t i = 1; i < 100; i++) {
        sonde_pb_str(&inner, i, "name", 4);
        sonde_pb_double(&inner, i, 1.5);
        sonde_pb_packed_sint(&inner, i, values, 3);
        sonde_pb_message(&outer, i, &inner);
    }
    sonde_pb_delimited(&outer, &inner);
    /* A part that failed must have failed the whole. */
    assert_true(!inner.error || outer.error);
    const int error = outer.error;
    sonde_buf_release(&inner);
    sonde_buf_release(&outer);
    return error;
}

static const char json[] =
    "{\"cpu\": {\"enabled\": false, \"sample_rate_hz\": 99},\n"
    " \"flamegraph\": {\"color_scheme\": \"\\u0063old\", \"min_width_percent\": 0.5},\n"
    " \"agent\": {\"dir\": \"/a/longer/path/than/what/fits/in/the/first/allocation\"}}";
static char dir[] = "/tmp/sonde-test-fault-XXXXXX";
static char file[64], bad_file[64];

static int check_config(int rc, const struct sonde_config_values *c, const struct sonde_err *err,
                        const char *origin)
{
    struct sonde_config_values defaults;
    sonde_config_defaults(&defaults);
    if (rc) {
        char want[128];
        snprintf(want, sizeof(want), "%s: no memory to read it", origin);
        assert_string_equal(err->text, want);
        assert_memory_equal(c, &defaults, sizeof(defaults));
    } else {
        assert_int_equal(c->cpu_sample_rate_hz, 99);
        assert_string_equal(c->flamegraph_color_scheme, "cold");
    }
    return rc;
}

static int attempt_file(void)
{
    struct sonde_config_values c;
    struct sonde_err err = { "" };
    sonde_config_defaults(&c);
    const int rc = sonde_config_load_file(&c, file, &err);
    return check_config(rc, &c, &err, file);
}

/* A bad file and no memory at once: one of the two errors, never a crash or a leak. */
static int attempt_bad_file(void)
{
    struct sonde_config_values c;
    struct sonde_err err = { "" };
    sonde_config_defaults(&c);
    const int rc = sonde_config_load_file(&c, bad_file, &err);
    assert_true(err.text[0] != 0);
    return rc == SONDE_EINVAL ? 0 : rc;
}

static void test_buf(void **state)
{
    (void)state;
    assert_true(each_failure(attempt_buf) >= 5);
    assert_int_equal(each_failure(attempt_take), 1);
}

static void test_pb(void **state)
{
    (void)state;
    assert_true(each_failure(attempt_pb) >= 5);
}

static void test_config(void **state)
{
    (void)state;
    assert_true(each_failure(attempt_file) >= 1);
    assert_true(each_failure(attempt_bad_file) >= 1);
}

/* What cannot allocate must not be touched by it. */
static void test_config_text_needs_no_memory(void **state)
{
    (void)state;
    struct sonde_config_values c;
    struct sonde_err err;
    char *const envp[] = { "SONDE_AGENT_MAX_SPANS=100", NULL };
    sonde__alloc_fail_nth(1);
    sonde_config_defaults(&c);
    assert_int_equal(sonde_config_load_env(&c, envp, &err), 0);
    assert_int_equal(sonde_config_set(&c, "agent.max_series", "5", "--set", &err), 0);
    assert_null(sonde__alloc(1)); /* that was the first */
}

static int write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f) return -1;
    const int written = fputs(text, f);
    return fclose(f) || written < 0;
}

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(file, sizeof(file), "%s/config.json", dir);
    snprintf(bad_file, sizeof(bad_file), "%s/bad.json", dir);
    return write_file(file, json) ||
           write_file(bad_file, "{\"cpu\": {\"enabled\": true, \"sample_rate_hz\": \"x\"}}");
}

static int teardown(void **state)
{
    (void)state;
    unlink(file);
    unlink(bad_file);
    return rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buf),
        cmocka_unit_test(test_pb),
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_config_text_needs_no_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
