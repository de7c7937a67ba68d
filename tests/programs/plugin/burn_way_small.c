/* A module with one function that calls back, with a frame of FRAME words and some: see
 * ways.cpp. */
#ifndef FRAME
#define FRAME 0x81
#endif

void plugin_way(void (*call)(void));

/* Whoever takes its frame for smaller than it is finds a return address there, too. */
void plugin_way(void (*call)(void))
{
    void *volatile room[FRAME];
    for (int i = 0; i < FRAME; i++) room[i] = __builtin_return_address(0);
    call();
    __asm__ volatile("" ::"r"(room) : "memory");
}
