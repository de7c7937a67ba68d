/* json_scan.h - JSON read byte by byte as it passes by, for a few values of known names.
 *
 * Nothing is built and nothing is kept but where in the document we are and the text of the value
 * at hand, cut at SONDE_JSON_TEXT_MAX; strings are kept only where the owner of the names says so.
 * So memory is constant, pieces may be cut anywhere (in an escape, in a UTF-8 sequence), and what
 * users write to a model is never copied. Rejected: jansson, which needs the whole document: a
 * prompt of megabytes, an answer of embeddings.
 *
 * It reads every valid document right, and takes some invalid ones (it does not check numbers). */
#ifndef SONDE_FRONT_JSON_SCAN_H
#define SONDE_FRONT_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_JSON_DEPTH_MAX 64  /* deeper documents are given up */
#define SONDE_JSON_PATH_MAX 8    /* deeper values have no path */
#define SONDE_JSON_TEXT_MAX 127

enum sonde_json_type {
    SONDE_JSON_NULL, SONDE_JSON_FALSE, SONDE_JSON_TRUE, SONDE_JSON_NUMBER, SONDE_JSON_STRING,
    SONDE_JSON_OBJECT, SONDE_JSON_ARRAY, /* said when they begin */
};

/* Steps of a path: names of the owner's table are 2 and up. */
enum { SONDE_JSON_UNKNOWN = 0, SONDE_JSON_ELEMENT = 1, SONDE_JSON_NAMES = 2 };

struct sonde_json_names {
    const struct sonde_json_name {
        const char *text;
        uint8_t len;
        uint8_t keep;            /* text of a string of this name is wanted */
    } *name;                     /* name[i] is step SONDE_JSON_NAMES + i */
    size_t count;                /* at most 250 */
};

struct sonde_json_scan {
    const struct sonde_json_names *names;
    /* A value has been read. path: steps from the top, the last one lowest, a byte each; depth:
     * how many; 0 = the document itself. text, NUL-terminated, is set for numbers and for strings
     * of names that are kept; len is the string's length before it was cut, 0 = empty. */
    void (*value)(void *arg, const struct sonde_json_scan *j, enum sonde_json_type type);
    void *arg;
    uint64_t path;
    uint32_t depth;
    uint64_t len;
    uint32_t text_len;
    char text[SONDE_JSON_TEXT_MAX + 1];

    /* Private. */
    uint8_t state, literal, step, keep, in_key;
    uint8_t unicode_digits;
    uint16_t unicode;
    uint8_t is_array[SONDE_JSON_DEPTH_MAX];
};

void sonde_json_scan_init(struct sonde_json_scan *j, const struct sonde_json_names *names,
                          void (*value)(void *arg, const struct sonde_json_scan *j,
                                        enum sonde_json_type type),
                          void *arg);
/* Begin with another document. */
void sonde_json_scan_reset(struct sonde_json_scan *j);
void sonde_json_scan_feed(struct sonde_json_scan *j, const char *data, size_t len);
/* No more will come: a number at the very top ends here. 1 if the document is complete. */
int sonde_json_scan_end(struct sonde_json_scan *j);
/* 1 if reading on changes nothing: the document is complete, or is none. */
int sonde_json_scan_over(const struct sonde_json_scan *j);

#endif
