/* run_facts.h - what a run was of, and where it ran: what has to be the same for two runs to be
 * comparable, and what usually is not (the build). Pure: read off a profile. */
#ifndef SONDE_ANALYZE_RUN_FACTS_H
#define SONDE_ANALYZE_RUN_FACTS_H

#include <stddef.h>

#include "profile/profile.h"

/* id, key in JSON and in files, title, whether a difference makes a comparison suspect. */
#define SONDE_RUN_FACTS(X)                                                                     \
    X(HOST, "host", "host", 1)                                                                 \
    X(KERNEL, "kernel", "kernel", 1)                                                           \
    X(CPU, "cpu", "CPUs", 1)                                                                   \
    X(PROGRAM, "program", "program", 1)                                                        \
    X(ARGUMENTS, "arguments", "arguments", 1)                                                  \
    X(MODEL, "model", "model", 1)                                                              \
    X(ENGINE, "engine", "sampling engine", 1)                                                  \
    X(BUILD_ID, "build_id", "build id", 0)

enum sonde_run_fact {
#define SONDE__X(id, key, title, suspect) SONDE_FACT_##id,
    SONDE_RUN_FACTS(SONDE__X)
#undef SONDE__X
    SONDE_FACT_COUNT
};

#define SONDE_FACT_BYTES 256 /* longer ones are cut */

/* "" = not known. */
struct sonde_run_facts { char text[SONDE_FACT_COUNT][SONDE_FACT_BYTES]; };

const char *sonde_run_fact_key(enum sonde_run_fact f);
const char *sonde_run_fact_title(enum sonde_run_fact f);
int sonde_run_fact_suspect(enum sonde_run_fact f);

void sonde_run_facts_of(const struct sonde_profile *p, struct sonde_run_facts *out);

/* 1 if both are known and differ. What is not known of one differs from nothing. */
int sonde_run_fact_differs(const struct sonde_run_facts *a, const struct sonde_run_facts *b,
                           enum sonde_run_fact f);

#endif
