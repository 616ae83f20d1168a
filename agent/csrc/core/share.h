/* SPDX-License-Identifier: Apache-2.0 */
/* Who takes which member of a sequence that the whole fleet goes through once:
 * arrivals, sequential values, lines of files.
 *
 * The run's C connections are numbered, and connection c is dealt the numbers
 * x = c, c + C, c + 2 C, …, so that the deal is the same however the connections lie on
 * agents and workers, and no x is taken twice or by nobody. A share is what one
 * worker's connections are dealt together; it takes its x in ascending order. */
#ifndef SLAM_SHARE_H
#define SLAM_SHARE_H

#include <stdint.h>

/* The connections first + i * step, i < count, of total. */
struct slam_share {
    uint64_t first;
    uint64_t step;  /* > 0 */
    uint64_t count; /* > 0 where anything is drawn */
    uint64_t total; /* C; first + (count - 1) * step < total */
};

/* Where a share is in one sequence; all zero at first. */
struct slam_share_cursor {
    uint64_t round;
    uint64_t member; /* < count: the next x is round * total + first + member * step */
};

/* The share's next x. */
static inline uint64_t
slam_share_next(const struct slam_share *share, struct slam_share_cursor *cursor)
{
    uint64_t x =
        cursor->round * share->total + share->first + cursor->member * share->step;

    if (++cursor->member == share->count) {
        cursor->member = 0;
        cursor->round++;
    }
    return x;
}

/* How many x < n are in the share. */
static inline uint64_t
slam_share_count(const struct slam_share *share, uint64_t n)
{
    uint64_t rest = n % share->total;
    uint64_t last = 0;

    if (rest > share->first) {
        last = (rest - share->first - 1) / share->step + 1;
        if (last > share->count)
            last = share->count;
    }
    return n / share->total * share->count + last;
}

#endif
