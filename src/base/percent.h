/* percent.h - a share as people read it: "12.3 %", "0.006 %", "<0.001 %", never 6e-03 %. */
#ifndef SONDE_BASE_PERCENT_H
#define SONDE_BASE_PERCENT_H

#define SONDE_PERCENT_BYTES 24

/* Of ratio 0.123 "12.3 %"; "unknown" when it is not a number. Returns out. */
const char *sonde_percent_text(char out[SONDE_PERCENT_BYTES], double ratio);

#endif
