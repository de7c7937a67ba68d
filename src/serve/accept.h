/* accept.h - HTTP content negotiation (RFC 9110, 12.4 and 12.5). */
#ifndef SONDE_SERVE_ACCEPT_H
#define SONDE_SERVE_ACCEPT_H

#include "serve/export.h"

/* The exposition format for an Accept header (NULL = none): the best by q; among equals
 * protobuf, then OpenMetrics, then text. Text 0.0.4 when none is asked for, also for an Accept
 * that names nothing we have: an answer that may be of use beats an error to a scraper. */
const struct sonde_export_ops *sonde_accept_metrics(const char *accept);

/* 1 if an Accept-Encoding header (NULL = none) allows gzip. */
int sonde_accept_gzip(const char *accept_encoding);

/* 1 if the Accept header names HTML: a browser. */
int sonde_accept_html(const char *accept);

#endif
