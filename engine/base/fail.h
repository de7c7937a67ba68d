/* fail.h - why something could not be done, in a sentence for a person: what, on what, what to
 * do. */
#ifndef ENGINE_BASE_FAIL_H
#define ENGINE_BASE_FAIL_H

struct fail { char text[320]; };

/* Always -1, so that `return fail_set(why, …)` says and returns. why may be NULL. */
int fail_set(struct fail *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
