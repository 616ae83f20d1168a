/* SPDX-License-Identifier: Apache-2.0 */
/* How long requests of a stream wait without any response. Pure: times are given. */
#ifndef SLAM_WAIT_H
#define SLAM_WAIT_H

#include "core/clock.h"
#include "core/recorder.h"

#include <stdint.h>

/* A client that sends nothing for this long after its request timed out has thought. */
#define SLAM_THOUGHT_NS UINT64_C(10000000)

#define SLAM_SLOTS 64u

/* A planned interval, in slots of the same length, as bits. */
struct slam_slots {
    uint64_t start_ns;
    uint64_t slot_ns;
    SLAM_STREAM_SLOTS(SLAM_MEMBER)
};

/* CLOCK_MONOTONIC; 0: none. All but the slots and the last response belong to one
 * wait. */
struct slam_wait {
    /* of the open interval, which ends late, and of the next one */
    struct slam_slots slots[2];
    uint64_t heard_from_ns; /* the slot of the last response */
    uint64_t heard_until_ns;
    uint64_t responded_ns; /* the last response */
    /* The later of it and of the first request that was sent after it and has none.
     * Lost requests, and requests that timed out, still wait. */
    uint64_t since_ns;
    uint64_t given_up_ns; /* no request is in flight since then */
    uint64_t failed_ns;   /* the last failed attempt to connect */
    uint64_t resent_ns;   /* the first request after it */
};

/* A response came in another slot than the last response. */
static inline void
slam_wait_hear(struct slam_wait *wait, uint64_t received_ns)
{
    struct slam_slots *slots = &wait->slots[received_ns >= wait->slots[1].start_ns];
    uint64_t slot = slam_earlier_ns(
        slam_since_ns(received_ns, slots->start_ns) / slots->slot_ns, SLAM_SLOTS - 1);

    slots->heard |= UINT64_C(1) << slot;
    wait->heard_from_ns = slots->start_ns + slot * slots->slot_ns;
    wait->heard_until_ns = wait->heard_from_ns + slots->slot_ns;
}

/* Something waited in all of this time. */
static inline void
slam_wait_cover(struct slam_wait *wait, uint64_t since_ns, uint64_t until_ns)
{
    if (slam_since_ns(until_ns, since_ns) < wait->slots[0].slot_ns)
        return; /* as of most waits */
    for (struct slam_slots *slots = wait->slots; slots < wait->slots + 2; slots++) {
        uint64_t ns = slots->slot_ns;
        uint64_t end = slam_since_ns(until_ns, slots->start_ns) / ns;

        for (uint64_t i = (slam_since_ns(since_ns, slots->start_ns) + ns - 1) / ns;
             i < slam_earlier_ns(end, SLAM_SLOTS); i++)
            slots->waited |= UINT64_C(1) << i;
    }
}

/* Covers what is certain of the wait. Returns its length. */
static inline uint64_t
slam_wait_prove(struct slam_wait *wait, uint64_t until_ns)
{
    uint64_t resent_ns = wait->resent_ns ? wait->resent_ns : until_ns;

    if (!wait->failed_ns)
        resent_ns = wait->since_ns;
    else /* the directory may have been back between the failure and the next request */
        slam_wait_cover(wait, wait->since_ns, wait->failed_ns);
    slam_wait_cover(wait, resent_ns, until_ns);
    return slam_since_ns(wait->failed_ns, wait->since_ns) +
           slam_since_ns(until_ns, resent_ns);
}

static inline void
slam_wait_clear(struct slam_wait *wait)
{
    wait->since_ns = wait->given_up_ns = wait->failed_ns = wait->resent_ns = 0;
}

/* Ends the wait and records it. */
static inline void
slam_wait_end(struct slam_wait *wait, struct slam_stream_record *stream,
              uint64_t until_ns)
{
    struct slam_silence silence = {
        .after_ns = wait->responded_ns,
        .since_ns = wait->since_ns,
        .until_ns = until_ns,
    };

    if (wait->since_ns) {
        silence.through_ns = wait->since_ns + slam_wait_prove(wait, until_ns);
        slam_stream_record_silence(stream, &silence);
    }
    slam_wait_clear(wait);
}

/* A response came, to any request. The oldest request in flight, 0: none, waits on. */
static inline void
slam_wait_responded(struct slam_wait *wait, struct slam_stream_record *stream,
                    uint64_t received_ns, uint64_t oldest_sent_ns)
{
    slam_wait_end(wait, stream, received_ns);
    if (received_ns < wait->heard_from_ns || received_ns >= wait->heard_until_ns)
        slam_wait_hear(wait, received_ns);
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
        slam_wait_clear(wait);
    else if (wait->since_ns)
        wait->since_ns = slam_later_ns(wait->since_ns, oldest_sent_ns);
}

/* At the end of an interval, which may come again: what waits goes on. */
static inline void
slam_wait_report(struct slam_wait *wait, struct slam_stream_record *stream,
                 uint64_t now_ns)
{
    if (wait->since_ns)
        slam_wait_prove(wait, wait->given_up_ns ? wait->given_up_ns : now_ns);
    stream->waiting_since_ns = wait->since_ns;
    stream->heard = wait->slots[0].heard;
    stream->waited = wait->slots[0].waited;
}

/* Goes on to the next interval. What follows it has this number; from `count` on it is
 * the drain. Intervals end at these times after T0. */
static inline void
slam_wait_advance(struct slam_wait *wait, uint64_t t0_ns, const uint64_t *ends_ns,
                  size_t count, size_t number)
{
    uint64_t start_ns = number ? ends_ns[slam_earlier_ns(number, count) - 1] : 0;
    uint64_t end_ns = number < count ? ends_ns[number] : UINT64_MAX;

    wait->slots[0] = wait->slots[1];
    wait->slots[1] = (struct slam_slots){
        .start_ns = t0_ns + start_ns,
        .slot_ns = slam_later_ns((end_ns - start_ns) / SLAM_SLOTS, 1)};
}

#endif
