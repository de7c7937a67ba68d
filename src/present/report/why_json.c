/* why_json.c - critical paths as JSON: see why.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/path/slow.h"
#include "base/json.h"
#include "base/trace_id.h"
#include "present/report/requests.h"
#include "present/report/why.h"
#include "profile/select/select.h"

enum {
    DETAILS_SHOWN = 8,    /* of each part */
    FRAMES_SHOWN = 24,    /* of a stack */
    PIECES_SHOWN = 2000,  /* of the timeline */
    SLOWEST_SHOWN = 20,
};

struct why_work {
    const struct sonde_profile *p;
    const struct sonde_path_index *x;
    struct sonde_buf *out;
};

/* ---- What a part is made of ------------------------------------------------------------------ */

static void why_put_function(const struct why_work *w, uint32_t function, uint32_t line)
{
    const struct sonde_profile_function *f = &w->p->functions[function];
    const char *name = sonde_profile_str(w->p, f->name), *file = sonde_profile_str(w->p, f->file);
    sonde_json_str(w->out, "function", function && *name ? name : NULL);
    sonde_json_str(w->out, "file", function && *file ? file : NULL);
    sonde_json_u64_or_null(w->out, "line", function && !line ? f->start_line : line);
}

static void why_put_frames(const struct why_work *w, uint32_t stack)
{
    const struct sonde_profile *p = w->p;
    int count = 0;
    sonde_json_key_open(w->out, "stack", '[');
    for (; stack && count < FRAMES_SHOWN; stack = p->stacks[stack].parent) {
        const struct sonde_profile_location *l = &p->locations[p->stacks[stack].location];
        for (uint32_t i = 0; i < l->line_count && count < FRAMES_SHOWN; i++, count++) {
            const uint32_t f = p->lines[l->line + i].function;
            const char *name = sonde_profile_str(p, p->functions[f].name);
            if (count) sonde_buf_putc(w->out, ',');
            sonde_buf_json_str(w->out, name, strlen(name));
        }
    }
    sonde_json_close(w->out, ']');
}

static void why_put_wait(const struct why_work *w, const struct sonde_path_detail *d)
{
    const struct sonde_wait wait = sonde_path_wait(w->x, (uint32_t)d->key);
    const char *call = sonde_profile_str(w->p, w->p->functions[wait.call].name);
    sonde_json_str(w->out, "call", wait.call && *call ? call : NULL);
    why_put_function(w, wait.caller, wait.caller_line);
    why_put_frames(w, (uint32_t)d->key);
}

/* The request of an id, whichever process's: ids of one batch are of one. NULL = not known. */
static const struct sonde_infer_request *why_request(const struct why_work *w, uint64_t id)
{
    const struct sonde_infer_run *run = w->p->infer;
    for (uint32_t i = 0; run && i < run->request_count; i++) {
        if (run->requests[i].id == id) return &run->requests[i];
    }
    return NULL;
}

static void why_put_request(const struct why_work *w, uint64_t id)
{
    const struct sonde_infer_request *r = why_request(w, id);
    char name[SONDE_REQUEST_NAME];
    sonde_json_id(w->out, "id", &id, 1);
    sonde_json_str(w->out, "name", r ? sonde_request_name(r, name) : NULL);
}

/* Those of one type, as an array under that key; times are divided by `by`. */
static void why_put_details(const struct why_work *w, const struct sonde_path *path,
                            enum sonde_path_kind kind, enum sonde_path_detail_type type,
                            const char *key, double by)
{
    int count = 0;
    sonde_json_key_open(w->out, key, '[');
    for (uint32_t i = 0; i < path->detail_count && count < DETAILS_SHOWN; i++) {
        const struct sonde_path_detail *d = &path->details[i];
        if (d->kind != kind || d->type != type) continue;
        count++;
        sonde_json_open(w->out, '{');
        if (type == SONDE_PATH_FUNCTION) why_put_function(w, (uint32_t)d->key, 0);
        else if (type == SONDE_PATH_STACK) why_put_wait(w, d);
        else if (type == SONDE_PATH_REQUEST) why_put_request(w, d->key);
        else sonde_json_str(w->out, "name", sonde_profile_str(w->p, (uint32_t)d->key));
        sonde_json_num(w->out, "seconds", (double)d->ns * 1e-9 / by);
        sonde_json_num(w->out, "count", (double)d->count / by);
        sonde_json_close(w->out, '}');
    }
    sonde_json_close(w->out, ']');
}

static void why_put_part(const struct why_work *w, const struct sonde_path *path,
                         enum sonde_path_kind kind, double total_ns, uint64_t by)
{
    sonde_json_open(w->out, '{');
    sonde_json_str(w->out, "kind", sonde_path_kind_name(kind));
    sonde_json_str(w->out, "title", sonde_path_kind_title(kind));
    if (by == 1) sonde_json_ns(w->out, "seconds", path->ns[kind]);
    else sonde_json_num(w->out, "seconds", (double)path->ns[kind] * 1e-9 / (double)by);
    sonde_json_num(w->out, "share", total_ns > 0 ? (double)path->ns[kind] / total_ns : NAN);
    sonde_json_num(w->out, "count", (double)path->count[kind] / (double)by);
    why_put_details(w, path, kind, SONDE_PATH_FUNCTION, "functions", (double)by);
    why_put_details(w, path, kind, SONDE_PATH_STACK, "waits", (double)by);
    why_put_details(w, path, kind, SONDE_PATH_REQUEST, "requests", (double)by);
    why_put_details(w, path, kind, SONDE_PATH_SPAN, "spans", (double)by);
    sonde_json_close(w->out, '}');
}

/* by: of how many it is the sum; then all are means. */
static void why_put_parts(const struct why_work *w, const struct sonde_path *path, double total_ns,
                          uint64_t by)
{
    sonde_json_key_open(w->out, "parts", '[');
    for (int k = 0; k < SONDE_PATH_KIND_COUNT; k++) {
        if (path->ns[k]) why_put_part(w, path, (enum sonde_path_kind)k, total_ns, by);
    }
    sonde_json_close(w->out, ']');
}

/* ---- Notes ----------------------------------------------------------------------------------- */

static void why_note(struct sonde_buf *out, const char *text)
{
    if (out->len && out->data[out->len - 1] != '[') sonde_buf_putc(out, ',');
    sonde_buf_json_str(out, text, strlen(text));
}

static void why_put_notes(const struct why_work *w, int no_off_cpu)
{
    char text[200];
    sonde_json_key_open(w->out, "notes", '[');
    if (no_off_cpu) {
        why_note(w->out, "waits were not recorded: phases count as computing, and what is in none "
                 "as unexplained; record with `sonde record --off-cpu` to see them");
    }
    if (w->p->lost_records) {
        snprintf(text, sizeof(text), "%" PRIu64 " records were lost while it was recorded: waits "
                 "may be missing, and count as computing", w->p->lost_records);
        why_note(w->out, text);
    }
    sonde_json_close(w->out, ']');
}

/* ---- One ------------------------------------------------------------------------------------- */

static void why_put_thread(const struct why_work *w, uint32_t thread)
{
    const struct sonde_profile_thread *t = &w->p->threads[thread];
    char text[80];
    if (thread) snprintf(text, sizeof(text), "%.60s/%u", sonde_profile_str(w->p, t->name), t->tid);
    sonde_json_str(w->out, "thread", thread ? text : NULL);
}

static void why_put_timeline(const struct why_work *w, const struct sonde_path *path)
{
    const uint32_t shown = path->piece_count < PIECES_SHOWN ? path->piece_count : PIECES_SHOWN;
    sonde_json_key_open(w->out, "timeline", '[');
    for (uint32_t i = 0; i < shown; i++) {
        const struct sonde_path_piece *piece = &path->pieces[i];
        const uint32_t name = piece->span ? w->p->spans[piece->span - 1].name : 0;
        sonde_json_open(w->out, '{');
        sonde_json_str(w->out, "kind", sonde_path_kind_name(piece->kind));
        sonde_json_ns(w->out, "start_s", piece->from_ns - path->from_ns);
        sonde_json_ns(w->out, "end_s", piece->to_ns - path->from_ns);
        why_put_thread(w, piece->thread);
        sonde_json_str(w->out, "span", name ? sonde_profile_str(w->p, name) : NULL);
        sonde_json_close(w->out, '}');
    }
    sonde_json_close(w->out, ']');
    sonde_json_u64(w->out, "timeline_left_out", path->piece_count - shown + path->pieces_left_out);
}

static void why_put_one(const struct why_work *w, const char *kind, const struct sonde_path *path,
                        uint32_t request, const uint64_t trace[2], const char *span)
{
    const struct sonde_infer_request *r =
        request == UINT32_MAX ? NULL : &w->p->infer->requests[request];
    const uint64_t total = path->to_ns - path->from_ns;
    char name[SONDE_REQUEST_NAME];
    sonde_json_open(w->out, '{');
    sonde_json_str(w->out, "kind", kind);
    if (r) sonde_json_id(w->out, "id", &r->id, 1);
    else sonde_json_str(w->out, "id", NULL);
    sonde_json_str(w->out, "name", r ? sonde_request_name(r, name) : span);
    if (trace[0] | trace[1]) sonde_json_id(w->out, "trace_id", trace, 2);
    else sonde_json_str(w->out, "trace_id", NULL);
    sonde_json_str(w->out, "program", r && r->program[0] ? r->program : NULL);
    sonde_json_time(w->out, "from", (double)path->from_ns * 1e-9);
    sonde_json_ns(w->out, "seconds", total);
    why_put_thread(w, path->thread);
    sonde_json_u64(w->out, "batch_mates", path->mates);
    sonde_json_u64(w->out, "batch_mate_tokens", path->mate_tokens);
    why_put_parts(w, path, (double)total, 1);
    why_put_timeline(w, path);
    why_put_notes(w, path->no_off_cpu);
    sonde_json_close(w->out, '}');
    sonde_buf_putc(w->out, '\n');
}

static int why_of_request(const struct why_work *w, const char *id, struct sonde_err *err)
{
    const struct sonde_infer_run *run = w->p->infer;
    uint32_t i = run ? run->request_count : 0;
    uint32_t found = UINT32_MAX;
    /* The newest, if ids repeat; of one that several saw the outermost. */
    while (i-- > 0) {
        const struct sonde_infer_request *r = &run->requests[i];
        if (!sonde_request_is(r, id)) continue;
        if (found == UINT32_MAX || r->total_s > run->requests[found].total_s) found = i;
    }
    if (found == UINT32_MAX) {
        return sonde_err_set(err, SONDE_ENOENT, "there is no request '%.80s' in it", id);
    }
    struct sonde_path path;
    const int rc = sonde_path_of_request(w->x, found, &path);
    if (rc) return sonde_err_memory(err);
    const uint64_t trace[2] = { run->requests[found].trace_hi, run->requests[found].trace_lo };
    why_put_one(w, "request", &path, found, trace, NULL);
    sonde_path_release(&path);
    return 0;
}

static int why_of_trace(const struct why_work *w, const char *id, struct sonde_err *err)
{
    uint64_t trace[2];
    struct sonde_path path;
    if (!sonde_trace_id_parse(id, &trace[0], &trace[1])) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.80s' is not a trace id: 32 hexadecimal digits, "
                             "or a UUID", id);
    }
    const int rc = sonde_path_of_trace(w->x, trace[0], trace[1], &path);
    if (rc == SONDE_ENOENT) {
        return sonde_err_set(err, rc, "there is no span of trace '%.80s' in it", id);
    }
    if (rc) return sonde_err_memory(err);
    why_put_one(w, "trace", &path, UINT32_MAX, trace, NULL);
    sonde_path_release(&path);
    return 0;
}

/* ---- Many ------------------------------------------------------------------------------------ */

static void why_put_group(const struct why_work *w, const char *key, const struct sonde_path *sums,
                          uint64_t total_ns, uint32_t count)
{
    sonde_json_key_open(w->out, key, '{');
    sonde_json_u64(w->out, "count", count);
    sonde_json_num(w->out, "seconds", count ? (double)total_ns * 1e-9 / count : NAN);
    sonde_json_num(w->out, "batch_mates", count ? (double)sums->mates / count : NAN);
    why_put_parts(w, sums, (double)total_ns, count ? count : 1);
    sonde_json_close(w->out, '}');
}

static void why_put_row(const struct why_work *w, const struct sonde_slow_row *row)
{
    const int waits = row->type == SONDE_SLOW_PART || row->type == SONDE_SLOW_WAIT;
    const char *file = sonde_profile_str(w->p, w->p->functions[row->function].file);
    sonde_json_open(w->out, '{');
    sonde_json_str(w->out, "type", sonde_slow_type_name(row->type));
    sonde_json_str(w->out, "name", row->name);
    sonde_json_str(w->out, "kind", waits ? sonde_path_kind_name(row->kind) : NULL);
    sonde_json_str(w->out, "file", row->function && *file ? file : NULL);
    sonde_json_u64_or_null(w->out, "line", !row->function ? 0 : row->line ? row->line
                           : w->p->functions[row->function].start_line);
    sonde_json_str(w->out, "unit", sonde_slow_type_unit(row->type));
    sonde_json_num(w->out, "slow", row->slow);
    sonde_json_num(w->out, "rest", row->rest);
    sonde_json_num(w->out, "change", row->change);
    sonde_json_num(w->out, "low", isfinite(row->low) ? row->low : NAN);
    sonde_json_num(w->out, "high", isfinite(row->high) ? row->high : NAN);
    sonde_json_num(w->out, "gap_share", row->gap_share);
    sonde_json_num(w->out, "likelihood", row->likelihood);
    sonde_json_num(w->out, "p", row->p);
    sonde_json_close(w->out, '}');
}

static void why_put_difference(const struct why_work *w, const struct sonde_path_set *set,
                               const struct sonde_slow *slow)
{
    const uint32_t rest = set->count - set->slow_count;
    sonde_json_key_open(w->out, "difference", '{');
    sonde_json_num(w->out, "seconds",
                   rest && set->slow_count
                       ? ((double)set->slow_ns / set->slow_count - (double)set->rest_ns / rest) *
                             1e-9
                       : NAN);
    sonde_json_u64(w->out, "looked_at", slow->looked_at);
    sonde_json_str(w->out, "why_none", slow->why_none);
    sonde_json_key_open(w->out, "rows", '[');
    for (uint32_t i = 0; i < slow->count; i++) why_put_row(w, &slow->rows[i]);
    sonde_json_close(w->out, ']');
    sonde_json_close(w->out, '}');
}

/* The slowest by name, so that one can be asked for. */
static void why_put_slowest(const struct why_work *w, const struct sonde_path_set *set)
{
    unsigned char done[SONDE_PATH_SLOW_MAX] = { 0 };
    sonde_json_key_open(w->out, "slowest", '[');
    for (int shown = 0; shown < SLOWEST_SHOWN && shown < (int)set->slow_count; shown++) {
        uint32_t best = UINT32_MAX, best_row = 0, row = 0;
        for (uint32_t i = 0; i < set->count && row < SONDE_PATH_SLOW_MAX; i++) {
            if (!set->items[i].slow) continue;
            if (!done[row] && (best == UINT32_MAX ||
                               set->items[i].total_ns > set->items[best].total_ns)) {
                best = i;
                best_row = row;
            }
            row++;
        }
        if (best == UINT32_MAX) break;
        done[best_row] = 1;
        const struct sonde_path_item *item = &set->items[best];
        sonde_json_open(w->out, '{');
        if (set->of_spans) {
            const struct sonde_profile_span *s = &w->p->spans[item->index];
            const uint64_t trace[2] = { s->trace_hi, s->trace_lo };
            sonde_json_id(w->out, "id", &s->id, 1);
            sonde_json_str(w->out, "name", sonde_profile_str(w->p, s->name));
            sonde_json_id(w->out, "trace_id", trace, 2);
        } else {
            const struct sonde_infer_request *r = &w->p->infer->requests[item->index];
            const uint64_t trace[2] = { r->trace_hi, r->trace_lo };
            char name[SONDE_REQUEST_NAME];
            sonde_json_id(w->out, "id", &r->id, 1);
            sonde_json_str(w->out, "name", sonde_request_name(r, name));
            sonde_json_id(w->out, "trace_id", trace, 2);
        }
        sonde_json_ns(w->out, "seconds", item->total_ns);
        sonde_json_close(w->out, '}');
    }
    sonde_json_close(w->out, ']');
}

static int why_of_set(const struct why_work *w, const struct sonde_why_query *q,
                      struct sonde_err *err)
{
    struct sonde_path_query query = { .span = q->span };
    struct sonde_path_set set;
    struct sonde_slow slow;
    struct sonde_select slowest = { 0 };
    if (q->slowest) {
        const int rc = sonde_select_slowest(q->slowest, &slowest, err);
        if (rc) return rc;
        query.slowest = slowest.slowest;
        query.slowest_share = slowest.slowest_share;
    }
    int rc = sonde_path_set_create(w->x, &query, &set, err);
    if (rc) return rc;
    rc = sonde_path_slow(w->x, &set, &slow);
    if (rc) {
        sonde_path_set_release(&set);
        return sonde_err_memory(err);
    }
    sonde_json_open(w->out, '{');
    sonde_json_str(w->out, "kind", q->span ? "spans" : "requests");
    sonde_json_str(w->out, "span", q->span);
    sonde_json_u64(w->out, "count", set.all);
    sonde_json_u64(w->out, "looked_at", set.count);
    sonde_json_u64(w->out, "slow_asked", set.slow_asked);
    why_put_group(w, "slow", &set.slow, set.slow_ns, set.slow_count);
    why_put_group(w, "rest", &set.rest, set.rest_ns, set.count - set.slow_count);
    why_put_difference(w, &set, &slow);
    why_put_slowest(w, &set);
    why_put_notes(w, set.slow.no_off_cpu || set.rest.no_off_cpu);
    sonde_json_close(w->out, '}');
    sonde_buf_putc(w->out, '\n');
    sonde_slow_release(&slow);
    sonde_path_set_release(&set);
    return 0;
}

int sonde_why_json(const struct sonde_profile *p, const struct sonde_why_query *q,
                   struct sonde_buf *out, struct sonde_err *err)
{
    struct sonde_path_index *x;
    if (!!q->request + !!q->trace + (q->span || q->slowest) > 1) {
        return sonde_err_set(err, SONDE_EINVAL, "one request, one trace, or the slowest: not "
                             "several of them");
    }
    int rc = sonde_path_index_create(p, &x);
    if (rc) return sonde_err_memory(err);
    const struct why_work w = { p, x, out };
    rc = q->request ? why_of_request(&w, q->request, err)
         : q->trace ? why_of_trace(&w, q->trace, err)
                    : why_of_set(&w, q, err);
    sonde_path_index_destroy(x);
    if (!rc && out->error) rc = sonde_err_memory(err);
    return rc;
}
