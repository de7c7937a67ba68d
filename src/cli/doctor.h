/* doctor.h - what `sonde doctor` looks at. One check = one function + one row in cmd_doctor.c. */
#ifndef SONDE_CLI_DOCTOR_H
#define SONDE_CLI_DOCTOR_H

#include "base/buf.h"
#include "cli/cli.h"

enum sonde_doctor_level { SONDE_DOCTOR_OK, SONDE_DOCTOR_WARN, SONDE_DOCTOR_FAIL };

struct sonde_doctor {
    const struct sonde_cli *cli;
    const char *target;      /* program or process that it is asked about; NULL = none */
    int json, colour, ascii;
    int worst;               /* enum sonde_doctor_level */
    const char *check;       /* name of the check that runs */
    struct sonde_buf out;
    size_t lines;
};

/* One line: what was found, and if it is not ok what to do (NULL = nothing). A check may add
 * several. */
void sonde_doctor_add(struct sonde_doctor *d, enum sonde_doctor_level level, const char *advice,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

/* First line of a small file such as one of /proc/sys, or NULL. */
const char *sonde_doctor_read(const char *path, char *out, size_t out_size);

/* doctor_system.c: the machine */
void sonde_doctor_madvise(struct sonde_doctor *d);
void sonde_doctor_clock(struct sonde_doctor *d);
void sonde_doctor_perf(struct sonde_doctor *d);
void sonde_doctor_cpu(struct sonde_doctor *d);
void sonde_doctor_python(struct sonde_doctor *d);
void sonde_doctor_uprobes(struct sonde_doctor *d);
void sonde_doctor_ptrace(struct sonde_doctor *d);
void sonde_doctor_shm(struct sonde_doctor *d);
void sonde_doctor_limits(struct sonde_doctor *d);

/* doctor_gpu.c */
void sonde_doctor_gpu(struct sonde_doctor *d);

/* doctor_heap.c */
void sonde_doctor_heap(struct sonde_doctor *d);

/* doctor_sandbox.c */
void sonde_doctor_sandbox(struct sonde_doctor *d);

/* doctor_store.c */
void sonde_doctor_store(struct sonde_doctor *d);

/* doctor_llama.c */
void sonde_doctor_llama(struct sonde_doctor *d);

/* doctor_agent.c: sonde on it */
void sonde_doctor_config(struct sonde_doctor *d);
void sonde_doctor_dir(struct sonde_doctor *d);
void sonde_doctor_segments(struct sonde_doctor *d);
void sonde_doctor_port(struct sonde_doctor *d);
void sonde_doctor_probes(struct sonde_doctor *d);

/* doctor_push.c */
void sonde_doctor_push(struct sonde_doctor *d);

/* doctor_alerts.c */
void sonde_doctor_alerts(struct sonde_doctor *d);

#endif
