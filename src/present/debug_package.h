/* debug_package.h - which package has the debug symbols of a file, on systems with dpkg. */
#ifndef SONDE_PRESENT_DEBUG_PACKAGE_H
#define SONDE_PRESENT_DEBUG_PACKAGE_H

#define SONDE_DEBUG_PACKAGE_MAX 128

/* "libx264-164-dbgsym" for the path of a file that a package has installed here, as the lists in
 * /var/lib/dpkg/info (dir NULL) say. 0, or SONDE_ENOENT: no package has, or there is no dpkg. */
int sonde_debug_package(const char *dir, const char *path, char out[SONDE_DEBUG_PACKAGE_MAX]);

#endif
