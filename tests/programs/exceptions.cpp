// Exceptions that leave SONDE_SCOPE: the span has the outcome "error", and only that one. Looks at
// the thread's ring by itself; exits 1 and says why.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "sonde/sonde.h"

static uint64_t reserved() { return sonde__tls.ring ? sonde__tls.ring->reserve : 0; }

// The outcome of the span that ended `back` spans ago on this thread.
static unsigned outcome(uint64_t back)
{
    const sonde__ring *ring = sonde__tls.ring;
    const sonde__span_rec &r = ring->rec[(ring->reserve - 1 - back) % SONDE__RING_RECS];
    return static_cast<unsigned>(r.name_tid >> 24 & 0xff);
}

static uint64_t parent(uint64_t back)
{
    const sonde__ring *ring = sonde__tls.ring;
    return ring->rec[(ring->reserve - 1 - back) % SONDE__RING_RECS].parent;
}

#define NEED(x)                                                                                \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            std::fprintf(stderr, "exceptions.cpp:%d: %s\n", __LINE__, #x);                     \
            std::exit(1);                                                                      \
        }                                                                                      \
    } while (0)

static void throws(bool yes)
{
    SONDE_SCOPE("throws");
    if (yes) throw std::runtime_error("wanted");
}

static void catches()
{
    SONDE_SCOPE("catches");
    try {
        throws(true);
    } catch (const std::exception &) {
    }
}

// A scope that is begun and left normally while another exception unwinds the stack.
struct cleans_up {
    ~cleans_up()
    {
        SONDE_SCOPE("clean-up");
    }
};

static void throws_past_a_destructor()
{
    SONDE_SCOPE("outer");
    cleans_up c;
    throw 1;
}

// One that is thrown and caught inside a destructor that itself runs because of another.
struct throws_inside {
    ~throws_inside()
    {
        SONDE_SCOPE("inside");
        try {
            SONDE_SCOPE("inner");
            throw 2;
        } catch (int) {
        }
    }
};

static void check()
{
    SONDE_SCOPE("all");
    throws(false);
    NEED(outcome(0) == SONDE_OK);
    const uint64_t top = parent(0);

    try {
        throws(true);
        NEED(!"reached");
    } catch (const std::exception &) {
    }
    NEED(outcome(0) == SONDE_ERROR);

    catches();
    NEED(outcome(1) == SONDE_ERROR && outcome(0) == SONDE_OK);

    try {
        throws_past_a_destructor();
    } catch (int) {
    }
    NEED(outcome(1) == SONDE_OK && outcome(0) == SONDE_ERROR);

    try {
        throws_inside t;
        throw 3;
    } catch (int) {
    }
    NEED(outcome(1) == SONDE_ERROR && outcome(0) == SONDE_OK);

    // All of them were ended: the next one is again a child of "all".
    const uint64_t before = reserved();
    throws(false);
    NEED(reserved() == before + 1 && parent(0) == top);
}

int main()
{
    check();
    NEED(outcome(0) == SONDE_OK);
    const sonde_trace t = sonde_trace_current();
    NEED(!t.hi && !t.lo && !t.span);
    std::thread other(check);
    other.join();
    return 0;
}
