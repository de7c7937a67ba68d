#include "base/errno.h"

#include <errno.h>

#include "sonde/sonde.h"

int sonde__from_errno(int error)
{
    switch (error) {
    case 0: return 0;
    case ENOENT: case ENOTDIR: case ESRCH: return SONDE_ENOENT;
    case EACCES: case EPERM: case EROFS: case ELOOP: return SONDE_EACCES;
    case ENOSPC: case EDQUOT: case EFBIG: return SONDE_ENOSPC;
    case ENOMEM: case EMFILE: case ENFILE: return SONDE_ENOMEM;
    case EINVAL: case EISDIR: case ENAMETOOLONG: return SONDE_EINVAL;
    case EEXIST: return SONDE_EEXIST;
    case EBUSY: return SONDE_EBUSY;
    default: return SONDE_EIO;
    }
}
