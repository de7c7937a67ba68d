/* switch.h - recording of GPU commands on and off in processes that run: the file that
 * libsonde_preload looks for (segment/kernels.h). The agent writes to no segment and sends no
 * signal. */
#ifndef SONDE_COLLECT_KERNELS_SWITCH_H
#define SONDE_COLLECT_KERNELS_SWITCH_H

#include <stdint.h>

#include "base/err.h"

/* In the directory of segments dir (NULL or "" = the default one): pid (0 = every process) records,
 * or does not, for so many seconds from now; then it does as it began. 0, or SONDE_EACCES,
 * SONDE_EIO and why. */
int sonde_kernel_switch(const char *dir, uint32_t pid, int on, double seconds,
                        struct sonde_err *err);

#endif
