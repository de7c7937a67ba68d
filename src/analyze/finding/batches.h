/* batches.h - the forward passes of a profile that served requests of inference, for the rules that
 * judge how an engine schedules: which request had how many tokens in which pass. */
#ifndef SONDE_ANALYZE_FINDING_BATCHES_H
#define SONDE_ANALYZE_FINDING_BATCHES_H

#include "profile/infer.h"
#include "profile/profile.h"

struct finding_pass {
    uint64_t start_ns, end_ns;
    uint32_t part, part_count;      /* of the profile's parts */
    uint32_t requests;              /* in it */
    uint64_t tokens_in, tokens_out; /* of prompts, of output */
};

/* What passes tell of a request, whether it has ended or not. */
struct finding_served {
    uint64_t id;
    uint64_t first_ns, last_ns;     /* its first pass began, its last ended */
    uint64_t token_ns;              /* the end of its first pass with output; 0 = it has none */
};

struct finding_batches {
    struct finding_pass *rows;      /* by time */
    size_t count, cap;
    struct finding_served *served;  /* by id */
    size_t served_count, served_cap;
    double decode_s;                /* the median of passes without a token of a prompt; NaN = there
                                       are fewer than 5 */
    double prefill_per_s;           /* prompt tokens per second in passes that have nothing else;
                                       NaN = there are none */
};

/* 0 or SONDE_ENOMEM; release in any case. */
int finding_batches_init(struct finding_batches *b, const struct sonde_profile *p);
void finding_batches_release(struct finding_batches *b);

/* The first pass that begins at ns or later: count = none. */
size_t finding_batches_from(const struct finding_batches *b, uint64_t ns);
/* The tokens that a request has in a pass: of its prompt and of its output. 0 = it is not in it. */
int finding_pass_has(const struct sonde_profile *p, const struct finding_pass *pass, uint64_t id,
                     uint64_t *tokens_in, uint64_t *tokens_out);

static inline double finding_pass_s(const struct finding_pass *pass)
{
    return (double)(pass->end_ns - pass->start_ns) * 1e-9;
}

/* What a request is called: the engine's id if it is known, else the number as hexadecimal. */
void finding_request_name(const struct sonde_profile *p, uint64_t id, char out[64]);

#endif
