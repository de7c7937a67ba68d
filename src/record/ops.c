/* ops.c - ready-made metrics: operations, bandwidth, caches, pools, resource and throughput scopes,
 * all by families of ready.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "record/call.h"
#include "record/ready.h"
#include "record/state.h"

static const char *const outcome_names[] = { "ok", "error", "cancelled", "timeout" };

static struct ready op_duration =
    READY(SONDE_HISTOGRAM, "sonde_operation_duration_seconds", "Duration of operations.",
          "seconds", SONDE_KIND_TIME, 1e-9, LABELS("operation", "outcome"));
static struct ready op_errors =
    READY(SONDE_COUNTER, "sonde_operation_errors_total", "Operations that failed, by type.", NULL,
          SONDE_KIND_COUNTER, 1, LABELS("operation", "type"));
static struct ready bandwidth =
    READY(SONDE_COUNTER, "sonde_bandwidth_bytes_total", "Bytes moved in and out, by source.",
          "bytes", SONDE_KIND_THROUGHPUT, 1, LABELS("direction", "source"));
static struct ready cache =
    READY(SONDE_COUNTER, "sonde_cache_accesses_total", "Cache look-ups by tier and result.", NULL,
          SONDE_KIND_COUNTER, 1, LABELS("tier", "result"));
static struct ready pools =
    READY(SONDE_GAUGE, "sonde_memory_pool_bytes", "Memory in use, by what it is for.", "bytes",
          SONDE_KIND_MEMORY, 1, LABELS("pool"));
static struct ready res_wall =
    READY(SONDE_HISTOGRAM, "sonde_resource_wall_seconds", "Wall time spent in a scope.",
          "seconds", SONDE_KIND_TIME, 1e-9, LABELS("scope"));
static struct ready res_cpu =
    READY(SONDE_HISTOGRAM, "sonde_resource_cpu_seconds", "CPU time of the thread in a scope.",
          "seconds", SONDE_KIND_TIME, 1e-9, LABELS("scope"));
static struct ready res_faults =
    READY(SONDE_COUNTER,
          "sonde_resource_page_faults_total", "Page faults of the thread in a scope.",
          NULL, SONDE_KIND_MEMORY, 1, LABELS("scope", "kind"));
static struct ready res_memory =
    READY(SONDE_GAUGE, "sonde_resource_memory_delta_bytes",
          "Change of the process's resident memory over a scope, last and summed.", "bytes",
          SONDE_KIND_MEMORY, 1, LABELS("scope", "over"));
static struct ready thr_items =
    READY(SONDE_COUNTER, "sonde_throughput_items_total", "Items handled in a scope.", NULL,
          SONDE_KIND_THROUGHPUT, 1, LABELS("scope"));
static struct ready thr_seconds =
    READY(SONDE_COUNTER, "sonde_throughput_seconds_total", "Time spent in a scope.", "seconds",
          SONDE_KIND_THROUGHPUT, 1e-9, LABELS("scope"));
static struct ready thr_rate =
    READY(SONDE_GAUGE, "sonde_throughput_per_second", "Items per second, last time.", NULL,
          SONDE_KIND_THROUGHPUT, 1, LABELS("scope"));

/* ---- Operations ---------------------------------------------------------------------------- */

void sonde_op_begin(struct sonde_op *op, const char *operation)
{
    if (SONDE__GATE() == SONDE__GATE_OFF) {
        op->span.flags = 0;
        return;
    }
    sonde_span_begin(&op->span, sonde_name(operation));
}

void sonde_op_end(struct sonde_op *op, enum sonde_outcome outcome, const char *error_type)
{
    struct sonde_span *s = &op->span;
    if (!s->flags) return;
    const unsigned o = (unsigned)outcome <= SONDE_TIMEOUT ? (unsigned)outcome : SONDE_ERROR;
    const uint64_t ns = sonde_ticks_ns(sonde_ticks() - s->start);
    if (sonde__ensure_open() == 0) {
        const char *operation = sonde__family_name(s->name);
        const struct sonde_hist h = sonde_hist_bind(
            ready_family(&op_duration), (const char *const[]){ operation, outcome_names[o] });
        sonde_hist_record_traced(h, ns);
        if (o != SONDE_OK) {
            ready_count(&op_errors, operation, error_type ? error_type : outcome_names[o], 1);
        }
    }
    sonde_span_end(s, (enum sonde_outcome)o);
}

void sonde_bandwidth_in(const char *source, uint64_t bytes)
{
    ready_count(&bandwidth, "in", source, bytes);
}

void sonde_bandwidth_out(const char *source, uint64_t bytes)
{
    ready_count(&bandwidth, "out", source, bytes);
}

void sonde_cache_access(const char *tier, int hit)
{
    ready_count(&cache, tier ? tier : "default", hit ? "hit" : "miss", 1);
}

struct sonde_pool sonde_pool(const char *name)
{
    const char *const value[] = { name ? name : "default" };
    return (struct sonde_pool){ sonde_gauge_bind(ready_family(&pools), value).off };
}

/* ---- Resource scopes ----------------------------------------------------------------------- */

static uint64_t thread_cpu_ns(void)
{
    struct timespec ts;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts)) return 0;
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Second number of /proc/self/statm, in bytes; -1 if it cannot be read. */
static int64_t record_ops_resident_bytes(void)
{
    char text[128];
    const int saved = errno;
    long n = 0;
    /* Not open and read, which would make a scope a cancellation point. */
    const long fd = sonde__call(SYS_openat, AT_FDCWD, SONDE__WORD("/proc/self/statm"),
                                O_RDONLY | O_CLOEXEC, 0, 0);
    if (fd >= 0) {
        n = sonde__call(SYS_read, fd, SONDE__WORD(text), sizeof(text) - 1, 0, 0);
        sonde__call(SYS_close, fd, 0, 0, 0, 0);
    }
    errno = saved;
    if (n <= 0) return -1;
    text[n] = 0;
    const char *p = strchr(text, ' ');
    int64_t pages = 0;
    if (!p) return -1;
    for (p++; *p >= '0' && *p <= '9'; p++) pages = pages * 10 + (*p - '0');
    return pages * (int64_t)sysconf(_SC_PAGESIZE);
}

void sonde_resource_begin(struct sonde_resource *r, const char *scope)
{
    struct rusage u;
    memset(r, 0, sizeof(*r));
    if (SONDE__GATE() == SONDE__GATE_OFF) return;
    r->resident_bytes = record_ops_resident_bytes();
    if (!getrusage(RUSAGE_THREAD, &u)) {
        r->faults_minor = (uint64_t)u.ru_minflt;
        r->faults_major = (uint64_t)u.ru_majflt;
    }
    r->cpu_ns = thread_cpu_ns();
    sonde_span_begin(&r->span, sonde_name(scope));
}

void sonde_resource_end(struct sonde_resource *r) { sonde_resource_end_as(r, SONDE_OK); }

void sonde_resource_end_as(struct sonde_resource *r, enum sonde_outcome outcome)
{
    struct sonde_span *s = &r->span;
    struct rusage u;
    if (!s->flags) return;
    const uint64_t ns = sonde_ticks_ns(sonde_ticks() - s->start);
    const uint64_t cpu_ns = thread_cpu_ns() - r->cpu_ns;
    const uint32_t name = s->name;
    sonde_span_end(s, outcome);
    if (sonde__ensure_open()) return;

    const char *scope = sonde__family_name(name);
    sonde_hist_record(sonde_hist_bind(ready_family(&res_wall), &scope), ns);
    sonde_hist_record(sonde_hist_bind(ready_family(&res_cpu), &scope), cpu_ns);
    if (!getrusage(RUSAGE_THREAD, &u)) {
        ready_count(&res_faults, scope, "minor", (uint64_t)u.ru_minflt - r->faults_minor);
        ready_count(&res_faults, scope, "major", (uint64_t)u.ru_majflt - r->faults_major);
    }
    const int64_t resident = record_ops_resident_bytes();
    if (resident >= 0 && r->resident_bytes >= 0) {
        const double delta = (double)(resident - r->resident_bytes);
        const struct sonde_family f = ready_family(&res_memory);
        sonde_gauge_set(sonde_gauge_bind(f, (const char *const[]){ scope, "last" }), delta);
        sonde_gauge_add(sonde_gauge_bind(f, (const char *const[]){ scope, "sum" }), delta);
    }
}

/* ---- Throughput scopes --------------------------------------------------------------------- */

void sonde_throughput_begin(struct sonde_throughput *t, const char *scope, const uint64_t *items)
{
    memset(t, 0, sizeof(*t));
    if (SONDE__GATE() == SONDE__GATE_OFF) return;
    t->items = items;
    sonde_span_begin(&t->span, sonde_name(scope));
}

void sonde_throughput_end(struct sonde_throughput *t) { sonde_throughput_end_as(t, SONDE_OK); }

void sonde_throughput_end_as(struct sonde_throughput *t, enum sonde_outcome outcome)
{
    struct sonde_span *s = &t->span;
    if (!s->flags) return;
    const uint64_t ns = sonde_ticks_ns(sonde_ticks() - s->start);
    const uint32_t name = s->name;
    sonde_span_end(s, outcome);
    if (sonde__ensure_open()) return;
    const char *scope = sonde__family_name(name);
    const uint64_t items = t->items ? *t->items : 0;
    sonde_counter_add(sonde_counter_bind(ready_family(&thr_items), &scope), items);
    sonde_counter_add(sonde_counter_bind(ready_family(&thr_seconds), &scope), ns);
    if (ns) {
        sonde_gauge_set(sonde_gauge_bind(ready_family(&thr_rate), &scope),
                        (double)items * 1e9 / (double)ns);
    }
}
