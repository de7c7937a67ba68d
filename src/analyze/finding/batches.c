/* batches.c - see batches.h. */
#include "analyze/finding/batches.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

enum { MEDIAN_MIN = 5 };

static int pass_compare(const void *x, const void *y)
{
    const struct finding_pass *a = x, *b = y;
    return SONDE_CMP(a->start_ns, b->start_ns);
}

static int pass_length_compare(const void *x, const void *y)
{
    const double *a = x, *b = y;
    return SONDE_CMP(*a, *b);
}

static void batches_rates(struct finding_batches *b, double *lengths)
{
    size_t n = 0;
    double tokens = 0, seconds = 0;
    for (size_t i = 0; i < b->count; i++) {
        const struct finding_pass *pass = &b->rows[i];
        if (!pass->tokens_in) lengths[n++] = finding_pass_s(pass);
        if (pass->tokens_in && !pass->tokens_out) {
            tokens += (double)pass->tokens_in;
            seconds += finding_pass_s(pass);
        }
    }
    qsort(lengths, n, sizeof(*lengths), pass_length_compare);
    b->decode_s = n >= MEDIAN_MIN ? lengths[n / 2] : NAN;
    b->prefill_per_s = seconds > 0 ? tokens / seconds : NAN;
}

static int served_compare(const void *x, const void *y)
{
    const struct finding_served *a = x, *b = y;
    if (a->id != b->id) return SONDE_CMP(a->id, b->id);
    return SONDE_CMP(a->first_ns, b->first_ns);
}

/* One row for each part, sorted, then those of one request joined. */
static int batches_serve(struct finding_batches *b, const struct sonde_profile *p)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct finding_pass *pass = &b->rows[i];
        for (uint32_t k = 0; k < pass->part_count; k++) {
            const struct sonde_profile_part *part = &p->parts[pass->part + k];
            if (!part->request) continue;
            struct finding_served *row =
                SONDE_ARRAY_ADD(b->served, b->served_count, b->served_cap);
            if (!row) return SONDE_ENOMEM;
            *row = (struct finding_served){
                .id = part->request, .first_ns = pass->start_ns, .last_ns = pass->end_ns,
                .token_ns = part->tokens_out ? pass->end_ns : 0,
            };
        }
    }
    if (!b->served_count) return 0;
    qsort(b->served, b->served_count, sizeof(*b->served), served_compare);
    size_t n = 0;
    for (size_t i = 1; i < b->served_count; i++) {
        struct finding_served *last = &b->served[n];
        const struct finding_served *row = &b->served[i];
        if (row->id != last->id) {
            b->served[++n] = *row;
            continue;
        }
        if (row->last_ns > last->last_ns) last->last_ns = row->last_ns;
        if (!last->token_ns) last->token_ns = row->token_ns;
    }
    b->served_count = n + 1;
    return 0;
}

int finding_batches_init(struct finding_batches *b, const struct sonde_profile *p)
{
    *b = (struct finding_batches){ .decode_s = NAN, .prefill_per_s = NAN };
    for (uint32_t i = 0; i < p->parts_count;) {
        const struct sonde_profile_span *s = &p->spans[p->parts[i].span];
        struct finding_pass pass = { .start_ns = s->start_ns, .end_ns = s->end_ns, .part = i };
        for (; i < p->parts_count && &p->spans[p->parts[i].span] == s; i++) {
            pass.part_count++;
            pass.requests++;
            pass.tokens_in += p->parts[i].tokens_in;
            pass.tokens_out += p->parts[i].tokens_out;
        }
        if (pass.end_ns <= pass.start_ns) continue;
        struct finding_pass *row = SONDE_ARRAY_ADD(b->rows, b->count, b->cap);
        if (!row) return SONDE_ENOMEM;
        *row = pass;
    }
    if (!b->count) return 0;
    qsort(b->rows, b->count, sizeof(*b->rows), pass_compare);
    double *lengths = sonde__calloc(b->count, sizeof(*lengths));
    if (!lengths) return SONDE_ENOMEM;
    batches_rates(b, lengths);
    sonde__free(lengths);
    return batches_serve(b, p);
}

void finding_batches_release(struct finding_batches *b)
{
    sonde__free(b->rows);
    sonde__free(b->served);
    *b = (struct finding_batches){ 0 };
}

size_t finding_batches_from(const struct finding_batches *b, uint64_t ns)
{
    size_t low = 0, high = b->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (b->rows[middle].start_ns < ns) low = middle + 1;
        else high = middle;
    }
    return low;
}

int finding_pass_has(const struct sonde_profile *p, const struct finding_pass *pass, uint64_t id,
                     uint64_t *tokens_in, uint64_t *tokens_out)
{
    *tokens_in = *tokens_out = 0;
    int found = 0;
    for (uint32_t i = 0; i < pass->part_count; i++) {
        const struct sonde_profile_part *part = &p->parts[pass->part + i];
        if (part->request != id) continue;
        *tokens_in += part->tokens_in;
        *tokens_out += part->tokens_out;
        found = 1;
    }
    return found;
}

void finding_request_name(const struct sonde_profile *p, uint64_t id, char out[64])
{
    snprintf(out, 64, "%016" PRIx64, id);
    for (uint32_t i = 0; p->infer && i < p->infer->request_count; i++) {
        const struct sonde_infer_request *r = &p->infer->requests[i];
        if (r->id == id && r->own_id[0]) snprintf(out, 64, "%s", r->own_id);
    }
}
