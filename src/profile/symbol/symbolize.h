/* symbolize.h - names, files and lines for the locations of a profile, through elfutils: DWARF
 * lines and inlined frames, the ELF symbol table, separate debug files (by build id and
 * .gnu_debuglink, under /usr/lib/debug and beside the file), JIT maps (/tmp/perf-PID.map),
 * /proc/kallsyms. C++ and Rust names are demangled. Each unique location once.
 *
 * A module's file is only believed if it has the module's build id (when that is known): names of a
 * file that replaced it would be wrong. Nothing goes over the network unless DEBUGINFOD_URLS is
 * set, which then asks those servers for debug files.
 *
 * A JIT's module needs an open_path that is its map, or begins with /proc/PID/, or samples whose
 * thread tells the process. */
#ifndef SONDE_PROFILE_SYMBOL_SYMBOLIZE_H
#define SONDE_PROFILE_SYMBOL_SYMBOLIZE_H

#include "profile/profile.h"

struct sonde_symbolizer;

int sonde_symbolizer_create(struct sonde_symbolizer **out);
void sonde_symbolizer_destroy(struct sonde_symbolizer *s);

/* A folder like /usr/lib/debug that is searched before it; copied; NULL = none. 0 or
 * SONDE_ENOMEM. */
int sonde_symbolizer_debug_root(struct sonde_symbolizer *s, const char *path);

/* All locations that have no lines yet. What cannot be named keeps none, and its module gets
 * SONDE_MODULE_STRIPPED or _NO_LINES. Damaged files: their locations stay unnamed. The files are
 * read in a child process, so that one which crashes the reader, or takes too long (60 s of CPU) or
 * too much memory (2 GiB) costs its lines, or its names, and nothing else.
 * SONDE_ENOMEM: what was named until then stays. SONDE_EIO: no child could be started. */
int sonde_symbolize(struct sonde_symbolizer *s, struct sonde_profile *p);

#endif
