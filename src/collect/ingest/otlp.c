/* otlp.c - see otlp.h: requests, resources, scopes and attributes. */
#include "collect/ingest/otlp.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "collect/ingest/otlp_private.h"
#include "sonde/sonde.h"

enum { TEXT_MAX = 1 << 20, AT_ONCE = 1000, RENAMES_MAX = 4 };

int sonde_otlp_create(struct sonde_model *m, const struct sonde_otlp_options *options,
                      struct sonde_otlp **out)
{
    const struct sonde_ingest_options f = { .series_max = options->series_max,
                                            .stale_s = options->stale_s };
    struct sonde_otlp *o = sonde__calloc(1, sizeof(*o));
    if (!o) return SONDE_ENOMEM;
    o->model = m;
    if (sonde_ingest_create(m, &f, &o->foreign) != 0) {
        sonde__free(o);
        return SONDE_ENOMEM;
    }
    *out = o;
    return 0;
}

void sonde_otlp_destroy(struct sonde_otlp *o)
{
    if (!o) return;
    sonde_ingest_destroy(o->foreign);
    sonde__free(o);
}

/* ---- Values ---------------------------------------------------------------------------------- */

double otlp_double(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof(d));
    return d;
}

int otlp_text(const struct sonde_pb_field *f, struct sonde_buf *out)
{
    if (f->wire != SONDE_PB_BYTES || !sonde__utf8_valid((const char *)f->data, f->len) ||
        memchr(f->data, 0, f->len)) {
        return SONDE_EFORMAT;
    }
    sonde_buf_add(out, f->data, f->len);
    return out->error;
}

int otlp_value(const unsigned char *data, size_t len, struct otlp_value *out)
{
    struct sonde_pb_reader r = sonde_pb_reader(data, len);
    struct sonde_pb_field f;
    int more;
    *out = (struct otlp_value){ .type = OTLP_NOTHING };
    while ((more = sonde_pb_next(&r, &f)) > 0) {
        *out = (struct otlp_value){ .data = f.data, .len = f.len };
        if (f.number == 1 && f.wire == SONDE_PB_BYTES) {
            if (!sonde__utf8_valid((const char *)f.data, f.len)) return SONDE_EFORMAT;
            out->type = OTLP_TEXT;
        } else if (f.number == 2 && f.wire == SONDE_PB_VARINT) {
            out->type = OTLP_BOOL;
            out->i = f.value != 0;
        } else if (f.number == 3 && f.wire == SONDE_PB_VARINT) {
            out->type = OTLP_INT;
            out->i = (int64_t)f.value;
        } else if (f.number == 4 && f.wire == SONDE_PB_FIXED64) {
            out->type = OTLP_DOUBLE;
            out->d = otlp_double(f.value);
        } else if (f.number >= 5 && f.number <= 7 && f.wire == SONDE_PB_BYTES) {
            out->type = OTLP_OTHER;
        }
    }
    return more < 0 ? SONDE_EFORMAT : 0;
}

/* Lists, maps and bytes have no agreed text; that there was one is all that is said. */
void otlp_value_text(const struct otlp_value *v, struct sonde_buf *out)
{
    switch (v->type) {
    case OTLP_NOTHING: break;
    case OTLP_TEXT: sonde_buf_add(out, v->data, strnlen((const char *)v->data, v->len)); break;
    case OTLP_BOOL: sonde_buf_puts(out, v->i ? "true" : "false"); break;
    case OTLP_INT: sonde_buf_printf(out, "%" PRId64, v->i); break;
    case OTLP_DOUBLE: sonde_buf_double(out, v->d); break;
    case OTLP_OTHER: sonde_buf_puts(out, "[...]"); break;
    }
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static void otlp_add_label(struct otlp_labels *l, size_t name_from, size_t value_from)
{
    sonde_buf_add(&l->text, "", 1);
    if (l->text.error) return;
    if (l->count == OTLP_LABELS_MAX) {
        l->too_many = 1;
        return;
    }
    l->offset[l->count][0] = name_from;
    l->offset[l->count++][1] = value_from;
}

static void add_text_label(struct otlp_labels *l, const char *name, const char *value)
{
    const size_t from = l->text.len;
    sonde_buf_puts(&l->text, name);
    sonde_buf_add(&l->text, "", 1);
    const size_t at = l->text.len;
    sonde_buf_puts(&l->text, value);
    otlp_add_label(l, from, at);
}

/* 1 if the name that stands at `from` is one already: job, say. */
static int has_label(const struct otlp_labels *l, size_t from)
{
    for (size_t i = 0; i < l->count && !l->text.error; i++) {
        if (strcmp(l->text.data + l->offset[i][0], l->text.data + from) == 0) return 1;
    }
    return 0;
}

int otlp_attribute(struct otlp_labels *l, const struct sonde_pb_field *f)
{
    struct sonde_pb_reader r = sonde_pb_reader(f->data, f->len);
    struct sonde_pb_field k;
    struct sonde_pb_field key = { 0 };
    struct otlp_value value = { .type = OTLP_NOTHING };
    int more;
    if (f->wire != SONDE_PB_BYTES) return SONDE_EFORMAT;
    while ((more = sonde_pb_next(&r, &k)) > 0) {
        if (k.wire != SONDE_PB_BYTES) continue;
        if (k.number == 1) key = k;
        if (k.number == 2 && otlp_value(k.data, k.len, &value) != 0) return SONDE_EFORMAT;
    }
    if (more < 0 || !sonde__utf8_valid((const char *)key.data, key.len)) return SONDE_EFORMAT;
    if (!key.len) return 0;
    const size_t from = l->text.len;
    otlp_label_name((const char *)key.data, key.len, &l->text);
    sonde_buf_add(&l->text, "", 1);
    for (int times = 1; has_label(l, from) && times < RENAMES_MAX; times++) {
        l->text.len = from;
        for (int i = 0; i < times; i++) sonde_buf_puts(&l->text, "exported_");
        otlp_label_name((const char *)key.data, key.len, &l->text);
        sonde_buf_add(&l->text, "", 1);
    }
    const size_t at = l->text.len;
    otlp_value_text(&value, &l->text);
    otlp_add_label(l, from, at);
    return l->text.error;
}

void otlp_labels_cut(struct otlp_labels *l, size_t count, size_t text)
{
    assert(count <= l->count);
    l->count = count;
    if (l->text.len > text) l->text.len = text;
    l->too_many = 0;
}

void otlp_labels_done(struct otlp_labels *l)
{
    assert(l->count <= OTLP_LABELS_MAX);
    for (size_t i = 0; i < l->count; i++) {
        l->label[i] = (struct sonde_label){ l->text.data + l->offset[i][0],
                                            l->text.data + l->offset[i][1] };
    }
}

/* ---- Resources and scopes -------------------------------------------------------------------- */

static const char *otlp_value_of(const struct otlp_labels *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++) {
        if (strcmp(l->label[i].name, name) == 0) return l->label[i].value;
    }
    return "";
}

/* What else is known of the sender, as a series that is always 1. */
static void put_target_info(struct otlp_capture *t, const struct otlp_labels *all)
{
    assert(t->labels.count <= OTLP_LABELS_MAX);
    struct sonde_label label[OTLP_LABELS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < t->labels.count; i++) label[n++] = t->labels.label[i];
    const size_t own = n;
    for (size_t i = 0; i < all->count && n < OTLP_LABELS_MAX; i++) {
        const char *name = all->label[i].name;
        if (!strcmp(name, "service_name") || !strcmp(name, "service_namespace") ||
            !strcmp(name, "service_instance_id")) {
            continue;
        }
        label[n++] = all->label[i];
    }
    if (!own || n == own || !t->apply) return;
    const struct sonde_ingest_point p = { .name = "target_info", .help = "Who sends.",
                                          .source = "otlp", .type = SONDE_GAUGE, .labels = label,
                                          .label_count = n, .value = 1, .now_s = t->now_s };
    sonde_ingest_put(t->o->foreign, &p);
}

static int take_resource(struct otlp_capture *t, const struct sonde_pb_field *f, int metrics)
{
    struct sonde_pb_reader r = sonde_pb_reader(f->data, f->len);
    struct sonde_pb_field a;
    struct otlp_labels all = { 0 };
    int more, rc = 0;
    if (f->wire != SONDE_PB_BYTES) return SONDE_EFORMAT;
    sonde_buf_init(&all.text, TEXT_MAX);
    while (!rc && (more = sonde_pb_next(&r, &a)) > 0) {
        if (a.number == 1) rc = otlp_attribute(&all, &a);
    }
    if (!rc && more < 0) rc = SONDE_EFORMAT;
    if (!rc) {
        otlp_labels_done(&all);
        const char *name = otlp_value_of(&all, "service_name"),
                   *space = otlp_value_of(&all, "service_namespace"),
                   *instance = otlp_value_of(&all, "service_instance_id");
        char job[512];
        snprintf(job, sizeof(job), "%.250s%s%.250s", space, *space && *name ? "/" : "", name);
        if (*name && sonde__utf8_valid(job, strlen(job))) add_text_label(&t->labels, "job", job);
        if (*instance) add_text_label(&t->labels, "instance", instance);
        snprintf(t->program, sizeof(t->program), "%.60s", *name ? name : "otlp");
        while (!sonde__utf8_valid(t->program, strlen(t->program))) {
            t->program[strlen(t->program) - 1] = '\0'; /* a character that was cut */
        }
        t->pid = (uint32_t)strtoul(otlp_value_of(&all, "process_pid"), NULL, 10);
        otlp_labels_done(&t->labels);
        if (metrics) put_target_info(t, &all);
    }
    sonde_buf_release(&all.text);
    return rc;
}

static int take_scope(struct otlp_capture *t, const struct sonde_pb_field *f)
{
    struct sonde_pb_reader r = sonde_pb_reader(f->data, f->len);
    struct sonde_pb_field a;
    int more, rc = 0;
    if (f->wire != SONDE_PB_BYTES) return SONDE_EFORMAT;
    while (!rc && (more = sonde_pb_next(&r, &a)) > 0) {
        if (a.number != 1 || !a.len) continue;
        const size_t from = t->labels.text.len;
        sonde_buf_puts(&t->labels.text, "otel_scope_name");
        sonde_buf_add(&t->labels.text, "", 1);
        const size_t at = t->labels.text.len;
        rc = otlp_text(&a, &t->labels.text);
        otlp_add_label(&t->labels, from, at);
    }
    return rc ? rc : more < 0 ? SONDE_EFORMAT : 0;
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* ScopeMetrics or ScopeSpans: 1 is the scope, 2 what it has; the scope may come last. */
static int take_scoped(struct otlp_capture *t, const struct sonde_pb_field *f, int metrics)
{
    const size_t count = t->labels.count, text = t->labels.text.len;
    int more = 0, rc = 0;
    for (uint32_t pass = 1; pass <= 2 && !rc; pass++) {
        struct sonde_pb_reader r = sonde_pb_reader(f->data, f->len);
        struct sonde_pb_field m;
        while (!rc && (more = sonde_pb_next(&r, &m)) > 0) {
            if (m.number != pass) continue;
            if (pass == 1) rc = take_scope(t, &m);
            else rc = metrics ? otlp_metric(t, &m) : otlp_span(t, &m);
        }
        if (!rc && more < 0) rc = SONDE_EFORMAT;
        t->common = t->labels.count;
        t->common_text = t->labels.text.len;
    }
    otlp_labels_cut(&t->labels, count, text);
    return rc;
}

static int take_resourced(struct otlp_capture *t, const struct sonde_pb_field *f, int metrics)
{
    int more = 0, rc = 0;
    if (f->wire != SONDE_PB_BYTES) return SONDE_EFORMAT;
    otlp_labels_cut(&t->labels, 0, 0);
    snprintf(t->program, sizeof(t->program), "otlp");
    t->pid = 0;
    for (uint32_t pass = 1; pass <= 2 && !rc; pass++) {
        struct sonde_pb_reader r = sonde_pb_reader(f->data, f->len);
        struct sonde_pb_field m;
        while (!rc && (more = sonde_pb_next(&r, &m)) > 0) {
            if (m.number != pass) continue;
            if (m.wire != SONDE_PB_BYTES) rc = SONDE_EFORMAT;
            else rc = pass == 1 ? take_resource(t, &m, metrics) : take_scoped(t, &m, metrics);
        }
        if (!rc && more < 0) rc = SONDE_EFORMAT;
    }
    return rc;
}

static int otlp_take_request(struct otlp_capture *t, const void *data, size_t len, int metrics)
{
    struct sonde_pb_reader r = sonde_pb_reader(data, len);
    struct sonde_pb_field f;
    int more, rc = 0;
    while (!rc && (more = sonde_pb_next(&r, &f)) > 0) {
        if (f.number == 1) rc = take_resourced(t, &f, metrics);
    }
    return rc ? rc : more < 0 ? SONDE_EFORMAT : 0;
}

void otlp_reject(struct otlp_capture *t, uint64_t n, const char *format, ...)
{
    struct sonde_otlp_result *r = t->result;
    if (!r->rejected) {
        va_list args;
        va_start(args, format);
        vsnprintf(r->message, sizeof(r->message), format, args);
        va_end(args);
        while (!sonde__utf8_valid(r->message, strlen(r->message))) {
            r->message[strlen(r->message) - 1] = '\0';
        }
    }
    r->rejected += n;
}

void otlp_breathe(struct otlp_capture *t)
{
    if (t->apply) sonde_assert_held_write(&t->o->model->lock);
    if (!t->apply || ++t->points % AT_ONCE != 0) return;
    sonde_rwunlock(&t->o->model->lock);
    sonde_wrlock(&t->o->model->lock);
}

static void otlp_count(struct sonde_otlp *o, enum sonde_otlp_signal signal,
                       const struct sonde_otlp_result *r)
{
    static const struct sonde_model_family_spec spec = {
        .name = "sonde_otlp_received_total", .source = "otlp", .type = SONDE_COUNTER,
        .help = "Data points and spans that were sent to the agent.", .kind = SONDE_KIND_COUNTER,
    };
    for (int bad = 0; bad < 2; bad++) {
        const struct sonde_label l[] = { { "signal",
                                           signal == SONDE_OTLP_METRICS ? "metrics" : "traces" },
                                         { "outcome", bad ? "rejected" : "accepted" } };
        o->total[signal][bad] += bad ? r->rejected : r->accepted;
        struct sonde_model_series **s = &o->counted[signal][bad];
        if (!*s) *s = sonde_model_own_series(o->model, &spec, NULL, l, 2);
        if (*s) (*s)->counter = o->total[signal][bad];
    }
}

int sonde_otlp_take(struct sonde_otlp *o, enum sonde_otlp_signal signal, const void *data,
                    size_t len, struct sonde_otlp_result *result, struct sonde_err *err)
{
    assert(o && (data || !len) && result);
    const int metrics = signal == SONDE_OTLP_METRICS;
    struct otlp_capture *t = sonde__calloc(1, sizeof(*t));
    if (!t) return sonde_err_set(err, SONDE_ENOMEM, "no memory for what was sent");
    t->now_s = sonde_clock_s(CLOCK_REALTIME);
    t->o = o;
    t->result = result;
    sonde_buf_init(&t->labels.text, TEXT_MAX);
    sonde_buf_init(&t->help, TEXT_MAX);
    *result = (struct sonde_otlp_result){ 0 };
    int rc = otlp_take_request(t, data, len, metrics);
    if (!rc) {
        *result = (struct sonde_otlp_result){ 0 };
        t->apply = 1;
        sonde_wrlock(&o->model->lock);
        rc = otlp_take_request(t, data, len, metrics);
        otlp_count(o, signal, result);
        sonde_rwunlock(&o->model->lock);
    }
    sonde_buf_release(&t->labels.text);
    sonde_buf_release(&t->help);
    sonde__free(t);
    if (rc == SONDE_EFORMAT) {
        return sonde_err_set(err, rc, "this is not a request of OTLP for %s, or it is damaged",
                             metrics ? "metrics" : "traces");
    }
    return rc ? sonde_err_set(err, rc, "no memory for what was sent") : 0;
}
