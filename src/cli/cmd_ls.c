/* cmd_ls.c - `sonde ls`: which processes record, and which files could not be read. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "present/table.h"
#include "present/text.h"
#include "present/units.h"
#include "segment/segment.h"

enum { REFUSALS_MAX = 256, OUTPUT_MAX = 256 << 20 };

struct ls_values {
    int json;
};

static const struct sonde_cli_opt options[] = {
    { .name = "json", .type = SONDE_OPT_FLAG, .help = "write JSON",
      .offset = offsetof(struct ls_values, json) },
    SONDE_OPT_DIR,
    { .name = NULL },
};

static const char *const drop_names[] = {
#define SONDE__X(name, text) #name,
    SONDE__DROPS(SONDE__X)
#undef SONDE__X
};

static const char *cmd_ls_state_of(const struct sonde_model_process *p)
{
    if (p->state == SONDE_PROCESS_RUNNING && p->elsewhere) return "in another namespace";
    return sonde_process_state_name(p->state);
}

/* Seconds since the process started; negative if it has ended, or counts them otherwise. */
static double uptime_s(const struct sonde_model_process *p)
{
    if (p->state != SONDE_PROCESS_RUNNING || p->elsewhere) return -1;
    const double up = sonde_clock_s(CLOCK_BOOTTIME) -
                      (double)p->start_time / (double)sysconf(_SC_CLK_TCK);
    return up > 0 ? up : 0;
}

/* What was really lost: cut label values and clipped histogram values are counted apart. */
static uint64_t drops_of(const struct sonde_model_process *p)
{
    uint64_t n = p->spans_lost;
    for (size_t i = 0; i < SONDE__DROP_COUNT; i++) {
        if (i != SONDE__DROP_label_cut && i != SONDE__DROP_range) n += p->drops[i];
    }
    return n;
}

static void json_process(const struct sonde_model_process *p, struct sonde_buf *b)
{
    sonde_buf_printf(b, "{\"pid\":%u,\"program\":", p->pid);
    sonde_buf_json_str(b, p->program, strlen(p->program));
    sonde_buf_printf(b, ",\"state\":\"%s\",\"uptime_s\":", cmd_ls_state_of(p));
    const double up = uptime_s(p);
    if (up < 0) sonde_buf_puts(b, "null");
    else sonde_buf_json_double(b, up);
    sonde_buf_printf(b, ",\"series\":%zu,\"spans_seen\":%llu,\"spans_lost\":%llu",
                     p->series_count, (unsigned long long)p->spans_seen,
                     (unsigned long long)p->spans_lost);
    sonde_buf_printf(b, ",\"lanes\":%u,\"segment_bytes\":%llu,\"segment\":", p->lanes,
                     (unsigned long long)p->segment_bytes);
    sonde_buf_json_str(b, p->path, strlen(p->path));
    sonde_buf_puts(b, ",\"drops\":{");
    for (size_t i = 0; i < SONDE__DROP_COUNT; i++) {
        sonde_buf_printf(b, "%s\"%s\":%llu", i ? "," : "", drop_names[i],
                         (unsigned long long)p->drops[i]);
    }
    sonde_buf_puts(b, "}}");
}

static void render_json(const struct sonde_model *m, const char *dir,
                        const struct sonde_collector_refusal *refused, size_t refused_count,
                        struct sonde_buf *b)
{
    sonde_buf_puts(b, "{\"dir\":");
    sonde_buf_json_str(b, dir, strlen(dir));
    sonde_buf_puts(b, ",\"processes\":[");
    const char *comma = "";
    for (size_t i = 0; i < m->process_count; i++) {
        if (!m->processes[i]->path) continue;
        sonde_buf_puts(b, comma);
        json_process(m->processes[i], b);
        comma = ",";
    }
    sonde_buf_puts(b, "],\"refused\":[");
    for (size_t i = 0; i < refused_count; i++) {
        sonde_buf_puts(b, i ? ",{\"path\":" : "{\"path\":");
        sonde_buf_json_str(b, refused[i].path, strlen(refused[i].path));
        sonde_buf_puts(b, ",\"reason\":");
        sonde_buf_json_str(b, refused[i].reason, strlen(refused[i].reason));
        sonde_buf_putc(b, '}');
    }
    sonde_buf_puts(b, "]}\n");
}

static void table_process(const struct sonde_model_process *p, int ascii, struct sonde_table *t)
{
    char text[SONDE_VALUE_BYTES];
    const double up = uptime_s(p);
    sonde_table_row(t);
    sonde_table_cell(t, 0, "%u", p->pid);
    sonde_table_cell(t, 1, "%s", p->program);
    sonde_table_cell(t, 2, "%s", cmd_ls_state_of(p));
    sonde_table_cell(t, 3, "%s",
                     up < 0 ? "-" : sonde_value_format(text, up, SONDE_UNIT_SECONDS, ascii));
    sonde_table_cell(t, 4, "%zu", p->series_count);
    sonde_table_cell(t, 5, "%llu", (unsigned long long)p->spans_seen);
    sonde_table_cell(t, 6, "%s", sonde_value_format(text, (double)p->segment_bytes,
                                                    SONDE_UNIT_BYTES, ascii));
    sonde_table_cell(t, 7, "%llu", (unsigned long long)drops_of(p));
}

static void render_table(const struct sonde_model *m, struct sonde_buf *b)
{
    static const struct sonde_column columns[] = {
        { .title = "PID", .align = SONDE_RIGHT },
        { .title = "PROGRAM", .min = 8 },
        { .title = "STATE" },
        { .title = "UPTIME", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "SERIES", .align = SONDE_RIGHT },
        { .title = "SPANS", .align = SONDE_RIGHT },
        { .title = "MEMORY", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "DROPPED", .align = SONDE_RIGHT },
    };
    const int ascii = sonde_text_locale_ascii();
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < m->process_count; i++) {
        if (m->processes[i]->path) table_process(m->processes[i], ascii, &t);
    }
    if (t.row_count) sonde_table_render(&t, sonde_cli_width(), ascii, b);
    if (t.error) b->error = t.error;
    sonde_table_release(&t);
}

static void render_refused(const struct sonde_collector_refusal *refused, size_t count,
                           struct sonde_buf *b)
{
    for (size_t i = 0; i < count; i++) {
        char reason[1024], path[1024];
        const int ascii = sonde_text_locale_ascii();
        sonde_text_fit(path, sizeof(path), refused[i].path,
                       sonde_text_cells(refused[i].path, ascii), SONDE_LEFT, ascii);
        sonde_text_fit(reason, sizeof(reason), refused[i].reason,
                       sonde_text_cells(refused[i].reason, ascii), SONDE_LEFT, ascii);
        sonde_buf_printf(b, "refused %s: %s\n", path, reason);
    }
}

static int cmd_ls_list(struct sonde_cli *cli, struct sonde_collector *collector, const char *dir)
{
    const struct ls_values *v = cli->values;
    static struct sonde_collector_refusal refused[REFUSALS_MAX];
    sonde_collector_step(collector);
    const size_t count = sonde_collector_refusals(collector, refused, REFUSALS_MAX);

    struct sonde_buf b;
    sonde_buf_init(&b, OUTPUT_MAX);
    struct sonde_model *m = sonde_collector_model(collector);
    sonde_rdlock(&m->lock);
    if (v->json) {
        render_json(m, dir, refused, count, &b);
    } else {
        render_table(m, &b);
        render_refused(refused, count, &b);
    }
    sonde_rwunlock(&m->lock);

    int status = SONDE_EXIT_OK;
    if (b.error) status = sonde_cli_fail(cli, "out of memory");
    else fwrite(b.data ? b.data : "", 1, b.len, stdout);
    if (!b.error && b.len == 0 && !cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde ls: no process has a segment in %s\n", dir);
    }
    sonde_buf_release(&b);
    return status;
}

static int cmd_ls_run(struct sonde_cli *cli)
{
    char dir[4096];
    if (sonde_cli_dir(cli, dir, sizeof(dir)) != 0) {
        return sonde_cli_usage(cli, "SONDE_DIR is too long");
    }
    struct sonde_err err = { "" };
    struct sonde_agent *agent;
    if (sonde_cli_reader_open(cli, 0, 0, &agent, &err) != 0) {
        return sonde_cli_fail(cli, "%s", err.text);
    }
    const int status = cmd_ls_list(cli, agent->collector, dir);
    sonde_agent_close(agent);
    return status;
}

const struct sonde_command sonde_cmd_ls = {
    .name = "ls",
    .summary = "list the processes that record",
    .usage = "[options]",
    .details =
        "MEMORY is what the segment takes, DROPPED how many records and spans were lost for want "
        "of room (details with --json and `sonde doctor`). A process \"in another namespace\" (a "
        "container that shares the directory) is alive; its PID is not one of this namespace. "
        "Files that are damaged or written by another version are listed as refused, with the "
        "reason.",
    .options = options,
    .values_size = sizeof(struct ls_values),
    .operands_max = 0,
    .run = cmd_ls_run,
};
