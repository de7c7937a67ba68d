/* write.c - a profile as a run file.
 *
 * The database is made under a temporary name beside the wanted one, in one transaction, without
 * a journal: if anything fails the file is deleted, and nobody has seen it. It is renamed when it
 * is whole and on the disk. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "sonde/sonde.h"
#include "store/run/private.h"

#define TEXT_OF(x) #x
#define NUMBER(x) TEXT_OF(x)

static const char schema[] =
    "PRAGMA page_size=4096; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF;"
    "PRAGMA locking_mode=EXCLUSIVE;"
    "BEGIN;"
    "PRAGMA application_id=" NUMBER(SONDE_RUN_APPLICATION) ";"
    "PRAGMA user_version=" NUMBER(SONDE_RUN_VERSION) ";"
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE strings(id INTEGER PRIMARY KEY, text TEXT NOT NULL);"
    "CREATE TABLE modules(id INTEGER PRIMARY KEY, path INTEGER NOT NULL,"
    " build_id INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL,"
    " offset INTEGER NOT NULL, flags INTEGER NOT NULL);"
    "CREATE TABLE functions(id INTEGER PRIMARY KEY, name INTEGER NOT NULL,"
    " file INTEGER NOT NULL, start_line INTEGER NOT NULL, module INTEGER NOT NULL);"
    "CREATE TABLE locations(id INTEGER PRIMARY KEY, module INTEGER NOT NULL,"
    " address INTEGER NOT NULL);"
    "CREATE TABLE lines(location INTEGER NOT NULL, place INTEGER NOT NULL,"
    " function INTEGER NOT NULL, line INTEGER NOT NULL, PRIMARY KEY(location, place))"
    " WITHOUT ROWID;"
    "CREATE TABLE stacks(id INTEGER PRIMARY KEY, parent INTEGER NOT NULL,"
    " location INTEGER NOT NULL);"
    "CREATE TABLE threads(id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, tid INTEGER NOT NULL,"
    " name INTEGER NOT NULL);"
    "CREATE TABLE spans(id INTEGER PRIMARY KEY, thread INTEGER NOT NULL, name INTEGER NOT NULL,"
    " start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, trace_hi INTEGER NOT NULL,"
    " trace_lo INTEGER NOT NULL, span_id INTEGER NOT NULL, parent_id INTEGER NOT NULL,"
    " outcome INTEGER NOT NULL);"
    "CREATE TABLE parts(span INTEGER NOT NULL, request INTEGER NOT NULL,"
    " tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL);"
    "CREATE TABLE attrs(span INTEGER NOT NULL, key INTEGER NOT NULL, type INTEGER NOT NULL,"
    " value);"
    "CREATE TABLE samples(seq INTEGER PRIMARY KEY, kind TEXT NOT NULL, thread INTEGER NOT NULL,"
    " count INTEGER NOT NULL, first_ns INTEGER NOT NULL, data BLOB NOT NULL);";

struct run_writer {
    sqlite3 *db;
    const struct sonde_profile *p;
    const char *path;   /* as the user wrote it */
    struct sonde_err *err;
};

/* errno was 0 before the call: SQLite's own sqlite3_system_errno() knows nothing of writes. */
static int run_write_failed(const struct run_writer *w)
{
    const int system = errno, code = sqlite3_errcode(w->db) & 0xff;
    const char *why = sqlite3_errmsg(w->db);
    if (code == SQLITE_FULL) {
        why = "no space left on the device";
    } else if (code == SQLITE_NOMEM) {
        why = "out of memory";
    } else if (code == SQLITE_IOERR && system == EFBIG) {
        why = "files may not be that large (ulimit -f)";
    } else if (code == SQLITE_IOERR && system) {
        why = strerror(system);
    }
    return sonde_err_set(w->err, code == SQLITE_NOMEM ? SONDE_ENOMEM : SONDE_EIO,
                         "writing '%s' failed: %s", w->path, why);
}

static int run_write_execute(const struct run_writer *w, const char *sql)
{
    errno = 0;
    return sqlite3_exec(w->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : run_write_failed(w);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static int run_write_prepare(const struct run_writer *w, const char *sql, sqlite3_stmt **out)
{
    return sqlite3_prepare_v2(w->db, sql, -1, out, NULL) == SQLITE_OK ? 0 : run_write_failed(w);
}

static int run_write_step(const struct run_writer *w, sqlite3_stmt *s)
{
    errno = 0;
    const int rc = sqlite3_step(s) == SQLITE_DONE ? 0 : run_write_failed(w);
    sqlite3_reset(s);
    return rc;
}

/* Numbers to ?1, ?2, …; the bits of unsigned ones are kept. */
static int step_numbers(const struct run_writer *w, sqlite3_stmt *s, const uint64_t *v, int count)
{
    for (int i = 0; i < count; i++) sqlite3_bind_int64(s, i + 1, (sqlite3_int64)v[i]);
    return run_write_step(w, s);
}

#define STEP(w, s, ...)                                                                        \
    step_numbers(w, s, (const uint64_t[]){ __VA_ARGS__ },                                      \
                 (int)(sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t)))

static int write_strings(const struct run_writer *w)
{
    const struct sonde_profile *p = w->p;
    sqlite3_stmt *s;
    int rc = run_write_prepare(w, "INSERT INTO strings VALUES(?1, ?2)", &s);
    for (uint32_t i = 1; !rc && i < p->strings_count; i++) {
        sqlite3_bind_int64(s, 1, i);
        sqlite3_bind_text(s, 2, p->strings[i], -1, SQLITE_STATIC);
        rc = run_write_step(w, s);
    }
    sqlite3_finalize(s);
    return rc;
}

/* open_path is not kept: it means nothing elsewhere. */
static int write_modules(const struct run_writer *w)
{
    const struct sonde_profile *p = w->p;
    sqlite3_stmt *s;
    int rc = run_write_prepare(w, "INSERT INTO modules VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)", &s);
    for (uint32_t i = 1; !rc && i < p->modules_count; i++) {
        const struct sonde_profile_module *m = &p->modules[i];
        rc = STEP(w, s, i, m->path, m->build_id, m->start, m->end, m->offset, m->flags);
    }
    sqlite3_finalize(s);
    return rc;
}

static int write_functions(const struct run_writer *w)
{
    const struct sonde_profile *p = w->p;
    sqlite3_stmt *s;
    int rc = run_write_prepare(w, "INSERT INTO functions VALUES(?1, ?2, ?3, ?4, ?5)", &s);
    for (uint32_t i = 1; !rc && i < p->functions_count; i++) {
        const struct sonde_profile_function *f = &p->functions[i];
        rc = STEP(w, s, i, f->name, f->file, f->start_line, f->module);
    }
    sqlite3_finalize(s);
    return rc;
}

static int write_locations(const struct run_writer *w)
{
    const struct sonde_profile *p = w->p;
    sqlite3_stmt *s = NULL, *line = NULL;
    int rc = run_write_prepare(w, "INSERT INTO locations VALUES(?1, ?2, ?3)", &s);
    if (!rc) rc = run_write_prepare(w, "INSERT INTO lines VALUES(?1, ?2, ?3, ?4)", &line);
    for (uint32_t i = 1; !rc && i < p->locations_count; i++) {
        const struct sonde_profile_location *l = &p->locations[i];
        rc = STEP(w, s, i, l->module, l->address);
        for (uint32_t k = 0; !rc && k < l->line_count; k++) {
            const struct sonde_profile_line *at = &p->lines[l->line + k];
            rc = STEP(w, line, i, k, at->function, at->line);
        }
    }
    sqlite3_finalize(s);
    sqlite3_finalize(line);
    return rc;
}

/* A table of its own, of the few that have any: files of before have none. */
static int write_location_flags(const struct run_writer *w)
{
    const struct sonde_profile *p = w->p;
    sqlite3_stmt *s = NULL;
    int rc = 0;
    for (uint32_t i = 1; !rc && i < p->locations_count; i++) {
        const uint32_t flags = p->locations[i].flags & SONDE_LOCATION_SPINS;
        if (!flags) continue;
        if (!s) {
            rc = run_write_execute(w, "CREATE TABLE location_flags(location INTEGER PRIMARY KEY,"
                                   " flags INTEGER NOT NULL)");
            if (!rc) rc = run_write_prepare(w, "INSERT INTO location_flags VALUES(?1, ?2)", &s);
        }
        if (!rc) rc = STEP(w, s, i, flags);
    }
    sqlite3_finalize(s);
    return rc;
}

static int write_stacks(const struct run_writer *w)
{
    const struct sonde_profile *p = w->p;
    sqlite3_stmt *s;
    int rc = run_write_prepare(w, "INSERT INTO stacks VALUES(?1, ?2, ?3)", &s);
    for (uint32_t i = 1; !rc && i < p->stacks_count; i++) {
        rc = STEP(w, s, i, p->stacks[i].parent, p->stacks[i].location);
    }
    sqlite3_finalize(s);
    return rc;
}

static int write_threads(const struct run_writer *w)
{
    const struct sonde_profile *p = w->p;
    sqlite3_stmt *s;
    int rc = run_write_prepare(w, "INSERT INTO threads VALUES(?1, ?2, ?3, ?4)", &s);
    for (uint32_t i = 1; !rc && i < p->threads_count; i++) {
        rc = STEP(w, s, i, p->threads[i].pid, p->threads[i].tid, p->threads[i].name);
    }
    sqlite3_finalize(s);
    return rc;
}

static int write_spans(const struct run_writer *w)
{
    const struct sonde_profile *p = w->p;
    sqlite3_stmt *s;
    int rc = run_write_prepare(
        w, "INSERT INTO spans VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)", &s);
    for (uint32_t i = 0; !rc && i < p->spans_count; i++) {
        const struct sonde_profile_span *n = &p->spans[i];
        rc = STEP(w, s, (uint64_t)i + 1, n->thread, n->name, n->start_ns, n->end_ns, n->trace_hi,
                  n->trace_lo, n->id, n->parent, n->outcome);
    }
    sqlite3_finalize(s);
    return rc;
}

static int write_parts(const struct run_writer *w)
{
    const struct sonde_profile *p = w->p;
    sqlite3_stmt *s;
    int rc = run_write_prepare(w, "INSERT INTO parts VALUES(?1, ?2, ?3, ?4)", &s);
    for (uint32_t i = 0; !rc && i < p->parts_count; i++) {
        const struct sonde_profile_part *n = &p->parts[i];
        rc = STEP(w, s, (uint64_t)n->span + 1, n->request, n->tokens_in, n->tokens_out);
    }
    sqlite3_finalize(s);
    return rc;
}

static int write_attrs(const struct run_writer *w)
{
    const struct sonde_profile *p = w->p;
    sqlite3_stmt *s;
    int rc = run_write_prepare(w, "INSERT INTO attrs VALUES(?1, ?2, ?3, ?4)", &s);
    for (uint32_t i = 0; !rc && i < p->attrs_count; i++) {
        const struct sonde_profile_attr *n = &p->attrs[i];
        sqlite3_bind_int64(s, 1, (sqlite3_int64)n->span + 1);
        sqlite3_bind_int64(s, 2, n->key);
        sqlite3_bind_int64(s, 3, n->type);
        if (n->type == SONDE_PROFILE_ATTR_DOUBLE) sqlite3_bind_double(s, 4, n->value.d);
        else if (n->type == SONDE_PROFILE_ATTR_INT) sqlite3_bind_int64(s, 4, n->value.i);
        else sqlite3_bind_int64(s, 4, n->text);
        rc = run_write_step(w, s);
    }
    sqlite3_finalize(s);
    return rc;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static int write_chunk(const struct run_writer *w, sqlite3_stmt *s,
                       const struct sonde_profile_sample *samples, uint32_t count, uint32_t seq,
                       struct sonde_buf *packed)
{
    sonde_buf_reset(packed);
    sonde_run_pack(samples, count, packed);
    if (packed->error) {
        return sonde_err_set(w->err, SONDE_ENOMEM, "writing '%s' failed: out of memory", w->path);
    }
    const enum sonde_sample_kind kind = (enum sonde_sample_kind)samples[0].kind;
    sqlite3_bind_int64(s, 1, seq);
    sqlite3_bind_text(s, 2, sonde_sample_kind_name(kind), -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 3, samples[0].thread);
    sqlite3_bind_int64(s, 4, count);
    sqlite3_bind_int64(s, 5, (sqlite3_int64)samples[0].time_ns);
    sqlite3_bind_blob64(s, 6, packed->data, packed->len, SQLITE_STATIC);
    return run_write_step(w, s);
}

static int write_groups(const struct run_writer *w, const struct sonde_profile_sample *sorted)
{
    const uint32_t all = w->p->samples_count;
    struct sonde_buf packed;
    sonde_buf_init(&packed, (size_t)64 << 20);
    sqlite3_stmt *s;
    int rc = run_write_prepare(w, "INSERT INTO samples VALUES(?1, ?2, ?3, ?4, ?5, ?6)", &s);
    for (uint32_t i = 0, seq = 1; !rc && i < all;) {
        uint32_t end = i;
        while (end < all && end - i < SONDE_RUN_CHUNK && sorted[end].kind == sorted[i].kind &&
               sorted[end].thread == sorted[i].thread) {
            end++;
        }
        rc = write_chunk(w, s, sorted + i, end - i, seq++, &packed);
        i = end;
    }
    sqlite3_finalize(s);
    sonde_buf_release(&packed);
    return rc;
}

/* By kind, then thread, each in the order they came: counted first, then placed. */
static int write_samples(const struct run_writer *w)
{
    const struct sonde_profile *p = w->p;
    if (!p->samples_count) return 0;
    const size_t groups = (size_t)p->threads_count * SONDE_SAMPLE_KIND_COUNT;
    uint32_t *first = sonde__calloc(groups + 1, sizeof(*first));
    struct sonde_profile_sample *sorted = sonde__alloc(p->samples_count * sizeof(*sorted));
    int rc = 0;
    if (!first || !sorted) {
        rc = sonde_err_set(w->err, SONDE_ENOMEM, "writing '%s' failed: out of memory", w->path);
    } else {
#define GROUP(s) ((size_t)(s)->kind * p->threads_count + (s)->thread)
        for (uint32_t i = 0; i < p->samples_count; i++) first[GROUP(&p->samples[i]) + 1]++;
        for (size_t g = 1; g <= groups; g++) first[g] += first[g - 1];
        for (uint32_t i = 0; i < p->samples_count; i++) {
            sorted[first[GROUP(&p->samples[i])]++] = p->samples[i];
        }
#undef GROUP
        rc = write_groups(w, sorted);
    }
    sonde__free(first);
    sonde__free(sorted);
    return rc;
}

/* ---- Facts ----------------------------------------------------------------------------------- */

static int meta_text(const struct run_writer *w, sqlite3_stmt *s, const char *key, const char *text)
{
    sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 2, text, -1, SQLITE_STATIC);
    return run_write_step(w, s);
}

static int meta_number(const struct run_writer *w, sqlite3_stmt *s, const char *key, uint64_t v)
{
    sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)v);
    return run_write_step(w, s);
}

static int meta_double(const struct run_writer *w, sqlite3_stmt *s, const char *key, double v)
{
    sqlite3_bind_text(s, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_double(s, 2, v);
    return run_write_step(w, s);
}

static int write_meta(const struct run_writer *w)
{
    const struct sonde_profile *p = w->p;
    struct sonde_stack_sums sums = { 0 };
    for (uint32_t i = 0; i < p->samples_count; i++) {
        sonde_stack_sums_add(&sums, &p->samples[i]);
    }
    const struct { const char *key, *text; } texts[] = {
        { "sonde", SONDE_VERSION },
        { "program", sonde_profile_str(p, p->program) },
        { "command", sonde_profile_str(p, p->command) },
        { "engine", sonde_profile_str(p, p->engine) },
        { "host", sonde_profile_str(p, p->host) },
        { "notes", sonde_profile_str(p, p->notes) },
        { "cost_text", sonde_profile_str(p, p->cost.text) },
    };
    const struct { const char *key; uint64_t number; } numbers[] = {
        { "created_s", (uint64_t)time(NULL) },
        { "start_ns", p->start_ns },
        { "end_ns", p->end_ns },
        { "lost_records", p->lost_records },
        { "dropped_samples", p->dropped_samples },
        { "unsampled_ns", p->unsampled_ns },
        { "cost_pairs", p->cost.pairs },
        { "samples", sums.stacks },       /* for who looks with sqlite3; not read back */
        { "truncated_samples", sums.truncated },
        { "mended_samples", sums.mended },
    };
    sqlite3_stmt *s;
    int rc = run_write_prepare(w, "INSERT INTO meta VALUES(?1, ?2)", &s);
    for (size_t i = 0; !rc && i < SONDE_COUNT(texts); i++) {
        rc = meta_text(w, s, texts[i].key, texts[i].text);
    }
    for (size_t i = 0; !rc && i < SONDE_COUNT(numbers); i++) {
        rc = meta_number(w, s, numbers[i].key, numbers[i].number);
    }
    if (!rc) rc = meta_double(w, s, "rate_hz", p->rate_hz);
    if (!rc) rc = meta_double(w, s, "achieved_hz", p->achieved_hz);
    /* One that is not known is NaN, which SQLite keeps as NULL. */
    if (!rc && p->cost.text) rc = meta_double(w, s, "cost_ratio", p->cost.ratio);
    if (!rc && p->cost.text) rc = meta_double(w, s, "cost_low", p->cost.low);
    if (!rc && p->cost.text) rc = meta_double(w, s, "cost_high", p->cost.high);
    sqlite3_finalize(s);
    return rc;
}

static int run_write_written(const struct run_writer *w, int rc)
{
    if (rc == SQLITE_OK) return 0;
    if (rc != SQLITE_NOMEM) return run_write_failed(w);
    return sonde_err_set(w->err, SONDE_ENOMEM, "writing '%s' failed: out of memory", w->path);
}

static int write_heap(const struct run_writer *w)
{
    errno = 0;
    return w->p->heap ? run_write_written(w, sonde_run_heap_write(w->db, w->p)) : 0;
}

static int write_gpu(const struct run_writer *w)
{
    errno = 0;
    return w->p->gpu ? run_write_written(w, sonde_run_gpu_write(w->db, w->p)) : 0;
}

static int write_infer(const struct run_writer *w)
{
    errno = 0;
    return w->p->infer ? run_write_written(w, sonde_run_infer_write(w->db, w->p)) : 0;
}

static int write_engine(const struct run_writer *w)
{
    errno = 0;
    return w->p->final ? run_write_written(w, sonde_run_final_write(w->db, w->p)) : 0;
}

static int write_tracks(const struct run_writer *w)
{
    errno = 0;
    return w->p->tracks ? run_write_written(w, sonde_run_tracks_write(w->db, w->p)) : 0;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* The database at temp, open and committed: w->db, also after a failure. */
static int write_database(struct run_writer *w, const char *temp)
{
    int (*const parts[])(const struct run_writer *) = {
        write_meta,      write_strings, write_modules, write_functions, write_locations,
        write_stacks,    write_threads, write_spans,   write_parts,     write_attrs,
        write_samples,   write_heap,    write_gpu,     write_infer,     write_engine,
        write_tracks,    write_location_flags,
    };
    int rc = 0;
    if (sqlite3_open_v2(temp, &w->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_EXRESCODE, NULL)) {
        rc = w->db ? run_write_failed(w) : sonde_err_memory(w->err);
    }
    if (!rc) rc = run_write_execute(w, schema);
    for (size_t i = 0; !rc && i < SONDE_COUNT(parts); i++) rc = parts[i](w);
    return rc ? rc : run_write_execute(w, "COMMIT");
}

static int close_database(struct run_writer *w, int rc)
{
    if (!rc && sqlite3_close(w->db) != SQLITE_OK) rc = run_write_failed(w);
    else if (!rc) w->db = NULL;
    sqlite3_close_v2(w->db);
    return rc;
}

static int check_kind(const char *path, struct sonde_err *err)
{
    struct stat st;
    if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) return 0;
    return sonde_err_set(err, SONDE_EINVAL, "'%s' is not a file: a run is written to a file", path);
}

int sonde_run_check(const char *path, struct sonde_err *err)
{
    struct sonde_file_temp temp;
    int rc = check_kind(path, err);
    if (!rc) rc = sonde_file_temp_create(&temp, path, err);
    if (!rc) sonde_file_temp_release(&temp);
    return rc;
}

int sonde_run_save(const char *path, const struct sonde_profile *p, struct sonde_err *err)
{
    assert(path && p);
    struct run_writer w = { .p = p, .path = path, .err = err };
    struct sonde_file_temp temp;
    int rc = check_kind(path, err);
    if (!rc) rc = sonde_file_temp_create(&temp, path, err);
    if (rc) return rc;
    rc = close_database(&w, write_database(&w, temp.path));
    if (!rc) rc = sonde_file_temp_commit(&temp, err);
    sonde_file_temp_release(&temp);
    return rc;
}

int sonde_run_save_bytes(const struct sonde_profile *p, struct sonde_buf *out,
                         struct sonde_err *err)
{
    struct run_writer w = { .p = p, .path = "the run", .err = err };
    int rc = write_database(&w, ":memory:");
    sqlite3_int64 len = 0;
    unsigned char *bytes = rc ? NULL : sqlite3_serialize(w.db, "main", &len, 0);
    if (!rc && !bytes) rc = sonde_err_set(err, SONDE_ENOMEM, "no memory to write the run");
    if (!rc) sonde_buf_add(out, (const char *)bytes, (size_t)len);
    sqlite3_free(bytes);
    if (!rc && out->error) rc = sonde_err_set(err, out->error, "the run is too large");
    return close_database(&w, rc);
}
