/* profile.c - see profile.h. */
#include "cli/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/strip.h"
#include "base/trace_id.h"
#include "base/visible.h"
#include "cli/heap.h"
#include "cli/progress.h"
#include "present/units.h"
#include "present/report/profile.h"
#include "present/text.h"
#include "profile/format.h"
#include "profile/select/select.h"
#include "profile/strip.h"
#include "profile/symbol/symbolize.h"
#include "sonde/sonde.h"
#include "store/history.h"
#include "store/period.h"
#include "store/run/run.h"
#include "store/store.h"

#define FETCH_MAX ((size_t)1 << 30)
#define DURATION_DEFAULT_S 10
#define MEMORY_DEFAULT_S 1 /* what allocates has counted all along */
#define SAMPLE_RATE_HZ 1000 /* of a process that is looked at now */
#define SAMPLE_ROUTE "/debug/pprof/profile?format=run&seconds="
#define ROUNDING_NS 1000000u /* of times in a URL */
#define UNIX_TIME_MIN 1e9 /* smaller ones are seconds since the start */

static int cli_profile_tell_failure(const struct sonde_cli *cli, int code,
                                    const struct sonde_err *err)
{
    const int status = sonde_cli_fail(cli, "%s", err->text);
    const int theirs = code == SONDE_EFORMAT || code == SONDE_EVERSION || code == SONDE_ENOENT ||
                       code == SONDE_EINVAL;
    return theirs ? SONDE_EXIT_USAGE : status;
}

/* ---- Filter ---------------------------------------------------------------------------------- */

static int parse_seconds(const struct sonde_cli *cli, const char *option, const char *text,
                         double *out)
{
    double v;
    if (sonde_cli_number(text, &v) || !(v > -1e10 && v < 1e10)) {
        return sonde_cli_usage(cli, "--%s: '%s' is not a number of seconds", option, text);
    }
    *out = v;
    return SONDE_EXIT_OK;
}

/* So that a time ago is the same whenever it is asked for. */
static double cli_profile_now_s(void)
{
    static double now_s;
    if (!(now_s > 0)) now_s = sonde_clock_s(CLOCK_REALTIME);
    return now_s;
}

static int cli_profile_parse_time(const struct sonde_cli *cli, const char *option, const char *text,
                                  const struct sonde_profile *p, uint64_t *out)
{
    double v = 0;
    if (!text) return SONDE_EXIT_OK;
    const int status = parse_seconds(cli, option, text, &v);
    if (status) return status;
    if (v < 0) v += cli_profile_now_s();
    const uint64_t ns = v > 0 ? (uint64_t)(v * 1e9) : 0;
    *out = v >= UNIX_TIME_MIN ? ns : p->start_ns + ns;
    if (!*out) *out = 1; /* 0 would mean that there is no limit */
    return SONDE_EXIT_OK;
}

static int cli_profile_parse_trace(const struct sonde_cli *cli, const char *text,
                                   struct sonde_profile_filter *out)
{
    if (!text) return SONDE_EXIT_OK;
    if (sonde_trace_id_parse(text, &out->trace_hi, &out->trace_lo)) return SONDE_EXIT_OK;
    return sonde_cli_usage(cli, "--trace: '%s' is not 32 hexadecimal digits, or a UUID", text);
}

int sonde_cli_filter(const struct sonde_cli *cli, const struct sonde_cli_filter *v,
                     const struct sonde_profile *p, struct sonde_profile_filter *out)
{
    *out = (struct sonde_profile_filter){
        .kind = v->type ? sonde_sample_kind_find(v->type) : -1,
        .thread = v->thread,
        .span = v->span,
    };
    int status = cli_profile_parse_time(cli, "from", v->from, p, &out->from_ns);
    if (!status) status = cli_profile_parse_time(cli, "to", v->to, p, &out->to_ns);
    /* What cuts nothing off is not a limit: a history was asked for just this time. */
    if (p->start_ns && p->end_ns > p->start_ns) {
        if (out->from_ns && out->from_ns <= p->start_ns + ROUNDING_NS) out->from_ns = 0;
        if (out->to_ns + ROUNDING_NS >= p->end_ns) out->to_ns = 0;
    }
    if (!status) status = cli_profile_parse_trace(cli, v->trace, out);
    return status;
}

/* ---- Phases and requests --------------------------------------------------------------------- */

/* 0, or SONDE_EXIT_USAGE and what is wrong. */
static int parse_select(const struct sonde_cli *cli, const struct sonde_cli_filter *v,
                        struct sonde_select *out)
{
    struct sonde_err err;
    *out = (struct sonde_select){ .phase = v->phase, .request = v->request,
                                  .workers = v->workers };
    if (v->slowest && sonde_select_slowest(v->slowest, out, &err)) {
        return sonde_cli_usage(cli, "--slowest: %s", err.text);
    }
    if (v->slowest && v->request) return sonde_cli_usage(cli, "--request or --slowest, not both");
    if (v->workers && !sonde_select_asks(out)) {
        return sonde_cli_usage(cli, "--workers goes with --phase, --request or --slowest");
    }
    return SONDE_EXIT_OK;
}

static void cli_profile_put_amount(struct sonde_buf *b, int kind, uint64_t weight)
{
    char text[SONDE_WEIGHT_BYTES];
    sonde_buf_puts(b, sonde_weight_format(text, weight, (enum sonde_sample_kind)kind,
                                          sonde_text_locale_ascii()));
}

/* What the selection is, and what may belong to it and is not in it: one line for people. */
static void tell_selected(const struct sonde_cli *cli, const struct sonde_select *s, int kind,
                          const struct sonde_selected *found)
{
    struct sonde_buf b;
    if (cli->quiet) return;
    sonde_buf_init(&b, 4096);
    if (found->requests_all) {
        sonde_buf_printf(&b, "%llu of %llu requests, ", (unsigned long long)found->requests,
                         (unsigned long long)found->requests_all);
    }
    if (s->phase) sonde_buf_printf(&b, "phase %s, ", s->phase);
    cli_profile_put_amount(&b, kind, found->own[kind] + (s->workers ? found->workers[kind] : 0));
    sonde_buf_printf(&b, " of %s", sonde_sample_kind_title((enum sonde_sample_kind)kind));
    if (found->workers[kind]) {
        sonde_buf_puts(&b, s->workers ? ", of which " : "; ");
        cli_profile_put_amount(&b, kind, found->workers[kind]);
        sonde_buf_puts(&b, s->workers ? " on threads without a span of their own"
                                      : " more on threads without a span of their own: --workers "
                                        "takes them in");
    }
    if (found->ambiguous[kind]) {
        sonde_buf_puts(&b, "; left out: ");
        cli_profile_put_amount(&b, kind, found->ambiguous[kind]);
        sonde_buf_puts(&b, " on such threads while other work ran too");
    }
    if (!b.error) sonde_visible_printf(STDERR_FILENO, "sonde: %s\n", b.data);
    sonde_buf_release(&b);
}

/* What the filter will take for the kind, of what is left. */
static int kind_shown(const struct sonde_cli_filter *v, const struct sonde_selected *found)
{
    if (v->type) return sonde_sample_kind_find(v->type);
    int k = 0;
    while (k + 1 < SONDE_SAMPLE_KIND_COUNT && !found->own[k] && !found->workers[k]) k++;
    return k;
}

static int apply_select(const struct sonde_cli *cli, const char *target,
                        const struct sonde_cli_filter *v, struct sonde_profile *p)
{
    struct sonde_select s;
    struct sonde_selected found;
    struct sonde_err err = { "" };
    int status = v ? parse_select(cli, v, &s) : SONDE_EXIT_OK;
    if (status || !v || !sonde_select_asks(&s)) return status;
    const int rc = sonde_profile_select(p, &s, &found, &err);
    if (rc == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", err.text);
    static const char *const hints[SONDE_SELECT_HINT_COUNT] = {
        [SONDE_SELECT_HINT_NONE] = "",
        [SONDE_SELECT_HINT_WORKERS] = " (--workers includes them)",
        [SONDE_SELECT_HINT_SPANS] = "; --span takes spans of any name",
    };
    if (rc) return sonde_cli_fail(cli, "%s: %s%s", target, err.text, hints[found.hint]);
    const int kind = kind_shown(v, &found);
    if (!found.own[kind] && found.untimed[kind]) {
        return sonde_cli_fail(cli, "%s: samples of %s are totals without times, so of no phase or "
                              "request; of memory there is --type alloc", target,
                              sonde_sample_kind_title((enum sonde_sample_kind)kind));
    }
    if (found.own[kind] || found.workers[kind]) tell_selected(cli, &s, kind, &found);
    return SONDE_EXIT_OK;
}

/* ---- Where it comes from --------------------------------------------------------------------- */

int sonde_cli_is_memory(const char *type)
{
    const int kind = type ? sonde_sample_kind_find(type) : -1;
    return kind >= 0 && sonde_sample_kind_is_bytes((enum sonde_sample_kind)kind);
}

/* What of a history is asked for: from and to as unix time, or negative, so long ago. Others are
 * seconds of a recording, and no history is meant. */
struct cli_profile_range {
    int asked;
    struct sonde_history_query q;
};

static int cli_profile_parse_moment(const struct sonde_cli *cli, const char *option,
                                    const char *text, struct cli_profile_range *r, double *out)
{
    double v = 0;
    if (!text) return SONDE_EXIT_OK;
    const int status = parse_seconds(cli, option, text, &v);
    if (status || (v >= 0 && v < UNIX_TIME_MIN)) return status;
    r->asked = 1;
    *out = v < 0 ? cli_profile_now_s() + v : v;
    return SONDE_EXIT_OK;
}

static int cli_profile_parse_range(const struct sonde_cli *cli, const struct sonde_cli_filter *v,
                                   struct cli_profile_range *out)
{
    *out = (struct cli_profile_range){ 0 };
    if (!v) return SONDE_EXIT_OK;
    out->q.heap = sonde_cli_is_memory(v->type) && strcmp(v->type, "alloc") != 0;
    int status = cli_profile_parse_moment(cli, "from", v->from, out, &out->q.from_s);
    if (!status) status = cli_profile_parse_moment(cli, "to", v->to, out, &out->q.to_s);
    return status;
}

/* A URL without a path is an agent's. */
static int profile_url(const char *url, double seconds, int memory,
                       const struct cli_profile_range *r, char *out, size_t out_size)
{
    const char *host = strstr(url, "://") + 3;
    const char *path = strchr(host, '/');
    /* A profile that an agent keeps is wanted as a run file, which has everything. */
    static const char kept[] = "/admin/profiles/";
    const int is_kept = path && !strncmp(path, kept, sizeof(kept) - 1) && !strchr(path, '?');
    if (path && path[1]) {
        return snprintf(out, out_size, "%s%s", url, is_kept ? "?format=run" : "") < (int)out_size
                   ? 0
                   : -1;
    }
    char route[160];
    if (r->asked) {
        snprintf(route, sizeof(route), "/api/profile?format=run&from=%.3f&to=%.3f%s", r->q.from_s,
                 r->q.to_s > 0 ? r->q.to_s : 1e10, r->q.heap ? "&type=live" : "");
    } else if (memory) {
        snprintf(route, sizeof(route), "/debug/pprof/heap?format=run");
    } else {
        snprintf(route, sizeof(route), SAMPLE_ROUTE "%g", seconds);
    }
    return sonde_cli_url(out, out_size, url, route);
}

static int cli_profile_fetch(const struct sonde_cli *cli, const char *url, double seconds,
                             int memory, const struct cli_profile_range *r,
                             struct sonde_profile **out)
{
    char full[4096];
    if (profile_url(url, seconds, memory, r, full, sizeof(full)) != 0) {
        return sonde_cli_usage(cli, "too long a URL");
    }
    if (strstr(full, SAMPLE_ROUTE) && !cli->quiet && isatty(STDERR_FILENO)) {
        sonde_visible_printf(STDERR_FILENO, "sonde: the agent at %s samples for %g s\n", url,
                             seconds);
    }
    struct sonde_progress progress;
    struct sonde_buf body;
    struct sonde_err err = { "" };
    int status = SONDE_EXIT_OK;
    sonde_progress_begin(&progress, cli, "waiting for", url);
    int rc = sonde_cli_fetch(full, FETCH_MAX, seconds + SONDE_CLI_FETCH_S, &body, &err);
    const int fetched = !rc;
    if (!rc) rc = sonde_run_load_bytes(body.data ? body.data : "", body.len, full, out, &err);
    sonde_progress_end(&progress);
    if (!fetched) status = sonde_cli_fail(cli, "%s", err.text);
    else if (rc) status = cli_profile_tell_failure(cli, rc, &err);
    sonde_buf_release(&body);
    return status;
}

/* "FILE:NAME", where FILE is there: a profile of a store. Returns NAME, and FILE in path. */
static const char *in_store(const char *target, char *path, size_t path_size)
{
    const char *colon = strrchr(target, ':');
    if (!colon || colon == target || !colon[1] || access(target, F_OK) == 0) return NULL;
    if ((size_t)(colon - target) >= path_size) return NULL;
    snprintf(path, path_size, "%.*s", (int)(colon - target), target);
    return access(path, F_OK) == 0 ? colon + 1 : NULL;
}

int sonde_cli_in_store(const char *target)
{
    char path[4096];
    return in_store(target, path, sizeof(path)) != NULL;
}

static int read_store(const struct sonde_cli *cli, const char *path, const char *name,
                      struct sonde_profile **out)
{
    const struct sonde_store_ops *ops = &sonde_store_sqlite;
    const struct sonde_store_options o = { .path = path, .read_only = 1 };
    struct sonde_store_found found;
    struct sonde_store *store = NULL;
    struct sonde_buf data;
    struct sonde_progress progress;
    struct sonde_err err = { "" };
    sonde_buf_init(&data, FETCH_MAX);
    sonde_progress_begin(&progress, cli, "reading", path);
    int rc = ops->open(&o, &store, &err);
    if (!rc) rc = sonde_store_profile_find(ops, store, name, &found, &err);
    if (!rc) rc = ops->profile_get(store, found.id, &data, &err);
    if (!rc) rc = sonde_run_load_bytes(data.data, data.len, name, out, &err);
    ops->close(store);
    sonde_progress_end(&progress);
    sonde_buf_release(&data);
    if (!rc) return SONDE_EXIT_OK;
    struct sonde_err where;
    sonde_err_set(&where, rc, "%s: %s", path, err.text);
    return cli_profile_tell_failure(cli, rc, &where);
}

/* How a process is sampled for what filter asks for. */
static struct sonde_watch_options sample_options(const struct sonde_cli *cli,
                                                 const struct sonde_cli_filter *filter)
{
    const int memory = filter && sonde_cli_is_memory(filter->type);
    struct sonde_watch_options o = {
        .cpu = memory ? SONDE_WATCH_NO : SONDE_WATCH_MUST,
        .heap = memory ? SONDE_WATCH_MUST : SONDE_WATCH_NO,
        .leaks = 1,
        .children = 1,
        .cpu_options = sonde_cli_cpu_options(cli),
        .heap_options = sonde_cli_heap_options(cli),
    };
    o.cpu_options.rate_hz = SAMPLE_RATE_HZ;
    o.cpu_options.off_cpu = filter && filter->type && !strcmp(filter->type, "off-cpu");
    return o;
}

static int take_profile(struct sonde_profile *p, void *arg)
{
    *(struct sonde_profile **)arg = p;
    return SONDE_EXIT_OK;
}

static int cli_profile_sample(struct sonde_cli *cli, uint32_t pid, double seconds,
                              const struct sonde_cli_filter *filter, struct sonde_profile **out)
{
    struct sonde_watch_options o = sample_options(cli, filter);
    o.pid = pid;
    o.duration_s = seconds;
    o.progress = 1;
    o.on_profile = take_profile;
    o.on_profile_arg = out;
    return sonde_watch_run(cli, &o);
}

/* All that a store has of that time; of memory in use how heaps stood. */
static int load_history(const struct sonde_cli *cli, const char *path,
                        const struct cli_profile_range *r, struct sonde_profile **out)
{
    const struct sonde_store_ops *ops = &sonde_store_sqlite;
    const struct sonde_store_options o = { .path = path, .read_only = 1 };
    struct sonde_store *store = NULL;
    struct sonde_progress progress;
    struct sonde_err err = { "" };
    sonde_progress_begin(&progress, cli, "reading", path);
    int rc = ops->open(&o, &store, &err);
    if (!rc && r->q.heap) {
        rc = sonde_history_merge(ops, store, &r->q, out, &err);
        if (rc == SONDE_ENOENT && sonde_history_is_empty(ops, store, 1)) {
            sonde_err_set(&err, rc, "%s; --continuous turns it on", err.text);
        }
    } else if (!rc) {
        const struct sonde_period_source from = { ops, store, ops, store };
        rc = sonde_period_profile(&from, &r->q, cli_profile_now_s(), out, &err);
    }
    ops->close(store);
    sonde_progress_end(&progress);
    if (!rc) return SONDE_EXIT_OK;
    const int status = sonde_cli_fail(cli, "%s: %s", path, err.text);
    return rc == SONDE_ENOENT || rc == SONDE_EINVAL ? SONDE_EXIT_USAGE : status;
}

/* Names for the addresses of a profile that has none; without, it is shown as module+offset. */
static void name_addresses(struct sonde_profile *p)
{
    struct sonde_symbolizer *s;
    if (sonde_symbolizer_create(&s)) return;
    sonde_symbolize(s, p);
    sonde_symbolizer_destroy(s);
}

int sonde_cli_import(const struct sonde_cli *cli, const char *path, struct sonde_import *how,
                     struct sonde_profile **out)
{
    struct sonde_profile *p;
    struct sonde_progress progress;
    struct sonde_err err = { "" };
    sonde_progress_begin(&progress, cli, "reading", path);
    const int rc = sonde_run_import(path, how, &p, &err);
    if (!rc && how->addresses) name_addresses(p);
    sonde_progress_end(&progress);
    if (rc) return cli_profile_tell_failure(cli, rc, &err);
    if (how->note.text[0] && !cli->quiet) {
        struct sonde_err note;
        sonde_err_set(&note, 0, "%s: %s", strcmp(path, "-") ? path : "standard input",
                      how->note.text);
        sonde_visible_printf(STDERR_FILENO, "sonde: %s\n", note.text);
    }
    *out = p;
    return SONDE_EXIT_OK;
}

static int cli_profile_take(struct sonde_cli *cli, const char *target, double duration_s,
                            const struct sonde_cli_filter *filter, struct sonde_profile **out)
{
    const int memory = filter && sonde_cli_is_memory(filter->type);
    const double seconds = duration_s > 0 ? duration_s
                                          : memory ? MEMORY_DEFAULT_S : DURATION_DEFAULT_S;
    uint32_t pid;
    struct cli_profile_range range;
    const int status = cli_profile_parse_range(cli, filter, &range);
    if (status) return status;
    if (sonde_cli_is_url(target)) {
        return cli_profile_fetch(cli, target, seconds, memory, &range, out);
    }
    if (sonde_cli_parse_pid(target, &pid) == 0 && access(target, F_OK) != 0) {
        return cli_profile_sample(cli, pid, seconds, filter, out);
    }
    if (!strcmp(target, "-") && isatty(STDIN_FILENO)) {
        return sonde_cli_usage(cli, "'-' is the standard input, and that is a terminal");
    }
    char path[4096];
    const char *name = in_store(target, path, sizeof(path));
    if (name) return read_store(cli, path, name, out);
    if (sonde_store_is_file(target)) return load_history(cli, target, &range, out);
    struct sonde_import how = { 0 };
    return sonde_cli_import(cli, target, &how, out);
}

/* The part of p that filter asks for. */
static int cli_profile_finish(struct sonde_cli *cli, const char *target,
                              const struct sonde_cli_filter *filter, struct sonde_profile *p)
{
    const int status = apply_select(cli, target, filter, p);
    if (!status && sonde_strip_on() && sonde_profile_strip(p) != 0) {
        return sonde_cli_fail(cli, "out of memory");
    }
    return status;
}

int sonde_cli_profile(struct sonde_cli *cli, const char *target, double duration_s,
                      const struct sonde_cli_filter *filter, struct sonde_profile **out)
{
    struct sonde_select s;
    struct sonde_profile *p;
    /* What is wrong is said before anything is sampled. */
    int status = filter ? parse_select(cli, filter, &s) : SONDE_EXIT_OK;
    if (!status) status = cli_profile_take(cli, target, duration_s, filter, &p);
    if (status) return status;
    status = cli_profile_finish(cli, target, filter, p);
    if (status) sonde_profile_destroy(p);
    else *out = p;
    return status;
}

struct command {
    struct sonde_cli *cli;
    const struct sonde_cli_filter *filter;
    int (*use)(struct sonde_cli *cli, struct sonde_profile *p);
};

static int use_profile(struct sonde_profile *p, void *arg)
{
    const struct command *c = arg;
    int status = cli_profile_finish(c->cli, c->cli->operands[0], c->filter, p);
    if (!status) status = c->use(c->cli, p);
    sonde_profile_destroy(p);
    return status;
}

int sonde_cli_profile_command(struct sonde_cli *cli, char **argv, double duration_s, int stop,
                              const struct sonde_cli_filter *filter,
                              int (*use)(struct sonde_cli *cli, struct sonde_profile *p))
{
    struct sonde_select s;
    struct command c = { cli, filter, use };
    const int status = parse_select(cli, filter, &s);
    if (status) return status;
    struct sonde_watch_options o = sample_options(cli, filter);
    o.argv = argv;
    o.duration_s = duration_s;
    o.stop = stop;
    o.llama = 1;
    o.on_profile = use_profile;
    o.on_profile_arg = &c;
    return sonde_watch_run(cli, &o);
}
