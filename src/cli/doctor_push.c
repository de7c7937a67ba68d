/* doctor_push.c - where `serve` and `run` would send what they know: can it be reached, what
 * waits. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/doctor.h"
#include "cli/agent_options.h"
#include "present/units.h"
#include "sonde/sonde.h"

#define REACH_S 3.0

static void check_target(const struct sonde_push_target *t, const char *labels, void *arg)
{
    struct sonde_doctor *d = arg;
    struct sonde_err err = { "" };
    const int rc = sonde_push_reach(t, labels, REACH_S, &err);
    if (!rc) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s %s can be reached", t->kind, t->url);
    } else if (rc == SONDE_EINVAL) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL, "correct it; `sonde help config` lists the settings",
                         "%s: %s", t->kind, err.text);
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN, "is it running, and is the URL right? What is to be "
                         "sent waits until then", "%s %s cannot be reached: %s", t->kind, t->url,
                         err.text);
    }
}

/* Files of one destination: how many, how many bytes. */
static void count_files(int fd, uint64_t *count, uint64_t *bytes)
{
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct stat st;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        const size_t len = strlen(e->d_name);
        if (len < 7 || strcmp(e->d_name + len - 6, ".batch") != 0) continue;
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        ++*count;
        *bytes += (uint64_t)st.st_size;
    }
    if (dir) closedir(dir);
}

static void check_spool(struct sonde_doctor *d)
{
    char path[SONDE_CLI_SPOOL_MAX], text[SONDE_VALUE_BYTES];
    uint64_t count = 0, bytes = 0;
    DIR *dir = sonde_cli_push_spool(d->cli, path) ? opendir(path) : NULL;
    if (!dir) return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] == '.') continue;
        count_files(openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
                    &count, &bytes);
    }
    closedir(dir);
    if (!count) return;
    sonde_value_format(text, (double)bytes, SONDE_UNIT_BYTES, d->ascii);
    sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%llu batches (%s) wait in %s to be sent",
                     (unsigned long long)count, text, path);
}

void sonde_doctor_push(struct sonde_doctor *d)
{
    struct sonde_err err = { "" };
    size_t count = 0;
    if (sonde_cli_push_each(d->cli, check_target, d, &count, &err) != 0) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL, "correct it; `sonde help config` lists the settings",
                         "%s", err.text);
    } else if (!count) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "push is disabled: no --otlp, --remote-write, "
                         "--pyroscope");
    }
    check_spool(d);
}
