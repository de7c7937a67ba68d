/* Commands of GPUs out of segments made by hand: what is there is read, as records and as series;
 * what makes no sense is refused or left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/segment/kernel_records.h"
#include "sonde/sonde.h"
#include "unit/collect/segment/kernel_build.h"
#include "unit/collect/segment/segment_fixture.h"

struct fixture {
    char dir[64];
    int dirfd;
    struct build b;
    struct sonde__kernels *k;
    struct sonde_segment *s;
    struct sonde_err err;
    struct sonde_segment_kernel seen[16];
    struct sonde_segment_kernel_wait waits[16];
    uint32_t seen_count, wait_count, maps;
    uint64_t lost;
};

static void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->dirfd = fixture_dir(f->dir);
    build_init(&f->b, 4242, 777, "prog");
    f->k = build_kernels(&f->b, 64);
}

static void fixture_release(struct fixture *f) { fixture_end(&f->b, f->dir, f->dirfd, f->s); }

static void on_kernel(void *arg, const struct sonde_segment_kernel *k)
{
    struct fixture *f = arg;
    assert_true(f->seen_count < 16);
    f->seen[f->seen_count++] = *k;
}

static void on_wait(void *arg, const struct sonde_segment_kernel_wait *w)
{
    struct fixture *f = arg;
    f->waits[f->wait_count++] = *w;
}

static void on_map(void *arg, const struct sonde_mapping *m)
{
    struct fixture *f = arg;
    assert_true(m->start < m->end);
    f->maps++;
}

static int fixture_read(struct fixture *f)
{
    const struct sonde_segment_kernel_sink sink = { on_kernel, on_wait, on_map, f };
    fixture_write(&f->b, f->dirfd, &f->s);
    return sonde_segment_kernel_records(f->s, &sink, 1, &f->lost, &f->err);
}

static void reads_what_is_there(void **state)
{
    struct fixture f;
    char name[SONDE_SEGMENT_KERNEL_TEXT];
    struct sonde_segment_kernel_stack stack;
    struct sonde_segment_kernels_info info;
    (void)state;
    fixture_init(&f);
    const uint32_t kernel = build_kernel_name(&f.b, "mul_mat");
    const uint32_t queue = build_kernel_queue(f.k, build_kernel_name(&f.b, "a device"));
    const uint32_t at = build_kernel_stack(&f.b, 5, 0x1000);
    build_kernel(f.k, SONDE__KERNEL_OP_KERNEL, queue, kernel, at, 1000, 77, 0);
    build_kernel(f.k, SONDE__KERNEL_OP_READ, queue, 0, at, 2000, 10, 4096);
    build_kernel_wait(f.k, SONDE__KERNEL_WAIT_FINISH, queue, 3000, 500);
    assert_int_equal(fixture_read(&f), 0);
    assert_int_equal(f.seen_count, 2);
    const struct sonde_segment_kernel *k = &f.seen[0];
    assert_int_equal(k->op, SONDE__KERNEL_OP_KERNEL);
    assert_int_equal(k->tid, 4243);
    assert_int_equal(k->queued_ns, 1000);
    assert_int_equal(k->end_ns - k->start_ns, 77);
    assert_int_equal(k->global[0], 1024);
    assert_int_equal(k->local[0], 64);
    assert_int_equal(k->local[1], 2);
    assert_int_equal(k->local[2], 1);
    assert_int_equal(k->name, kernel);
    assert_int_equal(f.seen[1].bytes, 4096);
    assert_int_equal(f.wait_count, 1);
    assert_int_equal(f.waits[0].end_ns - f.waits[0].begin_ns, 500);
    assert_int_equal(sonde_segment_kernel_name(f.s, kernel, name, &f.err), 0);
    assert_string_equal(name, "mul_mat");
    assert_int_equal(sonde_segment_kernel_stack(f.s, at, &stack, &f.err), 0);
    assert_int_equal(stack.depth, 5);
    assert_int_equal(stack.ip[4], 0x1004);
    assert_int_equal(sonde_segment_kernels(f.s, &info, &f.err), 0);
    assert_int_equal(info.recorded, 2);
    assert_int_equal(info.queues, 2);
    assert_int_equal(f.lost, 0);
    fixture_release(&f);
}

/* Each makes one word of the first record wrong. */
static const struct { const char *what; uint32_t word; uint64_t value; int is_untimed, is_lost; }
    wrongs[] = {
    { "operation that there is not", 2, (uint64_t)SONDE__KERNEL_OP_COUNT << 16, 0, 1 },
    { "submitted before it was queued", 5, 1, 1, 0 },
    { "ended before it began", 6, 1ull << 40, 1, 0 },
    { "no start", 6, 0, 1, 0 },
    { "called in a far future", 0, UINT64_MAX, 0, 1 },
    { "a queue that there is not", 2, 0xffff, 0, 0 },
};

static void leaves_out_what_is_wrong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrongs) / sizeof(wrongs[0]); i++) {
        struct fixture f;
        fixture_init(&f);
        uint64_t *words = build_kernel(f.k, SONDE__KERNEL_OP_KERNEL, 0, 0, 0, 1000, 77, 0);
        words[wrongs[i].word] = wrongs[i].value;
        assert_int_equal(fixture_read(&f), 0);
        if (f.seen_count != (wrongs[i].is_lost ? 0 : 1)) fail_msg("%s", wrongs[i].what);
        if (f.seen_count && f.seen[0].queue >= SONDE__KERNEL_QUEUES) fail_msg("%s", wrongs[i].what);
        if (f.seen_count && (f.seen[0].start_ns == 0) != wrongs[i].is_untimed) {
            fail_msg("%s", wrongs[i].what);
        }
        fixture_release(&f);
    }
}

static void refuses_damage(void **state)
{
    struct sonde_segment_kernels_info info;
    struct sonde_segment_kernel_stack stack;
    char name[SONDE_SEGMENT_KERNEL_TEXT];
    struct fixture f;
    (void)state;
    fixture_init(&f);
    const uint32_t kernel = build_kernel_name(&f.b, "bad\nname\x7f");
    const uint32_t long_one = build_kernel_name(&f.b, "x");
    const uint32_t unready = build_kernel_name(&f.b, "y");
    const uint32_t deep = build_kernel_stack(&f.b, 3, 1);
    ((struct sonde__kernel_name *)(void *)(f.b.base + sonde__kernel_off(long_one)))->bytes = 1u << 30;
    ((struct sonde__kernel_name *)(void *)(f.b.base + sonde__kernel_off(unready)))->ready = 0;
    ((struct sonde__kernel_stack *)(void *)(f.b.base + sonde__kernel_off(deep)))->depth = 1u << 20;
    assert_int_equal(fixture_read(&f), 0);
    assert_int_equal(sonde_segment_kernel_name(f.s, kernel, name, &f.err), 0);
    assert_string_equal(name, "bad?name?");
    assert_int_equal(sonde_segment_kernel_name(f.s, 0, name, &f.err), SONDE_ENOENT);
    assert_int_equal(sonde_segment_kernel_name(f.s, long_one, name, &f.err), SONDE_EFORMAT);
    assert_int_equal(sonde_segment_kernel_name(f.s, unready, name, &f.err), SONDE_EBUSY);
    assert_int_equal(sonde_segment_kernel_name(f.s, UINT32_MAX, name, &f.err), SONDE_EFORMAT);
    assert_int_equal(sonde_segment_kernel_stack(f.s, deep, &stack, &f.err), SONDE_EFORMAT);
    assert_int_equal(sonde_segment_kernel_stack(f.s, kernel, &stack, &f.err), SONDE_EFORMAT);
    f.k->queue_count = SONDE__KERNEL_QUEUES + 1;
    fixture_write(&f.b, f.dirfd, &f.s);
    assert_int_equal(sonde_segment_kernels(f.s, &info, &f.err), SONDE_EFORMAT);
    fixture_release(&f);
}

static void refuses_rings_outside(void **state)
{
    struct sonde_segment_kernels_info info;
    struct fixture f;
    (void)state;
    fixture_init(&f);
    f.k->chunk_count = 1u << 23;
    fixture_write(&f.b, f.dirfd, &f.s);
    assert_int_equal(sonde_segment_kernels(f.s, &info, &f.err), SONDE_EFORMAT);
    fixture_release(&f);
    fixture_init(&f);
    f.b.h->kernels = 64;
    fixture_write(&f.b, f.dirfd, &f.s);
    assert_int_equal(sonde_segment_kernels(f.s, &info, &f.err), SONDE_EFORMAT);
    fixture_release(&f);
}

static uint64_t counter_of(const struct sonde_model *m, const char *name, const char *labels)
{
    for (size_t i = 0; i < m->family_count; i++) {
        const struct sonde_model_family *family = m->families[i];
        for (size_t k = 0; !strcmp(family->name, name) && k < family->series_count; k++) {
            if (strstr(family->series[k]->label_text, labels)) return family->series[k]->counter;
        }
    }
    return UINT64_MAX;
}

static void series(void **state)
{
    struct fixture f;
    struct sonde_model *m;
    struct sonde_tick_clock clock;
    (void)state;
    fixture_init(&f);
    const uint32_t kernel = build_kernel_name(&f.b, "rms_norm_f32");
    const uint32_t queue = build_kernel_queue(f.k, build_kernel_name(&f.b, "a device"));
    build_kernel(f.k, SONDE__KERNEL_OP_KERNEL, queue, kernel, 0, 1000, 70, 0);
    build_kernel(f.k, SONDE__KERNEL_OP_KERNEL, queue, kernel, 0, 2000, 30, 0);
    build_kernel(f.k, SONDE__KERNEL_OP_WRITE, queue, 0, 0, 3000, 10, 4096);
    build_kernel_wait(f.k, SONDE__KERNEL_WAIT_EVENTS, queue, 5000, 123);
    f.k->crowded = 4;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    struct sonde_model_process *p = sonde_model_process(m, 4242, 777, "prog");
    sonde_tick_clock_init(&clock);
    fixture_write(&f.b, f.dirfd, &f.s);
    assert_int_equal(sonde_segment_drain(f.s, m, p, &clock, 0, &f.err), 0);
    assert_int_equal(sonde_segment_drain(f.s, m, p, &clock, 1, &f.err), 0);
    assert_int_equal(counter_of(m, "sonde_gpu_kernel_seconds_total", "class=\"norm\""), 100);
    assert_int_equal(counter_of(m, "sonde_gpu_commands_total", "rms_norm_f32"), 2);
    assert_int_equal(counter_of(m, "sonde_gpu_transfer_bytes_total", "operation=\"write\""), 4096);
    assert_int_equal(counter_of(m, "sonde_gpu_queue_busy_seconds_total", "a device"), 110);
    assert_int_equal(counter_of(m, "sonde_gpu_queue_idle_seconds_total", ""), 930 + 970);
    assert_int_equal(counter_of(m, "sonde_gpu_wait_seconds_total", "for=\"events\""), 123);
    assert_int_equal(counter_of(m, "sonde_gpu_commands_missing_total", "crowded"), 4);
    sonde_model_destroy(m);
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_is_there), cmocka_unit_test(leaves_out_what_is_wrong),
        cmocka_unit_test(refuses_damage),      cmocka_unit_test(refuses_rings_outside),
        cmocka_unit_test(series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
