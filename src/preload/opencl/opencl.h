/* opencl.h - commands of OpenCL, seen from between the program and its driver, and written down
 * when they have ended (preload/kernels/).
 *
 *   program ─▶ libOpenCL (the ICD loader) ─▶ this layer ─▶ driver (PoCL, a vendor's)
 *
 * The loader loads layers that OPENCL_LAYERS names and hands each a table of functions, of which it
 * takes back one with those replaced that the layer wants to see. So all calls come through here,
 * from whichever library, also those of functions that were looked up with dlsym, as bindings of
 * scripting languages do; the library exports no function of OpenCL, and a program that does not
 * load the loader pays nothing. The variable is not in the environment: getenv says it to the
 * loader alone (layer.c). docs/design/decisions/gpu-kernels.md has what was rejected.
 *
 * Times are the driver's own, by profiling of the queue, which is switched on when the queue is
 * made; what the program is told of its queues and events stays as it asked (queue.c). A command's
 * event is retained and looked at in later calls, when it costs next to nothing (pending.c):
 * nothing waits for a command, no callback is set, no queue is flushed or finished. At the end of
 * the program the driver is not asked any more, as it may be gone: what nobody waited for is not
 * recorded, and that it was queued is counted.
 *
 * Locks. One word (spin.c), held while a list is changed and never while the driver is called,
 * which has locks of its own and may be calling the program back. */
#ifndef SONDE_PRELOAD_OPENCL_OPENCL_H
#define SONDE_PRELOAD_OPENCL_OPENCL_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_0_APIS
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_USE_DEPRECATED_OPENCL_2_0_APIS
#define CL_USE_DEPRECATED_OPENCL_2_1_APIS
#define CL_USE_DEPRECATED_OPENCL_2_2_APIS
#include <CL/cl_layer.h>

#include "preload/kernels/recorder.h"

/* ---- layer.c ----------------------------------------------------------------------------- */

/* What is behind this layer. */
extern cl_icd_dispatch sonde__opencl_next;

/* Commands are to be seen from now on: the loader will be told of this library. */
void sonde__opencl_start(void);
void sonde__opencl_layer_forked(void);
void sonde__opencl_forked(void);   /* queue.c; in a child: nothing of the parent's is known */

/* The table of this layer, over the one behind it. */
void sonde__opencl_enqueue_hooks(cl_icd_dispatch *d);   /* enqueue.c */
void sonde__opencl_transfer_hooks(cl_icd_dispatch *d);  /* transfer.c */
void sonde__opencl_svm_hooks(cl_icd_dispatch *d);       /* svm.c */
void sonde__opencl_queue_hooks(cl_icd_dispatch *d);     /* queue.c */
void sonde__opencl_event_hooks(cl_icd_dispatch *d);     /* event.c */
void sonde__opencl_kernel_hooks(cl_icd_dispatch *d);    /* kernel.c */

/* ---- clock.c: a device's clock on ours --------------------------------------------------- */

struct sonde__opencl_clock {
    int64_t offset;         /* CLOCK_MONOTONIC less the device's */
    uint64_t doubt;         /* it is right to so much */
    int64_t low, high;      /* between which it is, by commands' times */
    uint64_t at_ns;         /* of the command that low and high are by; 0 = none yet */
    uint64_t measured_ns;   /* when the timer was last asked */
    uint64_t guessed_ns;    /* when clocks of the host were last looked at */
    int by_timer;           /* the driver tells both clocks at once; 0 = not, or what it tells is
                             * not the clock of its events */
};

struct sonde__opencl_device {
    cl_device_id handle;
    uint32_t number;        /* segment/kernels.h; 0 = there are too many */
    uint32_t lock;          /* of clock: tried, never waited for */
    struct sonde__opencl_clock clock;
};

/* From what is known of a command: queued within the call, by the device's clock. */
void sonde__opencl_clock_bracket(struct sonde__opencl_clock *c, uint64_t queued, uint64_t call_ns,
                                 uint64_t end_ns);
/* The four times of r, which are the device's, on ours. */
void sonde__opencl_clock_convert(struct sonde__opencl_device *d, struct sonde__kernels_record *r);
void sonde__opencl_clock_start(struct sonde__opencl_device *d);

/* ---- queue.c ----------------------------------------------------------------------------- */

#define SONDE__OPENCL_PROPERTIES 15u   /* words kept of a list that a queue was made with */

struct sonde__opencl_queue {
    cl_command_queue handle; /* NULL = free; 1 = was used: search on */
    struct sonde__opencl_device *device;
    uint32_t number;         /* segment/kernels.h */
    uint32_t refs;           /* of the program's */
    int timed;               /* its events have times */
    int asked;               /* and the program asked for them */
    int out_of_order;
    uint32_t listed;         /* properties are kept: so many words with the 0 at the end */
    cl_queue_properties properties[SONDE__OPENCL_PROPERTIES + 1];
    uint32_t head, tail;     /* commands that had not ended, oldest first; 0 = none */
    uint32_t polling;        /* a thread is looking at them */
};

/* NULL: there are too many. Known from when it was made, or found out now. */
struct sonde__opencl_queue *sonde__opencl_queue(struct sonde__kernels *k, cl_command_queue queue);
/* NULL: not known. */
struct sonde__opencl_queue *sonde__opencl_queue_find(cl_command_queue queue);
struct sonde__opencl_queue *sonde__opencl_queue_at(uint32_t i); /* NULL = that was all */

int sonde__opencl_lock(void);
void sonde__opencl_unlock(void);

/* ---- pending.c --------------------------------------------------------------------------- */

#define SONDE__OPENCL_PENDING 16384u   /* commands at once that had not ended */

/* A command that is being queued; of the calling thread. */
struct sonde__opencl_call {
    struct sonde__kernels *k;
    struct sonde__opencl_queue *q;
    uint64_t own_ticks;      /* that our part before the call took */
    uint32_t slot;
    struct sonde__kernels_record r;
};

/* Before it is queued: 1 if it is to be recorded, and so must have an event. */
int sonde__opencl_begin(struct sonde__opencl_call *c, cl_command_queue queue,
                        enum sonde__kernel_op op, int blocking);
/* After: event is the command's, of which the program has a reference if shared. */
void sonde__opencl_end(struct sonde__opencl_call *c, cl_int rc, cl_event event, int shared);

/* Look at commands that had not ended: at most so many that have. */
#define SONDE__OPENCL_ALL UINT32_MAX
void sonde__opencl_poll(struct sonde__opencl_queue *q, uint32_t most);
void sonde__opencl_poll_all(void);
/* References that we have to an event: 0 or 1. */
cl_uint sonde__opencl_held(cl_event event);
void sonde__opencl_pending_forget(void);

/* The program is about to wait, and has waited: wait is its beginning; 0 = it is not recorded. */
struct sonde__opencl_waiting { struct sonde__kernels *k; uint64_t begin_ns; uint32_t stack; };
void sonde__opencl_wait_begin(struct sonde__opencl_waiting *w);
void sonde__opencl_wait_end(struct sonde__opencl_waiting *w, cl_command_queue queue,
                            enum sonde__kernel_wait kind);

/* ---- kernel.c ---------------------------------------------------------------------------- */

uint32_t sonde__opencl_kernel_name(struct sonde__kernels *k, cl_kernel kernel);
void sonde__opencl_kernels_forget(void);

#endif
