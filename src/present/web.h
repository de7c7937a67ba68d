/* web.h - what is built from web/ and embedded in the binary (web/build.mjs writes the C file).
 *
 * Assets are put inside of flame graphs, as text. Files are served under /profiling/ and are the
 * parts of an HTML report: stored as gzip, which is how nearly every browser takes them, so that
 * they are neither compressed nor copied when they are sent. */
#ifndef SONDE_PRESENT_WEB_H
#define SONDE_PRESENT_WEB_H

#include <stddef.h>

struct sonde_web_asset { const unsigned char *data; size_t len; };
extern const struct sonde_web_asset sonde_web_svg_js, sonde_web_viewer_js, sonde_web_viewer_css;

struct sonde_web_file {
    const char *content_type;
    const char *hash;            /* of what is inside; safe in an ETag */
    const char *policy_hash;     /* "sha256-…" of the same, for a Content-Security-Policy */
    const unsigned char *packed; /* gzip */
    size_t packed_len, len;      /* len: unpacked */
};
extern const struct sonde_web_file sonde_web_page_html, sonde_web_icon_svg, sonde_web_app_js,
    sonde_web_app_css, sonde_web_elements_js;

#endif
