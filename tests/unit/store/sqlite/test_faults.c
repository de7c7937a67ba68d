/* The store when things go wrong: killed, power cut at any write, no space, a disk that cannot be
 * written, damaged pages. SQLite's own calls of the system are what fails here. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "store/sqlite/private.h"
#include "unit/store/sqlite/store_build.h"

/* ---- Writes that fail, or are the last ------------------------------------------------------- */

enum { SNAPSHOTS_MAX = 80 };

static struct {
    pthread_mutex_t lock;
    int error;                /* errno of every write; 0 = they work */
    int read_only;            /* no file can be made, or opened for writing */
    int hangs;                /* writes do not return … */
    int hanging;              /* … so many that were begun */
    pthread_cond_t changed;
    uint64_t writes;
    uint64_t every;           /* a copy of all files at every so many writes; 0 = none */
    uint32_t flushed;         /* ticks that are known to be on disk now */
    size_t snapshots;
    uint32_t at_least[SNAPSHOTS_MAX];
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void copy_file(const char *suffix, const char *to)
{
    char from[256], name[256], block[65536];
    snprintf(from, sizeof(from), "%s%s", build_path, suffix);
    snprintf(name, sizeof(name), "%s%s", to, suffix);
    FILE *in = fopen(from, "r");
    if (!in) return;
    FILE *out = fopen(name, "w");
    if (out) {
        for (size_t n; (n = fread(block, 1, sizeof(block), in)) > 0;) fwrite(block, 1, n, out);
        fclose(out);
    }
    fclose(in);
}

/* The moment of a power cut: half of this write is on the disk. */
static void take_snapshot(void)
{
    char to[256];
    snprintf(to, sizeof(to), "%s/snap%zu", build_dir, disk.snapshots);
    copy_file("", to);
    copy_file("-wal", to);
    disk.at_least[disk.snapshots++] = disk.flushed;
}

static ssize_t our_pwrite(int fd, const void *data, size_t n, off_t at)
{
    pthread_mutex_lock(&disk.lock);
    disk.writes++;
    ssize_t done = -1;
    disk.hanging++;
    pthread_cond_broadcast(&disk.changed);
    while (disk.hangs) pthread_cond_wait(&disk.changed, &disk.lock);
    disk.hanging--;
    if (disk.error) {
        errno = disk.error;
    } else {
        if (disk.every && disk.writes % disk.every == 0 && disk.snapshots < SNAPSHOTS_MAX &&
            pwrite(fd, data, n / 2, at) == (ssize_t)(n / 2)) {
            take_snapshot();
        }
        done = pwrite(fd, data, n, at);
    }
    pthread_mutex_unlock(&disk.lock);
    return done;
}

static int our_open(const char *path, int flags, int mode)
{
    pthread_mutex_lock(&disk.lock);
    const int refused = disk.read_only && flags & (O_WRONLY | O_RDWR | O_CREAT);
    pthread_mutex_unlock(&disk.lock);
    if (!refused) return open(path, flags, mode);
    errno = EROFS;
    return -1;
}

static void disk_is_read_only(int is)
{
    pthread_mutex_lock(&disk.lock);
    disk.read_only = is;
    pthread_mutex_unlock(&disk.lock);
}

static void disk_fails(int error)
{
    pthread_mutex_lock(&disk.lock);
    disk.error = error;
    pthread_mutex_unlock(&disk.lock);
}

static int hook_disk(void **unused)
{
    (void)unused;
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)our_open);
    vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)our_pwrite);
    vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)our_pwrite);
    return 0;
}

/* ---- Helpers --------------------------------------------------------------------------------- */

/* On a fast disk there are hundreds of ticks a second here, and each one's events are looked
 * for. */
enum { EVENTS_PER_S = 1000000 };

/* All of the first ticks are there, with their values; returns how many. */
static uint32_t check_ticks(struct sonde_store *s, uint32_t at_least)
{
    struct sonde_err err = { "" };
    if (ask(s, "g3", START_S - 1, 0, 0, &err) != 0) fail_msg("%s", err.text);
    const uint32_t count = (uint32_t)build_answer.count;
    if (count < at_least) fail_msg("%u ticks where %u were written", count, at_least);
    for (uint32_t i = 0; i < count; i++) {
        assert_true(build_answer.point[i].time_s == START_S + i);
        assert_true(build_answer.point[i].last == 3000.0 + i);
    }
    return count;
}

/* Beside each tick a span and a request of its number. */
static int add_events(struct sonde_store *s, uint32_t tick)
{
    const uint64_t at_ns = ((uint64_t)START_S + tick) * 1000000000u;
    const struct sonde_model_span span = {
        .name = "step", .program = "server", .pid = 42, .tid = 43, .id = tick + 1,
        .start_ns = at_ns, .duration_ns = 1000 + tick, .trace_hi = 1, .trace_lo = tick,
    };
    struct sonde_infer_item items[] = {
        { at_ns, at_ns + 500, 400, 12, "prefill", SONDE_PHASE_PREFILL, 1, 3 },
    };
    const struct sonde_infer_request request = {
        .id = tick + 1, .trace_hi = 2, .trace_lo = tick, .pid = 42, .program = "server",
        .model = "llama", .route = "/v1", .backend = "", .error = "", .invalid = "", .own_id = "",
        .arrived_ns = at_ns, .tokens_in = 12, .tokens_out = 1 + tick, .total_s = 1 + tick,
        .items = items, .item_count = 1,
    };
    const int rc = OPS->span_add(s, &span);
    return rc ? rc : OPS->request_add(s, &request);
}

struct events { uint32_t count; char *there; };

static int see_event(struct events *f, uint64_t id, uint64_t time_ns)
{
    const uint64_t tick = id - 1;
    assert_true(time_ns == ((uint64_t)START_S + tick) * 1000000000u);
    if (tick >= f->count) return 0; /* after what is known to be there */
    assert_false(f->there[tick]);
    f->there[tick] = 1;
    return 0;
}

static int see_span(const struct sonde_model_span *span, void *arg)
{
    assert_true(span->duration_ns == 1000 + span->id - 1);
    return see_event(arg, span->id, span->start_ns);
}

static int see_request(const struct sonde_infer_request *r, void *arg)
{
    assert_true(r->tokens_out == r->id && r->total_s == (double)r->id);
    assert_string_equal(r->model, "llama");
    return see_event(arg, r->id, r->arrived_ns);
}

/* Each of the first ticks' events is there, once. */
static void check_events(struct sonde_store *s, uint32_t count)
{
    struct sonde_err err = { "" };
    const struct sonde_store_range all = { 0 };
    for (int requests = 0; requests < 2; requests++) {
        struct events f = { count, sonde__calloc(count + 1, 1) };
        assert_non_null(f.there);
        const int rc = requests ? OPS->requests(s, &all, see_request, &f, NULL, &err)
                                : OPS->spans(s, &all, see_span, &f, NULL, &err);
        if (rc) fail_msg("%s", err.text);
        for (uint32_t i = 0; i < count; i++) {
            if (!f.there[i]) {
                fail_msg("%s %u of %u is not there", requests ? "request" : "span", i, count);
            }
        }
        sonde__free(f.there);
    }
}

static int put_finding(struct sonde_store *s, uint32_t number, struct sonde_err *err)
{
    const struct sonde_store_finding f = { .time_s = START_S + number, .kind = "leak",
                                           .subject = "cache", .value = number, .unit = "bytes",
                                           .text = "what is to be told" };
    return OPS->finding_put(s, &f, NULL, err);
}

static int see_finding(const struct sonde_store_finding *f, void *arg)
{
    uint32_t *left = arg;
    assert_true(*left > 0 && f->time_s == START_S + --*left && f->value == *left);
    assert_string_equal(f->subject, "cache");
    assert_string_equal(f->text, "what is to be told");
    return 0;
}

static int count_finding(const struct sonde_store_finding *f, void *arg)
{
    (void)f;
    ++*(uint32_t *)arg;
    return 0;
}

/* The first are there, each once; returns how many. */
static uint32_t check_findings(struct sonde_store *s, uint32_t at_least)
{
    struct sonde_err err = { "" };
    const struct sonde_store_range all = { 0 };
    uint32_t count = 0;
    if (OPS->findings(s, &all, count_finding, &count, &err) != 0) fail_msg("%s", err.text);
    if (count < at_least) fail_msg("%u findings where %u were put", count, at_least);
    uint32_t left = count;
    assert_int_equal(OPS->findings(s, &all, see_finding, &left, &err), 0);
    assert_int_equal(left, 0);
    return count;
}

static int integrity_ok(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &st, NULL), SQLITE_OK);
    const int ok = sqlite3_step(st) == SQLITE_ROW &&
                   !strcmp((const char *)sqlite3_column_text(st, 0), "ok");
    sqlite3_finalize(st);
    sqlite3_close(db);
    return ok;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void test_power_cut(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){
        .block_ticks = 25, .spans_per_s = EVENTS_PER_S, .requests_per_s = EVENTS_PER_S });
    struct load l = new_load(s, 5, 5, 2);
    struct sonde_err err = { "" };
    for (size_t taken = 0; taken < SNAPSHOTS_MAX && l.ticks < 3000;) {
        pthread_mutex_lock(&disk.lock);
        disk.every = 7;
        disk.flushed = l.ticks;
        taken = disk.snapshots;
        pthread_mutex_unlock(&disk.lock);
        add_ticks(&l, 1);
        assert_int_equal(add_events(s, l.ticks - 1), 0);
        flush(s);
        assert_int_equal(put_finding(s, l.ticks - 1, &err), 0);
    }
    pthread_mutex_lock(&disk.lock);
    disk.every = 0;
    pthread_mutex_unlock(&disk.lock);
    OPS->close(s);
    assert_true(disk.snapshots > 30);
    for (size_t i = 0; i < disk.snapshots; i++) {
        char path[256];
        snprintf(path, sizeof(path), "%s/snap%zu", build_dir, i);
        s = open_at(path, (struct sonde_store_options){ .block_ticks = 25 });
        check_ticks(s, disk.at_least[i]);
        check_events(s, disk.at_least[i]);
        check_findings(s, disk.at_least[i]);
        OPS->close(s);
        assert_true(integrity_ok(path));
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Written by the process that is killed. */
struct seen { volatile uint32_t flushed, findings; };

static void record_until_killed(struct seen *seen, uint32_t from)
{
    struct sonde_store *s = NULL;
    const struct sonde_store_options o = { .path = build_path, .block_ticks = 30,
                                           .spans_per_s = EVENTS_PER_S,
                                           .requests_per_s = EVENTS_PER_S };
    struct sonde_err err = { "" };
    if (OPS->open(&o, &s, &err) != 0) {
        dprintf(2, "%s\n", err.text);
        _exit(3);
    }
    struct load l = { .s = s, .gauges = 5, .counters = 5, .histograms = 2, .ticks = from,
                      .start_ms = (int64_t)START_S * 1000 };
    if (load_define(&l)) _exit(4);
    /* Rings outlive the agent: what may not be on disk yet comes once more. */
    for (uint32_t i = seen->flushed; i < from; i++) {
        if (add_events(s, i)) _exit(6);
    }
    for (;;) {
        if (add_events(s, l.ticks) || load_tick(&l) || OPS->flush(s, &err)) _exit(5);
        seen->flushed = l.ticks;
        if (put_finding(s, seen->findings, &err)) _exit(7);
        seen->findings++;
    }
}

static void test_killed(void **unused)
{
    (void)unused;
    struct seen *seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED);
    uint64_t random = 88172645463325252ull;
    uint32_t ticks = 0;
    for (int round = 0; round < 50; round++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) record_until_killed(seen, ticks);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        /* Every other time not before it has written something, however slow the disk is. */
        for (int i = 0; round % 2 && i < 20000 && seen->flushed <= ticks; i++) {
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        }
        const long us = (long)(random % 60000);
        nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
        kill(pid, SIGKILL);
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        if (access(build_path, F_OK) != 0) continue; /* it did not even begin */
        struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ 0 });
        ticks = check_ticks(s, seen->flushed);
        check_events(s, seen->flushed);
        seen->findings = check_findings(s, seen->findings); /* one more may have been put */
        OPS->close(s);
    }
    assert_true(integrity_ok(build_path));
    assert_true(ticks >= 25);
    munmap(seen, sizeof(*seen));
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Full, then space again: what fits into memory is not lost. */
static void test_disk_full(void **unused)
{
    (void)unused;
    static const struct { int error, code; const char *text; } cases[] = {
        { ENOSPC, SONDE_ENOSPC, "no space left" }, { EIO, SONDE_EIO, "disk I/O error" },
        { EDQUOT, SONDE_EIO, "" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_store *s = open_at(build_path, (struct sonde_store_options){
            .block_ticks = 20, .spans_per_s = EVENTS_PER_S, .requests_per_s = EVENTS_PER_S });
        struct load l = new_load(s, 5, 5, 2);
        struct sonde_err err = { "" };
        struct sonde_store_stats stats;
        add_ticks(&l, 10);
        flush(s);
        assert_int_equal(put_finding(s, 0, &err), 0);
        disk_fails(cases[i].error);
        add_ticks(&l, 65);
        for (uint32_t n = 0; n < 75; n++) assert_int_equal(add_events(s, n), 0);
        assert_int_equal(put_finding(s, 1, &err), cases[i].code); /* whoever puts it is told */
        assert_non_null(strstr(err.text, cases[i].text));
        assert_int_equal(OPS->flush(s, &err), SONDE_EIO);
        assert_non_null(strstr(err.text, cases[i].text));
        OPS->stats(s, &stats);
        assert_true(stats.failing_since_s > 0 && stats.failures > 0);
        check_ticks(s, 75); /* from memory */
        disk_fails(0);
        add_ticks(&l, 1);
        flush(s);
        OPS->stats(s, &stats);
        assert_true(!(stats.failing_since_s > 0));
        assert_int_equal(stats.dropped_ticks, 0);
        add_ticks(&l, 50);
        flush(s);
        check_ticks(s, 126);
        check_events(s, 75);
        assert_int_equal(put_finding(s, 1, &err), 0);
        OPS->close(s);
        s = open_at(build_path, (struct sonde_store_options){ .read_only = 1 });
        check_ticks(s, 126);
        assert_int_equal(build_answer.gaps, 0);
        check_events(s, 75);
        assert_int_equal(check_findings(s, 2), 2);
        OPS->close(s);
        unlink(build_path);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* While the disk takes its time, nobody waits who records: no lock that recording takes is held
 * over a write. If one were, this would not come to its end. */
static void test_disk_hangs(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 10 });
    struct load l = new_load(s, 5, 5, 2);
    add_ticks(&l, 25);
    flush(s);
    /* In the middle of points, packing, moving the log. */
    for (int round = 0; round < 20; round++) {
        pthread_mutex_lock(&disk.lock);
        disk.hangs = 1;
        pthread_mutex_unlock(&disk.lock);
        add_ticks(&l, 1);
        pthread_mutex_lock(&disk.lock);
        while (!disk.hanging) pthread_cond_wait(&disk.changed, &disk.lock);
        pthread_mutex_unlock(&disk.lock);
        add_ticks(&l, 7);
        const struct sonde_store_series spec = { .name = "new", .type = SONDE_GAUGE, .scale = 1 };
        struct sonde_store_stats stats;
        uint32_t slot;
        assert_int_equal(OPS->define(s, &spec, &slot), 0);
        OPS->stats(s, &stats);
        assert_int_equal(stats.ticks, l.ticks);
        pthread_mutex_lock(&disk.lock);
        disk.hangs = 0;
        pthread_cond_broadcast(&disk.changed);
        pthread_mutex_unlock(&disk.lock);
        if (round % 2) flush(s);
    }
    flush(s);
    check_ticks(s, l.ticks);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A series that is new while an older tick still waits for the disk is not in that tick, and is
 * there all the same from its own first one on. */
static void test_new_while_disk_hangs(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ 0 });
    struct load l = new_load(s, 1, 0, 0);
    add_ticks(&l, 2);
    flush(s);
    pthread_mutex_lock(&disk.lock);
    disk.hangs = 1;
    pthread_mutex_unlock(&disk.lock);
    add_ticks(&l, 1);
    pthread_mutex_lock(&disk.lock);
    while (!disk.hanging) pthread_cond_wait(&disk.changed, &disk.lock);
    pthread_mutex_unlock(&disk.lock);
    add_ticks(&l, 1); /* waits */
    const struct sonde_store_series spec = { .name = "late", .type = SONDE_GAUGE, .scale = 1 };
    assert_int_equal(OPS->define(s, &spec, &l.slot[l.gauges++]), 0);
    pthread_mutex_lock(&disk.lock);
    disk.hangs = 0;
    pthread_cond_broadcast(&disk.changed);
    pthread_mutex_unlock(&disk.lock);
    flush(s);
    add_ticks(&l, 3);
    flush(s);
    must_ask(s, "late", START_S, 0, 0);
    assert_int_equal(build_answer.count, 3);
    assert_true(build_answer.point[0].time_s == START_S + 4 && build_answer.point[2].last == 1006);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* For longer than memory lasts: recording goes on after, and the gap is shown. */
static void test_gap(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){
        .block_ticks = 50, .memory_max = 256 << 10 });
    struct load l = new_load(s, 5, 5, 2);
    struct sonde_err err = { "" };
    struct sonde_store_stats stats = { 0 };
    add_ticks(&l, 20);
    flush(s);
    disk_fails(ENOSPC);
    for (int i = 0; i < 20000 && !stats.dropped_ticks; i++) {
        load_tick(&l); /* may be refused */
        if (i % 20 == 0) OPS->flush(s, NULL);
        OPS->stats(s, &stats);
    }
    assert_true(stats.dropped_ticks > 0);
    disk_fails(0);
    const uint32_t again = l.ticks;
    for (int i = 0; i < 30; i++) {
        load_tick(&l);
        OPS->flush(s, NULL);
    }
    flush(s);
    if (ask(s, "g3", START_S - 1, 0, 0, &err) != 0) fail_msg("%s", err.text);
    assert_true(build_answer.count < l.ticks && build_answer.count > 40);
    const struct sonde_store_point *last = &build_answer.point[build_answer.count - 1];
    assert_true(last->time_s == START_S + l.ticks - 1 && last->time_s > START_S + again);
    assert_int_equal(build_answer.gaps >= 1, 1);
    assert_non_null(strstr(build_answer.gap, "disk"));
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* What was closed can be looked at and copied from a disk that cannot be written; of what was not
 * it is said what to do. */
static void test_read_only_disk(void **unused)
{
    (void)unused;
    char open_path[160], copy_path[160];
    struct sonde_err err = { "" };
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 20 });
    struct load l = new_load(s, 5, 5, 2);
    add_ticks(&l, 50);
    flush(s);
    snprintf(open_path, sizeof(open_path), "%s/open", build_dir);
    snprintf(copy_path, sizeof(copy_path), "%s/copy", build_dir);
    copy_file("", open_path);
    copy_file("-wal", open_path);
    OPS->close(s);
    disk_is_read_only(1);
    assert_int_equal(sonde_store_is_file(build_path), 1);
    s = open_at(build_path, (struct sonde_store_options){ .read_only = 1 });
    assert_int_equal(check_ticks(s, 50), 50);
    const struct sonde_store_options o = { .path = open_path, .read_only = 1 };
    struct sonde_store *other = NULL;
    assert_int_equal(OPS->open(&o, &other, &err), SONDE_EACCES);
    assert_non_null(strstr(err.text, "was not closed"));
    disk_is_read_only(0); /* elsewhere there is room */
    assert_int_equal(OPS->run_copy(s, 1, copy_path, &err), 0);
    OPS->close(s);
    s = open_at(copy_path, (struct sonde_store_options){ .read_only = 1 });
    assert_int_equal(check_ticks(s, 50), 50);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

static size_t aside(char *out, size_t size)
{
    size_t n = 0;
    char command[256];
    snprintf(command, sizeof(command), "ls %s/*.damaged-* 2>/dev/null", build_dir);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    char line[256];
    while (fgets(line, sizeof(line), f)) {
        if (!n++) snprintf(out, size, "%s", line);
    }
    pclose(f);
    return n;
}

/* Bytes in the middle of the file are not what they were. */
static void scribble_at(const char *path)
{
    struct stat st;
    char noise[8192];
    memset(noise, 0x5a, sizeof(noise));
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 5 * 8192);
    for (off_t at = 2 * 8192; at < st.st_size; at += 8192) {
        assert_int_equal(pwrite(fd, noise, sizeof(noise), at), sizeof(noise));
    }
    close(fd);
}

static void scribble(void) { scribble_at(build_path); }

static void test_damaged_at_start(void **unused)
{
    (void)unused;
    char name[256] = "", log[160], text[4096] = "";
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 20 });
    struct load l = new_load(s, 5, 5, 2);
    add_ticks(&l, 500);
    OPS->close(s);
    scribble();
    snprintf(log, sizeof(log), "%s/log", build_dir);
    assert_int_equal(sonde_log_open(SONDE_LOG_WARN, log), 0);
    s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 20 });
    assert_int_equal(sonde_log_open(SONDE_LOG_WARN, NULL), 0);
    assert_int_equal(aside(name, sizeof(name)), 1);
    FILE *f = fopen(log, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
    fclose(f);
    assert_non_null(strstr(text, "is damaged ("));
    assert_non_null(strstr(text, "age ")); /* which page */
    assert_non_null(strstr(text, ".recover"));
    /* Recording goes on in a new file. */
    l = new_load(s, 5, 5, 2);
    add_ticks(&l, 30);
    flush(s);
    assert_int_equal(check_ticks(s, 30), 30);
    OPS->close(s);
    assert_true(integrity_ok(build_path));
    assert_int_equal(sonde__alloc_live(), 0);
}

static struct sonde_store *open_then_damage(void)
{
    const struct sonde_store_options o = { .block_ticks = 20 };
    struct sonde_store *s = open_at(build_path, o);
    struct load l = new_load(s, 5, 5, 2);
    add_ticks(&l, 400);
    OPS->close(s);
    s = open_at(build_path, o);
    scribble();
    return s;
}

static void test_damaged_while_open(void **unused)
{
    (void)unused;
    char name[256];
    struct sonde_err err = { "" };
    struct sonde_store *s = open_then_damage();
    assert_int_equal(ask(s, "g3", START_S, 0, 0, &err), SONDE_EFORMAT);
    assert_non_null(strstr(err.text, "is damaged"));
    struct load l = new_load(s, 5, 5, 2);
    for (int i = 0; i < 200 && !aside(name, sizeof(name)); i++) {
        load_tick(&l);
        OPS->flush(s, NULL);
        if (ask(s, "g3", START_S, 0, 0, &err) == 0 && aside(name, sizeof(name))) break;
    }
    assert_int_equal(aside(name, sizeof(name)) > 0, 1);
    flush(s);
    const uint32_t count = l.ticks;
    assert_int_equal(check_ticks(s, count), count); /* what was recorded since is in the new file */
    OPS->close(s);
    assert_true(integrity_ok(build_path));
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Damaged, and the disk is full: the new file is made when that is possible, and only one. */
static void test_damaged_and_full(void **unused)
{
    (void)unused;
    char name[256];
    struct sonde_err err = { "" };
    struct sonde_store *s = open_then_damage();
    disk_fails(ENOSPC);
    assert_int_equal(ask(s, "g3", START_S, 0, 0, &err), SONDE_EFORMAT);
    struct load l = new_load(s, 5, 5, 2);
    for (int i = 0; i < 3; i++) {
        add_ticks(&l, 10);
        assert_int_equal(OPS->flush(s, &err), SONDE_EIO);
    }
    assert_non_null(strstr(err.text, "no space left"));
    disk_fails(0);
    flush(s);
    /* The log is moved to the new file as well. */
    for (int i = 0; i < 300; i++) {
        add_ticks(&l, 1);
        flush(s);
    }
    char wal[160];
    struct stat st;
    snprintf(wal, sizeof(wal), "%s-wal", build_path);
    assert_int_equal(stat(wal, &st), 0);
    assert_in_range(st.st_size, 1, 2 << 20);
    assert_int_equal(check_ticks(s, l.ticks), l.ticks);
    assert_in_range(aside(name, sizeof(name)), 1, 3); /* with its log */
    OPS->close(s);
    s = open_at(build_path, (struct sonde_store_options){ .read_only = 1 });
    assert_int_equal(check_ticks(s, l.ticks), l.ticks);
    OPS->close(s);
    assert_int_equal(number("SELECT count(*) FROM runs"), 1);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* What cannot be put aside, since its name would be too long, is left where it is. */
static void test_damaged_and_stuck(void **unused)
{
    (void)unused;
    char path[320], name[241];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(path, sizeof(path), "%s/%s", build_dir, name);
    struct sonde_store *s = open_at(path, (struct sonde_store_options){ .block_ticks = 20 });
    struct load l = new_load(s, 5, 5, 2);
    add_ticks(&l, 500);
    OPS->close(s);
    scribble_at(path);
    struct sonde_err err = { "" };
    const struct sonde_store_options o = { .path = path };
    assert_int_equal(OPS->open(&o, &s, &err), SONDE_EIO);
    assert_non_null(strstr(err.text, "cannot be kept as"));
    assert_int_equal(access(path, F_OK), 0);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* The agent ends while nothing can be written and a roll-up is half done: that is given up, and
 * what is not packed is packed at the next start. */
static void test_stopped_in_a_rollup(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 600 });
    struct load l = new_load(s, 5, 5, 2);
    struct sonde_err err = { "" };
    add_ticks(&l, 5000);
    flush(s);
    sonde_lock(&s->db_lock);
    for (int rc = 1; rc > 0;) rc = s->job.tier ? 0 : store_pack_step(s, &err);
    for (int rc = 1; rc > 0;) rc = store_rollup_step(s, &err);
    assert_int_equal(store_exec(s, "DELETE FROM blocks WHERE tier > 0", &err), 0);
    s->roll_wanted = 1;
    disk_fails(ENOSPC);
    assert_true(store_rollup_step(s, &err) < 0);
    assert_true(s->job.tier > 0);
    s->job.next = 1 << 20; /* as if so many series were done */
    sonde_unlock(&s->db_lock);
    OPS->close(s);
    disk_fails(0);
    s = open_at(build_path, (struct sonde_store_options){ 0 });
    assert_int_equal(check_ticks(s, l.ticks), l.ticks);
    OPS->close(s);
    assert_true(integrity_ok(build_path));
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_no_memory(void **unused)
{
    (void)unused;
    for (uint64_t nth = 1; nth < 60; nth++) {
        struct sonde_store *s = NULL;
        struct sonde_err err = { "" };
        const struct sonde_store_options o = { .path = build_path };
        sonde__alloc_fail_nth(nth);
        const int rc = OPS->open(&o, &s, &err);
        sonde__alloc_fail_nth(0);
        if (rc) {
            assert_int_equal(rc, SONDE_ENOMEM);
            assert_string_not_equal(err.text, "");
        }
        OPS->close(s);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_power_cut), TEST(test_killed),           TEST(test_disk_full),
        TEST(test_gap),       TEST(test_damaged_at_start), TEST(test_damaged_while_open),
        TEST(test_disk_hangs),     TEST(test_new_while_disk_hangs), TEST(test_damaged_and_full),
        TEST(test_damaged_and_stuck), TEST(test_read_only_disk),
        TEST(test_stopped_in_a_rollup), TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, hook_disk, NULL);
}
