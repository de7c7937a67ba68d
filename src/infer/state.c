/* state.c - what the next agent has to know to go on (base/state.h): totals, groups and
 * models, requests in flight, and events that wait to be put in order. Series are the model's, and
 * are there again when this is loaded.
 *
 * Finished requests are not in it, and of many requests in flight only the end of each timeline:
 * what is shown of them is less, what is counted is the same. */
#include <stdio.h>
#include <string.h>

#include "infer/private.h"
#include "base/alloc.h"
#include "base/state.h"

#define NAME_MAX_BYTES 1024u
#define NO_ENTRY (1ull << 63)  /* of the ring of finished requests, which is not saved */
#define WHOLE_TIMELINES 64u  /* of so many requests in flight all timelines are saved */

struct io {
    struct sonde_infer_tracker *tracker;
    struct sonde_state *s;
    const struct sonde_model_knowns *k;
    int gone;                /* loading: what is read is of a process that is not there any more */
};

static void name_io(struct io *io, const char **name)
{
    char text[NAME_MAX_BYTES];
    if (!sonde_state_loading(io->s)) {
        sonde_state_put_text(io->s, strlen(*name) < sizeof(text) ? *name : "(other)");
        return;
    }
    sonde_state_text(io->s, text, sizeof(text));
    *name = io->gone ? "" : infer_name(io->tracker, text);
}

static void infer_state_process_io(struct io *io, struct sonde_model_process **p)
{
    uint64_t serial = *p ? (*p)->serial : 0;
    sonde_state_u64(io->s, &serial);
    if (sonde_state_loading(io->s)) io->gone = io->s->bad || !sonde_model_known(io->k, serial, p);
}

static void int_io(struct io *io, int *v)
{
    uint32_t wide = *v != 0;
    sonde_state_u32(io->s, &wide);
    *v = wide != 0;
}

/* ---- Totals --------------------------------------------------------------------------------- */

static void totals_io(struct io *io)
{
    struct sonde_infer_tracker *tracker = io->tracker;
    struct sonde_infer_totals *t = &tracker->totals;
    uint64_t outcomes = SONDE_INFER_OUTCOMES, reasons = SONDE_INFER_REASON_COUNT;
    sonde_state_double(io->s, &t->since_s);
    sonde_state_count(io->s, &outcomes, SONDE_INFER_OUTCOMES);
    for (uint64_t i = 0; i < outcomes; i++) sonde_state_u64(io->s, &t->requests[i]);
    sonde_state_u64(io->s, &t->tokens_in);
    sonde_state_u64(io->s, &t->tokens_reused);
    sonde_state_u64(io->s, &t->tokens_out);
    sonde_state_u64(io->s, &t->memory_peak);
    sonde_state_u64(io->s, &t->slo_met);
    sonde_state_u64(io->s, &t->slo_missed);
    sonde_state_u64(io->s, &tracker->cache_asked);
    sonde_state_count(io->s, &reasons, SONDE_INFER_REASON_COUNT);
    for (uint64_t i = 0; i < reasons; i++) sonde_state_u64(io->s, &tracker->invalid[i]);
}

/* ---- Groups and models ----------------------------------------------------------------------- */

static void group_io(struct io *io, const struct infer_group *from)
{
    struct infer_group g = from ? *from : (struct infer_group){ .model = "", .route = "" };
    uint64_t mask = from ? infer_group_mask(from) : 0, slots = SONDE_INFER_GROUP_SLOT_COUNT;
    infer_state_process_io(io, &g.process);
    sonde_state_u32(io->s, &g.source);
    name_io(io, &g.model);
    name_io(io, &g.route);
    sonde_state_u64(io->s, &g.out_owed);
    sonde_state_u64(io->s, &mask);
    sonde_state_count(io->s, &slots, SONDE_INFER_GROUP_SLOT_COUNT);
    for (uint64_t i = 0; i < slots; i++) sonde_state_u64(io->s, &g.base[i]);
    if (from || io->gone || io->s->bad) return;
    struct infer_group *to = infer_group_find(io->tracker, g.process, g.source, g.model, g.route);
    if (!to) return;
    to->out_owed = g.out_owed;
    memcpy(to->base, g.base, sizeof(to->base));
    infer_group_fill(io->tracker, to, mask);
}

static void facts_io(struct io *io, struct sonde_infer_model *f)
{
    uint64_t kinds = f->memory_count, phases = SONDE_PHASE_COUNT;
    sonde_state_u32(io->s, &f->source);
    name_io(io, &f->model);
    name_io(io, &f->backend);
    sonde_state_double(io->s, &f->load_s);
    sonde_state_u64(io->s, &f->load_bytes);
    sonde_state_u64(io->s, &f->memory_peak);
    sonde_state_u64(io->s, &f->kv_used);
    sonde_state_u64(io->s, &f->kv_total);
    sonde_state_u64(io->s, &f->kv_peak);
    sonde_state_u64(io->s, &f->batches);
    sonde_state_u64(io->s, &f->batch_requests);
    sonde_state_u64(io->s, &f->batch_tokens);
    sonde_state_count(io->s, &phases, SONDE_PHASE_COUNT);
    for (uint64_t i = 0; i < phases; i++) {
        sonde_state_u64(io->s, &f->phase_tokens[i]);
        sonde_state_double(io->s, &f->phase_s[i]);
    }
    sonde_state_count(io->s, &kinds, SONDE_INFER_MEMORY_KINDS);
    f->memory_count = (uint32_t)kinds;
    for (uint64_t i = 0; i < kinds; i++) {
        name_io(io, &f->memory[i].kind);
        sonde_state_u64(io->s, &f->memory[i].bytes);
        sonde_state_u64(io->s, &f->memory[i].peak);
    }
}

/* What was loaded becomes the model of that name; its rates begin here. */
static void model_adopt(struct sonde_infer_tracker *tracker, const struct infer_model *from,
                        uint64_t mask)
{
    struct infer_model *m =
        infer_model_find(tracker, from->process, from->facts.source, from->facts.model);
    if (!m) return;
    const char *program = m->facts.program;
    const uint32_t pid = m->facts.pid;
    m->facts = from->facts;
    m->facts.program = program;
    m->facts.pid = pid;
    m->told_waiting = from->told_waiting;
    m->waiting_told = from->waiting_told;
    m->tokens_in = from->tokens_in;
    m->tokens_reused = from->tokens_reused;
    m->tokens_out = m->last_output = from->tokens_out;
    m->out_owed = from->out_owed;
    m->last_prefill = m->facts.phase_tokens[SONDE_PHASE_PREFILL];
    m->last_decode = m->facts.phase_tokens[SONDE_PHASE_DECODE];
    m->memory_now = from->memory_now;
    tracker->totals.memory_bytes += m->memory_now;
    infer_model_fill(tracker, m, mask);
    for (uint32_t i = 0; i < m->facts.memory_count; i++) {
        m->memory[i] = infer_memory_series(tracker, m, m->facts.memory[i].kind);
    }
    if (m->facts.backend[0]) m->info = infer_info_series(tracker, m, m->facts.backend);
}

static void model_io(struct io *io, const struct infer_model *from)
{
    struct infer_model m = { .facts = { .model = "", .backend = "" } };
    uint64_t mask = from ? infer_model_mask(from) : 0;
    if (from) m = *from;
    infer_state_process_io(io, &m.process);
    facts_io(io, &m.facts);
    sonde_state_u64(io->s, &m.told_waiting);
    int_io(io, &m.waiting_told);
    sonde_state_u64(io->s, &m.tokens_in);
    sonde_state_u64(io->s, &m.tokens_reused);
    sonde_state_u64(io->s, &m.tokens_out);
    sonde_state_u64(io->s, &m.out_owed);
    sonde_state_u64(io->s, &m.memory_now);
    sonde_state_u64(io->s, &mask);
    if (!from && !io->gone && !io->s->bad) model_adopt(io->tracker, &m, mask);
}

/* ---- Requests in flight ---------------------------------------------------------------------- */

static void item_io(struct io *io, struct sonde_infer_item *i)
{
    sonde_state_u64(io->s, &i->start_ns);
    sonde_state_u64(io->s, &i->end_ns);
    sonde_state_u64(io->s, &i->busy_ns);
    sonde_state_u64(io->s, &i->tokens);
    sonde_state_u32(io->s, &i->kind);
    sonde_state_u32(io->s, &i->count);
    sonde_state_u32(io->s, &i->batch);
    name_io(io, &i->name);
    if (sonde_state_loading(io->s)) i->name = infer_item_name(io->tracker, i->kind, i->name);
}

static void items_io(struct io *io, struct infer_flight *f)
{
    struct sonde_infer_request *r = &f->r;
    uint64_t count = r->item_count;
    struct sonde_infer_item item;
    if (!sonde_state_loading(io->s) && io->tracker->flight_count > WHOLE_TIMELINES && count > 1) {
        count = 1;
    }
    sonde_state_count(io->s, &count, SONDE_INFER_ITEMS_MAX);
    for (uint64_t i = 0; i < count && !io->s->bad; i++) {
        if (!sonde_state_loading(io->s)) {
            item = r->items[r->item_count - count + i];
            item_io(io, &item);
            continue;
        }
        item = (struct sonde_infer_item){ .name = "" };
        item_io(io, &item);
        if (!io->s->bad && !io->gone) infer_item(io->tracker, f, &item);
    }
}

static void infer_state_attrs_io(struct io *io, struct sonde_infer_request *r)
{
    uint64_t count = r->attr_count;
    sonde_state_count(io->s, &count, SONDE_INFER_ATTRS_MAX);
    if (sonde_state_loading(io->s) && count) {
        r->attrs = sonde__calloc(SONDE_INFER_ATTRS_MAX, sizeof(*r->attrs));
        if (!r->attrs) io->s->bad = 1;
    }
    for (uint64_t i = 0; i < count && !io->s->bad; i++) {
        if (sonde_state_loading(io->s)) r->attrs[i].key = "";
        name_io(io, &r->attrs[i].key);
        sonde_state_text(io->s, r->attrs[i].value, sizeof(r->attrs[i].value));
        r->attr_count = (uint32_t)(i + 1);
    }
}

static void request_io(struct io *io, struct sonde_infer_request *r)
{
    uint64_t phases = SONDE_PHASE_COUNT;
    sonde_state_u64(io->s, &r->id);
    sonde_state_u64(io->s, &r->trace_hi);
    sonde_state_u64(io->s, &r->trace_lo);
    sonde_state_u64(io->s, &r->parent);
    sonde_state_u32(io->s, &r->pid);
    sonde_state_u32(io->s, &r->source);
    sonde_state_u32(io->s, &r->flags);
    name_io(io, &r->model);
    name_io(io, &r->route);
    sonde_state_text(io->s, r->own_id, sizeof(r->own_id));
    sonde_state_u64(io->s, &r->arrived_ns);
    sonde_state_u64(io->s, &r->tokens_max);
    sonde_state_u64(io->s, &r->tokens_in);
    sonde_state_u64(io->s, &r->tokens_reused);
    sonde_state_u64(io->s, &r->tokens_out);
    sonde_state_count(io->s, &phases, SONDE_PHASE_COUNT);
    for (uint64_t i = 0; i < phases; i++) sonde_state_u64(io->s, &r->phase_count[i]);
    sonde_state_u64(io->s, &r->itl_count);
    sonde_state_u64(io->s, &r->batches);
}

static void itl_io(struct io *io, struct infer_flight *f)
{
    uint32_t has = f->itl != NULL;
    sonde_state_u32(io->s, &has);
    if (sonde_state_loading(io->s) && has) f->itl = sonde__calloc(1, sizeof(*f->itl));
    if (has && f->itl) sonde_hist_value_state(io->s, f->itl);
    else if (has) io->s->bad = 1;
    sonde_state_u64(io->s, &f->itl_ns_min);
    sonde_state_u64(io->s, &f->itl_ns_max);
}

static void flight_fields_io(struct io *io, struct infer_flight *f)
{
    uint64_t phases = SONDE_PHASE_COUNT;
    request_io(io, &f->r);
    infer_state_attrs_io(io, &f->r);
    sonde_state_u64(io->s, &f->heard_ns);
    sonde_state_u64(io->s, &f->first_token_ns);
    sonde_state_u64(io->s, &f->last_token_ns);
    sonde_state_u64(io->s, &f->work_ns);
    sonde_state_u64(io->s, &f->encode_ns);
    sonde_state_u32(io->s, &f->last_token_tid);
    sonde_state_u64(io->s, &f->last_token_seq);
    int_io(io, &f->exact);
    int_io(io, &f->told);
    int_io(io, &f->counted);
    if (sonde_state_loading(io->s)) f->counted_serial = NO_ENTRY;
    sonde_state_count(io->s, &phases, SONDE_PHASE_COUNT);
    for (uint64_t i = 0; i < phases; i++) sonde_state_u64(io->s, &f->phase_ns[i]);
    itl_io(io, f);
    items_io(io, f);
}

static void flight_save(struct io *io, const struct infer_flight *from)
{
    struct infer_flight f = *from;
    infer_state_process_io(io, &f.process);
    flight_fields_io(io, &f);
}

static void flight_discard(struct sonde_infer_tracker *tracker, struct infer_flight *f)
{
    tracker->item_total -= f->item_cap;
    sonde_infer_request_release(&f->r);
    sonde_hist_value_free(f->itl);
    sonde__free(f);
}

/* Times have an order that figures rely on. */
static int flight_makes_sense(const struct sonde_infer_tracker *tracker,
                              const struct infer_flight *f)
{
    const uint64_t arrived = f->r.arrived_ns;
    return f->r.id && arrived && f->heard_ns >= arrived &&
           tracker->flight_count < tracker->o.running_max &&
           (!f->first_token_ns ||
            (f->first_token_ns >= arrived && f->last_token_ns >= f->first_token_ns)) &&
           (!f->work_ns || f->work_ns >= arrived);
}

static void flight_load(struct io *io, int quiet)
{
    struct sonde_infer_tracker *tracker = io->tracker;
    struct infer_flight *f =
        sonde_pointer_map_reserve(&tracker->flights) ? NULL : sonde__calloc(1, sizeof(*f));
    if (!f) {
        io->s->bad = 1;
        return;
    }
    f->r = (struct sonde_infer_request){ .program = "", .model = "", .route = "", .backend = "",
                                         .error = "", .invalid = "" };
    infer_state_process_io(io, &f->process);
    flight_fields_io(io, f);
    if (io->s->bad || io->gone || !flight_makes_sense(tracker, f)) {
        flight_discard(tracker, f);
        return;
    }
    f->r.program = f->process ? infer_name(tracker, f->process->program) : "";
    f->group = infer_group_find(tracker, f->process, f->r.source, f->r.model, f->r.route);
    f->model = infer_model_find(tracker, f->process, f->r.source, f->r.model);
    f->seen_ns = infer_now_ns(tracker);
    infer_flight_link(tracker, f);
    if (quiet) {
        infer_flight_quiet(tracker, f);
        return;
    }
    /* What was known of calls of llama.cpp is gone with the agent: its end may not be seen as
     * one. */
    if (f->r.source == SONDE_INFER_HOOK && f->process && f->process->gap_ns < f->r.arrived_ns) {
        f->process->gap_ns = f->r.arrived_ns;
    }
}

/* ---- Events that wait ------------------------------------------------------------------------ */

static void infer_state_attr_io(struct io *io, struct sonde_model_attr *a)
{
    uint64_t bits = 0;
    name_io(io, &a->key);
    sonde_state_u32(io->s, &a->type);
    if (a->type == SONDE__ATTR_STR) {
        sonde_state_text(io->s, a->value.str, sizeof(a->value.str));
    } else {
        memcpy(&bits, &a->value, sizeof(bits));
        sonde_state_u64(io->s, &bits);
        memcpy(&a->value, &bits, sizeof(bits));
    }
}

static void request_event_io(struct io *io, struct sonde_infer_event *e)
{
    uint32_t profile = e->request.profile, incomplete = e->request.incomplete;
    name_io(io, &e->request.route);
    sonde_state_u64(io->s, &e->request.trace_hi);
    sonde_state_u64(io->s, &e->request.trace_lo);
    sonde_state_u64(io->s, &e->request.parent);
    sonde_state_u32(io->s, &e->request.tokens_max);
    sonde_state_u32(io->s, &profile);
    sonde_state_u32(io->s, &incomplete);
    e->request.profile = profile != 0;
    e->request.incomplete = incomplete != 0;
    sonde_state_text(io->s, e->request.own_id, sizeof(e->request.own_id));
}

static void end_event_io(struct io *io, struct sonde_infer_event *e)
{
    uint32_t silent = e->end.silent;
    sonde_state_u32(io->s, &e->end.outcome);
    sonde_state_u32(io->s, &silent);
    e->end.silent = silent != 0;
    sonde_state_text(io->s, e->end.error, sizeof(e->end.error));
}

static void numbers_io(struct io *io, uint64_t *a, uint64_t *b)
{
    sonde_state_u64(io->s, a);
    sonde_state_u64(io->s, b);
}

static void event_fields_io(struct io *io, struct sonde_infer_event *e)
{
    switch (e->type) {
    case SONDE_INFER_REQUEST: request_event_io(io, e); break;
    case SONDE_INFER_END: end_event_io(io, e); break;
    case SONDE_INFER_ATTR: infer_state_attr_io(io, &e->attr); break;
    case SONDE_INFER_PROMPT: numbers_io(io, &e->prompt.count, &e->prompt.reused); break;
    case SONDE_INFER_TOKENS: numbers_io(io, &e->tokens.count, &e->tokens.seq); break;
    case SONDE_INFER_USAGE:
        numbers_io(io, &e->usage.prompt, &e->usage.reused);
        sonde_state_u64(io->s, &e->usage.output);
        break;
    case SONDE_INFER_PHASE:
        sonde_state_u32(io->s, &e->phase.kind);
        name_io(io, &e->phase.name);
        sonde_state_u64(io->s, &e->phase.tokens);
        break;
    case SONDE_INFER_BATCH:
        numbers_io(io, &e->batch.prompt, &e->batch.output);
        sonde_state_u32(io->s, &e->batch.requests);
        break;
    case SONDE_INFER_PART:
        numbers_io(io, &e->part.prompt, &e->part.output);
        sonde_state_u64(io->s, &e->part.all);
        sonde_state_u32(io->s, &e->part.requests);
        break;
    case SONDE_INFER_LOAD:
        sonde_state_u64(io->s, &e->load.bytes);
        sonde_state_u32(io->s, &e->load.outcome);
        break;
    case SONDE_INFER_MEMORY:
        sonde_state_u64(io->s, &e->memory.bytes);
        sonde_state_text(io->s, e->memory.kind, sizeof(e->memory.kind));
        break;
    case SONDE_INFER_BACKEND:
        sonde_state_text(io->s, e->backend.name, sizeof(e->backend.name));
        break;
    case SONDE_INFER_KV: numbers_io(io, &e->kv.used, &e->kv.total); break;
    case SONDE_INFER_WAITING: sonde_state_u64(io->s, &e->waiting.requests); break;
    default: break; /* of a newer source: nothing is made of it */
    }
}

static void event_io(struct io *io, struct infer_event *in)
{
    struct sonde_infer_event *e = &in->e;
    uint32_t type = e->type, source = e->source;
    infer_state_process_io(io, &in->process);
    sonde_state_u32(io->s, &type);
    sonde_state_u32(io->s, &source);
    e->type = (uint16_t)type;
    e->source = (uint16_t)source;
    sonde_state_u32(io->s, &e->pid);
    sonde_state_u32(io->s, &e->tid);
    sonde_state_u64(io->s, &e->id);
    sonde_state_u64(io->s, &e->begin_ns);
    sonde_state_u64(io->s, &e->time_ns);
    name_io(io, &e->model);
    event_fields_io(io, e);
}

static void event_load(struct io *io)
{
    struct infer_event e = { .e = { .model = "" } };
    event_io(io, &e);
    if (!io->s->bad && !io->gone && e.e.type < SONDE_INFER_EVENT_TYPES) infer_wait(io->tracker, &e);
}

/* Its end is among the events that wait. */
static int end_waits(const struct sonde_infer_tracker *tracker, const struct infer_flight *f)
{
    for (uint32_t i = 0; i < tracker->waiting.count; i++) {
        const struct infer_event *in = sonde_timeq_item(&tracker->waiting, i);
        if (in->e.type == SONDE_INFER_END && in->e.id == f->r.id && in->e.pid == f->r.pid &&
            in->e.source == f->r.source) {
            return 1;
        }
    }
    return 0;
}

/* The front passed them on, or probes saw them: both ended with their agent, and of those that it
 * did not see end nothing will be heard. An agent that is told to end breaks off the front's, and
 * says so. */
static void lose_unended(struct sonde_infer_tracker *tracker)
{
    for (struct infer_flight *f = tracker->oldest, *next; f; f = next) {
        next = f->after;
        if ((f->r.source == SONDE_INFER_FRONT || f->r.source == SONDE_INFER_PROBE) &&
            !end_waits(tracker, f)) {
            infer_lose(tracker, f, "agent_ended");
        }
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

void sonde_infer_save(const struct sonde_infer_tracker *from, struct sonde_state *s)
{
    /* Saving and loading are the same code; only the queue is put in order by it. */
    struct sonde_infer_tracker *tracker = (struct sonde_infer_tracker *)(uintptr_t)from;
    struct io io = { .tracker = tracker, .s = s };
    INFER_ASSERT_READ(tracker);
    uint64_t groups = tracker->group_count, models = tracker->model_count,
             flights = tracker->flight_count;
    uint64_t events = tracker->waiting.count, quiet = 0;
    for (uint32_t i = 0; i < INFER_QUIET; i++) quiet += tracker->quiet[i] != NULL;
    totals_io(&io);
    sonde_state_u64(s, &groups);
    for (size_t i = 0; i < groups; i++) group_io(&io, tracker->groups[i]);
    sonde_state_u64(s, &models);
    for (size_t i = 0; i < models; i++) model_io(&io, tracker->models[i]);
    sonde_state_u64(s, &flights);
    for (const struct infer_flight *f = tracker->oldest; f; f = f->after) flight_save(&io, f);
    sonde_state_u64(s, &quiet);
    for (uint32_t i = 0; i < INFER_QUIET; i++) {
        const struct infer_flight *f = tracker->quiet[(tracker->quiet_next + i) % INFER_QUIET];
        if (f) flight_save(&io, f);
    }
    sonde_state_u64(s, &events);
    sonde_timeq_sort(&tracker->waiting);
    for (uint32_t i = 0; i < events; i++) {
        struct infer_event e = *(const struct infer_event *)sonde_timeq_item(&tracker->waiting, i);
        event_io(&io, &e);
    }
}

void sonde_infer_load(struct sonde_infer_tracker *tracker, struct sonde_state *s,
                      const struct sonde_model_knowns *k)
{
    struct io io = { .tracker = tracker, .s = s, .k = k };
    INFER_ASSERT_WRITE(tracker);
    uint64_t n = 0;
    totals_io(&io);
    sonde_state_count(s, &n, INFER_GROUPS_MAX);
    for (uint64_t i = 0; i < n && !s->bad; i++) group_io(&io, NULL);
    sonde_state_count(s, &n, INFER_MODELS_MAX);
    for (uint64_t i = 0; i < n && !s->bad; i++) model_io(&io, NULL);
    sonde_state_count(s, &n, 1u << 20);
    for (uint64_t i = 0; i < n && !s->bad; i++) flight_load(&io, 0);
    sonde_state_count(s, &n, INFER_QUIET);
    for (uint64_t i = 0; i < n && !s->bad; i++) flight_load(&io, 1);
    sonde_state_count(s, &n, INFER_WAITING_MAX);
    for (uint64_t i = 0; i < n && !s->bad; i++) event_load(&io);
    lose_unended(tracker);
}
