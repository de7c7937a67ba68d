/* preload_library.c - where libsonde_preload.so is, and how a program is made to load it. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "collect/preload_targets.h"
#include "sonde/sonde.h"
#include "unwind/image.h"

#define NAME "libsonde_preload.so"

static int preloaded_library_take(const char *path, char *out, size_t size)
{
    char real[PATH_MAX];
    struct stat st;
    if (!realpath(path, real) || stat(real, &st) != 0 || !S_ISREG(st.st_mode) ||
        strlen(real) >= size) {
        return -1;
    }
    memcpy(out, real, strlen(real) + 1);
    return 0;
}

static int take_glob(const char *dir, const char *pattern, char *out, size_t size)
{
    char path[PATH_MAX + 64];
    glob_t found;
    snprintf(path, sizeof(path), "%s/%s", dir, pattern);
    if (glob(path, 0, NULL, &found) != 0) return -1;
    int rc = -1;
    for (size_t i = 0; rc != 0 && i < found.gl_pathc; i++) {
        rc = preloaded_library_take(found.gl_pathv[i], out, size);
    }
    globfree(&found);
    return rc;
}

/* Of LD_PRELOAD's entries neither can hold what separates them. */
static int preloaded_library_check(const char *path, struct sonde_err *err)
{
    const char *bad = strpbrk(path, ": ");
    if (!bad) return 0;
    return sonde_err_set(err, SONDE_EOFF, "%s cannot be preloaded, because its path has a '%c' in "
                         "it; copy it elsewhere and say where with SONDE_PRELOAD", path, *bad);
}

int sonde_preload_library(char *out, size_t size, struct sonde_err *err)
{
    assert(out && size > 0);
    static const char *const places[] = { NAME, "../lib*/sonde/" NAME, "../lib/*/sonde/" NAME };
    const char *chosen = getenv("SONDE_PRELOAD");
    char self[PATH_MAX] = "";
    if (chosen && *chosen) {
        if (preloaded_library_take(chosen, out, size) == 0) {
            return preloaded_library_check(out, err);
        }
        return sonde_err_set(err, SONDE_EOFF, "SONDE_PRELOAD names %s, which is no file", chosen);
    }
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    const char *dir = dirname(self);
    for (size_t i = 0; i < SONDE_COUNT(places); i++) {
        if (take_glob(dir, places[i], out, size) == 0) return preloaded_library_check(out, err);
    }
    return sonde_err_set(err, SONDE_EOFF, NAME " is neither in %s nor in ../lib/sonde from there; "
                         "say where it is with SONDE_PRELOAD", dir);
}

int sonde_preload_environment(const char *variable, char out[SONDE_PRELOAD_ENV_MAX],
                              size_t *size, struct sonde_err *err)
{
    assert(variable && size);
    char library[512];
    int rc = sonde_preload_library(library, sizeof(library), err);
    if (rc != 0) return rc;
    const char *theirs = getenv("LD_PRELOAD");
    const int has = theirs && *theirs;
    const size_t more = strlen(variable) + 1;
    const int first = snprintf(out, SONDE_PRELOAD_ENV_MAX, "LD_PRELOAD=%s%s%s", library,
                               has ? ":" : "", has ? theirs : "");
    if (first < 0 || (size_t)first + 1 + more > SONDE_PRELOAD_ENV_MAX) {
        return sonde_err_set(err, SONDE_EOFF, "LD_PRELOAD is too long (%d bytes) for another entry",
                             first);
    }
    memcpy(out + first + 1, variable, more);
    *size = (size_t)first + 1 + more;
    return 0;
}

/* ---- Programs that cannot have it ------------------------------------------------------------ */

const char *sonde_preload_refused(const char *program)
{
    static const char *const texts[] = {
#define SONDE__X(name, text) text,
        SONDE__IMAGE_KINDS(SONDE__X)
#undef SONDE__X
    };
    const enum sonde__image_kind kind = sonde__image_look_at(AT_FDCWD, program);
    return kind == SONDE__IMAGE_SUITS ? NULL : texts[kind];
}
