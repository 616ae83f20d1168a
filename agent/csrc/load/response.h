/* SPDX-License-Identifier: Apache-2.0 */
/* Taking responses, from the socket to the histograms. Worker thread only. */
#ifndef SLAM_RESPONSE_H
#define SLAM_RESPONSE_H

#include "load/flow.h"

/* Prefetches what a read will touch. `near` comes one step before the read, after
 * `!near`. */
void slam_response_prefetch(const struct slam_conn *conn, bool near);

/* Epoll says that the socket is readable: slam_transport_readable. */
void slam_response_expect(struct slam_conn *conn, bool hung_up);

/* Reads once and handles the messages. False: there is no more; else the ready list
 * comes before the next read. */
bool slam_response_read(struct slam_conn *conn);

#endif
