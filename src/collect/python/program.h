/* program.h - does a program that is about to be started run Python? */
#ifndef SONDE_COLLECT_PYTHON_PROGRAM_H
#define SONDE_COLLECT_PYTHON_PROGRAM_H

/* By the name of the file, or of the interpreter that the first line of a script names (also behind
 * env). A guess: it decides which engine is tried first, and any engine works for any program. */
int sonde_python_program(const char *path);

#endif
