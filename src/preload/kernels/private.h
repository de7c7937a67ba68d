/* private.h - what the files of this room share. */
#ifndef SONDE_PRELOAD_KERNELS_PRIVATE_H
#define SONDE_PRELOAD_KERNELS_PRIVATE_H

#include "preload/kernels/kernels.h"

/* ---- name.c ---- */

/* In a child: numbers are of the parent's segment. */
void sonde__kernels_forget(void);

#endif
