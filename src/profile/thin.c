/* thin.c - see thin.h. */
#include "profile/thin.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmp.h"
#include "base/intern.h"

/* Blocked time has a length; what stands for several does not say of which. */
static int is_interval(const struct sonde_profile_sample *s)
{
    return s->kind == SONDE_SAMPLE_OFFCPU && s->count == 1;
}

/* 1 if something of it is left. */
static int profile_thin_cut_one(struct sonde_profile_sample *s, uint64_t from_ns, uint64_t to_ns)
{
    if (to_ns && s->time_ns >= to_ns) return 0;
    if (s->time_ns < from_ns) {
        const uint64_t before = from_ns - s->time_ns;
        if (!is_interval(s) || s->weight <= before) return 0;
        s->time_ns = from_ns;
        s->weight -= before;
    }
    if (to_ns && is_interval(s) && s->weight > to_ns - s->time_ns) s->weight = to_ns - s->time_ns;
    return 1;
}

uint32_t sonde_samples_cut(struct sonde_profile_sample *samples, uint32_t count, uint64_t from_ns,
                           uint64_t to_ns)
{
    assert(samples || !count);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct sonde_profile_sample s = samples[i];
        if (profile_thin_cut_one(&s, from_ns, to_ns)) samples[kept++] = s;
    }
    return kept;
}

void sonde_profile_cut(struct sonde_profile *p, uint64_t from_ns, uint64_t to_ns)
{
    uint32_t kept = 0;
    memset(p->weights, 0, sizeof(p->weights));
    for (uint32_t i = 0; i < p->samples_count; i++) {
        struct sonde_profile_sample s = p->samples[i];
        if (s.time_ns && !profile_thin_cut_one(&s, from_ns, to_ns)) continue;
        p->weights[s.kind] += s.weight;
        p->samples[kept++] = s;
    }
    p->samples_count = kept;
}

/* ---- Fewer rows ------------------------------------------------------------------------------ */

static int profile_thin_by_place(const void *x, const void *y)
{
    const struct sonde_profile_sample *a = x, *b = y;
    if (a->stack != b->stack) return SONDE_CMP(a->stack, b->stack);
    if (a->thread != b->thread) return SONDE_CMP(a->thread, b->thread);
    if (a->kind != b->kind) return SONDE_CMP(a->kind, b->kind);
    if (a->flags != b->flags) return SONDE_CMP(a->flags, b->flags);
    return SONDE_CMP(a->time_ns, b->time_ns);
}

static int same_place(const struct sonde_profile_sample *a, const struct sonde_profile_sample *b,
                      uint64_t slice_ns)
{
    return a->stack == b->stack && a->thread == b->thread && a->kind == b->kind &&
           a->flags == b->flags && a->time_ns / slice_ns == b->time_ns / slice_ns;
}

void sonde_profile_thin(struct sonde_profile *p, uint64_t slice_ns)
{
    assert(slice_ns);
    uint32_t kept = 0;
    if (!p->samples_count) return;
    qsort(p->samples, p->samples_count, sizeof(*p->samples), profile_thin_by_place);
    for (uint32_t i = 1; i < p->samples_count; i++) {
        struct sonde_profile_sample *to = &p->samples[kept];
        const struct sonde_profile_sample *s = &p->samples[i];
        if (same_place(to, s, slice_ns) && to->count <= UINT32_MAX - s->count) {
            to->weight += s->weight; /* all of them add up to a weight that fits */
            to->count += s->count;
        } else {
            p->samples[++kept] = *s;
        }
    }
    p->samples_count = kept + 1;
}

/* ---- Half of them ---------------------------------------------------------------------------- */

static int by_thread(const void *a, const void *b)
{
    const struct sonde_profile_sample *x = a, *y = b;
    if (x->thread != y->thread) return SONDE_CMP(x->thread, y->thread);
    if (x->kind != y->kind) return SONDE_CMP(x->kind, y->kind);
    if (x->time_ns != y->time_ns) return SONDE_CMP(x->time_ns, y->time_ns);
    return SONDE_CMP(x->stack, y->stack);
}

/* Chance that comes out alike for the same samples. */
static uint64_t profile_thin_draw(const struct sonde_profile_sample *a,
                                  const struct sonde_profile_sample *b)
{
    uint64_t h = sonde_hash_mix(a->time_ns, (uint64_t)a->stack << 32 | a->thread);
    h = sonde_hash_mix(h, b->time_ns);
    return sonde_hash_mix(h, (uint64_t)b->stack << 32 | b->count);
}

void sonde_profile_halve(struct sonde_profile *p)
{
    uint32_t kept = 0;
    if (!p->samples_count) return;
    qsort(p->samples, p->samples_count, sizeof(p->samples[0]), by_thread);
    for (uint32_t i = 0; i < p->samples_count; i++) {
        struct sonde_profile_sample a = p->samples[i];
        const struct sonde_profile_sample *b = i + 1 < p->samples_count ? &p->samples[i + 1] : NULL;
        uint32_t count;
        if (b && a.thread == b->thread && a.kind == b->kind &&
            !__builtin_add_overflow(a.count, b->count, &count)) {
            const uint64_t weight = a.weight + b->weight; /* all of a kind fit (profile.h) */
            if (weight && profile_thin_draw(&a, b) % weight >= a.weight) a = *b;
            a.weight = weight;
            a.count = count;
            i++;
        }
        p->samples[kept++] = a;
    }
    p->samples_count = kept;
}
