/* doctor_llama.c - can llama.cpp be watched, and what of it? Of a program or process that is named,
 * by the libraries it loads; else of a libllama that is installed.
 *
 * Which libraries a program loads the loader itself says, without running it. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/path.h"
#include "base/proc_maps.h"
#include "cli/doctor.h"
#include "collect/preload_targets.h"
#include "collect/uprobe/symbols.h"

enum { FILES_MAX = 512, PATH_BYTES = 1024 };

struct doctor_llama_found {
    int has[SONDE__LLAMA_COUNT]; /* in any of the files */
    int in_program;              /* the first of them has llama_decode itself */
    uint32_t files;
    char library[PATH_BYTES];    /* that has llama_decode; "" = none */
};

static const struct { const char *symbol, *absent; } functions[] = {
#define SONDE__X(id, symbol, a, b, c, absent) { symbol, absent },
    SONDE__LLAMA_FUNCTIONS(SONDE__X)
#undef SONDE__X
};

/* ---- Files ----------------------------------------------------------------------------------- */

static void doctor_llama_look(struct doctor_llama_found *f, const char *path)
{
    struct sonde_uprobe_symbols s;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const int first = f->files++ == 0;
    if (fd < 0) return;
    if (sonde_uprobe_symbols_read(fd, &s) == 0) {
        for (uint32_t i = 0; i < SONDE__LLAMA_COUNT; i++) f->has[i] |= s.at[i] != 0;
        if (s.at[SONDE__LLAMA_DECODE] && !f->library[0]) {
            snprintf(f->library, sizeof(f->library), "%s", path);
            f->in_program = first;
        }
    }
    close(fd);
}

/* Of libraries only those that may be llama.cpp's: there are hundreds in some programs. */
static int is_named(const char *path)
{
    const char *name = sonde_path_base(path);
    return strstr(name, "llama") || strstr(name, "ggml");
}

/* "	libllama.so => /usr/lib/libllama.so (0x…)", or just the path, as the loader lists what it
 * would load. */
static void look_listed(struct doctor_llama_found *f, FILE *list)
{
    char line[2 * PATH_BYTES];
    for (int n = 0; n < FILES_MAX && fgets(line, sizeof(line), list); n++) {
        char *path = strchr(line, '/');
        if (!path) continue;
        char *end = strstr(path, " (0x");
        if (end) *end = '\0';
        if (is_named(path)) doctor_llama_look(f, path);
    }
}

/* The loader that the program names; 0 = none, it is static or no program. */
static int loader_of(const char *path, char out[PATH_BYTES])
{
    Elf64_Ehdr h;
    Elf64_Phdr p;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    int has = 0;
    if (fd < 0) return 0;
    if (pread(fd, &h, sizeof(h), 0) == sizeof(h) && !memcmp(h.e_ident, ELFMAG, SELFMAG)) {
        for (int i = 0; i < h.e_phnum && !has; i++) {
            const off_t at = (off_t)h.e_phoff + i * (off_t)sizeof(p);
            if (pread(fd, &p, sizeof(p), at) != sizeof(p) || p.p_type != PT_INTERP) continue;
            const size_t len = p.p_filesz < PATH_BYTES - 1 ? p.p_filesz : PATH_BYTES - 1;
            const ssize_t n = pread(fd, out, len, (off_t)p.p_offset);
            out[n > 0 ? n : 0] = '\0';
            has = out[0] == '/';
        }
    }
    close(fd);
    return has;
}

static int doctor_llama_look_program(struct doctor_llama_found *f, const char *path)
{
    char loader[PATH_BYTES];
    int fds[2];
    doctor_llama_look(f, path);
    if (!loader_of(path, loader)) return 0;
    if (pipe2(fds, O_CLOEXEC) != 0) return -1;
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        execl(loader, loader, "--list", path, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    FILE *list = pid > 0 ? fdopen(fds[0], "re") : NULL;
    if (list) {
        look_listed(f, list);
        fclose(list);
    } else {
        close(fds[0]);
    }
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) {}
    return pid > 0 ? 0 : -1;
}

struct doctor_llama_mapped {
    struct doctor_llama_found *found;
    const char *pid;
    char last[PATH_BYTES];
};

static int doctor_llama_look_mapped(void *arg, const struct sonde_mapping *m)
{
    char path[PATH_BYTES];
    struct doctor_llama_mapped *l = arg;
    if (m->path[0] != '/' || !is_named(m->path) || !strcmp(m->path, l->last)) return 0;
    snprintf(l->last, sizeof(l->last), "%.*s", (int)sizeof(l->last) - 1, m->path);
    snprintf(path, sizeof(path), "/proc/%s/root%.*s", l->pid, (int)sizeof(path) - 64, m->path);
    doctor_llama_look(l->found, path);
    return 0;
}

static int look_process(struct doctor_llama_found *f, const char *pid)
{
    char path[PATH_BYTES];
    struct doctor_llama_mapped l = { .found = f, .pid = pid };
    snprintf(path, sizeof(path), "/proc/%s/exe", pid);
    doctor_llama_look(f, path);
    return sonde_proc_maps((uint32_t)strtoul(pid, NULL, 10), doctor_llama_look_mapped, &l) ? -1 : 0;
}

static void look_installed(struct doctor_llama_found *f)
{
    static const char *const places[] = { "/usr/local/lib/", "/usr/lib/*/", "/usr/lib/" };
    static const char *const names[] = { "llama", "ggml" };
    f->files = 1; /* none of these is a program */
    for (size_t i = 0; i < 2 * SONDE_COUNT(places); i++) {
        char pattern[64];
        glob_t g;
        snprintf(pattern, sizeof(pattern), "%slib%s*.so*", places[i / 2], names[i % 2]);
        if (glob(pattern, 0, NULL, &g) != 0) continue;
        for (size_t k = 0; k < g.gl_pathc && f->files < FILES_MAX; k++) {
            doctor_llama_look(f, g.gl_pathv[k]);
        }
        globfree(&g);
    }
}

/* ---- Telling --------------------------------------------------------------------------------- */

static void tell_functions(struct sonde_doctor *d, const struct doctor_llama_found *f)
{
    /* Which no library needs to have, and what follows. */
    const uint32_t count = SONDE__LLAMA_PROCESS;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (f->has[i]) continue;
        missing++;
        if (!functions[i].absent[0]) continue;
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "a newer llama.cpp has it, or one that is not stripped",
                         "%s has no %s, so this is not known: %s", f->library, functions[i].symbol,
                         functions[i].absent);
    }
    sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s: %u of %u functions that are watched%s",
                     f->library, count - missing, count,
                     f->in_program ? "; it is built in, so `sonde run` needs uprobes for it" : "");
}

static void tell_none(struct sonde_doctor *d, const char *target)
{
    if (target) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "if it loads llama.cpp while it runs, name the process instead; if "
                         "llama.cpp is built in, do not strip the program",
                         "%s: no llama.cpp in it, nor in the libraries it is linked with", target);
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "no libllama is installed; `sonde doctor "
                         "PROGRAM|PID` says what can be seen of one");
    }
}

void sonde_doctor_llama(struct sonde_doctor *d)
{
    struct doctor_llama_found f = { .library = "" };
    struct sonde_err err = { "" };
    char library[512];
    int rc = 0;
    if (sonde_preload_library(library, sizeof(library), &err) != 0) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "install libsonde_preload.so beside sonde or in its library directory; "
                         "until then llama.cpp is watched by uprobes only",
                         "calls of llama.cpp are not seen from inside: %s", err.text);
    }
    if (!d->target) look_installed(&f);
    else if (strspn(d->target, "0123456789") == strlen(d->target)) rc = look_process(&f, d->target);
    else rc = access(d->target, R_OK) == 0 ? doctor_llama_look_program(&f, d->target) : -1;
    if (rc != 0) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL, "name the file of a program, or the id of a process",
                         "%s cannot be read: %s", d->target, strerror(errno));
    } else if (f.library[0]) {
        tell_functions(d, &f);
    } else {
        tell_none(d, d->target);
    }
    if (d->target && f.library[0] && !f.in_program) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "functions that a program looks up in the "
                         "library itself (dlsym, as Python's ctypes does) pass the hooks by; "
                         "`sonde attach` sees them by uprobes");
    }
}
