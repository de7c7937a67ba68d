/* errno.h - the operating system's errors as ours, in one table. */
#ifndef SONDE_BASE_ERRNO_H
#define SONDE_BASE_ERRNO_H

/* 0 for 0, else a negative SONDE_E…; errno itself stays as it is, for strerror().
 *
 *   SONDE_ENOENT  it is not there, or no longer: a process that ended, a path through a file
 *   SONDE_EACCES  it may not be: also a file system that is read-only, a link where none is
 *                 followed
 *   SONDE_ENOSPC  no room, a quota, or larger than files may be
 *   SONDE_ENOMEM  no memory or no more descriptors: nothing is wrong with the file, try again later
 *   SONDE_EINVAL  the wrong kind of thing: a directory, too long a name
 *   SONDE_EEXIST, SONDE_EBUSY   as they are called
 *   SONDE_EIO     all else */
int sonde__from_errno(int error);

#endif
