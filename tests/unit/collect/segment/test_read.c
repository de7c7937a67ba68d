/* The reader against segments made by hand: what it reads, and a table of damage that it must
 * refuse in words or live through. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/segment/read.h"
#include "unit/collect/segment/segment_fixture.h"

#define PID 4242u
#define START 777u

struct fixture {
    char dir[64];
    int dirfd;
    struct build b;
    struct build_sample id;
    struct sonde_model *m;
    struct sonde_model_process *p;
    struct sonde_tick_clock clock;
    struct sonde_segment *s;
    struct sonde_err err;
};

static void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->dirfd = fixture_dir(f->dir);
    build_init(&f->b, PID, START, "prog");
    f->id = build_sample(&f->b);
    assert_int_equal(sonde_model_create(NULL, &f->m), 0);
    f->m->now_s = 1700000000; /* the sample was made before */
    f->p = sonde_model_process(f->m, PID, START, "prog");
    sonde_tick_clock_init(&f->clock);
    sonde_tick_clock_update(&f->clock);
}

static void fixture_release(struct fixture *f)
{
    sonde_model_destroy(f->m);
    fixture_end(&f->b, f->dir, f->dirfd, f->s);
}

/* Open (if need be), read and drain: the first failure. */
static int fixture_read(struct fixture *f, int last)
{
    int rc = f->s ? 0 : sonde_segment_open(f->dirfd, NAME, 0, &f->s, &f->err);
    if (rc == 0) rc = sonde_segment_read(f->s, f->m, f->p, last, &f->err);
    if (rc == 0) rc = sonde_segment_drain(f->s, f->m, f->p, &f->clock, last, &f->err);
    return rc;
}

static struct sonde_model_series *find(struct fixture *f, const char *name, const char *labels)
{
    for (size_t i = 0; i < f->m->family_count; i++) {
        struct sonde_model_family *family = f->m->families[i];
        if (strcmp(family->name, name) != 0) continue;
        for (size_t k = 0; k < family->series_count; k++) {
            if (!labels || strstr(family->series[k]->label_text, labels)) {
                return family->series[k];
            }
        }
    }
    return NULL;
}

static void reads_everything(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    build_write(&f.b, f.dirfd, NAME, f.b.bytes);
    assert_int_equal(fixture_read(&f, 0), 0);
    struct sonde_model_series *s = find(&f, "app_requests_total", "path");
    assert_string_equal(s->label_text, "zone=\"a\\\"b\",path=\"/x\",code=\"200\","
                                       "process=\"prog\",pid=\"4242\"");
    assert_int_equal(s->counter, 10 + 11 + 12 + 13);
    s = find(&f, "app_requests_total", "overflow");
    assert_string_equal(s->label_text,
                        "zone=\"a\\\"b\",overflow=\"true\",process=\"prog\",pid=\"4242\"");
    assert_int_equal(s->counter, 5);
    assert_true(find(&f, "app_depth", NULL)->gauge == -2.5);
    s = find(&f, "app_seconds", NULL);
    assert_int_equal(s->hist->count, 100);
    assert_int_equal(s->hist->zero, 1);
    assert_int_equal(s->hist->sum_raw, 4950ull * 1000000);
    assert_int_equal(s->exemplar_count, 1);
    assert_int_equal(s->exemplar[0].trace_lo, 6);
    assert_true(s->exemplar[0].value > 0.0989 && s->exemplar[0].value < 0.0991);
    s = find(&f, "sonde_series_overflow_total", "metric=\"app_requests_total\",label=\"path\"");
    assert_int_equal(s->counter, 3);
    assert_int_equal(find(&f, "sonde_spans_lost_total", NULL)->counter, 0);
    assert_int_equal(find(&f, "sonde_records_dropped_total", "reason=\"strings\"")->counter, 0);
    assert_true(find(&f, "sonde_segment_bytes", NULL)->gauge == (double)f.b.bytes);
    assert_int_equal(f.p->lanes, 1);
    assert_int_equal(f.m->span_next, 2);
    const struct sonde_model_span *span = &f.m->spans[0];
    assert_string_equal(span->name, "load model");
    assert_int_equal(span->duration_ns, 5000);
    assert_int_equal(span->id, 41);
    assert_int_equal(span->tid, 99);
    assert_int_equal(span->attr_count, 2);
    assert_string_equal(span->attrs[0].key, "size");
    assert_int_equal(span->attrs[0].value.i, 77);
    assert_string_equal(span->attrs[1].value.str, "text");
    assert_int_equal(f.m->spans[1].attr_count, 0);
    assert_int_equal(f.m->spans[1].outcome, SONDE_ERROR);
    s = find(&f, "sonde_span_duration_seconds", "span=\"load model\",outcome=\"error\"");
    assert_int_equal(s->hist->count, 1);
    assert_int_equal(s->hist->sum_raw, 2000);
    fixture_release(&f);
}

static void reads_on(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    build_write(&f.b, f.dirfd, NAME, f.b.bytes);
    assert_int_equal(fixture_read(&f, 0), 0);
    sonde_model_tick(f.m, 1700000001);
    struct sonde_model_series *old = find(&f, "app_done_total", NULL);
    assert_int_equal(old->history_count, 0); /* how long it took to get there is not known */

    *build_cell(&f.b, 3, f.id.plain) += 7;
    build_record(&f.b, 3, f.id.hist, 5000000);
    static const char *const labels[] = { "k", NULL };
    static const char *const values[] = { "gr\xc3\xbc\xc3\x9f\n", NULL };
    uint32_t family = build_family(&f.b, SONDE_COUNTER, "late_total", 1, labels, NULL);
    *build_cell(&f.b, 2, build_series(&f.b, family, values)) = 9;
    uint32_t name = build_family(&f.b, SONDE__TYPE_NAME, "late", 0, NULL, NULL);
    build_span(&f.b, 3, name, 50, 0, 0, 200);
    build_update(&f.b, f.dirfd, NAME);
    assert_int_equal(fixture_read(&f, 0), 0);
    sonde_model_tick(f.m, 1700000002);
    assert_int_equal(old->counter, 407);
    assert_true(old->history_count == 1 && old->history[1] == 7);
    struct sonde_model_series *late = find(&f, "late_total", "k=\"gr\xc3\xbc\xc3\x9f\\n\"");
    assert_int_equal(late->counter, 9);
    assert_true(late->history_count == 1 && late->history[1] == 9);
    struct sonde_model_series *h = find(&f, "app_seconds", NULL);
    assert_int_equal(h->hist->count, 101);
    assert_int_equal(h->hist->last_raw, 5000000);
    assert_int_equal(h->history_hist[1].count, 1);
    assert_int_equal(f.m->span_next, 3);
    assert_string_equal(f.m->spans[2].name, "late");
    assert_int_equal(f.m->spans[2].duration_ns, 0);
    assert_int_equal(f.m->spans[2].outcome, SONDE_ERROR);
    fixture_release(&f);
}

/* A ring that was written over, one with an unfinished record, one with an unknown name. */
static void rings(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    for (uint64_t i = 0; i < 100; i++) build_span(&f.b, 1, f.id.span_name, 100 + i, 0, 1, 0);
    build_write(&f.b, f.dirfd, NAME, f.b.bytes);
    assert_int_equal(fixture_read(&f, 0), 0);
    assert_int_equal(f.m->span_next, 102);
    assert_int_equal(f.p->spans_lost, 0);

    for (uint64_t i = 0; i < SONDE__RING_RECS + 10; i++) {
        build_span(&f.b, 1, f.id.span_name, 1000 + i, 0, 1, 0);
    }
    build_update(&f.b, f.dirfd, NAME);
    assert_int_equal(fixture_read(&f, 0), 0);
    assert_int_equal(f.p->spans_lost, 10);
    assert_int_equal(f.m->span_next, 102 + SONDE__RING_RECS);
    assert_int_equal(f.p->spans_seen, 102 + SONDE__RING_RECS);

    /* Reserved but not finished: waits for a while, then is passed over. */
    struct sonde__span_rec *r = build_span(&f.b, 2, f.id.span_name, 1, 0, 1, 0);
    uint64_t seq = r->seq_type;
    r->seq_type = 0;
    build_span(&f.b, 2, 0, 2, 0, 1, 0); /* name 0: the table was full */
    build_update(&f.b, f.dirfd, NAME);
    uint64_t before = f.m->span_next;
    assert_int_equal(fixture_read(&f, 0), 0);
    assert_int_equal(f.m->span_next, before);
    r->seq_type = seq; /* the writer was only slow */
    build_update(&f.b, f.dirfd, NAME);
    assert_int_equal(fixture_read(&f, 0), 0);
    assert_int_equal(f.m->span_next, before + 2);
    assert_string_equal(f.m->spans[before + 1].name, "(unnamed)");

    r = build_span(&f.b, 2, f.id.span_name, 3, 0, 1, 0);
    r->seq_type = 0;
    build_span(&f.b, 2, f.id.span_name, 4, 0, 1, 0);
    build_update(&f.b, f.dirfd, NAME);
    for (int i = 0; i < 3; i++) {
        f.clock.now_mono_ns += 99000000;
        assert_int_equal(fixture_read(&f, 0), 0);
        assert_int_equal(f.m->span_next, before + 2);
    }
    f.clock.now_mono_ns += 999000000;
    assert_int_equal(fixture_read(&f, 0), 0);
    assert_int_equal(f.m->span_next, before + 3);
    r = build_span(&f.b, 2, f.id.span_name, 5, 0, 1, 0);
    r->seq_type = 0;
    build_span(&f.b, 2, f.id.span_name, 6, 0, 1, 0);
    build_update(&f.b, f.dirfd, NAME);
    assert_int_equal(fixture_read(&f, 1), 0); /* dead: it will not be finished */
    assert_int_equal(f.m->span_next, before + 4);
    assert_int_equal(f.p->spans_lost, 10);
    fixture_release(&f);
}

static void names(void **state)
{
    (void)state;
    static const struct { const char *name; int rc; uint32_t pid; uint64_t start; uint32_t n; }
    cases[] = {
        { "1.2", 0, 1, 2, 0 },
        { "4242.777.3", 0, 4242, 777, 3 },
        { "4242.0", 0, 4242, 0, 0 },
        { "", -1, 0, 0, 0 }, { "agent.lock", -1, 0, 0, 0 }, { "1", -1, 0, 0, 0 },
        { "1.", -1, 0, 0, 0 }, { ".1", -1, 0, 0, 0 }, { "0.1", -1, 0, 0, 0 },
        { "01.1", -1, 0, 0, 0 }, { "1.1.0", -1, 0, 0, 0 }, { "1.1.1.1", -1, 0, 0, 0 },
        { "1.1.x", -1, 0, 0, 0 }, { "t242.777.tmp4242", -1, 0, 0, 0 }, { "-1.1", -1, 0, 0, 0 },
        { "4294967296.1", -1, 0, 0, 0 }, { "1.99999999999999999999", -1, 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_segment_name id = { 0, 0, 0 };
        assert_int_equal(sonde_segment_name_parse(cases[i].name, &id), cases[i].rc);
        assert_int_equal(id.pid, cases[i].pid);
        assert_int_equal(id.start, cases[i].start);
        assert_int_equal(id.n, cases[i].n);
    }
}

/* ---- Damage ------------------------------------------------------------------------------- */

static void h_magic(struct build *b) { b->h->magic ^= 1; }
static void h_future(struct build *b) { b->h->abi = 7; }
static void h_past(struct build *b) { b->h->abi = 0; }
static void h_check(struct build *b) { b->h->check ^= 4; }
static void h_boot(struct build *b) { b->h->boot_id[3] ^= 0x40; build_seal(b); }
static void h_pid(struct build *b) { b->h->pid++; build_seal(b); }
static void h_start(struct build *b) { b->h->start_time++; build_seal(b); }
static void h_program(struct build *b) { memset(b->h->program, 'x', 64); build_seal(b); }
static void h_program8(struct build *b) { b->h->program[0] = (char)0xff; build_seal(b); }
static void h_size(struct build *b)
{
    b->h->file_bytes += 4096;
    b->h->block_max += 4096;
    build_seal(b);
}
static void h_size_less(struct build *b) { b->h->file_bytes -= 4096; build_seal(b); }
static void h_size_huge(struct build *b) { b->h->file_bytes = UINT64_MAX; build_seal(b); }
static void h_families(struct build *b) { b->h->family_max = UINT32_MAX; build_seal(b); }
static void h_series(struct build *b) { b->h->series_max = 0; build_seal(b); }
static void h_series_many(struct build *b) { b->h->series_max = 5000; build_seal(b); }
static void h_lanes(struct build *b) { b->h->lane_max = UINT32_MAX; build_seal(b); }
static void h_shared(struct build *b) { b->h->lanes_shared = BUILD_LANES; build_seal(b); }
static void h_stride(struct build *b) { b->h->lane_stride = 0; build_seal(b); }
static void h_stride_huge(struct build *b) { b->h->lane_stride = 1ull << 40; build_seal(b); }
static void h_stride_odd(struct build *b) { b->h->lane_stride = 4095; build_seal(b); }
static void h_family_off(struct build *b) { b->h->family_off = 64; build_seal(b); }
static void h_family_odd(struct build *b) { b->h->family_off += 8; build_seal(b); }
static void h_series_off(struct build *b) { b->h->series_off = b->h->family_off; build_seal(b); }
static void h_string_off(struct build *b) { b->h->string_off = b->h->series_off; build_seal(b); }
static void h_string_max(struct build *b) { b->h->string_max = UINT64_MAX; build_seal(b); }
static void h_lane_off(struct build *b) { b->h->lane_off = b->h->string_off; build_seal(b); }
static void h_heap_off(struct build *b) { b->h->block_off = b->h->lane_off; build_seal(b); }
static void h_heap_far(struct build *b) { b->h->block_off = 1ull << 62; build_seal(b); }
static void h_heap_max(struct build *b) { b->h->block_max = UINT64_MAX - 64; build_seal(b); }

static void c_families(struct build *b) { b->h->family_count = BUILD_FAMILIES + 1; }
static void c_families_huge(struct build *b) { b->h->family_count = UINT32_MAX; }
static void c_families_none(struct build *b) { b->h->family_count = 0; }
static void c_families_hole(struct build *b) { b->h->family_ready = 0; }
static void c_series(struct build *b) { b->h->series_count = BUILD_SERIES + 1; }
static void c_series_hole(struct build *b) { b->h->series_ready = 128; }
static void c_series_empty(struct build *b) { b->h->series_count++; }
static void c_families_empty(struct build *b) { b->h->family_count++; }
static void c_lanes(struct build *b) { b->h->lane_count = BUILD_LANES + 1; }
static void c_cells(struct build *b) { b->h->cells_ready = 1u << 20; }
static void c_strings(struct build *b) { b->h->string_used = BUILD_STRINGS + 1; }
static void c_strings_hole(struct build *b) { b->h->string_ready = 8; }
static void c_strings_less(struct build *b) { b->h->string_used = 8; }
static void c_heap(struct build *b) { b->h->block_ready = UINT64_MAX; }
static void c_heap_hole(struct build *b) { b->h->block_ready = 0; }

static void f_bit(struct build *b) { build_family_at(b, 1)->kind ^= 2; }
static void f_text(struct build *b) { b->base[b->h->string_off + 2] ^= 1; }
static void f_type(struct build *b) { build_family_at(b, 1)->type = 9; build_family_seal(b, 1); }
static void f_scale(struct build *b) { build_family_at(b, 1)->scale = -1; build_family_seal(b, 1); }
static void f_scale_nan(struct build *b)
{
    build_family_at(b, 1)->scale = __builtin_nan("");
    build_family_seal(b, 1);
}
static void f_name_off(struct build *b) { build_family_at(b, 1)->name.off = UINT32_MAX; }
static void f_name_len(struct build *b) { build_family_at(b, 1)->name.len = UINT32_MAX; }
static void f_name_empty(struct build *b)
{
    build_family_at(b, 1)->name.len = 0;
    build_family_seal(b, 1);
}
static void f_name_bad(struct build *b)
{
    b->base[b->h->string_off + build_family_at(b, 1)->name.off] = '9';
    build_family_seal(b, 1);
}
static void f_name_newline(struct build *b)
{
    b->base[b->h->string_off + build_family_at(b, 1)->name.off + 3] = '\n';
    build_family_seal(b, 1);
}
static void f_help8(struct build *b)
{
    b->base[b->h->string_off + build_family_at(b, 1)->help.off] = (char)0xc0;
    build_family_seal(b, 1);
}
static void f_labels_more(struct build *b)
{
    build_family_at(b, 1)->label_count = 3;
    build_family_seal(b, 1);
}
static void f_labels_less(struct build *b)
{
    build_family_at(b, 1)->label_count = 1;
    build_family_seal(b, 1);
}
static void f_labels_huge(struct build *b)
{
    build_family_at(b, 1)->label_count = UINT32_MAX;
    build_family_seal(b, 1);
}
static void f_tags_more(struct build *b)
{
    build_family_at(b, 1)->tag_count = 2;
    build_family_seal(b, 1);
}
static void f_label_len(struct build *b)
{
    b->base[b->h->string_off + build_family_at(b, 1)->labels.off + 1] = 0x7f;
    build_family_seal(b, 1);
}
static void f_label_bad(struct build *b)
{
    b->base[b->h->string_off + build_family_at(b, 1)->labels.off + 2] = '{';
    build_family_seal(b, 1);
}
static void f_label_le(struct build *b)
{
    static const char *const le[] = { "le", NULL };
    build_family(b, SONDE_HISTOGRAM, "x", 1, le, NULL);
}
static void f_label_twice(struct build *b)
{
    static const char *const two[] = { "a", "a", NULL };
    build_family(b, SONDE_COUNTER, "x", 1, two, NULL);
}
static void s_bit(struct build *b) { build_series_at(b, 1)->created_ns ^= 1; }
static void s_family(struct build *b)
{
    build_series_at(b, 1)->family = 999;
    build_series_seal(b, 1);
}
static void s_family_none(struct build *b)
{
    build_series_at(b, 1)->family = 0;
    build_series_seal(b, 1);
}
static void s_family_name(struct build *b)
{
    build_series_at(b, 1)->family = 5;
    build_series_seal(b, 1);
}
static void s_values_off(struct build *b) { build_series_at(b, 1)->values.off = 1u << 30; }
static void s_values_len(struct build *b) { build_series_at(b, 1)->values.len = 1u << 30; }
static void s_values_short(struct build *b)
{
    build_series_at(b, 1)->values.len--;
    build_series_seal(b, 1);
}
static void s_values8(struct build *b)
{
    b->base[b->h->string_off + build_series_at(b, 1)->values.off + 2] = (char)0x80;
    build_series_seal(b, 1);
}
static void s_values_none(struct build *b)
{
    build_series_at(b, 1)->values.len = 0;
    build_series_seal(b, 1);
}

#define HIST 4u /* the histogram's series in build_sample */
static void v_block_out(struct build *b) { *build_cell(b, 1, HIST) = b->bytes + 64; }
static void v_block_low(struct build *b) { *build_cell(b, 1, HIST) = 64; }
static void v_block_odd(struct build *b) { *build_cell(b, 1, HIST) += 8; }
static void v_block_end(struct build *b) { *build_cell(b, 1, HIST) = b->bytes - 64; }
static void v_block_huge(struct build *b) { *build_cell(b, 1, HIST) = UINT64_MAX - 63; }
static void v_octave_out(struct build *b) { build_hist(b, 1, HIST)->octave[95] = UINT32_MAX; }
static void v_octave_low(struct build *b) { build_hist(b, 1, HIST)->octave[3] = 1; }
static void r_out(struct build *b) { build_lane(b, 2)->ring = b->bytes; }
static void r_low(struct build *b) { build_lane(b, 2)->ring = 4096; }
static void r_odd(struct build *b) { build_lane(b, 2)->ring += 32; }
static void r_reserve(struct build *b) { build_ring(b, 2)->reserve = UINT64_MAX; }
static void r_reserve_far(struct build *b) { build_ring(b, 2)->reserve = 1ull << 40; }
static void r_name(struct build *b) { build_ring(b, 2)->rec[2].name_tid |= 0xffffff; }
static void r_attr(struct build *b) { build_ring(b, 2)->rec[0].end = UINT64_MAX; }
static void r_type(struct build *b) { build_ring(b, 2)->rec[2].seq_type |= 0x70; }
static void r_time(struct build *b) { build_ring(b, 2)->rec[2].start = UINT64_MAX; }
static void v_seq_odd(struct build *b) { build_hist(b, 2, HIST)->ex_seq = 3; }
static void h_spare(struct build *b) { b->h->define_lock = UINT32_MAX; }

/* rc 0: read, with damage passed over. */
static const struct damage {
    const char *name;
    void (*apply)(struct build *b);
    int rc;
    const char *words;
} damages[] = {
    { "magic", h_magic, SONDE_EFORMAT, "not a segment" },
    { "future version", h_future, SONDE_EVERSION, "a newer version of the format, 7" },
    { "past version", h_past, SONDE_EVERSION, "this agent reads " },
    { "check sum", h_check, SONDE_EFORMAT, "check sum of its header" },
    { "other boot", h_boot, SONDE_ESTALE, "another boot" },
    { "pid", h_pid, SONDE_EFORMAT, "unlike its name" },
    { "start", h_start, SONDE_EFORMAT, "unlike its name" },
    { "program endless", h_program, SONDE_EFORMAT, "name is not text" },
    { "program not UTF-8", h_program8, SONDE_EFORMAT, "name is not text" },
    { "size", h_size, SONDE_EFORMAT, "cut short" },
    { "size less", h_size_less, SONDE_EFORMAT, "past the end" },
    { "size huge", h_size_huge, SONDE_EFORMAT, "impossible limits" },
    { "families", h_families, SONDE_EFORMAT, "impossible limits" },
    { "no series", h_series, SONDE_EFORMAT, "impossible limits" },
    { "more series than a lane holds", h_series_many, SONDE_EFORMAT, "impossible limits" },
    { "lanes", h_lanes, SONDE_EFORMAT, "impossible limits" },
    { "all lanes shared", h_shared, SONDE_EFORMAT, "impossible limits" },
    { "stride 0", h_stride, SONDE_EFORMAT, "impossible limits" },
    { "stride huge", h_stride_huge, SONDE_EFORMAT, "larger than any file" },
    { "stride odd", h_stride_odd, SONDE_EFORMAT, "impossible limits" },
    { "families over the header", h_family_off, SONDE_EFORMAT, "families overlaps" },
    { "families unaligned", h_family_odd, SONDE_EFORMAT, "families overlaps" },
    { "series over families", h_series_off, SONDE_EFORMAT, "series overlaps" },
    { "strings over series", h_string_off, SONDE_EFORMAT, "string area overlaps" },
    { "strings endless", h_string_max, SONDE_EFORMAT, "impossible limits" },
    { "lanes over strings", h_lane_off, SONDE_EFORMAT, "lanes overlaps" },
    { "heap over lanes", h_heap_off, SONDE_EFORMAT, "block area overlaps" },
    { "heap far", h_heap_far, SONDE_EFORMAT, "past the end" },
    { "heap endless", h_heap_max, SONDE_EFORMAT, "impossible limits" },
    { "family count", c_families, SONDE_EFORMAT, "families where 32" },
    { "family count huge", c_families_huge, SONDE_EFORMAT, "families where" },
    { "family count 0", c_families_none, SONDE_EFORMAT, "disappeared" },
    { "families in a hole", c_families_hole, SONDE_EFORMAT, "families where 0" },
    { "series count", c_series, SONDE_EFORMAT, "series where 64" },
    { "series in a hole", c_series_hole, SONDE_EFORMAT, "series where 2" },
    { "series that is none", c_series_empty, SONDE_EFORMAT, "series 6 has a wrong check sum" },
    { "family that is none", c_families_empty, SONDE_EFORMAT, "family 7 is of no known type" },
    { "lane count", c_lanes, SONDE_EFORMAT, "lanes where 4" },
    { "cell count", c_cells, SONDE_EFORMAT, "cells where" },
    { "string count", c_strings, SONDE_EFORMAT, "bytes of text where" },
    { "strings in a hole", c_strings_hole, SONDE_EFORMAT, "bytes of text where 8" },
    { "strings less", c_strings_less, SONDE_EFORMAT, "outside the string area" },
    { "heap count", c_heap, SONDE_EFORMAT, "bytes of blocks where" },
    { "heap in a hole", c_heap_hole, SONDE_EFORMAT, "outside the block area" },
    { "family bit", f_bit, SONDE_EFORMAT, "family 1 has a wrong check sum" },
    { "family text bit", f_text, SONDE_EFORMAT, "family 1 has a wrong check sum" },
    { "family type", f_type, SONDE_EFORMAT, "no known type" },
    { "family scale", f_scale, SONDE_EFORMAT, "impossible scale" },
    { "family scale NaN", f_scale_nan, SONDE_EFORMAT, "impossible scale" },
    { "family name far", f_name_off, SONDE_EFORMAT, "outside the string area" },
    { "family name endless", f_name_len, SONDE_EFORMAT, "outside the string area" },
    { "family name empty", f_name_empty, SONDE_EFORMAT, "invalid name" },
    { "family name digit", f_name_bad, SONDE_EFORMAT, "invalid name" },
    { "family name newline", f_name_newline, SONDE_EFORMAT, "invalid name" },
    { "family help not UTF-8", f_help8, SONDE_EFORMAT, "not UTF-8" },
    { "label count more", f_labels_more, SONDE_EFORMAT, "not well-formed" },
    { "label count less", f_labels_less, SONDE_EFORMAT, "not well-formed" },
    { "label count huge", f_labels_huge, SONDE_EFORMAT, "too many labels" },
    { "tag count more", f_tags_more, SONDE_EFORMAT, "not well-formed" },
    { "label length", f_label_len, SONDE_EFORMAT, "not well-formed" },
    { "label name", f_label_bad, SONDE_EFORMAT, "label with an invalid name" },
    { "label le", f_label_le, SONDE_EFORMAT, "label with an invalid name" },
    { "label twice", f_label_twice, SONDE_EFORMAT, "label with an invalid name" },
    { "series bit", s_bit, SONDE_EFORMAT, "series 1 has a wrong check sum" },
    { "series of no family", s_family, SONDE_EFORMAT, "belongs to no family" },
    { "series of family 0", s_family_none, SONDE_EFORMAT, "belongs to no family" },
    { "series of a name", s_family_name, SONDE_EFORMAT, "belongs to no family" },
    { "values far", s_values_off, SONDE_EFORMAT, "outside the string area" },
    { "values endless", s_values_len, SONDE_EFORMAT, "outside the string area" },
    { "values short", s_values_short, SONDE_EFORMAT, "not well-formed" },
    { "values not UTF-8", s_values8, SONDE_EFORMAT, "not well-formed" },
    { "values missing", s_values_none, SONDE_EFORMAT, "not well-formed" },
    { "block out", v_block_out, SONDE_EFORMAT, "outside the block area" },
    { "block low", v_block_low, SONDE_EFORMAT, "outside the block area" },
    { "block odd", v_block_odd, SONDE_EFORMAT, "outside the block area" },
    { "block at the end", v_block_end, SONDE_EFORMAT, "outside the block area" },
    { "block huge", v_block_huge, SONDE_EFORMAT, "outside the block area" },
    { "octave out", v_octave_out, SONDE_EFORMAT, "outside the block area" },
    { "octave low", v_octave_low, SONDE_EFORMAT, "outside the block area" },
    { "ring out", r_out, SONDE_EFORMAT, "outside the block area" },
    { "ring low", r_low, SONDE_EFORMAT, "outside the block area" },
    { "ring odd", r_odd, SONDE_EFORMAT, "outside the block area" },
    { "ring index at the end", r_reserve, 0, NULL },
    { "ring index far", r_reserve_far, 0, NULL },
    { "span name unknown", r_name, 0, NULL },
    { "attribute nonsense", r_attr, 0, NULL },
    { "record type unknown", r_type, 0, NULL },
    { "span from the future", r_time, 0, NULL },
    { "exemplar unfinished", v_seq_odd, 0, NULL },
    { "writers' own fields", h_spare, 0, NULL },
};

static void damage_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        const struct damage *d = &damages[i];
        struct fixture f;
        fixture_init(&f);
        d->apply(&f.b);
        build_write(&f.b, f.dirfd, NAME, f.b.bytes);
        int rc = fixture_read(&f, 0);
        if (rc == 0) rc = fixture_read(&f, 1);
        if (rc != d->rc || (d->words && !strstr(f.err.text, d->words))) {
            print_error("%s: %d %s\n", d->name, rc, f.err.text);
            fail();
        }
        fixture_release(&f);
    }
}

/* Cut before the open: refused. Cut under the mapping: noticed, and nothing dies. */
static void truncation(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    for (uint64_t bytes = 0; bytes < f.b.bytes; bytes += bytes < 65536 ? 4096 : 65536) {
        build_write(&f.b, f.dirfd, NAME, bytes);
        assert_int_equal(fixture_read(&f, 0), SONDE_EFORMAT);
        assert_non_null(strstr(f.err.text, "short"));
        assert_null(f.s);

        build_write(&f.b, f.dirfd, NAME, f.b.bytes);
        assert_int_equal(sonde_segment_open(f.dirfd, NAME, 0, &f.s, &f.err), 0);
        int fd = openat(f.dirfd, NAME, O_RDWR);
        assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
        close(fd);
        int rc = fixture_read(&f, 1);
        assert_true(rc == 0 || rc == SONDE_EFORMAT);
        if (bytes <= f.b.h->block_off) assert_int_equal(rc, SONDE_EFORMAT);
        sonde_segment_close(f.s);
        f.s = NULL;
    }
    fixture_release(&f);
}

/* Every bit of the fixed header is covered by the check sum. */
static void header_bits(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    for (size_t byte = 0; byte < SONDE__HEADER_FIXED; byte++) {
        for (int bit = 0; bit < 8; bit += 7) {
            f.b.base[byte] = (char)(f.b.base[byte] ^ (1 << bit));
            build_write(&f.b, f.dirfd, NAME, SONDE__PAGE);
            assert_int_not_equal(fixture_read(&f, 0), 0);
            assert_null(f.s);
            f.b.base[byte] = (char)(f.b.base[byte] ^ (1 << bit));
        }
    }
    fixture_release(&f);
}

/* Damage that comes while it is being read. */
static void later_damage(void **state)
{
    (void)state;
    static const struct { const char *what; int step; const char *words; } cases[] = {
        { "counter", 0, "went backwards" },      { "bucket", 1, "went backwards" },
        { "zero", 2, "went backwards" },         { "block moved", 3, "has moved" },
        { "ring moved", 4, "has moved" },        { "ring back", 5, "went backwards" },
        { "fewer families", 6, "disappeared" },  { "fewer series", 7, "disappeared" },
        { "octave gone", 8, "went backwards" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct fixture f;
        fixture_init(&f);
        build_write(&f.b, f.dirfd, NAME, f.b.bytes);
        assert_int_equal(fixture_read(&f, 0), 0);
        struct sonde__hist *h = build_hist(&f.b, 1, f.id.hist);
        uint32_t o = 0;
        while (!h->octave[o]) o++;
        switch (cases[i].step) {
        case 0: *build_cell(&f.b, 2, f.id.counter) -= 1; break;
        case 1: memset(f.b.base + (uint64_t)h->octave[o] * 64, 0, 512); break;
        case 2: h->zero = 0; build_hist(&f.b, 2, f.id.hist)->zero = 0; break;
        case 3: *build_cell(&f.b, 1, f.id.hist) += 64; break;
        case 4: build_lane(&f.b, 2)->ring += 64; break;
        case 5: build_ring(&f.b, 2)->reserve = 1; break;
        case 6: f.b.h->family_count--; break;
        case 7: f.b.h->series_count--; break;
        default: h->octave[o] = 0; break;
        }
        build_update(&f.b, f.dirfd, NAME);
        assert_int_equal(fixture_read(&f, 1), SONDE_EFORMAT);
        if (!strstr(f.err.text, cases[i].words)) {
            print_error("%s: %s\n", cases[i].what, f.err.text);
            fail();
        }
        fixture_release(&f);
    }
}

static void only_regular_files(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    assert_int_equal(fixture_read(&f, 0), SONDE_ENOENT);
    assert_int_equal(symlinkat("/etc/passwd", f.dirfd, NAME), 0);
    assert_int_equal(fixture_read(&f, 0), SONDE_EACCES);
    assert_non_null(strstr(f.err.text, "symbolic link"));
    unlinkat(f.dirfd, NAME, 0);
    assert_int_equal(mkfifoat(f.dirfd, NAME, 0600), 0);
    assert_int_equal(fixture_read(&f, 0), SONDE_EACCES);
    unlinkat(f.dirfd, NAME, 0);
    assert_int_equal(mkdirat(f.dirfd, NAME, 0700), 0);
    assert_int_equal(fixture_read(&f, 0), SONDE_EACCES);
    assert_non_null(strstr(f.err.text, "regular"));
    unlinkat(f.dirfd, NAME, AT_REMOVEDIR);
    fixture_release(&f);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 160; nth++) {
        struct fixture f;
        fixture_init(&f);
        build_write(&f.b, f.dirfd, NAME, f.b.bytes);
        sonde__alloc_fail_nth(nth);
        int rc = fixture_read(&f, 0);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        assert_int_equal(fixture_read(&f, 1), 0); /* with memory again it goes on */
        struct sonde_model_series *s = find(&f, "app_seconds", NULL);
        if (s && s->hist) assert_int_equal(s->hist->count, 100);
        fixture_release(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_everything), cmocka_unit_test(reads_on),
        cmocka_unit_test(rings), cmocka_unit_test(names),
        cmocka_unit_test(damage_is_refused), cmocka_unit_test(truncation),
        cmocka_unit_test(header_bits), cmocka_unit_test(later_damage),
        cmocka_unit_test(only_regular_files), cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
