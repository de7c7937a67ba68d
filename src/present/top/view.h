/* view.h - `sonde top` without a terminal: what the user has chosen, how keys change that,
 * and the frame that is drawn from it and the data. Nothing here waits, reads or writes; the
 * command in cli/ brings data and keys and shows the frame. */
#ifndef SONDE_PRESENT_TOP_VIEW_H
#define SONDE_PRESENT_TOP_VIEW_H

#include "present/grid.h"
#include "present/top/data.h"

enum sonde_top_page {
    SONDE_TOP_OVERVIEW, SONDE_TOP_SERIES, SONDE_TOP_SPANS, SONDE_TOP_MEMORY, SONDE_TOP_INFERENCE,
    SONDE_TOP_FINDINGS, SONDE_TOP_GPU, SONDE_TOP_PAGES
};

/* The lists of the span page. TRACE is one level below LATEST and SLOWEST, and the inference
 * page. */
enum sonde_top_spans_view {
    SONDE_TOP_NAMES, SONDE_TOP_LATEST, SONDE_TOP_SLOWEST, SONDE_TOP_PAIRS, SONDE_TOP_TRACE
};

#define SONDE_TOP_FILTER_MAX 128
#define SONDE_TOP_TRACE_ID 33      /* 32 hex digits and a NUL */
#define SONDE_TOP_SPAN_NAME 129

/* The cursor of one list. It stays on its row when rows move: a row is known by its id. */
struct sonde_top_cursor {
    uint64_t id;     /* of the chosen row; 0 = stay at the top */
    size_t index;    /* where it was when last drawn */
    size_t scroll;   /* first row shown */
    int moved;       /* index was changed by a key: it, not id, says which row */
};

struct sonde_top_state {
    /* Chosen by the user. */
    enum sonde_top_page page;
    enum sonde_top_spans_view view, view_before; /* before: where Esc leads from TRACE … */
    enum sonde_top_page page_before;             /* … and to which page */
    struct sonde_top_cursor cursor[SONDE_TOP_PAGES + SONDE_TOP_TRACE + 1]; /* pages, span views */
    unsigned sort[SONDE_TOP_PAGES];
    int reverse[SONDE_TOP_PAGES];
    unsigned type;                           /* series: 0 = all, else counter, gauge, histogram */
    char filter[SONDE_TOP_FILTER_MAX];
    uint32_t pid;                            /* series and spans of this process; 0 = all */
    char span_name[SONDE_TOP_SPAN_NAME];     /* LATEST and SLOWEST; "" = all */
    char trace_id[SONDE_TOP_TRACE_ID];       /* TRACE */
    double interval_s;
    int paused, help, editing;
    char edit[SONDE_TOP_FILTER_MAX];         /* the filter being typed */
    size_t help_scroll;

    /* Set by the caller. */
    const char *origin;      /* URL or directory the data is from */
    const char *lost;        /* why the last reading failed; NULL = it did not */
    int once;                /* a frame to print: no key line, as many rows as there are */

    /* Left by drawing for the keys. */
    size_t row_count, rows_shown;
    uint32_t row_pid;
    char row_span[SONDE_TOP_SPAN_NAME], row_trace[SONDE_TOP_TRACE_ID];
};

void sonde_top_state_init(struct sonde_top_state *s);

/* Keys beside characters. */
enum {
    SONDE_KEY_UP = 0x110000, SONDE_KEY_DOWN, SONDE_KEY_PAGE_UP, SONDE_KEY_PAGE_DOWN,
    SONDE_KEY_HOME, SONDE_KEY_END, SONDE_KEY_ENTER, SONDE_KEY_ESC, SONDE_KEY_TAB,
    SONDE_KEY_BACK_TAB, SONDE_KEY_BACKSPACE,
};

/* What the caller has to do after a key. */
enum { SONDE_TOP_REDRAW = 1, SONDE_TOP_REFETCH = 2, SONDE_TOP_QUIT = 4 };
int sonde_top_key(struct sonde_top_state *s, int key);

/* The whole frame. d may be empty. SONDE_ENOMEM: parts are missing. */
int sonde_top_draw(struct sonde_top_state *s, const struct sonde_top_data *d,
                   struct sonde_grid *g);

/* "counter", "gauge", "histogram", or NULL for all: what state->type stands for. */
const char *sonde_top_type(const struct sonde_top_state *s);

/* ---- The filter: words that must all match ------------------------------------------------- */

#define SONDE_TOP_WORDS 4

/* A word is a glob on the metric's name, with alternatives as `a|b*`, or label=glob. One without
 * any of *?[ may match anywhere in it. More than SONDE_TOP_WORDS words of either kind are
 * ignored. */
#define SONDE_TOP_GLOB_MAX (3 * SONDE_TOP_FILTER_MAX)
struct sonde_top_words {
    char name[SONDE_TOP_WORDS][SONDE_TOP_GLOB_MAX];
    size_t name_count;
    char label[SONDE_TOP_WORDS][SONDE_TOP_FILTER_MAX];
    char value[SONDE_TOP_WORDS][SONDE_TOP_GLOB_MAX];
    size_t label_count;
};
void sonde_top_split_filter(const char *text, struct sonde_top_words *out);

/* 1 if every name word matches. */
int sonde_top_name_passes(const struct sonde_top_words *w, const char *name);

#endif
