/* symbolize.h - names, files and lines for the locations of a profile, through elfutils: DWARF
 * lines and inlined frames, the ELF symbol table, separate debug files (by build id and
 * .gnu_debuglink, under /usr/lib/debug and beside the file), JIT maps (/tmp/perf-PID.map),
 * /proc/kallsyms. C++ and Rust names are demangled. Each unique location once. */
#ifndef SONDE_PROFILE_SYMBOLIZE_H
#define SONDE_PROFILE_SYMBOLIZE_H

#include "profile/profile.h"

struct sonde_symbolizer;

int sonde_symbolizer_create(struct sonde_symbolizer **out);
void sonde_symbolizer_destroy(struct sonde_symbolizer *s);

/* All locations that have no lines yet. What cannot be named keeps none, and its module gets
 * SONDE_MODULE_STRIPPED or _NO_LINES. Damaged files: their locations stay unnamed. */
int sonde_symbolize(struct sonde_symbolizer *s, struct sonde_profile *p);

/* Demangle a C++ or Rust name; text that is no mangled name comes back as it is. The result
 * lives until the next call. */
const char *sonde_demangle(struct sonde_symbolizer *s, const char *name);

#endif
