/* filter.c - which families and series a question is about. */
#include <fnmatch.h>
#include <string.h>

#include "model/model.h"

const char *sonde_type_name(enum sonde_type t)
{
    switch (t) {
    case SONDE_COUNTER: return "counter";
    case SONDE_GAUGE: return "gauge";
    case SONDE_HISTOGRAM: return "histogram";
    }
    return "unknown";
}

const char *sonde_kind_name(enum sonde_kind k)
{
    switch (k) {
    case SONDE_KIND_CUSTOM: return "custom";
    case SONDE_KIND_TIME: return "time";
    case SONDE_KIND_THROUGHPUT: return "throughput";
    case SONDE_KIND_MEMORY: return "memory";
    case SONDE_KIND_COUNTER: return "counter";
    case SONDE_KIND_RATIO: return "ratio";
    case SONDE_KIND_PERCENTAGE: return "percentage";
    }
    return "custom";
}

static int model_filter_glob(const char *pattern, const char *text)
{
    return !pattern || fnmatch(pattern, text, 0) == 0;
}

/* No name holds a bar, so nobody needs to escape one. */
int sonde_filter_glob(const char *patterns, const char *text)
{
    if (!patterns || !strchr(patterns, '|')) return model_filter_glob(patterns, text);
    char one[SONDE_NAME_MAX * 2];
    for (const char *p = patterns;; p++) {
        const size_t len = strcspn(p, "|");
        if (len < sizeof(one)) {
            memcpy(one, p, len);
            one[len] = 0;
            if (model_filter_glob(one, text)) return 1;
        }
        p += len;
        if (!*p) return 0;
    }
}

int sonde_filter_family(const struct sonde_filter *f, const struct sonde_model_family *family)
{
    if (!f) return 1;
    if (f->own && family->foreign) return 0;
    if (f->type && strcmp(f->type, sonde_type_name(family->type)) != 0 &&
        strcmp(f->type, sonde_kind_name(family->kind)) != 0) {
        return 0;
    }
    return sonde_filter_glob(f->name, family->name) && model_filter_glob(f->source, family->source);
}

static const char *label_value(const struct sonde_model_series *s, const char *name)
{
    for (size_t i = 0; i < s->label_count; i++) {
        if (strcmp(s->labels[i].name, name) == 0) return s->labels[i].value;
    }
    return "";
}

int sonde_filter_series(const struct sonde_filter *f, const struct sonde_model_series *s)
{
    if (!f) return 1;
    if (!sonde_filter_family(f, s->family) || (f->own && s->foreign)) return 0;
    if (f->pid != 0 && (!s->process || s->process->pid != f->pid)) return 0;
    if (!model_filter_glob(f->process, s->process ? s->process->program : "")) return 0;
    for (size_t i = 0; i < f->label_count; i++) {
        if (!model_filter_glob(f->label[i].value, label_value(s, f->label[i].name))) return 0;
    }
    return 1;
}
