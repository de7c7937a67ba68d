/* cmd_doctor.c - `sonde doctor`: what works here, and what to do about what does not. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/array.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "present/text.h"
#include "sonde/sonde.h"

enum { OUTPUT_MAX = 1 << 20 };

struct doctor_values {
    int json;
};

static const struct sonde_cli_opt options[] = {
    { .name = "json", .type = SONDE_OPT_FLAG, .help = "write JSON",
      .offset = offsetof(struct doctor_values, json) },
    SONDE_OPT_DIR,
    SONDE_OPT_LISTEN,
    { .name = "store", .type = SONDE_OPT_SETTING, .value = "FILE", .setting = "storage.path",
      .help = "look at this store too (default: the setting storage.path)" },
    { .name = NULL },
};

static void check_version(struct sonde_doctor *d)
{
    struct utsname u;
    if (uname(&u) != 0) memset(&u, 0, sizeof(u));
    sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "sonde %s on Linux %s, %s", SONDE_VERSION,
                     u.release, u.machine);
}

static const struct {
    const char *name;
    void (*run)(struct sonde_doctor *d);
} checks[] = {
    { "version", check_version },
    { "config", sonde_doctor_config },
    { "directory", sonde_doctor_dir },
    { "shm", sonde_doctor_shm },
    { "segments", sonde_doctor_segments },
    { "memory", sonde_doctor_madvise },
    { "limits", sonde_doctor_limits },
    { "clock", sonde_doctor_clock },
    { "store", sonde_doctor_store },
    { "http", sonde_doctor_port },
    { "push", sonde_doctor_push },
    { "alerts", sonde_doctor_alerts },
    { "probes", sonde_doctor_probes },
    { "perf", sonde_doctor_perf },
    { "cpu", sonde_doctor_cpu },
    { "python", sonde_doctor_python },
    { "uprobes", sonde_doctor_uprobes },
    { "heap", sonde_doctor_heap },
    { "sandbox", sonde_doctor_sandbox },
    { "llama", sonde_doctor_llama },
    { "ptrace", sonde_doctor_ptrace },
    { "gpu", sonde_doctor_gpu },
};

static const char *const level_names[] = { "ok", "warn", "fail" };

static void add_json(struct sonde_doctor *d, enum sonde_doctor_level level, const char *advice,
                     const char *text)
{
    struct sonde_buf *b = &d->out;
    sonde_buf_printf(b, "%s{\"check\":\"%s\",\"status\":\"%s\",\"text\":", d->lines ? "," : "",
                     d->check, level_names[level]);
    sonde_buf_json_str(b, text, strlen(text));
    sonde_buf_puts(b, ",\"advice\":");
    if (advice) sonde_buf_json_str(b, advice, strlen(advice));
    else sonde_buf_puts(b, "null");
    sonde_buf_putc(b, '}');
}

static void cmd_doctor_add_text(struct sonde_doctor *d, enum sonde_doctor_level level,
                                const char *advice, const char *text)
{
    static const char *const colours[] = { "\033[32m", "\033[33m", "\033[31m" };
    /* Paths and names of processes are others' text. */
    char clean[4096];
    sonde_text_fit(clean, sizeof(clean), text, sonde_text_cells(text, d->ascii), SONDE_LEFT,
                   d->ascii);
    sonde_buf_printf(&d->out, "%s%-4s%s  %-9s  %s\n", d->colour ? colours[level] : "",
                     level_names[level], d->colour ? "\033[0m" : "", d->check, clean);
    if (advice) sonde_buf_printf(&d->out, "%17s-> %s\n", "", advice);
}

void sonde_doctor_add(struct sonde_doctor *d, enum sonde_doctor_level level, const char *advice,
                      const char *format, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    if (d->json) add_json(d, level, advice, text);
    else cmd_doctor_add_text(d, level, advice, text);
    if ((int)level > d->worst) d->worst = (int)level;
    d->lines++;
}

const char *sonde_doctor_read(const char *path, char *out, size_t out_size)
{
    FILE *f = fopen(path, "re");
    if (!f) return NULL;
    const char *line = fgets(out, (int)out_size, f);
    fclose(f);
    if (line) out[strcspn(out, "\n")] = '\0';
    return line;
}

static int cmd_doctor_run(struct sonde_cli *cli)
{
    const struct doctor_values *v = cli->values;
    struct sonde_doctor d = { .cli = cli, .json = v->json,
                              .target = cli->operand_count ? cli->operands[0] : NULL,
                              .colour = sonde_cli_colour(STDOUT_FILENO),
                              .ascii = sonde_text_locale_ascii() };
    sonde_buf_init(&d.out, OUTPUT_MAX);
    if (d.json) sonde_buf_puts(&d.out, "{\"checks\":[");
    for (size_t i = 0; i < SONDE_COUNT(checks); i++) {
        d.check = checks[i].name;
        checks[i].run(&d);
    }
    if (d.json) sonde_buf_printf(&d.out, "],\"status\":\"%s\"}\n", level_names[d.worst]);

    int status = d.worst == SONDE_DOCTOR_FAIL ? SONDE_EXIT_FAIL : SONDE_EXIT_OK;
    if (d.out.error) status = sonde_cli_fail(cli, "out of memory");
    else fwrite(d.out.data, 1, d.out.len, stdout);
    sonde_buf_release(&d.out);
    return status;
}

const struct sonde_command sonde_cmd_doctor = {
    .name = "doctor",
    .summary = "say what works on this machine, and what to do about what does not",
    .usage = "[options] [PROGRAM|PID]",
    .details = "With a program or a process also what can be seen of llama.cpp in it: functions "
               "that it lacks, and what is not known for that; and whether it gives up system "
               "calls (seccomp), and which are needed.\n"
               "\n"
               "Exit status 1 if something that sonde needs does not work (fail), else 0. A "
               "warning is something that costs precision, speed or a feature.",
    .options = options,
    .values_size = sizeof(struct doctor_values),
    .operands_max = 1,
    .bad_config_ok = 1,
    .run = cmd_doctor_run,
};
