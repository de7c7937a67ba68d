/* listen.c - see listen.h. */
#include "serve/http/listen.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "sonde/sonde.h"

enum { BACKLOG = 512, PORT_MAX = 65535 };

/* ---- Parsing ------------------------------------------------------------------------------ */

/* Decimal digits only, all of text; -1 otherwise. */
static int parse_port(const char *text)
{
    int port = 0;
    if (!*text || strlen(text) > 5) return -1;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text)) return -1;
        port = port * 10 + (*text - '0');
    }
    return port <= PORT_MAX ? port : -1;
}

/* Split text into host (without brackets) and port; *port = "" if there is none. */
static int listen_split(const char *text, char *host, size_t size, const char **port,
                        int *bracketed)
{
    const char *end;
    *bracketed = text[0] == '[';
    if (*bracketed) {
        end = strchr(++text, ']');
        if (!end || (end[1] && end[1] != ':')) return SONDE_EINVAL;
        *port = end[1] ? end + 2 : "";
    } else {
        end = strchr(text, ':');
        *port = end ? end + 1 : "";
        if (!end) end = text + strlen(text);
    }
    if ((size_t)(end - text) >= size) return SONDE_EINVAL;
    memcpy(host, text, (size_t)(end - text));
    host[end - text] = 0;
    return 0;
}

static int is_loopback4(const struct in_addr *a) { return ntohl(a->s_addr) >> 24 == 127; }

int sonde_listen_parse(const char *text, struct sonde_listen *out, struct sonde_err *err)
{
    char host[64];
    const char *port_text;
    int bracketed;
    static const char form[] = "use ADDRESS:PORT, such as 127.0.0.1:6060 or [::1]:6060";

    if (parse_port(text) >= 0) { /* a port alone */
        host[0] = 0;
        port_text = text;
        bracketed = 0;
    } else if (listen_split(text, host, sizeof(host), &port_text, &bracketed) != 0) {
        return sonde_err_set(err, SONDE_EINVAL, "cannot listen on \"%.100s\": %s", text, form);
    }
    const int port = parse_port(port_text);
    if (port < 0) {
        return sonde_err_set(err, SONDE_EINVAL,
                             "cannot listen on \"%.100s\": the port must be 0 to 65535; %s", text,
                             form);
    }
    struct sonde_listen l = { .length = sizeof(l.address.v4) };
    struct in_addr v4;
    struct in6_addr v6;
    if (bracketed && inet_pton(AF_INET6, host, &v6) == 1) {
        l.address.v6.sin6_family = AF_INET6;
        l.address.v6.sin6_port = htons((uint16_t)port);
        l.address.v6.sin6_addr = v6;
        l.length = sizeof(l.address.v6);
    } else if (!bracketed && (!host[0] || strcasecmp(host, "localhost") == 0 ||
                              inet_pton(AF_INET, host, &v4) == 1)) {
        if (!host[0] || !isdigit((unsigned char)host[0])) v4.s_addr = htonl(INADDR_LOOPBACK);
        l.address.v4.sin_family = AF_INET;
        l.address.v4.sin_port = htons((uint16_t)port);
        l.address.v4.sin_addr = v4;
    } else {
        return sonde_err_set(err, SONDE_EINVAL,
                             "cannot listen on \"%.100s\": not an IP address; %s", text, form);
    }
    *out = l;
    return 0;
}

int sonde_listen_is_loopback(const struct sonde_listen *l)
{
    return l->address.any.sa_family == AF_INET6
               ? IN6_IS_ADDR_LOOPBACK(&l->address.v6.sin6_addr)
               : is_loopback4(&l->address.v4.sin_addr);
}

/* ---- Hosts in headers --------------------------------------------------------------------- */

/* Into out->name, in the form that inet_ntop has for it. */
static int parse_v6(const char *text, size_t len, struct sonde_host *out)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr v6;
    if (len >= sizeof(address)) return SONDE_EINVAL;
    memcpy(address, text, len);
    address[len] = 0;
    if (inet_pton(AF_INET6, address, &v6) != 1) return SONDE_EINVAL;
    inet_ntop(AF_INET6, &v6, out->name, sizeof(out->name));
    out->is_v6 = 1;
    return 0;
}

int sonde_host_parse(const char *text, struct sonde_host *out)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    struct sonde_host h = { .port = 0 };
    const char *end;
    if (text[0] == '[') {
        end = strchr(++text, ']');
        if (!end || parse_v6(text, (size_t)(end - text), &h)) return SONDE_EINVAL;
        end++;
    } else {
        const size_t len = strspn(text, allowed);
        if (!len || len > SONDE_HOST_NAME_MAX) return SONDE_EINVAL;
        memcpy(h.name, text, len);
        end = text + len;
    }
    if (*end == ':') {
        h.port = end[1] == '0' ? -1 : parse_port(end + 1); /* nobody writes zeros in front */
        if (h.port < 0) return SONDE_EINVAL;
    } else if (*end) {
        return SONDE_EINVAL;
    }
    *out = h;
    return 0;
}

int sonde_listen_host_ok(const char *host)
{
    struct sonde_host h;
    struct in_addr v4;
    if (sonde_host_parse(host, &h) != 0) return 0;
    if (h.is_v6) return strcmp(h.name, "::1") == 0;
    if (strcasecmp(h.name, "localhost") == 0) return 1;
    return inet_pton(AF_INET, h.name, &v4) == 1 && is_loopback4(&v4);
}

/* ---- Who holds a port --------------------------------------------------------------------- */

/* Inode of the socket that listens on port, 0 if none is found. */
static unsigned long listener_inode(const char *table, int port)
{
    FILE *f = fopen(table, "re");
    if (!f) return 0;
    char line[512];
    unsigned long found = 0;
    while (!found && fgets(line, sizeof(line), f)) {
        unsigned int local, state;
        unsigned long inode;
        if (sscanf(line, "%*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu",
                   &local, &state, &inode) == 3 &&
            state == 0x0a && local == (unsigned int)port) {
            found = inode;
        }
    }
    fclose(f);
    return found;
}

static int has_socket(const char *pid, unsigned long inode)
{
    char path[300], wanted[64], link[64];
    snprintf(path, sizeof(path), "/proc/%s/fd", pid);
    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    DIR *fds = opendir(path);
    if (!fds) return 0;
    int found = 0;
    for (struct dirent *e; !found && (e = readdir(fds)) != NULL;) {
        const ssize_t n = readlinkat(dirfd(fds), e->d_name, link, sizeof(link) - 1);
        if (n <= 0) continue;
        link[n] = 0;
        found = strcmp(link, wanted) == 0;
    }
    closedir(fds);
    return found;
}

/* " by NAME (pid N)", or "" if it cannot be found: sockets of other users are hidden. */
static void holder_of(int port, char *out, size_t size)
{
    out[0] = 0;
    unsigned long inode = listener_inode("/proc/net/tcp", port);
    if (!inode) inode = listener_inode("/proc/net/tcp6", port);
    DIR *proc = inode ? opendir("/proc") : NULL;
    if (!proc) return;
    for (struct dirent *e; (e = readdir(proc)) != NULL;) {
        if (!isdigit((unsigned char)e->d_name[0]) || !has_socket(e->d_name, inode)) continue;
        char path[300], name[64] = "";
        snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
        FILE *f = fopen(path, "re");
        if (f) {
            if (!fgets(name, sizeof(name), f)) name[0] = 0;
            name[strcspn(name, "\n")] = 0;
            fclose(f);
        }
        snprintf(out, size, " by %s (pid %.20s)", name[0] ? name : "a process", e->d_name);
        break;
    }
    closedir(proc);
}

/* ---- Opening ------------------------------------------------------------------------------ */

static int port_of(const struct sonde_listen *l)
{
    return ntohs(l->address.any.sa_family == AF_INET6 ? l->address.v6.sin6_port
                                                      : l->address.v4.sin_port);
}

static void set_port(struct sonde_listen *l, int port)
{
    if (l->address.any.sa_family == AF_INET6) l->address.v6.sin6_port = htons((uint16_t)port);
    else l->address.v4.sin_port = htons((uint16_t)port);
}

/* A descriptor, or -1 with errno. */
static int try_open(struct sonde_listen *l)
{
    const int fd = socket(l->address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, &l->address.any, l->length) == 0 && listen(fd, BACKLOG) == 0 &&
        getsockname(fd, &l->address.any, &l->length) == 0) {
        return fd;
    }
    const int saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

int sonde_listen_open(struct sonde_listen *l, int tries, int *fd, struct sonde_err *err)
{
    assert(tries >= 0);
    char url[80], holder[128];
    const int first = port_of(l);
    for (int port = first;; port++) {
        set_port(l, port);
        *fd = try_open(l);
        if (*fd >= 0) return 0;
        if (errno != EADDRINUSE || port - first >= tries || port == PORT_MAX) break;
    }
    const int error = errno;
    set_port(l, first);
    sonde_listen_url(l, 0, url, sizeof(url));
    const char *address = url + strlen("http://");
    if (error == EADDRINUSE) {
        holder_of(first, holder, sizeof(holder));
        return sonde_err_set(err, SONDE_EBUSY,
                             "cannot listen on %s: port %d is in use%s; stop that, choose another "
                             "port with --listen, or let the system choose: --listen 127.0.0.1:0",
                             address, first, holder);
    }
    if (error == EACCES) {
        return sonde_err_set(err, SONDE_EACCES,
                             "cannot listen on %s: ports below 1024 need privileges; choose a "
                             "higher one with --listen", address);
    }
    return sonde_err_set(err, SONDE_EIO, "cannot listen on %s: %s", address, strerror(error));
}

void sonde_listen_url(const struct sonde_listen *l, int tls, char *out, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "";
    const int v6 = l->address.any.sa_family == AF_INET6;
    inet_ntop(l->address.any.sa_family,
              v6 ? (const void *)&l->address.v6.sin6_addr : (const void *)&l->address.v4.sin_addr,
              host, sizeof(host));
    snprintf(out, size, v6 ? "http%s://[%s]:%d" : "http%s://%s:%d", tls ? "s" : "", host,
             port_of(l));
}
