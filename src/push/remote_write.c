/* remote_write.c - Prometheus remote write 1.0: the series of /metrics, under the same names and
 * with the same numbers, as snappy-compressed prompb.WriteRequest.
 *
 * Labels are sorted, as receivers want them; those of the destination (job, instance, push.labels)
 * are added where a series has none of that name. A series that is gone gets Prometheus' stale
 * marker once, so that graphs end where it ended and not five minutes later. Times only go on: a
 * look at the model at a time that was sent before is left out. */
#include <assert.h>
#include <math.h>
#include <snappy-c.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/pb.h"
#include "base/put.h"
#include "model/classic.h"
#include "model/export_name.h"
#include "push/put_pb.h"
#include "push/remote_write.h"
#include "sonde/sonde.h"

/* Field numbers: prompb's remote.proto and types.proto. */
enum { REQUEST_SERIES = 1, REQUEST_METADATA = 3 };
enum { SERIES_LABEL = 1, SERIES_SAMPLE = 2, SERIES_EXEMPLAR = 3, SERIES_HISTOGRAM = 4 };
enum { LABEL_NAME = 1, LABEL_VALUE = 2, SAMPLE_VALUE = 1, SAMPLE_TIME = 2 };
enum { EXEMPLAR_LABEL = 1, EXEMPLAR_VALUE = 2, EXEMPLAR_TIME = 3 };
enum { META_TYPE = 1, META_NAME = 2, META_HELP = 4, META_UNIT = 5 };
enum { META_COUNTER = 1, META_GAUGE = 2, META_HISTOGRAM = 3 };
enum { HIST_COUNT = 1, HIST_SUM = 3, HIST_SCHEMA = 4, HIST_ZERO_THRESHOLD = 5, HIST_ZERO = 6,
       HIST_SPAN = 11, HIST_DELTA = 12, HIST_TIME = 15 };
enum { SPAN_OFFSET = 1, SPAN_LENGTH = 2, SCHEMA = 6 };

enum { PAIRS_MAX = 128, RAW_MAX = 1 << 20, METADATA_EVERY_S = 60 };
static const uint64_t stale_bits = 0x7ff0000000000002ull; /* the NaN that means "ended" */

struct remote_write_state {
    struct rw_table table;
    int64_t last_ms;          /* time of the samples sent last */
    double last_s;            /* the same; exemplars that are newer have not been sent */
    double metadata_s;        /* when help and types were sent last */
};

struct remote_writer {
    struct push_dest *d;
    struct remote_write_state *state;
    struct sonde_export_twins twins;
    struct sonde_export_name name;
    struct sonde_classic classic;
    struct push_label pairs[PAIRS_MAX]; /* of the series at hand, by name */
    size_t pair_count;
    struct sonde_buf raw;     /* the request so far */
    struct sonde_buf series, labels, leaf, nested;
    char le[40], sample[512 + 16]; /* values of le and __name__, which pairs point to */
    int64_t time_ms;
    uint32_t items;
    int metadata;
};

/* ---- What is tracked ------------------------------------------------------------------------- */

/* Only a new one needs room: without memory for that, those that are known stay so. */
void rw_table_mark(struct rw_table *t, const char *labels, size_t len)
{
    const uint32_t hash = sonde_hash_bytes(labels, len);
    uint32_t at = hash, row;
    while ((row = sonde_map_next(&t->map, hash, &at))) {
        struct rw_tracked *r = &t->rows[row - 1];
        if (r->len == len && !memcmp(r->labels, labels, len)) {
            r->round = t->round;
            return;
        }
    }
    if (t->count >= RW_TRACKED_MAX || sonde_map_reserve(&t->map) ||
        SONDE_ARRAY_ROOM(t->rows, t->count, t->cap)) {
        return;
    }
    char *copy = sonde__alloc(len + 1);
    if (!copy) return;
    memcpy(copy, labels, len);
    t->rows[t->count++] = (struct rw_tracked){ copy, (uint32_t)len, hash, t->round };
    sonde_map_put(&t->map, hash, t->count);
}

/* The last one fills the gap. */
static void rw_table_remove(struct rw_table *t, uint32_t i)
{
    assert(i < t->count);
    const uint32_t last = t->count--;
    sonde_map_remove(&t->map, t->rows[i].hash, i + 1);
    sonde__free(t->rows[i].labels);
    if (i + 1 == last) return;
    t->rows[i] = t->rows[last - 1];
    sonde_map_renumber(&t->map, t->rows[i].hash, last, i + 1);
}

/* Backwards: what fills a gap has been looked at. */
void rw_table_sweep(struct rw_table *t, void (*gone)(const char *labels, size_t len, void *arg),
                    void *arg)
{
    for (uint32_t i = t->count; i-- > 0;) {
        if (t->rows[i].round == t->round) continue;
        gone(t->rows[i].labels, t->rows[i].len, arg);
        rw_table_remove(t, i);
    }
    assert(t->map.used == t->count);
    t->round++;
}

void rw_table_release(struct rw_table *t)
{
    for (uint32_t i = 0; i < t->count; i++) sonde__free(t->rows[i].labels);
    sonde__free(t->rows);
    sonde_map_release(&t->map);
    *t = (struct rw_table){ 0 };
}

/* ---- Native histograms ----------------------------------------------------------------------- */

/* All buckets, as Prometheus' native ones of schema 6, which are the recorder's own: nothing is
 * lost. */
/* The next bucket from p on that is not empty, or SONDE__HIST_BUCKETS. */
static uint32_t next_used(const struct sonde_hist_value *h, uint32_t p)
{
    for (; p < SONDE__HIST_BUCKETS; p++) {
        if (!h->octave[p / 64]) p |= 63;
        else if (h->octave[p / 64][p % 64]) return p;
    }
    return SONDE__HIST_BUCKETS;
}

/* A span is a run of buckets in use; counts are differences to the one before. */
static void rw_put_buckets(struct sonde_buf *out, struct sonde_buf *leaf,
                           const struct sonde_hist_value *h)
{
    int64_t delta[SONDE__HIST_BUCKETS], before = 0;
    size_t deltas = 0;
    uint32_t end = 0; /* of the span before */
    for (uint32_t p = next_used(h, 1); p < SONDE__HIST_BUCKETS;) {
        const uint32_t first = p;
        for (; p < SONDE__HIST_BUCKETS && h->octave[p / 64] && h->octave[p / 64][p % 64]; p++) {
            const int64_t n = (int64_t)h->octave[p / 64][p % 64];
            delta[deltas++] = n - before;
            before = n;
        }
        sonde_buf_reset(leaf);
        sonde_pb_sint(leaf, SPAN_OFFSET,
                      end ? (int64_t)(first - end) : (int64_t)first + 64 * SONDE__HIST_EXP_MIN);
        sonde_pb_uint(leaf, SPAN_LENGTH, p - first);
        sonde_pb_message(out, HIST_SPAN, leaf);
        end = p;
        p = next_used(h, p);
    }
    sonde_pb_packed_sint(out, HIST_DELTA, delta, deltas);
}

void rw_native(struct sonde_buf *out, struct sonde_buf *leaf, const struct sonde_model_series *s,
               int64_t time_ms)
{
    const struct sonde_hist_value *h = s->hist;
    sonde_pb_uint(out, HIST_COUNT, h ? h->count : 0);
    sonde_pb_double(out, HIST_SUM, sonde_model_series_sum(s));
    sonde_pb_sint(out, HIST_SCHEMA, SCHEMA);
    sonde_pb_double(out, HIST_ZERO_THRESHOLD, ldexp(1, SONDE__HIST_EXP_MIN));
    sonde_pb_uint(out, HIST_ZERO, h ? h->zero + (h->octave[0] ? h->octave[0][0] : 0) : 0);
    if (h) rw_put_buckets(out, leaf, h);
    sonde_pb_uint(out, HIST_TIME, (uint64_t)time_ms);
}

/* ---- State ----------------------------------------------------------------------------------- */

static int remote_write_open(struct push_dest *d)
{
    d->state = sonde__calloc(1, sizeof(struct remote_write_state));
    return d->state ? 0 : SONDE_ENOMEM;
}

static void remote_write_close(struct push_dest *d)
{
    struct remote_write_state *s = d->state;
    if (!s) return;
    rw_table_release(&s->table);
    sonde__free(s);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void remote_write_flush(struct remote_writer *w, size_t over)
{
    if (w->raw.len <= over) return;
    push_emit(w->d, SONDE_PUSH_METRICS, "", w->items, &w->raw);
    w->items = 0;
}

/* w->series is complete. */
static void end_series(struct remote_writer *w)
{
    sonde_pb_message(&w->raw, REQUEST_SERIES, &w->series);
    w->items++;
    if (!w->raw.error) remote_write_flush(w, RAW_MAX);
}

static void remote_write_put_sample(struct remote_writer *w, uint64_t bits)
{
    sonde_buf_reset(&w->leaf);
    sonde_pb_fixed64(&w->leaf, SAMPLE_VALUE, bits);
    sonde_pb_uint(&w->leaf, SAMPLE_TIME, (uint64_t)w->time_ms);
    sonde_pb_message(&w->series, SERIES_SAMPLE, &w->leaf);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

/* To its place by name. An empty value is the same as none, and the first of a name counts. */
static void remote_write_add_pair(struct remote_writer *w, const char *name, const char *value)
{
    size_t at = w->pair_count;
    int order = 1;
    if (!*value || w->pair_count == PAIRS_MAX) return;
    while (at && (order = strcmp(w->pairs[at - 1].name, name)) > 0) at--;
    if (at && !order) return;
    memmove(&w->pairs[at + 1], &w->pairs[at], (w->pair_count++ - at) * sizeof(w->pairs[0]));
    w->pairs[at] = (struct push_label){ name, value };
    assert(w->pair_count <= PAIRS_MAX);
}

/* The labels of s, with places for __name__ and, of a histogram, le. */
static void remote_write_begin(struct remote_writer *w, const struct sonde_model_series *s)
{
    const struct push_origin *o = push_origin(w->d);
    const int histogram = s->family->type == SONDE_HISTOGRAM;
    w->pair_count = 0;
    w->sample[0] = w->le[0] = '?'; /* filled in later */
    remote_write_add_pair(w, "__name__", w->sample);
    if (histogram) remote_write_add_pair(w, "le", w->le);
    for (size_t i = 0; i < s->label_count; i++) {
        const char *name = s->labels[i].name;
        remote_write_add_pair(w, histogram && !strcmp(name, "le") ? "exported_le" : name,
                              s->labels[i].value);
    }
    for (size_t i = 0; i < o->label_count; i++) {
        remote_write_add_pair(w, o->labels[i].name, o->labels[i].value);
    }
    remote_write_add_pair(w, "job", "sonde");
    remote_write_add_pair(w, "instance", o->host);
}

static void remote_write_put_label(struct sonde_buf *to, uint32_t field, const char *name,
                                   const char *value, size_t value_len)
{
    const size_t name_len = strlen(name);
    const size_t pair = push_bytes_size(name_len) + push_bytes_size(value_len);
    char *at = sonde_buf_reserve(to, push_bytes_size(pair));
    if (!at) return;
    at = push_put_head(at, field, pair);
    at = push_put_bytes(at, LABEL_NAME, name, name_len);
    push_put_bytes(at, LABEL_VALUE, value, value_len);
    to->len += push_bytes_size(pair);
}

/* w->series begins, as name + suffix with the labels at hand; le "" = without that label. */
static void begin_series(struct remote_writer *w, const char *suffix, const char *le)
{
    char *at = sonde_put(w->sample, w->name.text, w->name.len);
    memcpy(at, suffix, strlen(suffix) + 1);
    sonde_buf_reset(&w->labels);
    for (size_t i = 0; i < w->pair_count; i++) {
        const char *value = w->pairs[i].value == w->le ? le : w->pairs[i].value;
        if (*value) {
            remote_write_put_label(&w->labels, SERIES_LABEL, w->pairs[i].name, value,
                                   strlen(value));
        }
    }
    if (w->labels.error) w->raw.error = w->labels.error;
    else rw_table_mark(&w->state->table, w->labels.data, w->labels.len);
    sonde_buf_reset(&w->series);
    sonde_buf_add(&w->series, w->labels.data, w->labels.len);
}

/* ---- Series ---------------------------------------------------------------------------------- */

static uint64_t remote_write_bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static void remote_write_put_number(struct remote_writer *w, const char *suffix, const char *le,
                                    double value)
{
    begin_series(w, suffix, le);
    remote_write_put_sample(w, remote_write_bits_of(value));
}

/* Those that came since the last time: a receiver has the others. */
static void remote_write_put_exemplar(struct remote_writer *w, const struct sonde_exemplar *e)
{
    char id[32];
    if (!e || !(e->time_s > w->state->last_s)) return;
    sonde_put_hex(sonde_put_hex(id, e->trace_hi), e->trace_lo);
    sonde_buf_reset(&w->nested);
    remote_write_put_label(&w->nested, EXEMPLAR_LABEL, "trace_id", id, sizeof(id));
    sonde_pb_double(&w->nested, EXEMPLAR_VALUE, e->value);
    sonde_pb_uint(&w->nested, EXEMPLAR_TIME, (uint64_t)(e->time_s * 1e3));
    sonde_pb_message(&w->series, SERIES_EXEMPLAR, &w->nested);
}

static void put_bound(struct remote_writer *w, double bound)
{
    struct sonde_buf text;
    sonde_buf_init(&text, sizeof(w->le) - 1);
    sonde_buf_double(&text, bound);
    memcpy(w->le, text.error ? "" : text.data, text.error ? 1 : text.len + 1);
    sonde_buf_release(&text);
}

static void remote_write_put_native(struct remote_writer *w, const struct sonde_model_series *s)
{
    begin_series(w, "", "");
    sonde_buf_reset(&w->nested);
    rw_native(&w->nested, &w->leaf, s, w->time_ms);
    sonde_pb_message(&w->series, SERIES_HISTOGRAM, &w->nested);
    end_series(w);
}

static void remote_write_put_histogram(struct remote_writer *w, const struct sonde_model_series *s)
{
    const struct sonde_hist_value *h = s->hist;
    uint64_t cumulative[SONDE_CLASSIC_MAX];
    const struct sonde_exemplar *exemplars[SONDE_CLASSIC_MAX + 1];
    const size_t n = w->classic.count;
    const double count = h ? (double)h->count : 0;
    sonde_classic_counts(&w->classic, s, cumulative);
    sonde_classic_exemplars(&w->classic, s, exemplars);
    for (size_t i = 0; i <= n; i++) {
        put_bound(w, i < n ? w->classic.bound[i] : INFINITY);
        remote_write_put_number(w, "_bucket", w->le, i < n ? (double)cumulative[i] : count);
        remote_write_put_exemplar(w, exemplars[i]);
        end_series(w);
    }
    remote_write_put_number(w, "_sum", "", sonde_model_series_sum(s));
    end_series(w);
    remote_write_put_number(w, "_count", "", count);
    end_series(w);
    if (push_wants_native(w->d)) remote_write_put_native(w, s);
}

static void remote_write_put_series(struct remote_writer *w, const struct sonde_model_series *s)
{
    remote_write_begin(w, s);
    if (s->family->type == SONDE_HISTOGRAM) {
        remote_write_put_histogram(w, s);
        return;
    }
    remote_write_put_number(w, "", "", s->family->type == SONDE_COUNTER
                                           ? sonde_model_series_total(s) : s->gauge);
    end_series(w);
}

static void remote_write_put_metadata(struct remote_writer *w, const struct sonde_model_family *f)
{
    sonde_buf_reset(&w->nested);
    sonde_buf_reset(&w->leaf);
    sonde_export_help(f, &w->leaf);
    sonde_pb_uint(&w->nested, META_TYPE, f->type == SONDE_COUNTER ? META_COUNTER
                                         : f->type == SONDE_GAUGE ? META_GAUGE : META_HISTOGRAM);
    sonde_pb_str(&w->nested, META_NAME, w->name.text, w->name.len);
    sonde_pb_str(&w->nested, META_HELP, w->leaf.data ? w->leaf.data : "", w->leaf.len);
    if (sonde_export_has_unit(f, &w->name)) {
        sonde_pb_str(&w->nested, META_UNIT, f->unit, strlen(f->unit));
    }
    sonde_pb_message(&w->raw, REQUEST_METADATA, &w->nested);
}

static void remote_write_put_family(struct remote_writer *w, const struct sonde_model *m,
                                    struct sonde_model_family *f)
{
    int head = 0;
    for (size_t i = 0; i < f->series_count && !w->raw.error; i++) {
        if (sonde_export_hidden(&w->twins, f->series[i])) continue;
        if (!head) {
            head = 1;
            sonde_export_name(m, f, &w->name);
            if (w->metadata) remote_write_put_metadata(w, f);
            if (f->type == SONDE_HISTOGRAM) sonde_classic_bounds(f, &w->classic);
        }
        remote_write_put_series(w, f->series[i]);
    }
}

static void put_gone(const char *labels, size_t len, void *arg)
{
    struct remote_writer *w = arg;
    sonde_buf_reset(&w->series);
    sonde_buf_add(&w->series, labels, len);
    remote_write_put_sample(w, stale_bits);
    end_series(w);
}

static int remote_write_metrics(struct push_dest *d, struct sonde_model *m)
{
    if (m->shared) sonde_assert_held(&m->lock);
    struct remote_write_state *state = d->state;
    assert(state);
    const int64_t time_ms = (int64_t)floor(m->now_s * 1e3);
    if (time_ms <= state->last_ms) return 0;
    struct remote_writer *w = sonde__calloc(1, sizeof(*w));
    if (!w) return SONDE_ENOMEM;
    w->d = d;
    w->state = state;
    w->time_ms = time_ms;
    w->metadata = !(m->now_s < state->metadata_s + METADATA_EVERY_S);
    struct sonde_buf *const bufs[] = { &w->raw, &w->series, &w->labels, &w->leaf, &w->nested };
    for (size_t i = 0; i < SONDE_COUNT(bufs); i++)
        sonde_buf_init(bufs[i], PUSH_BODY_MAX);
    w->raw.error = sonde_export_twins_init(m, &w->twins);
    for (size_t i = 0; i < m->family_count && !w->raw.error; i++) {
        remote_write_put_family(w, m, m->families[i]);
    }
    int rc = w->raw.error;
    if (!rc) {
        rw_table_sweep(&state->table, put_gone, w);
        rc = w->raw.error;
    }
    if (!rc) remote_write_flush(w, 0);
    state->last_ms = time_ms;
    state->last_s = m->now_s;
    if (w->metadata) state->metadata_s = m->now_s;
    for (size_t i = 0; i < SONDE_COUNT(bufs); i++) sonde_buf_release(bufs[i]);
    sonde_export_twins_release(&w->twins);
    sonde__free(w);
    return rc;
}

/* ---- The destination ------------------------------------------------------------------------- */

static int remote_write_pack(const struct sonde_buf *raw, struct sonde_buf *out)
{
    size_t len = snappy_max_compressed_length(raw->len);
    char *to = sonde_buf_reserve(out, len);
    if (!to) return out->error;
    if (snappy_compress(raw->data, raw->len, to, &len) != SNAPPY_OK) return SONDE_ENOMEM;
    out->len += len;
    return 0;
}

static const char *const headers[] = { "Content-Type: application/x-protobuf",
                                       "Content-Encoding: snappy",
                                       "X-Prometheus-Remote-Write-Version: 0.1.0", NULL };

extern const struct sonde_push_ops sonde_push_remote_write;
const struct sonde_push_ops sonde_push_remote_write = {
    .name = "remote_write",
    .path = "/api/v1/write",
    .headers = headers,
    .open = remote_write_open,
    .close = remote_write_close,
    .metrics = remote_write_metrics,
    .pack = remote_write_pack,
    .again = push_again_later,
};
