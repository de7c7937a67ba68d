/* keys.c - how keys change what `sonde top` shows. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "present/top/pages.h"

static const double intervals[] = { 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60 };
#define INTERVALS SONDE_COUNT(intervals)

static const char *const types[] = { NULL, "counter", "gauge", "histogram" };

void sonde_top_state_init(struct sonde_top_state *s)
{
    *s = (struct sonde_top_state){ .interval_s = 1 };
}

const char *sonde_top_type(const struct sonde_top_state *s)
{
    return types[s->type % (SONDE_COUNT(types))];
}

static size_t sort_count(const char *const *sorts)
{
    size_t n = 0;
    while (sorts[n]) n++;
    return n;
}

/* ---- The filter ---------------------------------------------------------------------------- */

/* Alternative by alternative: *…* around each that is no glob. */
static void add_globs(char *out, size_t size, const char *word, size_t len)
{
    const char *const end = word + len;
    size_t at = 0;
    out[0] = 0;
    for (;;) {
        const char *bar = memchr(word, '|', (size_t)(end - word));
        const size_t n = (size_t)((bar ? bar : end) - word);
        const int plain = !memchr(word, '*', n) && !memchr(word, '?', n) && !memchr(word, '[', n);
        const int wrote = snprintf(out + at, size - at, plain ? "*%.*s*%s" : "%.*s%s", (int)n, word,
                                   bar ? "|" : "");
        if (!bar || wrote < 0 || (size_t)wrote >= size - at) return;
        at += (size_t)wrote;
        word = bar + 1;
    }
}

static int any_matches(const char *globs, const char *name)
{
    char one[SONDE_TOP_GLOB_MAX];
    for (;;) {
        const size_t n = strcspn(globs, "|");
        snprintf(one, sizeof(one), "%.*s", (int)n, globs);
        if (fnmatch(one, name, 0) == 0) return 1;
        if (!globs[n]) return 0;
        globs += n + 1;
    }
}

int sonde_top_name_passes(const struct sonde_top_words *w, const char *name)
{
    for (size_t i = 0; i < w->name_count; i++) {
        if (!any_matches(w->name[i], name)) return 0;
    }
    return 1;
}

void sonde_top_split_filter(const char *text, struct sonde_top_words *out)
{
    memset(out, 0, sizeof(*out));
    for (;;) {
        text += strspn(text, " ");
        const size_t len = strcspn(text, " ");
        if (len == 0) return;
        const char *eq = memchr(text, '=', len);
        if (eq && eq > text) {
            const size_t at = out->label_count;
            if (at < SONDE_TOP_WORDS) {
                const size_t rest = len - (size_t)(eq + 1 - text);
                snprintf(out->label[at], sizeof(out->label[at]), "%.*s", (int)(eq - text), text);
                add_globs(out->value[at], sizeof(out->value[at]), eq + 1, rest);
                out->label_count++;
            }
        } else if (out->name_count < SONDE_TOP_WORDS) {
            const size_t at = out->name_count++;
            add_globs(out->name[at], sizeof(out->name[at]), text, len);
        }
        text += len;
    }
}

static void forget_cursors(struct sonde_top_state *s)
{
    memset(s->cursor, 0, sizeof(s->cursor));
}

static int edit_key(struct sonde_top_state *s, int key)
{
    size_t len = strlen(s->edit);
    switch (key) {
    case SONDE_KEY_ENTER:
        s->editing = 0;
        memcpy(s->filter, s->edit, sizeof(s->filter));
        forget_cursors(s);
        return SONDE_TOP_REDRAW | SONDE_TOP_REFETCH;
    case SONDE_KEY_ESC:
        s->editing = 0;
        return SONDE_TOP_REDRAW;
    case SONDE_KEY_BACKSPACE:
        while (len > 0 && ((unsigned char)s->edit[len - 1] & 0xc0) == 0x80) len--;
        s->edit[len ? len - 1 : 0] = 0;
        return SONDE_TOP_REDRAW;
    case 0x15: /* ^U, as in a shell */
        s->edit[0] = 0;
        return SONDE_TOP_REDRAW;
    default:
        break;
    }
    char bytes[4];
    if (key < 0x20 || key == 0x7f || key >= 0x110000) return 0;
    const size_t n = sonde_text_encode((uint32_t)key, bytes);
    if (len + n >= sizeof(s->edit)) return 0;
    memcpy(s->edit + len, bytes, n);
    s->edit[len + n] = 0;
    return SONDE_TOP_REDRAW;
}

/* ---- Moving -------------------------------------------------------------------------------- */

static int top_keys_move(struct sonde_top_state *s, int key)
{
    struct sonde_top_cursor *c = sonde_top_cursor(s);
    const size_t page = s->rows_shown > 1 ? s->rows_shown - 1 : 1;
    const size_t last = s->row_count ? s->row_count - 1 : 0;
    size_t at = c->index;
    switch (key) {
    case SONDE_KEY_UP: case 'k': at = at ? at - 1 : 0; break;
    case SONDE_KEY_DOWN: case 'j': at++; break;
    case SONDE_KEY_PAGE_UP: at = at > page ? at - page : 0; break;
    case SONDE_KEY_PAGE_DOWN: at += page; break;
    case SONDE_KEY_HOME: case 'g': at = 0; break;
    case SONDE_KEY_END: case 'G': at = last; break;
    default: return 0;
    }
    c->index = at < last ? at : last;
    c->moved = 1;
    return SONDE_TOP_REDRAW;
}

static int go_page(struct sonde_top_state *s, int page)
{
    s->page = (enum sonde_top_page)((page + SONDE_TOP_PAGES) % SONDE_TOP_PAGES);
    return SONDE_TOP_REDRAW | SONDE_TOP_REFETCH;
}

static int top_keys_enter(struct sonde_top_state *s)
{
    if ((s->page == SONDE_TOP_OVERVIEW || s->page == SONDE_TOP_MEMORY) && s->row_pid) {
        s->pid = s->row_pid;
        s->cursor[SONDE_TOP_SERIES] = (struct sonde_top_cursor){ 0 };
        return go_page(s, SONDE_TOP_SERIES);
    }
    if (s->page == SONDE_TOP_INFERENCE && s->row_trace[0]) {
        memcpy(s->trace_id, s->row_trace, sizeof(s->trace_id));
        if (s->view != SONDE_TOP_TRACE) s->view_before = s->view;
        s->page_before = SONDE_TOP_INFERENCE;
        s->page = SONDE_TOP_SPANS;
        s->view = SONDE_TOP_TRACE;
        *sonde_top_cursor(s) = (struct sonde_top_cursor){ 0 };
        return SONDE_TOP_REDRAW | SONDE_TOP_REFETCH;
    }
    if (s->page != SONDE_TOP_SPANS) return 0;
    if ((s->view == SONDE_TOP_NAMES || s->view == SONDE_TOP_PAIRS) && s->row_span[0]) {
        memcpy(s->span_name, s->row_span, sizeof(s->span_name));
        s->view = SONDE_TOP_LATEST;
    } else if ((s->view == SONDE_TOP_LATEST || s->view == SONDE_TOP_SLOWEST) && s->row_trace[0]) {
        memcpy(s->trace_id, s->row_trace, sizeof(s->trace_id));
        s->view_before = s->view;
        s->page_before = SONDE_TOP_SPANS;
        s->view = SONDE_TOP_TRACE;
    } else {
        return 0;
    }
    *sonde_top_cursor(s) = (struct sonde_top_cursor){ 0 };
    return SONDE_TOP_REDRAW | SONDE_TOP_REFETCH;
}

/* One step back: out of a trace, a name, the filter, a process, and to the first page. */
static int top_keys_escape(struct sonde_top_state *s)
{
    if (s->page == SONDE_TOP_SPANS && s->view == SONDE_TOP_TRACE) {
        s->view = s->view_before;
        s->page = s->page_before;
    } else if (s->page == SONDE_TOP_SPANS && s->span_name[0]) {
        s->span_name[0] = 0;
        s->view = SONDE_TOP_NAMES;
    } else if (s->filter[0] && s->page != SONDE_TOP_OVERVIEW) {
        s->filter[0] = 0;
    } else if (s->pid) {
        s->pid = 0;
        s->page = SONDE_TOP_OVERVIEW;
    } else {
        s->page = SONDE_TOP_OVERVIEW;
    }
    return SONDE_TOP_REDRAW | SONDE_TOP_REFETCH;
}

/* ---- Choosing ------------------------------------------------------------------------------ */

static int next_sort(struct sonde_top_state *s)
{
    const char *const *sorts = s->page == SONDE_TOP_OVERVIEW ? sonde_top_overview_sorts
                             : s->page == SONDE_TOP_SERIES   ? sonde_top_series_sorts
                             : s->page == SONDE_TOP_MEMORY   ? sonde_top_memory_sorts
                             : s->page == SONDE_TOP_INFERENCE ? sonde_requests_sorts : NULL;
    if (!sorts) return 0;
    s->sort[s->page] = (s->sort[s->page] + 1) % (unsigned)sort_count(sorts);
    s->reverse[s->page] = 0;
    /* Of requests there are more than were asked for. */
    return SONDE_TOP_REDRAW | (s->page == SONDE_TOP_INFERENCE ? SONDE_TOP_REFETCH : 0);
}

static int next_interval(struct sonde_top_state *s, int slower)
{
    if (slower) {
        for (size_t i = 0; i < INTERVALS; i++) {
            if (intervals[i] <= s->interval_s) continue;
            s->interval_s = intervals[i];
            return SONDE_TOP_REDRAW | SONDE_TOP_REFETCH;
        }
        return 0;
    }
    for (size_t i = INTERVALS; i-- > 0;) {
        if (intervals[i] >= s->interval_s) continue;
        s->interval_s = intervals[i];
        return SONDE_TOP_REDRAW | SONDE_TOP_REFETCH;
    }
    return 0;
}

static int top_keys_choose(struct sonde_top_state *s, int key)
{
    switch (key) {
    case 's': return next_sort(s);
    case 'r':
        if (s->page == SONDE_TOP_SPANS || s->page >= SONDE_TOP_INFERENCE) return 0;
        s->reverse[s->page] = !s->reverse[s->page];
        return SONDE_TOP_REDRAW;
    case 't':
        if (s->page != SONDE_TOP_SERIES) return 0;
        s->type = (s->type + 1) % (unsigned)SONDE_COUNT(types);
        return SONDE_TOP_REDRAW | SONDE_TOP_REFETCH;
    case 'v':
        if (s->page != SONDE_TOP_SPANS) return 0;
        s->view = s->view >= SONDE_TOP_PAIRS ? SONDE_TOP_NAMES
                                             : (enum sonde_top_spans_view)((int)s->view + 1);
        return SONDE_TOP_REDRAW;
    case 'a':
        s->pid = 0;
        s->span_name[0] = 0;
        return SONDE_TOP_REDRAW | SONDE_TOP_REFETCH;
    case 'p': case ' ':
        s->paused = !s->paused;
        return SONDE_TOP_REDRAW | (s->paused ? 0 : SONDE_TOP_REFETCH);
    case '+': case '=': return next_interval(s, 0);
    case '-': return next_interval(s, 1);
    case '/':
        if (s->page != SONDE_TOP_SERIES && s->page != SONDE_TOP_SPANS) {
            s->page = SONDE_TOP_SERIES;
        }
        s->editing = 1;
        memcpy(s->edit, s->filter, sizeof(s->edit));
        return SONDE_TOP_REDRAW | SONDE_TOP_REFETCH;
    case '?':
        s->help = 1;
        s->help_scroll = 0;
        return SONDE_TOP_REDRAW;
    default: return 0;
    }
}

static int help_key(struct sonde_top_state *s, int key)
{
    if (key == SONDE_KEY_DOWN || key == 'j' || key == SONDE_KEY_PAGE_DOWN) s->help_scroll++;
    else if (key == SONDE_KEY_UP || key == 'k' || key == SONDE_KEY_PAGE_UP) {
        s->help_scroll -= s->help_scroll > 0;
    } else s->help = 0;
    return SONDE_TOP_REDRAW;
}

int sonde_top_key(struct sonde_top_state *s, int key)
{
    if (key == 0x03) return SONDE_TOP_QUIT; /* ^C, if the terminal hands it over */
    if (s->editing) return edit_key(s, key);
    if (s->help) return help_key(s, key);

    const int moved = top_keys_move(s, key);
    if (moved) return moved;
    switch (key) {
    case 'q': return SONDE_TOP_QUIT;
    case '1': case '2': case '3': case '4': case '5': case '6': case '7':
        return go_page(s, key - '1');
    case SONDE_KEY_TAB: return go_page(s, (int)s->page + 1);
    case SONDE_KEY_BACK_TAB: return go_page(s, (int)s->page - 1);
    case SONDE_KEY_ENTER: return top_keys_enter(s);
    case SONDE_KEY_ESC: return top_keys_escape(s);
    default: return top_keys_choose(s, key);
    }
}
