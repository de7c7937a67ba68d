/* doctor_store.c - the store that is set: can it be read, and does the clock fit what is in it? */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/doctor.h"
#include "store/store.h"

#define DAY_S 86400.0
#define SLACK_S 60.0         /* two machines' clocks, and readings on their way */

struct newest {
    uint32_t runs;
    double end_s;
};

static void doctor_store_look(const struct sonde_store_run *r, void *arg)
{
    struct newest *n = arg;
    n->runs++;
    if (r->end_s > n->end_s) n->end_s = r->end_s;
}

static void tell_clock(struct sonde_doctor *d, const char *path, const struct newest *n)
{
    const double ahead_s = sonde_clock_s(CLOCK_REALTIME) - n->end_s;
    if (!n->runs) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s is empty", path);
    } else if (ahead_s > DAY_S) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN, "if the clock is wrong, set it before an agent "
                                               "records here; if it is right, all is well, and "
                                               "`sonde gc --force` deletes what is too old at once",
                         "the clock is %.1f days ahead of the newest in %s (%u runs): nothing is "
                         "deleted for its age until it has been so for a day", ahead_s / DAY_S,
                         path, n->runs);
    } else if (ahead_s < -SLACK_S) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "set the clock; if it is right, what was recorded in the future stays "
                         "until its time has come and gone, or `sonde runs delete`",
                         "the clock is %.1f days behind the newest in %s (%u runs)",
                         -ahead_s / DAY_S, path, n->runs);
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s can be read (%u runs), and the clock fits "
                         "what is in it", path, n->runs);
    }
}

void sonde_doctor_store(struct sonde_doctor *d)
{
    const char *path = d->cli->config.storage_path;
    const struct sonde_store_options o = { .path = path, .read_only = 1 };
    struct sonde_store *s = NULL;
    struct sonde_err err = { "" };
    struct newest newest = { 0, 0 };
    if (!path[0]) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL,
                         "nothing is kept: no --store, and storage.path is not set");
        return;
    }
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL,
                         "%s is not there yet, and will be created", path);
        return;
    }
    int rc = sonde_store_sqlite.open(&o, &s, &err);
    if (!rc) rc = sonde_store_sqlite.runs(s, doctor_store_look, &newest, &err);
    if (rc) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL, "name another file, or one that `sonde serve "
                         "--store` wrote", "%s cannot be read: %s", path, err.text);
    } else {
        tell_clock(d, path, &newest);
    }
    sonde_store_sqlite.close(s);
}
