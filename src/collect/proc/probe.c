/* probe.c - the table of probes, made from probe_list.h. */
#include "collect/proc/probe.h"

#define SONDE_PROBE(id) extern const struct sonde_probe_ops sonde_probe_##id;
#include "collect/proc/probe_list.h"
#undef SONDE_PROBE

const struct sonde_probe_ops *const sonde_uprobes[] = {
#define SONDE_PROBE(id) &sonde_probe_##id,
#include "collect/proc/probe_list.h"
#undef SONDE_PROBE
    NULL,
};
