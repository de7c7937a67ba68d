#include "profile/process.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

struct thread_sum {
    uint32_t thread;
    uint64_t weight, samples, truncated;
};

struct by_pid { uint32_t pid, thread; };

static int compare_pid(const void *a, const void *b)
{
    const struct by_pid *x = a, *y = b;
    if (x->pid != y->pid) return SONDE_CMP(x->pid, y->pid);
    return SONDE_CMP(x->thread, y->thread);
}

static int compare_weight(const void *a, const void *b)
{
    const struct sonde_profile_process *x = a, *y = b;
    if (x->weight != y->weight) return SONDE_CMP(y->weight, x->weight);
    return SONDE_CMP(x->pid, y->pid);
}

static void profile_process_sum(const struct sonde_profile *p,
                                const struct sonde_profile_match *match,
                                enum sonde_sample_kind kind, struct thread_sum *sums)
{
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        if (match ? !sonde_profile_matches(match, i) : s->kind != kind) continue;
        struct thread_sum *t = &sums[s->thread];
        t->weight += s->weight;
        t->samples += s->count;
        if (s->flags & SONDE_SAMPLE_TRUNCATED) t->truncated += s->count;
    }
}

/* Of threads of one process, which come one after the other. */
static struct sonde_profile_process profile_process_join(const struct sonde_profile *p,
                                                         const struct thread_sum *sums,
                                                         const struct by_pid *first,
                                                         const struct by_pid *end)
{
    struct sonde_profile_process one = { .pid = first->pid };
    uint32_t main_name = 0;
    uint64_t most = 0;
    for (; first != end; first++) {
        const struct sonde_profile_thread *thread = &p->threads[first->thread];
        const struct thread_sum *s = &sums[first->thread];
        if (thread->tid == thread->pid) main_name = thread->name;
        if (s->weight > most) {
            most = s->weight;
            one.name = thread->name;
        }
        one.weight += s->weight;
        one.samples += s->samples;
        one.truncated += s->truncated;
        one.threads += s->samples != 0;
    }
    if (main_name) one.name = main_name;
    return one;
}

int sonde_profile_processes(const struct sonde_profile *p, const struct sonde_profile_match *match,
                            enum sonde_sample_kind kind, struct sonde_profile_process **out,
                            uint32_t *count)
{
    const uint32_t threads = p->threads_count;
    struct thread_sum *sums = sonde__calloc(threads + 1, sizeof(*sums));
    struct by_pid *rows = sonde__calloc(threads + 1, sizeof(*rows));
    struct sonde_profile_process *found = sonde__calloc(threads + 1, sizeof(*found));
    uint32_t n = 0, row_count = 0;
    int rc = SONDE_ENOMEM;
    if (sums && rows && found) {
        profile_process_sum(p, match, kind, sums);
        for (uint32_t i = 1; i < threads; i++) {
            if (p->threads[i].pid) rows[row_count++] = (struct by_pid){ p->threads[i].pid, i };
        }
        qsort(rows, row_count, sizeof(*rows), compare_pid);
        for (uint32_t i = 0, end; i < row_count; i = end) {
            for (end = i + 1; end < row_count && rows[end].pid == rows[i].pid;) end++;
            found[n] = profile_process_join(p, sums, &rows[i], &rows[end]);
            n += found[n].samples != 0;
        }
        qsort(found, n, sizeof(*found), compare_weight);
        rc = 0;
    }
    sonde__free(sums);
    sonde__free(rows);
    if (rc) {
        sonde__free(found);
        return rc;
    }
    *out = found;
    *count = n;
    return 0;
}
