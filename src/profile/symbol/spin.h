/* spin.h - whether the code at an address is a loop that only waits.
 *
 * CPU time of a loop that computes and of one that spins looks the same: a few addresses of one
 * function. The code tells them apart. A loop waits if it has a pause instruction, or if it can do
 * nothing but read memory, compare and jump back: nothing in it counts, computes, walks or stores,
 * so the only thing that ends it is another thread. */
#ifndef SONDE_PROFILE_SYMBOL_SPIN_H
#define SONDE_PROFILE_SYMBOL_SPIN_H

#include <stddef.h>
#include <stdint.h>

struct sonde_profile;

enum { SONDE_SYMBOL_SPIN_AROUND = 64 }; /* bytes of code before and after that are looked at */

/* code: x86-64, len bytes of it; at: where the sampled instruction begins. Any bytes are fine. */
int sonde_symbol_is_spin(const uint8_t *code, size_t len, size_t at);

/* Looks at the code of the innermost locations that CPU samples are mostly in, and gives those that
 * spin SONDE_LOCATION_SPINS. Files that cannot be opened, or are others by now, are passed over.
 * 0 or SONDE_ENOMEM. */
int sonde_symbol_mark_spins(struct sonde_profile *p);

#endif
