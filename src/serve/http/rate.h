/* rate.h - how many requests a client may send: a bucket for each address, which fills with time
 * and from which every request takes one.
 *
 * Programs of this machine are not counted: they share one address, and whoever can run programs
 * here can do worse. A proxy on this machine says whom it asks for in X-Forwarded-For, and those
 * are. */
#ifndef SONDE_SERVE_HTTP_RATE_H
#define SONDE_SERVE_HTTP_RATE_H

#include <stdint.h>
#include <sys/socket.h>

struct sonde_rate_client { uint8_t address[16]; }; /* IPv6, of which the network; IPv4 mapped */

/* Who asks: peer, or behind a proxy on this machine (forwarded: the header, NULL = not there) whom
 * that names last. 0 = a program of this machine, or no address is known. */
int sonde_rate_client(const struct sockaddr *peer, const char *forwarded,
                      struct sonde_rate_client *out);

struct sonde_rate;

/* per_s requests a second, and burst at once. NULL = out of memory. */
struct sonde_rate *sonde_rate_create(double per_s, double burst);
void sonde_rate_destroy(struct sonde_rate *r); /* NULL is fine */

/* 0 if one more request is fine at this time (seconds of any clock that does not go back), else how
 * long to wait for the next, in seconds. Any thread. */
double sonde_rate_take(struct sonde_rate *r, const struct sonde_rate_client *c, double now_s);

#endif
