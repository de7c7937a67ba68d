/* sent.h - which spans were sent already.
 *
 * Rings of processes keep their newest spans, and an agent that is started reads them from their
 * beginning: it does not know what the one before it had seen. So the ids of spans that went to the
 * queue are noted in its folder, eight bytes each, in a file that is continued as a second one when
 * it is large. Only spans that ended before the agent was started are looked up. A file that is
 * damaged makes a span be sent twice, or one of 2^64 not at all.
 *
 * Rejected: the time of the last one. Threads' rings are read one after the other, and two agents
 * do not compute the same nanosecond of a TSC. */
#ifndef SONDE_PUSH_SENT_H
#define SONDE_PUSH_SENT_H

#include <stddef.h>
#include <stdint.h>

#define PUSH_SENT_MAX 262144u /* ids in a file; the file before it is kept too */

struct push_sent;

/* dir must be nobody else's. 0, SONDE_EIO or SONDE_ENOMEM. */
int push_sent_open(const char *dir, struct push_sent **out);
void push_sent_close(struct push_sent *s); /* NULL is fine */

/* 1 if an agent before this one noted it; NULL: never. */
int push_sent_has(const struct push_sent *s, uint64_t id);
void push_sent_add(struct push_sent *s, const uint64_t *ids, size_t count);

#endif
