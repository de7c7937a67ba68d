/* mute.h - when which alerts are not sent: they are listed as muted all the same.
 *
 * As JSON, in the setting alerts.mute and by POST /api/alerts/mutes:
 *   {"labels": {"kind": "memory*", "process": "llama*"},   globs; all must match. kind and severity
 *                                                          may stand among them; none = all alerts
 *    "from": 1700000000, "to": 1700003600,                 unix time; either may be left out
 *    "seconds": 3600,                                      instead of to: from now on
 *    "weekly": "Mon-Fri 22:00-06:00; Sun",                 local time; a window over midnight is of
 *                                                          the day on which it begins; no hours =
 *                                                          all day
 *    "comment": "maintenance"} */
#ifndef SONDE_ALERT_MUTE_H
#define SONDE_ALERT_MUTE_H

#include <time.h>

#include "alert/subject.h"

enum { ALERT_MUTE_LABELS_MAX = 8, ALERT_MUTES_MAX = 200, ALERT_MUTE_HOURS_MAX = 8 };

/* Some days of a week, and minutes of them. */
struct alert_hours {
    uint32_t days;               /* bit 0 = Sunday, as tm_wday */
    uint32_t from_min, to_min;   /* of the day; to <= from: into the next day */
};

struct alert_mute {
    uint64_t id;
    uint32_t fixed;              /* of the settings: is not unmuted and not saved */
    struct alert_labels labels;  /* values are globs */
    double from_s, to_s;         /* 0 = no limit */
    char weekly[128];            /* as it was given; "" = at any hour */
    struct alert_hours hours[ALERT_MUTE_HOURS_MAX];
    uint32_t hour_count;
    char comment[201];
};

struct alert_mutes {
    struct alert_mute *at;
    size_t count, cap;
    uint64_t last_id;
};

void alert_mutes_release(struct alert_mutes *m);

/* "Mon-Fri 22:00-06:00; Sun". SONDE_EINVAL and what is wrong. */
int alert_hours_parse(const char *text, struct alert_hours out[ALERT_MUTE_HOURS_MAX],
                      uint32_t *count, struct sonde_err *err);
/* 1 = tm lies in it. */
int alert_hours_has(const struct alert_hours *h, const struct tm *tm);

/* One JSON object, and an array of them (fixed ones). */
int alert_mutes_add(struct alert_mutes *m, const char *body, size_t len, double now_s,
                    uint64_t *id, struct sonde_err *err);
int alert_mutes_parse(struct alert_mutes *m, const char *json, double now_s, struct sonde_err *err);
/* SONDE_ENOENT, SONDE_EACCES (fixed). */
int alert_mutes_remove(struct alert_mutes *m, uint64_t id, struct sonde_err *err);
/* Those that are over go. 1 = some did. */
int alert_mutes_tidy(struct alert_mutes *m, double now_s);

/* The id of a mute that applies to it now; 0 = none. local: now as localtime() has it. */
uint64_t alert_mutes_match(const struct alert_mutes *m, const struct alert_subject *what,
                           double now_s, const struct tm *local);
/* 1 = it applies at that time, to what it matches. */
int alert_mute_now(const struct alert_mute *mute, double now_s, const struct tm *local);

/* Those that are not fixed. */
void alert_mutes_state(struct sonde_state *s, struct alert_mutes *m);

#endif
