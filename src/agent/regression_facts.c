/* regression_facts.c - what a change may come from: recorded when it changes, found again by time.
 *
 * A fact is a finding of kind "change": its subject is the program (or "machine", "sonde"), its
 * text "KIND: OLD -> NEW". The first value is recorded as well ("KIND: NEW"), so that the next life
 * of the agent can tell what changed in between. */
#include <elf.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/regressions_private.h"
#include "base/file.h"
#include "base/hash.h"
#include "infer/tracker.h"
#include "sonde/sonde.h"

#define FACTS_BEFORE_S 3600.0      /* a fact this long before a change may be its cause … */
#define FACTS_AFTER_S 600.0        /* … or this long after, as times are not exact */
#define FACTS_PROCESSES_MAX 256

/* ---- Build id -------------------------------------------------------------------------------- */

/* The note of a build id among `len` bytes of notes; hex to out. 1 = found. */
static int facts_note_find(const unsigned char *data, size_t len, char out[72])
{
    size_t at = 0;
    while (at + sizeof(Elf64_Nhdr) <= len) {
        Elf64_Nhdr note;
        memcpy(&note, data + at, sizeof(note));
        at += sizeof(note);
        const size_t name = ((size_t)note.n_namesz + 3) & ~(size_t)3;
        const size_t desc = ((size_t)note.n_descsz + 3) & ~(size_t)3;
        if (name > len - at || desc > len - at - name) return 0;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            !memcmp(data + at, "GNU", 4) && note.n_descsz <= 32) {
            for (size_t i = 0; i < note.n_descsz; i++) {
                snprintf(out + 2 * i, 3, "%02x", data[at + name + i]);
            }
            return 1;
        }
        at += name + desc;
    }
    return 0;
}

/* Of the file that a process executes; "" = it has none, or it cannot be read. */
static void facts_build_id(uint32_t pid, char out[72])
{
    char path[64];
    Elf64_Ehdr head;
    out[0] = '\0';
    snprintf(path, sizeof(path), "/proc/%u/exe", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (sonde_file_pread_full(fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
        !memcmp(head.e_ident, ELFMAG, SELFMAG) && head.e_ident[EI_CLASS] == ELFCLASS64 &&
        head.e_phentsize == sizeof(Elf64_Phdr) && head.e_phoff < (uint64_t)INT64_MAX / 2) {
        static const size_t most = 128; /* program headers */
        for (size_t i = 0; i < head.e_phnum && i < most && !out[0]; i++) {
            Elf64_Phdr part;
            unsigned char notes[4096];
            const off_t at = (off_t)(head.e_phoff + i * sizeof(part));
            if (sonde_file_pread_full(fd, &part, sizeof(part), at) != (ssize_t)sizeof(part)) break;
            if (part.p_type != PT_NOTE || part.p_offset > (uint64_t)INT64_MAX / 2) continue;
            const size_t len = part.p_filesz < sizeof(notes) ? part.p_filesz : sizeof(notes);
            const ssize_t n = sonde_file_pread_full(fd, notes, len, (off_t)part.p_offset);
            if (n > 0) facts_note_find(notes, (size_t)n, out);
        }
    }
    close(fd);
}

static void facts_arguments(uint32_t pid, char *out, size_t size)
{
    char path[64], raw[4096];
    snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
    const ssize_t n = sonde_file_read_small(AT_FDCWD, path, raw, sizeof(raw));
    out[0] = '\0';
    if (n <= 0) return;
    for (ssize_t i = 0; i < n - 1; i++) {
        if (!raw[i]) raw[i] = ' ';
    }
    raw[n < (ssize_t)sizeof(raw) ? n : (ssize_t)sizeof(raw) - 1] = '\0';
    snprintf(out, size, "%.*s", (int)size - 1, raw);
}

/* ---- Recording ------------------------------------------------------------------------------- */

static struct regression_tracked *facts_find(struct sonde_regressions *r, const char *program,
                                             const char *kind)
{
    for (size_t i = 0; i < r->tracked_count; i++) {
        struct regression_tracked *t = &r->tracked[i];
        if (!strcmp(t->program, program) && !strcmp(t->kind, kind)) return t;
    }
    if (r->tracked_count == REGRESSION_TRACKED) return NULL;
    struct regression_tracked *t = &r->tracked[r->tracked_count++];
    *t = (struct regression_tracked){ .value = "" };
    snprintf(t->program, sizeof(t->program), "%.63s", program);
    snprintf(t->kind, sizeof(t->kind), "%.15s", kind);
    return t;
}

static void facts_note(struct sonde_regressions *r, double now_s, const char *program,
                       const char *kind, const char *value)
{
    char text[512];
    struct sonde_err err = { "" };
    uint64_t id;
    if (!value || !*value) return;
    struct regression_tracked *t = facts_find(r, program, kind);
    if (!t || !strncmp(t->value, value, sizeof(t->value) - 1)) return;
    if (t->value[0]) snprintf(text, sizeof(text), "%s: %s -> %.200s", kind, t->value, value);
    else snprintf(text, sizeof(text), "%s: %.200s", kind, value);
    snprintf(t->value, sizeof(t->value), "%.199s", value);
    if (r->o.read_only) return;
    const struct sonde_store_finding f = {
        .time_s = now_s, .kind = SONDE_CHANGE_KIND, .subject = program,
        .severity = SONDE_SEVERITY_INFO, .value = NAN, .text = text,
    };
    /* Not on disk is not known later, no more: the next look does not try again. */
    r->o.ops->finding_put(r->o.store, &f, &id, &err);
}

struct facts_process { uint32_t pid; char program[64]; double started_s; };

static size_t facts_processes(struct sonde_regressions *r, struct facts_process *out, double now_s)
{
    struct sonde_model *m = sonde_collector_model(r->o.collector);
    const struct sonde_infer_tracker *tracker = sonde_collector_tracker(r->o.collector);
    struct { char program[64], model[200]; } models[8];
    size_t n = 0, model_count = 0;
    sonde_rdlock(&m->lock);
    for (size_t i = 0; i < m->process_count && n < FACTS_PROCESSES_MAX; i++) {
        const struct sonde_model_process *p = m->processes[i];
        if (p->ended_s > 0 || p->elsewhere || !p->program || !p->program[0]) continue;
        out[n] = (struct facts_process){ .pid = p->pid, .started_s = p->started_s };
        snprintf(out[n++].program, sizeof(out[0].program), "%.63s", p->program);
    }
    for (size_t i = 0; tracker && i < sonde_infer_model_count(tracker) && model_count < 8; i++) {
        struct sonde_infer_model_view v;
        sonde_infer_model_at(tracker, i, &v);
        if (!v.process || v.process->ended_s > 0 || !v.facts.model) continue;
        snprintf(models[model_count].program, 64, "%.63s", v.process->program);
        snprintf(models[model_count++].model, 200, "%.199s", v.facts.model);
    }
    sonde_rwunlock(&m->lock);
    for (size_t i = 0; i < model_count; i++) {
        facts_note(r, now_s, models[i].program, "model", models[i].model);
    }
    return n;
}

void regression_facts_look(struct sonde_regressions *r, double now_s)
{
    struct facts_process list[FACTS_PROCESSES_MAX];
    struct utsname u;
    char text[200];
    const size_t n = r->o.collector ? facts_processes(r, list, now_s) : 0;
    for (size_t i = 0; i < n; i++) {
        char build_id[72];
        facts_build_id(list[i].pid, build_id);
        const double since_s = list[i].started_s > 0 && list[i].started_s < now_s
                                   ? list[i].started_s : now_s;
        facts_note(r, since_s, list[i].program, "build_id", build_id);
        if (r->o.strip) continue;
        facts_arguments(list[i].pid, text, sizeof(text));
        facts_note(r, since_s, list[i].program, "arguments", text);
    }
    if (uname(&u) == 0) {
        snprintf(text, sizeof(text), "%.64s %.64s, %ld CPUs", u.sysname, u.release,
                 sysconf(_SC_NPROCESSORS_ONLN));
        facts_note(r, now_s, "machine", "kernel", text);
    }
    facts_note(r, now_s, "sonde", "version", SONDE_VERSION);
    if (r->settings) {
        snprintf(text, sizeof(text), "%08x",
                 sonde_hash_bytes(r->settings, strlen(r->settings)));
        facts_note(r, now_s, "sonde", "settings", text);
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Newest first: the first of a kind is what it is now. */
static int facts_on_stored(const struct sonde_store_finding *f, void *arg)
{
    struct sonde_regressions *r = arg;
    char kind[16];
    const char *colon = strchr(f->text, ':');
    if (!colon || colon == f->text || colon - f->text >= (ptrdiff_t)sizeof(kind)) return 0;
    snprintf(kind, sizeof(kind), "%.*s", (int)(colon - f->text), f->text);
    struct regression_tracked *t = facts_find(r, f->subject, kind);
    if (!t || t->value[0]) return 0;
    const char *arrow = strstr(colon, " -> ");
    snprintf(t->value, sizeof(t->value), "%.199s", arrow ? arrow + 4 : colon + 2);
    return 0;
}

void regression_facts_load(struct sonde_regressions *r)
{
    struct sonde_err err = { "" };
    const struct sonde_store_range q = { .kind = SONDE_CHANGE_KIND, .limit = 10000 };
    if (r->o.ops->findings) r->o.ops->findings(r->o.store, &q, facts_on_stored, r, &err);
}

static void facts_add(struct sonde_regression *g, double time_s, const char *kind,
                      const char *text)
{
    if (g->fact_count == SONDE_REGRESSION_FACTS) return;
    struct sonde_regression_fact *f = &g->facts[g->fact_count++];
    f->time_s = time_s;
    snprintf(f->kind, sizeof(f->kind), "%.15s", kind);
    snprintf(f->text, sizeof(f->text), "%.239s", text);
}

/* A value that is not there yet is no change: the text of a change has an arrow. */
static int facts_on_near(const struct sonde_store_finding *f, void *arg)
{
    struct sonde_regression *g = arg;
    char kind[16];
    const char *colon = strchr(f->text, ':');
    if (!colon || !strstr(f->text, " -> ")) return 0;
    const int of_all = !strcmp(f->subject, "machine") || !strcmp(f->subject, "sonde");
    if (!of_all && g->program[0] && strcmp(f->subject, g->program) != 0) return 0;
    snprintf(kind, sizeof(kind), "%.*s", (int)(colon - f->text < 15 ? colon - f->text : 15),
             f->text);
    facts_add(g, f->time_s, kind, colon + 2);
    return g->fact_count == SONDE_REGRESSION_FACTS;
}

static int facts_on_mark(const struct sonde_mark *mark, void *arg)
{
    facts_add(arg, mark->time_s, "mark", mark->text ? mark->text : "");
    return 0;
}

static int facts_on_stored_mark(const struct sonde_store_finding *f, void *arg)
{
    facts_add(arg, f->time_s, "mark", f->text);
    return 0;
}

void regression_facts_near(struct sonde_regressions *r, struct sonde_regression *g)
{
    struct sonde_err err = { "" };
    struct sonde_store_range q = { .from_s = g->change.time_low_s - FACTS_BEFORE_S,
                                   .to_s = g->change.time_high_s + FACTS_AFTER_S,
                                   .kind = SONDE_MARK_KIND, .limit = SONDE_REGRESSION_FACTS };
    g->fact_count = 0;
    if (r->o.marks) sonde_marks_each(r->o.marks, &q, facts_on_mark, g, &err);
    else if (r->o.ops->findings) {
        r->o.ops->findings(r->o.store, &q, facts_on_stored_mark, g, &err);
    }
    q.kind = SONDE_CHANGE_KIND;
    q.limit = 0;
    if (r->o.ops->findings) r->o.ops->findings(r->o.store, &q, facts_on_near, g, &err);
}
