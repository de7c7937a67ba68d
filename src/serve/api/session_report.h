/* session_report.h - a profile as the answers of /admin/profile/… have it: the short report with
 * its bottlenecks, and two profiles compared. */
#ifndef SONDE_SERVE_API_SESSION_REPORT_H
#define SONDE_SERVE_API_SESSION_REPORT_H

#include "serve/http/route.h"

/* {"profile_id","duration_seconds","cpu":{…},"memory":{…},"bottlenecks":[…] and no bracket at the
 * end: the caller has more to say. What there are no samples of is left out. */
int sonde_session_report(const struct sonde_http_request *r, const struct sonde_profile *p,
                         struct sonde_buf *out,
                         struct sonde_err *err);

/* "notes":[…]: what is not in a profile, and why. */
void sonde_api_put_notes(struct sonde_buf *out, const char (*notes)[256], size_t count);

/* A profile on demand that a has the answer of is kept as well. An answer in JSON gets "id" and
 * "name", or why it could not be kept. */
void sonde_session_keep_answer(struct sonde_sessions *s, const char *name, const char *kind,
                               const struct sonde_profile *p, struct sonde_response *answer);

/* A flame graph of the samples that pass f, as the answer. title NULL: what the kind is called. */
struct sonde_api_picture { const char *title, *subtitle; int html; };
int sonde_api_picture(const struct sonde_http_request *r, const struct sonde_profile *p,
                      const struct sonde_profile_filter *f, const struct sonde_api_picture *look,
                      struct sonde_response *answer, struct sonde_err *err);
/* The same in a format of profile/format.h. filename: what a browser saves a packed one as. */
int sonde_api_format(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                     const char *format, const char *filename, struct sonde_response *answer,
                     struct sonde_err *err);

/* A picture of samples of this kind (-1 = the first there is), or the reason that there is none. */
void sonde_session_picture(const struct sonde_http_request *r, const struct sonde_profile *p,
                           int kind, const char *label, int html, struct sonde_response *answer);

/* A profile that is kept, by its id or name, as GET /admin/profiles/ID answers. */
void sonde_session_show_kept(const struct sonde_http_request *r, const char *name,
                             struct sonde_response *answer);

struct sonde_session_side {
    const struct sonde_profile *profile;
    const char *label;
    uint64_t from_ns, to_ns;   /* 0 0 = all of it */
};

/* after compared with before. format: json, text, markdown, svg, html. kind: of functions; -1 = the
 * first there is. */
void sonde_session_compare(const struct sonde_http_request *r,
                           const struct sonde_session_side *before,
                           const struct sonde_session_side *after, int kind, const char *format,
                           struct sonde_response *answer);

#endif
