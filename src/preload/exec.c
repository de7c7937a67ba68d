/* exec.c - a profiled program that replaces itself by exec goes on being profiled: the new image
 * gets the variables that were taken out of the environment. Processes that it starts do not.
 *
 * POSIX timers and their pending signals do not survive exec (unlike setitimer's, which have
 * killed the targets of other profilers), so there is nothing to disarm. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "preload/preload.h"

#define ENTRIES_MAX 32768u
#define ARGUMENTS_MAX 32768u

static const char *entry_value(const char *entry, const char *name, size_t len)
{
    return !strncmp(entry, name, len) && entry[len] == '=' ? entry + len + 1 : NULL;
}

/* 1 if the image that this exec brings is to be profiled and would not know. */
static int wanted(char *const *envp, size_t *count)
{
    const int sampler = sonde__config.text[0] && !sonde__config.children;
    const int heap = sonde__heap_config.text[0] && !sonde__heap_config.children;
    const int llama = sonde__llama_config.text[0] && !sonde__llama_config.children;
    *count = 0;
    if ((!sampler && !heap && !llama) || !sonde__host.library[0] ||
        sonde__host.pid != (uint32_t)getpid()) {
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

/* Ours first, what they replace left out. out: room for all and a NULL. */
static void fill(char **out, char *const *envp, char *const *ours)
{
    for (; *ours; ours++) *out++ = *ours;
    for (; envp && *envp; envp++) {
        if (!entry_value(*envp, "LD_PRELOAD", 10) &&
            !entry_value(*envp, SONDE__SAMPLER_ENV, sizeof(SONDE__SAMPLER_ENV) - 1) &&
            !entry_value(*envp, SONDE__HEAP_ENV, sizeof(SONDE__HEAP_ENV) - 1) &&
            !entry_value(*envp, SONDE__LLAMA_ENV, sizeof(SONDE__LLAMA_ENV) - 1)) {
            *out++ = *envp;
        }
    }
    *out = NULL;
}

/* LD_PRELOAD as it was, with our entry in front unless it is there. */
static void put_preload(char *out, const char *theirs)
{
    const char *ours = sonde__host.library;
    out = stpcpy(out, "LD_PRELOAD=");
    if (strstr(theirs, ours)) {
        strcpy(out, theirs);
    } else {
        out = stpcpy(out, ours);
        if (*theirs) stpcpy(stpcpy(out, ":"), theirs);
    }
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
    size_t count;
    if (!wanted(envp, &count)) return pass(w, argv, envp);
    const char *theirs = value_of(envp, "LD_PRELOAD", 10);
    if (!theirs) theirs = "";
    char preload[sizeof("LD_PRELOAD=:") + sizeof(sonde__host.library) + strlen(theirs)];
    char sampler[sizeof(SONDE__SAMPLER_ENV "=") + sizeof(sonde__config.text)];
    char heap[sizeof(SONDE__HEAP_ENV "=") + sizeof(sonde__heap_config.text)];
    char llama[sizeof(SONDE__LLAMA_ENV "=") + sizeof(sonde__llama_config.text)];
    char dir[sizeof("SONDE_DIR=") + sizeof(sonde__host.dir)];
    char *ours[6], **next = ours;
    char *entries[count + sizeof(ours) / sizeof(ours[0])];

    put_preload(preload, theirs);
    stpcpy(stpcpy(sampler, SONDE__SAMPLER_ENV "="), sonde__config.text);
    stpcpy(stpcpy(heap, SONDE__HEAP_ENV "="), sonde__heap_config.text);
    stpcpy(stpcpy(llama, SONDE__LLAMA_ENV "="), sonde__llama_config.text);
    stpcpy(stpcpy(dir, "SONDE_DIR="), sonde__host.dir);
    *next++ = preload;
    if (sonde__config.text[0]) *next++ = sampler;
    if (sonde__heap_config.text[0]) *next++ = heap;
    if (sonde__llama_config.text[0]) *next++ = llama;
    if (sonde__host.dir[0] && !value_of(envp, "SONDE_DIR", 9)) *next++ = dir;
    *next = NULL;
    fill(entries, envp, ours);
    pass(w, argv, entries);
    /* Too much because of ours: without us it would have gone. */
    return errno == E2BIG ? pass(w, argv, envp) : -1;
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
