/* push.c - see push.h. Secrets come from files or the environment, never from arguments, which
 * every user of the machine can read. */
#include "cli/push.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sonde/sonde.h"

enum { KINDS_MAX = 4, HEADERS_MAX = 1 << 16 };
#define FLUSH_S 5.0

/* ---- Headers --------------------------------------------------------------------------------- */

static int cli_push_read_file(const char *path, struct sonde_buf *out, struct sonde_err *err)
{
    char part[4096];
    FILE *f = fopen(path, "re");
    if (!f) {
        return sonde_err_set(err, SONDE_EIO, "cannot read headers from '%s': %s", path,
                             strerror(errno));
    }
    for (size_t n; (n = fread(part, 1, sizeof(part), f)) > 0;) sonde_buf_add(out, part, n);
    const int bad = ferror(f);
    fclose(f);
    explicit_bzero(part, sizeof(part));
    if (bad) return sonde_err_set(err, SONDE_EIO, "cannot read headers from '%s'", path);
    sonde_buf_putc(out, '\n');
    if (out->error) return sonde_err_set(err, SONDE_EINVAL, "'%s' is too long for headers", path);
    if (memchr(out->data, 0, out->len)) {
        return sonde_err_set(err, SONDE_EINVAL, "'%s' holds a NUL: not lines of headers", path);
    }
    return 0;
}

static int cli_push_hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : -1;
}

/* "a=b,c=d%20e" as lines. */
static void otel_headers(const char *text, struct sonde_buf *out)
{
    int value = 0;
    for (const char *p = text; *p; p++) {
        if (*p == ',') {
            sonde_buf_putc(out, '\n');
            value = 0;
        } else if (*p == '=' && !value) {
            sonde_buf_puts(out, ": ");
            value = 1;
        } else if (value && *p == '%' && cli_push_hex_digit(p[1]) >= 0 &&
                   cli_push_hex_digit(p[2]) >= 0) {
            const int c = cli_push_hex_digit(p[1]) << 4 | cli_push_hex_digit(p[2]);
            sonde_buf_putc(out, c ? (char)c : ' ');
            p += 2;
        } else if (*p != ' ' || value) {
            sonde_buf_putc(out, *p);
        }
    }
    sonde_buf_putc(out, '\n');
}

static const char *headers_file(const struct sonde_cli *cli, const char *kind)
{
    const struct sonde_config_values *c = &cli->config;
    if (!strcmp(kind, "otlp")) return c->push_otlp_headers;
    return !strcmp(kind, "remote_write") ? c->push_remote_write_headers : c->push_pyroscope_headers;
}

int sonde_cli_push_headers(const struct sonde_cli *cli, const char *kind, struct sonde_buf *out,
                           struct sonde_err *err)
{
    char name[64];
    snprintf(name, sizeof(name), "SONDE_%s_TOKEN", kind);
    for (char *c = name; *c; c++) *c = (char)toupper((unsigned char)*c);
    const char *file = headers_file(cli, kind), *token = getenv(name);
    const int rc = *file ? cli_push_read_file(file, out, err) : 0;
    if (rc) return rc;
    if (token && *token) {
        if (token[strcspn(token, "\r\n")]) {
            return sonde_err_set(err, SONDE_EINVAL, "%s: a token is one line", name);
        }
        sonde_buf_printf(out, "Authorization: Bearer %s\n", token);
    }
    return out->error ? sonde_err_set(err, out->error, "out of memory") : 0;
}

/* ---- Destinations ---------------------------------------------------------------------------- */

static const char *url_of(const struct sonde_cli *cli, const char *kind)
{
    const struct sonde_config_values *c = &cli->config;
    if (!strcmp(kind, "otlp")) return c->push_otlp;
    return !strcmp(kind, "remote_write") ? c->push_remote_write : c->push_pyroscope;
}

/* Both or none: headers that the environment has are for the endpoint that it has. */
static int from_environment(struct sonde_push_target *t, struct sonde_buf *headers,
                            struct sonde_err *err)
{
    const char *url = getenv("OTEL_EXPORTER_OTLP_ENDPOINT"),
               *more = getenv("OTEL_EXPORTER_OTLP_HEADERS");
    if (!url || !*url) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "push.otlp is env, but OTEL_EXPORTER_OTLP_ENDPOINT is "
                             "not set");
    }
    t->url = url;
    if (more && *more) otel_headers(more, headers);
    return headers->error;
}

/* In the user's own folder of states: what waits there outlives the agent. */
const char *sonde_cli_push_spool(const struct sonde_cli *cli, char out[SONDE_CLI_SPOOL_MAX])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const char *chosen = cli->config.push_spool;
    int n;
    if (!strcmp(chosen, "none")) return NULL;
    if (*chosen) n = snprintf(out, SONDE_CLI_SPOOL_MAX, "%s", chosen);
    else if (state && *state == '/') n = snprintf(out, SONDE_CLI_SPOOL_MAX, "%s/sonde/push", state);
    else if (home && *home == '/')
        n = snprintf(out, SONDE_CLI_SPOOL_MAX, "%s/.local/state/sonde/push", home);
    else return NULL;
    return n > 0 && n < SONDE_CLI_SPOOL_MAX - 64 ? out : NULL;
}

static int cli_push_create(const struct sonde_cli *cli, struct sonde_push_options *o,
                           struct sonde_push **out, struct sonde_err *err)
{
    const struct sonde_config_values *c = &cli->config;
    char spool[SONDE_CLI_SPOOL_MAX];
    const int rc = sonde_push_signals(c->push_signals, &o->signals, err);
    if (rc) return rc;
    o->interval_s = c->push_interval_seconds;
    o->timeout_s = c->push_timeout_seconds;
    o->labels = c->push_labels;
    o->native_histograms = c->push_native_histograms;
    o->spool = sonde_cli_push_spool(cli, spool);
    o->spool_bytes = (uint64_t)c->push_spool_megabytes << 20;
    o->spool_age_s = c->push_spool_hours * 3600;
    return sonde_push_create(o, out, err);
}

/* What the settings name. headers: one for each, to be cleared and released also on failure. */
static int find_targets(const struct sonde_cli *cli, struct sonde_push_target targets[KINDS_MAX],
                        struct sonde_buf headers[KINDS_MAX], size_t *count, struct sonde_err *err)
{
    int rc = 0;
    *count = 0;
    for (size_t i = 0; sonde_push_kind(i) && *count < KINDS_MAX && !rc; i++) {
        struct sonde_push_target *t = &targets[*count];
        const char *kind = sonde_push_kind(i);
        *t = (struct sonde_push_target){ .kind = kind, .url = url_of(cli, kind) };
        if (!*t->url) continue;
        struct sonde_buf *h = &headers[(*count)++];
        sonde_buf_init(h, HEADERS_MAX);
        rc = sonde_cli_push_headers(cli, t->kind, h, err);
        if (!rc && !strcmp(t->kind, "otlp") && !strcmp(t->url, "env")) {
            rc = from_environment(t, h, err);
        }
        t->headers = h->data;
    }
    return rc;
}

static void forget_headers(struct sonde_buf *headers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (headers[i].data) explicit_bzero(headers[i].data, headers[i].len);
        sonde_buf_release(&headers[i]);
    }
}

int sonde_cli_push_each(const struct sonde_cli *cli,
                        void (*each)(const struct sonde_push_target *t, const char *labels,
                                     void *arg),
                        void *arg, size_t *count, struct sonde_err *err)
{
    struct sonde_push_target targets[KINDS_MAX];
    struct sonde_buf headers[KINDS_MAX];
    const int rc = find_targets(cli, targets, headers, count, err);
    for (size_t i = 0; i < *count && !rc; i++) each(&targets[i], cli->config.push_labels, arg);
    forget_headers(headers, *count);
    return rc;
}

int sonde_cli_push_open(const struct sonde_cli *cli, struct sonde_model *m, int requests,
                        struct sonde_push **out)
{
    struct sonde_push_target targets[KINDS_MAX];
    struct sonde_buf headers[KINDS_MAX];
    struct sonde_err err = { "" };
    size_t count = 0;
    *out = NULL;
    int rc = find_targets(cli, targets, headers, &count, &err);
    struct sonde_push_options o = { .targets = targets, .target_count = count, .model = m,
                                    .requests = requests };
    if (!rc && count) rc = cli_push_create(cli, &o, out, &err);
    forget_headers(headers, count);
    if (!rc) return SONDE_EXIT_OK;
    return rc == SONDE_EINVAL ? sonde_cli_usage(cli, "%s", err.text)
                              : sonde_cli_fail(cli, "%s", err.text);
}

void sonde_cli_push_close(const struct sonde_cli *cli, struct sonde_push **p)
{
    const double timeout_s = cli->config.push_timeout_seconds;
    sonde_push_stop(*p, timeout_s < FLUSH_S ? timeout_s : FLUSH_S);
    sonde_push_destroy(*p);
    *p = NULL;
}
