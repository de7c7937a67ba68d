/* config_file.c - settings from JSON.
 *
 * Jansson parses and checks the text but does not keep where a value stood. An error should say
 * so; jansson keeps the order of members and refuses duplicates, so the nth member of an object
 * is found again by walking the (now known to be well-formed) text.
 *
 * Jansson is left on malloc. Through json_set_alloc_funcs tests could fail its allocations too,
 * but 2.14 reads past the end of a token's buffer that could not grow (its return value is not
 * looked at), and all other users of jansson would have to free with our function. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/config.h"
#include "base/config_table.h"
#include "base/errno.h"
#include "base/file.h"
#include "sonde/sonde.h"

enum { FILE_MAX_BYTES = 1 << 20, ORIGIN_SIZE = 320 };

/* ---- where a member stands --------------------------------------------------------------- */

struct config_file_member {
    const char *key;   /* its opening quote */
    const char *value;
    const char *end;   /* after the value */
};

static const char *skip_space(const char *p) { return p + strspn(p, " \t\r\n"); }

static const char *skip_string(const char *p)
{
    for (p++; *p && *p != '"'; p++) {
        if (*p == '\\' && p[1]) p++;
    }
    return p + (*p == '"');
}

static const char *skip_value(const char *p)
{
    if (*p == '"') return skip_string(p);
    if (*p != '{' && *p != '[') return p + strcspn(p, ",]} \t\r\n");
    size_t depth = 0;
    while (*p) {
        if (*p == '"') {
            p = skip_string(p);
            continue;
        }
        depth += *p == '{' || *p == '[';
        depth -= *p == '}' || *p == ']';
        p++;
        if (!depth) break;
    }
    return p;
}

/* The nth member of the object that begins at p. */
static struct config_file_member find_member(const char *p, size_t nth)
{
    struct config_file_member m = { 0 };
    p++;
    for (size_t i = 0; i <= nth; i++) {
        m.key = skip_space(p);
        m.value = skip_space(skip_space(skip_string(m.key)) + 1);
        m.end = skip_value(m.value);
        p = skip_space(m.end) + 1; /* after the comma */
    }
    return m;
}

/* "origin:line:column" of p, columns in characters as jansson counts them. */
static void config_file_place(char out[ORIGIN_SIZE], const char *origin, const char *text,
                              const char *p)
{
    size_t line = 1, column = 1;
    for (const char *q = text; q < p; q++) {
        if (*q == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*q & 0xc0) != 0x80) {
            column++;
        }
    }
    snprintf(out, ORIGIN_SIZE, "%.256s:%zu:%zu", origin, line, column);
}

/* ---- values ------------------------------------------------------------------------------ */

static int put_array(struct sonde_config_values *c, const struct sonde_config_setting *s,
                     const json_t *v)
{
    if (!json_is_array(v)) return SONDE_EINVAL;
    char *at = (char *)c + s->offset;
    const size_t len = json_dumpb(v, NULL, 0, JSON_COMPACT);
    if (!len || len >= SONDE_CONFIG_LIST_SIZE) return SONDE_EINVAL;
    at[json_dumpb(v, at, len, JSON_COMPACT)] = '\0';
    return 0;
}

int sonde_config_put_list(struct sonde_config_values *c, const struct sonde_config_setting *s,
                          const char *text)
{
    json_t *v;
    if (text[strspn(text, " \t\n")] == '[') {
        v = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    } else {
        v = json_array();
        for (const char *p = text; v && *p;) {
            const size_t n = strcspn(p, ",");
            if (n) json_array_append_new(v, json_stringn(p, n));
            p += n + (p[n] == ',');
        }
    }
    const int rc = put_array(c, s, v);
    json_decref(v);
    return rc;
}

static int config_file_put(struct sonde_config_values *c, const struct sonde_config_setting *s,
                           const json_t *v)
{
    switch (s->kind) {
    case SONDE_CONFIG_BOOL:
        return json_is_boolean(v) ? sonde_config_put_bool(c, s, json_is_true(v)) : SONDE_EINVAL;
    case SONDE_CONFIG_INT:
        return json_is_integer(v) ? sonde_config_put_int(c, s, json_integer_value(v))
                                  : SONDE_EINVAL;
    case SONDE_CONFIG_NUM:
        return json_is_number(v) ? sonde_config_put_num(c, s, json_number_value(v))
                                 : SONDE_EINVAL;
    case SONDE_CONFIG_STR:
    case SONDE_CONFIG_ENUM:
        return json_is_string(v) ? sonde_config_put_text(c, s, json_string_value(v))
                                 : SONDE_EINVAL;
    case SONDE_CONFIG_LIST: return put_array(c, s, v);
    }
    return SONDE_EINVAL;
}

static void config_file_show(char out[SONDE_CONFIG_SHOWN], const json_t *v,
                             const struct config_file_member *m)
{
    if (json_is_object(v) || json_is_array(v)) {
        snprintf(out, SONDE_CONFIG_SHOWN, "%s", json_is_array(v) ? "an array" : "an object");
    } else {
        sonde_config_show(out, m->value, (size_t)(m->end - m->value), 0);
    }
}

struct source {
    const char *text, *origin;
};

static int load_section(struct sonde_config_values *c, const struct source *src,
                        const char *object, const char *section, json_t *keys,
                        struct sonde_err *err)
{
    const char *key;
    json_t *value;
    size_t nth = 0;
    json_object_foreach(keys, key, value)
    {
        const struct sonde_config_setting *s = sonde_config_find(section, key);
        if (!s || config_file_put(c, s, value)) {
            char at[ORIGIN_SIZE], shown[SONDE_CONFIG_SHOWN];
            const struct config_file_member m = find_member(object, nth);
            config_file_place(at, src->origin, src->text, m.key);
            config_file_show(shown, value, &m);
            return s ? sonde_config_bad_value(err, at, s, shown)
                     : sonde_config_unknown_key(err, at, section, key, shown);
        }
        sonde_config_note(c, s);
        nth++;
    }
    return 0;
}

static int load_sections(struct sonde_config_values *c, const struct source *src, json_t *root,
                         struct sonde_err *err)
{
    const char *section;
    json_t *keys;
    size_t nth = 0;
    const char *const object = skip_space(src->text);
    json_object_foreach(root, section, keys)
    {
        const struct config_file_member m = find_member(object, nth);
        char at[ORIGIN_SIZE];
        config_file_place(at, src->origin, src->text, m.key);
        if (!sonde_config_is_section(section)) {
            return sonde_config_unknown_section(err, at, section);
        }
        if (!json_is_object(keys)) {
            char shown[SONDE_CONFIG_SHOWN];
            config_file_show(shown, keys, &m);
            return sonde_err_set(err, SONDE_EINVAL,
                                 "%s: section %s is %s, but must be an object of settings", at,
                                 section, shown);
        }
        const int rc = load_section(c, src, m.value, section, keys, err);
        if (rc) return rc;
        nth++;
    }
    return 0;
}

int sonde_config_load_json(struct sonde_config_values *c, const char *text, const char *origin,
                           struct sonde_err *err)
{
    const struct source src = { text, origin };
    json_error_t problem;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &problem);
    if (!root && !problem.text[0]) { /* the only failure that jansson says nothing about */
        return sonde_err_set(err, SONDE_ENOMEM, "%s: no memory to read it", origin);
    }
    if (!root) {
        return sonde_err_set(err, SONDE_EINVAL, "%s:%d:%d: not valid JSON: %s", origin,
                             problem.line, problem.column, problem.text);
    }

    int rc;
    struct sonde_config_values next = *c;
    if (json_is_object(root)) {
        rc = load_sections(&next, &src, root, err);
    } else {
        rc = sonde_err_set(err, SONDE_EINVAL,
                           "%s: an array, but must be an object of sections, such as "
                           "{\"agent\": {\"interval_seconds\": 1}}",
                           origin);
    }
    json_decref(root);
    if (!rc) *c = next;
    return rc;
}

/* ---- files ------------------------------------------------------------------------------- */

int sonde_config_load_file(struct sonde_config_values *c, const char *path, struct sonde_err *err)
{
    /* Not to be kept waiting for whoever may write to a FIFO, or by a terminal. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st = { 0 };
    if (fd < 0) {
        const int e = errno;
        return sonde_err_set(err, sonde__from_errno(e), "%s: %s", path, strerror(e));
    }
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return sonde_err_set(err, SONDE_EINVAL,
                             "%s: %s; only regular files are read as a configuration", path,
                             S_ISDIR(st.st_mode)    ? "Is a directory"
                             : S_ISFIFO(st.st_mode) ? "is a pipe or FIFO"
                                                    : "is not a file");
    }
    struct sonde_buf b;
    sonde_buf_init(&b, FILE_MAX_BYTES);
    int rc = sonde_file_read_fd(fd, &b);
    const int e = errno;
    close(fd);

    if (rc == SONDE_EFULL) {
        rc = sonde_err_set(err, SONDE_EINVAL, "%s: larger than %d bytes, not a configuration",
                           path, FILE_MAX_BYTES);
    } else if (rc == SONDE_ENOMEM) {
        rc = sonde_err_set(err, rc, "%s: no memory to read it", path);
    } else if (rc) {
        rc = sonde_err_set(err, rc, "%s: %s", path, strerror(e));
    } else if (strlen(b.data) != b.len) {
        rc = sonde_err_set(err, SONDE_EINVAL, "%s: byte %zu is NUL, not valid JSON", path,
                           strlen(b.data));
    } else {
        rc = sonde_config_load_json(c, b.data, path, err);
    }
    sonde_buf_release(&b);
    return rc;
}
