#include "collect/cpu/perf_blocked.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/errno.h"
#include "base/file.h"
#include "sonde/sonde.h"

#define TEXT 512

static int read_task(uint32_t pid, uint32_t tid, const char *name, char out[TEXT])
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/task/%u/%s", pid, tid, name);
    const ssize_t n = sonde_file_read_small(AT_FDCWD, path, out, TEXT);
    return n < 0 ? (int)n : 0;
}

int sonde_perf_is_blocked(uint32_t pid, uint32_t tid)
{
    char text[TEXT];
    if (read_task(pid, tid, "stat", text)) return 0;
    const char *name_end = strrchr(text, ')'); /* a name may hold anything */
    return name_end && name_end[1] == ' ' && (name_end[2] == 'S' || name_end[2] == 'D');
}

/* "NR ARG ARG ARG ARG ARG ARG SP IP", or "-1 SP IP" outside of a call: the last two count. */
int sonde_perf_blocked_parse(const char *text, uint64_t *sp, uint64_t *ip)
{
    uint64_t last[2] = { 0, 0 };
    int words = 0;
    if (!strncmp(text, "running", 7)) return SONDE_EBUSY;
    for (const char *p = strchr(text, ' '); p && words < 9; p = strchr(p, ' ')) {
        char *end;
        errno = 0;
        const uint64_t v = strtoull(++p, &end, 16);
        if (end == p || errno) return SONDE_EFORMAT;
        last[0] = last[1];
        last[1] = v;
        words++;
    }
    if (words != 2 && words != 8) return SONDE_EFORMAT;
    *sp = last[0];
    *ip = last[1];
    return 0;
}

/* As much of its stack as is mapped. */
static int perf_blocked_read_stack(uint32_t pid, struct sonde_perf_blocked *b)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/mem", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return sonde__from_errno(errno);
    const ssize_t n = pread(fd, b->stack, sizeof(b->stack), (off_t)b->regs.sp);
    close(fd);
    b->stack_len = n > 0 ? (size_t)n : 0;
    return n > 0 ? 0 : SONDE_EIO;
}

int sonde_perf_blocked_read(uint32_t pid, uint32_t tid, struct sonde_perf_blocked *out)
{
    char before[TEXT], after[TEXT];
    int rc = read_task(pid, tid, "syscall", before);
    if (rc) return rc;
    out->regs = (struct sonde__regs){ .bp_lost = 1 };
    rc = sonde_perf_blocked_parse(before, &out->regs.sp, &out->regs.ip);
    if (!rc) rc = perf_blocked_read_stack(pid, out);
    if (!rc) rc = read_task(pid, tid, "syscall", after);
    if (!rc && strcmp(before, after)) rc = SONDE_EBUSY; /* it ran while it was read */
    return rc;
}
