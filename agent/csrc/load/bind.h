/* SPDX-License-Identifier: Apache-2.0 */
/* A SASL bind of several steps as the load itself: one operation to the job, one
 * request to the directory for each step. sasl.h computes. Worker thread only. */
#ifndef SLAM_BIND_H
#define SLAM_BIND_H

#include "ldap/content.h"
#include "load/flow.h"

/* Before the first request: its credentials go into the session's variable. False when
 * the exchange cannot begin. */
bool slam_bind_begin(struct slam_slot *slot, struct slam_session *session,
                     const struct slam_session_spec *spec);

/* A bind response: goes on with the exchange. True when it is not over, and another
 * request is to be sent. */
bool slam_bind_continue(struct slam_slot *slot, const struct slam_stream_op *op,
                        int32_t code, const struct slam_bytes *message);

#endif
