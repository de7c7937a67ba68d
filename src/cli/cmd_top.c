/* cmd_top.c - `sonde top`: processes, series and spans, live in the terminal.
 *
 *   top_source.c   where data is from: an agent by URL, or a collector in this process
 *   top_feed.c     reads it in a thread
 *   present/top_*  what is shown, as a grid of cells
 *   top_screen.c   the grid on a terminal, and its keys */
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/top_feed.h"
#include "cli/top_screen.h"
#include "cli/top_source.h"
#include "present/text.h"
#include "present/top/view.h"
#include "sonde/sonde.h"

#define ONCE_HEIGHT SONDE_GRID_MAX

struct cmd_top_values {
    int once;
    const char *page, *filter;
    uint64_t width, pid;
};

static const struct sonde_cli_opt options[] = {
    { .name = "once", .type = SONDE_OPT_FLAG, .help = "print one frame as text and exit",
      .offset = offsetof(struct cmd_top_values, once) },
    { .name = "page", .type = SONDE_OPT_STR, .value = "PAGE",
      .choices = "overview|series|spans|memory|inference|findings|gpu",
      .help = "the page to begin with",
      .offset = offsetof(struct cmd_top_values, page) },
    { .name = "filter", .letter = 'f', .type = SONDE_OPT_STR, .value = "GLOB",
      .help = "series whose name matches, or LABEL=GLOB; several words must all match",
      .offset = offsetof(struct cmd_top_values, filter) },
    { .name = "pid", .letter = 'p', .type = SONDE_OPT_UINT, .value = "PID", .min = 1,
      .max = 4194304, .help = "this process only", .offset = offsetof(struct cmd_top_values, pid) },
    { .name = "width", .letter = 'w', .type = SONDE_OPT_UINT, .value = "COLUMNS", .min = 20,
      .max = SONDE_GRID_MAX, .help = "with --once: columns of the frame (default the terminal's)",
      .offset = offsetof(struct cmd_top_values, width) },
    SONDE_OPT_INTERVAL,
    SONDE_OPT_DIR,
    { .name = NULL },
};

/* ---- What to show first --------------------------------------------------------------------- */

static int cmd_top_choose(const struct sonde_cli *cli, struct sonde_top_state *s)
{
    const struct cmd_top_values *v = cli->values;
    static const char *const pages[] = { "overview", "series", "spans", "memory", "inference",
                                         "findings", "gpu" };
    sonde_top_state_init(s);
    s->interval_s = cli->config.agent_interval_seconds;
    s->pid = (uint32_t)v->pid;
    s->once = v->once;
    for (int i = 0; v->page && i < SONDE_TOP_PAGES; i++) {
        if (strcmp(v->page, pages[i]) == 0) s->page = (enum sonde_top_page)i;
    }
    if (v->filter) {
        if (strlen(v->filter) >= sizeof(s->filter)) {
            return sonde_cli_usage(cli, "--filter: longer than %zu characters",
                                   sizeof(s->filter) - 1);
        }
        memcpy(s->filter, v->filter, strlen(v->filter) + 1);
        if (!v->page) s->page = SONDE_TOP_SERIES;
    }
    return SONDE_EXIT_OK;
}

static int open_source(const struct sonde_cli *cli, struct sonde_top_state *s, char *origin,
                       size_t origin_size, struct sonde_top_source **out, struct sonde_err *err)
{
    const char *url = cli->operand_count ? cli->operands[0] : NULL;
    s->origin = origin;
    if (url) {
        snprintf(origin, origin_size, "%s", url);
        return sonde_top_source_url(url, out, err);
    }
    struct sonde_agent_options o = { .collector = sonde_cli_collector_options(cli),
                                     .infer = sonde_cli_infer_options(cli) };
    o.collector.pid = s->pid;
    if (o.collector.dir) snprintf(origin, origin_size, "%s", o.collector.dir);
    else if (sonde__dir_default(origin, origin_size)) snprintf(origin, origin_size, "?");
    return sonde_top_source_local(&o, out, err);
}

/* ---- One frame as text ---------------------------------------------------------------------- */

static void sleep_s(double seconds)
{
    struct timespec t = { .tv_sec = (time_t)seconds };
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    while (nanosleep(&t, &t)) { }
}

/* Rates need two readings an interval apart: from our own collector always, from an agent only
 * where it does not give them. */
static int read_for_once(struct sonde_top_source *source, const struct sonde_top_state *s,
                         int local, struct sonde_top_data *d, struct sonde_err *err)
{
    struct sonde_top_request r;
    struct sonde_top_memory memory = { 0 };
    sonde_top_request_of(s, &r);
    const int overview = s->page == SONDE_TOP_OVERVIEW;
    int rc = 0;
    sonde_top_source_tick(source);
    if (overview) {
        rc = sonde_top_source_read(source, &r, d, err);
        if (!rc) rc = sonde_top_data_rates(d, &memory);
        sonde_top_data_release(d);
    }
    if (!rc && (local || overview)) {
        sleep_s(s->interval_s);
        sonde_top_source_tick(source);
    }
    if (!rc) rc = sonde_top_source_read(source, &r, d, err);
    if (!rc && overview) rc = sonde_top_data_rates(d, &memory);
    sonde_top_memory_release(&memory);
    return rc;
}

static int columns_of_output(const struct cmd_top_values *v)
{
    struct winsize size;
    if (v->width) return (int)v->width;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
    return 100;
}

static int print_once(const struct sonde_cli *cli, struct sonde_top_source *source,
                      struct sonde_top_state *s)
{
    struct sonde_top_data d;
    struct sonde_err err = { "" };
    struct sonde_grid g;
    struct sonde_buf text;
    sonde_top_data_init(&d);
    int rc = read_for_once(source, s, cli->operand_count == 0, &d, &err);
    if (rc) {
        sonde_top_data_release(&d);
        return sonde_cli_fail(cli, "%s: %s", s->origin,
                              err.text[0] ? err.text : sonde_strerror(rc));
    }
    sonde_buf_init(&text, (size_t)64 << 20);
    rc = sonde_grid_init(&g, columns_of_output(cli->values), ONCE_HEIGHT,
                         sonde_text_locale_ascii());
    if (!rc) {
        rc = sonde_top_draw(s, &d, &g);
        sonde_grid_print(&g, &text);
        sonde_grid_release(&g);
    }
    if (!rc) rc = text.error;
    if (!rc) fwrite(text.data, 1, text.len, stdout);
    sonde_buf_release(&text);
    sonde_top_data_release(&d);
    return rc ? sonde_cli_fail(cli, "%s", sonde_strerror(rc)) : SONDE_EXIT_OK;
}

/* ---- Live ----------------------------------------------------------------------------------- */

static int cmd_top_redraw(struct sonde_top_state *s, const struct sonde_top_data *d)
{
    struct sonde_grid g;
    int width, height;
    sonde_top_screen_size(&width, &height);
    int rc = sonde_grid_init(&g, width, height, sonde_text_locale_ascii());
    if (rc) return rc;
    rc = sonde_top_draw(s, d, &g);
    sonde_top_screen_show(&g);
    sonde_grid_release(&g);
    return rc;
}

/* Returns the signal that ended it, or 0. */
static int cmd_top_watch(struct sonde_top_state *s, struct sonde_top_feed *feed,
                         struct sonde_top_data pages[SONDE_TOP_PAGES])
{
    struct sonde_err lost = { "" };
    for (;;) {
        int key = 0, todo = SONDE_TOP_REDRAW;
        s->lost = lost.text[0] ? lost.text : NULL;
        cmd_top_redraw(s, &pages[s->page]);
        do {
            switch (sonde_top_screen_wait(sonde_top_feed_fd(feed), &key)) {
            case SONDE_TOP_EVENT_SIGNAL: return key;
            case SONDE_TOP_EVENT_CLOSED: return SIGHUP;
            case SONDE_TOP_EVENT_RESIZE: todo = SONDE_TOP_REDRAW; break;
            case SONDE_TOP_EVENT_KEY: todo = sonde_top_key(s, key); break;
            case SONDE_TOP_EVENT_FD:
                todo = sonde_top_feed_take(feed, pages, &lost) ? SONDE_TOP_REDRAW : 0;
                break;
            }
            if (todo & SONDE_TOP_QUIT) return 0;
            if (todo & SONDE_TOP_REFETCH) sonde_top_feed_ask(feed, s);
        } while (!todo);
    }
}

static int show_live(const struct sonde_cli *cli, struct sonde_top_source *source,
                     struct sonde_top_state *s)
{
    struct sonde_err err = { "" };
    struct sonde_top_feed *feed = NULL;
    struct sonde_top_data pages[SONDE_TOP_PAGES];
    /* Lines on stderr would go through the picture; with --log they go to their file. */
    if (!cli->log_path) sonde_log_open(SONDE_LOG_ERROR, "/dev/null");
    if (sonde_top_screen_open(sonde_cli_colour(STDOUT_FILENO), &err)) {
        return sonde_cli_fail(cli, "%s", err.text);
    }
    for (int i = 0; i < SONDE_TOP_PAGES; i++) sonde_top_data_init(&pages[i]);
    const int rc = sonde_top_feed_start(source, s, &feed, &err);
    const int number = rc ? 0 : cmd_top_watch(s, feed, pages);
    sonde_top_screen_close();
    sonde_top_feed_stop(feed);
    for (int i = 0; i < SONDE_TOP_PAGES; i++) sonde_top_data_release(&pages[i]);
    if (rc) return sonde_cli_fail(cli, "%s", err.text);
    /* As programs that do not catch it end, so that a shell's loop stops too. */
    if (number) {
        signal(number, SIG_DFL);
        raise(number);
    }
    return SONDE_EXIT_OK;
}

static int cmd_top_run(struct sonde_cli *cli)
{
    struct sonde_top_state s;
    struct sonde_top_source *source = NULL;
    struct sonde_err err = { "" };
    char origin[512];
    setlocale(LC_CTYPE, "");
    if (cli->operand_count && !sonde_cli_is_url(cli->operands[0])) {
        return sonde_cli_usage(cli, "'%s' is no URL of an agent, like http://127.0.0.1:6060",
                               cli->operands[0]);
    }
    int status = cmd_top_choose(cli, &s);
    if (status) return status;
    const int rc = open_source(cli, &s, origin, sizeof(origin), &source, &err);
    if (rc) return sonde_cli_fail(cli, "%s", err.text[0] ? err.text : sonde_strerror(rc));
    status = s.once ? print_once(cli, source, &s) : show_live(cli, source, &s);
    sonde_top_source_destroy(source);
    return status;
}

const struct sonde_command sonde_cmd_top = {
    .name = "top",
    .summary = "show processes, series and spans live in the terminal",
    .usage = "[options] [URL]",
    .details = "Without URL the segments on this machine are read directly; with one, like "
               "http://127.0.0.1:6060, the agent there is asked. Keys are shown in the last "
               "line, and ? explains them. Text is plain where the locale is not UTF-8; there "
               "are no colours where NO_COLOR is set or the terminal has none.",
    .options = options,
    .values_size = sizeof(struct cmd_top_values),
    .operands_max = 1,
    .run = cmd_top_run,
};
