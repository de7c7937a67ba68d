/* maps_hot.c - telling the agent where code is that samples will be in. */
#include "preload/timer/timer.h"
#include "preload/walk/walk.h"

#include "base/hot_banned.h"

#define OBJECTS 256u

static uint64_t announced[OBJECTS]; /* what was last told about the module at a place */

static int timer_maps_tell(void *arg, uint64_t start, uint64_t end, uint64_t offset,
                           const char *path, uint32_t path_len)
{
    (void)arg;
    sonde__ring_map(start, end, offset, path, path_len);
    return 0;
}

/* Once, and again when something was unloaded since: another module may have been there. Marked
 * when done, so that nobody's sample gets ahead of it. */
void sonde__timer_announce(const struct dl_find_object *o)
{
    const uint64_t start = (uint64_t)(uintptr_t)o->dlfo_map_start;
    const uint64_t what = sonde__mix(sonde__mix(sonde__unloads(), start),
                                     (uint64_t)(uintptr_t)o->dlfo_map_end) | 1;
    uint64_t *slot = &announced[sonde__mix(0, start) % OBJECTS];
    if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) == what) return;
    sonde__module_texts(o, timer_maps_tell, NULL);
    __atomic_store_n(slot, what, __ATOMIC_RELEASE);
}
