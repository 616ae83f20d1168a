/* SPDX-License-Identifier: Apache-2.0 */
#include "ldap/deadline.h"

#include "core/clock.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void *
watch(void *argument)
{
    struct slam_deadline *deadline = argument;
    struct pollfd cancelled = {.fd = deadline->cancel_fd, .events = POLLIN};
    uint64_t end_ns = slam_clock_mono_ns() + deadline->timeout_ns;

    for (;;) {
        uint64_t now_ns = slam_clock_mono_ns();
        uint64_t left_ns = end_ns > now_ns ? end_ns - now_ns : 0;
        struct timespec left = {.tv_sec = (time_t)(left_ns / SLAM_NS_PER_S),
                                .tv_nsec = (long)(left_ns % SLAM_NS_PER_S)};
        int n = ppoll(&cancelled, 1, &left, NULL);

        if (n > 0)
            return NULL;
        if (n == 0) {
            deadline->passed = true;
            shutdown(deadline->fd, SHUT_RDWR);
            return NULL;
        }
        if (errno != EINTR)
            return NULL;
    }
}

void
slam_deadline_begin(struct slam_deadline *deadline, int fd, uint64_t timeout_ns)
{
    slam_deadline_end(deadline);
    deadline->passed = false;
    deadline->timeout_ns = timeout_ns;
    deadline->cancel_fd = eventfd(0, EFD_CLOEXEC);
    deadline->fd = dup(fd);
    if (deadline->cancel_fd >= 0 && deadline->fd >= 0 &&
        pthread_create(&deadline->thread, NULL, watch, deadline) == 0) {
        deadline->under_way = true;
        return;
    }
    if (deadline->cancel_fd >= 0)
        close(deadline->cancel_fd);
    if (deadline->fd >= 0)
        close(deadline->fd);
}

bool
slam_deadline_end(struct slam_deadline *deadline)
{
    uint64_t one = 1;

    if (!deadline->under_way)
        return false;
    if (write(deadline->cancel_fd, &one, sizeof(one)) != sizeof(one))
        pthread_cancel(deadline->thread); /* cannot be: the counter is at zero */
    pthread_join(deadline->thread, NULL);
    close(deadline->cancel_fd);
    close(deadline->fd);
    deadline->under_way = false;
    return deadline->passed;
}
