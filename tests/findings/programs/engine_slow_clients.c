/* engine_slow_clients.c - the engine writes every token to its client's socket and waits until
 * there is room; the clients, another process, read slowly. */
#include <sys/socket.h>
#include <unistd.h>

#include "../engine/mini_engine.h"

enum { CLIENTS = 6 };

static int sockets[CLIENTS][2];

BENCH_NOINLINE static void event_send(struct mini_job *job, const char *text, size_t length)
{
    char event[256];
    const int n = snprintf(event, sizeof(event),
                           "data: {\"object\":\"text_completion\",\"model\":\"mini\",\"choices\":"
                           "[{\"index\":0,\"finish_reason\":null,\"text\":\"%.*s\"}]}\n\n",
                           (int)length, text);
    /* PLANTED: blocks */
    if (send(sockets[job->client][0], event, (size_t)n, MSG_NOSIGNAL) < 0) bench_fail("send");
}

static void clients_read(unsigned bytes, unsigned pause_us)
{
    char buffer[4096];
    for (;;) {
        for (unsigned i = 0; i < CLIENTS; i++) {
            /* the engine has ended */
            if (recv(sockets[i][1], buffer, bytes, MSG_DONTWAIT) == 0) _exit(0);
        }
        bench_sleep_us(pause_us);
    }
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    for (unsigned i = 0; i < CLIENTS; i++) {
        const int room = 4096;
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i])) bench_fail("socketpair");
        setsockopt(sockets[i][0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    }
    const unsigned bytes = bench_between(&b.random, 150, 400);
    const pid_t reader = fork();
    if (reader < 0) bench_fail("fork");
    for (unsigned i = 0; i < CLIENTS; i++) close(sockets[i][reader ? 1 : 0]);
    if (!reader) clients_read(bytes, bench_between(&b.random, 20000, 40000));
    mini_engine_run(&b, &(struct mini_plan){
        .clients = CLIENTS, .slots = 8, .prompt_min = 10, .prompt_max = 40,
        .output_min = 40, .output_max = 100, .send = event_send
    });
    return 0;
}
