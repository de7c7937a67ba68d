/* page_private.h - what writing a page shares among its files. */
#ifndef SONDE_PRESENT_PLOT_PAGE_PRIVATE_H
#define SONDE_PRESENT_PLOT_PAGE_PRIVATE_H

#include "present/plot/page.h"

/* 0, SONDE_ENOMEM or SONDE_EFULL. */
int sonde_plot_page_svg(const struct sonde_plot_page *p, const struct sonde_plot_look *look,
                        struct sonde_buf *out);
int sonde_plot_page_html(const struct sonde_plot_page *p, const struct sonde_plot_look *look,
                         struct sonde_buf *out);

#endif
