/* gpu_switch.c - POST /admin/profile/gpu: recording of GPU commands, on or off for a while in
 * processes that run (collect/kernels/switch.h). */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "collect/kernels/switch.h"
#include "serve/http/route.h"
#include "sonde/sonde.h"

#define SECONDS_DEFAULT 30
#define SECONDS_MIN 0.1
#define SECONDS_MAX 86400
#define PID_MAX 4194304u

static void route_gpu(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_err err = { "" };
    double seconds = SECONDS_DEFAULT;
    uint64_t pid = 0;
    const char *wanted = sonde_http_param(r, "enabled");
    const int on = !wanted || !strcmp(wanted, "true");
    if (!sonde_http_number(r, answer, "duration", SECONDS_MIN, SECONDS_MAX, &seconds) ||
        !sonde_http_count(r, answer, "pid", PID_MAX, &pid)) {
        return;
    }
    if (!r->agent->collector) {
        sonde_response_error(answer, 404, "this agent watches no processes");
        return;
    }
    const int rc = sonde_kernel_switch(sonde_collector_dir(r->agent->collector), (uint32_t)pid, on,
                                       seconds, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    sonde_buf_putc(&answer->body, '{');
    sonde_json_bool(&answer->body, "enabled", on);
    sonde_json_num(&answer->body, "duration_seconds", seconds);
    sonde_json_time(&answer->body, "until", sonde_clock_s(CLOCK_REALTIME) + seconds);
    if (pid) sonde_json_u64(&answer->body, "pid", pid);
    else sonde_json_str(&answer->body, "pid", NULL);
    sonde_json_str(&answer->body, "note", "programs that sonde started follow with their next "
                   "command, within a tenth of a second; sonde_gpu_tracking says which do");
    sonde_buf_puts(&answer->body, "}\n");
}

extern const struct sonde_route sonde_route_admin_profile_gpu;
const struct sonde_route sonde_route_admin_profile_gpu = {
    .method = "POST",
    .path = "/admin/profile/gpu",
    .summary = "record what programs have GPUs do, or stop that, for a while",
    .params = (const char *const[]){ "duration", "enabled", "pid", NULL },
    .handle = route_gpu,
    .keys = "enabled,duration_seconds,until,pid,note",
    .statuses = "404",
};
