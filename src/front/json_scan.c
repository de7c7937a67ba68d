/* json_scan.c - see json_scan.h. A state machine with one byte of state and a stack of bits. */
#include "front/json_scan.h"

#include <assert.h>
#include <string.h>

enum json_scan_state {
    VALUE,           /* a value must begin */
    FIRST_ELEMENT,   /* a value, or ] */
    FIRST_KEY,       /* a key, or } */
    KEY,             /* a key */
    COLON,
    STRING, ESCAPE, UNICODE,
    NUMBER,
    LITERAL,         /* in true, false, null */
    AFTER,           /* , or an end */
    OVER,            /* the document is complete; this and the next end it */
    BAD,
};

static const char *const literals[] = { "null", "false", "true" };

void sonde_json_scan_init(struct sonde_json_scan *j, const struct sonde_json_names *names,
                          void (*value)(void *arg, const struct sonde_json_scan *j,
                                        enum sonde_json_type type),
                          void *arg)
{
    assert(names && value);
    *j = (struct sonde_json_scan){ .names = names, .value = value, .arg = arg };
    sonde_json_scan_reset(j);
}

void sonde_json_scan_reset(struct sonde_json_scan *j)
{
    j->state = VALUE;
    j->depth = 0;
    j->path = 0;
    j->step = SONDE_JSON_UNKNOWN;
    j->text_len = 0;
}

int sonde_json_scan_over(const struct sonde_json_scan *j) { return j->state >= OVER; }

/* ---- Where we are ------------------------------------------------------------------------- */

static int json_scan_is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

/* The step to the value at hand is known: it is the path's last while the value lasts. */
static void json_scan_enter(struct sonde_json_scan *j, uint8_t step)
{
    j->step = step;
    if (j->depth <= SONDE_JSON_PATH_MAX) j->path = j->path << 8 | step;
}

/* And gone again. */
static void json_scan_leave(struct sonde_json_scan *j)
{
    if (j->depth <= SONDE_JSON_PATH_MAX) j->path >>= 8;
}

static void json_scan_tell(struct sonde_json_scan *j, enum sonde_json_type type)
{
    j->text[j->text_len] = 0;
    if (j->depth <= SONDE_JSON_PATH_MAX) j->value(j->arg, j, type);
    j->text_len = 0;
}

/* After a value: its step is left, and what may follow depends on what it is in. */
static void json_scan_after(struct sonde_json_scan *j)
{
    if (j->depth == 0) {
        j->state = OVER;
        return;
    }
    json_scan_leave(j);
    j->state = AFTER;
}

static void open_container(struct sonde_json_scan *j, int array)
{
    json_scan_tell(j, array ? SONDE_JSON_ARRAY : SONDE_JSON_OBJECT);
    if (j->depth == SONDE_JSON_DEPTH_MAX) {
        j->state = BAD;
        return;
    }
    j->is_array[j->depth++] = (uint8_t)array;
    j->state = array ? FIRST_ELEMENT : FIRST_KEY;
}

static void close_container(struct sonde_json_scan *j, char c)
{
    assert(j->depth <= SONDE_JSON_DEPTH_MAX);
    if (j->depth == 0 || j->is_array[j->depth - 1] != (c == ']')) {
        j->state = BAD;
        return;
    }
    j->depth--;
    json_scan_after(j);
}

/* ---- Strings ------------------------------------------------------------------------------ */

static void keep_byte(struct sonde_json_scan *j, char c)
{
    if (j->keep && j->text_len < SONDE_JSON_TEXT_MAX) j->text[j->text_len++] = c;
}

static void keep_unicode(struct sonde_json_scan *j, uint16_t c)
{
    if (c >= 0xd800 && c < 0xe000) c = 0xfffd; /* halves of pairs: no name of ours has them */
    if (c < 0x80) {
        keep_byte(j, c ? (char)c : '?');
    } else if (c < 0x800) {
        keep_byte(j, (char)(0xc0 | c >> 6));
        keep_byte(j, (char)(0x80 | (c & 63)));
    } else {
        keep_byte(j, (char)(0xe0 | c >> 12));
        keep_byte(j, (char)(0x80 | (c >> 6 & 63)));
        keep_byte(j, (char)(0x80 | (c & 63)));
    }
}

static void begin_string(struct sonde_json_scan *j, int key)
{
    j->in_key = (uint8_t)key;
    j->keep = (uint8_t)key;
    if (!key && j->step >= SONDE_JSON_NAMES) {
        j->keep = j->names->name[j->step - SONDE_JSON_NAMES].keep;
    }
    j->text_len = 0;
    j->len = 0;
    j->state = STRING;
}

static uint8_t json_scan_find_name(const struct sonde_json_scan *j)
{
    if (j->len != j->text_len || !j->len) return SONDE_JSON_UNKNOWN;
    for (size_t i = 0; i < j->names->count; i++) {
        const struct sonde_json_name *n = &j->names->name[i];
        if (n->len == j->text_len && n->text[0] == j->text[0] &&
            memcmp(n->text, j->text, n->len) == 0) {
            return (uint8_t)(SONDE_JSON_NAMES + i);
        }
    }
    return SONDE_JSON_UNKNOWN;
}

static void end_string(struct sonde_json_scan *j)
{
    if (j->in_key) {
        const uint8_t step = json_scan_find_name(j);
        j->text_len = 0;
        json_scan_enter(j, step);
        j->state = COLON;
        return;
    }
    json_scan_tell(j, SONDE_JSON_STRING);
    json_scan_after(j);
}

/* Returns how many bytes of data belong to the string; most go by here. */
static size_t string_bytes(struct sonde_json_scan *j, const char *data, size_t len)
{
    size_t n = 0;
    while (n < len && data[n] != '"' && data[n] != '\\') n++;
    for (size_t i = 0; j->keep && i < n && j->text_len < SONDE_JSON_TEXT_MAX; i++) {
        keep_byte(j, data[i] ? data[i] : '?');
    }
    j->len += n;
    if (n == len) return n;
    if (data[n] == '"') end_string(j);
    else j->state = ESCAPE;
    return n + 1;
}

static void escape_byte(struct sonde_json_scan *j, char c)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        j->len++;
        keep_byte(j, to[found - from]);
        j->state = STRING;
    } else if (c == 'u') {
        j->unicode = 0;
        j->unicode_digits = 0;
        j->state = UNICODE;
    } else {
        j->state = BAD;
    }
}

static void unicode_byte(struct sonde_json_scan *j, char c)
{
    int digit;
    if (c >= '0' && c <= '9') digit = c - '0';
    else if (c >= 'a' && c <= 'f') digit = c - 'a' + 10;
    else if (c >= 'A' && c <= 'F') digit = c - 'A' + 10;
    else {
        j->state = BAD;
        return;
    }
    j->unicode = (uint16_t)(j->unicode << 4 | digit);
    if (++j->unicode_digits < 4) return;
    j->len += j->unicode < 0x80 ? 1 : j->unicode < 0x800 ? 2 : 3;
    keep_unicode(j, j->unicode);
    j->state = STRING;
}

/* ---- Other values ------------------------------------------------------------------------- */

static int in_number(char c)
{
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

static void begin_value(struct sonde_json_scan *j, char c)
{
    if (j->depth && j->is_array[j->depth - 1]) json_scan_enter(j, SONDE_JSON_ELEMENT);
    j->text_len = 0;
    j->len = 0;
    if (c == '{' || c == '[') {
        open_container(j, c == '[');
    } else if (c == '"') {
        begin_string(j, 0);
    } else if ((c >= '0' && c <= '9') || c == '-') {
        j->keep = 1;
        keep_byte(j, c);
        j->state = NUMBER;
    } else if (c == 'n' || c == 'f' || c == 't') {
        j->literal = c == 'n' ? SONDE_JSON_NULL : c == 'f' ? SONDE_JSON_FALSE : SONDE_JSON_TRUE;
        j->len = 1;
        j->state = LITERAL;
    } else {
        j->state = BAD;
    }
}

static void literal_byte(struct sonde_json_scan *j, char c)
{
    const char *word = literals[j->literal];
    if (word[j->len] != c) {
        j->state = BAD;
        return;
    }
    if (word[++j->len]) return;
    json_scan_tell(j, (enum sonde_json_type)j->literal);
    json_scan_after(j);
}

static void end_number(struct sonde_json_scan *j)
{
    json_scan_tell(j, SONDE_JSON_NUMBER);
    json_scan_after(j);
}

static void after_byte(struct sonde_json_scan *j, char c)
{
    if (c == ',') j->state = j->is_array[j->depth - 1] ? VALUE : KEY;
    else if (c == ']' || c == '}') close_container(j, c);
    else j->state = BAD;
}

/* A byte that is no blank, outside of strings and literals. */
static void structure_byte(struct sonde_json_scan *j, char c)
{
    switch ((enum json_scan_state)j->state) {
    case FIRST_ELEMENT:
        if (c == ']') close_container(j, c);
        else begin_value(j, c);
        break;
    case VALUE: begin_value(j, c); break;
    case FIRST_KEY:
    case KEY:
        if (c == '"') begin_string(j, 1);
        else if (c == '}' && j->state == FIRST_KEY) close_container(j, c);
        else j->state = BAD;
        break;
    case COLON: j->state = c == ':' ? VALUE : BAD; break;
    case AFTER: after_byte(j, c); break;
    default: break;
    }
}

void sonde_json_scan_feed(struct sonde_json_scan *j, const char *data, size_t len)
{
    for (size_t i = 0; i < len && j->state < OVER;) {
        const char c = data[i];
        switch ((enum json_scan_state)j->state) {
        case STRING: i += string_bytes(j, data + i, len - i); continue;
        case ESCAPE: escape_byte(j, c); break;
        case UNICODE: unicode_byte(j, c); break;
        case LITERAL: literal_byte(j, c); break;
        case NUMBER:
            if (in_number(c)) {
                keep_byte(j, c);
                break;
            }
            end_number(j);
            continue; /* c is what follows it */
        default:
            if (!json_scan_is_space(c)) structure_byte(j, c);
        }
        i++;
    }
}

int sonde_json_scan_end(struct sonde_json_scan *j)
{
    if (j->state == NUMBER && j->depth == 0) end_number(j);
    return j->state == OVER;
}
