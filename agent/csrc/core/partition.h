/* SPDX-License-Identifier: Apache-2.0 */
/* How the fleet shares a sequence that it goes through once: arrivals, sequential
 * values, lines of files.
 *
 * The run's C connections are numbered, and connection c gets x = c, c + C, c + 2 C, …,
 * whatever agents and workers carry it. A partition is what one worker's connections
 * get together; it takes its x in ascending order. */
#ifndef SLAM_PARTITION_H
#define SLAM_PARTITION_H

#include <stdint.h>

/* The connections first + i * step, i < count, of total. */
struct slam_partition {
    uint64_t first;
    uint64_t step;  /* > 0 */
    uint64_t count; /* > 0 where anything is drawn */
    uint64_t total; /* C; first + (count - 1) * step < total */
};

/* Where a partition is in one sequence; all zero at first. */
struct slam_partition_cursor {
    uint64_t round;
    uint64_t member; /* < count: the next x is round * total + first + member * step */
};

/* The partition's next x. */
static inline uint64_t
slam_partition_next(const struct slam_partition *partition,
                    struct slam_partition_cursor *cursor)
{
    uint64_t x = cursor->round * partition->total + partition->first +
                 cursor->member * partition->step;

    if (++cursor->member == partition->count) {
        cursor->member = 0;
        cursor->round++;
    }
    return x;
}

/* How many x < n are in the partition. */
static inline uint64_t
slam_partition_count(const struct slam_partition *partition, uint64_t n)
{
    uint64_t rest = n % partition->total;
    uint64_t last = 0;

    if (rest > partition->first) {
        last = (rest - partition->first - 1) / partition->step + 1;
        if (last > partition->count)
            last = partition->count;
    }
    return n / partition->total * partition->count + last;
}

#endif
