/* correlate.h - which series move with a target (analyze/correlate_tracks.h), as text and JSON. */
#ifndef SONDE_PRESENT_REPORT_CORRELATE_H
#define SONDE_PRESENT_REPORT_CORRELATE_H

#include "analyze/correlate_tracks.h"
#include "base/buf.h"

struct sonde_correlate_style {
    int json;
    int all;        /* text: also pairs of which nothing is shown or known */
    int width;      /* of text; 0 = as wide as needed */
    int ascii;
};

/* JSON: {"from","to","step_s","points","lag_max_s","level","pairs","correlated","levels_only",
 * "not_shown","not_known","reasons":{…},"targets":[{"name","labels","process","pid","figure"}, …],
 * "targets_left_out","correlations":[{"target":{…},"series":{…},"verdict","reason","lag_s",
 * "points","innovation","p","p_adjusted","level":{"n_effective","pearson","pearson_low",
 * "pearson_high","pearson_p","spearman", …},"change":{…}}, …]}. What is not known is null. */
void sonde_correlate_write(const struct sonde_correlate_answer *a,
                           const struct sonde_correlate_style *style, struct sonde_buf *out);

#endif
