/* SPDX-License-Identifier: Apache-2.0 */
/* How long requests of a stream wait without any response. Pure: times are given. */
#ifndef SLAM_WAIT_H
#define SLAM_WAIT_H

#include "core/clock.h"
#include "core/recorder.h"

#include <stdint.h>

/* A client that sends nothing for this long after its request timed out has thought. */
#define SLAM_THOUGHT_NS UINT64_C(10000000)

/* CLOCK_MONOTONIC; 0: none. All but the last response belong to one wait. */
struct slam_wait {
    uint64_t responded_ns; /* the last response */
    /* The later of it and of the first request that was sent after it and has none.
     * Lost requests, and requests that timed out, still wait. */
    uint64_t since_ns;
    uint64_t given_up_ns; /* no request is in flight since then */
    uint64_t failed_ns;   /* the last failed attempt to connect */
    uint64_t resent_ns;   /* the first request after it */
};

/* Ends the wait and records it. */
static inline void
slam_wait_end(struct slam_wait *wait, struct slam_stream_record *stream,
              uint64_t until_ns)
{
    struct slam_silence silence = {
        .after_ns = wait->responded_ns,
        .since_ns = wait->since_ns,
        .through_ns = until_ns,
        .until_ns = until_ns,
    };

    /* the directory may have been back between the failure and the next request */
    if (wait->failed_ns)
        silence.through_ns =
            wait->failed_ns +
            (wait->resent_ns ? slam_since_ns(until_ns, wait->resent_ns) : 0);
    if (wait->since_ns)
        slam_stream_record_silence(stream, &silence);
    *wait = (struct slam_wait){.responded_ns = wait->responded_ns};
}

/* A response came, to any request. The oldest request in flight, 0: none, waits on. */
static inline void
slam_wait_responded(struct slam_wait *wait, struct slam_stream_record *stream,
                    uint64_t received_ns, uint64_t oldest_sent_ns)
{
    slam_wait_end(wait, stream, received_ns);
    wait->responded_ns = slam_later_ns(wait->responded_ns, received_ns);
    if (oldest_sent_ns)
        wait->since_ns = slam_later_ns(wait->responded_ns, oldest_sent_ns);
}

static inline void
slam_wait_sent(struct slam_wait *wait, struct slam_stream_record *stream,
               uint64_t sent_ns)
{
    if (wait->given_up_ns &&
        slam_since_ns(sent_ns, wait->given_up_ns) > SLAM_THOUGHT_NS)
        slam_wait_end(wait, stream, wait->given_up_ns);
    wait->given_up_ns = 0;
    if (!wait->since_ns)
        wait->since_ns = sent_ns;
    if (wait->failed_ns && !wait->resent_ns)
        wait->resent_ns = sent_ns;
}

/* A connection was asked for since then, and not had: that waits, too. The directory
 * was away until `failed_ns` at least. */
static inline void
slam_wait_failed(struct slam_wait *wait, uint64_t since_ns, uint64_t failed_ns)
{
    if (!wait->since_ns)
        wait->since_ns = since_ns;
    wait->failed_ns = failed_ns;
    wait->resent_ns = 0;
}

/* A request that was in flight is to have no response. The oldest one that still is,
 * 0: none, waits on. */
static inline void
slam_wait_forget(struct slam_wait *wait, uint64_t oldest_sent_ns)
{
    if (!oldest_sent_ns)
        *wait = (struct slam_wait){.responded_ns = wait->responded_ns};
    else if (wait->since_ns)
        wait->since_ns = slam_later_ns(wait->since_ns, oldest_sent_ns);
}

#endif
