/* Functions of Python out of a segment made by hand: as they should be, and as nobody should make
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "collect/python/location.h"
#include "collect/segment/read.h"
#include "profile/python_function.h"
#include "sonde/sonde.h"
#include "unit/collect/segment/segment_fixture.h"

#define AREA 0u    /* in the block area */
#define CODE 64u

struct python_fixture {
    char dir[64];
    int dirfd;
    struct build b;
    struct sonde__python *area;
    struct sonde__python_code *code;
    struct sonde_segment *s;
    struct sonde_err err;
};

/* f at train.py:7, whose first four instructions are of that line and the next of line 9. */
static void python_fixture_init(struct python_fixture *f)
{
    static const char text[] = "f" "train.py" "\x83\x00\xd9\x00\x00";
    memset(f, 0, sizeof(*f));
    f->dirfd = fixture_dir(f->dir);
    build_init(&f->b, 4242, 777, "python3");
    f->area = (struct sonde__python *)(void *)(f->b.base + f->b.h->block_off + AREA);
    f->code = (struct sonde__python_code *)(void *)(f->b.base + f->b.h->block_off + CODE);
    f->b.h->python = f->b.h->block_off + AREA;
    *f->area = (struct sonde__python){ .state = SONDE__PYTHON_READS, .version = 0x030b02f0,
                                       .codes = 1 };
    *f->code = (struct sonde__python_code){
        .magic = SONDE__PYTHON_CODE_MAGIC, .ready = 1, .first_line = 7, .name_bytes = 1,
        .file_bytes = 8, .lines_bytes = 5, .name_kind = 1, .file_kind = 1 };
    memcpy(f->code->text, text, sizeof(text) - 1);
    /* The second entry: one line further by the form that says 2. */
    f->code->text[1 + 8 + 2] = (char)(0x80 | 12 << 3 | 1);
}

static void python_fixture_end(struct python_fixture *f)
{
    fixture_end(&f->b, f->dir, f->dirfd, f->s);
}

static uint64_t ip_of(const struct python_fixture *f, uint64_t off, uint32_t instruction)
{
    return sonde__python_frame_of((f->b.h->block_off + off) / 64, instruction);
}

static int look(struct python_fixture *f, uint64_t ip, struct sonde_segment_python_function *out)
{
    fixture_write(&f->b, f->dirfd, &f->s);
    return sonde_segment_python_function(f->s, ip, out, &f->err);
}

static void reads_functions(void **state)
{
    struct python_fixture f;
    struct sonde_segment_python_function out;
    struct sonde_segment_python_info info;
    char note[256];
    (void)state;
    python_fixture_init(&f);
    assert_int_equal(look(&f, ip_of(&f, CODE, 0), &out), 0);
    assert_string_equal(out.name, "f");
    assert_string_equal(out.file, "train.py");
    assert_int_equal(out.first_line, 7);
    assert_int_equal(out.line, 7);
    assert_int_equal(look(&f, ip_of(&f, CODE, 4), &out), 0);
    assert_int_equal(out.line, 9);
    assert_int_equal(look(&f, ip_of(&f, CODE, 1000), &out), 0);
    assert_int_equal(out.line, 0);
    assert_int_equal(sonde_segment_python(f.s, &info, &f.err), 0);
    assert_int_equal(info.version, 0x030b02f0);
    sonde_python_note(f.s, 4242, note, sizeof(note));
    assert_string_equal(note, "");
    python_fixture_end(&f);
}

static void says_why_there_are_none(void **state)
{
    struct python_fixture f;
    struct sonde_segment_python_function out;
    struct sonde_segment_python_info info;
    char note[256];
    (void)state;
    python_fixture_init(&f);
    assert_int_equal(look(&f, sonde__python_frame_of(0, 3), &out), SONDE_EFULL);
    for (uint32_t s = SONDE__PYTHON_OLD; s < SONDE__PYTHON_STATE_COUNT; s++) {
        f.area->state = s;
        fixture_write(&f.b, f.dirfd, &f.s);
        sonde_python_note(f.s, 4242, note, sizeof(note));
        assert_non_null(strstr(note, "process 4242 is Python 3.11.2, of which only native frames"));
    }
    f.area->state = SONDE__PYTHON_READS;
    f.area->full = 9;
    fixture_write(&f.b, f.dirfd, &f.s);
    sonde_python_note(f.s, 4242, note, sizeof(note));
    assert_non_null(strstr(note, "9 frames of Python 3.11.2 in process 4242 have no name"));
    f.area->state = SONDE__PYTHON_STATE_COUNT;
    fixture_write(&f.b, f.dirfd, &f.s);
    assert_int_equal(sonde_segment_python(f.s, &info, &f.err), SONDE_EFORMAT);
    f.b.h->python = 0;
    fixture_write(&f.b, f.dirfd, &f.s);
    assert_int_equal(sonde_segment_python(f.s, &info, &f.err), SONDE_ENOENT);
    python_fixture_end(&f);
}

/* Each is refused, and named as a function without a name. */
static void believes_nothing(void **state)
{
    struct python_fixture f;
    struct sonde_segment_python_function out;
    struct sonde_segment_python_info info;
    struct sonde_profile *p;
    int final;
    (void)state;
    python_fixture_init(&f);
    const struct sonde__python_code good = *f.code;
    assert_int_equal(look(&f, ip_of(&f, CODE, 0), &out), 0);
#define REFUSED(field, value, expected)                                                        \
    do {                                                                                       \
        f.code->field = (value);                                                               \
        assert_int_equal(look(&f, ip_of(&f, CODE, 0), &out), (expected));                      \
        f.code->field = good.field;                                                            \
    } while (0)
    REFUSED(magic, 1, SONDE_EFORMAT);
    REFUSED(ready, 0, SONDE_EBUSY);
    REFUSED(name_bytes, SONDE__PYTHON_NAME_MAX + 1, SONDE_EFORMAT);
    REFUSED(name_bytes, UINT32_MAX, SONDE_EFORMAT);
    REFUSED(file_bytes, UINT32_MAX, SONDE_EFORMAT);
    REFUSED(lines_bytes, UINT32_MAX, SONDE_EFORMAT);
    REFUSED(name_kind, 3, SONDE_EFORMAT);
    REFUSED(file_kind, 0, SONDE_EFORMAT);
    f.code->first_line = UINT32_MAX;
    assert_int_equal(look(&f, ip_of(&f, CODE, 0), &out), 0);
    assert_int_equal(out.first_line, 0);
    /* Outside of the block area: before it, at its end, behind all. */
    assert_int_equal(look(&f, sonde__python_frame_of(1, 0), &out), SONDE_EFORMAT);
    assert_int_equal(look(&f, ip_of(&f, BUILD_BLOCKS, 0), &out), SONDE_EFORMAT);
    assert_int_equal(look(&f, sonde__python_frame_of((1u << 26) - 1, 0), &out), SONDE_EFORMAT);
    /* In it, but its texts would end behind it. */
    struct sonde__python_code *last = (struct sonde__python_code *)(void *)
        (f.b.base + f.b.h->block_off + BUILD_BLOCKS - 64);
    *last = good;
    last->lines_bytes = 64;
    assert_int_equal(look(&f, ip_of(&f, BUILD_BLOCKS - 64, 0), &out), SONDE_EFORMAT);
    assert_int_equal(sonde_profile_create(0, &p), 0);
    const uint32_t location = sonde_python_location(p, f.s, ip_of(&f, BUILD_BLOCKS, 0), &final);
    assert_int_not_equal(location, 0);
    const uint32_t function = p->lines[p->locations[location].line].function;
    assert_string_equal(sonde_profile_str(p, p->functions[function].name), SONDE_PYTHON_UNNAMED);
    sonde_profile_destroy(p);
    f.b.h->python = f.b.h->block_off + BUILD_BLOCKS;
    fixture_write(&f.b, f.dirfd, &f.s);
    assert_int_equal(sonde_segment_python(f.s, &info, &f.err), SONDE_EFORMAT);
    python_fixture_end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_functions),
        cmocka_unit_test(says_why_there_are_none),
        cmocka_unit_test(believes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
