/* Where segments go: what SONDE_DIR says, else the shared directory, else the private one. Every
 * combination of who holds which name, in a mount namespace whose /dev/shm and /run are the test's
 * own. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "segment/segment.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- The environment ------------------------------------------------------------------------- */

static void env_is_taken_as_it_is(void **state)
{
    (void)state;
    static const char *const dirs[] = { "/somewhere", "relative/too", "/with spaces/and\tmore", "x",
                                        "/dev/shm/sonde-0/../x", "\xff\xfe" };
    char out[64];
    for (size_t i = 0; i < COUNT(dirs); i++) {
        setenv("SONDE_DIR", dirs[i], 1);
        memset(out, 'z', sizeof(out));
        assert_int_equal(sonde__dir_default(out, sizeof(out)), 0);
        assert_string_equal(out, dirs[i]);
    }
    unsetenv("SONDE_DIR");
}

/* It fits with its NUL, or nothing is written. */
static void too_long_is_refused(void **state)
{
    (void)state;
    char out[32];
    setenv("SONDE_DIR", "/0123456789", 1); /* 11 bytes */
    for (size_t size = 0; size < sizeof(out); size++) {
        memset(out, 'z', sizeof(out));
        const int rc = sonde__dir_default(out, size);
        assert_int_equal(rc, size >= 12 ? 0 : SONDE_EINVAL);
        for (size_t i = size < 12 ? 0 : 12; i < sizeof(out); i++) assert_int_equal(out[i], 'z');
    }
    unsetenv("SONDE_DIR");
    assert_int_equal(sonde__dir_default(out, 5), SONDE_EINVAL);
}

/* ---- Who holds what -------------------------------------------------------------------------- */

enum { OTHER = 4711 };

enum held {
    NOTHING, OURS, OURS_OPEN, OURS_GROUP, THEIRS, THEIRS_OPEN, A_FILE, A_LINK_TO_OURS,
    A_DANGLING_LINK
};

static int make(const char *path, enum held what, uid_t me)
{
    const char *target = what == A_LINK_TO_OURS ? "/run/target" : "/nowhere/at/all";
    const mode_t mode = what == OURS_OPEN || what == THEIRS_OPEN ? 0777
                        : what == OURS_GROUP                     ? 0770
                                                                 : 0700;
    const uid_t owner = what == THEIRS || what == THEIRS_OPEN ? OTHER : me;
    switch (what) {
    case NOTHING: return 0;
    case A_FILE: {
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        return fd < 0 || fchown(fd, me, (gid_t)-1) || close(fd);
    }
    case A_LINK_TO_OURS:
    case A_DANGLING_LINK: return symlink(target, path) || lchown(path, me, (gid_t)-1);
    default: return mkdir(path, 0700) || chmod(path, mode) || chown(path, owner, (gid_t)-1);
    }
}

struct dir_case { enum held shared, own, parent; int private; };

static const struct dir_case cases[] = {
    /* Nobody, or this user, has the shared name. */
    { NOTHING, NOTHING, OURS, 0 },
    { OURS, NOTHING, OURS, 0 },
    { OURS_OPEN, NOTHING, OURS, 0 }, /* record/ refuses it with a reason: not passed by silently */
    /* It is taken: by another user's directory, or by what is no directory. */
    { THEIRS, NOTHING, OURS, 1 },
    { THEIRS_OPEN, NOTHING, OURS, 1 },
    { A_FILE, NOTHING, OURS, 1 },
    { A_LINK_TO_OURS, NOTHING, OURS, 1 },
    { A_DANGLING_LINK, NOTHING, OURS, 1 },
    /* Once made, the private one is used for good. */
    { NOTHING, OURS, OURS, 1 },
    { OURS, OURS, OURS, 1 },
    { THEIRS, OURS, OURS, 1 },
    /* But only if it is private. */
    { NOTHING, OURS_OPEN, OURS, 0 },
    { NOTHING, OURS_GROUP, OURS, 0 },
    { NOTHING, THEIRS, OURS, 0 },
    { NOTHING, A_FILE, OURS, 0 },
    { NOTHING, A_LINK_TO_OURS, OURS, 0 },
    /* A parent that others can write to, or that is not ours, makes nothing private. */
    { THEIRS, NOTHING, OURS_OPEN, 0 },
    { THEIRS, NOTHING, OURS_GROUP, 0 },
    { THEIRS, NOTHING, THEIRS, 0 },
    { A_FILE, NOTHING, THEIRS_OPEN, 0 },
};

/* In a child, which is root in a mount namespace of its own. Its exit status: 0, or 10 + the case
 * whose answer is wrong; 1 = no namespace; 2 = it could not be set up. */
static int in_namespace(uid_t me)
{
    char shared[64], parent[64], own[96], out[128];
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) return 1;
    umask(0);
    snprintf(shared, sizeof(shared), SONDE__DIR_SHARED "%u", me);
    if (me) snprintf(parent, sizeof(parent), "/run/user/%u", me);
    else snprintf(parent, sizeof(parent), "/run");
    snprintf(own, sizeof(own), "%s/sonde-%u", parent, me);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct dir_case *c = &cases[i];
        if (mount("shm", "/dev/shm", "tmpfs", 0, "mode=1777") ||
            mount("run", "/run", "tmpfs", 0, "mode=755")) {
            return 2;
        }
        if (mkdir("/run/target", 0700) || chown("/run/target", me, (gid_t)-1)) return 2;
        if (me && (mkdir("/run/user", 0755) || mkdir(parent, 0700))) return 2;
        if (make(own, c->own, me) || make(shared, c->shared, me)) return 2;
        const int of_other = c->parent == THEIRS || c->parent == THEIRS_OPEN;
        const int open_to = c->parent == OURS_OPEN || c->parent == THEIRS_OPEN;
        if (chmod(parent, open_to ? 0777 : c->parent == OURS_GROUP ? 0770 : me ? 0700 : 0755) ||
            chown(parent, of_other ? OTHER : me, (gid_t)-1)) {
            return 2;
        }
        if (me && seteuid(me)) return 2;
        const int rc = sonde__dir_default(out, sizeof(out));
        if (me && seteuid(0)) return 2;
        if (rc || strcmp(out, c->private ? own : shared)) {
            fprintf(stderr, "case %zu as %u: %s\n", i, me, rc ? "failed" : out);
            return 10 + (int)i;
        }
        if (umount2("/run", MNT_DETACH) || umount2("/dev/shm", MNT_DETACH)) return 2;
    }
    return 0;
}

static void run_as(uid_t me)
{
    int status = 0;
    if (geteuid() != 0) skip();
    unsetenv("SONDE_DIR");
    const pid_t pid = fork();
    if (pid == 0) _exit(in_namespace(me));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1) skip();
    assert_int_equal(status, 0);
}

static void root_uses_run(void **state) { (void)state, run_as(0); }
static void users_use_run_user(void **state) { (void)state, run_as(12345); }
static void largest_uid(void **state) { (void)state, run_as(UINT32_MAX - 1); }

/* An empty variable is none; the name is the effective user's. */
static void default_is_shared(void **state)
{
    (void)state;
    char out[128], shared[64], own[96];
    snprintf(shared, sizeof(shared), SONDE__DIR_SHARED "%u", geteuid());
    snprintf(own, sizeof(own), geteuid() ? "/run/user/%u/sonde-%u" : "/run/sonde-%u", geteuid(),
             geteuid());
    for (int empty = 0; empty < 2; empty++) {
        if (empty) setenv("SONDE_DIR", "", 1);
        else unsetenv("SONDE_DIR");
        assert_int_equal(sonde__dir_default(out, sizeof(out)), 0);
        assert_true(!strcmp(out, shared) || !strcmp(out, own));
    }
    unsetenv("SONDE_DIR");
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(env_is_taken_as_it_is), T(too_long_is_refused), T(default_is_shared), T(root_uses_run),
        T(users_use_run_user), T(largest_uid),
    };
    return cmocka_run_group_tests_name("dir", tests, NULL, NULL);
}
