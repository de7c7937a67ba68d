/* Samples out of rings made by hand: whole, wrapped, overwritten, unfinished, damaged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/segment/read.h"
#include "unit/collect/segment/segment_fixture.h"

#define CHUNKS 256u

struct fixture {
    char dir[64];
    int dirfd;
    struct build b;
    struct sonde__sampler *ring;  /* in b */
    struct sonde_segment *s;
    struct sonde_err err;
    uint64_t lost;
    char seen[4096];              /* a word for each record */
};

static void say(struct fixture *f, const char *format, uint64_t a, const char *b)
{
    const size_t len = strlen(f->seen);
    snprintf(f->seen + len, sizeof(f->seen) - len, format, (unsigned long long)a, b);
}

static void on_sample(void *arg, const struct sonde_segment_sample *s)
{
    struct fixture *f = arg;
    for (uint32_t i = 0; i < s->depth; i++) assert_int_equal(s->ips[i], s->ips[0] + i);
    assert_int_equal(s->overrun, 3);
    assert_int_equal(s->ticks, 5000);
    say(f, "s%llu%s ", s->depth, s->tid == 99 ? "" : "?");
}

static void on_map(void *arg, const struct sonde_mapping *m)
{
    assert_int_equal(m->offset, 0x1000);
    say(arg, "m%llx:%s ", m->end - m->start, m->path);
}

static void on_thread(void *arg, const struct sonde_segment_thread *t)
{
    assert_int_equal(t->cpu_ns, 123456);
    say(arg, "t%llu:%s ", t->tid, t->name);
}

static void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof(*f));
    f->dirfd = fixture_dir(f->dir);
    build_init(&f->b, 4242, 777, "prog");
    f->ring = build_sampler(&f->b, CHUNKS);
}

static int fixture_read(struct fixture *f, int last)
{
    const struct sonde_segment_sink sink = { on_sample, on_map, on_thread, f };
    f->seen[0] = '\0';
    fixture_write(&f->b, f->dirfd, &f->s);
    return sonde_segment_samples(f->s, &sink, last, &f->lost, &f->err);
}

static void fixture_release(struct fixture *f)
{
    fixture_end(&f->b, f->dir, f->dirfd, f->s);
}

static void reads_all_kinds(void **state)
{
    struct fixture f;
    struct sonde_sampler_info info;
    static const uint32_t depths[] = { 1, 4, 5, 11, 12, 128, 1024 };
    (void)state;
    fixture_init(&f);
    build_map(f.ring, 0x1000, 0x3000, "/bin/x");
    build_map(f.ring, 0x1000, 0x3000, "/a/path/of/24/characters");
    build_map(f.ring, 0x1000, 0x3000, "/a/path/of/25/characters/");
    build_thread(f.ring, 99, "a name of 16 let");
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
        build_stack(f.ring, 99, depths[i], 0x1000);
    }
    assert_int_equal(fixture_read(&f, 0), 0);
    assert_string_equal(f.seen, "m2000:/bin/x m2000:/a/path/of/24/characters "
                        "m2000:/a/path/of/25/characters/ t99:a name of 16 let "
                        "s1 s4 s5 s11 s12 s128 s1024 ");
    assert_int_equal(f.lost, 0);
    assert_int_equal(sonde_segment_sampler(f.s, &info, &f.err), 0);
    assert_int_equal(info.session, 0xabc);
    assert_int_equal(info.depth_max, 128);
    assert_int_equal(fixture_read(&f, 0), 0); /* nothing new */
    assert_string_equal(f.seen, "");
    fixture_release(&f);
}

static void wraps_around(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f);
    for (int i = 0; i < 100; i++) {
        build_stack(f.ring, 99, 40, 0x1000); /* 7 chunks */
        assert_int_equal(fixture_read(&f, 0), 0);
        assert_string_equal(f.seen, "s40 ");
    }
    assert_int_equal(f.lost, 0);
    fixture_release(&f);
}

static void counts_what_was_overwritten(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f);
    build_stack(f.ring, 99, 40, 0x1000);
    assert_int_equal(fixture_read(&f, 0), 0);
    for (int i = 0; i < 100; i++) build_stack(f.ring, 99, 40, 0x1000); /* 700 chunks into 256 */
    assert_int_equal(fixture_read(&f, 0), 0);
    /* 36 whole ones fit; the rest of a 37th is passed over. */
    assert_int_equal(strlen(f.seen), 36 * strlen("s40 "));
    assert_in_range(f.lost, 64, 66);
    fixture_release(&f);
}

static void waits_for_an_unfinished_one(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f);
    const uint64_t at = build_stack(f.ring, 99, 20, 0x1000);
    const uint64_t seq = f.ring->chunk[at].seq_type;
    f.ring->chunk[at].seq_type = 0;
    build_stack(f.ring, 99, 2, 0x1000);
    assert_int_equal(fixture_read(&f, 0), 0);
    assert_string_equal(f.seen, "");
    f.ring->chunk[at].seq_type = seq;
    assert_int_equal(fixture_read(&f, 0), 0);
    assert_string_equal(f.seen, "s20 s2 ");
    assert_int_equal(f.lost, 0);
    fixture_release(&f);
}

static void passes_over_one_that_is_never_finished(void **state)
{
    struct fixture f;
    (void)state;
    for (int last = 0; last <= 1; last++) {
        fixture_init(&f);
        const uint64_t at = build_stack(f.ring, 99, 20, 0x1000); /* 4 chunks */
        f.ring->chunk[at].seq_type = 0;
        build_stack(f.ring, 99, 2, 0x1000);
        for (int i = 0; i < 3 && !last; i++) {
            assert_int_equal(fixture_read(&f, 0), 0);
            assert_string_equal(f.seen, "");
        }
        assert_int_equal(fixture_read(&f, last), 0);
        assert_string_equal(f.seen, "s2 ");
        assert_true(f.lost > 0);
        fixture_release(&f);
    }
}

/* Damage that is passed over, with what comes after it. */
static void spoil_depth(struct fixture *f, uint64_t at) { f->ring->chunk[at].word[2] = 1025; }
static void spoil_more(struct fixture *f, uint64_t at) { f->ring->chunk[at + 1].seq_type ^= 1; }
static void spoil_type(struct fixture *f, uint64_t at) { f->ring->chunk[at].seq_type |= 0x70; }
static void spoil_seq(struct fixture *f, uint64_t at) { f->ring->chunk[at].seq_type += 1u << 17; }

static void passes_over_damaged_records(void **state)
{
    static void (*const spoils[])(struct fixture *, uint64_t) = { spoil_depth, spoil_more,
                                                                  spoil_type, spoil_seq };
    (void)state;
    for (size_t i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++) {
        struct fixture f;
        fixture_init(&f);
        spoils[i](&f, build_stack(f.ring, 99, 20, 0x1000));
        build_stack(f.ring, 99, 2, 0x1000);
        assert_int_equal(fixture_read(&f, 0), 0);
        assert_string_equal(f.seen, "s2 ");
        assert_true(f.lost > 0);
        fixture_release(&f);
    }
}

static void refuse_backwards(struct fixture *f) { f->ring->reserve = 1; }
static void refuse_huge(struct fixture *f) { f->ring->reserve = UINT64_MAX; }
static void refuse_moved(struct fixture *f) { f->b.h->sampler += 64; }

static void refuses_what_cannot_be(void **state)
{
    static void (*const damages[])(struct fixture *) = { refuse_backwards, refuse_huge,
                                                         refuse_moved };
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct fixture f;
        fixture_init(&f);
        build_stack(f.ring, 99, 20, 0x1000);
        assert_int_equal(fixture_read(&f, 0), 0);
        damages[i](&f);
        assert_int_equal(fixture_read(&f, 0), SONDE_EFORMAT);
        assert_non_null(strstr(f.err.text, "damaged"));
        fixture_release(&f);
    }
}

static void bad_count(struct sonde__sampler *s) { s->chunk_count = 300; }
static void bad_small(struct sonde__sampler *s) { s->chunk_count = 128; }
static void bad_large(struct sonde__sampler *s) { s->chunk_count = 1 << 20; }
static void bad_period(struct sonde__sampler *s) { s->period_ns = 0; }
static void bad_depth(struct sonde__sampler *s) { s->depth_max = 2000; }
static void bad_state(struct sonde__sampler *s) { s->state = 77; }

static void refuses_a_bad_sampler(void **state)
{
    static void (*const damages[])(struct sonde__sampler *) = { bad_count, bad_small, bad_large,
                                                                bad_period, bad_depth, bad_state };
    (void)state;
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        struct fixture f;
        struct sonde_sampler_info info;
        fixture_init(&f);
        damages[i](f.ring);
        build_write(&f.b, f.dirfd, NAME, f.b.bytes);
        assert_int_equal(sonde_segment_open(f.dirfd, NAME, 1, &f.s, &f.err), 0);
        assert_int_equal(sonde_segment_sampler(f.s, &info, &f.err), SONDE_EFORMAT);
        assert_non_null(strstr(f.err.text, "damaged"));
        fixture_release(&f);
    }
}

static void says_that_there_is_none(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f);
    f.b.h->sampler = 0;
    assert_int_equal(fixture_read(&f, 0), SONDE_ENOENT);
    fixture_release(&f);
}

static void survives_each_failed_allocation(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f);
    build_stack(f.ring, 99, 20, 0x1000);
    build_write(&f.b, f.dirfd, NAME, f.b.bytes);
    assert_int_equal(sonde_segment_open(f.dirfd, NAME, 1, &f.s, &f.err), 0);
    sonde__alloc_fail_nth(1);
    assert_int_equal(fixture_read(&f, 0), SONDE_ENOMEM);
    sonde__alloc_fail_nth(0);
    assert_int_equal(fixture_read(&f, 0), 0);
    assert_string_equal(f.seen, "s20 ");
    fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_kinds),
        cmocka_unit_test(wraps_around),
        cmocka_unit_test(counts_what_was_overwritten),
        cmocka_unit_test(waits_for_an_unfinished_one),
        cmocka_unit_test(passes_over_one_that_is_never_finished),
        cmocka_unit_test(passes_over_damaged_records),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(refuses_a_bad_sampler),
        cmocka_unit_test(says_that_there_is_none),
        cmocka_unit_test(survives_each_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
