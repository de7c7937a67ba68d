/* profile.c - see profile.h. */
#include "cli/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/heap.h"
#include "sonde/sonde.h"
#include "store/run.h"

#define FETCH_MAX ((size_t)1 << 30)
#define DURATION_DEFAULT_S 10
#define MEMORY_DEFAULT_S 1 /* what allocates has counted all along */
#define SAMPLE_RATE_HZ 1000 /* of a process that is looked at now */
#define UNIX_TIME_MIN 1e9 /* smaller ones are seconds since the start */

int sonde_cli_profile_failed(const struct sonde_cli *cli, int code, const struct sonde_err *err)
{
    const int status = sonde_cli_fail(cli, "%s", err->text);
    const int theirs = code == SONDE_EFORMAT || code == SONDE_EVERSION || code == SONDE_ENOENT ||
                       code == SONDE_EINVAL;
    return theirs ? SONDE_EXIT_USAGE : status;
}

/* ---- Filter ---------------------------------------------------------------------------------- */

static int parse_time(const struct sonde_cli *cli, const char *option, const char *text,
                      const struct sonde_profile *p, uint64_t *out)
{
    if (!text) return SONDE_EXIT_OK;
    char *end;
    errno = 0;
    const double v = strtod(text, &end);
    if (!*text || text[strspn(text, "0123456789.eE+-")] || *end || errno || !(v >= 0 && v < 1e10)) {
        return sonde_cli_usage(cli, "--%s: '%s' is not a number of seconds", option, text);
    }
    /* 0 would mean that there is no limit. */
    const uint64_t ns = (uint64_t)(v * 1e9);
    *out = v >= UNIX_TIME_MIN ? ns : p->start_ns + (ns ? ns : 1);
    return SONDE_EXIT_OK;
}

static int parse_trace(const struct sonde_cli *cli, const char *text,
                       struct sonde_profile_filter *out)
{
    if (!text) return SONDE_EXIT_OK;
    char half[17] = "";
    if (strlen(text) == 32 && strspn(text, "0123456789abcdefABCDEF") == 32) {
        memcpy(half, text, 16);
        out->trace_hi = strtoull(half, NULL, 16);
        out->trace_lo = strtoull(text + 16, NULL, 16);
    }
    if (out->trace_hi || out->trace_lo) return SONDE_EXIT_OK;
    return sonde_cli_usage(cli, "--trace: '%s' is not 32 hexadecimal digits", text);
}

int sonde_cli_filter(const struct sonde_cli *cli, const struct sonde_cli_filter *v,
                     const struct sonde_profile *p, struct sonde_profile_filter *out)
{
    *out = (struct sonde_profile_filter){
        .kind = v->type ? sonde_sample_kind_find(v->type) : -1,
        .thread = v->thread,
        .span = v->span,
    };
    int status = parse_time(cli, "from", v->from, p, &out->from_ns);
    if (!status) status = parse_time(cli, "to", v->to, p, &out->to_ns);
    if (!status) status = parse_trace(cli, v->trace, out);
    return status;
}

/* ---- Where it comes from --------------------------------------------------------------------- */

int sonde_cli_is_memory(const char *type)
{
    const int kind = type ? sonde_sample_kind_find(type) : -1;
    return kind >= 0 && !strcmp(sonde_sample_kind_unit((enum sonde_sample_kind)kind), "bytes");
}

/* A URL without a path is an agent's. */
static int profile_url(const char *url, double seconds, int memory, char *out, size_t out_size)
{
    const char *host = strstr(url, "://") + 3;
    const char *path = strchr(host, '/');
    if (path && path[1]) return snprintf(out, out_size, "%s", url) < (int)out_size ? 0 : -1;
    char route[80];
    if (memory) snprintf(route, sizeof(route), "/debug/pprof/heap");
    else snprintf(route, sizeof(route), "/debug/pprof/profile?seconds=%g", seconds);
    return sonde_cli_url(out, out_size, url, route);
}

static int fetch(const struct sonde_cli *cli, const char *url, double seconds, int memory,
                 struct sonde_profile **out)
{
    char full[4096];
    if (profile_url(url, seconds, memory, full, sizeof(full)) != 0) {
        return sonde_cli_usage(cli, "too long a URL");
    }
    struct sonde_buf body;
    struct sonde_err err = { "" };
    int rc = sonde_cli_fetch(full, FETCH_MAX, seconds + SONDE_CLI_FETCH_S, &body, &err);
    int status = rc ? sonde_cli_fail(cli, "%s", err.text) : SONDE_EXIT_OK;
    if (!rc) {
        rc = sonde_run_load_bytes(body.data ? body.data : "", body.len, full, out, &err);
        if (rc) status = sonde_cli_profile_failed(cli, rc, &err);
    }
    sonde_buf_release(&body);
    return status;
}

static int sample(struct sonde_cli *cli, uint32_t pid, double seconds,
                  const struct sonde_cli_filter *filter, struct sonde_profile **out)
{
    const int memory = filter && sonde_cli_is_memory(filter->type);
    struct sonde_session_options o = {
        .pid = pid,
        .duration_s = seconds,
        .cpu = memory ? SONDE_SESSION_NO : SONDE_SESSION_MUST,
        .heap = memory ? SONDE_SESSION_MUST : SONDE_SESSION_NO,
        .leaks = 1,
        .cpu_options = sonde_cli_cpu_options(cli),
        .mem_options = sonde_cli_mem_options(cli),
        .profile = out,
    };
    o.cpu_options.rate_hz = SAMPLE_RATE_HZ;
    o.cpu_options.off_cpu = filter && filter->type && !strcmp(filter->type, "off-cpu");
    if (!cli->quiet && isatty(STDERR_FILENO)) {
        dprintf(STDERR_FILENO, "sonde: sampling process %u for %g s; Ctrl-C ends it\n", pid,
                seconds);
    }
    return sonde_session_run(cli, &o);
}

int sonde_cli_profile(struct sonde_cli *cli, const char *target, double duration_s,
                      const struct sonde_cli_filter *filter, struct sonde_profile **out)
{
    const int memory = filter && sonde_cli_is_memory(filter->type);
    const double seconds = duration_s > 0 ? duration_s
                                          : memory ? MEMORY_DEFAULT_S : DURATION_DEFAULT_S;
    uint32_t pid;
    if (sonde_cli_is_url(target)) return fetch(cli, target, seconds, memory, out);
    if (sonde_cli_parse_pid(target, &pid) == 0 && access(target, F_OK) != 0) {
        return sample(cli, pid, seconds, filter, out);
    }
    if (!strcmp(target, "-") && isatty(STDIN_FILENO)) {
        return sonde_cli_usage(cli, "'-' is the standard input, and that is a terminal");
    }
    struct sonde_err err = { "" };
    const int rc = sonde_run_load(target, out, &err);
    return rc ? sonde_cli_profile_failed(cli, rc, &err) : SONDE_EXIT_OK;
}
