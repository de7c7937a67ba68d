/* param.h - what the parameters of routes are: param_list.h as a table. Requests are checked
 * against it before a route sees them, and the description of the API (openapi.h) is made from
 * it. */
#ifndef SONDE_SERVE_HTTP_PARAM_H
#define SONDE_SERVE_HTTP_PARAM_H

#include "serve/http/route.h"

enum sonde_param_kind {
    SONDE_PARAM_IS_TEXT,
    SONDE_PARAM_IS_NUMBER,
    SONDE_PARAM_IS_COUNT,  /* a whole number from 1 on */
    SONDE_PARAM_IS_WORDS,
};

struct sonde_param_row {
    const char *path;      /* of the route it is for; NULL = of all that have no row of their own */
    const char *name;
    enum sonde_param_kind kind;
    const char *words;     /* "a|b|c" */
    const char *pattern;   /* of a text, a POSIX extended regular expression; NULL = any */
    const char *example;   /* a text that is taken */
    const char *needs;     /* "a|b|c": makes sense beside one of these only; NULL = by itself */
    double min, max;       /* of numbers */
    const char *help;      /* one line */
};

/* What a parameter of a route is, NULL = nobody said. */
const struct sonde_param_row *sonde_param_find(const char *path, const char *name);

/* The next row from *at on that is for this path and no other; NULL = there are no more. Those are
 * what a route looks at that passes over all else (route.h: params is NULL). */
const struct sonde_param_row *sonde_param_next(const char *path, size_t *at);

/* 1 if every parameter is one that the route accepts, none that is required is missing, and their
 * values, and what its "*" stands for, are as their rows say; else the 400 is in answer. */
int sonde_params_ok(const struct sonde_route *route, const struct sonde_http_request *r,
                    struct sonde_response *answer);

#endif
