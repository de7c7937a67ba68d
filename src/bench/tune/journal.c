/* journal.c - see journal.h. */
#include "bench/tune/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "sonde/sonde.h"

#define LINE_MAX_BYTES ((size_t)256 << 10)

/* Figures by name; those of 64 bits apart. */
static const struct { const char *name; size_t offset; } journal_figures[] = {
#define ROW(field) { #field, offsetof(struct sonde_tune_figures, field) }
    ROW(value), ROW(tokens_per_s), ROW(requests_per_s), ROW(goodput_per_s), ROW(ttft_s),
    ROW(ttft_p95_s), ROW(itl_s), ROW(e2e_s), ROW(e2e_p95_s), ROW(good_ratio), ROW(ready_s),
    ROW(wall_s), ROW(cpu_s), ROW(client_cpu_ratio),
}, journal_counts[] = {
    ROW(requests), ROW(failed), ROW(rss_bytes), ROW(pss_bytes),
#undef ROW
};

int sonde_tune_history_add(struct sonde_tune_history *h, const struct sonde_tune_past *t)
{
    const int rc = SONDE_ARRAY_ROOM_MAX(h->trials, h->count, h->cap, SONDE_TUNE_TRIALS_MAX);
    if (!rc) h->trials[h->count++] = *t;
    return rc;
}

void sonde_tune_history_release(struct sonde_tune_history *h)
{
    sonde__free(h->trials);
    memset(h, 0, sizeof(*h));
}

uint64_t sonde_tune_key(const struct sonde_tune_knobs *k, const struct sonde_tune_knobs_options *c,
                        const struct sonde_tune_plan *p)
{
    char text[512];
    uint64_t h = SONDE_FNV64_SEED;
    for (size_t i = 0; i < c->argc; i++) h = sonde_fnv64(h, c->argv[i], strlen(c->argv[i]) + 1);
    for (size_t i = 0; i < k->space.knob_count; i++) {
        const struct sonde_tune_knob *knob = &k->space.knobs[i];
        h = sonde_fnv64_text(h, knob->name);
        for (size_t l = 0; l < knob->level_count; l++) {
            h = sonde_fnv64(h, knob->levels[l], strlen(knob->levels[l]) + 1);
        }
    }
    snprintf(text, sizeof(text), "%d %d %d %g %g %d %g %g %u %g %g %g %g %g %g %g %llu %llu",
             (int)p->objective, p->server, (int)p->prompt.kind, p->prompt.a, p->prompt.b,
             (int)p->output.kind, p->output.a, p->output.b, p->concurrency, p->warmup_s,
             p->block_s, p->slo.ttft_s, p->slo.itl_s, p->slo.tpot_s, p->slo.e2e_s, p->slo_share,
             (unsigned long long)p->memory_bytes, (unsigned long long)p->seed);
    return sonde_fnv64_text(h, text);
}

/* ---- Writing --------------------------------------------------------------------------------- */

void sonde_tune_past_json(const struct sonde_tune_space *s, const struct sonde_tune_past *t,
                          size_t number, struct sonde_buf *out)
{
    uint8_t levels[SONDE_TUNE_KNOBS_MAX];
    sonde_tune_levels(s, t->step.point, levels);
    sonde_json_u64(out, "trial", number);
    sonde_json_str(out, "phase", sonde_tune_phase_name(t->step.phase));
    sonde_json_key_open(out, "setting", '{');
    for (size_t i = 0; i < s->knob_count; i++) {
        sonde_json_str(out, s->knobs[i].name, s->knobs[i].levels[levels[i]]);
    }
    sonde_json_close(out, '}');
    sonde_json_str(out, "outcome", sonde_tune_outcome_name(t->outcome));
    if (t->figures.reason[0]) sonde_json_str(out, "reason", t->figures.reason);
    for (size_t i = 0; i < SONDE_COUNT(journal_figures); i++) {
        double v;
        memcpy(&v, (const char *)&t->figures + journal_figures[i].offset, sizeof(v));
        if (!isnan(v)) sonde_json_num(out, journal_figures[i].name, v);
    }
    for (size_t i = 0; i < SONDE_COUNT(journal_counts); i++) {
        uint64_t v;
        memcpy(&v, (const char *)&t->figures + journal_counts[i].offset, sizeof(v));
        if (v) sonde_json_u64(out, journal_counts[i].name, v);
    }
}

int sonde_tune_journal_add(int fd, const struct sonde_tune_space *s,
                           const struct sonde_tune_past *t, size_t number, struct sonde_err *err)
{
    struct sonde_buf b;
    sonde_buf_init(&b, LINE_MAX_BYTES);
    sonde_json_open(&b, '{');
    sonde_tune_past_json(s, t, number, &b);
    sonde_json_close(&b, '}');
    sonde_buf_putc(&b, '\n');
    int rc = b.error ? b.error : sonde_file_write_all(fd, b.data, b.len);
    if (rc) sonde_err_set(err, rc, "cannot save the trial: %s", sonde_strerror(rc));
    sonde_buf_release(&b);
    return rc;
}

int sonde_tune_journal_begin(const char *path, uint64_t key, const struct sonde_tune_knobs *k,
                             const struct sonde_tune_knobs_options *c,
                             const struct sonde_tune_history *history, struct sonde_err *err)
{
    struct sonde_buf b;
    char text[24];
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)key);
    sonde_buf_init(&b, SONDE_TUNE_JOURNAL_MAX);
    sonde_json_open(&b, '{');
    sonde_json_u64(&b, "sonde_tune", 1);
    sonde_json_str(&b, "key", text);
    sonde_json_key_open(&b, "command", '[');
    for (size_t i = 0; i < c->argc; i++) sonde_json_str(&b, NULL, c->argv[i]);
    sonde_json_close(&b, ']');
    sonde_json_key_open(&b, "knobs", '{');
    for (size_t i = 0; i < k->space.knob_count; i++) {
        sonde_json_key_open(&b, k->space.knobs[i].name, '[');
        for (size_t l = 0; l < k->space.knobs[i].level_count; l++) {
            sonde_json_str(&b, NULL, k->space.knobs[i].levels[l]);
        }
        sonde_json_close(&b, ']');
    }
    sonde_json_close(&b, '}');
    sonde_json_close(&b, '}');
    sonde_buf_putc(&b, '\n');
    int rc = b.error ? sonde_err_memory(err) : sonde_file_replace(path, b.data, b.len, err);
    sonde_buf_release(&b);
    if (rc) return rc;
    const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0) {
        return sonde_err_set(err, SONDE_EIO, "cannot write to '%s': %s", path, strerror(errno));
    }
    for (size_t i = 0; i < history->count; i++) {
        rc = sonde_tune_journal_add(fd, &k->space, &history->trials[i], i, err);
        if (rc) {
            close(fd);
            return rc;
        }
    }
    return fd;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The number of a name among names[0 … count); -1 = there is none. */
static int journal_name(const json_t *value, const char *(*name)(int), int count)
{
    const char *text = json_string_value(value);
    for (int i = 0; text && i < count; i++) {
        if (!strcmp(name(i), text)) return i;
    }
    return -1;
}

static const char *journal_phase(int i) { return sonde_tune_phase_name((enum sonde_tune_phase)i); }
static const char *journal_outcome(int i)
{
    return sonde_tune_outcome_name((enum sonde_tune_outcome)i);
}

/* 0 = it is not a trial of this space. */
static int journal_trial(const json_t *line, const struct sonde_tune_space *s,
                         struct sonde_tune_past *out)
{
    uint8_t levels[SONDE_TUNE_KNOBS_MAX] = { 0 };
    const json_t *setting = json_object_get(line, "setting");
    const int phase = journal_name(json_object_get(line, "phase"), journal_phase, SONDE_TUNE_DONE);
    const int outcome = journal_name(json_object_get(line, "outcome"), journal_outcome,
                                     SONDE_TUNE_FAILED + 1);
    memset(out, 0, sizeof(*out));
    if (phase < 0 || outcome < 0) return 0;
    for (size_t i = 0; i < s->knob_count; i++) {
        const char *level = json_string_value(json_object_get(setting, s->knobs[i].name));
        const int at = level ? sonde_tune_level_find(&s->knobs[i], level) : -1;
        if (at < 0) return 0;
        levels[i] = (uint8_t)at;
    }
    out->step = (struct sonde_tune_step){ .point = sonde_tune_point(s, levels),
                                          .phase = (enum sonde_tune_phase)phase };
    out->outcome = (enum sonde_tune_outcome)outcome;
    for (size_t i = 0; i < SONDE_COUNT(journal_figures); i++) {
        const json_t *value = json_object_get(line, journal_figures[i].name);
        const double v = json_is_number(value) ? json_number_value(value) : NAN;
        memcpy((char *)&out->figures + journal_figures[i].offset, &v, sizeof(v));
    }
    for (size_t i = 0; i < SONDE_COUNT(journal_counts); i++) {
        const json_int_t n = json_integer_value(json_object_get(line, journal_counts[i].name));
        const uint64_t v = n > 0 ? (uint64_t)n : 0;
        memcpy((char *)&out->figures + journal_counts[i].offset, &v, sizeof(v));
    }
    const char *reason = json_string_value(json_object_get(line, "reason"));
    snprintf(out->figures.reason, sizeof(out->figures.reason), "%s", reason ? reason : "");
    return 1;
}

static int journal_lines(const char *path, const struct sonde_buf *b, uint64_t key,
                         const struct sonde_tune_space *s, struct sonde_tune_history *out,
                         int *other, struct sonde_err *err)
{
    char wanted[24];
    size_t number = 0;
    int rc = 0;
    snprintf(wanted, sizeof(wanted), "%016llx", (unsigned long long)key);
    for (const char *at = b->data, *end = b->data + b->len; at < end && !rc && !*other; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) break; /* cut off */
        json_t *line = json_loadb(at, (size_t)(stop - at), JSON_REJECT_DUPLICATES, NULL);
        struct sonde_tune_past t;
        if (!number) {
            const char *has = json_string_value(json_object_get(line, "key"));
            if (!has || json_integer_value(json_object_get(line, "sonde_tune")) != 1) {
                rc = SONDE_EINVAL;
            } else {
                *other = strcmp(has, wanted) != 0;
            }
        } else if (!line || !journal_trial(line, s, &t)) {
            rc = SONDE_EINVAL;
        } else {
            rc = sonde_tune_history_add(out, &t);
        }
        json_decref(line);
        at = stop + 1;
    }
    if (rc == SONDE_ENOMEM) return sonde_err_memory(err);
    if (rc) {
        return sonde_err_set(err, SONDE_EINVAL, "'%s' is not a journal of `sonde tune` (line %zu): "
                             "--fresh begins a new one, --journal names another", path, number);
    }
    return 0;
}

int sonde_tune_journal_read(const char *path, uint64_t key, const struct sonde_tune_space *s,
                            struct sonde_tune_history *out, int *other, struct sonde_err *err)
{
    struct sonde_buf b;
    *other = 0;
    if (access(path, F_OK) != 0 && errno == ENOENT) return 0;
    sonde_buf_init(&b, SONDE_TUNE_JOURNAL_MAX);
    int rc = sonde_file_read(path, &b, err);
    if (!rc && b.len) rc = journal_lines(path, &b, key, s, out, other, err);
    if (rc) sonde_tune_history_release(out);
    sonde_buf_release(&b);
    return rc;
}
