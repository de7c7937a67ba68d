#include "collect/cpu/perf_python.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "collect/cpu/perf_python_bpf.h"
#include "collect/cpu/perf_python_private.h"
#include "profile/python_function.h"

enum { THREADS_MAX = 16384 };

/* The number that a thread has for itself, as the last one in "NSpid:	4711	12"; 0 = not known. */
static uint64_t perf_python_own_number(const struct sonde_perf_python *y, uint32_t tid)
{
    char path[64], text[4096];
    uint64_t number = 0;
    if (!y->elsewhere) return tid;
    snprintf(path, sizeof(path), "/proc/%u/task/%u/status", y->pid, tid);
    if (sonde_file_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0) return 0;
    const char *at = strstr(text, "\nNSpid:");
    for (at = at ? at + 7 : NULL; at && *at == '\t';) {
        char *end;
        number = strtoull(at + 1, &end, 10);
        at = end;
    }
    return number;
}

/* The thread's state: in the list of the main interpreter's, which is behind that of the one that
 * was made last. 0 = it has none. */
static uint64_t perf_python_thread(struct sonde_perf_python *y, uint64_t tid)
{
    const struct sonde__python_layout *l = &y->layout;
    uint64_t at, id;
    if (!tid) return 0;
    if (y->thread && !sonde__perf_python_word(y->pid, y->thread + l->thread_id, &id) && id == tid) {
        return y->thread;
    }
    if (sonde__perf_python_word(y->pid, y->runtime + l->runtime_interpreter + 8, &at) || !at ||
        sonde__perf_python_word(y->pid, at + l->interpreter_thread, &at)) {
        return 0;
    }
    for (uint32_t n = 0; at && n < THREADS_MAX; n++) {
        if (sonde__perf_python_word(y->pid, at + l->thread_id, &id)) return 0;
        if (id == tid) return y->thread = at;
        if (sonde__perf_python_word(y->pid, at + l->thread_next, &at)) return 0;
    }
    return 0;
}

struct perf_python_walk {
    struct sonde_perf_python *y;
    struct sonde_profile *p;
    struct sonde_perf_python_frame *out;
    size_t count, max;
};

static int perf_python_put(struct perf_python_walk *w, const char *frame, uint64_t anchor)
{
    const struct sonde__python_layout *l = &w->y->layout;
    const uint64_t addr = sonde__perf_python_field(frame, l->frame_code);
    const uint64_t start = addr + l->code_start;
    const uint64_t instruction = sonde__perf_python_field(frame, l->frame_instruction);
    const uint64_t at = instruction >= start ? (instruction - start) / 2 : 0;
    if (w->count == w->max) return -1;
    const uint32_t location = sonde__perf_python_location(w->y, w->p, addr, 0, at);
    if (!location) return -1;
    w->out[w->count++] = (struct sonde_perf_python_frame){ anchor, location };
    return 0;
}

/* A run from its innermost frame on. *next: the one behind it; of an entry frame, its anchor is
 * known when it is come to. */
static int perf_python_run(struct perf_python_walk *w, uint64_t at, uint64_t anchor, uint64_t *next)
{
    const struct sonde__python_layout *l = &w->y->layout;
    char frame[SONDE__PYTHON_FRAME_BYTES];
    const size_t first = w->count;
    for (uint32_t n = 0; at && n <= w->max; n++) {
        if (sonde__perf_python_copy(w->y->pid, at, frame, sizeof(frame))) return -1;
        const int last = (unsigned char)frame[l->frame_flag] == l->frame_last;
        if ((!last || l->last_is_real) && perf_python_put(w, frame, anchor)) return -1;
        *next = sonde__perf_python_field(frame, l->frame_previous);
        if (last && !l->chained) {
            for (size_t i = first; i < w->count; i++) w->out[i].anchor = at;
        }
        if (last) return 0;
        at = *next;
    }
    return -1;
}

size_t sonde_perf_python_read(struct sonde_perf_python *y, struct sonde_profile *p, uint32_t tid,
                              struct sonde_perf_python_frame *out, size_t max)
{
    const struct sonde__python_layout *l = &y->layout;
    struct perf_python_walk w = { y, p, out, 0, max };
    char cframe[SONDE__PYTHON_ANCHOR_BYTES];
    const uint64_t state = perf_python_thread(y, perf_python_own_number(y, tid));
    uint64_t at, frame;
    if (!state || sonde__perf_python_word(y->pid, state + l->thread_top, &at)) return 0;
    while (at && w.count < max) {
        const uint64_t anchor = at;
        if (!l->chained) {
            if (perf_python_run(&w, at, 0, &at)) return 0;
            continue;
        }
        if (sonde__perf_python_copy(y->pid, at, cframe, sizeof(cframe))) return 0;
        frame = sonde__perf_python_field(cframe, l->anchor_frame);
        at = sonde__perf_python_field(cframe, l->anchor_previous);
        if (!frame) break; /* the outermost, which is part of the thread's state */
        if (perf_python_run(&w, frame, anchor, &frame)) return 0;
    }
    return w.count;
}

/* ---- Frames that came with a sample ---------------------------------------------------------- */

size_t sonde_perf_python_sampled(struct sonde_perf_python *y, struct sonde_profile *p,
                                 const struct sonde_python_bpf_frame *in, size_t count, int cut,
                                 struct sonde_perf_python_frame *out, uint32_t *unnamed)
{
    size_t n = 0, first = 0;
    *unnamed = 0;
    for (size_t i = 0; i < count; i++) {
        if (in[i].code) {
            uint32_t location =
                sonde__perf_python_location(y, p, in[i].code, in[i].key, in[i].at);
            if (!location) {
                location = sonde_profile_python(p, "", "", 0, 0);
                (*unnamed)++;
            }
            if (!location) return 0;
            out[n++].location = location;
            continue;
        }
        if (cut && i + 1 == count && n > first) { /* more of this run is further out */
            static const char left_out[] = "[frames left out]";
            out[n++].location = sonde_profile_named_location(p, left_out, sizeof(left_out) - 1);
        }
        for (; first < n; first++) out[first].anchor = in[i].key;
    }
    return first; /* those of a run whose end is not there stand for a frame that is not known */
}

void sonde_perf_python_forget(struct sonde_perf_python *y)
{
    sonde__perf_python_codes_forget(y->codes);
}

void sonde_perf_python_add_to(const struct sonde_perf_python *y, struct sonde_python_bpf *b)
{
    const struct sonde_python_bpf_process p = { .pid = y->pid, .runtime = y->runtime,
                                                .type_code = y->type_code, .layout = &y->layout };
    (void)sonde_python_bpf_add(b, &p); /* without it there are native frames */
}
