/* Spans, requests and findings of a store: found again as they were, by time, after a restart; left
 * out where there are too many, and counted; deleted, merged and copied with their run. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "store/event.h"
#include "store/run/run.h"
#include "unit/store/sqlite/store_build.h"

#define START_NS ((uint64_t)START_S * 1000000000u)

/* ---- Making ---------------------------------------------------------------------------------- */

static int add_span(struct sonde_store *s, uint32_t i, uint32_t outcome)
{
    struct sonde_model_attr attrs[] = {
        { .key = "count", .type = SONDE__ATTR_INT, .value.i = -(int64_t)i },
        { .key = "ratio", .type = SONDE__ATTR_DOUBLE, .value.d = 0.25 },
        { .key = "user", .type = SONDE__ATTR_STR, .value.str = "somebody" },
    };
    struct sonde_model_part parts[] = { { 7, 3, 1 }, { UINT64_MAX, 0, UINT32_MAX } };
    const struct sonde_model_span span = {
        .name = i % 2 ? "odd" : "even", .program = "server", .pid = 42, .tid = 43,
        .start_ns = START_NS + i * 1000000000ull, .duration_ns = 1000 + i,
        .trace_hi = 1 + i / 4, .trace_lo = ~0ull, .id = 1000 + i, .parent = i ? 999 + i : 0,
        .outcome = outcome, .attr_count = i % 4, .attrs = attrs, .parts = parts,
        .part_count = i % 3,
    };
    return OPS->span_add(s, &span);
}

static int add_request(struct sonde_store *s, uint32_t i, uint32_t outcome, double total_s)
{
    struct sonde_infer_attr attrs[] = { { "user", "somebody" } };
    struct sonde_infer_item items[] = {
        { START_NS + i * 1000000000ull, START_NS + i * 1000000000ull + 500, 400, 12, "prefill",
          SONDE_PHASE_PREFILL, 1, 3 },
        { START_NS + i * 1000000000ull + 600, START_NS + i * 1000000000ull + 900, 300, 1, "tokens",
          SONDE_PHASE_NONE, 4, 0 },
    };
    struct sonde_infer_request r = {
        .id = 5000 + i, .trace_hi = i, .trace_lo = 9, .pid = 42, .outcome = outcome,
        .program = "server", .model = "llama", .route = "/v1", .backend = "", .error = "",
        .invalid = "", .own_id = "chatcmpl-1", .arrived_ns = START_NS + i * 1000000000ull,
        .tokens_in = 12, .tokens_out = 4, .total_s = total_s, .ttft_s = total_s / 2,
        .itl_count = 3, .itl_s = 0.125, .tokens_per_s = 4 / total_s, .items = items,
        .item_count = 2, .attrs = attrs, .attr_count = 1,
    };
    r.phase_s[SONDE_PHASE_PREFILL] = 0.5;
    r.phase_count[SONDE_PHASE_PREFILL] = 1;
    return OPS->request_add(s, &r);
}

/* ---- Finding --------------------------------------------------------------------------------- */

struct found {
    size_t count, failed, timelines, stop_at;
    uint32_t first, last;        /* numbers of the newest and the oldest that was shown */
    struct sonde_store_counts counts;
};

static int check_span(const struct sonde_model_span *span, void *arg)
{
    struct found *f = arg;
    const uint32_t i = (uint32_t)(span->id - 1000);
    if (!f->count++) f->first = i;
    f->last = i;
    f->failed += span->outcome != SONDE_OK;
    assert_string_equal(span->name, i % 2 ? "odd" : "even");
    assert_string_equal(span->program, "server");
    assert_true(span->pid == 42 && span->tid == 43 && span->duration_ns == 1000 + i);
    assert_true(span->start_ns == START_NS + i * 1000000000ull);
    assert_true(span->trace_hi == 1 + i / 4 && span->trace_lo == ~0ull);
    assert_true(span->parent == (i ? 999 + i : 0));
    assert_int_equal(span->attr_count, i % 4);
    if (i % 4 > 0) assert_true(span->attrs[0].value.i == -(int64_t)i);
    if (i % 4 > 1) assert_true(span->attrs[1].value.d == 0.25);
    if (i % 4 > 2) assert_string_equal(span->attrs[2].value.str, "somebody");
    assert_int_equal(span->part_count, i % 3);
    if (i % 3 > 1) assert_true(span->parts[1].tokens_out == UINT32_MAX);
    return f->count == f->stop_at;
}

static int check_request(const struct sonde_infer_request *r, void *arg)
{
    struct found *f = arg;
    const uint32_t i = (uint32_t)(r->id - 5000);
    if (!f->count++) f->first = i;
    f->last = i;
    f->failed += r->outcome != SONDE_OK;
    f->timelines += r->item_count > 0;
    assert_true(r->arrived_ns == START_NS + i * 1000000000ull && r->trace_hi == i);
    assert_string_equal(r->model, "llama");
    assert_string_equal(r->own_id, "chatcmpl-1");
    assert_string_equal(r->attrs[0].value, "somebody");
    assert_true(r->ttft_s == r->total_s / 2 && r->itl_s == 0.125 && r->tokens_out == 4);
    assert_true(r->phase_s[SONDE_PHASE_PREFILL] == 0.5 && !r->phase_count[SONDE_PHASE_DECODE]);
    if (r->item_count) {
        assert_int_equal(r->item_count, 2);
        assert_string_equal(r->items[1].name, "tokens");
        assert_true(r->items[1].start_ns == r->arrived_ns + 600 && r->items[1].count == 4);
        assert_true(r->items[0].busy_ns == 400 && r->items[0].batch == 3);
    }
    return f->count == f->stop_at;
}

static struct found spans_of(struct sonde_store *s, struct sonde_store_range q)
{
    struct found f = { 0 };
    struct sonde_err err = { "" };
    if (OPS->spans(s, &q, check_span, &f, &f.counts, &err) != 0) fail_msg("%s", err.text);
    return f;
}

static struct found requests_of(struct sonde_store *s, struct sonde_store_range q)
{
    struct found f = { 0 };
    struct sonde_err err = { "" };
    if (OPS->requests(s, &q, check_request, &f, &f.counts, &err) != 0) fail_msg("%s", err.text);
    return f;
}

static struct sonde_store *open_many(void)
{
    return open_at(build_path, (struct sonde_store_options){ .spans_per_s = 100000,
                                                             .requests_per_s = 100000 });
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static const struct sonde_store_range everything = { 0 };

static void test_found_again(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_many();
    struct load l = new_load(s, 1, 0, 0);
    for (uint32_t i = 0; i < 500; i++) {
        assert_int_equal(add_span(s, i, i % 50 ? SONDE_OK : SONDE_ERROR), 0);
        assert_int_equal(add_request(s, i, i % 25 ? SONDE_OK : SONDE_TIMEOUT, 1.0), 0);
        if (i % 100 == 99) { /* in memory, being written, on disk: each is shown once */
            struct found f = spans_of(s, everything);
            assert_true(f.count == i + 1 && f.first == i && f.last == 0);
            add_ticks(&l, 1);
        }
        if (i == 249) flush(s);
    }
    for (int closed = 0; closed < 3; closed++) {
        struct found f = spans_of(s, everything);
        assert_true(f.count == 500 && f.failed == 10 && f.first == 499 && f.last == 0);
        assert_true(f.counts.seen == 500 && f.counts.kept == 500);
        f = requests_of(s, everything);
        assert_true(f.count == 500 && f.failed == 20 && f.counts.seen == 500);
        /* Failed ones have theirs, and the first, before it is known what is slow. */
        assert_in_range(f.timelines, 20, 60);
        f = spans_of(s, (struct sonde_store_range){ .from_s = START_S + 100,
                                                    .to_s = START_S + 199.5 });
        assert_true(f.count == 100 && f.first == 199 && f.last == 100);
        f = requests_of(s, (struct sonde_store_range){ .from_s = START_S + 490 });
        assert_true(f.count == 10 && f.first == 499);
        f = spans_of(s, (struct sonde_store_range){ .limit = 7 });
        assert_true(f.count == 7 && f.last == 493);
        assert_int_equal(spans_of(s, (struct sonde_store_range){ .run = 9 }).count, 0);
        if (!closed) flush(s);
        if (closed != 1) continue;
        OPS->close(s);
        s = open_at(build_path, (struct sonde_store_options){ .read_only = 1 });
    }
    assert_int_equal(add_span(s, 1, SONDE_OK), SONDE_EINVAL); /* it is only read */
    OPS->close(s);
    assert_int_equal(number("SELECT sum(kept) FROM requests"), 500);
    assert_int_equal(number("SELECT spans + requests FROM runs"), 1000);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Too many: failed ones stay, the others are a sample of whole traces, and it is told how many
 * there were. */
static void test_too_many(void **unused)
{
    (void)unused;
    enum { ALL = 20000, FAILED = 40 };
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ 0 });
    for (uint32_t i = 0; i < ALL; i++) {
        assert_int_equal(add_span(s, i, i % (ALL / FAILED) ? SONDE_OK : SONDE_ERROR), 0);
        add_request(s, i, i % (ALL / FAILED) ? SONDE_OK : SONDE_ERROR, 1 + i % 100 * 0.01);
    }
    flush(s);
    struct sonde_store_stats stats;
    OPS->stats(s, &stats);
    struct found f = spans_of(s, everything);
    assert_int_equal(f.counts.seen, ALL);
    assert_int_equal(f.counts.kept, f.count);
    assert_int_equal(f.failed, FAILED);
    assert_true(f.count > FAILED && f.count < ALL);
    assert_int_equal(stats.spans_left_out, ALL - f.count);
    f = requests_of(s, everything);
    assert_int_equal(f.counts.seen, ALL);
    assert_true(f.count < ALL && f.timelines >= f.failed);
    assert_int_equal(stats.requests_left_out, ALL - f.count);
    assert_int_equal(stats.dropped_events, 0);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

static int note_finding(const struct sonde_store_finding *f, void *arg)
{
    struct sonde_store_finding *to = arg;
    if (to->id) return 1;
    *to = *f;
    assert_string_equal(f->kind, "slow_phase");
    assert_string_equal(f->unit, "s");
    assert_string_equal(f->text, "Prefill takes most of the time.");
    to->kind = to->subject = to->unit = to->text = NULL;
    return 0;
}

static void test_findings(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ 0 });
    struct sonde_err err = { "" };
    struct sonde_store_finding f = {
        .kind = "slow_phase", .subject = "prefill", .severity = SONDE_SEVERITY_WARNING, .unit = "s",
        .text = "Prefill takes most of the time.",
    };
    uint64_t id = 0;
    for (int i = 0; i < 20; i++) {
        f.time_s = START_S + i;
        f.value = i == 19 ? (double)NAN : i;
        assert_int_equal(OPS->finding_put(s, &f, &id, &err), 0);
    }
    assert_int_equal(id, 20);
    struct sonde_store_finding got = { 0 };
    assert_int_equal(OPS->findings(s, &everything, note_finding, &got, &err), 0);
    assert_true(got.id == 20 && got.run == 1 && isnan(got.value));
    assert_int_equal(got.severity, SONDE_SEVERITY_WARNING);
    got = (struct sonde_store_finding){ 0 };
    const struct sonde_store_range middle = { .from_s = START_S + 3, .to_s = START_S + 7 };
    assert_int_equal(OPS->findings(s, &middle, note_finding, &got, &err), 0);
    assert_true(got.time_s == START_S + 7 && got.value == 7);
    static const struct { const char *kind; double time_s; unsigned severity; } bad[] = {
        { "", 1, 0 }, { "a b", 1, 0 }, { "ok", -1, 0 }, { "ok", 1, 3 }, { NULL, 1, 0 },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct sonde_store_finding b = { .kind = bad[i].kind, .time_s = bad[i].time_s,
                                               .severity = (enum sonde_severity)bad[i].severity };
        assert_int_equal(OPS->finding_put(s, &b, NULL, &err), SONDE_EINVAL);
        assert_string_not_equal(err.text, "");
    }
    assert_int_equal(sonde_severity_find("critical"), SONDE_SEVERITY_CRITICAL);
    assert_int_equal(sonde_severity_find("fatal"), -1);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Three runs with ten of everything each. */
static void make_runs(void)
{
    for (uint32_t run = 0; run < 3; run++) {
        struct sonde_store *s = open_many();
        struct sonde_err err = { "" };
        const struct sonde_store_finding f = { .kind = "k", .time_s = START_S + run * 10 };
        for (uint32_t i = 0; i < 10; i++) {
            assert_int_equal(add_span(s, run * 10 + i, SONDE_OK), 0);
            assert_int_equal(add_request(s, run * 10 + i, SONDE_OK, 1), 0);
            assert_int_equal(OPS->finding_put(s, &f, NULL, &err), 0);
        }
        OPS->close(s);
    }
}

static void last_run(const struct sonde_store_run *r, void *arg)
{
    struct sonde_store_run *to = arg;
    if (!to->id) *to = *r;
}

static void test_runs(void **unused)
{
    (void)unused;
    make_runs();
    char copy_path[160];
    snprintf(copy_path, sizeof(copy_path), "%s/copy", build_dir);
    struct sonde_err err = { "" };
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .maintain = 1 });
    struct sonde_store_run r = { 0 };
    assert_int_equal(OPS->runs(s, last_run, &r, &err), 0);
    assert_true(r.id == 3 && r.spans == 10 && r.requests == 10 && r.findings == 10);
    assert_int_equal(spans_of(s, (struct sonde_store_range){ .run = 2 }).last, 10);
    assert_int_equal(OPS->run_copy(s, 2, copy_path, &err), 0);
    assert_int_equal(OPS->run_merge(s, 1, 2, &err), 0);
    assert_int_equal(spans_of(s, (struct sonde_store_range){ .run = 1 }).count, 20);
    assert_int_equal(requests_of(s, (struct sonde_store_range){ .run = 1 }).count, 20);
    assert_int_equal(number("SELECT count(*) FROM findings WHERE run = 1"), 20);
    assert_int_equal(OPS->run_delete(s, 1, &err), 0);
    assert_int_equal(spans_of(s, everything).count, 10);
    assert_int_equal(requests_of(s, everything).count, 10);
    assert_int_equal(number("SELECT count(*) FROM findings"), 10);
    OPS->close(s);
    s = open_at(copy_path, (struct sonde_store_options){ .read_only = 1 });
    struct found f = requests_of(s, everything);
    assert_true(f.count == 10 && f.first == 19 && f.last == 10);
    assert_int_equal(spans_of(s, everything).count, 10);
    assert_int_equal(number_in(copy_path, "SELECT count(*) FROM findings"), 10);
    assert_int_equal(number_in(copy_path, "SELECT spans + requests FROM runs"), 20);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A ring that is read again by the next agent: what the last one wrote is not written twice. */
static void test_once(void **unused)
{
    (void)unused;
    for (uint32_t run = 0; run < 3; run++) {
        struct sonde_store *s = open_many();
        for (uint32_t i = 0; i < 50 + run * 10; i++) {
            assert_int_equal(add_span(s, i, SONDE_OK), 0);
            assert_int_equal(add_request(s, i, SONDE_OK, 1), 0);
        }
        flush(s);
        const struct found f = spans_of(s, everything), r = requests_of(s, everything);
        assert_true(f.count == 50 + run * 10 && f.counts.seen == f.count);
        assert_true(r.count == f.count && r.counts.seen == f.count);
        OPS->close(s);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_retention(void **unused)
{
    (void)unused;
    make_runs(); /* all of it years ago */
    struct sonde_err err = { "" };
    struct sonde_store *s = open_many();
    const struct sonde_store_retention nothing = { 0 }, day = { .age_s = 86400, .force = 1 };
    assert_int_equal(OPS->gc(s, &nothing, NULL, &err), 0);
    assert_int_equal(spans_of(s, everything).count, 30);
    assert_int_equal(OPS->gc(s, &day, NULL, &err), 0);
    assert_int_equal(spans_of(s, everything).count + requests_of(s, everything).count, 0);
    assert_int_equal(number("SELECT count(*) FROM findings"), 0);
    assert_int_equal(number("SELECT count(*) FROM runs"), 1);
    /* By size, the oldest first. */
    for (uint32_t i = 0; i < 3000; i++) {
        add_span(s, 100 + i, SONDE_OK);
        if (i % 10 == 9) flush(s);
    }
    assert_int_equal(spans_of(s, everything).count, 3000);
    const int64_t bytes = number("SELECT page_count * page_size FROM pragma_page_count(),"
                                 " pragma_page_size()");
    const struct sonde_store_retention less = { .bytes = (uint64_t)bytes - (20 << 10) };
    assert_int_equal(OPS->gc(s, &less, NULL, &err), 0);
    struct found f = spans_of(s, everything);
    assert_true(f.count < 3000 && f.first == 3099 && f.last == 3100 - f.count);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A batch that is not what it should be is told, and nothing worse. */
static void test_damaged(void **unused)
{
    (void)unused;
    static const char *const harm[] = {
        "UPDATE spans SET data = x'00112233'", "UPDATE spans SET plain_bytes = plain_bytes + 1",
        "UPDATE spans SET plain_bytes = 1 << 60", "UPDATE spans SET kept = kept + 1",
        "UPDATE spans SET kept = 1 << 60", "UPDATE spans SET data = ''",
    };
    for (size_t i = 0; i < sizeof(harm) / sizeof(harm[0]); i++) {
        struct sonde_store *s = open_many();
        struct sonde_err err = { "" };
        struct found f = { 0 };
        for (uint32_t k = 0; k < 10; k++) add_span(s, k, SONDE_OK);
        OPS->close(s);
        sqlite3 *db;
        assert_int_equal(sqlite3_open(build_path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, harm[i], NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        s = open_at(build_path, (struct sonde_store_options){ .read_only = 1 });
        assert_int_equal(OPS->spans(s, &everything, check_span, &f, NULL, &err), SONDE_EFORMAT);
        assert_non_null(strstr(err.text, "table spans, row 1"));
        OPS->close(s);
        unlink(build_path);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Any bytes: read as far as they make sense. */
static void test_any_bytes(void **unused)
{
    (void)unused;
    struct sonde_event_room room = { .parts = NULL };
    uint64_t random = 88172645463325252ull;
    struct sonde_buf good;
    sonde_buf_init(&good, 1 << 16);
    const struct sonde_model_span span = { .name = "n", .program = "p", .start_ns = 1 };
    const struct sonde_infer_request request = { .program = "p" };
    sonde_event_put_span(&good, &span);
    sonde_event_put_request(&good, &request, 1);
    assert_int_equal(good.error, 0);
    for (int round = 0; round < 20000; round++) {
        unsigned char bytes[512];
        memcpy(bytes, good.data, good.len);
        for (int k = 0; k < round % 4; k++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            bytes[random % good.len] = (unsigned char)(random >> 32);
        }
        struct sonde_chunk_in in = { bytes, bytes + good.len, 0 }, record;
        for (int k = 0; sonde_event_next(&in, &record); k++) {
            struct sonde_model_span s;
            struct sonde_infer_request r;
            const int rc = k ? sonde_event_get_request(&record, &room, &r)
                             : sonde_event_get_span(&record, &room, &s);
            if (round % 4 == 0) assert_int_equal(rc, 0);
        }
    }
    sonde_buf_release(&good);
    sonde_event_room_release(&room);
    assert_int_equal(sonde__alloc_live(), 0);
}

struct modules { size_t count; char path[64], build_id[64]; };

static void note_module(const char *path, const char *build_id, void *arg)
{
    struct modules *m = arg;
    m->count++;
    snprintf(m->path, sizeof(m->path), "%s", path);
    snprintf(m->build_id, sizeof(m->build_id), "%s", build_id);
}

/* A profile that is put in says what it was made of. */
static void test_facts(void **unused)
{
    (void)unused;
    struct sonde_profile *p;
    struct sonde_buf data;
    struct sonde_err err = { "" };
    struct modules m = { 0 };
    assert_int_equal(sonde_profile_create(0, &p), 0);
    const struct sonde_profile_module module = { .path = sonde_profile_cstring(p, "/bin/server"),
                                                 .build_id = sonde_profile_cstring(p, "abcd"),
                                                 .start = 4096, .end = 8192 };
    assert_int_not_equal(sonde_profile_module(p, &module), 0);
    sonde_buf_init(&data, 1 << 24);
    assert_int_equal(sonde_run_save_bytes(p, &data, &err), 0);
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ 0 });
    const struct sonde_store_profile row = { .name = "a", .kind = "cpu", .program = "server" };
    uint64_t id;
    for (int i = 0; i < 2; i++) { /* the same file twice is one */
        assert_int_equal(OPS->profile_put(s, &row, data.data, data.len, &id, &err), 0);
    }
    assert_int_equal(OPS->profile_put(s, &row, "no run", 6, &id, &err), 0);
    assert_int_equal(OPS->modules(s, 1, note_module, &m, &err), 0);
    assert_int_equal(m.count, 1);
    assert_string_equal(m.path, "/bin/server");
    assert_string_equal(m.build_id, "abcd");
    OPS->close(s);
    sonde_buf_release(&data);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static int see_span(const struct sonde_model_span *span, void *arg)
{
    assert_true(span->duration_ns == INT64_MAX && span->outcome == SONDE_ERROR);
    ++*(int *)arg;
    return 0;
}

static int see_request(const struct sonde_infer_request *r, void *arg)
{
    assert_true(r->memory_bytes == INT64_MAX && r->total_s == 0 && r->item_count == 1);
    assert_true(r->items[0].end_ns == r->items[0].start_ns && r->items[0].count == 1);
    ++*(int *)arg;
    return 0;
}

/* What others say that cannot be takes nothing else with it. */
static void test_impossible_amounts(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_many();
    struct sonde_err err = { "" };
    const struct sonde_model_span span = { .name = "forever", .program = "theirs", .id = 7,
                                           .start_ns = START_NS, .duration_ns = UINT64_MAX - 1,
                                           .outcome = 200 };
    struct sonde_infer_item item = { .start_ns = START_NS + 5, .end_ns = START_NS, .name = "x" };
    const struct sonde_infer_request request = {
        .id = 7, .program = "theirs", .model = "", .route = "", .backend = "", .error = "",
        .invalid = "", .arrived_ns = START_NS, .memory_bytes = UINT64_MAX, .total_s = -1,
        .items = &item, .item_count = 1,
    };
    assert_int_equal(OPS->span_add(s, &span), 0);
    assert_int_equal(OPS->request_add(s, &request), 0);
    flush(s);
    OPS->close(s);
    s = open_at(build_path, (struct sonde_store_options){ .read_only = 1 });
    int spans = 0, requests = 0;
    if (OPS->spans(s, &everything, see_span, &spans, NULL, &err)) fail_msg("%s", err.text);
    if (OPS->requests(s, &everything, see_request, &requests, NULL, &err)) fail_msg("%s", err.text);
    assert_true(spans == 1 && requests == 1);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_found_again),        TEST(test_too_many),  TEST(test_findings),
        TEST(test_runs),               TEST(test_once),      TEST(test_retention),
        TEST(test_damaged),            TEST(test_any_bytes), TEST(test_facts),
        TEST(test_impossible_amounts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
