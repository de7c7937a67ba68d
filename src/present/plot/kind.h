/* kind.h - kinds of pictures: one file each (training.c, latency.c …) with a `const struct
 * sonde_plot_kind sonde_plot_<name>`, and one row in plot_list.h. Help, docs and `sonde plot
 * --list` come from the table. */
#ifndef SONDE_PRESENT_PLOT_KIND_H
#define SONDE_PRESENT_PLOT_KIND_H

#include "analyze/plot_data.h"
#include "base/err.h"
#include "present/plot/page.h"

struct sonde_plot_kind {
    const char *name;
    const char *summary;     /* what is drawn; lower case, no full stop */
    const char *needs;       /* what has to be in the input */
    const char *hint;        /* how it gets there; a sentence for who has none */
    int role;                /* enum sonde_plot_role of series without one; -1 = none */
    /* Adds charts for what is there; none for nothing. 0 or SONDE_ENOMEM. */
    int (*draw)(const struct sonde_plot_data *d, struct sonde_plot_page *page);
};

extern const struct sonde_plot_kind *const sonde_plot_kinds[]; /* NULL-terminated */
const struct sonde_plot_kind *sonde_plot_kind_find(const char *name); /* or NULL */

/* All of a picture. If there is nothing to draw, the page says what is missing, and *empty is 1. 0
 * or SONDE_ENOMEM. */
int sonde_plot_kind_draw(const struct sonde_plot_kind *kind, const struct sonde_plot_data *d,
                         struct sonde_plot_page *page, int *empty);

/* ---- What kinds share ------------------------------------------------------------------------ */

/* Series of a role with values, from the one with number *at on; NULL = no more. *at is the
 * next. */
const struct sonde_plot_series *sonde_plot_next(const struct sonde_plot_data *d,
                                                enum sonde_plot_role role, size_t *at);
/* Its name, and its group where series of its role have several. Returns out. */
#define SONDE_PLOT_LABEL_BYTES (2 * SONDE_PLOT_NAME_MAX + 4)
const char *sonde_plot_label(const struct sonde_plot_data *d, const struct sonde_plot_series *s,
                             char out[SONDE_PLOT_LABEL_BYTES]);
/* "panel: name" is name of a panel; a name without one is its own. Returns the name's part. */
const char *sonde_plot_panel(const struct sonde_plot_series *s, char panel[SONDE_PLOT_NAME_MAX]);
/* All values of s as points of a new series of c. gaps: values that were not measured break lines.
 * 0 or SONDE_ENOMEM; too many series are left out. */
int sonde_plot_add_series(struct sonde_chart *c, const struct sonde_plot_series *s,
                          const char *label, enum sonde_chart_mark mark, int gaps);
/* Panels of series of a role that have an x: one for each panel's name, lines and areas. */
int sonde_plot_over_time(const struct sonde_plot_data *d, enum sonde_plot_role role,
                         const char *behind, struct sonde_plot_page *page);

#endif
