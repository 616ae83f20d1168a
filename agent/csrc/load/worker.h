/* SPDX-License-Identifier: Apache-2.0 */
/* One engine thread: an epoll loop over connections, load models and recorder. A worker
 * carries open or closed streams, not both: pacing never meets a busy closed loop. */
#ifndef SLAM_WORKER_H
#define SLAM_WORKER_H

#include "load/flow.h"

int slam_worker_create(const struct slam_worker_config *config,
                       struct slam_worker **worker, char *err);
/* The thread must have ended or never been started. */
void slam_worker_destroy(struct slam_worker *worker);

/* Hands every connection to the connector; before slam_worker_start. */
void slam_worker_connect(struct slam_worker *worker);

int slam_worker_start(struct slam_worker *worker);
void slam_worker_join(struct slam_worker *worker);

size_t slam_worker_connections(const struct slam_worker *worker);

#endif
