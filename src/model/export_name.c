/* export_name.c - see export_name.h. */
#include "model/export_name.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

static int export_name_by_name(const void *key, const void *element)
{
    const struct sonde_model_family *const *f = element;
    return strcmp(key, (*f)->name);
}

static const struct sonde_model_family *export_name_find(const struct sonde_model *m,
                                                         const char *name)
{
    struct sonde_model_family **f =
        bsearch(name, m->families, m->family_count, sizeof(*m->families), export_name_by_name);
    return f ? *f : NULL;
}

/* Bytes of name before suffix, 0 if it does not end so or is nothing else. */
static size_t stem_of(const char *name, size_t len, const char *suffix)
{
    const size_t n = strlen(suffix);
    return len > n && memcmp(name + len - n, suffix, n) == 0 ? len - n : 0;
}

static const struct sonde_model_family *find_joined(const struct sonde_model *m, const char *stem,
                                                    size_t len, const char *suffix)
{
    char name[sizeof(((struct sonde_export_name *)0)->text)];
    const size_t n = strlen(suffix);
    if (len + n >= sizeof(name)) return NULL;
    memcpy(name, stem, len);
    memcpy(name + len, suffix, n + 1);
    return export_name_find(m, name);
}

/* 1 if a histogram's samples have this name. */
static int owned_by_histogram(const struct sonde_model *m, const char *name, size_t len)
{
    static const char *const suffixes[] = { "_bucket", "_sum", "_count", "_created" };
    for (size_t i = 0; i < SONDE_COUNT(suffixes); i++) {
        const size_t stem = stem_of(name, len, suffixes[i]);
        if (!stem) continue;
        const struct sonde_model_family *owner = find_joined(m, name, stem, "");
        if (owner && owner->type == SONDE_HISTOGRAM) return 1;
    }
    return 0;
}

static void export_name_append(struct sonde_export_name *n, const char *text)
{
    const size_t len = strlen(text);
    if (n->len + len >= sizeof(n->text)) return;
    memcpy(n->text + n->len, text, len + 1);
    n->len += len;
}

void sonde_export_name(const struct sonde_model *m, const struct sonde_model_family *f,
                       struct sonde_export_name *out)
{
    *out = (struct sonde_export_name){ .len = strnlen(f->name, sizeof(out->text) - 1) };
    memcpy(out->text, f->name, out->len);
    out->stem = out->len;
    if (f->type != SONDE_COUNTER) {
        while (owned_by_histogram(m, out->text, out->len) ||
               (out->len > strlen(f->name) && export_name_find(m, out->text))) {
            const size_t before = out->len;
            export_name_append(out, "_value");
            if (out->len == before) break;
        }
        out->stem = out->len;
        out->no_created = find_joined(m, out->text, out->len, "_created") != NULL;
        return;
    }
    size_t stem = stem_of(out->text, out->len, "_total");
    if (f->foreign && !stem) {
        if (owned_by_histogram(m, out->text, out->len)) export_name_append(out, "_value");
        out->unknown = 1;
        return;
    }
    if (!stem && find_joined(m, out->text, out->len, "_total")) {
        if (!owned_by_histogram(m, out->text, out->len)) {
            out->unknown = 1;
            return;
        }
        export_name_append(out, "_value");
    }
    if (!stem) {
        stem = out->len;
        export_name_append(out, "_total");
    }
    out->stem = stem;
    const struct sonde_model_family *same = find_joined(m, out->text, stem, "");
    out->unknown = same && same != f;
    out->no_created = find_joined(m, out->text, stem, "_created") != NULL;
}

int sonde_export_group(const struct sonde_model *m, const struct sonde_model_family *f,
                       const struct sonde_filter *filter, struct sonde_export_group *out)
{
    static const char *const suffix[] = { [SONDE_PART_PLAIN] = "", [SONDE_PART_BUCKET] = "_bucket",
                                          [SONDE_PART_COUNT] = "_count",
                                          [SONDE_PART_SUM] = "_sum" };
    const struct sonde_model_family *first = NULL;
    int taken = 0;
    *out = (struct sonde_export_group){ 0 };
    for (size_t i = 0; i < SONDE_EXPORT_PARTS; i++) {
        const struct sonde_model_family *p = find_joined(m, f->name, f->stem, suffix[i]);
        const int part = p && p->shown == f->shown && p->stem == f->stem;
        if (part && p->series_count && (!filter || sonde_filter_family(filter, p))) {
            out->part[i] = p;
            if (!first) first = p;
        }
        taken |= p && !part && p->series_count > 0;
    }
    if (first != f) return 0;
    if (taken) export_name_append(&out->name, "exported_");
    const size_t before = out->name.len;
    if (before + f->stem >= sizeof(out->name.text)) return 0;
    memcpy(out->name.text + before, f->name, f->stem);
    out->name.text[before + f->stem] = '\0';
    out->name.len = out->name.stem = before + f->stem;
    for (size_t i = 0; taken && i < SONDE_EXPORT_PARTS; i++) {
        if (find_joined(m, out->name.text, out->name.len, suffix[i])) return 0;
    }
    return 1;
}

int sonde_export_has_unit(const struct sonde_model_family *f, const struct sonde_export_name *n)
{
    const size_t len = strlen(f->unit);
    return len && n->stem > len + 1 && n->text[n->stem - len - 1] == '_' &&
           memcmp(n->text + n->stem - len, f->unit, len) == 0;
}

void sonde_export_help(const struct sonde_model_family *f, struct sonde_buf *out)
{
    if (f->help[0]) {
        sonde_buf_puts(out, f->help);
        return;
    }
    const size_t len = strlen(f->name);
    size_t stem = f->type == SONDE_COUNTER ? stem_of(f->name, len, "_total") : 0;
    if (!stem) stem = len;
    char *at = sonde_buf_reserve(out, stem + 1);
    if (!at) return;
    for (size_t i = 0; i < stem; i++) {
        at[i] = f->name[i] == '_' ? ' ' : f->name[i];
    }
    at[0] = (char)toupper((unsigned char)at[0]);
    at[stem] = '.';
    out->len += stem + 1;
}

int sonde_export_has_le(const struct sonde_model_series *s)
{
    for (size_t i = 0; i < s->label_count; i++) {
        if (strcmp(s->labels[i].name, "le") == 0) return 1;
    }
    return 0;
}

int sonde_export_twins_init(const struct sonde_model *m, struct sonde_export_twins *t)
{
    *t = (struct sonde_export_twins){ 0 };
    for (size_t i = 0; i < m->process_count; i++) {
        const struct sonde_model_process *p = m->processes[i];
        if (p->state == SONDE_PROCESS_RUNNING) continue;
        for (size_t k = i + 1; k < m->process_count; k++) {
            const struct sonde_model_process *q = m->processes[k];
            if (q->pid != p->pid || strcmp(q->program, p->program) != 0) continue;
            const void **grown = sonde__realloc(t->hidden, (t->count + 1) * sizeof(*t->hidden));
            if (!grown) {
                sonde_export_twins_release(t);
                return SONDE_ENOMEM;
            }
            t->hidden = (const struct sonde_model_process **)grown;
            t->hidden[t->count++] = p;
            break;
        }
    }
    return 0;
}

void sonde_export_twins_release(struct sonde_export_twins *t)
{
    sonde__free(t->hidden);
    *t = (struct sonde_export_twins){ 0 };
}
