/* Segments of all processes together have a share of their file system, and leave some of it free:
 * who would pass that makes none, runs on, and is counted for the agent. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "record/room.h"
#include "segment/life.h"
#include "unit/record/child.h"
#include "unit/record/readback.h"

#define MIB (1 << 20)

static char mounted[128];

/* The descriptor of a file system of 16 MiB that is empty. */
static int mount_small(void)
{
    snprintf(mounted, sizeof(mounted), "%s/mnt", getenv("SONDE_DIR"));
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
        fprintf(stderr, "no mount namespace here (%s): this case needs root\n", strerror(errno));
        _exit(CHILD_SKIPPED);
    }
    NEED(!mkdir(mounted, 0700) || errno == EEXIST);
    NEED(!mount("tmpfs", mounted, "tmpfs", 0, "size=16m,mode=0700"));
    setenv("SONDE_DIR", mounted, 1);
    const int fd = open(mounted, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    NEED(fd >= 0);
    return fd;
}

static void put(int dirfd, const char *name, off_t bytes)
{
    const int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    NEED(fd >= 0 && !posix_fallocate(fd, 0, bytes));
    close(fd);
}

static off_t bytes_of(int dirfd, const char *name)
{
    struct stat st;
    return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) ? -1 : st.st_size;
}

CHILD_TEST(a_quarter)
{
    const int fd = mount_small();
    NEED(sonde__room_is_left(fd, 0) && sonde__room_is_left(fd, 1000)); /* what they take counts */
    put(fd, "1.1", MIB);
    put(fd, "2.1", MIB);
    put(fd, "3.1.7", MIB);
    put(fd, "what else is there", 8 * MIB);
    NEED(sonde__room_is_left(fd, 4));
    put(fd, ".sonde-0123456789abcdef-4.tmp", MIB - MIB / 8); /* one that is being made */
    NEED(!sonde__room_is_left(fd, 4));
    NEED(sonde__room_is_left(fd, 3)); /* few are there: it is for populate to see what fits */
    NEED(!unlinkat(fd, "2.1", 0));
    NEED(sonde__room_is_left(fd, 4));
}

CHILD_TEST(an_eighth_stays)
{
    const int fd = mount_small();
    put(fd, "what else is there", 13 * MIB);
    NEED(sonde__room_is_left(fd, 4));
    put(fd, "and more", MIB + MIB / 2);
    NEED(!sonde__room_is_left(fd, 4));
    NEED(sonde__room_is_left(fd, 3));
}

/* Where there is plenty they are not even looked at. */
CHILD_TEST(plenty)
{
    const int fd = open(getenv("SONDE_DIR"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    NEED(fd >= 0 && sonde__room_is_left(fd, 4));
    NEED(sonde__room_is_left(-1, 4)); /* not known: then it is tried */
}

/* The process that would pass it: no segment, no trace but a byte for the agent, and its own work
 * done. */
CHILD_TEST(one_too_many)
{
    const int fd = mount_small();
    char name[32];
    for (int i = 1; i <= 4; i++) {
        snprintf(name, sizeof(name), "%d.1", i); /* no segments: nobody sweeps them */
        put(fd, name, MIB);
    }
    const int lock = openat(fd, "agent.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    NEED(lock >= 0 && !flock(lock, LOCK_SH | LOCK_NB));
    for (int i = 1; i <= 3; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            sonde_counter_add(sonde_counter("share_total", "x"), 1);
            _exit(sonde_open(NULL) == SONDE_ENOSPC && !sonde_is_enabled() ? 0 : 1);
        }
        int status = -1;
        NEED(pid > 0 && waitpid(pid, &status, 0) == pid);
        NEED_EQ(status, 0);
        NEED_EQ(bytes_of(fd, SONDE__MISSED_NAME), i);
    }
    NEED(!unlinkat(fd, "4.1", 0));
    NEED_EQ(sonde_open(NULL), 0);
}

CHILD_TEST(nobody_counts_without_an_agent)
{
    const int fd = mount_small();
    static const char *const names[] = { "1.1", "2.1", "3.1", "4.1" };
    for (size_t i = 0; i < 4; i++) put(fd, names[i], MIB);
    NEED_EQ(sonde_open(NULL), SONDE_ENOSPC);
    NEED_EQ(bytes_of(fd, SONDE__MISSED_NAME), -1);
}

CHILD_TEST(counting_harms_nobody)
{
    const int fd = open(getenv("SONDE_DIR"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct rlimit two = { 2, RLIM_INFINITY };
    sonde__room_missed(fd);
    sonde__room_missed(fd);
    NEED_EQ(bytes_of(fd, SONDE__MISSED_NAME), 2);
    NEED(!setrlimit(RLIMIT_FSIZE, &two)); /* beyond it there is a signal */
    sonde__room_missed(fd);
    NEED_EQ(bytes_of(fd, SONDE__MISSED_NAME), 2);
    NEED(!unlinkat(fd, SONDE__MISSED_NAME, 0));
    put(fd, "somebody's", 1);
    NEED(!symlinkat("somebody's", fd, SONDE__MISSED_NAME));
    sonde__room_missed(fd);
    NEED_EQ(bytes_of(fd, "somebody's"), 1);
    NEED(!unlinkat(fd, SONDE__MISSED_NAME, 0) && !mkfifoat(fd, SONDE__MISSED_NAME, 0600));
    sonde__room_missed(fd);
    sonde__room_missed(-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quarter),
        cmocka_unit_test(an_eighth_stays),
        cmocka_unit_test(plenty),
        cmocka_unit_test(one_too_many),
        cmocka_unit_test(nobody_counts_without_an_agent),
        cmocka_unit_test(counting_harms_nobody),
    };
    readback_private_dir();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
