/* test_symbolize.c - a profile's locations get their names: through mappings wherever they are,
 * from files stripped, replaced, deleted, with debug files apart, JIT maps, the vDSO, the
 * kernel. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/log.h"
#include "profile/profile.h"
#include "profile/symbol/symbolize.h"
#include "sonde/sonde.h"
#include "unit/profile/symbol/symbol_test.h"

#define BASE 0x7f1234000000ull /* where the programs pretend to be mapped */

struct fixture {
    struct sonde_symbolizer *s;
    struct sonde_profile *p;
    int64_t live;
};

static void begin(struct fixture *f)
{
    f->live = sonde__alloc_live();
    assert_int_equal(sonde_symbolizer_create(&f->s), 0);
    assert_int_equal(sonde_profile_create(0, &f->p), 0);
}

static void end(struct fixture *f)
{
    sonde_profile_destroy(f->p);
    sonde_symbolizer_destroy(f->s);
    assert_int_equal(sonde__alloc_live(), f->live);
}

static void again(struct fixture *f)
{
    sonde_profile_destroy(f->p);
    assert_int_equal(sonde_profile_create(0, &f->p), 0);
}

/* The file's code segment: readelf's line "LOAD off vaddr paddr filesz memsz R E align". */
static void code_segment(const char *program, uint64_t *offset, uint64_t *vaddr, uint64_t *size)
{
    char line[512], flags[8];
    unsigned long long off, va, pa, filesz, memsz;
    int found = 0;
    snprintf(line, sizeof(line), "readelf -lW %s/%s", folder, program);
    FILE *f = popen(line, "r");
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, " LOAD %llx %llx %llx %llx %llx %7[RWE ]", &off, &va, &pa, &filesz,
                   &memsz, flags) == 6 && strchr(flags, 'E')) {
            *offset = off;
            *vaddr = va;
            *size = filesz;
            found = 1;
        }
    }
    pclose(f);
    assert_true(found);
}

static const char *build_id_of(const char *program)
{
    static char id[128];
    char line[512];
    id[0] = '\0';
    snprintf(line, sizeof(line), "readelf -nW %s/%s", folder, program);
    FILE *f = popen(line, "r");
    while (fgets(line, sizeof(line), f)) {
        const char *at = strstr(line, "Build ID: ");
        if (at) sscanf(at, "Build ID: %127s", id);
    }
    pclose(f);
    return id;
}

static uint32_t add_module(struct fixture *f, const char *program, const char *build_id,
                           const char *open_path, uint32_t flags)
{
    uint64_t offset, vaddr, size;
    code_segment(program, &offset, &vaddr, &size);
    struct sonde_profile_module m = {
        .path = sonde_profile_cstring(f->p, in_folder(program)),
        .build_id = sonde_profile_cstring(f->p, build_id),
        .open_path = sonde_profile_cstring(f->p, open_path),
        .start = BASE + (vaddr & ~0xfffull), .offset = offset & ~0xfffull,
        .end = BASE + ((vaddr + size + 0xfff) & ~0xfffull), .flags = flags,
    };
    return sonde_profile_module(f->p, &m);
}

static const char *name_of(const struct fixture *f, uint32_t location, uint32_t frame)
{
    const struct sonde_profile_location *l = &f->p->locations[location];
    if (frame >= l->line_count) return "";
    return sonde_profile_str(f->p, f->p->functions[f->p->lines[l->line + frame].function].name);
}

static const char *file_of(const struct fixture *f, uint32_t location, uint32_t frame)
{
    const struct sonde_profile_location *l = &f->p->locations[location];
    if (frame >= l->line_count) return "";
    return sonde_profile_str(f->p, f->p->functions[f->p->lines[l->line + frame].function].file);
}

static void symbolize(struct fixture *f)
{
    assert_int_equal(sonde_symbolize(f->s, f->p), 0);
}

/* burn, in a program built by command; returns its location. */
static uint32_t burn_in(struct fixture *f, const char *program, const char *build_id,
                        const char *open_path, uint32_t flags, uint64_t burn)
{
    const uint32_t module = add_module(f, program, build_id, open_path, flags);
    return sonde_profile_location(f->p, module, BASE + burn);
}

/* ---- One file ------------------------------------------------------------------------------ */

static void ways_to_link(void **state)
{
    static const char *const commands[] = {
        "gcc -O2 -g p.c -o p", "gcc -O2 -g -no-pie p.c -o p", "gcc -O2 -g -static-pie p.c -o p",
        "gcc -O2 -g -static p.c -o p", "gcc -O2 -g -Wl,-z,noseparate-code p.c -o p",
        "gcc -O2 -g -Wl,--build-id=none p.c -o p", "gcc -O2 -g -Wl,--build-id=md5 p.c -o p",
        "gcc -O2 -g -Wl,-Ttext-segment=0x3000000 p.c -o p",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        struct fixture f;
        run(commands[i]);
        begin(&f);
        const uint64_t burn = address_of("p", "burn");
        const uint32_t module = add_module(&f, "p", build_id_of("p"), "", 0);
        const uint32_t start = sonde_profile_location(f.p, module, BASE + burn);
        const uint32_t far = sonde_profile_location(f.p, module, BASE + burn + 0x10000000);
        symbolize(&f);
        assert_string_equal(name_of(&f, start, 0), "burn");
        assert_string_equal(file_of(&f, start, 0), in_folder("p.c"));
        assert_int_equal(f.p->functions[f.p->lines[f.p->locations[start].line].function].start_line,
                         42);
        assert_int_equal(f.p->locations[far].line_count, 0);
        assert_int_equal(f.p->modules[module].flags, 0);
        end(&f);
    }
}

static void inlined_frames(void **state)
{
    struct fixture f;
    char line[512];
    unsigned long long addr = 0;
    int deep = 0;
    (void)state;
    run("gcc -O2 -g p.c -o p");
    begin(&f);
    const uint32_t module = add_module(&f, "p", build_id_of("p"), "", 0);
    const uint64_t burn = address_of("p", "burn");
    snprintf(line, sizeof(line), "objdump -d --disassemble=burn %s/p", folder);
    FILE *o = popen(line, "r");
    while (fgets(line, sizeof(line), o)) {
        if (sscanf(line, " %llx:\t", &addr) == 1 && addr >= burn) {
            sonde_profile_location(f.p, module, BASE + addr);
        }
    }
    pclose(o);
    symbolize(&f);
    for (uint32_t i = 1; i < f.p->locations_count; i++) {
        if (f.p->locations[i].line_count != 4) continue;
        deep++;
        assert_string_equal(name_of(&f, i, 0), "mix");
        assert_string_equal(name_of(&f, i, 1), "twice");
        assert_string_equal(name_of(&f, i, 2), "outer");
        assert_string_equal(name_of(&f, i, 3), "burn");
        const struct sonde_profile_line *lines = &f.p->lines[f.p->locations[i].line];
        assert_in_range(lines[0].line, 5, 10);
        assert_in_range(lines[1].line, 13, 14);
        assert_int_equal(lines[2].line, 22);
        assert_int_equal(lines[3].line, 45);
    }
    assert_true(deep > 3);
    end(&f);
}

static void no_debug_information(void **state)
{
    struct fixture f;
    (void)state;
    run("gcc -O2 p.c -o p");
    begin(&f);
    const uint64_t burn = address_of("p", "burn"), start = address_of("p", "_start");
    const uint32_t l = burn_in(&f, "p", build_id_of("p"), "", 0, burn + 3);
    const uint32_t module = f.p->locations[l].module;
    const uint32_t other = sonde_profile_location(f.p, module, BASE + start);
    symbolize(&f);
    assert_string_equal(name_of(&f, l, 0), "burn");
    assert_string_equal(file_of(&f, l, 0), "");
    assert_string_equal(name_of(&f, other, 0), "_start");
    assert_int_equal(f.p->modules[module].flags, SONDE_MODULE_NO_LINES);
    end(&f);
}

/* Exported names, PLT stubs, and where functions start are all that is left. */
static void stripped(void **state)
{
    static const char *const plts[] = { "", "-Wl,-z,now", "-fcf-protection -Wl,-z,ibtplt",
                                        "-fno-plt" };
    (void)state;
    for (size_t i = 0; i < sizeof(plts) / sizeof(plts[0]); i++) {
        struct fixture f;
        char command[256], line[512];
        unsigned long long stub = 0, addr;
        snprintf(command, sizeof(command), "gcc -O2 %s -rdynamic p.c -o p", plts[i]);
        run(command);
        begin(&f);
        const uint64_t burn = address_of("p", "burn"), main_at = address_of("p", "main");
        /* objdump names the stubs <qsort@plt>. */
        snprintf(line, sizeof(line), "objdump -d %s/p", folder);
        FILE *o = popen(line, "r");
        while (fgets(line, sizeof(line), o)) {
            if (strstr(line, "<qsort@plt>:") && sscanf(line, "%llx", &addr) == 1) stub = addr;
        }
        pclose(o);
        run("nm p | grep -w depth.constprop.0 >depth || nm p | grep depth >depth; strip p");
        size_t len;
        char *depth = read_file(in_folder("depth"), &len);
        const uint32_t module = add_module(&f, "p", build_id_of("p"), "", 0);
        const uint32_t exported = sonde_profile_location(f.p, module, BASE + burn + 1);
        const uint64_t hidden_at = strtoull(depth, NULL, 16);
        const uint32_t hidden = sonde_profile_location(f.p, module, BASE + hidden_at + 5);
        const uint32_t entry = sonde_profile_location(f.p, module, BASE + main_at);
        const uint32_t plt = stub ? sonde_profile_location(f.p, module, BASE + stub + 4) : 0;
        symbolize(&f);
        assert_string_equal(name_of(&f, exported, 0), "burn");
        assert_string_equal(name_of(&f, entry, 0), "main");
        snprintf(line, sizeof(line), "p+0x%llx", (unsigned long long)hidden_at);
        assert_string_equal(name_of(&f, hidden, 0), line);
        if (stub) assert_string_equal(name_of(&f, plt, 0), "qsort@plt");
        assert_true(stub != 0 || i == 3);
        assert_int_equal(f.p->modules[module].flags, SONDE_MODULE_STRIPPED);
        free(depth);
        end(&f);
    }
}

/* A name holds to the end of its function, and code that has none is one row, not one an address:
 * symbols without a size, in code with entries in .eh_frame and without. */
static void unsized(void **state)
{
    static const char assembly[] =
        ".text\n"
        ".globl lone\nlone: .fill 8192,1,0x90\n"
        ".globl framed\nframed: .cfi_startproc\n.fill 64,1,0x90\n.cfi_endproc\n"
        "gap: .fill 512,1,0x90\n"
        "hidden: .cfi_startproc\n.fill 256,1,0x90\n.cfi_endproc\n"
        ".globl last\nlast: .fill 64,1,0x90\n"
        "after: .cfi_startproc\n.fill 64,1,0x90\n.cfi_endproc\n"
        ".section .note.GNU-stack,\"\"\n";
    static const struct { uint64_t at; const char *name; uint64_t start; } cases[] = {
        { 0, "lone", 0 },          { 4095, "lone", 0 },
        { 4096, NULL, 4096 },      { 8000, NULL, 4096 },      /* nothing says that it is lone */
        { 8192, "framed", 0 },     { 8255, "framed", 0 },
        { 8256, NULL, 8256 },      { 8700, NULL, 8256 },      /* beyond its entry */
        { 8768, NULL, 8768 },      { 9000, NULL, 8768 },
        { 9024, "last", 0 },       { 9087, "last", 0 },
        { 9088, NULL, 9088 },      { 9100, NULL, 9088 },      /* another's entry begins */
    };
    /* Without the list, as in programs that are linked statically, the entries tell the same. */
    static const char *const ways[] = { "-Wl,--eh-frame-hdr", "-Wl,--no-eh-frame-hdr" };
    (void)state;
    for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++) {
        struct fixture f;
        char command[256];
        uint32_t locations[sizeof(cases) / sizeof(cases[0])];
        write_file("u.s", assembly, sizeof(assembly) - 1);
        snprintf(command, sizeof(command), "gcc -shared -nostdlib %s u.s -o u.so", ways[way]);
        run(command);
        begin(&f);
        const uint64_t lone = address_of("u.so", "lone");
        run("strip u.so");
        const uint32_t module = add_module(&f, "u.so", build_id_of("u.so"), "", 0);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            locations[i] = sonde_profile_location(f.p, module, BASE + lone + cases[i].at);
        }
        symbolize(&f);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            char name[64];
            snprintf(name, sizeof(name), "u.so+0x%llx",
                     (unsigned long long)(lone + cases[i].start));
            assert_string_equal(name_of(&f, locations[i], 0), cases[i].name ? cases[i].name : name);
        }
        end(&f);
    }
}

/* ---- Debug files apart ---------------------------------------------------------------------- */

static void debug_files(void **state)
{
    static const struct { const char *what, *command; int found; } ways[] = {
        { "nowhere", "objcopy --add-gnu-debuglink=d p && rm d", 0 },
        { "beside", "objcopy --add-gnu-debuglink=d p", 1 },
        { "in .debug", "objcopy --add-gnu-debuglink=d p && mkdir -p .debug && mv d .debug", 1 },
        { "under the root by path",
          "objcopy --add-gnu-debuglink=d p && mkdir -p root/$PWD && mv d root/$PWD", 1 },
        { "under the root by build id",
          "id=$(readelf -nW p | sed -n 's/.*Build ID: //p'); "
          "to=root/.build-id/${id%${id#??}}; mkdir -p $to && mv d $to/${id#??}.debug", 1 },
        { "of another build beside",
          "gcc -O2 -g -DOTHER p.c -o q && echo 'int other;' >o.c && gcc -g p.c o.c -o q && "
          "objcopy --add-gnu-debuglink=d p && objcopy --only-keep-debug q d", 0 },
        { "of another build, without build ids",
          "objcopy --add-gnu-debuglink=d -R .note.gnu.build-id p && objcopy -O binary p /dev/null; "
          "printf x >>d", 0 },
        { "compressed",
          "objcopy --compress-debug-sections d && objcopy --add-gnu-debuglink=d p", 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct fixture f;
        run("rm -rf root .debug d q; gcc -O2 -g p.c -o p && objcopy --only-keep-debug p d");
        const uint64_t burn = address_of("p", "burn");
        run("strip p");
        run(ways[i].command);
        begin(&f);
        assert_int_equal(sonde_symbolizer_debug_root(f.s, in_folder("root")), 0);
        const uint32_t l = burn_in(&f, "p", build_id_of("p"), "", 0, burn);
        symbolize(&f);
        const struct sonde_profile_location *at = &f.p->locations[l];
        const int found = strcmp(name_of(&f, l, 0), "burn") == 0;
        if (found != ways[i].found) fail_msg("debug file %s", ways[i].what);
        if (found) {
            assert_string_equal(file_of(&f, l, 0), in_folder("p.c"));
            assert_int_equal(f.p->modules[at->module].flags, 0);
        } else {
            assert_int_equal(f.p->modules[at->module].flags, SONDE_MODULE_STRIPPED);
        }
        end(&f);
    }
}

/* The symbols that distributions leave in a stripped file, packed with xz. */
static void mini_debuginfo(void **state)
{
    struct fixture f;
    (void)state;
    if (!have("xz")) skip();
    run("gcc -O2 p.c -o p");
    const uint64_t burn = address_of("p", "burn");
    run("objcopy --only-keep-debug p mini && xz -f mini && strip p && "
        "objcopy --add-section .gnu_debugdata=mini.xz p");
    begin(&f);
    const uint32_t l = burn_in(&f, "p", build_id_of("p"), "", 0, burn);
    symbolize(&f);
    assert_string_equal(name_of(&f, l, 0), "burn");
    assert_int_equal(f.p->modules[f.p->locations[l].module].flags, SONDE_MODULE_NO_LINES);
    end(&f);
}

/* ---- Files that change ---------------------------------------------------------------------- */

static void replaced(void **state)
{
    struct fixture f;
    char id[128];
    (void)state;
    run("gcc -O2 -g p.c -o p");
    snprintf(id, sizeof(id), "%s", build_id_of("p"));
    const uint64_t burn = address_of("p", "burn");
    run("gcc -O1 -g p.c -o p");
    begin(&f);
    uint32_t l = burn_in(&f, "p", id, "", 0, burn);
    symbolize(&f);
    assert_int_equal(f.p->locations[l].line_count, 0);
    assert_int_equal(f.p->modules[f.p->locations[l].module].flags,
                     SONDE_MODULE_DELETED | SONDE_MODULE_STRIPPED);
    again(&f); /* gone, and known to be gone: another file at the path is not looked at */
    l = burn_in(&f, "p", "", "", SONDE_MODULE_DELETED, address_of("p", "burn"));
    symbolize(&f);
    assert_int_equal(f.p->locations[l].line_count, 0);
    again(&f);
    run("cp p q && rm p && ln -s /dev/zero p");
    struct sonde_profile_module m = { .path = sonde_profile_cstring(f.p, in_folder("p")),
                                      .start = 0x1000, .end = 0x2000 };
    l = sonde_profile_location(f.p, sonde_profile_module(f.p, &m), 0x1100);
    symbolize(&f);
    assert_int_equal(f.p->locations[l].line_count, 0);
    run("rm p");
    end(&f);
}

/* As long as it runs, the kernel still has the program that was replaced. */
static void replaced_while_running(void **state)
{
    static const char source[] = "#include <unistd.h>\nint burn(void);\n"
                                 "__attribute__((noinline)) int burn(void) { return pause(); }\n"
                                 "int main(void) { alarm(60); write(1, \"\", 1); "
                                 "return burn(); }\n";
    struct fixture f;
    char open_path[512];
    int ends[2];
    (void)state;
    write_file("w.c", source, sizeof(source) - 1);
    run("gcc -g w.c -o w");
    char id[128];
    snprintf(id, sizeof(id), "%s", build_id_of("w"));
    const uint64_t burn = address_of("w", "burn");
    begin(&f);
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 1);
        execl(in_folder("w"), "w", (char *)NULL);
        _exit(1);
    }
    char byte;
    assert_int_equal(read(ends[0], &byte, 1), 1);
    snprintf(open_path, sizeof(open_path), "/proc/%d/root%s", (int)pid, in_folder("w"));
    /* In place, through a link, without and with its build id known. */
    run("cp w new && gcc -O2 -g p.c -o new && mv new w");
    for (int known = 0; known < 2; known++) {
        uint64_t offset, vaddr, size;
        const uint32_t flags = known ? 0 : SONDE_MODULE_DELETED;
        code_segment("w", &offset, &vaddr, &size);
        struct sonde_profile_module m = {
            .path = sonde_profile_cstring(f.p, in_folder("w")),
            .build_id = sonde_profile_cstring(f.p, known ? id : ""),
            .open_path = sonde_profile_cstring(f.p, open_path), .start = BASE, .end = BASE + 0x5000,
            .flags = flags };
        const uint32_t module = sonde_profile_module(f.p, &m);
        const uint32_t l = sonde_profile_location(f.p, module, BASE + burn);
        symbolize(&f);
        assert_string_equal(name_of(&f, l, 0), "burn");
        assert_string_equal(file_of(&f, l, 0), in_folder("w.c"));
        assert_int_equal(f.p->modules[module].flags, SONDE_MODULE_DELETED);
        again(&f);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    end(&f);
}

static void from_the_cache(void **state)
{
    struct fixture f;
    char id[128];
    (void)state;
    run("gcc -O2 -g p.c -o p && cp p p0");
    snprintf(id, sizeof(id), "%s", build_id_of("p"));
    const uint64_t burn = address_of("p", "burn");
    begin(&f);
    uint32_t l = burn_in(&f, "p", id, "", 0, burn);
    symbolize(&f);
    again(&f);
    run("gcc -O0 -g p.c -o p"); /* a file that would be refused */
    l = burn_in(&f, "p", id, "", 0, burn);
    const uint32_t more = sonde_profile_location(f.p, f.p->locations[l].module, BASE + burn + 1);
    symbolize(&f);
    assert_string_equal(name_of(&f, l, 0), "burn");
    assert_string_equal(file_of(&f, l, 0), in_folder("p.c"));
    assert_int_equal(f.p->locations[more].line_count, 0);
    end(&f);
}

/* A thousand processes with the file mapped elsewhere each: one look at the file. */
static void many_mappings(void **state)
{
    struct fixture f;
    uint32_t locations[1000];
    (void)state;
    run("gcc -O2 -g p.c -o p");
    const uint64_t burn = address_of("p", "burn");
    uint64_t offset, vaddr, size;
    code_segment("p", &offset, &vaddr, &size);
    begin(&f);
    for (uint32_t i = 0; i < 1000; i++) {
        const uint64_t base = BASE + i * 0x100000ull;
        struct sonde_profile_module m = { .path = sonde_profile_cstring(f.p, in_folder("p")),
                                          .build_id = sonde_profile_cstring(f.p, build_id_of("p")),
                                          .start = base + vaddr, .end = base + vaddr + 0x1000,
                                          .offset = offset };
        locations[i] = sonde_profile_location(f.p, sonde_profile_module(f.p, &m), base + burn);
    }
    symbolize(&f);
    for (uint32_t i = 0; i < 1000; i++) assert_string_equal(name_of(&f, locations[i], 0), "burn");
    end(&f);
}

/* ---- Code without a file --------------------------------------------------------------------- */

static void jit_maps(void **state)
{
    static const char map[] = "1000 100 first\n"
                              "1100 80 LazyCompile:*go /a b.js:1\r\n"
                              "nonsense\n"
                              "1050 10 patched\n"
                              "1000 20 newer \xff\x01 name\n"
                              "0x2000 0x10 prefixed\n"
                              "ffffffffffffffff 10 wraps\n"
                              "3000 0 empty\n"
                              "4000 10\n"
                              "5000 10 last without newline";
    static const struct { uint64_t at; const char *name; } expected[] = {
        { 0x1000, "newer \xef\xbf\xbd? name" }, { 0x101f, "newer \xef\xbf\xbd? name" },
        { 0x1050, "patched" },  { 0x105f, "patched" },
        { 0x1100, "LazyCompile:*go /a b.js:1?" }, { 0x1180, "[JIT code]" },
        { 0x2000, "prefixed" }, { 0x200f, "prefixed" }, { 0x2010, "[JIT code]" },
        { 0x3000, "[JIT code]" }, { 0x4000, "[JIT code]" },
        { 0x5001, "last without newline" },
    };
    char path[64];
    (void)state;
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
    /* 0: the module says where; 1: the process of its samples; 2: those are of another time */
    for (int way = 0; way < 3; way++) {
        struct fixture f;
        uint32_t locations[16];
        begin(&f);
        write_file("perf-1.map", map, sizeof(map) - 1);
        struct sonde_profile_module m = { .path = sonde_profile_cstring(f.p, "[anon]"),
                                          .start = 0x1000, .end = 0x9000,
                                          .flags = SONDE_MODULE_JIT };
        if (way == 0) m.open_path = sonde_profile_cstring(f.p, in_folder("perf-1.map"));
        else assert_int_equal(rename(in_folder("perf-1.map"), path), 0);
        if (way == 2) f.p->engine = sonde_profile_cstring(f.p, "import");
        const uint32_t module = sonde_profile_module(f.p, &m);
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
            locations[i] = sonde_profile_location(f.p, module, expected[i].at);
        }
        const struct sonde_profile_sample sample = {
            .stack = sonde_profile_stack(f.p, 0, locations[0]), .count = 1,
            .thread = sonde_profile_thread(f.p, (uint32_t)getpid(), 1, "t") };
        assert_int_equal(sonde_profile_add_sample(f.p, &sample), 0);
        symbolize(&f);
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
            assert_string_equal(name_of(&f, locations[i], 0),
                                way == 2 ? "[JIT code]" : expected[i].name);
        }
        unlink(path);
        end(&f);
    }
}

static void vdso(void **state)
{
    struct fixture f;
    int clocks = 0;
    (void)state;
    begin(&f);
    struct sonde_profile_module m = { .path = sonde_profile_cstring(f.p, "[vdso]"), .start = BASE,
                                      .end = BASE + 0x2000, .flags = SONDE_MODULE_VDSO };
    const uint32_t module = sonde_profile_module(f.p, &m);
    for (uint64_t at = 0; at < 0x2000; at++) sonde_profile_location(f.p, module, BASE + at);
    symbolize(&f);
    for (uint32_t i = 1; i < f.p->locations_count; i++) {
        clocks += strstr(name_of(&f, i, 0), "clock_gettime") != NULL;
    }
    assert_true(clocks > 10 || getauxval(AT_SYSINFO_EHDR) == 0);
    end(&f);
}

static void kernel(void **state)
{
    struct fixture f;
    char line[512], name[256] = "[kernel]", type;
    unsigned long long addr = 0, next = 0;
    (void)state;
    begin(&f);
    FILE *k = fopen("/proc/kallsyms", "r");
    while (k && fgets(line, sizeof(line), k)) {
        char other[256];
        if (sscanf(line, "%llx %c %255s", &next, &type, other) != 3 || type != 'T' || !next) {
            continue;
        }
        if (addr && next > addr + 1) break;
        addr = next;
        snprintf(name, sizeof(name), "%s", other);
    }
    if (k) fclose(k);
    struct sonde_profile_module m = { .path = sonde_profile_cstring(f.p, "[kernel]"),
                                      .flags = SONDE_MODULE_KERNEL };
    const uint32_t module = sonde_profile_module(f.p, &m);
    const uint32_t l = sonde_profile_location(f.p, module, addr ? addr : 0xffffffff81000000ull);
    symbolize(&f);
    assert_int_equal(f.p->locations[l].line_count, 1);
    if (!addr) assert_string_equal(name_of(&f, l, 0), "[kernel]");
    else assert_string_not_equal(name_of(&f, l, 0), "[kernel]");
    end(&f);
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* The nth allocation fails, here or in the child (which then costs the names). */
static void no_memory(void **state)
{
    int named = 0;
    (void)state;
    run("gcc -O2 -g p.c -o p");
    const uint64_t burn = address_of("p", "burn");
    const char *id = build_id_of("p");
    assert_int_equal(sonde_log_open(SONDE_LOG_ERROR, NULL), 0);
    for (uint64_t nth = 1; nth < 150; nth++) {
        struct fixture f;
        begin(&f);
        const uint32_t l = burn_in(&f, "p", id, "", 0, burn);
        sonde__alloc_fail_nth(nth);
        const int rc = sonde_symbolize(f.s, f.p);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        named = f.p->locations[l].line_count > 0;
        if (named) assert_string_equal(name_of(&f, l, 0), "burn");
        end(&f);
    }
    assert_true(named);
}

static void nothing_to_do(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f);
    symbolize(&f);
    const uint32_t named = sonde_profile_named_location(f.p, "known", 5);
    sonde_profile_location(f.p, 0, 0x1234); /* of no module */
    symbolize(&f);
    assert_string_equal(name_of(&f, named, 0), "known");
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_to_link),   cmocka_unit_test(inlined_frames),
        cmocka_unit_test(no_debug_information),   cmocka_unit_test(stripped),
        cmocka_unit_test(unsized),                cmocka_unit_test(debug_files),
        cmocka_unit_test(mini_debuginfo),         cmocka_unit_test(replaced),
        cmocka_unit_test(replaced_while_running), cmocka_unit_test(from_the_cache),
        cmocka_unit_test(many_mappings),          cmocka_unit_test(jit_maps),
        cmocka_unit_test(vdso),                   cmocka_unit_test(kernel),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(nothing_to_do),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
