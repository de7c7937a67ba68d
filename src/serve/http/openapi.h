/* openapi.h - the description of all routes, OpenAPI 3.1, made from the table of routes and that of
 * their parameters. tests/e2e/test_openapi.sh holds the server to it. */
#ifndef SONDE_SERVE_HTTP_OPENAPI_H
#define SONDE_SERVE_HTTP_OPENAPI_H

#include "serve/http/route.h"

/* Routes that the index does not list are left out. r: who asks, for the URL and the token. */
void sonde_openapi(const struct sonde_http_request *r, struct sonde_buf *out);

#endif
