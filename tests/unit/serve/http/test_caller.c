/* Whose connection it is: by sock_diag and by /proc/net, over IPv4, IPv6 and IPv4 within IPv6; and
 * what is not to be believed of sockets that are closed or listen. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve/http/caller.h"

enum { OTHER_UID = 65534 };

/* A listener on a loopback address; -1 = this machine has no such addresses. */
static int listener(int family, struct sockaddr_storage *address, socklen_t *len)
{
    memset(address, 0, sizeof(*address));
    address->ss_family = (sa_family_t)family;
    *len = family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (family == AF_INET6) ((struct sockaddr_in6 *)address)->sin6_addr = in6addr_loopback;
    else ((struct sockaddr_in *)address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (bind(fd, (struct sockaddr *)address, *len) != 0 || listen(fd, 4) != 0) {
        close(fd);
        return -1;
    }
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, len), 0);
    return fd;
}

/* mapped: by a socket of IPv6, to an address of IPv4. */
static int connect_to(const struct sockaddr_storage *address, socklen_t len, int mapped)
{
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    const int fd = socket(mapped ? AF_INET6 : address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (mapped) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
        inet_pton(AF_INET6, "::ffff:127.0.0.1", &v6.sin6_addr);
        v6.sin6_port = v4->sin_port;
        address = (const struct sockaddr_storage *)&v6;
        len = sizeof(v6);
    }
    if (connect(fd, (const struct sockaddr *)address, len) == 0) return fd;
    close(fd);
    return -1;
}

static void check_all(int fd, int64_t wanted)
{
    struct sonde_caller_ends e;
    assert_true(sonde_caller_ends(fd, &e));
    assert_int_equal(sonde_caller_of(fd), wanted);
    assert_int_equal(sonde_caller_by_proc(&e, "/proc/self/net"), wanted);
    /* Not every container lets netlink through: then it cannot tell, and must not tell wrong. */
    const int64_t diag = sonde_caller_by_netlink(&e);
    if (diag != SONDE_CALLER_UNKNOWN) assert_int_equal(diag, wanted);
}

static const struct { int family, mapped; } ways[] = {
    { AF_INET, 0 }, { AF_INET6, 0 }, { AF_INET, 1 },
};

static void own_connections(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        struct sockaddr_storage address;
        socklen_t len;
        const int l = listener(ways[i].family, &address, &len);
        const int client = l < 0 ? -1 : connect_to(&address, len, ways[i].mapped);
        if (client >= 0) {
            const int fd = accept(l, NULL, NULL);
            check_all(fd, (int64_t)geteuid());
            assert_true(sonde_caller_is_ours(sonde_caller_of(fd)));
            /* One that has sent all it will, and listens on. */
            shutdown(client, SHUT_WR);
            check_all(fd, (int64_t)geteuid());
            close(fd);
            close(client);
        }
        if (l >= 0) close(l);
    }
}

/* Another user's, of a child that connects, and stays or leaves. */
static void connections_of_others(void **state)
{
    (void)state;
    if (geteuid() != 0) skip();
    for (size_t i = 0; i < 2 * sizeof(ways) / sizeof(ways[0]); i++) {
        const int stays = i % 2;
        struct sockaddr_storage address;
        socklen_t len;
        const int l = listener(ways[i / 2].family, &address, &len);
        if (l < 0) continue;
        const pid_t child = fork();
        if (child == 0) {
            if (setgid(OTHER_UID) != 0 || setuid(OTHER_UID) != 0) _exit(1);
            const int fd = connect_to(&address, len, ways[i / 2].mapped);
            if (fd < 0) _exit(2);
            if (stays) pause();
            _exit(0); /* closes: what is left of the socket is nobody's, which looks like root's */
        }
        struct pollfd p = { .fd = l, .events = POLLIN };
        if (poll(&p, 1, ways[i / 2].mapped || ways[i / 2].family == AF_INET6 ? 3000 : 30000) == 1) {
            const int fd = accept(l, NULL, NULL);
            if (!stays) {
                char byte;
                assert_int_equal(read(fd, &byte, 1), 0);
            }
            check_all(fd, stays ? OTHER_UID : SONDE_CALLER_UNKNOWN);
            assert_false(sonde_caller_is_ours(sonde_caller_of(fd)));
            close(fd);
        }
        if (stays) kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(l);
    }
}

/* The ends of a connection that is not there: the lookup goes on to what listens on that port. */
static void listeners_are_nobodys(void **state)
{
    (void)state;
    struct sockaddr_storage address;
    socklen_t len;
    const int l = listener(AF_INET, &address, &len);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
    const struct sonde_caller_ends e = { .family = AF_INET,
                                         .from = { v4->sin_addr.s_addr },
                                         .to = { v4->sin_addr.s_addr },
                                         .from_port = v4->sin_port, .to_port = htons(1) };
    assert_int_equal(sonde_caller_by_netlink(&e), SONDE_CALLER_UNKNOWN);
    assert_int_equal(sonde_caller_by_proc(&e, "/proc/self/net"), SONDE_CALLER_UNKNOWN);
    close(l);
}

static void not_tcp(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(sonde_caller_of(pair[0]), SONDE_CALLER_UNKNOWN);
    assert_int_equal(sonde_caller_of(-1), SONDE_CALLER_UNKNOWN);
    close(pair[0]);
    close(pair[1]);
    assert_true(sonde_caller_is_ours(0));
    assert_true(sonde_caller_is_ours((int64_t)geteuid()));
    assert_false(sonde_caller_is_ours(SONDE_CALLER_UNKNOWN));
    assert_false(sonde_caller_is_ours((int64_t)geteuid() + 1));
}

/* Tables that are not as they should be. */
static void bad_tables(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "", "\n\n", "  0: 0100007F:0050\n", "  0: 0100007F:0050 0100007F:0051 01 x\n",
        "  0: 0100007F0100007F:0050 0100007F:0051 01 0:0 0:0 0 7 0 1 1\n",
        "  0: 0100007F:0050 0100007F:0051 06 0:0 0:0 0 7 0 0 1\n", /* TIME_WAIT */
        "  0: 0100007F:0050 0100007F:0051 01 0:0 0:0 0 7 0 0 1\n", /* nobody holds it */
        "  0: 0100007F:0050 0100007F:0051 01 0:0 0:0 0 7 0 9 1\n",
    };
    char folder[] = "/tmp/sonde-unit-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/tcp", folder);
    const struct sonde_caller_ends e = { .family = AF_INET, .from = { htonl(INADDR_LOOPBACK) },
                                         .to = { htonl(INADDR_LOOPBACK) },
                                         .from_port = htons(0x50), .to_port = htons(0x51) };
    const size_t count = sizeof(lines) / sizeof(lines[0]);
    assert_int_equal(sonde_caller_by_proc(&e, folder), SONDE_CALLER_UNKNOWN);
    for (size_t i = 0; i < count; i++) {
        FILE *f = fopen(path, "w");
        fputs(lines[i], f);
        fclose(f);
        assert_int_equal(sonde_caller_by_proc(&e, folder),
                         i == count - 1 && htonl(1) != 1 ? 7 : SONDE_CALLER_UNKNOWN);
    }
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_connections),       cmocka_unit_test(connections_of_others),
        cmocka_unit_test(listeners_are_nobodys), cmocka_unit_test(not_tcp),
        cmocka_unit_test(bad_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
