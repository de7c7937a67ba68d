/* The heap of a program as series of the model, from segments made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/segment/read.h"
#include "sonde/sonde.h"
#include "unit/collect/segment/segment_fixture.h"


struct fixture {
    char dir[64];
    int dirfd;
    struct build b;
    struct sonde__heap *mem;       /* in b; NULL = none */
    uint32_t site;
    struct sonde_model *m;
    struct sonde_model_process *p;
    struct sonde_segment *s;
    struct sonde_err err;
};

static void fixture_init(struct fixture *f, uint32_t mode)
{
    memset(f, 0, sizeof(*f));
    f->dirfd = fixture_dir(f->dir);
    build_init(&f->b, 4242, 777, "prog");
    if (mode) {
        f->mem = build_mem(&f->b, mode, 64);
        f->site = build_site(&f->b, build_node(&f->b, 0, 0, 0x1234));
    }
    assert_int_equal(sonde_model_create(NULL, &f->m), 0);
    f->p = sonde_model_process(f->m, 4242, 777, "prog");
}

static int fixture_read(struct fixture *f)
{
    fixture_write(&f->b, f->dirfd, &f->s);
    return sonde_segment_read(f->s, f->m, f->p, 0, &f->err);
}

static void fixture_release(struct fixture *f)
{
    sonde_model_destroy(f->m);
    fixture_end(&f->b, f->dir, f->dirfd, f->s);
}

static struct sonde_model_series *find(struct fixture *f, const char *name, const char *labels)
{
    for (size_t i = 0; i < f->m->family_count; i++) {
        struct sonde_model_family *family = f->m->families[i];
        if (strcmp(family->name, name) != 0) continue;
        for (size_t k = 0; k < family->series_count; k++) {
            if (strstr(family->series[k]->label_text, labels)) return family->series[k];
        }
    }
    return NULL;
}

static double gauge(struct fixture *f, const char *name, const char *labels)
{
    const struct sonde_model_series *s = find(f, name, labels);
    assert_non_null(s);
    return s->gauge;
}

static uint64_t counter(struct fixture *f, const char *name)
{
    const struct sonde_model_series *s = find(f, name, "");
    assert_non_null(s);
    return s->counter;
}

static void full_mode(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    build_allocs(&f.b, 0, f.site, 10, 4, 100);
    f.mem->peak_bytes = 900;
    f.mem->refused = 2;
    f.mem->reentrant = 1;
    assert_int_equal(fixture_read(&f), 0);
    assert_true(gauge(&f, "sonde_heap_live_bytes", "pid=\"4242\"") == 600);
    assert_true(gauge(&f, "sonde_heap_live_allocations", "") == 6);
    assert_true(gauge(&f, "sonde_heap_peak_bytes", "") == 900);
    assert_int_equal(counter(&f, "sonde_heap_allocated_bytes_total"), 1000);
    assert_int_equal(counter(&f, "sonde_heap_allocations_total"), 10);
    assert_int_equal(counter(&f, "sonde_heap_freed_bytes_total"), 400);
    assert_int_equal(counter(&f, "sonde_heap_unrecorded_total"), 3);
    assert_null(find(&f, "sonde_heap_allocator_bytes", ""));

    /* More; the allocator has been asked; the peak lags behind. */
    build_allocs(&f.b, 0, f.site, 10, 0, 100);
    f.mem->arena = (struct sonde__heap_arena){ 9, 1, 2000, 1500, 500, 4096, 300, 2 };
    assert_int_equal(fixture_read(&f), 0);
    assert_true(gauge(&f, "sonde_heap_live_bytes", "") == 1600);
    assert_true(gauge(&f, "sonde_heap_peak_bytes", "") == 1600);
    assert_int_equal(counter(&f, "sonde_heap_allocations_total"), 20);
    assert_true(gauge(&f, "sonde_heap_allocator_bytes", "state=\"free\"") == 500);
    assert_true(gauge(&f, "sonde_heap_allocator_bytes", "state=\"trimmable\"") == 300);
    /* The first tick shows all of it as an increase: the process is new. */
    assert_true(find(&f, "sonde_heap_allocations_total", "")->from_zero);
    fixture_release(&f);
}

static void sampled_mode(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SONDE__HEAP_SAMPLED);
    build_allocs(&f.b, 0, f.site, 10u << 16, 4u << 16, 1);
    assert_int_equal(fixture_read(&f), 0);
    assert_true(gauge(&f, "sonde_heap_live_allocations", "") == 6);
    assert_int_equal(counter(&f, "sonde_heap_allocations_total"), 10);
    fixture_release(&f);
}

static void without_a_profile(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 0);
    assert_int_equal(fixture_read(&f), 0);
    assert_null(find(&f, "sonde_heap_live_bytes", ""));
    fixture_release(&f);
}

static void damaged(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SONDE__HEAP_FULL);
    f.mem->mean = 0;
    assert_int_equal(fixture_read(&f), SONDE_EFORMAT);
    assert_non_null(strstr(f.err.text, "heap profile"));
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_mode),
        cmocka_unit_test(sampled_mode),
        cmocka_unit_test(without_a_profile),
        cmocka_unit_test(damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
