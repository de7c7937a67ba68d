/* filters.c - see filters.h. */
#include "serve/api/filters.h"

#include <assert.h>
#include <string.h>

#include "base/array.h"

static int request_filters_add_name(struct sonde_filters *f, struct sonde_response *answer,
                                    const char *name, size_t *names)
{
    if (*names == SONDE_FILTER_NAMES_MAX) {
        sonde_response_error(answer, 400, "parameter name: more than %d", SONDE_FILTER_NAMES_MAX);
        return 0;
    }
    f->filter[(*names)++].name = name;
    if (*names > f->count) f->count = *names;
    return 1;
}

static int request_filters_add_label(struct sonde_filters *f, struct sonde_response *answer,
                                     const char *text)
{
    const char *colon = strchr(text, ':');
    const size_t n = f->filter[0].label_count;
    const size_t len = colon ? (size_t)(colon - text) : 0;
    if (len == 0 || len > SONDE_NAME_MAX) {
        sonde_response_error(answer, 400, "parameter label: \"%.100s\" is not NAME:GLOB", text);
        return 0;
    }
    if (n == SONDE_COUNT(f->labels)) {
        sonde_response_error(answer, 400, "parameter label: more than %zu", n);
        return 0;
    }
    memcpy(f->labels[n], text, len);
    f->labels[n][len] = 0;
    f->filter[0].label[n] = (struct sonde_label){ f->labels[n], colon + 1 };
    f->filter[0].label_count++;
    return 1;
}

int sonde_http_filters(const struct sonde_http_request *r, struct sonde_response *answer,
                       struct sonde_filters *f)
{
    *f = (struct sonde_filters){ .count = 1 };
    size_t names = 0;
    uint64_t pid = 0;
    struct sonde_filter *first = &f->filter[0];
    for (size_t i = 0; i < r->param_count; i++) {
        const char *name = r->params[i].name, *value = r->params[i].value;
        if (strcmp(name, "name") == 0) {
            if (!request_filters_add_name(f, answer, value, &names)) return 0;
        } else if (strcmp(name, "label") == 0) {
            if (!request_filters_add_label(f, answer, value)) return 0;
        } else if (strcmp(name, "source") == 0) {
            first->source = value;
        } else if (strcmp(name, "process") == 0) {
            first->process = value;
        } else if (strcmp(name, "type") == 0) {
            first->type = value;
        }
    }
    if (!sonde_http_count(r, answer, "pid", UINT32_MAX, &pid)) return 0;
    first->pid = (uint32_t)pid;
    assert(f->count >= 1 && f->count <= SONDE_FILTER_NAMES_MAX);
    return 1;
}
