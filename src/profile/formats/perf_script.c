/* perf_script.c - what `perf script` prints, read: a line a sample, a line a frame, a blank line.
 *
 *   worker one  4242/4243 [001]  1234.567890:    1000000 cpu-clock:u:
 *           55d0c0de1234 inner (inlined)
 *           55d0c0de1234 outer+0x14 (/usr/bin/prog)
 *           7f12deadbeef [unknown] (/usr/lib/libx.so.1)
 *
 * Frames come innermost first; inlined ones belong to the address of the next that is not. Clocks
 * (cpu-clock, task-clock) count nanoseconds and become CPU time; of other events samples are counted,
 * or their periods if that is asked for. Times are perf's own, since boot: good for lengths and order,
 * not for the date.
 *
 * What is printed depends on the version and on -F: there may be no time, no period, no process id,
 * no module, no address, lines of source code between frames (srcline), and editors and mail take
 * indentation away. A line is tried as a header with a time, which is hardly anything else, then as
 * a frame, then as a header without a time. Of several events in one file one is read: samples of
 * cycles and of page faults have no sum. Lines that are nothing of all this are passed over, unless
 * there are more of them than others. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/format.h"
#include "sonde/sonde.h"

enum { DEPTH_MAX = 16384, INLINED_MAX = 256 };

struct text {
    const char *s;
    size_t len;
};

/* The first line of a sample. */
struct header {
    struct text comm, event, rest; /* rest: of the line, after the event */
    uint64_t pid, tid, time_ns;
    uint64_t period;
    int has_period;
};

struct reader {
    struct sonde_profile *p;
    struct sonde_import *how;
    struct sonde_err *err;
    size_t number;                     /* of the line */
    size_t good, bad;                  /* lines */
    struct sonde_err first_bad;
    struct text event;                 /* that is read; len 0 = none seen yet */
    struct text other;                 /* the first that is not */
    uint64_t others;                   /* samples of others */
    int cut;                           /* the stack at hand has more frames than fit */
    uint64_t cuts;
    int in_sample;                     /* 1; of another event 2 */
    struct sonde_profile_sample sample;
    uint32_t path[DEPTH_MAX];          /* locations, the leaf first */
    uint32_t depth;
    struct sonde_profile_line lines[INLINED_MAX]; /* waiting for their address, innermost first */
    uint32_t inlined;
};

#define DAMAGED(r, text, ...)                                                                  \
    sonde_err_set((r)->err, SONDE_EFORMAT, "line %zu: " text, (r)->number __VA_OPT__(,) __VA_ARGS__)

static int no_room(const struct reader *r)
{
    return sonde_err_set(r->err, SONDE_ENOMEM,
                         "line %zu: the profile needs more than its %zu MB of memory", r->number,
                         r->p->bytes_max >> 20);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static int is_blank(char c) { return c == ' ' || c == '\t'; }

static struct text trim(struct text t)
{
    while (t.len && (is_blank(t.s[t.len - 1]) || t.s[t.len - 1] == '\r')) t.len--;
    while (t.len && is_blank(*t.s)) t.s++, t.len--;
    return t;
}

/* The next word of *t, which is moved past it; len 0: there is none. */
static struct text word(struct text *t)
{
    while (t->len && is_blank(*t->s)) t->s++, t->len--;
    struct text w = { t->s, 0 };
    while (w.len < t->len && !is_blank(w.s[w.len])) w.len++;
    t->s += w.len;
    t->len -= w.len;
    return w;
}

/* A whole number at the start of *t, which is moved past it. 1 if there is one that fits. */
static int number(struct text *t, uint64_t *out)
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

static int text_is(struct text t, const char *s)
{
    return t.len == strlen(s) && !memcmp(t.s, s, t.len);
}

static int starts_with(struct text t, const char *s)
{
    const size_t n = strlen(s);
    return t.len >= n && !memcmp(t.s, s, n);
}

static int ends_with(struct text t, const char *s)
{
    const size_t n = strlen(s);
    return t.len >= n && !memcmp(t.s + t.len - n, s, n);
}

static uint32_t string(struct reader *r, struct text t)
{
    return sonde_profile_string(r->p, t.s, t.len);
}

/* ---- The header ------------------------------------------------------------------------------ */

/* "1234.567890:", of any precision up to nanoseconds. */
static int parse_time(struct text w, uint64_t *out)
{
    uint64_t seconds, ns = 0;
    if (!number(&w, &seconds) || seconds > UINT32_MAX || !w.len || *w.s != '.') return 0;
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
static int parse_ids(struct text w, uint64_t *pid, uint64_t *tid)
{
    *pid = 0;
    if (!number(&w, tid) || *tid > UINT32_MAX) return 0;
    if (!w.len) return 1;
    *pid = *tid;
    if (*w.s != '/') return 0;
    w.s++, w.len--;
    return number(&w, tid) && *tid <= UINT32_MAX && !w.len;
}

static int is_cpu(struct text w)
{
    uint64_t v;
    if (w.len < 3 || *w.s != '[' || w.s[w.len - 1] != ']') return 0;
    w.s++, w.len -= 2;
    return number(&w, &v) && !w.len;
}

/* What follows the time: a period, if there is one, and the event's name: "cycles:", "cpu/config=1/:",
 * "sched:sched_switch:". */
static int parse_event(struct text t, struct header *h)
{
    struct text after = t, w = word(&after);
    struct text digits = w;
    if (w.len && number(&digits, &h->period) && !digits.len) {
        h->has_period = 1;
        w = word(&after);
    }
    if (w.len < 2 || w.s[w.len - 1] != ':') return 0;
    h->event = (struct text){ w.s, w.len - 1 };
    h->rest = trim(after);
    return 1;
}

/* Names of threads may hold spaces and numbers, so the line is taken apart from its time, which
 * has the most telling form, backwards. */
static int parse_header(struct text line, struct header *h)
{
    struct text t = line, before = { line.s, 0 }, last = { line.s, 0 };
    if (!line.len || is_blank(*line.s) || *line.s == '#') return 0;
    for (struct text w = word(&t); w.len; before = last, last = w, w = word(&t)) {
        *h = (struct header){ 0 };
        const struct text ids = is_cpu(last) ? before : last;
        if (!parse_time(w, &h->time_ns) || !parse_ids(ids, &h->pid, &h->tid)) continue;
        h->comm = trim((struct text){ line.s, (size_t)(ids.s - line.s) });
        if (h->comm.len && parse_event(t, h)) return 1;
    }
    return 0;
}

/* The same without a time: "comm pid/tid [cpu] period event:", and nothing after the event. */
static int parse_header_without_time(struct text line, struct header *h)
{
    struct text t = line, before = { line.s, 0 }, last = { line.s, 0 };
    if (!line.len || *line.s == '#') return 0;
    for (struct text w = word(&t); w.len; before = last, last = w, w = word(&t)) {
        *h = (struct header){ 0 };
        const struct text ids = is_cpu(last) ? before : last;
        if (!ids.len || !parse_ids(ids, &h->pid, &h->tid)) continue;
        h->comm = trim((struct text){ line.s, (size_t)(ids.s - line.s) });
        const struct text rest = { w.s, (size_t)(line.s + line.len - w.s) };
        if (h->comm.len && !isdigit((unsigned char)*h->comm.s) && parse_event(rest, h) &&
            (!h->rest.len || *h->rest.s == '(')) {
            return 1;
        }
    }
    return 0;
}

/* "cpu-clock", with whatever modifiers: ":u", ":ppp". */
static int is_clock(struct text event)
{
    const char *colon = memchr(event.s, ':', event.len);
    if (colon) event.len = (size_t)(colon - event.s);
    return text_is(event, "cpu-clock") || text_is(event, "task-clock");
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static int parse_hex(struct text w, uint64_t *out)
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

/* Where the module begins in "symbol+0x14 (module", 0 = nowhere. Symbols and paths may hold spaces
 * and parentheses: it is behind the last " (" that a path or "[" follows, else behind the last. */
static size_t module_start(struct text t)
{
    size_t last = 0;
    for (size_t i = t.len; i > 0; i--) {
        if (t.s[i - 1] != '(' || (i > 1 && !is_blank(t.s[i - 2]))) continue;
        if (!last) last = i;
        if (i < t.len && (t.s[i] == '/' || t.s[i] == '[')) return i;
    }
    return last;
}

/* Without the offset in the function. */
static struct text without_offset(struct text symbol)
{
    for (size_t i = symbol.len; i-- > 0;) {
        if (symbol.s[i] == '+' && symbol.len - i > 3 && !memcmp(symbol.s + i, "+0x", 3)) {
            symbol.len = i;
            break;
        }
        if (!isxdigit((unsigned char)symbol.s[i]) && symbol.s[i] != 'x') break;
    }
    return symbol;
}

/* "symbol+0x14 (module)" taken apart. */
static int split_frame(struct text t, struct text *symbol, struct text *module, int *deleted)
{
    t = trim(t);
    *deleted = ends_with(t, " (deleted))");
    if (!t.len || t.s[t.len - 1] != ')') return 0;
    t.len -= *deleted ? strlen(" (deleted))") : 1;
    const size_t open = module_start(t);
    if (!open) return 0;
    *module = (struct text){ t.s + open, t.len - open };
    *symbol = without_offset(trim((struct text){ t.s, open - 1 }));
    return 1;
}

static uint32_t module_flags(struct text path, int deleted)
{
    static const char *const not_kernel[] = { "[vsyscall]", "[heap]", "[stack]", "[uprobes]" };
    uint32_t flags = deleted ? SONDE_MODULE_DELETED : 0;
    if (text_is(path, "[vdso]")) return flags | SONDE_MODULE_VDSO;
    if (starts_with(path, "/tmp/perf-") && ends_with(path, ".map")) {
        return flags | SONDE_MODULE_JIT;
    }
    if (ends_with(path, ".ko") || ends_with(path, ".ko.xz") || ends_with(path, ".ko.zst")) {
        return flags | SONDE_MODULE_KERNEL;
    }
    if (!path.len || *path.s != '[') return flags;
    for (size_t i = 0; i < sizeof(not_kernel) / sizeof(not_kernel[0]); i++) {
        if (text_is(path, not_kernel[i])) return flags;
    }
    return flags | SONDE_MODULE_KERNEL;
}

/* 0 = unknown, or no memory, which *failed tells. */
static uint32_t frame_module(struct reader *r, struct text path, int deleted, int *failed)
{
    if (!path.len || text_is(path, "[unknown]")) return 0;
    const struct sonde_profile_module m = { .path = string(r, path),
                                            .flags = module_flags(path, deleted) };
    const uint32_t id = m.path ? sonde_profile_module(r->p, &m) : 0;
    *failed |= !id;
    return id;
}

/* A line of the frame's location: inlined functions wait for it in r->lines. */
static int add_line(struct reader *r, struct text symbol, uint32_t module)
{
    if (!symbol.len || text_is(symbol, "[unknown]")) return 0;
    if (r->inlined == INLINED_MAX) {
        return DAMAGED(r, "more than %d inlined functions at one address", INLINED_MAX);
    }
    const struct sonde_profile_function f = { .name = string(r, symbol), .module = module };
    const uint32_t function = f.name ? sonde_profile_function(r->p, &f) : 0;
    if (!function) return no_room(r);
    r->lines[r->inlined++] = (struct sonde_profile_line){ .function = function };
    return 0;
}

static int add_location(struct reader *r, uint32_t module, uint64_t address)
{
    if (r->depth == DEPTH_MAX) { /* the outer ones, which come last, are left out */
        r->cut = 1;
        r->inlined = 0;
        return 0;
    }
    /* perf prints where a caller goes on; what it is in is the call before that. */
    if (r->depth && address) address--;
    const uint32_t id =
        sonde_profile_lines_location(r->p, module, address, r->lines, r->inlined);
    r->inlined = 0;
    if (!id) return no_room(r);
    r->path[r->depth++] = id;
    return 0;
}

/* "dir/file.c:12", which perf prints below a frame with -F +srcline. */
static int is_source_line(struct text t)
{
    const char *colon = memrchr(t.s, ':', t.len);
    size_t digits = 0;
    if (!colon || colon == t.s || memchr(t.s, ' ', t.len)) return 0;
    for (const char *c = colon + 1; c < t.s + t.len; c++, digits++) {
        if (!isdigit((unsigned char)*c)) return 0;
    }
    return digits > 0 && colon[-1] != ':';
}

/* What a frame is made of: "address symbol (module)", without the address or, as far as
 * anything_goes, without the module. 1 if it is one. */
static int parse_frame(struct text line, int anything_goes, uint64_t *address, struct text *symbol,
                       struct text *path, int *deleted)
{
    struct text t = line;
    *path = (struct text){ NULL, 0 };
    *deleted = 0;
    const int has_address = parse_hex(word(&t), address);
    if (has_address && split_frame(t, symbol, path, deleted)) return 1;
    if (!anything_goes || is_source_line(line)) return 0;
    *symbol = without_offset(trim(t));
    if (has_address && symbol->len) return 1;
    *address = 0;
    if (split_frame(line, symbol, path, deleted)) return symbol->len > 0;
    *symbol = without_offset(line);
    return symbol->len > 0;
}

/* 1: read; 0: not a frame; negative: an error. */
static int read_frame(struct reader *r, struct text line, int anything_goes)
{
    struct text symbol, path;
    uint64_t address;
    int deleted, failed = 0;
    if (!parse_frame(line, anything_goes, &address, &symbol, &path, &deleted)) return 0;
    if (r->in_sample == 2) return 1;
    const int inlined = text_is(path, "inlined");
    const uint32_t module = inlined ? 0 : frame_module(r, path, deleted, &failed);
    if (failed) return no_room(r);
    int rc = add_line(r, symbol, module);
    if (!rc && !inlined) rc = add_location(r, module, address);
    return rc ? rc : 1;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static int end_sample(struct reader *r)
{
    const int own = r->in_sample == 1;
    r->in_sample = 0;
    if (!own) return 0;
    /* Inlined functions at the end of a stack that was cut. */
    if (r->inlined) {
        const int rc = add_location(r, 0, 0);
        if (rc) return rc;
    }
    if (!r->depth) {
        r->path[r->depth++] = sonde_profile_named_location(r->p, "[unknown]", 9);
    }
    while (r->depth) {
        r->sample.stack = sonde_profile_stack(r->p, r->sample.stack, r->path[--r->depth]);
        if (!r->sample.stack) return no_room(r);
    }
    if (r->cut) {
        r->sample.flags |= SONDE_SAMPLE_TRUNCATED;
        r->cuts++;
    }
    const int rc = sonde_profile_add_sample(r->p, &r->sample);
    if (rc == SONDE_EFORMAT) return DAMAGED(r, "the periods add up to more than 2^64");
    return rc ? no_room(r) : 0;
}

static int same_text(struct text a, struct text b)
{
    return a.len == b.len && !memcmp(a.s, b.s, a.len);
}

/* 1 if this is the event that is read: the one that was asked for, with or without modifiers (":u"),
 * else the first in the file. */
static int is_wanted(struct reader *r, struct text event)
{
    if (r->how && r->how->event) {
        const size_t n = strlen(r->how->event);
        if (starts_with(event, r->how->event) && (event.len == n || event.s[n] == ':')) return 1;
    } else {
        if (!r->event.len) r->event = event;
        if (same_text(event, r->event)) return 1;
    }
    if (!r->others++) r->other = event;
    return 0;
}

static int begin_sample(struct reader *r, const struct header *h)
{
    struct sonde_profile *p = r->p;
    if (starts_with(h->event, "PERF_RECORD_")) return 0; /* --show-mmap-events and the like */
    if (!is_wanted(r, h->event)) {
        r->in_sample = 2;
        return 0;
    }
    const uint32_t comm = string(r, h->comm);
    const uint32_t thread = sonde_profile_thread(p, (uint32_t)h->pid, (uint32_t)h->tid,
                                                 sonde_profile_str(p, comm));
    if (!thread) return no_room(r);
    const int clock = is_clock(h->event) && h->has_period;
    r->sample = (struct sonde_profile_sample){
        .time_ns = h->time_ns,
        .weight = h->has_period && (clock || (r->how && r->how->periods)) ? h->period : 1,
        .thread = thread,
        .count = 1,
        .kind = clock ? SONDE_SAMPLE_CPU : SONDE_SAMPLE_OTHER,
    };
    r->in_sample = 1;
    r->cut = 0;
    if (h->time_ns && (!p->start_ns || h->time_ns < p->start_ns)) p->start_ns = h->time_ns;
    if (h->time_ns > p->end_ns) p->end_ns = h->time_ns;
    /* Without call chains the only frame is on the same line. */
    const int rc = h->rest.len ? read_frame(r, h->rest, 0) : 0;
    return rc < 0 ? rc : 0;
}

static int read_header(struct reader *r, const struct header *h)
{
    const int rc = end_sample(r);
    r->good++;
    return rc ? rc : begin_sample(r, h);
}

static int read_line(struct reader *r, struct text line)
{
    struct header h;
    const struct text content = trim(line);
    if (!content.len) return end_sample(r);
    if (*content.s == '#') return 0;
    /* Names of threads are right-aligned: those that are short have blanks in front, as frames. */
    if (parse_header(content, &h)) return read_header(r, &h);
    if (r->in_sample) {
        const int rc = read_frame(r, content, 0);
        r->good += rc > 0;
        if (rc) return rc < 0 ? rc : 0;
    }
    if (parse_header_without_time(content, &h)) return read_header(r, &h);
    if (r->in_sample && is_blank(*line.s)) {
        if (is_source_line(content)) return 0;
        const int rc = read_frame(r, content, 1);
        r->good += rc > 0;
        if (rc) return rc < 0 ? rc : 0;
    }
    if (!r->bad++) {
        sonde_err_set(&r->first_bad, SONDE_EFORMAT,
                      "line %zu: neither a sample ('comm pid/tid [cpu] time: period event:') nor a "
                      "frame ('address symbol (module)'): '%.*s'", r->number,
                      (int)(content.len < 60 ? content.len : 60), content.s);
    }
    return 0;
}

/* What there is to say about the file as a whole; an error if it is not one of perf's. */
static int judge(struct reader *r)
{
    if (r->bad > r->good) return sonde_err_set(r->err, SONDE_EFORMAT, "%s", r->first_bad.text);
    if (!r->p->samples_count && r->others) {
        return sonde_err_set(r->err, SONDE_EINVAL, "no samples of the event '%s'; there is '%.*s'",
                             r->how->event, (int)(r->other.len < 100 ? r->other.len : 100),
                             r->other.s);
    }
    if (!r->p->samples_count) {
        return sonde_err_set(r->err, SONDE_EFORMAT,
                             "no samples in it; was it printed by perf script?");
    }
    if (r->others && !(r->how && r->how->event)) {
        sonde_import_note(r->how, "the event is '%.*s'; %llu samples of '%.*s' and others are left out "
                          "(--event chooses)", (int)(r->event.len < 100 ? r->event.len : 100),
                          r->event.s, (unsigned long long)r->others,
                          (int)(r->other.len < 100 ? r->other.len : 100), r->other.s);
    }
    if (r->cuts) {
        sonde_import_note(r->how, "%llu stacks have more than %d frames, of which the outer ones are "
                          "left out", (unsigned long long)r->cuts, DEPTH_MAX);
    }
    if (r->bad) {
        sonde_import_note(r->how, "%zu lines were passed over, the first is %s", r->bad,
                          r->first_bad.text);
    }
    return 0;
}

static struct text next_line(const char **at, const char *end)
{
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    const struct text line = { *at, (size_t)((newline ? newline : end) - *at) };
    *at = newline ? newline + 1 : end;
    return line;
}

static int perf_script_read(const char *data, size_t len, struct sonde_import *how,
                            struct sonde_profile *p, struct sonde_err *err)
{
    struct reader *r = sonde__calloc(1, sizeof(*r));
    if (!r) return sonde_err_set(err, SONDE_ENOMEM, "no memory to read it");
    r->p = p;
    r->how = how;
    r->err = err;
    r->number = 1;
    int rc = 0;
    for (const char *at = data, *end = data + len; at < end && !rc; r->number++) {
        rc = read_line(r, next_line(&at, end));
    }
    if (!rc) rc = end_sample(r);
    if (!rc) rc = judge(r);
    p->engine = sonde_profile_cstring(p, "import");
    sonde__free(r);
    return rc;
}

/* One of the first lines is a header, and one that has no time is followed by a frame. */
static int perf_script_probe(const char *data, size_t len)
{
    enum { LINES = 16 };
    int lines = 0;
    for (const char *at = data, *end = data + len; at < end && lines < LINES;) {
        struct header h;
        const struct text line = trim(next_line(&at, end));
        if (!line.len || *line.s == '#') continue;
        if (parse_header(line, &h)) return 1;
        lines++;
        if (!parse_header_without_time(line, &h) || at == end) continue;
        const char *ahead = at;
        struct text frame = trim(next_line(&ahead, end)), symbol, path;
        uint64_t address;
        int deleted;
        if (parse_frame(frame, 0, &address, &symbol, &path, &deleted)) return 1;
    }
    return 0;
}

extern const struct sonde_format_ops sonde_format_perf_script;
const struct sonde_format_ops sonde_format_perf_script = {
    .name = "perf-script",
    .summary = "the text that perf script prints (only to be read)",
    .content_type = "text/plain; charset=utf-8",
    .suffix = ".perf",
    .probe = perf_script_probe,
    .read = perf_script_read,
};
