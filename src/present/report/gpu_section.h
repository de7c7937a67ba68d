/* gpu_section.h - what GPUs did (profile/gpu.h, analyze/gpu.h) as a part of a report. */
#ifndef SONDE_PRESENT_REPORT_GPU_SECTION_H
#define SONDE_PRESENT_REPORT_GPU_SECTION_H

#include "analyze/gpu_use.h"
#include "base/buf.h"
#include "present/report/profile.h"

struct gpu_report {
    const struct sonde_profile *p;
    const struct sonde_gpu_work *g;          /* NULL = nothing is written */
    struct sonde_gpu_use use;
    uint32_t *order;                    /* owned: kernels, most time first */
    size_t limit;
};

int gpu_report_init(struct gpu_report *r, const struct sonde_profile *p, size_t limit);
void gpu_report_release(struct gpu_report *r);

void gpu_report_text(const struct gpu_report *r, const struct sonde_report_options *o,
                     struct sonde_buf *out);
/* The member "gpu_commands" of an open object. */
void gpu_report_json(const struct gpu_report *r, struct sonde_buf *out);

#endif
