/* Every error of the agent as an HTTP status, and calls that failed as answers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "serve/http/route.h"
#include "serve/http/status.h"
#include "sonde/sonde.h"

static const struct { int error; unsigned status; } table[] = {
    { SONDE_EINVAL, 400 },   { SONDE_ENOMEM, 500 },  { SONDE_ENOSPC, 500 }, { SONDE_EEXIST, 409 },
    { SONDE_EFULL, 400 },    { SONDE_EBUSY, 409 },   { SONDE_EOFF, 503 },   { SONDE_EACCES, 403 },
    { SONDE_EIO, 500 },      { SONDE_EFORMAT, 500 }, { SONDE_EVERSION, 500 }, { SONDE_ESTALE, 500 },
    { SONDE_ENOENT, 404 },
};

static const int errors[] = {
#define SONDE__X(name, value, text) value,
    SONDE_ERRORS(SONDE__X)
#undef SONDE__X
};

static void every_error_has_a_status(void **state)
{
    (void)state;
    assert_int_equal(sonde_http_status(0), 200);
    assert_int_equal(sonde_http_status(-1000), 500);
    assert_int_equal(sonde_http_status(1), 500);
    for (size_t i = 0; i < SONDE_COUNT(errors); i++) {
        size_t k = 0;
        while (k < SONDE_COUNT(table) && table[k].error != errors[i]) k++;
        if (k == SONDE_COUNT(table)) fail_msg("%s: is it 4xx or 5xx?", sonde_strerror(errors[i]));
        if (sonde_http_status(errors[i]) != table[k].status) {
            fail_msg("%s: %u", sonde_strerror(errors[i]), sonde_http_status(errors[i]));
        }
    }
}

static void failed_calls(void **state)
{
    (void)state;
    struct sonde_err err = { "no such \"thing\"" }, none = { "" };
    struct sonde_response answer = { .status = 200, .packed = 1, .filename = "x.gz",
                                     .content_type = "image/svg+xml" };
    sonde_buf_init(&answer.body, 1000);
    sonde_buf_puts(&answer.body, "half a picture");
    sonde_response_failed(&answer, SONDE_ENOENT, &err);
    assert_int_equal(answer.status, 404);
    assert_string_equal(answer.body.data, "{\"error\":\"no such \\\"thing\\\"\"}\n");
    assert_string_equal(answer.content_type, "application/json");
    assert_int_equal(answer.packed, 0);
    assert_null(answer.filename);

    /* Without a sentence the error has one. */
    for (size_t i = 0; i < SONDE_COUNT(errors); i++) {
        sonde_response_failed(&answer, errors[i], i % 2 ? &none : NULL);
        assert_int_equal(answer.status, sonde_http_status(errors[i]));
        assert_true(answer.body.len > strlen("{\"error\":\"\"}\n"));
    }
    sonde_response_failed(&answer, SONDE_ENOMEM, NULL);
    assert_string_equal(answer.body.data, "{\"error\":\"the agent is out of memory\"}\n");

    /* A body that does not fit is the server's to report. */
    answer.status = 200;
    for (int i = 0; i < 100; i++) sonde_buf_puts(&answer.body, "more than fits");
    assert_int_equal(answer.body.error, SONDE_EFULL);
    sonde_response_failed(&answer, SONDE_EFULL, &err);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body.error, SONDE_EFULL);
    sonde_buf_release(&answer.body);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_error_has_a_status),
        cmocka_unit_test(failed_calls),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
