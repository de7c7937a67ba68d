/* canvas_text.c - see canvas_text.h. */
#include "present/plot/canvas_text.h"

#include <dlfcn.h>
#include <fontconfig/fontconfig.h>
#include <pthread.h>
#include <string.h>

#include "present/plot/canvas_private.h"
#include "present/text.h"

enum { RUN_MAX = 512, FONTS_MAX = 256, LATIN_END = 0x250 };

#define FONT_FUNCTIONS(X)                                                                      \
    X(FcPatternCreate) X(FcPatternAddString) X(FcConfigSubstitute) X(FcDefaultSubstitute)      \
    X(FcFontSort) X(FcFontSetDestroy) X(FcPatternDestroy) X(FcPatternGetCharSet)               \
    X(FcPatternGetString) X(FcCharSetHasChar)

/* The fonts there are, the usual one first; only those that have what the ones before lack. */
static struct canvas_fonts {
    pthread_mutex_t lock;
    int looked;                /* set is known, if only as NULL */
    FcFontSet *set;            /* owned */
#define SONDE__X(name) __typeof__(&name) name;
    FONT_FUNCTIONS(SONDE__X)
#undef SONDE__X
} fonts = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* fontconfig is there wherever cairo draws text; without it there is one font. */
static int canvas_fonts_load(void)
{
    void *library = dlopen("libfontconfig.so.1", RTLD_LAZY | RTLD_NOLOAD), *found;
    if (!library) return 0;
    int all = 1;
#define SONDE__X(name)                                                                          \
    found = dlsym(library, #name);                                                              \
    all &= found != NULL;                                                                       \
    memcpy(&fonts.name, &found, sizeof(found));
    FONT_FUNCTIONS(SONDE__X)
#undef SONDE__X
    dlclose(library); /* cairo has it open */
    return all;
}

static void canvas_fonts_find(void)
{
    static const FcChar8 usual[] = SONDE_CANVAS_FONT;
    FcResult result;
    if (!canvas_fonts_load()) return;
    FcPattern *p = fonts.FcPatternCreate();
    if (!p) return;
    if (fonts.FcPatternAddString(p, FC_FAMILY, usual) &&
        fonts.FcConfigSubstitute(NULL, p, FcMatchPattern)) {
        fonts.FcDefaultSubstitute(p);
        fonts.set = fonts.FcFontSort(NULL, p, FcTrue, NULL, &result);
    }
    fonts.FcPatternDestroy(p);
}

void sonde_canvas_forget_choice(void)
{
    pthread_mutex_lock(&fonts.lock);
    if (fonts.set) fonts.FcFontSetDestroy(fonts.set);
    fonts.set = NULL;
    fonts.looked = 0;
    pthread_mutex_unlock(&fonts.lock);
}

static int canvas_font_has(int font, uint32_t code)
{
    FcCharSet *chars = NULL;
    return fonts.FcPatternGetCharSet(fonts.set->fonts[font], FC_CHARSET, 0, &chars) ==
               FcResultMatch && fonts.FcCharSetHasChar(chars, code);
}

/* The font of a character: the usual one for what that has, or that of the character before it;
 * 0 also for what none has. */
static int canvas_font_of(uint32_t code, int before)
{
    if (code < LATIN_END || !fonts.set || canvas_font_has(0, code)) return 0;
    if (before && canvas_font_has(before, code)) return before;
    for (int i = 1; i < fonts.set->nfont && i < FONTS_MAX; i++) {
        if (canvas_font_has(i, code)) return i;
    }
    return 0;
}

static double canvas_show_run(cairo_t *cr, const char *run, int font, double size, int bold,
                              int draw)
{
    FcChar8 *family = NULL;
    cairo_text_extents_t e;
    sonde_canvas_font(cr, size, bold);
    if (font && fonts.FcPatternGetString(fonts.set->fonts[font], FC_FAMILY, 0, &family) ==
                    FcResultMatch) {
        cairo_select_font_face(cr, (const char *)family, CAIRO_FONT_SLANT_NORMAL,
                               bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    }
    cairo_text_extents(cr, run, &e);
    if (draw) cairo_show_text(cr, run); /* the current point is behind it now */
    return e.x_advance;
}

static double canvas_show_runs(cairo_t *cr, const char *text, double size, int bold, int draw)
{
    char run[RUN_MAX];
    size_t used = 0, at = 0;
    const size_t len = strlen(text);
    double width = 0;
    int font = 0;
    while (at < len) {
        struct sonde_glyph g;
        const size_t bytes = sonde_text_next(text + at, len - at, 0, &g);
        const int wanted = canvas_font_of(g.code, font);
        if (used && (wanted != font || used + bytes >= sizeof(run))) {
            run[used] = '\0';
            width += canvas_show_run(cr, run, font, size, bold, draw);
            used = 0;
        }
        font = wanted;
        if (bytes < sizeof(run)) {
            memcpy(run + used, text + at, bytes);
            used += bytes;
        }
        at += bytes;
    }
    run[used] = '\0';
    return used ? width + canvas_show_run(cr, run, font, size, bold, draw) : width;
}

double sonde_canvas_show(cairo_t *cr, const char *harmless, double size, int bold, int draw)
{
    const char *c = harmless;
    while (*c && (unsigned char)*c < 0x80) c++;
    if (!*c) return canvas_show_run(cr, harmless, 0, size, bold, draw);
    pthread_mutex_lock(&fonts.lock);
    if (!fonts.looked) canvas_fonts_find();
    fonts.looked = 1;
    const double width = canvas_show_runs(cr, harmless, size, bold, draw);
    pthread_mutex_unlock(&fonts.lock);
    return width;
}
