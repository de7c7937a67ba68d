/* describe.c - the name and the command line of a process; see describe.h. */
#include "collect/proc/describe.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "sonde/sonde.h"

#define COMMAND_MAX 4096u /* bytes kept of a command line */

/* The first size - 1 bytes of a file of /proc/PID; how many. */
static size_t describe_read(uint32_t pid, const char *name, char *out, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%u/%s", pid, name);
    const ssize_t n = sonde_file_read_small(AT_FDCWD, path, out, size);
    return n > 0 ? (size_t)n : 0;
}

/* What the program was started as: redis-server, where the file is another one that this is a link
 * to. The command line may be a script's interpreter, or overwritten by the program; where it
 * agrees with the name that the kernel took from the call of exec it is the one. NULL = the
 * file's. */
static const char *describe_started_as(uint32_t pid, const char *file, char *command, char comm[32])
{
    enum { COMM = 15 }; /* bytes that the kernel keeps */
    const size_t n = describe_read(pid, "comm", comm, 32);
    if (n && comm[n - 1] == '\n') comm[n - 1] = '\0';
    if (sonde_has_prefix(command, "/proc/")) return NULL; /* /proc/self/exe says nothing */
    command[strcspn(command, " :")] = '\0';
    const char *slash = strrchr(command, '/');
    const char *name = slash ? slash + 1 : command; /* "bin/" has none */
    if (*name == '-') name++; /* a login shell */
    if (!*name || !*comm || !strcmp(name, file) || strncmp(name, comm, COMM) != 0) return NULL;
    return name;
}

int sonde_proc_describe(struct sonde_profile *p, uint32_t pid, const char *name)
{
    assert(p && pid && name);
    static const char deleted[] = " (deleted)";
    char path[64], file[COMMAND_MAX], text[COMMAND_MAX], first[COMMAND_MAX], comm[32];
    snprintf(path, sizeof(path), "/proc/%u/exe", pid);
    const ssize_t len = readlink(path, file, sizeof(file) - 1);
    file[len > 0 ? len : 0] = '\0';
    char *tail = strstr(file, deleted);
    if (tail && !tail[sizeof(deleted) - 1]) *tail = '\0';
    const char *base = strrchr(file, '/');
    const int named = base != NULL;

    size_t n = describe_read(pid, "cmdline", text, sizeof(text));
    snprintf(first, sizeof(first), "%s", text);
    const char *started = named ? describe_started_as(pid, base + 1, first, comm) : NULL;
    p->program = sonde_profile_cstring(p, started ? started : named ? base + 1 : name);
    while (n > 0 && !text[n - 1]) n--;
    for (size_t i = 0; i < n; i++) {
        if (!text[i]) text[i] = ' ';
    }
    if (n > 0) p->command = sonde_profile_string(p, text, n);
    return named ? 0 : SONDE_ENOENT;
}
