/* flight.c - requests in flight, found by source, pid and id, and in the order they were
 * last heard of; what each event does to them.
 *
 * Events come in order of time. What cannot be (an end before its begin, a time before arrival,
 * more reused than asked) is counted and left out, so that no duration is ever negative. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "infer/private.h"
#include "base/alloc.h"
#include "base/hash.h"

static uint32_t infer_flight_hash_of(uint64_t id, uint32_t pid, uint32_t source)
{
    return sonde_hash_end(sonde_hash_mix(sonde_hash_mix(0, id), (uint64_t)pid << 32 | source));
}

/* ---- The table ------------------------------------------------------------------------------ */

static struct infer_flight *infer_flight_find(const struct sonde_infer_tracker *tracker,
                                              const struct sonde_infer_event *e)
{
    const uint32_t hash = infer_flight_hash_of(e->id, e->pid, e->source);
    uint32_t at = hash;
    struct infer_flight *f;
    while ((f = sonde_pointer_map_next(&tracker->flights, hash, &at)) &&
           (f->r.id != e->id || f->r.pid != e->pid || f->r.source != e->source)) {
        continue;
    }
    return f;
}

static void infer_flight_list_remove(struct sonde_infer_tracker *tracker, struct infer_flight *f)
{
    if (f->before) f->before->after = f->after;
    else tracker->oldest = f->after;
    if (f->after) f->after->before = f->before;
    else tracker->newest = f->before;
}

static void list_append(struct sonde_infer_tracker *tracker, struct infer_flight *f)
{
    f->before = tracker->newest;
    f->after = NULL;
    if (tracker->newest) tracker->newest->after = f;
    else tracker->oldest = f;
    tracker->newest = f;
}

static void infer_flight_touch(struct sonde_infer_tracker *tracker, struct infer_flight *f,
                               uint64_t time_ns)
{
    if (time_ns > f->heard_ns) f->heard_ns = time_ns;
    f->seen_ns = infer_now_ns(tracker);
    if (tracker->newest == f) return;
    infer_flight_list_remove(tracker, f);
    list_append(tracker, f);
}

static void infer_flight_land(struct sonde_infer_tracker *tracker, struct infer_flight *f)
{
    assert(tracker->flight_count > 0 && !f->quiet_slot);
    infer_flight_list_remove(tracker, f);
    tracker->flight_count--;
    assert(tracker->item_total >= f->item_cap);
    tracker->item_total -= f->item_cap;
    f->item_cap = 0;
}

void infer_flight_link(struct sonde_infer_tracker *tracker, struct infer_flight *f)
{
    INFER_ASSERT_WRITE(tracker);
    assert(!f->quiet_slot);
    const uint32_t hash = infer_flight_hash_of(f->r.id, f->r.pid, f->r.source);
    sonde_pointer_map_put(&tracker->flights, hash, f);
    list_append(tracker, f);
    tracker->flight_count++;
}

static void flight_free(struct sonde_infer_tracker *tracker, struct infer_flight *f)
{
    const uint32_t hash = infer_flight_hash_of(f->r.id, f->r.pid, f->r.source);
    sonde_pointer_map_remove(&tracker->flights, hash, f);
    if (f->quiet_slot) tracker->quiet[f->quiet_slot - 1] = NULL;
    else infer_flight_land(tracker, f);
    sonde_infer_request_release(&f->r);
    sonde_hist_value_free(f->itl);
    sonde__free(f);
}

/* ---- Ends ----------------------------------------------------------------------------------- */

/* It is kept for a while, should it go on. */
void infer_flight_quiet(struct sonde_infer_tracker *tracker, struct infer_flight *f)
{
    assert(tracker->quiet_next < INFER_QUIET && !f->quiet_slot);
    struct infer_flight **slot = &tracker->quiet[tracker->quiet_next];
    if (*slot) flight_free(tracker, *slot);
    infer_flight_land(tracker, f);
    *slot = f;
    f->quiet_slot = tracker->quiet_next + 1;
    tracker->quiet_next = (tracker->quiet_next + 1) % INFER_QUIET;
}

static void quiet_resume(struct sonde_infer_tracker *tracker, struct infer_flight *f)
{
    assert(f->quiet_slot && tracker->quiet[f->quiet_slot - 1] == f);
    tracker->quiet[f->quiet_slot - 1] = NULL;
    f->quiet_slot = 0;
    list_append(tracker, f);
    tracker->flight_count++;
    infer_done_resume(tracker, f);
    tracker->item_total += f->item_cap;
    infer_count(tracker, SONDE_INFER_BAD_went_on);
}

static void quiet_drop(struct sonde_infer_tracker *tracker, const struct sonde_model_process *p)
{
    for (uint32_t i = 0; i < INFER_QUIET; i++) {
        if (tracker->quiet[i] && (!p || tracker->quiet[i]->process == p)) {
            flight_free(tracker, tracker->quiet[i]);
        }
    }
}

static void infer_flight_finish(struct sonde_infer_tracker *tracker, struct infer_flight *f,
                                uint32_t outcome, uint64_t end_ns, const char *error, int may_go_on)
{
    const uint32_t h = infer_flight_hash_of(f->r.id, f->r.pid, f->r.source);
    if (!tracker->ended) tracker->ended = sonde__calloc(INFER_ENDED, sizeof(*tracker->ended));
    if (tracker->ended) {
        tracker->ended[h % INFER_ENDED] = (struct infer_ended){ f->r.id, f->r.pid, f->r.source };
    }
    infer_finish(tracker, f, outcome, end_ns, error);
    if (may_go_on) infer_flight_quiet(tracker, f);
    else flight_free(tracker, f);
}

/* It was given up: what is known of it ends where it was last heard of. */
void infer_lose(struct sonde_infer_tracker *tracker, struct infer_flight *f, const char *why)
{
    /* How it ended is not known, but not for the want of an end. */
    if (f->process && f->r.arrived_ns <= f->process->gap_ns) {
        infer_count(tracker, SONDE_INFER_BAD_overwritten);
        flight_free(tracker, f);
        return;
    }
    infer_flight_finish(tracker, f, SONDE_INFER_LOST, f->heard_ns, why, 0);
}

/* Its last events have been put in order by now. */
static int infer_flight_is_gone(const struct sonde_infer_tracker *tracker,
                                const struct sonde_model_process *p)
{
    return p && p->state != SONDE_PROCESS_RUNNING && tracker->now_s - p->ended_s >= 1;
}

void infer_age(struct sonde_infer_tracker *tracker, uint64_t before_ns)
{
    tracker->muted = 0;
    for (struct infer_flight *f = tracker->oldest, *next; f; f = next) {
        next = f->after;
        if (f->seen_ns < before_ns) infer_lose(tracker, f, "not_heard_of");
        else if (infer_flight_is_gone(tracker, f->process)) infer_lose(tracker, f, "process_ended");
    }
}

void infer_drop(struct sonde_infer_tracker *tracker, const struct sonde_model_process *p)
{
    tracker->muted = 0;
    for (struct infer_flight *f = tracker->oldest, *next; f; f = next) {
        next = f->after;
        if (!p) flight_free(tracker, f);
        else if (f->process == p) infer_lose(tracker, f, "process_ended");
    }
    quiet_drop(tracker, p);
}

/* ---- Beginnings ------------------------------------------------------------------------------ */

static void infer_flight_on_request(struct sonde_infer_tracker *tracker,
                                    const struct infer_event *in)
{
    const struct sonde_infer_event *e = &in->e;
    struct infer_flight *f = infer_flight_find(tracker, e);
    if (e->id == 0) {
        infer_count(tracker, SONDE_INFER_BAD_bad_value);
        return;
    }
    if (f && f->r.arrived_ns == e->begin_ns) {
        infer_count(tracker, SONDE_INFER_BAD_duplicate);
        return;
    }
    if (f && f->quiet_slot) {
        flight_free(tracker, f);
        f = NULL;
    }
    if (f) {
        infer_count(tracker, SONDE_INFER_BAD_repeated_id);
        infer_lose(tracker, f, "repeated_id");
    }
    if (tracker->flight_count >= tracker->o.running_max) {
        infer_lose(tracker, tracker->oldest, "too_many");
    }
    f = sonde_pointer_map_reserve(&tracker->flights) ? NULL : sonde__calloc(1, sizeof(*f));
    if (!f) {
        infer_count(tracker, SONDE_INFER_BAD_queue_full);
        return;
    }
    f->process = in->process;
    f->group = infer_group_find(tracker, in->process, e->source, e->model, e->request.route);
    f->model = infer_model_find(tracker, in->process, e->source, e->model);
    f->heard_ns = e->time_ns;
    f->seen_ns = infer_now_ns(tracker);
    f->r = (struct sonde_infer_request){
        .id = e->id, .trace_hi = e->request.trace_hi, .trace_lo = e->request.trace_lo,
        .parent = e->request.parent,
        .pid = e->pid,
        .source = e->source,
        .flags = (e->request.profile ? SONDE_INFER_PROFILE : 0) |
                 (e->request.incomplete ? SONDE_INFER_INCOMPLETE : 0),
        .program = in->process ? infer_name(tracker, in->process->program) : "", .model = e->model,
        .route = e->request.route, .backend = "", .error = "", .invalid = "",
        .arrived_ns = e->begin_ns, .tokens_max = e->request.tokens_max,
    };
    memcpy(f->r.own_id, e->request.own_id, sizeof(f->r.own_id));
    infer_flight_link(tracker, f);
    if (e->request.profile && tracker->o.on_begin) {
        tracker->o.on_begin(&f->r, tracker->o.on_done_arg);
    }
}

static const char tokens_name[] = "tokens";

const char *infer_item_name(struct sonde_infer_tracker *tracker, uint32_t kind, const char *text)
{
    if (kind == SONDE_PHASE_NONE) return tokens_name;
    return kind == SONDE_PHASE_NAMED ? infer_name(tracker, text) : sonde_phase_name(kind);
}

/* ---- In between ------------------------------------------------------------------------------ */

static int has_ended(const struct sonde_infer_tracker *tracker, const struct sonde_infer_event *e)
{
    if (!tracker->ended || !e->id) return 0;
    const struct infer_ended *d =
        &tracker->ended[infer_flight_hash_of(e->id, e->pid, e->source) % INFER_ENDED];
    return d->id == e->id && d->pid == e->pid && d->source == e->source;
}

/* The request an event is about, or NULL: counted. */
static struct infer_flight *infer_flight_of(struct sonde_infer_tracker *tracker,
                                            const struct sonde_infer_event *e)
{
    struct infer_flight *f = infer_flight_find(tracker, e);
    if (f && f->quiet_slot) {
        if (e->type == SONDE_INFER_END || e->time_ns <= f->heard_ns) f = NULL;
        else quiet_resume(tracker, f);
    }
    if (!f) {
        infer_count(tracker, has_ended(tracker, e) ? SONDE_INFER_BAD_after_end
                                                   : SONDE_INFER_BAD_unknown_request);
        return NULL;
    }
    if (e->time_ns < f->r.arrived_ns && e->type != SONDE_INFER_END) {
        infer_count(tracker, SONDE_INFER_BAD_before_arrival);
        return NULL;
    }
    if (e->begin_ns > e->time_ns) {
        infer_count(tracker, SONDE_INFER_BAD_negative);
        if (e->type != SONDE_INFER_END) return NULL;
    }
    infer_flight_touch(tracker, f, e->time_ns);
    return f;
}

static void on_prompt(struct sonde_infer_tracker *tracker, struct infer_flight *f, uint64_t tokens,
                      uint64_t reused)
{
    struct sonde_infer_request *r = &f->r;
    if (tokens > INFER_TOKENS_MAX || reused > tokens) {
        infer_count(tracker, SONDE_INFER_BAD_bad_value);
        return;
    }
    if (r->tokens_in) {
        infer_count(tracker, SONDE_INFER_BAD_duplicate);
        return;
    }
    r->tokens_in = tokens;
    r->tokens_reused = reused;
    infer_add(tracker, f->group, SONDE_INFER_G_TOKENS_IN, tokens);
    infer_add(tracker, f->group, SONDE_INFER_G_TOKENS_REUSED, reused);
    infer_add(tracker, f->group, SONDE_INFER_G_PREFIX_QUERIES, tokens);
    infer_add(tracker, f->group, SONDE_INFER_G_PREFIX_HITS, reused);
    if (!tracker->muted) {
        tracker->totals.tokens_in += tokens;
        tracker->totals.tokens_reused += reused;
        tracker->cache_asked += tokens;
    }
    if (!f->model || tracker->muted) return;
    f->model->tokens_in += tokens;
    f->model->tokens_reused += reused;
    /* The front does not see what is computed, but is told in the end what was not reused. */
    if (f->r.source == SONDE_INFER_FRONT) {
        infer_model_add(tracker, f->model, INFER_M_PROMPT_TOKENS, tokens - reused);
    }
}

/* Of n that are added, those that have not been counted before. */
static uint64_t infer_flight_beyond(uint64_t *owed, uint64_t n)
{
    const uint64_t paid = n < *owed ? n : *owed;
    *owed -= paid;
    return n - paid;
}

static void count_out(struct sonde_infer_tracker *tracker, struct infer_flight *f, uint64_t n)
{
    f->r.tokens_out += n;
    if (tracker->muted) return;
    tracker->totals.tokens_out += n;
    if (f->model) {
        const uint64_t counted = infer_flight_beyond(&f->model->out_owed, n);
        f->model->tokens_out += counted;
        infer_model_add(tracker, f->model, INFER_M_PREDICTED_TOKENS, counted);
    }
    if (f->group) {
        infer_add(tracker, f->group, SONDE_INFER_G_TOKENS_OUT,
                  infer_flight_beyond(&f->group->out_owed, n));
    }
}

/* Pieces of a stream were counted as tokens, and may have been more than those. Counters never go
 * back: what is too much is owed, and taken off what comes next. */
static void count_back(struct sonde_infer_tracker *tracker, struct infer_flight *f, uint64_t n)
{
    f->r.tokens_out -= n;
    tracker->totals.tokens_out -= n < tracker->totals.tokens_out ? n : tracker->totals.tokens_out;
    if (f->model) f->model->out_owed += n;
    if (f->group) f->group->out_owed += n;
}

static void infer_flight_on_usage(struct sonde_infer_tracker *tracker, struct infer_flight *f,
                                  const struct sonde_infer_event *e)
{
    const uint64_t out = e->usage.output, reused = e->usage.reused;
    if (e->usage.prompt != SONDE_INFER_UNSAID) {
        on_prompt(tracker, f, e->usage.prompt, reused == SONDE_INFER_UNSAID ? 0 : reused);
    }
    if (out == SONDE_INFER_UNSAID) return;
    if (out > INFER_TOKENS_MAX || (out == 0 && f->r.tokens_out)) {
        infer_count(tracker, SONDE_INFER_BAD_bad_value);
        return;
    }
    if (out > f->r.tokens_out) count_out(tracker, f, out - f->r.tokens_out);
    else if (out < f->r.tokens_out) count_back(tracker, f, f->r.tokens_out - out);
    f->exact = 1;
}

/* Seconds in a histogram of its own, for this request's percentiles. */
static void keep_gap(struct infer_flight *f, uint64_t gap_ns, uint64_t n)
{
    f->r.itl_count += n;
    if (f->r.itl_count == n || gap_ns < f->itl_ns_min) f->itl_ns_min = gap_ns;
    if (gap_ns > f->itl_ns_max) f->itl_ns_max = gap_ns;
    if (!f->itl) f->itl = sonde__calloc(1, sizeof(*f->itl));
    if (!f->itl) return;
    const uint64_t p = sonde__hist_bucket((double)gap_ns * 1e-9);
    if (p < SONDE__HIST_BUCKETS) {
        sonde_hist_value_add(f->itl, (uint32_t)p, n);
    } else {
        f->itl->zero += n;
        f->itl->count += n;
    }
}

static void on_first_token(struct sonde_infer_tracker *tracker, struct infer_flight *f,
                           uint64_t time_ns)
{
    const uint64_t ttft_ns = time_ns - f->r.arrived_ns;
    f->first_token_ns = f->last_token_ns = time_ns;
    if (f->r.flags & SONDE_INFER_INCOMPLETE) return;
    infer_record(tracker, f->group, SONDE_INFER_G_TTFT, ttft_ns, 1);
    infer_exemplar(f->group, SONDE_INFER_G_TTFT, ttft_ns, &f->r, time_ns);
}

static void on_tokens(struct sonde_infer_tracker *tracker, struct infer_flight *f,
                      const struct sonde_infer_event *e)
{
    const uint64_t tokens = e->tokens.count;
    if (tokens == 0 || tokens > INFER_TOKENS_MAX) {
        infer_count(tracker, SONDE_INFER_BAD_bad_value);
        return;
    }
    if (f->first_token_ns && e->time_ns == f->last_token_ns && e->tid == f->last_token_tid &&
        e->tokens.seq == f->last_token_seq) {
        infer_count(tracker, SONDE_INFER_BAD_duplicate);
        return;
    }
    f->last_token_tid = e->tid;
    f->last_token_seq = e->tokens.seq;
    count_out(tracker, f, tokens);
    if (!f->first_token_ns) {
        on_first_token(tracker, f, e->time_ns);
    } else if (e->time_ns < f->last_token_ns) {
        infer_count(tracker, SONDE_INFER_BAD_out_of_order);
    } else {
        const uint64_t since_ns = e->time_ns - f->last_token_ns, gap_ns = since_ns / tokens;
        keep_gap(f, gap_ns, tokens);
        infer_record(tracker, f->group, SONDE_INFER_G_ITL, gap_ns, tokens);
        if (!tracker->muted) {
            infer_model_add(tracker, f->model, INFER_M_PREDICTED_SECONDS, since_ns);
        }
        f->last_token_ns = e->time_ns;
    }
    infer_item(tracker, f, &(struct sonde_infer_item){
        .start_ns = e->time_ns, .end_ns = e->time_ns, .tokens = tokens, .name = tokens_name,
        .kind = SONDE_PHASE_NONE, .count = 1 });
}

static void on_work(struct infer_flight *f, uint64_t begin_ns)
{
    if (!f->work_ns || begin_ns < f->work_ns) f->work_ns = begin_ns;
}

static void infer_flight_on_phase(struct sonde_infer_tracker *tracker, struct infer_flight *f,
                                  const struct sonde_infer_event *e)
{
    const uint32_t kind = e->phase.kind < SONDE_PHASE_COUNT ? e->phase.kind : SONDE_PHASE_NONE;
    const uint64_t begin_ns = e->begin_ns > f->r.arrived_ns ? e->begin_ns : f->r.arrived_ns;
    const uint64_t ns = e->time_ns - begin_ns;
    if (e->phase.tokens > INFER_TOKENS_MAX) {
        infer_count(tracker, SONDE_INFER_BAD_bad_value);
        return;
    }
    const char *name = kind == SONDE_PHASE_NONE ? e->phase.name : sonde_phase_name(kind);
    const struct sonde_infer_item *last =
        f->r.item_count ? &f->r.items[f->r.item_count - 1] : NULL;
    if (last && last->name == name && last->start_ns == begin_ns &&
        last->end_ns == e->time_ns) {
        infer_count(tracker, SONDE_INFER_BAD_duplicate);
        return;
    }
    f->phase_ns[kind] += ns;
    f->r.phase_count[kind]++;
    if (kind == SONDE_PHASE_PREFILL || kind == SONDE_PHASE_DECODE) {
        on_work(f, begin_ns);
        infer_computed(tracker, f->model, kind, e->phase.tokens, ns);
    } else if (kind == SONDE_PHASE_ENCODE && !f->work_ns) {
        f->encode_ns += ns;
    }
    infer_item(tracker, f, &(struct sonde_infer_item){
        .start_ns = begin_ns, .end_ns = e->time_ns, .busy_ns = ns, .tokens = e->phase.tokens,
        .name = name, .kind = kind == SONDE_PHASE_NONE ? SONDE_PHASE_NAMED : kind,
        .count = 1 });
}

/* The share of a batch's time that is by tokens. */
static void on_part(struct sonde_infer_tracker *tracker, struct infer_flight *f,
                    const struct sonde_infer_event *e)
{
    const uint64_t prompt = e->part.prompt, output = e->part.output, tokens = prompt + output;
    if (prompt > INFER_TOKENS_MAX || output > INFER_TOKENS_MAX || tokens == 0 ||
        tokens > e->part.all) {
        infer_count(tracker, SONDE_INFER_BAD_bad_value);
        return;
    }
    const uint64_t begin_ns = e->begin_ns > f->r.arrived_ns ? e->begin_ns : f->r.arrived_ns;
    const double each_ns = (double)(e->time_ns - begin_ns) / (double)e->part.all;
    const uint64_t prefill_ns = (uint64_t)(each_ns * (double)prompt + 0.5);
    const uint64_t decode_ns = (uint64_t)(each_ns * (double)output + 0.5);
    if (prompt) {
        f->phase_ns[SONDE_PHASE_PREFILL] += prefill_ns;
        f->r.phase_count[SONDE_PHASE_PREFILL]++;
    }
    if (output) {
        f->phase_ns[SONDE_PHASE_DECODE] += decode_ns;
        f->r.phase_count[SONDE_PHASE_DECODE]++;
    }
    f->r.batches++;
    on_work(f, begin_ns);
    tracker->part_model = f->model;
    tracker->part_begin_ns = e->begin_ns;
    tracker->part_time_ns = e->time_ns;
    const uint32_t kind =
        prompt > output ? SONDE_PHASE_PREFILL : SONDE_PHASE_DECODE;
    infer_item(tracker, f, &(struct sonde_infer_item){
        .start_ns = begin_ns, .end_ns = e->time_ns, .busy_ns = prefill_ns + decode_ns,
        .tokens = tokens, .name = sonde_phase_name(kind), .kind = kind, .count = 1,
        .batch = e->part.requests });
}

static void on_attr(struct sonde_infer_tracker *tracker, struct infer_flight *f,
                    const struct sonde_infer_event *e)
{
    struct sonde_infer_request *r = &f->r;
    if (e->attr.type == SONDE__ATTR_INT && !strcmp(e->attr.key, INFER_PREFIX_KEY)) {
        infer_prefix(tracker, f, (uint64_t)e->attr.value.i);
        return;
    }
    if (r->attr_count == SONDE_INFER_ATTRS_MAX) {
        infer_count(tracker, SONDE_INFER_BAD_queue_full);
        return;
    }
    if (!r->attrs) r->attrs = sonde__calloc(SONDE_INFER_ATTRS_MAX, sizeof(*r->attrs));
    if (!r->attrs) return;
    struct sonde_infer_attr *a = &r->attrs[r->attr_count++];
    a->key = e->attr.key;
    if (e->attr.type == SONDE__ATTR_INT) {
        snprintf(a->value, sizeof(a->value), "%lld", (long long)e->attr.value.i);
    } else if (e->attr.type == SONDE__ATTR_DOUBLE) {
        snprintf(a->value, sizeof(a->value), "%.9g", e->attr.value.d);
    } else {
        snprintf(a->value, sizeof(a->value), "%s", e->attr.value.str);
    }
}

static void infer_flight_on_end(struct sonde_infer_tracker *tracker, struct infer_flight *f,
                                const struct sonde_infer_event *e)
{
    /* An end before what is known of it is where that was. */
    uint64_t end_ns = e->time_ns;
    if (end_ns < f->r.arrived_ns) end_ns = f->r.arrived_ns;
    if (end_ns < f->last_token_ns) end_ns = f->last_token_ns;
    uint32_t outcome = e->end.outcome < SONDE_INFER_OUTCOMES ? e->end.outcome : SONDE_ERROR;
    const char *error = e->end.error;
    if (outcome == SONDE_CANCELLED && f->r.source == SONDE_INFER_FRONT &&
        strcmp(error, "bad_request") != 0) {
        infer_client_gone(tracker, f, end_ns);
    }
    if (f->client_gone && outcome == SONDE_OK) {
        outcome = SONDE_CANCELLED;
        error = "client_closed";
    }
    infer_flight_finish(tracker, f, outcome, end_ns, error, e->end.silent);
}

void infer_on_event(struct sonde_infer_tracker *tracker, const struct infer_event *in)
{
    const struct sonde_infer_event *e = &in->e;
    struct infer_flight *f;
    tracker->muted = e->time_ns < tracker->from_ns;
    switch (e->type) {
    case SONDE_INFER_REQUEST: infer_flight_on_request(tracker, in); return;
    case SONDE_INFER_BATCH:
        if (!tracker->muted) infer_on_batch(tracker, in);
        return;
    case SONDE_INFER_LOAD:
    case SONDE_INFER_MEMORY:
    case SONDE_INFER_BACKEND:
    case SONDE_INFER_KV:
    case SONDE_INFER_WAITING: infer_on_model(tracker, in); return;
    case SONDE_INFER_PHASE:
        if (e->id == 0) {
            if (!tracker->muted) infer_on_phase(tracker, in);
            return;
        }
        break;
    default: break;
    }
    if (e->type >= SONDE_INFER_EVENT_TYPES || !(f = infer_flight_of(tracker, e))) return;
    switch (e->type) {
    case SONDE_INFER_END: infer_flight_on_end(tracker, f, e); break;
    case SONDE_INFER_ATTR: on_attr(tracker, f, e); break;
    case SONDE_INFER_PROMPT:
        on_prompt(tracker, f, e->prompt.count, e->prompt.reused);
        infer_prefix(tracker, f, e->prompt.prefix);
        break;
    case SONDE_INFER_TOKENS: on_tokens(tracker, f, e); break;
    case SONDE_INFER_USAGE: infer_flight_on_usage(tracker, f, e); break;
    case SONDE_INFER_PHASE: infer_flight_on_phase(tracker, f, e); break;
    default:
        assert(e->type == SONDE_INFER_PART);
        on_part(tracker, f, e);
        break;
    }
}

size_t sonde_infer_running(const struct sonde_infer_tracker *tracker, double now_s,
                           struct sonde_infer_request *out, size_t max)
{
    INFER_ASSERT_READ(tracker);
    assert(out || !max);
    size_t n = 0;
    for (const struct infer_flight *f = tracker->oldest; f && n < max; f = f->after, n++) {
        const uint64_t now_ns = (uint64_t)(now_s * 1e9);
        infer_figures(f, now_ns > f->heard_ns ? now_ns : f->heard_ns, &out[n]);
        out[n].flags |= SONDE_INFER_RUNNING;
    }
    return tracker->flight_count;
}
