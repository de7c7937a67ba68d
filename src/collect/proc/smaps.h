/* smaps.h - where the memory of a process is, as the kernel sees it: resident, proportional, and by
 * the names of mappings. The kernel walks all page tables of the process for the latter two, while
 * it can map nothing, so whoever asks often asks too much: see struct sonde_smaps_pace. */
#ifndef SONDE_COLLECT_PROC_SMAPS_H
#define SONDE_COLLECT_PROC_SMAPS_H

#include <stdint.h>

#include "base/err.h"

#define SONDE_SMAPS_NAMES 512u   /* different ones; what has others is "[others]" */

/* All mappings of one name: a file's path, "[heap]", "[stack]", "[anon]" for those without any,
 * "[anon:NAME]" and "[anon_shmem:NAME]" for those that the program has named with
 * PR_SET_VMA_ANON_NAME. */
struct sonde_smaps_row {
    char *name;                  /* owned; valid UTF-8 */
    uint64_t bytes, rss_bytes, pss_bytes, swap_bytes;
};

struct sonde_smaps {
    struct sonde_smaps_row *rows; /* owned; by rss_bytes, the most first */
    uint32_t count;
    struct sonde_smaps_row all;   /* their sum; without a name */
};

/* From VmRSS and VmHWM in /proc/PID/status: cheap. SONDE_ENOENT: no such process; SONDE_EACCES,
 * SONDE_EFORMAT. */
int sonde_smaps_resident(uint32_t pid, uint64_t *rss_bytes, uint64_t *rss_peak_bytes);

/* All of smaps. Release *out in the end, which is empty after a failure. SONDE_ENOENT,
 * SONDE_EACCES, SONDE_EIO, SONDE_ENOMEM, with a sentence. */
int sonde_smaps_read(uint32_t pid, struct sonde_smaps *out, struct sonde_err *err);
/* The same from an open file of that form. */
int sonde_smaps_parse(int fd, struct sonde_smaps *out, struct sonde_err *err);
void sonde_smaps_release(struct sonde_smaps *s);

/* When to look: soon at first, then ever more rarely down to once in ten seconds, and for at most a
 * thousandth of the time. All zero = at once. Whoever looks for the last time may take a hundredth
 * of the time since the look before. */
struct sonde_smaps_pace { uint64_t first_ns, last_ns, next_ns, took_ns; };
int sonde_smaps_is_due(const struct sonde_smaps_pace *p, uint64_t now_ns); /* CLOCK_MONOTONIC */
int sonde_smaps_is_due_at_last(const struct sonde_smaps_pace *p, uint64_t now_ns);
void sonde_smaps_done(struct sonde_smaps_pace *p, uint64_t start_ns, uint64_t end_ns);

#endif
