/* No room, no directory, no descriptors: the program runs on, nothing kills it, what is dropped is
 * counted, and what was being counted stays exact. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "unit/record/child.h"
#include "unit/record/readback.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* ---- The program: it does its own work, and records a lot ------------------------------------ */

#define WORKERS 6
#define ROUNDS 400u

static struct sonde_counter counter;
static struct sonde_family family;

static void *worker(void *arg)
{
    uint64_t sum = 0;
    char value[32];
    for (uint64_t i = 0; i < ROUNDS; i++) {
        SONDE_SCOPE("worker");
        sonde_counter_add(counter, 1);
        snprintf(value, sizeof(value), "%s%u", (const char *)arg, (unsigned)i);
        sonde_counter_add(sonde_counter_bind(family, (const char *const[]){ value }), 1);
        snprintf(value, sizeof(value), "room_%u_seconds", (unsigned)i % 40);
        sonde_hist_record(sonde_hist(value, "x", 1e-9), 1ull << (i % 60));
        sonde_gauge_set(sonde_gauge("room_gauge", "x"), (double)i);
        sum += i * i;
    }
    return (void *)(uintptr_t)sum;
}

/* The sum of the program's own work: it must come to the same, whatever becomes of the records. */
static void work(void)
{
    static char *const names[WORKERS] = { "a", "b", "c", "d", "e", "f" };
    const struct sonde_metric m = { .size = sizeof(m),
                                    .name = "room_labelled_total",
                                    .labels = (const char *const[]){ "k", NULL },
                                    .series_max = 100000 };
    pthread_t t[WORKERS];
    counter = sonde_counter("room_total", "x");
    sonde_define(SONDE_COUNTER, &m, &family);
    for (int i = 0; i < WORKERS; i++) NEED(!pthread_create(&t[i], NULL, worker, names[i]));
    for (int i = 0; i < WORKERS; i++) {
        void *sum;
        NEED(!pthread_join(t[i], &sum));
        NEED_EQ((uintptr_t)sum, (ROUNDS - 1) * ROUNDS * (2 * ROUNDS - 1) / 6);
    }
}

static uint64_t drops(void)
{
    uint64_t n = 0;
    for (int i = 0; i < SONDE__DROP_COUNT; i++) n += sonde__g.h->drops[i];
    return n;
}

/* ---- File systems ---------------------------------------------------------------------------- */

static char mounted[128];

static void mount_tmpfs(const char *options, unsigned long flags)
{
    snprintf(mounted, sizeof(mounted), "%s/mnt", getenv("SONDE_DIR"));
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
        fprintf(stderr, "no mount namespace here (%s): this case needs root\n", strerror(errno));
        _exit(CHILD_SKIPPED);
    }
    NEED(!mkdir(mounted, 0700) || errno == EEXIST);
    NEED(!mount("tmpfs", mounted, "tmpfs", flags, options));
    setenv("SONDE_DIR", mounted, 1);
}

/* What the file really takes. Never less than what it accounts for; more when an attempt to grow
 * failed half-way. */
static uint64_t segment_bytes(void)
{
    struct stat st;
    NEED(!stat(sonde__g.path, &st));
    return (uint64_t)st.st_blocks * 512;
}

static unsigned files_in(const char *dir)
{
    char command[256];
    unsigned n = 999;
    snprintf(command, sizeof(command), "ls -A %s | wc -l", dir);
    FILE *p = popen(command, "r");
    if (!p || fscanf(p, "%u", &n) != 1) n = 999;
    if (p) pclose(p);
    return n;
}

CHILD_TEST(full_64k)
{
    mount_tmpfs("size=64k,mode=0700", 0);
    NEED_EQ(sonde_open(NULL), SONDE_ENOSPC);
    work();
    NEED_EQ(files_in(mounted), 0);
}

/* A quarter of it is too little for the smallest segment. */
CHILD_TEST(full_256k)
{
    mount_tmpfs("size=256k,mode=0700", 0);
    NEED_EQ(sonde_open(NULL), SONDE_ENOSPC);
    work();
    NEED_EQ(files_in(mounted), 0);
}

static void small_but_open(void)
{
    struct statvfs fs;
    NEED_EQ(sonde_open(NULL), 0);
    work();
    NEED_EQ(readback_counter(counter), WORKERS * ROUNDS);
    NEED(sonde__g.h->drops[SONDE__DROP_memory] > 0);
    NEED(!statvfs(mounted, &fs));
    NEED(sonde__g.h->bytes_max <= fs.f_blocks * fs.f_frsize / 4);
    NEED(sonde__g.h->populated_bytes <= sonde__g.h->bytes_max);
    NEED(sonde__g.h->populated_bytes <= segment_bytes());
}

CHILD_TEST(full_1m)
{
    mount_tmpfs("size=1m,mode=0700", 0);
    small_but_open();
}

/* Others fill it while the program records. */
static void fill(const char *path)
{
    static const char zeros[4096];
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    NEED(fd >= 0);
    while (write(fd, zeros, sizeof(zeros)) > 0) continue;
    NEED_EQ(errno, ENOSPC);
    close(fd);
}

static void full_later(void)
{
    char filler[160], name[40];
    NEED_EQ(sonde_open(NULL), 0);
    const struct sonde_counter c = sonde_counter("room_before_total", "x");
    const struct sonde_hist h = sonde_hist("room_before_seconds", "x", 1e-9);
    sonde_counter_add(c, 1);
    sonde_hist_record(h, 1000);
    NEED_EQ(drops(), 0);
    snprintf(filler, sizeof(filler), "%s/filler", mounted);
    fill(filler);
    work();
    NEED(drops() > 0);
    for (int i = 0; i < 1000; i++) { /* what fails costs nothing: not a byte of the budget */
        snprintf(name, sizeof(name), "room_full_%d_total", i);
        sonde_counter_add(sonde_counter(name, "x"), 1);
    }
    sonde_counter_add(c, 1);
    sonde_hist_record(h, 1000);
    NEED_EQ(readback_counter(c), 2);
    NEED(sonde__g.h->populated_bytes <= segment_bytes());

    /* There is room again: what did not fit before does before long. */
    NEED(!unlink(filler));
    for (int i = 0; i < 2000 && !sonde_counter("room_again_total", "x").off; i++) usleep(10000);
    usleep(200000); /* larger pieces may have been refused a moment later */
    work();
    const uint64_t before = readback_counter(counter);
    NEED(before >= WORKERS * ROUNDS);
    work();
    NEED_EQ(readback_counter(counter), before + WORKERS * ROUNDS);
    NEED(sonde__g.h->populated_bytes <= segment_bytes());
}

CHILD_TEST(full_while_recording)
{
    mount_tmpfs("size=64m,mode=0700", 0);
    full_later();
}

/* Kernels before 5.14 populate through the file. */
static void old_kernel(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 23 /* MADV_POPULATE_WRITE */, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        fprintf(stderr, "no seccomp filters here (%s)\n", strerror(errno));
        _exit(CHILD_SKIPPED);
    }
}

CHILD_TEST(full_1m_on_an_old_kernel)
{
    mount_tmpfs("size=1m,mode=0700", 0);
    old_kernel();
    small_but_open();
}

CHILD_TEST(full_while_recording_on_an_old_kernel)
{
    mount_tmpfs("size=64m,mode=0700", 0);
    old_kernel();
    full_later();
}

/* Finding out that there is no room takes long, on a full file system: it is not done with every
 * record. Before it was, this took thousands of tries. */
static unsigned tries;
static int refuse;

int madvise(void *p, size_t n, int advice)
{
    if (advice == 23 /* MADV_POPULATE_WRITE */) {
        __atomic_fetch_add(&tries, 1, __ATOMIC_RELAXED);
        if (refuse) {
            errno = EFAULT;
            return -1;
        }
    }
    return (int)syscall(SYS_madvise, p, n, advice);
}

CHILD_TEST(full_is_remembered)
{
    char name[40];
    const struct sonde_hist h = sonde_hist("room_seconds", "x", 1e-9);
    sonde_counter_add(sonde_counter("room_total", "x"), 1);
    refuse = 1;
    for (int i = 0; i < 3000; i++) { /* use up what is populated */
        snprintf(name, sizeof(name), "room_fill_%d", i);
        sonde_name(name);
    }
    const unsigned filled = tries;
    NEED(filled > 0);
    for (int i = 0; i < 5000; i++) {
        SONDE_SCOPE("room_scope");
        sonde_hist_record(h, 1ull << i % 60);
        sonde_cache_access("room", i & 1);
    }
    NEED(tries - filled < 2500);
    refuse = 0;
    for (int i = 0; i < 2000 && !sonde_counter("room_again_total", "x").off; i++) usleep(10000);
    NEED(sonde_counter("room_again_total", "x").off);
}

/* A budget of its own, on a file system with plenty of room. */
CHILD_TEST(budget_is_kept)
{
    const struct sonde_config c = { .size = sizeof(c), .bytes_max = 1u << 20 };
    NEED_EQ(sonde_open(&c), 0);
    work();
    NEED_EQ(readback_counter(counter), WORKERS * ROUNDS);
    NEED(sonde__g.h->populated_bytes <= 1u << 20);
    NEED(sonde__g.h->populated_bytes <= segment_bytes());
    NEED(drops() > 0);
}

/* ---- Directories ----------------------------------------------------------------------------- */

static const char *below(const char *name)
{
    static char path[160];
    snprintf(path, sizeof(path), "%s/%s", getenv("SONDE_DIR"), name);
    return path;
}

static void refused(const char *dir, int rc)
{
    setenv("SONDE_DIR", dir, 1);
    NEED(sonde_open(NULL) == rc);
    work();
    NEED(sonde_open(NULL) == rc);
    NEED(!sonde_is_enabled());
}

CHILD_TEST(directory_is_missing)
{
    refused("/nonexistent/sonde", SONDE_ENOENT);
}

CHILD_TEST(directory_is_read_only)
{
    mount_tmpfs("size=1m,mode=0700", MS_RDONLY);
    refused(mounted, SONDE_EACCES);
}

CHILD_TEST(directory_is_a_file)
{
    const char *path = below("file");
    struct stat st;
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    NEED(fd >= 0 && write(fd, "mine", 4) == 4);
    refused(path, SONDE_EACCES);
    NEED(!fstat(fd, &st) && st.st_size == 4);
}

CHILD_TEST(directory_is_everybodys)
{
    const char *path = below("open");
    NEED(!mkdir(path, 0700) && !chmod(path, 0777));
    refused(path, SONDE_EACCES);
    NEED_EQ(files_in(path), 0);
}

CHILD_TEST(directory_is_somebody_elses)
{
    const char *path = below("theirs");
    NEED(!mkdir(path, 0700));
    if (chown(path, 12345, 12345)) {
        fprintf(stderr, "cannot give a directory away (%s): this case needs root\n",
                strerror(errno));
        _exit(CHILD_SKIPPED);
    }
    refused(path, SONDE_EACCES);
    NEED_EQ(files_in(path), 0);
}

CHILD_TEST(directory_is_a_link)
{
    const char *path = below("link");
    char target[200];
    snprintf(target, sizeof(target), "%s-target", path);
    NEED(!mkdir(target, 0700) && !symlink(target, path));
    refused(path, SONDE_EACCES);
    NEED_EQ(files_in(target), 0);
}

CHILD_TEST(directory_name_is_too_long)
{
    static char path[4096];
    memset(path, 'x', sizeof(path) - 1);
    path[0] = '/';
    refused(path, SONDE_EINVAL);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void limit(int what, uint64_t value)
{
    const struct rlimit r = { value, value };
    NEED(!setrlimit(what, &r));
}

static void exact_if_open(void)
{
    work();
    NEED_EQ(readback_counter(counter), WORKERS * ROUNDS);
    NEED_EQ(sonde__g.h->populated_bytes, segment_bytes());
}

/* Going past it would send SIGXFSZ, which kills. */
CHILD_TEST(files_of_a_megabyte)
{
    limit(RLIMIT_FSIZE, 1u << 20);
    NEED_EQ(sonde_open(NULL), SONDE_ENOMEM);
    work();
}

CHILD_TEST(files_of_nothing)
{
    limit(RLIMIT_FSIZE, 0);
    NEED_EQ(sonde_open(NULL), SONDE_ENOMEM);
    work();
}

CHILD_TEST(files_of_64_megabytes)
{
    limit(RLIMIT_FSIZE, 64u << 20);
    NEED_EQ(sonde_open(NULL), 0);
    exact_if_open();
    NEED(sonde__g.h->file_bytes <= 64u << 20);
}

CHILD_TEST(files_of_64_megabytes_on_an_old_kernel)
{
    limit(RLIMIT_FSIZE, 64u << 20);
    old_kernel();
    NEED_EQ(sonde_open(NULL), 0);
    exact_if_open();
}

CHILD_TEST(address_space_of_512_megabytes)
{
    if (SANITIZED) _exit(CHILD_SKIPPED); /* a sanitizer's shadow is larger than that */
    limit(RLIMIT_AS, 512u << 20);
    NEED_EQ(sonde_open(NULL), 0);
    exact_if_open();
}

CHILD_TEST(no_address_space_left)
{
    static char left[64];
    if (SANITIZED) _exit(CHILD_SKIPPED);
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages;
    NEED(f && fgets(left, sizeof(left), f) && sscanf(left, "%lu", &pages) == 1);
    fclose(f);
    limit(RLIMIT_AS, pages * 4096 + (4u << 20));
    NEED_EQ(sonde_open(NULL), SONDE_ENOMEM);
    counter = sonde_counter("none_total", "x");
    sonde_counter_add(counter, 1);
}

CHILD_TEST(three_descriptors)
{
    closefrom(3);
    limit(RLIMIT_NOFILE, 3);
    NEED_EQ(sonde_open(NULL), SONDE_ENOMEM);
    work();
}

/* Once it is open it needs no descriptor any more. */
CHILD_TEST(three_descriptors_once_open)
{
    NEED_EQ(sonde_open(NULL), 0);
    closefrom(3);
    limit(RLIMIT_NOFILE, 3);
    work();
    NEED_EQ(readback_counter(counter), WORKERS * ROUNDS);
}

/* ---- Little stack ---------------------------------------------------------------------------- */

static void *on_a_small_stack(void *arg)
{
    const struct sonde_metric m = { .size = sizeof(m),
                                    .name = "stack_labelled_total",
                                    .help = "A definition with everything.",
                                    .labels = (const char *const[]){ "a", "b", NULL },
                                    .tags = (const char *const[]){ "t", "v", NULL } };
    struct sonde_family f;
    SONDE_RESOURCE_SCOPE("stack");
    sonde_counter_add(sonde_counter("stack_total", "x"), 1);
    NEED(!sonde_define(SONDE_COUNTER, &m, &f));
    sonde_counter_add(sonde_counter_bind(f, (const char *const[]){ "1", "2" }), 1);
    sonde_hist_record(sonde_hist("stack_seconds", "x", 1e-9), 1);
    return arg;
}

/* The smallest stack a thread may have, and what handlers are usually given. */
CHILD_TEST(smallest_stack)
{
    pthread_attr_t attr;
    pthread_t t;
    if (SANITIZED) _exit(CHILD_SKIPPED);
    pthread_attr_init(&attr);
    NEED(!pthread_attr_setstacksize(&attr, 16384));
    NEED(!pthread_create(&t, &attr, on_a_small_stack, NULL));
    pthread_join(t, NULL);
    NEED_EQ(readback_counter(sonde_counter("stack_total", "x")), 1);
}

static void first_in_handler(int sig)
{
    (void)sig;
    on_a_small_stack(NULL);
}

CHILD_TEST(handlers_stack)
{
    /* SIGSTKSZ was 8 KiB for decades; what the kernel itself puts there has grown since. */
    const size_t size = 8192 + (size_t)sysconf(_SC_MINSIGSTKSZ);
    if (SANITIZED) _exit(CHILD_SKIPPED);
    char *memory = mmap(NULL, size + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0);
    NEED(memory != MAP_FAILED && !mprotect(memory, 4096, PROT_NONE));
    const stack_t stack = { .ss_sp = memory + 4096, .ss_size = size };
    struct sigaction act = { .sa_handler = first_in_handler, .sa_flags = SA_ONSTACK };
    NEED(!sigaltstack(&stack, NULL) && !sigaction(SIGUSR1, &act, NULL) && !raise(SIGUSR1));
    NEED_EQ(readback_counter(sonde_counter("stack_total", "x")), 1);
}

/* ---- A program that keeps its memory --------------------------------------------------------- */

/* mlockall must not make pages of the file that nobody asked for. */
static void locked(int before)
{
    struct stat st;
    if (SANITIZED) _exit(CHILD_SKIPPED);
    if (!before) work();
    if (mlockall(before ? MCL_CURRENT | MCL_FUTURE : MCL_CURRENT)) _exit(CHILD_SKIPPED);
    work();
    NEED(sonde_is_enabled() && !stat(sonde__g.path, &st));
    NEED((uint64_t)st.st_blocks * 512 <= sonde__g.h->populated_bytes);
    NEED_EQ(drops(), 0);
}

CHILD_TEST(locked_once_open) { locked(0); }
CHILD_TEST(locked_from_the_start) { locked(1); }

/* ---- A program that closes what it does not know --------------------------------------------- */

#define OWN 30

CHILD_TEST(descriptors_are_the_programs)
{
    int fd[OWN];
    char path[200], text[64], again[64], name[40];
    sonde_counter_add(sonde_counter("fds_total", "x"), 1);
    closefrom(3);
    for (int i = 0; i < OWN; i++) {
        snprintf(path, sizeof(path), "%s/own-%d", getenv("SONDE_DIR"), i);
        fd[i] = open(path, O_RDWR | O_CREAT, 0600);
        NEED_EQ(fd[i], 3 + i);
        const int n = snprintf(text, sizeof(text), "the program's file %d", i);
        NEED(write(fd[i], text, (size_t)n) == n);
    }
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof(name), "fds_%d_total", i);
        sonde_counter_add(sonde_counter(name, "x"), 1);
        snprintf(name, sizeof(name), "fds_%d_seconds", i);
        sonde_hist_record(sonde_hist(name, "x", 1e-9), (uint64_t)i << 20);
    }
    work();
    for (int i = 0; i < OWN; i++) {
        struct stat st;
        const int n = snprintf(text, sizeof(text), "the program's file %d", i);
        NEED(!fstat(fd[i], &st));
        NEED_EQ(st.st_size, n);
        NEED(st.st_blocks <= 8);
        NEED(pread(fd[i], again, sizeof(again), 0) == n && !memcmp(text, again, (size_t)n));
        NEED_EQ(lseek(fd[i], 0, SEEK_CUR), n);
    }
    NEED_EQ(open("/dev/null", O_RDONLY), 3 + OWN); /* nothing of ours is open */
    NEED_EQ(readback_counter(sonde_counter("fds_2999_total", "x")), 1);
    NEED_EQ(drops(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_64k),
        cmocka_unit_test(full_256k),
        cmocka_unit_test(full_1m),
        cmocka_unit_test(full_while_recording),
        cmocka_unit_test(full_1m_on_an_old_kernel),
        cmocka_unit_test(full_while_recording_on_an_old_kernel),
        cmocka_unit_test(full_is_remembered),
        cmocka_unit_test(budget_is_kept),
        cmocka_unit_test(directory_is_missing),
        cmocka_unit_test(directory_is_read_only),
        cmocka_unit_test(directory_is_a_file),
        cmocka_unit_test(directory_is_everybodys),
        cmocka_unit_test(directory_is_somebody_elses),
        cmocka_unit_test(directory_is_a_link),
        cmocka_unit_test(directory_name_is_too_long),
        cmocka_unit_test(files_of_a_megabyte),
        cmocka_unit_test(files_of_nothing),
        cmocka_unit_test(files_of_64_megabytes),
        cmocka_unit_test(files_of_64_megabytes_on_an_old_kernel),
        cmocka_unit_test(address_space_of_512_megabytes),
        cmocka_unit_test(no_address_space_left),
        cmocka_unit_test(three_descriptors),
        cmocka_unit_test(three_descriptors_once_open),
        cmocka_unit_test(smallest_stack),
        cmocka_unit_test(handlers_stack),
        cmocka_unit_test(locked_once_open),
        cmocka_unit_test(locked_from_the_start),
        cmocka_unit_test(descriptors_are_the_programs),
    };
    readback_private_dir();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
