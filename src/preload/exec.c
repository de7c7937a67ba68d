/* exec.c - programs that this one executes get the variables that were taken out of the
 * environment: when it replaces itself, and, if children are wanted, in every process that it
 * starts.
 *
 * Handing them on here rather than leaving them in the environment keeps that the program's own
 * (`env` prints what it printed), reaches children whose environment is made anew, and lets us look
 * before: a program that cannot have the library (linked with musl, built with AddressSanitizer by
 * gcc, of another machine) is started as if we were not there. Whoever starts programs without libc
 * (Go, and everything that is linked statically) starts them without us.
 *
 * system and popen execute a shell with the environment as it is, inside of libc. The shell is told
 * to replace itself with one that has the variables, and that hands them on.
 *
 * POSIX timers and their pending signals do not survive exec (unlike setitimer's, which have
 * killed the targets of other profilers), so there is nothing to disarm. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/preload.h"
#include "record/state.h"
#include "unwind/image.h"

#define ENTRIES_MAX 32768u
#define ARGUMENTS_MAX 32768u
#define SHELL_MAX 32768u      /* bytes of a command for the shell; longer ones are left alone */
#define SHELL "/bin/sh"
#define LATER ",later=1"

enum preload_exec_how { BY_PATH, BY_NAME, BY_FD, AT, SPAWN, SPAWN_BY_NAME };

struct what {
    enum preload_exec_how how;
    const char *file;
    int fd, flags;
    pid_t *pid;               /* SPAWN… */
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
};

/* ---- What is handed on ----------------------------------------------------------------------- */

/* The variables, as "NAME=value" each, and an array of those that are handed on. */
struct ours {
    char preload[sizeof("LD_PRELOAD=:") + sizeof(sonde__host.library)]; /* without theirs */
    char sampler[sizeof(SONDE__SAMPLER_ENV "=") + sizeof(sonde__config.text)];
    char heap[sizeof(SONDE__HEAP_ENV "=" LATER) + sizeof(sonde__heap_config.text)];
    char llama[sizeof(SONDE__LLAMA_ENV "=") + sizeof(sonde__llama_config.text)];
    char gpu[sizeof(SONDE__GPU_ENV "=") + sizeof(sonde__gpu_config.text)];
    char dir[sizeof("SONDE_DIR=") + sizeof(sonde__host.dir)];
    char *entry[7];           /* NULL-terminated; the first is LD_PRELOAD */
};

static const char *entry_value(const char *entry, const char *name, size_t len)
{
    return !strncmp(entry, name, len) && entry[len] == '=' ? entry + len + 1 : NULL;
}

static const char *preload_exec_value_of(char *const *envp, const char *name, size_t len)
{
    for (; envp && *envp; envp++) {
        const char *v = entry_value(*envp, name, len);
        if (v) return v;
    }
    return NULL;
}

/* Whoever sets them has his own reasons: sonde that is started under sonde. */
static int is_others(char *const *envp)
{
    return preload_exec_value_of(envp, SONDE__SAMPLER_ENV, sizeof(SONDE__SAMPLER_ENV) - 1) ||
           preload_exec_value_of(envp, SONDE__HEAP_ENV, sizeof(SONDE__HEAP_ENV) - 1) ||
           preload_exec_value_of(envp, SONDE__LLAMA_ENV, sizeof(SONDE__LLAMA_ENV) - 1) ||
           preload_exec_value_of(envp, SONDE__GPU_ENV, sizeof(SONDE__GPU_ENV) - 1);
}

/* 1 if there is something to hand on. itself: it is this process that executes. */
static int ours_make(struct ours *o, char *const *envp, int itself)
{
    char **next = o->entry;
    *next++ = o->preload;
    if (!sonde__host.library[0] || sonde__g.silent || is_others(envp)) return 0;
    stpcpy(stpcpy(o->preload, "LD_PRELOAD="), sonde__host.library);
    if (sonde__config.text[0] && (itself || sonde__config.children)) {
        stpcpy(stpcpy(o->sampler, SONDE__SAMPLER_ENV "="), sonde__config.text);
        *next++ = o->sampler;
    }
    if (sonde__heap_config.text[0] && (itself || sonde__heap_config.children)) {
        char *end = stpcpy(stpcpy(o->heap, SONDE__HEAP_ENV "="), sonde__heap_config.text);
        if (!itself && !sonde__heap_config.later) stpcpy(end, LATER);
        *next++ = o->heap;
    }
    if (sonde__llama_config.text[0] && (itself || sonde__llama_config.children)) {
        stpcpy(stpcpy(o->llama, SONDE__LLAMA_ENV "="), sonde__llama_config.text);
        *next++ = o->llama;
    }
    if (sonde__gpu_config.text[0] && (itself || sonde__gpu_config.children)) {
        stpcpy(stpcpy(o->gpu, SONDE__GPU_ENV "="), sonde__gpu_config.text);
        *next++ = o->gpu;
    }
    if (next == o->entry + 1) return 0;
    if (sonde__host.dir[0] && !preload_exec_value_of(envp, "SONDE_DIR", 9)) {
        stpcpy(stpcpy(o->dir, "SONDE_DIR="), sonde__host.dir);
        *next++ = o->dir;
    }
    *next = NULL;
    return 1;
}

/* Ours first, the LD_PRELOAD that it replaces left out. out: room for all and a NULL. */
static void preload_exec_fill(char **out, char *const *envp, char *const *ours)
{
    for (; *ours; ours++) *out++ = *ours;
    for (; envp && *envp; envp++) {
        if (!entry_value(*envp, "LD_PRELOAD", 10)) *out++ = *envp;
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

/* ---- To whom --------------------------------------------------------------------------------- */

static enum sonde__image_kind image_of(const struct what *w)
{
    char path[4096];
    switch (w->how) {
    case BY_PATH:
    case SPAWN: return sonde__image_look_at(AT_FDCWD, w->file);
    case BY_NAME:
    case SPAWN_BY_NAME:
        if (sonde__image_find(w->file, path, sizeof(path))) return SONDE__IMAGE_UNREADABLE;
        return sonde__image_look_at(AT_FDCWD, path);
    case BY_FD: return sonde__image_look(w->fd);
    default:
        return w->flags & AT_EMPTY_PATH && !w->file[0] ? sonde__image_look(w->fd)
                                                       : sonde__image_look_at(w->fd, w->file);
    }
}

/* The library may also not be there any more, as seen from another root. */
static int preload_exec_suits(const struct what *w)
{
    const int saved = errno;
    const int yes = w->how == BY_FD || w->file
                        ? image_of(w) == SONDE__IMAGE_SUITS && !access(sonde__host.library, R_OK)
                        : 0;
    errno = saved;
    return yes;
}

static int preload_exec_pass(const struct what *w, char *const argv[], char *const envp[])
{
    switch (w->how) {
    case BY_PATH: return SONDE__REAL(execve)(w->file, argv, envp);
    case BY_NAME: return SONDE__REAL(execvpe)(w->file, argv, envp);
    case BY_FD: return SONDE__REAL(fexecve)(w->fd, argv, envp);
    case AT: return SONDE__REAL(execveat)(w->fd, w->file, argv, envp, w->flags);
    case SPAWN:
        return SONDE__REAL(posix_spawn)(w->pid, w->file, w->actions, w->attributes, argv, envp);
    default:
        return SONDE__REAL(posix_spawnp)(w->pid, w->file, w->actions, w->attributes, argv, envp);
    }
}

/* Memory is the stack's: exec may be called where nothing else is safe. */
static int preload_exec_run(const struct what *w, char *const argv[], char *const envp[])
{
    struct ours ours;
    size_t count = 0;
    const int spawns = w->how >= SPAWN;
    while (envp && envp[count]) count++;
    if (count > ENTRIES_MAX ||
        !ours_make(&ours, envp, !spawns && sonde__host.pid == (uint32_t)getpid()) ||
        !preload_exec_suits(w)) {
        return preload_exec_pass(w, argv, envp);
    }
    const char *theirs = preload_exec_value_of(envp, "LD_PRELOAD", 10);
    if (!theirs) theirs = "";
    char preload[sizeof(ours.preload) + strlen(theirs)];
    char *entries[count + sizeof(ours.entry) / sizeof(ours.entry[0])];
    put_preload(preload, theirs);
    ours.entry[0] = preload;
    preload_exec_fill(entries, envp, ours.entry);
    const int rc = preload_exec_pass(w, argv, entries);
    /* Too much because of ours: without us it would have gone. */
    if ((spawns ? rc : errno) == E2BIG) return preload_exec_pass(w, argv, envp);
    return rc;
}

/* ---- Through a shell ------------------------------------------------------------------------- */

/* In quotes, for the shell. out: room for four times as much, and two more. */
static char *preload_exec_quote(char *out, const char *text)
{
    *out++ = '\'';
    for (; *text; text++) {
        if (*text == '\'') out = stpcpy(out, "'\\'");
        *out++ = *text;
    }
    *out++ = '\'';
    *out = 0;
    return out;
}

static size_t quoted_max(const char *text) { return 4 * strlen(text) + 3; }

/* "NAME='value' … exec /bin/sh -c 'command' sh": call ends with it, or with command itself. */
#define THROUGH_SHELL(command, call)                                                           \
    struct ours ours;                                                                          \
    const struct what shell = { .how = BY_PATH, .file = SHELL };                               \
    if (!(command) || strlen(command) > SHELL_MAX || !ours_make(&ours, environ, 0) ||          \
        !preload_exec_suits(&shell)) {                                                         \
        return call(command);                                                                  \
    }                                                                                          \
    const char *theirs = preload_exec_value_of(environ, "LD_PRELOAD", 10);                     \
    if (!theirs) theirs = "";                                                                  \
    if (strlen(theirs) > SHELL_MAX) return call(command);                                      \
    char preload[sizeof(ours.preload) + strlen(theirs)];                                       \
    char line[quoted_max(command) + 4 * sizeof(preload) + 4 * sizeof(ours)];                   \
    put_preload(preload, theirs);                                                              \
    ours.entry[0] = preload;                                                                   \
    shell_line(line, command, ours.entry);                                                     \
    return call(line)

static void shell_line(char *out, const char *command, char *const *entries)
{
    for (; *entries; entries++) {
        const char *value = strchr(*entries, '=') + 1;
        memcpy(out, *entries, (size_t)(value - *entries));
        out = preload_exec_quote(out + (value - *entries), value);
        *out++ = ' ';
    }
    out = preload_exec_quote(stpcpy(out, "exec " SHELL " -c "), command);
    stpcpy(out, " sh");
}

/* ---- Interposed ---------------------------------------------------------------------------- */

#define EXPORT __attribute__((visibility("default")))

EXPORT int execve(const char *path, char *const argv[], char *const envp[])
{
    return preload_exec_run(&(struct what){ BY_PATH, path, -1, 0, NULL, NULL, NULL }, argv, envp);
}

EXPORT int execv(const char *path, char *const argv[])
{
    return preload_exec_run(&(struct what){ BY_PATH, path, -1, 0, NULL, NULL, NULL }, argv,
                            environ);
}

EXPORT int execvp(const char *file, char *const argv[])
{
    return preload_exec_run(&(struct what){ BY_NAME, file, -1, 0, NULL, NULL, NULL }, argv,
                            environ);
}

EXPORT int execvpe(const char *file, char *const argv[], char *const envp[])
{
    return preload_exec_run(&(struct what){ BY_NAME, file, -1, 0, NULL, NULL, NULL }, argv, envp);
}

EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const argv[],
                       char *const envp[])
{
    return preload_exec_run(&(struct what){ SPAWN, path, -1, 0, pid, actions, attributes }, argv,
                            envp);
}

EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const argv[],
                        char *const envp[])
{
    return preload_exec_run(&(struct what){ SPAWN_BY_NAME, file, -1, 0, pid, actions, attributes },
                            argv, envp);
}

EXPORT int system(const char *command)
{
#define CALL(line) SONDE__REAL(system)(line)
    THROUGH_SHELL(command, CALL);
#undef CALL
}

EXPORT FILE *popen(const char *command, const char *mode)
{
#define CALL(line) SONDE__REAL(popen)(line, mode)
    THROUGH_SHELL(command, CALL);
#undef CALL
}

EXPORT int fexecve(int fd, char *const argv[], char *const envp[])
{
    return preload_exec_run(&(struct what){ BY_FD, NULL, fd, 0, NULL, NULL, NULL }, argv, envp);
}

EXPORT int execveat(int fd, const char *path, char *const argv[], char *const envp[], int flags)
{
    return preload_exec_run(&(struct what){ AT, path, fd, flags, NULL, NULL, NULL }, argv, envp);
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
    return preload_exec_run(&(struct what){ how, file, -1, 0, NULL, NULL, NULL }, argv, envp)

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
