/* Where CPython keeps its frames: the table against the headers of the interpreter that is here
 * (python3-dev), and what later ones say of themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef SONDE_TEST_PYTHON
#define Py_BUILD_CORE 1
#include <Python.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#endif

#include <cmocka.h>

#include "segment/python_layout.h"

static void is_as_the_headers_say(void **state)
{
    (void)state;
#if defined(SONDE_TEST_PYTHON) && PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000
    struct sonde__python_layout l;
    assert_int_equal(sonde__python_layout_of(PY_VERSION_HEX, NULL, 0, &l), SONDE__PYTHON_READS);
#define IS(field, type, member) assert_int_equal(l.field, offsetof(type, member))
    IS(thread_top, PyThreadState, cframe);
    IS(thread_next, PyThreadState, next);
    IS(thread_id, PyThreadState, native_thread_id);
    assert_int_equal(l.thread_bytes, sizeof(PyThreadState));
    IS(anchor_frame, _PyCFrame, current_frame);
    IS(anchor_previous, _PyCFrame, previous);
    IS(frame_code, _PyInterpreterFrame, f_code);
    IS(frame_previous, _PyInterpreterFrame, previous);
    IS(frame_instruction, _PyInterpreterFrame, prev_instr);
    IS(frame_flag, _PyInterpreterFrame, is_entry);
    assert_int_equal(l.frame_last, 1);
    assert_int_equal(l.chained, 1);
    assert_int_equal(l.last_is_real, 1);
    IS(code_file, PyCodeObject, co_filename);
    IS(code_name, PyCodeObject, co_qualname);
    IS(code_first_line, PyCodeObject, co_firstlineno);
    IS(code_lines, PyCodeObject, co_linetable);
    IS(code_start, PyCodeObject, co_code_adaptive);
    IS(object_type, PyObject, ob_type);
    IS(bytes_size, PyVarObject, ob_size);
    IS(bytes_text, PyBytesObject, ob_sval);
    IS(text_length, PyASCIIObject, length);
    IS(text_state, PyASCIIObject, state);
    assert_int_equal(l.text_ascii, sizeof(PyASCIIObject));
    assert_int_equal(l.text_compact, sizeof(PyCompactUnicodeObject));
    IS(runtime_interpreter, _PyRuntimeState, interpreters.head);
    assert_int_equal(l.runtime_interpreter + 8, offsetof(_PyRuntimeState, interpreters.main));
    IS(interpreter_thread, PyInterpreterState, threads.head);
#else
    skip();
#endif
}

/* No word of a structure lies beyond what is read of it. */
static void fits_what_is_read(void **state)
{
    static const struct sonde__python_layout *const all[] = { &sonde__python_3_11,
                                                              &sonde__python_3_12 };
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        const struct sonde__python_layout *l = all[i];
        assert_true(l->anchor_frame + 8u <= SONDE__PYTHON_ANCHOR_BYTES);
        assert_true(l->anchor_previous + 8u <= SONDE__PYTHON_ANCHOR_BYTES);
        assert_true(l->frame_code + 8u <= SONDE__PYTHON_FRAME_BYTES);
        assert_true(l->frame_previous + 8u <= SONDE__PYTHON_FRAME_BYTES);
        assert_true(l->frame_instruction + 8u <= SONDE__PYTHON_FRAME_BYTES);
        assert_true(l->frame_flag < SONDE__PYTHON_FRAME_BYTES);
        assert_true(l->code_file + 8u <= SONDE__PYTHON_CODE_BYTES);
        assert_true(l->code_name + 8u <= SONDE__PYTHON_CODE_BYTES);
        assert_true(l->code_lines + 8u <= SONDE__PYTHON_CODE_BYTES);
        assert_true(l->code_first_line + 4u <= SONDE__PYTHON_CODE_BYTES);
        assert_true(l->text_length + 8u <= SONDE__PYTHON_TEXT_BYTES);
        assert_true(l->text_state + 4u <= SONDE__PYTHON_TEXT_BYTES);
        assert_true(l->bytes_size + 8u <= SONDE__PYTHON_BYTES_BYTES);
        assert_true(l->object_type + 8u <= SONDE__PYTHON_BYTES_BYTES);
    }
}

static void tells_versions_apart(void **state)
{
    struct sonde__python_layout l;
    static const struct { uint32_t version, state; } rows[] = {
        { 0x02071200, SONDE__PYTHON_OLD },  { 0x030a0df0, SONDE__PYTHON_OLD },
        { 0x030b00a1, SONDE__PYTHON_NEW },  { 0x030b00f0, SONDE__PYTHON_READS },
        { 0x030b02f0, SONDE__PYTHON_READS }, { 0x030c01f0, SONDE__PYTHON_READS },
        { 0x030e00f0, SONDE__PYTHON_NEW },  { 0x04000000, SONDE__PYTHON_NEW },
        { 0x030d00f0, SONDE__PYTHON_STRIPPED }, /* it would say, but cannot be asked */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(sonde__python_layout_of(rows[i].version, NULL, 0, &l), rows[i].state);
    }
}

/* What 3.13.0 says. */
static void says_itself(uint64_t w[SONDE__PYTHON_SAYS_WORDS])
{
    memset(w, 0, SONDE__PYTHON_SAYS_WORDS * sizeof(*w));
    memcpy(w, "xdebugpy", 8);
    w[1] = 0x030d00f0;
    w[5] = 632, w[9] = 7344, w[19] = 304, w[21] = 8, w[23] = 72, w[25] = 160;
    w[29] = 8, w[30] = 0, w[31] = 56, w[33] = 70;
    w[35] = 112, w[37] = 128, w[38] = 136, w[39] = 68, w[43] = 200;
    w[45] = 8, w[65] = 16, w[66] = 32, w[68] = 32, w[69] = 16, w[70] = 40;
}

static void believes_what_fits(void **state)
{
    struct sonde__python_layout l;
    uint64_t w[SONDE__PYTHON_SAYS_WORDS];
    static const uint32_t words[] = { 5, 9, 19, 21, 23, 25, 29, 30, 31, 33, 35, 37, 38, 39, 43, 45,
                                      65, 66, 68, 69, 70 };
    (void)state;
    says_itself(w);
    assert_int_equal(sonde__python_layout_of(0x030d00f0, w, sizeof(w), &l), SONDE__PYTHON_READS);
    assert_int_equal(l.chained, 0);
    assert_int_equal(l.thread_top, 72);
    assert_int_equal(l.frame_flag, 70);
    assert_int_equal(l.text_compact, 56);
    assert_int_equal(sonde__python_layout_of(0x030d01f0, w, sizeof(w), &l), SONDE__PYTHON_NEW);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        says_itself(w);
        w[words[i]] = UINT64_MAX;
        assert_int_equal(sonde__python_layout_of(0x030d00f0, w, sizeof(w), &l), SONDE__PYTHON_NEW);
        w[words[i]] = SONDE__PYTHON_STATE_BYTES;
        assert_int_equal(sonde__python_layout_of(0x030d00f0, w, sizeof(w), &l), SONDE__PYTHON_NEW);
    }
    says_itself(w);
    w[2] = 1;
    assert_int_equal(sonde__python_layout_of(0x030d00f0, w, sizeof(w), &l),
                     SONDE__PYTHON_THREADED);
    w[0] = 0;
    assert_int_equal(sonde__python_layout_of(0x030d00f0, w, sizeof(w), &l), SONDE__PYTHON_NEW);
}

static void frames_are_no_addresses(void **state)
{
    (void)state;
    const uint64_t ip = sonde__python_frame_of(0x3abcdef, 0x12345);
    assert_true(sonde__python_is(ip));
    assert_int_equal(sonde__python_code_off(ip), 0x3abcdefull * 64);
    assert_int_equal(sonde__python_instruction(ip), 0x12345);
    assert_int_equal(sonde__python_instruction(sonde__python_frame_of(1, UINT64_MAX)),
                     (1u << SONDE__PYTHON_INSTRUCTION_BITS) - 1);
    assert_false(sonde__python_is(0x00007fffffffffffull));
    assert_false(sonde__python_is(0xffff800000000000ull));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_as_the_headers_say),
        cmocka_unit_test(fits_what_is_read),
        cmocka_unit_test(tells_versions_apart),
        cmocka_unit_test(believes_what_fits),
        cmocka_unit_test(frames_are_no_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
