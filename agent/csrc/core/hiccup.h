/* SPDX-License-Identifier: Apache-2.0 */
/* How long the host kept a thread from running that had nothing to do but be on time
 * (after jHiccup, G. Tene): it sleeps 1 ms again and again, and what it wakes up late
 * any other thread of the process may have been late as well. Costs a thousand
 * wake-ups a second. */
#ifndef SLAM_HICCUP_H
#define SLAM_HICCUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SLAM_HICCUP_SLEEP_NS UINT64_C(1000000)
/* Timers are never exact: what is late by less is no stall. */
#define SLAM_STALL_MIN_NS UINT64_C(1000000)

struct slam_hiccups {
    uint64_t max_ns;     /* the longest that it woke up late */
    uint64_t stalled_ns; /* sum of the stalls */
};

/* Without a lock: one that an ordinary thread holds would make a real-time thread late.
 * Both are written by the meter's thread and taken by one other. */
struct slam_hiccup_record {
    _Atomic uint64_t max_ns;
    _Atomic uint64_t stalled_ns;
};

void slam_hiccup_note(struct slam_hiccup_record *record, uint64_t late_ns);
/* What was noted since the last call; a sleep that is not over counts later. */
struct slam_hiccups slam_hiccup_take(struct slam_hiccup_record *record);

struct slam_hiccup_meter;

/* With SCHED_FIFO if that is wanted and allowed. Returns 0 or a negative slam_err. */
int slam_hiccup_meter_start(bool want_realtime, struct slam_hiccup_meter **meter,
                            char *err);
struct slam_hiccup_record *slam_hiccup_meter_record(struct slam_hiccup_meter *meter);
/* Ends the thread, within a sleep. NULL is allowed. */
void slam_hiccup_meter_destroy(struct slam_hiccup_meter *meter);

#endif
