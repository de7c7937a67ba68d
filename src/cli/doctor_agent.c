/* doctor_agent.c - checks of sonde's own parts on this machine: settings, the directory of
 * segments and what is in it, the port, the probes. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/array.h"
#include "cli/doctor.h"
#include "collect/proc/probe.h"
#include "present/units.h"
#include "segment/segment.h"
#include "serve/http/caller.h"
#include "serve/http/auth.h"
#include "serve/http/listen.h"

static void doctor_agent_add_void(const char *name, const char *why, void *arg)
{
    sonde_doctor_add(arg, SONDE_DOCTOR_WARN, NULL, "%s has no effect in this version: %s", name,
                     why);
}

void sonde_doctor_config(struct sonde_doctor *d)
{
    const struct sonde_cli *cli = d->cli;
    if (cli->config_err.text[0]) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL,
                         "correct it; `sonde help config` lists the settings. The checks below "
                         "use what was read before it",
                         "%s", cli->config_err.text);
    } else if (cli->config_path) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s is valid", cli->config_path);
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "no file; the environment's settings are valid");
    }
    sonde_config_each_void(&cli->config, doctor_agent_add_void, d);
}

/* ---- Directory of segments ---------------------------------------------------------------- */

/* Take room in dir the way a segment does; 0 or an errno. Leaves nothing behind. */
static int try_file(const char *dir)
{
    char path[4200];
    snprintf(path, sizeof(path), "%s/.doctor-XXXXXX", dir);
    const int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) return errno;
    unlink(path);
    const int error = posix_fallocate(fd, 0, 1 << 20);
    close(fd);
    return error;
}

/* Can a directory be made in dir? 0 or an errno. Asking access(2) would not do: for root it says
 * yes on file systems where nothing can be made. */
static int try_mkdir(const char *dir)
{
    char path[4200];
    snprintf(path, sizeof(path), "%s/.doctor-XXXXXX", dir);
    if (!mkdtemp(path)) return errno;
    return rmdir(path) == 0 ? 0 : errno;
}

static void check_room(struct sonde_doctor *d, const char *dir)
{
    struct statfs fs;
    struct statvfs vfs;
    if (statfs(dir, &fs) != 0 || statvfs(dir, &vfs) != 0) return;
    if (vfs.f_flag & ST_RDONLY) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL,
                         "set SONDE_DIR (and --dir) to a directory that can be written to",
                         "%s is on a file system mounted read-only", dir);
        return;
    }
    char left[SONDE_VALUE_BYTES];
    sonde_value_format(left, (double)vfs.f_bavail * (double)vfs.f_frsize, SONDE_UNIT_BYTES,
                       d->ascii);
    if (fs.f_type != TMPFS_MAGIC) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "use a directory on a tmpfs: on a disk the kernel writes segments out "
                         "again and again",
                         "%s is not on a tmpfs (file system type 0x%lx, %s left)", dir,
                         (unsigned long)fs.f_type, left);
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s is on a tmpfs with %s left", dir, left);
    }
}

static void check_existing(struct sonde_doctor *d, const char *dir, const struct stat *st)
{
    if (!S_ISDIR(st->st_mode)) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL, "remove it, or set SONDE_DIR to another place",
                         "%s is not a directory", dir);
        return;
    }
    if (st->st_uid != geteuid()) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL,
                         "remove it, or set SONDE_DIR to a directory of your own",
                         "%s belongs to user %u, not to you (%u)", dir, st->st_uid, geteuid());
        return;
    }
    if (st->st_mode & 022) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL, "chmod 700 it",
                         "%s may be written to by others (mode %04o)", dir, st->st_mode & 07777);
        return;
    }
    const int error = try_file(dir);
    if (error) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL,
                         error == ENOSPC ? "make room there, or set SONDE_DIR to another place"
                                         : "set SONDE_DIR to a directory that can be written to",
                         "%s: cannot take room for a segment: %s", dir, strerror(error));
        return;
    }
    sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s is yours and can be written to", dir);
}

/* The default directory is not the usual one: segment/dir.c. */
static void check_passed_by(struct sonde_doctor *d, const char *dir)
{
    char usual[64];
    struct stat st;
    const char *asked = getenv("SONDE_DIR");
    snprintf(usual, sizeof(usual), SONDE__DIR_SHARED "%u", (unsigned)geteuid());
    if (d->cli->config.agent_dir[0] || (asked && *asked) || strcmp(dir, usual) == 0) return;
    if (lstat(usual, &st) == 0 && st.st_uid != geteuid()) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "ask that user to remove it; programs that run where /run is another "
                         "one (containers) cannot be seen",
                         "%s belongs to user %u: %s is used instead", usual, st.st_uid, dir);
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "if that is over, end what records and remove it",
                         "%s is used instead of %s, which was not ours when something was "
                         "recorded", dir, usual);
    }
}

/* The nearest directory above path that exists; path is cut to it. */
static void cut_to_parent(char *path)
{
    struct stat st;
    do {
        char *slash = strrchr(path, '/');
        if (!slash) {
            strcpy(path, ".");
            return;
        }
        slash[slash == path] = '\0';
    } while (stat(path, &st) != 0 && strcmp(path, "/") != 0);
}

void sonde_doctor_dir(struct sonde_doctor *d)
{
    char dir[4096], parent[4096];
    struct stat st;
    if (sonde_cli_dir(d->cli, dir, sizeof(dir)) != 0) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL, "set it to a shorter path", "SONDE_DIR is too long");
        return;
    }
    check_passed_by(d, dir);
    if (lstat(dir, &st) == 0) {
        check_existing(d, dir, &st);
        check_room(d, dir);
        return;
    }
    snprintf(parent, sizeof(parent), "%s", dir);
    cut_to_parent(parent);
    const int error = try_mkdir(parent);
    if (error) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL,
                         "create it, or set SONDE_DIR to a directory that can be written to",
                         "%s does not exist and cannot be created: %s: %s", dir, parent,
                         strerror(error));
        return;
    }
    sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL,
                     "%s will be created by the first process that records", dir);
    check_room(d, parent);
}

/* ---- Segments ----------------------------------------------------------------------------- */

static void check_drops(struct sonde_doctor *d, const struct sonde_model *m)
{
    static const char *const texts[] = {
#define SONDE__X(name, text) text,
        SONDE__DROPS(SONDE__X)
#undef SONDE__X
    };
    for (size_t i = 0; i < m->process_count; i++) {
        const struct sonde_model_process *p = m->processes[i];
        for (size_t k = 0; k < SONDE__DROP_COUNT; k++) {
            if (!p->drops[k]) continue;
            sonde_doctor_add(d, SONDE_DOCTOR_WARN, NULL, "process %u (%s): %llu times: %s", p->pid,
                             p->program, (unsigned long long)p->drops[k], texts[k]);
        }
    }
}

void sonde_doctor_segments(struct sonde_doctor *d)
{
    static struct sonde_collector_refusal refused[64];
    struct sonde_err err = { "" };
    struct sonde_agent *agent;
    if (sonde_cli_reader_open(d->cli, 0, 0, &agent, &err) != 0) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL, NULL, "%s", err.text);
        return;
    }
    struct sonde_collector *c = agent->collector;
    sonde_collector_step(c);
    struct sonde_model *m = sonde_collector_model(c);
    sonde_rdlock(&m->lock);
    sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%zu process%s recorded here", m->process_count,
                     m->process_count == 1 ? " has" : "es have");
    check_drops(d, m);
    sonde_rwunlock(&m->lock);
    const size_t count = sonde_collector_refusals(c, refused, 64);
    for (size_t i = 0; i < count; i++) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "if its process has ended, delete it; if it runs, restart it with the "
                         "library of this version",
                         "%s is refused: %s", refused[i].path, refused[i].reason);
    }
    const uint64_t missed = sonde_collector_missed(c);
    if (missed) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "make its file system larger (containers: --shm-size 1g), or set "
                         "SONDE_DIR to a directory on a larger tmpfs",
                         "%llu process%s recorded nothing: segments may take a quarter of the file "
                         "system of their directory, and leave an eighth free",
                         (unsigned long long)missed, missed == 1 ? "" : "es");
    }
    sonde_agent_close(agent);
}

/* ---- Port --------------------------------------------------------------------------------- */

/* Can the user at the other end of a connection to this address be told? */
static int callers_are_known(const struct sonde_listen *where)
{
    struct sonde_listen l = *where;
    struct sonde_err err = { "" };
    int fd, known = 0;
    if (l.address.any.sa_family == AF_INET6) l.address.v6.sin6_port = 0;
    else l.address.v4.sin_port = 0;
    if (sonde_listen_open(&l, 0, &fd, &err) != 0) return 1; /* then nobody will be asked */
    const int client = socket(l.address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client >= 0 && connect(client, &l.address.any, l.length) == 0) {
        /* The connection is there as soon as connect returns. */
        const int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        known = sonde_caller_of(peer) == (int64_t)geteuid();
        if (peer >= 0) close(peer);
    }
    if (client >= 0) close(client);
    close(fd);
    return known;
}

/* Who may ask. */
static void check_callers(struct sonde_doctor *d, const struct sonde_listen *l)
{
    const struct sonde_config_values *c = &d->cli->config;
    char token[SONDE_TOKEN_MAX + 1];
    struct sonde_err err = { "" };
    const int all = !strcmp(c->server_local_users, "all");
    if (sonde_token_read(c->server_token_file, token, &err) != 0) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL, NULL, "%s", err.text);
    } else if (*token) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "callers need the token");
    } else if (all) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "leave server.local_users at same, or set a token",
                         "every local user may read profiles, command lines and requests, and "
                         "start captures: server.local_users=all");
    } else if (!callers_are_known(l)) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL,
                         "permit netlink (sock_diag) or /proc/net/tcp, set a token, or "
                         "server.local_users=all",
                         "which user calls cannot be told here: all but /metrics and health will "
                         "be refused");
    } else {
        const long uid = (long)geteuid();
        char own[32] = "";
        if (uid) snprintf(own, sizeof(own), "user %ld and ", uid);
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL,
                         "%sroot may ask for everything, other local users for /metrics and health "
                         "(server.local_users=same)", own);
    }
    explicit_bzero(token, sizeof(token));
}

void sonde_doctor_port(struct sonde_doctor *d)
{
    const char *text = d->cli->config.server_listen;
    struct sonde_listen l;
    struct sonde_err err = { "" };
    int fd;
    if (sonde_listen_parse(text, &l, &err) != 0) {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL, "correct server.listen or --listen", "%s", err.text);
        return;
    }
    const int rc = sonde_listen_open(&l, 0, &fd, &err);
    if (rc == 0) {
        close(fd);
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "%s is free", text);
    } else if (rc == SONDE_EBUSY) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "without --listen, `sonde run` takes the next free port by itself", "%s",
                         err.text);
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_FAIL, NULL, "%s", err.text);
    }
    check_callers(d, &l);
}

/* ---- Probes ------------------------------------------------------------------------------- */

#define SONDE_PROBE(id) extern const struct sonde_probe_ops sonde_probe_##id;
#include "collect/proc/probe_list.h"
#undef SONDE_PROBE

void sonde_doctor_probes(struct sonde_doctor *d)
{
    static const struct sonde_probe_ops *const probes[] = {
#define SONDE_PROBE(id) &sonde_probe_##id,
#include "collect/proc/probe_list.h"
#undef SONDE_PROBE
    };
    const struct sonde_probe_env env = { .proc_root = "/proc", .sys_root = "/sys" };
    for (size_t i = 0; i < SONDE_COUNT(probes); i++) {
        struct sonde_err note = { "" };
        const int rc = probes[i]->check(&env, &note);
        sonde_doctor_add(d, rc ? SONDE_DOCTOR_WARN : SONDE_DOCTOR_OK, NULL, "%s: %s",
                         probes[i]->name, note.text[0] ? note.text : probes[i]->summary);
    }
}
