/* stack.h - addresses of a stack into the profile: location by location, each looked up once
 * and remembered, since return addresses repeat from sample to sample. */
#ifndef SONDE_COLLECT_CPU_STACK_H
#define SONDE_COLLECT_CPU_STACK_H

#include "collect/aspace/aspace.h"
#include "profile/profile.h"

#define SONDE_CPU_FRAMES_MAX 4096u /* walked of a stack; depth_max of them are kept */

struct sonde_cpu_stacks;

/* depth_max: frames kept. Of a deeper stack the outermost quarter and the innermost rest are, with
 * a frame "[frames left out]" in between, so that it still begins at the thread's start and ends
 * where the time goes. */
int sonde_cpu_stacks_create(struct sonde_profile *p, uint32_t depth_max,
                            struct sonde_cpu_stacks **out);
void sonde_cpu_stacks_destroy(struct sonde_cpu_stacks *s);

/* The profile has forgotten its rows. 0, or SONDE_ENOMEM: then there is no name for frames that are
 * left out. */
int sonde_cpu_stacks_forget(struct sonde_cpu_stacks *s);

/* What an address means lasts as long as the mappings of its process. A number that stands for
 * them: take a new one after every change. */
uint32_t sonde_cpu_stacks_layout_new(struct sonde_cpu_stacks *s);

/* The stack of these addresses, innermost first, on top of parent (0 = none): its id, 0 = no
 * memory. as: whose code it is; NULL = the kernel's. layout: the number of its mappings. */
uint32_t sonde_cpu_stacks_add(struct sonde_cpu_stacks *s, struct sonde_aspace *as, uint32_t layout,
                              uint32_t parent, const uint64_t *ips, size_t count);

/* Frames of Python among the addresses (segment/python.h) are told by this from now on: the
 * location of one, 0 = no memory; *final: it will be the same the next time, and is remembered by
 * layout. NULL = there are none. */
typedef uint32_t sonde_cpu_python(void *arg, uint64_t ip, int *final);
void sonde_cpu_stacks_python(struct sonde_cpu_stacks *s, sonde_cpu_python *location, void *arg);

/* A stack of one frame that has a name and no address: "[no user stack]". */
uint32_t sonde_cpu_stacks_named(struct sonde_cpu_stacks *s, const char *name);

#endif
