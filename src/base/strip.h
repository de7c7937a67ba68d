/* strip.h - what names a person, a machine or a folder, taken out of text that leaves the agent
 * (--strip): of paths the base name stays, command lines go altogether. Whether it is done is
 * decided once, before there are threads. */
#ifndef SONDE_BASE_STRIP_H
#define SONDE_BASE_STRIP_H

void sonde_strip_set(int on);
int sonde_strip_on(void);

/* In place; the text never gets longer, and never empty if it was not. */
void sonde_strip_path(char *path);  /* a path as a whole, relative ones too: "/a/b c" -> "b c" */
void sonde_strip_paths(char *text); /* absolute ones inside of text: "at /a/b.c:3" -> "at b.c:3" */

/* A model that is called by its file is called by that: "/models/tiny.Q4.gguf" -> "tiny.Q4". */
void sonde_strip_gguf(char *name);

/* What labels and attributes of this name hold. */
enum sonde_strip_kind {
    SONDE_STRIP_KEEP,   /* routes of HTTP, which look like paths */
    SONDE_STRIP_PATHS,  /* anything */
    SONDE_STRIP_GONE,   /* command lines, users, hosts: nothing may stay */
};
enum sonde_strip_kind sonde_strip_kind(const char *name);

#endif
