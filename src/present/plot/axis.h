/* axis.h - from values to places: the range that an axis covers, the round numbers on it and how
 * they are written, all with one prefix ("0", "5 ms", "10 ms"). Pure arithmetic. */
#ifndef SONDE_PRESENT_PLOT_AXIS_H
#define SONDE_PRESENT_PLOT_AXIS_H

#include <stddef.h>

#define SONDE_AXIS_TICKS_MAX 64u
#define SONDE_AXIS_LABEL_BYTES 48
#define SONDE_AXIS_VALUE_MAX 1e300 /* what is beyond is not drawn: differences would be infinite */

struct sonde_axis {
    const char *unit;        /* as chart.h has them */
    int log;
    int zero, one;           /* begins at 0, ends at 1 */
    int tight;               /* no air: begins and ends with the values */
    int wanted;              /* ticks, about; 0 = 6 */
    double from, to;         /* of values; of their logarithms if log */
    double begin, end;       /* on the picture */
    double step;             /* between ticks; 0 if log */
    double ticks[SONDE_AXIS_TICKS_MAX];
    size_t tick_count;
};

/* Range and ticks for values from low to high, low <= high, both finite, and above 0 if log. */
void sonde_axis_fit(struct sonde_axis *a, double low, double high);
/* Range and ticks of count names. */
void sonde_axis_names(struct sonde_axis *a, size_t count);
double sonde_axis_place(const struct sonde_axis *a, double v);
/* How a tick is written; not of names. Returns out. */
const char *sonde_axis_label(const struct sonde_axis *a, double tick,
                             char out[SONDE_AXIS_LABEL_BYTES]);

#endif
