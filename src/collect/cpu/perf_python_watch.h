/* perf_python_watch.h - whether CPU samples of perf events have functions of Python: the BPF
 * program is loaded when the first interpreter is met, and where it cannot be there is a word
 * why. */
#ifndef SONDE_COLLECT_CPU_PERF_PYTHON_WATCH_H
#define SONDE_COLLECT_CPU_PERF_PYTHON_WATCH_H

#include "collect/cpu/engine.h"
#include "collect/cpu/perf_python_bpf.h"
#include "collect/cpu/perf_reader.h"

struct sonde_python_watch {
    struct sonde_python_bpf *bpf;  /* owned; NULL = not needed yet, or it cannot be */
    int tried, seen;               /* some process is Python */
    struct sonde_err why;          /* it cannot be */
    char note[SONDE_CPU_NOTE_MAX];
};

void sonde_python_watch_release(struct sonde_python_watch *w);

/* Before the events of these processes are opened: have the program on them if one of them is
 * Python, or will be (expected). */
void sonde_python_watch_begin(struct sonde_python_watch *w, struct sonde_perf_set *set,
                              struct sonde_perf_reader *r, const uint32_t *pids, uint32_t count,
                              int expected);

/* After records were read. 1: events must be opened anew to run the program. */
int sonde_python_watch_look(struct sonde_python_watch *w, struct sonde_perf_set *set,
                            struct sonde_perf_reader *r);

/* What is missing, as a sentence; NULL = nothing. */
const char *sonde_python_watch_note(struct sonde_python_watch *w,
                                    const struct sonde_perf_reader *r);

#endif
