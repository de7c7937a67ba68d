/* chrome_requests.c - inference requests as asynchronous tracks of the Trace Event Format: one a
 * request, its phases nested in it, its tokens as instants.
 *
 *     {"ph":"b","cat":"request","id":"0x1a","name":"job-1",…}       request begins
 *       {"ph":"b","cat":"request","id":"0x1a","name":"prefill",…}     a phase in it
 *       {"ph":"n","cat":"request","id":"0x1a","name":"tokens",…}      a token
 *       {"ph":"e",…}
 *     {"ph":"e",…}
 *
 * Events of one track must nest. Parts of a timeline that were joined, and phases that run at once,
 * may cross; those get a track of their own beside it. Of a request whose timeline was not kept,
 * the first token is all there is inside. */
#include "profile/formats/chrome_requests.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "base/json.h"
#include "sonde/sonde.h"

enum { OPEN_MAX = SONDE_INFER_ITEMS_MAX + 1 };

static uint64_t chrome_requests_end_of(const struct sonde_infer_request *r)
{
    uint64_t end_ns = r->arrived_ns + (uint64_t)(r->total_s * 1e9 + 0.5);
    for (uint32_t i = 0; i < r->item_count; i++) {
        if (r->items[i].end_ns > end_ns) end_ns = r->items[i].end_ns;
    }
    return end_ns;
}

/* ---- Which ----------------------------------------------------------------------------------- */

static int chrome_requests_passes(const struct sonde_profile_filter *f,
                                  const struct sonde_infer_request *r)
{
    if (f->thread || f->span) return 0;
    if ((f->trace_hi || f->trace_lo) &&
        (r->trace_hi != f->trace_hi || r->trace_lo != f->trace_lo)) {
        return 0;
    }
    return !(f->from_ns && chrome_requests_end_of(r) <= f->from_ns) &&
           !(f->to_ns && r->arrived_ns >= f->to_ns);
}

static int by_arrival(const void *a, const void *b)
{
    const struct sonde_infer_request *x = *(const struct sonde_infer_request *const *)a;
    const struct sonde_infer_request *y = *(const struct sonde_infer_request *const *)b;
    if (x->arrived_ns != y->arrived_ns) return SONDE_CMP(x->arrived_ns, y->arrived_ns);
    return SONDE_CMP(x->id, y->id);
}

int sonde_chrome_requests_find(struct sonde_chrome_requests *r, const struct sonde_profile *p,
                               const struct sonde_profile_filter *f)
{
    const size_t all = p->infer ? p->infer->request_count : 0;
    *r = (struct sonde_chrome_requests){ 0 };
    r->list = sonde__calloc(all + 1, sizeof(struct sonde_infer_request *));
    r->ids = sonde__calloc(all + 1, sizeof(*r->ids));
    if (!r->list || !r->ids) return SONDE_ENOMEM;
    for (size_t i = 0; i < all; i++) {
        const struct sonde_infer_request *one = &p->infer->requests[i];
        if (chrome_requests_passes(f, one)) r->list[r->count++] = one;
    }
    qsort(r->list, r->count, sizeof(*r->list), by_arrival);
    for (size_t i = 0; i < r->count; i++) r->ids[i] = r->list[i]->id;
    qsort(r->ids, r->count, sizeof(*r->ids), sonde_cmp_u64);
    return 0;
}

void sonde_chrome_requests_release(struct sonde_chrome_requests *r)
{
    sonde__free(r->list);
    sonde__free(r->ids);
}

int sonde_chrome_requests_has(const struct sonde_chrome_requests *r,
                              const struct sonde_profile *p, const struct sonde_profile_span *s)
{
    assert(!r->count || r->ids[0] <= r->ids[r->count - 1]);
    assert(s->thread < p->threads_count);
    return r->count && !p->threads[s->thread].tid &&
           bsearch(&s->id, r->ids, r->count, sizeof(*r->ids), sonde_cmp_u64) != NULL;
}

/* ---- Events ---------------------------------------------------------------------------------- */

struct chrome_requests_writer {
    struct sonde_buf *out;
    uint64_t *events;
    uint64_t base_ns;
    uint32_t pids;
    const struct sonde_infer_request *r;
    struct { const char *name; uint64_t end_ns; } open[OPEN_MAX];
    size_t open_count;
};

/* The caller goes on and closes it. track 0 is the request's own. */
static void chrome_requests_begin_event(struct chrome_requests_writer *w, char phase,
                                        const char *name, uint64_t time_ns, uint32_t track)
{
    const uint64_t ns = time_ns > w->base_ns ? time_ns - w->base_ns : 0;
    sonde_buf_printf(w->out, "%s{\"ph\":\"%c\",\"name\":", (*w->events)++ ? ",\n" : "\n", phase);
    sonde_buf_json_str(w->out, name, strlen(name));
    sonde_buf_printf(w->out, ",\"cat\":\"request\",\"pid\":%u,\"tid\":0,\"id\":\"0x%" PRIx64,
                     w->r->pid % w->pids, w->r->id);
    if (track) sonde_buf_printf(w->out, "-%u", track);
    sonde_buf_printf(w->out, "\",\"ts\":%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
}

static void chrome_requests_end_event(struct chrome_requests_writer *w, const char *name,
                                      uint64_t time_ns, uint32_t track)
{
    chrome_requests_begin_event(w, 'e', name, time_ns, track);
    sonde_buf_putc(w->out, '}');
}

static void put_request_args(struct chrome_requests_writer *w)
{
    const struct sonde_infer_request *r = w->r;
    struct sonde_buf *out = w->out;
    sonde_json_key_open(out, "args", '{');
    if (*r->model) sonde_json_str(out, "model", r->model);
    if (*r->route) sonde_json_str(out, "route", r->route);
    sonde_json_str(out, "outcome", sonde_infer_outcome_name(r->outcome));
    if (*r->error) sonde_json_str(out, "error", r->error);
    sonde_json_num(out, "total_s", r->total_s);
    if (r->tokens_out) sonde_json_num(out, "ttft_s", r->ttft_s);
    if (r->itl_count) sonde_json_num(out, "itl_s", r->itl_s);
    sonde_json_u64(out, "tokens_in", r->tokens_in);
    sonde_json_u64(out, "tokens_reused", r->tokens_reused);
    sonde_json_u64(out, "tokens_out", r->tokens_out);
    if (r->trace_hi || r->trace_lo) {
        sonde_json_id(out, "trace_id", (const uint64_t[]){ r->trace_hi, r->trace_lo }, 2);
    }
    sonde_json_key_open(out, "attributes", '{');
    for (uint32_t i = 0; i < r->attr_count; i++) {
        sonde_json_str(out, r->attrs[i].key, r->attrs[i].value);
    }
    sonde_buf_puts(out, "}}}");
}

static void put_item_args(struct chrome_requests_writer *w, const struct sonde_infer_item *item)
{
    sonde_json_key_open(w->out, "args", '{');
    sonde_json_u64(w->out, "tokens", item->tokens);
    if (item->kind != SONDE_PHASE_NONE) sonde_json_ns(w->out, "busy_s", item->busy_ns);
    if (item->count > 1) sonde_json_u64(w->out, "joined", item->count);
    if (item->batch) sonde_json_u64(w->out, "batch", item->batch);
    sonde_buf_puts(w->out, "}}");
}

/* End what ended by then, innermost first. */
static void close_until(struct chrome_requests_writer *w, uint64_t time_ns)
{
    while (w->open_count && w->open[w->open_count - 1].end_ns <= time_ns) {
        w->open_count--;
        chrome_requests_end_event(w, w->open[w->open_count].name, w->open[w->open_count].end_ns, 0);
    }
}

static void put_item(struct chrome_requests_writer *w, const struct sonde_infer_item *item,
                     uint32_t number)
{
    close_until(w, item->start_ns);
    if (item->kind == SONDE_PHASE_NONE) {
        chrome_requests_begin_event(w, 'n', item->name, item->start_ns, 0);
        put_item_args(w, item);
        return;
    }
    const int nests = !w->open_count || item->end_ns <= w->open[w->open_count - 1].end_ns;
    chrome_requests_begin_event(w, 'b', item->name, item->start_ns, nests ? 0 : number);
    put_item_args(w, item);
    if (!nests) {
        chrome_requests_end_event(w, item->name, item->end_ns, number);
    } else {
        w->open[w->open_count].name = item->name;
        w->open[w->open_count++].end_ns = item->end_ns;
    }
}

static int chrome_requests_by_start(const void *a, const void *b, void *items)
{
    const struct sonde_infer_item *all = items;
    const struct sonde_infer_item *x = &all[*(const uint32_t *)a], *y = &all[*(const uint32_t *)b];
    if (x->start_ns != y->start_ns) return SONDE_CMP(x->start_ns, y->start_ns);
    if (x->end_ns != y->end_ns) return SONDE_CMP(y->end_ns, x->end_ns);
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

static void chrome_requests_put(struct chrome_requests_writer *w)
{
    const struct sonde_infer_request *r = w->r;
    uint32_t order[SONDE_INFER_ITEMS_MAX];
    char number[20];
    const uint32_t count = r->item_count < SONDE_INFER_ITEMS_MAX ? r->item_count
                                                                 : SONDE_INFER_ITEMS_MAX;
    const char *name = r->own_id;
    if (!*name) {
        snprintf(number, sizeof(number), "%016" PRIx64, r->id);
        name = number;
    }
    chrome_requests_begin_event(w, 'b', name, r->arrived_ns, 0);
    put_request_args(w);
    for (uint32_t i = 0; i < count; i++) order[i] = i;
    qsort_r(order, count, sizeof(*order), chrome_requests_by_start, r->items);
    w->open_count = 0;
    for (uint32_t i = 0; i < count; i++) put_item(w, &r->items[order[i]], order[i] + 1);
    close_until(w, UINT64_MAX);
    if (!count && r->tokens_out) {
        chrome_requests_begin_event(w, 'n', "first token",
                                    r->arrived_ns + (uint64_t)(r->ttft_s * 1e9 + 0.5), 0);
        sonde_buf_putc(w->out, '}');
    }
    chrome_requests_end_event(w, name, chrome_requests_end_of(r), 0);
}

static void chrome_requests_put_process(struct chrome_requests_writer *w, const char *program)
{
    sonde_buf_printf(w->out, "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"tid\":0,"
                     "\"args\":{\"name\":", (*w->events)++ ? ",\n" : "\n", w->r->pid % w->pids);
    const char *name = *w->r->program ? w->r->program : program;
    sonde_buf_json_str(w->out, name, strlen(name));
    sonde_buf_puts(w->out, "}}");
}

void sonde_chrome_requests_put(const struct sonde_chrome_requests *r, const char *program,
                               uint64_t base_ns, uint32_t pids, uint64_t *events,
                               struct sonde_buf *out)
{
    struct chrome_requests_writer w = { .out = out, .events = events, .base_ns = base_ns,
                                        .pids = pids };
    for (size_t i = 0; i < r->count && !out->error; i++) {
        w.r = r->list[i];
        if (!i || r->list[i - 1]->pid != w.r->pid) chrome_requests_put_process(&w, program);
        chrome_requests_put(&w);
    }
}
