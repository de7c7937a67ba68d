/* doctor_gpu.c - GPUs: who was looked for and reads, which counters each card has, and why not the
 * others; OpenCL devices, asked in a child process as drivers crash and hang. */
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/visible.h"
#include "cli/doctor.h"
#include "collect/gpu/gpu.h"

#define SETTLE_S 10.0
#define OPENCL_MS 10000

/* ---- Who reads ------------------------------------------------------------------------------- */

static int doctor_gpu_sources(struct sonde_doctor *d, const struct sonde_gpu *g)
{
    struct sonde_gpu_source s;
    int there = 0;
    for (size_t i = 0; sonde_gpu_source(g, i, &s); i++) {
        if (s.state == SONDE_GPU_ABSENT || s.state == SONDE_GPU_NOT_NEEDED) continue;
        there++;
        if (s.state == SONDE_GPU_READING) {
            sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s: %s; a reading takes %.1f ms", s.name,
                             s.note, s.read_s * 1e3);
        } else {
            sonde_doctor_add(d, SONDE_DOCTOR_WARN, "other sources are read all the same; "
                             "docs/gpu.md says what each needs", "%s: %s", s.name,
                             s.state == SONDE_GPU_STARTING ? "it does not answer" : s.note);
        }
    }
    return there;
}

static void doctor_gpu_none(struct sonde_doctor *d, const struct sonde_gpu *g)
{
    struct sonde_gpu_source s;
    char looked[256];
    size_t n = 0;
    for (size_t i = 0; sonde_gpu_source(g, i, &s) && n < sizeof(looked); i++) {
        n += (size_t)snprintf(looked + n, sizeof(looked) - n, "%s%s", n ? ", " : "", s.looked_for);
    }
    sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "none found (looked for %s)", looked);
}

/* ---- Cards ----------------------------------------------------------------------------------- */

static void doctor_gpu_absent_line(struct sonde_doctor *d, const struct sonde_gpu_row *r,
                                   struct sonde_buf *list, const char *why)
{
    if (list->len && !list->error) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "GPU %u has no %s: %s", r->index, list->data,
                         why);
    }
    sonde_buf_reset(list);
}

/* Those that are absent of a state, in lines that are not too long. */
static void doctor_gpu_absent(struct sonde_doctor *d, const struct sonde_gpu_row *r)
{
    struct sonde_buf list;
    sonde_buf_init(&list, 1024);
    for (uint32_t state = SONDE_GPU_NOT_SUPPORTED; state < SONDE_GPU_STATE_COUNT; state++) {
        char why[96] = "", before[96] = "";
        for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) {
            const struct sonde_gpu_figure_row *row = &sonde_gpu_figures[f];
            const struct sonde_gpu_value *v = &r->device.figure[f];
            if (v->state != state) continue;
            sonde_gpu_why(v, why, sizeof(why)); /* of errors each number is one */
            if (list.len > 500 || (list.len && strcmp(why, before) != 0)) {
                doctor_gpu_absent_line(d, r, &list, before);
            }
            snprintf(before, sizeof(before), "%s", why);
            sonde_buf_printf(&list, "%s%s%s%s%s", list.len ? ", " : "", row->family + 10,
                             row->label ? "{" : "", row->label ? row->value : "",
                             row->label ? "}" : "");
        }
        doctor_gpu_absent_line(d, r, &list, before);
    }
    sonde_buf_release(&list);
}

static void doctor_gpu_row(struct sonde_doctor *d, const struct sonde_gpu_row *r)
{
    const struct sonde_gpu_device *v = &r->device;
    unsigned known = 0;
    for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) known += v->figure[f].state == SONDE_GPU_OK;
    if (v->parent[0]) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "GPU %u, instance %u: %s; %u counters", r->index,
                         v->instance, v->name, known);
        return;
    }
    if (v->lost) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN, "look for Xid in the kernel's log; the card, or the "
                         "machine, has to be reset", "GPU %u, %s (%s) does not answer any more",
                         r->index, v->name, v->key);
        return;
    }
    sonde_doctor_add(d, known ? SONDE_DOCTOR_OK : SONDE_DOCTOR_WARN, NULL,
                     "GPU %u: %s, %s, driver %s %s; %u counters by %s", r->index, v->name, v->key,
                     v->driver, v->version, known, r->by);
    doctor_gpu_absent(d, r);
}

/* ---- OpenCL ---------------------------------------------------------------------------------- */

typedef int (*opencl_platforms)(unsigned, void **, unsigned *);
typedef int (*opencl_devices)(void *, unsigned long, unsigned, void **, unsigned *);
typedef int (*opencl_info)(void *, unsigned, size_t, void *, size_t *);

static void doctor_opencl_list(int fd)
{
    enum { ALL = 16, NAME = 0x102B, PLATFORM_NAME = 0x0902, MANY = 16 };
    const unsigned long every = 0xFFFFFFFFul;
    union { void *data; opencl_platforms platforms; opencl_devices devices; opencl_info info; } get,
        list, name, about;
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL), *platform[MANY], *device[MANY];
    unsigned platforms = 0, devices;
    if (!library) return;
    get.data = dlsym(library, "clGetPlatformIDs");
    list.data = dlsym(library, "clGetDeviceIDs");
    name.data = dlsym(library, "clGetDeviceInfo");
    about.data = dlsym(library, "clGetPlatformInfo");
    if (!get.data || !list.data || !name.data || !about.data) return;
    if (get.platforms(MANY, platform, &platforms) || platforms > MANY) return;
    for (unsigned i = 0; i < platforms; i++) {
        char of[128] = "";
        about.info(platform[i], PLATFORM_NAME, sizeof(of), of, NULL);
        devices = 0;
        if (list.devices(platform[i], every, MANY, device, &devices)) continue;
        for (unsigned k = 0; k < devices && k < MANY; k++) {
            char text[256] = "", line[420];
            name.info(device[k], NAME, sizeof(text) - 1, text, NULL);
            of[sizeof(of) - 1] = '\0';
            const int n = snprintf(line, sizeof(line), "%.250s (%.120s)\n", text, of);
            sonde_file_write_all(fd, line, (size_t)n);
        }
    }
}

static _Noreturn void doctor_opencl_child(int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* What drivers print is not doctor's. */
    dup2(fd, 3);
    close_range(4, ~0u, 0);
    FILE *null = fopen("/dev/null", "r+e");
    if (null) {
        dup2(fileno(null), STDOUT_FILENO);
        dup2(fileno(null), STDERR_FILENO);
    }
    doctor_opencl_list(3);
    _exit(0);
}

static void doctor_gpu_opencl(struct sonde_doctor *d)
{
    int ends[2], status = 0, late = 0;
    char text[8192];
    size_t len = 0;
    fflush(NULL);
    if (pipe(ends) != 0) return;
    const pid_t pid = fork();
    if (pid == 0) doctor_opencl_child(ends[1]);
    close(ends[1]);
    while (pid > 0 && len < sizeof(text) - 1) {
        struct pollfd p = { .fd = ends[0], .events = POLLIN };
        late = poll(&p, 1, OPENCL_MS) == 0;
        const ssize_t n = late ? 0 : read(ends[0], text + len, sizeof(text) - 1 - len);
        if (n <= 0) break;
        len += (size_t)n;
    }
    close(ends[0]);
    if (pid <= 0) return;
    if (late) kill(pid, SIGKILL);
    /* One that hangs in the kernel is not waited for. */
    waitpid(pid, &status, late ? WNOHANG : 0);
    text[len] = '\0';
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        sonde_visible(line, strlen(line));
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "OpenCL device: %s", line);
    }
    if (late || WIFSIGNALED(status)) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN, "programs that use OpenCL have the same trouble: "
                         "`clinfo` shows which driver", "OpenCL drivers %s when asked for devices",
                         late ? "hang" : "crash");
    }
}

void sonde_doctor_gpu(struct sonde_doctor *d)
{
    struct sonde_gpu_options o = sonde_cli_gpu_options(d->cli);
    struct sonde_gpu *g = NULL;
    const struct sonde_gpu_row *row;
    if (!o.enabled) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "gpu.enabled is false: GPUs are not read");
        return;
    }
    o.interval_ms = o.burst_ms = o.tick_ms = 100;
    if (sonde_gpu_create(&o, &g) != 0) return;
    sonde_gpu_settle(g, SETTLE_S);
    const size_t rows = sonde_gpu_rows(g, &row);
    if (!doctor_gpu_sources(d, g)) doctor_gpu_none(d, g);
    for (size_t i = 0; i < rows; i++) {
        if (row[i].there) doctor_gpu_row(d, &row[i]);
    }
    sonde_gpu_destroy(g);
    doctor_gpu_opencl(d);
}
