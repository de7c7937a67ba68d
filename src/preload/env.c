/* env.c - what the environment asks for, and taking that out of it.
 *
 * Entries are changed where they are and removed by closing the gap: setenv and unsetenv would
 * allocate, and this runs before the program's own constructors. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "preload/preload.h"
#include "segment/segment.h"

#define PERIOD_MIN_NS 100000u      /* 10 kHz */
#define PERIOD_MAX_NS 1000000000u  /* 1 Hz */

/* ---- LD_PRELOAD ---------------------------------------------------------------------------- */

static int is_separator(char c) { return c == ':' || c == ' '; }

static int is_ours(const char *entry, size_t len)
{
    const size_t name = sizeof(SONDE__PRELOAD_NAME) - 1;
    return len >= name && !memcmp(entry + len - name, SONDE__PRELOAD_NAME, name) &&
           (len == name || entry[len - name - 1] == '/');
}

/* Remove our entry from a list, and keep it in out. Returns the length of what is left. */
static size_t list_remove(char *list, char *out, size_t out_size)
{
    char *to = list;
    for (const char *p = list; *p;) {
        while (is_separator(*p)) p++;
        size_t len = 0;
        while (p[len] && !is_separator(p[len])) len++;
        if (len && is_ours(p, len)) {
            if (out && len < out_size) {
                memcpy(out, p, len);
                out[len] = 0;
            }
        } else if (len) {
            if (to != list) *to++ = ':';
            memmove(to, p, len);
            to += len;
        }
        p += len;
    }
    *to = 0;
    return (size_t)(to - list);
}

/* ---- SONDE_SAMPLER ------------------------------------------------------------------------- */

static int field(const char *text, const char *name, int base, uint64_t *out)
{
    const size_t len = strlen(name);
    for (const char *p = text; p; p = strchr(p, ',')) {
        if (*p == ',') p++;
        if (strncmp(p, name, len) || p[len] != '=') continue;
        char *end;
        *out = strtoull(p + len + 1, &end, base);
        return end != p + len + 1 && (*end == ',' || !*end) ? 0 : -1;
    }
    return -1;
}

static int parse(struct sonde__sampler_config *c)
{
    uint64_t depth, children;
    if (field(c->text, "session", 16, &c->session) || field(c->text, "period", 10, &c->period_ns) ||
        field(c->text, "depth", 10, &depth) || field(c->text, "children", 10, &children)) {
        return -1;
    }
    if (c->period_ns < PERIOD_MIN_NS || c->period_ns > PERIOD_MAX_NS ||
        depth < SONDE__DEPTH_MIN || depth > SONDE__DEPTH_MAX || children > 1) {
        return -1;
    }
    c->depth_max = (uint32_t)depth;
    c->children = (int)children;
    return 0;
}

/* ---- Both ---------------------------------------------------------------------------------- */

static char *value_of(char *entry, const char *name)
{
    const size_t len = strlen(name);
    return !strncmp(entry, name, len) && entry[len] == '=' ? entry + len + 1 : NULL;
}

static void environ_clean(struct sonde__sampler_config *c)
{
    char **to = environ;
    for (char **from = environ; *from; from++) {
        char *preload = value_of(*from, "LD_PRELOAD");
        if (value_of(*from, SONDE__SAMPLER_ENV)) continue;
        if (preload && !list_remove(preload, c->library, sizeof(c->library))) continue;
        *to++ = *from;
    }
    *to = NULL;
}

int sonde__config_take(struct sonde__sampler_config *out)
{
    struct sonde__sampler_config c;
    const char *text = getenv(SONDE__SAMPLER_ENV);
    memset(&c, 0, sizeof(c));
    if (!text || strlen(text) >= sizeof(c.text)) return -1;
    strcpy(c.text, text);
    const char *dir = getenv("SONDE_DIR");
    if (dir && strlen(dir) < sizeof(c.dir)) strcpy(c.dir, dir);
    const int rc = parse(&c);
    if (rc || !c.children) environ_clean(&c);
    if (!rc) *out = c;
    return rc;
}
