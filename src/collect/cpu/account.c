/* account.c - see account.h. */
#include "collect/cpu/account.h"

#include <assert.h>
#include <math.h>

#include "base/alloc.h"
#include "base/array.h"
#include "collect/proc/tree.h"

enum { ROWS_MAX = 256 };     /* processes; of more, some are left as they are */
#define SHARE 0.01           /* of the time: less is not worth it, … */
#define SLACK_NS 20000000.0  /* … and so much are ticks and samples on their way */
#define OFF_MAX 0.3          /* more, of all there was, is not a matter of weights */
#define OFF_SLACK_NS 100e6
#define INTERVAL_NS 200000000u
#define GAP_SHARE_MAX 1.0    /* by which samples after a pause weigh more */
#define AT_ONCE 16u          /* processes that are looked at in an interval */

static int cpu_account_read_proc(uint32_t pid, int user_only, uint64_t *ns)
{
    uint64_t user, system;
    const int rc = sonde_proc_cpu_modes(pid, &user, &system);
    if (!rc) *ns = user_only ? user : user + system;
    return rc;
}

void sonde_cpu_account_init(struct sonde_cpu_account *a, int user_only, uint64_t now_ns)
{
    *a = (struct sonde_cpu_account){ .user_only = user_only,
                                     .read = cpu_account_read_proc,
                                     .time_ns = now_ns };
}

void sonde_cpu_account_release(struct sonde_cpu_account *a) { sonde__free(a->rows); }

void sonde_cpu_account_emptied(struct sonde_cpu_account *a) { a->first = 0; }

/* NULL = there is no room. A process that is not known began while it was sampled. */
static struct sonde_cpu_account_row *cpu_account_row_of(struct sonde_cpu_account *a, uint32_t pid)
{
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->rows[i].pid == pid) return &a->rows[i];
    }
    if (a->count == ROWS_MAX) return NULL;
    struct sonde_cpu_account_row *row = SONDE_ARRAY_ADD(a->rows, a->count, a->cap);
    if (row) *row = (struct sonde_cpu_account_row){ .pid = pid, .factor = 1 };
    return row;
}

void sonde_cpu_account_begin(struct sonde_cpu_account *a, uint32_t pid)
{
    assert(a->read);
    uint64_t ns;
    if (a->read(pid, a->user_only, &ns) != 0) return;
    struct sonde_cpu_account_row *row = cpu_account_row_of(a, pid);
    if (row) row->cpu_ns = ns;
}

static void cpu_account_fill_gap(struct sonde_cpu_account_row *row)
{
    const double raw = (double)row->raw_ns, part = fmin(row->gap_ns, GAP_SHARE_MAX * raw);
    row->gap_share = raw > 0 ? part / raw : 0;
    row->gap_ns -= row->gap_share * raw;
}

/* By how much samples that weigh raw_ns are to be multiplied. */
static void cpu_account_judge(const struct sonde_cpu_account *a, struct sonde_cpu_account_row *row)
{
    uint64_t now;
    cpu_account_fill_gap(row);
    row->gone = a->read(row->pid, a->user_only, &now) != 0;
    if (row->gone) return; /* it went on as it had */
    /* Else its number is another's. */
    const uint64_t used = now >= row->cpu_ns ? now - row->cpu_ns : now;
    const double raw = (double)row->raw_ns, owed = (double)used + row->carry_ns, off = owed - raw;
    row->cpu_ns = now;
    row->carry_ns = off;
    row->factor = 1;
    row->used_all_ns += (double)used;
    row->raw_all_ns += raw;
    if (fabs(row->used_all_ns - row->raw_all_ns) >
        OFF_MAX * fmax(row->used_all_ns, row->raw_all_ns) + OFF_SLACK_NS) {
        row->carry_ns = 0;
    } else if (row->raw_ns && fabs(off) > SHARE * owed + SLACK_NS) {
        row->factor = fmin(fmax(owed / raw, 1 - OFF_MAX), 1 + OFF_MAX);
        row->carry_ns = owed - row->factor * raw;
    }
}

static void drop_gone(struct sonde_cpu_account *a)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        if (!a->rows[i].gone) a->rows[kept++] = a->rows[i];
    }
    a->count = kept;
}

static uint32_t cpu_account_pid_of(const struct sonde_profile *p,
                                   const struct sonde_profile_sample *s)
{
    return s->kind == SONDE_SAMPLE_CPU ? p->threads[s->thread].pid : 0;
}

int sonde_cpu_account_is_due(const struct sonde_cpu_account *a, uint64_t now_ns)
{
    return !a->paused && now_ns - a->time_ns >= INTERVAL_NS * (uint64_t)(1 + a->count / AT_ONCE);
}

void sonde_cpu_account_settle(struct sonde_cpu_account *a, struct sonde_profile *p, uint64_t now_ns)
{
    a->time_ns = now_ns;
    if (a->paused) return;
    if (a->first > p->samples_count) a->first = 0;
    for (uint32_t i = 0; i < a->count; i++) a->rows[i].raw_ns = 0;
    for (uint32_t i = a->first; i < p->samples_count; i++) {
        const uint32_t pid = cpu_account_pid_of(p, &p->samples[i]);
        struct sonde_cpu_account_row *row = pid ? cpu_account_row_of(a, pid) : NULL;
        if (row) row->raw_ns += p->samples[i].weight;
    }
    for (uint32_t i = 0; i < a->count; i++) cpu_account_judge(a, &a->rows[i]);
    for (uint32_t i = a->first; i < p->samples_count; i++) {
        struct sonde_profile_sample *s = &p->samples[i];
        const uint32_t pid = cpu_account_pid_of(p, s);
        const struct sonde_cpu_account_row *row = pid ? cpu_account_row_of(a, pid) : NULL;
        const double factor = row ? row->factor + row->gap_share : 1;
        if (factor == 1) continue;
        const uint64_t before = s->weight;
        s->weight = (uint64_t)((double)before * factor + 0.5);
        p->weights[SONDE_SAMPLE_CPU] += s->weight - before;
    }
    a->first = p->samples_count;
    drop_gone(a);
}

/* ---- Pauses ---------------------------------------------------------------------------------- */

void sonde_cpu_account_pause(struct sonde_cpu_account *a, struct sonde_profile *p, uint64_t now_ns)
{
    sonde_cpu_account_settle(a, p, now_ns);
    a->paused = 1;
}

void sonde_cpu_account_resume(struct sonde_cpu_account *a, uint64_t now_ns)
{
    a->paused = 0;
    a->time_ns = now_ns;
    for (uint32_t i = 0; i < a->count; i++) {
        struct sonde_cpu_account_row *row = &a->rows[i];
        uint64_t now;
        if (a->read(row->pid, a->user_only, &now) != 0 || now < row->cpu_ns) continue;
        row->gap_ns += (double)(now - row->cpu_ns);
        row->cpu_ns = now;
    }
}
