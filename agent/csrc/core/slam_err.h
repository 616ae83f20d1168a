/* SPDX-License-Identifier: Apache-2.0 */
/* Error numbers of the engine: functions return 0 or one of these, negative. */
#ifndef SLAM_ERR_H
#define SLAM_ERR_H

#include <stddef.h>
#include <stdio.h>

enum slam_err {
    SLAM_OK = 0,
    SLAM_ENOMEM = -1,   /* no memory */
    SLAM_EINVAL = -2,   /* an argument is out of its range */
    SLAM_ESYS = -3,     /* a system call failed; the text names it */
    SLAM_ECONNECT = -4, /* a directory could not be reached or refused us */
    SLAM_ESTATE = -5    /* called in the wrong state */
};

/* Writes the reason into err. Returns rc. */
static inline int
slam_fail(char *err, size_t err_len, int rc, const char *reason)
{
    snprintf(err, err_len, "%s", reason);
    return rc;
}

#endif
