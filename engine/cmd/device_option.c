/* device_option.c - see device_option.h. */
#include "cmd/device_option.h"

#include "cmd/command.h"
#include "opencl/opencl.h"

int device_list(const char *command, const char *text)
{
    struct opencl_wish wish;
    struct fail why;
    if (opencl_wish_parse(text, &wish, &why)) return command_bad(command, "%s", why.text);
    if (wish.kind != OPENCL_WISH_LIST) return 0;
    opencl_list_print(stdout);
    return DEVICE_LISTED;
}
