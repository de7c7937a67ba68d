#include "collect/cpu/perf_python_watch.h"

#include <stdio.h>
#include <string.h>

#include "segment/python.h"
#include "sonde/sonde.h"

/* More samples than this without all frames of Python are worth a word. */
#define MISSING_SHARE 0.1
#define MISSING_LEAST 50u

void sonde_python_watch_release(struct sonde_python_watch *w)
{
    sonde_python_bpf_destroy(w->bpf);
    w->bpf = NULL;
}

static void python_watch_load(struct sonde_python_watch *w, struct sonde_perf_set *set,
                              struct sonde_perf_reader *r)
{
    w->tried = 1;
    if (sonde_python_bpf_create(&w->bpf, &w->why)) return;
    if (sonde_python_bpf_attach(w->bpf, set, &w->why)) {
        sonde_python_watch_release(w);
        return;
    }
    sonde_perf_tasks_bpf(&r->tasks, w->bpf);
}

static int python_watch_is(uint32_t pid)
{
    struct sonde_perf_python_met met;
    struct sonde_perf_python *y;
    if (sonde_perf_python_create(pid, &met, &y)) return 0;
    sonde_perf_python_destroy(y);
    return 1;
}

void sonde_python_watch_begin(struct sonde_python_watch *w, struct sonde_perf_set *set,
                              struct sonde_perf_reader *r, const uint32_t *pids, uint32_t count,
                              int expected)
{
    for (uint32_t i = 0; i < count && !expected; i++) expected = python_watch_is(pids[i]);
    if (!expected) return;
    w->seen = 1;
    python_watch_load(w, set, r);
}

int sonde_python_watch_look(struct sonde_python_watch *w, struct sonde_perf_set *set,
                            struct sonde_perf_reader *r)
{
    const int found = r->tasks.python_due && sonde_perf_tasks_python(&r->tasks);
    w->seen |= found;
    if (!found || w->tried) return 0;
    python_watch_load(w, set, r);
    if (!w->bpf) return 0;
    sonde_perf_tasks_python(&r->tasks);
    return 1;
}

/* A process whose interpreter cannot be read. */
static void python_watch_unread(const struct sonde_perf_tasks *t, char *out, size_t size)
{
    static const char *const texts[] = {
#define SONDE__X(name, text) text,
        SONDE__PYTHON_STATES(SONDE__X)
#undef SONDE__X
    };
    const uint32_t v = t->unread.version, state = t->unread.state;
    char version[32] = "";
    if (v) snprintf(version, sizeof(version), " %u.%u.%u", v >> 24, v >> 16 & 255, v >> 8 & 255);
    snprintf(out, size, "process %u is Python%s, of which only native frames are shown: %s",
             t->unread_pid,
             version, state < SONDE__PYTHON_STATE_COUNT ? texts[state] : "");
}

const char *sonde_python_watch_note(struct sonde_python_watch *w,
                                    const struct sonde_perf_reader *r)
{
    const uint64_t all = r->python_whole + r->python_missing;
    if (w->seen && w->tried && !w->bpf) {
        snprintf(w->note, sizeof(w->note), "functions of Python are not in CPU samples, native "
                 "frames are: %.120s. Or start it under sonde (sonde record -- python3 …)",
                 w->why.text);
    } else if (r->tasks.unread_pid) {
        python_watch_unread(&r->tasks, w->note, sizeof(w->note));
    } else if (r->python_missing > MISSING_LEAST &&
               (double)r->python_missing > MISSING_SHARE * (double)all) {
        snprintf(w->note, sizeof(w->note), "%llu of %llu samples of Python lack functions: they "
                 "could not be read, had ended before their names were, or are deeper than %d",
                 (unsigned long long)r->python_missing, (unsigned long long)all,
                 SONDE_PYTHON_BPF_FRAMES_MAX);
    } else {
        return NULL;
    }
    return w->note;
}
