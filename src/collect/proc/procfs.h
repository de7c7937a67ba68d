/* procfs.h - reading /proc: whole files into one reused buffer, and picking numbers out of them.
 *
 * The kernel's files are input like any other: every parser takes a length, refuses numbers that
 * overflow, and skips lines it does not understand. Nothing here allocates in the steady state:
 * the buffer grows to the largest file met and stays. */
#ifndef SONDE_COLLECT_PROC_PROCFS_H
#define SONDE_COLLECT_PROC_PROCFS_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_PROCFS_MAX (1u << 20) /* a file larger than this is refused */

struct sonde_procfs_buf {
    char *data;   /* owned; what was read last, NUL-terminated */
    size_t len;
    size_t cap;
};

int sonde_procfs_buf_init(struct sonde_procfs_buf *b); /* 0 or SONDE_ENOMEM */
void sonde_procfs_buf_release(struct sonde_procfs_buf *b);

/* Read a file whole. SONDE_ENOENT: no such file, or its process is gone. SONDE_EACCES: not
 * permitted. SONDE_EFULL: larger than SONDE_PROCFS_MAX. SONDE_EINVAL: a folder. SONDE_ENOMEM,
 * SONDE_EIO: otherwise. */
int sonde_procfs_read(struct sonde_procfs_buf *b, int dir_fd, const char *path);

/* The same from a file that is already open, from its start. */
int sonde_procfs_read_fd(struct sonde_procfs_buf *b, int fd);

/* ---- Text -------------------------------------------------------------------------------- */

struct sonde_procfs_text {
    const char *p, *end; /* what is left */
};

static inline struct sonde_procfs_text sonde_procfs_text(const struct sonde_procfs_buf *b)
{
    return (struct sonde_procfs_text){ b->data, b->data + b->len };
}

/* Take the next line (without its newline) or blank-separated word: 1, or 0 at the end. */
int sonde_procfs_line(struct sonde_procfs_text *t, struct sonde_procfs_text *line);
int sonde_procfs_word(struct sonde_procfs_text *t, struct sonde_procfs_text *word);

/* Take the next word as a decimal number: 1, or 0 when there is none, it is not one, or it does
 * not fit. */
int sonde_procfs_u64(struct sonde_procfs_text *t, uint64_t *out);

/* The next count words as numbers: 1 only when all of them are. */
int sonde_procfs_u64s(struct sonde_procfs_text *t, uint64_t *out, size_t count);

/* The next word as a number with an optional fraction ("0.07"). */
int sonde_procfs_double(struct sonde_procfs_text *t, double *out);

/* 1 if word is exactly s. */
int sonde_procfs_is(struct sonde_procfs_text word, const char *s);

/* Copy word to out as valid UTF-8 with a NUL, cut to fit. Returns the length. */
size_t sonde_procfs_copy(struct sonde_procfs_text word, char *out, size_t out_size);

/* Numbers of "Key: value [kB]" files (meminfo, status, io, smaps_rollup) by key. found is set
 * to 1 where a key's line was there and held a number. Values in kB are turned into bytes. */
struct sonde_procfs_key {
    const char *key;  /* with its colon */
    uint64_t value;
    int found;
};
void sonde_procfs_keys(struct sonde_procfs_text text, struct sonde_procfs_key *keys,
                       size_t count);

/* ---- /proc/PID/stat ---------------------------------------------------------------------- */

struct sonde_procfs_stat {
    char name[64];       /* valid UTF-8 */
    char state;          /* R S D T t Z X I … */
    uint64_t faults_minor, faults_major;
    uint64_t user, system;   /* clock ticks */
    uint64_t threads;
    uint64_t start_time;     /* clock ticks since boot */
    uint64_t virtual_bytes, resident_pages;
    uint64_t cpu;            /* it ran on last */
    uint64_t io_delay;       /* clock ticks spent waiting for block I/O; 0 also if not accounted */
};

/* 0 or SONDE_EFORMAT. A name may hold anything, also `) R (` and newlines: it ends at the last
 * parenthesis of the file, since only numbers follow it. */
int sonde_procfs_stat(struct sonde_procfs_text text, struct sonde_procfs_stat *out);

/* ---- Folders ----------------------------------------------------------------------------- */

struct sonde_procfs_dir {
    int fd;
    size_t pos, len;
    char buf[4096] __attribute__((aligned(8)));
};

/* Entries named by a number (pids, tids, fds). 0, or SONDE_E… as sonde_procfs_read. */
int sonde_procfs_dir_open(struct sonde_procfs_dir *d, int dir_fd, const char *path);
int sonde_procfs_dir_next(struct sonde_procfs_dir *d, uint32_t *number); /* 1, or 0 at the end */
void sonde_procfs_dir_close(struct sonde_procfs_dir *d);

#endif
