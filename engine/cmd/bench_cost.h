/* bench_cost.h - what it costs the engine to tell sonde what it does. */
#ifndef ENGINE_CMD_BENCH_COST_H
#define ENGINE_CMD_BENCH_COST_H

#include "cmd/solo.h"

/* Generates tokens behind a prompt of this many for some seconds, every other one with recording
 * switched off; prints time and instructions with and without. The exit status. */
int bench_cost(const struct solo_options *o, uint32_t prompt, uint32_t seconds, int json);

#endif
