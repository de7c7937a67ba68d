/* Headers and labels that users give: what is taken, what is refused, and that no error shows a
 * value, which may be a token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "push/push_private.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const char *const own[] = { "Content-Type: text/x-test", NULL };
static const struct sonde_push_ops ops = { .name = "test", .headers = own };

static int headers_of(struct push_dest *d, const char *text, struct sonde_err *err)
{
    return push_headers_parse(d->ops->name, d->ops->headers, text, &d->headers, err);
}

static void headers_free(struct push_dest *d)
{
    push_headers_free(d->headers);
    d->headers = NULL;
}

static size_t header_count(const struct push_dest *d)
{
    size_t n = 0;
    while (d->headers[n]) n++;
    return n;
}

/* ---- Headers --------------------------------------------------------------------------------- */

static void headers_taken(void **state)
{
    (void)state;
    static const struct { const char *text, *lines[4]; } cases[] = {
        { NULL, { NULL } },
        { "", { NULL } },
        { "\n\n \t \n\r\n", { NULL } },
        { "# a comment\n#another: one\n", { NULL } },
        { "A: b", { "A: b" } },
        { "A: b\n", { "A: b" } },
        { "A: b\r\n", { "A: b" } },
        { "A: b  \t\n", { "A: b" } },
        { "A:b", { "A:b" } },
        { "A:", { "A:" } },
        { "A: b\n\n# no\nC: d\n", { "A: b", "C: d" } },
        { "A: b: c; d=\"e\"", { "A: b: c; d=\"e\"" } },
        { "A: one\ttwo", { "A: one\ttwo" } },
        { "!$%&'*+-.^_`|~9z: v", { "!$%&'*+-.^_`|~9z: v" } },
        { "A: \xc3\xa4", { "A: \xc3\xa4" } },
        { "Same: 1\nSame: 2\n", { "Same: 1", "Same: 2" } },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct push_dest d = { .ops = &ops };
        struct sonde_err err = { "" };
        if (headers_of(&d, cases[i].text, &err)) fail_msg("case %zu: %s", i, err.text);
        assert_string_equal(d.headers[0], own[0]); /* its kind's come first */
        size_t n = 0;
        for (; cases[i].lines[n]; n++) assert_string_equal(d.headers[n + 1], cases[i].lines[n]);
        assert_int_equal(header_count(&d), n + 1);
        headers_free(&d);
        assert_null(d.headers);
    }
}

static void headers_refused(void **state)
{
    (void)state;
    static const struct { const char *text, *says; } cases[] = {
        { "no colon", "line 1 (no" },
        { ": secret", "line 1 (" },
        { " A: secret", "line 1 (" },
        { "A : secret", "line 1 (A" },
        { "A(b): secret", "line 1 (A" },
        { "A: b\nC: d\n\nsecret\n", "line 4 (secret" }, /* a line without a colon is all name */
        { "A: secret\x01", "line 1 (A" },
        { "A: secret\x7f", "line 1 (A" },
        { "A: sec\rret", "line 1 (A" },
        { "# fine\nA: secret\x1b[31m", "line 2 (A" },
        { "\xc3\xa4: secret", "line 1 (" },
        { "A@b: secret", "line 1 (A" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct push_dest d = { .ops = &ops };
        struct sonde_err err = { "" };
        assert_int_equal(headers_of(&d, cases[i].text, &err), SONDE_EINVAL);
        if (!strstr(err.text, cases[i].says)) fail_msg("case %zu: %s", i, err.text);
        if (i != 5 && strstr(err.text, "secret")) fail_msg("case %zu shows: %s", i, err.text);
        headers_free(&d);
    }
}

/* As many as the message says, with those of the kind; as long as it says. */
static void headers_at_their_bounds(void **state)
{
    (void)state;
    static char text[40 * 16 + 9000];
    for (size_t extra = 28; extra < 36; extra++) {
        struct push_dest d = { .ops = &ops };
        struct sonde_err err = { "" };
        size_t at = 0;
        for (size_t i = 0; i < extra; i++) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, "X-%zu: y\n", i);
        }
        const int rc = headers_of(&d, text, &err);
        if (rc != (extra + 1 <= 32 ? 0 : SONDE_EINVAL)) fail_msg("%zu: %d", extra + 1, rc);
        if (rc) assert_non_null(strstr(err.text, "at most 32"));
        else assert_int_equal(header_count(&d), extra + 1);
        headers_free(&d);
    }
    for (size_t len = 8190; len < 8195; len++) {
        struct push_dest d = { .ops = &ops };
        struct sonde_err err = { "" };
        memset(text, 'x', len);
        memcpy(text, "A: ", 3);
        text[len] = '\0';
        assert_int_equal(headers_of(&d, text, &err), len <= 8192 ? 0 : SONDE_EINVAL);
        if (len > 8192) assert_non_null(strstr(err.text, "8192 bytes"));
        headers_free(&d);
    }
    /* A name of any length is shown cut. */
    struct push_dest d = { .ops = &ops };
    struct sonde_err err = { "" };
    memset(text, 'n', 5000);
    text[5000] = '\0';
    assert_int_equal(headers_of(&d, text, &err), SONDE_EINVAL);
    assert_null(memmem(err.text, strlen(err.text), text, 61));
    headers_free(&d);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static void labels_taken(void **state)
{
    (void)state;
    static const struct { const char *text, *names[4], *values[4]; } cases[] = {
        { NULL, { NULL }, { NULL } },
        { "", { NULL }, { NULL } },
        { "a=b", { "a" }, { "b" } },
        { "a=b,", { "a" }, { "b" } },
        { "a=", { "a" }, { "" } },
        { "_x9=y z", { "_x9" }, { "y z" } },
        { "a=b=c,D=e", { "a", "D" }, { "b=c", "e" } },
        { "a=\xc3\xa4\xe2\x82\xac,b=\"q\"", { "a", "b" }, { "\xc3\xa4\xe2\x82\xac", "\"q\"" } },
        { "a=1,a=2", { "a", "a" }, { "1", "2" } },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct push_origin o;
        struct sonde_err err = { "" };
        memset(&o, 0, sizeof(o));
        if (push_labels(&o, cases[i].text, &err)) fail_msg("case %zu: %s", i, err.text);
        size_t n = 0;
        for (; cases[i].names[n]; n++) {
            assert_string_equal(o.labels[n].name, cases[i].names[n]);
            assert_string_equal(o.labels[n].value, cases[i].values[n]);
        }
        assert_int_equal(o.label_count, n);
        sonde__free(o.label_text);
    }
}

static void labels_refused(void **state)
{
    (void)state;
    static const struct { const char *text, *says; } cases[] = {
        { "a", "'a'" },          { "=b", "''" },         { ",a=b", "''" },
        { "a=b,,c=d", "''" },    { "9a=b", "'9a'" },     { "a-b=c", "'a-b'" },
        { "a b=c", "'a b'" },    { " a=b", "' a'" },     { "a=b, c=d", "' c'" },
        { "__a=b", "'__a'" },    { "__=b", "'__'" },     { "a=\xff", "'a'" },
        { "a=b,c=\xc3", "'c'" }, { "\xc3\xa4=b", "'\xc3\xa4'" }, { "a=b,c", "'c'" },
        { "a.b=c", "'a.b'" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct push_origin o;
        struct sonde_err err = { "" };
        memset(&o, 0, sizeof(o));
        assert_int_equal(push_labels(&o, cases[i].text, &err), SONDE_EINVAL);
        if (!strstr(err.text, cases[i].says)) fail_msg("case %zu: %s", i, err.text);
        assert_non_null(strstr(err.text, "push.labels"));
        sonde__free(o.label_text);
    }
}

static void labels_at_their_bounds(void **state)
{
    (void)state;
    for (size_t n = SONDE_PUSH_LABELS_MAX - 1; n < SONDE_PUSH_LABELS_MAX + 3; n++) {
        static struct push_origin o;
        struct sonde_err err = { "" };
        char text[512];
        size_t at = 0;
        memset(&o, 0, sizeof(o));
        for (size_t i = 0; i < n; i++) {
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%sl%zu=v", i ? "," : "", i);
        }
        const int fits = n <= SONDE_PUSH_LABELS_MAX;
        assert_int_equal(push_labels(&o, text, &err), fits ? 0 : SONDE_EINVAL);
        if (!fits) assert_non_null(strstr(err.text, "more than 16"));
        else assert_int_equal(o.label_count, n);
        sonde__free(o.label_text);
    }
}

static void no_memory(void **state)
{
    (void)state;
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 20; nth++) {
        static struct push_origin o;
        struct push_dest d = { .ops = &ops };
        struct sonde_err err = { "" };
        const int64_t live = sonde__alloc_live();
        memset(&o, 0, sizeof(o));
        sonde__alloc_fail_nth(nth);
        rc = headers_of(&d, "A: b\nC: d\n", &err);
        if (!rc) rc = push_labels(&o, "a=b", &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        if (rc) assert_string_equal(err.text, "out of memory");
        headers_free(&d);
        sonde__free(o.label_text);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
    struct push_dest none = { .ops = &ops };
    headers_free(&none); /* never made */
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(headers_taken), T(headers_refused), T(headers_at_their_bounds), T(labels_taken),
        T(labels_refused), T(labels_at_their_bounds), T(no_memory),
    };
    return cmocka_run_group_tests_name("headers", tests, NULL, NULL);
}
