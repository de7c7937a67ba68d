#include "collect/python/program.h"

#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/path.h"

#define LINE_MAX_BYTES 512

/* python, python3, python3.11, python3-dbg */
static int python_is_name(const char *name, size_t len)
{
    static const char python[] = "python";
    return len >= sizeof(python) - 1 && !strncmp(name, python, sizeof(python) - 1);
}

/* The word at *at, without its directories. 0 = there is none. */
static size_t python_program_word(const char **at, const char **out)
{
    *at += strspn(*at, " \t");
    const size_t len = strcspn(*at, " \t\r\n");
    *out = *at;
    for (size_t i = 0; i < len; i++) {
        if ((*at)[i] == '/') *out = *at + i + 1;
    }
    *at += len;
    return len ? (size_t)(*at - *out) : 0;
}

static int python_is_script(const char *line)
{
    const char *at = line + 2, *word;
    size_t len = python_program_word(&at, &word);
    if (len == 3 && !strncmp(word, "env", 3)) { /* env [-S] [NAME=value …] python3 */
        do {
            len = python_program_word(&at, &word);
        } while (len && (word[0] == '-' || memchr(word, '=', len)));
    }
    return python_is_name(word, len);
}

int sonde_python_program(const char *path)
{
    char line[LINE_MAX_BYTES];
    const char *name = sonde_path_base(path);
    if (python_is_name(name, strlen(name))) return 1;
    const ssize_t n = sonde_file_read_small(AT_FDCWD, path, line, sizeof(line));
    return n > 2 && line[0] == '#' && line[1] == '!' && python_is_script(line);
}
