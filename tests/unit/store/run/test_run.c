/* Run files: what was saved comes back, in few bytes; a file that was tampered with is refused in
 * words, a full disk leaves the old file. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <math.h>

#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/run/private.h"
#include "unit/profile/profile_build.h"
#include "unit/store/run/run_file.h"

static uint64_t random_state = 88172645463325252ull;
static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 33) % n;
}

/* ---- A profile like a recording of a program with some threads ------------------------------- */

static uint32_t module_of(struct sonde_profile *p)
{
    return sonde_profile_module(p, &(struct sonde_profile_module){
        .path = sonde_profile_cstring(p, "/usr/bin/server"),
        .build_id = sonde_profile_cstring(p, "0123456789abcdef"),
        .start = 0xffffffff80000000ull, .end = 0xffffffff90000000ull, .offset = 0x1000,
        .flags = SONDE_MODULE_NO_LINES });
}

static uint32_t location_of(struct sonde_profile *p, uint32_t module, uint32_t n)
{
    char name[32];
    snprintf(name, sizeof(name), "function_%u", n % 300);
    const struct sonde_profile_line lines[2] = {
        { .function = sonde_profile_function(p, &(struct sonde_profile_function){
              .name = sonde_profile_cstring(p, name),
              .file = sonde_profile_cstring(p, "src/server.c"), .start_line = n,
              .module = module }), .line = n + 3 },
        { .function = sonde_profile_function(p, &(struct sonde_profile_function){
              .name = sonde_profile_cstring(p, "inlined_into") }),
              .line = 7 },
    };
    const uint32_t count = n % 3 ? n % 2 + 1 : 0;
    return sonde_profile_lines_location(p, module, 0xffffffff80000000ull + n * 16, lines, count);
}

static struct sonde_profile *recording(uint32_t samples, uint32_t stacks)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    const uint32_t module = module_of(p);
    uint32_t *leaf = calloc(stacks, sizeof(*leaf)), threads[4];
    for (uint32_t i = 0; i < stacks; i++) {
        uint32_t stack = sonde_profile_stack(p, 0, location_of(p, module, 1));
        for (uint32_t d = 0; d < 15 + random_below(10); d++) {
            stack = sonde_profile_stack(p, stack,
                                        location_of(p, module, 2 + random_below(3) + d * 40));
        }
        leaf[i] = stack;
    }
    for (uint32_t t = 0; t < 4; t++) {
        char name[16];
        snprintf(name, sizeof(name), "worker-%u", t);
        threads[t] = sonde_profile_thread(p, 100, 100 + t, name);
    }
    const uint64_t start = 1700000000000000000ull;
    uint64_t now = start;
    for (uint32_t i = 0; i < samples; i++) {
        now += 245000 + random_below(10000);
        const struct sonde_profile_sample s = {
            .time_ns = now, .weight = 1000000, .count = 1, .thread = threads[i % 4],
            .stack = leaf[random_below(4) ? random_below(stacks / 8 + 1) : random_below(stacks)],
            .flags = (uint16_t)(random_below(1000) ? 0 : SONDE_SAMPLE_TRUNCATED),
            .kind = i % 50 ? SONDE_SAMPLE_CPU : SONDE_SAMPLE_OFFCPU };
        assert_int_equal(sonde_profile_add_sample(p, &s), 0);
    }
    free(leaf);
    assert_int_equal(sonde_profile_add_span(p, &(struct sonde_profile_span){
        .start_ns = start, .end_ns = now, .trace_hi = UINT64_MAX, .trace_lo = 5, .id = 1ull << 63,
        .parent = 9, .thread = threads[1], .name = sonde_profile_cstring(p, "request"),
        .outcome = 1 }), 0);
    assert_int_equal(sonde_profile_add_part(p, &(struct sonde_profile_part){
        .request = UINT64_MAX, .tokens_in = UINT32_MAX, .tokens_out = 1 }), 0);
    assert_int_equal(sonde_profile_add_part(p, &(struct sonde_profile_part){ .tokens_in = 7 }), 0);
    const struct sonde_profile_attr attrs[] = {
        { .type = SONDE_PROFILE_ATTR_INT, .value.i = INT64_MIN },
        { .type = SONDE_PROFILE_ATTR_DOUBLE, .value.d = -0.125 },
        { .type = SONDE_PROFILE_ATTR_DOUBLE, .value.d = INFINITY },
        { .type = SONDE_PROFILE_ATTR_TEXT, .text = sonde_profile_cstring(p, "tiny") },
        { .type = SONDE_PROFILE_ATTR_TEXT },
    };
    for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
        struct sonde_profile_attr attr = attrs[i];
        attr.key = sonde_profile_cstring(p, "key");
        assert_int_equal(sonde_profile_add_attr(p, &attr), 0);
    }
    p->start_ns = start;
    p->end_ns = now;
    p->rate_hz = 1000;
    p->achieved_hz = 998.5;
    p->lost_records = 3;
    p->dropped_samples = 4;
    p->unsampled_ns = 5;
    p->cost = (struct sonde_profile_cost){ .text = sonde_profile_cstring(p, "costs 1 %"),
                                           .pairs = 24, .ratio = 0.01, .low = -0.01,
                                           .high = NAN };
    p->program = sonde_profile_cstring(p, "server");
    p->command = sonde_profile_cstring(p, "server --port 80 'a b'");
    p->engine = sonde_profile_cstring(p, "perf");
    p->host = sonde_profile_cstring(p, "box, Linux 6.1 x86_64, 2 CPUs");
    return p;
}

static void same_str(const struct sonde_profile *a, uint32_t i, const struct sonde_profile *b,
                     uint32_t k)
{
    assert_string_equal(sonde_profile_str(a, i), sonde_profile_str(b, k));
}

/* The same rows in the same order: the ids of a run that sonde wrote do not change. */
static void same_profile(const struct sonde_profile *a, const struct sonde_profile *b)
{
    assert_int_equal(a->strings_count, b->strings_count);
    assert_int_equal(a->modules_count, b->modules_count);
    assert_int_equal(a->functions_count, b->functions_count);
    assert_int_equal(a->lines_count, b->lines_count);
    assert_int_equal(a->locations_count, b->locations_count);
    assert_int_equal(a->stacks_count, b->stacks_count);
    assert_int_equal(a->threads_count, b->threads_count);
    assert_int_equal(a->spans_count, b->spans_count);
    assert_int_equal(a->parts_count, b->parts_count);
    assert_int_equal(a->samples_count, b->samples_count);
    assert_memory_equal(a->parts, b->parts, a->parts_count * sizeof(*a->parts));
    assert_int_equal(a->attrs_count, b->attrs_count);
    for (uint32_t i = 0; i < a->attrs_count; i++) {
        assert_int_equal(a->attrs[i].span, b->attrs[i].span);
        assert_int_equal(a->attrs[i].type, b->attrs[i].type);
        assert_memory_equal(&a->attrs[i].value, &b->attrs[i].value, sizeof(a->attrs[i].value));
        same_str(a, a->attrs[i].key, b, b->attrs[i].key);
        same_str(a, a->attrs[i].text, b, b->attrs[i].text);
    }
    assert_memory_equal(a->stacks, b->stacks, a->stacks_count * sizeof(*a->stacks));
    assert_memory_equal(a->samples, b->samples, a->samples_count * sizeof(*a->samples));
    assert_memory_equal(a->lines, b->lines, a->lines_count * sizeof(*a->lines));
    for (uint32_t i = 1; i < a->locations_count; i++) {
        assert_memory_equal(&a->locations[i], &b->locations[i], sizeof(a->locations[i]));
    }
    for (uint32_t i = 1; i < a->functions_count; i++) {
        same_str(a, a->functions[i].name, b, b->functions[i].name);
        same_str(a, a->functions[i].file, b, b->functions[i].file);
        assert_int_equal(a->functions[i].start_line, b->functions[i].start_line);
        assert_int_equal(a->functions[i].module, b->functions[i].module);
    }
    for (uint32_t i = 1; i < a->modules_count; i++) {
        same_str(a, a->modules[i].path, b, b->modules[i].path);
        same_str(a, a->modules[i].build_id, b, b->modules[i].build_id);
        assert_true(a->modules[i].start == b->modules[i].start);
        assert_true(a->modules[i].end == b->modules[i].end);
        assert_true(a->modules[i].offset == b->modules[i].offset);
        assert_int_equal(a->modules[i].flags, b->modules[i].flags);
    }
    for (uint32_t i = 1; i < a->threads_count; i++) {
        assert_int_equal(a->threads[i].pid, b->threads[i].pid);
        assert_int_equal(a->threads[i].tid, b->threads[i].tid);
        same_str(a, a->threads[i].name, b, b->threads[i].name);
    }
    for (uint32_t i = 0; i < a->spans_count; i++) {
        struct sonde_profile_span s = a->spans[i], t = b->spans[i];
        same_str(a, s.name, b, t.name);
        s.name = t.name = 0;
        assert_memory_equal(&s, &t, sizeof(s));
    }
    same_str(a, a->program, b, b->program);
    same_str(a, a->command, b, b->command);
    same_str(a, a->engine, b, b->engine);
    same_str(a, a->host, b, b->host);
    assert_true(a->start_ns == b->start_ns && a->end_ns == b->end_ns);
    assert_true(a->rate_hz == b->rate_hz && a->achieved_hz == b->achieved_hz);
    assert_true(a->lost_records == b->lost_records);
    assert_true(a->dropped_samples == b->dropped_samples);
    assert_true(a->unsampled_ns == b->unsampled_ns && a->cost.pairs == b->cost.pairs);
    same_str(a, a->cost.text, b, b->cost.text);
    assert_true(a->cost.ratio == b->cost.ratio && a->cost.low == b->cost.low);
    assert_true(a->cost.high == b->cost.high || (isnan(a->cost.high) && isnan(b->cost.high)));
}

static char *slurp(size_t *len)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*len);
    assert_int_equal(fread(data, 1, *len, f), *len);
    fclose(f);
    return data;
}

static void test_round_trip(void **state)
{
    (void)state;
    struct sonde_profile *p = recording(50000, 400);
    save(p);
    struct sonde_profile *q = load();
    same_profile(p, q);
    sonde_profile_destroy(q);

    size_t len;
    struct sonde_err err;
    char *data = slurp(&len);
    assert_int_equal(sonde_run_load_bytes(data, len, "memory", &q, &err), 0);
    same_profile(p, q);
    free(data);
    sonde_profile_destroy(q);

    struct sonde_buf bytes;
    sonde_buf_init(&bytes, 64 << 20);
    assert_int_equal(sonde_run_save_bytes(p, &bytes, &err), 0);
    assert_int_equal(sonde_run_load_bytes(bytes.data, bytes.len, "memory", &q, &err), 0);
    same_profile(p, q);
    sonde_profile_destroy(q);
    sonde_buf_release(&bytes);
    sonde_buf_init(&bytes, 100); /* and there is no room */
    assert_int_equal(sonde_run_save_bytes(p, &bytes, &err), SONDE_EFULL);
    sonde_buf_release(&bytes);
    sonde_profile_destroy(p);
}

static void test_empty(void **state)
{
    (void)state;
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    save(p);
    struct sonde_profile *q = load();
    same_profile(p, q);
    sonde_profile_destroy(q);
    sonde_profile_destroy(p);
}

/* Samples without times (imported ones) keep their order. */
/* That the code somewhere only waits comes back; what only this process knows does not. */
static void test_location_flags(void **state)
{
    (void)state;
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    build_sample(p, "main;spin", 5, 0, 0);
    build_sample(p, "main;work", 5, 0, 0);
    p->locations[2].flags = SONDE_LOCATION_SPINS | SONDE_LOCATION_LOOKED;
    p->locations[3].flags = SONDE_LOCATION_LOOKED;
    save(p);
    struct sonde_profile *q = load();
    assert_int_equal(q->locations[2].flags, SONDE_LOCATION_SPINS);
    assert_int_equal(q->locations[1].flags | q->locations[3].flags, 0);
    sonde_profile_destroy(q);
    edit("UPDATE location_flags SET location=99");
    struct sonde_err err = { "" };
    assert_int_equal(sonde_run_load(path, &q, &err), SONDE_EFORMAT);
    assert_non_null(strstr(err.text, "99"));
    sonde_profile_destroy(p);
}

static void test_without_times(void **state)
{
    (void)state;
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(build_sample(p, i % 2 ? "main;b;c" : "main;a", 100 - i, 0, 0), 0);
    }
    save(p);
    struct sonde_profile *q = load();
    same_profile(p, q);
    sonde_profile_destroy(q);
    sonde_profile_destroy(p);
}

/* All of the file, for a recording of some size: the budget is 16 bytes a sample. */
static void test_bytes_per_sample(void **state)
{
    (void)state;
    const uint32_t count = 200000;
    struct sonde_profile *p = recording(count, 2000);
    save(p);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT sum(length(data)) FROM samples", -1, &s, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    const double packed = sqlite3_column_double(s, 0) / count;
    sqlite3_finalize(s);
    sqlite3_close(db);
    const double all = (double)st.st_size / count;
    print_message("%.2f bytes a sample packed, %.2f with all tables\n", packed, all);
    assert_true(packed <= 8);
    assert_true(all <= 16);
    sonde_profile_destroy(p);
}

/* file(1) and sqlite3 see whose it is, and no journal is left or wanted. */
static void test_header(void **state)
{
    (void)state;
    struct sonde_profile *p = recording(10, 3);
    save(p);
    size_t len;
    char *data = slurp(&len);
    assert_memory_equal(data, SONDE_RUN_MAGIC, 16);
    assert_memory_equal(data + 68, "SOND", 4);           /* application id */
    assert_int_equal(data[63], SONDE_RUN_VERSION);       /* user version */
    assert_int_equal(data[18], 1);                       /* not WAL */
    free(data);
    sonde_profile_destroy(p);
}

/* ---- Tampered files -------------------------------------------------------------------------- */

static void change(const char *sql)
{
    sqlite3 *db;
    char *why = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) fail_msg("%s: %s", sql, why);
    sqlite3_close(db);
}

static const struct {
    const char *sql, *says;
    int code;
} tampered[] = {
    { "PRAGMA user_version=2", "is of a newer sonde (run format 2", SONDE_EVERSION },
    { "PRAGMA user_version=0", "there is no run format 0", SONDE_EFORMAT },
    { "PRAGMA user_version=-1", "there is no run format -1", SONDE_EFORMAT },
    { "PRAGMA application_id=7", "not a run that sonde recorded", SONDE_EFORMAT },
    { "DROP TABLE stacks", "stacks: no such table", SONDE_EFORMAT },
    { "ALTER TABLE modules DROP COLUMN flags", "modules: no such column", SONDE_EFORMAT },
    { "UPDATE strings SET id = 99999 WHERE id = 3", "strings, row 3: its id is 4 where 3",
      SONDE_EFORMAT },
    { "DELETE FROM strings WHERE id = 1", "its id is 2 where 1 comes next", SONDE_EFORMAT },
    { "UPDATE strings SET text = x'00ff' WHERE id = 2", "row 2: text is not a text",
      SONDE_EFORMAT },
    { "UPDATE strings SET text = '' WHERE id = 2", "row 2: text is empty", SONDE_EFORMAT },
    { "UPDATE modules SET path = 99999", "modules, row 1: path is 99999, and there is no such row",
      SONDE_EFORMAT },
    { "UPDATE modules SET path = -1", "path is -1", SONDE_EFORMAT },
    { "UPDATE functions SET file = 'x' WHERE id = 2", "functions, row 2: file is not a number",
      SONDE_EFORMAT },
    { "UPDATE functions SET start_line = 1 << 33", "start_line is 8589934592", SONDE_EFORMAT },
    { "UPDATE locations SET module = 2", "module is 2, and there is no such row", SONDE_EFORMAT },
    { "UPDATE lines SET place = 5 WHERE place = 1", "its line 1 is missing", SONDE_EFORMAT },
    { "UPDATE lines SET place = 99999 WHERE place = 1", "place is 99999", SONDE_EFORMAT },
    { "UPDATE lines SET function = 0", "a line is of no function", SONDE_EFORMAT },
    { "UPDATE stacks SET parent = id", "and there is no such row", SONDE_EFORMAT },
    { "UPDATE stacks SET parent = 3 WHERE id = 2", "stacks, row 2: parent is 3", SONDE_EFORMAT },
    { "UPDATE stacks SET location = 0 WHERE id = 2", "it has no location", SONDE_EFORMAT },
    { "UPDATE threads SET name = 1e3", "threads, row 1: name is", SONDE_EFORMAT },
    { "UPDATE spans SET thread = 9", "spans, row 1: thread is 9", SONDE_EFORMAT },
    { "UPDATE parts SET span = 2", "parts, row 1: span is 2", SONDE_EFORMAT },
    { "UPDATE parts SET span = 0", "it is of no span", SONDE_EFORMAT },
    { "UPDATE attrs SET span = 2", "attrs, row 1: span is 2", SONDE_EFORMAT },
    { "UPDATE attrs SET span = 0", "attrs, row 1: it is of no span", SONDE_EFORMAT },
    { "UPDATE attrs SET key = 99999", "key is 99999, and there is no such row", SONDE_EFORMAT },
    { "UPDATE attrs SET value = 'x' WHERE type = 1", "value is not a number", SONDE_EFORMAT },
    { "UPDATE attrs SET value = 99999 WHERE type = 3", "value is 99999", SONDE_EFORMAT },
    { "UPDATE samples SET kind = 'gold'", "there is no kind 'gold'", SONDE_EFORMAT },
    { "UPDATE samples SET kind = 3.5", "there is no kind '3.5'", SONDE_EFORMAT },
    { "UPDATE samples SET thread = 77", "thread is 77", SONDE_EFORMAT },
    { "UPDATE samples SET count = 0", "0 samples, not 1 to", SONDE_EFORMAT },
    { "UPDATE samples SET count = 4000000000", "4000000000 samples, not 1 to", SONDE_EFORMAT },
    { "UPDATE samples SET count = count + 1", "does not hold", SONDE_EFORMAT },
    { "UPDATE samples SET count = count - 1", "does not hold", SONDE_EFORMAT },
    { "UPDATE samples SET data = x'789c'", "cannot be unpacked", SONDE_EFORMAT },
    { "UPDATE samples SET data = zeroblob(0)", "cannot be unpacked", SONDE_EFORMAT },
    { "UPDATE samples SET data = 'text'", "data is not a blob", SONDE_EFORMAT },
    { "DELETE FROM stacks WHERE id > 10", "and there is no such row", SONDE_EFORMAT },
    { "UPDATE meta SET value = 'soon' WHERE key = 'end_ns'", "value is not a number",
      SONDE_EFORMAT },
    { "UPDATE meta SET value = 9e99 WHERE key = 'rate_hz'", "rate_hz is 9e+99", SONDE_EFORMAT },
    /* Code in the file is not run. */
    { "DROP TABLE strings; CREATE VIEW strings AS SELECT 1 AS id, 'x' AS text", "access to view",
      SONDE_EFORMAT },
};

static void test_tampered(void **state)
{
    (void)state;
    struct sonde_profile *p = recording(500, 20);
    for (size_t i = 0; i < sizeof(tampered) / sizeof(tampered[0]); i++) {
        save(p);
        change(tampered[i].sql);
        struct sonde_profile *q = NULL;
        struct sonde_err err = { "" };
        const int rc = sonde_run_load(path, &q, &err);
        if (rc != tampered[i].code || !strstr(err.text, tampered[i].says) ||
            !strstr(err.text, path)) {
            fail_msg("%s: %d, %s", tampered[i].sql, rc, err.text);
        }
        assert_null(q);
    }
    sonde_profile_destroy(p);
}

/* What a later version adds is passed over. */
static void test_widened(void **state)
{
    (void)state;
    struct sonde_profile *p = recording(500, 20);
    save(p);
    change("CREATE TABLE series(id INTEGER PRIMARY KEY); INSERT INTO meta VALUES('new', 1);"
           "ALTER TABLE threads ADD COLUMN cpu INTEGER");
    struct sonde_profile *q = load();
    same_profile(p, q);
    sonde_profile_destroy(q);
    sonde_profile_destroy(p);
}

static void test_deep_stack(void **state)
{
    (void)state;
    struct sonde_profile *p = recording(10, 3);
    save(p);
    change("DELETE FROM stacks; WITH RECURSIVE r(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM r"
           " WHERE id < 70000) INSERT INTO stacks SELECT id, id - 1, 1 FROM r");
    struct sonde_profile *q;
    struct sonde_err err;
    assert_int_equal(sonde_run_load(path, &q, &err), SONDE_EFORMAT);
    assert_non_null(strstr(err.text, "a stack of more than 65536 frames"));
    sonde_profile_destroy(p);
}

/* Random damage: an answer, whatever it is, and every loaded profile is consistent. */
static void test_damaged(void **state)
{
    (void)state;
    struct sonde_profile *p = recording(300, 10);
    save(p);
    size_t len, refused = 0;
    char *data = slurp(&len), *copy = malloc(len);
    for (int i = 0; i < 3000; i++) {
        memcpy(copy, data, len);
        const uint32_t flips = 1 + random_below(8);
        for (uint32_t k = 0; k < flips; k++) {
            copy[random_below((uint32_t)len)] = (char)random_below(256);
        }
        const size_t cut = random_below(4) ? len : random_below((uint32_t)len);
        struct sonde_profile *q = NULL;
        struct sonde_err err = { "" };
        const int rc = sonde_run_load_bytes(copy, cut, "damaged", &q, &err);
        assert_true(rc ? err.text[0] && !q : !!q);
        refused += rc != 0;
        for (uint32_t k = 0; q && k < q->samples_count; k++) {
            assert_true(q->samples[k].stack < q->stacks_count);
            assert_true(q->samples[k].thread < q->threads_count);
        }
        sonde_profile_destroy(q);
    }
    assert_true(refused > 1000);
    free(data);
    free(copy);
    sonde_profile_destroy(p);
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

static void test_chunk_extremes(void **state)
{
    (void)state;
    const struct sonde_profile_sample in[] = {
        { .time_ns = UINT64_MAX, .weight = 0, .stack = 1, .count = UINT32_MAX },
        { .time_ns = 0, .weight = UINT64_MAX, .stack = UINT32_MAX, .count = 0, .flags = 65535 },
        { .time_ns = 1ull << 63, .weight = 1, .stack = 0, .count = 1, .flags = 1 },
        { .time_ns = 1, .weight = 1ull << 63, .stack = 7, .count = 2 },
    };
    const uint32_t count = sizeof(in) / sizeof(in[0]);
    struct sonde_profile_sample out[4] = { { 0 } };
    struct sonde_buf packed;
    sonde_buf_init(&packed, 1 << 20);
    sonde_run_pack(in, count, &packed);
    assert_int_equal(packed.error, 0);
    assert_int_equal(sonde_run_unpack(packed.data, packed.len, in[0].time_ns, count, out, NULL), 0);
    assert_memory_equal(in, out, sizeof(in));
    for (size_t cut = 0; cut < packed.len; cut++) {
        struct sonde_err err;
        assert_int_equal(sonde_run_unpack(packed.data, cut, 0, count, out, &err), SONDE_EFORMAT);
    }
    sonde_buf_release(&packed);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void test_no_room(void **state)
{
    (void)state;
    struct sonde_profile *small = recording(10, 3), *large = recording(50000, 400);
    save(small);
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = 100000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    struct sonde_err err = { "" };
    const int rc = sonde_run_save(path, large, &err);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(rc, SONDE_EIO);
    assert_non_null(strstr(err.text, path));
    if (!strstr(err.text, "ulimit -f")) fail_msg("%s", err.text);
    struct sonde_profile *q = load(); /* as it was */
    same_profile(small, q);
    sonde_profile_destroy(q);
    sonde_profile_destroy(small);
    sonde_profile_destroy(large);
}

static void test_bad_paths(void **state)
{
    (void)state;
    struct sonde_profile *p = recording(10, 3), *q;
    struct sonde_err err;
    char nowhere[160];
    snprintf(nowhere, sizeof(nowhere), "%s/none/a.run", dir);
    assert_int_equal(sonde_run_save(nowhere, p, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, nowhere));
    assert_int_equal(sonde_run_save(dir, p, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "is not a file"));
    assert_int_equal(sonde_run_load(nowhere, &q, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(sonde_run_load(dir, &q, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "Is a directory"));
    assert_int_equal(sonde_run_load("/dev/null", &q, &err), SONDE_EFORMAT);
    assert_non_null(strstr(err.text, "is empty"));
    sonde_profile_destroy(p);
}

static void test_link_and_odd_names(void **state)
{
    (void)state;
    struct sonde_profile *p = recording(10, 3), *q;
    char target[160], odd[160];
    snprintf(target, sizeof(target), "%s/target", dir);
    save(p);
    assert_int_equal(rename(path, target), 0);
    assert_int_equal(symlink("target", path), 0);
    save(p);
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    q = load();
    sonde_profile_destroy(q);
    unlink(target);

    snprintf(odd, sizeof(odd), "%s//a?b#c%%20d&mode=rwc", dir);
    struct sonde_err err;
    assert_int_equal(sonde_run_save(odd, p, &err), 0);
    if (sonde_run_load(odd, &q, &err) != 0) fail_msg("%s", err.text);
    same_profile(p, q);
    sonde_profile_destroy(q);
    unlink(odd);
    sonde_profile_destroy(p);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void test_no_memory(void **state)
{
    (void)state;
    struct sonde_profile *p = recording(100, 5);
    struct sonde_err err;
    const int64_t live = sonde__alloc_live();
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 10000; nth++) {
        sonde__alloc_fail_nth(nth);
        rc = sonde_run_save(path, p, &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
    rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 10000; nth++) {
        struct sonde_profile *q = NULL;
        sonde__alloc_fail_nth(nth);
        rc = sonde_run_load(path, &q, &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        assert_int_equal(q != NULL, rc == 0);
        sonde_profile_destroy(q);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
    sonde_profile_destroy(p);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip),    TEST(test_empty),     TEST(test_location_flags),
        TEST(test_without_times),
        TEST(test_bytes_per_sample), TEST(test_header), TEST(test_tampered),
        TEST(test_widened),       TEST(test_deep_stack), TEST(test_damaged),
        TEST(test_chunk_extremes), TEST(test_no_room),  TEST(test_bad_paths),
        TEST(test_link_and_odd_names), TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
