/* read.c - a run file as a profile. Run files are mailed around, so nothing in one is
 * believed: SQLite is told to run no code of the file (views, triggers, functions), values are
 * checked for type and range, ids must be 1, 2, 3 … and refer to what was read before. Rows go in
 * through the interning calls of profile.h, so equal rows become one; a map for each table carries
 * the file's ids over. */
#include <assert.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"
#include "store/run/private.h"
#include "store/run/reader.h"
#include "store/run/rows.h"

enum {
    VALUE_MAX = 64 << 20,    /* bytes of a text or chunk */
    DEPTH_MAX = 1 << 16,     /* frames of a stack: at least SONDE_PROFILE_DEPTH_MAX */
    INLINED_MAX = SONDE_PROFILE_LINES_MAX, /* lines of a location */
};

/* What a profile may hold can be read back. */
_Static_assert(SONDE_PROFILE_TEXT_MAX < VALUE_MAX, "texts are read back");
_Static_assert(SONDE_PROFILE_DEPTH_MAX <= DEPTH_MAX, "stacks are read back");

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Take down that this row is `id` in the profile; 0 says that there was no memory for it. */
static int map_row(struct run_reader *r, sqlite3_stmt *s, struct run_map *m, uint32_t id)
{
    uint64_t own = 0;
    const int rc = run_get_number(r, s, 0, UINT32_MAX - 1, &own);
    if (rc) return rc;
    if (!m->count) m->count = 1;
    if (own != m->count) {
        return run_bad(r, "its id is %llu where %u comes next", (unsigned long long)own, m->count);
    }
    if (!id) return run_no_memory(r);
    if (SONDE_ARRAY_ROOM(m->id, m->count, m->cap)) return run_no_memory(r);
    m->id[0] = 0;
    m->id[m->count++] = id;
    return 0;
}

static int read_string(struct run_reader *r, sqlite3_stmt *s)
{
    uint32_t id = 0;
    const int rc = run_get_text(r, s, 1, &id);
    if (rc) return rc;
    return id ? map_row(r, s, &r->strings, id) : run_bad(r, "text is empty");
}

static int read_module(struct run_reader *r, sqlite3_stmt *s)
{
    struct sonde_profile_module m = { 0 };
    if (run_get_ref(r, s, 1, &r->strings, &m.path) ||
        run_get_ref(r, s, 2, &r->strings, &m.build_id) || run_get_u64(r, s, 3, &m.start) ||
        run_get_u64(r, s, 4, &m.end) || run_get_u64(r, s, 5, &m.offset) ||
        run_get_u32(r, s, 6, &m.flags)) {
        return SONDE_EFORMAT;
    }
    return map_row(r, s, &r->modules, sonde_profile_module(r->p, &m));
}

static int run_read_function(struct run_reader *r, sqlite3_stmt *s)
{
    struct sonde_profile_function f = { 0 };
    if (run_get_ref(r, s, 1, &r->strings, &f.name) || run_get_ref(r, s, 2, &r->strings, &f.file) ||
        run_get_u32(r, s, 3, &f.start_line) || run_get_ref(r, s, 4, &r->modules, &f.module)) {
        return SONDE_EFORMAT;
    }
    return map_row(r, s, &r->functions, sonde_profile_function(r->p, &f));
}

/* A row for each line of a location, and one with NULLs for a location without. */
struct location {
    uint32_t module, count;
    uint64_t address;
};

static int run_read_line(struct run_reader *r, sqlite3_stmt *s, struct location *l)
{
    uint64_t place = 0;
    struct sonde_profile_line line = { 0 };
    if (run_get_number(r, s, 3, INLINED_MAX, &place) ||
        run_get_ref(r, s, 4, &r->functions, &line.function) || run_get_u32(r, s, 5, &line.line)) {
        return SONDE_EFORMAT;
    }
    if (place != l->count) return run_bad(r, "its line %u is missing", l->count);
    if (!line.function) return run_bad(r, "a line is of no function");
    if (SONDE_ARRAY_ROOM(r->lines, l->count, r->lines_cap)) return run_no_memory(r);
    r->lines[l->count++] = line;
    return 0;
}

/* Reads the rows of one location; s stands at the first of them, and then behind the last: *got
 * is what sqlite3_step said there. */
static int run_read_location(struct run_reader *r, sqlite3_stmt *s, int *got)
{
    struct location l = { 0 };
    const sqlite3_int64 own = sqlite3_column_int64(s, 0);
    if (run_get_ref(r, s, 1, &r->modules, &l.module) || run_get_u64(r, s, 2, &l.address)) {
        return SONDE_EFORMAT;
    }
    /* The map wants the id while s is at it; the location is known only after its lines. */
    int rc = map_row(r, s, &r->locations, UINT32_MAX);
    while (!rc && sqlite3_column_type(s, 3) != SQLITE_NULL) {
        rc = run_read_line(r, s, &l);
        if (rc) break;
        *got = sqlite3_step(s);
        if (*got != SQLITE_ROW || sqlite3_column_int64(s, 0) != own) goto done;
    }
    if (!rc) *got = sqlite3_step(s);
done:
    if (rc) return rc;
    const uint32_t id =
        sonde_profile_lines_location(r->p, l.module, l.address, r->lines, l.count);
    if (!id) return run_no_memory(r);
    r->locations.id[r->locations.count - 1] = id;
    return 0;
}

static int run_read_location_flags(struct run_reader *r, sqlite3_stmt *s)
{
    uint32_t location = 0;
    uint64_t flags = 0;
    if (run_get_ref(r, s, 0, &r->locations, &location) ||
        run_get_number(r, s, 1, UINT32_MAX, &flags)) {
        return SONDE_EFORMAT;
    }
    if (!location) return run_bad(r, "it is of no location");
    /* What a newer version knows besides is left out. */
    r->p->locations[location].flags |= (uint32_t)flags & SONDE_LOCATION_SPINS;
    return 0;
}

static int read_locations(struct run_reader *r)
{
    sqlite3_stmt *s;
    int rc = run_prepare(r, "locations",
                         "SELECT l.id, l.module, l.address, n.place, n.function, n.line"
                         " FROM locations AS l LEFT JOIN lines AS n ON n.location = l.id"
                         " ORDER BY l.id, n.place", &s);
    int got = rc ? SQLITE_DONE : sqlite3_step(s);
    while (!rc && got == SQLITE_ROW) {
        r->row++;
        rc = run_read_location(r, s, &got);
    }
    if (!rc && got != SQLITE_DONE) rc = run_database_failed(r);
    sqlite3_finalize(s);
    return rc;
}

/* Walking a stack takes time for each of its frames, for each of its samples: a file must not be
 * able to make that endless. */
static int run_read_note_depth(struct run_reader *r, uint32_t parent)
{
    const uint32_t own = r->stacks.count ? r->stacks.count : 1;
    if (SONDE_ARRAY_ROOM(r->depth, own, r->depth_cap)) return run_no_memory(r);
    r->depth[0] = 0;
    r->depth[own] = parent ? r->depth[parent] + 1 : 1;
    return r->depth[own] <= DEPTH_MAX ? 0 : run_bad(r, "a stack of more than %d frames", DEPTH_MAX);
}

static int run_read_stack(struct run_reader *r, sqlite3_stmt *s)
{
    uint32_t parent = 0, own_parent = 0, location = 0;
    if (run_get_ref(r, s, 1, &r->stacks, &parent) || run_get_u32(r, s, 1, &own_parent) ||
        run_get_ref(r, s, 2, &r->locations, &location)) {
        return SONDE_EFORMAT;
    }
    if (!location) return run_bad(r, "it has no location");
    const int rc = run_read_note_depth(r, own_parent);
    if (rc) return rc;
    return map_row(r, s, &r->stacks, sonde_profile_stack(r->p, parent, location));
}

static int run_read_thread(struct run_reader *r, sqlite3_stmt *s)
{
    uint32_t pid = 0, tid = 0, name = 0;
    if (run_get_u32(r, s, 1, &pid) || run_get_u32(r, s, 2, &tid) ||
        run_get_ref(r, s, 3, &r->strings, &name)) {
        return SONDE_EFORMAT;
    }
    const uint32_t id = sonde_profile_thread(r->p, pid, tid, sonde_profile_str(r->p, name));
    return map_row(r, s, &r->threads, id);
}

static int read_span(struct run_reader *r, sqlite3_stmt *s)
{
    struct sonde_profile_span n = { 0 };
    if (run_get_ref(r, s, 1, &r->threads, &n.thread) ||
        run_get_ref(r, s, 2, &r->strings, &n.name) || run_get_u64(r, s, 3, &n.start_ns) ||
        run_get_u64(r, s, 4, &n.end_ns) || run_get_u64(r, s, 5, &n.trace_hi) ||
        run_get_u64(r, s, 6, &n.trace_lo) || run_get_u64(r, s, 7, &n.id) ||
        run_get_u64(r, s, 8, &n.parent) || run_get_u32(r, s, 9, &n.outcome)) {
        return SONDE_EFORMAT;
    }
    return sonde_profile_add_span(r->p, &n) ? run_no_memory(r) : 0;
}

static int run_read_part(struct run_reader *r, sqlite3_stmt *s)
{
    struct sonde_profile_part n = { 0 };
    uint64_t span = 0;
    if (run_get_number(r, s, 0, r->p->spans_count, &span) || run_get_u64(r, s, 1, &n.request) ||
        run_get_u32(r, s, 2, &n.tokens_in) || run_get_u32(r, s, 3, &n.tokens_out)) {
        return SONDE_EFORMAT;
    }
    if (!span) return run_bad(r, "it is of no span");
    n.span = (uint32_t)span - 1;
    return sonde_profile_add_part(r->p, &n) ? run_no_memory(r) : 0;
}

/* Files of the first releases have none. */
static int read_parts(struct run_reader *r)
{
    if (!run_has_table(r, "parts")) return 0;
    return run_each(r, "parts", "SELECT span, request, tokens_in, tokens_out FROM parts"
                    " ORDER BY span, rowid", run_read_part);
}

static int run_read_attr(struct run_reader *r, sqlite3_stmt *s)
{
    struct sonde_profile_attr n = { 0 };
    uint64_t span = 0;
    if (run_get_number(r, s, 0, r->p->spans_count, &span) ||
        run_get_ref(r, s, 1, &r->strings, &n.key) || run_get_u32(r, s, 2, &n.type)) {
        return SONDE_EFORMAT;
    }
    if (!span) return run_bad(r, "it is of no span");
    n.span = (uint32_t)span - 1;
    int rc = 0;
    switch (n.type) {
    case SONDE_PROFILE_ATTR_INT: {
        uint64_t bits = 0;
        rc = run_get_u64(r, s, 3, &bits);
        n.value.i = (int64_t)bits;
        break;
    }
    case SONDE_PROFILE_ATTR_DOUBLE: /* losses do get infinite */
        n.value.d = sqlite3_column_type(s, 3) == SQLITE_NULL ? NAN : sqlite3_column_double(s, 3);
        break;
    case SONDE_PROFILE_ATTR_TEXT: rc = run_get_ref(r, s, 3, &r->strings, &n.text); break;
    default: return 0; /* of a newer version */
    }
    if (!rc && sonde_profile_add_attr(r->p, &n)) rc = run_no_memory(r);
    return rc;
}

/* Nor have these. */
static int read_attrs(struct run_reader *r)
{
    if (!run_has_table(r, "attrs")) return 0;
    return run_each(r, "attrs", "SELECT span, key, type, value FROM attrs ORDER BY span, rowid",
                    run_read_attr);
}

/* ---- Samples --------------------------------------------------------------------------------- */

static int run_read_add_samples(struct run_reader *r, int kind, uint32_t thread, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct sonde_profile_sample *m = &r->chunk[i];
        if (!m->stack || m->stack >= r->stacks.count) {
            return run_bad(r, "sample %u is of stack %u, and there is no such row", i + 1,
                           m->stack);
        }
        m->stack = r->stacks.id[m->stack];
        m->thread = thread;
        m->kind = (uint16_t)kind;
        const int rc = sonde_profile_add_sample(r->p, m);
        if (rc == SONDE_EFORMAT) return run_bad(r, "its weights add up to more than 2^64");
        if (rc) return run_no_memory(r);
    }
    return 0;
}

static int run_read_chunk(struct run_reader *r, sqlite3_stmt *s)
{
    uint32_t thread = 0, count = 0;
    uint64_t first_ns = 0;
    if (sqlite3_column_type(s, 0) != SQLITE_TEXT) return run_bad(r, "kind is not a text");
    const char *name = (const char *)sqlite3_column_text(s, 0);
    const int kind = name ? sonde_sample_kind_find(name) : -1;
    if (kind < 0) return run_bad(r, "there is no kind '%.40s'", name ? name : "");
    if (run_get_ref(r, s, 1, &r->threads, &thread) || run_get_u32(r, s, 2, &count) ||
        run_get_u64(r, s, 3, &first_ns)) {
        return SONDE_EFORMAT;
    }
    if (sqlite3_column_type(s, 4) != SQLITE_BLOB) return run_bad(r, "data is not a blob");
    const void *data = sqlite3_column_blob(s, 4);
    const size_t len = (size_t)sqlite3_column_bytes(s, 4);
    struct sonde_err why = { "" };
    const int rc = sonde_run_unpack(data ? data : "", len, first_ns, count, r->chunk, &why);
    if (rc == SONDE_ENOMEM) return run_no_memory(r);
    return rc ? run_bad(r, "%s", why.text) : run_read_add_samples(r, kind, thread, count);
}

static int run_read_by_time(const void *a, const void *b)
{
    const struct sonde_profile_sample *x = a, *y = b;
#define ORDER(field) if (x->field != y->field) return x->field < y->field ? -1 : 1
    ORDER(time_ns);
    ORDER(thread);
    ORDER(kind);
    ORDER(stack);
    ORDER(weight);
    ORDER(count);
    ORDER(flags);
#undef ORDER
    return 0;
}

static int run_read_samples(struct run_reader *r)
{
    r->chunk = sonde__calloc(SONDE_RUN_CHUNK, sizeof(*r->chunk));
    if (!r->chunk) return run_no_memory(r);
    const int rc = run_each(r, "samples",
                            "SELECT kind, thread, count, first_ns, data FROM samples"
                            " ORDER BY seq", run_read_chunk);
    if (rc) return rc;
    /* The file has them thread by thread; where times are known, that is the order they had. */
    struct sonde_profile *p = r->p;
    int sorted = 1;
    for (uint32_t i = 1; sorted && i < p->samples_count; i++) {
        sorted = p->samples[i - 1].time_ns <= p->samples[i].time_ns;
    }
    if (!sorted) qsort(p->samples, p->samples_count, sizeof(*p->samples), run_read_by_time);
    return 0;
}

/* ---- Facts ----------------------------------------------------------------------------------- */

/* What sampling cost: shares, which may be negative by chance. */
static int read_cost_row(struct run_reader *r, sqlite3_stmt *s, const char *key)
{
    struct sonde_profile_cost *cost = &r->p->cost;
    const struct { const char *key; double *to; } shares[] = {
        { "cost_ratio", &cost->ratio }, { "cost_low", &cost->low }, { "cost_high", &cost->high },
    };
    uint64_t pairs = 0;
    if (!strcmp(key, "cost_pairs")) {
        const int rc = run_get_u64(r, s, 1, &pairs);
        if (!rc && pairs > UINT32_MAX) return run_bad(r, "%s is too large", key);
        cost->pairs = (uint32_t)pairs;
        return rc;
    }
    for (size_t i = 0; i < SONDE_COUNT(shares); i++) {
        if (strcmp(key, shares[i].key)) continue;
        const int none = sqlite3_column_type(s, 1) == SQLITE_NULL;
        const double v = none ? NAN : sqlite3_column_double(s, 1);
        if (!none && !(v >= -1e6 && v <= 1)) return run_bad(r, "%s is %g", key, v);
        *shares[i].to = v;
    }
    return 0;
}

static int read_meta_row(struct run_reader *r, sqlite3_stmt *s)
{
    struct sonde_profile *p = r->p;
    const struct { const char *key; uint32_t *to; } texts[] = {
        { "program", &p->program }, { "command", &p->command }, { "engine", &p->engine },
        { "host", &p->host }, { "notes", &p->notes }, { "cost_text", &p->cost.text },
    };
    const struct { const char *key; uint64_t *to; } numbers[] = {
        { "start_ns", &p->start_ns }, { "end_ns", &p->end_ns },
        { "lost_records", &p->lost_records }, { "dropped_samples", &p->dropped_samples },
        { "unsampled_ns", &p->unsampled_ns },
    };
    const struct { const char *key; double *to; } doubles[] = {
        { "rate_hz", &p->rate_hz }, { "achieved_hz", &p->achieved_hz },
    };
    const char *key = (const char *)sqlite3_column_text(s, 0);
    if (!key) return run_bad(r, "key is not a text");
    if (!strncmp(key, "cost_", 5) && strcmp(key, "cost_text")) return read_cost_row(r, s, key);
    for (size_t i = 0; i < SONDE_COUNT(texts); i++) {
        if (!strcmp(key, texts[i].key)) return run_get_text(r, s, 1, texts[i].to);
    }
    for (size_t i = 0; i < SONDE_COUNT(numbers); i++) {
        if (!strcmp(key, numbers[i].key)) return run_get_u64(r, s, 1, numbers[i].to);
    }
    for (size_t i = 0; i < SONDE_COUNT(doubles); i++) {
        if (strcmp(key, doubles[i].key)) continue;
        const double v = sqlite3_column_double(s, 1);
        if (!(v >= 0 && v <= 1e9)) return run_bad(r, "%s is %g", key, v);
        *doubles[i].to = v;
    }
    return 0;
}

static int read_v1(struct run_reader *r)
{
    int rc = run_each(r, "meta", "SELECT key, value FROM meta", read_meta_row);
    if (!rc) rc = run_each(r, "strings", "SELECT id, text FROM strings ORDER BY id", read_string);
    if (!rc) {
        rc = run_each(r, "modules", "SELECT id, path, build_id, start, end, offset, flags"
                      " FROM modules ORDER BY id", read_module);
    }
    if (!rc) {
        rc = run_each(r, "functions", "SELECT id, name, file, start_line, module FROM functions"
                      " ORDER BY id", run_read_function);
    }
    if (!rc) rc = read_locations(r);
    if (!rc && run_has_table(r, "location_flags")) {
        rc = run_each(r, "location_flags", "SELECT location, flags FROM location_flags"
                      " ORDER BY location", run_read_location_flags);
    }
    if (!rc) {
        rc = run_each(r, "stacks", "SELECT id, parent, location FROM stacks ORDER BY id",
                      run_read_stack);
    }
    if (!rc) {
        rc = run_each(r, "threads", "SELECT id, pid, tid, name FROM threads ORDER BY id",
                      run_read_thread);
    }
    if (!rc) {
        rc = run_each(r, "spans", "SELECT id, thread, name, start_ns, end_ns, trace_hi, trace_lo,"
                      " span_id, parent_id, outcome FROM spans ORDER BY id", read_span);
    }
    if (!rc) rc = read_parts(r);
    if (!rc) rc = read_attrs(r);
    if (!rc) rc = run_read_samples(r);
    if (!rc) rc = run_heap_read(r);
    if (!rc) rc = run_gpu_read(r);
    if (!rc) rc = run_infer_read(r);
    if (!rc) rc = run_final_read(r);
    return rc ? rc : run_tracks_read(r);
}

/* One row a version; versions that are not here cannot be read. */
static const struct {
    int version;
    int (*read)(struct run_reader *r);
} versions[] = {
    { 1, read_v1 },
};

/* ---- Opening --------------------------------------------------------------------------------- */

char *sonde_run_uri(const char *path)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 16);
    sonde_buf_puts(&b, "file:");
    for (const char *c = path; *c; c++) {
        if (strchr("?#%", *c) || (*c == '/' && c[1] == '/')) {
            if (*c != '/') sonde_buf_printf(&b, "%%%02x", (unsigned)(unsigned char)*c);
        } else {
            sonde_buf_putc(&b, *c);
        }
    }
    sonde_buf_puts(&b, "?immutable=1");
    char *uri = sonde_buf_take(&b);
    sonde_buf_release(&b);
    return uri;
}

/* A finished run does not change, so no lock, journal or shared memory is looked for. */
static int open_database(struct run_reader *r, const char *path, const char *data, size_t len)
{
    char *uri = data ? NULL : sonde_run_uri(path);
    if (!data && !uri) return run_no_memory(r);
    int rc = sqlite3_open_v2(data ? ":memory:" : uri, &r->db,
                             data ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY | SQLITE_OPEN_URI,
                             NULL);
    sonde__free(uri);
    if (!r->db) return run_no_memory(r);
    if (rc == SQLITE_OK && data) {
        rc = sqlite3_deserialize(r->db, "main", (unsigned char *)(uintptr_t)data,
                                 (sqlite3_int64)len, (sqlite3_int64)len,
                                 SQLITE_DESERIALIZE_READONLY);
    }
    if (rc != SQLITE_OK) return run_database_failed(r);
    sqlite3_limit(r->db, SQLITE_LIMIT_LENGTH, VALUE_MAX);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(r->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    if (sqlite3_exec(r->db, "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0", NULL, NULL, NULL)) {
        return run_database_failed(r);
    }
    return 0;
}

static int run_read_pragma(struct run_reader *r, const char *sql, int *out)
{
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(r->db, sql, -1, &s, NULL) != SQLITE_OK) return run_database_failed(r);
    const int got = sqlite3_step(s);
    *out = got == SQLITE_ROW ? sqlite3_column_int(s, 0) : 0;
    const int rc = got == SQLITE_ROW ? 0 : run_database_failed(r);
    sqlite3_finalize(s);
    return rc;
}

static int read_database(struct run_reader *r)
{
    int application = 0, version = 0;
    int rc = run_read_pragma(r, "PRAGMA application_id", &application);
    if (!rc) rc = run_read_pragma(r, "PRAGMA user_version", &version);
    if (rc) return rc;
    if (application != SONDE_RUN_APPLICATION) {
        return sonde_err_set(r->err, SONDE_EFORMAT, "'%s' is an SQLite database, but not a run "
                             "that sonde recorded", r->name);
    }
    for (size_t i = 0; i < SONDE_COUNT(versions); i++) {
        if (versions[i].version == version) return versions[i].read(r);
    }
    if (version > SONDE_RUN_VERSION) {
        return sonde_err_set(r->err, SONDE_EVERSION, "'%s' is of a newer sonde (run format %d, "
                             "this one reads up to %d): update sonde", r->name, version,
                             SONDE_RUN_VERSION);
    }
    return sonde_err_set(r->err, SONDE_EFORMAT, "'%s' is damaged: there is no run format %d",
                         r->name, version);
}

int sonde_run_read(const char *path, const char *data, size_t len, const char *name,
                   struct sonde_profile *p, struct sonde_err *err)
{
    assert(!path != !data); /* one of them */
    struct run_reader r = { .p = p, .name = name, .err = err };
    int rc = open_database(&r, path, data, len);
    if (!rc) rc = read_database(&r);
    sqlite3_close_v2(r.db);
    sonde__free(r.strings.id);
    sonde__free(r.modules.id);
    sonde__free(r.functions.id);
    sonde__free(r.locations.id);
    sonde__free(r.stacks.id);
    sonde__free(r.threads.id);
    sonde__free(r.depth);
    sonde__free(r.lines);
    sonde__free(r.chunk);
    return rc;
}
