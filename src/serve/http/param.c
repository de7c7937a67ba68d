/* param.c - see param.h. */
#include "serve/http/param.h"

#include <assert.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"

static const struct sonde_param_row rows[] = {
#define SONDE_PARAM_TEXT(at, id, sample, text)                                                     \
    { .path = at, .name = id, .kind = SONDE_PARAM_IS_TEXT, .example = sample, .help = text },
#define SONDE_PARAM_PATTERN(at, id, regex, sample, text)                                           \
    { .path = at, .name = id, .kind = SONDE_PARAM_IS_TEXT, .pattern = regex, .example = sample,    \
      .help = text },
#define SONDE_PARAM_NUMBER(at, id, least, most, text)                                              \
    { .path = at, .name = id, .kind = SONDE_PARAM_IS_NUMBER, .min = least, .max = most,            \
      .help = text },
#define SONDE_PARAM_COUNT(at, id, most, text)                                                      \
    { .path = at, .name = id, .kind = SONDE_PARAM_IS_COUNT, .min = 1, .max = most, .help = text },
#define SONDE_PARAM_WORDS(at, id, choices, text)                                                   \
    { .path = at, .name = id, .kind = SONDE_PARAM_IS_WORDS, .words = choices, .help = text },
#define SONDE_PARAM_WORDS_BESIDE(at, id, choices, others, text)                                    \
    { .path = at, .name = id, .kind = SONDE_PARAM_IS_WORDS, .words = choices, .needs = others,     \
      .help = text },
#include "serve/http/param_list.h"
};

static int is_below(const char *path, const char *above)
{
    const size_t len = strlen(above);
    return strncmp(path, above, len) == 0 && path[len] == '/';
}

const struct sonde_param_row *sonde_param_find(const char *path, const char *name)
{
    const struct sonde_param_row *general = NULL, *above = NULL;
    for (size_t i = 0; i < SONDE_COUNT(rows); i++) {
        if (strcmp(rows[i].name, name) != 0) continue;
        if (!rows[i].path) general = &rows[i];
        else if (strcmp(rows[i].path, path) == 0) return &rows[i];
        else if (is_below(path, rows[i].path)) above = &rows[i];
    }
    return above ? above : general;
}

const struct sonde_param_row *sonde_param_next(const char *path, size_t *at)
{
    while (*at < SONDE_COUNT(rows)) {
        const struct sonde_param_row *p = &rows[(*at)++];
        if (p->path && strcmp(p->path, path) == 0) return p;
    }
    return NULL;
}

/* ---- Checking -------------------------------------------------------------------------------- */

static int param_in_list(const char *const *names, const char *name)
{
    for (size_t i = 0; names && names[i]; i++) {
        if (strcmp(names[i], name) == 0) return 1;
    }
    return 0;
}

static const struct sonde_param_row *param_own(const char *path, const char *name)
{
    const struct sonde_param_row *p;
    size_t at = 0;
    while ((p = sonde_param_next(path, &at)) && strcmp(p->name, name) != 0) continue;
    return p;
}

static int is_word(const char *words, const char *value)
{
    const size_t len = strlen(value);
    for (const char *p = words; *p; p += strcspn(p, "|"), p += *p == '|') {
        if (strcspn(p, "|") == len && strncmp(p, value, len) == 0) return 1;
    }
    return 0;
}

static int refuse_word(const struct sonde_param_row *p, const char *value,
                       struct sonde_response *answer)
{
    char known[512];
    size_t n = 0;
    for (const char *w = p->words; *w && n + 3 < sizeof(known); w++) {
        known[n++] = *w == '|' ? ',' : *w;
        if (*w == '|') known[n++] = ' ';
    }
    known[n] = '\0';
    sonde_response_error(answer, 400, "parameter %s: \"%.100s\" is not one of %s", p->name, value,
                         known);
    return 0;
}

static int param_matches(const char *pattern, const char *value)
{
    regex_t regex;
    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0) return 1; /* out of memory */
    const int found = regexec(&regex, value, 0, NULL, 0) == 0;
    regfree(&regex);
    return found;
}

static int param_value_ok(const struct sonde_param_row *p, const char *value,
                          struct sonde_response *answer)
{
    /* Numbers are parsed where they are used, by the same functions. */
    const struct sonde_http_request one = { .params = { { p->name, value } }, .param_count = 1 };
    double number;
    uint64_t count;
    switch (p->kind) {
    case SONDE_PARAM_IS_NUMBER:
        assert(p->min <= p->max);
        return sonde_http_number(&one, answer, p->name, p->min, p->max, &number);
    case SONDE_PARAM_IS_COUNT:
        return sonde_http_count(&one, answer, p->name, (uint64_t)p->max, &count);
    case SONDE_PARAM_IS_WORDS:
        return is_word(p->words, value) || refuse_word(p, value, answer);
    default:
        assert(p->kind == SONDE_PARAM_IS_TEXT && (!p->pattern || p->example));
        if (!p->pattern || param_matches(p->pattern, value)) return 1;
        sonde_response_error(answer, 400, "parameter %s: \"%.100s\" is not valid: %s, such as %s",
                             p->name, value, p->help, p->example);
        return 0;
    }
}

static int refuse_name(const struct sonde_route *route, const char *name,
                       struct sonde_response *answer)
{
    char known[512] = "none";
    size_t used = 0;
    for (size_t k = 0; route->params[k] && used < sizeof(known); k++) {
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", k ? ", " : "",
                                 route->params[k]);
    }
    sonde_response_error(answer, 400, "unknown parameter \"%.100s\"; %s takes: %s", name,
                         route->path, known);
    return 0;
}

int sonde_params_ok(const struct sonde_route *route, const struct sonde_http_request *r,
                    struct sonde_response *answer)
{
    const struct sonde_param_row *p;
    assert(!r->name || strchr(route->path, '*'));
    for (size_t i = 0; i < r->param_count; i++) {
        const char *name = r->params[i].name;
        if (route->params && !param_in_list(route->params, name)) {
            return refuse_name(route, name, answer);
        }
        p = route->params ? sonde_param_find(route->path, name) : param_own(route->path, name);
        if (p && !param_value_ok(p, r->params[i].value, answer)) return 0;
    }
    for (size_t i = 0; route->required && route->required[i]; i++) {
        if (sonde_http_param(r, route->required[i])) continue;
        p = sonde_param_find(route->path, route->required[i]);
        sonde_response_error(answer, 400, "parameter %s is missing: %s", route->required[i],
                             p ? p->help : "");
        return 0;
    }
    p = r->name ? sonde_param_find(route->path, route->star ? route->star : "id") : NULL;
    return !p || param_value_ok(p, r->name, answer);
}
