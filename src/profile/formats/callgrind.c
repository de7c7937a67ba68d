/* callgrind.c - what `valgrind --tool=callgrind` writes, read. Stacks from it are made by
 * callgrind_stacks.c.
 *
 *   # callgrind format
 *   cmd: ./prog
 *   events: Ir Dr
 *   ob=(1) /usr/bin/prog      object, file, function; "(1)" alone is the one that had the name
 *   fl=(1) main.c
 *   fn=(1) main
 *   16 4 2                    line (or address), cost of each event; "+3", "-2", "*" are relative
 *   cfn=(2) work              called from there, with cob= and cfi= where they differ
 *   calls=2 20
 *   16 400 90                 cost of these calls, inclusive
 *
 * One event is read: the first, or --event. */
#include "profile/formats/callgrind.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/intern.h"
#include "profile/formats/import.h"
#include "sonde/sonde.h"

enum { LINE_MAX_BYTES = 1 << 16, EVENTS_MAX = 64, IDS_MAX = 1 << 24 };

/* Names that were given a number, by kind. */
enum { OBJECT, FILE_NAME, FUNCTION, NAME_KINDS };

struct names {
    uint32_t *ids;   /* number -> string of the profile; 0 = not given */
    uint32_t cap;
};

struct callgrind_reader {
    struct sonde_profile *p;
    struct sonde_import *how;
    struct sonde_err *err;
    struct sonde_callgrind g;
    struct names names[NAME_KINDS];
    uint32_t place[NAME_KINDS];  /* where the lines at hand are: strings */
    uint32_t callee[2];          /* object and file of the next call; 0 = the caller's */
    uint32_t function;           /* of g; at hand; UINT32_MAX = none yet */
    uint32_t called;             /* UINT32_MAX = none */
    int after_calls;             /* the next line is the cost of a call */
    size_t number;
    int columns;                 /* of positions */
    int event;                   /* that is read */
    size_t bytes;
    char line[LINE_MAX_BYTES];
};

#define DAMAGED(r, text) sonde_err_set((r)->err, SONDE_EFORMAT, "line %zu: " text, (r)->number)

/* ---- Names ----------------------------------------------------------------------------------- */

static int grow_names(struct callgrind_reader *r, struct names *n, uint32_t number)
{
    const struct sonde_budget b = { .used = &r->bytes, .max = r->p->bytes_max };
    while (number >= n->cap) {
        const uint32_t had = n->cap;
        uint32_t *grown = sonde_table_grow(n->ids, had, &n->cap, sizeof(*grown), &b);
        if (!grown) return sonde_import_no_room(r->p, r->err);
        memset(grown + had, 0, (n->cap - had) * sizeof(*grown));
        n->ids = grown;
    }
    return 0;
}

/* "(12) name", "(12)" or "name" as a string of the profile. */
static int callgrind_read_name(struct callgrind_reader *r, int kind, const char *s, uint32_t *out)
{
    struct names *n = &r->names[kind];
    char *end;
    unsigned long number = 0;
    if (*s == '(' && isdigit((unsigned char)s[1])) {
        number = strtoul(s + 1, &end, 10);
        if (*end != ')' || number >= IDS_MAX) return DAMAGED(r, "a name's number is damaged");
        s = end + 1;
        while (*s == ' ') s++;
        const int rc = grow_names(r, n, (uint32_t)number);
        if (rc) return rc;
        if (!*s) {
            *out = n->ids[number];
            return *out ? 0 : DAMAGED(r, "a name's number that was not given before");
        }
    } else {
        end = NULL;
    }
    *out = sonde_profile_cstring(r->p, *s ? s : "[unknown]");
    if (!*out) return sonde_import_no_room(r->p, r->err);
    if (end) n->ids[number] = *out;
    return 0;
}

/* The function of that name in the given file and object, as a row of the graph. */
static int find_function(struct callgrind_reader *r, uint32_t name, uint32_t file, uint32_t object,
                         uint32_t *out)
{
    struct sonde_profile_module m = { .path = object };
    if (!strcmp(sonde_profile_str(r->p, object), "???")) m.path = 0;
    struct sonde_profile_function f = { .name = name, .file = file };
    if (!strcmp(sonde_profile_str(r->p, file), "???")) f.file = 0;
    f.module = m.path ? sonde_profile_module(r->p, &m) : 0;
    const struct sonde_profile_line line = { .function = sonde_profile_function(r->p, &f) };
    if ((m.path && !f.module) || !line.function) return sonde_import_no_room(r->p, r->err);
    const uint32_t location = sonde_profile_lines_location(r->p, f.module, 0, &line, 1);
    const int rc = location ? sonde_callgrind_function(&r->g, location, out) : SONDE_ENOMEM;
    return rc ? sonde_import_no_room(r->p, r->err) : 0;
}

/* ---- Costs ----------------------------------------------------------------------------------- */

/* Past the positions of a line of costs; NULL = it is none. */
static const char *skip_positions(const struct callgrind_reader *r, const char *s)
{
    for (int i = 0; i < r->columns; i++) {
        if (*s == '+' || *s == '-' || *s == '*') s++;
        else if (!isdigit((unsigned char)*s)) return NULL;
        if (s[0] == '0' && s[1] == 'x') s += 2;
        while (isxdigit((unsigned char)*s)) s++;
        if (*s && !isspace((unsigned char)*s)) return NULL;
        while (isspace((unsigned char)*s)) s++;
    }
    return s;
}

/* Events at the end of a line that are 0 may be left out. */
static int read_cost(struct callgrind_reader *r, const char *s, uint64_t *out)
{
    uint64_t v = 0;
    for (int i = 0; i <= r->event; i++) {
        v = 0;
        if (*s && !isdigit((unsigned char)*s)) return DAMAGED(r, "a cost is not a number");
        for (; isdigit((unsigned char)*s); s++) {
            if (__builtin_mul_overflow(v, 10, &v) ||
                __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v)) {
                return DAMAGED(r, "a cost is too large");
            }
        }
        while (isspace((unsigned char)*s)) s++;
    }
    *out = v;
    return 0;
}

static int read_costs(struct callgrind_reader *r, const char *s)
{
    uint64_t cost = 0;
    const char *costs = skip_positions(r, s);
    if (!costs) return DAMAGED(r, "neither a position with its costs nor a name");
    int rc = read_cost(r, costs, &cost);
    if (rc) return rc;
    if (r->function == UINT32_MAX) return DAMAGED(r, "costs before the first function (fn=)");
    if (r->after_calls) {
        r->after_calls = 0;
        rc = sonde_callgrind_call(&r->g, r->function, r->called, cost);
    } else {
        rc = sonde_callgrind_self(&r->g, r->function, cost);
    }
    if (rc == SONDE_EFORMAT) return DAMAGED(r, "the costs add up to more than 2^63");
    return rc ? sonde_import_no_room(r->p, r->err) : 0;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static int callgrind_read_events(struct callgrind_reader *r, const char *s)
{
    const char *wanted = r->how ? r->how->event : NULL;
    int i = 0;
    for (; *s && i < EVENTS_MAX; i++) {
        const size_t n = strcspn(s, " \t");
        if (wanted ? strlen(wanted) == n && !memcmp(s, wanted, n) : i == 0) {
            r->event = i;
            if (!wanted && s[n] && s[n + strspn(s + n, " \t")]) {
                sonde_import_note(r->how, "the event is '%.*s' (--event chooses among:%.*s)",
                                  (int)(n < 40 ? n : 40), s, 120, s + n);
            }
            return 0;
        }
        s += n;
        s += strspn(s, " \t");
    }
    return sonde_err_set(r->err, SONDE_EINVAL, "line %zu: there is no event '%s'", r->number,
                         wanted ? wanted : "");
}

static const char *callgrind_value_of(const char *line, const char *key)
{
    const size_t n = strlen(key);
    if (strncmp(line, key, n)) return NULL;
    line += n;
    while (*line == ' ' || *line == '\t') line++;
    return line;
}

/* "cfn=(2) work" */
static int read_place(struct callgrind_reader *r, const char *line, int *known)
{
    static const struct { const char *key; int kind, callee; } keys[] = {
        { "ob=", OBJECT, 0 },    { "fl=", FILE_NAME, 0 },  { "fi=", FILE_NAME, 0 },
        { "fe=", FILE_NAME, 0 }, { "fn=", FUNCTION, 0 },   { "cob=", OBJECT, 1 },
        { "cfi=", FILE_NAME, 1 }, { "cfl=", FILE_NAME, 1 }, { "cfn=", FUNCTION, 1 },
    };
    for (size_t i = 0; i < SONDE_COUNT(keys); i++) {
        const char *value = callgrind_value_of(line, keys[i].key);
        uint32_t name;
        if (!value) continue;
        *known = 1;
        const int rc = callgrind_read_name(r, keys[i].kind, value, &name);
        if (rc) return rc;
        if (keys[i].kind != FUNCTION) {
            if (keys[i].callee) r->callee[keys[i].kind] = name;
            else r->place[keys[i].kind] = name;
            return 0;
        }
        if (!keys[i].callee) {
            return find_function(r, name, r->place[FILE_NAME], r->place[OBJECT], &r->function);
        }
        const uint32_t file = r->callee[FILE_NAME] ? r->callee[FILE_NAME] : r->place[FILE_NAME];
        const uint32_t object = r->callee[OBJECT] ? r->callee[OBJECT] : r->place[OBJECT];
        r->callee[OBJECT] = r->callee[FILE_NAME] = 0;
        return find_function(r, name, file, object, &r->called);
    }
    return 0;
}

static int count_words(const char *s)
{
    int words = 0;
    for (; *s; s += strcspn(s, " \t"), s += strspn(s, " \t")) words++;
    return words;
}

static int callgrind_read_line(struct callgrind_reader *r)
{
    const char *s = r->line, *value;
    int known = 0;
    while (*s == ' ' || *s == '\t') s++;
    if (!*s || *s == '#') return 0;
    if (isdigit((unsigned char)*s) || strchr("+-*", *s)) return read_costs(r, s);
    if ((value = callgrind_value_of(s, "calls="))) {
        if (r->called == UINT32_MAX) {
            return DAMAGED(r, "calls= without a function before it (cfn=)");
        }
        r->after_calls = 1;
        return 0;
    }
    const int rc = read_place(r, s, &known);
    if (rc || known) return rc;
    if ((value = callgrind_value_of(s, "events:"))) return callgrind_read_events(r, value);
    if ((value = callgrind_value_of(s, "positions:"))) {
        r->columns = count_words(value);
        return r->columns && r->columns <= 4 ? 0 : DAMAGED(r, "too many or no positions");
    }
    if ((value = callgrind_value_of(s, "cmd:")) && *value) {
        r->p->command = sonde_profile_cstring(r->p, value);
        const size_t n = strcspn(value, " ");
        const char *slash = memrchr(value, '/', n);
        const char *base = slash ? slash + 1 : value;
        r->p->program = sonde_profile_string(r->p, base, (size_t)(value + n - base));
        return 0;
    }
    /* "summary:", "jump=…", "desc:" and what else there is: not needed. */
    for (const char *c = s; isalpha((unsigned char)*c) || *c == '='  || *c == ':'; c++) {
        if (*c == '=' || *c == ':') return 0;
    }
    return DAMAGED(r, "neither a position with its costs nor a name");
}

static int callgrind_read_lines(struct callgrind_reader *r, const char *data, size_t len)
{
    int rc = 0;
    for (const char *at = data, *end = data + len; at < end && !rc;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *next = newline ? newline + 1 : end;
        size_t n = (size_t)((newline ? newline : end) - at);
        r->number++;
        if (n && at[n - 1] == '\r') n--;
        if (n >= LINE_MAX_BYTES) n = LINE_MAX_BYTES - 1; /* a name, which is shortened anyway */
        memcpy(r->line, at, n);
        r->line[n] = '\0';
        rc = callgrind_read_line(r);
        at = next;
    }
    return rc;
}

static int callgrind_read(const char *data, size_t len, struct sonde_import *how,
                          struct sonde_profile *p, struct sonde_err *err)
{
    struct callgrind_reader *r = sonde__calloc(1, sizeof(*r));
    if (!r) return sonde_import_no_room(p, err);
    *r = (struct callgrind_reader){ .p = p, .how = how, .err = err, .columns = 1,
                                    .function = UINT32_MAX, .called = UINT32_MAX };
    sonde_callgrind_init(&r->g, p->bytes_max);
    int rc = callgrind_read_lines(r, data, len);
    if (!rc) rc = sonde_callgrind_stacks(&r->g, p, how, err);
    p->engine = sonde_profile_cstring(p, "import");
    sonde_callgrind_release(&r->g);
    for (int i = 0; i < NAME_KINDS; i++) sonde__free(r->names[i].ids);
    sonde__free(r);
    return rc;
}

static int callgrind_probe(const char *data, size_t len)
{
    enum { HEAD = 1 << 14 };
    if (len > HEAD) len = HEAD;
    const int named = memmem(data, len, "# callgrind format", 18) != NULL;
    const int events = memmem(data, len, "\nevents:", 8) ||
                       (len > 7 && !memcmp(data, "events:", 7));
    const int places = memmem(data, len, "\nfn=", 4) || memmem(data, len, "\nfl=", 4);
    return events && (named || places);
}

extern const struct sonde_format_ops sonde_format_callgrind;
const struct sonde_format_ops sonde_format_callgrind = {
    .name = "callgrind",
    .summary = "call graphs of valgrind --tool=callgrind (only to be read)",
    .content_type = "text/plain; charset=utf-8",
    .suffix = ".callgrind",
    .probe = callgrind_probe,
    .read = callgrind_read,
};
