/* The host probe: exact figures from a made-up /proc, what it does with lines and files that are
 * wrong or missing, devices that come and go, and the real machine against other oracles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "proc_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

extern const struct sonde_probe_ops sonde_probe_host;

static const char stat_text[] = "cpu  100 20 300 4000 50 6 7 8 9 10\n"
                                "cpu0 60 10 100 2000 30 3 4 5 0 0\n"
                                "cpu1 40 10 200 2000 20 3 3 3 0 0\n"
                                "intr 127017 0 0 0\n"
                                "ctxt 257146\nbtime 1700000000\nprocesses 5587\n"
                                "procs_running 2\nprocs_blocked 1\nsoftirq 1 2 3\n";

static void setup_files(const struct fixture *f)
{
    fixture_write(f, "proc/stat", stat_text);
    fixture_write(f, "proc/meminfo",
                  "MemTotal:       1000 kB\nMemFree:         300 kB\nMemAvailable:    250 kB\n"
                  "Buffers:          10 kB\nCached:           44 kB\nSwapCached:        1 kB\n"
                  "SwapTotal:       500 kB\nSwapFree:        499 kB\nDirty:             3 kB\n"
                  "Shmem:            12 kB\nHugePages_Total:   4\n");
    fixture_write(f, "proc/diskstats",
                  "   7       0 loop0 1 1 1 1 1 1 1 1 1 1 1\n"
                  " 253       0 zram0 1 1 1 1 1 1 1 1 1 1 1\n"
                  " 254       0 vda 28986 6851 2546122 38035 2393 5741 189696 1030 0 19332 39368 1 "
                  "2 3 4 5 6\n"
                  " 254       1 vda1 10 0 10 0 10 0 10 0 0 10 10\n"
                  " 104       0 cciss/c0d0 1 2 3 4 5 6 7 8 9 10 11\n");
    fixture_write(f, "sys/block/vda/size", "1");
    fixture_write(f, "sys/block/zram0/size", "1");
    fixture_write(f, "sys/block/loop0/size", "1");
    fixture_write(f, "sys/block/cciss!c0d0/size", "1");
    fixture_write(f, "proc/net/dev",
                  "Inter-|   Receive                           |  Transmit\n"
                  " face |bytes    packets errs drop fifo frame compressed multicast|bytes    "
                  "packets errs drop fifo colls carrier compressed\n"
                  "    lo:    3319      30    0    0    0     0          0         0     3319      "
                  "30    0    0    0     0       0          0\n"
                  "  eth0:18670593 513 1 2 3 4 5 6 26299 317 7 8 9 10 11 12\n");
    fixture_write(f, "proc/loadavg", "0.50 1.25 2.00 2/100 5597\n");
    fixture_write(f, "proc/vmstat", "nr_free_pages 5\npswpin 3\npswpout 4\npgfault 9\n");
    fixture_write(f, "proc/uptime", "1387.34 2700.00\n");
    fixture_write(f, "proc/pressure/cpu",
                  "some avg10=0.98 avg60=1.19 avg300=0.34 total=6553569\n"
                  "full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n");
    fixture_write(f, "proc/sys/kernel/hostname", "box\n");
    fixture_write(f, "proc/sys/kernel/osrelease", "6.18.44\n");
}

static void golden(void **state)
{
    (void)state;
    static const struct { const char *name, *labels; double value; } cases[] = {
        { "sonde_host_cpu_seconds_total", "mode=\"user\",cpu=\"0\"", 0.60 },
        { "sonde_host_cpu_seconds_total", "mode=\"steal\",cpu=\"1\"", 0.03 },
        { "sonde_host_cpu_seconds_total", "mode=\"idle\",cpu=\"1\"", 20 },
        { "sonde_host_cpu_all_seconds_total", "mode=\"user\"", 1 },
        { "sonde_host_cpu_all_seconds_total", "mode=\"nice\"", 0.2 },
        { "sonde_host_cpu_all_seconds_total", "mode=\"system\"", 3 },
        { "sonde_host_cpu_all_seconds_total", "mode=\"idle\"", 40 },
        { "sonde_host_cpu_all_seconds_total", "mode=\"iowait\"", 0.5 },
        { "sonde_host_cpu_all_seconds_total", "mode=\"irq\"", 0.06 },
        { "sonde_host_cpu_all_seconds_total", "mode=\"softirq\"", 0.07 },
        { "sonde_host_cpu_all_seconds_total", "mode=\"steal\"", 0.08 },
        { "sonde_host_cpus", "", 2 },
        { "sonde_host_memory_total_bytes", "", 1000 * 1024 },
        { "sonde_host_memory_free_bytes", "", 300 * 1024 },
        { "sonde_host_memory_available_bytes", "", 250 * 1024 },
        { "sonde_host_memory_buffers_bytes", "", 10 * 1024 },
        { "sonde_host_memory_cached_bytes", "", 44 * 1024 },
        { "sonde_host_memory_swap_total_bytes", "", 500 * 1024 },
        { "sonde_host_memory_swap_free_bytes", "", 499 * 1024 },
        { "sonde_host_memory_dirty_bytes", "", 3 * 1024 },
        { "sonde_host_memory_shmem_bytes", "", 12 * 1024 },
        { "system_memory_usage_percent", "", 75 },
        { "sonde_host_disk_reads_completed_total", "device=\"vda\"", 28986 },
        { "sonde_host_disk_read_bytes_total", "device=\"vda\"", 2546122.0 * 512 },
        { "sonde_host_disk_writes_completed_total", "device=\"vda\"", 2393 },
        { "sonde_host_disk_written_bytes_total", "device=\"vda\"", 189696.0 * 512 },
        { "sonde_host_disk_io_time_seconds_total", "device=\"vda\"", 19.332 },
        { "sonde_host_disk_reads_completed_total", "device=\"cciss/c0d0\"", 1 },
        { "sonde_host_disk_reads_completed_total", "device=\"vda1\"", -1 },
        { "sonde_host_disk_reads_completed_total", "device=\"loop0\"", -1 },
        { "sonde_host_disk_reads_completed_total", "device=\"zram0\"", -1 },
        { "sonde_host_network_receive_bytes_total", "device=\"eth0\"", 18670593 },
        { "sonde_host_network_receive_packets_total", "device=\"eth0\"", 513 },
        { "sonde_host_network_receive_errors_total", "device=\"eth0\"", 1 },
        { "sonde_host_network_receive_drops_total", "device=\"eth0\"", 2 },
        { "sonde_host_network_transmit_bytes_total", "device=\"eth0\"", 26299 },
        { "sonde_host_network_transmit_packets_total", "device=\"eth0\"", 317 },
        { "sonde_host_network_transmit_errors_total", "device=\"eth0\"", 7 },
        { "sonde_host_network_transmit_drops_total", "device=\"eth0\"", 8 },
        { "sonde_host_network_receive_bytes_total", "device=\"lo\"", 3319 },
        { "system_network_bytes_received_total", "", 18670593 },
        { "system_network_bytes_sent_total", "", 26299 },
        { "sonde_host_load1", "", 0.5 },
        { "sonde_host_load5", "", 1.25 },
        { "sonde_host_load15", "", 2 },
        { "sonde_host_uptime_seconds", "", 1387.34 },
        { "system_uptime_seconds", "", 1387.34 },
        { "sonde_host_boot_time_seconds", "", 1700000000 },
        { "sonde_host_context_switches_total", "", 257146 },
        { "sonde_host_forks_total", "", 5587 },
        { "sonde_host_swapped_bytes_total", "direction=\"in\"", 3.0 * 4096 },
        { "sonde_host_swapped_bytes_total", "direction=\"out\"", 4.0 * 4096 },
        { "sonde_host_procs_running", "", 2 },
        { "sonde_host_procs_blocked", "", 1 },
        { "sonde_host_pressure_some_seconds_total", "resource=\"cpu\"", 6.553569 },
        { "sonde_host_pressure_full_seconds_total", "resource=\"cpu\"", 12e-6 },
        { "sonde_host_pressure_some_seconds_total", "resource=\"memory\"", -1 },
        { "sonde_host_info", "hostname=\"box\",kernel=\"6.18.44\"", 1 },
        /* There is no interval yet. */
        { "sonde_host_cpu_utilization_ratio", "", -1 },
        { "system_cpu_usage_percent", "", -1 },
    };
    struct fixture f;
    fixture_init(&f, &sonde_probe_host);
    setup_files(&f);
    fixture_open(&f);
    fixture_tick(&f);
    for (size_t i = 0; i < COUNT(cases); i++) {
        const double v = value(&f, cases[i].name, cases[i].labels);
        if (v - cases[i].value > 1e-6 || cases[i].value - v > 1e-6) {
            print_error("%s{%s}\n", cases[i].name, cases[i].labels);
        }
        assert_near(v, cases[i].value);
    }
    assert_int_equal(f.model->dropped_conflicts, 0);
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void utilization(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, &sonde_probe_host);
    fixture_write(&f, "proc/stat", "cpu 100 0 100 1000 50 0 0 0\n");
    fixture_open(&f);
    fixture_tick(&f);
    /* 30 busy, 60 idle, 10 waiting for a disk. */
    fixture_write(&f, "proc/stat", "cpu 120 0 110 1060 60 0 0 0\n");
    fixture_tick(&f);
    assert_near(value(&f, "sonde_host_cpu_utilization_ratio", ""), 0.3);
    assert_near(value(&f, "system_cpu_usage_percent", ""), 30);
    /* Idle went back: it counts as standing still, and never as a huge number. */
    fixture_write(&f, "proc/stat", "cpu 140 0 110 1050 60 0 0 0\n");
    fixture_tick(&f);
    assert_near(value(&f, "sonde_host_cpu_utilization_ratio", ""), 1);
    assert_near(value(&f, "sonde_host_cpu_all_seconds_total", "mode=\"idle\""), 10.6);
    /* Nothing at all has passed: the last figure stays. */
    fixture_tick(&f);
    assert_near(value(&f, "sonde_host_cpu_utilization_ratio", ""), 1);
    fixture_release(&f);
}

static void malformed(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, &sonde_probe_host);
    setup_files(&f);
    fixture_write(&f, "proc/stat",
                  "cpu 1 2 3\n\ncpu0 1 2 3 4 5 6 7 99999999999999999999\n"
                  "cpu1 18446744073709551615 2 3 4 5 6 7 8\nctxt\nctxt -4\nprocesses 12 13\n"
                  "cpu\ngarbage");
    fixture_write(&f, "proc/meminfo", "MemTotal: 18446744073709551615 kB\nMemFree: -3 kB\n"
                                      "MemAvailable 3\nCached: 7");
    fixture_write(&f, "proc/diskstats", "254 0 vda 1 2 3\n254 x vda 1 2 3 4 5 6 7 8 9 10 11\n\n");
    fixture_write(&f, "proc/net/dev", "eth0 1 2 3\n: 1 2 3 4 5 6 7 8 9 10 11 12\neth1: 1 2\n"
                                      "br-0:1:7 1 2 3 4 5 6 7 8 9 10 11 12\n");
    fixture_write(&f, "proc/loadavg", "0.5 x 1");
    fixture_write(&f, "proc/uptime", "");
    fixture_write(&f, "proc/pressure/cpu", "some total=x\nfull\nnone total=7\nsome total=5");
    fixture_open(&f);
    fixture_tick(&f);
    fixture_tick(&f);
    assert_int_equal(series_of(&f, "sonde_host_cpu_all_seconds_total"), 0);
    assert_int_equal(series_of(&f, "sonde_host_cpu_seconds_total"), 8); /* cpu1 */
    assert_true(series(&f, "sonde_host_cpu_seconds_total", "mode=\"user\",cpu=\"1\"")->counter ==
                UINT64_MAX);
    assert_int_equal(series_of(&f, "sonde_host_context_switches_total"), 0);
    assert_near(value(&f, "sonde_host_forks_total", ""), 12);
    assert_int_equal(series_of(&f, "sonde_host_memory_total_bytes"), 0);
    assert_int_equal(series_of(&f, "sonde_host_memory_free_bytes"), 0);
    assert_near(value(&f, "sonde_host_memory_cached_bytes", ""), 7);
    assert_int_equal(series_of(&f, "system_memory_usage_percent"), 0);
    assert_int_equal(series_of(&f, "sonde_host_disk_reads_completed_total"), 0);
    assert_int_equal(series_of(&f, "sonde_host_network_receive_bytes_total"), 1);
    assert_near(value(&f, "sonde_host_network_receive_bytes_total", "device=\"br-0:1\""), 7);
    assert_int_equal(series_of(&f, "sonde_host_load1"), 0);
    assert_int_equal(series_of(&f, "sonde_host_uptime_seconds"), 0);
    assert_near(value(&f, "sonde_host_pressure_some_seconds_total", "resource=\"cpu\""), 5e-6);
    fixture_release(&f);
}

static void nothing_there(void **state)
{
    (void)state;
    struct fixture f;
    struct sonde_err note = { "" };
    fixture_init(&f, &sonde_probe_host);
    fixture_open(&f);
    fixture_tick(&f);
    for (size_t i = 0; i < f.model->family_count; i++) {
        assert_int_equal(f.model->families[i]->series_count, 0);
    }
    assert_int_equal(sonde_probe_host.check(&f.env, &note), SONDE_ENOENT);
    assert_non_null(strstr(note.text, "memory"));
    assert_non_null(strstr(note.text, f.sys));
    fixture_rm(&f, "proc");
    assert_int_equal(sonde_probe_host.check(&f.env, &note), SONDE_ENOENT);
    assert_non_null(strstr(note.text, f.proc));
    fixture_release(&f);
}

static void devices_come_and_go(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, &sonde_probe_host);
    setup_files(&f);
    fixture_open(&f);
    fixture_write(&f, "proc/net/dev",
                  "a: 100 1 0 0 0 0 0 0 10 1 0 0\nb: 50 1 0 0 0 0 0 0 5 1 0 0\n");
    fixture_tick(&f);
    assert_near(value(&f, "system_network_bytes_received_total", ""), 150);
    fixture_write(&f, "proc/net/dev", "b: 60 1 0 0 0 0 0 0 6 1 0 0\nc: 7 1 0 0 0 0 0 0 8 1 0 0\n");
    fixture_tick(&f);
    assert_near(value(&f, "sonde_host_network_receive_bytes_total", "device=\"a\""), -1);
    assert_near(value(&f, "sonde_host_network_receive_bytes_total", "device=\"b\""), 60);
    assert_near(value(&f, "sonde_host_network_receive_bytes_total", "device=\"c\""), 7);
    assert_near(value(&f, "system_network_bytes_received_total", ""), 167); /* never falls */
    assert_near(value(&f, "system_network_bytes_sent_total", ""), 10 + 6 + 8);
    fixture_write(&f, "proc/net/dev", "c: 3 1 0 0 0 0 0 0 8 1 0 0\n"); /* began again */
    fixture_tick(&f);
    assert_near(value(&f, "system_network_bytes_received_total", ""), 170);
    /* A CPU is taken offline. */
    assert_int_equal(series_of(&f, "sonde_host_cpu_seconds_total"), 16);
    fixture_write(&f, "proc/stat", "cpu 1 2 3 4 5 6 7 8\ncpu1 1 2 3 4 5 6 7 8\n");
    fixture_tick(&f);
    assert_int_equal(series_of(&f, "sonde_host_cpu_seconds_total"), 8);
    assert_near(value(&f, "sonde_host_cpus", ""), 1);
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Mounts point at folders of the fixture, so that statvfs has something to ask. */
static void filesystems(void **state)
{
    (void)state;
    struct fixture f;
    char text[4096];
    struct statvfs v;
    fixture_init(&f, &sonde_probe_host);
    fixture_write(&f, "mnt/a b/x", "");
    fixture_write(&f, "mnt/nfs/local/x", "");
    const char *r = f.root;
    snprintf(text, sizeof(text),
             "1 0 8:1 / / rw - ext4 /dev/root rw\n"
             "2 1 8:2 / %s/mnt/a\\040b rw,noatime shared:1 master:2 - xfs /dev/sd\\134b rw\n"
             "3 1 8:2 / %s/mnt rw - xfs /dev/sdb rw\n"            /* the same device again */
             "4 1 0:5 / %s/mnt/nfs rw - nfs4 server:/x rw\n"      /* could hang */
             "5 1 8:9 / %s/mnt/nfs/local rw - ext4 /dev/sdc rw\n" /* below, but mounted on 1 */
             "6 1 0:6 / /proc rw - proc proc rw\n"
             "7 1 0:7 / %s/none rw - ext4 /dev/sdd rw\n"          /* no such folder */
             "8 1 0:8 / %s/mnt/fuse rw - fuse.sshfs host: rw\n"
             "9 1 8:1 /sub %s/bind rw - ext4 /dev/root rw\n"
             "broken line\n10 1 8:3 / /x rw no dash\n\n",
             r, r, r, r, r, r, r);
    fixture_write(&f, "proc/self/mountinfo", text);
    fixture_open(&f);
    fixture_tick(&f);
    /* 3 lies over 2, and 4 over 5: of those only what is reached by its path is shown. */
    assert_int_equal(series_of(&f, "sonde_host_filesystem_size_bytes"), 2);
    assert_int_equal(statvfs("/", &v), 0);
    assert_near(value(&f, "sonde_host_filesystem_size_bytes",
                      "device=\"/dev/root\",mountpoint=\"/\",fstype=\"ext4\""),
                (double)v.f_blocks * (double)v.f_frsize);
    snprintf(text, sizeof(text), "device=\"/dev/sdb\",mountpoint=\"%s/mnt\"", r);
    assert_true(value(&f, "sonde_host_filesystem_avail_bytes", text) >= 0);
    const double percent = value(&f, "system_disk_usage_percent", "");
    assert_true(percent >= 0 && percent <= 100);

    snprintf(text, sizeof(text), "1 0 8:1 / / rw - ext4 /dev/root rw\n"
             "2 1 8:2 / %s/mnt/a\\040b rw,noatime shared:1 - xfs /dev/sd\\134b rw\n", r);
    fixture_write(&f, "proc/self/mountinfo", text);
    fixture_tick(&f);
    assert_int_equal(series_of(&f, "sonde_host_filesystem_size_bytes"), 2);
    snprintf(text, sizeof(text), "device=\"/dev/sd\\\\b\",mountpoint=\"%s/mnt/a b\"", r);
    assert_true(value(&f, "sonde_host_filesystem_free_bytes", text) >= 0);

    /* A network mount over the whole: nothing below it may be touched. */
    snprintf(text, sizeof(text), "1 0 8:1 / / rw - ext4 /dev/root rw\n"
             "2 1 8:2 / %s/mnt/a\\040b rw - xfs /dev/sdb rw\n"
             "3 1 0:9 / %s/mnt rw - nfs s:/ rw\n", r, r);
    fixture_write(&f, "proc/self/mountinfo", text);
    fixture_tick(&f);
    assert_int_equal(series_of(&f, "sonde_host_filesystem_size_bytes"), 1);
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, &sonde_probe_host);
    setup_files(&f);
    sonde_model_destroy(f.model);
    for (uint64_t nth = 1; nth <= 1000; nth++) { /* a first tick makes some 700 */
        struct sonde_err err;
        assert_int_equal(sonde__alloc_live(), 0);
        assert_int_equal(sonde_model_create(NULL, &f.model), 0);
        f.env.model = f.model;
        const int64_t before = sonde__alloc_live();
        sonde__alloc_fail_nth(nth);
        const int rc = f.ops->open(&f.env, &f.probe, &err);
        if (rc == 0) fixture_tick(&f);
        sonde__alloc_fail_nth(0);
        if (rc) {
            assert_int_equal(rc, SONDE_ENOMEM);
            assert_int_equal(sonde__alloc_live(), before);
            f.probe = NULL;
        } else { /* the next tick puts right what is missing */
            fixture_tick(&f);
            assert_int_equal(series_of(&f, "sonde_host_cpu_seconds_total"), 16);
            assert_near(value(&f, "sonde_host_load1", ""), 0.5);
        }
        f.ops->close(f.probe);
        sonde_model_destroy(f.model);
    }
    f.probe = NULL;
    f.model = NULL;
    fixture_release(&f);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- The real machine -------------------------------------------------------------------- */

static void real_machine(void **state)
{
    (void)state;
    struct fixture f;
    struct sysinfo info;
    struct utsname name;
    struct sonde_err note = { "" };
    char labels[600];
    fixture_init(&f, &sonde_probe_host);
    f.env.proc_root = "/proc";
    f.env.sys_root = "/sys";
    fixture_open(&f);
    fixture_tick(&f);
    assert_int_equal(sysinfo(&info), 0);
    assert_int_equal(uname(&name), 0);
    assert_near(value(&f, "sonde_host_memory_total_bytes", ""),
                (double)info.totalram * (double)info.mem_unit);
    assert_near(value(&f, "sonde_host_cpus", ""), (double)sysconf(_SC_NPROCESSORS_ONLN));
    const double up = value(&f, "sonde_host_uptime_seconds", "");
    assert_true(up > 0 && up <= (double)info.uptime + 1);
    const double booted = value(&f, "sonde_host_boot_time_seconds", "");
    assert_true(booted + up <= (double)time(NULL) + 2);
    snprintf(labels, sizeof(labels), "hostname=\"%s\",kernel=\"%s\"", name.nodename, name.release);
    assert_near(value(&f, "sonde_host_info", labels), 1);
    const double used = value(&f, "system_memory_usage_percent", "");
    assert_true(used > 0 && used < 100);

    /* Counters rise, and by no more than the CPUs there are could have used. */
    const double idle = value(&f, "sonde_host_cpu_all_seconds_total", "mode=\"idle\"");
    const double switches = value(&f, "sonde_host_context_switches_total", "");
    const struct timespec pause = { 0, 50000000 };
    nanosleep(&pause, NULL);
    fixture_tick(&f);
    assert_true(value(&f, "sonde_host_cpu_all_seconds_total", "mode=\"idle\"") >= idle);
    assert_true(value(&f, "sonde_host_context_switches_total", "") > switches);
    const double ratio = value(&f, "sonde_host_cpu_utilization_ratio", "");
    assert_true(ratio == -1 || (ratio >= 0 && ratio <= 1)); /* -1: no clock tick passed */
    assert_int_equal(f.model->dropped_conflicts, 0);
    assert_int_equal(f.model->dropped_series, 0);
    assert_int_equal(sonde_probe_host.check(&f.env, &note), 0);
    assert_true(note.text[0] != 0);

    /* In the steady state a tick allocates nothing. */
    const int64_t live = sonde__alloc_live();
    sonde__alloc_fail_nth(1);
    f.ops->read(f.probe, &f.env);
    sonde__alloc_fail_nth(0);
    assert_int_equal(sonde__alloc_live(), live);
    fixture_release(&f);
}

int main(void)
{
    sonde_log_open(SONDE_LOG_ERROR, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),
        cmocka_unit_test(utilization),
        cmocka_unit_test(malformed),
        cmocka_unit_test(nothing_there),
        cmocka_unit_test(devices_come_and_go),
        cmocka_unit_test(filesystems),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(real_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
