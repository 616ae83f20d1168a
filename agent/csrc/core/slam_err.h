/* SPDX-License-Identifier: Apache-2.0 */
/* Error numbers. A function that returns int returns 0 or one of these, negative; where
 * it has a parameter `err`, it writes the reason there: SLAM_ERR_LEN bytes of the
 * caller's. */
#ifndef SLAM_ERR_H
#define SLAM_ERR_H

#include <stdarg.h>
#include <stdio.h>

#define SLAM_ERR_LEN 512

enum slam_err {
    SLAM_OK = 0,
    SLAM_ENOMEM = -1,   /* no memory */
    SLAM_EINVAL = -2,   /* an argument is out of its range */
    SLAM_ESYS = -3,     /* a system call failed; the text names it */
    SLAM_ECONNECT = -4, /* a directory could not be reached or refused us */
    SLAM_ESTATE = -5    /* called in the wrong state */
};

/* Writes the reason into err. Returns rc. */
__attribute__((format(printf, 3, 4))) static inline int
slam_fail(char *err, int rc, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(err, SLAM_ERR_LEN, format, args);
    va_end(args);
    return rc;
}

#endif
