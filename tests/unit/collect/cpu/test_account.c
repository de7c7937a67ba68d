/* test_account.c - weights of samples against the kernel's account of CPU time, with an account
 * that the test writes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "collect/cpu/account.h"

#define MS UINT64_C(1000000)

static uint64_t used_ns[8];  /* by pid; 0 = it is gone */

static int read_used(uint32_t pid, int user_only, uint64_t *ns)
{
    (void)user_only;
    *ns = used_ns[pid];
    return used_ns[pid] ? 0 : -1;
}

struct fixture {
    struct sonde_cpu_account a;
    struct sonde_profile *p;
    uint64_t now_ns;
};

static void set_up(struct fixture *f)
{
    memset(used_ns, 0, sizeof(used_ns));
    memset(f, 0, sizeof(*f));
    sonde_cpu_account_init(&f->a, 0, 0);
    f->a.read = read_used;
    assert_int_equal(sonde_profile_create(1 << 20, &f->p), 0);
}

static void tear_down(struct fixture *f)
{
    sonde_cpu_account_release(&f->a);
    sonde_profile_destroy(f->p);
}

static void add(struct fixture *f, uint32_t pid, int kind, int count)
{
    const struct sonde_profile_sample s = {
        .time_ns = 1, .weight = MS, .count = 1, .kind = (uint16_t)kind,
        .stack = sonde_profile_stack(f->p, 0, sonde_profile_location(f->p, 0, 4096)),
        .thread = sonde_profile_thread(f->p, pid, pid, "t"),
    };
    for (int i = 0; i < count; i++) assert_int_equal(sonde_profile_add_sample(f->p, &s), 0);
}

/* A second in which pid got so many samples of a millisecond, and used so many of them. */
static void second(struct fixture *f, uint32_t pid, int samples, int used_ms)
{
    add(f, pid, SONDE_SAMPLE_CPU, samples);
    used_ns[pid] += (uint64_t)used_ms * MS;
    sonde_cpu_account_settle(&f->a, f->p, f->now_ns += 1000 * MS);
}

static uint64_t weight_ms(const struct fixture *f, uint32_t pid, int kind)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < f->p->samples_count; i++) {
        const struct sonde_profile_sample *s = &f->p->samples[i];
        if (f->p->threads[s->thread].pid == pid && s->kind == kind) ns += s->weight;
    }
    return (ns + MS / 2) / MS;
}

static void follows_the_kernel(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    used_ns[1] = used_ns[2] = 1; /* just begun */
    for (int i = 0; i < 5; i++) {
        add(&f, 3, SONDE_SAMPLE_CPU, 500);
        used_ns[3] += 500 * MS;
        add(&f, 1, SONDE_SAMPLE_OFFCPU, 100);
        add(&f, 1, SONDE_SAMPLE_CPU, 800);
        used_ns[1] += 920 * MS;
        second(&f, 2, 600, 540);
    }
    assert_in_range(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 4600 - 31, 4600 + 31);
    assert_in_range(weight_ms(&f, 2, SONDE_SAMPLE_CPU), 2700 - 31, 2700 + 31);
    assert_int_equal(weight_ms(&f, 3, SONDE_SAMPLE_CPU), 2500);     /* right: left as it is */
    assert_int_equal(weight_ms(&f, 1, SONDE_SAMPLE_OFFCPU), 500);   /* waiting is not CPU time */
    assert_in_range((f.p->weights[SONDE_SAMPLE_CPU] + MS / 2) / MS, 9800 - 62, 9800 + 62);
    tear_down(&f);
}

/* Ticks and chance are no reason; what they leave is not forgotten. */
static void small_differences(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    second(&f, 1, 500, 510);
    assert_int_equal(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 500);
    for (int i = 0; i < 20; i++) second(&f, 1, 500, 510);
    assert_in_range(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 21 * 510 - 26, 21 * 510 + 26);
    tear_down(&f);
}

/* What was not sampled at all is not made up for: the user is told. */
static void missing_samples(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    second(&f, 1, 100, 1000);
    assert_int_equal(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 100);
    second(&f, 1, 500, 500);  /* and does not weigh on what comes later */
    assert_int_equal(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 600);
    second(&f, 1, 0, 300);
    assert_int_equal(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 600);
    tear_down(&f);
}

/* One that has ended goes on as in its last second; one that ran before begins where it was. */
static void ends_and_begins(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    used_ns[1] = 5000 * MS;
    sonde_cpu_account_begin(&f.a, 1);
    second(&f, 1, 800, 1000);
    assert_in_range(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 999, 1001);
    add(&f, 1, SONDE_SAMPLE_CPU, 80);
    used_ns[1] = 0;
    sonde_cpu_account_settle(&f.a, f.p, f.now_ns += 1000 * MS);
    assert_in_range(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 1099, 1101);
    /* Its number is another's now. */
    second(&f, 1, 200, 200);
    assert_in_range(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 1299, 1301);
    tear_down(&f);
}

/* Samples that were taken away are not looked for. */
static void emptied(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    second(&f, 1, 100, 100);
    f.p->samples_count = 0;
    f.p->weights[SONDE_SAMPLE_CPU] = 0;
    sonde_cpu_account_emptied(&f.a);
    second(&f, 1, 800, 1000);
    assert_in_range(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 999, 1001);
    tear_down(&f);
}

/* More processes than there is room for are left as they are; those that are gone make room at
 * once. */
static int read_high(uint32_t pid, int user_only, uint64_t *ns)
{
    (void)user_only;
    *ns = 2000 * MS;
    return pid > 1000 ? 0 : -1;
}

static void many_processes(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    f.a.read = read_high;
    for (uint32_t pid = 1; pid <= 400; pid++) add(&f, pid, SONDE_SAMPLE_CPU, 1);
    sonde_cpu_account_settle(&f.a, f.p, 1);
    assert_int_equal(f.p->weights[SONDE_SAMPLE_CPU], 400 * MS);
    assert_int_equal(f.a.count, 0);
    add(&f, 1001, SONDE_SAMPLE_CPU, 1700);
    sonde_cpu_account_settle(&f.a, f.p, 3);
    assert_in_range(weight_ms(&f, 1001, SONDE_SAMPLE_CPU), 1999, 2001);
    tear_down(&f);
}

/* What is used in a pause is given to samples that come after it, at most doubling them; shares of
 * processes stay what they are. */
static void pauses(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    used_ns[1] = used_ns[2] = 1;
    second(&f, 1, 500, 500);
    sonde_cpu_account_pause(&f.a, f.p, f.now_ns += 10 * MS);
    assert_false(sonde_cpu_account_is_due(&f.a, f.now_ns + 10000 * MS));
    for (int i = 0; i < 5; i++) second(&f, 1, 0, 500); /* nothing is sampled, and it works on */
    assert_in_range(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 499, 501);
    sonde_cpu_account_resume(&f.a, f.now_ns);
    second(&f, 1, 500, 500);
    assert_in_range(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 1499, 1501);
    for (int i = 0; i < 4; i++) second(&f, 1, 500, 500);
    /* 3.0 s while it was sampled, and 2.5 s in the pause. */
    assert_in_range(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 5499, 5501);
    second(&f, 1, 500, 500);
    assert_in_range(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 5999, 6001);
    tear_down(&f);
}

/* One that ends in a pause or after it is no worse off than others. */
static void pauses_and_ends(void **state)
{
    struct fixture f;
    (void)state;
    set_up(&f);
    used_ns[1] = used_ns[2] = 1;
    second(&f, 1, 500, 500);
    second(&f, 2, 500, 500);
    sonde_cpu_account_pause(&f.a, f.p, f.now_ns);
    used_ns[1] += 100 * MS;
    used_ns[2] = 0;
    sonde_cpu_account_resume(&f.a, f.now_ns);
    add(&f, 1, SONDE_SAMPLE_CPU, 200);
    used_ns[1] = 0;
    sonde_cpu_account_settle(&f.a, f.p, f.now_ns += 1000 * MS);
    assert_in_range(weight_ms(&f, 1, SONDE_SAMPLE_CPU), 799, 801);
    assert_in_range(weight_ms(&f, 2, SONDE_SAMPLE_CPU), 499, 501);
    assert_int_equal(f.a.count, 0);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_kernel), cmocka_unit_test(small_differences),
        cmocka_unit_test(missing_samples),    cmocka_unit_test(ends_and_begins),
        cmocka_unit_test(emptied),            cmocka_unit_test(many_processes),
        cmocka_unit_test(pauses),             cmocka_unit_test(pauses_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
