/* strip.c - see strip.h. */
#include "base/strip.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/path.h"

static int stripping;

void sonde_strip_set(int on) { stripping = on; }

int sonde_strip_on(void) { return stripping; }

void sonde_strip_path(char *path)
{
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') path[--len] = '\0';
    const char *base = sonde_path_base(path);
    if (base != path) memmove(path, base, strlen(base) + 1);
}

/* What may stand in a path; blanks may, but end it here. */
static int in_path(char c)
{
    return c && !isspace((unsigned char)c) && !strchr("\"'`,;:()<>[]{}|=", c);
}

/* 1 if a path begins here: "/a", "./a", "../a", "~/a", and nothing of a word stands before it. */
static int begins_path(const char *text, const char *at)
{
    if (at > text && (isalnum((unsigned char)at[-1]) || strchr("_-./~*)", at[-1]))) return 0;
    if (*at == '~') at++;
    while (*at == '.') at++;
    return at[0] == '/' && at[1] != '/' && in_path(at[1]);
}

void sonde_strip_paths(char *text)
{
    char *to = text;
    for (const char *at = text; *at;) {
        if (!begins_path(text, at)) {
            *to++ = *at++;
            continue;
        }
        const char *end = at, *base = at;
        for (; in_path(*end); end++) {
            if (*end == '/' && in_path(end[1])) base = end + 1;
        }
        memmove(to, base, (size_t)(end - base));
        to += end - base;
        at = end;
    }
    *to = '\0';
}

enum sonde_strip_kind sonde_strip_kind(const char *name)
{
    static const char *const keep[] = { "route", "http_route", "http.route", "endpoint", "handler",
                                        "method", "url_path", "url.path" };
    static const char *const gone[] = {
        "command", "command_line", "cmdline", "args", "argv", "process.command",
        "process.command_line", "process.command_args", "user", "username", "user_name", "owner",
        "process.owner", "host", "hostname", "host_name", "host.name", "node", "nodename",
        "instance", "cwd", "home"
    };
    for (size_t i = 0; i < SONDE_COUNT(keep); i++) {
        if (strcmp(name, keep[i]) == 0) return SONDE_STRIP_KEEP;
    }
    for (size_t i = 0; i < SONDE_COUNT(gone); i++) {
        if (strcmp(name, gone[i]) == 0) return SONDE_STRIP_GONE;
    }
    return SONDE_STRIP_PATHS;
}

void sonde_strip_gguf(char *name)
{
    const size_t len = strlen(name);
    if (len <= 5 || strcasecmp(name + len - 5, ".gguf") != 0) return;
    const char *base = sonde_path_base(name);
    if (strlen(base) <= 5) return;
    name[len - 5] = '\0';
    if (base != name) memmove(name, base, strlen(base) + 1);
}
