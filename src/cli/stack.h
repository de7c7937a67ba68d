/* stack.h - enough stack, whatever `ulimit -s` is. CMD has its limit as it was. */
#ifndef SONDE_CLI_STACK_H
#define SONDE_CLI_STACK_H

typedef int sonde_stack_fn(int argc, char **argv, char **envp);

/* Returns what call returns, on a stack of a usual size, and with threads that have one. Before any
 * thread is started, once. */
int sonde_stack_run(sonde_stack_fn *call, int argc, char **argv, char **envp);

#endif
