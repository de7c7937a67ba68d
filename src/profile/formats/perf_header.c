/* perf_header.c - see perf_header.h. Names of threads may hold blanks and numbers: lines are taken
 * apart from what has the most telling form, a time, else from their end. */
#include "profile/formats/perf_header.h"

#include <ctype.h>
#include <string.h>

/* ---- Text ------------------------------------------------------------------------------------ */

struct sonde_perf_text sonde_perf_trim(struct sonde_perf_text t)
{
    while (t.len && (sonde_perf_is_blank(t.s[t.len - 1]) || t.s[t.len - 1] == '\r')) t.len--;
    while (t.len && sonde_perf_is_blank(*t.s)) t.s++, t.len--;
    return t;
}

struct sonde_perf_text sonde_perf_word(struct sonde_perf_text *t)
{
    while (t->len && sonde_perf_is_blank(*t->s)) t->s++, t->len--;
    struct sonde_perf_text w = { t->s, 0 };
    while (w.len < t->len && !sonde_perf_is_blank(w.s[w.len])) w.len++;
    t->s += w.len;
    t->len -= w.len;
    return w;
}

/* A whole number at the start of *t, which is moved past it. 1 if there is one that fits. */
static int perf_header_number(struct sonde_perf_text *t, uint64_t *out)
{
    const size_t had = t->len;
    uint64_t v = 0;
    for (; t->len && isdigit((unsigned char)*t->s); t->s++, t->len--) {
        if (__builtin_mul_overflow(v, 10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(*t->s - '0'), &v)) {
            return 0;
        }
    }
    *out = v;
    return t->len < had;
}

int sonde_perf_text_is(struct sonde_perf_text t, const char *s)
{
    return t.len == strlen(s) && !memcmp(t.s, s, t.len);
}

int sonde_perf_starts(struct sonde_perf_text t, const char *s)
{
    const size_t n = strlen(s);
    return t.len >= n && !memcmp(t.s, s, n);
}

int sonde_perf_ends(struct sonde_perf_text t, const char *s)
{
    const size_t n = strlen(s);
    return t.len >= n && !memcmp(t.s + t.len - n, s, n);
}

int sonde_perf_hex(struct sonde_perf_text w, uint64_t *out)
{
    if (w.len > 2 && w.s[0] == '0' && w.s[1] == 'x') w.s += 2, w.len -= 2;
    if (!w.len || w.len > 16) return 0;
    *out = 0;
    for (size_t i = 0; i < w.len; i++) {
        if (!isxdigit((unsigned char)w.s[i])) return 0;
        const int c = tolower((unsigned char)w.s[i]);
        *out = *out << 4 | (uint64_t)(isdigit(c) ? c - '0' : c - 'a' + 10);
    }
    return 1;
}

/* ---- The header ------------------------------------------------------------------------------ */

/* "1234.567890:", of any precision up to nanoseconds. */
static int perf_header_parse_time(struct sonde_perf_text w, uint64_t *out)
{
    uint64_t seconds, ns = 0;
    if (!perf_header_number(&w, &seconds) || seconds > UINT32_MAX || !w.len || *w.s != '.') {
        return 0;
    }
    w.s++, w.len--;
    size_t digits = 0;
    for (; w.len && isdigit((unsigned char)*w.s) && digits < 9; w.s++, w.len--, digits++) {
        ns = ns * 10 + (uint64_t)(*w.s - '0');
    }
    if (!digits || w.len != 1 || *w.s != ':') return 0;
    for (; digits < 9; digits++) ns *= 10;
    *out = seconds * 1000000000u + ns;
    return 1;
}

/* "pid/tid", or "tid" alone. */
static int parse_ids(struct sonde_perf_text w, uint64_t *pid, uint64_t *tid)
{
    *pid = 0;
    if (!perf_header_number(&w, tid) || *tid > UINT32_MAX) return 0;
    if (!w.len) return 1;
    *pid = *tid;
    if (*w.s != '/') return 0;
    w.s++, w.len--;
    return perf_header_number(&w, tid) && *tid <= UINT32_MAX && !w.len;
}

static int is_cpu(struct sonde_perf_text w)
{
    uint64_t v;
    if (w.len < 3 || *w.s != '[' || w.s[w.len - 1] != ']') return 0;
    w.s++, w.len -= 2;
    return perf_header_number(&w, &v) && !w.len;
}

/* Flags of -F misc: one letter for user, kernel, host or guest, and some that seldom come. */
static int is_misc(struct sonde_perf_text w)
{
    for (size_t i = 0; i < w.len; i++) {
        if (!w.s[i] || !strchr("KUHGgMESp", w.s[i])) return 0;
    }
    return w.len > 0 && w.len <= 4;
}

/* What follows the time: a period, if there is one, and the event's name: "cycles:",
 * "cpu/config=1/:", "sched:sched_switch:". */
static int perf_header_parse_event(struct sonde_perf_text t, struct sonde_perf_header *h)
{
    struct sonde_perf_text after = t, w = sonde_perf_word(&after);
    struct sonde_perf_text digits = w;
    if (w.len && perf_header_number(&digits, &h->period) && !digits.len) {
        h->has_period = 1;
        w = sonde_perf_word(&after);
    }
    if (w.len < 2 || w.s[w.len - 1] != ':') return 0;
    h->event = (struct sonde_perf_text){ w.s, w.len - 1 };
    h->rest = sonde_perf_trim(after);
    return 1;
}

/* The last word of *t, which is cut off from it. */
static struct sonde_perf_text last_word(struct sonde_perf_text *t)
{
    while (t->len && sonde_perf_is_blank(t->s[t->len - 1])) t->len--;
    size_t start = t->len;
    while (start && !sonde_perf_is_blank(t->s[start - 1])) start--;
    const struct sonde_perf_text w = { t->s + start, t->len - start };
    t->len = start;
    return w;
}

/* Who ran and where: "comm pid/tid [cpu] flags", all of it before a time or an event. */
static int parse_who(struct sonde_perf_text t, struct sonde_perf_header *h)
{
    struct sonde_perf_text w = last_word(&t);
    if (is_misc(w)) w = last_word(&t);
    if (is_cpu(w)) w = last_word(&t);
    if (!w.len || !parse_ids(w, &h->pid, &h->tid)) return 0;
    h->comm = sonde_perf_trim(t);
    return h->comm.len > 0;
}

int sonde_perf_header_timed(struct sonde_perf_text line, struct sonde_perf_header *h)
{
    struct sonde_perf_text t = line;
    if (!line.len || sonde_perf_is_blank(*line.s) || *line.s == '#') return 0;
    for (struct sonde_perf_text w = sonde_perf_word(&t); w.len; w = sonde_perf_word(&t)) {
        *h = SONDE_PERF_HEADER_NONE;
        if (!perf_header_parse_time(w, &h->time_ns)) continue;
        const struct sonde_perf_text who = { line.s, (size_t)(w.s - line.s) };
        if (parse_who(who, h) && perf_header_parse_event(t, h)) return 1;
    }
    return 0;
}

int sonde_perf_header_untimed(struct sonde_perf_text line, struct sonde_perf_header *h)
{
    struct sonde_perf_text t = line;
    if (!line.len || *line.s == '#') return 0;
    for (struct sonde_perf_text w = sonde_perf_word(&t); w.len; w = sonde_perf_word(&t)) {
        *h = SONDE_PERF_HEADER_NONE;
        const struct sonde_perf_text who = { line.s, (size_t)(w.s - line.s) };
        const struct sonde_perf_text rest = { w.s, (size_t)(line.s + line.len - w.s) };
        if (parse_who(who, h) && !isdigit((unsigned char)*h->comm.s) &&
            perf_header_parse_event(rest, h) && (!h->rest.len || *h->rest.s == '(')) {
            return 1;
        }
    }
    return 0;
}

/* ---- Any choice of fields -------------------------------------------------------------------- */

/* Columns that a word has with the blanks before it, less the one that separates it. */
static size_t perf_header_columns(struct sonde_perf_text line, struct sonde_perf_text w)
{
    size_t blanks = 0;
    while (w.s - blanks > line.s && sonde_perf_is_blank(w.s[-1 - (ptrdiff_t)blanks])) blanks++;
    return w.len + blanks - (w.s - blanks > line.s && blanks);
}

/* Ids are printed as "%5d", periods as "%10u": a narrow number belongs to the thread's name, a wide
 * one, or one above the highest pid there may be, is a period. */
enum { ID_COLUMNS = 5, PERIOD_COLUMNS = 10, ADDRESS_COLUMNS = 16, PID_MAX = 1 << 22 };

static int is_period(struct sonde_perf_text line, struct sonde_perf_text w, uint64_t *out)
{
    struct sonde_perf_text digits = w;
    return w.len && perf_header_number(&digits, out) && !digits.len &&
           (perf_header_columns(line, w) >= PERIOD_COLUMNS || *out > PID_MAX);
}

static int is_ids(struct sonde_perf_text line, struct sonde_perf_text w,
                  struct sonde_perf_header *h)
{
    uint64_t pid, tid;
    if (!w.len || !parse_ids(w, &pid, &tid)) return 0;
    if (perf_header_columns(line, w) < ID_COLUMNS && sonde_perf_trim(line).s != w.s) return 0;
    h->pid = pid;
    h->tid = tid;
    return 1;
}

/* From the end: the event, its period, the time, flags, the CPU, ids; what is left is the name. */
int sonde_perf_header_sparse(struct sonde_perf_text line, struct sonde_perf_header *h)
{
    uint64_t period;
    while (line.len && isspace((unsigned char)line.s[line.len - 1])) line.len--;
    struct sonde_perf_text t = line, next = t, w = last_word(&next);
    *h = SONDE_PERF_HEADER_NONE;
    if (!w.len || *w.s == '#') return 0;
    if (w.len > 1 && w.s[w.len - 1] == ':' && !perf_header_parse_time(w, &h->time_ns)) {
        h->event = (struct sonde_perf_text){ w.s, w.len - 1 };
        t = next, w = last_word(&next);
    }
    if (is_period(line, w, &period)) {
        h->period = period;
        h->has_period = 1;
        t = next, w = last_word(&next);
    }
    if (perf_header_parse_time(w, &h->time_ns)) t = next, w = last_word(&next);
    struct sonde_perf_text before = next, ids = last_word(&before);
    if (is_misc(w) && (is_cpu(ids) || is_ids(line, ids, h))) t = next, w = last_word(&next);
    if (is_cpu(w)) t = next, w = last_word(&next);
    if (is_ids(line, w, h)) t = next;
    h->comm = sonde_perf_trim(t);
    return 1;
}

int sonde_perf_header_single(struct sonde_perf_text line, struct sonde_perf_header *h)
{
    struct sonde_perf_text t = line, frame = { NULL, 0 };
    uint64_t address, time;
    int after_time = 0;
    if (!line.len || *line.s == '\t' || *line.s == '#') return 0;
    for (struct sonde_perf_text w = sonde_perf_word(&t); w.len; w = sonde_perf_word(&t)) {
        const int wide = (after_time && sonde_perf_ends(sonde_perf_trim(line), ")")) ||
                         perf_header_columns(line, w) >= ADDRESS_COLUMNS;
        after_time = perf_header_parse_time(w, &time);
        if (!wide || !sonde_perf_hex(w, &address) || !sonde_perf_trim(t).len) continue;
        frame = (struct sonde_perf_text){ w.s, (size_t)(line.s + line.len - w.s) };
        /* With nothing before it but more blanks than that: a call chain that lost its tabs. */
        if (frame.s == sonde_perf_trim(line).s &&
            perf_header_columns(line, w) > ADDRESS_COLUMNS + 1) {
            return 0;
        }
    }
    if (!frame.s) return 0;
    const struct sonde_perf_text header = { line.s, (size_t)(frame.s - line.s) };
    sonde_perf_header_sparse(header, h);
    h->rest = sonde_perf_trim(frame);
    return 1;
}
