/* perf_header.h - the lines of `perf script` that begin a sample, and text as its reader cuts
 * it. */
#ifndef SONDE_PROFILE_FORMATS_PERF_HEADER_H
#define SONDE_PROFILE_FORMATS_PERF_HEADER_H

#include <stddef.h>
#include <stdint.h>

struct sonde_perf_text {
    const char *s;
    size_t len;
};

/* The first line of a sample. What a line does not have is empty or 0. */
struct sonde_perf_header {
    struct sonde_perf_text comm, event, rest; /* rest: of the line, behind the event */
    uint64_t pid, tid, time_ns;
    uint64_t period;
    int has_period;
};

#define SONDE_PERF_HEADER_NONE \
    (struct sonde_perf_header){ .comm = { "", 0 }, .event = { "", 0 }, .rest = { "", 0 } }

/* The parsers return 1 if a line, trimmed unless it says otherwise, is such a header. */

/* "comm pid/tid [cpu] flags time: period event: …", of which [cpu], flags and period may be
 * missing. */
int sonde_perf_header_timed(struct sonde_perf_text line, struct sonde_perf_header *h);
/* The same without a time: "comm pid/tid [cpu] period event:", and nothing after the event. */
int sonde_perf_header_untimed(struct sonde_perf_text line, struct sonde_perf_header *h);
/* Any of these fields: what -F may choose. The line as it is in the file: perf's columns tell the
 * numbers apart. Nearly every line passes, so whoever calls knows that frames follow. */
int sonde_perf_header_sparse(struct sonde_perf_text line, struct sonde_perf_header *h);
/* A sparse header with its only frame on the same line, which is how perf prints samples without
 * call chains. The line as it is in the file; the frame is in rest. */
int sonde_perf_header_single(struct sonde_perf_text line, struct sonde_perf_header *h);

/* ---- Text ------------------------------------------------------------------------------------ */

static inline int sonde_perf_is_blank(char c) { return c == ' ' || c == '\t'; }

struct sonde_perf_text sonde_perf_trim(struct sonde_perf_text t);
/* The next word of *t, which is moved past it; len 0: there is none. */
struct sonde_perf_text sonde_perf_word(struct sonde_perf_text *t);
int sonde_perf_hex(struct sonde_perf_text w, uint64_t *out);
int sonde_perf_text_is(struct sonde_perf_text t, const char *s);
int sonde_perf_starts(struct sonde_perf_text t, const char *s);
int sonde_perf_ends(struct sonde_perf_text t, const char *s);

#endif
