/* planted_cost.c - a program that gets things done, and loses a share of its time exactly while it
 * is sampled: planted_cost FLAG SHARE SECONDS
 *
 * FLAG is the file of SONDE_OWN_COST_FLAG, whose first byte the agent keeps at '1' while sampling
 * is on and at '0' while it is off; what else it has is taken for on. Of a job and what it loses with
 * it, SHARE is lost: jobs that are done but not counted. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sonde/sonde.h"

enum { TURNS = 20000 }; /* of a job: some microseconds */

static double clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

__attribute__((noinline)) static unsigned job(unsigned x)
{
    for (int i = 0; i < TURNS; i++) x = x * 1664525u + 1013904223u;
    return x;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: planted_cost FLAG SHARE SECONDS\n");
        return 2;
    }
    const double share = strtod(argv[2], NULL), until_s = clock_s() + strtod(argv[3], NULL);
    const int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 1) || !(share >= 0 && share < 1)) {
        perror(argv[1]);
        return 1;
    }
    const volatile char *flag = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
    if (flag == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    const struct sonde_counter jobs = sonde_counter("planted_jobs_total", "Jobs.");
    double owed = 0;
    unsigned x = 1;
    while (clock_s() < until_s) {
        for (int i = 0; i < 16; i++) {
            x = job(x);
            sonde_counter_add(jobs, 1);
            if (*flag != '0') owed += share / (1 - share);
            for (; owed >= 1; owed--) x = job(x);
        }
    }
    printf("%u\n", x);
    return 0;
}
