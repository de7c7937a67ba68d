/* route.c - the table of routes, and what their handlers share. */
#include "serve/http/route.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/trace_id.h"
#include "profile/profile.h"
#include "serve/http/server.h"
#include "serve/http/status.h"
#include "sonde/sonde.h"
#include "store/run/run.h"

#define SONDE_ROUTE(id) extern const struct sonde_route sonde_route_##id;
#include "serve/http/route_list.h"
#undef SONDE_ROUTE

const struct sonde_route *const sonde_routes[] = {
#define SONDE_ROUTE(id) &sonde_route_##id,
#include "serve/http/route_list.h"
#undef SONDE_ROUTE
    NULL,
};

/* 1 if path is of this route. *name as in sonde_route_find. */
static int path_matches(const struct sonde_route *route, const char *path, const char **name)
{
    const char *star = strchr(route->path, '*');
    *name = NULL;
    if (!star) return strcmp(route->path, path) == 0;
    const size_t before = (size_t)(star - route->path);
    if (strncmp(route->path, path, before) != 0) return 0;
    *name = path + before;
    const size_t part = strcspn(*name, "/");
    return part && strcmp(*name + part, star + 1) == 0;
}

const struct sonde_route *sonde_route_find(const char *path, const char *method, const char **name,
                                           char *allow, size_t allow_size)
{
    size_t used = 0;
    assert(path && method && name && (allow || !allow_size));
    if (allow_size) *allow = '\0';
    if (strcmp(method, "HEAD") == 0) method = "GET";
    for (size_t i = 0; sonde_routes[i]; i++) {
        const struct sonde_route *route = sonde_routes[i];
        if (!path_matches(route, path, name)) continue;
        if (strcmp(route->method, method) == 0) return route;
        if (used >= allow_size || strstr(allow, route->method)) continue;
        used += (size_t)snprintf(allow + used, allow_size - used, "%s%s%s", used ? ", " : "",
                                 route->method, strcmp(route->method, "GET") == 0 ? ", HEAD" : "");
    }
    return NULL;
}

void sonde_response_error(struct sonde_response *answer, unsigned status, const char *format, ...)
{
    assert(status >= 400 && status < 600);
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    answer->status = status;
    answer->content_type = "application/json";
    answer->packed = 0;
    answer->filename = NULL;
    sonde_buf_reset(&answer->body);
    sonde_buf_putc(&answer->body, '{');
    sonde_json_str(&answer->body, "error", text);
    sonde_buf_puts(&answer->body, "}\n");
}

void sonde_response_failed(struct sonde_response *answer, int rc, const struct sonde_err *err)
{
    assert(rc < 0);
    if (answer->body.error) return;
    const char *why = rc == SONDE_ENOMEM ? "the agent is out of memory" : sonde_strerror(rc);
    sonde_response_error(answer, sonde_http_status(rc), "%s", err && *err->text ? err->text : why);
}

const struct sonde_server_file *sonde_http_file(const struct sonde_http_request *r,
                                                const char *name)
{
    for (size_t i = 0; i < r->file_count; i++) {
        if (!strcmp(r->files[i].name, name)) return &r->files[i];
    }
    return NULL;
}

struct sonde_store *sonde_http_history(const struct sonde_http_request *r)
{
    struct sonde_store_stats stats;
    assert(r->agent && (!r->agent->store || r->agent->store_ops));
    if (r->agent->store || !r->agent->temporary) return r->agent->store;
    r->agent->store_ops->stats(r->agent->temporary, &stats);
    return stats.off ? NULL : r->agent->temporary;
}

const char *sonde_http_param(const struct sonde_http_request *r, const char *name)
{
    assert(r->param_count <= SONDE_PARAMS_MAX);
    for (size_t i = 0; i < r->param_count; i++) {
        if (strcmp(r->params[i].name, name) == 0) return r->params[i].value;
    }
    return NULL;
}

int sonde_http_number(const struct sonde_http_request *r, struct sonde_response *answer,
                      const char *name, double min, double max, double *out)
{
    assert(min <= max && out);
    const char *text = sonde_http_param(r, name);
    if (!text) return 1;
    char *end;
    const double v = strtod(text, &end);
    /* Digits first: strtod also takes blanks, nan, inf and hexadecimal. */
    if (strspn(text, "0123456789.eE+-") != strlen(text) || end == text || *end || !isfinite(v) ||
        v < min || v > max) {
        sonde_response_error(answer, 400, "parameter %s: \"%.100s\" is not a number from %g to %g",
                             name, text, min, max);
        return 0;
    }
    *out = v;
    return 1;
}

int sonde_http_count(const struct sonde_http_request *r, struct sonde_response *answer,
                     const char *name, uint64_t max, uint64_t *out)
{
    assert(max >= 1 && out);
    const char *text = sonde_http_param(r, name);
    if (!text) return 1;
    errno = 0;
    const unsigned long long v = strtoull(text, NULL, 10);
    if (!*text || strspn(text, "0123456789") != strlen(text) || errno || v < 1 || v > max) {
        sonde_response_error(answer, 400,
                             "parameter %s: \"%.100s\" is not a whole number from 1 to %llu",
                             name, text, (unsigned long long)max);
        return 0;
    }
    *out = v;
    return 1;
}

int sonde_http_range(const struct sonde_http_request *r, struct sonde_response *answer,
                     double *from_s, double *to_s)
{
    if (!sonde_http_number(r, answer, "from", 0, SONDE_TIME_MAX_S, from_s) ||
        !sonde_http_number(r, answer, "to", 0, SONDE_TIME_MAX_S, to_s)) {
        return 0;
    }
    if (!(*to_s > 0) || *to_s >= *from_s) return 1;
    sonde_response_error(answer, 400, "parameter to: it is before from");
    return 0;
}

int sonde_http_trace(const struct sonde_http_request *r, struct sonde_response *answer,
                     uint64_t *hi, uint64_t *lo)
{
    const char *text = sonde_http_param(r, "trace");
    if (!text || sonde_trace_id_parse(text, hi, lo)) return 1;
    sonde_response_error(answer, 400,
                         "parameter trace: \"%.100s\" is not a trace id of 32 hexadecimal "
                         "digits, or a UUID",
                         text);
    return 0;
}

static int route_has(const void *part, struct sonde_response *answer)
{
    if (!part) sonde_response_error(answer, 404, "this agent does not capture profiles");
    return part != NULL;
}

int sonde_http_has_profiler(const struct sonde_http_request *r, struct sonde_response *answer)
{
    return route_has(r->agent->profiler, answer);
}

int sonde_http_has_sessions(const struct sonde_http_request *r, struct sonde_response *answer)
{
    return route_has(r->agent->sessions, answer);
}

int sonde_http_kind(const struct sonde_http_request *r)
{
    const char *type = sonde_http_param(r, "type");
    return type ? sonde_sample_kind_find(type) : -1;
}

struct sonde_flamegraph_options sonde_http_picture(const struct sonde_http_request *r, int html)
{
    return (struct sonde_flamegraph_options){ .colors = r->colors,
                                              .min_width = r->min_width[html != 0] };
}

void sonde_response_run(struct sonde_response *answer, const struct sonde_profile *p)
{
    struct sonde_err err = { "" };
    assert(p && !answer->body.len);
    const int rc = sonde_run_save_bytes(p, &answer->body, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    answer->content_type = "application/vnd.sqlite3";
    answer->filename = "profile.run";
}

int sonde_http_wants_run(const struct sonde_http_request *r)
{
    const char *format = sonde_http_param(r, "format");
    return format && !strcmp(format, "run");
}
