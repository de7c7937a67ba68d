/* room.h - how much of a file system the segments of all processes together may take. */
#ifndef SONDE_RECORD_ROOM_H
#define SONDE_RECORD_ROOM_H

#include <stdint.h>

/* May one more segment be made in dirfd, where there are so many? */
int sonde__room_is_left(int dirfd, uint32_t segments);

/* Count, for the agent, a process that records nothing since there was no room for its segment. */
void sonde__room_missed(int dirfd);

#endif
