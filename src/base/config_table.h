/* config_table.h - what config.c and config_file.c share; nobody else includes it. */
#ifndef SONDE_BASE_CONFIG_TABLE_H
#define SONDE_BASE_CONFIG_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/config.h"

enum {
    SONDE_CONFIG_LIST_SIZE = 8192, /* of a list's JSON */
    SONDE_CONFIG_STR_SIZE = 256,  /* of a text's field in struct sonde_config_values */
    SONDE_CONFIG_NAME_SIZE = 128, /* section.key, cut when it is longer (and thus unknown) */
    SONDE_CONFIG_SHOWN = 80       /* of a value as an error quotes it */
};

enum sonde_config_kind {
    SONDE_CONFIG_BOOL,
    SONDE_CONFIG_INT,
    SONDE_CONFIG_NUM,
    SONDE_CONFIG_STR,
    SONDE_CONFIG_ENUM,
    SONDE_CONFIG_LIST
};

struct sonde_config_setting {
    const char *section, *key;
    size_t offset; /* of the field in struct sonde_config_values */
    enum sonde_config_kind kind;
    const char *def, *range, *help; /* range of an ENUM: its choices, a|b|c */
    int64_t int_min, int_max;
    double num_min, num_max;
};

/* It was set by somebody. */
void sonde_config_note(struct sonde_config_values *c, const struct sonde_config_setting *s);
const struct sonde_config_setting *sonde_config_find(const char *section, const char *key);
int sonde_config_is_section(const char *name);

/* Each checks what the row demands and returns 0, or SONDE_EINVAL and leaves c alone. The
 * setting must be of that kind; put_text is for STR and ENUM. */
int sonde_config_put_bool(struct sonde_config_values *c, const struct sonde_config_setting *s,
                          int v);
int sonde_config_put_int(struct sonde_config_values *c, const struct sonde_config_setting *s,
                         int64_t v);
int sonde_config_put_num(struct sonde_config_values *c, const struct sonde_config_setting *s,
                         double v);
int sonde_config_put_text(struct sonde_config_values *c, const struct sonde_config_setting *s,
                          const char *text);

/* A JSON array, or text without [: its elements, separated by commas. In config_file.c. */
int sonde_config_put_list(struct sonde_config_values *c, const struct sonde_config_setting *s,
                          const char *text);

/* How an error shows a value: on one line, cut when long. */
void sonde_config_show(char out[SONDE_CONFIG_SHOWN], const char *s, size_t len, int quote);

/* The errors; all return SONDE_EINVAL. origin: file:line:column, a variable or a flag. */
int sonde_config_bad_value(struct sonde_err *err, const char *origin,
                           const struct sonde_config_setting *s, const char *shown);
int sonde_config_unknown_section(struct sonde_err *err, const char *origin, const char *name);
int sonde_config_unknown_key(struct sonde_err *err, const char *origin, const char *section,
                             const char *key, const char *shown);

#endif
