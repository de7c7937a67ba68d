/* ml_loop.c - training loops of ml.h: epochs, steps, phases.
 *
 * One clock reading ends a phase and begins the next, and the first begins with its step, so phases
 * add up to steps, and with what is between steps to epochs. The span of a wait between two steps
 * is written when it is over: one that was open meanwhile would become the parent of whatever the
 * program does there, and would stay the thread's current one after the last step.
 *
 * A ring of spans holds some thousand until the agent comes by, ten times a second. Steps of
 * microseconds would fill it with themselves, and the epochs, of which curves are drawn, would be
 * what is lost. So one step in a millisecond has spans, and one phase between steps.
 *
 * Attributes of an epoch are written at its end: the agent keeps only so many that wait for their
 * span, and those of a long epoch would be pushed out by those of its steps. */
#include "sonde/ml.h"

#include <string.h>

#include "record/ready.h"
#include "record/state.h"

enum { SPAN_NS = 1000000 }; /* at least between beginnings of what has spans */

#define SECONDS(name, help, ...)                                                               \
    READY(SONDE_HISTOGRAM, name, help, "seconds", SONDE_KIND_TIME, 1e-9, LABELS(__VA_ARGS__))

static struct ready epoch_seconds =
    SECONDS("sonde_ml_epoch_seconds", "Time of training epochs.", "model");
static struct ready step_seconds =
    SECONDS("sonde_ml_step_seconds", "Time of training steps.", "model");
static struct ready first_step_seconds =
    SECONDS("sonde_ml_first_step_seconds", "Time of the first step of each epoch.", "model");
static struct ready phase_seconds =
    SECONDS("sonde_ml_phase_seconds", "Time of training, by phase.", "model", "phase");
static struct ready samples_total =
    READY(SONDE_COUNTER, "sonde_ml_samples_total", "Samples trained on.", NULL,
          SONDE_KIND_THROUGHPUT, 1, LABELS("model"));
static struct ready steps_total =
    READY(SONDE_COUNTER, "sonde_ml_steps_total", "Training steps.", NULL, SONDE_KIND_THROUGHPUT, 1,
          LABELS("model"));
static struct ready epoch_number =
    READY(SONDE_GAUGE, "sonde_ml_epoch", "Number of the newest epoch.", NULL, SONDE_KIND_CUSTOM, 1,
          LABELS("model"));
static struct ready value_gauge =
    READY(SONDE_GAUGE, "sonde_ml_value",
          "Values that training reports (loss, accuracy, learning rate, …), the newest.", NULL,
          SONDE_KIND_CUSTOM, 1, LABELS("model", "name"));

static const char *const phase_names[] = {
#define SONDE__X(id, name) name,
    SONDE_ML_PHASES(SONDE__X)
#undef SONDE__X
};

static const char *const phase_spans[] = {
#define SONDE__X(id, name) "ml." name,
    SONDE_ML_PHASES(SONDE__X)
#undef SONDE__X
};

void sonde_ml_loop_define(struct sonde_ml_loop *l, const char *model)
{
    memset(l, 0, sizeof(*l));
    if (!model || !*model) model = "default";
    const size_t len = strnlen(model, sizeof(l->model) - 1);
    memcpy(l->model, model, len);
    const char *const name[] = { l->model };
    l->epoch_seconds = sonde_hist_bind(ready_family(&epoch_seconds), name);
    l->step_seconds = sonde_hist_bind(ready_family(&step_seconds), name);
    l->first_step_seconds = sonde_hist_bind(ready_family(&first_step_seconds), name);
    l->samples = sonde_counter_bind(ready_family(&samples_total), name);
    l->steps = sonde_counter_bind(ready_family(&steps_total), name);
    l->epoch_number = sonde_gauge_bind(ready_family(&epoch_number), name);
}

/* ---- Phases -------------------------------------------------------------------------------- */

static uint32_t ml_phase_known(enum sonde_ml_phase_id phase)
{
    return (unsigned)phase < SONDE_ML_PHASE_COUNT ? (uint32_t)phase : (uint32_t)SONDE_ML_OTHER;
}

/* Resolved with the first use, so that there are series only of phases that there are. */
static struct sonde_hist ml_phase_hist(struct sonde_ml_loop *l, uint32_t phase)
{
    struct sonde_hist *h = &l->phase_seconds[phase];
    if (SONDE__UNLIKELY(!h->off)) {
        const char *const values[] = { l->model, phase_names[phase] };
        *h = sonde_hist_bind(ready_family(&phase_seconds), values);
    }
    return *h;
}

/* Whether what begins now has spans; *last is when the last one did. */
static int ml_span_due(uint64_t *last, uint64_t now)
{
    if (*last && sonde_ticks_ns(now - *last) < SPAN_NS) return 0;
    *last = now;
    return 1;
}

/* The phase that is going on is over at `now`. wait: a wait between steps gets its span: see
 * above. */
static void ml_phase_close(struct sonde_ml_loop *l, uint64_t now, int wait)
{
    if (!l->phase_start) return;
    sonde_hist_record(ml_phase_hist(l, l->phase), sonde_ticks_ns(now - l->phase_start));
    if (l->phase_span.flags) {
        sonde_span_end(&l->phase_span, SONDE_OK);
    } else if (wait) {
        struct sonde_span s;
        sonde_span_begin(&s, sonde_name(phase_spans[l->phase]));
        if (s.flags) s.start = l->phase_start;
        sonde_span_end(&s, SONDE_OK);
    }
    l->phase_start = 0;
}

static void ml_phase_open(struct sonde_ml_loop *l, uint32_t phase, uint64_t now)
{
    l->phase = phase;
    l->phase_start = now;
    l->phase_span.flags = 0;
    if (!l->spanned) return;
    sonde_span_begin(&l->phase_span, sonde_name(phase_spans[phase]));
    if (l->phase_span.flags) l->phase_span.start = now;
}

/* From now on it is waited for the next step. */
static void ml_phase_wait(struct sonde_ml_loop *l, uint64_t now)
{
    l->phase = SONDE_ML_DATA_WAIT;
    l->phase_start = now;
    l->phase_span.flags = 0;
}

void sonde_ml_phase(struct sonde_ml_loop *l, enum sonde_ml_phase_id phase)
{
    if (SONDE__GATE() == SONDE__GATE_OFF || !(l->step_start || l->epoch_start)) return;
    const uint64_t now = sonde_ticks();
    if (!l->step_start) l->spanned = (uint32_t)ml_span_due(&l->gap_spanned, now);
    ml_phase_close(l, now, !l->step_start && l->spanned);
    ml_phase_open(l, ml_phase_known(phase), now);
}

/* ---- Steps --------------------------------------------------------------------------------- */

void sonde_ml_step_begin(struct sonde_ml_loop *l, enum sonde_ml_phase_id phase)
{
    if (SONDE__GATE() == SONDE__GATE_OFF) return;
    if (l->step_start) sonde_ml_step_end(l, 0, SONDE_CANCELLED);
    const uint64_t now = sonde_ticks();
    l->spanned = (uint32_t)ml_span_due(&l->step_spanned, now);
    ml_phase_close(l, now, (int)l->spanned);
    l->step_span.flags = 0;
    if (l->spanned) sonde_span_begin(&l->step_span, sonde_name("ml.step"));
    if (l->step_span.flags) l->step_span.start = now;
    l->step_start = now;
    ml_phase_open(l, ml_phase_known(phase), now);
}

void sonde_ml_step_end(struct sonde_ml_loop *l, uint64_t samples, enum sonde_outcome outcome)
{
    if (!l->step_start) return;
    const uint64_t now = sonde_ticks(), ns = sonde_ticks_ns(now - l->step_start);
    ml_phase_close(l, now, 0);
    sonde_hist_record_traced(l->step_seconds, ns);
    sonde_counter_add(l->steps, 1);
    if (samples) sonde_counter_add(l->samples, samples);
    if (samples && l->step_span.flags) {
        sonde_span_attr_int(&l->step_span, sonde_name("num_samples"), (int64_t)samples);
    }
    sonde_span_end(&l->step_span, outcome);
    l->step_start = 0;
    if (l->epoch_start) {
        if (!l->epoch_steps++) {
            l->epoch_first_step_ns = ns;
            sonde_hist_record(l->first_step_seconds, ns);
        }
        l->epoch_step_ns += ns;
        l->epoch_samples += samples;
    }
    ml_phase_wait(l, now);
}

/* ---- Epochs -------------------------------------------------------------------------------- */

void sonde_ml_epoch_begin(struct sonde_ml_loop *l, int64_t epoch)
{
    if (SONDE__GATE() == SONDE__GATE_OFF) return;
    if (l->epoch_start) sonde_ml_epoch_end(l, SONDE_CANCELLED);
    if (l->step_start) sonde_ml_step_end(l, 0, SONDE_CANCELLED);
    l->epoch_samples = l->epoch_steps = l->epoch_step_ns = l->epoch_first_step_ns = 0;
    l->value_count = 0;
    l->epoch = epoch;
    sonde_gauge_set(l->epoch_number, (double)epoch);
    const uint64_t now = sonde_ticks();
    sonde_span_begin(&l->epoch_span, sonde_name("ml.epoch"));
    if (l->epoch_span.flags) l->epoch_span.start = now;
    l->epoch_start = now;
    ml_phase_wait(l, now);
}

static void ml_epoch_attrs(struct sonde_ml_loop *l)
{
    struct sonde_span *s = &l->epoch_span;
    sonde_span_attr_str(s, sonde_name("model"), l->model);
    sonde_span_attr_int(s, sonde_name("epoch"), l->epoch);
    sonde_span_attr_int(s, sonde_name("num_samples"), (int64_t)l->epoch_samples);
    sonde_span_attr_int(s, sonde_name("steps"), (int64_t)l->epoch_steps);
    sonde_span_attr_double(s, sonde_name("step_seconds"), (double)l->epoch_step_ns / 1e9);
    if (l->epoch_steps) {
        sonde_span_attr_double(s, sonde_name("first_step_seconds"),
                               (double)l->epoch_first_step_ns / 1e9);
    }
    for (uint32_t i = 0; i < l->value_count; i++) {
        sonde_span_attr_double(s, l->values[i].name, l->values[i].value);
    }
}

void sonde_ml_epoch_end(struct sonde_ml_loop *l, enum sonde_outcome outcome)
{
    if (!l->epoch_start) return;
    if (l->step_start) sonde_ml_step_end(l, 0, SONDE_CANCELLED);
    const uint64_t now = sonde_ticks();
    if (l->phase_start && l->phase == SONDE_ML_DATA_WAIT) l->phase = SONDE_ML_OTHER;
    ml_phase_close(l, now, 0);
    sonde_hist_record_traced(l->epoch_seconds, sonde_ticks_ns(now - l->epoch_start));
    if (sonde__ensure_open() == 0) ml_epoch_attrs(l);
    sonde_span_end(&l->epoch_span, outcome);
    l->epoch_start = 0;
}

/* ---- Values -------------------------------------------------------------------------------- */

void sonde_ml_value(struct sonde_ml_loop *l, const char *name, double value)
{
    if (SONDE__GATE() == SONDE__GATE_OFF) return;
    if (!name || !*name) name = "default";
    const char *const labels[] = { l->model, name };
    sonde_gauge_set(sonde_gauge_bind(ready_family(&value_gauge), labels), value);
    const uint32_t id = l->epoch_start ? sonde_name(name) : 0;
    uint32_t i = 0;
    while (i < l->value_count && l->values[i].name != id) i++;
    if (!id || i == SONDE_ML_VALUES_MAX) return;
    l->values[i].name = id;
    l->values[i].value = value;
    if (i == l->value_count) l->value_count++;
}
