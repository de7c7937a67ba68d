/* uprobes.c - see uprobes.h.
 *
 * The thread that reads the probes must not wait for the model's lock: memory of the process is
 * read by it, in time or not at all. Events go into a queue of their own (sonde_infer_post); spans
 * wait here until the lock happens to be free. */
#include "agent/uprobes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "infer/tracker.h"
#include "base/alloc.h"
#include "base/log.h"
#include "infer/llama/llama.h"
#include "sonde/sonde.h"

enum { SPANS_MAX = 8192, NAME_BYTES = 48 };

struct waiting_span {
    struct sonde_model_span span;
    char name[NAME_BYTES];
};

struct sonde_uprobes {
    struct sonde_model *model;      /* borrowed */
    struct sonde_infer_tracker *infer;      /* the model's */
    struct sonde_llama *tracker;
    struct sonde_uprobe *uprobe;
    uint32_t pid;
    struct waiting_span *spans;     /* SPANS_MAX; of the reading thread */
    uint32_t span_count;
    uint64_t spans_dropped;
};

/* ---- On the reading thread ------------------------------------------------------------------- */

static void uprobes_on_event(void *arg, const struct sonde_infer_event *e)
{
    sonde_infer_post(((const struct sonde_uprobes *)arg)->infer, e);
}

static void uprobes_on_span(void *arg, const struct sonde_model_span *span)
{
    struct sonde_uprobes *p = arg;
    if (p->span_count == SPANS_MAX) {
        p->spans_dropped++;
        return;
    }
    struct waiting_span *w = &p->spans[p->span_count++];
    w->span = *span;
    w->span.attrs = NULL;
    w->span.attr_count = 0;
    w->span.parts = NULL;
    w->span.part_count = 0;
    if (span->part_count) w->span.parts = sonde__alloc(span->part_count * sizeof(*span->parts));
    if (w->span.parts) { /* without memory it is a span of nobody in particular */
        w->span.part_count = span->part_count;
        memcpy(w->span.parts, span->parts, span->part_count * sizeof(*span->parts));
    }
    snprintf(w->name, sizeof(w->name), "%s", span->name);
}

static const struct sonde_llama_ops ops = { uprobes_on_event, uprobes_on_span };

static void hand_over(struct sonde_uprobes *p)
{
    sonde_assert_held_write(&p->model->lock);
    const char *program = "";
    for (size_t i = 0; i < p->model->process_count; i++) {
        if (p->model->processes[i]->pid == p->pid) program = p->model->processes[i]->program;
    }
    for (uint32_t i = 0; i < p->span_count; i++) {
        struct waiting_span *w = &p->spans[i];
        w->span.name = w->name;
        w->span.program = program;
        w->span.pid = p->pid;
        sonde_model_span(p->model, &w->span);
        sonde__free(w->span.parts);
    }
    p->span_count = 0;
}

static void uprobes_on_call(void *arg, const struct sonde_llama_call *c)
{
    sonde_llama_track(((const struct sonde_uprobes *)arg)->tracker, c);
}

static void uprobes_on_pass(void *arg, uint32_t tid, uint64_t object, uint64_t begin_ns)
{
    sonde_llama_pass(((const struct sonde_uprobes *)arg)->tracker, tid, object, begin_ns, NULL, 0);
}

static void uprobes_on_drained(void *arg, uint64_t since_ns)
{
    struct sonde_uprobes *p = arg;
    sonde_llama_drained(p->tracker, since_ns);
    if (p->span_count && sonde_trywrlock(&p->model->lock) == 0) {
        hand_over(p);
        sonde_rwunlock(&p->model->lock);
    }
}

/* ---- The model of a process that has loaded it ----------------------------------------------- */

/* The file that is mapped, or else was asked for. out: the last one that is seen; returns how many
 * different ones there are. */
static int find_model(uint32_t pid, const char *file, char separator, char *out, size_t out_size)
{
    char path[64], *text = NULL;
    size_t cap = 0;
    int found = 0;
    snprintf(path, sizeof(path), "/proc/%u/%s", pid, file);
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    while (found < 2 && getdelim(&text, &cap, separator, f) > 0) {
        text[strcspn(text, "\n")] = '\0';
        const char *slash = strchr(text, '/');
        const char *name = separator == '\n' && slash ? slash : text;
        if (!sonde_has_suffix(name, ".gguf") || (found && !strcmp(out, name))) continue;
        snprintf(out, out_size, "%s", name);
        found++;
    }
    free(text);
    fclose(f);
    return found;
}

/* Its loading was not seen; with several it is not known which one computes. */
static void name_model(struct sonde_llama *tracker, uint32_t pid)
{
    char path[4096];
    int found = find_model(pid, "maps", '\n', path, sizeof(path));
    if (!found) found = find_model(pid, "cmdline", '\0', path, sizeof(path));
    if (found == 1) sonde_llama_only_model(tracker, path);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void free_probes(struct sonde_uprobes *p)
{
    sonde_llama_destroy(p->tracker);
    sonde__free(p->spans);
    sonde__free(p);
}

int sonde_uprobes_start(struct sonde_collector *c, uint32_t pid, const char *program,
                        struct sonde_uprobe_returns *returns, struct sonde_uprobes **out,
                        struct sonde_err *err)
{
    assert(c && pid && out);
    struct sonde_uprobes *p = sonde__calloc(1, sizeof(*p));
    if (!p) return sonde_err_set(err, SONDE_ENOMEM, "no memory for probes");
    p->model = sonde_collector_model(c);
    p->infer = sonde_collector_tracker(c);
    p->pid = pid;
    p->spans = sonde__calloc(SPANS_MAX, sizeof(*p->spans));
    p->tracker = sonde_llama_create(pid, SONDE_INFER_PROBE, &ops, p);
    int rc = p->spans && p->tracker && p->infer
                 ? 0 : sonde_err_set(err, SONDE_ENOMEM, "no memory for probes");
    if (!rc && !program) name_model(p->tracker, pid);
    if (!rc) {
        const struct sonde_uprobe_options o = { .pid = pid,
                                                .program = program,
                                                .call = uprobes_on_call,
                                                .drained = uprobes_on_drained,
                                                .pass = uprobes_on_pass,
                                                .arg = p,
                                                .returns = returns };
        rc = sonde_uprobe_start(&o, &p->uprobe, err);
    }
    if (rc) {
        free_probes(p);
        return rc;
    }
    *out = p;
    return 0;
}

void sonde_uprobes_status(struct sonde_uprobes *p, struct sonde_uprobe_status *out)
{
    sonde_uprobe_status(p->uprobe, out);
}

void sonde_uprobes_stop(struct sonde_uprobes *p, struct sonde_uprobe_status *out)
{
    if (!p) return;
    sonde_uprobe_stop(p->uprobe, out);
    sonde_llama_end(p->tracker);
    sonde_wrlock(&p->model->lock);
    hand_over(p);
    sonde_rwunlock(&p->model->lock);
    if (p->spans_dropped) {
        sonde_log(SONDE_LOG_WARN, "%llu phases were dropped: the model was busy for too long",
                  (unsigned long long)p->spans_dropped);
    }
    free_probes(p);
}

/* ---- Programs -------------------------------------------------------------------------------- */

static int uprobes_is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int sonde_uprobes_program(const char *name, char *out, size_t out_size)
{
    const char *dirs = getenv("PATH");
    if (strchr(name, '/')) {
        return (size_t)snprintf(out, out_size, "%s", name) < out_size &&
               uprobes_is_program(out);
    }
    for (const char *dir = dirs ? dirs : "/bin:/usr/bin"; dir; dir = strchr(dir, ':')) {
        dir += *dir == ':';
        const int len = (int)strcspn(dir, ":");
        const int n = snprintf(out, out_size, "%.*s%s%s", len, dir, len ? "/" : "./", name);
        if (n > 0 && (size_t)n < out_size && uprobes_is_program(out)) return 1;
    }
    return 0;
}
