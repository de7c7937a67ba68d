/* series.c - series by name: out of a row, their labels, and whether a filter takes them. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

enum { LABELS_MAX = 64 };

int store_series_row(sqlite3_stmt *st, struct sonde_store_series *out)
{
    *out = (struct sonde_store_series){
        .id = (uint32_t)sqlite3_column_int64(st, 0),
        .name = store_text(st, 1),
        .help = store_text(st, 2),
        .unit = store_text(st, 3),
        .source = store_text(st, 4),
        .labels = store_text(st, 5),
        .program = store_text(st, 6),
        .pid = (uint32_t)sqlite3_column_int64(st, 7),
        .type = (enum sonde_type)sqlite3_column_int(st, 8),
        .kind = (enum sonde_kind)sqlite3_column_int(st, 9),
        .scale = sqlite3_column_double(st, 10),
    };
    const int type = (int)out->type, kind = (int)out->kind;
    return type >= SONDE_COUNTER && type <= SONDE_HISTOGRAM && kind >= SONDE_KIND_CUSTOM &&
           kind <= SONDE_KIND_PERCENTAGE && isfinite(out->scale)
               ? 0
               : SONDE_EFORMAT;
}

int sonde_store_labels(char *text, struct sonde_label *out, size_t max)
{
    size_t n = 0;
    for (char *at = text; *at && n < max; n++) {
        char *equals = strstr(at, "=\"");
        if (!equals) return -1;
        *equals = '\0';
        out[n].name = at;
        char *to = equals + 2;
        out[n].value = to;
        for (at = to; *at && *at != '"'; at++) {
            if (*at == '\\' && at[1]) {
                at++;
                *to++ = (char)(*at == 'n' ? '\n' : *at);
            } else {
                *to++ = *at;
            }
        }
        if (!*at) return -1;
        at++;
        *to = '\0';
        if (*at == ',') at++;
    }
    return (int)n;
}

/* A filter wants a series of a model. */
int store_series_passes(const struct sonde_store_series *in, const struct sonde_store_query *q)
{
    struct sonde_model_family family = {
        .name = (char *)(uintptr_t)in->name,
        .help = (char *)(uintptr_t)in->help,
        .unit = (char *)(uintptr_t)in->unit,
        .source = (char *)(uintptr_t)in->source,
        .type = in->type,
        .kind = in->kind,
    };
    struct sonde_model_process process = { .program = (char *)(uintptr_t)in->program,
                                           .pid = in->pid };
    struct sonde_label labels[LABELS_MAX];
    struct sonde_model_series series = { .family = &family, .labels = labels,
                                         .process = in->program[0] ? &process : NULL };
    for (size_t i = 0; i < q->filter_count; i++) {
        if (!sonde_filter_family(&q->filters[i], &family)) return 0;
    }
    char *text = sonde__strdup(in->labels);
    if (!text) return 0;
    const int n = sonde_store_labels(text, labels, LABELS_MAX);
    series.label_count = n > 0 ? (size_t)n : 0;
    int good = 1;
    for (size_t i = 0; i < q->filter_count && good; i++) {
        good = sonde_filter_series(&q->filters[i], &series);
    }
    sonde__free(text);
    return good;
}
