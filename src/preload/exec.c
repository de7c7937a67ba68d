/* exec.c - a sampled program that replaces itself by exec goes on being sampled: the new image
 * gets the variables that were taken out of the environment. Processes that it starts do not.
 *
 * POSIX timers and their pending signals do not survive exec (unlike setitimer's, which have
 * killed the targets of other profilers), so there is nothing to disarm. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "preload/preload.h"
#include "preload/timer.h"

#define ENTRIES_MAX 32768u
#define ARGUMENTS_MAX 32768u

static const char *entry_value(const char *entry, const char *name, size_t len)
{
    return !strncmp(entry, name, len) && entry[len] == '=' ? entry + len + 1 : NULL;
}

/* 1 if the image that this exec brings is to be sampled and is not told so yet. */
static int wanted(char *const *envp, size_t *count)
{
    *count = 0;
    if (!sonde__config.text[0] || sonde__config.children || !sonde__config.library[0] ||
        !sonde__timer_is_owner()) {
        return 0;
    }
    while (envp && envp[*count]) ++*count;
    return *count <= ENTRIES_MAX;
}

static const char *value_of(char *const *envp, const char *name, size_t len)
{
    for (; envp && *envp; envp++) {
        const char *v = entry_value(*envp, name, len);
        if (v) return v;
    }
    return NULL;
}

/* out: room for count + 4 pointers. The entries that are ours go first. dir: NULL = it has one. */
static void fill(char **out, char *const *envp, char *preload, char *sampler, char *dir)
{
    *out++ = preload;
    *out++ = sampler;
    if (dir) *out++ = dir;
    for (; envp && *envp; envp++) {
        if (!entry_value(*envp, "LD_PRELOAD", 10) &&
            !entry_value(*envp, SONDE__SAMPLER_ENV, sizeof(SONDE__SAMPLER_ENV) - 1)) {
            *out++ = *envp;
        }
    }
    *out = NULL;
}

enum how { BY_PATH, BY_NAME, BY_FD, AT };

struct what {
    enum how how;
    const char *file;
    int fd, flags;
};

static int pass(const struct what *w, char *const argv[], char *const envp[])
{
    switch (w->how) {
    case BY_PATH: return SONDE__REAL(execve)(w->file, argv, envp);
    case BY_NAME: return SONDE__REAL(execvpe)(w->file, argv, envp);
    case BY_FD: return SONDE__REAL(fexecve)(w->fd, argv, envp);
    default: return SONDE__REAL(execveat)(w->fd, w->file, argv, envp, w->flags);
    }
}

/* Memory is the stack's: exec may be called where nothing else is safe. */
static int run(const struct what *w, char *const argv[], char *const envp[])
{
    const struct sonde__sampler_config *c = &sonde__config;
    size_t count;
    if (!wanted(envp, &count)) return pass(w, argv, envp);
    const char *theirs = value_of(envp, "LD_PRELOAD", 10);
    if (!theirs) theirs = "";
    const int needs_dir = c->dir[0] && !value_of(envp, "SONDE_DIR", 9);
    char *entries[count + 4];
    char preload[sizeof("LD_PRELOAD=:") + strlen(c->library) + strlen(theirs)];
    char sampler[sizeof(SONDE__SAMPLER_ENV "=") + strlen(c->text)];
    char dir[sizeof("SONDE_DIR=") + strlen(c->dir)];

    char *p = stpcpy(stpcpy(preload, "LD_PRELOAD="), c->library);
    if (*theirs) stpcpy(stpcpy(p, ":"), theirs);
    stpcpy(stpcpy(sampler, SONDE__SAMPLER_ENV "="), c->text);
    stpcpy(stpcpy(dir, "SONDE_DIR="), c->dir);
    fill(entries, envp, preload, sampler, needs_dir ? dir : NULL);
    return pass(w, argv, entries);
}

/* ---- Interposed ---------------------------------------------------------------------------- */

#define EXPORT __attribute__((visibility("default")))

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    return run(&(struct what){ BY_PATH, path, -1, 0 }, argv, envp);
}

EXPORT int execv(const char *path, char *const argv[])
{
    return run(&(struct what){ BY_PATH, path, -1, 0 }, argv, environ);
}

EXPORT int execvp(const char *file, char *const argv[])
{
    return run(&(struct what){ BY_NAME, file, -1, 0 }, argv, environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    return run(&(struct what){ BY_NAME, file, -1, 0 }, argv, envp);
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    return run(&(struct what){ BY_FD, NULL, fd, 0 }, argv, envp);
}

EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
    return run(&(struct what){ AT, path, fd, flags }, argv, envp);
}

/* The forms with the arguments in the call. ap is at what follows arg. */
static size_t count_arguments(const char *arg, va_list ap)
{
    size_t n = 0;
    while (arg && n <= ARGUMENTS_MAX) {
        n++;
        arg = va_arg(ap, const char *);
    }
    return n;
}

static void take_arguments(char **out, const char *arg, va_list *ap)
{
    while (arg) {
        *out++ = (char *)(uintptr_t)arg;
        arg = va_arg(*ap, const char *);
    }
    *out = NULL;
}

/* Envp, if any, follows the NULL that ends the arguments. */
#define RUN_LIST(how, file, arg, env_of)                                                       \
    va_list ap;                                                                                \
    va_start(ap, arg);                                                                         \
    const size_t n = count_arguments(arg, ap);                                                 \
    va_end(ap);                                                                                \
    if (n > ARGUMENTS_MAX) {                                                                   \
        errno = E2BIG;                                                                         \
        return -1;                                                                             \
    }                                                                                          \
    char *argv[n + 1];                                                                         \
    va_start(ap, arg);                                                                         \
    take_arguments(argv, arg, &ap);                                                            \
    char *const *envp = env_of;                                                                \
    va_end(ap);                                                                                \
    return run(&(struct what){ how, file, -1, 0 }, argv, envp)

EXPORT int execl(const char *path, const char *arg, ...)
{
    RUN_LIST(BY_PATH, path, arg, environ);
}

EXPORT int execlp(const char *file, const char *arg, ...)
{
    RUN_LIST(BY_NAME, file, arg, environ);
}

EXPORT int execle(const char *path, const char *arg, ...)
{
    RUN_LIST(BY_PATH, path, arg, va_arg(ap, char *const *));
}
