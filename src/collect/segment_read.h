/* segment_read.h - reads one process's segment into the model.
 *
 * Nothing in the file is believed: the fixed header is checked and copied once, everything
 * else is checked when first seen and copied before use, and whatever does not fit is a reason
 * to refuse the file, in words. Pages that the header does not count as populated are never
 * touched: in tmpfs even reading a hole takes memory. */
#ifndef SONDE_COLLECT_SEGMENT_READ_H
#define SONDE_COLLECT_SEGMENT_READ_H

#include "base/err.h"
#include "collect/model.h"
#include "collect/tick_clock.h"

struct sonde_segment;

/* Open dirfd/name; name is <pid>.<start>[.<n>]. fresh: the file was not there when the agent
 * last looked, so all that is in it happened since. err says why not, without the name:
 * SONDE_ENOENT gone again, SONDE_EACCES not a regular file of ours, SONDE_EVERSION,
 * SONDE_ESTALE, SONDE_EFORMAT, SONDE_ENOMEM, SONDE_EFULL, SONDE_EIO. */
int sonde_segment_open(int dirfd, const char *name, int fresh, struct sonde_segment **out,
                       struct sonde_err *err);
void sonde_segment_close(struct sonde_segment *s);  /* NULL is fine */

/* The checked copy of the header; only its immutable part means anything. */
const struct sonde__header *sonde_segment_header(const struct sonde_segment *s);
/* 1 if the process said that it came to its normal end. */
int sonde_segment_closed(const struct sonde_segment *s);

/* Bring p's series and figures in m up to date. last: the process is gone, so look at
 * everything and pass over what it left unfinished. Write lock held. 0, or SONDE_EFORMAT and
 * the segment must not be read again; what was read stays in the model. */
int sonde_segment_read(struct sonde_segment *s, struct sonde_model *m,
                       struct sonde_model_process *p, int last, struct sonde_err *err);

/* Take new spans out of the rings, as above. Cheap when there are none. */
int sonde_segment_drain(struct sonde_segment *s, struct sonde_model *m,
                        struct sonde_model_process *p, const struct sonde_tick_clock *clock,
                        int last, struct sonde_err *err);

/* File names: 0 and the numbers, or SONDE_EINVAL for names that are not of segments. */
struct sonde_segment_name { uint32_t pid; uint64_t start; uint32_t n; };
int sonde_segment_name_parse(const char *name, struct sonde_segment_name *out);

#endif
