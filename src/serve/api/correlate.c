/* correlate.c - see correlate.h. */
#include "serve/api/correlate.h"

#include "profile/profile.h"
#include "sonde/sonde.h"
#include "store/tracks.h"

enum { NAMES_MAX = 16384, TRACKS_BYTES_MAX = 64 << 20 };

int sonde_api_correlate(const struct sonde_store_ops *ops, struct sonde_store *s,
                        const struct sonde_correlate_query *q,
                        const struct sonde_correlate_style *style, struct sonde_buf *out,
                        struct sonde_err *err)
{
    struct sonde_profile *p = NULL;
    struct sonde_correlate_answer a;
    struct sonde_buf names;
    sonde_buf_init(&names, NAMES_MAX);
    sonde_correlate_names(q, &names);
    int rc = names.error ? sonde_err_set(err, SONDE_EINVAL, "too long a list of names") : 0;
    if (!rc && sonde_profile_create(TRACKS_BYTES_MAX, &p) != 0) {
        rc = sonde_err_set(err, SONDE_ENOMEM, "no memory for series");
    }
    if (!rc) rc = sonde_store_tracks(ops, s, names.data, q->from_s, q->to_s, p, err);
    if (!rc) rc = sonde_correlate_tracks(p->tracks, q, &a, err);
    if (!rc) {
        sonde_correlate_write(&a, style, out);
        sonde_correlate_answer_release(&a);
        rc = out->error;
    }
    sonde_profile_destroy(p);
    sonde_buf_release(&names);
    return rc;
}
