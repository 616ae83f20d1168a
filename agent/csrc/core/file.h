/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are mapped whole and read only. Truncating one meanwhile is a SIGBUS. */
#ifndef SLAM_FILE_H
#define SLAM_FILE_H

#include "core/slam_err.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* *at is NULL for an empty file, and after a failure. The caller unmaps. All pages are
 * read at once: none is read from the disk while requests are due. */
static inline int
slam_file_map(const char *path, void **at, size_t *len, char *err)
{
    struct stat status = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_open = fd >= 0 && fstat(fd, &status) == 0;
    int rc = SLAM_OK;

    *at = NULL;
    *len = (size_t)status.st_size;
    if (S_ISREG(status.st_mode) && *len > 0)
        *at = mmap(NULL, *len, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (!is_open || *at == MAP_FAILED) {
        *at = NULL;
        rc = slam_fail(err, SLAM_ESYS, "cannot read '%s': %s", path, strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        rc = slam_fail(err, SLAM_EINVAL, "'%s' is not a file", path);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

#endif
