/* Where the bytes of a module come from: files deleted or replaced while they run, another root,
 * memory when there is no file at all, one library after another at one address, and code that
 * was never in a file. The programs are stopped in main and unwound from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/alloc.h"
#include "collect/aspace/aspace.h"
#include "profile/profile.h"
#include "sonde/sonde.h"
#include "unwind/arch_x86_64.h"

#define FRAMES 64
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct sonde_modules *modules;
static char dir[] = "/tmp/sonde-aspace-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(dir) ? sonde_modules_create(0, &modules) : -1;
}

static int teardown(void **state)
{
    (void)state;
    sonde_modules_destroy(modules);
    return rmdir(dir) || sonde__alloc_live() ? -1 : 0;
}

static void copy_program(const char *name, const char *to)
{
    char self[PATH_MAX], from[PATH_MAX + 64], buf[65536];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    assert_true(n > 0);
    self[n] = 0;
    snprintf(from, sizeof(from), "%s/../programs/%s", dirname(self), name);
    const int in = open(from, O_RDONLY | O_CLOEXEC);
    if (in < 0) fail_msg("%s is not there: build everything first", from);
    const int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    assert_true(out >= 0);
    while ((n = read(in, buf, sizeof(buf))) > 0) assert_int_equal(write(out, buf, (size_t)n), n);
    close(in);
    close(out);
}

/* ---- A program stopped in main ------------------------------------------------------------ */

struct stopped {
    pid_t pid;
    struct sonde__regs regs;
    uint8_t stack[65536];
    size_t stack_len;
};

static void stop_at_exec(struct stopped *s, const char *path, const char *root)
{
    int status;
    fflush(NULL);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (!s->pid) {
        char *const argv[] = { (char *)(uintptr_t)path, "stop", NULL }, *const env[] = { NULL };
        if (root && (chroot(root) || chdir("/"))) _exit(126);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execve(path, argv, env);
        _exit(127);
    }
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    assert_true(WIFSTOPPED(status));
    ptrace(PTRACE_SETOPTIONS, s->pid, 0, PTRACE_O_EXITKILL);
}

static void take_registers(struct stopped *s)
{
    struct user_regs_struct u;
    assert_int_equal(ptrace(PTRACE_GETREGS, s->pid, 0, &u), 0);
    const uint64_t v[SONDE__ARCH_PERF_REG_COUNT] = {
        u.rax, u.rbx, u.rcx, u.rdx, u.rsi, u.rdi, u.rbp, u.rsp, u.rip,
        u.r8,  u.r9,  u.r10, u.r11, u.r12, u.r13, u.r14, u.r15,
    };
    sonde__arch_from_perf(v, &s->regs);
    struct iovec to = { s->stack, sizeof(s->stack) }, from = { (void *)u.rsp, sizeof(s->stack) };
    const ssize_t n = process_vm_readv(s->pid, &to, 1, &from, 1, 0);
    assert_true(n > 256);
    s->stack_len = (size_t)n;
}

static void stop_in_main(struct stopped *s, const char *path, const char *root)
{
    int status;
    stop_at_exec(s, path, root);
    assert_int_equal(ptrace(PTRACE_CONT, s->pid, 0, 0), 0);
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
    take_registers(s);
}

static void end(struct stopped *s)
{
    int status;
    kill(s->pid, SIGKILL);
    waitpid(s->pid, &status, 0);
}

/* main, two of libc's, _start. */
static void assert_complete(struct sonde_aspace *as, const struct stopped *s)
{
    uint64_t ips[FRAMES];
    int truncated;
    const size_t n = sonde_aspace_unwind(as, &s->regs, s->stack, s->regs.sp, s->stack_len, ips,
                                         FRAMES, &truncated, NULL);
    assert_false(truncated);
    assert_int_equal(n, 4);
}

/* The dynamic linker's first instruction has no table, and who looks at its code comes late. */
static void gone_at_the_beginning(void **state)
{
    (void)state;
    static struct stopped s;
    struct sonde_aspace *as;
    char path[PATH_MAX];
    uint64_t ips[FRAMES];
    int truncated;
    snprintf(path, sizeof(path), "%s/prog", dir);
    copy_program("unwind_steps", path);
    stop_at_exec(&s, path, NULL);
    take_registers(&s);
    assert_int_equal(sonde_aspace_create(modules, (uint32_t)s.pid, &as), 0);
    assert_int_equal(sonde_aspace_scan(as), 0);
    end(&s);
    assert_int_equal(sonde_aspace_unwind(as, &s.regs, s.stack, s.regs.sp, s.stack_len, ips, FRAMES,
                                         &truncated, NULL), 1);
    assert_false(truncated);
    sonde_aspace_destroy(as);
    unlink(path);
}

static void deleted_and_replaced(void **state)
{
    (void)state;
    static struct stopped s;
    struct sonde_aspace *as;
    struct sonde_aspace_texts texts;
    struct sonde_module m;
    struct stat st;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/prog", dir);
    for (int replaced = 0; replaced < 2; replaced++) {
        copy_program("unwind_steps", path);
        stop_in_main(&s, path, NULL);
        unlink(path);
        if (replaced) copy_program("unwind_throw", path);
        assert_int_equal(sonde_aspace_create(modules, (uint32_t)s.pid, &as), 0);
        assert_int_equal(sonde_aspace_scan(as), 0);
        assert_complete(as, &s);
        assert_int_equal(sonde_aspace_module(as, s.regs.ip, &texts, &m), 0);
        assert_string_equal(m.path, path);
        assert_true(m.flags & SONDE_MODULE_DELETED);
        assert_int_equal(strlen(m.build_id), 40);
        /* With privileges the kernel still gives the very file. */
        if (m.open_path[0]) {
            assert_int_equal(stat(m.open_path, &st), 0);
            assert_int_equal(st.st_nlink, 0);
        }
        sonde_aspace_destroy(as);
        end(&s);
        unlink(path);
    }
}

/* The events of a process in another root name its files as it sees them. */
static void another_root(void **state)
{
    (void)state;
    static struct stopped s;
    struct sonde_aspace *as, *host;
    struct sonde_aspace_texts texts;
    struct sonde_module m;
    char path[PATH_MAX], expected[PATH_MAX];
    struct stat st;
    if (getuid()) skip();
    snprintf(path, sizeof(path), "%s/sonde-test-program", dir);
    copy_program("unwind_steps_static", path);
    stop_in_main(&s, "/sonde-test-program", dir);
    assert_int_equal(sonde_aspace_create(modules, (uint32_t)s.pid, &host), 0);
    assert_int_equal(sonde_aspace_scan(host), 0);
    assert_int_equal(sonde_aspace_module(host, s.regs.ip, &texts, &m), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(sonde_aspace_create(modules, (uint32_t)s.pid, &as), 0);
    const struct sonde_mapping e = { .start = m.start,
                                     .end = m.end,
                                     .offset = m.offset,
                                     .dev = st.st_dev,
                                     .inode = st.st_ino,
                                     .path = "/sonde-test-program",
                                     .executable = 1 };
    assert_int_equal(sonde_aspace_map(as, &e), 0);
    assert_complete(as, &s);
    assert_int_equal(sonde_aspace_module(as, s.regs.ip, &texts, &m), 0);
    snprintf(expected, sizeof(expected), "/proc/%d/root/sonde-test-program", (int)s.pid);
    assert_string_equal(m.open_path, expected);
    assert_int_equal(m.flags, 0);
    sonde_aspace_destroy(as);
    sonde_aspace_destroy(host);
    end(&s);
    unlink(path);
}

/* ---- Events of other files ---------------------------------------------------------------- */

struct library {
    const char *name;
    struct sonde_mapping event;
    char path[PATH_MAX];
    uint64_t symbol;
};

static int find_text(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct library *l = arg;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uint64_t start = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || l->symbol - start >= p->p_memsz)
            continue;
        struct stat st;
        assert_non_null(realpath(info->dlpi_name, l->path));
        assert_int_equal(stat(l->path, &st), 0);
        l->event = (struct sonde_mapping){
            .start = start & ~4095ull,
            .end = (start & ~4095ull) + ((p->p_filesz + 4095) & ~4095ull),
            .offset = p->p_offset & ~4095ull, .dev = st.st_dev, .inode = st.st_ino,
            .path = l->path, .executable = 1,
        };
        return 1;
    }
    return 0;
}

static void find_library(struct library *l, const char *symbol)
{
    l->symbol = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, symbol);
    assert_true(l->symbol != 0);
    assert_int_equal(dl_iterate_phdr(find_text, l), 1);
}

/* One plugin unloaded and another loaded at its address: the newest file's rules hold. */
static void another_file_at_the_address(void **state)
{
    (void)state;
    static struct library a, b;
    struct sonde_aspace *as, *child;
    struct sonde_aspace_texts texts;
    struct sonde_module m;
    char build_id[SONDE_ASPACE_BUILD_ID];
    find_library(&a, "qsort");
    find_library(&b, "_cmocka_run_group_tests");
    assert_int_equal(sonde_aspace_create(modules, (uint32_t)getpid(), &as), 0);
    assert_int_equal(sonde_aspace_map(as, &a.event), 0);
    assert_int_equal(sonde_aspace_module(as, a.symbol, &texts, &m), 0);
    assert_string_equal(m.path, a.path);
    assert_string_equal(m.open_path, "");
    memcpy(build_id, texts.build_id, sizeof(build_id));

    assert_int_equal(sonde_aspace_fork(as, (uint32_t)getpid(), &child), 0);
    struct sonde_mapping over = b.event;
    over.start = a.event.start;
    over.end = a.event.end;
    assert_int_equal(sonde_aspace_map(as, &over), 0);
    assert_int_equal(sonde_aspace_module(as, a.symbol, &texts, &m), 0);
    assert_string_equal(m.path, b.path);
    assert_string_not_equal(m.build_id, build_id);
    assert_int_equal(sonde_aspace_module(child, a.symbol, &texts, &m), 0);
    assert_string_equal(m.build_id, build_id);
    sonde_aspace_destroy(as);
    sonde_aspace_destroy(child);
}

/* No file of that name anywhere, and a range that the kernel has no link for: memory is left. */
static void from_memory(void **state)
{
    (void)state;
    static struct library l;
    struct sonde_aspace *as;
    struct sonde_aspace_texts file_texts, memory_texts;
    struct sonde_module file, memory;
    struct sonde_modules_stats before, after;
    find_library(&l, "qsort");
    assert_int_equal(sonde_aspace_create(modules, (uint32_t)getpid(), &as), 0);
    assert_int_equal(sonde_aspace_map(as, &l.event), 0);
    assert_int_equal(sonde_aspace_module(as, l.symbol, &file_texts, &file), 0);
    sonde_aspace_exec(as);

    l.event.path = "/no/such/file (deleted)";
    l.event.end -= 4096;
    assert_int_equal(sonde_aspace_map(as, &l.event), 0);
    assert_int_equal(sonde_aspace_module(as, l.symbol, &memory_texts, &memory), 0);
    assert_string_equal(memory.path, "/no/such/file");
    assert_true(memory.flags & SONDE_MODULE_DELETED);
    assert_string_equal(memory.build_id, file.build_id);
    assert_string_equal(memory.open_path, "");
    /* qsort at its first instruction: the return address is on top of the stack. */
    const uint64_t stack[] = { l.symbol + 1 };
    const struct sonde__regs r = { .ip = l.symbol, .sp = 0x1000 };
    uint64_t ips[4];
    int truncated;
    sonde_modules_stats(modules, &before);
    assert_int_equal(sonde_aspace_unwind(as, &r, stack, 0x1000, sizeof(stack), ips, 4, &truncated,
                                         NULL), 2);
    assert_int_equal(ips[1], l.symbol);
    sonde_modules_stats(modules, &after);
    assert_int_equal(after.tables_built, before.tables_built + 1);
    assert_int_equal(after.entries_bad, before.entries_bad);
    sonde_aspace_destroy(as);
}

/* A file that is no program, and one that is not there at all. */
static void no_program(void **state)
{
    (void)state;
    struct sonde_aspace *as;
    struct sonde_aspace_texts texts;
    struct sonde_module m;
    struct stat st;
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/text", dir);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "hello", 5), 5);
    assert_int_equal(fstat(fd, &st), 0);
    close(fd);
    assert_int_equal(sonde_aspace_create(modules, 0x7ffffff0, &as), 0);
    struct sonde_mapping e = { .start = 0x1000, .end = 0x2000, .dev = st.st_dev,
                               .inode = st.st_ino, .path = path, .executable = 1 };
    assert_int_equal(sonde_aspace_map(as, &e), 0);
    assert_int_equal(sonde_aspace_module(as, 0x1800, &texts, &m), 0);
    assert_string_equal(m.build_id, "");
    unlink(path);
    /* A pipe under a module's name must not stop the agent. */
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(sonde_aspace_map(as, &e), 0);
    assert_int_equal(sonde_aspace_module(as, 0x1800, &texts, &m), 0);
    unlink(path);
    const struct sonde__regs r = { .ip = 0x1800, .sp = 0x5000, .bp = 0x5010 };
    uint64_t stack[] = { 0, 0x1700, 0x5020, 0x1900, 0, 0 };
    uint64_t ips[4];
    int truncated;
    assert_int_equal(sonde_aspace_unwind(as, &r, stack, 0x5000, sizeof(stack), ips, 4, &truncated,
                                         NULL), 2);
    assert_int_equal(ips[1], 0x18ff);
    /* Nothing says that the code keeps a frame pointer, and 0x1700 may be where it returns to. */
    assert_true(truncated);
    stack[1] = 0x9000; /* no code is there: nothing else can be */
    assert_int_equal(sonde_aspace_unwind(as, &r, stack, 0x5000, sizeof(stack), ips, 4, &truncated,
                                         NULL), 2);
    assert_int_equal(ips[1], 0x18ff);
    assert_false(truncated);
    sonde_aspace_destroy(as);
}

/* ---- Code without a file ------------------------------------------------------------------ */

static struct {
    struct sonde_aspace *as;
    uint64_t ips[FRAMES];
    size_t count;
    int truncated;
} jit;

__attribute__((noinline)) static void unwind_here(void)
{
    ucontext_t c;
    struct sonde__regs r = { 0 };
    static uint8_t copy[65536];
    getcontext(&c);
    r.ip = (uint64_t)c.uc_mcontext.gregs[REG_RIP];
    r.sp = (uint64_t)c.uc_mcontext.gregs[REG_RSP];
    r.bp = (uint64_t)c.uc_mcontext.gregs[REG_RBP];
    struct iovec to = { copy, sizeof(copy) }, from = { (void *)r.sp, sizeof(copy) };
    const ssize_t n = process_vm_readv(getpid(), &to, 1, &from, 1, 0); /* up to the stack's end */
    jit.count = sonde_aspace_unwind(jit.as, &r, copy, r.sp, n < 0 ? 0 : (size_t)n, jit.ips, FRAMES,
                                    &jit.truncated, NULL);
}

static void jit_code(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *code;
        size_t len;
        size_t ret;
        int good;
    } cases[] = {
#define CODE(s) s, sizeof(s) - 1
        { "push rbp, mov, call", CODE("\x55\x48\x89\xe5\xff\xd7\x5d\xc3"), 6, 1 },
        { "sub 8, call", CODE("\x48\x83\xec\x08\xff\xd7\x48\x83\xc4\x08\xc3"), 6, 0 },
#undef CODE
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) skip(); /* not allowed here */
        memcpy(page, cases[i].code, cases[i].len);
        assert_int_equal(sonde_aspace_create(modules, (uint32_t)getpid(), &jit.as), 0);
        assert_int_equal(sonde_aspace_scan(jit.as), 0);
        void (*call)(void (*)(void));
        memcpy(&call, &page, sizeof(call));
        call(unwind_here);
        assert_true(jit.count > 1);
        assert_int_equal(jit.ips[1], (uint64_t)(uintptr_t)page + cases[i].ret - 1);
        struct sonde_aspace_texts texts;
        struct sonde_module m;
        assert_int_equal(sonde_aspace_module(jit.as, jit.ips[1], &texts, &m), 0);
        assert_string_equal(m.path, "[anon]");
        assert_int_equal(m.flags, SONDE_MODULE_JIT);
        if (jit.truncated == cases[i].good)
            fail_msg("%s: truncated %d", cases[i].name, jit.truncated);
        sonde_aspace_destroy(jit.as);
        munmap(page, 4096);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gone_at_the_beginning),
        cmocka_unit_test(deleted_and_replaced),
        cmocka_unit_test(another_root),
        cmocka_unit_test(another_file_at_the_address),
        cmocka_unit_test(from_memory),
        cmocka_unit_test(no_program),
        cmocka_unit_test(jit_code),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
