/* cpus.c - see cpus.h. */
#include "bench/tune/cpus.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "sonde/sonde.h"

uint32_t sonde_tune_cpus(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof(set), &set) ? 0 : CPU_COUNT(&set);
    return n > 0 ? (uint32_t)n : 1;
}

int sonde_tune_cpus_parse(const char *text, cpu_set_t *out)
{
    CPU_ZERO(out);
    for (const char *at = text;;) {
        char *end;
        if (*at < '0' || *at > '9') return SONDE_EINVAL;
        const unsigned long from = strtoul(at, &end, 10);
        unsigned long to = from;
        if (*end == '-') {
            if (end[1] < '0' || end[1] > '9') return SONDE_EINVAL;
            to = strtoul(end + 1, &end, 10);
        }
        if (to < from || to >= CPU_SETSIZE) return SONDE_EINVAL;
        for (unsigned long c = from; c <= to; c++) CPU_SET(c, out);
        if (!*end || *end == '\n') return 0;
        if (*end != '+' && *end != ',') return SONDE_EINVAL;
        at = end + 1;
    }
}

/* 0 = it does not fit. */
static int cpus_format(const cpu_set_t *set, char *out, size_t size)
{
    size_t len = 0;
    out[0] = 0;
    for (size_t c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, set)) continue;
        size_t to = c;
        while (to + 1 < CPU_SETSIZE && CPU_ISSET(to + 1, set)) to++;
        const int n = to > c ? snprintf(out + len, size - len, "%s%zu-%zu", len ? "+" : "", c, to)
                             : snprintf(out + len, size - len, "%s%zu", len ? "+" : "", c);
        if (n < 0 || len + (size_t)n >= size) return 0;
        len += (size_t)n;
        c = to;
    }
    return len > 0;
}

static int cpus_read(const char *path, cpu_set_t *out)
{
    char text[1024];
    const ssize_t n = sonde_file_read_small(AT_FDCWD, path, text, sizeof(text));
    return n > 0 && sonde_tune_cpus_parse(text, out) == 0;
}

int sonde_tune_cpus_cores(char *out, size_t size)
{
    cpu_set_t may, siblings, chosen;
    char path[96];
    if (sched_getaffinity(0, sizeof(may), &may)) return 0;
    CPU_ZERO(&chosen);
    for (size_t c = 0; c < CPU_SETSIZE; c++) {
        if (!CPU_ISSET(c, &may)) continue;
        snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list",
                 c);
        if (!cpus_read(path, &siblings)) return 0;
        CPU_AND(&siblings, &siblings, &chosen);
        if (!CPU_COUNT(&siblings)) CPU_SET(c, &chosen);
    }
    return CPU_COUNT(&chosen) < CPU_COUNT(&may) && cpus_format(&chosen, out, size);
}

int sonde_tune_cpus_node(char *out, size_t size)
{
    cpu_set_t may, node;
    if (sched_getaffinity(0, sizeof(may), &may)) return 0;
    if (!cpus_read("/sys/devices/system/node/node0/cpulist", &node)) return 0;
    CPU_AND(&node, &node, &may);
    return CPU_COUNT(&node) > 0 && CPU_COUNT(&node) < CPU_COUNT(&may) &&
           cpus_format(&node, out, size);
}
