/* top_screen.h - the terminal of `sonde top`: copies a grid to it and reads keys, by ncurses. The
 * terminal is put back as it was on close and on any signal that ends the process. */
#ifndef SONDE_CLI_TOP_SCREEN_H
#define SONDE_CLI_TOP_SCREEN_H

#include "base/err.h"
#include "present/grid.h"

/* SONDE_EINVAL: not a terminal, or one that cannot do it; err says what to do. */
int sonde_top_screen_open(int colour, struct sonde_err *err);
void sonde_top_screen_close(void);

void sonde_top_screen_size(int *width, int *height);
void sonde_top_screen_show(const struct sonde_grid *g);

/* Wait for a key, or until fd is readable. */
enum sonde_top_event {
    SONDE_TOP_EVENT_KEY,     /* *key: a character or SONDE_KEY_… */
    SONDE_TOP_EVENT_FD,
    SONDE_TOP_EVENT_RESIZE,
    SONDE_TOP_EVENT_SIGNAL,  /* *key: the signal that asks us to end */
    SONDE_TOP_EVENT_CLOSED,  /* the terminal is gone */
};
enum sonde_top_event sonde_top_screen_wait(int fd, int *key);

#endif
