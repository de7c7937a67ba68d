/* agent.c - see agent.h, which has the order; each step here is one function of it. */
#include "agent/agent.h"

#include <assert.h>

#include "agent/agent_private.h"
#include "agent/profiler_request.h"
#include "analyze/final_model.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "collect/python/program.h"
#include "sonde/sonde.h"

#define FLUSH_S_MAX 5.0 /* what is sent on does not keep the agent for longer at its end */

const struct sonde_agent sonde_agent_none;

/* rc of a part that may be missing: 0 = go on, be it without it. */
static int agent_without(const struct sonde_agent *a, enum sonde_agent_part part, int rc,
                         const struct sonde_err *err)
{
    const struct sonde_agent_life *l = a->life;
    assert(rc <= 0);
    if (rc && l->missing && !l->missing(part, rc, err, l->missing_arg)) return 0;
    return rc;
}

/* ---- What the model calls -------------------------------------------------------------------- */

static void agent_on_span(const struct sonde_model_span *span, void *arg)
{
    const struct sonde_agent *a = arg;
    sonde_recording_on_span(span, &a->life->recording);
}

static void agent_on_tick(struct sonde_model *m, void *arg)
{
    sonde_assert_held_write(&m->lock);
    const struct sonde_agent *a = arg;
    if (a->life->feed) sonde_store_feed_tick(m, a->life->feed);
    sonde_recording_on_tick(m, &a->life->recording);
    sonde_own_cost_tick(m, a->own_cost);
}

/* Requests that ask for a profile by the C API. */
static void agent_on_begin(const struct sonde_infer_request *r, void *arg)
{
    const struct sonde_agent *a = arg;
    if (a->profiler) sonde_profiler_on_begin(a->profiler, r);
}

static void agent_on_done(const struct sonde_infer_request *r, void *arg)
{
    const struct sonde_agent *a = arg;
    sonde_recording_on_request(r, &a->life->recording);
    if (a->profiler) sonde_profiler_on_done(a->profiler, r);
    sonde_push_request(a->push, r);
    /* One that went on is in the store. */
    if (a->life->feed && !(r->flags & SONDE_INFER_WENT_ON)) {
        sonde_store_feed_request(a->life->feed, r);
    }
}

/* ---- Open ------------------------------------------------------------------------------------ */

static int agent_feed(struct sonde_agent *a, struct sonde_store *s, struct sonde_err *err)
{
    const int rc = sonde_store_feed_create(a->store_ops, s, &a->life->feed);
    return rc ? sonde_err_set(err, rc, "out of memory") : 0;
}

static int agent_open_store(struct sonde_agent *a, const struct sonde_agent_options *o,
                            struct sonde_err *err)
{
    if (!o->store) return 0;
    int rc = a->store_ops->open(o->store, &a->store, err);
    if (rc) a->store = NULL;
    else rc = agent_feed(a, a->store, err);
    return agent_without(a, SONDE_AGENT_STORE, rc, err);
}

/* Without a store what was lately is kept all the same. */
static int agent_open_temporary(struct sonde_agent *a, const struct sonde_agent_options *o,
                                struct sonde_err *err)
{
    if (a->store || !o->temporary) return 0;
    int rc = sonde_store_recent_open(o->temporary, &a->temporary, err);
    if (rc) a->temporary = NULL;
    else rc = agent_feed(a, a->temporary, err);
    if (rc) {
        a->store_ops->close(a->temporary);
        a->temporary = NULL;
    }
    return agent_without(a, SONDE_AGENT_TEMPORARY, rc, err);
}

static void agent_feed_spans(struct sonde_agent *a)
{
    struct sonde_model *m = sonde_collector_model(a->collector);
    sonde_wrlock(&m->lock);
    sonde_store_feed_spans(a->life->feed, m);
    sonde_rwunlock(&m->lock);
}

static int agent_open_collector(struct sonde_agent *a, const struct sonde_agent_options *options,
                                struct sonde_err *err)
{
    struct sonde_collector_options o = options->collector;
    struct sonde_infer_options infer = options->infer;
    assert(!o.on_span && !o.on_tick && !o.infer);
    if (options->record) {
        o.on_span = agent_on_span;
        o.on_span_arg = a;
    }
    o.on_tick = agent_on_tick;
    o.on_tick_arg = a;
    infer.on_begin = agent_on_begin;
    infer.on_done = agent_on_done;
    infer.on_done_arg = a;
    o.infer = &infer;
    const int rc = sonde_collector_create(&o, &a->collector, err);
    if (rc) a->collector = NULL;
    else if (a->life->feed) agent_feed_spans(a);
    return agent_without(a, SONDE_AGENT_COLLECTOR, rc, err);
}

static int agent_open_push(struct sonde_agent *a, const struct sonde_push_options *options,
                           struct sonde_err *err)
{
    if (!options) return 0;
    struct sonde_push_options o = *options;
    o.model = sonde_collector_model(a->collector);
    o.requests = 1; /* agent_on_done */
    a->life->flush_s = o.timeout_s < FLUSH_S_MAX ? o.timeout_s : FLUSH_S_MAX;
    const int rc = sonde_push_create(&o, &a->push, err);
    if (rc) a->push = NULL;
    return agent_without(a, SONDE_AGENT_PUSH, rc, err);
}

static int agent_open_alerts(struct sonde_agent *a, const struct sonde_alerts_options *options,
                             struct sonde_err *err)
{
    if (!options) return 0;
    struct sonde_alerts_options o = *options;
    o.model = sonde_collector_model(a->collector);
    a->life->alert_flush_s = o.timeout_s < FLUSH_S_MAX ? o.timeout_s : FLUSH_S_MAX;
    const int rc = sonde_alerts_create(&o, &a->alerts, err);
    if (rc) a->alerts = NULL;
    return agent_without(a, SONDE_AGENT_ALERTS, rc, err);
}

static int agent_open_otlp(struct sonde_agent *a, const struct sonde_otlp_options *o,
                           struct sonde_err *err)
{
    if (!o) return 0;
    int rc = sonde_otlp_create(sonde_collector_model(a->collector), o, &a->otlp);
    if (rc) {
        a->otlp = NULL;
        sonde_err_set(err, rc, "no memory to take OTLP");
    }
    return agent_without(a, SONDE_AGENT_OTLP, rc, err);
}

static int agent_open_marks(struct sonde_agent *a, struct sonde_err *err)
{
    if (!a->life->asked) return 0;
    const int rc = sonde_marks_create(a->store_ops, a->store, &a->marks);
    if (rc) sonde_err_set(err, rc, "no memory for marks");
    return agent_without(a, SONDE_AGENT_MARKS, rc, err);
}

/* What got worse is an alert until it went away. */
static void agent_on_regression(const struct sonde_regression *r, void *arg)
{
    const struct sonde_agent *a = arg;
    const struct sonde_label labels[] = { { "program", r->program }, { "figure", r->figure } };
    if (r->verdict != SONDE_REGRESSION_WORSE) return;
    sonde_alerts_tell(a->alerts, &(struct sonde_alert_event){
        .kind = SONDE_REGRESSION_KIND, .key = r->subject, .severity = r->severity,
        .labels = labels, .label_count = SONDE_COUNT(labels), .summary = r->text,
        .value = r->change.relative, .link = "/profiling/findings",
        .firing = !(r->change.until_s > 0) });
}

static int agent_open_regressions(struct sonde_agent *a,
                                  const struct sonde_regressions_options *options,
                                  struct sonde_err *err)
{
    struct sonde_store *s = a->store ? a->store : a->temporary;
    if (!options || !s) return 0;
    struct sonde_regressions_options o = *options;
    o.ops = a->store_ops;
    o.store = s;
    o.marks = a->marks;
    o.collector = a->collector;
    o.on_regression = agent_on_regression;
    o.on_regression_arg = a;
    const int rc = sonde_regressions_create(&o, &a->regressions, err);
    if (rc) a->regressions = NULL;
    return agent_without(a, SONDE_AGENT_REGRESSIONS, rc, err);
}

/* All that looks at the model. */
static int agent_open_readers(struct sonde_agent *a, const struct sonde_agent_options *o,
                              struct sonde_err *err)
{
    if (!a->collector) return 0;
    struct sonde_profiler_options p = o->profiler;
    p.collector = a->collector;
    if (o->profile && sonde_profiler_create(&p, &a->profiler) != 0) a->profiler = NULL;
    int rc = agent_open_push(a, o->push, err);
    if (!rc) rc = agent_open_alerts(a, o->alerts, err);
    if (!rc) rc = agent_open_otlp(a, o->otlp, err);
    if (!rc) rc = agent_open_marks(a, err);
    if (!rc) rc = agent_open_regressions(a, o->regressions, err);
    return rc;
}

int sonde_agent_open(const struct sonde_agent_options *o, struct sonde_agent **out,
                     struct sonde_err *err)
{
    assert(o && out && err);
    struct sonde_agent *a = sonde__calloc(1, sizeof(*a));
    struct sonde_agent_life *l = sonde__calloc(1, sizeof(*l));
    if (!a || !l || (o->record && sonde_recording_keep_spans(&l->recording) != 0)) {
        if (o->targets) sonde_scrape_targets_release(o->targets);
        sonde__free(a);
        sonde__free(l);
        return sonde_err_set(err, SONDE_ENOMEM, "out of memory");
    }
    if (o->targets) {
        l->targets = *o->targets;
        *o->targets = (struct sonde_scrape_targets){ 0 };
    }
    l->scrape_options = o->scrape;
    l->pid = o->collector.pid;
    l->asked = o->asked;
    l->no_findings = o->no_findings;
    l->finding_interval_s = o->finding_interval_s;
    l->measures_cost = o->own_cost != NULL;
    if (o->own_cost) l->own_cost = *o->own_cost;
    l->interval_s = o->collector.interval_s > 0 ? o->collector.interval_s : 1;
    l->missing = o->missing;
    l->missing_arg = o->missing_arg;
    a->life = l;
    a->store_ops = &sonde_store_sqlite;
    a->health = o->health;
    a->rules = o->rules;
    l->muted = sonde__strdup(o->rules.muted ? o->rules.muted : "");
    a->rules.muted = l->muted;
    a->started_s = sonde_clock_s(CLOCK_REALTIME);
    if (o->record) a->recording = &l->recording;
    int rc = agent_open_store(a, o, err);
    if (!rc) rc = agent_open_temporary(a, o, err);
    if (!rc) rc = agent_open_collector(a, o, err);
    if (!rc) rc = agent_open_readers(a, o, err);
    if (rc) {
        sonde_agent_close(a);
        return rc;
    }
    *out = a;
    return 0;
}

/* ---- Record and profile ---------------------------------------------------------------------- */

static int agent_is_python(char *const *argv)
{
    char program[4096];
    return argv && sonde_uprobes_program(argv[0], program, sizeof(program)) &&
           sonde_python_program(program);
}

static int agent_record_gpu(struct sonde_agent *a, const struct sonde_agent_recording *o,
                            struct sonde_err *err)
{
    struct sonde_recording *r = &a->life->recording;
    const struct sonde_kernel_reader_options gpu = {
        .pid = o->pid, .off = o->gpu_off, .children = o->children,
        .dir = o->heap_options.dir ? o->heap_options.dir : o->cpu_options.dir,
        .readers = sonde_collector_readers(a->collector) };
    const int rc = o->argv ? sonde_kernel_reader_start_on_exec(&gpu, &r->gpu_reader, err)
                           : sonde_kernel_reader_start(&gpu, &r->gpu_reader, err);
    if (rc) r->gpu_reader = NULL;
    return agent_without(a, SONDE_AGENT_GPU, rc, err);
}

int sonde_agent_record(struct sonde_agent *a, const struct sonde_agent_recording *o,
                       struct sonde_err *err)
{
    assert(o->pid);
    struct sonde_recording *r = &a->life->recording;
    int rc = 0;
    a->recording = r;
    sonde_collector_gpu_burst(a->collector, 1); /* to the end of the agent */
    r->argv = o->argv;
    a->life->unread = 1;
    /* Before the CPU is sampled: what unwinds must know what probes do to stacks. */
    if (a->collector && o->llama) sonde_recording_prepare_probes(r, o->argv ? o->argv[0] : NULL);
    if (o->cpu) {
        struct sonde_cpu_options cpu = o->cpu_options;
        cpu.pid = o->pid;
        cpu.children = o->children;
        cpu.readers = sonde_collector_readers(a->collector);
        cpu.returns = r->returns;
        cpu.python = agent_is_python(o->argv);
        rc = o->argv ? sonde_cpu_start_on_exec(&cpu, &r->cpu, err)
                        : sonde_cpu_start(&cpu, &r->cpu, err);
        if (rc) r->cpu = NULL;
        rc = agent_without(a, SONDE_AGENT_CPU, rc, err);
    }
    if (!rc && o->heap) {
        struct sonde_heap_reader_options heap = o->heap_options;
        heap.pid = o->pid;
        heap.children = o->children;
        heap.readers = sonde_collector_readers(a->collector);
        r->leaks = o->leaks;
        rc = o->argv ? sonde_heap_reader_start_on_exec(&heap, &r->heap_reader, err)
                        : sonde_heap_reader_start(&heap, &r->heap_reader, err);
        if (rc) r->heap_reader = NULL;
        rc = agent_without(a, SONDE_AGENT_HEAP, rc, err);
    }
    if (!rc && o->gpu) rc = agent_record_gpu(a, o, err);
    if (rc) return rc;
    if (a->profiler && r->cpu) sonde_profiler_use(a->profiler, r->cpu);
    if (a->profiler && r->heap_reader) {
        sonde_profiler_use_heap_reader(a->profiler, r->heap_reader, o->pid);
    }
    if (!r->returns) return 0;
    rc = sonde_recording_start_probes(r, a->collector, o->pid, err);
    /* Of a process that runs it is not known whether there is anything to be missed. */
    if (rc == SONDE_EOFF && !o->argv) return 0;
    return agent_without(a, SONDE_AGENT_PROBES, rc, err);
}

/* What continuous profiling has seen of a minute; where there is a recording, that is sent. */
static void agent_on_minute(const struct sonde_profile *p, void *arg)
{
    const struct sonde_agent *a = arg;
    if (!a->recording) sonde_push_profile(a->push, p);
    sonde_regressions_profile(a->regressions, p);
}

static int agent_start_continuous(struct sonde_agent *a,
                                  const struct sonde_continuous_options *options,
                                  struct sonde_err *err)
{
    struct sonde_continuous_options o = *options;
    o.collector = a->collector;
    o.profiler = a->profiler;
    o.store_ops = a->store_ops;
    o.store = a->store;
    o.on_minute = agent_on_minute;
    o.on_minute_arg = a;
    const int rc = sonde_continuous_create(&o, &a->continuous, err);
    if (rc) a->continuous = NULL;
    return agent_without(a, SONDE_AGENT_CONTINUOUS, rc, err);
}

/* Continuous profiling may be turned on later, so this waits for it. Without it nothing is lost. */
static void agent_start_own_cost(struct sonde_agent *a)
{
    struct sonde_err err = { "" };
    struct sonde_own_cost_options o = { .collector = a->collector, .profiler = a->profiler,
                                        .continuous = a->continuous,
                                        .settings = a->life->own_cost };
    if (!a->life->measures_cost || !a->continuous || !a->profiler) return;
    if (o.settings.window_s < a->life->interval_s) o.settings.window_s = a->life->interval_s;
    struct sonde_own_cost_control *c = NULL;
    if (sonde_own_cost_create(&o, &c, &err) != 0) {
        sonde_log(SONDE_LOG_WARN, "%s", err.text);
        return;
    }
    struct sonde_model *m = sonde_collector_model(a->collector);
    sonde_wrlock(&m->lock); /* ticks look at it */
    a->own_cost = c;
    sonde_rwunlock(&m->lock);
}

static int agent_open_sessions(struct sonde_agent *a, struct sonde_err *err)
{
    if (!a->life->asked || !a->profiler) return 0;
    const int rc = sonde_sessions_create(a->profiler, a->store_ops, a->store, &a->sessions);
    if (!rc) {
        sonde_sessions_set_findings(a->sessions, a->life->no_findings ? NULL : &a->rules);
        return 0;
    }
    a->sessions = NULL;
    sonde_err_set(err, rc, "no memory for profiling sessions");
    return agent_without(a, SONDE_AGENT_SESSIONS, rc, err);
}

/* A finding begins or is over: a log record for who collects those, and an alert. */
static void agent_on_finding(const struct sonde_finding *f, int over, void *arg)
{
    const struct sonde_agent *a = arg;
    static const uint32_t levels[] = { 9, 13, 17 }; /* of OpenTelemetry */
    const int critical = f->severity == SONDE_SEVERITY_CRITICAL;
    const struct sonde_push_log log = {
        .time_ns = over ? f->until_ns : f->since_ns, .severity = over ? 9 : levels[f->severity],
        .severity_text = over ? "INFO" : critical ? "ERROR" : "WARN", .body = f->text,
        .attributes = { { "event.name", "sonde.finding" }, { "sonde.finding.kind", f->kind },
                        { "sonde.finding.subject", f->subject },
                        { "sonde.finding.severity", sonde_severity_name(f->severity) },
                        { "sonde.finding.state", over ? "ended" : "began" },
                        { "sonde.finding.advice", f->advice },
                        { "code.filepath", f->file } },
        .attribute_count = *f->file ? 7 : 6,
    };
    sonde_push_log(a->push, &log);
    sonde_alerts_tell(a->alerts, &(struct sonde_alert_event){
        .kind = f->kind, .key = f->subject, .severity = f->severity, .summary = f->text,
        .value = f->share, .link = "/profiling/findings", .firing = !over,
        .time_s = (double)log.time_ns * 1e-9 });
}

static int agent_open_findings(struct sonde_agent *a, struct sonde_err *err)
{
    const struct sonde_finding_watch_options o = {
        .agent = a, .interval_s = a->life->finding_interval_s, .rules = a->rules,
        .on_change = agent_on_finding, .on_change_arg = a,
    };
    if (!a->life->asked || !a->profiler || a->life->no_findings) return 0;
    const int rc = sonde_finding_watch_create(&o, &a->findings);
    if (!rc) return 0;
    a->findings = NULL;
    sonde_err_set(err, rc, "no memory to look for findings");
    return agent_without(a, SONDE_AGENT_FINDINGS, rc, err);
}

int sonde_agent_profile(struct sonde_agent *a, const struct sonde_continuous_options *o,
                        struct sonde_err *err)
{
    assert(!a->continuous && !a->sessions);
    if (!a->collector) return 0;
    int rc = o ? agent_start_continuous(a, o, err) : 0;
    if (!rc) agent_start_own_cost(a);
    if (!rc) rc = agent_open_sessions(a, err);
    return rc ? rc : agent_open_findings(a, err);
}

/* ---- Start and stop -------------------------------------------------------------------------- */

static int agent_start_regressions(struct sonde_agent *a, struct sonde_err *err)
{
    const struct sonde_store_ops *ops = NULL;
    if (!a->regressions) return 0;
    if (a->continuous) {
        struct sonde_store *history = sonde_continuous_store(a->continuous, &ops);
        sonde_regressions_use_history(a->regressions, ops, history);
    }
    const int rc = sonde_regressions_start(a->regressions, err);
    return agent_without(a, SONDE_AGENT_REGRESSIONS, rc, err);
}

int sonde_agent_start(struct sonde_agent *a, struct sonde_err *err)
{
    struct sonde_agent_life *l = a->life;
    int rc = 0;
    if (!a->collector) return 0;
    struct sonde_model *m = sonde_collector_model(a->collector);
    /* Not before: a process that is about to execute a command is a copy of us, by name too. */
    if (l->pid && !l->watched) sonde_collector_watch(a->collector, l->pid);
    l->watched = 1;
    if (l->targets.count && !l->scrape) {
        rc = sonde_scrape_start(m, &l->targets, &l->scrape_options, &l->scrape, err);
        if (rc) l->scrape = NULL;
        rc = agent_without(a, SONDE_AGENT_SCRAPE, rc, err);
    }
    if (!rc && a->push && !l->sending) {
        rc = sonde_push_start(a->push, err);
        l->sending = !rc;
        rc = agent_without(a, SONDE_AGENT_SENDING, rc, err);
    }
    if (!rc && a->findings) {
        rc = agent_without(a, SONDE_AGENT_FINDINGS, sonde_finding_watch_start(a->findings, err),
                           err);
    }
    if (!rc && a->alerts && !l->telling) {
        rc = sonde_alerts_start(a->alerts, err);
        l->telling = !rc;
        rc = agent_without(a, SONDE_AGENT_TELLING, rc, err);
    }
    if (rc) return rc;
    rc = sonde_collector_start(a->collector, err);
    rc = agent_without(a, SONDE_AGENT_READING, rc, err);
    return rc ? rc : agent_start_regressions(a, err);
}

/* The process has ended, or its recording: what it recorded after the last tick is still in its
 * segment, and nothing more is to be expected of its requests. */
static void agent_read_last(struct sonde_agent *a)
{
    struct sonde_model *m = sonde_collector_model(a->collector);
    struct sonde_infer_tracker *tracker = sonde_collector_tracker(a->collector);
    struct sonde_profile *spans = a->life->recording.spans;
    sonde_collector_step(a->collector);
    sonde_wrlock(&m->lock);
    sonde_infer_flush(tracker);
    if (spans && tracker) sonde_infer_complete_run(tracker, spans);
    if (spans) sonde_final_complete_run(m, spans);
    sonde_rwunlock(&m->lock);
}

void sonde_agent_stop(struct sonde_agent *a, int abandon)
{
    struct sonde_agent_life *l = a->life;
    sonde_finding_watch_stop(a->findings); /* these two look at all of the rest */
    sonde_regressions_stop(a->regressions);
    agent_front_stop(a); /* before the others: how its requests end is counted, and handed on */
    sonde_own_cost_stop(a->own_cost); /* sampling is on to the end */
    if (abandon) sonde_continuous_abandon(a->continuous);
    else sonde_continuous_stop(a->continuous); /* it uses the engines; its last minutes are sent */
    if (a->profiler && a->recording) {
        sonde_profiler_use(a->profiler, NULL);
        sonde_profiler_use_heap_reader(a->profiler, NULL, 0);
    }
    /* Engines before the last spans are drained: no sample is without the span it was taken in. */
    sonde_recording_stop(&l->recording);
    sonde_recording_stop_probes(&l->recording);
    if (!a->collector) return;
    sonde_collector_stop(a->collector);
    if (l->unread) agent_read_last(a);
    l->unread = 0;
}

/* ---- Close ----------------------------------------------------------------------------------- */

void sonde_agent_close(struct sonde_agent *a)
{
    if (!a) return;
    struct sonde_agent_life *l = a->life;
    l->unread = 0; /* nobody will look at it */
    sonde_agent_stop(a, 0);
    sonde_recording_cancel(&l->recording);
    agent_front_release(a);
    sonde_finding_watch_destroy(a->findings);
    a->findings = NULL;
    sonde_sessions_destroy(a->sessions);
    sonde_continuous_stop(a->continuous); /* its last minutes go to the next */
    sonde_regressions_destroy(a->regressions);
    a->regressions = NULL;
    sonde_marks_destroy(a->marks);
    sonde_alerts_stop(a->alerts, l->alert_flush_s); /* while the model is there */
    sonde_alerts_destroy(a->alerts);
    a->alerts = NULL;
    sonde_push_stop(a->push, l->flush_s); /* alike, with what alerts counted last */
    sonde_push_destroy(a->push);
    a->push = NULL;
    sonde_own_cost_destroy(a->own_cost);
    a->own_cost = NULL;
    sonde_continuous_destroy(a->continuous);
    sonde_scrape_stop(l->scrape);
    sonde_otlp_destroy(a->otlp);
    sonde_scrape_targets_release(&l->targets);
    sonde_profiler_destroy(a->profiler);
    a->profiler = NULL; /* the model tells of requests that it gives up */
    sonde_collector_destroy(a->collector);
    sonde_store_feed_destroy(l->feed);
    a->store_ops->close(a->store);
    a->store_ops->close(a->temporary);
    sonde_recording_release(&l->recording);
    sonde__free(l->muted);
    sonde__free(l);
    sonde__free(a);
}
