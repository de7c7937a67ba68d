/* quiet.h - the connections there are, and when each last asked for something. When they get too
 * many, the one that has kept quiet for longest has to go: whoever opens thousands and says nothing
 * (or says it a byte at a time) keeps nobody else out. */
#ifndef SONDE_SERVE_QUIET_H
#define SONDE_SERVE_QUIET_H

struct sonde_quiet;
struct sonde_quiet_one;

struct sonde_quiet *sonde_quiet_create(unsigned max); /* NULL = out of memory */
void sonde_quiet_destroy(struct sonde_quiet *q);      /* NULL is fine */

/* A connection by its socket. With max there already the quietest is shut down: whoever serves it
 * sees its end and closes it. NULL = out of memory: it is not followed. Any thread, as all here. */
struct sonde_quiet_one *sonde_quiet_add(struct sonde_quiet *q, int fd);
/* Before the socket is closed. NULL is fine in these. */
void sonde_quiet_remove(struct sonde_quiet *q, struct sonde_quiet_one *one);
/* It asked for something, which is being worked on: it is left alone … */
void sonde_quiet_busy(struct sonde_quiet *q, struct sonde_quiet_one *one);
/* … until that was sent. */
void sonde_quiet_idle(struct sonde_quiet *q, struct sonde_quiet_one *one);

#endif
