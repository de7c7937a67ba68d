/* accept.h - HTTP content negotiation (RFC 9110, 12.4, 12.5), and what a client has (13.1.2). */
#ifndef SONDE_SERVE_HTTP_ACCEPT_H
#define SONDE_SERVE_HTTP_ACCEPT_H

#include "serve/export/export.h"

/* The exposition format for an Accept header (NULL = none): the best by q; among equals
 * protobuf, then OpenMetrics, then text. Text 0.0.4 when none is asked for, also for an Accept
 * that names nothing we have: an answer that may be of use beats an error to a scraper. */
const struct sonde_export_ops *sonde_accept_metrics(const char *accept);

/* 1 if an Accept-Encoding header (NULL = none) allows gzip. */
int sonde_accept_gzip(const char *accept_encoding);

/* 1 if the Accept header names HTML, and not plain text before it: a browser. */
int sonde_accept_html(const char *accept);

/* 1 if an If-None-Match header (NULL = none) names the file of this hash, packed or not, or "*". */
int sonde_accept_has(const char *if_none_match, const char *hash);
/* The ETag of a file: packed and unpacked differ byte by byte, so they have one each. */
#define SONDE_ETAG_MAX 80
void sonde_accept_etag(char out[SONDE_ETAG_MAX], const char *hash, int packed);

#endif
