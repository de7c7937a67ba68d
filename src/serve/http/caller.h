/* caller.h - the user at the other end of a TCP connection within this machine.
 *
 * Loopback is open to every local user, so an address says nothing about who connects. The kernel
 * knows: the peer's socket is on this machine too, and its owner is found by the connection's four
 * addresses and ports. sock_diag answers for one connection in some microseconds; where netlink is
 * not permitted, the tables in /proc/net hold the same. A peer in another network namespace or on
 * another machine has no socket here, and is unknown.
 *
 * Rejected: identd (nobody runs it), a Unix socket beside the port (curl, browsers and `go tool
 * pprof` take URLs), searching /proc/PID/fd for the socket (slow, and blind to other users). */
#ifndef SONDE_SERVE_HTTP_CALLER_H
#define SONDE_SERVE_HTTP_CALLER_H

#include <stdint.h>
#include <sys/socket.h>

#define SONDE_CALLER_UNKNOWN ((int64_t)-1)

/* The uid that owns the socket connected to fd, or SONDE_CALLER_UNKNOWN. Any thread. */
int64_t sonde_caller_of(int fd);
/* 1 if it is the user of this process, or root. */
int sonde_caller_is_ours(int64_t caller);

/* A connection as its other end sees it; AF_INET also for IPv4 addresses within IPv6. */
struct sonde_caller_ends {
    int family;
    uint32_t from[4], to[4];      /* addresses: theirs and ours; as on the wire */
    uint16_t from_port, to_port;  /* alike */
};

/* 0 = fd is not a TCP connection. */
int sonde_caller_ends(int fd, struct sonde_caller_ends *out);
/* The two ways of asking; sonde_caller_of tries one after the other. folder: /proc/net. */
int64_t sonde_caller_by_netlink(const struct sonde_caller_ends *e);
int64_t sonde_caller_by_proc(const struct sonde_caller_ends *e, const char *folder);

#endif
