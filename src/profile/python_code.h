/* python_code.h - what CPython keeps of a code object, in the shape it has in memory: texts and the
 * table of lines. Whoever copied them may have copied nonsense. */
#ifndef SONDE_PROFILE_PYTHON_CODE_H
#define SONDE_PROFILE_PYTHON_CODE_H

#include <stddef.h>
#include <stdint.h>

/* Characters of kind bytes each (1, 2 or 4) as valid UTF-8 without control characters; what does
 * not fit is cut. size is at least 5. */
void sonde_python_text(char *to, size_t size, const char *from, uint32_t bytes, uint32_t kind);

/* The line of an instruction (in units of two bytes), by a co_linetable of 3.11 or later. 0 = it
 * has none, or the table does not reach that far. */
uint32_t sonde_python_line(const char *table, uint32_t bytes, uint32_t first,
                           uint32_t instruction);

#endif
