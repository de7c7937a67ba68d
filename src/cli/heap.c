/* heap.c - see heap.h. */
#include "cli/heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MEAN_MAX ((uint64_t)1 << 40)
#define RATE_BYTES ((uint64_t)50 << 20) /* memory.sample_rate is samples in so many bytes */

/* Bytes with an optional K, M or G (of 1024). 0, or -1: not a number, or not from 1 to 1 TiB. */
static int cli_heap_parse_bytes(const char *text, uint64_t *out)
{
    char *end;
    errno = 0;
    if (text[0] < '0' || text[0] > '9') return -1;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno) return -1;
    if (*end) {
        static const char units[] = "KMG";
        const char *unit = memchr(units, *end & ~0x20, sizeof(units) - 1); /* not the NUL */
        if (!unit || end[1]) return -1;
        const int shift = 10 * (int)(unit - units + 1);
        if (v > MEAN_MAX >> shift) return -1;
        v <<= shift;
    }
    if (v < 1 || v > MEAN_MAX) return -1;
    *out = v;
    return 0;
}

struct sonde_heap_reader_options sonde_cli_heap_options(const struct sonde_cli *cli)
{
    const struct sonde_config_values *c = &cli->config;
    return (struct sonde_heap_reader_options){ .mean = RATE_BYTES / (uint64_t)c->memory_sample_rate,
                                               .depth_max = (uint32_t)c->cpu_max_stack_depth,
                                               .dir = c->agent_dir[0] ? c->agent_dir : NULL };
}

int sonde_cli_heap(const struct sonde_cli *cli, const struct sonde_cli_heap *v,
                   enum sonde_watch_want wanted, struct sonde_watch_options *o)
{
    const struct sonde_config_values *c = &cli->config;
    if (v->mode && v->off) return sonde_cli_usage(cli, "--heap or --no-heap, not both");
    o->heap = v->off || !c->memory_enabled || !c->memory_track_allocations ? SONDE_WATCH_NO
                                                                            : wanted;
    if (v->mode) o->heap = SONDE_WATCH_MUST;
    o->leaks = c->memory_leak_detection;
    o->heap_options = sonde_cli_heap_options(cli);
    o->heap_options.scan = v->leak_check != NULL;
    if (v->leak_check && o->heap == SONDE_WATCH_NO) {
        return sonde_cli_usage(cli, "--leak-check needs the heap profiled: add --heap");
    }
    if (!v->mode || !v->mode[0]) return SONDE_EXIT_OK;
    if (!strcmp(v->mode, "full")) {
        o->heap_options.full = 1;
    } else if (cli_heap_parse_bytes(v->mode, &o->heap_options.mean) != 0) {
        return sonde_cli_usage(cli, "--heap: '%s' is neither 'full' nor a number of bytes from 1 "
                               "to 1024G, for example 64K", v->mode);
    }
    return SONDE_EXIT_OK;
}
