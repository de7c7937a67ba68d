/* headers.c - headers and labels that users give, checked: both are sent as they are. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "push/push_private.h"
#include "sonde/sonde.h"

enum { HEADERS_MAX = 32, HEADER_MAX = 8192, NAME_SHOWN = 60 };

/* A token of RFC 9110. */
static size_t push_headers_name_len(const char *s, size_t len)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    size_t n = 0;
    while (n < len && (isalnum((unsigned char)s[n]) || (s[n] && strchr(marks, s[n])))) n++;
    return n;
}

static int push_headers_value_ok(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)s[i] < ' ' && s[i] != '\t') return 0;
        if (s[i] == 0x7f) return 0;
    }
    return 1;
}

/* Its value may be a secret: errors name the line and the name only. */
static int push_headers_add_line(char **headers, size_t *count, const char *whose,
                                 const char *line, size_t len, size_t number,
                                 struct sonde_err *err)
{
    const size_t name = push_headers_name_len(line, len);
    if (!name || name >= len || line[name] != ':' ||
        !push_headers_value_ok(line + name, len - name)) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "headers of %s, line %zu (%.*s…): not a header such "
                             "as \"Authorization: Bearer TOKEN\"",
                             whose, number, (int)(name < NAME_SHOWN ? name : NAME_SHOWN),
                             line);
    }
    if (*count >= HEADERS_MAX || len > HEADER_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "headers of %s: at most %d, of %d bytes each",
                             whose, HEADERS_MAX, HEADER_MAX);
    }
    headers[*count] = sonde__strndup(line, len);
    if (!headers[*count]) return sonde_err_memory(err);
    ++*count;
    return 0;
}

int push_headers_parse(const char *whose, const char *const *fixed, const char *text, char ***out,
                       struct sonde_err *err)
{
    size_t count = 0, number = 0;
    char **headers = sonde__calloc(HEADERS_MAX + 1, sizeof(*headers));
    if (!headers) return sonde_err_memory(err);
    int rc = 0;
    for (size_t i = 0; !rc && fixed[i]; i++) {
        rc = push_headers_add_line(headers, &count, whose, fixed[i], strlen(fixed[i]), i + 1, err);
    }
    for (const char *p = text ? text : ""; !rc && *p;) {
        const size_t whole = strcspn(p, "\n");
        size_t len = whole;
        while (len && (p[len - 1] == '\r' || p[len - 1] == ' ' || p[len - 1] == '\t')) len--;
        number++;
        if (len && p[0] != '#') {
            rc = push_headers_add_line(headers, &count, whose, p, len, number, err);
        }
        p += whole + (p[whole] == '\n');
    }
    if (rc) push_headers_free(headers);
    else *out = headers;
    return rc;
}

void push_headers_free(char **headers)
{
    for (char **h = headers; h && *h; h++) {
        /* It may hold a token. */
        explicit_bzero(*h, strlen(*h));
        sonde__free(*h);
    }
    sonde__free(headers);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static int label_name_ok(const char *s)
{
    if (!isalpha((unsigned char)*s) && *s != '_') return 0;
    for (; *s; s++) {
        if (!isalnum((unsigned char)*s) && *s != '_') return 0;
    }
    return 1;
}

int push_labels(struct push_origin *o, const char *text, struct sonde_err *err)
{
    if (!text || !*text) return 0;
    o->label_text = sonde__strdup(text);
    if (!o->label_text) return sonde_err_memory(err);
    for (char *p = o->label_text, *next; p && *p; p = next) {
        next = strchr(p, ',');
        if (next) *next++ = '\0';
        char *equals = strchr(p, '=');
        if (equals) *equals = '\0';
        if (!equals || !label_name_ok(p) || !strncmp(p, "__", 2) ||
            !sonde__utf8_valid(equals + 1, strlen(equals + 1))) {
            return sonde_err_set(err, SONDE_EINVAL,
                                 "push.labels: '%.100s' is not NAME=VALUE with a "
                                 "name of letters, digits and _",
                                 p);
        }
        if (o->label_count == SONDE_PUSH_LABELS_MAX) {
            return sonde_err_set(err, SONDE_EINVAL, "push.labels: more than %d",
                                 SONDE_PUSH_LABELS_MAX);
        }
        o->labels[o->label_count++] = (struct push_label){ p, equals + 1 };
    }
    return 0;
}
