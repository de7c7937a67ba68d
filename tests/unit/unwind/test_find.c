/* Rules found one at a time in this process's own modules are those of the whole tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <link.h>

#include "unwind/unwind.h"

static int read_memory(void *arg, uint64_t at, void *out, size_t len)
{
    memcpy(out, (const char *)arg + at, len);
    return 0;
}

struct table {
    struct sonde__unwind_table t;
    struct sonde__unwind_row *rows;
};

static void compile(const struct sonde__unwind_object *o, struct table *out)
{
    struct sonde__elf_info info;
    const struct sonde__elf_reader r = { read_memory, (void *)(uintptr_t)o->start, 1 };
    assert_int_equal(sonde__elf_find(&r, &info), 0);
    assert_true(info.eh_frame_len > 0);
    const struct sonde__unwind_source source = {
        .eh_frame = (const uint8_t *)(uintptr_t)(o->start + info.eh_frame_at),
        .eh_frame_len = (size_t)info.eh_frame_len,
        .eh_frame_addr = info.eh_frame_addr,
        .data_addr = info.data_addr,
        .first_addr = o->start,
    };
    uint32_t bad;
    const size_t room = sonde__unwind_compile(&source, NULL, 0, &bad);
    out->rows = malloc(room * sizeof(*out->rows));
    assert_non_null(out->rows);
    out->t.rows = out->rows;
    out->t.count = (uint32_t)sonde__unwind_compile(&source, out->rows, room, &bad);
    assert_true(out->t.count > 0);
}

static struct sonde__unwind_object object_of(void *address)
{
    struct dl_find_object o;
    assert_int_equal(_dl_find_object(address, &o), 0);
    return (struct sonde__unwind_object){ (uint64_t)(uintptr_t)o.dlfo_map_start,
                                          (uint64_t)(uintptr_t)o.dlfo_map_end,
                                          (uint64_t)(uintptr_t)o.dlfo_eh_frame };
}

static void same(const struct sonde__unwind_object *o, const struct sonde__unwind_table *t,
                 uint32_t pc)
{
    struct sonde__unwind_row found;
    const struct sonde__unwind_row *row = sonde__unwind_lookup(t, pc);
    const int rc = sonde__unwind_find(o, o->start + pc, &found);
    const int known = row && row->cfa != SONDE__CFA_NONE;
    if (rc == 0 && known) {
        found.pc = row->pc;
        if (memcmp(&found, row, sizeof(found))) fail_msg("another row at %#x", pc);
    } else if ((rc == 0) != known) {
        fail_msg("%s rule at %#x", known ? "no" : "a", pc);
    }
}

/* At, before and behind each change of rules. */
static void check_module(void *address)
{
    const struct sonde__unwind_object o = object_of(address);
    struct table table;
    compile(&o, &table);
    for (uint32_t i = 0; i < table.t.count; i += table.t.count > 20000 ? 7 : 1) {
        const uint32_t pc = table.rows[i].pc;
        same(&o, &table.t, pc);
        same(&o, &table.t, pc + 1);
        if (pc) same(&o, &table.t, pc - 1);
    }
    free(table.rows);
}

static void finds_what_tables_have(void **state)
{
    (void)state;
    check_module((void *)(uintptr_t)check_module);
    check_module((void *)(uintptr_t)qsort);
    check_module((void *)(uintptr_t)print_error);
}

static void finds_nothing_elsewhere(void **state)
{
    struct sonde__unwind_object o = object_of((void *)(uintptr_t)qsort);
    struct sonde__unwind_row row;
    (void)state;
    assert_int_equal(sonde__unwind_find(&o, o.start - 1, &row), -1);
    assert_int_equal(sonde__unwind_find(&o, o.end, &row), -1);
    assert_int_equal(sonde__unwind_find(&o, o.start, &row), -1); /* the ELF header is no code */
    o.header = o.end - 4;
    assert_int_equal(sonde__unwind_find(&o, (uint64_t)(uintptr_t)qsort, &row), -1);
    o.header = 0;
    assert_int_equal(sonde__unwind_find(&o, (uint64_t)(uintptr_t)qsort, &row), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_tables_have),
        cmocka_unit_test(finds_nothing_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
