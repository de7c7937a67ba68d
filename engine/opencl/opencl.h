/* opencl.h - matrix products on a device of OpenCL 1.2 or later: which there are, and opening
 * one. */
#ifndef ENGINE_OPENCL_OPENCL_H
#define ENGINE_OPENCL_OPENCL_H

#include <stdint.h>
#include <stdio.h>

#include "base/fail.h"
#include "math/device.h"

/* What --device may be: "cpu", "opencl" (a GPU, else the first device), "opencl:N", "list". NULL is
 * "cpu". */
enum opencl_wish_kind { OPENCL_WISH_CPU, OPENCL_WISH_ANY, OPENCL_WISH_NUMBER, OPENCL_WISH_LIST };
struct opencl_wish { enum opencl_wish_kind kind; uint32_t number; };
int opencl_wish_parse(const char *text, struct opencl_wish *out, struct fail *why);

/* A line for each device, "cpu" first; without OpenCL, why. */
void opencl_list_print(FILE *to);

/* memory_limit: bytes of its memory that may be used at most; 0 = what it has. A device that cannot
 * be used, and one that cannot build the kernels, is refused with the reason. *out is NULL for
 * OPENCL_WISH_CPU. */
int opencl_open(const struct opencl_wish *wish, uint64_t memory_limit, struct device **out,
                struct fail *why);

/* Of a device that opencl_open() made: bytes in its memory. */
void opencl_memory(const struct device *d, uint64_t *used, uint64_t *limit);

#endif
