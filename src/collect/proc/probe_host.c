/* probe_host.c - the machine as a whole: CPU, memory, disks, file systems, network, load.
 *
 * Names follow Prometheus' conventions with the prefix sonde_host_; a few of them are there once
 * more as system_…, the names that existing dashboards of inference servers use. A sum over all
 * CPUs has a family of its own, so that sum() over a family never counts anything twice.
 *
 * Every file is opened once a tick. A file that is missing or malformed costs its own series and
 * nothing else. What belongs to a device that is gone goes away with it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/log.h"
#include "collect/proc/host_mounts.h"
#include "collect/proc/probe.h"
#include "collect/proc/probe_series.h"
#include "collect/proc/procfs.h"

#define CPUS_MAX 4096u
#define DEVICES_MAX 1024u  /* disks, and interfaces */

enum host_family {
    CPU_SECONDS, CPU_ALL_SECONDS, CPU_UTILIZATION, CPUS,
    MEM_TOTAL, MEM_FREE, MEM_AVAILABLE, MEM_BUFFERS, MEM_CACHED, MEM_SWAP_TOTAL, MEM_SWAP_FREE,
    MEM_DIRTY, MEM_SHMEM,
    DISK_READS, DISK_READ_BYTES, DISK_WRITES, DISK_WRITTEN_BYTES, DISK_IO_TIME,
    FS_SIZE, FS_FREE, FS_AVAIL,
    NET_RX_BYTES, NET_RX_PACKETS, NET_RX_ERRORS, NET_RX_DROPS,
    NET_TX_BYTES, NET_TX_PACKETS, NET_TX_ERRORS, NET_TX_DROPS,
    LOAD1, LOAD5, LOAD15, UPTIME, BOOT_TIME, CONTEXT_SWITCHES, FORKS, PROCS_RUNNING,
    PROCS_BLOCKED, PRESSURE_SOME, PRESSURE_FULL, SWAPPED, INFO,
    SYSTEM_CPU, SYSTEM_MEMORY, SYSTEM_DISK, SYSTEM_NET_RX, SYSTEM_NET_TX, SYSTEM_UPTIME,
    HOST_FAMILIES
};

#define ROW(id, n, h, u, t, k, s)                                                              \
    [id] = { .name = n, .help = h, .unit = u, .source = "host", .type = SONDE_##t,             \
             .kind = SONDE_KIND_##k, .scale = s },
#define BYTES(id, n, h) ROW(id, "sonde_host_" n "_bytes", h, "bytes", GAUGE, MEMORY, 1)

static const struct sonde_model_family_spec spec[HOST_FAMILIES] = {
    ROW(CPU_SECONDS, "sonde_host_cpu_seconds_total", "CPU time by mode, of each CPU.", "seconds",
        COUNTER, TIME, SONDE_PROBE_CLOCK_TICKS)
    ROW(CPU_ALL_SECONDS, "sonde_host_cpu_all_seconds_total", "CPU time by mode, of all CPUs.",
        "seconds", COUNTER, TIME, SONDE_PROBE_CLOCK_TICKS)
    ROW(CPU_UTILIZATION, "sonde_host_cpu_utilization_ratio",
        "Share of all CPU time that was not idle in the last interval.", "ratio", GAUGE, RATIO, 1)
    ROW(CPUS, "sonde_host_cpus", "CPUs that are online.", NULL, GAUGE, CUSTOM, 1)
    BYTES(MEM_TOTAL, "memory_total", "Memory of the machine.")
    BYTES(MEM_FREE, "memory_free", "Memory that nothing uses.")
    BYTES(MEM_AVAILABLE, "memory_available", "Memory that programs can get without swapping.")
    BYTES(MEM_BUFFERS, "memory_buffers", "Memory that buffers block devices.")
    BYTES(MEM_CACHED, "memory_cached", "Page cache, shared memory included.")
    BYTES(MEM_SWAP_TOTAL, "memory_swap_total", "Swap space.")
    BYTES(MEM_SWAP_FREE, "memory_swap_free", "Swap space that is free.")
    BYTES(MEM_DIRTY, "memory_dirty", "Memory that waits to be written to a disk.")
    BYTES(MEM_SHMEM, "memory_shmem", "Shared memory and tmpfs.")
    ROW(DISK_READS, "sonde_host_disk_reads_completed_total", "Reads that the disk completed.",
        NULL, COUNTER, COUNTER, 1)
    /* Sectors of diskstats are 512 bytes, whatever the disk's are. */
    ROW(DISK_READ_BYTES, "sonde_host_disk_read_bytes_total", "Bytes read from the disk.",
        "bytes", COUNTER, THROUGHPUT, 512)
    ROW(DISK_WRITES, "sonde_host_disk_writes_completed_total", "Writes that the disk completed.",
        NULL, COUNTER, COUNTER, 1)
    ROW(DISK_WRITTEN_BYTES, "sonde_host_disk_written_bytes_total", "Bytes written to the disk.",
        "bytes", COUNTER, THROUGHPUT, 512)
    ROW(DISK_IO_TIME, "sonde_host_disk_io_time_seconds_total",
        "Time in which the disk had something to do.", "seconds", COUNTER, TIME, 1e-3)
    BYTES(FS_SIZE, "filesystem_size", "Size of the file system.")
    BYTES(FS_FREE, "filesystem_free", "Free space, with what is reserved for root.")
    BYTES(FS_AVAIL, "filesystem_avail", "Free space that users can have.")
#define NET(id, n, h, u, k) ROW(id, "sonde_host_network_" n "_total", h, u, COUNTER, k, 1)
    NET(NET_RX_BYTES, "receive_bytes", "Bytes received.", "bytes", THROUGHPUT)
    NET(NET_RX_PACKETS, "receive_packets", "Packets received.", NULL, COUNTER)
    NET(NET_RX_ERRORS, "receive_errors", "Packets received with errors.", NULL, COUNTER)
    NET(NET_RX_DROPS, "receive_drops", "Packets dropped when received.", NULL, COUNTER)
    NET(NET_TX_BYTES, "transmit_bytes", "Bytes sent.", "bytes", THROUGHPUT)
    NET(NET_TX_PACKETS, "transmit_packets", "Packets sent.", NULL, COUNTER)
    NET(NET_TX_ERRORS, "transmit_errors", "Packets that could not be sent.", NULL, COUNTER)
    NET(NET_TX_DROPS, "transmit_drops", "Packets dropped when sent.", NULL, COUNTER)
#undef NET
    ROW(LOAD1, "sonde_host_load1", "Threads that ran or waited to, averaged over 1 minute.", NULL,
        GAUGE, CUSTOM, 1)
    ROW(LOAD5, "sonde_host_load5", "Threads that ran or waited to, averaged over 5 minutes.",
        NULL, GAUGE, CUSTOM, 1)
    ROW(LOAD15, "sonde_host_load15", "Threads that ran or waited to, averaged over 15 minutes.",
        NULL, GAUGE, CUSTOM, 1)
    ROW(UPTIME, "sonde_host_uptime_seconds", "Time since the machine booted.", "seconds", GAUGE,
        TIME, 1)
    ROW(BOOT_TIME, "sonde_host_boot_time_seconds", "When the machine booted, in unix time.",
        "seconds", GAUGE, TIME, 1)
    ROW(CONTEXT_SWITCHES, "sonde_host_context_switches_total", "Context switches.", NULL, COUNTER,
        COUNTER, 1)
    ROW(FORKS, "sonde_host_forks_total", "Processes and threads made.", NULL, COUNTER, COUNTER, 1)
    ROW(PROCS_RUNNING, "sonde_host_procs_running", "Threads that run or wait for a CPU.", NULL,
        GAUGE, CUSTOM, 1)
    ROW(PROCS_BLOCKED, "sonde_host_procs_blocked", "Threads that wait for a disk.", NULL, GAUGE,
        CUSTOM, 1)
    ROW(PRESSURE_SOME, "sonde_host_pressure_some_seconds_total",
        "Time in which at least one thread waited for the resource.", "seconds", COUNTER, TIME,
        1e-6)
    ROW(PRESSURE_FULL, "sonde_host_pressure_full_seconds_total",
        "Time in which all threads that had something to do waited for the resource.", "seconds",
        COUNTER, TIME, 1e-6)
    ROW(SWAPPED, "sonde_host_swapped_bytes_total",
        "Bytes that were read from swap space (in) or written to it (out).", "bytes", COUNTER,
        THROUGHPUT, 1)
    ROW(INFO, "sonde_host_info", "Always 1; the labels tell about the machine.", NULL, GAUGE,
        CUSTOM, 1)
    ROW(SYSTEM_CPU, "system_cpu_usage_percent", "CPU that was not idle in the last interval.",
        "percent", GAUGE, PERCENTAGE, 1)
    ROW(SYSTEM_MEMORY, "system_memory_usage_percent", "Memory that is not available.", "percent",
        GAUGE, PERCENTAGE, 1)
    ROW(SYSTEM_DISK, "system_disk_usage_percent",
        "Used part of the root file system, of what users can have, as df shows it.", "percent",
        GAUGE, PERCENTAGE, 1)
    ROW(SYSTEM_NET_RX, "system_network_bytes_received_total",
        "Bytes received by all interfaces but the loopback.", "bytes", COUNTER, THROUGHPUT, 1)
    ROW(SYSTEM_NET_TX, "system_network_bytes_sent_total",
        "Bytes sent by all interfaces but the loopback.", "bytes", COUNTER, THROUGHPUT, 1)
    ROW(SYSTEM_UPTIME, "system_uptime_seconds", "Time since the machine booted.", "seconds",
        GAUGE, TIME, 1)
};
#undef BYTES
#undef ROW

enum { MODE_IDLE = 3, MODE_IOWAIT = 4, MODES = 8 };
static const char *const mode_name[MODES] = { "user",   "nice", "system",  "idle",
                                              "iowait", "irq",  "softirq", "steal" };
_Static_assert(MODES <= SONDE_PROBE_ROW_SERIES, "a CPU's modes fit a row");

static const struct { const char *path, *resource; } pressure[] = {
    { "pressure/cpu", "cpu" },
    { "pressure/io", "io" },
    { "pressure/memory", "memory" },
    { "pressure/irq", "irq" },
};
#define PRESSURES SONDE_COUNT(pressure)

struct host {
    struct sonde_procfs_buf buf;
    int proc_fd;
    int block_fd;  /* sys/block; -1 = no such folder: no figures of disks */
    struct sonde_host_mounts mounts;
    struct sonde_probe_rows cpus, disks, nets, filesystems;
    uint64_t cpu_all[MODES];          /* clock ticks, never going back */
    int cpu_known;                    /* cpu_all is that of the tick before */
    uint64_t net_rx, net_tx;          /* bytes, all interfaces that ever were */
    uint64_t warned;                  /* rows left out that the log has told of */
    struct sonde_model_series *scalar[HOST_FAMILIES]; /* series without labels, and INFO */
    struct sonde_model_series *all_modes[MODES];
    struct sonde_model_series *some[PRESSURES], *full[PRESSURES];
    struct sonde_model_series *swapped[2]; /* in, out */
};

static void probe_host_gauge(struct host *h, struct sonde_model *m, enum host_family f,
                             double value)
{
    sonde_probe_gauge(m, &spec[f], NULL, NULL, 0, &h->scalar[f], value);
}

static void probe_host_counter(struct host *h, struct sonde_model *m, enum host_family f,
                               uint64_t value)
{
    sonde_probe_counter(m, &spec[f], NULL, NULL, 0, &h->scalar[f], value);
}

/* ---- stat -------------------------------------------------------------------------------- */

/* Idle and iowait of a running kernel do go back now and then; a counter must not. */
static void keep_rising(uint64_t *kept, const uint64_t *now, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (now[i] > kept[i]) kept[i] = now[i];
    }
}

static void read_cpu_all(struct host *h, struct sonde_model *m, const uint64_t *now)
{
    uint64_t before[MODES], total = 0, idle = 0;
    memcpy(before, h->cpu_all, sizeof(before));
    keep_rising(h->cpu_all, now, MODES);
    for (size_t i = 0; i < MODES; i++) {
        const struct sonde_label label = { "mode", mode_name[i] };
        sonde_probe_counter(m, &spec[CPU_ALL_SECONDS], NULL, &label, 1, &h->all_modes[i],
                            h->cpu_all[i]);
        total += h->cpu_all[i] - before[i];
    }
    idle = h->cpu_all[MODE_IDLE] - before[MODE_IDLE] + h->cpu_all[MODE_IOWAIT] -
           before[MODE_IOWAIT];
    if (h->cpu_known && total > 0) {
        const double busy = (double)(total - idle) / (double)total;
        probe_host_gauge(h, m, CPU_UTILIZATION, busy);
        probe_host_gauge(h, m, SYSTEM_CPU, 100 * busy);
    }
    h->cpu_known = 1;
}

static void probe_host_read_cpu(struct host *h, struct sonde_model *m,
                                struct sonde_procfs_text name, const uint64_t *now)
{
    char id[16];
    int fresh;
    sonde_procfs_copy((struct sonde_procfs_text){ name.p + 3, name.end }, id, sizeof(id));
    struct sonde_probe_row *row = sonde_probe_row(&h->cpus, id, &fresh);
    if (!row) return;
    keep_rising(row->last, now, MODES);
    for (size_t i = 0; i < MODES; i++) {
        const struct sonde_label labels[] = { { "mode", mode_name[i] }, { "cpu", id } };
        sonde_probe_counter(m, &spec[CPU_SECONDS], NULL, labels, 2, &row->series[i],
                            row->last[i]);
    }
}

static void read_stat(struct host *h, struct sonde_model *m)
{
    static const struct { const char *word; enum host_family family; } single[] = {
        { "ctxt", CONTEXT_SWITCHES },       { "btime", BOOT_TIME },
        { "processes", FORKS },             { "procs_running", PROCS_RUNNING },
        { "procs_blocked", PROCS_BLOCKED },
    };
    if (sonde_procfs_read(&h->buf, h->proc_fd, "stat") != 0) return;
    struct sonde_procfs_text text = sonde_procfs_text(&h->buf), line, word;
    while (sonde_procfs_line(&text, &line)) {
        uint64_t v[MODES];
        if (!sonde_procfs_word(&line, &word)) continue;
        if (word.end - word.p >= 3 && memcmp(word.p, "cpu", 3) == 0) {
            if (!sonde_procfs_u64s(&line, v, MODES)) continue;
            if (word.end - word.p == 3) read_cpu_all(h, m, v);
            else probe_host_read_cpu(h, m, word, v);
            continue;
        }
        for (size_t i = 0; i < SONDE_COUNT(single); i++) {
            const enum host_family f = single[i].family;
            if (!sonde_procfs_is(word, single[i].word) || !sonde_procfs_u64(&line, v)) continue;
            if (spec[f].type == SONDE_COUNTER) probe_host_counter(h, m, f, v[0]);
            else probe_host_gauge(h, m, f, (double)v[0]);
            break;
        }
    }
    sonde_probe_rows_sweep(m, &h->cpus);
    if (h->cpus.count > 0) probe_host_gauge(h, m, CPUS, (double)h->cpus.count);
}

/* ---- meminfo, loadavg, uptime, pressure -------------------------------------------------- */

static void read_meminfo(struct host *h, struct sonde_model *m)
{
    static const struct { const char *key; enum host_family family; } want[] = {
        { "MemTotal:", MEM_TOTAL },     { "MemFree:", MEM_FREE },
        { "MemAvailable:", MEM_AVAILABLE }, { "Buffers:", MEM_BUFFERS },
        { "Cached:", MEM_CACHED },      { "SwapTotal:", MEM_SWAP_TOTAL },
        { "SwapFree:", MEM_SWAP_FREE }, { "Dirty:", MEM_DIRTY },
        { "Shmem:", MEM_SHMEM },
    };
    enum { WANT = SONDE_COUNT(want), TOTAL = 0, AVAILABLE = 2 };
    if (sonde_procfs_read(&h->buf, h->proc_fd, "meminfo") != 0) return;
    struct sonde_procfs_key keys[WANT];
    for (size_t i = 0; i < WANT; i++) keys[i] = (struct sonde_procfs_key){ want[i].key, 0, 0 };
    sonde_procfs_keys(sonde_procfs_text(&h->buf), keys, WANT);
    for (size_t i = 0; i < WANT; i++) {
        if (keys[i].found) probe_host_gauge(h, m, want[i].family, (double)keys[i].value);
    }
    const struct sonde_procfs_key *total = &keys[TOTAL], *available = &keys[AVAILABLE];
    if (total->found && available->found && total->value >= available->value && total->value) {
        probe_host_gauge(h, m, SYSTEM_MEMORY,
                         100 * (double)(total->value - available->value) / (double)total->value);
    }
}

static void read_load_and_uptime(struct host *h, struct sonde_model *m)
{
    double v[3];
    if (sonde_procfs_read(&h->buf, h->proc_fd, "loadavg") == 0) {
        struct sonde_procfs_text text = sonde_procfs_text(&h->buf);
        if (sonde_procfs_double(&text, &v[0]) && sonde_procfs_double(&text, &v[1]) &&
            sonde_procfs_double(&text, &v[2])) {
            probe_host_gauge(h, m, LOAD1, v[0]);
            probe_host_gauge(h, m, LOAD5, v[1]);
            probe_host_gauge(h, m, LOAD15, v[2]);
        }
    }
    if (sonde_procfs_read(&h->buf, h->proc_fd, "uptime") == 0) {
        struct sonde_procfs_text text = sonde_procfs_text(&h->buf);
        if (sonde_procfs_double(&text, &v[0])) {
            probe_host_gauge(h, m, UPTIME, v[0]);
            probe_host_gauge(h, m, SYSTEM_UPTIME, v[0]);
        }
    }
}

/* `some avg10=0.98 avg60=1.19 avg300=0.34 total=6553569`, total in microseconds. */
static void read_swapped(struct host *h, struct sonde_model *m)
{
    static const struct { const char *word, *direction; } want[2] = { { "pswpin", "in" },
                                                                      { "pswpout", "out" } };
    const long page = sysconf(_SC_PAGESIZE);
    uint64_t pages;
    if (page <= 0 || sonde_procfs_read(&h->buf, h->proc_fd, "vmstat") != 0) return;
    struct sonde_procfs_text text = sonde_procfs_text(&h->buf);
    const char *at = memmem(text.p, h->buf.len, "\npswpin ", 8);
    if (!at) return;
    text.p = at + 1; /* 70 lines into the file */
    struct sonde_procfs_text line, word;
    for (size_t i = 0; i < 2 && sonde_procfs_line(&text, &line); i++) {
        const struct sonde_label label = { "direction", want[i].direction };
        if (!sonde_procfs_word(&line, &word) || !sonde_procfs_is(word, want[i].word) ||
            !sonde_procfs_u64(&line, &pages) || pages > UINT64_MAX / (uint64_t)page) {
            return;
        }
        sonde_probe_counter(m, &spec[SWAPPED], NULL, &label, 1, &h->swapped[i],
                            pages * (uint64_t)page);
    }
}

static void read_pressure(struct host *h, struct sonde_model *m)
{
    for (size_t i = 0; i < PRESSURES; i++) {
        if (sonde_procfs_read(&h->buf, h->proc_fd, pressure[i].path) != 0) continue;
        const struct sonde_label label = { "resource", pressure[i].resource };
        struct sonde_procfs_text text = sonde_procfs_text(&h->buf), line, which, word;
        while (sonde_procfs_line(&text, &line)) {
            if (!sonde_procfs_word(&line, &which)) continue;
            const int full = sonde_procfs_is(which, "full");
            if (!full && !sonde_procfs_is(which, "some")) continue;
            while (sonde_procfs_word(&line, &word)) {
                uint64_t us;
                if (word.end - word.p < 6 || memcmp(word.p, "total=", 6) != 0) continue;
                word.p += 6;
                if (!sonde_procfs_u64(&word, &us)) continue;
                sonde_probe_counter(m, &spec[full ? PRESSURE_FULL : PRESSURE_SOME], NULL, &label,
                                    1, full ? &h->full[i] : &h->some[i], us);
            }
        }
    }
}

/* ---- diskstats --------------------------------------------------------------------------- */

/* Only whole devices are in sys/block, where a `/` of the name is a `!`. */
static int disk_wanted(const struct host *h, const char *name)
{
    static const char *const not_disks[] = { "loop", "ram", "zram" };
    for (size_t i = 0; i < SONDE_COUNT(not_disks); i++) {
        if (strncmp(name, not_disks[i], strlen(not_disks[i])) == 0) return 0;
    }
    char entry[64];
    snprintf(entry, sizeof(entry), "%s", name);
    for (char *p = entry; *p; p++) {
        if (*p == '/') *p = '!';
    }
    return faccessat(h->block_fd, entry, F_OK, 0) == 0;
}

static void read_disks(struct host *h, struct sonde_model *m)
{
    /* After the name: reads, merged, sectors, ms, writes, merged, sectors, ms, in flight, ms. */
    static const struct { size_t field; enum host_family family; } want[] = {
        { 0, DISK_READS },         { 2, DISK_READ_BYTES }, { 4, DISK_WRITES },
        { 6, DISK_WRITTEN_BYTES }, { 9, DISK_IO_TIME },
    };
    enum { FIELDS = 10 };
    if (h->block_fd < 0 || sonde_procfs_read(&h->buf, h->proc_fd, "diskstats") != 0) return;
    struct sonde_procfs_text text = sonde_procfs_text(&h->buf), line, word;
    while (sonde_procfs_line(&text, &line)) {
        uint64_t device[2], v[FIELDS];
        char name[64];
        int fresh;
        if (!sonde_procfs_u64s(&line, device, 2) || !sonde_procfs_word(&line, &word)) continue;
        sonde_procfs_copy(word, name, sizeof(name));
        if (!sonde_procfs_u64s(&line, v, FIELDS)) continue;
        struct sonde_probe_row *row = sonde_probe_row(&h->disks, name, &fresh);
        if (!row) continue;
        if (fresh) row->ignored = !disk_wanted(h, name);
        if (row->ignored) continue;
        const struct sonde_label label = { "device", name };
        for (size_t i = 0; i < SONDE_COUNT(want); i++) {
            sonde_probe_counter(m, &spec[want[i].family], NULL, &label, 1, &row->series[i],
                                v[want[i].field]);
        }
    }
    sonde_probe_rows_sweep(m, &h->disks);
}

/* ---- net/dev ----------------------------------------------------------------------------- */

/* What came since the last tick; a count that went back began again from 0. */
static uint64_t probe_host_increase(uint64_t *last, uint64_t now)
{
    const uint64_t d = now >= *last ? now - *last : now;
    *last = now;
    return d;
}

static void read_net(struct host *h, struct sonde_model *m)
{
    /* Received: bytes packets errs drop fifo frame compressed multicast; sent: the same, the
     * last four being others. */
    static const struct { size_t field; enum host_family family; } want[] = {
        { 0, NET_RX_BYTES }, { 1, NET_RX_PACKETS }, { 2, NET_RX_ERRORS },  { 3, NET_RX_DROPS },
        { 8, NET_TX_BYTES }, { 9, NET_TX_PACKETS }, { 10, NET_TX_ERRORS }, { 11, NET_TX_DROPS },
    };
    enum { FIELDS = 12, WANT = SONDE_COUNT(want), TX_BYTES = 8 };
    _Static_assert(WANT <= SONDE_PROBE_ROW_SERIES, "an interface fits a row");
    if (sonde_procfs_read(&h->buf, h->proc_fd, "net/dev") != 0) return;
    struct sonde_procfs_text text = sonde_procfs_text(&h->buf), line, word;
    while (sonde_procfs_line(&text, &line)) {
        uint64_t v[FIELDS];
        char name[64];
        int fresh;
        const char *colon = memrchr(line.p, ':', (size_t)(line.end - line.p));
        if (!colon) continue; /* the two lines of headings */
        struct sonde_procfs_text before = { line.p, colon }, after = { colon + 1, line.end };
        if (!sonde_procfs_word(&before, &word)) continue;
        if (!sonde_procfs_u64s(&after, v, FIELDS)) continue;
        sonde_procfs_copy(word, name, sizeof(name));
        struct sonde_probe_row *row = sonde_probe_row(&h->nets, name, &fresh);
        if (!row) continue;
        const struct sonde_label label = { "device", name };
        for (size_t i = 0; i < WANT; i++) {
            sonde_probe_counter(m, &spec[want[i].family], NULL, &label, 1, &row->series[i],
                                v[want[i].field]);
        }
        if (strcmp(name, "lo") == 0) continue;
        h->net_rx += probe_host_increase(&row->last[0], v[0]);
        h->net_tx += probe_host_increase(&row->last[1], v[TX_BYTES]);
    }
    sonde_probe_rows_sweep(m, &h->nets);
    probe_host_counter(h, m, SYSTEM_NET_RX, h->net_rx);
    probe_host_counter(h, m, SYSTEM_NET_TX, h->net_tx);
}

/* ---- File systems ------------------------------------------------------------------------ */

static void read_filesystems(struct host *h, struct sonde_model *m)
{
    sonde_host_mounts_refresh(&h->mounts, &h->buf, h->proc_fd);
    for (size_t i = 0; i < h->mounts.count; i++) {
        const struct sonde_host_mount *mount = &h->mounts.mount[i];
        struct sonde_host_usage u;
        char key[sizeof(mount->device) + sizeof(mount->path) + sizeof(mount->type) + 3];
        int fresh;
        if (sonde_host_mount_usage(mount, &u) != 0) continue;
        snprintf(key, sizeof(key), "%s %s %s", mount->device, mount->type, mount->path);
        struct sonde_probe_row *row = sonde_probe_row(&h->filesystems, key, &fresh);
        if (!row) continue;
        const struct sonde_label labels[] = {
            { "device", mount->device }, { "mountpoint", mount->path }, { "fstype", mount->type }
        };
        sonde_probe_gauge(m, &spec[FS_SIZE], NULL, labels, 3, &row->series[0], u.size_bytes);
        sonde_probe_gauge(m, &spec[FS_FREE], NULL, labels, 3, &row->series[1], u.free_bytes);
        sonde_probe_gauge(m, &spec[FS_AVAIL], NULL, labels, 3, &row->series[2], u.avail_bytes);
        const double used = u.size_bytes - u.free_bytes;
        if (strcmp(mount->path, "/") == 0 && used + u.avail_bytes > 0) {
            probe_host_gauge(h, m, SYSTEM_DISK, 100 * used / (used + u.avail_bytes));
        }
    }
    sonde_probe_rows_sweep(m, &h->filesystems);
}

/* ---- The probe --------------------------------------------------------------------------- */

static void read_info(struct host *h, struct sonde_model *m)
{
    char hostname[256] = "", kernel[256] = "";
    struct sonde_procfs_text text, word;
    if (sonde_procfs_read(&h->buf, h->proc_fd, "sys/kernel/hostname") == 0) {
        text = sonde_procfs_text(&h->buf);
        if (sonde_procfs_word(&text, &word)) sonde_procfs_copy(word, hostname, sizeof(hostname));
    }
    if (sonde_procfs_read(&h->buf, h->proc_fd, "sys/kernel/osrelease") == 0) {
        text = sonde_procfs_text(&h->buf);
        if (sonde_procfs_word(&text, &word)) sonde_procfs_copy(word, kernel, sizeof(kernel));
    }
    const struct sonde_label labels[] = { { "hostname", hostname }, { "kernel", kernel } };
    if (!hostname[0] && !kernel[0]) return;
    sonde_probe_gauge(m, &spec[INFO], NULL, labels, 2, &h->scalar[INFO], 1);
}

static void host_read(void *state, const struct sonde_probe_env *env)
{
    struct host *h = state;
    struct sonde_model *m = env->model;
    if (m->shared) sonde_assert_held_write(&m->lock);
    if (!h->scalar[INFO]) read_info(h, m);
    read_stat(h, m);
    read_meminfo(h, m);
    read_disks(h, m);
    read_net(h, m);
    read_load_and_uptime(h, m);
    read_pressure(h, m);
    read_swapped(h, m);
    read_filesystems(h, m);
    const uint64_t left_out = h->cpus.left_out + h->disks.left_out + h->nets.left_out;
    if (left_out && !h->warned) {
        sonde_log(SONDE_LOG_WARN, "host: more than %u CPUs or %u disks or interfaces (or no memory "
                  "for them): the rest is not shown", CPUS_MAX, DEVICES_MAX);
        h->warned = 1;
    }
}

static void host_close(void *state)
{
    struct host *h = state;
    if (!h) return;
    sonde_probe_rows_release(&h->cpus);
    sonde_probe_rows_release(&h->disks);
    sonde_probe_rows_release(&h->nets);
    sonde_probe_rows_release(&h->filesystems);
    sonde_host_mounts_release(&h->mounts);
    sonde_procfs_buf_release(&h->buf);
    if (h->block_fd >= 0) close(h->block_fd);
    if (h->proc_fd >= 0) close(h->proc_fd);
    sonde__free(h);
}

static int host_open(const struct sonde_probe_env *env, void **state, struct sonde_err *err)
{
    struct host *h = sonde__calloc(1, sizeof(*h));
    if (!h) return sonde_err_set(err, SONDE_ENOMEM, "host: out of memory");
    h->block_fd = -1;
    h->cpus.max = CPUS_MAX;
    h->disks.max = h->nets.max = DEVICES_MAX;
    h->filesystems.max = SONDE_HOST_MOUNTS_MAX;
    sonde_host_mounts_init(&h->mounts);
    const int rc = sonde_probe_open_proc("host", env->proc_root, &h->proc_fd, &h->buf, err);
    if (rc) {
        host_close(h);
        return rc;
    }
    const int sys_fd = open(env->sys_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (sys_fd >= 0) {
        h->block_fd = openat(sys_fd, "block", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(sys_fd);
    }
    *state = h;
    return 0;
}

static int host_check(const struct sonde_probe_env *env, struct sonde_err *note)
{
    static const struct { const char *path, *lost; int optional; } file[] = {
        { "stat", "CPU", 0 },
        { "meminfo", "memory", 0 },
        { "diskstats", "disks", 0 },
        { "net/dev", "network", 0 },
        { "loadavg", "load", 0 },
        { "uptime", "uptime", 0 },
        { "self/mountinfo", "file systems", 0 },
        { "pressure/cpu", "pressure (start the kernel with psi=1)", 1 },
    };
    void *state;
    const int rc = host_open(env, &state, note);
    if (rc) return rc;
    struct host *h = state;
    char bad[320] = "";
    size_t n = 0;
    int missing = 0;
    for (size_t i = 0; i < SONDE_COUNT(file); i++) {
        if (sonde_procfs_read(&h->buf, h->proc_fd, file[i].path) == 0) continue;
        n += (size_t)snprintf(bad + n, sizeof(bad) - n, "%s%s", n ? ", " : "", file[i].lost);
        missing |= !file[i].optional;
    }
    if (h->block_fd < 0) {
        n += (size_t)snprintf(bad + n, sizeof(bad) - n, "%sdisks (mount sysfs at %.100s)",
                              n ? ", " : "", env->sys_root);
        missing = 1;
    }
    host_close(h);
    if (!n) {
        return sonde_err_set(note, 0, "CPU, memory, disks, file systems, network, load and "
                             "pressure can be read");
    }
    return sonde_err_set(note, missing ? SONDE_ENOENT : 0, "%s can not be read from %.100s%s",
                         bad, env->proc_root,
                         missing ? ": mount a full procfs there" : "; everything else can");
}

const struct sonde_probe_ops sonde_probe_host = {
    .name = "host",
    .summary = "CPU, memory, disks, file systems, network, load and pressure of the machine",
    .open = host_open,
    .read = host_read,
    .check = host_check,
    .close = host_close,
};
