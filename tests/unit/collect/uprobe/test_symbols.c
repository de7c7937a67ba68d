/* Where functions are in a file, and what can be read from the code of small ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "collect/uprobe/symbols.h"
#include "sonde/sonde.h"
#include "unit/collect/uprobe/uprobe_elf.h"
#include "unwind/arch_call.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint8_t file[ELF_SIZE];

static void test_found(void **state)
{
    (void)state;
    struct sonde_uprobe_symbols s;
    elf_make(file);
    assert_int_equal(sonde_uprobe_symbols_find(file, sizeof(file), &s), 0);
    assert_int_equal(s.count, 4);
    assert_int_equal(s.at[SONDE__LLAMA_DECODE], ELF_TEXT + 4);
    assert_int_equal(s.at[SONDE__LLAMA_APPLY], ELF_TEXT + 32 + 7);
    assert_int_equal(s.at[SONDE__LLAMA_PIECE], ELF_TEXT + 64 + 8);
    assert_int_equal(s.at[SONDE__LLAMA_TOKENIZE], ELF_TEXT + 96);
    assert_int_equal(s.at[SONDE__LLAMA_ENCODE], 0);
    assert_int_equal(s.entry_at, ELF_TEXT);
    assert_int_equal(s.buffer_size_at, 0x68);
    assert_int_equal(s.tensor_name_at, 0x100);
}

/* One thing is wrong in each. */
static void test_damaged(void **state)
{
    (void)state;
    struct sonde_uprobe_symbols s;
    static const struct { const char *what; size_t at; uint8_t value; int rc; } cases[] = {
        { "magic", 0, 0, SONDE_EFORMAT },
        { "32 bit", EI_CLASS, ELFCLASS32, SONDE_EFORMAT },
        { "other byte order", EI_DATA, ELFDATA2MSB, SONDE_EFORMAT },
        { "an object file", offsetof(Elf64_Ehdr, e_type), ET_REL, SONDE_EFORMAT },
        { "another machine", offsetof(Elf64_Ehdr, e_machine), 0xb7, SONDE_EFORMAT },
        { "program headers outside", offsetof(Elf64_Ehdr, e_phoff) + 6, 0xff, SONDE_EFORMAT },
        { "nothing executable", sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_flags), PF_R,
          SONDE_EFORMAT },
        { "sections outside", offsetof(Elf64_Ehdr, e_shoff) + 7, 0x7f, SONDE_EFORMAT },
        { "sections of another size", offsetof(Elf64_Ehdr, e_shentsize), 8, 0 },
        { "strings of no section", ELF_SECTIONS + 64 + offsetof(Elf64_Shdr, sh_link), 9, 0 },
        { "symbols outside", ELF_SECTIONS + 64 + offsetof(Elf64_Shdr, sh_offset) + 5, 1, 0 },
        { "symbols too many", ELF_SECTIONS + 64 + offsetof(Elf64_Shdr, sh_size) + 5, 1, 0 },
        { "strings outside", ELF_SECTIONS + 128 + offsetof(Elf64_Shdr, sh_offset) + 3, 1, 0 },
        { "code outside", sizeof(Elf64_Ehdr) + offsetof(Elf64_Phdr, p_offset) + 7, 0xff, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        elf_make(file);
        file[cases[i].at] = cases[i].value;
        const int rc = sonde_uprobe_symbols_find(file, sizeof(file), &s);
        if (rc != cases[i].rc) fail_msg("%s: %d", cases[i].what, rc);
        if (s.count) fail_msg("%s: %u functions", cases[i].what, s.count);
    }
    for (size_t len = 0; len < sizeof(file); len++) {
        elf_make(file);
        uint8_t *cut = malloc(len ? len : 1);
        assert_non_null(cut);
        memcpy(cut, file, len);
        sonde_uprobe_symbols_find(cut, len, &s);
        free(cut);
    }
}

static void test_files(void **state)
{
    (void)state;
    struct sonde_uprobe_symbols s;
    FILE *f = tmpfile();
    assert_non_null(f);
    assert_int_equal(sonde_uprobe_symbols_read(fileno(f), &s), SONDE_EFORMAT);
    elf_make(file);
    assert_int_equal(fwrite(file, 1, sizeof(file), f), sizeof(file));
    fflush(f);
    assert_int_equal(sonde_uprobe_symbols_read(fileno(f), &s), 0);
    assert_int_equal(s.count, 4);
    fclose(f);
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(sonde_uprobe_symbols_read(fds[0], &s), SONDE_EIO);
    close(fds[0]);
    close(fds[1]);
}

/* Getters as compilers make them, and code that is none. */
static void test_getters(void **state)
{
    (void)state;
#define CODE(s) s, sizeof(s) - 1
    static const struct {
        const char *what, *code;
        size_t len;
        int address;
        int32_t at;
    } cases[] = {
        { "mov 8(%rdi)", CODE("\x48\x8b\x47\x08\xc3"), 0, 8 },
        { "mov 0x158(%rdi)", CODE("\x48\x8b\x87\x58\x01\x00\x00\xc3"), 0, 0x158 },
        { "not optimized",
          CODE("\x55\x48\x89\xe5\x48\x89\x7d\xf8\x48\x8b\x45\xf8\x48\x8b\x40\x58\x5d\xc3"),
          0, 0x58 },
        { "lea, not optimized",
          CODE("\x55\x48\x89\xe5\x48\x89\x7d\xf8\x48\x8b\x45\xf8\x48\x05\x00\x01\x00\x00\x5d\xc3"),
          1, 0x100 },
        { "an address is not a load", CODE("\x48\x8d\x47\x08\xc3"), 0, -1 },
        { "behind the return", CODE("\xc3\x48\x8b\x47\x08"), 0, -1 },
        { "negative", CODE("\x48\x8b\x47\xf8\xc3"), 0, -1 },
        { "far", CODE("\x48\x8b\x87\x00\x00\x01\x00\xc3"), 0, -1 },
        { "cut", CODE("\x48\x8b\x87\x00\x00"), 0, -1 },
        { "nothing", CODE(""), 0, -1 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const int32_t at = sonde__arch_getter((const uint8_t *)cases[i].code, cases[i].len,
                                              cases[i].address);
        if (at != cases[i].at) fail_msg("%s: %d", cases[i].what, at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_getters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
