/* module.h - a module as collectors hand it to a profile and as the symbolizer looks for its file:
 * what a row of the profile has (struct sonde_profile_module), with texts instead of numbers of
 * strings. */
#ifndef SONDE_PROFILE_MODULE_H
#define SONDE_PROFILE_MODULE_H

#include <stdint.h>

#include "profile/profile.h"

struct sonde_module {
    /* Borrowed unless it is a copy of sonde_module_copy; never NULL. */
    const char *path;       /* as the process sees it; "[vdso]", "[anon]", "[kernel]" */
    const char *build_id;   /* hex; "" = none, or unknown */
    const char *open_path;  /* where the agent can open it now; "" = path itself, or nowhere when
                               DELETED */
    uint64_t start, end;    /* where it is mapped; 0 0 = unknown */
    uint64_t offset;        /* file offset of start */
    uint32_t flags;         /* SONDE_MODULE_… */
    uint32_t pid;           /* of a process that has it mapped; 0 = unknown. No row has it */
};

/* Its row, as sonde_profile_module: the one that is there already, or a new one; 0 = no memory. */
uint32_t sonde_profile_add_module(struct sonde_profile *p, const struct sonde_module *m);

/* The module of a row. Its texts are the profile's, and good as long as that is there. */
struct sonde_module sonde_profile_get_module(const struct sonde_profile *p, uint32_t row);

/* *out: the same with texts of its own, in one block. 0 or SONDE_ENOMEM. */
int sonde_module_copy(const struct sonde_module *from, struct sonde_module *out);
/* The texts of such a copy. All zero is fine. */
void sonde_module_release(struct sonde_module *m);

#endif
