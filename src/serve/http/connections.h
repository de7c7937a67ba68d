/* connections.h - the open connections, and what each is doing. When there are too many, the one
 * that has been idle for longest is closed, so that a client that opens thousands and sends nothing
 * (or sends a byte at a time) does not keep others out. One that takes too long to send its
 * request, or to read its answer, is closed even if there is room. */
#ifndef SONDE_SERVE_HTTP_CONNECTIONS_H
#define SONDE_SERVE_HTTP_CONNECTIONS_H

struct sonde_conns;
struct sonde_conn;

/* ask_s: from the start of a connection, or the end of its last answer, to the end of a request;
 * read_s: from the start of an answer to its end. A thread of its own watches both. NULL = out of
 * memory or threads. */
struct sonde_conns *sonde_conns_create(unsigned max, double ask_s, double read_s);
void sonde_conns_destroy(struct sonde_conns *conns);      /* NULL is fine */

/* A connection by its socket. With max of them open the longest idle is shut down: whoever serves
 * it sees its end and closes it. NULL = out of memory: it is not watched. Any thread, as all
 * here. */
struct sonde_conn *sonde_conns_add(struct sonde_conns *conns, int fd);
/* Before the socket is closed. NULL is fine in these. */
void sonde_conns_remove(struct sonde_conns *conns, struct sonde_conn *conn);
/* Its request is being answered, for as long as that takes: it is left alone … */
void sonde_conns_busy(struct sonde_conns *conns, struct sonde_conn *conn);
/* … until the answer is being sent … */
void sonde_conns_sending(struct sonde_conns *conns, struct sonde_conn *conn);
/* … and has been sent. */
void sonde_conns_idle(struct sonde_conns *conns, struct sonde_conn *conn);

#endif
