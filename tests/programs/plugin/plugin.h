#ifndef SONDE_TESTS_PLUGIN_H
#define SONDE_TESTS_PLUGIN_H

#include <stdint.h>

/* n times: one of plugin_total, one value of plugin_seconds, one of plugin_labelled_total, a
 * span. */
void plugin_work(uint64_t n, unsigned id);
typedef void plugin_work_fn(uint64_t n, unsigned id);

#endif
