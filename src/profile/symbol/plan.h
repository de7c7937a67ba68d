/* plan.h - the locations of a profile that need names, sorted into jobs: one a file, however
 * many processes have it mapped wherever. */
#ifndef SONDE_PROFILE_SYMBOL_PLAN_H
#define SONDE_PROFILE_SYMBOL_PLAN_H

#include "profile/profile.h"
#include "profile/symbol/symbol.h"

struct sonde_symbol_plan_item {
    uint64_t at;
    uint32_t job;
    uint32_t location;
};

struct sonde_symbol_plan_job {
    struct sonde_symbol_job job;   /* what it points to is the plan's or the profile's */
    const uint32_t *modules;        /* job.place_count of them */
    const uint32_t *first;          /* of items, by index in job.at; one more marks the end */
};

struct sonde_symbol_plan {
    struct sonde_symbol_plan_job *jobs;
    uint32_t job_count;
    struct sonde_symbol_plan_item *items; /* by job and at */
    uint32_t item_count;
    /* Behind the jobs' pointers. */
    struct sonde_module *places;
    uint32_t *modules, *first;
    uint64_t *at;
};

/* What kind of module it is, and a location's place in it. */
enum sonde_symbol_kind sonde_symbol_plan_kind(const struct sonde_profile_module *m);
uint64_t sonde_symbol_plan_at(const struct sonde_profile_module *m, uint64_t address);

/* Of the locations without lines. 0 or SONDE_ENOMEM. */
int sonde_symbol_plan_create(const struct sonde_profile *p, const char *debug_root,
                             struct sonde_symbol_plan *out);
void sonde_symbol_plan_release(struct sonde_symbol_plan *plan);

#endif
