/* SPDX-License-Identifier: Apache-2.0 */
/* Taking responses: from the socket to the histograms, the same for every load model.
 *
 * Worker thread only. Times are CLOCK_MONOTONIC in ns. */
#ifndef SLAM_RESPONSE_H
#define SLAM_RESPONSE_H

#include "load/flow.h"

/* Asks for what a read will touch: with thousands of connections nothing of the next
 * one is in the cache. `near` comes one step before the read, after `!near`. */
void slam_response_prefetch(const struct slam_conn *conn, bool near);

/* Epoll says that the socket is readable; hung_up: the peer has sent its last byte or
 * the connection is broken. Before slam_response_read. */
void slam_response_expect(struct slam_conn *conn, bool hung_up);

/* Reads once and handles the messages in it. Returns false when there is no more to
 * read; else the ready list comes before the next read. */
bool slam_response_read(struct slam_conn *conn);

#endif
