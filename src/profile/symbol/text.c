/* text.c - tables of names as text: /proc/kallsyms, and the maps that runtimes with a
 * just-in-time compiler write for perf, /tmp/perf-PID.map: "START SIZE NAME", numbers in hex. A
 * runtime only appends, and uses memory again: where lines overlap the last one counts. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/path.h"
#include "profile/profile.h"
#include "profile/symbol/symbol.h"
#include "sonde/sonde.h"

#define TEXT_MAX (256u << 20)       /* of a table; kallsyms has 10 MB */
#define KERNEL_LAST (1u << 20)      /* how far the last symbol of the kernel may reach */

/* ---- Reading ------------------------------------------------------------------------------- */

static int symbol_text_read(int fd, struct sonde_buf *out)
{
    const int rc = sonde_file_read_fd(fd, out);
    sonde_buf_putc(out, '\n'); /* so that every line ends */
    return out->error ? out->error : rc ? SONDE_EIO : 0;
}

/* Hex digits at *p, then one blank. 0 if there are none or too many. */
static int take_hex(char **p, uint64_t *out)
{
    char *s = *p;
    if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X')) s += 2;
    const size_t digits = strspn(s, "0123456789abcdefABCDEF");
    if (digits == 0 || digits > 16 || (s[digits] != ' ' && s[digits] != '\t')) return 0;
    *out = strtoull(s, NULL, 16);
    *p = s + digits + 1;
    return 1;
}

static int take_perf_map(struct sonde_symbol_table *t, char *line, uint32_t number)
{
    uint64_t start, size;
    if (!take_hex(&line, &start) || !take_hex(&line, &size)) return 0;
    if (size > UINT64_MAX - start || line[0] == '\0') return 0;
    const struct sonde_symbol_range r = { .start = start, .end = start + size, .rank = number,
                                          .value = (uint64_t)(uintptr_t)line };
    return sonde_symbol_table_add(t, &r);
}

/* "ffffffff81000000 T name" or, of a module, "ffffffffc0000000 t name\t[module]". */
static int take_kallsyms(struct sonde_symbol_table *t, char *line, uint32_t number)
{
    uint64_t start;
    (void)number;
    if (!take_hex(&line, &start) || start == 0 || line[0] == '\0' || line[1] != ' ') return 0;
    if (!strchr("tTwW", line[0])) return 0;
    char *name = line + 2;
    name[strcspn(name, "\t ")] = '\0';
    if (name[0] == '\0') return 0;
    const uint64_t end = start > UINT64_MAX - KERNEL_LAST ? UINT64_MAX : start + KERNEL_LAST;
    struct sonde_symbol_range r = { .start = start, .end = end, .unsized = 1,
                                    .rank = line[0] == 'T' ? 2 : line[0] == 't' ? 1 : 0,
                                    .value = (uint64_t)(uintptr_t)name };
    return sonde_symbol_table_add(t, &r);
}

static int symbol_text_parse(struct sonde_buf *text, struct sonde_symbol_table *t,
                             int (*take)(struct sonde_symbol_table *, char *, uint32_t))
{
    char *p = text->data, *end = text->data + text->len;
    int rc = 0;
    for (uint32_t number = 1; !rc && p < end && number < UINT32_MAX; number++) {
        char *newline = memchr(p, '\n', (size_t)(end - p));
        *newline = '\0'; /* symbol_text_read() ended the last line */
        rc = take(t, p, number);
        p = newline + 1;
    }
    sonde_symbol_table_seal(t);
    return rc;
}

/* ---- The map of a JIT ---------------------------------------------------------------------- */

/* The pid as the process itself knows it, in its container: that is in the file's name. */
static uint32_t own_pid(uint32_t pid)
{
    char path[64], line[1024];
    unsigned long own = pid;
    snprintf(path, sizeof(path), "/proc/%u/status", pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "NSpid:", 6) != 0) continue;
        for (char *p = strpbrk(line, "0123456789"); p; p = strpbrk(p, "0123456789")) {
            own = strtoul(p, &p, 10);
        }
        break;
    }
    if (f) fclose(f);
    return own <= INT32_MAX ? (uint32_t)own : pid;
}

/* Anyone may write in /tmp: only the process's user, ours or root may name its functions. */
static int open_owned(const char *path, uint32_t pid)
{
    char process[64];
    struct stat file, owner;
    const int fd = sonde_symbol_open_path(path);
    if (fd < 0) return -1;
    snprintf(process, sizeof(process), "/proc/%u", pid);
    if (fstat(fd, &file) == 0 &&
        (file.st_uid == 0 || file.st_uid == geteuid() ||
         (pid && stat(process, &owner) == 0 && owner.st_uid == file.st_uid))) {
        return fd;
    }
    close(fd);
    return -1;
}

static int open_map(const struct sonde_module *place)
{
    char path[128];
    int fd = -1;
    const uint32_t pid = place->pid;
    if (sonde_has_suffix(place->open_path, ".map")) fd = open_owned(place->open_path, pid);
    if (fd < 0 && sonde_has_suffix(place->path, ".map")) fd = open_owned(place->path, pid);
    if (fd >= 0 || pid == 0) return fd;
    snprintf(path, sizeof(path), "/proc/%u/root/tmp/perf-%u.map", pid, own_pid(pid));
    fd = open_owned(path, pid);
    if (fd >= 0) return fd;
    snprintf(path, sizeof(path), "/tmp/perf-%u.map", pid); /* the process is gone */
    return open_owned(path, pid);
}

/* ---- One job ------------------------------------------------------------------------------- */

static int emit_named(const struct sonde_symbol_job *job, const struct sonde_symbol_table *t,
                      const char *otherwise, sonde_symbol_emit *emit, void *arg)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < job->at_count; i++) {
        const struct sonde_symbol_range *r = sonde_symbol_table_find(t, job->at[i]);
        const char *name = r ? (const char *)(uintptr_t)r->value : otherwise;
        const struct sonde_symbol_frame frame = { .name = name, .file = "" };
        if (name) rc = emit(arg, i, &frame, 1);
    }
    return rc;
}

int sonde_symbol_text(const struct sonde_symbol_job *job, sonde_symbol_emit *emit, void *arg,
                      uint32_t *flags)
{
    struct sonde_buf text;
    const int kernel = job->kind == SONDE_SYMBOL_KERNEL;
    struct sonde_symbol_table t = { .latest = !kernel };
    const char *otherwise = NULL;
    if (!kernel) { /* one box, not one an address; [uprobes] and its like have a name */
        const char *path = job->places[0].path;
        otherwise = path[0] == '[' && strcmp(path, "[anon]") != 0 ? path : "[JIT code]";
    }
    int rc = 0;
    const int fd = kernel ? open("/proc/kallsyms", O_RDONLY | O_CLOEXEC)
                          : open_map(&job->places[0]);
    sonde_buf_init(&text, TEXT_MAX);
    if (fd >= 0) {
        rc = symbol_text_read(fd, &text);
        if (rc == 0) rc = symbol_text_parse(&text, &t, kernel ? take_kallsyms : take_perf_map);
        close(fd);
        if (rc == SONDE_EIO || rc == SONDE_EFULL) rc = 0; /* what there is of it */
    }
    if (t.count == 0) {
        *flags |= SONDE_MODULE_STRIPPED;
        if (kernel) {
            *flags |= SONDE_SYMBOL_HIDDEN;
            otherwise = "[kernel]";
        }
    }
    if (rc == 0) rc = emit_named(job, &t, otherwise, emit, arg);
    sonde_symbol_table_release(&t);
    sonde_buf_release(&text);
    return rc;
}
