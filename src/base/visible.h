/* visible.h - text that may come from a file, another process or the command line, on its way to a
 * terminal: nothing in it may move the cursor, change colours or set a title. Control characters
 * become '?', of ASCII, DEL and of U+0080 to U+009F, which some terminals take for ESC and a
 * letter. */
#ifndef SONDE_BASE_VISIBLE_H
#define SONDE_BASE_VISIBLE_H

#include <stddef.h>

/* In place; newlines stay. Returns the length, which may be less. */
size_t sonde_visible(char *s, size_t len);

/* As printf to a descriptor, made visible and valid UTF-8, in one write: what a command started by
 * us prints to the same terminal does not come in between. */
void sonde_visible_printf(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
