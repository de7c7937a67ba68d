/* trace.c - the trace a thread is in, and its W3C text form. */
#include <string.h>

#include "record/state.h"

/* The thread's first call decides which trace it continues, and only opening reads that. */
static void set_up(void)
{
    sonde__ensure_open();
    sonde__thread_setup();
}

struct sonde_trace sonde_trace_current(void)
{
    set_up();
    const struct sonde__tls *t = &sonde__tls;
    return (struct sonde_trace){ t->trace_hi, t->trace_lo, t->span };
}

struct sonde_trace sonde_trace_set(struct sonde_trace next)
{
    const struct sonde_trace before = sonde_trace_current();
    sonde__tls.trace_hi = next.hi;
    sonde__tls.trace_lo = next.lo;
    sonde__tls.span = next.span;
    return before;
}

struct sonde_trace sonde_trace_new(void)
{
    set_up();
    const uint64_t hi = sonde__rand(&sonde__tls), lo = sonde__rand(&sonde__tls);
    return (struct sonde_trace){ hi, lo, 0 };
}

static char *record_trace_put_hex(char *out, uint64_t v)
{
    for (int shift = 60; shift >= 0; shift -= 4) *out++ = "0123456789abcdef"[v >> shift & 15];
    return out;
}

void sonde_traceparent_format(struct sonde_trace t, char out[SONDE_TRACEPARENT_SIZE])
{
    if (!(t.hi | t.lo)) t = sonde_trace_new();
    if (!t.span) {
        set_up();
        t.span = sonde__rand(&sonde__tls); /* the format has no way to say "none" */
    }
    char *p = out;
    memcpy(p, "00-", 3);
    p = record_trace_put_hex(record_trace_put_hex(p + 3, t.hi), t.lo);
    *p++ = '-';
    p = record_trace_put_hex(p, t.span);
    memcpy(p, "-01", 4);
}

/* 16 lower-case hex digits. 0, or -1. */
static int get_hex(const char *p, uint64_t *out)
{
    uint64_t v = 0;
    for (int i = 0; i < 16; i++) {
        const char c = p[i];
        unsigned d;
        if (c >= '0' && c <= '9') d = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f') d = (unsigned)(c - 'a' + 10);
        else return -1;
        v = v << 4 | d;
    }
    *out = v;
    return 0;
}

static int is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

int sonde_traceparent_parse(const char *text, struct sonde_trace *out)
{
    struct sonde_trace t;
    const size_t len = text ? strnlen(text, 512) : 0;
    if (len < 55 || text[2] != '-' || text[35] != '-' || text[52] != '-') return SONDE_EINVAL;
    if (!is_hex(text[0]) || !is_hex(text[1]) || !is_hex(text[53]) || !is_hex(text[54])) {
        return SONDE_EINVAL;
    }
    /* Version ff is invalid; versions after 00 may add fields behind another dash. */
    const int v00 = text[0] == '0' && text[1] == '0';
    if ((text[0] == 'f' && text[1] == 'f') || (v00 && len != 55)) return SONDE_EINVAL;
    if (len > 55 && text[55] != '-') return SONDE_EINVAL;
    if (get_hex(text + 3, &t.hi) || get_hex(text + 19, &t.lo) || get_hex(text + 36, &t.span)) {
        return SONDE_EINVAL;
    }
    if (!(t.hi | t.lo) || !t.span) return SONDE_EINVAL;
    *out = t;
    return 0;
}
