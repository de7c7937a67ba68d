/* uprobes.h - what llama.cpp does in a process, seen by uprobes (collect/uprobe/uprobe.h), into the
 * inference events and spans of a collector's model. */
#ifndef SONDE_AGENT_UPROBES_H
#define SONDE_AGENT_UPROBES_H

#include "collect/collector.h"
#include "collect/uprobe/uprobe.h"

struct sonde_uprobes;

/* program: file that pid is about to execute; NULL = it runs. returns: see sonde_uprobe_options. c
 * must have inference attached, and outlive the result. Errors as sonde_uprobe_start. */
int sonde_uprobes_start(struct sonde_collector *c, uint32_t pid, const char *program,
                        struct sonde_uprobe_returns *returns, struct sonde_uprobes **out,
                        struct sonde_err *err);
void sonde_uprobes_status(struct sonde_uprobes *p, struct sonde_uprobe_status *out);
/* What is left is in the model's queue afterwards. p NULL is fine, out as well. */
void sonde_uprobes_stop(struct sonde_uprobes *p, struct sonde_uprobe_status *out);

/* The file that a command of this name would execute: 1, or 0 = there is none. */
int sonde_uprobes_program(const char *name, char *out, size_t out_size);

#endif
