/* bench_output.c - see bench_output.h. */
#include "cli/bench_output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "base/path.h"
#include "base/strip.h"
#include "base/visible.h"
#include "bench/stored.h"
#include "present/text.h"
#include "sonde/sonde.h"
#include "store/store.h"

#define BENCH_OUTPUT_ANSWER_MAX ((size_t)1 << 20)

/* ---- Where ----------------------------------------------------------------------------------- */

int sonde_cli_bench_dir(const struct sonde_cli *cli, char out[SONDE_CLI_BENCH_PATH])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const char *chosen = cli->config.bench_dir;
    int n = -1;
    if (*chosen) n = snprintf(out, SONDE_CLI_BENCH_PATH, "%s", chosen);
    else if (state && *state == '/') {
        n = snprintf(out, SONDE_CLI_BENCH_PATH, "%s/sonde/bench", state);
    } else if (home && *home == '/') {
        n = snprintf(out, SONDE_CLI_BENCH_PATH, "%s/.local/state/sonde/bench", home);
    }
    if (n < 0) {
        return sonde_cli_usage(cli, "there is neither XDG_STATE_HOME nor HOME: say where results "
                               "are kept with --results");
    }
    return n < SONDE_CLI_BENCH_PATH - 200 ? SONDE_EXIT_OK
                                          : sonde_cli_usage(cli, "--results is too long");
}

int sonde_cli_bench_path(const struct sonde_cli *cli, const char *name,
                         char out[SONDE_CLI_BENCH_PATH])
{
    struct sonde_err err = { "" };
    if (strchr(name, '/') || sonde_has_suffix(name, SONDE_BENCH_SAVED_SUFFIX)) {
        const int n = snprintf(out, SONDE_CLI_BENCH_PATH, "%s", name);
        if (n >= SONDE_CLI_BENCH_PATH) return sonde_cli_usage(cli, "too long a path");
        return SONDE_EXIT_OK;
    }
    if (sonde_bench_saved_name_check(name, &err)) return sonde_cli_usage(cli, "%s", err.text);
    const int status = sonde_cli_bench_dir(cli, out);
    if (status) return status;
    const size_t len = strlen(out);
    snprintf(out + len, SONDE_CLI_BENCH_PATH - len, "/%s%s", name, SONDE_BENCH_SAVED_SUFFIX);
    return SONDE_EXIT_OK;
}

/* Keeps one run of all, from 1, or from the end. */
static int bench_output_pick(const struct sonde_cli *cli, const char *name, long nth,
                             struct sonde_bench_saved *all)
{
    const long count = (long)all->count, at = nth > 0 ? nth - 1 : count + nth;
    if (at < 0 || at >= count) {
        return sonde_cli_usage(cli, "%s has %ld run%s, and no %ld", name, count,
                               count == 1 ? "" : "s", nth);
    }
    for (long i = 0; i < count; i++) {
        if (i != at) sonde_bench_result_release(&all->runs[i]);
    }
    all->runs[0] = all->runs[at];
    all->count = 1;
    return SONDE_EXIT_OK;
}

static int bench_output_read(const struct sonde_cli *cli, const char *name,
                             struct sonde_bench_saved *out)
{
    char path[SONDE_CLI_BENCH_PATH];
    struct sonde_err err = { "" };
    const int status = sonde_cli_bench_path(cli, name, path);
    if (status) return status;
    const int rc = sonde_bench_saved_load(path, out, &err);
    if (!rc) return SONDE_EXIT_OK;
    if (rc == SONDE_ENOENT) {
        return sonde_cli_usage(cli, "there is no result '%s' (%s): `sonde bench list` shows those "
                               "there are, `--save NAME` keeps one", name, path);
    }
    if (rc == SONDE_EFORMAT || rc == SONDE_EVERSION || rc == SONDE_EFULL) {
        return sonde_cli_usage(cli, "%s", err.text);
    }
    return sonde_cli_fail(cli, "%s", err.text);
}

int sonde_cli_bench_load(const struct sonde_cli *cli, const char *name,
                         struct sonde_bench_saved *out)
{
    char base[SONDE_CLI_BENCH_PATH];
    struct sonde_bench_saved all = { 0 };
    const char *at = strrchr(name, '@');
    long nth = 0;
    if (at) {
        char *end;
        nth = strtol(at + 1, &end, 10);
        const int far = labs(nth) > (long)SONDE_BENCH_SAVED_RUNS_MAX;
        if (end == at + 1 || *end || !nth || far) at = NULL;
    }
    if (strlen(name) >= sizeof(base)) return sonde_cli_usage(cli, "too long a name");
    snprintf(base, sizeof(base), "%.*s", at ? (int)(at - name) : (int)strlen(name), name);
    int status = bench_output_read(cli, base, &all);
    if (!status && at) status = bench_output_pick(cli, base, nth, &all);
    for (size_t i = 0; i < all.count && !status; i++) {
        struct sonde_bench_result *r = SONDE_ARRAY_ADD(out->runs, out->count, out->cap);
        if (!r) status = sonde_cli_fail(cli, "out of memory");
        else {
            *r = all.runs[i];
            memset(&all.runs[i], 0, sizeof(all.runs[i]));
        }
    }
    sonde_bench_saved_release(&all);
    return status;
}

/* ---- Begin ----------------------------------------------------------------------------------- */

static int bench_output_mark(const struct sonde_cli *cli, const char *agent, const char *text)
{
    char url[4096];
    struct sonde_buf body, answer;
    struct sonde_err err = { "" };
    if (sonde_cli_url(url, sizeof(url), agent, "/api/marks") != 0) {
        return sonde_cli_usage(cli, "--mark: too long a URL");
    }
    sonde_buf_init(&body, BENCH_OUTPUT_ANSWER_MAX);
    sonde_json_open(&body, '{');
    sonde_json_str(&body, "text", text);
    sonde_json_close(&body, '}');
    sonde_buf_putc(&body, '\0');
    int rc = body.error ? sonde_err_memory(&err) : 0;
    if (!rc) {
        rc = sonde_cli_post_body(url, body.data, BENCH_OUTPUT_ANSWER_MAX, SONDE_CLI_FETCH_S,
                                 &answer, &err);
        sonde_buf_release(&answer);
    }
    sonde_buf_release(&body);
    return rc ? sonde_cli_fail(cli, "--mark: %s", err.text) : SONDE_EXIT_OK;
}

int sonde_cli_bench_begin(const struct sonde_cli *cli, const struct sonde_cli_bench_output *o,
                          const char *what)
{
    char path[SONDE_CLI_BENCH_PATH], text[512];
    struct sonde_err err = { "" };
    struct sonde_bench_limit limit;
    if (o->json && o->format && strcmp(o->format, "json") != 0) {
        return sonde_cli_usage(cli, "--json or --format %s, not both", o->format);
    }
    const int status = o->save ? sonde_cli_bench_path(cli, o->save, path) : SONDE_EXIT_OK;
    if (status) return status;
    if (o->store && access(o->store, F_OK) == 0 && !sonde_store_is_file(o->store)) {
        return sonde_cli_usage(cli, "--store: '%s' is there and is not a store", o->store);
    }
    for (size_t i = 0; i < o->fail_on.count; i++) {
        if (sonde_bench_limit_parse(o->fail_on.item[i], &limit, &err)) {
            return sonde_cli_usage(cli, "--fail-on: %s", err.text);
        }
        if (!limit.absolute) {
            return sonde_cli_usage(cli, "--fail-on: '%s' is a limit of a change: save the result, "
                                   "and say that to `sonde bench compare`", limit.text);
        }
    }
    if (!o->mark) return SONDE_EXIT_OK;
    if (!sonde_cli_is_url(o->mark)) {
        return sonde_cli_usage(cli, "--mark: '%s' is not a URL, which begins with http://",
                               o->mark);
    }
    snprintf(text, sizeof(text), "bench begins: %.400s", what);
    return bench_output_mark(cli, o->mark, text);
}

/* ---- Finish ---------------------------------------------------------------------------------- */

const char *sonde_cli_bench_form(const struct sonde_cli_bench_output *o)
{
    if (o->json) return "json";
    if (o->format) return o->format;
    if (sonde_has_suffix(o->output, ".json")) return "json";
    return sonde_has_suffix(o->output, ".md") ? "markdown" : "text";
}

static int bench_output_write(const struct sonde_cli *cli, const struct sonde_cli_bench_output *o,
                              const struct sonde_bench_result *r,
                              void (*text)(const struct sonde_bench_result *r,
                                           const struct sonde_bench_view *v, struct sonde_buf *out,
                                           void *arg),
                              void *arg)
{
    const char *format = sonde_cli_bench_form(o);
    const int json = !strcmp(format, "json");
    const struct sonde_bench_view view = { .markdown = !strcmp(format, "markdown"),
                                           .width = o->output ? 0 : sonde_cli_width(),
                                           .ascii = sonde_text_locale_ascii() };
    struct sonde_buf out;
    sonde_buf_init(&out, SONDE_BENCH_JSON_MAX);
    if (json) sonde_bench_result_json(r, &out);
    else if (text) text(r, &view, &out, arg);
    else sonde_bench_result_text(r, &view, &out);
    int status = SONDE_EXIT_OK;
    /* Names in it come from files and other programs. */
    if (!out.error && out.len && !json) out.len = sonde_visible(out.data, out.len);
    if (out.error) status = sonde_cli_fail(cli, "the result is too large, or memory is out");
    else status = sonde_cli_write(cli, o->output, &out);
    sonde_buf_release(&out);
    return status;
}

static int bench_output_save(const struct sonde_cli *cli, const char *name,
                             const struct sonde_bench_result *r)
{
    char path[SONDE_CLI_BENCH_PATH];
    struct sonde_err err = { "" };
    size_t runs = 0;
    const int status = sonde_cli_bench_path(cli, name, path);
    if (status) return status;
    const int rc = sonde_bench_saved_append(path, r, &runs, &err);
    if (rc == SONDE_EFORMAT || rc == SONDE_EFULL || rc == SONDE_EVERSION) {
        return sonde_cli_usage(cli, "--save: %s", err.text);
    }
    if (rc) return sonde_cli_fail(cli, "--save: %s", err.text);
    if (!cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde: kept as '%s', run %zu of that name\n", name,
                             runs);
    }
    return SONDE_EXIT_OK;
}

static int bench_output_limits(const struct sonde_cli *cli, const struct sonde_cli_bench_output *o,
                               const struct sonde_bench_result *r)
{
    int status = SONDE_EXIT_OK;
    for (size_t i = 0; i < o->fail_on.count; i++) {
        struct sonde_bench_limit limit;
        const struct sonde_bench_figure *f = NULL;
        struct sonde_err err = { "" };
        int rc = sonde_bench_limit_parse(o->fail_on.item[i], &limit, &err);
        if (!rc) rc = sonde_bench_limit_check(&limit, r, &f, &err);
        if (rc < 0) return sonde_cli_usage(cli, "--fail-on: %s", err.text);
        if (!rc) continue;
        char value[SONDE_BENCH_VALUE_BYTES];
        sonde_visible_printf(STDERR_FILENO, "sonde: --fail-on '%s': %s is %s\n", limit.text,
                             f->name, sonde_bench_value_format(value, f->value, f->unit, 0));
        status = SONDE_EXIT_LIMIT;
    }
    return status;
}

int sonde_cli_bench_keep(const struct sonde_cli *cli, const struct sonde_cli_bench_output *o,
                         const struct sonde_bench_result *r)
{
    struct sonde_err err = { "" };
    struct sonde_bench_result named = *r; /* borrows all of it */
    int first = SONDE_EXIT_OK, status;
    if (o->save) snprintf(named.name, sizeof(named.name), "%s", sonde_path_base(o->save));
    if (o->mark) {
        char note[512];
        snprintf(note, sizeof(note), "bench ends: %s %s", named.kind, named.name);
        first = bench_output_mark(cli, o->mark, note);
    }
    if (o->save) {
        status = bench_output_save(cli, o->save, &named);
        if (!first) first = status;
    }
    if (o->store) {
        const int rc = sonde_bench_series_append(o->store, &named, &err);
        status = rc == SONDE_EINVAL ? sonde_cli_usage(cli, "--store: %s", err.text)
                 : rc               ? sonde_cli_fail(cli, "--store: %s", err.text)
                                    : SONDE_EXIT_OK;
        if (!first) first = status;
    }
    return first ? first : bench_output_limits(cli, o, r);
}

int sonde_cli_bench_finish(const struct sonde_cli *cli, const struct sonde_cli_bench_output *o,
                           struct sonde_bench_result *r,
                           void (*text)(const struct sonde_bench_result *r,
                                        const struct sonde_bench_view *v, struct sonde_buf *out,
                                        void *arg),
                           void *arg)
{
    if (o->save && !r->name[0]) snprintf(r->name, sizeof(r->name), "%s", sonde_path_base(o->save));
    const int written = bench_output_write(cli, o, r, text, arg);
    const int kept = sonde_cli_bench_keep(cli, o, r);
    return written ? written : kept;
}
