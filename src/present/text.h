/* text.h - text of any origin as cells of a terminal: how wide it is, cutting and padding it,
 * and making it harmless. Names, labels and attributes come from other processes; whatever they
 * hold, nothing that comes out of here moves a cursor, changes a colour or reverses a line.
 *
 * One code path composes all text in UTF-8; `ascii` maps it at the very end for terminals whose
 * locale is not UTF-8. */
#ifndef SONDE_PRESENT_TEXT_H
#define SONDE_PRESENT_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct sonde_glyph {
    uint32_t code;  /* printable; control characters are shown as their pictures (U+2400…) */
    int cells;      /* 0 (combining), 1 or 2 */
};

/* The character at s[0..len), len > 0, made harmless. Returns its bytes in s, at least 1. With
 * ascii the code is below 0x80 and always one cell, or 0 with no cells (combining: drop it). */
size_t sonde_text_next(const char *s, size_t len, int ascii, struct sonde_glyph *out);

/* Append code to out as UTF-8 (at most 4 bytes, no NUL); returns the bytes. */
size_t sonde_text_encode(uint32_t code, char out[4]);

/* Cells that s takes. */
int sonde_text_cells(const char *s, int ascii);

enum sonde_align { SONDE_LEFT, SONDE_RIGHT };

/* s cut (with an ellipsis) or padded to exactly `cells` cells, NUL-terminated. A result that
 * does not fit out_size ends early, at a character. Returns the bytes without the NUL. 4 bytes a
 * cell and 1 more are enough unless there are combining characters. */
size_t sonde_text_fit(char *out, size_t out_size, const char *s, int cells,
                      enum sonde_align align, int ascii);

/* 1 when the locale (setlocale has been called) cannot show UTF-8. */
int sonde_text_locale_ascii(void);

#endif
