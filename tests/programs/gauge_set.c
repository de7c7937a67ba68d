/* gauge_set.c - a gauge, "shown", that is what its user says: one number per line of input, each
 * answered by a line once it is set. Ends with its input. */
#include <sonde/sonde.h>
#include <stdio.h>

int main(void)
{
    double value;
    const struct sonde_gauge shown = sonde_gauge("shown", "What the test says.");
    sonde_gauge_set(shown, 0);
    while (scanf("%lf", &value) == 1) {
        sonde_gauge_set(shown, value);
        puts("set");
        fflush(stdout);
    }
    return 0;
}
