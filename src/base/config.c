/* config.c - the table of settings, and reading them from text: environment, flags, defaults.
 * config_file.c reads JSON. */
#include "base/config.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/config_table.h"
#include "base/nearest.h"
#include "base/utf8.h"
#include "sonde/sonde.h"

enum { ELSEWHERE_COST = 1000 }; /* more than any number of edits */

#define AT(section, key) offsetof(struct sonde_config_values, section##_##key)

static const struct sonde_config_setting settings[] = {
#define SONDE_BOOL(section, key, def, help)                                                    \
    { #section, #key, AT(section, key), SONDE_CONFIG_BOOL, (def) ? "true" : "false",           \
      "true or false", help, 0, 0, 0, 0 },
#define SONDE_INT(section, key, def, min, max, help)                                           \
    { #section, #key, AT(section, key), SONDE_CONFIG_INT, #def, #min " to " #max, help,        \
      min, max, 0, 0 },
#define SONDE_NUM(section, key, def, min, max, help)                                           \
    { #section, #key, AT(section, key), SONDE_CONFIG_NUM, #def, #min " to " #max, help,        \
      0, 0, min, max },
#define SONDE_STR(section, key, def, help)                                                     \
    { #section, #key, AT(section, key), SONDE_CONFIG_STR, def, "at most 255 bytes", help,      \
      0, 0, 0, 0 },
#define SONDE_ENUM(section, key, def, choices, help)                                           \
    { #section, #key, AT(section, key), SONDE_CONFIG_ENUM, def, choices, help, 0, 0, 0, 0 },
#define SONDE_LIST(section, key, def, help)                                                    \
    { #section, #key, AT(section, key), SONDE_CONFIG_LIST, def, "at most 8191 bytes of JSON",  \
      help, 0, 0, 0, 0 },
#include "base/config_list.h"
#undef SONDE_BOOL
#undef SONDE_INT
#undef SONDE_NUM
#undef SONDE_STR
#undef SONDE_ENUM
#undef SONDE_LIST
};

static const size_t setting_count = SONDE_COUNT(settings);

/* Settings that this version reads and checks, so that a file written for a full set of profilers
 * loads, but does not act on. Where one value is what happens anyway, only the other is untrue. */
static const struct {
    const char *name;
    int is_so;        /* of a BOOL: the value that is as it is; -1 = neither, or it is none */
    const char *why;
} no_effect[] = {
    { "cpu.capture_threads", 1, "threads are always told apart" },
    { "flamegraph.interactive", 1, "flame graphs are always interactive" },
    { "storage.persist_to_hana", 0, "nothing is written to a SQL warehouse; storage.path names a "
                                    "file" },
};

/* Its row above, or -1: it has an effect. */
static int void_row(const struct sonde_config_setting *s)
{
    char full[SONDE_CONFIG_NAME_SIZE];
    snprintf(full, sizeof(full), "%s.%s", s->section, s->key);
    for (size_t i = 0; i < SONDE_COUNT(no_effect); i++) {
        if (!strcmp(full, no_effect[i].name)) return (int)i;
    }
    return -1;
}

/* ---- looking up -------------------------------------------------------------------------- */

const struct sonde_config_setting *sonde_config_find(const char *section, const char *key)
{
    for (size_t i = 0; i < setting_count; i++) {
        const struct sonde_config_setting *s = &settings[i];
        if (!strcmp(s->section, section) && !strcmp(s->key, key)) return s;
    }
    return NULL;
}

int sonde_config_is_section(const char *name)
{
    for (size_t i = 0; i < setting_count; i++) {
        if (!strcmp(settings[i].section, name)) return 1;
    }
    return 0;
}

/* The setting most like section.key: of its own section, or else of any. */
static const struct sonde_config_setting *config_nearest(const char *section, const char *key)
{
    const struct sonde_config_setting *best = NULL;
    unsigned best_cost = SONDE_NOT_NEAR;
    for (size_t i = 0; i < setting_count; i++) {
        const struct sonde_config_setting *s = &settings[i];
        unsigned cost = sonde_nearness(key, s->key);
        if (cost == SONDE_NOT_NEAR) continue;
        if (strcmp(section, s->section) != 0) cost += ELSEWHERE_COST;
        if (cost < best_cost) {
            best = s;
            best_cost = cost;
        }
    }
    return best;
}

/* Adds to text, of size bytes, what fits. */
__attribute__((format(printf, 3, 4))) static void config_append(char *text, size_t size,
                                                                const char *format, ...)
{
    const size_t len = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + len, size - len, format, args);
    va_end(args);
}

/* "cpu, memory, …", or the keys of a section. */
static void config_list_names(char *text, size_t size, const char *section)
{
    const char *last = "";
    text[0] = 0;
    for (size_t i = 0; i < setting_count; i++) {
        const struct sonde_config_setting *s = &settings[i];
        const char *name = section ? s->key : s->section;
        if ((section && strcmp(section, s->section) != 0) || !strcmp(name, last)) continue;
        config_append(text, size, "%s%s", text[0] ? ", " : "", name);
        last = name;
    }
}

int sonde_config_unknown_section(struct sonde_err *err, const char *origin, const char *name)
{
    struct sonde_nearest best = SONDE_NEAREST_NONE;
    for (size_t i = 0; i < setting_count; i++) {
        sonde_nearest_try(&best, name, settings[i].section);
    }
    char shown[SONDE_CONFIG_SHOWN];
    sonde_config_show(shown, name, strlen(name), 0);
    if (best.known) {
        return sonde_err_set(err, SONDE_EINVAL, "%s: unknown section %s; did you mean %s?", origin,
                             shown, best.known);
    }
    const struct sonde_config_setting *s = config_nearest("", name);
    if (s) {
        return sonde_err_set(err, SONDE_EINVAL, "%s: unknown section %s; did you mean %s.%s?",
                             origin, shown, s->section, s->key);
    }
    char sections[256];
    config_list_names(sections, sizeof(sections), NULL);
    return sonde_err_set(err, SONDE_EINVAL, "%s: unknown section %s; there are %s", origin, shown,
                         sections);
}

int sonde_config_unknown_key(struct sonde_err *err, const char *origin, const char *section,
                             const char *key, const char *shown)
{
    char name[SONDE_CONFIG_SHOWN];
    sonde_config_show(name, key, strlen(key), 0);
    const struct sonde_config_setting *s = config_nearest(section, key);
    if (s) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "%s: unknown setting %s.%s = %s; did you mean %s.%s?", origin, section,
                             name, shown, s->section, s->key);
    }
    char keys[256];
    config_list_names(keys, sizeof(keys), section);
    return sonde_err_set(err, SONDE_EINVAL, "%s: unknown setting %s.%s = %s; %s has %s", origin,
                         section, name, shown, section, keys);
}

/* ---- values ------------------------------------------------------------------------------ */

void sonde_config_show(char out[SONDE_CONFIG_SHOWN], const char *s, size_t len, int quote)
{
    enum { ROOM = SONDE_CONFIG_SHOWN - sizeof("\"...\"") };
    const size_t n = len < ROOM ? len : ROOM;
    size_t at = 0;
    if (quote) out[at++] = '"';
    for (size_t i = 0; i < n; i++) out[at++] = iscntrl((unsigned char)s[i]) ? '?' : s[i];
    if (n < len) {
        memcpy(out + at, "...", 3);
        at += 3;
    }
    if (quote) out[at++] = '"';
    out[at] = 0;
}

static void config_allowed(char *text, size_t size, const struct sonde_config_setting *s)
{
    text[0] = 0;
    switch (s->kind) {
    case SONDE_CONFIG_BOOL: config_append(text, size, "true or false"); break;
    case SONDE_CONFIG_INT: config_append(text, size, "a whole number from %s", s->range); break;
    case SONDE_CONFIG_NUM: config_append(text, size, "a number from %s", s->range); break;
    case SONDE_CONFIG_STR: config_append(text, size, "UTF-8 text of %s", s->range); break;
    case SONDE_CONFIG_LIST: config_append(text, size, "a JSON array, %s", s->range); break;
    case SONDE_CONFIG_ENUM:
        config_append(text, size, "one of ");
        for (const char *c = s->range; *c; c++) {
            if (*c == '|') {
                config_append(text, size, ", ");
            } else {
                config_append(text, size, "%c", *c);
            }
        }
        break;
    }
}

int sonde_config_bad_value(struct sonde_err *err, const char *origin,
                           const struct sonde_config_setting *s, const char *shown)
{
    char text[256];
    config_allowed(text, sizeof(text), s);
    return sonde_err_set(err, SONDE_EINVAL, "%s: %s.%s is %s, but must be %s", origin, s->section,
                         s->key, shown, text);
}

static void *config_field(struct sonde_config_values *c, const struct sonde_config_setting *s)
{
    return (char *)c + s->offset;
}

int sonde_config_put_bool(struct sonde_config_values *c, const struct sonde_config_setting *s,
                          int v)
{
    const int flag = v != 0;
    memcpy(config_field(c, s), &flag, sizeof(flag));
    return 0;
}

int sonde_config_put_int(struct sonde_config_values *c, const struct sonde_config_setting *s,
                         int64_t v)
{
    if (v < s->int_min || v > s->int_max) return SONDE_EINVAL;
    memcpy(config_field(c, s), &v, sizeof(v));
    return 0;
}

int sonde_config_put_num(struct sonde_config_values *c, const struct sonde_config_setting *s,
                         double v)
{
    if (!(v >= s->num_min && v <= s->num_max)) return SONDE_EINVAL; /* NaN is no number either */
    memcpy(config_field(c, s), &v, sizeof(v));
    return 0;
}

static int config_is_choice(const char *choices, const char *text, size_t len)
{
    for (const char *c = choices; *c;) {
        const size_t n = strcspn(c, "|");
        if (n == len && !memcmp(c, text, len)) return 1;
        c += n + (c[n] == '|');
    }
    return 0;
}

int sonde_config_put_text(struct sonde_config_values *c, const struct sonde_config_setting *s,
                          const char *text)
{
    const size_t len = strlen(text);
    if (s->kind == SONDE_CONFIG_ENUM) {
        if (!config_is_choice(s->range, text, len)) return SONDE_EINVAL;
    } else if (len >= SONDE_CONFIG_STR_SIZE || !sonde__utf8_valid(text, len)) {
        return SONDE_EINVAL;
    }
    memcpy(config_field(c, s), text, len + 1);
    return 0;
}

static int config_parse_bool(const char *text, int *out)
{
    static const char *const words[] = { "false", "true", "0", "1", "no", "yes", "off", "on" };
    for (size_t i = 0; i < SONDE_COUNT(words); i++) {
        if (strcasecmp(text, words[i]) != 0) continue;
        *out = (int)(i % 2);
        return 0;
    }
    return SONDE_EINVAL;
}

static int parse_int(const char *text, int64_t *out)
{
    char *end;
    if (!*text || text[strspn(text, "-0123456789")]) return SONDE_EINVAL;
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end) return SONDE_EINVAL;
    *out = v;
    return 0;
}

/* In the C locale, whatever the terminal's is. The characters are checked first, since strtod
 * also takes spaces, hexadecimal, "inf" and "nan". */
static int parse_num(const char *text, double *out)
{
    if (!*text || text[strspn(text, "+-.eE0123456789")]) return SONDE_EINVAL;
    char *end;
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    *out = strtod_l(text, &end, plain);
    freelocale(plain);
    return end == text || *end ? SONDE_EINVAL : 0;
}

static int set_from_text(struct sonde_config_values *c, const struct sonde_config_setting *s,
                         const char *text)
{
    int flag = 0;
    int64_t whole = 0;
    double number = 0;
    switch (s->kind) {
    case SONDE_CONFIG_BOOL:
        return config_parse_bool(text, &flag) ? SONDE_EINVAL : sonde_config_put_bool(c, s, flag);
    case SONDE_CONFIG_INT:
        return parse_int(text, &whole) ? SONDE_EINVAL : sonde_config_put_int(c, s, whole);
    case SONDE_CONFIG_NUM:
        return parse_num(text, &number) ? SONDE_EINVAL : sonde_config_put_num(c, s, number);
    case SONDE_CONFIG_STR:
    case SONDE_CONFIG_ENUM: return sonde_config_put_text(c, s, text);
    case SONDE_CONFIG_LIST: return sonde_config_put_list(c, s, text);
    }
    return SONDE_EINVAL;
}

void sonde_config_note(struct sonde_config_values *c, const struct sonde_config_setting *s)
{
    c->given[s - settings] = 1;
}

int sonde_config_was_given(const struct sonde_config_values *c, const char *name)
{
    char full[SONDE_CONFIG_NAME_SIZE];
    for (size_t i = 0; i < setting_count; i++) {
        snprintf(full, sizeof(full), "%s.%s", settings[i].section, settings[i].key);
        if (!strcmp(full, name)) return c->given[i];
    }
    return 0;
}

void sonde_config_each_void(const struct sonde_config_values *c,
                            void (*row)(const char *name, const char *why, void *arg), void *arg)
{
    for (size_t i = 0; i < setting_count; i++) {
        const int nth = c->given[i] ? void_row(&settings[i]) : -1;
        if (nth < 0) continue;
        int flag;
        memcpy(&flag, (const char *)c + settings[i].offset, sizeof(flag));
        if (settings[i].kind == SONDE_CONFIG_BOOL && flag == no_effect[nth].is_so) continue;
        row(no_effect[nth].name, no_effect[nth].why, arg);
    }
}

void sonde_config_defaults(struct sonde_config_values *c)
{
    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < setting_count; i++) {
        const int rc = set_from_text(c, &settings[i], settings[i].def);
        assert(!rc); /* the row contradicts itself */
        (void)rc;
    }
}

/* ---- flags and environment --------------------------------------------------------------- */

int sonde_config_set(struct sonde_config_values *c, const char *key, const char *value,
                     const char *origin, struct sonde_err *err)
{
    char section[SONDE_CONFIG_NAME_SIZE], shown[SONDE_CONFIG_SHOWN];
    const char *dot = strchr(key, '.');
    if (!dot) {
        sonde_config_show(shown, key, strlen(key), 0);
        const struct sonde_config_setting *s = config_nearest("", key);
        return sonde_err_set(err, SONDE_EINVAL, "%s: %s is not the name of a setting; %s %s.%s%s",
                             origin, shown, s ? "did you mean" : "names look like",
                             s ? s->section : "agent", s ? s->key : "max_series", s ? "?" : "");
    }
    snprintf(section, sizeof(section), "%.*s", (int)(dot - key), key);
    if (!sonde_config_is_section(section)) {
        return sonde_config_unknown_section(err, origin, section);
    }
    sonde_config_show(shown, value, strlen(value), 1);
    const struct sonde_config_setting *s = sonde_config_find(section, dot + 1);
    if (!s) return sonde_config_unknown_key(err, origin, section, dot + 1, shown);
    if (set_from_text(c, s, value)) return sonde_config_bad_value(err, origin, s, shown);
    sonde_config_note(c, s);
    return 0;
}

/* SONDE_CPU_MAX_STACK_DEPTH=5 to "cpu.max_stack_depth"; returns where the value begins, or NULL
 * if the variable does not begin with a section. */
static const char *setting_name(const char *variable, char *name, size_t size)
{
    static const char ours[] = "SONDE_";
    if (strncmp(variable, ours, sizeof(ours) - 1) != 0) return NULL;
    const char *rest = variable + sizeof(ours) - 1;
    const size_t whole = strcspn(rest, "=");
    const size_t len = whole < size ? whole : size - 1;
    const size_t section = strcspn(rest, "_=");
    if (rest[whole] != '=' || section >= len) return NULL;

    for (size_t i = 0; i < len; i++) {
        if (islower((unsigned char)rest[i])) return NULL;
        name[i] = (char)tolower((unsigned char)rest[i]);
    }
    name[len] = 0;
    if (!strcmp(name, "memory_limit")) return NULL; /* inference.h: for engines, not for us */
    name[section] = 0;
    if (!sonde_config_is_section(name)) return NULL;
    name[section] = '.';
    return rest + whole + 1;
}

/* ---- what engines are asked ---------------------------------------------------------------- */

/* The value of a variable, NULL = it is not set. */
static const char *value_in(char *const *envp, const char *name)
{
    const size_t len = strlen(name);
    for (; *envp; envp++) {
        if (strncmp(*envp, name, len) == 0 && (*envp)[len] == '=') return *envp + len + 1;
    }
    return NULL;
}

/* PROFILE_… as inference.h has it for engines: -1 = not set. The first prefix that is set
 * counts. */
static int engine_switch(char *const *envp, const char *name, int *out, struct sonde_err *err)
{
    static const char *const prefixes[] = { "SONDE_", "BITNET_", "NLOCAL_" };
    static const char *const words[] = { "0", "false", "1", "true" };
    *out = -1;
    for (size_t i = 0; i < SONDE_COUNT(prefixes); i++) {
        char full[48], shown[SONDE_CONFIG_SHOWN];
        snprintf(full, sizeof(full), "%s%s", prefixes[i], name);
        const char *value = value_in(envp, full);
        if (!value) continue;
        for (size_t k = 0; k < SONDE_COUNT(words); k++) {
            if (!strcmp(value, words[k])) *out = k >= 2;
        }
        if (*out >= 0) return 0;
        sonde_config_show(shown, value, strlen(value), 1);
        return sonde_err_set(err, SONDE_EINVAL, "%s is %s, but must be 0, 1, true or false", full,
                             shown);
    }
    return 0;
}

static int load_engine_switches(struct sonde_config_values *c, char *const *envp,
                                struct sonde_err *err)
{
    static const struct { const char *name, *section; } parts[] = {
        { "PROFILE_CPU", "cpu" }, { "PROFILE_MEMORY", "memory" }, { "PROFILE_GPU", "gpu" },
    };
    int all, one;
    int rc = engine_switch(envp, "PROFILE_ENABLED", &all, err);
    for (size_t i = 0; !rc && i < SONDE_COUNT(parts); i++) {
        rc = engine_switch(envp, parts[i].name, &one, err);
        if (!rc && all == 0) one = 0; /* off is off, whatever the parts say */
        if (rc || one < 0) continue;
        const struct sonde_config_setting *s = sonde_config_find(parts[i].section, "enabled");
        sonde_config_put_bool(c, s, one);
        sonde_config_note(c, s);
    }
    return rc;
}

int sonde_config_load_env(struct sonde_config_values *c, char *const *envp, struct sonde_err *err)
{
    struct sonde_config_values next = *c;
    const int bad = load_engine_switches(&next, envp, err);
    if (bad) return bad;
    for (; *envp; envp++) {
        char name[SONDE_CONFIG_NAME_SIZE], origin[SONDE_CONFIG_NAME_SIZE + 8];
        const char *value = setting_name(*envp, name, sizeof(name));
        if (!value) continue;
        snprintf(origin, sizeof(origin), "%.*s", (int)(value - 1 - *envp), *envp);
        const int rc = sonde_config_set(&next, name, value, origin, err);
        if (rc) return rc;
    }
    *c = next;
    return 0;
}

/* ---- help -------------------------------------------------------------------------------- */

void sonde_config_each_value(const struct sonde_config_values *c,
                             void (*row)(const char *section, const char *key, const char *value,
                                         void *arg),
                             void *arg)
{
    for (size_t i = 0; i < setting_count; i++) {
        const struct sonde_config_setting *s = &settings[i];
        const char *at = (const char *)c + s->offset;
        char text[64] = "";
        switch (s->kind) {
        case SONDE_CONFIG_BOOL:
            snprintf(text, sizeof(text), "%s", *(const int *)(const void *)at ? "true" : "false");
            break;
        case SONDE_CONFIG_INT:
            snprintf(text, sizeof(text), "%lld", (long long)*(const int64_t *)(const void *)at);
            break;
        case SONDE_CONFIG_NUM:
            snprintf(text, sizeof(text), "%.17g", *(const double *)(const void *)at);
            break;
        case SONDE_CONFIG_STR:
        case SONDE_CONFIG_ENUM:
        case SONDE_CONFIG_LIST: break;
        }
        const int is_text = s->kind == SONDE_CONFIG_STR || s->kind == SONDE_CONFIG_ENUM ||
                            s->kind == SONDE_CONFIG_LIST;
        row(s->section, s->key, is_text ? at : text, arg);
    }
}

void sonde_config_each(void (*row)(const struct sonde_config_row *r, void *arg), void *arg)
{
    static const char *const types[] = { "bool", "int", "number", "text", "choice", "list" };
    for (size_t i = 0; i < setting_count; i++) {
        const struct sonde_config_setting *s = &settings[i];
        char help[256];
        snprintf(help, sizeof(help), "%s", s->help);
        if (void_row(s) >= 0) {
            config_append(help, sizeof(help), " (accepted; no effect in this version: %s)",
                          no_effect[void_row(s)].why);
        }
        const struct sonde_config_row r = { s->section, s->key,   types[s->kind],
                                            s->def,     s->range, help };
        row(&r, arg);
    }
}
