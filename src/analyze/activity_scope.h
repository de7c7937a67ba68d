/* activity_scope.h - the part of activity.c on resource and throughput scopes. Private to it. */
#ifndef SONDE_ANALYZE_ACTIVITY_SCOPE_H
#define SONDE_ANALYZE_ACTIVITY_SCOPE_H

#include "analyze/activity.h"

/* Takes a series of scopes in; others are passed over. 0 or SONDE_ENOMEM. */
int activity_on_scope(struct sonde_activity *a, const struct sonde_final_series *s);

/* What follows from all of them, and their order. found: room for `count`. */
void activity_scopes_finish(struct sonde_activity *a, const struct sonde_final_series *series,
                            size_t count, const struct sonde_final_series **found);

#endif
