/* pages.h - shared by the pages of `sonde top` (view.c draws the frame around them). */
#ifndef SONDE_PRESENT_TOP_PAGES_H
#define SONDE_PRESENT_TOP_PAGES_H

#include "present/table.h"
#include "present/top/view.h"

/* Rows of the grid that a page may use. */
struct sonde_top_area { int y, height; };

/* Each draws its page and returns 0 or SONDE_ENOMEM. */
int sonde_top_page_overview(struct sonde_top_state *s, const struct sonde_top_data *d,
                            struct sonde_grid *g, struct sonde_top_area area);
int sonde_top_page_series(struct sonde_top_state *s, const struct sonde_top_data *d,
                          struct sonde_grid *g, struct sonde_top_area area);
int sonde_top_page_spans(struct sonde_top_state *s, const struct sonde_top_data *d,
                         struct sonde_grid *g, struct sonde_top_area area);
int sonde_top_page_memory(struct sonde_top_state *s, const struct sonde_top_data *d,
                          struct sonde_grid *g, struct sonde_top_area area);
int sonde_top_page_infer(struct sonde_top_state *s, const struct sonde_top_data *d,
                         struct sonde_grid *g, struct sonde_top_area area);
int sonde_top_page_findings(struct sonde_top_state *s, const struct sonde_top_data *d,
                            struct sonde_grid *g, struct sonde_top_area area);
int sonde_top_page_gpu(struct sonde_top_state *s, const struct sonde_top_data *d,
                       struct sonde_grid *grid, struct sonde_top_area area);
int sonde_top_page_trace(struct sonde_top_state *s, const struct sonde_top_data *d,
                         struct sonde_grid *g, struct sonde_top_area area);

/* How a severity ("warning") is drawn. */
unsigned sonde_top_severity_style(const char *severity);

/* One of a page's ways to sort: its name is shown. */
extern const char *const sonde_top_overview_sorts[]; /* NULL-terminated */
extern const char *const sonde_top_series_sorts[];
extern const char *const sonde_top_memory_sorts[];

/* Order for largest first, or smallest first if reverse; what is not known comes last. */
int sonde_top_compare(double a, double b, int reverse);

/* FNV-1a over strings: the id of a row. Never 0. */
uint64_t sonde_top_row_id(const char *a, const char *b, uint64_t n);

/* The cursor of what is shown now. */
struct sonde_top_cursor *sonde_top_cursor(struct sonde_top_state *s);

/* A table with a cursor, drawn into area: title line, then the rows from cursor->scroll on.
 * ids has a row's id each. cursor NULL: no cursor, the first rows. style may give a cell's style
 * and fill may draw a cell itself (sparklines, bars); both may be NULL. */
struct sonde_top_list {
    const struct sonde_table *table;
    const uint64_t *ids;
    struct sonde_top_cursor *cursor;
    int sorted;                    /* column whose title is marked; -1 = none */
    unsigned (*style)(const void *arg, size_t row, size_t column);
    int (*fill)(const void *arg, size_t row, size_t column, struct sonde_grid *g, int x, int y,
                int cells);        /* 0 = draw the table's text */
    const void *arg;
};

/* Resolve the cursor to a row of count; keeps it on its row, and in sight of `shown` rows. */
void sonde_top_place(struct sonde_top_cursor *c, const uint64_t *ids, size_t count, size_t shown);

/* Returns the rows of the grid used. Leaves row_count and rows_shown in s if there is a cursor; s
 * may be NULL if there is none. */
int sonde_top_draw_list(struct sonde_top_state *s, const struct sonde_top_list *list,
                        struct sonde_grid *g, struct sonde_top_area area);

/* Lines of text in the middle of area: what to do when there is nothing to show. */
void sonde_top_message(struct sonde_grid *g, struct sonde_top_area area, const char *const *lines);

/* Text parts joined by " · " from x on, as many whole ones as fit; returns the cells used. */
struct sonde_top_part { unsigned style; char text[160]; };
int sonde_top_parts(struct sonde_grid *g, int x, int y, const struct sonde_top_part *parts,
                    size_t count);

#endif
