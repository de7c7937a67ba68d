/* filters.h - which series a request is about: name, type, source, process, pid and label. */
#ifndef SONDE_SERVE_API_FILTERS_H
#define SONDE_SERVE_API_FILTERS_H

#include "serve/http/route.h"

enum { SONDE_FILTER_NAMES_MAX = 16 };

#define SONDE_FILTER_PARAMS "name", "type", "source", "process", "pid", "label"

/* The first has everything, the others a further name each. Borrows from the request. */
struct sonde_filters {
    struct sonde_filter filter[SONDE_FILTER_NAMES_MAX];
    size_t count;
    char labels[4][SONDE_NAME_MAX + 1]; /* names of label=k:v */
};

/* 1, or 0 with the 400 in answer. */
int sonde_http_filters(const struct sonde_http_request *r, struct sonde_response *answer,
                       struct sonde_filters *f);

#endif
