/* grid.h - a screen as an array of cells. Views draw into it, and it is then copied to a terminal
 * or printed as text: so that what is tested is what is shown. Drawing clips at the edges, and
 * all text goes through text.h, so no text from anywhere can do harm. */
#ifndef SONDE_PRESENT_GRID_H
#define SONDE_PRESENT_GRID_H

#include <stdint.h>

#include "base/buf.h"

/* Styles: a colour and flags. Flags alone carry the meaning on terminals without colour. */
enum {
    SONDE_STYLE_NORMAL = 0,
    SONDE_STYLE_GREEN = 1, SONDE_STYLE_YELLOW = 2, SONDE_STYLE_RED = 3, SONDE_STYLE_CYAN = 4,
    SONDE_STYLE_COLOUR = 0x0f,
    SONDE_STYLE_BOLD = 0x10, SONDE_STYLE_DIM = 0x20, SONDE_STYLE_REVERSE = 0x40,
};

#define SONDE_CELL_CODES 3 /* a character and what is combined with it */

struct sonde_cell {
    uint32_t code[SONDE_CELL_CODES]; /* code[0] 0: the right half of a wide character */
    uint8_t cells;                   /* 1 or 2; 0 for a right half */
    uint8_t style;
};

#define SONDE_GRID_MAX 2000 /* cells a side */

struct sonde_grid {
    int width, height;
    int ascii;
    struct sonde_cell *cells; /* owned; row by row */
};

/* Blank; sides are limited to 1 … SONDE_GRID_MAX. 0 or SONDE_ENOMEM. */
int sonde_grid_init(struct sonde_grid *g, int width, int height, int ascii);
void sonde_grid_release(struct sonde_grid *g);

const struct sonde_cell *sonde_grid_at(const struct sonde_grid *g, int x, int y);

/* Draw text from (x, y), at most max cells. Returns the cells used. What is outside the grid is
 * left out. */
int sonde_grid_text(struct sonde_grid *g, int x, int y, int max, unsigned style, const char *s);

/* The same, cut with an ellipsis or padded with blanks to exactly `cells`. */
void sonde_grid_field(struct sonde_grid *g, int x, int y, int cells, int right, unsigned style,
                      const char *s);

/* Cut in the middle instead: of long names both the beginning and the end tell something. */
void sonde_grid_field_middle(struct sonde_grid *g, int x, int y, int cells, unsigned style,
                             const char *s);

/* Give cells a style without changing them; flags are added, a colour replaces. */
void sonde_grid_restyle(struct sonde_grid *g, int x, int y, int cells, unsigned style);

/* As text, a line a row without trailing blanks; blank rows at the end are left out. */
void sonde_grid_print(const struct sonde_grid *g, struct sonde_buf *out);

/* The same with colours and weights as a terminal understands them (SGR). */
void sonde_grid_print_colour(const struct sonde_grid *g, struct sonde_buf *out);

#endif
