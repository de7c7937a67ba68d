/* python_function.h - functions of Python in a profile: locations without an address, of one
 * module.
 *
 * A function is called by its module and its qualified name, train.Work.step: profiles put frames
 * together by their names, and every file of Python has a <module>, and many a main. What the
 * module is, the file says: its name, that of its folder for an __init__.py, or what is frozen. */
#ifndef SONDE_PROFILE_PYTHON_FUNCTION_H
#define SONDE_PROFILE_PYTHON_FUNCTION_H

#include "profile/profile.h"

#define SONDE_PYTHON_UNNAMED "[python function]" /* whose name is not known */

/* The location of a line in a function; name: as co_qualname has it; "" and 0 = not known. 0 = no
 * memory. */
uint32_t sonde_profile_python(struct sonde_profile *p, const char *name, const char *file,
                              uint32_t first_line, uint32_t line);

#endif
