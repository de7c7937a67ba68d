/* frame.h - how the frames of a profile's locations are shown: one row a line of a location, with
 * the display name, worked out once. For trees, text formats
 * and comparisons. */
#ifndef SONDE_PROFILE_TREE_FRAME_H
#define SONDE_PROFILE_TREE_FRAME_H

#include "base/intern.h"
#include "profile/profile.h"

#define SONDE_TRUNCATED_NAME "[truncated]"

struct sonde_frame {
    uint32_t name, module, file; /* strings of the pool given; module is a base name */
    uint32_t line;               /* of the function's start, else of the location */
    uint32_t flags;              /* SONDE_NODE_… */
};

struct sonde_frames {
    struct sonde_frame *rows;
    uint32_t *first;    /* location -> its first row, innermost first; [locations_count] = end */
    uint32_t truncated; /* the row of "[truncated]", the last one */
};

/* For every location of p. Names go to pool. 0 or SONDE_ENOMEM. */
int sonde_frames_create(struct sonde_frames *f, const struct sonde_profile *p,
                        struct sonde_strings *pool, const struct sonde_budget *b);
void sonde_frames_release(struct sonde_frames *f);

/* Give rows of the same name, but of different modules, names that read the same but are different
 * strings of the pool. 0 or SONDE_ENOMEM. */
int sonde_frames_by_module(struct sonde_frames *f, struct sonde_strings *pool,
                           const struct sonde_budget *b);

/* The rows of a sample's stack, the thread's start first, "[truncated]" before it if it is. */
struct sonde_frame_path {
    uint32_t *rows;
    uint32_t count, cap;
};
int sonde_frame_path_set(struct sonde_frame_path *path, const struct sonde_frames *f,
                         const struct sonde_profile *p, const struct sonde_profile_sample *s);
void sonde_frame_path_release(struct sonde_frame_path *path);

/* The label of a thread: its name, with its id where names repeat. */
uint32_t sonde_thread_label(const struct sonde_profile *p, uint32_t thread,
                            struct sonde_strings *pool, const struct sonde_budget *b);

#endif
