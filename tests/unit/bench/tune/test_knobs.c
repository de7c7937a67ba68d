/* Help texts in the forms that programs have, knobs found in them, and the command lines of settings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include "bench/tune/cpus.h"
#include "bench/tune/knobs.h"
#include "sonde/sonde.h"

static const char llama_new[] =
    "----- common params -----\n\n"
    "-h,    --help, --usage                  print usage and exit\n"
    "-t,    --threads N                      number of CPU threads to use during generation (default: -1)\n"
    "                                        (env: LLAMA_ARG_THREADS)\n"
    "-tb,   --threads-batch N                number of threads to use during batch and prompt processing (default:\n"
    "                                        same as --threads)\n"
    "-b,    --batch-size N                   logical maximum batch size (default: 2048)\n"
    "-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')\n"
    "-ctk,  --cache-type-k TYPE              KV cache data type for K\n"
    "                                        allowed values: f32, f16, bf16, q8_0, q4_0\n"
    "                                        (default: f16)\n"
    "-ctv,  --cache-type-v TYPE              KV cache data type for V\n"
    "                                        allowed values: f32, f16, bf16, q8_0, q4_0\n"
    "                                        (default: f16)\n"
    "-lm,   --load-mode MODE                 model loading mode (default: auto)\n"
    "                                        - mmap: memory-map model\n"
    "                                        - none: no special loading mode\n"
    "--spec-draft-type-k, -ctkd, --cache-type-k-draft TYPE\n"
    "                                        KV cache data type for K for the draft model\n"
    "                                        (default: f16)\n"
    "-np,   --parallel N                     number of server slots (default: -1, -1 = auto)\n"
    "--port PORT                             port to listen (default: 8080)\n";

static const char llama_old[] =
    "usage: ./server [options]\n\n"
    "  -t N, --threads N         number of threads to use during computation (default: 4)\n"
    "  -fa, --flash-attn         enable Flash Attention (default: disabled)\n"
    "  --no-mmap                 do not memory-map model (slower load)\n"
    "  --port PORT               port to listen (default  (default: 8080)\n";

static const char engine[] =
    "usage: sonde-engine serve -m FILE [--listen HOST:PORT] [options]\n"
    "  -l, --listen HOST:PORT (127.0.0.1:8080); port 0 is any that is free: it is printed\n"
    "  -t, --threads N        that compute (as many as there are CPUs)\n"
    "      --slots N          requests that are computed together (4)\n"
    "  -b, --batch N          tokens in one pass (256)\n";

static const char gnu[] =
    "      --threads=N          use N threads [default: 2]\n"
    "      --color[=WHEN]       colors\n"
    "      --mmap, --no-mmap    map files (default: enabled)\n";

static struct sonde_tune_options_known known;

static const struct sonde_tune_option *option(const char *help, const char *name)
{
    sonde_tune_help_release(&known);
    assert_int_equal(sonde_tune_help_parse(help, strlen(help), &known), 0);
    return sonde_tune_help_find(&known, name);
}

static void test_help(void **state)
{
    static const struct { const char *help, *name, *value, *preset; size_t names; } rows[] = {
        { llama_new, "--threads", "N", "-1", 2 },
        { llama_new, "-tb", "N", "", 2 },
        { llama_new, "--batch-size", "N", "2048", 2 },
        { llama_new, "--flash-attn", "[on|off|auto]", "auto", 2 },
        { llama_new, "-ctk", "TYPE", "f16", 2 },
        { llama_new, "--cache-type-k-draft", "TYPE", "f16", 3 },
        { llama_new, "--load-mode", "MODE", "auto", 2 },
        { llama_new, "--port", "PORT", "8080", 1 },
        { llama_old, "--threads", "N", "4", 2 },
        { llama_old, "-fa", "", "disabled", 2 },
        { llama_old, "--no-mmap", "", "", 1 },
        { engine, "--slots", "N", "4", 1 },
        { engine, "--batch", "N", "256", 2 },
        { engine, "--listen", "HOST:PORT", "", 2 },
        { gnu, "--threads", "=N", "2", 1 },
        { gnu, "--color", "[=WHEN]", "", 1 },
        { gnu, "--no-mmap", "", "enabled", 2 },
    };
    (void)state;
    for (size_t i = 0; i < SONDE_COUNT(rows); i++) {
        const struct sonde_tune_option *o = option(rows[i].help, rows[i].name);
        if (!o) fail_msg("row %zu: no %s", i, rows[i].name);
        if (strcmp(o->value, rows[i].value) || strcmp(o->preset, rows[i].preset) ||
            o->name_count != rows[i].names) {
            fail_msg("%s: value '%s', preset '%s', %zu names", rows[i].name, o->value, o->preset,
                     o->name_count);
        }
    }
    assert_null(option(llama_new, "-----"));
    assert_true(sonde_tune_help_allows(option(llama_new, "-fa"), "off"));
    assert_false(sonde_tune_help_allows(option(llama_new, "-fa"), "of"));
    assert_true(sonde_tune_help_allows(option(llama_new, "-ctv"), "q8_0"));
    assert_null(option("", "--threads"));
    assert_null(option("-\n--\n- x\n\n\n  -", "--threads"));
    sonde_tune_help_release(&known);
}

/* ---- Command lines ---------------------------------------------------------------------------- */

/* knobs: "--knob"s separated by blanks; the level of each knob, in the order of the space. */
static void line_is(const char *help, char **argv, const char *const *knobs, size_t knob_count,
                    const char *only, const char *levels, const char *wanted)
{
    struct sonde_tune_knobs k;
    struct sonde_err err = { "" };
    char text[1024] = "", cpus[SONDE_TUNE_NAME_MAX + 1], copy[256];
    uint8_t at[SONDE_TUNE_KNOBS_MAX];
    size_t argc = 0, n = 0;
    option(help, "-");
    while (argv[argc]) argc++;
    const struct sonde_tune_knobs_options o = { .argv = argv, .argc = argc, .known = &known,
                                                .knobs = knobs, .knob_count = knob_count,
                                                .only = only, .concurrency = 4, .cpus = 4 };
    if (sonde_tune_knobs_init(&k, &o, &err)) fail_msg("%s", err.text);
    sonde_tune_levels(&k.space, sonde_tune_start(&k.space), at);
    snprintf(copy, sizeof(copy), "%s", levels);
    for (char *save, *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        *equals = 0;
        for (n = 0; n < k.space.knob_count && strcmp(k.space.knobs[n].name, word); n++) continue;
        if (n == k.space.knob_count) fail_msg("there is no knob %s", word);
        const int level = sonde_tune_level_find(&k.space.knobs[n], equals + 1);
        if (level < 0) fail_msg("%s has no level %s", word, equals + 1);
        at[n] = (uint8_t)level;
    }
    char **line = sonde_tune_argv(&k, &o, sonde_tune_point(&k.space, at), 77, cpus);
    assert_non_null(line);
    for (size_t i = 0; line[i]; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "", line[i]);
    }
    assert_string_equal(text, wanted);
    sonde_tune_argv_free(line);
    sonde_tune_help_release(&known);
}

static void test_lines(void **state)
{
    char *plain[] = { "srv", "-m", "x", NULL };
    char *given[] = { "srv", "-t", "2", "--batch-size=64", "--port", "9", NULL };
    char *places[] = { "tool", "-T{threads}", "-{level}", NULL };
    char *old[] = { "srv", "-fa", "--no-mmap", NULL };
    char *eng[] = { "sonde-engine", "serve", "-m", "x", NULL };
    static const char *const levels[] = { "threads=1,2", "level=1,9" };
    (void)state;
    /* What is as it would be anyway is not said. */
    line_is(llama_new, plain, NULL, 0, NULL, "", "srv -m x --port 77");
    line_is(llama_new, plain, NULL, 0, NULL, "threads=4 batch=512 fa=on slots=2",
            "srv -m x --threads 4 --batch-size 512 --parallel 2 --flash-attn on --port 77");
    line_is(llama_new, given, NULL, 0, NULL, "threads=1 batch=2048",
            "srv -t 1 --batch-size=2048 --port 9");
    line_is(llama_new, given, levels, 1, "threads", "threads=1",
            "srv -t 1 --batch-size=64 --port 9");
    line_is(llama_new, plain, NULL, 0, "kv", "kv=q8_0",
            "srv -m x --cache-type-k q8_0 --cache-type-v q8_0 --port 77");
    line_is(llama_new, plain, NULL, 0, "mmap", "mmap=none", "srv -m x --load-mode none --port 77");
    line_is(llama_old, old, NULL, 0, NULL, "fa=off", "srv --no-mmap --port 77");
    line_is(llama_old, old, NULL, 0, NULL, "fa=off mmap=on", "srv --port 77");
    line_is(llama_old, old, NULL, 0, NULL, "", "srv -fa --no-mmap --port 77");
    line_is(engine, eng, NULL, 0, NULL, "slots=1",
            "sonde-engine serve -m x --slots 1 --listen 127.0.0.1:77");
    line_is("", places, levels, 2, NULL, "threads=2 level=9", "tool -T2 -9");
}

static void test_bad(void **state)
{
    static const struct { const char *help, *knob, *only, *arg, *says; } rows[] = {
        { llama_new, "=1,2", NULL, "x", "this is not NAME=A,B,C" },
        { llama_new, "threads=1,,2", NULL, "x", "is empty" },
        { llama_new, "speed=1,2", NULL, "x", "no {speed}" },
        { "", NULL, NULL, "x", "nothing to tune" },
        { "", NULL, NULL, "{level}", "say which levels" },
        { llama_new, "threads=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "threads", "x", "beyond" },
    };
    (void)state;
    for (size_t i = 0; i < SONDE_COUNT(rows); i++) {
        struct sonde_tune_knobs k;
        struct sonde_err err = { "" };
        char arg[32], program[] = "srv";
        char *argv[] = { program, arg, NULL };
        snprintf(arg, sizeof(arg), "%s", rows[i].arg);
        option(rows[i].help, "-");
        const struct sonde_tune_knobs_options o = { .argv = argv, .argc = 2, .known = &known,
                                                    .knobs = &rows[i].knob,
                                                    .knob_count = rows[i].knob != NULL,
                                                    .only = rows[i].only ? rows[i].only : "none",
                                                    .cpus = 2 };
        assert_int_equal(sonde_tune_knobs_init(&k, &o, &err), SONDE_EINVAL);
        if (!strstr(err.text, rows[i].says)) fail_msg("row %zu: %s", i, err.text);
        sonde_tune_help_release(&known);
    }
}

static void test_cpus(void **state)
{
    cpu_set_t set;
    (void)state;
    assert_int_equal(sonde_tune_cpus_parse("0-3+8", &set), 0);
    assert_int_equal(CPU_COUNT(&set), 5);
    static const char *const bad[] = { "", "a", "3-1", "1-", "1+", "99999", "-1", "1 2" };
    for (size_t i = 0; i < SONDE_COUNT(bad); i++) {
        assert_int_equal(sonde_tune_cpus_parse(bad[i], &set), SONDE_EINVAL);
    }
    assert_true(sonde_tune_cpus() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help), cmocka_unit_test(test_lines), cmocka_unit_test(test_bad),
        cmocka_unit_test(test_cpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
