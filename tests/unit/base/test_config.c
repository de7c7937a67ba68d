#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/config.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static char dir[] = "/tmp/sonde-test-config-XXXXXX";
static char file[64];

static int group_setup(void **state)
{
    (void)state;
    if (!mkdtemp(dir)) return -1;
    snprintf(file, sizeof(file), "%s/config.json", dir);
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    unlink(file);
    rmdir(dir);
    return sonde__alloc_live() != 0;
}

static void write_file(const void *data, size_t len)
{
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* ---- every setting, by every way ---------------------------------------------------------- */

static const struct {
    const char *name, *variable, *type;
} settings[] = {
#define SONDE_BOOL(s, k, ...) { #s "." #k, #s "_" #k, "bool" },
#define SONDE_INT(s, k, ...) { #s "." #k, #s "_" #k, "int" },
#define SONDE_NUM(s, k, ...) { #s "." #k, #s "_" #k, "number" },
#define SONDE_STR(s, k, ...) { #s "." #k, #s "_" #k, "text" },
#define SONDE_ENUM(s, k, ...) { #s "." #k, #s "_" #k, "choice" },
#define SONDE_LIST(s, k, ...) { #s "." #k, #s "_" #k, "list" },
#include "base/config_list.h"
#undef SONDE_BOOL
#undef SONDE_INT
#undef SONDE_NUM
#undef SONDE_STR
#undef SONDE_ENUM
#undef SONDE_LIST
};

/* A value as text, read back from the struct. */
static void value_of(const struct sonde_config_values *c, const char *name, struct sonde_buf *b)
{
    sonde_buf_reset(b);
#define SONDE_BOOL(s, k, ...)                                                                  \
    if (!strcmp(name, #s "." #k)) sonde_buf_puts(b, c->s##_##k ? "true" : "false");
#define SONDE_INT(s, k, ...)                                                                   \
    if (!strcmp(name, #s "." #k)) sonde_buf_printf(b, "%" PRId64, c->s##_##k);
#define SONDE_NUM(s, k, ...)                                                                   \
    if (!strcmp(name, #s "." #k)) sonde_buf_double(b, c->s##_##k);
#define SONDE_STR(s, k, ...)                                                                   \
    if (!strcmp(name, #s "." #k)) sonde_buf_puts(b, c->s##_##k);
#define SONDE_ENUM SONDE_STR
#define SONDE_LIST SONDE_STR
#include "base/config_list.h"
#undef SONDE_BOOL
#undef SONDE_INT
#undef SONDE_NUM
#undef SONDE_STR
#undef SONDE_ENUM
#undef SONDE_LIST
}

/* What a setting can be given: both ends of its range, both flags, every choice. */
struct samples {
    char text[8][64];
    size_t count;
};

static void collect_samples(const struct sonde_config_row *r, struct samples *out)
{
    const char *sep = !strcmp(r->type, "choice") ? "|" : !strcmp(r->type, "bool") ? " or " : " to ";
    out->count = 0;
    if (!strcmp(r->type, "list")) {
        snprintf(out->text[out->count++], 64, "%s", "[\"http://a:1/x\",{\"url\":\"b\"}]");
        snprintf(out->text[out->count++], 64, "%s", "[]");
        return;
    }
    if (!strcmp(r->type, "text")) {
        snprintf(out->text[out->count++], 64, "%s", "/some where/\xc3\xa9");
        snprintf(out->text[out->count++], 64, "%s", "");
        return;
    }
    char range[256];
    snprintf(range, sizeof(range), "%s", r->range);
    for (char *p = range; p;) {
        char *next = strstr(p, sep);
        if (next) *next = 0;
        snprintf(out->text[out->count++], 64, "%.63s", p);
        p = next ? next + strlen(sep) : NULL;
    }
}

static void check_value(const struct sonde_config_values *c, const char *name, const char *want)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1024);
    value_of(c, name, &b);
    if (strcmp(b.data ? b.data : "", want) != 0) {
        fail_msg("%s is %s, not %s", name, b.data ? b.data : "", want);
    }
    sonde_buf_release(&b);
}

static void round_trip(const struct sonde_config_row *r, const char *name, const char *variable,
                       const char *text)
{
    const int quoted = !strcmp(r->type, "text") || !strcmp(r->type, "choice");
    struct sonde_config_values c;
    struct sonde_err err = { "" };
    char line[512];

    sonde_config_defaults(&c);
    assert_int_equal(sonde_config_set(&c, name, text, "--set", &err), 0);
    check_value(&c, name, text);

    sonde_config_defaults(&c);
    snprintf(line, sizeof(line), "SONDE_%s=%s", variable, text);
    for (char *p = line; *p != '='; p++) *p = (char)(*p >= 'a' && *p <= 'z' ? *p - 32 : *p);
    char *const envp[] = { "PATH=/bin", line, NULL };
    assert_int_equal(sonde_config_load_env(&c, envp, &err), 0);
    check_value(&c, name, text);

    sonde_config_defaults(&c);
    snprintf(line, sizeof(line), "{\"%s\": {\"%s\": %s%s%s}}", r->section, r->key,
             quoted ? "\"" : "", text, quoted ? "\"" : "");
    assert_int_equal(sonde_config_load_json(&c, line, "text", &err), 0);
    check_value(&c, name, text);

    sonde_config_defaults(&c);
    write_file(line, strlen(line));
    assert_int_equal(sonde_config_load_file(&c, file, &err), 0);
    check_value(&c, name, text);
}

static void one_row(const struct sonde_config_row *r, void *arg)
{
    size_t *i = arg;
    assert_true(*i < COUNT(settings));
    const char *name = settings[*i].name;
    char full[128];
    snprintf(full, sizeof(full), "%s.%s", r->section, r->key);
    assert_string_equal(full, name);
    assert_string_equal(r->type, settings[*i].type);
    assert_true(r->help[0] != 0);

    struct sonde_config_values c;
    sonde_config_defaults(&c);
    check_value(&c, name, r->def);

    struct samples samples;
    collect_samples(r, &samples);
    assert_true(samples.count >= 2);
    for (size_t k = 0; k < samples.count; k++) {
        round_trip(r, name, settings[*i].variable, samples.text[k]);
    }
    ++*i;
}

static void test_every_setting(void **state)
{
    (void)state;
    size_t n = 0;
    sonde_config_each(one_row, &n);
    assert_int_equal(n, COUNT(settings));
}

static void check_honest(const struct sonde_config_row *r, void *arg)
{
    (void)arg;
    static const char *const working[] = {
        "agent", "server", "inference", "continuous", "cost", "scrape", "ingest", "push",
        "baseline", "bench", "ab", "alerts",
        "cpu.enabled",
        "cpu.sample_rate_hz", "cpu.max_stack_depth", "memory",
        "bottleneck", "regression",
        "flamegraph.min_width_percent", "flamegraph.color_scheme", "storage.path",
        "storage.retention_days", "storage.raw_hours", "storage.max_profiles",
        "storage.max_megabytes", "storage.spans_per_second", "storage.requests_per_second",
        "storage.recent_megabytes", "storage.recent_hours",
        "health", "gpu.enabled", "gpu.poll_interval_ms", "gpu.burst_interval_ms", "gpu.activity",
        "gpu.root", "gpu.track_kernels",
    };
    char name[128];
    int works = 0;
    snprintf(name, sizeof(name), "%s.%s", r->section, r->key);
    for (size_t i = 0; i < COUNT(working); i++) {
        works |= !strcmp(r->section, working[i]) || !strcmp(name, working[i]);
    }
    assert_int_equal(strstr(r->help, " (accepted; no effect in this version: ") == NULL, works);
}

static void count_value(const char *section, const char *key, const char *value, void *arg)
{
    char line[512];
    snprintf(line, sizeof(line), "%s.%s=%s", section, key, value);
    static const char *const wanted[] = {
        "cpu.enabled=true", "cpu.sample_rate_hz=99", "agent.interval_seconds=1",
        "flamegraph.color_scheme=hot", "server.listen=127.0.0.1:6060", "storage.path=",
    };
    for (size_t i = 0; i < COUNT(wanted); i++) *(int *)arg += !strcmp(line, wanted[i]);
}

static void test_values(void **state)
{
    (void)state;
    struct sonde_config_values c;
    int found = 0;
    sonde_config_defaults(&c);
    sonde_config_each_value(&c, count_value, &found);
    assert_int_equal(found, 6);
}

static void test_help_is_honest(void **state)
{
    (void)state;
    sonde_config_each(check_honest, NULL);
}

/* ---- precedence --------------------------------------------------------------------------- */

static void test_precedence(void **state)
{
    (void)state;
    struct sonde_config_values c;
    struct sonde_err err;
    sonde_config_defaults(&c);
    assert_int_equal(sonde_config_load_json(&c,
                                            "{\"agent\": {\"max_spans\": 100, \"max_series\": 101,"
                                            " \"dir\": \"/from/file\"}}",
                                            "f", &err),
                     0);
    char *const envp[] = { "SONDE_AGENT_MAX_SPANS=200", "SONDE_AGENT_MAX_SERIES=201", NULL };
    assert_int_equal(sonde_config_load_env(&c, envp, &err), 0);
    assert_int_equal(sonde_config_set(&c, "agent.max_spans", "300", "--set", &err), 0);
    assert_int_equal(c.agent_max_spans, 300);
    assert_int_equal(c.agent_max_series, 201);
    assert_string_equal(c.agent_dir, "/from/file");
    assert_true(c.agent_interval_seconds == 1.0);
}

/* The configuration that users of a profiling set-up have: every key and section is known. */
static const char users_file[] =
    "{\n"
    "  \"cpu\": {\"enabled\": true, \"sample_rate_hz\": 500, \"max_stack_depth\": 64,\n"
    "          \"capture_threads\": false},\n"
    "  \"memory\": {\"enabled\": true, \"track_allocations\": true, \"sample_rate\": 100,\n"
    "             \"leak_detection\": true},\n"
    "  \"gpu\": {\"enabled\": false, \"poll_interval_ms\": 250, \"track_kernels\": true},\n"
    "  \"flamegraph\": {\"min_width_percent\": 0.25, \"color_scheme\": \"cold\",\n"
    "                 \"interactive\": true},\n"
    "  \"bottleneck\": {\"threshold_ms\": 10, \"auto_detect\": true,\n"
    "                 \"alert_on_regression\": true},\n"
    "  \"storage\": {\"persist_to_hana\": true, \"retention_days\": 30, \"max_profiles\": 1000}\n"
    "}\n";

static void test_users_file(void **state)
{
    (void)state;
    struct sonde_config_values c;
    struct sonde_err err = { "" };
    sonde_config_defaults(&c);
    if (sonde_config_load_json(&c, users_file, "f", &err)) fail_msg("%s", err.text);
    assert_int_equal(c.cpu_sample_rate_hz, 500);
    assert_int_equal(c.cpu_capture_threads, 0);
    assert_int_equal(c.gpu_poll_interval_ms, 250);
    assert_true(c.flamegraph_min_width_percent == 0.25);
    assert_string_equal(c.flamegraph_color_scheme, "cold");
    assert_true(c.bottleneck_threshold_ms == 10.0); /* a whole JSON number for a NUM */
    assert_int_equal(c.storage_persist_to_hana, 1);
}

static void test_bool_words(void **state)
{
    (void)state;
    static const char *const words[] = { "false", "true", "0", "1",   "no",  "yes",
                                         "off",   "on",   "No", "TRUE" };
    for (size_t i = 0; i < COUNT(words); i++) {
        struct sonde_config_values c;
        struct sonde_err err;
        sonde_config_defaults(&c);
        c.agent_host_metrics = !(i % 2);
        assert_int_equal(sonde_config_set(&c, "agent.host_metrics", words[i], "t", &err), 0);
        assert_int_equal(c.agent_host_metrics, i % 2);
    }
}

/* Variables of ours that are not settings, and of others. */
static void test_env_not_ours(void **state)
{
    (void)state;
    char *const envp[] = { "SONDE_DIR=/x",        "SONDE_ENABLED=0",   "SONDE_BUILD=b",
                           "SONDE_SOURCE=s",      "SONDE_=1",          "SONDE_AGENT=1", "SONDE_CPU",
                           "SONDE_CPUX_Y=1",    "XSONDE_CPU_ENABLED=maybe", "SONDE_cpu_enabled=z",
                           "SONDE_TOKEN_X=abc", "=", /* An engine's: inference.h. */
                           "SONDE_MEMORY_LIMIT=1GB", "SONDE_SEED=1", "SONDE_BATCH_SIZE=4",
                           "", NULL };
    struct sonde_config_values c, defaults;
    struct sonde_err err = { "" };
    sonde_config_defaults(&c);
    sonde_config_defaults(&defaults);
    if (sonde_config_load_env(&c, envp, &err)) fail_msg("%s", err.text);
    assert_memory_equal(&c, &defaults, sizeof(c));
}

/* What engines are asked to profile, sonde is asked as well. */
static void test_env_of_engines(void **state)
{
    (void)state;
    static const struct {
        const char *envp[5];
        int cpu, memory, gpu;
        const char *error;
    } cases[] = {
        { { "NLOCAL_PROFILE_ENABLED=true" }, 1, 1, 1, NULL },
        { { "NLOCAL_PROFILE_ENABLED=false" }, 0, 0, 0, NULL },
        { { "NLOCAL_PROFILE_CPU=false" }, 0, 1, 1, NULL },
        { { "BITNET_PROFILE_MEMORY=0" }, 1, 0, 1, NULL },
        { { "SONDE_PROFILE_GPU=0" }, 1, 1, 0, NULL },
        { { "NLOCAL_PROFILE_ENABLED=0", "NLOCAL_PROFILE_CPU=1" }, 0, 0, 0, NULL },
        { { "NLOCAL_PROFILE_CPU=1", "SONDE_PROFILE_CPU=0" }, 0, 1, 1, NULL },
        { { "SONDE_CPU_ENABLED=1", "NLOCAL_PROFILE_ENABLED=0" }, 1, 0, 0, NULL },
        { { "NLOCAL_PROFILE_ENABLED=0", "SONDE_CPU_ENABLED=1" }, 1, 0, 0, NULL },
        { { "NLOCAL_PROFILE_CPU=maybe" }, 1, 1, 1,
          "NLOCAL_PROFILE_CPU is \"maybe\", but must be 0, 1, true or false" },
        { { "SONDE_PROFILE_ENABLED=" }, 1, 1, 1,
          "SONDE_PROFILE_ENABLED is \"\", but must be 0, 1, true or false" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_config_values c;
        struct sonde_err err = { "" };
        sonde_config_defaults(&c);
        const int rc = sonde_config_load_env(&c, (char *const *)(uintptr_t)cases[i].envp, &err);
        assert_int_equal(rc, cases[i].error ? SONDE_EINVAL : 0);
        assert_string_equal(err.text, cases[i].error ? cases[i].error : "");
        assert_int_equal(c.cpu_enabled, cases[i].cpu);
        assert_int_equal(c.memory_enabled, cases[i].memory);
        assert_int_equal(c.gpu_enabled, cases[i].gpu);
    }
}

/* ---- what does nothing --------------------------------------------------------------------- */

static void add_void(const char *name, const char *why, void *arg)
{
    char *text = arg;
    assert_true(strlen(why) > 10);
    snprintf(text + strlen(text), 1024 - strlen(text), "%s%s", *text ? " " : "", name);
}

static void test_void_settings(void **state)
{
    (void)state;
    static const struct { const char *json, *names; } cases[] = {
        { "{}", "" },
        { "{\"cpu\": {\"capture_threads\": true}, \"flamegraph\": {\"interactive\": true}}", "" },
        { "{\"cpu\": {\"capture_threads\": false}, \"flamegraph\": {\"interactive\": false}}",
          "cpu.capture_threads flamegraph.interactive" },
        { "{\"gpu\": {\"enabled\": false}, \"storage\": {\"persist_to_hana\": false}}", "" },
        { "{\"gpu\": {\"enabled\": true, \"track_kernels\": true}, "
          "\"storage\": {\"persist_to_hana\": true}}",
          "storage.persist_to_hana" },
        { "{\"memory\": {\"sample_rate\": 7, \"enabled\": false}}", "" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_config_values c;
        struct sonde_err err = { "" };
        char names[1024] = "";
        sonde_config_defaults(&c);
        sonde_config_each_void(&c, add_void, names);
        assert_string_equal(names, "");
        assert_int_equal(sonde_config_load_json(&c, cases[i].json, "f", &err), 0);
        sonde_config_each_void(&c, add_void, names);
        assert_string_equal(names, cases[i].names);
    }
    struct sonde_config_values c;
    struct sonde_err err = { "" };
    sonde_config_defaults(&c);
    assert_false(sonde_config_was_given(&c, "agent.max_spans"));
    assert_int_equal(sonde_config_set(&c, "agent.max_spans", "16384", "t", &err), 0);
    assert_true(sonde_config_was_given(&c, "agent.max_spans"));
    assert_false(sonde_config_was_given(&c, "agent.no_such"));
}

/* ---- bad input ---------------------------------------------------------------------------- */

#define LONG64 "0123456789012345678901234567890123456789012345678901234567890123"
#define LONG256 LONG64 LONG64 LONG64 LONG64

static const struct {
    const char *json, *error;
} bad_json[] = {
    { "", "f:1:0: not valid JSON: '[' or '{' expected near end of file" },
    { "[]", "f: an array, but must be an object of sections, such as "
            "{\"agent\": {\"interval_seconds\": 1}}" },
    { "{\"cpu\": {\n  \"enabled\": tru\n}}", "f:2:16: not valid JSON: invalid token near 'tru'" },
    { "{\"cpu\": {}} x", "f:1:13: not valid JSON: end of file expected near 'x'" },
    { "{\"cpu\": {\"enabled\": true, \"enabled\": false}}",
      "f:1:35: not valid JSON: duplicate object key near '\"enabled\"'" },
    { "{\"gpus\": {}}", "f:1:2: unknown section gpus; did you mean gpu?" },
    { "{\n  \"xyzzy\": {}}", "f:2:3: unknown section xyzzy; there are cpu, memory, gpu, "
                             "flamegraph, bottleneck, storage, continuous, cost, agent, inference, "
                             "baseline, bench, push, alerts, health, server, ab, scrape, ingest, "
                             "regression" },
    { "{\"sample_rate_hz\": 5}",
      "f:1:2: unknown section sample_rate_hz; did you mean cpu.sample_rate_hz?" },
    { "{\"cpu\": true}", "f:1:2: section cpu is true, but must be an object of settings" },
    { "{\"cpu\": [1]}", "f:1:2: section cpu is an array, but must be an object of settings" },
    { "{\"cpu\": {\n   \"sample_rate\": 7}}",
      "f:2:4: unknown setting cpu.sample_rate = 7; did you mean cpu.sample_rate_hz?" },
    { "{\"cpu\": {\"leak_detection\": true}}",
      "f:1:10: unknown setting cpu.leak_detection = true; did you mean memory.leak_detection?" },
    { "{\"gpu\": {\"enable\": \"a\\\"b\"}}",
      "f:1:10: unknown setting gpu.enable = \"a\\\"b\"; did you mean gpu.enabled?" },
    { "{\"gpu\": {\"q\": {\"deep\": [1, \"}\"]}}}",
      "f:1:10: unknown setting gpu.q = an object; gpu has enabled, poll_interval_ms, "
      "burst_interval_ms, activity, root, "
      "track_kernels" },
    { "{\"cpu\": {\"enabled\": 1}}", "f:1:10: cpu.enabled is 1, but must be true or false" },
    { "{\"cpu\": {\"enabled\": \"true\"}}",
      "f:1:10: cpu.enabled is \"true\", but must be true or false" },
    { "{\"cpu\": {\"enabled\": null}}", "f:1:10: cpu.enabled is null, but must be true or false" },
    { "{\"cpu\": {\"sample_rate_hz\": 0}}",
      "f:1:10: cpu.sample_rate_hz is 0, but must be a whole number from 1 to 10000" },
    { "{\"memory\": {\"enabled\": true},\n \"cpu\": {\"enabled\": false,\n"
      "  \"sample_rate_hz\": 10001 }}",
      "f:3:3: cpu.sample_rate_hz is 10001, but must be a whole number from 1 to 10000" },
    { "{\"cpu\": {\"sample_rate_hz\": 99.5}}",
      "f:1:10: cpu.sample_rate_hz is 99.5, but must be a whole number from 1 to 10000" },
    { "{\"cpu\": {\"sample_rate_hz\": [\"]\"]}}",
      "f:1:10: cpu.sample_rate_hz is an array, but must be a whole number from 1 to 10000" },
    { "{\"cpu\": {\"sample_rate_hz\": 99999999999999999999}}",
      "f:1:47: not valid JSON: too big integer near '99999999999999999999'" },
    { "{\"flamegraph\": {\"min_width_percent\": 100.5}}",
      "f:1:17: flamegraph.min_width_percent is 100.5, but must be a number from 0 to 100" },
    { "{\"agent\": {\"interval_seconds\": 0.04}}",
      "f:1:12: agent.interval_seconds is 0.04, but must be a number from 0.05 to 3600" },
    { "{\"flamegraph\": {\"color_scheme\": \"pink\"}}",
      "f:1:17: flamegraph.color_scheme is \"pink\", but must be one of hot, cold, rainbow, "
      "monochrome, module" },
    { "{\"flamegraph\": {\"color_scheme\": \"ho\"}}",
      "f:1:17: flamegraph.color_scheme is \"ho\", but must be one of hot, cold, rainbow, "
      "monochrome, module" },
    { "{\"flamegraph\": {\"color_scheme\": \"hot|cold\"}}",
      "f:1:17: flamegraph.color_scheme is \"hot|cold\", but must be one of hot, cold, rainbow, "
      "monochrome, module" },
    { "{\"agent\": {\"dir\": 5}}",
      "f:1:12: agent.dir is 5, but must be UTF-8 text of at most 255 bytes" },
    { "{\"agent\": {\"dir\": \"" LONG256 "\"}}",
      "f:1:12: agent.dir is \"" LONG64 "012345678..., but must be UTF-8 text of at most 255 "
      "bytes" },
    /* Columns count characters, and keys with escapes are found too. */
    { "{\"agent\": {\"dir\": \"\xc3\xa9\xc3\xa9\", \"max_\\u0073pans\": 1}}",
      "f:1:25: agent.max_spans is 1, but must be a whole number from 16 to 10000000" },
};

static void test_bad_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_json); i++) {
        struct sonde_config_values c, before;
        struct sonde_err err = { "" };
        sonde_config_defaults(&c);
        c.agent_max_spans = 77;
        before = c;
        assert_int_equal(sonde_config_load_json(&c, bad_json[i].json, "f", &err), SONDE_EINVAL);
        assert_string_equal(err.text, bad_json[i].error);
        assert_memory_equal(&c, &before, sizeof(c));
        assert_int_equal(sonde_config_load_json(&c, bad_json[i].json, "f", NULL), SONDE_EINVAL);
    }
}

/* c is unchanged even by what came before the error. */
static void test_all_or_nothing(void **state)
{
    (void)state;
    struct sonde_config_values c, before;
    struct sonde_err err;
    sonde_config_defaults(&c);
    before = c;
    static const char late[] = "{\"agent\": {\"max_spans\": 99}, \"cpu\": {\"enabled\": 2}}";
    assert_int_equal(sonde_config_load_json(&c, late, "f", &err), SONDE_EINVAL);
    assert_memory_equal(&c, &before, sizeof(c));
    char *const envp[] = { "SONDE_AGENT_MAX_SPANS=99", "SONDE_CPU_ENABLED=2", NULL };
    assert_int_equal(sonde_config_load_env(&c, envp, &err), SONDE_EINVAL);
    assert_memory_equal(&c, &before, sizeof(c));
}

static const struct {
    const char *variable, *error;
} bad_env[] = {
    { "SONDE_CPU_ENABLED=maybe",
      "SONDE_CPU_ENABLED: cpu.enabled is \"maybe\", but must be true or false" },
    { "SONDE_CPU_ENABLED=", "SONDE_CPU_ENABLED: cpu.enabled is \"\", but must be true or false" },
    { "SONDE_AGENT_MAX_SPANS=ten", "SONDE_AGENT_MAX_SPANS: agent.max_spans is \"ten\", but must "
                                   "be a whole number from 16 to 10000000" },
    { "SONDE_AGENT_MAX_SPANS=16 ", "SONDE_AGENT_MAX_SPANS: agent.max_spans is \"16 \", but must "
                                   "be a whole number from 16 to 10000000" },
    { "SONDE_AGENT_MAX_SPANS=99999999999999999999",
      "SONDE_AGENT_MAX_SPANS: agent.max_spans is \"99999999999999999999\", but must be a whole "
      "number from 16 to 10000000" },
    { "SONDE_AGENT_INTERVAL_SECONDS=nan",
      "SONDE_AGENT_INTERVAL_SECONDS: agent.interval_seconds is \"nan\", but must be a number "
      "from 0.05 to 3600" },
    { "SONDE_AGENT_INTERVAL_SECONDS=1s",
      "SONDE_AGENT_INTERVAL_SECONDS: agent.interval_seconds is \"1s\", but must be a number "
      "from 0.05 to 3600" },
    { "SONDE_AGENT_INTERVAL_SECONDS=1e999",
      "SONDE_AGENT_INTERVAL_SECONDS: agent.interval_seconds is \"1e999\", but must be a number "
      "from 0.05 to 3600" },
    { "SONDE_AGENT_DIR=\xff", "SONDE_AGENT_DIR: agent.dir is \"\xef\xbf\xbd\", but must be UTF-8 "
                              "text of at most 255 bytes" },
    { "SONDE_FLAMEGRAPH_COLOR_SCHEME=\033[2J\n",
      "SONDE_FLAMEGRAPH_COLOR_SCHEME: flamegraph.color_scheme is \"?[2J?\", but must be one of "
      "hot, cold, rainbow, monochrome, module" },
    { "SONDE_SERVER_LISTN=x", "SONDE_SERVER_LISTN: unknown setting server.listn = \"x\"; did you "
                              "mean server.listen?" },
    { "SONDE_GPU_QQQQ=1", "SONDE_GPU_QQQQ: unknown setting gpu.qqqq = \"1\"; gpu has enabled, "
                          "poll_interval_ms, burst_interval_ms, activity, root, track_kernels" },
    { "SONDE_GPU_=1", "SONDE_GPU_: unknown setting gpu. = \"1\"; gpu has enabled, "
                      "poll_interval_ms, burst_interval_ms, activity, root, track_kernels" },
};

static void test_bad_env(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_env); i++) {
        char variable[128];
        snprintf(variable, sizeof(variable), "%s", bad_env[i].variable);
        char *const envp[] = { variable, NULL };
        struct sonde_config_values c;
        struct sonde_err err = { "" };
        sonde_config_defaults(&c);
        assert_int_equal(sonde_config_load_env(&c, envp, &err), SONDE_EINVAL);
        assert_string_equal(err.text, bad_env[i].error);
    }
    char *const endless[] = { "SONDE_CPU_" LONG256 "=1", NULL };
    struct sonde_config_values c;
    struct sonde_err err = { "" };
    sonde_config_defaults(&c);
    assert_int_equal(sonde_config_load_env(&c, endless, &err), SONDE_EINVAL);
}

static const struct {
    const char *key, *value, *error;
} bad_set[] = {
    { "cpu.enabled", "2", "--set: cpu.enabled is \"2\", but must be true or false" },
    { "cpu.enabld", "1", "--set: unknown setting cpu.enabld = \"1\"; did you mean cpu.enabled?" },
    { "cqu.enabled", "1", "--set: unknown section cqu; did you mean cpu?" },
    { "max_serise", "1",
      "--set: max_serise is not the name of a setting; did you mean agent.max_series?" },
    { "", "1", "--set:  is not the name of a setting; names look like agent.max_series" },
    { ".", "1", "--set: unknown section ; there are cpu, memory, gpu, flamegraph, bottleneck, "
                "storage, continuous, cost, agent, inference, baseline, bench, push, alerts, health, "
                "server, ab, scrape, ingest, regression" },
    { "agent.max_series", "0x10", "--set: agent.max_series is \"0x10\", but must be a whole "
                                  "number from 1 to 16777216" },
    { "agent.max_series", "-", "--set: agent.max_series is \"-\", but must be a whole number "
                               "from 1 to 16777216" },
    { "agent.retain_seconds", "-1",
      "--set: agent.retain_seconds is \"-1\", but must be a number from 0 to 86400" },
    { "agent.retain_seconds", "0x1p3",
      "--set: agent.retain_seconds is \"0x1p3\", but must be a number from 0 to 86400" },
    { "agent.retain_seconds", "",
      "--set: agent.retain_seconds is \"\", but must be a number from 0 to 86400" },
};

static void test_bad_set(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad_set); i++) {
        struct sonde_config_values c, before;
        struct sonde_err err = { "" };
        sonde_config_defaults(&c);
        before = c;
        assert_int_equal(
            sonde_config_set(&c, bad_set[i].key, bad_set[i].value, "--set", &err), SONDE_EINVAL);
        assert_string_equal(err.text, bad_set[i].error);
        assert_memory_equal(&c, &before, sizeof(c));
    }
}

static void test_bad_files(void **state)
{
    (void)state;
    struct sonde_config_values c;
    struct sonde_err err = { "" };
    char want[256];
    sonde_config_defaults(&c);

    unlink(file);
    assert_int_equal(sonde_config_load_file(&c, file, &err), SONDE_ENOENT);
    snprintf(want, sizeof(want), "%s: No such file or directory", file);
    assert_string_equal(err.text, want);

    assert_int_equal(sonde_config_load_file(&c, dir, &err), SONDE_EINVAL);
    snprintf(want, sizeof(want), "%s: Is a directory; only regular files are read as a "
                                 "configuration", dir);
    assert_string_equal(err.text, want);

    write_file("{\n \"cpu\": {\"enabled\": 3}}", 25);
    assert_int_equal(sonde_config_load_file(&c, file, &err), SONDE_EINVAL);
    snprintf(want, sizeof(want), "%s:2:10: cpu.enabled is 3, but must be true or false", file);
    assert_string_equal(err.text, want);

    write_file("{}\0", 3);
    assert_int_equal(sonde_config_load_file(&c, file, &err), SONDE_EINVAL);
    snprintf(want, sizeof(want), "%s: byte 2 is NUL, not valid JSON", file);
    assert_string_equal(err.text, want);

    write_file("", 0);
    assert_int_equal(sonde_config_load_file(&c, file, &err), SONDE_EINVAL);

    char *spaces = malloc(2 << 20);
    assert_non_null(spaces);
    memset(spaces, ' ', 2 << 20);
    write_file(spaces, 2 << 20);
    free(spaces);
    assert_int_equal(sonde_config_load_file(&c, file, &err), SONDE_EINVAL);
    snprintf(want, sizeof(want), "%s: larger than 1048576 bytes, not a configuration", file);
    assert_string_equal(err.text, want);
}

/* A good file with a few bytes changed, thousands of times: it loads, or there is an error that
 * says where and nothing has changed. */
static void test_mutations(void **state)
{
    (void)state;
    static const char spice[] = "{}[]:,\"\\ \n0-9.eutf\xff\x01";
    uint64_t seed = 88172645463325252u;
    int good = 0, bad = 0;
    for (int i = 0; i < 20000; i++) {
        char text[sizeof(users_file)];
        memcpy(text, users_file, sizeof(text));
        for (int k = 0; k <= i % 4; k++) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            text[seed % (sizeof(text) - 1)] = spice[(seed >> 32) % (sizeof(spice) - 1)];
        }
        struct sonde_config_values c, before;
        struct sonde_err err = { "" };
        sonde_config_defaults(&c);
        before = c;
        const int rc = sonde_config_load_json(&c, text, "f", &err);
        good += rc == 0;
        bad += rc != 0;
        if (!rc) continue;
        assert_int_equal(rc, SONDE_EINVAL);
        if (strncmp(err.text, "f:", 2) != 0) fail_msg("%s: %s", text, err.text);
        assert_memory_equal(&c, &before, sizeof(c));
    }
    assert_true(good > 100 && bad > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_setting),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_help_is_honest),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_users_file),
        cmocka_unit_test(test_bool_words),
        cmocka_unit_test(test_env_not_ours),
        cmocka_unit_test(test_env_of_engines),
        cmocka_unit_test(test_void_settings),
        cmocka_unit_test(test_bad_json),
        cmocka_unit_test(test_all_or_nothing),
        cmocka_unit_test(test_bad_env),
        cmocka_unit_test(test_bad_set),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
