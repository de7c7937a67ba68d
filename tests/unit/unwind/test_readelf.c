/* Every row of real libraries against binutils: `readelf --debug-dump=frames-interp` prints the
 * rules of each function line by line, and each line must be what the table says for its
 * address. Other files can be given as arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unwind/unwind.h"

#define COLUMNS 24

static const char *const registers[] = { "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
                                         "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15" };

struct golden {
    struct sonde__unwind_table table;
    uint64_t first_addr;
    uint64_t end;            /* of the function at hand */
    uint32_t bad;
    char names[COLUMNS][16]; /* of the columns of the function at hand */
    int count;
    uint64_t functions, rows, skipped;
};

static int read_fd(void *arg, uint64_t at, void *out, size_t len)
{
    return pread(*(int *)arg, out, len, (off_t)at) == (ssize_t)len ? 0 : -1;
}

static void load(const char *path, struct golden *g)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const struct sonde__elf_reader r = { read_fd, &fd, 0 };
    struct sonde__elf_info e;
    if (fd < 0 || sonde__elf_find(&r, &e) || !e.eh_frame_len) fail_msg("%s: no .eh_frame", path);
    uint8_t *bytes = malloc(e.eh_frame_len);
    assert_non_null(bytes);
    assert_int_equal(read_fd(&fd, e.eh_frame_at, bytes, e.eh_frame_len), 0);
    const struct sonde__unwind_source s = { .eh_frame = bytes, .eh_frame_len = e.eh_frame_len,
                                            .eh_frame_addr = e.eh_frame_addr,
                                            .first_addr = e.first_addr };
    const size_t room = sonde__unwind_compile(&s, NULL, 0, &g->bad);
    struct sonde__unwind_row *rows = malloc(room * sizeof(*rows));
    assert_non_null(rows);
    g->table = (struct sonde__unwind_table){
        rows, (uint32_t)sonde__unwind_compile(&s, rows, room, &g->bad)
    };
    g->first_addr = e.first_addr;
    free(bytes);
    close(fd);
}

static int register_number(const char *name)
{
    for (int i = 0; i < 16; i++) {
        if (!strcmp(name, registers[i])) return i;
    }
    return -1;
}

/* "rsp+16", "rbp+16", "r10+0", "exp". */
static int cfa_is(const struct sonde__unwind_row *r, const char *text)
{
    char name[16];
    int off;
    if (!strcmp(text, "exp")) {
        return r->cfa == SONDE__CFA_PLT || r->cfa == SONDE__CFA_SP_DEREF ||
               r->cfa == SONDE__CFA_BP_DEREF || r->cfa == SONDE__CFA_SIGNAL;
    }
    if (sscanf(text, "%15[a-z0-9]%d", name, &off) != 2) return 0;
    const int reg = register_number(name);
    if (reg == 7) return r->cfa == SONDE__CFA_SP && r->cfa_off == off;
    if (reg == 6) return r->cfa == SONDE__CFA_BP && r->cfa_off == off;
    return r->cfa == SONDE__CFA_REG && r->cfa_off2 == reg && r->cfa_off == off;
}

/* "c-16", "u" or "s", "exp", a register. */
static int bp_is(const struct sonde__unwind_row *r, const char *text)
{
    const unsigned saved = r->saved & 15u;
    if (r->cfa == SONDE__CFA_SIGNAL) return 1;
    if (text[0] == 'c') return saved == SONDE__SAVED_AT_CFA && r->bp_off == atoi(text + 1);
    if (!strcmp(text, "u") || !strcmp(text, "s")) return saved == SONDE__SAVED_SAME;
    if (!strcmp(text, "exp")) return saved == SONDE__SAVED_AT_BP || saved == SONDE__SAVED_LOST;
    if (text[0] == 'v') return saved == SONDE__SAVED_LOST;
    return saved == SONDE__SAVED_IN_REG && r->bp_off == register_number(text);
}

static int bx_is(const struct sonde__unwind_row *r, const char *text)
{
    const unsigned saved = (r->saved & 127u) >> 4;
    if (r->cfa == SONDE__CFA_SIGNAL) return 1;
    if (text[0] == 'c') return saved == SONDE__SAVED_AT_CFA && r->bx_off * 8 == atoi(text + 1);
    if (!strcmp(text, "u") || !strcmp(text, "s")) return saved == SONDE__SAVED_SAME;
    return saved == SONDE__SAVED_LOST;
}

static int ra_is(const struct sonde__unwind_row *r, const char *text)
{
    if (r->cfa == SONDE__CFA_SIGNAL) return !strcmp(text, "exp");
    if (text[0] == 'c') return r->ra_off == atoi(text + 1);
    return r->ra_off == SONDE__RA_IN_REG + register_number(text);
}

/* One line of rules; the columns as the header named them. */
static int row_agrees(const struct golden *g, const struct sonde__unwind_row *r, char *const *words)
{
    const char *ra = "u", *sp = "s";
    int good = 1;
    for (int i = 0; i < g->count; i++) {
        if (!strcmp(g->names[i], "ra")) ra = words[i];
        if (!strcmp(g->names[i], "rsp")) sp = words[i];
    }
    if (!strcmp(ra, "u")) return r->cfa == SONDE__CFA_END;
    for (int i = 0; i < g->count; i++) {
        if (!strcmp(g->names[i], "rbp")) good = good && bp_is(r, words[i]);
        if (!strcmp(g->names[i], "rbx")) good = good && bx_is(r, words[i]);
    }
    /* longjmp: sp is in a register, which then is the CFA. */
    const int in_reg = register_number(sp);
    const int cfa = in_reg >= 0 ? r->cfa == SONDE__CFA_REG && r->cfa_off2 == in_reg
                                : cfa_is(r, words[0]);
    return good && cfa && ra_is(r, ra);
}

static int split(char *line, char **words)
{
    int n = 0;
    for (char *p = strtok(line, " \n"); p && n < COLUMNS; p = strtok(NULL, " \n")) words[n++] = p;
    return n;
}

static void take_line(struct golden *g, char *line)
{
    char copy[512], *words[COLUMNS];
    snprintf(copy, sizeof(copy), "%.500s", line);
    const char *range = strstr(line, " pc=");
    if (strstr(line, " FDE ") && range) {
        unsigned long from, to;
        assert_int_equal(sscanf(range, " pc=%lx..%lx", &from, &to), 2);
        g->end = to;
        g->functions++;
        g->count = 0;
        return;
    }
    const int n = split(line, words);
    if (n >= 2 && !strcmp(words[0], "LOC")) {
        g->count = n - 1;
        for (int i = 1; i < n; i++)
            snprintf(g->names[i - 1], sizeof(g->names[0]), "%.15s", words[i]);
        return;
    }
    if (n != g->count + 1 || n < 2 || strlen(words[0]) != 16 ||
        !isxdigit((unsigned char)words[0][0]))
        return;
    const uint64_t pc = strtoull(words[0], NULL, 16);
    if (pc >= g->end) return; /* compilers write rules for behind the last instruction */
    const struct sonde__unwind_row *r =
        sonde__unwind_lookup(&g->table, (uint32_t)(pc - g->first_addr));
    g->rows++;
    if (r && r->cfa == SONDE__CFA_NONE && g->bad && !strcmp(words[1], "exp")) {
        g->skipped++; /* counted as bad: more than a row can say */
    } else if (!r || !row_agrees(g, r, words + 1)) {
        fail_msg("%s: table: cfa %u %d %d saved %#x bp %d bx %d ra %d", copy, r ? r->cfa : 255u,
                 r ? r->cfa_off : 0, r ? r->cfa_off2 : 0, r ? r->saved : 0u, r ? r->bp_off : 0,
                 r ? r->bx_off : 0, r ? r->ra_off : 0);
    }
}

static void compare(const char *path)
{
    struct golden g = { 0 };
    char command[4096], line[4096];
    load(path, &g);
    snprintf(command, sizeof(command),
             "LC_ALL=C readelf -W --debug-dump=frames-interp '%s' 2>/dev/null", path);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    int cie = 0;
    while (fgets(line, sizeof(line), f)) {
        if (strstr(line, " CIE ")) cie = 1;
        if (strstr(line, " FDE ")) cie = 0;
        if (strstr(line, "Contents of the") && g.functions) break; /* .debug_frame */
        if (!cie) take_line(&g, line);
    }
    pclose(f);
    print_message("%s: %lu functions, %lu lines agree with %u rows; %lu not expressible\n", path,
                  g.functions, g.rows - g.skipped, g.table.count, g.skipped);
    free((void *)(uintptr_t)g.table.rows);
    if (!g.functions) skip(); /* no readelf here */
    assert_true(g.rows > g.functions / 2);
    assert_true(g.skipped * 1000 <= g.rows);
}

static int each_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    if (info->dlpi_name[0] == '/') compare(info->dlpi_name);
    return 0;
}

/* libc, ld.so, and if there are any: C++, and libcrypto for its hand-written assembly. */
static void own_libraries(void **state)
{
    (void)state;
    dlopen("libstdc++.so.6", RTLD_NOW);
    dlopen("libcrypto.so.3", RTLD_NOW);
    dl_iterate_phdr(each_library, NULL);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(own_libraries) };
    for (int i = 1; i < argc; i++) compare(argv[i]);
    return argc > 1 ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
