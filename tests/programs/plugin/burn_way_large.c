/* The same code, at the same addresses, with another frame. */
#define FRAME 0x101
#include "burn_way_small.c"
