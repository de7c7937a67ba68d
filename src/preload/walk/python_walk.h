/* python_walk.h - frames of Python on a stack that is walked.
 *
 * CPython keeps frames of its own: a list from the innermost outwards, in memory of the thread's
 * state. Calls from Python to Python push such a frame and stay in the same C function, the
 * interpreter's loop; only a call through C enters the loop anew. So the list falls into runs, one
 * for each time that the loop was entered, and a run has an anchor on the C stack: a structure that
 * is a local variable of the loop. Where a native frame is walked that has the next anchor in it,
 * the run is told in its place.
 *
 * Rejected: telling the loop's frame by its address. Debian's interpreter is stripped, and of
 * _PyEval_EvalFrameDefault only the part is in the dynamic symbols that the compiler thinks hot.
 *
 * Which state is the thread's own, PyGILState_GetThisThreadState says: pthread_getspecific and
 * nothing else, and it needs no GIL. Where fields are depends on the version:
 * segment/python_layout.h.
 *
 * Reading. A signal may come while a frame is being pushed or popped, when the last one's fields
 * are those of a frame that was there before; or while the thread has let go of the GIL, and the
 * interpreter is being finalized and its memory freed. So from a handler no word is believed to be
 * there: the kernel copies it (process_vm_writev to ourselves fails where memory is not), and an
 * object has to be of the type that it should be. What is there for sure is the thread's stack
 * above where it is, and its state while it has the GIL. Inside malloc all that the interpreter has
 * begun is done, as it is a call that may look at any memory; as long as the thread has the GIL
 * nobody else changes it, so frames and code objects are read as they are. Texts are always copied
 * by the kernel, once for each code object.
 *
 * A program that is under a seccomp filter may be killed for a call that it does not make itself;
 * there each page is asked for by the call that walks use anyway (sonde__readable), and then
 * read. */
#ifndef SONDE_PRELOAD_WALK_PYTHON_WALK_H
#define SONDE_PRELOAD_WALK_PYTHON_WALK_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "segment/python.h"
#include "segment/python_layout.h"

/* ---- python_find_hot.c ----------------------------------------------------------------------- */

struct sonde__python_found {
    struct sonde__python_layout layout;
    void *(*thread_state)(void);    /* PyGILState_GetThisThreadState */
    void *(*thread_holds)(void);    /* the state of whoever has the GIL; NULL = not known */
    uint64_t type_code, type_text, type_bytes;
    uint32_t version;
    uint32_t state;                 /* enum sonde__python_state */
    uint32_t unloads;               /* modules were unloaded so often when it was found */
};

/* Is this module, which has just been met, an interpreter? Only while a walk is counted as active:
 * it is not unloaded then. */
void sonde__python_look(const struct dl_find_object *o);

/* The interpreter that was found; NULL = none was yet, or none that can be read. */
const struct sonde__python_found *sonde__python_found(void);
/* Its state and version, for the segment: SONDE__PYTHON_NONE before one was met. */
uint32_t sonde__python_met(uint32_t *version);

/* ---- python_hot.c ---------------------------------------------------------------------------- */

/* A call that copies takes longer than all that it copies: so frames are read by the page that they
 * are in, and code objects several at a time. That needs room, which a signal's stack may not have:
 * there are some, for as many threads at once; who finds none copies one by one. */
#define SONDE__PYTHON_BATCH 64u
struct sonde__python_room {
    uint32_t taken;
    uint32_t count, at;         /* frames read ahead, and which is next */
    uint32_t over;              /* the run ends with them */
    uint64_t low, high;         /* what page is a copy of */
    struct { uint64_t code, instruction; } frame[SONDE__PYTHON_BATCH];
    struct iovec from[SONDE__PYTHON_BATCH]; /* their code objects, and copies of those */
    char code[SONDE__PYTHON_BATCH][SONDE__PYTHON_CODE_BYTES];
    char page[4096 + SONDE__PYTHON_FRAME_BYTES];
};

struct sonde__python_walk {
    struct sonde__python_room *room; /* NULL = none */
    const struct sonde__python_found *found;
    uint64_t anchor;            /* of the run that is next; 0 = there is none */
    uint64_t frame;             /* that is next in it; 0 = it is over */
    uint64_t outer;             /* anchor, or frame, of the run further out */
    uint64_t state;             /* of the thread, which has the GIL; 0 = it has not */
    uint32_t left;              /* frames that may still be told: lists may be in a circle */
    int direct;                 /* memory is read as it is */
};

/* inside_malloc: not from a handler. Nothing of Python: anchor is 0. sonde__python_end is due. */
void sonde__python_begin(struct sonde__python_walk *w, int inside_malloc);
void sonde__python_end(struct sonde__python_walk *w);

/* The next frame of the run at w->anchor, as a number of segment/python.h. 0: it is over, and
 * w->anchor is that of the next one. */
uint64_t sonde__python_frame(struct sonde__python_walk *w);

/* Does a native frame from sp up to its caller's sp hold the next run's anchor? */
static inline int sonde__python_here(const struct sonde__python_walk *w, uint64_t sp, uint64_t cfa)
{
    return w->anchor && w->anchor >= sp && w->anchor < cfa;
}

void sonde__python_forked(void);    /* in a child: its segment is another */

/* ---- python_memory.c ------------------------------------------------------------------------- */

/* n bytes at addr, which may not be there: 0 or -1. Changes errno. */
int sonde__python_copy(uint64_t addr, void *to, size_t n);
/* The same of count places, one at least and all of one length, one behind the other. */
int sonde__python_copy_all(const struct iovec *from, uint32_t count, void *to);
/* A filter for system calls is, or is going to be, in force. */
void sonde__python_filtered(void);
void sonde__python_start(void);     /* in this process, also in a child */

#endif
