/* SPDX-License-Identifier: Apache-2.0 */
/* Writes to files, and to readers that may let a writer wait for ever. */
#include "ldif/ldif_internal.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#define POLL_MS 100

static bool
may_stall(int fd)
{
    struct stat status;

    return fstat(fd, &status) == 0 &&
           (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || isatty(fd) == 1);
}

/* Whether a write of PIPE_BUF bytes would not wait; false: is_stopping. */
static bool
await_room(int fd, const _Atomic bool *is_stopping)
{
    struct pollfd waited = {.fd = fd, .events = POLLOUT};

    while (!atomic_load(is_stopping))
        if (poll(&waited, 1, POLL_MS) > 0)
            return true;
    return false;
}

int
ldif_write(int fd, const uint8_t *bytes, size_t len, const _Atomic bool *is_stopping)
{
    const bool is_waited_for = may_stall(fd);
    size_t done = 0;

    while (done < len) {
        size_t count = len - done;
        ssize_t written;

        if (is_waited_for && !await_room(fd, is_stopping))
            return LDIF_STOPPED;
        if (is_waited_for && count > PIPE_BUF)
            count = PIPE_BUF;
        written = write(fd, bytes + done, count);
        if (written >= 0)
            done += (size_t)written;
        else if (errno != EINTR && !(errno == EAGAIN && is_waited_for))
            return -errno;
    }
    return 0;
}
