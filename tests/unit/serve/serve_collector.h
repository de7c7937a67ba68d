/* serve_collector.h - a collector with a directory of its own, for the tests of serve/. */
#ifndef TESTS_SERVE_COLLECTOR_H
#define TESTS_SERVE_COLLECTOR_H

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent.h"
#include "collect/collector.h"

static char dir[] = "/tmp/sonde-unit-XXXXXX";
static struct sonde_collector *collector;
static struct sonde_agent agent; /* that has nothing but the collector, and marks */

/* infer: as in sonde_collector_options; NULL = no tracker. */
static inline int collector_make(const struct sonde_infer_options *infer)
{
    struct sonde_err err = { "" };
    strcpy(dir, "/tmp/sonde-unit-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    const struct sonde_collector_options o = { .dir = dir, .infer = infer };
    if (sonde_collector_create(&o, &collector, &err) != 0) return -1;
    agent = (struct sonde_agent){ .collector = collector };
    return sonde_marks_create(NULL, NULL, &agent.marks);
}

static inline int collector_end(void)
{
    sonde_marks_destroy(agent.marks);
    sonde_collector_destroy(collector);
    return rmdir(dir);
}

#endif
