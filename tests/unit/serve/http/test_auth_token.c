/* Tokens: where they are read from, what is not one, how many wrong ones are answered; and what is
 * open without one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "serve/http/auth.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define TOKEN "correct-horse-battery"

static char dir[64], path[128];

static int make_dir(void **state)
{
    (void)state;
    unsetenv("SONDE_TOKEN");
    snprintf(dir, sizeof(dir), "/tmp/sonde-token-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof(path), "%s/token", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unsetenv("SONDE_TOKEN");
    if (unlink(path)) rmdir(path);
    return rmdir(dir);
}

static void file_put(const char *text, size_t len, mode_t mode)
{
    unlink(path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(fd, text, len), len);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void from_a_file(void **state)
{
    (void)state;
    static char longest[SONDE_TOKEN_MAX + 100];
    memset(longest, 't', sizeof(longest));
    longest[SONDE_TOKEN_MAX] = '\n';
    const struct {
        const char *text;
        size_t len;
        mode_t mode;
        const char *token, *says;
    } cases[] = {
        { TOKEN, 21, 0600, TOKEN, NULL },
        { TOKEN "\n", 22, 0600, TOKEN, NULL },
        { TOKEN "\r\n", 23, 0400, TOKEN, NULL },
        { TOKEN "\nand more\n", 31, 0600, TOKEN, NULL }, /* the first line */
        { "0123456789abcdef", 16, 0600, "0123456789abcdef", NULL },
        { "0123456789abcde", 15, 0600, NULL, "has 15 characters" },
        { "", 0, 0600, NULL, "has 0 characters" },
        { "\n" TOKEN, 22, 0600, NULL, "has 0 characters" },
        { "with a blank in it", 18, 0600, NULL, "blank or a control" },
        { "with-a-tab\tin-it-too", 20, 0600, NULL, "blank or a control" },
        { "not-ascii-\xc3\xa4-at-all", 19, 0600, NULL, "blank or a control" },
        { "ends-in-a-blank-x ", 18, 0600, NULL, "blank or a control" },
        { "cut-by-a\0-zero-byte", 19, 0600, NULL, "has 8 characters" },
        { longest, SONDE_TOKEN_MAX + 1, 0600, longest, NULL },
        { TOKEN, 21, 0640, NULL, "chmod 600" },
        { TOKEN, 21, 0604, NULL, "chmod 600" },
        { TOKEN, 21, 0620, NULL, "chmod 600" },
        { TOKEN, 21, 0601, NULL, "chmod 600" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char out[SONDE_TOKEN_MAX + 1] = "unset";
        struct sonde_err err = { "" };
        file_put(cases[i].text, cases[i].len, cases[i].mode);
        const int rc = sonde_token_read(path, out, &err);
        if (rc != (cases[i].token ? 0 : SONDE_EINVAL)) fail_msg("case %zu: %s", i, err.text);
        if (rc) {
            assert_string_equal(out, "");
            if (!strstr(err.text, cases[i].says)) fail_msg("case %zu: %s", i, err.text);
            assert_non_null(strstr(err.text, path)); /* which file, and not what is in it */
            if (cases[i].len > 8) assert_null(strstr(err.text, cases[i].text));
        } else {
            assert_memory_equal(out, cases[i].token, strlen(out));
            assert_true(strlen(out) >= SONDE_TOKEN_MIN && strlen(out) <= SONDE_TOKEN_MAX);
        }
    }
    longest[SONDE_TOKEN_MAX] = 't';
    for (size_t more = 1; more < 90; more += 44) { /* too long, by however much */
        char out[SONDE_TOKEN_MAX + 1];
        struct sonde_err err = { "" };
        file_put(longest, SONDE_TOKEN_MAX + more, 0600);
        assert_int_equal(sonde_token_read(path, out, &err), SONDE_EINVAL);
        assert_non_null(strstr(err.text, "has 257 characters")); /* it is not read further */
    }
}

static void not_a_file(void **state)
{
    (void)state;
    char out[SONDE_TOKEN_MAX + 1] = "unset";
    struct sonde_err err = { "" };
    unlink(path);
    assert_int_equal(sonde_token_read(path, out, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "cannot read the token's file"));
    assert_int_equal(mkfifo(path, 0600), 0); /* nobody waits for who might write to it */
    assert_int_equal(sonde_token_read(path, out, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "is not a file"));
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(sonde_token_read(path, out, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "is not a file"));
    assert_string_equal(out, "");
    assert_int_equal(sonde_token_read("", out, &err), 0); /* there is none */
    assert_string_equal(out, "");
}

/* The environment's counts first, and is held to the same. */
static void from_the_environment(void **state)
{
    (void)state;
    static char longest[SONDE_TOKEN_MAX + 2];
    char out[SONDE_TOKEN_MAX + 1];
    struct sonde_err err = { "" };
    file_put("of-the-file-0123456789", 22, 0600);
    memset(longest, 'e', SONDE_TOKEN_MAX + 1);
    const struct { const char *env, *token; } cases[] = {
        { TOKEN, TOKEN }, { "", "of-the-file-0123456789" }, { "short", NULL },
        { "with a blank in it", NULL }, { TOKEN "\n", NULL }, { longest, NULL },
        { longest + 1, longest + 1 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        setenv("SONDE_TOKEN", cases[i].env, 1);
        const int rc = sonde_token_read(path, out, &err);
        assert_int_equal(rc, cases[i].token ? 0 : SONDE_EINVAL);
        assert_string_equal(out, cases[i].token ? cases[i].token : "");
        if (rc) assert_non_null(strstr(err.text, "SONDE_TOKEN"));
        if (rc) assert_null(strstr(err.text, cases[i].env));
    }
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static void created_or_not(void **state)
{
    (void)state;
    static char hosts[2000], token[400];
    memset(hosts, 'h', sizeof(hosts) - 1);
    memset(token, 't', sizeof(token) - 1);
    const struct { const char *listen, *token, *hosts; int rc; const char *says; } cases[] = {
        { NULL, NULL, NULL, 0, NULL },
        { "127.0.0.1:1", NULL, NULL, 0, NULL },
        { "[::1]:1", "", "", 0, NULL },
        { "0.0.0.0:1", NULL, NULL, SONDE_EINVAL, "server.token_file" },
        { "[::]:1", "", NULL, SONDE_EINVAL, "SONDE_TOKEN" },
        { "10.0.0.1:1", NULL, NULL, SONDE_EINVAL, "loopback" },
        { "10.0.0.1:1", TOKEN, NULL, 0, NULL },
        { "0.0.0.0:1", TOKEN, NULL, 0, NULL },
        { NULL, NULL, hosts + 976, 0, NULL }, /* 1023 bytes */
        { NULL, NULL, hosts + 975, SONDE_EINVAL, "server.hosts" },
        { NULL, token + 143, NULL, 0, NULL }, /* 256 */
        { NULL, token + 142, NULL, SONDE_EINVAL, "too long" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_listen l;
        struct sonde_err err = { "" };
        struct sonde_auth *g = NULL;
        const struct sonde_auth_options o = { .token = cases[i].token, .hosts = cases[i].hosts };
        if (cases[i].listen) assert_int_equal(sonde_listen_parse(cases[i].listen, &l, &err), 0);
        const int rc = sonde_auth_create(&o, cases[i].listen ? &l : NULL, &g, &err);
        if (rc != cases[i].rc) fail_msg("case %zu: %d %s", i, rc, err.text);
        if (rc && !strstr(err.text, cases[i].says)) fail_msg("case %zu: %s", i, err.text);
        assert_true(!rc == (g != NULL));
        sonde_auth_destroy(g);
    }
    struct sonde_auth *g = NULL;
    struct sonde_err err = { "" };
    sonde__alloc_fail_nth(1);
    assert_int_equal(sonde_auth_create(&(struct sonde_auth_options){ 0 }, NULL, &g, &err),
                     SONDE_ENOMEM);
    sonde__alloc_fail_nth(0);
    assert_null(g);
}

/* The one address that is listened on is a name of this machine; "all of them" is none. */
static void own_address(void **state)
{
    (void)state;
    static const struct { const char *listen, *host; int ok; } cases[] = {
        { "10.0.0.7:80", "10.0.0.7:80", 1 },
        { "10.0.0.7:80", "10.0.0.7", 1 },
        { "10.0.0.7:80", "10.0.0.7:81", 1 },
        { "10.0.0.7:80", "10.0.0.8:80", 0 },
        { "10.0.0.7:80", "10.0.0.70", 0 },
        { "[fd00::7]:80", "[fd00::7]:80", 1 },
        { "[fd00::7]:80", "[FD00:0:0::7]", 1 },
        { "[fd00::7]:80", "[fd00::8]", 0 },
        { "0.0.0.0:80", "0.0.0.0:80", 0 },
        { "0.0.0.0:80", "10.0.0.7:80", 0 },
        { "0.0.0.0:80", "127.0.0.1:80", 1 },
        { "[::]:80", "[::]:80", 0 },
        { "[::]:80", "localhost", 1 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_listen l;
        struct sonde_err err = { "" };
        struct sonde_auth *g = NULL;
        const struct sonde_auth_options o = { .token = TOKEN };
        assert_int_equal(sonde_listen_parse(cases[i].listen, &l, &err), 0);
        assert_int_equal(sonde_auth_create(&o, &l, &g, &err), 0);
        if (sonde_auth_host_ok(g, cases[i].host) != cases[i].ok) {
            fail_msg("%s on %s", cases[i].host, cases[i].listen);
        }
        sonde_auth_destroy(g);
    }
}

static void what_is_open(void **state)
{
    (void)state;
    enum { TOKENLESS, ALL_USERS, WITH_TOKEN, OPEN_METRICS, OPEN_HEALTH, OPTIONS };
    static const struct sonde_auth_options options[OPTIONS] = {
        [TOKENLESS] = { .token = NULL },
        [ALL_USERS] = { .all_users = 1 },
        [WITH_TOKEN] = { .token = TOKEN },
        [OPEN_METRICS] = { .token = TOKEN, .open_metrics = 1 },
        [OPEN_HEALTH] = { .token = TOKEN, .open_health = 1, .all_users = 1 },
    };
    static const struct {
        const char *path;
        int same_user[OPTIONS]; /* only the agent's user and root may ask */
        int yes[OPTIONS];       /* without a token sent */
    } cases[] = {
        { "/livez", { 0, 0, 0, 0, 0 }, { 1, 1, 1, 1, 1 } },
        { "/readyz", { 0, 0, 0, 0, 0 }, { 1, 1, 1, 1, 1 } },
        { "/healthz", { 0, 0, 0, 0, 0 }, { 1, 1, 1, 1, 1 } },
        { "/health", { 0, 0, 0, 0, 0 }, { 1, 1, 0, 0, 1 } },
        { "/metrics", { 0, 0, 0, 0, 0 }, { 1, 1, 0, 1, 0 } },
        { "/v1/metrics", { 0, 0, 0, 0, 0 }, { 1, 1, 0, 0, 0 } },
        { "/v1/traces", { 0, 0, 0, 0, 0 }, { 1, 1, 0, 0, 0 } },
        { "/", { 1, 0, 0, 0, 0 }, { 1, 1, 0, 0, 0 } },
        { "/api/series", { 1, 0, 0, 0, 0 }, { 1, 1, 0, 0, 0 } },
        { "/metrics/", { 1, 0, 0, 0, 0 }, { 1, 1, 0, 0, 0 } },
        { "/livez/../api", { 1, 0, 0, 0, 0 }, { 1, 1, 0, 0, 0 } },
        { "/LIVEZ", { 1, 0, 0, 0, 0 }, { 1, 1, 0, 0, 0 } },
        { "", { 1, 0, 0, 0, 0 }, { 1, 1, 0, 0, 0 } },
    };
    for (size_t k = 0; k < OPTIONS; k++) {
        struct sonde_auth *g = NULL;
        struct sonde_err err = { "" };
        assert_int_equal(sonde_auth_create(&options[k], NULL, &g, &err), 0);
        assert_int_equal(sonde_auth_has_token(g), options[k].token != NULL);
        for (size_t i = 0; i < COUNT(cases); i++) {
            if (sonde_auth_wants_same_user(g, cases[i].path) != cases[i].same_user[k]) {
                fail_msg("%s, options %zu: which user", cases[i].path, k);
            }
            if ((sonde_auth_ask(g, cases[i].path, NULL) == SONDE_AUTH_YES) != cases[i].yes[k]) {
                fail_msg("%s, options %zu", cases[i].path, k);
            }
            assert_int_equal(sonde_auth_ask(g, cases[i].path, "Bearer " TOKEN), SONDE_AUTH_YES);
        }
        sonde_auth_destroy(g);
    }
}

static void what_is_no_token(void **state)
{
    (void)state;
    static char longest[5000] = "Bearer ";
    memset(longest + 7, 'x', sizeof(longest) - 8);
    static const char *const sent[] = {
        "", "Bearer", "Bearer ", "Bearer  ", "bearer\t" TOKEN, "Bearer" TOKEN, "Bearer " TOKEN " ",
        "Bearer correct-horse-batter", "Bearer Correct-horse-battery", " Bearer " TOKEN,
        "Bearer " TOKEN TOKEN, "Token " TOKEN, "Bearer \"" TOKEN "\"", longest,
    };
    for (size_t i = 0; i < COUNT(sent); i++) {
        struct sonde_auth *g = NULL;
        struct sonde_err err = { "" };
        const struct sonde_auth_options o = { .token = TOKEN };
        assert_int_equal(sonde_auth_create(&o, NULL, &g, &err), 0);
        if (sonde_auth_ask(g, "/api/series", sent[i]) != SONDE_AUTH_NO) fail_msg("'%s'", sent[i]);
        sonde_auth_destroy(g);
    }
}

/* Who guesses is told to come later; who has the token is not locked out by that. */
static void guessing(void **state)
{
    (void)state;
    struct sonde_auth *g = NULL;
    struct sonde_err err = { "" };
    const struct sonde_auth_options o = { .token = TOKEN };
    int later = 0, tries = 0;
    assert_int_equal(sonde_auth_create(&o, NULL, &g, &err), 0);
    for (int i = 0; i < 1000; i++) { /* without one, or of another kind: no guess */
        assert_int_equal(sonde_auth_ask(g, "/x", i % 2 ? NULL : "Basic eA=="), SONDE_AUTH_NO);
    }
    for (; !later && tries < 100000; tries++) {
        later = sonde_auth_ask(g, "/x", "Bearer wrong") == SONDE_AUTH_LATER;
    }
    assert_true(later && tries > 20); /* the first 20 are answered */
    assert_int_equal(sonde_auth_ask(g, "/x", "Bearer " TOKEN), SONDE_AUTH_YES);
    assert_int_equal(sonde_auth_ask(g, "/x", NULL), SONDE_AUTH_NO);
    assert_int_equal(sonde_auth_ask(g, "/livez", "Bearer wrong"), SONDE_AUTH_YES);
    sonde_auth_destroy(g);
    sonde_auth_destroy(NULL);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
#define P(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(from_a_file), T(not_a_file), T(from_the_environment), P(created_or_not), P(own_address),
        P(what_is_open), P(what_is_no_token), P(guessing),
    };
    return cmocka_run_group_tests_name("auth token", tests, NULL, NULL);
}
