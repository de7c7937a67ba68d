/* heap_site.h - a stack that allocates, as people name it. */
#ifndef SONDE_ANALYZE_HEAP_SITE_H
#define SONDE_ANALYZE_HEAP_SITE_H

#include "profile/profile.h"

struct heap_frame {
    const char *name;               /* demangled; NULL: there is none, text says where */
    const char *file, *module;      /* "" = unknown; module is a base name */
    uint32_t line;                  /* of the call; 0 = unknown */
    char text[160];                 /* "module+0x1234" */
};

/* Frames of a stack, the innermost first, without those of the allocator and of containers that
 * only pass on what somebody asked them for: the first is the place that allocates. Returns how
 * many of at most max. */
size_t heap_frames(const struct sonde_profile *p, uint32_t stack, struct heap_frame *out,
                   size_t max);
const char *heap_frame_name(const struct heap_frame *f);

#endif
