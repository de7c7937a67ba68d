/* swapping.c - memory of the program that is on a disk, and read back while it works. Memory that
 * was swapped out once and is never needed again does no harm: traffic counts, not size. */
#include <math.h>

#include "analyze/finding/rule.h"

#define IN_MIN 262144.0      /* bytes per second that come back from swap: a warning … */
#define IN_CRITICAL 2e7      /* … and this stops a program, on most disks */
#define SWAP_MIN 1048576.0   /* bytes of the program that are swapped out */

static void swapping_look(struct finding_look *l)
{
    const struct finding_series own = { .family = "sonde_process_swap_memory_bytes" };
    const struct finding_series resident = { .family = "sonde_process_resident_memory_bytes" };
    const struct finding_series in = { .family = "sonde_host_swapped_bytes_total",
                                       .label = "direction=\"in\"", .host = 1 };
    const struct finding_series out = { .family = "sonde_host_swapped_bytes_total",
                                        .label = "direction=\"out\"", .host = 1 };
    const struct finding_series major = { .family = "sonde_process_page_faults_total",
                                          .label = "type=\"major\"" };
    const double swapped = finding_series_max(l, &own), used = finding_series_max(l, &resident);
    const double rate = finding_series_mean(l, &in, NULL);
    const double faults = finding_series_mean(l, &major, NULL);
    if (!(swapped >= SWAP_MIN) || !(rate >= IN_MIN) || !(faults > 0)) return;
    const double share = swapped / (swapped + fmax(0, used));
    struct sonde_finding *f = finding_add(
        l, rate >= IN_CRITICAL ? SONDE_SEVERITY_CRITICAL : SONDE_SEVERITY_WARNING, share);
    f->share = share;
    f->bytes = swapped;
    f->confidence = 0.9;
    finding_text(l, f,
                 "%.0f MB of the program are swapped out (%.0f %% of its memory), and the machine "
                 "reads %.1f MB per second back from swap",
                 swapped * 1e-6, 100 * share, rate * 1e-6);
    finding_advise(l, f,
                   "the machine lacks about %.0f MB of memory: add it, use less (fewer or smaller "
                   "caches, a smaller quantization, fewer slots), keep other programs off the "
                   "machine, or lock what latency depends on in memory (mlock; llama.cpp: --mlock)",
                   swapped * 1e-6);
    finding_prove_series(l, f, &own, "bytes", "swapped out");
    finding_prove_series(l, f, &in, "bytes per second", "read from swap");
    finding_prove_series(l, f, &out, "bytes per second", "written to swap");
    finding_prove_series(l, f, &major, "per second", "major page faults");
}

extern const struct finding_rule finding_rule_swapping;
const struct finding_rule finding_rule_swapping = {
    .kind = "swapping",
    .title = "Swapping",
    .summary = "memory of the program is swapped out and read back while it works",
    .explains = "page_faults io_wait",
    .look = swapping_look,
};
