/* Loops that only wait, told from loops that work, as compilers write them; and that a program
 * which spins is marked, by way of its file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/proc_maps.h"
#include "profile/profile.h"
#include "profile/symbol/spin.h"

#define CODE(...) { __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ })

static const struct {
    const char *name;
    uint8_t code[48];
    size_t len;
    uint64_t in; /* bit n: the instruction at n is of a loop that waits */
} loops[] = {
    { "load, compare, jump",
      CODE(0x8b, 0x05, 0, 0, 0, 0, 0x39, 0xf8, 0x7c, 0xf6, 0xc3), 1u << 0 | 1u << 6 | 1u << 8 },
    { "test and set",
      CODE(0x89, 0xd0, 0x86, 0x05, 0, 0, 0, 0, 0x84, 0xc0, 0x75, 0xf4, 0xc3),
      1u << 0 | 1u << 2 | 1u << 8 | 1u << 10 },
    { "compare and exchange",
      CODE(0x89, 0xc8, 0xf0, 0x0f, 0xb1, 0x15, 0, 0, 0, 0, 0x75, 0xf4, 0xc3),
      1u << 0 | 1u << 2 | 1u << 10 },
    { "through a pointer that stays",
      CODE(0x48, 0x8b, 0x47, 0x20, 0x8b, 0x00, 0x85, 0xc0, 0x74, 0xf6, 0xc3),
      1u << 0 | 1u << 4 | 1u << 6 | 1u << 8 },
    { "a bit of memory", CODE(0xf6, 0x07, 0x04, 0x74, 0xfb, 0xc3), 1u << 0 | 1u << 3 },
    { "a list is walked",
      CODE(0x48, 0x89, 0xf8, 0x48, 0x8b, 0x3f, 0x48, 0x85, 0xff, 0x75, 0xf5, 0xc3), 0 },
    { "an index is followed",
      CODE(0x48, 0x63, 0xd6, 0x8b, 0x34, 0x97, 0x48, 0x89, 0xd0, 0x85, 0xf6, 0x79, 0xf3, 0xc3), 0 },
    { "strlen", CODE(0x48, 0x83, 0xc0, 0x01, 0x80, 0x38, 0x00, 0x75, 0xf7, 0xc3), 0 },
    { "a list is searched",
      CODE(0x39, 0x77, 0x08, 0x74, 0x13, 0x48, 0x8b, 0x3f, 0x48, 0x85, 0xff, 0x75, 0xf3, 0xc3), 0 },
    { "unoptimized: a list is walked", /* slot -8: read, followed, written back */
      CODE(0x48, 0x8b, 0x45, 0xf8, 0x48, 0x8b, 0x00, 0x48, 0x89, 0x45, 0xf8, 0x48, 0x83, 0x7d, 0xf8,
           0x00, 0x75, 0xee), 0 },
    { "nothing is read", CODE(0x85, 0xc0, 0x75, 0xfc, 0xc3), 0 },
    { "a store", CODE(0x89, 0x07, 0x8b, 0x06, 0x85, 0xc0, 0x75, 0xf8, 0xc3), 0 },
    { "no jump back", CODE(0x8b, 0x05, 0, 0, 0, 0, 0x39, 0xf8, 0x7c, 0x10, 0xc3), 0 },
    { "cut off", CODE(0x8b, 0x05, 0, 0), 0 },
};

static void test_loops(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(loops) / sizeof(loops[0]); i++) {
        for (size_t at = 0; at < loops[i].len; at++) {
            const int is = sonde_symbol_is_spin(loops[i].code, loops[i].len, at);
            if (is != (int)(loops[i].in >> at & 1)) print_error("%s, %zu\n", loops[i].name, at);
            assert_int_equal(is, (int)(loops[i].in >> at & 1));
        }
        assert_int_equal(sonde_symbol_is_spin(loops[i].code, loops[i].len, loops[i].len), 0);
    }
}

/* With a pause whatever else is in the loop: nothing but waiting needs one. */
static void test_pause(void **state)
{
    (void)state;
    uint8_t code[64];
    memset(code, 0x48, sizeof(code));
    code[30] = 0xf3;
    code[31] = 0x90;
    assert_int_equal(sonde_symbol_is_spin(code, sizeof(code), 32), 1);
    assert_int_equal(sonde_symbol_is_spin(code, sizeof(code), 20), 1);
    assert_int_equal(sonde_symbol_is_spin(code, sizeof(code), 60), 0);
}

/* Any bytes are fine. */
static void test_any_bytes(void **state)
{
    (void)state;
    uint64_t random = 14;
    for (int round = 0; round < 20000; round++) {
        uint8_t code[2 * SONDE_SYMBOL_SPIN_AROUND];
        for (size_t i = 0; i < sizeof(code); i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            code[i] = (uint8_t)(random >> 56);
        }
        const size_t len = (size_t)(random >> 40) % sizeof(code) + 1;
        sonde_symbol_is_spin(code, len, (size_t)(random >> 33) % len);
    }
}

/* ---- In a file ------------------------------------------------------------------------------- */

static atomic_int passed;

__attribute__((noinline)) static void await(void)
{
    while (!atomic_load_explicit(&passed, memory_order_acquire)) __builtin_ia32_pause();
}

/* After the pause, wherever this build has it. */
static uint64_t await_loop(void)
{
    const uint8_t *code = (const uint8_t *)(uintptr_t)await;
    for (size_t i = 0; i < 1024; i++) {
        if (code[i] == 0xf3 && code[i + 1] == 0x90) return (uint64_t)(uintptr_t)(code + i + 2);
    }
    fail();
    return 0;
}

struct own_module {
    uint64_t address;
    struct sonde_profile_module row;
    struct sonde_profile *p;
};

static int own_mapping(void *arg, const struct sonde_mapping *m)
{
    struct own_module *own = arg;
    if (own->address < m->start || own->address >= m->end) return 0;
    own->row = (struct sonde_profile_module){ .path = sonde_profile_cstring(own->p, m->path),
                                              .start = m->start, .end = m->end,
                                              .offset = m->offset };
    return 1;
}

/* Samples at an address of this program: its location. */
static uint32_t sampled_at(struct sonde_profile *p, uint64_t address)
{
    struct own_module own = { .address = address, .p = p };
    assert_int_equal(sonde_proc_maps((uint32_t)getpid(), own_mapping, &own), 1);
    const uint32_t location =
        sonde_profile_location(p, sonde_profile_module(p, &own.row), address);
    const struct sonde_profile_sample s = { .weight = 1, .count = 10,
                                            .stack = sonde_profile_stack(p, 0, location) };
    assert_int_equal(sonde_profile_add_sample(p, &s), 0);
    return location;
}

static void test_marks(void **state)
{
    (void)state;
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    atomic_store(&passed, 1);
    await();
    const uint64_t loop = await_loop(), begin = (uint64_t)(uintptr_t)test_loops;
    const uint32_t spins = sampled_at(p, loop);
    const uint32_t works = sampled_at(p, begin > loop + 128 || begin + 128 < loop ? begin
                                                                                  : begin + 256);
    assert_int_equal(sonde_symbol_mark_spins(p), 0);
    assert_int_equal(p->locations[spins].flags, SONDE_LOCATION_SPINS | SONDE_LOCATION_LOOKED);
    assert_int_equal(p->locations[works].flags, SONDE_LOCATION_LOOKED);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_pause),
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_marks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
