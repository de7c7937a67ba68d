/* compare_build.h - runs as a program would leave them, drawn at random: what it does now it goes
 * on doing for a while, a request that follows a slow one is slow. */
#ifndef SONDE_TESTS_COMPARE_BUILD_H
#define SONDE_TESTS_COMPARE_BUILD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/infer.h"
#include "profile/profile.h"
#include "unit/analyze/random.h"
#include "unit/profile/profile_build.h"

#define BUILD_FUNCTIONS 12
#define BUILD_START 1700000000000000000ull

struct build_program {
    double weights[BUILD_FUNCTIONS]; /* how much each function takes; 0 = all the same */
    double latency_s;                /* median of a request */
    double request_hz, rate_hz, seconds;
    double stay;                     /* of a function to go on at the next sample */
    double likeness;                 /* of a request to the one before */
    double run_factor;               /* by how much runs differ, as a standard deviation */
    int spans;                       /* requests are spans instead */
};

/* f0 … f11, called by main and handle. */
static inline struct sonde_profile *build_run(const struct build_program *b)
{
    struct sonde_profile *p;
    if (sonde_profile_create(0, &p)) abort();
    const double factor = exp(b->run_factor * random_normal());
    uint32_t stacks[BUILD_FUNCTIONS];
    double upto[BUILD_FUNCTIONS], all = 0;
    for (int i = 0; i < BUILD_FUNCTIONS; i++) {
        char text[64];
        snprintf(text, sizeof(text), "main;handle;f%d", i);
        stacks[i] = build_stack(p, text);
        upto[i] = all += b->weights[i] > 0 ? b->weights[i] : 1;
    }
    const uint32_t thread = sonde_profile_thread(p, 1, 1, "main");
    const uint32_t name = sonde_profile_cstring(p, "handle");
    p->start_ns = BUILD_START;
    p->end_ns = BUILD_START + (uint64_t)(b->seconds * 1e9);
    int at = -1;
    for (double t = 0; t < b->seconds; t += 1 / b->rate_hz) {
        if (at < 0 || random_uniform() > b->stay) {
            const double drawn = random_uniform() * all;
            for (at = 0; at < BUILD_FUNCTIONS - 1 && upto[at] < drawn;) at++;
        }
        sonde_profile_add_sample(p, &(struct sonde_profile_sample){
            .stack = stacks[at], .weight = (uint64_t)(1e9 / b->rate_hz), .thread = thread,
            .time_ns = BUILD_START + (uint64_t)(t * 1e9), .count = 1 });
    }
    double slow = random_normal();
    for (double t = 0; b->request_hz > 0 && t < b->seconds;) {
        slow = b->likeness * slow + sqrt(1 - b->likeness * b->likeness) * random_normal();
        const double took = b->latency_s * factor * exp(0.4 * slow);
        const double end = t + took;
        if (end >= b->seconds) break;
        const uint64_t start_ns = BUILD_START + (uint64_t)(t * 1e9);
        if (b->spans) {
            sonde_profile_add_span(p, &(struct sonde_profile_span){
                .start_ns = start_ns, .end_ns = BUILD_START + (uint64_t)(end * 1e9),
                .thread = thread, .name = name, .id = 1 + (uint64_t)(t * 1e6) });
        } else {
            struct sonde_infer_request r = {
                .id = 1 + (uint64_t)(t * 1e6), .pid = 1, .program = "sim", .model = "m",
                .route = "", .backend = "", .error = "", .invalid = "", .arrived_ns = start_ns,
                .tokens_in = 10, .tokens_out = 20, .total_s = took, .ttft_s = took / 4,
                .itl_count = 19, .itl_s = took * 0.7 / 19 };
            r.phase_count[SONDE_PHASE_PREFILL] = 1;
            r.phase_s[SONDE_PHASE_PREFILL] = took / 5;
            if (sonde_infer_run_add(p, &r)) abort();
        }
        t += -log(random_uniform()) / b->request_hz;
    }
    return p;
}

#endif
