/* test_oracle.c - every instruction of small programs, compiled in many ways, has the files,
 * lines, names and inlined frames that addr2line of binutils, elfutils and LLVM give it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "profile/profile.h"
#include "unit/profile/symbol/symbol_test.h"

#define ADDRESSES_MAX 20000

/* Each oracle has gaps, so each build names those that are right about it:
 *   b  binutils' addr2line: lines. Code without a linkage name (all that depends on a lambda) gets
 *      its caller's name; inlined frames of several ranges (clang) are missed
 *   n  the same: only line numbers, since 2.40 calls the file <artificial> with LTO
 *   e  elfutils' eu-addr2line: lines and names. Needs .debug_aranges; no inlined frames
 *      with LTO, and some are missed in clang's C++
 *   E  the same: only lines, since it spells functions without a linkage name as DWARF does
 *   l  LLVM's llvm-addr2line: lines and names
 * share: of 1000 addresses, how many must agree; ten fewer for E and l of g++: where that gives one
 * address to two inlined calls side by side, binutils and we take the last, others the first. */
static const struct { const char *tool, *oracles; int share; const char *command; } builds[] = {
    { "gcc", "bel", 1000, "gcc -O2 -g p.c -o p" },
    { "gcc", "bel", 1000, "gcc -O0 -g p.c -o p" },
    { "gcc", "bel", 1000, "gcc -O3 -gdwarf-4 p.c -o p" },
    { "gcc", "bel", 1000, "gcc -O2 -g1 p.c -o p" },
    { "gcc", "bel", 1000, "gcc -O2 -g -gz=zlib p.c -o p" },
    { "gcc", "be", 1000, "gcc -O2 -gdwarf-4 -gz=zlib-gnu p.c -o p" },
    { "gcc", "bel", 1000, "gcc -O2 -g -no-pie p.c -o p" },
    { "gcc", "nl", 1000, "gcc -O2 -g -flto p.c -o p" },
    { "gcc", "bel", 1000, "gcc -O2 -g -ffunction-sections -Wl,--gc-sections p.c -o p" },
    { "clang", "el", 1000, "clang -O2 -gdwarf-aranges -g p.c -o p" },
    { "clang", "el", 1000, "clang -O2 -gdwarf-aranges -gdwarf-4 p.c -o p" },
    { "clang", "el", 1000, "clang -O2 -gdwarf-aranges -gdwarf-5 -gz p.c -o p" },
    { "clang", "l", 1000, "clang -O2 -gline-tables-only p.c -o p" },
    { "g++", "bEl", 999, "g++ -O2 -g p.cpp -o p" },
    { "g++", "bEl", 999, "g++ -O1 -gdwarf-4 -gz p.cpp -o p" },
    { "clang++", "l", 999, "clang++ -O2 -gdwarf-5 p.cpp -o p" },
    { "clang++", "l", 999, "clang++ -O2 -gdwarf-4 p.cpp -o p" },
};

/* ---- The instructions of sized functions: what lies between is padding ---------------------- */

static size_t instructions(uint64_t *out)
{
    static uint64_t ranges[4096][2];
    size_t range_count = 0, count = 0;
    char line[16384], type;
    unsigned long long addr, size;
    snprintf(line, sizeof(line), "nm -S --defined-only %s/p", folder);
    FILE *f = popen(line, "r");
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%llx %llx %c", &addr, &size, &type) == 3 && strchr("tTwWi", type) &&
            range_count < 4096 && !strstr(line, " _start\n")) { /* not ours: no lines */
            ranges[range_count][0] = addr;
            ranges[range_count++][1] = addr + size;
        }
    }
    pclose(f);
    snprintf(line, sizeof(line), "objdump -d --no-show-raw-insn -j .text %s/p", folder);
    f = popen(line, "r");
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, " %llx:", &addr) != 1 || strchr(line, '<') == line) continue;
        for (size_t i = 0; i < range_count; i++) {
            if (addr < ranges[i][0] || addr >= ranges[i][1]) continue;
            if (count == ADDRESSES_MAX || (count && out[count - 1] >= addr)) break;
            out[count++] = addr;
            break;
        }
    }
    pclose(f);
    return count;
}

/* ---- What an oracle says -------------------------------------------------------------------- */

struct oracle {
    FILE *f;
    char line[16384];
    int pending;
};

static void ask(struct oracle *o, const char *tool, const uint64_t *at, size_t count)
{
    char command[512];
    FILE *list = fopen(in_folder("addresses"), "w");
    for (size_t i = 0; i < count; i++) fprintf(list, "0x%llx\n", (unsigned long long)at[i]);
    fclose(list);
    snprintf(command, sizeof(command), "cd %s && %s -afi -e p <addresses 2>/dev/null", folder,
             tool);
    *o = (struct oracle){ .f = popen(command, "r") };
    assert_non_null(o->f);
}

static int next_line(struct oracle *o)
{
    if (o->pending) {
        o->pending = 0;
        return 1;
    }
    if (!fgets(o->line, sizeof(o->line), o->f)) return 0;
    o->line[strcspn(o->line, "\n")] = '\0';
    return 1;
}

/* "file:12 (discriminator 3)", "file:?", "file:12:5", "file:12 inlined at …" → file, 12 */
static uint32_t split_line(char *text)
{
    uint32_t line = 0;
    char *end = strstr(text, " (");
    if (end) *end = '\0';
    for (int colons = 0; colons < 2; colons++) {
        char *colon = strrchr(text, ':');
        if (!colon || (colon[1] != '?' && colon[1 + strspn(colon + 1, "0123456789")])) break;
        *colon = '\0';
        line = (uint32_t)atoi(colon + 1);
    }
    return line;
}

/* The frames of the next address. */
static int next_answer(struct oracle *o, struct answer *out)
{
    out->count = 0;
    if (!next_line(o)) return 0;
    must(strncmp(o->line, "0x", 2) == 0, o->line);
    while (next_line(o)) {
        if (strncmp(o->line, "0x", 2) == 0 && !strchr(o->line, ':')) {
            o->pending = 1;
            break;
        }
        char *name = o->line, *inlined = strstr(name, " inlined at ");
        if (inlined) *inlined = '\0';
        out->frames[out->count].name = strdup(name);
        assert_true(next_line(o));
        out->frames[out->count].line = split_line(o->line);
        out->frames[out->count++].file = strdup(o->line);
    }
    return 1;
}

static void drop(struct answer *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        free(a->frames[i].name);
        free(a->frames[i].file);
    }
}

/* ---- Comparing ------------------------------------------------------------------------------ */

/* Both tools spell paths as they like: "/a/./b". */
static int same_file(const char *ours, const char *theirs)
{
    char a[4096], b[4096];
    if (strcmp(ours, theirs) == 0) return 1;
    return realpath(ours, a) && realpath(theirs, b) && strcmp(a, b) == 0;
}

static int same_numbers(const struct answer *ours, const struct answer *theirs)
{
    if (!ours || ours->count != theirs->count) return 0;
    for (uint32_t i = 0; i < ours->count; i++) {
        if (ours->frames[i].line != theirs->frames[i].line) return 0;
    }
    return 1;
}

static int same_lines(const struct answer *ours, const struct answer *theirs)
{
    if (!same_numbers(ours, theirs)) return 0;
    for (uint32_t i = 0; i < ours->count; i++) {
        /* Without a line they also leave out the file; we know where the function is. */
        if (ours->frames[i].line && !same_file(ours->frames[i].file, theirs->frames[i].file)) {
            return 0;
        }
    }
    return 1;
}

/* Ours may say more: the scope ("std::sort" of "sort"), and the clone ("f.cold" of "f"). */
static int same_name(const char *ours, const char *theirs)
{
    struct sonde_symbol_demangler d;
    const char *plain = sonde_symbol_demangle(&d, theirs);
    const size_t len = strlen(plain);
    for (const char *at = strstr(ours, plain); at; at = strstr(at + 1, plain)) {
        const int begins = at == ours || (at - ours >= 2 && at[-1] == ':' && at[-2] == ':');
        if (begins && (at[len] == '\0' || at[len] == '.')) return 1;
    }
    return 0;
}

static int same_names(const struct answer *ours, const struct answer *theirs)
{
    if (!ours || ours->count != theirs->count) return 0;
    for (uint32_t i = 0; i < ours->count; i++) {
        if (!same_name(ours->frames[i].name, theirs->frames[i].name)) return 0;
    }
    return 1;
}

static void show(const char *who, const struct answer *a)
{
    for (uint32_t i = 0; a && i < a->count; i++) {
        print_message("    %s %s %s:%u\n", who, a->frames[i].name, a->frames[i].file,
                      a->frames[i].line);
    }
}

static void compare(const char *build, const char *tool, const uint64_t *at,
                    const struct answers *ours, int share,
                    int (*same)(const struct answer *, const struct answer *))
{
    struct oracle o;
    struct answer theirs;
    size_t differ = 0, counted = 0;
    ask(&o, tool, at, ours->count);
    for (size_t i = 0; i < ours->count; i++) {
        assert_true(next_answer(&o, &theirs));
        /* Code of the C library's start files has no debug information: only its name is there. */
        if (theirs.frames[0].line || (ours->by_index[i] && ours->by_index[i]->frames[0].line)) {
            counted++;
            if (!same(ours->by_index[i], &theirs) && differ++ < 3) {
                print_message("%s: 0x%llx\n", build, (unsigned long long)at[i]);
                show("ours ", ours->by_index[i]);
                show(tool, &theirs);
            }
        }
        drop(&theirs);
    }
    pclose(o.f);
    if (counted < 50 || (counted - differ) * 1000 < counted * (size_t)share) {
        fail_msg("%s: %zu of %zu addresses differ from %s", build, differ, counted, tool);
    }
}

static void ask_oracle(size_t build, char which, const uint64_t *at, const struct answers *ours)
{
    const char *tool = which == 'e' || which == 'E' ? "eu-addr2line"
                       : which == 'l'               ? "llvm-addr2line" : "addr2line";
    const char *command = builds[build].command;
    const int fewer = which != 'b' && strcmp(builds[build].tool, "g++") == 0 ? 10 : 0;
    const int share = builds[build].share - fewer;
    if (!have(tool)) return;
    compare(command, tool, at, ours, share, which == 'n' ? same_numbers : same_lines);
    if (which == 'e' || which == 'l') compare(command, tool, at, ours, share, same_names);
}

static void assert_same(const struct answers *a, const struct answers *b)
{
    assert_int_equal(a->named, b->named);
    for (size_t i = 0; i < a->count; i++) {
        if (!a->by_index[i]) continue;
        assert_true(same_lines(b->by_index[i], a->by_index[i]));
        assert_true(same_names(b->by_index[i], a->by_index[i]));
    }
}

static void agrees(void **state)
{
    static uint64_t at[ADDRESSES_MAX];
    uint32_t flags;
    (void)state;
    for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
        if (!have(builds[i].tool)) continue;
        run(builds[i].command);
        const size_t count = instructions(at);
        struct answers ours = answers_of(in_folder("p"), at, count, NULL, &flags);
        assert_int_equal(flags, 0);
        for (const char *o = builds[i].oracles; *o; o++) ask_oracle(i, *o, at, &ours);
        /* Neither the table of units nor our own answers may depend on this section. */
        run("objcopy -R .debug_aranges p");
        struct answers without = answers_of(in_folder("p"), at, count, NULL, &flags);
        assert_same(&ours, &without);
        release_answers(&ours);
        release_answers(&without);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

/* binutils knows no split debug files: the same program without is the oracle. */
static void split_is_the_same(void **state)
{
    static const char *const flags[] = { "-gdwarf-5", "-gdwarf-4" };
    static uint64_t at[ADDRESSES_MAX];
    uint32_t missing;
    (void)state;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        char command[256];
        snprintf(command, sizeof(command), "gcc -O2 %s p.c -o p", flags[i]);
        run(command);
        const size_t count = instructions(at);
        struct answers whole = answers_of(in_folder("p"), at, count, NULL, &missing);
        snprintf(command, sizeof(command), "gcc -O2 %s -gsplit-dwarf p.c -o p", flags[i]);
        run(command);
        struct answers split = answers_of(in_folder("p"), at, count, NULL, &missing);
        assert_same(&whole, &split);
        release_answers(&whole);
        release_answers(&split);
    }
}

/* What several programs have in common, moved to a file of its own (.gnu_debugaltlink): the same
 * answers; when that is lost, no inlined frames of its functions, but still lines. */
static void common_file_is_the_same(void **state)
{
    static uint64_t at[ADDRESSES_MAX];
    uint32_t missing;
    (void)state;
    if (!have("dwz")) skip();
    run("g++ -O2 -gdwarf-4 p.cpp -o p && g++ -O1 -gdwarf-4 p.cpp -o q");
    const size_t count = instructions(at);
    struct answers whole = answers_of(in_folder("p"), at, count, NULL, &missing);
    run("dwz -m common -M $PWD/common p q && readelf -SW p | grep -q gnu_debugaltlink");
    struct answers parted = answers_of(in_folder("p"), at, count, NULL, &missing);
    assert_same(&whole, &parted);
    run("rm common");
    struct answers poor = answers_of(in_folder("p"), at, count, NULL, &missing);
    assert_int_equal(poor.named, whole.named);
    for (size_t i = 0; i < count; i++) {
        if (!poor.by_index[i]) continue;
        const struct answer *p = poor.by_index[i], *w = whole.by_index[i];
        assert_true(p->count <= w->count);
        assert_true(same_name(p->frames[p->count - 1].name, w->frames[w->count - 1].name));
    }
    release_answers(&whole);
    release_answers(&parted);
    release_answers(&poor);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(agrees),
                                        cmocka_unit_test(split_is_the_same),
                                        cmocka_unit_test(common_file_is_the_same) };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
