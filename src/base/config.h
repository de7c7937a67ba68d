/* config.h - settings of the agent: a JSON file, then SONDE_* in the environment, then flags;
 * each overrides the one before. One setting = one row of config_list.h, from which the parser,
 * `sonde help config` and the docs are made. An unknown key or a bad value is an error that
 * names it and says what is allowed. */
#ifndef SONDE_BASE_CONFIG_H
#define SONDE_BASE_CONFIG_H

#include <stdint.h>

#include "base/err.h"

/* How many settings there are. */
enum {
    SONDE_CONFIG_COUNT = 0
#define SONDE_BOOL(section, key, def, help) +1
#define SONDE_INT(section, key, def, min, max, help) +1
#define SONDE_NUM(section, key, def, min, max, help) +1
#define SONDE_STR(section, key, def, help) +1
#define SONDE_ENUM(section, key, def, choices, help) +1
#define SONDE_LIST(section, key, def, help) +1
#include "base/config_list.h"
#undef SONDE_BOOL
#undef SONDE_INT
#undef SONDE_NUM
#undef SONDE_STR
#undef SONDE_ENUM
#undef SONDE_LIST
};

/* Sections and keys of the JSON file. cpu.sample_rate_hz is config.cpu_sample_rate_hz and
 * SONDE_CPU_SAMPLE_RATE_HZ. */
struct sonde_config_values {
#define SONDE_BOOL(section, key, def, help) int section##_##key;
#define SONDE_INT(section, key, def, min, max, help) int64_t section##_##key;
#define SONDE_NUM(section, key, def, min, max, help) double section##_##key;
#define SONDE_STR(section, key, def, help) char section##_##key[256];
#define SONDE_ENUM(section, key, def, choices, help) char section##_##key[32];
#define SONDE_LIST(section, key, def, help) char section##_##key[8192]; /* its JSON */
#include "base/config_list.h"
#undef SONDE_BOOL
#undef SONDE_INT
#undef SONDE_NUM
#undef SONDE_STR
#undef SONDE_ENUM
#undef SONDE_LIST
    unsigned char given[SONDE_CONFIG_COUNT]; /* by its row: 1 = it was set, be it to its default */
};

void sonde_config_defaults(struct sonde_config_values *c);
/* SONDE_EINVAL with the key named; SONDE_ENOENT; c is unchanged on failure. */
int sonde_config_load_file(struct sonde_config_values *c, const char *path,
                           struct sonde_err *err);
int sonde_config_load_json(struct sonde_config_values *c, const char *text, const char *origin,
                           struct sonde_err *err);
/* envp as in main; variables SONDE_<SECTION>_<KEY>. Unknown SONDE_* ones that look like a
 * setting (known section, unknown key) are errors; others are not ours. PROFILE_ENABLED, _CPU,
 * _MEMORY and _GPU of SONDE_, BITNET_ and NLOCAL_, as engines have them, are cpu.enabled,
 * memory.enabled and gpu.enabled, for which a variable of their own is stronger. */
int sonde_config_load_env(struct sonde_config_values *c, char *const *envp,
                          struct sonde_err *err);
/* "section.key" and text. */
int sonde_config_set(struct sonde_config_values *c, const char *key, const char *value,
                     const char *origin, struct sonde_err *err);

/* 1 if a file, a variable or sonde_config_set has set "section.key". */
int sonde_config_was_given(const struct sonde_config_values *c, const char *name);

/* Calls row for each setting that was given and asks for something that this version does not do;
 * why says what it does instead. */
void sonde_config_each_void(const struct sonde_config_values *c,
                            void (*row)(const char *name, const char *why, void *arg), void *arg);

/* For help and docs: calls row for each setting. */
struct sonde_config_row {
    const char *section, *key, *type, *def, *range, *help;
};
void sonde_config_each(void (*row)(const struct sonde_config_row *r, void *arg), void *arg);

/* What every setting is, as text. */
void sonde_config_each_value(const struct sonde_config_values *c,
                             void (*row)(const char *section, const char *key, const char *value,
                                         void *arg),
                             void *arg);

#endif
