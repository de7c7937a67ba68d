/* pending.c - commands that have been queued and had not ended when we last looked.
 *
 * Each queue has a list, oldest first. Whoever calls OpenCL next looks at the head of that queue's,
 * and goes on while it finds commands that have ended: in order, so one look tells that nothing
 * has; a queue that is out of order is looked through, a few at a time. One thread at a time looks
 * at a queue; others pass by. The driver is asked without our lock. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/opencl/opencl.h"
#include "record/state.h"

#define LOOKS 64u                /* at commands out of order that have not ended, in one go */
#define AT_ONCE 16u              /* commands that have ended, when another is queued */

struct opencl_pending {
    cl_event event;
    uint32_t next;               /* slot + 1; 0 = the last */
    struct sonde__kernels_record r;
};

static struct {
    struct opencl_pending *slot;
    uint32_t used, free;         /* slots ever used; first free one + 1 */
    int failed;
} pool;

void sonde__opencl_pending_forget(void)
{
    pool.used = pool.free = 0;
}

/* ---- Slots: numbers from 1, with the lock held ------------------------------------------- */

static struct opencl_pending *pending_at(uint32_t slot) { return &pool.slot[slot - 1]; }

static uint32_t pending_take(void)
{
    if (!pool.slot && !pool.failed) {
        const long at = syscall(SYS_mmap, NULL, SONDE__OPENCL_PENDING * sizeof(*pool.slot),
                                PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == -1) pool.failed = 1;
        else pool.slot = (struct opencl_pending *)(uintptr_t)at;
    }
    if (!pool.slot) return 0;
    if (pool.free) {
        const uint32_t slot = pool.free;
        pool.free = pending_at(slot)->next;
        return slot;
    }
    return pool.used < SONDE__OPENCL_PENDING ? ++pool.used : 0;
}

static void pending_give(uint32_t slot)
{
    pending_at(slot)->next = pool.free;
    pool.free = slot;
}

static void pending_append(struct sonde__opencl_queue *q, uint32_t slot)
{
    pending_at(slot)->next = 0;
    if (q->tail) pending_at(q->tail)->next = slot;
    else q->head = slot;
    q->tail = slot;
}

static void pending_unlink(struct sonde__opencl_queue *q, uint32_t before, uint32_t slot)
{
    const uint32_t next = pending_at(slot)->next;
    if (before) pending_at(before)->next = next;
    else q->head = next;
    if (q->tail == slot) q->tail = before;
    pending_give(slot);
}

/* ---- Commands that have ended ------------------------------------------------------------ */

static int pending_times(struct opencl_pending *e)
{
    static const cl_profiling_info what[4] = {
        CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT, CL_PROFILING_COMMAND_START,
        CL_PROFILING_COMMAND_END
    };
    cl_ulong t[4];
    for (int i = 0; i < 4; i++) {
        if (sonde__opencl_next.clGetEventProfilingInfo(e->event, what[i], sizeof(t[i]), &t[i],
                                                       NULL) != CL_SUCCESS) {
            return -1;
        }
    }
    e->r.queued_ns = t[0];
    e->r.submit_ns = t[1];
    e->r.start_ns = t[2];
    e->r.end_ns = t[3];
    return t[2] && t[3] >= t[2] ? 0 : -1;
}

static void pending_end(struct sonde__kernels *k, struct sonde__opencl_queue *q,
                        struct opencl_pending *e, cl_int status)
{
    e->r.status = status < 0 ? status : 0;
    if (status < 0 || pending_times(e)) {
        e->r.queued_ns = e->r.submit_ns = e->r.start_ns = e->r.end_ns = e->r.doubt_ns = 0;
        e->r.flags |= SONDE__KERNEL_UNTIMED;
    } else {
        sonde__opencl_clock_convert(q->device, &e->r);
    }
    sonde__kernels_put(k, &e->r);
}

static int poll_begin(struct sonde__opencl_queue *q, uint32_t *head)
{
    int mine = 0;
    if (!__atomic_load_n(&q->head, __ATOMIC_RELAXED) || sonde__opencl_lock()) return 0;
    if (q->head && !q->polling) {
        mine = 1;
        q->polling = 1;
        *head = q->head;
    }
    sonde__opencl_unlock();
    return mine;
}

/* Go on to the next, leaving or taking out the one at slot. */
static uint32_t poll_next(struct sonde__opencl_queue *q, uint32_t *before, uint32_t slot, int ended)
{
    if (sonde__opencl_lock()) return 0;
    const uint32_t next = pending_at(slot)->next;
    if (ended) pending_unlink(q, *before, slot);
    else *before = slot;
    sonde__opencl_unlock();
    return next;
}

static void poll_with(struct sonde__kernels *k, struct sonde__opencl_queue *q, uint32_t most)
{
    uint32_t slot, before = 0, looks = 0;
    if (!poll_begin(q, &slot)) return;
    while (slot && most) {
        struct opencl_pending *e = pending_at(slot);
        cl_int status = CL_COMPLETE;
        const cl_int rc = sonde__opencl_next.clGetEventInfo(
            e->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status), &status, NULL);
        const int ended = rc != CL_SUCCESS || status <= CL_COMPLETE;
        if (!ended && (!q->out_of_order || (++looks == LOOKS && most != SONDE__OPENCL_ALL))) break;
        if (ended) {
            const cl_event event = e->event;
            pending_end(k, q, e, rc == CL_SUCCESS ? status : rc);
            slot = poll_next(q, &before, slot, 1);
            sonde__opencl_next.clReleaseEvent(event);
            if (most != SONDE__OPENCL_ALL) most--;
        } else {
            slot = poll_next(q, &before, slot, 0);
        }
    }
    __atomic_store_n(&q->polling, 0, __ATOMIC_RELEASE);
}

static void poll_some(struct sonde__opencl_queue *q, uint32_t most)
{
    const int saved = errno;
    if (!__atomic_load_n(&q->head, __ATOMIC_RELAXED)) return;
    struct sonde__kernels *k = sonde__kernels_ready();
    if (k) poll_with(k, q, most);
    errno = saved;
}

void sonde__opencl_poll(struct sonde__opencl_queue *q, uint32_t most)
{
    if (!__atomic_load_n(&q->head, __ATOMIC_RELAXED)) return;
    const uint64_t from = sonde_ticks();
    poll_some(q, most);
    struct sonde__kernels *k = sonde__kernels_state.area;
    if (k) sonde__kernels_count(&k->own_ns, sonde_ticks_ns(sonde_ticks() - from));
}

void sonde__opencl_poll_all(void)
{
    struct sonde__opencl_queue *q;
    for (uint32_t i = 0; (q = sonde__opencl_queue_at(i)); i++) {
        sonde__opencl_poll(q, SONDE__OPENCL_ALL);
    }
}

cl_uint sonde__opencl_held(cl_event event)
{
    struct sonde__opencl_queue *q;
    cl_uint held = 0;
    if (sonde__opencl_lock()) return 0;
    for (uint32_t i = 0; !held && (q = sonde__opencl_queue_at(i)); i++) {
        for (uint32_t s = q->head; s; s = pending_at(s)->next) {
            held |= pending_at(s)->event == event;
        }
    }
    sonde__opencl_unlock();
    return held;
}

/* ---- A command that is queued ------------------------------------------------------------ */

static int begin_slot(struct sonde__opencl_call *c)
{
    c->slot = 0;
    if (sonde__opencl_lock()) return 0;
    c->slot = pending_take();
    sonde__opencl_unlock();
    return c->slot != 0;
}

/* Of a call that is to be recorded. */
static int begin_on(struct sonde__opencl_call *c, cl_command_queue queue, enum sonde__kernel_op op,
                    int blocking)
{
    c->q = sonde__opencl_queue(c->k, queue);
    sonde__kernels_count(&c->k->enqueued, 1);
    if (!c->q || !c->q->timed) {
        sonde__kernels_count(&c->k->foreign, 1);
        return 0;
    }
    poll_some(c->q, AT_ONCE);
    if (!begin_slot(c)) {
        sonde__kernels_count(&c->k->crowded, 1);
        return 0;
    }
    sonde__thread_setup();
    c->r = (struct sonde__kernels_record){
        .tid = sonde__tls.tid, .queue = c->q->number, .op = op,
        .flags = blocking ? SONDE__KERNEL_BLOCKING : 0,
        .stack = sonde__kernels_stack(c->k) };
    return 1;
}

int sonde__opencl_begin(struct sonde__opencl_call *c, cl_command_queue queue,
                        enum sonde__kernel_op op, int blocking)
{
    const int saved = errno;
    int recorded = 0;
    const uint64_t from = sonde_ticks();
    c->k = sonde__kernels_ready();
    if (c->k) {
        if (sonde__kernels_on(c->k)) recorded = begin_on(c, queue, op, blocking);
        else sonde__kernels_count(&c->k->off_calls, 1);
        c->own_ticks = sonde_ticks() - from;
        if (recorded) c->r.call_ns = sonde__mono_ns();
    }
    errno = saved;
    return recorded;
}

void sonde__opencl_end(struct sonde__opencl_call *c, cl_int rc, cl_event event, int shared)
{
    const int saved = errno;
    const uint64_t now = sonde__mono_ns(), from = sonde_ticks();
    const int queued = rc == CL_SUCCESS && event;
    if (queued && shared) sonde__opencl_next.clRetainEvent(event);
    c->r.took_ns = now - c->r.call_ns;
    struct opencl_pending *e = pending_at(c->slot);
    if (!sonde__opencl_lock()) {
        if (queued) {
            e->r = c->r;
            e->event = event;
            pending_append(c->q, c->slot);
        } else {
            pending_give(c->slot);
        }
        sonde__opencl_unlock();
    }
    if (!queued) sonde__kernels_count(&c->k->failed, 1);
    if (queued && c->r.flags & SONDE__KERNEL_BLOCKING) {
        sonde__kernels_put_wait(c->k, c->r.call_ns, now, c->q->number, SONDE__KERNEL_WAIT_TRANSFER,
                                c->r.stack);
        poll_some(c->q, SONDE__OPENCL_ALL);
    }
    sonde__kernels_count(&c->k->own_ns, sonde_ticks_ns(c->own_ticks + sonde_ticks() - from));
    errno = saved;
}

/* ---- The program waits ------------------------------------------------------------------- */

void sonde__opencl_wait_begin(struct sonde__opencl_waiting *w)
{
    const int saved = errno;
    w->k = sonde__kernels_ready();
    if (w->k && !sonde__kernels_on(w->k)) w->k = NULL;
    if (w->k) {
        sonde__thread_setup();
        w->stack = sonde__kernels_stack(w->k);
        w->begin_ns = sonde__mono_ns();
    }
    errno = saved;
}

void sonde__opencl_wait_end(struct sonde__opencl_waiting *w, cl_command_queue queue,
                            enum sonde__kernel_wait kind)
{
    const int saved = errno;
    if (w->k) {
        const struct sonde__opencl_queue *q = sonde__opencl_queue_find(queue);
        sonde__kernels_put_wait(w->k, w->begin_ns, sonde__mono_ns(), q ? q->number : 0, kind,
                                w->stack);
    }
    errno = saved;
}
