/* perf_script.c - what `perf script` prints, read: a line a sample, a line a frame, a blank line.
 *
 *   worker one  4242/4243 [001]  1234.567890:    1000000 cpu-clock:u:
 *           55d0c0de1234 inner (inlined)
 *           55d0c0de1234 outer+0x14 (/usr/bin/prog)
 *           7f12deadbeef [unknown] (/usr/lib/libx.so.1)
 *
 * Frames come innermost first; inlined ones belong to the address of the next that is not. Clocks
 * (cpu-clock, task-clock) count nanoseconds and become CPU time; of other events samples are
 * counted, or their periods if that is asked for. Times are perf's own, since boot: good for
 * lengths and order, not for the date.
 *
 * What is printed depends on the version and on -F: there may be no time, no period, no process id,
 * no module, no address, lines of source code between frames (srcline), and editors and mail take
 * indentation away. A line is tried as a header with a time, which is hardly anything else, then as
 * a frame, then as a header without a time, and at last, if no sample is at hand and a frame
 * follows, as a header of whatever fields there are. With -F ip,sym there is none: frames after a
 * blank line are a sample. Of several events in one file one is read: samples of cycles and of page
 * faults have no sum. Lines that are nothing of all this are passed over, unless there are more of
 * them than others. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "profile/format.h"
#include "profile/formats/perf_header.h"
#include "sonde/sonde.h"

enum { DEPTH_MAX = 16384, INLINED_MAX = 256, EVENTS_MAX = 16 };

struct perf_script_reader {
    struct sonde_profile *p;
    struct sonde_import *how;
    struct sonde_err *err;
    size_t number;                     /* of the line */
    size_t good, bad;                  /* lines */
    struct sonde_err first_bad;
    struct sonde_perf_text event;      /* that is read; len 0 = none seen yet */
    struct sonde_perf_text other[EVENTS_MAX]; /* that are not, the first of them */
    uint32_t other_count;
    uint64_t others;                   /* samples of others */
    int cut;                           /* the stack at hand has more frames than fit */
    uint64_t cuts;
    int in_sample;                     /* 1; of another event 2 */
    int single;                        /* the sample at hand has its frame on its header's line */
    struct sonde_perf_text ahead;      /* the next line */
    struct sonde_profile_sample sample;
    uint32_t path[DEPTH_MAX];          /* locations, the leaf first */
    uint32_t depth;
    struct sonde_profile_line lines[INLINED_MAX]; /* waiting for their address, innermost first */
    uint32_t inlined;
};

#define DAMAGED(r, text, ...)                                                                  \
    sonde_err_set((r)->err, SONDE_EFORMAT, "line %zu: " text, (r)->number __VA_OPT__(,) __VA_ARGS__)

static int perf_script_no_room(const struct perf_script_reader *r)
{
    return sonde_err_set(r->err, SONDE_ENOMEM,
                         "line %zu: the profile needs more than its %zu MB of memory", r->number,
                         r->p->bytes_max >> 20);
}

static uint32_t perf_script_string(struct perf_script_reader *r, struct sonde_perf_text t)
{
    return sonde_profile_string(r->p, t.s, t.len);
}

/* "cpu-clock", with whatever modifiers: ":u", ":ppp". */
static int is_clock(struct sonde_perf_text event)
{
    const char *colon = memchr(event.s, ':', event.len);
    if (colon) event.len = (size_t)(colon - event.s);
    return sonde_perf_text_is(event, "cpu-clock") || sonde_perf_text_is(event, "task-clock");
}

/* ---- Frames ---------------------------------------------------------------------------------- */

/* Where the module begins in "symbol+0x14 (module", 0 = nowhere. Symbols and paths may hold spaces
 * and parentheses: it is behind the last " (" that a path or "[" follows, else behind the last. */
static size_t module_start(struct sonde_perf_text t)
{
    size_t last = 0;
    for (size_t i = t.len; i > 0; i--) {
        if (t.s[i - 1] != '(' || (i > 1 && !sonde_perf_is_blank(t.s[i - 2]))) continue;
        if (!last) last = i;
        if (i < t.len && (t.s[i] == '/' || t.s[i] == '[')) return i;
    }
    return last;
}

/* Without the offset in the function. */
static struct sonde_perf_text without_offset(struct sonde_perf_text symbol)
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
static int split_frame(struct sonde_perf_text t, struct sonde_perf_text *symbol,
                       struct sonde_perf_text *module, int *deleted)
{
    t = sonde_perf_trim(t);
    *deleted = sonde_perf_ends(t, " (deleted))");
    if (!t.len || t.s[t.len - 1] != ')') return 0;
    t.len -= *deleted ? strlen(" (deleted))") : 1;
    const size_t open = module_start(t);
    if (!open) return 0;
    *module = (struct sonde_perf_text){ t.s + open, t.len - open };
    *symbol = without_offset(sonde_perf_trim((struct sonde_perf_text){ t.s, open - 1 }));
    return 1;
}

static uint32_t perf_script_module_flags(struct sonde_perf_text path, int deleted)
{
    static const char *const not_kernel[] = { "[vsyscall]", "[heap]", "[stack]", "[uprobes]" };
    uint32_t flags = deleted ? SONDE_MODULE_DELETED : 0;
    if (sonde_perf_text_is(path, "[vdso]")) return flags | SONDE_MODULE_VDSO;
    if (sonde_perf_starts(path, "/tmp/perf-") && sonde_perf_ends(path, ".map")) {
        return flags | SONDE_MODULE_JIT;
    }
    if (sonde_perf_ends(path, ".ko") || sonde_perf_ends(path, ".ko.xz") ||
        sonde_perf_ends(path, ".ko.zst")) {
        return flags | SONDE_MODULE_KERNEL;
    }
    if (!path.len || *path.s != '[') return flags;
    for (size_t i = 0; i < SONDE_COUNT(not_kernel); i++) {
        if (sonde_perf_text_is(path, not_kernel[i])) return flags;
    }
    return flags | SONDE_MODULE_KERNEL;
}

/* 0 = unknown, or no memory, which *failed tells. */
static uint32_t frame_module(struct perf_script_reader *r, struct sonde_perf_text path, int deleted,
                             int *failed)
{
    if (!path.len || sonde_perf_text_is(path, "[unknown]")) return 0;
    const struct sonde_profile_module m = { .path = perf_script_string(r, path),
                                            .flags = perf_script_module_flags(path, deleted) };
    const uint32_t id = m.path ? sonde_profile_module(r->p, &m) : 0;
    *failed |= !id;
    return id;
}

/* A line of the frame's location: inlined functions wait for it in r->lines. */
static int perf_script_add_line(struct perf_script_reader *r, struct sonde_perf_text symbol,
                                uint32_t module)
{
    if (!symbol.len || sonde_perf_text_is(symbol, "[unknown]")) return 0;
    if (r->inlined == INLINED_MAX) {
        return DAMAGED(r, "more than %d inlined functions at one address", INLINED_MAX);
    }
    const struct sonde_profile_function f = { .name = perf_script_string(r, symbol),
                                              .module = module };
    const uint32_t function = f.name ? sonde_profile_function(r->p, &f) : 0;
    if (!function) return perf_script_no_room(r);
    r->lines[r->inlined++] = (struct sonde_profile_line){ .function = function };
    return 0;
}

static int perf_script_add_location(struct perf_script_reader *r, uint32_t module, uint64_t address)
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
    if (!id) return perf_script_no_room(r);
    r->path[r->depth++] = id;
    return 0;
}

/* "dir/file.c:12", which perf prints below a frame with -F +srcline. */
static int is_source_line(struct sonde_perf_text t)
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
static int parse_frame(struct sonde_perf_text line, int anything_goes, uint64_t *address,
                       struct sonde_perf_text *symbol, struct sonde_perf_text *path, int *deleted)
{
    struct sonde_perf_text t = line;
    *path = (struct sonde_perf_text){ NULL, 0 };
    *deleted = 0;
    const int has_address = sonde_perf_hex(sonde_perf_word(&t), address);
    if (has_address && split_frame(t, symbol, path, deleted)) return 1;
    if (!anything_goes || is_source_line(line)) return 0;
    *symbol = without_offset(sonde_perf_trim(t));
    if (has_address && symbol->len) return 1;
    *address = 0;
    if (split_frame(line, symbol, path, deleted)) return symbol->len > 0;
    *symbol = without_offset(line);
    return symbol->len > 0;
}

/* 1: read; 0: not a frame; negative: an error. */
static int perf_script_read_frame(struct perf_script_reader *r, struct sonde_perf_text line,
                                  int anything_goes)
{
    struct sonde_perf_text symbol, path;
    uint64_t address;
    int deleted, failed = 0;
    if (!parse_frame(line, anything_goes, &address, &symbol, &path, &deleted)) return 0;
    if (r->in_sample == 2) return 1;
    const int inlined = sonde_perf_text_is(path, "inlined");
    const uint32_t module = inlined ? 0 : frame_module(r, path, deleted, &failed);
    if (failed) return perf_script_no_room(r);
    int rc = perf_script_add_line(r, symbol, module);
    if (!rc && !inlined) rc = perf_script_add_location(r, module, address);
    return rc ? rc : 1;
}

/* ---- Samples --------------------------------------------------------------------------------- */

static int perf_script_end_sample(struct perf_script_reader *r)
{
    const int own = r->in_sample == 1;
    r->in_sample = 0;
    if (!own) return 0;
    /* Inlined functions at the end of a stack that was cut. */
    if (r->inlined) {
        const int rc = perf_script_add_location(r, 0, 0);
        if (rc) return rc;
    }
    if (!r->depth) {
        r->path[r->depth++] = sonde_profile_named_location(r->p, "[unknown]", 9);
    }
    while (r->depth) {
        r->sample.stack = sonde_profile_stack(r->p, r->sample.stack, r->path[--r->depth]);
        if (!r->sample.stack) return perf_script_no_room(r);
    }
    if (r->cut) {
        r->sample.flags |= SONDE_SAMPLE_TRUNCATED;
        r->cuts++;
    }
    const int rc = sonde_profile_add_sample(r->p, &r->sample);
    if (rc == SONDE_EFORMAT) return DAMAGED(r, "the periods add up to more than 2^64");
    return rc ? perf_script_no_room(r) : 0;
}

static int perf_script_same_text(struct sonde_perf_text a, struct sonde_perf_text b)
{
    return a.len == b.len && !memcmp(a.s, b.s, a.len);
}

/* 1 if this is the event that is read: the one that was asked for, with or without modifiers
 * (":u"), else the first in the file. */
static int perf_script_is_wanted(struct perf_script_reader *r, struct sonde_perf_text event)
{
    if (r->how && r->how->event) {
        const size_t n = strlen(r->how->event);
        if (sonde_perf_starts(event, r->how->event) && (event.len == n || event.s[n] == ':')) {
            return 1;
        }
    } else {
        if (!r->event.len) r->event = event;
        if (perf_script_same_text(event, r->event)) return 1;
    }
    r->others++;
    for (uint32_t i = 0; i < r->other_count; i++) {
        if (perf_script_same_text(event, r->other[i])) return 0;
    }
    if (r->other_count < EVENTS_MAX) r->other[r->other_count++] = event;
    return 0;
}

static int begin_sample(struct perf_script_reader *r, const struct sonde_perf_header *h)
{
    struct sonde_profile *p = r->p;
    if (!perf_script_is_wanted(r, h->event)) {
        r->in_sample = 2;
        return 0;
    }
    const uint32_t comm = perf_script_string(r, h->comm);
    const uint32_t thread = sonde_profile_thread(p, (uint32_t)h->pid, (uint32_t)h->tid,
                                                 sonde_profile_str(p, comm));
    if (!thread) return perf_script_no_room(r);
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
    const int rc = h->rest.len ? perf_script_read_frame(r, h->rest, r->single) : 0;
    return rc < 0 ? rc : 0;
}

static int perf_script_read_header(struct perf_script_reader *r, const struct sonde_perf_header *h,
                                   int single)
{
    const int rc = perf_script_end_sample(r);
    r->good++;
    r->single = single;
    return rc ? rc : begin_sample(r, h);
}

/* Lines of a sample that are no frames and come after all that are: its registers (-F iregs, uregs)
 * and instruction (-F insn). perf prints no blank line after them. */
static int is_after_frames(struct sonde_perf_text t)
{
    return sonde_perf_starts(t, "ABI:") || sonde_perf_starts(t, "insn:") ||
           sonde_perf_starts(t, "ilen:");
}

/* What --show-mmap-events, --show-task-events and the like print. */
static int is_record(struct sonde_perf_text t)
{
    static const char mark[] = "PERF_RECORD_";
    const char *at = memmem(t.s, t.len, mark, sizeof(mark) - 1);
    return at && (at == t.s || sonde_perf_is_blank(at[-1]));
}

/* "\t  401000 symbol": a frame of a call chain, whatever is before it. */
static int is_chain(struct sonde_perf_text line)
{
    struct sonde_perf_text symbol, path;
    uint64_t address;
    int deleted;
    if (!line.len || !sonde_perf_is_blank(*line.s)) return 0;
    const struct sonde_perf_text t = sonde_perf_trim(line);
    struct sonde_perf_text rest = t;
    return sonde_perf_hex(sonde_perf_word(&rest), &address) && sonde_perf_trim(rest).len &&
           !sonde_perf_ends(t, ":") && parse_frame(t, 1, &address, &symbol, &path, &deleted);
}

/* A header of some fields, or of none. 1: read; 0: it is not; negative: an error. */
static int read_sparse(struct perf_script_reader *r, struct sonde_perf_text line)
{
    struct sonde_perf_header h = SONDE_PERF_HEADER_NONE;
    if ((!r->in_sample || r->single) && sonde_perf_header_single(line, &h)) {
        const int rc = perf_script_read_header(r, &h, 1);
        return rc ? rc : 1;
    }
    if (r->in_sample) return 0;
    if (*line.s == '\t' && is_chain(line)) {
        int rc = perf_script_read_header(r, &h, 0);
        if (!rc) rc = perf_script_read_frame(r, sonde_perf_trim(line), 1);
        return rc < 0 ? rc : 1;
    }
    if (!is_chain(r->ahead) || !sonde_perf_header_sparse(line, &h)) return 0;
    const int rc = perf_script_read_header(r, &h, 0);
    return rc ? rc : 1;
}

static void read_nothing(struct perf_script_reader *r, struct sonde_perf_text content)
{
    if (r->bad++) return;
    sonde_err_set(&r->first_bad, SONDE_EFORMAT,
                  "line %zu: neither a sample ('comm pid/tid [cpu] time: period event:') nor a "
                  "frame ('address symbol (module)'): '%.*s'", r->number,
                  (int)(content.len < 60 ? content.len : 60), content.s);
}

static int perf_script_read_line(struct perf_script_reader *r, struct sonde_perf_text line)
{
    struct sonde_perf_header h;
    const struct sonde_perf_text content = sonde_perf_trim(line);
    if (!content.len || is_after_frames(content)) return perf_script_end_sample(r);
    if (*content.s == '#') return 0;
    if (is_record(content)) return perf_script_end_sample(r);
    /* Names of threads are right-aligned: those that are short have blanks in front, as frames. */
    if (sonde_perf_header_timed(content, &h)) return perf_script_read_header(r, &h, 0);
    int rc = r->single ? read_sparse(r, line) : 0;
    if (!rc && r->in_sample) {
        rc = perf_script_read_frame(r, content, 0);
        r->good += rc > 0;
    }
    if (rc) return rc < 0 ? rc : 0;
    if (sonde_perf_header_untimed(content, &h)) return perf_script_read_header(r, &h, 0);
    if (r->in_sample && sonde_perf_is_blank(*line.s)) {
        if (is_source_line(content)) return 0;
        rc = perf_script_read_frame(r, content, 1);
        r->good += rc > 0;
    }
    if (!rc) rc = read_sparse(r, line);
    if (!rc) read_nothing(r, content);
    return rc < 0 ? rc : 0;
}

static int no_such_event(struct perf_script_reader *r)
{
    char names[200] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < r->other_count && n < sizeof(names) - 1; i++) {
        const struct sonde_perf_text e = r->other[i];
        const int printed = snprintf(names + n, sizeof(names) - n, "%s'%.*s'", i ? ", " : "",
                                     (int)(e.len < 60 ? e.len : 60), e.len ? e.s : "");
        n += printed > 0 ? (size_t)printed : 0;
    }
    const int named = r->other_count > 1 || r->other[0].len;
    return sonde_err_set(r->err, SONDE_EINVAL, "no samples of the event '%s'; %s%s", r->how->event,
                         named ? "there are: " : "the file does not say which its own are",
                         named ? names : "");
}

/* What there is to say about the file as a whole; an error if it is not one of perf's. */
static int perf_script_judge(struct perf_script_reader *r)
{
    if (r->bad > r->good) return sonde_err_set(r->err, SONDE_EFORMAT, "%s", r->first_bad.text);
    if (!r->p->samples_count && r->others) return no_such_event(r);
    if (!r->p->samples_count) {
        return sonde_err_set(r->err, SONDE_EFORMAT,
                             "no samples in it; was it printed by perf script?");
    }
    if (r->others && !(r->how && r->how->event)) {
        sonde_import_note(r->how, "the event is '%.*s'; %llu samples of '%.*s' and others are left "
                          "out (--event chooses)", (int)(r->event.len < 100 ? r->event.len : 100),
                          r->event.s, (unsigned long long)r->others,
                          (int)(r->other[0].len < 100 ? r->other[0].len : 100),
                          r->other[0].len ? r->other[0].s : "");
    }
    if (r->cuts) {
        sonde_import_note(r->how, "%llu stacks have more than %d frames, of which the outer ones "
                          "are left out", (unsigned long long)r->cuts, DEPTH_MAX);
    }
    if (r->bad) {
        sonde_import_note(r->how, "%zu lines were passed over, the first is %s", r->bad,
                          r->first_bad.text);
    }
    return 0;
}

static struct sonde_perf_text perf_script_next_line(const char **at, const char *end)
{
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    const struct sonde_perf_text line = { *at, (size_t)((newline ? newline : end) - *at) };
    *at = newline ? newline + 1 : end;
    return line;
}

static int perf_script_read(const char *data, size_t len, struct sonde_import *how,
                            struct sonde_profile *p, struct sonde_err *err)
{
    struct perf_script_reader *r = sonde__calloc(1, sizeof(*r));
    if (!r) return sonde_err_set(err, SONDE_ENOMEM, "no memory to read it");
    r->p = p;
    r->how = how;
    r->err = err;
    r->number = 1;
    int rc = 0;
    for (const char *at = data, *end = data + len; at < end && !rc; r->number++) {
        const struct sonde_perf_text line = perf_script_next_line(&at, end);
        const char *ahead = at;
        r->ahead =
            at < end ? perf_script_next_line(&ahead, end) : (struct sonde_perf_text){ NULL, 0 };
        rc = perf_script_read_line(r, line);
    }
    if (!rc) rc = perf_script_end_sample(r);
    if (!rc) rc = perf_script_judge(r);
    p->engine = sonde_profile_cstring(p, "import");
    sonde__free(r);
    return rc;
}

/* A header that has no time is followed by a frame. */
static int probe_line(struct sonde_perf_text line, struct sonde_perf_text ahead)
{
    struct sonde_perf_header h;
    struct sonde_perf_text symbol, path;
    uint64_t address;
    int deleted;
    const struct sonde_perf_text content = sonde_perf_trim(line);
    if (sonde_perf_header_timed(content, &h) || is_record(content)) return 1;
    if (sonde_perf_header_untimed(content, &h) &&
        parse_frame(sonde_perf_trim(ahead), 0, &address, &symbol, &path, &deleted)) {
        return 1;
    }
    /* Frames alone, or below a header of any form. */
    if ((*line.s == '\t' && is_chain(line)) || (ahead.len && *ahead.s == '\t' && is_chain(ahead))) {
        return 1;
    }
    return sonde_perf_header_single(line, &h) && sonde_perf_header_single(ahead, &h);
}

static int perf_script_probe(const char *data, size_t len)
{
    enum { LINES = 16 };
    int lines = 0;
    for (const char *at = data, *end = data + len; at < end && lines < LINES;) {
        const struct sonde_perf_text line = perf_script_next_line(&at, end),
                                     content = sonde_perf_trim(line);
        if (!content.len || *content.s == '#') continue;
        const char *ahead = at;
        struct sonde_perf_text next = { "", 0 };
        if (at < end) next = perf_script_next_line(&ahead, end);
        if (probe_line(line, next)) return 1;
        lines++;
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
