/* cairo_late.c - see cairo_late.h. */
#define SONDE_CAIRO_LATE_OWN
#include "present/plot/cairo_late.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "sonde/sonde.h"

struct sonde_cairo sonde_cairo;
static pthread_once_t cairo_once = PTHREAD_ONCE_INIT;
static const char *cairo_missing = "libcairo.so.2"; /* what was not found; NULL = nothing */

static void cairo_find(void)
{
    /* Never closed: fonts that it caches are used until the end. */
    void *library = dlopen("libcairo.so.2", RTLD_LAZY | RTLD_LOCAL);
    if (!library) return;
    cairo_missing = NULL;
#define SONDE__X(name)                                                                          \
    {                                                                                           \
        void *found = dlsym(library, #name);                                                    \
        if (!found) cairo_missing = #name;                                                      \
        memcpy(&sonde_cairo.name, &found, sizeof(found));                                       \
    }
    SONDE_CAIRO_FUNCTIONS(SONDE__X)
#undef SONDE__X
}

int sonde_cairo_load(struct sonde_err *err)
{
    pthread_once(&cairo_once, cairo_find);
    if (!cairo_missing) return 0;
    return sonde_err_set(err, SONDE_ENOENT, "pictures need the library cairo, and %s was not "
                         "found: apt-get install libcairo2", cairo_missing);
}

void sonde_cairo_forget(void)
{
    /* fontconfig came with cairo, if at all. */
    void *fonts = dlopen("libfontconfig.so.1", RTLD_LAZY | RTLD_NOLOAD), *found;
    void (*finish)(void);
    if (sonde_cairo.cairo_debug_reset_static_data) sonde_cairo.cairo_debug_reset_static_data();
    if (!fonts) return;
    found = dlsym(fonts, "FcFini");
    memcpy(&finish, &found, sizeof(found));
    if (finish) finish();
    dlclose(fonts);
}
