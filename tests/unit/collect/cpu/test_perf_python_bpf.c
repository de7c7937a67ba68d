/* Frames of Python that a BPF program copies at a sample. The interpreter is one that is built
 * here, in memory of this process, which is sampled while it computes: by the layouts of all
 * versions, in every state that it may be met in. Then records that make no sense, and to which
 * sample one belongs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collect/cpu/perf_python_bpf.h"
#include "collect/cpu/perf_python_sample.h"
#include "collect/perf/record.h"
#include "segment/python.h"
#include "sonde/sonde.h"

enum { DEEP = 3000, OTHERS = 300, CODES = 7, START = 40 /* first instruction that is told */ };
#define WAIT_NS 60000000000u

/* ---- An interpreter -------------------------------------------------------------------------- */

static struct {
    uint64_t runtime[16], interpreter[16];
    uint64_t others[OTHERS][64];        /* states of other threads, and last … */
    uint64_t thread[64];                /* … that of this one */
    uint64_t anchors[DEEP + 1][3];
    uint64_t frames[DEEP + 1][9];
    uint64_t codes[CODES][32];
    uint64_t type;
} it;

static void set(void *object, uint32_t off, uint64_t value)
{
    memcpy((char *)object + off, &value, sizeof(value));
}

static uint64_t address(const void *p) { return (uint64_t)(uintptr_t)p; }

static struct sonde__python_layout layout_said(void)
{
    struct sonde__python_layout l = sonde__python_3_12;
    l.chained = 0; /* as 3.13 */
    l.thread_top = 72;
    l.thread_id = 152;
    return l;
}

/* count functions, so many to a run; the last is that of code 0. */
static void build(const struct sonde__python_layout *l, uint32_t count, uint32_t run)
{
    memset(&it, 0, sizeof(it));
    set(it.runtime, l->runtime_interpreter + 8, address(it.interpreter));
    set(it.interpreter, l->interpreter_thread, address(it.others[0]));
    for (uint32_t i = 0; i < OTHERS; i++) {
        set(it.others[i], l->thread_next, address(i + 1 < OTHERS ? it.others[i + 1] : it.thread));
    }
    set(it.thread, l->thread_id, (uint64_t)syscall(SYS_gettid));
    for (uint32_t i = 0; i < CODES; i++) {
        set(it.codes[i], l->object_type, address(&it.type));
        set(it.codes[i], l->code_name, 1000 + i);
        set(it.codes[i], l->code_file, 2000);
        set(it.codes[i], l->code_lines, 3000 + i);
    }
    uint32_t anchors = 0;
    set(it.thread, l->thread_top, l->chained ? address(it.anchors[0]) : address(it.frames[0]));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t *f = it.frames[i];
        const int last = i % run == run - 1 || i + 1 == count;
        set(f, l->frame_code, address(it.codes[i % CODES]));
        set(f, l->frame_instruction,
            address(it.codes[i % CODES]) + l->code_start + 2 * (START + i));
        if (i + 1 < count) set(f, l->frame_previous, address(it.frames[i + 1]));
        if (last) ((char *)f)[l->frame_flag] = (char)l->frame_last;
        if (l->chained && i % run == 0) {
            uint64_t *a = it.anchors[anchors++];
            set(a, l->anchor_frame, address(f));
            set(a, l->anchor_previous, address(it.anchors[anchors]));
        }
    }
}

/* ---- Sampling -------------------------------------------------------------------------------- */

struct got {
    struct sonde_python_bpf_frame frames[SONDE_PYTHON_BPF_FRAMES_MAX];
    size_t count;
    uint32_t flags, records, samples;
};

static struct got got;
static struct sonde_perf_set set_of;
static struct sonde_perf_rings rings;
static struct sonde_python_bpf *bpf;
static volatile uint64_t spent;

static void drain(void)
{
    const struct perf_event_header *h;
    struct sonde_perf_record rec;
    uint32_t ring;
    sonde_perf_rings_begin(&rings, UINT64_MAX);
    while ((h = sonde_perf_rings_next(&rings, &ring))) {
        if (h->type != PERF_RECORD_SAMPLE) continue;
        const struct sonde_perf_event *e =
            sonde_perf_set_find(&set_of, sonde_perf_record_event(h));
        assert_non_null(e);
        if (e->kind == SONDE_PERF_CLOCK) got.samples++;
        if (e->kind != SONDE_PERF_OUTPUT) continue;
        assert_int_equal(sonde_perf_record_parse_output(h, &rec), 0);
        assert_int_equal(rec.pid, getpid());
        assert_int_equal(rec.tid, getpid());
        got.records++;
        got.count = sonde_python_bpf_parse(rec.u.output.data, rec.u.output.size, got.frames,
                                           &got.flags);
    }
}

/* Until there are so many records, and samples. */
static void sample(uint32_t records, uint32_t samples)
{
    const uint64_t end = sonde_clock_ns(CLOCK_MONOTONIC) + WAIT_NS;
    drain();
    memset(&got, 0, sizeof(got));
    while (got.records < records || got.samples < samples) {
        for (int i = 0; i < 200000; i++) spent++;
        drain();
        assert_true(sonde_clock_ns(CLOCK_MONOTONIC) < end);
    }
}

static void know(const struct sonde__python_layout *l)
{
    const struct sonde_python_bpf_process p = { .pid = (uint32_t)getpid(), .layout = l,
                                                .runtime = address(it.runtime),
                                                .type_code = address(&it.type) };
    assert_int_equal(sonde_python_bpf_add(bpf, &p), 0);
}

static int begin(void **state)
{
    (void)state;
    const struct sonde_perf_options o = { .pid = (uint32_t)getpid(), .rate_hz = 1000,
                                          .stack_bytes = 8192 };
    struct sonde_err err;
    if (sonde_python_bpf_create(&bpf, &err)) return 0; /* it is not permitted here */
    if (sonde_perf_set_init(&set_of, &o, &err)) return 0;
    if (sonde_perf_rings_init(&rings, set_of.rings, 2 * set_of.cpu_count)) return -1;
    if (sonde_python_bpf_attach(bpf, &set_of, &err)) return -1;
    return sonde_perf_set_open(&set_of, o.pid, &err);
}

static int end(void **state)
{
    (void)state;
    sonde_perf_rings_release(&rings);
    sonde_perf_set_release(&set_of);
    sonde_python_bpf_destroy(bpf);
    bpf = NULL;
    memset(&rings, 0, sizeof(rings));
    return 0;
}

/* What was built, as it was told: so many functions, of which the first are there. */
static void is_built(const struct sonde__python_layout *l, uint32_t count, uint32_t run)
{
    uint32_t n = 0, runs = 0;
    for (size_t i = 0; i < got.count; i++) {
        const struct sonde_python_bpf_frame *f = &got.frames[i];
        if (!f->code) {
            assert_int_equal(f->key, l->chained ? address(it.anchors[runs])
                                                : address(it.frames[n - 1]));
            runs++;
            continue;
        }
        const uint64_t *code = it.codes[n % CODES];
        assert_int_equal(f->code, address(code));
        assert_int_equal(f->key, sonde_python_bpf_key(l, address(code), (const char *)code));
        assert_int_equal(f->at, START + n);
        n++;
    }
    assert_int_equal(n, count);
    assert_int_equal(runs, (count + run - 1) / run);
}

static void test_layout(const struct sonde__python_layout *from)
{
    /* Ends of runs are functions here, whatever they are in this version. */
    struct sonde__python_layout l = *from;
    l.last_is_real = 1;
    build(&l, 3, 3);
    know(&l);
    sample(3, 3);
    assert_int_equal(got.flags, 0);
    is_built(&l, 3, 3);
    build(&l, 1500, 50); /* more than one program goes through */
    sample(2, 2);
    assert_int_equal(got.flags, 0);
    is_built(&l, 1500, 50);
    build(&l, DEEP, 100);
    sample(2, 2);
    assert_int_equal(got.flags, SONDE_PYTHON_BPF_CUT);
    assert_in_range(got.count, 1900, SONDE_PYTHON_BPF_FRAMES_MAX);

    build(&l, 6, 2);
    set(it.codes[3], l.object_type, 4711); /* the second run's last is none */
    sample(2, 2);
    assert_int_equal(got.flags, SONDE_PYTHON_BPF_BROKEN);
    assert_int_equal(got.count, 4);
    build(&l, 6, 2);
    set(it.frames[2], l.frame_previous, 16); /* is not there */
    sample(2, 2);
    assert_int_equal(got.flags, SONDE_PYTHON_BPF_BROKEN);
    assert_int_equal(got.count, 4);
    build(&l, 6, 2);
    for (uint32_t i = 0; i < 6; i++) { /* a circle */
        set(it.frames[i], l.frame_previous, address(it.frames[0]));
        ((char *)it.frames[i])[l.frame_flag] = 0;
    }
    sample(2, 2);
    assert_int_equal(got.flags, SONDE_PYTHON_BPF_CUT);
    sonde_python_bpf_remove(bpf, (uint32_t)getpid());
}

static void test_layouts(void **state)
{
    (void)state;
    const struct sonde__python_layout said = layout_said();
    if (!bpf || !set_of.rings) skip();
    test_layout(&sonde__python_3_11);
    test_layout(&sonde__python_3_12);
    test_layout(&said);
}

/* Ends that only mark the end are not told. */
static void test_marks(void **state)
{
    (void)state;
    const struct sonde__python_layout *l = &sonde__python_3_12;
    if (!bpf || !set_of.rings) skip();
    build(l, 6, 3);
    know(l);
    sample(2, 2);
    assert_int_equal(got.flags, 0);
    assert_int_equal(got.count, 6);
    assert_int_equal(got.frames[1].code, address(it.codes[1]));
    assert_int_equal(got.frames[2].code, 0);
    assert_int_equal(got.frames[2].key, address(it.anchors[0]));
    assert_int_equal(got.frames[3].code, address(it.codes[3]));
    sonde_python_bpf_remove(bpf, (uint32_t)getpid());
}

/* A thread without a state, or that runs nothing; one whose state is another by now; a list that
 * never ends; and a process that is not known any more. */
static void test_none(void **state)
{
    (void)state;
    const struct sonde__python_layout *l = &sonde__python_3_11;
    if (!bpf || !set_of.rings) skip();
    build(l, 3, 3);
    know(l);
    sample(1, 1);
    set(it.thread, l->thread_id, 1);
    sample(0, 5);
    set(it.others[OTHERS - 1], l->thread_next, address(it.others[0]));
    sample(0, 5);
    assert_int_equal(got.records, 0);
    set(it.others[7], l->thread_id, (uint64_t)getpid()); /* it is found after a while */
    set(it.others[7], l->thread_top, address(it.anchors[0]));
    sample(1, 1);
    is_built(l, 3, 3);
    set(it.anchors[0], l->anchor_frame, 0);
    sample(0, 5);
    set(it.anchors[0], l->anchor_frame, address(it.frames[0]));
    sample(1, 1);
    memset(it.runtime, 0, sizeof(it.runtime));
    set(it.others[7], l->thread_top, 8);
    sample(0, 5);
    assert_int_equal(got.records, 0);
    sonde_python_bpf_remove(bpf, (uint32_t)getpid());
    build(l, 3, 3);
    sample(0, 5);
    assert_int_equal(got.records, 0);
    assert_int_equal(sonde_python_bpf_lost(bpf), 0);
}

/* ---- Records --------------------------------------------------------------------------------- */

static void test_parse(void **state)
{
    (void)state;
    static struct sonde_python_bpf_frame out[SONDE_PYTHON_BPF_FRAMES_MAX];
    struct {
        struct sonde_python_bpf_record head;
        struct sonde_python_bpf_frame frames[2];
    } r = { .head = { 2, SONDE_PYTHON_BPF_CUT }, .frames = { { 1, 2, 3 }, { 0, 5, 0 } } };
    uint32_t flags;
    assert_int_equal(sonde_python_bpf_parse(&r, sizeof(r), out, &flags), 2);
    assert_int_equal(flags, SONDE_PYTHON_BPF_CUT);
    assert_int_equal(out[1].key, 5);
    assert_int_equal(sonde_python_bpf_parse(&r, sizeof(r) - 1, out, &flags), 0);
    assert_int_equal(sonde_python_bpf_parse(&r, 7, out, &flags), 0);
    r.head.count = UINT32_MAX;
    assert_int_equal(sonde_python_bpf_parse(&r, sizeof(r), out, &flags), 0);
    r.head.count = SONDE_PYTHON_BPF_FRAMES_MAX + 1;
    assert_int_equal(sonde_python_bpf_parse(&r, SIZE_MAX, out, &flags), 0);
}

static void test_pairs(void **state)
{
    (void)state;
    struct {
        struct sonde_python_bpf_record head;
        struct sonde_python_bpf_frame frames[1];
    } data = { .head = { 1, 0 }, .frames = { { 4096, 9, 3 } } };
    struct sonde_perf_python_samples s = { .count = 0 };
    struct sonde_perf_record out = { .pid = 5, .tid = 6, .time_ns = 1000000 };
    struct sonde_perf_record rec = { .pid = 5, .tid = 6, .time_ns = 1001000 };
    out.u.output.data = &data;
    out.u.output.size = sizeof(data);
    assert_null(sonde_perf_python_samples_take(&s, 0, &rec)); /* none came yet */
    sonde_perf_python_samples_put(&s, 1, 2, &out);
    assert_null(sonde_perf_python_samples_take(&s, 0, &rec)); /* another CPU's */
    const struct sonde_perf_python_sample *p = sonde_perf_python_samples_take(&s, 1, &rec);
    assert_non_null(p);
    assert_int_equal(p->count, 1);
    assert_int_equal(p->frames[0].at, 3);
    assert_null(sonde_perf_python_samples_take(&s, 1, &rec)); /* once */
    sonde_perf_python_samples_put(&s, 1, 2, &out);
    rec.tid = 7; /* the sample it was of is lost: it is no other's either */
    assert_null(sonde_perf_python_samples_take(&s, 1, &rec));
    rec.tid = 6;
    assert_null(sonde_perf_python_samples_take(&s, 1, &rec));
    sonde_perf_python_samples_put(&s, 1, 2, &out);
    rec.time_ns = 3000000;
    assert_null(sonde_perf_python_samples_take(&s, 1, &rec));
    sonde_perf_python_samples_put(&s, 2, 2, &out); /* there is no such CPU */
    sonde_perf_python_samples_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test_setup_teardown(test_layouts, begin, end),
        cmocka_unit_test_setup_teardown(test_marks, begin, end),
        cmocka_unit_test_setup_teardown(test_none, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
