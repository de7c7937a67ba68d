/* kernels.h - what a program has its GPUs do, as libsonde_preload sees it: every command that was
 * put on a queue, with its times, and every time that the program waited for one. The same records
 * for every interface (OpenCL today), so that a reader knows none of them.
 *
 *   header.kernels ─▶ struct sonde__kernels
 *                       device[], queue[]                      append-only, counted
 *                       ring of chunks, as the sampler's (segment.h)
 *   name number ─▶ struct sonde__kernel_name                   append-only: kernels and devices
 *   stack number ─▶ struct sonde__kernel_stack                 append-only: from where it was
 * queued
 *
 * A number is an offset from the segment's start in units of 64 bytes; 0 = none, or there was no
 * room for it. Stacks and names are stored once, so a record is 128 bytes however deep the stack.
 * Whoever reads late finds them all the same: only records are written over.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC; what the device's clock said was converted in the
 * process, which alone can compare the two.
 *
 * Records:
 *   KERNEL  two chunks, written when the command is known to have ended:
 *           queued by the call at, thread << 32 | ns that the call took,
 *           stack << 32 | flags << 24 | operation << 16 | queue, name << 32 | status,
 *           queued, submitted, started; then
 *           ended, bytes, global size (3 words), local size (3 × 21 bits), ns of uncertainty of
 *           the device's clock
 *   WAIT    begin, end, thread << 32 | kind << 16 | queue, stack << 32, 0, 0, 0: the program waited
 *           for commands to end
 *   MAP     as in the sampler's ring: code that stacks from here on are in
 *
 * Rejected: times of the device in the record and its clock in another one: a reader that lost the
 * other one could do nothing with them. And stacks in the ring, as samples have them: programs
 * launch from few places, up to a hundred thousand times a second. */
#ifndef SONDE_SEGMENT_KERNELS_H
#define SONDE_SEGMENT_KERNELS_H

#include "segment/segment.h"

/* What a command does. Names are in series and files: append only. */
#define SONDE__KERNEL_OPS(X)                                                                   \
    X(KERNEL, "kernel", "a kernel")                                                            \
    X(READ, "read", "from the device to the host")                                             \
    X(WRITE, "write", "from the host to the device")                                           \
    X(COPY, "copy", "from one place of the device to another")                                 \
    X(FILL, "fill", "a pattern into memory of the device")                                     \
    X(MAP, "map", "memory of the device mapped for the host")                                  \
    X(UNMAP, "unmap", "and given back to the device")                                          \
    X(MIGRATE, "migrate", "memory moved to a device")                                          \
    X(NATIVE, "native", "a function of the host, on the queue")                                \
    X(MARKER, "marker", "nothing but an event")                                                \
    X(BARRIER, "barrier", "nothing but an order")                                              \
    X(OTHER, "other", "freeing of memory, and what is none of these")

enum sonde__kernel_op {
#define SONDE__X(id, name, text) SONDE__KERNEL_OP_##id,
    SONDE__KERNEL_OPS(SONDE__X)
#undef SONDE__X
    SONDE__KERNEL_OP_COUNT
};

/* How the program waited. Append only. */
#define SONDE__KERNEL_WAITS(X)                                                                 \
    X(FINISH, "finish", "for all that is on a queue")                                          \
    X(EVENTS, "events", "for events")                                                          \
    X(TRANSFER, "transfer", "in a transfer that blocks")

enum sonde__kernel_wait {
#define SONDE__X(id, name, text) SONDE__KERNEL_WAIT_##id,
    SONDE__KERNEL_WAITS(SONDE__X)
#undef SONDE__X
    SONDE__KERNEL_WAIT_COUNT
};

enum { SONDE__KERNEL_OPENCL = 1 };      /* interfaces: of a device */

enum {                                  /* beside SONDE__CHUNK_MAP and _MORE */
    SONDE__CHUNK_KERNEL = 16, SONDE__CHUNK_WAIT
};

#define SONDE__KERNEL_BLOCKING 1u       /* flags: the call returned when it had ended */
#define SONDE__KERNEL_UNTIMED 2u        /* the driver gave no times: all four are 0 */

#define SONDE__KERNEL_DEVICES 32u
#define SONDE__KERNEL_QUEUES 256u       /* queue 0 = any other */
#define SONDE__KERNEL_NAMES_MAX 8192u
#define SONDE__KERNEL_STACKS_MAX 16384u
#define SONDE__KERNEL_NAME_MAX 512u     /* bytes; of a longer one the first */
#define SONDE__KERNEL_DEPTH_MAX 256u
#define SONDE__KERNEL_NAME_MAGIC 0x656d616eu  /* "name" */
#define SONDE__KERNEL_STACK_MAGIC 0x6b617473u /* "stak" */
#define SONDE__KERNEL_LOCAL_BITS 21u    /* of each dimension; larger ones are cut to what fits */

struct sonde__kernel_name {
    uint32_t magic, ready;              /* ready: 1 = all of it is there; stored last */
    uint32_t bytes, pad;
    char text[];
};

struct sonde__kernel_stack {
    uint32_t magic, ready;
    uint32_t depth, flags;              /* flags: SONDE__SAMPLE_TRUNCATED */
    uint64_t unloads;                   /* of modules, before it was walked */
    uint64_t ip[];                      /* innermost first; frames of Python as in python.h */
};

struct sonde__kernel_device {
    uint32_t name;                      /* number of its name */
    uint32_t api;                       /* SONDE__KERNEL_OPENCL */
};

struct sonde__kernel_queue {
    uint32_t device;                    /* index of device[] + 1; 0 = not known */
    uint32_t context;                   /* number of its context, from 1 */
    uint32_t out_of_order;
    uint32_t pad;
};

#define SONDE__KERNEL_STATES(X)                                                                \
    X(ON, "commands are recorded")                                                             \
    X(OFF, "switched off")                                                                     \
    X(SANDBOXED, "the program has given up system calls that recording needs (seccomp)")

enum sonde__kernel_state {
#define SONDE__X(id, text) SONDE__KERNEL_##id,
    SONDE__KERNEL_STATES(SONDE__X)
#undef SONDE__X
    SONDE__KERNEL_STATE_COUNT
};

struct sonde__kernels {
    /* Immutable. */
    uint64_t session;                   /* as the agent that asked for it called it */
    uint32_t chunk_count;               /* of the ring; a power of two */
    uint32_t depth_max;
    uint64_t start_ns;                  /* CLOCK_MONOTONIC */
    uint64_t pad0[5];

    uint64_t reserve __attribute__((aligned(64))); /* chunks ever reserved */

    uint32_t state __attribute__((aligned(64)));   /* enum sonde__kernel_state */
    uint32_t device_count, queue_count; /* release-stored; queues: one more than the last number */
    uint32_t name_count, stack_count;   /* there are */
    uint32_t pad1;
    uint64_t switched;                  /* on or off, so often */
    uint64_t pad2[4];

    /* Each only grows. Of all that were put on queues while recording was on: */
    uint64_t enqueued __attribute__((aligned(64)));
    uint64_t recorded;                  /* … has a record */
    uint64_t crowded;                   /* … has none: too many had not ended */
    uint64_t full;                      /* … has none: there was no room for the ring */
    uint64_t foreign;                   /* … has none: on a queue that tells no times */
    uint64_t failed;                    /* calls that returned an error: nothing was queued */
    uint64_t unnamed;                   /* recorded without a name, for lack of room */
    uint64_t stackless;                 /* recorded without a stack, alike */
    uint64_t own_ns;                    /* that recording took of the program's threads */
    uint64_t waits, wait_ns;
    uint64_t off_calls;                 /* commands that were queued while it was off */
    uint64_t pad3[4];

    struct sonde__kernel_device device[SONDE__KERNEL_DEVICES];
    struct sonde__kernel_queue queue[SONDE__KERNEL_QUEUES];

    struct sonde__chunk chunk[] __attribute__((aligned(64)));
};
_Static_assert(sizeof(struct sonde__kernel_name) == 16, "then text");
_Static_assert(sizeof(struct sonde__kernel_stack) == 24, "then addresses");
_Static_assert(offsetof(struct sonde__kernels, chunk) % 64 == 0, "chunks are lines");

static inline uint64_t sonde__kernel_off(uint32_t number) { return (uint64_t)number << 6; }

/* ---- Switching -------------------------------------------------------------------------------
 *
 * The agent writes to no segment and sends no signal. It puts a file beside the segments, which the
 * process looks for now and then, while it queues commands: SONDE__KERNEL_SWITCH, one line for each
 * pid (0 = every process): "<pid> <on|off> <until>\n", until: CLOCK_MONOTONIC in ns after which the
 * line is void, so that no agent has to be there to switch back. The last line that is about the
 * process counts. It is put in place by rename. */
#define SONDE__KERNEL_SWITCH "agent.gpu"
#define SONDE__KERNEL_SWITCH_MAX 4096u  /* bytes that are read of it */
#define SONDE__KERNEL_SWITCH_NS 100000000u /* between looks */

#endif
