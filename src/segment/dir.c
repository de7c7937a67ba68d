/* dir.c - where segments go if nobody says.
 *
 * /dev/shm is there on every machine, shared with containers on purpose, and anybody may write to
 * it: another user may make /dev/shm/sonde-<uid> first, or a link of that name, and keep both
 * halves out, or be believed. So that directory is passed by if it cannot be ours, for one in a
 * place where only this user can make anything: /run (root) or /run/user/<uid>. Library and agent
 * do not talk to each other; they come to the same answer since they look at the same three things.
 * Once made, the private directory is used for good, so that whoever holds the name in /dev/shm
 * cannot part them by giving it back in between.
 *
 * Rejected: further names in /dev/shm, which can be taken first as well; /run/user alone, which is
 * not there without a login session, in containers, or for a service's user. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/segment.h"

#define DEFAULT_BYTES 64u    /* of a default path */

static char *segment_dir_put(char *out, const char *text)
{
    const size_t len = strlen(text);
    memcpy(out, text, len + 1);
    return out + len;
}

static char *put_uid(char *out, uint64_t v)
{
    char digits[21], *p = digits + 20;
    *p = 0;
    do {
        *--p = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    return segment_dir_put(out, p);
}

/* A directory of this user's where nobody else can make anything. */
static int is_private(const char *path, uid_t me)
{
    struct stat st;
    return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == me && !(st.st_mode & 022);
}

static int segment_dir_is_taken(const char *path, uid_t me)
{
    struct stat st;
    return !lstat(path, &st) && (!S_ISDIR(st.st_mode) || st.st_uid != me);
}

int sonde__dir_default(char *out, size_t out_size)
{
    char shared[DEFAULT_BYTES], own[DEFAULT_BYTES], parent[DEFAULT_BYTES];
    const char *chosen = secure_getenv("SONDE_DIR");
    if (!chosen || !*chosen) {
        const uid_t me = geteuid();
        put_uid(segment_dir_put(shared, SONDE__DIR_SHARED), me);
        segment_dir_put(parent, "/run");
        if (me) put_uid(segment_dir_put(parent, "/run/user/"), me);
        put_uid(segment_dir_put(segment_dir_put(own, parent), "/sonde-"), me);
        chosen = is_private(own, me) || (segment_dir_is_taken(shared, me) && is_private(parent, me))
                     ? own
                     : shared;
    }
    const size_t len = strlen(chosen);
    if (len >= out_size) return SONDE_EINVAL;
    memcpy(out, chosen, len + 1);
    return 0;
}
