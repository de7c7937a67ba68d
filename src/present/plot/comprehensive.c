/* comprehensive.c - one page of what there is: of every other kind the first charts. */
#include <string.h>

#include "present/plot/kind.h"
#include "sonde/sonde.h"

enum { COMPREHENSIVE_EACH = 3 };

static int comprehensive_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    int rc = 0;
    for (size_t i = 0; sonde_plot_kinds[i] && !rc; i++) {
        const struct sonde_plot_kind *kind = sonde_plot_kinds[i];
        const size_t before = page->count;
        if (kind->draw == comprehensive_draw) continue;
        char note[sizeof(page->note)];
        memcpy(note, page->note, sizeof(note));
        rc = kind->draw(d, page);
        memcpy(page->note, note, sizeof(note)); /* what a kind says is of its own picture */
        while (page->count > before + COMPREHENSIVE_EACH) {
            sonde_chart_release(&page->charts[--page->count]);
        }
    }
    return rc;
}

const struct sonde_plot_kind sonde_plot_comprehensive = {
    .name = "comprehensive",
    .summary = "one page of what there is",
    .needs = "anything that another kind draws",
    .hint = "`sonde plot --list` says what each kind needs.",
    .role = -1,
    .draw = comprehensive_draw,
};
