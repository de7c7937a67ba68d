/* top_feed.h - reads for `sonde top` in a thread of its own, so that keys are answered while an
 * agent is slow or gone. */
#ifndef SONDE_CLI_TOP_FEED_H
#define SONDE_CLI_TOP_FEED_H

#include "cli/top_source.h"

struct sonde_top_feed;

/* Starts reading. source is borrowed and must outlive the feed. */
int sonde_top_feed_start(struct sonde_top_source *source, const struct sonde_top_state *s,
                         struct sonde_top_feed **out, struct sonde_err *err);
void sonde_top_feed_stop(struct sonde_top_feed *f); /* NULL is fine */

/* Becomes readable when there is news. */
int sonde_top_feed_fd(const struct sonde_top_feed *f);

/* Read for this state from now on, beginning at once. */
void sonde_top_feed_ask(struct sonde_top_feed *f, const struct sonde_top_state *s);

/* News since the last call: 1 with the page's data put into pages[], what was there released,
 * and lost empty; or 1 with pages[] unchanged and the reason in lost; 0 if there are none. */
int sonde_top_feed_take(struct sonde_top_feed *f, struct sonde_top_data pages[SONDE_TOP_PAGES],
                        struct sonde_err *lost);

#endif
