/* device_option.h - --device, which commands with a model have. */
#ifndef ENGINE_CMD_DEVICE_OPTION_H
#define ENGINE_CMD_DEVICE_OPTION_H

/* For "list" prints the devices and returns DEVICE_LISTED: the command is done. 0: it is one, which
 * may be there or not. Else what command_bad() returns. text may be NULL. */
enum { DEVICE_LISTED = -1 };
int device_list(const char *command, const char *text);

#endif
