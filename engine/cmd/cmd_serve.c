/* cmd_serve.c - sonde-engine serve: answer requests over HTTP until a signal says stop. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/command.h"
#include "cmd/device_option.h"
#include "cmd/option.h"
#include "http/server.h"

struct serve_options {
    struct engine_options engine;
    struct http_options http;
    float drain_s;
};

static int engine_cmd_serve_options_read(struct serve_options *s, int argc, char **argv)
{
    struct engine_options *e = &s->engine;
    struct http_options *h = &s->http;
    struct fail why;
    const struct option_row rows[] = {
        { "--model", "-m", OPTION_TEXT, &e->model_path, 0, 0, NULL },
        { "--listen", "-l", OPTION_TEXT, &h->listen, 0, 0, NULL },
        { "--threads", "-t", OPTION_U32, &e->threads, 1, ENGINE_THREADS_MAX, NULL },
        { "--slots", NULL, OPTION_U32, &e->slots, 1, ENGINE_SLOTS_MAX, NULL },
        { "--ctx", "-c", OPTION_U32, &e->context, ENGINE_CONTEXT_MIN, ENGINE_CONTEXT_MAX, NULL },
        { "--batch", "-b", OPTION_U32, &e->batch_tokens, 1, ENGINE_BATCH_MAX, NULL },
        { "--queue", NULL, OPTION_U32, &e->queue_max, 1, ENGINE_QUEUE_MAX, NULL },
        { "--memory-limit", NULL, OPTION_BYTES, &e->memory_limit, 0, 0, NULL },
        { "--device", NULL, OPTION_TEXT, &e->device, 0, 0, NULL },
        { "--device-memory", NULL, OPTION_BYTES, &e->device_memory, 0, 0, NULL },
        { "--deterministic", NULL, OPTION_FLAG, &e->deterministic, 0, 0, NULL },
        { "--seed", NULL, OPTION_U64, &e->seed, 0, 0, &e->seed_set },
        { "--event-log", NULL, OPTION_TEXT, &e->event_log, 0, 0, NULL },
        { "--operations", NULL, OPTION_FLAG, &e->operations, 0, 0, NULL },
        { "--connections", NULL, OPTION_U32, &h->connections_max, 1, 65536, NULL },
        { "--client-timeout", NULL, OPTION_U32, &h->client_timeout_s, 1, 86400, NULL },
        { "--body-max", NULL, OPTION_U32, &h->body_bytes_max, 1, 1 << 30, NULL },
        { "--drain", NULL, OPTION_FLOAT, &s->drain_s, 0, 86400, NULL },
    };
    if (engine_options_from_env(e, &why)) {
        fprintf(stderr, "sonde-engine serve: %s\n", why.text);
        return 2;
    }
    const int bad = option_read(argc, argv, rows, sizeof(rows) / sizeof(rows[0]));
    if (bad) return bad;
    const int listed = device_list(argv[0], e->device);
    if (listed) return listed;
    if (!e->model_path) return command_bad("serve", "-m FILE is needed: a GGUF file");
    return 0;
}

static int serve_until_signal(struct engine *e, const struct serve_options *s,
                              const sigset_t *signals)
{
    struct http_server *server;
    struct fail why;
    int number;
    if (http_server_create(e, &s->http, &server, &why)) {
        fprintf(stderr, "sonde-engine serve: %s\n", why.text);
        return 2;
    }
    const struct model *m = engine_model(e);
    printf("model %s, %s, %.1f MB; %u threads, %u slots, context %u\n", m->name, m->type,
           (double)m->weight_bytes / (1 << 20), engine_threads(e), engine_slots(e),
           engine_context(e));
    if (engine_device(e)[0]) printf("device %s\n", engine_device(e));
    if (engine_notice(e)[0]) printf("%s\n", engine_notice(e));
    printf("listening on %s\n", http_server_url(server));
    fflush(stdout);
    while (sigwait(signals, &number)) continue;
    printf("stopping: at most %g s for requests that run; once more to stop at once\n",
           (double)s->drain_s);
    fflush(stdout);
    /* From here on a signal does what it does by default: it ends the process. */
    pthread_sigmask(SIG_UNBLOCK, signals, NULL);
    http_server_stop(server, (double)s->drain_s);
    http_server_destroy(server);
    return 0;
}

static int command_serve_run(int argc, char **argv)
{
    struct serve_options s = { .drain_s = 30 };
    struct engine *e;
    struct fail why;
    sigset_t signals;
    const int bad = engine_cmd_serve_options_read(&s, argc, argv);
    if (bad) return bad == DEVICE_LISTED ? 0 : bad;
    /* Before there are threads: all of them leave these to sigwait(). */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (engine_create(&s.engine, &e, &why)) {
        fprintf(stderr, "sonde-engine serve: %s\n", why.text);
        return 2;
    }
    const int status = serve_until_signal(e, &s, &signals);
    engine_destroy(e);
    return status;
}

const struct command command_serve = {
    .name = "serve",
    .usage = "-m FILE [--listen HOST:PORT] [options]",
    .summary = "answer requests over HTTP, as OpenAI's server does",
    .help = "  -m, --model FILE       a GGUF file\n"
            "  -l, --listen HOST:PORT (127.0.0.1:8080); port 0 is any that is free: it is printed\n"
            "  -t, --threads N        that compute (as many as there are CPUs)\n"
            "      --slots N          requests that are computed together (4)\n"
            "  -c, --ctx N            positions of a request, prompt and answer (the model's, but\n"
            "                         no more than 4096)\n"
            "  -b, --batch N          tokens in one pass (256)\n"
            "      --queue N          requests that may wait; more are answered 429 (256)\n"
            "      --memory-limit N   for weights, activations and KV cache: 512MB, 2GB; the\n"
            "                         cache has what is left of it (no limit)\n"
            "      --device NAME      computes matrix products: cpu (default), opencl, opencl:N;\n"
            "                         list prints what there is\n"
            "      --device-memory N  of it: 512MB; what does not fit stays on the CPU (all)\n"
            "      --deterministic    requests without a seed get that of --seed\n"
            "      --seed N           (random; 42 with --deterministic)\n"
            "      --event-log FILE   what happened to requests when, as JSON lines\n"
            "      --operations       record times by layer and operation\n"
            "      --connections N    at a time (512)\n"
            "      --client-timeout S a client that neither reads nor writes is gone then (30)\n"
            "      --body-max N       bytes of a request (4 MB)\n"
            "      --drain S          seconds at most for requests that run at the end (30)\n"
            "SONDE_NUM_THREADS, SONDE_BATCH_SIZE (slots), SONDE_MEMORY_LIMIT, SONDE_SEED and\n"
            "SONDE_DETERMINISTIC, or the same with BITNET_, set defaults.\n"
            "SIGTERM and SIGINT stop it.\n",
    .run = command_serve_run,
};
