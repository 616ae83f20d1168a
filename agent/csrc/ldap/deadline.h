/* SPDX-License-Identifier: Apache-2.0 */
/* Ends a connection that is not set up in time. libldap waits for a TLS handshake
 * without a limit (2.5 with GnuTLS even without sleeping); a shutdown of the socket
 * from another thread is what gets it back.
 *
 * A thread for each deadline under way: milliseconds of a handshake make its cost
 * small, and nothing is shared. The socket is held by a descriptor of its own, so that
 * no other file can ever be meant. */
#ifndef SLAM_DEADLINE_H
#define SLAM_DEADLINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct slam_deadline {
    pthread_t thread;
    int fd;
    int cancel_fd;
    uint64_t timeout_ns;
    bool under_way; /* owner only */
    bool passed;    /* written by the thread, read after its end */
};

/* From now on the socket has that long; a deadline under way ends. Without memory or
 * descriptors for it there is none. Owner's thread. */
void slam_deadline_begin(struct slam_deadline *deadline, int fd, uint64_t timeout_ns);

/* Calls it off; zeroed memory is allowed. True when it had passed: the socket was shut
 * down. Owner's thread. */
bool slam_deadline_end(struct slam_deadline *deadline);

#endif
