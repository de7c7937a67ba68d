/* slow_clients.c - threads that stand still in send and write to sockets, since whoever is at the
 * other end does not read. */
#include <math.h>
#include <string.h>

#include "analyze/finding/rule.h"
#include "base/array.h"

#define INFO_SHARE 0.05
#define WARNING_SHARE 0.20

static int slow_client_is_send(const char *name)
{
    static const char *const names[] = { "send", "__send", "sendto", "__libc_send", "__libc_sendto",
                                         "sendmsg", "__libc_sendmsg", "sendmmsg", "__sendmsg",
                                         "sendfile", "sendfile64", "SSL_write" };
    for (size_t i = 0; i < SONDE_COUNT(names); i++) {
        if (!strcmp(name, names[i])) return 1;
    }
    return 0;
}

/* Nodes of the tree that send, the outermost of each stack; the one with the most time is whose
 * caller is named. */
static double slow_clients_sum(const struct sonde_tree *t, const struct sonde_tree_node **caller,
                               double *samples)
{
    double blocked = 0, most = 0;
    *caller = NULL;
    *samples = 0;
    for (uint32_t i = 1; i < t->node_count; i++) {
        const struct sonde_tree_node *n = &t->nodes[i];
        if (!slow_client_is_send(n->name) || slow_client_is_send(t->nodes[n->parent].name)) {
            continue;
        }
        blocked += (double)n->total * 1e-9;
        *samples += (double)n->samples;
        if ((double)n->total <= most) continue;
        most = (double)n->total;
        *caller = n->parent ? &t->nodes[n->parent] : n;
    }
    return blocked;
}

static void slow_clients_look(struct finding_look *l)
{
    const struct sonde_tree_node *caller;
    double times = 0;
    if (!l->off_cpu.tree || !(l->seconds > 0)) return;
    const double blocked = slow_clients_sum(l->off_cpu.tree, &caller, &times);
    /* Of the time of one thread: a server writes on one or few. */
    const double share = fmin(1, blocked / l->seconds);
    if (!caller || share < INFO_SHARE || blocked < l->o.seconds_min) return;
    struct sonde_finding *f = finding_add(
        l, share >= WARNING_SHARE ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO, share);
    finding_subject(l, f, caller->name, caller->file, caller->line);
    f->share = share;
    f->seconds = blocked;
    f->count = times;
    f->avg_s = times > 0 ? blocked / times : NAN;
    f->gain = share;
    f->gain_of = "time of the thread that sends";
    finding_text(l, f,
                 "%.200s stood still for %.3f s (%.0f %% of the time) since clients do not read "
                 "what is sent to them",
                 caller->name, blocked, 100 * share);
    finding_advise(l, f,
                   "do not wait in %.200s: make sockets non-blocking and keep what they do not "
                   "take in a buffer of each client's own, raise SO_SNDBUF to some hundred KiB, "
                   "and drop clients that take nothing for %.0f seconds",
                   caller->name, 30.0);
    finding_prove(l, f, &(struct sonde_evidence){
        .type = SONDE_EVIDENCE_FUNCTION, .subject = (char *)(uintptr_t)caller->name,
        .file = (char *)(uintptr_t)caller->file, .line = caller->line, .value = blocked,
        .unit = "seconds", .what = "blocked in send" });
}

extern const struct finding_rule finding_rule_slow_clients;
const struct finding_rule finding_rule_slow_clients = {
    .kind = "slow_clients",
    .title = "Slow clients",
    .summary = "threads stand still in send for a twentieth of the time or more; a warning from a "
               "fifth on",
    .explains = "queueing low_throughput lock_contention",
    .look = slow_clients_look,
};
