/* scan_request.c - requests to inference servers; see scan.h. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "front/scan.h"
#include "front/scan_names.h"

static const struct sonde_json_name table[] = {
#define SONDE__X(name, keep) { #name, sizeof(#name) - 1, keep },
    SONDE_SCAN_NAMES(SONDE__X)
#undef SONDE__X
};

const struct sonde_json_names sonde_scan_names = { table, SONDE_COUNT(table) };

/* strtod obeys the locale, which may want a comma; the agent never calls setlocale for numbers. */
static double scan_request_number(const struct sonde_json_scan *j)
{
    char *end;
    const double v = strtod(j->text, &end);
    return end == j->text || *end ? -1 : v;
}

int64_t sonde_scan_count(const struct sonde_json_scan *j)
{
    const double v = scan_request_number(j);
    return v >= 0 && v <= 9007199254740992.0 ? (int64_t)v : -1;
}

int64_t sonde_scan_ns(const struct sonde_json_scan *j, double unit_ns)
{
    const double ns = scan_request_number(j) * unit_ns;
    return ns >= 0 && ns <= 365.0 * 86400e9 ? (int64_t)ns : -1;
}

enum { SEEN_MODEL = 1, SEEN_STREAM = 2, SEEN_MAX = 4, SEEN_ALL = 7 };

static void scan_request_limit(struct sonde_scan_request *s, const struct sonde_json_scan *j)
{
    s->max_tokens = sonde_scan_count(j);
    s->seen |= SEEN_MAX;
}

static void scan_request_on_value(void *arg, const struct sonde_json_scan *j,
                                  enum sonde_json_type type)
{
    struct sonde_scan_request *s = arg;
    const uint64_t path = j->depth <= 2 ? j->path : 0;
    if (j->depth == 1 && path == P1(model) && type == SONDE_JSON_STRING) {
        memcpy(s->model, j->text, j->text_len + 1);
        s->seen |= SEEN_MODEL;
    } else if (j->depth == 1 && path == P1(stream)) {
        if (type != SONDE_JSON_TRUE && type != SONDE_JSON_FALSE) return;
        s->stream = type == SONDE_JSON_TRUE;
        s->seen |= SEEN_STREAM;
    } else if (type == SONDE_JSON_NUMBER && j->depth == 1) {
        if (path == P1(max_tokens) || path == P1(max_completion_tokens) ||
            path == P1(max_output_tokens) || path == P1(n_predict)) {
            scan_request_limit(s, j);
        }
    } else if (type == SONDE_JSON_NUMBER && j->depth == 2) {
        if (path == P2(options, num_predict) || path == P2(parameters, max_new_tokens)) {
            scan_request_limit(s, j);
        }
    }
}

void sonde_scan_request_init(struct sonde_scan_request *s)
{
    s->model[0] = 0;
    s->stream = -1;
    s->max_tokens = -1;
    s->bytes = 0;
    s->seen = 0;
    s->over = 0;
    sonde_json_scan_init(&s->json, &sonde_scan_names, scan_request_on_value, s);
}

void sonde_scan_request_feed(struct sonde_scan_request *s, const char *data, size_t len)
{
    /* In steps: what is wanted mostly stands at the beginning, before a long prompt. */
    enum { STEP = 512 };
    for (size_t at = 0; at < len && !s->over; at += STEP) {
        const size_t n = len - at < STEP ? len - at : STEP;
        sonde_json_scan_feed(&s->json, data + at, n);
        s->bytes += n;
        s->over = s->seen == SEEN_ALL || s->bytes > SONDE_SCAN_REQUEST_MAX ||
                  sonde_json_scan_over(&s->json);
    }
}
