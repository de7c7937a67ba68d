/* training.c - training curves: panels of what is alike, by epoch. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "present/plot/kind.h"
#include "sonde/sonde.h"

/* Which names share a panel; others have their own. */
static const struct training_panel { const char *title, *part, *whole; } training_panels[] = {
    { "loss", "loss", NULL },
    { "accuracy", "acc", NULL },
    { "learning rate", "learning_rate", "lr" },
    { "time of an epoch", NULL, "seconds" },
};

static int training_belongs(const struct sonde_plot_series *s, const struct training_panel *p)
{
    return (p->part && strcasestr(s->name, p->part)) ||
           (p->whole && !strcasecmp(s->name, p->whole));
}

static int training_class(const struct sonde_plot_series *s)
{
    for (size_t i = 0; i < SONDE_COUNT(training_panels); i++) {
        if (training_belongs(s, &training_panels[i])) return (int)i;
    }
    return -1;
}

/* The smallest and the largest y. */
static void training_range(const struct sonde_plot_series *s, double *low, double *high)
{
    for (size_t i = 0; i < s->count; i++) {
        if (!isfinite(s->values[i].y)) continue;
        *low = fmin(*low, s->values[i].y);
        *high = fmax(*high, s->values[i].y);
    }
}

static int training_chart(const struct sonde_plot_data *d, int class, const char *name,
                          struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s, *last = NULL;
    double low = INFINITY, high = -INFINITY;
    struct sonde_chart *c = sonde_plot_page_chart(page, "", "");
    int rc = 0;
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "%s", name);
    snprintf(c->x_title, sizeof(c->x_title), "epoch");
    for (size_t at = 0; (s = sonde_plot_next(d, SONDE_ROLE_EPOCH, &at)) != NULL;) {
        if (training_class(s) == class && (class >= 0 || !strcmp(s->name, name))) {
            training_range(s, &low, &high);
            last = s;
        }
    }
    if (last && last->unit[0]) c->y_unit = last->unit;
    else if (class == 1 && low >= 0 && high <= 1) c->y_unit = "share";
    else if (class == 3) c->y_unit = "s";
    c->y_zero = class == 3;
    c->y_log = class == 2 && low > 0 && high > 8 * low; /* it falls by factors */
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_EPOCH, &at)) != NULL;) {
        char label[SONDE_PLOT_LABEL_BYTES];
        if (training_class(s) != class || (class < 0 && strcmp(s->name, name) != 0)) continue;
        rc = sonde_plot_add_series(c, s, sonde_plot_label(d, s, label), SONDE_MARK_LINE, 0);
    }
    sonde_plot_page_drop_empty(page);
    return rc;
}

static int training_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    const size_t first = page->count;
    int rc = 0;
    for (size_t i = 0; i < SONDE_COUNT(training_panels) && !rc; i++) {
        rc = training_chart(d, (int)i, training_panels[i].title, page);
    }
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_EPOCH, &at)) != NULL;) {
        int known = training_class(s) >= 0;
        for (size_t i = first; i < page->count; i++) {
            known |= !strcmp(page->charts[i].title, s->name);
        }
        if (!known) rc = training_chart(d, -1, s->name, page);
    }
    return rc;
}

const struct sonde_plot_kind sonde_plot_training = {
    .name = "training",
    .summary =
        "loss, accuracy, learning rate and time by epoch; other values in panels of their own",
    .needs = "epochs of training",
    .hint = "Record them with sonde/ml.h or sonde.ml (docs/ml.md), or give a data file with series "
            "of the role epoch (docs/plot.md).",
    .role = SONDE_ROLE_EPOCH,
    .draw = training_draw,
};
