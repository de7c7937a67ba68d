/* store_build.h - what tests of the store share: a store in a folder of its own, and a load. After
 * cmocka.h. */
#ifndef SONDE_TEST_STORE_SQLITE_STORE_BUILD_H
#define SONDE_TEST_STORE_SQLITE_STORE_BUILD_H

#include <dirent.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sonde/sonde.h"
#include "store/chunk_hist.h"
#include "store/store.h"

#define OPS (&sonde_store_sqlite)
#define START_S 1763200200.0 /* not a full hour, but ten minutes */
#define TEST(f) cmocka_unit_test_setup_teardown(f, build_make_dir, build_remove_dir)

static char build_dir[64], build_path[128];

static int build_make_dir(void **state)
{
    (void)state;
    snprintf(build_dir, sizeof(build_dir), "/tmp/sonde-test-store-XXXXXX");
    if (!mkdtemp(build_dir)) return -1;
    snprintf(build_path, sizeof(build_path), "%s/a.store", build_dir);
    return 0;
}

static int build_remove_dir(void **state)
{
    (void)state;
    DIR *d = opendir(build_dir);
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d));) {
        char path[512];
        snprintf(path, sizeof(path), "%s/%s", build_dir, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    closedir(d);
    return rmdir(build_dir);
}

static inline uint64_t build_bits(double d)
{
    uint64_t v;
    memcpy(&v, &d, sizeof(v));
    return v;
}

/* A load: gauges g<i> that are 1000 i + tick, counters c<i> that rise by i + 1 a tick, histograms
 * h<i> with tick % 10 + 1 records of 2^i. */
struct load {
    struct sonde_store *s;
    uint32_t gauges, counters, histograms;
    uint32_t slot[64];
    int64_t start_ms;
    uint32_t ticks;          /* appended */
};

static inline int load_define(struct load *l)
{
    const uint32_t n = l->gauges + l->counters + l->histograms;
    for (uint32_t i = 0; i < n; i++) {
        char name[32], labels[64];
        const int gauge = i < l->gauges, counter = !gauge && i < l->gauges + l->counters;
        const uint32_t k = gauge ? i : counter ? i - l->gauges : i - l->gauges - l->counters;
        snprintf(name, sizeof(name), "%c%u", gauge ? 'g' : counter ? 'c' : 'h', k);
        snprintf(labels, sizeof(labels), "index=\"%u\",text=\"a\\\"b\"", k);
        const struct sonde_store_series spec = {
            .name = name, .labels = labels, .help = "h", .unit = "", .source = "test",
            .program = "", .type = gauge ? SONDE_GAUGE : counter ? SONDE_COUNTER : SONDE_HISTOGRAM,
            .scale = 1, .from_zero = 1,
        };
        const int rc = OPS->define(l->s, &spec, &l->slot[i]);
        if (rc) return rc;
    }
    return 0;
}

static inline int load_tick(struct load *l)
{
    struct sonde_store_value values[64];
    struct sonde_buf data;
    sonde_buf_init(&data, 1 << 20);
    struct sonde_store_tick t = { .time_ms = l->start_ms + (int64_t)l->ticks * 1000,
                                  .values = values };
    const uint32_t n = l->gauges + l->counters + l->histograms;
    for (uint32_t i = 0; i < n; i++) {
        struct sonde_store_value *v = &values[t.count++];
        *v = (struct sonde_store_value){ .slot = l->slot[i] };
        if (i < l->gauges) {
            v->value = build_bits(1000.0 * i + l->ticks);
        } else if (i < l->gauges + l->counters) {
            v->value = (uint64_t)(i - l->gauges + 1) * (l->ticks + 1);
        } else {
            const uint32_t k = i - l->gauges - l->counters;
            struct sonde_hist_bucket b = { (uint16_t)(((int)k - SONDE__HIST_EXP_MIN) * 64 + 1),
                                           l->ticks % 10 + 1 };
            const struct sonde_hist_delta d = { .count = b.n, .sum_raw = (uint64_t)b.n << k,
                                                .bucket_count = 1, .bucket = &b };
            v->value = data.len;
            sonde_chunk_put_entry(&data, &d);
            v->bytes = (uint32_t)(data.len - v->value);
        }
    }
    t.data = data.data;
    const int rc = OPS->append(l->s, &t);
    l->ticks++;
    sonde_buf_release(&data);
    return rc;
}

/* What a query said, of one series. */
struct answer {
    size_t series, count, gaps;
    struct sonde_store_point all, point[100000];
    char name[64], labels[128], gap[128];
    enum sonde_type type;
};
static struct answer build_answer;

static inline void answer_series(const struct sonde_store_series *s,
                                 const struct sonde_store_point *all,
                                 const struct sonde_store_point *points, size_t count, void *arg)
{
    struct answer *a = arg;
    a->series++;
    a->count = count;
    a->all = *all;
    a->type = s->type;
    snprintf(a->name, sizeof(a->name), "%s", s->name);
    snprintf(a->labels, sizeof(a->labels), "%s", s->labels);
    memcpy(a->point, points, (count < 100000 ? count : 100000) * sizeof(*points));
}

static inline void answer_gap(double from_s, double to_s, const char *reason, void *arg)
{
    struct answer *a = arg;
    (void)from_s;
    (void)to_s;
    a->gaps++;
    snprintf(a->gap, sizeof(a->gap), "%s", reason);
}

static inline int ask(struct sonde_store *s, const char *name, double from_s, double to_s,
                      double step_s, struct sonde_err *err)
{
    const struct sonde_filter filter = { .name = name };
    const struct sonde_store_query q = { .filters = &filter, .filter_count = 1, .from_s = from_s,
                                         .to_s = to_s, .step_s = step_s };
    const struct sonde_store_sink sink = { .series = answer_series, .gap = answer_gap,
                                           .arg = &build_answer };
    build_answer.series = build_answer.count = build_answer.gaps = 0;
    return OPS->query(s, &q, &sink, err);
}

/* ---- What must work -------------------------------------------------------------------------- */

static inline struct sonde_store *open_at(const char *path, struct sonde_store_options o)
{
    struct sonde_store *s = NULL;
    struct sonde_err err = { "" };
    o.path = path;
    if (OPS->open(&o, &s, &err) != 0) fail_msg("%s", err.text);
    return s;
}

static inline void flush(struct sonde_store *s)
{
    struct sonde_err err = { "" };
    if (OPS->flush(s, &err) != 0) fail_msg("%s", err.text);
}

static inline void must_ask(struct sonde_store *s, const char *name, double from_s, double to_s,
                            double step_s)
{
    struct sonde_err err = { "" };
    if (ask(s, name, from_s, to_s, step_s, &err) != 0) fail_msg("%s", err.text);
}

static inline struct load new_load(struct sonde_store *s, uint32_t gauges, uint32_t counters,
                                   uint32_t histograms)
{
    struct load l = { .s = s, .gauges = gauges, .counters = counters, .histograms = histograms,
                      .start_ms = (int64_t)START_S * 1000 };
    assert_int_equal(load_define(&l), 0);
    return l;
}

static inline void add_ticks(struct load *l, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) assert_int_equal(load_tick(l), 0);
}

/* What another program would find in the file. */
static inline int64_t number_in(const char *path, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    const int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n;
}

static inline int64_t number(const char *sql) { return number_in(build_path, sql); }

#endif
