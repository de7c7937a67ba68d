/* reader.c - the thread that looks for segments and reads what is new in them. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "collect/kernels/reading.h"
#include "sonde/sonde.h"

#define WAIT_MS 50
#define BYTES_DEFAULT ((size_t)192 << 20)
#define DEPTH_DEFAULT 64u

struct sonde_kernel_reader {
    struct sonde_kernel_reader_options options;
    char env[SONDE_PRELOAD_ENV_MAX];
    size_t env_size;
    struct sonde_thread thread;
    int wake_fd;
    struct sonde_preload_targets found; /* struct kernels_target; the thread's */
    struct kernels_reader reader;
};

static struct kernels_target *kernels_target_at(const struct sonde_kernel_reader *r, uint32_t i)
{
    return (struct kernels_target *)(void *)r->found.targets[i];
}

/* ---- Reading ----------------------------------------------------------------------------- */

static void reader_target(struct sonde_kernel_reader *r, struct kernels_target *t, int last)
{
    struct sonde_err err;
    if (!t->base.segment) return;
    sonde_preload_look(&r->found, &t->base);
    int rc = sonde_segment_kernels(t->base.segment, &t->info, &err);
    if (rc == 0 && r->found.only && t->info.session != r->found.only) rc = SONDE_ENOENT;
    if (rc == 0) {
        t->base.ours = 1;
        rc = kernels_target_read(&r->reader, t, last || t->base.gone, &err);
    }
    if (rc && rc != SONDE_ENOENT) {
        sonde_log(SONDE_LOG_WARN, "GPU commands of %s/%s: %s", r->found.dir, t->base.name,
                  err.text);
    }
    if (t->base.gone || (rc && rc != SONDE_ENOENT && rc != SONDE_ENOMEM)) kernels_target_release(t);
}

static void reader_round(struct sonde_kernel_reader *r, int last)
{
    sonde_tick_clock_update(&r->reader.clock);
    r->reader.now_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    sonde_preload_scan(&r->found);
    for (uint32_t i = 0; i < r->found.target_count; i++) {
        reader_target(r, kernels_target_at(r, i), last);
    }
}

static void *reader_loop(void *arg)
{
    struct sonde_kernel_reader *r = arg;
    struct pollfd p = { .fd = r->wake_fd, .events = POLLIN };
    while (poll(&p, 1, WAIT_MS) <= 0) reader_round(r, 0);
    reader_round(r, 1);
    return NULL;
}

/* ---- Starting ---------------------------------------------------------------------------- */

static void reader_free(struct sonde_kernel_reader *r)
{
    for (uint32_t i = 0; i < r->found.target_count; i++) {
        kernels_target_release(kernels_target_at(r, i));
    }
    sonde_preload_release(&r->found);
    sonde_cpu_stacks_destroy(r->reader.stacks);
    sonde_modules_destroy(r->reader.modules);
    sonde_map_release(&r->reader.by_slice);
    sonde_profile_destroy(r->reader.profile);
    if (r->wake_fd >= 0) close(r->wake_fd);
    sonde__free(r);
}

static int reader_parts(struct sonde_kernel_reader *r, struct sonde_err *err)
{
    const struct sonde_kernel_reader_options *o = &r->options;
    r->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r->wake_fd < 0) {
        return sonde_err_set(err, SONDE_EFULL, "cannot read GPU commands: %s", strerror(errno));
    }
    sonde_tick_clock_init(&r->reader.clock);
    int rc = sonde_profile_create(o->bytes_max, &r->reader.profile);
    if (!rc) rc = sonde_modules_create(0, &r->reader.modules);
    if (!rc) rc = sonde_cpu_stacks_create(r->reader.profile, o->depth_max, &r->reader.stacks);
    return rc ? sonde_err_set(err, rc, "no memory to read GPU commands") : 0;
}

static int reader_environment(struct sonde_kernel_reader *r, struct sonde_err *err)
{
    char variable[128];
    snprintf(variable, sizeof(variable), "SONDE_GPU=session=%016" PRIx64 ",depth=%" PRIu32
             ",on=%d,children=%d", r->found.session, r->options.depth_max, !r->options.off,
             r->options.children != 0);
    return sonde_preload_environment(variable, r->env, &r->env_size, err);
}

static int reader_start(const struct sonde_kernel_reader_options *options, int on_exec,
                        struct sonde_kernel_reader **out, struct sonde_err *err)
{
    assert(options->pid);
    struct sonde_kernel_reader *r = sonde__calloc(1, sizeof(*r));
    if (!r) return sonde_err_set(err, SONDE_ENOMEM, "no memory to read GPU commands");
    r->options = *options;
    r->options.dir = NULL;
    r->wake_fd = -1;
    if (!r->options.depth_max) r->options.depth_max = DEPTH_DEFAULT;
    if (r->options.depth_max < SONDE__DEPTH_MIN) r->options.depth_max = SONDE__DEPTH_MIN;
    if (r->options.depth_max > SONDE__KERNEL_DEPTH_MAX) {
        r->options.depth_max = SONDE__KERNEL_DEPTH_MAX;
    }
    if (!r->options.bytes_max) r->options.bytes_max = BYTES_DEFAULT;
    int rc = sonde_preload_init(&r->found, options->readers, options->dir, options->pid,
                                options->children, on_exec, sizeof(struct kernels_target), err);
    if (!rc) rc = reader_parts(r, err);
    if (!rc && on_exec) rc = reader_environment(r, err);
    if (!rc) rc = sonde_thread_start(&r->thread, "sonde-gpu", reader_loop, r, err);
    if (rc) {
        reader_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

int sonde_kernel_reader_start_on_exec(const struct sonde_kernel_reader_options *options,
                                      struct sonde_kernel_reader **out, struct sonde_err *err)
{
    return reader_start(options, 1, out, err);
}

int sonde_kernel_reader_start(const struct sonde_kernel_reader_options *options,
                              struct sonde_kernel_reader **out, struct sonde_err *err)
{
    return reader_start(options, 0, out, err);
}

const char *sonde_kernel_reader_environment(const struct sonde_kernel_reader *r, size_t *size)
{
    *size = r->env_size;
    return r->env;
}

int sonde_kernel_reader_stop(struct sonde_kernel_reader *r, struct sonde_profile **out)
{
    const uint64_t one = 1;
    const ssize_t woken = write(r->wake_fd, &one, sizeof(one));
    assert(woken == sizeof(one));
    (void)woken;
    sonde_thread_join(&r->thread);
    *out = NULL;
    if (r->reader.profile->samples_count || r->reader.profile->gpu) {
        *out = r->reader.profile;
        r->reader.profile = NULL;
    }
    reader_free(r);
    return 0;
}
