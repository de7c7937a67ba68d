/* ready.h - families that libsonde brings along, defined when one is first used. Found again by
 * name, so several libraries in a process that use them add to the same series. */
#ifndef SONDE_RECORD_READY_H
#define SONDE_RECORD_READY_H

#include "sonde/sonde.h"

struct ready {
    uint32_t id;             /* atomic; 0 = not yet, also while recording is off */
    enum sonde_type type;
    struct sonde_metric metric;
};

#define LABELS(...) (const char *const[]){ __VA_ARGS__, NULL }
#define READY(family_type, family_name, family_help, family_unit, family_kind, family_scale,       \
              family_labels)                                                                     \
    {                                                                                              \
        .type = family_type, .metric = {                                                           \
            .size = sizeof(struct sonde_metric), .name = family_name, .help = family_help,         \
            .unit = family_unit, .source = "sonde", .labels = family_labels,                       \
            .kind = family_kind, .scale = family_scale                                             \
        }                                                                                          \
    }

static inline struct sonde_family ready_family(struct ready *r)
{
    struct sonde_family f = { __atomic_load_n(&r->id, __ATOMIC_RELAXED) };
    if (SONDE__UNLIKELY(!f.id)) {
        sonde_define(r->type, &r->metric, &f);
        __atomic_store_n(&r->id, f.id, __ATOMIC_RELAXED);
    }
    return f;
}

/* A count in the series of these two label values. */
static inline void ready_count(struct ready *r, const char *a, const char *b, uint64_t n)
{
    if (SONDE__GATE() == SONDE__GATE_OFF) return;
    const char *const values[] = { a, b };
    sonde_counter_add(sonde_counter_bind(ready_family(r), values), n);
}

#endif
