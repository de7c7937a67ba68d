/* store.c - what the store costs, beside plain rows in SQLite.
 *
 *     bench_store RECORDED DIR
 *
 * RECORDED is a store that a sonde recorded; its series, cut into windows and named apart, are the
 * data: gauges, counters and latencies as they are. DIR gets the files. One line of JSON each:
 * bytes a point of a million points of a thousand series; asking for a day of one series; a day's
 * load under a limit of size.
 *
 * The load is appended as fast as the writer takes it, a flush every few ticks, so steps of packing
 * and deleting have less room between ticks than they have at one tick a second. */
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/store.h"

enum { SOURCES_MAX = 4096, DAY = 86400, ROUNDS = 9 };
#define START_MS 1763164800000ll

/* What was recorded of a series. */
struct source {
    enum sonde_type type;
    double scale;
    size_t count;
    double *value; /* gauge: value; counter: increase, raw */
};
static struct source sources[SOURCES_MAX];
static size_t source_count;

static void die(const char *what)
{
    fprintf(stderr, "bench_store: %s\n", what);
    exit(1);
}

static double clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void keep(const struct sonde_store_series *s, const struct sonde_store_point *all,
                 const struct sonde_store_point *points, size_t count, void *arg)
{
    (void)all;
    (void)arg;
    if (s->type == SONDE_HISTOGRAM || count < 100 || source_count == SOURCES_MAX) return;
    struct source *to = &sources[source_count++];
    *to = (struct source){ s->type, s->scale, count, calloc(count, sizeof(double)) };
    if (!to->value) die("out of memory");
    for (size_t i = 0; i < count; i++) {
        to->value[i] = s->type == SONDE_GAUGE ? points[i].last : nearbyint(points[i].sum / s->scale);
    }
}

static void load_recorded(const char *path)
{
    struct sonde_store *s;
    struct sonde_err err = { "" };
    const struct sonde_store_options o = { .path = path, .read_only = 1 };
    const struct sonde_store_query q = { .from_s = 1, .series_max = SOURCES_MAX,
                                         .points_max = 100000000 };
    const struct sonde_store_sink sink = { .series = keep };
    if (sonde_store_sqlite.open(&o, &s, &err) || sonde_store_sqlite.query(s, &q, &sink, &err)) {
        die(err.text);
    }
    sonde_store_sqlite.close(s);
    if (!source_count) die("nothing was recorded");
}

/* ---- The load -------------------------------------------------------------------------------- */

struct load {
    struct sonde_store *s;
    uint32_t series;
    struct sonde_store_value *values;
    uint64_t *totals;
    int64_t time_ms;
    uint64_t points;
};

static uint64_t bits_of(double d)
{
    uint64_t v;
    memcpy(&v, &d, sizeof(v));
    return v;
}

/* Series i at a tick: a recorded one, entered at a place of its own and gone through in turns. */
static double value_at(uint32_t i, uint32_t tick)
{
    const struct source *s = &sources[i % source_count];
    return s->value[(tick + i / source_count * 137) % s->count];
}

static void load_begin(struct load *l, const char *path, uint32_t series, uint64_t bytes_max)
{
    struct sonde_err err = { "" };
    const struct sonde_store_options o = { .path = path, .keep = { .bytes = bytes_max } };
    *l = (struct load){ .series = series, .time_ms = START_MS,
                        .values = calloc(series, sizeof(*l->values)),
                        .totals = calloc(series, sizeof(*l->totals)) };
    if (!l->values || !l->totals) die("out of memory");
    if (sonde_store_sqlite.open(&o, &l->s, &err)) die(err.text);
    for (uint32_t i = 0; i < series; i++) {
        const struct source *from = &sources[i % source_count];
        char name[64];
        snprintf(name, sizeof(name), "bench_%u", i);
        const struct sonde_store_series spec = { .name = name, .type = from->type,
                                                 .scale = from->scale };
        if (sonde_store_sqlite.define(l->s, &spec, &l->values[i].slot)) die("define");
        l->totals[i] = 1000003u * i;
    }
}

/* A tick a second, a little late or early, as the agent's are. */
static void load_tick(struct load *l, uint32_t tick)
{
    for (uint32_t i = 0; i < l->series; i++) {
        const double v = value_at(i, tick);
        const int counter = sources[i % source_count].type == SONDE_COUNTER;
        l->values[i].value = counter ? (l->totals[i] += (uint64_t)v) : bits_of(v);
    }
    l->time_ms = START_MS + (int64_t)tick * 1000 + rand() % 3;
    const struct sonde_store_tick t = { .time_ms = l->time_ms, .count = l->series,
                                        .values = l->values };
    if (sonde_store_sqlite.append(l->s, &t)) die("append");
    l->points += l->series;
    struct sonde_err err = { "" };
    if (tick % 4 == 3 && sonde_store_sqlite.flush(l->s, &err)) die(err.text);
}

static void load_end(struct load *l)
{
    sonde_store_sqlite.close(l->s);
    free(l->values);
    free(l->totals);
}

static double file_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (double)st.st_size : 0;
}

/* ---- Plain rows -------------------------------------------------------------------------------- */

static void plain_rows(const char *path, uint32_t series, uint32_t ticks)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    if (sqlite3_open(path, &db) ||
        sqlite3_exec(db, "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
                     "CREATE TABLE points(series INTEGER, time_ms INTEGER, value REAL,"
                     " PRIMARY KEY(series, time_ms)) WITHOUT ROWID; BEGIN", NULL, NULL, NULL) ||
        sqlite3_prepare_v2(db, "INSERT INTO points VALUES(?1, ?2, ?3)", -1, &st, NULL)) {
        die("plain rows");
    }
    for (uint32_t i = 0; i < series; i++) { /* in order: its best case */
        double total = 1000003.0 * i;
        for (uint32_t k = 0; k < ticks; k++) {
            const double v = value_at(i, k);
            const int counter = sources[i % source_count].type == SONDE_COUNTER;
            sqlite3_bind_int64(st, 1, i);
            sqlite3_bind_int64(st, 2, START_MS + (int64_t)k * 1000);
            sqlite3_bind_double(st, 3, counter ? total += v : v);
            sqlite3_step(st);
            sqlite3_reset(st);
        }
    }
    sqlite3_finalize(st);
    if (sqlite3_exec(db, "COMMIT", NULL, NULL, NULL)) die("plain rows");
    sqlite3_close(db);
}

static double plain_ask(const char *path, uint32_t series, size_t *count)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    double sum = 0;
    const double began = clock_s();
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) ||
        sqlite3_prepare_v2(db, "SELECT time_ms, value FROM points WHERE series = ?1 AND time_ms >="
                           " ?2 AND time_ms < ?3", -1, &st, NULL)) {
        die("plain rows");
    }
    sqlite3_bind_int64(st, 1, series);
    sqlite3_bind_int64(st, 2, START_MS);
    sqlite3_bind_int64(st, 3, START_MS + (int64_t)DAY * 1000);
    for (*count = 0; sqlite3_step(st) == SQLITE_ROW; ++*count) sum += sqlite3_column_double(st, 1);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return sum < INFINITY ? clock_s() - began : 0;
}

/* ---- Figures ------------------------------------------------------------------------------------- */

static void count_points(const struct sonde_store_series *s, const struct sonde_store_point *all,
                         const struct sonde_store_point *points, size_t count, void *arg)
{
    (void)s;
    (void)all;
    (void)points;
    *(size_t *)arg += count;
}

static double store_ask(struct sonde_store *s, uint32_t series, double step_s, size_t *count)
{
    char name[64];
    snprintf(name, sizeof(name), "bench_%u", series);
    const struct sonde_filter filter = { .name = name };
    const struct sonde_store_query q = { .filters = &filter, .filter_count = 1,
                                         .from_s = START_MS * 1e-3,
                                         .to_s = START_MS * 1e-3 + DAY, .step_s = step_s };
    const struct sonde_store_sink sink = { .series = count_points, .arg = count };
    struct sonde_err err = { "" };
    *count = 0;
    const double began = clock_s();
    if (sonde_store_sqlite.query(s, &q, &sink, &err)) die(err.text);
    return clock_s() - began;
}

/* Bytes of chunks of a tier, for each point that was appended. */
static double tier_bytes(const char *path, const char *where)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    char sql[256];
    snprintf(sql, sizeof(sql), "SELECT sum(length(c.data)) FROM chunks AS c JOIN blocks AS b ON"
             " b.id = c.id >> 24 WHERE b.tier %s", where);
    if (sqlite3_open(path, &db) || sqlite3_prepare_v2(db, sql, -1, &st, NULL)) die("tier");
    const double bytes = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_double(st, 0) : 0;
    sqlite3_finalize(st);
    sqlite3_close(db);
    return bytes;
}

static void bench_size(const char *store, const char *plain)
{
    struct load l;
    struct sonde_err err = { "" };
    enum { SERIES = 1000, TICKS = 1000 };
    load_begin(&l, store, SERIES, 0);
    for (uint32_t i = 0; i < TICKS; i++) load_tick(&l, i);
    load_end(&l);
    /* As it is when the day is over: what rows took is free again. */
    const struct sonde_store_options o = { .path = store, .maintain = 1 };
    struct sonde_store *s;
    if (sonde_store_sqlite.open(&o, &s, &err)) die(err.text);
    const struct sonde_store_retention all = { 0 };
    if (sonde_store_sqlite.gc(s, &all, NULL, &err)) die(err.text);
    sonde_store_sqlite.close(s);
    plain_rows(plain, SERIES, TICKS);
    const double points = (double)SERIES * TICKS;
    printf("{\"figure\":\"size\",\"series\":%d,\"recorded_series\":%zu,\"points\":%.0f,"
           "\"bytes_a_point\":%.3f,\"chunks_a_point\":%.3f,\"plain_a_point\":%.3f}\n", SERIES,
           source_count, points, file_bytes(store) / points, tier_bytes(store, "= 0") / points,
           file_bytes(plain) / points);
}

/* Other load only adds. */
static double least(const double *v)
{
    double low = v[0];
    for (int i = 1; i < ROUNDS; i++) low = v[i] < low ? v[i] : low;
    return low;
}

static void bench_ask(const char *store, const char *plain)
{
    struct load l;
    struct sonde_err err = { "" };
    enum { SERIES = 40 };
    load_begin(&l, store, SERIES, 0);
    for (uint32_t i = 0; i < DAY; i++) load_tick(&l, i);
    load_end(&l);
    plain_rows(plain, SERIES, DAY);
    const struct sonde_store_options o = { .path = store, .read_only = 1 };
    if (sonde_store_sqlite.open(&o, &l.s, &err)) die(err.text);
    double raw[ROUNDS], minute[ROUNDS], rows[ROUNDS];
    size_t raw_count = 0, minute_count = 0, rows_count = 0;
    for (uint32_t i = 0; i < ROUNDS; i++) { /* one after the other, so that all see the same noise */
        raw[i] = store_ask(l.s, i * 4, 0, &raw_count);
        minute[i] = store_ask(l.s, i * 4, 60, &minute_count);
        rows[i] = plain_ask(plain, i * 4, &rows_count);
    }
    sonde_store_sqlite.close(l.s);
    const double points = (double)SERIES * DAY;
    printf("{\"figure\":\"day\",\"every_s\":%.6f,\"every_points\":%zu,\"minutes_s\":%.6f,"
           "\"minutes_points\":%zu,\"plain_s\":%.6f,\"plain_points\":%zu,\"bytes_a_point\":%.3f,"
           "\"rolled_a_point\":%.3f}\n", least(raw), raw_count, least(minute), minute_count,
           least(rows), rows_count, file_bytes(store) / points, tier_bytes(store, "> 0") / points);
}

static void bench_retention(const char *store)
{
    enum { SERIES = 200, LIMIT = 8 << 20 };
    struct load l;
    struct sonde_store_stats stats;
    double largest = 0;
    load_begin(&l, store, SERIES, LIMIT);
    const double began = clock_s();
    for (uint32_t i = 0; i < DAY; i++) {
        load_tick(&l, i);
        if (i % 100 == 0 && file_bytes(store) > largest) largest = file_bytes(store);
    }
    const double took = clock_s() - began;
    sonde_store_sqlite.stats(l.s, &stats);
    load_end(&l);
    printf("{\"figure\":\"retention\",\"series\":%d,\"limit\":%d,\"largest\":%.0f,\"written\":%.0f,"
           "\"append_s_max\":%.6f,\"commit_s_max\":%.6f,\"step_s_max\":%.6f,"
           "\"checkpoint_s_max\":%.6f,\"step_cpu_s_max\":%.6f,\"dropped\":%llu,"
           "\"points_a_second\":%.0f}\n", SERIES, LIMIT, largest, (double)l.points,
           stats.append_s_max, stats.commit_s_max, stats.step_s_max, stats.checkpoint_s_max,
           stats.step_cpu_s_max,
           (unsigned long long)stats.dropped_ticks, (double)l.points / took);
}

int main(int argc, char **argv)
{
    if (argc != 3) die("usage: bench_store RECORDED DIR");
    char store[4096], plain[4096];
    load_recorded(argv[1]);
    void (*const figures[])(const char *, const char *) = { bench_size, bench_ask };
    for (int i = 0; i < 2; i++) {
        snprintf(store, sizeof(store), "%s/store%d", argv[2], i);
        snprintf(plain, sizeof(plain), "%s/plain%d", argv[2], i);
        figures[i](store, plain);
        fflush(stdout);
        unlink(store);
        unlink(plain);
    }
    snprintf(store, sizeof(store), "%s/store2", argv[2]);
    bench_retention(store);
    unlink(store);
    return 0;
}
