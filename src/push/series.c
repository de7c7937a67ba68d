/* series.c - what became of what was to be sent, as series of the agent: whoever scrapes it, or
 * gets what it pushes, sees whether pushing works. */
#include <string.h>

#include "push/push_private.h"

enum { SENT, SENT_BYTES, FAILED, REJECTED, SPOOLED, QUEUED, QUEUED_BYTES, LAST, DROPPED };

#define COUNTER(text, what)                                                                      \
    { .name = text, .help = what, .source = "sonde", .type = SONDE_COUNTER }
#define GAUGE(text, what, in)                                                                    \
    { .name = text, .help = what, .unit = in, .source = "sonde", .type = SONDE_GAUGE }

static const struct sonde_model_family_spec specs[] = {
    [SENT] = COUNTER("sonde_push_sent_total", "Batches that a destination took."),
    [SENT_BYTES] = { .name = "sonde_push_sent_bytes_total", .help = "Bytes of them, compressed.",
                     .unit = "bytes", .source = "sonde", .type = SONDE_COUNTER },
    [FAILED] = COUNTER("sonde_push_failed_total", "Tries that failed and are repeated."),
    [REJECTED] = COUNTER("sonde_push_rejected_total",
                         "Points, spans or profiles in batches that were taken but for these."),
    [SPOOLED] = COUNTER("sonde_push_spooled_total", "Batches that had to wait on disk."),
    [QUEUED] = GAUGE("sonde_push_queue_batches", "Batches that wait.", ""),
    [QUEUED_BYTES] = GAUGE("sonde_push_queue_bytes", "Bytes of them.", "bytes"),
    [LAST] = GAUGE("sonde_push_last_success_timestamp_seconds",
                   "When a batch was taken last, unix time; 0 = never.", "seconds"),
    [DROPPED] = COUNTER("sonde_push_dropped_total", "Batches that were never taken, by reason."),
};

static const char *const reasons[PUSH_DROPS] = {
    [PUSH_DROP_REFUSED] = "refused", [PUSH_DROP_SIZE] = "size",   [PUSH_DROP_AGE] = "age",
    [PUSH_DROP_DAMAGED] = "damaged", [PUSH_DROP_SPOOL] = "spool", [PUSH_DROP_MEMORY] = "memory",
};

_Static_assert(DROPPED + PUSH_DROPS <=
                   sizeof(((struct push_dest *)0)->series) / sizeof(struct sonde_model_series *),
               "room for all series");

static struct sonde_model_series *push_series_make(struct push_dest *d, struct sonde_model *m,
                                                   size_t spec, const char *reason)
{
    const struct sonde_label labels[] = { { "destination", d->ops->name }, { "reason", reason } };
    return sonde_model_own_series(m, &specs[spec], NULL, labels, reason ? 2 : 1);
}

static void push_series_set(struct push_dest *d, struct sonde_model *m, size_t slot,
                            const char *reason, uint64_t counter, double gauge)
{
    const size_t spec = slot < DROPPED ? slot : DROPPED;
    if (!d->series[slot]) d->series[slot] = push_series_make(d, m, spec, reason);
    struct sonde_model_series *s = d->series[slot];
    if (!s) return;
    if (s->family->type == SONDE_GAUGE) s->gauge = gauge;
    else s->counter = counter;
}

void push_series_update(struct push_dest *d, struct sonde_model *m)
{
    sonde_assert_held_write(&m->lock);
    struct push_queue_stats q;
    push_queue_stats(d->queue, &q);
    sonde_lock(&d->lock);
    struct push_counts c = d->counts;
    sonde_unlock(&d->lock);
    c.dropped[PUSH_DROP_SIZE] += q.dropped_size;
    c.dropped[PUSH_DROP_AGE] += q.dropped_age;
    c.dropped[PUSH_DROP_DAMAGED] += q.dropped_damaged;
    c.dropped[PUSH_DROP_SPOOL] += q.dropped_spool;
    c.dropped[PUSH_DROP_MEMORY] += q.dropped_memory;
    push_series_set(d, m, SENT, NULL, c.sent, 0);
    push_series_set(d, m, SENT_BYTES, NULL, c.sent_bytes, 0);
    push_series_set(d, m, FAILED, NULL, c.failed, 0);
    push_series_set(d, m, REJECTED, NULL, c.rejected, 0);
    push_series_set(d, m, SPOOLED, NULL, q.spooled, 0);
    push_series_set(d, m, QUEUED, NULL, 0, (double)q.batches);
    push_series_set(d, m, QUEUED_BYTES, NULL, 0, (double)q.bytes);
    push_series_set(d, m, LAST, NULL, 0, c.last_sent_s);
    for (size_t i = 0; i < PUSH_DROPS; i++) {
        push_series_set(d, m, DROPPED + i, reasons[i], c.dropped[i], 0);
    }
}
