/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded random numbers, one generator per worker and stream: xoshiro256** (Blackman
 * and Vigna), seeded through splitmix64. Not thread-safe: each generator has one owner.
 */
#ifndef SLAM_RNG_H
#define SLAM_RNG_H

#include <stdint.h>

struct slam_rng {
    uint64_t s[4];
};

/* Equal (seed, sequence) give equal numbers; different ones give unrelated numbers. */
void slam_rng_seed(struct slam_rng *rng, uint64_t seed, uint64_t sequence);

uint64_t slam_rng_next(struct slam_rng *rng);

/* Uniform in [0, bound), without bias (Lemire's rejection); bound 0 means 2^64. */
uint64_t slam_rng_below(struct slam_rng *rng, uint64_t bound);

/* Exponential with mean 1: -ln(1 - u), u uniform in [0, 1) with 53 bits. */
double slam_rng_exponential(struct slam_rng *rng);

#endif
