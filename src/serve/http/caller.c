/* caller.c - see caller.h.
 *
 * An answer is believed only for a socket that some process holds open in a connected state. What
 * the kernel keeps of a socket that has been closed (TIME_WAIT, an orphan in FIN_WAIT) it shows as
 * root's, with inode 0: whoever sends a request and closes at once would pass for root. And a
 * lookup that finds no connection goes on to sockets that listen, which are somebody else's. */
#include "serve/http/caller.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- The connection ----------------------------------------------------------------------- */

/* An address and port as they are compared; 0 = not of IP. */
static int caller_end_of(const struct sockaddr_storage *a, int *family, uint32_t address[4],
                         uint16_t *port)
{
    memset(address, 0, 4 * sizeof(*address));
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
        address[0] = v4->sin_addr.s_addr;
        *port = v4->sin_port;
    } else if (a->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
        const int mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
        memcpy(address, v6->sin6_addr.s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
        *port = v6->sin6_port;
        *family = mapped ? AF_INET : AF_INET6;
        return 1;
    }
    *family = a->ss_family;
    return a->ss_family == AF_INET;
}

int sonde_caller_ends(int fd, struct sonde_caller_ends *out)
{
    struct sockaddr_storage theirs = { 0 }, ours = { 0 };
    socklen_t their_len = sizeof(theirs), our_len = sizeof(ours);
    int family;
    if (getpeername(fd, (struct sockaddr *)&theirs, &their_len) != 0 ||
        getsockname(fd, (struct sockaddr *)&ours, &our_len) != 0) {
        return 0;
    }
    return caller_end_of(&theirs, &family, out->from, &out->from_port) &&
           caller_end_of(&ours, &out->family, out->to, &out->to_port) && family == out->family;
}

/* 1 if a socket in this state can be the other end of a connection that we hold open. */
static int is_connected(unsigned state)
{
    return state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 ||
           state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK || state == TCP_CLOSING;
}

/* ---- sock_diag ---------------------------------------------------------------------------- */

/* The owner that an answer names for exactly this connection. */
static int64_t owner_in(const struct inet_diag_msg *m, const struct sonde_caller_ends *e)
{
    const size_t bytes = e->family == AF_INET6 ? 16 : 4;
    if (!m->idiag_inode || !is_connected(m->idiag_state) || m->id.idiag_sport != e->from_port ||
        m->id.idiag_dport != e->to_port) {
        return SONDE_CALLER_UNKNOWN;
    }
    /* A socket of IPv6 that is connected by IPv4 is shown with addresses of IPv6. */
    const size_t skip = m->idiag_family == AF_INET6 && e->family == AF_INET ? 12 : 0;
    if (memcmp((const char *)m->id.idiag_src + skip, e->from, bytes) != 0 ||
        memcmp((const char *)m->id.idiag_dst + skip, e->to, bytes) != 0) {
        return SONDE_CALLER_UNKNOWN;
    }
    return m->idiag_uid;
}

int64_t sonde_caller_by_netlink(const struct sonde_caller_ends *e)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } ask = { .head = { .nlmsg_len = sizeof(ask), .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                        .nlmsg_flags = NLM_F_REQUEST },
              .body = { .sdiag_family = (uint8_t)e->family, .sdiag_protocol = IPPROTO_TCP,
                        .idiag_states = ~0u } };
    union {
        struct nlmsghdr head;
        char bytes[1024];
    } said;
    const struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
    struct sockaddr_nl from = { 0 };
    socklen_t from_len = sizeof(from);
    ask.body.id.idiag_sport = e->from_port;
    ask.body.id.idiag_dport = e->to_port;
    memcpy(ask.body.id.idiag_src, e->from, sizeof(e->from));
    memcpy(ask.body.id.idiag_dst, e->to, sizeof(e->to));
    ask.body.id.idiag_cookie[0] = ask.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;

    const int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0) return SONDE_CALLER_UNKNOWN;
    ssize_t n = sendto(fd, &ask, sizeof(ask), 0, (const struct sockaddr *)&kernel, sizeof(kernel));
    /* The kernel has answered by the time sendto returns. */
    if (n == (ssize_t)sizeof(ask)) {
        n = recvfrom(fd, &said, sizeof(said), MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
    } else {
        n = -1;
    }
    close(fd);
    const size_t least = NLMSG_LENGTH(sizeof(struct inet_diag_msg));
    if (n < (ssize_t)least || from.nl_pid != 0 || said.head.nlmsg_len < least ||
        said.head.nlmsg_type != SOCK_DIAG_BY_FAMILY) {
        return SONDE_CALLER_UNKNOWN;
    }
    return owner_in(NLMSG_DATA(&said.head), e);
}

/* ---- /proc/net ---------------------------------------------------------------------------- */

/* An address of the tables: words of four bytes as they are in memory, in hexadecimal. */
static int caller_address_in(const char *text, uint32_t out[4], size_t *words)
{
    const size_t len = strspn(text, "0123456789ABCDEFabcdef");
    if (len != 8 && len != 32) return 0;
    *words = len / 8;
    for (size_t i = 0; i < *words; i++) {
        if (sscanf(text + i * 8, "%8x", &out[i]) != 1) return 0;
    }
    return 1;
}

/* 1 if an address of a table is this one; table6: those of IPv4 stand in it as mapped ones. */
static int same_address(const char *text, const struct sonde_caller_ends *e,
                        const uint32_t wanted[4])
{
    uint32_t found[4];
    size_t words;
    if (!caller_address_in(text, found, &words)) return 0;
    if (words == 1) return e->family == AF_INET && found[0] == wanted[0];
    if (e->family == AF_INET6) return memcmp(found, wanted, sizeof(found)) == 0;
    return !found[0] && !found[1] && found[2] == htonl(0xffff) && found[3] == wanted[0];
}

static int64_t owner_in_table(FILE *f, const struct sonde_caller_ends *e)
{
    char line[512], from[40], to[40];
    while (fgets(line, sizeof(line), f)) {
        unsigned from_port, to_port, state, uid;
        unsigned long inode;
        if (sscanf(line, "%*d: %39[0-9A-Fa-f]:%x %39[0-9A-Fa-f]:%x %x %*s %*s %*s %u %*s %lu", from,
                   &from_port, to, &to_port, &state, &uid, &inode) != 7 ||
            from_port != ntohs(e->from_port) || to_port != ntohs(e->to_port) ||
            !same_address(from, e, e->from) || !same_address(to, e, e->to)) {
            continue;
        }
        return inode && is_connected(state) ? (int64_t)uid : SONDE_CALLER_UNKNOWN;
    }
    return SONDE_CALLER_UNKNOWN;
}

int64_t sonde_caller_by_proc(const struct sonde_caller_ends *e, const char *folder)
{
    static const char *const tables[] = { "tcp", "tcp6" };
    int64_t owner = SONDE_CALLER_UNKNOWN;
    for (size_t i = 0; i < 2 && owner == SONDE_CALLER_UNKNOWN; i++) {
        char path[256];
        if (snprintf(path, sizeof(path), "%s/%s", folder, tables[i]) >= (int)sizeof(path)) break;
        FILE *f = fopen(path, "re");
        if (!f) continue;
        owner = owner_in_table(f, e);
        fclose(f);
    }
    return owner;
}

/* ---- Both --------------------------------------------------------------------------------- */

int64_t sonde_caller_of(int fd)
{
    struct sonde_caller_ends e;
    if (!sonde_caller_ends(fd, &e)) return SONDE_CALLER_UNKNOWN;
    const int64_t owner = sonde_caller_by_netlink(&e);
    return owner != SONDE_CALLER_UNKNOWN ? owner : sonde_caller_by_proc(&e, "/proc/self/net");
}

int sonde_caller_is_ours(int64_t caller)
{
    return caller == 0 || (caller != SONDE_CALLER_UNKNOWN && caller == (int64_t)geteuid());
}
