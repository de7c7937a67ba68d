/* tls.h - the certificate the service shows, and its key. */
#ifndef SONDE_SERVE_HTTP_TLS_H
#define SONDE_SERVE_HTTP_TLS_H

#include "base/err.h"

struct sonde_tls { char *certificate, *key; }; /* PEM; NULL NULL = none. Owned */

/* From files; both, or neither ("" or NULL). SONDE_EINVAL: only one, or it cannot be read or is not
 * PEM, or others may read the key. */
int sonde_tls_read(struct sonde_tls *t, const char *certificate, const char *key,
                   struct sonde_err *err);
void sonde_tls_release(struct sonde_tls *t);

#endif
