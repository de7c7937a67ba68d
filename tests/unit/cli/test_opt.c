/* Options from tables: every type, both spellings, what is missing, unknown or out of range, where
 * options end, and what is nearly right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/heap.h"
#include "sonde/sonde.h"
#include "unit/cli/captured.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct values {
    int flag, other, split;
    const char *text, *choice, *maybe;
    struct sonde_cli_list list;
    uint64_t count;
    double number;
};

#define AT(field) .offset = offsetof(struct values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "flag", .letter = 'f', .type = SONDE_OPT_FLAG, AT(flag), .help = "x" },
    { .name = "other", .letter = 'o', .type = SONDE_OPT_FLAG, AT(other), .help = "x" },
    { .name = "text", .letter = 't', .type = SONDE_OPT_STR, .value = "TEXT", AT(text),
      .help = "x" },
    { .name = "choice", .type = SONDE_OPT_STR, .value = "WHICH", .choices = "one|two|three",
      AT(choice), .help = "x" },
    { .name = "maybe", .letter = 'm', .type = SONDE_OPT_STR, .value = "X", .implied = "implied",
      AT(maybe), .help = "x" },
    { .name = "list", .letter = 'l', .type = SONDE_OPT_LIST, .value = "ITEM", AT(list),
      .help = "x" },
    { .name = "count", .letter = 'c', .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1000,
      AT(count), .help = "x" },
    { .name = "number", .letter = 'n', .type = SONDE_OPT_NUM, .value = "X", .min = -10, .max = 10,
      AT(number), .help = "x" },
    { .name = "with", .type = SONDE_OPT_SPLIT, AT(split), .help = "x" },
    SONDE_OPT_INTERVAL,
    SONDE_OPT_STRIP,
    { .name = NULL },
};

static int never(struct sonde_cli *cli) { return (void)cli, 99; }

static const struct sonde_command plain = { .name = "test", .options = options,
                                            .values_size = sizeof(struct values),
                                            .operands_max = 3, .run = never };
static const struct sonde_command stops = { .name = "stops", .options = options,
                                            .values_size = sizeof(struct values),
                                            .operands_max = -1, .stop_at_operand = 1 };
static const struct sonde_command dashes = { .name = "dashes", .options = options,
                                             .values_size = sizeof(struct values),
                                             .operands_max = 1, .command_after_dashes = 1 };
static const struct sonde_command bare = { .name = "bare", .operands_max = 0 };

/* "a b c" as argv; "_" is an empty argument. */
struct parsed {
    struct sonde_cli cli;
    char text[256];
    char *argv[33];
    int argc, status;
    struct captured said;
};

static void parse(struct parsed *p, const struct sonde_command *command, const char *line)
{
    memset(p, 0, sizeof(*p));
    p->cli.command = command;
    snprintf(p->text, sizeof(p->text), "%s", line);
    for (char *word = strtok(p->text, " "); word; word = strtok(NULL, " ")) {
        if (!strcmp(word, "_")) *word = '\0';
        p->argv[p->argc++] = word;
    }
    captured_begin(&p->said);
    p->status = sonde_cli_parse(&p->cli, p->argc, p->argv);
    captured_end(&p->said);
    assert_string_equal(p->said.out, "");
}

static struct parsed p;
static const struct values *v(void) { return p.cli.values; }

/* ---- What is taken --------------------------------------------------------------------------- */

/* All that was taken, as text: only what is not zero. */
static void show(char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
#define SHOW(cond, ...)                                                                          \
    if (cond) at += (size_t)snprintf(out + at, size - at, __VA_ARGS__)
    SHOW(v()->flag, "flag=%d ", v()->flag);
    SHOW(v()->other, "other=%d ", v()->other);
    SHOW(v()->split, "split=%d ", v()->split);
    SHOW(v()->text, "text=%s ", v()->text);
    SHOW(v()->choice, "choice=%s ", v()->choice);
    SHOW(v()->maybe, "maybe=%s ", v()->maybe);
    for (size_t i = 0; i < v()->list.count; i++) SHOW(1, "list=%s ", v()->list.item[i]);
    SHOW(v()->count, "count=%llu ", (unsigned long long)v()->count);
    SHOW(v()->number != 0, "number=%g ", v()->number);
    SHOW(p.cli.verbose, "verbose=%d ", p.cli.verbose);
    SHOW(p.cli.quiet, "quiet=%d ", p.cli.quiet);
    SHOW(p.cli.config_path, "config=%s ", p.cli.config_path);
    SHOW(p.cli.log_path, "log=%s ", p.cli.log_path);
    for (size_t i = 0; i < p.cli.setting_count; i++) {
        SHOW(1, "%s:%s=%s ", p.cli.settings[i].origin, p.cli.settings[i].key,
             p.cli.settings[i].value);
    }
    for (int i = 0; i < p.cli.operand_count; i++) SHOW(1, "[%s]", p.cli.operands[i]);
    SHOW(p.cli.operands_plain >= 0, "--%d", p.cli.operands_plain);
}

static void taken(void **state)
{
    (void)state;
    static const struct {
        const struct sonde_command *command;
        const char *line, *text;
    } cases[] = {
        { &plain, "", "" },
        { &plain, "-", "[-]" },
        { &plain, "_", "[]" },
        { &plain, "a b c", "[a][b][c]" },
        { &plain, "--flag", "flag=1 " },
        { &plain, "-f", "flag=1 " },
        { &plain, "-fff --flag", "flag=4 " },
        { &plain, "-fo", "flag=1 other=1 " },
        { &plain, "--text x", "text=x " },
        { &plain, "--text=x", "text=x " },
        { &plain, "--text=", "text= " },
        { &plain, "--text _", "text= " },
        { &plain, "--text=a=b", "text=a=b " },
        { &plain, "-t x", "text=x " },
        { &plain, "-tx", "text=x " },
        { &plain, "-t=x", "text==x " },              /* as everywhere: the value is "=x" */
        { &plain, "-ftx", "flag=1 text=x " },
        { &plain, "-ft x", "flag=1 text=x " },
        { &plain, "-tf", "text=f " },                /* the rest is its value */
        { &plain, "--text --flag", "text=--flag " }, /* so is whatever follows */
        { &plain, "--text --", "text=-- " },
        { &plain, "-t -f", "text=-f " },
        { &plain, "--text a --text b", "text=b " },  /* the last one counts */
        { &plain, "--choice two", "choice=two " },
        { &plain, "--maybe", "maybe=implied " },
        { &plain, "--maybe x", "maybe=implied [x]" },
        { &plain, "--maybe=x", "maybe=x " },
        { &plain, "--maybe=", "maybe= " },
        { &plain, "--list a --list=b -lc -l d", "list=a list=b list=c list=d " },
        { &plain, "--list a,b", "list=a,b " },
        { &plain, "--count 1", "count=1 " },
        { &plain, "--count 1000", "count=1000 " },
        { &plain, "--count 1e3", "count=1000 " },
        { &plain, "--count 0010", "count=10 " },
        { &plain, "-c7", "count=7 " },
        { &plain, "--number -10", "number=-10 " },
        { &plain, "--number=-2.5", "number=-2.5 " },
        { &plain, "-n-2.5", "number=-2.5 " },
        { &plain, "-n -2.5", "number=-2.5 " },
        { &plain, "--number .5", "number=0.5 " },
        { &plain, "a --flag b --text x c", "flag=1 text=x [a][b][c]" }, /* in any order */
        { &plain, "a --with b", "split=2 [a][b]" },
        { &plain, "--with a", "split=1 [a]" },
        { &plain, "--interval 5", "interval:agent.interval_seconds=5 " },
        { &plain, "-i5 --strip", "interval:agent.interval_seconds=5 strip:agent.strip=true " },
        { &plain, "--set a.b=c=d", "--set:a.b=c=d " },
        { &plain, "--set a.b=", "--set:a.b= " },
        { &plain, "--set=a.b=c --set a.b=d", "--set:a.b=c --set:a.b=d " },
        { &plain, "-vvq", "verbose=2 quiet=1 " },
        { &plain, "--verbose --quiet --config f --log=g", "verbose=1 quiet=1 config=f log=g " },
        { &plain, "--", "--0" },
        { &plain, "-- --flag -f", "[--flag][-f]--0" },
        { &plain, "a -- b --", "[a][b][--]--1" },
        { &stops, "cmd --flag -x --unknown -- y", "[cmd][--flag][-x][--unknown][--][y]" },
        { &stops, "--flag cmd --flag", "flag=1 [cmd][--flag]" },
        { &stops, "-- cmd --flag", "[cmd][--flag]--0" },
        { &stops, "- --flag", "[-][--flag]" },
        { &dashes, "a", "[a]" },
        { &dashes, "-- a b c d", "[a][b][c][d]--0" },
        { &dashes, "--flag -- a -f", "flag=1 [a][-f]--0" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[512];
        parse(&p, cases[i].command, cases[i].line);
        if (p.status) fail_msg("'%s': %d, %s", cases[i].line, p.status, p.said.err);
        show(text, sizeof(text));
        if (strcmp(text, cases[i].text)) fail_msg("'%s': %s", cases[i].line, text);
        assert_null(p.cli.operands[p.cli.operand_count]);
        assert_string_equal(p.said.err, "");
        sonde_cli_release(&p.cli);
    }
}

/* ---- What is not ----------------------------------------------------------------------------- */

static void refused(void **state)
{
    (void)state;
    static const struct {
        const struct sonde_command *command;
        const char *line, *says;
    } cases[] = {
        { &plain, "--unknown", "there is no option '--unknown'" },
        { &plain, "--unknown=x", "there is no option '--unknown'" },
        { &plain, "--flags", "there is no option '--flags'; did you mean '--flag'?" },
        { &plain, "--flga", "did you mean '--flag'?" },
        { &plain, "--FLAG", "there is no option '--FLAG'" },
        { &plain, "--cuont 3", "did you mean '--count'?" },
        { &plain, "--verbos", "did you mean '--verbose'?" },
        { &plain, "--=x", "there is no option '--'" },
        { &plain, "---flag", "there is no option '---flag'" },
        { &plain, "--flag\x1b[31m", "there is no option '--flag?[31m'" }, /* no colours */
        { &plain, "-x", "there is no option '-x'" },
        { &plain, "-fx", "there is no option '-x'" },
        { &plain, "-f-", "there is no option '--'" },
        { &plain, "-5", "there is no option '-5'" },
        { &plain, "--flag=1", "--flag takes no value" },
        { &plain, "--flag=", "--flag takes no value" },
        { &plain, "--strip=no", "--strip takes no value" },
        { &plain, "--text", "--text needs TEXT" },
        { &plain, "a --text", "--text needs TEXT" },
        { &plain, "-t", "-t needs TEXT" },
        { &plain, "-ft", "-t needs TEXT" },
        { &plain, "--list", "--list needs ITEM" },
        { &plain, "--count", "--count needs N" },
        { &plain, "--config", "--config needs FILE" },
        { &plain, "--set", "--set needs SECTION.KEY=VALUE" },
        { &plain, "--choice four", "--choice: 'four' is not one of one|two|three" },
        { &plain, "--choice=", "--choice: '' is not one of" },
        { &plain, "--choice one|two", "--choice: 'one|two' is not one of" },
        { &plain, "--choice on", "--choice: 'on' is not one of" },
        { &plain, "--choice ONE", "--choice: 'ONE' is not one of" },
        { &plain, "--with --with", "--with is given twice" },
        { &plain, "--with=a", "--with takes no value" },
        { &plain, "--set x", "--set: 'x' is not SECTION.KEY=VALUE" },
        { &plain, "--set =x", "--set: '=x' is not SECTION.KEY=VALUE" },
        { &plain, "a b c d", "does not know what to do with 'd'" },
        { &plain, "a b c -- d", "does not know what to do with 'd'" },
        { &plain, "-- a b c d e", "does not know what to do with 'd'" },
        { &dashes, "a b", "does not know what to do with 'b'" },
        { &dashes, "a -- b", "does not know what to do with 'b'" }, /* no command: a is before -- */
        { &bare, "x", "does not know what to do with 'x'" },
        { &bare, "--flag", "there is no option '--flag'" },
        { &stops, "--unknown cmd", "there is no option '--unknown'" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char help[64];
        parse(&p, cases[i].command, cases[i].line);
        if (p.status != SONDE_EXIT_USAGE) fail_msg("'%s': %d", cases[i].line, p.status);
        if (!strstr(p.said.err, cases[i].says)) fail_msg("'%s': %s", cases[i].line, p.said.err);
        snprintf(help, sizeof(help), "sonde %s: ", cases[i].command->name);
        assert_memory_equal(p.said.err, help, strlen(help));
        snprintf(help, sizeof(help), "(see `sonde help %s`)\n", cases[i].command->name);
        assert_non_null(strstr(p.said.err, help));
        assert_ptr_equal(strchr(p.said.err, '\n') + 1, strchr(p.said.err, '\0')); /* one line */
        sonde_cli_release(&p.cli);
    }
}

static void numbers_refused(void **state)
{
    (void)state;
    static const char *const never_numbers[] = {
        "_", "x", "1x", "x1", "1,5", "0x10", "nan", "inf", "-inf", "infinity", "1e999", "-1e999",
        "1e-400", "--5", "+-5", "e", "1e", ".", "1.2.3", "1_000", "\xd9\xa1", "1e5000000000",
        "99999999999999999999999999999999999999", "-99999999999999999999999999999999999999",
    };
    static const char *const never_counts[] = { "0", "-1", "1001", "1.5", "0.999", "1000.0001",
                                                "18446744073709551616", "-0" };
    static const char *const out_of_range[] = { "-10.0001", "10.0001", "11", "-1e300" };
    char line[128];
    for (size_t i = 0; i < COUNT(never_numbers); i++) {
        for (int whole = 0; whole < 2; whole++) {
            snprintf(line, sizeof(line), "--%s %s", whole ? "count" : "number", never_numbers[i]);
            parse(&p, &plain, line);
            if (p.status != SONDE_EXIT_USAGE) fail_msg("%s", line);
            const char *says = whole ? "is not a whole number from 1 to 1000"
                                     : "is not a number from -10 to 10";
            if (!strstr(p.said.err, says)) fail_msg("%s", p.said.err);
            sonde_cli_release(&p.cli);
        }
    }
    for (size_t i = 0; i < COUNT(never_counts); i++) {
        snprintf(line, sizeof(line), "--count=%s", never_counts[i]);
        parse(&p, &plain, line);
        if (p.status != SONDE_EXIT_USAGE) fail_msg("%s", line);
        assert_non_null(strstr(p.said.err, never_counts[i]));
        sonde_cli_release(&p.cli);
    }
    for (size_t i = 0; i < COUNT(out_of_range); i++) {
        snprintf(line, sizeof(line), "-n%s", out_of_range[i]);
        parse(&p, &plain, line);
        if (p.status != SONDE_EXIT_USAGE) fail_msg("%s", line);
        sonde_cli_release(&p.cli);
    }
}

static void help_anywhere(void **state)
{
    (void)state;
    static const struct { const struct sonde_command *command; const char *line; int status; }
    cases[] = {
        { &plain, "--help", -1 }, { &plain, "-h", -1 }, { &plain, "a b --help", -1 },
        { &plain, "-fh", -1 }, { &plain, "--text x -h", -1 }, { &plain, "-h --unknown", -1 },
        { &plain, "--unknown -h", SONDE_EXIT_USAGE }, { &plain, "a b c d e -h", -1 },
        { &plain, "-- -h", 0 }, { &plain, "--text -h", 0 }, { &stops, "cmd -h", 0 },
        { &stops, "-h cmd", -1 }, { &bare, "-h", -1 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        parse(&p, cases[i].command, cases[i].line);
        if (p.status != cases[i].status) fail_msg("'%s': %d", cases[i].line, p.status);
        sonde_cli_release(&p.cli);
    }
}

static void no_memory(void **state)
{
    (void)state;
    int status = SONDE_EXIT_FAIL;
    for (uint64_t nth = 1; status && nth < 20; nth++) {
        struct sonde_cli cli = { .command = &plain };
        char a[] = "--list", b[] = "x", c[] = "--interval=5", d[] = "--set=a.b=c";
        char *argv[] = { a, b, c, d, NULL };
        static struct captured said;
        const int64_t live = sonde__alloc_live();
        captured_begin(&said);
        sonde__alloc_fail_nth(nth);
        status = sonde_cli_parse(&cli, 4, argv);
        sonde__alloc_fail_nth(0);
        captured_end(&said);
        if (status) assert_non_null(strstr(said.err, "out of memory"));
        sonde_cli_release(&cli);
        sonde_cli_release(&cli); /* twice is fine */
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(status, 0);
}

static void suggestions(void **state)
{
    (void)state;
    static const char *const names[] = { "record", "report", "requests", "run", "runs", NULL };
    static const char *const none[] = { NULL };
    static const struct { const char *text, *meant; } cases[] = {
        { "recrod", "record" }, { "reprot", "report" }, { "request", "requests" },
        { "recor", "record" },  { "rnu", "run" },       { "completely", NULL },
        { "", NULL },           { "x", NULL },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *meant = sonde_cli_suggest(cases[i].text, names);
        if (!meant != !cases[i].meant || (meant && strcmp(meant, cases[i].meant))) {
            fail_msg("'%s': %s", cases[i].text, meant ? meant : "nothing");
        }
    }
    assert_null(sonde_cli_suggest("run", none));
}

/* ---- Settings -------------------------------------------------------------------------------- */

/* The file, then the environment, then flags in their order. */
static void settings(void **state)
{
    (void)state;
    char path[] = "/tmp/sonde-opt-XXXXXX", line[256];
    const int fd = mkstemp(path);
    static const char file[] = "{ \"agent\": { \"interval_seconds\": 3 } }";
    assert_int_equal(write(fd, file, sizeof(file) - 1), sizeof(file) - 1);
    close(fd);
    static char by_env[] = "SONDE_AGENT_INTERVAL_SECONDS=4";
    static char bad[] = "SONDE_AGENT_INTERVAL_SECONDS=x";
    char *none[] = { NULL }, *env[] = { by_env, NULL }, *bad_env[] = { bad, NULL };
    const struct { const char *line; int file; char **env; double interval_s; const char *says; }
    cases[] = {
        { "", 0, none, 1, NULL },
        { "", 1, none, 3, NULL },
        { "", 1, env, 4, NULL },
        { "-i 5", 1, env, 5, NULL },
        { "-i 5 --set agent.interval_seconds=6", 1, env, 6, NULL },
        { "--set agent.interval_seconds=6 -i 5", 1, env, 5, NULL },
        { "", 0, bad_env, 0, "SONDE_AGENT_INTERVAL_SECONDS" },
        { "-i x", 0, none, 0, "--interval" },
        { "-i _", 0, none, 0, "--interval" },
        { "-i -1", 0, none, 0, "--interval" },
        { "-i 1e99", 0, none, 0, "--interval" },
        { "-i nan", 0, none, 0, "--interval" },
        { "--set agent.interval_seconds=x", 0, none, 0, "--set" },
        { "--set agent.interval=5", 0, none, 0, "agent.interval" },
        { "--set nothing.at_all=5", 0, none, 0, "unknown section nothing" },
        { "--set agent=5", 0, none, 0, "agent" },
        { "--config /nonexistent/file", 0, none, 0, "/nonexistent/file" },
        { "--config /", 0, none, 0, "/" },
    };
    unsetenv("SONDE_CONFIG");
    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct captured said;
        snprintf(line, sizeof(line), "%s%s %s", cases[i].file ? "--config " : "",
                 cases[i].file ? path : "", cases[i].line);
        parse(&p, &plain, line);
        assert_int_equal(p.status, 0);
        captured_begin(&said);
        const int status = sonde_cli_load_config(&p.cli, cases[i].env);
        captured_end(&said);
        if (status != (cases[i].says ? SONDE_EXIT_USAGE : 0)) fail_msg("case %zu: %s", i, said.err);
        const char *says = cases[i].says ? cases[i].says : "";
        if (!strstr(said.err, says)) fail_msg("case %zu: %s", i, said.err);
        if (cases[i].says) assert_non_null(strstr(said.err, "sonde help config"));
        else assert_true(p.cli.config.agent_interval_seconds == cases[i].interval_s);
        assert_int_equal(sonde_cli_was_set(&p.cli, "agent.interval_seconds"),
                         strstr(line, "interval_seconds=") || strstr(line, "-i "));
        assert_int_equal(sonde_cli_was_set(&p.cli, "agent.dir"), 0);
        sonde_cli_release(&p.cli);
    }
    setenv("SONDE_CONFIG", path, 1); /* unless --config says otherwise */
    parse(&p, &plain, "");
    assert_int_equal(sonde_cli_load_config(&p.cli, none), 0);
    assert_true(p.cli.config.agent_interval_seconds == 3);
    sonde_cli_release(&p.cli);
    unsetenv("SONDE_CONFIG");
    unlink(path);
}

/* ---- What commands share --------------------------------------------------------------------- */

static void pids(void **state)
{
    (void)state;
    static const struct { const char *text; int ok; uint32_t pid; } cases[] = {
        { "1", 1, 1 }, { "4711", 1, 4711 }, { "2147483647", 1, INT32_MAX }, { "2147483648", 0, 0 },
        { "0", 0, 0 }, { "-1", 0, 0 }, { "+1", 0, 0 }, { "01", 0, 0 }, { " 1", 0, 0 },
        { "1 ", 0, 0 }, { "", 0, 0 }, { "1x", 0, 0 }, { "0x1", 0, 0 }, { "1.0", 0, 0 },
        { "1e3", 0, 0 },
        { "99999999999999999999999", 0, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t pid = 77;
        const int rc = sonde_cli_parse_pid(cases[i].text, &pid);
        if (rc != (cases[i].ok ? 0 : -1)) fail_msg("'%s'", cases[i].text);
        assert_int_equal(pid, cases[i].ok ? cases[i].pid : 77);
    }
}

static void urls(void **state)
{
    (void)state;
    static const struct { const char *url, *path, *out; } cases[] = {
        { "http://h", "/x", "http://h/x" },           { "http://h/", "/x", "http://h/x" },
        { "http://h:1/a/b?c#d", "/x", "http://h:1/x" }, { "https://h?c", "/x?y", "https://h/x?y" },
        { "http://[::1]:1#d", "", "http://[::1]:1" }, { "h:1/a", "/x", "h:1/x" },
    };
    char out[64];
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(sonde_cli_url(out, sizeof(out), cases[i].url, cases[i].path), 0);
        assert_string_equal(out, cases[i].out);
    }
    assert_int_equal(sonde_cli_url(out, 11, "http://h", "/x"), 0);
    assert_int_equal(sonde_cli_url(out, 10, "http://h", "/x"), -1);
    assert_true(sonde_cli_is_url("http://") && sonde_cli_is_url("https://x"));
    assert_false(sonde_cli_is_url("http:/x") || sonde_cli_is_url("HTTP://x") ||
                 sonde_cli_is_url("ftp://x") || sonde_cli_is_url(""));
}

/* --heap, --no-heap and --leak-check: bytes with a unit, and what does not go together. */
static void heap_options(void **state)
{
    (void)state;
    static const struct {
        const char *mode, *leak_check;
        int off, status;
        uint64_t mean; /* 0 = the setting's */
        const char *says;
    } cases[] = {
        { NULL, NULL, 0, 0, 0, NULL },
        { "", NULL, 0, 0, 0, NULL },
        { "1", NULL, 0, 0, 1, NULL },
        { "64k", NULL, 0, 0, 64 << 10, NULL },
        { "64K", NULL, 0, 0, 64 << 10, NULL },
        { "3M", NULL, 0, 0, 3 << 20, NULL },
        { "1024G", NULL, 0, 0, 1ull << 40, NULL },
        { "1099511627776", NULL, 0, 0, 1ull << 40, NULL },
        { "1025G", NULL, 0, 2, 0, "'1025G'" },
        { "1099511627777", NULL, 0, 2, 0, "--heap" },
        { "18446744073709551616", NULL, 0, 2, 0, "--heap" },
        { "0", NULL, 0, 2, 0, "'0'" },
        { "0K", NULL, 0, 2, 0, "'0K'" },
        { "-1", NULL, 0, 2, 0, "'-1'" },
        { "+1", NULL, 0, 2, 0, "--heap" },
        { " 1", NULL, 0, 2, 0, "--heap" },
        { "1 ", NULL, 0, 2, 0, "--heap" }, /* a blank is no unit */
        { "1T", NULL, 0, 2, 0, "--heap" },
        { "1KB", NULL, 0, 2, 0, "--heap" },
        { "1KK", NULL, 0, 2, 0, "--heap" },
        { "1.5M", NULL, 0, 2, 0, "--heap" },
        { "0x10", NULL, 0, 2, 0, "--heap" },
        { "K", NULL, 0, 2, 0, "'K'" },
        { "FULL", NULL, 0, 2, 0, "neither 'full' nor" },
        { "fully", NULL, 0, 2, 0, "'fully'" },
        { "64K", NULL, 1, 2, 0, "--heap or --no-heap, not both" },
        { "", NULL, 1, 2, 0, "not both" },
        { NULL, "scan", 1, 2, 0, "--leak-check needs the heap" },
        { "", "scan", 0, 0, 0, NULL },
    };
    parse(&p, &plain, "");
    sonde_config_defaults(&p.cli.config);
    const uint64_t usual = sonde_cli_heap_options(&p.cli).mean;
    for (size_t i = 0; i < COUNT(cases); i++) {
        static struct captured said;
        const struct sonde_cli_heap h = { .mode = cases[i].mode, .off = cases[i].off,
                                          .leak_check = cases[i].leak_check };
        struct sonde_watch_options o = { .heap = SONDE_WATCH_NO };
        captured_begin(&said);
        const int status = sonde_cli_heap(&p.cli, &h, SONDE_WATCH_IF_POSSIBLE, &o);
        captured_end(&said);
        if (status != cases[i].status) fail_msg("'%s': %d, %s", cases[i].mode, status, said.err);
        if (status && !strstr(said.err, cases[i].says)) fail_msg("%s", said.err);
        if (status) continue;
        assert_int_equal(o.heap_options.mean, cases[i].mean ? cases[i].mean : usual);
        assert_int_equal(o.heap, cases[i].mode ? SONDE_WATCH_MUST : SONDE_WATCH_IF_POSSIBLE);
    }
    sonde_cli_release(&p.cli);
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(taken), T(refused), T(numbers_refused), T(help_anywhere), T(no_memory), T(suggestions),
        T(settings), T(pids), T(urls), T(heap_options),
    };
    return cmocka_run_group_tests_name("opt", tests, NULL, NULL);
}
