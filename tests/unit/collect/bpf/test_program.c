/* BPF programs are put together right: jumps, numbers of 64 bits, what does not fit; and the kernel
 * takes one, if it permits that here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/bpf/bpf.h"
#include "sonde/sonde.h"

static struct sonde_bpf_code code;

static int empty(void **state)
{
    (void)state;
    memset(&code, 0, sizeof(code));
    return 0;
}

static void test_jumps(void **state)
{
    (void)state;
    enum { BACK, ON };
    sonde_bpf_label(&code, BACK);
    sonde_bpf_jump(&code, BPF_JEQ, BPF_REG_1, 7, ON);
    sonde_bpf_move(&code, BPF_REG_2, BPF_REG_1);
    sonde_bpf_jump_reg(&code, BPF_JGT, BPF_REG_1, BPF_REG_2, BACK);
    sonde_bpf_label(&code, ON);
    sonde_bpf_exit(&code, 0);
    assert_int_equal(sonde_bpf_finish(&code), 0);
    assert_int_equal(code.count, 5);
    assert_int_equal(code.insns[0].code, BPF_JMP | BPF_JEQ | BPF_K);
    assert_int_equal(code.insns[0].imm, 7);
    assert_int_equal(code.insns[0].off, 2);
    assert_int_equal(code.insns[2].code, BPF_JMP | BPF_JGT | BPF_X);
    assert_int_equal(code.insns[2].off, -3);
    assert_int_equal(code.insns[4].code, BPF_JMP | BPF_EXIT);
}

static void test_numbers(void **state)
{
    (void)state;
    sonde_bpf_number(&code, BPF_REG_1, INT32_MAX);
    sonde_bpf_number(&code, BPF_REG_2, 0xfedcba9876543210u);
    sonde_bpf_map_of(&code, BPF_REG_3, 5);
    assert_int_equal(sonde_bpf_finish(&code), 0);
    assert_int_equal(code.count, 5);
    assert_int_equal(code.insns[0].imm, INT32_MAX);
    assert_int_equal(code.insns[1].code, BPF_LD | BPF_DW | BPF_IMM);
    assert_int_equal((uint32_t)code.insns[1].imm, 0x76543210u);
    assert_int_equal((uint32_t)code.insns[2].imm, 0xfedcba98u);
    assert_int_equal(code.insns[3].src_reg, BPF_PSEUDO_MAP_FD);
    assert_int_equal(code.insns[3].imm, 5);
}

static void test_refused(void **state)
{
    (void)state;
    sonde_bpf_jump(&code, BPF_JA, 0, 0, 3); /* to nowhere */
    assert_int_equal(sonde_bpf_finish(&code), SONDE_EINVAL);
    empty(NULL);
    for (int i = 0; i < SONDE_BPF_INSNS_MAX; i++) sonde_bpf_call(&code, 1);
    assert_int_equal(sonde_bpf_finish(&code), 0);
    sonde_bpf_call(&code, 1);
    assert_int_equal(sonde_bpf_finish(&code), SONDE_EINVAL);
    empty(NULL);
    for (int i = 0; i <= SONDE_BPF_JUMPS_MAX; i++) sonde_bpf_jump(&code, BPF_JA, 0, 0, 0);
    assert_int_equal(sonde_bpf_finish(&code), SONDE_EINVAL);
    empty(NULL);
    sonde_bpf_load(&code, BPF_DW, BPF_REG_0, BPF_REG_1, 40000);
    assert_int_equal(sonde_bpf_finish(&code), SONDE_EINVAL);
}

static void test_kernel(void **state)
{
    (void)state;
    struct sonde_err err;
    int fd, map;
    uint32_t key = 3;
    uint64_t value = 47, got = 0;
    const int rc = sonde_bpf_map_create(BPF_MAP_TYPE_HASH, "test", 4, 8, 2, &map, &err);
    if (rc) {
        assert_true(rc == SONDE_EACCES || rc == SONDE_EOFF);
        assert_non_null(strstr(err.text, "BPF"));
        skip();
    }
    assert_int_equal(sonde_bpf_map_get(map, &key, &got), SONDE_ENOENT);
    assert_int_equal(sonde_bpf_map_take(map, &key), SONDE_ENOENT);
    assert_int_equal(sonde_bpf_map_put(map, &key, &value), 0);
    assert_int_equal(sonde_bpf_map_get(map, &key, &got), 0);
    assert_int_equal(got, 47);
    key = 4;
    assert_int_equal(sonde_bpf_map_put(map, &key, &value), 0);
    key = 5;
    assert_int_equal(sonde_bpf_map_put(map, &key, &value), SONDE_EFULL);
    close(map);

    sonde_bpf_exit(&code, 1);
    assert_int_equal(sonde_bpf_finish(&code), 0);
    assert_int_equal(sonde_bpf_program_create(&code, "test", &fd, &err), 0);
    close(fd);
    empty(NULL);
    sonde_bpf_load(&code, BPF_DW, BPF_REG_0, BPF_REG_2, 0); /* of what is not known */
    sonde_bpf_exit(&code, 1);
    assert_int_equal(sonde_bpf_finish(&code), 0);
    assert_int_not_equal(sonde_bpf_program_create(&code, "test", &fd, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_jumps, empty),
        cmocka_unit_test_setup(test_numbers, empty),
        cmocka_unit_test_setup(test_refused, empty),
        cmocka_unit_test_setup(test_kernel, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
