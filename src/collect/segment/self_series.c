/* self_series.c - series about a segment itself: its size, what was dropped and lost, and which
 * label it is that has too many values. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "base/hash.h"
#include "collect/segment/private.h"

/* ---- Drops, losses, size ------------------------------------------------------------------ */

static void drops_read(struct sonde_segment *s, struct sonde_model *m,
                       struct sonde_model_process *p)
{
    static const char *const reasons[] = {
#define SONDE__X(name, text) #name,
        SONDE__DROPS(SONDE__X)
#undef SONDE__X
    };
    static const struct sonde_model_family_spec spec = {
        .name = "sonde_records_dropped_total",
        .help = "Records and definitions the program could not keep as asked, by reason.",
        .source = "sonde", .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER,
    };
    for (int i = 0; i < SONDE__DROP_COUNT; i++) {
        uint64_t now = segment_load(&s->live->drops[i]);
        if (!s->dropped[i]) {
            struct sonde_label label = { "reason", reasons[i] };
            s->dropped[i] = sonde_model_own_series(m, &spec, p, &label, 1);
            /* The process counts these; those below are the agent's own. */
            if (s->dropped[i]) s->dropped[i]->from_zero = s->fresh != 0;
        }
        if (now <= s->drops[i]) continue;
        if (s->dropped[i]) s->dropped[i]->counter += now - s->drops[i];
        p->drops[i] += now - s->drops[i];
        s->drops[i] = now;
    }
}

static void size_read(struct sonde_segment *s, struct sonde_model *m,
                      struct sonde_model_process *p)
{
    static const struct sonde_model_family_spec lost = {
        .name = "sonde_spans_lost_total",
        .help = "Span records that were overwritten before the agent read them.",
        .source = "sonde", .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER,
    };
    static const struct sonde_model_family_spec bytes = {
        .name = "sonde_segment_bytes",
        .help = "Memory that the program's segment takes.",
        .unit = "bytes", .source = "sonde", .type = SONDE_GAUGE, .kind = SONDE_KIND_MEMORY,
    };
    if (!s->lost) s->lost = sonde_model_own_series(m, &lost, p, NULL, 0);
    if (!s->bytes) s->bytes = sonde_model_own_series(m, &bytes, p, NULL, 0);
    p->segment_bytes = segment_load(&s->live->populated_bytes);
    if (s->lost) s->lost->counter = p->spans_lost;
    if (s->bytes) s->bytes->gauge = (double)p->segment_bytes;
}

static void lanes_read(struct sonde_segment *s, struct sonde_model_process *p)
{
    struct segment_counts c;
    if (segment_counts_load(s, &c, NULL) != 0) return;
    p->lanes = 0;
    for (uint32_t i = 0; i < c.lanes; i++) {
        const struct sonde__lane *lane = (const struct sonde__lane *)(const void *)(
            s->map.base + sonde__lane_at(&s->h, i));
        p->lanes += segment_load(&lane->claims) != 0;
    }
}

/* ---- Overflow ----------------------------------------------------------------------------- */

static const char *segment_self_value_of(const struct sonde_model_series *s, const char *label)
{
    for (size_t i = 0; i < s->label_count; i++) {
        if (strcmp(s->labels[i].name, label) == 0) return s->labels[i].value;
    }
    return NULL;
}

/* Distinct values of the label over the segment's series of family id, by their hashes. */
static size_t segment_self_distinct(const struct sonde_segment *s, uint32_t id, const char *label,
                                    uint64_t *hashes)
{
    size_t n = 0, count = 0;
    for (uint32_t i = 1; i < s->series_count; i++) {
        if (s->series[i].family != id || !s->series[i].model) continue;
        const char *value = segment_self_value_of(s->series[i].model, label);
        if (value) hashes[n++] = sonde_fnv64_text(SONDE_FNV64_SEED, value);
    }
    qsort(hashes, n, sizeof(*hashes), sonde_cmp_u64);
    for (size_t i = 0; i < n; i++) count += i == 0 || hashes[i] != hashes[i - 1];
    return count;
}

/* The label with the most values is the one to look at; "" for a family without labels. */
static const char *overflow_label(const struct sonde_segment *s, uint32_t id)
{
    const struct segment_family *f = &s->family[id];
    const char *most = "";
    size_t most_count = 0;
    uint64_t *hashes = sonde__alloc(s->series_count * sizeof(*hashes));
    for (uint32_t i = 0; hashes && i < f->label_count; i++) {
        size_t count = segment_self_distinct(s, id, f->label[i], hashes);
        if (count <= most_count) continue;
        most_count = count;
        most = f->label[i];
    }
    sonde__free(hashes);
    return most;
}

static void overflow_read(struct sonde_segment *s, struct sonde_model *m,
                          struct sonde_model_process *p)
{
    static const struct sonde_model_family_spec spec = {
        .name = "sonde_series_overflow_total",
        .help = "Records' label sets over a metric's cap, and the label with the most values.",
        .source = "sonde", .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER,
    };
    const char *table = s->map.base + s->h.family_off;
    for (uint32_t id = 1; id < s->family_count; id++) {
        struct segment_family *f = &s->family[id];
        if (f->type == SONDE__TYPE_NAME) continue;
        const struct sonde__family *live =
            (const struct sonde__family *)(const void *)(table + (uint64_t)id * sizeof(*live));
        uint64_t now = segment_load(&live->overflowed);
        if (now <= f->overflowed) continue;
        if (!f->overflow) {
            struct sonde_label labels[] = { { "metric", f->name },
                                            { "label", overflow_label(s, id) } };
            f->overflow = sonde_model_own_series(m, &spec, p, labels, 2);
        }
        if (f->overflow) f->overflow->counter += now - f->overflowed;
        f->overflowed = now;
    }
}

void segment_self_read(struct sonde_segment *s, struct sonde_model *m,
                       struct sonde_model_process *p)
{
    drops_read(s, m, p);
    size_read(s, m, p);
    lanes_read(s, p);
    overflow_read(s, m, p);
}
