#include "collect/bpf/bpf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/errno.h"
#include "base/log.h"
#include "sonde/sonde.h"

enum { LOG_BYTES = 64 << 10 };

static int bpf_call(int command, union bpf_attr *attr)
{
    return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* Kernels before 5.11 count maps as locked memory. */
static int bpf_call_again(int command, union bpf_attr *attr)
{
    struct rlimit l;
    int fd = bpf_call(command, attr);
    if (fd >= 0 || errno != EPERM || getrlimit(RLIMIT_MEMLOCK, &l)) return fd;
    const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
    if (setrlimit(RLIMIT_MEMLOCK, &all)) {
        errno = EPERM;
        return -1;
    }
    fd = bpf_call(command, attr);
    const int error = errno;
    (void)setrlimit(RLIMIT_MEMLOCK, &l);
    errno = error;
    return fd;
}

static int bpf_call_explain(int error, struct sonde_err *err)
{
    switch (error) {
    case EPERM:
    case EACCES:
        return sonde_err_set(err, SONDE_EACCES, "the kernel permits no BPF programs here: run as "
                             "root, or with CAP_BPF and CAP_PERFMON");
    case ENOSYS:
        return sonde_err_set(err, SONDE_EOFF, "this kernel has no BPF, or seccomp hides it");
    case ENOMEM: return sonde_err_memory(err);
    default:
        return sonde_err_set(err, SONDE_EOFF, "this kernel does not take the BPF program (%s): it "
                             "may be older than 5.7", strerror(error));
    }
}

static void bpf_call_name(char *to, size_t size, const char *name)
{
    snprintf(to, size, "sonde_%s", name);
}

int sonde_bpf_map_create(enum bpf_map_type type, const char *name, uint32_t key, uint32_t value,
                         uint32_t entries, int *fd, struct sonde_err *err)
{
    union bpf_attr a;
    memset(&a, 0, sizeof(a));
    a.map_type = type;
    a.key_size = key;
    a.value_size = value;
    a.max_entries = entries;
    bpf_call_name(a.map_name, sizeof(a.map_name), name);
    const int made = bpf_call_again(BPF_MAP_CREATE, &a);
    if (made < 0) return bpf_call_explain(errno, err);
    *fd = made;
    return 0;
}

/* Why the kernel's check refused it: for those who change the program. */
static void bpf_call_say(union bpf_attr *a)
{
    char *text = sonde__alloc(LOG_BYTES);
    if (!text) return;
    text[0] = '\0';
    a->log_buf = (uint64_t)(uintptr_t)text;
    a->log_size = LOG_BYTES;
    a->log_level = 1;
    const int fd = bpf_call(BPF_PROG_LOAD, a);
    if (fd >= 0) close(fd);
    const size_t n = strnlen(text, LOG_BYTES - 1);
    sonde_log(SONDE_LOG_DEBUG, "BPF: %s", text + (n > 4000 ? n - 4000 : 0));
    sonde__free(text);
}

int sonde_bpf_program_create(const struct sonde_bpf_code *c, const char *name, int *fd,
                             struct sonde_err *err)
{
    union bpf_attr a;
    memset(&a, 0, sizeof(a));
    a.prog_type = BPF_PROG_TYPE_PERF_EVENT;
    a.insns = (uint64_t)(uintptr_t)c->insns;
    a.insn_cnt = c->count;
    a.license = (uint64_t)(uintptr_t)"GPL";
    bpf_call_name(a.prog_name, sizeof(a.prog_name), name);
    const int made = bpf_call_again(BPF_PROG_LOAD, &a);
    if (made < 0) {
        const int error = errno;
        if (error != EPERM) bpf_call_say(&a);
        return bpf_call_explain(error, err);
    }
    *fd = made;
    return 0;
}

static int bpf_call_map(int command, int fd, const void *key, const void *value)
{
    union bpf_attr a;
    memset(&a, 0, sizeof(a));
    a.map_fd = (uint32_t)fd;
    a.key = (uint64_t)(uintptr_t)key;
    a.value = (uint64_t)(uintptr_t)value;
    if (!bpf_call(command, &a)) return 0;
    return errno == E2BIG ? SONDE_EFULL : sonde__from_errno(errno);
}

int sonde_bpf_map_put(int fd, const void *key, const void *value)
{
    return bpf_call_map(BPF_MAP_UPDATE_ELEM, fd, key, value);
}

int sonde_bpf_map_take(int fd, const void *key)
{
    return bpf_call_map(BPF_MAP_DELETE_ELEM, fd, key, NULL);
}

int sonde_bpf_map_get(int fd, const void *key, void *value)
{
    return bpf_call_map(BPF_MAP_LOOKUP_ELEM, fd, key, value);
}
