/* kind.c - see kind.h. */
#include "present/plot/kind.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "sonde/sonde.h"

#define SONDE_PLOT_KIND(id) extern const struct sonde_plot_kind sonde_plot_##id;
#include "present/plot/plot_list.h"
#undef SONDE_PLOT_KIND

const struct sonde_plot_kind *const sonde_plot_kinds[] = {
#define SONDE_PLOT_KIND(id) &sonde_plot_##id,
#include "present/plot/plot_list.h"
#undef SONDE_PLOT_KIND
    NULL,
};

const struct sonde_plot_kind *sonde_plot_kind_find(const char *name)
{
    for (size_t i = 0; sonde_plot_kinds[i]; i++) {
        if (!strcmp(sonde_plot_kinds[i]->name, name)) return sonde_plot_kinds[i];
    }
    return NULL;
}

int sonde_plot_kind_draw(const struct sonde_plot_kind *kind, const struct sonde_plot_data *d,
                         struct sonde_plot_page *page, int *empty)
{
    snprintf(page->title, sizeof(page->title), "%s", d->title);
    snprintf(page->note, sizeof(page->note), "%s", d->note);
    const int rc = kind->draw(d, page);
    *empty = !rc && !page->count;
    if (rc || page->count) return rc;
    struct sonde_chart *c = sonde_plot_page_chart(page, "", "");
    if (!c) return SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "Nothing to draw: %s", kind->name);
    snprintf(c->missing, sizeof(c->missing), "It needs %s. %s", kind->needs, kind->hint);
    return 0;
}

/* ---- What kinds share ------------------------------------------------------------------------ */

const struct sonde_plot_series *sonde_plot_next(const struct sonde_plot_data *d,
                                                enum sonde_plot_role role, size_t *at)
{
    for (; *at < d->count; (*at)++) {
        if (d->series[*at].role == role && d->series[*at].count) return &d->series[(*at)++];
    }
    return NULL;
}

static int kind_groups_differ(const struct sonde_plot_data *d, const struct sonde_plot_series *s)
{
    for (size_t i = 0; i < d->count; i++) {
        if (d->series[i].role == s->role && strcmp(d->series[i].group, s->group) != 0) return 1;
    }
    return 0;
}

const char *sonde_plot_label(const struct sonde_plot_data *d, const struct sonde_plot_series *s,
                             char out[SONDE_PLOT_LABEL_BYTES])
{
    const int group = s->group[0] && kind_groups_differ(d, s);
    snprintf(out, SONDE_PLOT_LABEL_BYTES, "%s%s%s", s->name, group ? ", " : "",
             group ? s->group : "");
    return out;
}

const char *sonde_plot_panel(const struct sonde_plot_series *s, char panel[SONDE_PLOT_NAME_MAX])
{
    const char *colon = strstr(s->name, ": ");
    if (!colon || colon == s->name || !colon[2]) {
        snprintf(panel, SONDE_PLOT_NAME_MAX, "%s", s->name);
        return s->name;
    }
    snprintf(panel, SONDE_PLOT_NAME_MAX, "%.*s", (int)(colon - s->name), s->name);
    return colon + 2;
}

int sonde_plot_add_series(struct sonde_chart *c, const struct sonde_plot_series *s,
                          const char *label, enum sonde_chart_mark mark, int gaps)
{
    struct sonde_chart_series *to = sonde_chart_series(c, label);
    int rc = 0;
    if (!to) return 0;
    to->mark = mark;
    for (size_t i = 0; i < s->count && !rc; i++) {
        const struct sonde_plot_value *v = &s->values[i];
        if (gaps && isnan(v->y)) rc = sonde_chart_add_gap(c, to, v->x);
        else if (!isnan(v->y)) rc = sonde_chart_add(c, to, v->x, v->y, v->low, v->high, NULL);
    }
    return rc;
}

/* The lines of one panel; those after the colours are used up are counted. */
static int kind_panel_fill(const struct sonde_plot_data *d, enum sonde_plot_role role,
                           const char *panel, struct sonde_chart *c)
{
    const struct sonde_plot_series *s;
    size_t left = 0, count = 0;
    int rc = 0;
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, role, &at)) != NULL;) {
        char its[SONDE_PLOT_NAME_MAX], label[SONDE_PLOT_LABEL_BYTES];
        const char *name = sonde_plot_panel(s, its);
        if (strcmp(its, panel) != 0 || !sonde_plot_has_x(s)) continue;
        sonde_plot_label(d, s, label);
        if (count++ >= SONDE_INK_SERIES) {
            left++;
            continue;
        }
        rc = sonde_plot_add_series(c, s, label + (name - s->name), SONDE_MARK_AREA, 1);
    }
    /* A filling below several lines hides more than it shows. */
    for (size_t i = 0; i < c->series_count && c->series_count > 1; i++) {
        c->series[i].mark = SONDE_MARK_CURVE;
    }
    if (left) snprintf(c->note, sizeof(c->note), "%zu more not shown", left);
    /* What a panel is called needs no legend. */
    if (count == 1 && !strcmp(c->series[0].name, panel)) c->series[0].name[0] = '\0';
    return rc;
}

int sonde_plot_over_time(const struct sonde_plot_data *d, enum sonde_plot_role role,
                         const char *behind, struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    const size_t first = page->count;
    int rc = 0;
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, role, &at)) != NULL;) {
        char panel[SONDE_PLOT_NAME_MAX], title[sizeof(page->charts->title)];
        sonde_plot_panel(s, panel);
        snprintf(title, sizeof(title), "%s%s", panel, behind);
        int known = 0;
        for (size_t i = first; i < page->count; i++) known |= !strcmp(page->charts[i].title, title);
        if (known || !sonde_plot_has_x(s)) continue;
        struct sonde_chart *c = sonde_plot_page_chart(page, "time", s->unit);
        if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
        memcpy(c->title, title, sizeof(title));
        c->y_zero = 1;
        rc = kind_panel_fill(d, role, panel, c);
        sonde_plot_page_drop_empty(page);
    }
    return rc;
}
