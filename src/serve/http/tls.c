/* tls.c - see tls.h. */
#include "serve/http/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "sonde/sonde.h"

enum { PEM_MAX = 1 << 20 };

/* secret: nobody else may be able to read it. */
static int read_pem(const char *path, const char *mark, int secret, char **out,
                    struct sonde_err *err)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0) {
        const int error = errno;
        if (fd >= 0) close(fd);
        return sonde_err_set(err, SONDE_EINVAL, "cannot read '%s': %s", path, strerror(error));
    }
    int rc = 0;
    ssize_t n = 0;
    char *text = NULL;
    if (!S_ISREG(st.st_mode) || st.st_size > PEM_MAX) {
        rc = sonde_err_set(err, SONDE_EINVAL, "'%s' is not a file in PEM", path);
    } else if (secret && st.st_mode & (S_IRWXG | S_IRWXO)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "the key '%s' can be read by others: chmod 600 it",
                           path);
    } else if (!(text = sonde__alloc((size_t)st.st_size + 1))) {
        rc = sonde_err_memory(err);
    } else if ((n = sonde_file_read_full(fd, text, (size_t)st.st_size)) < 0) {
        rc = sonde_err_set(err, SONDE_EIO, "cannot read '%s': %s", path, strerror(errno));
    } else {
        text[n] = '\0';
        if (!strstr(text, mark)) {
            rc = sonde_err_set(err, SONDE_EINVAL, "'%s' holds no \"%s\": it must be in PEM", path,
                               mark);
        }
    }
    close(fd);
    if (rc) sonde__free(text);
    else *out = text;
    return rc;
}

int sonde_tls_read(struct sonde_tls *t, const char *certificate, const char *key,
                   struct sonde_err *err)
{
    const int has_certificate = certificate && *certificate, has_key = key && *key;
    *t = (struct sonde_tls){ 0 };
    if (!has_certificate && !has_key) return 0;
    if (!has_certificate || !has_key) {
        return sonde_err_set(err, SONDE_EINVAL, "TLS takes both server.tls_certificate and "
                                                "server.tls_key: %s is missing",
                             has_key ? "the first" : "the second");
    }
    int rc = read_pem(certificate, "-----BEGIN CERTIFICATE-----", 0, &t->certificate, err);
    if (!rc) rc = read_pem(key, "PRIVATE KEY-----", 1, &t->key, err);
    if (rc) sonde_tls_release(t);
    return rc;
}

void sonde_tls_release(struct sonde_tls *t)
{
    if (t->key) explicit_bzero(t->key, strlen(t->key));
    sonde__free(t->key);
    sonde__free(t->certificate);
    *t = (struct sonde_tls){ 0 };
}
