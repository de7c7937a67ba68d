/* env.c - what the environment asks for, and taking that out of it.
 *
 * Entries are changed where they are and removed by closing the gap: setenv and unsetenv would
 * allocate, and this runs before the program's own constructors. The gap is closed from below, and
 * environ moved up: behind the NULL that ends the kernel's array is the auxiliary vector, and who
 * looks for it there (Go's runtime in every program that is linked dynamically) has to find it. */
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "preload/preload.h"
#include "segment/heap.h"

#define PERIOD_MIN_NS 100000u      /* 10 kHz */
#define PERIOD_MAX_NS 1000000000u  /* 1 Hz */
#define MEAN_MAX (64u << 20)       /* bytes; beyond it sums of variances would not fit */
#define BEHIND_ENVIRON_MAX 4096u   /* bytes: the auxiliary vector, and what it points to first */

/* ---- LD_PRELOAD ---------------------------------------------------------------------------- */

static int is_separator(char c) { return c == ':' || c == ' '; }

static int preload_env_is_ours(const char *entry, size_t len)
{
    const size_t name = sizeof(SONDE__PRELOAD_NAME) - 1;
    return len >= name && !memcmp(entry + len - name, SONDE__PRELOAD_NAME, name) &&
           (len == name || entry[len - name - 1] == '/');
}

/* Remember our entry of a list in out, and take it out. Returns the length of what is left. */
static size_t list_pass(char *list, char *out, size_t out_size)
{
    char *to = list;
    for (const char *p = list; *p;) {
        while (is_separator(*p)) p++;
        size_t len = 0;
        while (p[len] && !is_separator(p[len])) len++;
        const int ours = len && preload_env_is_ours(p, len);
        if (ours && len < out_size) {
            memcpy(out, p, len);
            out[len] = 0;
        }
        if (len && !ours) {
            if (to != list) *to++ = ':';
            memmove(to, p, len);
            to += len;
        }
        p += len;
    }
    *to = 0;
    return (size_t)(to - list);
}

/* ---- SONDE_SAMPLER, SONDE_HEAP, SONDE_LLAMA, SONDE_GPU ------------------------------------ */

static const char *preload_env_field(const char *text, const char *name)
{
    const size_t len = strlen(name);
    for (const char *p = text; p; p = strchr(p, ',')) {
        if (*p == ',') p++;
        if (!strncmp(p, name, len) && p[len] == '=') return p + len + 1;
    }
    return NULL;
}

static int preload_env_ends(const char *p) { return *p == ',' || !*p; }

static int preload_env_number(const char *text, const char *name, int base, uint64_t *out)
{
    const char *p = preload_env_field(text, name);
    char *end;
    if (!p || preload_env_ends(p) || *p == '-') return -1;
    *out = strtoull(p, &end, base);
    return preload_env_ends(end) ? 0 : -1;
}

static int preload_env_word(const char *text, const char *name, const char *value)
{
    const char *p = preload_env_field(text, name);
    const size_t len = strlen(value);
    return p && !strncmp(p, value, len) && preload_env_ends(p + len);
}

static int depth_ok(uint64_t depth)
{
    return depth >= SONDE__DEPTH_MIN && depth <= SONDE__DEPTH_MAX;
}

static int parse_sampler(struct sonde__sampler_config *c)
{
    uint64_t depth, children;
    if (preload_env_number(c->text, "session", 16, &c->session) ||
        preload_env_number(c->text, "period", 10, &c->period_ns) ||
        preload_env_number(c->text, "depth", 10, &depth) ||
        preload_env_number(c->text, "children", 10, &children)) {
        return -1;
    }
    if (c->period_ns < PERIOD_MIN_NS || c->period_ns > PERIOD_MAX_NS || !depth_ok(depth) ||
        children > 1) {
        return -1;
    }
    c->depth_max = (uint32_t)depth;
    c->children = (int)children;
    return 0;
}

static int parse_heap(struct sonde__heap_config *c)
{
    uint64_t depth, children, scan;
    if (preload_env_number(c->text, "session", 16, &c->session) ||
        preload_env_number(c->text, "mean", 10, &c->mean) ||
        preload_env_number(c->text, "depth", 10, &depth) ||
        preload_env_number(c->text, "children", 10, &children) ||
        preload_env_number(c->text, "scan", 10, &scan) ||
        preload_env_number(c->text, "seed", 10, &c->seed)) {
        return -1;
    }
    c->mode = preload_env_word(c->text, "mode", "sampled") ? SONDE__HEAP_SAMPLED
            : preload_env_word(c->text, "mode", "full")    ? SONDE__HEAP_FULL : 0;
    if (!c->mode || !c->mean || c->mean > MEAN_MAX || !depth_ok(depth) || children > 1 ||
        scan > 1) {
        return -1;
    }
    c->depth_max = (uint32_t)depth;
    c->children = (int)children;
    c->scan = (int)scan;
    c->later = preload_env_word(c->text, "later", "1");
    return 0;
}

static int parse_gpu(struct sonde__gpu_config *c)
{
    uint64_t depth, on, children;
    if (preload_env_number(c->text, "session", 16, &c->session) ||
        preload_env_number(c->text, "depth", 10, &depth) ||
        preload_env_number(c->text, "on", 10, &on) ||
        preload_env_number(c->text, "children", 10, &children) || !depth_ok(depth) || on > 1 ||
        children > 1) {
        return -1;
    }
    c->depth_max = (uint32_t)depth;
    c->on = (int)on;
    c->children = (int)children;
    return 0;
}

static int parse_llama(struct sonde__llama_config *c)
{
    uint64_t children;
    if (preload_env_number(c->text, "children", 10, &children) || children > 1) return -1;
    c->children = (int)children;
    return 0;
}

/* ---- All of it ----------------------------------------------------------------------------- */

static void preload_env_copy(char *out, size_t size, const char *name)
{
    const char *text = secure_getenv(name);
    out[0] = 0;
    if (text && strlen(text) < size) strcpy(out, text);
}

static char *preload_env_value_of(char *entry, const char *name)
{
    const size_t len = strlen(name);
    return !strncmp(entry, name, len) && entry[len] == '=' ? entry + len + 1 : NULL;
}

/* Is it the array that the kernel made? Then this end of it is just below what AT_RANDOM says. */
static int by_kernel(char **end)
{
    const uintptr_t random = getauxval(AT_RANDOM), here = (uintptr_t)end;
    return here < random && random - here < BEHIND_ENVIRON_MAX;
}

/* Entries that are kept, from the last one down to the first, end where they ended. Whoever counts
 * from argv, or was given the array as main's third argument, finds the first of them several
 * times: something without a '=' might surprise him. */
static void close_from_below(char **end)
{
    static char none[] = "SONDE=";
    char **to = end;
    for (char **from = end; from-- != environ;) {
        if (*from) *--to = *from;
    }
    for (char **gap = environ; gap != to; gap++) *gap = to == end ? none : *to;
    environ = to;
}

/* An array that setenv made has to stay where it is. */
static void close_from_above(char **end)
{
    char **to = environ;
    for (char **from = environ; from != end; from++) {
        if (*from) *to++ = *from;
    }
    *to = NULL;
}

static void environ_clean(struct sonde__host *host)
{
    char **at = environ;
    for (; *at; at++) {
        char *preload = preload_env_value_of(*at, "LD_PRELOAD");
        const int ours = preload_env_value_of(*at, SONDE__SAMPLER_ENV) ||
                         preload_env_value_of(*at, SONDE__HEAP_ENV) ||
                         preload_env_value_of(*at, SONDE__LLAMA_ENV) ||
                         preload_env_value_of(*at, SONDE__GPU_ENV);
        const int alone = preload && !list_pass(preload, host->library, sizeof(host->library));
        if (ours || alone) *at = NULL;
    }
    if (by_kernel(at)) close_from_below(at);
    else close_from_above(at);
}

void sonde__config_take(struct sonde__sampler_config *sampler, struct sonde__heap_config *heap,
                        struct sonde__llama_config *llama, struct sonde__gpu_config *gpu,
                        struct sonde__host *host)
{
    if (!secure_getenv(SONDE__SAMPLER_ENV) && !secure_getenv(SONDE__HEAP_ENV) &&
        !secure_getenv(SONDE__LLAMA_ENV) && !secure_getenv(SONDE__GPU_ENV)) {
        return;
    }
    host->pid = (uint32_t)getpid();
    preload_env_copy(sampler->text, sizeof(sampler->text), SONDE__SAMPLER_ENV);
    preload_env_copy(heap->text, sizeof(heap->text), SONDE__HEAP_ENV);
    preload_env_copy(llama->text, sizeof(llama->text), SONDE__LLAMA_ENV);
    preload_env_copy(gpu->text, sizeof(gpu->text), SONDE__GPU_ENV);
    preload_env_copy(host->dir, sizeof(host->dir), "SONDE_DIR");
    if (parse_sampler(sampler)) sampler->text[0] = 0;
    if (parse_heap(heap)) heap->text[0] = 0;
    if (parse_llama(llama)) llama->text[0] = 0;
    if (parse_gpu(gpu)) gpu->text[0] = 0;
    environ_clean(host);
}
