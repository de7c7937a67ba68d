/* Every command through its table: its help, each of its options with values that cannot be, and
 * what its own run() refuses before it does anything. Status 2, one line on stderr, and the culprit
 * named in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "sonde/sonde.h"
#include "unit/cli/captured.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct captured said;

/* sonde NAME args…, as main does it. */
static int ask(const char *name, const char *const *args)
{
    static char *none[] = { NULL };
    char text[16][128], *argv[18];
    int argc = 0;
    snprintf(text[argc], sizeof(text[argc]), "sonde");
    argv[argc++] = text[0];
    for (const char *const *a = (const char *const[]){ name, NULL }; *a; a++) {
        snprintf(text[argc], sizeof(text[argc]), "%s", *a);
        argv[argc] = text[argc];
        argc++;
    }
    for (; args && *args; args++) {
        assert_true(argc < 16);
        snprintf(text[argc], sizeof(text[argc]), "%s", *args);
        argv[argc] = text[argc];
        argc++;
    }
    argv[argc] = NULL;
    captured_begin(&said);
    const int status = sonde_cli_main(argc, argv, none);
    captured_end(&said);
    return status;
}

static void expect_usage(const char *name, const char *const *args, const char *says)
{
    const int status = ask(name, args);
    char begins[64];
    if (status != SONDE_EXIT_USAGE) {
        fail_msg("sonde %s %s %s: status %d, %s", name, args[0], args[0] && args[1] ? args[1] : "",
                 status, said.err);
    }
    snprintf(begins, sizeof(begins), "sonde %s: ", name);
    if (strncmp(said.err, begins, strlen(begins))) fail_msg("%s", said.err);
    if (!strstr(said.err, says)) fail_msg("sonde %s: no '%s' in: %s", name, says, said.err);
    assert_ptr_equal(strchr(said.err, '\n') + 1, strchr(said.err, '\0'));
    assert_string_equal(said.out, "");
}

#define ARGS(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define EACH(c)                                                                                  \
    for (const struct sonde_command *const *at = sonde_commands, *c; (c = *at) != NULL; at++) \
        if (!c->parts) /* commands of their own are asked by tests/cli/test_help.sh */

/* ---- The frame ------------------------------------------------------------------------------- */

static void help_of_each(void **state)
{
    (void)state;
    EACH(c)
    {
        char usage[160];
        snprintf(usage, sizeof(usage), "usage: sonde %s", c->name);
        const char *const *const ways[] = { ARGS("--help"), ARGS("-h"), ARGS("-qh") };
        for (size_t i = 0; i < COUNT(ways); i++) {
            assert_int_equal(ask(c->name, ways[i]), SONDE_EXIT_OK);
            assert_memory_equal(said.out, usage, strlen(usage));
            assert_string_equal(said.err, "");
            for (const struct sonde_cli_opt *o = c->options; o && o->name; o++) {
                char option[80];
                snprintf(option, sizeof(option), "--%s", o->name);
                if (!strstr(said.out, option)) fail_msg("%s: no %s", c->name, option);
            }
            assert_non_null(strstr(said.out, "options of every command:"));
        }
        assert_int_equal(ask("help", ARGS(c->name)), SONDE_EXIT_OK); /* the same again */
        assert_memory_equal(said.out, usage, strlen(usage));
    }
}

static void overview(void **state)
{
    (void)state;
    char arg[] = "sonde", *argv[] = { arg, NULL }, *none[] = { NULL };
    captured_begin(&said);
    int status = sonde_cli_main(1, argv, none);
    captured_end(&said);
    assert_int_equal(status, SONDE_EXIT_USAGE); /* it did nothing */
    EACH(c) assert_non_null(strstr(said.out, c->summary ? c->name : ""));
    static const struct { const char *name; int status; const char *out, *err; } cases[] = {
        { "--version", 0, "sonde " SONDE_VERSION "\n", NULL },
        { "-V", 0, "sonde " SONDE_VERSION "\n", NULL },
        { "--help", 0, "usage: sonde COMMAND", NULL },
        { "-h", 0, "usage: sonde COMMAND", NULL },
        { "help", 0, "usage: sonde COMMAND", NULL },
        { "recrod", 2, NULL, "there is no command 'recrod'; did you mean 'record'?" },
        { "RUN", 2, NULL, "there is no command 'RUN'" },
        { "xyzzy", 2, NULL, "there is no command 'xyzzy'; `sonde help` lists them" },
        { "", 2, NULL, "there is no command ''" },
        { "-v", 2, NULL, "'-v' before a command is not known here" },
        { "--config=x", 2, NULL, "'--config=x' before a command" },
        { "ru\x1bn", 2, NULL, "'ru?n'" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        status = ask(cases[i].name, NULL);
        if (status != cases[i].status) fail_msg("%s: %d", cases[i].name, status);
        if (cases[i].out && !strstr(said.out, cases[i].out)) fail_msg("%s", said.out);
        if (cases[i].err && !strstr(said.err, cases[i].err)) fail_msg("%s", said.err);
        if (!cases[i].out) assert_string_equal(said.out, "");
    }
    expect_usage("help", ARGS("recrod"), "there is nothing on 'recrod'");
    expect_usage("help", ARGS("run", "top"), "there is nothing on 'run top'");
    assert_int_equal(ask("help", ARGS("config")), SONDE_EXIT_OK);
    assert_non_null(strstr(said.out, "agent.interval_seconds"));
}

/* What a command's tables promise. */
static void tables_are_sound(void **state)
{
    (void)state;
    EACH(c)
    {
        assert_ptr_equal(sonde_command_find(c->name), c);
        assert_true(c->summary && *c->summary && c->usage && c->run);
        assert_null(strchr(c->summary, '\n'));
        for (const struct sonde_cli_opt *o = c->options; o && o->name; o++) {
            size_t size = 0;
            switch (o->type) {
            case SONDE_OPT_FLAG:
            case SONDE_OPT_SPLIT: size = sizeof(int); break;
            case SONDE_OPT_STR: size = sizeof(char *); break;
            case SONDE_OPT_LIST: size = sizeof(struct sonde_cli_list); break;
            case SONDE_OPT_UINT: size = sizeof(uint64_t); break;
            case SONDE_OPT_NUM: size = sizeof(double); break;
            case SONDE_OPT_SETTING: break;
            }
            if (o->offset + size > c->values_size) fail_msg("%s --%s: no field", c->name, o->name);
            const int flag = o->type == SONDE_OPT_FLAG || o->type == SONDE_OPT_SPLIT;
            const int setting = o->type == SONDE_OPT_SETTING;
            if (flag ? o->value != NULL : !setting && !o->value) fail_msg("--%s: value", o->name);
            if (setting && !o->value == !o->fixed) fail_msg("--%s: value or fixed", o->name);
            if (o->type == SONDE_OPT_UINT || o->type == SONDE_OPT_NUM) assert_true(o->min < o->max);
            if (o->type == SONDE_OPT_UINT) assert_true(o->min >= 0);
            const size_t help = strlen(o->help); /* no full stop, but dots that mean more */
            if (!help || (o->help[help - 1] == '.' && o->help[help - 2] != '.')) {
                fail_msg("%s --%s: %s", c->name, o->name, o->help);
            }
            for (const struct sonde_cli_opt *k = c->options; k != o; k++) { /* none hides another */
                if (!strcmp(k->name, o->name) || (o->letter && k->letter == o->letter)) {
                    fail_msg("%s: --%s and --%s", c->name, k->name, o->name);
                }
            }
            for (const struct sonde_cli_opt *k = sonde_cli_common_options; k->name; k++) {
                if (!strcmp(k->name, o->name) || (o->letter && k->letter == o->letter)) {
                    fail_msg("%s: --%s hides the common --%s", c->name, o->name, k->name);
                }
            }
        }
    }
    assert_null(sonde_command_find("no such"));
    assert_null(sonde_command_find(""));
}

/* ---- Options --------------------------------------------------------------------------------- */

static void unknown_options(void **state)
{
    (void)state;
    EACH(c)
    {
        expect_usage(c->name, ARGS("--no-such-option"), "there is no option '--no-such-option'");
        expect_usage(c->name, ARGS("--no-such-option=x"), "'--no-such-option'");
        expect_usage(c->name, ARGS("-~"), "there is no option '-~'");
        expect_usage(c->name, ARGS("--verbos"), "did you mean '--verbose'?");
        expect_usage(c->name, ARGS("--quiet=1"), "--quiet takes no value");
        expect_usage(c->name, ARGS("--config"), "--config needs FILE");
        expect_usage(c->name, ARGS("--log"), "--log needs FILE");
        expect_usage(c->name, ARGS("--set"), "--set needs");
        expect_usage(c->name, ARGS("--set", "x"), "--set: 'x'");
        if (c->operands_max >= 0) {
            const char *args[16] = { NULL };
            assert_true(c->operands_max < 14);
            for (int i = 0; i < c->operands_max; i++) args[i] = "x";
            args[c->operands_max] = "one-too-many";
            expect_usage(c->name, args, "does not know what to do with 'one-too-many'");
        }
    }
}

/* One letter left out: it is still clear what was meant, if the name is long enough. */
static void nearly_right(void **state)
{
    (void)state;
    EACH(c)
    {
        for (const struct sonde_cli_opt *o = c->options; o && o->name; o++) {
            char option[64], meant[128];
            const size_t len = strlen(o->name);
            if (len < 6) continue;
            snprintf(option, sizeof(option), "--%.*s%s", (int)len - 3, o->name, o->name + len - 2);
            snprintf(meant, sizeof(meant), "there is no option '%s'; did you mean '--", option);
            expect_usage(c->name, ARGS(option), meant);
        }
    }
}

static void values_missing_or_too_many(void **state)
{
    (void)state;
    EACH(c)
    {
        for (const struct sonde_cli_opt *o = c->options; o && o->name; o++) {
            char option[64], letter[8], says[128];
            snprintf(option, sizeof(option), "--%s%s", o->name, o->value ? "" : "=x");
            snprintf(says, sizeof(says), o->value ? "--%s needs %s" : "--%s takes no value",
                     o->name, o->value);
            if (!o->implied) expect_usage(c->name, ARGS(option), says);
            if (!o->letter || !o->value) continue;
            snprintf(letter, sizeof(letter), "-%c", o->letter);
            snprintf(says, sizeof(says), "-%c needs %s", o->letter, o->value);
            expect_usage(c->name, ARGS(letter), says);
        }
    }
}

static void bad_values(void **state)
{
    (void)state;
    static const char *const never[] = { "", "x", "1x", "nan", "inf", "0x10", "1e999", "1,5",
                                         "--", "\xff", "9999999999999999999999999999999999999" };
    EACH(c)
    {
        for (const struct sonde_cli_opt *o = c->options; o && o->name; o++) {
            char option[64], value[64], says[128];
            snprintf(option, sizeof(option), "--%s", o->name);
            snprintf(says, sizeof(says), "--%s: '", o->name);
            if (o->type == SONDE_OPT_STR && o->choices) {
                expect_usage(c->name, ARGS(option, "no-such"), "'no-such' is not one of");
                expect_usage(c->name, ARGS(option, ""), "'' is not one of");
                if (strchr(o->choices, '|')) expect_usage(c->name, ARGS(option, o->choices), says);
            }
            if (o->type != SONDE_OPT_UINT && o->type != SONDE_OPT_NUM) continue;
            for (size_t i = 0; i < COUNT(never); i++) {
                expect_usage(c->name, ARGS(option, never[i]), says);
            }
            const double below = o->min == 0 ? 0.5 : o->min * 0.5 + 1;
            snprintf(value, sizeof(value), "%.17g", o->min - below);
            expect_usage(c->name, ARGS(option, value), says);
            snprintf(value, sizeof(value), "%.17g", o->max * 1.5 + 1);
            expect_usage(c->name, ARGS(option, value), says);
            if (o->type == SONDE_OPT_UINT) expect_usage(c->name, ARGS(option, "1.5"), says);
        }
    }
}

/* Options that stand for settings are held to what the setting takes; commands that explain things
 * run with whatever settings there are. */
static void bad_settings(void **state)
{
    (void)state;
    static const struct { const char *setting, *value; } bad[] = {
        { "agent.interval_seconds", "x" },  { "agent.interval_seconds", "-1" },
        { "cpu.sample_rate_hz", "0" },      { "cpu.sample_rate_hz", "99.5" },
        { "cpu.sample_rate_hz", "1e9" },    { "storage.retention_days", "soon" },
        { "storage.raw_hours", "-1" },      { "storage.max_profiles", "many" },
        { "storage.max_megabytes", "1G" },
    };
    EACH(c)
    {
        if (c->bad_config_ok) continue;
        expect_usage(c->name, ARGS("--set", "no.such=1"), "--set");
        expect_usage(c->name, ARGS("--set", "agent.nothing=1"), "agent.nothing");
        expect_usage(c->name, ARGS("--set", "agent.interval_seconds="), "interval_seconds");
        expect_usage(c->name, ARGS("--config", "/no/such/file"), "/no/such/file");
        for (const struct sonde_cli_opt *o = c->options; o && o->name; o++) {
            if (o->type != SONDE_OPT_SETTING || !o->value) continue;
            for (size_t i = 0; i < COUNT(bad); i++) {
                char option[64], says[80];
                if (strcmp(o->setting, bad[i].setting)) continue;
                snprintf(option, sizeof(option), "--%s", o->name);
                snprintf(says, sizeof(says), "--%s", o->name);
                expect_usage(c->name, ARGS(option, bad[i].value), says);
            }
        }
        expect_usage(c->name, ARGS("--log", "/no/such/folder/log"), "/no/such/folder/log");
    }
}

/* ---- What run() itself refuses --------------------------------------------------------------- */

static void refused_by_the_command(void **state)
{
    (void)state;
    static const struct { const char *name, *args[7], *says; } cases[] = {
        { "run", { NULL }, "say what to run" },
        { "run", { "--" }, "say what to run" },
        { "run", { "--heap=x", "true" }, "--heap: 'x' is neither 'full' nor" },
        { "run", { "--heap=1 ", "true" }, "--heap: '1 '" },
        { "run", { "--heap", "--no-heap", "true" }, "--heap or --no-heap, not both" },
        { "run", { "--no-heap", "--leak-check=scan", "true" }, "--leak-check needs the heap" },
        { "record", { NULL }, "say what to record" },
        { "record", { "-p", "1", "true" }, "not both" },
        { "record", { "--no-cpu", "true" }, "--no-cpu leaves nothing" },
        { "record", { "--stop", "true" }, "--stop ends CMD" },
        { "record", { "--stop", "-p", "1", "-d", "1" }, "--stop ends CMD" },
        { "attach", { NULL }, "say to which" },
        { "attach", { "x" }, "'x' is not a process id" },
        { "attach", { "0" }, "'0' is not a process id" },
        { "attach", { "-1" }, "there is no option '-1'" },
        { "attach", { "--", "-1" }, "'-1' is not a process id" },
        { "attach", { "4294967296" }, "'4294967296' is not a process id" },
        { "serve", { "x" }, "'x'" },
        { "serve", { "--listen", "nowhere" }, "nowhere" },
        { "serve", { "--listen", "127.0.0.1:65536" }, "65536" },
        { "serve", { "--listen", "0.0.0.0:0" }, "token" },
        { "ls", { "x" }, "'x'" },
        { "top", { "x" }, "'x' is no URL" },
        { "mark", { "x" }, "'x' is not a URL" },
        { "mark", { "-m", "t", "-p", "1" }, "leave out --pid" },
        { "mark", { "-m", "\xff\xfe" }, "not UTF-8" },
        { "report", { NULL }, "say of what" },
        { "report", { "--json", "--markdown", "x" }, "one of them" },
        { "flamegraph", { NULL }, "say of what" },
        { "flamegraph", { "-o", "out.png", "x" }, "'out.png' ends in neither .svg nor .html" },
        { "flamegraph", { "-o", "-", "--", "true" }, "the standard output is that of true" },
        { "flamegraph", { "--", "true" }, "say where to" },
        { "flamegraph", { "--stop", "-o", "x.svg", "y" }, "--stop ends CMD" },
        { "flamegraph", { "-o", "x.svg", "/no/such/file" }, "/no/such/file" },
        { "view", { NULL }, "say what to view" },
        { "view", { "/no/such/file" }, "/no/such/file" },
        { "diff", { NULL }, "say what to compare" },
        { "diff", { "a" }, "say what to compare" },
        { "diff", { "a", "b", "c" }, "Put --with between" },
        { "diff", { "--with", "a", "b" }, "say what to compare" },
        { "diff", { "a", "b", "--with" }, "say what to compare" },
        { "diff", { "a", "--with", "b", "--with" }, "--with is given twice" },
        { "diff", { "--json", "--format", "markdown", "a", "b" }, "not both" },
        { "diff", { "--json", "-o", "x.svg", "a", "b" }, "not both" },
        { "diff", { "--invert", "a", "b" }, "--invert is for a flame graph" },
        { "diff", { "--fail-on", "nonsense", "a", "b" }, "nonsense" },
        { "export", { "--format", "xyz" }, "'xyz' is not one of prometheus" },
        { "export", { "--label", "x" }, "--label: 'x' is not NAME=GLOB" },
        { "export", { "--label", "=x" }, "--label: '=x'" },
        { "export", { "no-such-file-at-all" }, "'no-such-file-at-all' is neither" },
        { "export", { "--format", "pprof" }, "pprof is for profiles" },
        { "export", { "--format", "pprof", "--name", "x", "y" }, "are for series" },
        { "export", { "--format", "pprof", "--type", "gauge", "y" }, "'gauge'" },
        { "export", { "--type", "peak" }, "'peak' is a type of samples" },
        { "export", { "--from", "1" }, "--from and --to" },
        { "import", { NULL }, "say what" },
        { "import", { "x" }, "say where to" },
        { "import", { "--format", "xyz", "-o", "y", "x" }, "'xyz'" },
        { "push", { NULL }, "say what and where to" },
        { "push", { "x" }, "say what and where to" },
        { "push", { "--to", "http://x" }, "say what and where to" },
        { "push", { "--to", "http://x", "/no/such/file" }, "/no/such/file" },
        { "runs", { NULL }, "say which store" },
        { "runs", { "frobnicate" }, "'frobnicate' is none of list" },
        { "runs", { "list", "x" }, "list: wrong number" },
        { "runs", { "name", "1" }, "name: wrong number" },
        { "runs", { "merge", "1" }, "merge: wrong number" },
        { "runs", { "--store", "/no/such/store", "list" }, "/no/such/store" },
        { "gc", { NULL }, "say which store" },
        { "gc", { "--store", "/no/such/store" }, "/no/such/store" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        expect_usage(cases[i].name, cases[i].args, cases[i].says);
    }
}

static int alone(void **state)
{
    (void)state;
    static const char *const gone[] = { "SONDE_CONFIG", "SONDE_TOKEN", "SONDE_DIR" };
    for (size_t i = 0; i < COUNT(gone); i++) unsetenv(gone[i]);
    return 0;
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(help_of_each), T(overview), T(tables_are_sound), T(unknown_options), T(nearly_right),
        T(values_missing_or_too_many), T(bad_values), T(bad_settings), T(refused_by_the_command),
    };
    return cmocka_run_group_tests_name("commands", tests, alone, NULL);
}
