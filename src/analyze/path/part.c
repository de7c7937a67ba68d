/* part.c - where the stretches of a path are added up, with what they are made of: see private.h.
 *
 * A stretch is added once and whole, so parts add up to the latency however it was cut. */
#include <assert.h>
#include <stdlib.h>

#include "analyze/path/private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"

static const struct {
    const char *name, *title;
} path_kinds[] = {
#define SONDE__X(id, name, title) { name, title },
    SONDE_PATH_KINDS(SONDE__X)
#undef SONDE__X
};

const char *sonde_path_kind_name(enum sonde_path_kind k)
{
    assert((size_t)k < SONDE_COUNT(path_kinds));
    return path_kinds[k].name;
}

const char *sonde_path_kind_title(enum sonde_path_kind k)
{
    assert((size_t)k < SONDE_COUNT(path_kinds));
    return path_kinds[k].title;
}

void sonde_path_release(struct sonde_path *path)
{
    sonde__free(path->details);
    sonde__free(path->pieces);
    *path = (struct sonde_path){ 0 };
}

int path_is_own(const struct path_work *w, uint32_t pid, uint64_t id)
{
    for (uint32_t i = 0; i < w->own_count; i++) {
        if (w->own[i].id == id && w->own[i].pid == pid) return 1;
    }
    return 0;
}

static void path_part_piece(struct path_work *w, const struct sonde_path_piece *piece)
{
    struct sonde_path *out = w->out;
    struct sonde_path_piece *last = out->piece_count ? &out->pieces[out->piece_count - 1] : NULL;
    if (last && last->kind == piece->kind && last->thread == piece->thread &&
        last->span == piece->span && last->to_ns == piece->from_ns) {
        last->to_ns = piece->to_ns;
        return;
    }
    out->count[piece->kind]++;
    if (out->piece_count == SONDE_PATH_PIECES_MAX) {
        out->pieces_left_out++;
        return;
    }
    last = SONDE_ARRAY_ADD(out->pieces, out->piece_count, out->piece_cap);
    if (last) *last = *piece;
    else w->rc = SONDE_ENOMEM;
}

void path_add(struct path_work *w, enum sonde_path_kind kind, uint64_t from, uint64_t to,
              uint32_t thread, uint32_t span)
{
    if (to <= from || w->rc) return;
    w->out->ns[kind] += to - from;
    path_part_piece(w, &(struct sonde_path_piece){ from, to, kind, thread, span });
}

/* ---- Details --------------------------------------------------------------------------------- */

static int path_part_by_key(const void *a, const void *b)
{
    const struct sonde_path_detail *x = a, *y = b;
    if (x->kind != y->kind) return SONDE_CMP(x->kind, y->kind);
    if (x->type != y->type) return SONDE_CMP(x->type, y->type);
    return SONDE_CMP(x->key, y->key);
}

static int path_part_by_weight(const void *a, const void *b)
{
    const struct sonde_path_detail *x = a, *y = b;
    if (x->kind != y->kind) return SONDE_CMP(x->kind, y->kind);
    if (x->ns != y->ns) return SONDE_CMP(y->ns, x->ns);
    return path_part_by_key(a, b);
}

static void path_part_merge(struct sonde_path *out)
{
    uint32_t kept = 0;
    if (!out->detail_count) return;
    qsort(out->details, out->detail_count, sizeof(*out->details), path_part_by_key);
    for (uint32_t i = 1; i < out->detail_count; i++) {
        struct sonde_path_detail *to = &out->details[kept];
        if (path_part_by_key(to, &out->details[i]) != 0) {
            out->details[++kept] = out->details[i];
            continue;
        }
        to->ns += out->details[i].ns;
        to->count += out->details[i].count;
    }
    out->detail_count = kept + 1;
}

void path_detail(struct path_work *w, enum sonde_path_kind kind, enum sonde_path_detail_type type,
                 uint64_t key, uint64_t ns, uint64_t count)
{
    struct sonde_path *out = w->out;
    if (w->rc) return;
    if (out->detail_count == 2 * SONDE_PATH_DETAILS_MAX) {
        path_part_merge(out);
        /* Of so many different ones a new one is passed over rather than an old one. */
        if (out->detail_count > 2 * SONDE_PATH_DETAILS_MAX - 64) return;
    }
    struct sonde_path_detail *d =
        SONDE_ARRAY_ADD(out->details, out->detail_count, out->detail_cap);
    if (d) *d = (struct sonde_path_detail){ kind, type, key, ns, count };
    else w->rc = SONDE_ENOMEM;
}

void path_add_mates(struct path_work *w, enum sonde_path_kind kind, uint32_t batch, uint64_t ns)
{
    const struct sonde_path_index *x = w->x;
    const struct sonde_profile *p = x->p;
    const uint32_t pid = path_pid(x, p->spans[batch].thread);
    uint64_t others = 0;
    for (uint32_t i = x->part_first[batch]; i < x->part_first[batch + 1]; i++) {
        if (path_is_own(w, pid, p->parts[i].request)) continue;
        others += (uint64_t)p->parts[i].tokens_in + p->parts[i].tokens_out;
    }
    for (uint32_t i = x->part_first[batch]; others && i < x->part_first[batch + 1]; i++) {
        const struct sonde_profile_part *part = &p->parts[i];
        if (!part->request || path_is_own(w, pid, part->request)) continue;
        const uint64_t tokens = (uint64_t)part->tokens_in + part->tokens_out;
        path_detail(w, kind, SONDE_PATH_REQUEST, part->request,
                    (uint64_t)((double)ns * (double)tokens / (double)others), 1);
    }
    /* A batch is cut by its waits, but its tokens are there once. */
    if (kind == SONDE_PATH_BATCH_MATES && w->last_batch != batch + 1) {
        w->out->mate_tokens += others;
        w->last_batch = batch + 1;
    }
}

/* Functions that were sampled in that time; share: of their weight that counts. */
static void path_part_functions(struct path_work *w, enum sonde_path_kind kind, uint64_t from,
                                uint64_t to, uint32_t thread, double share)
{
    const struct sonde_path_index *x = w->x;
    uint32_t low = x->cpu_first[thread], high = x->cpu_first[thread + 1];
    const uint32_t end = high;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (x->cpus[middle].time < from) low = middle + 1;
        else high = middle;
    }
    for (; low < end && x->cpus[low].time < to; low++) {
        path_detail(w, kind, SONDE_PATH_FUNCTION, x->cpus[low].function,
                    (uint64_t)((double)x->cpus[low].ns * share), 1);
    }
}

void path_add_label(struct path_work *w, const struct path_label *label, uint64_t from, uint64_t to,
                    uint32_t thread, uint32_t span)
{
    if (to <= from) return;
    if (!label->batch) {
        path_add(w, label->kind, from, to, thread, span);
        if (label->mate) {
            path_detail(w, label->kind, SONDE_PATH_REQUEST, label->mate, to - from, 1);
        } else if (thread) {
            path_part_functions(w, label->kind, from, to, thread, 1);
        }
        return;
    }
    const double ns = (double)(to - from), all = (double)label->tokens;
    const uint64_t in = all > 0 ? (uint64_t)(ns * (double)label->own_in / all) : 0;
    uint64_t out = all > 0 ? (uint64_t)(ns * (double)label->own_out / all) : 0;
    /* What is lost in rounding, if there is nobody else it could be for. */
    if (label->own_out && label->own_in + label->own_out == label->tokens) out = to - from - in;
    const uint64_t middle = label->own_in == label->tokens && all > 0 ? to : from + in;
    const uint64_t later = middle + out < to ? middle + out : to;
    path_add(w, SONDE_PATH_PREFILL, from, middle, thread, span);
    path_add(w, SONDE_PATH_DECODE, middle, later, thread, span);
    path_add(w, SONDE_PATH_BATCH_MATES, later, to, thread, span);
    const enum sonde_path_kind kind =
        label->own_in > label->own_out ? SONDE_PATH_PREFILL : SONDE_PATH_DECODE;
    if (later > from) path_part_functions(w, kind, from, to, thread, (double)(later - from) / ns);
    if (to > later) path_add_mates(w, SONDE_PATH_BATCH_MATES, label->batch - 1, to - later);
}

/* ---- The end --------------------------------------------------------------------------------- */

struct path_part_thread { uint64_t thread, ns; };

/* The thread that most of the pieces are of. */
static void path_part_main_thread(struct sonde_path *out)
{
    struct path_part_thread few[32] = { { 0, 0 } };
    size_t count = 0, best = 0;
    for (uint32_t i = 0; i < out->piece_count; i++) {
        const struct sonde_path_piece *piece = &out->pieces[i];
        size_t k = 0;
        if (!piece->thread) continue;
        while (k < count && few[k].thread != piece->thread) k++;
        if (k == SONDE_COUNT(few)) continue;
        if (k == count) few[count++].thread = piece->thread;
        few[k].ns += piece->to_ns - piece->from_ns;
    }
    for (size_t k = 1; k < count; k++) best = few[k].ns > few[best].ns ? k : best;
    out->thread = (uint32_t)few[best].thread;
}

void path_finish(struct path_work *w)
{
    struct sonde_path *out = w->out;
    path_part_merge(out);
    for (uint32_t i = 0; i < out->detail_count; i++) {
        out->mates += out->details[i].kind == SONDE_PATH_BATCH_MATES &&
                      out->details[i].type == SONDE_PATH_REQUEST;
    }
    if (out->detail_count) {
        qsort(out->details, out->detail_count, sizeof(*out->details), path_part_by_weight);
    }
    path_part_main_thread(out);
    uint64_t sum = 0;
    for (int k = 0; k < SONDE_PATH_KIND_COUNT; k++) sum += out->ns[k];
    assert(w->rc || sum == out->to_ns - out->from_ns);
    (void)sum;
}
