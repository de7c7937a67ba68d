/* array.h - the length of an array, and arrays that grow.
 *
 * A growing array is what its owner declares: a pointer, a count and a cap, the last two of any
 * unsigned type. The macros know the types, so the size of an item cannot be forgotten, a cap of 32
 * bits cannot wrap, and passing the wrong pointer does not compile:
 *
 *   struct { struct row *rows; uint32_t count, cap; } t;
 *
 *   struct row *r = SONDE_ARRAY_ADD(t.rows, t.count, t.cap);
 *   if (!r) return SONDE_ENOMEM;
 *   *r = (struct row){ … };
 *
 * The cap doubles, so n adds are some log n allocations and at most n copies. New items are not
 * initialized, and after a failure all is as it was. Each argument is evaluated once, but for those
 * that are written to (items, count, cap), which have to be plain lvalues.
 *
 * Two arrays side by side share a count and have a cap each: the second may fail to grow when the
 * first has grown.
 *
 * Rejected: a struct with a void pointer (every use would need a cast), and one struct for each
 * type by a macro (users' structs would change, and debuggers show them less well). */
#ifndef SONDE_BASE_ARRAY_H
#define SONDE_BASE_ARRAY_H

#include <stddef.h>
#include <stdint.h>

#include "sonde/sonde.h"

/* How many items an array has; a constant. Does not compile for a pointer. */
#define SONDE_COUNT(array) \
    (sizeof(array) / sizeof((array)[0]) + 0 * sizeof(char[1 - 2 * SONDE__IS_POINTER(array)]))
#define SONDE__IS_POINTER(x) __builtin_types_compatible_p(__typeof__(x), __typeof__(&(x)[0]))

/* What the macros below stand on: items moved to where needed of them fit, and *cap raised, at most
 * to cap_max; NULL, with *error set and items as they were, when there is no memory (SONDE_ENOMEM)
 * or more than cap_max are needed (SONDE_EFULL). */
void *sonde_array_grow(void *items, size_t *cap, size_t needed, size_t item_bytes, size_t cap_max,
                       int *error);

/* Room for `needed` items in all: 0 or SONDE_ENOMEM, which is also the answer when cap's type
 * cannot count them. */
#define SONDE_ARRAY_RESERVE(items, cap, needed) \
    SONDE__ARRAY_RESERVE(items, cap, needed, SONDE__ARRAY_CAP_MAX(cap), SONDE_ENOMEM)

/* The same for an array that must not have more than max items: SONDE_EFULL if it would. */
#define SONDE_ARRAY_RESERVE_MAX(items, cap, needed, max) \
    SONDE__ARRAY_RESERVE(items, cap, needed, max, SONDE_EFULL)

/* Room for one more than count: 0 or SONDE_ENOMEM. */
#define SONDE_ARRAY_ROOM(items, count, cap) SONDE_ARRAY_RESERVE(items, cap, (size_t)(count) + 1)
#define SONDE_ARRAY_ROOM_MAX(items, count, cap, max) \
    SONDE_ARRAY_RESERVE_MAX(items, cap, (size_t)(count) + 1, max)

/* One more item, counted and not initialized; NULL when there is no memory. */
#define SONDE_ARRAY_ADD(items, count, cap) \
    (SONDE_ARRAY_ROOM(items, count, cap) ? NULL : &(items)[(count)++])

#define SONDE__ARRAY_CAP_MAX(cap) ((size_t)(__typeof__(cap))-1)

#define SONDE__ARRAY_RESERVE(items, cap, needed, max, full)                                    \
    __extension__({                                                                            \
        _Static_assert((__typeof__(cap))-1 > 0, "a cap is unsigned");                          \
        const size_t sonde_needed_ = (needed);                                                 \
        int sonde_rc_ = 0;                                                                     \
        if (__builtin_expect(sonde_needed_ > (cap), 0)) {                                      \
            size_t sonde_cap_ = (cap);                                                         \
            const size_t sonde_max_ = (max), sonde_type_max_ = SONDE__ARRAY_CAP_MAX(cap);      \
            __typeof__(&(items)[0]) sonde_grown_ = sonde_array_grow(                           \
                (items), &sonde_cap_, sonde_needed_, sizeof((items)[0]),                       \
                sonde_max_ < sonde_type_max_ ? sonde_max_ : sonde_type_max_, &sonde_rc_);      \
            if (sonde_rc_ == SONDE_EFULL) sonde_rc_ = (full);                                  \
            if (sonde_grown_) {                                                                \
                (items) = sonde_grown_;                                                        \
                (cap) = (__typeof__(cap))sonde_cap_;                                           \
            }                                                                                  \
        }                                                                                      \
        sonde_rc_;                                                                             \
    })

#endif
