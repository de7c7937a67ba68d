/* scan_read.c - memory of this process through the kernel: see scan.h. By
 * process_vm_readv, or where that is forbidden by /proc/self/mem. Pages that nobody ever wrote to
 * are passed over, if /proc/self/pagemap tells which. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/heap/heap.h"
#include "preload/heap/scan.h"

#define PAGEMAP_SOME (3ull << 62)   /* present, or swapped out */
#define PAGES 512u                  /* looked at in the page map at once */
#define TABLE_FIRST (1u << 20)
#define TABLE_MAX (64u << 20)

struct sonde__scan_reader {
    char buffer[SONDE__SCAN_BUFFER];
    uint64_t pages[PAGES];
    int mem, pagemap;               /* descriptors; -1 = not there */
    int by_call;                    /* process_vm_readv works */
    pid_t pid;
    char *table;                    /* /proc/self/maps */
    uint64_t table_room, table_len, table_at;
};

static int open_read(const char *path)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

static long heap_scan_read_at(int fd, void *to, uint64_t n, uint64_t at)
{
    return syscall(SYS_pread64, fd, to, n, at);
}

static long heap_scan_read_copy(struct sonde__scan_reader *r, uint64_t from, uint64_t n)
{
    const struct iovec local = { r->buffer, n }, remote = { (void *)(uintptr_t)from, n };
    if (r->by_call) return syscall(SYS_process_vm_readv, r->pid, &local, 1, &remote, 1, 0);
    return heap_scan_read_at(r->mem, r->buffer, n, from);
}

/* ---- The table of mappings ------------------------------------------------------------------- */

/* As one text, since it changes while it is read. */
static int table_read(struct sonde__scan_reader *r)
{
    for (uint64_t room = TABLE_FIRST; room <= TABLE_MAX; room *= 4) {
        const int fd = open_read("/proc/self/maps");
        long n = -1;
        r->table = fd < 0 ? NULL : sonde__heap_pages(room);
        r->table_room = room;
        r->table_len = 0;
        while (r->table && r->table_len < room &&
               (n = syscall(SYS_read, fd, r->table + r->table_len, room - r->table_len)) > 0) {
            r->table_len += (uint64_t)n;
        }
        if (fd >= 0) syscall(SYS_close, fd);
        if (!n) return 0;
        sonde__heap_pages_give(r->table, room);
        r->table = NULL;
        if (r->table_len < room) return -1;
    }
    return -1;
}

static uint64_t heap_scan_read_hex(const char **p)
{
    uint64_t v = 0;
    for (;; ++*p) {
        const char c = **p;
        if (c >= '0' && c <= '9') v = v << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f') v = v << 4 | (uint64_t)(c - 'a' + 10);
        else return v;
    }
}

/* start-end rwxp offset device inode path. The kernel's own text: its form can be relied on. */
int sonde__scan_map(struct sonde__scan_reader *r, struct sonde__scan_map *out)
{
    while (r->table_at < r->table_len) {
        const char *p = r->table + r->table_at;
        const char *end = memchr(p, '\n', r->table_len - r->table_at);
        if (!end) return 0;
        r->table_at += (uint64_t)(end - p) + 1;
        out->start = heap_scan_read_hex(&p);
        p++;
        out->end = heap_scan_read_hex(&p);
        if (end - p < 5 || p[1] != 'r' || p[2] != 'w') continue;
        const char *path = memchr(p, '/', (size_t)(end - p));
        out->device = path && end - path > 5 && !memcmp(path, "/dev/", 5) &&
                      !(end - path > 9 && !memcmp(path, "/dev/shm/", 9)) &&
                      !(end - path >= 9 && !memcmp(path, "/dev/zero", 9));
        return 1;
    }
    return 0;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* How many pages from start on, up to n, are there (*there) or are not. */
static uint64_t heap_scan_read_stretch(struct sonde__scan_reader *r, uint64_t start, uint64_t n,
                                       int *there)
{
    const uint64_t some = n < PAGES ? n : PAGES;
    *there = 1;
    if (r->pagemap < 0 || heap_scan_read_at(r->pagemap, r->pages, some * sizeof(r->pages[0]),
                                            start / SONDE__PAGE * sizeof(r->pages[0])) !=
                          (long)(some * sizeof(r->pages[0]))) {
        return n;
    }
    *there = (r->pages[0] & PAGEMAP_SOME) != 0;
    uint64_t i = 1;
    while (i < some && ((r->pages[i] & PAGEMAP_SOME) != 0) == *there) i++;
    return i;
}

static void read_there(struct sonde__scan_reader *r, uint64_t start, uint64_t end,
                       sonde__scan_words *call, void *arg)
{
    while (start < end) {
        const uint64_t n = end - start < SONDE__SCAN_BUFFER ? end - start : SONDE__SCAN_BUFFER;
        const long got = heap_scan_read_copy(r, start, n);
        if (got >= 8) call(arg, (const uint64_t *)(void *)r->buffer, (uint64_t)got / 8);
        /* Behind what can be read comes a page that cannot. */
        start = got == (long)n ? start + n
                               : (start + (uint64_t)(got > 0 ? got : 0) + SONDE__PAGE) &
                                     ~(uint64_t)(SONDE__PAGE - 1);
    }
}

void sonde__scan_read(struct sonde__scan_reader *r, uint64_t start, uint64_t end,
                      sonde__scan_words *call, void *arg)
{
    start = (start + 7) & ~7ull;
    while (start < end) {
        const uint64_t first = start & ~(uint64_t)(SONDE__PAGE - 1);
        int there;
        const uint64_t n =
            heap_scan_read_stretch(r, first, (end - first + SONDE__PAGE - 1) / SONDE__PAGE, &there);
        const uint64_t stop = first + n * SONDE__PAGE < end ? first + n * SONDE__PAGE : end;
        if (there) read_there(r, start, stop, call, arg);
        start = stop;
    }
}

void sonde__scan_read_pieces(struct sonde__scan_reader *r, struct iovec *pieces, uint32_t count,
                             sonde__scan_words *call, void *arg)
{
    while (count) {
        const struct iovec local = { r->buffer, sizeof(r->buffer) };
        long got = r->by_call ? syscall(SYS_process_vm_readv, r->pid, &local, 1, pieces, count, 0)
                              : heap_scan_read_copy(r, (uint64_t)(uintptr_t)pieces[0].iov_base,
                                                    pieces[0].iov_len);
        const char *at = r->buffer;
        if (got < 0) got = 0;
        while (count && got >= (long)pieces[0].iov_len) {
            call(arg, (const uint64_t *)(const void *)at, pieces[0].iov_len / 8);
            at += pieces[0].iov_len;
            got -= (long)pieces[0].iov_len;
            pieces++;
            count--;
            if (!r->by_call) break;
        }
        /* This one cannot be read as a whole. */
        if (count && got < (long)pieces[0].iov_len && (r->by_call || at == r->buffer)) {
            const uint64_t start = (uint64_t)(uintptr_t)pieces[0].iov_base;
            read_there(r, start, start + pieces[0].iov_len, call, arg);
            pieces++;
            count--;
        }
    }
}

/* ---- Opening --------------------------------------------------------------------------------- */

struct sonde__scan_reader *sonde__scan_reader_open(void)
{
    struct sonde__scan_reader *r = sonde__heap_pages(sizeof(*r));
    static const uint64_t sample = 1;
    if (!r) return NULL;
    r->pid = getpid();
    r->pagemap = open_read("/proc/self/pagemap");
    r->mem = -1;
    r->by_call = 1;
    if (heap_scan_read_copy(r, (uint64_t)(uintptr_t)&sample, sizeof(sample)) != sizeof(sample)) {
        r->by_call = 0;
        r->mem = open_read("/proc/self/mem");
    }
    if (heap_scan_read_copy(r, (uint64_t)(uintptr_t)&sample, sizeof(sample)) != sizeof(sample) ||
        table_read(r)) {
        sonde__scan_reader_close(r);
        return NULL;
    }
    return r;
}

void sonde__scan_reader_close(struct sonde__scan_reader *r)
{
    if (!r) return;
    if (r->mem >= 0) syscall(SYS_close, r->mem);
    if (r->pagemap >= 0) syscall(SYS_close, r->pagemap);
    sonde__heap_pages_give(r->table, r->table_room);
    sonde__heap_pages_give(r, sizeof(*r));
}
