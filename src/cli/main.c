/* main.c - what a process needs before its command is looked for (command.c). */
#include <fcntl.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/cli.h"
#include "cli/stack.h"
#include "present/plot/canvas.h"

/* Descriptors 0-2 that were closed would be handed to the next file or socket, which stray
 * output would then go to. Close-on-exec: a command we start finds them closed, as we did. */
static void fill_standard_fds(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

int main(int argc, char **argv, char **envp)
{
    fill_standard_fds();
    sonde_child_ignore_xfsz();
    const int status = sonde_stack_run(sonde_cli_main, argc, argv, envp);
    sonde_canvas_forget_fonts(); /* of plots, and of reports that the agent served */
    return status;
}
