/* connections.h - the connections there are, and what each is doing. When they get too many, the one that
 * has kept quiet for longest has to go: whoever opens thousands and says nothing (or says it a byte
 * at a time) keeps nobody else out. And one that takes too long to ask, or to read what it was
 * answered, has to go even if there is room. */
#ifndef SONDE_SERVE_HTTP_CONNECTIONS_H
#define SONDE_SERVE_HTTP_CONNECTIONS_H

struct sonde_conns;
struct sonde_conn;

/* ask_s: from a connection's begin, or the end of its last answer, to all of a request; read_s: from
 * an answer's begin to its end. A thread of its own watches them. NULL = out of memory or threads. */
struct sonde_conns *sonde_conns_create(unsigned max, double ask_s, double read_s);
void sonde_conns_destroy(struct sonde_conns *q);      /* NULL is fine */

/* A connection by its socket. With max there already the quietest is shut down: whoever serves it
 * sees its end and closes it. NULL = out of memory: it is not followed. Any thread, as all here. */
struct sonde_conn *sonde_conns_add(struct sonde_conns *q, int fd);
/* Before the socket is closed. NULL is fine in these. */
void sonde_conns_remove(struct sonde_conns *q, struct sonde_conn *one);
/* It asked for something, which is being worked on, for as long as that takes: it is left alone … */
void sonde_conns_busy(struct sonde_conns *q, struct sonde_conn *one);
/* … until the answer is on its way … */
void sonde_conns_sending(struct sonde_conns *q, struct sonde_conn *one);
/* … and was sent. */
void sonde_conns_idle(struct sonde_conns *q, struct sonde_conn *one);

#endif
