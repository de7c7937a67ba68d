/* flame_read.c - what of flame.h a request asks for. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hex.h"
#include "serve/api/flame_private.h"
#include "sonde/sonde.h"

#define RANGE_DEFAULT_S 60.0
#define METRIC_MAX 1e15

static int is_set(const struct sonde_http_request *r, const char *name, int otherwise)
{
    const char *text = sonde_http_param(r, name);
    return text ? text[0] == '1' : otherwise;
}

/* NULL if it is not there, or empty. */
static const char *api_flame_read_text_of(const struct sonde_http_request *r, const char *name)
{
    const char *text = sonde_http_param(r, name);
    return text && *text ? text : NULL;
}

/* ---- Focus ----------------------------------------------------------------------------------- */

/* "%3B" and "%25" in a name; anything that is not such a code stays. */
static void api_flame_read_decode(char *text)
{
    char *to = text;
    for (const char *s = text; *s; s++) {
        const int byte = sonde_hex_escape(s);
        *to++ = byte > 0 ? (char)byte : *s;
        if (byte > 0) s += 2;
    }
    *to = '\0';
}

/* "main;f%3Bg": names from the root. */
static int read_focus(const char *text, struct sonde_api_flame_query *out)
{
    size_t count = 1;
    if (!text) return 0;
    out->focus_text = sonde__strdup(text);
    for (const char *s = text; *s; s++) count += *s == ';';
    out->focus = sonde__calloc(count, sizeof(*out->focus));
    if (!out->focus_text || !out->focus) return SONDE_ENOMEM;
    for (char *at = out->focus_text, *end; at; at = end) {
        end = strchr(at, ';');
        if (end) *end++ = '\0';
        api_flame_read_decode(at);
        out->focus[out->focus_count++] = at;
    }
    return 0;
}

/* ---- Sides ----------------------------------------------------------------------------------- */

static int read_choice(const struct sonde_http_request *r, struct sonde_response *answer,
                       struct sonde_api_flame_side *out)
{
    const char *metric = api_flame_read_text_of(r, "metric");
    struct sonde_select unused = { 0 };
    struct sonde_err err = { "" };
    out->thread = api_flame_read_text_of(r, "thread");
    out->span = api_flame_read_text_of(r, "span");
    out->phase = api_flame_read_text_of(r, "phase");
    out->request = api_flame_read_text_of(r, "request");
    out->slowest = api_flame_read_text_of(r, "slowest");
    out->model = api_flame_read_text_of(r, "model");
    out->route = api_flame_read_text_of(r, "route");
    out->workers = is_set(r, "workers", 0);
    if (metric) out->metric = (enum sonde_request_metric)sonde_request_metric_find(metric);
    if (!sonde_http_number(r, answer, "min", 0, METRIC_MAX, &out->min) ||
        !sonde_http_number(r, answer, "max", 0, METRIC_MAX, &out->max)) {
        return 0;
    }
    if (!metric && (out->min > 0 || out->max > 0)) out->metric = SONDE_METRIC_TOTAL;
    if (!!out->request + !!out->slowest + (out->metric != SONDE_METRIC_NONE) > 1) {
        sonde_response_error(answer, 400, "only one of request, slowest and metric can be given");
        return 0;
    }
    if (out->slowest && sonde_select_slowest(out->slowest, &unused, &err) != 0) {
        sonde_response_error(answer, 400, "parameter slowest: %s", err.text);
        return 0;
    }
    if (out->live && (out->thread || out->span || flame_asks_choice(out))) {
        sonde_response_error(answer, 400,
                             "heaps as they are now have no threads, phases or requests: "
                             "leave out live to look at what was allocated over time (type=alloc)");
        return 0;
    }
    return 1;
}

/* A range that ends now, or a while after it begins if that is later, unless it says otherwise.
 * 0: the error is in answer. */
static int complete_range(struct sonde_response *answer, const char *to,
                          struct sonde_api_flame_side *out)
{
    out->no_range = !(out->from_s > 0) && !(out->to_s > 0);
    if (!out->profile && !out->live) {
        const double now_s = sonde_clock_s(CLOCK_REALTIME);
        if (!(out->to_s > 0)) {
            out->to_s = out->from_s < now_s ? now_s : out->from_s + RANGE_DEFAULT_S;
        }
        if (!(out->from_s > 0)) out->from_s = fmax(0, out->to_s - RANGE_DEFAULT_S);
    }
    if (!(out->to_s > 0) || out->to_s > out->from_s) return 1;
    sonde_response_error(answer, 400, "parameter %s: it must be after the start of the range", to);
    return 0;
}

static int read_side(const struct sonde_http_request *r, struct sonde_response *answer,
                     struct sonde_api_flame_side *out)
{
    uint64_t pid = 0;
    *out = (struct sonde_api_flame_side){ .profile = api_flame_read_text_of(r, "profile"),
                                          .process = api_flame_read_text_of(r, "process"),
                                          .live = is_set(r, "live", 0) };
    if (!sonde_http_number(r, answer, "from", 0, SONDE_TIME_MAX_S, &out->from_s) ||
        !sonde_http_number(r, answer, "to", 0, SONDE_TIME_MAX_S, &out->to_s) ||
        !sonde_http_count(r, answer, "pid", UINT32_MAX, &pid)) {
        return 0;
    }
    out->pid = (uint32_t)pid;
    if (out->live && out->profile) {
        sonde_response_error(answer, 400,
                             "a stored profile or heaps as they are now, not both: leave out "
                             "profile or live");
        return 0;
    }
    return complete_range(answer, "to", out) && read_choice(r, answer, out);
}

/* What it is compared with: another time or profile, of the same phase, thread and so on; or the
 * other requests. */
static int read_base(const struct sonde_http_request *r, struct sonde_response *answer,
                     struct sonde_api_flame_query *out)
{
    struct sonde_api_flame_side *base = &out->base;
    double from_s = 0, to_s = 0;
    const char *profile = api_flame_read_text_of(r, "base_profile");
    const int rest = api_flame_read_text_of(r, "base") != NULL;
    if (!sonde_http_number(r, answer, "base_from", 0, SONDE_TIME_MAX_S, &from_s) ||
        !sonde_http_number(r, answer, "base_to", 0, SONDE_TIME_MAX_S, &to_s)) {
        return 0;
    }
    out->has_base = rest || profile || from_s > 0 || to_s > 0;
    if (!out->has_base) return 1;
    if (rest && (profile || from_s > 0 || to_s > 0)) {
        sonde_response_error(answer, 400,
                             "base=rest and another time or profile exclude each other: "
                             "leave out base");
        return 0;
    }
    *base = out->side;
    if (rest) {
        base->rest = 1;
        if (flame_asks_requests(base)) return 1;
        sonde_response_error(answer, 400,
                             "parameter base: \"rest\" needs a choice of requests; add request, "
                             "slowest, metric, model or route");
        return 0;
    }
    base->live = 0;
    base->profile = profile;
    base->from_s = from_s;
    base->to_s = to_s;
    base->request = base->slowest = NULL;
    base->metric = SONDE_METRIC_NONE;
    return complete_range(answer, "base_to", base);
}

int sonde_api_flame_read(const struct sonde_http_request *r, struct sonde_response *answer,
                         struct sonde_api_flame_query *out)
{
    uint64_t nodes = SONDE_API_FLAME_NODES_DEFAULT;
    const char *type = api_flame_read_text_of(r, "type");
    *out = (struct sonde_api_flame_query){ .functions = is_set(r, "functions", 1),
                                           .fold = is_set(r, "fold", 0),
                                           .invert = is_set(r, "invert", 0),
                                           .empty = is_set(r, "empty", 0),
                                           .kind = type ? sonde_sample_kind_find(type) : -1 };
    if (!read_side(r, answer, &out->side) || !read_base(r, answer, out) ||
        !sonde_http_count(r, answer, "nodes", SONDE_API_FLAME_NODES_MAX, &nodes)) {
        return 0;
    }
    if (read_focus(api_flame_read_text_of(r, "focus"), out) != 0) {
        sonde_response_failed(answer, SONDE_ENOMEM, NULL);
        return 0;
    }
    out->nodes = (uint32_t)nodes;
    if (!out->side.profile && !out->side.live && out->kind < 0) out->kind = SONDE_SAMPLE_CPU;
    if (out->side.live && out->kind < 0) out->kind = SONDE_SAMPLE_LIVE;
    return 1;
}

void sonde_api_flame_release(struct sonde_api_flame_query *q)
{
    sonde__free(q->focus_text);
    sonde__free(q->focus);
}
