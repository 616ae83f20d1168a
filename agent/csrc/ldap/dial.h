/* SPDX-License-Identifier: Apache-2.0 */
/* Connects to addresses that somebody else resolved and checked: no name is looked up,
 * so that nothing but what was checked can be reached. */
#ifndef SLAM_DIAL_H
#define SLAM_DIAL_H

#include <stdint.h>

/* Connects a TCP socket to the first of the addresses that accepts; each gets
 * timeout_ns. `addresses` are numeric, "ADDRESS/PORT" with spaces between them. Blocks.
 * Returns a blocking socket, which is the caller's; or -1 with errno of the last
 * address tried (EINVAL: it is none). Any thread. */
int slam_dial(const char *addresses, uint64_t timeout_ns);

#endif
