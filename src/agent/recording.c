/* recording.c - see recording.h. */
#include "agent/recording.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "analyze/growth.h"
#include "model/track_ticks.h"
#include "profile/symbol/symbolize.h"
#include "sonde/sonde.h"

#define SPANS_BYTES_MAX ((size_t)512 << 20)
#define COMMAND_MAX 4096u /* bytes kept of a command line */

int sonde_engine_find(const char *name)
{
    static const struct { const char *name; enum sonde_cpu_engine_kind kind; } engines[] = {
#define SONDE__X(id, text, help) { text, SONDE_CPU_##id },
        SONDE_CPU_ENGINES(SONDE__X)
#undef SONDE__X
    };
    for (size_t i = 0; i < SONDE_COUNT(engines); i++) {
        if (!strcmp(engines[i].name, name)) return (int)engines[i].kind;
    }
    return -1;
}

int sonde_recording_keep_spans(struct sonde_recording *r)
{
    return r->spans ? 0 : sonde_profile_create(SPANS_BYTES_MAX, &r->spans);
}

void sonde_recording_on_span(const struct sonde_model_span *span, void *arg)
{
    struct sonde_recording *r = arg;
    if (r->spans && sonde_model_span_add_to(span, r->spans)) r->spans_dropped++;
}

void sonde_recording_on_tick(const struct sonde_model *m, struct sonde_recording *r)
{
    if (r->spans) sonde_model_track_tick(m, r->spans);
}

void sonde_recording_on_request(const struct sonde_infer_request *r, void *arg)
{
    struct sonde_recording *recording = arg;
    if (!recording->spans) return;
    /* Which timelines are worth keeping is known at the end. */
    struct sonde_infer_request flat = *r;
    flat.items = NULL;
    flat.item_count = 0;
    sonde_infer_run_add(recording->spans, &flat); /* what does not fit is counted there */
}

void sonde_recording_prepare_probes(struct sonde_recording *r, const char *command)
{
    assert(!r->returns && !r->cpu);
    if (command) {
        if (!sonde_uprobes_program(command, r->program, sizeof(r->program)) ||
            !sonde_uprobe_is_static(r->program)) {
            r->program[0] = '\0';
            return;
        }
    }
    if (sonde_uprobe_returns_create(&r->returns) != 0) r->returns = NULL;
}

int sonde_recording_start_probes(struct sonde_recording *r, struct sonde_collector *c, uint32_t pid,
                                 struct sonde_err *err)
{
    assert(r->returns && !r->probes);
    const int rc = sonde_uprobes_start(c, pid, r->program[0] ? r->program : NULL, r->returns,
                                       &r->probes, err);
    if (rc) r->probes = NULL;
    return rc;
}

void sonde_recording_stop_probes(struct sonde_recording *r)
{
    sonde_uprobes_stop(r->probes, &r->probed);
    r->probes = NULL;
}

/* " (AMD EPYC 7B13)", of the first CPU; "" = the kernel does not say. */
static void describe_cpu(char *out, size_t size)
{
    char info[4096];
    *out = '\0';
    if (sonde_file_read_small(AT_FDCWD, "/proc/cpuinfo", info, sizeof(info)) <= 0) return;
    const char *line = strstr(info, "model name"), *value = line ? strchr(line, ':') : NULL;
    if (!value) return;
    value += strspn(value, ": \t");
    snprintf(out, size, " (%.*s)", (int)strcspn(value, "\n"), value);
    /* What is stripped from a host's description is told by its commas. */
    for (char *c = out; *c; c++) {
        if (*c == ',') *c = ' ';
    }
}

static void describe_host(struct sonde_profile *p)
{
    struct utsname u;
    if (uname(&u) != 0) return;
    char text[512], cpu[100];
    const long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    describe_cpu(cpu, sizeof(cpu));
    snprintf(text, sizeof(text), "%s, %s %s %s, %ld CPU%s%s", u.nodename, u.sysname, u.release,
             u.machine, cpus, cpus == 1 ? "" : "s", cpu);
    p->host = sonde_profile_cstring(p, text);
}

/* A program that has ended before its start was read of took its arguments with it. */
static void describe_command(struct sonde_profile *p, char *const *argv)
{
    char text[COMMAND_MAX];
    size_t at = 0;
    if (p->command || !argv) return;
    for (size_t i = 0; argv[i] && at < sizeof(text) - 1; i++) {
        const int n = snprintf(text + at, sizeof(text) - at, "%s%s", i ? " " : "", argv[i]);
        const size_t left = sizeof(text) - 1 - at;
        at += n < 0 ? 0 : (size_t)n < left ? (size_t)n : left;
    }
    if (at) p->command = sonde_profile_string(p, text, at);
}

static int recording_symbolize(struct sonde_profile *p)
{
    struct sonde_symbolizer *s;
    int rc = sonde_symbolizer_create(&s);
    if (rc) return rc;
    rc = sonde_symbolize(s, p);
    sonde_symbolizer_destroy(s);
    return rc;
}

static int recording_stop_cpu(struct sonde_recording *r)
{
    struct sonde_cpu *cpu = r->cpu;
    struct sonde_cpu_status status;
    r->cpu = NULL;
    if (!cpu) return 0;
    const int rc = sonde_cpu_stop_status(cpu, &r->samples, &status);
    memcpy(r->note, status.note, sizeof(r->note));
    memcpy(r->known, status.known, sizeof(r->known));
    r->known_count = status.known_count;
    return rc;
}

static int recording_stop_heap(struct sonde_recording *r)
{
    struct sonde_heap_reader *heap_reader = r->heap_reader;
    struct sonde_heap_reader_status status;
    r->heap_reader = NULL;
    if (!heap_reader) return 0;
    sonde_heap_reader_status(heap_reader, &status);
    memcpy(r->heap_note, status.note, sizeof(r->heap_note));
    const int rc = sonde_heap_reader_stop(heap_reader, &r->heap);
    if (rc || status.running) return rc;
    sonde_profile_destroy(r->heap);
    r->heap = NULL;
    return 0;
}

static int recording_stop_gpu(struct sonde_recording *r)
{
    struct sonde_kernel_reader *gpu_reader = r->gpu_reader;
    r->gpu_reader = NULL;
    return gpu_reader ? sonde_kernel_reader_stop(gpu_reader, &r->gpu) : 0;
}

int sonde_recording_stop(struct sonde_recording *r)
{
    const int cpu = recording_stop_cpu(r), heap_reader = recording_stop_heap(r);
    const int gpu = recording_stop_gpu(r);
    return cpu ? cpu : heap_reader ? heap_reader : gpu;
}

/* All kinds of samples in one profile: r->samples. */
static int recording_join(struct sonde_recording *r)
{
    if (!r->samples) {
        r->samples = r->heap;
        r->heap = NULL;
    }
    int rc = r->samples ? 0 : sonde_profile_create(0, &r->samples);
    if (!rc && r->heap) rc = sonde_profile_merge(r->samples, r->heap);
    return rc || !r->gpu ? rc : sonde_profile_merge(r->samples, r->gpu);
}

int sonde_recording_finish(struct sonde_recording *r, struct sonde_profile **out,
                           struct sonde_err *err)
{
    int rc = sonde_recording_stop(r);
    if (!rc) rc = recording_join(r);
    if (!rc && r->spans) rc = sonde_profile_merge(r->samples, r->spans);
    if (!rc) describe_command(r->samples, r->argv);
    if (!rc) describe_host(r->samples); /* before names are found, which strips them if so asked */
    if (!rc) rc = recording_symbolize(r->samples);
    if (!rc && r->leaks) rc = sonde_growth_judge_profile(r->samples);
    if (!rc) {
        *out = r->samples;
        r->samples = NULL;
    }
    sonde_recording_cancel(r);
    return rc ? sonde_err_set(err, rc, "no memory to put the recording together") : 0;
}

void sonde_recording_cancel(struct sonde_recording *r)
{
    sonde_recording_stop(r);
    sonde_profile_destroy(r->samples);
    sonde_profile_destroy(r->heap);
    sonde_profile_destroy(r->gpu);
    sonde_profile_destroy(r->spans);
    r->samples = r->heap = r->gpu = r->spans = NULL;
}

void sonde_recording_release(struct sonde_recording *r)
{
    assert(!r->cpu && !r->heap_reader && !r->gpu_reader && !r->probes);
    sonde_uprobe_returns_destroy(r->returns);
    r->returns = NULL;
}
