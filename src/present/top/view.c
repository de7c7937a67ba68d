/* view.c - the frame of `sonde top`: title, tabs, messages, help, keys. */
#include "present/top/view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "present/top/pages.h"
#include "present/units.h"

static const char *const page_names[] = { "overview", "series", "spans", "memory", "inference",
                                         "findings", "gpu" };

/* ---- First line: name, tabs, where from, when ---------------------------------------------- */

static void draw_title(const struct sonde_top_state *s, const struct sonde_top_data *d,
                       struct sonde_grid *g)
{
    int x = 1 + sonde_grid_text(g, 0, 0, g->width, SONDE_STYLE_BOLD | SONDE_STYLE_CYAN, "sonde");
    for (int i = 0; i < SONDE_TOP_PAGES; i++) {
        const int active = i == (int)s->page;
        char tab[32];
        snprintf(tab, sizeof(tab), active ? "[%d %s]" : " %d %s ", i + 1, page_names[i]);
        const int cells = (int)strlen(tab);
        /* Without room for all of them, only the page one is on. */
        if (g->width < 78 && !active) continue;
        if (x + cells > g->width) break;
        x += sonde_grid_text(g, x, 0, cells, active ? SONDE_STYLE_BOLD : SONDE_STYLE_DIM, tab);
    }

    char clock[16] = "", right[256];
    const time_t now = (time_t)d->time_s;
    struct tm tm;
    if (d->time_s > 0 && localtime_r(&now, &tm)) strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
    const char *state = s->paused ? "  paused" : "";
    snprintf(right, sizeof(right), "%s  every %g s  %s%s", s->origin ? s->origin : "",
             s->interval_s, clock, state);
    int cells = sonde_text_cells(right, g->ascii);
    for (int less = 0; less < 2 && x + 2 + cells > g->width; less++) {
        if (less) snprintf(right, sizeof(right), "%s%s", clock, state);
        else snprintf(right, sizeof(right), "every %g s  %s%s", s->interval_s, clock, state);
        cells = sonde_text_cells(right, g->ascii);
    }
    if (x + 2 + cells > g->width) return;
    sonde_grid_text(g, g->width - cells, 0, cells, SONDE_STYLE_DIM, right);
    if (s->paused) {
        sonde_grid_restyle(g, g->width - 6, 0, 6, SONDE_STYLE_YELLOW | SONDE_STYLE_BOLD);
    }
}

/* ---- Last line: the keys ------------------------------------------------------------------- */

struct key_hint { const char *key, *what; };

/* The keys of what is shown, most important first. */
static size_t key_hints(const struct sonde_top_state *s, struct key_hint *out)
{
    static const struct key_hint overview[] = {
        { "q", "quit" }, { "Tab", "page" }, { "?", "help" }, { "↑↓", "move" },
        { "Enter", "its series" }, { "s", "sort" }, { "r", "reverse" }, { "p", "pause" },
        { "+-", "interval" }, { NULL, NULL } };
    static const struct key_hint series[] = {
        { "q", "quit" }, { "Tab", "page" }, { "?", "help" }, { "/", "filter" }, { "s", "sort" },
        { "t", "type" }, { "a", "all processes" }, { "↑↓", "move" }, { "r", "reverse" },
        { "p", "pause" }, { "+-", "interval" }, { NULL, NULL } };
    static const struct key_hint spans[] = {
        { "q", "quit" }, { "Tab", "page" }, { "?", "help" }, { "v", "view" },
        { "Enter", "open" }, { "↑↓", "move" }, { "Esc", "back" }, { "/", "filter" },
        { "a", "all processes" }, { "p", "pause" }, { "+-", "interval" }, { NULL, NULL } };
    static const struct key_hint memory[] = {
        { "q", "quit" }, { "Tab", "page" }, { "?", "help" }, { "↑↓", "move" },
        { "Enter", "its series" }, { "s", "sort" }, { "r", "reverse" }, { "a", "all processes" },
        { "p", "pause" }, { "+-", "interval" }, { NULL, NULL } };
    static const struct key_hint inference[] = {
        { "q", "quit" }, { "Tab", "page" }, { "?", "help" }, { "↑↓", "move" },
        { "Enter", "its trace" }, { "s", "sort" }, { "a", "all processes" }, { "p", "pause" },
        { "+-", "interval" }, { NULL, NULL } };
    static const struct key_hint findings[] = {
        { "q", "quit" }, { "Tab", "page" }, { "?", "help" }, { "↑↓", "move" }, { "p", "pause" },
        { "+-", "interval" }, { NULL, NULL } };
    static const struct key_hint trace[] = {
        { "q", "quit" }, { "Esc", "back" }, { "↑↓", "move" }, { "?", "help" }, { "p", "pause" },
        { NULL, NULL } };

    const struct key_hint *from = s->page == SONDE_TOP_OVERVIEW ? overview
                                : s->page == SONDE_TOP_SERIES   ? series
                                : s->page == SONDE_TOP_MEMORY   ? memory
                                : s->page == SONDE_TOP_INFERENCE ? inference
                                : s->page == SONDE_TOP_FINDINGS ? findings
                                : s->page == SONDE_TOP_GPU      ? findings
                                : s->view == SONDE_TOP_TRACE    ? trace : spans;
    size_t n = 0;
    for (; from[n].key; n++) out[n] = from[n];
    return n;
}

static void draw_keys(const struct sonde_top_state *s, struct sonde_grid *g)
{
    const int y = g->height - 1;
    struct key_hint hints[16];
    int x = 0;

    if (s->editing) {
        x = sonde_grid_text(g, 0, y, g->width, SONDE_STYLE_BOLD, "filter: ");
        /* The end of what is typed stays in sight. */
        const char *text = s->edit;
        while (sonde_text_cells(text, g->ascii) > g->width - x - 1 && *text) text++;
        x += sonde_grid_text(g, x, y, g->width - x, SONDE_STYLE_NORMAL, text);
        sonde_grid_text(g, x, y, 1, SONDE_STYLE_REVERSE, " ");
        sonde_grid_text(g, x + 3, y, g->width - x - 3, SONDE_STYLE_DIM,
                        "Enter apply, Esc cancel; glob on the name, label=glob");
        return;
    }
    for (size_t i = 0, n = key_hints(s, hints); i < n; i++) {
        const int key = sonde_text_cells(hints[i].key, g->ascii);
        const int what = sonde_text_cells(hints[i].what, g->ascii);
        if (x + key + 1 + what > g->width) break;
        sonde_grid_text(g, x, y, key, SONDE_STYLE_BOLD | SONDE_STYLE_CYAN, hints[i].key);
        sonde_grid_text(g, x + key + 1, y, what, SONDE_STYLE_NORMAL, hints[i].what);
        x += key + what + 3;
    }
}

/* ---- Help ---------------------------------------------------------------------------------- */

static const char *const help_lines[] = {
    "Keys",
    "  Tab 1 … 7       next page; overview, series, spans, memory, inference, findings, gpu",
    "  ↑ ↓ j k         move; PgUp PgDn by a screen, Home End g G to the ends",
    "  Enter           overview, memory: series of the process; spans: open it;",
    "                  inference: the trace of the request",
    "  Esc             back: from a trace, a name, a process, a filter",
    "  /               filter; words that must all match:",
    "                    http_*        a glob on the metric's name",
    "                    route=/pay*   a glob on a label",
    "                    queue|wait    without * ? [: anywhere in the name; | is or",
    "  s r             next way to sort; reverse it",
    "  t               series: all, counters, gauges, histograms",
    "  v               spans: by name, latest, slowest, pairs of parent and child",
    "  a               all processes again",
    "  p space         pause and go on",
    "  + -             read more or less often",
    "  q               quit",
    "",
    "Figures",
    "  rate            increase per second, or records per second of a histogram",
    "  avg p50 p95 p99 over the last 60 s: of a counter's increase per second, of a",
    "                  gauge's values, of a histogram's recorded values",
    "  trend           ↑ ↓ when the last minute rises or falls beyond noise",
    "  in use, peak    memory allocated and not freed, and the most of it so far",
    "  alloc/s         memory allocated per second; calls/s how often",
    "  free            what the allocator holds and nobody uses (glibc only)",
    "  pool            what the program says about memory of its own (sonde_pool)",
    "  ttft, itl       time from arrival to the first token; time between tokens",
    "  tok/s           of a request: tokens out by its whole time; in all: what the",
    "                  machine gives out and computes in a second",
    "  goodput         share of requests that met all objectives of the settings",
    "  drops           records the process could not keep; `sonde doctor` says why",
    "  impact          share of time, memory or throughput that a finding is about",
    "  spans           of the time shown above: as long as a few thousand take",
    NULL,
};

static void draw_help(struct sonde_top_state *s, struct sonde_grid *g)
{
    size_t count = 0;
    while (help_lines[count]) count++;
    const size_t shown = g->height > 2 ? (size_t)(g->height - 2) : 1;
    if (s->help_scroll + shown > count) s->help_scroll = count > shown ? count - shown : 0;
    for (size_t i = s->help_scroll; i < count && i - s->help_scroll < shown; i++) {
        const int y = 1 + (int)(i - s->help_scroll);
        const int heading = help_lines[i][0] != ' ';
        sonde_grid_text(g, 0, y, g->width, heading ? SONDE_STYLE_BOLD : SONDE_STYLE_NORMAL,
                        help_lines[i]);
    }
    sonde_grid_text(g, 0, g->height - 1, g->width, SONDE_STYLE_DIM,
                    "any key closes help; ↑↓ scroll");
}

/* ---- The frame ----------------------------------------------------------------------------- */

/* The line under the title when reading failed. Returns the rows it took. */
static int draw_lost(const struct sonde_top_state *s, struct sonde_grid *g)
{
    if (!s->lost || g->height < 4) return 0;
    char line[768];
    snprintf(line, sizeof(line), "lost %s, retrying: %s", s->origin ? s->origin : "the agent",
             s->lost);
    sonde_grid_field(g, 0, 1, g->width, 0, SONDE_STYLE_RED | SONDE_STYLE_BOLD, line);
    return 1;
}

int sonde_top_draw(struct sonde_top_state *s, const struct sonde_top_data *d,
                   struct sonde_grid *g)
{
    static int (*const pages[])(struct sonde_top_state *, const struct sonde_top_data *,
                                struct sonde_grid *, struct sonde_top_area) = {
        [SONDE_TOP_OVERVIEW] = sonde_top_page_overview,
        [SONDE_TOP_SERIES] = sonde_top_page_series,
        [SONDE_TOP_SPANS] = sonde_top_page_spans,
        [SONDE_TOP_MEMORY] = sonde_top_page_memory,
        [SONDE_TOP_INFERENCE] = sonde_top_page_infer,
        [SONDE_TOP_FINDINGS] = sonde_top_page_findings,
        [SONDE_TOP_GPU] = sonde_top_page_gpu,
    };
    s->row_count = s->rows_shown = 0;
    s->row_pid = 0;
    s->row_span[0] = s->row_trace[0] = 0;

    draw_title(s, d, g);
    if (s->help) {
        draw_help(s, g);
        return 0;
    }
    struct sonde_top_area area = { .y = 1, .height = g->height - 1 - (s->once ? 0 : 1) };
    const int lost = draw_lost(s, g);
    area.y += lost;
    area.height -= lost;

    int rc = 0;
    if (area.height > 0) {
        if (d->time_s > 0) {
            rc = s->page == SONDE_TOP_SPANS && s->view == SONDE_TOP_TRACE
                     ? sonde_top_page_trace(s, d, g, area)
                     : pages[s->page](s, d, g, area);
        } else if (!s->lost) {
            static const char *const waiting[] = { "Reading …", NULL };
            sonde_top_message(g, area, waiting);
        }
    }
    if (!s->once && g->height > 1) draw_keys(s, g);
    return rc;
}
