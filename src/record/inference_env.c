/* inference_env.c - what the environment asks of an engine. Strict: a value that is not exactly
 * what is allowed is an error that says so, since an engine that silently runs with another seed
 * or limit than was asked for is worse than one that does not start. */
#include "sonde/inference.h"

#include <stdlib.h>
#include <string.h>

#include "record/state.h"

static const char *const prefixes[] = { "SONDE_", "BITNET_", "NLOCAL_" };

enum { NAME_MAX_BYTES = 48, SHOWN_MAX = 60 };

struct sentence { char *out; size_t size, len; };

static void infer_env_say(struct sentence *s, const char *text)
{
    for (; *text && s->len + 1 < s->size; text++) s->out[s->len++] = *text;
    if (s->size) s->out[s->len] = 0;
}

/* On one line, cut when long: the value may be anything. */
static void say_value(struct sentence *s, const char *value)
{
    char shown[SHOWN_MAX + 4];
    size_t n = 0;
    for (; value[n] && n < SHOWN_MAX; n++) {
        const unsigned char c = (unsigned char)value[n];
        shown[n] = c < 0x20 || c == 0x7f ? '?' : value[n];
    }
    /* Not in the middle of a character. */
    if (value[n]) {
        while (n > 0 && ((unsigned char)value[n] & 0xc0) == 0x80) n--;
        memcpy(shown + n, "...", 4);
    } else {
        shown[n] = 0;
    }
    infer_env_say(s, "\"");
    infer_env_say(s, shown);
    infer_env_say(s, "\"");
}

struct variable { char name[NAME_MAX_BYTES]; const char *value; };

/* The first that is set, also if it is empty. */
static int infer_env_find(const char *name, struct variable *v)
{
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        const size_t len = strlen(prefixes[i]);
        memcpy(v->name, prefixes[i], len);
        strcpy(v->name + len, name);
        v->value = secure_getenv(v->name);
        if (v->value) return 1;
    }
    return 0;
}

/* Digits only, and no more than max. Where they end is in *end. */
static int parse_digits(const char *text, uint64_t max, uint64_t *out, const char **end)
{
    uint64_t v = 0;
    if (*text < '0' || *text > '9') return 0;
    for (; *text >= '0' && *text <= '9'; text++) {
        const uint64_t digit = (uint64_t)(*text - '0');
        if (v > (max - digit) / 10) return 0;
        v = v * 10 + digit;
    }
    *out = v;
    *end = text;
    return 1;
}

static int infer_env_parse_bool(const char *text, uint64_t *out)
{
    *out = !strcmp(text, "1") || !strcmp(text, "true");
    return *out || !strcmp(text, "0") || !strcmp(text, "false");
}

static int parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    const char *end;
    return parse_digits(text, max, out, &end) && !*end && *out >= min;
}

static int infer_env_parse_bytes(const char *text, uint64_t *out)
{
    static const struct { const char *name; unsigned shift; } units[] = {
        { "", 0 }, { "B", 0 },
        { "K", 10 }, { "KB", 10 }, { "KiB", 10 }, { "M", 20 }, { "MB", 20 }, { "MiB", 20 },
        { "G", 30 }, { "GB", 30 }, { "GiB", 30 }, { "T", 40 }, { "TB", 40 }, { "TiB", 40 },
    };
    const char *end;
    uint64_t n;
    if (!parse_digits(text, UINT64_MAX, &n, &end) || n == 0) return 0;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].name) != 0) continue;
        if (n > UINT64_MAX >> units[i].shift) return 0;
        *out = n << units[i].shift;
        return 1;
    }
    return 0;
}

enum infer_env_kind { FLAG, SEED, COUNT, BYTES };

/* 1: v is set, 0: it is not, SONDE_EINVAL with the sentence. */
static int infer_env_get(const char *name, enum infer_env_kind kind, uint64_t *v,
                         struct sentence *why)
{
    static const char *const allowed[] = {
        [FLAG] = "0, 1, true or false",
        [SEED] = "a whole number of 0 to 18446744073709551615",
        [COUNT] = "a whole number of 1 to 1048576",
        [BYTES] = ("a whole number of bytes, or one with KB, MB, GB or TB (powers of 1024), and "
                   "more than 0"),
    };
    struct variable var;
    if (!infer_env_find(name, &var)) return 0;
    const int good = kind == FLAG    ? infer_env_parse_bool(var.value, v)
                     : kind == SEED  ? parse_number(var.value, 0, UINT64_MAX, v)
                     : kind == COUNT ? parse_number(var.value, 1, 1048576, v)
                                     : infer_env_parse_bytes(var.value, v);
    if (good) return 1;
    infer_env_say(why, var.name);
    infer_env_say(why, " is ");
    say_value(why, var.value);
    infer_env_say(why, ", and has to be ");
    infer_env_say(why, allowed[kind]);
    return SONDE_EINVAL;
}

int sonde_inference_env(struct sonde_inference_env *out, char *error, size_t error_size)
{
    struct sonde_inference_env e = { .profile = -1, .profile_cpu = -1, .profile_memory = -1,
                                     .profile_gpu = -1 };
    struct sentence why = { error, error ? error_size : 0, 0 };
    if (out->size < sizeof(out->size) || out->size > SONDE__PAGE) {
        infer_env_say(&why, "sonde_inference_env: size is not that of its struct");
        return SONDE_EINVAL;
    }
    e.size = out->size;

    uint64_t v[9];
    int set[9];
    static const struct { const char *name; enum infer_env_kind kind; } row[9] = {
        { "DETERMINISTIC", FLAG }, { "SEED", SEED }, { "BATCH_SIZE", COUNT },
        { "NUM_THREADS", COUNT }, { "MEMORY_LIMIT", BYTES }, { "PROFILE_ENABLED", FLAG },
        { "PROFILE_CPU", FLAG }, { "PROFILE_MEMORY", FLAG }, { "PROFILE_GPU", FLAG },
    };
    for (int i = 0; i < 9; i++) {
        v[i] = 0;
        set[i] = infer_env_get(row[i].name, row[i].kind, &v[i], &why);
        if (set[i] < 0) return set[i];
    }
    e.deterministic = (int)v[0];
    e.seed_set = set[1];
    e.seed = v[1];
    e.batch_size = (uint32_t)v[2];
    e.threads = (uint32_t)v[3];
    e.memory_limit = v[4];
    int *const profile[] = { &e.profile, &e.profile_cpu, &e.profile_memory, &e.profile_gpu };
    for (int i = 0; i < 4; i++) {
        if (set[5 + i]) *profile[i] = (int)v[5 + i];
    }
    /* A caller with a newer header knows fields that this library does not. */
    if (out->size > sizeof(e)) memset((char *)out + sizeof(e), 0, out->size - sizeof(e));
    memcpy(out, &e, out->size < sizeof(e) ? out->size : sizeof(e));
    return 0;
}
